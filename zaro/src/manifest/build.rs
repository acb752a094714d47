//! Builds a manifest: directories are opened, get their entries, and are closed.
//!
//! Entries go straight to the table while their directory has no subdirectories; otherwise they are buffered until it
//! is closed, so that they are contiguous. Only then are names compared: sorted input, as from S3 and nearly every
//! document, costs one comparison per name.

use super::model::{DirRow, Fields, Manifest, Names, Statistics};
use super::pack::{Beside, EntryRef, PackedEntry};
use crate::error::{Error, Result, invalid};

/// Maximum nesting of directories. Keys of S3 have at most 1024 bytes.
const MAX_DEPTH: usize = 1024;

/// Maximum length of a name.
const MAX_NAME: usize = 0x7fff;

/// A manifest that is being built.
#[derive(Debug)]
pub struct Builder {
    made: Manifest,
    open: Vec<DirectoryFrame>,
    /// The path of the innermost open directory, with a slash at its end; kept by [`Builder::push`] only.
    path: String,
}

#[derive(Debug, Default)]
struct DirectoryFrame {
    name: u32,
    /// Where its rows begin in the table.
    first: usize,
    /// Whether its rows are buffered here instead, because subdirectories came in between.
    apart: bool,
    rows: Vec<PackedEntry>,
    dirs: Vec<DirRow>,
    /// How long the path is with this directory's slash.
    length: usize,
}

fn number(n: usize) -> Result<u32> {
    u32::try_from(n)
        .map_err(|_| Error::unsupported("a manifest cannot have more than 2^32 entries or bytes of names"))
}

/// Refuses a name that a manifest cannot hold.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let fault = if name.is_empty() {
        "is empty"
    } else if name == "." || name == ".." {
        "is a relative path component"
    } else if name.contains('/') {
        "contains a slash"
    } else if name.contains('\0') {
        "contains a NUL character"
    } else if name.len() > MAX_NAME {
        "is too long"
    } else {
        return Ok(());
    };
    Err(invalid!("a manifest cannot hold the name {:?}, which {fault}", clipped(name)))
}

fn clipped(name: &str) -> String {
    if name.chars().count() > 80 { name.chars().take(80).chain(['…']).collect() } else { name.to_owned() }
}

impl Builder {
    /// Begins a manifest whose entries have these fields.
    #[must_use]
    pub fn new(fields: Fields) -> Self {
        let made = Manifest {
            fields,
            rows: Vec::new(),
            dirs: Vec::new(),
            names: Names::default(),
            beside: Beside::default(),
            depth: 0,
            total_size: 0,
            stated: Statistics::default(),
            schema_version: None,
        };
        let mut builder = Self { made, open: vec![DirectoryFrame::default()], path: String::new() };
        // The root's name is the empty one at the start of the arena.
        builder.made.names.0.push(0);
        builder
    }

    /// Sets the fields of entries, once they are known.
    pub(crate) fn set_fields(&mut self, fields: Fields) {
        self.made.fields = fields;
    }

    /// Sets the statistics that the document states.
    pub(crate) fn set_stated(&mut self, stated: Statistics, schema_version: Option<u64>) {
        self.made.stated = stated;
        self.made.schema_version = schema_version;
    }

    /// The path of the innermost open directory, and of `name` in it.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        let open = self.open.iter().skip(1).map(|f| self.made.names.get(f.name));
        open.chain([name]).filter(|n| !n.is_empty()).collect::<Vec<_>>().join("/")
    }

    fn keep_name(&mut self, name: &str) -> Result<u32> {
        check_name(name).map_err(|e| e.with_key(self.path_of(name)))?;
        let names = &mut self.made.names.0;
        let at = number(names.len())?;
        let [high, low] = u16::try_from(name.len()).unwrap_or(0).to_be_bytes();
        if high == 0 && low < 0x80 {
            names.push(low);
        } else {
            names.extend_from_slice(&[high | 0x80, low]);
        }
        names.extend_from_slice(name.as_bytes());
        Ok(at)
    }

    /// Opens a directory in the innermost open one.
    pub fn open(&mut self, name: &str) -> Result<()> {
        if self.open.len() > MAX_DEPTH {
            let message = format!("directories are nested more than {MAX_DEPTH} levels deep");
            return Err(Error::unsupported(message).with_key(clipped(&self.path_of(name))));
        }
        let name = self.keep_name(name)?;
        let made = &mut self.made;
        if let Some(parent) = self.open.last_mut()
            && !parent.apart
        {
            parent.apart = true;
            parent.rows.extend(made.rows.drain(parent.first.min(made.rows.len())..));
        }
        self.open.push(DirectoryFrame { name, first: made.rows.len(), ..DirectoryFrame::default() });
        Ok(())
    }

    /// Adds an entry to the innermost open directory.
    pub fn leaf(&mut self, name: &str, entry: &EntryRef<'_>) -> Result<()> {
        let at = self.keep_name(name)?;
        let row = PackedEntry::new(at, entry, &mut self.made.beside)?;
        let made = &mut self.made;
        made.total_size = made.total_size.checked_add(entry.size).ok_or_else(|| {
            Error::invalid("the total size of all entries does not fit into 64 bits").with_key(name)
        })?;
        made.depth = made.depth.max(crate::num::u64_of(self.open.len().saturating_sub(1)));
        match self.open.last_mut() {
            Some(frame) if frame.apart => frame.rows.push(row),
            _ => made.rows.push(row),
        }
        Ok(())
    }

    /// Closes the innermost open directory. One with nothing in it does not exist.
    pub fn close(&mut self) -> Result<()> {
        let Some(mut frame) = self.open.pop() else {
            return Err(Error::usage("no directory is open"));
        };
        let made = &mut self.made;
        if frame.apart {
            frame.first = made.rows.len();
            made.rows.append(&mut frame.rows);
        }
        let names = &made.names;
        let rows = made.rows.get_mut(frame.first..).unwrap_or_default();
        if !rows.is_sorted_by(|a, b| names.get(a.name) <= names.get(b.name)) {
            rows.sort_unstable_by(|a, b| names.get(a.name).cmp(names.get(b.name)));
        }
        frame.dirs.sort_unstable_by(|a, b| names.get(a.name).cmp(names.get(b.name)));
        let same = |a: u32, b: u32| names.get(a) == names.get(b);
        let twin = rows.array_windows().find(|[a, b]| same(a.name, b.name));
        let twin = twin.map(|[a, _]| (names.get(a.name), "two entries")).or_else(|| {
            let twin = frame.dirs.array_windows().find(|[a, b]| same(a.name, b.name));
            twin.map(|[a, _]| (names.get(a.name), "two directories"))
        });
        let twin = twin.or_else(|| {
            let both =
                |d: &&DirRow| rows.binary_search_by(|r| names.get(r.name).cmp(names.get(d.name))).is_ok();
            frame.dirs.iter().find(both).map(|d| (names.get(d.name), "an entry and a directory"))
        });
        if let Some((name, what)) = twin {
            // The directory itself is closed already.
            let own = made.names.get(frame.name).to_owned();
            let name = if own.is_empty() { name.to_owned() } else { format!("{own}/{name}") };
            let key = self.path_of(&name);
            let message = format!("{what} have the same name, which a manifest cannot hold: {key:?}");
            return Err(Error::invalid(message).with_key(key));
        }
        let row = DirRow {
            name: frame.name,
            first: number(frame.first)?,
            files: number(rows.len())?,
            first_dir: number(made.dirs.len())?,
            dirs: number(frame.dirs.len())?,
        };
        made.dirs.append(&mut frame.dirs);
        match self.open.last_mut() {
            Some(_) if row.files == 0 && row.dirs == 0 => {}
            Some(parent) => parent.dirs.push(row),
            None => made.dirs.push(row),
        }
        Ok(())
    }

    /// Adds the entry of a full key. Keys must be sorted by their bytes, as S3 lists them; directories are opened and
    /// closed as needed. Not to be mixed with [`Builder::open`] and [`Builder::close`].
    pub fn push(&mut self, key: &str, entry: &EntryRef<'_>) -> Result<()> {
        while !key.starts_with(&self.path) {
            self.close().map_err(|e| unsorted(e, key))?;
            let length = self.open.last().map_or(0, |f| f.length);
            self.path.truncate(length);
        }
        let mut rest = key.get(self.path.len()..).unwrap_or_default();
        while let Some((dir, below)) = rest.split_once('/') {
            self.open(dir).map_err(|e| e.with_key(key))?;
            self.path.push_str(dir);
            self.path.push('/');
            if let Some(frame) = self.open.last_mut() {
                frame.length = self.path.len();
            }
            rest = below;
        }
        self.leaf(rest, entry).map_err(|e| e.with_key(key))
    }

    /// Finishes the manifest.
    pub fn finish(mut self) -> Result<Manifest> {
        while !self.open.is_empty() {
            self.close()?;
        }
        let made = &mut self.made;
        made.rows.shrink_to_fit();
        made.dirs.shrink_to_fit();
        made.names.0.shrink_to_fit();
        made.beside.shrink();
        Ok(self.made)
    }
}

fn unsorted(e: Error, key: &str) -> Error {
    if e.message().starts_with("two directories") {
        return Error::usage("the key is out of order; keys must be sorted by their bytes").with_key(key);
    }
    e
}
