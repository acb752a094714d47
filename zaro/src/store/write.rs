//! The words of writing: what must hold for a put, what became of it, and what a listing shows.

use super::ObjectMeta;

/// What must hold for a put to take place.
#[derive(Debug, Clone, Default)]
pub enum Condition {
    /// Nothing: what is there is replaced.
    #[default]
    Always,
    /// The key does not exist.
    Absent,
    /// The object is in this state, which was got [for an update](super::GetOptions::for_update).
    Unchanged(ObjectMeta),
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

/// One object of a listing of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// Its whole key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// What else is known of it, where the listing says it.
    pub meta: ObjectMeta,
}

impl KeyEntry {
    /// An object of which this is known.
    #[must_use]
    pub fn new(key: String, meta: ObjectMeta) -> Self {
        Self { key, size: meta.size().unwrap_or(0), meta }
    }
}
