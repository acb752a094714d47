//! Compact storage of the text of a JSON number.
//!
//! Attributes may hold lists of millions of numbers; a string for each would take several times the memory of the
//! document.

use std::fmt;
use std::ops::Deref;

/// Bytes of text stored inline.
const INLINE: usize = 22;

/// The text of a JSON number, or `NaN`, `Infinity` or `-Infinity`.
#[derive(Clone)]
pub struct Numeral(DecimalText);

#[derive(Clone)]
enum DecimalText {
    /// Length and bytes of inline UTF-8.
    Short(u8, [u8; INLINE]),
    Long(Box<str>),
}

impl From<&str> for Numeral {
    fn from(text: &str) -> Self {
        let mut bytes = [0; INLINE];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(text.as_bytes());
                Self(DecimalText::Short(length, bytes))
            }
            _ => Self(DecimalText::Long(text.into())),
        }
    }
}

impl From<String> for Numeral {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl Deref for Numeral {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            DecimalText::Short(length, bytes) => {
                let bytes = bytes.get(..usize::from(*length)).unwrap_or_default();
                std::str::from_utf8(bytes).unwrap_or_default()
            }
            DecimalText::Long(text) => text,
        }
    }
}

impl PartialEq for Numeral {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Numeral {}

impl fmt::Debug for Numeral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Numeral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_length_is_kept_in_few_bytes() {
        for n in 0..60 {
            let text = "7".repeat(n);
            let numeral = Numeral::from(text.as_str());
            assert_eq!(&*numeral, text);
            assert_eq!(numeral, Numeral::from(text));
            assert_ne!(numeral, Numeral::from("8"));
        }
        assert!(size_of::<super::super::Json>() <= 32);
    }
}
