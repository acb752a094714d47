//! Converts OME-Zarr attributes from one version to another.
//!
//! The JSON itself is edited, step by step from version to version, so that unknown keys are kept. Each step skips what
//! is already in its form: documents with two versions exist.

mod down;
mod steps;
mod transforms;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::error::{Result, not_found, unsupported};
use crate::image::document;
use crate::image::version::ImageVersion;
use crate::meta::{DataType, Json};

/// The OME members. Before 0.5 they are among the attributes, since then in `ome`.
const OWN: [&str; 10] = [
    "multiscales",
    "omero",
    "image-label",
    "labels",
    "plate",
    "well",
    "bioformats2raw.layout",
    "series",
    "scene",
    "_creator",
];

/// The array of a level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelArray {
    /// Its extents.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub data_type: DataType,
}

/// Information that a group's attributes do not contain.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupContext {
    /// The arrays of the levels, by their paths in `datasets`.
    pub arrays: BTreeMap<String, LevelArray>,
    /// Whether the group is part of an OME-Zarr, even without OME attributes.
    pub ome: bool,
    /// Whether metadata that the new version cannot express is dropped; otherwise it is an error.
    pub lossy: bool,
}

/// Attributes of the new version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lifted {
    /// The attributes.
    pub attributes: Json,
    /// Notes on what was inferred or dropped.
    pub notes: Vec<String>,
}

/// Attributes during conversion.
struct Draft<'a> {
    /// The OME members.
    ome: Json,
    /// All others.
    rest: Json,
    context: &'a GroupContext,
    notes: Vec<String>,
}

/// Converts the attributes of a group from version `from` to version `to`.
///
/// # Errors
/// `Unsupported`, if the new version cannot express something and the context is not lossy, or for a downgrade below
/// 0.4. `NotFound`, if a required level does not exist.
pub(crate) fn lift(
    attributes: &Json,
    from: ImageVersion,
    to: ImageVersion,
    context: &GroupContext,
) -> Result<Lifted> {
    if to < from && to < ImageVersion::V04 {
        return Err(unsupported!("cannot downgrade from {from} to {to}; 0.4 is the lowest target"));
    }
    let mut draft = Draft::of(attributes, context);
    for step in [ImageVersion::V03, ImageVersion::V04, ImageVersion::V06] {
        if from < step && step <= to {
            match step {
                ImageVersion::V03 => draft.named_axes()?,
                ImageVersion::V04 => draft.typed_axes()?,
                _ => draft.systems()?,
            }
        }
    }
    if from >= ImageVersion::V06 && to < ImageVersion::V06 {
        draft.no_systems()?;
    }
    draft.version(from, to);
    Ok(draft.end(to))
}

impl<'a> Draft<'a> {
    /// Separates the OME members from the others.
    fn of(attributes: &Json, context: &'a GroupContext) -> Self {
        let (mut ome, mut rest) = (Json::object(), Json::object());
        let inside = attributes.get("ome").filter(|o| o.members().is_some());
        if let Some(inside) = inside {
            ome = inside.clone();
            ome.remove("version");
        }
        for (name, value) in attributes.members().unwrap_or_default() {
            // Some writers put the layout beside `ome`.
            let own = if inside.is_some() {
                name == "ome" || name == "bioformats2raw.layout"
            } else {
                OWN.contains(&name.as_str())
            };
            match own {
                true if name == "ome" => {}
                true if ome.get(name).is_none() => ome.set(name, value.clone()),
                _ => rest.set(name, value.clone()),
            }
        }
        Self { ome, rest, context, notes: Vec::new() }
    }

    fn end(self, to: ImageVersion) -> Lifted {
        let Self { ome, rest, context, mut notes } = self;
        let own = ome.members().unwrap_or_default();
        if to >= ImageVersion::V05 {
            if own.is_empty() && !context.ome {
                return Lifted { attributes: rest, notes };
            }
            let mut attributes = document::group(to, own.to_vec());
            attributes.set_all(&rest);
            return Lifted { attributes, notes };
        }
        let mut flat = Json::object();
        for (name, value) in own {
            let name = match rest.get(name) {
                Some(other) if other != value => {
                    notes.push(format!("{name:?} is both in ome and beside it; the first is now ome.{name}"));
                    format!("ome.{name}")
                }
                _ => name.clone(),
            };
            flat.set(&name, value.clone());
        }
        flat.set_all(&rest);
        Lifted { attributes: flat, notes }
    }

    /// Sets the version where this version has it.
    fn version(&mut self, from: ImageVersion, to: ImageVersion) {
        let text = (to < ImageVersion::V06).then(|| Json::string(to.text()));
        let set = |object: &mut Json, text: &Option<Json>| match text {
            Some(text) => object.set("version", text.clone()),
            None => object.remove("version"),
        };
        for name in ["image-label", "plate", "well"] {
            edit(&mut self.ome, name, |object| set(object, &text));
        }
        let text = text.filter(|_| to < ImageVersion::V05);
        edit_each(&mut self.ome, "multiscales", |multiscale| set(multiscale, &text));
        edit(&mut self.ome, "omero", |omero| match &text {
            // Since 0.5 it has no version of its own.
            Some(text) if omero.get("version").is_some() || from >= ImageVersion::V05 => {
                omero.set("version", text.clone())
            }
            _ => omero.remove("version"),
        });
    }

    /// Edits each of the multiscales.
    fn multiscales(&mut self, mut change: impl FnMut(&mut Self, Json) -> Result<Json>) -> Result<()> {
        let Some(Json::Array(all)) = self.ome.get("multiscales").cloned() else { return Ok(()) };
        let changed = all.into_iter().map(|multiscale| match multiscale {
            Json::Object(_) => change(self, multiscale),
            other => Ok(other),
        });
        let changed = changed.collect::<Result<Vec<_>>>()?;
        self.ome.set("multiscales", changed);
        Ok(())
    }

    /// The array of the level at `path`.
    fn level(&self, path: &str) -> Result<&'a LevelArray> {
        self.context
            .arrays
            .get(path)
            .ok_or_else(|| not_found!("multiscales list a level {path:?}, but that array does not exist"))
    }
}

/// Edits the object `name` of `json`, if there is one.
fn edit(json: &mut Json, name: &str, change: impl FnOnce(&mut Json)) {
    if let Some(object) = json.get_mut(name).filter(|o| o.members().is_some()) {
        change(object);
    }
}

/// Edits each object in the list `name` of `json`, if there is one.
fn edit_each(json: &mut Json, name: &str, change: impl FnMut(&mut Json)) {
    json.list_mut(name).iter_mut().filter(|item| item.members().is_some()).for_each(change);
}

/// The object with its member `old` replaced by `new` at the same position.
fn renamed(json: &Json, old: &str, new: &str, value: Json) -> Json {
    let mut value = Some(value);
    let mut members: Vec<(String, Json)> = Vec::new();
    for (name, kept) in json.members().unwrap_or_default() {
        match value.take_if(|_| name == old) {
            Some(value) => members.push((new.to_owned(), value)),
            None if name == new => {}
            None => members.push((name.clone(), kept.clone())),
        }
    }
    members.extend(value.map(|value| (new.to_owned(), value)));
    Json::Object(members)
}
