//! `zaro ref stat`: count chunks, objects and bytes of each array of a reference store.

use clap::Args;
use zaro::Result;
use zaro::internal::path::shown;
use zaro::reference::{ArrayStat, Arrays, ReferenceStat as Counted, stat};

use crate::args::Common;
use crate::number::human_bytes;
use crate::output;
use crate::paint::{Paint, plain, plural};

const EXAMPLES: &str = "\
Examples:
  zaro ref stat archive.json
  zaro ref stat archive.parq --json | jq '.arrays[] | {path, missing}'

For each array: chunks in its grid, present, missing (they read as the fill value) and inline;
distinct objects, and bytes. Then the address prefixes of the objects, as `zaro ref rebase --from`
takes them. No object is requested.";

/// Count chunks, objects and bytes of each array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stat {
    /// The reference store: JSON (also .gz, .zst), a folder of Parquet, or an Icechunk repository
    #[arg(value_name = "URI")]
    uri: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Stat {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let (store, zarr) = common.open_references(&self.uri).await?;
        let (arrays, damaged) = Arrays::of(&zarr).await?;
        for e in damaged {
            common.warn(&format!("skipped: {e}"));
        }
        let counted = stat(&**store.map(), &arrays).await?;
        for entry in &counted.broken_entries {
            common.warn(&zaro::redacted(entry));
        }
        if counted.broken > 0 {
            common.warn(&format!(
                "broken entries, not counted: {}; zaro ref validate lists them all",
                counted.broken
            ));
        }
        match self.json {
            true => output::json(&counted.json(&self.uri)),
            false => output::print(&table(&counted, Paint::stdout(common.color))),
        }
    }
}

const HEAD: [&str; 8] =
    ["array", "chunks", "present", "missing", "inline", "objects", "bytes", "inline bytes"];

fn table(stat: &Counted, paint: Paint) -> String {
    let row = |a: &ArrayStat, name: String| {
        let bytes = match a.unsized_chunks {
            0 => human_bytes(a.bytes.into()),
            n => format!("{} + {}", human_bytes(a.bytes.into()), plural(n, "whole object")),
        };
        let inline = human_bytes(a.inline_bytes.into());
        let [c, p, m, i, o] = [a.chunks, a.present, a.missing(), a.inline, a.objects].map(|n| n.to_string());
        [name, c, p, m, i, o, bytes, inline]
    };
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(stat.arrays.iter().map(|a| row(a, plain(&shown(&a.path)).into_owned())));
    rows.push(row(&stat.total, "total".to_owned()));
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|r| r.get(column));
        cells.map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut out = String::new();
    for (n, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            line.push_str(&if i == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") });
        }
        let marked = if n == 0 || n + 1 == rows.len() { paint.bold(&line) } else { line.as_str().into() };
        out.push_str(&format!("{marked}\n"));
    }
    out.push_str(&format!(
        "\n{}, {}\n",
        plural(stat.documents, "document"),
        human_bytes(stat.document_bytes.into())
    ));
    for place in &stat.places {
        let prefix = zaro::redacted(&place.prefix);
        let name = match (place.scheme.as_str(), &*prefix) {
            ("target", _) => "(the target given when it is opened)",
            ("relative", "") => "(relative addresses)",
            (_, prefix) => prefix,
        };
        out.push_str(&format!(
            "{}: {}, {}, {}\n",
            paint.cyan(&plain(name)),
            plural(place.objects, "object"),
            plural(place.references, "reference"),
            human_bytes(place.bytes.into())
        ));
    }
    if stat.strays > 0 {
        let names: Vec<String> = stat.stray_keys.iter().map(|k| plain(k).into_owned()).collect();
        let more = if stat.strays > 5 { ", …" } else { "" };
        let told =
            format!("{} outside any array's grid: {}{more}", plural(stat.strays, "key"), names.join(", "));
        out.push_str(&format!("{}\n", paint.yellow(&told)));
    }
    out
}
