//! `zaro image upgrade`, on samples that other programs wrote.

use crate::common::{Store, copy, sample, zaro};

#[test]
fn an_upgrade_says_what_it_did() {
    let s = Store::new();
    let seed = sample("01-seed001-masks-0.1.zarr");
    let seed = seed.to_str().unwrap();
    let report = s.zaro(&["image", "upgrade", seed, "@:/new.zarr", "--json"]).text();
    for part in [
        r#""from":"0.1","seed":true"#,
        r#""to":"0.5""#,
        r#"{"path":"0","chunks":"recode"}"#,
        r#"{"path":"labels/original/0/1","chunks":"sample"}"#,
        r#""broken":[]"#,
        r#""verified":true"#,
    ] {
        assert!(report.contains(part), "{part} in {report}");
    }
    // It is there already, and it does not lie in itself.
    assert_eq!(s.zaro(&["image", "upgrade", seed, "@:/new.zarr"]).code, 2);
    assert_eq!(s.zaro(&["image", "upgrade", "@:/new.zarr", "@:/new.zarr/x"]).code, 2);
    assert_eq!(s.zaro(&["image", "upgrade", "@:/new.zarr"]).code, 2);
    assert_eq!(s.zaro(&["image", "upgrade", "@:/new.zarr", "@:/y", "--to", "0.1"]).code, 2);
    s.zaro(&["image", "upgrade", seed, "@:/new.zarr", "--overwrite", "--to", "0.6"]).text();
    let info = s.zaro(&["image", "info", "@:/new.zarr", "--json"]).text();
    assert!(info.contains("0.6"), "{info}");
}

#[test]
fn in_place_only_documents_change() {
    let s = Store::new();
    copy(&sample("09-hcs-plate-0.4.zarr"), &s.file("plate.zarr"));
    let dry = s.zaro(&["image", "upgrade", "@:/plate.zarr", "--dry-run", "--json"]).text();
    assert!(dry.contains(r#""chunks":"stay""#) && !dry.contains(r#""chunks":"copy""#), "{dry}");
    assert!(s.file("plate.zarr/.zgroup").exists());
    s.zaro(&["image", "upgrade", "@:/plate.zarr", "--in-place"]).text();
    assert!(!s.file("plate.zarr/.zgroup").exists() && s.file("plate.zarr/A/1/zarr.json").exists());
    assert_eq!(zaro(&["image", "validate", s.file("plate.zarr").to_str().unwrap()]).code, 0);
    // One image of it cannot have another version than the plate.
    let inside = s.file("plate.zarr/A/1/0");
    assert_eq!(zaro(&["image", "upgrade", inside.to_str().unwrap(), "--in-place", "--to", "0.6"]).code, 2);
    s.zaro(&["image", "upgrade", "@:/plate.zarr", "@:/one.zarr", "--path", "A/1/0", "--to", "0.6"]).text();
    assert!(s.zaro(&["image", "info", "@:/one.zarr", "--json"]).text().contains("0.6"));
}

/// Folders that old writers made no groups of.
#[test]
fn labels_and_images_below_plain_folders_come_along() {
    for in_place in [false, true] {
        let s = Store::new();
        copy(&sample("05-omezarrpy-0.4.zarr"), &s.file("i.zarr/a/b"));
        copy(&sample("05-omezarrpy-0.4.zarr"), &s.file("i.zarr"));
        std::fs::remove_file(s.file("i.zarr/labels/.zgroup")).unwrap();
        std::fs::remove_file(s.file("i.zarr/labels/.zattrs")).unwrap();
        let mut words = vec!["image", "upgrade", "@:/i.zarr"];
        words.extend(if in_place { ["--in-place", "--to", "0.5"] } else { ["@:/n.zarr", "--to", "0.5"] });
        s.zaro(&words).text();
        let top = s.file(if in_place { "i.zarr" } else { "n.zarr" });
        let mut open = vec![top.clone()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                assert!(!name.starts_with(".z"), "{}", path.display());
                if path.is_dir() {
                    open.push(path);
                }
            }
        }
        let labels = std::fs::read_to_string(top.join("labels/zarr.json")).unwrap();
        let old = std::fs::read_dir(sample("05-omezarrpy-0.4.zarr").join("labels")).unwrap();
        let names: Vec<String> = old
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| !n.starts_with('.'))
            .collect();
        assert!(names.iter().all(|n| labels.contains(n)), "{labels}");
        for image in ["", "a/b"] {
            let run = zaro(&["image", "validate", top.to_str().unwrap(), image]);
            assert_eq!(run.code, 0, "{}", String::from_utf8_lossy(&run.out));
        }
    }
}

#[test]
fn one_group_is_not_groups() {
    let s = Store::new();
    s.zaro(&["create", "@:/a.zarr", "x", "--shape", "8,8", "--dtype", "uint8"]).text();
    s.zaro(&["image", "pyramid", "@:/a.zarr", "x", "--axes", "yx", "--levels", "2"]).text();
    let said = s.zaro(&["image", "upgrade", "@:/a.zarr", "@:/b.zarr", "--to", "0.4"]);
    assert!(said.err.contains(": 1 group, 2 arrays"), "{} {}", said.code, said.err);
}
