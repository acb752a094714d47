//! Typed reads and writes of Rust numbers.

use std::ops::Range;

use super::{Array, Element, Index, Order, ReadOptions, Selection, Values, WriteOptions};
use crate::error::{Error, Result};
use crate::num;

impl Array {
    /// Reads `selection` in C order as Rust numbers: `array.read::<f32>([0..10, 0..100])`. They are decoded in place.
    pub async fn read<T: Element>(&self, selection: impl Into<Selection>) -> Result<Vec<T>> {
        let selection = selection.into();
        let buffer = self.numbers(&selection)?;
        Ok(self.read_to(&selection, &ReadOptions::default(), buffer).await?.into_native())
    }

    /// The blocking form.
    pub fn read_blocking<T: Element>(&self, selection: impl Into<Selection>) -> Result<Vec<T>> {
        let selection = selection.into();
        let mut buffer = self.numbers(&selection)?;
        self.read_into(&selection, &ReadOptions::default(), buffer.as_mut())?;
        Ok(buffer.into_native())
    }

    /// Reads `selection` as an array of the `ndarray` crate.
    #[cfg(feature = "ndarray")]
    pub async fn read_ndarray<T: Element>(
        &self,
        selection: impl Into<Selection>,
    ) -> Result<ndarray::ArrayD<T>> {
        let selection = selection.into();
        let shape = selection.resolve(self.meta())?.shape;
        let shape: Vec<usize> = shape.iter().map(|n| num::usize_of(*n)).collect::<Result<_>>()?;
        let values = self.read(selection).await?;
        ndarray::ArrayD::from_shape_vec(shape, values).map_err(|e| Error::usage(e.to_string()))
    }

    /// Writes `values`, in C order, to `selection`: `array.write([0..2, 0..3], &[0.5f64; 6])`.
    pub async fn write<T: Element>(&self, selection: impl Into<Selection>, values: &[T]) -> Result<()> {
        let values = self.values(values)?;
        self.write_slab(&selection.into(), values, &WriteOptions::default()).await
    }

    /// The blocking form.
    pub fn write_blocking<T: Element>(&self, selection: impl Into<Selection>, values: &[T]) -> Result<()> {
        let values = self.values(values)?;
        self.write_slab_blocking(&selection.into(), values, &WriteOptions::default())
    }

    fn values<T: Element>(&self, values: &[T]) -> Result<Values> {
        self.check_type::<T>()?;
        Ok(Values::new(bytes_of(values), Order::C))
    }

    fn check_type<T: Element>(&self) -> Result<()> {
        let held = &self.meta().data_type;
        if T::matches(held) {
            return Ok(());
        }
        Err(self.named(Error::usage(format!("the array holds {held}, not {}", T::NAME))))
    }

    /// Allocates memory for the numbers of `selection`.
    fn numbers<T: Element>(&self, selection: &Selection) -> Result<NumberBuffer<T>> {
        let meta = self.meta();
        self.check_type::<T>()?;
        let count = num::product_usize(&selection.resolve(meta).map_err(|e| self.named(e))?.shape)?;
        let mut values = Vec::new();
        let most = |_| Error::usage(format!("{count} elements are more than this machine has memory for"));
        values.try_reserve_exact(count).map_err(most)?;
        values.resize(count, T::default());
        Ok(NumberBuffer(values))
    }
}

/// Numbers that are filled as bytes.
struct NumberBuffer<T>(Vec<T>);

impl<T: Element> AsMut<[u8]> for NumberBuffer<T> {
    fn as_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

impl<T: Element> NumberBuffer<T> {
    /// Converts the numbers, which came as little-endian bytes, to native byte order.
    fn into_native(mut self) -> Vec<T> {
        if cfg!(target_endian = "big") {
            for value in &mut self.0 {
                *value = T::from_le(bytemuck::bytes_of(value));
            }
        }
        self.0
    }
}

/// The little-endian bytes of numbers.
#[must_use]
pub fn bytes_of<T: Element>(values: &[T]) -> Vec<u8> {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let mut bytes = bytes.to_vec();
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
    }
    bytes
}

impl<const N: usize> From<[Range<u64>; N]> for Selection {
    fn from(ranges: [Range<u64>; N]) -> Self {
        Self::from(ranges.as_slice())
    }
}

impl<const N: usize> From<&[Range<u64>; N]> for Selection {
    fn from(ranges: &[Range<u64>; N]) -> Self {
        Self::from(ranges.as_slice())
    }
}

impl From<&[Range<u64>]> for Selection {
    fn from(ranges: &[Range<u64>]) -> Self {
        Self::new(ranges.iter().map(|r| Index::Span(r.start, r.end.saturating_sub(r.start))).collect())
    }
}

impl From<&Self> for Selection {
    fn from(selection: &Self) -> Self {
        selection.clone()
    }
}
