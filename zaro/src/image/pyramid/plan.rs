//! Plans the levels of a pyramid: their shapes and factors.

use crate::error::{Error, Result, usage};
use crate::image::model::{Axis, AxisKind};

/// By default, levels are added until y and x are at most this long.
const SMALL_ENOUGH: u64 = 256;

/// The maximum number of levels: 2^64 pixels are reduced to one long before.
const MOST_LEVELS: usize = 64;

/// Downsampling factors from level to level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Factors {
    /// This factor along the last two spatial axes, y and x.
    Plane(u64),
    /// One factor per spatial axis, for the last ones, in order: `z, y, x`, or `y, x`.
    Space(Vec<u64>),
    /// Factors by axis name; 1 for the others.
    Named(Vec<(String, u64)>),
    /// Exactly these levels.
    Levels(Vec<LevelPlan>),
}

impl Default for Factors {
    fn default() -> Self {
        Self::Plane(2)
    }
}

/// One of the smaller levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelPlan {
    /// Its shape.
    pub shape: Vec<u64>,
    /// The factor from the level above, along each axis. The level's size is that of the one above divided by it,
    /// rounded down: the remainder at the far end is dropped. (If it is rounded up, the last pixel is computed from the
    /// remainder.)
    pub step: Vec<u64>,
    /// The factor from the largest level.
    pub factors: Vec<u64>,
}

/// The smaller levels of an image of this shape: `levels` in all with the largest, or until y and x are at most 256 long.
///
/// Only spatial axes are downsampled; by default only the last two. An axis shorter than its factor is kept.
pub fn plan(
    shape: &[u64],
    axes: &[Axis],
    factors: &Factors,
    levels: Option<usize>,
) -> Result<Vec<LevelPlan>> {
    if axes.len() != shape.len() {
        return Err(usage!("{} axes are given, but the array has {} dimensions", axes.len(), shape.len()));
    }
    let wanted = match factors {
        Factors::Levels(given) => return checked(shape, given),
        other => along(axes, other)?,
    };
    if let Some(0) = levels {
        return Err(Error::usage("there must be at least one level, the existing largest one"));
    }
    if levels.is_some_and(|n| n > MOST_LEVELS) {
        return Err(usage!("a pyramid can have at most {MOST_LEVELS} levels"));
    }
    let large = |shape: &[u64]| {
        let mut sides = shape.iter().zip(&wanted).zip(axes);
        sides.any(|((n, f), axis)| *f > 1 && axis.name != "z" && *n > SMALL_ENOUGH)
    };
    let mut all: Vec<LevelPlan> = Vec::new();
    let mut above = (shape.to_vec(), vec![1u64; shape.len()]);
    loop {
        let enough = match levels {
            Some(n) => all.len().saturating_add(1) >= n,
            None => !large(&above.0),
        };
        if enough {
            return Ok(all);
        }
        let step: Vec<u64> = above.0.iter().zip(&wanted).map(|(n, f)| if n >= f { *f } else { 1 }).collect();
        if step.iter().all(|f| *f == 1) {
            return match levels {
                Some(n) => Err(usage!(
                    "{n} levels requested, but the image {shape:?} can have only {} before nothing becomes smaller",
                    all.len().saturating_add(1)
                )),
                None => Ok(all),
            };
        }
        let shape: Vec<u64> =
            above.0.iter().zip(&step).map(|(n, f)| n.checked_div(*f).unwrap_or(*n)).collect();
        let factors: Vec<u64> = above.1.iter().zip(&step).map(|(a, f)| a.saturating_mul(*f)).collect();
        above = (shape.clone(), factors.clone());
        all.push(LevelPlan { shape, step, factors });
    }
}

/// The levels of labels of this shape that follow those of an image, given by their shapes, the largest first: as many,
/// and of the same shapes, except that an axis of length 1 stays so.
#[must_use]
pub fn follow(shape: &[u64], image: &[Vec<u64>]) -> Vec<LevelPlan> {
    let mut above = (shape.to_vec(), vec![1u64; shape.len()]);
    let mut all = Vec::new();
    for wanted in image.iter().skip(1) {
        let mut step = Vec::with_capacity(shape.len());
        let mut made = Vec::with_capacity(shape.len());
        for (d, n) in above.0.iter().enumerate() {
            let (f, n) = smaller(*n, wanted.get(d).copied().unwrap_or(1));
            step.push(f);
            made.push(n);
        }
        let factors: Vec<u64> = above.1.iter().zip(&step).map(|(a, f)| a.saturating_mul(*f)).collect();
        above = (made.clone(), factors.clone());
        all.push(LevelPlan { shape: made, step, factors });
    }
    all
}

/// The factor that reduces `n` pixels to `wanted`, and the resulting number.
fn smaller(n: u64, wanted: u64) -> (u64, u64) {
    if n <= 1 || wanted >= n || wanted == 0 {
        return (1, n);
    }
    let near = n.saturating_add(wanted / 2).checked_div(wanted).unwrap_or(1).max(1);
    let exact = [near, n / wanted, n.div_ceil(wanted)]
        .into_iter()
        .find(|f| n.checked_div(*f) == Some(wanted) || n.div_ceil((*f).max(1)) == wanted);
    match exact {
        Some(f) => (f, wanted),
        None => (near, n.checked_div(near).unwrap_or(1).max(1)),
    }
}

/// The factor of each axis.
fn along(axes: &[Axis], factors: &Factors) -> Result<Vec<u64>> {
    let space: Vec<usize> =
        axes.iter().enumerate().filter(|(_, a)| a.kind == AxisKind::Space).map(|(d, _)| d).collect();
    let mut all = vec![1u64; axes.len()];
    let mut set = |d: usize, f: u64| -> Result<()> {
        if f == 0 || f > 1 << 16 {
            return Err(usage!("invalid downsampling factor {f}"));
        }
        if let Some(slot) = all.get_mut(d) {
            *slot = f;
        }
        Ok(())
    };
    match factors {
        Factors::Plane(f) => {
            if space.len() < 2 {
                return Err(Error::usage("an image needs two spatial axes, such as y and x"));
            }
            for d in space.iter().rev().take(2) {
                set(*d, *f)?;
            }
        }
        Factors::Space(list) => {
            if list.len() > space.len() {
                return Err(usage!(
                    "{} factors are given, but there are {} spatial axes; only these can be downsampled",
                    list.len(),
                    space.len()
                ));
            }
            for (d, f) in space.iter().rev().zip(list.iter().rev()) {
                set(*d, *f)?;
            }
        }
        Factors::Named(list) => {
            for (name, f) in list {
                let found = axes.iter().position(|a| a.name.eq_ignore_ascii_case(name));
                let Some(d) = found.filter(|d| space.contains(d)) else {
                    return Err(usage!("no spatial axis {name:?}"));
                };
                set(d, *f)?;
            }
        }
        Factors::Levels(_) => {}
    }
    if all.iter().all(|f| *f == 1) {
        return Err(Error::usage("no axis is downsampled: give a factor of 2 or more"));
    }
    Ok(all)
}

/// Checks levels that were given explicitly.
fn checked(shape: &[u64], given: &[LevelPlan]) -> Result<Vec<LevelPlan>> {
    let mut above = shape.to_vec();
    for level in given {
        let fits = level.shape.len() == shape.len()
            && level.step.len() == shape.len()
            && level.factors.len() == shape.len()
            && level.shape.iter().zip(&above).zip(&level.step).all(|((n, above), f)| {
                *f > 0
                    && (Some(*n) == above.checked_div(*f) || *n == above.div_ceil(*f))
                    && (*n > 0 || *above == 0)
            });
        if !fits {
            return Err(usage!(
                "a level of shape {:?} is not the level {above:?} downsampled by {:?}",
                level.shape,
                level.step
            ));
        }
        above.clone_from(&level.shape);
    }
    Ok(given.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(names: &str) -> Vec<Axis> {
        names.chars().map(|c| Axis::named(&c.to_string())).collect()
    }

    fn shapes(shape: &[u64], names: &str, factors: &Factors, levels: Option<usize>) -> Vec<Vec<u64>> {
        plan(shape, &axes(names), factors, levels).unwrap().into_iter().map(|l| l.shape).collect()
    }

    #[test]
    fn planes_are_halved_until_they_are_small() {
        let two = Factors::default();
        assert_eq!(
            shapes(&[3, 2, 9, 1025, 700], "tczyx", &two, None),
            [[3, 2, 9, 512, 350], [3, 2, 9, 256, 175]]
        );
        assert_eq!(shapes(&[256, 256], "yx", &two, None), Vec::<Vec<u64>>::new());
        assert_eq!(shapes(&[7, 5], "yx", &two, Some(3)), [[3, 2], [1, 1]]);
        assert_eq!(
            shapes(&[8000, 3], "yx", &Factors::Plane(3), None),
            [[2666, 1], [888, 1], [296, 1], [98, 1]]
        );
    }

    #[test]
    fn depth_becomes_smaller_when_asked_for() {
        let zyx = Factors::Space(vec![2, 4, 4]);
        assert_eq!(shapes(&[2, 9, 1025, 700], "czyx", &zyx, Some(2)), [[2, 4, 256, 175]]);
        let named = Factors::Named(vec![("z".into(), 2)]);
        let all = plan(&[2, 9, 10, 10], &axes("czyx"), &named, Some(4)).unwrap();
        assert_eq!(all[2].shape, [2, 1, 10, 10]);
        assert_eq!(all[2].factors, [1, 8, 1, 1]);
        assert_eq!(all[2].step, [1, 2, 1, 1]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let two = Factors::default();
        for (shape, names, factors, levels) in [
            (vec![8, 8], "yx", two.clone(), Some(0)),
            (vec![8, 8], "yx", two.clone(), Some(5)),
            (vec![8, 8], "cx", two.clone(), None),
            (vec![8, 8], "zyx", two.clone(), None),
            (vec![8, 8], "yx", Factors::Plane(0), None),
            (vec![8, 8], "yx", Factors::Plane(1), None),
            (vec![8, 8], "yx", Factors::Space(vec![2, 2, 2]), None),
            (vec![8, 8, 8], "cyx", Factors::Named(vec![("c".into(), 2)]), None),
            (vec![8, 8], "yx", two, Some(1000)),
        ] {
            assert!(plan(&shape, &axes(names), &factors, levels).is_err(), "{shape:?} {names} {factors:?}");
        }
    }

    #[test]
    fn labels_follow_their_image() {
        let shapes = |shape: &[u64], image: &[&[u64]]| {
            let image: Vec<Vec<u64>> = image.iter().map(|s| s.to_vec()).collect();
            let plans = follow(shape, &image);
            assert!(checked(shape, &plans).is_ok(), "{plans:?}");
            plans.into_iter().map(|l| (l.shape, l.factors)).collect::<Vec<_>>()
        };
        assert_eq!(
            shapes(&[1, 101, 7], &[&[3, 101, 7], &[3, 50, 3], &[3, 25, 1]]),
            [(vec![1, 50, 3], vec![1, 2, 2]), (vec![1, 25, 1], vec![1, 4, 6])]
        );
        assert_eq!(shapes(&[7, 5], &[&[7, 5], &[4, 3]]), [(vec![4, 3], vec![2, 2])]);
        assert_eq!(shapes(&[81, 10], &[&[81, 10], &[27, 10]]), [(vec![27, 10], vec![3, 1])]);
        // No whole factor leads there.
        assert_eq!(shapes(&[100], &[&[100], &[70]]), [(vec![100], vec![1])]);
    }

    #[test]
    fn levels_of_others_are_followed_rounded_up_or_down() {
        let level =
            |shape: [u64; 2]| LevelPlan { shape: shape.to_vec(), step: vec![2, 2], factors: vec![2, 2] };
        for (shape, good) in
            [([3, 2], true), ([4, 3], true), ([4, 2], true), ([5, 3], false), ([2, 2], false)]
        {
            let given = Factors::Levels(vec![level(shape)]);
            assert_eq!(plan(&[7, 5], &axes("yx"), &given, None).is_ok(), good, "{shape:?}");
        }
    }
}
