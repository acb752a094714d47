//! One block of `4^d` values: to integers, transformed, sorted, coded bit plane by bit plane.
//!
//! A block of integers is just its coefficients; a reversible one has the number of its bit planes before them. A
//! block of floats begins with a bit that says whether it has any value but zero, and the exponent of the largest one;
//! values are then integers relative to that. In reversible mode another bit says whether that loses nothing; if it
//! does, the bit patterns are coded as integers instead.
//!
//! Arithmetic on the numbers of bits wraps, as in zfp: where a limit is too low even for an exponent, zfp behaves as
//! if there were none, and so must a reader.

use super::lift::{self, Int};
use super::params::Params;
use super::plane;
use super::stream::{Reader, Writer};
use crate::error::{Error, Result};

/// A type that zfp can code.
pub(super) trait Scalar: Copy + Default {
    /// Bytes of a value.
    const SIZE: usize;

    /// From little-endian bytes; zero if there are too few.
    fn load(bytes: &[u8]) -> Self;

    /// To little-endian bytes.
    fn store(self, bytes: &mut [u8]);

    /// Decodes a block of a `d`-dimensional array.
    fn decode<const N: usize, const W: usize>(from: &mut Reader<'_>, params: &Params, d: u32) -> [Self; N];

    /// Encodes a block of a `d`-dimensional array.
    fn encode<const N: usize, const W: usize>(
        to: &mut Writer,
        params: &Params,
        d: u32,
        block: &[Self; N],
    ) -> Result<()>;
}

/// Decodes integers of which `bits` bits have been read already.
#[inline(always)]
fn decode_ints<T: Int, const N: usize, const W: usize>(
    from: &mut Reader<'_>,
    params: &Params,
    precision: u32,
    bits: u32,
) -> [T; N] {
    let (values, read) = plane::decode::<T, N, W>(from, params.max_bits.wrapping_sub(bits), precision);
    from.skip(params.min_bits.saturating_sub(bits).saturating_sub(read));
    let mut block = lift::unsorted(&values);
    lift::lossy_backward(&mut block);
    block
}

/// The same in reversible mode.
#[inline(always)]
fn decode_ints_exactly<T: Int, const N: usize, const W: usize>(
    from: &mut Reader<'_>,
    params: &Params,
    bits: u32,
) -> [T; N] {
    let precision = u32::try_from(from.bits(T::PRECISION_BITS)).unwrap_or(0) + 1;
    let bits = bits + T::PRECISION_BITS;
    let (values, read) = plane::decode::<T, N, W>(from, params.max_bits.wrapping_sub(bits), precision);
    from.skip(params.min_bits.saturating_sub(bits).saturating_sub(read));
    let mut block = lift::unsorted(&values);
    lift::exact_backward(&mut block);
    block
}

/// Encodes integers after `bits` bits of this block.
#[inline(always)]
fn encode_ints<T: Int, const N: usize, const W: usize>(
    to: &mut Writer,
    params: &Params,
    precision: u32,
    bits: u32,
    mut block: [T; N],
) {
    lift::lossy_forward(&mut block);
    let values = lift::sorted(&block);
    let written = plane::encode::<T, N, W>(to, params.max_bits.wrapping_sub(bits), precision, &values);
    to.pad(params.min_bits.saturating_sub(bits).saturating_sub(written));
}

/// The same in reversible mode.
#[inline(always)]
fn encode_ints_exactly<T: Int, const N: usize, const W: usize>(
    to: &mut Writer,
    params: &Params,
    bits: u32,
    mut block: [T; N],
) {
    lift::exact_forward(&mut block);
    let values = lift::sorted(&block);
    let any = values.iter().fold(0, |acc, v| acc | v);
    let precision = T::BITS.saturating_sub(any.trailing_zeros()).min(params.max_prec).max(1);
    to.put(u64::from(precision - 1), T::PRECISION_BITS);
    let bits = bits + T::PRECISION_BITS;
    let written = plane::encode::<T, N, W>(to, params.max_bits.wrapping_sub(bits), precision, &values);
    to.pad(params.min_bits.saturating_sub(bits).saturating_sub(written));
}

macro_rules! integer {
    ($type:ty) => {
        impl Scalar for $type {
            const SIZE: usize = size_of::<$type>();

            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0, |b| <$type>::from_le_bytes(*b))
            }

            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                if let Some(b) = bytes.first_chunk_mut() {
                    *b = self.to_le_bytes();
                }
            }

            fn decode<const N: usize, const W: usize>(
                from: &mut Reader<'_>,
                params: &Params,
                _d: u32,
            ) -> [Self; N] {
                if params.reversible() {
                    decode_ints_exactly::<Self, N, W>(from, params, 0)
                } else {
                    decode_ints::<Self, N, W>(from, params, params.max_prec, 0)
                }
            }

            fn encode<const N: usize, const W: usize>(
                to: &mut Writer,
                params: &Params,
                _d: u32,
                block: &[Self; N],
            ) -> Result<()> {
                if params.reversible() {
                    encode_ints_exactly::<Self, N, W>(to, params, 0, *block);
                } else {
                    encode_ints::<Self, N, W>(to, params, params.max_prec, 0, *block);
                }
                Ok(())
            }
        }
    };
}

integer!(i32);
integer!(i64);

/// What the two float types differ in.
trait Float: Scalar + Default + PartialEq {
    /// The integers of the same width.
    type Int: Int;
    /// The width of the exponent.
    const EXPONENT_BITS: u32;
    /// What is added to an exponent when written; its negative stands for "all zero".
    const BIAS: i32 = (1 << (Self::EXPONENT_BITS - 1)) - 1;
    /// The exponent of the largest magnitude in the block, such that all are below `2^e`. `None` if not finite.
    fn exponent<const N: usize>(block: &[Self; N]) -> Option<i32>;
    /// `2^e`: zero or infinity if out of range.
    fn power(e: i32) -> Self;
    /// `self * scale`, without its fraction.
    fn to_int(self, scale: Self) -> Self::Int;
    /// `scale * i`, rounded.
    fn from_int(i: Self::Int, scale: Self) -> Self;
    /// The bits as a number that sorts like the float.
    fn to_pattern(self) -> Self::Int;
    /// The inverse.
    fn from_pattern(i: Self::Int) -> Self;

    /// The scale that makes integers of values below `2^e`.
    fn scale_up(e: i32) -> Self {
        Self::power(Self::Int::BITS.cast_signed() - 2 - e)
    }

    /// The scale that undoes it.
    fn scale_down(e: i32) -> Self {
        Self::power(e - (Self::Int::BITS.cast_signed() - 2))
    }
}

/// How many bit planes of a block with exponent `e` are kept.
fn precision(e: i32, params: &Params, d: u32) -> u32 {
    let planes = i64::from(e) - i64::from(params.min_exp) + 2 * i64::from(d) + 2;
    params.max_prec.min(u32::try_from(planes.max(0)).unwrap_or(u32::MAX))
}

#[inline(always)]
fn decode_floats<F: Float, const N: usize, const W: usize>(
    from: &mut Reader<'_>,
    params: &Params,
    d: u32,
) -> [F; N] {
    let reversible = params.reversible();
    if from.bits(1) == 0 {
        from.skip(params.min_bits.saturating_sub(1));
        return [F::default(); N];
    }
    if reversible && from.bits(1) == 1 {
        return decode_ints_exactly::<F::Int, N, W>(from, params, 2).map(F::from_pattern);
    }
    let e = i32::try_from(from.bits(F::EXPONENT_BITS)).unwrap_or(0) - F::BIAS;
    let block = if reversible {
        let block = decode_ints_exactly::<F::Int, N, W>(from, params, 2 + F::EXPONENT_BITS);
        if e == -F::BIAS {
            return [F::default(); N];
        }
        block
    } else {
        decode_ints::<F::Int, N, W>(from, params, precision(e, params, d), 1 + F::EXPONENT_BITS)
    };
    let scale = F::scale_down(e);
    block.map(|i| F::from_int(i, scale))
}

#[inline(always)]
fn encode_floats<F: Float, const N: usize, const W: usize>(
    to: &mut Writer,
    params: &Params,
    d: u32,
    block: &[F; N],
) -> Result<()> {
    let exponent = F::exponent(block);
    if params.reversible() {
        let relative = exponent.and_then(|e| relative_exactly(block, e).map(|ints| (e, ints)));
        match relative {
            Some((e, _)) if e == -F::BIAS => {
                to.put(0, 1);
                to.pad(params.min_bits.saturating_sub(1));
            }
            Some((e, ints)) => {
                to.put(0b01, 2);
                to.put(u64::from((e + F::BIAS).unsigned_abs()), F::EXPONENT_BITS);
                encode_ints_exactly::<F::Int, N, W>(to, params, 2 + F::EXPONENT_BITS, ints);
            }
            None => {
                to.put(0b11, 2);
                encode_ints_exactly::<F::Int, N, W>(to, params, 2, block.map(F::to_pattern));
            }
        }
        return Ok(());
    }
    let Some(e) = exponent else {
        return Err(Error::invalid("NaN and infinity can be held in reversible mode only"));
    };
    let precision = precision(e, params, d);
    let biased = (e + F::BIAS).unsigned_abs();
    if precision == 0 || biased == 0 {
        to.put(0, 1);
        to.pad(params.min_bits.saturating_sub(1));
        return Ok(());
    }
    to.put(u64::from(2 * biased + 1), 1 + F::EXPONENT_BITS);
    encode_ints::<F::Int, N, W>(to, params, precision, 1 + F::EXPONENT_BITS, relative(block, e));
    Ok(())
}

/// The values as integers relative to `2^e`.
#[inline(always)]
fn relative<F: Float, const N: usize>(block: &[F; N], e: i32) -> [F::Int; N] {
    let scale = F::scale_up(e);
    if scale == F::power(i32::MAX) {
        // Values this small (below 2^-97 or 2^-961) are read as zero whatever is written; zfp writes this.
        return [F::Int::MIN; N];
    }
    block.map(|x| x.to_int(scale))
}

/// The same, if they can be had back to the bit.
#[inline(always)]
fn relative_exactly<F: Float, const N: usize>(block: &[F; N], e: i32) -> Option<[F::Int; N]> {
    let zero = e == -F::BIAS;
    let ints = if zero { [F::Int::default(); N] } else { relative(block, e) };
    let scale = F::scale_down(e);
    let same = block.iter().zip(&ints).fold(true, |same, (x, i)| {
        let back = if zero { F::default() } else { F::from_int(*i, scale) };
        same & (back.to_pattern() == x.to_pattern())
    });
    same.then_some(ints)
}

macro_rules! float {
    ($type:ty, $int:ty, $bits:ty, $exponent_bits:expr) => {
        impl Float for $type {
            type Int = $int;
            const EXPONENT_BITS: u32 = $exponent_bits;

            #[inline(always)]
            fn exponent<const N: usize>(block: &[Self; N]) -> Option<i32> {
                const MANTISSA: u32 = <$type>::MANTISSA_DIGITS - 1;
                let most = block.iter().fold(0, |most, x| x.abs().to_bits().max(most));
                let biased = i32::try_from(most >> MANTISSA).unwrap_or(0);
                match biased {
                    _ if most == 0 => Some(-Self::BIAS),
                    0 => Some(1 - Self::BIAS),
                    _ if biased == 2 * Self::BIAS + 1 => None,
                    _ => Some(biased - Self::BIAS + 1),
                }
            }

            fn power(e: i32) -> Self {
                const MANTISSA: u32 = <$type>::MANTISSA_DIGITS - 1;
                let biased = e.saturating_add(Self::BIAS);
                if biased > 0 {
                    let biased = biased.min(2 * Self::BIAS + 1).unsigned_abs();
                    return <$type>::from_bits(<$bits>::from(biased) << MANTISSA);
                }
                let place = MANTISSA.checked_add_signed(biased).and_then(|p| p.checked_sub(1));
                <$type>::from_bits(place.map_or(0, |p| 1 << p))
            }

            #[inline(always)]
            #[allow(clippy::as_conversions, reason = "in range, as the scale is made for the largest value")]
            fn to_int(self, scale: Self) -> $int {
                (self * scale) as $int
            }

            #[inline(always)]
            #[allow(clippy::as_conversions, reason = "rounds to the nearest, which is meant")]
            fn from_int(i: $int, scale: Self) -> Self {
                scale * i as $type
            }

            #[inline(always)]
            fn to_pattern(self) -> $int {
                let i = self.to_bits().cast_signed();
                if i < 0 { i ^ <$int>::MAX } else { i }
            }

            #[inline(always)]
            fn from_pattern(i: $int) -> Self {
                let i = if i < 0 { i ^ <$int>::MAX } else { i };
                <$type>::from_bits(i.cast_unsigned())
            }
        }

        impl Scalar for $type {
            const SIZE: usize = size_of::<$type>();

            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0.0, |b| <$type>::from_le_bytes(*b))
            }

            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                if let Some(b) = bytes.first_chunk_mut() {
                    *b = self.to_le_bytes();
                }
            }

            fn decode<const N: usize, const W: usize>(
                from: &mut Reader<'_>,
                params: &Params,
                d: u32,
            ) -> [Self; N] {
                decode_floats::<Self, N, W>(from, params, d)
            }

            fn encode<const N: usize, const W: usize>(
                to: &mut Writer,
                params: &Params,
                d: u32,
                block: &[Self; N],
            ) -> Result<()> {
                encode_floats::<Self, N, W>(to, params, d, block)
            }
        }
    };
}

float!(f32, i32, u32, 8);
float!(f64, i64, u64, 11);
