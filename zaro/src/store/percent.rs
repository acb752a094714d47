//! Percent signs in addresses.

/// `%41` to `A`; `None` if the bytes are not Unicode.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        let mut ahead = bytes.clone();
        let digits = (b == b'%').then(|| [ahead.next(), ahead.next()]);
        let value = digits.and_then(|[high, low]| {
            let digit = |b: Option<u8>| char::from(b?).to_digit(16).and_then(|d| u8::try_from(d).ok());
            Some(digit(high)? << 4 | digit(low)?)
        });
        match value {
            Some(v) => {
                out.push(v);
                bytes = ahead;
            }
            None => out.push(b),
        }
    }
    String::from_utf8(out).ok()
}
