//! Adds labels to an image: a pyramid below `labels` or, as in the seed version, a plain array below `masks`.
//!
//! Labels have the image's axes; along each they have the length of the image, or 1. They are listed only when they are
//! complete.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::array::{Array, Index, Order, ReadOptions, Selection, Values, WriteOptions};
use crate::boxed;
use crate::context::Context;
use crate::copy::Blocks;
use crate::create::{New, NodeList};
use crate::error::{Error, ErrorKind, Result, usage};
use crate::group::Zarr;
use crate::hierarchy::{self, Existing};
use crate::image::find::{self, Image};
use crate::image::model::{Axis, LabelColor, Labels, Level, Multiscale};
use crate::image::pyramid::{self, Downsampling, Factors, PyramidOptions};
use crate::image::source::{AXES, ImageSource};
use crate::image::version::ImageVersion;
use crate::image::{document, parse};
use crate::journal::Journal;
use crate::meta::create::NewArray;
use crate::meta::edit::AttributesEdit;
use crate::meta::path::{ancestors, join, name_fault, normal, shown};
use crate::meta::{CodecMeta, DataType, Json};
use crate::num;
use crate::store::SharedStore;
use crate::task::{Operation, Task, Unit};

/// The source of label pixels.
#[derive(Debug, Clone)]
pub enum LabelSource {
    /// An array and its axes; empty to use the names of its dimensions, or the last axes of the image.
    Array(Box<Array>, Vec<Axis>),
    /// A file.
    File(Arc<ImageSource>),
}

/// Options for [`add`].
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct AddLabelsOptions {
    /// The colours and properties of values.
    pub labels: Labels,
    /// Write a plain array below `masks`, as in the seed version, instead of a pyramid below `labels`.
    pub as_mask: bool,
    /// The chunk shape; default: the image's.
    pub chunks: Option<Vec<u64>>,
    /// The shard shape; default: no shards.
    pub shards: Option<Vec<u64>>,
    /// The codecs, in encoding order; default: zstd.
    pub codecs: Option<Vec<CodecMeta>>,
    /// What to do if labels of this name exist.
    pub existing: Existing,
    /// Threads, connections and memory for it.
    pub context: Context,
    /// Progress, in bytes of pixels, and cancellation.
    pub task: Task,
}

/// The result of [`add`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The path of their group, or of a mask's array.
    pub path: String,
    /// The type of their pixels.
    pub data_type: DataType,
    /// The shapes of their levels, the largest first.
    pub levels: Vec<Vec<u64>>,
}

impl Added {
    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        Json::from([
            ("path", (&self.path).into()),
            ("data_type", self.data_type.to_string().into()),
            ("levels", (&self.levels).into()),
        ])
    }
}

/// Adds labels called `name` to the image at `path`.
#[boxed]
pub async fn add(
    store: &SharedStore,
    path: &str,
    name: &str,
    from: &LabelSource,
    options: &AddLabelsOptions,
) -> Result<Added> {
    let _operation = Operation::begin("image add-labels", store);
    let zarr = hierarchy::open(store).await?;
    let image = find::image_at(&zarr, path).await?;
    let folder = if options.as_mask { "masks" } else { "labels" };
    let name = checked_name(name)?;
    let at = join(&join(&image.path, folder), &name);
    if let LabelSource::Array(array, _) = from {
        let path = array.path();
        let nodes = [path.to_owned()];
        hierarchy::check_apart(array.store(), path, &nodes, store, &at, options.existing).await?;
    }
    LabelJob { store, zarr: &zarr, image: &image, name, at: at.clone(), from, options }
        .run()
        .await
        .map_err(|e| e.with_node(shown(&at)))
}

/// Removes the labels or the mask at `path` from the list of labels after a deletion. Returns whether it was listed.
#[boxed]
pub async fn unlist(store: &SharedStore, path: &str) -> Result<bool> {
    let path = normal(path)?;
    let mut was = false;
    for folder in ancestors(&path) {
        let key = folder.rsplit('/').next().unwrap_or(folder);
        if !matches!(key, "labels" | "masks") || hierarchy::find(store, folder).await?.is_none() {
            continue;
        }
        let name = path.strip_prefix(folder).unwrap_or(&path).trim_matches('/');
        let is_it = |n: &Json| n.as_str().is_some_and(|n| n.trim_matches('/') == name);
        let listed = |holder: Option<&Json>| {
            let names = holder?.get(key)?.items()?;
            names.iter().any(is_it).then(|| names.iter().filter(|n| !is_it(n)).cloned().collect::<Json>())
        };
        let node = hierarchy::need(store, folder).await?;
        let now = node.meta.attributes();
        if listed(Some(now)).or(listed(now.get("ome"))).is_none() {
            continue;
        }
        hierarchy::change_attributes(store, folder, |now| {
            let mut changed = now.clone();
            document::set_known(&mut changed, key, listed(Some(now)));
            if let (Some(names), Some(ome)) = (listed(now.get("ome")), changed.get_mut("ome")) {
                ome.set(key, names);
            }
            Ok(changed)
        })
        .await?;
        was = true;
    }
    Ok(was)
}

/// A name, which may be a path below `labels`.
fn checked_name(name: &str) -> Result<String> {
    let name = name.trim_matches('/');
    if name.is_empty() {
        return Err(Error::usage("labels need a name"));
    }
    for part in name.split('/') {
        if let Some(fault) = name_fault(part) {
            return Err(usage!("{part:?} cannot be a name: {fault}"));
        }
        if [".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"].contains(&part) {
            return Err(usage!("{part:?} cannot be a name: it is reserved for a metadata document"));
        }
    }
    Ok(name.to_owned())
}

struct LabelJob<'a> {
    store: &'a SharedStore,
    zarr: &'a Zarr,
    image: &'a Image,
    name: String,
    /// The path of the labels.
    at: String,
    from: &'a LabelSource,
    options: &'a AddLabelsOptions,
}

#[async_trait]
impl NodeList for LabelJob<'_> {
    async fn tell(&self, there: bool) -> Result<()> {
        self.edit_list(there).await
    }
}

impl LabelJob<'_> {
    async fn run(&self) -> Result<Added> {
        let version = self.image.version;
        if self.options.as_mask && version > ImageVersion::V01 {
            return Err(Error::usage(format!(
                "masks exist only before OME-Zarr 0.1, and this image has version {version}"
            ))
            .with_hint("as_mask", "if left out, adds labels"));
        }
        let multiscale = self.image.multiscale(None)?;
        let arrays = self.image.arrays(self.zarr, multiscale).await?;
        let first = arrays.first().ok_or_else(|| Error::invalid("the image has no levels"))?;
        let axes = &multiscale.axes;
        if axes.len() != first.shape().len() {
            return Err(Error::invalid("the image and its array differ in their number of dimensions"));
        }
        let places = self.places(axes)?;
        let shape = self.shape(axes, &places, first.shape())?;
        let data_type = self.data_type()?;
        let outer = first.meta().grid.largest();
        let usual = || {
            let inner = first.chain().shard().map_or(&outer, |s| &s.inner().decoded().shape);
            inner.iter().zip(&shape).map(|(c, n)| (*c).min((*n).max(1))).collect::<Vec<u64>>()
        };
        let mut new = NewArray {
            shape: shape.clone(),
            data_type: data_type.clone(),
            chunks: Some(self.options.chunks.clone().unwrap_or_else(usual)),
            shards: self.options.shards.clone(),
            codecs: self.options.codecs.clone(),
            ..NewArray::default()
        };
        if self.options.shards.is_some() && version < ImageVersion::V05 {
            return Err(usage!("OME-Zarr {version} has no shards; 0.5 has"));
        }
        document::prepare(&mut new, version, axes);
        if self.options.as_mask {
            new.attributes = self.mask_attributes(&data_type, multiscale);
        }
        new.meta()?;
        let made = New {
            store: self.store,
            path: &self.at,
            format: version.format(),
            operation: "image add-labels",
            existing: self.options.existing,
            list: self,
        };
        let place = made.take().await?;
        let added = self.make(&place.hidden, &place.journal, &new, &places, multiscale, &arrays).await;
        let added = made.finish(place, added).await?;
        self.store.finish().await?;
        Ok(added)
    }

    async fn make(
        &self,
        hidden: &SharedStore,
        journal: &Journal,
        new: &NewArray,
        places: &[Option<usize>],
        multiscale: &Multiscale,
        arrays: &[Array],
    ) -> Result<Added> {
        // A concurrent deletion of the image may have checked for journals before this one existed.
        hierarchy::need(self.store, &self.image.path).await?;
        let shape = &new.shape;
        let array_at = if self.options.as_mask { "" } else { "0" };
        let array = hierarchy::create_array(hidden, array_at, new, Existing::Refuse).await?;
        let array = array.with_context(&self.options.context)?.unseen();
        self.pixels(&array, places, journal).await?;
        let mut levels = vec![shape.clone()];
        if !self.options.as_mask {
            let shapes: Vec<Vec<u64>> = arrays.iter().map(|a| a.shape().to_vec()).collect();
            levels.extend(self.pyramid(hidden, journal, multiscale, shape, &shapes).await?);
        }
        Ok(Added { path: self.at.clone(), data_type: new.data_type.clone(), levels })
    }

    /// For each axis of the image, its index among the axes of the labels.
    fn places(&self, axes: &[Axis]) -> Result<Vec<Option<usize>>> {
        let rank = axes.len();
        match self.from {
            LabelSource::File(source) => {
                let of =
                    |axis: &Axis| AXES.iter().position(|a| axis.name.eq_ignore_ascii_case(&a.to_string()));
                let places: Vec<Option<usize>> = axes.iter().map(of).collect();
                let long = source.sizes.iter().enumerate().filter(|(_, n)| **n != 1);
                for (i, n) in long {
                    if !places.contains(&Some(i)) {
                        let name = AXES.get(i).map_or(String::new(), char::to_string);
                        return Err(usage!(
                            "the labels have the axis {name} of length {n}, the image does not"
                        ));
                    }
                }
                Ok(places)
            }
            LabelSource::Array(array, given) => {
                let own = array.shape().len();
                let names: Vec<String> = if !given.is_empty() {
                    given.iter().map(|a| a.name.clone()).collect()
                } else if let Some(names) = array.meta().dimension_names.as_ref().filter(|n| named(n, axes)) {
                    names.iter().flatten().cloned().collect()
                } else {
                    usual_names(axes, own)?
                };
                if names.len() != own {
                    return Err(usage!("{} axes are given, the labels have {own} dimensions", names.len()));
                }
                let place = |axis: &Axis| names.iter().position(|n| n.eq_ignore_ascii_case(&axis.name));
                let places: Vec<Option<usize>> = axes.iter().map(place).collect();
                let found: Vec<usize> = places.iter().flatten().copied().collect();
                if found.len() != own || !found.is_sorted() || rank < own {
                    let image: String = axes.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(",");
                    return Err(usage!(
                        "the labels' axes {} must be among the image's axes {image}, in the same order",
                        names.join(",")
                    ));
                }
                Ok(places)
            }
        }
    }

    fn own_shape(&self) -> Vec<u64> {
        match self.from {
            LabelSource::Array(array, _) => array.shape().to_vec(),
            LabelSource::File(source) => source.sizes.to_vec(),
        }
    }

    /// The shape of the labels with all axes of the image.
    fn shape(&self, axes: &[Axis], places: &[Option<usize>], image: &[u64]) -> Result<Vec<u64>> {
        let own = self.own_shape();
        let of = |p: &Option<usize>| p.and_then(|i| own.get(i)).copied().unwrap_or(1);
        let shape: Vec<u64> = places.iter().map(of).collect();
        for ((axis, n), wanted) in axes.iter().zip(&shape).zip(image) {
            if n != wanted && *n != 1 {
                return Err(usage!(
                    "along {} the labels have length {n}, but the image has {wanted}; use the same length, or 1",
                    axis.name
                ));
            }
        }
        Ok(shape)
    }

    /// The data type they are stored as.
    fn data_type(&self) -> Result<DataType> {
        let given = match self.from {
            LabelSource::Array(array, _) => &array.meta().data_type,
            LabelSource::File(source) => &source.data_type,
        };
        Ok(match given {
            DataType::Bool if self.options.as_mask => DataType::Bool,
            DataType::Bool | DataType::UInt(2 | 4) => DataType::UInt(8),
            DataType::Int(2 | 4) => DataType::Int(8),
            DataType::Int(_) | DataType::UInt(_) => given.clone(),
            other => return Err(usage!("labels must be integers, not {other}")),
        })
    }

    /// The relative path from the labels to the image's group.
    fn up(&self) -> String {
        "../".repeat(self.name.split('/').count().saturating_add(1))
    }

    /// The attributes of a seed mask.
    fn mask_attributes(&self, data_type: &DataType, multiscale: &Multiscale) -> Vec<(String, Json)> {
        let mut all = Vec::new();
        let colors = &self.options.labels.colors;
        if !colors.is_empty() {
            let mut packed = document::mask_colors(colors);
            if *data_type == DataType::Bool
                && let Some(color) = packed.get("1").cloned()
            {
                packed.remove("1");
                packed.set("true", color);
            }
            all.push(("color".to_owned(), packed));
        }
        if let Some(first) = multiscale.levels.first() {
            let array = format!("{}{}", self.up(), first.path.trim_matches('/'));
            all.push(("image".to_owned(), Json::from([("array", array.into())])));
        }
        all
    }

    /// Writes the pixels, block by block.
    async fn pixels(&self, array: &Array, places: &[Option<usize>], journal: &Journal) -> Result<()> {
        let memory = self.options.context.memory();
        let size = array.meta().data_type.size();
        let shape = array.shape().to_vec();
        let bytes =
            |block: &[u64]| num::product(block).map_or(u64::MAX, |n| n.saturating_mul(num::u64_of(size)));
        let mut block = array.meta().grid.largest();
        for d in (0..block.len()).rev() {
            while block.get(d) < shape.get(d) {
                let mut larger = block.clone();
                if let Some(n) = larger.get_mut(d) {
                    *n = n.saturating_mul(2);
                }
                if bytes(&larger) > num::u64_of(memory / 8) {
                    break;
                }
                block = larger;
            }
        }
        let blocks = Blocks::new(&shape, block);
        let meter = self.options.task.meter(Unit::Bytes, bytes(&shape));
        let write = WriteOptions {
            assume_empty: true,
            task: self.options.task.without_progress(),
            ..WriteOptions::default()
        };
        for i in 0..blocks.count()? {
            journal.beat().await?;
            let (start, count) = blocks.place(i);
            let values = self.read(places, &start, &count, size).await?;
            let place = Selection::start_count(&start, &count);
            array.write_slab(&place, Values::new(values, Order::C), &write).await?;
            meter.advance(bytes(&count));
        }
        Ok(())
    }

    /// Reads a block of the labels, named by the axes of the image.
    async fn read(
        &self,
        places: &[Option<usize>],
        start: &[u64],
        count: &[u64],
        size: usize,
    ) -> Result<Vec<u8>> {
        match self.from {
            LabelSource::Array(array, _) => {
                let mut spans = vec![Index::All; array.shape().len()];
                for ((place, s), n) in places.iter().zip(start).zip(count) {
                    if let Some(slot) = place.and_then(|p| spans.get_mut(p)) {
                        *slot = Index::Span(*s, *n);
                    }
                }
                let options =
                    ReadOptions { task: self.options.task.without_progress(), ..ReadOptions::default() };
                Ok(array.read_slab(&Selection::new(spans), &options).await?.bytes)
            }
            LabelSource::File(source) => {
                let (mut from, mut many) = ([0u64; 5], [1u64; 5]);
                for ((place, s), n) in places.iter().zip(start).zip(count) {
                    if let Some(p) = place
                        && let (Some(from), Some(many)) = (from.get_mut(*p), many.get_mut(*p))
                    {
                        (*from, *many) = (*s, *n);
                    }
                }
                let mut out = vec![0; num::product_usize(count)?.saturating_mul(size)];
                let source = source.clone();
                self.options.context.run(move || source.read_block(from, many, &mut out).map(|()| out)).await
            }
        }
    }

    /// Builds the pyramid of the labels, with as many levels as the image.
    async fn pyramid(
        &self,
        hidden: &SharedStore,
        journal: &Journal,
        image: &Multiscale,
        shape: &[u64],
        shapes: &[Vec<u64>],
    ) -> Result<Vec<Vec<u64>>> {
        let version = self.image.version;
        let first = image.levels.first();
        let level = Level {
            path: "0".to_owned(),
            scale: first.and_then(|l| l.scale.clone()),
            translation: first.and_then(|l| l.translation.clone()),
        };
        let name = self.name.rsplit('/').next().unwrap_or(&self.name);
        let multiscale = Multiscale {
            name: Some(name.to_owned()),
            axes: image.axes.clone(),
            levels: vec![level],
            method: None,
        };
        let labels = Labels { source: Some(self.up()), ..self.options.labels.clone() };
        let attributes = document::image(version, &multiscale, None, Some(&labels));
        let set = attributes.members().unwrap_or_default().to_vec();
        hierarchy::edit_attributes(hidden, "", &AttributesEdit::Patch { set, unset: Vec::new() }).await?;
        let options = PyramidOptions {
            method: Some(Downsampling::Mode),
            factors: Factors::Levels(pyramid::follow(shape, shapes)),
            context: self.options.context.clone(),
            task: self.options.task.without_progress(),
            ..PyramidOptions::default()
        };
        let built = pyramid::build_within(hidden, "", &options, journal).await?;
        Ok(built.levels.into_iter().map(|(_, shape)| shape).collect())
    }

    /// Adds the labels to the list of labels, or removes them.
    async fn edit_list(&self, listed: bool) -> Result<()> {
        let key = if self.options.as_mask { "masks" } else { "labels" };
        let folder = join(&self.image.path, key);
        let now = match hierarchy::find(self.store, &folder).await {
            Ok(Some(node)) => node.meta,
            Ok(None) => return Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        // Readers discover unlisted labels by listing; a list without them would hide them.
        let others = match parse::group(now.attributes()).listed {
            None if listed => self.others().await?,
            _ => Vec::new(),
        };
        hierarchy::change_attributes(self.store, &folder, |now| self.relisted(now, key, listed, &others))
            .await
    }

    /// The attributes of the labels group with these labels listed or removed.
    fn relisted(&self, now: &Json, key: &str, listed: bool, others: &[String]) -> Result<Json> {
        let mut changed = now.clone();
        let mut names = match parse::group(now).listed {
            Some(names) => names,
            None if listed => others.to_vec(),
            None => return Ok(changed),
        };
        let same = |n: &String| n.trim_matches('/') == self.name;
        if !listed {
            names.retain(|n| !same(n));
        } else if !names.iter().any(same) {
            names.push(self.name.clone());
        }
        let version = self.image.version;
        if version < ImageVersion::V05 {
            changed.set(key, names);
            return Ok(changed);
        }
        let mut ome = now.inner("ome");
        if ome.get("version").is_none() {
            ome.set("version", version.text());
        }
        ome.set(key, names);
        changed.set("ome", ome);
        Ok(changed)
    }

    /// Labels that exist but are not listed.
    async fn others(&self) -> Result<Vec<String>> {
        let own = self.options.as_mask;
        let all = self.image.labels(self.zarr).await?;
        Ok(all
            .into_iter()
            .filter(|l| l.path.starts_with(&join(&self.image.path, if own { "masks" } else { "labels" })))
            .map(|l| l.name)
            .filter(|n| *n != self.name)
            .collect())
    }
}

/// Whether all dimension names are axes of the image.
fn named(names: &[Option<String>], axes: &[Axis]) -> bool {
    let is_axis = |n: &String| axes.iter().any(|a| a.name.eq_ignore_ascii_case(n));
    names.iter().all(|n| n.as_ref().is_some_and(is_axis))
}

/// The default axes of labels, by rank: all of the image's; without channels; without times; the last ones.
fn usual_names(axes: &[Axis], rank: usize) -> Result<Vec<String>> {
    use crate::image::model::AxisKind;
    let without = |kinds: &[AxisKind]| -> Vec<String> {
        axes.iter().filter(|a| !kinds.contains(&a.kind)).map(|a| a.name.clone()).collect()
    };
    let most = [without(&[]), without(&[AxisKind::Channel]), without(&[AxisKind::Channel, AxisKind::Time])];
    if let Some(names) = most.iter().find(|n| n.len() == rank) {
        return Ok(names.clone());
    }
    let last = axes
        .len()
        .checked_sub(rank)
        .ok_or_else(|| usage!("the labels have {rank} dimensions, but the image has only {}", axes.len()))?;
    Ok(axes.iter().skip(last).map(|a| a.name.clone()).collect())
}

/// Parses colours of values: JSON as in `image-label` (`[{"label-value":1,"rgba":[255,0,0,255]}]`), a JSON object of
/// values to colours (`{"1":"FF0000FF"}`), or lines `1=FF0000FF` or `1,255,0,0,255`.
pub fn parse_colors(text: &str) -> Result<Vec<LabelColor>> {
    if text.trim_start().starts_with(['[', '{']) {
        let json = Json::parse(text.as_bytes())?.value;
        let colors: Option<Vec<LabelColor>> = match &json {
            Json::Array(items) => {
                let label = Json::from([("colors", Json::Array(items.clone()))]);
                let group = Json::from([("image-label", label)]);
                parse::group(&group).label.map(|l| l.colors).filter(|c| c.len() == items.len())
            }
            Json::Object(members) => members
                .iter()
                .map(|(value, color)| {
                    Some(LabelColor { value: value.trim().parse().ok()?, rgba: rgba(color.as_str()?)? })
                })
                .collect(),
            _ => None,
        };
        return colors.ok_or_else(|| {
            Error::usage("invalid colours; use [{\"label-value\":1,\"rgba\":[255,0,0,255]}]")
        });
    }
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    // Skips a table header.
    let lines =
        lines.enumerate().filter(|(i, l)| *i > 0 || l.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
    lines.map(|(_, line)| parse_color(line)).collect()
}

/// Collects colours of values from arguments: a colour, several separated by spaces, or a file of them. The last one
/// for a value wins.
pub fn collect_colors(given: &[String]) -> Result<Vec<LabelColor>> {
    let mut all: Vec<LabelColor> = Vec::new();
    for text in given {
        let found = if Path::new(text).is_file() {
            parse_colors(&read_text(Path::new(text))?).map_err(|e| e.within(text))?
        } else {
            text.split_whitespace().map(parse_color).collect::<Result<_>>()?
        };
        for color in found {
            all.retain(|c| c.value != color.value);
            all.push(color);
        }
    }
    Ok(all)
}

/// Reads label properties from a JSON file: a list of objects, each with a `label-value`.
pub fn read_properties(path: &Path) -> Result<Vec<Json>> {
    let json = Json::parse(read_text(path)?.as_bytes())?.value;
    let items = json.items().unwrap_or_default().to_vec();
    let fits = |item: &Json| item.get("label-value").is_some_and(|v| v.as_i128().is_some());
    if items.is_empty() || !items.iter().all(fits) {
        return Err(usage!(
            "{}: properties must be a list of objects, each with an integer label-value",
            path.display()
        ));
    }
    Ok(items)
}

fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error::from(e).within(path.display()))
}

/// The colour of one value: `1=FF0000FF`, `1=#FF0000`, `1,255,0,0,255`.
pub fn parse_color(text: &str) -> Result<LabelColor> {
    let parse = || {
        if let Some((value, color)) = text.split_once('=') {
            return Some(LabelColor { value: value.trim().parse().ok()?, rgba: rgba(color)? });
        }
        let mut parts = text.split([',', ';', '\t']).map(str::trim);
        let value = parts.next()?.parse().ok()?;
        let channels: Vec<u8> = parts.map(|p| p.parse().ok()).collect::<Option<_>>()?;
        let rgba = match *channels.as_slice() {
            [r, g, b] => [r, g, b, 255],
            [r, g, b, a] => [r, g, b, a],
            _ => return None,
        };
        Some(LabelColor { value, rgba })
    };
    parse().ok_or_else(|| usage!("{text:?} is not a label colour such as 1=FF0000FF"))
}

fn rgba(text: &str) -> Option<[u8; 4]> {
    let digits = text.trim().trim_start_matches('#');
    let [r, g, b] = parse::color(digits)?;
    let alpha = if digits.len() == 8 { u8::from_str_radix(digits.get(6..)?, 16).ok()? } else { 255 };
    Some([r, g, b, alpha])
}
