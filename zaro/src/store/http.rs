//! Plain HTTP(S) servers as a store.
//!
//! Built on `reqwest` (which `object_store` uses as well) rather than on `object_store`'s HTTP store, because of what
//! plain servers do: some ignore `Range` and send everything, some answer a key that is a folder with a redirect to its
//! index page, some refuse `HEAD`; signed URLs carry a query that belongs to every key; and a listing is an index page,
//! if there is one, not WebDAV.

mod listing;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode};
use url::Url;

use super::fault::{as_transient, transient};
use super::list::{FolderNames, walk, with_facts};
use super::memory::slice;
use super::options::StoreOptions;
use super::pin::is_md5;
use super::reply::{Asked, Broken, IfMatch, Reply};
use super::stream::joined;
use super::{
    Body, ByteRange, Entry, GetOptions, ListOptions, Listing, Object, ObjectMeta, ObjectStream, Pin,
    RemoteMeta, Site, Store, StoreFacts, changed, check_key, check_prefix, percent_decode, stream,
};
use crate::context::{ClientKey, Context};
use crate::error::{Error, Result};
use crate::num::{u64_of, usize_of};
use crate::time::Time;

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 8;

/// The most bytes that are skipped where a server ignores `Range` and sends the whole object: 64 GiB.
const MAX_SKIPPED: u64 = 64 << 30;

/// A base URL as a store.
#[derive(Clone)]
pub struct HttpStore {
    base: Url,
    client: Client,
    context: Context,
    headers: HeaderMap,
    missing_403: bool,
    allow_http: bool,
    /// The only key, if `base` is the URL of a single object.
    only: Option<String>,
    /// Whether the root has an index page; set on first use.
    has_index: OnceLock<bool>,
    /// Whether the server is known to answer `HEAD`.
    heads: Arc<AtomicBool>,
    if_match: Arc<IfMatch>,
}

/// The HTTP client of all stores. It follows no redirects: the stores decide about those.
///
/// With the headers from the options, if `with_headers`.
pub(super) fn client(options: &StoreOptions, with_headers: bool) -> Result<Client> {
    let sent = if with_headers { options.headers.clone() } else { Vec::new() };
    let map = if with_headers { headers(options)? } else { HeaderMap::new() };
    let key = ClientKey {
        connect_timeout: options.connect_timeout,
        read_timeout: options.read_timeout,
        idle: options.concurrency,
        headers: sent,
    };
    options.context.client(key, |builder| {
        builder
            .user_agent(concat!("zaro/", env!("CARGO_PKG_VERSION")))
            .default_headers(map)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(options.connect_timeout)
            .read_timeout(options.read_timeout)
            .pool_max_idle_per_host(options.concurrency)
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .build()
            .map_err(|e| Error::io("the HTTP client could not be created").with_source(e))
    })
}

/// The headers set in the options.
pub(super) fn headers(options: &StoreOptions) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in &options.headers {
        let bad = || Error::usage(format!("{name:?} is not a valid HTTP header"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}

/// A network failure as an error.
fn network(e: reqwest::Error) -> Error {
    if e.is_builder() {
        return Error::io("the request could not be built").with_source(e.without_url());
    }
    let broken = match (e.is_timeout(), e.is_connect()) {
        (true, _) => Broken::Late,
        (_, true) => Broken::Unconnected,
        _ => Broken::Other,
    };
    let e = Arc::new(e.without_url());
    broken.error(&*e, e.clone())
}

/// The first byte and the one after the last.
type Span = (u64, u64);

/// The range and the object size in a `Content-Range`.
fn content_range(headers: &HeaderMap) -> Option<(Option<Span>, Option<u64>)> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, size) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let size = size.trim().parse().ok();
    let span = match range.trim() {
        "*" => None,
        range => {
            let (first, last) = range.split_once('-')?;
            let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            Some((first, last.checked_add(1).filter(|end| *end > first)?))
        }
    };
    Some((span, size))
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// Refuses a body with a `Content-Encoding`. None is requested, but a server may have a file only in that form, or an
/// uploader may have labelled an object so. A range of such a body is not a range of the object, so decoding would help
/// only with whole objects.
fn refuse_coded(headers: &HeaderMap) -> Result<()> {
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let text = String::from_utf8_lossy(value.as_bytes());
        // The last two do not encode anything: how an upload was chunked, and a charset by mistake; buckets keep both.
        let coded = text.split(',').map(str::trim).find(|coding| {
            !["", "identity", "aws-chunked", "utf-8"].iter().any(|plain| coding.eq_ignore_ascii_case(plain))
        });
        if let Some(coding) = coded {
            return Err(Error::io(format!(
                "the server sent the object with Content-Encoding: {coding}, which was not requested"
            )));
        }
    }
    Ok(())
}

/// The `Range` header for `range`, which is not empty.
fn range_header(range: ByteRange) -> Option<String> {
    match range {
        ByteRange::Span { offset, length } => {
            Some(format!("bytes={offset}-{}", offset.checked_add(length)?.checked_sub(1)?))
        }
        ByteRange::Suffix(n) => Some(format!("bytes=-{n}")),
        ByteRange::From(offset) => Some(format!("bytes={offset}-")),
    }
}

/// The pieces of a body.
fn pieces(response: Response) -> Body {
    response.bytes_stream().map_err(network).boxed()
}

/// The whole body, no longer than requested.
async fn all(response: Response, ask: GetOptions<'_>) -> Result<Bytes> {
    let announced = content_length(response.headers()).unwrap_or(0);
    joined(whole_body(response, ask.held())?, announced).await
}

/// The same as a stream.
fn whole_body(response: Response, ask: GetOptions<'_>) -> Result<Body> {
    let announced = content_length(response.headers());
    announced.map_or(Ok(()), |length| ask.check_announced(length))?;
    let too_long = ask.too_long();
    Ok(stream::at_most(pieces(response), ask.longest(announced), || too_long))
}

/// The last `n` bytes of a body of unknown length, which has at most `most`.
async fn tail(mut response: Response, n: u64, most: u64) -> Result<Bytes> {
    let (n, mut seen) = (usize_of(n)?, 0u64);
    let mut kept = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(network)? {
        seen = seen.saturating_add(u64_of(chunk.len()));
        GetOptions::at_most(most).check_length(seen)?;
        kept.extend_from_slice(&chunk);
        if kept.len() > n.saturating_mul(2).saturating_add(1 << 20) {
            let _ = kept.split_to(kept.len().saturating_sub(n));
            kept = BytesMut::from(kept.as_ref());
        }
    }
    Ok(kept.split_off(kept.len().saturating_sub(n)).freeze())
}

/// Whether this looks like a web page: some servers label everything without a suffix as HTML.
fn is_page(bytes: &[u8]) -> bool {
    let begin = bytes.trim_ascii_start();
    [&b"<!doctype"[..], b"<html", b"<head", b"<body", b"<?xml", b"<!--"]
        .iter()
        .any(|tag| begin.get(..tag.len()).is_some_and(|b| b.eq_ignore_ascii_case(tag)))
}

fn is_html(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

/// Object metadata from the response headers.
fn facts(response: &Response) -> RemoteMeta {
    let headers = response.headers();
    let text = |name: HeaderName| Some(headers.get(name)?.to_str().ok()?.trim().to_owned());
    let size = match response.status() {
        StatusCode::PARTIAL_CONTENT => content_range(headers).and_then(|(_, size)| size),
        _ => content_length(headers),
    };
    let modified = text(header::LAST_MODIFIED).as_deref().and_then(http_date);
    let version = text(HeaderName::from_static("x-amz-version-id"));
    RemoteMeta { etag: text(header::ETAG), modified, size, version }
}

/// The server's response to a request for a key.
enum HttpAnswer {
    Here(Response),
    Missing,
    Unsatisfiable(Option<u64>),
}

impl HttpStore {
    /// A store at `base`, whose query, if any, is sent with every key.
    pub fn new(base: &str, options: &StoreOptions) -> Result<Self> {
        let url = Url::parse(base).map_err(|e| Error::usage(format!("{base:?} is not a valid URL: {e}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(Error::usage(format!("{base:?} is not an http(s) URL")));
        }
        Ok(Self {
            base: url,
            client: client(options, false)?,
            context: options.context.clone(),
            headers: headers(options)?,
            missing_403: options.missing_403,
            allow_http: options.allow_http,
            only: None,
            has_index: OnceLock::new(),
            heads: Arc::default(),
            if_match: Arc::default(),
        })
    }

    /// A single object under the key `name`; its URL is sent unchanged.
    pub fn object(url: &str, name: &str, options: &StoreOptions) -> Result<Self> {
        Ok(Self { only: Some(name.to_owned()), ..Self::new(url, options)? })
    }

    /// Host and port, as used by the per-host request limit.
    #[must_use]
    pub fn host(&self) -> String {
        let port = self.base.port_or_known_default().unwrap_or(0);
        format!("{}:{port}", self.base.host_str().unwrap_or_default())
    }

    /// The URL of a key or prefix; that of a folder ends with a slash.
    fn url(&self, key: &str, folder: bool) -> Result<Url> {
        let mut url = self.base.clone();
        if self.only.as_deref() == Some(key) {
            return Ok(url);
        }
        {
            let mut path =
                url.path_segments_mut().map_err(|()| Error::usage("the URL cannot have a path"))?;
            path.pop_if_empty();
            if !key.is_empty() {
                path.extend(key.split('/'));
            }
            if folder {
                path.push("");
            }
        }
        url.set_fragment(None);
        Ok(url)
    }

    /// Sends a request and follows redirects; `None` if a folder's URL lacks its slash.
    async fn send(
        &self,
        method: &Method,
        url: Url,
        extra: &[(HeaderName, &str)],
    ) -> Result<Option<Response>> {
        let origin = url.origin();
        let mut at = url;
        for _ in 0..=MAX_REDIRECTS {
            self.context.check_address(&at)?;
            let mut request = self.client.request(method.clone(), at.clone());
            let mut headers = if at.origin() == origin { self.headers.clone() } else { HeaderMap::new() };
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            request = request.headers(headers);
            for (name, value) in extra {
                request = request.header(name, *value);
            }
            let response = request.send().await.map_err(network)?;
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
                if response.status().is_success() {
                    refuse_coded(response.headers())?;
                }
                return Ok(Some(response));
            }
            let target = response.headers().get(header::LOCATION).and_then(|l| l.to_str().ok());
            let Some(next) = target.and_then(|l| at.join(l).ok()) else {
                return Err(Error::io(format!(
                    "redirect (status {}) without a valid Location header",
                    response.status().as_u16()
                )));
            };
            if !at.path().ends_with('/') && next.path().strip_suffix('/') == Some(at.path()) {
                return Ok(None);
            }
            if at.scheme() == "https" && next.scheme() != "https" && !self.allow_http {
                return Err(Error::not_permitted(
                    "the server redirects from https to http; set the option allow_http to follow it",
                ));
            }
            at = next;
        }
        Err(Error::io(format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// Requests a key, in the expected state, and classifies the status.
    async fn ask(
        &self,
        method: &Method,
        key: &str,
        range: Option<&str>,
        ask: &GetOptions<'_>,
    ) -> Result<HttpAnswer> {
        check_key(key)?;
        let pin = ask.pinned();
        let mut url = self.url(key, false)?;
        if let Some(version) = pin.and_then(|p| p.version.as_deref()) {
            url.query_pairs_mut().append_pair("versionId", version);
        }
        let tag = self.if_match.tag(ask);
        let conditions = tag.map(|t| (header::IF_MATCH, t));
        let extra: Vec<_> = conditions.into_iter().chain(range.map(|r| (header::RANGE, r))).collect();
        let mut sent = self.send(method, url.clone(), &extra).await?;
        if let (Some(tag), Some(refusal)) = (tag, &sent)
            && IfMatch::refuses(refusal.status())
        {
            sent = self.send(method, url, extra.get(1..).unwrap_or_default()).await?;
            match &sent {
                Some(now) if now.status().is_success() => self.if_match.judge(tag, &facts(now))?,
                // Too short for the range.
                Some(now) if now.status() == StatusCode::RANGE_NOT_SATISFIABLE => return Err(changed()),
                _ => {}
            }
        }
        let Some(response) = sent else { return Ok(HttpAnswer::Missing) };
        match response.status() {
            // Neither an object nor proof that it is missing.
            StatusCode::NO_CONTENT if method == Method::GET => Err(self.failure(&response)),
            s if s.is_success() => {
                if let Some(pin) = pin {
                    check_pin(pin, &response)?;
                }
                Ok(HttpAnswer::Here(response))
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                Ok(HttpAnswer::Unsatisfiable(content_range(response.headers()).and_then(|(_, size)| size)))
            }
            status => {
                let asked = Asked { signed: true, missing_403: self.missing_403, read: true };
                Reply::new(status, response.headers(), "").sort(asked).map(|()| HttpAnswer::Missing)
            }
        }
    }

    fn failure(&self, response: &Response) -> Error {
        let asked = Asked { signed: true, missing_403: false, read: false };
        Reply::new(response.status(), response.headers(), "").failure(asked)
    }

    /// The requested bytes, and their state.
    async fn open(&self, key: &str, ask: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let pin = ask.pinned();
        let Some(range) = ask.range else {
            return match self.ask(&Method::GET, key, None, &ask).await? {
                HttpAnswer::Here(response) => open_whole(response, ask).await.map(Some),
                HttpAnswer::Missing => Ok(None),
                HttpAnswer::Unsatisfiable(_) => {
                    Err(Error::io("the server refused a range, but none was requested"))
                }
            };
        };
        let nothing = || Some(ObjectStream::of(Object::default(), ask.range));
        let empty = matches!(range, ByteRange::Span { length: 0, .. } | ByteRange::Suffix(0));
        let Some(asked) = range_header(range).filter(|_| !empty) else {
            // HTTP has no empty ranges, so only the bounds are checked. A span past 2^64 never fits.
            let size = match pin.and_then(|p| p.size) {
                Some(size) => Some(size),
                None => self.measured(key).await?,
            };
            let Some(size) = size else { return Ok(None) };
            return range.resolve(size).map(|_| nothing());
        };
        match self.ask(&Method::GET, key, Some(&asked), &ask).await? {
            HttpAnswer::Missing => Ok(None),
            HttpAnswer::Here(response) if !pin.is_none_or(|p| is_proven(p, response.headers())) => {
                Err(Error::unsupported(
                    "the server sends no matching ETag or version, and a part of the object cannot be verified without",
                ))
            }
            HttpAnswer::Here(response) => {
                let meta = ObjectMeta::from(facts(&response));
                meta.check(ask.state)?;
                let (span, body) = match response.status() {
                    StatusCode::PARTIAL_CONTENT => partial(response, range, ask)?,
                    _ => whole(response, range, ask).await?,
                };
                Ok(Some(ObjectStream { meta, range: span.map(|(start, end)| start..end), body }))
            }
            HttpAnswer::Unsatisfiable(size) => {
                let size = match size {
                    Some(size) => Some(size),
                    None => self.measured(key).await?,
                };
                let Some(size) = size else { return Ok(None) };
                match range.resolve(size)? {
                    (_, 0) => Ok(nothing()),
                    _ => Err(transient("the server refused a range that lies within the object")),
                }
            }
        }
    }

    /// Object metadata, including its size, without reading the object.
    async fn look(&self, key: &str) -> Result<Option<RemoteMeta>> {
        let any = GetOptions::default();
        match self.ask(&Method::HEAD, key, None, &any).await {
            Ok(HttpAnswer::Here(response)) => {
                self.heads.store(true, Ordering::Relaxed);
                let meta = facts(&response);
                if meta.size.is_some() {
                    return Ok(Some(meta));
                }
            }
            Err(e) if as_transient(&e).is_some() => return Err(e),
            Ok(HttpAnswer::Missing) if self.heads.load(Ordering::Relaxed) => return Ok(None),
            // A refusal or a 404 may concern only the method: a URL may be signed for GET alone, and some servers
            // answer 404 to every HEAD.
            Ok(HttpAnswer::Missing | HttpAnswer::Unsatisfiable(_)) | Err(_) => {}
        }
        // A request for the first byte returns more.
        match self.ask(&Method::GET, key, Some("bytes=0-0"), &any).await? {
            HttpAnswer::Missing => Ok(None),
            HttpAnswer::Unsatisfiable(size) => {
                Ok(Some(RemoteMeta { size: Some(size.unwrap_or(0)), ..RemoteMeta::default() }))
            }
            HttpAnswer::Here(response) => {
                let mut meta = facts(&response);
                if meta.size.is_none() {
                    // Reading the whole object is the only way left.
                    let whole = self.ask(&Method::GET, key, None, &any).await?;
                    let HttpAnswer::Here(whole) = whole else { return Ok(None) };
                    meta.size = Some(u64_of(all(whole, GetOptions::default()).await?.len()));
                }
                Ok(Some(meta))
            }
        }
    }

    async fn measured(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.look(key).await?.and_then(|meta| meta.size))
    }
}

/// Refuses a response that is certainly not of the expected state.
fn check_pin(pin: &Pin, response: &Response) -> Result<()> {
    let headers = response.headers();
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    if let (Some(wanted), Some(sent)) = (&pin.version, text("x-amz-version-id"))
        && wanted != sent
    {
        return Err(Error::io(format!("the server sent version {sent} instead of {wanted}")));
    }
    if let (Some(wanted), Some(sent)) = (&pin.etag, text("etag"))
        && same_kind(wanted, sent)
    {
        pin.check_etag(sent)?;
    }
    let size = match response.status() {
        StatusCode::PARTIAL_CONTENT => content_range(headers).and_then(|(_, size)| size),
        _ => content_length(headers),
    };
    if let Some(size) = size {
        pin.check_size(size)?;
    }
    if pin.unmodified_since.is_some() {
        let modified = text("last-modified").and_then(http_date);
        pin.check_time(
            modified
                .ok_or_else(|| Error::unsupported("the server sends no Last-Modified time for the object"))?,
        )?;
    }
    Ok(())
}

/// Whether the response headers prove the expected state.
fn is_proven(pin: &Pin, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    let version = pin.version.as_deref().is_some_and(|wanted| text("x-amz-version-id") == Some(wanted));
    let etag = pin.etag.as_deref().is_some_and(|wanted| {
        text("etag").is_some_and(|sent| sent.trim_matches('"') == wanted.trim_matches('"'))
    });
    (pin.version.is_none() && pin.etag.is_none()) || version || etag
}

/// Whether two `ETag`s are comparable: a file server's own cannot be compared with a bucket's, and a weak one with
/// none.
fn same_kind(wanted: &str, sent: &str) -> bool {
    let s3 = |etag: &str| {
        let (digest, parts) = etag.split_once('-').unwrap_or((etag, "1"));
        is_md5(digest) && parts.len() <= 5 && parts.bytes().all(|b| b.is_ascii_digit())
    };
    let (wanted, sent) = (wanted.trim_matches('"'), sent.trim_matches('"'));
    !sent.starts_with("W/") && s3(wanted) == s3(sent)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` in seconds since 1970.
fn http_date(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words.as_slice() else { return None };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|m| m == month)?.checked_add(1)?;
    Some(Time::parse(&format!("{year}-{month:02}-{day:0>2}T{time}Z")).ok()?.seconds)
}

/// All of an object.
async fn open_whole(response: Response, ask: GetOptions<'_>) -> Result<ObjectStream> {
    let pin = ask.pinned();
    let proven = pin.is_none_or(|p| is_proven(p, response.headers()));
    let meta = ObjectMeta::from(facts(&response));
    meta.check(ask.state)?;
    let range = content_length(response.headers()).map(|length| 0..length);
    let is_html = is_html(response.headers());
    let mut body = whole_body(response, ask)?;
    if let Some(range) = &range {
        body = stream::cut(body, 0, range.end, ended_after(range.end));
    }
    if is_html {
        body = refuse_page(body).await?;
    }
    if let Some(pin) = pin.filter(|_| !proven) {
        if !pin.etag.as_deref().is_some_and(is_md5) {
            return Err(Error::unsupported(
                "the server sends no matching ETag or version, so the object cannot be verified",
            ));
        }
        body = pin.check_stream(body);
    }
    Ok(ObjectStream { meta, range, body })
}

/// Refuses a login page, or a page that some servers send for missing objects.
async fn refuse_page(mut body: Body) -> Result<Body> {
    /// Only this much of the body is checked.
    const BEGINNING: usize = 4 << 10;
    let mut begin = BytesMut::new();
    while begin.len() < BEGINNING
        && let Some(piece) = body.try_next().await?
    {
        begin.extend_from_slice(&piece);
    }
    match is_page(&begin) {
        true => Err(Error::io(
            "the server sent a web page instead of the object; whether the object exists is unknown",
        )),
        false => Ok(stream::one(begin.freeze()).chain(body).boxed()),
    }
}

fn ended_after(length: u64) -> impl FnOnce(u64) -> Error + Send + 'static {
    move |came| transient(format!("the response ended after {came} of {length} bytes"))
}

/// The body of a 206, checked against the request, and its range.
fn partial(response: Response, range: ByteRange, ask: GetOptions<'_>) -> Result<(Option<Span>, Body)> {
    let (span, size) = content_range(response.headers()).unwrap_or((None, None));
    let wanted = match (range, size) {
        (range, Some(size)) => {
            let (offset, length) = range.resolve(size)?;
            Some((offset, offset.saturating_add(length)))
        }
        (ByteRange::Span { offset, length }, None) => Some((offset, offset.saturating_add(length))),
        (_, None) => None,
    };
    if let (Some(wanted), Some(span)) = (wanted, span)
        && wanted != span
    {
        return Err(transient(format!(
            "the server sent bytes {}..{} where {}..{} were requested",
            span.0, span.1, wanted.0, wanted.1
        )));
    }
    let Some((start, end)) = span.or(wanted) else {
        return Err(Error::io("the server sent a partial response without Content-Range"));
    };
    let length = end.saturating_sub(start);
    ask.check_announced(length)?;
    Ok((Some((start, end)), stream::cut(pieces(response), 0, length, ended_after(length))))
}

/// The range cut out of a 200 with the whole object, from a server without range support, and which bytes it is.
async fn whole(response: Response, range: ByteRange, ask: GetOptions<'_>) -> Result<(Option<Span>, Body)> {
    match (range, content_length(response.headers())) {
        (range, Some(size)) => {
            let (offset, length) = range.resolve(size)?;
            ask.check_announced(length)?;
            if offset > MAX_SKIPPED {
                return Err(Error::unsupported(format!(
                    "the server does not support range requests, and {offset} bytes would have to be skipped first"
                )));
            }
            let short = |_| transient("the response ended too early");
            let body = stream::cut(pieces(response), offset, length, short);
            Ok((Some((offset, offset.saturating_add(length))), body))
        }
        (ByteRange::Suffix(n), None) => Ok((None, stream::one(tail(response, n, ask.largest()).await?))),
        (ByteRange::Span { offset, length }, None) => {
            let end = offset.saturating_add(length);
            GetOptions { range: None, ..ask }.check_length(end)?;
            let outside = move |_| Error::invalid(format!("bytes {offset}+{length} lie outside the object"));
            Ok((Some((offset, end)), stream::cut(pieces(response), offset, length, outside)))
        }
        (range @ ByteRange::From(_), None) => {
            let part = slice(&all(response, GetOptions::default()).await?, Some(range))?;
            Ok((None, stream::one(part)))
        }
    }
}

impl fmt::Display for HttpStore {
    /// The URL without user, password and query, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.base.port().map(|p| format!(":{p}")).unwrap_or_default();
        let host = self.base.host_str().unwrap_or_default();
        write!(f, "{}://{host}{port}{}", self.base.scheme(), self.base.path().trim_end_matches('/'))
    }
}

impl fmt::Debug for HttpStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpStore({self})")
    }
}

#[async_trait]
impl Store for HttpStore {
    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        let site = self.url(prefix, false).map(|url| {
            Site::host(&self.host(), &percent_decode(url.path()).unwrap_or_else(|| url.path().to_owned()))
        });
        futures::stream::iter([site]).boxed()
    }

    /// The pinned version is sent as the query `versionId`, as for S3. A server that returns neither the version nor a
    /// comparable `ETag` is trusted with whole objects only, which are verified by MD5.
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let get = async {
            match self.open(key, options.held()).await? {
                Some(opened) => opened.collect().await.map(Some),
                None => Ok(None),
            }
        };
        get.await.map_err(|e: Error| e.with_key(key).with_store(self))
    }

    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let opened = self.open(key, options).await.map_err(|e| e.with_key(key).with_store(self))?;
        Ok(opened.map(|opened| opened.at(key, self)))
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        let found = self.look(key).await.map_err(|e| e.with_key(key).with_store(self))?;
        Ok(found.map(ObjectMeta::from))
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let entries = walk(prefix, options, move |folder, _| async move {
            let found = self.listed(&folder).await;
            found.map(FolderNames::from).map_err(|e| e.with_key(folder).with_store(self))
        });
        with_facts(self, options, entries)
    }

    /// Index pages are made for people: they may be truncated, omit hidden names, or be custom pages.
    fn facts(&self) -> StoreFacts {
        StoreFacts { lists_all: false, is_writable: false, is_remote: true }
    }
}

#[cfg(test)]
mod tests;
