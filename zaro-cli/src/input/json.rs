//! Nested lists, as `zaro read --format json` writes them.

use zaro::meta::DataType;
use zaro::meta::json::Json;
use zaro::{Error, Result, Slab, num};

use super::held::Held;
use crate::element;

/// The shape of nested lists of elements of this type: of `rank` dimensions if that is known, else as deep as they go.
///
/// Where an empty list hides the extents of deeper dimensions, they are those of `like`, or zero.
pub(crate) fn shape(value: &Json, t: &DataType, rank: Option<usize>, like: &[u64]) -> Result<Vec<u64>> {
    let mut shape = Vec::new();
    let mut here = Some(value);
    while let Some(list) = here.and_then(Json::items) {
        if rank.is_some_and(|r| r <= shape.len()) {
            break;
        }
        shape.push(num::u64_of(list.len()));
        here = list.first();
    }
    let ended_empty = here.is_none();
    match rank {
        Some(rank) if ended_empty => {
            let hidden = (shape.len()..rank).map(|d| like.get(d).copied().unwrap_or(0));
            shape.extend(hidden.collect::<Vec<_>>());
        }
        Some(_) => {
            // Lists that elements themselves are written as, such as complex numbers, are no dimension.
            let mut left = 0;
            while let Some(list) = here.and_then(Json::items) {
                left += 1;
                here = list.first();
            }
            if here.is_some() {
                shape.truncate(shape.len().saturating_sub(depth(t).saturating_sub(left)));
            }
        }
        None if *t == DataType::Json => {
            return Err(Error::usage(
                "lists may be elements of type json, so the shape does not show; add --shape",
            ));
        }
        None if !ended_empty => shape.truncate(shape.len().saturating_sub(depth(t))),
        None => {}
    }
    Ok(shape)
}

/// How deep the lists are that one element is written as.
fn depth(t: &DataType) -> usize {
    match t {
        DataType::Complex(_) => 1,
        DataType::SubArray(inner, shape) => shape.len().saturating_add(depth(inner)),
        DataType::List(inner) => depth(inner).saturating_add(1),
        _ => 0,
    }
}

/// The elements of nested lists of this shape.
pub(crate) fn elements(value: &Json, t: &DataType, shape: &[u64]) -> Result<Slab> {
    let mut held = Held::new(t);
    let mut at = Vec::new();
    walk(value, shape, &mut at, &mut held)?;
    held.slab(shape)
}

fn walk(value: &Json, shape: &[u64], at: &mut Vec<usize>, held: &mut Held) -> Result<()> {
    let Some((extent, rest)) = shape.split_first() else {
        return held
            .push(|t, out| element::from_json(t, value, out))
            .map_err(|e| e.within(format_args!("at {at:?}")));
    };
    let items = value.items().ok_or_else(|| {
        Error::invalid(format!("at {at:?} there is {}, where a list of {extent} is wanted", value.kind()))
    })?;
    if num::u64_of(items.len()) != *extent {
        let message = format!("the list at {at:?} has {} items, where {extent} are wanted", items.len());
        return Err(Error::usage(message));
    }
    for (i, item) in items.iter().enumerate() {
        at.push(i);
        walk(item, rest, at, held)?;
        at.pop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zaro::meta::dtype::Float;

    fn of(text: &str, t: &DataType, rank: Option<usize>) -> Result<Vec<u64>> {
        shape(&Json::parse(text.as_bytes()).unwrap().value, t, rank, &[2, 0, 5])
    }

    #[test]
    fn shapes_follow_from_lists() {
        let int = DataType::Int(16);
        assert_eq!(of("[[1,2,3],[4,5,6]]", &int, None).unwrap(), [2, 3]);
        assert_eq!(of("7", &int, None).unwrap(), Vec::<u64>::new());
        assert_eq!(of("[[1,2],[3,4]]", &DataType::Complex(Float::F32), None).unwrap(), [2]);
        // One step of a two-dimensional array, without a dimension.
        assert_eq!(of("[[1,2],[3,4]]", &DataType::Complex(Float::F32), Some(2)).unwrap(), [2]);
        assert_eq!(of("[[[1,2]],[[3,4]]]", &DataType::Complex(Float::F32), Some(2)).unwrap(), [2, 1]);
        assert_eq!(of("[[1,2],[3,4]]", &DataType::Json, Some(1)).unwrap(), [2]);
        assert!(of("[[1,2],[3,4]]", &DataType::Json, None).is_err());
        assert_eq!(of("[[],[]]", &int, Some(3)).unwrap(), [2, 0, 5]);
    }

    #[test]
    fn ragged_lists_are_refused() {
        for text in ["[[1,2],[3]]", "[[1,2],3]", "[[1,2],[3,[4]]]"] {
            let value = Json::parse(text.as_bytes()).unwrap().value;
            assert!(elements(&value, &DataType::Int(16), &[2, 2]).is_err(), "{text}");
        }
    }
}
