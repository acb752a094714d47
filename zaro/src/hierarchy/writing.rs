//! An array whose elements are written, and whether it is still the same at the end.

use super::{check_settled, need};
use crate::error::{Error, ErrorKind, Result};
use crate::group::Node;
use crate::journal::Turn;
use crate::meta::path::{join, normal, shown};
use crate::meta::{ArrayMeta, Format, Json, NodeMeta};
use crate::store::SharedStore;
use crate::store::StoreExt as _;

/// An array as it was when somebody began to write elements to it. Whoever replaces or converts all of it meanwhile may pass
/// before some of the elements are there, and others would go into what it has become.
#[derive(Debug)]
pub struct Writing {
    store: SharedStore,
    path: String,
    meta: ArrayMeta,
    /// The state of its document, where the store can tell.
    state: Option<String>,
    /// Tells whoever wants to replace or convert the array that somebody writes to it.
    _turn: Turn,
}

impl Writing {
    /// Notes the array at `path`. Fails if somebody works on all that it lies in.
    pub async fn begin(store: &SharedStore, path: &str, meta: &ArrayMeta) -> Result<Self> {
        let path = normal(path)?;
        check_settled(store, &path).await?;
        let turn = Turn::writing(store, &path).await?;
        // Of two that begin at once, each looks after it has said so.
        check_settled(store, &path).await?;
        let state = state(store, &path, meta.format).await?;
        let writing = Self { store: store.clone(), path, meta: meta.clone(), state, _turn: turn };
        // What was read of it before that may be of an array that is no more.
        match need(&writing.store, &writing.path).await {
            // It may have become longer.
            Ok(Node { meta: NodeMeta::Array(now), .. })
                if settings(&now) == settings(meta)
                    && now.shape.len() == meta.shape.len()
                    && now.shape.iter().zip(&meta.shape).all(|(now, then)| now >= then) =>
            {
                Ok(writing)
            }
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Err(writing.conflict()),
        }
    }

    /// Fails if elements that were written since may be lost.
    pub async fn check(&self) -> Result<()> {
        let lost = |e: Error| e.within("begun while elements were written, which may be lost");
        check_settled(&self.store, &self.path).await.map_err(lost)?;
        if state(&self.store, &self.path, self.meta.format).await? == self.state {
            return Ok(());
        }
        let now = match need(&self.store, &self.path).await {
            Ok(node) => node.meta,
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(self.conflict()),
            Err(e) => return Err(e),
        };
        // Attributes and lengths may change. One that is the same to the letter was put there by who replaced the array.
        let NodeMeta::Array(now) = now else { return Err(self.conflict()) };
        match settings(&now) == settings(&self.meta) && now.document != self.meta.document {
            true => Ok(()),
            false => Err(self.conflict()),
        }
    }

    fn conflict(&self) -> Error {
        Error::conflict("somebody replaced or converted the array while it was written to; write it again")
            .with_node(shown(&self.path))
            .with_store(&self.store)
    }
}

/// What decides how elements are stored.
fn settings(meta: &ArrayMeta) -> Json {
    let mut document = (*meta.document).clone();
    document.remove("attributes");
    document.remove("shape");
    document
}

/// The state of the document of an array.
async fn state(store: &SharedStore, path: &str, format: Format) -> Result<Option<String>> {
    let name = if format == Format::V3 { "zarr.json" } else { ".zarray" };
    match store.state(&join(path, name)).await {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
        state => state,
    }
}
