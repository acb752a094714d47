//! Writes the image model as OME-Zarr metadata of a version: attributes of groups, and requirements on arrays.
//!
//! Only for new images. Existing metadata is [edited](super::edit) or [upgraded](super::upgrade) as JSON, so that
//! unknown keys are kept.

use crate::image::model::{
    Axis, AxisKind, Channel, ColorModel, LabelColor, Labels, Level, Multiscale, Omero,
};
use crate::image::version::ImageVersion;
use crate::meta::create::NewArray;
use crate::meta::{ChunkKeys, Json};

/// The name of the coordinate system of new images.
pub(crate) const INTRINSIC: &str = "physical";

/// Sets a member if its value is known.
pub(crate) fn set_known(json: &mut Json, name: &str, value: Option<impl Into<Json>>) {
    if let Some(value) = value {
        json.set(name, value);
    }
}

/// Sets a member unless the object is empty.
fn set_filled(json: &mut Json, name: &str, object: Json) {
    if object.members().is_some_and(|m| !m.is_empty()) {
        json.set(name, object);
    }
}

/// A number in its shortest form: `1`, not `1.0`.
pub(crate) fn number(x: f64) -> Json {
    match Json::float(x) {
        Json::Number(text) => Json::Number(text.strip_suffix(".0").unwrap_or(&text).into()),
        other => other,
    }
}

/// An object that starts with the version, if this OME-Zarr version has one there.
pub(crate) fn versioned(version: ImageVersion, has_one: bool) -> Json {
    let mut out = Json::object();
    set_known(&mut out, "version", has_one.then(|| version.text()));
    out
}

/// Attributes of a group from OME members: below `ome` with the version since 0.5, else at the top.
#[must_use]
pub(crate) fn group(version: ImageVersion, members: Vec<(String, Json)>) -> Json {
    if version < ImageVersion::V05 {
        return Json::Object(members);
    }
    let mut ome = versioned(version, true);
    for (name, value) in members {
        ome.set(&name, value);
    }
    Json::from([("ome", ome)])
}

/// The attributes of an image's group.
#[must_use]
pub fn image(
    version: ImageVersion,
    multiscale: &Multiscale,
    omero: Option<&Omero>,
    labels: Option<&Labels>,
) -> Json {
    let mut members = Json::from([("multiscales", Json::Array(vec![self::multiscale(version, multiscale)]))]);
    set_known(&mut members, "omero", omero.map(|omero| self::omero(version, omero)));
    set_known(&mut members, "image-label", labels.map(|labels| image_label(version, labels)));
    group(version, members.members().unwrap_or_default().to_vec())
}

/// One item of `multiscales`.
#[must_use]
pub(crate) fn multiscale(version: ImageVersion, m: &Multiscale) -> Json {
    let mut out = versioned(version, version < ImageVersion::V05);
    set_known(&mut out, "name", m.name.as_deref());
    match version {
        ImageVersion::Seed | ImageVersion::V01 | ImageVersion::V02 => {}
        ImageVersion::V03 => out.set("axes", m.axes.iter().map(|a| &a.name).collect::<Json>()),
        ImageVersion::V04 | ImageVersion::V05 => out.set("axes", axes(version, &m.axes)),
        ImageVersion::V06 => {
            let system = Json::from([("name", INTRINSIC.into()), ("axes", axes(version, &m.axes))]);
            out.set("coordinateSystems", vec![system]);
        }
    }
    let datasets = m.levels.iter().map(|level| dataset(version, level, m.axes.len()));
    out.set("datasets", datasets.collect::<Json>());
    set_known(&mut out, "type", m.method.as_deref());
    out
}

fn axes(version: ImageVersion, axes: &[Axis]) -> Json {
    let item = |axis: &Axis| {
        let mut out = Json::from([("name", (&axis.name).into())]);
        set_known(&mut out, "type", axis.kind.text());
        set_known(&mut out, "unit", axis.unit.as_deref());
        let discrete = version == ImageVersion::V06 && axis.kind == AxisKind::Channel;
        set_known(&mut out, "discrete", discrete.then_some(true));
        out
    };
    axes.iter().map(item).collect()
}

fn dataset(version: ImageVersion, level: &Level, rank: usize) -> Json {
    let mut out = Json::from([("path", (&level.path).into())]);
    if version < ImageVersion::V04 {
        return out;
    }
    let ones = vec![1.0; rank];
    let scale = level.scale.as_deref().unwrap_or(&ones);
    let mut list = transforms(scale, level.translation.as_deref().unwrap_or_default());
    if version >= ImageVersion::V06 {
        let output = Json::from([("name", INTRINSIC.into())]);
        list = vec![between(list, ("path", (&level.path).into()), Some(output))];
    }
    out.set("coordinateTransformations", list);
    out
}

/// A scale or a translation.
pub(crate) fn transform(kind: &str, values: &[f64]) -> Json {
    Json::from([("type", kind.into()), (kind, values.into())])
}

/// A scale, and a translation unless it is zero.
pub(crate) fn transforms(scale: &[f64], translation: &[f64]) -> Vec<Json> {
    let moves = translation.iter().any(|x| *x != 0.0);
    let moved = moves.then(|| transform("translation", translation));
    std::iter::once(transform("scale", scale)).chain(moved).collect()
}

/// Combines transforms into the single one of 0.6, from the dataset or coordinate system that `input` names.
pub(crate) fn between(steps: Vec<Json>, input: (&str, Json), output: Option<Json>) -> Json {
    let mut one = match steps.as_slice() {
        [] => Json::from([("type", "identity".into())]),
        [only] => only.clone(),
        _ => Json::from([("type", "sequence".into()), ("transformations", steps.into())]),
    };
    one.set("input", Json::from([input]));
    set_known(&mut one, "output", output);
    one
}

/// `omero`.
#[must_use]
pub(crate) fn omero(version: ImageVersion, omero: &Omero) -> Json {
    let mut out = versioned(version, version < ImageVersion::V05);
    set_known(&mut out, "name", omero.name.as_deref());
    out.set("channels", omero.channels.iter().map(channel).collect::<Json>());
    let mut rdefs = Json::object();
    set_known(&mut rdefs, "defaultT", omero.default_t);
    set_known(&mut rdefs, "defaultZ", omero.default_z);
    set_known(&mut rdefs, "model", omero.model.map(ColorModel::text));
    set_known(&mut rdefs, "projection", omero.projection.as_deref());
    set_filled(&mut out, "rdefs", rdefs);
    out
}

/// One item of `omero.channels`.
#[must_use]
pub(crate) fn channel(channel: &Channel) -> Json {
    let mut out =
        Json::from([("active", channel.active.into()), ("coefficient", number(channel.coefficient))]);
    set_known(&mut out, "color", channel.color.map(hex));
    out.set("family", channel.family.text());
    out.set("inverted", channel.inverted);
    set_known(&mut out, "label", channel.label.as_deref());
    let w = &channel.window;
    let mut window = Json::object();
    for (name, value) in [("min", w.min), ("max", w.max), ("start", w.start), ("end", w.end)] {
        set_known(&mut window, name, value.map(number));
    }
    set_filled(&mut out, "window", window);
    out
}

/// A colour as six hexadecimal digits.
#[must_use]
pub fn hex([r, g, b]: [u8; 3]) -> String {
    format!("{r:02X}{g:02X}{b:02X}")
}

/// `image-label`.
#[must_use]
pub(crate) fn image_label(version: ImageVersion, labels: &Labels) -> Json {
    // The specification of 0.5 still requires a version here; 0.6 has it in one place only.
    let mut out = versioned(version, version < ImageVersion::V06);
    if !labels.colors.is_empty() {
        out.set("colors", labels.colors.iter().map(label_color).collect::<Json>());
    }
    if !labels.properties.is_empty() {
        out.set("properties", labels.properties.clone());
    }
    let source = labels.source.as_deref().unwrap_or("../../");
    out.set("source", Json::from([("image", source.into())]));
    out
}

/// One item of `colors`.
pub(crate) fn label_color(color: &LabelColor) -> Json {
    Json::from([("label-value", color.value.into()), ("rgba", color.rgba.as_slice().into())])
}

/// `color` of a seed mask: values as text, colours packed in one signed number, red highest.
#[must_use]
pub(crate) fn mask_colors(colors: &[LabelColor]) -> Json {
    let packed = |c: &LabelColor| (c.value.to_string(), Json::int(i32::from_be_bytes(c.rgba)));
    Json::Object(colors.iter().map(packed).collect())
}

/// Adapts a new array to the version: Zarr format, chunk keys, dimension names.
pub fn prepare(array: &mut NewArray, version: ImageVersion, axes: &[Axis]) {
    array.format = version.format();
    // In the arrays of 0.3 the names are `_ARRAY_DIMENSIONS`.
    let named = version >= ImageVersion::V05 || version == ImageVersion::V03;
    array.dimension_names = named.then(|| axes.iter().map(|a| Some(a.name.clone())).collect());
    if version < ImageVersion::V05 {
        array.keys = version.separator().map(|separator| ChunkKeys { prefixed: false, separator });
        array.shards = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::model::{ChannelWindow, Family};
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
            window: ChannelWindow { start: Some(1.5), end: Some(200.0), min: Some(0.0), max: Some(255.0) },
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
        for version in [ImageVersion::V04, ImageVersion::V05, ImageVersion::V06] {
            let read = parse::group(&image(version, &multiscale, Some(&omero), None));
            assert_eq!(read.version, Some(version));
            assert_eq!(read.multiscales, std::slice::from_ref(&multiscale), "{version}");
            assert_eq!(read.omero.as_ref(), Some(&omero));
        }
        let read = parse::group(&image(ImageVersion::V03, &multiscale, None, None));
        assert_eq!(read.multiscales[0].axes.iter().map(|a| a.name.as_str()).collect::<String>(), "cyx");
        assert_eq!(read.multiscales[0].levels[1].scale, None);
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        let text = image(ImageVersion::V05, &sample().0, Some(&sample().1), None).to_string();
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
        for version in [ImageVersion::V01, ImageVersion::V04, ImageVersion::V05, ImageVersion::V06] {
            let read = parse::group(&image(version, &sample().0, None, Some(&label)));
            assert_eq!(read.label.as_ref(), Some(&label));
        }
        let mask = Json::from([("color", mask_colors(&label.colors))]);
        assert_eq!(parse::mask(&mask).colors, label.colors);
    }
}
