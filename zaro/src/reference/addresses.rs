//! Rewriting the addresses of references when a map is converted or rebased.
//!
//! Prefixes are replaced as asked; relative addresses keep their meaning where the new map lies elsewhere; an object
//! version becomes part of the address, since neither of Kerchunk's forms has another place for it.

use std::sync::Arc;

use super::stat::{Objects, PlaceStat};
use super::{Remote, Target, Targets};
use crate::boxed;
use crate::error::{Error, ErrorKind, Result, invalid, unsupported, usage};
use crate::store::percent_encode;

/// Rewrites addresses, and counts what was changed.
#[derive(Debug)]
pub struct Addresses {
    pairs: Vec<Pair>,
    targets: Arc<dyn Targets>,
    keep_relative: bool,
    counts: Counts,
    /// The objects that no prefix matches.
    left: Objects,
    memo: Option<(Remote, Arc<str>, AddressChange)>,
}

/// A prefix and its replacement.
#[derive(Debug, Clone)]
struct Pair {
    from: String,
    to: String,
    count: u64,
}

/// How many references were changed in which way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// For each pair of prefixes: from, to, references changed.
    pub pairs: Vec<(String, String, u64)>,
    /// References whose address began with none of the prefixes.
    pub unchanged: u64,
    /// Where the objects of unchanged references are.
    pub unchanged_places: Vec<PlaceStat>,
    /// References whose relative address was made absolute.
    pub absolute: u64,
    /// References whose version became part of the address.
    pub versioned: u64,
    /// References with an ETag or timestamp of their object, which the new form cannot store.
    pub unpinned: u64,
    /// References without an object, where the caller named no target either.
    pub unnamed: u64,
}

/// What happened to one address.
#[derive(Debug, Clone, Copy, Default)]
struct AddressChange {
    pair: Option<usize>,
    absolute: bool,
    versioned: bool,
    unpinned: bool,
}

impl Addresses {
    /// Keeps the addresses of a map with these targets: relative ones too with `keep_relative`, else they become the
    /// absolute addresses that the targets resolve them to.
    #[must_use]
    pub fn new(targets: Arc<dyn Targets>, keep_relative: bool) -> Self {
        Self {
            pairs: Vec::new(),
            targets,
            keep_relative,
            counts: Counts::default(),
            left: Objects::default(),
            memo: None,
        }
    }

    /// Replaces the prefix `from` of addresses by `to`. The longest matching prefix wins.
    pub fn rebase(mut self, from: &str, to: &str) -> Result<Self> {
        if from.is_empty() {
            return Err(Error::usage("the prefix to replace must not be empty"));
        }
        if self.pairs.iter().any(|p| p.from == from) {
            return Err(usage!("the prefix {from:?} is given twice"));
        }
        self.pairs.push(Pair { from: from.to_owned(), to: to.to_owned(), count: 0 });
        self.pairs.sort_by_key(|p| std::cmp::Reverse(p.from.len()));
        Ok(self)
    }

    /// How many references were changed so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let pairs = self.pairs.iter().map(|p| (p.from.clone(), p.to.clone(), p.count)).collect();
        Counts { pairs, unchanged_places: self.left.places(), ..self.counts.clone() }
    }

    /// The address of `remote` in the new map.
    #[boxed]
    pub async fn of(&mut self, remote: &Remote) -> Result<Arc<str>> {
        let same = |r: &Remote| r.url == remote.url && r.pin == remote.pin && r.near == remote.near;
        let (url, change) = match &self.memo {
            Some((last, url, change)) if same(last) => (url.clone(), *change),
            _ => {
                let (url, change) = self.change(remote).await?;
                self.memo = Some((remote.clone(), url.clone(), change));
                (url, change)
            }
        };
        match change.pair.and_then(|i| self.pairs.get_mut(i)) {
            Some(pair) => pair.count += 1,
            None => {
                self.counts.unchanged += 1;
                if !self.pairs.is_empty() {
                    self.left.id(remote, remote.span.map_or(0, |s| s.length));
                }
            }
        }
        self.counts.absolute += u64::from(change.absolute);
        self.counts.versioned += u64::from(change.versioned);
        self.counts.unpinned += u64::from(change.unpinned);
        self.counts.unnamed += u64::from(url.is_empty());
        Ok(url)
    }

    async fn change(&self, remote: &Remote) -> Result<(Arc<str>, AddressChange)> {
        let mut change = AddressChange::default();
        let mut url = remote.url.to_string();
        change.pair = self.fitting(&url);
        if change.pair.is_none() && (url.is_empty() || is_relative(&url)) {
            let found = self.whole(remote).await?;
            change.pair = found.as_deref().and_then(|url| self.fitting(url));
            if let Some(found) = found
                && (change.pair.is_some() || !self.keep_relative || url.is_empty())
            {
                change.absolute = change.pair.is_none();
                url = found;
            }
        }
        if change.pair.is_none() && !change.absolute {
            // In a map of this machine, what a map from elsewhere says of local files would count.
            self.targets.permits(&url).map_err(|e| e.within(remote.to_string()))?;
        }
        if let Some(pair) = change.pair.and_then(|i| self.pairs.get(i)) {
            url = format!("{}{}", pair.to, url.get(pair.from.len()..).unwrap_or_default());
        }
        if let Some(pin) = &remote.pin {
            change.unpinned = pin.etag.is_some() || pin.unmodified_since.is_some();
            if let Some(version) = pin.version.as_deref() {
                match with_version(&url, version) {
                    Some(with) => {
                        change.versioned = with != url;
                        url = with;
                    }
                    None => change.unpinned = true,
                }
            }
        }
        let url = if url == *remote.url { remote.url.clone() } else { url.into() };
        Ok((url, change))
    }

    /// The pair with the longest prefix that matches an address.
    fn fitting(&self, url: &str) -> Option<usize> {
        self.pairs.iter().position(|p| url.starts_with(p.from.as_str()))
    }

    /// The absolute form of a relative address; `None` if it is not wanted, or for a target that was not named.
    async fn whole(&self, remote: &Remote) -> Result<Option<String>> {
        if self.keep_relative && self.pairs.is_empty() && !remote.url.is_empty() {
            return Ok(None);
        }
        match self.targets.target(remote).await {
            Ok(target) => whole_address(&target, &remote.url).map(Some),
            Err(e) if remote.url.is_empty() && e.kind() == ErrorKind::Usage => Ok(None),
            Err(e) => Err(e.within(remote.to_string())),
        }
    }
}

/// The absolute address of an object that a relative address resolves to.
fn whole_address(target: &Target, written: &str) -> Result<String> {
    let store = target.store.to_string();
    let root = store.trim_end_matches('/');
    if root.starts_with("http://") || root.starts_with("https://") {
        if written.contains(['%', '?', '#']) {
            let message = format!("{written:?} cannot be made absolute; keep relative addresses instead");
            return Err(Error::unsupported(message));
        }
        let mut url = url::Url::parse(root).map_err(|e| invalid!("{root}: {e}"))?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(target.key.split('/'));
        }
        return Ok(url.into());
    }
    let address = format!("{root}/{}", target.key);
    if address.contains("://") {
        return Ok(address);
    }
    let path = std::path::absolute(&address).map_err(|e| Error::from(e).within(&address))?;
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| unsupported!("{} is not valid UTF-8", path.display()))
}

/// Whether an address is relative: not empty, not an absolute path, and without a scheme.
#[must_use]
pub(crate) fn is_relative(url: &str) -> bool {
    let scheme = url.contains("://") || url.starts_with("file:");
    !url.is_empty() && !url.starts_with('/') && !scheme
}

/// The address of one version of an object; `None` if the scheme has no form for it.
fn with_version(url: &str, version: &str) -> Option<String> {
    let scheme = url.split_once("://")?.0.to_ascii_lowercase();
    let encoded = percent_encode(version);
    match scheme.as_str() {
        _ if url.contains("versionId=") => Some(url.to_owned()),
        "s3" | "s3a" | "http" | "https" => {
            let mark = if url.contains('?') { '&' } else { '?' };
            Some(format!("{url}{mark}versionId={encoded}"))
        }
        // What gcsfs reads as a generation.
        "gs" | "gcs" if !url.contains('#') => Some(format!("{url}#{encoded}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Pin;

    use super::super::testing::MemoryTargets;
    use crate::store::local::LocalStore;

    /// Relative addresses from one folder on, and a target by name.
    #[derive(Debug)]
    struct RelativeTo(&'static str, Option<&'static str>);

    #[async_trait::async_trait]
    impl Targets for RelativeTo {
        async fn target(&self, remote: &Remote) -> Result<Target> {
            let key = match (remote.url.is_empty(), self.1) {
                (true, None) => return Err(Error::usage("no target was named")),
                (true, Some(named)) => named,
                (false, _) => &remote.url,
            };
            Ok(Target { store: Arc::new(LocalStore::new(self.0)), key: key.to_owned() })
        }
    }

    fn new() -> Addresses {
        Addresses::new(Arc::new(RelativeTo("/a", None)), false)
    }

    async fn of(addresses: &mut Addresses, url: &str) -> String {
        addresses.of(&Remote::new(url, None)).await.unwrap().to_string()
    }

    #[tokio::test]
    async fn the_longest_prefix_counts() {
        let mut a = new().rebase("s3://b/", "/data/").unwrap().rebase("s3://b/x/", "https://h/").unwrap();
        assert_eq!(of(&mut a, "s3://b/y/1").await, "/data/y/1");
        assert_eq!(of(&mut a, "s3://b/x/1").await, "https://h/1");
        assert_eq!(of(&mut a, "s3://b/x/1").await, "https://h/1");
        assert_eq!(of(&mut a, "s3://bb/x/1").await, "s3://bb/x/1");
        let counts = a.counts();
        let pairs: Vec<(&str, u64)> = counts.pairs.iter().map(|(f, _, n)| (f.as_str(), *n)).collect();
        assert_eq!(pairs, [("s3://b/x/", 2), ("s3://b/", 1)]);
        assert_eq!(counts.unchanged, 1);
        assert_eq!(counts.unchanged_places[0].prefix, "s3://bb/x/");
        assert!(new().rebase("", "x").is_err());
        assert!(new().rebase("a", "x").unwrap().rebase("a", "y").is_err());
    }

    #[tokio::test]
    async fn relative_addresses_keep_their_meaning() {
        for (url, wanted) in [
            ("c/d.nc", "/a/c/d.nc"),
            ("/c", "/c"),
            ("s3://b/c", "s3://b/c"),
            ("file:/c", "file:/c"),
            ("", ""),
            ("time:12.nc", "/a/time:12.nc"),
        ] {
            assert_eq!(of(&mut new(), url).await, wanted, "{url}");
        }
        let mut a = new().rebase("/a/x/", "s3://b/").unwrap();
        assert_eq!(of(&mut a, "x/1").await, "s3://b/1");
        assert_eq!(of(&mut a, "y/1").await, "/a/y/1");
        assert_eq!(a.counts().absolute, 1);
        let mut kept = Addresses::new(Arc::new(RelativeTo("/a", Some("named"))), true);
        assert_eq!(of(&mut kept, "x/1").await, "x/1");
        assert_eq!(of(&mut kept, "").await, "/a/named");
        let mut kept = kept.rebase("/a/x/", "s3://b/").unwrap();
        assert_eq!(of(&mut kept, "x/2").await, "s3://b/2");
        assert_eq!(of(&mut kept, "y/2").await, "y/2");
    }

    #[tokio::test]
    async fn versions_become_part_of_the_address() {
        let pinned = |url: &str, version: Option<&str>, etag: Option<&str>| {
            let pin =
                Pin { version: version.map(str::to_owned), etag: etag.map(str::to_owned), ..Pin::default() };
            Remote { pin: Some(Arc::new(pin)), ..Remote::new(url, None) }
        };
        let mut a = Addresses::new(Arc::new(MemoryTargets::default()), false);
        for (url, version, wanted) in [
            ("s3://b/k", "v1", "s3://b/k?versionId=v1"),
            ("https://h/k?x=1", "a+b", "https://h/k?x=1&versionId=a%2Bb"),
            ("s3://b/k?versionId=v1", "v1", "s3://b/k?versionId=v1"),
            ("gs://b/k", "17", "gs://b/k#17"),
        ] {
            assert_eq!(&*a.of(&pinned(url, Some(version), None)).await.unwrap(), wanted);
        }
        assert_eq!((a.counts().versioned, a.counts().unpinned), (3, 0));
        assert_eq!(&*a.of(&pinned("/file", Some("17"), None)).await.unwrap(), "/file");
        assert_eq!(&*a.of(&pinned("s3://b/k", None, Some("e"))).await.unwrap(), "s3://b/k");
        assert_eq!(a.counts().unpinned, 2);
    }
}
