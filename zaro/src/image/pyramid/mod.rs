//! Builds multiscale pyramids: downsampled levels of an image.
//!
//! [`plan()`] computes the levels; [`build`] writes them, and adds them to the image's metadata when all are complete.
//!
//! Every level is built from the one above it, several in one pass over the pixels (`cut.rs`, `pass.rs`): the largest
//! level is read once. An interrupted pyramid resumes when it is rerun with the same arguments and the same pixels
//! (`journal`).

mod attributes;
mod cut;
mod elsewhere;
mod gaussian;
mod kernel;
mod pass;
mod places;
mod plan;
#[cfg(test)]
mod tests;

use async_trait::async_trait;

use crate::array::Array;
use crate::context::Context;
use crate::error::{Error, Hint, Result};
use crate::group::{OpenOptions, Zarr};
use crate::hierarchy::{self, Existing};
use crate::image::model::{Axis, Level, Multiscale};
use crate::image::version::ImageVersion;
use crate::image::{document, find};
use crate::journal::{Ground, Intent, Journal, Left, NodeSource, Work};
use crate::meta::create::NewArray;
use crate::meta::path::{join, shown};
use crate::meta::{ArrayMeta, CodecMeta, DataType, Format, Json, Mode, NodeMeta, write};
use crate::store::SharedStore;
use attributes::Made;
use cut::Stage;
pub use elsewhere::build_at;
use places::LevelPaths;
pub use plan::{Factors, LevelPlan, follow, plan};

const OPERATION: &str = "image pyramid";

/// A downsampling method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Downsampling {
    /// The mean; for integers, rounded half up.
    #[default]
    Mean,
    /// The most frequent value; on a tie, the smallest. For labels.
    Mode,
    /// A Gaussian-weighted mean of the pixels and their neighbours.
    Gaussian,
    /// The first pixel.
    Decimate,
}

impl Downsampling {
    /// All methods.
    pub const ALL: [Self; 4] = [Self::Mean, Self::Mode, Self::Gaussian, Self::Decimate];

    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Mode => "mode",
            Self::Gaussian => "gaussian",
            Self::Decimate => "decimate",
        }
    }

    /// Parses its name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.text() == text)
    }
}

/// Options for building a pyramid. Array settings left out are those of the largest level.
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct PyramidOptions {
    /// The number of levels, including the largest; default: until y and x are at most 256 long.
    pub levels: Option<usize>,
    /// The downsampling method; default: mean, and mode for booleans and labels.
    pub method: Option<Downsampling>,
    /// The downsampling factors from level to level.
    pub factors: Factors,
    /// The shape of chunks; of inner chunks, if there are shards. Clipped to the shape of smaller levels.
    pub chunks: Option<Vec<u64>>,
    /// The shape of shards; `Some(None)` for no shards.
    pub shards: Option<Option<Vec<u64>>>,
    /// The codecs, in encoding order.
    pub codecs: Option<Vec<CodecMeta>>,
    /// Also build the levels of labels that have only one, by mode; with [`Existing::Replace`] also of those that have
    /// more.
    pub labels: bool,
    /// What to do if smaller levels exist.
    pub existing: Existing,
    /// Threads, connections and memory for it.
    pub context: Context,
    /// Progress, in bytes of the largest level, and cancellation. Finished work is kept; the same call resumes it.
    pub task: crate::task::Task,
}

impl PyramidOptions {
    /// The options that affect the result, in a form that is stable across versions.
    fn json(&self) -> Json {
        let list = |list: &[u64]| Json::Array(list.iter().map(Json::int).collect());
        let level = |level: &LevelPlan| Json::Array(vec![list(&level.shape), list(&level.step)]);
        let factors = match &self.factors {
            Factors::Plane(n) => Json::int(n),
            Factors::Space(n) => list(n),
            Factors::Named(named) => {
                Json::Object(named.iter().map(|(name, n)| (name.clone(), Json::int(n))).collect())
            }
            Factors::Levels(levels) => Json::Array(levels.iter().map(level).collect()),
        };
        let mut options = Json::object();
        let mut set = |name: &str, value: Option<Json>| {
            if let Some(value) = value {
                options.set(name, value);
            }
        };
        set("levels", self.levels.map(Json::int));
        set("method", self.method.map(|m| Json::string(m.text())));
        set("factors", Some(factors));
        set("chunks", self.chunks.as_deref().map(list));
        set("shards", self.shards.as_ref().map(|s| s.as_deref().map_or(Json::Null, list)));
        set("codecs", self.codecs.as_ref().map(|c| write::write_codecs(c)));
        set("labels", Some(Json::Bool(self.labels)));
        options
    }
}

/// The result of building a pyramid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The smaller levels: the paths of their arrays from the image's group, and their shapes.
    pub levels: Vec<(String, Vec<u64>)>,
    /// The downsampling method used.
    pub method: Downsampling,
    /// The names of labels whose levels were built, too.
    pub labels: Vec<String>,
    /// Whether an earlier call was resumed.
    pub resumed: bool,
}

impl Built {
    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        let level =
            |(path, shape): &(String, Vec<u64>)| Json::from([("path", path.into()), ("shape", shape.into())]);
        Json::from([
            ("levels", self.levels.iter().map(level).collect()),
            ("method", self.method.text().into()),
            ("resumed", self.resumed.into()),
            ("labels", (&self.labels).into()),
        ])
    }
}

/// Image metadata for a plain array that becomes an image.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Its axes; default: the names of its dimensions.
    pub axes: Vec<Axis>,
    /// The pixel size along each axis; default: 1.
    pub scale: Vec<f64>,
    /// The version of OME-Zarr; default: 0.5, or 0.4 for a Zarr V2 array.
    pub version: Option<ImageVersion>,
    /// The name of the image.
    pub name: Option<String>,
}

/// Builds the smaller levels of the image at `path` from its largest level, and adds them to its metadata. All other
/// metadata is kept.
///
/// Readers see the new levels when all are complete. Repeat a killed call to resume it.
pub async fn build(store: &SharedStore, path: &str, options: &PyramidOptions) -> Result<Built> {
    let task = PyramidTask::of_image(store, path).await?;
    let built = task.run(options).await.map_err(|e| e.with_node(shown(&task.group)))?;
    store.finish().await?;
    Ok(built)
}

/// Like [`build`] for an image without smaller levels, within an operation that has its own journal.
pub(crate) async fn build_within(
    store: &SharedStore,
    path: &str,
    options: &PyramidOptions,
    journal: &Journal,
) -> Result<Built> {
    let task = PyramidTask::of_image(store, path).await?;
    let levels = task.levels(options).await?;
    task.make(&levels, options, journal, None).await.map_err(|e| e.with_node(shown(&task.group)))?;
    Ok(levels.built(Vec::new(), false))
}

impl<'a> PyramidTask<'a> {
    /// The task for the image at `path`.
    async fn of_image(store: &'a SharedStore, path: &str) -> Result<Self> {
        let zarr = opened(store).await?;
        let image = find::image_at(&zarr, path).await?;
        let multiscale = image.multiscale(None)?.clone();
        let places = LevelPaths::of(&image.attributes).map_err(|e| e.with_node(shown(&image.path)))?;
        Ok(Self {
            store,
            group: image.path.clone(),
            first: places.first,
            axes: multiscale.axes.clone(),
            version: image.version,
            attributes: GroupAttributes::There((*image.attributes).clone()),
            is_label: image.label.is_some(),
        })
    }

    /// The task for the array at `path`, which becomes an image.
    async fn of_array(store: &'a SharedStore, path: &str, frame: &Frame, begun: bool) -> Result<Self> {
        let zarr = opened(store).await?;
        let path = zarr.key_of(path)?;
        let Some((group, name)) =
            path.rsplit_once('/').or(Some(("", path.as_str()))).filter(|(_, n)| !n.is_empty())
        else {
            return Err(Error::usage("this array is not in a group that could become an image")
                .with_hint("to", "sets another destination")
                .with_node(shown(&path)));
        };
        let array = zarr.array(&path).await?;
        let attributes = match hierarchy::find(store, group).await? {
            Some(node) => node.meta.attributes().clone(),
            None => Json::object(),
        };
        // An interrupted run may have written the metadata already.
        let begun = begun || Left::find(store, group).await?.is_some_and(|left| left.is(OPERATION));
        if attributes::which(&attributes).is_some() && !begun {
            return Err(Error::usage("this array is already part of an image; give the path of the image")
                .with_node(shown(group)));
        }
        let (version, multiscale) = framed(array.meta(), name, frame)?;
        Ok(Self {
            store,
            group: group.to_owned(),
            first: name.to_owned(),
            axes: multiscale.axes.clone(),
            version,
            attributes: GroupAttributes::New(attributes, Box::new(multiscale)),
            is_label: false,
        })
    }
}

/// Turns the array at `path` into an image: adds smaller levels beside it, and metadata to its group.
pub async fn build_from_array(
    store: &SharedStore,
    path: &str,
    frame: &Frame,
    options: &PyramidOptions,
) -> Result<Built> {
    let task = PyramidTask::of_array(store, path, frame, false).await?;
    let built = task.run(options).await.map_err(|e| e.with_node(shown(&task.group)))?;
    store.finish().await?;
    Ok(built)
}

/// The version and the one-level multiscale for a plain array.
fn framed(meta: &ArrayMeta, name: &str, frame: &Frame) -> Result<(ImageVersion, Multiscale)> {
    let rank = meta.shape.len();
    let axes = if frame.axes.is_empty() {
        let names = meta.dimension_names.as_deref().unwrap_or_default();
        let named: Option<Vec<Axis>> = names.iter().map(|n| n.as_deref().map(Axis::named)).collect();
        named.filter(|n| n.len() == rank && rank > 0).ok_or_else(|| {
            Error::usage("the dimensions of the array have no names")
                .or_hint(Hint::option("axes", "or similar names them").set_to("tczyx"))
        })?
    } else {
        frame.axes.clone()
    };
    if axes.len() != rank {
        return Err(Error::usage(format!("{} axes are given, the array has {rank} dimensions", axes.len())));
    }
    let version = frame.version.unwrap_or(if meta.format == Format::V3 {
        ImageVersion::V05
    } else {
        ImageVersion::V04
    });
    if version.format() != meta.format {
        return Err(Error::usage(format!(
            "OME-Zarr {version} needs Zarr V{}, but the array is V{}",
            version.format().number(),
            meta.format.number()
        ))
        .or_hint(
            Hint::operation("copy", "converts it").with("zarr_format").set_to(version.format().number()),
        ));
    }
    if version < ImageVersion::V03
        && (rank != 5 || !axes.iter().map(|a| a.name.as_str()).eq(["t", "c", "z", "y", "x"]))
    {
        return Err(Error::usage(format!("an image of OME-Zarr {version} must have the axes tczyx")));
    }
    if version == ImageVersion::V04 && meta.keys.separator != '/' {
        return Err(Error::usage(
            "OME-Zarr 0.4 needs the chunk key separator / (0/0), which this array does not have",
        )
        .or_hint(Hint::operation("copy", "changes it").with("separator").set_to('/')));
    }
    let scale = if frame.scale.is_empty() { vec![1.0; rank] } else { frame.scale.clone() };
    if scale.len() != rank || scale.iter().any(|s| !s.is_finite() || *s <= 0.0) {
        return Err(Error::usage(format!("the pixel size must be {rank} numbers greater than 0")));
    }
    let level = Level { path: name.to_owned(), scale: Some(scale), translation: None };
    let multiscale = Multiscale { name: frame.name.clone(), axes, levels: vec![level], method: None };
    Ok((version, multiscale))
}

/// Checks the options for an array that does not exist yet.
pub(crate) fn check(meta: &ArrayMeta, axes: &[Axis], options: &PyramidOptions) -> Result<()> {
    let rank = meta.shape.len();
    check_lengths("chunks", options.chunks.as_ref(), rank)?;
    check_lengths("shards", options.shards.as_ref().and_then(Option::as_ref), rank)?;
    plan(&meta.shape, axes, &options.factors, options.levels)?;
    can_become_one(method(meta, false, options.method), &meta.data_type)
}

fn check_lengths(what: &str, lengths: Option<&Vec<u64>>, rank: usize) -> Result<()> {
    match lengths.filter(|l| l.len() != rank || l.contains(&0)) {
        Some(lengths) => {
            Err(Error::usage(format!("{lengths:?} is not the shape of {what} of {rank} dimensions")))
        }
        None => Ok(()),
    }
}

/// Checks that the method supports this data type.
fn can_become_one(method: Downsampling, data_type: &DataType) -> Result<()> {
    match method {
        Downsampling::Gaussian => gaussian::Gaussian::of(data_type, &[]).map(drop),
        _ => kernel::Kernel::of(method, data_type).map(drop),
    }
}

async fn opened(store: &SharedStore) -> Result<Zarr> {
    // Only the nodes' own documents are changed.
    let options = OpenOptions { use_consolidated: false, ..OpenOptions::default() };
    Zarr::from_store(store.clone(), options).await
}

/// The attributes of the image's group.
#[derive(Debug)]
enum GroupAttributes {
    /// Those of an existing image.
    There(Json),
    /// Those of a group that becomes an image, and its one-level multiscale.
    New(Json, Box<Multiscale>),
}

impl GroupAttributes {
    /// The attributes of an image with its largest level.
    fn image(&self, version: ImageVersion) -> Json {
        match self {
            Self::There(attributes) => attributes.clone(),
            Self::New(old, _) => self.of_image(old, version),
        }
    }

    /// The attributes of a group with the image metadata added.
    fn of_image(&self, group: &Json, version: ImageVersion) -> Json {
        match self {
            Self::There(attributes) => attributes.clone(),
            Self::New(_, multiscale) => {
                let mut all = group.clone();
                let new = document::image(version, multiscale, None, None);
                for (name, value) in new.members().unwrap_or_default() {
                    all.set(name, value.clone());
                }
                all
            }
        }
    }
}

/// A pyramid to build.
#[derive(Debug)]
struct PyramidTask<'a> {
    store: &'a SharedStore,
    /// The path of the image's group.
    group: String,
    /// The path of the largest level from there.
    first: String,
    axes: Vec<Axis>,
    version: ImageVersion,
    attributes: GroupAttributes,
    is_label: bool,
}

/// The levels that a task builds.
struct Levels {
    base: Array,
    stages: Vec<Stage>,
    made: Vec<Made>,
    method: Downsampling,
}

impl PyramidTask<'_> {
    async fn run(&self, options: &PyramidOptions) -> Result<Built> {
        let mut levels = self.levels(options).await?;
        if Left::find(self.store, &self.group).await?.is_none() {
            // Check first, so that an error changes nothing.
            self.in_the_way(&levels, options.existing, None).await?;
        }
        // Before the journal records the source of the levels.
        if self.name_dimensions(levels.base.meta()).await? {
            levels = self.levels(options).await?;
        }
        let bases = self.bases(&levels, options).await?;
        let source =
            NodeSource::new(self.store, &self.group, bases.iter().map(|(path, meta)| (path.as_str(), meta)));
        let intent = Intent {
            operation: OPERATION,
            source: source.json(&self.store.to_string()).await?,
            options: options.json(),
            plan: levels.json(),
        };
        let (journal, resumed) = Journal::begin(&Work {
            store: self.store,
            path: &self.group,
            intent: &intent,
            existing: options.existing,
            whole: false,
            aside: false,
            anew: false,
            ground: &Smaller { task: self, levels: &levels, existing: options.existing },
        })
        .await?;
        let made_of = Some((&source, &intent.source));
        self.make(&levels, options, &journal, made_of).await?;
        let labels = match self.attributes {
            GroupAttributes::There(_) => {
                let made =
                    elsewhere::make_labels(self.store, &self.group, options, &journal, made_of).await?;
                self.renew_labels().await?;
                made
            }
            GroupAttributes::New(..) => Vec::new(),
        };
        journal.end().await?;
        Ok(levels.built(labels, resumed))
    }

    /// Sets the dimension names of the array that becomes an image, if its version requires them. Returns whether they
    /// changed.
    async fn name_dimensions(&self, base: &ArrayMeta) -> Result<bool> {
        let wanted = matches!(self.attributes, GroupAttributes::New(..))
            && (base.format == Format::V3 || self.version == ImageVersion::V03);
        let names: Vec<String> = self.axes.iter().map(|axis| axis.name.clone()).collect();
        let has = base.dimension_names.iter().flatten().map(Option::as_deref);
        if !wanted || has.eq(names.iter().map(|name| Some(name.as_str()))) {
            return Ok(false);
        }
        hierarchy::name_dimensions(self.store, &join(&self.group, &self.first), &names).await?;
        Ok(true)
    }

    /// Updates consolidated metadata for labels: an earlier run may have been killed just before that.
    async fn renew_labels(&self) -> Result<()> {
        let zarr = opened(self.store).await?;
        let image = find::image_at(&zarr, &self.group).await?;
        for label in image.labels(&zarr).await? {
            hierarchy::renew(self.store, &label.path).await?;
        }
        Ok(())
    }

    /// Plans the levels; changes nothing.
    async fn levels(&self, options: &PyramidOptions) -> Result<Levels> {
        let at = join(&self.group, &self.first);
        let base = hierarchy::open_array(self.store, &at, &options.context.share_of(4)).await?;
        let method = method(base.meta(), self.is_label, options.method);
        let plans = plan(base.shape(), &self.axes, &options.factors, options.levels)?;
        let mut made = Vec::with_capacity(plans.len());
        let mut stages = Vec::with_capacity(plans.len());
        for (i, plan) in plans.into_iter().enumerate() {
            let path = attributes::level_path(&self.first, i.saturating_add(1));
            let most = plan.step.iter().fold(1u64, |n, f| n.saturating_mul(*f));
            if most > kernel::MOST {
                return Err(Error::usage(format!("a downsampling factor of {most} pixels is too large")));
            }
            let meta = self.level_meta(base.meta(), &plan.shape, options)?;
            let node = join(&self.group, &path);
            // They are read, too, to build further levels.
            let context = &options.context.share_of(8);
            if options.codecs.is_some() {
                hierarchy::new_array(self.store, &node, meta.clone(), context)?;
            }
            let array = Array::new(self.store.clone(), &node, meta, Mode::Tolerant, Vec::new(), context)?;
            stages.push(Stage::new(array, plan.clone()));
            made.push(Made { path, plan });
        }
        // Check before anything is changed.
        can_become_one(method, &base.meta().data_type)?;
        Ok(Levels { base, stages, made, method })
    }

    /// The sources of the levels: the largest level, and those of labels.
    async fn bases(&self, levels: &Levels, options: &PyramidOptions) -> Result<Vec<(String, NodeMeta)>> {
        let mut bases = vec![(levels.base.path().to_owned(), NodeMeta::Array(levels.base.meta().clone()))];
        if options.labels && matches!(self.attributes, GroupAttributes::There(_)) {
            let zarr = opened(self.store).await?;
            let image = find::image_at(&zarr, &self.group).await?;
            for label in image.labels(&zarr).await? {
                let Some(first) = label.levels.first() else { continue };
                let array = zarr.array(&first.path).await?;
                bases.push((array.path().to_owned(), NodeMeta::Array(array.meta().clone())));
            }
        }
        Ok(bases)
    }

    /// Builds the levels, and publishes them in the metadata if their sources, `made_of`, did not change.
    async fn make(
        &self,
        levels: &Levels,
        options: &PyramidOptions,
        journal: &Journal,
        made_of: Option<(&NodeSource<'_>, &Json)>,
    ) -> Result<()> {
        let Levels { base, stages, made, method } = levels;
        pass::run(base, stages, *method, options, journal).await?;
        if let Some((source, was)) = made_of {
            source.unchanged(was).await?;
        }
        // Check that the journal is still ours.
        journal.write().await?;
        for stage in stages {
            let there = hierarchy::find(self.store, stage.array.path()).await?.is_some();
            let stored = write::array(stage.array.meta())?;
            let format = stage.array.meta().format;
            hierarchy::put_documents(self.store, stage.array.path(), format, stored, !there).await?;
            if there {
                hierarchy::renew(self.store, stage.array.path()).await?;
            }
        }
        let how = attributes::how(*method, &options.factors, made);
        self.publish(made, Some((*method, how))).await
    }

    /// Writes the levels into the metadata.
    async fn publish(&self, levels: &[Made], method: Option<(Downsampling, Json)>) -> Result<()> {
        hierarchy::change_attributes(self.store, &self.group, |now| {
            // Keep concurrent changes: names, colours, pixel sizes.
            let image = match attributes::which(now) {
                Some(_) => now.clone(),
                None => self.attributes.of_image(now, self.version),
            };
            attributes::with_levels(&image, self.version, self.axes.len(), levels, method.clone())
        })
        .await
    }

    /// The metadata of a smaller level.
    fn level_meta(&self, base: &ArrayMeta, shape: &[u64], options: &PyramidOptions) -> Result<ArrayMeta> {
        let mut new = NewArray { shape: shape.to_vec(), ..NewArray::like(base)? };
        // An array's attributes describe that array only.
        new.attributes.clear();
        if base.format == Format::V3 {
            new.dimension_names = Some(self.axes.iter().map(|a| Some(a.name.clone())).collect());
        } else if self.version == ImageVersion::V03 {
            document::prepare(&mut new, self.version, &self.axes);
        }
        if let Some(shards) = &options.shards {
            new.shards.clone_from(shards);
        }
        if let Some(chunks) = &options.chunks {
            new.chunks = Some(chunks.clone());
            if options.shards.is_none() {
                let fits = |s: &Vec<u64>| s.iter().zip(chunks).all(|(s, c)| s.checked_rem(*c) == Some(0));
                new.shards = new.shards.filter(fits);
            }
        }
        if let Some(codecs) = &options.codecs {
            new.codecs = Some(codecs.clone());
        }
        let chunks = new.chunks.take().unwrap_or_else(|| base.grid.largest());
        check_lengths("chunks", Some(&chunks), shape.len())?;
        check_lengths("shards", new.shards.as_ref(), shape.len())?;
        // A level that is smaller than a chunk is one chunk.
        let cut: Vec<u64> = chunks.iter().zip(shape).map(|(c, n)| (*c).min((*n).max(1))).collect();
        if let Some(shards) = &mut new.shards {
            for ((s, c), n) in shards.iter_mut().zip(&cut).zip(shape) {
                let whole = n.div_ceil(*c).max(1).saturating_mul(*c);
                // A shard consists of whole chunks.
                *s = (*s).checked_div(*c).unwrap_or(1).max(1).saturating_mul(*c).min(whole);
            }
        }
        new.chunks = Some(cut);
        new.meta()
    }

    /// The paths of levels that have to be deleted before these are built. Fails if there are any and they must be
    /// kept.
    async fn in_the_way(
        &self,
        levels: &Levels,
        existing: Existing,
        old: Option<&Json>,
    ) -> Result<Option<Json>> {
        let places = LevelPaths::of(&self.attributes.image(self.version))?;
        if existing == Existing::Refuse && !places.smaller.is_empty() {
            let levels = places.smaller.len().saturating_add(1);
            return Err(Error::usage(format!("the image has {levels} levels already"))
                .with_hint("overwrite", "rebuilds them"));
        }
        let mut replaced = Vec::new();
        let planned = levels.made.iter().map(|l| l.path.clone());
        // Only the journal lists the levels of an unfinished pyramid, and it is untrusted.
        let list = |json: Option<&Json>| json.and_then(Json::items).unwrap_or_default().to_vec();
        let begun = list(old.and_then(|o| o.get("plan")?.get("levels")));
        let begun = begun.iter().filter_map(|l| l.get("path")?.as_str());
        // The same goes for the levels that it replaced.
        let cleared = list(old.and_then(|o| o.get("clear")));
        let unfinished = begun.chain(cleared.iter().filter_map(Json::as_str)).map(places::level);
        let unfinished: Vec<String> = unfinished.collect::<Result<_>>()?;
        for path in places.smaller.iter().cloned().chain(planned).chain(unfinished) {
            places.check(&path)?;
            let at = join(&self.group, &path);
            if existing == Existing::Refuse && places::is_taken(self.store, &at).await? {
                return Err(Error::usage(format!(
                    "{path:?}, where a level is to be written, already exists"
                ))
                .with_hint("overwrite", "replaces it"));
            }
            if places::is_array(self.store, &self.group, &path).await? && !replaced.contains(&path) {
                replaced.push(path);
            }
        }
        if existing == Existing::Refuse {
            return Ok(None);
        }
        Ok(Some(Json::Array(replaced.iter().map(Json::string).collect())))
    }

    /// Deletes the levels at these paths.
    async fn clear(&self, paths: &Json) -> Result<()> {
        let places = LevelPaths::of(&self.attributes.image(self.version))?;
        if !places.smaller.is_empty() {
            // Unlist them before they are deleted.
            self.publish(&[], None).await?;
        }
        for path in paths.items().unwrap_or_default().iter().filter_map(Json::as_str) {
            places.check(&places::level(path)?)?;
            if places::is_array(self.store, &self.group, path).await? {
                hierarchy::delete_unfinished(self.store, &join(&self.group, path)).await?;
            }
        }
        Ok(())
    }
}

/// The location of the smaller levels.
struct Smaller<'a> {
    task: &'a PyramidTask<'a>,
    levels: &'a Levels,
    existing: Existing,
}

#[async_trait]
impl Ground for Smaller<'_> {
    async fn in_the_way(&self, left: Option<&Json>) -> Result<Option<Json>> {
        self.task.in_the_way(self.levels, self.existing, left).await
    }

    async fn clear(&self, what: &Json) -> Result<()> {
        self.task.clear(what).await
    }
}

impl Levels {
    /// As JSON for the journal.
    fn json(&self) -> Json {
        let level = |(made, stage): (&Made, &Stage)| {
            let mut level = Json::object();
            level.set("path", Json::string(made.path.as_str()));
            level.set("step", Json::Array(made.plan.step.iter().map(Json::int).collect()));
            level.set("document", (*stage.array.meta().document).clone());
            level
        };
        let mut plan = Json::object();
        plan.set("method", Json::string(self.method.text()));
        plan.set("levels", Json::Array(self.made.iter().zip(&self.stages).map(level).collect()));
        plan
    }

    fn built(self, labels: Vec<String>, resumed: bool) -> Built {
        let levels = self.made.into_iter().map(|l| (l.path, l.plan.shape)).collect();
        Built { levels, method: self.method, labels, resumed }
    }
}

/// The downsampling method for an array.
fn method(meta: &ArrayMeta, is_label: bool, asked: Option<Downsampling>) -> Downsampling {
    match asked {
        // Booleans have no mean.
        Some(Downsampling::Mean | Downsampling::Gaussian) | None if meta.data_type == DataType::Bool => {
            Downsampling::Mode
        }
        Some(method) => method,
        None if is_label => Downsampling::Mode,
        None => Downsampling::Mean,
    }
}
