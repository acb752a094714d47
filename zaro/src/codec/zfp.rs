//! `zfp` and `zfpy`: numbers in blocks of `4^d`, transformed and truncated to the requested precision.
//!
//! V3 `zfp` ([text](https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zfp)) is the bare stream:
//!
//! ```json
//! {"name": "zfp", "configuration": {"mode": "fixed_accuracy", "tolerance": 0.05}}
//! ```
//!
//! V2 `zfpy`, in V3 `numcodecs.zfpy`, has a header before it, with the type, the shape and the mode. What the
//! metadata say of the mode matters for writing only:
//!
//! ```json
//! {"id": "zfpy", "mode": 4, "tolerance": 0.05, "rate": -1, "precision": -1}
//! ```
//!
//! The coding is that of the crate `zfp-rs`, whose streams are those of the C library to the bit. Ours are the
//! configuration, the types that zfp does not have, and what is refused in writing: NaN and infinity in lossy modes,
//! and unsigned integers beyond the signed range in all, because zfp would silently write something else.
//!
//! On reading, a stream that ends before its last block does is an error; zfp would read what lies behind it.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytemuck::{cast_slice, pod_read_unaligned, try_cast_slice, try_cast_slice_mut};
use half::{bf16, f16};
use zfp_rs::{
    ZfpBitStream, ZfpConfig, ZfpDimensionality, ZfpField, ZfpFieldMetadata, ZfpFieldMut, ZfpHeaderMask,
    ZfpScalar, ZfpScalarType as Kind, ZfpStreamAlignment,
};

use super::config::Config;
use super::{ArrayToBytes, Buffer, OutputSize, Repr};
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::dtype::{DataType, Float};
use crate::num;

/// More bits than this for each block are refused: nothing uses them, and they would have to be padded.
const MOST_BITS: u32 = 1 << 20;

/// What decides how much of the values is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ZfpMode {
    /// All of it.
    Reversible,
    /// zfp's own parameters.
    Expert {
        /// The fewest bits of a block.
        min_bits: u32,
        /// The most bits of a block.
        max_bits: u32,
        /// The most bit planes of a block.
        max_prec: u32,
        /// The exponent of the lowest bit plane.
        min_exp: i32,
    },
    /// An absolute error.
    Accuracy(f64),
    /// Bits for each value.
    Rate(f64),
    /// Bit planes; 0 for all.
    Precision(u32),
}

/// The `zfp` and `zfpy` codecs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Zfp {
    /// How to encode; and, without a header, how to decode. `None`: not known, so only a header can say.
    pub mode: Option<ZfpMode>,
    /// Whether the stream has a header: `zfpy`.
    pub header: bool,
}

impl Zfp {
    /// `zfp` from its configuration.
    pub(super) fn from_config(config: &Config<'_>, strict: bool) -> Result<Self> {
        let mode =
            config.str("mode")?.ok_or_else(|| Error::invalid("\"mode\" is missing").with_field("mode"))?;
        // The names without "_" and "write_header" are those of zarrs before the codec was registered.
        let mode = match mode {
            "reversible" => ZfpMode::Reversible,
            "expert" => ZfpMode::Expert {
                min_bits: need(small(config, "minbits")?, "minbits")?,
                max_bits: need(small(config, "maxbits")?, "maxbits")?,
                max_prec: need(small(config, "maxprec")?, "maxprec")?,
                min_exp: {
                    let n = need(config.int("minexp")?, "minexp")?;
                    i32::try_from(n).map_err(|_| invalid!("\"minexp\" of {n} is too large"))?
                },
            },
            "fixed_accuracy" | "fixedaccuracy" => {
                ZfpMode::Accuracy(need(config.float("tolerance")?, "tolerance")?)
            }
            "fixed_rate" | "fixedrate" => ZfpMode::Rate(need(config.float("rate")?, "rate")?),
            "fixed_precision" | "fixedprecision" => {
                ZfpMode::Precision(need(small(config, "precision")?, "precision")?)
            }
            other => {
                return Err(invalid!("{other:?} is not a mode of zfp").with_field("mode"));
            }
        };
        let header = !strict && config.bool("write_header")?.unwrap_or(false);
        if strict {
            config.finish()?;
        }
        Ok(Self { mode: Some(mode), header })
    }

    /// `zfpy` from its configuration. A parameter below zero means that it is not given, and then the mode is
    /// reversible, whatever `mode` says: so numcodecs has it.
    pub(super) fn from_numcodecs(config: &Config<'_>) -> Result<Self> {
        let mode = config.int("mode")?.unwrap_or(4);
        let tolerance = config.float("tolerance")?.filter(|x| *x >= 0.0);
        let rate = config.float("rate")?.filter(|x| *x >= 0.0);
        let precision = config.int("precision")?.and_then(|n| u32::try_from(n).ok());
        let mode = match mode {
            2 => Some(rate.map_or(ZfpMode::Reversible, ZfpMode::Rate)),
            3 => Some(precision.map_or(ZfpMode::Reversible, ZfpMode::Precision)),
            4 => Some(tolerance.map_or(ZfpMode::Reversible, ZfpMode::Accuracy)),
            5 => Some(ZfpMode::Reversible),
            _ => None,
        };
        Ok(Self { mode, header: true })
    }

    fn mode(&self) -> Result<ZfpMode> {
        self.mode.ok_or_else(|| Error::unsupported("unknown mode, which cannot be written"))
    }
}

fn small(config: &Config<'_>, name: &'static str) -> Result<Option<u32>> {
    config
        .uint(name)?
        .map(|n| u32::try_from(n).map_err(|_| invalid!("{name:?} of {n} is too large")))
        .transpose()
}

fn need<T>(value: Option<T>, name: &'static str) -> Result<T> {
    value.ok_or_else(|| invalid!("{name:?} is missing").with_field(name))
}

fn wrong(e: impl std::error::Error) -> Error {
    Error::invalid(e.to_string())
}

impl ZfpMode {
    /// What it means for values of `kind` in blocks of `rank` dimensions.
    fn config(self, kind: Kind, rank: usize) -> Result<ZfpConfig> {
        match self {
            Self::Reversible => Ok(ZfpConfig::reversible()),
            Self::Expert { min_bits, max_bits, max_prec, min_exp } => {
                if max_bits == 0 || min_bits > MOST_BITS {
                    return Err(invalid!(
                        "a block cannot have at least {min_bits} and at most {max_bits} bits"
                    ));
                }
                // No block is empty, and no header says so.
                ZfpConfig::expert(min_bits.max(1), max_bits, max_prec, min_exp).map_err(wrong)
            }
            Self::Accuracy(tolerance) if tolerance.is_finite() => Ok(ZfpConfig::fixed_accuracy(tolerance)),
            Self::Accuracy(tolerance) => Err(invalid!("a tolerance of {tolerance} is invalid")),
            Self::Rate(rate) => {
                let rank = u32::try_from(rank).unwrap_or(0);
                ZfpDimensionality::try_from(rank)
                    .ok()
                    .filter(|_| rate > 0.0)
                    .and_then(|d| ZfpConfig::fixed_rate(rate, kind, d, ZfpStreamAlignment::Unaligned).ok())
                    .ok_or_else(|| invalid!("a rate of {rate} bits per value is invalid"))
            }
            Self::Precision(planes) => Ok(ZfpConfig::fixed_precision(planes)),
        }
    }
}

/// The extents as zfp has them: the fastest first, zeros behind the last. No dimension at all is one value.
fn extents(shape: &[u64]) -> Result<[usize; 4]> {
    if shape.len() > 4 {
        return Err(unsupported!("zfp has 1 to 4 dimensions, not {}", shape.len()));
    }
    let mut to = [usize::from(shape.is_empty()), 0, 0, 0];
    for (to, from) in to.iter_mut().zip(shape.iter().rev()) {
        *to = num::usize_of(*from)?;
    }
    Ok(to)
}

/// The product of those that are there.
fn product(extents: impl IntoIterator<Item = usize>) -> usize {
    extents.into_iter().filter(|n| *n > 0).fold(1, usize::saturating_mul)
}

/// Decodes an array behind `header` bits into its bytes.
fn decode_as<T: ZfpScalar>(
    bytes: &[u8],
    header: u64,
    config: &ZfpConfig,
    extents: [usize; 4],
) -> Result<Vec<u8>> {
    let count = product(extents);
    let run = |mut from: ZfpBitStream, values: &mut [T]| {
        let capacity = from.capacity();
        from.seek_read(header);
        let mut field = ZfpFieldMut::new(values, extents).map_err(wrong)?;
        match from.decompress(config, &mut field) {
            Ok(read) if read <= capacity => Ok(()),
            _ => Err(Error::invalid("ends before its last block")),
        }
    };
    let stream = || ZfpBitStream::from_bytes(bytes).map_err(wrong);
    let size = count.checked_mul(size_of::<T>()).ok_or_else(|| Error::invalid("the chunk is too large"))?;
    let mut out = vec![0; size];
    match try_cast_slice_mut(&mut out) {
        Ok(values) => run(stream()?, values)?,
        Err(_) => {
            let mut values = vec![T::default(); count];
            run(stream()?, &mut values)?;
            out.copy_from_slice(cast_slice(&values));
        }
    }
    // A stream in words of its own has no end within one; in bytes it may, and then what lies behind it must not
    // matter.
    if !bytes.len().is_multiple_of(8) {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0xff);
        if decode_as::<T>(&bytes, header, config, extents)? != out {
            return Err(Error::invalid("ends before its last block"));
        }
    }
    Ok(out)
}

/// Encodes an array behind what `to` has.
fn encode_as<T: ZfpScalar>(
    to: &mut ZfpBitStream,
    bytes: &[u8],
    config: &ZfpConfig,
    extents: [usize; 4],
) -> Result<()> {
    let values = match try_cast_slice::<_, T>(bytes) {
        Ok(values) => Cow::Borrowed(values),
        Err(_) => bytes.chunks_exact(size_of::<T>()).map(pod_read_unaligned).collect(),
    };
    let field = ZfpField::new(&values, extents).map_err(wrong)?;
    to.compress(config, &field).map_err(wrong)?;
    Ok(())
}

/// What the header says, and how many bits it has.
fn read_header(bytes: &[u8]) -> Result<(ZfpFieldMetadata, ZfpConfig, u64)> {
    match bytes {
        [b'z', b'f', b'p', 5, ..] => {}
        [b'z', b'f', b'p', version, ..] => {
            return Err(unsupported!("version {version} of the format is not supported, only version 5"));
        }
        _ => return Err(Error::invalid("does not begin with \"zfp\"")),
    }
    // No header is longer than 148 bits.
    let head = bytes.get(..24).unwrap_or(bytes);
    let mut from = ZfpBitStream::from_bytes(head).map_err(wrong)?;
    let header = from.read_header(ZfpHeaderMask::FULL).map_err(wrong)?;
    if header.bits_read > head.len() * 8 {
        return Err(Error::invalid("ends within its header"));
    }
    let (Some(field), Some(config)) = (header.metadata, header.config) else {
        return Err(Error::invalid("has no header"));
    };
    Ok((field, config, num::u64_of(header.bits_read)))
}

impl ArrayToBytes for Zfp {
    fn name(&self) -> &'static str {
        if self.header { "zfpy" } else { "zfp" }
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        let (kind, _) = Guise::of(&decoded.data_type)?;
        let extents = extents(&decoded.shape)?;
        let mode = self.mode.unwrap_or(ZfpMode::Reversible).config(kind, decoded.shape.len().max(1))?;
        // As much as any mode may take: what others wrote need not be as short as can be.
        let bytes = [mode, ZfpConfig::reversible()]
            .into_iter()
            .filter(|_| !decoded.shape.contains(&0))
            .map(|config| config.maximum_size(kind, extents).unwrap_or(usize::MAX))
            .max();
        let bytes = bytes.unwrap_or(0).saturating_add(64);
        if self.header {
            // A header may have another shape of as many values, and another mode.
            return Ok(OutputSize::AtMost(
                bytes.max(OutputSize::AtMost(decoded.byte_size()?).compressed().limit()),
            ));
        }
        Ok(OutputSize::AtMost(bytes))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        let (kind, guise) = Guise::of(&decoded.data_type)?;
        let count = decoded.count()?;
        if count == 0 {
            return Ok(Buffer::default());
        }
        let (extents, config, start) = if self.header {
            let (field, config, start) = read_header(bytes)?;
            if field.scalar_type != kind {
                return Err(invalid!("holds {:?} where {kind:?} are expected", field.scalar_type));
            }
            // The shape may differ: numcodecs' filters make everything one-dimensional.
            if product(field.dims) != count {
                return Err(invalid!(
                    "holds an array of the extents {:?}, fastest first, where the shape {:?} is expected",
                    field.dims,
                    decoded.shape
                ));
            }
            (field.dims, config, start)
        } else {
            (extents(&decoded.shape)?, self.mode()?.config(kind, decoded.shape.len().max(1))?, 0)
        };
        // Every block takes a bit at least. This keeps a few bytes from claiming a large chunk.
        let blocks = product(extents.map(|n| n.div_ceil(4)));
        let fewest = num::u64_of(blocks).saturating_mul(u64::from(config.min_bits().max(1)));
        if num::u64_of(bytes.len()).saturating_mul(8) < fewest {
            return Err(invalid!("{} bytes are too few for {blocks} blocks", bytes.len()));
        }
        let out = match kind {
            Kind::I32 => decode_as::<i32>(bytes, start, &config, extents),
            Kind::I64 => decode_as::<i64>(bytes, start, &config, extents),
            Kind::F32 => decode_as::<f32>(bytes, start, &config, extents),
            Kind::F64 => decode_as::<f64>(bytes, start, &config, extents),
        }?;
        Ok(Buffer::fixed(guise.take_off(out)))
    }

    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>> {
        let (kind, guise) = Guise::of(&decoded.data_type)?;
        OutputSize::Exact(decoded.byte_size()?).check(chunk.bytes.len())?;
        if chunk.bytes.is_empty() {
            return Ok(Vec::new());
        }
        let extents = extents(&decoded.shape)?;
        let config = self.mode()?.config(kind, decoded.shape.len().max(1))?;
        let most =
            config.maximum_size(kind, extents).ok_or_else(|| Error::invalid("the chunk is too large"))?;
        let mut to = ZfpBitStream::new(most).map_err(wrong)?;
        if self.header {
            let field = ZfpFieldMetadata { scalar_type: kind, dims: extents };
            to.write_header(&config, &field, ZfpHeaderMask::FULL)
                .map_err(|e| unsupported!("zfp cannot write the header of shape {:?}: {e}", decoded.shape))?;
        }
        let bytes = guise.put_on(&chunk.bytes)?.map_or(Cow::Borrowed(&chunk.bytes), Cow::Owned);
        let finite = match kind {
            Kind::F32 => bytes.as_chunks().0.iter().all(|b| f32::from_le_bytes(*b).is_finite()),
            Kind::F64 => bytes.as_chunks().0.iter().all(|b| f64::from_le_bytes(*b).is_finite()),
            Kind::I32 | Kind::I64 => true,
        };
        if !finite && config.min_exp() >= zfp_rs::ZFP_MIN_EXP {
            return Err(Error::invalid("NaN and infinity can be stored in reversible mode only"));
        }
        match kind {
            Kind::I32 => encode_as::<i32>(&mut to, &bytes, &config, extents),
            Kind::I64 => encode_as::<i64>(&mut to, &bytes, &config, extents),
            Kind::F32 => encode_as::<f32>(&mut to, &bytes, &config, extents),
            Kind::F64 => encode_as::<f64>(&mut to, &bytes, &config, extents),
        }?;
        to.into_bytes().map_err(wrong)
    }
}

/// How a type is made one that zfp has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guise {
    /// It is one.
    None,
    /// Signed integers of so many bits, moved up to just below the sign bit.
    Signed(u32),
    /// Unsigned ones, centred on zero first.
    Unsigned(u32),
    /// Unsigned ones of full width, as signed ones. The upper half cannot be held.
    Plain32,
    /// The same with 64 bits.
    Plain64,
    /// `float16` as `float32`.
    Half,
    /// `bfloat16` as `float32`.
    Brain,
}

impl Guise {
    /// What `data_type` becomes, and how.
    fn of(data_type: &DataType) -> Result<(Kind, Self)> {
        Ok(match data_type {
            DataType::Int(32) => (Kind::I32, Self::None),
            DataType::Int(64) | DataType::DateTime(..) | DataType::TimeDelta(..) => (Kind::I64, Self::None),
            DataType::Float(Float::F32) => (Kind::F32, Self::None),
            DataType::Float(Float::F64) => (Kind::F64, Self::None),
            DataType::Int(bits @ (2 | 4 | 8 | 16)) => (Kind::I32, Self::Signed(u32::from(*bits))),
            DataType::UInt(bits @ (2 | 4 | 8 | 16)) => (Kind::I32, Self::Unsigned(u32::from(*bits))),
            DataType::UInt(32) => (Kind::I32, Self::Plain32),
            DataType::UInt(64) => (Kind::I64, Self::Plain64),
            DataType::Float(Float::F16) => (Kind::F32, Self::Half),
            DataType::Float(Float::BF16) => (Kind::F32, Self::Brain),
            other => return Err(unsupported!("zfp cannot store {other} elements")),
        })
    }

    /// The bytes of the type that zfp sees; `None` if they are the same.
    fn put_on(self, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        let held = |fits: bool| {
            let message = "zfp can store unsigned integers only up to half their range";
            if fits { Ok(None) } else { Err(Error::unsupported(message)) }
        };
        Ok(Some(match self {
            Self::None => return Ok(None),
            Self::Plain32 => {
                return held(bytes.as_chunks::<4>().0.iter().all(|b| i32::from_le_bytes(*b) >= 0));
            }
            Self::Plain64 => {
                return held(bytes.as_chunks::<8>().0.iter().all(|b| i64::from_le_bytes(*b) >= 0));
            }
            Self::Signed(16) => widened(bytes, |b| i32::from(i16::from_le_bytes(b)) << 15),
            Self::Signed(bits) => widened(bytes, |b| i32::from(i8::from_le_bytes(b)) << (31 - bits)),
            Self::Unsigned(16) => widened(bytes, |b| (i32::from(u16::from_le_bytes(b)) - 0x8000) << 15),
            Self::Unsigned(bits) => {
                widened(bytes, |[b]: [u8; 1]| (i32::from(b) - (1 << (bits - 1))) << (31 - bits))
            }
            Self::Half => widened(bytes, |b| f16::from_le_bytes(b).to_f32().to_bits().cast_signed()),
            Self::Brain => widened(bytes, |b| bf16::from_le_bytes(b).to_f32().to_bits().cast_signed()),
        }))
    }

    /// The inverse. Values out of range, which lossy modes may make, become the nearest in range.
    fn take_off(self, mut bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::None => bytes,
            Self::Plain32 => {
                for b in bytes.as_chunks_mut::<4>().0 {
                    *b = i32::from_le_bytes(*b).max(0).to_le_bytes();
                }
                bytes
            }
            Self::Plain64 => {
                for b in bytes.as_chunks_mut::<8>().0 {
                    *b = i64::from_le_bytes(*b).max(0).to_le_bytes();
                }
                bytes
            }
            Self::Signed(16) => {
                narrowed(&bytes, |i| clamped::<i16>(i >> 15, i16::MIN, i16::MAX).to_le_bytes())
            }
            Self::Signed(bits) => {
                let top = (1 << (bits - 1)) - 1;
                narrowed(&bytes, |i| {
                    clamped::<i8>((i >> (31 - bits)).clamp(-top - 1, top), i8::MIN, i8::MAX).to_le_bytes()
                })
            }
            Self::Unsigned(16) => {
                narrowed(&bytes, |i| clamped::<u16>((i >> 15) + 0x8000, 0, u16::MAX).to_le_bytes())
            }
            Self::Unsigned(bits) => narrowed(&bytes, |i| {
                let i = (i >> (31 - bits)) + (1 << (bits - 1));
                clamped::<u8>(i.min((1 << bits) - 1), 0, u8::MAX).to_le_bytes()
            }),
            Self::Half => {
                narrowed(&bytes, |i| f16::from_f32(f32::from_bits(i.cast_unsigned())).to_le_bytes())
            }
            Self::Brain => {
                narrowed(&bytes, |i| bf16::from_f32(f32::from_bits(i.cast_unsigned())).to_le_bytes())
            }
        }
    }
}

/// `i`, or the nearest number that the type has.
fn clamped<T: TryFrom<i32>>(i: i32, least: T, most: T) -> T {
    T::try_from(i).unwrap_or(if i < 0 { least } else { most })
}

/// Each `B` bytes as 32 bits.
fn widened<const B: usize>(bytes: &[u8], f: impl Fn([u8; B]) -> i32) -> Vec<u8> {
    bytes.as_chunks::<B>().0.iter().flat_map(|b| f(*b).to_le_bytes()).collect()
}

/// Each 32 bits as `B` bytes.
fn narrowed<const B: usize>(bytes: &[u8], f: impl Fn(i32) -> [u8; B]) -> Vec<u8> {
    bytes.as_chunks::<4>().0.iter().flat_map(|b| f(i32::from_le_bytes(*b))).collect()
}
