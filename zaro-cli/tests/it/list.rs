//! `zaro list` and `zaro info`.

use crate::common;
use crate::common::Store;

fn tree() -> Store {
    let s = Store::new();
    s.group("").group("g").group("g/h");
    s.array("a", &[2, 3], "uint8", "0", r#","dimension_names":["y",null]"#, &[0; 6]);
    s.array("g/b", &[], "float64", "\"NaN\"", "", &[0; 8]);
    s.array("g/h/c", &[4], "int32", "0", r#","attributes":{"units":"K\u001b[31m"}"#, &[0; 16]);
    s
}

#[test]
fn lines_are_path_kind_type_and_shape() {
    let s = tree();
    assert_eq!(s.zaro(&["list", "@"]).text(), "/a  array  uint8  2x3\n/g  group\n");
    let all = s.zaro(&["list", "@", "-r"]).text();
    let paths: Vec<&str> = all.lines().map(|l| l.split_whitespace().next().unwrap()).collect();
    assert_eq!(paths, ["/a", "/g", "/g/b", "/g/h", "/g/h/c"]);
    assert_eq!(s.zaro(&["list", "@", "g/h"]).text(), "/g/h/c  array  int32  4\n");
    assert_eq!(s.zaro(&["list", "@", "a"]).text(), "/a  array  uint8  2x3\n");
}

#[test]
fn json_is_one_list() {
    let s = tree();
    let json = s.zaro(&["list", "@", "g", "--json"]).text();
    let flat: String = json.split_whitespace().collect();
    assert_eq!(
        flat,
        r#"[{"path":"/g/b","kind":"array","zarr_format":3,"shape":[],"data_type":"float64"},{"path":"/g/h","kind":"group","zarr_format":3}]"#
    );
}

#[test]
fn info_draws_the_tree_and_keeps_strangers_off_the_terminal() {
    let s = tree();
    let info = s.zaro(&["info", "@"]).text();
    assert!(info.contains("Zarr V3 group, 3 arrays, 2 groups"), "{info}");
    assert!(info.contains("├── a          uint8  (y: 2, 3)  chunks 2 × 3, 6 B"), "{info}");
    assert!(info.contains("└── g\n    ├── b"), "{info}");
    assert!(info.contains("    └── h\n        └── c"), "{info}");
    let array = s.zaro(&["info", "@", "g/h/c"]).text();
    assert!(array.contains("@units K\\u{1b}[31m"), "{array}");
    assert!(!array.contains('\u{1b}'));
    let coloured = s.zaro(&["info", "@", "--color", "always"]).text();
    assert!(coloured.contains("\u{1b}["));
}

#[test]
fn info_knows_images() {
    let s = Store::new();
    s.put(
        "zarr.json",
        r#"{"zarr_format":3,"node_type":"group","attributes":{"ome":{"version":"0.5","multiscales":[{"name":"cells",
        "axes":[{"name":"y"},{"name":"x"}],"datasets":[{"path":"0","coordinateTransformations":[{"type":"scale","scale":[2,0.5]}]}]}]}}}"#,
    );
    s.array("0", &[2, 3], "uint8", "0", "", &[0; 6]);
    let info = s.zaro(&["info", "@"]).text();
    assert!(
        info.contains("OME-Zarr image 0.5 \"cells\": y, x, 1 level\n  0  2 × 3  scale 2 × 0.5"),
        "{info}"
    );
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(common::zaro(&["completions", shell]).text().contains("validate"));
    }
    assert!(common::zaro(&["man"]).text().contains(".TH zaro"));
    let s = Store::new();
    assert_eq!(s.zaro(&["man", "@"]).text(), "");
    for page in ["zaro.1", "zaro-read.1", "zaro-validate.1"] {
        assert!(s.file(page).exists(), "{page}");
    }
}
