//! Zarrs and their versions.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use hyper::StatusCode;
use zaro::manifest::{Digest, Statistics};
use zaro::meta::Json;

use super::paging::Page;
use super::{Call, checksum_of, time_in};
use crate::answer::{Caching, Fault, Response};
use crate::archive::folder_of;
use crate::archive::tree::{path_of, redirect_to};
use crate::archive::versions::Version;

/// Zarrs of a page whose newest version is looked for at once.
const AT_ONCE: usize = 8;

/// All Zarrs, a page of them. Only of those that have several versions something is read.
pub(super) async fn list(call: &Call<'_>) -> Result<Response, Fault> {
    let page = Page::of(call.request)?;
    let mut all = call.archive.zarrs().await.map_err(|e| Fault::behind(&e))?;
    if let Some(visible) = call.app.visible_ids(call.request, &call.archive, "").await? {
        // Both are sorted.
        let shown = |id: &String| visible.binary_search(id).is_ok();
        all = Arc::new(all.iter().filter(|(id, _)| shown(id)).cloned().collect());
    }
    // The name of a Zarr is its id here.
    let all = match call.request.query.get("name") {
        None => all,
        Some(name) => {
            let found = all.binary_search_by(|(id, _)| id.as_str().cmp(name)).ok();
            Arc::new(found.and_then(|at| all.get(at).cloned()).into_iter().collect())
        }
    };
    page.check(all.len())?;
    let range = page.range();
    let shown = all.get(range.start.min(all.len())..range.end.min(all.len())).unwrap_or_default();
    let newest: Vec<BoxFuture<'_, zaro::Result<Option<Digest>>>> =
        shown.iter().map(|(id, checksums)| call.archive.newest_of(id, checksums).boxed()).collect();
    let newest: Vec<Option<Digest>> =
        stream::iter(newest).buffered(AT_ONCE).try_collect().await.map_err(|e| Fault::behind(&e))?;
    let results = shown.iter().zip(newest).filter_map(|((id, _), newest)| Some(zarr(id, &newest?)));
    let results = results.collect();
    Ok(call.json(&page.document(call, all.len(), results), Caching::Live))
}

/// One Zarr.
pub(super) async fn one(call: &Call<'_>, id: &str) -> Result<Response, Fault> {
    let checksum = call.newest(id).await?;
    Ok(call.json(&zarr(id, &checksum), Caching::Live))
}

/// Its versions, newest first, a page of them.
pub(super) async fn versions(call: &Call<'_>, id: &str) -> Result<Response, Fault> {
    let page = Page::of(call.request)?;
    let all = call.archive.versions(id).await.map_err(|e| Fault::behind(&e))?;
    if all.is_empty() {
        return Err(Fault::not_found());
    }
    page.check(all.len())?;
    let (range, latest) = (page.range(), all.first().map(|version| version.checksum));
    let shown = all.iter().skip(range.start).take(range.len());
    let results = shown.map(|version| described(call, id, version, latest)).collect();
    Ok(call.json(&page.document(call, all.len(), results), Caching::Live))
}

/// One version, with what its manifest states.
pub(super) async fn version(call: &Call<'_>, id: &str, version: &str) -> Result<Response, Fault> {
    let checksum = checksum_of(version)?;
    let all = call.archive.versions(id).await.map_err(|e| Fault::behind(&e))?;
    let latest = all.first().map(|version| version.checksum);
    let found = all.iter().find(|version| version.checksum == checksum).ok_or_else(Fault::not_found)?;
    let mut out = described(call, id, found, latest);
    let stated = found.statistics.as_deref().map_or(Json::Null, statistics);
    out.set("statistics", stated);
    Ok(call.json(&out, Caching::Live))
}

/// To the version that was in force at a time.
pub(super) async fn at(call: &Call<'_>, id: &str, time: &str) -> Result<Response, Fault> {
    let time = time_in(time)?;
    let found = call.archive.version_at(id, time).await.map_err(|e| Fault::behind(&e))?;
    let found = found.ok_or_else(Fault::not_found)?;
    redirect_to(
        StatusCode::FOUND,
        &format!("{}/api/zarr/{id}/versions/{}/", call.base, found.checksum),
        call.private,
    )
}

/// A Zarr as the archive's API has it; its name tells all.
fn zarr(id: &str, checksum: &Digest) -> Json {
    Json::from([
        ("name", Json::from(id)),
        ("zarr_id", Json::from(id)),
        ("status", Json::from("Complete")),
        ("checksum", Json::from(checksum.to_string())),
        ("file_count", Json::from(checksum.count)),
        ("size", Json::from(checksum.size)),
    ])
}

fn described(call: &Call<'_>, id: &str, version: &Version, latest: Option<Digest>) -> Json {
    let checksum = version.checksum;
    let stated = version.statistics.as_deref();
    let modified = version.modified().map(|time| time.to_string());
    let manifest = folder_of(id).map(|folder| format!("{}/zarrs/{folder}/{checksum}.json", call.base));
    let webdav = path_of(id, &checksum).map(|path| format!("{}{path}", call.base));
    Json::from([
        ("version_id", Json::from(checksum.to_string())),
        ("zarr_id", Json::from(id)),
        ("checksum", Json::from(checksum.to_string())),
        ("file_count", Json::from(checksum.count)),
        ("size", Json::from(checksum.size)),
        ("depth", Json::from(stated.and_then(|stated| stated.depth))),
        ("last_modified", Json::from(modified)),
        ("manifest_url", Json::from(manifest)),
        ("webdav_url", Json::from(webdav)),
        ("latest", Json::from(latest == Some(checksum))),
    ])
}

/// Statistics with the names that manifests have for them.
fn statistics(stated: &Statistics) -> Json {
    Json::from([
        ("entries", Json::from(stated.entries)),
        ("depth", Json::from(stated.depth)),
        ("totalSize", Json::from(stated.total_size)),
        ("lastModified", Json::from(stated.last_modified.map(|time| time.to_string()))),
        ("zarrChecksum", Json::from(stated.checksum.clone())),
    ])
}
