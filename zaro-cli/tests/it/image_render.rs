//! `zaro image render`: the pictures themselves.

use crate::common;
use crate::common::{Store, f32s};
use zaro::meta::Json;

type Pixels = Vec<[u8; 4]>;

/// Width, height and RGBA pixels.
fn decode(bytes: &[u8]) -> (u32, u32, Pixels) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    assert_eq!(reader.info().color_type, png::ColorType::Rgba);
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    (frame.width, frame.height, pixels.chunks_exact(4).map(|p| [p[0], p[1], p[2], p[3]]).collect())
}

fn sample(name: &str) -> String {
    format!("{}/../zaro/testdata/images/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn draw_at(uri: &str, args: &[&str]) -> (u32, u32, Pixels) {
    let run = common::zaro(&[&["image", "render", uri, "-o", "-"], args].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    decode(&run.out)
}

fn draw(s: &Store, args: &[&str]) -> (u32, u32, Pixels) {
    draw_at(s.path().to_str().unwrap(), args)
}

/// The red of each pixel, which is all of it in grey.
fn grey(drawn: &(u32, u32, Pixels)) -> Vec<u8> {
    assert!(drawn.2.iter().all(|p| p[0] == p[1] && p[1] == p[2] && p[3] == 255));
    drawn.2.iter().map(|p| p[0]).collect()
}

fn fails(s: &Store, args: &[&str], wanted: &str) {
    let uri = s.path().to_str().unwrap();
    let run = common::zaro(&[&["image", "render", uri, "-o", "-"], args].concat());
    assert_eq!(run.code, 2, "{args:?}: {}", run.err);
    assert!(run.err.contains(wanted), "{args:?}: {}", run.err);
    assert!(run.out.is_empty());
}

/// One level of an image: its shape and its pixels.
type LevelOf<'a> = (&'a [u64], &'a [u8]);

/// Writes an image of 0.5 to `node`. `axes` is a letter each; `more` is more of `ome`, with a comma before it.
fn image(s: &Store, node: &str, axes: &str, data_type: &str, more: &str, levels: &[LevelOf<'_>]) {
    let at = |name: &str| if node.is_empty() { name.to_owned() } else { format!("{node}/{name}") };
    let axes: Vec<String> = axes
        .chars()
        .map(|a| {
            let kind = match a {
                't' => "time",
                'c' => "channel",
                _ => "space",
            };
            format!(r#"{{"name":"{a}","type":"{kind}"}}"#)
        })
        .collect();
    let mut datasets = Vec::new();
    for (i, (shape, pixels)) in levels.iter().enumerate() {
        let scale: Vec<String> =
            levels[0].0.iter().zip(*shape).map(|(a, b)| (*a as f64 / *b as f64).to_string()).collect();
        datasets.push(format!(
            r#"{{"path":"{i}","coordinateTransformations":[{{"type":"scale","scale":[{}]}}]}}"#,
            scale.join(",")
        ));
        s.array(&at(&i.to_string()), shape, data_type, "0", "", pixels);
    }
    let ome = format!(
        r#"{{"version":"0.5","multiscales":[{{"axes":[{}],"datasets":[{}]}}]{more}}}"#,
        axes.join(","),
        datasets.join(",")
    );
    group(s, node, &ome);
}

fn group(s: &Store, node: &str, ome: &str) {
    let key = if node.is_empty() { "zarr.json".to_owned() } else { format!("{node}/zarr.json") };
    s.put(&key, format!(r#"{{"zarr_format":3,"node_type":"group","attributes":{{"ome":{ome}}}}}"#));
}

/// `omero` with one channel in white from 0 to 255.
const PLAIN: &str =
    r#","omero":{"channels":[{"color":"FFFFFF","window":{"start":0,"end":255,"min":0,"max":255}}]}"#;

#[test]
fn samples_are_drawn_as_expected() {
    let expected = Json::parse(&std::fs::read(sample("expected.json")).unwrap()).unwrap().value;
    let mut checked = 0;
    for (name, facts) in expected.members().unwrap() {
        let Some(pixels) = facts.get("pixels_t0_z1").and_then(Json::members) else { continue };
        let plain = draw_at(&sample(name), &["--z", "1", "--t", "0"]);
        assert_eq!(plain, draw_at(&sample(name), &[]), "the defaults are z 1 and t 0");
        let labelled = draw_at(&sample(name), &["--labels", "all"]);
        for (place, wanted) in pixels {
            let (y, x) = place.split_once(',').unwrap();
            let at = y.parse::<usize>().unwrap() * plain.0 as usize + x.parse::<usize>().unwrap();
            let rgb = |key: &str| -> Vec<u8> {
                let numbers = wanted.get(key).unwrap().items().unwrap();
                numbers.iter().map(|n| u8::try_from(n.as_i128().unwrap()).unwrap()).collect()
            };
            assert_eq!(plain.2[at][..3], rgb("omero"), "{name} {place}");
            assert_eq!(labelled.2[at][..3], rgb("omero+label(alpha)"), "{name} {place} with labels");
            checked += 1;
        }
    }
    assert!(checked >= 15);
}

#[test]
fn pyramids_and_masks_have_names() {
    let seed = sample("01-seed001-masks-0.1.zarr");
    let default = draw_at(&seed, &[]);
    assert_eq!(draw_at(&seed, &["--multiscale", "3D"]), default);
    assert_ne!(draw_at(&seed, &["--multiscale", "projection", "--z", "0"]), default);
    assert_eq!(draw_at(&seed, &["--labels", "original/0"]), draw_at(&seed, &["--labels", "all"]));
    let faint = draw_at(&seed, &["--labels", "all", "--opacity", "0"]);
    assert_eq!(faint, default);
    // Half the level: nothing but the label's own array has its values.
    let small = draw_at(&seed, &["--labels", "all", "--level", "1"]);
    assert_eq!((small.0, small.1), (24, 16));
    assert_eq!(small.2[12 * 24 + 5], [255; 4]);
}

#[test]
fn files_are_what_their_names_say() {
    let s = Store::new();
    image(&s, "", "yx", "uint8", PLAIN, &[(&[1, 2], &[0, 255])]);
    for (name, magic) in [("a.png", &b"\x89PNG"[..]), ("a.tif", b"II*\0"), ("a.TIFF", b"II*\0")] {
        let path = s.file(name);
        let run = s.zaro(&["image", "render", "@", "-o", path.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.out.is_empty());
        assert!(std::fs::read(path).unwrap().starts_with(magic), "{name}");
    }
    let run = s.zaro(&["image", "render", "@", "-o", "a.jpg"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains(".png, .tif or .tiff"), "{}", run.err);
}

#[test]
fn sizes_are_means_of_raw_pixels_and_enlarged_by_the_nearest() {
    let s = Store::new();
    image(&s, "", "yx", "uint8", PLAIN, &[(&[2, 4], &[0, 10, 100, 101, 20, 30, 100, 103])]);
    assert_eq!(grey(&draw(&s, &["--size", "2"])), [15, 101]);
    assert_eq!(grey(&draw(&s, &["--size", "1x1"])), [58]);
    assert_eq!(
        grey(&draw(&s, &["--size", "8x2"])),
        [0, 0, 10, 10, 100, 100, 101, 101, 20, 20, 30, 30, 100, 100, 103, 103]
    );
    assert_eq!(grey(&draw(&s, &["--crop", "1,0,2,9"])), [10, 100, 30, 100]);
    fails(&s, &["--region", "1,1,2,1"], "--crop of an image");
    // 4 to 3: a pixel and a third each.
    assert_eq!(grey(&draw(&s, &["--size", "3x1", "--crop", "0,0,4,1"])), [3, 55, 101]);
    fails(&s, &["--crop", "4,0,1,1"], "outside the image");
    fails(&s, &["--size", "0"], "not a size");
    fails(&s, &["--crop", "1,2"], "X,Y,WIDTH,HEIGHT");
    fails(&s, &["--size", "1000000x1000000"], "is not possible");
    fails(&s, &["--level", "1"], "no level 1");
}

#[test]
fn the_smallest_level_that_fills_the_picture_is_read() {
    let s = Store::new();
    // Each level says which it is.
    let levels: [LevelOf<'_>; 3] = [(&[8, 8], &[10; 64]), (&[4, 4], &[20; 16]), (&[2, 2], &[30; 4])];
    image(&s, "", "yx", "uint8", PLAIN, &levels);
    for (args, wanted, side) in [
        (&[][..], 10, 8),
        (&["--size", "8"], 10, 8),
        (&["--size", "7"], 10, 7),
        (&["--size", "4"], 20, 4),
        (&["--size", "3"], 20, 3),
        (&["--size", "2"], 30, 2),
        (&["--size", "1"], 30, 1),
        (&["--level", "2"], 30, 2),
        (&["--level", "2", "--size", "8"], 30, 8),
        (&["--size", "2", "--crop", "0,0,4,4"], 20, 2),
        (&["--level", "1", "--crop", "3,3,2,2"], 20, 2),
    ] {
        let drawn = draw(&s, args);
        assert_eq!((drawn.0, drawn.1), (side, side), "{args:?}");
        assert!(grey(&drawn).iter().all(|x| *x == wanted), "{args:?}");
    }
    // A level that is not there is done without.
    std::fs::remove_dir_all(s.file("2")).unwrap();
    assert_eq!(grey(&draw(&s, &["--size", "1"])), [20]);
}

#[test]
fn little_memory_changes_nothing() {
    let s = Store::new();
    let pixels: Vec<u8> = (0..3 * 40 * 30).map(|i| (i * 7 % 251) as u8).collect();
    image(&s, "", "zyx", "uint8", PLAIN, &[(&[3, 40, 30], &pixels)]);
    for args in
        [&["--z", "2"][..], &["--size", "17"], &["--project", "mean"], &["--project", "max", "--size", "50"]]
    {
        let whole = draw(&s, args);
        for memory in ["1", "100", "500"] {
            let pieces = draw(&s, &[args, &["--memory", memory]].concat());
            assert_eq!(whole, pieces, "{args:?} {memory}");
        }
    }
}

#[test]
fn planes_and_times_are_chosen_and_projected() {
    let s = Store::new();
    // t, z, y, x: two points in time of three planes of two pixels.
    let pixels = [10, 60, 40, 50, 70, 41, 110, 160, 140, 150, 170, 141];
    image(&s, "", "tzyx", "uint8", PLAIN, &[(&[2, 3, 1, 2], &pixels)]);
    assert_eq!(grey(&draw(&s, &[])), [40, 50], "the middle plane of the first point");
    assert_eq!(grey(&draw(&s, &["--z", "2", "--t", "1"])), [170, 141]);
    assert_eq!(grey(&draw(&s, &["--project", "max"])), [70, 60]);
    assert_eq!(grey(&draw(&s, &["--project", "mean"])), [40, 50]);
    assert_eq!(grey(&draw(&s, &["--project", "max", "--z", "0:2", "--t", "1"])), [140, 160]);
    let sheet = draw(&s, &["--contact-sheet"]);
    assert_eq!((sheet.0, sheet.1), (4, 2));
    assert_eq!(grey(&sheet), [10, 60, 40, 50, 70, 41, 0, 0]);
    let sheet = draw(&s, &["--contact-sheet", "--z", "0:3:2", "--gap", "1"]);
    assert_eq!((sheet.0, grey(&sheet)), (5, vec![10, 60, 0, 70, 41]));
    fails(&s, &["--z", "3"], "no plane 3");
    fails(&s, &["--t", "2"], "no time point 2");
    fails(&s, &["--z", "0:2"], "--project");
    fails(&s, &["--z", "0:9", "--project", "max"], "no planes 0:9");
    fails(&s, &["--z", "x"], "START:STOP");

    let projected = PLAIN.replace(r#"]}"#, r#"],"rdefs":{"projection":"intmax","defaultZ":2,"defaultT":1}}"#);
    image(&s, "", "tzyx", "uint8", &projected, &[(&[2, 3, 1, 2], &pixels)]);
    assert_eq!(grey(&draw(&s, &[])), [170, 160]);
    assert_eq!(grey(&draw(&s, &["--z", "0"])), [110, 160]);
}

#[test]
fn channels_are_added_up_and_can_be_told_how() {
    let s = Store::new();
    let omero = |rest: &str| {
        let channel = |label: &str, color: &str, active: bool| {
            format!(
                r#"{{"label":"{label}","color":"{color}","active":{active},"window":{{"start":0,"end":100,"min":0,"max":255}}}}"#
            )
        };
        format!(
            r#","omero":{{"channels":[{},{},{},{}]{rest}}}"#,
            channel("B", "0000FF", true),
            channel("Y", "FFFF00", true),
            channel("G", "00FF00", true),
            channel("R", "FF0000", false)
        )
    };
    // Three pixels of four channels.
    let pixels = [50, 100, 10, 50, 60, 20, 0, 60, 30, 100, 100, 0];
    image(&s, "", "cyx", "uint8", &omero(""), &[(&[4, 1, 3], &pixels)]);
    let rgb = |drawn: (u32, u32, Pixels)| drawn.2.iter().map(|p| [p[0], p[1], p[2]]).collect::<Vec<_>>();
    assert_eq!(rgb(draw(&s, &[])), [[128, 128, 128], [153, 255, 255], [51, 128, 26]]);
    assert_eq!(grey(&draw(&s, &["--model", "greyscale"])), [128, 255, 26]);
    assert_eq!(rgb(draw(&s, &["--channels", "R,2"])), [[255, 0, 0], [255, 153, 0], [0, 77, 0]]);
    let told = [
        "--channel",
        "R:color=0000FF,window=0:200",
        "--channel",
        "b:inverted=true,family=polynomial,coefficient=2",
    ];
    assert_eq!(rgb(draw(&s, &told)), [[0, 0, 255], [0, 0, 128], [0, 0, 252]]);
    assert_eq!(grey(&draw(&s, &["--channel", "3", "--model", "greyscale"])), [255, 255, 0]);
    fails(&s, &["--channel", "7"], "0 (B), 1 (Y), 2 (G), 3 (R)");
    fails(&s, &["--channel", "0:color=red"], "not a colour");
    image(&s, "", "cyx", "uint8", &omero(r#","rdefs":{"model":"greyscale"}"#), &[(&[4, 1, 3], &pixels)]);
    assert_eq!(grey(&draw(&s, &[])), [128, 255, 26]);
    assert_eq!(rgb(draw(&s, &["--model", "color"]))[0], [128, 128, 128]);
    // Colours may lie side by side in the array.
    let turned: Vec<u8> = (0..3).flat_map(|x| (0..4).map(move |c| pixels[c * 3 + x])).collect();
    image(&s, "", "yxc", "uint8", &omero(""), &[(&[1, 3, 4], &turned)]);
    assert_eq!(rgb(draw(&s, &[])), [[128, 128, 128], [153, 255, 255], [51, 128, 26]]);
    assert_eq!(rgb(draw(&s, &["--channels", "0,3"]))[0], [255, 0, 128]);
}

#[test]
fn windows_that_make_no_sense_are_the_whole_range() {
    let s = Store::new();
    for window in [r#"{"start":200,"end":100}"#, r#"{"start":0,"end":65535}"#, r#"{"start":-1,"end":9}"#] {
        let omero = format!(r#","omero":{{"channels":[{{"color":"FFFFFF","window":{window}}}]}}"#);
        image(&s, "", "yx", "uint8", &omero, &[(&[1, 3], &[7, 100, 255])]);
        assert_eq!(grey(&draw(&s, &[])), [7, 100, 255], "{window}");
    }
}

#[test]
fn without_omero_there_are_guesses() {
    let s = Store::new();
    let words: Vec<u8> = [1000u16, 2000, 3000].iter().flat_map(|x| x.to_le_bytes()).collect();
    image(&s, "", "yx", "uint16", "", &[(&[1, 3], &words)]);
    assert_eq!(grey(&draw(&s, &[])), [0, 128, 255]);
    image(&s, "", "yx", "uint8", "", &[(&[1, 3], &[10, 20, 200])]);
    assert_eq!(grey(&draw(&s, &[])), [10, 20, 200], "bytes stay as they are");
    image(&s, "", "yx", "uint8", "", &[(&[1, 3], &[0, 1, 2])]);
    assert_eq!(grey(&draw(&s, &[])), [0, 128, 255], "unless nothing could be seen");
    image(&s, "", "cyx", "uint8", "", &[(&[3, 1, 1], &[10, 20, 200])]);
    assert_eq!(draw(&s, &[]).2, [[10, 20, 200, 255]], "three channels of bytes are red, green and blue");
    // A part of it said: the name and the end.
    let partial = r#","omero":{"channels":[{"label":"x","window":{"end":3000}}]}"#;
    image(&s, "", "yx", "uint16", partial, &[(&[1, 3], &words)]);
    assert_eq!(grey(&draw(&s, &[])), [0, 128, 255]);
}

#[test]
fn all_numbers_can_be_drawn() {
    let s = Store::new();
    let window = |start: &str, end: &str| {
        format!(r#","omero":{{"channels":[{{"color":"FFFFFF","window":{{"start":{start},"end":{end}}}}}]}}"#)
    };
    image(
        &s,
        "",
        "yx",
        "float32",
        &window("0", "1"),
        &[(&[1, 4], &f32s(&[f32::NAN, -1.0, 0.5, f32::INFINITY]))],
    );
    assert_eq!(grey(&draw(&s, &[])), [0, 0, 128, 255]);
    assert_eq!(grey(&draw(&s, &["--size", "2x1"])), [0, 255], "what is no number does not count");
    let longs: Vec<u8> = [i64::MIN, 0, i64::MAX].iter().flat_map(|x| x.to_le_bytes()).collect();
    image(
        &s,
        "",
        "yx",
        "int64",
        &window("-9223372036854775808", "9223372036854775807"),
        &[(&[1, 3], &longs)],
    );
    assert_eq!(grey(&draw(&s, &[])), [0, 128, 255]);
    let longs: Vec<u8> = [0, u64::MAX / 2, u64::MAX].iter().flat_map(|x| x.to_le_bytes()).collect();
    image(&s, "", "yx", "uint64", &window("0", "18446744073709551615"), &[(&[1, 3], &longs)]);
    assert_eq!(grey(&draw(&s, &[])), [0, 128, 255]);
    let shorts: Vec<u8> = [-100i16, 0, 100].iter().flat_map(|x| x.to_le_bytes()).collect();
    image(&s, "", "yx", "int16", &window("-100", "100"), &[(&[1, 3], &shorts)]);
    assert_eq!(grey(&draw(&s, &[])), [0, 128, 255]);
    s.array("0", &[1, 2], "bool", "false", "", &[0, 1]);
    assert_eq!(grey(&draw(&s, &["--channel", "0:window=0:1"])), [0, 255]);
    s.array("0", &[1, 1], "complex64", "[0.0, 0.0]", "", &[0; 8]);
    let run = s.zaro(&["image", "render", "@", "-o", "-"]);
    assert_ne!(run.code, 0);
    assert!(run.err.contains("complex64 cannot be rendered"), "{}", run.err);
}

#[test]
fn labels_lie_over_the_image() {
    let s = Store::new();
    image(&s, "", "zyx", "uint8", PLAIN, &[(&[2, 2, 4], &[100; 16])]);
    let labels = |more: &str, axes: &str, data_type: &str, levels: &[LevelOf<'_>]| {
        image(&s, "labels/cells", axes, data_type, more, levels);
        group(&s, "labels", r#"{"version":"0.5","labels":["cells"]}"#);
    };
    let named = r#","image-label":{"colors":[{"label-value":1,"rgba":[9,9,9,9]},{"label-value":1,"rgba":[0,128,0,128]}]}"#;
    let reds = |drawn: &(u32, u32, Pixels)| drawn.2.iter().map(|p| p[0]).collect::<Vec<_>>();
    // One plane over both; 0 is nothing; the last colour of a value counts.
    labels(
        named,
        "zyx",
        "int32",
        &[(&[1, 2, 4], &[1u32, 0, 0, 0, 0, 0, 0, 7].map(u32::to_le_bytes).concat())],
    );
    let drawn = draw(&s, &["--labels", "cells"]);
    assert_eq!(drawn.2[0], [50, 114, 50, 255]);
    assert!(drawn.2[1..7].iter().all(|p| *p == [100, 100, 100, 255]));
    assert_ne!(drawn.2[7], [100, 100, 100, 255], "a value without a colour has one nevertheless");
    assert_eq!(drawn, draw(&s, &["--labels", "cells", "--z", "0"]));
    fails(&s, &["--labels", "nuclei"], "the image has cells");
    fails(&s, &["--labels", "all", "--opacity", "2"], "from 0 to 1");
    // Nothing may have a colour, too.
    let zero = r#","image-label":{"colors":[{"label-value":0,"rgba":[0,0,0,255]}]}"#;
    labels(zero, "yx", "uint64", &[(&[2, 4], &[0u64, 1, 0, 0, 0, 0, 0, 0].map(u64::to_le_bytes).concat())]);
    assert_eq!(reds(&draw(&s, &["--labels", "all"]))[2..], [0; 6]);
    // Half as large: each value over four pixels.
    let opaque = r#","image-label":{"colors":[{"label-value":1,"rgba":[1,1,1,255]},{"label-value":2,"rgba":[2,2,2,255]}]}"#;
    labels(opaque, "yx", "uint8", &[(&[1, 2], &[1, 2])]);
    let by_scale = std::fs::read_to_string(s.file("labels/cells/zarr.json")).unwrap();
    s.put("labels/cells/zarr.json", by_scale.replace("[1,1]", "[2,2]"));
    assert_eq!(reds(&draw(&s, &["--labels", "all"])), [1, 1, 2, 2, 1, 1, 2, 2]);
    // Labels by themselves.
    let alone = draw_at(s.file("labels/cells").to_str().unwrap(), &[]);
    assert_eq!(reds(&alone), [1, 2]);
}

#[test]
fn labels_with_channels_are_drawn_once() {
    let s = Store::new();
    let two = r#","omero":{"channels":[{"color":"000000","window":{"start":0,"end":255,"min":0,"max":255}},
        {"color":"000000","window":{"start":0,"end":255,"min":0,"max":255}}]}"#;
    image(&s, "", "cyx", "uint8", two, &[(&[2, 1, 2], &[0; 4])]);
    let named = r#","image-label":{"colors":[{"label-value":1,"rgba":[0,128,0,128]},{"label-value":2,"rgba":[255,0,0,255]}]}"#;
    image(&s, "labels/cells", "cyx", "uint8", named, &[(&[2, 1, 2], &[1, 0, 1, 2])]);
    group(&s, "labels", r#"{"version":"0.5","labels":["cells"]}"#);
    let drawn = draw(&s, &["--labels", "cells"]);
    assert_eq!(drawn.2, [[0, 64, 0, 255], [255, 0, 0, 255]]);
}

#[test]
fn plates_and_wells_are_tables_of_fields() {
    let plate = sample("09-hcs-plate-0.4.zarr");
    let window = ["--channel", "0:window=0:2550"];
    let drawn = draw_at(&plate, &window);
    // Two rows and three columns of 8 x 8, the smallest level; A1, A3 and B2 are there.
    assert_eq!((drawn.0, drawn.1), (24, 16));
    let pixels = grey(&drawn);
    let at = |x: usize, y: usize| pixels[y * 24 + x];
    assert_eq!(at(0, 0), 10);
    assert_eq!(at(16, 0), 110);
    assert_eq!(at(8, 8), 210);
    assert!([(8, 0), (0, 8), (16, 8), (15, 7), (23, 15)].iter().all(|(x, y)| at(*x, *y) == 0));
    let second = grey(&draw_at(&plate, &[&window[..], &["--acquisition", "2"]].concat()));
    assert_eq!(second[0], 20);
    assert_eq!(second, grey(&draw_at(&plate, &[&window[..], &["--field", "1"]].concat())));
    let large = draw_at(&plate, &[&window[..], &["--level", "0", "--gap", "2"]].concat());
    assert_eq!((large.0, large.1), (52, 34));
    assert_eq!(draw_at(&plate, &["--size", "12"]).0, 12);
    // Without a word, no well is all white.
    let guessed = grey(&draw_at(&plate, &[]));
    assert_eq!((guessed[0], guessed[15 * 24 + 15]), (0, 255));
    assert!((1..255).contains(&guessed[16]));

    let well = draw_at(&format!("{plate}/A/1"), &window);
    assert_eq!((well.0, well.1), (32, 16));
    assert_eq!((grey(&well)[0], grey(&well)[16]), (10, 20));
    for (args, wanted) in [
        (&["--acquisition", "3"][..], "no acquisition 3; the plate has 1, 2"),
        (&["--crop", "0,0,1,1"], "a part of a plate"),
        (&["--contact-sheet"], "a sheet shows one image"),
    ] {
        let run = common::zaro(&[&["image", "render", &plate, "-o", "-"], args].concat());
        assert_eq!(run.code, 2);
        assert!(run.err.contains(wanted), "{}", run.err);
    }
    let one = common::zaro(&["image", "render", &plate, "-o", "-", "--image", "A/1/1"]);
    assert_eq!(one.code, 0, "{}", one.err);
    assert_eq!(decode(&one.out).0, 16);
}

#[test]
fn of_several_images_one_has_to_be_named() {
    let s = Store::new();
    for (name, value) in [("first", 10), ("second", 20)] {
        image(&s, name, "yx", "uint8", PLAIN, &[(&[1, 1], &[value])]);
    }
    group(&s, "", r#"{"version":"0.5","bioformats2raw.layout":3}"#);
    group(&s, "OME", r#"{"version":"0.5","series":["first","second"]}"#);
    fails(&s, &[], "several images: 0 (first), 1 (second); --image selects one");
    assert_eq!(grey(&draw(&s, &["--image", "1"])), [20]);
    assert_eq!(grey(&draw(&s, &["--image", "first"])), [10]);
    fails(&s, &["--image", "2"], "0 (first), 1 (second)");
    fails(&s, &["--image", "1", "--field", "0"], "only plates and wells");
}

#[test]
fn what_cannot_be_drawn_says_so() {
    let s = Store::new();
    s.group("");
    let run = s.zaro(&["image", "render", "@", "-o", "-"]);
    assert_ne!(run.code, 0);
    assert!(run.err.contains("not an OME-Zarr"), "{}", run.err);
    image(&s, "", "yx", "uint8", r#","omero":{"channels":[{"active":false}]}"#, &[(&[1, 1], &[9])]);
    let run = s.zaro(&["image", "render", "@", "-o", "-"]);
    assert_eq!(run.code, 0);
    assert!(run.err.contains("no channel is active"), "{}", run.err);
    assert_eq!(decode(&run.out).2, [[0, 0, 0, 255]]);
}

/// The most memory that a run took, in MiB.
fn most_memory(args: &[&str]) -> u64 {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_zaro")).args(args).spawn().unwrap();
    let mut most = 0;
    loop {
        // Of a process that has ended nothing is said any more.
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        if let Some(kib) = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()) {
            most = most.max(kib / 1024);
        }
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success());
            return most;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn large_pictures_are_drawn_within_the_memory() {
    let s = Store::new();
    group(
        &s,
        "",
        r#"{"version":"0.5","multiscales":[{"axes":[{"name":"y","type":"space"},{"name":"x","type":"space"}],
        "datasets":[{"path":"0","coordinateTransformations":[{"type":"scale","scale":[1,1]}]}]}]
        ,"omero":{"channels":[{"color":"FFFFFF","window":{"start":0,"end":255,"min":0,"max":255}}]}}"#,
    );
    // 256 MiB of picture; nothing is stored but the fill value.
    s.put("0/zarr.json", common::v3_document(&[8192, 8192], &[1024, 1024], "uint8", "7", ""));
    let uri = s.path().to_str().unwrap();
    for name in ["a.png", "a.tif"] {
        let out = s.file(name);
        let took = most_memory(&["image", "render", uri, "-o", out.to_str().unwrap(), "--memory", "16M"]);
        assert!(took < 160, "{name}: {took} MiB");
    }
    let bytes = std::fs::read(s.file("a.png")).unwrap();
    let drawn = decode(&bytes);
    assert_eq!((drawn.0, drawn.1), (8192, 8192));
    assert!(drawn.2.iter().all(|p| *p == [7, 7, 7, 255]));
}

#[test]
fn bands_change_nothing() {
    let s = Store::new();
    let pixels: Vec<u8> = (0..300u32 * 200).map(|i| (i * i / 31) as u8).collect();
    let small: Vec<u8> = (0..150u32 * 100).map(|i| (i / 7) as u8).collect();
    image(&s, "", "yx", "uint8", PLAIN, &[(&[300, 200], &pixels)]);
    let label = r#","image-label":{"colors":[{"label-value":3,"rgba":[255,0,0,128]}]}"#;
    image(&s, "labels/cells", "yx", "uint8", label, &[(&[150, 100], &small)]);
    group(&s, "labels", r#"{"version":"0.5","labels":["cells"]}"#);
    for args in [
        &["--labels", "all"][..],
        &["--labels", "all", "--size", "77"],
        &["--labels", "all", "--size", "333"],
        &["--crop", "13,17,120,211", "--size", "100"],
    ] {
        let whole = draw(&s, args);
        let little = draw(&s, &[args, &["--memory", "1K"]].concat());
        assert!(whole == little, "{args:?}");
    }
}

#[test]
fn a_level_that_no_field_has_is_an_error() {
    let plate = sample("09-hcs-plate-0.4.zarr");
    for path in ["", "A/1"] {
        let run = common::zaro(&["image", "render", &plate, path, "-o", "-", "--level", "9"]);
        assert_eq!(run.code, 2, "{}", run.err);
        assert!(run.err.contains("no level 9"), "{}", run.err);
        assert!(run.out.is_empty());
    }
}
