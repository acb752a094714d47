//! `zaro copy`: the same elements elsewhere, in another form, and refusals.

use crate::common;
use crate::common::{Store, v2_document};

/// A Zarr with one array of 6 × 8 numbers in a group.
fn source() -> Store {
    let s = Store::new();
    s.zaro(&[
        "create",
        "@:/a.zarr",
        "g/x",
        "--shape",
        "6,8",
        "--dtype",
        "int32",
        "--chunks",
        "2,4",
        "--dims",
        "t,x",
    ])
    .text();
    let rows: Vec<String> =
        (0..6).map(|r| (0..8).map(|c| (r * 8 + c + 1).to_string()).collect::<Vec<_>>().join(",")).collect();
    s.put("values.csv", rows.join("\n"));
    s.zaro(&["write", "@:/a.zarr", "g/x", "--from", "@:/values.csv"]).text();
    s
}

fn values(s: &Store, uri: &str, path: &str) -> String {
    s.zaro(&["read", uri, path, "--format", "csv"]).text()
}

#[test]
fn copies_hold_the_same_elements() {
    let s = source();
    let want = values(&s, "@:/a.zarr", "g/x");
    for (n, more) in [
        vec![],
        vec!["--zarr-format", "2"],
        vec!["--chunks", "x=3"],
        vec!["--chunks", "t=3,x=2", "--shards", "t=6,x=4", "--codec", "gzip:1+crc32c"],
        vec!["--order", "F", "--separator", ".", "--codec", "none"],
        vec!["--memory", "1M", "--consolidate"],
    ]
    .into_iter()
    .enumerate()
    {
        let to = format!("@:/copy{n}.zarr");
        let mut args = vec!["copy", "@:/a.zarr", &to, "--verify", "--json"];
        args.extend(&more);
        let report = s.zaro(&args).text();
        assert!(report.contains(r#""arrays":1,"groups":2"#), "{report}");
        assert_eq!(values(&s, &to, "g/x"), want, "{more:?}");
        s.zaro(&["validate", &to, "--strict"]).text();
    }
    let zip = "@:/copy.zip";
    s.zaro(&["copy", "@:/a.zarr", zip]).text();
    assert_eq!(values(&s, zip, "g/x"), want);
    // A damaged name in its directory would make a chunk a missing one.
    let mut bytes = std::fs::read(s.path().join("copy.zip")).unwrap();
    let at = bytes.windows(6).rposition(|w| w == b"g/x/c/").unwrap();
    bytes[at..][..3].copy_from_slice(b"g/y");
    std::fs::write(s.path().join("bad.zip"), bytes).unwrap();
    s.zaro(&["copy", "@:/bad.zip", "@:/bad.zarr"]).fails(4, "local header differ");
    // Out of the archive again, one node of it, under another name.
    s.zaro(&[
        "copy",
        zip,
        "@:/b.zarr",
        "--path",
        "g/x",
        "--to",
        "deep/y",
        "--select",
        "1:3,::-1",
        "--dtype",
        "int64",
    ])
    .text();
    assert_eq!(values(&s, "@:/b.zarr", "deep/y"), "16,15,14,13,12,11,10,9\n24,23,22,21,20,19,18,17\n");
}

#[test]
fn in_place_only_documents_change() {
    let s = source();
    s.zaro(&["copy", "@:/a.zarr", "@:/v2.zarr", "--zarr-format", "2"]).text();
    let want = values(&s, "@:/v2.zarr", "g/x");
    s.zaro(&["copy", "@:/v2.zarr", "--in-place", "--zarr-format", "3"]).text();
    assert!(s.zaro(&["info", "@:/v2.zarr", "g/x"]).text().contains("Zarr V3"));
    assert_eq!(values(&s, "@:/v2.zarr", "g/x"), want);
    assert!(s.path().join("v2.zarr/g/x/0.0").exists());
    s.zaro(&["copy", "@:/v2.zarr", "--in-place"]).fails(2, "--zarr-format");
    // Keys that V2 does not have become others; codecs that it does not have are refused, and what helps is named.
    s.zaro(&["copy", "@:/a.zarr", "@:/shards.zarr", "--chunks", "2,2", "--shards", "4,4", "--path", "g"])
        .text();
    let want = values(&s, "@:/a.zarr", "g/x");
    s.zaro(&["copy", "@:/shards.zarr", "--in-place", "--zarr-format", "2"])
        .fails(5, "V2 has no shards; zaro copy --zarr-format 2 to another place re-encodes them");
    // What somebody left at the new keys is not taken for chunks.
    s.put("a.zarr/g/x/7/7", "left");
    s.zaro(&["copy", "@:/a.zarr", "--in-place", "--zarr-format", "2"]).fails(2, "7/7");
    std::fs::remove_dir_all(s.path().join("a.zarr/g/x/7")).unwrap();
    s.zaro(&["copy", "@:/a.zarr", "--in-place", "--zarr-format", "2"]).text();
    assert_eq!(values(&s, "@:/a.zarr", "g/x"), want);
    assert!(s.path().join("a.zarr/g/x/0/0").exists() && !s.path().join("a.zarr/g/x/c").exists());
}

#[test]
fn what_is_there_is_safe() {
    let s = source();
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr"]).text();
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr"]).fails(2, "--overwrite");
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--overwrite", "--codec", "zstd:9"]).text();
    s.zaro(&["copy", "@:/a.zarr", "@:/a.zarr", "--overwrite"]).fails(2, "same or nested");
    s.zaro(&["copy", "@:/a.zarr", "@:/a.zarr/inside"]).fails(2, "same or nested");
    s.zaro(&["copy", "@:/a.zarr/g", "@:/a.zarr", "--overwrite"]).fails(2, "same or nested");
    assert!(values(&s, "@:/a.zarr", "g/x").starts_with("1,2"));
    // Inside one Zarr, from node to node.
    s.zaro(&["copy", "@:/a.zarr", "@:/a.zarr", "--path", "g", "--to", "h"]).text();
    assert_eq!(values(&s, "@:/a.zarr", "h/x"), values(&s, "@:/a.zarr", "g/x"));
    s.zaro(&["copy", "@:/none.zarr", "@:/c.zarr"]).fails(3, "none.zarr");
    s.zaro(&["copy", "@:/a.zarr", "@:/c.zarr", "--chunks", "2"]).fails(2, "dimensions");
    s.zaro(&["copy", "@:/a.zarr", "http://localhost:1/x"]).fails(5, "web servers");
    s.zaro(&["copy", "@:/a.zarr", "@:/c.zarr", "--region", "0:5,:"]).fails(2, "--select");
    s.zaro(&["copy", "@:/a.zarr", "@:/d.zarr", "--path", "g/x", "--dtype", "uint8", "--select", "5:,:"])
        .text();
    s.zaro(&["create", "@:/f.zarr", "--shape", "4000,4000", "--dtype", "uint8", "--chunks", "10,10"]).text();
    let large = ["copy", "@:/f.zarr", "@:/e.zarr", "--chunks", "4000,4000", "--memory", "1M"];
    s.zaro(&large).fails(2, "--memory");
}

#[test]
fn overwriting_is_for_what_is_a_zarr() {
    let s = source();
    s.put("precious/sub/thesis.txt", "years of work");
    s.zaro(&["copy", "@:/a.zarr", "@:/precious", "--overwrite"]).fails(2, "not a Zarr");
    s.zaro(&["create", "@:/precious", "--shape", "2", "--dtype", "u1", "--overwrite"]).text();
    assert!(s.file("precious/sub/thesis.txt").exists());
    // What comes through a pipe may end early; then the old array stays.
    let array = s.file("a.zarr");
    let args = [
        "write",
        array.to_str().unwrap(),
        "g/x",
        "--from",
        "-",
        "--input-format",
        "npy",
        "--create",
        "--overwrite",
    ];
    let short = common::npy("'<i4'", false, "(100,)", &[0; 8]);
    let before = common::tree(&array);
    common::zaro_with(&args, &short).fails(2, "ends before");
    assert!(common::tree(&array) == before);
    let whole = common::npy("'|u1'", false, "(3,)", &[7, 8, 9]);
    common::zaro_with(&args, &whole).text();
    assert_eq!(values(&s, "@:/a.zarr", "g/x").trim(), "7\n8\n9");
}

#[test]
fn a_part_is_of_one_array() {
    let s = source();
    s.zaro(&["copy", "@:/a.zarr", "@:/p.zarr", "--select", "0:2"]).fails(2, "this is a group");
    s.zaro(&["copy", "@:/a.zarr", "@:/p.zarr", "--path", "g/x", "--select", "0:2"]).text();
}

#[test]
fn numbers_become_others_only_if_nothing_is_lost() {
    let s = Store::new();
    let eight = |n: [i64; 2]| n.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    s.array("a.zarr", &[2], "int64", "0", "", &eight([3, 1 << 24]));
    for to in ["float16", "float32", "float64", "bfloat16"] {
        let made = format!("@:/{to}.zarr");
        let run = s.zaro(&["copy", "@:/a.zarr", &made, "--dtype", to]);
        match to {
            "float16" => run.fails(4, "float16"),
            _ => assert_eq!(s.zaro(&["read", &made, "--format", "json"]).text().trim(), "[3.0,16777216.0]"),
        }
    }
    s.array("b.zarr", &[2], "int64", "0", "", &eight([3, (1 << 24) + 1]));
    s.zaro(&["copy", "@:/b.zarr", "@:/c.zarr", "--dtype", "float32"]).fails(4, "without rounding");
    // Clamped, what stands for missing elements would be zero, as others are.
    let two = [0i16, -9999].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let extra = r#","dimension_names":["x"],"attributes":{"_FillValue":-9999}"#;
    s.array("m.zarr", &[2], "int16", "0", extra, &two);
    s.zaro(&["copy", "@:/m.zarr", "@:/n.zarr", "--dtype", "uint8", "--clamp"]).fails(5, "marks missing");
    s.zaro(&["copy", "@:/m.zarr", "@:/n.zarr", "--dtype", "int32", "--clamp"]).text();
}

#[test]
fn no_element_becomes_a_missing_one() {
    let s = Store::new();
    let attributes = r#"{"_ARRAY_DIMENSIONS":["x"]}"#;
    let four = |n: [i32; 2]| n.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let eight = |n: [f64; 2]| n.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    s.put("a.zarr/.zarray", v2_document(&[2], r#""<i4""#, "65535")).put("a.zarr/.zattrs", attributes);
    s.put("b.zarr/.zarray", v2_document(&[2], r#""<f8""#, "0.0")).put("b.zarr/.zattrs", attributes);
    for (chunk, fits) in [(four([65535, 7]), true), (four([70000, 7]), false)] {
        s.put("a.zarr/0", chunk);
        let run = s.zaro(&["copy", "@:/a.zarr", "@:/to.zarr", "--dtype", "uint16", "--clamp", "--overwrite"]);
        if fits { drop(run.text()) } else { run.fails(4, "70000 would be missing") }
    }
    for (chunk, fits) in [(eight([-0.0, 7.0]), true), (eight([0.3, 7.0]), false)] {
        s.put("b.zarr/0", chunk);
        let run = s.zaro(&["copy", "@:/b.zarr", "@:/to.zarr", "--dtype", "int16", "--overwrite"]);
        if fits { drop(run.text()) } else { run.fails(4, "0.3 would be missing") }
    }
}

#[test]
fn groups_in_the_middle_carry_what_they_did() {
    let s = source();
    s.zaro(&["consolidate", "@:/a.zarr", "g"]).text();
    s.zaro(&["consolidate", "@:/a.zarr"]).text();
    let documents = |to: &str| {
        ["", "g/"].map(|group| std::fs::read_to_string(s.file(&format!("{to}/{group}zarr.json"))).unwrap())
    };
    let carries = |to: &str| documents(to).map(|d| d.contains(r#""x""#) || d.contains(r#""g/x""#));
    assert_eq!(carries("a.zarr"), [true, true]);
    for (more, wanted) in [(&[][..], true), (&["--no-consolidate"], false), (&["--chunks", "t=3"], true)] {
        s.zaro(&[&["copy", "@:/a.zarr", "@:/to.zarr", "--overwrite", "--verify"], more].concat()).text();
        assert_eq!(carries("to.zarr"), [wanted; 2], "{more:?}");
        assert_eq!(
            documents("to.zarr").map(|d| d.contains("consolidated_metadata")),
            [wanted; 2],
            "{more:?}"
        );
    }
}

#[test]
fn consolidated_metadata_of_a_group_in_the_middle_are_kept_in_v2_too() {
    let s = Store::new();
    s.group("a.zarr").group("a.zarr/g").array("a.zarr/g/x", &[2], "uint8", "0", "", &[1, 2]);
    s.zaro(&["copy", "@:/a.zarr", "@:/two.zarr", "--zarr-format", "2"]).text();
    s.zaro(&["consolidate", "@:/two.zarr", "g"]).text();
    s.zaro(&["copy", "@:/two.zarr", "@:/again.zarr"]).text();
    assert!(s.file("again.zarr/g/.zmetadata").exists() && !s.file("again.zarr/.zmetadata").exists());
    s.zaro(&["copy", "@:/two.zarr", "@:/without.zarr", "--no-consolidate"]).text();
    assert!(!s.file("without.zarr/g/.zmetadata").exists());
}

#[test]
fn codec_settings_that_others_cannot_open_are_refused_before_anything_is_written() {
    let s = source();
    let before = common::tree(&s.file("a.zarr"));
    for codec in [
        "zstd:99",
        "gzip:99",
        "bz2:50",
        "blosc:lz4:5:foo",
        r#"[{"name":"zstd"}]"#,
        r#"[{"name":"zstd","configuration":{"lvl":3}}]"#,
        r#"[{"name":"bytes"},{"name":"zstd","configuration":{"level":3}}]"#,
    ] {
        let run = s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--codec", codec, "--verify"]);
        assert_eq!(run.code, 2, "{codec}: {}", run.err);
        assert!(!s.file("b.zarr").exists(), "{codec}");
    }
    assert_eq!(common::tree(&s.file("a.zarr")), before);
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--codec", "zstd:22", "--verify"]).text();
    // What the source has is kept, though only tolerated.
    let document = std::fs::read_to_string(s.file("b.zarr/g/x/zarr.json")).unwrap();
    let document: String = document.split_whitespace().collect();
    let odd = document.replace(r#""level":22"#, r#""level":99"#);
    assert_ne!(odd, document);
    s.put("b.zarr/g/x/zarr.json", odd);
    s.zaro(&["copy", "@:/b.zarr", "@:/c.zarr", "--chunks", "x=2", "--verify"]).text();
}
