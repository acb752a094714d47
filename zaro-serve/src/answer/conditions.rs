//! Conditional requests, in the order of RFC 9110, section 13.2.2.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{HeaderMap, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};

/// What the conditions of a GET or HEAD come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Answer as without conditions.
    Go {
        /// Whether `Range` applies: there is no `If-Range`, or it names this state.
        ranges: bool,
    },
    /// 304: the client has this state.
    NotModified,
    /// 412: the client wants another state.
    Failed,
}

/// Checks the conditions of a GET or HEAD of an object with this tag (quoted) and time.
pub(crate) fn check(headers: &HeaderMap, tag: Option<&str>, modified: Option<SystemTime>) -> Verdict {
    let modified = modified.map(whole_seconds);
    let date = |name| modified.zip(date_in(headers, name));
    if headers.contains_key(IF_MATCH) {
        if !listed(headers, IF_MATCH, tag, false) {
            return Verdict::Failed;
        }
    } else if date(IF_UNMODIFIED_SINCE).is_some_and(|(modified, date)| modified > date) {
        return Verdict::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        if listed(headers, IF_NONE_MATCH, tag, true) {
            return Verdict::NotModified;
        }
    } else if date(IF_MODIFIED_SINCE).is_some_and(|(modified, date)| modified <= date) {
        return Verdict::NotModified;
    }
    let ranges = match headers.get(IF_RANGE).map(|value| value.to_str().unwrap_or("").trim()) {
        None => true,
        Some(text) if text.starts_with('"') => Some(text) == tag,
        // A weak tag never holds; a date only if it is the very one.
        Some(_) => date(IF_RANGE).is_some_and(|(modified, date)| modified == date),
    };
    Verdict::Go { ranges }
}

/// Dates in headers have no fractions.
fn whole_seconds(time: SystemTime) -> SystemTime {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => UNIX_EPOCH + Duration::from_secs(since.as_secs()),
        Err(_) => UNIX_EPOCH,
    }
}

fn date_in(headers: &HeaderMap, name: hyper::header::HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?.trim()).ok()
}

/// Whether a header lists the tag, or `*`. A weak comparison ignores `W/`.
fn listed(headers: &HeaderMap, name: hyper::header::HeaderName, tag: Option<&str>, weak: bool) -> bool {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).any(|text| {
        text.trim() == "*" || tags(text).any(|(is_weak, one)| Some(one) == tag && (weak || !is_weak))
    })
}

/// The entity tags of a list, quoted, and whether each is weak. What is no tag is passed over.
fn tags(mut text: &str) -> impl Iterator<Item = (bool, &str)> {
    std::iter::from_fn(move || {
        loop {
            text = text.trim_start_matches([' ', '\t', ',']);
            if text.is_empty() {
                return None;
            }
            let (is_weak, rest) = match text.strip_prefix("W/") {
                Some(rest) => (true, rest),
                None => (false, text),
            };
            let end = rest.strip_prefix('"').and_then(|inner| inner.find('"')).map(|at| at.saturating_add(2));
            match end {
                Some(end) => {
                    let (one, after) = rest.split_at(end);
                    text = after;
                    return Some((is_weak, one));
                }
                None => text = text.find(',').and_then(|at| text.get(at..)).unwrap_or(""),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn verdict(pairs: &[(&str, &str)]) -> Verdict {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let modified = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        check(&headers, Some("\"abc\""), Some(modified + Duration::from_millis(300)))
    }

    #[test]
    fn conditions_hold_in_the_order_of_the_standard() {
        const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
        const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
        let go = Verdict::Go { ranges: true };
        let whole = Verdict::Go { ranges: false };
        for (pairs, wanted) in [
            (vec![], go),
            (vec![("if-match", "\"abc\"")], go),
            (vec![("if-match", "*")], go),
            (vec![("if-match", "\"x\", \"abc\"")], go),
            (vec![("if-match", "W/\"abc\"")], Verdict::Failed),
            (vec![("if-match", "\"x\"")], Verdict::Failed),
            (vec![("if-unmodified-since", SAME)], go),
            (vec![("if-unmodified-since", EARLIER)], Verdict::Failed),
            (vec![("if-unmodified-since", "yesterday")], go),
            // If-Match decides; the date beside it does not count.
            (vec![("if-match", "\"abc\""), ("if-unmodified-since", EARLIER)], go),
            (vec![("if-none-match", "\"abc\"")], Verdict::NotModified),
            (vec![("if-none-match", "W/\"abc\"")], Verdict::NotModified),
            (vec![("if-none-match", "\"a,b\", \"abc\"")], Verdict::NotModified),
            (vec![("if-none-match", "*")], Verdict::NotModified),
            (vec![("if-none-match", "\"x\""), ("if-modified-since", LATER)], go),
            (vec![("if-modified-since", SAME)], Verdict::NotModified),
            (vec![("if-modified-since", EARLIER)], go),
            (vec![("if-match", "\"x\""), ("if-none-match", "\"abc\"")], Verdict::Failed),
            (vec![("if-range", "\"abc\"")], go),
            (vec![("if-range", "W/\"abc\"")], whole),
            (vec![("if-range", SAME)], go),
            (vec![("if-range", LATER)], whole),
            (vec![("if-none-match", "nonsense"), ("if-range", "\"x\"")], whole),
        ] {
            assert_eq!(verdict(&pairs), wanted, "{pairs:?}");
        }
        // Nothing is known of the object.
        let mut headers = HeaderMap::new();
        headers.insert(IF_MATCH, HeaderValue::from_static("\"abc\""));
        assert_eq!(check(&headers, None, None), Verdict::Failed);
    }
}
