//! Slabs: elements of one type in a shape, as returned by a read.

use crate::codec::{Buffer, split_view, view};
use crate::error::{Error, Result};
use crate::meta::{DataType, Fill};
use crate::num;

/// The order of elements in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The last dimension varies fastest.
    #[default]
    C,
    /// The first dimension varies fastest, as in R, Fortran and MATLAB.
    F,
}

/// A part of an array in memory.
#[derive(Debug, Clone)]
pub struct Slab {
    /// The type of the elements.
    pub data_type: DataType,
    /// The extents.
    pub shape: Vec<u64>,
    /// The order of the elements.
    pub order: Order,
    /// The elements, little-endian. Variable-length ones are 16-byte views; see [`Slab::item`].
    pub bytes: Vec<u8>,
    /// The data of views.
    pub(crate) heaps: Vec<Vec<u8>>,
}

impl Slab {
    /// A slab of fixed-size elements, little-endian, in `order`.
    pub fn new(data_type: &DataType, shape: &[u64], order: Order, bytes: Vec<u8>) -> Result<Self> {
        if data_type.is_variable() {
            return Err(Error::usage(format!("{data_type} has no fixed size")));
        }
        Self::checked(data_type, shape, order, bytes, Vec::new())
    }

    /// A slab of variable-length elements, in `order`.
    pub fn variable<'a>(
        data_type: &DataType,
        shape: &[u64],
        order: Order,
        items: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self> {
        if !data_type.is_variable() {
            return Err(Error::usage(format!("{data_type} has a fixed size")));
        }
        let Buffer { bytes, heap } = Buffer::variable(items)?;
        Self::checked(data_type, shape, order, bytes, vec![heap])
    }

    /// A slab filled with one value.
    pub fn filled(data_type: &DataType, fill: &Fill, shape: &[u64]) -> Result<Self> {
        let count = num::product_usize(shape)?;
        let (element, heaps) = if data_type.is_variable() {
            let length = u32::try_from(fill.0.len()).map_err(|_| Error::usage("a huge fill value"))?;
            (view(0, length, 0).to_vec(), vec![fill.0.to_vec()])
        } else {
            (fill.0.to_vec(), Vec::new())
        };
        Self::checked(data_type, shape, Order::C, element.repeat(count), heaps)
    }

    fn checked(
        data_type: &DataType,
        shape: &[u64],
        order: Order,
        bytes: Vec<u8>,
        heaps: Vec<Vec<u8>>,
    ) -> Result<Self> {
        let wanted = num::product_usize(shape)?.checked_mul(data_type.size());
        if wanted != Some(bytes.len()) {
            return Err(Error::usage(format!(
                "{} bytes do not match a slab of shape {shape:?} of {data_type}",
                bytes.len()
            )));
        }
        Ok(Self { data_type: data_type.clone(), shape: shape.to_vec(), order, bytes, heaps })
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len().checked_div(self.data_type.size()).unwrap_or(0)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of element `i` in memory order; the content of a variable-length element.
    #[must_use]
    pub fn item(&self, i: usize) -> Option<&[u8]> {
        let size = self.data_type.size();
        let at = i.checked_mul(size)?;
        let element = self.bytes.get(at..at.checked_add(size)?)?;
        if !self.data_type.is_variable() {
            return Some(element);
        }
        let (heap, length, offset) = split_view(element)?;
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        match self.heaps.get(usize::try_from(heap).ok()?) {
            Some(heap) => heap.get(start..end),
            None => Some(&[]),
        }
    }

    /// All elements, as by [`Slab::item`].
    pub fn items(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.item(i).unwrap_or_default())
    }

    /// The elements as Rust numbers; an error if the array has another type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if !T::matches(&self.data_type) {
            return Err(Error::usage(format!("the array holds {}, not {}", self.data_type, T::NAME)));
        }
        Ok(self.bytes.chunks_exact(size_of::<T>()).map(T::from_le).collect())
    }
}

/// A Rust number type that an array can be read as.
pub trait Element: bytemuck::Pod + Default + Send + Sync {
    /// Its Zarr name.
    const NAME: &'static str;

    /// Whether an array of `data_type` holds these.
    fn matches(data_type: &DataType) -> bool;

    /// From the little-endian bytes of one element.
    fn from_le(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($($type:ty, $name:literal, $pattern:pat => ())*) => {$(
        impl Element for $type {
            const NAME: &'static str = $name;

            fn matches(data_type: &DataType) -> bool {
                matches!(data_type, $pattern)
            }

            fn from_le(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or_else(Self::default, |b| Self::from_le_bytes(*b))
            }
        }
    )*};
}

element! {
    i8, "int8", DataType::Int(2 | 4 | 8) => ()
    i16, "int16", DataType::Int(16) => ()
    i32, "int32", DataType::Int(32) => ()
    i64, "int64", DataType::Int(64) | DataType::DateTime(..) | DataType::TimeDelta(..) => ()
    u8, "uint8", DataType::UInt(2 | 4 | 8) | DataType::Bool => ()
    u16, "uint16", DataType::UInt(16) => ()
    u32, "uint32", DataType::UInt(32) => ()
    u64, "uint64", DataType::UInt(64) => ()
    f32, "float32", DataType::Float(crate::meta::dtype::Float::F32) => ()
    f64, "float64", DataType::Float(crate::meta::dtype::Float::F64) => ()
}
