//! The pages of one listing; detects a server that sends the same pages over and over.

use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::path::Path;

use super::page::{self, Next};
use crate::error::{Error, Result};
use crate::store::fault::transient;
use crate::store::{Entry, KeyEntry, ListOptions, check_prefix, join, percent_decode};

/// Where the first element of a page is.
const HEAD: usize = 1 << 10;

/// Detects a cycle in a sequence of tokens with constant memory (Brent's algorithm): the remembered token is replaced
/// at every power of two.
#[derive(Debug, Default)]
struct Ring {
    held: Option<String>,
    steps: u64,
    power: u32,
}

impl Ring {
    /// Whether the sequence repeats.
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

/// A listing, page by page.
pub(super) struct PagedListing {
    prefix: String,
    options: ListOptions,
    token: Option<String>,
    over: bool,
    ring: Ring,
}

impl PagedListing {
    pub(super) fn new(prefix: &str, options: &ListOptions) -> Self {
        let (prefix, options) = (prefix.to_owned(), options.clone());
        Self { prefix, options, token: None, over: false, ring: Ring::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The prefix, if it is valid.
    pub(super) fn check(&self) -> Result<&str> {
        check_prefix(&self.prefix)?;
        Ok(&self.prefix)
    }

    /// The next request. `path` maps a key to its path in the bucket.
    pub(super) fn ask(&self, path: impl Fn(&str) -> Option<Path>) -> PaginatedListOptions {
        let after = self.options.after.as_ref().and_then(|after| match after.strip_suffix('/') {
            Some(folder) => Some(format!("{}/", path(folder)?)),
            None => path(after).map(|at| at.to_string()),
        });
        PaginatedListOptions {
            offset: after,
            delimiter: (!self.options.recursive).then_some("/".into()),
            page_token: self.token.clone(),
            ..PaginatedListOptions::default()
        }
    }

    /// The entries of a page, in order; `root` is the prefix as a path in the bucket.
    pub(super) fn read(&mut self, root: &Path, page: PaginatedListResult) -> Result<Vec<Entry>> {
        self.token = page.page_token;
        self.over = self.token.is_none();
        if self.token.as_ref().is_some_and(|token| self.ring.sees(token)) {
            return Err(Error::io("the server lists the same page again and again"));
        }
        let below = |path: &Path| {
            let rest = match root.as_ref() {
                "" => Some(path.as_ref()),
                root => path.as_ref().strip_prefix(root).and_then(|rest| rest.strip_prefix('/')),
            };
            // An empty name is the marker object some tools create for a folder.
            let rest = rest.filter(|rest| !rest.is_empty());
            rest.filter(|rest| self.options.recursive || !rest.contains('/'))
                .map(|rest| join(&self.prefix, rest))
        };
        let objects = page.result.objects.iter().filter_map(|object| {
            Some(Entry::Object(KeyEntry::new(below(&object.location)?, super::facts(object))))
        });
        let folders = page.result.common_prefixes.iter().filter_map(|path| below(path).map(Entry::Prefix));
        let mut entries: Vec<_> = objects.chain(folders).filter(|e| !self.options.is_past(e)).collect();
        if !self.options.recursive {
            entries.sort_by(Entry::order);
        }
        Ok(entries)
    }
}

/// Whether a request is for a listing page.
pub(super) fn is_listing(query: &str) -> bool {
    query.split('&').any(|pair| {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        matches!(name, "list-type" | "versions") || pair == "comp=list"
    })
}

/// Fails unless `page` is a valid response to a listing request.
pub(super) fn check(query: &str, page: &[u8]) -> Result<()> {
    let value = |wanted: &str| {
        let found = query.split('&').filter_map(|pair| pair.split_once('='));
        found.into_iter().find(|(name, _)| *name == wanted).map(|(_, value)| value)
    };
    let is_azure = value("list-type").is_none();
    let known: &[&str] = if is_azure { &["<EnumerationResults"] } else { &["<ListBucketResult", "<Error>"] };
    let text = String::from_utf8_lossy(page.get(..page.len().min(HEAD)).unwrap_or_default());
    if !known.iter().any(|root| text.contains(root)) {
        return Err(Error::io("the server's response is not a listing"));
    }
    if is_azure {
        return match page.trim_ascii_end().ends_with(b"</EnumerationResults>") {
            true => Ok(()),
            false => Err(transient("the server's listing ends too early")),
        };
    }
    let page = page::parse(page)?;
    if matches!(page.next, Some(Next::Version { .. })) {
        return Err(Error::io("the server's listing is truncated, but has no continuation token"));
    }
    if !page.says_end {
        return Err(Error::io("the server's listing does not say whether it is truncated"));
    }
    if page.count.is_some_and(|count| count > page.entries.len().saturating_add(page.prefixes.len())) {
        return Err(transient("the server's listing has fewer keys than announced"));
    }
    let prefix = percent_decode(&value("prefix").unwrap_or_default().replace('+', " ")).unwrap_or_default();
    let mut keys = page.entries.iter().map(|e| &e.key).chain(&page.prefixes);
    match keys.find(|key| !key.starts_with(&prefix)) {
        None => Ok(()),
        Some(key) => Err(Error::io(format!("the server listed {key:?}, which was not requested"))),
    }
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
