//! Converts FlexBuffers, the format of a repository's configuration, to JSON.
//!
//! One byte gives the type of a value and the width of its parts; what does not fit lies further to the front, at an
//! offset. Many offsets may point to the same place, so values are counted as well as bounds-checked.

use crate::error::{Error, Result};
use crate::meta::json::Json;
use crate::num::usize_of;

/// Limits on values and characters, and on nesting; real configurations are far smaller.
const MAX_WORK: usize = 4 << 20;
const MAX_DEPTH: u32 = 64;

/// The value that a buffer holds.
pub(super) fn parse(buffer: &[u8]) -> Result<Json> {
    let [front @ .., kind, width] = buffer else { return Err(broken()) };
    let width = usize::from(*width);
    let at = front.len().checked_sub(width).ok_or_else(broken)?;
    FlexReader { buffer, left: MAX_WORK }.value(at, width, *kind, MAX_DEPTH)
}

fn broken() -> Error {
    Error::invalid("the configuration of the repository is damaged")
}

struct FlexReader<'a> {
    buffer: &'a [u8],
    left: usize,
}

impl<'a> FlexReader<'a> {
    fn bytes(&self, at: usize, count: usize) -> Result<&'a [u8]> {
        at.checked_add(count).and_then(|end| self.buffer.get(at..end)).ok_or_else(broken)
    }

    fn uint(&self, at: usize, width: usize) -> Result<u64> {
        if !matches!(width, 1 | 2 | 4 | 8) {
            return Err(broken());
        }
        let bytes = self.bytes(at, width)?;
        Ok(bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    fn int(&self, at: usize, width: usize) -> Result<i64> {
        let n = self.uint(at, width)?.cast_signed();
        // The sign bit of the stored width becomes that of the whole.
        let spare = u32::try_from(width)
            .ok()
            .and_then(|w| 64u32.checked_sub(w.checked_mul(8)?))
            .ok_or_else(broken)?;
        Ok(n << spare >> spare)
    }

    fn size(&self, at: usize, width: usize) -> Result<usize> {
        usize_of(self.uint(at, width)?)
    }

    /// The position that the offset at `at` points back to.
    fn follow(&self, at: usize, width: usize) -> Result<usize> {
        at.checked_sub(self.size(at, width)?).ok_or_else(broken)
    }

    /// The number of elements of a list, stored before them.
    fn count(&self, list: usize, width: usize) -> Result<usize> {
        self.size(list.checked_sub(width).ok_or_else(broken)?, width)
    }

    fn key(&mut self, at: usize) -> Result<String> {
        let rest = self.buffer.get(at..).ok_or_else(broken)?;
        let text = rest.split(|b| *b == 0).next().ok_or_else(broken)?;
        self.text(text)
    }

    fn text(&mut self, bytes: &[u8]) -> Result<String> {
        self.left = self.left.checked_sub(bytes.len()).ok_or_else(broken)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| broken())
    }

    /// Element `i` of a list, whose types follow its elements.
    fn element(&mut self, list: usize, width: usize, count: usize, i: usize, depth: u32) -> Result<Json> {
        let at =
            |n: usize, size: usize| n.checked_mul(size).and_then(|n| list.checked_add(n)).ok_or_else(broken);
        let kinds = at(count, width)?;
        let kind = self.uint(kinds.checked_add(i).ok_or_else(broken)?, 1)?;
        self.value(at(i, width)?, width, u8::try_from(kind).map_err(|_| broken())?, depth)
    }

    fn value(&mut self, at: usize, width: usize, kind: u8, depth: u32) -> Result<Json> {
        self.left = self.left.checked_sub(1).ok_or_else(broken)?;
        let depth = depth.checked_sub(1).ok_or_else(broken)?;
        let inner = 1usize << (kind & 3);
        Ok(match kind >> 2 {
            0 => Json::Null,
            1 => Json::int(self.int(at, width)?),
            2 => Json::int(self.uint(at, width)?),
            3 => self.float(at, width)?,
            4 => {
                let key = self.follow(at, width)?;
                Json::String(self.key(key)?)
            }
            5 => {
                let text = self.follow(at, width)?;
                let bytes = self.bytes(text, self.count(text, inner)?)?;
                Json::String(self.text(bytes)?)
            }
            6 => Json::int(self.int(self.follow(at, width)?, inner)?),
            7 => Json::int(self.uint(self.follow(at, width)?, inner)?),
            8 => self.float(self.follow(at, width)?, inner)?,
            9 => self.map(self.follow(at, width)?, inner, depth)?,
            10 => {
                let list = self.follow(at, width)?;
                let count = self.count(list, inner)?;
                let items = (0..count).map(|i| self.element(list, inner, count, i, depth));
                Json::Array(items.collect::<Result<_>>()?)
            }
            26 => Json::Bool(self.uint(at, width)? != 0),
            // Lists of one kind of number, and plain bytes: nothing that is read here is kept in one.
            _ => Json::Null,
        })
    }

    fn float(&self, at: usize, width: usize) -> Result<Json> {
        let bytes = self.bytes(at, width)?;
        let value = match *bytes {
            [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => return Ok(Json::Null),
        };
        Ok(Json::float(value))
    }

    fn map(&mut self, values: usize, width: usize, depth: u32) -> Result<Json> {
        let before = |n: usize| width.checked_mul(n).and_then(|n| values.checked_sub(n)).ok_or_else(broken);
        let keys = self.follow(before(3)?, width)?;
        let key_width = self.size(before(2)?, width)?;
        let count = self.count(values, width)?;
        let mut members = Vec::new();
        for i in 0..count {
            let slot = i.checked_mul(key_width).and_then(|n| keys.checked_add(n)).ok_or_else(broken)?;
            let name = self.follow(slot, key_width)?;
            let name = self.key(name)?;
            members.push((name, self.element(values, width, count, i, depth)?));
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a": [1, -2, "xy"], "b": true}`, as another library writes it.
    const SMALL: &[u8] =
        &[97, 0, 2, 120, 121, 0, 3, 1, 254, 6, 4, 4, 20, 98, 0, 2, 16, 4, 2, 1, 2, 14, 1, 40, 104, 4, 36, 1];

    #[test]
    fn maps_lists_and_texts_are_read() {
        assert_eq!(parse(SMALL).unwrap().to_string(), "{\"a\":[1,-2,\"xy\"],\"b\":true}");
    }

    #[test]
    fn damage_is_an_error_or_another_value() {
        for cut in 0..SMALL.len() {
            let _ = parse(&SMALL[..cut]);
        }
        for at in 0..SMALL.len() {
            for bit in 0..8 {
                let mut bytes = SMALL.to_vec();
                bytes[at] ^= 1 << bit;
                let _ = parse(&bytes);
            }
        }
        assert!(parse(&[]).is_err());
    }

    #[test]
    fn a_value_inside_itself_is_an_error() {
        // A list of one element, which is the list.
        let bytes = [1, 0, 40, 2, 40, 1];
        assert!(parse(&bytes).is_err());
    }
}
