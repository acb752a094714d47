//! `zaro image info` and `zaro image edit`, on samples that other programs wrote.

use std::path::{Path, PathBuf};

use crate::common::{Store, copy, sample, zaro};

fn copied(name: &str) -> Store {
    let s = Store::new();
    copy(&sample(name), s.path());
    s
}

/// Every file with its bytes, but for metadata.
fn chunks(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            all.extend(chunks(&path));
        } else if !name.starts_with(".z") && name != "zarr.json" {
            all.push((path.clone(), std::fs::read(path).unwrap()));
        }
    }
    all.sort();
    all
}

fn bare(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn every_version_is_described_in_the_same_words() {
    for (name, version, parts) in [
        (
            "01-seed001-masks-0.1.zarr",
            "0.1",
            &[r#""seed":true"#, r#""mask":true"#, r#""rgba":[0,128,0,128]"#][..],
        ),
        (
            "05-omezarrpy-0.4.zarr",
            "0.4",
            &[r#""unit":"micrometer","size":32,"pixelSize":0.5,"extent":16.0"#, r#""mask":false"#],
        ),
        (
            "06-omezarrpy-0.5.zarr",
            "0.5",
            &[r#""path":"s1","shape":[2,3,16,24]"#, r#""translation":[0.0,0.0,0.25,0.25]"#],
        ),
        ("09-hcs-plate-0.4.zarr", "0.4", &[r#""kind":"plate""#, r#""path":"B/2/1""#, r#""rows":["A","B"]"#]),
    ] {
        let path = sample(name);
        let text = bare(&zaro(&["image", "info", path.to_str().unwrap(), "--json"]).text());
        for part in parts.iter().copied().chain([format!(r#""version":"{version}""#).as_str()]) {
            assert!(text.contains(part), "{name}: {part} in {text}");
        }
        assert!(zaro(&["image", "info", path.to_str().unwrap()]).text().contains("OME-Zarr"));
    }
    // A well that is gone does not hide the others.
    let s = copied("09-hcs-plate-0.4.zarr");
    std::fs::remove_dir_all(s.path().join("A/1")).unwrap();
    let run = s.zaro(&["image", "info", "@"]);
    assert_eq!(run.code, 4);
    let text = String::from_utf8(run.out).unwrap();
    assert!(
        text.contains("/B/2/1  y 16, x 16") && text.contains("/A/1  ") && text.contains("no such node"),
        "{text}"
    );
    let s = Store::new();
    s.group("");
    s.array("x", &[2], "uint8", "0", "", &[1, 2]);
    assert_eq!(s.zaro(&["image", "info", "@"]).code, 4);
    assert_eq!(s.zaro(&["image", "info", "@", "x"]).code, 4);
    assert_eq!(s.zaro(&["image", "info", "@", "none"]).code, 3);
}

#[test]
fn an_edit_changes_what_it_names_and_nothing_else() {
    for name in ["01-seed001-masks-0.1.zarr", "05-omezarrpy-0.4.zarr", "06-omezarrpy-0.5.zarr"] {
        let s = copied(name);
        let before = chunks(s.path());
        s.zaro(&["attrs", "@", "--set", r#"mine={"a": [1, 2.50]}"#]).text();
        s.zaro(&[
            "image",
            "edit",
            "@",
            "--name",
            "new",
            "--default-z",
            "2",
            "--model",
            "greyscale",
            "--channel",
            "0:color=#00ff00,window=10..20.5,family=exponential,coefficient=0.3",
            "--channel",
            "DAPI:inverted=false,active=false,label=DNA",
        ])
        .text();
        let text = bare(&s.zaro(&["image", "info", "@", "--json"]).text());
        for part in [
            r#""color":"00FF00""#,
            r#""start":10"#,
            r#""end":20.5"#,
            r#""family":"exponential""#,
            r#""coefficient":0.3"#,
            r#""label":"DNA""#,
            r#""defaultZ":2"#,
            r#""model":"greyscale""#,
        ] {
            assert!(text.contains(part), "{name}: {part} in {text}");
        }
        assert!(bare(&s.zaro(&["attrs", "@"]).text()).contains(r#""mine":{"a":[1,2.50]}"#), "{name}");
        assert_eq!(chunks(s.path()), before, "{name}");
        for (args, code) in [
            (&["--channel", "7:color=00FF00"][..], 2),
            (&["--channel", "none:color=00FF00"], 2),
            (&["--channel", "0:window=5..5"], 2),
            (&["--channel", "0:nothing=5"], 2),
            (&["--default-z", "3"], 2),
            (&["--pixel-size", "q=1"], if name.starts_with("01") { 5 } else { 2 }),
            (&[], 2),
        ] {
            let before = s.zaro(&["attrs", "@"]).text();
            assert_eq!(s.zaro(&[&["image", "edit", "@"], args].concat()).code, code, "{name} {args:?}");
            assert_eq!(s.zaro(&["attrs", "@"]).text(), before);
        }
    }
}

#[test]
fn a_pixel_size_stretches_every_level() {
    for name in ["05-omezarrpy-0.4.zarr", "06-omezarrpy-0.5.zarr"] {
        let s = copied(name);
        s.zaro(&["image", "edit", "@", "--pixel-size", "y=0.325,x=0.325", "--unit", "y,x=nanometer"]).text();
        let text = bare(&s.zaro(&["image", "info", "@", "--json"]).text());
        for part in [
            r#""scale":[1.0,2.0,0.325,0.325]"#,
            r#""scale":[1.0,2.0,0.65,0.65]"#,
            r#""translation":[0.0,0.0,0.1625,0.1625]"#,
            r#""unit":"nanometer""#,
        ] {
            assert!(text.contains(part), "{name}: {part} in {text}");
        }
        // The labels are stretched with it.
        let labels = text.split(r#""labels":["#).nth(1).unwrap();
        assert!(labels.contains(r#""scale":[2.0,0.325,0.325]"#), "{name}: {labels}");
        assert!(labels.contains(r#""unit":"nanometer""#), "{name}: {labels}");
    }
}

#[test]
fn colours_of_labels_and_masks_are_changed_one_by_one() {
    for (name, label) in [
        ("01-seed001-masks-0.1.zarr", "original/0"),
        ("05-omezarrpy-0.4.zarr", "cells"),
        ("06-omezarrpy-0.5.zarr", "cells"),
    ] {
        let s = copied(name);
        let two = format!("{label}:2=FF000080");
        let nine = format!("{label}:9=010203");
        s.zaro(&["image", "edit", "@", "--label-color", &two, "--label-color", &nine]).text();
        let text = bare(&s.zaro(&["image", "info", "@", "--json"]).text());
        assert!(text.contains(r#"{"value":2,"rgba":[255,0,0,128]}"#), "{text}");
        assert!(text.contains(r#"{"value":9,"rgba":[1,2,3,255]}"#), "{text}");
        assert!(text.contains(r#"{"value":1,"#), "{text}");
        assert_eq!(s.zaro(&["image", "edit", "@", "--label-color", "none:1=FF0000"]).code, 3);
    }
}

#[test]
fn windows_come_from_the_pixels() {
    let s = copied("06-omezarrpy-0.5.zarr");
    s.zaro(&["image", "edit", "@", "--auto"]).text();
    let text = bare(&s.zaro(&["image", "info", "@", "--json"]).text());
    // Channel 0 of the smallest level holds 102.5 and more.
    let start: f64 =
        text.split(r#""start":"#).nth(1).unwrap().split([',', '}']).next().unwrap().parse().unwrap();
    assert!((100.0..130.0).contains(&start), "{text}");
}

#[test]
fn a_window_that_is_said_counts_more_than_one_that_is_found() {
    let s = copied("06-omezarrpy-0.5.zarr");
    s.zaro(&["image", "edit", "@", "--channel", "0:window=5:2000", "--auto"]).text();
    let text = bare(&s.zaro(&["image", "info", "@", "--json"]).text());
    let windows: Vec<&str> =
        text.split(r#""window":{"#).skip(1).map(|w| w.split('}').next().unwrap()).collect();
    assert!(windows[0].contains(r#""start":5"#) && windows[0].contains(r#""end":2000"#), "{windows:?}");
    assert!(!windows[1].contains(r#""start":5,"#), "{windows:?}");
}

#[test]
fn chunks_and_shards_are_told_apart() {
    let s = Store::new();
    let file = sample("tiff/uint8-little.tif");
    let words =
        ["image", "convert", file.to_str().unwrap(), "@:/a.zarr", "--chunks", "2,2", "--shards", "4,4"];
    s.zaro(&words).text();
    let text = bare(&s.zaro(&["image", "info", "@:/a.zarr", "--json"]).text());
    assert!(text.contains(r#""chunks":[2,2],"shards":[4,4]"#), "{text}");
    let text = s.zaro(&["image", "info", "@:/a.zarr"]).text();
    assert!(text.contains("chunks 2 × 2, shards 4 × 4"), "{text}");
    s.zaro(&["image", "info", file.to_str().unwrap()]).fails(2, "zaro image convert");
}

#[test]
fn labels_that_are_deleted_are_not_listed() {
    let s = Store::new();
    s.zaro(&["demo", "@:/demo"]).text();
    for format in ["0.5", "0.4"] {
        let image = format!("@:/{format}.zarr");
        s.zaro(&["image", "upgrade", "@:/demo/tissue.zarr", &image, "--to", format]).text();
        let listed = || s.zaro(&["attrs", &image, "labels"]).text().contains("nuclei");
        assert!(listed(), "{format}");
        s.zaro(&["delete", &image, "labels/nuclei", "--yes"]).text();
        assert!(!listed(), "{format}");
        // One that was stopped when the labels were gone is finished by the same command.
        let image = format!("@:/{format}-2.zarr");
        s.zaro(&["image", "upgrade", "@:/demo/tissue.zarr", &image, "--to", format]).text();
        std::fs::remove_dir_all(s.file(&format!("{format}-2.zarr/labels/nuclei"))).unwrap();
        s.zaro(&["delete", &image, "labels/nuclei", "--yes"]).text();
        assert!(!s.zaro(&["attrs", &image, "labels"]).text().contains("nuclei"), "{format}");
        assert_eq!(s.zaro(&["delete", &image, "labels/nuclei", "--yes"]).code, 3);
    }
}
