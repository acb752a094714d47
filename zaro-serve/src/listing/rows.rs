//! One walk over a folder of a source, as rows for whoever writes them down.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use zaro::store::{Entry, KeyEntry, ListOptions, ObjectMeta, SharedStore};
use zaro::{Error, Result};

use crate::answer::etag_of;
use crate::sources::Source;

/// Objects that are asked for at once, where a listing does not tell their sizes.
const AT_ONCE: usize = 32;

/// Metadata documents whose names begin with a dot, as the index pages of most web servers leave them out. Sorted.
const DOTTED: [&str; 4] = [".zarray", ".zattrs", ".zgroup", ".zmetadata"];

/// An object or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its path below the folder that is listed, without a closing slash.
    pub(crate) path: String,
    /// Whether it is a folder.
    pub(crate) folder: bool,
    /// What is known of it.
    pub(crate) meta: ObjectMeta,
}

impl Row {
    /// A folder of this name.
    pub(crate) fn folder(path: String) -> Self {
        Self { path, folder: true, meta: ObjectMeta::Unknown }
    }

    /// The last part of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Its size, if it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.meta.size()
    }

    /// When it was last modified, if that is known.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        self.meta.modified()
    }

    /// The tag that a GET of it would have, quoted. A text of the library's own is not one yet: an archive adds its own
    /// state to that of an entry only when the entry is asked for by itself.
    pub(crate) fn tag(&self) -> Option<String> {
        match &self.meta {
            ObjectMeta::Remote(remote) if remote.etag.as_deref().is_none_or(|tag| tag.contains(' ')) => None,
            meta => etag_of(meta),
        }
    }
}

/// What is listed, and how far.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    /// The source.
    pub(crate) source: Arc<Source>,
    /// The folder: a key without a closing slash, or `""`.
    pub(crate) key: String,
    /// Everything below it, or only what lies directly in it.
    pub(crate) all: bool,
    /// Only what comes after this name, which has a closing slash if it is a folder's.
    pub(crate) after: Option<String>,
    /// Ask for sizes that a listing of a remote store does not tell: one request an object.
    pub(crate) ask: bool,
}

impl Walk {
    /// A walk over what lies directly in a folder, with what is known at no cost.
    pub(crate) fn of(source: &Arc<Source>, key: &str) -> Self {
        Self { source: source.clone(), key: key.to_owned(), all: false, after: None, ask: false }
    }

    /// Whether the store is a local one, so that a look at an object costs no request, but blocks.
    pub(crate) fn is_local(&self) -> bool {
        self.source.store().direct().is_some()
    }

    fn entries(&self) -> BoxStream<'_, Result<Entry>> {
        let start = self.start();
        let after = self.after.as_ref().map(|after| format!("{start}{after}"));
        let options = ListOptions::default().with_recursive(self.all).with_after(after);
        let listed = self.source.store().list_opts(&self.key, &options);
        if self.all || self.source.store().facts().lists_all {
            return listed;
        }
        self.with_dotted(listed)
    }

    /// Adds the documents that an index page does not show, unless it shows some: a copy made by the listing of a V2 Zarr
    /// would lack its metadata.
    fn with_dotted<'a>(&'a self, listed: BoxStream<'a, Result<Entry>>) -> BoxStream<'a, Result<Entry>> {
        let (store, start) = (self.source.store(), self.start());
        let name_of = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let added =
            async move {
                let mut listed = listed.peekable();
                let shown = match std::pin::Pin::new(&mut listed).peek().await {
                    Some(Ok(entry)) => name_of(entry.path()).starts_with('.'),
                    // What cannot be listed is not listed.
                    Some(Err(_)) => true,
                    None => false,
                };
                let asked = DOTTED
                    .iter()
                    .filter(|name| !shown && self.after.as_deref().is_none_or(|after| after < **name));
                let found =
                    futures::future::join_all(asked.map(|name| {
                        let key = format!("{start}{name}");
                        async move {
                            Ok(store.stat(&key).await?.map(|meta| Entry::Object(KeyEntry::new(key, meta))))
                        }
                    }));
                let found = found.await.into_iter().filter_map(Result::transpose);
                // A page in an order of its own may show them later.
                let rest = listed.try_filter(move |entry| {
                    std::future::ready(shown || !DOTTED.contains(&name_of(entry.path()).as_str()))
                });
                stream::iter(found.collect::<Vec<_>>()).chain(rest)
            };
        stream::once(added).flatten().boxed()
    }

    /// What the keys of all entries begin with.
    fn start(&self) -> String {
        if self.key.is_empty() { String::new() } else { format!("{}/", self.key) }
    }

    /// The rows in the order of the store. Of a walk over everything, each folder comes before what is in it.
    pub(crate) fn rows(&self) -> BoxStream<'_, Result<Row>> {
        let (store, start) = (self.source.store(), self.start().len());
        let (local, ask) = (self.is_local(), self.ask);
        let found = self.entries().map(move |entry| async move {
            match entry? {
                Entry::Prefix(path) => {
                    let path = path.get(start..).unwrap_or_default().to_owned();
                    Ok(Some(Row::folder(path)))
                }
                Entry::Object(object) => {
                    let path = object.key.get(start..).unwrap_or_default().to_owned();
                    let meta = look(store, object, local, ask).await?;
                    Ok(meta.map(|meta| Row { path, folder: false, meta }))
                }
            }
        });
        let rows = found.buffered(AT_ONCE).try_filter_map(|row| async { Ok(row) });
        if !self.all {
            return rows.boxed();
        }
        let mut seen = Folders::default();
        rows.map_ok(move |row| stream::iter(seen.before(row).into_iter().map(Ok))).try_flatten().boxed()
    }

    /// Whether everything below the folder is at hand: no more than `most` rows, counted within `time`.
    pub(crate) async fn is_at_hand(&self, most: usize, time: Duration) -> Result<bool> {
        let (until, mut count) = (Instant::now() + time, 0usize);
        let (mut entries, mut seen, local) = (self.entries(), Folders::default(), self.is_local());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let entry = match tokio::time::timeout(left, entries.try_next()).await {
                Ok(Ok(Some(entry))) => entry,
                Ok(Ok(None)) => return Ok(true),
                Ok(Err(e)) => return Err(e),
                Err(_) => return Ok(false),
            };
            // A request for every object is too much.
            if !local && matches!(&entry, Entry::Object(object) if object.meta.size().is_none()) {
                return Ok(false);
            }
            count = count.saturating_add(1);
            seen.note(entry.path());
            if count.saturating_add(seen.paths.len()) > most {
                return Ok(false);
            }
            // A local store never waits: others want to be served, too.
            if count.is_multiple_of(256) {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// What is known of an object; `None` if it was deleted since it was listed.
async fn look(store: &SharedStore, object: KeyEntry, local: bool, ask: bool) -> Result<Option<ObjectMeta>> {
    if object.meta.size().is_some() || !(local || ask) {
        return Ok(Some(object.meta));
    }
    match store.stat(&object.key).await {
        // A broken link or a socket is in its folder all the same; who reads it gets the reason.
        Err(_) if local => Ok(Some(ObjectMeta::Unknown)),
        other => other,
    }
}

/// The folders that were passed on a walk over everything.
#[derive(Debug, Default)]
struct Folders {
    paths: HashSet<String>,
    /// The last one, since neighbours are in one folder mostly.
    last: String,
}

impl Folders {
    /// Notes the folders of `path`; those that are new, outermost first.
    fn note(&mut self, path: &str) -> Vec<String> {
        let Some((above, _)) = path.rsplit_once('/') else { return Vec::new() };
        if above == self.last {
            return Vec::new();
        }
        above.clone_into(&mut self.last);
        let ends = above.match_indices('/').map(|(at, _)| at).chain([above.len()]);
        let folders = ends.filter_map(|end| above.get(..end)).filter(|folder| !folder.is_empty());
        folders.filter(|folder| self.paths.insert((*folder).to_owned())).map(str::to_owned).collect()
    }

    /// The row, after those of its folders that were not passed yet.
    fn before(&mut self, row: Row) -> Vec<Row> {
        let mut out: Vec<Row> = self.note(&row.path).into_iter().map(Row::folder).collect();
        out.push(row);
        out
    }
}

/// An error for a stream that ended before its end.
pub(super) fn cut_short() -> Error {
    Error::io("the listing was cut short")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_once_and_before_what_is_in_them() {
        let mut folders = Folders::default();
        assert_eq!(folders.note("a"), Vec::<String>::new());
        assert_eq!(folders.note("a/b/c"), ["a", "a/b"]);
        assert_eq!(folders.note("a/b/d"), Vec::<String>::new());
        assert_eq!(folders.note("a/e/f"), ["a/e"]);
        // A store with an order of its own may come back.
        assert_eq!(folders.note("a/b/g"), Vec::<String>::new());
        assert_eq!(folders.paths.len(), 3);
    }

    #[test]
    fn tags_are_those_of_the_object_itself() {
        use zaro::store::RemoteMeta;
        let row = |etag: Option<&str>| {
            let meta = RemoteMeta { etag: etag.map(str::to_owned), size: Some(3), ..RemoteMeta::default() };
            Row { path: "a".to_owned(), folder: false, meta: meta.into() }.tag()
        };
        assert_eq!(row(Some("\"abc\"")).unwrap(), "\"abc\"");
        assert_eq!((row(Some("1f 3 0 ")), row(None)), (None, None));
    }
}
