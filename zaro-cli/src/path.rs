//! Argument parsers: local paths, values from a list, names of new Zarrs.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use zaro::Error;

/// A local path; an address of a store is refused, since it would become a folder named `s3:`.
pub(crate) fn local_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(local)
}

/// A local path to write to; files of a Zarr (chunks and documents) are refused, since they would be overwritten.
pub(crate) fn output_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let path = local(path)?;
        if zaro::open::is_of_zarr(&path) {
            Err("this is a file of a Zarr and would be overwritten; choose another path")
        } else {
            Ok(path)
        }
    })
}

fn local(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.to_str().map(|text| text.split_once("://")) {
        Some(Some(("file", rest))) if rest.starts_with('/') => Ok(PathBuf::from(rest)),
        Some(Some(_)) => Err("this is an address; only a local path is possible here"),
        _ => Ok(path),
    }
}

/// One of `words`: each with its help text, if any, and its value. After a `|` follows an alternative spelling that
/// `--help` does not show.
pub(crate) fn word<T: Clone + Send + Sync + 'static>(
    words: &'static [(&'static str, &'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let shown = words.iter().map(|(spellings, help, _)| {
        let mut names = spellings.split('|');
        let value = PossibleValue::new(names.next().unwrap_or_default()).aliases(names);
        if help.is_empty() { value } else { value.help(*help) }
    });
    PossibleValuesParser::new(shown).try_map(move |given: String| {
        let is = |name: &str| name.eq_ignore_ascii_case(&given);
        let found = words.iter().find(|(spellings, ..)| spellings.split('|').any(is));
        found.map(|(.., value)| value.clone()).ok_or("not one of the possible values")
    })
}

/// Extensions of files that are not Zarrs: a new Zarr of such a name is probably a mistake.
const OTHER_FILES: [&str; 27] = [
    "nc", "nc4", "cdf", "h5", "hdf", "hdf5", "he5", "grib", "grib2", "grb", "grb2", "tif", "tiff", "png",
    "jpg", "jpeg", "npy", "npz", "csv", "parq", "parquet", "json", "txt", "tar", "gz", "tgz", "7z",
];

/// Refuses a new Zarr whose name has the extension of another file type. Existing Zarrs are not checked.
pub(crate) fn check_name(uri: &str) -> zaro::Result<()> {
    let name = uri.rsplit('/').next().unwrap_or(uri);
    let Some((_, ending)) = name.rsplit_once('.') else { return Ok(()) };
    let other = OTHER_FILES.contains(&ending.to_ascii_lowercase().as_str());
    // A document is the address of its node.
    let document = ["zarr.json", ".zgroup", ".zarray"].contains(&name);
    if !other || document || Path::new(uri.strip_prefix("file://").unwrap_or(uri)).exists() {
        return Ok(());
    }
    let instead = match ending.to_ascii_lowercase().as_str() {
        "json" | "parq" | "parquet" => "; zaro ref convert writes references",
        "tif" | "tiff" | "png" => "; zaro image render writes pictures, zaro read -o the values of an array",
        "npy" | "csv" => "; zaro read -o writes the values of an array",
        _ => "",
    };
    Err(Error::usage(format!(
        "{uri}: this would write a Zarr (a folder), not a .{ending} file{instead}; use a name that ends in .zarr, or \
         add a / at the end to use this one"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_no_paths() {
        assert!(local("s3://b/k".into()).is_err());
        assert_eq!(local("file:///a/b".into()), Ok("/a/b".into()));
    }
}
