//! S3, GCS and Azure stores, built on `object_store`.
//!
//! Its clients handle signing, listing and the differences between providers; here they become a [`Store`]: errors are
//! classified as missing, refused, transient or final; every response is checked against the request; a bucket is
//! followed to the region that the server names. `object_store`'s own retries are off:
//! [`wrap::retry`](super::wrap::retry) does them for all stores alike, with `Retry-After`, so that the log shows each
//! attempt. Puts and deletes are in [`write`]. `get_ranges` of `object_store` is not used, since it panics on an object
//! shorter than the ranges.

mod azure;
pub(crate) mod bucket;
mod gcs;
mod packed;
mod page;
mod pages;
mod profile;
mod s3;
pub(crate) mod tagging;
mod transport;
pub(crate) mod versions;
mod write;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{GetOptions as CloudGet, GetRange, ObjectMeta as CloudMeta, ObjectStore};

use self::transport::{listing_fault, network_fault, reply_of};
use self::write::Proven;
use super::fault::transient;
use super::options::StoreOptions;
use super::reply::{Asked, IfMatch};
use super::{
    ByteRange, Condition, Entry, GetOptions, ListOptions, Object, ObjectMeta, ObjectStream, Pin, Put,
    RemoteMeta, Site, Store, StoreFacts, changed, check_key, check_prefix,
};
use crate::error::{Error, Result};

/// A prefix of a bucket or container as a store.
pub struct CloudStore {
    /// `s3://bucket/prefix`.
    name: String,
    host: String,
    root: String,
    client: RwLock<Connection>,
    /// Creates a client for another region; S3 only.
    relocate: Option<Relocate>,
    suffix_ranges: bool,
    missing_403: bool,
    signed: bool,
    proven: Proven,
    if_match: IfMatch,
}

/// A client of any of the three providers.
#[derive(Clone)]
struct Client {
    objects: Arc<dyn ObjectStore>,
    pages: Arc<dyn PaginatedListStore>,
}

impl<T: ObjectStore + PaginatedListStore> From<T> for Client {
    fn from(client: T) -> Self {
        let client = Arc::new(client);
        Self { objects: client.clone(), pages: client }
    }
}

impl Deref for Client {
    type Target = dyn ObjectStore;

    fn deref(&self) -> &Self::Target {
        &*self.objects
    }
}

type Relocate = Box<dyn Fn(&str) -> Result<Client> + Send + Sync>;

#[derive(Clone)]
struct Connection {
    region: String,
    client: Client,
}

/// What the provider modules return.
struct ProviderParts {
    name: String,
    host: String,
    region: String,
    client: Client,
    relocate: Option<Relocate>,
    suffix_ranges: bool,
    signed: bool,
    /// Whether this is the provider's own server, whose conditional puts are known to work.
    own: bool,
}

impl CloudStore {
    /// A prefix of an S3 bucket.
    pub fn s3(bucket: &str, prefix: &str, options: &StoreOptions) -> Result<Self> {
        Self::new(s3::connect(bucket, None, options, &profile::process_env)?, prefix, options)
    }

    /// The same for a bucket of AWS whose URL names its region: a general endpoint set in the environment does not
    /// apply.
    pub fn s3_at_aws(
        bucket: &str,
        prefix: &str,
        region: Option<&str>,
        options: &StoreOptions,
    ) -> Result<Self> {
        let at = s3::AtAws { region };
        Self::new(s3::connect(bucket, Some(at), options, &profile::process_env)?, prefix, options)
    }

    /// A prefix of a GCS bucket.
    pub fn gcs(bucket: &str, prefix: &str, options: &StoreOptions) -> Result<Self> {
        Self::new(gcs::connect(bucket, options, &profile::process_env)?, prefix, options)
    }

    /// A prefix of a container in an Azure storage account. Without `account`, it is taken from the options or the
    /// environment. `sas` is the query of a signed URL.
    pub fn azure(
        account: Option<&str>,
        container: &str,
        prefix: &str,
        sas: Option<&str>,
        options: &StoreOptions,
    ) -> Result<Self> {
        Self::new(azure::connect(account, container, sas, options, &profile::process_env)?, prefix, options)
    }

    fn new(parts: ProviderParts, prefix: &str, options: &StoreOptions) -> Result<Self> {
        let root = prefix.trim_matches('/').to_owned();
        check_prefix(&root)?;
        let name = if root.is_empty() { parts.name } else { format!("{}/{root}", parts.name) };
        Ok(Self {
            name,
            host: parts.host,
            root,
            client: RwLock::new(Connection { region: parts.region, client: parts.client }),
            relocate: parts.relocate,
            suffix_ranges: parts.suffix_ranges,
            missing_403: options.missing_403,
            signed: parts.signed,
            proven: Proven::new(parts.own),
            if_match: IfMatch::default(),
        })
    }

    /// Host and port, as used by the per-host request limit.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    fn path(&self, key: &str) -> Result<Path> {
        let full = match (self.root.is_empty(), key.is_empty()) {
            (true, _) => key.to_owned(),
            (false, true) => self.root.clone(),
            (false, false) => format!("{}/{key}", self.root),
        };
        Path::parse(&full)
            .map_err(|e| Error::invalid(format!("{key:?} is not a valid object key")).with_source(e))
    }

    /// Makes a request, and repeats it in the right region if the server names another.
    async fn ask<T, F>(&self, question: impl Fn(Client) -> F + Send) -> Result<T, object_store::Error>
    where
        F: Future<Output = Result<T, object_store::Error>> + Send,
    {
        let now = self.client.read().unwrap_or_else(PoisonError::into_inner).clone();
        let error = match question(now.client).await {
            Ok(answer) => return Ok(answer),
            Err(e) => e,
        };
        let elsewhere = reply_of(&error).and_then(|r| r.region.clone()).filter(|r| *r != now.region);
        let (Some(region), Some(relocate)) = (elsewhere, &self.relocate) else { return Err(error) };
        let Ok(client) = relocate(&region) else { return Err(error) };
        *self.client.write().unwrap_or_else(PoisonError::into_inner) =
            Connection { region, client: client.clone() };
        question(client).await
    }

    /// What an error means: `None` for a missing key.
    fn sort<T>(&self, error: &object_store::Error, read: bool) -> Result<Option<T>> {
        if let Some(reply) = reply_of(error) {
            return reply.sort(self.asked(read)).map(|()| None);
        }
        if matches!(error, object_store::Error::NotFound { .. }) {
            return Ok(None);
        }
        Err(fault(error, self.asked(read)))
    }

    fn asked(&self, read: bool) -> Asked {
        Asked { signed: self.signed, missing_403: self.missing_403, read }
    }

    /// `None` for a deleted version.
    async fn open(&self, key: &str, ask: GetOptions<'_>) -> Result<Option<ObjectStream>> {
        let pin = ask.pinned();
        let version = pin.and_then(|p| p.version.clone());
        let nothing = || Some(ObjectStream::of(Object::default(), ask.range));
        check_key(key)?;
        let path = self.path(key)?;
        let mut measured = None;
        let range = match ask.range {
            Some(r @ (ByteRange::Span { length: 0, .. } | ByteRange::Suffix(0))) => {
                // HTTP has no empty ranges, so only the bounds are checked.
                let Some(size) = self.measure(key, pin).await?.map(|m| m.size) else { return Ok(None) };
                return r.resolve(size).map(|_| nothing());
            }
            Some(r @ ByteRange::Suffix(_)) if !self.suffix_ranges => {
                let Some(size) = self.measure(key, pin).await?.map(|m| m.size) else { return Ok(None) };
                measured = Some(size);
                match r.resolve(size)? {
                    (_, 0) => return Ok(nothing()),
                    (offset, length) => Some(ByteRange::span(offset, length)),
                }
            }
            other => other,
        };
        let wanted = match range {
            None => None,
            Some(ByteRange::Span { offset, length }) => match offset.checked_add(length) {
                Some(end) => Some(GetRange::Bounded(offset..end)),
                None => {
                    return Err(Error::invalid(format!(
                        "bytes {offset}+{length} exceed the maximum object size"
                    )));
                }
            },
            Some(ByteRange::Suffix(n)) => Some(GetRange::Suffix(n)),
            Some(ByteRange::From(offset)) => Some(GetRange::Offset(offset)),
        };
        let path = &path;
        let get = |tag: Option<&str>| {
            let if_match = tag.map(str::to_owned);
            let options =
                CloudGet { range: wanted.clone(), version: version.clone(), if_match, ..Default::default() };
            self.ask(move |client| {
                let (path, options) = (path.clone(), options.clone());
                async move { client.get_opts(&path, options).await }
            })
        };
        let tag = self.if_match.tag(&ask);
        let mut got = get(tag).await;
        if let (Some(tag), Err(refusal)) = (tag, &got)
            && is_refusal(refusal)
        {
            got = get(None).await;
            match &got {
                Ok(now) => self.if_match.judge(tag, &remote_facts(&now.meta))?,
                // Too short for the range, according to the server or the client.
                Err(e) if wanted.is_some() && is_unsatisfiable(e) => return Err(changed()),
                Err(_) => {}
            }
        }
        let got = match got {
            Ok(got) => got,
            Err(e) => {
                let Some(range) = range.filter(|_| is_unsatisfiable(&e)) else { return self.sort(&e, true) };
                let Some(size) = self.measure(key, pin).await?.map(|m| m.size) else { return Ok(None) };
                return match range.resolve(size)? {
                    (_, 0) => Ok(nothing()),
                    _ => Err(transient("the server refused a range that lies within the object")),
                };
            }
        };
        if let Some(pin) = pin {
            check_pin(pin, &got.meta)?;
        }
        let meta = facts(&got.meta);
        meta.check(ask.state)?;
        if measured.is_some_and(|size| size != got.meta.size) {
            // The end was measured on another state.
            return Err(transient("the object was changed while it was read"));
        }
        let span = got.range.clone();
        if let Some(range) = range {
            let (offset, length) = range.resolve(got.meta.size)?;
            if (span.start, span.end) != (offset, offset.saturating_add(length)) {
                return Err(transient(format!(
                    "the server sent bytes {}..{} of {}, not the requested range",
                    span.start, span.end, got.meta.size
                )));
            }
        }
        let length = span.end.saturating_sub(span.start);
        ask.check_announced(length)?;
        let asked = self.asked(true);
        let body = got.into_stream().map_err(move |e| fault(&e, asked)).boxed();
        let more = move || transient(format!("the server sent more than the {length} bytes it announced"));
        let fewer = move |came| transient(format!("the response ended after {came} of {length} bytes"));
        let body = super::stream::cut(super::stream::at_most(body, length, more), 0, length, fewer);
        Ok(Some(ObjectStream { meta, range: Some(span), body }))
    }

    async fn measure(&self, key: &str, pin: Option<&Pin>) -> Result<Option<CloudMeta>> {
        check_key(key)?;
        let path = self.path(key)?;
        let head = self.ask(|client| {
            let path = path.clone();
            let version = pin.and_then(|p| p.version.clone());
            let options = CloudGet { head: true, version, ..Default::default() };
            async move { client.get_opts(&path, options).await.map(|got| got.meta) }
        });
        match head.await {
            Ok(meta) => {
                if let Some(pin) = pin {
                    check_pin(pin, &meta)?;
                }
                Ok(Some(meta))
            }
            Err(e) => self.sort(&e, true),
        }
    }

    /// The entries below a prefix, page by page.
    fn pages(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Vec<Entry>>> {
        let listing = pages::PagedListing::new(prefix, options);
        let pages = stream::try_unfold(listing, move |mut listing| async move {
            if listing.is_over() {
                return Ok(None);
            }
            let path = listing.check().and_then(|prefix| self.path(prefix))?;
            let asked = self.ask(|client| {
                let page = listing.ask(|key| self.path(key).ok());
                let folder = Some(format!("{path}/")).filter(|_| !path.as_ref().is_empty());
                async move { client.pages.list_paginated(folder.as_deref(), page).await }
            });
            let page = asked.await.map_err(|e| self.failed(&e))?;
            let entries = listing.read(&path, page)?;
            Ok(Some((entries, listing)))
        });
        pages.boxed()
    }
}

/// What an error means where nothing can be missing.
fn fault(error: &object_store::Error, asked: Asked) -> Error {
    if let Some(reply) = reply_of(error) {
        return reply.failure(asked);
    }
    if let Some(e) = listing_fault(error) {
        return e;
    }
    match (network_fault(error), error) {
        (Some(broken), _) => broken.error(error, deepest(error)),
        (None, object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. }) => {
            Error::unsupported(error.to_string())
        }
        (None, _) => Error::io(error.to_string()),
    }
}

/// Object metadata.
fn facts(found: &CloudMeta) -> ObjectMeta {
    remote_facts(found).into()
}

fn remote_facts(found: &CloudMeta) -> RemoteMeta {
    let CloudMeta { e_tag: etag, version, size, last_modified, .. } = found;
    let modified = Some(last_modified.timestamp());
    RemoteMeta { etag: etag.clone(), modified, size: Some(*size), version: version.clone() }
}

/// Whether the server refuses a condition, or does not support conditions.
fn is_refusal(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Precondition { .. })
        || reply_of(error).is_some_and(|reply| IfMatch::refuses(reply.status))
}

/// Whether the server refuses a range, or the client does.
fn is_unsatisfiable(error: &object_store::Error) -> bool {
    match reply_of(error) {
        Some(reply) => reply.status.as_u16() == 416,
        None => network_fault(error).is_none(),
    }
}

/// Refuses an object that does not match the pin.
fn check_pin(pin: &Pin, found: &CloudMeta) -> Result<()> {
    // A server without versioning sends the current object.
    if let (Some(wanted), Some(sent)) = (&pin.version, &found.version)
        && wanted != sent
    {
        return Err(Error::io(format!("the server sent version {sent} instead of {wanted}")));
    }
    if pin.etag.is_some() {
        let etag = found.e_tag.as_deref();
        pin.check_etag(etag.ok_or_else(|| Error::io("the server sent no ETag for the object"))?)?;
    }
    pin.check_size(found.size)?;
    pin.check_time(found.last_modified.timestamp())
}

/// The message of the innermost cause: the outer ones repeat it, with URLs that may be signed.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(next) = at.source() {
        at = next;
    }
    at.to_string()
}

impl fmt::Display for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloudStore({})", self.name)
    }
}

#[async_trait]
impl Store for CloudStore {
    fn sites(&self, prefix: &str) -> BoxStream<'_, Result<Site>> {
        // `s3://bucket/root` is the path `bucket/root` of the host, path-style or not.
        let path = self.name.split_once("://").map_or(self.name.as_str(), |(_, path)| path);
        let bucket = path.split('/').next().unwrap_or_default();
        let host = self.host.strip_prefix(bucket).and_then(|h| h.strip_prefix('.')).unwrap_or(&self.host);
        // The account is part of the host in Azure.
        let path = match self.name.starts_with("az://") {
            true => path.split_once('/').map_or("", |(_, path)| path),
            false => path,
        };
        futures::stream::iter([Ok(Site::host(host, &super::join(path, prefix)))]).boxed()
    }

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
        let found = self.measure(key, None).await.map_err(|e| e.with_key(key).with_store(self))?;
        Ok(found.as_ref().map(facts))
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        let place = prefix.to_owned();
        let pages = self.pages(prefix, options).map_ok(|page| stream::iter(page.into_iter().map(Ok)));
        pages.try_flatten().map_err(move |e: Error| e.with_key(&place).with_store(self)).boxed()
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { lists_all: true, is_writable: true, is_remote: true }
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        self.write(key, value, when).await.map_err(|e| e.with_key(key).with_store(self))
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.remove(key).await.map_err(|e| e.with_key(key).with_store(self))
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.remove_below(prefix).await.map_err(|e| e.with_key(prefix).with_store(self))
    }

    async fn copy_object(&self, from: &str, to: &str) -> Result<()> {
        self.copy_within(from, to).await.map_err(|e| e.with_key(from).with_store(self))
    }
}

#[cfg(test)]
mod tests;
