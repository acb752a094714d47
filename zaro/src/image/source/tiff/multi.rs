//! OME-TIFF: maps planes to pages and files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::page::TiffPage;
use super::{TiffFile, repeated, source};
use crate::error::{Error, Result, invalid, unsupported};
use crate::image::model::Channel;
use crate::image::source::file::SourceFile;
use crate::image::source::{C, ImageSource, ImageSourceOptions, T, X, Y, Z, ome, stem};
use crate::image::units;
use crate::num;

/// The maximum number of planes of an image: each takes memory before anything is read.
const MAX_PLANES: u64 = 1 << 24;

/// The files that the document refers to.
struct Files {
    own: Arc<Vec<TiffPage>>,
    own_name: String,
    own_uuid: Option<String>,
    folder: std::path::PathBuf,
    opened: HashMap<String, Option<Arc<Vec<TiffPage>>>>,
}

impl Files {
    /// The pages of the file of a block; `None` if it does not exist.
    fn pages(&mut self, block: &ome::TiffBlock) -> Result<Option<Arc<Vec<TiffPage>>>> {
        let is_own = match (&block.uuid, &self.own_uuid) {
            (Some(a), Some(b)) if a.eq_ignore_ascii_case(b) => true,
            _ => block.file.as_ref().is_none_or(|name| *name == self.own_name),
        };
        if is_own {
            return Ok(Some(self.own.clone()));
        }
        let name = block.file.clone().unwrap_or_default();
        if let Some(found) = self.opened.get(&name) {
            return Ok(found.clone());
        }
        // Only names: a document must not refer outside its directory.
        let plain = Path::new(&name).file_name().is_some_and(|n| n.to_str() == Some(name.as_str()));
        if !plain {
            return Err(unsupported!("OME-XML with files in other directories is not supported: {name:?}"));
        }
        let path = self.folder.join(&name);
        let found = match SourceFile::open(&path) {
            Ok(input) => {
                Some(Arc::new(TiffFile::read(input).map_err(|e| e.with_store(path.display()))?.pages))
            }
            Err(e) if e.is_not_found() => None,
            Err(e) => return Err(e),
        };
        self.opened.insert(name, found.clone());
        Ok(found)
    }
}

/// Opens a companion file (`.companion.ome`), which is plain OME-XML.
pub(in super::super) fn open_companion(
    input: SourceFile,
    options: &ImageSourceOptions,
) -> Result<Vec<ImageSource>> {
    let path = input.path.clone();
    let text = companion(input)?;
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if !ome::is_ome(text) {
        return Err(Error::unsupported("the only XML that can be converted is OME-XML (.companion.ome)"));
    }
    open_pages(&path, Vec::new(), Vec::new(), text, options)
}

/// Opens an OME-TIFF file and the files that belong to it.
pub(super) fn open(file: TiffFile, text: &str, options: &ImageSourceOptions) -> Result<Vec<ImageSource>> {
    let path = file.tiff.input.path.clone();
    let full = file.full();
    open_pages(&path, file.pages, full, text, options)
}

/// The images of the OME-XML in the file at `path`. `pages` are those of this file, `full` those that are not reduced
/// copies.
fn open_pages(
    path: &Path,
    pages: Vec<TiffPage>,
    full: Vec<TiffPage>,
    text: &str,
    options: &ImageSourceOptions,
) -> Result<Vec<ImageSource>> {
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let mut xml: Arc<str> = text.into();
    let mut document = ome::parse(&xml)?;
    let own_uuid = document.uuid.clone();
    if let Some(elsewhere) = document.elsewhere.clone().filter(|_| document.images.is_empty()) {
        let name = Path::new(&elsewhere).file_name().unwrap_or_default();
        let place = folder.join(name);
        let input = SourceFile::open(&place).map_err(|e| e.within("the OME-XML is in another file"))?;
        xml = companion(input).map_err(|e| e.with_store(place.display()))?.into();
        document = ome::parse(&xml)?;
    }
    if document.images.is_empty() {
        return Err(Error::invalid("the OME-XML has no images"));
    }
    let own_name = path.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
    let mut files = Files { own: Arc::new(pages), own_name, own_uuid, folder, opened: HashMap::new() };
    let name = stem(path);
    let only = document.images.len() == 1;
    let mut found = Vec::new();
    for (i, image) in document.images.iter().enumerate() {
        let name = match &image.name {
            Some(name) => name.clone(),
            None if only => name.clone(),
            None => format!("{name} {i}"),
        };
        let place = |e: Error| if only { e } else { e.within(format_args!("image {i} of the OME-XML")) };
        found.push(one(image, name, &mut files, &full, &xml, only, options).map_err(place)?);
    }
    let others: Vec<std::path::PathBuf> =
        files.opened.iter().filter(|(_, f)| f.is_some()).map(|(name, _)| files.folder.join(name)).collect();
    for source in &mut found {
        source.files.clone_from(&others);
    }
    Ok(found)
}

/// Whether the OME-TIFF file at `path` lists all of `files` as its set.
pub(in super::super) fn is_set(path: &Path, files: &[std::path::PathBuf]) -> Result<bool> {
    let input = SourceFile::open(path)?;
    if !matches!(input.head(2)?.as_slice(), b"II" | b"MM") {
        return Ok(false);
    }
    let Some(text) = TiffFile::read(input)?.head.description.filter(|text| ome::is_ome(text)) else {
        return Ok(false);
    };
    let document = ome::parse(&text)?;
    let blocks = document.images.iter().flat_map(|image| &image.blocks);
    let names: std::collections::BTreeSet<&str> = blocks.filter_map(|b| b.file.as_deref()).collect();
    let of_set = |file: &std::path::PathBuf| {
        file.parent() == path.parent()
            && file.file_name().and_then(|n| n.to_str()).is_some_and(|n| names.contains(n))
    };
    Ok(names.len() > 1 && files.iter().all(of_set))
}

/// The document of a set: a companion file, or another TIFF file.
fn companion(input: SourceFile) -> Result<String> {
    if matches!(input.head(2)?.as_slice(), b"II" | b"MM") {
        return TiffFile::read(input)?
            .head
            .description
            .ok_or_else(|| Error::invalid("it contains no OME-XML"));
    }
    String::from_utf8(input.whole(1 << 28)?).map_err(|_| Error::invalid("it is not valid UTF-8"))
}

fn one(
    image: &ome::OmeImage,
    name: String,
    files: &mut Files,
    full: &[TiffPage],
    xml: &Arc<str>,
    only: bool,
    options: &ImageSourceOptions,
) -> Result<ImageSource> {
    let [ts, cs, zs, ys, xs] = image.sizes;
    // How many channels are samples of one page: as the channels state, else the pages.
    let said = image.channels.first().map_or(1, |c| c.samples);
    let samples = match files.pages(image.blocks.first().unwrap_or(&ome::TiffBlock::default()))? {
        Some(pages) => {
            let ifd = image.blocks.first().and_then(|b| b.ifd).unwrap_or(0);
            let page = pages.get(num::usize_of(ifd)?).or(pages.first());
            page.map_or(said, |p| p.layout.samples)
        }
        None => said,
    };
    if cs % samples.max(1) != 0 || image.channels.iter().any(|c| c.samples != said) {
        return Err(unsupported!("{cs} channels are not supported if pages have {samples} samples"));
    }
    let groups = cs / samples.max(1);
    let tcz = [ts, groups, zs];
    let count = num::product(&tcz)?;
    if count > MAX_PLANES {
        return Err(unsupported!("images of {count} planes are not supported"));
    }
    let mut planes: Vec<Option<TiffPage>> = vec![None; num::usize_of(count)?];
    let order = order(&image.order)?;
    let whole = [ome::TiffBlock::default()];
    let blocks = if image.blocks.is_empty() { &whole[..] } else { &image.blocks };
    let mut absent = Vec::new();
    for block in blocks {
        let pages = files.pages(block)?;
        // Without reduced copies, if the document does not list the pages.
        let listed: &[TiffPage] = match &pages {
            Some(pages) if block.ifd.is_none() && only && Arc::ptr_eq(pages, &files.own) => full,
            Some(pages) => pages,
            None => {
                absent.push(block.file.clone().unwrap_or_default());
                continue;
            }
        };
        let begin = num::usize_of(block.ifd.unwrap_or(0))?;
        let n = match (block.count, block.ifd) {
            (Some(n), _) => num::usize_of(n)?,
            (None, Some(_)) => 1,
            (None, None) => listed.len(),
        };
        let mut at = block.first;
        for page in listed.iter().skip(begin).take(n) {
            let inside = at.iter().zip(tcz).all(|(i, n)| *i < n);
            if !inside {
                break;
            }
            let [t, c, z] = at;
            if let Some(plane) = planes.get_mut(num::usize_of((t * groups + c) * zs + z)?) {
                *plane = Some(page.clone());
            }
            step(&mut at, tcz, order);
        }
    }
    let missing = planes.iter().filter(|p| p.is_none()).count();
    if missing > 0 && !options.allow_missing {
        return Err(missing_planes(&planes, groups, zs, &absent));
    }
    let first = planes.iter().flatten().next();
    if let Some(page) = first
        && (page.layout.width, page.layout.height) != (xs, ys)
    {
        return Err(invalid!(
            "the OME-XML states {ys} x {xs}, but the pages are {} x {}",
            page.layout.height,
            page.layout.width
        ));
    }
    let mut source = source(name, planes, tcz, options)?;
    if missing > 0 {
        source.warnings.push(format!("{missing} planes are missing and filled with zeros"));
    }
    source.declared = [true; 5];
    source.xml = Some(xml.clone());
    describe(&mut source, image, samples);
    Ok(source)
}

fn missing_planes(planes: &[Option<TiffPage>], groups: u64, zs: u64, absent: &[String]) -> Error {
    let mut names = Vec::new();
    for (i, plane) in planes.iter().enumerate() {
        if plane.is_none() && names.len() < 5 {
            let i = num::u64_of(i);
            let (z, rest) = (i % zs.max(1), i / zs.max(1));
            names.push(format!("t {} c {} z {z}", rest / groups.max(1), rest % groups.max(1)));
        }
    }
    let n = planes.iter().filter(|p| p.is_none()).count();
    let files = match absent {
        [] => String::new(),
        [first, ..] => format!("; {} files do not exist, such as {first:?}", absent.len()),
    };
    let more = if n > names.len() { " and others" } else { "" };
    invalid!("{n} planes are missing: {}{more}{files}", names.join(", "))
        .with_hint("allow_missing", "fills them with zeros")
}

/// The indexes of t, c, z by how fast they vary, the fastest first.
fn order(text: &str) -> Result<[usize; 3]> {
    let wrong = || invalid!("OME-XML: invalid DimensionOrder {text:?}");
    let rest = text.strip_prefix("XY").ok_or_else(wrong)?;
    let places: Vec<usize> =
        rest.chars().filter_map(|c| ['T', 'C', 'Z'].iter().position(|a| *a == c)).collect();
    match places.as_slice() {
        [a, b, c] if a != b && b != c && a != c => Ok([*a, *b, *c]),
        _ => Err(wrong()),
    }
}

fn step(at: &mut [u64; 3], tcz: [u64; 3], order: [usize; 3]) {
    for (k, place) in order.into_iter().enumerate() {
        let (Some(i), Some(n)) = (at.get_mut(place), tcz.get(place)) else { return };
        *i += 1;
        // The slowest is left outside at the end.
        if *i < *n || k == 2 {
            return;
        }
        *i = 0;
    }
}

fn describe(source: &mut ImageSource, image: &ome::OmeImage, samples: u64) {
    for (axis, (size, unit)) in [(Z, &image.z), (Y, &image.y), (X, &image.x)] {
        let unit = unit.as_deref().unwrap_or("\u{b5}m");
        if let (Some(scale), Some(to)) = (source.scale.get_mut(axis), source.units.get_mut(axis)) {
            *scale = *size;
            *to = size.and(units::length(unit));
        }
    }
    let (step, unit) = &image.t;
    source.scale[T] = *step;
    source.units[T] = step.and(units::time(unit.as_deref().unwrap_or("s")));
    let n = source.sizes[C];
    if source.channels.is_empty() {
        source.channels = repeated(n, Channel::default);
    }
    // Samples of a page belong to one channel of the document.
    let each = usize::try_from(samples.max(1)).unwrap_or(1);
    for (i, channel) in source.channels.iter_mut().enumerate() {
        let Some(said) = image.channels.get(i / each) else { continue };
        if samples > 1 {
            if !source.is_rgb
                && let Some(name) = &said.name
            {
                channel.label = Some(format!("{name} {}", i % each));
            }
            continue;
        }
        channel.label = said.name.clone().or(channel.label.take());
        let by_light = said.emission.map(|nm| match nm {
            ..500.0 => [0, 0, 255],
            ..560.0 => [0, 255, 0],
            _ => [255, 0, 0],
        });
        channel.color = said.color.or(by_light).or(channel.color);
    }
}
