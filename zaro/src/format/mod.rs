//! Output and input formats of array elements: text, JSON, CSV, numpy files, raw bytes, PNG pictures.
//!
//! Elements are bytes in a [`Slab`]. `value` formats one as text, `element` parses it, `cast` converts it to another
//! type, and `dtype` parses names of types.
//!
//! A [`Sink`] takes a result in blocks, in memory order, so that only one block need be in memory: [`Csv`],
//! [`JsonLists`], [`Npy`], [`Raw`] and, with the feature `image`, `Picture`. [`Input`] reads these formats. Numpy files
//! and raw elements are read window by window, JSON and CSV whole.

pub(crate) mod calendar;
pub(crate) mod cast;
#[cfg(feature = "image")]
pub(crate) mod colormap;
pub(crate) mod csv;
pub(crate) mod describe;
pub(crate) mod dtype;
pub(crate) mod element;
mod held;
pub(crate) mod input;
pub(crate) mod json;
pub(crate) mod model;
pub(crate) mod npy;
#[cfg(feature = "image")]
pub(crate) mod picture;
pub(crate) mod raw;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod value;

use std::io::Write;

#[cfg(feature = "image")]
pub use colormap::Colormap;
pub use csv::{Column, Csv, Table};
pub use input::{Elements, Input};
pub use json::JsonLists;
pub use npy::Npy;
#[cfg(feature = "image")]
pub use picture::{Drawing, Picture};
pub use raw::{Raw, RawOrigin};

use crate::array::{Order, Slab};
use crate::error::Result;
use crate::meta::DataType;

/// Shape, type and order of a whole result.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Its extents.
    pub shape: Vec<u64>,
    /// The names of its dimensions, if they have one.
    pub names: Vec<Option<String>>,
    /// The type of its elements.
    pub data_type: DataType,
    /// The order of its elements.
    pub order: Order,
    /// For text that becomes fixed-width: the longest, in code points.
    pub width: usize,
}

impl Layout {
    /// `(time: 12, lat: 180, 360)`.
    #[must_use]
    pub fn shape_text(&self) -> String {
        shape_text(&self.shape, &self.names)
    }
}

/// `(time: 12, lat: 180, 360)`.
#[must_use]
pub fn shape_text(shape: &[u64], names: &[Option<String>]) -> String {
    let part = |(i, n): (usize, &u64)| match names.get(i) {
        Some(Some(name)) => format!("{name}: {n}"),
        _ => n.to_string(),
    };
    format!("({})", shape.iter().enumerate().map(part).collect::<Vec<_>>().join(", "))
}

/// A writer of results, block by block.
pub trait Sink {
    /// Whether [`Layout::width`] has to be known for text.
    fn needs_width(&self) -> bool {
        false
    }

    /// Called before the first block.
    fn begin(&mut self, layout: &Layout, out: &mut dyn Write) -> Result<()>;

    /// Writes the next block.
    fn block(&mut self, block: &Slab, out: &mut dyn Write) -> Result<()>;

    /// Called after the last block.
    fn end(&mut self, _out: &mut dyn Write) -> Result<()> {
        Ok(())
    }
}
