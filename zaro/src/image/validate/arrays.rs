//! Validates the arrays of an image: V5 to V8, V14, V15, V19 to V21, V24, V39.

use futures::future::try_join_all;

use super::image::CheckedPyramid;
use super::report::{FindingLevel, FindingSink, ImageFinding, Spot, nth, quoted, show};
use super::walk::{CheckWalk, NodeFound};
use crate::error::{Hint, Result};
use crate::image::model::integers;
use crate::image::version::ImageVersion;
use crate::meta::path::{join, normal};
use crate::meta::{ArrayMeta, ChunkKeys, DataType, Format, Json};
use crate::num::{f64_of_i128, f64_of_u64 as float, u64_of};
use crate::store::StoreExt as _;

/// The arrays of a multiscale.
#[derive(Debug, Default, Clone)]
pub(super) struct Facts {
    pub(super) names: Vec<Option<String>>,
    /// One per level; `None` if there is no array.
    pub(super) arrays: Vec<Option<Box<ArrayMeta>>>,
}

impl Facts {
    /// The size of the axis `name` at level 0.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        let index =
            self.names.iter().position(|n| n.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(name)))?;
        self.arrays.first()?.as_ref()?.shape.get(index).copied()
    }
}

/// Validates the arrays of a multiscale. Findings of the arrays themselves go to `below`.
pub(super) async fn check(
    walk: &CheckWalk<'_>,
    path: &str,
    pyramid: &CheckedPyramid,
    sink: &mut FindingSink,
    below: &mut Vec<ImageFinding>,
) -> Result<Facts> {
    let paths: Vec<String> = pyramid.levels.iter().map(|l| join(path, l.path.trim_matches('/'))).collect();
    let looks = try_join_all(paths.iter().map(|p| walk.look(p))).await?;
    let mut arrays: Vec<Option<Box<ArrayMeta>>> = Vec::new();
    for ((level, path), look) in pyramid.levels.iter().zip(&paths).zip(looks) {
        let found = match &look {
            NodeFound::Array(_) => None,
            NodeFound::Absent => Some("nothing".to_owned()),
            NodeFound::Group(_) => Some("a group".to_owned()),
            NodeFound::Broken(why) => Some(format!("an array that cannot be read: {why}")),
        };
        if let Some(found) = found {
            let wanted = format!("an array at {:?}", level.path);
            walk.lacking(sink, "V5", &level.place, &look, found, wanted);
        }
        if matches!(look, NodeFound::Broken(_)) {
            below.extend(lengths(walk, path).await?);
        }
        arrays.push(if let NodeFound::Array(meta) = look { Some(meta) } else { None });
    }
    for ((level, path), meta) in pyramid.levels.iter().zip(&paths).zip(&arrays) {
        if let Some(meta) = meta {
            let mut own = FindingSink::new(path, sink.judged);
            array(&mut own, meta, pyramid);
            if meta.format != walk.format {
                walk.other_format(&mut own, meta.format);
            }
            if meta.format == Format::V2 {
                chunks(walk, path, meta, &mut own).await?;
            }
            below.append(&mut own.findings);
            rank(sink, &level.place, meta, pyramid);
        }
    }
    levels(sink, pyramid, &arrays);
    Ok(Facts { names: pyramid.axes.iter().map(|a| a.name.clone()).collect(), arrays })
}

/// V6, V8, V14: the number of dimensions of a level.
fn rank(sink: &mut FindingSink, place: &str, meta: &ArrayMeta, pyramid: &CheckedPyramid) {
    let (found, axes) = (meta.shape.len(), pyramid.axes.len());
    let rule = match sink.judged.version {
        ImageVersion::Seed | ImageVersion::V01 | ImageVersion::V02 => "V6",
        ImageVersion::V03 => "V8",
        _ => "V14",
    };
    if axes > 0 && found != axes {
        let wanted = if rule == "V6" {
            "5 dimensions: t, c, z, y, x".into()
        } else {
            format!("{axes}, the number of axes")
        };
        sink.must(rule, place, format!("{found} dimensions"), wanted);
    }
}

/// V7, V8, V15: the document of an array.
fn array(sink: &mut FindingSink, meta: &ArrayMeta, pyramid: &CheckedPyramid) {
    let version = sink.judged.version;
    let names: Vec<Option<String>> = pyramid.axes.iter().map(|a| a.name.clone()).collect();
    let listed = || quoted(names.iter().flatten());
    if let (Format::V2, Some(wanted)) = (meta.format, version.separator())
        && meta.keys.separator != wanted
    {
        let found = match meta.document.get("dimension_separator") {
            None => "nothing, which means \".\"".to_owned(),
            Some(stated) => show(stated),
        };
        sink.must("V7", ".zarray dimension_separator", found, format!("\"{wanted}\""));
        match version {
            ImageVersion::Seed | ImageVersion::V01 => {
                sink.fix("set \"version\": \"0.2\" if everything else is as in 0.2");
                sink.mend_by(Hint::operation("image upgrade", "").with("to").set_to("0.2"));
            }
            _ => sink.mend("image upgrade", "renames the chunks"),
        }
    }
    if version == ImageVersion::V03 {
        let stated = Spot::new(meta.attributes.get("_ARRAY_DIMENSIONS"), ".zattrs _ARRAY_DIMENSIONS");
        let is_same = stated
            .items()
            .is_some_and(|items| items.iter().map(Json::as_str).eq(names.iter().map(Option::as_deref)));
        if !is_same && !names.is_empty() {
            sink.wrong("V8", &stated, format!("the axes: {}", listed()));
            sink.fix(format!("add \"_ARRAY_DIMENSIONS\": [{}] to .zattrs", listed()));
        }
    }
    if version >= ImageVersion::V05 && meta.format == Format::V3 && !names.is_empty() {
        let stated = meta.dimension_names.as_ref();
        if stated != Some(&names) {
            let stated = Spot::new(meta.document.get("dimension_names"), "dimension_names");
            sink.wrong("V15", &stated, format!("the names of the axes: {}", listed()));
            sink.fix(format!("write \"dimension_names\": [{}]", listed()));
        }
    }
}

/// V5, V19, V20, V21: the levels compared with each other.
fn levels(sink: &mut FindingSink, pyramid: &CheckedPyramid, arrays: &[Option<Box<ArrayMeta>>]) {
    let known: Vec<_> =
        pyramid.levels.iter().zip(arrays).filter_map(|(l, a)| Some((l, a.as_deref()?))).collect();
    for pair in known.windows(2) {
        let [(before, large), (level, small)] = pair else { continue };
        let place = level.place.as_str();
        if large.shape.len() != small.shape.len() {
            let found = format!("{} dimensions after {}", small.shape.len(), large.shape.len());
            sink.must("V5", place, found, "the same number of dimensions in all levels");
            continue;
        }
        if small.shape.iter().zip(&large.shape).any(|(s, l)| s > l) {
            let found = format!("{:?} after {:?}", small.shape, large.shape);
            sink.must("V19", place, found, "levels from large to small");
            sink.fix("order the datasets by size, the largest first");
        } else if let (Some(a), Some(b)) = (&before.placed.scale, &level.placed.scale)
            && a.iter().zip(b).any(|(a, b)| b.abs() < a.abs() * (1.0 - 1e-9))
        {
            let found = format!("the scale {b:?} after {a:?}");
            sink.must("V19", place, found, "scales that grow with the levels");
        }
        if small.data_type != large.data_type {
            let level = if sink.since(ImageVersion::V05) { FindingLevel::Must } else { FindingLevel::Should };
            let found = format!("{} after {}", small.data_type, large.data_type);
            sink.add("V21", level, place, found, "the same data type in all levels");
        }
    }
    for (i, (level, _)) in known.iter().enumerate() {
        if known.iter().take(i).any(|(other, _)| other.path == level.path) {
            sink.lint("V19", level.place.as_str(), format!("{:?} twice", level.path), "each level once");
        }
    }
    agreement(sink, &known);
}

/// V20: scales and translations agree with the shapes.
fn agreement(sink: &mut FindingSink, known: &[(&super::image::SeenLevel, &ArrayMeta)]) {
    let Some(((first, full), rest)) = known.split_first() else { return };
    let Some(scale0) = &first.placed.scale else { return };
    let zeros = vec![0.0; scale0.len()];
    let translation0 = first.placed.translation.as_ref().unwrap_or(&zeros);
    for (level, meta) in rest {
        let Some(scale) = &level.placed.scale else { continue };
        let place = level.place.as_str();
        let sizes = full.shape.iter().zip(&meta.shape).map(|(a, b)| (float(*a), float(*b)));
        for (i, ((s0, s), (n0, n))) in scale0.iter().zip(scale).zip(sizes).enumerate() {
            // The extent may differ by one pixel, since odd sizes lose or gain a part of one.
            if (s * n - s0 * n0).abs() > s.abs().max(s0.abs()) * (1.0 + 1e-6) {
                let found =
                    format!("the scale {s} with {n} pixels, but level 0 has {s0} with {n0} (axis {i})");
                sink.lint("V20", place, found, "the same extent in all levels, within a pixel");
            }
        }
        let translation = level.placed.translation.as_ref().unwrap_or(&zeros);
        let moved = translation0.iter().zip(translation).zip(scale0.iter().zip(scale));
        for (i, ((t0, t), (s0, s))) in moved.enumerate() {
            let by = t - t0;
            let slack = 0.01 * s.abs();
            let half = (s - s0) / 2.0;
            if by.abs() > slack && (by - half).abs() > slack {
                let found = format!("a translation of {by} relative to level 0 (axis {i})");
                let wanted = format!("{half}, or none if pixels were decimated, not averaged");
                sink.lint("V20", place, found, wanted);
            }
        }
    }
}

/// V24: `omero` and the arrays.
pub(super) fn omero(sink: &mut FindingSink, omero: &Spot<'_>, facts: &Facts) {
    let list = omero.get("channels");
    let channels = list.items().unwrap_or_default();
    if let Some(size) = facts.size("c").filter(|n| list.items().is_some() && *n != u64_of(channels.len())) {
        let found = format!("{} channels, but the axis c has {size}", channels.len());
        sink.lint("V24", &list, found, "one channel per position along c");
    }
    for (key, axis) in [("defaultZ", "z"), ("defaultT", "t")] {
        let stated = omero.get("rdefs").get(key);
        if let Some(size) = facts.size(axis).filter(|_| stated.is_some())
            && stated.number().is_none_or(|n| n < 0.0 || n >= float(size))
        {
            sink.lint("V24", &stated, stated.show(), format!("a number below {size}, the size of {axis}"));
        }
    }
    let data_type = facts.arrays.first().and_then(Option::as_ref).map(|meta| &meta.data_type);
    let range = data_type.filter(|t| **t != DataType::Bool).and_then(integers);
    let Some((least, most)) = range.map(|(a, b)| (f64_of_i128(a), f64_of_i128(b))) else { return };
    for (i, channel) in channels.iter().enumerate() {
        let window = Spot::new(channel, nth(&list.place, i)).get("window");
        for name in ["min", "max", "start", "end"] {
            let spot = window.get(name);
            if let Some(x) = spot.number().filter(|x| !(least..=most).contains(x)) {
                let wanted = format!("a number from {least} to {most}, the range of the data type");
                sink.lint("V24", &spot, x.to_string(), wanted);
            }
        }
    }
}

/// V39: an unreadable array may have a shape and chunks of different ranks.
async fn lengths(walk: &CheckWalk<'_>, path: &str) -> Result<Vec<ImageFinding>> {
    // A path outside the Zarr has no document.
    let Ok(path) = normal(path) else { return Ok(Vec::new()) };
    let path = path.as_str();
    let Some(bytes) = walk.zarr.store().get(&join(path, ".zarray"), None).await? else {
        return Ok(Vec::new());
    };
    let mut sink = FindingSink::new(path, walk.judged);
    if let Ok(document) = Json::parse(&bytes) {
        let length = |name: &str| document.value.get(name).and_then(Json::items).map(<[Json]>::len);
        if let (Some(shape), Some(chunks)) = (length("shape"), length("chunks"))
            && shape != chunks
        {
            let found = format!("{chunks} numbers for {shape} dimensions");
            sink.lint("V39", ".zarray chunks", found, "one number per dimension");
        }
    }
    Ok(sink.findings)
}

/// V39: readers do not find chunks stored with the other separator, and read fill values.
async fn chunks(walk: &CheckWalk<'_>, path: &str, meta: &ArrayMeta, sink: &mut FindingSink) -> Result<()> {
    if meta.shape.len() < 2 || meta.shape.contains(&0) || walk.options.metadata_only {
        return Ok(());
    }
    let store = walk.zarr.store();
    let origin = vec![0; meta.shape.len()];
    if store.exists(&meta.keys.key(path, &origin)).await? {
        return Ok(());
    }
    let other = meta.keys.other_separator();
    let found = match store.list(path).await {
        Ok(listing) => {
            let flat: Vec<&String> =
                listing.objects.iter().filter(|n| is_flat(n, meta.shape.len())).collect();
            let nested: Vec<&String> = listing.prefixes.iter().filter(|n| n.parse::<u64>().is_ok()).collect();
            match (meta.keys.separator, flat.first(), nested.first()) {
                ('.', None, Some(first)) => deepest(walk, path, first, meta.shape.len()).await?,
                ('/', Some(_), None) => flat.iter().take(3).map(|n| (*n).clone()).collect(),
                _ => Vec::new(),
            }
        }
        // Without a listing, check only the first chunk.
        Err(_) => {
            let key = other.key(path, &origin);
            let is_there = store.exists(&key).await?;
            if is_there { vec![other.key("", &origin)] } else { Vec::new() }
        }
    };
    if !found.is_empty() {
        let ours = meta.keys.separator;
        let wrong = format!("chunks {}, but none with {ours:?}", quoted(&found));
        let wanted = format!("chunks such as {:?}; readers find none", meta.keys.key("", &origin));
        sink.lint("V39", ".zarray dimension_separator", wrong, wanted);
        sink.fix(format!("write \"dimension_separator\": \"{}\" into .zarray", other.separator));
    }
    Ok(())
}

/// Whether a name is a chunk key with dots.
fn is_flat(name: &str, rank: usize) -> bool {
    ChunkKeys { prefixed: false, separator: '.' }.index(name, rank).is_some()
}

/// The first keys of nested chunks below `first`; empty if there are other directories.
async fn deepest(walk: &CheckWalk<'_>, path: &str, first: &str, rank: usize) -> Result<Vec<String>> {
    let mut at = first.to_owned();
    for depth in 1..rank {
        let listing = walk.zarr.store().list(&join(path, &at)).await?;
        let is_last = depth.saturating_add(1) == rank;
        let names = if is_last { listing.objects } else { listing.prefixes };
        let mut names = names.into_iter().filter(|n| n.parse::<u64>().is_ok());
        if is_last {
            return Ok(names.take(3).map(|n| join(&at, &n)).collect());
        }
        match names.next() {
            Some(name) => at = join(&at, &name),
            None => break,
        }
    }
    Ok(Vec::new())
}
