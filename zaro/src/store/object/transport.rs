//! The HTTP under `object_store`'s clients: keeps what a server said about a failure that their errors leave out.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::pages;
use crate::error::{Error, Result};
use crate::store::fault::{as_transient, transient};
use crate::store::http::{self, is_transient, retry_after};
use crate::store::options::StoreOptions;

/// The longest page of a listing: 64 MiB. One has at most 5000 names of at most some thousand bytes.
const MAX_PAGE: usize = 64 << 20;

/// What asks S3 and GCS for a copy.
const COPY_SOURCE: [&str; 2] = ["x-amz-copy-source", "x-goog-copy-source"];

/// What is read of the text of a failure.
const MAX_TEXT: usize = 4 << 10;

/// A failure as the server put it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// The `<Code>` of the error document.
    pub(super) code: Option<String>,
    /// Where the bucket is, when the server says that it is not where it was asked for.
    pub(super) region: Option<String>,
    pub(super) after: Option<Duration>,
    pub(super) transient: bool,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)
    }
}

impl StdError for Reply {}

/// The server's reply behind an error.
pub(super) fn reply_of<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Reply> {
    causes(error).find_map(|c| c.downcast_ref::<Reply>())
}

/// What the network did, if it was the network.
pub(super) fn network_fault(error: &object_store::Error) -> Option<&'static str> {
    causes(error).find_map(|c| c.downcast_ref::<HttpError>()).map(fault_of)
}

/// What the network did.
pub(super) fn fault_of(fault: &HttpError) -> &'static str {
    match fault.kind() {
        HttpErrorKind::Timeout => "the server took too long to answer",
        HttpErrorKind::Connect => "no connection to the server",
        _ => "the connection broke",
    }
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

/// Gives every client the same connections.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    client: reqwest::Client,
}

impl Connector {
    pub(super) fn new(options: &StoreOptions) -> Result<Self> {
        Ok(Self { client: http::client(options, http::headers(options)?)? })
    }

    /// Sends a request whose body comes piece by piece; a failure is told as [`Transport`] tells it.
    pub(super) async fn send(
        &self,
        request: reqwest::Request,
    ) -> std::result::Result<(u16, HeaderMap, Bytes), HttpError> {
        let kind = |e: &reqwest::Error| match (e.is_timeout(), e.is_connect()) {
            (true, _) => HttpErrorKind::Timeout,
            (_, true) => HttpErrorKind::Connect,
            _ => HttpErrorKind::Request,
        };
        let response =
            self.client.execute(request).await.map_err(|e| HttpError::new(kind(&e), e.without_url()))?;
        let status = response.status();
        let headers = response.headers().clone();
        let mut text = BytesMut::new();
        let mut body = response.bytes_stream();
        while let Ok(Some(chunk)) = futures::TryStreamExt::try_next(&mut body).await {
            text.extend_from_slice(&chunk);
            if text.len() > MAX_TEXT {
                break;
            }
        }
        if status.is_success() || known(status) {
            return Ok((status.as_u16(), headers, text.freeze()));
        }
        Err(failure(status, &headers, &String::from_utf8_lossy(&text)))
    }

    /// The connections themselves, for requests that `object_store` does not make.
    pub(super) fn client(&self) -> HttpClient {
        HttpClient::new(Transport { client: self.client.clone() })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.client())
    }
}

#[derive(Debug)]
struct Transport {
    client: reqwest::Client,
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let listing = pages::is_listing(&query);
        if listing && pages::comes_round(&query) {
            return Err(no_listing("the server lists the same page again and again"));
        }
        let copies = COPY_SOURCE.iter().any(|name| request.headers().contains_key(*name));
        let response = HttpService::call(&self.client, request).await?;
        let status = response.status();
        if status.is_success() && copies {
            return copied(response).await;
        }
        if status.is_success() && listing {
            return bounded(response, &query).await;
        }
        if status.is_success() || known(status) {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let mut text = Vec::new();
        let mut stream = body.bytes_stream();
        while let Ok(Some(chunk)) = futures::TryStreamExt::try_next(&mut stream).await {
            text.extend_from_slice(&chunk);
            if text.len() > MAX_TEXT {
                break;
            }
        }
        Err(failure(status, &parts.headers, &String::from_utf8_lossy(&text)))
    }
}

/// A page of a listing, read here: `object_store` would read one without end, and takes anything else for an empty one.
async fn bounded(response: HttpResponse, query: &str) -> std::result::Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let mut page = BytesMut::new();
    let mut stream = body.bytes_stream();
    while let Some(chunk) = futures::TryStreamExt::try_next(&mut stream).await? {
        page.extend_from_slice(&chunk);
        if page.len() > MAX_PAGE {
            return Err(no_listing("a page of the server's listing does not end"));
        }
    }
    if let Err(e) = pages::check(query, &page) {
        return Err(HttpError::new(HttpErrorKind::Decode, NoListing(e)));
    }
    Ok(HttpResponse::from_parts(parts, page.freeze().into()))
}

/// The answer to a request for a copy. A server that knows none takes it for a put of nothing, and says that all is well.
async fn copied(response: HttpResponse) -> std::result::Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let mut text = BytesMut::new();
    let mut stream = body.bytes_stream();
    while let Some(chunk) = futures::TryStreamExt::try_next(&mut stream).await? {
        text.extend_from_slice(&chunk);
        if text.len() > MAX_TEXT {
            break;
        }
    }
    let said = String::from_utf8_lossy(&text);
    if ["CopyObjectResult", "CopyPartResult", "<Error"].iter().any(|word| said.contains(word)) {
        return Ok(HttpResponse::from_parts(parts, text.freeze().into()));
    }
    Err(HttpError::new(HttpErrorKind::Decode, NoCopy))
}

/// A server that does not know how to copy.
#[derive(Debug)]
struct NoCopy;

impl fmt::Display for NoCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server does not say that it copied the object")
    }
}

impl StdError for NoCopy {}

/// Whether an error says that the server does not know how to copy.
pub(super) fn cannot_copy(error: &object_store::Error) -> bool {
    causes(error).any(|c| c.is::<NoCopy>()) || reply_of(error).is_some_and(|r| matches!(r.status, 405 | 501))
}

/// What is wrong with a listing.
#[derive(Debug)]
struct NoListing(Error);

impl fmt::Display for NoListing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for NoListing {}

fn no_listing(what: &str) -> HttpError {
    HttpError::new(HttpErrorKind::Decode, NoListing(Error::io(what)))
}

/// What is wrong with a listing, if that is the error. It may be a fault that passes.
pub(super) fn listing_fault(error: &object_store::Error) -> Option<Error> {
    let found = causes(error).find_map(|c| c.downcast_ref::<NoListing>())?;
    let what = found.0.message();
    Some(if as_transient(&found.0).is_some() { transient(what) } else { Error::io(what) })
}

/// Answers to conditions, for which `object_store` has kinds of its own.
fn known(status: StatusCode) -> bool {
    [StatusCode::NOT_MODIFIED, StatusCode::CONFLICT, StatusCode::PRECONDITION_FAILED].contains(&status)
}

/// A failure as the server put it.
fn failure(status: StatusCode, headers: &HeaderMap, text: &str) -> HttpError {
    let region = headers.get("x-amz-bucket-region").and_then(|v| v.to_str().ok()).map(str::to_owned);
    let tag = |open, close| super::between(text, open, close).map(str::to_owned);
    let reply = Reply {
        status: status.as_u16(),
        code: tag("<Code>", "</Code>"),
        region: region.or_else(|| tag("<Region>", "</Region>")),
        after: retry_after(headers),
        transient: is_transient(status),
    };
    HttpError::new(HttpErrorKind::Unknown, reply)
}

/// The settings all three providers share: no repetition of their own.
pub(super) fn no_retry() -> object_store::RetryConfig {
    object_store::RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..Default::default() }
}

/// `host:port` of an address.
pub(super) fn host_of(address: &str) -> String {
    match url::Url::parse(address) {
        Ok(u) => format!("{}:{}", u.host_str().unwrap_or_default(), u.port_or_known_default().unwrap_or(0)),
        Err(_) => address.to_owned(),
    }
}

/// A client of any provider behind the same pointer.
pub(super) fn shared(client: impl object_store::ObjectStore) -> Arc<dyn object_store::ObjectStore> {
    Arc::new(client)
}
