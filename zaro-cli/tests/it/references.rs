//! Reference stores on the command line.

use crate::common::{Store, tree, zaro};

/// A sample that a real writer made.
fn sample(name: &str) -> String {
    format!("{}/../zaro/tests/data/references/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A document with an array `v` of `n` bytes, a chunk each, and these references.
fn document(n: usize, refs: &str) -> String {
    format!(
        r#"{{"version": 1, "templates": {{"t": "/nowhere"}}, "refs": {{".zgroup": {{"zarr_format": 2}}, "v/.zarray":
        {{"zarr_format": 2, "shape": [{n}], "chunks": [1], "dtype": "|u1", "compressor": null, "filters": null, "order": "C",
        "fill_value": 7}}, {refs}}}}}"#
    )
}

#[test]
fn every_command_takes_them_as_any_zarr() {
    let uri = sample("sst_0.virtualizarr.json");
    assert!(zaro(&["info", &uri]).text().contains("11 arrays"));
    assert!(zaro(&["list", &uri]).text().contains("/checked"));
    assert_eq!(zaro(&["read", &uri, "crs", "--format", "json"]).text().trim(), "4326");
    let sst = zaro(&["read", &sample("sst_0.kerchunk.v1.json.gz"), "sst", "--format", "raw"]).out;
    assert_eq!(sst.len(), 4 * 9 * 12 * 2);
    let copied = Store::new();
    assert_eq!(copied.zaro(&["copy", &uri, "@:/copy.zarr"]).code, 0);
    for array in ["sst", "crs", "checked", "station", "count"] {
        let here = zaro(&["read", &uri, array, "--format", "json"]).text();
        assert_eq!(copied.zaro(&["read", "@:/copy.zarr", array, "--format", "json"]).text(), here, "{array}");
    }
}

#[test]
fn a_fill_value_in_base64_becomes_nan() {
    let store = Store::new();
    // The float64 9.96…e36, as xarray writes it; the second element is the float32 next to it.
    store.put(
        "r.json",
        r#"{".zgroup": {"zarr_format": 2}, "v/.zattrs": {"_FillValue": "AAAAAAAAnkc=", "bare": NaN}, "v/0": "base64:AACAPwAA8Hw",
        "v/.zarray": {"shape": [2], "chunks": [2], "dtype": "<f4", "compressor": null, "order": "C", "fill_value": null}}"#,
    );
    let read = ["read", "@:/r.json", "v", "--format", "json"];
    assert_eq!(store.zaro(&[&read[..], &["--cf"]].concat()).text().trim(), r#"[1.0,"NaN"]"#);
    assert!(!store.zaro(&read).text().contains("NaN"));
}

#[test]
fn what_the_caller_names_is_taken() {
    let store = Store::new();
    store.put(
        "r.json",
        document(3, r#""v/0": ["x.bin", 0, 1], "v/1": [null, 1, 1], "v/2": ["{{t}}/x.bin", 2, 1]"#),
    );
    store.put("data/x.bin", "abcd").put("other.bin", "efgh");
    let read = ["read", "@:/r.json", "v", "--format", "json"];
    let data = store.file("data").to_str().unwrap().to_owned();
    let other = store.file("other.bin").to_str().unwrap().to_owned();
    let template = format!("t={data}");
    let named = ["--root", &data, "--target", &other, "--template", &template];
    assert_eq!(store.zaro(&[&read[..], &named].concat()).text().trim(), "[97,102,99]");
    store.zaro(&read).fails(3, "x.bin, bytes 0+1");
    store.zaro(&[&read[..], &["--root", &data]].concat()).fails(2, "--target");
    store.zaro(&[&read[..], &["--template", "nothing"]].concat()).fails(2, "NAME=VALUE");
    store.zaro(&[&read[..], &["--template", "nothing=x"]].concat()).fails(2, "no template \"nothing\"");
}

#[test]
fn bad_references_are_errors_with_their_key() {
    let store = Store::new();
    store.put("data.bin", "0123456789");
    for (bad, code) in [
        ("null", 4),
        ("[]", 4),
        ("5", 4),
        (r#"["data.bin", 2]"#, 4),
        (r#"["data.bin", -2, 1]"#, 4),
        (r#"["data.bin", 9, 2]"#, 4),
        (r#"["gone.bin", 0, 1]"#, 3),
        (r#"["ftp://host/x", 0, 1]"#, 5),
        (r#""base64:@@@""#, 4),
        (r#"["{{gone}}", 0, 1]"#, 4),
    ] {
        store.put("r.json", document(2, &format!(r#""v/1": {bad}"#)));
        store.zaro(&["read", "@:/r.json", "v"]).fails(code, "key v/1");
    }
    store.put("r.json", r#"{"version": 2, "refs": {}}"#);
    store.zaro(&["info", "@:/r.json"]).fails(5, "version");
    store.put("r.json", "{\"something\": \"else\"}");
    store.zaro(&["info", "@:/r.json"]).fails(4, "not a reference document");
}

#[test]
fn a_mark_of_byte_order_is_passed_over_and_a_branch_of_plain_json_is_refused() {
    let store = Store::new();
    let text = document(1, r#""v/0": "base64:YQ==""#);
    store.put("bom.json", [&b"\xef\xbb\xbf"[..], text.as_bytes()].concat());
    assert_eq!(store.zaro(&["read", "@:/bom.json", "v", "--format", "json"]).text().trim(), "[97]");
    assert_eq!(store.zaro(&["read", "@:/bom.json", "v", "--branch", "main"]).code, 2);
}

#[test]
fn no_zarr_is_made_where_references_are() {
    let s = Store::new();
    s.put("r.parq/.zmetadata", r#"{"record_size":10,"metadata":{".zgroup":{"zarr_format":2}}}"#);
    s.put("i/refs/branch.main/ref.json", r#"{"snapshot":"1CECHNKREP0F1RSTCMT0"}"#);
    for to in ["@:/r.parq", "@:/i"] {
        let at = s.file(to.trim_start_matches("@:/"));
        let before = tree(&at);
        s.zaro(&["create", to, "x", "--shape", "2", "--dtype", "i2"]).fails(5, "cannot be written to");
        s.zaro(&["create", to, "--group"]).fails(5, "cannot be written to");
        assert!(tree(&at) == before);
    }
}
