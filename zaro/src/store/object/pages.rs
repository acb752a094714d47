//! The pages of one listing: a server that sends the same ones again and again is found out.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::BoxStream;

use super::page::{self, Next};
use crate::error::{Error, Result};
use crate::store::fault::transient;
use crate::store::percent_decode;

/// Where in a page its first element is.
const HEAD: usize = 1 << 10;

tokio::task_local! {
    /// Where the listing under way has come to. Requests of `object_store` do not say which listing they are for.
    static UNDER_WAY: Arc<Mutex<Ring>>;
}

/// Finds repetition in a row of tokens of any length, with one of them held (R. P. Brent's way): the one that is held
/// moves on at every power of two.
#[derive(Debug, Default)]
struct Ring {
    held: Option<String>,
    steps: u64,
    power: u32,
}

impl Ring {
    /// Whether the row has come round.
    fn sees(&mut self, token: &str) -> bool {
        if self.held.as_deref() == Some(token) {
            return true;
        }
        self.steps = self.steps.saturating_add(1);
        if 1u64.checked_shl(self.power).is_some_and(|limit| self.steps >= limit) {
            self.held = Some(token.to_owned());
            self.power = self.power.saturating_add(1);
            self.steps = 0;
        }
        false
    }
}

/// A listing whose pages are watched.
pub(super) async fn watched<F: Future>(listing: F) -> F::Output {
    UNDER_WAY.scope(Arc::default(), listing).await
}

/// The same for one that comes as a stream.
pub(super) fn watched_stream<T>(stream: BoxStream<'_, T>) -> Watched<'_, T> {
    Watched { stream, ring: Arc::default() }
}

pub(super) struct Watched<'a, T> {
    stream: BoxStream<'a, T>,
    ring: Arc<Mutex<Ring>>,
}

impl<T> Stream for Watched<'_, T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let ring = Arc::clone(&self.ring);
        UNDER_WAY.sync_scope(ring, || self.stream.as_mut().poll_next(cx))
    }
}

/// Whether a request is for a page of a listing.
pub(super) fn is_listing(query: &str) -> bool {
    query.split('&').any(|pair| {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        matches!(name, "list-type" | "versions") || pair == "comp=list"
    })
}

/// Fails unless `page` answers the query of a watched listing: whoever lists without being watched looks for itself.
pub(super) fn check(query: &str, page: &[u8]) -> Result<()> {
    if UNDER_WAY.try_with(|_| ()).is_err() {
        return Ok(());
    }
    let value = |wanted: &str| {
        let found = query.split('&').filter_map(|pair| pair.split_once('='));
        found.into_iter().find(|(name, _)| *name == wanted).map(|(_, value)| value)
    };
    let is_azure = value("list-type").is_none();
    let known: &[&str] = if is_azure { &["<EnumerationResults"] } else { &["<ListBucketResult", "<Error>"] };
    let text = String::from_utf8_lossy(page.get(..page.len().min(HEAD)).unwrap_or_default());
    if !known.iter().any(|root| text.contains(root)) {
        return Err(Error::io("the server sent something else in place of a listing"));
    }
    if is_azure {
        return match page.trim_ascii_end().ends_with(b"</EnumerationResults>") {
            true => Ok(()),
            false => Err(transient("the server's listing ends too early")),
        };
    }
    let page = page::parse(page)?;
    if matches!(page.next, Some(Next::Version { .. })) {
        return Err(Error::io("the server's listing goes on, but does not say where"));
    }
    if !page.says_end {
        return Err(Error::io("the server's listing does not say whether it is whole"));
    }
    if page.count.is_some_and(|count| count > page.entries.len().saturating_add(page.prefixes.len())) {
        return Err(transient("the server's listing has fewer keys than it says"));
    }
    let prefix = percent_decode(&value("prefix").unwrap_or_default().replace('+', " ")).unwrap_or_default();
    let mut keys = page.entries.iter().map(|e| &e.key).chain(&page.prefixes);
    match keys.find(|key| !key.starts_with(&prefix)) {
        None => Ok(()),
        Some(key) => Err(Error::io(format!("the server listed {key:?}, which was not asked for"))),
    }
}

/// Whether the listing under way asks for a page that it had before.
pub(super) fn comes_round(query: &str) -> bool {
    let token = query.split('&').find_map(|pair| {
        pair.split_once('=').filter(|(name, _)| matches!(*name, "continuation-token" | "marker"))
    });
    let Some((_, token)) = token else { return false };
    let seen = UNDER_WAY.try_with(|ring| ring.lock().unwrap_or_else(PoisonError::into_inner).sees(token));
    // Who lists without being watched looks for itself.
    seen.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_of_any_length_is_found_and_a_long_row_is_none() {
        for length in [1u64, 2, 3, 7, 100] {
            for before in [0, 1, 5, 64] {
                let mut ring = Ring::default();
                let row = (0..before).map(|i| format!("before {i}"));
                let mut all = row.chain((0..).map(|i: u64| (i % length).to_string()));
                let at = all.by_ref().take(1000).position(|token| ring.sees(&token));
                assert!(at.is_some(), "{length} after {before}");
            }
        }
        let mut ring = Ring::default();
        assert!(!(0..10_000).any(|i| ring.sees(&i.to_string())));
    }

    #[test]
    fn listings_are_known_by_their_query() {
        assert!(is_listing("list-type=2&prefix=a") && is_listing("restype=container&comp=list"));
        assert!(is_listing("prefix=a&versions="));
        assert!(!is_listing("versionId=3") && !is_listing("tagging"));
    }
}
