//! `zaro image convert` as its users meet it.

use crate::common::{Store, npy};

/// A file that other programs wrote.
fn sample(name: &str) -> String {
    format!("{}/../zaro/testdata/images/tiff/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_file_becomes_an_image_with_its_pixel_size() {
    let store = Store::new();
    for version in ["0.4", "0.5", "0.6"] {
        let out = format!("@:/{version}.zarr");
        let run =
            store.zaro(&["image", "convert", &sample("imagej-little.tif"), &out, "--to", version, "--json"]);
        let text = run.text();
        assert!(text.contains(r#""scale":[1.5,1.0,2.5,0.5,0.25]"#), "{text}");
        assert!(text.contains(r#""axes":["t","c","z","y","x"]"#), "{text}");
        let first = store.zaro(&["read", &out, "0", "--select", "0,0,0,0,:3", "--format", "csv"]).text();
        assert!(first.contains('0'), "{first}");
    }
}

#[test]
fn nothing_is_overwritten_unasked() {
    let store = Store::new();
    let args = ["image", "convert", &sample("grey.png"), "@:/a.zarr"];
    store.zaro(&args).text();
    assert_eq!(store.zaro(&args).code, 2);
    store.zaro(&[&args[..], &["--overwrite"]].concat()).text();
}

#[test]
fn faults_have_their_codes() {
    let store = Store::new();
    store.put("text.tif", "no picture");
    for (args, code) in [
        (vec!["@:/none.tif", "@:/o.zarr"], 3),
        (vec!["@:/text.tif", "@:/o.zarr"], 5),
        (vec!["@:/no{z}.tif", "@:/o.zarr"], 3),
        (vec!["@:/text.tif"], 2),
    ] {
        let all: Vec<&str> = ["image", "convert"].into_iter().chain(args).collect();
        assert_eq!(store.zaro(&all).code, code, "{all:?}");
    }
    let two = sample("two.ome.tif");
    assert_eq!(store.zaro(&["image", "convert", &two, "@:/o.zarr", "--series", "2"]).code, 2);
    store.zaro(&["image", "convert", &two, "@:/o.zarr", "--series", "1"]).text();
    store.zaro(&["image", "convert", &two, "@:/p.zarr"]).text();
    assert!(store.path().join("p.zarr/OME/METADATA.ome.xml").is_file());
}

/// A picture in a numpy file, of 6 by 5.
fn plane(value: u8) -> Vec<u8> {
    npy("'|u1'", false, "(6, 5)", &[value; 30])
}

/// What is in a folder, but for some.
fn others(store: &Store, known: &[&str]) -> Vec<String> {
    let all = std::fs::read_dir(store.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    all.filter(|name| !known.iter().any(|k| name.ends_with(k))).collect()
}

#[test]
fn names_that_differ_in_more_than_numbers_need_a_pattern() {
    let store = Store::new();
    let mut files = Vec::new();
    for (t, c, z) in (0..8).map(|i| (i / 4, ["DAPI", "GFP"][i / 2 % 2], i % 2)) {
        let name = format!("exp_t{t}_{c}_z{z}.npy");
        store.put(&name, plane(u8::try_from(t * 100 + z * 10 + c.len()).unwrap()));
        files.push(format!("@:/{name}"));
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let words = |more: &[&'static str]| [&["image", "convert"], &files[..], &["@:/o.zarr"], more].concat();
    store.zaro(&words(&[])).fails(2, "--pattern 'exp_t{t}_{c}_z{z}.npy'");
    assert!(others(&store, &[".npy"]).is_empty());
    let made = store.zaro(&words(&["--pattern", "exp_t{t}_{c}_z{z}.npy", "--json"])).text();
    assert!(made.contains(r#"[[2,2,2,6,5]]"#), "{made}");
    // All in a row, if that is said.
    let made = store.zaro(&words(&["--axes", "zyx", "--json", "--overwrite"])).text();
    assert!(made.contains(r#"[[8,6,5]]"#), "{made}");
    store.put("alice.npy", plane(1)).put("bob.npy", plane(2));
    store.zaro(&["image", "convert", "@:/alice.npy", "@:/bob.npy", "@:/p.zarr"]).fails(2, "--pattern");
    // Folders are parts of names, too.
    store
        .put("t1/z1.npy", plane(1))
        .put("t1/z2.npy", plane(2))
        .put("t2/z1.npy", plane(3))
        .put("t2/z2.npy", plane(4));
    let made = store.zaro(&["image", "convert", "@:/t{t}/z{z}.npy", "@:/q.zarr", "--json"]).text();
    assert!(made.contains(r#""axes":["t","z","y","x"]"#) && made.contains("[[2,2,6,5]]"), "{made}");
}

#[test]
fn a_conversion_that_fails_leaves_nothing() {
    let store = Store::new();
    store.put("good.npy", plane(3)).put("folder/x.txt", "");
    for (args, told) in [
        (vec!["@:/good.npy", "@:/o.zarr", "--levels", "9"], "9 levels"),
        (vec!["@:/good.npy", "@:/o.zarr", "--levels", "70"], "64"),
        (vec!["@:/folder", "@:/o.zarr"], "this is a directory"),
    ] {
        let all: Vec<&str> = ["image", "convert"].into_iter().chain(args).collect();
        store.zaro(&all).fails(2, told);
        assert!(others(&store, &["good.npy", "folder"]).is_empty(), "{all:?}");
    }
    store.zaro(&["image", "convert", "@:/good.npy", "@:/o.zarr"]).text();
    store.zaro(&["image", "convert", "@:/good.npy", "@:/o.zarr"]).fails(2, "--overwrite");
    store.zaro(&["image", "convert", "@:/o.zarr", "@:/p.zarr"]).fails(2, "zaro image upgrade");
}

#[test]
fn a_file_in_the_output_is_not_deleted_with_it() {
    let store = Store::new();
    store.put("n.npy", plane(3));
    store.zaro(&["image", "convert", "@:/n.npy", "@:/i.zarr"]).text();
    std::fs::rename(store.file("n.npy"), store.file("i.zarr/n.npy")).unwrap();
    std::os::unix::fs::symlink(store.file("i.zarr"), store.file("other")).unwrap();
    std::os::unix::fs::symlink(store.file("i.zarr/n.npy"), store.file("link.npy")).unwrap();
    for (from, to) in [
        ("@:/i.zarr/n.npy", "@:/i.zarr"),
        ("@:/link.npy", "@:/i.zarr"),
        ("@:/i.zarr/n.npy", "@:/other"),
        ("@:/other/n.npy", "@:/i.zarr/"),
    ] {
        store.zaro(&["image", "convert", from, to, "--overwrite"]).fails(2, "lies in what is to be written");
        assert!(store.file("i.zarr/n.npy").is_file() && store.file("i.zarr/0/zarr.json").is_file());
    }
}

#[test]
fn what_a_killed_conversion_left_is_replaced() {
    let store = Store::new();
    store.put("n.npy", plane(3));
    let words = ["image", "convert", "@:/n.npy", "@:/i.zarr"];
    // As a process that was killed leaves it: this one has ended.
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let begun = |process: u32, machine: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let since = stat.rsplit_once(')').map_or("1", |(_, s)| s.split_whitespace().nth(19).unwrap());
        let _ = std::fs::remove_dir_all(store.file("i.zarr"));
        store.array("i.zarr/0", &[2, 2], "uint8", "0", "", &[9; 4]);
        let owner = format!(
            r#"{{"token":"t","machine":"{} {}{machine}","process":{process},"began":{since}}}"#,
            boot.trim(),
            space.display()
        );
        let journal = format!(r#"{{"journal":1,"operation":"image convert","owner":{owner}}}"#);
        store.put("i.zarr/.zaro-journal.json", journal);
    };
    begun(dead, "");
    store.zaro(&["info", "@:/i.zarr"]).fails(3, "unfinished work of `zaro image convert`");
    store.zaro(&words).text();
    assert!(!store.file("i.zarr/.zaro-journal.json").exists());
    let pixels = store.zaro(&["read", "@:/i.zarr", "0", "--format", "csv"]).text();
    assert!(pixels.contains('3') && !pixels.contains('9'), "{pixels}");
    // One that is still at work, or may be elsewhere, and what it did not make.
    begun(std::process::id(), "");
    store.zaro(&words).fails(6, "is running here");
    begun(dead, " elsewhere");
    store.zaro(&words).fails(2, "--overwrite");
    for (file, text) in
        [("thesis.txt", "mine"), ("mine/zarr.json", r#"{"zarr_format":3,"node_type":"group"}"#)]
    {
        begun(dead, "");
        store.put(&format!("i.zarr/{file}"), text);
        store.zaro(&words).fails(2, "other files");
        assert!(store.file(&format!("i.zarr/{file}")).is_file());
    }
    // As an earlier version left it.
    let _ = std::fs::remove_dir_all(store.file("i.zarr"));
    store.group("i.zarr").put("i.zarr/.zaro-image-convert.json", r#"{"process":1,"system":"x"}"#);
    store.zaro(&words).fails(2, "an earlier version");
    store.zaro(&["image", "convert", "@:/n.npy", "@:/i.zarr", "--overwrite"]).text();
    assert!(!store.file("i.zarr/.zaro-image-convert.json").exists());
}

#[test]
fn an_image_in_one_file_follows_the_rules_of_these() {
    let store = Store::new();
    let bytes: Vec<u8> = (0..3u32 * 700 * 900).map(|i| (i / 7) as u8).collect();
    store.put("n.npy", npy("'|u1'", false, "(3, 700, 900)", &bytes));
    let words = [
        "image",
        "convert",
        "@:/n.npy",
        "@:/o.ozx",
        "--axes",
        "cyx",
        "--chunks",
        "128,128",
        "--pixel-size",
        "0.5",
        "--unit",
        "micrometer",
    ];
    store.zaro(&words).text();
    let run = store.zaro(&["image", "validate", "@:/o.ozx", "--strict"]);
    assert_eq!(run.code, 0, "{}", String::from_utf8_lossy(&run.out));
    assert_eq!(others(&store, &["n.npy", "o.ozx"]), Vec::<String>::new());
    let back = store.zaro(&["read", "@:/o.ozx", "0", "--select", "2,699,897:900", "--format", "csv"]).text();
    let last = bytes.last().unwrap().to_string();
    assert!(back.contains(&last), "{back}");
    store
        .zaro(&["image", "convert", "@:/n.npy", "@:/p.ozx", "--axes", "cyx", "--to", "0.4"])
        .fails(2, "0.5 or later");
    // A collection, too.
    store.zaro(&["image", "convert", &sample("two.ome.tif"), "@:/two.ozx"]).text();
    let run = store.zaro(&["image", "validate", "@:/two.ozx", "--strict"]);
    // Its axes have no units, but the archive is as it should be.
    let found = String::from_utf8_lossy(&run.out);
    assert!(found.contains("0 MUST") && !found.contains("SHOULD Z"), "{found}");
}
