//! `zaro image convert` as its users meet it.

use crate::common::Store;

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
