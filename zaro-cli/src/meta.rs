//! `zaro meta`: show the metadata of a node in one model, whatever the Zarr version.

use clap::Args;
use zaro::Result;
use zaro::meta::Json;

use crate::args::{Common, Target};
use crate::output;
use crate::paint::{Paint, plain};

const EXAMPLES: &str = "\
Examples:
  zaro meta data.zarr temperature
  zaro meta data.zarr temperature --json | jq .chunk_shape

V2 and V3 give the same fields: path, kind, zarr_format, shape, chunk_shape (or chunk_shapes),
shard_shape, data_type, fill_value, codecs, dimension_names, chunk_key_encoding, attributes.
docs/book/meta-json.md describes each.";

/// Show the metadata of a node as one model, whatever the version
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Meta {
    #[command(flatten)]
    target: Target,
    /// Print JSON; its fields are stable
    #[arg(long)]
    json: bool,
}

impl Meta {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let zarr = common.open(&self.target.uri).await?;
        let node = zarr.node(&self.target.path).await?;
        common.warn_findings(&node.findings);
        let model = zaro::internal::describe::node(&node);
        if self.json {
            return output::json(&model);
        }
        let paint = Paint::stdout(common.color);
        let mut out = String::new();
        for (name, value) in model.members().unwrap_or_default() {
            let (name, text) = (format!("{name:<18}"), text(value));
            out.push_str(&format!("{} {text}\n", paint.bold(&name)));
        }
        output::print(&out)
    }
}

/// A value on one line, or below its name if it takes several.
fn text(value: &Json) -> String {
    match value {
        Json::String(s) => plain(s).into_owned(),
        Json::Object(members) if members.is_empty() => "{}".into(),
        Json::Array(items) if items.iter().any(|i| i.members().is_some()) => {
            items.iter().map(|i| format!("\n  {}", plain(&i.to_string()))).collect()
        }
        Json::Object(members) if !members.iter().any(|(n, _)| n == "name") => {
            members.iter().map(|(n, v)| format!("\n  {}: {}", plain(n), plain(&v.to_string()))).collect()
        }
        other => plain(&other.to_string()).into_owned(),
    }
}
