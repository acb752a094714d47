//! Targets of references: from their addresses to stores.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::SourceOptions;
use super::address::{StorePlace, is_archive_name};
use super::connect::{connect, folder};
use super::spot::{RelativePath, StoreLocation};
use crate::error::{Error, Result};
use crate::reference::{Remote, Target, Targets};
use crate::store::options::{Applied, StoreOptions};
use crate::store::zip::ZipStore;
use crate::store::{SharedStore, StoreExt as _, check_key};

/// The most addresses whose stores are remembered, and the most stores.
const REMEMBERED: usize = 4096;

/// The longest chain of addresses: archives in archives occur, longer chains do not.
const MAX_CHAIN: usize = 8;

/// fsspec prefixes that configure caching.
const CACHES: [&str; 3] = ["simplecache", "filecache", "blockcache"];

/// The targets of a reference store.
///
/// Each address is reached by its own scheme and bucket or server, with the options for it; addresses share stores
/// where possible. Relative addresses are relative to the reference store itself, or to the root named in the options.
/// A remote reference store never accesses local files, unless allowed.
#[derive(Debug)]
pub(super) struct AnyTargets {
    options: StoreOptions,
    /// The object for references that name none.
    target: Option<String>,
    /// The base of relative addresses: the folder of the references, or the one named by the caller.
    base: StoreLocation,
    /// Whether the caller named it.
    named: bool,
    /// Whether the references are from elsewhere, and may not access local files.
    guarded: bool,
    /// Which base of relative addresses had the last object.
    last: std::sync::atomic::AtomicUsize,
    state: Mutex<KnownTargets>,
}

#[derive(Debug, Default)]
struct KnownTargets {
    found: HashMap<(Arc<str>, Option<Arc<str>>), Target>,
    stores: HashMap<(String, Applied), SharedStore>,
    archives: HashMap<String, Arc<OnceCell<SharedStore>>>,
}

impl AnyTargets {
    /// The targets of references located in `base`, or of references from elsewhere (`guarded`) if `base` was `named`.
    pub(super) fn new(base: StoreLocation, named: bool, guarded: bool, options: &SourceOptions) -> Self {
        Self {
            guarded: guarded && !options.references.allow_local,
            options: options.store.clone(),
            target: options.references.target.clone(),
            base,
            named,
            last: std::sync::atomic::AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, KnownTargets> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an address leads to a local file, as far as it tells.
    pub(super) fn is_local(&self, url: &str) -> bool {
        let url = if url.is_empty() { self.target.as_deref().unwrap_or_default() } else { url };
        match StorePlace::of_object(url) {
            Ok(Some(StorePlace::Local(_))) => true,
            Ok(None) => self.base.store.direct().is_some() && !url.contains("::"),
            _ => false,
        }
    }

    async fn resolve(&self, url: &str, near: Option<&str>, trusted: bool) -> Result<Target> {
        // Each link is a nested call.
        if url.matches("::").take(MAX_CHAIN + 1).count() > MAX_CHAIN {
            return Err(Error::invalid(format!("the address has more than {MAX_CHAIN} nested parts")));
        }
        if let Some((first, rest)) = url.split_once("::") {
            let (scheme, inner) = first.split_once("://").unwrap_or((first, ""));
            match scheme.to_ascii_lowercase().as_str() {
                "zip" => return self.in_archive(rest, inner, trusted).await,
                s if CACHES.contains(&s) => return Box::pin(self.resolve(rest, near, trusted)).await,
                "tar" => {
                    return Err(Error::unsupported("tar archives are not supported; use ZIP"));
                }
                _ => {}
            }
        }
        match StorePlace::of_object(url)? {
            Some(place) => self.at(place, url, trusted).await,
            None => self.relative(url, near, trusted).await,
        }
    }

    /// The entry `inner` of the archive at `outer`.
    async fn in_archive(&self, outer: &str, inner: &str, trusted: bool) -> Result<Target> {
        let inner = inner.trim_start_matches('/');
        check_key(inner).map_err(|_| Error::invalid(format!("{inner:?} is not a valid entry name")))?;
        let archive = Box::pin(self.resolve(outer, None, trusted)).await?;
        let cell = Arc::clone(self.state().archives.entry(outer.to_owned()).or_default());
        let open = || async {
            let zip = ZipStore::open(archive.store, &archive.key).await?;
            let zip = zip.ok_or_else(|| Error::not_found("the referenced archive does not exist"))?;
            Ok::<SharedStore, Error>(Arc::new(zip))
        };
        let store = Arc::clone(cell.get_or_try_init(open).await?);
        Ok(Target { store, key: inner.to_owned() })
    }

    /// Resolves a relative path.
    async fn relative(&self, path: &str, near: Option<&str>, trusted: bool) -> Result<Target> {
        let mut bases = vec![self.base.clone()];
        if let (Some(near), false) = (near, self.named) {
            // References in a folder: relative to it, to its parent, or to the folder of the array.
            bases.extend(self.base.above(&self.options));
            bases.push(self.base.child(near));
        }
        if bases.len() == 1 {
            return self.from(&self.base, path, trusted).await;
        }
        let last = self.last.load(std::sync::atomic::Ordering::Relaxed);
        let order = std::iter::once(last).chain((0..bases.len()).filter(|i| *i != last));
        let mut first = None;
        for i in order {
            let Some(base) = bases.get(i) else { continue };
            let Ok(target) = self.from(base, path, trusted).await else { continue };
            if target.store.exists(&target.key).await? {
                self.last.store(i, std::sync::atomic::Ordering::Relaxed);
                return Ok(target);
            }
            first.get_or_insert(target);
        }
        match first {
            Some(target) => Ok(target),
            None => self.from(&self.base, path, trusted).await,
        }
    }

    /// Resolves `path` from `base`.
    async fn from(&self, base: &StoreLocation, path: &str, trusted: bool) -> Result<Target> {
        // A part of a web URL is parsed as one.
        if let Some(StorePlace::Http(url)) = &base.place
            && path.contains(['%', '?', '#'])
        {
            let mut folder = url.clone();
            let inside = format!("{}/{}", url.path().trim_end_matches('/'), base.path);
            folder.set_path(&format!("{}/", inside.trim_end_matches('/')));
            let joined = folder.join(&format!("./{path}"));
            let joined = joined.map_err(|e| Error::invalid(format!("{path:?} is not a valid URL: {e}")))?;
            let text = joined.as_str().to_owned();
            return self.at(StorePlace::Http(joined), &text, trusted).await;
        }
        match base.below(path)? {
            RelativePath::Here(key) => {
                check_key(&key)
                    .map_err(|_| Error::invalid(format!("{path:?} is not a valid object path")))?;
                if let (Some(StorePlace::Local(root)), true) =
                    (&base.place, self.named && self.guarded && !trusted)
                {
                    stays_below(root, &key)?;
                }
                Ok(Target { store: Arc::clone(&base.store), key })
            }
            RelativePath::Elsewhere(place) => {
                if self.named && self.guarded && !trusted {
                    return Err(leads_out());
                }
                // Leaving one local folder for another needs no more trust than the folder itself.
                let text = text_of(&place);
                self.at(place, &text, trusted).await
            }
        }
    }

    /// The object at a location, which was written as `url`.
    async fn at(&self, place: StorePlace, url: &str, trusted: bool) -> Result<Target> {
        let named = |(root, key): (StorePlace, String), base: String| (root, key, base);
        let (root, key, name) = match place {
            StorePlace::Local(path) => {
                if self.guarded && !trusted {
                    return Err(names_local());
                }
                return self.local(&path).await;
            }
            StorePlace::S3 { bucket, path, aws } => {
                let name = format!("s3 {bucket}");
                named((StorePlace::S3 { bucket, path: String::new(), aws }, path), name)
            }
            StorePlace::Gcs { bucket, path } => {
                let name = format!("gs {bucket}");
                named((StorePlace::Gcs { bucket, path: String::new() }, path), name)
            }
            StorePlace::Azure { account, container, path, sas } => {
                let name = format!("az {account:?} {container}");
                named((StorePlace::Azure { account, container, path: String::new(), sas }, path), name)
            }
            StorePlace::Http(address) => return self.http(&address, url),
            StorePlace::Memory => {
                return Err(Error::unsupported("objects in memory cannot be referenced"));
            }
        };
        let store = self.shared(name, url, |options| connect(&root, options))?;
        Ok(Target { store, key })
    }

    /// Whether headers that the caller set for all addresses may be sent there: a token for the server of a document
    /// must not go to whatever servers the document names.
    fn may_see_headers(&self, url: &str) -> bool {
        if self.target.as_deref() == Some(url) {
            return true;
        }
        let (Some(own), Ok(Some(other))) = (&self.base.place, StorePlace::of_object(url)) else {
            return false;
        };
        match (own, &other) {
            (StorePlace::Http(own), StorePlace::Http(other)) => own.origin() == other.origin(),
            (StorePlace::S3 { bucket: own, .. }, StorePlace::S3 { bucket: other, .. })
            | (StorePlace::Gcs { bucket: own, .. }, StorePlace::Gcs { bucket: other, .. }) => own == other,
            (
                StorePlace::Azure { account: a, container: own, .. },
                StorePlace::Azure { account: b, container: other, .. },
            ) => (a, own) == (b, other),
            _ => false,
        }
    }

    /// The store called `name`, created on first use with the options for `url`.
    fn shared(
        &self,
        name: String,
        url: &str,
        make: impl FnOnce(&StoreOptions) -> Result<SharedStore>,
    ) -> Result<SharedStore> {
        let place = (name, self.options.applied(url));
        if let Some(store) = self.state().stores.get(&place) {
            return Ok(Arc::clone(store));
        }
        let mut options = self.options.clone();
        if !self.may_see_headers(url) {
            options.headers.clear();
        }
        let store = make(&options.for_uri(url)?)?;
        let mut state = self.state();
        if state.stores.len() >= REMEMBERED {
            state.stores.clear();
        }
        Ok(Arc::clone(state.stores.entry(place).or_insert(store)))
    }

    async fn local(&self, path: &Path) -> Result<Target> {
        let unnamed = || Error::unsupported(format!("the path {} cannot be a key", path.display()));
        let clean = match path.components().any(|c| c == std::path::Component::ParentDir) {
            true => std::fs::canonicalize(path).map_err(|e| Error::from(e).with_store(path.display()))?,
            false => std::path::absolute(path).map_err(|e| Error::from(e).with_store(path.display()))?,
        };
        // One store for all files, so that requests for the same file can be shared.
        let key = clean.to_str().map(|p| p.trim_start_matches('/').to_owned()).ok_or_else(unnamed)?;
        check_key(&key).map_err(|_| unnamed())?;
        let store = self.shared("file".to_owned(), "", |options| Ok(folder("/", options)))?;
        // `folder/archive.zip/entry`
        let named = |p: &&Path| p.file_name().and_then(|n| n.to_str()).is_some_and(is_archive_name);
        if let Some(archive) = clean.ancestors().skip(1).find(named).filter(|a| a.is_file())
            && let (Some(outer), Ok(Some(inner))) =
                (archive.to_str(), clean.strip_prefix(archive).map(Path::to_str))
        {
            return Box::pin(self.in_archive(outer, inner, true)).await;
        }
        Ok(Target { store, key })
    }

    #[cfg(feature = "cloud")]
    fn http(&self, address: &url::Url, url: &str) -> Result<Target> {
        use crate::store::http::HttpStore;
        use crate::store::percent_decode;
        use crate::store::wrap::reopen::ReopenStore;
        let mut root = address.clone();
        root.set_path("");
        let key = percent_decode(address.path().trim_start_matches('/')).unwrap_or_default();
        // If the URL can be rebuilt from its parts, the whole server is one store.
        let mut again = root.clone();
        if let Ok(mut path) = again.path_segments_mut() {
            path.clear();
            path.extend(key.split('/'));
        }
        if again == *address && check_key(&key).is_ok() {
            // With a query, which may differ for each object, there may be many: those are not cached.
            let signed = root.query().is_some();
            let store = self.shared(root.to_string(), url, |options| {
                let mut options = options.clone();
                options.cache &= !signed;
                connect(&StorePlace::Http(root.clone()), &options)
            })?;
            return Ok(Target { store, key });
        }
        let store = self.shared(address.to_string(), url, |options| {
            // There may be many such stores, and each would cache its own bytes.
            let mut options = options.clone();
            options.cache = false;
            let address = address.clone();
            ReopenStore::around(move || {
                let store = HttpStore::object(address.as_str(), "object", &options)?;
                let host = store.host();
                Ok(super::wrapped(Arc::new(store), &host, &options))
            })
        })?;
        Ok(Target { store, key: "object".to_owned() })
    }

    #[cfg(not(feature = "cloud"))]
    fn http(&self, _: &url::Url, _: &str) -> Result<Target> {
        Err(Error::unsupported("this zaro was built without remote stores (feature `cloud`)"))
    }
}

fn names_local() -> Error {
    Error::not_permitted("a remote reference store refers to a local file")
        .with_hint("allow_local", "permits that")
}

fn leads_out() -> Error {
    Error::not_permitted("the reference leads outside the given root")
}

/// Refuses a file whose symlinks lead outside `root`. A missing file leads nowhere.
fn stays_below(root: &Path, key: &str) -> Result<()> {
    let named = |e: std::io::Error| Error::from(e).with_store(root.display());
    match std::fs::canonicalize(root.join(key)) {
        Ok(file) if file.starts_with(std::fs::canonicalize(root).map_err(named)?) => Ok(()),
        Ok(_) => Err(leads_out()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(named(e)),
    }
}

/// The URI of a location, as matched by options for prefixes.
fn text_of(place: &StorePlace) -> String {
    match place {
        StorePlace::Local(path) => path.display().to_string(),
        StorePlace::Memory => "memory:".to_owned(),
        StorePlace::S3 { bucket, path, .. } => format!("s3://{bucket}/{path}"),
        StorePlace::Gcs { bucket, path } => format!("gs://{bucket}/{path}"),
        StorePlace::Azure { container, path, .. } => format!("az://{container}/{path}"),
        StorePlace::Http(url) => url.to_string(),
    }
}

#[async_trait]
impl Targets for AnyTargets {
    fn permits(&self, url: &str) -> Result<()> {
        let last = url.rsplit("::").next().unwrap_or(url);
        if self.guarded && matches!(StorePlace::of_object(last), Ok(Some(StorePlace::Local(_)))) {
            return Err(names_local());
        }
        Ok(())
    }

    async fn target(&self, remote: &Remote) -> Result<Target> {
        let place = (Arc::clone(&remote.url), remote.near.clone());
        if let Some(target) = self.state().found.get(&place) {
            return Ok(target.clone());
        }
        let target = match (remote.url.is_empty(), &self.target) {
            (false, _) => self.resolve(&remote.url, remote.near.as_deref(), false).await?,
            // The caller may access what the caller names.
            (true, Some(target)) => match StorePlace::of_object(target) {
                Ok(None) if !target.contains("::") => self.local(Path::new(target)).await?,
                _ => self.resolve(target, None, true).await?,
            },
            (true, None) => {
                return Err(Error::usage("the reference names no object").with_hint("target", "sets it"));
            }
        };
        let mut state = self.state();
        if state.found.len() >= REMEMBERED {
            state.found.clear();
        }
        state.found.insert(place, target.clone());
        Ok(target)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
