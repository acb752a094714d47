//! Writes levels into the metadata of an image. Existing metadata is edited as JSON, so that unknown keys are kept.

use super::{Downsampling, Factors, LevelPlan};
use crate::error::{Error, Result, invalid, unsupported};
use crate::image::document::{between, set_known, transforms};
use crate::image::version::{self, ImageVersion};
use crate::meta::Json;

/// A level that was built.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// Its path, from the image's group.
    pub(super) path: String,
    /// Its factors.
    pub(super) plan: LevelPlan,
}

/// The index of the item of `multiscales` to use: the first that has levels.
pub(super) fn which(attributes: &Json) -> Option<usize> {
    version::ome(attributes).list("multiscales").iter().position(|m| !datasets(m).is_empty())
}

/// Its `datasets`.
pub(super) fn datasets(multiscale: &Json) -> &[Json] {
    multiscale.list("datasets")
}

/// Describes the downsampling, for `metadata`.
pub(super) fn how(method: Downsampling, factors: &Factors, levels: &[Made]) -> Json {
    let mut kwargs = Json::from([("method", method.text().into())]);
    let first = levels.first().filter(|_| !matches!(factors, Factors::Levels(_)));
    set_known(&mut kwargs, "factors", first.map(|made| &made.plan.step));
    Json::from([
        ("description", description(method).into()),
        ("method", "zaro image pyramid".into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("kwargs", kwargs),
    ])
}

fn description(method: Downsampling) -> &'static str {
    match method {
        Downsampling::Mean => "the mean of the pixels that become one; of integers the nearest, half up",
        Downsampling::Mode => "the most frequent of the pixels that become one; of several, the smallest",
        Downsampling::Gaussian => {
            "a discrete Gaussian of variance (k^2-1)/(8 ln 2) around the centre of the pixels that become one"
        }
        Downsampling::Decimate => "the first of the pixels that become one",
    }
}

/// The attributes with these smaller levels in place of the previous ones.
pub(super) fn with_levels(
    attributes: &Json,
    version: ImageVersion,
    rank: usize,
    levels: &[Made],
    method: Option<(Downsampling, Json)>,
) -> Result<Json> {
    let missing = || Error::invalid("the image has no multiscales");
    let which = which(attributes).ok_or_else(missing)?;
    let mut changed = attributes.clone();
    version::edit_ome(&mut changed, |ome| {
        let multiscale = ome.list_mut("multiscales").get_mut(which).ok_or_else(missing)?;
        let first = datasets(multiscale).first().cloned().ok_or_else(missing)?;
        let centred = method.as_ref().is_none_or(|(m, _)| *m != Downsampling::Decimate);
        let smaller = levels.iter().map(|level| dataset(version, &first, rank, level, centred));
        let all = std::iter::once(Ok(first.clone())).chain(smaller).collect::<Result<Vec<_>>>()?;
        multiscale.set("datasets", all);
        // Without a method, the levels are yet to be built: the rest of the metadata must be kept for then, also after
        // a kill.
        if let Some((method, how)) = method {
            multiscale.set("type", method.text());
            let mut metadata = multiscale.inner("metadata");
            // Remove descriptions of the previous downsampling.
            metadata.remove("args");
            metadata.set_all(&how);
            multiscale.set("metadata", metadata);
        }
        Ok::<_, Error>(())
    })?;
    Ok(changed)
}

/// The numbers of the transform of a type in a list.
fn vector(list: &[Json], kind: &str) -> Option<Vec<f64>> {
    list.iter().find_map(|t| match t.text("type") {
        Some("sequence") => vector(t.list("transformations"), kind),
        Some(found) if found == kind => t.numbers(kind),
        _ => None,
    })
}

/// The type of a transform that is neither a valid scale or translation nor a sequence of these.
fn other_kind(json: &Json) -> Option<String> {
    let kind = json.text("type").unwrap_or_default();
    match kind {
        "identity" => None,
        "scale" | "translation" if vector(std::slice::from_ref(json), kind).is_some() => None,
        "sequence" => json.list("transformations").iter().find_map(other_kind),
        other => Some(other.to_owned()),
    }
}

/// The `datasets` item of a smaller level, derived from that of the largest.
fn dataset(version: ImageVersion, first: &Json, rank: usize, level: &Made, centred: bool) -> Result<Json> {
    let mut out = Json::from([("path", (&level.path).into())]);
    if version < ImageVersion::V04 {
        return Ok(out);
    }
    let given = first.list("coordinateTransformations");
    if let Some(other) = given.iter().find_map(other_kind) {
        return Err(unsupported!(
            "the largest level has a transform of type {other:?}, from which those of smaller levels cannot be derived"
        ));
    }
    let of = |kind: &str, usual: f64| {
        let found = vector(given, kind).unwrap_or_else(|| vec![usual; rank]);
        if found.len() == rank {
            return Ok(found);
        }
        Err(invalid!("the {kind} of the largest level has {} numbers, not {rank}", found.len()))
    };
    let (scale, translation) = (of("scale", 1.0)?, of("translation", 0.0)?);
    let factors = level.plan.factors.iter().map(|f| f64::from(u32::try_from(*f).unwrap_or(u32::MAX)));
    let larger: Vec<f64> = scale.iter().zip(factors).map(|(s, f)| s * f).collect();
    let moved: Vec<f64> = translation
        .iter()
        .zip(scale.iter().zip(&larger))
        .map(|(t, (s, l))| if centred { t + (l - s) / 2.0 } else { *t })
        .collect();
    let mut list = transforms(&larger, &moved);
    if version >= ImageVersion::V06 {
        let output = given.first().and_then(|t| t.get("output")).cloned();
        list = vec![between(list, ("path", (&level.path).into()), output)];
    }
    out.set("coordinateTransformations", list);
    Ok(out)
}

/// The path of level `number`, derived from that of the largest: `0` to `1`, `s0` to `s1`, `scale0/image` to
/// `scale1/image`; for a name without a zero, `1` beside it.
pub(super) fn level_path(first: &str, number: usize) -> String {
    let first = first.trim_matches('/');
    let bytes = first.as_bytes();
    let digit = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_digit);
    let lone =
        |i: &usize| bytes.get(*i) == Some(&b'0') && !digit(i.checked_sub(1)) && !digit(i.checked_add(1));
    if let Some(at) = (0..bytes.len()).rev().find(lone)
        && let (Some(before), Some(after)) = (first.get(..at), first.get(at.saturating_add(1)..))
    {
        return format!("{before}{number}{after}");
    }
    match first.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{number}"),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::parse;
    use crate::meta::json::json;

    fn made(path: &str, factors: &[u64]) -> Made {
        let plan = LevelPlan { shape: vec![1, 1], step: vec![2, 2], factors: factors.to_vec() };
        Made { path: path.into(), plan }
    }

    #[test]
    fn names_follow_that_of_the_largest() {
        for (first, wanted) in [
            ("0", "2"),
            ("s0", "s2"),
            ("scale0/image", "scale2/image"),
            ("a0/0", "a0/2"),
            ("image", "2"),
            ("g/full", "g/2"),
            ("10", "2"),
        ] {
            assert_eq!(level_path(first, 2), wanted);
        }
    }

    #[test]
    fn scale_and_translation_are_those_of_the_pixels_that_became_one() {
        // The example of the text: pixels of half a micrometre, at 10.
        let old = json(
            r#"{"other":1,"multiscales":[{"version":"0.4","axes":[{"name":"y"},{"name":"x"}],"x":2,"datasets":[
            {"path":"0","coordinateTransformations":[{"type":"scale","scale":[0.5,0.5]},
            {"type":"translation","translation":[10,0]}]},{"path":"old"}]}],"omero":{"unknown":[]}}"#,
        );
        let levels = [made("1", &[2, 2]), made("2", &[4, 4])];
        let how = how(Downsampling::Mean, &Factors::default(), &levels);
        let new = with_levels(&old, ImageVersion::V04, 2, &levels, Some((Downsampling::Mean, how.clone())))
            .unwrap();
        let read = parse::group(&new).multiscales.remove(0);
        assert_eq!(read.levels[1].scale, Some(vec![1.0, 1.0]));
        assert_eq!(read.levels[1].translation, Some(vec![10.25, 0.25]));
        assert_eq!(read.levels[2].scale, Some(vec![2.0, 2.0]));
        assert_eq!(read.levels[2].translation, Some(vec![10.75, 0.75]));
        assert_eq!(read.levels.len(), 3);
        assert_eq!(read.method.as_deref(), Some("mean"));
        assert_eq!(new.get("other"), old.get("other"));
        assert_eq!(new.get("omero"), old.get("omero"));
        let multiscale = &new.get("multiscales").unwrap().items().unwrap()[0];
        assert_eq!(multiscale.get("x"), Some(&Json::int(2)));
        assert!(multiscale.get("metadata").unwrap().get("kwargs").is_some());
        // The first of each stays where it is.
        let new =
            with_levels(&old, ImageVersion::V04, 2, &levels, Some((Downsampling::Decimate, how))).unwrap();
        let read = parse::group(&new).multiscales.remove(0);
        assert_eq!(read.levels[2].translation, Some(vec![10.0, 0.0]));
    }

    #[test]
    fn every_version_has_its_own_form() {
        let levels = [made("s1", &[2, 2])];
        let how = || Some((Downsampling::Mode, Json::object()));
        let old = json(
            r#"{"ome":{"version":"0.6","multiscales":[{"coordinateSystems":[{"name":"w","axes":[{"name":"y"},{"name":"x"}]}],
            "datasets":[{"path":"s0","coordinateTransformations":[{"type":"identity","input":{"path":"s0"},
            "output":{"name":"w"}}]}]}]}}"#,
        );
        let new = with_levels(&old, ImageVersion::V06, 2, &levels, how()).unwrap();
        let text = new.to_string();
        assert!(
            text.contains(
                r#"{"path":"s1","coordinateTransformations":[{"type":"sequence","transformations":[{"type":"scale","scale":[2.0,2.0]},{"type":"translation","translation":[0.5,0.5]}],"input":{"path":"s1"},"output":{"name":"w"}}]}"#
            ),
            "{text}"
        );
        let old = json(r#"{"multiscales":[{"datasets":[]},{"datasets":[{"path":"0"}]}]}"#);
        let new = with_levels(&old, ImageVersion::V02, 5, &levels, how()).unwrap();
        assert!(new.to_string().contains(r#""datasets":[{"path":"0"},{"path":"s1"}]"#));
    }
}
