//! Fill values, kept as bits.
//!
//! A fill value never passes through a floating-point conversion on its way from the metadata to the answer: the
//! payload of a NaN, the sign of a zero and all 64 bits of an integer survive.

/// A fill value: the bytes of one element (little-endian), or the content of one variable-length element.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Fill(pub Vec<u8>);

impl Fill {
    /// Whether every bit is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|b| *b == 0)
    }
}
