//! Validates OME-Zarr metadata: rules V1 to V39.
//!
//! The rules are those of each version's specification, including what the official schemas do not check, and common
//! mistakes; see [`RULES`]. They are applied to the documents, not to the model, which is tolerant.
//!
//! * [`validate`] checks a node of a Zarr and all that belongs to it: levels, labels and masks, wells and fields, the
//!   images of a `bioformats2raw.layout` or of a scene.
//! * [`validate_attributes`] checks a single document.
//! * [`archive`] checks the ZIP archive, if it is an `.ozx`.

pub mod archive;
mod arrays;
mod axes;
mod document;
mod hcs;
mod image;
mod labels;
mod layout;
mod map;
mod omero;
mod report;
mod rules;
mod systems;
mod transforms;
mod walk;

use std::path::Path;

use crate::boxed;
use crate::error::{Error, Result};
use crate::group::Zarr;
use crate::image::version::{self, ImageVersion, Stated};
use crate::meta::{Format, Json};

pub use report::{FindingLevel, ImageFinding, ImageReport};
pub use rules::{RULES, Rule};

/// Options for [`validate`].
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct ImageValidateOptions {
    /// The version whose rules are applied, whatever the documents state.
    pub version: Option<ImageVersion>,
    /// Missing nodes are not a finding: for trees of which only some documents were kept.
    pub metadata_only: bool,
}

/// Which rules are applied to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Judged {
    version: ImageVersion,
    /// The document has a version newer than the last known one, and is validated as that as far as possible.
    newer: bool,
}

impl Judged {
    fn new(version: ImageVersion) -> Self {
        Self { version, newer: false }
    }
}

/// Validates the node at `path` and all that belongs to it.
#[boxed]
pub async fn validate(zarr: &Zarr, path: &str, options: &ImageValidateOptions) -> Result<ImageReport> {
    walk::validate(zarr, path, options).await
}

/// The attributes in a JSON file, if `uri` is one: those of a `zarr.json`, or the document itself; `None` for reference
/// stores, which are JSON files, too. Invalid JSON is an error if the file is `certain` to be JSON.
pub fn attributes_in(uri: &str, certain: bool) -> Result<Option<Json>> {
    let path = Path::new(uri.strip_prefix("file://").unwrap_or(uri));
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    if !(name.ends_with(".json") || name == ".zattrs") || !path.is_file() {
        return Ok(None);
    }
    let place = |e: Error| e.with_store(path.display());
    let bytes = std::fs::read(path).map_err(|e| place(e.into()))?;
    let document = match Json::parse(&bytes) {
        Ok(document) => document.value,
        Err(e) if certain => return Err(place(e)),
        Err(_) => return Ok(None),
    };
    if ["refs", ".zgroup", "zarr.json"].iter().any(|key| document.get(key).is_some()) {
        return Ok(None);
    }
    if document.get("zarr_format").is_some() {
        return Ok(Some(document.get("attributes").cloned().unwrap_or_else(Json::object)));
    }
    Ok(Some(document))
}

/// Validates a single document of attributes, without its hierarchy.
#[must_use]
pub fn validate_attributes(attributes: &Json, options: &ImageValidateOptions) -> ImageReport {
    let stated = version::stated(attributes);
    let format = if attributes.get("ome").is_some() { Format::V3 } else { Format::V2 };
    let judged = judged(&stated, options, || match (format, attributes.get("multiscales")) {
        // The version is unknown; the last one of this form has the most rules.
        (Format::V2, None) => ImageVersion::V04,
        _ => version::assumed(attributes, format, None, false),
    });
    let mut sink = report::FindingSink::new("", judged);
    document::group(&mut sink, attributes, None, None);
    if !document::carries(attributes) {
        let wanted = "multiscales, plate, well, labels, image-label, series, scene or bioformats2raw.layout";
        sink.must("V1", "", "no OME-Zarr metadata", wanted);
    }
    ImageReport::new(judged, &stated, options, 1, sink.findings)
}

/// The rules for a document that states `stated`.
fn judged(stated: &Stated, options: &ImageValidateOptions, assumed: impl FnOnce() -> ImageVersion) -> Judged {
    if let Some(version) = options.version {
        return Judged::new(version);
    }
    match stated {
        Stated::Known(version, _) => Judged::new(*version),
        Stated::Unknown(text) if is_newer(text) => Judged { version: ImageVersion::V06, newer: true },
        Stated::Unknown(_) | Stated::Nothing => Judged::new(assumed()),
    }
}

/// Whether a text is a version newer than the last known one.
fn is_newer(text: &str) -> bool {
    let mut numbers = text.split('.').map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part.get(..end).and_then(|digits| digits.parse::<u32>().ok())
    });
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(0), Some(minor)) => minor > 6,
        (Some(major), _) => major > 0,
        _ => false,
    }
}

fn text_of(stated: &Stated) -> Option<String> {
    match stated {
        Stated::Known(_, text) | Stated::Unknown(text) => Some(text.clone()),
        Stated::Nothing => None,
    }
}
