//! Copying an array's chunks as they are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};

use futures::TryStreamExt;
use futures::future::try_join_all;

use super::Run;
use crate::array::Array;
use crate::blocking::wait;
use crate::codec::Size;
use crate::error::{Error, ErrorKind, Result};
use crate::meta::path::join;
use crate::num;
use crate::store::{Condition, GetOptions, KeyEntry, MAX_WHOLE, ObjectMeta, SharedStore, StoreExt as _};

/// Objects on their way at once, between files and otherwise.
const LOCAL: usize = 4;
const REMOTE: usize = 32;

/// Small objects that one worker has on their way together, and what they may sum up to. From a file that holds many
/// chunks they come with one request.
const TOGETHER: usize = 64;
const TOGETHER_BYTES: u64 = 1 << 20;

/// Memory shared by many, handed out in bytes.
struct Budget {
    left: Mutex<u64>,
    freed: Condvar,
    total: u64,
}

impl Budget {
    /// Waits until `bytes` are free, or all of them if it is more.
    fn take(&self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.total);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left < bytes {
            left = self.freed.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= bytes;
        bytes
    }

    fn give(&self, bytes: u64) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        self.freed.notify_all();
    }
}

/// Copies every chunk of `source` to the place it has in `made`. If `resumed`, those that are there with the same size
/// are left alone.
pub(super) fn copy(run: &Run<'_>, source: &Array, made: &Array, resumed: bool) -> Result<()> {
    let total = num::u64_of(run.memory / 2).max(1 << 20);
    let budget = Budget { left: Mutex::new(total), freed: Condvar::new(), total };
    let failed = AtomicBool::new(false);
    let remote = source.store().is_remote() || made.store().is_remote();
    let (send, receive) = sync_channel::<Announced>(1024);
    let receive = Mutex::new(receive);
    // A worker goes on to the end even after a fault: what is still announced is taken and dropped. If all of them left,
    // the announcer would wait for ever.
    let work = || {
        let mut worked = Ok(());
        loop {
            let some = next(&receive, if remote { TOGETHER } else { 1 });
            if some.is_empty() {
                break;
            }
            if failed.load(Ordering::Relaxed) {
                continue;
            }
            let taken = budget.take(some.iter().fold(0, |n, a| n.saturating_add(a.entry.size)));
            let done = run.check().and_then(|()| several(source, made, &some, resumed));
            budget.give(taken);
            if let Err(e) = done {
                failed.store(true, Ordering::Relaxed);
                worked = Err(e);
            }
        }
        worked
    };
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..if remote { REMOTE } else { LOCAL }).map(|_| s.spawn(work)).collect();
        let listed = announce(source, made, &failed, |announced| {
            // Fails only if all workers are gone, which they are not before the end.
            let _ = send.send(announced);
        });
        drop(send);
        workers.into_iter().fold(listed, |done, worker| {
            done.and(worker.join().unwrap_or_else(|_| Err(Error::io("a copying thread was lost"))))
        })
    })?;
    run.advance(super::decoded_bytes(made.meta())?);
    Ok(())
}

/// A chunk to be copied.
struct Announced {
    entry: KeyEntry,
    to: String,
    /// Its place in the grid, if it was not seen and is only possible.
    possible: Option<Vec<u64>>,
}

/// What is to be copied next: one object, or up to `most` small ones; nothing at the end.
fn next(receive: &Mutex<Receiver<Announced>>, most: usize) -> Vec<Announced> {
    let receive = receive.lock().unwrap_or_else(PoisonError::into_inner);
    let mut some: Vec<Announced> = receive.recv().into_iter().collect();
    let mut bytes = some.iter().map(|a| a.entry.size).sum::<u64>();
    while some.len() < most && bytes < TOGETHER_BYTES {
        let Ok(another) = receive.try_recv() else { break };
        bytes = bytes.saturating_add(another.entry.size);
        some.push(another);
    }
    some
}

fn several(source: &Array, made: &Array, some: &[Announced], resumed: bool) -> Result<()> {
    let each = some.iter().map(|announced| async move {
        one(source, made, announced, resumed).await.map_err(|e| e.with_key(&announced.entry.key))
    });
    wait(try_join_all(each)).map(|_| ())
}

async fn one(source: &Array, made: &Array, announced: &Announced, resumed: bool) -> Result<()> {
    let Announced { entry, to, possible } = announced;
    if resumed && made.store().size(to).await? == Some(entry.size) {
        return Ok(());
    }
    let bytes = match possible {
        Some(index) => {
            let bytes = source.stored_chunk(index).await?;
            bytes.iter().try_for_each(|bytes| check_size(source, bytes.len()))?;
            bytes
        }
        None => {
            let ask = GetOptions::at_most(entry.size.max(MAX_WHOLE));
            let got = source.store().get_opts(&entry.key, ask).await?;
            let gone = || Error::conflict("somebody deleted this chunk while it was to be copied");
            Some(got.ok_or_else(gone)?.bytes)
        }
    };
    let Some(bytes) = bytes else { return Ok(()) };
    let _ = made.store().put(to, bytes, Condition::Always).await?;
    Ok(())
}

/// Fails if a chunk cannot have so many bytes: then the server sent something else.
fn check_size(source: &Array, size: usize) -> Result<()> {
    let right = match source.chain().encoded_size() {
        Size::Exact(wanted) if source.meta().grid.regular_shape().is_some() => size == wanted,
        _ => size > 0,
    };
    match right {
        true => Ok(()),
        false => Err(Error::invalid(format!("the server sent {size} bytes, which cannot be this chunk"))),
    }
}

/// The index of the chunk behind `key`. Some V2 arrays have another separator than they say.
fn index_of(source: &Array, key: &str) -> Option<Vec<u64>> {
    let (meta, rank) = (source.meta(), source.meta().shape.len());
    let below = key.strip_prefix(source.path()).unwrap_or_default().trim_start_matches('/');
    meta.keys.index(below, rank).or_else(|| meta.keys.other_separator().index(below, rank))
}

/// Fails if a folder is in the place of a chunk, which would not show among the keys.
async fn check_folders(source: &Array) -> Result<()> {
    let mut open = vec![source.path().to_owned()];
    while let Some(folder) = open.pop() {
        for name in source.store().list(&folder).await?.prefixes {
            let below = join(&folder, &name);
            if index_of(source, &below).is_some() {
                // An error that says so, if it is no object as well.
                source.store().stat(&below).await?;
            }
            open.push(below);
        }
    }
    Ok(())
}

/// How many bytes the objects below `path` have; 0 if that cannot be told without asking a server.
pub(super) fn stored_bytes(store: &SharedStore, path: &str) -> Result<u64> {
    if store.is_remote() {
        return Ok(0);
    }
    let sizes = store.keys(path).map_ok(|entry| entry.size);
    wait(sizes.try_fold(0u64, |sum, size| std::future::ready(Ok(sum.saturating_add(size)))))
}

/// Calls `f` with every chunk of `source` and its key in `made`: those that are listed, or, where a store cannot list or
/// its listings may lack some, those that there may be.
fn announce(
    source: &Array,
    made: &Array,
    failed: &AtomicBool,
    mut f: impl FnMut(Announced) + Send,
) -> Result<()> {
    let meta = source.meta();
    let rank = meta.shape.len();
    let listed = wait(async {
        if !source.store().lists_all() {
            return Err(Error::unsupported("what is there is asked for one by one"));
        }
        if source.store().direct().is_some() {
            check_folders(source).await?;
        }
        let mut keys = source.store().keys(source.path());
        while let Some(entry) = keys.try_next().await? {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            if let Some(index) = index_of(source, &entry.key) {
                let to = made.meta().keys.key(made.path(), &index);
                f(Announced { entry, to, possible: None });
            }
        }
        Ok(())
    });
    match listed {
        Err(e) if e.kind() == ErrorKind::Unsupported => {}
        listed => return listed,
    }
    let counts = meta.grid.counts(&meta.shape);
    let mut at = vec![0u64; rank];
    for _ in 0..num::product(&counts)? {
        if failed.load(Ordering::Relaxed) {
            break;
        }
        let key = join(source.path(), &meta.keys.key("", &at));
        // How large it is is not known yet; a chunk is no larger than its elements, or little more.
        let size = source.chain().decoded().byte_size().map(num::u64_of).unwrap_or(0);
        let to = made.meta().keys.key(made.path(), &at);
        f(Announced {
            entry: KeyEntry { key, size, meta: ObjectMeta::Unknown },
            to,
            possible: Some(at.clone()),
        });
        crate::codec::shard::advance(&mut at, &counts);
    }
    Ok(())
}
