//! S3 requests that `object_store` does not offer: listing versions, tagging, deleting single versions.
//!
//! They are signed by `object_store`'s signer with the credentials of its own client, and use the same kind of
//! connections, so whatever can read a bucket works here too: static keys, credential services, unsigned requests,
//! self-hosted servers. Failures are classified as in [`CloudStore`](super::CloudStore): transient ones are retried,
//! and a bucket in another region is followed there.

use std::fmt;
use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpError, HttpRequest, HttpRequestBody, HttpResponse};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use tokio::sync::Semaphore;

use super::deepest;
use super::profile::process_env;
use super::s3::{self, AtAws, BucketSettings};
use super::transport::{Connector, fault_of, host_of, reply_of};
use crate::boxed;
use crate::error::{Error, Result};
use crate::num::u64_of;
use crate::store::fault::transient;
use crate::store::local::sys::read_exact_at;
use crate::store::options::StoreOptions;
use crate::store::reply::Asked;
use crate::store::wrap::limit::place;
use crate::store::wrap::log::{self, RequestLog};
use crate::store::wrap::retry::RetryPolicy;
use crate::store::{percent_encode, percent_encode_key};

/// The longest response that is read: a page of a listing has at most a few megabytes.
const MAX_ANSWER: usize = 256 << 20;

/// An S3 bucket, for its versions and tags.
pub struct Bucket {
    name: String,
    settings: BucketSettings,
    region: RwLock<String>,
    /// `None` for unsigned requests.
    credentials: Option<AwsCredentialProvider>,
    http: HttpClient,
    connector: Connector,
    request_payer: bool,
    policy: RetryPolicy,
    /// Whether the server has responded once.
    met: AtomicBool,
    places: Arc<Semaphore>,
    log: Option<Arc<RequestLog>>,
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// Empty for the bucket itself.
    pub(super) key: &'a str,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
    /// The body, where it is too large for memory.
    pub(super) file: Option<FileBody>,
}

/// A file that is sent from its beginning on every attempt.
#[derive(Debug, Clone)]
pub(super) struct FileBody {
    pub(super) file: Arc<File>,
    pub(super) size: u64,
}

/// How much of a file is read at a time.
const PIECE: u64 = 1 << 18;

impl FileBody {
    fn stream(&self) -> impl futures::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
        let (file, size) = (Arc::clone(&self.file), self.size);
        futures::stream::iter(0..size.div_ceil(PIECE)).map(move |n| {
            let from = n.saturating_mul(PIECE);
            let length = usize::try_from(PIECE.min(size.saturating_sub(from))).unwrap_or(0);
            let mut piece = vec![0; length];
            read_exact_at(&file, &mut piece, from)?;
            Ok(Bytes::from(piece))
        })
    }
}

impl<'a> Ask<'a> {
    pub(super) fn new(method: Method, key: &'a str) -> Self {
        Self { method, key, query: Vec::new(), headers: Vec::new(), body: Bytes::new(), file: None }
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    fn logged(&self) -> log::RequestMethod {
        match &self.method {
            m if *m == Method::PUT || *m == Method::POST => log::RequestMethod::Put,
            // Removing tags is not a deletion of the object.
            m if *m == Method::DELETE && self.query.iter().any(|(name, _)| *name == "tagging") => {
                log::RequestMethod::Put
            }
            m if *m == Method::DELETE => log::RequestMethod::Delete,
            m if *m == Method::HEAD => log::RequestMethod::Size,
            _ if self.key.is_empty() => log::RequestMethod::List,
            _ => log::RequestMethod::Get,
        }
    }
}

/// The response to a request.
#[derive(Debug)]
pub(super) enum BucketAnswer {
    Done(HeaderMap, Bytes),
    /// There is no such key, or no such version of it.
    Missing,
    /// The condition does not hold (412).
    Refused,
}

impl Bucket {
    /// A bucket, as configured by the options, the environment and the profile.
    pub fn s3(bucket: &str, options: &StoreOptions) -> Result<Self> {
        Self::new(bucket, s3::settings(bucket, None, options, &process_env)?, options)
    }

    /// The same at AWS itself, whatever endpoint the environment sets.
    pub fn s3_at_aws(bucket: &str, region: Option<&str>, options: &StoreOptions) -> Result<Self> {
        let at = Some(AtAws { region });
        Self::new(bucket, s3::settings(bucket, at, options, &process_env)?, options)
    }

    fn new(bucket: &str, settings: BucketSettings, options: &StoreOptions) -> Result<Self> {
        let credentials = if settings.signed {
            Some(Arc::clone(settings.client(&settings.region)?.credentials()))
        } else {
            None
        };
        let connector = Connector::new(options)?;
        Ok(Self {
            name: bucket.to_owned(),
            region: RwLock::new(settings.region.clone()),
            credentials,
            http: connector.client(),
            connector,
            request_payer: options.request_payer,
            policy: options.retry.clone(),
            met: AtomicBool::new(false),
            places: options.context.host(&settings.host, options.concurrency),
            log: options.log.clone(),
            settings,
        })
    }

    /// The bucket's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host of the service; for AWS the same in all regions, since bucket names are global there.
    #[must_use]
    pub fn service(&self) -> String {
        self.settings.endpoint.as_deref().map_or_else(|| "amazonaws.com".to_owned(), host_of)
    }

    /// Whether requests are signed.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.credentials.is_some()
    }

    /// The address at which anybody can read an object, or one version of it; `None` if requests are signed: what was
    /// opened with credentials is not known to be public. At AWS it names no region, and works for all of them.
    #[must_use]
    pub fn public_url(&self, key: &str, version: Option<&str>) -> Option<String> {
        if self.is_signed() {
            return None;
        }
        let query: Vec<_> = version.map(|version| ("versionId", version.to_owned())).into_iter().collect();
        Some(self.address("", key, &query))
    }

    /// A URL with which whoever has it can read one version of an object until the time is over, with a `GET` or, with
    /// `head`, a `HEAD`; `None` if requests are not signed. Nothing is asked of the server.
    #[boxed]
    pub async fn signed_url(
        &self,
        key: &str,
        version: Option<&str>,
        head: bool,
        lasts: Duration,
    ) -> Result<Option<String>> {
        let Some(credentials) = &self.credentials else { return Ok(None) };
        let region = self.region.read().unwrap_or_else(PoisonError::into_inner).clone();
        let client = self.settings.client_with(&region, credentials)?;
        let path =
            Path::parse(key).map_err(|e| Error::usage("not a key that can be signed").with_source(e))?;
        let query = version.map(|version| ("versionId", version));
        let options = SignedUrlOptions::default().with_query(query);
        let method = if head { Method::HEAD } else { Method::GET };
        let signed = client.signed_url_opts(method, &path, lasts, &options).await;
        let signed = signed.map_err(|e| Error::not_permitted("the URL could not be signed").with_source(e));
        signed.map(|url| Some(url.into())).map_err(|e| e.with_key(key).with_store(self))
    }

    /// The URL of a key, including the query without its question mark. Without a region it is the one that AWS
    /// resolves for every region.
    fn address(&self, region: &str, key: &str, query: &[(&'static str, String)]) -> String {
        let dot = if region.is_empty() { "" } else { "." };
        let base = match (&self.settings.endpoint, self.settings.path_style) {
            (Some(endpoint), true) => format!("{endpoint}/{}", self.name),
            (Some(endpoint), false) => endpoint.clone(),
            (None, true) => format!("https://s3{dot}{region}.amazonaws.com/{}", self.name),
            (None, false) => format!("https://{}.s3{dot}{region}.amazonaws.com", self.name),
        };
        let mut out = base;
        // A path-style bucket URL has no trailing slash.
        if !(key.is_empty() && self.settings.path_style) {
            out.push('/');
            out.extend(percent_encode_key(key));
        }
        for (i, (name, value)) in query.iter().enumerate() {
            out.push(if i == 0 { '?' } else { '&' });
            out.push_str(name);
            out.push('=');
            out.extend(percent_encode(value));
        }
        out
    }

    async fn request(&self, ask: &Ask<'_>, region: &str) -> Result<HttpRequest> {
        let mut request = HttpRequest::new(HttpRequestBody::from(ask.body.clone()));
        *request.method_mut() = ask.method.clone();
        let address = self.address(region, ask.key, &ask.query);
        *request.uri_mut() =
            address.parse().map_err(|_| Error::usage(format!("{address:?} is not a valid URL")))?;
        for (name, value) in &ask.headers {
            let value = HeaderValue::from_str(value)
                .map_err(|_| Error::usage(format!("{value:?} is not a valid value of the header {name}")))?;
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
        if let Some(credentials) = &self.credentials {
            let credential = credentials
                .get_credential()
                .await
                .map_err(|e| Error::not_permitted("no credentials could be obtained").with_source(e))?;
            AwsAuthorizer::new(&credential, "s3", region)
                .with_request_payer(self.request_payer)
                // The file body is covered by its MD5, which is among the signed headers.
                .with_sign_payload(ask.file.is_none())
                .try_authorize(&mut request, None)
                .map_err(|e| Error::io("the request could not be signed").with_source(e))?;
        }
        Ok(request)
    }

    /// Makes a request, with retries, and follows the bucket to its region.
    pub(super) async fn call(&self, ask: &Ask<'_>) -> Result<BucketAnswer> {
        self.call_for(ask, |headers, body| Ok(BucketAnswer::Done(headers, body))).await
    }

    /// The same, with a parser for the response; an invalid response may be a transient fault, too.
    pub(super) async fn call_for(
        &self,
        ask: &Ask<'_>,
        make: impl Fn(HeaderMap, Bytes) -> Result<BucketAnswer> + Send + Sync,
    ) -> Result<BucketAnswer> {
        let make = &make;
        let once = move || async move {
            let _place = place(&self.places).await?;
            let start = Instant::now();
            let answer = self.once(ask).await.and_then(|answer| match answer {
                BucketAnswer::Done(headers, body) => make(headers, body),
                other => Ok(other),
            });
            self.note(ask, start, &answer);
            answer
        };
        let named = |e: Error| e.with_key(ask.key).with_store(self);
        self.policy.persist(&self.met, once).await.map_err(named)
    }

    async fn once(&self, ask: &Ask<'_>) -> Result<BucketAnswer> {
        let region = self.region.read().unwrap_or_else(PoisonError::into_inner).clone();
        let error = match self.execute(ask, &region).await? {
            Ok(answer) => return answer,
            Err(e) => e,
        };
        let elsewhere = reply_of(&error).and_then(|r| r.region.clone()).filter(|r| *r != region);
        let Some(region) = elsewhere.filter(|_| self.settings.endpoint.is_none()) else {
            return self.sort(&error);
        };
        region.clone_into(&mut self.region.write().unwrap_or_else(PoisonError::into_inner));
        match self.execute(ask, &region).await? {
            Ok(answer) => answer,
            Err(e) => self.sort(&e),
        }
    }

    /// The response, or the failure of the network or the server.
    async fn execute(&self, ask: &Ask<'_>, region: &str) -> Result<Result<Result<BucketAnswer>, HttpError>> {
        let request = self.request(ask, region).await?;
        let Some(file) = &ask.file else {
            return Ok(match self.http.execute(request).await {
                Ok(response) => Ok(self.read(response).await),
                Err(e) => Err(e),
            });
        };
        let bad = |_| Error::usage("the request URL is not valid");
        let url = url::Url::parse(&request.uri().to_string()).map_err(bad)?;
        let mut sent = reqwest::Request::new(ask.method.clone(), url);
        *sent.headers_mut() = request.headers().clone();
        sent.headers_mut().insert(reqwest::header::CONTENT_LENGTH, HeaderValue::from(file.size));
        *sent.body_mut() = Some(reqwest::Body::wrap_stream(file.stream()));
        Ok(match self.connector.send(sent).await {
            Ok((status, headers, text)) => {
                Ok(refused(status).unwrap_or(Ok(BucketAnswer::Done(headers, text))))
            }
            Err(e) => Err(e),
        })
    }

    async fn read(&self, response: HttpResponse) -> Result<BucketAnswer> {
        if let Some(refused) = refused(response.status()) {
            return refused;
        }
        let (parts, body) = response.into_parts();
        // Allocates the announced length, so that the buffer need not grow; a page is smaller than this.
        let announced = parts.headers.get("content-length").and_then(|v| v.to_str().ok()?.parse().ok());
        let mut out = BytesMut::with_capacity(announced.unwrap_or(0usize).min(1 << 20));
        let mut stream = body.bytes_stream();
        while let Some(chunk) = stream.try_next().await.map_err(|e| network(&e))? {
            if out.len().saturating_add(chunk.len()) > MAX_ANSWER {
                return Err(Error::io(format!("the response has more than {MAX_ANSWER} bytes")));
            }
            out.extend_from_slice(&chunk);
        }
        Ok(BucketAnswer::Done(parts.headers, out.freeze()))
    }

    fn sort(&self, error: &HttpError) -> Result<BucketAnswer> {
        let Some(reply) = reply_of(error) else { return Err(network(error)) };
        if matches!(reply.status.as_u16(), 405 | 501) {
            return Err(Error::unsupported(format!(
                "{}: it does not support this operation",
                reply.answered()
            )));
        }
        let asked = Asked { signed: self.is_signed(), missing_403: false, read: false };
        reply.sort(asked).map(|()| BucketAnswer::Missing)
    }

    fn note(&self, ask: &Ask<'_>, start: Instant, answer: &Result<BucketAnswer>) {
        if self.log.is_none() && !log::is_traced() {
            return;
        }
        let (bytes, outcome) = match answer {
            Ok(BucketAnswer::Done(_, body)) if ask.logged() == log::RequestMethod::List => {
                (names_in(body), log::RequestOutcome::Found)
            }
            Ok(BucketAnswer::Done(_, body)) => (u64_of(body.len()), log::RequestOutcome::Found),
            Ok(BucketAnswer::Missing) => (0, log::RequestOutcome::Missing),
            Ok(BucketAnswer::Refused) => (0, log::RequestOutcome::Refused),
            Err(e) => (0, log::RequestOutcome::Failed(e.kind(), e.message().to_owned())),
        };
        let shown = ask.query.iter().map(|(name, value)| match value.as_str() {
            "" => format!(" {name}"),
            value => format!(" {name}={value}"),
        });
        let sent = match &ask.file {
            Some(file) => Some(file.size),
            None => Some(u64_of(ask.body.len())).filter(|length| *length > 0),
        };
        let bytes = sent.unwrap_or(bytes);
        log::record(self.log.as_deref(), ask.logged(), bytes, || log::LoggedRequest {
            store: self.to_string(),
            method: ask.logged(),
            key: format!("{}{}", ask.key, shown.collect::<String>()),
            range: None,
            bytes,
            elapsed: start.elapsed(),
            outcome,
        });
    }
}

/// The number of objects, versions and folders on a page of a listing.
fn names_in(page: &[u8]) -> u64 {
    let count = |tag: &[u8]| u64_of(page.windows(tag.len()).filter(|w| *w == tag).count());
    count(b"<Key>").saturating_add(count(b"<CommonPrefixes>"))
}

/// A network failure as an error.
fn network(error: &HttpError) -> Error {
    fault_of(error).error(error, deepest(error))
}

/// What the response to a condition means; `None` for every other response.
fn refused(status: StatusCode) -> Option<Result<BucketAnswer>> {
    match status.as_u16() {
        304 | 412 => Some(Ok(BucketAnswer::Refused)),
        409 => Some(Err(transient("the server answered 409"))),
        _ => None,
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.name)
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({self})")
    }
}
