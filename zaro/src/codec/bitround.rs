//! `bitround`: rounds to fewer significant bits, for better compression.
//!
//! V3: `{"name": "bitround", "configuration": {"keepbits": 10}}`, also spelled `numcodecs.bitround`; V2:
//! `{"id": "bitround", "keepbits": 10}`. Floats keep that many bits of their mantissa, integers that many from the
//! highest bit set of their magnitude; rounded half to even. It is lossy: decoding does nothing.
//!
//! The V2 filter does not say what type it works on. If it is the first, its chain adds the byte order of the array as
//! `"endian"`; without it the filter reads, and refuses to write.

use super::bytes::{Bytes, Endian};
use super::config::Config;
use super::registry::CodecRequest;
use super::{ArrayToArray, Buffer, BytesToBytes, Codec, OutputSize, Repr, filter};
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::dtype::{DataType, Float};
use crate::meta::float;

pub(super) fn from_config(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Codec> {
    let keep = config.uint("keepbits")?.ok_or_else(|| Error::invalid("\"keepbits\" is missing"))?;
    if keep == 0 && request.name == "bitround" {
        return Err(Error::invalid("\"keepbits\" must be at least 1"));
    }
    let keep = u32::try_from(keep).map_err(|_| invalid!("\"keepbits\" {keep} is too large"))?;
    if filter::is_v2(request) {
        let endian = Bytes::from_config(config)?.endian;
        return Ok(Codec::Bytes(Box::new(RoundOnBytes {
            keep,
            data_type: request.data_type.clone(),
            endian,
        })));
    }
    Ok(Codec::Array(Box::new(BitRound { keep })))
}

/// Over values.
#[derive(Debug)]
struct BitRound {
    keep: u32,
}

impl ArrayToArray for BitRound {
    fn name(&self) -> &'static str {
        "bitround"
    }

    fn encoded(&self, decoded: &Repr) -> Result<Repr> {
        part(&decoded.data_type)?;
        // The fill value stays whole: what is decoded is what is stored.
        Ok(decoded.clone())
    }

    fn decode(&self, chunk: Buffer, decoded: &Repr, _: &Repr) -> Result<Buffer> {
        OutputSize::Exact(decoded.byte_size()?).check(chunk.bytes.len())?;
        Ok(chunk)
    }

    fn encode(&self, mut chunk: Buffer, decoded: &Repr, _: &Repr) -> Result<Buffer> {
        round(&mut chunk.bytes, &decoded.data_type, self.keep)?;
        Ok(chunk)
    }
}

/// Over bytes: V2.
#[derive(Debug)]
struct RoundOnBytes {
    keep: u32,
    data_type: DataType,
    endian: Option<Endian>,
}

impl BytesToBytes for RoundOnBytes {
    fn name(&self) -> &'static str {
        "bitround"
    }

    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        Ok(decoded)
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        size.check(bytes.len())?;
        Ok(bytes.to_vec())
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        if self.endian.is_none() {
            return Err(Error::unsupported("cannot write: the byte order is unknown"));
        }
        let order = Bytes { endian: self.endian, mixed: Vec::new() };
        let mut out = bytes.to_vec();
        order.swap(&mut out, &self.data_type);
        round(&mut out, &self.data_type, self.keep)?;
        order.swap(&mut out, &self.data_type);
        Ok(out)
    }
}

/// What an element is made of.
#[derive(Clone, Copy)]
enum FloatPart {
    Float(Float),
    Int { signed: bool, size: usize },
}

fn part(data_type: &DataType) -> Result<FloatPart> {
    Ok(match data_type {
        DataType::Float(f) | DataType::Complex(f) if f.bits() >= 16 => FloatPart::Float(*f),
        DataType::Int(8 | 16 | 32 | 64) | DataType::DateTime(..) | DataType::TimeDelta(..) => {
            FloatPart::Int { signed: true, size: data_type.size() }
        }
        DataType::UInt(8 | 16 | 32 | 64) => FloatPart::Int { signed: false, size: data_type.size() },
        other => return Err(unsupported!("{other} elements")),
    })
}

fn round(bytes: &mut [u8], data_type: &DataType, keep: u32) -> Result<()> {
    let part = part(data_type)?;
    let size = match part {
        FloatPart::Float(f) => f.size(),
        FloatPart::Int { size, .. } => size,
    };
    for element in bytes.chunks_exact_mut(size.max(1)) {
        let mut word = [0; 8];
        word.iter_mut().zip(element.iter()).for_each(|(w, b)| *w = *b);
        let bits = u64::from_le_bytes(word);
        let rounded = match part {
            FloatPart::Float(f) if float::to_f64(f, bits).is_nan() => bits,
            FloatPart::Float(f) => nearest(bits, float::mantissa_bits(f).saturating_sub(keep)),
            FloatPart::Int { signed, .. } => {
                let width = 8 * element.len();
                let top = if signed { 1u64 << (width - 1) } else { 0 };
                let all = u64::MAX >> (64 - width);
                let negative = bits & top != 0;
                let magnitude = if negative { bits.wrapping_neg() & all } else { bits };
                let drop = (64 - magnitude.leading_zeros()).saturating_sub(keep);
                let limit = if signed { top - u64::from(!negative) } else { all };
                match nearest(magnitude, drop) {
                    // Rounding up would leave the type: keep the number as it is.
                    m if m > limit || m < magnitude && magnitude - m > magnitude / 2 => bits,
                    m if negative => m.wrapping_neg() & all,
                    m => m,
                }
            }
        };
        element.iter_mut().zip(rounded.to_le_bytes()).for_each(|(e, b)| *e = b);
    }
    Ok(())
}

/// `bits` with the last `drop` of them rounded away, ties to even.
fn nearest(bits: u64, drop: u32) -> u64 {
    match drop {
        0 => bits,
        1..=63 => {
            let half = (1u64 << (drop - 1)) - 1;
            bits.wrapping_add((bits >> drop & 1) + half) >> drop << drop
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::typed_bytes;

    #[test]
    fn v2_reads_without_the_byte_order_and_does_not_write() {
        let c = typed_bytes("v2.bitround", r#"{"keepbits":3}"#, &DataType::FLOAT32);
        assert_eq!(c.decode(&[1, 2, 3, 4], OutputSize::Exact(4)).unwrap(), [1, 2, 3, 4]);
        assert!(c.decode(&[1, 2, 3], OutputSize::Exact(4)).is_err());
        assert!(c.encode(&[1, 2, 3, 4]).is_err());
    }
}
