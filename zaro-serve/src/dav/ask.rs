//! What a PROPFIND asks for: the properties named in its body. The body comes from anybody: no document type, few
//! levels, few names, and every prefix must have been declared.

use quick_xml::NsReader;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;

use crate::answer::Fault;

/// The namespace of WebDAV.
pub(super) const DAV: &str = "DAV:";

/// Elements within elements.
const MOST_LEVELS: usize = 16;

/// Properties that can be named: their names are said again for each member, so that a short question could have a very
/// long answer.
const MOST_NAMES: usize = 64;

/// Bytes of the name of a property and its namespace.
const LONGEST_NAME: usize = 256;

/// The name of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) space: String,
    pub(super) local: String,
}

/// Which properties are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// All that are usual, and these.
    All(Vec<Name>),
    /// The names of those there are.
    Names,
    /// These.
    Some(Vec<Name>),
}

/// What the elements on the second level are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Prop,
    Include,
    /// An extension, which is ignored.
    Other,
}

impl Ask {
    /// Reads a body; an empty one asks for all.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(body).map_err(|_| bad("is not UTF-8"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Ok(Self::All(Vec::new()));
        }
        Reader::default().read(text)
    }
}

fn bad(what: &str) -> Fault {
    Fault::bad(format!("the body {what}"))
}

/// The state of reading a body.
#[derive(Default)]
struct Reader {
    depth: usize,
    done: bool,
    part: Option<Part>,
    ask: Option<Ask>,
    include: Vec<Name>,
}

impl Reader {
    fn read(mut self, text: &str) -> Result<Ask, Fault> {
        let mut xml = NsReader::from_str(text);
        xml.config_mut().expand_empty_elements = true;
        loop {
            let (space, event) = xml.read_resolved_event().map_err(|_| bad("is not well-formed XML"))?;
            match event {
                Event::Start(start) => {
                    let name = name_of(&space, &start)?;
                    self.open(name)?;
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.done |= self.depth == 0;
                }
                Event::Eof if self.depth == 0 && self.done => break,
                Event::Eof => return Err(bad("ends too early")),
                Event::DocType(_) => return Err(bad("has a document type, which is not read")),
                Event::Text(text) if self.depth == 0 && text.iter().any(|b| !b.is_ascii_whitespace()) => {
                    return Err(bad("has text outside of its element"));
                }
                Event::CData(_) | Event::GeneralRef(_) if self.depth == 0 => {
                    return Err(bad("has text outside of its element"));
                }
                _ => {}
            }
        }
        match self.ask {
            Some(Ask::All(_)) => Ok(Ask::All(self.include)),
            Some(ask) => Ok(ask),
            None => Err(bad("asks for nothing")),
        }
    }

    fn open(&mut self, name: Name) -> Result<(), Fault> {
        if self.done {
            return Err(bad("has two elements"));
        }
        let is_dav = name.space == DAV;
        match self.depth {
            0 if !is_dav || name.local != "propfind" => return Err(bad("is not a propfind")),
            1 => {
                let (part, ask) = match name.local.as_str() {
                    "prop" if is_dav => (Part::Prop, Some(Ask::Some(Vec::new()))),
                    "allprop" if is_dav => (Part::Other, Some(Ask::All(Vec::new()))),
                    "propname" if is_dav => (Part::Other, Some(Ask::Names)),
                    "include" if is_dav => (Part::Include, None),
                    _ => (Part::Other, None),
                };
                if ask.is_some() && self.ask.is_some() {
                    return Err(bad("asks for two things"));
                }
                self.ask = ask.or_else(|| self.ask.take());
                self.part = Some(part);
            }
            2 => self.note(name)?,
            _ => {}
        }
        self.depth = self.depth.saturating_add(1);
        if self.depth > MOST_LEVELS { Err(bad("has too many levels")) } else { Ok(()) }
    }

    /// Notes a property that is named.
    fn note(&mut self, name: Name) -> Result<(), Fault> {
        let names = match (self.part, &mut self.ask) {
            (Some(Part::Prop), Some(Ask::Some(names))) => names,
            (Some(Part::Include), _) => &mut self.include,
            _ => return Ok(()),
        };
        if name.space.len().saturating_add(name.local.len()) > LONGEST_NAME || names.len() >= MOST_NAMES {
            return Err(bad("names too many properties"));
        }
        if !names.contains(&name) {
            names.push(name);
        }
        Ok(())
    }
}

/// The name of an element, whose prefix and attributes must be in order.
fn name_of(space: &ResolveResult<'_>, start: &BytesStart<'_>) -> Result<Name, Fault> {
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|_| bad("is not well-formed XML"))?;
        // A prefix cannot be taken back.
        if attribute.key.as_ref().starts_with(b"xmlns:") && attribute.value.is_empty() {
            return Err(bad("has a prefix without a namespace"));
        }
    }
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| bad("is not UTF-8"));
    let space = match space {
        ResolveResult::Unbound => String::new(),
        ResolveResult::Bound(space) => {
            let raw = text(space.as_ref())?;
            let plain = quick_xml::escape::unescape(&raw).map_err(|_| bad("is not well-formed XML"))?;
            plain.into_owned()
        }
        ResolveResult::Unknown(_) => return Err(bad("has a prefix that was not declared")),
    };
    let local = text(start.local_name().as_ref())?;
    if !is_name(&local) {
        return Err(bad("has a name that is none"));
    }
    Ok(Name { space, local })
}

/// Whether this can be the name of an element. Narrower than XML, which allows more punctuation beyond ASCII.
fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(space: &str, local: &str) -> Name {
        Name { space: space.to_owned(), local: local.to_owned() }
    }

    #[test]
    fn bodies_say_what_is_wanted() {
        let parsed = |text: &str| Ask::parse(text.as_bytes()).unwrap();
        assert_eq!(parsed(""), Ask::All(vec![]));
        assert_eq!(parsed(" \r\n"), Ask::All(vec![]));
        assert_eq!(
            parsed("<?xml version=\"1.0\"?>\n<propfind xmlns='DAV:'><allprop/></propfind>\n"),
            Ask::All(vec![])
        );
        assert_eq!(parsed("<a:propfind xmlns:a='DAV:'><a:propname/></a:propfind>"), Ask::Names);
        let text = "<D:propfind xmlns:D='DAV:' xmlns:o='http://owncloud.org/ns'><D:prop><D:getetag/>\
                    <o:checksums><x/></o:checksums><plain/><D:getetag/></D:prop></D:propfind>";
        let wanted =
            vec![name(DAV, "getetag"), name("http://owncloud.org/ns", "checksums"), name("", "plain")];
        assert_eq!(parsed(text), Ask::Some(wanted));
        let text = "<D:propfind xmlns:D='DAV:'><D:include><a xmlns='u&amp;v'/></D:include><D:allprop/>\
                    <E:other xmlns:E='x'><D:prop/></E:other></D:propfind>";
        assert_eq!(parsed(text), Ask::All(vec![name("u&v", "a")]));
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let deep = format!(
            "<propfind xmlns='DAV:'><prop>{}{}</prop></propfind>",
            "<a>".repeat(20),
            "</a>".repeat(20)
        );
        let many: String = (0..65).map(|i| format!("<p{i}/>")).collect();
        let many = format!("<propfind xmlns='DAV:'><prop>{many}</prop></propfind>");
        let long = format!("<propfind xmlns='DAV:'><prop><{}/></prop></propfind>", "x".repeat(300));
        for body in [
            "<foo>",
            "nothing",
            "<foo/>",
            "<propfind xmlns='DAV:'/>",
            "<propfind xmlns='DAV:'><allprop/>",
            "<propfind xmlns='DAV:'><allprop/></propfind><propfind xmlns='DAV:'><allprop/></propfind>",
            "<propfind xmlns='DAV:'><allprop/></propfind>text",
            "<propfind xmlns='DAV:'><allprop/><propname/></propfind>",
            "<propfind xmlns='dav'><allprop/></propfind>",
            "<D:propfind><D:allprop/></D:propfind>",
            "<D:propfind xmlns:D='DAV:'><D:prop><bar:foo xmlns:bar=''/></D:prop></D:propfind>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><propfind xmlns='DAV:'><allprop/></propfind>",
            "<propfind xmlns='DAV:'><prop><a\"b/></prop></propfind>",
            "<propfind xmlns='DAV:' a='1' a='2'><allprop/></propfind>",
            &deep,
            &many,
            &long,
        ] {
            let fault = Ask::parse(body.as_bytes()).expect_err(body);
            assert_eq!(fault.status, 400, "{body}");
        }
        assert!(Ask::parse(b"\xff").is_err());
    }
}
