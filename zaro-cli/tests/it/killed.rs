//! Commands killed at their system calls, and given again: the result is the same as if nothing had happened, and nothing
//! is left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Store, copy, sample, v2_document, zaro};

/// Whether `strace` can be used here.
pub(crate) fn can_trace() -> bool {
    let run = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// Runs a command that is killed at its `n`-th call of `call`; whether it came to its end before.
pub(crate) fn killed(args: &[String], call: &str, n: usize) -> bool {
    let inject = format!("inject={call}:signal=SIGKILL:when={n}");
    let run = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject])
        .arg(env!("CARGO_BIN_EXE_zaro"))
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.unwrap().success()
}

/// All files below a folder that are content, and their bytes. Temporary files of dead writers are not.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn add(found: &mut BTreeMap<String, Vec<u8>>, folder: &Path, at: &str) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let entry = entry.unwrap();
            let name = format!("{at}/{}", entry.file_name().to_str().unwrap());
            if name.ends_with(".tmp") {
                continue;
            }
            if entry.path().is_dir() {
                add(found, &entry.path(), &name);
            } else {
                found.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    add(&mut found, folder, "");
    found
}

/// Kills a command at many of its renames and deletions, and gives it again. `prepare` makes what it works on in a new
/// folder; `result` is what it makes there.
fn survives(name: &str, args: &[&str], result: &str, prepare: &dyn Fn(&Store)) {
    let in_folder = |s: &Store| -> Vec<String> {
        args.iter().map(|a| a.replace("@:", s.path().to_str().unwrap())).collect()
    };
    let good = Store::new();
    prepare(&good);
    good.zaro(args).text();
    let wanted = files(&good.file(result));
    assert!(wanted.len() > 2, "{name}");
    for call in ["rename", "unlink"] {
        // Closer together at first, where more happens.
        let mut n = 1;
        while n < 200 {
            let s = Store::new();
            prepare(&s);
            let whole = killed(&in_folder(&s), call, n);
            if !whole {
                let again = s.zaro(args);
                // Killed after its last change, it is there already.
                let done = again.code == 2 && again.err.contains("already") && !journal(&s.file(result));
                assert!(again.code == 0 || done, "{name}, {call} {n}: {}", again.err);
            }
            let got = files(&s.file(result));
            let differ: Vec<&String> =
                got.keys().chain(wanted.keys()).filter(|k| got.get(*k) != wanted.get(*k)).collect();
            assert!(differ.is_empty(), "{name}, {call} {n}: {differ:?}");
            if whole {
                break;
            }
            n += 1 + n / 2;
        }
    }
}

fn journal(folder: &Path) -> bool {
    files(folder).keys().any(|k| k.contains(".zaro-"))
}

/// A group with two arrays of 64 chunks in V2.
fn numbers(s: &Store) {
    s.put("a.zarr/.zgroup", r#"{"zarr_format":2}"#);
    for name in ["x", "y"] {
        let document = v2_document(&[64], "\"<i4\"", "0").replace("\"chunks\":[64]", "\"chunks\":[2]");
        s.put(&format!("a.zarr/{name}/.zarray"), document);
    }
    let values: Vec<String> = (1..=64).map(|n| n.to_string()).collect();
    s.put("values.csv", values.join("\n"));
    for name in ["x", "y"] {
        s.zaro(&["write", "@:/a.zarr", name, "--from", "@:/values.csv"]).text();
    }
}

#[test]
fn copies_that_are_killed_are_finished() {
    if !can_trace() {
        return;
    }
    survives("copy", &["copy", "@:/a.zarr", "@:/b.zarr"], "b.zarr", &numbers);
    let recut = ["copy", "@:/a.zarr", "@:/b.zarr", "--chunks", "8", "--zarr-format", "3"];
    survives("recut", &recut, "b.zarr", &numbers);
    let replaced = ["copy", "@:/a.zarr", "@:/b.zarr", "--overwrite"];
    survives("replaced", &replaced, "b.zarr", &|s| {
        numbers(s);
        s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--chunks", "1"]).text();
    });
    survives("in place", &["copy", "@:/a.zarr", "--in-place", "--zarr-format", "3"], "a.zarr", &numbers);
}

#[test]
fn images_that_are_killed_are_finished() {
    if !can_trace() {
        return;
    }
    let image = |s: &Store| copy(&sample("05-omezarrpy-0.4.zarr"), &s.file("i.zarr"));
    survives("upgrade", &["image", "upgrade", "@:/i.zarr", "--in-place"], "i.zarr", &image);
    survives("upgrade to", &["image", "upgrade", "@:/i.zarr", "@:/j.zarr"], "j.zarr", &image);
    let pyramid = ["image", "pyramid", "@:/i.zarr", "--overwrite", "--levels", "3"];
    survives("pyramid", &pyramid, "i.zarr", &image);
    let elsewhere = ["image", "pyramid", "@:/i.zarr", "--to", "@:/j.zarr", "--levels", "3"];
    survives("pyramid to", &elsewhere, "j.zarr", &image);
}

#[test]
fn staying_with_the_version_that_was_keeps_all_documents() {
    if !can_trace() {
        return;
    }
    for n in [2, 3, 4, 5, 6] {
        let s = Store::new();
        numbers(&s);
        let before = files(&s.file("a.zarr"));
        let at = s.file("a.zarr").to_str().unwrap().to_owned();
        let args = ["copy", &at, "--in-place", "--zarr-format", "3"].map(str::to_owned);
        if killed(&args, "rename", n) {
            break;
        }
        let back = zaro(&["copy", &at, "--in-place", "--zarr-format", "2"]);
        if back.code == 0 {
            assert!(back.err.contains("rolled back an unfinished conversion"), "rename {n}: {}", back.err);
            assert_eq!(temporaries(&s.file("a.zarr")), 0, "rename {n}");
        }
        let after = files(&s.file("a.zarr"));
        let readable = zaro(&["read", &at, "x", "--format", "csv"]).text();
        assert_eq!(readable.lines().count(), 64, "rename {n}");
        assert!(after == before || journal(&s.file("a.zarr")), "rename {n}");
    }
}

/// How many temporary files and folders lie below a folder.
fn temporaries(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| match path.extension().is_some_and(|e| e == "tmp") {
        true => 1,
        false if path.is_dir() => temporaries(&path),
        false => 0,
    };
    entries.map(count).sum()
}

#[test]
fn no_empty_folder_stays_where_chunks_were() {
    if !can_trace() {
        return;
    }
    for n in 1.. {
        let s = Store::new();
        numbers(&s);
        s.zaro(&["copy", "@:/a.zarr", "@:/b.zarr", "--path", "x", "--chunks", "32", "--zarr-format", "3"])
            .text();
        let at = s.file("b.zarr").to_str().unwrap().to_owned();
        let args = ["copy", &at, "--in-place", "--zarr-format", "2"].map(str::to_owned);
        let whole = killed(&args, "rmdir", n);
        if !whole {
            s.zaro(&["copy", "@:/b.zarr", "--in-place", "--zarr-format", "2"]).text();
        }
        assert!(s.file("b.zarr/1").exists() && !s.file("b.zarr/c").exists(), "rmdir {n}");
        if whole {
            break;
        }
    }
}

#[test]
fn another_template_is_another_source() {
    // A chunk that is referred to is missing, so that the copy stops in the middle.
    let s = Store::new();
    for (folder, value) in [("p", 1u8), ("q", 2u8)] {
        for i in 0..20 {
            s.put(&format!("{folder}/{i}"), [value; 2]);
        }
    }
    let refs: Vec<String> = (0..20).map(|i| format!(r#""{i}":["{{{{u}}}}/{i}",0,2]"#)).collect();
    let document = v2_document(&[40], "\"|u1\"", "0").replace("\"chunks\":[40]", "\"chunks\":[2]");
    let quoted = document.replace('\n', " ").replace('"', "\\\"");
    let text = format!(
        r#"{{"version":1,"templates":{{"u":"nowhere"}},"refs":{{".zarray":"{quoted}",{}}}}}"#,
        refs.join(",")
    );
    s.put("refs.json", text);
    let template = |folder: &str| format!("u={}", s.file(folder).display());
    let run = |folder: &str, more: &[&str]| {
        let template = template(folder);
        let mut args = vec!["copy", "@:/refs.json", "@:/d.zarr", "--chunks", "4", "--template", &template];
        args.extend(more);
        s.zaro(&args)
    };
    std::fs::rename(s.file("p/19"), s.file("kept")).unwrap();
    assert_ne!(run("p", &[]).code, 0);
    std::fs::rename(s.file("kept"), s.file("p/19")).unwrap();
    assert!(s.file("d.zarr/.zaro-journal.json").exists());
    run("q", &[]).fails(2, "unfinished work of `zaro copy` is here");
    run("q", &["--overwrite"]).text();
    let values = s.zaro(&["read", "@:/d.zarr", "--format", "csv"]).text();
    assert!(values.split_whitespace().all(|v| v == "2"), "{values}");
}
