//! Notes about a copy or a conversion.

use super::is_image;
use crate::boxed;
use crate::error::{Hint, Result};
use crate::group::{Node, Zarr};
use crate::meta::convert::missing;
use crate::meta::path::{normal, shown};
use crate::meta::{Format, NodeMeta};

/// A note on what a copy or a conversion lacks, or has in another form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The sentence.
    pub text: String,
    /// What can be done about it.
    pub hint: Option<Hint>,
}

impl From<String> for Note {
    fn from(text: String) -> Self {
        Self { text, hint: None }
    }
}

/// Notes on what a conversion of the hierarchy at `path` to the version `to` does not keep or do.
///
/// # Errors
/// Those of reading the documents.
#[boxed]
pub async fn conversion_notes(zarr: &Zarr, path: &str, to: Format) -> Result<Vec<Note>> {
    Ok(zarr.walk(&normal(path)?).await?.iter().filter_map(|node| conversion_note(node, to)).collect())
}

pub(super) fn conversion_note(node: &Node, to: Format) -> Option<Note> {
    let at = shown(&node.path);
    match &node.meta {
        _ if node.meta.format() == to => None,
        NodeMeta::Array(meta) if to == Format::V3 && missing::is_lost_in_v3(meta) => {
            let (what, is) = (&meta.data_type, "are missing; none of them is there");
            Some(format!("{at}: V3 cannot say which elements of type {what} {is}").into())
        }
        NodeMeta::Group(_) if is_image(&node.meta) => {
            let version = if to == Format::V3 { "0.5" } else { "0.4" };
            let text = format!(
                "{at}: the metadata of an OME-Zarr image stays that of the other Zarr version, so the image is not valid"
            );
            let upgrade = Hint::operation("image upgrade", "converts an image").with("to").set_to(version);
            Some(Note { text, hint: Some(upgrade) })
        }
        _ => None,
    }
}
