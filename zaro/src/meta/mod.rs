//! Layer 2: parses Zarr V2 and V3 metadata into one model, and writes it back.
//!
//! `v3` and `v2` both read into [`ArrayMeta`] and [`GroupMeta`]; after that nothing depends on the version, except
//! `write`, which writes documents. [`NewArray`] describes arrays to create, `convert` converts between versions,
//! `edit` changes a document in place, `consolidate` builds consolidated metadata. Deviations from the specification
//! are [`Finding`]s; a strict reading stops at the first.

use std::sync::Arc;

use crate::error::{Result, usage};
use crate::suggest;

pub(crate) mod chain;
pub(crate) mod consolidate;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod dtype;
pub(crate) mod edit;
pub(crate) mod fill;
pub(crate) mod finding;
pub(crate) mod float;
pub(crate) mod grid;
pub(crate) mod json;
pub(crate) mod keys;
mod like;
pub(crate) mod numeral;
pub(crate) mod path;
pub(crate) mod short;
pub(crate) mod typestr;
pub(crate) mod v2;
pub(crate) mod v3;
pub(crate) mod write;

pub use convert::ConvertedMetadata;
pub use create::{MemoryLayout, NewArray, default_chunks};
pub use dtype::{DataType, Endian, Float, StructField, TimeUnit};
pub use edit::AttributesEdit;
pub use fill::Fill;
pub use finding::{Finding, Findings, Level, Mode};
pub use grid::Grid;
pub use json::Json;
pub use keys::ChunkKeys;
pub use short::parse as parse_codecs;

/// The version of Zarr a node was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Zarr V2.
    V2,
    /// Zarr V3.
    V3,
}

impl Format {
    /// 2 or 3.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

/// One codec of an array's codec chain, as in the metadata.
///
/// V2's filters and compressors carry the prefix `v2.`; see `codec/registry.rs`.
#[derive(Debug, Clone, PartialEq)]
pub struct CodecMeta {
    /// The codec's name.
    pub name: String,
    /// The members of its configuration.
    pub configuration: Vec<(String, Json)>,
    /// Whether a reader that does not know the codec must fail.
    pub must_understand: bool,
}

impl CodecMeta {
    /// A codec that must be understood.
    #[must_use]
    pub fn new(name: impl Into<String>, configuration: Vec<(String, Json)>) -> Self {
        Self { name: name.into(), configuration, must_understand: true }
    }

    /// The member `name` of its configuration.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.configuration.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
}

/// An array's metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayMeta {
    /// The version it was written in.
    pub format: Format,
    /// Its extents; `[]` for a scalar.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub data_type: DataType,
    /// Its chunk grid.
    pub grid: Grid,
    /// Its chunk key encoding.
    pub keys: ChunkKeys,
    /// Fill value, which missing chunks read as.
    pub fill: Fill,
    /// Whether V2's document says `null`: no fill value, so that missing chunks are undefined. They read as zero, times
    /// as NaT, and `fill` is that; but no element counts as missing to readers of the CF conventions.
    pub fill_undefined: bool,
    /// The codec chain, in encoding order.
    pub codecs: Vec<CodecMeta>,
    /// Names of dimensions; from `_ARRAY_DIMENSIONS` in V2.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// The user's attributes, an object.
    pub attributes: Arc<Json>,
    /// The complete document it was read from (V2: `.zarray`), so that unknown members can be written back.
    pub document: Arc<Json>,
}

impl ArrayMeta {
    /// The name of dimension `d`, if it has one.
    #[must_use]
    pub fn dimension_name(&self, d: usize) -> Option<&str> {
        self.dimension_names.as_deref()?.get(d)?.as_deref()
    }

    /// The dimension called `name`.
    ///
    /// # Errors
    /// `Usage` if there is none, with the names that there are, or several.
    pub fn dimension(&self, name: &str) -> Result<usize> {
        let names = self.dimension_names.as_deref().unwrap_or_default();
        let mut found = names.iter().enumerate().filter(|(_, n)| n.as_deref() == Some(name)).map(|(d, _)| d);
        match (found.next(), found.next()) {
            (Some(d), None) => Ok(d),
            (Some(_), Some(_)) => Err(usage!("several dimensions are named {name:?}; select by position")),
            (None, _) => {
                let known = suggest::instead(name, names.iter().flatten().map(String::as_str));
                let known = if known.is_empty() {
                    "; the dimensions have no names, select by position".to_owned()
                } else {
                    known
                };
                Err(usage!("there is no dimension {name:?}{known}"))
            }
        }
    }
}

/// Documents of several nodes, by path.
pub type Documents = Vec<(String, Arc<Json>)>;

/// A group's metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMeta {
    /// The version it was written in.
    pub format: Format,
    /// The user's attributes, an object.
    pub attributes: Arc<Json>,
    /// Consolidated metadata, if the group has them: `(path relative to the group, document)`.
    pub consolidated: Option<Documents>,
    /// The document it was read from, without consolidated metadata.
    pub document: Arc<Json>,
}

/// An array's or a group's metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeMeta {
    /// An array.
    Array(ArrayMeta),
    /// A group.
    Group(GroupMeta),
}

impl NodeMeta {
    /// The user's attributes.
    #[must_use]
    pub fn attributes(&self) -> &Json {
        match self {
            Self::Array(a) => &a.attributes,
            Self::Group(g) => &g.attributes,
        }
    }

    /// The version it was written in.
    #[must_use]
    pub fn format(&self) -> Format {
        match self {
            Self::Array(a) => a.format,
            Self::Group(g) => g.format,
        }
    }

    /// `"array"` or `"group"`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Array(_) => "array",
            Self::Group(_) => "group",
        }
    }
}

/// Parses a metadata document; irregular JSON counts as a deviation.
pub fn parse(bytes: &[u8], f: &mut Findings) -> crate::Result<Json> {
    let document = Json::parse(bytes)?;
    for d in document.deviations {
        f.deviation("json", "", d)?;
    }
    Ok(document.value)
}
