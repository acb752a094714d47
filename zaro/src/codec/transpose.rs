//! `transpose`: permutes the dimensions.
//!
//! V3: `{"name": "transpose", "configuration": {"order": [2, 0, 1]}}`: dimension `i` of the encoded chunk is dimension
//! `order[i]` of the decoded one. V2's `"order": "F"` is lowered to the reversed order. The words `"C"` and `"F"`,
//! which early V3 had, are read outside strict mode.
//!
//! Where transposes stand at the head of a chain, the chain applies them to the selection instead of the data, and
//! none of this code runs.

use super::config::Config;
use super::{ArrayToArray, Buffer, Repr};
use crate::error::{Error, Result, invalid};
use crate::num;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transpose {
    order: AxisOrder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AxisOrder {
    Given(Vec<usize>),
    Reversed,
    Same,
}

impl Transpose {
    pub(super) fn from_config(config: &Config<'_>, strict: bool) -> Result<Self> {
        let order = config.need("order")?;
        let order = match (order.as_str(), order.items()) {
            (Some("C"), _) if !strict => AxisOrder::Same,
            (Some("F"), _) if !strict => AxisOrder::Reversed,
            (_, Some(items)) => {
                let order: Option<Vec<usize>> =
                    items.iter().map(|i| i.as_u64().and_then(|n| usize::try_from(n).ok())).collect();
                AxisOrder::Given(
                    order.ok_or_else(|| Error::invalid("\"order\" must be a list of dimension numbers"))?,
                )
            }
            _ => {
                return Err(invalid!("\"order\" must be a list of dimension numbers, not {order}"));
            }
        };
        if let AxisOrder::Given(order) = &order {
            let mut seen = vec![false; order.len()];
            for d in order {
                match seen.get_mut(*d) {
                    Some(s) if !*s => *s = true,
                    _ => return Err(invalid!("\"order\" {order:?} is not a permutation")),
                }
            }
        }
        Ok(Self { order })
    }

    /// The permutation for `rank` dimensions.
    pub(super) fn dimensions(&self, rank: usize) -> Result<Vec<usize>> {
        match &self.order {
            AxisOrder::Given(p) if p.len() == rank => Ok(p.clone()),
            AxisOrder::Given(p) => {
                Err(invalid!("\"order\" {p:?} has {} dimensions, but the array has {rank}", p.len()))
            }
            AxisOrder::Reversed => Ok((0..rank).rev().collect()),
            AxisOrder::Same => Ok((0..rank).collect()),
        }
    }
}

impl ArrayToArray for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn encoded(&self, decoded: &Repr) -> Result<Repr> {
        let order = self.dimensions(decoded.shape.len())?;
        let shape = order.iter().filter_map(|d| decoded.shape.get(*d).copied()).collect();
        Ok(Repr { shape, ..decoded.clone() })
    }

    fn permutation(&self, rank: usize) -> Option<Vec<usize>> {
        self.dimensions(rank).ok()
    }

    fn decode(&self, chunk: Buffer, decoded: &Repr, encoded: &Repr) -> Result<Buffer> {
        let order = self.dimensions(decoded.shape.len())?;
        let bytes = inverse(&chunk.bytes, &encoded.shape, &order, decoded.data_type.size())?;
        Ok(Buffer { bytes, heap: chunk.heap })
    }

    fn encode(&self, chunk: Buffer, decoded: &Repr, _encoded: &Repr) -> Result<Buffer> {
        let order = self.dimensions(decoded.shape.len())?;
        let bytes = permute(&chunk.bytes, &decoded.shape, &order, decoded.data_type.size())?;
        Ok(Buffer { bytes, heap: chunk.heap })
    }
}

/// Undoes [`permute`] by `order`: the elements of a C-ordered array of `shape`, with dimension `i` as `order[i]`.
pub(crate) fn inverse(bytes: &[u8], shape: &[u64], order: &[usize], size: usize) -> Result<Vec<u8>> {
    let mut inverse = vec![0; order.len()];
    for (i, d) in order.iter().enumerate() {
        if let Some(slot) = inverse.get_mut(*d) {
            *slot = i;
        }
    }
    permute(bytes, shape, &inverse, size)
}

/// The elements of a C-ordered array of `shape`, with dimension `order[i]` as dimension `i`.
pub(crate) fn permute(bytes: &[u8], shape: &[u64], order: &[usize], size: usize) -> Result<Vec<u8>> {
    let shape: Vec<usize> = shape.iter().map(|n| num::usize_of(*n)).collect::<Result<_>>()?;
    let total = shape.iter().try_fold(size, |a, n| a.checked_mul(*n));
    if total != Some(bytes.len()) {
        return Err(Error::invalid("the chunk has the wrong size"));
    }
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut strides = vec![size; shape.len()];
    for i in (1..shape.len()).rev() {
        if let (Some(s), Some(n)) = (strides.get(i).copied(), shape.get(i))
            && let Some(slot) = strides.get_mut(i - 1)
        {
            *slot = s.saturating_mul(*n);
        }
    }
    let dims: Vec<(usize, usize)> = order
        .iter()
        .filter_map(|d| Some((*shape.get(*d)?, *strides.get(*d)?)))
        .filter(|(n, _)| *n != 1)
        .collect();
    let mut out = Vec::with_capacity(bytes.len());
    // Dimensions of more than one position are at most 63, so this does not recurse deeply.
    walk(bytes, &dims, 0, size, &mut out);
    if out.len() == bytes.len() { Ok(out) } else { Err(Error::invalid("the chunk has the wrong size")) }
}

fn walk(bytes: &[u8], dims: &[(usize, usize)], at: usize, size: usize, out: &mut Vec<u8>) {
    match dims.split_first() {
        None => out.extend_from_slice(bytes.get(at..at + size).unwrap_or_default()),
        Some(((n, stride), rest)) => {
            for i in 0..*n {
                walk(bytes, rest, at + i * stride, size, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_shapes_end_quickly() {
        assert!(permute(&[], &[1 << 40, 0, 1 << 40], &[0, 1, 2], 2).unwrap().is_empty());
        let order: Vec<usize> = (0..100_000).rev().collect();
        assert_eq!(permute(&[1, 2], &vec![1; 100_000], &order, 2).unwrap(), [1, 2]);
        assert!(permute(&[1, 2], &[3], &[0], 1).is_err());
        assert!(permute(&[1, 2], &[u64::MAX, 2], &[1, 0], 1).is_err());
    }
}
