//! What an answer is written as: one file a format.
//!
//! A [`Sink`] takes an answer in pieces, in the order of its memory, so that nothing larger than a piece need exist
//! at once.

use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use zaro::Result;
use zaro::array::Order;
use zaro::meta::DataType;

use crate::block::Block;

pub(crate) mod csv;
pub(crate) mod json;
pub(crate) mod npy;
pub(crate) mod png;
pub(crate) mod raw;
pub(crate) mod table;

/// The formats of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people: columns, long arrays cut short
    Table,
    /// One line per row, no header
    Csv,
    /// Nested lists, exact numbers
    Json,
    /// A numpy file
    Npy,
    /// The bare elements, little-endian
    Raw,
    /// A picture of two dimensions
    Png,
}

impl Format {
    /// The format that a file's name asks for.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Self::Csv,
            "json" => Self::Json,
            "npy" => Self::Npy,
            "raw" | "bin" => Self::Raw,
            "png" => Self::Png,
            _ => return None,
        })
    }
}

/// What a whole answer looks like.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Its extents.
    pub(crate) shape: Vec<u64>,
    /// The names of its dimensions, where they have one.
    pub(crate) names: Vec<Option<String>>,
    /// The type of its elements, after `--cf`.
    pub(crate) data_type: DataType,
    /// The order of its elements.
    pub(crate) order: Order,
    /// For text that is to become fixed-width: the longest, in code points.
    pub(crate) width: usize,
}

impl Layout {
    /// `(time: 12, lat: 180, 360)`.
    pub(crate) fn shape_text(&self) -> String {
        shape_text(&self.shape, &self.names)
    }
}

/// `(time: 12, lat: 180, 360)`.
pub(crate) fn shape_text(shape: &[u64], names: &[Option<String>]) -> String {
    let parts: Vec<String> = shape
        .iter()
        .enumerate()
        .map(|(i, n)| match names.get(i) {
            Some(Some(name)) => format!("{}: {n}", crate::paint::plain(name)),
            _ => n.to_string(),
        })
        .collect();
    format!("({})", parts.join(", "))
}

/// Where an answer goes, piece by piece.
pub(crate) trait Sink {
    /// Whether [`Layout::width`] has to be known for text.
    fn needs_width(&self) -> bool {
        false
    }

    /// Before the first piece.
    fn begin(&mut self, layout: &Layout, out: &mut dyn Write) -> Result<()>;

    /// The next piece.
    fn block(&mut self, block: &Block, out: &mut dyn Write) -> Result<()>;

    /// After the last piece.
    fn end(&mut self, out: &mut dyn Write) -> Result<()>;
}
