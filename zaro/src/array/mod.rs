//! Reading and writing arrays: assembles chunks into slabs, and splits slabs into chunks.
//!
//! A read cuts its [`Selection`] at chunk borders (`select.rs`), and for each chunk — or each inner chunk of a shard —
//! fetches the bytes, decodes them and places the elements into the output ([`place`](self)). Local stores are read by
//! the decoding thread ([`direct`](self)); remote stores are fetched ahead, within a memory budget, and decoded by the
//! same threads ([`remote`](self)).

mod ahead;
mod direct;
mod encode;
mod gather;
mod place;
mod plan;
mod read;
mod remote;
mod runs;
pub(crate) mod select;
mod slab;
mod steady;
mod typed;
mod utf32;
pub(crate) mod windows;
mod write;
mod writing;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, RwLock};

pub use crate::context::DEFAULT_MEMORY;
pub(crate) use gather::Gathering;
#[cfg(feature = "image")]
pub(crate) use place::StridedCopy;
pub use select::{Index, Selection};
pub use slab::{Element, Order, Slab};
pub use steady::Steady;
pub use typed::bytes_of;
pub use utf32::invalid_utf32;
pub use windows::{ArrayView, ArrayWindow, Cutting, Windows};
pub(crate) use write::Guard;
pub use write::{Values, WriteOptions};
pub use writing::Writing;

use self::writing::Writers;
use crate::codec::Repr;
use crate::codec::chain::Chain;
use crate::context::{Context, Key, owner};
use crate::error::{Error, Result};
use crate::meta::path;
use crate::meta::{ArrayMeta, Finding, Format, Mode};
use crate::store::SharedStore;
use crate::store::StoreExt as _;
use crate::task::Task;

/// How to treat missing chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// Read them as fill value, as Zarr specifies.
    #[default]
    Fill,
    /// Return an error: for arrays that are known to be complete.
    Error,
}

/// Options of a read.
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct ReadOptions {
    /// The order of the elements returned.
    pub order: Order,
    /// How to treat missing chunks.
    pub missing: Missing,
    /// Progress, in bytes returned, and cancellation.
    pub task: Task,
}

/// An open array. Cheap to clone; clones share their caches.
#[derive(Debug, Clone)]
pub struct Array {
    inner: Arc<ArrayInner>,
}

#[derive(Debug)]
struct ArrayInner {
    store: SharedStore,
    /// The node's path as a key: `""` or `a/b`.
    path: String,
    meta: ArrayMeta,
    findings: Vec<Finding>,
    strict: bool,
    context: Context,
    /// Owner of this array's cache entries.
    owner: u64,
    /// The codec chain for the most common chunk shape, with that shape.
    chain: Arc<Chain>,
    /// Codec chains for other chunk shapes.
    chains: RwLock<HashMap<Vec<u64>, Arc<Chain>>>,
    /// Counts the writes through this array and its clones, so that older cache entries are not used afterwards.
    generation: AtomicU64,
    /// Counts the shard indexes read: the number of the next one.
    numbers: AtomicU64,
    /// Chunks of which a small part was read once; see [`ArrayInner::worth_keeping`].
    touched: Mutex<HashSet<(u64, u64)>>,
    /// What is known about a V2 array's separator: see [`ArrayInner::separator`].
    separator: AtomicU8,
    /// Whether a chunk was missing in a remote store.
    missed: AtomicBool,
    /// Writes through this array and its clones, unless it is private to this process.
    writers: Option<Arc<Writers>>,
}

impl Array {
    /// Creates an array from its metadata. Its codecs are built and checked here.
    ///
    /// `path` is the node's path as a key; `context` provides the threads, and the memory for caches and requests in
    /// flight.
    pub fn new(
        store: SharedStore,
        path: &str,
        meta: ArrayMeta,
        mode: Mode,
        findings: Vec<Finding>,
        context: &Context,
    ) -> Result<Self> {
        let strict = mode == Mode::Strict;
        let document = if meta.format == Format::V2 { ".zarray" } else { "zarr.json" };
        let named =
            |e: Error| e.with_key(path::join(path, document)).with_node(path::shown(path)).with_store(&store);
        let shape = meta.grid.chunk_shape(&vec![0; meta.shape.len()]).unwrap_or_else(|| meta.grid.largest());
        let chain = Arc::new(build(&meta, shape, strict).map_err(named)?);
        if meta.data_type.is_variable() && chain.any_shard().is_none() {
            // A few bytes may claim that a chunk holds millions of empty strings, each of which takes memory.
            let least = chain.decoded().byte_size()?;
            if least > context.memory().max(DEFAULT_MEMORY) {
                return Err(named(
                    Error::unsupported(format!(
                        "a chunk of {} elements of variable length takes {} MiB at least",
                        chain.decoded().count()?,
                        least >> 20
                    ))
                    .with_hint("memory", "gives more"),
                ));
            }
        }
        Ok(Self {
            inner: Arc::new(ArrayInner {
                store,
                path: path.to_owned(),
                findings,
                strict,
                context: context.clone(),
                owner: owner(),
                chains: RwLock::default(),
                generation: AtomicU64::new(0),
                numbers: AtomicU64::new(1),
                chain,
                touched: Mutex::default(),
                separator: AtomicU8::new(0),
                missed: AtomicBool::new(false),
                writers: None,
                meta,
            }),
        })
    }

    /// The node's path without a leading slash; `""` for the root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// Its metadata.
    #[must_use]
    pub fn meta(&self) -> &ArrayMeta {
        &self.inner.meta
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.inner.meta.shape
    }

    /// Irregularities in its metadata.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.inner.findings
    }

    /// Its codecs, for the shape of its first chunk.
    #[must_use]
    pub(crate) fn chain(&self) -> &Chain {
        &self.inner.chain
    }

    /// The context it is read and written with.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The same array, read and written with another context.
    pub fn with_context(&self, context: &Context) -> Result<Self> {
        let inner = &self.inner;
        let mode = if inner.strict { Mode::Strict } else { Mode::Tolerant };
        Self::new(inner.store.clone(), &inner.path, inner.meta.clone(), mode, inner.findings.clone(), context)
    }

    /// Its store.
    #[must_use]
    pub fn store(&self) -> &SharedStore {
        &self.inner.store
    }
}

impl Drop for ArrayInner {
    fn drop(&mut self) {
        self.context.chunks().forget_owner(self.owner);
    }
}

impl ArrayInner {
    /// The cache key of a chunk, in its state before the writes after `generation`: of the inner chunk at `offset`,
    /// with the number of the index that says so; of the chunk itself, with zeros.
    fn key(&self, generation: u64, chunk: u64, index: u64, offset: u64) -> Key {
        Key { owner: self.owner, part: [generation, chunk, index, offset] }
    }

    /// Whether to cache a decoded chunk of which `wanted` of `all` elements were read.
    ///
    /// If a good part of a chunk is read, other parts usually follow. A small part, such as one plane, is cached only
    /// when the chunk is read again, unless it comes from a remote store: reading an array plane by plane decodes each
    /// chunk twice, and reading single planes does not pay for caching what is never used.
    fn worth_keeping(&self, id: (u64, u64), wanted: u64, all: u64) -> bool {
        const REMEMBERED: usize = 1 << 16;
        if wanted.saturating_mul(16) >= all || self.store.is_remote() {
            return true;
        }
        // Held by another thread, perhaps left locked by a fork: not worth waiting for.
        let Ok(mut touched) = self.touched.try_lock() else { return false };
        if touched.len() >= REMEMBERED {
            touched.clear();
        }
        !touched.insert(id)
    }

    /// The codec chain for the chunk at `index`.
    fn chain_at(&self, index: &[u64]) -> Result<Arc<Chain>> {
        let shape = self
            .meta
            .grid
            .chunk_shape(index)
            .ok_or_else(|| Error::invalid(format!("the chunk grid has no chunk {index:?}")))?;
        if shape == self.chain.decoded().shape {
            return Ok(self.chain.clone());
        }
        // Read concurrently by many threads; if locked, the thread builds its own, so that a lock left behind by a fork
        // blocks nobody.
        if let Some(chain) = self.chains.try_read().ok().and_then(|chains| chains.get(&shape).cloned()) {
            return Ok(chain);
        }
        let chain = Arc::new(build(&self.meta, shape.clone(), self.strict)?);
        if let Ok(mut chains) = self.chains.try_write() {
            chains.insert(shape, chain.clone());
        }
        Ok(chain)
    }
}

fn build(meta: &ArrayMeta, shape: Vec<u64>, strict: bool) -> Result<Chain> {
    let repr = Repr { shape, data_type: meta.data_type.clone(), fill: meta.fill.clone() };
    Chain::build(&meta.codecs, repr, strict)
}
