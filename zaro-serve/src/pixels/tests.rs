//! Requests to answers, on small Zarrs: equal to what the library reads and renders.

#![allow(clippy::as_conversions, reason = "small numbers of tests")]

use std::path::Path;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::{HeaderMap, Method, StatusCode};
use zaro::hierarchy::{Existing, create_array, create_group};
use zaro::image::render::{Depth, PngRows, Region, Renderer, Settings, Size, View};
use zaro::meta::{DataType, Fill, Format, Json, NewArray};
use zaro::store::{LocalStore, SharedStore};
use zaro::{OpenOptions, Zarr};

use crate::{App, Config, Request};

const WIDTH: u64 = 1100;
const HEIGHT: u64 = 700;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap().value
}

fn store(path: &Path) -> SharedStore {
    Arc::new(LocalStore::new(path))
}

fn pixel(c: u64, z: u64, y: u64, x: u64) -> u16 {
    u16::try_from((x * 7 + y * 13 + z * 101 + c * 1009 + (x * y) % 97) % 4096).unwrap()
}

/// An image of two channels, three planes and two levels, with labels.
async fn make_image(store: &SharedStore, path: &str) {
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
    let attributes = r#"{"ome": {"version": "0.5", "multiscales": [{"name": "m",
        "axes": [{"name": "c", "type": "channel"}, {"name": "z", "type": "space", "unit": "micrometer"},
                 {"name": "y", "type": "space", "unit": "micrometer"}, {"name": "x", "type": "space", "unit": "micrometer"}],
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 2, 0.5, 0.5]}]},
                     {"path": "1", "coordinateTransformations": [{"type": "scale", "scale": [1, 2, 1, 1]}]}]}],
        "omero": {"channels": [
            {"label": "DAPI", "color": "0000FF", "active": true, "window": {"min": 0, "max": 4095, "start": 0, "end": 4000}},
            {"label": "GFP", "color": "00FF00", "active": true, "window": {"min": 0, "max": 4095, "start": 100, "end": 3000}}]}}}"#;
    create_group(store, path, Format::V3, &json(attributes), Existing::Replace).await.unwrap();
    for (level, factor) in [(0u64, 1u64), (1, 2)] {
        let shape = [2, 3, HEIGHT / factor, WIDTH / factor];
        let new = NewArray::new(DataType::UInt(16), shape).with_chunks(Some(vec![1, 1, 256, 256]));
        let array = create_array(store, &at(&level.to_string()), &new, Existing::Replace).await.unwrap();
        let mut all = Vec::new();
        for c in 0..2 {
            for z in 0..3 {
                for y in 0..shape[2] {
                    all.extend((0..shape[3]).map(|x| pixel(c, z, y * factor, x * factor)));
                }
            }
        }
        array.write(zaro::Selection::all(), &all).await.unwrap();
    }
}

async fn make_labels(store: &SharedStore) {
    let group = r#"{"ome": {"version": "0.5", "labels": ["cells"]}}"#;
    create_group(store, "labels", Format::V3, &json(group), Existing::Replace).await.unwrap();
    let attributes = r#"{"ome": {"version": "0.5", "image-label": {"colors": [{"label-value": 3, "rgba": [255, 0, 0, 255]}]},
        "multiscales": [{"axes": [{"name": "z", "type": "space"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}],
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [2, 0.5, 0.5]}]}]}]}}"#;
    create_group(store, "labels/cells", Format::V3, &json(attributes), Existing::Replace).await.unwrap();
    let new = NewArray::new(DataType::UInt(32), [3, HEIGHT, WIDTH]).with_chunks(Some(vec![1, 256, 256]));
    let array = create_array(store, "labels/cells/0", &new, Existing::Replace).await.unwrap();
    let all: Vec<u32> = (0..3 * HEIGHT * WIDTH).map(|i| u32::try_from(i % WIDTH / 100).unwrap()).collect();
    array.write(zaro::Selection::all(), &all).await.unwrap();
}

/// A packed field of time, latitude and longitude, with its coordinates.
async fn make_field(store: &SharedStore) {
    create_group(store, "", Format::V3, &json("{}"), Existing::Replace).await.unwrap();
    let names = |all: &[&str]| Some(all.iter().map(|n| Some((*n).to_owned())).collect::<Vec<_>>());
    let attributes = |text: &str| json(text).members().unwrap().to_vec();
    let new = NewArray::new(DataType::Int(16), [4, 18, 36])
        .with_chunks(Some(vec![1, 9, 18]))
        .with_fill(Some(Fill((-999i16).to_le_bytes().to_vec().into())))
        .with_dimension_names(names(&["time", "lat", "lon"]))
        .with_attributes(attributes(
            r#"{"units": "degC", "scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -999}"#,
        ));
    let array = create_array(store, "sst", &new, Existing::Replace).await.unwrap();
    let mut all: Vec<i16> = (0..4 * 18 * 36).map(|i| i16::try_from(i % 100).unwrap()).collect();
    all[0] = -999;
    array.write(zaro::Selection::all(), &all).await.unwrap();
    for (name, first, step, n) in [("lat", 85.0f32, -10.0f32, 18u64), ("lon", 5.0, 10.0, 36)] {
        let new = NewArray::new(DataType::FLOAT32, [n]).with_dimension_names(names(&[name]));
        let array = create_array(store, name, &new, Existing::Replace).await.unwrap();
        let all: Vec<f32> = (0..n).map(|i| first + step * i as f32).collect();
        array.write(zaro::Selection::all(), &all).await.unwrap();
    }
    let new = NewArray::new(DataType::Int(32), [4])
        .with_dimension_names(names(&["time"]))
        .with_attributes(attributes(r#"{"units": "days since 2000-01-01"}"#));
    let array = create_array(store, "time", &new, Existing::Replace).await.unwrap();
    array.write(zaro::Selection::all(), &[0i32, 1, 2, 3]).await.unwrap();
    let new = NewArray::new(DataType::FLOAT64, [1300, 1500]).with_chunks(Some(vec![256, 256]));
    let array = create_array(store, "plain", &new, Existing::Replace).await.unwrap();
    let all: Vec<f64> = (0..1300 * 1500).map(|i| f64::from(i % 1009)).collect();
    array.write(zaro::Selection::all(), &all).await.unwrap();
}

async fn make_plate(store: &SharedStore) {
    let plate = r#"{"ome": {"version": "0.5", "plate": {"rows": [{"name": "A"}], "columns": [{"name": "1"}, {"name": "2"}],
        "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}, {"path": "A/2", "rowIndex": 0, "columnIndex": 1}]}}}"#;
    create_group(store, "", Format::V3, &json(plate), Existing::Replace).await.unwrap();
    create_group(store, "A", Format::V3, &json("{}"), Existing::Replace).await.unwrap();
    for well in ["A/1", "A/2"] {
        let attributes = r#"{"ome": {"version": "0.5", "well": {"images": [{"path": "0"}]}}}"#;
        create_group(store, well, Format::V3, &json(attributes), Existing::Replace).await.unwrap();
        make_image(store, &format!("{well}/0")).await;
    }
}

struct Served {
    app: App,
    folder: tempfile::TempDir,
}

async fn served(change: impl FnOnce(&mut Config)) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let image = store(&folder.path().join("image.zarr"));
    make_image(&image, "").await;
    make_labels(&image).await;
    make_field(&store(&folder.path().join("field.zarr"))).await;
    let mut config =
        Config { sources: vec![folder.path().to_str().unwrap().to_owned()], ..Config::default() };
    change(&mut config);
    Served { app: App::new(config).unwrap(), folder }
}

type Reply = (StatusCode, HeaderMap, Vec<u8>);

impl Served {
    async fn send(&self, request: Request) -> Reply {
        let response = self.app.answer(&request).await;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes().to_vec();
        (head.status, head.headers, bytes)
    }

    fn request(target: &str) -> Request {
        let mut request = Request::new(Method::GET, target);
        request.headers.insert("host", "localhost".parse().unwrap());
        request
    }

    async fn get(&self, target: &str) -> Reply {
        self.send(Self::request(target)).await
    }

    async fn ok(&self, target: &str) -> (HeaderMap, Vec<u8>) {
        let (status, headers, bytes) = self.get(target).await;
        assert_eq!(status, StatusCode::OK, "{target}: {}", String::from_utf8_lossy(&bytes));
        (headers, bytes)
    }

    async fn json(&self, target: &str) -> Json {
        let (_, bytes) = self.ok(target).await;
        json(&String::from_utf8(bytes).unwrap())
    }

    async fn status(&self, target: &str) -> u16 {
        self.get(target).await.0.as_u16()
    }

    async fn zarr(&self, name: &str) -> Zarr {
        Zarr::from_store(store(&self.folder.path().join(name)), OpenOptions::default()).await.unwrap()
    }

    /// What the library renders.
    async fn rendered(&self, path: &str, settings: Settings, view: View) -> Vec<u8> {
        let zarr = self.zarr("image.zarr").await;
        let image = zaro::image::image_at(&zarr, path).await.unwrap();
        let renderer = Renderer::open(&zarr, &image, &settings).await.unwrap();
        let mut rows = PngRows::new(Vec::new());
        renderer.draw_to(&view, &mut rows).await.unwrap();
        rows.finish().unwrap()
    }
}

fn u16s(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)).collect()
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

#[tokio::test]
async fn typed_tiles_are_the_stored_pixels() {
    let served = served(|_| ()).await;
    let (headers, bytes) = served.ok("/tile/image.zarr/0/1_2.bin?z=2&c=1,0").await;
    let header = headers["x-zaro-tile"].to_str().unwrap();
    assert_eq!(header, "dtype=u2;shape=2,188,76;level=0;fill=0;scale=1;offset=0;exact=true;resample=none");
    let array = served.zarr("image.zarr").await.array("0").await.unwrap();
    let mut wanted: Vec<u16> = array.read([1..2, 2..3, 512..700, 1024..1100]).await.unwrap();
    wanted.extend(array.read::<u16>([0..1, 2..3, 512..700, 1024..1100]).await.unwrap());
    assert_eq!(u16s(&bytes), wanted);
    // The second stored level.
    let (_, bytes) = served.ok("/tile/image.zarr/1/0_0.bin?z=0&c=0").await;
    let array = served.zarr("image.zarr").await.array("1").await.unwrap();
    assert_eq!(u16s(&bytes), array.read::<u16>([0..1, 0..1, 0..350, 0..512]).await.unwrap());
    // The level after the last is made of it: means of 2 x 2.
    let (headers, bytes) = served.ok("/tile/image.zarr/2/0_0.bin?z=0&c=0").await;
    assert!(headers["x-zaro-tile"].to_str().unwrap().contains("shape=1,175,275;level=2;"));
    let level: Vec<u16> = array.read([0..1, 0..1, 0..350, 0..550]).await.unwrap();
    let mean = |y: usize, x: usize| {
        let at = |dy: usize, dx: usize| f64::from(level[(2 * y + dy) * 550 + 2 * x + dx]);
        ((at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4.0 + 0.5).floor() as u16
    };
    let made = u16s(&bytes);
    assert!((0..175).all(|y| (0..275).all(|x| made[y * 275 + x] == mean(y, x))));
    // A zoom of half the resolution is the second level; zoom 0 is one tile.
    let (_, zoomed) = served.ok("/tile/image.zarr/z1/0_0.bin?z=0&c=0").await;
    let (_, stored) = served.ok("/tile/image.zarr/1/0_0.bin?z=0&c=0").await;
    assert_eq!(zoomed, stored);
    for missing in [
        "/tile/image.zarr/3/0_0.bin",
        "/tile/image.zarr/z9/0_0.bin",
        "/tile/image.zarr/0/2_0.bin",
        "/tile/image.zarr/0/0_0.gif",
        "/tile/none.zarr/0/0_0.bin",
        "/tile/image.zarr/nothing/0/0_0.bin",
    ] {
        assert_eq!(served.status(missing).await, 404, "{missing}");
    }
    for bad in ["?c=7", "?z=3", "?t=1", "?nonsense=1", "?z=min", "?sel=x=1"] {
        assert_eq!(served.status(&format!("/tile/image.zarr/0/0_0.bin{bad}")).await, 400, "{bad}");
    }
}

#[tokio::test]
async fn projections_are_typed_and_drawn() {
    let served = served(|_| ()).await;
    let (_, bytes) = served.ok("/tile/image.zarr/0/0_0.bin?z=max&c=0").await;
    let wanted = |y: u64, x: u64| (0..3).map(|z| pixel(0, z, y, x)).max().unwrap();
    let all = u16s(&bytes);
    assert!((0..512).all(|y| (0..512).all(|x| all[y * 512 + x] == wanted(y as u64, x as u64))));
    let (_, drawn) = served.ok("/tile/image.zarr/1/0_0.png?z=max").await;
    let depth = Depth::Projected(zaro::image::render::Projection::Max, None);
    let region = Some(Region { x: 0, y: 0, width: 1024, height: 700 });
    let view = View { level: Some(1), depth, region, ..View::default() };
    assert_eq!(drawn, served.rendered("", Settings::default(), view).await);
}

#[tokio::test]
async fn pictures_are_those_of_the_renderer() {
    let served = served(|_| ()).await;
    let (headers, bytes) = served.ok("/tile/image.zarr/0/1_1.png").await;
    assert_eq!(headers["content-type"], "image/png");
    let region = Some(Region { x: 512, y: 512, width: 512, height: 188 });
    let view = View { region, level: Some(0), ..View::default() };
    assert_eq!(bytes, served.rendered("", Settings::default(), view).await);
    let (_, bytes) = served.ok("/thumb/image.zarr?size=200&z=1&c=0:color=FF00FF").await;
    let settings = Settings {
        channels: vec![zaro::image::render::ChannelSetting::parse("0:color=FF00FF").unwrap()],
        ..Settings::default()
    };
    let view = View { size: Some(Size::Longest(200)), depth: Depth::Plane(1), ..View::default() };
    assert_eq!(bytes, served.rendered("", settings, view.clone()).await);
    // Labels alone, and over the image.
    let (_, bytes) = served.ok("/thumb/image.zarr/labels/cells?size=200&z=1").await;
    assert_eq!(bytes, served.rendered("labels/cells", Settings::default(), view.clone()).await);
    let (_, over) = served.ok("/thumb/image.zarr?size=200&z=1&labels=cells").await;
    let settings = Settings { labels: zaro::image::render::LabelChoice::All, ..Settings::default() };
    assert_eq!(over, served.rendered("", settings, view).await);
    let (headers, bytes) = served.ok("/thumb/image.zarr?format=jpg").await;
    assert!(headers["content-type"] == "image/jpeg" && bytes.starts_with(&[0xFF, 0xD8]));
    let (_, bytes) = served.ok("/region/image.zarr?region=100,50,300,200&size=150&format=png&z=0").await;
    let region = Some(Region { x: 100, y: 50, width: 300, height: 200 });
    let view =
        View { region, size: Some(Size::Exactly(150, 100)), depth: Depth::Plane(0), ..View::default() };
    assert_eq!(bytes, served.rendered("", Settings::default(), view).await);
}

#[tokio::test]
async fn label_tiles_keep_their_values() {
    let served = served(|_| ()).await;
    // A made level takes the nearest, and never a mean.
    let (headers, bytes) = served.ok("/tile/image.zarr/labels/cells/2/0_0.bin?z=0").await;
    let header = headers["x-zaro-tile"].to_str().unwrap();
    assert!(header.starts_with("dtype=u4;shape=1,175,275;level=2;") && header.ends_with("resample=nearest"));
    let values = bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b));
    assert!(values.enumerate().all(|(i, v)| v as usize == (i % 275 * 4 + 2) / 100));
}

#[tokio::test]
async fn plates_and_wells_are_one_picture() {
    let served = served(|_| ()).await;
    make_plate(&store(&served.folder.path().join("plate.zarr"))).await;
    let (headers, plate) = served.ok("/thumb/plate.zarr?size=300").await;
    assert_eq!(headers["content-type"], "image/png");
    let zarr = served.zarr("plate.zarr").await;
    let request = zaro::image::render::Request {
        view: View { size: Some(Size::Longest(300)), ..View::default() },
        ..Default::default()
    };
    let mut rows = PngRows::new(Vec::new());
    zaro::image::render::render_to(&zarr, "", &request, &mut rows).await.unwrap();
    assert_eq!(plate, rows.finish().unwrap());
    assert_eq!(served.status("/thumb/plate.zarr/A/2").await, 200);
    assert_eq!(served.status("/tile/plate.zarr/0/0_0.png").await, 422);
    assert_eq!(served.status("/tile/plate.zarr/A/2/0/1/0_0.png").await, 200);
}

#[tokio::test]
async fn fields_are_decoded_and_drawn() {
    let served = served(|_| ()).await;
    let (headers, bytes) = served.ok("/tile/field.zarr/sst/0/0_0.bin?isel=time=1").await;
    let header = headers["x-zaro-tile"].to_str().unwrap();
    assert!(
        header.starts_with("dtype=f4;shape=1,18,36;level=0;fill=NaN;scale=1;offset=0;exact=true"),
        "{header}"
    );
    let numbers = f32s(&bytes);
    assert_eq!(numbers[0], ((18 * 36) % 100) as f32 * 0.5 + 10.0);
    let (_, bytes) = served.ok("/tile/field.zarr/sst/0/0_0.bin").await;
    assert!(f32s(&bytes)[0].is_nan());
    let (headers, bytes) = served.ok("/tile/field.zarr/sst/0/0_0.bin?raw=1").await;
    let header = headers["x-zaro-tile"].to_str().unwrap();
    assert!(header.starts_with("dtype=i2;shape=1,18,36;level=0;fill=-999;scale=0.5;offset=10;"), "{header}");
    assert_eq!(i16::from_le_bytes([bytes[0], bytes[1]]), -999);
    // By a date, the nearest; and exactly.
    let (_, dated) = served.ok("/tile/field.zarr/sst/0/0_0.bin?sel=time=2000-01-02").await;
    assert_eq!(f32s(&dated), numbers);
    assert_eq!(served.status("/tile/field.zarr/sst/0/0_0.bin?sel=time=1990-01-01&method=exact").await, 400);
    assert_eq!(served.status("/tile/field.zarr/sst/0/0_0.bin?sel=lat=3").await, 400);
    // The picture of `zaro read`.
    let zarr = served.zarr("field.zarr").await;
    let array = zarr.array("sst").await.unwrap();
    let view = zaro::array::ArrayView::new(&[zaro::Index::At(2)], array.meta()).unwrap();
    let related = zaro::cf::related(&zarr, &array).await.unwrap();
    let reading = zaro::cf::Reading::decoded(&array, view.clone(), &related, &mut |_| {});
    let slab = reading.read(&view, &Default::default(), &mut Default::default()).await.unwrap();
    let mut picture = zaro::format::Picture::new(zaro::format::Drawing {
        colormap: zaro::format::Colormap::Magma,
        range: None,
        max_size: 12,
        transparent: Vec::new(),
    });
    let mut wanted = Vec::new();
    use zaro::format::Sink as _;
    picture.begin(&reading.layout(zaro::Order::C), &mut wanted).unwrap();
    picture.block(&slab, &mut wanted).unwrap();
    picture.end(&mut wanted).unwrap();
    let (_, drawn) = served.ok("/thumb/field.zarr/sst?size=12&cmap=magma&isel=time=2").await;
    assert_eq!(pixels(&drawn), pixels(&wanted));
    assert_eq!(served.status("/thumb/field.zarr/sst?cmap=jet").await, 400);
    assert_eq!(served.status("/thumb/field.zarr/lat").await, 422);
    assert_eq!(served.status("/thumb/field.zarr").await, 422);
}

/// The pixels of a PNG.
fn pixels(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut out = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut out).unwrap();
    out.truncate(info.buffer_size());
    (info.width, info.height, out)
}

#[tokio::test]
async fn one_level_is_reduced_on_the_fly() {
    let served = served(|_| ()).await;
    let (headers, bytes) = served.ok("/tile/field.zarr/plain/2/0_0.bin").await;
    let header = headers["x-zaro-tile"].to_str().unwrap();
    assert!(header.starts_with("dtype=f4;shape=1,325,375;level=2;"), "{header}");
    let array = served.zarr("field.zarr").await.array("plain").await.unwrap();
    let all: Vec<f64> = array.read(zaro::Selection::all()).await.unwrap();
    let mean: f64 = (0..4).flat_map(|y| (0..4).map(move |x| (y, x))).map(|(y, x)| all[y * 1500 + x]).sum();
    assert_eq!(f32s(&bytes)[0], (mean / 16.0) as f32);
    let meta = served.json("/meta/field.zarr/plain").await;
    let tiles = meta.get("tiles").unwrap();
    assert_eq!(tiles.list("levels").len(), 3);
    assert_eq!(tiles.get("max_zoom").unwrap().as_u64(), Some(2));
}

#[tokio::test]
async fn what_costs_too_much_is_refused_with_numbers() {
    let served = served(|config| config.limits.decoded = 3 << 20).await;
    // 1024 x 1024 floats of 8 bytes, in chunks of 512 KiB.
    let (status, headers, bytes) = served.get("/tile/field.zarr/plain/1/0_0.bin").await;
    assert_eq!((status.as_u16(), &headers["content-type"]), (413, &"application/json".parse().unwrap()));
    let json = json(&String::from_utf8(bytes).unwrap());
    assert_eq!(json.get("decoded_bytes").unwrap().as_u64(), Some(16 * 256 * 256 * 8));
    assert_eq!(json.get("chunks").unwrap().as_u64(), Some(16));
    assert_eq!(json.get("nearest_level").unwrap().as_u64(), Some(0));
    assert_eq!(served.status("/tile/field.zarr/plain/0/0_0.bin").await, 200);
    assert_eq!(served.status("/region/field.zarr/plain?format=npy").await, 413);
    assert_eq!(served.status("/thumb/field.zarr/plain").await, 413);
    let few = self::served(|config| config.limits.pixels = 1000).await;
    assert_eq!(few.status("/thumb/image.zarr").await, 413);
    assert_eq!(few.status("/thumb/image.zarr?size=20").await, 200);
}

#[tokio::test]
async fn regions_are_what_is_read() {
    let served = served(|_| ()).await;
    let array = served.zarr("field.zarr").await.array("sst").await.unwrap();
    let wanted: Vec<i16> = array.read([1..2, 3..5, 0..36]).await.unwrap();
    let url = "/region/field.zarr/sst?isel=time=1,lat=3:5";
    let (headers, bytes) = served.ok(url).await;
    assert!(headers["x-zaro-tile"].to_str().unwrap().starts_with("dtype=i2;shape=2,36;fill=-999;"));
    assert_eq!(bytes, wanted.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>());
    let (_, npy) = served.ok(&format!("{url}&format=npy")).await;
    assert!(npy.starts_with(b"\x93NUMPY") && npy.ends_with(&bytes));
    let (_, csv) = served.ok(&format!("{url}&format=csv&cf=1")).await;
    let first = String::from_utf8(csv).unwrap().lines().next().unwrap().split(',').next().unwrap().to_owned();
    assert_eq!(first.parse::<f64>().unwrap(), f64::from(wanted[0]) * 0.5 + 10.0);
    let (_, nii) = served.ok(&format!("{url}&format=nii")).await;
    assert_eq!((nii.len(), &nii[344..347]), (352 + bytes.len(), b"n+1".as_slice()));
    let (_, volume) = served.ok("/region/image.zarr?format=nii&c=1&level=1").await;
    assert_eq!(volume.len(), 352 + 3 * 350 * 550 * 2);
    assert_eq!(u16::from_le_bytes([volume[42], volume[43]]), 550);
    assert_eq!(f32s(&volume[80..92]), [1.0, 1.0, 2.0]);
    let (headers, part) = served.ok("/region/image.zarr?region=10,20,30,40&c=1&z=2").await;
    assert!(headers["x-zaro-tile"].to_str().unwrap().starts_with("dtype=u2;shape=1,40,30;level=0;"));
    assert_eq!(u16s(&part)[0], pixel(1, 2, 20, 10));
    let (_, tif) = served.ok("/region/field.zarr/sst?isel=lat=0:9&format=tif&min=0&max=40").await;
    assert!(tif.starts_with(b"II*\0"));
    for bad in ["format=gif", "region=0,0,1,1", "isel=depth=1", "isel=lat=99", "format=bin&cmap=gray&size=3"]
    {
        assert_eq!(served.status(&format!("/region/field.zarr/sst?{bad}")).await, 400, "{bad}");
    }
    assert_eq!(served.status("/region/image.zarr?region=5000,0,1,1").await, 400);
}

#[tokio::test]
async fn values_and_series_are_exact() {
    let served = served(|_| ()).await;
    let value = served.json("/value/field.zarr/sst?isel=time=2,lat=1,lon=0").await;
    let stored = (2 * 18 * 36 + 36) % 100;
    assert_eq!(value.get("value").unwrap().as_i64(), Some(stored));
    let coords = value.get("coords").unwrap();
    assert_eq!(coords.text("lat"), Some("75.0"));
    let value = served.json("/value/field.zarr/sst?sel=time=2000-01-03,lat=74,lon=4&cf=1").await;
    assert_eq!(value.get("value").unwrap().as_f64(), Some(stored as f64 * 0.5 + 10.0));
    let value = served.json("/value/image.zarr?x=10&y=20&z=1").await;
    assert_eq!(
        value.get("value").unwrap().compact(),
        format!("[{},{}]", pixel(0, 1, 20, 10), pixel(1, 1, 20, 10))
    );
    let series = served.json("/series/field.zarr/sst?along=time&sel=lat=74,lon=4").await;
    assert_eq!(series.list("values").len(), 4);
    assert!(series.list("labels")[1].as_str().unwrap().starts_with("2000-01-02"), "{}", series.compact());
    let wanted: Vec<f64> = (0..4).map(|t| f64::from((t * 18 * 36 + 36) % 100) * 0.5 + 10.0).collect();
    assert_eq!(series.numbers("values").unwrap(), wanted);
    let (headers, csv) = served.ok("/series/field.zarr/sst?along=time&isel=lat=1&format=csv").await;
    assert!(headers["content-type"].to_str().unwrap().starts_with("text/csv"));
    assert!(String::from_utf8(csv).unwrap().starts_with("time,sst"));
    let thin = served.json("/series/field.zarr/plain?along=dim1&points=10").await;
    assert!(thin.list("values").len() <= 10 && thin.get("count").unwrap().as_u64() == Some(1500));
    assert_eq!(served.status("/series/field.zarr/sst?along=depth").await, 400);
    assert_eq!(served.status("/series/field.zarr/sst").await, 400);
}

#[tokio::test]
async fn a_long_series_is_read_in_windows() {
    // Windows of 1,024 chunks of 8 numbers each.
    let served = served(|config| config.limits.decoded = 16 << 10).await;
    let field = store(&served.folder.path().join("field.zarr"));
    let names = ["dim0", "dim1"].map(|name| Some(name.to_owned()));
    let new = NewArray::new(DataType::UInt(16), [10_000, 8])
        .with_chunks(Some(vec![1, 8]))
        .with_dimension_names(Some(names.to_vec()));
    let array = create_array(&field, "long", &new, Existing::Replace).await.unwrap();
    let all: Vec<u16> = (0..80_000u32).map(|i| u16::try_from(i * 7 % 50_021).unwrap()).collect();
    array.write(zaro::Selection::all(), &all).await.unwrap();
    let line: Vec<f64> = all.iter().skip(3).step_by(8).map(|n| f64::from(*n)).collect();
    let url = "/series/field.zarr/long?along=dim0";
    let series = served.json(&format!("{url}&isel=dim1=3")).await;
    assert_eq!(series.numbers("values").unwrap(), line);
    let labels = series.list("labels");
    assert_eq!((labels.len(), labels[9_999].as_str()), (10_000, Some("9999")));
    for (isel, wanted) in [
        ("dim0=::-1", line.iter().rev().copied().collect::<Vec<_>>()),
        ("dim0=5:9000:7", line[5..9000].iter().step_by(7).copied().collect()),
        ("dim0=9990:", line[9990..].to_vec()),
    ] {
        let series = served.json(&format!("{url}&isel={isel},dim1=3")).await;
        assert_eq!(series.numbers("values").unwrap(), wanted, "{isel}");
    }
    let thin = served.json(&format!("{url}&isel=dim1=3&points=100")).await;
    let kept = thin.numbers("values").unwrap();
    let greatest = |list: &[f64]| list.iter().copied().fold(f64::MIN, f64::max);
    assert!(kept.len() <= 100 && greatest(&kept) == greatest(&line));
    for (label, value) in thin.list("labels").iter().zip(&kept) {
        let place: usize = label.as_str().unwrap().parse().unwrap();
        assert_eq!(line[place], *value);
    }
    let (_, csv) = served.ok(&format!("{url}&isel=dim1=3&format=csv")).await;
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 10_001);
    assert_eq!(csv.lines().last().unwrap(), format!("9999,{}", line[9_999]));
    let few = self::served(|config| config.limits.chunks = 600).await;
    let other = store(&few.folder.path().join("field.zarr"));
    create_array(&other, "long", &new, Existing::Replace).await.unwrap();
    assert_eq!(few.status(&format!("{url}&isel=dim1=3")).await, 413);
    assert_eq!(few.status(&format!("{url}&isel=dim0=:9000,dim1=3")).await, 200);
}

#[tokio::test]
async fn a_member_of_structs_is_a_plane() {
    let served = served(|_| ()).await;
    let field = store(&served.folder.path().join("field.zarr"));
    let inner =
        DataType::structure([("re".to_owned(), DataType::FLOAT32), ("id".to_owned(), DataType::UInt(8))]);
    let own = DataType::structure([("n".to_owned(), DataType::Int(16)), ("in".to_owned(), inner)]);
    let new = NewArray::new(own.clone(), [20, 30]).with_chunks(Some(vec![20, 16]));
    let array = create_array(&field, "structs", &new, Existing::Replace).await.unwrap();
    let mut bytes = Vec::new();
    for i in 0..600i16 {
        bytes.extend((i - 300).to_le_bytes());
        bytes.extend((f32::from(i) * 0.25).to_le_bytes());
        bytes.push(u8::try_from(i % 251).unwrap());
    }
    let slab = zaro::Slab::new(&own, &[20, 30], zaro::Order::C, bytes).unwrap();
    array.write_slab(&zaro::Selection::all(), slab.into(), &Default::default()).await.unwrap();
    let url = "/tile/field.zarr/structs/0/0_0.bin";
    let (headers, bytes) = served.ok(&format!("{url}?member=in.re")).await;
    assert!(headers["x-zaro-tile"].to_str().unwrap().starts_with("dtype=f4;shape=1,20,30;level=0;fill=0;"));
    assert_eq!(f32s(&bytes), (0..600u16).map(|i| f32::from(i) * 0.25).collect::<Vec<_>>());
    let (headers, bytes) = served.ok(&format!("{url}?member=n")).await;
    assert!(headers["x-zaro-tile"].to_str().unwrap().starts_with("dtype=i2;"));
    assert_eq!(bytes, (-300..300i16).flat_map(i16::to_le_bytes).collect::<Vec<_>>());
    let (_, png) = served.ok("/thumb/field.zarr/structs?member=in.id").await;
    assert_eq!(pixels(&png).0, 30);
    for (query, wanted) in [("", 422), ("?member=in", 422), ("?member=x", 400), ("?member=n.x", 400)] {
        assert_eq!(served.status(&format!("{url}{query}")).await, wanted, "{query}");
    }
    assert_eq!(served.status("/tile/field.zarr/sst/0/0_0.bin?member=n").await, 400);
}

#[tokio::test]
async fn histograms_come_from_the_smallest_level() {
    let served = served(|_| ()).await;
    let json = served.json("/histogram/image.zarr?bins=16&z=0").await;
    assert_eq!(json.get("level").unwrap().as_u64(), Some(1));
    let channel = &json.list("channels")[1];
    let array = served.zarr("image.zarr").await.array("1").await.unwrap();
    let all: Vec<u16> = array.read([1..2, 0..1, 0..350, 0..550]).await.unwrap();
    assert_eq!(channel.get("min").unwrap().as_f64(), all.iter().min().map(|n| f64::from(*n)));
    let counts: u64 = channel.list("counts").iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!((counts, channel.list("counts").len()), (350 * 550, 16));
    assert_eq!(served.status("/histogram/image.zarr?bins=0").await, 400);
}

#[tokio::test]
async fn metadata_tell_what_can_be_shown() {
    let served = served(|_| ()).await;
    let meta = served.json("/meta/image.zarr?children=1&limit=2").await;
    assert_eq!(meta.get("image").and_then(|i| i.text("kind")), Some("image"));
    assert_eq!(meta.list("children").len(), 2);
    assert_eq!(meta.text("next"), Some("1"));
    let rest = served.json("/meta/image.zarr?children=1&after=1").await;
    assert_eq!(rest.list("children").len(), 1);
    assert_eq!(meta.get("tiles").unwrap().list("levels").len(), 3);
    let meta = served.json("/meta/field.zarr/sst").await;
    assert!(meta.get("field").unwrap().compact().contains("degC"));
    assert_eq!(meta.text("kind"), Some("array"));
    assert_eq!(served.status("/meta/field.zarr/none").await, 404);
}

#[tokio::test]
async fn answers_are_tagged_and_compressed() {
    let served = served(|_| ()).await;
    let url = "/tile/image.zarr/0/0_0.bin?z=0&c=0";
    let (headers, plain) = served.ok(url).await;
    let tag = headers["etag"].clone();
    assert!(tag.to_str().unwrap().starts_with('"') && headers["cache-control"] == "no-cache");
    let with = |name: &'static str, value: hyper::header::HeaderValue| {
        let mut request = Served::request(url);
        request.headers.insert(name, value);
        request
    };
    let (status, headers, body) = served.send(with("if-none-match", tag.clone())).await;
    assert_eq!((status.as_u16(), body.len(), headers["etag"].clone()), (304, 0, tag.clone()));
    let (status, headers, body) = served.send(with("range", "bytes=4-7".parse().unwrap())).await;
    assert_eq!((status.as_u16(), body.as_slice()), (206, &plain[4..8]));
    assert!(headers.contains_key("content-range"));
    let (status, headers, body) = served.send(with("accept-encoding", "gzip".parse().unwrap())).await;
    assert_eq!((status.as_u16(), &headers["content-encoding"]), (200, &"gzip".parse().unwrap()));
    assert!(headers["etag"] != tag && headers.get_all("vary").iter().any(|v| v == "Accept-Encoding"));
    let mut unzipped = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(body.as_slice()), &mut unzipped).unwrap();
    assert_eq!(unzipped, plain);
    let mut head = Served::request(url);
    head.method = Method::HEAD;
    let (status, headers, body) = served.send(head).await;
    assert_eq!((status.as_u16(), body.len()), (200, 0));
    assert_eq!(headers["content-length"], plain.len().to_string());
    let mut put = Served::request(url);
    put.method = Method::PUT;
    assert_eq!(served.send(put).await.0, StatusCode::METHOD_NOT_ALLOWED);
    // Who asks makes no difference to what is answered.
    assert_eq!(served.ok("/thumb/image.zarr?token=x").await.1, served.ok("/thumb/image.zarr").await.1);
    assert_eq!(served.status("/iiif/image.zarr/info.json?token=x").await, 200);
}

#[tokio::test]
async fn many_requests_for_one_tile_make_it_once() {
    let served = served(|_| ()).await;
    let url = "/tile/image.zarr/0/0_0.png";
    let all = futures::future::join_all((0..8).map(|_| served.ok(url))).await;
    assert!(all.windows(2).all(|pair| pair[0].1 == pair[1].1));
}

#[tokio::test]
async fn iiif_is_level_2() {
    let served = served(|_| ()).await;
    let info = served.json("/iiif/image.zarr;z=0;c=1/info.json").await;
    assert_eq!((info.text("type"), info.text("profile")), (Some("ImageService3"), Some("level2")));
    assert_eq!(info.get("width").unwrap().as_u64(), Some(WIDTH));
    assert_eq!(info.text("id"), Some("http://localhost/iiif/image.zarr;z=0;c=1"));
    let (status, headers, _) = served.get("/iiif/image.zarr%2Flabels%2Fcells").await;
    assert_eq!(
        (status.as_u16(), headers["location"].to_str().unwrap()),
        (303, "/iiif/image.zarr%2Flabels%2Fcells/info.json")
    );
    let (_, bytes) = served.ok("/iiif/image.zarr;z=0/100,50,300,200/150,/0/default.png").await;
    let region = Some(Region { x: 100, y: 50, width: 300, height: 200 });
    let view =
        View { region, size: Some(Size::Exactly(150, 100)), depth: Depth::Plane(0), ..View::default() };
    assert_eq!(bytes, served.rendered("", Settings::default(), view).await);
    let size = async |target: &str| {
        let (width, height, _) = pixels(&served.ok(target).await.1);
        (width, height)
    };
    assert_eq!(size("/iiif/image.zarr/full/max/90/gray.png").await, (700, 1100));
    assert_eq!(size("/iiif/image.zarr/square/!50,50/!180/color.png").await, (50, 50));
    assert_eq!(size("/iiif/field.zarr%2Fsst;isel=time=1/full/^72,/0/default.png").await, (72, 36));
    assert_eq!(served.ok("/iiif/image.zarr/full/200,/0/default.jpg").await.0["content-type"], "image/jpeg");
    for (target, status) in [
        ("/iiif/image.zarr/full/max/0/default.gif", 400),
        ("/iiif/image.zarr/full/2000,/0/default.jpg", 400),
        ("/iiif/image.zarr/5000,0,10,10/max/0/default.jpg", 400),
        ("/iiif/image.zarr/full/max/45/default.jpg", 501),
        ("/iiif/none/info.json", 404),
        ("/iiif/image.zarr%2Fnone/info.json", 404),
        ("/iiif/image.zarr%2F%2Fx/info.json", 404),
        ("/iiif/image.zarr/full/max/default.jpg", 404),
    ] {
        assert_eq!(served.status(target).await, status, "{target}");
    }
}

#[tokio::test]
async fn deep_zoom_levels_halve() {
    let served = served(|_| ()).await;
    let (_, xml) = served.ok("/dzi/image.zarr.dzi?z=0").await;
    let xml = String::from_utf8(xml).unwrap();
    assert!(
        xml.contains("TileSize=\"512\"") && xml.contains("<Size Width=\"1100\" Height=\"700\"/>"),
        "{xml}"
    );
    let (width, height, _) = pixels(&served.ok("/dzi/image.zarr_files/11/2_1.png?z=0").await.1);
    assert_eq!((width, height), (76, 188));
    let (width, height, _) = pixels(&served.ok("/dzi/image.zarr%2Flabels%2Fcells_files/8/0_0.png").await.1);
    assert_eq!((width, height), (138, 88));
    assert_eq!(served.ok("/dzi/image.zarr_files/0/0_0.jpg").await.0["content-type"], "image/jpeg");
    assert_eq!(served.status("/dzi/image.zarr_files/12/0_0.png").await, 404);
    assert_eq!(served.status("/dzi/image.zarr_files/11/3_0.png").await, 404);
    // Full resolution is the image itself.
    let (_, tile) = served.ok("/dzi/image.zarr_files/11/0_0.png?z=0").await;
    let (_, same) = served.ok("/tile/image.zarr/0/0_0.png?z=0").await;
    assert_eq!(pixels(&tile), pixels(&same));
}

#[tokio::test]
async fn maps_are_in_mercators_projection() {
    let served = served(|_| ()).await;
    let json = served.json("/xyz/field.zarr/sst/tilejson.json?isel=time=1").await;
    assert_eq!(
        json.list("tiles")[0].as_str(),
        Some("http://localhost/xyz/field.zarr/sst/{z}/{x}/{y}.png?isel=time%3D1")
    );
    assert_eq!(json.numbers("bounds").unwrap()[0], -180.0);
    let (_, tile) = served.ok("/xyz/field.zarr/sst/0/0/0.png?isel=time=1&min=0&max=60&cmap=gray").await;
    let (width, height, rgba) = pixels(&tile);
    assert_eq!((width, height), (256, 256));
    // The pixel east of Greenwich and south of the equator: latitude -5, longitude 5.
    let value = f64::from((18 * 36 + 9 * 36) % 100) * 0.5 + 10.0;
    let grey = zaro::format::Colormap::Gray.color(value / 60.0);
    assert_eq!(rgba[(128 * 256 + 128) * 4..][..3], grey);
    for missing in ["1/2/0", "0/0/1", "25/0/0"] {
        assert_eq!(served.status(&format!("/xyz/field.zarr/sst/{missing}.png")).await, 404, "{missing}");
    }
    assert_eq!(served.status("/xyz/field.zarr/plain/0/0/0.png").await, 422);
    assert_eq!(served.status("/xyz/image.zarr/tilejson.json").await, 422);
}
