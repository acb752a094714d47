//! `/zarrs/{p1}/{p2}/{id}/{checksum}.zarr/{key}`: the versions of an archive as folders.
//!
//! The same addresses as those of the WebDAV server of the DANDI archive. An entry is its bytes in that version, here or
//! by a redirect to the bucket; `{checksum}.json` is the manifest itself.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt as _;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LOCATION, VARY};
use tokio::sync::mpsc;
use zaro::manifest::{Digest, checksum_in};
use zaro::meta::Json;
use zaro::store::{Entry, ListOptions};

use super::{Archive, OpenVersion, folder_of, is_folder};
use crate::answer::{Caching, Fault, Response, empty, lock_down, stream};
use crate::app::{App, Target};
use crate::path::{RequestPath, encode};
use crate::raw;
use crate::request::Request;

/// Bytes of a listing that are sent at once.
const PIECE: usize = 16 << 10;

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
            if let Some(checksum) = name.strip_suffix(".zarr").and_then(Digest::parse) {
                let version = archive.open(id, checksum).await.map_err(|e| Fault::behind(&e))?;
                let version = version.ok_or_else(Fault::not_found)?;
                let key = path.key(5).ok_or_else(Fault::not_found)?;
                return inside(app, request, &archive, &version, key, path.slash, private).await;
            }
            if segments.len() == 5 && checksum_in(name).is_some() {
                let source = archive.tree(Caching::Immutable, private);
                if !request.is_get() {
                    return folder(request, Target { source, key, slash: false });
                }
                let found = raw::get(&source, &key, request).await?;
                let mut response = found.ok_or_else(Fault::not_found)?;
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
            let source = archive.tree(Caching::Live, private);
            let there = plausible
                && (key.is_empty()
                    || is_folder(source.store(), &key).await.map_err(|e| Fault::behind(&e))?);
            if !there {
                return Err(Fault::not_found());
            }
            if request.is_get() && !path.slash {
                return Ok(crate::app::redirect(&format!("{}/", request.path)));
            }
            folder(request, Target { source, key, slash: path.slash })
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
        return folder(request, Target { source, key, slash });
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
    let mut response = found.ok_or_else(Fault::not_found)?;
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

/// Lists a folder that exists: JSON for who asks for it, else a page with links. Rows are sent as they are found.
fn folder(request: &Request, target: Target) -> Result<Response, Fault> {
    if !request.is_get() {
        return Err(Fault::method());
    }
    let json = request.wants_json();
    let caching = target.source.caching.value(target.source.private);
    let title = escaped(&request.path);
    let (sender, receiver) = mpsc::channel::<zaro::Result<Bytes>>(4);
    if !request.is_head() {
        tokio::spawn(async move {
            let done = rows(&target, json, &title, &sender).await;
            if let Err(e) = done {
                // The client sees that the listing is not whole.
                let _ = sender.send(Err(e)).await;
            }
        });
    }
    let pieces = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    let kind = if json { "application/json" } else { "text/html; charset=utf-8" };
    let mut response = stream(StatusCode::OK, kind, None, pieces);
    lock_down(response.headers_mut());
    response.headers_mut().insert(CACHE_CONTROL, caching);
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// Sends the rows of a folder, until the client leaves.
async fn rows(
    target: &Target,
    json: bool,
    title: &str,
    sender: &mpsc::Sender<zaro::Result<Bytes>>,
) -> zaro::Result<()> {
    let mut text = match json {
        true => "[".to_owned(),
        false => {
            format!("<!DOCTYPE html>\n<html><head>\n<title>Index of {title}</title>\n</head><body>\n<pre>\n")
        }
    };
    let mut first = true;
    let options = ListOptions::default().with_facts(json);
    let mut entries = target.source.store().list_opts(&target.key, &options);
    while let Some(entry) = entries.try_next().await? {
        let name = entry.path().rsplit('/').next().unwrap_or_default();
        if json {
            let mut row = Json::object();
            row.set("name", name);
            row.set("type", if matches!(entry, Entry::Object(_)) { "file" } else { "directory" });
            if let Entry::Object(object) = &entry {
                row.set("size", object.size);
            }
            text.push_str(if first { "\n" } else { ",\n" });
            text.push_str(&row.compact());
        } else {
            let slash = if matches!(entry, Entry::Object(_)) { "" } else { "/" };
            text.push_str(&format!("<a href=\"{}{slash}\">{}{slash}</a>\n", encode(name), escaped(name)));
        }
        first = false;
        if text.len() >= PIECE {
            let piece = Bytes::from(std::mem::take(&mut text));
            if sender.send(Ok(piece)).await.is_err() {
                return Ok(());
            }
        }
    }
    text.push_str(if json { "\n]\n" } else { "</pre>\n</body></html>\n" });
    // Nobody may be there to take it.
    let _ = sender.send(Ok(Bytes::from(text))).await;
    Ok(())
}

/// Text as HTML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl App {
    /// The archive of this server, if it has one and the client may see it; and whether others may not.
    pub(crate) async fn archive(&self, _request: &Request) -> Result<(Arc<Archive>, bool), Fault> {
        let archive = self.sources.archive().await.map_err(|e| Fault::behind(&e))?;
        let archive = archive.ok_or_else(Fault::not_found)?;
        let private = self.config.hidden.contains(&archive.name);
        Ok((archive, private))
    }
}
