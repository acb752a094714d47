//! Not part of the API: internals for the `zaro` command, the tests and the fuzz targets of this repository.
//!
//! Anything here may change or disappear with any release.

/// Text and numbers for display.
pub mod text {
    pub use crate::format::text::*;
    pub use crate::format::value::{is_safe, number};
    pub use crate::num::{f64_of_u64, f64_of_usize, u64_of, u64_of_f64};
}

/// Descriptions of arrays and nodes.
pub mod describe {
    pub use crate::format::describe::*;
    pub use crate::format::model::{fill, node, summary};
}

/// Names of data types, as users write them.
pub mod dtype {
    pub use crate::format::dtype::*;
}

/// Tables for a terminal, and what other formats cannot express.
pub mod table {
    pub use crate::format::npy::loses_its_type;
    #[cfg(feature = "image")]
    pub use crate::format::picture::{dimensions, transparent};
    pub use crate::format::table::*;
}

/// Paths of nodes.
pub mod path {
    pub use crate::meta::path::*;
}

/// Files that are written under a temporary name and renamed.
pub mod local {
    pub use crate::store::local::{Temporary, check_space, free_space, keep_mode, remove_temporaries};
}

/// Matching keys with patterns.
#[cfg(feature = "manifest")]
pub mod glob {
    pub use crate::manifest::glob::matches;
}

/// Parts of images that the command combines itself.
#[cfg(feature = "image")]
pub mod image {
    pub use crate::image::source::{expand, metadata_only};
    pub use crate::image::summary::extent;
    pub use crate::image::version::stated;

    pub mod document {
        pub use crate::image::document::{hex, image, prepare};
    }

    pub mod units {
        pub use crate::image::units::*;
    }

    pub mod word {
        pub use crate::image::word::*;
    }
}

/// Where references are written.
#[cfg(feature = "references")]
pub mod reference {
    #[cfg(feature = "parquet")]
    pub use crate::reference::parquet::from_metadata;
    pub use crate::reference::write::{local, same_base};
}

/// Internals of arrays, for tests and fuzz targets.
#[cfg(any(test, feature = "testing"))]
pub mod codec {
    pub use crate::codec::chain::Chain;
    pub use crate::codec::registry::build;
    pub use crate::codec::shard::Shard;

    /// The codecs of `array`.
    pub fn chain_of(array: &crate::array::Array) -> &Chain {
        array.chain()
    }
}

/// Metadata documents alone, for tests and fuzz targets.
#[cfg(any(test, feature = "testing"))]
pub mod meta {
    pub mod edit {
        pub use crate::meta::edit::*;
    }

    pub mod typestr {
        pub use crate::meta::typestr::*;
    }

    pub mod v2 {
        pub use crate::meta::v2::*;
    }

    pub mod v3 {
        pub use crate::meta::v3::*;
    }
}

/// Wrappers of remote stores, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod wrap {
    pub use crate::store::wrap::cache::CacheStore;
    pub use crate::store::wrap::coalesce::CoalesceStore;
    pub use crate::store::wrap::gather::{GatherStore, HOLD, MAX_BLOCK, MAX_GAP, MAX_RANGE};
    pub use crate::store::wrap::limit::LimitStore;
    pub use crate::store::wrap::log::LogStore;
    pub use crate::store::wrap::retry::RetryStore;
    pub use crate::store::wrap::withhold::WithholdStore;
}
