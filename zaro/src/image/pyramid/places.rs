//! Decides which arrays of an image a pyramid may delete. The paths are untrusted: deleting a level called `""`, `0/c`
//! or `/0` beside `0` would delete the pixels themselves. They are checked before anything is deleted.

use futures::TryStreamExt as _;

use super::attributes;
use crate::error::{Error, Result, invalid, usage};
use crate::hierarchy;
use crate::image::version;
use crate::meta::path::{join, normal};
use crate::meta::{Json, NodeMeta};
use crate::store::SharedStore;
use crate::store::StoreExt as _;

/// Children of an image that are not levels.
const OTHERS: [&str; 3] = ["labels", "masks", "OME"];

/// The levels in the metadata of an image, by their paths from the image's group.
#[derive(Debug)]
pub(super) struct LevelPaths {
    /// The largest level.
    pub(super) first: String,
    /// The smaller levels, which a new pyramid replaces.
    pub(super) smaller: Vec<String>,
    /// The levels of other multiscales of the image.
    others: Vec<String>,
}

impl LevelPaths {
    /// The levels of the image with these attributes. An error if a smaller level overlaps something that must be kept.
    pub(super) fn of(attributes: &Json) -> Result<Self> {
        let which = attributes::which(attributes);
        let all = version::ome(attributes).list("multiscales");
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (i, multiscale) in all.iter().enumerate() {
            for dataset in attributes::datasets(multiscale) {
                let path = dataset.text("path");
                let path = path.ok_or_else(|| Error::invalid("a level in the metadata has no path"))?;
                if Some(i) == which { &mut own } else { &mut others }.push(level(path)?);
            }
        }
        let mut own = own.into_iter();
        let first = own.next().ok_or_else(|| Error::invalid("the image has no levels"))?;
        let places = Self { first, smaller: own.collect(), others };
        for (i, path) in places.smaller.iter().enumerate() {
            places.check(path)?;
            if let Some(other) = places.smaller.iter().take(i).find(|other| overlap(path, other)) {
                return Err(collision(path, &format!("the level {other:?}")));
            }
        }
        Ok(places)
    }

    /// An error if an array at `path` would overlap something of the image that must be kept.
    pub(super) fn check(&self, path: &str) -> Result<()> {
        if overlap(path, &self.first) {
            return Err(collision(path, &format!("the largest level, {:?}", self.first)));
        }
        if let Some(other) = self.others.iter().find(|other| overlap(path, other)) {
            return Err(collision(path, &format!("{other:?}, a level of another multiscale of this image")));
        }
        if let Some(other) = OTHERS.into_iter().find(|other| overlap(path, other)) {
            return Err(collision(path, &format!("{other:?}, which is not for levels")));
        }
        Ok(())
    }
}

/// Normalizes the path of a level.
pub(super) fn level(path: &str) -> Result<String> {
    match normal(path) {
        Ok(plain) if !plain.is_empty() => Ok(plain),
        _ => Err(invalid!("{path:?} cannot be the path of a level: it is not below the image")),
    }
}

/// Whether one path equals or contains the other.
fn overlap(a: &str, b: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    within(a, b) || within(b, a)
}

fn collision(path: &str, other: &str) -> Error {
    invalid!(
        "the level {path:?} is the same as {other}, or nested with it; nothing was changed, \
         correct the paths in the metadata first"
    )
}

/// Whether something is at `path` of the store.
pub(super) async fn is_taken(store: &SharedStore, path: &str) -> Result<bool> {
    let listed = store.list(path).await?;
    Ok(!(listed.objects.is_empty() && listed.prefixes.is_empty()))
}

/// Whether an array, or the remains of one, is at `path` of the store; an error if it is something else.
pub(super) async fn is_array(store: &SharedStore, group: &str, path: &str) -> Result<bool> {
    let at = join(group, path);
    let listed = store.list(&at).await?;
    if listed.objects.is_empty() && listed.prefixes.is_empty() {
        return Ok(false);
    }
    let foreign = match hierarchy::find(store, &at).await? {
        Some(node) => matches!(node.meta, NodeMeta::Group(_)),
        None => !only_chunks(store, &at).await?,
    };
    if foreign {
        return Err(usage!(
            "{path:?}, where a level is to be written, exists and is not an array; move or delete it first"
        ));
    }
    Ok(true)
}

/// Whether there are only chunks below `path`, as of an array without its document.
async fn only_chunks(store: &SharedStore, path: &str) -> Result<bool> {
    let numbers =
        |name: &str| name.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let chunk = |name: &str| name == "c" || numbers(name.strip_prefix("c.").unwrap_or(name));
    let of_chunk = |key: &str| {
        let below = key.strip_prefix(path).unwrap_or(key).trim_start_matches('/');
        // The attributes of a V2 array are put before `.zarray`.
        below == ".zattrs" || below.split('/').all(|name| name.starts_with(".zaro-") || chunk(name))
    };
    let mut keys = store.keys(path);
    while let Some(entry) = keys.try_next().await? {
        if !of_chunk(&entry.key) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    fn places(text: &str) -> Result<LevelPaths> {
        LevelPaths::of(&json(text))
    }

    #[test]
    fn levels_that_are_something_else_are_refused() {
        let image = |list: &[&str]| {
            let datasets: Vec<String> = list.iter().map(|p| format!(r#"{{"path":{p:?}}}"#)).collect();
            format!(r#"{{"multiscales":[{{"datasets":[{}]}}]}}"#, datasets.join(","))
        };
        for list in [
            &["0", "0"][..],
            &["0", ""],
            &["0", "/"],
            &["/0", "0"],
            &["a/0", "a"],
            &["0", "0/c"],
            &["0", "0//c/"],
            &["0", ".."],
            &["0", "1/../0"],
            &["0", "1", "1/2"],
            &["0", "2/1", "2"],
            &["0", "1", "1"],
            &["0", "labels"],
            &["0", "labels/a"],
            &["0", "masks"],
            &["", "1"],
        ] {
            assert!(places(&image(list)).is_err(), "{list:?}");
        }
        let sound = places(&image(&["/scale0/image/", "scale1//image", "10", "1"])).unwrap();
        assert_eq!(sound.first, "scale0/image");
        assert_eq!(sound.smaller, ["scale1/image", "10", "1"]);
        // Other pyramids of the group, and levels without a path.
        let two = |a: &str, b: &str| {
            format!(
                r#"{{"ome":{{"multiscales":[{{"datasets":[{{"path":"0"}},{a}]}},{{"datasets":[{b}]}}]}}}}"#
            )
        };
        assert!(places(&two(r#"{"path":"1"}"#, r#"{"path":"/1"}"#)).is_err());
        assert!(places(&two(r#"{"path":"1"}"#, r#"{"path":"1/2"}"#)).is_err());
        assert!(places(&two(r#"{"path":"1"}"#, r#"{"path":"0"}"#)).is_ok());
        assert!(places(&two(r#"{"x":1}"#, r#"{"path":"2"}"#)).is_err());
    }
}
