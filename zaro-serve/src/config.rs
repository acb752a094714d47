//! What a server serves, to whom, and within which limits.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use zaro::open::SourceOptions;
use zaro::{Context, ContextOptions, Error, Result};

use crate::answer::Cors;

/// Settings of a [`Server`](crate::Server).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// What is served: `NAME=URI`, or a URI whose last part is the name.
    pub sources: Vec<String>,
    /// Serve the one source at `/`, and nothing else.
    pub bare: bool,
    /// How to reach the sources.
    pub options: SourceOptions,
    /// The addresses to listen on.
    pub bind: Vec<SocketAddr>,
    /// The address under which clients reach the server, where it is not the one they connect to.
    pub base_url: Option<String>,
    /// Whose pages may read the answers: `*`, or origins. By default every origin, unless all addresses are of this
    /// machine only: then those of known viewers.
    pub cors: Vec<String>,
    /// Names under which the server may be addressed, besides its addresses; empty for all, unless all addresses are of
    /// this machine only.
    pub hosts: Vec<String>,
    /// Hosts that references may lead to although they are not public, besides those of the sources.
    pub allowed_hosts: Vec<String>,
    /// Proxies whose word for the client's address is taken.
    pub proxies: Vec<IpAddr>,
    /// Names of sources that only clients with a token may see.
    pub hidden: Vec<String>,
    /// The file of tokens: a token and the names it opens per line.
    pub tokens: Option<PathBuf>,
    /// Prefixes of addresses that clients may open with `/open?uri=`.
    pub open: Vec<String>,
    /// How long the embargo tags of a bucket's objects are taken for unchanged; `None` if they mean nothing.
    pub embargo: Option<Duration>,
    /// Send clients to the object itself instead of passing its bytes on: where anybody may read it, or where a URL can
    /// be signed.
    pub redirect: bool,
    /// How long such a signed URL is valid: 15 minutes at most, 0 for none.
    pub signed_time: Duration,
    /// The limits.
    pub limits: Limits,
    /// How requests are logged, to standard error.
    pub log: LogFormat,
    /// Whether `/metrics` is answered.
    pub metrics: bool,
    /// The certificates and the key of a server over TLS, as PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// Limits that keep one client from taking everything.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections at once of one client.
    pub connections_per_client: usize,
    /// Time for the headers of a request.
    pub header_time: Duration,
    /// Time for an answer to begin.
    pub answer_time: Duration,
    /// A client that takes fewer bytes than 1 KiB a second over this time is cut off.
    pub stall_time: Duration,
    /// Requests per second of one client; 0 for no limit.
    pub rate: u32,
    /// Bytes decoded for one request.
    pub decoded: u64,
    /// Chunks or shards read for one request.
    pub chunks: u64,
    /// Pixels of one picture.
    pub pixels: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            connections_per_client: 256,
            header_time: Duration::from_secs(10),
            answer_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(30),
            rate: 0,
            decoded: 256 << 20,
            chunks: 4096,
            pixels: 16 << 20,
        }
    }
}

/// How requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Not at all.
    #[default]
    None,
    /// A line of text each.
    Plain,
    /// A line of JSON each.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            bare: false,
            options: SourceOptions::default(),
            bind: vec![SocketAddr::from(([127, 0, 0, 1], 8000))],
            base_url: None,
            cors: Vec::new(),
            hosts: Vec::new(),
            allowed_hosts: Vec::new(),
            proxies: Vec::new(),
            hidden: Vec::new(),
            tokens: None,
            open: Vec::new(),
            embargo: Some(Duration::from_secs(60)),
            redirect: false,
            signed_time: Duration::from_secs(300),
            limits: Limits::default(),
            log: LogFormat::None,
            metrics: false,
            tls: None,
        }
    }
}

/// The longest time for which a URL is signed.
const LONGEST_SIGNED: Duration = Duration::from_secs(900);

/// Viewers whose pages may read a server that is for this machine only.
const VIEWERS: [&str; 6] = [
    "https://hms-dbmi.github.io",
    "https://neuroglancer-demo.appspot.com",
    "https://ome.github.io",
    "https://avivator.gehlenborglab.org",
    "https://volumeviewer.allencell.org",
    "https://kitware.github.io",
];

impl Config {
    /// Whether only this machine can connect.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.bind.iter().all(|address| address.ip().is_loopback())
    }

    /// A context that connects to public addresses, to the hosts of the sources and to those that are listed, and to no
    /// others: whatever a reference or a redirect names.
    pub(crate) fn guarded(&self) -> Context {
        let options = &self.options;
        let named =
            [&options.store.endpoint, &options.references.root, &options.references.target, &options.objects];
        let addresses = self.sources.iter().chain(&self.open).chain(named.into_iter().flatten());
        let mut hosts = self.allowed_hosts.clone();
        hosts.extend(addresses.filter_map(|uri| host_of(uri)).map(str::to_owned));
        let memory = options.store.context.memory();
        Context::new(
            ContextOptions::default().with_memory(memory).with_public_only(true).with_allowed_hosts(hosts),
        )
    }

    pub(crate) fn cors(&self) -> Cors {
        match self.cors.as_slice() {
            [] if self.is_local() => Cors::Only(VIEWERS.iter().map(|v| (*v).to_owned()).collect()),
            [] => Cors::Any,
            list if list.iter().any(|one| one == "*") => Cors::Any,
            list => Cors::Only(list.to_vec()),
        }
    }

    /// Whether a request may be addressed to this `Host`. A page of a stranger whose name was made to lead here would
    /// name itself.
    pub(crate) fn is_host(&self, host: &str) -> bool {
        if self.hosts.is_empty() && !self.is_local() {
            return true;
        }
        let name = host_name(host);
        let is_address = name.parse::<IpAddr>().is_ok() || name == "localhost";
        let is_base =
            self.base_url.as_deref().and_then(|url| url.split("://").nth(1)).is_some_and(|rest| {
                host_name(rest.split('/').next().unwrap_or(rest)).eq_ignore_ascii_case(name)
            });
        is_address || is_base || self.hosts.iter().any(|one| one.eq_ignore_ascii_case(name))
    }

    /// The address of this server for a client that asked this `Host`, without a closing slash: the one it was told, or
    /// that host if it is one of the server's own. A stranger's name in an answer could be kept by a cache and sent to
    /// others; then addresses are given without a host.
    pub(crate) fn base_for(&self, host: &str) -> String {
        if let Some(url) = &self.base_url {
            return url.trim_end_matches('/').to_owned();
        }
        let name = host_name(host);
        let own = match name.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback() || self.bind.iter().any(|address| address.ip() == ip),
            Err(_) => {
                name.eq_ignore_ascii_case("localhost")
                    || self.hosts.iter().any(|one| one.eq_ignore_ascii_case(name))
            }
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']');
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match own && host.bytes().all(plain) {
            true => format!("{scheme}://{host}"),
            false => String::new(),
        }
    }

    /// Checks what cannot be checked piece by piece.
    pub fn check(&self) -> Result<()> {
        if self.bare && self.sources.len() != 1 {
            return Err(Error::usage("only one source can be served at /"));
        }
        if self.sources.is_empty() && self.open.is_empty() {
            return Err(Error::usage("nothing to serve"));
        }
        if self.signed_time > LONGEST_SIGNED {
            return Err(Error::usage("a signed URL is valid for 900 seconds at most"));
        }
        Ok(())
    }
}

/// The host of an address, whatever stands before it (`NAME=`, `reference+json://`).
fn host_of(uri: &str) -> Option<&str> {
    let (_, rest) = uri.rsplit_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = host_name(authority.rsplit('@').next().unwrap_or(authority));
    Some(host).filter(|host| !host.is_empty())
}

/// The name in a `Host` header: without port and brackets.
fn host_name(host: &str) -> &str {
    let host = host.trim();
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.split(':').next().unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_addresses() {
        for (uri, host) in [
            ("https://data.example:8443/x", Some("data.example")),
            ("n=reference+json://http://u:p@10.0.0.7/a.json", Some("10.0.0.7")),
            ("http://[fd00::7]:9000/x", Some("fd00::7")),
            ("data.zarr", None),
            ("file:///x", None),
        ] {
            assert_eq!(host_of(uri), host, "{uri}");
        }
    }

    #[test]
    fn a_server_of_this_machine_answers_to_its_own_names_only() {
        let mut config = Config::default();
        for (host, wanted) in [
            ("127.0.0.1:8000", true),
            ("localhost", true),
            ("[::1]:8000", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            assert_eq!(config.is_host(host), wanted, "{host}");
        }
        config.hosts = vec!["Data.example".to_owned()];
        config.base_url = Some("https://zarr.example/x".to_owned());
        assert!(config.is_host("data.example:443") && config.is_host("zarr.example"));
        config.hosts.clear();
        config.bind = vec![SocketAddr::from(([0, 0, 0, 0], 80))];
        assert!(config.is_host("anything.example") && config.cors() == Cors::Any);
    }

    #[test]
    fn answers_name_no_host_but_the_servers_own() {
        let mut config = Config { bind: vec![SocketAddr::from(([192, 0, 2, 7], 80))], ..Config::default() };
        config.hosts = vec!["data.example".to_owned()];
        for (host, wanted) in [
            ("data.example:8000", "http://data.example:8000"),
            ("Data.Example", "http://Data.Example"),
            ("192.0.2.7", "http://192.0.2.7"),
            ("127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("[::1]:8000", "http://[::1]:8000"),
            ("localhost:1", "http://localhost:1"),
            ("192.0.2.8", ""),
            ("evil.example", ""),
            ("data.example.evil", ""),
            ("localhost:1/\"><script>", ""),
            ("localhost:a@evil", ""),
            ("", ""),
        ] {
            assert_eq!(config.base_for(host), wanted, "{host}");
        }
        config.base_url = Some("https://zarr.example/x/".to_owned());
        assert_eq!(config.base_for("evil.example"), "https://zarr.example/x");
    }
}
