//! Converts unit names and symbols of files to those of OME-Zarr, which are UDUNITS-2 names.

/// SI prefixes, each with its symbol.
const PREFIXES: &str = "yotta Y zetta Z exa E peta P tera T giga G mega M kilo k hecto h deci d centi c milli m micro u \
                        nano n pico p femto f atto a zepto z yocto y";

/// The unit of length for `text`.
#[must_use]
pub fn length(text: &str) -> Option<String> {
    let others: [(&str, &[&str]); 7] = [
        ("angstrom", &["\u{c5}", "\u{212b}"]),
        ("inch", &["in"]),
        ("foot", &["ft"]),
        ("yard", &["yd"]),
        ("mile", &["mi"]),
        ("parsec", &["pc"]),
        ("micrometer", &["micron", "microns"]),
    ];
    meant(text, ("meter", "m"), &others)
}

/// The unit of time for `text`.
#[must_use]
pub fn time(text: &str) -> Option<String> {
    let others: [(&str, &[&str]); 5] = [
        ("minute", &["min"]),
        ("hour", &["h"]),
        ("day", &["d"]),
        ("second", &["sec"]),
        ("millisecond", &["msec"]),
    ];
    meant(text, ("second", "s"), &others)
}

/// A unit with any prefix, or one of the others, by its name or by a symbol.
fn meant(text: &str, (base, symbol): (&str, &str), others: &[(&str, &[&str])]) -> Option<String> {
    // Both characters for the micro sign, as `u`.
    let text = text.trim().replace(['\u{b5}', '\u{3bc}'], "u");
    // Symbols are case-sensitive (Mm, mm); names are not.
    let word = text.to_ascii_lowercase().replace("metre", "meter");
    let is_word = |name: &str| word.strip_prefix(name).is_some_and(|rest| matches!(rest, "" | "s"));
    let other = others.iter().find(|(name, symbols)| symbols.contains(&text.as_str()) || is_word(name));
    if let Some((name, _)) = other {
        return Some((*name).to_owned());
    }
    let prefixes: Vec<&str> = PREFIXES.split(' ').collect();
    let pairs = prefixes.as_chunks::<2>().0.iter().copied().chain([["", ""]]);
    let mut names = pairs.map(|[prefix, short]| (format!("{prefix}{base}"), format!("{short}{symbol}")));
    names.find(|(name, symbol)| *symbol == text || is_word(name)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_call_units() {
        for text in ["µm", "μm", "um", "micron", "microns", "Micrometer", "micrometers", "micrometre"] {
            assert_eq!(length(text).as_deref(), Some("micrometer"), "{text}");
        }
        for (text, name) in [("Mm", "megameter"), ("mm", "millimeter"), ("m", "meter"), ("Å", "angstrom")] {
            assert_eq!(length(text).as_deref(), Some(name));
        }
        assert_eq!((length("pixel"), length(""), length("reference frame")), (None, None, None));
        for (text, name) in [
            ("s", "second"),
            ("ms", "millisecond"),
            ("µs", "microsecond"),
            ("min", "minute"),
            ("hours", "hour"),
        ] {
            assert_eq!(time(text).as_deref(), Some(name));
        }
    }
}
