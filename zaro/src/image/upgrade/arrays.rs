//! Computes the target metadata of an array in an upgrade.

use crate::error::Result;
use crate::image::version::ImageVersion;
use crate::meta::create::{MemoryLayout, NewArray};
use crate::meta::{ArrayMeta, ChunkKeys, Format, convert, write};

/// The target of an array.
#[derive(Debug, Clone)]
pub(super) struct ArrayTarget {
    pub(super) meta: ArrayMeta,
    /// Why its chunks must be recoded; `None` if the bytes stay the same.
    pub(super) recode: Option<String>,
}

/// Requirements on an array.
#[derive(Debug, Clone, Default)]
pub(super) struct WantedArray {
    /// Whether its chunks should be kept in place, if possible.
    pub(super) in_place: bool,
    /// Whether it is a level of an image, for which the version requires certain chunk keys.
    pub(super) level: bool,
    /// The names of its dimensions, if known.
    pub(super) names: Option<Vec<String>>,
}

/// The target of an array for the version `to`.
pub(super) fn target(meta: &ArrayMeta, to: ImageVersion, wanted: &WantedArray) -> Result<ArrayTarget> {
    let named = |meta: ArrayMeta| match &wanted.names {
        Some(names) if names.len() == meta.shape.len() => {
            let dimension_names = Some(names.iter().cloned().map(Some).collect());
            ArrayMeta { dimension_names, ..meta }
        }
        _ => meta,
    };
    let separated = |keys: ChunkKeys| match to.separator() {
        Some(separator) if wanted.level => ChunkKeys { separator, ..keys },
        _ => keys,
    };
    if meta.format == to.format() {
        let draft = named(ArrayMeta { keys: separated(meta.keys), ..meta.clone() });
        let stated = meta.document.get("dimension_separator").and_then(|s| s.as_str()).unwrap_or(".");
        let kept = meta.format == Format::V3 || stated == draft.keys.separator.to_string();
        let same = kept && draft.dimension_names == meta.dimension_names;
        let meta = if same { draft } else { write::settle(draft)? };
        return Ok(ArrayTarget { meta, recode: None });
    }
    let usual = ChunkKeys { prefixed: to.format() == Format::V3, separator: '/' };
    let converted = convert::array(meta, to.format(), convert::Keys::Keep, convert::Kept::Fill)?;
    let foreign = converted.meta.codecs.iter().find(|c| c.name.starts_with("numcodecs."));
    let recode = converted.recode.or_else(|| {
        let name = &foreign.filter(|_| to.format() == Format::V3)?.name;
        Some(format!("few V3 readers support {name:?}"))
    });
    let mut draft = named(converted.meta);
    if recode.is_some() && to.format() == Format::V3 {
        // A compressor that every reader has, without filters.
        let plain = NewArray { codecs: None, layout: MemoryLayout::C, ..NewArray::like(&draft)? };
        draft = NewArray { keys: Some(usual), ..plain }.meta()?;
    } else if to.format() == Format::V3 {
        draft.keys = if wanted.in_place { meta.keys } else { usual };
    } else if wanted.level {
        draft.keys = usual;
        // The axes of 0.4 are only in the image metadata; 0.3, which repeats them, is never a target of a downgrade.
        draft.dimension_names = None;
    }
    Ok(ArrayTarget { meta: write::settle(draft)?, recode })
}

/// Whether every chunk has the same key in both.
pub(super) fn same_keys(a: ChunkKeys, b: ChunkKeys, rank: usize) -> bool {
    a == b || !a.prefixed && !b.prefixed && rank < 2
}

/// Whether chunks of the one may have keys of the other.
pub(super) fn keys_clash(a: ChunkKeys, b: ChunkKeys, rank: usize) -> bool {
    a.prefixed == b.prefixed && (a.separator == b.separator || rank < 2)
}
