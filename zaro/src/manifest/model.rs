//! In-memory representation of a manifest: 64 bytes per entry, plus its name.
//!
//! Entries of one directory are contiguous, sorted by name, and so are its directories; names are in one arena. A path
//! is found by one binary search per level. Directories come after everything inside them, the root last, so what is
//! computed from a directory's contents — digests, sizes — takes one pass over the table.

use super::digest::{Digest, ETag};
use super::pack::{Beside, PackedEntry};
use crate::num;
use crate::time::Time;

pub use super::pack::EntryRef;

/// Which fields the entries of a manifest have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// `versionId`
    pub version: bool,
    /// `lastModified`
    pub modified: bool,
    /// `size`
    pub size: bool,
    /// `ETag`
    pub etag: bool,
}

impl Fields {
    /// All four, as a bucket gives them.
    pub const ALL: Self = Self { version: true, modified: true, size: true, etag: true };
    /// All but versions, as a folder has them.
    pub const LOCAL: Self = Self { version: false, modified: true, size: true, etag: true };

    /// Their names, in the recommended order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.version, "versionId"),
            (self.modified, "lastModified"),
            (self.size, "size"),
            (self.etag, "ETag"),
        ];
        all.into_iter().filter(|(there, _)| *there).map(|(_, name)| name)
    }

    /// Whether a checksum can be computed from them.
    #[must_use]
    pub fn tell_content(&self) -> bool {
        self.size && self.etag
    }
}

/// One entry, by value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// The version's name.
    pub version: Option<String>,
    /// When it was made.
    pub modified: Option<Time>,
    /// How many bytes.
    pub size: u64,
    /// Its `ETag`, without quotes.
    pub etag: Option<String>,
}

impl Entry {
    /// The same by reference.
    #[must_use]
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef {
            version: self.version.as_deref(),
            modified: self.modified,
            size: self.size,
            etag: self.etag.as_deref(),
        }
    }
}

/// Statistics of the Zarr, as stated by a manifest or as counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// How many entries.
    pub entries: Option<u64>,
    /// Number of directories above the deepest entry.
    pub depth: Option<u64>,
    /// How many bytes in all.
    pub total_size: Option<u64>,
    /// When the Zarr was last modified, including deletions.
    pub last_modified: Option<Time>,
    /// Its checksum, as text: a stated one may be anything.
    pub checksum: Option<String>,
    /// The checksum according to the archive, if it differs; `Some(None)` if the archive had none.
    pub mismatch: Option<Option<String>>,
}

/// The names of all entries and directories, one after another, each preceded by its length.
#[derive(Debug, Default, Clone)]
pub(crate) struct Names(pub(crate) Vec<u8>);

impl Names {
    /// The name that begins at `at`.
    pub(crate) fn get(&self, at: u32) -> &str {
        let from = usize::try_from(at).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let name = match from {
            [first, rest @ ..] if *first < 0x80 => rest.get(..usize::from(*first)),
            [first, second, rest @ ..] => rest.get(..usize::from(first & 0x7f) << 8 | usize::from(*second)),
            _ => None,
        };
        // Only names that were text went in.
        std::str::from_utf8(name.unwrap_or_default()).unwrap_or_default()
    }
}

/// A directory: where its name is, and which rows of both tables are in it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DirRow {
    pub(crate) name: u32,
    pub(crate) first: u32,
    pub(crate) files: u32,
    pub(crate) first_dir: u32,
    pub(crate) dirs: u32,
}

/// A version of a Zarr: its objects with their versions, sizes and digests.
#[derive(Debug, Clone)]
pub struct Manifest {
    pub(crate) fields: Fields,
    pub(crate) rows: Vec<PackedEntry>,
    /// The root is the last.
    pub(crate) dirs: Vec<DirRow>,
    pub(crate) names: Names,
    pub(crate) beside: Beside,
    pub(crate) depth: u64,
    pub(crate) total_size: u64,
    pub(crate) stated: Statistics,
    pub(crate) schema_version: Option<u64>,
}

impl Manifest {
    /// Which fields the entries have.
    #[must_use]
    pub fn fields(&self) -> Fields {
        self.fields
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many directories there are, the root included.
    #[must_use]
    pub fn dir_count(&self) -> usize {
        self.dirs.len()
    }

    /// The statistics stated by the document; empty for a manifest that was not read from one.
    #[must_use]
    pub fn stated(&self) -> &Statistics {
        &self.stated
    }

    /// The `schemaVersion` of the document, if it had one.
    #[must_use]
    pub fn schema_version(&self) -> Option<u64> {
        self.schema_version
    }

    /// How many directories are above the deepest entry.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// How many bytes all entries have.
    #[must_use]
    pub fn total_size(&self) -> u64 {
        self.total_size
    }

    /// The newest of the entries' times.
    #[must_use]
    pub fn newest(&self) -> Option<Time> {
        self.rows.iter().filter_map(|r| r.modified(&self.beside)).max()
    }

    /// The top.
    #[must_use]
    pub fn root(&self) -> Dir<'_> {
        self.dir_at(self.dirs.len().saturating_sub(1))
    }

    pub(crate) fn dir_at(&self, index: usize) -> Dir<'_> {
        Dir { manifest: self, row: self.dirs.get(index).copied().unwrap_or_default(), index }
    }

    /// The entry at `path`.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Leaf<'_>> {
        match path.rsplit_once('/') {
            Some((dir, name)) => self.dir(dir)?.leaf(name),
            None => self.root().leaf(path),
        }
    }

    /// The directory at `path`; the root at `""`.
    #[must_use]
    pub fn dir(&self, path: &str) -> Option<Dir<'_>> {
        if path.is_empty() {
            return Some(self.root());
        }
        path.split('/').try_fold(self.root(), |dir, name| dir.dir(name))
    }

    /// All entries with their keys, in the order of an S3 listing, sorted by full key.
    #[must_use]
    pub fn walk(&self) -> Walk<'_> {
        Walk::new(self.root(), "")
    }

    /// As [`Manifest::walk`], below the directory `path`; empty if there is none.
    #[must_use]
    pub fn walk_below(&self, path: &str) -> Walk<'_> {
        match self.dir(path) {
            Some(dir) => Walk::new(dir, path),
            None => Walk { path: String::new(), open: Vec::new() },
        }
    }

    /// As [`Manifest::walk`], from the first key on that is not before `from`. Nothing before it is visited, so that
    /// a listing can be continued anywhere.
    #[must_use]
    pub fn walk_from(&self, from: &str) -> Walk<'_> {
        let mut walk = self.walk();
        walk.seek(from);
        walk
    }

    /// How many bytes of memory the manifest takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<PackedEntry>()
            + self.dirs.capacity() * size_of::<DirRow>()
            + self.names.0.capacity()
            + self.beside.memory()
    }
}

/// A directory of a manifest.
#[derive(Debug, Clone, Copy)]
pub struct Dir<'m> {
    manifest: &'m Manifest,
    row: DirRow,
    index: usize,
}

/// Rows `first .. first + count` of a table.
fn part<T>(table: &[T], first: u32, count: u32) -> &[T] {
    let range = usize::try_from(first).ok().zip(usize::try_from(count).ok());
    range.and_then(|(f, n)| table.get(f..f.checked_add(n)?)).unwrap_or_default()
}

impl<'m> Dir<'m> {
    /// Its name; empty for the root.
    #[must_use]
    pub fn name(&self) -> &'m str {
        self.manifest.names.get(self.row.name)
    }

    /// Its index among all directories, which is also that of its digest.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    fn rows(&self) -> &'m [PackedEntry] {
        part(&self.manifest.rows, self.row.first, self.row.files)
    }

    fn dir_rows(&self) -> &'m [DirRow] {
        part(&self.manifest.dirs, self.row.first_dir, self.row.dirs)
    }

    /// The entries directly in it, by name.
    pub fn files(&self) -> impl ExactSizeIterator<Item = Leaf<'m>> + use<'m> {
        let manifest = self.manifest;
        self.rows().iter().map(move |row| Leaf { manifest, row })
    }

    /// The directories directly in it, by name.
    pub fn dirs(&self) -> impl ExactSizeIterator<Item = Dir<'m>> + use<'m> {
        let (manifest, first) = (self.manifest, usize::try_from(self.row.first_dir).unwrap_or(usize::MAX));
        self.dir_rows().iter().enumerate().map(move |(i, row)| Dir {
            manifest,
            row: *row,
            index: first.saturating_add(i),
        })
    }

    /// The entry called `name` directly in it.
    #[must_use]
    pub fn leaf(&self, name: &str) -> Option<Leaf<'m>> {
        let (rows, names) = (self.rows(), &self.manifest.names);
        let at = rows.binary_search_by(|row| names.get(row.name).cmp(name)).ok()?;
        rows.get(at).map(|row| Leaf { manifest: self.manifest, row })
    }

    /// The directory called `name` directly in it.
    #[must_use]
    pub fn dir(&self, name: &str) -> Option<Dir<'m>> {
        let (rows, names) = (self.dir_rows(), &self.manifest.names);
        let at = rows.binary_search_by(|row| names.get(row.name).cmp(name)).ok()?;
        let first = usize::try_from(self.row.first_dir).unwrap_or(usize::MAX);
        rows.get(at).map(|row| Dir { manifest: self.manifest, row: *row, index: first.saturating_add(at) })
    }
}

/// An entry of a manifest.
#[derive(Debug, Clone, Copy)]
pub struct Leaf<'m> {
    manifest: &'m Manifest,
    row: &'m PackedEntry,
}

impl<'m> Leaf<'m> {
    /// The last part of its key.
    #[must_use]
    pub fn name(&self) -> &'m str {
        self.manifest.names.get(self.row.name)
    }

    /// How many bytes it has.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.row.size
    }

    /// When it was made.
    #[must_use]
    pub fn modified(&self) -> Option<Time> {
        self.row.modified(&self.manifest.beside)
    }

    /// The version's name.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        pushed(|out| self.push_version(out))
    }

    /// Its `ETag`, without quotes.
    #[must_use]
    pub fn etag(&self) -> Option<String> {
        pushed(|out| self.push_etag(out))
    }

    /// Appends the version's name; whether there is one.
    pub(crate) fn push_version(&self, out: &mut Vec<u8>) -> bool {
        self.row.push_version(&self.manifest.beside, out)
    }

    /// Appends the `ETag`; whether there is one.
    pub(crate) fn push_etag(&self, out: &mut Vec<u8>) -> bool {
        self.row.push_etag(&self.manifest.beside, out)
    }

    /// Whether version and `ETag` need no escapes in JSON.
    pub(crate) fn is_plain(&self) -> bool {
        self.row.is_plain()
    }

    /// The digest in the `ETag`, if it is one.
    #[must_use]
    pub fn digest(&self) -> Option<ETag> {
        self.row.etag()
    }

    /// All of it, by value.
    #[must_use]
    pub fn entry(&self) -> Entry {
        Entry { version: self.version(), modified: self.modified(), size: self.size(), etag: self.etag() }
    }

    /// Whether both have the same size and `ETag`.
    #[must_use]
    pub fn same_content(&self, other: &Leaf<'_>) -> bool {
        self.size() == other.size()
            && match (self.digest(), other.digest()) {
                (Some(a), Some(b)) => a == b,
                _ => self.etag() == other.etag(),
            }
    }
}

/// The text that `push` appends, if there is one.
fn pushed(push: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<String> {
    let mut out = Vec::new();
    push(&mut out).then(|| String::from_utf8(out).unwrap_or_default())
}

/// The digests of all directories of a manifest.
#[derive(Debug, Clone)]
pub struct Digests(pub(crate) Vec<Digest>);

impl Digests {
    /// The digest of a directory of the manifest they were made of.
    #[must_use]
    pub fn of(&self, dir: &Dir<'_>) -> Digest {
        self.0.get(dir.index()).copied().unwrap_or(Digest::EMPTY)
    }

    /// The digest of the root: the Zarr's checksum.
    #[must_use]
    pub fn root(&self) -> Digest {
        self.0.last().copied().unwrap_or(Digest::EMPTY)
    }
}

/// Entries with their keys; see [`Manifest::walk`].
#[derive(Debug)]
pub struct Walk<'m> {
    path: String,
    open: Vec<Open<'m>>,
}

#[derive(Debug)]
struct Open<'m> {
    /// How long the path is up to and with this directory's slash.
    length: usize,
    dir: Dir<'m>,
    /// How many of each were visited.
    files: usize,
    dirs: usize,
    /// Its directories in key order, if that differs from name order: `a.b/` comes before `a/`.
    order: Option<Vec<usize>>,
}

impl<'m> Open<'m> {
    fn new(length: usize, dir: Dir<'m>) -> Self {
        let (rows, names) = (dir.dir_rows(), &dir.manifest.names);
        let key = |row: &DirRow| names.get(row.name).bytes().chain([b'/']);
        let order = (!rows.is_sorted_by(|a, b| key(a).le(key(b)))).then(|| {
            let mut order: Vec<usize> = (0..rows.len()).collect();
            order.sort_by(|a, b| match (rows.get(*a), rows.get(*b)) {
                (Some(a), Some(b)) => key(a).cmp(key(b)),
                _ => a.cmp(b),
            });
            order
        });
        Self { length, dir, files: 0, dirs: 0, order }
    }

    /// The place of the next directory.
    fn next_dir(&self) -> usize {
        self.order.as_ref().map_or(self.dirs, |o| o.get(self.dirs).copied().unwrap_or(usize::MAX))
    }
}

impl<'m> Walk<'m> {
    fn new(dir: Dir<'m>, path: &str) -> Self {
        let path = if path.is_empty() { String::new() } else { format!("{path}/") };
        let open = vec![Open::new(path.len(), dir)];
        Self { path, open }
    }

    /// Moves from the start to the first key that is not before `from`: one binary search per level.
    fn seek(&mut self, from: &str) {
        let mut rest = from;
        while let Some(top) = self.open.last_mut() {
            let (rows, dirs, manifest) = (top.dir.rows(), top.dir.dir_rows(), top.dir.manifest);
            let names = &manifest.names;
            let inside = |name: &str| rest.strip_prefix(name).and_then(|rest| rest.strip_prefix('/'));
            let is_before = |row: &DirRow| {
                let name = names.get(row.name);
                name.bytes().chain([b'/']).lt(rest.bytes()) && inside(name).is_none()
            };
            top.files = rows.partition_point(|row| names.get(row.name) < rest);
            top.dirs = match &top.order {
                Some(order) => order.partition_point(|at| dirs.get(*at).is_some_and(is_before)),
                None => dirs.partition_point(is_before),
            };
            let at = top.next_dir();
            let Some((row, below)) = dirs.get(at).and_then(|row| Some((*row, inside(names.get(row.name))?)))
            else {
                return;
            };
            rest = below;
            top.dirs += 1;
            let first = usize::try_from(top.dir.row.first_dir).unwrap_or(usize::MAX);
            let next = Dir { manifest, row, index: first.saturating_add(at) };
            self.path.push_str(next.name());
            self.path.push('/');
            self.open.push(Open::new(self.path.len(), next));
        }
    }

    /// The next key and its entry. Not an iterator: the key is valid only until the next call.
    #[allow(clippy::should_implement_trait, reason = "the key is borrowed from the walk")]
    pub fn next(&mut self) -> Option<(&str, Leaf<'m>)> {
        loop {
            let top = self.open.last_mut()?;
            self.path.truncate(top.length);
            let manifest = top.dir.manifest;
            let file = top.dir.rows().get(top.files);
            let at = top.next_dir();
            let dir = top.dir.dir_rows().get(at);
            let names = &manifest.names;
            let file_first = match (file, dir) {
                (Some(f), Some(d)) => {
                    // As whole keys: a directory sorts as if its name ended in a slash.
                    names.get(f.name).bytes().lt(names.get(d.name).bytes().chain([b'/']))
                }
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => {
                    self.open.pop();
                    continue;
                }
            };
            if let Some(row) = file.filter(|_| file_first) {
                top.files += 1;
                self.path.push_str(names.get(row.name));
                return Some((&self.path, Leaf { manifest, row }));
            }
            let next = dir.map(|row| {
                let first = usize::try_from(top.dir.row.first_dir).unwrap_or(usize::MAX);
                Dir { manifest, row: *row, index: first.saturating_add(at) }
            })?;
            top.dirs += 1;
            self.path.push_str(next.name());
            self.path.push('/');
            self.open.push(Open::new(self.path.len(), next));
        }
    }
}

impl Manifest {
    /// Statistics counted from the entries, without the checksum; see [`Manifest::digests`].
    #[must_use]
    pub fn counted(&self) -> Statistics {
        Statistics {
            entries: Some(num::u64_of(self.rows.len())),
            depth: Some(self.depth),
            total_size: Some(self.total_size),
            last_modified: self.newest(),
            checksum: None,
            mismatch: None,
        }
    }
}
