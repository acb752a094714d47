//! `zaro manifest` on Zarrs in buckets: on the real servers that `scripts/servers.sh` starts. Without them each test says
//! that it is skipped.

use crate::common;
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

/// The servers that are running.
fn servers() -> Vec<(&'static str, String)> {
    let all = [("SeaweedFS", "ZARO_TEST_S3"), ("Ceph", "ZARO_TEST_CEPH")];
    let running = all.into_iter().filter_map(|(name, variable)| match std::env::var(variable) {
        Ok(endpoint) => Some((name, endpoint)),
        Err(_) => {
            println!("skipped: no {name} ({variable} is not set; see scripts/servers.sh)");
            None
        }
    });
    running.collect()
}

/// An id nobody used yet.
fn fresh() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    format!("{now:032x}").chars().rev().collect()
}

struct Server {
    endpoint: String,
}

impl Server {
    fn zaro(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_zaro"))
            .args(args)
            .args(["--endpoint", &self.endpoint])
            .env("AWS_ACCESS_KEY_ID", "zaro")
            .env("AWS_SECRET_ACCESS_KEY", "zaro-secret")
            .env("AWS_REGION", "us-east-1")
            .output()
            .unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let done = self.zaro(args);
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{args:?}: {text}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// A request with curl, which signs it.
    fn curl(&self, method: &str, path: &str, more: &[&str]) -> String {
        let done = Command::new("curl")
            .args(["--silent", "--fail", "--show-error", "--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["--user", "zaro:zaro-secret", "--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
            .args(["--request", method, &format!("{}/{path}", self.endpoint)])
            .args(more)
            .output()
            .unwrap();
        assert!(done.status.success(), "{path}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    fn put(&self, key: &str, value: &str) {
        self.curl("PUT", &format!("versioned/{key}"), &["--data-binary", value]);
    }
}

#[test]
fn a_manifest_is_made_kept_read_through_and_ends_its_embargo() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let id = fresh();
        let zarr = format!("s3://versioned/zarr/{id}");
        let meta = common::v3_document(&[4], &[2], "uint8", "9", "");
        server.put(&format!("zarr/{id}/zarr.json"), &meta);
        server.put(&format!("zarr/{id}/c/0"), "ab");
        let made = server.ok(&["manifest", "create", &zarr, "--embargoed", "--json"]);
        assert!(made.contains(r#""outcome":"new""#) && made.contains(r#""entries":2"#), "{name}: {made}");
        let checksum = made.split(r#""checksum":""#).nth(1).unwrap().split('"').next().unwrap();
        let key = format!("zarr-manifest/{}/{}/{id}/{checksum}.json", &id[..3], &id[3..6]);
        let tags = server.curl("GET", &format!("versioned/{key}?tagging="), &[]);
        assert!(tags.contains("<Key>embargoed</Key><Value>true</Value>"), "{name}: {tags}");

        // As it was, after it was overwritten; a chunk that was not there then is fill.
        server.put(&format!("zarr/{id}/c/0"), "xy");
        server.put(&format!("zarr/{id}/c/1"), "z!");
        let version = format!("manifest+s3://versioned/{key}");
        let values = server.ok(&["read", &version, "--format", "json"]);
        assert_eq!(values.split_whitespace().collect::<String>(), "[97,98,9,9]", "{name}");
        let now = server.ok(&["read", &zarr, "--format", "json"]);
        assert_eq!(now.split_whitespace().collect::<String>(), "[120,121,122,33]", "{name}");

        let again = server.ok(&["manifest", "create", &zarr, "--json"]);
        assert!(again.contains(r#""outcome":"new""#) && again.contains(r#""entries":3"#), "{name}: {again}");
        let again = server.ok(&["manifest", "create", &zarr, "--json"]);
        assert!(again.contains(r#""outcome":"kept""#), "{name}: {again}");

        let done = server.ok(&["manifest", "unembargo", &zarr, "--json"]);
        assert!(done.contains(r#""manifests":1"#) && done.contains(r#""objects":0"#), "{name}: {done}");
        let tags = server.curl("GET", &format!("versioned/{key}?tagging="), &[]);
        assert!(!tags.contains("embargoed"), "{name}: {tags}");

        // A name that is both, which no manifest can hold.
        server.put(&format!("zarr/{id}/c"), "oops");
        let refused = server.zaro(&["manifest", "create", &zarr]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(4), "{name}: {text}");
        assert!(text.contains("\"c\" and \"c/0\""), "{name}: {text}");
    }
}

#[test]
fn a_bucket_is_filled_and_running_again_changes_nothing() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let place = fresh();
        let ids: Vec<String> = (0..3).map(|i| format!("{i}{i}{i}abc-{place}")).collect();
        for id in &ids {
            server.put(&format!("{place}/zarr/{id}/zarr.json"), id);
        }
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        let journal = journal.to_str().unwrap();
        let at = format!("s3://versioned/{place}");
        let first = server.ok(&["manifest", "backfill", &at, "--json", "--journal", journal]);
        assert!(
            first.ends_with("{\"new\":3,\"kept\":0,\"replaced\":0,\"journal\":0,\"failed\":0}\n"),
            "{name}: {first}"
        );
        let second = server.ok(&["manifest", "backfill", &at, "--json"]);
        assert!(second.contains("\"new\":0,\"kept\":3"), "{name}: {second}");
        // A line that a crash cut off does not count.
        let text = std::fs::read_to_string(journal).unwrap();
        std::fs::write(journal, &text[..text.len() - 5]).unwrap();
        let third = server.ok(&["manifest", "backfill", &at, "--json", "--journal", journal]);
        assert!(third.contains("\"kept\":1,\"replaced\":0,\"journal\":2"), "{name}: {third}");
    }
}

#[test]
fn killed_at_any_moment_it_leaves_no_half_manifest_and_running_again_finishes() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let place = fresh();
        let ids: Vec<String> = (0..4).map(|i| format!("{i}k{i}abc-{place}")).collect();
        for id in &ids {
            for k in 0..5 {
                server.put(&format!("{place}/zarr/{id}/c/{k}"), id);
            }
        }
        let at = format!("s3://versioned/{place}");
        for delay in [20, 60, 120, 250] {
            let mut child = Command::new(env!("CARGO_BIN_EXE_zaro"))
                .args(["manifest", "backfill", &at, "--jobs", "1", "--endpoint", &server.endpoint])
                .env("AWS_ACCESS_KEY_ID", "zaro")
                .env("AWS_SECRET_ACCESS_KEY", "zaro-secret")
                .env("AWS_REGION", "us-east-1")
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(delay));
            // It may be done already.
            let _ = child.kill();
            child.wait().unwrap();
        }
        let last = server.ok(&["manifest", "backfill", &at, "--json"]);
        assert!(last.contains("\"failed\":0"), "{name}: {last}");
        for line in last.lines().take(4) {
            let field =
                |f: &str| line.split(&format!("\"{f}\":\"")).nth(1).unwrap().split('"').next().unwrap();
            let (id, checksum) = (field("zarr"), field("checksum"));
            let manifest = format!("{at}/zarr-manifest/{}/{}/{id}/{checksum}.json", &id[..3], &id[3..6]);
            server.ok(&["manifest", "verify", &manifest, "--bytes"]);
            let listed = server.ok(&["manifest", "list", &format!("{at}/zarr/{id}")]);
            assert_eq!(listed.lines().count(), 1, "{name}: {listed}");
            assert_eq!(server.ok(&["checksum", &format!("{at}/zarr/{id}")]).trim(), checksum, "{name}");
        }
    }
}

#[test]
fn what_is_compared_fetched_and_looked_back_at() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let id = fresh();
        let zarr = format!("s3://versioned/zarr/{id}");
        for (key, value) in [("zarr.json", "{}"), ("a/0", "first"), ("a/1", "other")] {
            server.put(&format!("zarr/{id}/{key}"), value);
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.json");
        let manifest = file.to_str().unwrap();
        let checksum = server.ok(&["manifest", "create", &zarr, "-o", manifest]);
        // SeaweedFS dates by whole seconds: two states of one second are one.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        server.put(&format!("zarr/{id}/a/0"), "second");
        server.curl("DELETE", &format!("versioned/zarr/{id}/a/1"), &[]);
        let diff = server.zaro(&["manifest", "diff", manifest, &zarr]);
        let text = String::from_utf8(diff.stdout).unwrap();
        assert_eq!(diff.status.code(), Some(1));
        assert!(text.contains("~ a/0") && text.contains("- a/1"), "{name}: {text}");
        // What it names is still there, though no longer current.
        server.ok(&["manifest", "verify", manifest, "--objects", &zarr, "--bytes"]);
        let copy = folder.path().join("copy");
        server.ok(&["manifest", "fetch", manifest, copy.to_str().unwrap(), "--objects", &zarr]);
        assert_eq!(std::fs::read_to_string(copy.join("a/0")).unwrap(), "first", "{name}");
        let local = server.ok(&["checksum", copy.to_str().unwrap()]);
        assert_eq!(local.trim(), checksum.lines().next().unwrap().trim(), "{name}");
        let history = server.ok(&["manifest", "history", &zarr, "--json"]);
        assert!(history.contains(checksum.trim()), "{name}: {history}");
        assert!(history.lines().last().unwrap().contains("\"until\":null"), "{name}: {history}");
        let early = server.zaro(&["manifest", "history", &zarr, "--at", "2001-01-01T00:00:00Z"]);
        assert_eq!(early.status.code(), Some(3), "{name}");
        // A version that is deleted for good is missed.
        let versions = server.curl("GET", &format!("versioned?prefix=zarr%2F{id}%2Fa%2F1&versions="), &[]);
        let old = versions.split("<Version>").nth(1).unwrap();
        let old = old.split("<VersionId>").nth(1).unwrap().split('<').next().unwrap();
        server.curl("DELETE", &format!("versioned/zarr/{id}/a/1?versionId={old}"), &[]);
        let verify = server.zaro(&["manifest", "verify", manifest, "--objects", &zarr, "--json"]);
        let text = String::from_utf8(verify.stdout).unwrap();
        assert_eq!(verify.status.code(), Some(1), "{name}: {text}");
        assert!(text.contains("\"a/1\"") && !text.contains("\"a/0\""), "{name}: {text}");
    }
}

#[test]
fn what_is_not_a_manifest_or_not_a_zarr_is_left_alone() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let id = fresh();
        let zarr = format!("s3://versioned/zarr/{id}");
        // A Zarr that never was has no manifest.
        let none = server.zaro(&["manifest", "create", &zarr]);
        assert_eq!(none.status.code(), Some(3), "{name}: {}", String::from_utf8_lossy(&none.stderr));
        server.put(&format!("zarr/{id}/zarr.json"), "{}");
        // Somebody's document at the place of the manifest stays.
        let checksum = server.ok(&["checksum", &zarr]);
        let key = format!("zarr-manifest/{}/{}/{id}/{}.json", &id[..3], &id[3..6], checksum.trim());
        server.put(&key, "something else");
        let refused = server.zaro(&["manifest", "create", &zarr]);
        assert!(!refused.status.success(), "{name}");
        assert_eq!(server.curl("GET", &format!("versioned/{key}"), &[]), "something else", "{name}");
        server.curl("DELETE", &format!("versioned/{key}"), &[]);
        // A day is a moment, too: its beginning.
        let early = server.zaro(&["manifest", "history", &zarr, "--at", "2001-01-01"]);
        assert_eq!(early.status.code(), Some(3), "{name}: {}", String::from_utf8_lossy(&early.stderr));
        let late = server.ok(&["manifest", "history", &zarr, "--at", "2101-01-01"]);
        assert!(late.contains(checksum.trim()), "{name}: {late}");
    }
}

/// The value of a member in one line of JSON.
fn member<'a>(text: &'a str, name: &str) -> &'a str {
    text.split(&format!("\"{name}\":\"")).nth(1).unwrap().split('"').next().unwrap()
}

#[test]
fn a_document_overwritten_often_keeps_all_its_versions() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let id = fresh();
        let zarr = format!("s3://versioned/zarr/{id}");
        server.put(&format!("zarr/{id}/a/0"), "x");
        // One curl, many puts: a page of Ceph with folders has a third of the rows of one without.
        let url = format!("{}/versioned/zarr/{id}/zarr.json?n=[1-1500]", server.endpoint);
        let done = Command::new("curl")
            .args(["--silent", "--fail", "--output", "/dev/null", "--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["--user", "zaro:zaro-secret", "--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
            .args(["--request", "PUT", "--data-binary", "same", &url])
            .status()
            .unwrap();
        assert!(done.success(), "{name}");
        let file = tempfile::NamedTempFile::new().unwrap();
        server.ok(&["manifest", "history", &zarr, "--at", "2101-01-01", "-o", file.path().to_str().unwrap()]);
        let report = server.ok(&["manifest", "gc", &zarr, "--keep", file.path().to_str().unwrap(), "--json"]);
        assert!(report.contains(r#""versions":1501"#), "{name}: {report}");
        assert!(report.contains(r#""unnamed":1499"#), "{name}: {report}");
        let done = server.ok(&["manifest", "unembargo", &zarr, "--json"]);
        assert!(done.contains(r#""seen":1501"#), "{name}: {done}");
    }
}

#[test]
fn backfill_makes_manifests_of_what_is_deleted_and_its_journal_is_of_one_bucket() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let place = fresh();
        let id = "abcdef-gone";
        server.put(&format!("{place}/zarr/{id}/zarr.json"), "{}");
        let at = format!("s3://versioned/{place}");
        server.ok(&["manifest", "backfill", &at]);
        server.curl("DELETE", &format!("versioned/{place}/zarr/{id}/zarr.json"), &[]);
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        let journal = journal.to_str().unwrap();
        let again = server.ok(&["manifest", "backfill", &at, "--json", "--journal", journal]);
        assert!(again.contains("-0--0"), "{name}: {again}");
        let list = server.ok(&["manifest", "list", &format!("{at}/zarr/{id}"), "--current", "--json"]);
        let first = list.split("\"current\"").next().unwrap();
        assert!(first.contains("-0--0"), "{name}: {list}");
        // The same journal for another place, and a file that is none.
        let other = server.zaro(&["manifest", "backfill", "s3://versioned-public", "--journal", journal]);
        assert_eq!(other.status.code(), Some(2), "{name}");
        assert!(String::from_utf8_lossy(&other.stderr).contains("the journal belongs to"), "{name}");
        let mine = folder.path().join("mine.txt");
        std::fs::write(&mine, "my notes\n").unwrap();
        let none = server.zaro(&["manifest", "backfill", &at, "--journal", mine.to_str().unwrap()]);
        assert_eq!(none.status.code(), Some(2), "{name}");
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "my notes\n");
    }
}

#[test]
fn what_is_in_a_manifests_place_is_mended_on_request_and_counts_no_more() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let id = fresh();
        let zarr = format!("s3://versioned/zarr/{id}");
        server.put(&format!("zarr/{id}/zarr.json"), "{}");
        // One without versions is given them.
        let plain = server.ok(&["manifest", "create", &zarr, "--plain", "--json"]);
        assert!(plain.contains(r#""outcome":"new""#), "{name}: {plain}");
        let key =
            format!("zarr-manifest/{}/{}/{id}/{}.json", &id[..3], &id[3..6], member(&plain, "checksum"));
        let full = server.ok(&["manifest", "create", &zarr, "--json"]);
        assert!(full.contains(r#""outcome":"replaced""#), "{name}: {full}");
        assert!(server.curl("GET", &format!("versioned/{key}"), &[]).contains("versionId"), "{name}");
        let full = server.ok(&["manifest", "create", &zarr, "--json"]);
        assert!(full.contains(r#""outcome":"kept""#), "{name}: {full}");
        // A damaged one: a word in the list, refused by create, replaced if told so.
        server.put(&key, "{\"fields\": [\"versionId\"");
        let list = server.zaro(&["manifest", "list", &zarr]);
        assert!(list.status.success(), "{name}");
        assert!(String::from_utf8_lossy(&list.stdout).contains("cannot be read"), "{name}");
        assert_eq!(server.zaro(&["manifest", "create", &zarr]).status.code(), Some(6), "{name}");
        assert_eq!(server.zaro(&["manifest", "gc", &zarr]).status.code(), Some(4), "{name}");
        let mended = server.ok(&["manifest", "create", &zarr, "--replace", "--json"]);
        assert!(mended.contains(r#""outcome":"replaced""#), "{name}: {mended}");
        let report = server.ok(&["manifest", "gc", &zarr, "--json"]);
        assert!(report.contains(r#""broken":[]"#), "{name}: {report}");
        // Names that objects may have and files need not.
        server.put(&format!("zarr/{id}/.git/config"), "x");
        server.put(&format!("zarr/{id}/tab%09key"), "y");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.json");
        let file = file.to_str().unwrap();
        server.ok(&["manifest", "create", &zarr, "-o", file]);
        let copy = folder.path().join("copy");
        let copy = copy.to_str().unwrap();
        std::fs::create_dir(copy).unwrap();
        let left = format!("{copy}/.zaro-4194300-1.tmp");
        std::fs::write(&left, "left by a dead one").unwrap();
        // Whose it was cannot be told any more, but that it is old can.
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 86_400);
        std::fs::File::options().write(true).open(&left).unwrap().set_modified(long_ago).unwrap();
        server.ok(&["manifest", "fetch", file, copy, "--from", &zarr]);
        assert_eq!(std::fs::read_to_string(format!("{copy}/tab\tkey")).unwrap(), "y", "{name}");
        assert!(!std::fs::exists(&left).unwrap(), "{name}");
        server.ok(&["manifest", "verify", file, "--folder", copy, "--bytes"]);
    }
}

#[test]
fn an_embargo_of_some_is_one_of_all() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let id = fresh();
        let zarr = format!("s3://versioned/zarr/{id}");
        server.put(&format!("zarr/{id}/.zattrs"), "{}");
        for n in 0..3 {
            let path = format!("versioned/zarr/{id}/c{n}");
            server.curl("PUT", &path, &["--data-binary", "x", "--header", "x-amz-tagging: embargoed=true"]);
        }
        for check in ["sample", "all"] {
            let made = server.ok(&["manifest", "create", &zarr, "--json", "--embargo-check", check]);
            let manifest = member(&made, "manifest").strip_prefix("s3://").unwrap();
            let tags = server.curl("GET", &format!("{manifest}?tagging="), &[]);
            assert!(tags.contains("embargoed"), "{name}: {tags}");
        }
    }
}

#[test]
fn addresses_are_no_places_for_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let done =
            Command::new(env!("CARGO_BIN_EXE_zaro")).current_dir(folder.path()).args(args).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{args:?}");
    };
    let zarr = "s3://b/zarr/abcdef";
    run(&["manifest", "create", zarr, "--to", "s3://mirror"]);
    run(&["manifest", "create", zarr, "-o", "s3://mirror/m.json"]);
    run(&["manifest", "create", ".", "-o", "https://mirror/m.json"]);
    run(&["manifest", "create", zarr, "--inventory", "s3://b/inventory/manifest.json"]);
    run(&["manifest", "create", zarr, "--zarr", "other1", "-o", "m.json"]);
    run(&["manifest", "history", zarr, "--at", "2026-01-01", "-o", "s3://mirror/m.json"]);
    run(&["manifest", "fetch", "m.json", "s3://mirror/zarr/abcdef"]);
    run(&["manifest", "gc", zarr, "--list", "s3://mirror/list"]);
    run(&["manifest", "gc", zarr, "--keep", "s3://mirror/m.json"]);
    run(&["manifest", "backfill", "s3://b", "--journal", "s3://mirror/journal"]);
    run(&["manifest", "to-reference", "m.json", "--base", "x", "-o", "gs://mirror/r.json"]);
    run(&["manifest", "verify", "m.json", "--folder", "s3://mirror"]);
    run(&["checksum", ".", "--cache", "s3://mirror/cache"]);
}

#[test]
fn a_list_of_garbage_does_not_replace_another_file() {
    for (name, endpoint) in servers() {
        let server = Server { endpoint };
        let id = fresh();
        let zarr = format!("s3://versioned/zarr/{id}");
        server.put(&format!("zarr/{id}/zarr.json"), "1");
        server.put(&format!("zarr/{id}/zarr.json"), "2");
        server.ok(&["manifest", "create", &zarr]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ids.json");
        std::fs::write(&file, "[1, 2]").unwrap();
        let list = file.to_str().unwrap();
        assert_eq!(server.zaro(&["manifest", "gc", &zarr, "--list", list]).status.code(), Some(6), "{name}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "[1, 2]");
        std::fs::remove_file(&file).unwrap();
        server.ok(&["manifest", "gc", &zarr, "--list", list]);
        server.ok(&["manifest", "gc", &zarr, "--list", list]);
        // What is in the list and may not go is named.
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}{{\"key\":\"zarr/{id}/other\",\"versionId\":\"v\"}}\n"))
            .unwrap();
        let done = server.zaro(&["manifest", "gc", &zarr, "--list", list, "--yes", "--json"]);
        assert!(String::from_utf8_lossy(&done.stdout).contains(r#""deleted":1"#), "{name}");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            said.contains("1 entry of the list may not be deleted: kept") && said.contains("other (v)"),
            "{name}: {said}"
        );
    }
}
