//! Combines TIFF pages, in the order t, c, z, into one image.

use std::sync::Arc;

use super::layout::{Colors, PageLayout};
use super::page::TiffPage;
use crate::error::{Error, Result, invalid};
use crate::image::source::{Pixels, PlaneWindow};
use crate::num;

pub(super) struct Planes {
    /// In the order t, c, z; `None` is a plane of zeros.
    pages: Vec<Option<TiffPage>>,
    /// The numbers along t, c, z.
    tcz: [u64; 3],
    layout: Arc<PageLayout>,
    /// The palette, if colours are looked up.
    colors: Option<Colors>,
}

impl Planes {
    pub(super) fn new(
        pages: Vec<Option<TiffPage>>,
        tcz: [u64; 3],
        layout: Arc<PageLayout>,
        colors: Option<Colors>,
    ) -> Result<Self> {
        if num::product(&tcz)? != num::u64_of(pages.len()) {
            return Err(invalid!("the file has {} pages for {tcz:?} planes along t, c, z", pages.len()));
        }
        for (i, page) in pages.iter().enumerate() {
            let Some(other) = page else { continue };
            let (a, b) = (&layout, &other.layout);
            if (a.width, a.height, a.samples, &a.data_type) != (b.width, b.height, b.samples, &b.data_type) {
                return Err(invalid!(
                    "plane {i} is {} x {} of {} {}, but the first is {} x {} of {} {}",
                    b.height,
                    b.width,
                    b.samples,
                    b.data_type,
                    a.height,
                    a.width,
                    a.samples,
                    a.data_type
                )
                .with_store(other.tiff.input.path.display()));
            }
        }
        Ok(Self { pages, tcz, layout, colors })
    }
}

impl Pixels for Planes {
    fn read(&self, window: &PlaneWindow, out: &mut [u8]) -> Result<()> {
        let [_, groups, zs] = self.tcz;
        let samples = if self.colors.is_some() { 3 } else { self.layout.samples };
        let [_, rows, columns] = window.counts();
        let size = if self.colors.is_some() { 1 } else { self.layout.data_type.size() };
        let plane = num::product_usize(&[rows, columns, num::u64_of(size)])?;
        let mut rest = out;
        for group in window.c.start / samples..window.c.end.div_ceil(samples) {
            let begin = group * samples;
            let wanted = window.c.start.max(begin) - begin..window.c.end.min(begin + samples) - begin;
            let length = plane.saturating_mul(num::usize_of(wanted.end - wanted.start)?);
            let (out, after) =
                rest.split_at_mut_checked(length).ok_or_else(|| Error::usage("the buffer is too small"))?;
            rest = after;
            let number = (window.t * groups + group) * zs + window.z;
            let Some(page) = self.pages.get(num::usize_of(number)?).and_then(Option::as_ref) else {
                out.fill(0);
                continue;
            };
            let place = |e: Error| {
                e.within(format_args!("plane t {} c {group} z {}", window.t, window.z))
                    .with_store(page.tiff.input.path.display())
            };
            let Some(colors) = &self.colors else {
                page.read(wanted, window.y.clone(), window.x.clone(), out).map_err(place)?;
                continue;
            };
            let width = page.layout.data_type.size();
            let mut indexes = vec![0; num::product_usize(&[rows, columns, num::u64_of(width)])?];
            page.read(0..1, window.y.clone(), window.x.clone(), &mut indexes).map_err(place)?;
            for (out, k) in out.chunks_exact_mut(plane).zip(wanted) {
                let k = num::usize_of(k)?;
                for (to, index) in out.iter_mut().zip(indexes.chunks_exact(width)) {
                    let i = index.iter().rev().fold(0usize, |all, b| all << 8 | usize::from(*b));
                    *to = colors.get(i).and_then(|color| color.get(k)).copied().unwrap_or(0);
                }
            }
        }
        Ok(())
    }

    fn grain(&self) -> [u64; 3] {
        let layout = &self.layout;
        let samples = if self.colors.is_some() { 3 } else { layout.interleaved() };
        // Uncompressed rows can be read one by one.
        let rows = if layout.compression == 1 && !layout.is_tiled { 1 } else { layout.segment.1 };
        [samples, rows, layout.segment.0]
    }
}

/// An image with t, c and z renamed.
pub(super) struct Relabelled {
    pub(super) inner: Arc<dyn Pixels>,
    /// The axes of the inner image that t, c and z are.
    pub(super) map: [Option<usize>; 3],
}

impl Pixels for Relabelled {
    fn read(&self, window: &PlaneWindow, out: &mut [u8]) -> Result<()> {
        let [channels, ..] = window.counts();
        let plane = out.len() / num::usize_of(channels)?.max(1);
        for (out, c) in out.chunks_exact_mut(plane.max(1)).zip(window.c.clone()) {
            let mut at = [0u64; 5];
            for (value, place) in [window.t, c, window.z].into_iter().zip(self.map) {
                if let Some(to) = place.and_then(|p| at.get_mut(p)) {
                    *to = value;
                }
            }
            let [t, c, z, ..] = at;
            let inner = PlaneWindow { t, c: c..c + 1, z, y: window.y.clone(), x: window.x.clone() };
            self.inner.read(&inner, out)?;
        }
        Ok(())
    }

    fn grain(&self) -> [u64; 3] {
        let [_, y, x] = self.inner.grain();
        [1, y, x]
    }
}
