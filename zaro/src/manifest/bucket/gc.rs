//! Garbage collection: object versions that no manifest lists, and manifests that list deleted ones.
//!
//! First a report: object versions that no manifest lists, with their sizes. Current objects are never deleted, nor
//! are delete markers, since without them old versions would come back. Deletion takes such a report, checks again that
//! each line of it still holds, and only then deletes.

use std::collections::HashSet;
use std::io::Write;

use futures::{StreamExt, TryStreamExt, stream};

use super::BucketZarr;
use super::create::named;
use crate::boxed;
use crate::error::{Error, Hint, Result};
use crate::manifest::digest::Digest;
use crate::manifest::model::Manifest;
use crate::meta::Json;
use crate::store::object::versions::ObjectVersion;
use crate::task::{Task, Unit};

/// Concurrent deletions.
const AT_ONCE: usize = 16;

/// An object version that no manifest lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GarbageVersion {
    /// The full key.
    pub key: String,
    /// The version id.
    pub version: String,
    /// How many bytes it has.
    pub size: u64,
}

/// Report of what can be deleted, and of what is already gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Garbage {
    /// Versions that no manifest lists and that are not current.
    pub versions: Vec<GarbageVersion>,
    /// Their bytes.
    pub size: u64,
    /// How many versions there are in all, and their bytes.
    pub all: (u64, u64),
    /// How many delete markers there are.
    pub markers: u64,
    /// Manifests that list versions that are gone, and how many. Replaced manifests do not count.
    pub broken: Vec<(Digest, u64)>,
    /// Old versions of manifests (key and version id) that cannot be read, so that what they list is unknown.
    pub unreadable: Vec<(String, String)>,
    /// How many manifests were read.
    pub manifests: u64,
}

impl Garbage {
    /// Writes the deletable versions, one JSON object per line.
    pub fn write_list(&self, out: &mut impl Write) -> Result<()> {
        for g in &self.versions {
            let line =
                [("key", (&g.key).into()), ("versionId", (&g.version).into()), ("size", g.size.into())];
            writeln!(out, "{}", Json::from(line))?;
        }
        Ok(())
    }

    /// The items of a list that may not be deleted, for messages.
    #[must_use]
    pub fn not_among(&self, list: &[(String, String)]) -> Vec<String> {
        let found: HashSet<(&str, &str)> =
            self.versions.iter().map(|g| (g.key.as_str(), g.version.as_str())).collect();
        let stays = |(key, version): &&(String, String)| !found.contains(&(key.as_str(), version.as_str()));
        list.iter().filter(stays).map(|(key, version)| format!("{key} ({version})")).collect()
    }

    /// As JSON; `deleted` is the number of deleted versions, and their bytes.
    #[must_use]
    pub fn json(&self, deleted: Option<(u64, u64)>) -> Json {
        let broken = self.broken.iter().map(|(checksum, gone)| {
            Json::from([("checksum", checksum.to_string().into()), ("gone", (*gone).into())])
        });
        Json::from([
            ("manifests", self.manifests.into()),
            ("versions", self.all.0.into()),
            ("size", self.all.1.into()),
            ("deleteMarkers", self.markers.into()),
            ("unnamed", self.versions.len().into()),
            ("unnamedSize", self.size.into()),
            ("broken", broken.collect()),
            ("deleted", deleted.map(|(n, _)| n).into()),
            ("deletedSize", deleted.map(|(_, n)| n).into()),
        ])
    }
}

/// Keys and versions of a list that [`Garbage::write_list`] wrote.
pub fn read_list(text: &[u8]) -> Result<Vec<(String, String)>> {
    let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
    lines
        .map(|line| {
            let value = Json::parse(line)?.value;
            let field = |name: &str| value.get(name).and_then(Json::as_str).map(str::to_owned);
            field("key")
                .zip(field("versionId"))
                .ok_or_else(|| Error::invalid("a line has no key and versionId"))
        })
        .collect()
}

/// Finds garbage. `kept` are manifests besides those in the bucket; with `only_these` the bucket's own are ignored.
#[boxed]
pub async fn collect(zarr: &BucketZarr, kept: Vec<Manifest>, only_these: bool) -> Result<Garbage> {
    let mut out = Garbage::default();
    // Each with whether it has to hold: one that was replaced keeps what it names, but may name what is gone.
    let mut manifests: Vec<(Digest, Manifest, bool)> = Vec::new();
    for manifest in kept {
        manifests.push((manifest.checksum()?, manifest, true));
    }
    if !only_these && let Ok(folder) = zarr.manifests() {
        let mut found: Vec<ObjectVersion> = zarr.bucket().versions(folder).try_concat().await?;
        // An overwritten manifest is still one: its version can be asked for.
        found.retain(|v| !v.deleted);
        for version in found {
            let Some(checksum) = named(&version.key) else { continue };
            let text = zarr.bucket().get(&version.key, Some(&version.version)).await?;
            // Deleted since it was listed.
            let Some(text) = text else { continue };
            match crate::manifest::parse(&*text) {
                Ok(manifest) => manifests.push((checksum, manifest, version.latest)),
                Err(_) if !version.latest => out.unreadable.push((version.key, version.version)),
                Err(e) => {
                    return Err(e
                        .within("a manifest cannot be read, so what it lists is unknown; delete it")
                        .or_hint(Hint::operation("manifest create", "recreates it").with("replace"))
                        .with_key(&version.key)
                        .with_store(zarr.bucket()));
                }
            }
        }
    }
    // An old one without versions was replaced by one of the same state with them.
    manifests.retain(|(_, manifest, holds)| *holds || manifest.fields().version);
    for (checksum, manifest, _) in &manifests {
        if !manifest.fields().version && !manifest.is_empty() {
            return Err(Error::unsupported(format!(
                "the manifest {checksum} has no version ids, so the versions to keep are unknown"
            ))
            .with_store(zarr));
        }
    }
    out.manifests = crate::num::u64_of(manifests.len());
    let mut met = vec![0u64; manifests.len()];
    let mut pages = zarr.bucket().versions(zarr.prefix());
    while let Some(page) = pages.try_next().await? {
        for version in page {
            if version.deleted {
                out.markers += 1;
                continue;
            }
            out.all = (out.all.0 + 1, out.all.1.saturating_add(version.size));
            let mut named = false;
            let path = zarr.path_of(&version).unwrap_or_default();
            for ((_, manifest, _), met) in manifests.iter().zip(&mut met) {
                let leaf = manifest.get(path);
                if leaf.is_some_and(|l| l.version().as_deref() == Some(version.version.as_str())) {
                    *met += 1;
                    named = true;
                }
            }
            if !named && !version.latest {
                out.size = out.size.saturating_add(version.size);
                let ObjectVersion { key, version, size, .. } = version;
                out.versions.push(GarbageVersion { key, version, size });
            }
        }
    }
    for ((checksum, manifest, _), met) in manifests.iter().zip(met).filter(|((.., holds), _)| *holds) {
        let gone = crate::num::u64_of(manifest.len()).saturating_sub(met);
        if gone > 0 {
            out.broken.push((*checksum, gone));
        }
    }
    Ok(out)
}

/// Deletes the versions in `list` that `garbage`, found just now, confirms; returns how many, and their bytes. What is
/// no longer garbage is kept.
pub async fn delete(
    zarr: &BucketZarr,
    garbage: &Garbage,
    list: &[(String, String)],
    task: &Task,
) -> Result<(u64, u64)> {
    let wanted: std::collections::HashSet<(&str, &str)> =
        list.iter().map(|(key, version)| (key.as_str(), version.as_str())).collect();
    let going = garbage.versions.iter().filter(|g| wanted.contains(&(g.key.as_str(), g.version.as_str())));
    let mut deletions = stream::iter(going)
        .map(|g| async move { zarr.bucket().delete(&g.key, Some(&g.version)).await.map(|()| g.size) })
        .buffer_unordered(AT_ONCE);
    let (mut count, mut size, meter) = (0u64, 0u64, task.meter(Unit::Versions, None::<u64>));
    while let Some(bytes) = task.unless_cancelled(deletions.try_next()).await? {
        count += 1;
        size = size.saturating_add(bytes);
        meter.advance(1);
    }
    Ok((count, size))
}
