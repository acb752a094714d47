//! The LZ4 block format, with the reference library, which is the fastest decoder.
//!
//! Blosc, numcodecs' `lz4` and HDF5's LZ4 filter put their own framing around these blocks.
#![allow(unsafe_code)]

use std::ffi::c_int;

use crate::error::{Error, Result};

/// The greatest expansion a block can reach.
pub(crate) const RATIO: usize = 255;

/// Decompresses one block into the start of `out`; returns how much was written. An output that is too small is an
/// error like any other, as the format cannot tell the two apart.
pub(crate) fn decompress(block: &[u8], out: &mut [u8]) -> Result<usize> {
    let size = length(block.len())?;
    // More room than a C int can say is never needed.
    let room = c_int::try_from(out.len()).unwrap_or(c_int::MAX);
    // SAFETY: both pointers are those of slices, of which the library reads at most `size` and writes at most `room`
    // bytes, whatever the block holds ("safe" in its name says so); neither number is above the slice's length. The
    // slices do not overlap, as one is borrowed mutably.
    let n =
        unsafe { lz4_sys::LZ4_decompress_safe(block.as_ptr().cast(), out.as_mut_ptr().cast(), size, room) };
    usize::try_from(n).map_err(|_| Error::invalid("the LZ4 block is damaged, or holds more than expected"))
}

/// Compresses one block. A greater `acceleration` (from 1) is faster and worse.
pub(crate) fn compress(bytes: &[u8], acceleration: i32) -> Result<Vec<u8>> {
    run(bytes, |source, dest, size, room| {
        // SAFETY: see `run`, which alone calls this.
        unsafe { lz4_sys::LZ4_compress_fast(source, dest, size, room, acceleration) }
    })
}

/// Compresses one block more thoroughly; `level` is 1 to 12.
pub(crate) fn compress_hc(bytes: &[u8], level: i32) -> Result<Vec<u8>> {
    run(bytes, |source, dest, size, room| {
        // SAFETY: see `run`, which alone calls this.
        unsafe { lz4_sys::LZ4_compress_HC(source, dest, size, room, level) }
    })
}

type Char = lz4_sys::c_char;

/// Gives `compress` pointers to `size` readable bytes and `room` writable ones that do not overlap; it must touch no
/// others and return how many it wrote.
fn run(
    bytes: &[u8],
    compress: impl FnOnce(*const Char, *mut Char, c_int, c_int) -> c_int,
) -> Result<Vec<u8>> {
    let size = length(bytes.len())?;
    // The library's bound is size + size / 255 + 16, for sizes up to 0x7e000000.
    let bound = bytes.len() + bytes.len() / 255 + 16;
    let room = length(bound)?;
    let mut out = vec![0; bound];
    let n = compress(bytes.as_ptr().cast(), out.as_mut_ptr().cast(), size, room);
    match usize::try_from(n) {
        Ok(n) if n > 0 => {
            out.truncate(n);
            Ok(out)
        }
        _ => Err(Error::invalid("LZ4 compression failed")),
    }
}

fn length(n: usize) -> Result<c_int> {
    c_int::try_from(n).map_err(|_| Error::invalid("LZ4 blocks are limited to 2 GiB"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Noise;
    use super::*;

    #[test]
    fn blocks_round_trip_and_need_their_room() {
        for n in [0, 1, 12, 13, 1000, 100_000] {
            let data = Noise(1).smooth(n);
            for block in
                [compress(&data, 1).unwrap(), compress(&data, 9).unwrap(), compress_hc(&data, 9).unwrap()]
            {
                let mut out = vec![0; n];
                assert_eq!(decompress(&block, &mut out).unwrap(), n);
                assert!(out == data);
                if n > 0 {
                    assert!(decompress(&block, &mut out[1..]).is_err());
                }
            }
        }
        assert!(decompress(b"", &mut [0; 5]).is_err());
    }
}
