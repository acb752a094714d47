//! Digests of files that did not change, kept in a file.
//!
//! A digest is believed only if size, times, number and device of the file are what they were, to the nanosecond, and
//! if the file had been left alone for two seconds when it was hashed: what was written in the same tick of the file
//! system's clock may look the same and be something else. A cache that cannot be read is an empty one.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::digest::{ETag, Hashing};
use super::place;
use crate::error::{Error, Result};
use crate::store::local::sys;

/// The first line. A file that begins otherwise is not ours, and not overwritten.
const HEAD: &str = "zaro digest cache 1";

/// How long a file must have been left alone.
const SETTLED: Duration = Duration::from_secs(2);

/// What a file looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    device: u64,
    inode: u64,
    parts: bool,
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata, hashing: Hashing) -> Self {
        let [device, inode] = sys::file_id(meta);
        Self {
            size: meta.len(),
            modified: sys::modified(meta),
            // Never settled where it is not known, and so never believed.
            changed: sys::changed(meta).unwrap_or((i64::MAX, 0)),
            device,
            inode,
            parts: hashing == Hashing::Parts,
        }
    }

    fn is_settled(&self, now: Duration) -> bool {
        let latest = self.modified.max(self.changed);
        let before = now.saturating_sub(SETTLED);
        i64::try_from(before.as_secs()).is_ok_and(|s| latest < (s, i64::from(before.subsec_nanos())))
    }
}

/// The cache as it was when the work began.
#[derive(Debug)]
pub(crate) struct HashCache {
    path: PathBuf,
    /// The folder whose files are at hand, in full, with a slash at its end.
    root: String,
    known: HashMap<String, (Stamp, ETag)>,
    begun: Duration,
}

impl HashCache {
    /// Reads the cache at `path`, which need not exist, for the files of `root`.
    pub(crate) fn load(path: &Path, root: &Path) -> Result<Self> {
        let root = std::fs::canonicalize(root)?;
        let root = format!(
            "{}/",
            root.to_str().ok_or_else(|| Error::unsupported("a folder whose name is not UTF-8"))?
        );
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut known = HashMap::new();
        match std::fs::read(path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let mut lines = text.lines();
                match lines.next() {
                    Some(HEAD) => known.extend(lines.filter_map(line)),
                    None => {}
                    Some(_) => {
                        let message = format!("{} is not a digest cache; it was left alone", path.display());
                        return Err(Error::usage(message));
                    }
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::from(e).within(path.display())),
        }
        Ok(Self { path: path.to_owned(), root, known, begun })
    }

    /// The digest of a file that looks as it did.
    pub(crate) fn get(&self, key: &str, stamp: &Stamp) -> Option<ETag> {
        let (known, digest) = self.known.get(&format!("{}{key}", self.root))?;
        (known == stamp).then_some(*digest)
    }

    /// Writes what is known now. Files of other folders stay; those of this one that are gone go.
    pub(crate) fn save(mut self, now: Vec<(String, Stamp, ETag)>) -> Result<()> {
        let root = std::mem::take(&mut self.root);
        self.known.retain(|path, _| !path.starts_with(&root));
        let settled = now.into_iter().filter(|(_, stamp, _)| stamp.is_settled(self.begun));
        self.known.extend(settled.map(|(key, stamp, digest)| (format!("{root}{key}"), (stamp, digest))));
        let mut all: Vec<_> = self.known.into_iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let replaced = place::replace(&self.path, |out| {
            writeln!(out, "{HEAD}")?;
            for (path, (s, digest)) in all {
                // Names with line breaks are not worth a format of their own.
                if !path.contains(['\n', '\r']) {
                    let (m, c) = (s.modified, s.changed);
                    writeln!(
                        out,
                        "{} {} {} {} {} {} {} {} {digest} {path}",
                        s.size,
                        m.0,
                        m.1,
                        c.0,
                        c.1,
                        s.device,
                        s.inode,
                        u8::from(s.parts)
                    )?;
                }
            }
            Ok(())
        });
        replaced.map_err(|e| e.within("the digest cache"))
    }
}

fn line(line: &str) -> Option<(String, (Stamp, ETag))> {
    let mut words = line.splitn(10, ' ');
    let stamp = Stamp {
        size: words.next()?.parse().ok()?,
        modified: (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
        changed: (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
        device: words.next()?.parse().ok()?,
        inode: words.next()?.parse().ok()?,
        parts: words.next()? == "1",
    };
    let digest = ETag::parse(words.next()?)?;
    Some((words.next()?.to_owned(), (stamp, digest)))
}
