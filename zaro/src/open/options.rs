//! Options for getting from an address to a store of any kind.

use crate::error::Result;
#[cfg(feature = "references")]
use crate::reference::ReferenceOptions;
#[cfg(feature = "references")]
use crate::reference::icechunk::Version;
use crate::store::options::StoreOptions;

/// How to reach what an address names: [`StoreOptions`] are enough for a plain store; the rest is for stores whose
/// bytes are elsewhere, and has no effect on others.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SourceOptions {
    /// How to reach the store itself, and its targets.
    pub store: StoreOptions,
    /// Options for references.
    #[cfg(feature = "references")]
    pub references: ReferenceOptions,
    /// The branch, tag or snapshot of an Icechunk repository; the branch `main` by default. An error for any other kind
    /// of store.
    #[cfg(feature = "references")]
    pub version: Option<Version>,
    /// Location of the objects of a manifest, if it cannot be derived from that of the manifest.
    pub objects: Option<String>,
}

impl SourceOptions {
    /// Sets the options for references.
    #[cfg(feature = "references")]
    #[must_use]
    pub fn with_references(self, references: ReferenceOptions) -> Self {
        Self { references, ..self }
    }

    /// Sets the branch, tag or snapshot of an Icechunk repository.
    #[cfg(feature = "references")]
    #[must_use]
    pub fn with_version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Sets the location of the objects of a manifest.
    #[must_use]
    pub fn with_objects(self, objects: impl Into<String>) -> Self {
        Self { objects: Some(objects.into()), ..self }
    }

    /// The options for the store at `uri`.
    pub(super) fn for_uri(&self, uri: &str) -> Result<StoreOptions> {
        self.store.for_uri(uri)
    }
}

impl From<StoreOptions> for SourceOptions {
    fn from(store: StoreOptions) -> Self {
        Self { store, ..Self::default() }
    }
}

impl From<&StoreOptions> for SourceOptions {
    fn from(store: &StoreOptions) -> Self {
        store.clone().into()
    }
}

impl From<&Self> for SourceOptions {
    fn from(options: &Self) -> Self {
        options.clone()
    }
}
