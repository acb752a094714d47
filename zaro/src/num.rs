//! Checked conversions between the integer types of files, memory and indexes.
//!
//! `as` is denied everywhere else: an external number never changes its value silently.
#![allow(clippy::as_conversions)]

use crate::error::{Error, Result};

const _: () = assert!(size_of::<usize>() <= size_of::<u64>(), "usize fits into u64");

/// A length in memory as a `u64`; always fits.
#[inline]
#[must_use]
pub fn u64_of(n: usize) -> u64 {
    n as u64
}

/// An external number as a length in memory; an error on machines where it does not fit.
#[inline]
pub(crate) fn usize_of(n: u64) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::invalid(format!("{n} bytes do not fit into this machine's memory")))
}

/// The product of extents, or an error if it leaves `u64`.
pub(crate) fn product(extents: &[u64]) -> Result<u64> {
    extents
        .iter()
        .try_fold(1u64, |acc, &n| acc.checked_mul(n))
        .ok_or_else(|| Error::invalid(format!("the extents {extents:?} have a product beyond 2^64")))
}

/// The product of extents as a length in memory.
pub(crate) fn product_usize(extents: &[u64]) -> Result<usize> {
    usize_of(product(extents)?)
}

/// The index of element `number` in this shape, the last dimension varying fastest.
pub(crate) fn index_of(mut number: u64, extents: &[u64]) -> Vec<u64> {
    let mut index = vec![0; extents.len()];
    for (i, n) in index.iter_mut().zip(extents).rev() {
        *i = number.checked_rem(*n).unwrap_or(0);
        number = number.checked_div(*n).unwrap_or(0);
    }
    index
}

/// An unsigned little-endian integer of up to eight bytes.
pub(crate) fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().rev().take(8).fold(0, |n, b| n << 8 | u64::from(*b))
}

/// A signed little-endian integer of up to eight bytes.
pub(crate) fn signed(bytes: &[u8]) -> i64 {
    let start = if bytes.last().is_some_and(|b| b & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().rev().take(8).fold(start, |n: i64, b| n << 8 | i64::from(*b))
}

/// The nearest `f64`; loses the low bits beyond 2^53.
#[must_use]
pub fn f64_of_u64(n: u64) -> f64 {
    n as f64
}

/// The nearest `f64`; loses the low bits beyond 2^53.
#[must_use]
pub(crate) fn f64_of_i64(n: i64) -> f64 {
    n as f64
}

/// The nearest `f64`; loses the low bits beyond 2^53.
#[must_use]
pub fn f64_of_usize(n: usize) -> f64 {
    n as f64
}

/// The nearest `f64`; loses the low bits beyond 2^53.
#[must_use]
pub(crate) fn f64_of_i128(n: i128) -> f64 {
    n as f64
}

/// `x` rounded to the nearest integer, saturating; NaN is 0.
#[must_use]
pub(crate) fn i128_of_f64(x: f64) -> i128 {
    x.round() as i128
}

/// `x` rounded down, saturating at 0 and at the maximum; NaN is 0.
#[must_use]
pub fn u64_of_f64(x: f64) -> u64 {
    x.floor() as u64
}

/// `x` rounded down, saturating at 0; NaN is 0.
#[must_use]
pub(crate) fn usize_of_f64(x: f64) -> usize {
    x.floor() as usize
}

/// `x` rounded to the nearest byte, saturating at 0 and 255; NaN is 0.
#[must_use]
pub(crate) fn u8_of_f64(x: f64) -> u8 {
    x.round() as u8
}
