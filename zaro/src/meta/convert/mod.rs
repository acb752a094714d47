//! Converts metadata between Zarr V2 and V3.
//!
//! Where both versions have the codecs, only the documents change: chunk bytes are unchanged, and if keys are kept too
//! ([`Keys::Keep`]) the chunks stay in place. Where a codec has no counterpart, the result is the nearest metadata that
//! can be written, with the reason why chunks must be re-encoded.
//!
//! | V2 | V3 |
//! |---|---|
//! | `dtype` with `<` or `>` | the data type, and `bytes` with `endian` |
//! | `order` `F` | `transpose` that reverses the dimensions |
//! | `zstd`, `gzip`, `blosc` | the same; blosc's shuffle and element size are worked out |
//! | `zlib`, `lz4`, `bz2`, `lzma`, `shuffle`, checksums | `numcodecs.*`, as zarr-python names them |
//! | `delta`, `fixedscaleoffset`, `quantize`, `astype`, `packbits`, `bitround` before all these | `numcodecs.*`, before `bytes` |
//! | `pcodec`, `zfpy` | `numcodecs.*`, in the place of `bytes` |
//! | `vlen-utf8`, `vlen-bytes` | the same |
//! | `_ARRAY_DIMENSIONS` in `.zattrs` | `dimension_names` |
//! | `fill_value` null | zero |
//! | `fill_value` of a variable, as xarray reads it | `fill_value`, and the attribute `_FillValue`; see [`missing`] |
//!
//! Shards become V2 chunks of their inner shape, and rectilinear grids regular ones, both re-encoded. Data types that
//! the other version lacks are an error.

mod down;
pub(crate) mod missing;
mod up;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::json::Json;
use super::keys::ChunkKeys;
use super::{ArrayMeta, CodecMeta, Format, GroupMeta, write};
use crate::error::{Result, unsupported};

/// The keys of a converted array's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Those it has, so that chunks can stay in place. V2 has no keys that begin with `c`; there the separator is kept.
    Keep,
    /// The default of the new version: `c/0/0` in V3, `0.0` in V2.
    Usual,
}

/// What must be preserved in a conversion, besides the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The fill value that missing chunks read as. For arrays that are not variables of a data set.
    Fill,
    /// What readers of the CF conventions see: which elements are missing, names of dimensions, attributes; see
    /// [`missing`]. An array that no such reader opens keeps its fill value.
    Meaning,
}

/// An array's metadata in the other version.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvertedMetadata {
    /// The metadata, with the document to be stored. Chunks have to be moved if its `keys` differ from the old ones.
    pub meta: ArrayMeta,
    /// Why chunks must be re-encoded; `None` if every chunk has the same bytes in both versions.
    pub recode: Option<String>,
}

impl ConvertedMetadata {
    /// Whether every chunk has the same bytes in both versions.
    #[must_use]
    pub fn chunks_identical(&self) -> bool {
        self.recode.is_none()
    }

    /// Whether a missing chunk reads as another value than in `old`, so that it must be written.
    #[must_use]
    pub fn missing_chunks_differ(&self, old: &ArrayMeta) -> bool {
        self.meta.fill != old.fill
    }
}

/// The array in the version `to`. One that already has this version is rewritten in the form of zaro's documents.
///
/// # Errors
/// `Unsupported` if the version has no such data type, or cannot preserve what is to be `kept`.
pub(crate) fn array(meta: &ArrayMeta, to: Format, keys: Keys, kept: Kept) -> Result<ConvertedMetadata> {
    let usual = |old: ChunkKeys| match (to, keys) {
        (Format::V3, Keys::Keep) => old,
        (Format::V3, Keys::Usual) => ChunkKeys { prefixed: true, separator: '/' },
        (Format::V2, Keys::Keep) => ChunkKeys { prefixed: false, ..old },
        (Format::V2, Keys::Usual) => ChunkKeys { prefixed: false, separator: '.' },
    };
    let mut reasons = Reasons::default();
    let mut draft = ArrayMeta { format: to, keys: usual(meta.keys), ..meta.clone() };
    if meta.format != to {
        draft.document = Arc::new(Json::object());
        match to {
            Format::V3 => up::array(meta, &mut draft, &mut reasons),
            Format::V2 => down::array(meta, &mut draft, &mut reasons)?,
        }
        match (to, kept) {
            (_, Kept::Fill) => {}
            (Format::V3, Kept::Meaning) => missing::up(meta, &mut draft),
            (Format::V2, Kept::Meaning) => missing::down(meta, &mut draft),
        }
    }
    let made = write::settle(draft)?;
    if kept == Kept::Meaning
        && let Some(what) = missing::difference(meta, &made, kept, |element| Some(element.clone()))
    {
        return Err(unsupported!("Zarr V{} cannot preserve {what}", to.number()));
    }
    Ok(ConvertedMetadata { meta: made, recode: reasons.text() })
}

/// The group in the version `to`. Consolidated metadata are left out: they are of the old version.
pub(crate) fn group(meta: &GroupMeta, to: Format) -> GroupMeta {
    write::new_group(to, &meta.attributes)
}

/// Reasons why chunks must be re-encoded.
#[derive(Debug, Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn add(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        if !self.0.contains(&reason) {
            self.0.push(reason);
        }
    }

    fn text(self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join("; "))
    }
}

/// Bytes-to-bytes codecs that are the same under V2's id and under `numcodecs.<id>`, in zarr-python too.
const SAME: [&str; 9] =
    ["zlib", "lz4", "bz2", "lzma", "shuffle", "crc32", "adler32", "fletcher32", "jenkins_lookup3"];

/// A configuration of these members, where they are given.
fn configuration<const N: usize>(members: [(&str, Option<Json>); N]) -> Vec<(String, Json)> {
    members.into_iter().filter_map(|(n, v)| Some((n.to_owned(), v?))).collect()
}

/// The same configuration with some members replaced.
fn with<const N: usize>(codec: &CodecMeta, name: &str, members: [(&str, Json); N]) -> CodecMeta {
    let mut configuration = Json::Object(codec.configuration.clone());
    for (n, v) in members {
        configuration.set(n, v);
    }
    let configuration = if let Json::Object(members) = configuration { members } else { Vec::new() };
    CodecMeta::new(name, configuration)
}
