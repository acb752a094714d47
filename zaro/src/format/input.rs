//! Input files (numpy, raw, CSV, JSON) whose elements are written into an array.

use std::future::Future;
use std::sync::Arc;

use super::cast::Cast;
use super::csv::Table;
use super::json;
use super::npy::Header;
use super::raw::{RawOrigin, Stream};
use crate::array::windows::{ArrayView, Cutting};
use crate::array::{Order, Slab};
use crate::blocking;
use crate::error::{Result, usage};
use crate::meta::dtype::Endian;
use crate::meta::json::Json;
use crate::meta::typestr::TypeStr;
use crate::meta::{ArrayMeta, DataType};
use crate::num;

/// An input file, opened and parsed as far as possible without knowing its target array.
#[derive(Debug)]
pub enum Input {
    /// A numpy file whose header has been read.
    Npy(Header, RawOrigin),
    /// Raw elements, little-endian.
    Raw(RawOrigin),
    /// CSV.
    Csv(Table),
    /// Nested JSON lists.
    Json(Json),
}

impl Input {
    /// A numpy file.
    pub fn npy(mut origin: RawOrigin) -> Result<Self> {
        Ok(Self::Npy(Header::read(&mut origin)?, origin))
    }

    /// CSV, read whole.
    pub fn csv(origin: RawOrigin) -> Result<Self> {
        Ok(Self::Csv(Table::parse(&origin.read_all()?)?))
    }

    /// Nested JSON lists, read whole.
    pub fn json(origin: RawOrigin) -> Result<Self> {
        Ok(Self::Json(Json::parse(&origin.read_all()?)?.value))
    }

    /// The shape, if the input determines it: of `rank` dimensions if that is known. `like` is the expected shape.
    pub fn shape(&mut self, t: &DataType, rank: Option<usize>, like: &[u64]) -> Result<Option<Vec<u64>>> {
        Ok(match self {
            Self::Npy(header, _) => Some(header.shape.clone()),
            Self::Raw(_) => None,
            Self::Csv(table) => {
                table.settle(t)?;
                table.shape(t, rank)
            }
            Self::Json(value) => Some(json::shape(value, t, rank, like)?),
        })
    }

    /// The shape of an append along `axis` of an array, if the input determines it.
    pub fn appended_shape(&mut self, meta: &ArrayMeta, axis: usize) -> Result<Option<Vec<u64>>> {
        if let Self::Raw(RawOrigin::File(_, size)) = self {
            // As many whole steps as there are bytes for; the size is checked on reading.
            let mut shape = meta.shape.clone();
            if let Some(n) = shape.get_mut(axis) {
                *n = 1;
            }
            let step = num::product(&shape)?.saturating_mul(num::u64_of(meta.data_type.size()));
            if let Some(n) = shape.get_mut(axis) {
                *n = size.checked_div(step).unwrap_or(0);
            }
            return Ok(Some(shape));
        }
        let (t, rank) = (&meta.data_type, meta.shape.len());
        match self.shape(t, Some(rank), &meta.shape)? {
            // This may be a single step, without that dimension.
            None if rank > 0 => self.shape(t, Some(rank - 1), &meta.shape),
            Some(shape) if rank > 0 && matches!(self, Self::Csv(_)) => {
                // A line may be a row or an element: use whichever fits.
                let mut step = meta.shape.clone();
                step.remove(axis);
                let fits = shape.len() == rank
                    && shape.iter().zip(&meta.shape).enumerate().all(|(d, (a, b))| d == axis || a == b);
                let one = if fits { None } else { self.shape(t, Some(rank - 1), &step)? };
                Ok(Some(one.filter(|s| *s == step).unwrap_or(shape)))
            }
            shape => Ok(shape),
        }
    }

    /// The elements, in a shape and of the array's type. `order` is that of raw elements; numbers of other types are
    /// converted if `cast` allows it.
    pub fn elements(self, meta: &ArrayMeta, shape: &[u64], order: Order, cast: bool) -> Result<Elements> {
        let t = &meta.data_type;
        Ok(match self {
            Self::Npy(header, origin) => {
                let cast = Cast::new(header.stored.fixed()?, t, cast)?;
                let stream =
                    Stream::new(origin, header.length, header.stored, header.order, shape.to_vec(), false)?;
                Elements::Streamed(stream, cast)
            }
            Self::Raw(origin) => {
                if t.is_variable() {
                    return Err(usage!("elements of type {t} have no fixed size; use json or csv"));
                }
                let stored =
                    TypeStr { data_type: Some(t.clone()), endian: Some(Endian::Little), mixed: Vec::new() };
                let stream = Stream::new(origin, 0, stored, order, shape.to_vec(), true)?;
                Elements::Streamed(stream, Cast::new(t, t, false)?)
            }
            Self::Csv(mut table) => {
                table.settle(t)?;
                Elements::Whole(table.elements(t, &meta.fill, shape)?)
            }
            Self::Json(value) => {
                // Without the append dimension, if the input leaves it out.
                let own = json::shape(&value, t, Some(shape.len()), shape)?;
                let mut slab = json::elements(&value, t, &own)?;
                slab.shape = shape.to_vec();
                Elements::Whole(slab)
            }
        })
    }
}

/// The elements of an input, of the type of the array they go to.
#[derive(Debug)]
pub enum Elements {
    /// Read window by window.
    Streamed(Stream, Cast),
    /// All in memory.
    Whole(Slab),
}

impl Elements {
    /// Passes all elements for `view` of an array to `put`, in windows of at most `budget` bytes, each with its
    /// position.
    pub async fn each<F: Future<Output = Result<()>>>(
        self,
        view: &ArrayView,
        meta: &ArrayMeta,
        budget: usize,
        mut put: impl FnMut(ArrayView, Slab) -> F,
    ) -> Result<()> {
        let (mut stream, cast) = match self {
            Self::Whole(slab) => return put(view.clone(), slab).await,
            Self::Streamed(stream, cast) => (stream, Arc::new(cast)),
        };
        let cutting = Cutting {
            item_size: cast.item_size(),
            budget,
            order: stream.order,
            sequential: !stream.is_seekable(),
        };
        for window in view.windows(meta, cutting) {
            let part = view.narrowed(&window);
            let cast = cast.clone();
            // Reading from a pipe may block for long.
            let (back, slab) = blocking::spawn_blocking(move || {
                let slab = cast.apply(stream.read(&window)?, &window.shape(), stream.order)?;
                Ok((stream, slab))
            })
            .await?;
            stream = back;
            put(part, slab).await?;
        }
        stream.end()
    }
}
