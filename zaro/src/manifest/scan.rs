//! JSON from a reader, token by token: nothing is kept but one piece of the text.

use std::io::Read;

use crate::error::{Error, Result};
use crate::num;

/// How much is read at once.
const PIECE: usize = 1 << 17;

/// Strings longer than this are refused.
const MAX_STRING: usize = 1 << 20;

/// A reader of tokens.
pub(crate) struct Scanner<'r> {
    from: Box<dyn Read + 'r>,
    piece: Vec<u8>,
    at: usize,
    end: usize,
    /// How many bytes came before this piece.
    before: u64,
}

impl<'r> Scanner<'r> {
    pub(crate) fn new(from: impl Read + 'r) -> Self {
        Self { from: Box::new(from), piece: vec![0; PIECE], at: 0, end: 0, before: 0 }
    }

    /// A fault of the text at hand.
    pub(crate) fn fault(&self, message: impl std::fmt::Display) -> Error {
        let at = self.before.saturating_add(num::u64_of(self.at));
        Error::invalid(format!("not a manifest: {message} at byte {at}"))
    }

    /// Reads the next piece; whether there was one.
    #[cold]
    fn fill(&mut self) -> Result<bool> {
        self.before = self.before.saturating_add(num::u64_of(self.end));
        (self.at, self.end) = (0, 0);
        loop {
            match self.from.read(&mut self.piece) {
                Ok(n) => {
                    self.end = n.min(self.piece.len());
                    return Ok(n > 0);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The bytes of this piece that are yet to be looked at.
    fn rest(&self) -> &[u8] {
        self.piece.get(self.at..self.end).unwrap_or_default()
    }

    /// The next byte, which stays.
    fn look(&mut self) -> Result<Option<u8>> {
        loop {
            if let Some(&b) = self.rest().first() {
                return Ok(Some(b));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// The next byte after white space, which stays; `None` at the end.
    pub(crate) fn peek_or_end(&mut self) -> Result<Option<u8>> {
        loop {
            let is_white = |b: &&u8| matches!(b, b' ' | b'\n' | b'\r' | b'\t');
            match self.rest().first().copied() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => {
                    let white = self.rest().iter().take_while(is_white).count();
                    self.at += white;
                }
                Some(b) => return Ok(Some(b)),
                None if self.fill()? => {}
                None => return Ok(None),
            }
        }
    }

    /// The next byte after white space, which stays.
    pub(crate) fn peek(&mut self) -> Result<u8> {
        self.peek_or_end()?.ok_or_else(|| self.fault("the text ends"))
    }

    /// Goes past the byte that was looked at.
    pub(crate) fn advance(&mut self) {
        self.at += 1;
    }

    /// The next byte after white space.
    pub(crate) fn token(&mut self) -> Result<u8> {
        let b = self.peek()?;
        self.advance();
        Ok(b)
    }

    /// Goes past `wanted`, which must be next after white space.
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<()> {
        match self.peek()? {
            b if b == wanted => {
                self.advance();
                Ok(())
            }
            b => Err(self.fault(format_args!("{:?} in place of {:?}", char::from(b), char::from(wanted)))),
        }
    }

    /// Goes past the white space and a byte-order mark at the start.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.look()? == Some(0xef) {
            for wanted in [0xef, 0xbb, 0xbf] {
                self.expect(wanted)?;
            }
        }
        Ok(())
    }

    /// Fills `out` with the string whose opening quote was passed, which is UTF-8 after that.
    pub(crate) fn string(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let mut ascii = true;
        loop {
            let rest = self.rest();
            let stop = rest.iter().position(|b| *b == b'"' || *b == b'\\' || *b < 0x20);
            let plain = rest.get(..stop.unwrap_or(rest.len())).unwrap_or_default();
            ascii &= plain.is_ascii();
            out.extend_from_slice(plain);
            let taken = plain.len();
            let next = stop.and_then(|s| rest.get(s)).copied();
            self.at += taken;
            if out.len() > MAX_STRING {
                return Err(self.fault("a string longer than a megabyte"));
            }
            match next {
                Some(b'"') => {
                    self.advance();
                    if !ascii && std::str::from_utf8(out).is_err() {
                        return Err(self.fault("a string that is not UTF-8"));
                    }
                    return Ok(());
                }
                Some(b'\\') => {
                    self.advance();
                    self.escape(out)?;
                }
                Some(_) => return Err(self.fault("a control character within a string")),
                None if self.fill()? => {}
                None => return Err(self.fault("the text ends")),
            }
        }
    }

    fn one(&mut self) -> Result<u8> {
        let b = self.look()?.ok_or_else(|| self.fault("the text ends"))?;
        self.advance();
        Ok(b)
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let plain = match self.one()? {
            b @ (b'"' | b'\\' | b'/') => b,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut units = vec![self.unit()?];
                if matches!(units.first(), Some(0xd800..0xdc00)) {
                    if self.one()? != b'\\' || self.one()? != b'u' {
                        return Err(self.fault("half a surrogate pair"));
                    }
                    units.push(self.unit()?);
                }
                let mut text = [0; 4];
                for c in char::decode_utf16(units) {
                    let c = c.map_err(|_| self.fault("half a surrogate pair"))?;
                    out.extend_from_slice(c.encode_utf8(&mut text).as_bytes());
                }
                return Ok(());
            }
            b => {
                return Err(
                    self.fault(format_args!("an unknown escape \\{}", char::from(b).escape_default()))
                );
            }
        };
        out.push(plain);
        Ok(())
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u16> {
        let mut n = 0u16;
        for _ in 0..4 {
            let digit = char::from(self.one()?).to_digit(16).and_then(|d| u16::try_from(d).ok());
            n = n << 4 | digit.ok_or_else(|| self.fault("an escape without four digits"))?;
        }
        Ok(n)
    }

    /// An integer without sign that fits 64 bits.
    pub(crate) fn unsigned(&mut self) -> Result<u64> {
        let first = self.peek()?;
        let (mut n, mut digits) = (Some(0u64), 0u32);
        while let Some(b) = self.look()? {
            let Some(digit) = b.checked_sub(b'0').filter(|d| *d < 10) else { break };
            n = n.and_then(|n| n.checked_mul(10)?.checked_add(u64::from(digit)));
            digits = digits.saturating_add(1);
            self.advance();
        }
        let whole = !matches!(self.look()?, Some(b'.' | b'e' | b'E' | b'-' | b'+'));
        match n {
            Some(n) if whole && digits > 0 && (first != b'0' || digits == 1) => Ok(n),
            _ => Err(self.fault("a number that is not an integer from 0 to 2^64-1")),
        }
    }

    /// The text of the next value, whatever it is, appended to `keep`. What is kept is at most `most` bytes.
    pub(crate) fn raw(&mut self, mut keep: Option<&mut Vec<u8>>, most: usize) -> Result<()> {
        self.peek()?;
        let (mut depth, mut quoted, mut any) = (0u64, false, false);
        loop {
            let Some(b) = self.look()? else {
                return if any && depth == 0 && !quoted { Ok(()) } else { Err(self.fault("the text ends")) };
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
                (true, b'\\') => {
                    let b = self.one()?;
                    if let Some(keep) = &mut keep {
                        keep.push(b);
                    }
                }
                (true, b'"') => {
                    quoted = false;
                }
                (true, _) => {}
                (false, b'"') => quoted = true,
                (false, b'{' | b'[') => depth = depth.saturating_add(1),
                (false, b'}' | b']') => depth = depth.saturating_sub(1),
                (false, _) => {}
            }
        }
    }

    /// Goes past the next value.
    pub(crate) fn skip(&mut self) -> Result<()> {
        self.raw(None, 0)
    }
}
