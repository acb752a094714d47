//! Reads CSV.
//!
//! A line is a row along the last dimension, rows in C order; with one dimension, a line is an element (a single line
//! of all elements is accepted, too). Structs have a header of field names and one line per element. An empty cell is
//! the fill value, except for text.

use crate::array::Slab;
use crate::error::{Error, Result, invalid, usage};
use crate::format::element;
use crate::format::held::Held;
use crate::meta::{DataType, Fill};
use crate::num;

/// A parsed CSV file.
#[derive(Debug)]
pub struct Table {
    lines: Vec<Vec<String>>,
    settled: bool,
}

impl Table {
    /// Parses a CSV file (RFC 4180).
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| Error::invalid("the CSV is not valid UTF-8"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = Vec::new();
        let (mut line, mut cell) = (Vec::new(), String::new());
        let mut chars = text.chars().peekable();
        let (mut quoted, mut begun) = (false, false);
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    cell.push('"');
                }
                '"' if quoted => quoted = false,
                c if quoted => cell.push(c),
                '"' if cell.is_empty() => quoted = true,
                ',' => line.push(std::mem::take(&mut cell)),
                '\r' if chars.peek() == Some(&'\n') => continue,
                '\n' => {
                    line.push(std::mem::take(&mut cell));
                    lines.push(std::mem::take(&mut line));
                    begun = false;
                    continue;
                }
                c => cell.push(c),
            }
            begun = true;
        }
        if quoted {
            return Err(Error::invalid("the CSV ends inside a quoted cell"));
        }
        if begun {
            line.push(cell);
            lines.push(line);
        }
        Ok(Self { lines, settled: false })
    }

    /// Prepares for elements of this type: removes a header and trailing empty lines. Idempotent.
    pub fn settle(&mut self, t: &DataType) -> Result<()> {
        if std::mem::replace(&mut self.settled, true) {
            return Ok(());
        }
        if let DataType::Struct(fields) = t {
            let header: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
            if self.lines.first().is_none_or(|l| *l != header) {
                return Err(usage!("the first line must name the fields: {}", header.join(",")));
            }
            self.lines.remove(0);
        }
        if !is_text(t) {
            let blank = |l: &Vec<String>| matches!(l.as_slice(), [one] if one.trim().is_empty());
            while self.lines.len() > 1 && self.lines.last().is_some_and(blank) {
                self.lines.pop();
            }
        }
        let width = self.width();
        match self.lines.iter().enumerate().find(|(_, l)| l.len() != width) {
            None => Ok(()),
            Some((i, line)) => {
                let (i, n) = (i + 1, line.len());
                Err(invalid!("line {i} has {n} cells, but the first line has {width}"))
            }
        }
    }

    fn width(&self) -> usize {
        self.lines.first().map_or(0, Vec::len)
    }

    /// The shape of a table of elements of this type in `rank` dimensions, if the table determines it.
    #[must_use]
    pub fn shape(&self, t: &DataType, rank: Option<usize>) -> Option<Vec<u64>> {
        let (lines, cells) = (num::u64_of(self.lines.len()), num::u64_of(self.width()));
        if matches!(t, DataType::Struct(_)) {
            // A line is an element, so row ends are unknown.
            return match (rank, lines) {
                (Some(0), 1) => Some(Vec::new()),
                (Some(1) | None, n) => Some(vec![n]),
                _ => None,
            };
        }
        match (rank, lines, cells) {
            (Some(0), 1, 1) => Some(Vec::new()),
            (Some(1) | None, n, 1) | (Some(1), 1, n) => Some(vec![n]),
            (Some(2) | None, ..) => Some(vec![lines, cells]),
            _ => None,
        }
    }

    /// The elements, which must fill the shape.
    pub fn elements(&self, t: &DataType, fill: &Fill, shape: &[u64]) -> Result<Slab> {
        let fields = if let DataType::Struct(fields) = t { Some(fields) } else { None };
        let (lines, width) = (num::u64_of(self.lines.len()), num::u64_of(self.width()));
        let wanted = num::product(shape)?;
        // Dimensions of length 1 are ambiguous: rows of 6 may be a slab of 7 × 6 × 1, and a column one of 1 × 6.
        let mut long = shape.iter().rev().copied().filter(|n| *n != 1);
        let (row, vector) = (long.next().unwrap_or(1), long.next().is_none());
        let rows = match vector {
            true => width == 1 || lines == 1,
            false => width == row || Some(&width) == shape.last(),
        };
        let fits = match fields {
            Some(fields) => lines == wanted && (lines == 0 || width == num::u64_of(fields.len())),
            None => lines.checked_mul(width) == Some(wanted) && (rows || wanted == 0),
        };
        let both_empty = wanted == 0 && lines == 0;
        if !fits && !both_empty {
            return Err(usage!(
                "the input has {lines} lines of {width} cells, which do not fit the shape {shape:?}"
            ));
        }
        let mut held = Held::new(t);
        let header = usize::from(fields.is_some());
        for (i, line) in self.lines.iter().enumerate() {
            let named = |e: Error| e.within(format_args!("line {}", i + 1 + header));
            match fields {
                Some(fields) => held
                    .push(|_, out| {
                        fields
                            .iter()
                            .zip(line)
                            .try_for_each(|(f, cell)| element::from_text(&f.data_type, cell, out))
                    })
                    .map_err(named)?,
                None => {
                    for cell in line {
                        held.push(|t, out| cell_of(t, cell, fill, out)).map_err(named)?;
                    }
                }
            }
        }
        held.slab(shape)
    }
}

fn is_text(t: &DataType) -> bool {
    matches!(t, DataType::String | DataType::Bytes | DataType::FixedBytes(_) | DataType::FixedUtf32(_))
}

fn cell_of(t: &DataType, cell: &str, fill: &Fill, out: &mut Vec<u8>) -> Result<()> {
    if cell.trim().is_empty() && !is_text(t) {
        out.extend_from_slice(&fill.0);
        return Ok(());
    }
    element::from_text(t, cell, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str, t: &DataType) -> Table {
        let mut table = Table::parse(text.as_bytes()).unwrap();
        table.settle(t).unwrap();
        table
    }

    #[test]
    fn cells_are_cut_as_they_were_quoted() {
        let t = table("\u{feff}a,\"b\"\"c\n,\"\r\n,d\n", &DataType::String);
        assert_eq!(t.lines, [["a", "b\"c\n,"], ["", "d"]]);
        assert_eq!(table("x\n\ny", &DataType::String).lines.len(), 3);
        assert_eq!(table("", &DataType::String).lines.len(), 0);
        assert!(Table::parse(b"\"a").is_err());
        assert!(Table::parse(b"1,2\n3\n").unwrap().settle(&DataType::UINT8).is_err());
    }

    #[test]
    fn shapes_follow_from_lines() {
        let int = DataType::Int(16);
        let of = |text, rank| table(text, &int).shape(&int, rank);
        assert_eq!(of("1,2,3\n4,5,6\n", Some(2)), Some(vec![2, 3]));
        assert_eq!(of("1\n2\n\n", None), Some(vec![2]));
        assert_eq!(of("1,2,3", Some(1)), Some(vec![3]));
        assert_eq!(of("1,2\n3,4\n", Some(3)), None);
        let pair = DataType::structure([("a".to_owned(), int.clone()), ("b".to_owned(), int.clone())]);
        let of_pairs = |rank| table("a,b\n1,2\n3,4\n", &pair).shape(&pair, rank);
        assert_eq!(
            (of_pairs(None), of_pairs(Some(1)), of_pairs(Some(2))),
            (Some(vec![2]), Some(vec![2]), None)
        );
        let slab = table("1,2\n,4\n", &int).elements(&int, &Fill(vec![9, 0].into()), &[2, 1, 2]).unwrap();
        assert_eq!(slab.to_vec::<i16>().unwrap(), [1, 2, 9, 4]);
        assert!(table("1,2\n3,4\n", &int).elements(&int, &Fill::zero(&int), &[4]).is_err());
        let column = table("1\n2\n3\n4\n5\n6\n", &int);
        for shape in [&[2, 3, 1][..], &[6], &[6, 1], &[1, 6]] {
            assert!(column.elements(&int, &Fill::zero(&int), shape).is_ok(), "{shape:?}");
        }
        assert!(column.elements(&int, &Fill::zero(&int), &[2, 3]).is_err());
        // A step along the last dimension, without it.
        let step = table("1,2,3\n4,5,6\n", &int).elements(&int, &Fill::zero(&int), &[2, 3, 1]).unwrap();
        assert_eq!(
            (step.shape.as_slice(), step.to_vec::<i16>().unwrap()),
            (&[2, 3, 1][..], vec![1, 2, 3, 4, 5, 6])
        );
        assert!(table("1,2\n3,4\n5,6\n", &int).elements(&int, &Fill::zero(&int), &[2, 3, 1]).is_err());
    }
}
