//! Options of Python as those of the library.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zaro::meta::{Format, Mode};
use zaro::open::SourceOptions;
use zaro::reference::icechunk::Version;
use zaro::store::StoreOptions;
use zaro::{Error, OpenOptions};

use crate::error::Result;
use crate::run::context;

/// All options for opening an address.
pub(crate) struct Options {
    pub(crate) source: SourceOptions,
    pub(crate) open: OpenOptions,
}

impl Options {
    /// From a dict whose names are those of the library's options; a name it does not know is an error.
    pub(crate) fn new(given: &Bound<'_, PyDict>) -> Result<Self> {
        let mut source = SourceOptions::from(StoreOptions::default());
        source.store.context = context();
        let mut open = OpenOptions::default();
        for (name, value) in given {
            let name: String = name.extract()?;
            if value.is_none() {
                continue;
            }
            let flag = || value.extract::<bool>();
            let text = || value.extract::<String>();
            match name.as_str() {
                "headers" => {
                    for (header, value) in value.cast::<PyDict>()? {
                        source.store.add_header(&format!("{header}: {value}"))?;
                    }
                }
                "options" => {
                    for entry in value.extract::<Vec<String>>()? {
                        source.store.add_override(&entry)?;
                    }
                }
                "root" => source.references.root = Some(text()?),
                "target" => source.references.target = Some(text()?),
                "allow_local" => source.references.allow_local = flag()?,
                "templates" => {
                    for (name, value) in value.cast::<PyDict>()? {
                        source.references.add_template(&format!("{name}={value}"))?;
                    }
                }
                "branch" => source.version = Some(Version::Branch(text()?)),
                "tag" => source.version = Some(Version::Tag(text()?)),
                "snapshot" => source.version = Some(Version::Snapshot(text()?)),
                "objects" => source.objects = Some(text()?),
                "strict" => open.mode = if flag()? { Mode::Strict } else { Mode::Tolerant },
                "consolidated" => open.use_consolidated = flag()?,
                "zarr_format" => open.format = Some(format(value.extract()?)?),
                _ => {
                    let value = match value.extract::<bool>() {
                        Ok(flag) => flag.to_string(),
                        Err(_) => value.str()?.to_string(),
                    };
                    source.store.set(&name, &value)?;
                }
            }
        }
        open.store = source.store.clone();
        Ok(Self { source, open })
    }
}

/// The Zarr format of a number.
pub(crate) fn format(number: u8) -> Result<Format> {
    match number {
        2 => Ok(Format::V2),
        3 => Ok(Format::V3),
        _ => Err(Error::usage("zarr_format is 2 or 3").into()),
    }
}
