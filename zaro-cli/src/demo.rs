//! `zaro demo`: create and show small example data of every kind.
//!
//! Two stores: `ocean.zarr` (V3: a packed climate field in shards, coordinates, texts, times; consolidated) and
//! `cells.zarr` (V2: a picture in blosc), made through the public API: arrays are created, slabs written, metadata
//! consolidated. Beside them `field.dat`, a raw binary file, with `field.json`, a reference file that presents it as a
//! Zarr; and a manifest of the ocean. `tissue.zarr` is an OME-Zarr image, whose levels and labels are made by the
//! commands that are shown.

use std::f64::consts::TAU;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use zaro::hierarchy::{self, Existing};
use zaro::internal::text::f64_of_u64 as count;
use zaro::meta::{ChunkKeys, DataType, Fill, Format, Json, NewArray, parse_codecs};
use zaro::store::{LocalStore, SharedStore};
use zaro::{Error, Order, Result, Selection, Slab, WriteOptions};

use crate::path::local_path;
use crate::{demo_image, output};

/// Create a small example of everything in a directory, and show it
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Directory to create; it must not exist, unless an earlier demo created it
    #[arg(value_name = "DIR", default_value = "zaro-demo", value_parser = local_path())]
    dir: PathBuf,
}

const MONTHS: u64 = 12;
const LATS: u64 = 180;
const LONS: u64 = 360;
const SIDE: u64 = 384;

/// Marker file of a folder that an earlier demo created and may be overwritten.
const MARK: &str = "made-by-zaro-demo";

impl Demo {
    /// Creates the folder and returns the command lines that show it, for the caller to run.
    pub(crate) async fn make(&self) -> Result<Vec<Vec<String>>> {
        let dir = &self.dir;
        if dir.exists() && !dir.join(MARK).exists() {
            return Err(Error::usage(format!(
                "{} exists and was not created by zaro demo; choose another folder",
                dir.display()
            )));
        }
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join(MARK), "")?;
        let ocean = dir.join("ocean.zarr");
        let cells = dir.join("cells.zarr");
        make_ocean(&ocean).await?;
        make_cells(&cells).await?;
        let field = dir.join("field.json");
        make_references(&dir.join("field.dat"), &field)?;
        let (tissue, nuclei) = (dir.join("tissue.zarr"), dir.join("nuclei.npy"));
        demo_image::make(&tissue, &nuclei).await?;
        // An earlier demo's is of files that are gone.
        let manifest = dir.join("ocean.manifest.json");
        if manifest.exists() {
            std::fs::remove_file(&manifest)?;
        }
        let text = |p: &Path| p.to_string_lossy().into_owned();
        let picture = |name: &str| text(&dir.join(name));
        let line = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<String>>();
        Ok(vec![
            line(&["info", &text(&ocean)]),
            line(&["read", &text(&ocean), "sst", "--cf", "--isel", "month=6,lat=80:84,lon=200:205"]),
            line(&["read", &text(&ocean), "month", "--cf", "--format", "csv"]),
            line(&["read", &text(&ocean), "sst", "--cf", "--select", "6,::-1,:", "-o", &picture("july.png")]),
            line(&["info", &text(&cells)]),
            line(&["read", &text(&cells), "--colormap", "magma", "-o", &picture("cells.png")]),
            line(&["validate", &text(&ocean), "--strict"]),
            line(&["ref", "stat", &text(&field)]),
            line(&["read", &text(&field), "sst", "--select", "6,80:84,200:205"]),
            line(&["manifest", "create", &text(&ocean), "-o", &text(&manifest)]),
            line(&["manifest", "verify", &text(&manifest), "--folder", &text(&ocean), "--bytes"]),
            line(&["image", "pyramid", &text(&tissue), "--levels", "3"]),
            line(&["image", "add-labels", &text(&tissue), "nuclei", "--from", &text(&nuclei)]),
            line(&["image", "info", &text(&tissue)]),
            line(&["image", "validate", &text(&tissue)]),
            line(&["image", "render", &text(&tissue), "-o", &picture("tissue.png")]),
            line(&["image", "render", &text(&tissue), "--labels", "nuclei", "-o", &picture("nuclei.png")]),
        ])
    }

    /// Prints the closing message.
    pub(crate) fn closing(&self) -> Result<()> {
        let dir = self.dir.display();
        output::print(&format!(
            "\nEverything is in {dir}/: look at july.png, cells.png, tissue.png and nuclei.png, and try\n  \
             zaro read {dir}/ocean.zarr sst --isel month=0 -o january.npy\n  \
             zaro meta {dir}/ocean.zarr sst --json\n  \
             zaro serve {dir}        (plain Zarr, tiles and numbers at http://127.0.0.1:8000)\n  \
             zaro --help\n"
        ))
    }
}

/// Packed sea-surface temperature: warm at the equator, with seasons, eddies, and missing values on continents.
async fn make_ocean(root: &Path) -> Result<()> {
    let store: SharedStore = Arc::new(LocalStore::new(root));
    let title = r#"{"title": "An example made by zaro demo", "Conventions": "CF-1.10"}"#;
    hierarchy::create_group(&store, "", Format::V3, &parse(title)?, Existing::Replace).await?;
    let field = NewArray::new(DataType::Int(16), [MONTHS, LATS, LONS])
        .with_chunks(Some(vec![1, 90, 180]))
        .with_shards(Some(vec![6, LATS, LONS]))
        .with_fill(Some(Fill(i16::MIN.to_le_bytes().to_vec().into())))
        .with_codecs(Some(parse_codecs("zstd:5")?))
        .with_dimension_names(names(&["month", "lat", "lon"]))
        .with_attributes(attributes(
            r#"{"long_name": "sea surface temperature", "units": "degC", "scale_factor": 0.001,
                "add_offset": 15.0, "_FillValue": -32768}"#,
        )?);
    put(&store, "sst", &field, temperatures()).await?;
    let degrees = |first: f64, n: u64| -> Vec<u8> {
        (0..n).flat_map(|i| float32(first + count(i)).to_le_bytes()).collect()
    };
    let lat =
        axis(DataType::FLOAT32, LATS, "lat", r#"{"units": "degrees_north", "standard_name": "latitude"}"#)?;
    put(&store, "lat", &lat, degrees(-89.5, LATS)).await?;
    let lon =
        axis(DataType::FLOAT32, LONS, "lon", r#"{"units": "degrees_east", "standard_name": "longitude"}"#)?;
    put(&store, "lon", &lon, degrees(0.5, LONS)).await?;
    let calendar = r#"{"units": "days since 2000-01-01", "calendar": "360_day"}"#;
    let month = axis(DataType::Int(32), MONTHS, "month", calendar)?;
    put(&store, "month", &month, (0..12i32).flat_map(|m| (m * 30 + 15).to_le_bytes()).collect()).await?;
    let texts = ["Davis", "Mawson", "Casey", "Macquarie Island", "Île de la Possession"].map(str::as_bytes);
    let stations = axis(DataType::String, 5, "station", "{}")?.with_codecs(Some(parse_codecs("gzip:5")?));
    let slab = Slab::variable(&DataType::String, &stations.shape, Order::C, texts)?;
    put_slab(&store, "stations", &stations, slab).await?;
    hierarchy::consolidate(&store, "").await.map(drop)
}

/// The field as a plain file of big-endian numbers after a header, and references that present it as a Zarr.
fn make_references(file: &Path, references: &Path) -> Result<()> {
    let head = b"A file that knows nothing of Zarr.\n";
    let mut bytes = head.to_vec();
    bytes.extend(temperatures().chunks_exact(2).flat_map(|pair| pair.iter().rev().copied()));
    std::fs::write(file, bytes)?;
    let month = LATS.saturating_mul(LONS).saturating_mul(2);
    let first = u64::try_from(head.len()).unwrap_or_default();
    let chunks: Vec<String> = (0..MONTHS)
        .map(|m| {
            let offset = first.saturating_add(m.saturating_mul(month));
            format!("\"sst/{m}.0.0\": [\"{{{{f}}}}\", {offset}, {month}]")
        })
        .collect();
    let text = format!(
        r#"{{"version": 1, "templates": {{"f": "field.dat"}}, "refs": {{
".zgroup": {{"zarr_format": 2}},
"sst/.zarray": {{"zarr_format": 2, "shape": [{MONTHS}, {LATS}, {LONS}], "chunks": [1, {LATS}, {LONS}],
  "dtype": ">i2", "compressor": null, "filters": null, "fill_value": -32768, "order": "C"}},
"sst/.zattrs": {{"_ARRAY_DIMENSIONS": ["month", "lat", "lon"]}},
{}
}}}}
"#,
        chunks.join(",\n")
    );
    Ok(std::fs::write(references, text)?)
}

/// An array of one dimension and one chunk.
fn axis(data_type: DataType, n: u64, name: &str, described: &str) -> Result<NewArray> {
    Ok(NewArray::new(data_type, [n])
        .with_codecs(Some(Vec::new()))
        .with_dimension_names(names(&[name]))
        .with_attributes(attributes(described)?))
}

fn names(names: &[&str]) -> Option<Vec<Option<String>>> {
    Some(names.iter().map(|n| Some((*n).to_owned())).collect())
}

/// Makes an array and writes all its elements.
async fn put(store: &SharedStore, path: &str, new: &NewArray, bytes: Vec<u8>) -> Result<()> {
    put_slab(store, path, new, Slab::new(&new.data_type, &new.shape, Order::C, bytes)?).await
}

async fn put_slab(store: &SharedStore, path: &str, new: &NewArray, slab: Slab) -> Result<()> {
    let array = hierarchy::create_array(store, path, new, Existing::Replace).await?;
    let options = WriteOptions::default().with_assume_empty(true);
    array.write_slab(&Selection::all(), slab.into(), &options).await
}

/// The elements of the field.
fn temperatures() -> Vec<u8> {
    let mut out = Vec::new();
    for month in 0..MONTHS {
        for lat in 0..LATS {
            for lon in 0..LONS {
                out.extend_from_slice(&packed(count(month), count(lat), count(lon)).to_le_bytes());
            }
        }
    }
    out
}

fn packed(month: f64, lat: f64, lon: f64) -> i16 {
    let (y, x) = (lat / count(LATS) * 2.0 - 1.0, lon / count(LONS) * TAU);
    let land =
        (1.7 * x.sin() + (2.0 * x + 1.0).cos() + 1.3 * (3.0 * y).sin() + 0.6 * (5.0 * x + 4.0 * y).sin())
            > 1.55
            || y < -0.86;
    if land {
        return i16::MIN;
    }
    let season = 4.0 * y * ((month - 7.5) / 12.0 * TAU).cos();
    let eddies = 0.8 * (9.0 * x + 3.0 * (7.0 * y).sin() + month).sin() * (12.0 * y).cos();
    let celsius = 29.0 * (1.0 - y * y).powf(1.2) - 1.5 + season + eddies;
    let steps = ((celsius.max(-1.8) - 15.0) / 0.001).round();
    number(steps)
}

/// A picture of round cells on a dim ground.
async fn make_cells(root: &Path) -> Result<()> {
    let store: SharedStore = Arc::new(LocalStore::new(root));
    let cells = NewArray::default()
        .with_format(Format::V2)
        .with_shape(vec![SIDE, SIDE])
        .with_data_type(DataType::UINT8)
        .with_chunks(Some(vec![128, 128]))
        .with_codecs(Some(parse_codecs("blosc:lz4:5:shuffle")?))
        .with_keys(Some(ChunkKeys { prefixed: false, separator: '/' }))
        .with_dimension_names(names(&["y", "x"]))
        .with_attributes(attributes(r#"{"title": "Cells that never lived"}"#)?);
    let pixels = (0..SIDE * SIDE).map(|i| brightness(count(i / SIDE), count(i % SIDE))).collect();
    put(&store, "", &cells, pixels).await
}

fn brightness(y: f64, x: f64) -> u8 {
    // Centres from a small recurrence, so that the picture is the same everywhere.
    let mut state = 12_345u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1u32 << 24)
    };
    let mut light = 14.0 + 6.0 * (0.05 * x).sin() * (0.04 * y).cos();
    for _ in 0..40 {
        let (cy, cx, r) = (draw() * count(SIDE), draw() * count(SIDE), 10.0 + 16.0 * draw());
        let d = ((y - cy).powi(2) + (x - cx).powi(2)).sqrt() / r;
        light += 120.0 * (-(d * d * 2.0)).exp() + 90.0 * (-(((d - 0.9) * 8.0).powi(2))).exp();
    }
    u8::try_from(number(light.clamp(0.0, 255.0))).unwrap_or(u8::MAX)
}

/// A float as the nearest small integer.
fn number(x: f64) -> i16 {
    format!("{x:.0}").parse().unwrap_or(0)
}

/// A float at single precision, through its text: `as` is not allowed here.
fn float32(x: f64) -> f32 {
    x.to_string().parse().unwrap_or(f32::NAN)
}

fn parse(text: &str) -> Result<Json> {
    Ok(Json::parse(text.as_bytes())?.value)
}

fn attributes(text: &str) -> Result<Vec<(String, Json)>> {
    Ok(parse(text)?.members().unwrap_or_default().to_vec())
}
