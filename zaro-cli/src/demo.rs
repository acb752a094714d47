//! `zaro demo`: a small example of everything, made and shown.
//!
//! Two stores: `ocean.zarr` (V3: a packed climate field in shards, coordinates, texts, times; consolidated) and
//! `cells.zarr` (V2: a picture in blosc). They are made with the library's own encoders, chunk by chunk.

use std::f64::consts::TAU;
use std::path::{Path, PathBuf};

use clap::Args;
use zaro::codec::chain::Chain;
use zaro::codec::{Buffer, Repr};
use zaro::meta::json::Json;
use zaro::meta::{ArrayMeta, Findings, Mode, NodeMeta, v2, v3};
use zaro::{Error, Result};

use crate::output;

/// Make a small example of everything in a folder, and show it
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The folder to make; it must not exist yet, unless an earlier demo made it
    #[arg(value_name = "DIR", default_value = "zaro-demo")]
    dir: PathBuf,
}

const MONTHS: usize = 12;
const LATS: usize = 180;
const LONS: usize = 360;
const SIDE: usize = 384;

/// What marks a folder as ours to write again.
const MARK: &str = "made-by-zaro-demo";

impl Demo {
    /// Makes the folder and gives the command lines that show it, for the caller to run.
    pub(crate) fn make(&self) -> Result<Vec<Vec<String>>> {
        let dir = &self.dir;
        if dir.exists() && !dir.join(MARK).exists() {
            return Err(Error::usage(format!(
                "{} exists and was not made by zaro demo; name another folder",
                dir.display()
            )));
        }
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join(MARK), "")?;
        let ocean = dir.join("ocean.zarr");
        let cells = dir.join("cells.zarr");
        make_ocean(&ocean)?;
        make_cells(&cells)?;
        let text = |p: &Path| p.to_string_lossy().into_owned();
        let picture = |name: &str| text(&dir.join(name));
        let line = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<String>>();
        Ok(vec![
            line(&["info", &text(&ocean)]),
            line(&["read", &text(&ocean), "sst", "--cf", "--sel", "month=6,lat=80:84,lon=200:205"]),
            line(&["read", &text(&ocean), "month", "--cf", "--format", "csv"]),
            line(&["read", &text(&ocean), "sst", "--cf", "--select", "6,::-1,:", "-o", &picture("july.png")]),
            line(&["info", &text(&cells)]),
            line(&["read", &text(&cells), "--colormap", "magma", "-o", &picture("cells.png")]),
            line(&["validate", &text(&ocean), "--strict"]),
        ])
    }

    /// What to say in the end.
    pub(crate) fn closing(&self) -> Result<()> {
        let dir = self.dir.display();
        output::print(&format!(
            "\nEverything is in {dir}/: look at july.png and cells.png, and try\n  \
             zaro read {dir}/ocean.zarr sst --sel month=0 -o january.npy\n  \
             zaro meta {dir}/ocean.zarr sst --json\n  \
             zaro --help\n"
        ))
    }
}

/// Packed sea-surface temperature: warm at the equator, seasons, eddies, and continents where nothing is known.
fn make_ocean(root: &Path) -> Result<()> {
    let mut nodes = Vec::new();
    let mut array = |name: &str, document: String, chunk: &mut dyn FnMut(&[u64]) -> Result<Buffer>| {
        let document = parse(&document)?;
        let mut findings = Findings::new(Mode::Strict, "/");
        let NodeMeta::Array(meta) = v3::node(document.clone(), &mut findings)? else {
            return Err(Error::invalid("the demo made no array"));
        };
        write(&root.join(name).join("zarr.json"), document.pretty().as_bytes())?;
        nodes.push((name.to_owned(), document));
        write_chunks(&root.join(name), &meta, chunk)
    };
    array("sst", field_document(), &mut |at| Ok(Buffer::fixed(field(at))))?;
    let degrees = |first: f64, n: usize| -> Vec<u8> {
        (0..n).flat_map(|i| float32(first + count(i)).to_le_bytes()).collect()
    };
    let lat =
        axis_document("float32", LATS, "lat", r#"{"units": "degrees_north", "standard_name": "latitude"}"#);
    array("lat", lat, &mut |_| Ok(Buffer::fixed(degrees(-89.5, LATS))))?;
    let lon =
        axis_document("float32", LONS, "lon", r#"{"units": "degrees_east", "standard_name": "longitude"}"#);
    array("lon", lon, &mut |_| Ok(Buffer::fixed(degrees(0.5, LONS))))?;
    let month = axis_document(
        "int32",
        MONTHS,
        "month",
        r#"{"units": "days since 2000-01-01", "calendar": "360_day"}"#,
    );
    let days: Vec<u8> = (0..12i32).flat_map(|m| (m * 30 + 15).to_le_bytes()).collect();
    array("month", month, &mut |_| Ok(Buffer::fixed(days.clone())))?;
    array("stations", texts_document(), &mut |_| {
        Buffer::variable(
            ["Davis", "Mawson", "Casey", "Macquarie Island", "Île de la Possession"].map(str::as_bytes),
        )
    })?;
    let attributes = r#"{"title": "An example made by zaro demo", "Conventions": "CF-1.10"}"#;
    let consolidated = Json::Object(vec![
        ("kind".into(), Json::string("inline")),
        ("must_understand".into(), Json::Bool(false)),
        ("metadata".into(), Json::Object(nodes)),
    ]);
    let group = Json::Object(vec![
        ("zarr_format".into(), Json::int(3)),
        ("node_type".into(), Json::string("group")),
        ("attributes".into(), parse(attributes)?),
        ("consolidated_metadata".into(), consolidated),
    ]);
    write(&root.join("zarr.json"), group.pretty().as_bytes())
}

fn field_document() -> String {
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [{MONTHS}, {LATS}, {LONS}], "data_type": "int16",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [6, {LATS}, {LONS}]}}}},
        "chunk_key_encoding": {{"name": "default", "configuration": {{"separator": "/"}}}}, "fill_value": -32768,
        "codecs": [{{"name": "sharding_indexed", "configuration": {{"chunk_shape": [1, 90, 180],
          "codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}},
                     {{"name": "zstd", "configuration": {{"level": 5, "checksum": false}}}}],
          "index_codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}, {{"name": "crc32c"}}],
          "index_location": "end"}}}}],
        "dimension_names": ["month", "lat", "lon"],
        "attributes": {{"long_name": "sea surface temperature", "units": "degC", "scale_factor": 0.001,
                        "add_offset": 15.0, "_FillValue": -32768}}}}"#
    )
}

fn axis_document(data_type: &str, n: usize, name: &str, attributes: &str) -> String {
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [{n}], "data_type": "{data_type}",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{n}]}}}},
        "chunk_key_encoding": {{"name": "default", "configuration": {{"separator": "/"}}}}, "fill_value": 0,
        "codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}],
        "dimension_names": ["{name}"], "attributes": {attributes}}}"#
    )
}

fn texts_document() -> String {
    r#"{"zarr_format": 3, "node_type": "array", "shape": [5], "data_type": "string",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": "",
        "codecs": [{"name": "vlen-utf8"}, {"name": "gzip", "configuration": {"level": 5}}],
        "dimension_names": ["station"], "attributes": {}}"#
        .to_owned()
}

/// The months of one shard.
fn field(at: &[u64]) -> Vec<u8> {
    let first = at.first().map_or(0, |n| usize::try_from(*n).unwrap_or(0) * 6);
    let mut out = Vec::with_capacity(6 * LATS * LONS * 2);
    for month in first..first + 6 {
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
fn make_cells(root: &Path) -> Result<()> {
    let document = format!(
        r#"{{"zarr_format": 2, "shape": [{SIDE}, {SIDE}], "chunks": [128, 128], "dtype": "|u1", "fill_value": 0,
        "order": "C", "filters": null, "dimension_separator": "/",
        "compressor": {{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}}}}"#
    );
    let attributes = parse(r#"{"_ARRAY_DIMENSIONS": ["y", "x"], "title": "Cells that never lived"}"#)?;
    let document = parse(&document)?;
    write(&root.join(".zarray"), document.pretty().as_bytes())?;
    write(&root.join(".zattrs"), attributes.pretty().as_bytes())?;
    let meta = v2::array(document.into(), Some(attributes.into()), &mut Findings::new(Mode::Strict, "/"))?;
    write_chunks(root, &meta, &mut |at| {
        let corner: Vec<f64> = at.iter().map(|n| count(usize::try_from(*n).unwrap_or(0) * 128)).collect();
        let (y0, x0) = (corner.first().copied().unwrap_or(0.0), corner.get(1).copied().unwrap_or(0.0));
        let pixels = (0..128 * 128).map(|i| brightness(y0 + count(i / 128), x0 + count(i % 128))).collect();
        Ok(Buffer::fixed(pixels))
    })
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

/// A small count as a float; exact.
fn count(n: usize) -> f64 {
    u32::try_from(n).map_or(f64::NAN, f64::from)
}

/// A float as the nearest small integer.
fn number(x: f64) -> i16 {
    format!("{x:.0}").parse().unwrap_or(0)
}

/// A float at single precision, through its text: `as` has no place here.
fn float32(x: f64) -> f32 {
    x.to_string().parse().unwrap_or(f32::NAN)
}

fn parse(text: &str) -> Result<Json> {
    Ok(Json::parse(text.as_bytes())?.value)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, bytes).map_err(|e| Error::from(e).within(path.display()))
}

/// Encodes and writes every chunk of an array; `chunk` gives the elements of the chunk at an index.
fn write_chunks(
    root: &Path,
    meta: &ArrayMeta,
    chunk: &mut dyn FnMut(&[u64]) -> Result<Buffer>,
) -> Result<()> {
    let counts = meta.grid.counts(&meta.shape);
    let shape = meta.grid.largest();
    let repr = Repr { shape, data_type: meta.data_type.clone(), fill: meta.fill.clone() };
    let chain = Chain::build(&meta.codecs, repr, true)?;
    let total: u64 = counts.iter().product();
    for i in 0..total {
        let mut left = i;
        let mut at: Vec<u64> = counts
            .iter()
            .rev()
            .map(|n| {
                let here = left % n;
                left /= n;
                here
            })
            .collect();
        at.reverse();
        let encoded = chain.encode(chunk(&at)?)?;
        write(&root.join(meta.keys.key("", &at)), &encoded)?;
    }
    Ok(())
}
