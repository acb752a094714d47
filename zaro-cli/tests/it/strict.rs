//! What is read over with a warning, and what `--strict` makes of it.

use crate::common::{Store, v2_document, v3_document};

const GROUP_2: &str = r#"{"zarr_format":2}"#;

/// Reads the array `a` both ways: the values with a warning that contains `rule`, or exit code 4.
fn tolerated(s: &Store, rule: &str, wanted: &str) {
    let run = s.zaro(&["read", "@", "a", "--format", "csv"]);
    assert!(run.code == 0 && run.err.contains(rule), "{rule}: {} {}", run.code, run.err);
    assert_eq!(String::from_utf8_lossy(&run.out), wanted, "{rule}");
    let run = s.zaro(&["read", "@", "a", "--format", "csv", "--strict"]);
    assert_eq!(run.code, 4, "{rule}: {}", run.err);
    assert!(!run.err.contains("read as") && !run.err.contains("own documents"), "{rule}: {}", run.err);
}

fn v2() -> Store {
    let s = Store::new();
    s.put(".zgroup", GROUP_2).put("a/.zarray", v2_document(&[2], r#""|u1""#, "0")).put("a/0", [1, 2]);
    s
}

#[test]
fn a_damaged_zmetadata_does_not_hide_the_nodes() {
    let documents = format!(r#"{{".zgroup":{GROUP_2},"a/.zarray":{}}}"#, v2_document(&[2], r#""|u1""#, "0"));
    for (text, rule) in [
        ("{".to_owned(), "[v2/consolidated]"),
        ("[]".to_owned(), "[v2/consolidated]"),
        (r#"{"zarr_consolidated_format":1,"metadata":[]}"#.to_owned(), "[v2/consolidated]"),
        (format!(r#"{{"metadata":{documents}}}"#), "[v2/consolidated-format]"),
        (format!(r#"{{"zarr_consolidated_format":2,"metadata":{documents}}}"#), "[v2/consolidated-format]"),
        (
            format!(
                r#"{{"zarr_consolidated_format":1,"metadata":{}}}"#,
                documents.replace("{\".zg", "{\"../x/.zattrs\":{},\".zg")
            ),
            "[v2/consolidated-path]",
        ),
    ] {
        let s = v2();
        s.put(".zmetadata", &text);
        tolerated(&s, rule, "1\n2\n");
        assert!(s.zaro(&["list", "@"]).err.contains(rule), "{text}");
        assert!(String::from_utf8_lossy(&s.zaro(&["validate", "@"]).out).contains(rule), "{text}");
    }
    let s = v2();
    s.put(".zmetadata", format!(r#"{{"zarr_consolidated_format":1,"metadata":{documents}}}"#));
    assert_eq!(s.zaro(&["list", "@", "--strict"]).err, "");
}

#[test]
fn v3_consolidated_metadata_hold_to_their_form() {
    let array = v3_document(&[2], &[2], "uint8", "0", "");
    let root = |must: &str, path: &str| {
        let s = Store::new();
        s.array("a", &[2], "uint8", "0", "", &[1, 2]);
        s.put(
            "zarr.json",
            format!(
                r#"{{"zarr_format":3,"node_type":"group","consolidated_metadata":{{"kind":"inline"{must},
                "metadata":{{"{path}":{array}}}}}}}"#
            ),
        );
        s
    };
    let lawful = r#","must_understand":false"#;
    for (must, path, rule) in [
        ("", "a", "[v3/consolidated-must-understand]"),
        (r#","must_understand":true"#, "a", "[v3/consolidated-must-understand]"),
        (lawful, "/a", "[v3/consolidated-path]"),
        (lawful, "../a", "[v3/consolidated-path]"),
    ] {
        let s = root(must, path);
        assert_eq!(s.zaro(&["read", "@", "a", "--format", "csv"]).text(), "1\n2\n", "{rule}");
        assert!(s.zaro(&["list", "@"]).err.contains(rule), "{rule}");
        s.zaro(&["read", "@", "a", "--format", "csv", "--strict"]).fails(4, "consolidated_metadata");
    }
    let s = root(lawful, "a");
    assert_eq!(s.zaro(&["read", "@", "a", "--format", "csv", "--strict"]).text(), "1\n2\n");
}

#[test]
fn v2_members_hold_to_their_form() {
    let lawful = v2_document(&[2], r#""<f4""#, "0");
    for (document, rule, wanted) in [
        (lawful.replacen('{', r#"{"dimension_separator":null,"#, 1), "[v2/separator]", "0.0\n0.0\n"),
        (v2_document(&[2], r#""<f4""#, r#""0x40200000""#), "[fill-value]", "2.5\n2.5\n"),
        (v2_document(&[2], r#""<u2""#, "true"), "[fill-value]", "1\n1\n"),
    ] {
        let s = Store::new();
        s.put(".zgroup", GROUP_2).put("a/.zarray", document);
        tolerated(&s, rule, wanted);
    }
}

#[test]
fn v3_fills_and_fields_hold_to_their_form() {
    let one = |t: &str, fill: &str| {
        let s = Store::new();
        s.group("").put("a/zarr.json", v3_document(&[1], &[1], t, fill, ""));
        s
    };
    let fields = |name: &str| {
        format!(
            r#"{{"name":"struct","configuration":{{"fields":[{{"name":"{name}","data_type":"uint8"}}]}}}}"#
        )
    };
    tolerated(&one("r16", r#""AQI=""#), "[fill-value]", "AQI=\n");
    tolerated(&one(&fields("x"), r#""AQ==""#), "[fill-value]", "x\n1\n");
    tolerated(&one(&fields(""), r#"{"":1}"#), "[v3/struct-fields]", "\n1\n");
    let raw = r#"{"name":"raw_bytes","configuration":{"length_bytes":2}}"#;
    assert_eq!(
        one(raw, r#""AQI=""#).zaro(&["read", "@", "a", "--format", "csv", "--strict"]).text(),
        "AQI=\n"
    );
}

#[test]
fn text_that_is_none() {
    let s = Store::new();
    s.group("");
    let text = r#"{"name":"fixed_length_utf32","configuration":{"length_bytes":4}}"#;
    s.array("a", &[3], text, r#""""#, "", &[0, 0xd8, 0, 0, 65, 0, 0, 0, 0, 0xdc, 0, 0]);
    tolerated(&s, "2 texts hold invalid UTF-32 code points", "\u{fffd}\nA\n\u{fffd}\n");
    // What is written as codes loses nothing.
    assert_eq!(s.zaro(&["read", "@", "a", "--format", "raw"]).err, "");
}

#[test]
fn list_tells_what_was_read_over_and_which_version_is_read() {
    let s = v2();
    s.put("a/.zarray", v2_document(&[2], r#""|u1""#, "0").replace(r#""order":"C","#, ""));
    assert!(s.zaro(&["list", "@"]).err.contains("\"order\" is missing; read as \"C\" [v2/order]"));
    s.zaro(&["list", "@", "--strict"]).fails(4, "\"order\" is missing");
    let s = v2();
    s.group("").array("a", &[2], "uint8", "0", "", &[3, 4]);
    for args in [&["list", "@"][..], &["info", "@"]] {
        let err = s.zaro(args).err;
        for node in ["/:", "/a:"] {
            assert!(err.contains(&format!("{node} there are both V3 and V2 documents; reading V3")), "{err}");
        }
    }
    let run = s.zaro(&["read", "@", "a", "--strict", "--format", "csv"]);
    assert!(run.code == 0 && run.err.contains("[both-versions]"), "{}", run.err);
    assert_eq!(s.zaro(&["read", "@", "a", "--zarr-format", "2", "--format", "csv"]).text(), "1\n2\n");
}

#[test]
fn nodes_may_have_names_that_begin_with_a_dot() {
    let s = Store::new();
    s.group("").group(".hidden").array(".hidden/a", &[1], "uint8", "0", "", &[5]);
    s.group("__reserved").put(".DS_Store", "x").put(".git/config", "x");
    let run = s.zaro(&["list", "@", "-r"]);
    assert_eq!(run.text(), "/.hidden    group\n/.hidden/a  array  uint8  1\n");
    let away = Store::new();
    let copy = away.file("copy");
    s.zaro(&["copy", "@", copy.to_str().unwrap()]).text();
    assert_eq!(s.zaro(&["read", copy.to_str().unwrap(), ".hidden/a", "--format", "csv"]).text(), "5\n");
    std::fs::remove_dir_all(s.path().join("__reserved")).unwrap();
    assert!(s.zaro(&["validate", "@"]).text().starts_with("valid: 3 nodes"));
}

#[test]
fn a_table_that_cannot_be_says_of_what() {
    let s = Store::new();
    let n = i64::MAX.unsigned_abs();
    s.group("").put("a/zarr.json", v3_document(&[n, n], &[1 << 20, 1 << 20], "uint8", "0", ""));
    let run = s.zaro(&["read", "@", "a"]);
    assert!(run.code == 4 && run.err.contains("a/zarr.json"), "{} {}", run.code, run.err);
}

#[test]
fn stale_metadata_are_told_by_their_path() {
    let s = v2();
    let said = v2_document(&[2], r#""|u1""#, "1");
    s.put(
        ".zmetadata",
        format!(r#"{{"zarr_consolidated_format":1,"metadata":{{".zgroup":{GROUP_2},"a/.zarray":{said}}}}}"#),
    );
    let json = s.zaro(&["validate", "@", "--json"]).text();
    assert!(json.contains(r#""field": "fill_value""#), "{json}");
}
