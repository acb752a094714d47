//! `shuffle`: the first bytes of all elements, then the second bytes of all, and so on; HDF5's filter 2.
//!
//! V2: `{"id": "shuffle", "elementsize": 4}`; V3 writers name it `numcodecs.shuffle`. Bytes after the last whole
//! element stay where they are, as in HDF5; such bytes occur where a checksum comes before the shuffle, as netCDF
//! writes it.

use super::blosc::shuffle::{shuffle, unshuffle};
use super::config::Config;
use super::{BytesToBytes, OutputSize, output};
use crate::error::{Error, Result};
use crate::num;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shuffle {
    element: usize,
}

impl Shuffle {
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        match config.uint("elementsize")? {
            Some(0) => Err(Error::invalid("\"elementsize\" must be positive").with_field("elementsize")),
            n => Ok(Self { element: num::usize_of(n.unwrap_or(4))? }),
        }
    }
}

impl BytesToBytes for Shuffle {
    fn name(&self) -> &'static str {
        "shuffle"
    }

    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        Ok(decoded)
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        size.check(bytes.len())?;
        let mut out = output::zeroed(bytes.len())?;
        unshuffle(self.element, bytes, &mut out);
        Ok(out)
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        OutputSize::Exact(out.len()).check(bytes.len())?;
        unshuffle(self.element, bytes, out);
        Ok(())
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = output::zeroed(bytes.len())?;
        shuffle(self.element, bytes, &mut out);
        Ok(out)
    }
}
