//! How to get from an address to a store, whatever kind it is of.

use crate::error::Result;
#[cfg(feature = "references")]
use crate::reference::ReferenceOptions;
#[cfg(feature = "references")]
use crate::reference::icechunk::Version;
use crate::store::options::StoreOptions;

/// How to reach what an address names: [`StoreOptions`] are enough for a plain store; the rest is for those whose bytes lie
/// elsewhere, and means nothing to others.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SourceOptions {
    /// How to reach the store itself, and those it leads to.
    pub store: StoreOptions,
    /// Where references lead.
    #[cfg(feature = "references")]
    pub references: ReferenceOptions,
    /// The branch, tag or snapshot of an Icechunk repository: the branch `main`. Of anything else it is an error.
    #[cfg(feature = "references")]
    pub version: Option<Version>,
    /// Where the objects of a manifest are, unless it follows from where the manifest is.
    pub objects: Option<String>,
}

impl SourceOptions {
    /// With what is said of references.
    #[cfg(feature = "references")]
    #[must_use]
    pub fn with_references(self, references: ReferenceOptions) -> Self {
        Self { references, ..self }
    }

    /// With this branch, tag or snapshot of an Icechunk repository.
    #[cfg(feature = "references")]
    #[must_use]
    pub fn with_version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    /// With the place of the objects of a manifest.
    #[must_use]
    pub fn with_objects(self, objects: impl Into<String>) -> Self {
        Self { objects: Some(objects.into()), ..self }
    }

    /// How to reach the store at `uri`.
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
