//! The model to documents: attributes of groups as a version wants them, and what it asks of arrays.
//!
//! Only for what is made new. What is there already is [edited](super::edit) or [upgraded](super::upgrade) as it is
//! written, so that unknown keys stay.

use crate::image::model::{Axis, Channel, ColorModel, LabelColor, Labels, Level, Multiscale, Omero};
use crate::image::version::Version;
use crate::meta::create::NewArray;
use crate::meta::{ChunkKeys, Json};

/// The name of the coordinate system that images made here have.
pub(crate) const INTRINSIC: &str = "physical";

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn set_text(json: &mut Json, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        json.set(name, Json::string(text));
    }
}

/// A number as short as it can be: `1`, not `1.0`.
fn number(x: f64) -> Json {
    match Json::float(x) {
        Json::Number(text) => Json::Number(text.strip_suffix(".0").unwrap_or(&text).into()),
        other => other,
    }
}

fn numbers(list: &[f64]) -> Json {
    Json::Array(list.iter().map(|x| Json::float(*x)).collect())
}

/// Attributes of a group from OME's members: below `ome` with the version since 0.5, else as they are.
#[must_use]
pub(crate) fn group(version: Version, members: Vec<(String, Json)>) -> Json {
    if version < Version::V05 {
        return Json::Object(members);
    }
    let mut ome = object([("version", Json::string(version.text()))]);
    for (name, value) in members {
        ome.set(&name, value);
    }
    object([("ome", ome)])
}

/// The attributes of an image's group. `made` is the `metadata` of its pyramid: how it was made.
#[must_use]
pub fn image(
    version: Version,
    multiscale: &Multiscale,
    omero: Option<&Omero>,
    labels: Option<&Labels>,
    made: Option<&Json>,
) -> Json {
    let mut members =
        vec![("multiscales".to_owned(), Json::Array(vec![self::multiscale(version, multiscale, made)]))];
    if let Some(omero) = omero {
        members.push(("omero".to_owned(), self::omero(version, omero)));
    }
    if let Some(labels) = labels {
        members.push(("image-label".to_owned(), image_label(version, labels)));
    }
    group(version, members)
}

/// One item of `multiscales`.
#[must_use]
pub(crate) fn multiscale(version: Version, m: &Multiscale, made: Option<&Json>) -> Json {
    let mut out = Json::object();
    if version < Version::V05 {
        out.set("version", Json::string(version.text()));
    }
    set_text(&mut out, "name", m.name.as_deref());
    match version {
        Version::Seed | Version::V01 | Version::V02 => {}
        Version::V03 => {
            out.set("axes", Json::Array(m.axes.iter().map(|a| Json::string(a.name.as_str())).collect()))
        }
        Version::V04 | Version::V05 => out.set("axes", axes(version, &m.axes)),
        Version::V06 => {
            let system = object([("name", Json::string(INTRINSIC)), ("axes", axes(version, &m.axes))]);
            out.set("coordinateSystems", Json::Array(vec![system]));
        }
    }
    let datasets = m.levels.iter().map(|level| dataset(version, level, m.axes.len()));
    out.set("datasets", Json::Array(datasets.collect()));
    set_text(&mut out, "type", m.method.as_deref());
    if let Some(made) = made {
        out.set("metadata", made.clone());
    }
    out
}

fn axes(version: Version, axes: &[Axis]) -> Json {
    let item = |axis: &Axis| {
        let mut out = object([("name", Json::string(axis.name.as_str()))]);
        set_text(&mut out, "type", axis.kind.text());
        set_text(&mut out, "unit", axis.unit.as_deref());
        if version == Version::V06 && axis.kind == crate::image::model::AxisKind::Channel {
            out.set("discrete", Json::Bool(true));
        }
        out
    };
    Json::Array(axes.iter().map(item).collect())
}

fn dataset(version: Version, level: &Level, rank: usize) -> Json {
    let mut out = object([("path", Json::string(level.path.as_str()))]);
    if version < Version::V04 {
        return out;
    }
    let ones = vec![1.0; rank];
    let scale = object([
        ("type", Json::string("scale")),
        ("scale", numbers(level.scale.as_deref().unwrap_or(&ones))),
    ]);
    let moved = level.translation.as_ref().filter(|t| t.iter().any(|x| *x != 0.0));
    let moved = moved.map(|t| object([("type", Json::string("translation")), ("translation", numbers(t))]));
    let list = if version < Version::V06 {
        std::iter::once(scale).chain(moved).collect()
    } else {
        let mut one = match moved {
            None => scale,
            Some(moved) => object([
                ("type", Json::string("sequence")),
                ("transformations", Json::Array(vec![scale, moved])),
            ]),
        };
        one.set("input", object([("path", Json::string(level.path.as_str()))]));
        one.set("output", object([("name", Json::string(INTRINSIC))]));
        vec![one]
    };
    out.set("coordinateTransformations", Json::Array(list));
    out
}

/// `omero`.
#[must_use]
pub(crate) fn omero(version: Version, omero: &Omero) -> Json {
    let mut out = Json::object();
    if version < Version::V05 {
        out.set("version", Json::string(version.text()));
    }
    set_text(&mut out, "name", omero.name.as_deref());
    out.set("channels", Json::Array(omero.channels.iter().map(channel).collect()));
    let mut rdefs = Json::object();
    if let Some(t) = omero.default_t {
        rdefs.set("defaultT", Json::int(t));
    }
    if let Some(z) = omero.default_z {
        rdefs.set("defaultZ", Json::int(z));
    }
    match omero.model {
        Some(ColorModel::Color) => rdefs.set("model", Json::string("color")),
        Some(ColorModel::Greyscale) => rdefs.set("model", Json::string("greyscale")),
        None => {}
    }
    set_text(&mut rdefs, "projection", omero.projection.as_deref());
    if rdefs.members().is_some_and(|m| !m.is_empty()) {
        out.set("rdefs", rdefs);
    }
    out
}

/// One item of `omero.channels`.
#[must_use]
pub(crate) fn channel(channel: &Channel) -> Json {
    let mut out =
        object([("active", Json::Bool(channel.active)), ("coefficient", number(channel.coefficient))]);
    if let Some(color) = channel.color {
        out.set("color", Json::string(hex(color)));
    }
    out.set("family", Json::string(channel.family.text()));
    out.set("inverted", Json::Bool(channel.inverted));
    set_text(&mut out, "label", channel.label.as_deref());
    let w = &channel.window;
    let mut window = Json::object();
    for (name, value) in [("min", w.min), ("max", w.max), ("start", w.start), ("end", w.end)] {
        if let Some(x) = value {
            window.set(name, number(x));
        }
    }
    if window.members().is_some_and(|m| !m.is_empty()) {
        out.set("window", window);
    }
    out
}

/// Six digits.
#[must_use]
pub fn hex([r, g, b]: [u8; 3]) -> String {
    format!("{r:02X}{g:02X}{b:02X}")
}

/// `image-label`.
#[must_use]
pub(crate) fn image_label(version: Version, labels: &Labels) -> Json {
    let mut out = Json::object();
    // The text of 0.5 still asks for a version here; 0.6 has it in one place only.
    if version < Version::V06 {
        out.set("version", Json::string(version.text()));
    }
    if !labels.colors.is_empty() {
        let item = |c: &LabelColor| {
            object([
                ("label-value", Json::int(c.value)),
                ("rgba", Json::Array(c.rgba.iter().map(Json::int).collect())),
            ])
        };
        out.set("colors", Json::Array(labels.colors.iter().map(item).collect()));
    }
    if !labels.properties.is_empty() {
        out.set("properties", Json::Array(labels.properties.clone()));
    }
    let source = labels.source.as_deref().unwrap_or("../../");
    out.set("source", object([("image", Json::string(source))]));
    out
}

/// `color` of a mask of the seed: values as text, colours packed in one signed number, red highest.
#[must_use]
pub(crate) fn mask_colors(colors: &[LabelColor]) -> Json {
    let packed = |c: &LabelColor| (c.value.to_string(), Json::int(i32::from_be_bytes(c.rgba)));
    Json::Object(colors.iter().map(packed).collect())
}

/// Makes a new array one that the version allows: its format, its chunk keys, the names of its dimensions.
pub fn prepare(array: &mut NewArray, version: Version, axes: &[Axis]) {
    let names = || axes.iter().map(|a| a.name.clone());
    array.format = version.format();
    if version >= Version::V05 {
        array.dimension_names = Some(names().map(Some).collect());
    } else {
        array.dimension_names = None;
        array.keys = version.separator().map(|separator| ChunkKeys { prefixed: false, separator });
        array.shards = None;
    }
    if version == Version::V03 {
        // In its arrays these are `_ARRAY_DIMENSIONS`.
        array.dimension_names = Some(names().map(Some).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::model::{Family, Window};
    use crate::image::parse;

    fn sample() -> (Multiscale, Omero) {
        let axis =
            |name: &str, unit: Option<&str>| Axis { unit: unit.map(str::to_owned), ..Axis::named(name) };
        let level = |path: &str, s: f64, t: f64| Level {
            path: path.into(),
            scale: Some(vec![1.0, s, s]),
            translation: (t != 0.0).then(|| vec![0.0, t, t]),
        };
        let multiscale = Multiscale {
            name: Some("cells".into()),
            axes: vec![axis("c", None), axis("y", Some("micrometer")), axis("x", Some("micrometer"))],
            levels: vec![level("0", 0.5, 0.0), level("1", 1.0, 0.25)],
            method: Some("mean".into()),
        };
        let channel = Channel {
            label: Some("DNA".into()),
            color: Some([0, 171, 255]),
            family: Family::Polynomial,
            coefficient: 0.5,
            window: Window { start: Some(1.5), end: Some(200.0), min: Some(0.0), max: Some(255.0) },
            ..Channel::default()
        };
        let omero = Omero {
            channels: vec![channel],
            default_z: Some(3),
            model: Some(ColorModel::Color),
            ..Omero::default()
        };
        (multiscale, omero)
    }

    #[test]
    fn what_is_written_is_read_back_in_every_version_that_can_say_it() {
        let (multiscale, omero) = sample();
        for version in [Version::V04, Version::V05, Version::V06] {
            let read = parse::group(&image(version, &multiscale, Some(&omero), None, None));
            assert_eq!(read.version, Some(version));
            assert_eq!(read.multiscales, std::slice::from_ref(&multiscale), "{version}");
            assert_eq!(read.omero.as_ref(), Some(&omero));
        }
        let read = parse::group(&image(Version::V03, &multiscale, None, None, None));
        assert_eq!(read.multiscales[0].axes.iter().map(|a| a.name.as_str()).collect::<String>(), "cyx");
        assert_eq!(read.multiscales[0].levels[1].scale, None);
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        let text = image(Version::V05, &sample().0, Some(&sample().1), None, None).to_string();
        for part in [r#""end":200,"#, r#""start":1.5"#, r#""color":"00ABFF""#, r#""scale":[1.0,0.5,0.5]"#] {
            let bare = text.replace(' ', "");
            assert!(bare.contains(part.trim_end_matches(',')), "{part} in {text}");
        }
    }

    #[test]
    fn labels_are_read_back() {
        let label = Labels {
            colors: vec![LabelColor { value: 7, rgba: [1, 2, 3, 255] }],
            properties: vec![],
            source: Some("../../".into()),
        };
        for version in [Version::V01, Version::V04, Version::V05, Version::V06] {
            let read = parse::group(&image(version, &sample().0, None, Some(&label), None));
            assert_eq!(read.label.as_ref(), Some(&label));
        }
        let mut mask = Json::object();
        mask.set("color", mask_colors(&label.colors));
        assert_eq!(parse::mask(&mask).colors, label.colors);
    }
}
