//! Consolidated metadata against the documents they were made of.

use std::sync::Arc;

use zaro::meta::path::{join, normal, shown};
use zaro::meta::{Json, Level, NodeMeta};
use zaro::{Node, Result, Zarr};

use crate::validate::Fault;

const RULE: &str = "consolidated/stale";

/// One document inside consolidated metadata.
struct Entry {
    /// The node it is of, in key form.
    node: String,
    /// `zarr.json`, `.zarray`, `.zgroup` or `.zattrs`.
    name: String,
    document: Arc<Json>,
}

/// Everything consolidated at the root, in either version's form; and keys that are none.
async fn entries(zarr: &Zarr) -> Result<(Vec<Entry>, Vec<String>)> {
    let (mut out, mut odd) = (Vec::new(), Vec::new());
    if let Ok(Node { meta: NodeMeta::Group(group), .. }) = zarr.node("").await {
        for (node, document) in group.consolidated.into_iter().flatten() {
            match normal(&node) {
                Ok(node) => out.push(Entry { node, name: "zarr.json".into(), document }),
                Err(_) => odd.push(node),
            }
        }
    }
    let zmetadata = zarr.store().get(".zmetadata", None).await?;
    if let Some(document) = zmetadata.and_then(|bytes| Json::parse(&bytes).ok()) {
        for (key, document) in document.value.get("metadata").and_then(Json::members).unwrap_or_default() {
            let (node, name) = key.rsplit_once('/').unwrap_or(("", key));
            match normal(node) {
                Ok(node) => {
                    out.push(Entry { node, name: name.to_owned(), document: Arc::new(document.clone()) })
                }
                Err(_) => odd.push(key.clone()),
            }
        }
    }
    Ok((out, odd))
}

/// Compares what is consolidated at the root with the documents of `nodes`, which are all that were found.
pub(crate) async fn check(zarr: &Zarr, nodes: &[String], faults: &mut Vec<Fault>) -> Result<()> {
    let mut fault = |node: &str, message: String| {
        faults.push(Fault {
            rule: RULE.into(),
            level: Level::Warning,
            node: shown(node),
            field: String::new(),
            message,
        });
    };
    let (entries, odd) = entries(zarr).await?;
    for key in odd {
        fault("", format!("the consolidated metadata name {key:?}, which is no path"));
    }
    for entry in &entries {
        compare(zarr, &entry.node, &entry.name, &entry.document, &mut fault).await?;
    }
    for node in nodes.iter().filter(|n| !n.is_empty() && !entries.is_empty()) {
        if !entries.iter().any(|e| e.node == *node) {
            fault(node, "the consolidated metadata do not have this node".into());
        }
    }
    Ok(())
}

async fn compare(
    zarr: &Zarr,
    node: &str,
    name: &str,
    said: &Json,
    fault: &mut impl FnMut(&str, String),
) -> Result<()> {
    let own = match zarr.store().get(&join(node, name), None).await? {
        None => {
            fault(node, format!("the consolidated metadata have a {name} that is not there"));
            return Ok(());
        }
        // What does not parse is reported as a fault of the node.
        Some(bytes) => match Json::parse(&bytes) {
            Ok(document) => document.value,
            Err(_) => return Ok(()),
        },
    };
    if !same(&own, said) {
        let what = difference(&own, said).map_or(String::new(), |member| format!(" in {member:?}"));
        fault(node, format!("the consolidated metadata differ from {name}{what}"));
    }
    Ok(())
}

/// Members that say nothing of the node itself.
fn counts(name: &str) -> bool {
    name != "consolidated_metadata"
}

/// Whether two documents say the same: the order of members does not matter, nor what is consolidated within.
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

/// The first member in which two documents differ.
fn difference<'a>(a: &'a Json, b: &'a Json) -> Option<&'a str> {
    let (x, y) = (a.members()?, b.members()?);
    let names = x.iter().chain(y).map(|(n, _)| n.as_str()).filter(|n| counts(n));
    names.into_iter().find(|n| match (a.get(n), b.get(n)) {
        (Some(v), Some(w)) => !same(v, w),
        _ => true,
    })
}

/// The nodes directly below `path` that the consolidated metadata name, for stores that cannot list.
pub(crate) async fn named_below(zarr: &Zarr, path: &str) -> Vec<String> {
    let (entries, _) = entries(zarr).await.unwrap_or_default();
    let mut paths: Vec<String> = entries.into_iter().map(|e| e.node).collect();
    paths.retain(|p| !p.is_empty() && p.rsplit_once('/').map_or("", |(parent, _)| parent) == path);
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap().value
    }

    #[test]
    fn order_and_spelling_do_not_matter() {
        assert!(same(&json(r#"{"a":1,"b":[1.0,NaN]}"#), &json(r#"{"b":[1,"NaN"],"a":1}"#)));
        assert!(same(&json(r#"{"a":1,"consolidated_metadata":{}}"#), &json(r#"{"a":1}"#)));
        assert!(!same(&json(r#"{"a":1}"#), &json(r#"{"a":1,"b":2}"#)));
        assert_eq!(difference(&json(r#"{"a":1,"b":2}"#), &json(r#"{"a":1,"b":3}"#)), Some("b"));
    }
}
