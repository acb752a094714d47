//! `zaro serve`: Zarrs over HTTP.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use zaro::{Error, Result};
use zaro_serve::{App, Config, LogFormat, Server};

use crate::args::Common;
use crate::output;
use crate::paint::plain;

const EXAMPLES: &str = "\
Examples:
  Serve a Zarr on this machine, and read it with any client:
      zaro serve ocean=data.zarr
      python -c \"import zarr; print(zarr.open('http://127.0.0.1:8000/data/ocean'))\"
  Every Zarr, archive and reference file of a folder:
      zaro serve data/
  To everybody, from a bucket:
      zaro serve s3://bucket/data.zarr --anonymous --bind 0.0.0.0:8000
  An archive with all versions of its Zarrs (zarr-manifest/ beside zarr/), as folders at /zarrs/ and JSON at /api/:
      zaro serve s3://dandiarchive --anonymous --redirect
  Whatever lies below an address, when a client names it (http://127.0.0.1:8000/open?uri=https://host/data/x.zarr):
      zaro serve --open https://host/data";

/// Serve Zarrs over HTTP: plain Zarr for every client, read-only
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// What to serve: NAME=URI, a URI, or a folder of Zarrs; may be repeated
    #[arg(value_name = "[NAME=]URI", required_unless_present_any = ["sources_file", "open"])]
    sources: Vec<String>,
    /// File with more of them, one per line; read again on SIGHUP, as are tokens and certificates
    #[arg(long = "sources", value_name = "FILE")]
    sources_file: Option<PathBuf>,
    /// Address to listen on; may be repeated [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDR")]
    bind: Vec<String>,
    /// Serve the one source at /, and nothing else
    #[arg(long)]
    bare: bool,
    /// Origin whose pages may read the answers, or * [default: *, on 127.0.0.1 known viewers]; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Name under which the server is addressed, besides its addresses; may be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Address under which clients reach the server, e.g. https://data.example.org
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Host that references may lead to although it is not public; may be repeated
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// Proxy whose X-Forwarded-For is believed; may be repeated
    #[arg(long, value_name = "IP")]
    trust_proxy: Vec<IpAddr>,
    /// Source that only clients with a token may see; may be repeated
    #[arg(long, value_name = "NAME")]
    hide: Vec<String>,
    /// File of tokens: a token and the names of sources it opens per line
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// What clients may open with /open?uri=: addresses below this one, e.g. https://host/data; may be repeated
    #[arg(long, value_name = "PREFIX")]
    open: Vec<String>,
    /// Seconds for which the embargo tags of a bucket's objects are taken for unchanged
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    embargo_ttl: u64,
    /// Serve Zarrs to everybody although their objects are tagged embargoed=true
    #[arg(long)]
    ignore_embargo_tags: bool,
    /// Send clients to the objects of a version instead of passing their bytes on: to public addresses, or signed URLs
    #[arg(long)]
    redirect: bool,
    /// Seconds for which a signed URL is valid, at most 900; 0 to sign none
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    signed_ttl: u64,
    /// Log requests to standard error: none, plain or json
    #[arg(long, value_name = "FORMAT", default_value = "none")]
    access_log: String,
    /// Answer /metrics, for Prometheus
    #[arg(long)]
    metrics: bool,
    /// Certificate chain for TLS, a PEM file; with --tls-key
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key for TLS, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Requests per second of one client [default: no limit]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    rate: u32,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 2048)]
    max_connections: usize,
    /// Connections at once of one client
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_connections_per_client: usize,
}

impl Serve {
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let server = Server::bind(App::new(self.config(common)?)?).await?;
        for line in server.greeting().await? {
            output::print(&format!("{line}\n"))?;
        }
        let stop = crate::signal::stops();
        let serving = server.serving();
        let reload = || match self.config(common).and_then(|config| serving.reload(config)) {
            Ok(()) => eprintln!("zaro: read again"),
            Err(e) => eprintln!("zaro: {}; everything stays as it was", plain(&crate::said(&e))),
        };
        let stopped = async move { stop.cancelled().await };
        tokio::select! {
            done = server.run(stopped) => done,
            () = crate::signal::hangups(reload) => Ok(()),
        }
    }

    /// The settings, with everything that is in files read now.
    fn config(&self, common: &Common) -> Result<Config> {
        let mut config = Config::default();
        config.sources.clone_from(&self.sources);
        if let Some(path) = &self.sources_file {
            let text = std::fs::read_to_string(path).map_err(|e| Error::from(e).within(path.display()))?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            config.sources.extend(lines.map(str::to_owned));
        }
        config.bare = self.bare;
        config.options = common.source_options()?;
        if !self.bind.is_empty() {
            config.bind = self.bind.iter().map(|text| address(text)).collect::<Result<_>>()?;
        }
        config.cors.clone_from(&self.cors);
        config.hosts.clone_from(&self.host);
        config.base_url.clone_from(&self.base_url);
        config.allowed_hosts.clone_from(&self.allow_host);
        config.proxies.clone_from(&self.trust_proxy);
        config.hidden.clone_from(&self.hide);
        config.tokens.clone_from(&self.tokens);
        config.open.clone_from(&self.open);
        config.metrics = self.metrics;
        config.tls = self.tls_cert.clone().zip(self.tls_key.clone());
        config.limits.rate = self.rate;
        config.limits.connections = self.max_connections;
        config.limits.connections_per_client = self.max_connections_per_client;
        config.embargo = (!self.ignore_embargo_tags).then(|| Duration::from_secs(self.embargo_ttl));
        config.redirect = self.redirect;
        config.signed_time = Duration::from_secs(self.signed_ttl);
        config.log = match self.access_log.as_str() {
            "none" => LogFormat::None,
            "plain" => LogFormat::Plain,
            "json" => LogFormat::Json,
            other => return Err(Error::usage(format!("--access-log {other}: use none, plain or json"))),
        };
        Ok(config)
    }
}

/// `ADDR:PORT`, `:PORT`, `PORT` or `ADDR`.
fn address(text: &str) -> Result<SocketAddr> {
    let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::from((ip, 8000)));
    }
    let text = text.strip_prefix("localhost").unwrap_or(text);
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    port.map(local).map_err(|_| Error::usage(format!("--bind {text}: not an address such as 127.0.0.1:8000")))
}
