//! The history of a Zarr in a versioned bucket: every state it ever had.
//!
//! Each put and each deletion makes a new state. They are replayed in order on one tree, whose directories cache their
//! digests: a change costs the directories above it, not the whole Zarr. Only the tree and the list of changes are held
//! in memory, however many states there are.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use md5::{Digest as _, Md5};

use super::{BucketZarr, time_of};
use crate::boxed;
use crate::error::{Error, Result};
use crate::manifest::checksum::{DIRECTORIES, END, FILES, add, push_dir, push_member};
use crate::manifest::digest::Digest;
use crate::manifest::text;
use crate::store::object::versions::ObjectVersion;
use crate::time::Time;

/// A state of a Zarr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Timestamp of the last change that belongs to it.
    pub since: Time,
    /// Timestamp of the next change; `None` for the current state.
    pub until: Option<Time>,
    /// Its checksum, with the number of entries and bytes.
    pub checksum: Digest,
    /// Objects put (new or overwritten) since the previous state.
    pub put: u64,
    /// Objects deleted since the previous state.
    pub deleted: u64,
}

/// The changes of a Zarr, in order.
#[derive(Debug)]
pub struct History {
    changes: Vec<EntryChange>,
}

#[derive(Debug)]
struct EntryChange {
    at: Time,
    /// Position in the listing. Newer versions of a key are listed first, so this orders versions of one timestamp.
    rank: u64,
    path: Box<str>,
    /// Size and digest; `None` for a deletion.
    content: Option<(u64, Box<str>)>,
}

impl History {
    /// Lists the versions of a Zarr.
    #[boxed]
    pub async fn of(zarr: &BucketZarr) -> Result<Self> {
        let mut pages = zarr.bucket().versions(zarr.prefix());
        let mut changes: Vec<EntryChange> = Vec::new();
        while let Some(page) = pages.try_next().await? {
            for version in &page {
                changes.push(change(zarr, version, crate::num::u64_of(changes.len()))?);
            }
        }
        changes.sort_by(|a, b| {
            a.at.cmp(&b.at).then_with(|| a.path.cmp(&b.path)).then_with(|| b.rank.cmp(&a.rank))
        });
        Ok(Self { changes })
    }

    /// How many changes there were.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Calls `see` with each state, from the first on. Changes that follow each other within `gap` seconds make one
    /// state; with 0, those of the same moment. A state that equals the one before it is left out.
    pub fn states(&self, gap: u64, mut see: impl FnMut(State) -> Result<()>) -> Result<()> {
        let mut tree = HashedDir::default();
        let mut held: Option<State> = None;
        let (mut put, mut deleted) = (0, 0);
        let mut at = 0;
        while let Some(change) = self.changes.get(at) {
            match &change.content {
                Some(content) => {
                    tree.set(&change.path, Some(content.clone()));
                    put += 1;
                }
                None => {
                    // Deleting what is not there changes nothing.
                    deleted += u64::from(tree.set(&change.path, None));
                }
            }
            at += 1;
            let next = self.changes.get(at).map(|c| c.at);
            if next.is_some_and(|next| is_within(change.at, next, gap)) {
                continue;
            }
            let checksum = tree.digest()?;
            if held.as_ref().is_some_and(|h| h.checksum == checksum) {
                continue;
            }
            if let Some(mut before) = held.take() {
                before.until = Some(change.at);
                see(before)?;
            }
            held = Some(State { since: change.at, until: None, checksum, put, deleted });
            (put, deleted) = (0, 0);
        }
        held.map_or(Ok(()), see)
    }
}

/// Whether two changes count as one state.
fn is_within(a: Time, b: Time, gap: u64) -> bool {
    if a == b {
        return true;
    }
    let seconds = i64::try_from(gap).unwrap_or(i64::MAX);
    let later = Time { seconds: a.seconds.saturating_add(seconds), ..a };
    gap > 0 && b <= later
}

fn change(zarr: &BucketZarr, version: &ObjectVersion, rank: u64) -> Result<EntryChange> {
    let path = zarr.path_of(version).filter(|p| !p.is_empty() && !p.split('/').any(str::is_empty));
    let Some(path) = path else {
        return Err(Error::invalid("the key has an empty path component")
            .with_key(&version.key)
            .with_store(zarr));
    };
    let content = (!version.deleted).then(|| (version.size, version.etag.clone().into_boxed_str()));
    Ok(EntryChange { at: time_of(version), rank, path: path.into(), content })
}

/// A directory with a cached digest, until something in it changes.
#[derive(Debug, Default)]
struct HashedDir {
    files: BTreeMap<Box<str>, (u64, Box<str>)>,
    dirs: BTreeMap<Box<str>, HashedDir>,
    known: Option<Digest>,
}

impl HashedDir {
    /// Sets or removes a file; whether anything changed.
    fn set(&mut self, path: &str, content: Option<(u64, Box<str>)>) -> bool {
        let changed = match (path.split_once('/'), content) {
            (None, Some(content)) => {
                self.files.insert(path.into(), content);
                true
            }
            (None, None) => self.files.remove(path).is_some(),
            (Some((name, rest)), Some(content)) => {
                self.dirs.entry(name.into()).or_default().set(rest, Some(content))
            }
            (Some((name, rest)), None) => match self.dirs.get_mut(name) {
                Some(dir) => {
                    let changed = dir.set(rest, None);
                    if dir.files.is_empty() && dir.dirs.is_empty() {
                        self.dirs.remove(name);
                    }
                    changed
                }
                None => false,
            },
        };
        if changed {
            self.known = None;
        }
        changed
    }

    fn digest(&mut self) -> Result<Digest> {
        if let Some(known) = self.known {
            return Ok(known);
        }
        let (mut json, mut total) = (DIRECTORIES.to_vec(), (0, 0));
        for (name, dir) in &mut self.dirs {
            let digest = dir.digest()?;
            push_dir(&mut json, name, &digest);
            add(&mut total, digest.count, digest.size)?;
        }
        json.extend_from_slice(FILES);
        for (i, (name, (size, digest))) in self.files.iter().enumerate() {
            push_member(&mut json, i == 0, |out| text::push_json(out, digest), name, *size);
            add(&mut total, 1, *size)?;
        }
        json.extend_from_slice(END);
        let digest = Digest { md5: Md5::digest(&json).into(), count: total.0, size: total.1 };
        self.known = Some(digest);
        Ok(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::checksum::checksum_of;

    fn change(at: i64, rank: u64, path: &str, content: Option<(u64, &str)>) -> EntryChange {
        let content = content.map(|(size, digest)| (size, digest.into()));
        EntryChange { at: Time::from_seconds(at), rank, path: path.into(), content }
    }

    fn states(changes: Vec<EntryChange>, gap: u64) -> Vec<(i64, Option<i64>, String)> {
        let mut out = Vec::new();
        let see = |s: State| {
            out.push((s.since.seconds, s.until.map(|t| t.seconds), s.checksum.to_string()));
            Ok(())
        };
        History { changes }.states(gap, see).unwrap();
        out
    }

    #[test]
    fn the_tree_has_the_checksum_of_its_files_whatever_came_before() {
        let mut tree = HashedDir::default();
        assert_eq!(tree.digest().unwrap(), Digest::EMPTY);
        let mut files: BTreeMap<String, (u64, String)> = BTreeMap::new();
        for i in 0..300u64 {
            let path = format!("{}/é{}/{}", i % 3, i % 7, i % 50);
            let digest = format!("{i:032x}");
            if i % 4 == 3 {
                assert_eq!(tree.set(&path, None), files.remove(&path).is_some());
            } else {
                tree.set(&path, Some((i, digest.clone().into())));
                files.insert(path, (i, digest));
            }
            let all = files.iter().map(|(p, (s, d))| (p.clone(), *s, d.clone())).collect();
            assert_eq!(tree.digest().unwrap(), checksum_of(all).unwrap(), "{i}");
        }
    }

    #[test]
    fn states_begin_and_end_with_changes() {
        let sum = |files: &[(&str, u64, &str)]| {
            let all = files.iter().map(|(p, s, d)| ((*p).to_owned(), *s, (*d).to_owned())).collect();
            checksum_of(all).unwrap().to_string()
        };
        let changes = || {
            vec![
                change(10, 1, "a", Some((1, "x"))),
                change(10, 0, "b/c", Some((2, "y"))),
                change(20, 0, "a", Some((1, "z"))),
                change(25, 0, "nothing", None),
                change(30, 0, "b/c", None),
            ]
        };
        let first = sum(&[("a", 1, "x"), ("b/c", 2, "y")]);
        let second = sum(&[("a", 1, "z"), ("b/c", 2, "y")]);
        let third = sum(&[("a", 1, "z")]);
        let wanted = [(10, Some(20), first.clone()), (20, Some(30), second), (30, None, third.clone())];
        assert_eq!(states(changes(), 0), wanted);
        // Deleting what is not there still keeps the two changes around it together.
        assert_eq!(states(changes(), 5), [(10, Some(30), first), (30, None, third)]);
        assert_eq!(states(Vec::new(), 0), []);
    }
}
