//! Text helpers: byte counts, plurals, and escaping of untrusted text for terminals.
#![allow(clippy::as_conversions, reason = "rounding is meant")]

use std::borrow::Cow;

use super::value::is_safe;

/// Formats a byte count: `512 B`, `90.2 MiB`.
#[must_use]
pub fn human_bytes(bytes: u128) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        unit = next;
        if value < 1024.0 {
            break;
        }
        if next != "EiB" {
            value /= 1024.0;
        }
    }
    format!("{value:.1} {unit}")
}

/// Parses a byte count: `256M`, `1.5G`, `64KiB`, `4096`. Units are powers of 1024.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase();
    let factor = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1_048_576.0,
        "g" => 1_073_741_824.0,
        "t" => 1_099_511_627_776.0,
        _ => return Err(format!("{text:?} is not a size such as 256M or 2G")),
    };
    match digits.trim().parse::<f64>() {
        Ok(n) if n > 0.0 && n.is_finite() => Ok((n * factor) as usize),
        _ => Err(format!("{text:?} is not a size such as 256M or 2G")),
    }
}

/// `text` with unsafe characters escaped: names and attributes are untrusted.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_safe) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_safe(c) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
    }
    out.into()
}

/// `1 file`, `2 files`, `1 entry`, `2 entries`.
pub fn plural(n: impl TryInto<u64>, word: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    match (n, word.strip_suffix("ry")) {
        (1, _) => format!("1 {word}"),
        (_, Some(stem)) => format!("{n} {stem}ries"),
        (_, None) => format!("{n} {word}s"),
    }
}

/// Truncates `text` to `width` characters, with `…` for the rest.
#[must_use]
pub fn cut(text: &str, width: usize) -> Cow<'_, str> {
    match text.char_indices().nth(width) {
        Some(_) => {
            let end = text.char_indices().nth(width.saturating_sub(1)).map_or(text.len(), |(i, _)| i);
            format!("{}…", text.get(..end).unwrap_or_default()).into()
        }
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_as_people_do() {
        assert_eq!(parse_bytes("256M"), Ok(256 << 20));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert!(parse_bytes("lots").is_err() && parse_bytes("-1M").is_err() && parse_bytes("0").is_err());
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1024), "1.0 KiB");
        assert_eq!(human_bytes(3 << 29), "1.5 GiB");
        assert_eq!(human_bytes(5 << 70), "5120.0 EiB");
    }

    #[test]
    fn what_strangers_wrote_cannot_drive_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(plain("é😀"), "é😀");
        assert_eq!(plain("a\u{7f}\u{9b}\u{202e}\u{2066}"), "a\\u{7f}\\u{9b}\\u{202e}\\u{2066}");
    }

    #[test]
    fn cutting_counts_characters() {
        assert_eq!(cut("héllo", 5), "héllo");
        assert_eq!(cut("héllo", 3), "hé…");
    }
}
