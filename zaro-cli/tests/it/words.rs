//! The words people meet: suggestions, hints that can be pasted, manual pages, text that drives no terminal; and that
//! looking at many nodes costs as much as there are nodes.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Store, npy, v3_document, zaro};

/// A group with two fields and their coordinates.
fn fields() -> Store {
    let s = Store::new();
    let dims = |names: &str| format!(r#","dimension_names":[{names}]"#);
    s.group("data.zarr");
    s.array("data.zarr/lat", &[2], "uint8", "0", &dims(r#""lat""#), &[1, 2]);
    s.array("data.zarr/flag", &[1, 2], "uint8", "0", &dims(r#""time","lat""#), &[1, 2]);
    s.array("data.zarr/temperature", &[2, 2], "uint8", "0", &dims(r#""time","lat""#), &[1, 2, 3, 4]);
    s
}

#[test]
fn a_misspelt_node_is_recognised() {
    let s = fields();
    s.zaro(&["read", "@:/data.zarr", "temprature"]).fails(3, "did you mean \"temperature\"?");
    s.zaro(&["read", "@:/data.zarr", "TEMPERATURE"]).fails(3, "did you mean \"temperature\"?");
    s.zaro(&["info", "@:/data.zarr", "temp"]).fails(3, "did you mean \"temperature\"?");
    // The first name that is wrong, with what comes after it.
    s.group("data.zarr/model").group("data.zarr/model/run1");
    s.zaro(&["info", "@:/data.zarr", "modle/run1"]).fails(3, "did you mean \"model/run1\"?");
    s.zaro(&["info", "@:/data.zarr", "model/run2"]).fails(3, "did you mean \"model/run1\"?");
    // Who changes something is told the same.
    for command in [&["consolidate"][..], &["consolidate", "--remove"], &["attrs", "--set", "a=1"]] {
        let args = [&command[..1], &["@:/data.zarr", "modle"], &command[1..]].concat();
        s.zaro(&args).fails(3, "did you mean \"model\"?");
    }
    let far = s.zaro(&["read", "@:/data.zarr", "xyz"]);
    assert!(!far.err.contains("did you mean") && far.err.contains("/ has "), "{}", far.err);
    // The closest come first, however many there are.
    for i in 0..40 {
        s.group(&format!("data.zarr/a{i:02}"));
    }
    s.zaro(&["read", "@:/data.zarr", "latt"]).fails(3, "/ has lat, ");
}

#[test]
fn a_single_element_is_neither_appended_to_nor_resized() {
    let s = Store::new();
    s.put("one.csv", "5\n");
    s.zaro(&["create", "@:/data.zarr", "--shape", "", "--dtype", "int32"]).text();
    s.zaro(&["write", "@:/data.zarr", "--from", "@:/one.csv", "--append", "0"]).fails(2, "has no dimensions");
    s.zaro(&["resize", "@:/data.zarr", "--axis", "time=+1"]).fails(2, "has no dimensions");
}

#[test]
fn nothing_stays_of_a_node_whose_name_is_too_long() {
    let s = Store::new();
    s.put("v.npy", npy("'|u1'", false, "(2,)", &[1, 2]));
    s.array("a.zarr", &[1], "uint8", "0", "", &[1]);
    let long = format!("a/b/{}", "x".repeat(300));
    for args in [
        &["create", "@:/data.zarr", &long, "--shape", "3", "--dtype", "int8"][..],
        &["create", "@:/data.zarr", &long, "--group"],
        &["write", "@:/data.zarr", &long, "--create", "--from", "@:/v.npy"],
        &["copy", "@:/a.zarr", "@:/data.zarr", "--to", &long],
    ] {
        s.zaro(args).fails(2, "a name is longer than the 255 bytes");
        assert!(!s.file("data.zarr").exists(), "{args:?}");
    }
}

#[test]
fn a_missing_store_is_told_from_a_missing_node() {
    let s = fields();
    s.zaro(&["read", "@:/data.zar", "temperature"]).fails(3, "data.zar: no such file or folder");
    s.zaro(&["info", "@:/dtaa.zarr"]).fails(3, "/data.zarr\"?");
    s.zaro(&["info", "@:/none/data.zarr"]).fails(3, "none does not exist");
    std::fs::create_dir(s.file("empty")).unwrap();
    s.zaro(&["read", "@:/empty", "a"]).fails(3, "no Zarr here");
    s.zaro(&["resize", "@:/new.zarr", "a", "--shape", "3"]).fails(3, "no Zarr here");
    s.put("part.zarr/a/c/0", "x").put(
        "part.zarr/.zaro-journal.json",
        r#"{"journal":1,"operation":"copy","source":{"address":"old.zarr"}}"#,
    );
    for path in ["", "a"] {
        let run = s.zaro(&["info", "@:/part.zarr", path]);
        assert_eq!(run.code, 3, "{}", run.err);
        if path.is_empty() {
            assert!(
                run.err.contains("unfinished work of `zaro copy`") && run.err.contains("rerun"),
                "{}",
                run.err
            );
        }
    }
}

#[test]
fn an_unknown_dimension_is_never_ignored() {
    let s = fields();
    for (option, value, meant) in [
        ("--chunks", "tme=1", "time"),
        ("--shards", "lattitude=2", "lat"),
        ("--chunks", "lat=1,TIME=1", "time"),
    ] {
        let run = s.zaro(&["copy", "@:/data.zarr", "@:/copy.zarr", option, value]);
        run.fails(2, &format!("did you mean {meant:?}?"));
        assert!(!s.file("copy.zarr").exists());
    }
    s.zaro(&["copy", "@:/data.zarr", "@:/copy.zarr", "--chunks", "lat=1,lat=2"]).fails(2, "twice");
    assert_eq!(s.zaro(&["copy", "@:/data.zarr", "@:/copy.zarr", "--chunks", "time=1"]).code, 0);
    let read = |more: &[&str]| s.zaro(&[&["read", "@:/data.zarr", "temperature"], more].concat());
    read(&["--sel", "lot=1"]).fails(2, "did you mean \"lat\"?");
    read(&["--sel", "time=2020-01-02T06:00:00"]).fails(2, "--isel");
    read(&["--isel", "time=2020-01-02"]).fails(2, "--sel");
    read(&["--select", "0,7"]).fails(2, "dimension 1 (lat)");
    s.zaro(&["resize", "@:/data.zarr", "temperature", "--axis", "tim=3"]).fails(2, "did you mean \"time\"?");
}

#[test]
fn options_that_help_are_named() {
    let s = fields();
    std::fs::write(s.file("a.npy"), npy("'|u1'", false, "(2,)", &[1, 2])).unwrap();
    s.zaro(&["write", "@:/data.zarr", "new", "--from", "@:/a.npy"]).fails(3, "--create");
    let create = ["create", "@:/data.zarr", "lat", "--shape", "2", "--dtype", "uint8"];
    s.zaro(&create).fails(2, "--overwrite");
    s.zaro(&["copy", "@:/data.zarr", "@:/copy.zarr", "lat"]).fails(2, "--path lat");
    s.put("real.nc", b"\x89HDF\r\n\x1a\n").put("old.nc", b"CDF\x01....");
    s.zaro(&["info", "@:/real.nc"]).fails(5, "kerchunk");
    s.zaro(&["info", "@:/old.nc"]).fails(5, "VirtualiZarr");
    for name in ["x.nc", "x.h5", "x.tif", "x.json"] {
        s.zaro(&["copy", "@:/data.zarr", &format!("@:/{name}")]).fails(2, ".zarr");
        assert!(!s.file(name).exists());
    }
    assert_eq!(s.zaro(&["copy", "@:/data.zarr", "@:/x.nc/"]).code, 0);
    s.zaro(&["read", "@:/data.zarr", "lat", "--region", "0,1"]).fails(2, "--select");
}

#[test]
fn types_have_names_that_people_know() {
    let s = Store::new();
    s.put("zarr.json", r#"{"zarr_format":3,"node_type":"group"}"#);
    let text = r#"{"name":"fixed_length_utf32","configuration":{"length_bytes":20}}"#;
    s.put("u/zarr.json", v3_document(&[2], &[2], text, "\"\"", ""));
    let run = s.zaro(&["info", "@"]).text();
    assert!(run.contains("  U5  "), "{run}");
    // For programs they stay.
    assert!(s.zaro(&["meta", "@", "u", "--json"]).text().contains("fixed_length_utf32"));
}

/// Runs each line after `try:` of `text` in a shell in `dir`, with the binary first in its path; they must all end well.
fn run_hints(text: &str, dir: &Path) -> usize {
    let bin = Path::new(env!("CARGO_BIN_EXE_zaro")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut lines = 0;
    let mut hints = text.lines().skip_while(|l| !l.starts_with("try: "));
    while let Some(line) = hints.next().map(|l| l.trim_start_matches("try: ").trim_start()) {
        let run = Command::new("sh").args(["-c", line]).current_dir(dir).env("PATH", &path).output().unwrap();
        assert!(run.status.success(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
        lines += 1;
    }
    lines
}

#[test]
fn hints_can_be_pasted_whatever_the_names_are() {
    let odd = [
        "a b",
        "it's",
        "x; touch PWNED",
        "$(touch PWNED)",
        "`touch PWNED`",
        "-dash",
        "a\"b",
        "~",
        "*",
        "#x",
        "a&b",
        "é",
        "x=1",
        "!!",
        "{a,b}",
        "--help",
    ];
    let s = Store::new();
    for name in odd {
        let store = format!("{name}.zarr");
        s.group(&store);
        s.array(&format!("{store}/{name}"), &[2, 2], "uint8", "0", "", &[1, 2, 3, 4]);
        for words in [vec!["info", "--"], vec!["info", "--all", "--zarr-format", "3", "--"]] {
            for path in ["", name] {
                let run = Command::new(env!("CARGO_BIN_EXE_zaro"))
                    .args(&words)
                    .args([&store, path])
                    .current_dir(s.path())
                    .output()
                    .unwrap();
                assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
                let lines = run_hints(&String::from_utf8(run.stdout).unwrap(), s.path());
                assert_eq!(lines, if path.is_empty() { 2 } else { 1 }, "{name}");
            }
        }
    }
    assert!(!s.file("PWNED").exists());
    // What cannot be shown as it is is not offered.
    s.group("x.zarr").array("x.zarr/a\u{202e}b", &[2, 2], "uint8", "0", "", &[1, 2, 3, 4]);
    let text = s.zaro(&["info", "@:/x.zarr"]).text();
    assert!(!text.contains("try:") && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn hints_name_the_main_variable_and_say_how_it_is_reached() {
    let s = fields();
    let text = s.zaro(&["info", "@:/data.zarr"]).text();
    assert!(text.contains("data.zarr temperature"), "{text}");
    let template = s.zaro(&["info", "@:/data.zarr", "--template", "a=b c", "--no-consolidated"]).text();
    assert!(template.contains("--no-consolidated '--template=a=b c'"), "{template}");
    run_hints(&template, s.path());
    // A header may be a secret.
    let secret = s.zaro(&["info", "@:/data.zarr", "--header", "Authorization: Bearer 123"]).text();
    assert!(!secret.contains("try:"), "{secret}");
}

#[test]
fn every_command_has_a_manual_page_and_references_lead_to_pages() {
    let s = Store::new();
    zaro(&["man", s.file("man").to_str().unwrap()]).text();
    let pages: Vec<String> = std::fs::read_dir(s.file("man"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    for page in ["zaro.1", "zaro-image.1", "zaro-image-render.1", "zaro-ref-stat.1", "zaro-manifest-create.1"]
    {
        assert!(pages.iter().any(|p| p == page), "{page} in {pages:?}");
    }
    let mut found = 0;
    for page in &pages {
        let text = std::fs::read_to_string(s.file("man").join(page)).unwrap().replace("\\-", "-");
        let title = text.lines().find_map(|l| l.strip_prefix(".TH ")).unwrap().to_owned();
        assert!(title.starts_with(page.trim_end_matches(".1")), "{page}: {title}");
        for (at, _) in text.match_indices("(1)") {
            let name = text[..at].rsplit(|c: char| c.is_whitespace() || c == ',').next().unwrap();
            if name.starts_with("zaro") {
                assert!(pages.iter().any(|p| *p == format!("{name}.1")), "{page} names {name}(1)");
                found += 1;
            }
        }
    }
    assert!(found > 40, "{found}");
    // Each command that help names has one.
    let help = zaro(&["--help"]).text();
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    for command in commands.lines().filter_map(|l| l.split_whitespace().next()).filter(|c| *c != "help") {
        assert!(pages.iter().any(|p| *p == format!("zaro-{command}.1")), "{command}");
    }
}

#[test]
fn short_help_leaves_out_the_options_of_stores() {
    for command in [&["read"][..], &["copy"], &["image", "render"], &[]] {
        let short = zaro(&[command, &["-h"]].concat()).text();
        assert!(!short.contains("--request-payer"), "{short}");
        assert!(zaro(&[command, &["--help"]].concat()).text().contains("--request-payer"));
    }
    for command in ["man", "completions", "demo"] {
        let long = zaro(&[command, "--help"]).text();
        assert!(!long.contains("--request-payer") && !long.contains("--memory"), "{long}");
    }
    for command in ["create", "write", "delete"] {
        let long = zaro(&[command, "--help"]).text();
        assert!(long.contains("--endpoint") && !long.contains("--snapshot"), "{long}");
    }
}

#[test]
fn strangers_cannot_drive_the_terminal() {
    let bad = "\\u001b]0;pwned\\u0007\\u001b[31m\\u007f\\u009b\\u202e\\u2066";
    let s = Store::new();
    let attributes = format!(r#"{{"{bad}":"{bad}","ome":{{"version":"{bad}","multiscales":[]}}}}"#);
    s.put("zarr.json", format!(r#"{{"zarr_format":3,"node_type":"group","attributes":{attributes}}}"#));
    let name = "n\u{1b}]0;x\u{7}\u{202e}\u{9b}";
    s.array(name, &[1], "string", "\"\"", "", b"\x01\0\0\0\x04\0\0\0\xe2\x80\xaea");
    let unsafe_char = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    for args in [
        &["info", "@", "--all"][..],
        &["info", "@", name],
        &["list", "@"],
        &["list", "@", "--json"],
        &["meta", "@", "--json"],
        &["meta", "@"],
        &["attrs", "@"],
        &["read", "@", name],
        &["read", "@", name, "--format", "json"],
        &["validate", "@"],
        &["validate", "@", "--json"],
        &["image", "validate", "@"],
        &["image", "validate", "@", "--json"],
        &["image", "info", "@"],
        &["checksum", "@", "--json"],
        &["checksum", "@", "--all"],
        &["manifest", "tree", "@", "--json"],
        &["read", "@", "missing"],
        &["read", "@", name, "--select", "9"],
    ] {
        let run = s.zaro(args);
        let out = String::from_utf8(run.out).unwrap();
        for text in [&out, &run.err] {
            assert!(!text.chars().any(unsafe_char), "{args:?}: {text:?}");
        }
        if args.contains(&"--json") && run.code == 0 {
            assert!(out.contains("\\u202e") || !out.contains("202e"), "{args:?}: {out}");
        }
    }
}

#[test]
fn an_output_that_cannot_be_written_is_told_by_name() {
    let s = fields();
    let shell = |line: &str| {
        let line = line.replace('@', s.file("data.zarr").to_str().unwrap());
        let run = Command::new("sh")
            .args(["-c", &line])
            .env("zaro", env!("CARGO_BIN_EXE_zaro"))
            .stdout(Stdio::piped())
            .output()
            .unwrap();
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    for line in [
        "$zaro list @ >&-",
        "$zaro read @ lat --format csv >&-",
        "$zaro --help >&-",
        "$zaro list @ 1</dev/null",
    ] {
        let (code, err) = shell(line);
        assert_eq!(code, Some(6), "{line}: {err}");
    }
    assert_eq!(shell("$zaro list @ >/dev/null").0, Some(0));
    if Path::new("/dev/full").exists() {
        let (code, err) = shell("$zaro read @ lat --format csv -o /dev/full");
        assert!(code == Some(6) && err.matches("/dev/full").count() == 1, "{err}");
    }
}

/// Seconds of processor time that `zaro` takes with `args`.
fn cpu(args: &[&str]) -> f64 {
    let line = format!("times; \"$0\" {} >/dev/null; times", args.join(" "));
    let run = Command::new("bash").args(["-c", &line, env!("CARGO_BIN_EXE_zaro")]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8(run.stdout).unwrap();
    // The last line: user and system time of children.
    let seconds = |t: &str| {
        let (m, s) = t.trim_end_matches('s').split_once('m').unwrap();
        m.parse::<f64>().unwrap() * 60.0 + s.parse::<f64>().unwrap()
    };
    text.lines().last().unwrap().split_whitespace().map(seconds).sum()
}

#[test]
fn looking_at_twice_as_many_nodes_takes_twice_as_long() {
    let s = Store::new();
    let array = v3_document(&[3], &[3], "uint8", "0", "");
    let group = r#"{"zarr_format":3,"node_type":"group"}"#;
    let wide = |n: usize| {
        let mut nodes = format!(r#""g":{group}"#);
        for i in 0..n {
            let _ = write!(nodes, r#","g/n{i}":{array}"#);
        }
        nodes
    };
    let deep = |n: usize| {
        let paths = (1..=n).map(|i| format!(r#""{}":{group}"#, vec!["g"; i].join("/")));
        paths.collect::<Vec<_>>().join(",")
    };
    let cost = |name: &str, nodes: String| {
        let consolidated = format!(r#"{{"kind":"inline","must_understand":false,"metadata":{{{nodes}}}}}"#);
        let document = r#"{"zarr_format":3,"node_type":"group","consolidated_metadata":"#;
        s.put(&format!("{name}/zarr.json"), format!("{document}{consolidated}}}"));
        let path = s.file(name);
        (0..3).map(|_| cpu(&["info", "--all", path.to_str().unwrap()])).fold(f64::MAX, f64::min)
    };
    let (one, two) = (cost("w1", wide(6000)), cost("w2", wide(12000)));
    assert!(two < 3.0 * one, "{one} s, then {two} s");
    // Paths, and lines of the tree, grow with the depth: four times as much text, not eight.
    let (one, two) = (cost("d1", deep(500)), cost("d2", deep(1000)));
    assert!(two < 6.0 * one, "{one} s, then {two} s");
}

#[test]
fn plates_of_very_many_wells_are_looked_at_in_linear_time() {
    let s = Store::new();
    let cost = |command: &str, lines: usize| {
        let each = |n: usize| (0..n).map(|i| format!(r#"{{"name":"{i}"}}"#)).collect::<Vec<_>>().join(",");
        let well = |i: usize| {
            let (row, column) = (i / 100, i % 100);
            format!(r#"{{"path":"{row}/{column}","rowIndex":{row},"columnIndex":{column}}}"#)
        };
        let wells: Vec<String> = (0..lines * 100).map(well).collect();
        let plate = format!(
            r#"{{"rows":[{}],"columns":[{}],"wells":[{}]}}"#,
            each(lines),
            each(100),
            wells.join(",")
        );
        let attributes = format!(r#"{{"ome":{{"version":"0.5","plate":{plate}}}}}"#);
        let document = format!(r#"{{"zarr_format":3,"node_type":"group","attributes":{attributes}}}"#);
        s.put("p.zarr/zarr.json", document);
        let path = s.file("p.zarr");
        (0..2).map(|_| cpu(&["image", command, path.to_str().unwrap()])).fold(f64::MAX, f64::min)
    };
    for command in ["info", "validate"] {
        let (one, four) = (cost(command, 50), cost(command, 200));
        assert!(four < 7.0 * one, "{command}: {one} s, then {four} s");
    }
}
