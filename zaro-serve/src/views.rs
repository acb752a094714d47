//! `/as/`: the same chunks under other documents, made when they are first asked for.
//!
//! A view is what an in-place operation of the library makes of a source, over a layer in memory: nothing is written.

use std::sync::Arc;

use hyper::StatusCode;
use zaro::image::ImageVersion;
use zaro::image::upgrade::{UpgradeOptions, upgrade_in_place};
use zaro::meta::Format;
use zaro::store::{ReadOnlyStore, SharedStore};
use zaro::{ErrorKind, OpenOptions, Zarr};

use crate::answer::Fault;
use crate::overlay::OverlayStore;
use crate::sources::Source;

/// Other documents for the same chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum View {
    /// With consolidated metadata in the root, for clients that cannot list.
    Consolidated,
    /// As an OME-Zarr image of version 0.4.
    Ome04,
    /// As an OME-Zarr image of version 0.5.
    Ome05,
    /// As Zarr V3.
    V3,
}

impl View {
    /// The view of this name in a path.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "consolidated" => Some(Self::Consolidated),
            "ome-0.4" => Some(Self::Ome04),
            "ome-0.5" => Some(Self::Ome05),
            "v3" => Some(Self::V3),
            _ => None,
        }
    }

    /// Makes the view of a source.
    pub(crate) async fn of(self, source: &Source) -> Result<Source, Fault> {
        let store: SharedStore = Arc::new(OverlayStore::new(source.store().clone()));
        let made = match self {
            Self::Consolidated => zaro::hierarchy::consolidate(&store, "").await.map(drop),
            Self::V3 => zaro::copy::convert_in_place(&store, "", Format::V3).await.map(drop),
            Self::Ome04 => upgraded(&store, source, ImageVersion::V04).await,
            Self::Ome05 => upgraded(&store, source, ImageVersion::V05).await,
        };
        match made {
            // It is of that form already.
            Err(e) if e.kind() == ErrorKind::Usage && self != Self::Consolidated => {}
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Usage) => {
                let what = format!("it cannot be shown so: {}", e.message());
                return Err(Fault::new(StatusCode::NOT_IMPLEMENTED, what));
            }
            Err(e) => return Err(e.into()),
            Ok(()) => {}
        }
        let store: SharedStore = Arc::new(ReadOnlyStore::new(store));
        let options = source.zarr()?.options().clone();
        let zarr = Zarr::from_store(store.clone(), OpenOptions::default().with_store(options.store)).await?;
        Ok(source.viewed(store, zarr))
    }
}

/// Brings every image of a hierarchy to a version.
async fn upgraded(store: &SharedStore, source: &Source, to: ImageVersion) -> zaro::Result<()> {
    let zarr = source.zarr()?;
    let options = UpgradeOptions::default().with_to(to).with_lossy(true).with_verify(false);
    match upgrade_in_place(store, "", &options).await {
        Ok(_) => return Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    // The root is no image: those below it are.
    for path in zaro::image::images(zarr, "").await? {
        match upgrade_in_place(store, &path, &options).await {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::Usage => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
