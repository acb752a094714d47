//! Builds consolidated metadata: the documents of all nodes in one, so that one request opens a hierarchy.
//!
//! V2 has a file of its own, `.zmetadata`; V3 a member of the root group's `zarr.json`. Both list nodes as zarr-python
//! does: by depth, then by path.

use super::Format;
use super::json::Json;
use super::write::{Stored, lawful, lawful_node};
use crate::error::{Error, Result};

/// `.zmetadata`, of the nodes at `(path, documents)`; the root's path is `""`.
pub(crate) fn v2(nodes: &[(String, Stored)]) -> Json {
    let mut entries: Vec<(&str, &str, &Json)> = nodes
        .iter()
        .flat_map(|(path, documents)| documents.iter().map(move |(name, d)| (path.as_str(), *name, d)))
        .collect();
    entries.sort_by(|a, b| place(a.0).cmp(&place(b.0)).then(a.1.cmp(b.1)));
    let kept = |name: &str, d: &Json| if name == ".zattrs" { d.clone() } else { lawful(d) };
    let metadata =
        entries.into_iter().map(|(path, name, d)| (super::path::join(path, name), kept(name, d))).collect();
    Json::from([("zarr_consolidated_format", Json::int(1)), ("metadata", Json::Object(metadata))])
}

/// The document of a V3 group with those of the nodes below it: `(path relative to the group, zarr.json)`.
///
/// Consolidated metadata of these nodes are left out: they would only repeat the same.
pub(crate) fn v3(root: &Json, nodes: &[(String, Json)]) -> Result<Json> {
    if root.get("node_type").and_then(Json::as_str) != Some("group") {
        return Err(Error::usage("only a group can hold consolidated metadata"));
    }
    let mut sorted: Vec<&(String, Json)> = nodes.iter().filter(|(path, _)| !path.is_empty()).collect();
    sorted.sort_by(|a, b| place(&a.0).cmp(&place(&b.0)));
    let documents = sorted.into_iter().map(|(path, d)| (path.clone(), without(d))).collect();
    let mut document = without(root);
    document.set("consolidated_metadata", inline(documents));
    Ok(document)
}

/// The document that holds the consolidated metadata of all `nodes` below `group`, and its name.
pub(crate) fn carrying(
    format: Format,
    group: &str,
    nodes: &[(String, Stored)],
) -> Result<(&'static str, Json)> {
    let below = |(path, stored): &(String, Stored)| {
        let rest = path.strip_prefix(group)?;
        let inside = group.is_empty() || rest.is_empty() || rest.starts_with('/');
        inside.then(|| (rest.trim_start_matches('/').to_owned(), stored.clone()))
    };
    let nodes: Vec<(String, Stored)> = nodes.iter().filter_map(below).collect();
    if format == Format::V2 {
        return Ok((".zmetadata", v2(&nodes)));
    }
    let own = |(path, stored): (String, Stored)| Some((path, stored.into_iter().next()?.1));
    let nodes: Vec<(String, Json)> = nodes.into_iter().filter_map(own).collect();
    let root = nodes.iter().find(|(path, _)| path.is_empty()).map(|(_, document)| document);
    let root = root.ok_or_else(|| Error::invalid("the group of the consolidated metadata is missing"))?;
    Ok(("zarr.json", v3(root, &nodes)?))
}

/// A document without consolidated metadata.
pub(crate) fn without(document: &Json) -> Json {
    let mut document = lawful_node(document);
    document.remove("consolidated_metadata");
    document
}

/// The member `consolidated_metadata` of a V3 group.
pub(super) fn inline(documents: Vec<(String, Json)>) -> Json {
    Json::from([
        ("kind", Json::string("inline")),
        ("must_understand", Json::Bool(false)),
        ("metadata", Json::Object(documents)),
    ])
}

/// Depth first, then the path.
fn place(path: &str) -> (usize, &str) {
    let depth = if path.is_empty() { 0 } else { path.split('/').count() };
    (depth, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::finding::Findings;
    use crate::meta::{NodeMeta, v3 as reader, write};

    #[test]
    fn v2_lists_every_document_by_depth() {
        let stored = |names: &[&'static str]| names.iter().map(|n| (*n, Json::object())).collect::<Stored>();
        let nodes = [
            ("b".to_owned(), stored(&[".zarray", ".zattrs"])),
            ("a/x".to_owned(), stored(&[".zarray"])),
            (String::new(), stored(&[".zgroup", ".zattrs"])),
            ("a".to_owned(), stored(&[".zgroup"])),
        ];
        let document = v2(&nodes);
        assert_eq!(document.get("zarr_consolidated_format").unwrap().as_u64(), Some(1));
        let keys: Vec<&str> =
            document.get("metadata").unwrap().members().unwrap().iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(keys, [".zattrs", ".zgroup", "a/.zgroup", "b/.zarray", "b/.zattrs", "a/x/.zarray"]);
    }

    #[test]
    fn v3_reads_back_and_does_not_nest() {
        let attributes = Json::Object(vec![("n".into(), Json::Number("NaN".into()))]);
        let group = write::group(&write::new_group(crate::meta::Format::V3, &attributes)).remove(0).1;
        let inner = v3(&group, &[("deep".into(), group.clone())]).unwrap();
        let root = v3(&inner, &[("z/y".into(), group.clone()), ("a".into(), inner.clone())]).unwrap();
        assert!(!root.to_string().contains("deep"));
        let read = Json::parse(root.stored().as_bytes()).unwrap();
        assert_eq!(read.deviations, ["bare NaN is not JSON"], "the attributes are kept");
        let mut f = Findings::new(crate::meta::Mode::Strict, "/");
        let NodeMeta::Group(g) = reader::node(read.value, &mut f).unwrap() else { panic!("no group") };
        let paths: Vec<&str> = g.consolidated.as_ref().unwrap().iter().map(|(p, _)| p.as_str()).collect();
        assert_eq!(paths, ["a", "z/y"]);
        // A group that is read and written again keeps what it carries.
        assert_eq!(write::group(&g)[0].1, root);
        assert_eq!(without(&root), group);
        let array = Json::from([("node_type", Json::string("array"))]);
        assert!(v3(&array, &[]).is_err());
    }
}
