//! A document as it comes in, made into a table of references without ever being whole in memory.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::generate::generate;
use super::intern::Interner;
use super::table::{ReferenceFault, ReferenceTable, TableEntry};
use super::template::{Template, Templates};
use crate::error::{Error, Result, invalid};
use crate::meta::Json;
use crate::meta::json::stream::{Cursor, Halt, Scan, Text, compact, whole};

/// Base64 with its padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The length that stands for a whole object in the table, which no range may have.
const TOO_LONG: u64 = u64::MAX;

/// The members of a document of version 1 that are no references.
const SPECIAL: [&[u8]; 4] = [b"version", b"templates", b"gen", b"refs"];

/// Where in the document the bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    Before,
    /// Among the members of the document, the first of which may still come.
    Top {
        first: bool,
    },
    /// Among those of `refs`.
    Refs {
        first: bool,
    },
    After,
}

/// What is known of a document so far.
#[derive(Debug)]
pub(super) struct TableBuilder {
    state: ParserState,
    table: ReferenceTable,
    urls: Interner,
    /// The texts of the members that are no references, for the end.
    version: Option<Vec<u8>>,
    templates: Option<Vec<u8>>,
    rules: Option<Vec<u8>>,
    has_refs: bool,
    /// Entries of the table that are members of the document itself, as ranges: references only in version 0.
    top: Vec<std::ops::Range<usize>>,
    /// Addresses as rules of `gen` made them: these are not templates again.
    made: Interner,
}

/// A document that is done: references, and their addresses or why there is none.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) table: ReferenceTable,
    pub(super) urls: Interner,
    /// Addresses whose template comes to nothing, in order of their numbers, with the reason.
    pub(super) failed: Vec<(u32, String)>,
}

impl TableBuilder {
    pub(super) fn new() -> Self {
        Self {
            state: ParserState::Before,
            table: ReferenceTable::default(),
            urls: Interner::default(),
            version: None,
            templates: None,
            rules: None,
            has_refs: false,
            top: Vec::new(),
            made: Interner::default(),
        }
    }

    /// Takes what is complete at the start of `bytes`; how much that was. `last` says that no more will come.
    pub(super) fn advance(&mut self, bytes: &[u8], last: bool) -> Result<usize> {
        let mut taken = 0usize;
        loop {
            let rest = bytes.get(taken..).unwrap_or_default();
            let mut cursor = Cursor::new(rest);
            match self.step(&mut cursor) {
                Ok(()) => taken = taken.saturating_add(cursor.position()),
                Err(Halt::Bad(e)) => return Err(e),
                Err(Halt::More) if !last => return Ok(taken),
                Err(Halt::More) if self.state == ParserState::After => return Ok(bytes.len()),
                Err(Halt::More) => return Err(Error::invalid("the document ends too early")),
            }
        }
    }

    fn step(&mut self, c: &mut Cursor<'_>) -> Scan<()> {
        match self.state {
            ParserState::Before => {
                c.expect(b'{', "a document of references is an object")?;
                self.state = ParserState::Top { first: true };
            }
            ParserState::After => {
                c.peek()?;
                return c.bad("there is something after the document");
            }
            ParserState::Top { first } => {
                if !self.more(c, first, ParserState::After)? {
                    return Ok(());
                }
                let name = c.name()?;
                if name.raw == b"refs" && c.peek()? == b'{' {
                    c.bump();
                    // Of two, the second counts.
                    if self.has_refs {
                        return c.bad("there are two members called \"refs\"");
                    }
                    self.has_refs = true;
                    self.state = ParserState::Refs { first: true };
                    return Ok(());
                }
                self.top_member(&name, c)?;
                self.state = ParserState::Top { first: false };
            }
            ParserState::Refs { first } => {
                if !self.more(c, first, ParserState::Top { first: false })? {
                    return Ok(());
                }
                let name = c.name()?;
                self.reference(&name, c)?;
                self.state = ParserState::Refs { first: false };
            }
        }
        Ok(())
    }

    /// Whether another member comes; if not, the closing brace is taken and the state is `after`.
    #[inline]
    fn more(&mut self, c: &mut Cursor<'_>, first: bool, after: ParserState) -> Scan<bool> {
        match c.peek()? {
            b'}' => {
                c.bump();
                self.state = after;
                Ok(false)
            }
            _ if first => Ok(true),
            b',' => {
                c.bump();
                Ok(true)
            }
            _ => c.bad("a comma or a closing brace should be here"),
        }
    }

    fn top_member(&mut self, name: &Text<'_>, c: &mut Cursor<'_>) -> Scan<()> {
        if SPECIAL.contains(&name.raw) {
            c.peek()?;
            let start = c.position();
            c.skip()?;
            let text = c.since(start).to_vec();
            match name.raw {
                b"version" => self.version = Some(text),
                b"templates" => self.templates = Some(text),
                b"gen" => self.rules = Some(text),
                // `refs` that is no object: found out when the version is known.
                _ => return c.bad("\"refs\" must be an object"),
            }
            return Ok(());
        }
        let at = self.table.len();
        self.reference(name, c)?;
        let end = self.table.len();
        match self.top.last_mut() {
            Some(range) if range.end == at => range.end = end,
            _ => self.top.push(at..end),
        }
        Ok(())
    }

    /// A key and what it stands for.
    #[inline]
    fn reference(&mut self, name: &Text<'_>, c: &mut Cursor<'_>) -> Scan<()> {
        let entry = match c.peek()? {
            b'[' => self.list(c)?,
            b'"' => {
                let text = c.string()?;
                self.table.keep(|out| inline(&text, out))
            }
            b'{' => {
                let start = c.position();
                c.skip()?;
                let text = c.since(start);
                self.table.keep(|out| {
                    compact(text, out);
                    None
                })
            }
            _ => TableEntry::Bad(match c.word()? {
                b"null" => ReferenceFault::Null,
                b"true" | b"false" => ReferenceFault::Boolean,
                _ => ReferenceFault::Number,
            }),
        };
        let key = name.decode().map_err(Halt::Bad)?;
        self.table.add(key.as_bytes(), entry).map_err(Halt::Bad)
    }

    /// `[url]`, `[url, offset, length]`, and what is neither.
    #[inline]
    fn list(&mut self, c: &mut Cursor<'_>) -> Scan<TableEntry> {
        c.bump();
        let mut items = [ListItem::None; 3];
        let mut count = 0usize;
        if c.peek()? == b']' {
            c.bump();
            return Ok(TableEntry::Bad(ReferenceFault::EmptyList));
        }
        loop {
            let item = match c.peek()? {
                b'"' => ListItem::Text(c.string()?),
                b'{' | b'[' => {
                    c.skip()?;
                    ListItem::Other
                }
                _ => ListItem::Word(c.word()?),
            };
            if let Some(slot) = items.get_mut(count) {
                *slot = item;
            }
            count = count.saturating_add(1);
            match c.peek()? {
                b',' => c.bump(),
                b']' => {
                    c.bump();
                    break;
                }
                _ => return c.bad("a comma or a closing bracket should be here"),
            }
        }
        let [url, offset, length] = items;
        let span = match (count, offset, length) {
            (1, ..) | (3, ListItem::Word(b"null"), ListItem::Word(b"null")) => None,
            (3, ListItem::Word(offset), ListItem::Word(length)) => match (whole(offset), whole(length)) {
                (Some(offset), Some(length)) => Some((offset, length)),
                (None, _) => return Ok(TableEntry::Bad(ReferenceFault::Offset)),
                (_, None) => return Ok(TableEntry::Bad(ReferenceFault::Length)),
            },
            (3, ListItem::Word(_), _) => return Ok(TableEntry::Bad(ReferenceFault::Length)),
            (3, ..) => return Ok(TableEntry::Bad(ReferenceFault::Offset)),
            _ => return Ok(TableEntry::Bad(ReferenceFault::Items)),
        };
        let url = match url {
            ListItem::Text(text) => text.decode().and_then(|text| self.urls.add(text.as_bytes())),
            ListItem::Word(b"null") => self.urls.add(b""),
            _ => return Ok(TableEntry::Bad(ReferenceFault::Address)),
        };
        Ok(entry(url.map_err(Halt::Bad)?, span))
    }

    /// Adds a reference that a rule made.
    pub(super) fn made(&mut self, key: &str, url: &str, span: Option<(u64, u64)>) -> Result<()> {
        let id = self.made.add(url.as_bytes())?;
        self.table.add(key.as_bytes(), entry(id, span))
    }

    /// The document, with `overrides` in place of templates of the same names.
    pub(super) fn finish(mut self, overrides: &[(String, String)]) -> Result<Parsed> {
        if self.state != ParserState::After {
            return Err(Error::invalid("the document ends too early"));
        }
        let versioned = self.version.is_some() || self.has_refs;
        if let Some(version) = &self.version {
            check_version(version)?;
        } else if !versioned {
            return match overrides.first() {
                Some((name, _)) => Err(unknown_template(name)),
                None => self.version_0(),
            };
        }
        let mut templates = Templates::default();
        if let Some(text) = &self.templates {
            let all = Json::parse(text)?.value;
            let members = match &all {
                Json::Null => &[],
                other => other
                    .members()
                    .ok_or_else(|| Error::invalid("must be an object").with_field("templates"))?,
            };
            for (name, value) in members.iter().filter(|(n, _)| overrides.iter().all(|(o, _)| o != n)) {
                let text =
                    value.as_str().map(str::to_owned).or_else(|| value.number_text().map(str::to_owned));
                let text =
                    text.ok_or_else(|| invalid!("template {name:?} must be a text").with_field("templates"))?;
                templates.add(name, &text).map_err(|e| e.with_field("templates"))?;
            }
        }
        for (name, value) in overrides {
            if !self.mentions(name) {
                return Err(unknown_template(name));
            }
            templates.add(name, value)?;
        }
        let rules = self.rules.take().map(|text| Json::parse(&text)).transpose()?;
        let written = self.table.len();
        if let Some(rules) = rules.filter(|r| r.value != Json::Null) {
            generate(&rules.value, &templates, &mut self)?;
        }
        self.version_1(&templates, written)
    }

    /// Whether there is a template of this name, or an address in which one would be put.
    fn mentions(&self, name: &str) -> bool {
        let has = |text: &[u8]| text.windows(name.len().max(1)).any(|w| w == name.as_bytes());
        let said = [&self.templates, &self.rules].into_iter().flatten();
        said.map(Vec::as_slice).chain(self.urls.iter().filter(|text| text.contains(&b'{'))).any(has)
    }

    /// All members are references.
    fn version_0(mut self) -> Result<Parsed> {
        for (name, text) in [("templates", self.templates.take()), ("gen", self.rules.take())] {
            if let Some(text) = text {
                let end = [&text[..], b",", b"\""].concat();
                let name = format!("\"{name}\"");
                let name = Cursor::new(name.as_bytes()).string();
                if let Ok(name) = name
                    && let Err(Halt::Bad(e)) = self.reference(&name, &mut Cursor::new(&end))
                {
                    return Err(e);
                }
            }
        }
        self.table.finish(|_| false)?;
        self.urls.shrink();
        Ok(Parsed { table: self.table, urls: self.urls, failed: Vec::new() })
    }

    /// References are those in `refs`, the first `written` of the table, and those that rules made.
    fn version_1(self, templates: &Templates, written: usize) -> Result<Parsed> {
        let Self { mut table, urls: raw, top, made, .. } = self;
        let mut urls = Interner::default();
        let mut failed = Vec::new();
        let mut numbers = Vec::with_capacity(raw.len());
        for text in raw.iter() {
            let plain = templates.is_empty() || !text.windows(2).any(|w| w == b"{{");
            let text = std::str::from_utf8(text).unwrap_or_default();
            let rendered = if plain {
                Ok(text.to_owned())
            } else {
                Template::parse(text).and_then(|t| templates.render(&t, &[]))
            };
            match rendered {
                Ok(text) => numbers.push(urls.add(text.as_bytes())?),
                Err(e) => {
                    // Under its own text, which no address that was made right can have.
                    let id = urls.add(format!("\0{text}").as_bytes())?;
                    failed.push((id, format!("the address {text:?} cannot be made: {}", e.message())));
                    numbers.push(id);
                }
            }
        }
        let from_rules: Vec<u32> = made.iter().map(|text| urls.add(text)).collect::<Result<_>>()?;
        table.renumber(written, &numbers, &from_rules);
        let gone = |i: usize| top.iter().any(|range| range.contains(&i));
        table.finish(gone)?;
        urls.shrink();
        failed.sort_unstable();
        failed.dedup_by_key(|(id, _)| *id);
        Ok(Parsed { table, urls, failed })
    }
}

fn unknown_template(name: &str) -> Error {
    Error::usage(format!("the references have no template {name:?}"))
}

/// An item of a list.
#[derive(Clone, Copy)]
enum ListItem<'a> {
    None,
    Text(Text<'a>),
    Word(&'a [u8]),
    Other,
}

fn entry(url: u32, span: Option<(u64, u64)>) -> TableEntry {
    match span {
        None => TableEntry::Whole { url },
        Some((offset, length)) if length == TOO_LONG || offset.checked_add(length).is_none() => {
            TableEntry::Bad(ReferenceFault::End)
        }
        Some((offset, length)) => TableEntry::Span { url, offset, length },
    }
}

/// The bytes that an inline text stands for.
fn inline(text: &Text<'_>, out: &mut Vec<u8>) -> Option<ReferenceFault> {
    let Ok(text) = text.decode() else { return Some(ReferenceFault::Text) };
    match text.strip_prefix("base64:") {
        Some(coded) => BASE64.decode_vec(coded.trim_end(), out).err().map(|_| ReferenceFault::Base64),
        None => {
            out.extend_from_slice(text.as_bytes());
            None
        }
    }
}

fn check_version(text: &[u8]) -> Result<()> {
    match text {
        b"1" => Ok(()),
        other => {
            let said = String::from_utf8_lossy(other);
            let what = format!("references of version {said} are not known; a document states 1, or nothing");
            let number = other.iter().all(u8::is_ascii_digit);
            let error = if number && other != b"0" { Error::unsupported(what) } else { Error::invalid(what) };
            Err(error.with_field("version"))
        }
    }
}
