//! WebDAV, as much of it as a read-only server has: PROPFIND, classes 1 and 3.

mod ask;
mod multistatus;

use std::time::{Duration, SystemTime};

use futures::TryStreamExt as _;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use zaro::ErrorKind;
use zaro::store::ObjectMeta;

use self::ask::Ask;
use self::multistatus::{HEAD, TAIL, Writer};
use crate::answer::{Caching, Fault, Response, full, lock_down, stream};
use crate::app::Target;
use crate::listing::{Form, Row, Walk, begin};
use crate::path::{RequestPath, encode};
use crate::request::Request;

const XML: &str = "application/xml; charset=utf-8";

/// Members of a folder and its folders that are told in one answer.
const MOST_MEMBERS: usize = 200_000;

/// The time in which they have to be counted. What takes longer is not at hand.
const COUNTING: Duration = Duration::from_secs(10);

/// How far a PROPFIND goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Itself,
    Members,
    Everything,
}

impl Depth {
    fn of(request: &Request) -> Result<Self, Fault> {
        match request.headers.get("depth").map(HeaderValue::as_bytes) {
            Some(b"0") => Ok(Self::Itself),
            Some(b"1") => Ok(Self::Members),
            None => Ok(Self::Everything),
            Some(text) if text.eq_ignore_ascii_case(b"infinity") => Ok(Self::Everything),
            Some(_) => Err(Fault::bad("a Depth is 0, 1 or infinity")),
        }
    }
}

/// Answers a PROPFIND of a key or a folder of a source.
pub(crate) async fn answer(target: &Target, request: &Request) -> Result<Response, Fault> {
    let (source, key) = (&target.source, target.key.as_str());
    let (ask, depth) = (Ask::parse(&request.body)?, Depth::of(request)?);
    if is_unasked(key) || zaro::store::check_prefix(key).is_err() {
        return Err(Fault::not_found());
    }
    let mut writer = Writer {
        ask,
        base: base(&request.path)?,
        since: source.since,
        // The tags of a version are those of its manifest.
        md5: source.caching == Caching::Immutable,
    };
    if !target.slash
        && !key.is_empty()
        && let Some(meta) = object(target).await?
    {
        writer.base.truncate(writer.base.trim_end_matches('/').len());
        let row = Row { path: String::new(), folder: false, meta };
        return Ok(finish(full(StatusCode::MULTI_STATUS, Some(XML), document(&writer, &[row])), target));
    }
    let mut walk = Walk::of(source, key);
    match depth {
        Depth::Itself => {
            // The root of a store that cannot list is there all the same.
            if !key.is_empty() && walk.rows().try_next().await.map_err(|e| Fault::behind(&e))?.is_none() {
                return Err(Fault::not_found());
            }
            let itself = Row::folder(String::new());
            let text = document(&writer, &[itself]);
            return Ok(finish(full(StatusCode::MULTI_STATUS, Some(XML), text), target));
        }
        Depth::Members => walk.ask = true,
        Depth::Everything => {
            walk.all = true;
            let at_hand = walk.is_at_hand(MOST_MEMBERS, COUNTING).await.map_err(|e| Fault::behind(&e))?;
            if !at_hand {
                return Ok(too_deep());
            }
        }
    }
    let mut before = HEAD.to_owned();
    writer.push(&Row::folder(String::new()), &mut before);
    let row = move |row: &Row, out: &mut String| {
        if !is_unasked(&row.path) {
            writer.push(row, out);
        }
    };
    let form = Form { before, row: Box::new(row), after: TAIL.to_owned() };
    let pieces = begin(walk, form).await?.ok_or_else(Fault::not_found)?;
    Ok(finish(stream(StatusCode::MULTI_STATUS, XML, None, pieces), target))
}

/// Answers a PROPFIND of `/` or `/data/`: the folder of the sources, and those.
pub(crate) fn sources(names: Vec<String>, since: SystemTime, request: &Request) -> Result<Response, Fault> {
    let writer = Writer { ask: Ask::parse(&request.body)?, base: base(&request.path)?, since, md5: false };
    let mut rows = vec![Row::folder(String::new())];
    match Depth::of(request)? {
        Depth::Itself => {}
        // Behind every name is a store that may be of any size.
        Depth::Everything => return Ok(too_deep()),
        Depth::Members if writer.base == "/" => rows.push(Row::folder("data".to_owned())),
        Depth::Members => rows.extend(names.into_iter().map(Row::folder)),
    }
    let mut response = full(StatusCode::MULTI_STATUS, Some(XML), document(&writer, &rows));
    response.headers_mut().insert(CACHE_CONTROL, Caching::Live.value(false));
    lock_down(response.headers_mut());
    Ok(response)
}

/// The object at the target, if it is one.
async fn object(target: &Target) -> Result<Option<ObjectMeta>, Fault> {
    if zaro::store::check_key(&target.key).is_err() {
        return Ok(None);
    }
    match target.source.store().stat(&target.key).await {
        Ok(found) => Ok(found),
        // A folder.
        Err(e) if e.kind() == ErrorKind::Invalid && target.source.store().direct().is_some() => Ok(None),
        Err(e) => Err(Fault::behind(&e)),
    }
}

/// The path of a request in the one form that is sent, with a closing slash.
fn base(path: &str) -> Result<String, Fault> {
    let segments = RequestPath::parse(path)?.segments().join("/");
    Ok(if segments.is_empty() { "/".to_owned() } else { format!("/{}/", encode(&segments)) })
}

fn document(writer: &Writer, rows: &[Row]) -> String {
    let mut out = HEAD.to_owned();
    for row in rows {
        writer.push(row, &mut out);
    }
    out + TAIL
}

fn finish(mut response: Response, target: &Target) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, Caching::Live.value(target.source.private));
    headers.insert("dav", HeaderValue::from_static("1, 3"));
    lock_down(headers);
    response
}

/// 403: ask again, level by level.
fn too_deep() -> Response {
    let text = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
                <D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
    let mut response = full(StatusCode::FORBIDDEN, Some(XML), text);
    response.headers_mut().insert(CACHE_CONTROL, Caching::Never.value(true));
    lock_down(response.headers_mut());
    response
}

/// Whether a path has a name that file managers and tools ask for everywhere, and nobody serves: it is absent without a
/// look, and is not listed here either.
fn is_unasked(path: &str) -> bool {
    path.split('/').any(|name| {
        name.starts_with("._")
            || matches!(name, ".DS_Store" | "Thumbs.db" | "desktop.ini" | ".git" | ".svn" | ".bzr" | ".nols")
    })
}

#[cfg(test)]
mod tests;
