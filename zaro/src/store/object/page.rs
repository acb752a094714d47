//! Parses one page of an S3 listing.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use super::versions::ObjectVersion;
use crate::error::{Error, Result};
use crate::store::fault::transient;
use crate::store::percent_decode;
use crate::time::Time;

/// A page of `ListObjectVersions` or `ListObjectsV2`.
#[derive(Debug, Default)]
pub(super) struct ListingPage {
    pub(super) entries: Vec<ObjectVersion>,
    /// Common prefixes, in full, with their trailing slash.
    pub(super) prefixes: Vec<String>,
    pub(super) next: Option<Next>,
    /// The number of entries and prefixes, as stated by the server.
    pub(super) count: Option<usize>,
    /// Whether the server says if the listing is truncated.
    pub(super) says_end: bool,
}

/// Where the next page starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// After this version of this key.
    Version { key: String, version: Option<String> },
    /// At this continuation token.
    Token(String),
}

/// The raw fields of one element.
#[derive(Debug, Default)]
struct XmlFields {
    key: Option<String>,
    version: Option<String>,
    etag: Option<String>,
    size: Option<String>,
    modified: Option<String>,
    latest: Option<String>,
}

/// Parses a page. One that ends too early is a transient fault.
pub(super) fn parse(body: &[u8]) -> Result<ListingPage> {
    let bad = |what: String| Error::io(format!("the server sent an invalid listing: {what}"));
    let text = std::str::from_utf8(body).map_err(|_| bad("it is not UTF-8".into()))?;
    let mut reader = Reader::from_str(text);
    // The depth of open elements, and the name of the second.
    let (mut row, mut depth) = (String::new(), 0usize);
    let mut leaf = String::new();
    let mut fields = XmlFields::default();
    let mut page = ListingPage::default();
    let (mut encoded, mut truncated, mut whole) = (false, None, false);
    let (mut next_key, mut next_version, mut token) = (None, None, None);
    loop {
        match reader.read_event() {
            Ok(Event::Start(e)) => {
                depth += 1;
                leaf.clear();
                if depth == 2 {
                    row.clear();
                    row.push_str(&String::from_utf8_lossy(e.local_name().as_ref()));
                    fields = XmlFields::default();
                }
            }
            Ok(Event::Text(e)) => {
                leaf.push_str(&e.decode().map_err(|e| bad(e.to_string()))?);
            }
            Ok(Event::CData(e)) => {
                leaf.push_str(&e.decode().map_err(|e| bad(e.to_string()))?);
            }
            Ok(Event::GeneralRef(e)) => {
                if let Some(c) = e.resolve_char_ref().map_err(|e| bad(e.to_string()))? {
                    leaf.push(c);
                } else {
                    let name = e.decode().map_err(|e| bad(e.to_string()))?;
                    leaf.push_str(resolve_predefined_entity(&name).ok_or_else(|| bad(format!("&{name};")))?);
                }
            }
            Ok(Event::End(e)) => {
                let name = e.local_name();
                let value = std::mem::take(&mut leaf);
                match (depth, row.as_str(), name.as_ref()) {
                    (2, _, b"EncodingType") => encoded = value == "url",
                    (2, _, b"IsTruncated") => truncated = Some(is_true(&value)),
                    (2, _, b"KeyCount") => page.count = value.parse().ok(),
                    (2, _, b"NextKeyMarker") => next_key = Some(value).filter(|v| !v.is_empty()),
                    (2, _, b"NextVersionIdMarker") => next_version = Some(value).filter(|v| !v.is_empty()),
                    (2, _, b"NextContinuationToken") => token = Some(value).filter(|v| !v.is_empty()),
                    (3, "CommonPrefixes", b"Prefix") => page.prefixes.push(value),
                    (3, "Version" | "DeleteMarker" | "Contents", name) => match name {
                        b"Key" => fields.key = Some(value),
                        b"VersionId" => fields.version = Some(value),
                        b"ETag" => fields.etag = Some(value),
                        b"Size" => fields.size = Some(value),
                        b"LastModified" => fields.modified = Some(value),
                        b"IsLatest" => fields.latest = Some(value),
                        _ => {}
                    },
                    (2, kind @ ("Version" | "DeleteMarker" | "Contents"), _) => {
                        let entry = entry(std::mem::take(&mut fields), kind).map_err(bad)?;
                        page.entries.push(entry);
                    }
                    (1, _, b"Error") => {
                        return Err(transient("the server sent an error instead of a listing"));
                    }
                    (1, _, b"ListVersionsResult" | b"ListBucketResult") => whole = true,
                    _ => {}
                }
                depth = depth.saturating_sub(1);
            }
            Ok(Event::Empty(_) | Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_)) => {}
            Ok(Event::Eof) if whole && depth == 0 => break,
            Ok(Event::Eof) => return Err(transient("the server's listing ends too early")),
            Err(quick_xml::Error::Syntax(_)) => {
                return Err(transient("the server's listing ends too early"));
            }
            Err(e) => return Err(bad(e.to_string())),
        }
    }
    if encoded {
        let decode = |text: &mut String| -> Result<()> {
            if text.contains(['%', '+']) {
                *text = percent_decode(&text.replace('+', " "))
                    .ok_or_else(|| bad(format!("{text:?} is not UTF-8")))?;
            }
            Ok(())
        };
        page.entries.iter_mut().try_for_each(|e| decode(&mut e.key))?;
        page.prefixes.iter_mut().try_for_each(decode)?;
        next_key.iter_mut().try_for_each(decode)?;
    }
    page.says_end = truncated.is_some() || token.is_some();
    join_kinds(&mut page.entries);
    // Without `IsTruncated`, a marker means that there is more.
    if truncated.unwrap_or(token.is_some() || next_key.is_some()) {
        let last = page.entries.last();
        page.next = match (token, next_key, last) {
            (Some(token), ..) => Some(Next::Token(token)),
            // Older versions of the key may follow: without the version marker they would be skipped.
            (None, Some(key), Some(last)) if next_version.is_none() && last.key == key => {
                Some(Next::Version { key, version: Some(last.version.clone()) })
            }
            (None, Some(key), _) => Some(Next::Version { key, version: next_version }),
            // Without a marker, the listing continues after the last key.
            (None, None, last) => {
                let folder = page.prefixes.last().filter(|p| last.is_none_or(|last| last.key < **p));
                match (folder, last) {
                    (Some(folder), _) => Some(Next::Version { key: folder.clone(), version: None }),
                    (None, Some(last)) => {
                        Some(Next::Version { key: last.key.clone(), version: Some(last.version.clone()) })
                    }
                    (None, None) => None,
                }
            }
        };
        if page.next.is_none() {
            return Err(bad("it is truncated, but has no continuation marker".into()));
        }
    }
    Ok(page)
}

/// Some servers list all versions of a page first and all delete markers after them. Sorts them by key, the newest of a
/// key first.
fn join_kinds(entries: &mut [ObjectVersion]) {
    let first = entries.first().is_some_and(|e| e.deleted);
    let (one, other) = entries.split_at(entries.partition_point(|e| e.deleted == first));
    let apart = other.iter().all(|e| e.deleted != first);
    if apart && !other.is_empty() && [one, other].iter().all(|kind| kind.is_sorted_by_key(|e| &e.key)) {
        entries.sort_by(|a, b| {
            a.key.cmp(&b.key).then_with(|| b.latest.cmp(&a.latest)).then_with(|| b.modified.cmp(&a.modified))
        });
    }
}

/// An XML boolean has two forms.
fn is_true(text: &str) -> bool {
    let text = text.trim();
    text.eq_ignore_ascii_case("true") || text == "1"
}

fn entry(fields: XmlFields, kind: &str) -> std::result::Result<ObjectVersion, String> {
    let key = fields.key.ok_or("an entry without a key")?;
    let modified = fields.modified.unwrap_or_default();
    let modified =
        Time::parse(&modified).map_err(|_| format!("{key:?} has the invalid time {modified:?}"))?.millis();
    let deleted = kind == "DeleteMarker";
    let size = match (deleted, fields.size) {
        (true, _) => 0,
        (false, Some(size)) => size.parse().map_err(|_| format!("{key:?} has the invalid size {size:?}"))?,
        (false, None) => return Err(format!("{key:?} has no size")),
    };
    let etag = fields.etag.unwrap_or_default().trim_matches('"').to_owned();
    let latest = kind == "Contents" || fields.latest.as_deref().is_some_and(is_true);
    let version = fields.version.unwrap_or_else(|| "null".to_owned());
    Ok(ObjectVersion { key, version, etag, size, modified, latest, deleted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_delete_markers_that_stand_apart_are_brought_together() {
        let row = |kind: &str, key: &str, version: &str, second: u32, latest: bool| {
            format!(
                "<{kind}><Key>{key}</Key><VersionId>{version}</VersionId><IsLatest>{latest}</IsLatest>\
                 <LastModified>1970-01-01T00:00:{second:02}Z</LastModified><Size>1</Size></{kind}>"
            )
        };
        let order = |rows: &[String]| -> Vec<String> {
            let text = format!("<ListVersionsResult>{}</ListVersionsResult>", rows.concat());
            parse(text.as_bytes()).unwrap().entries.into_iter().map(|e| e.version).collect()
        };
        let (v, d) = ("Version", "DeleteMarker");
        let apart = [
            row(v, "a", "a3", 30, true),
            row(v, "a", "a1", 10, false),
            row(v, "b", "b1", 10, false),
            row(d, "a", "a2", 20, false),
            row(d, "b", "b2", 20, true),
        ];
        assert_eq!(order(&apart), ["a3", "a2", "a1", "b2", "b1"]);
        // What a server has in its own order stays, whatever the dates say.
        let own = [row(v, "a", "1", 10, true), row(d, "a", "2", 20, false), row(v, "a", "3", 30, false)];
        assert_eq!(order(&own), ["1", "2", "3"]);
    }

    #[test]
    fn a_page_of_versions() {
        let page = parse(
            br#"<?xml version="1.0"?><ListVersionsResult xmlns="x"><EncodingType>url</EncodingType>
            <IsTruncated>true</IsTruncated><NextKeyMarker>a%2Fz+z</NextKeyMarker>
            <NextVersionIdMarker>v9</NextVersionIdMarker>
            <Version><Key>a%2F%2B+%25</Key><VersionId>v1</VersionId><IsLatest>true</IsLatest>
            <LastModified>2022-06-27T23:07:47.120Z</LastModified><ETag>&quot;abc&#45;2&quot;</ETag><Size>7</Size>
            <Owner><ID>o</ID></Owner></Version>
            <DeleteMarker><Key>b</Key><VersionId>v2</VersionId><IsLatest>false</IsLatest>
            <LastModified>1970-01-01T00:00:01Z</LastModified></DeleteMarker>
            <CommonPrefixes><Prefix>c%2F</Prefix></CommonPrefixes></ListVersionsResult>"#,
        )
        .unwrap();
        let [first, second] = page.entries.as_slice() else { panic!("{page:?}") };
        assert_eq!((first.key.as_str(), first.etag.as_str(), first.size), ("a/+ %", "abc-2", 7));
        assert_eq!((first.modified, first.latest, first.deleted), (1_656_371_267_120, true, false));
        assert_eq!((second.modified, second.latest, second.deleted), (1000, false, true));
        assert_eq!(page.prefixes, ["c/"]);
        assert_eq!(page.next, Some(Next::Version { key: "a/z z".into(), version: Some("v9".into()) }));
    }

    #[test]
    fn the_marker_of_a_key_has_a_version() {
        let row = "<Version><Key>k</Key><VersionId>v7</VersionId><Size>1</Size>\
            <LastModified>2026-11-15T20:02:14Z</LastModified></Version>";
        let next = |text: &str| {
            let text = format!("<ListVersionsResult>{text}</ListVersionsResult>");
            parse(text.as_bytes()).unwrap().next
        };
        let at = |key: &str, version: Option<&str>| {
            Some(Next::Version { key: key.to_owned(), version: version.map(str::to_owned) })
        };
        let more = "<IsTruncated>true</IsTruncated>";
        let marker = "<NextKeyMarker>k</NextKeyMarker>";
        assert_eq!(next(&format!("{more}{marker}{row}")), at("k", Some("v7")));
        let empty = "<NextVersionIdMarker></NextVersionIdMarker>";
        assert_eq!(next(&format!("{more}{marker}{empty}{row}")), at("k", Some("v7")));
        assert_eq!(next(&format!("{more}{row}")), at("k", Some("v7")));
        // Said to go on by where, though not by whether.
        assert_eq!(next(&format!("{marker}{row}")), at("k", Some("v7")));
        assert_eq!(next(&format!("<IsTruncated>false</IsTruncated>{marker}{row}")), None);
        // A page that ends with a folder.
        let folder = "<CommonPrefixes><Prefix>l/</Prefix></CommonPrefixes>";
        assert_eq!(next(&format!("{more}{row}{folder}")), at("l/", None));
    }

    #[test]
    fn keys_are_taken_as_they_stand_where_the_server_does_not_encode() {
        let page = parse(
            b"<ListVersionsResult><Version><Key>a+b%2B &amp;c</Key><VersionId>v</VersionId><Size>1</Size>\
            <LastModified>2026-11-15T20:02:14Z</LastModified></Version></ListVersionsResult>",
        )
        .unwrap();
        assert_eq!(page.entries.first().unwrap().key, "a+b%2B &c");
        assert_eq!(page.next, None);
    }

    #[test]
    fn a_page_that_is_cut_off_may_be_whole_the_next_time() {
        use crate::store::fault::as_transient;
        let text = b"<ListVersionsResult><Version><Key>a</Key><VersionId>v</VersionId><Size>1</Size>\
            <LastModified>2026-11-15T20:02:14Z</LastModified></Version></ListVersionsResult>";
        for end in 0..text.len() {
            let error = parse(text.get(..end).unwrap()).unwrap_err();
            assert!(as_transient(&error).is_some(), "{end}: {error}");
        }
        let forged = b"<ListVersionsResult><Version><Key>a</Key><Size>-1</Size>\
            <LastModified>2026-11-15T20:02:14Z</LastModified></Version></ListVersionsResult>";
        assert!(as_transient(&parse(forged).unwrap_err()).is_none());
    }
}
