//! Small files that were read, kept in memory for the next request.
//!
//! They are found by the state of the file: device, inode, size and time of modification. So an answer from here costs
//! one look at the file by its name, and is of the very state that this look saw: another file in its place, or the same
//! one changed, is another state, and read anew.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use zaro::store::{LocalMeta, ObjectMeta};

/// Larger files are not kept: their cost lies in moving the bytes.
pub(crate) const MOST: u64 = 128 << 10;

/// A file that was changed less than this ago is not kept: within one tick of the clock it could be changed again, and
/// nothing would tell the two states apart.
const SETTLED: Duration = Duration::from_secs(2);

/// After this time a file is read again, in case that somebody gave a changed one its old size and time.
const LASTS: Duration = Duration::from_secs(10);

/// What an entry costs besides its bytes.
const OVERHEAD: u64 = 160;

/// Files in memory, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct Hot {
    files: Mutex<Files>,
    budget: u64,
}

#[derive(Debug, Default)]
struct Files {
    by_state: HashMap<State, File>,
    /// The order in which files are asked whether they were used since.
    queue: VecDeque<State>,
    weight: u64,
}

#[derive(Debug)]
struct File {
    bytes: Bytes,
    read: Instant,
    used: bool,
}

/// Device and inode, size, time of modification.
type State = ([u64; 2], u64, (i64, i64));

fn state_of(meta: &ObjectMeta) -> Option<State> {
    match meta {
        ObjectMeta::Local(LocalMeta { id, size, modified: Some(modified), .. }) => {
            Some((*id, *size, *modified))
        }
        _ => None,
    }
}

impl Hot {
    /// Room for `budget` bytes.
    pub(crate) fn new(budget: u64) -> Self {
        Self { files: Mutex::default(), budget }
    }

    /// The bytes of the file in this state, if they are here.
    pub(crate) fn get(&self, meta: &ObjectMeta) -> Option<Bytes> {
        let state = state_of(meta)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = files.by_state.get_mut(&state)?;
        file.used = true;
        (file.read.elapsed() < LASTS).then(|| file.bytes.clone())
    }

    /// Keeps the whole bytes of a file that was in this state before and after they were read.
    pub(crate) fn keep(&self, meta: &ObjectMeta, bytes: &Bytes) {
        let Some(state) = state_of(meta) else { return };
        let settled = meta.modified().and_then(|time| SystemTime::now().duration_since(time).ok());
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // A file of a quarter of everything would drive out all others.
        if length != state.1 || length > MOST.min(self.budget / 4) || settled.is_none_or(|age| age < SETTLED)
        {
            return;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = File { bytes: bytes.clone(), read: Instant::now(), used: false };
        if files.by_state.insert(state, file).is_none() {
            files.queue.push_back(state);
            files.weight = files.weight.saturating_add(length).saturating_add(OVERHEAD);
        }
        while files.weight > self.budget {
            let Some(oldest) = files.queue.pop_front() else { return };
            match files.by_state.get_mut(&oldest) {
                // Used since it was last looked at: it may stay for another round.
                Some(file) if file.used => {
                    file.used = false;
                    files.queue.push_back(oldest);
                }
                _ => {
                    files.by_state.remove(&oldest);
                    files.weight = files.weight.saturating_sub(oldest.1).saturating_sub(OVERHEAD);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(inode: u64, size: u64, modified: i64) -> ObjectMeta {
        let mut local = LocalMeta::default();
        (local.id, local.size, local.modified) = ([1, inode], size, Some((modified, 0)));
        ObjectMeta::Local(local)
    }

    #[test]
    fn a_state_is_kept_and_no_other_and_the_used_stay() {
        let hot = Hot::new(5_000);
        let bytes = Bytes::from(vec![7; 1000]);
        hot.keep(&meta(1, 1000, 50), &bytes);
        assert_eq!(hot.get(&meta(1, 1000, 50)).unwrap(), bytes);
        for other in [meta(2, 1000, 50), meta(1, 999, 50), meta(1, 1000, 51), ObjectMeta::Unknown] {
            assert_eq!(hot.get(&other), None, "{other:?}");
        }
        for inode in 2..50 {
            assert!(hot.get(&meta(1, 1000, 50)).is_some(), "{inode}");
            hot.keep(&meta(inode, 1000, 50), &bytes);
            let files = hot.files.lock().unwrap();
            assert!(files.weight <= 5_000 && files.by_state.len() == files.queue.len());
        }
        assert_eq!(hot.get(&meta(2, 1000, 50)), None);
    }

    #[test]
    fn what_may_still_change_or_is_large_is_not_kept() {
        let hot = Hot::new(1 << 20);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let young = meta(1, 3, i64::try_from(now).unwrap());
        hot.keep(&young, &Bytes::from_static(b"abc"));
        assert_eq!(hot.get(&young), None);
        let large = meta(1, MOST + 1, 50);
        hot.keep(&large, &Bytes::from(vec![0; usize::try_from(MOST + 1).unwrap()]));
        assert_eq!(hot.get(&large), None);
        // Part of a file is not the file.
        hot.keep(&meta(1, 4, 50), &Bytes::from_static(b"abc"));
        assert_eq!(hot.get(&meta(1, 4, 50)), None);
    }
}
