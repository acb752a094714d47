//! Tests with files written by other programs (conformance/make_tiffs.py), and with damaged ones.

use std::path::{Path, PathBuf};

use super::*;
use crate::image::document::hex;
use crate::meta::Json;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/images/tiff")
}

fn one(path: &Path, options: &ImageSourceOptions) -> ImageSource {
    let mut found = open(&[path.to_owned()], options).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(found.len(), 1, "{}", path.display());
    found.remove(0)
}

fn whole(source: &ImageSource) -> Vec<u8> {
    let bytes = num::product_usize(&source.sizes).unwrap() * source.data_type.size();
    let mut out = vec![0; bytes];
    source.read_block([0; 5], source.sizes, &mut out).unwrap();
    out
}

#[test]
fn files_of_other_programs_hold_what_these_say() {
    let expected = std::fs::read(folder().join("expected.json")).unwrap();
    let expected = Json::parse(&expected).unwrap().value;
    let members = expected.members().unwrap();
    assert!(members.len() > 50);
    for (name, want) in members {
        let source = one(&folder().join(name), &ImageSourceOptions::default());
        let used = source.used(false);
        let axes: String = source.axes(&used).iter().map(|a| a.name.as_str()).collect();
        assert_eq!(Some(axes.as_str()), want.get("axes").unwrap().as_str(), "{name}");
        let shape: Vec<u64> = used.iter().map(|i| source.sizes[*i]).collect();
        let wanted: Vec<u64> =
            want.get("shape").unwrap().items().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        assert_eq!(shape, wanted, "{name}");
        assert_eq!(
            Some(source.data_type.to_string().as_str()),
            want.get("data_type").unwrap().as_str(),
            "{name}"
        );
        let crc = crc32fast::hash(&whole(&source));
        assert_eq!(Some(u64::from(crc)), want.get("crc32").unwrap().as_u64(), "{name}");
        if let Some(scale) = want.get("scale").and_then(Json::items) {
            let wanted: Vec<f64> = scale.iter().map(|n| n.as_f64().unwrap()).collect();
            let found: Vec<f64> = used.iter().map(|i| source.scale[*i].unwrap_or(1.0)).collect();
            assert_eq!(found, wanted, "{name}");
        }
        if let Some(units) = want.get("units").and_then(Json::items) {
            let wanted: Vec<Option<&str>> = units.iter().map(Json::as_str).collect();
            let found: Vec<Option<&str>> = used.iter().map(|i| source.units[*i].as_deref()).collect();
            assert_eq!(found, wanted, "{name}");
        }
        let texts = |key: &str| {
            let list = want.get(key)?.items()?;
            Some(list.iter().map(|t| t.as_str().map(str::to_owned)).collect::<Vec<_>>())
        };
        if let Some(labels) = texts("labels") {
            let found: Vec<Option<String>> = source.channels.iter().map(|c| c.label.clone()).collect();
            assert_eq!(found, labels, "{name}");
        }
        if let Some(colors) = texts("colors") {
            let found: Vec<Option<String>> = source.channels.iter().map(|c| c.color.map(hex)).collect();
            assert_eq!(found, colors, "{name}");
        }
        if let Some(windows) = want.get("windows").and_then(Json::items) {
            let wanted: Vec<Vec<Option<f64>>> =
                windows.iter().map(|w| w.items().unwrap().iter().map(Json::as_f64).collect()).collect();
            let found: Vec<Vec<Option<f64>>> =
                source.channels.iter().map(|c| vec![c.window.start, c.window.end]).collect();
            assert_eq!(found, wanted, "{name}");
        }
    }
}

#[test]
fn any_window_is_a_part_of_the_whole() {
    for name in [
        "lzw-predictor-tiles.tif",
        "rgb-contig.tif",
        "rgb-separate.tif",
        "palette.tif",
        "TCZYX.ome.tif",
        "c.npy",
        "fortran.npy",
        "rgba.png",
        "twelve-bits.tif",
        "zlib.tif",
    ] {
        let source = one(&folder().join(name), &ImageSourceOptions::default());
        let all = whole(&source);
        let size = source.data_type.size();
        let [ts, cs, zs, ys, xs] = source.sizes;
        for (y, x) in [(0..ys, 0..xs), (1..ys - 1, 2..xs - 3), (ys - 1..ys, xs - 1..xs), (3..5, 0..xs)] {
            let window = PlaneWindow { t: ts - 1, c: cs / 2..cs, z: zs - 1, y: y.clone(), x: x.clone() };
            let mut part = vec![0; window.bytes(size).unwrap()];
            source.read(&window, &mut part).unwrap();
            let mut wanted: Vec<u8> = Vec::new();
            for c in window.c.clone() {
                for row in y.clone() {
                    let at = ((((ts - 1) * cs + c) * zs + zs - 1) * ys + row) * xs + x.start;
                    let at = usize::try_from(at).unwrap() * size;
                    wanted.extend(&all[at..at + usize::try_from(x.end - x.start).unwrap() * size]);
                }
            }
            assert_eq!(part, wanted, "{name} {window:?}");
        }
        let outside = PlaneWindow { t: ts, c: 0..cs, z: 0, y: 0..ys, x: 0..xs };
        assert!(source.read(&outside, &mut vec![0; outside.bytes(size).unwrap()]).is_err());
    }
}

#[test]
fn axes_can_be_called_otherwise() {
    let path = folder().join("pages.tif");
    let named = |axes: &str| ImageSourceOptions { axes: Some(axes.into()), ..ImageSourceOptions::default() };
    let z = one(&path, &ImageSourceOptions::default());
    let t = one(&path, &named("tyx"));
    assert_eq!((z.sizes, t.sizes), ([1, 1, 5, 9, 11], [5, 1, 1, 9, 11]));
    assert_eq!(whole(&z), whole(&t));
    for bad in ["yx", "tzyx", "yxz", "qyx", "zzyx"] {
        assert!(open(std::slice::from_ref(&path), &named(bad)).is_err(), "{bad}");
    }
    // Colours stay channels, whatever pages are called.
    for name in ["rgb-contig.tif", "rgb-separate.tif"] {
        let rgb = one(&folder().join(name), &ImageSourceOptions::default());
        let yx = one(&folder().join(name), &named("cyx"));
        assert_eq!((rgb.sizes, whole(&rgb)), (yx.sizes, whole(&yx)), "{name}");
        assert_eq!(one(&folder().join(name), &named("yx")).sizes, rgb.sizes, "{name}");
        assert!(open(&[folder().join(name)], &named("zyx")).is_err(), "{name}");
    }
    let npy = one(&folder().join("c.npy"), &named("zcyx"));
    assert_eq!(npy.sizes, [1, 3, 2, 9, 11]);
}

#[test]
fn palettes_of_labels_stay_numbers() {
    let options = ImageSourceOptions { indexes: true, ..ImageSourceOptions::default() };
    let source = one(&folder().join("palette.tif"), &options);
    assert_eq!(source.sizes, [1, 1, 1, 12, 17]);
    let lut = one(&folder().join("lut.tif"), &options);
    assert_eq!(whole(&source), whole(&lut));
}

#[test]
fn a_file_of_two_images_is_two() {
    let found = open(&[folder().join("two.ome.tif")], &ImageSourceOptions::default()).unwrap();
    let names: Vec<&str> = found.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    let found: Vec<Arc<ImageSource>> = found.into_iter().map(Arc::new).collect();
    let xml = metadata_only(&found).unwrap();
    assert_eq!(xml.matches("<MetadataOnly/>").count(), 2);
    assert!(!xml.contains("TiffData"));
}

#[test]
fn parts_of_a_set_that_are_missing_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["set0.ome.tif", "set1.ome.tif"] {
        std::fs::copy(folder().join(name), dir.path().join(name)).unwrap();
    }
    let path = dir.path().join("set0.ome.tif");
    let e = open(std::slice::from_ref(&path), &ImageSourceOptions::default()).unwrap_err();
    assert!(e.message().contains("t 2 c 0 z 0") && e.message().contains("set2.ome.tif"), "{e}");
    let options = ImageSourceOptions { allow_missing: true, ..ImageSourceOptions::default() };
    let all = whole(&one(&path, &options));
    assert!(all[..4 * 9 * 11 * 2].iter().any(|b| *b != 0));
    assert!(all[4 * 9 * 11 * 2..].iter().all(|b| *b == 0));
}

#[test]
fn all_files_of_a_set_are_the_set() {
    let files: Vec<PathBuf> = (0..3).map(|i| folder().join(format!("set{i}.ome.tif"))).collect();
    let all = open(&files, &ImageSourceOptions::default()).unwrap();
    let alone = one(&files[0], &ImageSourceOptions::default());
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].sizes, whole(&all[0])), (alone.sizes, whole(&alone)));
}

#[test]
fn wavelengths_are_names_of_channels() {
    let dir = tempfile::tempdir().unwrap();
    for w in [405, 488, 561] {
        std::fs::copy(folder().join("uint8-little.tif"), dir.path().join(format!("w_{w}.tif"))).unwrap();
    }
    let (files, pattern) = expand(&[dir.path().join("w_{c}.tif").to_str().unwrap().to_owned()]).unwrap();
    let source =
        open(&files, &ImageSourceOptions { pattern, ..ImageSourceOptions::default() }).unwrap().remove(0);
    assert_eq!(source.sizes[1], 3);
    assert_eq!(source.channels[1].label.as_deref(), Some("488"));
}

#[test]
fn what_is_cut_off_or_changed_is_an_error_and_small_numbers_stay() {
    let dir = tempfile::tempdir().unwrap();
    let fails = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let read = |s: &ImageSource| {
            let mut out = vec![0; num::product_usize(&s.sizes)? * s.data_type.size()];
            s.read_block([0; 5], s.sizes, &mut out)
        };
        open(&[path], &ImageSourceOptions::default()).and_then(|s| read(&s[0])).is_err()
    };
    let jpeg = std::fs::read(folder().join("grey.jpg")).unwrap();
    assert!(!fails("whole.jpg", &jpeg));
    assert!(fails("cut.jpg", &jpeg[..jpeg.len() * 3 / 4]));
    let png = std::fs::read(folder().join("grey16.png")).unwrap();
    assert!(!fails("whole.png", &png));
    let data = png.windows(4).position(|w| w == b"IDAT").unwrap();
    let mut changed = png.clone();
    changed[data + 12] ^= 0x10;
    assert!(fails("changed.png", &changed));
    // Four bits a pixel: 0 to 15, not 0 to 255.
    let path = dir.path().join("four.png");
    let mut encoder = png::Encoder::new(std::fs::File::create(&path).unwrap(), 3, 1);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Four);
    encoder.write_header().unwrap().write_image_data(&[0x1F, 0x70]).unwrap();
    assert_eq!(whole(&one(&path, &ImageSourceOptions::default())), [1, 15, 7]);
}

#[test]
fn files_of_a_plane_each_are_one_image() {
    let dir = tempfile::tempdir().unwrap();
    let name = |t: usize, c: &str, z: usize| dir.path().join(format!("i_t{t}_{c}_z{z:03}.tif"));
    let plain = std::fs::read(folder().join("uint8-little.tif")).unwrap();
    for (t, c, z) in
        [(0, "A", 9), (0, "A", 10), (0, "B", 9), (0, "B", 10), (1, "A", 9), (1, "A", 10), (1, "B", 9)]
    {
        std::fs::write(name(t, c, z), &plain).unwrap();
    }
    let pattern = dir.path().join("i_t{t}_{c}_z{z:03}.tif").to_str().unwrap().to_owned();
    let (files, pattern) = expand(&[pattern]).unwrap();
    assert_eq!((files.len(), pattern.as_deref()), (7, Some("i_t{t}_{c}_z{z:03}.tif")));
    let mut options = ImageSourceOptions { pattern, ..ImageSourceOptions::default() };
    let e = open(&files, &options).unwrap_err();
    assert!(e.message().contains("t 1 c B z 10"), "{e}");
    options.allow_missing = true;
    let source = open(&files, &options).unwrap().remove(0);
    assert_eq!(source.sizes, [2, 2, 2, 9, 11]);
    let labels: Vec<Option<&str>> = source.channels.iter().map(|c| c.label.as_deref()).collect();
    assert_eq!(labels, [Some("A"), Some("B")]);
    let all = whole(&source);
    assert!(all[7 * 99..].iter().all(|b| *b == 0) && all[6 * 99..7 * 99] == all[..99]);
    // Without a pattern letters tell, and one number is z.
    let list = [name(0, "A", 9), name(0, "A", 10)];
    assert_eq!(open(&list, &ImageSourceOptions::default()).unwrap()[0].sizes, [1, 1, 2, 9, 11]);
    // Files that differ are no image.
    std::fs::copy(folder().join("grey16.png"), name(0, "A", 9)).unwrap();
    assert!(open(&list, &ImageSourceOptions::default()).is_err());
}

/// Every prefix, and every byte changed: an answer or an error, and soon.
#[test]
fn damaged_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let look = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        for source in open(std::slice::from_ref(&path), &ImageSourceOptions::default()).unwrap_or_default() {
            let mut at = source.sizes.map(|n| n - 1);
            at[C] = 0;
            let count = [1, source.sizes[C].min(4), 1, 1, 1];
            let mut out = vec![0; num::product_usize(&count).unwrap() * source.data_type.size()];
            let _ = source.read_block(at, count, &mut out);
        }
    };
    for name in [
        "uint16-big.tif",
        "bigtiff.tif",
        "lzw-predictor-tiles.tif",
        "imagej-one-directory.tif",
        "rgba.png",
        "c.npy",
        "palette.tif",
    ] {
        let good = std::fs::read(folder().join(name)).unwrap();
        for cut in (0..good.len()).step_by(41) {
            look(&good[..cut]);
        }
        for i in (0..good.len().min(400)).chain(good.len().saturating_sub(200)..good.len()) {
            let mut bad = good.clone();
            bad[i] = [0, 0xff, good[i] ^ 0x10][i % 3];
            look(&bad);
        }
    }
}

#[test]
fn two_arrays_of_one_plane_size_are_two_images() {
    let found = open(&[folder().join("two-series.tif")], &ImageSourceOptions::default()).unwrap();
    let sizes: Vec<[u64; 5]> = found.iter().map(|s| s.sizes).collect();
    assert_eq!(sizes, [[1, 1, 3, 9, 11], [2, 1, 1, 9, 11]]);
    let first = |i: usize| u16::from_le_bytes(*whole(&found[i]).first_chunk().unwrap());
    assert_eq!(first(1), first(0) + 7);
}

#[test]
fn files_of_an_image_are_known() {
    let names = |file: &str| {
        let source = one(&folder().join(file), &ImageSourceOptions::default());
        let mut names: Vec<String> =
            source.files.iter().map(|f| f.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("grey.png"), ["grey.png"]);
    assert_eq!(names("set1.ome.tif"), ["set0.ome.tif", "set1.ome.tif", "set2.ome.tif"]);
    assert_eq!(names("cells.companion.ome"), ["cells.companion.ome", "cells_0.ome.tif", "cells_1.ome.tif"]);
    let slide = one(&folder().join("slide.svs"), &ImageSourceOptions::default());
    assert!(slide.warnings[0].contains("3 further pages"), "{:?}", slide.warnings);
}
