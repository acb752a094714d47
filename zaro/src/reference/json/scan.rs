//! JSON as a stream of bytes: what is complete is taken, what is not waits for more.

use crate::error::{Error, Result};

/// Nesting beyond this is refused.
const MAX_DEPTH: usize = 128;

/// Why scanning stopped.
#[derive(Debug)]
pub(super) enum Halt {
    /// The bytes end before the value does.
    More,
    /// The bytes are no JSON.
    Bad(Error),
}

/// A part of the document, or why there is none.
pub(super) type Scan<T> = Result<T, Halt>;

/// A place in bytes.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A string as it is written, without its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) raw: &'a [u8],
    escaped: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// What was passed over since `start`.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    pub(super) fn bump(&mut self) {
        self.at = self.at.saturating_add(1).min(self.bytes.len());
    }

    pub(super) fn bad<T>(&self, what: &str) -> Scan<T> {
        Err(Halt::Bad(Error::invalid(format!("not JSON: {what}"))))
    }

    /// The next byte that is no white space, without taking it.
    #[inline]
    pub(super) fn peek(&mut self) -> Scan<u8> {
        let skip = self.rest().iter().take_while(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.at = self.at.saturating_add(skip);
        self.bytes.get(self.at).copied().ok_or(Halt::More)
    }

    /// Takes `wanted`, the next byte that is no white space.
    #[inline]
    pub(super) fn expect(&mut self, wanted: u8, what: &str) -> Scan<()> {
        if self.peek()? != wanted {
            return self.bad(what);
        }
        self.bump();
        Ok(())
    }

    /// A string; the cursor is at its first quote.
    #[inline]
    pub(super) fn string(&mut self) -> Scan<Text<'a>> {
        self.expect(b'"', "a string should be here")?;
        let rest = self.rest();
        let mut escaped = false;
        let mut at = 0usize;
        loop {
            let Some(found) = rest.get(at..).and_then(|r| r.iter().position(|b| matches!(b, b'"' | b'\\')))
            else {
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
    pub(super) fn word(&mut self) -> Scan<&'a [u8]> {
        self.peek()?;
        let rest = self.rest();
        let inside = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
        let Some(length) = rest.iter().position(|b| !inside(b)) else { return Err(Halt::More) };
        if length == 0 {
            return self.bad("a value should be here");
        }
        self.at = self.at.saturating_add(length);
        let word = rest.get(..length).unwrap_or_default();
        let number = word.first().is_some_and(|b| b.is_ascii_digit() || *b == b'-');
        if number || matches!(word, b"null" | b"true" | b"false" | b"NaN" | b"Infinity") {
            Ok(word)
        } else {
            self.bad("a word that means nothing")
        }
    }

    /// Passes over any value.
    pub(super) fn skip(&mut self) -> Scan<()> {
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
                    _ => return self.bad("a comma or a bracket should be here"),
                }
            }
        }
    }

    /// The name of a member, and its colon.
    pub(super) fn name(&mut self) -> Scan<Text<'a>> {
        let name = self.string()?;
        self.expect(b':', "a colon should be here")?;
        Ok(name)
    }
}

impl Text<'_> {
    /// The text that is meant, if it is Unicode.
    pub(super) fn decode(&self) -> Result<std::borrow::Cow<'_, str>> {
        let raw =
            std::str::from_utf8(self.raw).map_err(|_| Error::invalid("a string that is not Unicode"))?;
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

/// The character that an escape at the start of `text` stands for, and how long the escape is.
fn escape(text: &str) -> Result<(char, usize)> {
    let bad = || Error::invalid("an escape in a string that means nothing");
    let unit = |at: usize| -> Option<u32> {
        let digits = text.get(at..at.checked_add(4)?)?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let simple = match text.as_bytes().get(1).ok_or_else(bad)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = unit(2).ok_or_else(bad)?;
            if let Some(c) = char::from_u32(first) {
                return Ok((c, 6));
            }
            let second = text.get(6..8).filter(|t| *t == "\\u").and_then(|_| unit(8)).ok_or_else(bad)?;
            let (high, low) = (first.wrapping_sub(0xD800), second.wrapping_sub(0xDC00));
            let code = (high < 0x400 && low < 0x400).then_some(0x10000 + (high << 10) + low);
            return code.and_then(char::from_u32).map(|c| (c, 12)).ok_or_else(bad);
        }
        _ => return Err(bad()),
    };
    Ok((simple, 2))
}

/// JSON text without the white space between its parts.
pub(super) fn compact(text: &[u8], out: &mut Vec<u8>) {
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

/// A whole number that is not negative, also one written as `1e3` or `20.0`.
pub(super) fn whole(word: &[u8]) -> Option<u64> {
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
        for bad in [&br#""\ud800x""#[..], br#""\q""#, br#""\u12""#, b"\"\xff\""] {
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
