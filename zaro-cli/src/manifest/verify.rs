//! `zaro manifest verify`: check a manifest against itself and against the files it lists.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use zaro::Result;
use zaro::manifest::{ManifestFinding, checksum_in, verify_document, verify_folder};
use zaro::meta::{Json, Level};

use super::bucket;
use super::load::load;
use crate::args::Common;
use crate::checksum::HashingArgs;
use crate::output;
use crate::paint::{Paint, plural};
use crate::path::local_path;
use crate::progress::Watch;

const EXAMPLES: &str = "\
Examples:
  zaro manifest verify 6a2bafb14509195e1a1ee982cb046d23-5--31.json
  zaro manifest verify manifest.json --folder data.zarr
  zaro manifest verify manifest.json --folder data.zarr --bytes

The stated checksum must match that of the entries, and the file name if it is a checksum; the
stated statistics must match the entries. With --folder every file must exist with its size, with
--bytes also with its bytes, and there must be no others. With --objects, or for a manifest in its
place in a bucket, every version it lists must exist. Exit code 1 if anything is wrong.";

/// Check a manifest against itself and against the files it lists
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Verify {
    /// The manifest; - for standard input
    #[arg(value_name = "MANIFEST")]
    manifest: String,
    /// Directory that should hold what the manifest lists
    #[arg(long, value_name = "DIR", value_parser = local_path())]
    folder: Option<PathBuf>,
    /// Read every byte and compare digests
    #[arg(long)]
    bytes: bool,
    #[command(flatten)]
    hashing: HashingArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Verify {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        let manifest = load(&self.manifest, common).await?;
        let (checksum, mut findings) = verify_document(&manifest, checksum_in(&self.manifest).as_ref())?;
        if let Some(folder) = &self.folder {
            let watch = Watch::new(common.progress);
            let options = self.hashing.options().with_task(watch.task());
            findings.extend(verify_folder(&manifest, folder, self.bytes, &options)?);
        }
        if self.folder.is_none()
            && let Some(objects) = bucket::objects_of(common, &self.manifest)?
            && bucket::is_bucket(&objects)
        {
            findings.extend(bucket::findings(common, &objects, &manifest, self.bytes).await?);
        }
        let text = if self.json {
            let report = Json::from([
                ("manifest", (&self.manifest).into()),
                ("ok", findings.is_empty().into()),
                ("checksum", checksum.to_string().into()),
                ("entries", manifest.len().into()),
                ("findings", findings.iter().map(json).collect()),
            ]);
            format!("{}\n", report.pretty())
        } else {
            let paint = Paint::stdout(common.color);
            let mut out: String = findings.iter().map(|f| line(f, paint)).collect();
            if findings.is_empty() {
                let entries = plural(checksum.count, "entry");
                out.push_str(&format!("{}: {checksum}, {entries}\n", paint.green("sound")));
            } else {
                let count = plural(findings.len(), "finding");
                out.push_str(&format!("{}: {count}\n", paint.red("not sound")));
            }
            out
        };
        output::print(&text)?;
        Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

/// A finding for programs.
pub(crate) fn json(f: &ManifestFinding) -> Json {
    Json::from([("rule", f.rule.into()), ("key", f.key.as_deref().into()), ("message", (&f.message).into())])
}

/// A finding for people.
pub(crate) fn line(f: &ManifestFinding, paint: Paint) -> String {
    let key = f.key.as_deref().map_or(String::new(), |k| format!("{k}: "));
    paint.finding(Level::Error, &key, &f.message, f.rule)
}
