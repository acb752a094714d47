//! A cache file for digests of unchanged files.
//!
//! A digest is used only if size, timestamps, inode and device of the file are unchanged, to the nanosecond, and if the
//! file had not been modified for two seconds when it was hashed: a write in the same tick of the file system's clock
//! leaves the timestamps as they were. A cache that cannot be read counts as empty.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::digest::{ETag, Hashing};
use super::place;
use crate::error::{Error, Result};
use crate::store::local::sys;

/// The first line. A file that begins otherwise is not a cache, and is not overwritten.
const HEAD: &str = "zaro digest cache 1";

/// How long a file must not have been modified.
const SETTLED: Duration = Duration::from_secs(2);

/// Size, timestamps, inode and device of a file.
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

/// The cache as it was loaded.
#[derive(Debug)]
pub(crate) struct HashCache {
    path: PathBuf,
    /// The absolute path of the folder that is hashed, with a slash at the end.
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
            root.to_str().ok_or_else(|| Error::unsupported("the name of the folder is not valid UTF-8"))?
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
                        let message =
                            format!("{} is not a digest cache; it was left unchanged", path.display());
                        return Err(Error::usage(message));
                    }
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::from(e).within(path.display())),
        }
        Ok(Self { path: path.to_owned(), root, known, begun })
    }

    /// The digest of an unchanged file.
    pub(crate) fn get(&self, key: &str, stamp: &Stamp) -> Option<ETag> {
        let (known, digest) = self.known.get(&format!("{}{key}", self.root))?;
        (known == stamp).then_some(*digest)
    }

    /// Writes the cache. Files of other folders are kept; deleted files of this one are dropped.
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
