//! `pcodec`: numbers compressed by pco, in its standalone format.
//!
//! V2: `{"id": "pcodec", "level": 8, "mode_spec": "auto", "delta_spec": "auto", "delta_encoding_order": null,
//! "equal_pages_up_to": 262144}`; V3 spelling `numcodecs.pcodec`, over values. The data say the type of their numbers;
//! under the V3 name it must be the array's, while V2 takes what comes, since other filters may stand between. Integers
//! of 8 to 64 bits, floats of 16 to 64; complex numbers are two of them, as zarrs writes them.

use half::f16;
use pco::data_types::{Number, NumberType};
use pco::standalone::{DecompressorItem, FileDecompressor};
use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};

use super::config::Config;
use super::number;
use super::registry::CodecRequest;
use super::{ArrayToBytes, Buffer, BytesToBytes, Codec, OutputSize, Repr, filter};
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::dtype::{DataType, Float};

pub(super) fn from_config(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Codec> {
    let level = config.uint("level")?.unwrap_or(8);
    let level = usize::try_from(level).ok().filter(|l| *l <= 12);
    let level = level.ok_or_else(|| Error::invalid("\"level\" must be 0 to 12"))?;
    let mode = match config.str("mode_spec")? {
        None | Some("auto") => ModeSpec::Auto,
        Some("classic") => ModeSpec::Classic,
        Some(other) => return Err(invalid!("\"mode_spec\" {other:?} is not known")),
    };
    let order = match config.uint("delta_encoding_order")? {
        None => None,
        Some(n) => match usize::try_from(n) {
            Ok(n @ 0..=7) => Some(n),
            _ => return Err(Error::invalid("\"delta_encoding_order\" must be 0 to 7")),
        },
    };
    let delta = match (config.str("delta_spec")?, order) {
        (None | Some("auto"), None) => DeltaSpec::Auto,
        (None | Some("auto" | "try_consecutive"), Some(order)) => DeltaSpec::TryConsecutive(order),
        (Some("none"), None) => DeltaSpec::NoOp,
        (Some("try_consecutive"), None) => DeltaSpec::Auto,
        (Some("try_lookback"), None) => DeltaSpec::TryLookback,
        (Some(other), _) => {
            return Err(invalid!("\"delta_spec\" {other:?} does not fit the other settings"));
        }
    };
    let page = config.uint("equal_pages_up_to")?.unwrap_or(1 << 18);
    let page = usize::try_from(page).ok().filter(|p| *p > 0);
    let page = page.ok_or_else(|| Error::invalid("\"equal_pages_up_to\" must be positive"))?;
    if !matches!(config.str("paging_spec")?, None | Some("equal_pages_up_to")) {
        return Err(Error::invalid("\"paging_spec\" must be \"equal_pages_up_to\""));
    }
    let data_type = parts(request.data_type)?;
    let settings = ChunkConfig::default()
        .with_compression_level(level)
        .with_mode_spec(mode)
        .with_delta_spec(delta)
        .with_paging_spec(PagingSpec::EqualPagesUpTo(page))
        .with_enable_8_bit(data_type.size() == 1);
    let codec = Pcodec { data_type, settings };
    codec.compress(&[])?;
    Ok(if filter::is_v2(request) { Codec::Bytes(Box::new(codec)) } else { Codec::ToBytes(Box::new(codec)) })
}

/// The type of the numbers that elements are made of.
fn parts(data_type: &DataType) -> Result<DataType> {
    match data_type {
        DataType::Complex(f) => Ok(DataType::Float(*f)),
        other => Ok(number::plain(other)?.into_owned()),
    }
}

#[derive(Debug)]
struct Pcodec {
    data_type: DataType,
    settings: ChunkConfig,
}

/// Calls a function for the Rust type that a data type is.
macro_rules! with_type {
    ($data_type:expr, $f:ident, $($argument:expr),*) => {
        match $data_type {
            DataType::Int(8) => $f::<i8, 1>($($argument),*, i8::from_le_bytes, i8::to_le_bytes),
            DataType::Int(16) => $f::<i16, 2>($($argument),*, i16::from_le_bytes, i16::to_le_bytes),
            DataType::Int(32) => $f::<i32, 4>($($argument),*, i32::from_le_bytes, i32::to_le_bytes),
            DataType::Int(64) => $f::<i64, 8>($($argument),*, i64::from_le_bytes, i64::to_le_bytes),
            DataType::UInt(8) => $f::<u8, 1>($($argument),*, u8::from_le_bytes, u8::to_le_bytes),
            DataType::UInt(16) => $f::<u16, 2>($($argument),*, u16::from_le_bytes, u16::to_le_bytes),
            DataType::UInt(32) => $f::<u32, 4>($($argument),*, u32::from_le_bytes, u32::to_le_bytes),
            DataType::UInt(64) => $f::<u64, 8>($($argument),*, u64::from_le_bytes, u64::to_le_bytes),
            DataType::Float(Float::F16) => $f::<f16, 2>($($argument),*, f16::from_le_bytes, f16::to_le_bytes),
            DataType::Float(Float::F32) => $f::<f32, 4>($($argument),*, f32::from_le_bytes, f32::to_le_bytes),
            DataType::Float(Float::F64) => $f::<f64, 8>($($argument),*, f64::from_le_bytes, f64::to_le_bytes),
            other => Err(unsupported!("{other} elements")),
        }
    };
}

impl Pcodec {
    fn compress(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        with_type!(&self.data_type, compress, bytes, &self.settings)
    }
}

fn decompress_any(bytes: &[u8], size: OutputSize, data_type: &DataType) -> Result<Vec<u8>> {
    // The crate means to report every fault as an error; should it panic on damaged data after all, that is one too.
    let attempt = std::panic::AssertUnwindSafe(|| with_type!(data_type, decompress, bytes, size));
    let out =
        std::panic::catch_unwind(attempt).unwrap_or_else(|_| Err(Error::invalid("the data are damaged")))?;
    size.check(out.len())?;
    Ok(out)
}

/// The type of the numbers in the data; none if there are none.
fn stored_type(bytes: &[u8]) -> Result<Option<DataType>> {
    let (file, src) = FileDecompressor::new(bytes).map_err(fault)?;
    let Some(found) = file.peek_number_type_or_termination(src).map_err(fault)? else { return Ok(None) };
    Ok(Some(match found {
        NumberType::I8 => DataType::Int(8),
        NumberType::I16 => DataType::Int(16),
        NumberType::I32 => DataType::Int(32),
        NumberType::I64 => DataType::Int(64),
        NumberType::U8 => DataType::UInt(8),
        NumberType::U16 => DataType::UInt(16),
        NumberType::U32 => DataType::UInt(32),
        NumberType::U64 => DataType::UInt(64),
        NumberType::F16 => DataType::Float(Float::F16),
        NumberType::F32 => DataType::Float(Float::F32),
        NumberType::F64 => DataType::Float(Float::F64),
        other => return Err(unsupported!("numbers of type {other:?} are not supported")),
    }))
}

fn compress<T: Number, const N: usize>(
    bytes: &[u8],
    settings: &ChunkConfig,
    read: fn([u8; N]) -> T,
    _: fn(T) -> [u8; N],
) -> Result<Vec<u8>> {
    let numbers: Vec<T> = bytes.as_chunks::<N>().0.iter().map(|c| read(*c)).collect();
    pco::standalone::simple_compress(&numbers, settings).map_err(fault)
}

fn decompress<T: Number, const N: usize>(
    bytes: &[u8],
    size: OutputSize,
    _: fn([u8; N]) -> T,
    write: fn(T) -> [u8; N],
) -> Result<Vec<u8>> {
    let (file, mut src) = FileDecompressor::new(bytes).map_err(fault)?;
    let mut out: Vec<u8> = Vec::new();
    while let DecompressorItem::Chunk(mut chunk) = file.chunk_decompressor::<T, _>(src).map_err(fault)? {
        let n = chunk.n();
        // Nothing is set aside for numbers that there is no room for.
        let total = n.saturating_mul(N).saturating_add(out.len());
        if total > size.limit() {
            size.check(total)?;
            return Err(Error::invalid("more numbers than expected"));
        }
        let mut numbers = vec![T::default(); n];
        let progress = chunk.read(&mut numbers).map_err(fault)?;
        if progress.n_processed != n {
            return Err(invalid!("{} numbers where {n} were stated", progress.n_processed));
        }
        out.extend(numbers.into_iter().flat_map(write));
        src = chunk.into_src();
    }
    Ok(out)
}

fn fault(e: pco::errors::PcoError) -> Error {
    Error::invalid("pco failed").with_source(e)
}

impl BytesToBytes for Pcodec {
    fn name(&self) -> &'static str {
        "pcodec"
    }

    fn expansion(&self) -> usize {
        // 2^24 equal numbers of 8 bytes take some thirty bytes.
        1 << 22
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        decompress_any(bytes, size, &stored_type(bytes)?.unwrap_or_else(|| self.data_type.clone()))
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.compress(bytes)
    }
}

impl ArrayToBytes for Pcodec {
    fn name(&self) -> &'static str {
        "pcodec"
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        if parts(&decoded.data_type)? != self.data_type {
            return Err(invalid!("is for {}, not {}", self.data_type, decoded.data_type));
        }
        Ok(OutputSize::Exact(decoded.byte_size()?).compressed())
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        decompress_any(bytes, OutputSize::Exact(decoded.byte_size()?), &self.data_type).map(Buffer::fixed)
    }

    fn encode(&self, chunk: &Buffer, _: &Repr) -> Result<Vec<u8>> {
        self.compress(&chunk.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{NUMBERS, hex, line, to_bytes, typed_bytes};

    #[test]
    fn numcodecs_wrote_this() {
        let encoded = hex("70636f2103008302040103090000001000000000003c0080002101c99062c02800");
        let want: Vec<u8> = (0..10).flat_map(|i: i32| (i * i).to_le_bytes()).collect();
        let c = typed_bytes("v2.pcodec", "{}", &DataType::Int(32));
        assert_eq!(c.decode(&encoded, OutputSize::Exact(40)).unwrap(), want);
        assert!(c.decode(&encoded, OutputSize::Exact(36)).is_err());
        assert!(c.decode(&encoded, OutputSize::Exact(44)).is_err());
        // V2 takes the type that is there, V3 the array's only.
        assert_eq!(
            typed_bytes("v2.pcodec", "{}", &DataType::FLOAT64)
                .decode(&encoded, OutputSize::Exact(40))
                .unwrap(),
            want
        );
        let c = to_bytes("numcodecs.pcodec", "{}", &DataType::UInt(32));
        let r = line(DataType::UInt(32), 10);
        assert!(c.decode(&encoded, &r).is_err());
    }

    #[test]
    fn every_type_survives() {
        let raw: Vec<u8> = (0..4000u32).flat_map(|i| (i.wrapping_mul(i) >> 3).to_le_bytes()).collect();
        for t in &NUMBERS[1..] {
            for config in [
                "{}",
                r#"{"equal_pages_up_to":100,"level":3}"#,
                r#"{"delta_encoding_order":2,"mode_spec":"classic"}"#,
            ] {
                let c = typed_bytes("v2.pcodec", config, t);
                let encoded = c.encode(&raw).unwrap();
                assert_eq!(c.decode(&encoded, OutputSize::Exact(raw.len())).unwrap(), raw, "{t} {config}");
                assert_eq!(c.decode(&encoded, OutputSize::AtMost(raw.len())).unwrap(), raw, "{t} {config}");
            }
        }
        let c = to_bytes("numcodecs.pcodec", "{}", &DataType::FLOAT32);
        let r = line(DataType::FLOAT32, 4000);
        let encoded = c.encode(&Buffer::fixed(raw.clone()), &r).unwrap();
        assert_eq!(c.decode(&encoded, &r).unwrap().bytes, raw);
        // A complex number is its two parts, one after the other.
        let complex = DataType::Complex(Float::F32);
        let c = to_bytes("numcodecs.pcodec", "{}", &complex);
        let r = line(complex, 2000);
        assert_eq!(c.encode(&Buffer::fixed(raw.clone()), &r).unwrap(), encoded);
        assert_eq!(c.decode(&encoded, &r).unwrap().bytes, raw);
    }

    #[test]
    fn damage_is_an_error() {
        let raw: Vec<u8> = (0..300u32).flat_map(|i| (i * 7).to_le_bytes()).collect();
        let c = typed_bytes("v2.pcodec", "{}", &DataType::UInt(32));
        let encoded = c.encode(&raw).unwrap();
        for end in 0..encoded.len() {
            assert!(c.decode(&encoded[..end], OutputSize::Exact(raw.len())).is_err(), "{end}");
        }
        for i in 0..encoded.len() {
            for bit in 0..8 {
                let mut bad = encoded.clone();
                bad[i] ^= 1 << bit;
                if let Ok(out) = c.decode(&bad, OutputSize::Exact(raw.len())) {
                    assert_eq!(out.len(), raw.len());
                }
            }
        }
    }
}
