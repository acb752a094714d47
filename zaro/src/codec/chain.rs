//! Codec chains, built and checked for one chunk shape.
//!
//! Building a chain determines the input of every step and how many bytes it may produce, so that a bad combination
//! fails when the array is opened and decoding never has to guess.
//!
//! Transposes at the head of a chain (all of V2's Fortran order, nearly all of V3's) move no data: the chain keeps
//! them as a permutation, [`Chain::order`], and the reader applies it to the selection.

use std::borrow::Cow;

use super::registry::{self, CodecRequest};
use super::shard::Shard;
use super::{
    ArrayToArray, ArrayToBytes, Buffer, BytesToBytes, Codec, MAX_VARIABLE, OutputSize, Repr, bytes::Bytes,
    output,
};
use crate::error::{Error, ErrorKind, Result, invalid, unsupported};
use crate::meta::{CodecMeta, Json};

/// The codecs of an array, for chunks of one shape.
#[derive(Debug)]
pub struct Chain {
    /// What the chain decodes to: a chunk of the array.
    decoded: Repr,
    /// The permutation of the transposes at the head: dimension `i` below them is dimension `order[i]` above.
    order: Option<Vec<usize>>,
    /// What lies below those transposes.
    viewed: Repr,
    /// The other array-to-array codecs, each with what the step after it sees.
    arrays: Vec<(Box<dyn ArrayToArray>, Repr)>,
    to_bytes: ToBytes,
    /// The bytes-to-bytes codecs, each with the size of what it decodes to.
    bytes: Vec<(Box<dyn BytesToBytes>, OutputSize)>,
    /// The size of a whole encoded chunk.
    encoded: OutputSize,
}

/// The array-to-bytes codec. Two are known by name, since reading goes around them.
#[derive(Debug)]
pub(crate) enum ToBytes {
    /// Plain values.
    Bytes(Bytes),
    /// Smaller chunks inside.
    Shard(Box<Shard>),
    /// Any other.
    Other(Box<dyn ArrayToBytes>),
}

impl ToBytes {
    fn codec(&self) -> &dyn ArrayToBytes {
        match self {
            Self::Bytes(c) => c,
            Self::Shard(c) => &**c,
            Self::Other(c) => &**c,
        }
    }
}

/// Memory that decoding reuses from chunk to chunk.
#[derive(Debug, Default)]
pub struct Scratch {
    first: Vec<u8>,
    second: Vec<u8>,
}

/// A decoded chunk: elements in C order of [`Chain::viewed`].
#[derive(Debug)]
pub enum Decoded<'a> {
    /// In memory that belongs to somebody else.
    Borrowed(&'a [u8]),
    /// In memory of its own.
    Owned(Buffer),
}

impl Decoded<'_> {
    /// The elements.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(b) => b,
            Self::Owned(b) => &b.bytes,
        }
    }

    /// A copy that owns its memory.
    #[must_use]
    pub fn into_buffer(self) -> Buffer {
        match self {
            Self::Borrowed(b) => Buffer::fixed(b.to_vec()),
            Self::Owned(b) => b,
        }
    }
}

/// The first `n` bytes of `scratch`, grown if need be. What they hold is left over from earlier chunks.
pub(crate) fn room(scratch: &mut Vec<u8>, n: usize) -> Result<&mut [u8]> {
    if scratch.len() < n {
        // Fresh zero pages cost less than copying the old content into a larger block.
        *scratch = output::zeroed(n)?;
    }
    Ok(scratch.get_mut(..n).unwrap_or_default())
}

impl Scratch {
    /// How much memory it is.
    pub(crate) fn bytes(&self) -> usize {
        self.first.len().saturating_add(self.second.len())
    }

    /// Takes out the memory that [`Chain::decode`] last decoded into, holding `size` bytes, and leaves `instead`.
    pub(crate) fn exchange(&mut self, size: usize, instead: Vec<u8>) -> Vec<u8> {
        let mut taken = std::mem::replace(&mut self.first, instead);
        taken.truncate(size);
        taken
    }
}

/// More codecs than this in one chain, or more dimensions, cannot be meant; each codec keeps a shape.
const MAX_CODECS: usize = 1 << 10;
const MAX_RANK: usize = 1 << 12;

/// Fails if a chunk, at any step, is too large for memory or has too many dimensions.
fn check(repr: &Repr) -> Result<()> {
    if repr.shape.len() > MAX_RANK {
        return Err(unsupported!("{} dimensions", repr.shape.len()));
    }
    let size = repr.byte_size()?;
    if repr.data_type.is_variable() && size > MAX_VARIABLE {
        return Err(unsupported!("a chunk of {} elements of variable length is too large", repr.count()?));
    }
    Ok(())
}

impl Chain {
    /// Builds the chain `codecs` for chunks like `decoded`.
    pub fn build(codecs: &[CodecMeta], decoded: Repr, strict: bool) -> Result<Self> {
        let mut order: Option<Vec<usize>> = None;
        let mut viewed = decoded.clone();
        let mut arrays: Vec<(Box<dyn ArrayToArray>, Repr)> = Vec::new();
        let mut to_bytes: Option<ToBytes> = None;
        let mut bytes: Vec<(Box<dyn BytesToBytes>, OutputSize)> = Vec::new();
        let mut encoded = OutputSize::AtMost(0);
        // A chunk that does not fit into memory is an error here, before anything is allocated for it.
        check(&decoded)?;
        if codecs.len() > MAX_CODECS {
            return Err(unsupported!("a chain of {} codecs is too long", codecs.len()));
        }
        for meta in codecs {
            let here = arrays.last().map_or(&viewed, |(_, r)| r);
            let name = registry::shown(&meta.name);
            let place = |e: Error| e.within(format_args!("codec {name}"));
            if meta.name == "sharding_indexed" {
                if to_bytes.is_some() {
                    return Err(invalid!("the codec {name:?} stands after the bytes are made"));
                }
                let shard = Shard::build(&meta.configuration, here, strict).map_err(place)?;
                encoded = shard.encoded_size(here).map_err(place)?;
                to_bytes = Some(ToBytes::Shard(Box::new(shard)));
                continue;
            }
            if meta.name == "bytes" && to_bytes.is_none() {
                let config = super::config::Config::new(&meta.configuration);
                let mut codec = Bytes::from_config(&config).map_err(place)?;
                if !strict && codec.endian.is_none() && codec.mixed.is_empty() {
                    // Wrong by the text for wide types; every writer that leaves it out means little-endian.
                    codec.endian = Some(super::bytes::Endian::Little);
                }
                encoded = codec.encoded_size(here).map_err(place)?;
                to_bytes = Some(ToBytes::Bytes(codec));
                continue;
            }
            let mut config = Cow::Borrowed(&meta.configuration);
            if meta.name == "v2.bitround"
                && let Some(ToBytes::Bytes(Bytes { endian: Some(endian), .. })) = &to_bytes
                && meta.get("endian").is_none()
                && bytes.is_empty()
            {
                // It rounds numbers, but stands after they have become bytes, and does not say in which order.
                let order = if *endian == super::bytes::Endian::Big { "big" } else { "little" };
                config.to_mut().push(("endian".to_owned(), Json::string(order)));
            }
            let request =
                CodecRequest { name: &meta.name, config: &config, strict, data_type: &here.data_type };
            let codec = match registry::build(&request) {
                Ok(codec) => codec,
                Err(e) if !meta.must_understand && e.kind() == ErrorKind::Unsupported => continue,
                Err(e) => return Err(e),
            };
            match codec {
                Codec::Array(_) | Codec::ToBytes(_) if to_bytes.is_some() => {
                    return Err(invalid!("the codec {name:?} stands after the bytes are made"));
                }
                Codec::Bytes(_) if to_bytes.is_none() => {
                    return Err(invalid!(
                        "the codec {name:?} works on bytes, but precedes the array-to-bytes codec"
                    ));
                }
                Codec::Array(codec) => {
                    let next = codec.encoded(here).map_err(place)?;
                    check(&next)?;
                    match codec.permutation(here.shape.len()) {
                        Some(p) if arrays.is_empty() => {
                            order = Some(match order {
                                None => p,
                                Some(before) => p.iter().filter_map(|d| before.get(*d).copied()).collect(),
                            });
                            viewed = next;
                        }
                        _ => arrays.push((codec, next)),
                    }
                }
                Codec::ToBytes(codec) => {
                    encoded = codec.encoded_size(here).map_err(place)?;
                    to_bytes = Some(ToBytes::Other(codec));
                }
                Codec::Bytes(codec) => {
                    let size = codec.encoded_size(encoded).map_err(place)?;
                    bytes.push((codec, encoded));
                    encoded = size;
                }
            }
        }
        let Some(to_bytes) = to_bytes else {
            return Err(Error::invalid("there is no array-to-bytes codec").with_field("codecs"));
        };
        if order.as_ref().is_some_and(|o| o.iter().enumerate().all(|(i, d)| i == *d)) {
            order = None;
        }
        Ok(Self { decoded, order, viewed, arrays, to_bytes, bytes, encoded })
    }

    /// What the chain decodes to.
    #[must_use]
    pub fn decoded(&self) -> &Repr {
        &self.decoded
    }

    /// The permutation of the transposes at the head, unless they change nothing.
    #[must_use]
    pub fn order(&self) -> Option<&[usize]> {
        self.order.as_deref()
    }

    /// What [`Chain::decode`] gives: the chunk before the transposes at the head are undone.
    #[must_use]
    pub fn viewed(&self) -> &Repr {
        &self.viewed
    }

    /// The size of a whole encoded chunk.
    #[must_use]
    pub fn encoded_size(&self) -> OutputSize {
        self.encoded
    }

    /// The inner chunks, if the chain is a shard whose parts can be read by themselves.
    #[must_use]
    pub fn shard(&self) -> Option<&Shard> {
        match &self.to_bytes {
            ToBytes::Shard(s) if self.arrays.is_empty() && self.bytes.is_empty() => Some(s),
            _ => None,
        }
    }

    /// The innermost shard layout whatever stands around it, for descriptions.
    #[must_use]
    pub fn any_shard(&self) -> Option<&Shard> {
        if let ToBytes::Shard(s) = &self.to_bytes { Some(s) } else { None }
    }

    /// The `bytes` codec, if there is nothing else, so that parts can be read by themselves.
    #[must_use]
    pub fn plain(&self) -> Option<&Bytes> {
        match &self.to_bytes {
            ToBytes::Bytes(b) if self.arrays.is_empty() && self.bytes.is_empty() => Some(b),
            _ => None,
        }
    }

    /// The `bytes` codec and what compresses its output, if those are all.
    fn simple(&self) -> Option<&Bytes> {
        match &self.to_bytes {
            ToBytes::Bytes(b) if self.arrays.is_empty() => Some(b),
            _ => None,
        }
    }

    /// Whether [`Chain::decode_into`] works: fixed-size values, only bytes-to-bytes codecs around them.
    #[must_use]
    pub fn can_decode_into(&self) -> bool {
        self.simple().is_some()
    }

    /// Decodes a chunk straight into `out`, which is as long as the chunk.
    pub fn decode_into(&self, input: &[u8], out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        let Some(codec) = self.simple() else {
            let decoded = self.decode(input, scratch)?;
            OutputSize::Exact(out.len()).check(decoded.bytes().len())?;
            out.copy_from_slice(decoded.bytes());
            return Ok(());
        };
        match self.bytes.split_first() {
            None => {
                OutputSize::Exact(out.len()).check(input.len())?;
                out.copy_from_slice(input);
            }
            Some(((first, size), rest)) => {
                size.check(out.len())?;
                let place = |e: Error| e.within(format_args!("codec {}", first.name()));
                if rest.is_empty() {
                    first.decode_into(input, out).map_err(place)?;
                } else {
                    let middle = undo(rest, input, &mut scratch.second)?;
                    first.decode_into(middle.as_ref(), out).map_err(place)?;
                }
            }
        }
        codec.decode_in_place(out, &self.viewed.data_type);
        Ok(())
    }

    /// Decodes a chunk, in `scratch` if that is possible, else in memory of its own.
    pub fn decode<'a>(&self, input: &'a [u8], scratch: &'a mut Scratch) -> Result<Decoded<'a>> {
        if let Some(codec) = self.simple() {
            let size = self.viewed.byte_size()?;
            if self.bytes.is_empty() {
                OutputSize::Exact(size).check(input.len()).map_err(|e| e.within("codec bytes"))?;
                if codec.is_identity(&self.viewed.data_type) {
                    return Ok(Decoded::Borrowed(input));
                }
            }
            let expansion = self.bytes.iter().map(|(codec, _)| codec.expansion()).max().unwrap_or(1);
            output::justified(size, input.len(), expansion)?;
            let mut first = std::mem::take(&mut scratch.first);
            let done = room(&mut first, size).and_then(|out| self.decode_into(input, out, scratch));
            scratch.first = first;
            done?;
            return Ok(Decoded::Borrowed(scratch.first.get(..size).unwrap_or_default()));
        }
        let bytes = undo(&self.bytes, input, &mut scratch.second)?;
        let codec = self.to_bytes.codec();
        let inner = self.arrays.last().map_or(&self.viewed, |(_, r)| r);
        let place = |name: &'static str| move |e: Error| e.within(format_args!("codec {name}"));
        let mut chunk = codec.decode(bytes.as_ref(), inner).map_err(place(codec.name()))?;
        OutputSize::Exact(inner.byte_size()?).check(chunk.bytes.len()).map_err(place(codec.name()))?;
        for (i, (array, encoded)) in self.arrays.iter().enumerate().rev() {
            let decoded = i.checked_sub(1).and_then(|p| self.arrays.get(p)).map_or(&self.viewed, |(_, r)| r);
            chunk = array.decode(chunk, decoded, encoded).map_err(place(array.name()))?;
            OutputSize::Exact(decoded.byte_size()?).check(chunk.bytes.len()).map_err(place(array.name()))?;
        }
        Ok(Decoded::Owned(chunk))
    }

    /// Encodes a whole chunk, given in C order of the array.
    pub fn encode(&self, mut chunk: Buffer) -> Result<Vec<u8>> {
        if let Some(order) = &self.order {
            chunk.bytes = super::transpose::permute(
                &chunk.bytes,
                &self.decoded.shape,
                order,
                self.decoded.data_type.size(),
            )?;
        }
        self.encode_viewed(chunk)
    }

    /// Whether encoding is copying: nothing but the `bytes` codec, in the order of memory.
    #[must_use]
    pub fn stores_as_is(&self) -> bool {
        self.plain().is_some_and(|codec| codec.stores_as_is(&self.viewed.data_type))
    }

    /// Encodes a whole chunk of fixed-size elements, given as [`Chain::viewed`] has it.
    pub fn encode_fixed(&self, chunk: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.encode_fixed_into(chunk, &mut out)?;
        Ok(out)
    }

    /// The same in place of what `out` holds, whose memory is used again if possible.
    pub fn encode_fixed_into(&self, chunk: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match (self.simple(), self.bytes.split_first()) {
            (Some(codec), Some(((first, _), rest))) if codec.stores_as_is(&self.viewed.data_type) => {
                first.encode_into(chunk, out).map_err(|e| e.within(first.name()))?;
                for (codec, _) in rest {
                    *out = codec.encode(out).map_err(|e| e.within(codec.name()))?;
                }
            }
            _ => *out = self.encode_viewed(Buffer::fixed(chunk.to_vec()))?,
        }
        Ok(())
    }

    /// Encodes a whole chunk, given as [`Chain::viewed`] has it.
    pub fn encode_viewed(&self, mut chunk: Buffer) -> Result<Vec<u8>> {
        let mut here = &self.viewed;
        for (array, encoded) in &self.arrays {
            chunk = array.encode(chunk, here, encoded).map_err(|e| e.within(array.name()))?;
            here = encoded;
        }
        let codec = self.to_bytes.codec();
        let mut bytes = codec.encode(&chunk, here).map_err(|e| e.within(codec.name()))?;
        for (codec, _) in &self.bytes {
            bytes = codec.encode(&bytes).map_err(|e| e.within(codec.name()))?;
        }
        Ok(bytes)
    }
}

/// Bytes that are either the input, in scratch memory, or their own.
enum Middle<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl AsRef<[u8]> for Middle<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Borrowed(b) => b,
            Self::Owned(v) => v,
        }
    }
}

/// Undoes bytes-to-bytes codecs, last one first.
fn undo<'a>(
    codecs: &[(Box<dyn BytesToBytes>, OutputSize)],
    input: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<Middle<'a>> {
    let Some(((last, size), rest)) = codecs.split_last() else { return Ok(Middle::Borrowed(input)) };
    let place = |name: &'static str| move |e: Error| e.within(format_args!("codec {name}"));
    if let (OutputSize::Exact(n), [], true) =
        (size, rest, size.limit() <= input.len().saturating_mul(1 << 10))
    {
        last.decode_into(input, room(scratch, *n)?).map_err(place(last.name()))?;
        return Ok(Middle::Borrowed(scratch.get(..*n).unwrap_or_default()));
    }
    let mut bytes = last.decode(input, *size).map_err(place(last.name()))?;
    size.check(bytes.len()).map_err(place(last.name()))?;
    for (codec, size) in rest.iter().rev() {
        bytes = codec.decode(&bytes, *size).map_err(place(codec.name()))?;
        size.check(bytes.len()).map_err(place(codec.name()))?;
    }
    Ok(Middle::Owned(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;
    use crate::meta::{DataType, Fill, Json, v3};

    fn build(codecs: &str, shape: Vec<u64>, data_type: DataType) -> Result<Chain> {
        let codecs = v3::codecs(&json(codecs), "codecs")?;
        let fill = Fill::zero(&data_type);
        Chain::build(&codecs, Repr { shape, data_type, fill }, false)
    }

    #[test]
    fn absurd_chains_are_refused() {
        assert!(build("[\"bytes\"]", vec![1; 4096], DataType::UINT8).is_ok());
        assert!(build("[\"bytes\"]", vec![1; 4097], DataType::UINT8).is_err());
        assert!(build("[\"bytes\"]", vec![1 << 63], DataType::UInt(16)).is_err());
        assert!(build("[\"vlen-utf8\"]", vec![1 << 27], DataType::String).is_err());
        let many = format!("[\"bytes\"{}]", ",\"crc32c\"".repeat(1024));
        assert!(build(&many, vec![1], DataType::UINT8).is_err());
    }

    #[test]
    fn v2_bitround_works_in_the_byte_order_of_the_array() {
        let number = |n: u32| ("keepbits".to_owned(), Json::int(n));
        for (endian, stored) in [("little", [0, 0, 0x50, 0x3e]), ("big", [0x3e, 0x50, 0, 0])] {
            let order = CodecMeta::new("bytes", vec![("endian".into(), Json::string(endian))]);
            let chain = [order, CodecMeta::new("v2.bitround", vec![number(3)])];
            let fill = Fill::zero(&DataType::FLOAT32);
            let repr = Repr { shape: vec![1], data_type: DataType::FLOAT32, fill };
            let chain = Chain::build(&chain, repr, false).unwrap();
            assert_eq!(
                chain.encode(Buffer::fixed(0.2f32.to_le_bytes().to_vec())).unwrap(),
                stored,
                "{endian}"
            );
        }
    }

    #[test]
    fn fill_values_are_shared_along_a_chain() {
        let steps = r#"{"name":"reshape","configuration":{"shape":[-1]}},"#.repeat(1000);
        let chain = build(&format!("[{steps}\"bytes\"]"), vec![1], DataType::Raw(1 << 28)).unwrap();
        assert!(chain.arrays.iter().all(|(_, r)| std::sync::Arc::ptr_eq(&r.fill.0, &chain.viewed.fill.0)));
    }

    #[test]
    fn large_constant_chunks_are_not_mistaken_for_bombs() {
        let bz2 = r#"["bytes",{"name":"numcodecs.bz2","configuration":{"level":9}}]"#;
        let chain = build(bz2, vec![65 << 20], DataType::UINT8).unwrap();
        let bytes = chain.encode(Buffer::fixed(vec![0; 65 << 20])).unwrap();
        let mut scratch = Scratch::default();
        assert_eq!(chain.decode(&bytes, &mut scratch).unwrap().bytes().len(), 65 << 20);
        // A few bytes cannot be that much.
        assert!(chain.decode(&bytes[..20], &mut scratch).is_err());
    }
}
