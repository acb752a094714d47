//! `zaro attrs`, `resize`, `consolidate` and `delete`.

use crate::common::{Store, zaro};

fn made() -> Store {
    let s = Store::new();
    let x =
        ["create", "@", "g/x", "--shape", "6,4", "--dtype", "u1", "--chunks", "2,2", "--dims", "time,lat"];
    s.zaro(&[&x[..], &["--attrs", r#"{"units": "K", "n": 1}"#]].concat()).text();
    s.zaro(&["create", "@", "g/y", "--shape", "3", "--dtype", "u1"]).text();
    let numbers: Vec<String> = (0..6)
        .map(|i| format!("[{}]", (1..5).map(|j| (i * 4 + j).to_string()).collect::<Vec<_>>().join(",")))
        .collect();
    s.put("x.json", format!("[{}]", numbers.join(",")));
    let input = s.file("x.json");
    s.zaro(&["write", "@", "g/x", "--from", input.to_str().unwrap()]).text();
    std::fs::remove_file(input).unwrap();
    s
}

fn json(s: &Store, select: &str) -> String {
    s.zaro(&["read", "@", "g/x", "--select", select, "--format", "json"]).text()
}

#[test]
fn attributes_are_shown_set_and_taken_away() {
    let s = made();
    s.zaro(&["consolidate", "@"]).text();
    let shown = |s: &Store| s.zaro(&["attrs", "@", "g/x"]).text().split_whitespace().collect::<String>();
    assert_eq!(shown(&s), r#"{"units":"K","n":1}"#);
    let set = [
        "attrs",
        "@",
        "g/x",
        "--set",
        "n=[1, 2]",
        "--set",
        "note=a = b",
        "--set",
        "v=\"3\"",
        "--unset",
        "units",
    ];
    assert_eq!(s.zaro(&set).text(), "");
    // Read through the consolidated copy, and from the node's own document.
    assert_eq!(shown(&s), r#"{"n":[1,2],"note":"a=b","v":"3"}"#);
    let own = s.zaro(&["attrs", "@", "g/x", "--no-consolidated"]).text();
    assert_eq!(own.split_whitespace().collect::<String>(), shown(&s));
    s.put("a.json", r#"{"only": true}"#);
    let file = format!("@{}", s.file("a.json").display());
    s.zaro(&["attrs", "@", "g/x", "--replace", &file]).text();
    assert_eq!(shown(&s), r#"{"only":true}"#);
    for (args, code) in [
        (&["g/x", "--set", "x"][..], 2),
        (&["g/x", "--replace", "[]"], 2),
        (&["g/x", "--set", "a=1", "--unset", "a"], 2),
        (&["g/none", "--set", "a=1"], 3),
        (&["g/none"], 3),
    ] {
        assert_eq!(s.zaro(&[&["attrs", "@"], args].concat()).code, code, "{args:?}");
    }
}

#[test]
fn arrays_grow_and_shrink() {
    let s = made();
    s.zaro(&["consolidate", "@"]).text();
    s.zaro(&["resize", "@", "g/x", "--axis", "time=+2"]).text();
    assert_eq!(json(&s, "5:,0"), "[21,0,0]\n");
    s.zaro(&["resize", "@", "g/x", "--axis", "time=-3", "--axis", "1=3"]).text();
    assert_eq!(json(&s, "3:,:"), "[[13,14,15],\n[17,18,19]]\n");
    s.zaro(&["resize", "@", "g/x", "--shape", "6,4"]).text();
    assert_eq!(json(&s, "4:,:"), "[[17,18,19,0],\n[0,0,0,0]]\n");
    for (args, code, words) in [
        (&["g/x"][..], 2, "--shape"),
        (&["g/x", "--shape", "6"], 2, "extents"),
        (&["g/x", "--axis", "time"], 2, "time=+31"),
        (&["g/x", "--axis", "lon=3"], 2, "lat, time"),
        (&["g/x", "--axis", "time=-7"], 2, "6 positions"),
        (&["g", "--shape", "6"], 3, "group"),
        (&["none", "--shape", "6"], 3, "none"),
    ] {
        let run = s.zaro(&[&["resize", "@"], args].concat());
        assert_eq!(run.code, code, "{args:?}: {}", run.err);
        assert!(run.err.contains(words), "{args:?}: {}", run.err);
    }
}

/// zarr-python finds the members of a group in consolidated metadata only where they stand together.
#[test]
fn new_nodes_stand_beside_their_siblings_in_consolidated_metadata() {
    for format in ["2", "3"] {
        let s = Store::new();
        s.zaro(&["create", "@", "--group", "--zarr-format", format]).text();
        let create = |node: &str| {
            s.zaro(&["create", "@", node, "--shape", "2", "--dtype", "i1"]).text();
        };
        ["g/a", "h/b"].into_iter().for_each(create);
        s.zaro(&["consolidate", "@"]).text();
        ["g/c", "g-x/d"].into_iter().for_each(create);
        let name = if format == "3" { "zarr.json" } else { ".zmetadata" };
        let document = std::fs::read_to_string(s.file(name)).unwrap();
        let place = |node: &str| document.find(&format!("\"{node}")).unwrap();
        let order = ["g/a", "g/c", "g-x/d", "h/b"].map(place);
        assert!(order.is_sorted(), "{format}: {document}");
    }
}

#[test]
fn metadata_are_consolidated_and_taken_apart() {
    let s = made();
    assert_eq!(s.zaro(&["consolidate", "@"]).text(), "/: 4 nodes\n");
    assert_eq!(s.zaro(&["consolidate", "@", "g", "--json"]).text(), "{\"nodes\":3}\n");
    assert!(s.zaro(&["info", "@"]).text().contains("consolidated"));
    s.zaro(&["validate", "@", "--strict"]).text();
    assert_eq!(s.zaro(&["consolidate", "@", "--remove"]).text(), "/: removed\n");
    assert_eq!(s.zaro(&["consolidate", "@", "--remove"]).text(), "/: there were none\n");
    assert!(!s.zaro(&["info", "@"]).text().contains("consolidated"));
    assert_eq!(s.zaro(&["consolidate", "@", "g/x"]).code, 2);
    assert_eq!(s.zaro(&["consolidate", "@", "none"]).code, 3);
}

#[test]
fn nothing_is_deleted_unasked() {
    let s = made();
    s.zaro(&["consolidate", "@"]).text();
    let run = s.zaro(&["delete", "@", "g"]);
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("the group /g with 2 arrays and 0 groups") && run.err.contains("--yes"),
        "{}",
        run.err
    );
    assert_eq!(s.zaro(&["delete", "@", "g/x", "--yes", "--json"]).text(), "{\"path\":\"g/x\",\"nodes\":1}\n");
    assert_eq!(s.zaro(&["list", "@", "-r"]).text().lines().count(), 2);
    assert!(!s.file("g/x").exists());
    assert_eq!(s.zaro(&["delete", "@", "g/x", "--yes"]).code, 3);
}

#[test]
fn only_what_is_a_zarr_is_deleted() {
    let s = Store::new();
    s.put("precious/letter.txt", "dear")
        .put("data.zarr/zarr.json", r#"{"zarr_format":3,"node_type":"group"}"#);
    s.put("data.zarr/notes/a.txt", "b");
    for (uri, path) in [("precious", ""), ("", ""), ("", "precious"), ("data.zarr", "notes"), ("none", "")] {
        let uri = s.file(uri);
        let run = zaro(&["delete", uri.to_str().unwrap(), path, "--yes"]);
        assert_eq!(run.code, 3, "{uri:?} {path}: {}", run.err);
    }
    assert!(s.file("precious/letter.txt").exists() && s.file("data.zarr/notes/a.txt").exists());
    // Nor a Zarr with something else in it.
    zaro(&["delete", s.file("data.zarr").to_str().unwrap(), "--yes"]).fails(2, "notes/a.txt");
    std::fs::remove_dir_all(s.file("data.zarr/notes")).unwrap();
    zaro(&["delete", s.file("data.zarr").to_str().unwrap(), "--yes"]).text();
    assert!(!s.file("data.zarr").exists() && s.file("precious/letter.txt").exists());
}

#[test]
fn an_address_inside_a_zarr_is_that_of_a_node() {
    for format in ["2", "3"] {
        let s = Store::new();
        s.zaro(&["create", "@", "g", "--group", "--zarr-format", format, "--consolidate"]).text();
        let inside = |path: &str| s.file(path).to_str().unwrap().to_owned();
        let (x, y) = (inside("g/x"), inside("g/new/y"));
        zaro(&["create", &inside("g"), "x", "--shape", "4", "--dtype", "u1"]).text();
        zaro(&["create", &y, "--shape", "4", "--dtype", "u1"]).text();
        zaro(&["attrs", &x, "--set", "units=K"]).text();
        zaro(&["resize", &x, "--shape", "5"]).text();
        // The root's copies have followed.
        let listed = s.zaro(&["list", "@", "-r"]).text();
        assert_eq!(listed, s.zaro(&["list", "@", "-r", "--no-consolidated"]).text());
        assert!(listed.contains("/g/new/y") && listed.lines().count() == 4, "{listed}");
        assert!(s.zaro(&["attrs", "@", "g/x"]).text().contains("\"K\""));
        assert_eq!(zaro(&["create", &inside("g/x/z"), "--group"]).code, 2);
        zaro(&["delete", &x, "--yes"]).text();
        assert_eq!(s.zaro(&["list", "@", "-r"]).text().lines().count(), 3);
        s.zaro(&["validate", "@"]).text();
    }
}

#[test]
fn a_deletion_makes_room_on_a_full_disk() {
    let s = made();
    std::fs::create_dir(s.file("disk")).unwrap();
    // A disk of its own, which is gone with this process; filled up until not even an empty file can be made.
    let script = r#"
        mount -t tmpfs -o size=400k,nr_inodes=200 none "$1/disk" 2>/dev/null || { echo skipped; exit; }
        mkdir "$1/disk/a" && cp -r "$1/g" "$1/zarr.json" "$1/disk/a" && "$0" consolidate "$1/disk/a" || exit 90
        fill() {
            cat /dev/zero > "$1/disk/$2" 2>/dev/null
            n=0; while (: > "$1/disk/$2.$n") 2>/dev/null; do n=$((n+1)); done
        }
        fill "$1" 1; "$0" delete "$1/disk/a" g/x --yes || exit 91
        fill "$1" 2; "$0" delete "$1/disk/a" g --yes || exit 92
        "$0" list "$1/disk/a" || exit 93
        fill "$1" 3; "$0" delete "$1/disk/a" --yes || exit 94
        ls -A "$1/disk" | grep -v '^[123]'
        exit 0"#;
    let run = std::process::Command::new("unshare")
        .args(["-rm", "sh", "-c", script, env!("CARGO_BIN_EXE_zaro")])
        .arg(s.path())
        .output();
    let Ok(run) = run.inspect_err(|_| eprintln!("no unshare here")) else { return };
    let (out, err) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
    if out.starts_with("skipped") || err.contains("unshare failed") {
        return;
    }
    assert_eq!(run.status.code(), Some(0), "{out}{err}");
    // Nothing but the top group was left before the last deletion, and nothing after it.
    assert!(!out.contains("g/") && !out.lines().any(|line| line == "a"), "{out}");
}
