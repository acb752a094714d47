//! The formats of `zaro read` and `zaro write`, and how they are detected from a file name.

use std::path::Path;

use clap::ValueEnum;

/// The formats of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Readable columns, long arrays truncated
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
    /// The formats of `--input-format`.
    pub(crate) const INPUTS: &'static [(&'static str, &'static str, Self)] = &[
        ("npy", "A numpy file", Self::Npy),
        ("raw", "The bare elements, little-endian", Self::Raw),
        ("csv", "One line per row", Self::Csv),
        ("json", "Nested lists", Self::Json),
    ];

    /// The format by the extension of a file name.
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
