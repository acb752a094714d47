//! One page of a listing, as S3 and its like write it.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use super::versions::ObjectVersion;
use crate::error::{Error, Result};
use crate::store::fault::transient;
use crate::store::percent_decode;

/// A page of `ListObjectVersions` or `ListObjectsV2`.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) entries: Vec<ObjectVersion>,
    /// Common prefixes, whole, with their closing slash.
    pub(super) prefixes: Vec<String>,
    pub(super) next: Option<Next>,
}

/// Where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// After this version of this key.
    Version { key: String, version: Option<String> },
    /// Where this token says.
    Token(String),
}

/// The fields of one element, as they stand there.
#[derive(Debug, Default)]
struct Fields {
    key: Option<String>,
    version: Option<String>,
    etag: Option<String>,
    size: Option<String>,
    modified: Option<String>,
    latest: Option<String>,
}

/// Reads a page. One that ends too early is a fault that may pass.
pub(super) fn parse(body: &[u8]) -> Result<Page> {
    let bad = |what: String| Error::io(format!("the server's listing makes no sense: {what}"));
    let text = std::str::from_utf8(body).map_err(|_| bad("it is not Unicode".into()))?;
    let mut reader = Reader::from_str(text);
    let mut path: Vec<String> = Vec::new();
    let mut leaf = String::new();
    let mut fields = Fields::default();
    let mut page = Page::default();
    let (mut encoded, mut truncated, mut whole) = (false, false, false);
    let (mut next_key, mut next_version, mut token) = (None, None, None);
    loop {
        match reader.read_event() {
            Ok(Event::Start(e)) => {
                path.push(String::from_utf8_lossy(e.local_name().as_ref()).into_owned());
                leaf.clear();
                if path.len() == 2 {
                    fields = Fields::default();
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
            Ok(Event::End(_)) => {
                let names: Vec<&str> = path.iter().map(String::as_str).collect();
                let value = std::mem::take(&mut leaf);
                match names.as_slice() {
                    [_, "EncodingType"] => encoded = value == "url",
                    [_, "IsTruncated"] => truncated = value == "true",
                    [_, "NextKeyMarker"] => next_key = Some(value),
                    [_, "NextVersionIdMarker"] => next_version = Some(value).filter(|v| !v.is_empty()),
                    [_, "NextContinuationToken"] => token = Some(value),
                    [_, "CommonPrefixes", "Prefix"] => page.prefixes.push(value),
                    [_, "Version" | "DeleteMarker" | "Contents", name] => match *name {
                        "Key" => fields.key = Some(value),
                        "VersionId" => fields.version = Some(value),
                        "ETag" => fields.etag = Some(value),
                        "Size" => fields.size = Some(value),
                        "LastModified" => fields.modified = Some(value),
                        "IsLatest" => fields.latest = Some(value),
                        _ => {}
                    },
                    [_, kind @ ("Version" | "DeleteMarker" | "Contents")] => {
                        let entry = entry(std::mem::take(&mut fields), kind).map_err(bad)?;
                        page.entries.push(entry);
                    }
                    ["Error"] => return Err(transient("the server sent an error in place of a listing")),
                    ["ListVersionsResult" | "ListBucketResult"] => whole = true,
                    _ => {}
                }
                path.pop();
            }
            Ok(Event::Empty(_) | Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_)) => {}
            Ok(Event::Eof) if whole && path.is_empty() => break,
            Ok(Event::Eof) => return Err(transient("the server's listing ends too early")),
            Err(quick_xml::Error::Syntax(_)) => {
                return Err(transient("the server's listing ends too early"));
            }
            Err(e) => return Err(bad(e.to_string())),
        }
    }
    if encoded {
        let decode = |text: &mut String| -> Result<()> {
            *text = percent_decode(&text.replace('+', " "))
                .ok_or_else(|| bad(format!("{text:?} is not Unicode")))?;
            Ok(())
        };
        page.entries.iter_mut().try_for_each(|e| decode(&mut e.key))?;
        page.prefixes.iter_mut().try_for_each(decode)?;
        next_key.iter_mut().try_for_each(decode)?;
    }
    if truncated {
        page.next = match (token, next_key) {
            (Some(token), _) => Some(Next::Token(token)),
            (None, Some(key)) => Some(Next::Version { key, version: next_version }),
            // A server that does not say goes on after the last it named.
            (None, None) => page
                .entries
                .last()
                .map(|e| Next::Version { key: e.key.clone(), version: Some(e.version.clone()) }),
        };
        if page.next.is_none() {
            return Err(bad("it goes on, but does not say where".into()));
        }
    }
    Ok(page)
}

fn entry(fields: Fields, kind: &str) -> std::result::Result<ObjectVersion, String> {
    let key = fields.key.ok_or("an entry without a key")?;
    let modified = fields.modified.as_deref().and_then(parse_time).ok_or_else(|| {
        format!("{key:?} was last changed at {:?}", fields.modified.as_deref().unwrap_or(""))
    })?;
    let deleted = kind == "DeleteMarker";
    let size = match (deleted, fields.size) {
        (true, _) => 0,
        (false, Some(size)) => size.parse().map_err(|_| format!("{key:?} has the size {size:?}"))?,
        (false, None) => return Err(format!("{key:?} has no size")),
    };
    let etag = fields.etag.unwrap_or_default().trim_matches('"').to_owned();
    let latest = kind == "Contents" || fields.latest.as_deref() == Some("true");
    let version = fields.version.unwrap_or_else(|| "null".to_owned());
    Ok(ObjectVersion { key, version, etag, size, modified, latest, deleted })
}

/// `2022-06-27T23:07:47.000Z` in milliseconds since 1970; also without the fraction, and with an offset.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let field = |from: usize, to: usize| -> Option<i64> {
        text.get(from..to).filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
    };
    let mark = |at: usize, of: &[u8]| text.as_bytes().get(at).filter(|b| of.contains(b)).map(|_| ());
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    mark(4, b"-")?;
    mark(7, b"-")?;
    mark(10, b"Tt ")?;
    let (hour, minute, second) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
    mark(13, b":")?;
    mark(16, b":")?;
    let rest = text.get(19..)?;
    let (millis, zone) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(fraction) => {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            let first: String = fraction.get(..digits)?.chars().chain("000".chars()).take(3).collect();
            (first.parse::<i64>().ok().filter(|_| digits > 0)?, fraction.get(digits..)?)
        }
    };
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let sign = match zone.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let digits: String = zone.get(1..)?.chars().filter(|c| *c != ':').collect();
            let (h, m) = digits.split_at_checked(2)?;
            sign * (h.parse::<i64>().ok()? * 60 + m.parse::<i64>().ok().filter(|_| m.len() == 2)?)
        }
    };
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970, by eras of 400 years that begin in March.
    let y = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let month_of_year = (month + 9) % 12;
    let day_of_year = (153 * month_of_year + 2) / 5 + day - 1;
    let days =
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    Some(((days * 24 + hour) * 60 + minute - offset) * 60_000 + second * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn times() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00+02:00", 951_818_400_000),
            ("2022-06-27 23:07:47.5-00:30", 1_656_373_067_500),
            ("1969-12-31T23:59:59.999Z", -1),
        ] {
            assert_eq!(parse_time(text), Some(millis), "{text}");
        }
        for bad in ["", "2022-06-27", "2022-13-01T00:00:00Z", "2022-06-27T23:07:47", "2022-06-27T23:07:47.Z"]
        {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }
}
