//! Metadata of images, changed in place: names, colours, windows, pixel sizes. Chunks are never touched, and what zaro
//! has no word for stays as it is.
//!
//! [`apply`] changes the attributes of a group as they are written; [`edit`] does it to a store, on the condition that
//! nobody else changed them meanwhile.

use crate::error::{Error, Hint, Result, not_found, unsupported, usage};
use crate::group::{OpenOptions, Zarr};
use crate::hierarchy;
use crate::image::document::{self, hex};
use crate::image::find::{self, Image};
use crate::image::model::{AxisKind, Channel, ColorModel, Family, LabelColor, Multiscale, Window};
use crate::image::version::Version;
use crate::image::{parse, render};
use crate::meta::path::shown;
use crate::meta::{DataType, Json};
use crate::num;
use crate::store::SharedStore;

/// Which channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// By its number, from 0.
    Number(usize),
    /// By its name.
    Name(String),
}

/// What changes of a channel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChannelEdit {
    /// Its name.
    pub label: Option<String>,
    /// Its colour.
    pub color: Option<[u8; 3]>,
    /// Its window; numbers that are missing stay.
    pub window: Window,
    /// Its curve.
    pub family: Option<Family>,
    /// The curve's exponent.
    pub coefficient: Option<f64>,
    /// Whether bright and dark are exchanged.
    pub inverted: Option<bool>,
    /// Whether it is drawn.
    pub active: Option<bool>,
}

impl ChannelEdit {
    /// From `CHANNEL:KEY=VALUE,…`: a channel's number or name, and what changes of it.
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
                || value.parse().map(Some).map_err(|_| format!("{key} is true or false, not {value:?}"));
            match key {
                "label" | "name" => edit.label = Some(value.to_owned()),
                "color" | "colour" => {
                    let color = parse::color(value);
                    edit.color = Some(color.ok_or_else(|| format!("{value:?} is no colour such as 00FF00"))?);
                }
                "window" => {
                    let ends = value.split_once("..").or_else(|| value.split_once(':'));
                    let (start, end) = ends.ok_or("a window is START:END")?;
                    (edit.window.start, edit.window.end) = (number(start)?, number(end)?);
                }
                "start" => edit.window.start = number(value)?,
                "end" => edit.window.end = number(value)?,
                "min" => edit.window.min = number(value)?,
                "max" => edit.window.max = number(value)?,
                "family" => {
                    let families = "a family is linear, polynomial, logarithmic or exponential";
                    edit.family = Some(Family::parse(value).ok_or(families)?);
                }
                "coefficient" => edit.coefficient = number(value)?,
                "inverted" => edit.inverted = flag()?,
                "active" => edit.active = flag()?,
                _ => return Err(format!("a channel has no {key:?}")),
            }
        }
        Ok((which, edit))
    }
}

/// What changes of an image.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Edit {
    /// Its name.
    pub name: Option<String>,
    /// The pyramid whose name and pixel size change; the first if none is named.
    pub multiscale: Option<String>,
    /// Channels.
    pub channels: Vec<(Which, ChannelEdit)>,
    /// The size of a pixel along axes, by their names.
    pub pixel_sizes: Vec<(String, f64)>,
    /// Units of axes, by their names.
    pub units: Vec<(String, String)>,
    /// The plane to show, along z.
    pub default_z: Option<u64>,
    /// The plane to show, along t.
    pub default_t: Option<u64>,
    /// How channels become one picture.
    pub model: Option<ColorModel>,
    /// Windows of all channels, from the least and the most of their pixels, or nearly.
    pub windows: Option<Vec<Window>>,
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

/// What the arrays of an image say that is needed to change its attributes.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The names and kinds of its axes, and its extents.
    pub axes: Vec<(String, AxisKind, u64)>,
    /// The type of its pixels.
    pub data_type: DataType,
}

impl Frame {
    /// Looks at the first level of the pyramid that is edited.
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

    /// How many channels there are.
    #[must_use]
    pub fn channels(&self) -> u64 {
        self.axes.iter().find(|(_, kind, _)| *kind == AxisKind::Channel).map_or(1, |(_, _, n)| *n)
    }

    fn extent(&self, name: &str) -> u64 {
        self.axes.iter().find(|(n, ..)| n == name).map_or(1, |(_, _, n)| *n)
    }
}

/// The attributes of an image's group, changed.
pub fn apply(attributes: &Json, version: Version, frame: &Frame, edit: &Edit) -> Result<Json> {
    let mut ome = crate::image::version::ome(attributes).clone();
    if edit.name.is_some() || !edit.pixel_sizes.is_empty() || !edit.units.is_empty() {
        let mut all = ome.get("multiscales").and_then(Json::items).unwrap_or_default().to_vec();
        let at = chosen(&all, edit.multiscale.as_deref());
        let one = all.get_mut(at).ok_or_else(|| Error::invalid("there are no multiscales"))?;
        multiscale(one, version, edit)?;
        ome.set("multiscales", Json::Array(all));
    }
    if let (Some(name), Some(omero)) = (&edit.name, ome.get("omero")) {
        let mut omero = omero.clone();
        if omero.get("name").is_some() {
            omero.set("name", Json::string(name.as_str()));
            ome.set("omero", omero);
        }
    }
    if edit.draws() {
        let old = ome.get("omero").filter(|o| o.members().is_some()).cloned();
        ome.set("omero", omero(old, version, frame, edit)?);
    }
    if std::ptr::eq(crate::image::version::ome(attributes), attributes) {
        return Ok(ome);
    }
    let mut changed = attributes.clone();
    changed.set("ome", ome);
    Ok(changed)
}

/// Which item of `multiscales` is meant: by name, else the first.
fn chosen(all: &[Json], name: Option<&str>) -> usize {
    let named = |m: &Json| name.is_some() && m.get("name").and_then(Json::as_str) == name;
    all.iter().position(named).unwrap_or(0)
}

fn multiscale(one: &mut Json, version: Version, edit: &Edit) -> Result<()> {
    if let Some(name) = &edit.name {
        one.set("name", Json::string(name.as_str()));
    }
    if edit.pixel_sizes.is_empty() && edit.units.is_empty() {
        return Ok(());
    }
    if version < Version::V04 {
        return Err(unsupported!(
            "OME-Zarr {version} has no pixel sizes and units; bring the image to 0.4 or later first"
        )
        .or_hint(Hint::operation("image upgrade", "does that")));
    }
    let mut wrapper = Json::object();
    wrapper.set("multiscales", Json::Array(vec![one.clone()]));
    let model = parse::group(&wrapper);
    let axes = model.multiscales.first().map(|m| m.axes.clone()).unwrap_or_default();
    let index = |name: &str| {
        axes.iter().position(|a| a.name == name).ok_or_else(|| {
            let names: Vec<&str> = axes.iter().map(|a| a.name.as_str()).collect();
            usage!("there is no axis {name:?}; there are {}", names.join(", "))
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
    // The whole image is stretched: what multiplies level 0 multiplies every level and its distance from the origin.
    let first = model.multiscales.first().and_then(|m| m.levels.first());
    let (scale, origin) = match first {
        Some(level) => (level.scale.clone(), level.translation.clone()),
        None => (None, None),
    };
    let old = |i: usize| scale.as_ref().and_then(|s| s.get(i).copied()).filter(|s| *s != 0.0).unwrap_or(1.0);
    let factors: Vec<f64> = (0..axes.len())
        .map(|i| wanted.iter().find(|(at, _)| *at == i).map_or(1.0, |(_, size)| size / old(i)))
        .collect();
    let exact: Vec<Option<f64>> =
        (0..axes.len()).map(|i| wanted.iter().find(|(at, _)| *at == i).map(|w| w.1)).collect();
    let whole = one.get("coordinateTransformations").and_then(Json::items).is_some_and(|t| !t.is_empty());
    let stretch = Stretch { factors, exact: if whole { vec![None; axes.len()] } else { exact }, origin };
    let mut datasets = one.get("datasets").and_then(Json::items).unwrap_or_default().to_vec();
    for (i, dataset) in datasets.iter_mut().enumerate() {
        let list = dataset.get("coordinateTransformations").and_then(Json::items).unwrap_or_default();
        let list = list.iter().map(|t| stretch.transform(t, i == 0)).collect();
        dataset.set("coordinateTransformations", Json::Array(list));
    }
    one.set("datasets", Json::Array(datasets));
    Ok(())
}

fn set_unit(one: &mut Json, at: usize, unit: &str) {
    let change = |axes: &Json| {
        let mut list = axes.items().unwrap_or_default().to_vec();
        if let Some(axis) = list.get_mut(at) {
            axis.set("unit", Json::string(unit));
            // A misspelt key that some writers have.
            axis.remove("units");
        }
        Json::Array(list)
    };
    if let Some(axes) = one.get("axes") {
        let changed = change(axes);
        one.set("axes", changed);
        return;
    }
    let mut systems = one.get("coordinateSystems").and_then(Json::items).unwrap_or_default().to_vec();
    let own = parse::intrinsic(one).cloned();
    if let Some(system) = systems.iter_mut().find(|s| Some(&**s) == own.as_ref())
        && let Some(axes) = system.get("axes")
    {
        let changed = change(axes);
        system.set("axes", changed);
    }
    one.set("coordinateSystems", Json::Array(systems));
}

/// Another pixel size, for every level.
struct Stretch {
    factors: Vec<f64>,
    /// The number asked for, so that level 0 has it to the last digit.
    exact: Vec<Option<f64>>,
    /// Where level 0 begins, which stays.
    origin: Option<Vec<f64>>,
}

impl Stretch {
    fn transform(&self, json: &Json, first: bool) -> Json {
        let mut out = json.clone();
        let numbers =
            |name: &str| -> Option<Vec<f64>> { json.get(name)?.items()?.iter().map(Json::as_f64).collect() };
        let write = |list: Vec<f64>| Json::Array(list.into_iter().map(Json::float).collect());
        match json.get("type").and_then(Json::as_str) {
            Some("scale") => {
                if let Some(scale) = numbers("scale") {
                    let new = scale.iter().enumerate().map(|(i, s)| {
                        let exact = self.exact.get(i).copied().flatten().filter(|_| first);
                        exact.unwrap_or_else(|| s * self.factors.get(i).copied().unwrap_or(1.0))
                    });
                    out.set("scale", write(new.collect()));
                }
            }
            Some("translation") => {
                if let Some(translation) = numbers("translation") {
                    let new = translation.iter().enumerate().map(|(i, t)| {
                        let origin = self.origin.as_ref().and_then(|o| o.get(i).copied()).unwrap_or(0.0);
                        origin + (t - origin) * self.factors.get(i).copied().unwrap_or(1.0)
                    });
                    out.set("translation", write(new.collect()));
                }
            }
            Some("sequence") => {
                let steps = json.get("transformations").and_then(Json::items).unwrap_or_default();
                let steps = steps.iter().map(|t| self.transform(t, first)).collect();
                out.set("transformations", Json::Array(steps));
            }
            Some("identity") => {
                let pairs = self.exact.iter().zip(&self.factors);
                let scale: Vec<f64> =
                    pairs.map(|(exact, factor)| exact.filter(|_| first).unwrap_or(*factor)).collect();
                out.set("type", Json::string("scale"));
                out.set("scale", write(scale));
            }
            _ => {}
        }
        out
    }
}

/// The least and the most that pixels of a type can be; 0 and 1 for floats.
fn range_of(data_type: &DataType) -> (f64, f64) {
    use DataType as T;
    match data_type {
        T::Int(bits) => {
            let half = 2f64.powi(i32::from(*bits) - 1);
            (-half, half - 1.0)
        }
        T::UInt(bits) => (0.0, 2f64.powi(i32::from(*bits)) - 1.0),
        _ => (0.0, 1.0),
    }
}

fn omero(old: Option<Json>, version: Version, frame: &Frame, edit: &Edit) -> Result<Json> {
    let count = num::usize_of(frame.channels())?;
    let (low, high) = range_of(&frame.data_type);
    let plain = |i: usize| Channel {
        color: Some(render::default_color(i, count)),
        window: Window { start: Some(low), end: Some(high), min: Some(low), max: Some(high) },
        ..Channel::default()
    };
    let mut omero = old.unwrap_or_else(|| {
        let mut new = Json::object();
        if version < Version::V05 {
            new.set("version", Json::string(version.text()));
        }
        new
    });
    let mut channels = omero.get("channels").and_then(Json::items).unwrap_or_default().to_vec();
    // A version that wants colours and windows of every channel gets them of those that are added here, too.
    for i in channels.len()..count {
        channels.push(document::channel(&plain(i)));
    }
    // First what is found from the pixels: what is said of one channel counts more.
    for (one, window) in channels.iter_mut().zip(edit.windows.iter().flatten()) {
        set_window(one, window)?;
    }
    for (which, change) in &edit.channels {
        let at = number_of(which, &channels)?;
        let names = channels.len();
        let one = channels
            .get_mut(at)
            .ok_or_else(|| usage!("there is no channel {at}; there are {names}, from 0"))?;
        channel(one, change)?;
    }
    omero.set("channels", Json::Array(channels));
    let limits = [("defaultT", edit.default_t, "t"), ("defaultZ", edit.default_z, "z")];
    let mut rdefs =
        omero.get("rdefs").filter(|r| r.members().is_some()).cloned().unwrap_or_else(Json::object);
    for (name, value, axis) in limits {
        let Some(value) = value else { continue };
        let extent = frame.extent(axis);
        if value >= extent {
            return Err(usage!("{axis} {value} does not exist; the image has {extent}, from 0"));
        }
        rdefs.set(name, Json::int(value));
    }
    if let Some(model) = edit.model {
        let text = if model == ColorModel::Color { "color" } else { "greyscale" };
        rdefs.set("model", Json::string(text));
    }
    if rdefs.members().is_some_and(|m| !m.is_empty()) {
        omero.set("rdefs", rdefs);
    }
    Ok(omero)
}

fn number_of(which: &Which, channels: &[Json]) -> Result<usize> {
    match which {
        Which::Number(n) => Ok(*n),
        Which::Name(name) => {
            let label = |c: &Json| c.get("label").and_then(Json::as_str).map(str::to_owned);
            channels.iter().position(|c| label(c).as_ref() == Some(name)).ok_or_else(|| {
                let names: Vec<String> = channels.iter().filter_map(label).collect();
                usage!("there is no channel {name:?}; there are {}", names.join(", "))
            })
        }
    }
}

fn channel(one: &mut Json, change: &ChannelEdit) -> Result<()> {
    if let Some(label) = &change.label {
        one.set("label", Json::string(label.as_str()));
    }
    if let Some(color) = change.color {
        one.set("color", Json::string(hex(color)));
    }
    if let Some(family) = change.family {
        one.set("family", Json::string(family.text()));
    }
    if let Some(k) = change.coefficient {
        if !k.is_finite() || k <= 0.0 {
            return Err(Error::usage("a coefficient must be greater than 0"));
        }
        one.set("coefficient", Json::float(k));
    }
    for (name, value) in [("inverted", change.inverted), ("active", change.active)] {
        if let Some(value) = value {
            one.set(name, Json::Bool(value));
        }
    }
    set_window(one, &change.window)
}

fn set_window(one: &mut Json, change: &Window) -> Result<()> {
    let parts = [("min", change.min), ("max", change.max), ("start", change.start), ("end", change.end)];
    if parts.iter().all(|(_, x)| x.is_none()) {
        return Ok(());
    }
    let mut window =
        one.get("window").filter(|w| w.members().is_some()).cloned().unwrap_or_else(Json::object);
    for (name, value) in parts {
        let Some(x) = value else { continue };
        if !x.is_finite() {
            return Err(Error::usage("a window needs numbers"));
        }
        window.set(name, Json::Number(shortest(x).into()));
    }
    let [min, max, start, end] =
        ["min", "max", "start", "end"].map(|name| window.get(name).and_then(Json::as_f64));
    if let (Some(start), Some(end)) = (start, end) {
        if start >= end {
            return Err(usage!("the window from {start} to {end} holds nothing"));
        }
        // The slider must reach what is shown.
        if min.is_none_or(|min| min > start) {
            window.set("min", Json::Number(shortest(start).into()));
        }
        if max.is_none_or(|max| max < end) {
            window.set("max", Json::Number(shortest(end).into()));
        }
    }
    one.set("window", window);
    Ok(())
}

fn shortest(x: f64) -> String {
    let text = format!("{x:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Changes the image at `path` of a store.
pub async fn edit(store: &SharedStore, path: &str, edit: &Edit) -> Result<()> {
    let zarr = open(store).await?;
    let image = find::image_at(&zarr, path).await?;
    let frame = Frame::of(&zarr, &image, edit.multiscale.as_deref()).await?;
    let changed = |old: &Json| apply(old, image.version, &frame, edit);
    change(store, &image.path, changed).await?;
    if edit.pixel_sizes.is_empty() && edit.units.is_empty() {
        return Ok(());
    }
    // Labels lie over the image: they are stretched with it.
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
        let frame = Frame::of(&zarr, &label, None).await?;
        change(store, &label.path, |old| apply(old, label.version, &frame, &same)).await?;
    }
    Ok(())
}

/// Sets colours of labels or of a mask below the image at `path`; those of other values stay.
pub async fn edit_colors(store: &SharedStore, path: &str, name: &str, colors: &[LabelColor]) -> Result<()> {
    let zarr = open(store).await?;
    let image = find::image_at(&zarr, path).await?;
    let labels = image.labels(&zarr).await?;
    let label = labels.iter().find(|l| l.name == name).ok_or_else(|| {
        let names: Vec<&str> = labels.iter().map(|l| l.name.as_str()).collect();
        let there = if names.is_empty() {
            "there are none".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        not_found!("there are no labels {name:?}; {there}").with_node(shown(&image.path)).with_store(store)
    })?;
    change(store, &label.path, |old| {
        let mut changed = old.clone();
        if label.is_mask {
            let mut map =
                old.get("color").filter(|c| c.members().is_some()).cloned().unwrap_or_else(Json::object);
            for (key, value) in document::mask_colors(colors).members().unwrap_or_default() {
                map.set(key, value.clone());
            }
            changed.set("color", map);
        } else {
            let mut ome = crate::image::version::ome(old).clone();
            let mut inner =
                ome.get("image-label").filter(|l| l.members().is_some()).cloned().unwrap_or_else(|| {
                    let mut new = Json::object();
                    if image.version < Version::V06 {
                        new.set("version", Json::string(image.version.text()));
                    }
                    new
                });
            let mut list = inner.get("colors").and_then(Json::items).unwrap_or_default().to_vec();
            for color in colors {
                let rgba = Json::Array(color.rgba.iter().map(Json::int).collect());
                let same = |c: &Json| c.get("label-value").and_then(Json::as_i128) == Some(color.value);
                // Of two for one value the last counts, so that is the one to change.
                match list.iter_mut().rev().find(|c| same(c)) {
                    Some(there) => there.set("rgba", rgba),
                    None => {
                        let mut new = Json::object();
                        new.set("label-value", Json::int(color.value));
                        new.set("rgba", rgba);
                        list.push(new);
                    }
                }
            }
            inner.set("colors", Json::Array(list));
            ome.set("image-label", inner);
            if std::ptr::eq(crate::image::version::ome(old), old) {
                changed = ome;
            } else {
                changed.set("ome", ome);
            }
        }
        Ok(changed)
    })
    .await
}

async fn open(store: &SharedStore) -> Result<Zarr> {
    let options = OpenOptions { use_consolidated: false, ..OpenOptions::default() };
    Zarr::from_store(store.clone(), options).await
}

/// Changes the attributes of the group at `path`, as they are at that moment.
async fn change(store: &SharedStore, path: &str, new: impl Fn(&Json) -> Result<Json>) -> Result<()> {
    let named = |e: Error| e.with_node(shown(path)).with_store(store);
    hierarchy::change_attributes(store, path, |old| new(old).map_err(named)).await
}

/// Windows of all channels in which most of their pixels can be seen, from the smallest level.
pub async fn windows(store: &SharedStore, path: &str, multiscale: Option<&str>) -> Result<Vec<Window>> {
    let zarr = open(store).await?;
    let image = find::image_at(&zarr, path).await?;
    render::windows(&zarr, &image, multiscale).await
}
