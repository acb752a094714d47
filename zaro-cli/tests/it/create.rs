//! `zaro create`: what is made, what is refused.

use crate::common;
use crate::common::Store;

fn meta(s: &Store, path: &str) -> String {
    s.zaro(&["meta", "@", path, "--json"]).text().split_whitespace().collect()
}

#[test]
fn an_array_is_as_it_was_described() {
    let s = Store::new();
    let args = [
        "create",
        "@",
        "a/b/x",
        "--shape",
        "100,60,8",
        "--dtype",
        ">i2",
        "--chunks",
        "10,20,4",
        "--shards",
        "50,60,8",
        "--codec",
        "blosc:lz4:7:shuffle",
        "--fill",
        "-1",
        "--order",
        "2,0,1",
        "--dims",
        "time,,lon",
        "--attrs",
        r#"{"units": "K"}"#,
    ];
    s.zaro(&args).text();
    let m = meta(&s, "a/b/x");
    for part in [
        r#""shape":[100,60,8]"#,
        r#""chunk_shape":[10,20,4]"#,
        r#""shard_shape":[50,60,8]"#,
        r#""data_type":"int16""#,
        r#""fill_value":-1"#,
        r#""order":[2,0,1]"#,
        r#""endian":"big""#,
        r#""cname":"lz4""#,
        r#""dimension_names":["time",null,"lon"]"#,
        r#""units":"K""#,
    ] {
        assert!(m.contains(part), "{part} in {m}");
    }
    // The groups on the way are there, and all is sound.
    assert_eq!(s.zaro(&["list", "@", "-r"]).text().lines().count(), 3);
    s.zaro(&["validate", "@", "--strict"]).text();
    assert_eq!(s.zaro(&["read", "@", "a/b/x", "--select", "0,0,0", "--format", "json"]).text(), "-1\n");
}

#[test]
fn a_node_has_the_version_of_its_group() {
    let s = Store::new();
    s.zaro(&["create", "@", "--group", "--zarr-format", "2", "--attrs", r#"{"a": 1}"#]).text();
    s.zaro(&["create", "@", "g/x", "--shape", "4", "--dtype", "f4", "--codec", "zlib:6", "--consolidate"])
        .text();
    assert!(s.file("g/x/.zarray").exists() && s.file(".zmetadata").exists() && !s.file("zarr.json").exists());
    assert!(meta(&s, "g/x").contains(r#""zarr_format":2"#));
    let run = s.zaro(&["create", "@", "y", "--shape", "4", "--dtype", "f4", "--zarr-format", "3"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("V2"), "{}", run.err);
    // The copy in .zmetadata follows.
    s.zaro(&["create", "@", "z", "--shape", "4", "--dtype", "f4", "--separator", "/"]).text();
    assert_eq!(s.zaro(&["list", "@", "-r"]).text().lines().count(), 3);
}

#[test]
fn fill_values_are_read_by_type() {
    let s = Store::new();
    for (dtype, fill, wanted) in [
        ("float32", "NaN", "\"NaN\""),
        ("float32", "-inf", "\"-Infinity\""),
        ("float64", "0x3ff0000000000000", "1.0"),
        ("uint64", "18446744073709551615", "18446744073709551615"),
        ("bool", "true", "true"),
        ("complex64", "1-2j", "[1.0,-2.0]"),
        ("string", "nothing", "\"nothing\""),
        ("U4", "né", "\"né\""),
        ("S4", "no", "\"no\""),
        ("datetime64[D]", "1970-02-01", "31"),
        ("datetime64[ns]", "NaT", "-9223372036854775808"),
        ("bytes", "AAE=", "\"AAE=\""),
        ("r16", "AAE=", "\"AAE=\""),
        ("bfloat16", "1.5", "1.5"),
        ("int4", "-8", "-8"),
        (r#"[["a", "<i2"], ["b", "|b1"]]"#, r#"{"a": 3, "b": true}"#, r#"{"a":3,"b":true}"#),
    ] {
        s.zaro(&["create", "@", "x", "--shape", "2", "--dtype", dtype, "--fill", fill, "--overwrite"]).text();
        let read = s.zaro(&["read", "@", "x", "--select", "0", "--format", "json"]).text();
        assert_eq!(read, format!("{wanted}\n"), "{dtype}");
    }
}

#[test]
fn another_array_is_a_model() {
    let s = Store::new();
    for (format, more) in [
        ("3", &["--shards", "4,6", "--codec", "gzip:3"][..]),
        ("3", &["--order", "F", "--endian", "big", "--codec", "none"]),
        ("2", &["--order", "F", "--codec", "blosc:zstd:3:bitshuffle"]),
        ("2", &["--codec", "none"]),
    ] {
        let first =
            ["create", "@", "x", "--shape", "8,6", "--dtype", "int32", "--chunks", "2,3", "--fill", "7"];
        let first = [&first[..], &["--dims", "y,x", "--zarr-format", format, "--overwrite"], more].concat();
        let _ = std::fs::remove_dir_all(s.path());
        std::fs::create_dir(s.path()).unwrap();
        s.zaro(&first).text();
        let like = s.file("x");
        s.zaro(&["create", "@", "y", "--like", like.to_str().unwrap()]).text();
        assert_eq!(meta(&s, "x").replace("\"/x\"", "\"/y\""), meta(&s, "y"), "{format} {more:?}");
        let run = s.zaro(&["create", "@", "z", "--shape", "9,9", "--like", like.to_str().unwrap()]);
        run.text();
        assert!(meta(&s, "z").contains("\"shape\":[9,9]"));
    }
}

#[test]
fn what_makes_no_array_is_refused() {
    let s = Store::new();
    s.zaro(&["create", "@", "x", "--shape", "4", "--dtype", "u1"]).text();
    for (args, words) in [
        (&["x", "--shape", "4", "--dtype", "u1"][..], "already"),
        (&["x/y", "--shape", "4", "--dtype", "u1"], "this is an array"),
        (&["y", "--shape", "4"], "--dtype"),
        (&["y", "--dtype", "u1"], "--shape"),
        (&["y", "--shape", "4", "--dtype", "float31"], "not a data type"),
        (&["y", "--shape", "4", "--dtype", "u1", "--fill", "256"], "256"),
        (&["y", "--shape", "4", "--dtype", "u1", "--codec", "zst"], "not a short name of a codec"),
        (&["y", "--shape", "4", "--dtype", "u1", "--chunks", "2,2"], "chunks"),
        (&["y", "--shape", "4", "--dtype", "u1", "--chunks", "0"], "chunks"),
        (&["y", "--shape", "4", "--dtype", "u1", "--chunks", "2", "--shards", "3"], "multiple"),
        (&["y", "--shape", "4", "--dtype", "u1", "--order", "1"], "order"),
        (&["y", "--shape", "4", "--dtype", "u1", "--attrs", "[1]"], "object"),
        (&["y", "--shape", "4", "--dtype", "u1", "--dims", "a,b"], "dimension_names"),
        (&["y", "--group", "--shape", "4"], "--shape"),
        (&["__y", "--group"], "name"),
        (&["", "--shape", "4", "--dtype", "u1", "--consolidate"], "root"),
    ] {
        let run = s.zaro(&[&["create", "@"], args].concat());
        assert_eq!(run.code, 2, "{args:?}: {}", run.err);
        assert!(run.err.contains(words), "{args:?}: {}", run.err);
    }
    assert_eq!(s.zaro(&["list", "@", "-r"]).text().lines().count(), 1);
    let run = s.zaro(&["create", "@", "y", "--group", "--attrs", "@/no/such/file"]);
    assert_eq!(run.code, 3, "{}", run.err);
    assert_eq!(common::zaro(&["create", "https://example.org/x.zarr", "--group"]).code, 5);
}

#[test]
fn an_archive_is_made_once() {
    let s = Store::new();
    let zip = s.file("a.zarr.zip");
    let zip = zip.to_str().unwrap();
    s.put("x.json", "[[1,2],[3,4]]");
    let input = s.file("x.json");
    let args = ["write", zip, "g/x", "--from", input.to_str().unwrap(), "--create", "--dtype", "int32"];
    common::zaro(&args).text();
    assert_eq!(common::zaro(&["read", zip, "g/x", "--format", "json"]).text(), "[[1,2],\n[3,4]]\n");
    let run = common::zaro(&args);
    assert_eq!(run.code, 7, "{}", run.err);
}
