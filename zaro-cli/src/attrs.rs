//! `zaro attrs`: show or change the attributes of a node.

use clap::Args;
use zaro::meta::{AttributesEdit, Json};
use zaro::{Error, Result, hierarchy};

use crate::args::{Common, Target};
use crate::{making, output};

const EXAMPLES: &str = "\
Examples:
  Show all, as JSON:
      zaro attrs data.zarr temperature
  Set two, remove one:
      zaro attrs data.zarr temperature --set units=K --set valid_range='[0, 400]' --unset comment
  Set a string that looks like a number:
      zaro attrs data.zarr --set version='\"3\"'
  Replace all attributes:
      zaro attrs data.zarr --replace @attributes.json

The value after = is parsed as JSON if possible, else taken as a string. Everything else in
the node's document is kept; consolidated metadata are updated.";

/// Show or change the attributes of a node
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Attrs {
    #[command(flatten)]
    target: Target,
    /// Set an attribute to a JSON value, or to a text; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_set)]
    set: Vec<(String, Json)>,
    /// Remove an attribute; may be repeated
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
    /// Replace all attributes: a JSON object, or @FILE to take it from a file
    #[arg(long, value_name = "JSON|@FILE", conflicts_with_all = ["set", "unset"])]
    replace: Option<String>,
}

fn parse_set(text: &str) -> std::result::Result<(String, Json), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = Json::parse(value.as_bytes()).map_or_else(|_| Json::string(value), |d| d.value);
            Ok((name.to_owned(), value))
        }
        _ => Err("expected a name and a value, such as units=K".into()),
    }
}

impl Attrs {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let edit = match &self.replace {
            Some(text) => AttributesEdit::Replace(making::attributes_of(text)?),
            None if self.set.is_empty() && self.unset.is_empty() => {
                let node = common.open(&self.target.uri).await?.node(&self.target.path).await?;
                common.warn_findings(&node.findings);
                return output::print(&format!("{}\n", node.meta.attributes().pretty()));
            }
            None => AttributesEdit::Patch { set: self.set.clone(), unset: self.unset.clone() },
        };
        if let AttributesEdit::Patch { set, unset } = &edit
            && let Some((name, _)) = set.iter().find(|(name, _)| unset.contains(name))
        {
            return Err(Error::usage(format!("{name:?} is given both to --set and to --unset")));
        }
        let (store, path) = common.open_for_writing(&self.target, false).await?;
        if !self.unset.is_empty() {
            let node = common.zarr_in(&store).await?.node(&path).await?;
            for name in self.unset.iter().filter(|name| node.meta.attributes().get(name).is_none()) {
                common.warn(&format!("there is no attribute {name:?}"));
            }
        }
        hierarchy::edit_attributes(&store, &path, &edit).await?;
        store.finish().await
    }
}
