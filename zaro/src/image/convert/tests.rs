//! Tests of conversions from a source in memory.

use super::*;
use crate::array::ReadOptions;
use crate::blocking::block_on;
use crate::context::Context;
use crate::group::{OpenOptions, Zarr};
use crate::image::find::{Found, find, image_at};
use crate::image::source::{Pixels, T};
use crate::store::memory::MemoryStore;

/// Numbers that say where they are.
struct Counted {
    sizes: [u64; 5],
    grain: [u64; 3],
}

impl Pixels for Counted {
    fn read(&self, w: &crate::image::source::PlaneWindow, out: &mut [u8]) -> Result<()> {
        let [_, cs, zs, ys, xs] = self.sizes;
        let mut numbers = Vec::new();
        for c in w.c.clone() {
            for y in w.y.clone() {
                for x in w.x.clone() {
                    numbers.push((((w.t * cs + c) * zs + w.z) * ys + y) * xs + x + 1);
                }
            }
        }
        for (to, n) in out.chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&u32::try_from(n).unwrap().to_le_bytes());
        }
        Ok(())
    }

    fn grain(&self) -> [u64; 3] {
        self.grain
    }
}

fn counted(sizes: [u64; 5], grain: [u64; 3]) -> Arc<ImageSource> {
    let mut source =
        ImageSource::new("counted".into(), sizes, DataType::UInt(32), Arc::new(Counted { sizes, grain }));
    source.scale[X] = Some(0.25);
    source.units[X] = Some("micrometer".into());
    source.declared[T] = true;
    Arc::new(source)
}

fn open(store: &SharedStore) -> Zarr {
    block_on(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap()
}

fn pixels(store: &SharedStore, path: &str) -> Vec<u32> {
    let array = block_on(open(store).array(path)).unwrap();
    array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().to_vec().unwrap()
}

#[test]
fn every_pixel_is_in_its_place_whatever_the_blocks() {
    for (grain, memory, chunks, shards) in [
        ([1, 1, 1], 1 << 28, None, None),
        ([3, 5, 50], 1 << 28, Some(vec![1, 1, 2, 16, 16]), None),
        ([3, 37, 50], 1 << 12, Some(vec![16, 16]), None),
        ([u64::MAX, 8, 8], 1 << 16, Some(vec![1, 2, 1, 8, 8]), Some(vec![1, 2, 2, 32, 32])),
    ] {
        let source = counted([2, 3, 4, 37, 50], grain);
        let store: SharedStore = Arc::new(MemoryStore::new());
        let options = ConvertOptions {
            context: Context::shared().with_memory(memory),
            chunks,
            shards,
            levels: Some(1),
            ..ConvertOptions::default()
        };
        let made = block_on(convert(std::slice::from_ref(&source), &store, "a/b", &options)).unwrap();
        assert_eq!(made[0].levels, [[2, 3, 4, 37, 50]]);
        let wanted: Vec<u32> = (1..=2 * 3 * 4 * 37 * 50).collect();
        assert_eq!(pixels(&store, "a/b/0"), wanted, "{grain:?} {memory}");
        let image = block_on(image_at(&open(&store), "a/b")).unwrap();
        let windows: Vec<_> =
            image.omero.unwrap().channels.iter().map(|c| (c.window.min, c.window.max)).collect();
        let volume = 4.0 * 37.0 * 50.0;
        assert_eq!(windows[1], (Some(volume + 1.0), Some(volume * 5.0)));
        assert_eq!(image.multiscales[0].levels[0].scale.as_deref(), Some(&[1.0, 1.0, 1.0, 1.0, 0.25][..]));
    }
}

#[test]
fn short_axes_are_left_out_unless_they_are_kept() {
    let source = counted([1, 1, 1, 300, 280], [1, 1, 1]);
    for (keep_axes, axes) in [(false, "yx"), (true, "tyx")] {
        for version in [ImageVersion::V04, ImageVersion::V05, ImageVersion::V06] {
            let store: SharedStore = Arc::new(MemoryStore::new());
            let options = ConvertOptions { keep_axes, version: Some(version), ..ConvertOptions::default() };
            let made = block_on(convert(std::slice::from_ref(&source), &store, "", &options)).unwrap();
            assert!(made[0].levels.len() > 1);
            let image = block_on(image_at(&open(&store), "")).unwrap();
            let names: String = image.multiscales[0].axes.iter().map(|a| a.name.as_str()).collect();
            assert_eq!((names.as_str(), image.version), (axes, version));
            assert_eq!(image.multiscales[0].levels.len(), made[0].levels.len());
        }
    }
}

#[test]
fn several_images_are_a_collection() {
    let sources = [counted([1, 1, 1, 5, 6], [1, 1, 1]), counted([1, 2, 1, 7, 8], [1, 1, 1])];
    for version in [ImageVersion::V04, ImageVersion::V05] {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let options = ConvertOptions { version: Some(version), ..ConvertOptions::default() };
        block_on(convert(&sources, &store, "", &options)).unwrap();
        match block_on(find(&open(&store), "")).unwrap() {
            Found::Collection { images, .. } => assert_eq!(images, ["0", "1"]),
            other => panic!("{other:?}"),
        }
        let xml = block_on(store.get("OME/METADATA.ome.xml", None)).unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&xml).matches("<MetadataOnly/>").count(), 2);
        assert_eq!(pixels(&store, "1/0").len(), 2 * 7 * 8);
    }
}

#[test]
fn nothing_is_replaced_unasked_and_nonsense_is_refused_before_anything_is_written() {
    let source = counted([1, 1, 1, 5, 6], [1, 1, 1]);
    let sources = std::slice::from_ref(&source);
    let store: SharedStore = Arc::new(MemoryStore::new());
    let good = ConvertOptions { levels: Some(1), ..ConvertOptions::default() };
    for bad in [
        ConvertOptions { version: Some(ImageVersion::V03), ..good.clone() },
        ConvertOptions { version: Some(ImageVersion::V04), shards: Some(vec![4, 4]), ..good.clone() },
        ConvertOptions { chunks: Some(vec![1, 1, 1]), ..good.clone() },
        ConvertOptions { chunks: Some(vec![0, 1]), ..good.clone() },
        ConvertOptions { chunks: Some(vec![3, 3]), shards: Some(vec![4, 4]), ..good.clone() },
        ConvertOptions { pixel_size: Some(vec![1.0; 4]), ..good.clone() },
        ConvertOptions { pixel_size: Some(vec![-1.0]), ..good.clone() },
        ConvertOptions { levels: Some(0), ..good.clone() },
    ] {
        assert!(block_on(convert(sources, &store, "", &bad)).is_err(), "{bad:?}");
        assert!(block_on(store.list("")).unwrap().objects.is_empty(), "{bad:?}");
    }
    block_on(convert(sources, &store, "", &good)).unwrap();
    assert!(block_on(convert(sources, &store, "", &good)).is_err());
    let again = ConvertOptions { existing: Existing::Replace, pixel_size: Some(vec![3.0, 2.0]), ..good };
    let made = block_on(convert(sources, &store, "", &again)).unwrap();
    assert_eq!(made[0].scale, [3.0, 2.0]);
}

#[test]
fn chunks_nobody_chose() {
    let of = |sizes: [u64; 5]| {
        let mut source = (*counted(sizes, [1, 1, 1])).clone();
        source.data_type = DataType::UInt(16);
        default_chunks(&source, &[0, 1, 2, 3, 4])
    };
    assert_eq!(of([1, 1, 236, 275, 271]), [1, 1, 8, 275, 271]);
    assert_eq!(of([2, 3, 1, 8192, 8192]), [1, 1, 1, 1024, 1024]);
    assert_eq!(of([2, 3, 9, 1200, 2000]), [1, 1, 1, 1200, 1024]);
    assert_eq!((dividing(1024, 4096), dividing(1024, 3000), dividing(1024, 7)), (1024, 1000, 7));
}

/// Pixels of which those in the middle cannot be read.
struct Broken;

impl Pixels for Broken {
    fn read(&self, w: &crate::image::source::PlaneWindow, out: &mut [u8]) -> Result<()> {
        out.fill(1);
        if w.y.contains(&20) { Err(Error::invalid("a strip is damaged")) } else { Ok(()) }
    }

    fn grain(&self) -> [u64; 3] {
        [1, 1, 1]
    }
}

#[test]
fn what_fails_half_way_leaves_nothing() {
    let sizes = [1, 1, 1, 40, 30];
    let broken = || Arc::new(ImageSource::new("broken".into(), sizes, DataType::UINT8, Arc::new(Broken)));
    let good = counted(sizes, [1, 1, 1]);
    let options = ConvertOptions { chunks: Some(vec![4, 30]), ..ConvertOptions::default() };
    for sources in [vec![broken()], vec![good.clone(), broken()]] {
        for path in ["", "a/b"] {
            let store: SharedStore = Arc::new(MemoryStore::new());
            let e = block_on(convert(&sources, &store, path, &options)).unwrap_err();
            assert!(e.message().contains("damaged"), "{e}");
            let left = block_on(store.list("")).unwrap();
            assert!(left.objects.is_empty() && left.prefixes.is_empty(), "{left:?}");
        }
    }
    // What was there already stays.
    let store: SharedStore = Arc::new(MemoryStore::new());
    block_on(convert(std::slice::from_ref(&good), &store, "a/c", &options)).unwrap();
    block_on(convert(&[broken()], &store, "a/b", &options)).unwrap_err();
    assert_eq!(pixels(&store, "a/c/0").len(), 40 * 30);
    assert!(block_on(store.list("a/b")).unwrap().objects.is_empty());
    // Nothing is put beside what somebody keeps there.
    let _ = block_on(store.put("a/d/letter.txt", "x".into(), Condition::Always)).unwrap();
    block_on(convert(std::slice::from_ref(&good), &store, "a/d", &options)).unwrap_err();
    assert!(block_on(store.get("a/d/letter.txt", None)).unwrap().is_some());
}

#[test]
fn shards_nobody_chose() {
    assert_eq!(default_shards(&[1024, 1024], &[10_000, 10_000], 2), Some(vec![4096, 4096]));
    assert_eq!(default_shards(&[1, 1, 1, 64, 64], &[3, 2, 9, 100, 100], 1), Some(vec![4, 2, 16, 128, 128]));
    assert_eq!(default_shards(&[100, 100], &[100, 100], 1), None);
    assert_eq!(default_shards(&[1024, 4096], &[1024, 9000], 8), Some(vec![1024, 4096]));
}
