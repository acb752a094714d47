//! Reads and writes nested JSON lists in C order.
//!
//! They are written element by element: the brackets around an element follow from its index alone, so blocks of any
//! size can be written. They are read whole, since the shape is known only at the end.

use std::io::Write;

use super::held::Held;
use super::value::{self, Style};
use super::{Layout, Sink, element};
use crate::array::Slab;
use crate::error::{Error, Result, invalid, usage};
use crate::meta::DataType;
use crate::meta::json::Json;
use crate::num;

/// More empty lists than this are an error.
const MAX_EMPTY: u64 = 1 << 20;

/// Writes nested lists.
#[derive(Debug)]
pub struct JsonLists {
    style: Style,
    /// For each dimension, the number of elements in one of its lists.
    strides: Vec<u64>,
    /// The index of the next element.
    next: u64,
    text: String,
}

impl JsonLists {
    /// Times as ISO 8601 if `iso`.
    #[must_use]
    pub fn new(iso: bool) -> Self {
        Self { style: Style { iso, ..Style::JSON }, strides: Vec::new(), next: 0, text: String::new() }
    }
}

impl Sink for JsonLists {
    fn begin(&mut self, layout: &Layout, out: &mut dyn Write) -> Result<()> {
        self.strides.clear();
        let mut stride = 1u64;
        for n in layout.shape.iter().rev() {
            stride = stride.saturating_mul(*n);
            self.strides.push(stride);
        }
        if stride == 0 {
            let lists = layout.shape.iter().take_while(|n| **n > 0).fold(1u64, |a, n| a.saturating_mul(*n));
            if lists > MAX_EMPTY {
                return Err(usage!("the selection is empty, and {lists} empty lists are too many to print"));
            }
            empty(&layout.shape, out)?;
        }
        Ok(())
    }

    fn block(&mut self, block: &Slab, out: &mut dyn Write) -> Result<()> {
        for item in block.items() {
            self.text.clear();
            // A list begins here if its number of elements divides the index.
            let begun = self.strides.iter().take_while(|s| self.next.is_multiple_of(**s)).count();
            if self.next > 0 {
                self.text.push_str(if begun > 0 { ",\n" } else { "," });
            }
            self.text.extend(std::iter::repeat_n('[', begun));
            value::write(&block.data_type, item, self.style, &mut self.text);
            self.next += 1;
            let ended = self.strides.iter().take_while(|s| self.next.is_multiple_of(**s)).count();
            self.text.extend(std::iter::repeat_n(']', ended));
            out.write_all(self.text.as_bytes())?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> Result<()> {
        Ok(out.write_all(b"\n")?)
    }
}

/// Writes the lists of an empty result.
fn empty(shape: &[u64], out: &mut dyn Write) -> Result<()> {
    out.write_all(b"[")?;
    if let Some((first, rest)) = shape.split_first()
        && !rest.is_empty()
    {
        for i in 0..num::usize_of(*first)? {
            if i > 0 {
                out.write_all(b",")?;
            }
            empty(rest, out)?;
        }
    }
    Ok(out.write_all(b"]")?)
}

/// The shape of nested lists of elements of this type: of `rank` dimensions if that is known, else as deep as they go.
///
/// Where an empty list hides the extents of deeper dimensions, they are those of `like`, or zero.
pub(crate) fn shape(value: &Json, t: &DataType, rank: Option<usize>, like: &[u64]) -> Result<Vec<u64>> {
    let mut shape = Vec::new();
    let mut here = Some(value);
    while let Some(list) = here.and_then(Json::items) {
        if rank.is_some_and(|r| r <= shape.len()) {
            break;
        }
        shape.push(num::u64_of(list.len()));
        here = list.first();
    }
    let ended_empty = here.is_none();
    match rank {
        Some(rank) if ended_empty => {
            let hidden = (shape.len()..rank).map(|d| like.get(d).copied().unwrap_or(0));
            shape.extend(hidden.collect::<Vec<_>>());
        }
        Some(_) => {
            // Lists that are elements themselves, such as complex numbers, are not a dimension.
            let mut left = 0;
            while let Some(list) = here.and_then(Json::items) {
                left += 1;
                here = list.first();
            }
            if here.is_some() {
                shape.truncate(shape.len().saturating_sub(depth(t).saturating_sub(left)));
            }
        }
        None if *t == DataType::Json => {
            let message =
                "the shape of elements of type json cannot be inferred, since lists may be elements";
            return Err(Error::usage(message).with_hint("shape", "sets it"));
        }
        None if !ended_empty => shape.truncate(shape.len().saturating_sub(depth(t))),
        None => {}
    }
    Ok(shape)
}

/// The depth of the lists that represent one element.
fn depth(t: &DataType) -> usize {
    match t {
        DataType::Complex(_) => 1,
        DataType::SubArray(inner, shape) => shape.len().saturating_add(depth(inner)),
        DataType::List(inner) => depth(inner).saturating_add(1),
        _ => 0,
    }
}

/// The elements of nested lists of this shape.
pub(crate) fn elements(value: &Json, t: &DataType, shape: &[u64]) -> Result<Slab> {
    let mut held = Held::new(t);
    let mut at = Vec::new();
    walk(value, shape, &mut at, &mut held)?;
    held.slab(shape)
}

fn walk(value: &Json, shape: &[u64], at: &mut Vec<usize>, held: &mut Held) -> Result<()> {
    let Some((extent, rest)) = shape.split_first() else {
        return held
            .push(|t, out| element::from_json(t, value, out))
            .map_err(|e| e.within(format_args!("at {at:?}")));
    };
    let items = value
        .items()
        .ok_or_else(|| invalid!("at {at:?}: expected a list of {extent} items, found {}", value.kind()))?;
    if num::u64_of(items.len()) != *extent {
        let message = format!("the list at {at:?} has {} items, expected {extent}", items.len());
        return Err(Error::usage(message));
    }
    for (i, item) in items.iter().enumerate() {
        at.push(i);
        walk(item, rest, at, held)?;
        at.pop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Order;
    use crate::meta::dtype::Float;

    fn json(shape: &[u64], pieces: &[&[u8]]) -> String {
        let layout = Layout {
            shape: shape.to_vec(),
            names: Vec::new(),
            data_type: DataType::UINT8,
            order: Order::C,
            width: 0,
        };
        let mut out = Vec::new();
        let mut sink = JsonLists::new(false);
        sink.begin(&layout, &mut out).unwrap();
        for piece in pieces {
            let shape = [num::u64_of(piece.len())];
            let slab = Slab::new(&DataType::UINT8, &shape, Order::C, piece.to_vec()).unwrap();
            sink.block(&slab, &mut out).unwrap();
        }
        sink.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn brackets_follow_from_numbers_alone() {
        assert_eq!(json(&[], &[&[7]]), "7\n");
        assert_eq!(json(&[3], &[&[1, 2], &[3]]), "[1,2,3]\n");
        assert_eq!(json(&[2, 2], &[&[1], &[2, 3, 4]]), "[[1,2],\n[3,4]]\n");
        assert_eq!(json(&[1, 2, 1], &[&[1, 2]]), "[[[1],\n[2]]]\n");
        assert_eq!(json(&[2, 0, 5], &[]), "[[],[]]\n");
        assert_eq!(json(&[0, 5], &[]), "[]\n");
    }

    fn of(text: &str, t: &DataType, rank: Option<usize>) -> Result<Vec<u64>> {
        shape(&Json::parse(text.as_bytes()).unwrap().value, t, rank, &[2, 0, 5])
    }

    #[test]
    fn shapes_follow_from_lists() {
        let int = DataType::Int(16);
        assert_eq!(of("[[1,2,3],[4,5,6]]", &int, None).unwrap(), [2, 3]);
        assert_eq!(of("7", &int, None).unwrap(), Vec::<u64>::new());
        assert_eq!(of("[[1,2],[3,4]]", &DataType::Complex(Float::F32), None).unwrap(), [2]);
        // One step of a two-dimensional array, without a dimension.
        assert_eq!(of("[[1,2],[3,4]]", &DataType::Complex(Float::F32), Some(2)).unwrap(), [2]);
        assert_eq!(of("[[[1,2]],[[3,4]]]", &DataType::Complex(Float::F32), Some(2)).unwrap(), [2, 1]);
        assert_eq!(of("[[1,2],[3,4]]", &DataType::Json, Some(1)).unwrap(), [2]);
        assert!(of("[[1,2],[3,4]]", &DataType::Json, None).is_err());
        assert_eq!(of("[[],[]]", &int, Some(3)).unwrap(), [2, 0, 5]);
    }

    #[test]
    fn ragged_lists_are_refused() {
        for text in ["[[1,2],[3]]", "[[1,2],3]", "[[1,2],[3,[4]]]"] {
            let value = Json::parse(text.as_bytes()).unwrap().value;
            assert!(elements(&value, &DataType::Int(16), &[2, 2]).is_err(), "{text}");
        }
    }
}
