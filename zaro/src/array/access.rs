//! The store as the threads see it that write: they wait for it themselves, and take turns.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::num;
use crate::store::{Condition, Direct, ObjectMeta, Put, SharedStore, StoreExt as _};

/// A piece of an encoded chunk, where it is.
pub(super) enum Piece<'a> {
    Owned(Vec<u8>),
    Borrowed(&'a [u8]),
}

impl AsRef<[u8]> for Piece<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Owned(v) => v,
            Self::Borrowed(b) => b,
        }
    }
}

/// How many bytes the pieces have together.
pub(super) fn length(pieces: &[Piece<'_>]) -> u64 {
    pieces.iter().map(|p| num::u64_of(p.as_ref().len())).sum()
}

/// The mutex of a chunk. Few, shared by many chunks: a turn is short.
pub(super) fn turn(store: &SharedStore, key: &str) -> &'static Mutex<()> {
    static TURNS: LazyLock<(RandomState, Vec<Mutex<()>>)> =
        LazyLock::new(|| (RandomState::new(), std::iter::repeat_with(Mutex::default).take(256).collect()));
    static ONE: Mutex<()> = Mutex::new(());
    let (state, turns) = &*TURNS;
    let hash = state.hash_one((store.to_string(), key));
    usize::try_from(hash % 256).ok().and_then(|i| turns.get(i)).unwrap_or(&ONE)
}

/// Waits a little, longer and longer, never the same.
pub(super) fn back_off(attempt: u32) {
    let most = 1u64 << attempt.min(9);
    let salt = RandomState::new().hash_one(attempt);
    std::thread::sleep(Duration::from_micros(100 + salt % (most * 200)));
}

/// The store as the writing threads see it: they wait for it themselves.
pub(super) enum Access<'a> {
    Direct(&'a dyn Direct),
    Remote(&'a SharedStore),
}

/// An object, and the tag of the state that was seen, if the store has such tags.
pub(super) type Old = (Bytes, OldTag);

/// A tag, or why there is none; it only matters when it is needed.
pub(super) struct OldTag(Result<ObjectMeta>);

impl OldTag {
    pub(super) fn clone(&self) -> Result<ObjectMeta> {
        match &self.0 {
            Ok(tag) => Ok(tag.clone()),
            Err(e) => Err(Error::new(e.kind(), e.message())),
        }
    }
}

impl<'a> Access<'a> {
    pub(super) fn exists(&self, key: &str) -> Result<bool> {
        match self {
            Self::Direct(direct) => Ok(direct.open(key)?.is_some()),
            Self::Remote(store) => crate::blocking::wait(store.exists(key)),
        }
    }

    pub(super) fn of(store: &'a SharedStore) -> Self {
        match store.direct() {
            Some(direct) => Self::Direct(direct),
            None => Self::Remote(store),
        }
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Old>> {
        match self {
            Self::Direct(direct) => {
                let Some(object) = direct.open(key)? else { return Ok(None) };
                let tag = OldTag(object.meta_for_update());
                let mut bytes = vec![0; num::usize_of(object.size())?];
                object.read_at(0, &mut bytes)?;
                Ok(Some((bytes.into(), tag)))
            }
            Self::Remote(store) => {
                let got = crate::blocking::wait(store.get_for_update(key))?;
                Ok(got.map(|(bytes, tag)| (bytes, OldTag(Ok(tag)))))
            }
        }
    }

    pub(super) fn put(&self, key: &str, pieces: &[Piece<'_>], when: &Condition) -> Result<Put> {
        match self {
            Self::Direct(direct) => {
                let parts: Vec<&[u8]> = pieces.iter().map(AsRef::as_ref).collect();
                direct.put(key, &parts, when)
            }
            Self::Remote(store) => {
                let mut value = Vec::with_capacity(num::usize_of(length(pieces))?);
                pieces.iter().for_each(|p| value.extend_from_slice(p.as_ref()));
                crate::blocking::wait(store.put(key, value.into(), when.clone()))
            }
        }
    }

    pub(super) fn delete(&self, key: &str) -> Result<()> {
        match self {
            Self::Direct(direct) => direct.delete(key),
            Self::Remote(store) => crate::blocking::wait(store.delete(key)),
        }
    }
}
