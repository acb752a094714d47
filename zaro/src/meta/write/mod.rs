//! Writes the model as V2 or V3 metadata documents.
//!
//! Reading is tolerant, writing is strict: documents have the form that every reader supports. No short-hand names,
//! members in one order, defaults spelled out, fill values exact to the bit. Members of the original document that zaro
//! does not know, but may ignore, are kept.
//!
//! Bare `NaN` and infinities, which Python lets into attributes and JSON's grammar forbids, are written as the strings
//! `"NaN"`, `"Infinity"` and `"-Infinity"`, as V3 spells them in fill values: a document that half of all readers
//! refuse would be worse than a value that has become text.

mod fill;
mod v2;
mod v3;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::finding::{Findings, Mode};
use super::json::Json;
use super::{ArrayMeta, Format, GroupMeta, NodeMeta};
use crate::error::{Error, Result, unsupported};

pub(crate) use fill::write as write_fill;
pub(crate) use v3::codecs as write_codecs;

/// The documents of one node and the names they are stored by: `zarr.json`, or `.zarray` and `.zattrs`, or `.zgroup`
/// and `.zattrs`.
pub(crate) type Stored = Vec<(&'static str, Json)>;

/// A node's documents as they were read, with unknown members; without consolidated metadata.
pub(crate) fn as_stored(meta: &NodeMeta) -> Stored {
    let (format, document, attributes, name) = match meta {
        NodeMeta::Array(a) => (a.format, &a.document, &a.attributes, ".zarray"),
        NodeMeta::Group(g) => (g.format, &g.document, &g.attributes, ".zgroup"),
    };
    match format {
        Format::V3 => vec![("zarr.json", super::consolidate::without(document))],
        Format::V2 => {
            let mut stored = vec![(name, lawful(document))];
            if attributes.members().is_some_and(|m| !m.is_empty()) {
                stored.push((".zattrs", (**attributes).clone()));
            }
            stored
        }
    }
}

/// An array's documents, in the version of its `format`.
///
/// The codecs must be those of that version; [`convert`](super::convert) changes them.
pub(crate) fn array(meta: &ArrayMeta) -> Result<Stored> {
    match meta.format {
        Format::V3 => Ok(vec![("zarr.json", v3::array(meta)?)]),
        Format::V2 => v2::array(meta),
    }
}

/// A group's documents. The consolidated metadata of a V3 group are written too.
pub(crate) fn group(meta: &GroupMeta) -> Stored {
    match meta.format {
        Format::V3 => vec![("zarr.json", v3::group(meta))],
        Format::V2 => v2::group(meta),
    }
}

/// A new group without members.
pub(crate) fn new_group(format: Format, attributes: &Json) -> GroupMeta {
    let mut meta = GroupMeta {
        format,
        attributes: Arc::new(attributes.clone()),
        consolidated: None,
        document: Arc::new(Json::object()),
    };
    if let Some((_, document)) = group(&meta).into_iter().next() {
        meta.document = Arc::new(document);
    }
    meta
}

/// Checks a draft of an array by writing it and reading it back strictly: the result must be the same.
///
/// The result has its new document. Whether the codecs fit together only the codec layer can tell.
pub(crate) fn settle(mut draft: ArrayMeta) -> Result<ArrayMeta> {
    if draft.format == Format::V3 {
        draft.codecs = v3::canonical(&draft.codecs, draft.shape.len())?;
    }
    let mut f = Findings::new(Mode::Strict, "");
    let mut documents = array(&draft)?.into_iter().map(|(_, d)| Arc::new(d));
    let document = documents.next().unwrap_or_else(|| Arc::new(Json::object()));
    let (read, attributes) = match draft.format {
        Format::V3 => match super::v3::shared(document, &mut f)? {
            NodeMeta::Array(a) => (a, draft.attributes.clone()),
            NodeMeta::Group(_) => return Err(Error::invalid("an array was written as a group")),
        },
        Format::V2 => {
            let attributes = documents.next().unwrap_or_else(|| Arc::new(Json::object()));
            (super::v2::array(document, Some(attributes.clone()), &mut f)?, attributes)
        }
    };
    let wanted = ArrayMeta { attributes, document: read.document.clone(), ..draft };
    match difference(&wanted, &read) {
        None => Ok(read),
        Some(field) => {
            Err(unsupported!("Zarr V{} cannot express the requested metadata", wanted.format.number())
                .with_field(field))
        }
    }
}

/// The first field in which two arrays differ.
fn difference(a: &ArrayMeta, b: &ArrayMeta) -> Option<&'static str> {
    [
        ("shape", a.shape == b.shape),
        ("data_type", a.data_type == b.data_type),
        ("chunk_grid", a.grid == b.grid),
        ("chunk_key_encoding", a.keys == b.keys),
        ("fill_value", a.fill == b.fill && a.fill_undefined == b.fill_undefined),
        ("codecs", a.codecs == b.codecs),
        ("dimension_names", a.dimension_names == b.dimension_names),
        ("attributes", a.attributes == b.attributes),
    ]
    .into_iter()
    .find(|(_, same)| !same)
    .map(|(field, _)| field)
}

/// A value as strict JSON: bare `NaN` and infinities become strings.
pub(crate) fn lawful(value: &Json) -> Json {
    match value {
        Json::Number(t) if matches!(&**t, "NaN" | "Infinity" | "-Infinity") => Json::string(&**t),
        Json::Array(items) => Json::Array(items.iter().map(lawful).collect()),
        Json::Object(members) => Json::Object(members.iter().map(|(n, v)| (n.clone(), lawful(v))).collect()),
        other => other.clone(),
    }
}

/// A node's document as strict JSON, except for its attributes, which are the user's; likewise its consolidated
/// metadata.
pub(crate) fn lawful_node(document: &Json) -> Json {
    let Json::Object(members) = document else { return lawful(document) };
    let member = |(name, value): &(String, Json)| {
        let value = match (name.as_str(), value) {
            ("attributes", value) => value.clone(),
            ("consolidated_metadata", Json::Object(_)) => {
                let mut all = lawful(value);
                if let Some(Json::Object(nodes)) = value.get("metadata") {
                    let nodes = nodes.iter().map(|(path, node)| (path.clone(), lawful_node(node)));
                    all.set("metadata", Json::Object(nodes.collect()));
                }
                all
            }
            (_, value) => lawful(value),
        };
        (name.clone(), value)
    };
    Json::Object(members.iter().map(member).collect())
}
