//! Exit codes and messages: each class of fault has its code, and no fault is silent.

use crate::common::{Store, v3_document, zaro};

fn small() -> Store {
    let s = Store::new();
    s.group("").array("a", &[2, 2], "uint8", "0", "", &[1, 2, 3, 4]);
    s
}

#[test]
fn usage_is_2() {
    let s = small();
    for args in [
        &["read"][..],
        &["nonsense"],
        &["read", "@", "a", "--select", "9"],
        &["read", "@", "a", "--select", "0,0,0"],
        &["read", "@", "a", "--select", "x"],
        &["read", "@", "a", "--select", "...,0,..."],
        &["read", "@", "a", "--select", "0,...,0,0"],
        &["read", "@", "a", "--sel", "y=..."],
        &["read", "@", "a", "--start", "--count", "1,1"],
        &["read", "@", "a", "--sel", "y=0"],
        &["read", "@", "a", "--sel", "0"],
        &["read", "@", "a", "--start", "1"],
        &["read", "@", "a", "--start", "1,1", "--count", "2,2"],
        &["read", "@", "a", "--select", "0", "--start", "1,1"],
        &["read", "@", "a", "--memory", "much"],
        &["read", "@", "a", "--range", "3,1"],
        &["read", "@", "a", "--option", "nothing"],
        &["read", "@", "a", "--format", "png", "--select", "0,:"],
    ] {
        let run = s.zaro(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.err);
        assert!(run.out.is_empty() && !run.err.is_empty(), "{args:?}");
    }
    assert_eq!(zaro(&[]).code, 2);
    assert_eq!(zaro(&["--help"]).code, 0);
    assert_eq!(zaro(&["--version"]).code, 0);
}

#[test]
fn a_wrong_selection_is_told_what_would_be_right() {
    let s = small();
    for (args, words) in [
        (["--select", "0,0,0"], "..."),
        (["--select", "...,..."], "only one ..."),
        (["--start", "-1,0"], "start must not be negative; to count from the end, use --select '-1'"),
        (["--start", "0,-1"], "start must not be negative"),
        (["--count", "-1,1"], "count must not be negative"),
        (["--start", "a,0"], "whole number"),
    ] {
        let run = s.zaro(&[&["read", "@", "a"], &args[..]].concat());
        assert_eq!(run.code, 2, "{args:?}: {}", run.err);
        assert!(run.err.contains(words), "{args:?}: {}", run.err);
    }
}

#[test]
fn not_found_is_3_and_says_what_is_there() {
    let s = small();
    let run = s.zaro(&["read", "@"]);
    assert_eq!(run.code, 3);
    assert!(run.err.starts_with("zaro: error: ") && run.err.contains("a group with arrays a"), "{}", run.err);
    assert_eq!(s.zaro(&["read", "@", "b"]).code, 3);
    assert_eq!(zaro(&["info", "/no/such/folder"]).code, 3);
    assert_eq!(s.zaro(&["list", "@", "nothing/here"]).code, 3);
}

#[test]
fn damage_is_4_and_names_node_and_key() {
    let s = small();
    s.put("a/c/0/0", [1, 2]);
    let run = s.zaro(&["read", "@", "a"]);
    assert_eq!(run.code, 4, "{}", run.err);
    assert!(run.err.contains("/a") && run.err.contains("a/c/0/0"), "{}", run.err);
    s.put("a/zarr.json", "{");
    assert_eq!(s.zaro(&["read", "@", "a"]).code, 4);
}

#[test]
fn unsupported_is_5() {
    let s = small();
    s.put("b/zarr.json", v3_document(&[1], &[1], "float1024", "0", ""));
    assert_eq!(s.zaro(&["meta", "@", "b"]).code, 5);
}

#[test]
fn deviations_warn_and_strict_refuses_them() {
    let s = Store::new();
    s.array("", &[1], "uint8", "0", r#","storage_transformers":null"#, &[5]);
    let run = s.zaro(&["read", "@", "--format", "json"]);
    assert_eq!((run.code, run.out.as_slice()), (0, &b"[5]\n"[..]));
    assert!(run.err.starts_with("zaro: warning: / storage_transformers"), "{}", run.err);
    assert_eq!(s.zaro(&["read", "@", "--strict"]).code, 4);
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let s = small();
    let run = s.zaro(&["read", "@", "a", "-o", "/no/such/folder/x.npy"]);
    assert!([3, 6].contains(&run.code), "{} {}", run.code, run.err);
}

#[test]
fn absurd_shapes_do_not_hang_or_crash() {
    let s = Store::new();
    s.group("");
    let huge = u64::MAX;
    s.put("big/zarr.json", v3_document(&[huge, huge], &[1, 1], "uint8", "0", ""));
    s.put("wide/zarr.json", v3_document(&[1 << 40, 0], &[1, 1], "uint8", "0", ""));
    // 2^31 elements in 2^29 chunks, none of which is there.
    s.put("slow/zarr.json", v3_document(&[1 << 31], &[4], "uint8", "0", ""));
    for args in [
        &["read", "@", "big"][..],
        &["read", "@", "big", "--format", "json"],
        &["read", "@", "big", "--format", "png"],
        &["info", "@"],
        &["info", "@", "big"],
        &["read", "@", "wide", "--format", "json"],
        &["read", "@", "wide"],
        &["read", "@", "slow", "--format", "raw"],
        &["--array_path", "@"],
    ] {
        let run = s.zaro(args);
        assert!(run.code != 101 && run.code < 128, "{args:?}: {} {}", run.code, run.err);
    }
}

/// Where threads cannot be started, that is said; nothing panics and nothing waits for ever.
#[cfg(target_os = "linux")]
#[test]
fn a_lack_of_threads_is_a_fault_of_the_system() {
    let s = Store::new();
    s.array("", &[4], "uint8", "0", "", &[1, 2, 3, 4]);
    let mut refused = 0;
    // From too little to start at all to enough.
    for megabytes in 12..200 {
        let limit = format!("ulimit -v {}; exec \"$0\" read \"$1\" --format csv", megabytes * 1024);
        let run = std::process::Command::new("sh")
            .args(["-c", &limit, env!("CARGO_BIN_EXE_zaro")])
            .arg(s.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert_ne!(run.status.code(), Some(101), "{megabytes} MB: {said}");
        if run.status.success() {
            assert_eq!(run.stdout, b"1\n2\n3\n4\n");
        } else if run.status.code() == Some(6) {
            assert!(said.contains("the system is out of threads"), "{said}");
            refused += 1;
        }
    }
    assert!(refused > 0);
}

/// Eight kilobytes of zeros, compressed, are sixty million empty texts.
#[test]
fn a_chunk_of_too_many_texts_is_refused() {
    let s = Store::new();
    s.put("zarr.json", v3_document(&[1 << 25], &[1 << 25], "string", "\"\"", ""));
    s.zaro(&["read", "@", "--select", "0"]).fails(5, "--memory gives more");
    assert_eq!(s.zaro(&["read", "@", "--select", "0", "--memory", "1200M", "--format", "csv"]).text(), "\n");
}
