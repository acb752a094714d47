//! `zfp` and `zfpy`: numbers in blocks of `4^d`, transformed and cut off where the precision asked for is reached.
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
//! Written anew in Rust, with the source of the C library at hand (LLNL's zfp 1.0.1, BSD 3-clause; format version 5,
//! default rounding): the lifting steps and the order of coefficients in `lift` are the library's, as the format
//! fixes them. Streams are the library's to the bit. Exceptions, all in writing:
//!
//! * NaN and infinity are refused in lossy modes, and unsigned integers beyond the signed range in all: zfp or its
//!   callers would silently write something else.
//! * A rate below what a block's exponent takes is raised to that, which zfpy forgets.
//! * Blocks of zeros are padded to `minbits` in reversible expert mode too, where zfp skips on reading what it does
//!   not write.
//!
//! On reading, a stream that ends before its last block does is an error; zfp would read what lies behind it.
//!
//! `stream`: bits. `plane`: embedded coding. `lift`: transforms. `block`: one block of each type. `field`: an array as
//! blocks. `params`: limits and header. This file: configuration, and types that zfp does not have.

mod block;
mod field;
mod lift;
mod params;
mod plane;
mod stream;
#[cfg(test)]
mod tests;

use half::{bf16, f16};

use self::field::Extents;
use self::params::{Header, Kind, Params};
use self::stream::{Reader, Writer};
use super::config::Config;
use super::{ArrayToBytes, Buffer, Repr, Size};
use crate::error::{Error, Result};
use crate::meta::dtype::{DataType, Float};
use crate::num;

/// What decides how much of the values is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
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
pub struct Zfp {
    /// How to encode; and, without a header, how to decode. `None`: not known, so only a header can say.
    pub mode: Option<Mode>,
    /// Whether the stream has a header: `zfpy`.
    pub header: bool,
}

impl Zfp {
    /// `zfp` from its configuration.
    pub fn from_config(config: &Config<'_>, strict: bool) -> Result<Self> {
        let mode =
            config.str("mode")?.ok_or_else(|| Error::invalid("\"mode\" is missing").with_field("mode"))?;
        // The names without "_" and "write_header" are those of zarrs before the codec was registered.
        let mode = match mode {
            "reversible" => Mode::Reversible,
            "expert" => Mode::Expert {
                min_bits: need(small(config, "minbits")?, "minbits")?,
                max_bits: need(small(config, "maxbits")?, "maxbits")?,
                max_prec: need(small(config, "maxprec")?, "maxprec")?,
                min_exp: {
                    let n = need(config.int("minexp")?, "minexp")?;
                    i32::try_from(n).map_err(|_| Error::invalid(format!("\"minexp\" of {n} is too large")))?
                },
            },
            "fixed_accuracy" | "fixedaccuracy" => {
                Mode::Accuracy(need(config.float("tolerance")?, "tolerance")?)
            }
            "fixed_rate" | "fixedrate" => Mode::Rate(need(config.float("rate")?, "rate")?),
            "fixed_precision" | "fixedprecision" => {
                Mode::Precision(need(small(config, "precision")?, "precision")?)
            }
            other => {
                return Err(Error::invalid(format!("{other:?} is not a mode of zfp")).with_field("mode"));
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
    pub fn from_numcodecs(config: &Config<'_>) -> Result<Self> {
        let mode = config.int("mode")?.unwrap_or(4);
        let tolerance = config.float("tolerance")?.filter(|x| *x >= 0.0);
        let rate = config.float("rate")?.filter(|x| *x >= 0.0);
        let precision = config.int("precision")?.and_then(|n| u32::try_from(n).ok());
        let mode = match mode {
            2 => Some(rate.map_or(Mode::Reversible, Mode::Rate)),
            3 => Some(precision.map_or(Mode::Reversible, Mode::Precision)),
            4 => Some(tolerance.map_or(Mode::Reversible, Mode::Accuracy)),
            5 => Some(Mode::Reversible),
            _ => None,
        };
        Ok(Self { mode, header: true })
    }

    fn mode(&self) -> Result<Mode> {
        self.mode.ok_or_else(|| Error::unsupported("zaro does not know this mode, and cannot write it"))
    }
}

fn small(config: &Config<'_>, name: &'static str) -> Result<Option<u32>> {
    config
        .uint(name)?
        .map(|n| u32::try_from(n).map_err(|_| Error::invalid(format!("{name:?} of {n} is too large"))))
        .transpose()
}

fn need<T>(value: Option<T>, name: &'static str) -> Result<T> {
    value.ok_or_else(|| Error::invalid(format!("{name:?} is missing")).with_field(name))
}

impl ArrayToBytes for Zfp {
    fn name(&self) -> &'static str {
        if self.header { "zfpy" } else { "zfp" }
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<Size> {
        let (kind, _) = Guise::of(&decoded.data_type)?;
        let extents = Extents::new(&decoded.shape)?;
        let mut bits = kind.most_bits(extents.block_size());
        if let Some(mode) = self.mode {
            bits = bits.max(Params::of(mode, kind, extents.rank)?.min_bits);
        }
        // Multiplied before it is divided, but not beyond the range.
        let bytes =
            num::u64_of(extents.blocks()).saturating_mul(u64::from(bits)).div_ceil(64).saturating_mul(8);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(64);
        if self.header {
            // A header may have another shape of as many values, and another mode.
            return Ok(Size::AtMost(bytes.max(Size::AtMost(decoded.byte_size()?).compressed().limit())));
        }
        Ok(Size::AtMost(bytes))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        let (kind, guise) = Guise::of(&decoded.data_type)?;
        let count = decoded.count()?;
        if count == 0 {
            return Ok(Buffer::default());
        }
        let mut from = Reader::new(bytes);
        let (extents, params) = if self.header {
            let header = Header::read(&mut from)?;
            if header.kind != kind {
                return Err(Error::invalid(format!(
                    "holds {} where {} are expected",
                    header.kind.name(),
                    kind.name()
                )));
            }
            // The shape may differ: numcodecs' filters make everything one-dimensional.
            if num::product(&header.shape).ok() != Some(num::u64_of(count)) {
                return Err(Error::invalid(format!(
                    "holds an array of shape {:?} where {:?} is expected",
                    header.shape, decoded.shape
                )));
            }
            (Extents::new(&header.shape)?, header.params)
        } else {
            let extents = Extents::new(&decoded.shape)?;
            (extents, Params::of(self.mode()?, kind, extents.rank)?)
        };
        // Every block takes a bit at least. This keeps a few bytes from claiming a large chunk.
        let fewest = num::u64_of(extents.blocks()).saturating_mul(u64::from(params.min_bits.max(1)));
        if num::u64_of(bytes.len()).saturating_mul(8) < fewest {
            return Err(Error::invalid(format!(
                "{} bytes are too few for {} blocks",
                bytes.len(),
                extents.blocks()
            )));
        }
        let size = match kind {
            Kind::I32 | Kind::F32 => 4usize,
            Kind::I64 | Kind::F64 => 8,
        };
        let size = count.checked_mul(size).ok_or_else(|| Error::invalid("the chunk is too large"))?;
        let mut out = vec![0; size];
        field::decode(&mut from, kind, extents, &params, &mut out)?;
        Ok(Buffer::fixed(guise.take_off(out)))
    }

    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>> {
        let (kind, guise) = Guise::of(&decoded.data_type)?;
        Size::Exact(decoded.byte_size()?).check(chunk.bytes.len())?;
        if chunk.bytes.is_empty() {
            return Ok(Vec::new());
        }
        let extents = Extents::new(&decoded.shape)?;
        let params = Params::of(self.mode()?, kind, extents.rank)?;
        let mut to = Writer::with_capacity(chunk.bytes.len() / 2);
        if self.header {
            let shape = if decoded.shape.is_empty() { vec![1] } else { decoded.shape.clone() };
            Header { kind, shape, params }.write(&mut to)?;
        }
        match guise.put_on(&chunk.bytes)? {
            Some(bytes) => field::encode(&mut to, kind, extents, &params, &bytes)?,
            None => field::encode(&mut to, kind, extents, &params, &chunk.bytes)?,
        }
        Ok(to.finish())
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
            other => return Err(Error::unsupported(format!("zfp cannot hold {other} elements"))),
        })
    }

    /// The bytes of the type that zfp sees; `None` if they are the same.
    fn put_on(self, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        let held = |fits: bool| {
            let message = "zfp holds unsigned integers up to half their range only";
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
