//! What a conversion means to those who decode an array by the CF conventions: the same before and after.

use crate::common::Store;
use crate::common::v2_document;

fn cf(s: &Store, uri: &str, path: &str) -> String {
    s.zaro(&["read", uri, path, "--cf", "--format", "json"]).text()
}

fn shown(s: &Store, uri: &str, path: &str, member: &str) -> String {
    let model = s.zaro(&["meta", uri, path, "--json"]).text();
    let found = model.lines().find(|l| l.trim_start().starts_with(&format!("\"{member}\"")));
    found.unwrap_or_default().trim().trim_end_matches(',').to_owned()
}

fn file(s: &Store, name: &str) -> String {
    std::fs::read_to_string(s.path().join(name)).unwrap().split_whitespace().collect()
}

/// A V3 variable of four int16 in chunks of two, as xarray writes it, of which the second chunk is not stored.
fn v3_variable(s: &Store, path: &str, fill: &str, attributes: &str, names: &str, keys: &str) {
    s.put(
        &format!("{path}/zarr.json"),
        format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":[4],"data_type":"int16","fill_value":{fill},
            "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[2]}}}},
            "chunk_key_encoding":{{"name":"{keys}"}},
            "codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}}],
            "attributes":{attributes}{names}}}"#
        ),
    );
    let first = if keys == "v2" { "0" } else { "c/0" };
    s.put(&format!("{path}/{first}"), [0, 0, 25, 252]);
}

const GROUP: &str = r#"{"zarr_format":3,"node_type":"group","attributes":{"title":"t"}}"#;

#[test]
fn a_fill_value_of_v2_is_an_attribute_in_v3() {
    for in_place in [false, true] {
        let s = Store::new();
        s.put("a.zarr/.zgroup", r#"{"zarr_format":2}"#);
        s.put("a.zarr/t/.zarray", v2_document(&[2], r#""<i2""#, "-999")).put("a.zarr/t/0", [25, 252, 1, 0]);
        s.put("a.zarr/t/.zattrs", r#"{"scale_factor":0.1,"_ARRAY_DIMENSIONS":["x"]}"#);
        let want = cf(&s, "@:/a.zarr", "t");
        assert!(want.contains("NaN"), "{want}");
        let made = if in_place {
            s.zaro(&["copy", "@:/a.zarr", "--in-place", "--zarr-format", "3"]).text();
            "a.zarr"
        } else {
            let said = s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--zarr-format", "3", "--verify"]);
            assert!(said.err.contains("verified"), "{}", said.err);
            "b.zarr"
        };
        assert_eq!(cf(&s, &format!("@:/{made}"), "t"), want);
        let document = file(&s, &format!("{made}/t/zarr.json"));
        assert!(document.contains(r#""_FillValue":-999"#), "{document}");
    }
}

#[test]
fn zero_is_a_number_in_v2_copies_of_v3() {
    let s = Store::new();
    s.put("a.zarr/zarr.json", GROUP);
    let names = r#","dimension_names":["x"]"#;
    v3_variable(&s, "a.zarr/plain", "0", "{}", names, "default");
    v3_variable(&s, "a.zarr/marked", "0", r#"{"_FillValue":-999}"#, names, "default");
    v3_variable(&s, "a.zarr/five", "5", "{}", names, "default");
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--zarr-format", "2", "--verify", "--consolidate"]).text();
    for (path, want, fill) in [
        ("plain", "[0,-999,0,0]\n", "null"),
        // The chunk that is not there is zero in V3, and would be missing in V2 if it were not there either.
        ("marked", "[0.0,\"NaN\",0.0,0.0]\n", "-999"),
        ("five", "[0,-999,5,5]\n", "null"),
    ] {
        assert_eq!(cf(&s, "@:/a.zarr", path), want);
        assert_eq!(cf(&s, "@:/b.zarr", path), want);
        assert_eq!(shown(&s, "@:/b.zarr", path, "fill_value"), format!("\"fill_value\": {fill}"));
    }
    // Consolidated metadata say the same.
    assert_eq!(file(&s, "b.zarr/.zmetadata").matches(r#""fill_value":null"#).count(), 2);
    assert!(!s.path().join("b.zarr/plain/1").exists());
    assert!(s.path().join("b.zarr/marked/1").exists());
    // Coded anew, and from there back: the same.
    s.zaro(&["copy", "@:/b.zarr", "@:/c.zarr", "--chunks", "x=3", "--verify"]).text();
    s.zaro(&["copy", "@:/c.zarr", "@:/d.zarr", "--zarr-format", "3", "--codec", "gzip", "--verify"]).text();
    for path in ["plain", "marked", "five"] {
        assert_eq!(cf(&s, "@:/c.zarr", path), cf(&s, "@:/a.zarr", path));
        assert_eq!(cf(&s, "@:/d.zarr", path), cf(&s, "@:/a.zarr", path));
    }
}

#[test]
fn in_place_missing_chunks_are_written_where_the_fill_value_changes() {
    let s = Store::new();
    let names = r#","dimension_names":["x"]"#;
    v3_variable(&s, "a.zarr", "0", r#"{"_FillValue":-999}"#, names, "v2");
    let want = cf(&s, "@:/a.zarr", "");
    s.zaro(&["copy", "@:/a.zarr", "--in-place", "--zarr-format", "2"]).text();
    assert!(s.path().join("a.zarr/.zarray").exists() && s.path().join("a.zarr/1").exists());
    assert_eq!(cf(&s, "@:/a.zarr", ""), want);
}

#[test]
fn scalars_and_levels_of_images() {
    let s = Store::new();
    s.put("a.zarr/zarr.json", GROUP);
    s.put(
        "a.zarr/crs/zarr.json",
        r#"{"zarr_format":3,"node_type":"array","shape":[],"data_type":"int16","fill_value":0,
        "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[]}},"chunk_key_encoding":{"name":"default"},
        "codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"attributes":{}}"#,
    )
    .put("a.zarr/crs/c", [0, 0]);
    s.put(
        "a.zarr/image/zarr.json",
        r#"{"zarr_format":3,"node_type":"group","attributes":{"ome":{"multiscales":[]}}}"#,
    );
    v3_variable(&s, "a.zarr/image/0", "0", "{}", r#","dimension_names":["x"]"#, "default");
    v3_variable(&s, "a.zarr/nameless", "7", "{}", "", "default");
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--zarr-format", "2", "--verify"]).text();
    assert_eq!(file(&s, "b.zarr/crs/.zattrs"), r#"{"_ARRAY_DIMENSIONS":[]}"#);
    assert_eq!(cf(&s, "@:/b.zarr", "crs"), "0\n");
    // Readers of images want a fill value, and arrays that are no variables keep theirs.
    assert!(file(&s, "b.zarr/image/0/.zarray").contains(r#""fill_value":0,"#));
    assert!(file(&s, "b.zarr/nameless/.zarray").contains(r#""fill_value":7,"#));
}

/// Python writes NaN and infinities as bare words, and reads text as text.
#[test]
fn bare_words_in_attributes_stay_bare() {
    const WORDS: &str = r#""n":NaN,"deep":{"list":[1,[-Infinity,"NaN"]],"i":Infinity}"#;
    let s = Store::new();
    s.put("v2.zarr/.zgroup", r#"{"zarr_format":2}"#).put("v2.zarr/.zattrs", format!("{{{WORDS}}}"));
    s.put("v2.zarr/t/.zarray", v2_document(&[2], r#""<f4""#, "NaN")).put("v2.zarr/t/0", [0; 8]);
    s.put("v2.zarr/t/.zattrs", format!(r#"{{{WORDS},"missing_value":NaN,"_ARRAY_DIMENSIONS":["x"]}}"#));
    let has = |name: &str, times: usize| {
        let text = file(&s, name);
        assert_eq!(text.matches(WORDS).count(), times, "{name}: {text}");
        text
    };
    let copy = |args: &[&str]| {
        let mut all = vec!["copy"];
        all.extend(args);
        s.zaro(&all).text();
    };
    copy(&["@:/v2.zarr", "@:/v3.zarr", "--zarr-format", "3", "--verify", "--consolidate"]);
    assert!(has("v3.zarr/t/zarr.json", 1).contains(r#""missing_value":NaN"#));
    has("v3.zarr/zarr.json", 2);
    copy(&["@:/v3.zarr", "@:/back.zarr", "--zarr-format", "2", "--verify"]);
    has("back.zarr/.zattrs", 1);
    has("back.zarr/t/.zattrs", 1);
    // What is no attribute is JSON to the letter.
    assert!(has("back.zarr/.zmetadata", 2).contains(r#""fill_value":"NaN""#));
    // Coded anew; as it is; another attribute; another shape; in place, there and back.
    copy(&["@:/v3.zarr", "@:/anew.zarr", "--codec", "gzip", "--verify"]);
    copy(&["@:/v3.zarr", "@:/same.zarr"]);
    for made in ["anew.zarr", "same.zarr"] {
        s.zaro(&["attrs", &format!("@:/{made}"), "--set", "a=1"]).text();
        s.zaro(&["resize", &format!("@:/{made}"), "t", "--shape", "3"]).text();
        has(&format!("{made}/zarr.json"), 2);
        has(&format!("{made}/t/zarr.json"), 1);
    }
    s.zaro(&["consolidate", "@:/v2.zarr"]).text();
    has("v2.zarr/.zmetadata", 2);
    s.zaro(&["attrs", "@:/v2.zarr", "t", "--set", "a=1"]).text();
    has("v2.zarr/t/.zattrs", 1);
    has("v2.zarr/.zmetadata", 2);
    copy(&["@:/v2.zarr", "--in-place", "--zarr-format", "3"]);
    has("v2.zarr/zarr.json", 2);
    has("v2.zarr/t/zarr.json", 1);
    copy(&["@:/v2.zarr", "--in-place", "--zarr-format", "2"]);
    has("v2.zarr/.zattrs", 1);
    has("v2.zarr/t/.zattrs", 1);
    // What zaro prints is JSON to the letter.
    assert!(s.zaro(&["attrs", "@:/v2.zarr"]).text().contains(r#""n": "NaN""#));
}

#[test]
fn in_place_every_chunk_is_read_if_it_is_to_be_verified() {
    let s = Store::new();
    let document = v2_document(&[2], r#""<i2""#, "7")
        .replace(r#""compressor":null"#, r#""compressor":{"id":"gzip","level":1}"#);
    assert!(document.contains("gzip"), "{document}");
    s.put("a.zarr/.zgroup", r#"{"zarr_format":2}"#).put("a.zarr/t/.zarray", &document);
    s.put("a.zarr/t/0", "this is not gzip");
    let convert = ["copy", "@:/a.zarr", "--in-place", "--zarr-format", "3"];
    let verified = [&convert[..], &["--verify"]].concat();
    s.zaro(&verified).fails(4, "nothing was converted");
    let names = |folder: &str| {
        let mut names: Vec<String> = std::fs::read_dir(s.file(folder))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!((names("a.zarr"), names("a.zarr/t")), (".zgroup t".into(), ".zarray 0".into()));
    // The bytes stay as they are, whatever they are, if nobody asks.
    s.zaro(&convert).text();
    s.zaro(&["copy", "@:/a.zarr", "--in-place", "--zarr-format", "2"]).text();
    std::fs::remove_file(s.file("a.zarr/t/0")).unwrap();
    let said = s.zaro(&verified);
    assert!(said.err.contains("verified"), "{}", said.err);
    assert_eq!(names("a.zarr"), "t zarr.json");
}

#[test]
fn a_cast_takes_the_missing_value_along() {
    let s = Store::new();
    let names = r#","dimension_names":["x"]"#;
    v3_variable(&s, "a.zarr", "0", r#"{"_FillValue":-999}"#, names, "default");
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--dtype", "float32", "--verify"]).text();
    // -999 as xarray has it in an array of floats.
    assert!(file(&s, "b.zarr/zarr.json").contains(r#""_FillValue":"AAAAAAA4j8A=""#));
    s.zaro(&["copy", "@:/a.zarr", "@:/c.zarr", "--dtype", "float32", "--zarr-format", "2", "--verify"])
        .text();
    for made in ["@:/b.zarr", "@:/c.zarr"] {
        assert_eq!(cf(&s, made, ""), "[0.0,\"NaN\",0.0,0.0]\n");
    }
}

#[test]
fn an_undefined_fill_value_is_null_in_the_model() {
    let s = Store::new();
    s.put(".zarray", v2_document(&[2], r#""<f4""#, "null")).put("0", [0; 8]);
    s.put(".zattrs", r#"{"_ARRAY_DIMENSIONS":["x"]}"#);
    assert_eq!(shown(&s, "@", "", "fill_value"), "\"fill_value\": null");
    assert_eq!(cf(&s, "@", ""), "[0.0,0.0]\n");
    // Beside a fill value the attribute does not count, as in xarray.
    s.put(".zarray", v2_document(&[2], r#""<f4""#, "1.0"));
    s.put(".zattrs", r#"{"_ARRAY_DIMENSIONS":["x"],"_FillValue":0.0}"#);
    assert_eq!(cf(&s, "@", ""), "[0.0,0.0]\n");
}

fn v2_variable(s: &Store, name: &str, document: String, attributes: &str, chunk: impl AsRef<[u8]>) {
    s.put(&format!("{name}/.zgroup"), r#"{"zarr_format":2}"#);
    s.put(&format!("{name}/v/.zarray"), document);
    let more = if attributes.is_empty() { String::new() } else { format!(",{attributes}") };
    s.put(&format!("{name}/v/.zattrs"), format!(r#"{{"_ARRAY_DIMENSIONS":["x"]{more}}}"#));
    s.put(&format!("{name}/v/0"), chunk);
}

/// zarr-python 2 wrote 0 for the fill value of texts; no text is empty by that.
#[test]
fn the_empty_text_is_not_missing_where_the_fill_value_is_zero() {
    let s = Store::new();
    let document =
        v2_document(&[2], r#""|O""#, "0").replace(r#""filters":null"#, r#""filters":[{"id":"vlen-utf8"}]"#);
    assert!(document.contains("vlen-utf8"), "{document}");
    v2_variable(&s, "a.zarr", document, "", [2, 0, 0, 0, 1, 0, 0, 0, b'a', 0, 0, 0, 0]);
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--zarr-format", "3", "--verify"]).text();
    let made = file(&s, "b.zarr/v/zarr.json");
    assert!(!made.contains(r#""missing_value":"""#) && made.contains(r#""missing_value":"0""#), "{made}");
    s.zaro(&["copy", "@:/a.zarr", "@:/c.zarr", "--chunks", "1", "--verify"]).text();
    assert!(file(&s, "c.zarr/v/.zarray").contains(r#""fill_value":"0""#));
}

#[test]
fn bytes_that_are_missing_are_lost_in_v3_and_that_is_said() {
    let s = Store::new();
    v2_variable(&s, "a.zarr", v2_document(&[2], r#""|S3""#, r#""YWJj""#), "", "abcx\0\0");
    assert_eq!(cf(&s, "@:/a.zarr", "v"), "[\"\",\"x\"]\n");
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--zarr-format", "3", "--verify"])
        .fails(4, "elements are missing");
    assert!(!s.path().join("b.zarr").exists(), "nothing is made that is wrong");
    let said = s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--zarr-format", "3"]);
    assert!(said.err.contains("V3 cannot say which elements"), "{}", said.err);
    s.zaro(&["copy", "@:/a.zarr", "--in-place", "--zarr-format", "3", "--verify"])
        .fails(4, "elements are missing");
    let said = s.zaro(&["copy", "@:/a.zarr", "--in-place", "--zarr-format", "3"]);
    assert!(said.err.contains("V3 cannot say which elements"), "{}", said.err);
}

#[test]
fn what_xarray_hides_in_v2_is_not_shown_in_v3() {
    let s = Store::new();
    let attributes = r#""_nczarr_attr":{"types":{}},"_NCProperties":"x","units":"K","_Unsigned":"false""#;
    v2_variable(&s, "a.zarr", v2_document(&[3], r#""|u1""#, "255"), attributes, [0, 100, 255]);
    let want = cf(&s, "@:/a.zarr", "v");
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--zarr-format", "3", "--verify"]).text();
    let made = file(&s, "b.zarr/v/zarr.json");
    assert!(!made.to_lowercase().contains("_nc") && made.contains(r#""units":"K""#), "{made}");
    // The number as xarray takes the elements for; it refuses 255.
    assert!(made.contains(r#""_FillValue":-1"#), "{made}");
    assert_eq!(cf(&s, "@:/b.zarr", "v"), want);
    s.zaro(&["copy", "@:/b.zarr", "@:/c.zarr", "--zarr-format", "2", "--verify"]).text();
    assert!(file(&s, "c.zarr/v/.zarray").contains(r#""fill_value":255"#));
}

#[test]
fn a_cast_takes_elements_as_readers_do() {
    let s = Store::new();
    let document = |dtype: &str, n: u64, fill: &str| v2_document(&[n], dtype, fill);
    v2_variable(&s, "u.zarr", document(r#""|i1""#, 3, "-2"), r#""_Unsigned":"true""#, [0, 200, 254]);
    let want = "[0.0,200.0,\"NaN\"]\n";
    for dtype in ["int16", "float32"] {
        let made = format!("@:/u{dtype}.zarr");
        s.zaro(&["copy", "@:/u.zarr", &made, "--dtype", dtype, "--verify"]).text();
        assert_eq!(cf(&s, &made, "v"), want);
        assert!(!file(&s, &format!("u{dtype}.zarr/v/.zattrs")).contains("_Unsigned"));
    }
    let inexact = [1i32, 16_777_217].map(i32::to_le_bytes).concat();
    v2_variable(&s, "i.zarr", document(r#""<i4""#, 2, "null"), "", &inexact);
    s.zaro(&["copy", "@:/i.zarr", "@:/i32.zarr", "--dtype", "float32", "--verify"])
        .fails(4, "16777217 cannot be represented as float32 without rounding");
    s.zaro(&["copy", "@:/i.zarr", "@:/c32.zarr", "--dtype", "float32", "--clamp", "--verify"]).text();
    s.zaro(&["copy", "@:/i.zarr", "@:/i64.zarr", "--dtype", "float64", "--verify"]).text();
    // What is missing is not rounded away, and nothing else becomes missing.
    let fill = [-2_147_483_647i32, 5].map(i32::to_le_bytes).concat();
    v2_variable(&s, "f.zarr", document(r#""<i4""#, 2, "-2147483647"), "", &fill);
    s.zaro(&["copy", "@:/f.zarr", "@:/f32.zarr", "--dtype", "float32", "--verify"]).text();
    assert_eq!(cf(&s, "@:/f32.zarr", "v"), "[\"NaN\",5.0]\n");
    let both = [-2_147_483_647i32, i32::MIN].map(i32::to_le_bytes).concat();
    v2_variable(&s, "g.zarr", document(r#""<i4""#, 2, "-2147483647"), "", &both);
    s.zaro(&["copy", "@:/g.zarr", "@:/g32.zarr", "--dtype", "float32"]).fails(4, "would be missing");
}

#[test]
fn a_cast_takes_all_missing_values_along_and_leaves_texts() {
    let s = Store::new();
    let values = [1.5f64, -9999.9, 3.0, -1.25].map(f64::to_le_bytes).concat();
    for (name, missing) in [("a.zarr", "-9999.9"), ("l.zarr", "[-9999.9,-1.25]")] {
        let attributes = format!(r#""missing_value":{missing}"#);
        v2_variable(&s, name, v2_document(&[4], r#""<f8""#, "null"), &attributes, &values);
        let text = v2_document(&[1], r#""<U1""#, "null");
        s.put(&format!("{name}/t/.zarray"), text).put(&format!("{name}/t/0"), [b'a', 0, 0, 0]);
        s.put(&format!("{name}/note.txt"), "x");
        let made = format!("@:/made-{name}");
        let said = s.zaro(&["copy", &format!("@:/{name}"), &made, "--dtype", "float32", "--verify"]);
        assert!(said.err.contains("/t: its elements are not numbers"), "{}", said.err);
        assert!(said.err.contains("1 other file"), "{}", said.err);
        assert_eq!(cf(&s, &made, "v"), cf(&s, &format!("@:/{name}"), "v"));
    }
    // What was no element of the old type, and is one of the new.
    v2_variable(&s, "o.zarr", v2_document(&[2], r#""|u1""#, "null"), r#""missing_value":[-9999,7]"#, [7, 8]);
    s.zaro(&["copy", "@:/o.zarr", "@:/o2.zarr", "--dtype", "int16", "--verify"]).text();
    s.zaro(&["copy", "@:/o.zarr", "@:/o3.zarr", "--dtype", "float32", "--zarr-format", "3", "--verify"])
        .text();
    assert_eq!(cf(&s, "@:/o2.zarr", "v"), "[\"NaN\",8.0]\n");
    assert_eq!(cf(&s, "@:/o3.zarr", "v"), "[\"NaN\",8.0]\n");
    s.zaro(&["copy", "@:/a.zarr", "@:/t.zarr", "--path", "t", "--dtype", "float32"])
        .fails(5, "only numbers can");
}

#[test]
fn a_copy_of_an_image_in_the_other_version_names_the_command_for_images() {
    let s = Store::new();
    s.put("i.zarr/.zgroup", r#"{"zarr_format":2}"#)
        .put("i.zarr/.zattrs", r#"{"multiscales":[{"version":"0.4"}]}"#);
    let said = s.zaro(&["copy", "@:/i.zarr", "@:/j.zarr", "--zarr-format", "3"]);
    assert!(said.err.contains("zaro image upgrade --to 0.5"), "{}", said.err);
    assert!(!s.zaro(&["copy", "@:/i.zarr", "@:/k.zarr"]).err.contains("upgrade"));
}

/// To zarr-python and xarray, moments and spans without a fill value are NaT where they are not stored, not 1970.
#[test]
fn times_without_a_fill_value_are_not_a_time() {
    for (v2, v3) in [("<M8[s]", "numpy.datetime64"), ("<m8[s]", "numpy.timedelta64")] {
        let s = Store::new();
        let values = |uri: &str| {
            s.zaro(&["read", uri, "--format", "json"]).text().split_whitespace().collect::<String>()
        };
        let nat = format!("[{0},{0}]", i64::MIN);
        s.put("a.zarr/.zarray", v2_document(&[2], &format!("\"{v2}\""), "null"));
        s.put("a.zarr/.zattrs", r#"{"_ARRAY_DIMENSIONS":["x"]}"#);
        assert_eq!(values("@:/a.zarr"), nat, "{v2}");
        for (from, to, format) in [("a", "b", "3"), ("b", "c", "2")] {
            let (from, to) = (format!("@:/{from}.zarr"), format!("@:/{to}.zarr"));
            s.zaro(&["copy", &from, &to, "--zarr-format", format, "--verify"]).text();
            assert_eq!(values(&to), nat, "{v2}");
        }
        // 1970 where nothing is stored is stored in V2, so that nobody takes it for NaT.
        s.put(
            "d.zarr/zarr.json",
            format!(
                r#"{{"zarr_format":3,"node_type":"array","shape":[2],"fill_value":0,"dimension_names":["x"],
                "data_type":{{"name":"{v3}","configuration":{{"unit":"s","scale_factor":1}}}},
                "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[2]}}}},
                "chunk_key_encoding":{{"name":"default"}},
                "codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}}],"attributes":{{}}}}"#
            ),
        );
        let want = values("@:/d.zarr");
        s.zaro(&["copy", "@:/d.zarr", "@:/e.zarr", "--zarr-format", "2", "--verify"]).text();
        s.zaro(&["copy", "@:/e.zarr", "@:/f.zarr", "--codec", "gzip:1", "--verify"]).text();
        s.zaro(&["copy", "@:/d.zarr", "--in-place", "--zarr-format", "2", "--verify"]).text();
        for made in ["d", "e", "f"] {
            assert_eq!(values(&format!("@:/{made}.zarr")), want, "{v2} {made}");
            assert!(s.path().join(format!("{made}.zarr/0")).is_file(), "{v2} {made}");
            assert!(
                file(&s, &format!("{made}.zarr/.zarray")).contains(r#""fill_value":null"#),
                "{v2} {made}"
            );
        }
    }
}

#[test]
fn packed_floats_and_huge_integers_mean_the_same() {
    let s = Store::new();
    // xarray unpacks to another type if a fill value is said, be it NaN.
    s.put("p.zarr/zarr.json", GROUP);
    let extra = r#","dimension_names":["x"],"attributes":{"scale_factor":0.1,"add_offset":1e9}"#;
    s.array("p.zarr/v", &[1], "float32", r#""NaN""#, extra, &1f32.to_le_bytes());
    s.zaro(&["copy", "@:/p.zarr", "@:/q.zarr", "--zarr-format", "2", "--verify"]).text();
    assert!(file(&s, "q.zarr/v/.zarray").contains(r#""fill_value":null"#));
    // It compares an integer beyond 64 bits as the elements are: the nearest float32 is masked.
    s.put("a.zarr/.zgroup", r#"{"zarr_format":2}"#);
    s.put("a.zarr/v/.zarray", v2_document(&[1], r#""<f4""#, "null")).put("a.zarr/v/0", 1e20f32.to_le_bytes());
    s.put("a.zarr/v/.zattrs", r#"{"_ARRAY_DIMENSIONS":["x"],"_FillValue":100000000000000000000}"#);
    s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--zarr-format", "3", "--verify"]).text();
    assert_eq!(cf(&s, "@:/b.zarr", "v"), cf(&s, "@:/a.zarr", "v"));
    // Base64 of the float64 that float32 has in place of it.
    assert!(file(&s, "b.zarr/v/zarr.json").contains(r#""_FillValue":"AAAAgB2vFUQ=""#));
}
