//! `n5_default`: a block of N5, with its shape in a header.
//!
//! V3: `{"name": "n5_default", "configuration": {"codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}},
//! {"name": "bytes", "configuration": {"endian": "big"}}, {"name": "zstd", …}]}}`. A big-endian header of mode (`u16`,
//! 0), rank (`u16`) and extents (`u32` each, in the order of the array's) stands before what the inner codecs make: the
//! full transpose (N5 counts the first dimension fastest), big-endian bytes, and one compressor at most. Blocks at the
//! border may be cut; what they lack is filled, what they have too much is dropped.

use super::bytes::{Bytes, Endian};
use super::config::Config;
use super::registry::{self, CodecRequest};
use super::transpose::Transpose;
use super::{ArrayToBytes, Buffer, BytesToBytes, Codec, OutputSize, Repr, output};
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::dtype::DataType;
use crate::meta::json::Json;
use crate::num;

#[derive(Debug)]
pub(super) struct N5Default {
    transpose: Transpose,
    bytes: Bytes,
    compressor: Option<Box<dyn BytesToBytes>>,
}

impl N5Default {
    pub(super) fn from_config(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Self> {
        let bad = || {
            Error::invalid("\"codecs\" must be a transpose, bytes, and at most one compressor")
                .with_field("codecs")
        };
        let items = config.need("codecs")?.items().ok_or_else(bad)?;
        let (transpose, bytes, compressor) = match items {
            [t, b] => (t, b, None),
            [t, b, c] => (t, b, Some(c)),
            _ => return Err(bad()),
        };
        let (name, members) = named(transpose).ok_or_else(bad)?;
        if name != "transpose" {
            return Err(bad());
        }
        let transpose = Transpose::from_config(&Config::new(members), request.strict)?;
        let (name, members) = named(bytes).ok_or_else(bad)?;
        if name != "bytes" {
            return Err(bad());
        }
        let bytes = Bytes::from_config(&Config::new(members))?;
        let compressor = match compressor {
            None => None,
            Some(json) => {
                let (name, config) = named(json).ok_or_else(bad)?;
                match registry::build(&CodecRequest { name, config, ..request.clone() })? {
                    Codec::Bytes(c) => Some(c),
                    _ => return Err(bad()),
                }
            }
        };
        Ok(Self { transpose, bytes, compressor })
    }

    fn check(&self, decoded: &Repr) -> Result<()> {
        match decoded.data_type {
            DataType::Int(8 | 16 | 32 | 64) | DataType::UInt(8 | 16 | 32 | 64) => {}
            DataType::Float(f) if f.bits() >= 32 => {}
            ref other => return Err(invalid!("N5 has no data type for {other}")),
        }
        let rank = decoded.shape.len();
        if !self.transpose.dimensions(rank)?.into_iter().eq((0..rank).rev()) {
            return Err(Error::invalid("the transpose inside must reverse all dimensions"));
        }
        match self.bytes.endian {
            Some(Endian::Big) => Ok(()),
            None if !decoded.data_type.has_byte_order() || decoded.data_type.size() == 1 => Ok(()),
            _ => Err(Error::invalid("the bytes inside must be big-endian")),
        }
    }
}

/// The name and configuration of a codec in metadata.
fn named(json: &Json) -> Option<(&str, &[(String, Json)])> {
    if let Some(name) = json.as_str() {
        return Some((name, &[]));
    }
    let config = json.get("configuration").map_or(Some(&[][..]), Json::members)?;
    Some((json.get("name")?.as_str()?, config))
}

/// Splits a block into its shape and its data.
fn split(bytes: &[u8], rank: usize) -> Result<(Vec<u64>, &[u8])> {
    let short = || Error::invalid("the block ends within its header");
    let (mode, rest) = bytes.split_first_chunk::<2>().ok_or_else(short)?;
    let (dims, mut rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    if u16::from_be_bytes(*mode) != 0 {
        return Err(unsupported!("a block of mode {} is not supported", u16::from_be_bytes(*mode)));
    }
    if usize::from(u16::from_be_bytes(*dims)) != rank {
        return Err(invalid!("a block of {} dimensions in an array of {rank}", u16::from_be_bytes(*dims)));
    }
    let mut shape = Vec::with_capacity(rank);
    for _ in 0..rank {
        let (extent, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        shape.push(u64::from(u32::from_be_bytes(*extent)));
        rest = after;
    }
    Ok((shape, rest))
}

impl ArrayToBytes for N5Default {
    fn name(&self) -> &'static str {
        "n5_default"
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        self.check(decoded)?;
        let inner = OutputSize::Exact(decoded.byte_size()?);
        let inner = self.compressor.as_ref().map_or(Ok(inner), |c| c.encoded_size(inner))?;
        // A block may be cut, or larger than the chunk, so its size is not fixed.
        Ok(OutputSize::AtMost(inner.limit().saturating_mul(2).saturating_add(4 + 4 * decoded.shape.len())))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        use super::ArrayToArray;
        self.check(decoded)?;
        let (shape, data) = split(bytes, decoded.shape.len())?;
        let block = Repr { shape, ..decoded.clone() };
        let size = block.byte_size()?;
        // No writer makes blocks much larger than chunks; a header alone must not claim memory.
        if size > decoded.byte_size()?.saturating_mul(2).saturating_add(1 << 16) {
            return Err(invalid!("a block of shape {:?} for chunk {:?}", block.shape, decoded.shape));
        }
        let turned = self.transpose.encoded(&block)?;
        let plain = match &self.compressor {
            Some(c) => self.bytes.decode(&c.decode(data, OutputSize::Exact(size))?, &turned)?,
            None => self.bytes.decode(data, &turned)?,
        };
        let values = self.transpose.decode(plain, &block, &turned)?;
        if block.shape == decoded.shape {
            Ok(values)
        } else {
            fitted(&values.bytes, &block, decoded, bytes.len())
        }
    }

    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>> {
        use super::ArrayToArray;
        self.check(decoded)?;
        let rank =
            u16::try_from(decoded.shape.len()).map_err(|_| Error::invalid("too many dimensions for N5"))?;
        let mut out = vec![0, 0];
        out.extend_from_slice(&rank.to_be_bytes());
        for extent in &decoded.shape {
            let extent =
                u32::try_from(*extent).map_err(|_| Error::invalid("the chunk is too large for N5"))?;
            out.extend_from_slice(&extent.to_be_bytes());
        }
        let turned = self.transpose.encoded(decoded)?;
        let values = self.transpose.encode(chunk.clone(), decoded, &turned)?;
        let plain = self.bytes.encode(&values, &turned)?;
        match &self.compressor {
            Some(c) => out.extend_from_slice(&c.encode(&plain)?),
            None => out.extend_from_slice(&plain),
        }
        Ok(out)
    }
}

/// A block as a chunk: rows copied as far as both reach, the rest the fill value.
fn fitted(values: &[u8], block: &Repr, decoded: &Repr, input: usize) -> Result<Buffer> {
    let size = decoded.data_type.size();
    let mut out = output::filled(&decoded.fill.0, decoded.count()?, input)?;
    let extents = |shape: &[u64]| shape.iter().map(|n| num::usize_of(*n)).collect::<Result<Vec<_>>>();
    let (from, to) = (extents(&block.shape)?, extents(&decoded.shape)?);
    let common: Vec<usize> = from.iter().zip(&to).map(|(a, b)| *a.min(b)).collect();
    let Some((row, outer)) = common.split_last() else { return Ok(Buffer::fixed(values.to_vec())) };
    let rows: usize = outer.iter().product();
    let offset = |index: &[usize], shape: &[usize]| {
        index.iter().chain([&0]).zip(shape).fold(0usize, |at, (i, n)| at * n + i) * size
    };
    let mut index = vec![0; outer.len()];
    for _ in 0..rows {
        let (source, target) = (offset(&index, &from), offset(&index, &to));
        let length = row * size;
        if let (Some(s), Some(t)) =
            (values.get(source..source + length), out.get_mut(target..target + length))
        {
            t.copy_from_slice(s);
        }
        for (i, n) in index.iter_mut().zip(outer).rev() {
            *i += 1;
            if *i < *n {
                break;
            }
            *i = 0;
        }
    }
    Ok(Buffer::fixed(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{hex, to_bytes};
    use crate::meta::fill::Fill;

    const CONFIG: &str = r#"{"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},
        {"name":"bytes","configuration":{"endian":"big"}}]}"#;

    fn repr(shape: &[u64]) -> Repr {
        Repr { shape: shape.to_vec(), data_type: DataType::UInt(16), fill: Fill(vec![9, 0].into()) }
    }

    fn values(b: &Buffer) -> Vec<u16> {
        b.bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c)).collect()
    }

    #[test]
    fn blocks_say_their_shape() {
        let c = to_bytes("n5_default", CONFIG, &DataType::UInt(16));
        let block = hex("000000020000000200000003000100040002000500030006");
        let got = c.decode(&block, &repr(&[2, 3])).unwrap();
        assert_eq!(values(&got), [1, 2, 3, 4, 5, 6]);
        assert_eq!(c.encode(&got, &repr(&[2, 3])).unwrap(), block);
        assert_eq!(values(&c.decode(&block, &repr(&[3, 4])).unwrap()), [1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9, 9]);
        assert_eq!(values(&c.decode(&block, &repr(&[1, 2])).unwrap()), [1, 2]);
        for end in 0..block.len() {
            assert!(c.decode(&block[..end], &repr(&[2, 3])).is_err(), "{end}");
        }
        assert!(c.decode(&hex("00000002ffffffffffffffff"), &repr(&[2, 3])).is_err());
        assert!(c.decode(&hex("000100020000000200000003"), &repr(&[2, 3])).is_err());
        assert!(c.decode(&block, &repr(&[6])).is_err());
        // A small block of an absurd chunk, and a block of nothing.
        assert!(c.decode(&block, &repr(&[1 << 21, 1 << 21])).is_err());
        let nothing = hex("0000000200000000ffffffff");
        assert_eq!(values(&c.decode(&nothing, &repr(&[1, 2])).unwrap()), [9, 9]);
    }

    #[test]
    fn the_inner_codecs_are_prescribed() {
        for bad in [CONFIG.replace("[1,0]", "[0,1]"), CONFIG.replace("big", "little")] {
            assert!(
                to_bytes("n5_default", &bad, &DataType::UInt(16)).encoded_size(&repr(&[2, 3])).is_err(),
                "{bad}"
            );
        }
        let text = Repr { data_type: DataType::Bool, fill: Fill(vec![0].into()), ..repr(&[2, 3]) };
        assert!(to_bytes("n5_default", CONFIG, &DataType::UInt(16)).encoded_size(&text).is_err());
    }
}
