//! The words of writing: what must hold for a put, what became of it, and which state of an object was seen.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// What must hold for a put to take place.
#[derive(Debug, Clone, Default)]
pub enum Condition {
    /// Nothing: what is there is replaced.
    #[default]
    Always,
    /// The key does not exist.
    Absent,
    /// The object is as it was when the tag was taken.
    Unchanged(Tag),
}

/// What became of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a put that was refused wrote nothing"]
pub enum Put {
    /// The object is there.
    Done,
    /// The condition does not hold; nothing was written.
    Refused,
}

impl Put {
    /// Whether the object is there.
    #[must_use]
    pub fn is_done(self) -> bool {
        self == Self::Done
    }
}

/// Which state of an object was seen. Only the store that gave it can tell what it means. Cheap to clone.
#[derive(Clone)]
pub struct Tag(Arc<dyn Any + Send + Sync>);

impl Tag {
    /// A tag around what a store knows of a state: an `ETag`, an open file, a number.
    pub fn new<T: Any + Send + Sync>(state: T) -> Self {
        Self(Arc::new(state))
    }

    /// What the store put into the tag; a `Usage` error if it was another kind of store.
    pub fn state<T: Any>(&self) -> Result<&T> {
        self.0.downcast_ref().ok_or_else(|| Error::usage("the tag of a put comes from another kind of store"))
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tag(…)")
    }
}

/// One object of a listing of keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyEntry {
    /// Its whole key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// What tells its state from others, as [`Store::state`](super::Store::state), where the listing says it.
    pub state: Option<String>,
}
