//! `zaro validate`: findings, their rules, and the exit code.

use crate::common;
use crate::common::{Store, v2_document};

#[test]
fn a_sound_store_is_valid() {
    let s = Store::new();
    s.group("").array("a", &[2], "uint8", "0", "", &[0; 2]);
    assert_eq!(s.zaro(&["validate", "@"]).text(), "valid: 2 nodes, 0 errors, 0 warnings\n");
    let json: String = s.zaro(&["validate", "@", "--json"]).text().split_whitespace().collect();
    assert!(json.contains(r#""ok":true,"nodes":2,"errors":0,"warnings":0,"findings":[]"#), "{json}");
}

#[test]
fn warnings_fail_only_when_strict() {
    let s = Store::new();
    s.array("", &[2], "uint8", "0", r#","storage_transformers":null"#, &[0; 2]);
    let run = s.zaro(&["validate", "@"]);
    assert!(String::from_utf8_lossy(&run.out).contains("warning: / storage_transformers"), "{:?}", run.err);
    assert_eq!(run.code, 0);
    assert_eq!(s.zaro(&["validate", "@", "--strict"]).code, 1);
}

#[test]
fn broken_nodes_are_errors_and_the_others_are_still_checked() {
    let s = Store::new();
    s.group("").put("bad/zarr.json", "{").array("good", &[2], "uint8", "0", "", &[0; 2]);
    s.array("odd", &[1], "uint8", "0", "", &[0]);
    let document = std::fs::read_to_string(s.file("odd/zarr.json")).unwrap();
    s.put("odd/zarr.json", document.replace(r#""name":"bytes""#, r#""name":"nonsense""#));
    let run = s.zaro(&["validate", "@", "--json"]);
    let json: String = String::from_utf8_lossy(&run.out).split_whitespace().collect();
    assert_eq!(run.code, 1);
    assert!(json.contains(r#""nodes":4,"errors":2"#), "{json}");
    assert!(json.contains(r#""rule":"node/invalid","level":"error","node":"/bad""#), "{json}");
    assert!(json.contains(r#""rule":"node/unsupported","level":"error","node":"/odd""#), "{json}");
}

#[test]
fn a_broken_root_is_a_finding_a_missing_one_is_not() {
    let s = Store::new();
    s.put("zarr.json", "[]");
    assert_eq!(s.zaro(&["validate", "@"]).code, 1);
    let empty = Store::new();
    assert_eq!(empty.zaro(&["validate", "@"]).code, 3);
}

#[test]
fn names_that_v3_forbids() {
    let s = Store::new();
    s.group("").group("__secret");
    let run = s.zaro(&["validate", "@"]);
    assert_eq!(run.code, 1);
    assert!(String::from_utf8_lossy(&run.out).contains("[v3/node-name]"));
}

#[test]
fn stale_consolidated_metadata_of_both_versions() {
    let s = Store::new();
    let array = common::v3_document(&[2], &[2], "uint8", "0", "");
    s.put("a/zarr.json", array.replace("[2]", "[3]")).put("new/zarr.json", &array);
    s.put(
        "zarr.json",
        format!(
            r#"{{"zarr_format":3,"node_type":"group","consolidated_metadata":{{"kind":"inline","must_understand":false,
            "metadata":{{"a":{array},"gone":{array}}}}}}}"#
        ),
    );
    let run = s.zaro(&["validate", "@"]);
    let text = String::from_utf8_lossy(&run.out).into_owned();
    assert!(
        text.contains("/a shape[0]: the consolidated metadata differ from zarr.json [consolidated/stale]"),
        "{text}"
    );
    assert!(text.contains("/gone: the consolidated metadata list a zarr.json that does not exist"), "{text}");
    assert!(text.contains("/new: this node is missing from the consolidated metadata"), "{text}");

    let s = Store::new();
    let group = r#"{"zarr_format":2}"#;
    s.put(".zgroup", group).put("a/.zarray", v2_document(&[2], r#""|u1""#, "0"));
    let said = v2_document(&[2], r#""|u1""#, "1");
    s.put(
        ".zmetadata",
        format!(r#"{{"zarr_consolidated_format":1,"metadata":{{".zgroup":{group},"a/.zarray":{said}}}}}"#),
    );
    let text = String::from_utf8(s.zaro(&["validate", "@"]).out).unwrap();
    assert!(text.contains("/a fill_value: the consolidated metadata differ from .zarray"), "{text}");
}

#[test]
fn consolidated_metadata_may_state_what_absence_means() {
    let s = Store::new();
    s.array("a", &[2], "uint8", "0", "", &[1, 2]);
    let stated =
        common::v3_document(&[2], &[2], "uint8", "0", r#","storage_transformers":[],"attributes":{}"#);
    let root = |array: &str| {
        format!(
            r#"{{"zarr_format":3,"node_type":"group","consolidated_metadata":{{"kind":"inline",
            "must_understand":false,"metadata":{{"a":{array}}}}}}}"#
        )
    };
    s.put("zarr.json", root(&stated));
    s.zaro(&["validate", "@", "--strict"]).text();
    s.put("zarr.json", root(&stated.replace(r#""attributes":{}"#, r#""attributes":{"b":1}"#)));
    assert_eq!(s.zaro(&["validate", "@", "--strict"]).code, 1);
}

#[test]
fn codec_settings_that_are_only_tolerated_are_warnings() {
    let s = Store::new();
    s.array("", &[2], "uint16", "0", "", &[0; 4]);
    let document = std::fs::read_to_string(s.file("zarr.json")).unwrap();
    let bytes = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
    assert!(document.contains(bytes), "{document}");
    for codecs in [
        r#"{"name":"bytes"}"#.to_owned(),
        format!(r#"{bytes},{{"name":"zstd"}}"#),
        format!(r#"{bytes},{{"name":"zstd","configuration":{{"level":99}}}}"#),
    ] {
        s.put("zarr.json", document.replace(bytes, &codecs));
        let run = s.zaro(&["validate", "@"]);
        let text = String::from_utf8_lossy(&run.out).into_owned();
        assert!(run.code == 0 && text.contains("[codec/settings]"), "{codecs}: {text}");
        assert_eq!(s.zaro(&["validate", "@", "--strict"]).code, 1, "{codecs}");
    }
}
