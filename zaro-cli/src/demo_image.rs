//! The image of `zaro demo`: synthetic nuclei, membranes and spots of cells, with labels of the nuclei.

use std::path::Path;
use std::sync::Arc;

use zaro::format::{Layout, Npy, Sink as _};
use zaro::hierarchy::{self, Existing};
use zaro::image::{Axis, Channel, ChannelWindow, ColorModel, ImageVersion, Level, Multiscale, Omero};
use zaro::internal::image::document;
use zaro::internal::text::f64_of_usize as count;
use zaro::meta::{DataType, NewArray, parse_codecs};
use zaro::store::{LocalStore, SharedStore};
use zaro::{Order, Result, Selection, Slab, WriteOptions};

const DEPTH: usize = 6;
const SIDE: usize = 480;
const CELLS: u16 = 60;

/// A cell: where it is, and how large its nucleus.
struct Cell {
    z: f64,
    y: f64,
    x: f64,
    radius: f64,
    number: u16,
}

/// A fixed set of cells, none too close to another.
fn cells() -> Vec<Cell> {
    let mut state = 2_024u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1u32 << 24)
    };
    let mut all: Vec<Cell> = Vec::new();
    let side = count(SIDE);
    for _ in 0..4000 {
        let cell = Cell {
            z: 1.0 + draw() * (count(DEPTH) - 2.0),
            y: draw() * side,
            x: draw() * side,
            radius: 14.0 + 12.0 * draw(),
            number: u16::try_from(all.len() + 1).unwrap_or(u16::MAX),
        };
        let clear =
            |other: &Cell| (other.y - cell.y).hypot(other.x - cell.x) > (other.radius + cell.radius) * 1.15;
        if all.iter().all(clear) {
            all.push(cell);
        }
        if all.len() >= usize::from(CELLS) {
            break;
        }
    }
    all
}

/// Three channels of light, and the number of the nucleus that each pixel lies in.
fn pixels(cells: &[Cell]) -> (Vec<u8>, Vec<u8>) {
    let mut light: Vec<Vec<u16>> = (0..3).map(|_| Vec::with_capacity(DEPTH * SIDE * SIDE)).collect();
    let mut labels = Vec::with_capacity(DEPTH * SIDE * SIDE * 2);
    for z in 0..DEPTH {
        for y in 0..SIDE {
            // Only those that reach this row.
            let near: Vec<&Cell> = cells.iter().filter(|c| (c.y - count(y)).abs() < 2.5 * c.radius).collect();
            for x in 0..SIDE {
                let (py, px) = (count(y), count(x));
                let texture = 1.0 + 0.25 * (0.7 * px + 0.3 * py).sin() * (0.5 * py - 0.2 * px).cos();
                let (mut dna, mut membrane, mut spots) = (220.0, 160.0, 130.0);
                let mut number = 0u16;
                for cell in &near {
                    let d = ((cell.y - py).hypot(cell.x - px) / cell.radius).hypot((cell.z - count(z)) / 2.2);
                    dna += 3200.0 * texture / (1.0 + ((d - 0.85) * 14.0).exp());
                    membrane += 2600.0 * (-((d - 1.45) * 9.0).powi(2)).exp();
                    let dot = (0.9 * px + cell.x).sin() * (0.8 * py + cell.y).sin();
                    spots += 2400.0 * (-((d - 1.05) * 5.0).powi(2)).exp() * (dot - 0.75).max(0.0) * 4.0;
                    if d < 0.85 {
                        number = cell.number;
                    }
                }
                for (channel, value) in light.iter_mut().zip([dna, membrane, spots]) {
                    channel.push(intensity(value));
                }
                labels.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
    (light.concat().iter().flat_map(|v| v.to_le_bytes()).collect(), labels)
}

/// A float of at most 65535 as the integer below it.
fn intensity(x: f64) -> u16 {
    u16::try_from(zaro::internal::text::u64_of_f64(x)).unwrap_or(u16::MAX)
}

/// Creates the image, with its first level only, and a numpy file of the labels beside it.
pub(crate) async fn make(root: &Path, labels: &Path) -> Result<()> {
    let cells = cells();
    let (light, numbers) = pixels(&cells);
    let store: SharedStore = Arc::new(LocalStore::new(root));
    let axis = |name: &str, unit: Option<&str>| Axis { unit: unit.map(str::to_owned), ..Axis::named(name) };
    let micrometer = Some("micrometer");
    let axes = vec![axis("c", None), axis("z", micrometer), axis("y", micrometer), axis("x", micrometer)];
    let shape: Vec<u64> = [3, DEPTH, SIDE, SIDE].into_iter().map(zaro::internal::text::u64_of).collect();
    let mut array = NewArray::new(DataType::UInt(16), shape.clone())
        .with_chunks(Some(vec![1, 1, 240, 240]))
        .with_codecs(Some(parse_codecs("zstd:5")?));
    document::prepare(&mut array, ImageVersion::V05, &axes);
    let level = Level { path: "0".into(), scale: Some(vec![1.0, 0.5, 0.2, 0.2]), translation: None };
    let multiscale = Multiscale { name: Some("tissue".into()), axes, levels: vec![level], method: None };
    let channel = |label: &str, color: [u8; 3], end: f64| Channel {
        label: Some(label.to_owned()),
        color: Some(color),
        window: ChannelWindow { start: Some(150.0), end: Some(end), min: Some(0.0), max: Some(65535.0) },
        ..Channel::default()
    };
    let omero = Omero {
        channels: vec![
            channel("DNA", [64, 96, 255], 3800.0),
            channel("membrane", [0, 255, 96], 3200.0),
            channel("spots", [255, 64, 160], 2200.0),
        ],
        default_z: Some(3),
        model: Some(ColorModel::Color),
        ..Omero::default()
    };
    let attributes = document::image(ImageVersion::V05, &multiscale, Some(&omero), None);
    hierarchy::create_group(&store, "", array.format, &attributes, Existing::Replace).await?;
    let made = hierarchy::create_array(&store, "0", &array, Existing::Replace).await?;
    let slab = Slab::new(&array.data_type, &shape, Order::C, light)?;
    let options = WriteOptions::default().with_assume_empty(true);
    made.write_slab(&Selection::all(), slab.into(), &options).await?;
    let shape = shape.into_iter().skip(1).collect();
    let layout = Layout { shape, names: Vec::new(), data_type: array.data_type, order: Order::C, width: 0 };
    let mut file = Vec::new();
    Npy::default().begin(&layout, &mut file)?;
    file.extend(numbers);
    Ok(std::fs::write(labels, file)?)
}
