//! `--format json`: nested lists in C order.
//!
//! Written element by element: the brackets before and after an element follow from its number alone, so pieces of
//! any size may come.

use std::io::Write;

use zaro::{Error, Result, num};

use super::{Layout, Sink};
use crate::block::Block;
use crate::value::{self, Style};

/// More empty lists than this nobody means to print.
const MAX_EMPTY: u64 = 1 << 20;

/// Writes nested lists.
#[derive(Debug)]
pub(crate) struct Json {
    style: Style,
    /// For each dimension, how many elements one of its lists holds.
    strides: Vec<u64>,
    /// The number of the next element.
    next: u64,
    text: String,
}

impl Json {
    /// Times as ISO 8601 if `iso`.
    pub(crate) fn new(iso: bool) -> Self {
        Self { style: Style { iso, ..Style::JSON }, strides: Vec::new(), next: 0, text: String::new() }
    }
}

impl Sink for Json {
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
                return Err(Error::usage(format!("{lists} empty lists are too many to print")));
            }
            empty(&layout.shape, out)?;
        }
        Ok(())
    }

    fn block(&mut self, block: &Block, out: &mut dyn Write) -> Result<()> {
        for item in block.items() {
            self.text.clear();
            // A list that holds as many elements as divide the number begins here.
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

/// The lists of an answer without elements.
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

#[cfg(test)]
mod tests {
    use super::*;
    use zaro::array::Order;
    use zaro::meta::DataType;

    fn json(shape: &[u64], pieces: &[&[u8]]) -> String {
        let layout = Layout {
            shape: shape.to_vec(),
            names: Vec::new(),
            data_type: DataType::UINT8,
            order: Order::C,
            width: 0,
        };
        let mut out = Vec::new();
        let mut sink = Json::new(false);
        sink.begin(&layout, &mut out).unwrap();
        for piece in pieces {
            sink.block(&Block::of_bytes(DataType::UINT8, vec![], piece.to_vec()), &mut out).unwrap();
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
}
