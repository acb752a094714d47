//! Numbers on the wire: little-endian, of the types that graphics cards take, with a header that tells how to read them.

use zaro::internal::text::number;
use zaro::meta::{ArrayMeta, DataType, Float};

use super::made::Made;
use super::planes::{Planes, decode, width_of};
use super::stack::no_picture;
use crate::answer::Fault;

/// Planes as they are sent.
#[derive(Debug, PartialEq)]
pub(crate) struct Wire {
    /// Such as `u2`.
    pub(crate) data_type: &'static str,
    pub(crate) channels: usize,
    pub(crate) bytes: Vec<u8>,
    /// Whether every value is the stored one.
    pub(crate) is_exact: bool,
}

impl Wire {
    /// The planes in the nearest type that can be sent.
    pub(crate) fn of(planes: Planes) -> Result<Self, Fault> {
        let channels = planes.channels;
        let as_is = |data_type, bytes| Self { data_type, channels, bytes, is_exact: true };
        Ok(match planes.data_type {
            DataType::Bool | DataType::UInt(2 | 4 | 8) => as_is("u1", planes.bytes),
            DataType::Int(2 | 4 | 8) => as_is("i1", planes.bytes),
            DataType::UInt(16) => as_is("u2", planes.bytes),
            DataType::Int(16) => as_is("i2", planes.bytes),
            DataType::UInt(32) => as_is("u4", planes.bytes),
            DataType::Int(32) => as_is("i4", planes.bytes),
            DataType::Float(Float::F32) => as_is("f4", planes.bytes),
            DataType::Complex(part) => return complex(&planes, part),
            DataType::UInt(64) => {
                narrowed(planes, "u4", |b| u32::try_from(u64::from_le_bytes(b)).ok().map(u32::to_le_bytes))
            }
            DataType::Int(64) | DataType::DateTime(..) | DataType::TimeDelta(..) => {
                narrowed(planes, "i4", |b| i32::try_from(i64::from_le_bytes(b)).ok().map(i32::to_le_bytes))
            }
            DataType::Float(_) => floats(&planes),
            other => return Err(no_picture(format!("elements of type {other} are not numbers"))),
        })
    }
}

/// 64-bit integers in 32 bits if all of them fit, else as floats.
fn narrowed(planes: Planes, data_type: &'static str, fit: impl Fn([u8; 8]) -> Option<[u8; 4]>) -> Wire {
    let fitted: Option<Vec<[u8; 4]>> = planes.bytes.as_chunks::<8>().0.iter().map(|b| fit(*b)).collect();
    match fitted {
        Some(items) => Wire { data_type, channels: planes.channels, bytes: items.concat(), is_exact: true },
        None => Wire { is_exact: false, ..floats(&planes) },
    }
}

fn floats(planes: &Planes) -> Wire {
    let mut numbers = Vec::new();
    decode(&planes.data_type, &planes.bytes, &mut numbers);
    let mut is_exact = true;
    let mut bytes = Vec::with_capacity(numbers.len().saturating_mul(4));
    for x in numbers {
        let narrow = single(x);
        is_exact &= f64::from(narrow) == x || x.is_nan();
        bytes.extend(narrow.to_le_bytes());
    }
    Wire { data_type: "f4", channels: planes.channels, bytes, is_exact }
}

/// Complex numbers as two planes each: real parts, then imaginary ones.
fn complex(planes: &Planes, part: Float) -> Result<Wire, Fault> {
    let of_part = DataType::Float(part);
    let Some(size) = width_of(&of_part) else {
        return Err(no_picture(format!("elements of type {} are not numbers", planes.data_type)));
    };
    let plane = planes.height.saturating_mul(planes.width).saturating_mul(size.saturating_mul(2));
    let mut parts = Vec::with_capacity(planes.bytes.len());
    for channel in planes.bytes.chunks_exact(plane.max(1)) {
        for skip in [0, 1] {
            let items = channel.chunks_exact(size).skip(skip).step_by(2);
            items.for_each(|item| parts.extend_from_slice(item));
        }
    }
    let both = Planes {
        data_type: of_part,
        channels: planes.channels.saturating_mul(2),
        bytes: parts,
        ..planes.clone()
    };
    Ok(floats(&both))
}

#[allow(clippy::as_conversions, reason = "rounds to the nearest, which is meant and told")]
fn single(x: f64) -> f32 {
    x as f32
}

/// What a client has to know besides the bytes.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    /// The level, as it was asked for.
    pub(crate) level: String,
    /// The value of elements that were never written, or are missing.
    pub(crate) fill: f64,
    pub(crate) scale: f64,
    pub(crate) offset: f64,
}

impl Note {
    /// For elements of this array, as stored or decoded.
    pub(crate) fn of(meta: &ArrayMeta, level: String, decoded: bool) -> Self {
        let attribute = |name: &str| meta.attributes.get(name).and_then(|value| value.as_f64());
        let own = number(&meta.data_type, &meta.fill.0).unwrap_or(f64::NAN);
        if decoded {
            return Self { level, fill: f64::NAN, scale: 1.0, offset: 0.0 };
        }
        Self {
            level,
            fill: attribute("_FillValue").or_else(|| attribute("missing_value")).unwrap_or(own),
            scale: attribute("scale_factor").unwrap_or(1.0),
            offset: attribute("add_offset").unwrap_or(0.0),
        }
    }

    /// For one member of structs.
    pub(crate) fn of_member(meta: &ArrayMeta, level: String, at: usize, own: &DataType) -> Self {
        let fill = meta.fill.0.get(at..at.saturating_add(own.size()));
        let fill = fill.and_then(|bytes| number(own, bytes)).unwrap_or(f64::NAN);
        Self { level, fill, scale: 1.0, offset: 0.0 }
    }
}

/// A typed tile.
pub(crate) fn made(planes: Planes, note: &Note) -> Result<Made, Fault> {
    let (height, width, resampled) = (planes.height, planes.width, planes.resampled);
    let wire = Wire::of(planes)?;
    let header = format!(
        "dtype={};shape={},{height},{width};level={};fill={};scale={};offset={};exact={};resample={resampled}",
        wire.data_type, wire.channels, note.level, note.fill, note.scale, note.offset, wire.is_exact
    );
    Ok(Made::plain("application/octet-stream", wire.bytes).with("x-zaro-tile", header))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(data_type: DataType, bytes: Vec<u8>) -> Wire {
        let width = bytes.len() / data_type.size();
        Wire::of(Planes { data_type, channels: 1, height: 1, width, bytes, resampled: "none" }).unwrap()
    }

    #[test]
    fn every_type_is_sent_in_one_that_graphics_cards_take() {
        assert_eq!(wire(DataType::UInt(16), vec![1, 2]).data_type, "u2");
        let small = wire(DataType::UInt(64), [7u64, 8].iter().flat_map(|n| n.to_le_bytes()).collect());
        assert_eq!((small.data_type, small.is_exact, small.bytes.len()), ("u4", true, 8));
        let large = wire(DataType::Int(64), (1i64 << 40 | 1).to_le_bytes().to_vec());
        assert_eq!((large.data_type, large.is_exact), ("f4", false));
        let tenth = wire(DataType::FLOAT64, 0.1f64.to_le_bytes().to_vec());
        assert_eq!((tenth.data_type, tenth.is_exact), ("f4", false));
        let half = wire(DataType::FLOAT64, 0.5f64.to_le_bytes().to_vec());
        assert!(half.is_exact && half.bytes == 0.5f32.to_le_bytes());
        let pairs = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let both = wire(DataType::Complex(Float::F32), pairs);
        let wanted: Vec<u8> = [1f32, 3.0, 2.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!((both.channels, both.bytes), (2, wanted));
        let f16 = wire(DataType::Float(Float::F16), half::f16::from_f32(1.5).to_le_bytes().to_vec());
        assert_eq!(f16.bytes, 1.5f32.to_le_bytes());
    }
}
