//! What becomes of addresses on the way into another map.
//!
//! Prefixes change as asked; relative addresses keep their meaning where the new map lies elsewhere; a version becomes
//! a part of the address, since neither of Kerchunk's forms has another place for it.

use std::sync::Arc;

use super::Remote;
use crate::error::{Error, Result};

/// How addresses change.
#[derive(Debug, Default)]
pub struct Addresses {
    pairs: Vec<Pair>,
    base: Option<String>,
    counts: Counts,
    memo: Option<(Remote, Arc<str>, Change)>,
}

/// A prefix, and what takes its place.
#[derive(Debug, Clone)]
struct Pair {
    from: String,
    to: String,
    count: u64,
}

/// How many references went which way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// For each pair of prefixes: from, to, references changed.
    pub pairs: Vec<(String, String, u64)>,
    /// References whose address began with none of the prefixes.
    pub unchanged: u64,
    /// References whose relative address was made absolute.
    pub absolute: u64,
    /// References whose version became part of the address.
    pub versioned: u64,
    /// References that named a state of their object in a way that the form has no place for.
    pub unpinned: u64,
}

/// What happened to one address.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    pair: Option<usize>,
    absolute: bool,
    versioned: bool,
    unpinned: bool,
}

impl Addresses {
    /// Addresses stay as they are.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Relative addresses become absolute: they are relative to `base`, a path or an address of a folder.
    #[must_use]
    pub fn absolute(mut self, base: impl Into<String>) -> Self {
        let mut base: String = base.into();
        base.truncate(base.trim_end_matches('/').len());
        self.base = Some(base);
        self
    }

    /// Addresses that begin with `from` begin with `to` instead. Of several prefixes that fit, the longest counts.
    pub fn rebase(mut self, from: &str, to: &str) -> Result<Self> {
        if from.is_empty() {
            return Err(Error::usage("an empty prefix fits every address; name the start of some"));
        }
        if self.pairs.iter().any(|p| p.from == from) {
            return Err(Error::usage(format!("the prefix {from:?} is given twice")));
        }
        self.pairs.push(Pair { from: from.to_owned(), to: to.to_owned(), count: 0 });
        self.pairs.sort_by_key(|p| std::cmp::Reverse(p.from.len()));
        Ok(self)
    }

    /// How many references went which way so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let pairs = self.pairs.iter().map(|p| (p.from.clone(), p.to.clone(), p.count)).collect();
        Counts { pairs, ..self.counts.clone() }
    }

    /// Forgets the counts; for a map that is gone through again.
    pub fn restart(&mut self) {
        self.counts = Counts::default();
        for pair in &mut self.pairs {
            pair.count = 0;
        }
    }

    /// The address that `remote` has in the new map.
    pub fn of(&mut self, remote: &Remote) -> Arc<str> {
        let same = |r: &Remote| r.url == remote.url && r.pin == remote.pin && r.near == remote.near;
        let (url, change) = match &self.memo {
            Some((last, url, change)) if same(last) => (url.clone(), *change),
            _ => {
                let (url, change) = self.change(remote);
                self.memo = Some((remote.clone(), url.clone(), change));
                (url, change)
            }
        };
        match change.pair.and_then(|i| self.pairs.get_mut(i)) {
            Some(pair) => pair.count += 1,
            None => self.counts.unchanged += 1,
        }
        self.counts.absolute += u64::from(change.absolute);
        self.counts.versioned += u64::from(change.versioned);
        self.counts.unpinned += u64::from(change.unpinned);
        url
    }

    fn change(&self, remote: &Remote) -> (Arc<str>, Change) {
        let mut change = Change::default();
        let mut url = remote.url.to_string();
        let fitting = |url: &str| self.pairs.iter().position(|p| url.starts_with(p.from.as_str()));
        change.pair = fitting(&url);
        if change.pair.is_none()
            && let Some(base) = self.base.as_deref().filter(|_| is_relative(&url))
        {
            url = joined(base, &url);
            change.pair = fitting(&url);
            change.absolute = change.pair.is_none();
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
        (url, change)
    }
}

/// Whether an address is relative to something: neither a path from the root, nor with a scheme, nor nothing.
#[must_use]
pub fn is_relative(url: &str) -> bool {
    let scheme = url.contains("://") || url.starts_with("file:");
    !url.is_empty() && !url.starts_with('/') && !scheme
}

/// `base/url`, without `.` and `..` as far as `base` has folders to leave.
fn joined(base: &str, url: &str) -> String {
    // What names a server or a bucket is no folder.
    let root = match base.split_once("://") {
        Some((scheme, rest)) => {
            let authority = if scheme == "file" { 0 } else { rest.find('/').unwrap_or(rest.len()) };
            scheme.len().saturating_add(3).saturating_add(authority)
        }
        None => 0,
    };
    let (root, folders) = base.split_at_checked(root).unwrap_or((base, ""));
    let mut parts: Vec<&str> = folders.split('/').collect();
    for part in url.split('/') {
        match part {
            "." => {}
            ".." if parts.len() > 1 && parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("{root}{}", parts.join("/"))
}

/// The address of one version of an object; `None` where there is no way to write it.
fn with_version(url: &str, version: &str) -> Option<String> {
    let scheme = url.split_once("://")?.0.to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    let encoded: String = version
        .chars()
        .flat_map(|c| {
            let mut buffer = [0; 4];
            match plain(c) {
                true => vec![c.to_string()],
                false => c.encode_utf8(&mut buffer).bytes().map(|b| format!("%{b:02X}")).collect(),
            }
        })
        .collect();
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

    fn of(addresses: &mut Addresses, url: &str) -> String {
        addresses.of(&Remote::new(url, None)).to_string()
    }

    #[test]
    fn the_longest_prefix_counts() {
        let mut a =
            Addresses::new().rebase("s3://b/", "/data/").unwrap().rebase("s3://b/x/", "https://h/").unwrap();
        assert_eq!(of(&mut a, "s3://b/y/1"), "/data/y/1");
        assert_eq!(of(&mut a, "s3://b/x/1"), "https://h/1");
        assert_eq!(of(&mut a, "s3://b/x/1"), "https://h/1");
        assert_eq!(of(&mut a, "s3://bb/x/1"), "s3://bb/x/1");
        let counts = a.counts();
        let pairs: Vec<(&str, u64)> = counts.pairs.iter().map(|(f, _, n)| (f.as_str(), *n)).collect();
        assert_eq!(pairs, [("s3://b/x/", 2), ("s3://b/", 1)]);
        assert_eq!(counts.unchanged, 1);
        assert!(Addresses::new().rebase("", "x").is_err());
        assert!(Addresses::new().rebase("a", "x").unwrap().rebase("a", "y").is_err());
    }

    #[test]
    fn relative_addresses_keep_their_meaning() {
        for (base, url, wanted) in [
            ("/a/b", "c/d.nc", "/a/b/c/d.nc"),
            ("/a/b/", "./c", "/a/b/c"),
            ("/a/b", "../c", "/a/c"),
            ("/a", "../../c", "/../c"),
            ("s3://bucket/x", "../y/z", "s3://bucket/y/z"),
            ("https://h", "y", "https://h/y"),
            ("file:///a/b", "../y", "file:///a/y"),
            ("/a", "/c", "/c"),
            ("/a", "s3://b/c", "s3://b/c"),
            ("/a", "file:/c", "file:/c"),
            ("/a", "", ""),
            ("/a", "time:12.nc", "/a/time:12.nc"),
        ] {
            assert_eq!(of(&mut Addresses::new().absolute(base), url), wanted, "{base} {url}");
        }
        let mut a = Addresses::new().absolute("/a").rebase("/a/x/", "s3://b/").unwrap();
        assert_eq!(of(&mut a, "x/1"), "s3://b/1");
        assert_eq!(of(&mut a, "y/1"), "/a/y/1");
        assert_eq!(a.counts().absolute, 1);
    }

    #[test]
    fn versions_become_part_of_the_address() {
        let pinned = |url: &str, version: Option<&str>, etag: Option<&str>| {
            let pin =
                Pin { version: version.map(str::to_owned), etag: etag.map(str::to_owned), ..Pin::default() };
            Remote { pin: Some(Arc::new(pin)), ..Remote::new(url, None) }
        };
        let mut a = Addresses::new();
        assert_eq!(&*a.of(&pinned("s3://b/k", Some("v1"), None)), "s3://b/k?versionId=v1");
        assert_eq!(&*a.of(&pinned("https://h/k?x=1", Some("a+b"), None)), "https://h/k?x=1&versionId=a%2Bb");
        assert_eq!(&*a.of(&pinned("s3://b/k?versionId=v1", Some("v1"), None)), "s3://b/k?versionId=v1");
        assert_eq!(&*a.of(&pinned("gs://b/k", Some("17"), None)), "gs://b/k#17");
        assert_eq!((a.counts().versioned, a.counts().unpinned), (3, 0));
        assert_eq!(&*a.of(&pinned("/file", Some("17"), None)), "/file");
        assert_eq!(&*a.of(&pinned("s3://b/k", None, Some("e"))), "s3://b/k");
        assert_eq!(a.counts().unpinned, 2);
    }
}
