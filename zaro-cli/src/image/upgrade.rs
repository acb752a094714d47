//! `zaro image upgrade`: convert an image to another OME-Zarr version.

use std::process::ExitCode;

use clap::Args;
use zaro::hierarchy::Existing;
use zaro::image::ImageVersion;
use zaro::image::upgrade::{Fate, UpgradeOptions, Upgraded, upgrade, upgrade_in_place};
use zaro::{Error, Result};

use crate::args::{Common, Target};
use crate::output;
use crate::paint::plural;
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  A new hierarchy of version 0.5; the old one stays as it is:
      zaro image upgrade old.zarr new.zarr
  In place: documents change, chunks stay where the codecs allow:
      zaro image upgrade image.zarr --in-place
      zaro image upgrade plate.zarr --to 0.6 --in-place
  Only print what would be done:
      zaro image upgrade image.zarr --in-place --dry-run
  Down to 0.4, for older programs:
      zaro image upgrade new.zarr old.zarr --to 0.4

All images, labels, plates and wells below the root are converted, and everything else is copied
along. Masks of the oldest form become labels. Rerun the same command to resume an upgrade that was
stopped.";

/// Convert an image to another OME-Zarr version
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Upgrade {
    /// What to upgrade: any address that can be read; with --in-place, one that can be written to
    #[arg(value_name = "URI")]
    source: String,
    /// Where to: a path, s3://, gs://, az://, or a new .zip
    #[arg(value_name = "DST", conflicts_with = "in_place")]
    target: Option<String>,
    /// Target version: 0.4, 0.5 or 0.6; from older ones also 0.2 and 0.3
    #[arg(long, value_name = "VERSION", default_value = "0.5", value_parser = parse_version)]
    to: ImageVersion,
    /// Convert in place
    #[arg(long)]
    in_place: bool,
    /// The group in URI to upgrade, with all below it [default: the root]
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: String,
    /// Dry run: only print what would be done
    #[arg(long)]
    dry_run: bool,
    /// Drop metadata the target version cannot express, such as rotations before 0.6 [default: an error]
    #[arg(long)]
    lossy: bool,
    /// Do not compare the result with the source
    #[arg(long)]
    no_verify: bool,
    /// Replace what is in DST
    #[arg(long, conflicts_with = "in_place")]
    overwrite: bool,
    /// Wait until everything is on disk (fsync)
    #[arg(long)]
    fsync: bool,
    /// Print a JSON summary
    #[arg(long)]
    json: bool,
}

fn parse_version(text: &str) -> std::result::Result<ImageVersion, String> {
    match ImageVersion::parse(text) {
        Some(version) if version >= ImageVersion::V02 && version.text() == text => Ok(version),
        _ => Err("the versions are 0.2, 0.3, 0.4, 0.5 and 0.6".into()),
    }
}

impl Upgrade {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        if self.target.is_none() && !self.in_place && !self.dry_run {
            return Err(Error::usage("name a destination, or add --in-place"));
        }
        let watch = Watch::new(common.progress);
        let options = UpgradeOptions::default()
            .with_to(self.to)
            .with_lossy(self.lossy)
            .with_verify(!self.no_verify)
            .with_dry_run(self.dry_run)
            .with_existing(if self.overwrite { Existing::Replace } else { Existing::Refuse })
            .with_context(common.context())
            .with_task(watch.task());
        let done = match &self.target {
            Some(target) => self.elsewhere(common, target, options).await,
            None => self.where_it_is(common, options).await,
        };
        drop(watch);
        let done = done?;
        self.tell(common, &done)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn elsewhere(&self, common: &Common, target: &str, options: UpgradeOptions) -> Result<Upgraded> {
        let source = common.open_any(&self.source).await?;
        let at = Target { uri: target.to_owned(), path: String::new() };
        let (store, to) = common.open_for_writing(&at, self.fsync).await?;
        upgrade(&source, &self.source, &self.path, &store, &to, &options).await
    }

    async fn where_it_is(&self, common: &Common, options: UpgradeOptions) -> Result<Upgraded> {
        let at = Target { uri: self.source.clone(), path: self.path.clone() };
        let (store, path) = common.open_for_writing(&at, self.fsync).await?;
        upgrade_in_place(&store, &path, &options).await
    }

    fn tell(&self, common: &Common, done: &Upgraded) -> Result<()> {
        if self.json {
            let mut report = done.json();
            report.set("dry_run", self.dry_run);
            report.set("verified", !self.no_verify && !self.dry_run);
            return output::json_line(report);
        }
        for note in &done.notes {
            common.say(note);
        }
        for finding in &done.broken {
            common.warn(&finding.to_string());
        }
        let mut text = String::new();
        if done.resumed {
            text.push_str("resumed: ");
        }
        let (from, to) = (done.from, done.to);
        let assumed = if done.assumed { " (assumed)" } else { "" };
        let here = self.target.is_none();
        if here && done.changed == 0 && !done.resumed {
            text.push_str(&format!(
                "this is {to} already; nothing {} changed",
                if self.dry_run { "would be" } else { "was" }
            ));
            common.say(&text);
            return Ok(());
        }
        text.push_str(&format!(
            "{} {from}{assumed} to {to}: {}, {}",
            if self.dry_run { "would bring" } else { "brought" },
            plural(done.groups, "group"),
            plural(done.arrays.len(), "array"),
        ));
        for (fate, words) in [
            (Fate::Stay, "with chunks left in place"),
            (Fate::Copy, "with chunks copied verbatim"),
            (Fate::Recode, "coded anew"),
            (Fate::Sample, "converted from masks"),
        ] {
            match done.count(fate) {
                0 => {}
                n => text.push_str(&format!(", {n} {words}")),
            }
        }
        match done.files {
            0 => {}
            n => text.push_str(&format!("; {}", plural(n, "other file"))),
        }
        if !self.no_verify && !self.dry_run {
            text.push_str("; verified");
        }
        common.say(&text);
        Ok(())
    }
}
