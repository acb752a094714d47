//! numcodecs' `packbits`: eight booleans per byte, the first one in the highest bit.
//!
//! V2: `{"id": "packbits"}`, over bytes; V3 spelling `numcodecs.packbits`, over values, whose encoded chunk is a list
//! of bytes. The first byte says how many bits of the last one are padding. V3's own [`packbits`](super::packbits) is
//! another format, which begins with the lowest bit.

use super::registry::CodecRequest;
use super::{ArrayToArray, Buffer, BytesToBytes, Codec, OutputSize, Repr, filter};
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::DataType;
use crate::meta::fill::Fill;
use crate::num;

/// The codec, which has no configuration.
pub(super) fn make(request: &CodecRequest<'_>) -> Codec {
    if filter::is_v2(request) { Codec::Bytes(Box::new(BoolBits)) } else { Codec::Array(Box::new(BoolBits)) }
}

/// numcodecs' `packbits`.
#[derive(Debug)]
struct BoolBits;

fn unpack(bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
    let (padding, packed) = bytes.split_first().ok_or_else(|| Error::invalid("the data are empty"))?;
    let bits = packed.len().saturating_mul(8).checked_sub(usize::from(*padding)).filter(|_| *padding < 8);
    let bits = bits.ok_or_else(|| invalid!("invalid number of padding bits: {padding}"))?;
    size.check(bits)?;
    let each = packed.iter().flat_map(|b| (0..8).rev().map(move |i| b >> i & 1));
    Ok(each.take(bits).collect())
}

fn pack(bools: &[u8]) -> Vec<u8> {
    let padding = (8 - bools.len() % 8) % 8;
    let first = u8::try_from(padding).unwrap_or_default();
    let byte = |group: &[u8]| group.iter().zip((0..8).rev()).fold(0, |a, (b, i)| a | u8::from(*b != 0) << i);
    std::iter::once(first).chain(bools.chunks(8).map(byte)).collect()
}

impl BytesToBytes for BoolBits {
    fn name(&self) -> &'static str {
        "packbits"
    }

    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        Ok(decoded.map(|n| n.div_ceil(8).saturating_add(1)))
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        unpack(bytes, size)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(pack(bytes))
    }
}

impl ArrayToArray for BoolBits {
    fn name(&self) -> &'static str {
        "packbits"
    }

    fn encoded(&self, decoded: &Repr) -> Result<Repr> {
        if decoded.data_type != DataType::Bool {
            return Err(invalid!("is for booleans, not {}", decoded.data_type));
        }
        let bytes = num::u64_of(decoded.count()?.div_ceil(8)).saturating_add(1);
        Ok(Repr { shape: vec![bytes], data_type: DataType::UINT8, fill: Fill(vec![0].into()) })
    }

    fn decode(&self, chunk: Buffer, decoded: &Repr, _: &Repr) -> Result<Buffer> {
        unpack(&chunk.bytes, OutputSize::Exact(decoded.count()?)).map(Buffer::fixed)
    }

    fn encode(&self, chunk: Buffer, _: &Repr, _: &Repr) -> Result<Buffer> {
        Ok(Buffer::fixed(pack(&chunk.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_checked() {
        for bad in [&[][..], &[8, 0], &[255, 0, 0, 0, 0], &[1], &[9, 255, 255]] {
            assert!(unpack(bad, OutputSize::AtMost(100)).is_err(), "{bad:?}");
        }
        assert_eq!(unpack(&[0], OutputSize::Exact(0)).unwrap(), [0u8; 0]);
    }
}
