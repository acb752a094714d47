#![allow(clippy::indexing_slicing, reason = "these are tests")]

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

use super::*;

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (key, bytes) in files {
        let path = dir.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    dir
}

const V2: [(&str, &[u8]); 5] = [
    (".zgroup", b"{\"zarr_format\": 2}"),
    ("arr_0/.zarray", b"A0"),
    ("arr_0/0", &[0, 1, 2, 3]),
    ("arr_1/.zarray", b"A1"),
    ("arr_1/0", &[4, 5, 6, 7, 8]),
];

fn checksum(root: &Path, options: &LocalOptions<'_>) -> Result<String> {
    Ok(manifest(root, options)?.checksum()?.to_string())
}

const V2_CHECKSUM: &str = "6a2bafb14509195e1a1ee982cb046d23-5--31";

#[test]
fn a_folder_has_the_checksum_of_its_files() {
    let dir = folder(&V2);
    // Folders without files do not exist.
    std::fs::create_dir_all(dir.path().join("empty/more")).unwrap();
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let told = seen.clone();
    let task = Task::default().with_progress(move |p| {
        told.fetch_max(p.done, Ordering::Relaxed);
    });
    let m = manifest(dir.path(), &LocalOptions { task, ..LocalOptions::default() }).unwrap();
    assert_eq!(m.checksum().unwrap().to_string(), V2_CHECKSUM);
    assert_eq!(seen.load(Ordering::Relaxed), 31);
    assert!(m.get("arr_0/0").unwrap().modified().is_some() && m.get("arr_0/0").unwrap().version().is_none());
}

#[test]
fn what_does_not_count() {
    let dir = folder(&V2);
    for name in [
        ".git/config",
        ".dandi/x",
        "arr_0/.gitattributes",
        ".datalad/a/b",
        "arr_1/.gitmodules",
        ".zaro-1-1.tmp",
    ] {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    assert_eq!(checksum(dir.path(), &LocalOptions::default()).unwrap(), V2_CHECKSUM);
    let all = LocalOptions { all_files: true, ..LocalOptions::default() };
    assert!(checksum(dir.path(), &all).unwrap().ends_with("-11--37"));
}

#[test]
fn links() {
    let dir = folder(&V2);
    let other = folder(&[("a/b", b"12345"), ("c", &[4, 5, 6, 7, 8])]);
    // A linked folder is passed over, a linked file is read.
    std::os::unix::fs::symlink(other.path(), dir.path().join("arr_2")).unwrap();
    std::fs::remove_file(dir.path().join("arr_1/0")).unwrap();
    std::os::unix::fs::symlink(other.path().join("c"), dir.path().join("arr_1/0")).unwrap();
    assert_eq!(checksum(dir.path(), &LocalOptions::default()).unwrap(), V2_CHECKSUM);
    std::os::unix::fs::symlink("/nowhere/at/all", dir.path().join("arr_1/1")).unwrap();
    let e = checksum(dir.path(), &LocalOptions::default()).unwrap_err();
    assert!(e.to_string().contains("arr_1/1") && e.to_string().contains("leads nowhere"), "{e}");
    assert_eq!(e.kind(), crate::ErrorKind::Io);
}

#[test]
fn what_cannot_be_a_key_is_refused() {
    let dir = folder(&V2);
    std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"a\xffb")), "x").unwrap();
    let e = checksum(dir.path(), &LocalOptions::default()).unwrap_err();
    assert!(e.message().contains("not valid UTF-8"), "{e}");
    let e = checksum(&dir.path().join(".zgroup"), &LocalOptions::default()).unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::Usage);
    let e = checksum(&dir.path().join("none"), &LocalOptions::default()).unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::NotFound);
}

#[test]
fn uploads_in_parts() {
    let dir = folder(&[("x", b"hello"), ("y", b"")]);
    let options = LocalOptions { digesting: Digesting::Parts, ..LocalOptions::default() };
    let found = files(dir.path(), &options).unwrap();
    let digests: Vec<String> = found.iter().map(|f| f.digest.unwrap().to_string()).collect();
    assert_eq!(digests, ["62109206880d38a4010a98e11243924a-1", "d41d8cd98f00b204e9800998ecf8427e-0"]);
}

#[test]
fn many_files_on_all_cores() {
    let names: Vec<(String, String)> =
        (0..10_000).map(|i| (format!("{}/{}/{i}", i % 16, i / 16 % 25), i.to_string())).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|(k, v)| (k.as_str(), v.as_bytes())).collect();
    let dir = folder(&files);
    let wanted = "dce5765dba2ee32046425a6434612d18-10000--38890";
    assert_eq!(checksum(dir.path(), &LocalOptions::default()).unwrap(), wanted);
}

fn age(path: &Path, seconds: u64) {
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn the_cache_is_never_wrong() {
    let dir = folder(&V2);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("cache");
    let options = LocalOptions { cache: Some(file.clone()), ..LocalOptions::default() };
    assert_eq!(checksum(dir.path(), &options).unwrap(), V2_CHECKSUM);
    let entries = || std::fs::read_to_string(&file).unwrap().lines().count() - 1;
    assert_eq!(entries(), 0, "files written this moment may change without it being seen");
    for (key, _) in V2 {
        age(&dir.path().join(key), 1000);
    }
    // Setting times changes the time of change, so nothing is settled until two seconds later.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert_eq!(checksum(dir.path(), &options).unwrap(), V2_CHECKSUM);
    assert_eq!(entries(), 5);
    assert_eq!(checksum(dir.path(), &options).unwrap(), V2_CHECKSUM);

    // A digest of the cache is used: a false one is believed.
    let text = std::fs::read_to_string(&file).unwrap();
    let forged = text.replace("d8f0549d9d6be70f0eb596421fd2c926", &"0".repeat(32));
    assert_ne!(forged, text);
    std::fs::write(&file, forged).unwrap();
    assert_ne!(checksum(dir.path(), &options).unwrap(), V2_CHECKSUM);
    std::fs::write(&file, &text).unwrap();

    // The same size and the same time of modification, other bytes: seen by the time of change.
    std::fs::write(dir.path().join("arr_0/0"), [9, 9, 9, 9]).unwrap();
    age(&dir.path().join("arr_0/0"), 1000);
    let plain = checksum(dir.path(), &LocalOptions::default()).unwrap();
    assert_eq!(checksum(dir.path(), &options).unwrap(), plain);
    assert_eq!(entries(), 4);

    // Parts and whole files have other digests; damage is as good as nothing; other files are left alone.
    let parts = LocalOptions { digesting: Digesting::Parts, ..options.clone() };
    assert_ne!(checksum(dir.path(), &parts).unwrap(), plain);
    std::fs::write(&file, format!("{}\n1 2 x\n\u{fffd}", "zaro digest cache 1")).unwrap();
    assert_eq!(checksum(dir.path(), &options).unwrap(), plain);
    std::fs::write(&file, "my notes\n").unwrap();
    assert!(checksum(dir.path(), &options).unwrap_err().message().contains("not a digest cache"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "my notes\n");
}

#[test]
fn a_manifest_is_held_against_its_folder() {
    use crate::manifest::verify;
    let dir = folder(&V2);
    let m = manifest(dir.path(), &LocalOptions::default()).unwrap();
    let check = |bytes: bool| {
        let found = verify::folder(&m, dir.path(), bytes, &LocalOptions::default()).unwrap();
        found.into_iter().map(|f| (f.key.unwrap(), f.rule)).collect::<HashMap<_, _>>()
    };
    assert!(check(true).is_empty());
    std::fs::write(dir.path().join("arr_0/0"), [9; 4]).unwrap();
    std::fs::write(dir.path().join("arr_1/0"), [9; 4]).unwrap();
    std::fs::write(dir.path().join("new"), "x").unwrap();
    std::fs::remove_file(dir.path().join(".zgroup")).unwrap();
    let wanted = [(".zgroup", "missing"), ("arr_1/0", "size"), ("new", "extra")];
    let mut wanted: HashMap<String, &str> = wanted.iter().map(|(k, r)| ((*k).to_owned(), *r)).collect();
    assert_eq!(check(false), wanted);
    wanted.insert("arr_0/0".into(), "bytes");
    assert_eq!(check(true), wanted);
}

#[test]
fn files_that_are_written_to_or_come_while_they_are_read_are_an_error() {
    use std::os::unix::fs::FileExt as _;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("large"), vec![7; 100 << 20]).unwrap();
    let calm = files(dir.path(), &LocalOptions::default()).unwrap();
    // Changes again and again until the reader has ended.
    let during = |change: &(dyn Fn(u32) + Sync)| {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    change(n);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            });
            let found = files(dir.path(), &LocalOptions::default());
            over.store(true, Ordering::Relaxed);
            found
        })
    };
    // In place, with the size it had: at its beginning, which is read already, and at its end.
    let rewritten = during(&|n| {
        let file = File::options().write(true).open(dir.path().join("large")).unwrap();
        file.write_all_at(&n.to_le_bytes(), 0).unwrap();
        file.write_all_at(&n.to_le_bytes(), (100 << 20) - 4).unwrap();
    });
    let error = rewritten.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Io);
    assert!(error.to_string().contains("was changed while it was read"), "{error}");
    let come = during(&|n| drop(File::create(dir.path().join(format!("more{n}"))).unwrap()));
    let error = come.unwrap_err();
    assert!(error.to_string().contains("added or removed"), "{error}");
    assert_ne!(calm, files(dir.path(), &LocalOptions::default()).unwrap());
}
