//! `zaro checksum` and `zaro manifest`, of folders.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Store, zaro, zaro_with};
use zaro::manifest::{Manifest, parse};
use zaro::meta::Json;

const CHECKSUM: &str = "6a2bafb14509195e1a1ee982cb046d23-5--31";
const ID: &str = "1284a14f-fe4f-4dc3-b10d-48e5db8bf18d";

const SAMPLE: &str = r#"{
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

/// A folder with the files of the sample in `z`, and the sample beside it.
fn made() -> Store {
    let s = Store::new();
    s.put("z/.zgroup", b"{\"zarr_format\": 2}").put("z/arr_0/.zarray", "A0").put("z/arr_0/0", [0, 1, 2, 3]);
    s.put("z/arr_1/.zarray", "A1").put("z/arr_1/0", [4, 5, 6, 7, 8]);
    s.put("sample.json", SAMPLE);
    s
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap().value
}

fn read(path: &Path) -> Manifest {
    parse(std::fs::File::open(path).unwrap()).unwrap()
}

#[test]
fn checksums_of_folders() {
    let s = made();
    s.put("z/.git/HEAD", "x").put("z/arr_0/.gitattributes", "x");
    assert_eq!(s.zaro(&["checksum", "@:/z"]).text(), format!("{CHECKSUM}\n"));
    assert!(s.zaro(&["checksum", "@:/z", "--all-files"]).text().contains("-7--33"));
    assert_ne!(s.zaro(&["checksum", "@:/z", "--multipart"]).text(), format!("{CHECKSUM}\n"));
    let tree = s.zaro(&["checksum", "@:/z", "--tree"]).text();
    let wanted = [
        format!("{CHECKSUM}  ."),
        "681a5e0face8c7f493c23bc832526e64-2--6  arr_0".into(),
        "e03cd351db29ec74304aa49a5e29a712-2--7  arr_1".into(),
    ];
    assert_eq!(tree.lines().collect::<Vec<_>>(), wanted);
    let report = json(&s.zaro(&["checksum", "@:/z", "--tree", "--json"]).text());
    assert_eq!(report.get("checksum").unwrap().as_str(), Some(CHECKSUM));
    assert_eq!(report.get("bytes").unwrap().as_u64(), Some(31));
    assert_eq!(report.get("directories").unwrap().items().unwrap().len(), 3);
    s.zaro(&["checksum", "@:/none"]).fails(3, "none");
    s.zaro(&["checksum", "@:/sample.json"]).fails(2, "not a folder");
    let cached = ["checksum", "@:/z", "--cache", "@:/cache"];
    assert_eq!(s.zaro(&cached).text(), s.zaro(&cached).text());
    assert!(s.file("cache").exists());
}

#[test]
fn a_manifest_is_made_stored_listed_and_kept() {
    let s = made();
    let args = ["manifest", "create", "@:/z", "--zarr", ID, "--to", "@:/archive"];
    let path = s.zaro(&args).text();
    let wanted = format!("archive/zarr-manifest/128/4a1/{ID}/{CHECKSUM}.json");
    assert!(path.trim_end().ends_with(&wanted), "{path}");
    let file = s.file(&wanted);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("{\n \"fields\": [\"lastModified\",\"size\",\"ETag\"],\n") && text.ends_with("\n}")
    );
    assert_eq!(read(&file).len(), 5);

    // The same version again: the first manifest stays, also if files are newer.
    s.put("z/arr_0/0", [0, 1, 2, 3]);
    let again = json(&s.zaro(&[&args[..], &["--json"]].concat()).text());
    assert_eq!(again.get("new").unwrap().as_bool(), Some(false));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);

    // What is not this manifest is left alone.
    std::fs::write(&file, "my notes").unwrap();
    s.zaro(&args).fails(6, "something else exists in the place");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "my notes");
    s.zaro(&[&args[..], &["--replace"]].concat()).text();
    assert_eq!(read(&file).len(), 5);

    s.put("z/new", "more");
    // Which is the newer must not hang on the second the test happens to run in.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    std::fs::File::options().write(true).open(s.path().join("z/new")).unwrap().set_modified(later).unwrap();
    s.zaro(&args).text();
    std::fs::write(file.parent().unwrap().join(".json"), "{}").unwrap();
    let folder = format!("@:/archive/zarr-manifest/128/4a1/{ID}");
    for at in [&["@:/archive", "--zarr", ID][..], &["@:/archive/zarr-manifest", "--zarr", ID], &[&folder]] {
        let listed = s.zaro(&[&["manifest", "list"][..], at].concat()).text();
        let lines: Vec<&str> = listed.lines().collect();
        assert!(lines.len() == 2 && lines[0].ends_with("-6--35") && lines[1].ends_with(CHECKSUM), "{listed}");
    }
    let listed = json(&s.zaro(&["manifest", "list", "@:/archive", "--zarr", ID, "--json"]).text());
    assert_eq!(listed.items().unwrap()[1].get("checksum").unwrap().as_str(), Some(CHECKSUM));
    s.zaro(&["manifest", "list", "@:/archive", "--zarr", "abcdef-no-such"]).fails(3, "no manifest of abcdef");

    let left = std::fs::read_dir(file.parent().unwrap()).unwrap();
    let odd: Vec<String> = left.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(odd.iter().all(|n| !n.contains("tmp")), "{odd:?}");
    for bad in ["abc", "../../etc", "a/b/c/d/e", ""] {
        s.zaro(&["manifest", "create", "@:/z", "--zarr", bad, "--to", "@:/archive"])
            .fails(2, "not a Zarr id");
    }
    s.zaro(&["manifest", "create", "@:/z"]).fails(2, "name the output");
}

#[test]
fn layouts_and_standard_streams() {
    let s = made();
    let compact = ["manifest", "create", "@:/z", "-o", "-", "--layout", "compact", "--schema-version", "2"];
    let text = s.zaro(&compact).text();
    assert!(text.starts_with(
        "{\"schemaVersion\":2,\"fields\":[\"lastModified\",\"size\",\"ETag\"],\"statistics\":{"
    ));
    let shown = zaro_with(&["manifest", "show", "-", "--json"], text.as_bytes()).text();
    assert_eq!(json(&shown).get("schemaVersion").unwrap().as_u64(), Some(2));
}

#[test]
fn show_and_tree() {
    let s = made();
    let shown = s.zaro(&["manifest", "show", "@:/sample.json"]).text();
    assert!(shown.contains(CHECKSUM) && shown.contains("31 bytes"), "{shown}");
    let entry = json(&s.zaro(&["manifest", "show", "@:/sample.json", "arr_1/0", "--json"]).text());
    assert_eq!(entry.get("versionId").unwrap().as_str(), Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA5"));
    assert_eq!(entry.get("size").unwrap().as_u64(), Some(5));
    let dir = s.zaro(&["manifest", "show", "@:/sample.json", "arr_1/"]).text();
    assert!(dir.contains("e03cd351db29ec74304aa49a5e29a712-2--7"), "{dir}");
    s.zaro(&["manifest", "show", "@:/sample.json", "arr_1/1"]).fails(3, "arr_1/1");
    let tree = s.zaro(&["manifest", "tree", "@:/sample.json"]).text();
    assert_eq!(tree, s.zaro(&["manifest", "tree", "@:/z"]).text());
    assert_eq!(tree.lines().count(), 3);
    assert_eq!(s.zaro(&["manifest", "tree", "@:/sample.json", "--depth", "0"]).text().lines().count(), 1);
    let tree = json(&s.zaro(&["manifest", "tree", "@:/sample.json", "arr_0", "--json"]).text());
    assert_eq!(tree.get("digest").unwrap().as_str(), Some("681a5e0face8c7f493c23bc832526e64-2--6"));
    s.zaro(&["manifest", "show", "@:/z"]).fails(2, "a folder");
    s.zaro(&["manifest", "show", "@:/z/.zgroup"]).fails(4, "no fields");
}

#[test]
fn verify_finds_what_is_wrong() {
    let s = made();
    s.put(&format!("{CHECKSUM}.json"), SAMPLE);
    let name = format!("@:/{CHECKSUM}.json");
    let sound = s.zaro(&["manifest", "verify", &name, "--folder", "@:/z", "--bytes"]).text();
    assert!(sound.starts_with("sound"), "{sound}");
    let wrong = SAMPLE
        .replace("\"entries\": 5", "\"entries\": 6")
        .replace("\"depth\": 1", "\"depth\": 2")
        .replace("\"totalSize\": 31", "\"totalSize\": 32")
        .replace("40+00:00\",\n", "39+00:00\",\n")
        .replace("cb046d23-5--31", "cb046d24-5--31");
    s.put("481a2f77ab786a0f45aafd5db0971caa-0--0.json", wrong);
    let run = s.zaro(&["manifest", "verify", "@:/481a2f77ab786a0f45aafd5db0971caa-0--0.json", "--json"]);
    assert_eq!(run.code, 1);
    let report = json(&String::from_utf8(run.out).unwrap());
    let rules = report.get("findings").unwrap().items().unwrap();
    let rules: Vec<&str> = rules.iter().map(|f| f.get("rule").unwrap().as_str().unwrap()).collect();
    assert_eq!(rules, ["name", "checksum", "entries", "depth", "total-size", "last-modified"]);

    s.put("z/arr_0/0", [9; 4]).put("z/extra", "x");
    std::fs::remove_file(s.file("z/.zgroup")).unwrap();
    let run = s.zaro(&["manifest", "verify", "@:/sample.json", "--folder", "@:/z"]);
    let text = String::from_utf8(run.out).unwrap();
    assert!(run.code == 1 && text.contains("[missing]") && text.contains("[extra]"), "{text}");
    assert!(!text.contains("[bytes]"));
    let run = s.zaro(&["manifest", "verify", "@:/sample.json", "--folder", "@:/z", "--bytes"]);
    assert!(String::from_utf8(run.out).unwrap().contains("arr_0/0: the digest is"));
}

#[test]
fn diff_of_manifests_and_folders() {
    let s = made();
    assert_eq!(s.zaro(&["manifest", "diff", "@:/sample.json", "@:/z"]).text(), "no difference\n");
    s.put("z/arr_0/0", [9; 7]).put("z/arr_2/c/0", "12").put("z/arr_2/c/1", "3");
    std::fs::remove_dir_all(s.file("z/arr_1")).unwrap();
    let run = s.zaro(&["manifest", "diff", "@:/sample.json", "@:/z"]);
    assert_eq!(run.code, 1);
    let text = String::from_utf8(run.out).unwrap();
    let keys: Vec<&str> = text.lines().map(|l| l.split("  ").next().unwrap()).collect();
    let wanted = ["~ arr_0/0", "- arr_1/.zarray", "- arr_1/0", "+ arr_2/c/0", "+ arr_2/c/1"];
    assert_eq!(keys[..5], wanted);
    assert!(text.contains("added 2 entries") && text.contains("removed 2 entries"), "{text}");
    let run = s.zaro(&["manifest", "diff", "@:/z", "@:/sample.json", "--json"]);
    let report = json(&String::from_utf8(run.out).unwrap());
    assert_eq!(report.get("equal").unwrap().as_bool(), Some(false));
    assert_eq!(report.get("before").unwrap().as_str().unwrap().split_once('-').unwrap().1, "5--30");
    let changed = &report.get("changed").unwrap().items().unwrap()[0];
    assert_eq!(changed.get("before").unwrap().get("size").unwrap().as_u64(), Some(7));
    let added = report.get("summary").unwrap().get("added").unwrap();
    assert_eq!(
        (added.get("entries").unwrap().as_u64(), added.get("bytes").unwrap().as_u64()),
        (Some(2), Some(7))
    );
}

#[test]
fn uploads_in_parts_are_compared_as_such() {
    let s = made();
    s.zaro(&["manifest", "create", "@:/z", "-o", "@:/parts.json", "--multipart"]).text();
    assert!(std::fs::read_to_string(s.file("parts.json")).unwrap().contains("-1\"]"));
    s.zaro(&["manifest", "verify", "@:/parts.json", "--folder", "@:/z", "--bytes"]).text();
    assert_eq!(s.zaro(&["manifest", "diff", "@:/parts.json", "@:/z"]).text(), "no difference\n");
    s.zaro(&["manifest", "fetch", "@:/parts.json", "@:/copy", "--from", "@:/z"]).text();
}

#[test]
fn fetch_checks_resumes_and_picks() {
    let s = made();
    let fetch = |extra: &[&str]| {
        let args = ["manifest", "fetch", "@:/sample.json", "@:/copy", "--from", "@:/z", "--json"];
        json(&s.zaro(&[&args[..], extra].concat()).text())
    };
    let counts = |r: &Json| ["files", "bytes", "there"].map(|n| r.get(n).unwrap().as_u64().unwrap());
    assert_eq!(counts(&fetch(&["--glob", "**/.zarray"])), [2, 4, 0]);
    assert_eq!(counts(&fetch(&["--glob", "arr_0", "--glob", ".z*"])), [2, 22, 1]);
    s.put("copy/arr_0/0", [9, 9, 9, 9]);
    let args = ["manifest", "fetch", "@:/sample.json", "@:/copy", "--from", "@:/z"];
    s.zaro(&args).fails(2, "arr_0/0");
    assert_eq!(counts(&fetch(&["--overwrite"]))[2], 4, "a damaged file");
    assert_eq!(s.zaro(&["checksum", "@:/copy"]).text(), format!("{CHECKSUM}\n"));

    let fails = |args: &[&str], code, message: &str| {
        let all = ["manifest", "fetch", "@:/sample.json", "@:/other", "--from", "@:/z"];
        s.zaro(&[&all[..], args].concat()).fails(code, message);
    };
    fails(&["--glob", "none"], 3, "no entry");
    assert!(!s.file("other").exists());
    s.put("z/arr_0/0", [9, 9, 9, 9]);
    fails(&[], 4, "arr_0/0");
    assert!(!s.file("other/arr_0/0").exists(), "a file that is not right never appears");
    // Others that were under way may be there, and would not be fetched again.
    let _ = std::fs::remove_dir_all(s.file("other"));
    s.put("z/arr_0/0", [0, 1, 2, 3]).put("z/arr_1/0", "no");
    fails(&[], 4, "arr_1/0");
    let _ = std::fs::remove_dir_all(s.file("other"));
    std::fs::remove_file(s.file("z/arr_1/0")).unwrap();
    fails(&[], 3, "arr_1/0");
}

/// Chunks that sort behind the documents, in both formats, and one of them that is refused.
#[test]
fn what_is_not_fetched_whole_is_no_zarr() {
    let deep =
        [("zarr.json", "{}"), ("sub/zarr.json", "{}"), ("sub/zzz/zarr.json", "{}"), ("zzz/c/0", "abcd")];
    let old =
        [(".zgroup", "{}"), (".zattrs", "{}"), (".zmetadata", "{}"), ("a/.zarray", "{}"), ("a/0", "abcd")];
    for files in [&deep[..], &old[..]] {
        let s = Store::new();
        for (key, value) in files {
            s.put(&format!("z/{key}"), value);
        }
        s.zaro(&["manifest", "create", "@:/z", "-o", "@:/m.json"]).text();
        for (failing, whole) in files {
            std::fs::remove_file(s.file(&format!("z/{failing}"))).unwrap();
            let fetch = ["manifest", "fetch", "@:/m.json", "@:/copy", "--from", "@:/z", "--jobs", "1"];
            s.zaro(&fetch).fails(3, failing);
            for (key, _) in files {
                let is_document =
                    |k: &str| k.contains("/.z") || k.starts_with(".z") || k.ends_with("zarr.json");
                let depth = |k: &str| k.matches('/').count();
                // Nothing above the one that failed, and no document at all where a chunk failed.
                let later = is_document(key) && (!is_document(failing) || depth(key) < depth(failing));
                assert!(
                    !(later && s.file(&format!("copy/{key}")).exists()),
                    "{failing} failed, {key} is there"
                );
            }
            let made = ["zarr.json", ".zgroup"].iter().any(|name| s.file(&format!("copy/{name}")).exists());
            assert!(!made, "{failing}: the root was made");
            s.put(&format!("z/{failing}"), whole);
            s.zaro(&fetch).text();
            assert_eq!(s.zaro(&["checksum", "@:/copy"]).text(), s.zaro(&["checksum", "@:/z"]).text());
            std::fs::remove_dir_all(s.file("copy")).unwrap();
        }
    }
}

#[test]
fn a_version_as_references() {
    let s = made();
    let base = "https://dandiarchive.s3.amazonaws.com/zarr/id";
    let refs = json(&s.zaro(&["manifest", "to-reference", "@:/sample.json", "--base", base]).text());
    let address =
        refs.get("refs").unwrap().get("arr_1/0").unwrap().items().unwrap()[0].as_str().unwrap().to_owned();
    assert_eq!(address, format!("{base}/arr_1/0?versionId=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA5"));
    s.zaro(&["manifest", "create", "@:/z", "-o", "@:/local.json"]).text();
    s.zaro(&["manifest", "to-reference", "@:/local.json", "--base", base]).fails(5, "no versions");
}

#[test]
fn a_version_as_references_in_parquet() {
    let s = Store::new();
    s.zaro(&["create", "@:/z", "x", "--shape", "4", "--dtype", "u1", "--chunks", "2", "--zarr-format", "2"])
        .text();
    s.put("z/x/0", [1, 2]).put("z/x/1", [3, 4]);
    s.zaro(&["manifest", "create", "@:/z", "-o", "@:/m.json"]).text();
    // A folder names no versions: some are put in.
    let text = std::fs::read_to_string(s.file("m.json")).unwrap();
    let text = text
        .replace("[\"lastModified\"", "[\"versionId\",\"lastModified\"")
        .replace(": [\"20", ": [\"null\",\"20");
    s.put("m.json", text);
    let base = format!("file://{}", s.file("z").display());
    let args = [
        "manifest",
        "to-reference",
        "@:/m.json",
        "--base",
        &base,
        "--from",
        "@:/z",
        "--parquet",
        "@:/r.parq",
    ];
    s.zaro(&args).text();
    assert!(s.file("r.parq/.zmetadata").exists() && s.file("r.parq/x/refs.0.parq").exists());
    s.zaro(&args).fails(6, "not empty");
    // The documents may be read through the manifest itself, which says where they are.
    let through = format!("manifest+{}", s.file("m.json").display());
    let args = ["manifest", "to-reference", "@:/m.json", "--base", &base, "--from", &through];
    s.zaro(&[&args[..], &["--objects", "@:/z", "--parquet", "@:/t.parq"]].concat()).text();
    let text = |name: &str| std::fs::read(s.file(name)).unwrap();
    assert_eq!(text("t.parq/.zmetadata"), text("r.parq/.zmetadata"));
}

#[test]
fn killed_at_any_moment_there_is_no_half_manifest() {
    let s = Store::new();
    for i in 0..3000 {
        s.put(&format!("z/{}/{i}", i % 7), i.to_string());
    }
    let here = s.path().to_str().unwrap().to_owned();
    let args = ["manifest", "create", &format!("{here}/z"), "--zarr", ID, "--to", &format!("{here}/archive")];
    let begun = Instant::now();
    zaro(&["checksum", &format!("{here}/z")]).text();
    let usual = begun.elapsed();
    let folder = s.file(&format!("archive/zarr-manifest/128/4a1/{ID}"));
    for i in 0..12u32 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_zaro"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep((usual * i / 8).min(Duration::from_secs(2)));
        let _ = child.kill();
        child.wait().unwrap();
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "json") {
                assert_eq!(read(&path).len(), 3000);
                zaro(&["manifest", "verify", path.to_str().unwrap()]).text();
            }
        }
    }
    zaro(&args).text();
    let sound = zaro(&["manifest", "list", &format!("{here}/archive"), "--zarr", ID]).text();
    assert_eq!(sound.lines().count(), 1);
}
