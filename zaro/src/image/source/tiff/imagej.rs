//! ImageJ hyperstacks in TIFF: `key=value` lines in the description, and two private tags.

use std::collections::HashMap;

use super::ifd::{Ifd, Tiff};
use super::layout::tag;
use super::{FirstPage, TiffFile, one_directory, ordered, repeated, sensible, source};
use crate::error::{Result, invalid};
use crate::image::model::{Channel, ChannelWindow};
use crate::image::source::file::Handle;
use crate::image::source::{C, ImageSource, ImageSourceOptions, T, X, Y, Z, stem};
use crate::image::units;
use crate::num;

/// The lines of a description.
pub(super) struct Description(HashMap<String, String>);

impl Description {
    /// `None` if it is not ImageJ's.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if !text.starts_with("ImageJ=") {
            return None;
        }
        let pair = |line: &str| line.split_once('=').map(|(k, v)| (k.trim().to_owned(), unescape(v.trim())));
        Some(Self(text.lines().filter_map(pair).collect()))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn count(&self, name: &str) -> Result<Option<u64>> {
        match self.get(name).map(str::parse::<u64>) {
            None => Ok(None),
            Some(Ok(n)) if n > 0 => Ok(Some(n)),
            Some(_) => Err(invalid!("ImageJ's {name} is not a number of planes")),
        }
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok().filter(|x: &f64| x.is_finite())
    }
}

/// ImageJ writes non-ASCII characters as `\u00B5`.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\u") {
        out.push_str(before);
        let letter =
            after.get(..4).and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
        match letter {
            Some(letter) => {
                out.push(letter);
                rest = after.get(4..).unwrap_or_default();
            }
            None => {
                out.push_str("\\u");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// ImageJ's private tags.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// One per plane.
    labels: Vec<String>,
    /// Minimum and maximum per channel.
    ranges: Vec<(f64, f64)>,
    /// The brightest colour per channel.
    colors: Vec<[u8; 3]>,
}

impl Extra {
    /// Parses the tags; empty if they are damaged, since they are optional.
    pub(super) fn read(tiff: &Tiff, handle: &Handle, ifd: &Ifd) -> Self {
        Self::parse(tiff, handle, ifd).unwrap_or_default()
    }

    fn parse(tiff: &Tiff, handle: &Handle, ifd: &Ifd) -> Option<Self> {
        let lengths = tiff.uints(handle, ifd.get(tag::IJ_COUNTS)?).ok()?;
        let bytes = tiff.value(handle, ifd.get(tag::IJ_METADATA)?).ok()?;
        let big = tiff.is_big_endian;
        let mut parts = Vec::new();
        let mut rest = bytes.as_slice();
        for length in &lengths {
            let (part, after) = rest.split_at_checked(usize::try_from(*length).ok()?)?;
            parts.push(part);
            rest = after;
        }
        let word = |b: &[u8; 4]| if big { u32::from_be_bytes(*b) } else { u32::from_le_bytes(*b) };
        let double = |b: &[u8; 8]| if big { f64::from_be_bytes(*b) } else { f64::from_le_bytes(*b) };
        let (head, mut parts) = parts.split_first().map(|(h, p)| (*h, p.iter()))?;
        let mut words = head.as_chunks::<4>().0.iter().map(word);
        if words.next()? != u32::from_be_bytes(*b"IJIJ") {
            return None;
        }
        let mut extra = Self::default();
        while let (Some(kind), Some(count)) = (words.next(), words.next()) {
            for _ in 0..count {
                let part = parts.next()?;
                match &kind.to_be_bytes() {
                    b"labl" => {
                        let unit =
                            |b: &[u8; 2]| if big { u16::from_be_bytes(*b) } else { u16::from_le_bytes(*b) };
                        let letters: Vec<u16> = part.as_chunks::<2>().0.iter().map(unit).collect();
                        extra.labels.push(String::from_utf16_lossy(&letters));
                    }
                    b"rang" => {
                        let numbers: Vec<f64> = part.as_chunks::<8>().0.iter().map(double).collect();
                        let pairs = numbers.as_chunks::<2>().0.iter();
                        extra.ranges.extend(pairs.map(|[least, most]| (*least, *most)));
                    }
                    b"luts" => {
                        let n = part.len() / 3;
                        let last = |k: usize| part.get((k + 1) * n - 1).copied();
                        extra.colors.push([last(0)?, last(1)?, last(2)?]);
                    }
                    _ => {}
                }
            }
        }
        Some(extra)
    }

    /// The names of channels, from the labels of the first planes: `c:1/3 z:1/5 - DAPI` is DAPI.
    fn names(&self, channels: u64) -> Vec<String> {
        let plain = |label: &String| {
            let line = label.lines().next().unwrap_or_default();
            let coordinates = line.starts_with("c:") || line.starts_with("z:") || line.starts_with("t:");
            match line.split_once(" - ") {
                Some((_, name)) if coordinates => name.trim().to_owned(),
                _ if coordinates => String::new(),
                _ => line.trim().to_owned(),
            }
        };
        let n = usize::try_from(channels).unwrap_or(0);
        let names: Vec<String> = self.labels.iter().take(n).map(plain).collect();
        let distinct = names.iter().all(|a| !a.is_empty() && names.iter().filter(|b| *b == a).count() == 1);
        if names.len() == n && distinct { names } else { Vec::new() }
    }
}

/// The colours of a composite image without tables of its own.
const COMPOSITE: [[u8; 3]; 7] =
    [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [0, 255, 255], [255, 0, 255], [255, 255, 0]];

pub(super) fn open(file: &TiffFile, said: &Description, options: &ImageSourceOptions) -> Result<ImageSource> {
    let first = file.first()?;
    let mut pages = file.full();
    // Macros and other programs may append pages of another size.
    pages.retain(|p| p.layout.width == first.layout.width && p.layout.height == first.layout.height);
    let there = num::u64_of(pages.len());
    let (c, z, t) = (said.count("channels")?, said.count("slices")?, said.count("frames")?);
    let images = said.count("images")?.unwrap_or(1);
    // Samples are channels to ImageJ, but not pages.
    let mut channels = c.unwrap_or(1);
    if channels > 1 && channels == first.layout.samples {
        channels = 1;
    }
    let stacked = num::product(&[channels, z.unwrap_or(1), t.unwrap_or(1)])?;
    let wanted = if stacked > 1 { stacked } else { images.max(there) };
    let counts = if stacked > 1 { (channels, z.unwrap_or(1), t.unwrap_or(1)) } else { (1, wanted, 1) };
    let mut warnings = Vec::new();
    if there < wanted {
        pages = one_directory(&pages, wanted)?;
    } else if there > wanted {
        warnings.push(format!("the file has {there} pages, but its ImageJ metadata states {wanted}"));
        pages.truncate(num::usize_of(wanted)?);
    }
    // ImageJ's order: channels, then slices, then frames.
    let (cs, zs, ts) = counts;
    let ordered = ordered(&pages, [ts, cs, zs], |[t, c, z]| (t * zs + z) * cs + c)?;
    let mut source = source(stem(&file.tiff.input.path), ordered, [ts, cs, zs], options)?;
    source.warnings = warnings;
    for (axis, count) in [(T, t), (C, c), (Z, z)] {
        if let Some(declared) = source.declared.get_mut(axis) {
            *declared |= count.is_some();
        }
    }
    sizes(&mut source, file, said);
    looks(&mut source, &file.head, said);
    Ok(source)
}

fn sizes(source: &mut ImageSource, file: &TiffFile, said: &Description) {
    let unit = said.get("unit").unwrap_or_default();
    let known = units::length(unit);
    let [x, y] = file.head.resolution.map(|r| r.and_then(|(over, under)| sensible(under / over)));
    if known.is_some() {
        (source.scale[X], source.scale[Y]) = (x, y);
    } else if unit.is_empty() {
        // Without a unit, use that of the resolution tag.
        let [y, x] = file.pixel_size();
        (source.scale[X], source.scale[Y]) = (x, y);
    }
    let spacing = said.number("spacing").map(f64::abs).and_then(sensible);
    let unit = known.clone().or_else(|| source.scale[X].map(|_| "micrometer".to_owned()));
    if known.is_some() || unit.is_none() {
        source.scale[Z] = spacing;
    }
    for (axis, own) in [(Z, "zunit"), (Y, "yunit"), (X, "")] {
        // Axes may have units of their own in ImageJ; one that is not a length drops the pixel size.
        let unit = match said.get(own).filter(|own| !own.is_empty()) {
            Some(own) => units::length(own),
            None => unit.clone(),
        };
        let (Some(size), Some(to)) = (source.scale.get_mut(axis), source.units.get_mut(axis)) else {
            continue;
        };
        match unit {
            Some(unit) if size.is_some() => *to = Some(unit),
            None if said.get(own).is_some_and(|own| !own.is_empty()) => *size = None,
            _ => {}
        }
    }
    let frames = said.number("finterval").and_then(sensible);
    let rate = said.number("fps").and_then(|fps| sensible(1.0 / fps));
    if let Some(interval) = frames.or(rate) {
        let unit = if frames.is_some() { said.get("tunit").and_then(units::time) } else { None };
        source.scale[T] = Some(interval);
        source.units[T] = Some(unit.unwrap_or_else(|| "second".to_owned()));
    }
}

fn looks(source: &mut ImageSource, head: &FirstPage, said: &Description) {
    let n = source.sizes[C];
    let names = head.imagej.names(n);
    let range = match (said.number("min"), said.number("max")) {
        (Some(min), Some(max)) if min < max => Some((min, max)),
        _ => None,
    };
    if source.is_rgb || n > 1 << 14 {
        return;
    }
    if source.channels.is_empty() {
        source.channels = repeated(n, Channel::default);
    }
    let is_composite = matches!(said.get("mode"), Some("composite" | "color"));
    for (i, channel) in source.channels.iter_mut().enumerate() {
        channel.label = names.get(i).cloned();
        let range = head.imagej.ranges.get(i).copied().or(range.filter(|_| n == 1));
        if let Some((start, end)) = range.filter(|(a, b)| a < b) {
            channel.window = ChannelWindow { start: Some(start), end: Some(end), ..ChannelWindow::default() };
        }
        let color = head.imagej.colors.get(i).copied().filter(|c| *c != [0; 3]);
        channel.color =
            color.or(channel.color).or_else(|| COMPOSITE.get(i).copied().filter(|_| is_composite && n > 1));
    }
}
