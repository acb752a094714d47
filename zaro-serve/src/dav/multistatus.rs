//! The answer to a PROPFIND: a response for each member, with its properties. What is asked for without names has one
//! `propstat` in each response, and a date in it, folders included: some clients take nothing else.

use std::fmt::Write as _;
use std::time::SystemTime;

use zaro::store::ObjectMeta;

use super::ask::{Ask, DAV, Name};
use crate::listing::{Row, date, push_escaped};
use crate::path::encode;
use crate::raw;

/// The namespace of the property with checksums, which rclone and others know.
const OWNCLOUD: &str = "http://owncloud.org/ns";

pub(super) const HEAD: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
pub(super) const TAIL: &str = "</D:multistatus>\n";

/// A property that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Property {
    Kind,
    Name,
    Length,
    Modified,
    Tag,
    Type,
    Locks,
    Checksums,
}

/// Those that are sent to whoever asks for all.
const USUAL: [Property; 6] =
    [Property::Kind, Property::Name, Property::Length, Property::Modified, Property::Tag, Property::Type];

impl Property {
    fn of(name: &Name) -> Option<Self> {
        match (name.space.as_str(), name.local.as_str()) {
            (DAV, "resourcetype") => Some(Self::Kind),
            (DAV, "displayname") => Some(Self::Name),
            (DAV, "getcontentlength") => Some(Self::Length),
            (DAV, "getlastmodified") => Some(Self::Modified),
            (DAV, "getetag") => Some(Self::Tag),
            (DAV, "getcontenttype") => Some(Self::Type),
            (DAV, "supportedlock") => Some(Self::Locks),
            (OWNCLOUD, "checksums") => Some(Self::Checksums),
            _ => None,
        }
    }

    fn element(self) -> &'static str {
        match self {
            Self::Kind => "D:resourcetype",
            Self::Name => "D:displayname",
            Self::Length => "D:getcontentlength",
            Self::Modified => "D:getlastmodified",
            Self::Tag => "D:getetag",
            Self::Type => "D:getcontenttype",
            Self::Locks => "D:supportedlock",
            Self::Checksums => "oc:checksums",
        }
    }
}

/// How responses are written.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) ask: Ask,
    /// The path on this server of the folder that is listed, encoded, with a closing slash; or of the one object.
    pub(super) base: String,
    /// The date of what has none.
    pub(super) since: SystemTime,
    /// Whether the tags of objects are MD5s of their content, if they look like it.
    pub(super) md5: bool,
}

impl Writer {
    /// The response for a member, or for the folder or object itself, whose row has no path.
    pub(super) fn push(&self, row: &Row, out: &mut String) {
        out.push_str("<D:response><D:href>");
        // What is encoded needs no escape.
        let slash = if row.folder && !row.path.is_empty() { "/" } else { "" };
        let _ = write!(out, "{}{}{slash}</D:href>", self.base, encode(&row.path));
        match &self.ask {
            Ask::All(include) => {
                out.push_str("<D:propstat><D:prop>");
                for property in USUAL {
                    self.push_property(property, row, out);
                }
                for property in include.iter().filter_map(Property::of).filter(|p| !USUAL.contains(p)) {
                    self.push_property(property, row, out);
                }
                close(out, "200 OK");
            }
            Ask::Names => {
                out.push_str("<D:propstat><D:prop>");
                let mut value = String::new();
                for property in USUAL.into_iter().chain([Property::Locks, Property::Checksums]) {
                    value.clear();
                    match property {
                        Property::Checksums if self.push_property(property, row, &mut value) => {
                            let _ = write!(out, "<oc:checksums xmlns:oc=\"{OWNCLOUD}\"/>");
                        }
                        Property::Checksums => {}
                        other if self.push_property(other, row, &mut value) => {
                            let _ = write!(out, "<{}/>", other.element());
                        }
                        _ => {}
                    }
                }
                close(out, "200 OK");
            }
            Ask::Some(names) => self.push_named(names, row, out),
        }
        out.push_str("</D:response>\n");
    }

    /// Those that are there, and those that are not.
    fn push_named(&self, names: &[Name], row: &Row, out: &mut String) {
        let (mut found, mut missing) = (String::new(), String::new());
        for name in names {
            if Property::of(name).is_some_and(|property| self.push_property(property, row, &mut found)) {
                continue;
            }
            match name.space.as_str() {
                DAV => {
                    let _ = write!(missing, "<D:{}/>", name.local);
                }
                "" => {
                    let _ = write!(missing, "<{}/>", name.local);
                }
                space => {
                    let _ = write!(missing, "<P:{} xmlns:P=\"", name.local);
                    push_escaped(&mut missing, space);
                    missing.push_str("\"/>");
                }
            }
        }
        if !found.is_empty() || missing.is_empty() {
            let _ = write!(out, "<D:propstat><D:prop>{found}");
            close(out, "200 OK");
        }
        if !missing.is_empty() {
            let _ = write!(out, "<D:propstat><D:prop>{missing}");
            close(out, "404 Not Found");
        }
    }

    /// Appends a property with its value; `false` if it has none.
    fn push_property(&self, property: Property, row: &Row, out: &mut String) -> bool {
        let element = property.element();
        let done = match property {
            Property::Kind if row.folder => {
                write!(out, "<{element}><D:collection/></{element}>")
            }
            Property::Kind | Property::Locks => write!(out, "<{element}/>"),
            Property::Name => {
                let _ = write!(out, "<{element}>");
                push_escaped(out, &self.name(row));
                write!(out, "</{element}>")
            }
            Property::Modified => {
                let modified = row.modified().unwrap_or(self.since);
                write!(out, "<{element}>{}</{element}>", date(modified))
            }
            _ if row.folder => return false,
            Property::Length => match row.size() {
                Some(size) => write!(out, "<{element}>{size}</{element}>"),
                None => return false,
            },
            Property::Tag => match row.tag() {
                Some(tag) => {
                    let _ = write!(out, "<{element}>");
                    push_escaped(out, &tag);
                    write!(out, "</{element}>")
                }
                None => return false,
            },
            Property::Type => {
                write!(out, "<{element}>{}</{element}>", raw::content_type(&self.name(row)))
            }
            Property::Checksums => match self.md5_of(row) {
                Some(md5) => {
                    let _ = write!(out, "<{element} xmlns:oc=\"{OWNCLOUD}\"><oc:checksum>MD5:{md5}");
                    write!(out, "</oc:checksum></{element}>")
                }
                None => return false,
            },
        };
        done.is_ok()
    }

    /// The last part of the path.
    fn name(&self, row: &Row) -> String {
        if !row.path.is_empty() {
            return row.name().to_owned();
        }
        let last = self.base.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        percent_encoding::percent_decode_str(last).decode_utf8_lossy().into_owned()
    }

    /// The MD5 of an object, where its tag is one. That of an upload in parts has a dash; that of a document that was
    /// made for a view looks like one, but has no date.
    fn md5_of(&self, row: &Row) -> Option<String> {
        let ObjectMeta::Remote(remote) = &row.meta else { return None };
        remote.modified?;
        let tag = remote.etag.as_deref()?.trim_matches('"');
        let is_md5 = self.md5 && tag.len() == 32 && tag.bytes().all(|b| b.is_ascii_hexdigit());
        is_md5.then(|| tag.to_ascii_lowercase())
    }
}

fn close(out: &mut String, status: &str) {
    let _ = write!(out, "</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;
    use zaro::store::RemoteMeta;

    fn written(ask: Ask, md5: bool, path: &str, etag: &str) -> String {
        let writer = Writer { ask, base: "/data/x/".to_owned(), since: UNIX_EPOCH, md5 };
        let etag = Some(etag.to_owned());
        let meta = RemoteMeta { etag, size: Some(3), modified: Some(0), version: None };
        let mut out = String::new();
        writer.push(&Row { path: path.to_owned(), folder: false, meta: meta.into() }, &mut out);
        out
    }

    #[test]
    fn checksums_are_said_only_where_a_tag_is_one() {
        let md5 = "0123456789abcdef0123456789ABCDEF";
        let name = Name { space: OWNCLOUD.to_owned(), local: "checksums".to_owned() };
        let asked = |md5: bool, tag: &str| written(Ask::Some(vec![name.clone()]), md5, "a", tag);
        let said = "<oc:checksum>MD5:0123456789abcdef0123456789abcdef</oc:checksum>";
        assert!(asked(true, &format!("\"{md5}\"")).contains(said));
        for (md5, tag) in [(false, md5), (true, "0123456789abcdef0123456789abcdef-3"), (true, "abc")] {
            let answer = asked(md5, tag);
            assert!(!answer.contains("MD5") && answer.contains("404 Not Found"), "{answer}");
        }
        assert!(!written(Ask::All(vec![]), true, "a", md5).contains("MD5"));
        assert!(written(Ask::All(vec![name]), true, "a", md5).contains(said));
    }

    #[test]
    fn nothing_is_sent_unescaped() {
        let odd = written(Ask::All(vec![]), false, "a/<&\"\u{1}é>", "\"a&b\"");
        assert!(odd.contains("<D:href>/data/x/a/%3C%26%22%01%C3%A9%3E</D:href>"), "{odd}");
        assert!(odd.contains("<D:displayname>&lt;&amp;&quot;\u{fffd}é&gt;</D:displayname>"), "{odd}");
        assert!(odd.contains("<D:getetag>&quot;a&amp;b&quot;</D:getetag>"), "{odd}");
        let name = Name { space: "a\"b<".to_owned(), local: "c".to_owned() };
        let unknown = written(Ask::Some(vec![name]), false, "a", "x");
        assert!(unknown.contains("<P:c xmlns:P=\"a&quot;b&lt;\"/>"), "{unknown}");
        assert_eq!(unknown.matches("<D:propstat>").count(), 1);
    }
}
