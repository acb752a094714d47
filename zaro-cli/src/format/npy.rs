//! `--format npy`: numpy's file format, written by hand.
//!
//! Magic, version, header length, a Python literal padded so that the data begin at a multiple of 64 bytes, then the
//! elements. Version 1 has a 16-bit length, 2 a 32-bit one, 3 also allows field names beyond Latin-1.

use std::io::Write;

use zaro::array::Order;
use zaro::meta::dtype::{DataType, Float, TimeUnit};
use zaro::{Error, Result};

use super::{Layout, Sink};
use crate::block::Block;

/// Writes a numpy file.
#[derive(Debug, Default)]
pub(crate) struct Npy {
    /// For text: the width of an element in bytes.
    width: Option<usize>,
}

impl Sink for Npy {
    fn needs_width(&self) -> bool {
        true
    }

    fn begin(&mut self, layout: &Layout, out: &mut dyn Write) -> Result<()> {
        let descr = match &layout.data_type {
            DataType::String => {
                // numpy has no text of no width; it, too, makes it 1.
                let width = layout.width.max(1);
                self.width = Some(width.saturating_mul(4));
                format!("'<U{width}'")
            }
            t => descr(t)?,
        };
        out.write_all(&header(&descr, layout.order == Order::F, &layout.shape)?)?;
        Ok(())
    }

    fn block(&mut self, block: &Block, out: &mut dyn Write) -> Result<()> {
        let Some(width) = self.width else { return Ok(out.write_all(block.bytes().unwrap_or_default())?) };
        let mut cell = Vec::with_capacity(width);
        for item in block.items() {
            cell.clear();
            for c in String::from_utf8_lossy(item).chars() {
                cell.extend(u32::from(c).to_le_bytes());
            }
            cell.resize(width, 0);
            out.write_all(&cell)?;
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Write) -> Result<()> {
        Ok(())
    }
}

/// What becomes plain bytes in numpy because numpy has no such type, for a warning.
pub(crate) fn loses_its_type(t: &DataType) -> bool {
    match t {
        DataType::Float(f) | DataType::Complex(f) => !matches!(f, Float::F16 | Float::F32 | Float::F64),
        DataType::Struct(fields) => fields.iter().any(|f| loses_its_type(&f.data_type)),
        DataType::SubArray(inner, _) => loses_its_type(inner),
        _ => false,
    }
}

/// The whole header.
fn header(descr: &str, fortran: bool, shape: &[u64]) -> Result<Vec<u8>> {
    let order = if fortran { "True" } else { "False" };
    let literal = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {}, }}", tuple(shape));
    // Version 1 has a length of 16 bits and only Latin-1; 2 has 32 bits; 3 is 2 with UTF-8.
    let version = match literal.is_ascii() {
        false => 3,
        true if literal.len() + 64 < usize::from(u16::MAX) => 1,
        true => 2,
    };
    let fixed = if version == 1 { 10 } else { 12 };
    let length = (fixed + literal.len() + 1).next_multiple_of(64) - fixed;
    let too_long = |_| Error::unsupported("the type has too many fields for a numpy file");
    let mut out = b"\x93NUMPY".to_vec();
    out.extend([version, 0]);
    if version == 1 {
        out.extend(u16::try_from(length).map_err(too_long)?.to_le_bytes());
    } else {
        out.extend(u32::try_from(length).map_err(too_long)?.to_le_bytes());
    }
    out.extend(literal.as_bytes());
    out.resize(fixed + length - 1, b' ');
    out.push(b'\n');
    Ok(out)
}

fn tuple<T: std::fmt::Display>(numbers: &[T]) -> String {
    match numbers {
        [one] => format!("({one},)"),
        many => format!("({})", many.iter().map(T::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// numpy's description of a type, as a Python literal.
fn descr(t: &DataType) -> Result<String> {
    Ok(match t {
        DataType::Struct(fields) => {
            let mut out = String::from("[");
            for (i, field) in fields.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                let name = python_string(&field.name);
                match &field.data_type {
                    DataType::SubArray(inner, shape) => {
                        out.push_str(&format!("({name}, {}, {})", descr(inner)?, tuple(shape)));
                    }
                    inner => out.push_str(&format!("({name}, {})", descr(inner)?)),
                }
            }
            out.push(']');
            out
        }
        DataType::SubArray(inner, shape) => format!("({}, {})", descr(inner)?, tuple(shape)),
        plain => format!("'{}'", code(plain)?),
    })
}

fn python_string(s: &str) -> String {
    let mut out = String::from("'");
    for c in s.chars() {
        match c {
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

fn code(t: &DataType) -> Result<String> {
    let wide = |n: usize| if n > 1 { '<' } else { '|' };
    Ok(match t {
        DataType::Bool => "|b1".into(),
        DataType::Int(_) => format!("{}i{}", wide(t.size()), t.size()),
        DataType::UInt(_) => format!("{}u{}", wide(t.size()), t.size()),
        DataType::Float(f @ (Float::F16 | Float::F32 | Float::F64)) => format!("<f{}", f.size()),
        DataType::Complex(f @ (Float::F32 | Float::F64)) => format!("<c{}", 2 * f.size()),
        DataType::FixedBytes(n) => format!("|S{n}"),
        DataType::FixedUtf32(n) => format!("<U{n}"),
        DataType::DateTime(unit, scale) => format!("<M8{}", time_unit(*unit, *scale)),
        DataType::TimeDelta(unit, scale) => format!("<m8{}", time_unit(*unit, *scale)),
        t if t.is_variable() => {
            return Err(Error::usage(format!(
                "elements of type {t} have no fixed size, so they cannot be written as npy; use --format json or csv"
            )));
        }
        other => format!("|V{}", other.size()),
    })
}

fn time_unit(unit: TimeUnit, scale: u32) -> String {
    match (unit, scale) {
        (TimeUnit::Generic, _) => String::new(),
        (unit, 1) => format!("[{}]", unit.name()),
        (unit, n) => format!("[{n}{}]", unit.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_aligned_and_say_their_length() {
        for fields in [0, 1, 900, 9000] {
            let t: String = (0..fields).map(|i| format!("('field{i}', '<i4'), ")).collect();
            let h = header(&format!("[{t}]"), true, &[3]).unwrap();
            assert_eq!(h.len() % 64, 0);
            let (start, length) = match h[6] {
                1 => (10, usize::from(u16::from_le_bytes([h[8], h[9]]))),
                _ => (12, usize::try_from(u32::from_le_bytes([h[8], h[9], h[10], h[11]])).unwrap()),
            };
            assert_eq!(h.len(), start + length);
            assert_eq!(h.last(), Some(&b'\n'));
            assert!(String::from_utf8_lossy(&h[start..]).contains("'fortran_order': True, 'shape': (3,), }"));
        }
        assert_eq!(header("[('é', '<i4')]", false, &[]).unwrap()[6], 3);
    }

    #[test]
    fn types_have_numpy_names() {
        let pair = DataType::SubArray(DataType::FLOAT64.into(), [2, 3].into());
        let t = DataType::structure([("a'".to_owned(), DataType::UINT8), ("b".to_owned(), pair)]);
        assert_eq!(descr(&t).unwrap(), "[('a\\'', '|u1'), ('b', '<f8', (2, 3))]");
        assert_eq!(code(&DataType::DateTime(TimeUnit::Second, 25)).unwrap(), "<M8[25s]");
        assert_eq!(code(&DataType::Float(Float::BF16)).unwrap(), "|V2");
        assert_eq!(code(&DataType::Bool).unwrap(), "|b1");
        assert_eq!(code(&DataType::FixedUtf32(3)).unwrap(), "<U3");
        assert!(code(&DataType::Bytes).is_err());
    }
}
