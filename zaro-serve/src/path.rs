//! The raw path of a request: refused if it is not in canonical form, then split and decoded.
//!
//! Nothing is matched by template: keys have slashes, names have `@`, identifiers have `%2F`.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::answer::Fault;

/// A path of decoded segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestPath {
    /// The segments, decoded. None is empty, `.` or `..`.
    segments: Vec<String>,
    /// Whether it ends in a slash.
    pub(crate) slash: bool,
}

impl RequestPath {
    /// Parses a raw path. An empty segment, `.`, `..`, a backslash, a control character or what is not UTF-8 is a 400:
    /// proxies and clients normalise them differently.
    pub(crate) fn parse(raw: &str) -> Result<Self, Fault> {
        let bad = |what: &str| Fault::bad(format!("the path {what}"));
        let rest = raw.strip_prefix('/').ok_or_else(|| bad("does not begin with a slash"))?;
        let (rest, slash) = match rest.strip_suffix('/') {
            Some(rest) => (rest, true),
            None => (rest, rest.is_empty()),
        };
        let mut segments = Vec::new();
        if !rest.is_empty() || raw.len() > 1 {
            for segment in rest.split('/') {
                let text = match segment.contains('%') {
                    false => segment.to_owned(),
                    true if !is_encoded(segment) => return Err(bad("is not percent-encoded")),
                    true => {
                        let decoded = percent_decode_str(segment).decode_utf8();
                        decoded.map_err(|_| bad("is not UTF-8"))?.into_owned()
                    }
                };
                if text.is_empty() {
                    return Err(bad("has an empty segment"));
                }
                if text.split('/').any(|part| part == "." || part == "..") {
                    return Err(bad("has a segment . or .."));
                }
                if text.contains('\\') || text.chars().any(char::is_control) {
                    return Err(bad("has a character that is not allowed"));
                }
                segments.push(text);
            }
        }
        Ok(Self { segments, slash })
    }

    /// The segments.
    pub(crate) fn segments(&self) -> Vec<&str> {
        self.segments.iter().map(String::as_str).collect()
    }

    /// The same with another segment in the place of one.
    pub(crate) fn with(&self, at: usize, segment: &str) -> Self {
        let mut out = self.clone();
        if let Some(slot) = out.segments.get_mut(at) {
            segment.clone_into(slot);
        }
        out
    }

    /// The segments from the `skip`th on, joined: a key. `None` if one of them has a slash of its own, which no key has.
    pub(crate) fn key(&self, skip: usize) -> Option<String> {
        let rest = self.segments.get(skip..).unwrap_or_default();
        if rest.iter().any(|segment| segment.contains('/')) { None } else { Some(rest.join("/")) }
    }
}

/// Whether every `%` is followed by two hexadecimal digits.
fn is_encoded(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    bytes.iter().enumerate().filter(|(_, b)| **b == b'%').all(|(at, _)| {
        let digit =
            |n: usize| at.checked_add(n).and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_hexdigit);
        digit(1) && digit(2)
    })
}

/// All but `A-Z a-z 0-9 - . _ ~` and the slash.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'!')
    .add(b'"')
    .add(b'#')
    .add(b'$')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b'(')
    .add(b')')
    .add(b'*')
    .add(b'+')
    .add(b',')
    .add(b':')
    .add(b';')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'?')
    .add(b'@')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A key or a name as part of a path: slashes stay.
pub(crate) fn encode(key: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(key, ENCODED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_canonical_or_refused() {
        let parsed = |raw: &str| RequestPath::parse(raw).map(|p| (p.segments, p.slash)).ok();
        let some =
            |list: &[&str], slash| Some((list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>(), slash));
        assert_eq!(parsed("/"), some(&[], true));
        assert_eq!(parsed("/data/a/zarr.json"), some(&["data", "a", "zarr.json"], false));
        assert_eq!(parsed("/data/a/"), some(&["data", "a"], true));
        assert_eq!(parsed("/a%20b/%C3%A9%23"), some(&["a b", "é#"], false));
        assert_eq!(parsed("/iiif/a%2Fb"), some(&["iiif", "a/b"], false));
        assert_eq!(parsed("/a@b:c"), some(&["a@b:c"], false));
        for bad in [
            "",
            "a",
            "//",
            "/a//b",
            "/a//",
            "/./a",
            "/a/..",
            "/a/%2e%2E/b",
            "/%2e",
            "/a%5cb",
            "/a%00",
            "/a%0ab",
            "/%ff",
            "/%",
            "/a%2",
            "/%zz",
            "/a\\b",
            "/a%2F..%2Fb",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
        assert_eq!(RequestPath::parse("/iiif/a%2Fb").unwrap().key(1), None);
        assert_eq!(RequestPath::parse("/data/n/a/b").unwrap().key(2).unwrap(), "a/b");
    }

    #[test]
    fn what_is_encoded_is_decoded_again() {
        let key = "a b/é#?%&\"<>'/~.-_/日本";
        let path = format!("/{}", encode(key));
        assert!(path.is_ascii() && !path.contains(['<', '"', '&', '#', '?']));
        assert_eq!(RequestPath::parse(&path).unwrap().key(0).unwrap(), key);
    }
}
