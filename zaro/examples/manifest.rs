//! The version of a Zarr in a folder: its checksum, its manifest, and what has changed since.
//!
//! `cargo run --example manifest`

use zaro::Result;
use zaro::manifest::{LocalOptions, diff, of_folder, parse, verify_folder};

pub(crate) fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let zarr = folder.path();
    std::fs::create_dir(zarr.join("c"))?;
    std::fs::write(zarr.join("zarr.json"), r#"{"zarr_format": 3, "node_type": "group"}"#)?;
    std::fs::write(zarr.join("c/0"), b"some")?;

    // Every file is hashed, on all cores; the checksum of the whole is the name of this version.
    let before = of_folder(zarr, &LocalOptions::default())?;
    println!("{} files, {}", before.counted().entries.unwrap_or(0), before.checksum()?);

    // As a document, and back.
    let mut document = Vec::new();
    before.write(&mut document, &before.counted(), &Default::default())?;
    assert_eq!(parse(document.as_slice())?.checksum()?, before.checksum()?);

    // Something changes: it is found, and named.
    std::fs::write(zarr.join("c/0"), b"others")?;
    let findings = verify_folder(&before, zarr, true, &LocalOptions::default())?;
    println!("{findings:?}");
    assert_eq!(findings.len(), 1);

    let after = of_folder(zarr, &LocalOptions::default())?;
    let mut changed = Vec::new();
    diff(&before, &after, &mut |difference| {
        changed.push(difference.key);
        Ok(())
    })?;
    assert_eq!(changed, ["c/0"]);
    Ok(())
}
