//! What differs between two versions, found once and then looked up a page at a time.
//!
//! A difference takes little more than the bytes of its name: the directories are kept apart, and sizes are in the
//! manifests, where a key is found at once.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use zaro::Result;
use zaro::manifest::{Change, DiffSummary, Digest, Manifest, diff};

/// Differences that are passed over at most to find one.
const STEP: usize = 128;

/// Pairs of versions whose differences are kept.
const MOST: usize = 16;

/// The differences of two versions, in the order of [`diff`].
#[derive(Debug)]
pub(crate) struct Differences {
    pub(crate) summary: DiffSummary,
    count: usize,
    steps: Vec<Step>,
    /// For each difference: how it changed, the length of its name, its name.
    names: Vec<u8>,
}

/// Some differences of one directory.
#[derive(Debug)]
struct Step {
    dir: Arc<str>,
    /// The number of the first, and where it is.
    first: usize,
    at: usize,
}

impl Differences {
    /// Compares two versions: work for a thread of its own.
    fn of(before: &Manifest, after: &Manifest) -> Result<Self> {
        let (mut steps, mut names, mut count) = (Vec::<Step>::new(), Vec::new(), 0usize);
        let summary = diff(before, after, &mut |difference| {
            let (dir, name) = difference.key.rsplit_once('/').unwrap_or(("", &difference.key));
            let (same, full) = match steps.last() {
                Some(step) if &*step.dir == dir => {
                    (Some(step.dir.clone()), count.saturating_sub(step.first) >= STEP)
                }
                _ => (None, true),
            };
            if full {
                steps.push(Step { dir: same.unwrap_or_else(|| dir.into()), first: count, at: names.len() });
            }
            let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
            names.push(match difference.change {
                Change::Added => b'+',
                Change::Changed => b'~',
                Change::Removed => b'-',
            });
            // Nearly all names are short.
            match u8::try_from(length) {
                Ok(length) if length < u8::MAX => names.push(length),
                _ => {
                    names.push(u8::MAX);
                    names.extend(length.to_le_bytes());
                }
            }
            names.extend(name.as_bytes());
            count = count.saturating_add(1);
            Ok(())
        })?;
        names.shrink_to_fit();
        Ok(Self { summary, count, steps, names })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Some of them, by number.
    pub(crate) fn range(&self, wanted: Range<usize>) -> Vec<(Change, String)> {
        let mut out = Vec::new();
        let begin = self.steps.partition_point(|step| step.first <= wanted.start).saturating_sub(1);
        let steps = self.steps.get(begin..).unwrap_or_default();
        for (at, step) in steps.iter().enumerate() {
            let end = steps.get(at.saturating_add(1)).map_or(self.count, |next| next.first);
            let mut rest = self.names.get(step.at..).unwrap_or_default();
            for number in step.first..end {
                let Some((change, name)) = take(&mut rest) else { return out };
                if number >= wanted.end {
                    return out;
                }
                if number >= wanted.start {
                    let slash = if step.dir.is_empty() { "" } else { "/" };
                    out.push((change, format!("{}{slash}{name}", step.dir)));
                }
            }
        }
        out
    }

    /// Bytes it takes.
    fn weight(&self) -> usize {
        let step = |step: &Step| step.dir.len().saturating_add(size_of::<Step>());
        self.steps.iter().map(step).fold(self.names.capacity(), usize::saturating_add)
    }
}

/// The next difference.
fn take<'a>(rest: &mut &'a [u8]) -> Option<(Change, &'a str)> {
    let ([change, length], behind) = rest.split_first_chunk()?;
    let (length, behind) = match *length {
        u8::MAX => {
            let (length, behind) = behind.split_first_chunk::<4>()?;
            (usize::try_from(u32::from_le_bytes(*length)).ok()?, behind)
        }
        length => (usize::from(length), behind),
    };
    let (name, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    let change = match change {
        b'+' => Change::Added,
        b'~' => Change::Changed,
        _ => Change::Removed,
    };
    Some((change, std::str::from_utf8(name).ok()?))
}

/// A Zarr's id and two of its versions.
type Name = (String, Digest, Digest);

/// The pairs that are kept, the last used first.
type Kept = Vec<(Name, Arc<OnceCell<Arc<Differences>>>)>;

/// The differences that were found lately.
#[derive(Debug)]
pub(crate) struct Diffs {
    /// Bytes that they may take; one is kept however large it is.
    limit: usize,
    kept: Mutex<Kept>,
}

impl Diffs {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, kept: Mutex::default() }
    }

    /// The differences of two versions: found once, however many ask.
    pub(crate) async fn get(
        &self,
        name: Name,
        before: Arc<Manifest>,
        after: Arc<Manifest>,
    ) -> Result<Arc<Differences>> {
        let cell = {
            let mut kept = self.kept();
            let known = kept.iter().position(|(known, _)| *known == name);
            let entry = known.map_or_else(|| (name, Arc::default()), |at| kept.remove(at));
            let cell = entry.1.clone();
            kept.insert(0, entry);
            kept.truncate(MOST);
            cell
        };
        // All entries may have to be hashed: this is no work for a thread that answers.
        let made = cell.get_or_try_init(|| async {
            let made = zaro::blocking::spawn_blocking(move || Differences::of(&before, &after));
            made.await.map(Arc::new)
        });
        let made = made.await?.clone();
        let (mut kept, mut weight) = (self.kept(), 0usize);
        let mut place = 0usize..;
        kept.retain(|(_, cell)| {
            weight = weight.saturating_add(cell.get().map_or(0, |found| found.weight()));
            place.next() == Some(0) || weight <= self.limit
        });
        Ok(made)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zaro::manifest::{Builder, EntryRef, Fields};

    fn manifest(entries: impl Iterator<Item = (String, u64)>) -> Arc<Manifest> {
        let mut builder = Builder::new(Fields::ALL);
        for (key, size) in entries {
            let entry =
                EntryRef { etag: Some("d41d8cd98f00b204e9800998ecf8427e"), size, ..EntryRef::default() };
            builder.push(&key, &entry).unwrap();
        }
        Arc::new(builder.finish().unwrap())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_part_is_that_of_the_whole() {
        let long = "n".repeat(300);
        let keys = |n: u64| (0..n).map(|i| format!("{}/{:04}", i / 700, i % 700));
        let before = manifest(keys(3000).chain([long.clone()]).zip((0..).map(|i| i * 7)));
        let after = manifest(keys(2500).zip((0..).map(|i| if i % 3 == 0 { i } else { i * 7 })));
        let mut all = Vec::new();
        let summary = diff(&before, &after, &mut |one| {
            all.push((one.change, one.key));
            Ok(())
        })
        .unwrap();
        let diffs = Diffs::new(1);
        let digest = |text: &str| Digest::parse(text).unwrap();
        let (one, two) = (
            digest("481a2f77ab786a0f45aafd5db0971caa-0--0"),
            digest("481a2f77ab786a0f45aafd5db0971caa-1--0"),
        );
        let made = diffs.get(("id".to_owned(), one, two), before.clone(), after.clone()).await.unwrap();
        assert_eq!((made.len(), made.summary), (all.len(), summary));
        assert!(all.iter().any(|(_, key)| *key == long) && all.len() > 1000);
        for size in [1, 100, 128, 999, 5000] {
            let mut found = Vec::new();
            for page in 0..all.len().div_ceil(size) {
                found.extend(made.range(page * size..(page + 1) * size));
            }
            assert_eq!(found, all, "{size}");
        }
        assert!(made.range(all.len()..all.len() + 9).is_empty());
        // A few bytes each, and the last one stays whatever the limit.
        assert!(made.weight() < all.len() * 16, "{}", made.weight());
        let again = diffs.get(("id".to_owned(), one, two), before.clone(), after.clone()).await.unwrap();
        assert!(Arc::ptr_eq(&made, &again));
        diffs.get(("other".to_owned(), one, two), after, before).await.unwrap();
        assert_eq!(diffs.kept().len(), 1);
    }
}
