//! `bytes`: values as in memory, in a given byte order.
//!
//! V3: `{"name": "bytes", "configuration": {"endian": "little"}}`. The order may be left out for types that have
//! none. V2 has no such codec; `meta` makes this one from the byte order of its `dtype`. A V2 struct may mix byte
//! orders: then `order` is a list, one entry for each number in an element.

use super::config::Config;
use super::{ArrayToBytes, Buffer, OutputSize, Repr};
use crate::error::{Result, invalid};
use crate::meta::dtype::DataType;
pub(super) use crate::meta::dtype::Endian;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes {
    /// The order of all numbers, if one was given.
    pub endian: Option<Endian>,
    /// V2 structs of mixed order: for each unit of [`DataType::each_unit`], whether it is big-endian.
    pub mixed: Vec<bool>,
}

impl Bytes {
    pub fn from_config(config: &Config<'_>) -> Result<Self> {
        let endian = match config.str("endian")? {
            None => None,
            Some("little") => Some(Endian::Little),
            Some("big") => Some(Endian::Big),
            Some(other) => {
                return Err(invalid!("\"endian\" must be \"little\" or \"big\", not {other:?}"));
            }
        };
        let mixed = match config.get("mixed").and_then(|m| m.items()) {
            Some(items) => items.iter().map(|i| i.as_bool().unwrap_or(false)).collect(),
            None => Vec::new(),
        };
        Ok(Self { endian, mixed })
    }

    /// Whether encoded bytes are the bytes in memory, so that nothing need be done.
    pub fn is_identity(&self, data_type: &DataType) -> bool {
        narrow(data_type).is_none() && self.stores_as_is(data_type)
    }

    /// Whether memory bytes can be stored as they are.
    pub fn stores_as_is(&self, data_type: &DataType) -> bool {
        !data_type.is_variable()
            && self.mixed.iter().all(|big| !big)
            && (self.endian != Some(Endian::Big) || !data_type.has_byte_order())
    }

    /// Turns encoded bytes into memory bytes, or the other way, in place.
    pub fn swap(&self, bytes: &mut [u8], data_type: &DataType) {
        let size = data_type.size();
        if self.mixed.iter().any(|big| *big) && size > 0 {
            let mut units = Vec::new();
            data_type.each_unit(0, &mut |at, width, count| units.push((at, width, count)));
            for element in bytes.chunks_exact_mut(size) {
                for ((at, width, count), _) in units.iter().zip(&self.mixed).filter(|(_, big)| **big) {
                    if let Some(run) = element.get_mut(*at..at + width * count) {
                        swap_uniform(run, *width);
                    }
                }
            }
        } else if self.endian == Some(Endian::Big) {
            match data_type.uniform_unit() {
                Some(width) => swap_uniform(bytes, width),
                None if size > 0 => {
                    let mut units = Vec::new();
                    data_type.each_unit(0, &mut |at, width, count| units.push((at, width, count)));
                    for element in bytes.chunks_exact_mut(size) {
                        for (at, width, count) in &units {
                            if let Some(run) = element.get_mut(*at..at + width * count) {
                                swap_uniform(run, *width);
                            }
                        }
                    }
                }
                None => {}
            }
        }
    }
}

/// How a byte is read that holds fewer bits than it has.
fn narrow(data_type: &DataType) -> Option<fn(u8) -> u8> {
    Some(match data_type {
        DataType::Bool => |b| u8::from(b != 0),
        // Two's complement: flip the sign bit, then take it off again, and the upper bits follow the sign.
        DataType::Int(2) => |b| ((b & 3) ^ 2).wrapping_sub(2),
        DataType::Int(4) => |b| ((b & 15) ^ 8).wrapping_sub(8),
        DataType::UInt(2) => |b| b & 3,
        DataType::UInt(4) => |b| b & 15,
        DataType::Float(f) | DataType::Complex(f) => match f.bits() {
            4 => |b| b & 15,
            6 => |b| b & 63,
            _ => return None,
        },
        _ => return None,
    })
}

/// Reverses each group of `width` bytes.
fn swap_uniform(bytes: &mut [u8], width: usize) {
    match width {
        0 | 1 => {}
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|c| c.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|c| c.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|c| c.reverse()),
        w => bytes.chunks_exact_mut(w).for_each(<[u8]>::reverse),
    }
}

impl ArrayToBytes for Bytes {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        if decoded.data_type.is_variable() {
            return Err(invalid!("cannot hold {} elements", decoded.data_type));
        }
        if self.endian.is_none() && self.mixed.is_empty() && decoded.data_type.has_byte_order() {
            return Err(invalid!("\"endian\" is missing, and {} needs it", decoded.data_type));
        }
        Ok(OutputSize::Exact(decoded.byte_size()?))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        OutputSize::Exact(decoded.byte_size()?).check(bytes.len())?;
        let mut out = bytes.to_vec();
        self.decode_in_place(&mut out, &decoded.data_type);
        Ok(Buffer::fixed(out))
    }

    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>> {
        let mut out = chunk.bytes.clone();
        self.swap(&mut out, &decoded.data_type);
        Ok(out)
    }
}

impl Bytes {
    /// Turns encoded bytes into memory bytes. A bool that is neither 0 nor 1 is read as true; of numbers narrower
    /// than a byte the upper bits are ignored.
    pub fn decode_in_place(&self, bytes: &mut [u8], data_type: &DataType) {
        match narrow(data_type) {
            Some(read) => bytes.iter_mut().for_each(|b| *b = read(*b)),
            None => self.swap(bytes, data_type),
        }
    }
}
