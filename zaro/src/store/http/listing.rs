//! Listing a folder of a web server from its index page.

use reqwest::{Method, StatusCode, header};
use url::Url;

use super::super::http_index;
use super::{GetOptions, HttpStore, Listing, all, check_prefix, percent_decode};
use crate::error::{Error, Result};

/// The largest index page that is read: 64 MiB. A larger one is an error.
const MAX_INDEX: u64 = 64 << 20;

/// Maximum depth of nested folders.
const MAX_DEPTH: usize = 100;

impl HttpStore {
    /// Reads the index page of a folder.
    async fn index(&self, prefix: &str) -> Result<FolderIndex> {
        let accept = [(header::ACCEPT, "text/html, application/json")];
        let url = self.url(prefix, true)?;
        let sent = self.send(&Method::GET, url.clone(), &accept).await?;
        let Some(response) = sent else { return Ok(FolderIndex::None) };
        match response.status() {
            s if s.is_success() => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(FolderIndex::Missing),
            StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED => return Ok(FolderIndex::None),
            _ => return Err(self.failure(&response)),
        }
        let at = response.url().clone();
        // After a redirect elsewhere, the page is not that of this folder.
        let name = |url: &Url| url.path().trim_end_matches('/').rsplit('/').next().and_then(percent_decode);
        if name(&at) != name(&url) {
            return Ok(FolderIndex::None);
        }
        let page =
            all(response, GetOptions::at_most(MAX_INDEX)).await.map_err(|e| e.within("the index page"))?;
        Ok(http_index::parse(&page, &at)?.map_or(FolderIndex::None, FolderIndex::Page))
    }

    /// The entries on a folder's index page. A folder without a page may contain anything, unless the page of its
    /// parent does not name it.
    pub(super) async fn listed(&self, prefix: &str) -> Result<Listing> {
        check_prefix(prefix)?;
        if prefix.split('/').count() > MAX_DEPTH {
            return Err(Error::invalid(format!(
                "more than {MAX_DEPTH} nested folders; the server may list the same folder over and over"
            )));
        }
        let unknown = "the server has no index page here, so the folder cannot be listed";
        match self.index(prefix).await? {
            FolderIndex::Page(listing) => return Ok(listing),
            FolderIndex::Missing if !prefix.is_empty() => {}
            FolderIndex::Missing | FolderIndex::None => {
                if prefix.is_empty() {
                    let _ = self.has_index.set(false);
                }
                return Err(Error::unsupported(unknown));
            }
        }
        // The nearest existing parent must have a page that does not name it.
        let mut at = prefix;
        while self.has_index.get() != Some(&false) {
            let (above, name) = at.rsplit_once('/').unwrap_or(("", at));
            let around = self.index(above).await?;
            if above.is_empty() {
                let _ = self.has_index.set(matches!(around, FolderIndex::Page(_)));
            }
            match around {
                FolderIndex::Page(around) if !around.prefixes.iter().any(|n| n == name) => {
                    return Ok(Listing::default());
                }
                FolderIndex::Missing if !above.is_empty() => at = above,
                _ => break,
            }
        }
        Err(Error::unsupported(unknown))
    }
}

/// What the URL of a folder returns.
enum FolderIndex {
    Page(Listing),
    /// No page, or not an index page.
    None,
    /// The server says that it does not exist.
    Missing,
}
