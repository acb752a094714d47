//! One function from a request to an answer. Knows no socket, so that every route can be tested without one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use futures::TryStreamExt as _;
use hyper::header::{ALLOW, HeaderValue, LOCATION, VARY};
use hyper::{HeaderMap, Method, StatusCode};
use zaro::store::{ListOptions, SharedStore};

use crate::answer::{Cors, Fault, Response, empty, full};
use crate::archive::{self, Archive};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::open::{self, Prefixes};
use crate::path::{RequestPath, encode};
use crate::pixels::{self, Pixels};
use crate::raw::Got;
use crate::request::Request;
use crate::sources::{Source, Sources};
use crate::views::View;
use crate::visible::Tokens;
use crate::{dav, listing, raw};

/// The methods of a read-only server.
const METHODS: &str = "GET, HEAD, OPTIONS, PROPFIND";

/// Robots may read pages, and nothing that costs work.
const ROBOTS: &str = "User-agent: *\nDisallow: /data/\nDisallow: /as/\nDisallow: /zarrs/\nDisallow: /api/\nDisallow: /tile/\nDisallow: /region/\nDisallow: /iiif/\nDisallow: /dzi/\nDisallow: /xyz/\n";

/// Everything that answers need.
#[derive(Debug)]
pub struct App {
    pub(crate) config: Config,
    pub(crate) sources: Sources,
    pub(crate) metrics: Arc<Metrics>,
    tokens: Tokens,
    pub(crate) pixels: Pixels,
    cors: Cors,
    /// What clients may open.
    pub(crate) prefixes: Prefixes,
    /// When it was made: the date of what has none.
    since: SystemTime,
}

/// What a path names in a source: a key, and whether it was written as a folder.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) source: Arc<Source>,
    pub(crate) key: String,
    pub(crate) slash: bool,
}

impl App {
    /// Checks the configuration; nothing is opened yet.
    pub fn new(mut config: Config) -> zaro::Result<Self> {
        config.check()?;
        let prefixes = Prefixes::parse(&config.open)?;
        // Who names addresses, or documents that name them, must not reach into the network of the server.
        if !config.is_local() || !config.open.is_empty() {
            config.options.store.context = config.guarded();
        }
        let sources = Sources::new(&config.sources, config.options.clone())?;
        let sources = sources.with_embargo(config.embargo, &config.open);
        if config.bare && sources.only().is_none() {
            return Err(zaro::Error::usage("only one Zarr can be served at /, not a folder of them"));
        }
        let tokens = config.tokens.as_deref().map_or_else(|| Ok(Tokens::default()), Tokens::read)?;
        let cors = config.cors();
        let pixels = Pixels::new(&config);
        let since = SystemTime::now();
        Ok(Self { config, sources, tokens, cors, prefixes, pixels, metrics: Arc::default(), since })
    }

    /// The same counters as another, which this one takes the place of.
    pub(crate) fn counting_with(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Answers a request. Every answer lets the pages of permitted origins read it, whatever its status.
    pub async fn answer(&self, request: &Request) -> Response {
        let mut response = match self.checked(request).await {
            Ok(response) => response,
            Err(fault) => fault.response(),
        };
        if !self.config.hidden.is_empty() || self.config.tokens.is_some() {
            response.headers_mut().append(VARY, HeaderValue::from_static("Authorization"));
        }
        self.cors.apply(request.headers.get("origin"), response.headers_mut());
        response
    }

    /// The answer for a request that failed before it could be routed.
    pub(crate) fn fault(&self, request: &Request, fault: Fault) -> Response {
        let mut response = fault.response();
        self.cors.apply(request.headers.get("origin"), response.headers_mut());
        response
    }

    /// The address of the client: the peer's, or what a trusted proxy says: the last address that is not of a trusted
    /// proxy itself.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.config.proxies.contains(&peer) {
            return peer;
        }
        let hops = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
        let hops: Vec<IpAddr> =
            hops.flat_map(|list| list.split(',')).filter_map(|hop| hop.trim().parse().ok()).collect();
        hops.into_iter().rev().find(|hop| !self.config.proxies.contains(hop)).unwrap_or(peer)
    }

    async fn checked(&self, request: &Request) -> Result<Response, Fault> {
        let host = request.header("host").unwrap_or("");
        if !self.config.is_host(host) {
            return Err(Fault::new(StatusCode::MISDIRECTED_REQUEST, "this server has another name"));
        }
        if request.method == Method::OPTIONS {
            return Ok(options(request));
        }
        // The API says in its own words what it does not do.
        let is_api = request.path.starts_with("/api/") && !self.config.bare;
        if !request.is_get() && request.method.as_str() != "PROPFIND" && !is_api {
            return Err(Fault::method());
        }
        let path = RequestPath::parse(&request.path);
        let path = path.map_err(|fault| if is_api { archive::in_json(fault) } else { fault })?;
        // A credential that is not valid is told so whatever is asked for; but a look at the server's health needs none.
        if !matches!(path.segments().as_slice(), ["healthz" | "readyz"]) {
            self.tokens.access(request)?;
        }
        self.route(request, &path).await.map_err(|fault| self.sources.veiled(fault))
    }

    async fn route(&self, request: &Request, path: &RequestPath) -> Result<Response, Fault> {
        if self.config.bare {
            let name = self.sources.only().unwrap_or_default();
            let source = self.source(request, name).await?;
            return self.data(request, path, source, 0).await;
        }
        match path.segments().as_slice() {
            ["healthz"] => Ok(full(StatusCode::OK, Some("text/plain"), "ok\n")),
            [] | ["data"] => self.index(request, path).await,
            ["readyz"] => self.ready().await,
            ["metrics"] if self.config.metrics => {
                Ok(full(StatusCode::OK, Some("text/plain; version=0.0.4"), self.metrics.text()))
            }
            ["robots.txt"] => Ok(full(StatusCode::OK, Some("text/plain"), ROBOTS)),
            ["data", name, ..] => {
                let source = self.source(request, name).await?;
                self.data(request, path, source, 2).await
            }
            ["as", view, name, ..] => {
                let view = View::parse(view).ok_or_else(Fault::not_found)?;
                let source = self.source(request, name).await?.view(view).await?;
                self.data(request, path, source, 3).await
            }
            // In any case, as the archive's own server had it.
            [zarrs, ..] if zarrs.eq_ignore_ascii_case("zarrs") => {
                archive::answer_tree(self, request, path).await
            }
            ["open"] if !self.config.open.is_empty() => open::answer(self, request).await,
            ["api", ..] => archive::answer_api(self, request, path).await,
            [route, ..] if pixels::ROUTES.contains(route) => pixels::answer(self, request, path).await,
            _ => Err(Fault::not_found()),
        }
    }

    /// Whether the sources can be listed.
    async fn ready(&self) -> Result<Response, Fault> {
        self.sources.names().await.map_err(|_| Fault::busy())?;
        Ok(full(StatusCode::OK, Some("text/plain"), "ready\n"))
    }

    /// Whether the client may see the source of this name, which may be one of a version: `None` if not, else whether
    /// there are clients that may not.
    pub(crate) async fn sees(&self, request: &Request, name: &str) -> Result<Option<bool>, Fault> {
        let base = self.sources.base_name(name);
        let opens = self.tokens.access(request)?.opens(base);
        let hidden = match (self.is_listed_hidden(base), self.sources.is_embargoed(base).await) {
            (true, _) => true,
            (false, Ok(embargoed)) => embargoed,
            // Whoever may see it in any case need not wait until somebody can tell.
            (false, Err(_)) if opens => true,
            (false, Err(e)) => return Err(untold(&e)),
        };
        Ok((!hidden || opens).then_some(hidden))
    }

    /// Whether the client may give an address this name.
    pub(crate) fn may_open(&self, request: &Request, name: &str) -> Result<bool, Fault> {
        Ok(self.tokens.access(request)?.opens(name) || !self.is_listed_hidden(name))
    }

    /// Whether a source is on the list of those that only clients with a token may see.
    fn is_listed_hidden(&self, base: &str) -> bool {
        self.config.hidden.iter().any(|hidden| hidden == "*" || hidden == base)
    }

    /// The ids below a folder of the archive's tree that the client may see; `None` for all that there are.
    pub(crate) async fn visible_ids(
        &self,
        request: &Request,
        archive: &Archive,
        below: &str,
    ) -> Result<Option<Vec<String>>, Fault> {
        if self.config.hidden.is_empty() && !self.sources.has_embargo() {
            return Ok(None);
        }
        let access = self.tokens.access(request)?;
        let all = archive.zarrs().await.map_err(|e| Fault::behind(&e))?;
        let mut ids: Vec<&String> =
            all.iter().map(|(id, _)| id).filter(|id| archive::is_below(id, below)).collect();
        if let ([], Some(nobody)) = (ids.as_slice(), archive::nobody_below(below)) {
            // As much work as for a folder that leads to hidden Zarrs only.
            self.sources.is_embargoed(&nobody).await.map_err(|e| untold(&e))?;
        }
        ids.retain(|id| !self.is_listed_hidden(id) || access.opens(id));
        let asked = ids.iter().copied().filter(|id| !access.opens(id));
        let embargoed = self.sources.embargoed_among(archive, asked).await.map_err(|e| untold(&e))?;
        let embargoed = embargoed.ok_or_else(Fault::busy)?;
        Ok(Some(ids.into_iter().filter(|id| !embargoed.contains(*id)).cloned().collect()))
    }

    /// The names of all sources that the client may see.
    pub(crate) async fn names(&self, request: &Request) -> Result<Vec<String>, Fault> {
        let mut names = self.sources.names().await.map_err(|e| Fault::behind(&e))?;
        let access = self.tokens.access(request)?;
        names.retain(|name| !self.is_listed_hidden(name) || access.opens(name));
        if !self.sources.has_embargo() {
            return Ok(names);
        }
        let mut seen = Vec::new();
        for name in names {
            // One of which nobody can tell is left out, and the others stay.
            if access.opens(&name) || matches!(self.sources.is_embargoed(&name).await, Ok(false)) {
                seen.push(name);
            }
        }
        Ok(seen)
    }

    /// The source of a name, if there is one and the client may see it.
    pub(crate) async fn source(&self, request: &Request, name: &str) -> Result<Arc<Source>, Fault> {
        let (name, private) = match self.sees(request, name).await? {
            Some(private) => (name.to_owned(), private),
            None => (self.sources.nobody(name), false),
        };
        let source = self.sources.get(&name, private).await.map_err(|e| Fault::behind(&e))?;
        source.ok_or_else(Fault::not_found)
    }

    /// Whether the answer is a file of this machine away: no other work may be done by the threads that talk to clients.
    pub(crate) fn is_at_hand(&self, request: &Request) -> bool {
        let mut parts = request.path.split('/').skip(1);
        let name = match self.config.bare {
            true => self.sources.only(),
            false => parts.next().filter(|part| *part == "data").and_then(|_| parts.next()),
        };
        let source = || self.sources.at_hand(name?);
        request.is_get()
            && !request.path.ends_with('/')
            && source().is_some_and(|source| source.files.is_some())
    }

    /// The names of the sources.
    async fn index(&self, request: &Request, path: &RequestPath) -> Result<Response, Fault> {
        match path.slash {
            _ if !request.is_get() => dav::sources(self.names(request).await?, self.since, request),
            true => listing::sources(self.names(request).await?, request),
            false => Ok(redirect(&format!("{}/", request.path))),
        }
    }

    /// A key of a source, or a folder of it.
    async fn data(
        &self,
        request: &Request,
        path: &RequestPath,
        source: Arc<Source>,
        skip: usize,
    ) -> Result<Response, Fault> {
        let key = path.key(skip).ok_or_else(Fault::not_found)?;
        let target = Target { source, key, slash: path.slash };
        if !request.is_get() {
            return dav::answer(&target, request).await;
        }
        if target.slash {
            return listing::folder(&target.source, &target.key, request).await;
        }
        if !target.key.is_empty() {
            match raw::get(&target.source, &target.key, request).await? {
                Got::Object(response) => return Ok(response),
                Got::Folder => {}
                Got::Nothing if target.source.files.is_some() => return Err(Fault::not_found()),
                Got::Nothing => {
                    if !is_folder(target.source.store(), &target.key).await? {
                        return Err(Fault::not_found());
                    }
                }
            }
        }
        Ok(redirect(&format!("{}/", request.path)))
    }
}

/// Nobody can tell whether something is hidden. The same for every name: a key in it would tell.
fn untold(e: &zaro::Error) -> Fault {
    Fault { message: "the bucket cannot be reached".to_owned(), ..Fault::behind(e) }
}

/// Whether anything lies below `key`.
async fn is_folder(store: &SharedStore, key: &str) -> Result<bool, Fault> {
    if store.direct().is_none() && raw::is_leaf(key) {
        return Ok(false);
    }
    let mut entries = store.list_opts(key, &ListOptions::default());
    match entries.try_next().await {
        Ok(entry) => Ok(entry.is_some()),
        // Who cannot list has no folders to show.
        Err(e) if e.kind() == zaro::ErrorKind::Unsupported => Ok(false),
        Err(e) => Err(Fault::behind(&e)),
    }
}

/// 301 to a path of this server.
pub(crate) fn redirect(path: &str) -> Response {
    redirect_with(StatusCode::MOVED_PERMANENTLY, path)
}

/// The same with another status.
pub(crate) fn redirect_with(status: StatusCode, path: &str) -> Response {
    let mut response = empty(status);
    // The path came from a request, so it is fit for a header; else it is encoded once more.
    let to = HeaderValue::from_str(path).or_else(|_| HeaderValue::from_str(&encode(path).to_string()));
    if let Ok(to) = to {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

fn options(request: &Request) -> Response {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.remove("content-length");
    headers.insert(ALLOW, HeaderValue::from_static(METHODS));
    headers.insert("dav", HeaderValue::from_static("1, 3"));
    if request.headers.contains_key("access-control-request-method") {
        Cors::preflight(headers);
    }
    response
}

#[cfg(test)]
#[path = "app_tests.rs"]
mod tests;
