//! Several commands at once, or one after another that was killed: none loses what the other did.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Store, copy, npy, sample, tree, v3_document, zaro};
use crate::killed::{can_trace, killed};

/// A Zarr `a.zarr` with the array `x`: 100 numbers in chunks of ten.
fn counted() -> Store {
    let s = Store::new();
    s.group("a.zarr");
    s.put("a.zarr/x/zarr.json", v3_document(&[100], &[10], "uint8", "0", ""));
    for chunk in 0..10u8 {
        let numbers: Vec<u8> = (1..=10).map(|n| chunk * 10 + n).collect();
        s.put(&format!("a.zarr/x/c/{chunk}"), numbers);
    }
    s.put("ten.raw", [200; 10]);
    s
}

/// How long the array says that it is.
fn length(s: &Store) -> u64 {
    let text = std::fs::read_to_string(s.file("a.zarr/x/zarr.json")).unwrap();
    let plain: String = text.split_whitespace().collect();
    plain.split_once("\"shape\":[").unwrap().1.split(']').next().unwrap().parse().unwrap()
}

/// A journal in `folder` of a process that lives, or is dead.
fn journal(folder: &Path, process: u32) {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let began = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let text = format!(
        r#"{{"journal": 1, "operation": "copy --in-place", "owner": {{"token": "t", "machine": "{} {}", "process": {process}, "began": {began}}}}}"#,
        boot.trim(),
        space.display()
    );
    std::fs::write(folder.join(".zaro-journal.json"), text).unwrap();
}

#[test]
fn what_somebody_works_on_as_a_whole_is_not_changed_by_others() {
    let s = counted();
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    journal(&s.file("a.zarr"), other.id());
    let before = tree(&s.file("a.zarr"));
    let commands: [&[&str]; 9] = [
        &["attrs", "@:/a.zarr", "x", "--set", "a=1"],
        &["write", "@:/a.zarr", "x", "--from", "@:/ten.raw", "--start", "0", "--shape", "10"],
        &["write", "@:/a.zarr", "x", "--from", "@:/ten.raw", "--append", "0"],
        &["write", "@:/a.zarr/x", "--from", "@:/ten.raw", "--append", "0"],
        &["resize", "@:/a.zarr", "x", "--shape", "5"],
        &["create", "@:/a.zarr", "y", "--shape", "4", "--dtype", "uint8"],
        &["consolidate", "@:/a.zarr"],
        &["delete", "@:/a.zarr", "x", "--yes"],
        &["copy", "@:/a.zarr/x", "@:/a.zarr/z"],
    ];
    for words in commands.iter().take(8) {
        s.zaro(words).fails(6, "is running here");
        assert!(tree(&s.file("a.zarr")) == before, "{words:?}");
    }
    other.kill().unwrap();
    other.wait().unwrap();
    for words in commands.iter().take(8) {
        s.zaro(words).fails(6, "rerun the same command to finish it");
        assert!(tree(&s.file("a.zarr")) == before, "{words:?}");
    }
    // A copy of something else below it.
    s.zaro(&["copy", "@:/a.zarr/x", "@:/b.zarr"]).text();
    s.zaro(&["copy", "@:/b.zarr", "@:/a.zarr/z"]).fails(6, "rerun the same command to finish it");
    assert!(tree(&s.file("a.zarr")) == before);
}

#[test]
fn a_relative_resize_that_was_killed_is_made_once() {
    if !can_trace() {
        return;
    }
    for change in ["0=-10", "0=+10"] {
        for call in ["unlink,unlinkat", "rename,renameat,renameat2"] {
            for n in 1..8 {
                let s = counted();
                let words = ["resize", "@:/a.zarr", "x", "--axis", change];
                let here = words.map(|w| w.replace("@:", s.path().to_str().unwrap()));
                if !killed(&here, call, n) {
                    s.zaro(&words).text();
                }
                let wanted = if change == "0=-10" { 90 } else { 110 };
                assert_eq!(length(&s), wanted, "{change} {call} {n}");
                // Once more is once more.
                s.zaro(&words).text();
                let wanted = if change == "0=-10" { 80 } else { 120 };
                assert_eq!(length(&s), wanted, "{change} {call} {n}");
                assert!(!s.file("a.zarr/x/.zaro-turn.json").exists());
            }
        }
    }
}

#[test]
fn of_two_edits_at_once_none_is_lost() {
    let s = Store::new();
    s.zaro(&["demo", "@:/demo"]).text();
    let image = s.file("demo/tissue.zarr");
    let run = |words: &[&str]| -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zaro"));
        command.args(["image", "edit"]).arg(&image).args(words);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    for round in 0..12 {
        let (label, name) = (format!("0:label=L{round}"), format!("N{round}"));
        let mut both = [run(&["--channel", &label]), run(&["--name", &name])];
        assert!(both.iter_mut().all(|child| child.wait().unwrap().success()));
        let text = std::fs::read_to_string(image.join("zarr.json")).unwrap();
        assert!(text.contains(&format!("\"L{round}\"")) && text.contains(&format!("\"N{round}\"")), "{text}");
    }
}

#[test]
fn of_two_that_make_a_node_at_one_path_one_does() {
    let group: &[&str] = &["create", "@:/p.zarr", "a", "--group", "--attrs", r#"{"who":"group"}"#];
    let array: &[&str] =
        &["create", "@:/p.zarr", "a", "--shape", "3", "--dtype", "u1", "--attrs", r#"{"who":"array"}"#];
    let other: &[&str] =
        &["create", "@:/p.zarr", "a", "--shape", "5", "--dtype", "u1", "--attrs", r#"{"who":"other"}"#];
    let copied: &[&str] = &["copy", "@:/s.zarr", "@:/p.zarr", "--to", "a"];
    for format in ["2", "3"] {
        for (i, (one, two)) in [(group, array), (array, other), (copied, group), (copied, array)]
            .into_iter()
            .cycle()
            .take(16)
            .enumerate()
        {
            let s = Store::new();
            s.zaro(&["create", "@:/p.zarr", "--group", "--zarr-format", format]).text();
            s.zaro(&["create", "@:/s.zarr", "--shape", "7", "--dtype", "u1", "--zarr-format", format]).text();
            s.zaro(&["attrs", "@:/s.zarr", "--set", "who=copied"]).text();
            let codes = std::thread::scope(|scope| {
                let first = scope.spawn(|| s.zaro(one).code);
                std::thread::sleep(Duration::from_millis(i as u64));
                let second = s.zaro(two).code;
                (first.join().unwrap(), second)
            });
            assert!(codes.0 != 0 || codes.1 != 0, "{format} {one:?} {two:?}");
            let made = if codes.0 == 0 { one } else { two };
            if codes.0 != 0 && codes.1 != 0 {
                continue;
            }
            let who = s.zaro(&["attrs", "@:/p.zarr", "a"]).text();
            let wanted = made.last().unwrap();
            let wanted = if *wanted == "a" { r#"{"who":"copied"}"# } else { wanted };
            assert_eq!(who.split_whitespace().collect::<String>(), wanted, "{format} {one:?} {two:?}");
            let names = ["zarr.json", ".zarray", ".zgroup"];
            let there = names.iter().filter(|n| s.file(&format!("p.zarr/a/{n}")).exists()).count();
            assert_eq!(there, 1, "{format} {one:?} {two:?}");
        }
    }
}

#[test]
fn an_append_that_fails_leaves_nothing() {
    let s = counted();
    let before = tree(&s.file("a.zarr"));
    let here = s.file("a.zarr");
    let words =
        ["write", here.to_str().unwrap(), "x", "--from", "-", "--input-format", "npy", "--append", "0"];
    let short = npy("'|u1'", false, "(60,)", &[9; 45]);
    let run = crate::common::zaro_with(&[&words[..], &["--memory", "10"]].concat(), &short);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(tree(&s.file("a.zarr")) == before, "{:?}", tree(&s.file("a.zarr")).len());
}

#[test]
fn an_append_of_which_nobody_was_told_is_not_made_again() {
    let s = counted();
    let [at, from] = ["a.zarr", "ten.raw"].map(|name| s.file(name).to_str().unwrap().to_owned());
    let words = ["write", &at, "x", "--from", &from, "--append", "0", "--json"];
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_zaro"));
    let run = run.args(words).stdout(full).stderr(Stdio::null()).status().unwrap();
    assert!(!run.success() && length(&s) == 110);
    s.zaro(&words).fails(6, "they are in the array, from 100 on");
    assert_eq!(length(&s), 110);
    // Then these are others.
    s.zaro(&words).text();
    assert_eq!(length(&s), 120);
}

#[test]
fn a_killed_delete_leaves_no_node() {
    if !can_trace() {
        return;
    }
    let s = counted();
    let words = ["delete", "@:/a.zarr", "x", "--yes"].map(|w| w.replace("@:", s.path().to_str().unwrap()));
    assert!(!killed(&words, "unlink,unlinkat", 1));
    for entry in std::fs::read_dir(s.file("a.zarr")).unwrap() {
        let path = entry.unwrap().path();
        assert!(!path.join("zarr.json").exists(), "{}", path.display());
    }
}

#[test]
fn a_fetch_keeps_to_its_own_files() {
    let s = counted();
    s.zaro(&["manifest", "create", "@:/a.zarr", "-o", "@:/one.json"]).text();
    s.zaro(&["manifest", "fetch", "@:/one.json", "@:/old.zarr", "--from", "@:/a.zarr"]).text();
    std::fs::remove_file(s.file("a.zarr/x/c/3")).unwrap();
    s.zaro(&["manifest", "create", "@:/a.zarr", "-o", "@:/two.json"]).text();
    let before = tree(&s.file("old.zarr"));
    let fetch = ["manifest", "fetch", "@:/two.json", "@:/old.zarr", "--from", "@:/a.zarr"];
    s.zaro(&fetch).fails(2, "x/c/3");
    assert!(tree(&s.file("old.zarr")) == before);
    s.zaro(&[&fetch[..], &["--overwrite"]].concat()).text();
    assert!(tree(&s.file("old.zarr")) == tree(&s.file("a.zarr")));
    // Another Zarr, the source itself, and files that are no Zarr.
    let source = tree(&s.file("a.zarr"));
    for (folder, said) in [("a.zarr/x", "lies in"), ("a.zarr", "lies in")] {
        let words = [
            "manifest",
            "fetch",
            "@:/two.json",
            &format!("@:/{folder}"),
            "--from",
            "@:/a.zarr",
            "--overwrite",
        ];
        s.zaro(&words).fails(2, said);
        assert!(tree(&s.file("a.zarr")) == source);
    }
    s.put("theirs.zarr/zarr.json", v3_document(&[3], &[3], "uint8", "0", ""));
    s.put("theirs.zarr/thesis.txt", "years of work");
    let words = ["manifest", "fetch", "@:/two.json", "@:/theirs.zarr", "--from", "@:/a.zarr", "--overwrite"];
    s.zaro(&words[..6]).fails(2, "contains");
    s.zaro(&words).fails(2, "thesis.txt");
    assert_eq!(std::fs::read(s.file("theirs.zarr/thesis.txt")).unwrap(), b"years of work");
}

#[test]
fn outputs_are_files_of_this_machine_and_of_no_zarr() {
    let s = counted();
    let before = tree(&s.file("a.zarr"));
    for words in [
        &["read", "@:/a.zarr", "x", "-o", "@:/a.zarr/x/c/0", "--format", "raw"][..],
        &["manifest", "create", "@:/a.zarr", "-o", "@:/a.zarr/x/zarr.json", "--replace"],
        &["checksum", "@:/a.zarr", "--cache", "@:/a.zarr/zarr.json"],
    ] {
        s.zaro(words).fails(2, "would be overwritten");
        assert!(tree(&s.file("a.zarr")) == before, "{words:?}");
    }
    for words in [
        &["read", "@:/a.zarr", "x", "-o", "s3://b/x.npy"][..],
        &["image", "pack", "@:/a.zarr", "https://h/x.ozx"],
        &["image", "unpack", "@:/a.ozx", "s3://b/x.zarr"],
        &["image", "render", "@:/a.zarr", "-o", "s3://b/x.png"],
        &["man", "s3://b/man"],
        &["demo", "s3://b/demo"],
        &["write", "@:/a.zarr", "x", "--from", "s3://b/x.npy"],
    ] {
        s.zaro(words).fails(2, "this is an address");
    }
}

#[test]
fn an_array_that_is_taken_away_while_it_is_read_is_an_error() {
    if !can_trace() {
        return;
    }
    let read = |s: &Store| -> Child {
        let slow =
            ["-f", "-qq", "-o", "/dev/null", "-e", "trace=openat", "-e", "inject=openat:delay_enter=20000"];
        let mut command = Command::new("strace");
        command.args(slow).arg(env!("CARGO_BIN_EXE_zaro")).arg("read").arg(s.file("a.zarr")).arg("x");
        command.args(["--format", "raw", "-o"]).arg(s.file("out.raw")).env("RAYON_NUM_THREADS", "1");
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    for (words, harmless) in [
        (&["delete", "@:/a.zarr", "x", "--yes"][..], false),
        (&["resize", "@:/a.zarr", "x", "--shape", "20"], false),
        (&["write", "@:/a.zarr", "x", "--from", "@:/ten.raw", "--append", "0"], true),
        (&["attrs", "@:/a.zarr", "x", "--set", "a=1"], true),
    ] {
        let s = counted();
        let mut child = read(&s);
        // It opens the document, and is at its chunks.
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(400) && !s.file("out.raw").exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        s.zaro(words).text();
        let whole: Vec<u8> = (1..=100).collect();
        let done = child.wait().unwrap().success();
        // Or all of the array as it is after that, if it was opened then.
        let right = std::fs::read(s.file("out.raw"))
            .is_ok_and(|bytes| bytes == whole || bytes == whole[..20] || bytes.len() == 110 && harmless);
        assert_eq!(done, right, "{words:?}: the end says what was read");
        assert!(!harmless || done, "{words:?}");
    }
}

#[test]
fn consolidated_metadata_are_right_when_a_killed_command_was_given_again() {
    if !can_trace() {
        return;
    }
    let commands: [&[&str]; 4] = [
        &["resize", "@:/a.zarr", "x", "--shape", "9"],
        &["resize", "@:/a.zarr", "x", "--axis", "0=+7"],
        &["create", "@:/a.zarr", "g/h/y", "--shape", "4", "--dtype", "uint8"],
        &["write", "@:/a.zarr", "x", "--from", "@:/ten.raw", "--append", "0"],
    ];
    let listed = |s: &Store| s.zaro(&["read", "@:/a.zarr", "x", "--format", "json"]).text();
    for words in commands {
        for n in 1..9 {
            let s = counted();
            s.zaro(&["consolidate", "@:/a.zarr"]).text();
            let here: Vec<String> =
                words.iter().map(|w| w.replace("@:", s.path().to_str().unwrap())).collect();
            if !killed(&here, "rename,renameat,renameat2,link,linkat", n) {
                // What was made already may be refused; then it is told.
                let _ = s.zaro(words);
            }
            let seen = (listed(&s), s.zaro(&["list", "@:/a.zarr"]).text());
            s.zaro(&["consolidate", "@:/a.zarr"]).text();
            assert_eq!(seen, (listed(&s), s.zaro(&["list", "@:/a.zarr"]).text()), "{words:?} {n}");
            let rows = seen.0.matches("200").count();
            assert!(!words.contains(&"--append") || rows == 10, "{n}: {rows} appended elements");
        }
    }
}

#[test]
fn consolidated_metadata_know_the_levels_of_a_killed_pyramid_that_was_given_again() {
    if !can_trace() {
        return;
    }
    let words = ["image", "pyramid", "@:/i.zarr", "--overwrite", "--levels", "3"];
    for call in ["rename,renameat2,link", "unlink"] {
        // Most of what is put is chunks; documents come last.
        for n in (1..).step_by(3) {
            let s = Store::new();
            copy(&sample("05-omezarrpy-0.4.zarr"), &s.file("i.zarr"));
            s.zaro(&["consolidate", "@:/i.zarr"]).text();
            let here = words.map(|w| w.replace("@:", s.path().to_str().unwrap()));
            let whole = killed(&here, call, n);
            if !whole {
                // Killed after its last change, it is finished, and refused without more.
                let _ = s.zaro(&words);
            }
            let look = || s.zaro(&["info", "--all", "@:/i.zarr"]).text();
            let seen = look();
            s.zaro(&["consolidate", "@:/i.zarr"]).text();
            assert_eq!(seen, look(), "{call} {n}");
            assert!(seen.contains("(2, 3, 8, 12)"), "{call} {n}: {seen}");
            if whole {
                break;
            }
        }
    }
}

#[test]
fn who_waits_for_another_machine_is_told() {
    let s = counted();
    let turn = r#"{"journal":1,"owner":{"token":"x","machine":"elsewhere","process":1,"began":1}}"#;
    for args in [
        &["write", "@:/a.zarr", "x", "--from", "@:/ten.raw", "--append", "0"][..],
        &["resize", "@:/a.zarr", "x", "--axis", "0=+10"],
    ] {
        s.put("a.zarr/x/.zaro-turn.json", turn);
        let run = std::thread::scope(|scope| {
            let run = scope.spawn(|| s.zaro(args));
            std::thread::sleep(std::time::Duration::from_secs(5));
            std::fs::remove_file(s.file("a.zarr/x/.zaro-turn.json")).unwrap();
            run.join().unwrap()
        });
        assert!(run.code == 0 && run.err.contains("a process on another machine"), "{}", run.err);
    }
    assert_eq!(length(&s), 120);
}

/// A command that reads the rest of its input from us, when `seen` is there.
fn fed(s: &Store, words: &[&str], seen: &str) -> Child {
    let here = s.path().to_str().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_zaro"))
        .args(words.iter().map(|w| w.replace("@:", here)))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    // Not the temporary file that becomes it.
    let there = || tree(s.path()).iter().any(|(name, _)| name.contains(seen) && name.ends_with(".json"));
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{words:?} does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn feed(mut child: Child, bytes: &[u8]) -> std::process::Output {
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    child.wait_with_output().unwrap()
}

const WHOLE: [&[&str]; 5] = [
    &["copy", "@:/b.zarr", "@:/a.zarr", "--overwrite"],
    &["create", "@:/a.zarr", "x", "--shape", "4", "--dtype", "uint8", "--overwrite"],
    &["copy", "@:/a.zarr", "--in-place", "--zarr-format", "2"],
    &["delete", "@:/a.zarr", "x", "--yes"],
    &["delete", "@:/a.zarr", "--yes"],
];

#[test]
fn an_array_is_not_replaced_converted_or_deleted_while_somebody_writes_to_it() {
    let s = counted();
    copy(&s.file("a.zarr"), &s.file("b.zarr"));
    let words = ["write", "@:/a.zarr", "x", "--from", "-", "--input-format", "raw"];
    let child = fed(&s, &words, ".zaro-writing");
    let before = tree(&s.file("a.zarr"));
    for whole in WHOLE {
        s.zaro(whole).fails(6, "writes to this array");
        assert!(tree(&s.file("a.zarr")) == before, "{whole:?}");
    }
    // Others may write to it.
    s.zaro(&["write", "@:/a.zarr", "x", "--from", "@:/ten.raw", "--start", "0", "--shape", "10"]).text();
    let out = feed(child, &[7; 100]);
    assert!(out.status.success(), "{out:?}");
    // One that was killed is in nobody's way, and the next removes what it left.
    let mut child = fed(&s, &words, ".zaro-writing");
    child.kill().unwrap();
    child.wait().unwrap();
    s.zaro(&["write", "@:/a.zarr", "x", "--from", "@:/ten.raw", "--start", "0", "--shape", "10"]).text();
    assert!(tree(&s.file("a.zarr")).iter().all(|(name, _)| !name.contains(".zaro")));
    let mut child = fed(&s, &words, ".zaro-writing");
    child.kill().unwrap();
    child.wait().unwrap();
    s.zaro(WHOLE[0]).text();
    assert!(tree(&s.file("a.zarr")).iter().all(|(name, _)| !name.contains(".zaro")));
}

#[test]
fn what_lies_in_a_zarr_that_is_worked_on_is_in_the_way_of_work_on_the_whole() {
    let s = counted();
    copy(&s.file("a.zarr"), &s.file("b.zarr"));
    s.zaro(&["consolidate", "@:/a.zarr"]).text();
    let words =
        ["write", "@:/a.zarr", "x", "--from", "-", "--input-format", "raw", "--create", "--overwrite"];
    let words = [&words[..], &["--shape", "4", "--dtype", "uint8"]].concat();
    let child = fed(&s, &words, ".zaro-journal");
    let names =
        || tree(&s.file("a.zarr")).into_iter().filter(|(n, _)| !n.contains(".zaro")).collect::<Vec<_>>();
    let before = names();
    for whole in WHOLE {
        s.zaro(whole).fails(6, "is running here");
        assert!(names() == before, "{whole:?}");
    }
    // It is no whole Zarr for those who prove or publish it, but is read as before.
    s.zaro(&["checksum", "@:/a.zarr"]).fails(6, "unfinished operation");
    assert!(s.zaro(&["read", "@:/a.zarr", "x", "--format", "csv"]).text().starts_with("1\n2\n"));
    // A file that somebody puts there meanwhile is not deleted with the old.
    s.put("a.zarr/x/notes.txt", "mine");
    let out = feed(child, &[7; 4]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert!(String::from_utf8(out.stderr).unwrap().contains("notes.txt"));
    std::fs::remove_file(s.file("a.zarr/x/notes.txt")).unwrap();
    assert!(tree(&s.file("a.zarr")) == before, "nothing of it stays");
    let out = feed(fed(&s, &words, ".zaro-journal"), &[7; 4]);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(s.zaro(&["read", "@:/a.zarr", "x", "--format", "csv"]).text(), "7\n7\n7\n7\n");
    let text = std::fs::read_to_string(s.file("a.zarr/zarr.json")).unwrap();
    assert!(text.contains("consolidated_metadata") && text.contains("\"shape\": [4]"), "{text}");
}

#[test]
fn what_is_half_made_is_nothing_to_others() {
    let s = counted();
    // Something new that a live process makes, below a group.
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    std::fs::create_dir(s.file("a.zarr/new")).unwrap();
    journal(&s.file("a.zarr/new"), other.id());
    s.zaro(&["copy", "@:/a.zarr", "--in-place", "--zarr-format", "2"]).fails(6, "is running here");
    other.kill().unwrap();
    other.wait().unwrap();
    s.zaro(&["copy", "@:/a.zarr", "--in-place", "--zarr-format", "2"]).fails(6, "unfinished");
    // Labels that a killed process left.
    if !can_trace() {
        return;
    }
    s.zaro(&[
        "image",
        "convert",
        s.put("p.npy", npy("'|u1'", false, "(8, 8)", &[3; 64])).file("p.npy").to_str().unwrap(),
        "@:/i.zarr",
        "--axes",
        "yx",
    ])
    .text();
    let add = |name: &str| {
        ["image", "add-labels", "@:/i.zarr", name, "--from", "@:/p.npy", "--axes", "yx"]
            .map(|w| w.replace("@:", s.path().to_str().unwrap()))
    };
    assert!(!killed(&add("cells"), "rename", 4));
    assert!(s.file("i.zarr/labels/cells").exists() && !s.file("i.zarr/labels/cells/0/zarr.json").exists());
    s.zaro(&["image", "upgrade", "@:/i.zarr", "--in-place", "--to", "0.4"]).fails(6, "unfinished");
    for name in ["nuclei", "cells"] {
        zaro(&add(name).each_ref().map(String::as_str)).text();
    }
    let listed: String =
        std::fs::read_to_string(s.file("i.zarr/labels/zarr.json")).unwrap().split_whitespace().collect();
    assert!(listed.contains(r#""labels":["nuclei","cells"]"#), "{listed}");
}
