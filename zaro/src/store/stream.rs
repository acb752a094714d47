//! Streaming the bytes of an object, for objects too large for memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use super::{ByteRange, DirectObject, GetOptions, Object, ObjectMeta};
use crate::boxed;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::num::{u64_of, usize_of};

/// How much of a file is read at a time: 256 KiB.
const BLOCK: u64 = 256 << 10;

/// The most memory allocated for a body in advance: 16 MiB. The announced length may be wrong.
const MAX_TRUST: u64 = 16 << 20;

/// The bytes of an object, piece by piece.
pub type Body = BoxStream<'static, Result<Bytes>>;

/// The requested bytes as a stream, and the metadata of their object.
///
/// The bytes are read on demand, and a request slot of the host is held until the last has come or this is dropped:
/// many half-read streams block other requests to the host.
pub struct ObjectStream {
    /// Metadata of the whole object, as in [`Object`].
    pub meta: ObjectMeta,
    /// The byte range that comes, where known in advance.
    pub range: Option<Range<u64>>,
    /// The bytes, in non-empty pieces of any length. They are complete if there is no error among them; after an error
    /// nothing follows. Whether a local object changed meanwhile, and whether its checksum matches, is reported at the
    /// end.
    pub body: Body,
}

impl fmt::Debug for ObjectStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { meta, range, .. } = self;
        f.debug_struct("ObjectStream").field("meta", meta).field("range", range).finish_non_exhaustive()
    }
}

impl ObjectStream {
    /// A response that is already complete.
    pub(crate) fn of(object: Object, range: Option<ByteRange>) -> Self {
        let Object { bytes, meta } = object;
        let length = u64_of(bytes.len());
        let start = match (range, meta.size()) {
            (None, _) => Some(0),
            (Some(ByteRange::Span { offset, .. } | ByteRange::From(offset)), _) => Some(offset),
            (Some(ByteRange::Suffix(_)), size) => size.and_then(|size| size.checked_sub(length)),
        };
        let range = start.and_then(|start| Some(start..start.checked_add(length)?));
        Self { meta, range, body: one(bytes) }
    }

    /// Collects everything in memory. The options of the stream limit the size.
    #[boxed]
    pub async fn collect(self) -> Result<Object> {
        let announced = self.range.map_or(0, |range| range.end.saturating_sub(range.start));
        Ok(Object { bytes: joined(self.body, announced).await?, meta: self.meta })
    }

    /// Maps every error with `name`.
    pub(crate) fn map_err(self, name: impl FnMut(Error) -> Error + Send + 'static) -> Self {
        Self { body: self.body.map_err(name).boxed(), ..self }
    }

    /// Adds key and store to every error.
    pub(crate) fn at(self, key: &str, store: &impl fmt::Display) -> Self {
        let (key, store) = (key.to_owned(), store.to_string());
        self.map_err(move |e| e.with_key(&key).with_store(&store))
    }
}

/// A body that is already complete.
pub(crate) fn one(bytes: Bytes) -> Body {
    stream::iter(Some(Ok(bytes)).filter(|b| !b.as_ref().is_ok_and(Bytes::is_empty))).boxed()
}

/// Joins a body of the announced length. A body of a single piece is not copied.
pub(crate) async fn joined(mut body: Body, announced: u64) -> Result<Bytes> {
    let Some(first) = body.try_next().await? else { return Ok(Bytes::new()) };
    let Some(second) = body.try_next().await? else { return Ok(first) };
    let mut out = BytesMut::with_capacity(usize_of(announced.min(MAX_TRUST))?);
    out.extend_from_slice(&first);
    out.extend_from_slice(&second);
    while let Some(piece) = body.try_next().await? {
        out.extend_from_slice(&piece);
    }
    Ok(out.freeze())
}

/// `length` bytes of a body, starting at `skip`. What follows is not awaited; if there are fewer, `short` makes the
/// error from the number received.
#[cfg(feature = "cloud")]
pub(crate) fn cut(
    body: Body,
    skip: u64,
    length: u64,
    short: impl FnOnce(u64) -> Error + Send + 'static,
) -> Body {
    let begin = (body, skip, length, short);
    let pieces = stream::try_unfold(begin, move |(mut body, mut skip, mut left, short)| async move {
        while left > 0 {
            let Some(mut piece) = body.try_next().await? else {
                return Err(short(length.saturating_sub(left)));
            };
            let passed = skip.min(u64_of(piece.len()));
            skip -= passed;
            let _ = piece.split_to(usize_of(passed)?);
            piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= u64_of(piece.len());
            if !piece.is_empty() {
                return Ok(Some((piece, (body, skip, left, short))));
            }
        }
        Ok(None)
    });
    pieces.boxed()
}

/// A body of limited length; `long` makes the error if there is more.
#[cfg(feature = "cloud")]
pub(crate) fn at_most(body: Body, most: u64, long: impl FnOnce() -> Error + Send + 'static) -> Body {
    let pieces = stream::try_unfold((body, most, long), |(mut body, left, long)| async move {
        let Some(piece) = body.try_next().await? else { return Ok(None) };
        match left.checked_sub(u64_of(piece.len())) {
            Some(left) => Ok(Some((piece, (body, left, long)))),
            None => Err(long()),
        }
    });
    pieces.boxed()
}

/// A body that is checked when it is complete.
pub(crate) fn checked<H: Send + 'static>(
    body: Body,
    hasher: H,
    update: fn(&mut H, &[u8]),
    check: impl FnOnce(H) -> Result<()> + Send + 'static,
) -> Body {
    let pieces = stream::try_unfold((body, hasher, check), move |(mut body, mut hasher, check)| async move {
        let Some(piece) = body.try_next().await? else { return check(hasher).map(|()| None) };
        update(&mut hasher, &piece);
        Ok(Some((piece, (body, hasher, check))))
    });
    pieces.boxed()
}

/// A body that keeps a value alive until it ends or is dropped.
pub(crate) fn holding(body: Body, held: impl Send + 'static) -> Body {
    let pieces = stream::try_unfold((body, held), |(mut body, held)| async move {
        Ok(body.try_next().await?.map(|piece| (piece, (body, held))))
    });
    pieces.boxed()
}

/// Bytes of a local object, read in blocks by the decoding threads; at the end it must be unchanged.
pub(crate) fn read(object: Arc<dyn DirectObject>, offset: u64, length: u64) -> Body {
    let end = offset.saturating_add(length);
    let blocks = stream::try_unfold((object, Some(offset)), move |(object, from)| async move {
        let Some(from) = from else { return Ok(None) };
        let job = move || {
            let mut block = vec![0; usize_of(end.saturating_sub(from).min(BLOCK))?];
            object.read_at(from, &mut block)?;
            let to = from.saturating_add(u64_of(block.len()));
            if to >= end {
                object.check_unchanged()?;
            }
            Ok((Bytes::from(block), (object, Some(to).filter(|to| *to < end))))
        };
        Context::shared().run(job).await.map(Some)
    });
    if length == 0 { one(Bytes::new()) } else { blocks.boxed() }
}

impl GetOptions<'_> {
    /// The maximum length of a stream. If only the announced length is known, it is trusted, since nothing is held in
    /// memory.
    pub(crate) fn longest(&self, announced: Option<u64>) -> u64 {
        match (self.range, self.max_size.or(self.pin.and_then(|pin| pin.size))) {
            (Some(ByteRange::Span { .. } | ByteRange::Suffix(_)), _) | (_, Some(_)) => self.bound(),
            (_, None) => announced.unwrap_or_else(|| self.bound()),
        }
    }

    /// Refuses an announced length above the maximum.
    pub(crate) fn check_announced(&self, length: u64) -> Result<()> {
        if length <= self.longest(Some(length)) { Ok(()) } else { Err(self.too_long()) }
    }

    /// The same for a response held in memory, which always has a limit.
    pub(crate) fn held(self) -> Self {
        Self { max_size: Some(self.largest()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::get::MAX_WHOLE;

    fn body(pieces: &'static [&'static [u8]]) -> Body {
        stream::iter(pieces.iter().map(|p| Ok(Bytes::from_static(p)))).boxed()
    }

    #[cfg(feature = "cloud")]
    #[tokio::test]
    async fn a_body_is_cut_joined_and_held_to_its_length() {
        let pieces: &[&[u8]] = &[b"abc", b"", b"de", b"fgh"];
        let short = |n: u64| Error::io(n.to_string());
        for skip in 0..9u64 {
            for length in 0..9u64 {
                let got = joined(cut(body(pieces), skip, length, short), length).await;
                let end = usize::try_from(skip + length).unwrap();
                match b"abcdefgh".get(usize::try_from(skip).unwrap()..end) {
                    Some(wanted) => assert_eq!(got.unwrap(), wanted),
                    None if length == 0 => assert!(got.unwrap().is_empty()),
                    None => assert_eq!(got.unwrap_err().message(), 8u64.saturating_sub(skip).to_string()),
                }
            }
        }
        let long = || Error::io("long");
        assert_eq!(joined(at_most(body(pieces), 8, long), 0).await.unwrap(), b"abcdefgh".as_slice());
        assert_eq!(joined(at_most(body(pieces), 7, long), 0).await.unwrap_err().message(), "long");
    }

    #[tokio::test]
    async fn a_check_sees_all_of_a_body_and_fails_at_its_end() {
        let wanted = crc32fast::hash(b"abc");
        let check = move |h: crc32fast::Hasher| match h.finalize() == wanted {
            true => Ok(()),
            false => Err(Error::invalid("other")),
        };
        let crc = |pieces| checked(body(pieces), crc32fast::Hasher::new(), crc32fast::Hasher::update, check);
        assert_eq!(joined(crc(&[b"a", b"bc"]), 3).await.unwrap(), b"abc".as_slice());
        let mut spoilt = crc(&[b"a", b"bd"]);
        assert!(spoilt.next().await.unwrap().is_ok() && spoilt.next().await.unwrap().is_ok());
        assert!(spoilt.next().await.unwrap().is_err() && spoilt.next().await.is_none());
    }

    #[test]
    fn what_is_announced_limits_a_stream_and_a_limit_what_is_announced() {
        let open = GetOptions::default();
        assert_eq!((open.longest(None), open.longest(Some(1 << 40))), (MAX_WHOLE, 1 << 40));
        assert!(GetOptions::at_most(5).check_announced(6).is_err());
        assert!(open.held().check_announced(MAX_WHOLE + 1).is_err());
        let span = GetOptions::range(Some(ByteRange::span(0, 4)));
        assert_eq!(span.longest(Some(9)), 4);
    }
}
