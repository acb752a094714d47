//! One line per row of the last dimension.
//!
//! * Two and more dimensions: each line is one row along the last dimension, rows in C order.
//! * One dimension: each line is one element. A scalar is one line.
//! * Structs: a header of field names, then one line an element.
//! * In the long form: a header of dimension names and `value`, then one line an element with its place in the array.

use std::io::Write;

use crate::array::Slab;
use crate::array::windows::View;
use crate::error::Result;
use crate::format::value::{self, Style};
use crate::format::{Layout, Sink};
use crate::meta::DataType;

/// Writes lines.
#[derive(Debug)]
pub struct Csv {
    style: Style,
    /// What is read, if each line is to say where its element lies in the array.
    long: Option<View>,
    /// One element a line, unquoted, without a header.
    bare: bool,
    shape: Vec<u64>,
    next: u64,
    text: String,
}

impl Csv {
    /// Times as ISO 8601 if `iso`; one line an element, with its place in the array, if `long` says what is read.
    #[must_use]
    pub fn new(iso: bool, long: Option<View>) -> Self {
        Self {
            style: Style { iso, ..Style::TEXT },
            long,
            bare: false,
            shape: Vec::new(),
            next: 0,
            text: String::new(),
        }
    }

    /// One element a line and nothing else, whatever the shape and type.
    #[must_use]
    pub fn lines() -> Self {
        Self { bare: true, ..Self::new(false, None) }
    }

    /// Where in the array the next element lies, a cell a dimension that was not picked out.
    fn index(&self, view: &View, line: &mut String) {
        let mut rest = self.next;
        let mut index = Vec::with_capacity(self.shape.len());
        for n in self.shape.iter().rev() {
            index.push(rest.checked_rem(*n).unwrap_or(0));
            rest = rest.checked_div(*n).unwrap_or(0);
        }
        for (d, i) in view.dimensions().into_iter().zip(index.iter().rev()) {
            line.push_str(&view.place(d, *i).to_string());
            line.push(',');
        }
    }

    /// Appends an element as one cell, or one cell a field.
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

/// Appends `text`, in quotes if it holds something that would end a cell.
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
        if let Some(view) = &self.long {
            header.extend(view.dimensions().into_iter().enumerate().map(
                |(i, d)| match layout.names.get(i) {
                    Some(Some(name)) => name.clone(),
                    _ => format!("dim{d}"),
                },
            ));
        }
        match &layout.data_type {
            DataType::Struct(fields) if !self.bare => header.extend(fields.iter().map(|f| f.name.clone())),
            _ if self.long.is_some() => header.push("value".into()),
            _ => {}
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
            if let Some(view) = &self.long {
                self.index(view, &mut line);
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
