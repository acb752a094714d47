//! `zaro read --format png`: the pictures themselves.

use crate::common::{Store, f32s};

/// Width, height and RGBA pixels.
fn decode(bytes: &[u8]) -> (u32, u32, Vec<[u8; 4]>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    (frame.width, frame.height, pixels.chunks_exact(4).map(|p| [p[0], p[1], p[2], p[3]]).collect())
}

fn draw(s: &Store, args: &[&str]) -> (u32, u32, Vec<[u8; 4]>) {
    let run = s.zaro(&[&["read", "@", "--format", "png"], args].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    decode(&run.out)
}

#[test]
fn numbers_become_colours_and_nan_is_transparent() {
    let s = Store::new();
    s.array("", &[2, 3], "float32", "0", "", &f32s(&[0.0, 5.0, 10.0, f32::NAN, 2.0, 20.0]));
    let (w, h, pixels) = draw(&s, &["--range", "0,10"]);
    assert_eq!((w, h), (3, 2));
    assert_eq!(pixels[0], [68, 1, 84, 255]);
    assert_eq!(pixels[1], [33, 145, 140, 255]);
    assert_eq!(pixels[2], [253, 231, 37, 255]);
    assert_eq!(pixels[3], [0, 0, 0, 0]);
    assert_eq!(pixels[5], pixels[2]);
    let (_, _, gray) = draw(&s, &["--range", "0,10", "--colormap", "gray"]);
    assert_eq!(gray[1], [128, 128, 128, 255]);
}

#[test]
fn fill_values_are_transparent_but_zero_is_a_number() {
    let s = Store::new();
    s.array("", &[1, 2], "uint8", "255", "", &[0, 255]);
    assert_eq!(draw(&s, &[]).2[1], [0; 4]);
    s.array("", &[1, 2], "uint8", "0", "", &[0, 255]);
    assert!(draw(&s, &[]).2.iter().all(|p| p[3] == 255));
}

#[test]
fn colour_images_stay_as_they_are() {
    let s = Store::new();
    s.array("", &[1, 2, 3], "uint8", "0", "", &[1, 2, 3, 4, 5, 6]);
    // A picture of length-1 dimensions beside: 1 x 2 pixels of three channels.
    let (w, h, pixels) = draw(&s, &[]);
    assert!((w, h) == (2, 1) || (w, h) == (3, 2));
    if (w, h) == (2, 1) {
        assert_eq!(pixels, [[1, 2, 3, 255], [4, 5, 6, 255]]);
    }
    s.array("", &[2, 2, 4], "uint8", "0", "", &(0..16).collect::<Vec<u8>>());
    let (w, h, pixels) = draw(&s, &[]);
    assert_eq!((w, h), (2, 2));
    assert_eq!(pixels[3], [12, 13, 14, 15]);
}

#[test]
fn large_pictures_are_averaged_down_also_piece_by_piece() {
    let s = Store::new();
    let bytes: Vec<u8> = (0..100u8).collect();
    s.array("", &[10, 10], "uint8", "0", "", &bytes);
    let whole = draw(&s, &["--max-size", "4", "--colormap", "gray", "--range", "0,255"]);
    assert_eq!((whole.0, whole.1), (4, 4));
    // Rows 0..3 and columns 0..3: the mean of 0,1,2,10,11,12,20,21,22.
    assert_eq!(whole.2[0], [11, 11, 11, 255]);
    // The last pixel holds one element.
    assert_eq!(whole.2[15], [99, 99, 99, 255]);
    let pieces = draw(&s, &["--max-size", "4", "--colormap", "gray", "--range", "0,255", "--memory", "14"]);
    assert_eq!(pieces, whole);
}

#[test]
fn what_is_not_flat_is_refused_with_advice() {
    let s = Store::new();
    s.array("", &[2, 3, 5], "uint8", "0", r#","dimension_names":["time","y","x"]"#, &[0; 30]);
    let run = s.zaro(&["read", "@", "--format", "png"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("add --isel time=0"), "{}", run.err);
    s.array("", &[2, 3, 5], "uint8", "0", "", &[0; 30]);
    assert!(s.zaro(&["read", "@", "--format", "png"]).err.contains("add --select '0,:,:'"));
    s.array("", &[2, 2], "string", "\"\"", "", b"");
    assert_eq!(s.zaro(&["read", "@", "--format", "png"]).code, 2);
}

#[test]
fn truth_has_two_colours() {
    let s = Store::new();
    s.array("", &[2, 2], "bool", "false", "", &[0, 1, 1, 1]);
    let (_, _, pixels) = draw(&s, &[]);
    assert_eq!(pixels[0], [68, 1, 84, 255]);
    assert_eq!(pixels[3], [253, 231, 37, 255]);
}
