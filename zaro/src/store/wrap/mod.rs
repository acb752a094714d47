//! Stores around stores.
//!
//! Each wrapper does one thing and passes the rest on, so they combine freely. A remote store comes from
//! [`open_store`](crate::open::open_store) as `cache(gather(coalesce(retry(limit(log(store))))))`: what is held is not
//! asked for again, what is asked for is joined, across callers and for each, each joined request is repeated for
//! itself, waits its turn at its host, and every try shows in the log. Around all of it is what opens it anew in a forked child.

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
