//! What the copy of an array looks like.

use super::CopyOptions;
use crate::array::select::Sel;
use crate::array::{Array, Index, Selection};
use crate::codec::registry::{self, Request};
use crate::codec::{Buffer, Codec, Repr};
use crate::error::{Error, Result};
use crate::meta::convert::missing;
use crate::meta::create::NewArray;
use crate::meta::dtype::Float;
use crate::meta::fill::Dialect;
use crate::meta::{ArrayMeta, CodecMeta, DataType, Fill, Format, Json, convert, v3, write};

/// The copy of one array.
#[derive(Debug)]
pub(super) struct Target {
    /// Its metadata.
    pub(super) meta: ArrayMeta,
    /// Where its elements come from.
    pub(super) region: Region,
    /// How they are changed.
    pub(super) cast: Option<Cast>,
    /// Whether its chunks are, byte for byte, those of the source.
    pub(super) verbatim: bool,
}

impl Target {
    /// The copy of `array`, in which `kept` is to be the same if it is of another version. Where a whole group is copied,
    /// another type is for its numbers alone.
    pub(super) fn of(
        array: &Array,
        options: &CopyOptions,
        kept: convert::Kept,
        in_group: bool,
    ) -> Result<Self> {
        let source = array.meta();
        let region = Region::of(source, options.region.as_ref())?;
        let format = options.format.unwrap_or(source.format);
        let cast = match &options.data_type {
            Some(to) if *to != source.data_type && (!in_group || is_number(&source.data_type)) => {
                Some(Cast::new(source, to, options.clamp)?)
            }
            _ => None,
        };
        let recoded = options.chunks.is_some()
            || options.shards.is_some()
            || options.codecs.is_some()
            || options.layout.is_some()
            || cast.is_some()
            || !region.is_all(source);
        let keys = if format == source.format { convert::Keys::Keep } else { convert::Keys::Usual };
        if !recoded {
            let keyed = options.keys.of(source.keys) != source.keys;
            if format == source.format && !keyed {
                return Ok(Self { meta: source.clone(), region, cast, verbatim: true });
            }
            let mut converted = convert::array(source, format, keys, kept)?;
            let keys = options.keys.of(converted.meta.keys);
            if keys != converted.meta.keys {
                converted.meta = write::settle(ArrayMeta { keys, ..converted.meta })?;
            }
            let verbatim = converted.chunks_identical();
            return Ok(Self { meta: converted.meta, region, cast, verbatim });
        }
        let base = convert::array(source, format, keys, kept)?.meta;
        let mut new = NewArray { shape: region.counts(), ..NewArray::like(&base)? };
        let old = new.chunks.clone().unwrap_or_else(|| base.grid.largest());
        let chunks = match &options.chunks {
            Some(chunks) => chunks.resolve(&base, &old)?,
            None => old,
        };
        new.shards = match &options.shards {
            Some(Some(shards)) => Some(shards.resolve(&base, &base.grid.largest())?),
            Some(None) => None,
            // The old shards, if the new chunks still fit into them.
            None => new.shards.filter(|s| s.iter().zip(&chunks).all(|(s, c)| s.checked_rem(*c) == Some(0))),
        };
        new.chunks = Some(chunks);
        if options.chunks.is_some() || matches!(options.shards, Some(None)) {
            // Chunks are what they are said to be, and not shards once more.
            new.codecs = new.codecs.map(without_shards).transpose()?;
        }
        if let Some(cast) = &cast {
            new.data_type = cast.to.data_type.clone();
            match cast.element(&base.fill) {
                _ if new.fill_undefined => {}
                Ok(fill) => new.fill = Some(fill),
                // No element of the new type is missing, so that there is none to say it by.
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
        Ok(Self { meta: new.meta()?, region, cast, verbatim: false })
    }
}

impl Target {
    /// An array of another version, `meta`, over the chunks of `source`.
    pub(super) fn same(source: &ArrayMeta, meta: ArrayMeta) -> Result<Self> {
        Ok(Self { meta, region: Region::of(source, None)?, cast: None, verbatim: true })
    }

    /// What is to be `kept`, and is not, in `new`, which was made of `old` to be this.
    pub(super) fn difference(
        &self,
        old: &ArrayMeta,
        new: &ArrayMeta,
        kept: convert::Kept,
    ) -> Option<&'static str> {
        let cast = |element: &Fill| match &self.cast {
            Some(cast) => cast.element(element).ok(),
            None => Some(element.clone()),
        };
        // Which no document of V3 can say, so that it is no fault of this one; but it is lost.
        if kept == convert::Kept::Meaning && new.format == Format::V3 && missing::is_lost_in_v3(old) {
            return Some("which elements are missing");
        }
        missing::difference(old, new, kept, cast)
    }
}

/// A chain for elements of another type, of `size` bytes: without filters that are for one type, and with everything said
/// that depends on it.
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

/// A chain whose chunks are no shards; what was inside of them stands in their place.
fn without_shards(mut chain: Vec<CodecMeta>) -> Result<Vec<CodecMeta>> {
    while let Some(at) = chain.iter().position(|c| c.name == "sharding_indexed") {
        let inner = chain.get(at).and_then(|c| c.get("codecs")).cloned().unwrap_or(Json::Null);
        chain.splice(at..=at, v3::codecs(&inner, "codecs")?);
    }
    Ok(chain)
}

/// Which part of the source is copied: a range along each dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Region(Vec<(u64, i64, u64)>);

impl Region {
    fn of(meta: &ArrayMeta, selection: Option<&Selection>) -> Result<Self> {
        let Some(selection) = selection else {
            return Ok(Self::all(meta));
        };
        let ranges = selection.resolve(meta)?.dims.into_iter().map(|sel| match sel {
            Sel::Range { start, step, count, .. } => Ok((start, step, count)),
            Sel::Listed(_) => Err(Error::usage("a region is made of ranges, not of lists of positions")),
        });
        Ok(Self(ranges.collect::<Result<_>>()?))
    }

    /// All of an array.
    pub(super) fn all(meta: &ArrayMeta) -> Self {
        Self(meta.shape.iter().map(|n| (0, 1, *n)).collect())
    }

    fn is_all(&self, meta: &ArrayMeta) -> bool {
        self.0.iter().zip(&meta.shape).all(|(r, n)| *r == (0, 1, *n))
    }

    /// As a journal has it: the first position, the step and the count along each dimension; `None` for all of an array.
    pub(super) fn json(&self, meta: &ArrayMeta) -> Option<Json> {
        if self.is_all(meta) {
            return None;
        }
        let range = |(first, step, count): &(u64, i64, u64)| {
            Json::Array(vec![Json::int(first), Json::int(step), Json::int(count)])
        };
        Some(Json::Array(self.0.iter().map(range).collect()))
    }

    /// How many positions it has along each dimension.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.0.iter().map(|(_, _, n)| *n).collect()
    }

    /// The part of the source that the block at `start` of `count` in the copy comes from.
    pub(super) fn part(&self, start: &[u64], count: &[u64]) -> Selection {
        let sels = self.0.iter().zip(start.iter().zip(count)).map(|((first, step, _), (s, n))| {
            let moved = step.unsigned_abs().saturating_mul(*s);
            let at = if *step > 0 { first.saturating_add(moved) } else { first.saturating_sub(moved) };
            index(at, *step, *n)
        });
        Selection::new(sels.collect())
    }

    /// Whether chunks of the source, `chunks` long, begin where the region does, and all their positions are wanted.
    pub(super) fn starts_at(&self, chunks: &[u64]) -> bool {
        self.0.iter().zip(chunks).all(|((first, step, _), n)| *step == 1 && first.checked_rem(*n) == Some(0))
    }

    /// The chunks of the source as the copy's positions see them.
    pub(super) fn chunks(&self, meta: &ArrayMeta) -> Vec<u64> {
        let along = |(n, (_, step, _)): (u64, &(u64, i64, u64))| (n / step.unsigned_abs().max(1)).max(1);
        meta.grid.largest().into_iter().zip(&self.0).map(along).collect()
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
    // A stop before the first position is said by leaving it out.
    Index::Slice(Some(signed(start)), (stop >= 0).then_some(stop), step)
}

/// A change of type: the codec `cast_value`, applied while copying.
#[derive(Debug)]
pub(super) struct Cast {
    codec: Box<dyn crate::codec::ArrayToArray>,
    from: Repr,
    to: Repr,
    /// Whether no element may be rounded but those that are missing.
    exact: bool,
    /// The elements that are missing, in the new type and as they are: no others may become one of them.
    missing: Vec<(Fill, Fill)>,
}

impl Cast {
    fn new(meta: &ArrayMeta, to: &DataType, clamp: bool) -> Result<Self> {
        if !is_number(&meta.data_type) || !is_number(to) {
            return Err(Error::unsupported(format!(
                "{} does not become {to}: only numbers do",
                meta.data_type
            )));
        }
        // As readers take the elements.
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
        // What is missing may be rounded, if it is still nothing else. What the new type does not have says nothing there.
        let pair = |old: Fill| Some((cast.element(&old).ok()?, old));
        cast.missing = missing::elements(meta).into_iter().filter_map(pair).collect();
        Ok(cast)
    }

    /// Fails if one of the elements that are missing is clamped: others become the same, and would be missing as well.
    fn check_missing(&self, elements: &[Fill]) -> Result<()> {
        let (from, to) = (&self.from.data_type, &self.to.data_type);
        let codec = cast_codec(from, to, false)?;
        for element in elements {
            let new = codec.encode(Buffer::fixed(element.0.to_vec()), &self.from, &self.from);
            let kept = |new: Buffer| matches!(to, DataType::Float(_)) || self.is_same(&element.0, &new.bytes);
            if !new.is_ok_and(kept) {
                return Err(Error::unsupported(format!(
                    "{} stands for missing elements; clamped to {to}, it could not be told from others",
                    self.shown(&element.0)
                )));
            }
        }
        Ok(())
    }

    /// One element in the new type, such as a fill value: what elements become that are the same, rounded if need be.
    pub(super) fn element(&self, element: &Fill) -> Result<Fill> {
        // The codec itself wants the way back.
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
        // Fails as a whole if the nearest float of one is beyond the integers.
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

impl Cast {
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

    /// Whether an element of the new type is the old one.
    fn is_same(&self, old: &[u8], new: &[u8]) -> bool {
        let back = self.codec.decode(Buffer::fixed(new.to_vec()), &self.from, &self.to);
        back.is_ok_and(|back| back.bytes == old)
    }

    /// An element as messages have it.
    fn shown(&self, element: &[u8]) -> String {
        let shown = write::write_fill(&Fill(element.to_vec().into()), &self.from.data_type, Dialect::V3);
        shown.map(|value| value.to_string()).unwrap_or_default()
    }

    /// Why an element is none of the new type.
    fn inexact(&self, old: &[u8], same: bool) -> Error {
        let (shown, to) = (self.shown(old), &self.to.data_type);
        Error::invalid(match same {
            true => format!("{shown} would be missing in {to}: it becomes what stands for missing elements"),
            false => format!("{shown} is no {to} without rounding; --clamp takes the nearest"),
        })
    }
}

/// The codec whose encoder makes elements of one type those of another.
fn cast_codec(from: &DataType, to: &DataType, clamp: bool) -> Result<Box<dyn crate::codec::ArrayToArray>> {
    let mut config = vec![("data_type".to_owned(), Json::string(to.to_string()))];
    if clamp {
        config.push(("out_of_range".to_owned(), Json::string("clamp")));
    }
    let request = Request { name: "cast_value", config: &config, strict: false, data_type: from };
    match registry::build(&request)? {
        Codec::Array(codec) => Ok(codec),
        _ => Err(Error::unsupported("no such cast")),
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
