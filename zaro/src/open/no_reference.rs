//! Stand-in for reference stores without the feature `references`: detected, but not opened.

use super::address::{Address, StoreKind};
use super::look::{begins_as_document, folder, no_zarr};
use super::{OpenedStore, SourceOptions};
use crate::error::{Error, Result};
use crate::store::SharedStore;

/// Never constructed.
#[derive(Debug)]
pub(super) enum ReferenceStore {}

pub(super) fn shared(store: ReferenceStore) -> (SharedStore, &'static str) {
    match store {}
}

pub(super) async fn open(
    found: &OpenedStore,
    address: &Address,
    _: &SourceOptions,
) -> Result<Option<ReferenceStore>> {
    let left_out = || Err(Error::without("references").with_store(&address.text));
    let spot = &found.spot;
    if address.kind != StoreKind::Any {
        return left_out();
    }
    if found.file {
        return match begins_as_document(spot).await? {
            true => left_out(),
            false => Err(no_zarr(spot).await?.with_store(&address.text)),
        };
    }
    if found.is_settled() && folder(&spot.rooted()?).await?.is_some() {
        return left_out();
    }
    Ok(None)
}

pub(super) async fn second_look(
    _: &OpenedStore,
    _: &Address,
    _: &SourceOptions,
) -> Result<Option<ReferenceStore>> {
    Ok(None)
}

pub(super) async fn parquet(_: &OpenedStore, address: &Address, _: &SourceOptions) -> Result<ReferenceStore> {
    Err(Error::without("references").with_store(&address.text))
}
