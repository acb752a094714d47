//! The words of writing: what must hold for a put, and what became of it.

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
