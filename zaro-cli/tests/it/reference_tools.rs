//! `zaro ref`: counting, validating, converting and rebasing reference stores.

use crate::common::Store;

/// References of every kind to two files, with addresses relative to the document.
const DOCUMENT: &str = r#"{"version": 1, "templates": {"u": "data/one.bin"}, "refs": {
    ".zgroup": {"zarr_format": 2},
    ".zattrs": "{\"title\": \"x\", \"bare\": NaN}",
    "a/.zarray": "{\"zarr_format\":2,\"shape\":[5,2],\"chunks\":[1,2],\"dtype\":\"|u1\",\"compressor\":null,\"fill_value\":9,\"order\":\"C\",\"filters\":null}",
    "a/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"]},
    "a/0.0": ["{{u}}", 0, 2], "a/1.0": ["{{u}}", 2, 2], "a/2.0": ["data/two.bin"], "a/3.0": "base64:/wA=",
    "g/.zgroup": {"zarr_format": 2},
    "g/s/.zarray": "{\"zarr_format\":2,\"shape\":[],\"chunks\":[],\"dtype\":\"|u1\",\"compressor\":null,\"fill_value\":null,\"order\":\"C\",\"filters\":null}",
    "g/s/0": "z"}}"#;

fn store() -> Store {
    let s = Store::new();
    s.put("refs.json", DOCUMENT).put("data/one.bin", [1, 2, 3, 4]).put("data/two.bin", [5, 6]);
    s
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

fn ref_json(s: &Store, args: &[&str]) -> String {
    squeezed(&s.zaro(&[&["ref"], args, &["--json"]].concat()).text())
}

fn values(s: &Store, uri: &str) -> [String; 2] {
    ["a", "g/s"].map(|path| s.zaro(&["read", uri, path, "--format", "json"]).text())
}

#[test]
fn stat_counts_chunks_objects_and_bytes() {
    let s = store();
    let json = ref_json(&s, &["stat", "@:/refs.json"]);
    let a = r#"{"path":"/a","chunks":5,"present":4,"missing":1,"inline":1,"whole":1,"objects":2,"bytes":4,"unsized":1,"inline_bytes":2}"#;
    assert!(json.contains(a), "{json}");
    assert!(json.contains(r#""total":{"chunks":6,"present":5,"missing":1,"inline":2"#), "{json}");
    assert!(json.contains(r#""documents":6"#) && json.contains(r#""strays":0"#), "{json}");
    assert!(
        json.contains(r#""prefix":"data/","scheme":"relative","objects":2,"references":3,"bytes":4"#),
        "{json}"
    );
    let text = s.zaro(&["ref", "stat", "@:/refs.json"]).text();
    assert!(text.contains("data/: 2 objects, 3 references, 4 B"), "{text}");
    assert!(text.lines().any(|l| l.split_whitespace().take(6).eq(["/a", "5", "4", "1", "1", "2"])), "{text}");
    s.zaro(&["ref", "stat", "@:/data"]).fails(3, "not a reference store");
}

#[test]
fn every_form_says_the_same() {
    let s = store();
    let wanted = values(&s, "@:/refs.json");
    assert_eq!(squeezed(&wanted[0]), "[[1,2],[3,4],[5,6],[255,0],[9,9]]");
    let mut from = "@:/refs.json".to_owned();
    let total = |uri: &str| {
        let json = ref_json(&s, &["stat", uri]);
        json[json.find(r#""arrays""#).unwrap()..json.find(r#""document_bytes""#).unwrap()].to_owned()
    };
    let counted = total(&from);
    for name in ["1.parq", "2.json.zst", "3.json.gz", "4.parquet", "5.json", "6.parq"] {
        let to = format!("@:/{name}");
        let run = s.zaro(&["ref", "convert", &from, &to, "--record-size", "2", "--pretty"]);
        assert!(run.err.contains("6 documents, 5 references, 2 of them inline"), "{}", run.err);
        assert_eq!(values(&s, &to), wanted, "{name}");
        assert_eq!(total(&to), counted, "{name}");
        let attrs = s.zaro(&["meta", &to, "--json"]).text();
        assert!(attrs.contains("title"), "{attrs}");
        from = to;
    }
    // The last of each form is what the first was.
    let text = |name: &str| std::fs::read_to_string(s.file(name)).unwrap();
    s.zaro(&["ref", "convert", "@:/6.parq", "@:/7.json", "--pretty"]).text();
    assert_eq!(text("5.json"), text("7.json"));
    assert!(text("5.json").contains(r#"\"bare\":NaN"#), "{}", text("5.json"));
    assert_eq!(
        std::fs::read(s.file("1.parq/a/refs.1.parq")).unwrap(),
        std::fs::read(s.file("6.parq/a/refs.1.parq")).unwrap()
    );
    assert!(!s.file("1.parq/a/refs.3.parq").exists());
    let left: Vec<_> = std::fs::read_dir(s.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|n| !n.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn relative_addresses_mean_the_same_from_anywhere() {
    let s = store();
    s.put("far/keep", "");
    let run = s.zaro(&["ref", "convert", "@:/refs.json", "@:/near.json"]);
    assert!(!run.err.contains("relative"), "{}", run.err);
    let near = std::fs::read_to_string(s.file("near.json")).unwrap();
    assert!(near.contains(r#"["data/one.bin",0,2]"#), "{near}");
    let run = s.zaro(&["ref", "convert", "@:/refs.json", "@:/far/far.json"]);
    assert!(run.err.contains("3 references had relative addresses"), "{}", run.err);
    assert_eq!(values(&s, "@:/far/far.json"), values(&s, "@:/refs.json"));
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/far/kept.json", "--keep-relative"]).text();
    s.zaro(&["read", "@:/far/kept.json", "a"]).fails(3, "data/one.bin");
    let root = s.path().to_str().unwrap();
    let read = s.zaro(&["read", "@:/far/kept.json", "a", "--root", root, "--format", "json"]).text();
    assert_eq!(read, values(&s, "@:/refs.json")[0]);
}

#[test]
fn nothing_is_replaced_unasked() {
    let s = store();
    s.put("a.json", "precious").put("a.parq/thesis.txt", "precious");
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/a.json"]).fails(2, "--overwrite");
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/a.parq"]).fails(2, "--overwrite");
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/a.parq", "--overwrite"]).fails(2, "not replaced");
    assert_eq!(std::fs::read(s.file("a.parq/thesis.txt")).unwrap(), b"precious");
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/b.parq"]).text();
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/b.parq", "--overwrite", "--record-size", "1"]).text();
    assert!(s.file("b.parq/a/refs.3.parq").exists());
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/x"]).fails(2, "--form");
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/x", "--form", "parquet"]).text();
    assert!(s.file("x/.zmetadata").exists());
}

#[test]
fn what_parquet_has_no_place_for_is_not_lost_silently() {
    let s = store();
    s.put(
        "odd.json",
        DOCUMENT.replacen("\"a/0.0\"", "\"a/9.0\": \"x\", \"readme\": \"hello\", \"a/0.0\"", 1),
    );
    s.zaro(&["ref", "convert", "@:/odd.json", "@:/odd.parq"]).fails(5, "--drop-strays");
    assert!(!s.file("odd.parq").exists());
    let run = s.zaro(&["ref", "convert", "@:/odd.json", "@:/odd.parq", "--drop-strays"]);
    assert!(run.err.contains("left out 2 keys"), "{}", run.err);
    assert_eq!(values(&s, "@:/odd.parq"), values(&s, "@:/refs.json"));
    s.zaro(&["ref", "convert", "@:/odd.json", "@:/all.json"]).text();
    assert!(std::fs::read_to_string(s.file("all.json")).unwrap().contains(r#""readme":"hello""#));
}

#[test]
fn validate_finds_what_is_wrong_and_names_it() {
    let s = store();
    assert_eq!(
        s.zaro(&["ref", "validate", "@:/refs.json", "--all"]).text(),
        "valid: 11 entries, 2 arrays, 2 objects, 5 chunks decoded, 0 errors, 0 warnings\n"
    );
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/refs.parq"]).text();
    assert!(
        s.zaro(&["ref", "validate", "@:/refs.parq"])
            .text()
            .starts_with("valid: 11 entries, 2 arrays, 2 objects, 3 chunks")
    );
    s.put("data/one.bin", [1, 2, 3]).put("data/two.bin", [5]);
    for name in ["@:/refs.json", "@:/refs.parq"] {
        let run = s.zaro(&["ref", "validate", name, "--all", "--json"]);
        assert_eq!(run.code, 1, "{}", run.err);
        let json = squeezed(&String::from_utf8(run.out).unwrap());
        assert!(json.contains(r#""ok":false"#) && json.contains(r#""errors":2,"warnings":0"#), "{json}");
        assert!(
            json.contains(r#""rule":"ref/short","level":"error","node":"/a","key":"a/1.0","url":""#),
            "{json}"
        );
        assert!(json.contains(r#""rule":"ref/decode","level":"error","node":"/a","key":"a/2.0""#), "{json}");
    }
    std::fs::remove_file(s.file("data/two.bin")).unwrap();
    let run = s.zaro(&["ref", "validate", "@:/refs.json"]);
    let text = String::from_utf8(run.out).unwrap();
    assert_eq!(run.code, 1);
    assert!(text.contains("error: a/2.0: data/two.bin: ") && text.contains("[ref/target-missing]"), "{text}");
}

#[test]
fn warnings_fail_only_when_strict() {
    let s = store();
    s.put(
        "odd.json",
        DOCUMENT.replacen("\"a/0.0\"", "\"a/9.0\": \"x\", \"readme\": \"hello\", \"a/0.0\"", 1),
    );
    let run = s.zaro(&["ref", "validate", "@:/odd.json"]);
    let text = String::from_utf8(run.out).unwrap();
    assert_eq!(run.code, 0, "{text}");
    assert!(text.contains("[ref/outside-grid]") && text.contains("[ref/stray-key]"), "{text}");
    assert_eq!(s.zaro(&["ref", "validate", "@:/odd.json", "--strict"]).code, 1);
}

#[test]
fn rebase_changes_prefixes() {
    let s = store();
    s.put("moved/one.bin", [7, 8, 9, 10]).put("moved/two.bin", [11, 12]);
    let moved = format!("{}/moved/", s.path().display());
    let dry = s.zaro(&["ref", "rebase", "@:/refs.json", "--from", "data/", "--to", &moved, "--dry-run"]);
    assert!(dry.err.contains("would change 3 references: data/ to "), "{}", dry.err);
    for to in ["@:/moved.json", "@:/moved.parq"] {
        s.zaro(&["ref", "rebase", "@:/refs.json", to, "--from", "data/", "--to", &moved]).text();
        assert_eq!(squeezed(&values(&s, to)[0]), "[[7,8],[9,10],[11,12],[255,0],[9,9]]");
    }
    // Back, in place, with one of two.
    let one = format!("{moved}one");
    let json = ref_json(
        &s,
        &["rebase", "@:/moved.parq", "@:/moved.parq", "--overwrite", "--from", &one, "--to", "s3://b/one"],
    );
    assert!(json.contains(r#""references":2}],"unchanged":1,"unchanged_prefixes":["#), "{json}");
    let stat = ref_json(&s, &["stat", "@:/moved.parq"]);
    assert!(stat.contains(r#""prefix":"s3://b/","scheme":"s3","objects":1,"references":2"#), "{stat}");
    let run = s.zaro(&["ref", "rebase", "@:/refs.json", "--dry-run", "--from", "gs://", "--to", "x"]);
    assert!(run.err.contains("warning:") && run.err.contains("would change 0 references"), "{}", run.err);
    assert!(run.err.contains("unchanged: 3 references to data/"), "{}", run.err);
    s.zaro(&["ref", "rebase", "@:/refs.json", "@:/y.json", "--from", "a", "--from", "b", "--to", "x"])
        .fails(2, "each --from");
    s.zaro(&["ref", "rebase", "@:/refs.json", "--from", "a", "--to", "x"]).fails(2, "DST");
}

/// Every array below `uri`, as it is read or as its error ends.
fn everything(s: &Store, uri: &str) -> Vec<(String, i32, Vec<u8>)> {
    let list = s.zaro(&["list", uri, "-r"]).text();
    let arrays = list.lines().filter(|l| l.split_whitespace().nth(1) == Some("array"));
    let read = |path: &str| s.zaro(&["read", uri, path, "--format", "json"]);
    arrays
        .filter_map(|l| l.split_whitespace().next())
        .map(|path| (path.to_owned(), read(path)))
        .map(|(path, run)| (path, run.code, run.out))
        .collect()
}

#[test]
fn samples_read_the_same_in_every_form() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../zaro/tests/data/references");
    for name in ["combined.kerchunk.v1.json", "sst_0.virtualizarr.json", "edge_cases.v1.json"] {
        let s = Store::new();
        let source = format!("{samples}/{name}");
        let wanted = everything(&s, &source);
        assert!(wanted.len() > 3 && wanted.iter().any(|(_, code, _)| *code == 0), "{name}: {wanted:?}");
        let mut from = source;
        for to in ["@:/1.json", "@:/2.parq", "@:/3.json.zst", "@:/4.parq"] {
            let run = s.zaro(&["ref", "convert", &from, to, "--record-size", "3", "--drop-strays"]);
            assert_eq!(run.code, 0, "{name} to {to}: {}", run.err);
            assert_eq!(everything(&s, to), wanted, "{name} to {to}");
            from = to.to_owned();
        }
        // All of it was found, and one object is asked for once, whichever arrays refer to it.
        let [first, last] = ["@:/1.json", "@:/4.parq"].map(|uri| {
            let text = s.zaro(&["ref", "validate", uri, "--all"]).text();
            text.split(", ").nth(2).unwrap().to_owned()
        });
        assert_eq!(first, last, "{name}");
    }
}

#[test]
fn only_references_are_replaced_by_references() {
    let s = store();
    s.put("notes.json", r#"{"my":"notes"}"#).put("thesis.json.gz", "my thesis").put("old.json", DOCUMENT);
    for to in ["data/one.bin", "notes.json", "thesis.json.gz"] {
        let before = std::fs::read(s.file(to)).unwrap();
        let to_path = format!("@:/{to}");
        let words = ["ref", "convert", "@:/refs.json", &to_path, "--form", "json", "--overwrite"];
        s.zaro(&words).fails(2, "not a reference document");
        assert_eq!(std::fs::read(s.file(to)).unwrap(), before);
    }
    s.zaro(&["ref", "convert", "@:/refs.json", "@:/old.json", "--overwrite"]).text();
}

#[test]
fn secrets_of_addresses_are_not_shown() {
    let s = Store::new();
    let secret = DOCUMENT.replace("data/two.bin", "http://user:s3cr3t@127.0.0.1:9/two.bin?sig=S1GN");
    s.put("refs.json", secret).put("data/one.bin", [1, 2, 3, 4]);
    let once = ["--option", "http://:retries=0"];
    for words in [&["ref", "stat", "@:/refs.json"][..], &["ref", "validate", "@:/refs.json"]] {
        for more in [&[][..], &["--json"]] {
            let run = s.zaro(&[words, &once, more].concat());
            let shown = format!("{}{}", String::from_utf8_lossy(&run.out), run.err);
            assert!(shown.contains("127.0.0.1"), "{shown}");
            assert!(!shown.contains("s3cr3t") && !shown.contains("S1GN"), "{shown}");
        }
    }
    let run = s.zaro(&["info", "@", "--header", "Authorization Bearer T0KEN"]);
    assert!(!run.err.contains("T0KEN"), "{}", run.err);
}
