//! `/api/`: Zarrs, versions and files of an archive as JSON, read-only.
//!
//! The same words as the REST API of the DANDI archive: trailing slashes, two ways of paging, and bodies of errors.
//!
//! ```text
//!   zarrs    Zarrs and their versions        files    the entries of a version, and what changed between two
//!   paging   pages by number, parameters     openapi  what there is, for programs
//! ```

mod files;
mod openapi;
mod paging;
#[cfg(test)]
mod tests;
mod zarrs;

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{ALLOW, CACHE_CONTROL, ETAG, HeaderValue};
use zaro::manifest::{Digest, Time};
use zaro::meta::Json;

use super::{Archive, OpenVersion, time_of};
use crate::answer::{Caching, Fault, Response, Verdict, check, empty, full, hash_tag, lock_down};
use crate::app::{App, redirect};
use crate::path::{RequestPath, encode};
use crate::request::Request;

/// What a path of the API means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Route {
    /// The description of the API.
    OpenApi,
    /// All Zarrs.
    Zarrs,
    /// One Zarr: its newest version.
    Zarr(String),
    /// The files of its newest version.
    Files(String),
    /// Its versions.
    Versions(String),
    /// One of them.
    Version(String, String),
    /// The files of one.
    VersionFiles(String, String),
    /// What changed from one to another.
    Diff(String, String, String),
    /// The one in force at a time.
    At(String, String),
}

impl Route {
    /// Of the segments after `api`.
    fn of(segments: &[&str]) -> Option<Self> {
        let own = |text: &&str| (*text).to_owned();
        Some(match segments {
            ["openapi.json"] => Self::OpenApi,
            ["zarr"] => Self::Zarrs,
            ["zarr", id] => Self::Zarr(own(id)),
            ["zarr", id, "files"] => Self::Files(own(id)),
            ["zarr", id, "versions"] => Self::Versions(own(id)),
            ["zarr", id, "versions", version] => Self::Version(own(id), own(version)),
            ["zarr", id, "versions", version, "files"] => Self::VersionFiles(own(id), own(version)),
            ["zarr", id, "versions", a, "diff", b] => Self::Diff(own(id), own(a), own(b)),
            ["zarr", id, "at", time] => Self::At(own(id), own(time)),
            _ => return None,
        })
    }

    /// The Zarr it is about.
    fn id(&self) -> Option<&str> {
        match self {
            Self::OpenApi | Self::Zarrs => None,
            Self::Zarr(id) | Self::Files(id) | Self::Versions(id) | Self::Version(id, _) => Some(id),
            Self::VersionFiles(id, _) | Self::Diff(id, ..) | Self::At(id, _) => Some(id),
        }
    }
}

/// A request to the API of an archive.
struct Call<'a> {
    app: &'a App,
    request: &'a Request,
    archive: Arc<Archive>,
    /// Whether only some clients may see the archive.
    private: bool,
    /// The address of this server, as this client sees it: without a slash at the end.
    base: String,
}

/// Answers a request below `/api/`.
pub(crate) async fn answer(app: &App, request: &Request, path: &RequestPath) -> Result<Response, Fault> {
    match answered(app, request, path).await.map_err(in_json) {
        Err(fault) if fault.status == StatusCode::METHOD_NOT_ALLOWED => {
            let mut response = fault.response();
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            Ok(response)
        }
        other => other,
    }
}

/// A fault of a request to the API, as JSON.
pub(crate) fn in_json(fault: Fault) -> Fault {
    match fault {
        fault if fault.json.is_some() => fault,
        fault if fault.status == StatusCode::NOT_FOUND => detail(fault.status, "Not found."),
        fault => detail(fault.status, &fault.message),
    }
}

async fn answered(app: &App, request: &Request, path: &RequestPath) -> Result<Response, Fault> {
    let segments = path.segments();
    let route = Route::of(segments.get(1..).unwrap_or_default()).ok_or_else(Fault::not_found)?;
    if !request.is_get() {
        let message = format!("Method \"{}\" not allowed.", request.method);
        return Err(detail(StatusCode::METHOD_NOT_ALLOWED, &message));
    }
    if path.slash == (route == Route::OpenApi) {
        return match route {
            Route::OpenApi => Err(Fault::not_found()),
            _ => Ok(redirect(&format!("{}/{}", request.path, query_of(request)))),
        };
    }
    let (archive, mut private) = app.archive(request).await?;
    if let Some(id) = route.id() {
        let Some(own) = app.sees(request, id).await? else {
            let path = path.with(2, &app.sources.nobody(id));
            return Box::pin(answered(app, request, &path)).await;
        };
        private = private || own;
    }
    let call = Call { app, request, archive, private, base: base_of(app, request) };
    match route {
        Route::OpenApi => Ok(call.json(&openapi::document(), Caching::Live)),
        Route::Zarrs => zarrs::list(&call).await,
        Route::Zarr(id) => zarrs::one(&call, &id).await,
        Route::Files(id) => files::newest(&call, &id).await,
        Route::Versions(id) => zarrs::versions(&call, &id).await,
        Route::Version(id, version) => zarrs::version(&call, &id, &version).await,
        Route::VersionFiles(id, version) => files::of_version(&call, &id, &version).await,
        Route::Diff(id, from, to) => files::diff(&call, &id, &from, &to).await,
        Route::At(id, time) => zarrs::at(&call, &id, &time).await,
    }
}

impl Call<'_> {
    /// A JSON document with a tag.
    fn json(&self, value: &Json, caching: Caching) -> Response {
        let text = value.compact();
        let tag = hash_tag(&[&text]);
        let caching = caching.value(self.private);
        let headers = |mut response: Response| {
            let headers = response.headers_mut();
            lock_down(headers);
            if let Ok(tag) = HeaderValue::from_str(&tag) {
                headers.insert(ETAG, tag);
            }
            headers.insert(CACHE_CONTROL, caching.clone());
            response
        };
        match check(&self.request.headers, Some(&tag), None) {
            Verdict::Go { .. } => headers(full(StatusCode::OK, Some("application/json"), text)),
            Verdict::Failed => headers(empty(StatusCode::PRECONDITION_FAILED)),
            Verdict::NotModified => {
                let mut response = headers(empty(StatusCode::NOT_MODIFIED));
                response.headers_mut().remove("content-length");
                response
            }
        }
    }

    /// A version by the name in a path: 400 if it is no checksum, 404 if there is none.
    async fn open(&self, id: &str, version: &str) -> Result<OpenVersion, Fault> {
        let checksum = checksum_of(version)?;
        let open = self.archive.open(id, checksum).await.map_err(|e| Fault::behind(&e))?;
        open.ok_or_else(Fault::not_found)
    }

    /// The newest version of a Zarr: 404 if there is no such Zarr.
    async fn newest(&self, id: &str) -> Result<Digest, Fault> {
        let newest = self.archive.newest(id).await.map_err(|e| Fault::behind(&e))?;
        newest.ok_or_else(Fault::not_found)
    }
}

/// The checksum in a path: 400 if it is none.
fn checksum_of(version: &str) -> Result<Digest, Fault> {
    Digest::parse(version).ok_or_else(|| sentence("The version is not a Zarr checksum."))
}

/// The time in a path: 400 if it is none.
fn time_in(text: &str) -> Result<Time, Fault> {
    time_of(text).ok_or_else(|| sentence("The time is neither a date nor a date and a time."))
}

/// `{"detail": "…"}`: what is wrong with the request as a whole.
fn detail(status: StatusCode, message: &str) -> Fault {
    let json = Json::from([("detail", Json::from(message))]).compact();
    Fault { json: Some(json), ..Fault::new(status, message) }
}

/// `"…"`, with 400: what is wrong with a value that is no parameter.
fn sentence(message: &str) -> Fault {
    let json = Json::from(message).compact();
    Fault { json: Some(json), ..Fault::bad(message) }
}

/// `{"name": ["…"]}`, with 400: what is wrong with a parameter.
fn of_field(name: &str, message: &str) -> Fault {
    let json = Json::from([(name, Json::Array(vec![Json::from(message)]))]).compact();
    Fault { json: Some(json), ..Fault::bad(message) }
}

/// The address of this server for this client.
fn base_of(app: &App, request: &Request) -> String {
    app.config.base_for(request.header("host").unwrap_or(""))
}

/// The query of a request, with its question mark, encoded again.
fn query_of(request: &Request) -> String {
    with_query(request, &[])
}

/// The same, with some parameters set anew, or left out.
fn with_query(request: &Request, set: &[(&str, Option<&str>)]) -> String {
    let kept = request.query.pairs().iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let kept = kept.filter(|(name, _)| !set.iter().any(|(other, _)| other == name));
    let added = set.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let mut out = String::new();
    for (name, value) in kept.chain(added) {
        out.push(if out.is_empty() { '?' } else { '&' });
        out.push_str(&format!("{}={}", encode(name), encode(value)));
    }
    out
}
