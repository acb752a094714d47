//! Loads a manifest from a file, an address or standard input.

use std::path::Path;

use zaro::Result;
use zaro::manifest::Manifest;
use zaro::manifest::parse;

use crate::args::Common;

/// Reads the manifest at `uri`: a file, an address, or `-` for standard input.
pub(super) async fn load(uri: &str, common: &Common) -> Result<Manifest> {
    let uri = uri.strip_prefix("manifest+").unwrap_or(uri);
    if uri == "-" {
        return parse(std::io::stdin().lock()).map_err(|e| e.with_store("standard input"));
    }
    zaro::open::read_manifest(uri, &common.store_options()?).await
}

/// Whether an address is a local folder.
pub(super) fn is_folder(uri: &str) -> bool {
    Path::new(uri.strip_prefix("file://").unwrap_or(uri)).is_dir()
}
