//! Compares two versions. Directories with the same digest are equal, and are skipped.

use std::cmp::Ordering;

use super::model::{Digests, Dir, Leaf, Manifest};
use crate::error::Result;
use crate::store::join;

/// How an entry changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It has other bytes.
    Changed,
    /// It is gone.
    Removed,
}

/// One entry that is not the same in both.
#[derive(Debug, Clone)]
pub struct Difference<'m> {
    /// How it changed.
    pub change: Change,
    /// Its key.
    pub key: String,
    /// As it was.
    pub before: Option<Leaf<'m>>,
    /// As it is.
    pub after: Option<Leaf<'m>>,
}

/// How many entries changed how, and with how many bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffSummary {
    /// Entries that are new, and their bytes.
    pub added: (u64, u64),
    /// Entries with other bytes, and how many those are now.
    pub changed: (u64, u64),
    /// Entries that are gone, and the bytes they had.
    pub removed: (u64, u64),
    /// Equal directories, which were skipped.
    pub same_directories: u64,
}

impl DiffSummary {
    /// Whether there is no difference.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        (self.added.0, self.changed.0, self.removed.0) == (0, 0, 0)
    }
}

/// Calls back for every entry that differs between `before` and `after`, directory by directory.
pub fn diff<'m>(
    before: &'m Manifest,
    after: &'m Manifest,
    tell: &mut dyn FnMut(Difference<'m>) -> Result<()>,
) -> Result<DiffSummary> {
    let mut job =
        DiffJob { digests: (before.digests()?, after.digests()?), tell, summary: DiffSummary::default() };
    job.dirs("", before.root(), after.root())?;
    Ok(job.summary)
}

struct DiffJob<'m, 'f> {
    digests: (Digests, Digests),
    tell: &'f mut dyn FnMut(Difference<'m>) -> Result<()>,
    summary: DiffSummary,
}

/// Merges two sorted lists by name.
fn merged<A: Copy, B: Copy>(
    a: impl Iterator<Item = A>,
    b: impl Iterator<Item = B>,
    compare: impl Fn(&A, &B) -> Ordering,
) -> Vec<(Option<A>, Option<B>)> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    let mut out = Vec::new();
    loop {
        let order = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => compare(x, y),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return out,
        };
        out.push(match order {
            Ordering::Less => (a.next(), None),
            Ordering::Equal => (a.next(), b.next()),
            Ordering::Greater => (None, b.next()),
        });
    }
}

impl<'m> DiffJob<'m, '_> {
    fn dirs(&mut self, path: &str, before: Dir<'m>, after: Dir<'m>) -> Result<()> {
        if self.digests.0.of(&before) == self.digests.1.of(&after) {
            self.summary.same_directories = self.summary.same_directories.saturating_add(1);
            return Ok(());
        }
        let by_name = |x: &Leaf<'m>, y: &Leaf<'m>| x.name().cmp(y.name());
        for pair in merged(before.files(), after.files(), by_name) {
            match pair {
                (Some(x), Some(y)) if x.same_content(&y) => {}
                (x, y) => self.leaf(join(path, x.or(y).map_or("", |l| l.name())), x, y)?,
            }
        }
        for pair in merged(before.dirs(), after.dirs(), |x, y| x.name().cmp(y.name())) {
            match pair {
                (Some(x), Some(y)) => self.dirs(&join(path, x.name()), x, y)?,
                (Some(x), None) => self.whole(&join(path, x.name()), x, Change::Removed)?,
                (None, Some(y)) => self.whole(&join(path, y.name()), y, Change::Added)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Reports all of a directory that exists on one side only.
    fn whole(&mut self, path: &str, dir: Dir<'m>, change: Change) -> Result<()> {
        for leaf in dir.files() {
            let key = join(path, leaf.name());
            match change {
                Change::Added => self.leaf(key, None, Some(leaf))?,
                _ => self.leaf(key, Some(leaf), None)?,
            }
        }
        dir.dirs().try_for_each(|sub| self.whole(&join(path, sub.name()), sub, change))
    }

    fn leaf(&mut self, key: String, before: Option<Leaf<'m>>, after: Option<Leaf<'m>>) -> Result<()> {
        let (change, tally, leaf) = match (&before, &after) {
            (None, leaf) => (Change::Added, &mut self.summary.added, leaf),
            (leaf, None) => (Change::Removed, &mut self.summary.removed, leaf),
            (_, leaf) => (Change::Changed, &mut self.summary.changed, leaf),
        };
        tally.0 = tally.0.saturating_add(1);
        tally.1 = tally.1.saturating_add(leaf.map_or(0, |l| l.size()));
        (self.tell)(Difference { change, key, before, after })
    }
}
