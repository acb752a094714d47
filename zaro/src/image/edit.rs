//! Edits image metadata in place: names, colours, windows, pixel sizes. Chunks are never touched, and unknown keys are
//! kept.
//!
//! [`apply`] edits the attributes of a group as JSON; [`edit`] does so in a store, with a conditional put that fails if
//! they changed concurrently.

use crate::boxed;
use crate::error::{Error, Hint, Result, not_found, unsupported, usage};
use crate::group::Zarr;
use crate::hierarchy;
use crate::image::document::{self, hex, number, set_known, versioned};
use crate::image::find::{self, Image};
use crate::image::model::{
    AxisKind, Channel, ChannelWindow, ColorModel, Family, LabelColor, Multiscale, integers,
};
use crate::image::version::{self, ImageVersion};
use crate::image::{parse, render};
use crate::meta::path::shown;
use crate::meta::{DataType, Json};
use crate::num;
use crate::store::SharedStore;

/// A reference to a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// By its number, from 0.
    Number(usize),
    /// By its name.
    Name(String),
}

/// Changes to a channel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChannelEdit {
    /// Its name.
    pub label: Option<String>,
    /// Its colour.
    pub color: Option<[u8; 3]>,
    /// Its window; missing numbers are kept.
    pub window: ChannelWindow,
    /// Its curve.
    pub family: Option<Family>,
    /// The curve's exponent.
    pub coefficient: Option<f64>,
    /// Whether it is inverted.
    pub inverted: Option<bool>,
    /// Whether it is drawn.
    pub active: Option<bool>,
}

impl ChannelEdit {
    /// Parses `CHANNEL:KEY=VALUE,…`: a channel's number or name, and the changes to it.
    pub fn parse(text: &str) -> Result<(Which, Self), String> {
        fn split<'a>(text: &'a str, by: char, wanted: &str) -> Result<(&'a str, &'a str), String> {
            let parts = text.split_once(by).filter(|(a, _)| !a.is_empty());
            parts.ok_or_else(|| format!("{text:?} is not {wanted}"))
        }
        let number = |text: &str| {
            let x = text.trim().parse().ok().filter(|x: &f64| x.is_finite());
            x.map(Some).ok_or_else(|| format!("{text:?} is not a number"))
        };
        let (which, changes) = split(text, ':', "CHANNEL:KEY=VALUE,...")?;
        let which = which.parse().map_or_else(|_| Which::Name(which.to_owned()), Which::Number);
        let mut edit = Self::default();
        for change in changes.split(',').filter(|c| !c.is_empty()) {
            let (key, value) = split(change, '=', "KEY=VALUE")?;
            let flag =
                || value.parse().map(Some).map_err(|_| format!("{key} must be true or false, not {value:?}"));
            match key {
                "label" | "name" => edit.label = Some(value.to_owned()),
                "color" | "colour" => {
                    let color = parse::color(value);
                    edit.color =
                        Some(color.ok_or_else(|| format!("{value:?} is not a colour such as 00FF00"))?);
                }
                "window" => {
                    let ends = value.split_once("..").or_else(|| value.split_once(':'));
                    let (start, end) = ends.ok_or("a window has the form START:END")?;
                    (edit.window.start, edit.window.end) = (number(start)?, number(end)?);
                }
                "start" => edit.window.start = number(value)?,
                "end" => edit.window.end = number(value)?,
                "min" => edit.window.min = number(value)?,
                "max" => edit.window.max = number(value)?,
                "family" => {
                    let families = "the family must be linear, polynomial, logarithmic or exponential";
                    edit.family = Some(Family::parse(value).ok_or(families)?);
                }
                "coefficient" => edit.coefficient = number(value)?,
                "inverted" => edit.inverted = flag()?,
                "active" => edit.active = flag()?,
                _ => return Err(format!("unknown channel key {key:?}")),
            }
        }
        Ok((which, edit))
    }
}

/// Changes to an image.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Edit {
    /// Its name.
    pub name: Option<String>,
    /// The multiscale whose name and pixel size change; default: the first.
    pub multiscale: Option<String>,
    /// Channels.
    pub channels: Vec<(Which, ChannelEdit)>,
    /// Pixel sizes by axis name.
    pub pixel_sizes: Vec<(String, f64)>,
    /// Units by axis name.
    pub units: Vec<(String, String)>,
    /// The plane to show, along z.
    pub default_z: Option<u64>,
    /// The plane to show, along t.
    pub default_t: Option<u64>,
    /// The colour model.
    pub model: Option<ColorModel>,
    /// Windows of all channels, for example from [`windows`].
    pub windows: Option<Vec<ChannelWindow>>,
}

impl Edit {
    fn draws(&self) -> bool {
        !self.channels.is_empty()
            || self.default_z.is_some()
            || self.default_t.is_some()
            || self.model.is_some()
            || self.windows.is_some()
    }
}

/// Facts about the arrays of an image that editing needs.
#[derive(Debug, Clone)]
pub struct ImageArrays {
    /// The names and kinds of its axes, and its extents.
    pub axes: Vec<(String, AxisKind, u64)>,
    /// The type of its pixels.
    pub data_type: DataType,
}

impl ImageArrays {
    /// Reads them from the first level of the multiscale that is edited.
    #[boxed]
    pub async fn of(zarr: &Zarr, image: &Image, multiscale: Option<&str>) -> Result<Self> {
        let multiscale = image.multiscale(multiscale)?;
        let first = multiscale
            .levels
            .first()
            .ok_or_else(|| Error::invalid("the pyramid has no levels").with_node(shown(&image.path)))?;
        let array = image.array(zarr, first).await?;
        let axes =
            multiscale.axes.iter().zip(array.shape()).map(|(a, n)| (a.name.clone(), a.kind, *n)).collect();
        Ok(Self { axes, data_type: array.meta().data_type.clone() })
    }

    /// The number of channels.
    #[must_use]
    pub fn channels(&self) -> u64 {
        self.axes.iter().find(|(_, kind, _)| *kind == AxisKind::Channel).map_or(1, |(_, _, n)| *n)
    }

    fn extent(&self, name: &str) -> u64 {
        self.axes.iter().find(|(n, ..)| n == name).map_or(1, |(_, _, n)| *n)
    }
}

/// Applies an edit to the attributes of an image's group.
pub fn apply(attributes: &Json, version: ImageVersion, frame: &ImageArrays, edit: &Edit) -> Result<Json> {
    let mut changed = attributes.clone();
    version::edit_ome(&mut changed, |ome| {
        if edit.name.is_some() || !edit.pixel_sizes.is_empty() || !edit.units.is_empty() {
            let at = chosen(ome.list("multiscales"), edit.multiscale.as_deref());
            let one = ome.list_mut("multiscales").get_mut(at);
            multiscale(one.ok_or_else(|| Error::invalid("the image has no multiscales"))?, version, edit)?;
        }
        if let (Some(name), Some(omero)) = (&edit.name, ome.get_mut("omero"))
            && omero.get("name").is_some()
        {
            omero.set("name", name);
        }
        if edit.draws() {
            let old = ome.get("omero").filter(|o| o.members().is_some()).cloned();
            ome.set("omero", omero(old, version, frame, edit)?);
        }
        Ok::<_, Error>(())
    })?;
    Ok(changed)
}

/// The index of the selected item of `multiscales`: by name, else the first.
fn chosen(all: &[Json], name: Option<&str>) -> usize {
    let named = |m: &Json| name.is_some() && m.text("name") == name;
    all.iter().position(named).unwrap_or(0)
}

fn multiscale(one: &mut Json, version: ImageVersion, edit: &Edit) -> Result<()> {
    if let Some(name) = &edit.name {
        one.set("name", Json::string(name.as_str()));
    }
    if edit.pixel_sizes.is_empty() && edit.units.is_empty() {
        return Ok(());
    }
    if version < ImageVersion::V04 {
        return Err(unsupported!(
            "OME-Zarr {version} has no pixel sizes and units; upgrade the image to 0.4 or later first"
        )
        .or_hint(Hint::operation("image upgrade", "does that")));
    }
    let model = parse::group(&Json::from([("multiscales", vec![one.clone()].into())]));
    let axes = model.multiscales.first().map(|m| m.axes.clone()).unwrap_or_default();
    let index = |name: &str| {
        axes.iter().position(|a| a.name == name).ok_or_else(|| {
            let names: Vec<&str> = axes.iter().map(|a| a.name.as_str()).collect();
            usage!("no axis {name:?}; the axes are {}", names.join(", "))
        })
    };
    for (name, unit) in &edit.units {
        let at = index(name)?;
        set_unit(one, at, unit);
    }
    let wanted: Vec<(usize, f64)> =
        edit.pixel_sizes.iter().map(|(name, size)| Ok((index(name)?, *size))).collect::<Result<_>>()?;
    if wanted.iter().any(|(_, size)| !size.is_finite() || *size <= 0.0) {
        return Err(Error::usage("a pixel size must be greater than 0"));
    }
    if wanted.is_empty() {
        return Ok(());
    }
    // The whole image is scaled: the factor of level 0 applies to every level and its distance from the origin.
    let first = model.multiscales.first().and_then(|m| m.levels.first());
    let old = |i: usize| first?.scale.as_ref()?.get(i).copied().filter(|s| *s != 0.0);
    let exact: Vec<Option<f64>> =
        (0..axes.len()).map(|i| wanted.iter().find(|(at, _)| *at == i).map(|w| w.1)).collect();
    let factor = |(i, size): (usize, &Option<f64>)| size.map_or(1.0, |size| size / old(i).unwrap_or(1.0));
    let factors = exact.iter().enumerate().map(factor).collect();
    let origin = first.and_then(|level| level.translation.clone());
    let whole = !one.list("coordinateTransformations").is_empty();
    let stretch = Stretch { factors, exact: if whole { vec![None; axes.len()] } else { exact }, origin };
    for (i, dataset) in one.list_mut("datasets").iter_mut().enumerate() {
        let steps = dataset.list_mut("coordinateTransformations");
        steps.iter_mut().for_each(|t| stretch.transform(t, i == 0));
    }
    Ok(())
}

fn set_unit(one: &mut Json, at: usize, unit: &str) {
    let own = parse::intrinsic(one).cloned();
    let holder = match one.get("axes") {
        Some(_) => Some(one),
        None => one.list_mut("coordinateSystems").iter_mut().find(|s| Some(&**s) == own.as_ref()),
    };
    if let Some(axis) = holder.and_then(|holder| holder.list_mut("axes").get_mut(at)) {
        axis.set("unit", unit);
        // A misspelt key that some writers use.
        axis.remove("units");
    }
}

/// A change of pixel size, for every level.
struct Stretch {
    factors: Vec<f64>,
    /// The requested size, so that level 0 has exactly that.
    exact: Vec<Option<f64>>,
    /// The translation of level 0, which is kept.
    origin: Option<Vec<f64>>,
}

impl Stretch {
    fn transform(&self, json: &mut Json, first: bool) {
        let factor = |i: usize| self.factors.get(i).copied().unwrap_or(1.0);
        let exact = |i: usize| self.exact.get(i).copied().flatten().filter(|_| first);
        let scale = |(i, s): (usize, f64)| exact(i).unwrap_or_else(|| s * factor(i));
        let moved = |(i, t): (usize, f64)| {
            let origin = self.origin.as_ref().and_then(|o| o.get(i).copied()).unwrap_or(0.0);
            origin + (t - origin) * factor(i)
        };
        match json.text("type") {
            Some("scale") => {
                let old = json.numbers("scale");
                set_known(json, "scale", old.map(|s| s.into_iter().enumerate().map(scale).collect::<Json>()));
            }
            Some("translation") => {
                let old = json.numbers("translation");
                let new = old.map(|t| t.into_iter().enumerate().map(moved).collect::<Json>());
                set_known(json, "translation", new);
            }
            Some("sequence") => {
                json.list_mut("transformations").iter_mut().for_each(|t| self.transform(t, first));
            }
            Some("identity") => {
                json.set("type", "scale");
                json.set(
                    "scale",
                    vec![1.0; self.factors.len()].into_iter().enumerate().map(scale).collect::<Json>(),
                );
            }
            _ => {}
        }
    }
}

fn omero(old: Option<Json>, version: ImageVersion, frame: &ImageArrays, edit: &Edit) -> Result<Json> {
    let count = num::usize_of(frame.channels())?;
    let range = integers(&frame.data_type).unwrap_or((0, 1));
    let (low, high) = (num::f64_of_i128(range.0), num::f64_of_i128(range.1));
    let plain = |i: usize| Channel {
        color: Some(render::default_color(i, count)),
        window: ChannelWindow { start: Some(low), end: Some(high), min: Some(low), max: Some(high) },
        ..Channel::default()
    };
    let mut omero = old.unwrap_or_else(|| versioned(version, version < ImageVersion::V05));
    let mut channels = omero.list("channels").to_vec();
    // If the version requires colours and windows of every channel, channels added here get them, too.
    for i in channels.len()..count {
        channels.push(document::channel(&plain(i)));
    }
    // First the windows found from the pixels; explicit settings of a channel override them.
    for (one, window) in channels.iter_mut().zip(edit.windows.iter().flatten()) {
        set_window(one, window)?;
    }
    for (which, change) in &edit.channels {
        let at = number_of(which, &channels)?;
        let names = channels.len();
        let one =
            channels.get_mut(at).ok_or_else(|| usage!("no channel {at}; the image has {names}, from 0"))?;
        channel(one, change)?;
    }
    omero.set("channels", Json::Array(channels));
    let limits = [("defaultT", edit.default_t, "t"), ("defaultZ", edit.default_z, "z")];
    let mut rdefs = omero.inner("rdefs");
    for (name, value, axis) in limits {
        let Some(value) = value else { continue };
        let extent = frame.extent(axis);
        if value >= extent {
            return Err(usage!("{axis} {value} does not exist; the image has {extent}, from 0"));
        }
        rdefs.set(name, Json::int(value));
    }
    set_known(&mut rdefs, "model", edit.model.map(ColorModel::text));
    if rdefs.members().is_some_and(|m| !m.is_empty()) {
        omero.set("rdefs", rdefs);
    }
    Ok(omero)
}

fn number_of(which: &Which, channels: &[Json]) -> Result<usize> {
    match which {
        Which::Number(n) => Ok(*n),
        Which::Name(name) => {
            let label = |c: &Json| c.text("label").map(str::to_owned);
            channels.iter().position(|c| label(c).as_ref() == Some(name)).ok_or_else(|| {
                let names: Vec<String> = channels.iter().filter_map(label).collect();
                usage!("no channel {name:?}; the channels are {}", names.join(", "))
            })
        }
    }
}

fn channel(one: &mut Json, change: &ChannelEdit) -> Result<()> {
    if change.coefficient.is_some_and(|k| !k.is_finite() || k <= 0.0) {
        return Err(Error::usage("a coefficient must be greater than 0"));
    }
    set_known(one, "label", change.label.as_deref());
    set_known(one, "color", change.color.map(hex));
    set_known(one, "family", change.family.map(Family::text));
    set_known(one, "coefficient", change.coefficient);
    set_known(one, "inverted", change.inverted);
    set_known(one, "active", change.active);
    set_window(one, &change.window)
}

fn set_window(one: &mut Json, change: &ChannelWindow) -> Result<()> {
    let parts = [("min", change.min), ("max", change.max), ("start", change.start), ("end", change.end)];
    if parts.iter().all(|(_, x)| x.is_none()) {
        return Ok(());
    }
    let mut window = one.inner("window");
    for (name, value) in parts {
        let Some(x) = value else { continue };
        if !x.is_finite() {
            return Err(Error::usage("a window needs numbers"));
        }
        window.set(name, number(x));
    }
    let [min, max, start, end] =
        ["min", "max", "start", "end"].map(|name| window.get(name).and_then(Json::as_f64));
    if let (Some(start), Some(end)) = (start, end) {
        if start >= end {
            return Err(usage!("the window from {start} to {end} is empty"));
        }
        // The slider range must include the window.
        if min.is_none_or(|min| min > start) {
            window.set("min", number(start));
        }
        if max.is_none_or(|max| max < end) {
            window.set("max", number(end));
        }
    }
    one.set("window", window);
    Ok(())
}

/// Edits the image at `path` of a store.
#[boxed]
pub async fn edit(store: &SharedStore, path: &str, edit: &Edit) -> Result<()> {
    let zarr = hierarchy::open(store).await?;
    let image = find::image_at(&zarr, path).await?;
    let frame = ImageArrays::of(&zarr, &image, edit.multiscale.as_deref()).await?;
    let changed = |old: &Json| apply(old, image.version, &frame, edit);
    change(store, &image.path, changed).await?;
    if edit.pixel_sizes.is_empty() && edit.units.is_empty() {
        return Ok(());
    }
    // Labels overlay the image: they are scaled with it.
    let old = image.multiscale(edit.multiscale.as_deref())?;
    let size = |m: &Multiscale, name: &str| {
        let at = m.axes.iter().position(|a| a.name == name)?;
        m.levels.first()?.scale.as_ref()?.get(at).copied().filter(|s| *s != 0.0)
    };
    for label in image.labels(&zarr).await?.iter().filter(|label| !label.is_mask) {
        let label = find::image_at(&zarr, &label.path).await?;
        let own = label.multiscale(None)?;
        let has = |name: &str| own.axes.iter().any(|a| a.name == name);
        let sizes = edit.pixel_sizes.iter().filter_map(|(name, new)| {
            let ratio = size(own, name)? / size(old, name)?;
            Some((name.clone(), if ratio == 1.0 { *new } else { new * ratio }))
        });
        let units = edit.units.iter().filter(|(name, _)| has(name)).cloned();
        let same = Edit { pixel_sizes: sizes.collect(), units: units.collect(), ..Edit::default() };
        let frame = ImageArrays::of(&zarr, &label, None).await?;
        change(store, &label.path, |old| apply(old, label.version, &frame, &same)).await?;
    }
    Ok(())
}

/// Sets colours of labels or of a mask of the image at `path`; those of other values are kept.
#[boxed]
pub async fn edit_colors(store: &SharedStore, path: &str, name: &str, colors: &[LabelColor]) -> Result<()> {
    let zarr = hierarchy::open(store).await?;
    let image = find::image_at(&zarr, path).await?;
    let labels = image.labels(&zarr).await?;
    let label = labels.iter().find(|l| l.name == name).ok_or_else(|| {
        let names: Vec<&str> = labels.iter().map(|l| l.name.as_str()).collect();
        let there = if names.is_empty() {
            "there are none".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        not_found!("no labels {name:?}; {there}").with_node(shown(&image.path)).with_store(store)
    })?;
    change(store, &label.path, |old| {
        let mut changed = old.clone();
        if label.is_mask {
            let mut map = old.inner("color");
            map.set_all(&document::mask_colors(colors));
            changed.set("color", map);
            return Ok(changed);
        }
        version::edit_ome(&mut changed, |ome| {
            let old = ome.get("image-label").filter(|l| l.members().is_some()).cloned();
            let mut inner =
                old.unwrap_or_else(|| versioned(image.version, image.version < ImageVersion::V06));
            let mut list = inner.list("colors").to_vec();
            for color in colors {
                let same = |c: &Json| c.get("label-value").and_then(Json::as_i128) == Some(color.value);
                // The last one for a value wins, so that is the one to change.
                match list.iter_mut().rev().find(|c| same(c)) {
                    Some(there) => there.set("rgba", color.rgba.as_slice()),
                    None => list.push(document::label_color(color)),
                }
            }
            inner.set("colors", list);
            ome.set("image-label", inner);
        });
        Ok(changed)
    })
    .await
}

/// Edits the current attributes of the group at `path`.
async fn change(store: &SharedStore, path: &str, new: impl Fn(&Json) -> Result<Json>) -> Result<()> {
    let named = |e: Error| e.with_node(shown(path)).with_store(store);
    hierarchy::change_attributes(store, path, |old| new(old).map_err(named)).await
}

/// Windows of all channels that cover most of their pixels, from the smallest level.
#[boxed]
pub async fn windows(
    store: &SharedStore,
    path: &str,
    multiscale: Option<&str>,
) -> Result<Vec<ChannelWindow>> {
    let zarr = hierarchy::open(store).await?;
    let image = find::image_at(&zarr, path).await?;
    render::windows(&zarr, &image, multiscale).await
}
