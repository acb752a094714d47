//! From what is known of an object, and a request for it, to what is sent.

use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue,
    LAST_MODIFIED, RANGE,
};
use hyper::{HeaderMap, StatusCode};

use super::{Caching, Ranges, Response, Verdict, check, empty, http_date, parse_ranges};
use crate::request::Request;

/// What is known of an object before its bytes are read.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) size: u64,
    /// A strong tag, quoted.
    pub(crate) tag: Option<String>,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) content_type: &'static str,
    pub(crate) caching: Caching,
    /// Whether only some clients may see it.
    pub(crate) private: bool,
}

/// What is sent.
#[derive(Debug)]
pub(crate) enum Plan {
    /// This, and no bytes of the object.
    Done(Response),
    /// The whole object, or one range of it: the head, and which bytes.
    One(HeaderMap, StatusCode, Range<u64>),
    /// Several ranges, each after its own lines.
    Parts(HeaderMap, Vec<Part>),
}

/// A part of an answer with several: lines to send first, then bytes of the object.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) before: Bytes,
    pub(crate) bytes: Range<u64>,
}

impl Facts {
    /// The headers that every answer about the object has: 200, 206, 304 and 412 alike.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(16);
        if let Some(tag) = self.tag.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok()) {
            headers.insert(ETAG, tag);
        }
        if let Some(modified) = self.modified {
            headers.insert(LAST_MODIFIED, http_date(modified));
        }
        headers.insert(CACHE_CONTROL, self.caching.value(self.private));
        headers
    }

    /// What a GET or HEAD of the object is answered with.
    pub(crate) fn plan(&self, request: &Request) -> Plan {
        let bare = |status| {
            let mut response = empty(status);
            response.headers_mut().extend(self.headers());
            response
        };
        let ranges = match check(&request.headers, self.tag.as_deref(), self.modified) {
            Verdict::Go { ranges } => ranges,
            Verdict::Failed => return Plan::Done(bare(StatusCode::PRECONDITION_FAILED)),
            Verdict::NotModified => {
                let mut response = bare(StatusCode::NOT_MODIFIED);
                response.headers_mut().remove(CONTENT_LENGTH);
                return Plan::Done(response);
            }
        };
        // Ranges are for GET alone; a HEAD tells of the whole.
        let wanted = request.header(RANGE).filter(|_| ranges && !request.is_head());
        let mut headers = self.headers();
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        match wanted.map_or(Ranges::Whole, |wanted| parse_ranges(wanted, self.size)) {
            Ranges::Whole => {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(self.size));
                Plan::One(headers, StatusCode::OK, 0..self.size)
            }
            Ranges::Unsatisfiable => {
                let mut response = empty(StatusCode::RANGE_NOT_SATISFIABLE);
                let size = format!("bytes */{}", self.size);
                if let Ok(size) = HeaderValue::from_str(&size) {
                    response.headers_mut().insert(CONTENT_RANGE, size);
                }
                response.headers_mut().extend(self.headers());
                Plan::Done(response)
            }
            Ranges::Parts(parts) => match parts.as_slice() {
                [one] => {
                    headers.insert(CONTENT_LENGTH, HeaderValue::from(one.end - one.start));
                    if let Ok(range) = HeaderValue::from_str(&self.content_range(one)) {
                        headers.insert(CONTENT_RANGE, range);
                    }
                    Plan::One(headers, StatusCode::PARTIAL_CONTENT, one.clone())
                }
                _ => self.parts(headers, parts),
            },
        }
    }

    fn content_range(&self, range: &Range<u64>) -> String {
        format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), self.size)
    }

    fn parts(&self, mut headers: HeaderMap, ranges: Vec<Range<u64>>) -> Plan {
        const BOUNDARY: &str = "zaro-7b1d0c52e9f84a36";
        let lines = |range: &Range<u64>| {
            let of = self.content_range(range);
            format!("\r\n--{BOUNDARY}\r\nContent-Type: {}\r\nContent-Range: {of}\r\n\r\n", self.content_type)
        };
        let mut parts: Vec<Part> =
            ranges.into_iter().map(|bytes| Part { before: Bytes::from(lines(&bytes)), bytes }).collect();
        parts.push(Part { before: Bytes::from(format!("\r\n--{BOUNDARY}--\r\n")), bytes: 0..0 });
        let length = parts.iter().fold(0u64, |sum, part| {
            let lines = u64::try_from(part.before.len()).unwrap_or(u64::MAX);
            sum.saturating_add(lines).saturating_add(part.bytes.end - part.bytes.start)
        });
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        let kind = format!("multipart/byteranges; boundary={BOUNDARY}");
        if let Ok(kind) = HeaderValue::from_str(&kind) {
            headers.insert(CONTENT_TYPE, kind);
        }
        Plan::Parts(headers, parts)
    }
}
