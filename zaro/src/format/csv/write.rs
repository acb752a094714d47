//! Writes CSV.
//!
//! * Two and more dimensions: each line is one row along the last dimension, rows in C order.
//! * One dimension: each line is one element. A scalar is one line.
//! * Structs: a header of field names, then one line per element.
//! * Long form: a header, then one line per element, with [`Column`]s for its coordinates.

use std::fmt;
use std::io::Write;

use crate::array::Slab;
use crate::array::windows::ArrayView;
use crate::error::Result;
use crate::format::value::{self, Style};
use crate::format::{Layout, Sink};
use crate::meta::DataType;
use crate::num;

/// A column of the long form: a label for each element by its position in the result.
pub struct Column {
    /// The name in the header.
    pub name: String,
    /// The dimension of the result along which it varies; `None` if it is constant.
    pub dimension: Option<usize>,
    /// The label at a position along that dimension.
    pub label: Box<dyn Fn(u64) -> String + Send + Sync>,
}

impl Column {
    /// The position of each element in the array of `view`: a column per dimension that is not selected by a single
    /// position.
    #[must_use]
    pub fn places(view: &ArrayView, names: &[Option<String>]) -> Vec<Self> {
        let column = |(i, d): (usize, usize)| {
            let view = view.clone();
            let name = names.get(i).cloned().flatten().unwrap_or_else(|| format!("dim{d}"));
            Self { name, dimension: Some(i), label: Box::new(move |at| view.place(d, at).to_string()) }
        };
        view.dimensions().into_iter().enumerate().map(column).collect()
    }
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Column {}", self.name)
    }
}

/// Writes lines.
#[derive(Debug)]
pub struct Csv {
    style: Style,
    /// For the long form: the columns before the element, and the name of its column.
    long: Option<(Vec<Column>, String)>,
    /// One element per line, unquoted, without a header.
    bare: bool,
    shape: Vec<u64>,
    next: u64,
    text: String,
}

impl Csv {
    /// Times as ISO 8601 if `iso`.
    #[must_use]
    pub fn new(iso: bool) -> Self {
        Self {
            style: Style { iso, ..Style::TEXT },
            long: None,
            bare: false,
            shape: Vec::new(),
            next: 0,
            text: String::new(),
        }
    }

    /// Long form: one line per element, with these columns and one called `name` for the element.
    #[must_use]
    pub fn long(self, columns: Vec<Column>, name: &str) -> Self {
        Self { long: Some((columns, name.to_owned())), ..self }
    }

    /// One element per line and nothing else, whatever the shape and type.
    #[must_use]
    pub fn lines() -> Self {
        Self { bare: true, ..Self::new(false) }
    }

    /// Appends the labels of the next element.
    fn labels(&self, columns: &[Column], line: &mut String) {
        let index = num::index_of(self.next, &self.shape);
        for column in columns {
            let at = column.dimension.and_then(|d| index.get(d)).copied().unwrap_or(0);
            quote(&(column.label)(at), line);
            line.push(',');
        }
    }

    /// Appends an element as one cell, or one cell per field.
    fn cells(&mut self, t: &DataType, item: &[u8], line: &mut String) {
        if let DataType::Struct(fields) = t {
            for (i, field) in fields.iter().enumerate() {
                if i > 0 {
                    line.push(',');
                }
                let part = item.get(field.offset..field.offset.saturating_add(field.data_type.size()));
                self.cell(&field.data_type, part.unwrap_or_default(), line);
            }
        } else {
            self.cell(t, item, line);
        }
    }

    fn cell(&mut self, t: &DataType, item: &[u8], line: &mut String) {
        self.text.clear();
        value::write(t, item, self.style, &mut self.text);
        quote(&self.text, line);
    }
}

/// Appends `text`, quoted if necessary.
fn quote(text: &str, line: &mut String) {
    if text.contains([',', '"', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

impl Sink for Csv {
    fn begin(&mut self, layout: &Layout, out: &mut dyn Write) -> Result<()> {
        self.shape.clone_from(&layout.shape);
        let mut header: Vec<String> = Vec::new();
        if let Some((columns, _)) = &self.long {
            header.extend(columns.iter().map(|column| column.name.clone()));
        }
        match &layout.data_type {
            DataType::Struct(fields) if !self.bare => header.extend(fields.iter().map(|f| f.name.clone())),
            _ => header.extend(self.long.iter().map(|(_, name)| name.clone())),
        }
        if !header.is_empty() {
            let mut line = String::new();
            for (i, name) in header.iter().enumerate() {
                if i > 0 {
                    line.push(',');
                }
                quote(name, &mut line);
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn block(&mut self, block: &Slab, out: &mut dyn Write) -> Result<()> {
        let by_element = self.long.is_some()
            || self.bare
            || self.shape.len() < 2
            || matches!(block.data_type, DataType::Struct(_));
        let row = if by_element { 1 } else { self.shape.last().copied().unwrap_or(1).max(1) };
        let mut line = String::new();
        for i in 0..block.len() {
            line.clear();
            if let Some((columns, _)) = &self.long {
                self.labels(columns, &mut line);
            }
            let item = block.item(i).unwrap_or_default();
            if self.bare {
                value::write(&block.data_type, item, self.style, &mut line);
            } else {
                self.cells(&block.data_type, item, &mut line);
            }
            self.next = self.next.saturating_add(1);
            line.push(if self.next.is_multiple_of(row) { '\n' } else { ',' });
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_would_break_a_line_are_quoted() {
        let mut line = String::new();
        quote("a\"b,c", &mut line);
        assert_eq!(line, "\"a\"\"b,c\"");
    }
}
