//! `zaro ref rebase`: replace address prefixes in a reference store, for objects that have moved.

use clap::Args;
use zaro::meta::Json;
use zaro::reference::{Compression, JsonWriter, RewriteOptions, to_json};
use zaro::{Error, Result};

use super::target::{Making, Source, report};
use crate::args::Common;
use crate::output;
use crate::paint::{plain, plural};

const EXAMPLES: &str = "\
Examples:
  What would change?
      zaro ref rebase archive.json --from s3://old/ --to s3://new/ --dry-run
  Two places at once:
      zaro ref rebase a.parq b.parq --from s3://old/ --to s3://new/ \\
          --from https://host/ --to /mnt/mirror/
  In place:
      zaro ref rebase archive.json archive.json --overwrite --from /data/ --to /archive/

A prefix is matched literally at the start of an address; the longest match wins. A relative address
is compared as written, then as the absolute address it resolves to. `zaro ref stat` shows the
prefixes in use. The form follows from the name of DST, so this converts as well.";

/// Replace address prefixes in a reference store
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rebase {
    /// The reference store: JSON (also .gz, .zst), a folder of Parquet, or an Icechunk repository
    #[arg(value_name = "SRC")]
    source: String,
    /// The new one
    #[arg(value_name = "DST", required_unless_present = "dry_run")]
    to: Option<String>,
    /// Prefix to replace; may be repeated, each with its --to
    #[arg(long = "from", value_name = "PREFIX", required = true)]
    old: Vec<String>,
    /// Its replacement
    #[arg(long = "to", value_name = "PREFIX", required = true)]
    new: Vec<String>,
    /// Dry run: only count what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    making: Making,
    /// Print a JSON summary on standard output
    #[arg(long)]
    json: bool,
}

impl Rebase {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        if self.old.len() != self.new.len() {
            return Err(Error::usage("each --from needs its --to"));
        }
        let source = Source::open(common, &self.source).await?;
        let to = self.to.as_deref().filter(|_| !self.dry_run);
        let mut addresses = self.making.addresses(common, &source, self.to.as_deref())?;
        for (from, to) in self.old.iter().zip(&self.new) {
            addresses = addresses.rebase(from, to)?;
        }
        let done = match to {
            Some(to) => self.making.make(common, &source, to, &mut addresses).await?,
            None => {
                let mut out = JsonWriter::new(std::io::sink(), Compression::None, false)?;
                to_json(&**source.store.map(), &mut addresses, &mut out, &RewriteOptions::default()).await?
            }
        };
        let counts = addresses.counts();
        if self.json {
            let mut out = done.json(to, &counts);
            let pairs = counts.pairs.iter().map(|(from, to, n)| {
                Json::from([("from", from.into()), ("to", to.into()), ("references", (*n).into())])
            });
            out.set("changed", pairs.collect::<Json>());
            out.set("unchanged", counts.unchanged);
            let left = counts.unchanged_places.iter().map(|p| &p.prefix);
            out.set("unchanged_prefixes", left.collect::<Json>());
            return output::json(&out);
        }
        let would = if self.dry_run { "would change" } else { "changed" };
        for (from, to, n) in &counts.pairs {
            let line = format!("{would} {}: {from} to {to}", plural(*n, "reference"));
            if *n == 0 { common.warn(&line) } else { common.say(&line) }
        }
        for place in &counts.unchanged_places {
            let prefix = if place.prefix.is_empty() { "relative addresses" } else { &place.prefix };
            let n = plural(place.references, "reference");
            common.say(&format!("unchanged: {n} to {}", plain(prefix)));
        }
        if let Some(to) = to {
            report(common, to, &done, &counts);
        }
        Ok(())
    }
}
