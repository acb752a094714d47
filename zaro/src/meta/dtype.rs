//! Data types: one enum for V2 and V3, core and extension.
//!
//! In memory an element is always little-endian and has a fixed size. Types of variable length (strings, bytes,
//! JSON objects, lists) are held as 16-byte *views* into a heap that travels with them; see
//! [`Buffer`](crate::codec::Buffer).

use std::fmt;
use std::sync::Arc;

/// The size in memory of one element of a variable-length type: a view into the heap.
pub(crate) const VIEW_SIZE: usize = 16;

/// Maximum bytes of one element of a fixed-size type.
///
/// numpy allows 2 GiB, but a fill value of that size in a hundred bytes of metadata is an attack, not an array.
pub(crate) const MAX_ELEMENT: usize = 1 << 26;

/// Byte order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    /// Least significant first.
    Little,
    /// Most significant first.
    Big,
}

/// The floating-point formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Float {
    /// `float4_e2m1fn`
    F4E2M1FN,
    /// `float6_e2m3fn`
    F6E2M3FN,
    /// `float6_e3m2fn`
    F6E3M2FN,
    /// `float8_e3m4`
    F8E3M4,
    /// `float8_e4m3`
    F8E4M3,
    /// `float8_e4m3b11fnuz`
    F8E4M3B11FNUZ,
    /// `float8_e4m3fnuz`
    F8E4M3FNUZ,
    /// `float8_e5m2`
    F8E5M2,
    /// `float8_e5m2fnuz`
    F8E5M2FNUZ,
    /// `float8_e8m0fnu`
    F8E8M0FNU,
    /// `float8_e4m3fn`
    F8E4M3FN,
    /// `bfloat16`
    BF16,
    /// `float16`
    F16,
    /// `float32`
    F32,
    /// `float64`
    F64,
}

impl Float {
    /// All formats, with their V3 names.
    pub const ALL: [(Self, &'static str); 15] = [
        (Self::F4E2M1FN, "float4_e2m1fn"),
        (Self::F6E2M3FN, "float6_e2m3fn"),
        (Self::F6E3M2FN, "float6_e3m2fn"),
        (Self::F8E3M4, "float8_e3m4"),
        (Self::F8E4M3, "float8_e4m3"),
        (Self::F8E4M3FN, "float8_e4m3fn"),
        (Self::F8E4M3B11FNUZ, "float8_e4m3b11fnuz"),
        (Self::F8E4M3FNUZ, "float8_e4m3fnuz"),
        (Self::F8E5M2, "float8_e5m2"),
        (Self::F8E5M2FNUZ, "float8_e5m2fnuz"),
        (Self::F8E8M0FNU, "float8_e8m0fnu"),
        (Self::BF16, "bfloat16"),
        (Self::F16, "float16"),
        (Self::F32, "float32"),
        (Self::F64, "float64"),
    ];

    /// The format of this V3 name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(f, _)| *f)
    }

    /// Bytes of one element in memory.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::BF16 | Self::F16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
            _ => 1,
        }
    }

    /// Bits that carry information.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Self::F4E2M1FN => 4,
            Self::F6E2M3FN | Self::F6E3M2FN => 6,
            Self::BF16 | Self::F16 => 16,
            Self::F32 => 32,
            Self::F64 => 64,
            _ => 8,
        }
    }

    /// The V3 name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(f, _)| *f == self).map_or("float64", |(_, n)| n)
    }
}

/// The unit of a numpy datetime64 or timedelta64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TimeUnit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Picosecond,
    Femtosecond,
    Attosecond,
    Generic,
}

impl TimeUnit {
    const NAMES: [(Self, &'static str); 14] = [
        (Self::Year, "Y"),
        (Self::Month, "M"),
        (Self::Week, "W"),
        (Self::Day, "D"),
        (Self::Hour, "h"),
        (Self::Minute, "m"),
        (Self::Second, "s"),
        (Self::Millisecond, "ms"),
        (Self::Microsecond, "us"),
        (Self::Nanosecond, "ns"),
        (Self::Picosecond, "ps"),
        (Self::Femtosecond, "fs"),
        (Self::Attosecond, "as"),
        (Self::Generic, "generic"),
    ];

    /// The unit called `name`; `us` may be written with a Greek or micro letter.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = if name == "\u{3bc}s" || name == "\u{b5}s" { "us" } else { name };
        Self::NAMES.iter().find(|(_, n)| *n == name).map(|(u, _)| *u)
    }

    /// Its short name, as numpy writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(u, _)| *u == self).map_or("generic", |(_, n)| n)
    }
}

/// One member of a [`DataType::Struct`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StructField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// Its first byte within the element; fields are packed.
    pub offset: usize,
}

/// The type of an array's elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// One byte, 0 or 1.
    Bool,
    /// Signed integer of 2, 4, 8, 16, 32 or 64 bits; the 2- and 4-bit ones take a byte in memory, sign-extended.
    Int(u8),
    /// Unsigned integer of 2, 4, 8, 16, 32 or 64 bits; the 2- and 4-bit ones take a byte in memory.
    UInt(u8),
    /// A floating-point number.
    Float(Float),
    /// Two floating-point numbers: real, imaginary.
    Complex(Float),
    /// Uninterpreted bytes: V3 `r<N>` and `raw_bytes`, V2 `|V`.
    Raw(usize),
    /// Null-padded bytes: V2 `|S`, V3 `null_terminated_bytes`.
    FixedBytes(usize),
    /// UTF-32 text of that many code points, zero padded: V2 `U`, V3 `fixed_length_utf32`.
    FixedUtf32(usize),
    /// numpy datetime64: a signed 64-bit count of `scale` units since 1970.
    DateTime(TimeUnit, u32),
    /// numpy timedelta64.
    TimeDelta(TimeUnit, u32),
    /// Named fields, packed.
    Struct(Arc<[StructField]>),
    /// A small array as an element; occurs inside V2 structs.
    SubArray(Arc<DataType>, Arc<[usize]>),
    /// UTF-8 text of variable length.
    String,
    /// Bytes of variable length.
    Bytes,
    /// Any JSON value, held as its text: V2 objects of `json2` and `msgpack2`.
    Json,
    /// A list of elements of a fixed-size type: V2 `vlen-array`.
    List(Arc<DataType>),
}

impl DataType {
    /// `int8`
    pub const INT8: Self = Self::Int(8);
    /// `uint8`
    pub const UINT8: Self = Self::UInt(8);
    /// `uint64`
    pub const UINT64: Self = Self::UInt(64);
    /// `float32`
    pub const FLOAT32: Self = Self::Float(Float::F32);
    /// `float64`
    pub const FLOAT64: Self = Self::Float(Float::F64);

    /// Bytes of one element in memory; 16 for variable-length types.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Bool => 1,
            Self::Int(bits) | Self::UInt(bits) => usize::from(bits.div_ceil(8)),
            Self::Float(f) => f.size(),
            Self::Complex(f) => 2 * f.size(),
            Self::Raw(n) | Self::FixedBytes(n) => *n,
            Self::FixedUtf32(n) => n.saturating_mul(4),
            Self::DateTime(..) | Self::TimeDelta(..) => 8,
            Self::Struct(fields) => fields.last().map_or(0, |f| f.offset + f.data_type.size()),
            Self::SubArray(t, shape) => shape.iter().fold(t.size(), |a, n| a.saturating_mul(*n)),
            Self::String | Self::Bytes | Self::Json | Self::List(_) => VIEW_SIZE,
        }
    }

    /// Whether elements have no fixed size of their own.
    #[must_use]
    pub fn is_variable(&self) -> bool {
        matches!(self, Self::String | Self::Bytes | Self::Json | Self::List(_))
    }

    /// A struct of these fields, packed in this order.
    #[must_use]
    pub fn structure(fields: impl IntoIterator<Item = (String, DataType)>) -> Self {
        let mut offset = 0usize;
        Self::Struct(
            fields
                .into_iter()
                .map(|(name, data_type)| {
                    let field = StructField { name, data_type, offset };
                    offset = offset.saturating_add(field.data_type.size());
                    field
                })
                .collect(),
        )
    }

    /// The minimum and maximum integer of the type; times are integers, too.
    pub(crate) fn range(&self) -> Option<(i128, i128)> {
        match self {
            Self::Bool => Some((0, 1)),
            Self::Int(bits) => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            Self::UInt(bits) => Some((0, (1 << bits) - 1)),
            Self::DateTime(..) | Self::TimeDelta(..) => Some((i64::MIN.into(), i64::MAX.into())),
            _ => None,
        }
    }

    /// Appends the integer `n` as an element, if the type has it.
    pub(crate) fn put_integer(&self, n: i128, out: &mut Vec<u8>) -> Option<()> {
        let (least, greatest) = self.range()?;
        (least..=greatest).contains(&n).then(|| out.extend(n.to_le_bytes().iter().take(self.size())))
    }

    /// Whether byte order matters: some part of an element is a number (or UTF-32 text) wider than a byte.
    #[must_use]
    pub fn has_byte_order(&self) -> bool {
        let mut any = false;
        self.each_unit(0, &mut |_, width, _| any |= width > 1);
        any
    }

    /// Calls `f(offset, width, count)` for each run of `count` numbers of `width` bytes in an element that begins
    /// `at` bytes into something larger. Parts without byte order are left out.
    pub fn each_unit(&self, at: usize, f: &mut dyn FnMut(usize, usize, usize)) {
        match self {
            Self::Bool | Self::Raw(_) | Self::FixedBytes(_) => {}
            Self::Int(_) | Self::UInt(_) | Self::Float(_) | Self::DateTime(..) | Self::TimeDelta(..) => {
                f(at, self.size(), 1);
            }
            Self::Complex(t) => f(at, t.size(), 2),
            Self::FixedUtf32(n) => f(at, 4, *n),
            Self::Struct(fields) => {
                for field in fields.iter() {
                    field.data_type.each_unit(at + field.offset, f);
                }
            }
            Self::SubArray(t, shape) => {
                // A large block of plain bytes has nothing to visit.
                let mut any = false;
                t.each_unit(0, &mut |_, _, _| any = true);
                let count = if any { shape.iter().product() } else { 0usize };
                for i in 0..count {
                    t.each_unit(at + i * t.size(), f);
                }
            }
            Self::String | Self::Bytes | Self::Json | Self::List(_) => {}
        }
    }

    /// The width of the numbers an element consists of, if it is nothing but numbers of one width.
    #[must_use]
    pub fn uniform_unit(&self) -> Option<usize> {
        match self {
            Self::Bool => Some(1),
            Self::Int(_) | Self::UInt(_) | Self::Float(_) | Self::DateTime(..) | Self::TimeDelta(..) => {
                Some(self.size())
            }
            Self::Complex(t) => Some(t.size()),
            Self::FixedUtf32(_) => Some(4),
            Self::Raw(_) | Self::FixedBytes(_) => Some(1),
            Self::SubArray(t, _) => t.uniform_unit(),
            _ => None,
        }
    }
}

/// The V3 name, or a description in its style.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int(b) => write!(f, "int{b}"),
            Self::UInt(b) => write!(f, "uint{b}"),
            Self::Float(t) => f.write_str(t.name()),
            Self::Complex(Float::F32) => f.write_str("complex64"),
            Self::Complex(Float::F64) => f.write_str("complex128"),
            Self::Complex(t) => write!(f, "complex_{}", t.name()),
            Self::Raw(n) => write!(f, "r{}", n.saturating_mul(8)),
            Self::FixedBytes(n) => write!(f, "null_terminated_bytes({n})"),
            Self::FixedUtf32(n) => write!(f, "fixed_length_utf32({})", n.saturating_mul(4)),
            Self::DateTime(u, s) => write!(f, "numpy.datetime64({}{})", ScaleFactor(*s), u.name()),
            Self::TimeDelta(u, s) => write!(f, "numpy.timedelta64({}{})", ScaleFactor(*s), u.name()),
            Self::Struct(fields) => {
                f.write_str("struct(")?;
                for (i, field) in fields.iter().enumerate() {
                    write!(f, "{}{}: {}", if i > 0 { ", " } else { "" }, field.name, field.data_type)?;
                }
                f.write_str(")")
            }
            Self::SubArray(t, shape) => write!(f, "{t}{shape:?}"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Json => f.write_str("json"),
            Self::List(t) => write!(f, "list({t})"),
        }
    }
}

/// A scale factor, left out when 1.
struct ScaleFactor(u32);

impl fmt::Display for ScaleFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 1 { Ok(()) } else { write!(f, "{}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_bytes_in_sub_arrays_are_not_walked() {
        let of = |t: DataType, n: usize| DataType::SubArray(Arc::new(t), Arc::from([n]));
        let t = of(of(of(DataType::FixedBytes(1), 1 << 20), 1 << 20), 1 << 20);
        assert!(!t.has_byte_order());
        assert!(of(of(DataType::Int(16), 2), 2).has_byte_order());
    }
}
