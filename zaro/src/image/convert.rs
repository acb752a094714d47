//! Converts image files to OME-Zarr.
//!
//! The largest level is written block by block. A block is as many whole chunks or shards as the file yields together,
//! so that nothing is decoded twice and no chunk is written twice; as many blocks as fit into memory are processed
//! concurrently. The smaller levels follow. An image or collection becomes visible only when it is complete (`create`).

mod extent;

use std::sync::{Arc, Mutex};

use bytes::BytesMut;

use crate::array::{Array, Order, Selection, Values, WriteOptions};
use crate::boxed;
use crate::context::Context;
use crate::copy;
use crate::create::New;
use crate::error::{Error, Result, usage};
use crate::hierarchy::{self, Existing};
use crate::image::document;
use crate::image::model::{Axis, Channel, ChannelWindow, ColorModel, Level, Multiscale, Omero};
use crate::image::pyramid::{self, Downsampling, PyramidOptions};
use crate::image::render::default_colors;
use crate::image::source::{C, ImageSource, X, Y, Z, metadata_only};
use crate::image::version::ImageVersion;
use crate::journal::Journal;
use crate::meta::create::NewArray;
use crate::meta::edit::AttributesEdit;
use crate::meta::path::{join, normal};
use crate::meta::{CodecMeta, DataType, Json};
use crate::num;
use crate::store::StoreExt as _;
use crate::store::{Condition, SharedStore};
use crate::task::{self, Meter, Operation, Task, Unit, lock};
use extent::ValueRange;

/// The approximate default chunk size in bytes.
const CHUNK_BYTES: u64 = 1 << 20;

/// The maximum default shard size in bytes.
const SHARD_BYTES: u64 = 32 << 20;

/// The longest side of a default chunk.
const CHUNK_SIDE: u64 = 1024;

/// Options for [`convert`].
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The OME-Zarr version to write; default: 0.5.
    pub version: Option<ImageVersion>,
    /// The chunk shape, in the order of the image's axes. If fewer lengths are given, the leading ones are 1.
    pub chunks: Option<Vec<u64>>,
    /// The shard shape, in the same form; default: no shards. From 0.5 on.
    pub shards: Option<Vec<u64>>,
    /// Use shards of a default shape if none is given, as recommended for archives. From 0.5 on.
    pub sharded: bool,
    /// The codecs, in encoding order; default: zstd.
    pub codecs: Option<Vec<CodecMeta>>,
    /// The number of levels; default: until y and x are small.
    pub levels: Option<usize>,
    /// The downsampling method.
    pub method: Option<Downsampling>,
    /// The name of the image; default: the file's.
    pub name: Option<String>,
    /// The pixel size along z, y and x, along y and x, or one for all; default: the file's.
    pub pixel_size: Option<Vec<f64>>,
    /// The unit of the pixel size; default: the file's.
    pub unit: Option<String>,
    /// Keep axes of length 1 that the files declare.
    pub keep_axes: bool,
    /// What to do if the destination exists.
    pub existing: Existing,
    /// Threads, connections and memory for it.
    pub context: Context,
    /// Progress, in bytes of pixels, and cancellation.
    pub task: Task,
}

/// A converted image.
#[derive(Debug, Clone)]
pub struct Converted {
    /// The path of its group.
    pub path: String,
    /// Its name.
    pub name: String,
    /// Its axes.
    pub axes: Vec<Axis>,
    /// The pixel size along each axis; 1 if unknown.
    pub scale: Vec<f64>,
    /// The type of its pixels.
    pub data_type: DataType,
    /// The shapes of its levels, the largest first.
    pub levels: Vec<Vec<u64>>,
}

impl Converted {
    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        Json::from([
            ("path", (&self.path).into()),
            ("name", (&self.name).into()),
            ("axes", self.axes.iter().map(|a| &a.name).collect()),
            ("scale", (&self.scale).into()),
            ("units", self.axes.iter().map(|a| a.unit.as_deref()).collect()),
            ("data_type", self.data_type.to_string().into()),
            ("levels", (&self.levels).into()),
        ])
    }
}

/// Converts sources to OME-Zarr at `path`: one source becomes an image, several a `bioformats2raw.layout` with the
/// images 0, 1, 2 and so on.
#[boxed]
pub async fn convert(
    sources: &[Arc<ImageSource>],
    store: &SharedStore,
    path: &str,
    options: &ConvertOptions,
) -> Result<Vec<Converted>> {
    let _operation = Operation::begin("image convert", store);
    let version = options.version.unwrap_or(ImageVersion::V05);
    if !matches!(version, ImageVersion::V04 | ImageVersion::V05 | ImageVersion::V06) {
        return Err(usage!("images can be written as OME-Zarr 0.4, 0.5 or 0.6, not {version}"));
    }
    if version < ImageVersion::V05 && options.shards.is_some() {
        return Err(usage!("OME-Zarr {version} has no shards; 0.5 has"));
    }
    if options.levels == Some(0) {
        return Err(Error::usage("an image needs at least one level"));
    }
    if !store.is_writable() {
        return Err(Error::unsupported("this kind of store cannot be written to").with_store(store));
    }
    let bytes = |s: &ImageSource| {
        num::product(&s.sizes)?.checked_mul(num::u64_of(s.data_type.size())).ok_or_else(too_large)
    };
    let total = sources.iter().try_fold(0u64, |n, s| Ok::<_, Error>(n.saturating_add(bytes(s)?)))?;
    // Before anything is created or replaced, so that an unreadable file does no harm.
    for source in sources {
        let source = source.clone();
        options.context.run(move || probe(&source)).await?;
    }
    // For progress, the smaller levels count as much as the largest, which is read in full for them.
    let total = if options.levels == Some(1) { total } else { total.saturating_mul(2) };
    let job = ConvertJob { version, options, meter: Arc::new(options.task.meter(Unit::Bytes, total)) };
    // Check everything before anything is written.
    let plans = sources.iter().map(|s| job.plan(s)).collect::<Result<Vec<_>>>()?;
    if sources.is_empty() {
        return Err(Error::usage("there is nothing to convert"));
    }
    let path = normal(path)?;
    let new = New {
        store,
        path: &path,
        format: version.format(),
        operation: "image convert",
        existing: options.existing,
        list: &(),
    };
    let place = new.take().await?;
    let job = ClaimedPlace { job: &job, store: &place.hidden, journal: &place.journal };
    let made = match (sources, plans.as_slice()) {
        ([source], [plan]) => job.image(source, plan, "").await.map(|one| vec![one]),
        _ => job.collection(sources, &plans).await,
    };
    let mut made = new.finish(place, made).await?;
    store.finish().await?;
    for one in &mut made {
        one.path = join(&path, &one.path);
    }
    Ok(made)
}

/// Decodes the first pixel and the last.
fn probe(source: &ImageSource) -> Result<()> {
    if source.sizes.contains(&0) {
        return Ok(());
    }
    let mut pixel = vec![0; source.data_type.size()];
    source.read_block([0; 5], [1; 5], &mut pixel)?;
    source.read_block(source.sizes.map(|n| n - 1), [1; 5], &mut pixel)
}

fn too_large() -> Error {
    Error::unsupported("images of more than 2^64 bytes are not supported")
}

/// A conversion under way.
struct ConvertJob<'a> {
    version: ImageVersion,
    options: &'a ConvertOptions,
    meter: Arc<Meter>,
}

/// The layout of an image to be written.
struct ConvertPlan {
    /// The indexes of its axes among t, c, z, y, x.
    used: Vec<usize>,
    axes: Vec<Axis>,
    scale: Vec<f64>,
    array: NewArray,
}

impl ConvertJob<'_> {
    fn plan(&self, source: &ImageSource) -> Result<ConvertPlan> {
        let used = source.used(self.options.keep_axes);
        let mut axes = source.axes(&used);
        let of = |i: &usize| source.scale.get(*i).copied().flatten().unwrap_or(1.0);
        let mut scale: Vec<f64> = used.iter().map(of).collect();
        if let Some(sizes) = &self.options.pixel_size {
            set_pixel_size(&used, sizes, &mut scale)?;
        }
        if let Some(unit) = &self.options.unit {
            for (axis, i) in axes.iter_mut().zip(&used) {
                if *i >= Z {
                    axis.unit = Some(unit.clone());
                }
            }
        }
        let shape: Vec<u64> = used.iter().filter_map(|i| source.sizes.get(*i)).copied().collect();
        let full = |name: &str, given: &Option<Vec<u64>>| match given {
            None => Ok(None),
            Some(list) if list.len() <= shape.len() && !list.is_empty() => {
                let missing = shape.len() - list.len();
                Ok(Some(std::iter::repeat_n(1, missing).chain(list.iter().copied()).collect::<Vec<u64>>()))
            }
            Some(list) => {
                Err(usage!("{} {name} are given, but the image has {} axes", list.len(), shape.len()))
            }
        };
        let shards = full("lengths of shards", &self.options.shards)?;
        let chunks = match full("lengths of chunks", &self.options.chunks)? {
            // Chunks are clipped to the image; with shards, they must divide the shard.
            Some(chunks) if shards.is_none() => chunks.iter().zip(&shape).map(|(c, n)| *c.min(n)).collect(),
            Some(chunks) => chunks,
            None => {
                let chunks = default_chunks(source, &used);
                match &shards {
                    Some(shards) => chunks.iter().zip(shards).map(|(c, s)| dividing(*c, *s)).collect(),
                    None => chunks,
                }
            }
        };
        let shards = match shards {
            None if self.options.sharded && self.version >= ImageVersion::V05 => {
                default_shards(&chunks, &shape, num::u64_of(source.data_type.size()))
            }
            shards => shards,
        };
        let mut array = NewArray {
            shape,
            data_type: source.data_type.clone(),
            chunks: Some(chunks),
            shards,
            codecs: self.options.codecs.clone(),
            ..NewArray::default()
        };
        document::prepare(&mut array, self.version, &axes);
        // Validates the array and the levels.
        let meta = array.meta()?;
        if self.options.levels != Some(1) {
            pyramid::check(&meta, &axes, &self.levels(&array))?;
        }
        Ok(ConvertPlan { used, axes, scale, array })
    }

    /// Options for the smaller levels.
    fn levels(&self, array: &NewArray) -> PyramidOptions {
        PyramidOptions {
            levels: self.options.levels,
            method: self.options.method,
            chunks: array.chunks.clone(),
            shards: Some(array.shards.clone()),
            codecs: self.options.codecs.clone(),
            context: self.options.context.clone(),
            task: self.options.task.without_progress(),
            ..PyramidOptions::default()
        }
    }
}

/// A plan with the destination claimed for it.
struct ClaimedPlace<'a> {
    job: &'a ConvertJob<'a>,
    store: &'a SharedStore,
    journal: &'a Journal,
}

impl<'a> std::ops::Deref for ClaimedPlace<'a> {
    type Target = ConvertJob<'a>;

    fn deref(&self) -> &ConvertJob<'a> {
        self.job
    }
}

impl ClaimedPlace<'_> {
    async fn image(&self, source: &Arc<ImageSource>, plan: &ConvertPlan, path: &str) -> Result<Converted> {
        let format = self.version.format();
        hierarchy::create_group(self.store, path, format, &Json::object(), Existing::Refuse).await?;
        let array =
            hierarchy::create_array(self.store, &join(path, "0"), &plan.array, Existing::Refuse).await?;
        let array = array.with_context(&self.options.context)?.unseen();
        let extents = self.pixels(source, plan, &array).await?;
        let name = self.options.name.clone().unwrap_or_else(|| source.name.clone());
        let multiscale = Multiscale {
            name: Some(name.clone()),
            axes: plan.axes.clone(),
            levels: vec![Level { path: "0".into(), scale: Some(plan.scale.clone()), translation: None }],
            method: None,
        };
        let omero = omero(source, &name, &extents);
        let attributes = document::image(self.version, &multiscale, Some(&omero), None);
        self.describe(path, attributes).await?;
        let mut levels = vec![plan.array.shape.clone()];
        if self.options.levels != Some(1) {
            levels.extend(self.smaller(source, plan, path).await?);
        }
        Ok(Converted {
            path: path.to_owned(),
            name,
            axes: plan.axes.clone(),
            scale: plan.scale.clone(),
            data_type: source.data_type.clone(),
            levels,
        })
    }

    /// Writes the attributes of a group.
    async fn describe(&self, path: &str, attributes: Json) -> Result<()> {
        let Json::Object(members) = attributes else { return Ok(()) };
        hierarchy::edit_attributes(self.store, path, &AttributesEdit::Replace(members)).await
    }

    async fn smaller(&self, source: &ImageSource, plan: &ConvertPlan, path: &str) -> Result<Vec<Vec<u64>>> {
        let before = self.meter.done();
        let mut options = self.levels(&plan.array);
        if self.meter.is_watched() {
            let meter = self.meter.clone();
            options.task = options.task.with_progress(move |p| meter.set(before.saturating_add(p.done)));
        }
        let built = pyramid::build_within(self.store, path, &options, self.journal).await?;
        let bytes = num::product(&source.sizes)?.saturating_mul(num::u64_of(source.data_type.size()));
        self.meter.set(before.saturating_add(bytes));
        Ok(built.levels.into_iter().map(|(_, shape)| shape).collect())
    }

    async fn collection(
        &self,
        sources: &[Arc<ImageSource>],
        plans: &[ConvertPlan],
    ) -> Result<Vec<Converted>> {
        let format = self.version.format();
        let empty = Json::object();
        hierarchy::create_group(self.store, "", format, &empty, Existing::Refuse).await?;
        let mut made = Vec::new();
        for (i, (source, plan)) in sources.iter().zip(plans).enumerate() {
            made.push(self.image(source, plan, &i.to_string()).await?);
        }
        let series = (0..sources.len()).map(|i| Json::string(i.to_string())).collect();
        let listed = document::group(self.version, vec![("series".to_owned(), Json::Array(series))]);
        hierarchy::create_group(self.store, "OME", format, &listed, Existing::Refuse).await?;
        let xml = metadata_only(sources)?;
        let _ = self.store.put("OME/METADATA.ome.xml", xml.into(), Condition::Always).await?;
        let layout = vec![("bioformats2raw.layout".to_owned(), Json::int(3))];
        self.describe("", document::group(self.version, layout)).await?;
        Ok(made)
    }

    /// Writes all pixels of the largest level; returns the value range of each channel.
    async fn pixels(
        &self,
        source: &Arc<ImageSource>,
        plan: &ConvertPlan,
        array: &Array,
    ) -> Result<Vec<ValueRange>> {
        let outer = plan.array.shards.as_ref().or(plan.array.chunks.as_ref());
        let outer = five(&plan.used, outer.map(Vec::as_slice).unwrap_or_default());
        let blocks = ConvertBlocks::new(source, outer, &self.options.context)?;
        let size = num::u64_of(source.data_type.size());
        let channels = num::usize_of(source.sizes[C])?;
        let extents = &Arc::new(Mutex::new(ValueRange::of_channels(&source.data_type, channels)));
        let options = &WriteOptions {
            single_writer: true,
            assume_empty: true,
            task: self.options.task.without_progress(),
            ..WriteOptions::default()
        };
        // Buffers reused from block to block.
        let (blocks, spare) = (&blocks, &Mutex::new(Vec::new()));
        task::each(blocks.workers, 0..blocks.all.count()?, |i| async move {
            self.options.task.check()?;
            self.journal.beat().await?;
            let (start, count) = blocks.at(i);
            let bytes = num::product(&count)?.saturating_mul(size);
            let mut buffer: BytesMut = lock(spare).pop().unwrap_or_default();
            let (source, extents) = (source.clone(), extents.clone());
            let pixels = self
                .options
                .context
                .run(move || {
                    buffer.resize(num::usize_of(bytes)?, 0);
                    source.read_block(start, count, &mut buffer)?;
                    extent::widen(&extents, &source.data_type, start[C], count, &buffer)?;
                    Ok(buffer.freeze())
                })
                .await?;
            let pick =
                |all: [u64; 5]| plan.used.iter().filter_map(|i| all.get(*i)).copied().collect::<Vec<_>>();
            let place = Selection::start_count(&pick(start), &pick(count));
            array.write_slab(&place, Values::new(pixels.clone(), Order::C), options).await?;
            lock(spare).extend(pixels.try_into_mut().ok());
            self.meter.advance(bytes);
            Ok(())
        })
        .await?;
        Ok(std::mem::take(&mut *lock(extents)))
    }
}

/// Expands values along the used axes to all five; the others are 1.
fn five(used: &[usize], list: &[u64]) -> [u64; 5] {
    let mut all = [1; 5];
    for (i, n) in used.iter().zip(list) {
        if let Some(to) = all.get_mut(*i) {
            *to = (*n).max(1);
        }
    }
    all
}

/// The division of an image into blocks that are read and written together.
struct ConvertBlocks {
    all: copy::Blocks,
    /// How many are processed concurrently.
    workers: usize,
}

impl ConvertBlocks {
    /// Blocks of whole chunks or shards of the shape `outer`.
    fn new(source: &ImageSource, outer: [u64; 5], context: &Context) -> Result<Self> {
        let sizes = source.sizes;
        let size = num::u64_of(source.data_type.size().max(1));
        let memory = num::u64_of(context.memory());
        let bytes = |shape: &[u64; 5]| {
            shape.iter().zip(sizes).fold(size, |n, (s, whole)| n.saturating_mul((*s).min(whole)))
        };
        let mut workers = num::u64_of(context.threads()).clamp(2, 16);
        // Half of the memory budget for blocks; decoding and encoding need some, too.
        let budget = |workers: u64| memory / 2 / workers.max(1);
        while workers > 1 && bytes(&outer) > budget(workers) {
            workers -= 1;
        }
        let mut shape = outer;
        let [c, y, x] = source.grain();
        // First everything that is decoded together, so that it is decoded once; then more of the same rows.
        for (axis, grain) in [(C, c), (Y, y), (X, x), (X, u64::MAX)] {
            let (Some(step), Some(whole)) = (outer.get(axis).copied(), sizes.get(axis).copied()) else {
                continue;
            };
            let wanted = grain.min(whole).div_ceil(step).saturating_mul(step);
            let mut longer = shape;
            if let Some(to) = longer.get_mut(axis) {
                *to = wanted.max(*to);
            }
            // For data compressed as one piece, fewer workers are better than decoding it repeatedly.
            let alone = axis != X;
            if bytes(&longer) <= budget(workers) {
                shape = longer;
            } else if alone && bytes(&longer) <= budget(1) {
                shape = longer;
                while workers > 1 && bytes(&shape) > budget(workers) {
                    workers -= 1;
                }
            } else if axis == X {
                let one = bytes(&shape).max(1);
                let times = (budget(workers) / one).max(1);
                if let Some(to) = shape.get_mut(X) {
                    *to = to.saturating_mul(times).min(wanted.max(*to));
                }
            }
        }
        Ok(Self { all: copy::Blocks::new(&sizes, shape.to_vec()), workers: num::usize_of(workers)? })
    }

    /// The start and the shape of a block.
    fn at(&self, number: u64) -> ([u64; 5], [u64; 5]) {
        let (start, count) = self.all.place(number);
        (start.try_into().unwrap_or_default(), count.try_into().unwrap_or_default())
    }
}

fn set_pixel_size(used: &[usize], sizes: &[f64], scale: &mut [f64]) -> Result<()> {
    if sizes.iter().any(|s| !(s.is_finite() && *s > 0.0)) {
        return Err(usage!("invalid pixel sizes {sizes:?}"));
    }
    let axes: &[usize] = match sizes.len() {
        1 | 3 => &[Z, Y, X],
        2 => &[Y, X],
        n => {
            return Err(usage!("{n} pixel sizes given; use one, two (y,x) or three (z,y,x)"));
        }
    };
    for (k, axis) in axes.iter().enumerate() {
        let size = sizes.get(k).or(sizes.first()).copied().unwrap_or(1.0);
        if let Some(to) = used.iter().position(|i| i == axis).and_then(|i| scale.get_mut(i)) {
            *to = size;
        }
    }
    Ok(())
}

/// Chunks of about 1 MiB: planes or parts of planes up to 1024 by 1024; for small planes, several along z.
fn default_chunks(source: &ImageSource, used: &[usize]) -> Vec<u64> {
    let [.., z, y, x] = source.sizes;
    let size = num::u64_of(source.data_type.size().max(1));
    let side = if size <= 2 { CHUNK_SIDE } else { CHUNK_SIDE / 2 };
    // Avoid slivers at the end: slightly longer sides are one chunk.
    let cut = |n: u64| if n <= side + side / 4 { n } else { side };
    let (y, x) = (cut(y), cut(x));
    let plane = y.saturating_mul(x).saturating_mul(size).max(1);
    let mut deep = 1u64;
    while deep < z && deep.saturating_mul(plane) < CHUNK_BYTES {
        deep = deep.saturating_mul(2);
    }
    let deep = z.div_ceil(z.div_ceil(deep.max(1)).max(1));
    let all = [1, 1, deep.max(1), y, x];
    used.iter().filter_map(|i| all.get(*i)).copied().collect()
}

/// Shards of about 32 MiB: more chunks along x and y, then along the leading axes. `None` for an image of one chunk.
fn default_shards(chunks: &[u64], shape: &[u64], size: u64) -> Option<Vec<u64>> {
    let mut shards = chunks.to_vec();
    let bytes = |shards: &[u64]| shards.iter().fold(size, |n, s| n.saturating_mul(*s));
    // Alternate x and y, so that shards are about square.
    let last = shape.len().saturating_sub(1);
    let plane = [last, last.saturating_sub(1)].into_iter().cycle().take(128);
    let others = (0..last.saturating_sub(1)).rev().flat_map(|axis| std::iter::repeat_n(axis, 64));
    for axis in plane.chain(others) {
        let mut more = shards.clone();
        let (Some(n), Some(whole)) = (more.get_mut(axis), shape.get(axis)) else { continue };
        if *n >= *whole {
            continue;
        }
        *n = n.saturating_mul(2);
        if bytes(&more) > SHARD_BYTES {
            continue;
        }
        shards = more;
    }
    let many = chunks.iter().zip(shape).any(|(c, n)| c < n);
    many.then_some(shards)
}

/// The largest divisor of `shard` that is at most `chunk`.
fn dividing(chunk: u64, shard: u64) -> u64 {
    let least = shard.div_ceil(chunk.max(1)).max(1);
    (least..=least.saturating_add(4096))
        .find(|k| shard.checked_rem(*k) == Some(0))
        .and_then(|k| shard.checked_div(k))
        .filter(|c| *c > 0)
        .unwrap_or(shard)
}

/// Rendering settings: those of the file; otherwise windows that cover nearly all pixels, and distinct colours.
fn omero(source: &ImageSource, name: &str, extents: &[ValueRange]) -> Omero {
    let colors = default_colors(extents.len());
    let top = match &source.data_type {
        DataType::UInt(8) => Some(255.0),
        DataType::UInt(16) => Some(65535.0),
        _ => None,
    };
    let channel = |(i, extent): (usize, &ValueRange)| {
        let mut channel = source
            .channels
            .get(i)
            .cloned()
            .unwrap_or_else(|| Channel { active: i < 6, ..Channel::default() });
        let ((least, most), (low, high)) = match top.filter(|_| source.is_rgb) {
            Some(top) => ((0.0, top), (0.0, top)),
            None => (extent.between(), extent.shown()),
        };
        let given = channel.window;
        let start = given.start.unwrap_or(low);
        let end = given.end.unwrap_or(high);
        channel.window = ChannelWindow {
            start: Some(start),
            end: Some(if end > start { end } else { start + 1.0 }),
            min: Some(least),
            max: Some(if most > least { most } else { least + 1.0 }),
        };
        channel.color = channel.color.or_else(|| Some(colors.get(i).copied().unwrap_or([255; 3])));
        channel
    };
    let channels: Vec<Channel> = extents.iter().enumerate().map(channel).collect();
    let grey = channels.len() == 1 && channels.iter().all(|c| c.color == Some([255; 3]));
    Omero {
        name: Some(name.to_owned()),
        channels,
        default_z: Some(source.sizes[Z] / 2),
        default_t: Some(0),
        model: Some(if grey { ColorModel::Greyscale } else { ColorModel::Color }),
        projection: None,
    }
}

#[cfg(test)]
mod tests;
