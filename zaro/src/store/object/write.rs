//! Puts and deletes in buckets, including conditional puts.
//!
//! The server checks the condition of a put: `If-None-Match: *` for an object that must be absent, `If-Match` with its
//! `ETag` (GCS: its generation) for one that must be unchanged. A server that does not know these headers may silently
//! ignore them, and then writers overwrite each other. So on servers other than the providers' own, the first
//! conditional put that succeeds is repeated: it must be refused now.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error as CloudError, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion, WriteMultipart,
};

use super::CloudStore;
use super::transport::{cannot_copy, reply_of};
use crate::error::{Error, Result};
use crate::num::u64_of;
use crate::store::fault::transient;
use crate::store::{Condition, DELETING, Entry, GetOptions, ListOptions, MAX_PUT, Put, check_key, join};

/// Objects larger than this are uploaded in parts, unless there is a condition, which multipart uploads do not support:
/// 64 MiB.
const MAX_WHOLE: u64 = 64 << 20;

/// The size of a part, 16 MiB, and how many are uploaded concurrently.
const PART: usize = 16 << 20;
const PARTS_AT_ONCE: usize = 8;

/// How many listing pages are deleted concurrently.
const PAGES_AT_ONCE: usize = 8;

/// Which conditions a server is known to honour.
#[derive(Debug)]
pub(super) struct Proven {
    absent: AtomicBool,
    unchanged: AtomicBool,
}

impl Proven {
    pub(super) fn new(own: bool) -> Self {
        Self { absent: AtomicBool::new(own), unchanged: AtomicBool::new(own) }
    }
}

impl CloudStore {
    pub(super) async fn write(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        check_key(key)?;
        let path = self.path(key)?;
        let (mode, proven) = match &when {
            Condition::Always if u64_of(value.len()) > MAX_WHOLE => {
                return self.write_parts(&path, value).await;
            }
            Condition::Always => (PutMode::Overwrite, None),
            Condition::Absent => (PutMode::Create, Some(&self.proven.absent)),
            Condition::Unchanged(seen) => {
                let seen = seen.remote()?;
                if seen.etag.is_none() && seen.version.is_none() {
                    return Err(unconditional("gives no ETag"));
                }
                let seen = UpdateVersion { e_tag: seen.etag.clone(), version: seen.version.clone() };
                (PutMode::Update(seen), Some(&self.proven.unchanged))
            }
        };
        let before = match &mode {
            PutMode::Update(state) => state.e_tag.clone(),
            _ => None,
        };
        let (put, after) = self.write_whole(&path, value.clone(), mode.clone()).await?;
        let Some(proven) = proven.filter(|p| put.is_done() && !p.load(Ordering::Relaxed)) else {
            return Ok(put);
        };
        // The same bytes may have the same ETag, so that the condition still holds.
        if before.is_some() && before == after {
            return Ok(put);
        }
        let (again, _) = self.write_whole(&path, value, mode).await?;
        if again.is_done() {
            return Err(unconditional("ignores the conditions of puts (If-Match, If-None-Match)"));
        }
        proven.store(true, Ordering::Relaxed);
        Ok(put)
    }

    /// A single put request. Returns the new `ETag` of the object.
    async fn write_whole(&self, path: &Path, value: Bytes, mode: PutMode) -> Result<(Put, Option<String>)> {
        let conditional = !matches!(mode, PutMode::Overwrite);
        let update = matches!(mode, PutMode::Update(_));
        let put = self.ask(|client| {
            let (path, payload) = (path.clone(), PutPayload::from(value.clone()));
            let options = PutOptions { mode: mode.clone(), ..Default::default() };
            async move { client.put_opts(&path, payload, options).await }
        });
        let error = match put.await {
            Ok(done) => return Ok((Put::Done, done.e_tag)),
            Err(e) => e,
        };
        match (&error, reply_of(&error).map(|r| r.status.as_u16())) {
            (CloudError::Precondition { .. } | CloudError::NotModified { .. }, _) if conditional => {
                Ok((Put::Refused, None))
            }
            // 409, which S3 returns while another conditional put is in progress: a retry tells which one won.
            (CloudError::AlreadyExists { .. }, _) if update => {
                Err(transient("the server answered 409, another put is under way"))
            }
            (CloudError::AlreadyExists { .. }, _) if conditional => Ok((Put::Refused, None)),
            // The object that should be unchanged no longer exists.
            (_, Some(404)) if update => match self.sort::<()>(&error, false) {
                Ok(_) => Ok((Put::Refused, None)),
                Err(e) => Err(e),
            },
            (_, Some(status @ (400 | 501))) if conditional => {
                Err(unconditional(&format!("answered {status} to a conditional put")))
            }
            _ => Err(self.failed(&error)),
        }
    }

    async fn write_parts(&self, path: &Path, value: Bytes) -> Result<Put> {
        let sent = self.ask(|client| {
            let (path, value) = (path.clone(), value.clone());
            async move {
                let upload = client.put_multipart(&path).await?;
                let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
                let mut rest = value;
                while !rest.is_empty() {
                    let part = rest.split_to(PART.min(rest.len()));
                    if let Err(e) = upload.wait_for_capacity(PARTS_AT_ONCE).await {
                        // Uploaded parts cost money until aborted; the first error is the one to report.
                        let _ = upload.abort().await;
                        return Err(e);
                    }
                    upload.put(part);
                }
                upload.finish().await
            }
        });
        match sent.await {
            Ok(_) => Ok(Put::Done),
            Err(e) => Err(self.failed(&e)),
        }
    }

    /// What the error of a write means: nothing can be missing but the bucket.
    pub(super) fn failed(&self, error: &CloudError) -> Error {
        match reply_of(error) {
            Some(reply) => reply.failure(self.asked(false)),
            None => match self.sort::<()>(error, false) {
                Err(e) => e,
                Ok(_) => Error::not_found("the bucket or container does not exist"),
            },
        }
    }

    pub(super) async fn remove(&self, key: &str) -> Result<()> {
        check_key(key)?;
        let path = self.path(key)?;
        let removed = self.ask(|client| {
            let path = path.clone();
            async move { client.delete(&path).await }
        });
        match removed.await {
            Err(e) if !self.is_gone(&e) => Err(self.failed(&e)),
            _ => Ok(()),
        }
    }

    /// Server-side copy of an object; if not supported, it is read and put.
    pub(super) async fn copy_within(&self, from: &str, to: &str) -> Result<()> {
        check_key(from)?;
        check_key(to)?;
        let (source, target) = (self.path(from)?, self.path(to)?);
        let copied = self.ask(|client| {
            let (from, to) = (source.clone(), target.clone());
            async move { client.copy(&from, &to).await }
        });
        match copied.await {
            Err(e) if cannot_copy(&e) => match self.open(from, GetOptions::at_most(MAX_PUT)).await? {
                Some(opened) => {
                    let object = opened.collect().await?;
                    self.write(to, object.bytes, Condition::Always).await.map(drop)
                }
                None => Err(Error::io("the object to copy does not exist")),
            },
            copied => copied.map_err(|e| self.failed(&e)),
        }
    }

    /// Whether the error of a delete says that the object did not exist.
    fn is_gone(&self, error: &CloudError) -> bool {
        let status = reply_of(error).map_or(404, |r| r.status.as_u16());
        status == 404 && self.sort::<()>(error, false).is_ok()
    }

    async fn remove_page(&self, page: Vec<Entry>, but: &str) -> Result<()> {
        let keys = page.iter().map(Entry::path).filter(|key| *key != but);
        let paths = keys.map(|key| self.path(key)).collect::<Result<Vec<_>>>()?;
        let client = self.client.read().unwrap_or_else(PoisonError::into_inner).client.clone();
        let mut removed = client.delete_stream(stream::iter(paths).map(Ok).boxed());
        while let Some(answer) = removed.next().await {
            match answer {
                Err(e) if !self.is_gone(&e) => return Err(self.failed(&e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Lists and deletes concurrently, up to a thousand objects per request where supported.
    pub(super) async fn remove_below(&self, prefix: &str) -> Result<()> {
        let all = ListOptions { recursive: true, ..ListOptions::default() };
        // The deletion marker stays until the end.
        let marker = &join(prefix, DELETING);
        let removed = self.pages(prefix, &all).map_ok(|page| self.remove_page(page, marker));
        removed.try_buffer_unordered(PAGES_AT_ONCE).try_collect::<()>().await?;
        self.remove(marker).await
    }
}

fn unconditional(what: &str) -> Error {
    Error::unsupported(format!(
        "this server {what}, so part of a chunk cannot be changed safely while others may write; write whole chunks"
    ))
}
