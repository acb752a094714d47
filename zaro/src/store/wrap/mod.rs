//! Wrapper stores: caching, coalescing, retries, limits, logging.
//!
//! Each wrapper does one thing and forwards the rest, so they combine freely. [`open_store`](crate::open::open_store)
//! returns a remote store as `cache(gather(coalesce(retry(limit(log(store))))))`: cached bytes are not requested again,
//! ranges are joined across callers and per call, each joined request is retried separately, waits for a slot of its
//! host, and every attempt is logged. Around all of it, a wrapper reopens the store in a forked child.

pub(crate) mod cache;
pub(crate) mod coalesce;
pub(crate) mod forward;
pub(crate) mod gather;
pub(crate) mod limit;
pub(crate) mod log;
pub(crate) mod prefix;
pub(crate) mod read_only;
#[cfg(feature = "cloud")]
pub(crate) mod reopen;
pub(crate) mod retry;
pub(crate) mod withhold;
