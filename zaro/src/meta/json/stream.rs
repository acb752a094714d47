//! Streaming JSON scanner over incomplete input.
//!
//! A [`Cursor`] scans the available bytes and halts at their end; with more bytes, the step is repeated. A [`Scanner`]
//! does that with a reader, and buffers only one block of the text.

use std::borrow::Cow;
use std::io::Read;

use crate::error::{Error, Result, invalid};
use crate::num;

/// Maximum nesting.
const MAX_DEPTH: usize = 128;

/// Block size of a [`Scanner`].
const PIECE: usize = 1 << 17;

/// Maximum length of a string in a [`Scanner`].
const MAX_STRING: usize = 1 << 20;

/// Why scanning stopped.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The bytes end before the value does.
    More,
    /// The bytes are not JSON.
    Bad(Error),
}

/// A part of the document, or why there is none.
pub(crate) type Scan<T> = Result<T, Halt>;

#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A string as it is written, without its quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) raw: &'a [u8],
    escaped: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The bytes scanned since `start`.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    pub(crate) fn bump(&mut self) {
        self.at = self.at.saturating_add(1).min(self.bytes.len());
    }

    pub(crate) fn bad<T>(&self, what: &str) -> Scan<T> {
        Err(Halt::Bad(invalid!("not JSON: {what}")))
    }

    /// The next byte that is not white space, without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Scan<u8> {
        let skip = self.rest().iter().take_while(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.at = self.at.saturating_add(skip);
        self.bytes.get(self.at).copied().ok_or(Halt::More)
    }

    /// Consumes `wanted`, which must be the next byte that is not white space.
    #[inline]
    pub(crate) fn expect(&mut self, wanted: u8, what: &str) -> Scan<()> {
        if self.peek()? != wanted {
            return self.bad(what);
        }
        self.bump();
        Ok(())
    }

    /// A string; the cursor is at its first quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Scan<Text<'a>> {
        self.expect(b'"', "a string should be here")?;
        self.text()
    }

    /// A string whose first quote was consumed.
    #[inline]
    fn text(&mut self) -> Scan<Text<'a>> {
        let rest = self.rest();
        let mut escaped = false;
        let mut at = 0usize;
        loop {
            let special = |b: &u8| matches!(b, b'"' | b'\\');
            let Some(found) = rest.get(at..).and_then(|r| r.iter().position(special)) else {
                return Err(Halt::More);
            };
            at = at.saturating_add(found);
            match rest.get(at) {
                Some(b'"') => {
                    self.at = self.at.saturating_add(at).saturating_add(1);
                    return Ok(Text { raw: rest.get(..at).unwrap_or_default(), escaped });
                }
                _ => {
                    escaped = true;
                    at = at.saturating_add(2);
                }
            }
        }
    }

    /// A number or a bare word, as its text. It must be followed by something, or more bytes could belong to it.
    #[inline]
    pub(crate) fn word(&mut self) -> Scan<&'a [u8]> {
        self.peek()?;
        let rest = self.rest();
        let inside = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
        let Some(length) = rest.iter().position(|b| !inside(b)) else { return Err(Halt::More) };
        if length == 0 {
            return self.bad("expected a value");
        }
        self.at = self.at.saturating_add(length);
        let word = rest.get(..length).unwrap_or_default();
        let number = word.first().is_some_and(|b| b.is_ascii_digit() || *b == b'-');
        if number || matches!(word, b"null" | b"true" | b"false" | b"NaN" | b"Infinity") {
            Ok(word)
        } else {
            self.bad("unknown literal")
        }
    }

    pub(crate) fn skip(&mut self) -> Scan<()> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b @ (b'{' | b'[') => {
                    if open.len() >= MAX_DEPTH {
                        return self.bad("nested too deeply");
                    }
                    self.bump();
                    let close = if b == b'{' { b'}' } else { b']' };
                    if self.peek()? == close {
                        self.bump();
                    } else {
                        open.push(close);
                        if close == b'}' {
                            self.name()?;
                        }
                        continue;
                    }
                }
                _ => drop(self.word()?),
            }
            // A value is done: what follows closes or goes on.
            loop {
                let Some(close) = open.last().copied() else { return Ok(()) };
                match self.peek()? {
                    b',' => {
                        self.bump();
                        if close == b'}' {
                            self.name()?;
                        }
                        break;
                    }
                    b if b == close => {
                        self.bump();
                        open.pop();
                    }
                    _ => return self.bad("expected a comma or a closing bracket"),
                }
            }
        }
    }

    /// The name of a member, and its colon.
    pub(crate) fn name(&mut self) -> Scan<Text<'a>> {
        let name = self.string()?;
        self.expect(b':', "expected a colon")?;
        Ok(name)
    }
}

impl Text<'_> {
    /// The text with escapes resolved, if it is valid UTF-8.
    pub(crate) fn decode(&self) -> Result<Cow<'_, str>> {
        let raw = std::str::from_utf8(self.raw).map_err(|_| Error::invalid("a string is not valid UTF-8"))?;
        if !self.escaped {
            return Ok(raw.into());
        }
        let mut out = String::with_capacity(raw.len());
        let mut rest = raw;
        while let Some(at) = rest.find('\\') {
            out.push_str(rest.get(..at).unwrap_or_default());
            let (c, length) = escape(rest.get(at..).unwrap_or_default())?;
            out.push(c);
            rest = rest.get(at.saturating_add(length)..).unwrap_or_default();
        }
        out.push_str(rest);
        Ok(out.into())
    }
}

/// Decodes the escape at the start of `text`: its character, and its length.
pub(crate) fn escape(text: &str) -> Result<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at.saturating_add(4)).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        unit.ok_or_else(|| Error::invalid("an escape without four digits"))
    };
    let simple = match text.as_bytes().get(1).copied().unwrap_or_default() {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = unit(2)?;
            if let Some(c) = char::from_u32(first) {
                return Ok((c, 6));
            }
            let low = if text.get(6..8) == Some("\\u") { unit(8)? } else { 0 };
            let (high, low) = (first.wrapping_sub(0xD800), low.wrapping_sub(0xDC00));
            let code = (high < 0x400 && low < 0x400).then(|| 0x10000 + (high << 10) + low);
            let c = code.and_then(char::from_u32).ok_or_else(|| Error::invalid("an unpaired surrogate"))?;
            return Ok((c, 12));
        }
        _ => return Err(Error::invalid("an unknown escape")),
    };
    Ok((simple, 2))
}

/// JSON from a reader, token by token.
pub(crate) struct Scanner<'r> {
    from: Box<dyn Read + 'r>,
    /// Grows only for a longer token.
    piece: Vec<u8>,
    at: usize,
    end: usize,
    /// Number of bytes before this block.
    before: u64,
    /// What the text is, for messages.
    what: &'static str,
}

impl<'r> Scanner<'r> {
    pub(crate) fn new(what: &'static str, from: impl Read + 'r) -> Self {
        Self { from: Box::new(from), piece: vec![0; PIECE], at: 0, end: 0, before: 0, what }
    }

    /// An error at the current position.
    pub(crate) fn fault(&self, message: impl std::fmt::Display) -> Error {
        let at = self.before.saturating_add(num::u64_of(self.at));
        invalid!("not {}: {message} at byte {at}", self.what)
    }

    /// Reads more bytes after the unscanned ones; whether there were any.
    #[cold]
    fn fill(&mut self) -> Result<bool> {
        self.before = self.before.saturating_add(num::u64_of(self.at));
        self.piece.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        if self.end > MAX_STRING {
            return Err(self.fault("a string longer than a megabyte"));
        }
        if self.end == self.piece.len() {
            self.piece.resize(self.end * 2, 0);
        }
        loop {
            let room = self.piece.get_mut(self.end..).unwrap_or_default();
            match self.from.read(room) {
                Ok(n) => {
                    self.end += n.min(room.len());
                    return Ok(n > 0);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The unscanned bytes of this block.
    #[inline]
    fn rest(&self) -> &[u8] {
        self.piece.get(self.at..self.end).unwrap_or_default()
    }

    /// Runs `f`, again with more bytes if it needs them.
    #[inline]
    fn take<T>(&mut self, mut f: impl FnMut(&mut Cursor<'_>) -> Scan<T>) -> Result<T> {
        loop {
            let mut c = Cursor::new(self.rest());
            match f(&mut c) {
                Ok(value) => {
                    self.at += c.position();
                    return Ok(value);
                }
                Err(Halt::Bad(e)) => return Err(self.fault(e.message())),
                Err(Halt::More) if self.fill()? => {}
                Err(Halt::More) => return Err(self.fault("the text ends")),
            }
        }
    }

    /// The next byte after white space, not consumed; `None` at the end.
    #[inline]
    pub(crate) fn peek_or_end(&mut self) -> Result<Option<u8>> {
        loop {
            let mut c = Cursor::new(self.rest());
            let found = c.peek().ok();
            self.at += c.position();
            if found.is_some() || !self.fill()? {
                return Ok(found);
            }
        }
    }

    /// The next byte after white space, not consumed.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8> {
        self.peek_or_end()?.ok_or_else(|| self.fault("the text ends"))
    }

    /// Consumes the byte that was peeked at.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.at += 1;
    }

    /// The next byte after white space.
    #[inline]
    pub(crate) fn token(&mut self) -> Result<u8> {
        let b = self.peek()?;
        self.advance();
        Ok(b)
    }

    /// Consumes `wanted`, which must be next after white space.
    #[inline]
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<()> {
        match self.peek()? {
            b if b == wanted => {
                self.advance();
                Ok(())
            }
            b => {
                let (found, wanted) = (char::from(b), char::from(wanted));
                Err(self.fault(format_args!("found {found:?}, expected {wanted:?}")))
            }
        }
    }

    /// Skips a byte-order mark at the start.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.peek_or_end()? == Some(0xef) {
            for wanted in [0xef, 0xbb, 0xbf] {
                self.expect(wanted)?;
            }
        }
        Ok(())
    }

    /// Fills `out` with the string whose opening quote was consumed, checked to be UTF-8.
    #[inline]
    pub(crate) fn string(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        self.take(|c| {
            let text = c.text()?;
            // All of them in one go, without a branch for each.
            let (control, high) = text.raw.iter().fold((false, 0), |(c, h), b| (c | (*b < 0x20), h | b));
            if control {
                return c.bad("a control character within a string");
            }
            match !text.escaped && high < 0x80 {
                true => out.extend_from_slice(text.raw),
                false => out.extend_from_slice(text.decode().map_err(Halt::Bad)?.as_bytes()),
            }
            Ok(())
        })
    }

    /// An integer without sign that fits 64 bits.
    #[inline]
    pub(crate) fn unsigned(&mut self) -> Result<u64> {
        self.take(|c| {
            c.peek()?;
            let rest = c.rest();
            let length = rest.iter().position(|b| !b.is_ascii_digit()).ok_or(Halt::More)?;
            let (digits, after) = rest.split_at_checked(length).unwrap_or_default();
            let add = |n: u64, b: &u8| n.checked_mul(10)?.checked_add(u64::from(b - b'0'));
            let whole = !matches!(after.first(), Some(b'.' | b'e' | b'E' | b'-' | b'+'));
            c.at = c.at.saturating_add(length);
            match digits.iter().try_fold(0, add) {
                Some(n) if whole && (length == 1 || digits.first().is_some_and(|b| *b != b'0')) => Ok(n),
                _ => c.bad("a number that is not an integer from 0 to 2^64-1"),
            }
        })
    }

    /// The text of the next value, whatever it is, appended to `keep`. What is kept is at most `most` bytes. Without
    /// `keep`, a value of any length takes no memory.
    pub(crate) fn raw(&mut self, mut keep: Option<&mut Vec<u8>>, most: usize) -> Result<()> {
        self.peek()?;
        let (mut depth, mut quoted, mut escaped, mut any) = (0u64, false, false, false);
        loop {
            let Some(&b) = self.rest().first() else {
                if self.fill()? {
                    continue;
                }
                let whole = any && depth == 0 && !quoted;
                return if whole { Ok(()) } else { Err(self.fault("the text ends")) };
            };
            if !quoted && depth == 0 && matches!(b, b',' | b'}' | b']') {
                return if any { Ok(()) } else { Err(self.fault("no value")) };
            }
            self.advance();
            if let Some(keep) = &mut keep {
                if keep.len() >= most {
                    return Err(self.fault("too long a value"));
                }
                keep.push(b);
            }
            any = true;
            match (quoted, b) {
                (true, _) if escaped => escaped = false,
                (true, b'\\') => escaped = true,
                (true, b'"') => quoted = false,
                (true, _) => {}
                (false, b'"') => quoted = true,
                (false, b'{' | b'[') => depth = depth.saturating_add(1),
                (false, b'}' | b']') => depth = depth.saturating_sub(1),
                (false, _) => {}
            }
        }
    }

    pub(crate) fn skip(&mut self) -> Result<()> {
        self.raw(None, 0)
    }
}

/// JSON text without the white space between its parts.
pub(crate) fn compact(text: &[u8], out: &mut Vec<u8>) {
    let (mut inside, mut escaped) = (false, false);
    for &b in text {
        if inside {
            out.push(b);
            inside = escaped || b != b'"';
            escaped = !escaped && b == b'\\';
        } else if !matches!(b, b' ' | b'\n' | b'\r' | b'\t') {
            out.push(b);
            inside = b == b'"';
        }
    }
}

/// A non-negative integer, also one written as `1e3` or `20.0`.
pub(crate) fn whole(word: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(word).ok()?;
    if let Ok(n) = text.parse() {
        return word.first().is_some_and(u8::is_ascii_digit).then_some(n);
    }
    let x: f64 = text.parse().ok()?;
    // Beyond 2^53 a float is no longer the number that was meant.
    let fits = x.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&x);
    fits.then(|| format!("{x:.0}").parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_with_every_escape() {
        let text = br#""a\/\u00e9\ud83e\uddca\n\"\\b" "#;
        let mut c = Cursor::new(text);
        assert_eq!(c.string().unwrap().decode().unwrap(), "a/é🧊\n\"\\b");
        for bad in [&br#""\ud800x""#[..], br#""\ud800\u0041""#, br#""\q""#, br#""\u12""#, b"\"\xff\""] {
            assert!(Cursor::new(bad).string().unwrap().decode().is_err(), "{bad:?}");
        }
        assert!(matches!(Cursor::new(b"\"abc\\").string(), Err(Halt::More)));
    }

    #[test]
    fn values_are_passed_over_whole_or_not_at_all() {
        for good in ["{}", "[]", r#"{"a": [1, {"b": "}"}], "c": null}"#, "[NaN, -Infinity, true]", "12 "] {
            let text = format!("{good},");
            let mut c = Cursor::new(text.as_bytes());
            c.skip().unwrap();
            assert_eq!(c.position(), good.trim_end().len(), "{good}");
            for end in 0..good.trim_end().len() {
                assert!(
                    matches!(Cursor::new(&good.as_bytes()[..end]).skip(), Err(Halt::More)),
                    "{good} {end}"
                );
            }
        }
        for bad in ["{1:2}", "[1 2]", "{\"a\" 1}", "}", "[,]", "nul,", "{\"a\":1]"] {
            assert!(matches!(Cursor::new(bad.as_bytes()).skip(), Err(Halt::Bad(_))), "{bad}");
        }
        let deep = "[".repeat(1000);
        assert!(matches!(Cursor::new(deep.as_bytes()).skip(), Err(Halt::Bad(_))));
    }

    #[test]
    fn whole_numbers() {
        for (text, n) in [("0", 0), ("18446744073709551615", u64::MAX), ("20.0", 20), ("1e3", 1000)] {
            assert_eq!(whole(text.as_bytes()), Some(n), "{text}");
        }
        for text in ["-1", "+1", "1.5", "NaN", "Infinity", "-0.5", "1e300", "18446744073709551616.5", "null"]
        {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn compact_keeps_what_is_inside_strings() {
        let mut out = Vec::new();
        compact(br#" { "a b" : [ 1 , "\" x" ] } "#, &mut out);
        assert_eq!(out, br#"{"a b":[1,"\" x"]}"#);
    }
}
