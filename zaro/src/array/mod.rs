//! Assembly: chunks to slabs.
//!
//! A read cuts its [`Selection`] at chunk borders ([`select`]), and for each chunk — or each inner chunk of a shard —
//! fetches the bytes, decodes them and places the elements into the answer ([`place`](self)). Files and memory are
//! read by the thread that decodes ([`direct`](self)); remote stores are fetched ahead, bounded in bytes, and decoded
//! by the same threads ([`remote`](self)).

mod access;
mod cache;
mod direct;
mod gather;
mod odd;
mod place;
mod plan;
mod read;
mod remote;
pub mod select;
mod slab;
mod steady;
pub mod windows;
mod write;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use gather::Gathering;
pub use odd::odd_texts;
pub use select::{Index, Selection};
pub use slab::{Element, Order, Slab};
pub use steady::Steady;
pub use write::{Values, WriteOptions};

use crate::codec::chain::Chain;
use crate::codec::{Buffer, Repr};
use crate::error::{Error, Result};
use crate::meta::path;
use crate::meta::{ArrayMeta, Finding, Format, Mode};
use crate::store::SharedStore;
use cache::Cache;
use read::{Id, Indexed};

/// What a missing chunk means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// The fill value, as Zarr has it.
    #[default]
    Fill,
    /// An error: for arrays that are known to be complete.
    Error,
}

/// How far a read has come, in bytes of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes placed so far.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Told how far a read has come; called by any thread, after every chunk.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// How to read.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// The order of the answer.
    pub order: Order,
    /// What a missing chunk means.
    pub missing: Missing,
    /// Told how far the read has come.
    pub progress: Option<OnProgress>,
    /// Set it to stop the read, which then fails with [`ErrorKind::Cancelled`](crate::ErrorKind).
    pub cancel: Option<Arc<AtomicBool>>,
}

impl fmt::Debug for ReadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOptions")
            .field("order", &self.order)
            .field("missing", &self.missing)
            .field("progress", &self.progress.is_some())
            .field("cancel", &self.cancel)
            .finish()
    }
}

/// The memory a read may use beyond its answer, unless told otherwise: caches, and what is in flight.
pub const DEFAULT_MEMORY: usize = 256 << 20;

/// An array, open for reading. Cheap to clone; clones share their caches.
#[derive(Debug, Clone)]
pub struct Array {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: SharedStore,
    /// The node's key form: `""` or `a/b`.
    path: String,
    meta: ArrayMeta,
    findings: Vec<Finding>,
    strict: bool,
    memory: usize,
    /// The chain for the most common chunk shape, with that shape.
    chain: Arc<Chain>,
    /// Chains for other chunk shapes.
    chains: Mutex<HashMap<Vec<u64>, Arc<Chain>>>,
    /// Counts the writes through this array and its clones, so that what was kept before one is not used after it.
    generation: AtomicU64,
    /// Indexes of shards, by generation and the shard's number; a cell, so that many askers make one request.
    indexes: Cache<(u64, u64), tokio::sync::OnceCell<Arc<Indexed>>>,
    /// How many indexes were read: the number of the next one.
    numbers: AtomicU64,
    /// Decoded chunks of which a part was asked for, by generation and name.
    decoded: Cache<(u64, Id), Buffer>,
    /// Chunks of which a sliver was asked for once; see [`Inner::worth_keeping`].
    touched: Mutex<HashSet<(u64, u64)>>,
    /// What is known of a V2 array's separator: see [`Inner::separator`].
    separator: AtomicU8,
    /// Whether a chunk was missing in a store far away.
    missed: AtomicBool,
}

impl Array {
    /// An array from its metadata. Its codecs are built and checked here.
    ///
    /// `path` is the node's key form, `memory` the budget of [`DEFAULT_MEMORY`]'s meaning.
    pub fn new(
        store: SharedStore,
        path: &str,
        meta: ArrayMeta,
        mode: Mode,
        findings: Vec<Finding>,
        memory: usize,
    ) -> Result<Self> {
        let strict = mode == Mode::Strict;
        let document = if meta.format == Format::V2 { ".zarray" } else { "zarr.json" };
        let named =
            |e: Error| e.with_key(path::join(path, document)).with_node(path::shown(path)).with_store(&store);
        let shape = meta.grid.chunk_shape(&vec![0; meta.shape.len()]).unwrap_or_else(|| meta.grid.largest());
        let chain = Arc::new(build(&meta, shape, strict).map_err(named)?);
        if meta.data_type.is_variable() && chain.any_shard().is_none() {
            // A few bytes may say that a chunk holds millions of empty texts, and each takes a place.
            let least = chain.decoded().byte_size()?;
            if least > memory.max(DEFAULT_MEMORY) {
                return Err(named(Error::unsupported(format!(
                    "a chunk of {} elements of variable length takes {} MiB at least; more memory is needed (--memory)",
                    chain.decoded().count()?,
                    least >> 20
                ))));
            }
        }
        let direct = store.direct().is_some();
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                path: path.to_owned(),
                findings,
                strict,
                memory,
                chains: Mutex::default(),
                generation: AtomicU64::new(0),
                indexes: Cache::new(memory / 8),
                numbers: AtomicU64::new(1),
                // Files are read where they are decoded, so nothing is in flight and there is more to keep; and
                // still more where no indexes are.
                decoded: Cache::new(match (direct, chain.any_shard().is_some()) {
                    (true, false) => memory / 8 * 7,
                    (true, true) => memory / 4 * 3,
                    (false, _) => memory / 2,
                }),
                chain,
                touched: Mutex::default(),
                separator: AtomicU8::new(0),
                missed: AtomicBool::new(false),
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

    /// Its extents.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.inner.meta.shape
    }

    /// What was irregular about its metadata.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.inner.findings
    }

    /// Its codecs, for the shape of its first chunk.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.inner.chain
    }

    /// The store it is read from.
    #[must_use]
    pub fn store(&self) -> &SharedStore {
        &self.inner.store
    }
}

impl Inner {
    /// Whether to keep a decoded chunk of which `wanted` of `all` elements were asked for.
    ///
    /// A good part of a chunk is followed by other parts more often than not. A sliver, such as one plane, is kept only
    /// when the chunk is met again, unless it has to be fetched from afar: who goes through an array plane by plane decodes each chunk twice, and who looks
    /// at single planes does not pay for keeping what is never used.
    fn worth_keeping(&self, id: (u64, u64), wanted: u64, all: u64) -> bool {
        const REMEMBERED: usize = 1 << 16;
        if wanted.saturating_mul(16) >= all || self.store.is_remote() {
            return true;
        }
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        if touched.len() >= REMEMBERED {
            touched.clear();
        }
        !touched.insert(id)
    }

    /// The chain for the chunk at `index`.
    fn chain_at(&self, index: &[u64]) -> Result<Arc<Chain>> {
        let shape = self
            .meta
            .grid
            .chunk_shape(index)
            .ok_or_else(|| Error::invalid(format!("the chunk grid has no chunk {index:?}")))?;
        if shape == self.chain.decoded().shape {
            return Ok(self.chain.clone());
        }
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chain) = chains.get(&shape) {
            return Ok(chain.clone());
        }
        let chain = Arc::new(build(&self.meta, shape.clone(), self.strict)?);
        chains.insert(shape, chain.clone());
        Ok(chain)
    }
}

fn build(meta: &ArrayMeta, shape: Vec<u64>, strict: bool) -> Result<Chain> {
    let repr = Repr { shape, data_type: meta.data_type.clone(), fill: meta.fill.clone() };
    Chain::build(&meta.codecs, repr, strict)
}
