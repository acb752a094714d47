//! A store without direct access that counts what is asked of it, and waits and fails on demand.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use zaro::store::{
    ByteRange, Direct, DirectObject, Entry, GetOptions, ListOptions, MemoryStore, Object, ObjectMeta, Store,
};
use zaro::{Error, ErrorKind, Result};

/// What a request meets.
pub type Rule = Box<dyn Fn(&str) -> Option<Error> + Send + Sync>;

#[derive(Default)]
pub struct Probe {
    inner: Arc<MemoryStore>,
    log: Mutex<Vec<(String, Option<ByteRange>)>>,
    lists: AtomicUsize,
    rule: Option<Rule>,
    delay: Duration,
    slow: Option<(&'static str, Duration)>,
    unlisted: bool,
    held: Arc<Held>,
}

/// Bytes handed out and not yet let go.
#[derive(Debug, Default)]
struct Held {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// An answer that says when it is dropped.
struct Answer(Bytes, Arc<Held>);

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.1.now.fetch_sub(self.0.len(), Ordering::SeqCst);
    }
}

impl Probe {
    pub fn new(inner: Arc<MemoryStore>) -> Self {
        Self { inner, ..Self::default() }
    }

    /// Every request waits.
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Requests for keys that contain `part` wait.
    pub fn slow(self, part: &'static str, delay: Duration) -> Self {
        Self { slow: Some((part, delay)), ..self }
    }

    /// Requests for which `rule` has an error fail with it.
    pub fn rule(self, rule: impl Fn(&str) -> Option<Error> + Send + Sync + 'static) -> Self {
        Self { rule: Some(Box::new(rule)), ..self }
    }

    /// Requests for keys that contain `part` fail.
    pub fn fail(self, part: &'static str, kind: ErrorKind, message: &'static str) -> Self {
        self.rule(move |key| key.contains(part).then(|| Error::new(kind, message)))
    }

    /// As an HTTP server without an index.
    pub fn unlisted(self) -> Self {
        Self { unlisted: true, ..self }
    }

    /// All requests for bytes so far, and forgets them.
    pub fn take(&self) -> Vec<(String, Option<ByteRange>)> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// How many listings were asked for.
    pub fn lists(&self) -> usize {
        self.lists.load(Ordering::SeqCst)
    }

    /// The most bytes that were held at once outside this store.
    pub fn most_held(&self) -> usize {
        self.held.most.load(Ordering::SeqCst)
    }

    async fn pass(&self, key: &str) -> Result<()> {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        if let Some((part, delay)) = self.slow
            && key.contains(part)
        {
            tokio::time::sleep(delay).await;
        }
        match self.rule.as_ref().and_then(|rule| rule(key)) {
            Some(e) => Err(e.with_key(key).with_store(self)),
            None => Ok(()),
        }
    }
}

/// The bytes a request asked for, of an object of `size` bytes.
pub fn span(range: Option<ByteRange>, size: u64) -> Range<u64> {
    let (offset, length) = range.map_or((0, size), |r| r.resolve(size).unwrap());
    offset..offset + length
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Probe")
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("probe:")
    }
}

#[async_trait]
impl Store for Probe {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        self.log.lock().unwrap().push((key.to_owned(), options.range));
        self.pass(key).await?;
        let Some(Object { bytes, meta }) = self.inner.get_opts(key, options).await? else { return Ok(None) };
        let now = self.held.now.fetch_add(bytes.len(), Ordering::SeqCst) + bytes.len();
        self.held.most.fetch_max(now, Ordering::SeqCst);
        Ok(Some(Object { bytes: Bytes::from_owner(Answer(bytes, self.held.clone())), meta }))
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.log.lock().unwrap().push((key.to_owned(), None));
        self.pass(key).await?;
        self.inner.stat(key).await
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let (prefix, options) = (prefix.to_owned(), options.clone());
        let listed = async move {
            if self.unlisted {
                return Err(Error::unsupported("this server does not list").with_store(self));
            }
            self.pass(&prefix).await?;
            Ok(self.inner.list_opts(&prefix, &options))
        };
        futures::stream::once(listed).try_flatten().boxed()
    }
}

/// Objects in memory that are read as files are: through [`DirectObject::read_at`] alone.
#[derive(Debug)]
pub struct AsFiles(pub Arc<MemoryStore>);

impl fmt::Display for AsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("files:")
    }
}

#[async_trait]
impl Store for AsFiles {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        self.0.get_opts(key, options).await
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.0.stat(key).await
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        self.0.list_opts(prefix, options)
    }

    fn direct(&self) -> Option<&dyn Direct> {
        Some(self)
    }
}

impl Direct for AsFiles {
    fn open(&self, key: &str) -> Result<Option<Box<dyn DirectObject>>> {
        let object = Direct::open(&*self.0, key)?;
        Ok(object.map(|o| Box::new(File(o)) as Box<dyn DirectObject>))
    }
}

struct File(Box<dyn DirectObject>);

impl DirectObject for File {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buf)
    }
}
