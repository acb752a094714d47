//! `zaro image validate`, `pack` and `unpack`.

use std::path::{Path, PathBuf};

use crate::common::{Store, zaro};
use zaro::meta::Json;

fn sample(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zaro/testdata/images").join(name);
    path.to_str().unwrap().to_owned()
}

fn path_of(s: &Store, name: &str) -> String {
    s.file(name).to_str().unwrap().to_owned()
}

/// What a run said on both of its ends; it must have ended with this code.
fn ended(arguments: &[&str], code: i32) -> (String, String) {
    let run = zaro(arguments);
    assert_eq!(run.code, code, "{arguments:?}: {}", run.err);
    (String::from_utf8(run.out).unwrap(), run.err)
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap().value
}

#[test]
fn findings_have_all_that_is_needed_to_mend_them() {
    let out = ended(&["image", "validate", &sample("06-omezarrpy-0.5.zarr")], 1).0;
    for text in [
        "MUST V2 /labels ome.version",
        "found nothing; wanted \"0.5\"",
        "fix: add",
        "not valid: version 0.5; 7 nodes; 1 MUST",
    ] {
        assert!(out.contains(text), "{text}\n{out}");
    }
    let out = ended(&["image", "validate", &sample("06-omezarrpy-0.5.zarr"), "--json"], 1).0;
    let report = json(&out);
    assert_eq!(report.get("valid").unwrap().as_bool(), Some(false));
    assert_eq!(report.get("must").unwrap().as_u64(), Some(1));
    let findings = report.get("findings").unwrap().items().unwrap();
    let broken = findings.iter().find(|f| f.get("level").unwrap().as_str() == Some("MUST")).unwrap();
    for (name, value) in [("rule", "V2"), ("node", "/labels"), ("path", "ome.version"), ("wanted", "\"0.5\"")]
    {
        assert_eq!(broken.get(name).unwrap().as_str(), Some(value), "{name}");
    }
}

#[test]
fn what_should_be_counts_only_if_asked() {
    let image = sample("05-omezarrpy-0.4.zarr");
    let out = ended(&["image", "validate", &image], 0).0;
    assert!(out.contains("SHOULD V22") && out.contains("valid: version 0.4"), "{out}");
    ended(&["image", "validate", &image, "--strict"], 1);
    let out = ended(&["image", "validate", &image, "--level", "must"], 0).0;
    assert!(!out.contains("V22"), "{out}");
    let out = ended(&["image", "validate", &image, "--as", "0.5", "--json"], 1).0;
    let report = json(&out);
    assert_eq!(report.get("version").unwrap().as_str(), Some("0.5"));
    assert_eq!(report.get("stated").unwrap().as_str(), Some("0.4"));
    ended(&["image", "validate", &image, "--as", "0.7"], 2);
}

#[test]
fn the_specifications_own_tests_can_be_run() {
    let s = Store::new();
    s.put("good.json", r#"{"ome":{"version":"0.5","well":{"images":[{"path":"0"}]}},"_conformance":{}}"#);
    s.put("bad.json", r#"{"ome":{"version":"0.5","well":{"images":[]}}}"#);
    s.put("none.json", "{}");
    s.put("no.json", "{");
    s.put("advice.json", r#"{"ome":{"version":"0.5","image-label":{"version":"0.5"}}}"#);
    let document =
        r#"{"zarr_format":3,"node_type":"group","attributes":{"ome":{"version":"0.5","labels":["a"]}}}"#;
    s.put("tree.ome.zarr/zarr.json", document);
    let ask = |name: &str, strict: bool| {
        let path = path_of(&s, name);
        let mut arguments = vec!["image", "validate", "--conformance"];
        arguments.extend(strict.then_some("--strict"));
        arguments.push(&path);
        json(&ended(&arguments, 0).0)
    };
    let valid = |answer: &Json| answer.get("valid").unwrap().as_bool().unwrap();
    assert!(valid(&ask("good.json", true)) && ask("good.json", true).get("message").is_none());
    for name in ["bad.json", "none.json", "no.json"] {
        let answer = ask(name, false);
        assert!(!valid(&answer) && answer.get("message").unwrap().as_str().is_some(), "{name}");
    }
    assert!(valid(&ask("advice.json", false)) && !valid(&ask("advice.json", true)));
    // Trees of documents alone: what is not there is not held against them.
    assert!(valid(&ask("tree.ome.zarr", false)));
    ended(&["image", "validate", &path_of(&s, "tree.ome.zarr")], 1);
}

#[test]
fn what_a_plate_repeats_is_said_once() {
    let out = ended(&["image", "validate", &sample("09-hcs-plate-0.4.zarr")], 0).0;
    assert_eq!(out.matches("V22").count(), 1, "{out}");
    assert!(out.contains("also at /A/1/1, /A/3/0, /A/3/1, /B/2/0 and 1 more"), "{out}");
    assert!(out.contains("18 SHOULD"), "{out}");
}

#[test]
fn what_is_no_image_is_an_error() {
    let s = Store::new();
    s.put("z/.zgroup", r#"{"zarr_format":2}"#);
    let out = ended(&["image", "validate", &path_of(&s, "z")], 4);
    assert!(out.1.contains("not an OME-Zarr"), "{}", out.1);
    ended(&["image", "validate", &path_of(&s, "nothing")], 3);
}

#[test]
fn an_image_in_one_file() {
    let s = Store::new();
    let (image, archive, back) =
        (sample("06-omezarrpy-0.5.zarr"), path_of(&s, "a.ozx"), path_of(&s, "b.zarr"));
    let out = ended(&["image", "pack", &image, &archive, "--json"], 0);
    assert!(out.1.contains("without shards"), "{}", out.1);
    let report = json(&out.0);
    assert_eq!(report.get("version").unwrap().as_str(), Some("0.5"));
    let entries = report.get("entries").unwrap().as_u64().unwrap();
    let out = ended(&["image", "validate", &archive], 1).0;
    assert!(out.contains("SHOULD Z6") && out.contains("MUST V2") && !out.contains("Z1"), "{out}");
    let out = ended(&["image", "unpack", &archive, &back, "--json"], 0).0;
    assert_eq!(json(&out).get("files").unwrap().as_u64(), Some(entries));
    let (a, b) = (ended(&["read", &archive, "s1"], 0).0, ended(&["read", &image, "s1"], 0).0);
    assert_eq!(a, b);
    ended(&["image", "pack", &image, &archive], 7);
    let out = ended(&["image", "pack", &sample("05-omezarrpy-0.4.zarr"), &path_of(&s, "c.ozx")], 5);
    assert!(out.1.contains("zaro image upgrade"), "{}", out.1);
}

#[test]
fn the_words_of_strangers_do_not_drive_the_terminal() {
    let s = Store::new();
    s.put(
        "zarr.json",
        r#"{"zarr_format":3,"node_type":"group","attributes":{"ome":{"version":"0.5\u001b]0;x\u0007","multiscales":[]}}}"#,
    );
    let (out, _) = ended(&["image", "validate", s.path().to_str().unwrap()], 1);
    assert!(
        out.contains("it says 0.5\\u{1b}") && !out.contains('\u{1b}') && !out.contains('\u{7}'),
        "{out:?}"
    );
}

#[test]
fn a_level_that_leads_out_of_the_image_is_a_finding() {
    for path in ["..", "../x", "a/../../b", "."] {
        let s = Store::new();
        s.put(
            "i.zarr/zarr.json",
            format!(
                r#"{{"zarr_format":3,"node_type":"group","attributes":{{"ome":{{"version":"0.5","multiscales":[
                {{"axes":[{{"name":"y","type":"space"}},{{"name":"x","type":"space"}}],"datasets":[{{"path":{path:?},
                "coordinateTransformations":[{{"type":"scale","scale":[1,1]}}]}}]}}]}}}}}}"#
            ),
        );
        let (out, _) = ended(&["image", "validate", &path_of(&s, "i.zarr")], 1);
        assert!(out.contains("MUST V5"), "{path}: {out}");
    }
}
