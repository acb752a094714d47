//! `--format raw`: the elements and nothing else, little-endian.

use std::io::Write;

use zaro::{Error, Result};

use super::{Layout, Sink};
use crate::block::Block;

/// Writes bare elements.
#[derive(Debug, Default)]
pub(crate) struct Raw;

impl Sink for Raw {
    fn begin(&mut self, layout: &Layout, _: &mut dyn Write) -> Result<()> {
        if layout.data_type.is_variable() {
            return Err(Error::usage(format!(
                "elements of type {} have no fixed size, so they cannot be written raw; use --format json or csv",
                layout.data_type
            )));
        }
        Ok(())
    }

    fn block(&mut self, block: &Block, out: &mut dyn Write) -> Result<()> {
        Ok(out.write_all(block.bytes().unwrap_or_default())?)
    }

    fn end(&mut self, _: &mut dyn Write) -> Result<()> {
        Ok(())
    }
}
