//! Opening Zarrs in ZIP archives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::OpenedStore;
use super::address::is_archive_name;
use super::spot::StoreLocation;
use crate::error::{Error, Result};
use crate::store::Listing;
use crate::store::StoreExt as _;
use crate::store::zip::ZipStore;

/// The archive that a path names or leads through, and the path in it. An existing folder is not one.
pub(super) fn archive_in(path: &Path, certain: bool) -> Option<(PathBuf, String)> {
    let named =
        |p: &&Path| p.file_name().and_then(|n| n.to_str()).is_some_and(is_archive_name) && !p.is_dir();
    let archive = path.ancestors().find(named).or(certain.then_some(path))?;
    let inside = path.strip_prefix(archive).ok()?.to_str()?;
    Some((archive.to_owned(), inside.to_owned()))
}

/// Whether a file starts like a ZIP archive, or has such a name.
pub(super) fn is_archive(path: &Path) -> Result<bool> {
    use std::io::Read;
    let named = path.file_name().and_then(|n| n.to_str()).is_some_and(is_archive_name);
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| Error::from(e).with_store(path.display()))?;
    file.take(4).read_to_end(&mut start).map_err(|e| Error::from(e).with_store(path.display()))?;
    Ok(named || start == b"PK\x03\x04" || start == b"PK\x05\x06")
}

/// Opens the archive `name` in the folder `around`, at `inside` or, without that, at its top-level folder.
pub(super) async fn open_zip(
    around: &StoreLocation,
    name: &str,
    inside: &str,
) -> Result<Option<OpenedStore>> {
    let Some(zip) = ZipStore::open(Arc::clone(&around.store), name).await? else { return Ok(None) };
    let made_of = zip.common_folder().filter(|f| inside.is_empty() && is_made_of(name, f)).map(str::to_owned);
    let mut found = OpenedStore::folder(StoreLocation {
        path: made_of.as_deref().unwrap_or(inside).to_owned(),
        place: None,
        remote: around.remote,
        store: Arc::new(zip),
    });
    if let Some(folder) = made_of {
        // If the folder's own name is given, it may mean a node of that name.
        let below = found.spot.store.list(&format!("{folder}/{folder}")).await?;
        found.entered = (below == Listing::default()).then_some(folder);
    }
    Ok(Some(found))
}

/// Whether the only folder in an archive is the packed Zarr, and not a node of it: it is named like the archive, or
/// like a Zarr.
fn is_made_of(archive: &str, folder: &str) -> bool {
    let stem = archive.rsplit_once('.').map_or(archive, |(stem, _)| stem);
    folder.ends_with(".zarr") || folder == stem || stem.strip_suffix(".zarr") == Some(folder)
}
