//! End-to-end tests: vectors from other programs, and every division into passes against a plain loop.
#![allow(clippy::as_conversions, reason = "small numbers of the tests' own")]

use std::sync::Arc;

use super::*;
use crate::array::{Order, ReadOptions, Selection, Values, WriteOptions};
use crate::blocking::block_on;
use crate::image::parse;
use crate::meta::dtype::Float;
use crate::store::StoreExt as _;
use crate::store::memory::MemoryStore;
use crate::task::{CancelToken, Progress};

fn memory() -> SharedStore {
    Arc::new(MemoryStore::new())
}

fn axes(names: &str) -> Vec<Axis> {
    names.chars().map(|c| Axis::named(&c.to_string())).collect()
}

/// An image of one level.
struct Sample {
    store: SharedStore,
    version: ImageVersion,
}

impl Sample {
    fn new(version: ImageVersion, names: &str, new: NewArray, bytes: &[u8]) -> Self {
        let store = memory();
        let mut new = new;
        document::prepare(&mut new, version, &axes(names));
        let rank = new.shape.len();
        let level = Level { path: "0".into(), scale: Some(vec![0.5; rank]), translation: None };
        let m = Multiscale { name: None, axes: axes(names), levels: vec![level], method: None };
        let attributes = document::image(version, &m, None, None);
        block_on(hierarchy::create_group(&store, "", version.format(), &attributes, Existing::Refuse))
            .unwrap();
        let array = block_on(hierarchy::create_array(&store, "0", &new, Existing::Refuse)).unwrap();
        let options = WriteOptions { assume_empty: true, ..WriteOptions::default() };
        array
            .write_slab_blocking(&Selection::all(), Values::new(bytes.to_vec(), Order::C), &options)
            .unwrap();
        Self { store, version }
    }

    fn read(&self, path: &str) -> (Vec<u64>, Vec<u8>) {
        let array = block_on(hierarchy::open_array(&self.store, path, &Context::shared())).unwrap();
        let slab = array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap();
        (slab.shape, slab.bytes)
    }

    fn multiscale(&self) -> Multiscale {
        let zarr = block_on(opened(&self.store)).unwrap();
        block_on(find::image_at(&zarr, "")).unwrap().multiscales.remove(0)
    }
}

fn options(method: Downsampling, factors: Factors, levels: usize) -> PyramidOptions {
    PyramidOptions { method: Some(method), factors, levels: Some(levels), ..PyramidOptions::default() }
}

fn u8_array(shape: &[u64], chunks: &[u64]) -> NewArray {
    NewArray {
        shape: shape.to_vec(),
        chunks: Some(chunks.to_vec()),
        data_type: DataType::UInt(8),
        ..NewArray::default()
    }
}

/// The picture that the facts about other programs were found with.
const PICTURE: [u8; 64] = [
    0, 10, 20, 30, 40, 50, 60, 70, 5, 15, 25, 35, 45, 55, 65, 75, 100, 110, 120, 130, 140, 150, 160, 170,
    101, 111, 121, 131, 141, 151, 161, 171, 3, 1, 4, 1, 5, 9, 2, 6, 200, 0, 200, 0, 200, 0, 200, 0, 255, 254,
    253, 252, 251, 250, 249, 248, 7, 7, 7, 7, 8, 8, 8, 8,
];

#[test]
fn the_numbers_are_those_of_others() {
    let cases = [
        // ngff-zarr bin_shrink
        (Downsampling::Mean, [8, 28, 48, 68, 106, 126, 146, 166, 51, 51, 54, 52, 131, 130, 129, 128]),
        // ngff-zarr mode
        (Downsampling::Mode, [0, 20, 40, 60, 100, 120, 140, 160, 0, 0, 0, 0, 7, 7, 8, 8]),
        // bioformats2raw
        (Downsampling::Decimate, [0, 20, 40, 60, 100, 120, 140, 160, 3, 4, 5, 2, 255, 253, 251, 249]),
        // ngff-zarr itkwasm_gaussian
        (Downsampling::Gaussian, [19, 37, 57, 76, 87, 104, 122, 139, 83, 77, 80, 74, 115, 113, 113, 110]),
    ];
    for (method, wanted) in cases {
        for chunks in [[8, 8], [4, 4], [3, 5], [2, 8], [1, 1]] {
            let sample = Sample::new(ImageVersion::V05, "yx", u8_array(&[8, 8], &chunks), &PICTURE);
            let built = block_on(build(&sample.store, "", &options(method, Factors::default(), 2))).unwrap();
            assert_eq!(built.levels, [("1".to_owned(), vec![4, 4])]);
            assert_eq!(sample.read("1"), (vec![4, 4], wanted.to_vec()), "{method:?} {chunks:?}");
        }
    }
}

/// Numbers of a type as bytes, and back.
struct Kind {
    data_type: DataType,
    to: fn(&[u8]) -> f64,
    from: fn(f64) -> Vec<u8>,
}

macro_rules! kind {
    ($dtype:expr, $type:ty) => {
        Kind {
            data_type: $dtype,
            to: |b| <$type>::from_le_bytes(b.try_into().unwrap()) as f64,
            from: |x| (x as $type).to_le_bytes().to_vec(),
        }
    };
}

fn kinds() -> Vec<Kind> {
    vec![
        kind!(DataType::UInt(8), u8),
        kind!(DataType::Int(8), i8),
        kind!(DataType::UInt(16), u16),
        kind!(DataType::Int(16), i16),
        kind!(DataType::UInt(32), u32),
        kind!(DataType::Int(32), i32),
        kind!(DataType::UInt(64), u64),
        kind!(DataType::Int(64), i64),
        kind!(DataType::Float(Float::F32), f32),
        kind!(DataType::Float(Float::F64), f64),
        Kind {
            data_type: DataType::Float(Float::F16),
            to: |b| half::f16::from_le_bytes(b.try_into().unwrap()).to_f64(),
            from: |x| half::f16::from_f64(x).to_le_bytes().to_vec(),
        },
    ]
}

/// Small numbers, without end.
struct Noise(u64);

impl Noise {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float(_))
}

/// The plain loop: a level from the one above it.
fn smaller(values: &[f64], shape: &[u64], plan: &LevelPlan, method: Downsampling, float: bool) -> Vec<f64> {
    let at = |index: &[u64]| {
        let place = index.iter().zip(shape).fold(0, |n, (i, extent)| n * extent + i);
        values[place as usize]
    };
    let mut out = Vec::new();
    let mut o = vec![0u64; shape.len()];
    for _ in 0..plan.shape.iter().product::<u64>() {
        let ranges: Vec<Vec<u64>> = o
            .iter()
            .zip(&plan.step)
            .zip(shape)
            .map(|((o, f), n)| (o * f..((o + 1) * f).min(*n)).collect())
            .collect();
        let mut block = vec![vec![]];
        for range in &ranges {
            block = block
                .iter()
                .flat_map(|b: &Vec<u64>| {
                    range.iter().map(|i| [b.as_slice(), &[*i]].concat()).collect::<Vec<_>>()
                })
                .collect();
        }
        let mut block: Vec<f64> = block.iter().map(|i| at(i)).collect();
        out.push(match method {
            Downsampling::Decimate => block[0],
            Downsampling::Mean => {
                let mean = block.iter().sum::<f64>() / block.len() as f64;
                if float { mean } else { (mean + 0.5).floor() }
            }
            _ => {
                block.sort_by(f64::total_cmp);
                let count = |x: &f64| block.iter().filter(|y| *y == x).count();
                let most = block.iter().map(count).max().unwrap();
                *block.iter().find(|x| count(x) == most).unwrap()
            }
        });
        crate::codec::shard::advance(&mut o, &plan.shape);
    }
    out
}

/// Makes a pyramid and compares every level with the plain loop.
fn check(kind: &Kind, names: &str, new: &NewArray, options: &PyramidOptions, noise: &mut Noise) {
    let count: u64 = new.shape.iter().product();
    let signed = !matches!(kind.data_type, DataType::UInt(_));
    let values: Vec<f64> =
        (0..count).map(|_| noise.next(9) as f64 - if signed { 4.0 } else { 0.0 }).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|x| (kind.from)(*x)).collect();
    let new = NewArray { data_type: kind.data_type.clone(), ..new.clone() };
    let sample = Sample::new(ImageVersion::V05, names, new.clone(), &bytes);
    let built = block_on(build(&sample.store, "", options)).unwrap();
    let plans = plan(&new.shape, &axes(names), &options.factors, options.levels).unwrap();
    assert_eq!(built.levels.len(), plans.len());
    let (mut above, mut shape) = (values, new.shape.clone());
    for (i, plan) in plans.iter().enumerate() {
        let wanted = smaller(&above, &shape, plan, options.method.unwrap(), is_float(&kind.data_type));
        let (found, bytes) = sample.read(&(i + 1).to_string());
        assert_eq!(found, plan.shape);
        let found: Vec<f64> = bytes.chunks_exact(kind.data_type.size()).map(kind.to).collect();
        let wanted: Vec<f64> = wanted.into_iter().map(|x| (kind.to)(&(kind.from)(x))).collect();
        assert!(found == wanted, "{:?} {new:?} {options:?} level {}", kind.data_type, i + 1);
        (above, shape) = (wanted, plan.shape.clone());
    }
}

#[test]
fn every_type_of_pixels_is_made_smaller() {
    let mut noise = Noise(1);
    for kind in kinds() {
        for method in [Downsampling::Mean, Downsampling::Mode, Downsampling::Decimate] {
            if method == Downsampling::Mode && is_float(&kind.data_type) {
                continue;
            }
            let new = NewArray { shape: vec![2, 23, 18], chunks: Some(vec![1, 8, 8]), ..NewArray::default() };
            check(&kind, "cyx", &new, &options(method, Factors::Plane(2), 4), &mut noise);
            check(&kind, "cyx", &new, &options(method, Factors::Plane(3), 2), &mut noise);
            let volume = Factors::Space(vec![2, 2, 2]);
            check(
                &kind,
                "zyx",
                &NewArray { shape: vec![5, 23, 18], ..new },
                &options(method, volume, 3),
                &mut noise,
            );
        }
    }
}

#[test]
fn however_it_is_cut_the_pixels_are_the_same() {
    let mut noise = Noise(7);
    let kinds = kinds();
    for round in 0..150 {
        let kind = &kinds[noise.next(4) as usize];
        let mut length = |most: u64| 1 + noise.next(most);
        let shape = vec![length(3), length(4), length(70), length(70)];
        let chunks = vec![length(2), length(3), length(20), length(20)];
        let mut new = NewArray { shape, chunks: Some(chunks), ..NewArray::default() };
        let sharded =
            |chunks: &[u64], noise: &mut Noise| chunks.iter().map(|c| c * (1 + noise.next(4))).collect();
        if round % 3 == 0 {
            new.shards = Some(sharded(new.chunks.as_ref().unwrap(), &mut noise));
        }
        let method = [Downsampling::Mean, Downsampling::Mode, Downsampling::Decimate][noise.next(3) as usize];
        let factors = match round % 4 {
            0 => Factors::Plane(2),
            1 => Factors::Plane(3),
            2 => Factors::Space(vec![2, 2, 2]),
            _ => Factors::Space(vec![3, 1, 2]),
        };
        let mut options = options(method, factors, 2);
        // As many as there can be.
        let most =
            (2..).find(|n| plan(&new.shape, &axes("czyx"), &options.factors, Some(*n)).is_err()).unwrap();
        options.levels = Some(most - 1);
        match round % 5 {
            0 => options.chunks = Some((0..4).map(|_| 1 + noise.next(16)).collect()),
            1 => {
                let chunks: Vec<u64> = vec![1, 1, 8, 8];
                options.shards = Some(Some(sharded(&chunks, &mut noise)));
                options.chunks = Some(chunks);
            }
            2 => options.shards = Some(None),
            _ => {}
        }
        check(kind, "czyx", &new, &options, &mut noise);
    }
}

#[test]
fn sums_of_the_largest_numbers_are_exact() {
    for (data_type, values, wanted) in [
        (DataType::UInt(64), [u64::MAX; 4].map(|x| x.to_le_bytes()), u64::MAX.to_le_bytes()),
        (
            DataType::UInt(64),
            [u64::MAX, u64::MAX - 1, u64::MAX - 2, u64::MAX].map(|x| x.to_le_bytes()),
            (u64::MAX - 1).to_le_bytes(),
        ),
        (
            DataType::Int(64),
            [i64::MIN, i64::MIN, i64::MIN, i64::MIN + 2].map(|x| x.to_le_bytes()),
            (i64::MIN + 1).to_le_bytes(),
        ),
        (DataType::Int(64), [i64::MAX; 4].map(|x| x.to_le_bytes()), i64::MAX.to_le_bytes()),
    ] {
        let new = NewArray { shape: vec![2, 2], data_type, ..NewArray::default() };
        let sample = Sample::new(ImageVersion::V04, "yx", new, &values.concat());
        block_on(build(&sample.store, "", &options(Downsampling::Mean, Factors::default(), 2))).unwrap();
        assert_eq!(sample.read("1").1, wanted);
    }
}

#[test]
fn what_is_not_a_number_stays_none() {
    let values: Vec<u8> =
        [1.0f32, f32::NAN, 2.0, 3.0, 1.0, 2.0, 3.0, 5.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    for method in [Downsampling::Mean, Downsampling::Gaussian] {
        let new = NewArray { shape: vec![4, 2], data_type: DataType::FLOAT32, ..NewArray::default() };
        let sample = Sample::new(ImageVersion::V05, "yx", new, &values);
        block_on(build(&sample.store, "", &options(method, Factors::default(), 2))).unwrap();
        let bytes = sample.read("1").1;
        assert!(f32::from_le_bytes(bytes[..4].try_into().unwrap()).is_nan());
        if method == Downsampling::Mean {
            assert_eq!(f32::from_le_bytes(bytes[4..].try_into().unwrap()), 2.75);
        }
    }
}

#[test]
fn truth_is_decided_by_the_many() {
    let values = [1, 1, 0, 0, 1, 0, 1, 0];
    let new = NewArray { shape: vec![2, 4], data_type: DataType::Bool, ..NewArray::default() };
    let sample = Sample::new(ImageVersion::V05, "yx", new, &values);
    let built =
        block_on(build(&sample.store, "", &options(Downsampling::Mean, Factors::default(), 2))).unwrap();
    assert_eq!(built.method, Downsampling::Mode);
    assert_eq!(sample.read("1").1, [1, 0]);
}

#[test]
fn gaussian_levels_do_not_show_how_they_were_cut() {
    let mut noise = Noise(3);
    for factors in
        [Factors::Plane(2), Factors::Plane(3), Factors::Space(vec![2, 2, 2]), Factors::Space(vec![4, 1, 5])]
    {
        let shape = [6, 61, 47];
        let bytes: Vec<u8> = (0..6 * 61 * 47).map(|_| noise.next(256) as u8).collect();
        let mut seen: Option<Vec<u8>> = None;
        for chunks in [[6, 61, 47], [1, 16, 16], [4, 7, 9]] {
            let sample = Sample::new(ImageVersion::V05, "zyx", u8_array(&shape, &chunks), &bytes);
            let options = PyramidOptions {
                context: Context::shared().with_memory(1 << 20),
                ..options(Downsampling::Gaussian, factors.clone(), 3)
            };
            block_on(build(&sample.store, "", &options)).unwrap();
            let found = [sample.read("1").1, sample.read("2").1].concat();
            assert_eq!(seen.get_or_insert_with(|| found.clone()), &found, "{factors:?} {chunks:?}");
        }
    }
}

#[test]
fn metadata_say_what_was_made() {
    for version in
        [ImageVersion::V02, ImageVersion::V03, ImageVersion::V04, ImageVersion::V05, ImageVersion::V06]
    {
        let new = u8_array(&[1, 2, 1, 8, 8], &[1, 1, 1, 4, 4]);
        let bytes = [PICTURE, PICTURE].concat();
        let sample = Sample::new(version, "tczyx", new, &bytes);
        let before = sample.read("0");
        block_on(build(&sample.store, "", &options(Downsampling::Mean, Factors::default(), 3))).unwrap();
        let m = sample.multiscale();
        assert_eq!(
            m.levels.iter().map(|l| l.path.as_str()).collect::<Vec<_>>(),
            ["0", "1", "2"],
            "{version}"
        );
        assert_eq!(m.method.as_deref(), Some("mean"));
        if sample.version >= ImageVersion::V04 {
            assert_eq!(m.levels[2].scale, Some(vec![0.5, 0.5, 0.5, 2.0, 2.0]));
            assert_eq!(m.levels[2].translation, Some(vec![0.0, 0.0, 0.0, 0.75, 0.75]));
        }
        let array = block_on(hierarchy::open_array(&sample.store, "1", &Context::shared())).unwrap();
        if version.separator().is_some() {
            assert_eq!(Some(array.meta().keys.separator), version.separator());
        }
        let named =
            array.meta().dimension_names.as_ref().map(|n| n.iter().flatten().cloned().collect::<String>());
        let wanted = !matches!(version, ImageVersion::V02 | ImageVersion::V04);
        assert_eq!(named.as_deref(), wanted.then_some("tczyx"), "{version}");
        assert_eq!(sample.read("0"), before);
        assert!(block_on(sample.store.get(".zaro-pyramid.json", None)).unwrap().is_none());
    }
}

#[test]
fn levels_that_are_there_are_replaced_only_when_asked_for() {
    let sample = Sample::new(ImageVersion::V05, "yx", u8_array(&[8, 8], &[4, 4]), &PICTURE);
    block_on(build(&sample.store, "", &options(Downsampling::Mean, Factors::default(), 3))).unwrap();
    let again = options(Downsampling::Decimate, Factors::default(), 2);
    assert_eq!(block_on(build(&sample.store, "", &again)).unwrap_err().kind(), crate::ErrorKind::Usage);
    block_on(build(&sample.store, "", &PyramidOptions { existing: Existing::Replace, ..again })).unwrap();
    assert_eq!(sample.multiscale().levels.len(), 2);
    assert_eq!(sample.multiscale().levels[1].translation, None);
    assert_eq!(sample.read("1").1[..4], [0, 20, 40, 60]);
    assert!(block_on(hierarchy::find(&sample.store, "2")).unwrap().is_none());
    // What is in the way and nobody has named is not deleted unasked.
    block_on(hierarchy::create_group(&sample.store, "2", Format::V3, &Json::object(), Existing::Refuse))
        .unwrap();
    let third = options(Downsampling::Mean, Factors::default(), 3);
    let fresh = Sample::new(ImageVersion::V05, "yx", u8_array(&[8, 8], &[4, 4]), &PICTURE);
    block_on(hierarchy::create_group(&fresh.store, "2", Format::V3, &Json::object(), Existing::Refuse))
        .unwrap();
    assert!(block_on(build(&fresh.store, "", &third)).is_err());
    assert_eq!(fresh.multiscale().levels.len(), 1);
    assert!(block_on(hierarchy::find(&fresh.store, "1")).unwrap().is_none());
}

#[test]
fn what_was_stopped_goes_on() {
    let bytes: Vec<u8> = (0..256u32 * 256).map(|i| (i * i / 7) as u8).collect();
    let whole = Sample::new(ImageVersion::V05, "yx", u8_array(&[256, 256], &[16, 16]), &bytes);
    let plain = options(Downsampling::Mean, Factors::default(), 4);
    assert!(!block_on(build(&whole.store, "", &plain)).unwrap().resumed);
    let mut stops = 0;
    for after in [1u64, 5_000, 40_000, 65_000, 70_000] {
        let sample = Sample::new(ImageVersion::V05, "yx", u8_array(&[256, 256], &[16, 16]), &bytes);
        let cancel = CancelToken::new();
        let seen = cancel.clone();
        let progress = move |p: Progress| {
            if p.done >= after {
                seen.cancel();
            }
        };
        let task = crate::task::Task::default().with_progress(progress).with_cancel(&cancel);
        let stopped = PyramidOptions { task, ..plain.clone() };
        if block_on(build(&sample.store, "", &stopped)).is_err() {
            stops += 1;
            // Nobody sees levels that are not whole.
            assert_eq!(sample.multiscale().levels.len(), 1);
            assert!(block_on(hierarchy::find(&sample.store, "1")).unwrap().is_none());
            // Others do not go on with it.
            let other = options(Downsampling::Mode, Factors::default(), 4);
            assert_eq!(
                block_on(build(&sample.store, "", &other)).unwrap_err().kind(),
                crate::ErrorKind::Usage
            );
            assert!(block_on(build(&sample.store, "", &plain)).unwrap().resumed);
        }
        for level in ["1", "2", "3"] {
            assert_eq!(sample.read(level), whole.read(level), "{after}");
        }
    }
    assert!(stops >= 3);
}

#[test]
fn an_array_becomes_an_image() {
    let store = memory();
    let new = NewArray { keys: None, ..u8_array(&[8, 8], &[4, 4]) };
    let array = block_on(hierarchy::create_array(&store, "g/picture", &new, Existing::Refuse)).unwrap();
    array
        .write_slab_blocking(
            &Selection::all(),
            Values::new(PICTURE.to_vec(), Order::C),
            &WriteOptions::default(),
        )
        .unwrap();
    let own =
        crate::meta::edit::AttributesEdit::Patch { set: vec![("mine".into(), Json::int(1))], unset: vec![] };
    block_on(hierarchy::edit_attributes(&store, "g", &own)).unwrap();
    let options = options(Downsampling::Mean, Factors::default(), 2);
    assert!(block_on(build_from_array(&store, "g/picture", &Frame::default(), &options)).is_err());
    let mut x = Axis::named("x");
    x.unit = Some("micrometer".into());
    let frame = Frame {
        axes: vec![Axis::named("y"), x],
        scale: vec![2.0, 0.25],
        name: Some("p".into()),
        version: Some(ImageVersion::V06),
    };
    let built = block_on(build_from_array(&store, "g/picture", &frame, &options)).unwrap();
    assert_eq!(built.levels, [("1".to_owned(), vec![4, 4])]);
    let node = block_on(hierarchy::find(&store, "g")).unwrap().unwrap();
    assert_eq!(node.meta.attributes().get("mine"), Some(&Json::int(1)));
    let m = parse::group(node.meta.attributes()).multiscales.remove(0);
    assert_eq!(m.levels[1].scale, Some(vec![4.0, 0.5]));
    assert_eq!(m.levels[1].translation, Some(vec![1.0, 0.125]));
    assert_eq!(m.axes[1].unit.as_deref(), Some("micrometer"));
    assert!(block_on(build_from_array(&store, "g/picture", &frame, &options)).is_err());
}
