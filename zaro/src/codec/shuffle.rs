//! `shuffle`: the first bytes of all elements, then the second bytes of all, and so on; HDF5's filter 2.
//!
//! V2: `{"id": "shuffle", "elementsize": 4}`; V3 writers name it `numcodecs.shuffle`. Bytes after the last whole
//! element stay where they are, as in HDF5; such bytes occur where a checksum comes before the shuffle, as netCDF
//! writes it.

use super::blosc::shuffle::{shuffle, unshuffle};
use super::config::Config;
use super::{BytesToBytes, Size, output};
use crate::error::{Error, Result};
use crate::num;

/// The `shuffle` codec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shuffle {
    element: usize,
}

impl Shuffle {
    /// From its configuration.
    pub fn from_config(config: &Config<'_>) -> Result<Self> {
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

    fn encoded_size(&self, decoded: Size) -> Result<Size> {
        Ok(decoded)
    }

    fn decode(&self, bytes: &[u8], size: Size) -> Result<Vec<u8>> {
        size.check(bytes.len())?;
        let mut out = output::zeroed(bytes.len())?;
        unshuffle(self.element, bytes, &mut out);
        Ok(out)
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        Size::Exact(out.len()).check(bytes.len())?;
        unshuffle(self.element, bytes, out);
        Ok(())
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = output::zeroed(bytes.len())?;
        shuffle(self.element, bytes, &mut out);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{hex, members_of, round_trip};
    use super::*;

    #[test]
    fn round_trips_and_leaves_the_tail() {
        for element in [1, 2, 3, 4, 8, 16, 1000, usize::MAX] {
            round_trip(&Shuffle { element });
        }
        let codec = Shuffle::from_config(&Config::new(&[])).unwrap();
        let bytes = hex("00010203101112132021");
        assert_eq!(codec.encode(&bytes).unwrap(), hex("00100111021203132021"));
        assert!(Shuffle::from_config(&Config::new(&members_of("{\"elementsize\": 0}"))).is_err());
    }
}
