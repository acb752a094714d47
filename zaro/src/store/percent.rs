//! Percent-encoding of URIs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};

const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const KEY: &AsciiSet = &PART.remove(b'/');

/// Decodes `%41` to `A`; `None` if the result is not UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

/// Encodes everything but letters, digits and `-._~`.
pub(crate) fn percent_encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, PART)
}

/// The same for a key, whose slashes stay.
pub(crate) fn percent_encode_key(key: &str) -> PercentEncode<'_> {
    utf8_percent_encode(key, KEY)
}
