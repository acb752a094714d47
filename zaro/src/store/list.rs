//! Listings: a resumable stream of the entries below a prefix, requested page by page.

use std::cmp::Ordering;
use std::future::Future;
use std::ops::Bound;

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use super::{ObjectMeta, Store, join};
use crate::error::{Error, Result};

/// How many entries a local store looks up at a time.
const PAGE: usize = 1000;

/// How many objects are requested at once to get metadata that a listing does not include.
const FACTS_AT_ONCE: usize = 32;

/// Options of a listing, besides the prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct ListOptions {
    /// Every object below the prefix; otherwise the objects and prefixes directly below it.
    pub recursive: bool,
    /// Resume after an entry of an earlier listing with the same options: its [`Entry::cursor`]. With a server that has
    /// its own order (SeaweedFS lists `a/b` before `a-b`), entries are skipped.
    pub after: Option<String>,
    /// Return the metadata of each object, as [`Store::stat`] does. Without it, only metadata that costs no extra
    /// request.
    pub facts: bool,
}

impl ListOptions {
    /// Every object below the prefix, with metadata.
    #[must_use]
    pub fn objects() -> Self {
        Self { recursive: true, facts: true, ..Self::default() }
    }

    /// The same listing, resumed after `cursor`.
    #[must_use]
    pub fn after(&self, cursor: String) -> Self {
        Self { after: Some(cursor), ..self.clone() }
    }

    /// Whether an entry is at or before the cursor.
    pub(crate) fn is_past(&self, entry: &Entry) -> bool {
        self.after.as_ref().is_some_and(|after| entry.bytes().le(after.bytes()))
    }
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An object.
    Object(KeyEntry),
    /// The full path of a prefix ("folder"), without a trailing slash.
    Prefix(String),
}

impl Entry {
    /// The full key, or the full path of the prefix.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Object(object) => &object.key,
            Self::Prefix(path) => path,
        }
    }

    /// Where to resume a listing after this entry. Cursors of one listing ascend.
    #[must_use]
    pub fn cursor(&self) -> String {
        match self {
            Self::Object(object) => object.key.clone(),
            Self::Prefix(path) => format!("{path}/"),
        }
    }

    /// The same entry under another path.
    pub(crate) fn moved(self, path: String) -> Self {
        match self {
            Self::Object(object) => Self::Object(KeyEntry { key: path, ..object }),
            Self::Prefix(_) => Self::Prefix(path),
        }
    }

    /// The cursor, byte by byte.
    fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        let slash = matches!(self, Self::Prefix(_)).then_some(b'/');
        self.path().bytes().chain(slash)
    }

    /// Compares two entries in listing order.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// Its whole key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// Other metadata, where the listing has it.
    pub meta: ObjectMeta,
}

impl KeyEntry {
    /// An object with this metadata.
    #[must_use]
    pub fn new(key: String, meta: ObjectMeta) -> Self {
        Self { key, size: meta.size().unwrap_or(0), meta }
    }
}

/// The names directly below a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Names of objects, without the prefix, sorted.
    pub objects: Vec<String>,
    /// Names of sub-prefixes ("folders"), without the prefix and without the trailing slash, sorted.
    pub prefixes: Vec<String>,
}

impl Listing {
    /// Adds the name that a key, relative to the prefix, contributes.
    pub(crate) fn add(&mut self, rest: &str) {
        match rest.split_once('/') {
            None => self.objects.push(rest.to_owned()),
            Some((folder, _)) if self.prefixes.last().is_none_or(|last| last != folder) => {
                self.prefixes.push(folder.to_owned());
            }
            Some(_) => {}
        }
    }

    /// Sorted and without duplicates: `a-b` sorts before `a/…` as a key, but after `a` as a name.
    pub(crate) fn sorted(mut self) -> Self {
        for names in [&mut self.objects, &mut self.prefixes] {
            names.sort();
            names.dedup();
        }
        self
    }

    /// Collects all names below `prefix` from a listing of one level.
    pub(super) async fn collect(prefix: &str, mut found: BoxStream<'_, Result<Entry>>) -> Result<Self> {
        let skip = join(prefix, "").len();
        let mut out = Self::default();
        while let Some(entry) = found.try_next().await? {
            let names = if matches!(entry, Entry::Prefix(_)) { &mut out.prefixes } else { &mut out.objects };
            names.extend(entry.path().get(skip..).map(str::to_owned));
        }
        Ok(out.sorted())
    }
}

/// Names in one folder, in listing order.
#[derive(Debug, Default)]
pub(crate) struct FolderNames {
    /// Those of folders end with a slash.
    pub(super) names: Vec<String>,
    /// Whether there are more after these.
    pub(super) more: bool,
}

impl FolderNames {
    /// Sorts the names and drops all but the first `most`.
    pub(super) fn shorten(&mut self, most: usize) {
        self.names.sort_unstable();
        self.more |= self.names.len() > most;
        self.names.truncate(most);
    }
}

impl From<Listing> for FolderNames {
    fn from(Listing { objects: mut names, prefixes }: Listing) -> Self {
        names.extend(prefixes.into_iter().map(|name| name + "/"));
        names.sort();
        Self { names, more: false }
    }
}

/// A folder that a walk has entered.
struct OpenFolder {
    folder: String,
    level: std::vec::IntoIter<String>,
    /// The last of these names, if there are more.
    more: Option<String>,
}

impl OpenFolder {
    fn new(folder: String, level: FolderNames) -> Self {
        let more = level.names.last().filter(|_| level.more).cloned();
        Self { folder, level: level.names.into_iter(), more }
    }
}

/// A listing by walking folders: `level` returns the names in one, after a given name if any. Objects have only their
/// keys.
pub(crate) fn walk<'a, F>(
    prefix: &str,
    options: &ListOptions,
    level: impl Fn(String, Option<String>) -> F + Send + Sync + 'a,
) -> BoxStream<'a, Result<Entry>>
where
    F: Future<Output = Result<FolderNames>> + Send + 'a,
{
    struct StoreWalk<L> {
        level: L,
        options: ListOptions,
        open: Vec<OpenFolder>,
        begin: Option<String>,
    }
    let walk =
        StoreWalk { level, options: options.clone(), open: Vec::new(), begin: Some(prefix.to_owned()) };
    let entries = stream::try_unfold(walk, |mut walk| async move {
        loop {
            if let Some(folder) = walk.begin.take() {
                let level = (walk.level)(folder.clone(), None).await?;
                walk.open.push(OpenFolder::new(folder, level));
            }
            let Some(open) = walk.open.last_mut() else { return Ok::<_, Error>(None) };
            let Some(name) = open.level.next() else {
                let folder = open.folder.clone();
                match open.more.take() {
                    None => drop(walk.open.pop()),
                    more => *open = OpenFolder::new(folder.clone(), (walk.level)(folder, more).await?),
                }
                continue;
            };
            let path = join(&open.folder, &name);
            let entry = match path.strip_suffix('/') {
                Some(below) if walk.options.recursive => {
                    let after = walk.options.after.as_deref().unwrap_or_default();
                    if path.as_str() > after || after.starts_with(&path) {
                        walk.begin = Some(below.to_owned());
                    }
                    continue;
                }
                Some(below) => Entry::Prefix(below.to_owned()),
                None => Entry::Object(KeyEntry::new(path, ObjectMeta::Unknown)),
            };
            if !walk.options.is_past(&entry) {
                return Ok(Some((entry, walk)));
            }
        }
    });
    entries.boxed()
}

/// Requests the metadata of each object, if wanted. Objects deleted since they were listed are left out.
pub(crate) fn with_facts<'a, S: Store + ?Sized>(
    store: &'a S,
    options: &ListOptions,
    entries: BoxStream<'a, Result<Entry>>,
) -> BoxStream<'a, Result<Entry>> {
    if !options.facts {
        return entries;
    }
    let known = entries.map(move |entry| async move {
        match entry? {
            Entry::Object(KeyEntry { key, .. }) => {
                Ok(store.stat(&key).await?.map(|meta| Entry::Object(KeyEntry::new(key, meta))))
            }
            folder => Ok(Some(folder)),
        }
    });
    known.buffered(FACTS_AT_ONCE).try_filter_map(|entry| async { Ok(entry) }).boxed()
}

/// A callback that receives keys and their metadata one by one, until it returns `false`.
pub(crate) type See<'a> = &'a mut dyn FnMut(&str, &dyn Fn() -> ObjectMeta) -> bool;

/// A listing of keys that are locally available in order: `page` visits them from a bound on.
pub(crate) fn of_sorted<'a>(
    prefix: &str,
    options: &ListOptions,
    page: impl Fn(Bound<&str>, See<'_>) -> Result<()> + Send + Sync + 'a,
) -> BoxStream<'a, Result<Entry>> {
    let (start, recursive) = (join(prefix, ""), options.recursive);
    // `0` comes right after `/`: past everything in a folder.
    let past = |folder: &str| Bound::Included(format!("{folder}0"));
    let from = match options.after.as_deref().filter(|after| *after >= start.as_str()) {
        None => Bound::Included(start.clone()),
        Some(after) => {
            match after.get(start.len()..).and_then(|rest| rest.find('/')).filter(|_| !recursive) {
                Some(slash) => past(after.get(..start.len().saturating_add(slash)).unwrap_or(after)),
                None => Bound::Excluded(after.to_owned()),
            }
        }
    };
    let pages = stream::try_unfold((Some(from), start, page), move |(from, start, page)| async move {
        let Some(from) = from else { return Ok::<_, Error>(None) };
        let (mut found, mut next) = (Vec::new(), None);
        page(from.as_ref().map(String::as_str), &mut |key, meta| {
            let Some(rest) = key.strip_prefix(&start) else { return false };
            if let Some(slash) = rest.find('/').filter(|_| !recursive) {
                let folder = key.get(..start.len().saturating_add(slash)).unwrap_or(key);
                found.push(Ok(Entry::Prefix(folder.to_owned())));
                next = Some(past(folder));
                return false;
            }
            found.push(Ok(Entry::Object(KeyEntry::new(key.to_owned(), meta()))));
            if found.len() >= PAGE {
                next = Some(Bound::Excluded(key.to_owned()));
            }
            next.is_none()
        })?;
        Ok(Some((stream::iter(found), (next, start, page))))
    });
    pages.try_flatten().boxed()
}

/// A listing that fails.
pub(crate) fn failed<'a>(error: Error) -> BoxStream<'a, Result<Entry>> {
    stream::iter([Err(error)]).boxed()
}
