//! Whether an array stayed the same while it was read.
//!
//! A read of many chunks is no single look. Who deletes, replaces, shrinks or converts the array meanwhile takes chunks away,
//! and what is missing reads as fill value. All of them change or delete its document; so that is looked at before and
//! after. An array may grow, and its attributes may change: that does nothing to what was read.

use super::Array;
use crate::error::{Error, ErrorKind, Result};
use crate::meta::{Format, Json};

/// The document of an array as it was when a read began.
#[derive(Debug)]
pub struct Steady {
    array: Array,
    key: String,
    /// `None` if it is not to be looked at: a store far away would be asked twice more for each read.
    state: Option<String>,
}

impl Array {
    /// Notes the state of the array's document; see [`Steady::check`].
    pub async fn steady(&self) -> Result<Steady> {
        let name = if self.meta().format == Format::V3 { "zarr.json" } else { ".zarray" };
        let key = crate::meta::path::join(self.path(), name);
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
    /// Fails if the array was deleted, replaced, made shorter or converted since. Only files and memory are looked at.
    pub async fn check(&self) -> Result<()> {
        let store = self.array.store();
        let Some(state) = &self.state else { return Ok(()) };
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
        Err(self.array.named(
            Error::conflict(format!("the array was {said} while it was read; read it again"))
                .with_key(&self.key),
        ))
    }
}

/// Whether a document tells of the same array, which may have grown, or has other attributes. The very same text is that
/// of a replacement: nobody puts it for anything else.
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
