//! `zaro image validate`: check images against the rules of their OME-Zarr version.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use zaro::image::ImageVersion;
use zaro::image::validate::{
    FindingLevel, ImageFinding, ImageReport, ImageValidateOptions, archive, attributes_in, validate,
    validate_attributes,
};
use zaro::meta::Json;
use zaro::{ErrorKind, Result};

use super::is_ozx;
use crate::args::Common;
use crate::hinted;
use crate::output;
use crate::paint::{Paint, plain, plural};

const EXAMPLES: &str = "\
Examples:
  zaro image validate image.zarr
  zaro image validate image.zarr --strict        SHOULD rules count, too
  zaro image validate image.zarr --as 0.5        what is missing for 0.5
  zaro image validate plate.zarr A/1             one well of a plate
  zaro image validate image.ozx
  zaro image validate image.zarr --json | jq '.findings[] | select(.level == \"MUST\")'
  zaro image validate attributes.json            one document alone

Checks documents and arrays of the image or plate and of all that belongs to it: levels, labels,
masks, wells, fields, series, scenes. Pixels are not read. The rules, V1 to V39, are in the guide.
Exit code 1 if a MUST rule is broken.";

/// Check images against the rules of their version
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Validate {
    /// A path or address of a Zarr, an .ozx, or a JSON file of attributes
    #[arg(value_name = "URI")]
    uri: String,
    /// The node inside it, such as A/1/0 [default: the root]
    #[arg(value_name = "PATH", default_value = "", hide_default_value = true)]
    path: String,
    /// Validate against this version: seed, 0.1, 0.2, 0.3, 0.4, 0.5 or 0.6 [default: the image's own]
    #[arg(long = "as", value_name = "VERSION", value_parser = parse_version)]
    version: Option<ImageVersion>,
    /// Print JSON
    #[arg(long, conflicts_with = "conformance")]
    json: bool,
    /// Print only {"valid": …, "message": …}, as the specification's own tests expect; exit code 0
    #[arg(long)]
    conformance: bool,
    /// Minimum level of findings: must, should or lint
    #[arg(long, value_name = "LEVEL", value_parser = parse_level, default_value = "lint", hide_default_value = true)]
    level: FindingLevel,
}

fn parse_version(text: &str) -> std::result::Result<ImageVersion, String> {
    match text {
        "seed" => Ok(ImageVersion::Seed),
        _ => ImageVersion::parse(text).ok_or_else(|| format!("{text:?} is not one of seed, 0.1, …, 0.6")),
    }
}

fn parse_level(text: &str) -> std::result::Result<FindingLevel, String> {
    match text.to_ascii_lowercase().as_str() {
        "must" => Ok(FindingLevel::Must),
        "should" => Ok(FindingLevel::Should),
        "lint" => Ok(FindingLevel::Lint),
        _ => Err(format!("{text:?} is not one of must, should, lint")),
    }
}

impl Validate {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<ExitCode> {
        if self.conformance {
            return self.conform(common).await;
        }
        let mut report = self.report(common).await?;
        let valid = report.is_valid(common.strict);
        report.findings.retain(|f| f.level >= self.level);
        match self.json {
            true => output::json(&report.json(&self.uri, valid))?,
            false => output::print(&text(&report, valid, Paint::stdout(common.color)))?,
        }
        Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    async fn report(&self, common: &Common) -> Result<ImageReport> {
        let options =
            ImageValidateOptions::default().with_version(self.version).with_metadata_only(self.conformance);
        if let Some(attributes) = attributes_in(&self.uri, self.conformance)? {
            return Ok(validate_attributes(&attributes, &options));
        }
        let zarr = common.open_direct(&self.uri).await?;
        let mut report = validate(&zarr, &self.path, &options).await?;
        if is_ozx(&self.uri)
            && let Some(zip) = zaro::open::open_archive(&self.uri, &common.store_options()?).await?
        {
            let mut findings = archive::check(&zip).await?;
            findings.append(&mut report.findings);
            report.findings = findings;
        }
        Ok(report)
    }

    /// The protocol of the specification's tests: one line of JSON, whatever was found.
    async fn conform(&self, common: &Common) -> Result<ExitCode> {
        let (valid, message) = match self.report(common).await {
            Ok(report) => {
                let limit = if common.strict { FindingLevel::Should } else { FindingLevel::Must };
                let broken = report.findings.iter().filter(|f| f.level >= limit).map(ImageFinding::to_string);
                (report.is_valid(common.strict), broken.collect::<Vec<_>>().join("; "))
            }
            // What is there and cannot be read as metadata is not valid; what cannot be reached is no answer.
            Err(e)
                if matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Unsupported)
                    || (e.is_not_found() && Path::new(&self.uri).exists()) =>
            {
                (false, e.to_string())
            }
            Err(e) => return Err(e),
        };
        let mut out = Json::from([("valid", valid.into())]);
        if !message.is_empty() {
            out.set("message", message);
        }
        output::json_line(out)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Which rules were applied, and why.
fn judged(report: &ImageReport) -> String {
    let version = report.version;
    let stated = report.stated.as_ref().map(|stated| plain(stated));
    match (&stated, report.asked) {
        (Some(stated), true) => format!("judged as {version}, as asked; it says {stated}"),
        (None, true) => format!("judged as {version}, as asked; it says nothing"),
        (Some(stated), false) if stated == version.text() => format!("version {version}"),
        (Some(stated), false) => format!("judged as {version}; it says {stated}"),
        (None, false) => format!("judged as {version}; it says nothing"),
    }
}

/// How many other nodes with the same finding are named.
const SHOWN: usize = 4;

/// Groups findings that differ only in their node: a plate repeats the same finding hundreds of times.
fn grouped(findings: &[ImageFinding]) -> Vec<(&ImageFinding, Vec<&str>)> {
    let mut places: HashMap<(&str, FindingLevel, &str, &str, &str), usize> = HashMap::new();
    let mut all: Vec<(&ImageFinding, Vec<&str>)> = Vec::new();
    for f in findings {
        let what = (f.rule, f.level, f.path.as_str(), f.found.as_str(), f.wanted.as_str());
        match places.get(&what).and_then(|i| all.get_mut(*i)) {
            Some((_, others)) => others.push(&f.node),
            None => {
                places.insert(what, all.len());
                all.push((f, Vec::new()));
            }
        }
    }
    all
}

fn text(report: &ImageReport, valid: bool, paint: Paint) -> String {
    let mut out = String::new();
    for (f, others) in grouped(&report.findings) {
        let level = match f.level {
            FindingLevel::Must => paint.red("MUST"),
            FindingLevel::Should => paint.yellow("SHOULD"),
            FindingLevel::Lint => paint.dim("lint"),
        };
        let place = if f.path.is_empty() { String::new() } else { format!(" {}", plain(&f.path)) };
        out.push_str(&format!("{level} {} {}{place}\n", f.rule, plain(&f.node)));
        out.push_str(&format!("    found {}; wanted {}\n", plain(&f.found), plain(&f.wanted)));
        if !others.is_empty() {
            let some: Vec<&str> = others.iter().copied().take(SHOWN).collect();
            let rest = others.len().saturating_sub(SHOWN);
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            out.push_str(&format!("    also at {}{more}\n", plain(&some.join(", "))));
        }
        let fixes: Vec<String> =
            f.fix.iter().map(|fix| plain(fix).into_owned()).chain(f.hint.iter().map(hinted)).collect();
        if !fixes.is_empty() {
            out.push_str(&format!("    {} {}\n", paint.dim("fix:"), fixes.join("; ")));
        }
    }
    let verdict = if valid { paint.green("valid") } else { paint.red("not valid") };
    let counts = [FindingLevel::Must, FindingLevel::Should, FindingLevel::Lint]
        .map(|level| format!("{} {level}", report.count(level)));
    out.push_str(&format!(
        "{verdict}: {}; {}; {}\n",
        plain(&judged(report)),
        plural(report.nodes, "node"),
        counts.join(", ")
    ));
    out
}
