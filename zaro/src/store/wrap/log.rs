//! A wrapper that counts and logs requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};

use crate::error::{Error, ErrorKind, Result, redacted};
use crate::num::u64_of;
use crate::store::fault::copy_of;
use crate::store::wrap::forward::forward;
use crate::store::{
    ByteRange, Condition, Direct, DirectObject, Entry, GetOptions, ListOptions, Object, ObjectMeta,
    ObjectStream, Put, SharedStore, Store, each_range, join, unwritable,
};

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestMethod {
    /// Bytes.
    Get,
    /// A size.
    Size,
    /// A listing.
    List,
    /// Bytes put.
    Put,
    /// An object, or all below a prefix, deleted.
    Delete,
}

impl RequestMethod {
    /// Its name: `get`, `size`, `list`, `put`, `delete`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Size => "size",
            Self::List => "list",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// With a result.
    Found,
    /// The key does not exist.
    Missing,
    /// The condition of a put did not hold.
    Refused,
    /// With an error of this kind and message.
    Failed(ErrorKind, String),
}

/// One finished request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoggedRequest {
    /// The store.
    pub store: String,
    /// The kind of request.
    pub method: RequestMethod,
    /// The key or prefix.
    pub key: String,
    /// The range; `None` for the whole object.
    pub range: Option<ByteRange>,
    /// Bytes received or sent (for a listing, the number of names).
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// How it ended.
    pub outcome: RequestOutcome,
}

impl fmt::Display for LoggedRequest {
    /// One line: `get s3://b/k bytes=0+100 -> 100 bytes, 31 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The store of all files is the root, whose name already is a slash.
        let store = if self.store == "/" { "" } else { self.store.as_str() };
        write!(f, "{} {store}/{}", self.method.as_str(), self.key)?;
        if let Some(range) = self.range {
            write!(f, " bytes={}", ShownRange(range))?;
        }
        match (&self.outcome, self.method) {
            (RequestOutcome::Found, RequestMethod::List) => write!(f, " -> {} names", self.bytes)?,
            (RequestOutcome::Found, RequestMethod::Size) => write!(f, " -> found")?,
            (RequestOutcome::Found, RequestMethod::Get) => write!(f, " -> {} bytes", self.bytes)?,
            (RequestOutcome::Found, RequestMethod::Put) => write!(f, " <- {} bytes", self.bytes)?,
            (RequestOutcome::Found, RequestMethod::Delete) => write!(f, " -> done")?,
            (RequestOutcome::Refused, _) => write!(f, " -> refused, condition not met")?,
            (RequestOutcome::Missing, _) => write!(f, " -> missing")?,
            (RequestOutcome::Failed(kind, message), _) => write!(f, " -> {kind}: {message}")?,
        }
        write!(f, ", {} ms", self.elapsed.as_millis())
    }
}

/// A range in short form: `offset+length`, the last `-n`, all from `n-`.
struct ShownRange(ByteRange);

impl fmt::Display for ShownRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ByteRange::Span { offset, length } => write!(f, "{offset}+{length}"),
            ByteRange::Suffix(n) => write!(f, "-{n}"),
            ByteRange::From(n) => write!(f, "{n}-"),
        }
    }
}

/// Where finished requests go.
pub(crate) type Sink = Arc<dyn Fn(&LoggedRequest) + Send + Sync>;

/// Counts requests and passes each finished one to a sink. Share one among stores to count them together.
#[derive(Default)]
pub struct RequestLog {
    requests: AtomicU64,
    bytes: AtomicU64,
    sink: Option<Sink>,
}

impl RequestLog {
    /// Counts only.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts, and calls `sink` with each finished request.
    #[must_use]
    pub fn with_sink(sink: impl Fn(&LoggedRequest) + Send + Sync + 'static) -> Self {
        Self { sink: Some(Arc::new(sink)), ..Self::default() }
    }

    /// The number of requests, including retries.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The number of object bytes received.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Whether there is a subscriber for request events.
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(target: "zaro::request", tracing::Level::DEBUG)
}

/// Records a finished request: in the log, if there is one, and as an event with the target `zaro::request`.
pub(crate) fn record(
    log: Option<&RequestLog>,
    method: RequestMethod,
    bytes: u64,
    request: impl FnOnce() -> LoggedRequest,
) {
    if let Some(log) = log {
        log.requests.fetch_add(1, Ordering::Relaxed);
        if method == RequestMethod::Get {
            log.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
    let sink = log.and_then(|log| log.sink.as_ref());
    let traced = is_traced();
    if sink.is_none() && !traced {
        return;
    }
    let request = request();
    if let Some(sink) = sink {
        sink(&request);
    }
    if traced {
        request.trace();
    }
}

impl LoggedRequest {
    /// Emits it as a tracing event.
    fn trace(&self) {
        let address = format!("{}/{}", self.store.trim_end_matches('/'), self.key);
        let (outcome, fault) = match &self.outcome {
            RequestOutcome::Found => ("found", None),
            RequestOutcome::Missing => ("missing", None),
            RequestOutcome::Refused => ("refused", None),
            RequestOutcome::Failed(kind, message) => (kind.as_str(), Some(redacted(message))),
        };
        tracing::debug!(
            target: "zaro::request",
            method = self.method.as_str(),
            address = &*redacted(&address),
            range = self.range.map(|range| ShownRange(range).to_string()),
            outcome,
            fault = fault.as_deref(),
            bytes = self.bytes,
            ms = u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            "request"
        );
    }
}

impl fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLog")
            .field("requests", &self.requests())
            .field("bytes", &self.bytes())
            .finish()
    }
}

/// Logs every request to the inner store.
#[derive(Debug, Clone)]
pub struct LogStore {
    inner: SharedStore,
    log: Option<Arc<RequestLog>>,
}

impl LogStore {
    /// Logs the requests to `inner` in `log`, if there is one, and as events.
    #[must_use]
    pub fn new(inner: SharedStore, log: impl Into<Option<Arc<RequestLog>>>) -> Self {
        Self { inner, log: log.into() }
    }

    fn note<T>(
        &self,
        method: RequestMethod,
        key: &str,
        range: Option<ByteRange>,
        start: Instant,
        answer: &Result<Option<T>>,
        bytes: impl Fn(&T) -> u64,
    ) {
        let bytes = answer.as_ref().ok().and_then(Option::as_ref).map_or(0, bytes);
        record(self.log.as_deref(), method, bytes, || LoggedRequest {
            store: self.inner.to_string(),
            method,
            key: key.to_owned(),
            range,
            bytes,
            elapsed: start.elapsed(),
            outcome: match answer {
                Ok(Some(_)) => RequestOutcome::Found,
                // Only a put can be refused, by its condition.
                Ok(None) if method == RequestMethod::Put => RequestOutcome::Refused,
                Ok(None) => RequestOutcome::Missing,
                Err(e) => RequestOutcome::Failed(e.kind(), e.message().to_owned()),
            },
        });
    }
}

/// A body in transit: logged when dropped.
struct Noted {
    store: LogStore,
    key: String,
    range: Option<ByteRange>,
    start: Instant,
    /// Bytes received.
    bytes: u64,
    fault: Option<Error>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let answer = self.fault.take().map_or(Ok(Some(())), Err);
        self.store.note(RequestMethod::Get, &self.key, self.range, self.start, &answer, |()| self.bytes);
    }
}

impl fmt::Display for LogStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for LogStore {
    forward! {
        facts promote finish origin sites free_space
    }

    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let start = Instant::now();
        let answer = self.inner.get_opts(key, options).await;
        self.note(RequestMethod::Get, key, options.range, start, &answer, |object| {
            u64_of(object.bytes.len())
        });
        answer
    }

    /// One entry when it ends or is dropped.
    async fn get_stream(&self, key: &str, options: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let start = Instant::now();
        let got = match self.inner.get_stream(key, options).await {
            Ok(Some(got)) => got,
            answer => {
                self.note(RequestMethod::Get, key, options.range, start, &answer, |_| 0);
                return answer;
            }
        };
        let noted = Noted {
            store: self.clone(),
            key: key.to_owned(),
            range: options.range,
            start,
            bytes: 0,
            fault: None,
        };
        let pieces = futures::stream::try_unfold((got.body, noted), |(mut body, mut noted)| async move {
            match body.try_next().await {
                Ok(piece) => Ok(piece.map(|piece| {
                    noted.bytes = noted.bytes.saturating_add(u64_of(piece.len()));
                    (piece, (body, noted))
                })),
                Err(e) => {
                    noted.fault = Some(copy_of(&e));
                    drop(noted);
                    Err(e)
                }
            }
        });
        Ok(Some(ObjectStream { body: pieces.boxed(), ..got }))
    }

    /// Each range is a separate request.
    async fn get_ranges(
        &self,
        key: &str,
        ranges: &[ByteRange],
        state: Option<&ObjectMeta>,
    ) -> Result<Option<(Vec<Bytes>, ObjectMeta)>> {
        each_range(self, key, ranges, state).await
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        let start = Instant::now();
        let answer = self.inner.stat(key).await;
        self.note(RequestMethod::Size, key, None, start, &answer, |_| 0);
        answer
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let start = Instant::now();
        let walk = (self.inner.list_opts(prefix, options), 0u64, prefix.to_owned());
        let entries = futures::stream::unfold(Some(walk), move |walk| async move {
            let (mut entries, count, prefix) = walk?;
            let answer = match entries.next().await {
                Some(Ok(entry)) => {
                    return Some((Ok(entry), Some((entries, count.saturating_add(1), prefix))));
                }
                Some(Err(e)) => Err(e),
                None => Ok(Some(())),
            };
            // One entry when it ends, however many requests it took.
            self.note(RequestMethod::List, &prefix, None, start, &answer, |()| count);
            answer.err().map(|e| (Err(e), None))
        });
        entries.boxed()
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        let (start, length) = (Instant::now(), u64_of(value.len()));
        let answer = self.inner.put(key, value, when).await.map(|put| put.is_done().then_some(()));
        self.note(RequestMethod::Put, key, None, start, &answer, |()| length);
        answer.map(|done| if done.is_some() { Put::Done } else { Put::Refused })
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let start = Instant::now();
        let answer = self.inner.delete(key).await.map(Some);
        self.note(RequestMethod::Delete, key, None, start, &answer, |()| 0);
        answer.map(|_| ())
    }

    async fn delete_unchanged(&self, key: &str, state: &ObjectMeta) -> Result<Put> {
        let start = Instant::now();
        let answer = self.inner.delete_unchanged(key, state).await.map(Some);
        self.note(RequestMethod::Delete, key, None, start, &answer, |_| 0);
        answer.map(|done| done.unwrap_or(Put::Refused))
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        let start = Instant::now();
        let answer = self.inner.delete_prefix(prefix).await.map(Some);
        self.note(RequestMethod::Delete, &join(prefix, ""), None, start, &answer, |()| 0);
        answer.map(|_| ())
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        let start = Instant::now();
        let answer = self.inner.copy_object(from, to).await.map(Some);
        self.note(RequestMethod::Put, to, None, start, &answer, |()| 0);
        answer.map(|_| ())
    }

    fn direct(&self) -> Option<&dyn Direct> {
        match self.inner.direct() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl Direct for LogStore {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        let Some(direct) = self.inner.direct() else { return Ok(None) };
        let start = Instant::now();
        match direct.open(key) {
            // Objects in memory are never read.
            Ok(Some(object)) if object.as_bytes().is_none() => {
                Ok(Some(Box::new(LogObject { object, key: key.to_owned(), store: self.clone() })))
            }
            answer => {
                self.note(RequestMethod::Get, key, None, start, &answer, |object| object.size());
                answer
            }
        }
    }

    fn put(&self, key: &str, parts: &[&[u8]], when: &Condition) -> Result<Put> {
        let Some(direct) = self.inner.direct() else { return Err(unwritable(self, key)) };
        let start = Instant::now();
        let answer = direct.put(key, parts, when).map(|put| put.is_done().then_some(()));
        self.note(RequestMethod::Put, key, None, start, &answer, |()| {
            parts.iter().map(|p| u64_of(p.len())).sum()
        });
        answer.map(|done| if done.is_some() { Put::Done } else { Put::Refused })
    }

    fn delete(&self, key: &str) -> Result<()> {
        let Some(direct) = self.inner.direct() else { return Err(unwritable(self, key)) };
        let start = Instant::now();
        let answer = direct.delete(key).map(Some);
        self.note(RequestMethod::Delete, key, None, start, &answer, |()| 0);
        answer.map(|_| ())
    }
}

/// Logs every read of an open object.
struct LogObject {
    object: Box<dyn DirectObject>,
    key: String,
    store: LogStore,
}

impl DirectObject for LogObject {
    fn size(&self) -> u64 {
        self.object.size()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let start = Instant::now();
        let length = u64_of(buf.len());
        let range = (length != self.size()).then(|| ByteRange::span(offset, length));
        let answer = self.object.read_at(offset, buf).map(Some);
        self.store.note(RequestMethod::Get, &self.key, range, start, &answer, |()| length);
        answer.map(|_| ())
    }

    fn meta(&self) -> ObjectMeta {
        self.object.meta()
    }

    fn meta_for_update(&self) -> Result<ObjectMeta> {
        self.object.meta_for_update()
    }

    fn check_unchanged(&self) -> Result<()> {
        self.object.check_unchanged()
    }
}
