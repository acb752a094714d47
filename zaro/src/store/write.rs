//! Conditions and outcomes of puts.

use super::ObjectMeta;

/// The condition of a put.
#[derive(Debug, Clone, Default)]
pub enum Condition {
    /// None: an existing object is replaced.
    #[default]
    Always,
    /// The key does not exist.
    Absent,
    /// The object is in this state, which was read [for an update](super::GetOptions::for_update).
    Unchanged(ObjectMeta),
}

/// The outcome of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a put that was refused wrote nothing"]
pub enum Put {
    /// The object was written.
    Done,
    /// The condition does not hold; nothing was written.
    Refused,
}

impl Put {
    /// Whether the object was written.
    #[must_use]
    pub fn is_done(self) -> bool {
        self == Self::Done
    }
}
