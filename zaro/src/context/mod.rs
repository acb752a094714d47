//! Shared resources: memory budget, threads and connections.
//!
//! A [`Context`] has one budget for bytes in flight, one cache, one pool of decoding threads, the HTTP clients, and the
//! limits per host. Stores and arrays use the context they were opened with, so that 500 arrays stay within one
//! `memory`. [`Context::shared`] is the default. After a `fork`, the child gets everything anew ([`fork`](self)).

mod budget;
pub(crate) mod cache;
mod fork;
#[cfg(feature = "cloud")]
mod guard;
pub(crate) mod runtime;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Semaphore;

pub(crate) use budget::Budget;
pub(crate) use cache::{Cache, Key, owner};
pub(crate) use fork::PerProcess;

use crate::error::{Error, Result};

/// The default memory for caches and bytes in flight, not counting results: 256 MiB.
pub const DEFAULT_MEMORY: usize = 256 << 20;

/// Settings of a [`Context`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ContextOptions {
    /// Memory for caches and bytes in flight, not counting results.
    pub memory: usize,
    /// Threads that decode and encode. Default: one per core, shared by all such contexts of the process.
    pub threads: Option<usize>,
    /// The runtime that [`Context::block_on`] uses. Default: zaro's own, started on first use.
    pub runtime: Option<tokio::runtime::Handle>,
    /// Connect to public addresses only: not to this machine, nor to its private network. For servers that open
    /// addresses named by strangers.
    pub public_only: bool,
    /// Hosts that may be connected to all the same.
    pub allowed_hosts: Vec<String>,
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self {
            memory: DEFAULT_MEMORY,
            threads: None,
            runtime: None,
            public_only: false,
            allowed_hosts: Vec::new(),
        }
    }
}

impl ContextOptions {
    /// Sets the memory in bytes.
    #[must_use]
    pub fn with_memory(self, memory: usize) -> Self {
        Self { memory, ..self }
    }

    /// Sets the number of threads that decode and encode.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Uses the caller's runtime.
    #[must_use]
    pub fn with_runtime(self, runtime: tokio::runtime::Handle) -> Self {
        Self { runtime: Some(runtime), ..self }
    }

    /// Connects to public addresses only.
    #[must_use]
    pub fn with_public_only(self, public_only: bool) -> Self {
        Self { public_only, ..self }
    }

    /// Connects to these hosts even if they are not public.
    #[must_use]
    pub fn with_allowed_hosts(self, allowed_hosts: Vec<String>) -> Self {
        Self { allowed_hosts, ..self }
    }
}

/// Resources shared by everything that is opened with it. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    common: Arc<Process>,
    memory: Arc<Memory>,
}

/// Threads and connections.
struct Process {
    options: ContextOptions,
    /// The process it was created in.
    born: u64,
    state: PerProcess<ProcessState>,
}

#[derive(Default)]
struct ProcessState {
    pool: OnceLock<Pool>,
    /// Request slots per host, by host and limit.
    hosts: Mutex<HashMap<(String, usize), Arc<Semaphore>>>,
    #[cfg(feature = "cloud")]
    clients: Mutex<HashMap<ClientKey, reqwest::Client>>,
}

type Pool = std::result::Result<rayon::ThreadPool, String>;

/// The settings that require separate clients.
#[cfg(feature = "cloud")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    pub(crate) connect_timeout: std::time::Duration,
    pub(crate) read_timeout: std::time::Duration,
    pub(crate) idle: usize,
    /// Sent with every request.
    pub(crate) headers: Vec<(String, String)>,
}

/// The uses of memory.
struct Memory {
    bytes: usize,
    shares: PerProcess<Shares>,
}

struct Shares {
    chunks: Cache,
    answers: Cache,
    budget: Budget,
    /// The number of current remote reads.
    far: Mutex<usize>,
}

/// A remote read in progress, until dropped.
pub(crate) struct RemoteReader<'a>(&'a Context, usize);

impl RemoteReader<'_> {
    /// The number of remote reads when it started, including this one.
    pub(crate) fn number(&self) -> usize {
        self.1
    }
}

impl Drop for RemoteReader<'_> {
    fn drop(&mut self) {
        self.0.read_far(false);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("memory", &self.memory.bytes).finish_non_exhaustive()
    }
}

impl Default for Context {
    /// The [shared](Context::shared) one.
    fn default() -> Self {
        Self::shared()
    }
}

/// Runs `f`, which may use rayon, for callers without a context: on the current pool, or else on that of the shared
/// context, while the calling thread waits.
#[cfg(feature = "image")]
pub(crate) fn install<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    if rayon::current_thread_index().is_some() { f() } else { Context::shared().install(f) }
}

static SHARED: OnceLock<Context> = OnceLock::new();

impl Context {
    /// Creates a context. Its threads start on first use.
    #[must_use]
    pub fn new(options: ContextOptions) -> Self {
        let memory = Memory::of(options.memory);
        Self {
            common: Arc::new(Process { options, born: fork::generation(), state: PerProcess::new() }),
            memory,
        }
    }

    /// The default context.
    #[must_use]
    pub fn shared() -> Self {
        SHARED.get_or_init(|| Self::new(ContextOptions::default())).clone()
    }

    /// Makes this the [shared](Context::shared) context; `false` if there is one already.
    pub fn share(&self) -> bool {
        SHARED.set(self.clone()).is_ok()
    }

    /// The same threads and connections with separate memory: for an operation with its own share.
    #[must_use]
    pub fn with_memory(&self, bytes: usize) -> Self {
        Self { common: self.common.clone(), memory: Memory::of(bytes) }
    }

    /// The same with one part in `parts` of its memory.
    pub(crate) fn share_of(&self, parts: usize) -> Self {
        self.with_memory(self.memory().checked_div(parts).unwrap_or_default())
    }

    /// The memory in bytes for caches and bytes in flight.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory.bytes
    }

    /// Runs a future to completion on the context's runtime.
    pub fn block_on<T: Send>(&self, future: impl Future<Output = Result<T>> + Send) -> Result<T> {
        match &self.common.options.runtime {
            // In a forked child, the caller's runtime has no threads.
            Some(handle) if fork::generation() == self.common.born => runtime::wait_on(handle, future),
            _ => runtime::block_on(future),
        }
    }

    fn shares(&self) -> &Shares {
        self.memory.shares.get(|| Shares::of(self.memory.bytes))
    }

    /// The cache for decoded chunks, shard indexes and reference tables.
    pub(crate) fn chunks(&self) -> &Cache {
        &self.shares().chunks
    }

    /// The cache for responses of remote stores.
    pub(crate) fn answers(&self) -> &Cache {
        &self.shares().answers
    }

    /// The budget for bytes in flight.
    pub(crate) fn budget(&self) -> &Budget {
        &self.shares().budget
    }

    /// Registers a remote read. While there is one, the cache has less memory: the rest is for bytes in flight.
    pub(crate) fn reading(&self) -> RemoteReader<'_> {
        RemoteReader(self, self.read_far(true))
    }

    fn read_far(&self, begins: bool) -> usize {
        let shares = self.shares();
        let mut far = shares.far.lock().unwrap_or_else(PoisonError::into_inner);
        *far = if begins { far.saturating_add(1) } else { far.saturating_sub(1) };
        match (begins, *far) {
            (true, 1) => shares.chunks.resize(self.memory.bytes / 8 * 4),
            (false, 0) => shares.chunks.resize(self.memory.bytes / 8 * 7),
            _ => {}
        }
        *far
    }

    fn state(&self) -> &ProcessState {
        self.common.state.get(ProcessState::default)
    }

    /// The request slots of `host`, of which there are `limit`.
    pub(crate) fn host(&self, host: &str, limit: usize) -> Arc<Semaphore> {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        let mut hosts = self.state().hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.entry((host.to_owned(), limit)).or_insert_with(|| Arc::new(Semaphore::new(limit))).clone()
    }

    /// The client for `key`, with its connections; made by `build` on first use.
    #[cfg(feature = "cloud")]
    pub(crate) fn client(
        &self,
        key: ClientKey,
        build: impl FnOnce(reqwest::ClientBuilder) -> Result<reqwest::Client>,
    ) -> Result<reqwest::Client> {
        let mut clients = self.state().clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let mut builder = reqwest::Client::builder();
        if self.common.options.public_only {
            let allowed = self.common.options.allowed_hosts.clone();
            builder = builder.no_proxy().dns_resolver(Arc::new(guard::PublicOnly(allowed)));
        }
        let client = build(builder)?;
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// Fails if connecting to `url` is not allowed. Host names are checked when resolved.
    #[cfg(feature = "cloud")]
    pub(crate) fn check_address(&self, url: &url::Url) -> Result<()> {
        let options = &self.common.options;
        if options.public_only { guard::check(url, &options.allowed_hosts) } else { Ok(()) }
    }

    /// The decoding and encoding threads.
    fn pool(&self) -> Result<&rayon::ThreadPool> {
        /// The pool of all contexts without a thread count.
        static COMMON: PerProcess<OnceLock<Pool>> = PerProcess::new();
        let build = |threads: usize| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
            builder.thread_name(|n| format!("zaro-decode-{n}")).build().map_err(|e| e.to_string())
        };
        let pool = match self.common.options.threads {
            Some(n) => self.state().pool.get_or_init(|| build(n)),
            None => COMMON.get(OnceLock::new).get_or_init(|| build(0)),
        };
        pool.as_ref().map_err(|e| Error::io(format!("the system is out of threads or memory: {e}")))
    }

    /// The number of decoding and encoding threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// How many jobs keep the threads busy: one for each, and one that is ready when another ends.
    pub(crate) fn jobs_at_once(&self) -> usize {
        self.threads().saturating_add(1)
    }

    /// Runs `f` on the decoding threads, where it may use rayon, while the calling thread blocks.
    pub(crate) fn install<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        match self.pool() {
            Ok(pool) => pool.install(f),
            // Without our threads rayon uses its own, or aborts the program.
            Err(_) => f(),
        }
    }

    /// Runs `f` on the decoding threads, while the calling task waits. It runs to completion even if the task is
    /// dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (tell, told) = tokio::sync::oneshot::channel();
        self.pool()?.spawn(move || {
            // A panic on the pool would abort the program. There should be none; if there is, one job has failed.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
            // Nobody listens if the task was dropped.
            let _ = tell.send(done.unwrap_or_else(|_| Err(Error::io("a decoding job panicked"))));
        });
        told.await.map_err(|_| Error::io("a decoding thread was lost"))?
    }
}

impl Memory {
    fn of(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, shares: PerProcess::new() })
    }
}

impl Shares {
    fn of(bytes: usize) -> Self {
        Self {
            chunks: Cache::new(bytes / 8 * 7),
            answers: Cache::new(bytes / 8),
            budget: Budget::new(bytes / 8 * 3),
            far: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_shared_and_what_is_not() {
        let a = Context::new(ContextOptions::default().with_memory(1 << 20).with_threads(2));
        let b = a.with_memory(1 << 10);
        assert!(Arc::ptr_eq(&a.host("h", 3), &b.host("h", 3)));
        assert!(!Arc::ptr_eq(&a.host("h", 3), &a.host("h", 4)));
        assert_eq!((a.memory(), b.memory(), a.threads()), (1 << 20, 1 << 10, 2));
        assert!(!std::ptr::eq(a.chunks(), b.chunks()));
        let name = a.run(|| Ok(std::thread::current().name().map(str::to_owned))).await.unwrap();
        assert!(name.unwrap().starts_with("zaro-decode"));
        let panics = a.run(|| -> Result<()> { panic!("as a test") }).await;
        assert_eq!(panics.unwrap_err().message(), "a decoding job panicked");
    }
}
