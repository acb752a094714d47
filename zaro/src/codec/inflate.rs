//! Deflate decompression with libdeflate, which needs the whole input and room for the whole output.
//!
//! The safe bindings do not tell how much input was read, and without that the members of a gzip file cannot be told
//! apart; hence these few lines of our own.
#![allow(unsafe_code)]

use std::cell::OnceCell;
use std::ptr::NonNull;

use libdeflate_sys as sys;

use crate::error::{Error, Result};

/// The greatest expansion deflate can reach.
pub(crate) const RATIO: usize = 1032;

/// What is around the deflate stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapper {
    /// RFC 1952: header, CRC-32 and length.
    Gzip,
    /// RFC 1950: header and Adler-32.
    Zlib,
    /// Nothing.
    Raw,
}

/// How far one decompression came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InflateOutcome {
    /// The stream ended.
    Done {
        /// Input bytes it took.
        read: usize,
        /// Output bytes it gave.
        written: usize,
    },
    /// The output had no room for all of it.
    Full,
}

/// Decompresses the one stream at the start of `input` into the start of `out`, and checks its checksum.
pub(crate) fn inflate(wrapper: Wrapper, input: &[u8], out: &mut [u8]) -> Result<InflateOutcome> {
    thread_local! {
        static INFLATER: OnceCell<Inflater> = const { OnceCell::new() };
    }
    INFLATER.with(|cell| {
        if cell.get().is_none() {
            let _ = cell.set(Inflater::new()?);
        }
        match cell.get() {
            Some(inflater) => inflater.run(wrapper, input, out),
            None => Err(no_memory()),
        }
    })
}

struct Inflater(NonNull<sys::libdeflate_decompressor>);

impl Inflater {
    fn new() -> Result<Self> {
        // SAFETY: no arguments; null, its only failure, is checked here.
        NonNull::new(unsafe { sys::libdeflate_alloc_decompressor() }).map(Self).ok_or_else(no_memory)
    }

    fn run(&self, wrapper: Wrapper, input: &[u8], out: &mut [u8]) -> Result<InflateOutcome> {
        let decompress = match wrapper {
            Wrapper::Gzip => sys::libdeflate_gzip_decompress_ex,
            Wrapper::Zlib => sys::libdeflate_zlib_decompress_ex,
            Wrapper::Raw => sys::libdeflate_deflate_decompress_ex,
        };
        let (mut read, mut written) = (0, 0);
        // SAFETY: the decompressor is live until drop and, being in a thread-local that is not handed out, used by
        // one call at a time; input and output are slices, passed with their own lengths, of which the library reads
        // resp. writes no more, and they do not overlap since one is borrowed mutably; the two results are live
        // locals. Bytes of `out` are plain numbers, so any that are written leave it valid.
        let code = unsafe {
            decompress(
                self.0.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                out.as_mut_ptr().cast(),
                out.len(),
                &raw mut read,
                &raw mut written,
            )
        };
        match code {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS if read <= input.len() && written <= out.len() => {
                Ok(InflateOutcome::Done { read, written })
            }
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Ok(InflateOutcome::Full),
            _ => Err(Error::invalid("the deflate stream is damaged")),
        }
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: it came from libdeflate_alloc_decompressor and is freed once, here.
        unsafe { sys::libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

fn no_memory() -> Error {
    Error::unsupported("out of memory for a decompressor")
}
