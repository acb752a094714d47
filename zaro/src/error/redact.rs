//! Addresses without their secrets.
//!
//! An address may hold a password (`https://user:password@host/…`) or be signed (`?X-Amz-Signature=…`, `?sig=…`). It is
//! sent as it is, but whatever is shown, logged or stored goes through [`redacted`] first.

use std::borrow::Cow;

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// The parameters of a query whose values are shown. All others may be secrets of a server that we do not know.
const HARMLESS: [&str; 4] = ["versionid", "generation", "x-amz-date", "x-amz-expires"];

/// `text` with the secrets of all addresses in it hidden: user and password, and the values of a query other than
/// versions and dates.
///
/// `https://u:p@host/a.zarr?sig=s&versionId=3` becomes `https://***@host/a.zarr?sig=***&versionId=3`. What holds no
/// address stays as it is, and so does what was redacted before.
#[must_use]
pub fn redacted(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, mark, after)) = next(rest) {
        out.push_str(before);
        out.push_str(mark);
        let scheme = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        // Up to the next address only, so that a long chain of them (`zip://a::zip://b::…`) is gone through once.
        let near = next(after).map(|(near, ..)| near);
        // An address ends where a space or a quote does not belong to it, or where the scheme of the next begins.
        let ends = |c: char| c.is_whitespace() || c.is_control() || "\"'`<>|\\".contains(c);
        let end = near.unwrap_or(after).find(ends).or_else(|| {
            let at = near?.rfind(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))?;
            at.checked_add(1)
        });
        let (address, tail) = match (end, near) {
            (Some(end), _) => after.split_at_checked(end).unwrap_or((after, "")),
            // Nothing but a scheme before the next address.
            (None, Some(_)) => ("", after),
            (None, None) => (after, ""),
        };
        hide(&mut out, scheme, address);
        rest = tail;
    }
    if out.is_empty() {
        return Cow::Borrowed(text);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// What stands before the next address, with its scheme, the mark between, and what follows. A slash that was forgotten
/// (`http:/user:password@host`) makes no path of it.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    for (at, _) in text.match_indices(":/") {
        let (before, rest) = text.split_at_checked(at)?;
        if let Some(after) = rest.strip_prefix("://") {
            return Some((before, "://", after));
        }
        if before.ends_with("http") || before.ends_with("https") {
            return Some((before, ":/", rest.strip_prefix(":/")?));
        }
    }
    None
}

/// A key with the values of what looks like the query of an address hidden.
pub(super) fn redacted_key(key: &str) -> Cow<'_, str> {
    // A key may have these letters as others: only what looks like a query is taken for one.
    if !key.split_once(['?', '#']).is_some_and(|(_, query)| query.contains('=')) {
        return redacted(key);
    }
    let mut out = String::new();
    hide(&mut out, "", key);
    Cow::Owned(redacted(&out).into_owned())
}

/// Adds an address, without its scheme, and hides its secrets.
fn hide(out: &mut String, scheme: &str, address: &str) {
    let at = address.find('?').or_else(|| address.find('#').filter(|_| address.contains('=')));
    let (place, query) =
        match at.and_then(|at| Some((address.get(..at)?, address.get(at.checked_add(1)?..)?))) {
            Some((place, query)) => (place, Some(query)),
            None => (address, None),
        };
    let (host, path) = place.split_at_checked(place.find('/').unwrap_or(place.len())).unwrap_or((place, ""));
    match host.rsplit_once('@') {
        // `abfss://container@account.dfs…` names no user.
        Some((user, host)) if user.contains(':') || matches!(scheme, "http" | "https" | "ftp") => {
            out.push_str(HIDDEN);
            out.push('@');
            out.push_str(host);
        }
        _ => out.push_str(host),
    }
    out.push_str(path);
    let Some(query) = query else { return };
    // What ends a part of a sentence does not belong to the address.
    let bare = query.trim_end_matches([',', '.', ';', ':', ')', ']', '}']);
    let closing = query.get(bare.len()..).unwrap_or_default();
    let mut mark = if address.contains('?') { '?' } else { '#' };
    for pair in bare.split('&') {
        out.push(mark);
        mark = '&';
        match pair.split_once('=') {
            Some((name, value)) if HARMLESS.iter().any(|n| name.eq_ignore_ascii_case(n)) => {
                out.push_str(name);
                out.push('=');
                out.push_str(value);
            }
            Some((name, _)) => {
                out.push_str(name);
                out.push('=');
                out.push_str(HIDDEN);
            }
            // A word alone may be the secret.
            None if pair.is_empty() => {}
            None => out.push_str(HIDDEN),
        }
    }
    out.push_str(closing);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_secrets_too() {
        assert_eq!(redacted_key("x?sig=T&versionId=2"), "x?sig=***&versionId=2");
        assert_eq!(redacted_key("x#sig=T"), "x#sig=***");
        assert_eq!(redacted_key("que?ry/ha#sh"), "que?ry/ha#sh");
    }

    #[test]
    fn a_long_chain_is_gone_through_once() {
        let chain = "zip://x::".repeat(1 << 17) + "https://u:p@h";
        assert!(redacted(&chain).ends_with("zip://x::https://***@h"));
        let chain = "a://".repeat(1 << 17);
        assert_eq!(redacted(&chain).len(), chain.len());
    }

    #[test]
    fn passwords_and_signatures_are_hidden() {
        for (text, wanted) in [
            ("https://u:p@h:8/a b", "https://***@h:8/a b"),
            ("http://token@h/a", "http://***@h/a"),
            ("\"https://h/a.zarr?sig=S&versionId=3\" is", "\"https://h/a.zarr?sig=***&versionId=3\" is"),
            (
                "http://h/n?X-Amz-Signature=T, bytes 0+4: gone",
                "http://h/n?X-Amz-Signature=***, bytes 0+4: gone",
            ),
            ("zip://a/b::https://u:p@h/x.zip?k=v", "zip://a/b::https://***@h/x.zip?k=***"),
            ("https://h/a?k=v::http://u:p@i/b", "https://h/a?k=***::http://***@i/b"),
            ("from http://a/?TOKEN to http://b:c@d", "from http://a/?*** to http://***@d"),
            ("s3://b/k?versionId=v1", "s3://b/k?versionId=v1"),
            (
                "abfss://c@a.dfs.core.windows.net/k?se=1&sig=x",
                "abfss://c@a.dfs.core.windows.net/k?se=***&sig=***",
            ),
            ("abfss://c:x@a/k", "abfss://***@a/k"),
            ("reference+json://https://u:p@h/r.json?s=1", "reference+json://https://***@h/r.json?s=***"),
            ("no address at all: a@b ?x=y", "no address at all: a@b ?x=y"),
            ("https://h/a#sig=T", "https://h/a#sig=***"),
            ("https://h/a.zip#inner", "https://h/a.zip#inner"),
            ("http:/u:p@h/x is", "http:/***@h/x is"),
        ] {
            assert_eq!(redacted(text), wanted);
            assert_eq!(redacted(wanted), wanted, "twice");
        }
    }
}
