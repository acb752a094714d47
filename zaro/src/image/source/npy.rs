//! Reads numpy files as images.

use std::ops::Range;
use std::sync::Arc;

use super::file::{Handle, SourceFile};
use super::{ImageSource, ImageSourceOptions, Pixels, PlaneWindow, axis_letters, stem};
use crate::array::Order;
use crate::error::{Error, Result, invalid, unsupported, usage};
use crate::format::npy::{Header, MAX_HEADER, damaged};
use crate::meta::DataType;
use crate::meta::dtype::Endian;
use crate::num;

/// Spans up to this many bytes are read at once, if a good part of them is needed.
const SPAN: u64 = 8 << 20;

/// The elements of a numpy file.
struct NpySource {
    input: SourceFile,
    begin: u64,
    size: usize,
    is_big_endian: bool,
    /// The strides in elements along t, c, z, y, x; 0 for missing axes.
    strides: [u64; 5],
}

/// Opens a numpy file as an image. By default its axes are the last of t, c, z, y, x.
pub(super) fn open(input: SourceFile, options: &ImageSourceOptions) -> Result<ImageSource> {
    let head = input.head(usize::try_from(MAX_HEADER).unwrap_or(0).saturating_add(16).min(1 << 20))?;
    let header = Header::read(&mut head.as_slice())?;
    let rank = header.shape.len();
    let places = match &options.axes {
        Some(axes) => axis_letters(axes)?,
        None if (2..=5).contains(&rank) => (5 - rank..5).collect(),
        None => {
            return Err(unsupported!("a numpy file of {rank} dimensions cannot be an image"));
        }
    };
    if places.len() != rank {
        let axes = options.axes.as_deref().unwrap_or_default();
        return Err(usage!("axes {axes:?} do not fit a numpy file of {rank} dimensions"));
    }
    let data_type = match header.stored.fixed()? {
        DataType::Bool => DataType::UINT8,
        t @ (DataType::Int(_) | DataType::UInt(_) | DataType::Float(_)) => t.clone(),
        other => return Err(unsupported!("images of {other} are not supported")),
    };
    let size = data_type.size();
    let mut sizes = [1u64; 5];
    let mut strides = [0u64; 5];
    let mut stride = 1u64;
    let dims: Vec<(usize, u64)> = places.iter().copied().zip(header.shape.iter().copied()).collect();
    let fastest: Vec<&(usize, u64)> =
        if header.order == Order::F { dims.iter().collect() } else { dims.iter().rev().collect() };
    for (place, n) in fastest {
        if let (Some(to), Some(step)) = (sizes.get_mut(*place), strides.get_mut(*place)) {
            (*to, *step) = (*n, stride);
        }
        stride = stride.checked_mul(*n).ok_or_else(|| damaged("its shape is too large"))?;
    }
    let bytes = stride.checked_mul(num::u64_of(size)).and_then(|n| n.checked_add(header.length));
    if bytes.is_none_or(|n| n > input.len) {
        return Err(invalid!("the numpy file is too short for {:?} of {data_type}", header.shape));
    }
    if stride == 0 {
        return Err(invalid!("the numpy file has no pixels: {:?}", header.shape));
    }
    let name = stem(&input.path);
    let is_big_endian = header.stored.endian == Some(Endian::Big);
    let npy = NpySource { input, begin: header.length, size, is_big_endian, strides };
    let mut source = ImageSource::new(name, sizes, data_type, Arc::new(npy));
    // Axes given explicitly are declared, whatever their length.
    if options.axes.is_some() {
        for place in places {
            if let Some(declared) = source.declared.get_mut(place) {
                *declared = true;
            }
        }
    }
    Ok(source)
}

/// One dimension of a read: its length, and its strides in the file and in the output.
#[derive(Clone, Copy)]
struct FileDim {
    count: u64,
    stride: u64,
    out: u64,
}

impl NpySource {
    /// Reads the selection of `dims`, the largest stride first, from element `at` of the file to element `to` of `out`.
    fn gather(&self, handle: &Handle, dims: &[FileDim], at: u64, to: u64, out: &mut [u8]) -> Result<()> {
        let size = num::u64_of(self.size);
        let far = |d: &FileDim| (d.count.saturating_sub(1)).saturating_mul(d.stride);
        let span = dims.iter().fold(1u64, |n, d| n.saturating_add(far(d)));
        let useful = dims.iter().fold(1u64, |n, d| n.saturating_mul(d.count));
        let bytes = span.saturating_mul(size);
        let dense = bytes <= SPAN.max(useful.saturating_mul(size)) && span <= useful.saturating_mul(4);
        match dims {
            [first, rest @ ..] if !(dense || (rest.is_empty() && bytes <= SPAN)) => {
                for i in 0..first.count {
                    self.gather(handle, rest, at + i * first.stride, to + i * first.out, out)?;
                }
                Ok(())
            }
            _ => {
                let offset = at.checked_mul(size).and_then(|n| n.checked_add(self.begin));
                let offset = offset.ok_or_else(|| damaged("the offset of an element is too large"))?;
                let span = handle.bytes(offset, num::usize_of(bytes)?)?;
                self.scatter(&span, dims, 0, to, out)
            }
        }
    }

    fn scatter(&self, span: &[u8], dims: &[FileDim], at: u64, to: u64, out: &mut [u8]) -> Result<()> {
        let size = self.size;
        let place = |n: u64| num::usize_of(n).map(|n| n.saturating_mul(size));
        let outside = || Error::io("the numpy file changed while it was read");
        match dims {
            [first, rest @ ..] if !rest.is_empty() => (0..first.count)
                .try_for_each(|i| self.scatter(span, rest, at + i * first.stride, to + i * first.out, out)),
            _ => {
                let FileDim { count, stride, out: step } =
                    dims.first().copied().unwrap_or(FileDim { count: 1, stride: 1, out: 1 });
                if stride == 1 && step == 1 {
                    let n = place(count)?;
                    let from = span.get(place(at)?..place(at)? + n).ok_or_else(outside)?;
                    out.get_mut(place(to)?..place(to)? + n).ok_or_else(outside)?.copy_from_slice(from);
                    return Ok(());
                }
                for i in 0..count {
                    let (from, to) = (place(at + i * stride)?, place(to + i * step)?);
                    let from = span.get(from..from + size).ok_or_else(outside)?;
                    out.get_mut(to..to + size).ok_or_else(outside)?.copy_from_slice(from);
                }
                Ok(())
            }
        }
    }
}

impl Pixels for NpySource {
    fn read(&self, window: &PlaneWindow, out: &mut [u8]) -> Result<()> {
        let handle = self.input.handle()?;
        let [cs, ys, xs] = window.counts();
        let [ts, c, zs, y, x] = self.strides;
        let begin = |range: &Range<u64>, stride: u64| range.start * stride;
        let at =
            window.t * ts + window.z * zs + begin(&window.c, c) + begin(&window.y, y) + begin(&window.x, x);
        let mut dims = [
            FileDim { count: cs, stride: c, out: ys * xs },
            FileDim { count: ys, stride: y, out: xs },
            FileDim { count: xs, stride: x, out: 1 },
        ];
        dims.sort_by_key(|d| std::cmp::Reverse(d.stride));
        let dims: Vec<FileDim> = dims.into_iter().filter(|d| d.count > 1).collect();
        self.gather(&handle, &dims, at, 0, out).map_err(|e| e.with_store(self.input.path.display()))?;
        if self.is_big_endian && self.size > 1 {
            out.chunks_exact_mut(self.size).for_each(<[u8]>::reverse);
        }
        Ok(())
    }

    fn grain(&self) -> [u64; 3] {
        let [_, c, _, y, x] = self.strides;
        // Channels with a smaller stride than pixels are read together.
        let together = if c != 0 && (c < x || c < y) { u64::MAX } else { 1 };
        [together, 1, 1]
    }
}
