//! `/zarrs/{p1}/{p2}/{id}/{checksum}.zarr/{key}`: the versions of an archive as folders.
//!
//! The same addresses as those of the WebDAV server of the DANDI archive. An entry is its bytes in that version, here or
//! by a redirect to the bucket; `{checksum}.json` is the manifest itself.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LOCATION, VARY};
use zaro::manifest::{Digest, checksum_in};

use super::{Archive, OpenVersion, folder_of, is_folder};
use crate::answer::{Caching, Fault, Response, empty};
use crate::app::{App, Target};
use crate::path::RequestPath;
use crate::request::Request;
use crate::{dav, listing, raw};

/// What decides between a redirect and the bytes.
const VARIES: &str = "Origin, Sec-Fetch-Mode";

/// Answers a request below `/zarrs/`.
pub(crate) async fn answer(app: &App, request: &Request, path: &RequestPath) -> Result<Response, Fault> {
    let (archive, private) = app.archive(request).await?;
    let key = path.key(1).ok_or_else(Fault::not_found)?;
    let segments = path.segments();
    match segments.get(1..).unwrap_or_default() {
        [first, second, id, name, ..] => {
            if folder_of(id) != Some(format!("{first}/{second}/{id}")) || !app.may_see(request, id)? {
                return Err(Fault::not_found());
            }
            let private = private || app.is_hidden(id);
            if let Some(checksum) = name.strip_suffix(".zarr").and_then(Digest::parse) {
                let version = archive.open(id, checksum).await.map_err(|e| Fault::behind(&e))?;
                let version = version.ok_or_else(Fault::not_found)?;
                let key = path.key(5).ok_or_else(Fault::not_found)?;
                return inside(app, request, &archive, &version, key, path.slash, private).await;
            }
            if segments.len() == 5 && checksum_in(name).is_some() {
                let source = archive.tree(Caching::Immutable, private, Vec::new());
                if !request.is_get() {
                    return folder(request, Target { source, key, slash: false }).await;
                }
                let found = raw::get(&source, &key, request).await?;
                let mut response = found.object().ok_or_else(Fault::not_found)?;
                if let Some(kind) = response.headers_mut().get_mut(CONTENT_TYPE)
                    && kind == "application/octet-stream"
                {
                    *kind = HeaderValue::from_static("application/json");
                }
                return Ok(response);
            }
            Err(Fault::not_found())
        }
        upper => {
            // What cannot be a folder of the tree is not asked for.
            let plausible = match upper {
                [.., first, second, id] => folder_of(id) == Some(format!("{first}/{second}/{id}")),
                letters => letters.iter().all(|part| part.len() == 3),
            };
            let source = archive.tree(Caching::Live, private, hidden_ids(app, request, &archive).await?);
            let there = plausible
                && (key.is_empty()
                    || is_folder(source.store(), &key).await.map_err(|e| Fault::behind(&e))?);
            if !there {
                return Err(Fault::not_found());
            }
            if request.is_get() && !path.slash {
                return Ok(crate::app::redirect(&format!("{}/", request.path)));
            }
            folder(request, Target { source, key, slash: path.slash }).await
        }
    }
}

/// The Zarrs that are hidden from the client.
pub(crate) async fn hidden_ids(
    app: &App,
    request: &Request,
    archive: &Archive,
) -> Result<Vec<String>, Fault> {
    let mut hidden = app.hidden_from(request)?;
    // All but those that the client's token opens.
    if hidden.iter().any(|name| name == "*") {
        let all = archive.zarrs().await.map_err(|e| Fault::behind(&e))?;
        hidden.clear();
        for (id, _) in all.iter() {
            if !app.may_see(request, id)? {
                hidden.push(id.clone());
            }
        }
    }
    Ok(hidden)
}

/// What lies at `key` of a version.
async fn inside(
    app: &App,
    request: &Request,
    archive: &Archive,
    version: &OpenVersion,
    key: String,
    slash: bool,
    private: bool,
) -> Result<Response, Fault> {
    let source = archive.source_of(version, private).map_err(|e| Fault::behind(&e))?;
    let is_entry = version.manifest.get(&key).is_some();
    if !is_entry && version.manifest.dir(&key).is_none() {
        return Err(Fault::not_found());
    }
    if !request.is_get() || (!is_entry && slash) {
        return folder(request, Target { source, key, slash }).await;
    }
    if !is_entry {
        return Ok(crate::app::redirect(&format!("{}/", request.path)));
    }
    if let Some(url) = elsewhere(app, request, archive, version, &key, private) {
        let mut response = redirect_to(StatusCode::TEMPORARY_REDIRECT, &url)?;
        response.headers_mut().insert(VARY, HeaderValue::from_static(VARIES));
        return Ok(response);
    }
    let found = raw::get(&source, &key, request).await?;
    let mut response = found.object().ok_or_else(Fault::not_found)?;
    if app.config.redirect {
        response.headers_mut().append(VARY, HeaderValue::from_static(VARIES));
    }
    Ok(response)
}

/// The address of the object itself, if the client may be sent there: everybody can read it, and no page is waiting,
/// which could not follow.
pub(crate) fn elsewhere(
    app: &App,
    request: &Request,
    archive: &Archive,
    version: &OpenVersion,
    key: &str,
    private: bool,
) -> Option<String> {
    let may = app.config.redirect && !private && !request.is_from_page();
    may.then(|| archive.public_url(version, key)).flatten()
}

/// The path of a version's folder on this server.
pub(crate) fn path_of(id: &str, checksum: &Digest) -> Option<String> {
    Some(format!("/zarrs/{}/{checksum}.zarr/", folder_of(id)?))
}

/// A redirect that nobody keeps without asking again: what is public today may not be tomorrow.
pub(crate) fn redirect_to(status: StatusCode, location: &str) -> Result<Response, Fault> {
    let mut response = empty(status);
    let location = HeaderValue::from_str(location);
    let location = location
        .map_err(|_| Fault::new(StatusCode::BAD_GATEWAY, "the object has no address that can be sent"))?;
    response.headers_mut().insert(LOCATION, location);
    response.headers_mut().insert(CACHE_CONTROL, Caching::Live.value(false));
    Ok(response)
}

/// Lists a folder that exists.
async fn folder(request: &Request, target: Target) -> Result<Response, Fault> {
    match request.is_get() {
        true => listing::folder(&target.source, &target.key, request).await,
        false => dav::answer(&target, request).await,
    }
}

impl App {
    /// The archive of this server, if it has one and the client may see it; and whether others may not.
    pub(crate) async fn archive(&self, request: &Request) -> Result<(Arc<Archive>, bool), Fault> {
        let archive = self.sources.archive().await.map_err(|e| Fault::behind(&e))?;
        let archive = archive.ok_or_else(Fault::not_found)?;
        if !self.may_see(request, &archive.name)? {
            return Err(Fault::not_found());
        }
        let private = self.is_hidden(&archive.name);
        Ok((archive, private))
    }
}
