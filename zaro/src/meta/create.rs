//! [`NewArray`]: the description of an array to create, and its metadata.
//!
//! Defaults:
//!
//! * The version is 3, chunk keys are `c/0/0`; in V2 `0.0`.
//! * Chunks have at most 1 MiB, and more than 256 KiB unless the array is smaller: large enough for a compressor and a
//!   request, small enough for a cache. The longest dimension is halved until they fit ([`default_chunks`]).
//! * The compressor is zstd at level 3, without a checksum: every reader of either version has it, and nothing that all
//!   have is both faster and better. zarr-python chooses the same, and writes it as level 0, by which libzstd means 3.
//! * The fill value is zero, or empty.
//! * Shards have their index at the end, little-endian with a checksum, as all writers do.

use std::sync::Arc;

use super::chain::{CodecKind, kind};
use super::convert;
use super::dtype::{DataType, Endian};
use super::fill::Fill;
use super::grid::Grid;
use super::json::Json;
use super::keys::ChunkKeys;
use super::write::{settle, write_codecs};
use super::{ArrayMeta, CodecMeta, Format};
use crate::error::{Error, Result, usage};
use crate::num;

/// Maximum bytes of a chunk of default shape.
const CHUNK_BYTES: u128 = 1 << 20;

/// The order of elements within a stored chunk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MemoryLayout {
    /// The last dimension varies fastest.
    #[default]
    C,
    /// The first dimension varies fastest.
    F,
    /// Dimension `axes[i]` of the array is dimension `i` of what is stored. V3 only, but for the other two.
    Axes(Vec<usize>),
}

/// `C`, `F`, or the dimensions in the order in which they are stored: `2,0,1`.
impl std::str::FromStr for MemoryLayout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "C" | "c" => Ok(Self::C),
            "F" | "f" => Ok(Self::F),
            axes => {
                let axes = axes.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>();
                axes.map(Self::Axes)
                    .ok_or_else(|| "expected C, F or an order of dimensions such as 2,0,1".to_owned())
            }
        }
    }
}

/// An array to create: [`NewArray::new`], then `with_…` for each setting.
#[derive(Debug, Clone, PartialEq, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct NewArray {
    /// The version.
    pub format: Format,
    /// Its extents.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub data_type: DataType,
    /// The shape of a chunk; of an inner one, if there are shards.
    pub chunks: Option<Vec<u64>>,
    /// The shape of a shard, a multiple of that of a chunk. V3 only.
    pub shards: Option<Vec<u64>>,
    /// Fill value for elements that were never written; zero, if none.
    pub fill: Option<Fill>,
    /// V2, without a `fill`: the document says `null`; see [`ArrayMeta::fill_undefined`].
    pub fill_undefined: bool,
    /// The codecs, in encoding order; see [`parse_codecs`](crate::meta::parse_codecs) for their text form.
    ///
    /// The array-to-bytes codec may be left out: it is added after the array-to-array codecs. In V2 the names may be
    /// V3's or `v2.*`; if one is of the latter kind, the list is used as it is, as filters and compressor.
    pub codecs: Option<Vec<CodecMeta>>,
    /// The order of elements within a chunk.
    pub layout: MemoryLayout,
    /// Byte order.
    pub endian: Endian,
    /// Chunk key encoding.
    pub keys: Option<ChunkKeys>,
    /// The names of dimensions.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// The user's attributes.
    pub attributes: Vec<(String, Json)>,
}

impl Default for NewArray {
    fn default() -> Self {
        Self {
            format: Format::V3,
            shape: Vec::new(),
            data_type: DataType::FLOAT64,
            chunks: None,
            shards: None,
            fill: None,
            fill_undefined: false,
            codecs: None,
            layout: MemoryLayout::C,
            endian: Endian::Little,
            keys: None,
            dimension_names: None,
            attributes: Vec::new(),
        }
    }
}

impl NewArray {
    /// An array of Zarr version 3, with chunks and codecs chosen for it.
    pub fn new(data_type: DataType, shape: impl Into<Vec<u64>>) -> Self {
        Self { data_type, shape: shape.into(), ..Self::default() }
    }

    /// The array's metadata, with the document to be stored.
    ///
    /// They were checked by writing and reading them back strictly. Whether the codecs fit together is checked when the
    /// array is opened.
    pub fn meta(&self) -> Result<ArrayMeta> {
        let rank = self.shape.len();
        let ranked = |field: &str, list: Option<usize>| match list {
            Some(n) if n != rank => {
                Err(usage!("{n} are given, but the array has {rank} dimensions").with_field(field))
            }
            _ => Ok(()),
        };
        ranked("chunks", self.chunks.as_ref().map(Vec::len))?;
        ranked("shards", self.shards.as_ref().map(Vec::len))?;
        ranked("dimension_names", self.dimension_names.as_ref().map(Vec::len))?;
        let chunks = match (&self.chunks, &self.shards) {
            (Some(chunks), _) => chunks.clone(),
            (None, None) => default_chunks(&self.shape, &self.data_type),
            (None, Some(shards)) => dividing(shards, &default_chunks(shards, &self.data_type)),
        };
        let undefined = self.fill_undefined && self.fill.is_none() && self.format == Format::V2;
        let usual = if undefined { Fill::undefined } else { Fill::zero };
        let fill = self.fill.clone().unwrap_or_else(|| usual(&self.data_type));
        if self.format == Format::V2 && self.shards.is_some() {
            return Err(Error::usage("V2 has no shards").with_field("shards"));
        }
        let (chain, v2_chain) = match self.v2_steps() {
            Some(steps) => (self.v2_chain(steps)?, true),
            None => (self.chain()?, false),
        };
        let (outer, codecs) = match &self.shards {
            None => (chunks, chain),
            Some(shards) => {
                let fits = shards.iter().zip(&chunks).all(|(s, c)| *s > 0 && s.checked_rem(*c) == Some(0));
                if !fits {
                    let message = format!("shards of {shards:?} are not a multiple of chunks of {chunks:?}");
                    return Err(Error::usage(message).with_field("shards"));
                }
                (shards.clone(), vec![sharding(&chunks, &chain)])
            }
        };
        let usual = match self.format {
            Format::V2 => ChunkKeys { prefixed: false, separator: '.' },
            Format::V3 => ChunkKeys { prefixed: true, separator: '/' },
        };
        let draft = ArrayMeta {
            format: if v2_chain { Format::V2 } else { Format::V3 },
            shape: self.shape.clone(),
            data_type: self.data_type.clone(),
            grid: Grid::regular(&outer).map_err(|e| Error::usage(e.message()).with_field("chunks"))?,
            keys: self.keys.unwrap_or(usual),
            fill,
            fill_undefined: undefined,
            codecs,
            dimension_names: self.dimension_names.clone(),
            attributes: Arc::new(Json::Object(self.attributes.clone())),
            document: Arc::new(Json::object()),
        };
        if self.format == Format::V3 || v2_chain {
            return settle(draft);
        }
        if draft.keys.prefixed {
            return Err(Error::usage("V2 has no keys that begin with \"c\"").with_field("keys"));
        }
        let made = convert::array(&draft, Format::V2, convert::Keys::Keep, convert::Kept::Fill)?;
        match made.recode {
            None => Ok(made.meta),
            Some(reason) => Err(usage!("not possible in V2: {reason}").with_field("codecs")),
        }
    }

    /// The codecs, if they are V2's.
    fn v2_steps(&self) -> Option<&[CodecMeta]> {
        let steps = self.codecs.as_deref()?;
        (self.format == Format::V2 && steps.iter().any(|c| c.name.starts_with("v2."))).then_some(steps)
    }

    fn transpose(&self) -> Result<Option<CodecMeta>> {
        let rank = self.shape.len();
        let axes: Vec<usize> = match &self.layout {
            MemoryLayout::C => return Ok(None),
            MemoryLayout::F if rank < 2 => return Ok(None),
            MemoryLayout::F => (0..rank).rev().collect(),
            MemoryLayout::Axes(axes) => axes.clone(),
        };
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..rank) {
            return Err(usage!("{axes:?} is not an order of {rank} dimensions").with_field("order"));
        }
        let order = Json::Array(axes.iter().map(Json::int).collect());
        Ok((!axes.is_sorted()).then(|| CodecMeta::new("transpose", vec![("order".into(), order)])))
    }

    /// A chain of V2's codecs, in the form of the V2 reader.
    fn v2_chain(&self, steps: &[CodecMeta]) -> Result<Vec<CodecMeta>> {
        let mut chain: Vec<CodecMeta> = self.transpose()?.into_iter().collect();
        let first = steps.first().and_then(|s| s.name.strip_prefix("v2.")).unwrap_or_default();
        if !super::v2::ARRAY_TO_BYTES.contains(&first) {
            // V2's reader notes an order for every type.
            let big = self.endian == Endian::Big && self.data_type.has_byte_order();
            chain.push(bytes(if big { Endian::Big } else { Endian::Little }));
        }
        chain.extend(steps.iter().cloned());
        Ok(chain)
    }

    /// The chain of a chunk, in V3's terms.
    fn chain(&self) -> Result<Vec<CodecMeta>> {
        let mut chain = Vec::new();
        let given = match &self.codecs {
            Some(codecs) => codecs.clone(),
            None => super::short::parse("zstd")?,
        };
        let values = given.iter().take_while(|c| kind(&c.name) == CodecKind::Array).count();
        let complete = given.get(values).is_some_and(|c| kind(&c.name) == CodecKind::ToBytes);
        let (before, after) = given.split_at_checked(values).unwrap_or_default();
        chain.extend(before.iter().cloned());
        if !complete {
            chain.push(to_bytes(&self.data_type, self.endian));
        }
        let size = element(&self.data_type);
        chain.extend(after.iter().map(|c| if c.name == "blosc" { blosc(c, size) } else { c.clone() }));
        match self.transpose()? {
            Some(transpose) => transposed(transpose, chain),
            None => Ok(chain),
        }
    }
}

/// The `bytes` codec.
fn bytes(endian: Endian) -> CodecMeta {
    let word = if endian == Endian::Big { "big" } else { "little" };
    CodecMeta::new("bytes", vec![("endian".into(), Json::string(word))])
}

/// The default V3 array-to-bytes codec of this type.
pub(super) fn to_bytes(data_type: &DataType, endian: Endian) -> CodecMeta {
    match data_type {
        DataType::String => CodecMeta::new("vlen-utf8", Vec::new()),
        DataType::Bytes => CodecMeta::new("vlen-bytes", Vec::new()),
        t if t.has_byte_order() => bytes(endian),
        _ => CodecMeta::new("bytes", Vec::new()),
    }
}

/// The element size for blosc: 1 for text, and for what does not fit its header.
pub(super) fn element(data_type: &DataType) -> usize {
    match data_type.size() {
        n @ 1..=255 if !data_type.is_variable() => n,
        _ => 1,
    }
}

/// V3's `blosc` with all settings that V3 requires.
pub(super) fn blosc(given: &CodecMeta, size: usize) -> CodecMeta {
    let size = given.get("typesize").cloned().unwrap_or_else(|| Json::int(size));
    let shuffle = if size.as_u64() == Some(1) { "bitshuffle" } else { "shuffle" };
    let or = |name: &str, value: Json| (name.to_owned(), given.get(name).cloned().unwrap_or(value));
    let configuration = vec![
        ("typesize".to_owned(), size),
        or("cname", Json::string("zstd")),
        or("clevel", Json::int(5)),
        or("shuffle", Json::string(shuffle)),
        or("blocksize", Json::int(0)),
    ];
    CodecMeta { configuration, ..given.clone() }
}

/// A chain with `transpose` in front; with shards, in front of the inner chain: shapes of inner chunks are in the
/// array's order.
fn transposed(transpose: CodecMeta, mut chain: Vec<CodecMeta>) -> Result<Vec<CodecMeta>> {
    let Some(shard) = chain.iter_mut().find(|c| c.name == "sharding_indexed") else {
        chain.insert(0, transpose);
        return Ok(chain);
    };
    for (name, value) in &mut shard.configuration {
        if name == "codecs" {
            *value = write_codecs(&transposed(transpose.clone(), super::v3::codecs(value, "codecs")?)?);
        }
    }
    Ok(chain)
}

fn sharding(chunks: &[u64], chain: &[CodecMeta]) -> CodecMeta {
    let index = [bytes(Endian::Little), CodecMeta::new("crc32c", Vec::new())];
    CodecMeta::new(
        "sharding_indexed",
        vec![
            ("chunk_shape".into(), chunks.into()),
            ("codecs".into(), write_codecs(chain)),
            ("index_codecs".into(), write_codecs(&index)),
            ("index_location".into(), Json::string("end")),
        ],
    )
}

/// The default chunk shape: the longest dimension is halved repeatedly, until a chunk has at most 1 MiB. So chunks are
/// about as long in all directions, never longer than the array, and nearly equal parts of it.
#[must_use]
pub fn default_chunks(shape: &[u64], data_type: &DataType) -> Vec<u64> {
    let mut chunks: Vec<u64> = shape.iter().map(|n| (*n).max(1)).collect();
    let element = u128::from(num::u64_of(data_type.size().max(1)));
    let bytes = |chunks: &[u64]| chunks.iter().fold(element, |a, n| a.saturating_mul(u128::from(*n)));
    while bytes(&chunks) > CHUNK_BYTES {
        // Of several that are longest, the first: what is near in memory stays together.
        match chunks.iter_mut().rev().max().filter(|n| **n > 1) {
            Some(longest) => *longest = longest.div_ceil(2),
            None => break,
        }
    }
    chunks
}

/// The extents of `whole` divided into equal parts of about `part`; those that cannot be divided stay whole.
fn dividing(whole: &[u64], part: &[u64]) -> Vec<u64> {
    let cut = |(n, c): (&u64, &u64)| {
        let least = n.div_ceil((*c).max(1)).max(1);
        // A prime number has no parts; looking far for some would not help.
        (least..=least.saturating_mul(2).min(least.saturating_add(4096)))
            .find_map(|k| (n.checked_rem(k) == Some(0)).then(|| n.checked_div(k)).flatten())
            .filter(|c| *c > 0)
            .unwrap_or((*n).max(1))
    };
    whole.iter().zip(part).map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{short, write};

    fn document(new: &NewArray) -> Json {
        write::array(&new.meta().unwrap()).unwrap().remove(0).1
    }

    #[test]
    fn the_shortest_description_gives_what_people_expect() {
        let new = NewArray { shape: vec![1000, 2000], ..NewArray::default() };
        assert_eq!(
            document(&new).to_string(),
            r#"{"zarr_format":3,"node_type":"array","shape":[1000,2000],"data_type":"float64","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[250,500]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":0.0,"codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":3,"checksum":false}}],"attributes":{}}"#
        );
        let new = NewArray { format: Format::V2, ..new };
        assert_eq!(
            document(&new).to_string(),
            r#"{"zarr_format":2,"shape":[1000,2000],"chunks":[250,500],"dtype":"<f8","compressor":{"id":"zstd","level":3},"fill_value":0.0,"order":"C","filters":null,"dimension_separator":"."}"#
        );
    }

    #[test]
    fn everything_said_is_written() {
        let new = NewArray {
            shape: vec![100, 60],
            data_type: DataType::UInt(16),
            chunks: Some(vec![10, 20]),
            shards: Some(vec![50, 60]),
            fill: Some(Fill(vec![7, 1].into())),
            codecs: Some(short::parse("blosc:lz4+crc32c").unwrap()),
            layout: MemoryLayout::F,
            endian: Endian::Big,
            keys: Some(ChunkKeys { prefixed: false, separator: '/' }),
            dimension_names: Some(vec![Some("y".into()), None]),
            attributes: vec![("a".into(), Json::Number("NaN".into()))],
            ..NewArray::default()
        };
        assert_eq!(
            document(&new).to_string(),
            r#"{"zarr_format":3,"node_type":"array","shape":[100,60],"data_type":"uint16","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[50,60]}},"chunk_key_encoding":{"name":"v2","configuration":{"separator":"/"}},"fill_value":263,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[10,20],"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}},{"name":"blosc","configuration":{"typesize":2,"cname":"lz4","clevel":5,"shuffle":"shuffle","blocksize":0}},{"name":"crc32c"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}],"index_location":"end"}}],"attributes":{"a":"NaN"},"dimension_names":["y",null]}"#
        );
        let v2 = NewArray {
            format: Format::V2,
            shards: None,
            codecs: Some(
                short::parse(r#"[{"id":"shuffle","elementsize":2},{"id":"zlib","level":1}]"#).unwrap(),
            ),
            ..new.clone()
        };
        let meta = v2.meta().unwrap();
        assert_eq!(meta.attributes.to_string(), r#"{"a":"NaN","_ARRAY_DIMENSIONS":["y",null]}"#);
        assert_eq!(
            document(&v2).to_string(),
            r#"{"zarr_format":2,"shape":[100,60],"chunks":[10,20],"dtype":">u2","compressor":{"id":"zlib","level":1},"fill_value":263,"order":"F","filters":[{"id":"shuffle","elementsize":2}],"dimension_separator":"/"}"#
        );
        let text = NewArray {
            data_type: DataType::String,
            shards: None,
            fill: None,
            format: Format::V2,
            codecs: None,
            ..new
        };
        assert!(document(&text).to_string().contains(r#""dtype":"|O","compressor":{"id":"zstd","level":3},"fill_value":"","order":"F","filters":[{"id":"vlen-utf8"}]"#));
    }

    #[test]
    fn chunks_nobody_chose_are_of_a_good_size() {
        let of = |shape: &[u64]| default_chunks(shape, &DataType::FLOAT32);
        assert_eq!(of(&[]), Vec::<u64>::new());
        assert_eq!(of(&[10, 0]), [10, 1]);
        assert_eq!(of(&[512, 512]), [512, 512]);
        assert_eq!(of(&[365, 721, 1440]), [46, 46, 90]);
        for shape in [vec![u64::MAX; 3], vec![1 << 40], vec![3, 1 << 30, 5], vec![7; 12]] {
            let chunks = of(&shape);
            let bytes = chunks.iter().product::<u64>() * 4;
            assert!((1 << 18..=1 << 20).contains(&bytes), "{shape:?} {chunks:?}");
            assert!(chunks.iter().zip(&shape).all(|(c, n)| c <= n));
        }
        assert_eq!(default_chunks(&[5, 5], &DataType::Raw(1 << 21)), [1, 1]);
        for shards in [[4096u64, 4096], [1000, 3000], [8191, 8191], [1, 10_000_019]] {
            let new = NewArray {
                shape: vec![100_000, 100_000],
                shards: Some(shards.to_vec()),
                ..NewArray::default()
            };
            assert!(new.meta().is_ok(), "{shards:?}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let good = NewArray { shape: vec![4, 4], chunks: Some(vec![2, 2]), ..NewArray::default() };
        assert!(good.meta().is_ok());
        for bad in [
            NewArray { chunks: Some(vec![2]), ..good.clone() },
            NewArray { chunks: Some(vec![2, 0]), ..good.clone() },
            NewArray { shards: Some(vec![3, 4]), ..good.clone() },
            NewArray { shards: Some(vec![0, 4]), ..good.clone() },
            NewArray { shards: Some(vec![4, 4]), format: Format::V2, ..good.clone() },
            NewArray { dimension_names: Some(vec![None]), ..good.clone() },
            NewArray { layout: MemoryLayout::Axes(vec![0, 0]), ..good.clone() },
            NewArray { fill: Some(Fill(vec![1].into())), ..good.clone() },
            NewArray { data_type: DataType::Json, ..good.clone() },
            NewArray { data_type: DataType::Int(4), format: Format::V2, ..good.clone() },
            NewArray { codecs: Some(short::parse(r#"{"id":"zlib"}"#).unwrap()), ..good.clone() },
            NewArray { codecs: Some(short::parse("crc32c").unwrap()), format: Format::V2, ..good.clone() },
            NewArray { keys: Some(ChunkKeys { prefixed: true, separator: '/' }), format: Format::V2, ..good },
        ] {
            assert!(bad.meta().is_err(), "{bad:?}");
        }
    }
}
