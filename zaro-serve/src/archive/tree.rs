//! `/zarrs/{p1}/{p2}/{id}/{checksum}.zarr/{key}`: the versions of an archive as folders.
//!
//! The same addresses as those of the WebDAV server of the DANDI archive. An entry is its bytes in that version, here or
//! by a redirect to the bucket; `{checksum}.json` is the manifest itself.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LOCATION, REFERRER_POLICY, VARY};
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
            if folder_of(id) != Some(format!("{first}/{second}/{id}")) {
                return Err(Fault::not_found());
            }
            let Some(own) = app.sees(request, id).await? else {
                let path = path.with(3, &app.sources.nobody(id));
                return Box::pin(answer(app, request, &path)).await;
            };
            let private = private || own;
            if let Some(checksum) = name.strip_suffix(".zarr").and_then(Digest::parse) {
                let version = archive.open(id, checksum).await.map_err(|e| Fault::behind(&e))?;
                let version = version.ok_or_else(Fault::not_found)?;
                let key = path.key(5).ok_or_else(Fault::not_found)?;
                return inside(app, request, &archive, &version, key, path.slash, private).await;
            }
            if segments.len() == 5 && checksum_in(name).is_some() {
                let source = archive.tree(Caching::Immutable, private, None);
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
            if !plausible {
                return Err(Fault::not_found());
            }
            let (visible, own) = match upper {
                // Of one Zarr its own state tells, not a list that may be some seconds old.
                [_, _, id] => match app.sees(request, id).await? {
                    Some(own) => (Some(vec![(*id).to_owned()]), own),
                    None => {
                        let path = path.with(3, &app.sources.nobody(id));
                        return Box::pin(answer(app, request, &path)).await;
                    }
                },
                _ => (app.visible_ids(request, &archive, &key).await?, false),
            };
            let source = archive.tree(Caching::Live, private || own, visible.as_deref());
            let there = match &visible {
                _ if key.is_empty() => true,
                // Without a look: a folder of hidden Zarrs takes no more time than none.
                Some(visible) if visible.is_empty() => false,
                _ => is_folder(source.store(), &key).await.map_err(|e| Fault::behind(&e))?,
            };
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
        // An entry is the same with a slash at its end, for every method.
        return folder(request, Target { source, key, slash: slash && !is_entry }).await;
    }
    if !is_entry {
        return Ok(crate::app::redirect(&format!("{}/", request.path)));
    }
    if let Some(away) = elsewhere(app, request, archive, version, &key, private).await? {
        let mut response = away.redirect(StatusCode::TEMPORARY_REDIRECT)?;
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

/// The address of an object itself.
#[derive(Debug)]
pub(crate) enum Away {
    /// Everybody can read it there.
    Public(String),
    /// Whoever has it can, for a short time.
    Signed(String),
}

impl Away {
    /// Sends a client there. Nobody keeps a signed address, nor tells it to the next server.
    pub(crate) fn redirect(self, status: StatusCode) -> Result<Response, Fault> {
        match self {
            Self::Public(url) => redirect_to(status, &url, false),
            Self::Signed(url) => {
                let mut response = redirect_to(status, &url, true)?;
                let headers = response.headers_mut();
                headers.insert(CACHE_CONTROL, Caching::Never.value(true));
                headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
                Ok(response)
            }
        }
    }
}

/// The address of the object itself, if the client may be sent there: no page is waiting, which could not follow, and
/// everybody can read it, or an address can be signed for this request alone.
pub(crate) async fn elsewhere(
    app: &App,
    request: &Request,
    archive: &Archive,
    version: &OpenVersion,
    key: &str,
    private: bool,
) -> Result<Option<Away>, Fault> {
    if !app.config.redirect || request.is_from_page() {
        return Ok(None);
    }
    if !private && let Some(url) = archive.public_url(version, key) {
        return Ok(Some(Away::Public(url)));
    }
    let signed = archive.signed_url(version, key, request.is_head(), app.config.signed_time);
    Ok(signed.await.map_err(|e| Fault::behind(&e))?.map(Away::Signed))
}

/// The path of a version's folder on this server.
pub(crate) fn path_of(id: &str, checksum: &Digest) -> Option<String> {
    Some(format!("/zarrs/{}/{checksum}.zarr/", folder_of(id)?))
}

/// A redirect that nobody keeps without asking again: what is public today may not be tomorrow.
pub(crate) fn redirect_to(status: StatusCode, location: &str, private: bool) -> Result<Response, Fault> {
    let mut response = empty(status);
    let location = HeaderValue::from_str(location);
    let location = location
        .map_err(|_| Fault::new(StatusCode::BAD_GATEWAY, "the object has no address that can be sent"))?;
    response.headers_mut().insert(LOCATION, location);
    response.headers_mut().insert(CACHE_CONTROL, Caching::Live.value(private));
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
        let private = self.sees(request, &archive.name).await?.ok_or_else(Fault::not_found)?;
        Ok((archive, private))
    }
}
