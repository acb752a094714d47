//! Chunks that get other keys in the store they are in: new ones lie beside the old ones until nobody needs those.

use futures::TryStreamExt;

use crate::error::Result;
use crate::meta::{ChunkKeys, Json};
use crate::num;
use crate::store::StoreExt as _;
use crate::store::{SharedStore, join};
use crate::task;

/// Chunks deleted at once.
const AT_ONCE: usize = 16;

/// The chunks of an array that have keys of one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunks {
    /// The path of their array from the root of the store.
    pub(crate) path: String,
    pub(crate) keys: ChunkKeys,
    pub(crate) rank: usize,
}

impl Chunks {
    /// As a journal has them.
    pub(crate) fn json(&self) -> Json {
        let mut json = Json::object();
        json.set("path", Json::string(self.path.as_str()));
        json.set("prefixed", Json::Bool(self.keys.prefixed));
        json.set("separator", Json::string(self.keys.separator.to_string()));
        json.set("rank", Json::int(self.rank));
        json
    }

    pub(crate) fn parse(json: &Json) -> Option<Self> {
        let keys = ChunkKeys {
            prefixed: json.get("prefixed")?.as_bool()?,
            separator: json.get("separator")?.as_str()?.chars().next()?,
        };
        let rank = num::usize_of(json.get("rank")?.as_u64()?).ok()?;
        Some(Self { path: json.get("path")?.as_str()?.to_owned(), keys, rank })
    }

    /// Deletes them, those with keys of another form not.
    pub(crate) async fn delete(&self, store: &SharedStore) -> Result<()> {
        let Self { path, keys, rank } = self;
        let mut old = Vec::new();
        let mut all = store.keys(path);
        while let Some(entry) = all.try_next().await? {
            let below = entry.key.strip_prefix(path.as_str()).unwrap_or_default().trim_start_matches('/');
            if keys.index(below, *rank).is_some() {
                old.push(entry.key);
            }
        }
        task::each(AT_ONCE, old, |key| async move { store.delete(&key).await }).await?;
        // Who was killed after the last chunk, and before its folder went, left that.
        for name in store.list(path).await?.prefixes {
            let theirs = if keys.prefixed { name == "c" } else { name.parse::<u64>().is_ok() };
            let folder = join(path, &name);
            if theirs && store.keys(&folder).try_next().await?.is_none() {
                store.delete_prefix(&folder).await?;
            }
        }
        Ok(())
    }
}
