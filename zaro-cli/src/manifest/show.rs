//! `zaro manifest show`: show a summary of a manifest, or one entry of it.

use clap::Args;
use zaro::manifest::{Leaf, Manifest, Statistics};
use zaro::meta::Json;
use zaro::{Error, Result};

use super::load::load;
use crate::args::Common;
use crate::number::human_bytes;
use crate::output;
use crate::paint::{plain, plural};

const EXAMPLES: &str = "\
Examples:
  zaro manifest show manifest.json
  zaro manifest show manifest.json 0/0/12
  zaro manifest show manifest.json arr_0 --json

Without a PATH, shows a summary. The checksum is the one the manifest states; use
zaro manifest verify to check it.";

/// Show a summary of a manifest, or one entry of it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// The manifest; - for standard input
    #[arg(value_name = "MANIFEST")]
    manifest: String,
    /// An entry or a directory
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let manifest = load(&self.manifest, common).await?;
        let rows = match &self.path {
            None => summary(&manifest),
            Some(path) => {
                let path = path.trim_matches('/');
                match (manifest.get(path), manifest.dir(path)) {
                    (Some(leaf), _) => entry(path, &leaf),
                    (None, Some(dir)) => {
                        let digest = manifest.digests()?.of(&dir);
                        vec![
                            ("path", path.into()),
                            ("digest", digest.to_string().into()),
                            ("entries", digest.count.into()),
                            ("size", digest.size.into()),
                            ("files", dir.files().len().into()),
                            ("directories", dir.dirs().len().into()),
                        ]
                    }
                    (None, None) => {
                        let message = "the manifest has no entry or directory with this name";
                        return Err(Error::not_found(message).with_key(path));
                    }
                }
            }
        };
        let text = if self.json {
            let members = rows.into_iter().map(|(name, value)| (name.to_owned(), value));
            format!("{}\n", Json::Object(members.collect()).pretty())
        } else {
            rows.iter().map(|(name, value)| format!("{name:<16}{}\n", shown(name, value))).collect()
        };
        output::print(&text)
    }
}

fn shown(name: &str, value: &Json) -> String {
    match (name, value) {
        ("size" | "totalSize", v) => {
            let bytes = v.as_u64().unwrap_or(0);
            let human = human_bytes(bytes.into());
            if bytes < 1024 { plural(bytes, "byte") } else { format!("{human} ({bytes} bytes)") }
        }
        (_, Json::Null) => "-".into(),
        (_, Json::String(s)) => plain(s).into_owned(),
        (_, Json::Array(items)) => items.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(", "),
        (_, v) => v.to_string(),
    }
}

fn summary(m: &Manifest) -> Vec<(&'static str, Json)> {
    let Statistics { last_modified, checksum, mismatch, .. } = m.stated();
    let mut rows = vec![
        ("zarrChecksum", checksum.as_ref().into()),
        ("entries", m.len().into()),
        ("directories", m.dir_count().saturating_sub(1).into()),
        ("depth", m.depth().into()),
        ("totalSize", m.total_size().into()),
        ("lastModified", last_modified.map(|t| t.to_string()).into()),
        ("fields", m.fields().names().collect()),
        ("schemaVersion", m.schema_version().into()),
    ];
    if let Some(mismatch) = mismatch {
        rows.push(("zarrChecksumMismatch", mismatch.as_ref().into()));
    }
    rows
}

fn entry(path: &str, leaf: &Leaf<'_>) -> Vec<(&'static str, Json)> {
    vec![
        ("path", path.into()),
        ("versionId", leaf.version().into()),
        ("lastModified", leaf.modified().map(|t| t.to_string()).into()),
        ("size", leaf.size().into()),
        ("ETag", leaf.etag().into()),
    ]
}
