//! The tables of `docs/book/codecs.md` against the registry: every name in them is known, and every known name is in them.

use std::collections::BTreeSet;
use std::path::Path;

use zaro::codec::CodecRequest;
use zaro::internal::codec::build;
use zaro::meta::DataType;

/// Known to the chain itself, which reads around it.
const SHARDING: &str = "sharding_indexed";

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The names between back-quotes.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The V3 names and the V2 ids of all tables with those columns.
fn documented() -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut v3, mut v2) = (BTreeSet::new(), BTreeSet::new());
    let mut inside = false;
    for line in text("../docs/book/codecs.md").lines() {
        if !line.starts_with('|') {
            inside = false;
        } else if line.starts_with("| codec | V3 names | V2 ids |") {
            inside = true;
        } else if inside {
            let cells: Vec<&str> = line.split('|').collect();
            v3.extend(quoted(cells[2]));
            v2.extend(quoted(cells[3]));
        }
    }
    (v3, v2)
}

/// Whether the registry has heard of `name`; settings that are missing do not matter.
fn is_known(name: &str) -> bool {
    let request = CodecRequest { name, config: &[], strict: false, data_type: &DataType::FLOAT32 };
    match build(&request) {
        Ok(_) => true,
        Err(e) => !e.message().contains("unknown codec"),
    }
}

/// The names in the match arms of `function` in the registry's source.
fn arms(function: &str) -> BTreeSet<String> {
    let source = text("src/codec/registry.rs");
    let body = source.split(&format!("\nfn {function}(")).nth(1).unwrap();
    let body = body.split("\n}\n").next().unwrap();
    let patterns = body.lines().filter_map(|line| {
        let (pattern, _) = line.split_once("=>")?;
        pattern.trim_start().starts_with('"').then_some(pattern)
    });
    patterns.flat_map(|p| p.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn every_documented_codec_is_known() {
    let (v3, v2) = documented();
    assert!(v3.len() > 30 && v2.len() > 40, "the tables were not found: {v3:?} {v2:?}");
    let unknown: Vec<String> = v3
        .into_iter()
        .filter(|n| n != SHARDING)
        .chain(v2.into_iter().map(|id| format!("v2.{id}")))
        .filter(|n| !is_known(n))
        .collect();
    assert!(unknown.is_empty(), "in docs/book/codecs.md, but not known: {unknown:?}");
    assert!(!is_known("no-such-codec"));
}

#[test]
fn every_known_codec_is_documented() {
    let (v3, v2) = documented();
    let (named, between_bytes) = (arms("builtin"), arms("bytes_codec"));
    assert!(named.len() > 30 && between_bytes.len() > 20, "the registry was not understood: {named:?}");
    let missing: Vec<String> = named
        .into_iter()
        .filter(|n| !n.ends_with("pickle"))
        .filter(|n| match n.strip_prefix("v2.") {
            Some(id) => !v2.contains(id),
            None => !v3.contains(n),
        })
        .chain(between_bytes.into_iter().filter(|n| !v3.contains(n) && !v2.contains(n)))
        .collect();
    assert!(missing.is_empty(), "known, but not in docs/book/codecs.md: {missing:?}");
}
