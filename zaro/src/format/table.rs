//! Prints elements as a table for display.
//!
//! Nested brackets with right-aligned columns. If there are many elements, only the edges are read and shown, with `…`
//! for the rest.

use std::io::Write;

use super::text::{cut, plain};
use super::value::{self, Style};
use super::{Layout, Sink};
use crate::array::Slab;
use crate::error::Result;
use crate::meta::DataType;

/// Results with more elements than this are abbreviated.
pub const THRESHOLD: u64 = 1000;
/// How many positions are shown at either end of an abbreviated dimension.
pub const EDGE: u64 = 3;
/// The maximum number of elements shown: with many dimensions, even the edges are too many.
pub const MOST: u64 = 1 << 17;
/// Text longer than this is truncated.
const CELL: usize = 60;
/// Rows longer than this are wrapped.
const LINE: usize = 100;

/// Styles brackets and dots: plain or coloured.
pub type Mark = dyn Fn(&str) -> String;

/// Prints a result in full.
pub struct Whole(pub Box<Mark>);

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Whole")
    }
}

impl Sink for Whole {
    fn begin(&mut self, _: &Layout, _: &mut dyn Write) -> Result<()> {
        Ok(())
    }

    fn block(&mut self, block: &Slab, out: &mut dyn Write) -> Result<()> {
        print(block, &block.shape, &self.0, out)
    }
}

/// Prints `block`, which holds a result of `shape` or its edges.
pub fn print(block: &Slab, shape: &[u64], mark: &Mark, out: &mut dyn Write) -> Result<()> {
    let style = Style { json: false, iso: true };
    let text =
        matches!(block.data_type, DataType::String | DataType::FixedUtf32(_) | DataType::FixedBytes(_));
    let mut cells: Vec<String> = block
        .items()
        .map(|item| {
            let cell = value::text_of(&block.data_type, item, style);
            let cell =
                if text && !shape.is_empty() { format!("{cell:?}") } else { plain(&cell).into_owned() };
            if shape.is_empty() { cell } else { cut(&cell, CELL).into_owned() }
        })
        .collect();
    if is_real(&block.data_type) {
        align_points(&mut cells);
    }
    let width = cells.iter().map(|c| c.chars().count()).max().unwrap_or(0);
    let mut table = TextTable {
        cells: cells.iter(),
        shown: &block.shape,
        shape,
        width,
        column: 0,
        flush_left: text,
        mark,
        out,
    };
    table.level(0)?;
    Ok(out.write_all(b"\n")?)
}

fn is_real(t: &DataType) -> bool {
    matches!(t, DataType::Float(_))
}

/// Pads numbers so that their decimal points align. Numbers with exponents and words such as NaN are right-aligned.
fn align_points(cells: &mut [String]) {
    let after = |c: &str| c.split_once('.').map_or(0, |(_, f)| f.chars().count() + 1);
    if cells.iter().any(|c| c.contains('e')) {
        return;
    }
    let most = cells.iter().map(|c| after(c)).max().unwrap_or(0);
    for cell in cells.iter_mut().filter(|c| c.contains('.')) {
        let missing = most - after(cell).min(most);
        cell.extend(std::iter::repeat_n(' ', missing));
    }
}

struct TextTable<'a> {
    cells: std::slice::Iter<'a, String>,
    shown: &'a [u64],
    shape: &'a [u64],
    width: usize,
    /// The column reached in the current line of the last dimension.
    column: usize,
    flush_left: bool,
    mark: &'a Mark,
    out: &'a mut dyn Write,
}

impl TextTable<'_> {
    /// Prints everything below dimension `depth`.
    fn level(&mut self, depth: usize) -> Result<()> {
        let (Some(shown), Some(extent)) = (self.shown.get(depth).copied(), self.shape.get(depth).copied())
        else {
            let cell = self.cells.next().map(String::as_str).unwrap_or_default();
            let width = if self.shape.is_empty() { 0 } else { self.width };
            return Ok(match self.flush_left {
                true => write!(self.out, "{cell:<width$}"),
                false => write!(self.out, "{cell:>width$}"),
            }?);
        };
        let last = depth + 1 == self.shape.len();
        let (open, close, dots) = ((self.mark)("["), (self.mark)("]"), (self.mark)("…"));
        write!(self.out, "{open}")?;
        for i in 0..shown {
            if i > 0 {
                self.between(depth, last)?;
            }
            if shown < extent && i == EDGE {
                write!(self.out, "{dots}")?;
                self.between(depth, last)?;
            }
            self.level(depth + 1)?;
        }
        Ok(write!(self.out, "{close}")?)
    }

    /// Prints the separator between two items of dimension `depth`.
    fn between(&mut self, depth: usize, last: bool) -> Result<()> {
        if last {
            self.column += self.width + 1;
            if self.column + self.width <= LINE {
                return Ok(write!(self.out, " ")?);
            }
            self.column = depth + 1;
            return Ok(write!(self.out, "\n{:1$}", "", depth + 1)?);
        }
        self.column = 0;
        // An empty line between planes, none between rows.
        for _ in 0..(self.shape.len() - depth - 1).clamp(1, 2) {
            writeln!(self.out)?;
        }
        Ok(write!(self.out, "{:1$}", "", depth + 1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Order;

    fn table(shown: &[u64], shape: &[u64], bytes: Vec<u8>) -> String {
        let mut out = Vec::new();
        let block = Slab::new(&DataType::UINT8, shown, Order::C, bytes).unwrap();
        print(&block, shape, &str::to_owned, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_among_numbers_stand_flush_right() {
        let bytes: Vec<u8> =
            [1.5f64, f64::NAN, -12.25, f64::INFINITY].iter().flat_map(|x| x.to_le_bytes()).collect();
        let block = Slab::new(&DataType::FLOAT64, &[2, 2], Order::C, bytes).unwrap();
        let mut out = Vec::new();
        print(&block, &[2, 2], &str::to_owned, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "[[    1.5       NaN]\n [  -12.25 Infinity]]\n");
    }

    #[test]
    fn columns_are_flush_and_planes_apart() {
        assert_eq!(table(&[], &[], vec![7]), "7\n");
        assert_eq!(table(&[2, 2], &[2, 2], vec![1, 200, 3, 4]), "[[  1 200]\n [  3   4]]\n");
        assert_eq!(table(&[2, 1, 1], &[2, 1, 1], vec![1, 2]), "[[[1]]\n\n [[2]]]\n");
        assert_eq!(table(&[6], &[2000], vec![0, 1, 2, 7, 8, 9]), "[0 1 2 … 7 8 9]\n");
    }
}
