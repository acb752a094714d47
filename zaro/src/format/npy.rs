//! Reads and writes numpy files (`.npy`): a header with type, order and shape, followed by the elements.
//!
//! Magic, version, length, then a Python literal such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`,
//! padded so that the elements begin at a multiple of 64 bytes. Version 1 has a length of 16 bits, 2 and 3 one of 32; 3
//! is UTF-8, the others Latin-1.

use std::io::{Read, Write};

use super::{Layout, Sink, raw};
use crate::array::{Order, Slab};
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::dtype::{DataType, Endian, Float};
use crate::meta::json::Json;
use crate::meta::typestr::{self, TypeStr};

/// Writes a numpy file.
#[derive(Debug, Default)]
pub struct Npy {
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
                // numpy has no text of width 0; it makes it 1, too.
                let width = layout.width.max(1);
                self.width = Some(width.saturating_mul(4));
                format!("'<U{width}'")
            }
            t => descr(t)?,
        };
        out.write_all(&header(&descr, layout.order == Order::F, &layout.shape)?)?;
        Ok(())
    }

    fn block(&mut self, block: &Slab, out: &mut dyn Write) -> Result<()> {
        let Some(width) = self.width else { return Ok(out.write_all(&block.bytes)?) };
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
}

/// Whether a type becomes raw bytes because numpy lacks it, for a warning.
#[must_use]
pub fn loses_its_type(t: &DataType) -> bool {
    match t {
        DataType::Float(f) | DataType::Complex(f) => !matches!(f, Float::F16 | Float::F32 | Float::F64),
        DataType::Struct(fields) => fields.iter().any(|f| loses_its_type(&f.data_type)),
        DataType::SubArray(inner, _) => loses_its_type(inner),
        _ => false,
    }
}

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
    if let DataType::SubArray(inner, shape) = t {
        return Ok(format!("({}, {})", descr(inner)?, tuple(shape)));
    }
    let json = typestr::write(&known(t), Some(Endian::Little));
    Ok(python(&json.ok_or_else(|| raw::no_fixed_size(t, "as npy"))?))
}

/// The type with raw bytes for what numpy lacks.
fn known(t: &DataType) -> DataType {
    match t {
        DataType::Int(2 | 4) => DataType::Int(8),
        DataType::UInt(2 | 4) => DataType::UINT8,
        DataType::Struct(fields) => {
            DataType::structure(fields.iter().map(|f| (f.name.clone(), known(&f.data_type))))
        }
        DataType::SubArray(inner, shape) => DataType::SubArray(known(inner).into(), shape.clone()),
        t if loses_its_type(t) || *t == DataType::Complex(Float::F16) => DataType::Raw(t.size()),
        t => t.clone(),
    }
}

/// A type as [`typestr`] writes it, as a Python literal: fields and shapes are tuples, lists of fields are lists.
fn python(json: &Json) -> String {
    let Some(items) = json.items() else {
        return json.as_str().map_or_else(|| json.to_string(), python_string);
    };
    let inside = items.iter().map(python).collect::<Vec<_>>().join(", ");
    match items {
        [Json::Number(_)] => format!("({inside},)"),
        [Json::Array(_), ..] | [] => format!("[{inside}]"),
        _ => format!("({inside})"),
    }
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

/// Longer headers are an attack: numpy itself refuses ten thousand bytes by default.
pub(crate) const MAX_HEADER: u32 = 1 << 24;

/// Literals nested deeper than this are an attack, too.
const MAX_DEPTH: usize = 64;

/// A parsed header.
#[derive(Debug)]
pub struct Header {
    /// The type of the elements as they are stored.
    pub stored: TypeStr,
    /// Which dimension varies fastest.
    pub order: Order,
    /// The extents.
    pub shape: Vec<u64>,
    /// The offset of the elements.
    pub length: u64,
}

pub(crate) fn damaged(message: &str) -> Error {
    invalid!("not a valid numpy file: {message}")
}

impl Header {
    /// Reads a header from the start of a file.
    pub fn read(from: &mut impl Read) -> Result<Self> {
        let mut start = [0u8; 8];
        from.read_exact(&mut start).map_err(|_| damaged("it is too short"))?;
        let [magic @ .., major, _] = start;
        if magic != *b"\x93NUMPY" {
            return Err(damaged("it does not start with \\x93NUMPY"));
        }
        let (length, before) = match major {
            1 => {
                let mut n = [0u8; 2];
                from.read_exact(&mut n).map_err(|_| damaged("it is too short"))?;
                (u32::from(u16::from_le_bytes(n)), 10)
            }
            2 | 3 => {
                let mut n = [0u8; 4];
                from.read_exact(&mut n).map_err(|_| damaged("it is too short"))?;
                (u32::from_le_bytes(n), 12)
            }
            other => {
                return Err(unsupported!("numpy files of version {other} are not supported"));
            }
        };
        if length > MAX_HEADER {
            return Err(damaged("its header is too long"));
        }
        let mut bytes = Vec::new();
        from.take(length.into()).read_to_end(&mut bytes)?;
        if u32::try_from(bytes.len()) != Ok(length) {
            return Err(damaged("it ends in its header"));
        }
        let text = match major {
            3 => String::from_utf8(bytes).map_err(|_| damaged("its header is not valid UTF-8"))?,
            _ => bytes.iter().map(|b| char::from(*b)).collect(),
        };
        Self::parse(&text, u64::from(length) + before)
    }

    fn parse(text: &str, length: u64) -> Result<Self> {
        let header = literal(text).ok_or_else(|| damaged("its header cannot be parsed"))?;
        let get =
            |name: &str| header.get(name).ok_or_else(|| damaged(&format!("its header has no {name:?}")));
        let order = match get("fortran_order")? {
            Json::Bool(true) => Order::F,
            Json::Bool(false) => Order::C,
            _ => return Err(damaged("\"fortran_order\" is neither True nor False")),
        };
        let shape = get("shape")?.items().and_then(|i| i.iter().map(Json::as_u64).collect::<Option<_>>());
        let shape = shape.ok_or_else(|| damaged("its shape is not a tuple of extents"))?;
        let stored = typestr::parse(get("descr")?)?;
        if stored.data_type.is_none() {
            return Err(Error::unsupported("this numpy file holds pickled objects, which are not supported"));
        }
        Ok(Self { stored, order, shape, length })
    }
}

/// Parses a Python literal to JSON: tuples become lists, `True`, `False` and `None` their JSON counterparts.
fn literal(text: &str) -> Option<Json> {
    let mut reader = Literal { rest: text };
    let value = reader.value(0)?;
    reader.space();
    reader.rest.is_empty().then_some(value)
}

struct Literal<'a> {
    rest: &'a str,
}

impl Literal<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.space();
        match self.rest.chars().next()? {
            '{' => {
                let mut members = Vec::new();
                self.list('{', "}", |reader| {
                    let name = reader.string()?;
                    reader.take(":").then_some(())?;
                    members.push((name, reader.value(depth + 1)?));
                    Some(())
                })?;
                Some(Json::Object(members))
            }
            open @ ('(' | '[') => {
                let mut items = Vec::new();
                let close = if open == '(' { ")" } else { "]" };
                let commas = self.list(open, close, |reader| {
                    items.push(reader.value(depth + 1)?);
                    Some(())
                })?;
                // `(3)` is not a tuple but a number in parentheses.
                if open == '(' && commas == 0 && items.len() == 1 {
                    items.pop()
                } else {
                    Some(Json::Array(items))
                }
            }
            '\'' | '"' => self.string().map(Json::String),
            c if c.is_ascii_digit() => {
                let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
                let (digits, rest) = self.rest.split_at_checked(end)?;
                // Python 2 wrote long integers with an L.
                self.rest = rest.strip_prefix('L').unwrap_or(rest);
                Some(Json::int(digits.parse::<u64>().ok()?))
            }
            _ if self.take("True") => Some(Json::Bool(true)),
            _ if self.take("False") => Some(Json::Bool(false)),
            _ if self.take("None") => Some(Json::Null),
            _ => None,
        }
    }

    /// Items between brackets, with commas between and perhaps after them; returns the number of commas.
    fn list(
        &mut self,
        open: char,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<usize> {
        self.rest = self.rest.strip_prefix(open)?;
        let mut commas = 0;
        loop {
            if self.take(close) {
                return Some(commas);
            }
            item(self)?;
            if self.take(",") {
                commas += 1;
            } else {
                return self.take(close).then_some(commas);
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.space();
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(out);
                }
                '\\' => match chars.next()?.1 {
                    'x' => out.push(code(&mut chars, 2)?),
                    'u' => out.push(code(&mut chars, 4)?),
                    'U' => out.push(code(&mut chars, 8)?),
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    other @ ('\\' | '\'' | '"') => out.push(other),
                    _ => return None,
                },
                c => out.push(c),
            }
        }
        None
    }
}

fn code(chars: &mut impl Iterator<Item = (usize, char)>, digits: usize) -> Option<char> {
    let text: String = chars.take(digits).map(|(_, c)| c).collect();
    (text.len() == digits).then(|| u32::from_str_radix(&text, 16).ok().and_then(char::from_u32))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::dtype::TimeUnit;

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
        assert_eq!(descr(&DataType::DateTime(TimeUnit::Second, 25)).unwrap(), "'<M8[25s]'");
        assert_eq!(descr(&DataType::Float(Float::BF16)).unwrap(), "'|V2'");
        assert_eq!(descr(&DataType::Bool).unwrap(), "'|b1'");
        assert_eq!(descr(&DataType::FixedUtf32(3)).unwrap(), "'<U3'");
        assert!(descr(&DataType::Bytes).is_err());
    }

    fn file(version: u8, header: &str) -> Vec<u8> {
        let mut out = b"\x93NUMPY".to_vec();
        out.extend([version, 0]);
        match version {
            1 => out.extend(u16::try_from(header.len()).unwrap().to_le_bytes()),
            _ => out.extend(u32::try_from(header.len()).unwrap().to_le_bytes()),
        }
        out.extend(header.as_bytes());
        out
    }

    #[test]
    fn headers_of_all_versions_are_read() {
        for version in [1, 2, 3] {
            let bytes = file(version, "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 4L), }   \n");
            let h = Header::read(&mut bytes.as_slice()).unwrap();
            assert_eq!((h.order, h.shape.as_slice()), (Order::F, &[3, 4][..]));
            assert_eq!(h.length, u64::try_from(bytes.len()).unwrap());
            assert_eq!(h.stored.data_type, Some(DataType::FLOAT32));
        }
        for (shape, wanted) in [("()", vec![]), ("(7,)", vec![7])] {
            let bytes = file(1, &format!("{{'descr': '|b1', 'fortran_order': False, 'shape': {shape}}}"));
            assert_eq!(Header::read(&mut bytes.as_slice()).unwrap().shape, wanted);
        }
        let fields = r"{'descr': [('a\'é', '<i2'), ('b', [('c', '<f8', (2,))])], 'fortran_order': False, 'shape': (1,)}";
        let h = Header::read(&mut file(3, fields).as_slice()).unwrap();
        assert_eq!(h.stored.data_type.unwrap().size(), 18);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }");
        for cut in 0..good.len() {
            assert!(Header::read(&mut &good[..cut]).is_err());
        }
        let deep = format!("{}{}", "(".repeat(5000), ")".repeat(5000));
        for header in [
            "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
            "{'descr': '<f4', 'shape': (3,)}",
            "{'descr': '<f4",
            "__import__('os')",
            &deep,
        ] {
            assert!(Header::read(&mut file(2, header).as_slice()).is_err(), "{header}");
        }
        let mut huge = file(2, "");
        huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Header::read(&mut huge.as_slice()).is_err());
        assert!(Header::read(&mut file(9, "").as_slice()).is_err());
    }
}
