//! Reads TIFF files: classic TIFF and BigTIFF, either byte order, strips and tiles, and stacks of pages with ImageJ,
//! OME or tifffile metadata.

mod ifd;
mod imagej;
mod layout;
mod multi;
mod page;
mod planes;

use std::sync::Arc;

use super::file::SourceFile;
use super::{C, ImageSource, ImageSourceOptions, T, X, Y, Z, axis_letters, ome, stem};
use crate::error::{Error, Result, invalid, unsupported, usage};
use crate::image::model::Channel;
use crate::meta::Json;
use crate::num;
use ifd::{Ifd, Tiff};
use layout::{PALETTE, PageLayout, RGB, WHITE_IS_ZERO, YCBCR, tag};
pub(super) use multi::{is_set, open_companion};
use page::TiffPage;
pub(super) use page::{jpeg, jpeg_size};
use planes::{Planes, Relabelled};

/// A TIFF file with all its pages.
struct TiffFile {
    tiff: Arc<Tiff>,
    pages: Vec<TiffPage>,
    /// Whether each page is a reduced copy of another.
    reduced: Vec<bool>,
    /// tifffile descriptions of the pages that have one: the first of each array.
    shaped: Vec<(usize, String)>,
    head: FirstPage,
}

/// File-level metadata of the first page.
#[derive(Debug, Default)]
struct FirstPage {
    description: Option<String>,
    /// Pixels per unit: numerator and denominator, along x and y.
    resolution: [Option<(f64, f64)>; 2],
    resolution_unit: u64,
    imagej: imagej::Extra,
}

impl TiffFile {
    fn read(input: SourceFile) -> Result<Self> {
        let tiff = Arc::new(Tiff::open(input)?);
        let mut file = Self {
            tiff: tiff.clone(),
            pages: Vec::new(),
            reduced: Vec::new(),
            shaped: Vec::new(),
            head: FirstPage::default(),
        };
        tiff.each_ifd(|handle, ifd: &Ifd| {
            if file.pages.is_empty() {
                file.head = FirstPage {
                    description: tiff.text(handle, ifd, tag::DESCRIPTION)?,
                    resolution: [
                        tiff.fraction(handle, ifd, tag::X_RESOLUTION)?,
                        tiff.fraction(handle, ifd, tag::Y_RESOLUTION)?,
                    ],
                    resolution_unit: tiff.number(handle, ifd, tag::RESOLUTION_UNIT)?.unwrap_or(2),
                    imagej: imagej::Extra::read(&tiff, handle, ifd),
                };
            }
            if ifd.get(tag::DESCRIPTION).is_some()
                && let Ok(Some(text)) = tiff.text(handle, ifd, tag::DESCRIPTION)
                && described(text.trim_start()).is_some()
            {
                file.shaped.push((file.pages.len(), text.trim_start().to_owned()));
            }
            let layout = PageLayout::read(&tiff, handle, ifd)?;
            let layout = match file.pages.last() {
                Some(last) if *last.layout == layout => last.layout.clone(),
                _ => Arc::new(layout),
            };
            file.pages.push(TiffPage::new(&tiff, layout, ifd)?);
            file.reduced.push(tiff.number(handle, ifd, tag::SUBFILE)?.is_some_and(|n| n & 1 == 1));
            Ok(())
        })?;
        Ok(file)
    }

    fn first(&self) -> Result<&TiffPage> {
        self.pages.first().ok_or_else(|| Error::invalid("the TIFF file has no pages"))
    }

    /// The pages that are not reduced copies of others.
    fn full(&self) -> Vec<TiffPage> {
        let full = self.pages.iter().zip(&self.reduced).filter(|(_, reduced)| !**reduced);
        let full: Vec<TiffPage> = full.map(|(page, _)| page.clone()).collect();
        if full.is_empty() { self.pages.clone() } else { full }
    }

    /// The pixel size along y and x in micrometers, if the resolution has a unit.
    fn pixel_size(&self) -> [Option<f64>; 2] {
        let unit = match self.head.resolution_unit {
            2 => 25_400.0,
            3 => 10_000.0,
            _ => return [None; 2],
        };
        let [x, y] = self.head.resolution;
        [y, x].map(|r| r.and_then(|(over, under)| sensible(unit * under / over)))
    }
}

/// The size, if it is plausible.
fn sensible(size: f64) -> Option<f64> {
    (size.is_finite() && size > 0.0).then_some(size)
}

/// The images of a TIFF file.
pub(super) fn open(input: SourceFile, options: &ImageSourceOptions) -> Result<Vec<ImageSource>> {
    let file = TiffFile::read(input)?;
    let description = file.head.description.clone().unwrap_or_default();
    let text = description.trim_start_matches('\u{feff}').trim_start();
    let samples = file.pages.first().map_or(1, |page| page.layout.samples);
    let mut found = if ome::is_ome(text) {
        multi::open(file, text, options)?
    } else if let Some(said) = imagej::Description::parse(text) {
        vec![imagej::open(&file, &said, options)?]
    } else {
        plain(&file, text, options)?
    };
    if let Some(axes) = &options.axes {
        found = found.into_iter().map(|source| relabel(source, axes, samples)).collect::<Result<_>>()?;
    }
    Ok(found)
}

/// A file without axes metadata: pages of the same size are a stack along z. Several arrays of tifffile are
/// distinguished by their descriptions.
fn plain(file: &TiffFile, description: &str, options: &ImageSourceOptions) -> Result<Vec<ImageSource>> {
    if description.starts_with("Aperio") {
        return aperio(file, description, options);
    }
    let mut series: Vec<(Option<&str>, Vec<TiffPage>)> = Vec::new();
    if file.shaped.len() > 1 {
        for (i, (begin, text)) in file.shaped.iter().enumerate() {
            let end = file.shaped.get(i.saturating_add(1)).map_or(file.pages.len(), |(next, _)| *next);
            let pages = file.pages.iter().zip(&file.reduced).take(end).skip(*begin);
            let full: Vec<TiffPage> =
                pages.filter(|(_, reduced)| !**reduced).map(|(p, _)| p.clone()).collect();
            if !full.is_empty() {
                series.push((Some(text), full));
            }
        }
    }
    let alike = |a: &TiffPage, b: &TiffPage| {
        let (a, b) = (&a.layout, &b.layout);
        (a.width, a.height, a.samples, &a.data_type, a.is_planar, a.photometric)
            == (b.width, b.height, b.samples, &b.data_type, b.is_planar, b.photometric)
    };
    if series.is_empty() {
        for page in file.full() {
            match series.iter_mut().find(|(_, s)| s.first().is_some_and(|first| alike(first, &page))) {
                Some((_, pages)) => pages.push(page),
                None => series.push((None, vec![page])),
            }
        }
    }
    let only = series.len() == 1;
    let name = stem(&file.tiff.input.path);
    let mut found = Vec::new();
    for (i, (text, pages)) in series.into_iter().enumerate() {
        let shaped = match text {
            Some(text) => Shaped::parse(text, &pages)?,
            None if only => Shaped::parse(description, &pages)?,
            None => None,
        };
        let samples_are = shaped.as_ref().and_then(|shaped| shaped.samples_are);
        let (pages, tcz) = match shaped {
            Some(shaped) => shaped.lay_out(pages)?,
            None => {
                let n = num::u64_of(pages.len());
                (pages.into_iter().map(Some).collect(), [1, 1, n])
            }
        };
        let name = if only { name.clone() } else { format!("{name} {i}") };
        let mut source = source(name, pages, tcz, options)?;
        set_pixel_size(&mut source, file.pixel_size());
        found.push(match samples_are {
            Some(axis) => with_samples_along(source, axis),
            None => source,
        });
    }
    Ok(found)
}

/// Sizes along y and x, in micrometers.
fn set_pixel_size(source: &mut ImageSource, [y, x]: [Option<f64>; 2]) {
    (source.scale[Y], source.scale[X]) = (y, x);
    source.units[Y] = y.map(|_| "micrometer".to_owned());
    source.units[X] = x.map(|_| "micrometer".to_owned());
}

/// An Aperio slide (`.svs`): the slide, a thumbnail, smaller levels, a label, a macro image. Only the slide is used,
/// with its z planes, which have the same size.
fn aperio(file: &TiffFile, description: &str, options: &ImageSourceOptions) -> Result<Vec<ImageSource>> {
    let first = file.first()?;
    let same = |page: &TiffPage| {
        let (a, b) = (&page.layout, &first.layout);
        (a.width, a.height, a.is_tiled, a.samples) == (b.width, b.height, b.is_tiled, b.samples)
    };
    let pages: Vec<TiffPage> = file.pages.iter().filter(|page| same(page)).cloned().collect();
    let left_out = file.pages.len().saturating_sub(pages.len());
    let n = num::u64_of(pages.len());
    let name = stem(&file.tiff.input.path);
    let mut source = source(name, pages.into_iter().map(Some).collect(), [1, 1, n], options)?;
    // `key = value` entries separated by bars.
    let pairs = description.split(['|', '\n', '\r']).filter_map(|part| part.split_once('='));
    let mut found = pairs.filter(|(key, _)| key.trim() == "MPP");
    let size = found.next().and_then(|(_, value)| value.trim().parse().ok()).and_then(sensible);
    set_pixel_size(&mut source, size.map_or_else(|| file.pixel_size(), |size| [Some(size); 2]));
    if left_out > 0 {
        source.warnings.push(format!(
            "{left_out} further page{} of the slide (thumbnail, smaller levels, label, macro) left out",
            if left_out == 1 { "" } else { "s" }
        ));
    }
    Ok(vec![source])
}

/// The same image, with its channels along `axis`, which is t or z and of length one.
fn with_samples_along(source: ImageSource, axis: usize) -> ImageSource {
    let mut turned = source.clone();
    let mut map = [Some(T), Some(C), Some(Z)];
    for (place, size, declared, from) in [(axis, source.sizes[C], true, Some(C)), (C, 1, false, None)] {
        if let (Some(s), Some(d), Some(m)) =
            (turned.sizes.get_mut(place), turned.declared.get_mut(place), map.get_mut(place))
        {
            (*s, *d, *m) = (size, declared, from);
        }
    }
    turned.channels.clear();
    turned.is_rgb = false;
    turned.pixels = Arc::new(Relabelled { inner: source.pixels(), map });
    turned
}

/// A source of these pages, in the order t, c, z; `tcz` counts pages, not samples.
fn source(
    name: String,
    pages: Vec<Option<TiffPage>>,
    [t, c, z]: [u64; 3],
    options: &ImageSourceOptions,
) -> Result<ImageSource> {
    let first = pages.iter().flatten().next();
    let first = first.ok_or_else(|| Error::invalid("the TIFF file has no planes of the image"))?;
    let layout = first.layout.clone();
    let ramp = layout.ramp();
    // A palette that is not a ramp gives colours; its indexes mean nothing by themselves.
    let expand = layout.photometric == PALETTE && ramp.is_none() && !options.indexes;
    let colors = layout.colors.clone().filter(|_| expand);
    let samples = if colors.is_some() { 3 } else { layout.samples };
    let channels = c.checked_mul(samples).ok_or_else(|| Error::invalid("too many channels"))?;
    let data_type = if colors.is_some() { crate::meta::DataType::UINT8 } else { layout.data_type.clone() };
    let is_rgb = colors.is_some() || (matches!(layout.photometric, RGB | YCBCR) && samples >= 3);
    let sizes = [t, channels, z, layout.height, layout.width];
    let planes = Planes::new(pages, [t, c, z], layout.clone(), colors)?;
    let mut source = ImageSource::new(name, sizes, data_type, Arc::new(planes));
    source.is_rgb = is_rgb && c == 1;
    if source.is_rgb {
        source.channels = rgb_channels(samples, layout.has_alpha || samples == 4);
    } else if layout.photometric == WHITE_IS_ZERO {
        source.channels = repeated(channels, || Channel { inverted: true, ..Channel::default() });
    } else if let Some(color) = ramp.filter(|_| channels == 1) {
        source.channels = vec![Channel { color: Some(color), ..Channel::default() }];
    }
    Ok(source)
}

fn repeated(n: u64, channel: impl Fn() -> Channel) -> Vec<Channel> {
    // Channels are described one by one; beyond this many it is useless.
    (0..n.min(1 << 14)).map(|_| channel()).collect()
}

/// Red, green, blue, and alpha, which is not drawn.
pub(super) fn rgb_channels(samples: u64, has_alpha: bool) -> Vec<Channel> {
    let named = |i: u64| {
        let (label, color) = match i {
            0 => ("red", Some([255, 0, 0])),
            1 => ("green", Some([0, 255, 0])),
            2 => ("blue", Some([0, 0, 255])),
            n if n + 1 == samples && has_alpha => ("alpha", Some([255, 255, 255])),
            _ => ("", Some([255, 255, 255])),
        };
        Channel {
            label: (!label.is_empty()).then(|| label.to_owned()),
            color,
            active: i < 3,
            ..Channel::default()
        }
    };
    (0..samples.min(1 << 14)).map(named).collect()
}

/// The same image with other names for its axes, given for those longer than one in the order t, c, z, y, x. If a page
/// has several `samples`, those are the channels, and the names are those of the pages.
fn relabel(source: ImageSource, axes: &str, samples: u64) -> Result<ImageSource> {
    let stays = |axis: &usize| samples > 1 && *axis == C;
    let mut places = axis_letters(axes)?;
    places.retain(|axis| !stays(axis));
    let mut kept = source.used(true);
    kept.retain(|axis| !stays(axis));
    let mut used = if kept.len() == places.len() { kept } else { source.used(false) };
    used.retain(|axis| !stays(axis));
    if used.len() != places.len() {
        let has: String = used.iter().filter_map(|i| super::AXES.get(*i)).collect();
        return Err(usage!("axes {axes:?} do not fit a file that has {} ({has})", used.len()));
    }
    if places.get(places.len().saturating_sub(2)..) != Some(&[Y, X]) {
        return Err(usage!("axes {axes:?} must end in y, x, which are the pages of the file"));
    }
    if used == places {
        return Ok(source);
    }
    // The axis of the file for each of the five.
    let mut map = [None; 5];
    map[C] = (samples > 1).then_some(C);
    for (old, new) in used.iter().zip(&places) {
        if let Some(from) = map.get_mut(*new) {
            *from = Some(*old);
        }
    }
    let mut renamed = source.clone();
    renamed.sizes = map.map(|from| from.and_then(|i| source.sizes.get(i).copied()).unwrap_or(1));
    renamed.declared = map.map(|from| from.is_some());
    for (i, from) in map.iter().enumerate().take(Y) {
        // Only axes that keep their name keep their pixel size.
        if *from != Some(i)
            && let (Some(scale), Some(unit)) = (renamed.scale.get_mut(i), renamed.units.get_mut(i))
        {
            (*scale, *unit) = (None, None);
        }
    }
    if map[C] != Some(C) {
        renamed.channels.clear();
        renamed.is_rgb = false;
    }
    let pixels = Relabelled { inner: source.pixels(), map: [map[T], map[C], map[Z]] };
    renamed.pixels = Arc::new(pixels);
    Ok(renamed)
}

/// tifffile metadata of an array: its shape, and perhaps its axes.
struct Shaped {
    lead: Vec<u64>,
    axes: Option<Vec<char>>,
    samples: u64,
    /// The axis of the samples of a page, if they are not channels.
    samples_are: Option<usize>,
}

/// `shape` and `axes` of a tifffile description.
fn described(description: &str) -> Option<(Vec<u64>, Option<Vec<char>>)> {
    if !description.starts_with('{') {
        return None;
    }
    let json = Json::parse(description.as_bytes()).ok()?.value;
    let shape = json.get("shape")?.items()?.iter().map(Json::as_u64).collect::<Option<_>>()?;
    let axes = json.text("axes");
    Some((shape, axes.map(|a| a.to_ascii_lowercase().chars().collect())))
}

impl Shaped {
    /// `None` if there is none, or it does not match the pages.
    fn parse(description: &str, pages: &[TiffPage]) -> Result<Option<Self>> {
        let Some((shape, axes)) = described(description) else { return Ok(None) };
        let Some(layout) = pages.first().map(|page| &page.layout) else { return Ok(None) };
        let (h, w, s) = (layout.height, layout.width, layout.samples);
        let tail: Vec<u64> = match (s > 1, layout.is_planar) {
            (false, _) => vec![h, w],
            (true, false) => vec![h, w, s],
            (true, true) => vec![s, h, w],
        };
        // There may be a trailing dimension of one sample.
        let with_one: Vec<u64> = tail.iter().copied().chain([1]).collect();
        let Some(tail) = [tail, with_one].into_iter().find(|t| shape.ends_with(t)) else { return Ok(None) };
        let lead = shape.get(..shape.len() - tail.len()).unwrap_or_default().to_vec();
        let axes = axes.filter(|a| a.len() == shape.len());
        if let Some(axes) = &axes {
            let in_page: String = axes.iter().skip(lead.len()).collect();
            let fits = match (s > 1, layout.is_planar) {
                (false, _) => in_page.starts_with("yx"),
                (true, false) => ["yxs", "yxc"].iter().any(|a| in_page.starts_with(a)),
                (true, true) => ["syx", "cyx"].iter().any(|a| in_page.starts_with(a)),
            };
            // Three or four planes are often stored as samples.
            let other = match in_page.as_str() {
                "zyx" if s > 1 && layout.is_planar => Some(Z),
                "tyx" if s > 1 && layout.is_planar => Some(T),
                _ => None,
            };
            let letter = other.and_then(|axis| super::AXES.get(axis));
            let free = |letter: &char| !axes.iter().take(lead.len()).any(|a| a == letter || *a == 'c');
            if let (Some(axis), true) = (other, letter.is_some_and(free)) {
                let axes = axes.get(..lead.len()).map(<[char]>::to_vec);
                return Ok(Some(Self { lead, axes, samples: s, samples_are: Some(axis) }));
            }
            if !fits {
                let all: String = axes.iter().collect();
                return Err(unsupported!(
                    "the file has axes {all:?}, so its pages are {in_page:?}; pages must be y, x"
                ));
            }
        }
        let axes = axes.and_then(|a| a.get(..lead.len()).map(<[char]>::to_vec));
        Ok(Some(Self { lead, axes, samples: s, samples_are: None }))
    }

    /// The pages in the order t, c, z, and the number along each.
    fn lay_out(&self, pages: Vec<TiffPage>) -> Result<(Vec<Option<TiffPage>>, [u64; 3])> {
        let wanted = num::product(&self.lead)?;
        let pages = if num::u64_of(pages.len()) == wanted { pages } else { one_directory(&pages, wanted)? };
        let dims: Vec<(usize, u64)> =
            self.lead.iter().copied().enumerate().filter(|(_, n)| *n != 1).collect();
        let named = self.axes.as_ref().and_then(|axes| {
            let place = |c: &char| ['t', 'c', 'z'].iter().position(|a| a == c);
            let all: Option<Vec<usize>> = dims.iter().map(|(i, _)| axes.get(*i).and_then(place)).collect();
            all.filter(|all| all.iter().all(|p| all.iter().filter(|q| *q == p).count() == 1))
        });
        let places = match (named, dims.len()) {
            (Some(places), _) => places,
            // Samples are channels already.
            (None, 1) if self.samples > 1 => vec![2],
            (None, 2) if self.samples > 1 => vec![0, 2],
            (None, n @ 0..=3) if n == 0 || self.samples == 1 => (3 - n..3).collect(),
            (None, n) => {
                return Err(unsupported!(
                    "images of {} dimensions are not supported: {:?}",
                    n + 2,
                    self.lead
                ));
            }
        };
        let mut tcz = [1u64; 3];
        // The stride in pages along each of t, c, z.
        let mut strides = [0u64; 3];
        let mut stride = 1u64;
        for ((_, n), place) in dims.iter().zip(&places).rev() {
            if let (Some(size), Some(step)) = (tcz.get_mut(*place), strides.get_mut(*place)) {
                (*size, *step) = (*n, stride);
            }
            stride = stride.saturating_mul(*n);
        }
        let [ts, cs, zs] = strides;
        let ordered = ordered(&pages, tcz, |[t, c, z]| t * ts + c * cs + z * zs)?;
        if ordered.iter().any(Option::is_none) {
            return Err(Error::invalid("a page is missing"));
        }
        Ok((ordered, tcz))
    }
}

/// The pages in the order t, c, z; `number` gives the index of each in the file.
fn ordered(
    pages: &[TiffPage],
    [ts, cs, zs]: [u64; 3],
    number: impl Fn([u64; 3]) -> u64,
) -> Result<Vec<Option<TiffPage>>> {
    let at = |t: u64| (0..cs).flat_map(move |c| (0..zs).map(move |z| [t, c, z]));
    let page = |at: [u64; 3]| Ok(pages.get(num::usize_of(number(at))?).cloned());
    (0..ts).flat_map(at).map(page).collect()
}

/// The pages of a stack with a single directory: contiguous in the file.
fn one_directory(pages: &[TiffPage], wanted: u64) -> Result<Vec<TiffPage>> {
    let there = num::u64_of(pages.len());
    let fault = || invalid!("the file states {wanted} planes, but has {there} directories");
    let ([first], Some(bytes)) = (pages, pages.first().map(TiffPage::contiguous).transpose()?.flatten())
    else {
        return Err(fault());
    };
    let end = wanted.checked_mul(bytes).and_then(|n| n.checked_add(first.start().ok()?)).ok_or_else(fault)?;
    if end > first.tiff.input.len {
        return Err(invalid!(
            "the file states {wanted} planes of {bytes} bytes, but it is too short for them"
        ));
    }
    Ok((0..wanted).map(|i| first.shifted(i.saturating_mul(bytes))).collect())
}
