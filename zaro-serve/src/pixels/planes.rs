//! Reads pixels as numbers, and averages them into those of a coarser level. No painting.

use std::ops::Range;

use zaro::array::ArrayView;
use zaro::cf::{Lost, Reading};
use zaro::image::render::Projection;
use zaro::internal::text::{f64_of_u64 as real, f64_of_usize, number, u64_of_f64 as whole};
use zaro::meta::{DataType, Float};
use zaro::{ReadOptions, Slab};

use super::stack::{Kind, Pick, Rung, Stack, Window, reading};
use crate::answer::Fault;

/// Pixels as numbers: `[channel][row][column]`, little-endian.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planes {
    pub(crate) data_type: DataType,
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) bytes: Vec<u8>,
    /// How pixels of a stored level became these: `none`, `mean` or `nearest`.
    pub(crate) resampled: &'static str,
}

/// Reads a window of a rung; decoded by the CF conventions if that gives numbers and is not refused.
pub(crate) async fn read(
    stack: &Stack,
    rung: &Rung,
    window: &Window,
    pick: &Pick,
    stored: bool,
) -> Result<Planes, Fault> {
    let array = stack.array(rung.level)?;
    let indexes = stack.indexes(rung, window, pick)?;
    let view = ArrayView::new(&indexes, array.meta()).map_err(reading)?;
    let mut reader = Reading::stored(array, view.clone());
    // Attributes of structs are about no member of theirs.
    if stack.kind == Kind::Field && !stored && stack.member.is_none() {
        let decoded = Reading::decoded(array, view, &stack.related, &mut |_| {});
        // Times become texts, which have no pixels.
        if width_of(&decoded.data_type()).is_some() && decoded.view().shape().len() == indexes.len() {
            reader = decoded;
        }
    }
    let slab =
        reader.read(reader.view(), &ReadOptions::default(), &mut Lost::default()).await.map_err(reading)?;
    let slab = match &stack.member {
        Some((at, own)) => member(&slab, *at, own)?,
        None => slab,
    };
    let work = Gathering {
        axes: [stack.axes.c, stack.axes.z, Some(stack.axes.y), Some(stack.axes.x)],
        spans: {
            let part = stack.source(rung, window);
            [
                Span::new(rung.step.0, window.rows.clone(), part.rows),
                Span::new(rung.step.1, window.columns.clone(), part.columns),
            ]
        },
        how: pick.how,
        nearest: stack.kind == Kind::Labels,
        is_exact: rung.is_stored(),
    };
    super::apart(move || work.gather(&slab)).await?
}

/// One member of structs.
fn member(slab: &Slab, at: usize, own: &DataType) -> Result<Slab, Fault> {
    let items = slab.bytes.chunks_exact(slab.data_type.size().max(1));
    let part = at..at.saturating_add(own.size());
    let bytes = items.filter_map(|item| item.get(part.clone())).flatten().copied().collect();
    Ok(Slab::new(own, &slab.shape, slab.order, bytes)?)
}

/// How pixels along one axis are made of those that were read.
#[derive(Debug, Clone)]
struct Span {
    step: f64,
    pixels: Range<u64>,
    /// The pixels that were read.
    read: Range<u64>,
}

/// The pixels that one is made of: the first, and the weight of each.
struct Tap {
    first: usize,
    weights: Vec<f64>,
}

impl Span {
    fn new(step: f64, pixels: Range<u64>, read: Range<u64>) -> Self {
        Self { step, pixels, read }
    }

    fn taps(&self) -> Vec<Tap> {
        let (start, end) = (real(self.read.start), real(self.read.end));
        let tap = |i: u64| {
            let from = (real(i) * self.step).max(start);
            let to = (real(i.saturating_add(1)) * self.step).min(end).max(from);
            let first = (from + 1e-9).floor().min(end - 1.0);
            let mut weights = Vec::new();
            let mut at = first;
            while at < to - 1e-9 {
                weights.push((to.min(at + 1.0) - from.max(at)).max(0.0));
                at += 1.0;
            }
            if weights.is_empty() {
                weights.push(1.0);
            }
            Tap { first: index(whole((first - start).max(0.0))), weights }
        };
        self.pixels.clone().map(tap).collect()
    }

    /// The pixel nearest to the centre of each.
    fn nearest(&self) -> Vec<usize> {
        let last = self.read.end.saturating_sub(1);
        let at = |i: u64| whole(((real(i) + 0.5) * self.step).floor()).clamp(self.read.start, last);
        self.pixels.clone().map(|i| index(at(i) - self.read.start)).collect()
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

struct Gathering {
    /// The dimensions of channels, planes, rows and columns.
    axes: [Option<usize>; 4],
    /// Along rows and columns.
    spans: [Span; 2],
    how: Option<Projection>,
    nearest: bool,
    is_exact: bool,
}

/// A slab with its strides, in elements, along channels, planes, rows and columns.
struct Strided<'a> {
    slab: &'a Slab,
    size: usize,
    steps: [usize; 4],
    extents: [usize; 4],
}

impl<'a> Strided<'a> {
    fn new(slab: &'a Slab, axes: [Option<usize>; 4]) -> Self {
        let mut steps = vec![0usize; slab.shape.len()];
        let mut step = 1usize;
        for (slot, extent) in steps.iter_mut().zip(&slab.shape).rev() {
            *slot = step;
            step = step.saturating_mul(index(*extent));
        }
        let step = |axis: Option<usize>| axis.and_then(|a| steps.get(a)).copied().unwrap_or(0);
        let extent =
            |axis: Option<usize>| axis.and_then(|a| slab.shape.get(a)).map_or(1, |extent| index(*extent));
        Self { slab, size: slab.data_type.size(), steps: axes.map(step), extents: axes.map(extent) }
    }

    fn item(&self, at: usize) -> &'a [u8] {
        let start = at.saturating_mul(self.size);
        self.slab.bytes.get(start..start.saturating_add(self.size)).unwrap_or_default()
    }

    fn place(&self, [c, z, y, x]: [usize; 4]) -> usize {
        let [by_c, by_z, by_y, by_x] = self.steps;
        c * by_c + z * by_z + y * by_y + x * by_x
    }

    /// The bytes of a row.
    fn row(&self, c: usize, z: usize, y: usize, out: &mut Vec<u8>) {
        let [.., by_x] = self.steps;
        let [.., width] = self.extents;
        let start = self.place([c, z, y, 0]);
        out.clear();
        if by_x == 1 {
            let from = start.saturating_mul(self.size);
            let to = from.saturating_add(width.saturating_mul(self.size));
            out.extend_from_slice(self.slab.bytes.get(from..to).unwrap_or_default());
            return;
        }
        for x in 0..width {
            out.extend_from_slice(self.item(start + x * by_x));
        }
    }
}

impl Gathering {
    fn gather(&self, slab: &Slab) -> Result<Planes, Fault> {
        let data_type = slab.data_type.clone();
        if width_of(&data_type).is_none() && !matches!(data_type, DataType::Complex(_)) {
            let what = format!("elements of type {data_type} are not numbers");
            return Err(super::stack::no_picture(what));
        }
        let from = Strided::new(slab, self.axes);
        let [channels, depth, ..] = from.extents;
        let [rows, columns] = &self.spans;
        let (height, width) = (index(span(&rows.pixels)), index(span(&columns.pixels)));
        let room = channels.saturating_mul(height).saturating_mul(width).saturating_mul(from.size);
        let mut bytes = Vec::with_capacity(room);
        let is_complex = matches!(data_type, DataType::Complex(_));
        let resampled = match (self.is_exact, self.nearest || is_complex) {
            (true, _) => "none",
            (false, true) => "nearest",
            (false, false) => "mean",
        };
        if resampled == "none" && (self.how.is_none() || depth == 1 || is_complex) {
            let mut row = Vec::new();
            for c in 0..channels {
                for y in 0..height {
                    from.row(c, 0, y, &mut row);
                    bytes.extend_from_slice(&row);
                }
            }
        } else if resampled == "nearest" {
            let (down, across) = (rows.nearest(), columns.nearest());
            for c in 0..channels {
                for y in &down {
                    for x in &across {
                        bytes.extend_from_slice(from.item(from.place([c, 0, *y, *x])));
                    }
                }
            }
        } else {
            let (down, across) = (rows.taps(), columns.taps());
            for c in 0..channels {
                for tap in &down {
                    for x in self.mean(&from, c, tap, &across) {
                        encode(&data_type, x, &mut bytes);
                    }
                }
            }
        }
        Ok(Planes { data_type, channels, height, width, bytes, resampled })
    }

    /// One row of means, of what is not missing.
    fn mean(&self, from: &Strided<'_>, c: usize, down: &Tap, across: &[Tap]) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); across.len()];
        let (mut bytes, mut plane, mut row) = (Vec::new(), Vec::new(), Vec::new());
        for (i, weight) in down.weights.iter().enumerate() {
            self.projected(from, c, down.first + i, &mut bytes, &mut plane, &mut row);
            for (tap, (sum, all)) in across.iter().zip(&mut sums) {
                let values = row.iter().skip(tap.first).zip(&tap.weights);
                for (value, by) in values.filter(|(value, _)| !value.is_nan()) {
                    *sum += value * weight * by;
                    *all += weight * by;
                }
            }
        }
        sums.into_iter().map(|(sum, all)| if all > 0.0 { sum / all } else { f64::NAN }).collect()
    }

    /// A row of one plane, or the projection of several.
    fn projected(
        &self,
        from: &Strided<'_>,
        c: usize,
        y: usize,
        bytes: &mut Vec<u8>,
        plane: &mut Vec<f64>,
        row: &mut Vec<f64>,
    ) {
        let [_, depth, ..] = from.extents;
        from.row(c, 0, y, bytes);
        decode(&from.slab.data_type, bytes, row);
        let Some(how) = self.how else { return };
        for z in 1..depth {
            from.row(c, z, y, bytes);
            decode(&from.slab.data_type, bytes, plane);
            for (a, b) in row.iter_mut().zip(plane.iter()) {
                match how {
                    // NaN gives way to any number.
                    Projection::Max => *a = a.max(*b),
                    Projection::Mean => *a += b,
                }
            }
        }
        if how == Projection::Mean {
            row.iter_mut().for_each(|x| *x /= f64_of_usize(depth.max(1)));
        }
    }
}

fn span(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// The bytes of an element that is one number; `None` for other types.
pub(crate) fn width_of(data_type: &DataType) -> Option<usize> {
    number(data_type, &[0; 8]).is_some().then(|| data_type.size())
}

/// Elements as real numbers.
pub(crate) fn decode(data_type: &DataType, bytes: &[u8], out: &mut Vec<f64>) {
    fn each<const N: usize>(bytes: &[u8], out: &mut Vec<f64>, f: impl Fn([u8; N]) -> f64) {
        out.extend(bytes.as_chunks::<N>().0.iter().map(|item| f(*item)));
    }
    out.clear();
    match data_type {
        DataType::UInt(8) => each(bytes, out, |[b]| b.into()),
        DataType::UInt(16) => each(bytes, out, |b| u16::from_le_bytes(b).into()),
        DataType::Int(16) => each(bytes, out, |b| i16::from_le_bytes(b).into()),
        DataType::UInt(32) => each(bytes, out, |b| u32::from_le_bytes(b).into()),
        DataType::Int(32) => each(bytes, out, |b| i32::from_le_bytes(b).into()),
        DataType::Float(Float::F32) => each(bytes, out, |b| f32::from_le_bytes(b).into()),
        DataType::Float(Float::F64) => each(bytes, out, f64::from_le_bytes),
        other => {
            let items = bytes.chunks_exact(other.size().max(1));
            out.extend(items.map(|item| number(other, item).unwrap_or(f64::NAN)));
        }
    }
}

/// A number as an element of this type: rounded to the nearest, and kept within the type.
#[allow(clippy::as_conversions, reason = "casts of floats saturate, which is meant")]
fn encode(data_type: &DataType, x: f64, out: &mut Vec<u8>) {
    let near = (x + 0.5).floor();
    match data_type {
        DataType::Bool => out.push(u8::from(x >= 0.5)),
        DataType::UInt(8 | 2 | 4) => out.push(near as u8),
        DataType::Int(8 | 2 | 4) => out.extend((near as i8).to_le_bytes()),
        DataType::UInt(16) => out.extend((near as u16).to_le_bytes()),
        DataType::Int(16) => out.extend((near as i16).to_le_bytes()),
        DataType::UInt(32) => out.extend((near as u32).to_le_bytes()),
        DataType::Int(32) => out.extend((near as i32).to_le_bytes()),
        DataType::UInt(64) => out.extend((near as u64).to_le_bytes()),
        DataType::Int(64) | DataType::DateTime(..) | DataType::TimeDelta(..) => {
            out.extend((near as i64).to_le_bytes());
        }
        DataType::Float(Float::F32) => out.extend((x as f32).to_le_bytes()),
        DataType::Float(Float::F64) => out.extend(x.to_le_bytes()),
        DataType::Float(Float::F16) => out.extend(half::f16::from_f64(x).to_le_bytes()),
        DataType::Float(Float::BF16) => out.extend(half::bf16::from_f64(x).to_le_bytes()),
        // Rarer floats cannot be averaged in place: zeros of their size.
        other => out.extend(std::iter::repeat_n(0, other.size())),
    }
}

impl Planes {
    /// One channel as real numbers.
    pub(crate) fn channel(&self, c: usize) -> Vec<f64> {
        let size = self.data_type.size();
        let plane = self.height.saturating_mul(self.width).saturating_mul(size);
        let start = c.saturating_mul(plane);
        let mut out = Vec::with_capacity(self.height.saturating_mul(self.width));
        decode(
            &self.data_type,
            self.bytes.get(start..start.saturating_add(plane)).unwrap_or_default(),
            &mut out,
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(data_type: DataType, bytes: Vec<u8>, width: u64, step: f64, nearest: bool) -> Planes {
        let slab = Slab::new(&data_type, &[1, width], zaro::Order::C, bytes).unwrap();
        let out = whole((real(width) / step).ceil());
        let work = Gathering {
            axes: [None, None, Some(0), Some(1)],
            spans: [Span::new(1.0, 0..1, 0..1), Span::new(step, 0..out, 0..width)],
            how: None,
            nearest,
            is_exact: false,
        };
        work.gather(&slab).unwrap()
    }

    #[test]
    fn pixels_are_means_of_what_they_cover() {
        let planes = reduced(DataType::UInt(8), vec![1, 2, 10, 20, 7], 5, 2.0, false);
        // Halves are rounded up; the last covers one pixel.
        assert_eq!((planes.bytes.as_slice(), planes.resampled), ([2, 15, 7].as_slice(), "mean"));
        let planes = reduced(DataType::UInt(8), vec![3, 6, 12], 3, 1.5, false);
        assert_eq!(planes.bytes, [4, 10]);
        let planes = reduced(DataType::UInt(8), vec![1, 2, 10, 20, 7], 5, 2.0, true);
        assert_eq!((planes.bytes.as_slice(), planes.resampled), ([2, 20, 7].as_slice(), "nearest"));
        let floats = [1.0f32, f32::NAN, f32::NAN, f32::NAN].iter().flat_map(|x| x.to_le_bytes()).collect();
        let planes = reduced(DataType::FLOAT32, floats, 4, 2.0, false);
        assert!(planes.channel(0).first() == Some(&1.0) && planes.channel(0).get(1).unwrap().is_nan());
    }
}
