//! Validates an `.ozx` archive: Z1 to Z6.

use super::Judged;
use super::report::{FindingSink, ImageFinding, cut, quoted};
use crate::boxed;
use crate::error::{Hint, Result};
use crate::image::ozx::is_sharded;
use crate::image::version::{self, ImageVersion};
use crate::meta::{Findings, Json, Mode, NodeMeta, v3};
use crate::store::StoreExt as _;
use crate::store::zip::{ArchiveEntry, ZipStore};

/// Validates an archive as an `.ozx`, apart from its contents.
#[boxed]
pub async fn check(archive: &ZipStore) -> Result<Vec<ImageFinding>> {
    let mut sink = FindingSink::new("", Judged::new(ImageVersion::V05));
    let entries = archive.entries();
    let root = match archive.get("zarr.json", None).await? {
        Some(bytes) => Json::parse(&bytes).ok().map(|d| d.value),
        None => {
            let tops: Vec<&str> = entries
                .iter()
                .filter_map(|e| e.name.strip_suffix("/zarr.json"))
                .filter(|n| !n.contains('/'))
                .collect();
            let found = match tops.as_slice() {
                [] => "no zarr.json in the root".to_owned(),
                tops => format!("zarr.json below {}", quoted(tops)),
            };
            sink.must("Z1", "", found, "zarr.json in the root of the archive");
            sink.mend("image pack", "");
            None
        }
    };
    comment(&mut sink, archive.comment(), root.as_ref());
    let packed: Vec<&str> = entries.iter().filter(|e| !e.stored).map(|e| e.name).collect();
    if !packed.is_empty() {
        let found = format!("{} compressed entries: {}", packed.len(), quoted(packed.iter().take(3)));
        sink.should("Z3", "", found, "uncompressed entries, so that parts of them can be read");
        sink.fix("unpack it, and pack it anew");
        sink.mend("image pack", "");
    }
    if !archive.is_zip64() {
        sink.should("Z4", "", "no ZIP64 end record", "ZIP64, whatever the size");
    }
    order(&mut sink, &entries);
    sharding(&mut sink, archive, &entries).await?;
    Ok(sink.findings)
}

/// Z2: the comment states the version.
fn comment(sink: &mut FindingSink, comment: &[u8], root: Option<&Json>) {
    let attributes = root.and_then(|r| r.get("attributes"));
    let wanted = attributes.and_then(|a| version::ome(a).get("version")).and_then(Json::as_str);
    let form = format!("{{\"ome\":{{\"version\":{:?}}}}}", wanted.unwrap_or("0.5"));
    if comment.is_empty() {
        sink.should("Z2", "comment", "nothing", form);
        return;
    }
    let parsed = Json::parse(comment).ok().map(|d| d.value);
    let stated = parsed.as_ref().and_then(|c| c.get("ome")).and_then(|o| o.get("version"));
    match (stated.and_then(Json::as_str), wanted) {
        (None, _) => sink.should("Z2", "comment", cut(&String::from_utf8_lossy(comment)), form),
        (Some(stated), Some(wanted)) if stated != wanted => {
            let found = format!("the version {stated:?}");
            sink.should("Z2", "comment", found, format!("{wanted:?}, as in the image"));
        }
        _ => {}
    }
}

/// Z5: documents come first, by depth.
fn order(sink: &mut FindingSink, entries: &[ArchiveEntry<'_>]) {
    let depth = |name: &str| {
        let is_document = name == "zarr.json" || name.ends_with("/zarr.json");
        if is_document { name.matches('/').count() } else { usize::MAX }
    };
    let wrong = entries.windows(2).find_map(|pair| match pair {
        [a, b] if depth(a.name) > depth(b.name) => Some((a.name, b.name)),
        _ => None,
    });
    if let Some((before, after)) = wrong {
        let found = format!("{after:?} after {before:?}");
        sink.should("Z5", "", found, "the root's zarr.json, the others by depth, then the rest");
        sink.fix("unpack it, and pack it anew");
        sink.mend("image pack", "");
    }
}

/// Z6: arrays are sharded.
async fn sharding(sink: &mut FindingSink, archive: &ZipStore, entries: &[ArchiveEntry<'_>]) -> Result<()> {
    let mut plain: Vec<String> = Vec::new();
    for entry in entries.iter().filter(|e| e.name == "zarr.json" || e.name.ends_with("/zarr.json")) {
        let Some(bytes) = archive.get(entry.name, None).await? else { continue };
        // Unreadable documents are reported by the rules on documents.
        let Ok(document) = Json::parse(&bytes) else { continue };
        let node = v3::node(document.value, &mut Findings::new(Mode::Tolerant, ""));
        if let Ok(NodeMeta::Array(meta)) = node
            && !is_sharded(&meta)
        {
            plain.push(format!("/{}", entry.name.strip_suffix("/zarr.json").unwrap_or_default()));
        }
    }
    if !plain.is_empty() {
        let found = format!("{} arrays without shards: {}", plain.len(), quoted(plain.iter().take(3)));
        sink.should("Z6", "", found, "sharded arrays, for few large entries");
        sink.fix("copy it, and pack the copy");
        sink.mend_by(Hint::operation("copy", "writes shards").with("shards"));
    }
    Ok(())
}
