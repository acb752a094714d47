//! Parses OME-Zarr attributes of any version into the model. Tolerant: invalid parts are left out;
//! [`validate`](super::validate) reports them.

use crate::image::model::{
    Acquisition, Axis, AxisKind, Channel, ChannelWindow, ColorModel, Family, Field, Group, LabelColor,
    Labels, Level, Multiscale, Omero, Plate, Well, WellPlace,
};
use crate::image::version::{Stated, ome, stated};
use crate::meta::Json;

fn text(json: &Json, name: &str) -> Option<String> {
    json.text(name).map(str::to_owned)
}

fn texts(json: &Json, name: &str) -> Option<Vec<String>> {
    let items = json.get(name)?.items()?;
    Some(items.iter().filter_map(Json::as_str).map(str::to_owned).collect())
}

/// An integer, also one that is written as a decimal (`3.0`) or as text.
fn integer(json: &Json) -> Option<i128> {
    if let Some(text) = json.as_str() {
        return text.trim().parse().ok();
    }
    json.as_i128().or_else(|| {
        let x = json.as_f64()?;
        (x.fract() == 0.0 && x.abs() < 1e15).then(|| format!("{x:.0}").parse().ok())?
    })
}

/// Parses the attributes of a group.
#[must_use]
pub(crate) fn group(attributes: &Json) -> Group {
    let ome = ome(attributes);
    let version = match stated(attributes) {
        Stated::Known(version, _) => Some(version),
        Stated::Unknown(_) | Stated::Nothing => None,
    };
    let layout = ome.get("bioformats2raw.layout").or_else(|| attributes.get("bioformats2raw.layout"));
    Group {
        version,
        multiscales: ome.list("multiscales").iter().map(multiscale).collect(),
        omero: ome.get("omero").filter(|o| o.members().is_some()).map(omero),
        label: ome.get("image-label").filter(|l| l.members().is_some()).map(labels),
        listed: texts(ome, "labels").or_else(|| texts(ome, "masks")),
        plate: ome.get("plate").filter(|p| p.members().is_some()).map(plate),
        well: ome.get("well").filter(|w| w.members().is_some()).map(well),
        layout: layout.is_some(),
        series: texts(ome, "series"),
    }
}

fn multiscale(json: &Json) -> Multiscale {
    let system = intrinsic(json);
    let named: Vec<Axis> = system.unwrap_or(json).list("axes").iter().filter_map(axis).collect();
    // Before 0.3 axes are not stated, and there is only one order.
    let axes = if named.is_empty() { Axis::usual(5) } else { named };
    // In 0.6 they map one coordinate system to others.
    let whole = transforms(if system.is_some() { &[] } else { json.list("coordinateTransformations") });
    let levels = json
        .list("datasets")
        .iter()
        .filter_map(|d| {
            let own = transforms(d.list("coordinateTransformations")).then(&whole);
            Some(Level { path: text(d, "path")?, scale: own.scale, translation: own.translation })
        })
        .collect();
    Multiscale { name: text(json, "name"), axes, levels, method: text(json, "type") }
}

/// The coordinate system that the levels map to (0.6): the output of their transforms, else the first.
pub(crate) fn intrinsic(json: &Json) -> Option<&Json> {
    let systems = json.list("coordinateSystems");
    let name = |of: &Json| of.as_str().map(str::to_owned).or_else(|| text(of, "name"));
    let steps = json.list("datasets").iter().flat_map(|d| d.list("coordinateTransformations"));
    let wanted = steps.filter_map(|step| step.get("output")).find_map(name);
    systems.iter().find(|s| wanted.is_some() && text(s, "name") == wanted).or_else(|| systems.first())
}

fn axis(json: &Json) -> Option<Axis> {
    if let Some(name) = json.as_str() {
        return Some(Axis::named(name));
    }
    let name = text(json, "name")?;
    let kind = json.text("type").map_or_else(|| AxisKind::of_name(&name), AxisKind::parse);
    Some(Axis { name, kind, unit: text(json, "unit") })
}

/// A scale and then a translation.
#[derive(Debug, Clone, Default, PartialEq)]
struct Affine {
    scale: Option<Vec<f64>>,
    translation: Option<Vec<f64>>,
}

impl Affine {
    /// This followed by `next`.
    fn then(self, next: &Self) -> Self {
        type Vector = Option<Vec<f64>>;
        let both = |a: Vector, b: &Vector, f: fn((&f64, &f64)) -> f64| match (a, b) {
            (Some(a), Some(b)) => Some(a.iter().zip(b).map(f).collect()),
            (a, b) => a.or_else(|| b.clone()),
        };
        let multiply = |(a, b): (&f64, &f64)| a * b;
        // No translation stays none when scaled.
        let moved = self.translation.and_then(|own| both(Some(own), &next.scale, multiply));
        Self {
            scale: both(self.scale, &next.scale, multiply),
            translation: both(moved, &next.translation, |(a, b)| a + b),
        }
    }
}

/// Composes scales and translations; other transforms are ignored.
fn transforms(list: &[Json]) -> Affine {
    list.iter().fold(Affine::default(), |so_far, step| so_far.then(&transform(step)))
}

fn transform(json: &Json) -> Affine {
    match json.text("type") {
        Some("scale") => Affine { scale: json.numbers("scale"), translation: None },
        Some("translation") => Affine { scale: None, translation: json.numbers("translation") },
        Some("sequence") => transforms(json.list("transformations")),
        _ => Affine::default(),
    }
}

/// Parses `FF00AA`, also with a leading `#`, with three digits, or with a trailing alpha, which is ignored.
#[must_use]
pub(crate) fn color(text: &str) -> Option<[u8; 3]> {
    let digits = text.trim().trim_start_matches('#');
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let value = |from: usize, to: usize| u8::from_str_radix(digits.get(from..to)?, 16).ok();
    match digits.len() {
        6 | 8 => Some([value(0, 2)?, value(2, 4)?, value(4, 6)?]),
        3 => Some([value(0, 1)? * 17, value(1, 2)? * 17, value(2, 3)? * 17]),
        _ => None,
    }
}

fn omero(json: &Json) -> Omero {
    let rdefs = json.get("rdefs");
    let number = |name: &str| {
        let n = integer(rdefs?.get(name)?)?;
        u64::try_from(n).ok()
    };
    let model = rdefs.and_then(|r| r.text("model")).and_then(|model| match model {
        "color" | "rgb" => Some(ColorModel::Color),
        "greyscale" | "grayscale" => Some(ColorModel::Greyscale),
        _ => None,
    });
    Omero {
        name: text(json, "name"),
        channels: json.list("channels").iter().map(channel).collect(),
        default_z: number("defaultZ"),
        default_t: number("defaultT"),
        model,
        projection: rdefs.and_then(|r| text(r, "projection")),
    }
}

fn channel(json: &Json) -> Channel {
    let plain = Channel::default();
    let number = |name: &str| {
        json.get("window").and_then(|w| w.get(name)).and_then(Json::as_f64).filter(|x| x.is_finite())
    };
    let inverted = json.get("inverted").or_else(|| json.get("reverseIntensity")).and_then(Json::as_bool);
    Channel {
        label: text(json, "label"),
        active: json.get("active").and_then(Json::as_bool).unwrap_or(plain.active),
        color: json.text("color").and_then(color),
        family: json.text("family").and_then(Family::parse).unwrap_or(plain.family),
        coefficient: json
            .get("coefficient")
            .and_then(Json::as_f64)
            .filter(|k| k.is_finite() && *k > 0.0)
            .unwrap_or(plain.coefficient),
        inverted: inverted.unwrap_or(plain.inverted),
        window: ChannelWindow {
            start: number("start"),
            end: number("end"),
            min: number("min"),
            max: number("max"),
        },
    }
}

fn labels(json: &Json) -> Labels {
    let colors = json.list("colors").iter().filter_map(|c| {
        let rgba: Vec<u8> =
            c.get("rgba")?.items()?.iter().map(|n| u8::try_from(integer(n)?).ok()).collect::<Option<_>>()?;
        let rgba = match *rgba.as_slice() {
            [r, g, b, a] => [r, g, b, a],
            [r, g, b] => [r, g, b, 255],
            _ => return None,
        };
        Some(LabelColor { value: integer(c.get("label-value")?)?, rgba })
    });
    Labels {
        colors: colors.collect(),
        properties: json.list("properties").to_vec(),
        source: json.get("source").and_then(|s| text(s, "image")),
    }
}

/// The colours of a seed mask: `color`, from values as text to colours packed in one signed number. A boolean mask has
/// the key `true`.
#[must_use]
pub(crate) fn mask(attributes: &Json) -> Labels {
    let members = attributes.get("color").and_then(Json::members).unwrap_or_default();
    let colors = members.iter().filter_map(|(key, packed)| {
        let value = match key.trim() {
            "true" | "True" => 1,
            "false" | "False" => 0,
            key => key.parse().ok()?,
        };
        Some(LabelColor { value, rgba: packed_color(packed.as_i128()?)? })
    });
    // `../../0` is an array; the image is the group it is in.
    let source = attributes.get("image").and_then(|i| text(i, "array")).map(|array| {
        let array = array.trim_end_matches('/');
        array.rsplit_once('/').map_or_else(|| array.to_owned(), |(group, _)| format!("{group}/"))
    });
    Labels { colors: colors.collect(), properties: Vec::new(), source }
}

/// Red, green, blue and alpha of a packed colour: red is the highest byte. Signed, as seed writers wrote it, or
/// unsigned.
#[must_use]
pub(crate) fn packed_color(packed: i128) -> Option<[u8; 4]> {
    match (i32::try_from(packed), u32::try_from(packed)) {
        (Ok(signed), _) => Some(signed.to_be_bytes()),
        (_, Ok(unsigned)) => Some(unsigned.to_be_bytes()),
        _ => None,
    }
}

fn plate(json: &Json) -> Plate {
    let names = |name: &str| -> Vec<String> {
        json.list(name).iter().filter_map(|line| text(line, "name")).collect()
    };
    let (rows, columns) = (names("rows"), names("columns"));
    let wells = json.list("wells").iter().filter_map(|w| {
        let path = text(w, "path")?;
        let index = |name: &str| usize::try_from(integer(w.get(name)?)?).ok();
        // Before 0.4 only the path tells, by its last two parts.
        let mut parts = path.trim_matches('/').rsplit('/');
        let (column, row) = (parts.next(), parts.next());
        let place =
            |lines: &[String], name: Option<&str>| lines.iter().position(|l| Some(l.as_str()) == name);
        let row = index("rowIndex").or_else(|| place(&rows, row))?;
        let column = index("columnIndex").or_else(|| place(&columns, column))?;
        Some(WellPlace { path, row, column })
    });
    let wells = wells.collect();
    let acquisitions = json.list("acquisitions").iter().filter_map(|a| {
        Some(Acquisition { id: i64::try_from(integer(a.get("id")?)?).ok()?, name: text(a, "name") })
    });
    Plate { name: text(json, "name"), wells, acquisitions: acquisitions.collect(), rows, columns }
}

fn well(json: &Json) -> Well {
    let fields = json.list("images").iter().filter_map(|f| {
        let acquisition = f.get("acquisition").and_then(integer).and_then(|n| i64::try_from(n).ok());
        Some(Field { path: text(f, "path")?, acquisition })
    });
    Well { fields: fields.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    #[test]
    fn packed_colours_are_red_first_signed_or_not() {
        for (packed, wanted) in [
            (8_388_736, Some([0, 128, 0, 128])),
            (-1, Some([255; 4])),
            (-16_776_961, Some([255, 0, 0, 255])),
            (4_278_190_335, Some([255, 0, 0, 255])),
            (16_711_808, Some([0, 255, 0, 128])),
            (-8_388_480, Some([255, 128, 0, 128])),
            (100_100, Some([0, 1, 135, 4])),
            (0, Some([0; 4])),
            (1 << 32, None),
            (-(1 << 31) - 1, None),
        ] {
            assert_eq!(packed_color(packed), wanted, "{packed}");
        }
    }

    #[test]
    fn masks_of_the_seed_have_their_colours_and_their_image() {
        let labels = mask(&json(r#"{"color":{"1":8388736,"true":-1,"x":3},"image":{"array":"../../0/"}}"#));
        assert_eq!(labels.colors.len(), 2);
        assert_eq!(labels.source.as_deref(), Some("../../"));
    }

    #[test]
    fn scales_of_the_whole_multiply_those_of_the_levels() {
        let g = group(&json(
            r#"{"multiscales":[{"axes":[{"name":"y","type":"space"},{"name":"x","type":"space"}],
            "coordinateTransformations":[{"type":"scale","scale":[2,3]},{"type":"translation","translation":[1,1]}],
            "datasets":[{"path":"0","coordinateTransformations":[{"type":"scale","scale":[0.5,0.5]},
                {"type":"translation","translation":[10,20]}]}]}]}"#,
        ));
        assert_eq!(g.multiscales[0].levels[0].scale, Some(vec![1.0, 1.5]));
        assert_eq!(g.multiscales[0].levels[0].translation, Some(vec![21.0, 61.0]));
    }

    #[test]
    fn coordinate_systems_are_axes() {
        let g = group(&json(
            r#"{"ome":{"version":"0.6","multiscales":[{"coordinateSystems":[{"name":"physical","axes":
            [{"name":"y","type":"space","unit":"micrometer"},{"name":"x","type":"space"}]}],
            "datasets":[{"path":"s0","coordinateTransformations":[{"type":"sequence","input":{"path":"s0"},
            "output":{"name":"physical"},"transformations":[{"type":"scale","scale":[0.5,1]},
            {"type":"translation","translation":[10,0]}]}]}]}]}}"#,
        ));
        assert_eq!(g.multiscales[0].axes[0].unit.as_deref(), Some("micrometer"));
        assert_eq!(g.multiscales[0].levels[0].scale, Some(vec![0.5, 1.0]));
        assert_eq!(g.multiscales[0].levels[0].translation, Some(vec![10.0, 0.0]));
    }

    #[test]
    fn the_axes_are_those_of_the_system_that_levels_lead_to() {
        let g = group(&json(
            r#"{"ome":{"version":"0.6","multiscales":[{"coordinateSystems":[
            {"name":"world","axes":[{"name":"a"}]},{"name":"own","axes":[{"name":"y"},{"name":"x"}]}],
            "coordinateTransformations":[{"type":"scale","scale":[9,9],"input":{"name":"own"},"output":{"name":"world"}}],
            "datasets":[{"path":"0","coordinateTransformations":[{"type":"scale","scale":[0.5,1],
            "input":{"path":"0"},"output":{"name":"own"}}]}]}]}}"#,
        ));
        assert_eq!(g.multiscales[0].axes.len(), 2);
        assert_eq!(g.multiscales[0].levels[0].scale, Some(vec![0.5, 1.0]));
    }

    #[test]
    fn wells_without_indices_are_placed_by_their_path() {
        let g = group(&json(
            r#"{"plate":{"rows":[{"name":"A"},{"name":"B"}],"columns":[{"name":"1"},{"name":"2"}],
            "wells":[{"path":"2020-10-10/B/1"},{"path":"A/2","rowIndex":0,"columnIndex":1},{"path":"C/9"}]}}"#,
        ));
        let wells = g.plate.unwrap().wells;
        assert_eq!(wells.iter().map(|w| (w.row, w.column)).collect::<Vec<_>>(), [(1, 0), (0, 1)]);
    }
}
