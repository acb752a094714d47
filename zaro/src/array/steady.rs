//! Detects whether an array was changed while it was read.
//!
//! A read of many chunks is not atomic. Deleting, replacing, shrinking or converting the array meanwhile removes
//! chunks, and missing chunks read as fill value. All of these change or delete its document; so that is compared
//! before and after. Appending and attribute changes do not affect what was read.
//!
//! Remote stores get one request, after a read with missing chunks: whether the document still exists.

use std::sync::atomic::Ordering;

use super::Array;
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::meta::path::{ancestors, join};
use crate::meta::{Format, Json};
use crate::store::StoreExt as _;

/// The document of an array as it was when a read started.
#[derive(Debug)]
pub struct Steady {
    array: Array,
    key: String,
    /// `None` if it is not compared: in a remote store that would take two more requests per read.
    state: Option<String>,
}

impl Array {
    /// Records the state of the array's document; see [`Steady::check`].
    #[boxed]
    pub async fn steady(&self) -> Result<Steady> {
        let name = if self.meta().format == Format::V3 { "zarr.json" } else { ".zarray" };
        let key = join(self.path(), name);
        let state = match self.store().direct() {
            None => None,
            Some(_) => match self.store().state(&key).await {
                Err(e) if e.kind() == ErrorKind::Unsupported => None,
                state => state?,
            },
        };
        Ok(Steady { array: self.clone(), key, state })
    }
}

impl Steady {
    /// Fails if the array was deleted, replaced, shrunk or converted since. In remote stores only a deletion is
    /// detected, and only if chunks were missing.
    #[boxed]
    pub async fn check(&self) -> Result<()> {
        let store = self.array.store();
        let Some(state) = &self.state else { return self.check_far().await };
        let now = store.state(&self.key).await?;
        if now.as_ref() == Some(state) {
            return Ok(());
        }
        let said = match store.get(&self.key, None).await? {
            None => "deleted, moved or converted",
            Some(bytes) => match Json::parse(&bytes) {
                Ok(document) if stays(&self.array.meta().document, &document.value) => return Ok(()),
                _ => "replaced or changed",
            },
        };
        Err(self.fault(said))
    }

    fn fault(&self, said: &str) -> Error {
        let message = format!("the array was {said} while it was read; read it again");
        self.array.named(Error::conflict(message).with_key(&self.key))
    }

    async fn check_far(&self) -> Result<()> {
        if !self.array.inner.missed.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A failed request says nothing about the array.
        match self.array.store().state(&self.key).await {
            Ok(None) if !self.is_carried().await.unwrap_or(true) => {
                Err(self.fault("deleted, moved or converted"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a parent group has the document (consolidated metadata), so that the array needs none of its own.
    async fn is_carried(&self) -> Result<bool> {
        let v2 = self.array.meta().format == Format::V2;
        for group in ancestors(self.array.path()) {
            let name = if v2 { ".zmetadata" } else { "zarr.json" };
            let Some(bytes) = self.array.store().get(&join(group, name), None).await? else { continue };
            let Ok(document) = Json::parse(&bytes) else { continue };
            let below = |key: &str| key.strip_prefix(group).unwrap_or(key).trim_start_matches('/').to_owned();
            let entry = if v2 { below(&self.key) } else { below(self.array.path()) };
            let carried =
                if v2 { Some(&document.value) } else { document.value.get("consolidated_metadata") };
            if carried.and_then(|c| c.get("metadata")?.get(&entry)).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a document describes the same array, possibly longer or with other attributes. An identical text is that of
/// a replacement: nobody puts it for another reason.
fn stays(old: &Json, new: &Json) -> bool {
    let shape = |d: &Json| {
        d.get("shape").and_then(Json::items)?.iter().map(Json::as_u64).collect::<Option<Vec<u64>>>()
    };
    let (Some(before), Some(after)) = (shape(old), shape(new)) else { return false };
    let mut others = [old.clone(), new.clone()];
    for document in &mut others {
        for name in ["shape", "attributes", "consolidated_metadata"] {
            document.remove(name);
        }
    }
    let grown =
        before.len() == after.len() && before.iter().zip(&after).all(|(before, after)| before <= after);
    let [old_rest, new_rest] = others;
    old != new && grown && old_rest == new_rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_and_attributes_do_no_harm() {
        let json = |text: &str| Json::parse(text.as_bytes()).unwrap().value;
        let old = json(r#"{"shape": [4, 5], "dtype": "<i2"}"#);
        for (new, wanted) in [
            (r#"{"shape": [4, 6], "dtype": "<i2"}"#, true),
            (r#"{"shape": [4, 5], "dtype": "<i2", "attributes": {"a": 1}}"#, true),
            (r#"{"shape": [4, 5], "dtype": "<i2"}"#, false),
            (r#"{"shape": [3, 9], "dtype": "<i2"}"#, false),
            (r#"{"shape": [4, 5], "dtype": "<i4"}"#, false),
            (r#"{"dtype": "<i2"}"#, false),
        ] {
            assert_eq!(stays(&old, &json(new)), wanted, "{new}");
        }
    }
}
