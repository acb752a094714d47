//! HTTP transport for `object_store`'s clients; keeps details of failed responses that their errors leave out.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::{Stream, StreamExt, TryStreamExt};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::pages;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::store::fault::{as_transient, transient};
use crate::store::http;
use crate::store::options::StoreOptions;
use crate::store::reply::{Broken, Reply};

/// The largest page of a listing: 64 MiB. A page has at most 5000 names of a few thousand bytes each.
const MAX_PAGE: usize = 64 << 20;

/// Headers that request a copy from S3 and GCS.
const COPY_SOURCE: [&str; 2] = ["x-amz-copy-source", "x-goog-copy-source"];

/// How much of an error body is read.
const MAX_TEXT: usize = 4 << 10;

/// The server's reply behind an error.
pub(super) fn reply_of<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Reply> {
    causes(error).find_map(|c| c.downcast_ref::<Reply>())
}

/// The network failure behind an error, if any.
pub(super) fn network_fault(error: &object_store::Error) -> Option<Broken> {
    causes(error).find_map(|c| c.downcast_ref::<HttpError>()).map(fault_of)
}

/// The network failure.
pub(super) fn fault_of(fault: &HttpError) -> Broken {
    match fault.kind() {
        HttpErrorKind::Timeout => Broken::Late,
        HttpErrorKind::Connect => Broken::Unconnected,
        _ => Broken::Other,
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

/// Gives all clients the same connections.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    client: reqwest::Client,
    context: Context,
}

impl Connector {
    pub(super) fn new(options: &StoreOptions) -> Result<Self> {
        Ok(Self { client: http::client(options, true)?, context: options.context.clone() })
    }

    /// Sends a request with a streamed body; failures are reported as by [`Transport`].
    pub(super) async fn send(
        &self,
        request: reqwest::Request,
    ) -> std::result::Result<(StatusCode, HeaderMap, Bytes), HttpError> {
        let kind = |e: &reqwest::Error| match (e.is_timeout(), e.is_connect()) {
            (true, _) => HttpErrorKind::Timeout,
            (_, true) => HttpErrorKind::Connect,
            _ => HttpErrorKind::Request,
        };
        let response =
            self.client.execute(request).await.map_err(|e| HttpError::new(kind(&e), e.without_url()))?;
        let status = response.status();
        let headers = response.headers().clone();
        let text = beginning(response.bytes_stream()).await.0;
        if status.is_success() || known(status) {
            return Ok((status, headers, text));
        }
        Err(failure(status, &headers, &text))
    }

    /// The client itself, for requests that `object_store` does not make.
    pub(super) fn client(&self) -> HttpClient {
        HttpClient::new(Transport { connector: self.clone(), checks: false })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Transport { connector: self.clone(), checks: true }))
    }
}

#[derive(Debug)]
struct Transport {
    connector: Connector,
    /// Whether listing pages are checked here first: `object_store` accepts anything as one.
    checks: bool,
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let forbidden = url::Url::parse(&request.uri().to_string())
            .ok()
            .and_then(|url| self.connector.context.check_address(&url).err());
        if let Some(e) = forbidden {
            return Err(HttpError::new(HttpErrorKind::Request, e));
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let listing = self.checks && pages::is_listing(&query);
        let copies = COPY_SOURCE.iter().any(|name| request.headers().contains_key(*name));
        let response = HttpService::call(&self.connector.client, request).await?;
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
        Err(failure(status, &parts.headers, &beginning(body.bytes_stream()).await.0))
    }
}

/// Reads a listing page: `object_store` has no size limit, and takes any other document for an empty listing.
async fn bounded(response: HttpResponse, query: &str) -> std::result::Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let mut page = BytesMut::new();
    let mut stream = body.bytes_stream();
    while let Some(chunk) = stream.try_next().await? {
        page.extend_from_slice(&chunk);
        if page.len() > MAX_PAGE {
            let endless = Error::io("a page of the server's listing is too long");
            return Err(HttpError::new(HttpErrorKind::Decode, NoListing(endless)));
        }
    }
    if let Err(e) = pages::check(query, &page) {
        return Err(HttpError::new(HttpErrorKind::Decode, NoListing(e)));
    }
    Ok(HttpResponse::from_parts(parts, page.freeze().into()))
}

/// Checks the response to a copy. A server that does not support copying takes it for an empty put, and reports
/// success.
async fn copied(response: HttpResponse) -> std::result::Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let (text, fault) = beginning(body.bytes_stream()).await;
    fault.map_or(Ok(()), Err)?;
    let said = String::from_utf8_lossy(&text);
    if ["CopyObjectResult", "CopyPartResult", "<Error"].iter().any(|word| said.contains(word)) {
        return Ok(HttpResponse::from_parts(parts, text.into()));
    }
    Err(HttpError::new(HttpErrorKind::Decode, NoCopy))
}

/// The server does not support copying.
#[derive(Debug)]
struct NoCopy;

impl fmt::Display for NoCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server did not confirm the copy of the object")
    }
}

impl StdError for NoCopy {}

/// Whether an error says that the server does not support copying.
pub(super) fn cannot_copy(error: &object_store::Error) -> bool {
    causes(error).any(|c| c.is::<NoCopy>())
        || reply_of(error).is_some_and(|r| matches!(r.status.as_u16(), 405 | 501))
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

/// The listing error, if this is one. It may be transient.
pub(super) fn listing_fault(error: &object_store::Error) -> Option<Error> {
    let found = causes(error).find_map(|c| c.downcast_ref::<NoListing>())?;
    let what = found.0.message();
    Some(if as_transient(&found.0).is_some() { transient(what) } else { Error::io(what) })
}

/// Responses to conditions, for which `object_store` has its own error kinds.
fn known(status: StatusCode) -> bool {
    [StatusCode::NOT_MODIFIED, StatusCode::CONFLICT, StatusCode::PRECONDITION_FAILED].contains(&status)
}

/// The beginning of a body, and the error that ended it.
async fn beginning<E>(
    mut stream: impl Stream<Item = std::result::Result<Bytes, E>> + Unpin,
) -> (Bytes, Option<E>) {
    let mut text = BytesMut::new();
    while text.len() <= MAX_TEXT {
        match stream.next().await {
            Some(Ok(chunk)) => text.extend_from_slice(&chunk),
            Some(Err(e)) => return (text.freeze(), Some(e)),
            None => break,
        }
    }
    (text.freeze(), None)
}

/// A failure as reported by the server.
fn failure(status: StatusCode, headers: &HeaderMap, text: &[u8]) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, Reply::new(status, headers, &String::from_utf8_lossy(text)))
}

/// Settings shared by all three providers: no retries of their own.
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
