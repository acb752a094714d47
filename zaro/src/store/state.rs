//! Which state of an object bytes are of, so that parts of two states are never put together.

use std::sync::Arc;

use bytes::Bytes;

use super::ByteRange;
use crate::error::{Error, Result};
use crate::num::u64_of;

/// The largest object that is taken whole by who does not say how large it may be: 1 GiB.
pub const MAX_WHOLE: u64 = 1 << 30;

/// What is asked of an object, besides its key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask<'a> {
    /// Which bytes of it; all of them without.
    pub range: Option<ByteRange>,
    /// The state that the bytes must be of; if the object is in another one, that is a `Conflict`.
    pub of: Option<&'a ObjectState>,
    /// How many bytes the whole object has at most, [`MAX_WHOLE`] if nothing is said. More is an error before all of it
    /// has come.
    pub most: Option<u64>,
}

impl Ask<'_> {
    /// A range, or all, of whatever is there.
    #[must_use]
    pub fn range(range: Option<ByteRange>) -> Self {
        Self { range, ..Self::default() }
    }

    /// All of whatever is there, `most` bytes of it at most.
    #[must_use]
    pub fn at_most(most: u64) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    /// How many bytes the answer may have.
    pub(crate) fn bound(&self) -> u64 {
        match self.range {
            Some(ByteRange::Span { length, .. }) => length,
            Some(ByteRange::Suffix(n)) => n,
            Some(ByteRange::From(_)) | None => self.most.unwrap_or(MAX_WHOLE),
        }
    }

    /// Refuses an answer, or the announcement of one, of more bytes than were asked for.
    pub(crate) fn check_length(&self, length: u64) -> Result<()> {
        if length <= self.bound() { Ok(()) } else { Err(self.too_long()) }
    }

    /// What is said of an answer of more bytes than were asked for.
    pub(crate) fn too_long(&self) -> Error {
        Error::invalid(format!("the object has more than the {} bytes it can have", self.bound()))
    }
}

/// What is known of the state an object was in. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum ObjectState {
    /// Nothing: the store cannot tell states apart.
    #[default]
    Unknown,
    /// Numbers of the store's own, which no other state of the object has: of a file, its device, inode, size and the
    /// time of its last change.
    Numbers([u64; 5]),
    /// What a server said.
    Said(Arc<Said>),
}

/// What a server says of the state of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Said {
    /// Its `ETag`, as sent.
    pub etag: Option<String>,
    /// When it was changed last, as sent.
    pub modified: Option<String>,
    /// The size of the whole object.
    pub size: Option<u64>,
}

impl Said {
    /// The `ETag`, if the same one means the same bytes.
    fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|e| !e.starts_with("W/"))
    }

    fn agrees(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        if !same(self.size, other.size) {
            return false;
        }
        match (self.strong(), other.strong()) {
            (Some(a), Some(b)) => a == b,
            _ => {
                same(self.etag.as_deref(), other.etag.as_deref())
                    && same(self.modified.as_deref(), other.modified.as_deref())
            }
        }
    }
}

impl ObjectState {
    /// The size of the object, if it is known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Unknown | Self::Numbers(_) => None,
            Self::Said(said) => said.size,
        }
    }

    /// Whether both may be the same state, as far as is known.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Said(a), Self::Said(b)) => Arc::ptr_eq(a, b) || a.agrees(b),
            (Self::Numbers(a), Self::Numbers(b)) => a == b,
            _ => true,
        }
    }

    /// Refuses this state where another one is meant.
    pub fn check(&self, of: Option<&Self>) -> Result<()> {
        match of {
            Some(other) if !self.agrees(other) => Err(changed()),
            _ => Ok(()),
        }
    }
}

/// The object is not what it was a moment ago.
pub(crate) fn changed() -> Error {
    Error::conflict("the object was changed while it was read")
}

/// Parts of one object, if they are of one state; `None` if there is no object.
pub(crate) fn one_state(
    parts: Vec<Option<(Bytes, ObjectState)>>,
) -> Result<Option<(Vec<Bytes>, ObjectState)>> {
    let mut state = ObjectState::Unknown;
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        let Some((bytes, of)) = part else { return Ok(None) };
        of.check(Some(&state))?;
        if state == ObjectState::Unknown {
            state = of;
        }
        out.push(bytes);
    }
    Ok(Some((out, state)))
}

/// Holds an answer against what was asked for.
pub(crate) fn answered(
    ask: Ask<'_>,
    got: Option<(Bytes, ObjectState)>,
) -> Result<Option<(Bytes, ObjectState)>> {
    if let Some((bytes, state)) = &got {
        state.check(ask.of)?;
        ask.check_length(u64_of(bytes.len()))?;
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(etag: Option<&str>, modified: Option<&str>, size: Option<u64>) -> ObjectState {
        let text = |t: Option<&str>| t.map(str::to_owned);
        ObjectState::Said(Arc::new(Said { etag: text(etag), modified: text(modified), size }))
    }

    #[test]
    fn a_strong_etag_tells_and_else_everything_that_was_said() {
        let (a, b) = (Some("\"a\""), Some("\"b\""));
        assert!(said(a, Some("mon"), None).agrees(&said(a, Some("tue"), None)), "the same bytes elsewhere");
        assert!(!said(a, Some("mon"), None).agrees(&said(b, Some("mon"), None)));
        assert!(!said(a, None, Some(1)).agrees(&said(a, None, Some(2))));
        assert!(!said(None, Some("mon"), None).agrees(&said(None, Some("tue"), None)));
        assert!(!said(Some("W/\"a\""), None, None).agrees(&said(Some("W/\"b\""), None, None)));
        assert!(!said(Some("W/\"a\""), Some("mon"), None).agrees(&said(Some("W/\"a\""), Some("tue"), None)));
        assert!(said(a, None, Some(1)).agrees(&said(None, Some("mon"), Some(1))), "nothing to compare");
        assert!(ObjectState::Unknown.agrees(&said(a, None, None)));
        assert!(!ObjectState::Numbers([1; 5]).agrees(&ObjectState::Numbers([2; 5])));
    }

    #[test]
    fn parts_of_two_states_are_not_put_together() {
        let part = |etag| Some((Bytes::from_static(b"x"), said(Some(etag), None, None)));
        assert_eq!(one_state(vec![part("a"), part("a")]).unwrap().unwrap().0.len(), 2);
        assert!(one_state(vec![part("a"), part("b")]).is_err());
        assert!(one_state(vec![part("a"), None]).unwrap().is_none());
        let unknown = Some((Bytes::new(), ObjectState::Unknown));
        assert!(one_state(vec![unknown, part("a"), part("b")]).is_err());
    }
}
