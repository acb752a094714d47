//! Statistics of an array: stored and decoded size, element counts, min, max, mean, standard deviation, histogram.
//!
//! One pass, window by window. Numbers are decoded by their CF attributes: unpacked, and without missing values. Mean
//! and deviation are merged from partial sums, so that a long sum loses nothing to rounding; the bins of the histogram
//! double in width whenever a number lies outside.

use std::sync::Arc;

use futures::stream::TryStreamExt as _;
use rayon::prelude::*;

use crate::array::windows::{ArrayView, Cutting};
use crate::array::{Array, Order, ReadOptions, Slab};
use crate::boxed;
use crate::cf::{Cf, Lost, Related};
use crate::error::{ErrorKind, Result};
use crate::format::value::{self, Style};
use crate::group::Zarr;
use crate::meta::{DataType, Json};
use crate::num;
use crate::store::StoreExt as _;
use crate::task::{Operation, Task, Unit};

/// The maximum number of histogram bins.
const BINS: usize = 32;

/// Elements per piece of work of a thread.
const PIECE: usize = 1 << 14;

/// Options for [`stat`].
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct StatOptions {
    /// Progress, in bytes of decoded elements, and cancellation.
    pub task: Task,
}

/// Statistics of an array's elements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stat {
    /// The number of elements.
    pub elements: u64,
    /// Their bytes before compression; `None` if they have no fixed size.
    pub decoded: Option<u64>,
    /// Bytes of all chunks as stored; `None` if the store cannot list them.
    pub stored: Option<u64>,
    /// The number of chunks, or shards, in the grid.
    pub chunks: u64,
    /// How many of them are stored; `None` if the store cannot list them.
    pub present: Option<u64>,
    /// Elements that equal the fill value, stored or not.
    pub fill: u64,
    /// Elements that are missing by `_FillValue` or `missing_value`.
    pub missing: u64,
    /// NaN and NaT that are not declared as missing.
    pub nan: u64,
    /// Floats that are infinite.
    pub infinite: u64,
    /// The distribution of the others, if they are numbers.
    pub numbers: Option<Numbers>,
}

/// The distribution of numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Numbers {
    /// How many there are.
    pub count: u64,
    /// The smallest as text; a date, for times.
    pub min: String,
    /// The largest.
    pub max: String,
    /// The mean; for times, in their stored unit.
    pub mean: f64,
    /// The standard deviation.
    pub std: f64,
    /// Bins of equal width, from the first nonempty one to the last: the start and the count of each.
    pub histogram: Vec<(f64, u64)>,
    /// The width of a bin.
    pub width: f64,
}

impl Stat {
    /// The compression ratio: decoded by stored bytes.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let (decoded, stored) = (self.decoded?, self.stored.filter(|n| *n > 0)?);
        Some(num::f64_of_u64(decoded) / num::f64_of_u64(stored))
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        let maybe = |n: Option<u64>| n.map_or(Json::Null, Json::int);
        let mut json = Json::from([
            ("elements", self.elements.into()),
            ("decoded_bytes", maybe(self.decoded)),
            ("stored_bytes", maybe(self.stored)),
            ("ratio", self.ratio().map_or(Json::Null, Json::float)),
            ("chunks", self.chunks.into()),
            ("chunks_present", maybe(self.present)),
            ("fill", self.fill.into()),
            ("missing", self.missing.into()),
            ("nan", self.nan.into()),
            ("infinite", self.infinite.into()),
        ]);
        if let Some(n) = &self.numbers {
            let bin = |(from, count): &(f64, u64)| Json::Array(vec![Json::float(*from), Json::int(count)]);
            json.set("count", n.count);
            if n.count > 0 {
                json.set("min", Json::string(&n.min));
                json.set("max", Json::string(&n.max));
                json.set("mean", n.mean);
                json.set("std", n.std);
                json.set("histogram", Json::Array(n.histogram.iter().map(bin).collect()));
                json.set("bin_width", n.width);
            }
        }
        json
    }
}

/// Computes the statistics of all of `array`, within the memory budget that `zarr` was opened with.
#[boxed]
pub async fn stat(zarr: &Zarr, array: &Array, options: &StatOptions) -> Result<Stat> {
    let _operation = Operation::begin("stat", array.store());
    let meta = array.meta();
    let view = ArrayView::new(&[], meta)?;
    let size = meta.data_type.size();
    let elements = view.count()?;
    let decoded = (!meta.data_type.is_variable()).then(|| elements.saturating_mul(num::u64_of(size)));
    let counts = meta.grid.counts(&meta.shape);
    let chunks = counts.iter().fold(1u64, |all, n| all.saturating_mul(*n));
    let (stored, present) = options.task.unless_cancelled(stored(array)).await?.unzip();
    let mut out = Stat { elements, decoded, stored, chunks, present, ..Stat::default() };
    let cf = Cf::new(meta, &Related::default(), &mut |_| {});
    let changed = cf.is_some();
    let taken = Arc::new(Taken { data_type: meta.data_type.clone(), fill: meta.fill.0.to_vec(), cf });
    let item = if meta.data_type.is_variable() { array.item_bytes().await?.max(64) } else { size.max(1) };
    let budget = zarr.options().store.context.memory().max(1 << 20) / 2;
    let cutting = Cutting { item_size: item, budget, order: Order::C, sequential: false };
    let read = ReadOptions { task: options.task.without_progress(), ..ReadOptions::default() };
    let (mut sum, mut bins) = (Sum::default(), Bins::new(&meta.data_type, changed));
    let meter = options.task.meter(Unit::Bytes, decoded);
    for window in view.windows(meta, cutting) {
        let slab = array.read_slab(&view.narrowed(&window).selection()?, &read).await?;
        let (look, bytes) = (taken.clone(), num::u64_of(slab.len().saturating_mul(size)));
        let looked = array.context().run(move || {
            let part = look.sum(&slab);
            if let (Some(min), Some(max)) = (part.min, part.max) {
                bins.cover(min.0, max.0);
                look.count(&slab, &mut bins);
            }
            Ok((part, bins))
        });
        let part;
        (part, bins) = looked.await?;
        sum = sum.with(&part);
        meter.advance(bytes);
        options.task.check()?;
    }
    (out.fill, out.missing, out.nan, out.infinite) = (sum.fill, sum.missing, sum.nan, sum.infinite);
    if taken.are_numbers() {
        let text = |end: End| end.map_or(Ok(String::new()), |(_, bits)| taken.text(bits));
        let ((mean, std), (width, histogram)) = (sum.moments(), bins.shown());
        out.numbers = Some(Numbers {
            count: sum.count,
            min: text(sum.min)?,
            max: text(sum.max)?,
            mean,
            std,
            histogram,
            width,
        });
    }
    Ok(out)
}

/// The bytes and the number of all stored chunks; `None` if the store cannot list.
async fn stored(array: &Array) -> Result<Option<(u64, u64)>> {
    if !array.store().lists_all() {
        return Ok(None);
    }
    let (keys, rank) = (array.meta().keys, array.meta().shape.len());
    let mut entries = array.store().keys(array.path());
    let (mut bytes, mut count) = (0u64, 0u64);
    loop {
        let entry = match entries.try_next().await {
            Ok(Some(entry)) => entry,
            Ok(None) => return Ok(Some((bytes, count))),
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::NotPermitted) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let below = entry.key.strip_prefix(array.path()).unwrap_or(&entry.key).trim_start_matches('/');
        if keys.index(below, rank).or_else(|| keys.other_separator().index(below, rank)).is_some() {
            (bytes, count) = (bytes.saturating_add(entry.size), count.saturating_add(1));
        }
    }
}

/// How elements are decoded.
struct Taken {
    data_type: DataType,
    fill: Vec<u8>,
    cf: Option<Cf>,
}

/// What kind of value an element is.
enum Taking {
    Number(f64),
    Missing,
    Nan,
    Infinite,
    Other,
}

impl Taken {
    fn are_numbers(&self) -> bool {
        matches!(
            self.data_type,
            DataType::Bool
                | DataType::Int(_)
                | DataType::UInt(_)
                | DataType::Float(_)
                | DataType::DateTime(..)
                | DataType::TimeDelta(..)
        )
    }

    fn take(&self, item: &[u8]) -> Taking {
        let Some(stored) = value::number(&self.data_type, item) else { return Taking::Other };
        let x = self.cf.as_ref().and_then(|cf| cf.unpacked(item)).unwrap_or(stored);
        match x {
            _ if stored.is_nan() => Taking::Nan,
            x if x.is_nan() => Taking::Missing,
            x if x.is_infinite() => Taking::Infinite,
            x => Taking::Number(x),
        }
    }

    /// The parts of a slab, for threads.
    fn pieces<'s>(&self, slab: &'s Slab) -> rayon::slice::Chunks<'s, u8> {
        slab.bytes.par_chunks(self.data_type.size().max(1).saturating_mul(PIECE))
    }

    fn sum(&self, slab: &Slab) -> Sum {
        if self.data_type.is_variable() {
            let fill = slab.items().filter(|item| *item == self.fill).count();
            return Sum { fill: num::u64_of(fill), ..Sum::default() };
        }
        let size = self.data_type.size().max(1);
        let of = |piece: &[u8]| {
            let mut sum = Sum::default();
            for item in piece.chunks_exact(size) {
                sum.fill += u64::from(item == self.fill);
                match self.take(item) {
                    Taking::Number(x) => sum.add(x, item),
                    Taking::Missing => sum.missing += 1,
                    Taking::Nan => sum.nan += 1,
                    Taking::Infinite => sum.infinite += 1,
                    Taking::Other => {}
                }
            }
            sum
        };
        self.pieces(slab).map(of).reduce(Sum::default, |a, b| a.with(&b))
    }

    /// Counts the numbers of a slab; the bins must cover all of them.
    fn count(&self, slab: &Slab, bins: &mut Bins) {
        let size = self.data_type.size().max(1);
        let of = |piece: &[u8]| {
            let mut counts = [0u64; BINS];
            for item in piece.chunks_exact(size) {
                if let Taking::Number(x) = self.take(item)
                    && let Some(slot) = counts.get_mut(bins.place(x))
                {
                    *slot += 1;
                }
            }
            counts
        };
        let add = |mut a: [u64; BINS], b: [u64; BINS]| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        };
        let counts = self.pieces(slab).map(of).reduce(|| [0; BINS], add);
        bins.counts = add(bins.counts, counts);
    }

    /// An element as text, decoded by the array's attributes.
    fn text(&self, bits: [u8; 8]) -> Result<String> {
        let bytes = bits.get(..self.data_type.size()).unwrap_or_default().to_vec();
        let mut slab = Slab::new(&self.data_type, &[], Order::C, bytes)?;
        if let Some(cf) = &self.cf {
            slab = cf.apply(&slab, &mut Lost::default())?;
        }
        let item = slab.item(0).unwrap_or_default();
        Ok(value::text_of(&slab.data_type, item, Style { iso: true, ..Style::TEXT }))
    }
}

/// The smallest or the largest number, and the bytes it is stored as.
type End = Option<(f64, [u8; 8])>;

/// The one of two ends that is further out.
fn further(a: End, b: End, is_further: fn(f64, f64) -> bool) -> End {
    match (a, b) {
        (Some(a), Some(b)) => Some(if is_further(b.0, a.0) { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Numbers beyond this are counted as [`SMALLER`].
const LARGE: f64 = 1e150;

/// A power of two by which numbers are scaled so that no square overflows.
const SMALLER: f64 = f64::from_bits((1023 - 600) << 52);

/// Count, mean and squared deviations of some numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u64,
    /// Their mean, and the sum of squared deviations from it: of the numbers as they are, or, if one is so large that
    /// its square overflows, of the numbers times [`SMALLER`].
    mean: f64,
    squares: f64,
    large: bool,
    min: End,
    max: End,
    fill: u64,
    missing: u64,
    nan: u64,
    infinite: u64,
}

impl Sum {
    fn add(&mut self, x: f64, item: &[u8]) {
        if x.abs() > LARGE {
            *self = self.smaller();
        }
        self.count += 1;
        let scaled = if self.large { x * SMALLER } else { x };
        let apart = scaled - self.mean;
        self.mean += apart / num::f64_of_u64(self.count);
        self.squares += apart * (scaled - self.mean);
        let bits = || {
            let mut bits = [0; 8];
            bits.iter_mut().zip(item).for_each(|(to, from)| *to = *from);
            bits
        };
        if self.min.is_none_or(|(least, _)| x < least) {
            self.min = Some((x, bits()));
        }
        if self.max.is_none_or(|(most, _)| x > most) {
            self.max = Some((x, bits()));
        }
    }

    /// The same of the numbers times [`SMALLER`].
    fn smaller(&self) -> Self {
        match self.large {
            true => *self,
            false => Self {
                mean: self.mean * SMALLER,
                squares: self.squares * SMALLER * SMALLER,
                large: true,
                ..*self
            },
        }
    }

    /// The mean and the standard deviation.
    fn moments(&self) -> (f64, f64) {
        let scale = if self.large { SMALLER } else { 1.0 };
        let std = if self.count > 0 { (self.squares / num::f64_of_u64(self.count)).sqrt() } else { 0.0 };
        (self.mean / scale, std / scale)
    }

    /// Merges two sums.
    fn with(&self, other: &Self) -> Self {
        if self.large != other.large {
            return self.smaller().with(&other.smaller());
        }
        let (a, b) = (num::f64_of_u64(self.count), num::f64_of_u64(other.count));
        let apart = other.mean - self.mean;
        let (mean, squares) = if self.count + other.count == 0 {
            (0.0, 0.0)
        } else {
            let mean = self.mean + apart * (b / (a + b));
            (mean, self.squares + other.squares + apart * apart * (a * b / (a + b)))
        };
        Self {
            count: self.count + other.count,
            mean,
            squares,
            large: self.large,
            min: further(self.min, other.min, |b, a| b < a),
            max: further(self.max, other.max, |b, a| b > a),
            fill: self.fill + other.fill,
            missing: self.missing + other.missing,
            nan: self.nan + other.nan,
            infinite: self.infinite + other.infinite,
        }
    }
}

/// Bins of equal width, which doubles when they have to cover more.
#[derive(Debug)]
struct Bins {
    low: f64,
    width: f64,
    counts: [u64; BINS],
    /// Whether the numbers are integers, so that no bin is narrower than one.
    whole: bool,
}

impl Bins {
    fn new(data_type: &DataType, changed: bool) -> Self {
        let whole = !changed && !matches!(data_type, DataType::Float(_));
        Self { low: 0.0, width: 0.0, counts: [0; BINS], whole }
    }

    fn high(&self) -> f64 {
        self.low + self.width * num::f64_of_usize(BINS)
    }

    fn place(&self, x: f64) -> usize {
        // The difference of numbers near the largest float may overflow.
        num::usize_of_f64(x / self.width - self.low / self.width).min(BINS - 1)
    }

    /// Makes room for numbers from `min` to `max`.
    fn cover(&mut self, min: f64, max: f64) {
        if self.width == 0.0 {
            let width = max / num::f64_of_usize(BINS) - min / num::f64_of_usize(BINS);
            let least = if self.whole { 1.0 } else { min.abs().max(max.abs()).max(1e-300) * 1e-9 };
            // A width that is not a power of two would give bin edges with many digits.
            self.width = width.max(least).log2().ceil().exp2();
            self.low = ((min / self.width).floor() * self.width).max(f64::MIN);
        }
        while max > self.high() && self.width.is_finite() {
            let merged = self.merged();
            self.counts = [0; BINS];
            self.counts.iter_mut().zip(merged).for_each(|(slot, n)| *slot = n);
            self.width *= 2.0;
        }
        while min < self.low && self.width.is_finite() {
            let merged = self.merged();
            self.low = (self.low - self.width * num::f64_of_usize(BINS)).max(f64::MIN);
            self.counts = [0; BINS];
            self.counts.iter_mut().skip(BINS / 2).zip(merged).for_each(|(slot, n)| *slot = n);
            self.width *= 2.0;
        }
    }

    /// Adjacent bins merged in pairs.
    fn merged(&self) -> Vec<u64> {
        self.counts.chunks(2).map(|pair| pair.iter().sum()).collect()
    }

    /// The bin width, and the start and count of each bin, without empty ones at the ends.
    fn shown(&self) -> (f64, Vec<(f64, u64)>) {
        let at = |i: usize| (self.low / self.width + num::f64_of_usize(i)) * self.width;
        let used = |n: &u64| *n > 0;
        let (Some(first), Some(last)) =
            (self.counts.iter().position(used), self.counts.iter().rposition(used))
        else {
            return (0.0, Vec::new());
        };
        let bins = self.counts.iter().enumerate().skip(first).take(last + 1 - first);
        (self.width, bins.map(|(i, n)| (at(i), *n)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_give_the_same_as_the_whole() {
        let numbers: Vec<f64> = (0..1000).map(|i| f64::from(i * i % 317) * 0.25 - 7.0).collect();
        let of = |part: &[f64]| {
            let mut sum = Sum::default();
            part.iter().for_each(|x| sum.add(*x, &x.to_le_bytes()));
            sum
        };
        let whole = of(&numbers);
        let parts = numbers.chunks(37).map(of).fold(Sum::default(), |a, b| a.with(&b));
        assert_eq!((whole.count, whole.min, whole.max), (parts.count, parts.min, parts.max));
        assert!(
            (whole.mean - parts.mean).abs() < 1e-12 && (whole.squares / parts.squares - 1.0).abs() < 1e-12
        );
    }

    #[test]
    fn the_largest_numbers_have_a_mean_and_a_deviation() {
        let of = |part: &[f64]| {
            let mut sum = Sum::default();
            part.iter().for_each(|x| sum.add(*x, &x.to_le_bytes()));
            sum
        };
        for (numbers, mean, std) in [
            (&[1e308, -1e308][..], 0.0, 1e308),
            (&[1.5e308, 1.7e308, 1.6e308], 1.6e308, 8.164_965_809e306),
            (&[3.0, 1e200, -1e200, 5.0], 2.0, 7.071_067_811_865_475e199),
        ] {
            let halves = numbers.split_at(1);
            for sum in [of(numbers), of(halves.0).with(&of(halves.1))] {
                let (got_mean, got_std) = sum.moments();
                assert!((got_mean - mean).abs() <= std * 1e-12 && (got_std / std - 1.0).abs() < 1e-9);
            }
            let mut bins = Bins::new(&DataType::FLOAT64, false);
            let [min, max] = [
                numbers.iter().copied().fold(f64::MAX, f64::min),
                numbers.iter().copied().fold(f64::MIN, f64::max),
            ];
            bins.cover(min, max);
            numbers.iter().for_each(|x| bins.counts[bins.place(*x)] += 1);
            let (width, shown) = bins.shown();
            assert!(width.is_finite() && shown.iter().all(|(at, _)| at.is_finite()), "{shown:?}");
            assert!(shown.first().unwrap().0 <= min && shown.last().unwrap().0 <= max);
        }
    }

    #[test]
    fn bins_grow_to_both_sides_and_lose_nothing() {
        let mut bins = Bins { low: 0.0, width: 0.0, counts: [0; BINS], whole: true };
        let mut total = 0;
        for (min, max) in [(3.0, 3.0), (0.0, 10.0), (-1000.0, 5.0), (0.0, 1e6)] {
            bins.cover(min, max);
            for x in [min, max] {
                assert!(bins.low <= x && x <= bins.high());
                bins.counts[bins.place(x)] += 1;
                total += 1;
            }
            assert_eq!(bins.counts.iter().sum::<u64>(), total);
        }
        let (width, shown) = bins.shown();
        assert!(shown.first().unwrap().0 <= -1000.0 && shown.last().unwrap().0 + width >= 1e6);
    }
}
