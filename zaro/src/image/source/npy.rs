//! numpy files: the header, which says the type, order and shape of the elements after it, and the elements.
//!
//! Magic, version, length, then a Python literal such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
//! Version 1 has a length of 16 bits, 2 and 3 one of 32; 3 is UTF-8, the others Latin-1.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use super::file::{Handle, Input};
use super::{Pixels, Source, SourceOptions, Window, axis_letters, stem};
use crate::array::Order;
use crate::error::{Error, Result};
use crate::meta::DataType;
use crate::meta::dtype::Endian;
use crate::meta::json::Json;
use crate::meta::typestr::{self, TypeStr};
use crate::num;

/// Headers beyond this are an attack: numpy itself refuses ten thousand bytes unless told otherwise.
const MAX_HEADER: u32 = 1 << 24;

/// Literals nested deeper than this are an attack, too.
const MAX_DEPTH: usize = 64;

/// What a header says.
#[derive(Debug)]
pub struct Header {
    /// The type of the elements as they are stored.
    pub stored: TypeStr,
    /// Which dimension varies fastest.
    pub order: Order,
    /// The extents.
    pub shape: Vec<u64>,
    /// Where the elements begin.
    pub length: u64,
}

fn damaged(message: &str) -> Error {
    Error::invalid(format!("this is no numpy file: {message}"))
}

impl Header {
    /// Reads a header from the start of a file.
    pub fn read(from: &mut impl Read) -> Result<Self> {
        let mut start = [0u8; 8];
        from.read_exact(&mut start).map_err(|_| damaged("it is too short"))?;
        let [magic @ .., major, _] = start;
        if magic != *b"\x93NUMPY" {
            return Err(damaged("it does not begin with \\x93NUMPY"));
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
                return Err(Error::unsupported(format!("numpy files of version {other} are not supported")));
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
            3 => String::from_utf8(bytes).map_err(|_| damaged("its header is no UTF-8"))?,
            _ => bytes.iter().map(|b| char::from(*b)).collect(),
        };
        Self::parse(&text, u64::from(length) + before)
    }

    fn parse(text: &str, length: u64) -> Result<Self> {
        let header = literal(text).ok_or_else(|| damaged("its header cannot be read"))?;
        let get = |name: &str| header.get(name).ok_or_else(|| damaged(&format!("its header lacks {name:?}")));
        let order = match get("fortran_order")? {
            Json::Bool(true) => Order::F,
            Json::Bool(false) => Order::C,
            _ => return Err(damaged("\"fortran_order\" is neither True nor False")),
        };
        let shape = get("shape")?.items().and_then(|i| i.iter().map(Json::as_u64).collect::<Option<_>>());
        let shape = shape.ok_or_else(|| damaged("its shape is not a tuple of extents"))?;
        let stored = typestr::parse(get("descr")?)?;
        if stored.data_type.is_none() {
            return Err(Error::unsupported("this numpy file holds pickled objects, which are never read"));
        }
        Ok(Self { stored, order, shape, length })
    }
}

/// Spans up to this many bytes are read at once, if a good part of them is wanted.
const SPAN: u64 = 8 << 20;

/// The elements of a numpy file.
struct Npy {
    input: Input,
    begin: u64,
    size: usize,
    is_big_endian: bool,
    /// How many elements further the next position along t, c, z, y, x is; 0 for axes that are not there.
    strides: [u64; 5],
}

/// A numpy file as an image. Its axes are the last of t, c, z, y, x, if nothing else is said.
pub(super) fn open(input: Input, options: &SourceOptions) -> Result<Source> {
    let head = input.head(usize::try_from(MAX_HEADER).unwrap_or(0).saturating_add(16).min(1 << 20))?;
    let header = Header::read(&mut head.as_slice())?;
    let rank = header.shape.len();
    let places = match &options.axes {
        Some(axes) => axis_letters(axes)?,
        None if (2..=5).contains(&rank) => (5 - rank..5).collect(),
        None => {
            return Err(Error::unsupported(format!("a numpy file of {rank} dimensions cannot be an image")));
        }
    };
    if places.len() != rank {
        let axes = options.axes.as_deref().unwrap_or_default();
        return Err(Error::usage(format!("axes {axes:?} for a numpy file of {rank} dimensions")));
    }
    let data_type = match header.stored.fixed()? {
        DataType::Bool => DataType::UINT8,
        t @ (DataType::Int(_) | DataType::UInt(_) | DataType::Float(_)) => t.clone(),
        other => return Err(Error::unsupported(format!("images of {other} are not supported"))),
    };
    let size = data_type.size();
    let mut sizes = [1u64; 5];
    let mut strides = [0u64; 5];
    let mut stride = 1u64;
    let dims: Vec<(usize, u64)> = places.iter().copied().zip(header.shape.iter().copied()).collect();
    let fastest: Vec<&(usize, u64)> =
        if header.order == Order::F { dims.iter().collect() } else { dims.iter().rev().collect() };
    for (place, n) in fastest {
        if let (Some(to), Some(step)) = (sizes.get_mut(*place), strides.get_mut(*place)) {
            (*to, *step) = (*n, stride);
        }
        stride = stride.checked_mul(*n).ok_or_else(|| damaged("its shape is beyond measure"))?;
    }
    let bytes = stride.checked_mul(num::u64_of(size)).and_then(|n| n.checked_add(header.length));
    if bytes.is_none_or(|n| n > input.len) {
        return Err(Error::invalid(format!(
            "the numpy file is too short for {:?} of {data_type}",
            header.shape
        )));
    }
    if stride == 0 {
        return Err(Error::invalid(format!("the numpy file has no pixels: {:?}", header.shape)));
    }
    let name = stem(&input.path);
    let is_big_endian = header.stored.endian == Some(Endian::Big);
    let npy = Npy { input, begin: header.length, size, is_big_endian, strides };
    let mut source = Source::new(name, sizes, data_type, Arc::new(npy));
    // Axes that were named are meant, whatever their length.
    if options.axes.is_some() {
        for place in places {
            if let Some(declared) = source.declared.get_mut(place) {
                *declared = true;
            }
        }
    }
    Ok(source)
}

/// One dimension of what is wanted: how many, how far apart in the file, how far apart in the answer.
#[derive(Clone, Copy)]
struct Dim {
    count: u64,
    stride: u64,
    out: u64,
}

impl Npy {
    /// Reads what `dims`, the farthest apart first, select from the element `at` on, to the element `to` of `out`.
    fn gather(&self, handle: &Handle, dims: &[Dim], at: u64, to: u64, out: &mut [u8]) -> Result<()> {
        let size = num::u64_of(self.size);
        let far = |d: &Dim| (d.count.saturating_sub(1)).saturating_mul(d.stride);
        let span = dims.iter().fold(1u64, |n, d| n.saturating_add(far(d)));
        let useful = dims.iter().fold(1u64, |n, d| n.saturating_mul(d.count));
        let bytes = span.saturating_mul(size);
        let dense = bytes <= SPAN.max(useful.saturating_mul(size)) && span <= useful.saturating_mul(4);
        match dims {
            [first, rest @ ..] if !(dense || (rest.is_empty() && bytes <= SPAN)) => {
                for i in 0..first.count {
                    self.gather(handle, rest, at + i * first.stride, to + i * first.out, out)?;
                }
                Ok(())
            }
            _ => {
                let offset = at.checked_mul(size).and_then(|n| n.checked_add(self.begin));
                let offset = offset.ok_or_else(|| damaged("an element beyond measure"))?;
                let span = handle.bytes(offset, num::usize_of(bytes)?)?;
                self.scatter(&span, dims, 0, to, out)
            }
        }
    }

    fn scatter(&self, span: &[u8], dims: &[Dim], at: u64, to: u64, out: &mut [u8]) -> Result<()> {
        let size = self.size;
        let place = |n: u64| num::usize_of(n).map(|n| n.saturating_mul(size));
        let outside = || Error::io("the numpy file changed while it was read");
        match dims {
            [first, rest @ ..] if !rest.is_empty() => (0..first.count)
                .try_for_each(|i| self.scatter(span, rest, at + i * first.stride, to + i * first.out, out)),
            _ => {
                let Dim { count, stride, out: step } =
                    dims.first().copied().unwrap_or(Dim { count: 1, stride: 1, out: 1 });
                if stride == 1 && step == 1 {
                    let n = place(count)?;
                    let from = span.get(place(at)?..place(at)? + n).ok_or_else(outside)?;
                    out.get_mut(place(to)?..place(to)? + n).ok_or_else(outside)?.copy_from_slice(from);
                    return Ok(());
                }
                for i in 0..count {
                    let (from, to) = (place(at + i * stride)?, place(to + i * step)?);
                    let from = span.get(from..from + size).ok_or_else(outside)?;
                    out.get_mut(to..to + size).ok_or_else(outside)?.copy_from_slice(from);
                }
                Ok(())
            }
        }
    }
}

impl Pixels for Npy {
    fn read(&self, window: &Window, out: &mut [u8]) -> Result<()> {
        let handle = self.input.handle()?;
        let [cs, ys, xs] = window.counts();
        let [ts, c, zs, y, x] = self.strides;
        let begin = |range: &Range<u64>, stride: u64| range.start * stride;
        let at =
            window.t * ts + window.z * zs + begin(&window.c, c) + begin(&window.y, y) + begin(&window.x, x);
        let mut dims = [
            Dim { count: cs, stride: c, out: ys * xs },
            Dim { count: ys, stride: y, out: xs },
            Dim { count: xs, stride: x, out: 1 },
        ];
        dims.sort_by_key(|d| std::cmp::Reverse(d.stride));
        let dims: Vec<Dim> = dims.into_iter().filter(|d| d.count > 1).collect();
        self.gather(&handle, &dims, at, 0, out).map_err(|e| e.with_store(self.input.path.display()))?;
        if self.is_big_endian && self.size > 1 {
            out.chunks_exact_mut(self.size).for_each(<[u8]>::reverse);
        }
        Ok(())
    }

    fn grain(&self) -> [u64; 3] {
        let [_, c, _, y, x] = self.strides;
        // Channels that lie closer together than pixels come together.
        let together = if c != 0 && (c < x || c < y) { u64::MAX } else { 1 };
        [together, 1, 1]
    }
}

/// A Python literal as JSON: tuples become lists, `True`, `False` and `None` what JSON calls them.
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
                // `(3)` is no tuple, only a number in brackets.
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

    /// Items between brackets, with commas between and perhaps after them; says how many commas there were.
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
