//! Options shared by every command, and how a Zarr is opened with them.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use zaro::internal::path::shown;
use zaro::manifest::Time;
use zaro::meta::{Finding, Format, Mode};
use zaro::open::{SourceOptions, open_with};
use zaro::reference::ReferenceStore;
use zaro::reference::icechunk::Version;
use zaro::store::{RequestLog, SharedStore, StoreOptions};
use zaro::{Context, ContextOptions, Error, OpenOptions, Result, Zarr};

use crate::number;
use crate::paint::{Color, Paint, plain};
use crate::path::check_name;

/// Set once bare `NaN`s in JSON were reported, or need not be: one warning is enough for hundreds of nodes.
static BARE_NUMBERS: AtomicBool = AtomicBool::new(false);

/// Help heading of the options for accessing a store.
pub(crate) const STORE_OPTIONS: &str = "Store options";

/// The store options that apply only to reading.
pub(crate) const OF_READING: [&str; 9] =
    ["root", "reference_target", "template", "allow_local", "branch", "tag", "snapshot", "at", "objects"];

/// Where the Zarr is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// A path, file://, s3://, gs://, az:// or http(s):// address; a .zip is opened in place
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Path of the node, e.g. group/array [default: the root]
    #[arg(value_name = "PATH", default_value = "", hide_default_value = true)]
    pub(crate) path: String,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Never sign requests, even where credentials are found
    #[arg(long, global = true, help_heading = STORE_OPTIONS)]
    anonymous: bool,
    /// AWS region of the bucket [default: detected]
    #[arg(long, global = true, value_name = "NAME", help_heading = STORE_OPTIONS)]
    region: Option<String>,
    /// Endpoint URL in place of the provider's, e.g. http://localhost:9000
    #[arg(long, global = true, value_name = "URL", help_heading = STORE_OPTIONS)]
    endpoint: Option<String>,
    /// AWS profile to take credentials and region from
    #[arg(long, global = true, value_name = "NAME", help_heading = STORE_OPTIONS)]
    profile: Option<String>,
    /// Agree to pay for requests to a requester-pays bucket
    #[arg(long, global = true, help_heading = STORE_OPTIONS)]
    request_payer: bool,
    /// HTTP header to send with each request, "Name: value"; may be repeated
    #[arg(long, global = true, value_name = "HEADER", help_heading = STORE_OPTIONS)]
    header: Vec<String>,
    /// Option for addresses with a prefix only, e.g. s3://bucket:anonymous=true or https://:read_timeout=60
    /// (others: retries, connect_timeout, concurrency, missing_403); may be repeated
    #[arg(long, global = true, value_name = "PREFIX:KEY=VALUE", help_heading = STORE_OPTIONS)]
    option: Vec<String>,
    /// Base of relative addresses in a reference store [default: its own directory]
    #[arg(long, global = true, value_name = "URI", help_heading = STORE_OPTIONS)]
    root: Option<String>,
    /// Target of references that do not name one
    #[arg(
        id = "reference_target",
        long = "target",
        global = true,
        value_name = "URI",
        help_heading = STORE_OPTIONS
    )]
    target: Option<String>,
    /// Override a template of a reference store; may be repeated
    #[arg(long, global = true, value_name = "NAME=VALUE", help_heading = STORE_OPTIONS)]
    template: Vec<String>,
    /// Allow a remote reference store to refer to local files
    #[arg(long, global = true, help_heading = STORE_OPTIONS)]
    allow_local: bool,
    /// Branch of an Icechunk repository [default: main]
    #[arg(long, global = true, value_name = "NAME", help_heading = STORE_OPTIONS)]
    branch: Option<String>,
    /// Tag of an Icechunk repository
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        conflicts_with = "branch",
        help_heading = STORE_OPTIONS
    )]
    tag: Option<String>,
    /// Snapshot of an Icechunk repository
    #[arg(long, global = true, value_name = "ID", conflicts_with_all = ["branch", "tag"], help_heading = STORE_OPTIONS)]
    snapshot: Option<String>,
    /// Icechunk repository as its branch was at this time, e.g. 2024-05-01 or 2024-05-01T12:00:00Z
    #[arg(long, global = true, value_name = "TIME", conflicts_with_all = ["tag", "snapshot"], help_heading = STORE_OPTIONS)]
    at: Option<String>,
    /// Address of the objects a manifest lists [default: derived from the manifest's own]
    #[arg(long, global = true, value_name = "URI", help_heading = STORE_OPTIONS)]
    objects: Option<String>,

    /// Follow the specification to the letter: treat every deviation as an error
    #[arg(long, global = true, help_heading = "Reading options")]
    pub(crate) strict: bool,
    /// Zarr format to read where both are present; for create and copy, the format to write
    #[arg(long, global = true, value_name = "2|3", value_parser = clap::value_parser!(u8).range(2..=3), help_heading = "Reading options")]
    zarr_format: Option<u8>,
    /// Ignore consolidated metadata and read each node's own document
    #[arg(long, global = true, help_heading = "Reading options")]
    pub(crate) no_consolidated: bool,
    /// Threads that decode and encode [default: one per core]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Reading options")]
    threads: Option<u16>,
    /// Memory budget; larger reads and writes are streamed in windows
    #[arg(long, global = true, value_name = "SIZE", default_value = "256M", value_parser = number::parse_bytes, help_heading = "Reading options")]
    pub(crate) memory: usize,

    /// Log what is done, with every file read and every request
    #[arg(short, long, global = true, help_heading = "Output options")]
    pub(crate) verbose: bool,
    /// When to use colour
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Output options"
    )]
    pub(crate) color: Color,
    /// Show a progress bar immediately [default: on a terminal, after one second]
    #[arg(long, global = true, help_heading = "Output options")]
    pub(crate) progress: bool,
}

impl Common {
    /// How to reach the store.
    pub(crate) fn store_options(&self) -> Result<StoreOptions> {
        let mut store = StoreOptions::default();
        store.anonymous = self.anonymous;
        if let Some(region) = self.region.as_ref().filter(|r| r.contains([',', ':'])) {
            return Err(Error::usage(format!(
                "--region {region}: not an AWS region; use --select for a part of an array, --crop of an image"
            )));
        }
        store.region.clone_from(&self.region);
        store.endpoint.clone_from(&self.endpoint);
        store.profile.clone_from(&self.profile);
        store.request_payer = self.request_payer;
        for header in &self.header {
            store.add_header(header)?;
        }
        for option in &self.option {
            store.add_override(option)?;
        }
        if self.verbose {
            let paint = Paint::stderr(self.color);
            store.log = Some(Arc::new(RequestLog::with_sink(move |request| {
                let _ = writeln!(std::io::stderr(), "{}", paint.dim(&plain(&request.to_string())));
            })));
        }
        Ok(store)
    }

    /// Options for opening an address, be it a store or a reference to other stores.
    pub(crate) fn source_options(&self) -> Result<SourceOptions> {
        let mut source = SourceOptions::from(self.store_options()?);
        for template in &self.template {
            source.references.add_template(template)?;
        }
        source.references.root.clone_from(&self.root);
        source.references.target.clone_from(&self.target);
        source.references.allow_local = self.allow_local;
        source.objects.clone_from(&self.objects);
        let snapshot = self.snapshot.clone().map(Version::Snapshot);
        let tag = self.tag.clone().map(Version::Tag);
        source.version = snapshot.or(tag).or(self.branch.clone().map(Version::Branch));
        if let Some(at) = &self.at {
            let time = Time::parse_date(at).map_err(|e| Error::usage(format!("--at: {}", e.message())))?;
            let branch = self.branch.clone().unwrap_or_else(|| "main".to_owned());
            source.version = Some(Version::At(branch, time));
        }
        Ok(source)
    }

    /// The store and reading options given here, as command-line arguments; `None` if they include headers, which may
    /// hold a secret.
    pub(crate) fn reached_by(&self) -> Option<Vec<String>> {
        if !self.header.is_empty() || self.option.iter().any(|o| o.contains(":header=")) {
            return None;
        }
        let flags = [
            ("--anonymous", self.anonymous),
            ("--request-payer", self.request_payer),
            ("--allow-local", self.allow_local),
            ("--strict", self.strict),
            ("--no-consolidated", self.no_consolidated),
        ];
        let format = self.zarr_format.map(|n| n.to_string());
        let values = [
            ("--region", &self.region),
            ("--endpoint", &self.endpoint),
            ("--profile", &self.profile),
            ("--root", &self.root),
            ("--target", &self.target),
            ("--branch", &self.branch),
            ("--tag", &self.tag),
            ("--snapshot", &self.snapshot),
            ("--at", &self.at),
            ("--objects", &self.objects),
            ("--zarr-format", &format),
        ];
        let values = values.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let lists = [("--option", &self.option), ("--template", &self.template)];
        let lists = lists.into_iter().flat_map(|(name, list)| list.iter().map(move |value| (name, value)));
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
        // In one word with its value, which may begin with a dash.
        Some(flags.chain(values.chain(lists).map(|(name, value)| format!("{name}={value}"))).collect())
    }

    /// Options for opening a Zarr.
    fn open_options(&self) -> Result<OpenOptions> {
        Ok(OpenOptions::default()
            .with_mode(if self.strict { Mode::Strict } else { Mode::Tolerant })
            .with_format(self.format())
            .with_use_consolidated(!self.no_consolidated)
            .with_store(self.store_options()?))
    }

    /// The Zarr format asked for.
    pub(crate) fn format(&self) -> Option<Format> {
        self.zarr_format.map(|n| if n == 2 { Format::V2 } else { Format::V3 })
    }

    /// Opens the store that holds the node for writing, and gives the node's path in it. The store need not exist. With
    /// `durable`, a write returns only once it is on disk.
    pub(crate) async fn open_for_writing(&self, at: &Target, durable: bool) -> Result<(SharedStore, String)> {
        let mut options = self.store_options()?;
        options.durable = durable;
        check_name(&at.uri)?;
        let (uri, path) = zaro::open::from_the_top(&at.uri, &at.path)?;
        let store = zaro::open::open_store_for_writing(&uri, &options).await?;
        zaro::open::refuse_references(&store).await?;
        Ok((store, path))
    }

    /// The Zarr in a store that is written to, read from the nodes' own documents: they are what is changed.
    pub(crate) async fn zarr_in(&self, store: &SharedStore) -> Result<Zarr> {
        let options = self.open_options()?.with_use_consolidated(false);
        Zarr::from_store(store.clone(), options).await
    }

    /// Opens the Zarr at `uri`, whatever its version: the version asked for is that of the copy.
    pub(crate) async fn open_any(&self, uri: &str) -> Result<Zarr> {
        self.open_with(uri, &self.open_options()?.with_format(None)).await
    }

    async fn open_with(&self, uri: &str, options: &OpenOptions) -> Result<Zarr> {
        let zarr = open_with(uri, &self.source_options()?, options).await?;
        // The programs that make references write NaN so, each time; who asks is told.
        if zarr.is_referenced() && !self.verbose {
            BARE_NUMBERS.store(true, Ordering::Relaxed);
        }
        self.warn_findings(zarr.findings());
        Ok(zarr)
    }

    /// Opens the Zarr at `uri`.
    pub(crate) async fn open(&self, uri: &str) -> Result<Zarr> {
        self.open_with(uri, &self.open_options()?).await
    }

    /// Opens the Zarr at `uri` tolerantly and without consolidated metadata, for `validate`.
    pub(crate) async fn open_direct(&self, uri: &str) -> Result<Zarr> {
        let options = self.open_options()?.with_mode(Mode::Tolerant).with_use_consolidated(false);
        open_with(uri, &self.source_options()?, &options).await
    }

    /// Opens the reference store at `uri`, and the Zarr in it without consolidated metadata.
    pub(crate) async fn open_references(&self, uri: &str) -> Result<(ReferenceStore, Zarr)> {
        let options = self.open_options()?.with_mode(Mode::Tolerant).with_use_consolidated(false);
        let store = zaro::open::open_references(uri, self.source_options()?).await?;
        let zarr = Zarr::from_store(Arc::new(store.clone()), options).await?;
        Ok((store, zarr))
    }

    /// Whether a base of relative addresses was given.
    pub(crate) fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// Opens the folder or bucket `uri` as a store for writing, whatever surrounds it.
    pub(crate) async fn open_folder(&self, uri: &str) -> Result<SharedStore> {
        zaro::open::open_store_for_writing(uri, &self.store_options()?).await
    }

    /// Sets the shared context: half of the memory, the decoding threads, and `runtime`. Must be called before anything
    /// is opened.
    pub(crate) fn share_context(&self, runtime: tokio::runtime::Handle) {
        let mut options = ContextOptions::default().with_memory(self.memory / 2).with_runtime(runtime);
        options.threads = self.threads.map(Into::into);
        Context::new(options).share();
    }

    /// The shared context with all of the memory, for operations that keep to the whole budget.
    pub(crate) fn context(&self) -> Context {
        Context::shared().with_memory(self.memory)
    }

    /// Warns of deviations that were tolerated.
    pub(crate) fn warn_findings(&self, findings: &[Finding]) {
        for finding in findings {
            let bare = finding.rule == "json" && finding.message.starts_with("bare ");
            if bare && BARE_NUMBERS.swap(true, Ordering::Relaxed) && !self.verbose {
                continue;
            }
            self.warn(&format!("{} [{}]", finding_text(finding), finding.rule));
        }
    }

    /// Warns which version is read, where a node has both.
    pub(crate) async fn warn_both(&self, zarr: &Zarr, path: &str, format: Format) -> Result<()> {
        if zarr.has_both_versions(path, format).await? {
            let node = shown(path);
            self.warn(&format!(
                "{node}: there are both V3 and V2 documents; reading V3 (use --zarr-format 2 to read V2) \
                 [both-versions]"
            ));
        }
        Ok(())
    }

    /// Fails if a listing had to skip damaged nodes: the last one as the error, the others as warnings.
    pub(crate) fn fail_on_damaged(&self, zarr: &Zarr) -> Result<()> {
        let mut damaged = zarr.take_damaged();
        let last = damaged.pop();
        for e in damaged {
            self.warn(&format!("skipped: {e}"));
        }
        last.map_or(Ok(()), Err)
    }

    /// A warning on standard error.
    pub(crate) fn warn(&self, message: &str) {
        let paint = Paint::stderr(self.color);
        let _ = writeln!(
            std::io::stderr(),
            "zaro: {} {}",
            paint.yellow("warning:"),
            plain(&zaro::redacted(message))
        );
    }

    /// Prints a message on standard error.
    pub(crate) fn say(&self, message: &str) {
        let _ = writeln!(std::io::stderr(), "zaro: {}", plain(&zaro::redacted(message)));
    }

    /// A note on standard error, with `--verbose` only.
    pub(crate) fn note(&self, message: &str) {
        if self.verbose {
            let _ = writeln!(std::io::stderr(), "zaro: {}", plain(&zaro::redacted(message)));
        }
    }
}

fn finding_text(finding: &Finding) -> String {
    if finding.field.is_empty() {
        format!("{}: {}", finding.node, finding.message)
    } else {
        format!("{} {}: {}", finding.node, finding.field, finding.message)
    }
}
