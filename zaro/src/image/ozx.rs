//! Packs and unpacks `.ozx`: an OME-Zarr in a single ZIP file (RFC-9).
//!
//! A ZIP archive with the root's `zarr.json` at its top. [`pack`] orders entries for fast opening: the root's
//! `zarr.json`, the other `zarr.json` by depth, then chunks by key. Entries are stored uncompressed, with ZIP64 and a
//! comment that identifies the format. [`ZipStore`] reads it by range requests, wherever the archive is.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::boxed;
use crate::error::{Error, Hint, Result, invalid, usage};
use crate::group::Zarr;
use crate::image::version::{self, ImageVersion, Stated};
use crate::meta::path::shown;
use crate::meta::{ArrayMeta, Format, Json, NodeMeta};
use crate::num::u64_of;
use crate::store::local::{check_space, temporary_folder};
use crate::store::zip::ZipStore;
use crate::store::zip::create::{Arrangement, ZipCreateStore, ZipForm};
use crate::store::{
    ByteRange, Condition, GetOptions, KeyEntry, Object, ObjectMeta, Put, Store, StoreExt as _, check_key,
};

/// Larger objects are copied in pieces of this size: 8 MiB.
const PIECE: u64 = 8 << 20;

/// The maximum number of objects fetched concurrently.
const MOST_AT_ONCE: usize = 32;

/// Documents of Zarr v2, which an `.ozx` must not contain.
const OLD: [&str; 4] = [".zgroup", ".zarray", ".zattrs", ".zmetadata"];

/// The result of [`pack`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The version of OME-Zarr, as the root states it.
    pub version: String,
    /// The number of entries in the archive.
    pub entries: u64,
    /// The bytes of their contents.
    pub bytes: u64,
    /// Arrays of several chunks that are not sharded. RFC-9 advises to shard them: every chunk is an entry.
    pub unsharded: Vec<String>,
    /// The number of Zarr v2 documents left out.
    pub left_out: u64,
}

/// The result of [`unpack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// The number of files written.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The archive comment for an image of that version.
#[must_use]
pub fn comment(version: &str) -> String {
    let file = Json::from([("centralDirectory", Json::from([("jsonFirst", true.into())]))]);
    let ome = Json::from([("version", version.into()), ("zipFile", file)]);
    Json::from([("ome", ome)]).to_string()
}

/// The ZIP settings of an `.ozx` whose entries are put in any order.
#[must_use]
pub fn form() -> ZipForm {
    let comment = |root: Option<&[u8]>| {
        let root = root.and_then(|bytes| Json::parse(bytes).ok()).map(|document| document.value);
        match root.as_ref().and_then(|r| r.get("attributes")).map(version::stated) {
            Some(Stated::Known(_, text) | Stated::Unknown(text)) => self::comment(&text),
            _ => String::new(),
        }
    };
    let arranged = Arrangement { place: |key| place(key).0, comment };
    ZipForm { zip64: true, comment: String::new(), in_order: false, arranged: Some(arranged) }
}

/// Whether an array is sharded, or small enough not to need it.
pub(crate) fn is_sharded(meta: &ArrayMeta) -> bool {
    let counts = meta.grid.counts(&meta.shape);
    meta.codecs.iter().any(|c| c.name == "sharding_indexed") || counts.iter().all(|n| *n <= 1)
}

/// Packs the OME-Zarr at `path` into a new archive `target`, using about `memory` bytes. The archive gets its name when
/// it is complete.
///
/// # Errors
/// `Unsupported` for versions before 0.5, which are Zarr v2; `NotPermitted` if `target` exists.
#[boxed]
pub async fn pack(zarr: &Zarr, path: &str, target: &Path, memory: usize) -> Result<Packed> {
    let path = zarr.key_of(path)?;
    let version = packable(zarr, &path).await?;
    let nodes = zarr.walk(&path).await?;
    if let Some(e) = zarr.take_damaged().pop() {
        return Err(e);
    }
    let unsharded = nodes
        .iter()
        .filter_map(|node| match &node.meta {
            NodeMeta::Array(meta) if !is_sharded(meta) => Some(shown(&node.path)),
            _ => None,
        })
        .collect();
    let store = zarr.store();
    let mut all = zarr.stored(&path, &nodes).await?;
    let found = all.len();
    all.retain(|entry| !OLD.contains(&entry.key.rsplit('/').next().unwrap_or_default()));
    let left_out = u64_of(found.saturating_sub(all.len()));
    all.sort_by(|a, b| place(&a.key).cmp(&place(&b.key)));
    let form = ZipForm { zip64: true, comment: comment(&version), in_order: true, arranged: None };
    let archive = ZipCreateStore::create_as(target, form)?;
    check_space(archive.free_space(), all.iter().fold(0, |n: u64, e| n.saturating_add(e.size)))?;
    let at_once = memory.checked_div(usize::try_from(PIECE).unwrap_or(usize::MAX)).unwrap_or(1);
    let at_once = at_once.clamp(1, MOST_AT_ONCE);
    let mut packed = Packed { version, entries: 0, bytes: 0, unsharded, left_out };
    let mut fetched = stream::iter(all)
        .map(|entry| async move {
            let bytes = if entry.size <= PIECE { Some(whole(store.as_ref(), &entry).await?) } else { None };
            Ok::<_, Error>((entry, bytes))
        })
        .buffered(at_once);
    while let Some((entry, bytes)) = fetched.try_next().await? {
        let name = match path.is_empty() {
            true => entry.key.as_str(),
            false => entry.key.get(path.len().saturating_add(1)..).unwrap_or_default(),
        };
        match bytes {
            Some(bytes) => {
                packed.bytes = packed.bytes.saturating_add(u64_of(bytes.len()));
                if let Put::Refused = archive.put(name, bytes, Condition::Absent).await? {
                    return Err(Error::conflict("two objects have the same key").with_key(name));
                }
            }
            None => {
                packed.bytes = packed.bytes.saturating_add(entry.size);
                let mut writer = archive.entry(name, entry.size)?;
                let (mut offset, mut state) = (0, ObjectMeta::Unknown);
                while offset < entry.size {
                    let length = PIECE.min(entry.size.saturating_sub(offset));
                    let range = Some(ByteRange::span(offset, length));
                    let ask = GetOptions::range(range).of_state(&state);
                    let part = store.get_opts(&entry.key, ask).await?;
                    let Object { bytes: part, meta } = part.ok_or_else(|| gone(store, &entry.key))?;
                    state = meta;
                    writer.write(&part)?;
                    offset = offset.saturating_add(length);
                }
                writer.finish()?;
            }
        }
        packed.entries = packed.entries.saturating_add(1);
    }
    archive.finish().await?;
    Ok(packed)
}

/// The version of the image at `path`, if it can be packed.
async fn packable(zarr: &Zarr, path: &str) -> Result<String> {
    let node = zarr.node(path).await?;
    let NodeMeta::Group(meta) = &node.meta else {
        return Err(Error::invalid("this is an array; an .ozx must hold an image, a plate or a collection")
            .with_node(shown(path)));
    };
    let stated = version::stated(&meta.attributes);
    if meta.format == Format::V2 {
        return Err(Error::unsupported("an .ozx must hold OME-Zarr 0.5 or later, but this is Zarr v2")
            .or_hint(Hint::operation("image upgrade", "converts it to 0.5, which can be packed"))
            .with_node(shown(path)));
    }
    match stated {
        Stated::Known(version, text) if version >= ImageVersion::V05 => Ok(text),
        Stated::Unknown(text) => Ok(text),
        Stated::Known(_, text) => {
            Err(invalid!("an .ozx must hold OME-Zarr 0.5 or later, but this states {text}")
                .or_hint(Hint::operation("image validate", "tells more"))
                .with_node(shown(path)))
        }
        Stated::Nothing => Err(Error::invalid("not an OME-Zarr: `ome.version` is missing")
            .or_hint(Hint::operation("copy", "to a .zip packs a plain Zarr"))
            .with_node(shown(path))),
    }
}

/// The sort key of an entry: documents first, by depth; then everything else by name.
fn place(key: &str) -> (usize, &str) {
    let is_document = key == "zarr.json" || key.ends_with("/zarr.json");
    (if is_document { key.matches('/').count() } else { usize::MAX }, key)
}

async fn whole(store: &dyn Store, entry: &KeyEntry) -> Result<Bytes> {
    let got = store.get_opts(&entry.key, GetOptions::at_most(PIECE)).await?;
    let Object { bytes, .. } = got.ok_or_else(|| gone(store, &entry.key))?;
    // An object whose size changed since the listing is being written concurrently.
    match u64_of(bytes.len()) == entry.size {
        true => Ok(bytes),
        false => {
            Err(Error::conflict("the object changed during packing").with_key(&entry.key).with_store(store))
        }
    }
}

fn gone(store: impl std::fmt::Display, key: &str) -> Error {
    Error::conflict("the object was deleted during packing").with_key(key).with_store(store)
}

/// Unpacks an archive into a new directory `target`, verifying the checksum of each entry. The directory gets its name
/// when it is complete.
#[boxed]
pub async fn unpack(archive: &ZipStore, target: &Path) -> Result<Unpacked> {
    if target.symlink_metadata().is_ok() {
        return Err(
            Error::not_permitted("the target already exists; delete it first").with_store(target.display())
        );
    }
    let strange = archive.strange_names();
    if strange.len() > 0 {
        let names: Vec<String> = archive.strange_names().take(5).map(|name| format!("{name:?}")).collect();
        let more = if strange.len() > names.len() { " and others" } else { "" };
        return Err(invalid!(
            "the archive has entries that would be outside the directory or cannot be files of a Zarr: {}{more}; \
             nothing was unpacked",
            names.join(", ")
        )
        .with_store(archive));
    }
    let folder = PendingFolder::beside(target)?;
    let mut done = Unpacked { files: 0, bytes: 0 };
    for entry in archive.entries() {
        check_key(entry.name)?;
        let path = folder.0.join(entry.name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file = File::create_new(&path).map_err(|e| Error::from(e).with_key(entry.name))?;
        let mut crc = crc32fast::Hasher::new();
        let mut offset = 0;
        while offset < entry.size {
            // Compressed entries cannot be read in parts; the archive caches them in between.
            let length = if entry.stored { PIECE.min(entry.size.saturating_sub(offset)) } else { entry.size };
            let range = Some(ByteRange::span(offset, length)).filter(|_| length < entry.size);
            let part = archive.get(entry.name, range).await?.ok_or_else(|| gone(archive, entry.name))?;
            crc.update(&part);
            file.write_all(&part)?;
            offset = offset.saturating_add(length);
        }
        if crc.finalize() != entry.crc {
            return Err(Error::invalid("the entry's checksum differs")
                .with_key(entry.name)
                .with_store(archive));
        }
        done.files = done.files.saturating_add(1);
        done.bytes = done.bytes.saturating_add(entry.size);
    }
    folder.publish(target)?;
    Ok(done)
}

/// A temporary directory, removed unless it is renamed to its final name.
#[derive(Debug)]
struct PendingFolder(PathBuf);

impl PendingFolder {
    fn beside(target: &Path) -> Result<Self> {
        let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if target.file_name().is_none() {
            return Err(usage!("{} is not a valid directory name", target.display()));
        }
        std::fs::create_dir_all(parent)?;
        let path = temporary_folder(parent);
        std::fs::create_dir(&path).map_err(|e| Error::from(e).with_store(path.display()))?;
        Ok(Self(path))
    }

    fn publish(mut self, target: &Path) -> Result<()> {
        std::fs::rename(&self.0, target).map_err(|e| Error::from(e).with_store(target.display()))?;
        self.0.clear();
        Ok(())
    }
}

impl Drop for PendingFolder {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            // If it cannot be removed, it stays under its temporary name.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
