//! The same place by many names, files that are not ours, signals, modes and links.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Store, copy, sample, tree, v3_document, zaro};

#[test]
fn the_same_place_by_another_name_is_refused() {
    let store = Store::new();
    store.group("a.zarr");
    store.array("a.zarr/x", &[4], "uint8", "0", "", &[1, 2, 3, 4]);
    symlink("a.zarr", store.file("link.zarr")).unwrap();
    symlink(".", store.file("here")).unwrap();
    let before = tree(&store.file("a.zarr"));
    let here = store.path().to_str().unwrap().to_owned();
    for source in [
        "@:/a.zarr",
        "@:/a.zarr/",
        "@:/a.zarr/zarr.json",
        "@:/./a.zarr",
        "@:/here/here/a.zarr",
        "@:/link.zarr",
        "@:/a.zarr|zarr3:",
        "@:/a.zarr#frag",
        &format!("zarr://{here}/a.zarr"),
        &format!("file://{here}/a.zarr"),
        &format!("file://localhost{here}/a.zarr"),
        &format!("FILE://{here}/%61.zarr"),
    ] {
        for (options, destination) in [
            (&["--overwrite"][..], "@:/a.zarr"),
            (&["--overwrite"], "@:/link.zarr"),
            (&[], "@:/a.zarr/new/deeper"),
            (&["--overwrite", "--path", "x"], "@:/a.zarr"),
        ] {
            let words = [&["copy", source, destination], options].concat();
            store.zaro(&words).fails(2, "same or nested");
            assert!(tree(&store.file("a.zarr")) == before, "{words:?}");
        }
    }
}

#[test]
fn references_that_lead_into_the_destination_are_refused() {
    let store = Store::new();
    store.array("a.zarr", &[4], "uint8", "0", "", &[1, 2, 3, 4]);
    let document = v3_document(&[4], &[4], "uint8", "0", "");
    let escaped = document.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let file = store.file("a.zarr/c/0");
    store.put(
        "refs.json",
        format!(r#"{{"version":1,"refs":{{"zarr.json":"{escaped}","c/0":["{}"]}}}}"#, file.display()),
    );
    let before = tree(&store.file("a.zarr"));
    store.zaro(&["copy", "@:/refs.json", "@:/a.zarr", "--overwrite"]).fails(2, "same or nested");
    assert!(tree(&store.file("a.zarr")) == before);
    assert_eq!(store.zaro(&["copy", "@:/refs.json", "@:/b.zarr"]).code, 0);
    assert_eq!(store.zaro(&["copy", "@:/refs.json", "@:/b.zarr", "--overwrite"]).code, 0);
}

#[test]
fn images_are_not_replaced_by_themselves() {
    let store = Store::new();
    let image = store.file("i.zarr");
    copy(&sample("06-omezarrpy-0.5.zarr"), &image);
    let before = tree(&image);
    let same = format!("zarr3://{}", image.display());
    for words in [
        vec!["image", "upgrade", same.as_str(), "@:/i.zarr", "--to", "0.6", "--overwrite"],
        vec!["image", "pyramid", same.as_str(), "--to", "@:/i.zarr", "--overwrite"],
    ] {
        let run = store.zaro(&words);
        assert!(run.err.contains("same or nested"), "{words:?}: {}", run.err);
        assert!(tree(&image) == before, "{words:?}");
    }
    std::fs::write(image.join("n.npy"), crate::common::npy("'|u1'", false, "(2, 2)", &[1, 2, 3, 4])).unwrap();
    let run = store.zaro(&["image", "convert", "@:/i.zarr/n.npy", "@:/i.zarr", "--overwrite"]);
    assert!(run.err.contains("lies in what is to be written"), "{}", run.err);
    assert!(tree(&image).len() == before.len() + 1);
}

#[test]
fn files_that_are_no_zarr_are_not_deleted() {
    let store = Store::new();
    store.group("g.zarr");
    store.put("home/zarr.json", r#"{"name":"my web app"}"#).put("home/.ssh/key", "keep");
    store.zaro(&["copy", "@:/g.zarr", "@:/home", "--overwrite"]).fails(2, "not part of a Zarr");
    store.group("h.zarr").put("h.zarr/thesis/t.tex", "keep");
    for words in [
        &["copy", "@:/g.zarr", "@:/h.zarr", "--overwrite"][..],
        &["create", "@:/h.zarr", "--group", "--overwrite"],
        &["delete", "@:/h.zarr", "--yes"],
    ] {
        store.zaro(words).fails(2, "thesis/t.tex");
    }
    assert!(store.file("home/.ssh/key").exists() && store.file("h.zarr/thesis/t.tex").exists());
    std::fs::remove_dir_all(store.file("h.zarr/thesis")).unwrap();
    assert_eq!(store.zaro(&["delete", "@:/h.zarr", "--yes"]).code, 0);
    assert!(!store.file("h.zarr").exists());
}

#[test]
fn a_delete_that_was_stopped_is_finished_by_the_same_command() {
    let store = Store::new();
    store.put("a.zarr/.zaro-delete.json", "{}").put("a.zarr/x/c/0", "old").put("a.zarr/c/0", "old");
    store
        .zaro(&["create", "@:/a.zarr", "--shape", "4", "--dtype", "int8"])
        .fails(2, "an unfinished deletion is here");
    assert_eq!(store.zaro(&["delete", "@:/a.zarr", "--yes"]).code, 0);
    assert!(!store.file("a.zarr").exists());
    store.put("a.zarr/.zaro-delete.json", "{}").put("a.zarr/c/0", "old");
    let made = store.zaro(&["create", "@:/a.zarr", "--shape", "4", "--dtype", "int8", "--overwrite"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!(tree(&store.file("a.zarr")).len(), 1);
}

#[test]
fn files_keep_their_modes_and_links_stay() {
    let store = Store::new();
    store.array("a.zarr", &[4], "uint8", "0", "", &[1, 2, 3, 4]);
    let mode = |name: &str| std::fs::metadata(store.file(name)).unwrap().permissions().mode() & 0o777;
    let set = |name: &str, mode: u32| {
        std::fs::set_permissions(store.file(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    set("a.zarr/zarr.json", 0o600);
    set("a.zarr/c/0", 0o664);
    assert_eq!(store.zaro(&["attrs", "@:/a.zarr", "--set", "b=2"]).code, 0);
    store.put("in.csv", "5,6,7,8\n");
    assert_eq!(store.zaro(&["write", "@:/a.zarr", "--from", "@:/in.csv"]).code, 0);
    assert_eq!((mode("a.zarr/zarr.json"), mode("a.zarr/c/0")), (0o600, 0o664));
    // What is at the end of the links is replaced; it need not be there.
    store.put("old.npy", "old");
    set("old.npy", 0o640);
    symlink("old.npy", store.file("link.npy")).unwrap();
    symlink("link.npy", store.file("far.npy")).unwrap();
    symlink("none.npy", store.file("new.npy")).unwrap();
    for name in ["@:/far.npy", "@:/new.npy"] {
        assert_eq!(store.zaro(&["read", "@:/a.zarr", "-o", name]).code, 0);
    }
    assert!(store.file("far.npy").is_symlink() && store.file("link.npy").is_symlink());
    assert_eq!(std::fs::read(store.file("old.npy")).unwrap()[..6], *b"\x93NUMPY");
    assert_eq!(mode("old.npy"), 0o640);
    assert!(store.file("none.npy").is_file() && store.file("new.npy").is_symlink());
}

fn start(words: &[&str], input: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_zaro"))
        .args(words)
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Sends a signal as soon as `begun` says so, and waits for the end: the code of the process.
fn stop(mut child: Child, signal: &str, begun: impl Fn() -> bool) -> i32 {
    let patience = Instant::now() + Duration::from_secs(60);
    while !begun() && Instant::now() < patience {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), None, "it ended by itself");
    status.code().unwrap()
}

fn has_temporary(folder: &Path) -> bool {
    tree(folder).iter().any(|(name, _)| name.ends_with(".tmp"))
}

#[test]
fn signals_leave_no_half_files() {
    for signal in ["-TERM", "-HUP", "-INT"] {
        let store = Store::new();
        // Large and of nothing, so that it takes a while.
        store.put("big.zarr/zarr.json", v3_document(&[1 << 16, 1 << 16], &[1024, 1 << 16], "uint8", "7", ""));
        let (source, out) = (store.file("big.zarr"), store.file("out"));
        std::fs::create_dir(&out).unwrap();
        let source = source.to_str().unwrap();
        let path = |name: &str| out.join(name).to_str().unwrap().to_owned();
        let names = || std::fs::read_dir(&out).unwrap().count();

        let child = start(&["read", source, "-o", &path("x.raw"), "--format", "raw"], Stdio::null());
        assert_eq!(stop(child, signal, || names() > 0), 6);
        assert_eq!(names(), 0, "read -o after {signal}");

        let words =
            ["copy", source, &path("x.zip"), "--codec", "none", "--shards", "none", "--chunks", "512,512"];
        let child = start(&words, Stdio::null());
        assert_eq!(stop(child, signal, || names() > 0), 6);
        assert_eq!(names(), 0, "copy after {signal}");

        let words = ["write", &path("w.zarr"), "--from", "-", "--input-format", "raw", "--dtype", "uint8"];
        let more = ["--shape", "65536,65536", "--chunks", "64,65536", "--create", "--codec", "none"];
        let mut child = start(&[&words[..], &more].concat(), Stdio::piped());
        let mut pipe = child.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || while pipe.write_all(&[9; 1 << 16]).is_ok() {});
        let code = stop(child, signal, || out.join("w.zarr/c").is_dir());
        feeder.join().unwrap();
        assert_eq!(code, 6);
        assert!(!has_temporary(&out), "write after {signal}");
        assert_eq!(names(), 0, "write --create after {signal}");

        let large = store.file("sum/c/0");
        std::fs::create_dir_all(large.parent().unwrap()).unwrap();
        std::fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
        let began = Instant::now();
        let child = start(&["checksum", store.file("sum").to_str().unwrap()], Stdio::null());
        let code = stop(child, signal, || began.elapsed() > Duration::from_millis(300));
        assert!(code == 6 || code > 128, "{code}");
    }
}

#[test]
fn what_killed_writers_left_goes_with_the_next() {
    let store = Store::new();
    store.put("big.zarr/zarr.json", v3_document(&[1 << 16, 1 << 16], &[1024, 1 << 16], "uint8", "7", ""));
    store.array("small.zarr", &[4], "uint8", "0", "", &[1, 2, 3, 4]);
    let out = store.file("out");
    std::fs::create_dir(&out).unwrap();
    let names = || std::fs::read_dir(&out).unwrap().flatten().map(|e| e.file_name()).collect::<Vec<_>>();
    let target = out.join("x.raw");
    let words =
        ["read", store.file("big.zarr").to_str().unwrap(), "-o", target.to_str().unwrap()].map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--format", "raw"]).collect();
    let mut child = start(&words, Stdio::null());
    while names().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names().len(), 1, "a killed writer leaves one");
    let run = zaro(&[
        "read",
        store.file("small.zarr").to_str().unwrap(),
        "-o",
        out.join("y.npy").to_str().unwrap(),
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(names(), ["y.npy"]);
}

#[test]
fn what_does_not_fit_is_not_begun() {
    let store = Store::new();
    store.put("big.zarr/zarr.json", v3_document(&[1 << 22, 1 << 22], &[1024, 1024], "uint8", "7", ""));
    let run = store.zaro(&["read", "@:/big.zarr", "-o", "@:/x.npy"]);
    run.fails(6, "not enough space");
    assert!(!store.file("x.npy").exists());
}

#[test]
fn what_is_replaced_stays_until_the_new_is_whole() {
    let store = Store::new();
    store.group("new.zarr");
    store.array("new.zarr/x", &[4], "uint8", "0", "", &[1, 2, 3, 4]);
    // Of a source that cannot be read to its end.
    let gzip = r#","codecs":[{"name":"bytes"},{"name":"gzip","configuration":{"level":1}}]"#;
    store
        .put("new.zarr/y/zarr.json", v3_document(&[4], &[4], "uint8", "0", gzip))
        .put("new.zarr/y/c/0", "broken");
    store.array("old.zarr", &[2], "uint8", "0", "", &[8, 9]);
    std::fs::set_permissions(store.file("old.zarr"), PermissionsExt::from_mode(0o750)).unwrap();
    symlink("old.zarr", store.file("link.zarr")).unwrap();
    let replace = ["copy", "@:/new.zarr", "@:/link.zarr", "--overwrite", "--codec", "zstd:1"];
    store.zaro(&replace).fails(4, "old.zarr stays as it is");
    assert_eq!(store.zaro(&["read", "@:/old.zarr", "--format", "csv"]).text().trim(), "8\n9");
    store.array("new.zarr/y", &[4], "uint8", "0", "", &[5, 6, 7, 8]);
    store.zaro(&replace).text();
    assert_eq!(store.zaro(&["read", "@:/old.zarr", "x", "--format", "csv"]).text().trim(), "1\n2\n3\n4");
    assert!(store.file("link.zarr").is_symlink());
    let mode = std::fs::metadata(store.file("old.zarr")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    let left = |folder: &Path| {
        tree(folder).into_iter().map(|(name, _)| name).filter(|n| n.contains(".zaro")).count()
    };
    assert_eq!(left(store.path()), 0);
    // Who stands in the folder stays in it.
    let status = Command::new(env!("CARGO_BIN_EXE_zaro"))
        .args(["copy", "../new.zarr", ".", "--overwrite", "--path", "y"])
        .current_dir(store.file("old.zarr"))
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    assert_eq!(store.zaro(&["read", "@:/old.zarr", "--format", "csv"]).text().trim(), "5\n6\n7\n8");
    assert!(!store.file("old.zarr/x").exists());
    assert_eq!(left(store.path()), 0);
}

#[test]
fn a_node_on_a_disk_that_is_not_there_is_not_left_out() {
    for format in ["2", "3"] {
        let s = Store::new();
        for name in ["a", "b"] {
            s.zaro(&["create", "@:/n.zarr", name, "--shape", "2", "--dtype", "i2", "--zarr-format", format])
                .text();
        }
        std::fs::rename(s.file("n.zarr/a"), s.file("a")).unwrap();
        std::os::unix::fs::symlink(s.file("a"), s.file("n.zarr/a")).unwrap();
        let all = s.zaro(&["list", "@:/n.zarr"]).text();
        std::fs::rename(s.file("a"), s.file("away")).unwrap();
        for words in [["list", "@:/n.zarr"], ["info", "@:/n.zarr"], ["consolidate", "@:/n.zarr"]] {
            s.zaro(&words).fails(6, "leads nowhere");
        }
        std::fs::rename(s.file("away"), s.file("a")).unwrap();
        s.zaro(&["consolidate", "@:/n.zarr"]).text();
        assert_eq!(s.zaro(&["list", "@:/n.zarr"]).text(), all);
    }
}

#[test]
fn a_dimension_is_resized_once() {
    let s = Store::new();
    s.zaro(&["create", "@:/a.zarr", "--shape", "10,3", "--dtype", "i2", "--dims", "t,x"]).text();
    for other in ["t=2", "0=2", "t=-1"] {
        s.zaro(&["resize", "@:/a.zarr", "--axis", "t=8", "--axis", other]).fails(2, "given twice");
    }
    s.zaro(&["resize", "@:/a.zarr", "--axis", "t=8", "--axis", "1=2"]).text();
}
