//! Units: what files call them, and what OME-Zarr does.

/// Units of length: the name, what OME-XML and ImageJ write.
const LENGTHS: [(&str, &[&str]); 26] = [
    ("yottameter", &["Ym"]),
    ("zettameter", &["Zm"]),
    ("exameter", &["Em"]),
    ("petameter", &["Pm"]),
    ("terameter", &["Tm"]),
    ("gigameter", &["Gm"]),
    ("megameter", &["Mm"]),
    ("kilometer", &["km"]),
    ("hectometer", &["hm"]),
    ("meter", &["m", "metre"]),
    ("decimeter", &["dm"]),
    ("centimeter", &["cm"]),
    ("millimeter", &["mm"]),
    ("micrometer", &["um", "micron", "microns", "micrometre"]),
    ("nanometer", &["nm"]),
    ("picometer", &["pm"]),
    ("femtometer", &["fm"]),
    ("attometer", &["am"]),
    ("zeptometer", &["zm"]),
    ("yoctometer", &["ym"]),
    ("angstrom", &["\u{c5}", "\u{212b}"]),
    ("inch", &["in"]),
    ("foot", &["ft"]),
    ("yard", &["yd"]),
    ("mile", &["mi"]),
    ("parsec", &["pc"]),
];

/// Units of time.
const TIMES: [(&str, &[&str]); 23] = [
    ("yottasecond", &["Ys"]),
    ("zettasecond", &["Zs"]),
    ("exasecond", &["Es"]),
    ("petasecond", &["Ps"]),
    ("terasecond", &["Ts"]),
    ("gigasecond", &["Gs"]),
    ("megasecond", &["Ms"]),
    ("kilosecond", &["ks"]),
    ("hectosecond", &["hs"]),
    ("second", &["s", "sec"]),
    ("decisecond", &["ds"]),
    ("centisecond", &["cs"]),
    ("millisecond", &["ms", "msec"]),
    ("microsecond", &["us"]),
    ("nanosecond", &["ns"]),
    ("picosecond", &["ps"]),
    ("femtosecond", &["fs"]),
    ("attosecond", &["as"]),
    ("zeptosecond", &["zs"]),
    ("yoctosecond", &["ys"]),
    ("minute", &["min"]),
    ("hour", &["h"]),
    ("day", &["d"]),
];

/// Both letters that look like a micro sign, as `u`.
fn plain(text: &str) -> String {
    text.trim().replace(['\u{b5}', '\u{3bc}'], "u")
}

fn is(text: &str, name: &str, symbols: &[&str]) -> bool {
    // Symbols differ by case, Mm and mm; words do not.
    let plural = text.len() == name.len() + 1 && text.to_ascii_lowercase().strip_suffix('s') == Some(name);
    symbols.contains(&text) || text.eq_ignore_ascii_case(name) || plural
}

/// The unit of length that a file means by `text`.
#[must_use]
pub fn length(text: &str) -> Option<&'static str> {
    let text = plain(text);
    LENGTHS.iter().find(|(name, symbols)| is(&text, name, symbols)).map(|(name, _)| *name)
}

/// The unit of time that a file means by `text`.
#[must_use]
pub fn time(text: &str) -> Option<&'static str> {
    let text = plain(text);
    TIMES.iter().find(|(name, symbols)| is(&text, name, symbols)).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_call_units() {
        for text in ["µm", "μm", "um", "micron", "microns", "Micrometer", "micrometers"] {
            assert_eq!(length(text), Some("micrometer"), "{text}");
        }
        assert_eq!((length("Mm"), length("mm")), (Some("megameter"), Some("millimeter")));
        assert_eq!((length("pixel"), length(""), length("reference frame")), (None, None, None));
        assert_eq!(
            (time("s"), time("ms"), time("µs"), time("min")),
            (Some("second"), Some("millisecond"), Some("microsecond"), Some("minute"))
        );
    }
}
