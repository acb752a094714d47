//! Headers that many answers share: tags, dates, caching, and who may read an answer from a page of another origin.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CONTENT_SECURITY_POLICY, HeaderValue, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use md5::{Digest as _, Md5};
use zaro::store::{LocalMeta, ObjectMeta};

/// How long an answer may be kept by caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// For ever: it belongs to a version.
    Immutable,
    /// Kept, but compared with the server before each use.
    Live,
    /// For a few seconds: something is absent, and may come.
    Brief,
    /// By nobody: it is for one client.
    Never,
}

impl Caching {
    /// The value of `Cache-Control`; `private` for what only some may see.
    pub(crate) fn value(self, private: bool) -> HeaderValue {
        HeaderValue::from_static(match (self, private) {
            (Self::Immutable, false) => "public, max-age=31536000, immutable",
            (Self::Immutable, true) => "private, max-age=31536000, immutable",
            (Self::Live, false) => "no-cache",
            (Self::Live, true) => "private, no-cache",
            (Self::Brief, false) => "max-age=5",
            (Self::Brief, true) => "private, max-age=5",
            (Self::Never, _) => "private, no-store",
        })
    }
}

/// A date as headers have it.
pub(crate) fn http_date(time: SystemTime) -> HeaderValue {
    // Dates before 1970 and after 9999 cannot be written.
    let last = UNIX_EPOCH + std::time::Duration::from_secs(253_402_300_799);
    let text = httpdate::fmt_http_date(time.clamp(UNIX_EPOCH, last));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// The strong tag, quoted, of an object in this state; `None` if the store cannot tell its states apart.
pub(crate) fn etag_of(meta: &ObjectMeta) -> Option<String> {
    match meta {
        ObjectMeta::Unknown => None,
        ObjectMeta::Local(LocalMeta { id: [_, inode], size, modified: Some((seconds, nanos)), .. }) => {
            Some(format!("\"{inode:x}-{size:x}-{seconds:x}.{nanos:x}\""))
        }
        ObjectMeta::Local(LocalMeta { id: [number, _], size, .. }) => {
            Some(format!("\"{number:x}-{size:x}\""))
        }
        ObjectMeta::Remote(remote) => {
            let inner = remote.etag.as_deref().map(|etag| etag.trim_matches('"'));
            match inner {
                Some(etag) if is_opaque(etag) && !etag.starts_with("W/") => Some(format!("\"{etag}\"")),
                _ => meta.text().map(|text| hash_tag(&[&text])),
            }
        }
    }
}

/// Whether a text may stand between the quotes of a tag.
fn is_opaque(text: &str) -> bool {
    !text.is_empty() && text.len() <= 128 && text.bytes().all(|b| b.is_ascii_graphic() && b != b'"')
}

/// The tag, quoted, of something made from these: tags of sources, parameters.
pub(crate) fn hash_tag(parts: &[&str]) -> String {
    let mut hasher = Md5::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part);
    }
    let mut out = String::with_capacity(34);
    out.push('"');
    for byte in hasher.finalize() {
        let _ = write!(out, "{byte:02x}");
    }
    out.push('"');
    out
}

/// Makes sure that a browser never takes stored bytes for a page or a program.
pub(crate) fn lock_down(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
}

/// Whose pages may read the answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cors {
    /// Those of every origin.
    Any,
    /// Those of these origins.
    Only(Vec<String>),
}

const EXPOSED: &str = "*, Content-Length, Content-Range, Content-Encoding, ETag, Last-Modified, Accept-Ranges, Link, X-Zaro-Tile, Server-Timing";

impl Cors {
    /// Adds the headers that let the page of `origin` read an answer; to every answer, whatever its status.
    pub(crate) fn apply(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        let allowed = match self {
            Self::Any => Some(HeaderValue::from_static("*")),
            Self::Only(list) => {
                headers.append(VARY, HeaderValue::from_static("Origin"));
                origin.filter(|o| o.to_str().is_ok_and(|o| list.iter().any(|one| one == o))).cloned()
            }
        };
        if let Some(allowed) = allowed {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        }
    }

    /// Adds the answer to a preflight.
    pub(crate) fn preflight(headers: &mut HeaderMap) {
        headers
            .insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, OPTIONS, PROPFIND"));
        let allowed =
            "Range, If-None-Match, If-Match, If-Range, If-Modified-Since, Authorization, Depth, Content-Type";
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
        headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zaro::store::RemoteMeta;

    #[test]
    fn tags_are_strong_quoted_and_of_one_state() {
        let remote =
            |etag: &str| etag_of(&RemoteMeta { etag: Some(etag.to_owned()), ..RemoteMeta::default() }.into());
        assert_eq!(remote("\"abc-2\"").unwrap(), "\"abc-2\"");
        assert_eq!(remote("abc").unwrap(), "\"abc\"");
        assert_eq!(etag_of(&ObjectMeta::Unknown), None);
        // What cannot stand in a header is hashed.
        let odd = remote("a b\u{e9}\n").unwrap();
        assert!(odd.len() == 34 && odd.is_ascii());
        assert_ne!(hash_tag(&["ab", "c"]), hash_tag(&["a", "bc"]));
        assert_eq!(hash_tag(&["x"]), hash_tag(&["x"]));
    }

    #[test]
    fn origins_are_compared_as_a_whole() {
        let list = Cors::Only(vec!["https://vizarr.example".to_owned()]);
        let said = |origin: &str| {
            let mut headers = HeaderMap::new();
            list.apply(Some(&HeaderValue::from_str(origin).unwrap()), &mut headers);
            assert_eq!(headers.get(VARY).unwrap(), "Origin");
            headers.get(ACCESS_CONTROL_ALLOW_ORIGIN).cloned()
        };
        assert_eq!(said("https://vizarr.example").unwrap(), "https://vizarr.example");
        assert!(said("https://vizarr.example.evil").is_none() && said("null").is_none());
    }
}
