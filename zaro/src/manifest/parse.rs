//! Streaming parser of manifests.
//!
//! Accepts everything the proof of concept ever wrote and everything the specification allows: fields in any order or a
//! subset of them, members in any order, an optional `schemaVersion`, empty directories. Errors name the entry.

use std::io::Read;

use super::build::Builder;
use super::model::{EntryRef, Fields, Manifest, Statistics};
use crate::error::{Error, Result, invalid};
use crate::meta::json::Json;
use crate::meta::json::stream::Scanner;
use crate::time::Time;

/// Maximum length of a member other than `entries`.
const MAX_MEMBER: usize = 1 << 20;

/// One field of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryField {
    Version,
    Modified,
    Size,
    ETag,
    /// An unknown field, whose values are skipped.
    Other,
}

/// The fields of all entries.
#[derive(Debug, Clone)]
struct FieldOrder {
    fields: Vec<EntryField>,
    /// Whether an entry is the value itself, as in the first files of the proof of concept.
    bare: bool,
}

/// Reads a manifest.
pub fn parse(from: impl Read) -> Result<Manifest> {
    let mut parser = ManifestParser::new(from, Builder::new(Fields::ALL));
    parser.scanner.begin()?;
    parser.document()?;
    parser.builder.finish()
}

/// The members of a document other than its entries.
#[derive(Debug, Clone)]
pub struct Head {
    /// The `schemaVersion`, if there is one.
    pub schema_version: Option<u64>,
    /// The statistics it states.
    pub statistics: Statistics,
}

/// Reads the statistics of a document, and none of its entries if the statistics come first, as they usually do.
pub fn parse_head(from: impl Read) -> Result<Head> {
    let mut scanner = Scanner::new("a manifest", from);
    scanner.begin()?;
    scanner.expect(b'{')?;
    let (mut name, mut schema_version, mut first) = (Vec::new(), None, true);
    while name_of_member(&mut scanner, &mut first, &mut name)? {
        match text(&name) {
            "statistics" => {
                let statistics = read_statistics(&short(&mut scanner)?)?;
                return Ok(Head { schema_version, statistics });
            }
            "schemaVersion" => schema_version = short(&mut scanner)?.as_u64(),
            _ => scanner.skip()?,
        }
    }
    Err(Error::invalid("not a manifest: it has no statistics").with_field("statistics"))
}

/// Fills `name` with that of the next member of an object, up to its colon; `false` at the end of the object.
fn name_of_member(scanner: &mut Scanner<'_>, first: &mut bool, name: &mut Vec<u8>) -> Result<bool> {
    match scanner.token()? {
        b'}' => return Ok(false),
        b',' if !*first => scanner.expect(b'"')?,
        b'"' if *first => {}
        _ => return Err(scanner.fault("no member of an object")),
    }
    *first = false;
    scanner.string(name)?;
    scanner.expect(b':')?;
    Ok(true)
}

/// The next value, which is short.
fn short(scanner: &mut Scanner<'_>) -> Result<Json> {
    let mut kept = Vec::new();
    scanner.raw(Some(&mut kept), MAX_MEMBER)?;
    Ok(Json::parse(&kept)?.value)
}

struct ManifestParser<'r> {
    scanner: Scanner<'r>,
    builder: Builder,
    // Texts of the entry at hand, kept so that their memory is.
    name: Vec<u8>,
    version: Vec<u8>,
    etag: Vec<u8>,
    time: Vec<u8>,
}

/// Text that [`Scanner::string`] checked.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

impl<'r> ManifestParser<'r> {
    fn new(from: impl Read + 'r, builder: Builder) -> Self {
        let [name, version, etag, time] = [const { Vec::new() }; 4];
        Self { scanner: Scanner::new("a manifest", from), builder, name, version, etag, time }
    }

    fn document(&mut self) -> Result<()> {
        let mut order: Option<FieldOrder> = None;
        let mut stated = None;
        let mut schema_version = None;
        // Entries that come before it is known what their values mean; and whether they were seen at all.
        let mut early: Option<Vec<u8>> = None;
        let mut seen = false;
        let mut schema_seen = false;
        self.scanner.expect(b'{')?;
        let mut first = true;
        while name_of_member(&mut self.scanner, &mut first, &mut self.name)? {
            let name = text(&self.name).to_owned();
            let twice = match name.as_str() {
                "fields" => order.replace(read_order(&short(&mut self.scanner)?)?).is_some(),
                "statistics" => stated.replace(read_statistics(&short(&mut self.scanner)?)?).is_some(),
                "schemaVersion" => {
                    schema_version = short(&mut self.scanner)?.as_u64();
                    std::mem::replace(&mut schema_seen, true)
                }
                "entries" => {
                    match &order {
                        _ if seen => {}
                        Some(order) => self.entries(&order.clone())?,
                        None => self.scanner.raw(Some(early.insert(Vec::new())), usize::MAX)?,
                    }
                    std::mem::replace(&mut seen, true)
                }
                _ => {
                    self.scanner.skip()?;
                    false
                }
            };
            if twice {
                return Err(invalid!("not a manifest: duplicate member {name:?}").with_field(name));
            }
        }
        if self.scanner.peek_or_end()?.is_some() {
            return Err(self.scanner.fault("unexpected data after the document"));
        }
        let Some(order) = order else {
            return Err(Error::invalid("not a manifest: it has no fields").with_field("fields"));
        };
        if !seen {
            return Err(Error::invalid("not a manifest: it has no entries").with_field("entries"));
        }
        if let Some(early) = early {
            let builder = std::mem::replace(&mut self.builder, Builder::new(Fields::ALL));
            let mut inner = ManifestParser::new(early.as_slice(), builder);
            inner.entries(&order)?;
            self.builder = inner.builder;
        }
        self.builder.set_fields(order.present());
        self.builder.set_stated(stated.unwrap_or_default(), schema_version);
        Ok(())
    }

    fn entries(&mut self, order: &FieldOrder) -> Result<()> {
        if self.scanner.peek()? != b'{' {
            return Err(self.scanner.fault("the entries are not an object"));
        }
        self.scanner.advance();
        let (mut depth, mut first) = (1usize, true);
        loop {
            match self.scanner.token()? {
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                    self.builder.close()?;
                    first = false;
                    continue;
                }
                b',' if !first => self.scanner.expect(b'"')?,
                b'"' if first => {}
                _ => {
                    let place = self.builder.path_of("");
                    return Err(self
                        .scanner
                        .fault("neither an entry nor the end of a directory")
                        .with_key(place));
                }
            }
            self.scanner.string(&mut self.name)?;
            self.scanner.expect(b':')?;
            if self.scanner.peek()? == b'{' {
                self.scanner.advance();
                self.builder.open(text(&self.name))?;
                depth += 1;
                first = true;
                continue;
            }
            self.entry(order).map_err(|e| e.with_key(self.builder.path_of(text(&self.name))))?;
            first = false;
        }
    }

    fn entry(&mut self, order: &FieldOrder) -> Result<()> {
        let mut found = ParsedEntry::default();
        if order.bare {
            for field in &order.fields {
                self.value(*field, &mut found)?;
            }
        } else {
            if self.scanner.peek()? != b'[' {
                return Err(self.scanner.fault("an entry is neither a list nor a directory"));
            }
            self.scanner.advance();
            for (i, field) in order.fields.iter().enumerate() {
                if i > 0 {
                    self.scanner.expect(b',').map_err(|_| self.count_fault(order))?;
                }
                if self.scanner.peek()? == b']' {
                    return Err(self.count_fault(order));
                }
                self.value(*field, &mut found)?;
            }
            self.scanner.expect(b']').map_err(|_| self.count_fault(order))?;
        }
        let entry = EntryRef {
            version: found.version.then(|| text(&self.version)),
            modified: found.modified,
            size: found.size,
            etag: found.etag.then(|| text(&self.etag)),
        };
        self.builder.leaf(text(&self.name), &entry)
    }

    fn count_fault(&self, order: &FieldOrder) -> Error {
        self.scanner.fault(format_args!("an entry must have {} values, one per field", order.fields.len()))
    }

    fn value(&mut self, field: EntryField, found: &mut ParsedEntry) -> Result<()> {
        let into = match field {
            EntryField::Size => {
                found.size = self.scanner.unsigned().map_err(|e| e.with_field("size"))?;
                return Ok(());
            }
            EntryField::Other => return self.scanner.skip(),
            EntryField::Version => &mut self.version,
            EntryField::Modified => &mut self.time,
            EntryField::ETag => &mut self.etag,
        };
        let there = match self.scanner.peek()? {
            b'"' => {
                self.scanner.advance();
                self.scanner.string(into)?;
                true
            }
            b'n' => {
                into.clear();
                self.scanner.raw(Some(into), 16)?;
                if into.trim_ascii() != b"null" {
                    return Err(self.scanner.fault("a value is not a string"));
                }
                false
            }
            _ => return Err(self.scanner.fault("a value is not a string").with_field(field.name())),
        };
        match field {
            EntryField::Version => found.version = there,
            EntryField::ETag => found.etag = there,
            _ if there => {
                found.modified = Some(Time::from_bytes(&self.time).map_or_else(
                    || Time::parse(text(&self.time)).map_err(|e| e.with_field("lastModified")),
                    Ok,
                )?);
            }
            _ => {}
        }
        Ok(())
    }
}

/// What of an entry was found; texts are with the parser.
#[derive(Default)]
struct ParsedEntry {
    version: bool,
    etag: bool,
    size: u64,
    modified: Option<Time>,
}

impl EntryField {
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Version, "versionId"),
        (Self::Modified, "lastModified"),
        (Self::Size, "size"),
        (Self::ETag, "ETag"),
    ];

    fn of(name: &str) -> Self {
        Self::NAMES.iter().find(|(_, n)| *n == name).map_or(Self::Other, |(f, _)| *f)
    }

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(f, _)| *f == self).map_or("", |(_, n)| n)
    }
}

impl FieldOrder {
    fn present(&self) -> Fields {
        let has = |f| self.fields.contains(&f);
        Fields {
            version: has(EntryField::Version),
            modified: has(EntryField::Modified),
            size: has(EntryField::Size),
            etag: has(EntryField::ETag),
        }
    }
}

fn read_order(value: &Json) -> Result<FieldOrder> {
    let fault = |what: &str| Err(invalid!("not a manifest: {what}").with_field("fields"));
    if let Some(name) = value.as_str() {
        return Ok(FieldOrder { fields: vec![EntryField::of(name)], bare: true });
    }
    let Some(items) = value.items() else { return fault("the fields are neither a list nor a name") };
    if items.is_empty() || items.len() > 1000 {
        return fault("no fields, or too many");
    }
    let mut fields = Vec::new();
    for item in items {
        let Some(name) = item.as_str() else { return fault("the name of a field is not a string") };
        let field = EntryField::of(name);
        if field != EntryField::Other && fields.contains(&field) {
            return fault("duplicate field");
        }
        fields.push(field);
    }
    Ok(FieldOrder { fields, bare: false })
}

fn read_statistics(value: &Json) -> Result<Statistics> {
    let Some(members) = value.members() else {
        return Err(
            Error::invalid("not a manifest: the statistics are not an object").with_field("statistics")
        );
    };
    let mut out = Statistics::default();
    for (name, value) in members {
        let fault = |wanted: &str| {
            let field = format!("statistics.{name}");
            invalid!("not a manifest: expected {wanted}").with_field(field)
        };
        let number = || match value {
            Json::Null => Ok(None),
            v => v.as_u64().map(Some).ok_or_else(|| fault("an integer")),
        };
        let string = || match value {
            Json::Null => Ok(None),
            v => v.as_str().map(|s| Some(s.to_owned())).ok_or_else(|| fault("a text")),
        };
        match name.as_str() {
            "entries" => out.entries = number()?,
            "depth" => out.depth = number()?,
            "totalSize" => out.total_size = number()?,
            "lastModified" => {
                let time = string()?.map(|t| Time::parse(&t)).transpose();
                out.last_modified = time.map_err(|e| e.with_field("statistics.lastModified"))?;
            }
            "zarrChecksum" => out.checksum = string()?,
            "zarrChecksumMismatch" => out.mismatch = Some(string()?),
            _ => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
