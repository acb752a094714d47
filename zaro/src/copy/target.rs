//! The layout of a copied array: metadata, region and type.

use std::sync::Arc;

use super::CopyOptions;
use crate::array::select::Sel;
use crate::array::{Array, Index, Selection};
use crate::codec::registry::{self, CodecRequest};
use crate::codec::{Buffer, Codec, Repr};
use crate::coords::ArrayPart;
use crate::error::{Error, Result};
use crate::meta::convert::missing;
use crate::meta::create::{MemoryLayout, NewArray};
use crate::meta::dtype::Float;
use crate::meta::fill::Dialect;
use crate::meta::{ArrayMeta, CodecMeta, DataType, Fill, Format, Json, convert, v3, write};

/// The copy of one array.
#[derive(Debug)]
pub(super) struct CopyTarget {
    /// Its metadata.
    pub(super) meta: ArrayMeta,
    /// The part of the source it is copied from.
    pub(super) region: CopyRegion,
    /// The conversion of its elements.
    pub(super) cast: Option<Arc<CopyCast>>,
    /// Whether its chunks are the source's, byte for byte.
    pub(super) verbatim: bool,
    /// Its attribute `coordinates`, if it differs from the source.
    pub(super) coordinates: Option<String>,
}

impl CopyTarget {
    /// The copy of `array`, or of a `part` of it; `kept` has to stay the same in another version. If a whole group is
    /// copied, another type applies to its numbers only.
    pub(super) fn of(
        array: &Array,
        part: Option<&ArrayPart>,
        options: &CopyOptions,
        kept: convert::Kept,
        in_group: bool,
    ) -> Result<Self> {
        let source = array.meta();
        let region = match part {
            Some(part) => CopyRegion::of_part(source, &part.indexes)?,
            None => CopyRegion::of(source, options.region.as_ref())?,
        };
        let coordinates = part.and_then(|part| part.coordinates.clone());
        let format = options.format.unwrap_or(source.format);
        let cast = match &options.data_type {
            Some(to) if *to != source.data_type && (!in_group || is_number(&source.data_type)) => {
                Some(Arc::new(CopyCast::new(source, to, options.clamp)?))
            }
            _ => None,
        };
        let recoded = options.chunks.is_some()
            || options.shards.is_some()
            || options.codecs.is_some()
            || options.layout.is_some()
            || cast.is_some()
            || coordinates.is_some()
            || !region.is_all(source);
        let keys = if format == source.format { convert::Keys::Keep } else { convert::Keys::Usual };
        if !recoded {
            let keyed = options.keys.of(source.keys) != source.keys;
            if format == source.format && !keyed {
                return Ok(Self { meta: source.clone(), region, cast, verbatim: true, coordinates });
            }
            let mut converted = convert::array(source, format, keys, kept)?;
            let keys = options.keys.of(converted.meta.keys);
            if keys != converted.meta.keys {
                converted.meta = write::settle(ArrayMeta { keys, ..converted.meta })?;
            }
            let verbatim = converted.chunks_identical();
            return Ok(Self { meta: converted.meta, region, cast, verbatim, coordinates });
        }
        let base = region.cut(convert::array(source, format, keys, kept)?.meta, coordinates.as_deref());
        let mut new = region.new_array(&base)?;
        let largest = region.kept_of(&base.grid.largest());
        let old = new.chunks.clone().unwrap_or_else(|| largest.clone());
        let chunks = match &options.chunks {
            Some(chunks) => chunks.resolve(&base, &old)?,
            // No longer than the remaining length of a dimension, unless they are part of shards.
            None if part.is_some() && new.shards.is_none() => {
                old.iter().zip(&new.shape).map(|(chunk, n)| (*chunk).min((*n).max(1))).collect()
            }
            None => old,
        };
        new.shards = match &options.shards {
            Some(Some(shards)) => Some(shards.resolve(&base, &largest)?),
            Some(None) => None,
            // The old shards, if the new chunks still fit into them.
            None => new.shards.filter(|s| s.iter().zip(&chunks).all(|(s, c)| s.checked_rem(*c) == Some(0))),
        };
        new.chunks = Some(chunks);
        if options.chunks.is_some() || matches!(options.shards, Some(None)) {
            // Chunks have the requested shape, and are not shards in turn.
            new.codecs = new.codecs.map(without_shards).transpose()?;
        }
        if let Some(cast) = &cast {
            new.data_type = cast.to.data_type.clone();
            match cast.element(&base.fill) {
                _ if new.fill_undefined => {}
                Ok(fill) => new.fill = Some(fill),
                // The new type has no value for missing elements.
                Err(_) if base.fill != source.fill => (new.fill, new.fill_undefined) = (None, true),
                Err(e) => return Err(e),
            }
            let attributes = missing::recast(&base, &cast.to.data_type, |element| cast.element(element).ok());
            new.attributes = attributes.members().unwrap_or_default().to_vec();
            new.codecs = new.codecs.map(|c| retyped(c, new.data_type.size())).transpose()?;
        }
        if let Some(codecs) = &options.codecs {
            new.codecs = Some(codecs.clone());
        }
        if let Some(layout) = &options.layout {
            new.layout = layout.clone();
        }
        new.keys = Some(options.keys.of(base.keys));
        Ok(Self { meta: new.meta()?, region, cast, verbatim: false, coordinates })
    }
}

impl CopyTarget {
    /// An array of another version, `meta`, over the chunks of `source`.
    pub(super) fn same(source: &ArrayMeta, meta: ArrayMeta) -> Result<Self> {
        Ok(Self { meta, region: CopyRegion::all(source), cast: None, verbatim: true, coordinates: None })
    }

    /// What of `kept` differs between `old` and `new`.
    pub(super) fn difference(
        &self,
        old: &ArrayMeta,
        new: &ArrayMeta,
        kept: convert::Kept,
    ) -> Option<&'static str> {
        let cut = self.region.cut(old.clone(), self.coordinates.as_deref());
        let old = if self.region.is_all(old) && self.coordinates.is_none() { old } else { &cut };
        let cast = |element: &Fill| match &self.cast {
            Some(cast) => cast.element(element).ok(),
            None => Some(element.clone()),
        };
        // No V3 document can express this, so it is no fault of this one; but it is lost.
        if kept == convert::Kept::Meaning && new.format == Format::V3 && missing::is_lost_in_v3(old) {
            return Some("which elements are missing");
        }
        missing::difference(old, new, kept, cast)
    }
}

/// A codec chain for elements of another type, of `size` bytes: without type-specific filters, and with everything
/// explicit that depends on the type.
fn retyped(chain: Vec<CodecMeta>, size: usize) -> Result<Vec<CodecMeta>> {
    let mut kept = Vec::with_capacity(chain.len());
    for mut codec in chain {
        match codec.name.trim_start_matches("numcodecs.").trim_start_matches("v2.") {
            "delta" | "fixedscaleoffset" | "quantize" | "astype" | "packbits" | "bitround" | "cast_value"
            | "scale_offset" => continue,
            "bytes" if codec.get("endian").is_none() => {
                codec.configuration.push(("endian".into(), Json::string("little")));
            }
            "blosc" | "shuffle" => {
                for (name, value) in &mut codec.configuration {
                    if matches!(name.as_str(), "typesize" | "elementsize") {
                        *value = Json::int(size);
                    }
                }
            }
            "sharding_indexed" => {
                for (name, value) in &mut codec.configuration {
                    if name == "codecs" {
                        *value = write::write_codecs(&retyped(v3::codecs(value, "codecs")?, size)?);
                    }
                }
            }
            _ => {}
        }
        kept.push(codec);
    }
    Ok(kept)
}

/// A codec chain without shards; the inner codecs take their place.
fn without_shards(mut chain: Vec<CodecMeta>) -> Result<Vec<CodecMeta>> {
    while let Some(at) = chain.iter().position(|c| c.name == "sharding_indexed") {
        let inner = chain.get(at).and_then(|c| c.get("codecs")).cloned().unwrap_or(Json::Null);
        chain.splice(at..=at, v3::codecs(&inner, "codecs")?);
    }
    Ok(chain)
}

/// The copied part of one dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Along {
    /// The first position, the step and the count.
    Range(u64, i64, u64),
    /// One position; the dimension is dropped.
    At(u64),
    /// These positions.
    List(Arc<[u64]>),
}

/// The copied part of the source, along each of its dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyRegion(Vec<Along>);

impl CopyRegion {
    fn of(meta: &ArrayMeta, selection: Option<&Selection>) -> Result<Self> {
        let Some(selection) = selection else {
            return Ok(Self::all(meta));
        };
        let ranges = selection.resolve(meta)?.dims.into_iter().map(|sel| match sel {
            Sel::Range { start, step, count, .. } => Ok(Along::Range(start, step, count)),
            Sel::Listed(_) => Err(Error::usage("a region consists of ranges, not of lists of positions")),
        });
        Ok(Self(ranges.collect::<Result<_>>()?))
    }

    /// The part selected by `indexes`; a single position drops its dimension.
    fn of_part(meta: &ArrayMeta, indexes: &[Index]) -> Result<Self> {
        let dims = Selection::new(indexes.to_vec()).resolve(meta)?.dims.into_iter().zip(indexes);
        let along = |(sel, index): (Sel, &Index)| match (sel, index) {
            (Sel::Range { start, .. }, Index::At(_)) => Along::At(start),
            (Sel::Range { start, step, count, .. }, _) => Along::Range(start, step, count),
            (Sel::Listed(pairs), _) => Along::List(pairs.into_iter().map(|(at, _)| at).collect()),
        };
        Ok(Self(dims.map(along).collect()))
    }

    /// The whole array.
    pub(super) fn all(meta: &ArrayMeta) -> Self {
        Self(meta.shape.iter().map(|n| Along::Range(0, 1, *n)).collect())
    }

    fn is_all(&self, meta: &ArrayMeta) -> bool {
        self.0.iter().zip(&meta.shape).all(|(along, n)| *along == Along::Range(0, 1, *n))
    }

    /// The items of `list`, one per dimension of the source, for the dimensions of the copy.
    fn kept_of<T: Clone>(&self, list: &[T]) -> Vec<T> {
        let kept = list.iter().zip(&self.0).filter(|(_, along)| !matches!(along, Along::At(_)));
        kept.map(|(item, _)| item.clone()).collect()
    }

    /// The metadata for this part of an array: names and attributes. Its chunks are set by [`Self::new_array`].
    fn cut(&self, meta: ArrayMeta, coordinates: Option<&str>) -> ArrayMeta {
        let mut attributes = meta.attributes.clone();
        if let Some(names) = coordinates {
            Arc::make_mut(&mut attributes).set("coordinates", Json::string(names));
        }
        let dimension_names = meta.dimension_names.as_ref().map(|names| self.kept_of(names));
        ArrayMeta { shape: self.counts(), dimension_names, attributes, ..meta }
    }

    /// An array like `base`, which was [cut](Self::cut), with chunks of as many dimensions as are left.
    fn new_array(&self, base: &ArrayMeta) -> Result<NewArray> {
        // Its codecs are those of all dimensions.
        let whole = ArrayMeta { shape: vec![1; self.0.len()], ..base.clone() };
        let mut new = NewArray { shape: base.shape.clone(), ..NewArray::like(&whole)? };
        new.chunks = new.chunks.map(|chunks| self.kept_of(&chunks));
        new.shards = new.shards.map(|shards| self.kept_of(&shards)).filter(|shards| !shards.is_empty());
        if let MemoryLayout::Axes(axes) = &new.layout {
            let left: Vec<usize> = self.kept_of(&(0..self.0.len()).collect::<Vec<_>>());
            new.layout =
                MemoryLayout::Axes(axes.iter().filter_map(|d| left.iter().position(|l| l == d)).collect());
        }
        Ok(new)
    }

    /// For the journal: first position, step and count along each dimension; `None` for a whole array.
    pub(super) fn json(&self, meta: &ArrayMeta) -> Option<Json> {
        if self.is_all(meta) {
            return None;
        }
        let list = |numbers: &[u64]| Json::Array(numbers.iter().map(Json::int).collect());
        let along = |along: &Along| match along {
            Along::Range(first, step, count) => {
                Json::Array(vec![Json::int(first), Json::int(step), Json::int(count)])
            }
            Along::At(at) => Json::int(at),
            Along::List(places) => Json::from([("positions", list(places))]),
        };
        Some(Json::Array(self.0.iter().map(along).collect()))
    }

    /// Its shape in the copy.
    pub(super) fn counts(&self) -> Vec<u64> {
        let count = |along: &Along| match along {
            Along::Range(_, _, n) => Some(*n),
            Along::At(_) => None,
            Along::List(places) => Some(crate::num::u64_of(places.len())),
        };
        self.0.iter().filter_map(count).collect()
    }

    /// The part of the source for the block at `start` of `count` in the copy.
    pub(super) fn part(&self, start: &[u64], count: &[u64]) -> Selection {
        let signed = |n: &u64| i64::try_from(*n).unwrap_or(i64::MAX);
        let mut block = start.iter().zip(count);
        let sels = self.0.iter().map(|along| match along {
            Along::At(at) => Index::At(signed(at)),
            kept => {
                let (s, n) = block.next().map_or((0, 0), |(s, n)| (*s, *n));
                match kept {
                    Along::Range(first, step, _) => {
                        let moved = step.unsigned_abs().saturating_mul(s);
                        let at =
                            if *step > 0 { first.saturating_add(moved) } else { first.saturating_sub(moved) };
                        index(at, *step, n)
                    }
                    Along::List(places) => {
                        let (s, n) = (usize::try_from(s).unwrap_or(0), usize::try_from(n).unwrap_or(0));
                        Index::List(places.iter().skip(s).take(n).map(signed).collect())
                    }
                    Along::At(at) => Index::At(signed(at)),
                }
            }
        });
        Selection::new(sels.collect())
    }

    /// Whether source chunks of shape `chunks` are aligned with the region, and all their positions are selected.
    pub(super) fn starts_at(&self, chunks: &[u64]) -> bool {
        self.0
            .iter()
            .zip(chunks)
            .all(|(along, n)| matches!(along, Along::Range(first, 1, _) if first.checked_rem(*n) == Some(0)))
    }

    /// The source chunks in terms of the copy's positions.
    pub(super) fn chunks(&self, meta: &ArrayMeta) -> Vec<u64> {
        let along = |(n, along): (u64, &Along)| match along {
            Along::Range(_, step, _) => Some((n / step.unsigned_abs().max(1)).max(1)),
            Along::At(_) => None,
            Along::List(_) => Some(n.max(1)),
        };
        meta.grid.largest().into_iter().zip(&self.0).filter_map(along).collect()
    }
}

/// `count` positions from `start` on, `step` apart.
fn index(start: u64, step: i64, count: u64) -> Index {
    if step == 1 || count == 0 {
        return Index::Span(start, count);
    }
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let last = step.saturating_mul(signed(count - 1)).saturating_add(signed(start));
    let stop = last.saturating_add(step.signum());
    // A stop before the first position is expressed by omitting it.
    Index::Slice(Some(signed(start)), (stop >= 0).then_some(stop), step)
}

/// A change of type: the codec `cast_value`, applied while copying.
#[derive(Debug)]
pub(super) struct CopyCast {
    codec: Box<dyn crate::codec::ArrayToArray>,
    from: Repr,
    to: Repr,
    /// Whether only missing elements may be rounded.
    exact: bool,
    /// The missing values, in the new and the old type: no other element may become one of them.
    missing: Vec<(Fill, Fill)>,
}

impl CopyCast {
    fn new(meta: &ArrayMeta, to: &DataType, clamp: bool) -> Result<Self> {
        if !is_number(&meta.data_type) || !is_number(to) {
            return Err(Error::unsupported(format!(
                "{} cannot be converted to {to}: only numbers can",
                meta.data_type
            )));
        }
        // As readers interpret the elements.
        let from = missing::turned(meta).unwrap_or_else(|| meta.data_type.clone());
        let codec = cast_codec(&from, to, clamp)?;
        let rounds = !clamp && rounds(&from, to);
        let from = Repr { shape: vec![1], data_type: from, fill: meta.fill.clone() };
        let to = Repr { shape: vec![1], data_type: to.clone(), fill: Fill::zero(to) };
        let mut cast = Self { codec, from, to, exact: rounds, missing: Vec::new() };
        cast.to.fill = cast.element(&meta.fill)?;
        if clamp {
            cast.check_missing(&missing::elements(meta))?;
        }
        // A missing value may be rounded, if it stays distinct. A value that the new type lacks means nothing there.
        let pair = |old: Fill| Some((cast.element(&old).ok()?, old));
        cast.missing = missing::elements(meta).into_iter().filter_map(pair).collect();
        Ok(cast)
    }

    /// Fails if a missing value is clamped: others become the same, and would be missing as well.
    fn check_missing(&self, elements: &[Fill]) -> Result<()> {
        let (from, to) = (&self.from.data_type, &self.to.data_type);
        let codec = cast_codec(from, to, false)?;
        for element in elements {
            let new = codec.encode(Buffer::fixed(element.0.to_vec()), &self.from, &self.from);
            let kept = |new: Buffer| matches!(to, DataType::Float(_)) || self.is_same(&element.0, &new.bytes);
            if !new.is_ok_and(kept) {
                return Err(Error::unsupported(format!(
                    "{} marks missing elements; clamped to {to}, it could not be told from others",
                    self.shown(&element.0)
                )));
            }
        }
        Ok(())
    }

    /// One element in the new type, such as a fill value: converted like other elements, rounded if need be.
    pub(super) fn element(&self, element: &Fill) -> Result<Fill> {
        // The codec itself checks the way back.
        let made = self.codec.encode(Buffer::fixed(element.0.to_vec()), &self.from, &self.from);
        Ok(Fill(made.map_err(|e| e.within("the fill value"))?.bytes.into()))
    }

    /// Elements in the new type.
    pub(super) fn apply(&self, bytes: Vec<u8>, count: u64) -> Result<Vec<u8>> {
        let of = |repr: &Repr| Repr { shape: vec![count], ..repr.clone() };
        if !self.exact && self.missing.is_empty() {
            return Ok(self.codec.encode(Buffer::fixed(bytes), &of(&self.from), &of(&self.to))?.bytes);
        }
        let old = bytes.clone();
        let new = self.codec.encode(Buffer::fixed(bytes), &of(&self.from), &of(&self.to))?.bytes;
        // Fails as a whole if the nearest float of one element exceeds the integers.
        let decode = || self.codec.decode(Buffer::fixed(new.clone()), &of(&self.from), &of(&self.to));
        let back = self.exact.then(|| decode().map(|back| back.bytes).unwrap_or_default());
        let (from, to) = (self.from.data_type.size(), self.to.data_type.size());
        let mut back = back.as_deref().map(|back| back.chunks_exact(from));
        for (old, new) in old.chunks_exact(from).zip(new.chunks_exact(to)) {
            let same = match back.as_mut().map(Iterator::next) {
                None => true,
                Some(Some(back)) => back == old,
                Some(None) => self.is_same(old, new),
            };
            let was_missing = |(_, was): &(Fill, Fill)| self.is_number(&was.0, old);
            let is_missing = |(element, _): &(Fill, Fill)| *element.0 == *new;
            let missing = self.missing.iter().any(was_missing);
            if !missing && (!same || self.missing.iter().any(is_missing)) {
                return Err(self.inexact(old, same));
            }
        }
        Ok(new)
    }
}

impl CopyCast {
    /// Whether two elements of the old type are the same number: zero has two signs.
    fn is_number(&self, a: &[u8], b: &[u8]) -> bool {
        let zero = |x: &[u8]| {
            let Some((sign, rest)) = x.split_last() else { return false };
            matches!(self.from.data_type, DataType::Float(_))
                && sign & 0x7f == 0
                && rest.iter().all(|b| *b == 0)
        };
        a == b || zero(a) && zero(b)
    }

    /// Whether an element of the new type equals the old one.
    fn is_same(&self, old: &[u8], new: &[u8]) -> bool {
        let back = self.codec.decode(Buffer::fixed(new.to_vec()), &self.from, &self.to);
        back.is_ok_and(|back| back.bytes == old)
    }

    /// An element as shown in messages.
    fn shown(&self, element: &[u8]) -> String {
        let shown = write::write_fill(&Fill(element.to_vec().into()), &self.from.data_type, Dialect::V3);
        shown.map(|value| value.to_string()).unwrap_or_default()
    }

    /// Why an element has no exact value in the new type.
    fn inexact(&self, old: &[u8], same: bool) -> Error {
        let (shown, to) = (self.shown(old), &self.to.data_type);
        match same {
            true => Error::invalid(format!(
                "{shown} would be missing in {to}: it becomes the value that marks missing elements"
            )),
            false => Error::invalid(format!("{shown} cannot be represented as {to} without rounding"))
                .with_hint("clamp", "takes the nearest"),
        }
    }
}

/// The codec whose encoder casts one type to another.
fn cast_codec(from: &DataType, to: &DataType, clamp: bool) -> Result<Box<dyn crate::codec::ArrayToArray>> {
    let mut config = vec![("data_type".to_owned(), Json::string(to.to_string()))];
    if clamp {
        config.push(("out_of_range".to_owned(), Json::string("clamp")));
    }
    let request = CodecRequest { name: "cast_value", config: &config, strict: false, data_type: from };
    match registry::build(&request)? {
        Codec::Array(codec) => Ok(codec),
        _ => Err(Error::unsupported("this cast is not supported")),
    }
}

fn is_number(t: &DataType) -> bool {
    matches!(t, DataType::Int(_) | DataType::UInt(_) | DataType::Float(_))
}

/// Whether some integers of a type have no exact float of another.
fn rounds(from: &DataType, to: &DataType) -> bool {
    let (DataType::Int(bits) | DataType::UInt(bits), DataType::Float(format)) = (from, to) else {
        return false;
    };
    let digits = match format {
        Float::F16 => 11,
        Float::F32 => 24,
        Float::F64 => 53,
        _ => 0,
    };
    *bits > digits
}
