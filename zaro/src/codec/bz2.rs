//! `bz2`: bzip2 streams, one after the other.
//!
//! V2: `{"id": "bz2", "level": 1}`, level 1 to 9. TIFF and HDF5 references say `imagecodecs_bz2`.

use bzip2::{Action, Compress, Compression, Decompress, Status};

use super::config::Config;
use super::output::{self, StreamStep};
use super::{BytesToBytes, OutputSize};
use crate::error::{Error, Result};
use crate::num;

/// The greatest expansion seen: a block of 900 000 equal bytes takes about 40, after run-length coding of 46 MB.
const RATIO: usize = 1 << 21;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bz2 {
    level: u32,
}

impl Bz2 {
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        match config.int("level")?.map(u32::try_from) {
            None => Ok(Self { level: 1 }),
            Some(Ok(level)) if (1..=9).contains(&level) => Ok(Self { level }),
            Some(_) => Err(Error::invalid("\"level\" must be 1 to 9").with_field("level")),
        }
    }
}

/// Steps through all streams of `bytes`.
fn steps(bytes: &[u8]) -> impl FnMut(&mut [u8]) -> Result<StreamStep> {
    let mut rest = bytes;
    let mut stream = Some(Decompress::new(false));
    move |out| {
        loop {
            let Some(current) = &mut stream else { return Ok(StreamStep { written: 0, end: true }) };
            let (read, written) = (current.total_in(), current.total_out());
            let status = current
                .decompress(rest, out)
                .map_err(|e| Error::invalid("the bzip2 stream is damaged").with_source(e))?;
            let read = num::usize_of(current.total_in() - read)?;
            let written = num::usize_of(current.total_out() - written)?;
            rest = rest.get(read..).unwrap_or_default();
            if status == Status::StreamEnd {
                // Zeros after the last stream are padding.
                let more = rest.iter().any(|b| *b != 0);
                stream = more.then(|| Decompress::new(false));
            } else if read == 0 && written == 0 {
                return Err(Error::invalid("the bzip2 stream is truncated"));
            }
            if written > 0 {
                return Ok(StreamStep { written, end: stream.is_none() });
            }
        }
    }
}

impl BytesToBytes for Bz2 {
    fn name(&self) -> &'static str {
        "bz2"
    }

    fn expansion(&self) -> usize {
        RATIO
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        output::stream(size, bytes.len(), RATIO, steps(bytes))
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        output::stream_into(out, steps(bytes))
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let fault = |e| Error::invalid("bzip2 compression failed").with_source(e);
        let mut compress = Compress::new(Compression::new(self.level), 0);
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 1024);
        loop {
            let read = num::usize_of(compress.total_in())?;
            let status = compress
                .compress_vec(bytes.get(read..).unwrap_or_default(), &mut out, Action::Finish)
                .map_err(fault)?;
            if status == Status::StreamEnd {
                return Ok(out);
            }
            out.reserve(bytes.len() / 16 + 1024);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_streams_are_read() {
        let bz2 = Bz2 { level: 1 };
        let one = bz2.encode(&b"zaro".repeat(20)).unwrap();
        let two = [&one[..], &bz2.encode(b"").unwrap(), &one, &[0; 3]].concat();
        for size in [OutputSize::Exact(160), OutputSize::AtMost(160), OutputSize::AtMost(9999)] {
            assert_eq!(bz2.decode(&two, size).unwrap(), b"zaro".repeat(40));
        }
        assert!(bz2.decode(&two, OutputSize::Exact(80)).is_err());
        assert!(bz2.decode(b"", OutputSize::Exact(0)).is_err());
    }
}
