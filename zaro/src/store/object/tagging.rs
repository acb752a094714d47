//! Requests for single objects and versions of a bucket: get, put with tags, read and change tags, delete.

use std::fs::File;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use quick_xml::Reader;
use quick_xml::escape::{escape, resolve_predefined_entity};
use quick_xml::events::Event;
use reqwest::Method;
use reqwest::header::HeaderMap;

use super::bucket::{Ask, Bucket, BucketAnswer, FileBody};
use crate::boxed;
use crate::error::{Error, ErrorKind, Result};
use crate::num::u64_of;
use crate::store::fault::transient;
use crate::store::{Put, percent_encode};

/// Bytes of an object.
#[derive(Debug)]
pub(crate) struct ObjectPart {
    pub(crate) version: Option<String>,
    /// Without quotes.
    pub(crate) etag: Option<String>,
    /// Of the whole object.
    pub(crate) size: u64,
    pub(crate) bytes: Bytes,
}

/// The versioning state of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versioning {
    /// Every put and every delete creates a version.
    Enabled,
    /// Versioning was enabled, and is suspended now.
    Suspended,
    /// Versioning was never enabled.
    Never,
}

/// The tags of an object, by name and value.
type Tags = Vec<(String, String)>;

impl Bucket {
    /// The whole object, in the given version or the current one; `None` if it does not exist.
    #[boxed]
    pub async fn get(&self, key: &str, version: Option<&str>) -> Result<Option<Bytes>> {
        let ask = of_version(Ask::new(Method::GET, key), version);
        match self.call(&ask).await? {
            BucketAnswer::Done(_, body) => Ok(Some(body)),
            BucketAnswer::Missing => Ok(None),
            BucketAnswer::Refused => Err(Error::io("the server refused an unconditional read").with_key(key)),
        }
    }

    /// The bytes `(offset, length)` of the given version, or all of it, with its metadata.
    pub(crate) async fn get_part(
        &self,
        key: &str,
        version: Option<&str>,
        span: Option<(u64, u64)>,
    ) -> Result<Option<ObjectPart>> {
        let mut ask = of_version(Ask::new(Method::GET, key), version);
        if let Some((offset, length)) = span.filter(|(_, length)| *length > 0) {
            let last = offset.saturating_add(length).saturating_sub(1);
            ask = ask.header("range", format!("bytes={offset}-{last}"));
        }
        let (headers, bytes) = match self.call(&ask).await? {
            BucketAnswer::Done(headers, body) => (headers, body),
            BucketAnswer::Missing => return Ok(None),
            BucketAnswer::Refused => {
                return Err(Error::io("the server refused an unconditional read").with_key(key));
            }
        };
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let range = text("content-range").and_then(|range| range.strip_prefix("bytes ")?.split_once('/'));
        let size = match (range, span) {
            (Some((sent, size)), Some((offset, _))) if sent.starts_with(&format!("{offset}-")) => {
                size.parse().ok()
            }
            (None, None) => Some(u64_of(bytes.len())),
            _ => None,
        };
        let short = span.is_some_and(|(_, length)| length != u64_of(bytes.len()));
        let Some(size) = size.filter(|_| !short) else {
            return Err(Error::io("the server did not send the requested range").with_key(key));
        };
        let etag = text("etag").map(|t| t.trim_matches('"').to_owned());
        Ok(Some(ObjectPart { version: text("x-amz-version-id").map(str::to_owned), etag, size, bytes }))
    }

    /// The size and the `ETag`, without quotes, of the current object; `None` if it does not exist.
    #[boxed]
    pub async fn head(&self, key: &str) -> Result<Option<(u64, String)>> {
        match self.call(&Ask::new(Method::HEAD, key)).await? {
            BucketAnswer::Done(headers, _) => {
                let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
                let size = text("content-length").and_then(|n| n.parse().ok());
                let etag = text("etag").unwrap_or_default().trim_matches('"').to_owned();
                let size =
                    size.ok_or_else(|| Error::io("the server sent no size for the object").with_key(key))?;
                Ok(Some((size, etag)))
            }
            BucketAnswer::Missing => Ok(None),
            BucketAnswer::Refused => Err(Error::io("the server refused an unconditional read").with_key(key)),
        }
    }

    /// Puts an object and its tags with one request; with `absent` only if it does not exist.
    #[boxed]
    pub async fn put(&self, key: &str, value: Bytes, tags: &[(&str, &str)], absent: bool) -> Result<Put> {
        self.put_as(Ask::new(Method::PUT, key).body(value), tags, absent).await
    }

    /// The same from a file, which is not held in memory; `md5` is its digest.
    #[boxed]
    pub async fn put_file(
        &self,
        key: &str,
        file: Arc<File>,
        md5: [u8; 16],
        tags: &[(&str, &str)],
        absent: bool,
    ) -> Result<Put> {
        let size = file.metadata()?.len();
        let digest = base64::engine::general_purpose::STANDARD.encode(md5);
        let mut ask = Ask::new(Method::PUT, key).header("content-md5", digest);
        ask.file = Some(FileBody { file, size });
        self.put_as(ask, tags, absent).await
    }

    async fn put_as(&self, ask: Ask<'_>, tags: &[(&str, &str)], absent: bool) -> Result<Put> {
        let mut ask = ask.header("content-type", "application/json");
        if absent {
            ask = ask.header("if-none-match", "*");
        }
        if !tags.is_empty() {
            // A space as %20, which all servers accept; Ceph takes a plus sign literally.
            let pair =
                |(name, value): &(&str, &str)| format!("{}={}", percent_encode(name), percent_encode(value));
            ask = ask.header("x-amz-tagging", tags.iter().map(pair).collect::<Vec<_>>().join("&"));
        }
        // Some servers respond with a success status and then an error in the body.
        let confirm = |headers: HeaderMap, body: Bytes| match headers.contains_key("etag") && !is_error(&body)
        {
            true => Ok(BucketAnswer::Done(headers, body)),
            false => Err(transient("the server did not confirm the put with an ETag")),
        };
        match self.call_for(&ask, confirm).await? {
            BucketAnswer::Done(..) => Ok(Put::Done),
            BucketAnswer::Refused => Ok(Put::Refused),
            BucketAnswer::Missing => Err(Error::not_found("the bucket does not exist").with_store(self)),
        }
    }

    /// The tags of an object; `None` if there is no such object or version.
    #[boxed]
    pub async fn tags(&self, key: &str, version: Option<&str>) -> Result<Option<Tags>> {
        let ask = of_version(Ask::new(Method::GET, key).query("tagging", ""), version);
        match self.call(&ask).await? {
            BucketAnswer::Done(_, body) => {
                parse_tags(&body).map(Some).map_err(|e| e.with_key(key).with_store(self))
            }
            BucketAnswer::Missing => Ok(None),
            BucketAnswer::Refused => Err(Error::io("the server refused an unconditional read").with_key(key)),
        }
    }

    /// Replaces the tags of an object; `false` if there is no such object or version.
    #[boxed]
    pub async fn set_tags(
        &self,
        key: &str,
        version: Option<&str>,
        tags: &[(String, String)],
    ) -> Result<bool> {
        let ask = if tags.is_empty() {
            Ask::new(Method::DELETE, key)
        } else {
            let set: String = tags
                .iter()
                .map(|(k, v)| format!("<Tag><Key>{}</Key><Value>{}</Value></Tag>", escape(k), escape(v)))
                .collect();
            Ask::new(Method::PUT, key).body(format!("<Tagging><TagSet>{set}</TagSet></Tagging>"))
        };
        let ask = of_version(ask.query("tagging", ""), version);
        let confirm = |headers: HeaderMap, body: Bytes| match is_error(&body) {
            true => Err(transient("the server answered with an error")),
            false => Ok(BucketAnswer::Done(headers, body)),
        };
        Ok(matches!(self.call_for(&ask, confirm).await?, BucketAnswer::Done(..)))
    }

    /// Adds a tag to an object, unless it is already set.
    #[boxed]
    pub async fn add_tag(&self, key: &str, name: &str, value: &str) -> Result<()> {
        let mut tags = self.tags(key, None).await?.unwrap_or_default();
        if tags.iter().any(|(k, v)| k == name && v == value) {
            return Ok(());
        }
        tags.retain(|(k, _)| k != name);
        tags.push((name.to_owned(), value.to_owned()));
        self.set_tags(key, None, &tags).await.map(|_| ())
    }

    /// Removes the tag `name` from an object and keeps the others; `true` if it was set.
    #[boxed]
    pub async fn clear_tag(&self, key: &str, version: Option<&str>, name: &str) -> Result<bool> {
        let Some(mut tags) = self.tags(key, version).await? else { return Ok(false) };
        let before = tags.len();
        tags.retain(|(k, _)| k != name);
        if tags.len() == before {
            return Ok(false);
        }
        self.set_tags(key, version, &tags).await
    }

    /// The versioning state; `None` where the server does not report it.
    #[boxed]
    pub async fn keeps_versions(&self) -> Result<Option<Versioning>> {
        let ask = Ask::new(Method::GET, "").query("versioning", "");
        let said = match self.call(&ask).await {
            Ok(BucketAnswer::Done(_, body)) => String::from_utf8_lossy(&body).into_owned(),
            Ok(_) => return Ok(None),
            Err(e) if matches!(e.kind(), ErrorKind::NotPermitted | ErrorKind::Unsupported) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let status = said.split_once("<Status>").and_then(|(_, rest)| rest.split_once("</Status>"));
        Ok(match status.map(|(status, _)| status.trim()) {
            Some("Enabled") => Some(Versioning::Enabled),
            Some("Suspended") => Some(Versioning::Suspended),
            None if said.contains("VersioningConfiguration") => Some(Versioning::Never),
            _ => None,
        })
    }

    /// Deletes one version of an object permanently, or without `version` adds a delete marker. Succeeds if it does not
    /// exist.
    #[boxed]
    pub async fn delete(&self, key: &str, version: Option<&str>) -> Result<()> {
        self.call(&of_version(Ask::new(Method::DELETE, key), version)).await.map(|_| ())
    }
}

/// Whether a response body is an error document.
fn is_error(body: &[u8]) -> bool {
    body.windows(6).any(|w| w == b"<Error")
}

fn of_version<'a>(ask: Ask<'a>, version: Option<&str>) -> Ask<'a> {
    match version {
        Some(version) => ask.query("versionId", version),
        None => ask,
    }
}

fn parse_tags(body: &[u8]) -> Result<Tags> {
    let bad = || Error::io("the server's tagging response is invalid");
    let text = std::str::from_utf8(body).map_err(|_| bad())?;
    let mut reader = Reader::from_str(text);
    let mut out = Tags::new();
    let (mut leaf, mut key) = (String::new(), None);
    loop {
        match reader.read_event().map_err(|e| bad().with_source(e))? {
            Event::Start(_) => leaf.clear(),
            Event::Text(t) => leaf.push_str(&t.decode().map_err(|_| bad())?),
            Event::GeneralRef(r) => match r.resolve_char_ref().map_err(|_| bad())? {
                Some(c) => leaf.push(c),
                None => {
                    let name = r.decode().map_err(|_| bad())?;
                    leaf.push_str(resolve_predefined_entity(&name).ok_or_else(bad)?);
                }
            },
            Event::End(e) => match e.local_name().as_ref() {
                b"Key" => key = Some(std::mem::take(&mut leaf)),
                b"Value" => out.push((key.take().ok_or_else(bad)?, std::mem::take(&mut leaf))),
                _ => {}
            },
            Event::Eof => return Ok(out),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_as_servers_write_them() {
        let text = b"<Tagging xmlns=\"x\"><TagSet><Tag><Key>a&amp;b</Key><Value></Value></Tag>\
            <Tag><Key>embargoed</Key><Value>true</Value></Tag></TagSet></Tagging>";
        let wanted = [("a&b".to_owned(), String::new()), ("embargoed".to_owned(), "true".to_owned())];
        assert_eq!(parse_tags(text).unwrap(), wanted);
        assert_eq!(parse_tags(b"<Tagging><TagSet/></Tagging>").unwrap(), []);
    }
}
