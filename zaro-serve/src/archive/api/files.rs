//! The entries of a version, and what changed between two.

use hyper::StatusCode;
use zaro::manifest::{Change, DiffSummary, Leaf, Manifest, Time};
use zaro::meta::Json;

use super::paging::{FilesWanted, Page};
use super::{Call, with_query};
use crate::answer::{Caching, Fault, Response};
use crate::archive::OpenVersion;
use crate::archive::tree::{elsewhere, path_of, redirect_to};
use crate::path::encode;

/// The files of the newest version.
pub(super) async fn newest(call: &Call<'_>, id: &str) -> Result<Response, Fault> {
    let wanted = FilesWanted::of(call.request)?;
    let checksum = call.newest(id).await?;
    let version = call.open(id, &checksum.to_string()).await?;
    files(call, &version, &wanted, Caching::Live).await
}

/// The files of a version.
pub(super) async fn of_version(call: &Call<'_>, id: &str, version: &str) -> Result<Response, Fault> {
    let wanted = FilesWanted::of(call.request)?;
    let version = call.open(id, version).await?;
    files(call, &version, &wanted, Caching::Immutable).await
}

/// A page of files in the order of their keys, or the way to one of them.
async fn files(
    call: &Call<'_>,
    version: &OpenVersion,
    wanted: &FilesWanted,
    caching: Caching,
) -> Result<Response, Fault> {
    // A HEAD of a file is for that file.
    if wanted.download || (call.request.is_head() && !wanted.prefix.is_empty()) {
        return download(call, version, &wanted.prefix).await;
    }
    let FilesWanted { prefix, after, limit, .. } = wanted;
    let mut walk = version.manifest.walk_from(prefix.max(after));
    let (mut results, mut last, mut more) = (Vec::new(), String::new(), false);
    while let Some((key, leaf)) = walk.next() {
        if !key.starts_with(prefix.as_str()) {
            break;
        }
        if !after.is_empty() && key == after {
            continue;
        }
        if results.len() >= *limit {
            more = *limit > 0;
            break;
        }
        results.push(file(key, &leaf));
        last.clear();
        last.push_str(key);
    }
    let next = more.then(|| {
        let query = with_query(call.request, &[("after", Some(&last))]);
        format!("{}{}{query}", call.base, call.request.path)
    });
    let document = Json::from([("next", Json::from(next)), ("results", Json::Array(results))]);
    Ok(call.json(&document, caching))
}

fn file(key: &str, leaf: &Leaf<'_>) -> Json {
    Json::from([
        ("Key", Json::from(key)),
        ("LastModified", Json::from(leaf.modified().map(spaced))),
        ("ETag", Json::from(leaf.etag())),
        ("Size", Json::from(leaf.size())),
        ("VersionId", Json::from(leaf.version())),
    ])
}

/// A time as the archive's API writes it: with a space.
fn spaced(time: Time) -> String {
    time.to_string().replacen('T', " ", 1)
}

/// To the bytes of a file: in the bucket, or on this server.
async fn download(call: &Call<'_>, version: &OpenVersion, key: &str) -> Result<Response, Fault> {
    if key.is_empty() {
        return Err(super::of_field("prefix", "This field is required."));
    }
    if version.manifest.get(key).is_none() {
        return Err(Fault::not_found());
    }
    if let Some(away) = elsewhere(call.app, call.request, &call.archive, version, key, call.private).await? {
        return away.redirect(StatusCode::FOUND);
    }
    let folder = path_of(&version.id, &version.checksum).ok_or_else(Fault::not_found)?;
    redirect_to(StatusCode::FOUND, &format!("{}{folder}{}", call.base, encode(key)), call.private)
}

/// What changed from one version to another, a page of it.
pub(super) async fn diff(call: &Call<'_>, id: &str, from: &str, to: &str) -> Result<Response, Fault> {
    let page = Page::of(call.request)?;
    let (before, after) = (call.open(id, from).await?, call.open(id, to).await?);
    let name = (id.to_owned(), before.checksum, after.checksum);
    let found = call.archive.diffs.get(name, before.manifest.clone(), after.manifest.clone());
    let found = found.await.map_err(|e| Fault::behind(&e))?;
    page.check(found.len())?;
    let shown = found.range(page.range()).into_iter();
    let results =
        shown.map(|(change, key)| changed(change, &key, &before.manifest, &after.manifest)).collect();
    let mut document = page.document(call, found.len(), results);
    let DiffSummary { added, changed, removed, .. } = found.summary;
    for (name, (count, size)) in [("added", added), ("changed", changed), ("removed", removed)] {
        document.set(name, Json::from([("count", Json::from(count)), ("size", Json::from(size))]));
    }
    Ok(call.json(&document, Caching::Immutable))
}

fn changed(change: Change, key: &str, before: &Manifest, after: &Manifest) -> Json {
    let word = match change {
        Change::Added => "added",
        Change::Changed => "changed",
        Change::Removed => "removed",
    };
    let size = |manifest: &Manifest| Json::from(manifest.get(key).map(|leaf| leaf.size()));
    Json::from([
        ("Key", Json::from(key)),
        ("Change", Json::from(word)),
        ("Size", size(after)),
        ("SizeBefore", size(before)),
    ])
}
