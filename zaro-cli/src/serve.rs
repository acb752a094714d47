//! `zaro serve`: Zarrs over HTTP.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use zaro::{Error, Result};
use zaro_serve::{App, Config, LogFormat, Server};

use crate::args::Common;
use crate::output;

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
      zaro serve s3://dandiarchive --anonymous --redirect";

/// Serve Zarrs over HTTP: plain Zarr for every client, read-only
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// What to serve: NAME=URI, a URI, or a folder of Zarrs; may be repeated
    #[arg(value_name = "[NAME=]URI", required = true)]
    sources: Vec<String>,
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
    /// Proxy whose X-Forwarded-For is believed; may be repeated
    #[arg(long, value_name = "IP")]
    trust_proxy: Vec<IpAddr>,
    /// Source that only clients with a token may see; may be repeated
    #[arg(long, value_name = "NAME")]
    hide: Vec<String>,
    /// File of tokens: a token and the names of sources it opens per line
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Send clients to the objects of a version where anybody may read them, instead of passing their bytes on
    #[arg(long)]
    redirect: bool,
    /// Log requests to standard error: none, plain or json
    #[arg(long, value_name = "FORMAT", default_value = "none")]
    access_log: String,
}

impl Serve {
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let mut config = Config::default();
        config.sources.clone_from(&self.sources);
        config.bare = self.bare;
        config.options = common.source_options()?;
        if !self.bind.is_empty() {
            config.bind = self.bind.iter().map(|text| address(text)).collect::<Result<_>>()?;
        }
        config.cors.clone_from(&self.cors);
        config.hosts.clone_from(&self.host);
        config.base_url.clone_from(&self.base_url);
        config.proxies.clone_from(&self.trust_proxy);
        config.hidden.clone_from(&self.hide);
        config.tokens.clone_from(&self.tokens);
        config.redirect = self.redirect;
        config.log = match self.access_log.as_str() {
            "none" => LogFormat::None,
            "plain" => LogFormat::Plain,
            "json" => LogFormat::Json,
            other => return Err(Error::usage(format!("--access-log {other}: use none, plain or json"))),
        };
        let server = Server::bind(App::new(config)?).await?;
        for line in server.greeting().await? {
            output::print(&format!("{line}\n"))?;
        }
        let stop = crate::signal::stops();
        server.run(async move { stop.cancelled().await }).await
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
