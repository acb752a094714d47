//! Downsamples a mask to the levels of labels: the first pixel of each block.

use crate::array::{Array, Index, Order, ReadOptions, Selection, Values, WriteOptions};
use crate::copy::Blocks;
use crate::error::{Result, invalid};
use crate::meta::DataType;

/// What to do with the elements of each chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SampleTask {
    Write,
    /// Compare with the existing elements.
    Verify,
}

/// Samples `mask` into `made`, chunk by chunk. Booleans become 0 and 1.
pub(super) async fn sample(
    mask: &Array,
    made: &Array,
    task: SampleTask,
    options: &ReadOptions,
) -> Result<()> {
    let meta = made.meta();
    let blocks = Blocks::new(&meta.shape, meta.grid.largest());
    for i in 0..blocks.count()? {
        let (start, count) = blocks.place(i);
        let along = start.iter().zip(&count).zip(mask.shape().iter().zip(&meta.shape));
        let indexes = along.map(|((s, c), (from, to))| positions(*s, *c, *from, *to)).collect();
        let slab = mask.read_slab(&Selection::new(indexes), options).await?;
        let bytes = match (&mask.meta().data_type, &meta.data_type) {
            // Some writers use 255 for true.
            (DataType::Bool, DataType::UInt(8)) => slab.bytes.iter().map(|b| u8::from(*b != 0)).collect(),
            _ => slab.bytes,
        };
        let place = Selection::start_count(&start, &count);
        match task {
            SampleTask::Write => {
                let how = WriteOptions { assume_empty: true, ..WriteOptions::default() };
                made.write_slab(&place, Values::new(bytes, Order::C), &how).await?;
            }
            SampleTask::Verify => {
                if made.read_slab(&place, options).await?.bytes != bytes {
                    return Err(invalid!("the labels differ from the mask at {start:?}"));
                }
            }
        }
    }
    Ok(())
}

/// The source positions among `from` for `count` elements from `start` on, of `to` in total.
fn positions(start: u64, count: u64, from: u64, to: u64) -> Index {
    if from == to {
        return Index::Span(start, count);
    }
    let position = |i: u64| u128::from(i) * u128::from(from) / u128::from(to.max(1));
    let list = (start..start.saturating_add(count)).map(|i| i64::try_from(position(i)).unwrap_or(i64::MAX));
    Index::List(list.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_the_first_of_their_block() {
        assert_eq!(positions(0, 3, 6, 3), Index::List(vec![0, 2, 4]));
        assert_eq!(positions(1, 2, 7, 3), Index::List(vec![2, 4]));
        assert_eq!(positions(2, 2, 9, 9), Index::Span(2, 2));
    }
}
