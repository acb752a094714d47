//! Detects stale consolidated metadata: compares it with the documents of the nodes.

use std::sync::Arc;

use crate::error::Result;
use crate::group::{Node, Zarr};
use crate::meta::path::{join, normal, shown};
use crate::meta::{Finding, Json, Level, NodeMeta};
use crate::store::StoreExt as _;

const RULE: &str = "consolidated/stale";

/// One document inside consolidated metadata.
struct ConsolidatedEntry {
    /// The path of its node, as in keys.
    node: String,
    /// `zarr.json`, `.zarray`, `.zgroup` or `.zattrs`.
    name: String,
    document: Arc<Json>,
}

/// All consolidated metadata at the root, in the form of V2 or V3. Keys that are not paths are findings of the root.
async fn entries(zarr: &Zarr) -> Result<Vec<ConsolidatedEntry>> {
    let mut out = Vec::new();
    if let Ok(Node { meta: NodeMeta::Group(group), .. }) = zarr.node("").await {
        for (node, document) in group.consolidated.into_iter().flatten() {
            if let Ok(node) = normal(&node) {
                out.push(ConsolidatedEntry { node, name: "zarr.json".into(), document });
            }
        }
    }
    let zmetadata = zarr.store().get(".zmetadata", None).await?;
    if let Some(document) = zmetadata.and_then(|bytes| Json::parse(&bytes).ok()) {
        for (key, document) in document.value.get("metadata").and_then(Json::members).unwrap_or_default() {
            let (node, name) = key.rsplit_once('/').unwrap_or(("", key));
            if let Ok(node) = normal(node) {
                out.push(ConsolidatedEntry {
                    node,
                    name: name.to_owned(),
                    document: Arc::new(document.clone()),
                });
            }
        }
    }
    Ok(out)
}

/// Compares consolidated metadata at the root with the documents of `nodes`, which are all nodes that were found.
pub(super) async fn check(zarr: &Zarr, nodes: &[String], faults: &mut Vec<Finding>) -> Result<()> {
    let mut fault = |node: &str, field: &str, message: String| {
        faults.push(Finding {
            rule: RULE,
            level: Level::Warning,
            node: shown(node),
            field: field.to_owned(),
            message,
        });
    };
    let entries = entries(zarr).await?;
    for entry in &entries {
        compare(zarr, &entry.node, &entry.name, &entry.document, &mut fault).await?;
    }
    for node in nodes.iter().filter(|n| !n.is_empty() && !entries.is_empty()) {
        if !entries.iter().any(|e| e.node == *node) {
            fault(node, "", "this node is missing from the consolidated metadata".into());
        }
    }
    Ok(())
}

async fn compare(
    zarr: &Zarr,
    node: &str,
    name: &str,
    said: &Json,
    fault: &mut impl FnMut(&str, &str, String),
) -> Result<()> {
    let own = match zarr.store().get(&join(node, name), None).await? {
        None => {
            fault(node, "", format!("the consolidated metadata list a {name} that does not exist"));
            return Ok(());
        }
        // A document that does not parse is reported as a finding of the node.
        Some(bytes) => match Json::parse(&bytes) {
            Ok(document) => document.value,
            Err(_) => return Ok(()),
        },
    };
    let (own, said) = match name {
        "zarr.json" => (stated(&own), stated(said)),
        _ => (own, said.clone()),
    };
    if !same(&own, &said) {
        let field = difference(&own, &said);
        fault(node, &field, format!("the consolidated metadata differ from {name}"));
    }
    Ok(())
}

/// A V3 document without members that mean the same if absent: some writers put `"storage_transformers": []` into one
/// of the two only.
fn stated(document: &Json) -> Json {
    let says_nothing = |name: &str, value: &Json| match (name, value) {
        ("storage_transformers", Json::Array(list)) => list.is_empty(),
        ("attributes", Json::Object(members)) => members.is_empty(),
        _ => false,
    };
    match document {
        Json::Object(members) => {
            Json::Object(members.iter().filter(|(name, value)| !says_nothing(name, value)).cloned().collect())
        }
        other => other.clone(),
    }
}

/// Whether a member says something about the node itself.
fn counts(name: &str) -> bool {
    name != "consolidated_metadata"
}

/// Whether two documents are equivalent, whatever the order of members and the consolidated metadata inside them.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Object(x), Json::Object(y)) => {
            let subset = |p: &[(String, Json)], q: &Json| {
                p.iter().filter(|(n, _)| counts(n)).all(|(n, v)| q.get(n).is_some_and(|w| same(v, w)))
            };
            subset(x, b) && y.iter().filter(|(n, _)| counts(n)).all(|(n, _)| a.get(n).is_some())
        }
        (Json::Array(x), Json::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(v, w)| same(v, w)),
        (Json::Number(x), Json::Number(y)) => x == y || (a.as_f64().is_some() && a.as_f64() == b.as_f64()),
        // A writer may turn a bare NaN into a string or back.
        (Json::Number(x), Json::String(y)) | (Json::String(y), Json::Number(x)) => **x == **y,
        _ => a == b,
    }
}

/// The first field in which two documents differ, such as `codecs[0].configuration.level`; empty for the whole
/// document.
fn difference(a: &Json, b: &Json) -> String {
    match (a, b) {
        (Json::Object(x), Json::Object(y)) => {
            let mut names = x.iter().chain(y).map(|(n, _)| n.as_str()).filter(|n| counts(n));
            let differs = |n: &&str| !matches!((a.get(n), b.get(n)), (Some(v), Some(w)) if same(v, w));
            names.find(differs).map_or(String::new(), |n| match (a.get(n), b.get(n)) {
                (Some(v), Some(w)) => below(n, &difference(v, w)),
                _ => n.to_owned(),
            })
        }
        (Json::Array(x), Json::Array(y)) if x.len() == y.len() => {
            let at = x.iter().zip(y).enumerate().find(|(_, (v, w))| !same(v, w));
            at.map_or(String::new(), |(i, (v, w))| below(&format!("[{i}]"), &difference(v, w)))
        }
        _ => String::new(),
    }
}

/// Appends `rest` to the field path `at`.
fn below(at: &str, rest: &str) -> String {
    let dot = if rest.is_empty() || rest.starts_with('[') { "" } else { "." };
    format!("{at}{dot}{rest}")
}

/// The direct children of `path` in the consolidated metadata, for stores that cannot list.
pub(super) async fn named_below(zarr: &Zarr, path: &str) -> Vec<String> {
    let entries = entries(zarr).await.unwrap_or_default();
    let mut paths: Vec<String> = entries.into_iter().map(|e| e.node).collect();
    paths.retain(|p| !p.is_empty() && p.rsplit_once('/').map_or("", |(parent, _)| parent) == path);
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    #[test]
    fn order_and_spelling_do_not_matter() {
        assert!(same(&json(r#"{"a":1,"b":[1.0,NaN]}"#), &json(r#"{"b":[1,"NaN"],"a":1}"#)));
        assert!(same(&json(r#"{"a":1,"consolidated_metadata":{}}"#), &json(r#"{"a":1}"#)));
        assert!(!same(&json(r#"{"a":1}"#), &json(r#"{"a":1,"b":2}"#)));
        let empty = json(r#"{"a":1,"storage_transformers":[],"attributes":{}}"#);
        assert!(same(&stated(&empty), &json(r#"{"a":1}"#)));
        let full = json(r#"{"a":1,"storage_transformers":["x"],"attributes":{"b":2}}"#);
        assert!(same(&stated(&full), &full));
        assert_eq!(difference(&json(r#"{"a":1,"b":2}"#), &json(r#"{"a":1,"b":3}"#)), "b");
        let (x, y) = (r#"{"c":[{"k":{"l":1}},[0]]}"#, r#"{"c":[{"k":{"l":2}},[0]]}"#);
        assert_eq!(difference(&json(x), &json(y)), "c[0].k.l");
    }
}
