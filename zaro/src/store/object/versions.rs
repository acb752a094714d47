//! What a bucket holds, version by version.
//!
//! [`Bucket::versions`] gives every version and every delete marker below a prefix, [`Bucket::objects`] what is there
//! now, both as pages in the order of the server: by key, and the newest version of a key first. A prefix with more than a
//! page is listed in several places at once: first its folders by `delimiter=/`, then each of them by itself, some way
//! ahead of the reader but never far, so that memory stays the same however much there is. The pages come together in
//! order again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use reqwest::Method;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::bucket::{Answer, Ask, Bucket};
use super::page::{self, Next, Page};
use crate::error::{Error, Result};

/// A state of an object, or of its absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion {
    /// The whole key.
    pub key: String,
    /// The version's name; `null` where the bucket keeps no versions, or kept none when the object was put.
    pub version: String,
    /// The `ETag`, without quotes; empty for a delete marker.
    pub etag: String,
    /// How many bytes; 0 for a delete marker.
    pub size: u64,
    /// When it was put, in milliseconds since 1970. Some servers know whole seconds only.
    pub modified: i64,
    /// Whether it is what is there now.
    pub latest: bool,
    /// Whether it is a delete marker: from here on there is no object.
    pub deleted: bool,
}

/// How many folders are listed ahead of the reader.
const AHEAD: usize = 8;

/// How many pages of each are held for the reader.
const PAGES_AHEAD: usize = 4;

/// No more listings than this run at a time.
const WALKERS: usize = 24;

/// A page that shows more folders than this shows small ones, which are not worth a request each.
const FOLDERS_A_PAGE: usize = 4;

/// How many pages of a folder are looked at to find its folders.
const SPLIT_PAGES: usize = 4;

/// Pages of a listing.
pub type Pages = BoxStream<'static, Result<Vec<ObjectVersion>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Versions,
    Objects,
}

/// A listing under way.
#[derive(Debug, Clone)]
struct Walk {
    bucket: Arc<Bucket>,
    kind: Kind,
    walkers: Arc<AtomicUsize>,
}

/// A part of a prefix, in order.
enum Part {
    Entries(Vec<ObjectVersion>),
    Below(String),
    /// All that comes after what was seen: the last entry's key, or a prefix that is done.
    Rest {
        after: String,
        done: Option<String>,
    },
}

impl Bucket {
    /// Every version and delete marker whose key begins with `prefix`.
    #[must_use]
    pub fn versions(self: &Arc<Self>, prefix: &str) -> Pages {
        self.list(prefix, Kind::Versions)
    }

    /// Every object whose key begins with `prefix`, as it is now; without its version, which a plain listing does not
    /// name.
    #[must_use]
    pub fn objects(self: &Arc<Self>, prefix: &str) -> Pages {
        self.list(prefix, Kind::Objects)
    }

    fn list(self: &Arc<Self>, prefix: &str, kind: Kind) -> Pages {
        let walk = Walk { bucket: Arc::clone(self), kind, walkers: Arc::default() };
        walk.below(prefix.to_owned())
    }

    /// The names of what lies directly below `prefix`, which is empty or ends with a slash: folders only, without their
    /// slash.
    pub async fn folders(self: &Arc<Self>, prefix: &str) -> Result<Vec<String>> {
        let walk = Walk { bucket: Arc::clone(self), kind: Kind::Objects, walkers: Arc::default() };
        let mut out = Vec::new();
        let mut next = None;
        loop {
            let page = walk.page(prefix, true, next.as_ref()).await?;
            out.extend(page.prefixes.iter().filter_map(|p| {
                p.strip_prefix(prefix)?.strip_suffix('/').filter(|name| !name.is_empty()).map(str::to_owned)
            }));
            match page.next {
                Some(n) if Some(&n) == next.as_ref() => return Err(stuck(&walk.bucket)),
                Some(n) => next = Some(n),
                None => break,
            }
        }
        out.sort();
        out.dedup();
        Ok(out)
    }
}

fn stuck(bucket: &Bucket) -> Error {
    Error::io("the server's listing does not get on").with_store(bucket)
}

impl Walk {
    async fn page(&self, prefix: &str, folders: bool, next: Option<&Next>) -> Result<Page> {
        let mut ask = Ask::new(Method::GET, "").query("encoding-type", "url");
        if folders {
            ask = ask.query("delimiter", "/");
        }
        match (self.kind, next) {
            (Kind::Versions, Some(Next::Version { key, version })) => {
                ask = ask.query("key-marker", key.as_str());
                if let Some(version) = version {
                    ask = ask.query("version-id-marker", version.as_str());
                }
            }
            (Kind::Objects, Some(Next::Version { key, .. })) => ask = ask.query("start-after", key.as_str()),
            (_, Some(Next::Token(token))) => ask = ask.query("continuation-token", token.as_str()),
            (_, None) => {}
        }
        ask = ask.query("max-keys", "1000").query("prefix", prefix);
        ask = match self.kind {
            Kind::Versions => ask.query("versions", ""),
            Kind::Objects => ask.query("list-type", "2"),
        };
        // In order, as signers want it.
        ask.query.sort();
        let found = std::sync::Mutex::new(None);
        let answer = self
            .bucket
            .call_for(&ask, |headers, body| {
                let page = page::parse(&body)?;
                *found.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(page);
                Ok(Answer::Done(headers, body))
            })
            .await
            .map_err(|e| e.within(format!("listing {prefix:?}")))?;
        match (answer, found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)) {
            (Answer::Done(..), Some(page)) => Ok(page),
            (Answer::Missing, _) => {
                Err(Error::not_found("the bucket does not exist").with_store(&self.bucket))
            }
            _ => {
                Err(Error::io("the server refused a listing that had no condition").with_store(&self.bucket))
            }
        }
    }

    /// All below a prefix.
    fn below(self, prefix: String) -> Pages {
        let begun = async move {
            let first = self.page(&prefix, false, None).await?;
            let Some(next) = first.next else {
                return Ok::<_, Error>(stream::iter([Ok(first.entries)]).boxed());
            };
            if folders_in(&first.entries, &prefix) <= FOLDERS_A_PAGE
                && self.walkers.load(Ordering::Relaxed) < WALKERS
                && let Some(parts) = self.split(&prefix).await?
            {
                return Ok(self.ordered(prefix, parts));
            }
            let rest = self.serial(prefix, next);
            Ok(stream::iter([Ok(first.entries)]).chain(rest).boxed())
        };
        stream::once(begun).try_flatten().boxed()
    }

    /// Page after page from `next` on.
    fn serial(self, prefix: String, next: Next) -> Pages {
        stream::try_unfold(Some(next), move |next| {
            let (walk, prefix) = (self.clone(), prefix.clone());
            async move {
                let Some(next) = next else { return Ok(None) };
                let page = walk.page(&prefix, false, Some(&next)).await?;
                if page.next.as_ref() == Some(&next) {
                    return Err(stuck(&walk.bucket));
                }
                Ok(Some((page.entries, page.next)))
            }
        })
        .boxed()
    }

    /// What lies directly below a prefix, in order; `None` if it has no folders as far as one can see.
    async fn split(&self, prefix: &str) -> Result<Option<Vec<Part>>> {
        // Folders only where names mean them.
        if !(prefix.is_empty() || prefix.ends_with('/')) {
            return Ok(None);
        }
        let (mut entries, mut folders): (Vec<ObjectVersion>, Vec<String>) = (Vec::new(), Vec::new());
        let mut next: Option<Next> = None;
        for _ in 0..SPLIT_PAGES {
            let page = self.page(prefix, true, next.as_ref()).await?;
            entries.extend(page.entries);
            folders.extend(page.prefixes);
            if page.next.is_some() && page.next == next {
                return Err(stuck(&self.bucket));
            }
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        // A page may name the folder again at which the one before ended.
        folders.dedup();
        if folders.is_empty() {
            return Ok(None);
        }
        let last_folder = folders.last().cloned();
        let last_key = entries.last().map(|e| e.key.clone());
        let mut parts = Vec::new();
        let mut entries = entries.into_iter().peekable();
        for folder in folders {
            let mut before = Vec::new();
            while let Some(entry) = entries.next_if(|e| e.key < folder) {
                before.push(entry);
            }
            if !before.is_empty() {
                parts.push(Part::Entries(before));
            }
            parts.push(Part::Below(folder));
        }
        let after: Vec<_> = entries.collect();
        if !after.is_empty() {
            parts.push(Part::Entries(after));
        }
        if next.is_some() {
            let rest = match (last_key, last_folder) {
                (Some(key), Some(folder)) if key > folder => Part::Rest { after: key, done: None },
                (_, Some(folder)) => Part::Rest { after: format!("{folder}\u{10ffff}"), done: Some(folder) },
                (Some(key), None) => Part::Rest { after: key, done: None },
                (None, None) => return Ok(None),
            };
            parts.push(rest);
        }
        Ok(Some(parts))
    }

    /// The parts one after another, those ahead begun already.
    fn ordered(self, prefix: String, parts: Vec<Part>) -> Pages {
        let begin = move |part: Part| {
            let (walk, prefix) = (self.clone(), prefix.clone());
            async move {
                match part {
                    Part::Entries(entries) => stream::iter([Ok(entries)]).boxed(),
                    Part::Below(folder) => walk.ahead(|walk| walk.below(folder)),
                    Part::Rest { after, done } => walk.ahead(|walk| walk.rest(prefix, after, done)),
                }
            }
        };
        stream::iter(parts).map(begin).buffered(AHEAD).flatten().boxed()
    }

    /// What comes after a key, without what was seen already.
    fn rest(self, prefix: String, after: String, done: Option<String>) -> Pages {
        let from = after.clone();
        let unseen = move |e: &ObjectVersion| match &done {
            Some(folder) => !e.key.starts_with(folder.as_str()) && e.key > *folder,
            None => e.key > after,
        };
        let next = Next::Version { key: from, version: None };
        self.serial(prefix, next)
            .map_ok(move |mut page| {
                page.retain(&unseen);
                page
            })
            .boxed()
    }

    /// Runs a listing by itself, a few pages ahead of whoever takes them.
    fn ahead(self, begin: impl FnOnce(Self) -> Pages) -> Pages {
        let count = Counted::new(&self.walkers);
        let mut pages = begin(self);
        let (sender, receiver) = mpsc::channel(PAGES_AHEAD);
        let task = tokio::spawn(async move {
            let _count = count;
            while let Some(page) = pages.next().await {
                let failed = page.is_err();
                if sender.send(page).await.is_err() || failed {
                    break;
                }
            }
        });
        let state = (receiver, Task(task));
        stream::unfold(state, |(mut receiver, task)| async move {
            let page = receiver.recv().await?;
            Some((page, (receiver, task)))
        })
        .boxed()
    }
}

/// How many folders directly below the prefix the entries lie in.
fn folders_in(entries: &[ObjectVersion], prefix: &str) -> usize {
    let folder = |e: &ObjectVersion| {
        let rest = e.key.get(prefix.len()..)?;
        rest.split_once('/').map(|(folder, _)| folder.to_owned())
    };
    let mut folders: Vec<String> = entries.iter().filter_map(folder).collect();
    folders.dedup();
    folders.len()
}

/// Ended when nobody waits for it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One listing more, until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
