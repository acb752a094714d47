//! `imagecodecs_lzw`: LZW as in TIFF.
//!
//! V2: `{"id": "imagecodecs_lzw"}`. Codes of 9 to 12 bits, most significant bit first; 256 empties the table, 257
//! ends. Codes grow by a bit one code early, as in all TIFF files since 1988.

use weezl::decode::Decoder;
use weezl::encode::Encoder;
use weezl::{BitOrder, LzwStatus};

use super::output::{self, StreamStep};
use super::{BytesToBytes, OutputSize};
use crate::error::{Error, Result};

/// No code of 12 bits stands for more bytes.
const MAX_RATIO: usize = 1 << 12;

/// The `lzw` codec; it has no configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lzw;

impl BytesToBytes for Lzw {
    fn name(&self) -> &'static str {
        "lzw"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        // Before 1988 some wrote the bits in the other order: the first code, 256, shows it.
        if let [0, second, ..] = bytes
            && second & 1 == 1
        {
            return Err(Error::unsupported("old-style LZW (least significant bit first) is not supported"));
        }
        let mut decoder = Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
        let mut rest = bytes;
        output::stream(size, bytes.len(), MAX_RATIO, |out| {
            loop {
                let done = decoder.decode_bytes(rest, out);
                rest = rest.get(done.consumed_in..).unwrap_or_default();
                let status = done.status.map_err(|_| Error::invalid("the LZW stream is damaged"))?;
                // Some writers leave the end code away.
                let end = !matches!(status, LzwStatus::Ok);
                if end || done.consumed_out > 0 {
                    return Ok(StreamStep { written: done.consumed_out, end });
                }
            }
        })
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut encoder = Encoder::with_tiff_size_switch(BitOrder::Msb, 8);
        encoder.encode(bytes).map_err(|e| Error::invalid(e.to_string()))
    }
}
