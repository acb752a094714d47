//! Converts rows of intensities to rows of colours.

use std::ops::Range;

use rayon::prelude::*;

use crate::context::Context;
use crate::image::model::ColorModel;
use crate::image::render::frame::{AxisSpan, Tap};
use crate::image::render::look::{ChannelLook, Look};
use crate::image::render::quantum::{Curve, tinted};
use crate::image::render::samples::SampleKind;
use crate::image::render::settings::Projection;
use crate::image::render::source::PixelBlock;

/// The number of pixels from which a lookup table pays off.
const WORTH_A_TABLE: usize = 1 << 15;

/// Red, green and blue sums of one pixel: 16 bits each, so that one addition does three.
type Sum = u64;

fn lanes([r, g, b]: [u8; 3]) -> Sum {
    u64::from(r) | u64::from(g) << 16 | u64::from(b) << 32
}

#[derive(Debug)]
pub(super) struct Tone {
    /// Maps intensities, minus the origin, to grey values.
    curve: Curve,
    /// The offset subtracted from intensities, since floats cannot represent large integers exactly.
    origin: i128,
    kind: SampleKind,
    table: GreyTable,
    /// The colour of each grey value.
    tints: Box<[Sum; 256]>,
}

/// A lookup table of grey values.
#[derive(Debug)]
enum GreyTable {
    Bytes(Box<[u8; 1 << 8]>),
    Words(Box<[u8; 1 << 16]>),
    None,
}

impl Tone {
    fn new(channel: &ChannelLook, model: ColorModel, kind: &SampleKind, pixels: usize) -> Self {
        let origin = kind.origin(channel.curve.start);
        let curve = channel.curve.less(origin);
        let grey = |bytes: &[u8]| {
            let mut x = [0.0];
            kind.decode(bytes, origin, &mut x);
            curve.quantum(x[0])
        };
        let table = match kind.size() {
            1 => {
                let mut table = Box::new([0; 1 << 8]);
                for (bits, q) in (0..=u8::MAX).zip(table.iter_mut()) {
                    *q = grey(&[bits]);
                }
                GreyTable::Bytes(table)
            }
            2 if pixels >= WORTH_A_TABLE => {
                let mut table = Box::new([0; 1 << 16]);
                for (bits, q) in (0..=u16::MAX).zip(table.iter_mut()) {
                    *q = grey(&bits.to_le_bytes());
                }
                GreyTable::Words(table)
            }
            _ => GreyTable::None,
        };
        let mut tints = Box::new([0; 256]);
        for (q, tint) in (0..=u8::MAX).zip(tints.iter_mut()) {
            *tint = lanes(match model {
                ColorModel::Color => channel.color.map(|component| tinted(q, component)),
                ColorModel::Greyscale => [q; 3],
            });
        }
        Self { curve, origin, kind: kind.clone(), table, tints }
    }

    pub(super) fn origin(&self) -> i128 {
        self.origin
    }

    fn tint(&self, q: u8) -> Sum {
        self.tints.get(usize::from(q)).copied().unwrap_or(0)
    }

    fn add_raw(&self, row: &[u8], sums: &mut [Sum], reals: &mut Vec<f64>) {
        match &self.table {
            GreyTable::Bytes(table) => {
                for (bits, sum) in row.iter().zip(sums) {
                    *sum += self.tint(table.get(usize::from(*bits)).copied().unwrap_or(0));
                }
            }
            GreyTable::Words(table) => {
                for (bits, sum) in row.as_chunks().0.iter().zip(sums) {
                    let bits = usize::from(u16::from_le_bytes(*bits));
                    *sum += self.tint(table.get(bits).copied().unwrap_or(0));
                }
            }
            GreyTable::None => {
                reals.clear();
                reals.resize(sums.len(), f64::NAN);
                self.kind.decode(row, self.origin, reals);
                self.add_reals(reals, sums);
            }
        }
    }

    fn add_reals(&self, row: &[f64], sums: &mut [Sum]) {
        for (x, sum) in row.iter().zip(sums) {
            *sum += self.tint(self.curve.quantum(*x));
        }
    }
}

/// The tones of all channels for a picture of about `pixels`.
pub(super) fn tones(context: &Context, look: &Look, kind: &SampleKind, pixels: usize) -> Vec<Tone> {
    let tone = |channel| Tone::new(channel, look.model, kind, pixels);
    context.install(|| look.channels.par_iter().map(tone).collect())
}

/// Intensities of several channels: as read, or projected along z.
#[derive(Debug)]
pub(super) enum ChannelPlanes {
    Block(PixelBlock),
    Projected(Projected),
}

impl ChannelPlanes {
    /// One row as floats, minus an origin, which is already subtracted from projected ones.
    fn reals(&self, c: usize, y: usize, origin: i128, bytes: &mut Vec<u8>, out: &mut [f64]) {
        match self {
            Self::Block(block) => block.kind.decode(block.row(c, 0, y, bytes), origin, out),
            Self::Projected(planes) => {
                for (x, from) in out.iter_mut().zip(planes.row(c, y)) {
                    *x = *from;
                }
            }
        }
    }
}

/// A projection of planes along z.
#[derive(Debug)]
pub(super) struct Projected {
    how: Projection,
    /// The offset subtracted from the values of each channel.
    origins: Vec<i128>,
    /// One plane per channel, row by row; NaN where there is no value yet.
    values: Vec<Vec<f64>>,
    /// The number of values in each.
    counts: Vec<Vec<u32>>,
    width: usize,
}

impl Projected {
    pub(super) fn new(how: Projection, origins: &[i128], rows: usize, width: usize) -> Self {
        let pixels = rows.saturating_mul(width);
        let counted = if how == Projection::Mean { pixels } else { 0 };
        Self {
            how,
            origins: origins.to_vec(),
            values: vec![vec![f64::NAN; pixels]; origins.len()],
            counts: vec![vec![0; counted]; origins.len()],
            width: width.max(1),
        }
    }

    /// Adds the planes of a block.
    pub(super) fn add(&mut self, context: &Context, block: &PixelBlock) {
        let width = self.width;
        for (c, (values, counts)) in self.values.iter_mut().zip(&mut self.counts).enumerate() {
            let origin = self.origins.get(c).copied().unwrap_or(0);
            // Without counts there are no rows to zip with.
            let counts = match self.how {
                Projection::Mean => counts.chunks_mut(width).map(Some).collect(),
                Projection::Max => values.chunks(width).map(|_| None).collect::<Vec<_>>(),
            };
            context.install(|| {
                values.par_chunks_mut(width).zip(counts).enumerate().for_each_init(
                    || (Vec::new(), vec![0.0; width]),
                    |(bytes, reals), (y, (values, counts))| {
                        let mut counts = counts;
                        for z in 0..block.depth {
                            block.kind.decode(block.row(c, z, y, bytes), origin, reals);
                            match &mut counts {
                                None => {
                                    for (value, x) in values.iter_mut().zip(reals.iter()) {
                                        *value = value.max(*x);
                                    }
                                }
                                Some(counts) => {
                                    for ((value, x), n) in
                                        values.iter_mut().zip(reals.iter()).zip(counts.iter_mut())
                                    {
                                        if !x.is_nan() {
                                            *value = if *n == 0 { *x } else { *value + *x };
                                            *n += 1;
                                        }
                                    }
                                }
                            }
                        }
                    },
                )
            });
        }
    }

    /// Finishes the projection after the last plane.
    pub(super) fn finish(&mut self) {
        for (values, counts) in self.values.iter_mut().zip(&self.counts) {
            for (value, n) in values.iter_mut().zip(counts) {
                *value /= f64::from(*n);
            }
        }
    }

    fn row(&self, c: usize, y: usize) -> &[f64] {
        let start = y.saturating_mul(self.width);
        self.values.get(c).and_then(|plane| plane.get(start..start + self.width)).unwrap_or_default()
    }
}

/// Scratch memory of a thread for a row.
#[derive(Default)]
struct RowScratch {
    bytes: Vec<u8>,
    reals: Vec<f64>,
    down: Vec<f64>,
    weights: Vec<f64>,
    across: Vec<f64>,
    sums: Vec<Sum>,
}

/// How rows of a picture are computed from rows of a level.
pub(super) enum Fit<'a> {
    /// Each pixel is one pixel of the level, in order.
    Single,
    /// Each pixel is a mean: the span of the picture's rows, its first row, the first row and column of the level that
    /// were read, and the columns.
    Mean {
        y: &'a AxisSpan,
        first_row: usize,
        row_offset: u64,
        columns: &'a [Tap],
        column_offset: u64,
        width: usize,
    },
}

/// Paints some columns of rows of a picture, `row_bytes` each.
pub(super) fn rows(
    context: &Context,
    raw: &ChannelPlanes,
    tones: &[Tone],
    fit: &Fit<'_>,
    rgba: &mut [u8],
    row_bytes: usize,
    columns: Range<usize>,
) {
    context.install(|| {
        rgba.par_chunks_exact_mut(row_bytes).enumerate().for_each_init(RowScratch::default, |s, (i, out)| {
            s.sums.clear();
            s.sums.resize(columns.len(), 0);
            for (c, tone) in tones.iter().enumerate() {
                match fit {
                    Fit::Single => match raw {
                        ChannelPlanes::Block(block) => {
                            tone.add_raw(block.row(c, 0, i, &mut s.bytes), &mut s.sums, &mut s.reals);
                        }
                        ChannelPlanes::Projected(planes) => tone.add_reals(planes.row(c, i), &mut s.sums),
                    },
                    Fit::Mean { y, first_row, row_offset, columns, column_offset, width } => {
                        let tap = y.tap(first_row + i);
                        let first = usize::try_from(tap.first.saturating_sub(*row_offset)).unwrap_or(0);
                        down(raw, (c, tone.origin), first, &tap.weights, *width, s);
                        across(columns, *column_offset, s);
                        tone.add_reals(&s.across, &mut s.sums);
                    }
                }
            }
            for (pixel, sum) in out.as_chunks_mut::<4>().0.iter_mut().skip(columns.start).zip(&s.sums) {
                let lane = |shift: u32| u8::try_from((sum >> shift) & 0xFFFF).unwrap_or(u8::MAX);
                *pixel = [lane(0), lane(16), lane(32), 255];
            }
        })
    });
}

/// Sums rows by their weights, ignoring NaN.
fn down(
    raw: &ChannelPlanes,
    (c, origin): (usize, i128),
    first: usize,
    weights: &[f64],
    width: usize,
    s: &mut RowScratch,
) {
    s.down.clear();
    s.down.resize(width, 0.0);
    s.weights.clear();
    s.weights.resize(width, 0.0);
    s.reals.resize(width, 0.0);
    for (n, weight) in weights.iter().enumerate() {
        raw.reals(c, first + n, origin, &mut s.bytes, &mut s.reals);
        for ((x, sum), counted) in s.reals.iter().zip(&mut s.down).zip(&mut s.weights) {
            let is_number = !x.is_nan();
            *sum += if is_number { weight * x } else { 0.0 };
            *counted += if is_number { *weight } else { 0.0 };
        }
    }
}

/// Means of columns, from the sums of [`down`].
fn across(columns: &[Tap], offset: u64, s: &mut RowScratch) {
    s.across.clear();
    for tap in columns {
        let first = usize::try_from(tap.first.saturating_sub(offset)).unwrap_or(0);
        let (mut sum, mut counted) = (0.0, 0.0);
        let cells = s.down.iter().zip(&s.weights).skip(first);
        for (weight, (x, n)) in tap.weights.iter().zip(cells) {
            sum += weight * x;
            counted += weight * n;
        }
        s.across.push(if counted > 0.0 { sum / counted } else { f64::NAN });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::model::Family;
    use crate::meta::DataType;

    /// The colour of one pixel of these intensities.
    fn blend(raw: [u8; 4], model: ColorModel) -> [u8; 3] {
        let channel = |index: u64, color: [u8; 3]| ChannelLook {
            index,
            label: None,
            color,
            curve: Curve {
                start: 0.0,
                end: 100.0,
                family: Family::Linear,
                coefficient: 1.0,
                inverted: false,
            },
            guessed: false,
        };
        let mut channels = vec![channel(0, [0, 0, 255]), channel(1, [255, 255, 0]), channel(2, [0, 255, 0])];
        if model == ColorModel::Greyscale {
            channels.truncate(1);
        }
        let look = Look { channels, model, z: 0, t: 0, projection: None };
        let mut sums = [0];
        let kind = SampleKind::of(&DataType::UINT8).unwrap();
        for (tone, x) in tones(&Context::shared(), &look, &kind, 1).iter().zip(raw) {
            tone.add_raw(&[x], &mut sums, &mut Vec::new());
        }
        [0, 16, 32].map(|shift| u8::try_from((sums[0] >> shift) & 0xFFFF).unwrap_or(255))
    }

    #[test]
    fn channels_are_added_up_or_the_first_is_grey() {
        for (raw, color, grey) in [
            ([50, 50, 0, 100], [128, 128, 128], 128),
            ([100, 60, 60, 100], [153, 255, 255], 255),
            ([10, 20, 30, 0], [51, 128, 26], 26),
        ] {
            assert_eq!(blend(raw, ColorModel::Color), color);
            assert_eq!(blend(raw, ColorModel::Greyscale), [grey; 3]);
        }
    }

    #[test]
    fn large_whole_numbers_are_told_apart() {
        let start = 1i64 << 60;
        let curve = Curve {
            start: 1_152_921_504_606_846_976.0,
            end: 1_152_921_504_606_847_232.0,
            family: Family::Linear,
            coefficient: 1.0,
            inverted: false,
        };
        let channel = ChannelLook { index: 0, label: None, color: [255; 3], curve, guessed: false };
        let look =
            Look { channels: vec![channel], model: ColorModel::Greyscale, z: 0, t: 0, projection: None };
        for (kind, sign) in [(DataType::Int(64), 1), (DataType::UINT64, 1)] {
            let tone = tones(&Context::shared(), &look, &SampleKind::of(&kind).unwrap(), 1).remove(0);
            for (above, grey) in
                [(-1, 0), (0, 0), (1, 1), (64, 64), (128, 128), (200, 199), (255, 254), (300, 255)]
            {
                let mut sums = [0];
                tone.add_raw(&(start + above * sign).to_le_bytes(), &mut sums, &mut Vec::new());
                assert_eq!(sums[0] & 0xFF, grey, "{kind:?} {above}");
            }
        }
    }
}
