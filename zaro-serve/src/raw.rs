//! `/data/`: the keys of a store as they are, byte for byte.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::{HeaderMap, StatusCode};
use zaro::store::{ByteRange, DirectObject, GetOptions, ObjectMeta, SharedStore};
use zaro::{Error, ErrorKind};

use crate::answer::{Body, Facts, Fault, Part, Plan, Response, empty, etag_of, lock_down};
use crate::request::Request;
use crate::sources::Source;

/// Objects and ranges up to this size are read in one go, by the thread that answers: a file of this size is in memory
/// or one read away.
const SMALL: u64 = crate::sources::SMALL_FILE;

/// What a key turned out to be.
pub(crate) enum Got {
    /// An object: the answer.
    Object(Response),
    /// A folder, which the caller may list.
    Folder,
    /// No object.
    Nothing,
}

impl Got {
    /// The answer with the object, if there is one.
    pub(crate) fn object(self) -> Option<Response> {
        match self {
            Self::Object(response) => Some(response),
            Self::Folder | Self::Nothing => None,
        }
    }
}

/// An object that was found.
struct Found {
    meta: ObjectMeta,
    size: u64,
    /// Open already, if it is local.
    direct: Option<Box<dyn DirectObject>>,
    /// All its bytes, if they are in memory.
    bytes: Option<Bytes>,
}

/// What a look found.
enum Look {
    Found(Found),
    Folder,
    Nothing,
}

/// Answers a GET or HEAD of a key.
pub(crate) async fn get(source: &Source, key: &str, request: &Request) -> Result<Got, Fault> {
    let mut tries = 0;
    loop {
        let found = match find(source, key).await? {
            Look::Found(found) => found,
            Look::Folder => return Ok(Got::Folder),
            Look::Nothing => return Ok(Got::Nothing),
        };
        let facts = Facts {
            size: found.size,
            tag: etag_of(&found.meta),
            modified: found.meta.modified(),
            content_type: content_type(key),
            caching: source.caching,
            private: source.private,
        };
        let answered = answer(source, key, found, facts.plan(request), request.is_head()).await;
        match answered {
            // It was changed between the look and the read: look again, twice at the most.
            Err(e) if e.kind() == ErrorKind::Conflict && tries < 2 => tries += 1,
            Err(e) => return Err(Fault::behind(&e)),
            Ok(response) => return Ok(Got::Object(response)),
        }
    }
}

/// Looks an object up.
async fn find(source: &Source, key: &str) -> Result<Look, Fault> {
    let store = source.store();
    if zaro::store::check_key(key).is_err() {
        return Ok(Look::Nothing);
    }
    if let Some(files) = &source.files {
        // One look by name; if the bytes of just this state are in memory, the file need not be opened.
        match store.stat(key).await {
            Ok(Some(meta)) => {
                if let Some(bytes) = files.get(&meta) {
                    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    return Ok(Look::Found(Found { meta, size, direct: None, bytes: Some(bytes) }));
                }
            }
            Ok(None) => return Ok(Look::Nothing),
            Err(e) if e.kind() == ErrorKind::Invalid => return Ok(Look::Folder),
            Err(e) => return Err(Fault::behind(&e)),
        }
    }
    if let Some(direct) = store.direct() {
        return match direct.open(key) {
            Ok(None) => Ok(Look::Nothing),
            Ok(Some(object)) => {
                let (meta, size) = (object.meta(), object.size());
                Ok(Look::Found(Found { meta, size, direct: Some(object), bytes: None }))
            }
            Err(e) if e.kind() == ErrorKind::Invalid && source.files.is_some() => Ok(Look::Folder),
            // Perhaps a folder; the caller finds out.
            Err(e) if e.kind() == ErrorKind::Invalid => Ok(Look::Nothing),
            Err(e) => Err(Fault::behind(&e)),
        };
    }
    let meta = match store.stat(key).await {
        Ok(Some(meta)) => meta,
        Ok(None) => return Ok(Look::Nothing),
        Err(e) => return Err(Fault::behind(&e)),
    };
    let size = match meta.size() {
        Some(size) => size,
        // A server that does not tell sizes: all of it tells.
        None => {
            let got = store.get_opts(key, GetOptions::default()).await.map_err(|e| Fault::behind(&e))?;
            let Some(object) = got else { return Ok(Look::Nothing) };
            u64::try_from(object.bytes.len()).unwrap_or(u64::MAX)
        }
    };
    Ok(Look::Found(Found { meta, size, direct: None, bytes: None }))
}

async fn answer(source: &Source, key: &str, found: Found, plan: Plan, head: bool) -> zaro::Result<Response> {
    match plan {
        Plan::Done(response) => Ok(response),
        Plan::One(headers, status, _) if head => Ok(with(headers, status, empty(status).into_body())),
        Plan::One(headers, status, range) => {
            let body = match at_once(source, &found, &range)? {
                Some(bytes) => Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
                None => body(source.store(), key, found, range).await?,
            };
            Ok(with(headers, status, body))
        }
        Plan::Parts(headers, parts) => {
            let body = multipart(source.store().clone(), key.to_owned(), found, parts);
            Ok(with(headers, StatusCode::PARTIAL_CONTENT, body))
        }
    }
}

fn with(mut headers: HeaderMap, status: StatusCode, body: Body) -> Response {
    lock_down(&mut headers);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The bytes of a range, if they are in memory or one read of a local file away.
fn at_once(source: &Source, found: &Found, range: &Range<u64>) -> zaro::Result<Option<Bytes>> {
    let length = range.end.saturating_sub(range.start);
    if let Some(bytes) = &found.bytes {
        let (start, end) = (usize::try_from(range.start).ok(), usize::try_from(range.end).ok());
        let part = start.zip(end).filter(|(start, end)| start <= end && *end <= bytes.len());
        return Ok(part.map(|(start, end)| bytes.slice(start..end)));
    }
    let Some(object) = found.direct.as_deref().filter(|_| length > 0 && length <= SMALL) else {
        return Ok(None);
    };
    let bytes = read(object, range)?;
    if let Some(files) = source.files.as_ref().filter(|_| length == found.size) {
        files.keep(&found.meta, &bytes);
    }
    Ok(Some(bytes))
}

/// The bytes of a range: at once if they are few, else as the client takes them.
async fn body(store: &SharedStore, key: &str, found: Found, range: Range<u64>) -> zaro::Result<Body> {
    let length = range.end.saturating_sub(range.start);
    if length == 0 {
        return Ok(empty(StatusCode::OK).into_body());
    }
    let span = (length < found.size).then(|| ByteRange::span(range.start, length));
    let mut options = GetOptions::range(span).with_max_size(Some(found.size));
    if !matches!(found.meta, ObjectMeta::Unknown) {
        options = options.of_state(&found.meta);
    }
    let gone = || Error::conflict("the object was deleted while it was read");
    if length <= SMALL {
        // At once, so that a failure has a status: the digest of a whole object is known only at its end.
        let object = store.get_opts(key, options).await?.ok_or_else(gone)?;
        return Ok(Full::new(object.bytes).map_err(|never| match never {}).boxed_unsync());
    }
    let stream = store.get_stream(key, options).await?.ok_or_else(gone)?;
    Ok(StreamBody::new(stream.body.map(|piece| piece.map(Frame::data))).boxed_unsync())
}

fn read(object: &dyn DirectObject, range: &Range<u64>) -> zaro::Result<Bytes> {
    let length =
        usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| Error::io("too large"))?;
    let mut bytes = vec![0; length];
    object.read_at(range.start, &mut bytes)?;
    object.check_unchanged()?;
    Ok(Bytes::from(bytes))
}

/// Several ranges, one after the other, each after its own lines.
fn multipart(store: SharedStore, key: String, found: Found, parts: Vec<Part>) -> Body {
    let found = Arc::new((found.meta, found.size));
    let pieces = stream::iter(parts).then(move |part| {
        let (store, key, found) = (store.clone(), key.clone(), found.clone());
        async move {
            let lines = stream::iter([Ok(Frame::data(part.before))]);
            if part.bytes.is_empty() {
                return lines.boxed();
            }
            let found = Found { meta: found.0.clone(), size: found.1, direct: None, bytes: None };
            match body(&store, &key, found, part.bytes).await {
                Ok(body) => lines.chain(http_body_util::BodyStream::new(body)).boxed(),
                Err(e) => lines.chain(stream::iter([Err(e)])).boxed(),
            }
        }
    });
    StreamBody::new(pieces.flatten()).boxed_unsync()
}

/// The content type of a key: metadata are JSON, everything else is bytes, whatever its name says.
pub(crate) fn content_type(key: &str) -> &'static str {
    match key.rsplit('/').next().unwrap_or(key) {
        "zarr.json" | ".zarray" | ".zgroup" | ".zattrs" | ".zmetadata" => "application/json",
        _ => "application/octet-stream",
    }
}

/// Whether a key looks like a chunk or a metadata document: nobody asks for a folder of such a name.
pub(crate) fn is_leaf(key: &str) -> bool {
    let last = key.rsplit('/').next().unwrap_or(key);
    content_type(last) == "application/json"
        || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}
