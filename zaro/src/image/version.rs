//! OME-Zarr versions, and how to detect the version of a document.

use std::fmt;

use crate::meta::{Format, Json};

/// A version of OME-Zarr, from the draft that had masks to the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageVersion {
    /// The draft before 0.1: `masks`, plain arrays with a `color` map.
    Seed,
    /// 0.1: five dimensions, flat chunk keys.
    V01,
    /// 0.2: nested chunk keys.
    V02,
    /// 0.3: named axes.
    V03,
    /// 0.4: axes with types and units, scales and translations.
    V04,
    /// 0.5: Zarr V3.
    V05,
    /// 0.6: coordinate systems.
    V06,
}

impl ImageVersion {
    /// Parses a version; anything after the two numbers (`-dev2`, `rc0`, `.dev4`) is ignored.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let end = text
            .char_indices()
            .find(|(_, c)| !c.is_ascii_digit() && *c != '.')
            .map_or(text.len(), |(i, _)| i);
        let mut numbers = text.get(..end)?.split('.');
        let (major, minor) = (numbers.next()?, numbers.next()?);
        match (major, minor) {
            ("0", "1") => Some(Self::V01),
            ("0", "2") => Some(Self::V02),
            ("0", "3") => Some(Self::V03),
            ("0", "4") => Some(Self::V04),
            ("0", "5") => Some(Self::V05),
            ("0", "6") => Some(Self::V06),
            _ => None,
        }
    }

    /// Its text in documents. The seed version stated 0.1.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Seed | Self::V01 => "0.1",
            Self::V02 => "0.2",
            Self::V03 => "0.3",
            Self::V04 => "0.4",
            Self::V05 => "0.5",
            Self::V06 => "0.6",
        }
    }

    /// The Zarr format it uses.
    #[must_use]
    pub fn format(self) -> Format {
        if self >= Self::V05 { Format::V3 } else { Format::V2 }
    }

    /// The chunk key separator it requires; `None` if any is allowed.
    #[must_use]
    pub fn separator(self) -> Option<char> {
        match self {
            Self::Seed | Self::V01 => Some('.'),
            Self::V02 | Self::V03 | Self::V04 => Some('/'),
            Self::V05 | Self::V06 => None,
        }
    }
}

impl fmt::Display for ImageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Seed { "0.1 (seed)" } else { self.text() })
    }
}

/// The version stated in a group's attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum Stated {
    /// A version and its original text. Numbers such as `0.4` without quotes are accepted, too.
    Known(ImageVersion, String),
    /// An unknown version.
    Unknown(String),
    /// Nothing.
    Nothing,
}

/// The object with the OME metadata: `ome` if there is one, else the attributes themselves.
#[must_use]
pub(crate) fn ome(attributes: &Json) -> &Json {
    match attributes.get("ome") {
        Some(inner @ Json::Object(_)) => inner,
        _ => attributes,
    }
}

/// Edits the object with the OME metadata.
pub(crate) fn edit_ome<T>(attributes: &mut Json, change: impl FnOnce(&mut Json) -> T) -> T {
    match attributes.get_mut("ome").filter(|inner| inner.members().is_some()) {
        Some(inner) => change(inner),
        None => change(attributes),
    }
}

/// The version stated in a group's attributes, from the first place that has one.
#[must_use]
pub fn stated(attributes: &Json) -> Stated {
    let ome = ome(attributes);
    let first = ome.list("multiscales").first();
    let places =
        [Some(ome), first, ome.get("plate"), ome.get("well"), ome.get("image-label"), ome.get("omero")];
    for version in places.into_iter().flatten().filter_map(|place| place.get("version")) {
        let text = match version {
            Json::String(text) => text.clone(),
            Json::Number(text) => text.to_string(),
            _ => continue,
        };
        return match ImageVersion::parse(&text) {
            Some(version) => Stated::Known(version, text),
            None => Stated::Unknown(text),
        };
    }
    Stated::Nothing
}

/// Infers the version of attributes that state none. `separator` is that of the first array's chunk keys, if known;
/// `masks` means that there is a group of that name.
#[must_use]
pub(crate) fn assumed(
    attributes: &Json,
    format: Format,
    separator: Option<char>,
    masks: bool,
) -> ImageVersion {
    if format == Format::V3 {
        let first = ome(attributes).list("multiscales").first();
        return if first.is_some_and(|m| m.get("coordinateSystems").is_some()) {
            ImageVersion::V06
        } else {
            ImageVersion::V05
        };
    }
    let all = attributes.list("multiscales");
    let first = all.first();
    let has = |m: &Json, name: &str| m.get(name).is_some();
    let datasets = first.map(|m| m.list("datasets")).unwrap_or_default();
    let transforms = first.is_some_and(|m| has(m, "coordinateTransformations"))
        || datasets.iter().any(|d| has(d, "coordinateTransformations"));
    let axes = first.map(|m| m.list("axes")).unwrap_or_default();
    if transforms || axes.iter().any(|a| a.members().is_some()) {
        ImageVersion::V04
    } else if axes.iter().any(|a| a.as_str().is_some()) {
        ImageVersion::V03
    } else if masks {
        ImageVersion::Seed
    } else if ["plate", "well", "bioformats2raw.layout"].iter().any(|name| attributes.get(name).is_some()) {
        ImageVersion::V04
    } else if separator == Some('/') {
        ImageVersion::V02
    } else {
        ImageVersion::V01
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    #[test]
    fn suffixes_of_versions_are_passed_over() {
        for (text, wanted) in [
            ("0.4", Some(ImageVersion::V04)),
            ("0.5-dev2", Some(ImageVersion::V05)),
            ("0.6.dev4", Some(ImageVersion::V06)),
            ("0.6rc0", Some(ImageVersion::V06)),
            ("0.2.0", Some(ImageVersion::V02)),
            ("0.9.dev1", None),
            ("1.0", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(ImageVersion::parse(text), wanted, "{text}");
        }
    }

    #[test]
    fn versions_are_found_in_the_order_of_their_places() {
        for (text, wanted) in [
            (
                r#"{"ome":{"version":"0.5","multiscales":[{"version":"0.4"}]}}"#,
                Stated::Known(ImageVersion::V05, "0.5".into()),
            ),
            (
                r#"{"multiscales":[{"version":0.4}],"omero":{"version":"0.3"}}"#,
                Stated::Known(ImageVersion::V04, "0.4".into()),
            ),
            (
                r#"{"omero":{"version":0.2},"multiscales":[{}]}"#,
                Stated::Known(ImageVersion::V02, "0.2".into()),
            ),
            (r#"{"plate":{"version":"0.9"}}"#, Stated::Unknown("0.9".into())),
            (r#"{"multiscales":[{}]}"#, Stated::Nothing),
        ] {
            assert_eq!(stated(&json(text)), wanted, "{text}");
        }
    }

    #[test]
    fn without_a_version_the_form_tells() {
        let plain = r#"{"multiscales":[{"datasets":[{"path":"0"}]}]}"#;
        for (text, separator, masks, wanted) in [
            (plain, Some('.'), false, ImageVersion::V01),
            (plain, Some('/'), false, ImageVersion::V02),
            (plain, Some('.'), true, ImageVersion::Seed),
            (
                r#"{"multiscales":[{"axes":["y","x"],"datasets":[{"path":"0"}]}]}"#,
                None,
                false,
                ImageVersion::V03,
            ),
            (r#"{"multiscales":[{"axes":[{"name":"y"}]}]}"#, None, false, ImageVersion::V04),
            (r#"{"bioformats2raw.layout":3}"#, None, false, ImageVersion::V04),
        ] {
            assert_eq!(assumed(&json(text), Format::V2, separator, masks), wanted, "{text}");
        }
    }
}
