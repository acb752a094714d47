//! Copying the chunks of an array unchanged, object by object.

use bytes::Bytes;
use futures::SinkExt as _;
use futures::channel::mpsc;
use futures::future::try_join_all;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::CopyRun;
use crate::array::Array;
use crate::codec::OutputSize;
use crate::context::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::meta::path::join;
use crate::num;
use crate::store::{
    Condition, Direct, GetOptions, KeyEntry, MAX_WHOLE, ObjectMeta, SharedStore, StoreExt as _,
};
use crate::task::{self, Task};

/// Objects in flight, between local stores and otherwise.
const LOCAL: usize = 4;
const REMOTE: usize = 32;

/// Small objects that one worker copies together, and their total size. From a file that holds many chunks they take
/// one request.
const TOGETHER: usize = 64;
const TOGETHER_BYTES: u64 = 1 << 20;

/// Copies every chunk of `source` to its key in `made`. If `resumed`, existing chunks of the same size are skipped.
pub(super) async fn copy(run: &CopyRun<'_>, source: &Array, made: &Array, resumed: bool) -> Result<()> {
    let remote = source.store().is_remote() || made.store().is_remote();
    let budget = &Budget::new((run.memory / 2).max(1 << 20));
    let (send, receive) = mpsc::channel(1024);
    let batches = receive.ready_chunks(TOGETHER).flat_map(|some| stream::iter(batches(some)));
    let copied = task::each_of(if remote { REMOTE } else { LOCAL }, batches, |some| async move {
        let bytes = some.iter().fold(0u64, |n, a| n.saturating_add(a.entry.size));
        let _held = budget.take(usize::try_from(bytes).unwrap_or(usize::MAX)).await?;
        run.check().await?;
        several(run, source, made, some, resumed).await
    });
    let (listed, copied) = futures::join!(announce(source, made, send), copied);
    listed.and(copied)?;
    run.advance(super::decoded_bytes(made.meta())?);
    Ok(())
}

/// A chunk to be copied.
struct Announced {
    entry: KeyEntry,
    to: String,
    /// Its index, if it was not listed and may not exist.
    possible: Option<Vec<u64>>,
}

/// What is copied together: one object, or several small ones.
fn batches(some: Vec<Announced>) -> Vec<Vec<Announced>> {
    let mut batches: Vec<Vec<Announced>> = Vec::new();
    let mut bytes = u64::MAX;
    for announced in some {
        bytes = bytes.saturating_add(announced.entry.size);
        match batches.last_mut().filter(|_| bytes < TOGETHER_BYTES) {
            Some(batch) => batch.push(announced),
            None => {
                bytes = announced.entry.size;
                batches.push(vec![announced]);
            }
        }
    }
    batches
}

async fn several(
    run: &CopyRun<'_>,
    source: &Array,
    made: &Array,
    some: Vec<Announced>,
    resumed: bool,
) -> Result<()> {
    let (from, to) = (source.store().clone(), made.store().clone());
    if from.direct().is_some() && to.direct().is_some() && some.iter().all(|a| a.possible.is_none()) {
        return made
            .context()
            .run(move || match (from.direct(), to.direct()) {
                (Some(from), Some(to)) => some
                    .iter()
                    .try_for_each(|a| at_hand(from, to, a, resumed).map_err(|e| e.with_key(&a.entry.key))),
                _ => Err(Error::unsupported("the store has no direct access")),
            })
            .await;
    }
    let each = some.iter().map(|announced| async move {
        let task = &run.options.task;
        let copied = async {
            let Some(bytes) = task.unless_cancelled(get(source, made, announced, resumed)).await? else {
                return Ok(());
            };
            put(made, &announced.to, bytes, task).await
        };
        copied.await.map_err(|e| e.with_key(&announced.entry.key))
    });
    try_join_all(each).await.map(drop)
}

fn gone() -> Error {
    Error::conflict("this chunk was deleted while it was being copied")
}

/// Copies an object between local stores.
fn at_hand(from: &dyn Direct, to: &dyn Direct, announced: &Announced, resumed: bool) -> Result<()> {
    let Announced { entry, to: key, .. } = announced;
    if resumed && to.open(key)?.is_some_and(|there| there.size() == entry.size) {
        return Ok(());
    }
    let object = from.open(&entry.key)?.ok_or_else(gone)?;
    let mut bytes = Vec::new();
    let parts = match object.as_bytes() {
        Some(bytes) => bytes,
        None => {
            bytes.resize(num::usize_of(object.size())?, 0);
            object.read_at(0, &mut bytes)?;
            object.check_unchanged()?;
            &bytes
        }
    };
    to.put(key, &[parts], &Condition::Always).map(drop)
}

/// The bytes of a chunk; `None` if it is missing, or already copied.
async fn get(source: &Array, made: &Array, announced: &Announced, resumed: bool) -> Result<Option<Bytes>> {
    let Announced { entry, to, possible } = announced;
    if resumed && made.store().size(to).await? == Some(entry.size) {
        return Ok(None);
    }
    if let Some(index) = possible {
        let bytes = source.stored_chunk(index).await?;
        bytes.iter().try_for_each(|bytes| check_size(source, bytes.len()))?;
        return Ok(bytes);
    }
    let ask = GetOptions::at_most(entry.size.max(MAX_WHOLE));
    let got = source.store().get_opts(&entry.key, ask).await?;
    Ok(Some(got.ok_or_else(gone)?.bytes))
}

/// Puts a chunk; files are written on the pool.
async fn put(made: &Array, key: &str, bytes: Bytes, task: &Task) -> Result<()> {
    let (store, key) = (made.store().clone(), key.to_owned());
    if store.direct().is_none() {
        return task.unless_cancelled(store.put(&key, bytes, Condition::Always)).await.map(drop);
    }
    made.context()
        .run(move || match store.direct() {
            Some(direct) => direct.put(&key, &[&bytes], &Condition::Always).map(drop),
            None => Err(Error::unsupported("the store has no direct access")),
        })
        .await
}

/// Fails if a chunk cannot have this size: then the server sent something else.
fn check_size(source: &Array, size: usize) -> Result<()> {
    let right = match source.chain().encoded_size() {
        OutputSize::Exact(wanted) if source.meta().grid.regular_shape().is_some() => size == wanted,
        _ => size > 0,
    };
    match right {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "the server sent {size} bytes, which is not a valid size for this chunk"
        ))),
    }
}

/// The index of the chunk behind `key`. Some V2 arrays use another separator than their metadata says.
fn index_of(source: &Array, key: &str) -> Option<Vec<u64>> {
    let (meta, rank) = (source.meta(), source.meta().shape.len());
    let below = key.strip_prefix(source.path()).unwrap_or_default().trim_start_matches('/');
    meta.keys.index(below, rank).or_else(|| meta.keys.other_separator().index(below, rank))
}

/// Fails if there is a folder in place of a chunk, which would not show among the keys.
async fn check_folders(source: &Array) -> Result<()> {
    let mut open = vec![source.path().to_owned()];
    while let Some(folder) = open.pop() {
        for name in source.store().list(&folder).await?.prefixes {
            let below = join(&folder, &name);
            if index_of(source, &below).is_some() {
                // Fails, unless it is an object as well.
                source.store().stat(&below).await?;
            }
            open.push(below);
        }
    }
    Ok(())
}

/// The size of the objects below `path`; 0 if that is unknown without requests.
pub(super) async fn stored_bytes(store: &SharedStore, path: &str) -> Result<u64> {
    if store.is_remote() {
        return Ok(0);
    }
    let sizes = store.keys(path).map_ok(|entry| entry.size);
    sizes.try_fold(0u64, |sum, size| std::future::ready(Ok(sum.saturating_add(size)))).await
}

/// Sends every chunk of `source` with its key in `made`, until the receiver closes: those that are listed, or, where a
/// store cannot list or its listings may be incomplete, those that may exist.
async fn announce(source: &Array, made: &Array, mut send: mpsc::Sender<Announced>) -> Result<()> {
    let meta = source.meta();
    let rank = meta.shape.len();
    let listed = async {
        if !source.store().lists_all() {
            return Err(Error::unsupported("chunks are requested one by one"));
        }
        if source.store().direct().is_some() {
            check_folders(source).await?;
        }
        let mut keys = source.store().keys(source.path());
        while let Some(entry) = keys.try_next().await? {
            if let Some(index) = index_of(source, &entry.key) {
                let to = made.meta().keys.key(made.path(), &index);
                if send.send(Announced { entry, to, possible: None }).await.is_err() {
                    break;
                }
            }
        }
        Ok(())
    }
    .await;
    match listed {
        Err(e) if e.kind() == ErrorKind::Unsupported => {}
        listed => return listed,
    }
    let counts = meta.grid.counts(&meta.shape);
    let mut at = vec![0u64; rank];
    for _ in 0..num::product(&counts)? {
        let key = join(source.path(), &meta.keys.key("", &at));
        // Its size is not known yet; a chunk is at most little larger than its elements.
        let size = source.chain().decoded().byte_size().map(num::u64_of).unwrap_or(0);
        let to = made.meta().keys.key(made.path(), &at);
        let entry = KeyEntry { key, size, meta: ObjectMeta::Unknown };
        if send.send(Announced { entry, to, possible: Some(at.clone()) }).await.is_err() {
            break;
        }
        crate::codec::shard::advance(&mut at, &counts);
    }
    Ok(())
}
