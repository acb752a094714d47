//! In-place edits of metadata documents: attributes, and the shape of an array.
//!
//! They work on the stored document, not on the model, so that members unknown to zaro survive. The caller must update
//! the copy of the document in consolidated metadata, if any.

use std::sync::Arc;

use super::finding::Findings;
use super::json::Json;
use super::write::lawful_node;
use super::{Format, v2, v3};
use crate::error::{Result, invalid, usage};

/// A change of a node's attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributesEdit {
    /// Replace all attributes.
    Replace(Vec<(String, Json)>),
    /// Set some attributes, in place or at the end, and remove others. A name that does not exist is not an error.
    Patch {
        /// Set these.
        set: Vec<(String, Json)>,
        /// Then remove these.
        unset: Vec<String>,
    },
}

/// The document with its attributes changed: `zarr.json` of V3, `.zattrs` of V2 (an empty object if there is none).
pub fn attributes(format: Format, document: &Json, edit: &AttributesEdit) -> Result<Json> {
    let Json::Object(_) = document else {
        return Err(invalid!("must hold an object, not {}", document.kind()));
    };
    let old = match format {
        Format::V2 => Some(document),
        Format::V3 => document.get("attributes"),
    };
    let mut changed = old.map_or_else(Json::object, Json::clone);
    match edit {
        AttributesEdit::Replace(all) => changed = Json::Object(all.clone()),
        AttributesEdit::Patch { set, unset } => {
            if !matches!(changed, Json::Object(_)) {
                return Err(invalid!("must be an object, not {}", changed.kind()).with_field("attributes"));
            }
            for (name, value) in set {
                changed.set(name, value.clone());
            }
            for name in unset {
                changed.remove(name);
            }
        }
    }
    if format == Format::V2 {
        return Ok(changed);
    }
    let mut document = lawful_node(document);
    document.set("attributes", changed);
    Ok(document)
}

/// The array document with another shape: `zarr.json` of V3, `.zarray` of V2. Chunks stay as they are; a rectilinear
/// grid must have enough of them.
pub fn shape(format: Format, document: &Json, shape: &[u64]) -> Result<Json> {
    let old = document.get("shape").and_then(Json::items).map(<[Json]>::len);
    if old != Some(shape.len()) {
        let old = old.map_or_else(|| "no shape".to_owned(), |n| format!("{n} dimensions"));
        return Err(usage!("{} extents are given, but the array has {old}", shape.len()));
    }
    let mut changed = lawful_node(document);
    changed.set("shape", shape);
    // Whatever the new shape breaks is found by reading the result, as tolerantly as the old one was read.
    let read = Arc::new(changed.clone());
    let mut f = Findings::default();
    match format {
        Format::V2 => v2::array(read, None, &mut f).map(drop)?,
        Format::V3 => v3::shared(read, &mut f).map(drop)?,
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    #[test]
    fn attributes_change_and_nothing_else() {
        let document = json(
            r#"{"x": {"must_understand": false}, "attributes": {"a": 1, "b": NaN}, "node_type": "group",
                "zarr_format": 3, "consolidated_metadata": {"kind": "inline", "metadata": {"c": {}}}}"#,
        );
        let edit = AttributesEdit::Patch {
            set: vec![("a".into(), Json::int(2)), ("c".into(), Json::Null)],
            unset: vec!["b".into(), "none".into()],
        };
        let changed = attributes(Format::V3, &document, &edit).unwrap();
        assert_eq!(
            changed.to_string(),
            r#"{"x":{"must_understand":false},"attributes":{"a":2,"c":null},"node_type":"group","zarr_format":3,"consolidated_metadata":{"kind":"inline","metadata":{"c":{}}}}"#
        );
        let all = AttributesEdit::Replace(vec![("n".into(), Json::Number("NaN".into()))]);
        assert_eq!(attributes(Format::V2, &json(r#"{"a": 1}"#), &all).unwrap(), json(r#"{"n": NaN}"#));
        assert_eq!(
            attributes(Format::V2, &json(r#"{"a": 1}"#), &edit).unwrap(),
            json(r#"{"a": 2, "c": null}"#)
        );
        assert!(attributes(Format::V2, &json("[]"), &edit).is_err());
    }

    #[test]
    fn a_shape_changes_and_nothing_else() {
        let text = r#"{"zarr_format":2,"shape":[4,5],"chunks":[2,2],"dtype":"<u2","compressor":null,"fill_value":null,"order":"C","filters":null,"own":[1]}"#;
        let changed = shape(Format::V2, &json(text), &[9, 0]).unwrap();
        assert_eq!(changed.to_string(), text.replace("[4,5]", "[9,0]"));
        assert!(shape(Format::V2, &json(text), &[9]).is_err());
        let text = r#"{"zarr_format":3,"node_type":"array","shape":[4],"data_type":"int8","chunk_grid":{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[3,3]]}},"chunk_key_encoding":"default","fill_value":0,"codecs":["bytes"]}"#;
        let changed = shape(Format::V3, &json(text), &[6]).unwrap();
        assert_eq!(changed.to_string(), text.replace("[4]", "[6]"));
        assert!(shape(Format::V3, &json(text), &[7]).is_err());
    }
}
