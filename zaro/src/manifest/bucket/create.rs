//! Creates a manifest from a listing, and stores it in the bucket.
//!
//! Entries are streamed to the document as they are listed, so memory does not grow with their number, unless the
//! server lists out of order: then its keys are collected and sorted. A listing is not a snapshot; the Zarr is listed
//! until two listings in a row agree.

use std::borrow::Cow;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::sync::Arc;

use futures::TryStreamExt;
use md5::{Digest as _, Md5};

use super::inventory::Inventory;
use super::verify::verify;
use super::{BucketZarr, EMBARGOED, time_of};
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::build::Builder;
use crate::manifest::checksum::{TreeHasher, checksum_of, key_as_path};
use crate::manifest::digest::{Digest, ETag};
use crate::manifest::model::{EntryRef, Fields, Manifest};
use crate::manifest::parse::parse;
use crate::manifest::place::Stored;
use crate::manifest::spool::nameless;
use crate::manifest::write::{Finished, ManifestOptions, ManifestStream};
use crate::store::object::versions::{ObjectVersion, Pages};
use crate::time::Time;

/// Where the list of objects comes from.
#[derive(Debug, Clone, Default)]
pub enum Source {
    /// A listing of versions.
    #[default]
    Versions,
    /// A listing of current objects, without versions: for buckets without versioning.
    Objects,
    /// An S3 Inventory.
    Inventory(Inventory),
}

/// Options for creating a manifest.
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct CreateOptions {
    /// Where the listing comes from.
    pub source: Source,
    /// Format of the document.
    pub write: ManifestOptions,
    /// Maximum listings until two in a row agree; 1 takes the first as it is.
    pub listings: u32,
}

/// A manifest created from a listing.
#[derive(Debug)]
pub struct Created {
    /// The document.
    pub document: Finished,
    /// How often it was listed.
    pub listings: u32,
}

/// Options for storing a manifest in the bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct PublishOptions {
    /// Put it with the embargo tag.
    pub embargoed: bool,
    /// Replace an object that is not a manifest of this version.
    pub replace: bool,
}

/// The result of one listing.
struct Scan {
    document: Finished,
    /// Fingerprint of everything that was listed.
    print: u64,
}

/// Creates the manifest of a Zarr as it is now.
///
/// # Errors
/// `Io` if the Zarr changes during every listing; `Invalid` for keys that no manifest can hold, by name.
#[boxed]
pub async fn create(zarr: &BucketZarr, options: &CreateOptions) -> Result<Created> {
    if let Source::Inventory(inventory) = &options.source {
        let mut all = inventory.read(zarr.bucket().name(), zarr.prefix())?;
        all.retain(|version| version.latest);
        if all.is_empty() {
            // It may have been put after the inventory was made.
            return Err(Error::not_found("the inventory does not contain this Zarr").with_store(zarr));
        }
        let document = document(zarr, all, fields(&options.source), options.write)?;
        return Ok(Created { document, listings: 1 });
    }
    let list = || async {
        let scan = scan(zarr, &options.source, options.write, None).await?;
        scan.ok_or_else(|| Error::io("the listing returned nothing").with_store(zarr))
    };
    let mut before = list().await?;
    let crate::manifest::Statistics { entries, last_modified, .. } = &before.document.statistics;
    if *entries == Some(0) && last_modified.is_none() {
        // An empty Zarr has a manifest; what never was, such as a slip of the pen, has none.
        return Err(Error::not_found("there is no such Zarr, current or past").with_store(zarr));
    }
    let mut listings = 1;
    while listings < options.listings {
        let now = list().await?;
        listings += 1;
        if now.print == before.print {
            return Ok(Created { document: now.document, listings });
        }
        before = now;
    }
    if options.listings > 1 {
        return Err(Error::io(format!(
            "the Zarr changed during each of {listings} listings; retry when nothing writes to it"
        ))
        .with_store(zarr));
    }
    Ok(Created { document: before.document, listings })
}

fn fields(source: &Source) -> Fields {
    match source {
        Source::Objects => Fields { version: false, ..Fields::ALL },
        Source::Versions | Source::Inventory(_) => Fields::ALL,
    }
}

fn pages(zarr: &BucketZarr, source: &Source) -> Pages {
    match source {
        Source::Objects => zarr.bucket().objects(zarr.prefix()),
        _ => zarr.bucket().versions(zarr.prefix()),
    }
}

/// Lists the Zarr and takes the current objects, or those at a point in time.
async fn scan(
    zarr: &BucketZarr,
    source: &Source,
    write: ManifestOptions,
    at: Option<Time>,
) -> Result<Option<Scan>> {
    let fields = fields(source);
    let mut pages = pages(zarr, source);
    let mut stream = ManifestStream::new(fields, write);
    let (mut print, mut last, mut changed) = (DefaultHasher::new(), String::new(), None);
    while let Some(page) = pages.try_next().await? {
        for version in &page {
            note(version, &mut print);
            if version.key < last {
                // Out of order: all at once, then.
                drop(pages);
                return scan_unsorted(zarr, source, write, at).await;
            }
            // Within a key the newest comes first.
            if !is_meant(version, at) || version.key == last {
                continue;
            }
            last.clone_from(&version.key);
            changed = changed.max(Some(time_of(version)));
            if !version.deleted {
                push(zarr, version, &fields, |path, entry| stream.push(path, entry))?;
            }
        }
    }
    if at.is_some() && changed.is_none() {
        return Ok(None);
    }
    let document = stream.finish(changed).map_err(|e| e.with_store(zarr))?;
    Ok(Some(Scan { document, print: print.finish() }))
}

/// Whether a version is a candidate: current, or not newer than `at`.
fn is_meant(version: &ObjectVersion, at: Option<Time>) -> bool {
    match at {
        None => version.latest,
        Some(at) => time_of(version) <= at,
    }
}

/// Adds a version to the fingerprint of a listing.
fn note(version: &ObjectVersion, print: &mut DefaultHasher) {
    (&version.key, &version.version, version.latest, version.deleted).hash(print);
    (&version.etag, version.size, version.modified).hash(print);
}

async fn scan_unsorted(
    zarr: &BucketZarr,
    source: &Source,
    write: ManifestOptions,
    at: Option<Time>,
) -> Result<Option<Scan>> {
    let mut all: Vec<ObjectVersion> = pages(zarr, source).try_concat().await?;
    let mut print = DefaultHasher::new();
    // Sorted, so that the order of a server that has none does not matter. Versions of one key stay as they are.
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all.iter().for_each(|version| note(version, &mut print));
    all.retain(|version| is_meant(version, at));
    if at.is_some() && all.is_empty() {
        return Ok(None);
    }
    Ok(Some(Scan { document: document(zarr, all, fields(source), write)?, print: print.finish() }))
}

/// The document of the first version of each key.
fn document(
    zarr: &BucketZarr,
    mut all: Vec<ObjectVersion>,
    fields: Fields,
    write: ManifestOptions,
) -> Result<Finished> {
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all.dedup_by(|b, a| a.key == b.key);
    let mut stream = ManifestStream::new(fields, write);
    let mut changed = None;
    for version in &all {
        changed = changed.max(Some(time_of(version)));
        if !version.deleted {
            push(zarr, version, &fields, |path, entry| stream.push(path, entry))?;
        }
    }
    stream.finish(changed).map_err(|e| e.with_store(zarr))
}

fn push(
    zarr: &BucketZarr,
    version: &ObjectVersion,
    fields: &Fields,
    mut take: impl FnMut(&str, &EntryRef<'_>) -> Result<()>,
) -> Result<()> {
    let Some(path) = zarr.path_of(version) else {
        return Err(Error::io(format!(
            "the server listed {:?}, which is outside the requested prefix",
            version.key
        ))
        .with_store(zarr));
    };
    if version.etag.is_empty() {
        return Err(Error::invalid("the object has no ETag").with_key(&version.key).with_store(zarr));
    }
    let entry = EntryRef {
        version: fields.version.then_some(version.version.as_str()),
        modified: Some(time_of(version)),
        size: version.size,
        etag: Some(&version.etag),
    };
    take(path, &entry).map_err(|e| e.with_key(&version.key).with_store(zarr))
}

/// The manifest of the Zarr as it is now, in memory, for comparisons.
#[boxed]
pub async fn current(zarr: &BucketZarr, source: &Source) -> Result<Manifest> {
    let fields = fields(source);
    let mut all: Vec<ObjectVersion> = Vec::new();
    let mut found = match source {
        Source::Inventory(inventory) => inventory.read(zarr.bucket().name(), zarr.prefix())?,
        _ => {
            let mut pages = pages(zarr, source);
            while let Some(page) = pages.try_next().await? {
                all.extend(page.into_iter().filter(|v| v.latest && !v.deleted));
            }
            all
        }
    };
    found.retain(|v| v.latest && !v.deleted);
    found.sort_by(|a, b| a.key.cmp(&b.key));
    let mut builder = Builder::new(fields);
    for version in &found {
        push(zarr, version, &fields, |path, entry| builder.push(path, entry))?;
    }
    builder.finish().map_err(|e| e.with_store(zarr))
}

/// The checksum of the Zarr as it is now, by a plain listing. Keys are read as by the reference implementation, so
/// there is a checksum even if no manifest can be created.
#[boxed]
pub async fn checksum(zarr: &BucketZarr) -> Result<Digest> {
    let mut pages = zarr.bucket().objects(zarr.prefix());
    let (mut tree, mut last) = (TreeHasher::new(), String::new());
    while let Some(page) = pages.try_next().await? {
        for object in &page {
            let path = as_path(zarr, object)?;
            if *path <= *last {
                drop(pages);
                return checksum_unsorted(zarr).await;
            }
            tree.push(&path, object.size, &object.etag)?;
            last = path.into_owned();
        }
    }
    tree.finish()
}

fn as_path<'a>(zarr: &BucketZarr, object: &'a ObjectVersion) -> Result<Cow<'a, str>> {
    let path = zarr.path_of(object).and_then(key_as_path);
    path.ok_or_else(|| {
        Error::invalid("the key is not a path below the Zarr").with_key(&object.key).with_store(zarr)
    })
}

async fn checksum_unsorted(zarr: &BucketZarr) -> Result<Digest> {
    let all: Vec<ObjectVersion> = zarr.bucket().objects(zarr.prefix()).try_concat().await?;
    let entry = |o: &ObjectVersion| Ok((as_path(zarr, o)?.into_owned(), o.size, o.etag.clone()));
    checksum_of(all.iter().map(entry).collect::<Result<_>>()?)
}

/// The document of the Zarr at a point in time; `None` if it did not exist yet.
#[boxed]
pub async fn document_at(zarr: &BucketZarr, at: Time, write: ManifestOptions) -> Result<Option<Finished>> {
    Ok(scan(zarr, &Source::Versions, write, Some(at)).await?.map(|scan| scan.document))
}

impl BucketZarr {
    /// Stores a document in this Zarr's manifest folder. An existing one with the same checksum is kept, unless objects
    /// it lists are gone or it has no versions though `document` does. Anything else in its place is an error, unless
    /// it is to be replaced.
    #[boxed]
    pub async fn store(&self, document: Finished, options: PublishOptions) -> Result<Stored> {
        let PublishOptions { embargoed, replace } = options;
        let (checksum, versions) = (document.checksum, document.fields.version);
        let key = self.manifest_key(&document.checksum)?;
        let mut hashed = Hashed { file: nameless()?, md5: Md5::new() };
        document.write(BufWriter::with_capacity(1 << 17, &mut hashed))?;
        let md5: [u8; 16] = hashed.md5.finalize().into();
        let (file, own) = (Arc::new(hashed.file), ETag::Md5(md5).to_string());
        let tags: &[(&str, &str)] = if embargoed { &[(EMBARGOED, "true")] } else { &[] };
        loop {
            let Some((_, etag)) = self.bucket.head(&key).await? else {
                if self.bucket.put_file(&key, Arc::clone(&file), md5, tags, true).await?.is_done() {
                    return Ok(Stored::New);
                }
                // Somebody else was faster: what is there decides.
                continue;
            };
            // The very same document, or another of the same state: it stays if it holds.
            let mut stays = etag == own;
            if !stays {
                let Some(there) = self.bucket.get(&key, None).await? else { continue };
                stays = match same_state(&there, &checksum) {
                    // Without versions it means whatever is there later.
                    Ok(manifest) if versions && !manifest.fields().version => manifest.is_empty(),
                    Ok(manifest) => verify(self, &manifest, 1).await?.is_sound(),
                    Err(e) if replace && e.kind() == ErrorKind::Conflict => false,
                    Err(e) => return Err(e.with_key(&key).with_store(self)),
                };
            }
            if stays {
                if embargoed {
                    self.bucket.add_tag(&key, EMBARGOED, "true").await?;
                }
                return Ok(Stored::Kept);
            }
            if !self.bucket.put_file(&key, file, md5, tags, false).await?.is_done() {
                return Err(Error::io("the server rejected an unconditional put").with_key(&key));
            }
            return Ok(Stored::Replaced);
        }
    }
}

/// Parses the manifest in `text`, whose entries must give this checksum.
fn same_state(text: &[u8], checksum: &Digest) -> Result<Manifest> {
    let other = || {
        Error::conflict("something else exists in the place of the manifest; it was left unchanged")
            .with_hint("replace", "replaces it")
    };
    match parse(text) {
        Ok(manifest) if manifest.checksum().is_ok_and(|found| found == *checksum) => Ok(manifest),
        Ok(_) => Err(other()),
        Err(e) if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => {
            Err(other().with_source(e))
        }
        Err(e) => Err(e),
    }
}

/// A file that is hashed while it is written.
struct Hashed {
    file: File,
    md5: Md5,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.md5.update(bytes.get(..n).unwrap_or_default());
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// The checksum in the name of a document.
#[must_use]
pub(super) fn named(key: &str) -> Option<Digest> {
    key.rsplit('/').next()?.strip_suffix(".json")?.parse().ok()
}
