//! Byte-exact text output for the checksum: JSON in ASCII, and hexadecimal digits.

/// Appends `text` as a JSON string in ASCII: what is neither printable nor ASCII becomes `\uXXXX`, DEL included, as
/// surrogates beyond the first plane; the slash stays.
pub(crate) fn push_json(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    // Most names are plain: they are copied whole.
    if text.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'"' && b != b'\\') {
        out.extend_from_slice(text.as_bytes());
    } else {
        let mut units = [0; 2];
        for c in text.chars() {
            let short = match c {
                '"' => b'"',
                '\\' => b'\\',
                '\u{8}' => b'b',
                '\u{c}' => b'f',
                '\n' => b'n',
                '\r' => b'r',
                '\t' => b't',
                ' '..='~' => {
                    out.extend(u8::try_from(c));
                    continue;
                }
                _ => {
                    for unit in c.encode_utf16(&mut units) {
                        out.extend_from_slice(b"\\u");
                        let [high, low] = unit.to_be_bytes();
                        push_hex(out, &[high, low]);
                    }
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', short]);
        }
    }
    out.push(b'"');
}

/// Appends a number in decimal digits.
pub(crate) fn push_number(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut used = 0;
    for place in digits.iter_mut().rev() {
        *place = b'0' + u8::try_from(n % 10).unwrap_or(0);
        n /= 10;
        used += 1;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(20 - used..).unwrap_or_default());
}

/// Appends bytes as lowercase hexadecimal digits.
pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let digit = |n: u8| DIGITS.get(usize::from(n & 15)).copied().unwrap_or(b'0');
    out.extend(bytes.iter().flat_map(|b| [digit(b >> 4), digit(*b)]));
}

/// Bytes as lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    push_hex(&mut out, bytes);
    String::from_utf8(out).unwrap_or_default()
}

/// The index of each byte in an alphabet; 255 if it is not in it.
#[allow(clippy::indexing_slicing, clippy::as_conversions, reason = "evaluated while compiling")]
pub(super) const fn places(alphabet: &[u8]) -> [u8; 256] {
    let mut out = [255; 256];
    let mut i = 0u8;
    while (i as usize) < alphabet.len() {
        out[alphabet[i as usize] as usize] = i;
        i += 1;
    }
    out
}

/// What each byte stands for as a lowercase hexadecimal digit.
const NIBBLES: [u8; 256] = places(DIGITS);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// 32 lowercase hexadecimal digits as the 16 bytes they stand for.
pub(crate) fn unhex16(text: &[u8]) -> Option<[u8; 16]> {
    let mut out = [0; 16];
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != 16 || !rest.is_empty() {
        return None;
    }
    // A table and one look at the end: digits are random, and a guess at each would often be wrong.
    let nibble = |b: u8| NIBBLES.get(usize::from(b)).copied().unwrap_or(255);
    let mut all = 0;
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        let (high, low) = (nibble(*high), nibble(*low));
        all |= high | low;
        *byte = high << 4 | low & 15;
    }
    (all < 16).then_some(out)
}

/// A decimal number without sign or leading zeros.
pub(crate) fn parse_number(text: &[u8]) -> Option<u64> {
    let (&first, rest) = text.split_first()?;
    if first == b'0' && !rest.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |n, &b| {
        let digit = b.checked_sub(b'0').filter(|d| *d < 10)?;
        n.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_python_does() {
        let mut out = Vec::new();
        push_json(&mut out, "\u{7f} \u{80} \u{2028} \u{8}\u{c}\n\r\t\u{1f} / é 😀\"\\");
        let wanted = r#""\u007f \u0080 \u2028 \b\f\n\r\t\u001f / \u00e9 \ud83d\ude00\"\\""#;
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    #[test]
    fn numbers_go_both_ways() {
        for n in [0, 1, 9, 10, 1234567890, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, n);
            assert_eq!(String::from_utf8(out.clone()).unwrap(), n.to_string());
            assert_eq!(parse_number(&out), Some(n));
        }
        for bad in ["", "01", "+1", "-1", "1.0", "18446744073709551616"] {
            assert_eq!(parse_number(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(unhex16(b"00ff102030405060708090a0b0c0d0e0"), {
            Some([0, 255, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224])
        });
        assert_eq!(unhex16(b"00FF102030405060708090a0b0c0d0e0"), None);
    }
}
