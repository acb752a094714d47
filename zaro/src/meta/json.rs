//! JSON parser and writer for Zarr metadata.
//!
//! Unlike general parsers, numbers keep their text, so that 64-bit integers are exact, `7` and `7.0` differ and a
//! decimal is rounded once, to its own type; members keep their order, so that a document can be written back; and
//! `NaN`, `Infinity`, `-Infinity` — which Python writes and the grammar forbids — are accepted, and noted as deviations
//! so that strict readers can refuse them.

pub(crate) mod stream;

use std::fmt;

use super::numeral::Numeral;
use crate::error::{Error, Result, invalid};

/// Maximum nesting: the parser recurses, and real documents need far less.
const MAX_DEPTH: u32 = 128;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, as its text. Also the bare words `NaN`, `Infinity` and `-Infinity`.
    Number(Numeral),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// An object, members in the order written; of duplicate names the last one counts.
    Object(Vec<(String, Json)>),
}

/// A parsed document and what was irregular about it.
#[derive(Debug, Clone)]
pub struct Document {
    /// The value.
    pub value: Json,
    /// Irregularities that were tolerated: bare `NaN`, a byte-order mark, duplicate names.
    pub deviations: Vec<String>,
}

impl Json {
    /// Parses `bytes`, tolerating deviations that occur in practice.
    pub fn parse(bytes: &[u8]) -> Result<Document> {
        JsonParser::new(bytes)?.document()
    }

    /// An empty object.
    #[must_use]
    pub fn object() -> Self {
        Self::Object(Vec::new())
    }

    /// A number from an integer.
    #[must_use]
    pub fn int(n: impl fmt::Display) -> Self {
        Self::Number(n.to_string().into())
    }

    /// A number from a finite float (shortest text that reads back the same); `"NaN"`, `"Infinity"`, `"-Infinity"`
    /// as strings otherwise.
    #[must_use]
    pub fn float(x: f64) -> Self {
        if x.is_nan() {
            Self::String("NaN".into())
        } else if x.is_infinite() {
            Self::String(if x > 0.0 { "Infinity" } else { "-Infinity" }.into())
        } else {
            Self::Number(format!("{x:?}").into())
        }
    }

    /// A string.
    #[must_use]
    pub fn string(s: impl Into<String>) -> Self {
        Self::String(s.into())
    }

    /// The member `name` of an object.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members()?.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The member `name` of an object, mutable.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        let Self::Object(members) = self else { return None };
        members.iter_mut().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The text of the member `name`, if it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// The items of the member `name`; empty if it is not a list.
    #[must_use]
    pub fn list(&self, name: &str) -> &[Json] {
        self.get(name).and_then(Self::items).unwrap_or_default()
    }

    /// The items of the member `name`, mutable; empty if it is not a list.
    pub fn list_mut(&mut self, name: &str) -> &mut [Json] {
        if let Some(Self::Array(items)) = self.get_mut(name) { items } else { &mut [] }
    }

    /// The numbers of the member `name`, if it is a list of numbers.
    #[must_use]
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        self.get(name)?.items()?.iter().map(Self::as_f64).collect()
    }

    /// A copy of the object `name`; an empty one if there is none.
    #[must_use]
    pub fn inner(&self, name: &str) -> Self {
        self.get(name).filter(|v| v.members().is_some()).cloned().unwrap_or_else(Self::object)
    }

    /// Sets all members of another object.
    pub fn set_all(&mut self, other: &Self) {
        other.members().unwrap_or_default().iter().for_each(|(name, value)| self.set(name, value.clone()));
    }

    /// Sets member `name`, in place if it exists, else at the end. Does nothing if the value is not an object.
    pub fn set(&mut self, name: &str, value: impl Into<Json>) {
        let value = value.into();
        if let Self::Object(members) = self {
            match members.iter_mut().find(|(n, _)| n == name) {
                Some((_, v)) => *v = value,
                None => members.push((name.to_owned(), value)),
            }
        }
    }

    /// Removes member `name`, if it exists.
    pub fn remove(&mut self, name: &str) {
        if let Self::Object(members) = self {
            members.retain(|(n, _)| n != name);
        }
    }

    /// The members of an object.
    #[must_use]
    pub fn members(&self) -> Option<&[(String, Json)]> {
        if let Self::Object(m) = self { Some(m) } else { None }
    }

    /// The items of a list.
    #[must_use]
    pub fn items(&self) -> Option<&[Json]> {
        if let Self::Array(a) = self { Some(a) } else { None }
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(s) = self { Some(s) } else { None }
    }

    /// A boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(b) = self { Some(*b) } else { None }
    }

    /// The text of a number.
    #[must_use]
    pub fn number_text(&self) -> Option<&str> {
        if let Self::Number(t) = self { Some(t) } else { None }
    }

    /// A non-negative integer written without fraction or exponent.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.number_text()?.parse().ok()
    }

    /// An integer written without fraction or exponent.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.number_text()?.parse().ok()
    }

    /// An integer of any sign that fits 128 bits, written without fraction or exponent.
    #[must_use]
    pub fn as_i128(&self) -> Option<i128> {
        self.number_text()?.parse().ok()
    }

    /// The nearest `f64`; bare `NaN` and infinities included.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self.number_text()? {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            t => t.parse().ok(),
        }
    }

    /// The type of the value, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// Indented text, two spaces per level; short lists of plain values stay on one line.
    #[must_use]
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0), false);
        out
    }

    /// As [`Json::pretty`], for stored documents: bare `NaN` and infinities stay bare, since a string would change
    /// their meaning. So they do in [`Json::compact`]; all other texts are strict JSON.
    #[must_use]
    pub fn stored(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0), true);
        out
    }

    /// On one line, with bare `NaN` and infinities, to be read back by [`Json::parse`] or by Python.
    #[must_use]
    pub fn compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None, true);
        out
    }

    fn write(&self, out: &mut String, indent: Option<usize>, bare: bool) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Self::Number(t) => match &**t {
                // The grammar forbids them.
                "NaN" | "Infinity" | "-Infinity" if !bare => {
                    out.push('"');
                    out.push_str(t);
                    out.push('"');
                }
                t => out.push_str(t),
            },
            Self::String(s) => write_string(s, out),
            Self::Array(items) => {
                let plain = items.iter().all(|i| !matches!(i, Self::Array(_) | Self::Object(_)));
                let inner = if plain { None } else { indent.map(|i| i + 1) };
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push_str(if inner.is_none() && indent.is_some() { ", " } else { "," });
                    }
                    newline(out, inner);
                    item.write(out, inner, bare);
                }
                if inner.is_some() && !items.is_empty() {
                    newline(out, indent);
                }
                out.push(']');
            }
            Self::Object(members) => {
                let inner = indent.map(|i| i + 1);
                out.push('{');
                for (n, (name, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    newline(out, inner);
                    write_string(name, out);
                    out.push_str(if indent.is_some() { ": " } else { ":" });
                    value.write(out, inner, bare);
                }
                if !members.is_empty() {
                    newline(out, indent);
                }
                out.push('}');
            }
        }
    }
}

fn newline(out: &mut String, indent: Option<usize>) {
    if let Some(level) = indent {
        out.push('\n');
        for _ in 0..level {
            out.push_str("  ");
        }
    }
}

/// Appends `s` to `out`, quoted and escaped.
pub(crate) fn write_string(s: &str, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The compact text.
macro_rules! from_numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Json {
            fn from(n: $number) -> Self {
                Self::int(n)
            }
        }
    )*};
}

from_numbers! { u8 u16 u32 u64 usize i64 i128 }

impl From<f64> for Json {
    fn from(x: f64) -> Self {
        Self::float(x)
    }
}

impl From<bool> for Json {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<&str> for Json {
    fn from(s: &str) -> Self {
        Self::string(s)
    }
}

impl From<&String> for Json {
    fn from(s: &String) -> Self {
        Self::string(s)
    }
}

impl From<String> for Json {
    fn from(s: String) -> Self {
        Self::String(s)
    }
}

/// `None` is null.
impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Json> + Clone> From<&[T]> for Json {
    fn from(items: &[T]) -> Self {
        items.iter().cloned().collect()
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Json> + Clone> From<&Vec<T>> for Json {
    fn from(items: &Vec<T>) -> Self {
        items.as_slice().into()
    }
}

/// A list.
impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

/// An object of these members.
impl<const N: usize> From<[(&str, Json); N]> for Json {
    fn from(members: [(&str, Json); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out, None, false);
        f.write_str(&out)
    }
}

struct JsonParser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    deviations: Vec<String>,
}

impl<'a> JsonParser<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut deviations = Vec::new();
        let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => {
                deviations.push("the document begins with a byte-order mark".to_owned());
                rest
            }
            None => bytes,
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|e| invalid!("not JSON: not UTF-8 at byte {}", e.valid_up_to()))?;
        Ok(Self { text, bytes, at: 0, deviations })
    }

    fn document(mut self) -> Result<Document> {
        let value = self.value(0)?;
        self.space();
        if self.at < self.bytes.len() {
            return Err(self.fault("unexpected data after the value"));
        }
        Ok(Document { value, deviations: self.deviations })
    }

    fn fault(&self, what: &str) -> Error {
        let before = self.bytes.get(..self.at).unwrap_or_default();
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        invalid!("not JSON: {what} at byte {} (line {line})", self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let here = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        if here {
            self.at += word.len();
        }
        here
    }

    fn value(&mut self, depth: u32) -> Result<Json> {
        if depth > MAX_DEPTH {
            return Err(self.fault("nested too deeply"));
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::String),
            Some(b't') if self.word("true") => Ok(Json::Bool(true)),
            Some(b'f') if self.word("false") => Ok(Json::Bool(false)),
            Some(b'n') if self.word("null") => Ok(Json::Null),
            Some(b'N') if self.word("NaN") => Ok(self.bare("NaN")),
            Some(b'I') if self.word("Infinity") => Ok(self.bare("Infinity")),
            Some(b'-') if self.word("-Infinity") => Ok(self.bare("-Infinity")),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.fault("unexpected character")),
            None => Err(self.fault("unexpected end of the text")),
        }
    }

    fn bare(&mut self, word: &str) -> Json {
        let note = format!("bare {word} is not JSON");
        if !self.deviations.contains(&note) {
            self.deviations.push(note);
        }
        Json::Number(word.into())
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.at;
        if !self.digits() {
            return Err(self.fault("a number without digits"));
        }
        if self.bytes.get(first) == Some(&b'0') && self.at > first + 1 {
            return Err(self.fault("a number with a leading zero"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.digits() {
                return Err(self.fault("a number without digits after the point"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.digits() {
                return Err(self.fault("a number without digits in its exponent"));
            }
        }
        Ok(Json::Number(self.text.get(start..self.at).unwrap_or_default().into()))
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let plain = self.plain();
        if self.peek() == Some(b'"') {
            // Nearly all strings: copied at once, into just enough room.
            self.at += 1;
            return Ok(plain.to_owned());
        }
        let mut out = plain.to_owned();
        loop {
            out.push_str(self.plain());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    let rest = self.text.get(self.at..).unwrap_or_default();
                    let (c, length) = stream::escape(rest).map_err(|e| self.fault(e.message()))?;
                    out.push(c);
                    self.at += length;
                }
                Some(_) => return Err(self.fault("a control character inside a string")),
                None => return Err(self.fault("a string without an end")),
            }
        }
    }

    /// What comes before the next quote, escape or control character.
    fn plain(&mut self) -> &'a str {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|b| *b == b'"' || *b == b'\\' || *b < 0x20).unwrap_or(rest.len());
        let start = self.at;
        self.at += end;
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn array(&mut self, depth: u32) -> Result<Json> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(items));
                }
                _ => return Err(self.fault("expected , or ] in a list")),
            }
        }
    }

    fn object(&mut self, depth: u32) -> Result<Json> {
        self.at += 1;
        // Documents of arrays have some ten members; most others fit as well.
        let mut members: Vec<(String, Json)> = Vec::with_capacity(8);
        // Only large objects pay for an index; a linear look-up for duplicates is quicker in small ones.
        let mut index: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::object());
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.fault("expected a name in an object"));
            }
            let name = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.fault("expected : after a name"));
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            let earlier = if members.len() < 32 {
                members.iter().position(|(n, _)| *n == name)
            } else {
                if index.is_empty() {
                    index.extend(members.iter().enumerate().map(|(i, (n, _))| (n.clone(), i)));
                }
                index.get(&name).copied()
            };
            match earlier.and_then(|i| members.get_mut(i)) {
                Some(slot) => {
                    self.deviations.push(format!("the name {name:?} occurs twice in one object"));
                    slot.1 = value;
                }
                None => {
                    if !index.is_empty() {
                        index.insert(name.clone(), members.len());
                    }
                    members.push((name, value));
                }
            }
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(members));
                }
                _ => return Err(self.fault("expected , or } in an object")),
            }
        }
    }
}

/// A document of a test.
#[cfg(test)]
pub(crate) fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap().value
}

#[cfg(test)]
mod tests {
    use super::json as parse;
    use super::*;

    #[test]
    fn integers_are_exact_and_told_from_floats() {
        let v = parse("[18446744073709551615, -9223372036854775808, 7.0, 1e3]");
        let items = v.items().unwrap();
        assert_eq!(items[0].as_u64(), Some(u64::MAX));
        assert_eq!(items[1].as_i64(), Some(i64::MIN));
        assert_eq!(items[2].as_i64(), None);
        assert_eq!(items[3].as_f64(), Some(1000.0));
    }

    #[test]
    fn deviations_are_read_and_counted() {
        let d = Json::parse(b"\xef\xbb\xbf{\"a\": NaN, \"a\": -Infinity}").unwrap();
        assert_eq!(d.deviations.len(), 4);
        assert_eq!(d.value.get("a").unwrap().as_f64(), Some(f64::NEG_INFINITY));
        assert_eq!(d.value.to_string(), r#"{"a":"-Infinity"}"#);
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "01",
            "1.",
            "\"\\ud800\"",
            "nul",
            "[1] 2",
            "'a'",
            "+1",
            "\"\u{1}\"",
        ] {
            assert!(Json::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(Json::parse("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn strings_survive_a_round_trip() {
        let v = parse(r#""a\"\\\n\u00e9\ud83d\ude00\u0001""#);
        assert_eq!(v.as_str(), Some("a\"\\\né😀\u{1}"));
        assert_eq!(parse(&v.to_string()), v);
    }
}
