//! Lists the object versions of a bucket.
//!
//! [`Bucket::versions`] returns every version and delete marker below a prefix, [`Bucket::objects`] the current
//! objects, both as pages in server order: by key, and the newest version of a key first. A prefix with more than one
//! page is listed concurrently: its folders by `delimiter=/`, and each of them separately, a limited way ahead of the
//! reader, so that memory stays constant. The pages are returned in order.
//!
//! Only the server decides where a listing continues. A chain of pages requests the same prefix in the same way from
//! beginning to end, each page with the full marker of the previous one: key *and* version. A marker of our own, or one
//! from another kind of listing, could mean something else to some servers and skip entries. A chain that repeats
//! itself, rows that are duplicated or were not requested, and an unannounced end are errors.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use reqwest::Method;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::bucket::{Ask, Bucket, BucketAnswer};
use super::packed::PackedPage;
use super::page::{self, ListingPage, Next};
use crate::error::{Error, Result};

/// A version of an object, or a delete marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion {
    /// The whole key.
    pub key: String,
    /// The version ID; `null` where the bucket is not versioned, or was not when the object was put.
    pub version: String,
    /// The `ETag`, without quotes; empty for a delete marker.
    pub etag: String,
    /// Size in bytes; 0 for a delete marker.
    pub size: u64,
    /// When it was put, in milliseconds since 1970. Some servers have only whole seconds.
    pub modified: i64,
    /// Whether it is the current version.
    pub latest: bool,
    /// Whether it is a delete marker.
    pub deleted: bool,
}

/// How many folders of a level are listed ahead of the reader.
const AHEAD: usize = 8;

/// Maximum number of concurrent listings, not counting the folders of one level.
const WALKERS: usize = 24;

/// How many pages a listing may always buffer. Further pages are taken from the shared budget.
const OWN_PAGES: usize = 2;

/// The shared budget for buffered pages of all listings of a prefix, in KiB.
const SHARED: usize = 6 << 10;

/// A page with more folders than this shows small ones, which are not worth a request each.
const FOLDERS_A_PAGE: usize = 4;

/// This many consecutive empty pages are an error.
const EMPTY_PAGES: u32 = 1000;

/// Pages of a listing.
pub type Pages = BoxStream<'static, Result<Vec<ObjectVersion>>>;

/// The same while still packed.
type Stretch = BoxStream<'static, Result<PageRows>>;

/// The entries of a page.
enum PageRows {
    Plain(Vec<ObjectVersion>),
    /// Listed ahead of the reader.
    Packed(PackedPage),
}

impl PageRows {
    fn into_entries(self) -> Vec<ObjectVersion> {
        match self {
            Self::Plain(entries) => entries,
            Self::Packed(packed) => packed.unpack(),
        }
    }

    fn into_packed(self) -> PackedPage {
        match self {
            Self::Plain(entries) => PackedPage::new(&entries),
            Self::Packed(packed) => packed,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListingKind {
    Versions,
    Objects,
}

/// A listing in progress.
#[derive(Debug, Clone)]
struct VersionWalk {
    bucket: Arc<Bucket>,
    kind: ListingKind,
    walkers: Arc<AtomicUsize>,
    shared: Arc<Semaphore>,
}

impl Bucket {
    /// Every version and delete marker whose key begins with `prefix`.
    #[must_use]
    pub fn versions(self: &Arc<Self>, prefix: &str) -> Pages {
        self.list(prefix, ListingKind::Versions)
    }

    /// Every current object whose key begins with `prefix`; without its version ID, which a plain listing does not
    /// include.
    #[must_use]
    pub fn objects(self: &Arc<Self>, prefix: &str) -> Pages {
        self.list(prefix, ListingKind::Objects)
    }

    fn list(self: &Arc<Self>, prefix: &str, kind: ListingKind) -> Pages {
        let mut once = Once::default();
        let bucket = Arc::clone(self);
        let pages = VersionWalk::new(self, kind).below(prefix.to_owned());
        let check = move |rows: PageRows| std::future::ready(once.check(&bucket, rows.into_entries()));
        pages.and_then(check).boxed()
    }

    /// The names of the folders directly below `prefix`, which is empty or ends with a slash; without their trailing
    /// slash.
    pub async fn folders(self: &Arc<Self>, prefix: &str) -> Result<Vec<String>> {
        self.list_folders(prefix, ListingKind::Objects).await
    }

    /// The same including folders with nothing but old versions and delete markers.
    pub async fn folders_ever(self: &Arc<Self>, prefix: &str) -> Result<Vec<String>> {
        self.list_folders(prefix, ListingKind::Versions).await
    }

    async fn list_folders(self: &Arc<Self>, prefix: &str, kind: ListingKind) -> Result<Vec<String>> {
        let mut chain = VersionWalk::new(self, kind).chain(prefix.to_owned(), true);
        let mut out = Vec::new();
        while let Some(page) = chain.next().await? {
            out.extend(page.prefixes.iter().filter_map(|p| {
                p.strip_prefix(prefix)?.strip_suffix('/').filter(|name| !name.is_empty()).map(str::to_owned)
            }));
        }
        out.sort();
        out.dedup();
        Ok(out)
    }
}

/// Refuses duplicate rows, as far as adjacent rows show them.
#[derive(Default)]
struct Once {
    key: String,
    /// The first version of that key, and the others.
    first: Option<String>,
    others: HashSet<String>,
}

impl Once {
    fn check(&mut self, bucket: &Bucket, page: Vec<ObjectVersion>) -> Result<Vec<ObjectVersion>> {
        for entry in &page {
            if entry.key != self.key || self.first.is_none() {
                self.key.clone_from(&entry.key);
                self.first.get_or_insert_default().clone_from(&entry.version);
                self.others.clear();
            } else if self.first.as_ref() == Some(&entry.version)
                || !self.others.insert(entry.version.clone())
            {
                let message = format!("the server listed the version {} twice", entry.version);
                return Err(Error::io(message).with_key(&entry.key).with_store(bucket));
            }
        }
        Ok(page)
    }
}

/// Page after page of one listing, from beginning to end.
struct VersionListing {
    walk: VersionWalk,
    prefix: String,
    /// Whether folders are listed instead of their contents.
    folders: bool,
    next: Option<Next>,
    over: bool,
    /// Hashes of markers and first rows already seen.
    met: HashSet<u64>,
    empty: u32,
}

impl VersionListing {
    /// The next page; `None` after the last one.
    async fn next(&mut self) -> Result<Option<ListingPage>> {
        if self.over {
            return Ok(None);
        }
        let page = self.walk.page(&self.prefix, self.folders, self.next.as_ref()).await?;
        self.check(&page).map_err(|e| e.with_store(&self.walk.bucket))?;
        self.next.clone_from(&page.next);
        self.over = page.next.is_none();
        Ok(Some(page))
    }

    fn check(&mut self, page: &ListingPage) -> Result<()> {
        let strange =
            |key: &str| Error::io("the server listed a key that was not requested").with_key(key.to_owned());
        if let Some(entry) = page.entries.iter().find(|e| !e.key.starts_with(&self.prefix)) {
            return Err(strange(&entry.key));
        }
        let folder = |p: &str| p.strip_prefix(&self.prefix).is_some_and(|name| name.ends_with('/'));
        if let Some(other) = page.prefixes.iter().find(|p| !self.folders || !folder(p)) {
            return Err(strange(other));
        }
        self.empty = if page.entries.is_empty() && page.prefixes.is_empty() { self.empty + 1 } else { 0 };
        let row = page.entries.first().map(|e| print(&(&e.key, &e.version)));
        let marker = page.next.as_ref().map(|next| print(&next));
        if !row.into_iter().chain(marker).all(|met| self.met.insert(met)) || self.empty > EMPTY_PAGES {
            return Err(Error::io("the server's listing does not advance: it repeats an earlier page"));
        }
        Ok(())
    }

    /// All remaining pages.
    fn rest(self) -> Stretch {
        stream::try_unfold(self, |mut chain| async move {
            let page = chain.next().await?;
            Ok(page.map(|page| (PageRows::Plain(page.entries), chain)))
        })
        .boxed()
    }
}

fn print(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl VersionWalk {
    fn new(bucket: &Arc<Bucket>, kind: ListingKind) -> Self {
        let shared = Arc::new(Semaphore::new(SHARED));
        Self { bucket: Arc::clone(bucket), kind, walkers: Arc::default(), shared }
    }

    fn chain(self, prefix: String, folders: bool) -> VersionListing {
        VersionListing { walk: self, prefix, folders, next: None, over: false, met: HashSet::new(), empty: 0 }
    }

    async fn page(&self, prefix: &str, folders: bool, next: Option<&Next>) -> Result<ListingPage> {
        let mut ask = Ask::new(Method::GET, "").query("encoding-type", "url");
        if folders {
            ask = ask.query("delimiter", "/");
        }
        match (self.kind, next) {
            (ListingKind::Versions, Some(Next::Version { key, version })) => {
                ask = ask.query("key-marker", key.as_str());
                if let Some(version) = version {
                    ask = ask.query("version-id-marker", version.as_str());
                }
            }
            // A server that returns no token is asked for what comes after the last key.
            (ListingKind::Objects, Some(Next::Version { key, .. })) => {
                ask = ask.query("start-after", key.as_str())
            }
            (_, Some(Next::Token(token))) => ask = ask.query("continuation-token", token.as_str()),
            (_, None) => {}
        }
        ask = ask.query("max-keys", "1000").query("prefix", prefix);
        ask = match self.kind {
            ListingKind::Versions => ask.query("versions", ""),
            ListingKind::Objects => ask.query("list-type", "2"),
        };
        // Sorted, as signing requires.
        ask.query.sort();
        let found = std::sync::Mutex::new(None);
        let answer = self
            .bucket
            .call_for(&ask, |headers, body| {
                let page = page::parse(&body)?;
                *found.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(page);
                Ok(BucketAnswer::Done(headers, body))
            })
            .await
            .map_err(|e| e.within(format!("listing {prefix:?}")))?;
        match (answer, found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)) {
            (BucketAnswer::Done(..), Some(page)) => Ok(page),
            (BucketAnswer::Missing, _) => {
                Err(Error::not_found("the bucket does not exist").with_store(&self.bucket))
            }
            _ => Err(Error::io("the server refused an unconditional listing").with_store(&self.bucket)),
        }
    }

    /// Everything below a prefix.
    fn below(self, prefix: String) -> Stretch {
        let begun = async move {
            let mut flat = self.clone().chain(prefix.clone(), false);
            let first = flat.next().await?.unwrap_or_default();
            // By folders only if keys contain folders, and those are large.
            let worth = first.next.is_some()
                && (prefix.is_empty() || prefix.ends_with('/'))
                && shows_folders(&first.entries, &prefix)
                && self.walkers.load(Ordering::Relaxed) < WALKERS;
            if worth {
                let mut level = self.chain(prefix, true);
                let page = level.next().await?.unwrap_or_default();
                if !page.prefixes.is_empty() {
                    return Ok::<_, Error>(split(level, page));
                }
            }
            Ok(whole(first.entries).chain(flat.rest()).boxed())
        };
        stream::once(begun).try_flatten().boxed()
    }

    /// Runs a listing in a task, some pages ahead of its reader.
    fn ahead(self, prefix: String) -> Stretch {
        let count = CountedListing::new(&self.walkers);
        let (own, shared) = (Arc::new(Semaphore::new(OWN_PAGES)), Arc::clone(&self.shared));
        let mut pages = self.below(prefix);
        let (sender, receiver) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let _count = count;
            loop {
                let message = match pages.next().await {
                    Some(Ok(rows)) => {
                        let packed = rows.into_packed();
                        let permit = room(&own, &shared, packed.size()).await;
                        Ok(Some((packed, permit)))
                    }
                    Some(Err(e)) => Err(e),
                    None => Ok(None),
                };
                let over = !matches!(message, Ok(Some(_)));
                if sender.send(message).is_err() || over {
                    break;
                }
            }
        });
        stream::try_unfold((receiver, AbortOnDrop(task)), |(mut receiver, task)| async move {
            let page = receiver.recv().await.unwrap_or_else(|| Err(broken()))?;
            Ok(page.map(|(packed, _permit)| (PageRows::Packed(packed), (receiver, task))))
        })
        .boxed()
    }
}

/// Waits until a page of `size` bytes may be buffered. A reader always makes progress: the pages that a listing may
/// buffer by itself do not depend on other listings.
async fn room(own: &Arc<Semaphore>, shared: &Arc<Semaphore>, size: usize) -> Option<OwnedSemaphorePermit> {
    let kib = u32::try_from(size.div_ceil(1024).clamp(1, SHARED)).unwrap_or(1);
    tokio::select! {
        biased;
        permit = Arc::clone(own).acquire_owned() => permit.ok(),
        permit = Arc::clone(shared).acquire_many_owned(kib) => permit.ok(),
    }
}

/// The pages of a level of folders: its direct entries as they are listed, and its folders, which are started ahead.
fn split(mut level: VersionListing, first: ListingPage) -> Stretch {
    let (sender, receiver) = mpsc::channel::<Result<Option<Stretch>>>(AHEAD);
    let task = tokio::spawn(async move {
        let last = parts(&mut level, first, &sender).await.map(|()| None);
        let _ = sender.send(last).await;
    });
    stream::try_unfold((receiver, AbortOnDrop(task)), |(mut receiver, task)| async move {
        let part = receiver.recv().await.unwrap_or_else(|| Err(broken()))?;
        Ok::<_, Error>(part.map(|pages| (pages, (receiver, task))))
    })
    .try_flatten()
    .boxed()
}

/// Returns the parts of a level in order.
async fn parts(
    level: &mut VersionListing,
    first: ListingPage,
    to: &mpsc::Sender<Result<Option<Stretch>>>,
) -> Result<()> {
    let mut seen: HashSet<String> = HashSet::new();
    let mut page = Some(first);
    while let Some(ListingPage { entries, prefixes, .. }) = page {
        let inside = |e: &&ObjectVersion| e.key.get(level.prefix.len()..).is_some_and(|k| k.contains('/'));
        if let Some(entry) = entries.iter().find(inside) {
            return Err(Error::io("the server listed a folder together with its contents")
                .with_key(&entry.key)
                .with_store(&level.walk.bucket));
        }
        let mut entries = entries.into_iter().peekable();
        for folder in prefixes {
            let mut before = Vec::new();
            while let Some(entry) = entries.next_if(|e| e.key < folder) {
                before.push(entry);
            }
            if !before.is_empty() && to.send(Ok(Some(whole(before)))).await.is_err() {
                return Ok(());
            }
            // A page may repeat the last folder of the previous one.
            if seen.insert(folder.clone())
                && to.send(Ok(Some(level.walk.clone().ahead(folder)))).await.is_err()
            {
                return Ok(());
            }
        }
        let after: Vec<_> = entries.collect();
        if !after.is_empty() && to.send(Ok(Some(whole(after)))).await.is_err() {
            return Ok(());
        }
        page = level.next().await?;
    }
    Ok(())
}

fn whole(page: Vec<ObjectVersion>) -> Stretch {
    stream::iter([Ok(PageRows::Plain(page))]).boxed()
}

fn broken() -> Error {
    Error::io("a listing ended prematurely")
}

/// Whether a page shows a few large folders directly below the prefix. A page without folders shows that there are
/// none, unless it is full of versions of a few keys.
fn shows_folders(entries: &[ObjectVersion], prefix: &str) -> bool {
    let (mut folders, mut keys) = (0, 0);
    let (mut last_folder, mut last_key) = (None, None);
    for entry in entries {
        let key = entry.key.as_str();
        let folder = key.get(prefix.len()..).and_then(|rest| rest.split_once('/')).map(|(folder, _)| folder);
        folders += usize::from(folder.is_some() && folder != last_folder);
        keys += usize::from(Some(key) != last_key);
        (last_folder, last_key) = (folder, Some(key));
    }
    match folders {
        0 => keys < entries.len().div_ceil(2),
        n => n <= FOLDERS_A_PAGE,
    }
}

/// A task that is aborted when dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Counts a running listing until dropped.
struct CountedListing(Arc<AtomicUsize>);

impl CountedListing {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for CountedListing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
