//! A manifest from wherever it is.

use std::fs::File;
use std::path::Path;

use zaro::manifest::Manifest;
use zaro::manifest::parse;
use zaro::store::StoreExt as _;
use zaro::{Error, Result};

use crate::args::Common;

/// Reads the manifest at `uri`: a file, an address, or `-` for standard input.
pub(super) async fn load(uri: &str, common: &Common) -> Result<Manifest> {
    let uri = uri.strip_prefix("manifest+").unwrap_or(uri);
    if uri == "-" {
        return parse(std::io::stdin().lock()).map_err(|e| e.with_store("standard input"));
    }
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    if !path.contains("://") {
        let path = Path::new(path);
        let place = |e: Error| e.with_store(path.display());
        if path.is_dir() {
            return Err(place(Error::usage("a folder, where the file of a manifest was expected")));
        }
        return parse(File::open(path).map_err(|e| place(e.into()))?).map_err(place);
    }
    let (folder, name) = uri.rsplit_once('/').unwrap_or(("", uri));
    let store = zaro::open::open_store(folder, &common.store_options()?).await?;
    let text = store.get(name, None).await?;
    let text = text.ok_or_else(|| Error::not_found("there is no such manifest").with_store(uri))?;
    parse(text.as_ref()).map_err(|e| e.with_store(uri))
}

/// Whether an address is that of a folder of this machine.
pub(super) fn is_folder(uri: &str) -> bool {
    Path::new(uri.strip_prefix("file://").unwrap_or(uri)).is_dir()
}
