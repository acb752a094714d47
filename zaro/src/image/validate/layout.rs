//! Validates `bioformats2raw.layout`: V36.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::arrays::Facts;
use super::document;
use super::report::{FindingSink, cut, quoted};
use super::walk::{CheckWalk, NodeFound, NodeParts};
use crate::error::Result;
use crate::meta::path::join;
use crate::store::StoreExt as _;

const XML: &str = "METADATA.ome.xml";

/// Validates the images of the layout at `path`, and its `OME` group.
pub(super) async fn check(walk: &CheckWalk<'_>, path: &str, is_plate: bool) -> Result<NodeParts> {
    let mut part = NodeParts::default();
    let folder = join(path, "OME");
    let mut sink = FindingSink::new(path, walk.judged);
    let mut listed: Option<Vec<(String, String)>> = None;
    match walk.look(&folder).await? {
        NodeFound::Group(meta) => {
            let mut own = FindingSink::new(&folder, walk.judged_below(&meta.attributes));
            // A group without image metadata needs no version.
            if meta.attributes.get("ome").is_some() || document::carries(&meta.attributes) {
                let root = walk.root();
                listed = document::group(&mut own, &meta.attributes, Some(meta.format), root).series;
            }
            part.join(NodeParts { findings: own.findings, nodes: 1 });
        }
        NodeFound::Broken(why) => sink.must("V36", "", format!("OME cannot be read: {why}"), "a group OME"),
        NodeFound::Array(_) => sink.must("V36", "", "an array OME", "a group OME"),
        NodeFound::Absent => {}
    }
    let key = join(&folder, XML);
    let xml = walk.zarr.store().get(&key, None).await?;
    let images = match &xml {
        None => {
            if !walk.options.metadata_only {
                sink.should("V36", "", format!("no OME/{XML}"), "OME-XML of all images");
            }
            None
        }
        Some(bytes) => {
            let mut own = FindingSink::new(&folder, walk.judged);
            let images = read(&mut own, bytes);
            part.findings.append(&mut own.findings);
            images
        }
    };
    let mut found: Vec<(String, Option<Facts>)> = Vec::new();
    if let Some(listed) = &listed {
        let mut own = FindingSink::new(&folder, walk.judged);
        for (place, name) in listed {
            let node = join(path, name.trim_matches('/'));
            if is_plate {
                // The fields of a plate were validated with the plate.
                let look = walk.look(&node).await?;
                if matches!(look, NodeFound::Absent) {
                    let found = format!("{name:?}, which does not exist");
                    walk.lacking(&mut own, "V36", place, &look, found, "the path of an image");
                }
                continue;
            }
            let facts = walk.needed_image(&node, "V36", place, &mut own, &mut part).await?;
            found.push((place.clone(), facts));
        }
        if let Some(images) = &images
            && images.len() != listed.len()
        {
            let wrong = format!("{} paths, but {XML} has {} images", listed.len(), images.len());
            own.must("V36", "series", wrong, "one path per Image");
        }
        part.findings.append(&mut own.findings);
    } else if !is_plate {
        found = numbered(walk, path, &mut sink, &mut part).await?;
        if let Some(images) = &images
            && images.len() != found.len()
        {
            let wrong = format!("{} numbered images, but {XML} has {}", found.len(), images.len());
            sink.must("V36", "", wrong, "one image per Image");
        }
    }
    if let Some(images) = &images
        && images.len() == found.len()
    {
        let mut own = FindingSink::new(&folder, walk.judged);
        for (i, (size, (place, facts))) in images.iter().zip(&found).enumerate() {
            order(&mut own, i, size, place, facts.as_ref());
        }
        part.findings.append(&mut own.findings);
    }
    part.findings.append(&mut sink.findings);
    Ok(part)
}

/// The images 0, 1, 2 and so on; a gap in the numbers is a finding.
async fn numbered(
    walk: &CheckWalk<'_>,
    path: &str,
    sink: &mut FindingSink,
    part: &mut NodeParts,
) -> Result<Vec<(String, Option<Facts>)>> {
    let mut found = Vec::new();
    for number in 0u64.. {
        let node = join(path, &number.to_string());
        if matches!(walk.look(&node).await?, NodeFound::Absent) {
            break;
        }
        found.push((String::new(), walk.needed_image(&node, "V36", "", sink, part).await?));
    }
    if found.is_empty() && !walk.options.metadata_only {
        sink.must("V36", "", "neither series nor an image 0", "series in OME, or images 0, 1, 2 and so on");
    }
    if let Ok(listing) = walk.zarr.store().list(path).await {
        let beyond: Vec<&String> = listing
            .prefixes
            .iter()
            .filter(|name| name.parse::<usize>().is_ok_and(|n| n.to_string() == **name && n >= found.len()))
            .collect();
        if !beyond.is_empty() && !found.is_empty() {
            let wrong = format!("images {} after a gap", quoted(beyond));
            sink.must("V36", "", wrong, "consecutive numbers from 0 on");
        }
    }
    Ok(found)
}

/// The sizes of an `Image`, by axis.
type Sizes = Vec<(&'static str, u64)>;

/// The images of OME-XML with their sizes; `None` if it is not XML.
fn read(sink: &mut FindingSink, bytes: &[u8]) -> Option<Vec<Sizes>> {
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader::from_str(&text);
    let mut images: Vec<Sizes> = Vec::new();
    let mut depth = 0usize;
    let mut binary: Option<String> = None;
    loop {
        let (element, opens) = match reader.read_event() {
            Ok(Event::Start(element)) => (element, true),
            Ok(Event::Empty(element)) => (element, false),
            Ok(Event::End(_)) => {
                depth = depth.saturating_sub(1);
                continue;
            }
            Ok(Event::Eof) => break,
            Ok(_) => continue,
            Err(e) => {
                sink.must("V36", XML, format!("no XML: {}", cut(&e.to_string())), "OME-XML");
                return None;
            }
        };
        let name = String::from_utf8_lossy(element.local_name().as_ref()).into_owned();
        match (depth, name.as_str()) {
            (0, "OME") => {}
            (0, other) => {
                sink.must("V36", XML, format!("the element {other:?}"), "OME-XML with the root element OME");
                return None;
            }
            (1, "Image") => images.push(Sizes::new()),
            (2, "Pixels") => {
                let sizes = [("x", "SizeX"), ("y", "SizeY"), ("z", "SizeZ"), ("c", "SizeC"), ("t", "SizeT")];
                for (axis, key) in sizes {
                    let value = element.try_get_attribute(key).ok().flatten();
                    let size = value.and_then(|v| std::str::from_utf8(&v.value).ok()?.parse().ok());
                    if let (Some(size), Some(image)) = (size, images.last_mut()) {
                        image.push((axis, size));
                    }
                }
            }
            (1, "BinaryOnly") | (3, "BinData" | "TiffData") => binary = binary.or(Some(name)),
            _ => {}
        }
        if opens {
            depth = depth.saturating_add(1);
        }
    }
    if let Some(name) = binary {
        sink.must("V36", XML, format!("the element {name}"), "MetadataOnly: the pixels are in Zarr");
    }
    if images.is_empty() {
        sink.must("V36", XML, "no Image", "one Image per image");
    }
    Some(images)
}

/// Checks that an image has the sizes of the OME-XML image of the same index.
fn order(sink: &mut FindingSink, i: usize, sizes: &Sizes, place: &str, facts: Option<&Facts>) {
    let Some(facts) = facts else { return };
    for (axis, size) in sizes {
        if let Some(found) = facts.size(axis).filter(|n| n != size) {
            let place = if place.is_empty() { XML.to_owned() } else { place.to_owned() };
            let wrong = format!("an image of {found} along {axis}, but Image {i} of {XML} has {size}");
            sink.must("V36", place, wrong, "images in the order of OME-XML");
            return;
        }
    }
}
