//! Conversions between the number types of files, memory and indexes, each checked once, here.
//!
//! `as` is denied everywhere else: a number from outside never changes its value silently.
#![allow(clippy::as_conversions)]

use crate::error::{Error, Result};

const _: () = assert!(size_of::<usize>() <= size_of::<u64>(), "usize fits into u64");

/// A length in memory as a `u64`; always fits.
#[inline]
#[must_use]
pub fn u64_of(n: usize) -> u64 {
    n as u64
}

/// A number from outside as a length in memory; an error on machines where it does not fit.
#[inline]
pub fn usize_of(n: u64) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::invalid(format!("{n} bytes do not fit into this machine's memory")))
}

/// The product of extents, or an error if it leaves `u64`.
pub fn product(extents: &[u64]) -> Result<u64> {
    extents
        .iter()
        .try_fold(1u64, |acc, &n| acc.checked_mul(n))
        .ok_or_else(|| Error::invalid(format!("the extents {extents:?} have a product beyond 2^64")))
}

/// The product of extents as a length in memory.
pub fn product_usize(extents: &[u64]) -> Result<usize> {
    usize_of(product(extents)?)
}
