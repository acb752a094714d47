#![allow(clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use super::*;
use crate::manifest::write::{ManifestLayout, ManifestOptions};

pub(crate) const SAMPLE: &str = r#"{
 "schemaVersion": 2,
 "fields": ["versionId","lastModified","size","ETag"],
 "statistics": {
  "entries": 5,
  "depth": 1,
  "totalSize": 31,
  "lastModified": "2022-03-16T02:39:40+00:00",
  "zarrChecksum": "6a2bafb14509195e1a1ee982cb046d23-5--31"
 },
 "entries": {
  ".zgroup": ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA1","2022-03-16T02:39:36+00:00",18,"d8f0549d9d6be70f0eb596421fd2c926"],
  "arr_0": {
   ".zarray": ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA2","2022-03-16T02:39:37+00:00",2,"d88c146dfafdea37a837778a92415bc2"],
   "0": ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA3","2022-03-16T02:39:38+00:00",4,"37b59afd592725f9305e484a5d7f5168"]
  },
  "arr_1": {
   ".zarray": ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA4","2022-03-16T02:39:39+00:00",2,"27f237e6b7f96587b6202ff3607ad88a"],
   "0": ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA5","2022-03-16T02:39:40+00:00",5,"a2e9e9c405fcb42808cfa0eaf2527c37"]
  }
 }
}"#;

fn read(text: &str) -> Result<Manifest> {
    parse(text.as_bytes())
}

/// A reader that gives one byte at a time.
struct Drip<'a>(&'a [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match (self.0.split_first(), buf.first_mut()) {
            (Some((b, rest)), Some(place)) => {
                *place = *b;
                self.0 = rest;
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}

#[test]
fn the_sample_goes_through_unchanged() {
    for m in [read(SAMPLE).unwrap(), parse(Drip(SAMPLE.as_bytes())).unwrap()] {
        assert_eq!(m.len(), 5);
        assert_eq!((m.depth(), m.total_size(), m.schema_version()), (1, 31, Some(2)));
        let stated = m.stated().clone();
        assert_eq!(stated.checksum.as_deref(), Some("6a2bafb14509195e1a1ee982cb046d23-5--31"));
        assert_eq!(m.statistics().unwrap(), stated);
        let options = ManifestOptions { schema_version: Some(2), ..ManifestOptions::default() };
        assert_eq!(String::from_utf8(m.to_vec(&stated, &options).unwrap()).unwrap(), SAMPLE);
        let compact = ManifestOptions { layout: ManifestLayout::Compact, schema_version: None };
        let text = String::from_utf8(m.to_vec(&stated, &compact).unwrap()).unwrap();
        assert!(!text.contains([' ', '\n']) && !text.contains("schemaVersion"), "{text}");
        let again = read(&text).unwrap();
        assert_eq!(again.to_vec(&stated, &options).unwrap(), SAMPLE.as_bytes());
    }
}

fn one(fields: &str, entry: &str) -> Result<Manifest> {
    read(&format!(r#"{{"fields": {fields}, "entries": {{"d": {{"x": {entry}}}}}}}"#))
}

#[test]
fn fields_in_any_order_or_some_of_them() {
    let etag = "d8f0549d9d6be70f0eb596421fd2c926";
    let m = one(
        r#"["ETag", "extra", "size", "lastModified", "versionId"]"#,
        &format!(r#"["{etag}", {{"a": ["]}}", 1]}}, 7, "2022-03-16 02:39:36.5Z", "null"]"#),
    )
    .unwrap();
    let entry = m.get("d/x").unwrap().entry();
    assert_eq!((entry.size, entry.etag.as_deref(), entry.version.as_deref()), (7, Some(etag), Some("null")));
    assert_eq!(entry.modified.unwrap().to_string(), "2022-03-16T02:39:36.500000+00:00");
    assert_eq!(m.fields(), Fields::ALL);

    let m = one(r#"["size"]"#, "[9]").unwrap();
    assert_eq!(m.get("d/x").unwrap().entry().size, 9);
    assert!(m.checksum().is_err(), "there are no ETags");
    let m = one(r#""versionId""#, r#""abc""#).unwrap();
    assert_eq!(m.get("d/x").unwrap().version().as_deref(), Some("abc"));
    let m = one(r#"["versionId","lastModified","ETag"]"#, "[null, null, null]").unwrap();
    let entry = m.get("d/x").unwrap().entry();
    assert_eq!((entry.version, entry.modified, entry.etag), (None, None, None));
}

#[test]
fn members_in_any_order() {
    let m = read(
        r#" {"entries": {"b": {"é\u00e9\ud83d\ude00\"]}": [1]}, "a": [2], "e": {}, "f": {"g": {}}}, "new": [{}],
        "statistics": {"lastModified": null, "zarrChecksumMismatch": null, "new": 1}, "fields": ["size"]} "#,
    )
    .unwrap();
    assert_eq!(m.get("b/éé😀\"]}").unwrap().size(), 1);
    assert_eq!((m.len(), m.dir_count()), (2, 2), "empty directories are none");
    assert_eq!(m.stated().mismatch, Some(None));
    let empty = read(r#"{"fields": ["size","ETag"], "statistics": {}, "entries": {}}"#).unwrap();
    assert!(empty.is_empty() && empty.newest().is_none());
    assert_eq!(empty.checksum().unwrap().to_string(), "481a2f77ab786a0f45aafd5db0971caa-0--0");
    let text = empty.to_vec(&empty.statistics().unwrap(), &ManifestOptions::default()).unwrap();
    assert!(String::from_utf8(text).unwrap().ends_with(" \"entries\": {}\n}"));
}

#[test]
fn what_is_not_a_manifest() {
    let entry = |e: &str| format!(r#"{{"fields": ["size", "ETag"], "entries": {{"d": {{"x": {e}}}}}}}"#);
    for (text, wanted) in [
        (String::new(), "the text ends"),
        ("[]".into(), "found '[', expected '{'"),
        ("{}".into(), "no fields"),
        (r#"{"fields": ["size"]}"#.into(), "no entries"),
        (r#"{"fields": [], "entries": {}}"#.into(), "no fields"),
        (r#"{"fields": ["size", "size"], "entries": {}}"#.into(), "duplicate field"),
        (r#"{"fields": ["size"], "fields": ["size"], "entries": {}}"#.into(), "duplicate member"),
        (r#"{"fields": ["size"], "entries": {}, "entries": {}}"#.into(), "duplicate member"),
        (r#"{"fields": ["size"], "entries": {}} x"#.into(), "unexpected data"),
        (r#"{"fields": ["size"], "entries": {"#.into(), "the text ends"),
        (r#"{"fields": ["size"], "entries": []}"#.into(), "not an object"),
        (r#"{"fields": ["size"], "entries": {"a" [1]}}"#.into(), "expected ':'"),
        (r#"{"fields": ["size"], "entries": {"a": [1] "b": [1]}}"#.into(), "neither an entry"),
        (r#"{"fields": ["size"], "entries": {"a": [1], "a": [1]}}"#.into(), "two entries"),
        (r#"{"fields": ["size"], "entries": {"a": {"x": [1]}, "a": {"y": [1]}}}"#.into(), "two directories"),
        (
            r#"{"fields": ["size"], "entries": {"a": {"x": [1]}, "a": [1]}}"#.into(),
            "an entry and a directory",
        ),
        (r#"{"fields": ["size"], "statistics": {"entries": "x"}, "entries": {}}"#.into(), "an integer"),
        (entry("[1]"), "2 values"),
        (entry(r#"[1, "a", 2]"#), "2 values"),
        (entry("[]"), "2 values"),
        (entry(r#"[-1, "a"]"#), "not an integer"),
        (entry(r#"[1.0, "a"]"#), "not an integer"),
        (entry(r#"[1e3, "a"]"#), "not an integer"),
        (entry(r#"[01, "a"]"#), "not an integer"),
        (entry(r#"[18446744073709551616, "a"]"#), "not an integer"),
        (entry(r#"[null, "a"]"#), "not an integer"),
        (entry(r#"["1", "a"]"#), "not an integer"),
        (entry(r#"[1, 2]"#), "not a string"),
        (entry(r#"[1, nul]"#), "not a string"),
        (entry(r#"[1, "\ud800x"]"#), "surrogate"),
        (entry(r#"[1, "\x"]"#), "escape"),
        (entry("[1, \"a\nb\"]"), "control"),
        (entry("null"), "neither a list"),
        (entry(r#""x""#), "neither a list"),
        (r#"{"fields": ["lastModified"], "entries": {"a": ["today"]}}"#.into(), "not a timestamp"),
    ] {
        let e = read(&text).unwrap_err();
        assert!(e.to_string().contains(wanted), "{text}: {e}");
        assert_eq!(e.kind(), crate::ErrorKind::Invalid, "{text}");
        if text.contains(r#""d": {"x""#) {
            assert_eq!(e.key(), Some("d/x"), "{text}");
        }
    }
}

#[test]
fn names_no_manifest_can_hold() {
    for name in ["", ".", "..", "a/b", "a\\u0000b", &"x".repeat(40_000)] {
        let e =
            read(&format!(r#"{{"fields": ["size"], "entries": {{"d": {{"{name}": [1]}}}}}}"#)).unwrap_err();
        assert!(e.message().contains("cannot hold the name"), "{e}");
        let e =
            read(&format!(r#"{{"fields": ["size"], "entries": {{"{name}": {{"x": [1]}}}}}}"#)).unwrap_err();
        assert!(e.message().contains("cannot hold the name"), "{e}");
    }
    let long = "x".repeat(300);
    let m = read(&format!(r#"{{"fields": ["size"], "entries": {{"{long}": [1]}}}}"#)).unwrap();
    assert_eq!(m.get(&long).unwrap().size(), 1);
}

#[test]
fn deep_but_not_without_end() {
    let nested = |n: usize| {
        let (open, close) = ("{\"a\":".repeat(n), "}".repeat(n));
        format!(r#"{{"fields": ["size"], "entries": {open}[1]{close}}}"#)
    };
    let m = read(&nested(513)).unwrap();
    assert_eq!(m.depth(), 512);
    let e = read(&nested(100_000)).unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::Unsupported, "{e}");
    assert!(read(&format!(r#"{{"x": {}"#, "[".repeat(1_000_000))).is_err());
}

#[test]
fn damage_is_found_or_harmless_and_never_a_crash() {
    for i in 0..SAMPLE.len() {
        assert!(read(&SAMPLE[..i]).is_err(), "cut at {i}");
        for b in [b'"', b'{', b']', b',', b'\\', 0, 0xff] {
            let mut text = SAMPLE.as_bytes().to_vec();
            text[i] = b;
            let _ = parse(text.as_slice());
        }
    }
}
