//! One state of an object, named from outside: what a manifest or a reference says the bytes must be.

/// Which state of an object is meant, and how to tell that an answer is of that state.
///
/// Everything that is said must hold; what is `None` may be anything. An empty pin names whatever is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pin {
    /// The version's name in a bucket that keeps versions.
    pub version: Option<String>,
    /// The `ETag` of that state, without quotes.
    pub etag: Option<String>,
    /// How many bytes the whole object has.
    pub size: Option<u64>,
    /// The object must not have been changed after this moment, in seconds since 1970.
    pub unmodified_since: Option<i64>,
}

impl Pin {
    /// Whether any state will do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
