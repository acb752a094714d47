//! `zaro image pyramid` and `zaro image add-labels`, as their users meet them.

use std::process::{Command, Stdio};

use crate::common::{Run, Store, copy, npy, sample, v3_document, zaro};

fn copied(name: &str) -> Store {
    let s = Store::new();
    copy(&sample(name), &s.file("image.zarr"));
    s
}

fn bare(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The document of a node without blanks.
fn document(s: &Store, path: &str) -> String {
    bare(&std::fs::read_to_string(s.file(path)).unwrap())
}

/// The numbers of an array.
fn numbers(run: Run) -> Vec<i64> {
    let text = run.text();
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '-')).filter(|w| !w.is_empty());
    words.map(|w| w.parse().unwrap()).collect()
}

fn read(s: &Store, at: &str) -> Vec<i64> {
    numbers(s.zaro(&["read", &format!("@:/{at}"), "--format", "csv"]))
}

const PICTURE: [u8; 64] = [
    0, 10, 20, 30, 40, 50, 60, 70, 5, 15, 25, 35, 45, 55, 65, 75, 100, 110, 120, 130, 140, 150, 160, 170,
    101, 111, 121, 131, 141, 151, 161, 171, 3, 1, 4, 1, 5, 9, 2, 6, 200, 0, 200, 0, 200, 0, 200, 0, 255, 254,
    253, 252, 251, 250, 249, 248, 7, 7, 7, 7, 8, 8, 8, 8,
];

/// A plain array in a group.
fn plain() -> Store {
    let s = Store::new();
    s.group("data.zarr").array("data.zarr/picture", &[8, 8], "uint8", "0", "", &PICTURE);
    s
}

#[test]
fn a_plain_array_becomes_an_image() {
    let s = plain();
    s.zaro(&["image", "pyramid", "@:/data.zarr", "picture", "--levels", "2"]).fails(2, "--axes");
    let words = ["image", "pyramid", "@:/data.zarr", "picture", "--axes", "yx", "--pixel-size", "0.5,0.25"];
    let made = s.zaro(&[&words[..], &["--levels", "3", "--unit", "micrometer", "--json"]].concat()).text();
    assert_eq!(
        bare(&made),
        r#"{"levels":[{"path":"1","shape":[4,4]},{"path":"2","shape":[2,2]}],"method":"mean","resumed":false,"labels":[]}"#
    );
    let first = read(&s, "data.zarr/1");
    assert_eq!(&first[first.len() - 4..], [131, 130, 129, 128]);
    let group = document(&s, "data.zarr/zarr.json");
    for part in [
        r#""version":"0.5""#,
        r#""axes":[{"name":"y","type":"space","unit":"micrometer"}"#,
        r#"{"path":"2","coordinateTransformations":[{"type":"scale","scale":[2.0,1.0]},{"type":"translation","translation":[0.75,0.375]}]}"#,
        r#""type":"mean""#,
    ] {
        assert!(group.contains(part), "{part} in {group}");
    }
    s.zaro(&["image", "info", "@:/data.zarr"]).text();
    s.zaro(&["image", "pyramid", "@:/data.zarr"]).fails(2, "--overwrite");
    s.zaro(&["image", "pyramid", "@:/data.zarr", "--overwrite", "--levels", "2", "--method", "decimate"])
        .text();
    assert!(!document(&s, "data.zarr/zarr.json").contains("translation"));
    assert!(!s.file("data.zarr/2").join("zarr.json").exists());
}

#[test]
fn levels_of_images_that_others_wrote_are_made_anew() {
    for (name, first, levels) in [
        ("05-omezarrpy-0.4.zarr", "0", ["1", "2"]),
        ("06-omezarrpy-0.5.zarr", "s0", ["s1", "s2"]),
        ("01-seed001-masks-0.1.zarr", "0", ["1", "2"]),
    ] {
        let s = copied(name);
        let before = read(&s, &format!("image.zarr/{first}"));
        s.zaro(&["image", "pyramid", "@:/image.zarr", "--levels", "3"]).fails(2, "levels already");
        s.zaro(&["image", "pyramid", "@:/image.zarr", "--levels", "3", "--overwrite"]).text();
        assert_eq!(read(&s, &format!("image.zarr/{first}")), before);
        for level in levels {
            assert!(!read(&s, &format!("image.zarr/{level}")).is_empty(), "{name} {level}");
        }
        // Elsewhere, with labels.
        s.zaro(&["image", "pyramid", "@:/image.zarr", "--to", "@:/there.zarr", "--levels", "2"]).text();
        assert_eq!(read(&s, &format!("there.zarr/{first}")), before);
        assert_eq!(
            read(&s, &format!("there.zarr/{}", levels[0])),
            read(&s, &format!("image.zarr/{}", levels[0]))
        );
        let below = if name.starts_with("01") { "masks" } else { "labels" };
        assert!(s.file("there.zarr").join(below).is_dir());
        s.zaro(&["image", "pyramid", "@:/image.zarr", "--to", "@:/there.zarr", "--levels", "2"])
            .fails(2, "--overwrite");
        let again = ["image", "pyramid", "@:/image.zarr", "--to", "@:/there.zarr", "--levels", "2"];
        s.zaro(&[&again[..], &["--overwrite"]].concat()).text();
    }
}

#[test]
fn bad_words_are_refused_before_anything_is_written() {
    let s = plain();
    for (more, message) in [
        (&["--axes", "yx", "--levels", "0"][..], "at least one level"),
        (&["--axes", "yx", "--levels", "9"], "only"),
        (&["--axes", "zyx"], "dimensions"),
        (&["--axes", "yx", "--levels", "2", "--chunks", "4"], "dimensions"),
        (&["--axes", "yx", "--levels", "2", "--factors", "2,2,2"], "factors"),
        (&["--axes", "yx", "--levels", "2", "--factors", "0,2"], "greater than 0"),
        (&["--axes", "yx", "--levels", "2", "--pixel-size", "0,1"], "pixel size"),
        (&["--axes", "yx", "--levels", "2", "--ome-version", "0.4"], "Zarr V2"),
        (&["--axes", "yx", "--levels", "2", "--method", "median"], "invalid value"),
        (&["--axes", "yx", "--levels", "2", "--codec", "zstd:99"], "level"),
        (&["--axes", "yx", "--levels", "2", "--codec", "gzip:99"], "level"),
    ] {
        let words = [&["image", "pyramid", "@:/data.zarr", "picture"][..], more].concat();
        s.zaro(&words).fails(2, message);
    }
    assert_eq!(std::fs::read_dir(s.file("data.zarr")).unwrap().count(), 2);
    let there = ["image", "pyramid", "@:/data.zarr", "picture", "--axes", "yx", "--to", "@:/there.zarr"];
    s.zaro(&[&there[..], &["--levels", "2", "--codec", "zstd:99"]].concat()).fails(2, "level");
    assert!(!s.file("there.zarr").exists());
}

#[test]
fn a_pyramid_that_was_killed_goes_on() {
    let side = 2048u64;
    let s = Store::new();
    s.group("data.zarr");
    s.put("data.zarr/0/zarr.json", v3_document(&[8, side, side], &[1, 128, 128], "uint8", "0", ""));
    for z in 0..8u64 {
        for y in 0..16u64 {
            for x in 0..16u64 {
                let chunk: Vec<u8> = (0..128u64 * 128).map(|i| (i * (z + 1) + y * 7 + x * x) as u8).collect();
                s.put(&format!("data.zarr/0/c/{z}/{y}/{x}"), chunk);
            }
        }
    }
    copy(&s.file("data.zarr"), &s.file("whole.zarr"));
    let words = |at: &str| {
        ["image", "pyramid", at, "0", "--axes", "zyx", "--levels", "5", "--codec", "zstd:9"]
            .map(str::to_owned)
    };
    let whole = s.file("whole.zarr");
    assert_eq!(zaro(&words(whole.to_str().unwrap()).each_ref().map(String::as_str)).code, 0);
    let data = s.file("data.zarr");
    // On a quick machine it may be done before it is killed.
    let done = || document(&s, "data.zarr/zarr.json").contains("multiscales");
    for wait in [30, 60, 120, 240] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_zaro"))
            .args(words(data.to_str().unwrap()))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        if done() {
            break;
        }
    }
    if !done() {
        let last = zaro(&words(data.to_str().unwrap()).each_ref().map(String::as_str));
        assert_eq!(last.code, 0, "{}", last.err);
    }
    for level in 1..5 {
        for kind in ["data.zarr", "whole.zarr"] {
            assert!(s.file(&format!("{kind}/{level}/zarr.json")).exists(), "{kind} {level}");
        }
        assert_eq!(
            s.zaro(&["read", &format!("@:/data.zarr/{level}"), "--format", "raw"]).out,
            s.zaro(&["read", &format!("@:/whole.zarr/{level}"), "--format", "raw"]).out
        );
    }
}

#[test]
fn labels_are_added_in_the_form_of_the_images_version() {
    for (name, version) in [
        ("05-omezarrpy-0.4.zarr", "0.4"),
        ("06-omezarrpy-0.5.zarr", "0.5"),
        ("01-seed001-masks-0.1.zarr", "0.1"),
    ] {
        let s = copied(name);
        let info = s.zaro(&["image", "info", "@:/image.zarr", "--json"]).text();
        let shapes: Vec<String> = bare(&info)
            .split(r#""shape":["#)
            .skip(1)
            .map(|t| t.split(']').next().unwrap().to_owned())
            .collect();
        let first: Vec<usize> = shapes[0].split(',').map(|n| n.parse().unwrap()).collect();
        let (h, w) = (first[first.len() - 2], first[first.len() - 1]);
        let mut pixels = vec![0u8; h * w];
        for y in 2..6 {
            pixels[y * w + 2..y * w + 6].fill(7);
        }
        s.put("cells.npy", npy("'|u1'", false, &format!("({h}, {w})"), &pixels));
        s.put("bad.npy", npy("'|u1'", false, &format!("({h}, {})", w - 1), &vec![0; h * (w - 1)]));
        s.put("float.npy", npy("'<f8'", false, &format!("({h}, {w})"), &vec![0; h * w * 8]));
        let words = ["image", "add-labels", "@:/image.zarr", "mine/cells", "--from"];
        s.zaro(&[&words[..], &["@:/bad.npy"]].concat()).fails(2, "same length");
        s.zaro(&[&words[..], &["@:/float.npy"]].concat()).fails(2, "must be integers");
        assert!(!s.file("image.zarr/labels/mine").exists());
        let more = ["@:/cells.npy", "--colors", "7=FF000080", "--json"];
        let added = bare(&s.zaro(&[&words[..], &more].concat()).text());
        assert!(added.contains(r#""path":"labels/mine/cells","data_type":"uint8""#), "{added}");
        let found = read(&s, "image.zarr/labels/mine/cells/0");
        assert_eq!(found.iter().filter(|n| **n == 7).count() % 16, 0, "{name}");
        assert!(found.contains(&7));
        let (list, group) = if version == "0.5" {
            (
                document(&s, "image.zarr/labels/zarr.json"),
                document(&s, "image.zarr/labels/mine/cells/zarr.json"),
            )
        } else {
            (document(&s, "image.zarr/labels/.zattrs"), document(&s, "image.zarr/labels/mine/cells/.zattrs"))
        };
        assert!(list.contains(r#""mine/cells""#), "{list}");
        assert!(group.contains(r#""colors":[{"label-value":7,"rgba":[255,0,0,128]}]"#), "{group}");
        assert!(group.contains(r#""source":{"image":"../../../"}"#), "{group}");
        assert!(group.contains(r#""type":"mode""#), "{group}");
        // Those that were there are listed still.
        let names = bare(&s.zaro(&["image", "info", "@:/image.zarr", "--json"]).text());
        assert!(names.contains("mine/cells"), "{names}");
        if name.starts_with("05") {
            assert!(list.contains(','), "{list}");
        }
        s.zaro(&[&words[..], &["@:/cells.npy"]].concat()).fails(2, "--overwrite");
        s.zaro(&[&words[..], &["@:/cells.npy", "--overwrite"]].concat()).text();
    }
}

#[test]
fn masks_of_the_seed_are_written() {
    let s = copied("01-seed001-masks-0.1.zarr");
    let shape = document(&s, "image.zarr/0/.zarray");
    let shape = shape.split(r#""shape":["#).nth(1).unwrap().split(']').next().unwrap().to_owned();
    let sides: Vec<usize> = shape.split(',').map(|n| n.parse().unwrap()).collect();
    let (h, w) = (sides[3], sides[4]);
    let mut pixels = vec![0u8; h * w];
    pixels[..w].fill(1);
    s.array("roi.zarr", &[sides[3] as u64, sides[4] as u64], "bool", "false", "", &pixels);
    let words = ["image", "add-labels", "@:/image.zarr", "rois/5", "--from", "@:/roi.zarr", "--as-mask"];
    s.zaro(&[&words[..], &["--colors", "1=FF0000FF"]].concat()).text();
    let attributes = document(&s, "image.zarr/masks/rois/5/.zattrs");
    assert!(attributes.contains(r#""color":{"true":-16776961}"#), "{attributes}");
    assert!(attributes.contains(r#""image":{"array":"../../../0"}"#), "{attributes}");
    let array = document(&s, "image.zarr/masks/rois/5/.zarray");
    assert!(
        array.contains(&format!(r#""shape":[1,1,1,{h},{w}]"#)) && array.contains(r#""dtype":"|b1""#),
        "{array}"
    );
    let list = document(&s, "image.zarr/masks/.zattrs");
    assert!(list.contains(r#""rois/5""#) && list.contains(','), "{list}");
    let info = bare(&s.zaro(&["image", "info", "@:/image.zarr", "--json"]).text());
    assert!(info.contains("rois/5"), "{info}");
    // Newer images have labels.
    let s = copied("06-omezarrpy-0.5.zarr");
    s.array("roi.zarr", &[1, 1], "bool", "false", "", &[0]);
    s.zaro(&words).fails(2, "--as-mask");
}

#[test]
fn labels_come_from_arrays_too_and_follow_a_new_pyramid() {
    let s = plain();
    let labels: Vec<u8> = PICTURE.iter().map(|v| v / 100).collect();
    s.group("labels.zarr").array("labels.zarr/a", &[8, 8], "uint8", "0", "", &labels);
    let words = ["image", "pyramid", "@:/data.zarr", "picture", "--axes", "yx"];
    s.zaro(&[&words[..], &["--levels", "1"]].concat()).text();
    s.zaro(&["image", "add-labels", "@:/data.zarr", "a", "--from", "@:/labels.zarr/a"]).text();
    assert!(!s.file("data.zarr/labels/a/1").exists());
    let made = s.zaro(&["image", "pyramid", "@:/data.zarr", "--levels", "3", "--json"]).text();
    assert!(bare(&made).contains(r#""labels":["a"]"#), "{made}");
    assert!(s.file("data.zarr/labels/a/2/zarr.json").exists());
    assert!(document(&s, "data.zarr/labels/a/zarr.json").contains(r#""image-label""#));
}

#[test]
fn what_is_read_is_never_overwritten() {
    let s = plain();
    let words = [
        "image",
        "pyramid",
        "@:/data.zarr",
        "picture",
        "--axes",
        "yx",
        "--levels",
        "2",
        "--overwrite",
        "--to",
    ];
    for to in ["@:/data.zarr", "@:/data.zarr/picture", "@:/data.zarr/picture/x", "@"] {
        s.zaro(&[&words[..], &[to]].concat()).fails(2, "same or nested");
    }
    let more = ["@:/data.zarr/other"];
    s.zaro(&[&words[..], &more].concat()).text();
    let add = ["image", "add-labels", "@:/data.zarr/other", "a", "--overwrite", "--from"];
    s.zaro(&[&add[..], &["@:/data.zarr/picture"]].concat()).text();
    s.zaro(&[&add[..], &["@:/data.zarr/other/labels/a/0"]].concat()).fails(2, "same or nested");
    assert_eq!(read(&s, "data.zarr/other/labels/a/0").len(), read(&s, "data.zarr/picture").len());
}

#[test]
fn what_the_metadata_wrongly_call_a_smaller_level_is_not_deleted() {
    for (first, second) in
        [("0", ""), ("0", "/"), ("/0", "0"), ("a/0", "a"), ("0", "0/c"), ("0", "labels"), ("0", "../0")]
    {
        let s = Store::new();
        let datasets: Vec<String> = [first, second]
            .iter()
            .map(|p| {
                format!(r#"{{"path":{p:?},"coordinateTransformations":[{{"type":"scale","scale":[1,1]}}]}}"#)
            })
            .collect();
        s.put(
            "i.zarr/zarr.json",
            format!(
                r#"{{"zarr_format":3,"node_type":"group","attributes":{{"ome":{{"version":"0.5","multiscales":[
                {{"axes":[{{"name":"y","type":"space"}},{{"name":"x","type":"space"}}],"datasets":[{}]}}]}}}}}}"#,
                datasets.join(",")
            ),
        );
        let at = format!("i.zarr/{}", first.trim_matches('/'));
        s.array(&at, &[8, 8], "uint8", "0", "", &PICTURE);
        s.array("i.zarr/labels/cells/0", &[8, 8], "uint8", "0", "", &PICTURE);
        let before = document(&s, "i.zarr/zarr.json");
        let run = s.zaro(&["image", "pyramid", "@:/i.zarr", "--overwrite", "--levels", "2"]);
        assert_eq!(run.code, 4, "{first:?} {second:?}: {}", run.err);
        assert_eq!(read(&s, &at), PICTURE.map(i64::from), "{first:?} {second:?}");
        assert_eq!(read(&s, "i.zarr/labels/cells/0"), PICTURE.map(i64::from));
        assert_eq!(document(&s, "i.zarr/zarr.json"), before);
    }
}

#[test]
fn what_is_no_level_is_not_replaced_by_one() {
    let s = plain();
    let words =
        ["image", "pyramid", "@:/data.zarr", "picture", "--axes", "yx", "--levels", "2", "--overwrite"];
    // A group, and a folder with something of somebody's.
    s.group("data.zarr/1").array("data.zarr/1/x", &[8, 8], "uint8", "0", "", &PICTURE);
    s.zaro(&words).fails(2, "is not an array");
    assert_eq!(read(&s, "data.zarr/1/x"), PICTURE.map(i64::from));
    std::fs::remove_dir_all(s.file("data.zarr/1")).unwrap();
    s.put("data.zarr/1/thesis.txt", "mine");
    s.zaro(&words).fails(2, "is not an array");
    assert!(s.file("data.zarr/1/thesis.txt").is_file());
    // Chunks without a document are what is left of a level.
    std::fs::remove_dir_all(s.file("data.zarr/1")).unwrap();
    s.put("data.zarr/1/c/0/0", [9; 16]);
    s.zaro(&words).text();
    assert_eq!(read(&s, "data.zarr/1")[0], 8);
}

#[test]
fn the_array_that_becomes_an_image_gets_the_names_of_its_axes() {
    for names in ["", r#","dimension_names":["a","b"]"#] {
        let s = Store::new();
        s.group("data.zarr").array("data.zarr/picture", &[8, 8], "uint8", "0", names, &PICTURE);
        let words = ["image", "pyramid", "@:/data.zarr", "picture", "--axes", "yx", "--levels", "2"];
        for more in [&["--to", "@:/other.zarr"][..], &[]] {
            assert_eq!(s.zaro(&[&words[..], more].concat()).code, 0);
        }
        for (place, level) in [("other.zarr", "0"), ("data.zarr", "picture")] {
            let array = document(&s, &format!("{place}/{level}/zarr.json"));
            assert!(array.contains(r#""dimension_names":["y","x"]"#), "{array}");
            let found = s.zaro(&["image", "validate", &format!("@:/{place}")]);
            assert_eq!(found.code, 0, "{}", String::from_utf8_lossy(&found.out));
        }
    }
}

#[test]
fn a_pyramid_elsewhere_that_is_refused_leaves_nothing() {
    let s = plain();
    let words = ["image", "pyramid", "@:/data.zarr", "picture", "--to", "@:/new.zarr"];
    s.zaro(&words).fails(2, "--axes tczyx");
    s.zaro(&[&words[..], &["--axes", "yx", "--chunks", "4"]].concat()).fails(2, "shape of chunks");
    s.zaro(&[&words[..], &["--axes", "yx", "--ome-version", "0.4"]].concat())
        .fails(2, "zaro copy --zarr-format 2");
    assert!(!s.file("new.zarr").exists());
}
