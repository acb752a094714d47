//! `reshape`: the same elements in the same order, with another shape.
//!
//! V3: `{"name": "reshape", "configuration": {"shape": [[0, 1], [2], 3]}}`. Each extent is a positive number, a list of
//! dimensions of the decoded chunk whose extents are multiplied, or, once at most, -1 for what is left. A list of
//! dimensions must mean them: what stands before and after it has to have as many elements on both sides.

use super::config::Config;
use super::{ArrayToArray, Buffer, Repr};
use crate::error::{Error, Result, invalid};
use crate::meta::json::Json;
use crate::num;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reshape {
    shape: Vec<ReshapedExtent>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ReshapedExtent {
    Size(u64),
    Dims(Vec<usize>),
    Rest,
}

impl Reshape {
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        let json = config.need("shape")?;
        let bad = |e: &Json| invalid!("{e} is not an extent").with_field("shape");
        let items = json.items().ok_or_else(|| bad(json))?;
        let mut shape = Vec::with_capacity(items.len());
        let (mut next, mut rest) = (0, false);
        for item in items {
            shape.push(match (item.items(), item.as_i64()) {
                (Some(dims), _) => {
                    let mut list = Vec::with_capacity(dims.len());
                    for dim in dims {
                        let dim =
                            dim.as_u64().and_then(|d| usize::try_from(d).ok()).ok_or_else(|| bad(item))?;
                        if dim < next {
                            return Err(Error::invalid(
                                "the dimensions in \"shape\" are not in ascending order",
                            ));
                        }
                        next = dim.saturating_add(1);
                        list.push(dim);
                    }
                    ReshapedExtent::Dims(list)
                }
                (None, Some(-1)) if rest => return Err(Error::invalid("-1 occurs twice in \"shape\"")),
                (None, Some(-1)) => {
                    rest = true;
                    ReshapedExtent::Rest
                }
                (None, _) => ReshapedExtent::Size(item.as_u64().filter(|n| *n > 0).ok_or_else(|| bad(item))?),
            });
        }
        Ok(Self { shape })
    }

    fn apply(&self, from: &[u64]) -> Result<Vec<u64>> {
        let misfit = || invalid!("\"shape\" does not fit a chunk of shape {from:?}");
        let total = num::product(from)?;
        let mut out = Vec::with_capacity(self.shape.len());
        let mut known = 1u64;
        for extent in &self.shape {
            let n = match extent {
                ReshapedExtent::Size(n) => *n,
                ReshapedExtent::Rest => 1,
                ReshapedExtent::Dims(dims) => {
                    let extents: Option<Vec<u64>> = dims.iter().map(|d| from.get(*d).copied()).collect();
                    num::product(&extents.ok_or_else(misfit)?)?
                }
            };
            known = known.checked_mul(n).ok_or_else(misfit)?;
            out.push(n);
        }
        if let Some(slot) =
            self.shape.iter().position(|e| *e == ReshapedExtent::Rest).and_then(|i| out.get_mut(i))
        {
            let whole = if known == 0 { Some(0) } else { total.checked_div(known) };
            *slot = whole.filter(|n| n.checked_mul(known) == Some(total)).ok_or_else(misfit)?;
        } else if known != total {
            return Err(misfit());
        }
        for (i, extent) in self.shape.iter().enumerate() {
            if let ReshapedExtent::Dims(dims) = extent
                && let (Some(first), Some(last)) = (dims.first(), dims.last())
            {
                let before = (out.get(..i), from.get(..*first));
                let after = (out.get(i + 1..), from.get(last + 1..));
                for (ours, theirs) in [before, after] {
                    if num::product(ours.unwrap_or_default())? != num::product(theirs.unwrap_or_default())? {
                        return Err(misfit());
                    }
                }
            }
        }
        Ok(out)
    }
}

impl ArrayToArray for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn encoded(&self, decoded: &Repr) -> Result<Repr> {
        Ok(Repr { shape: self.apply(&decoded.shape)?, ..decoded.clone() })
    }

    fn decode(&self, chunk: Buffer, _: &Repr, _: &Repr) -> Result<Buffer> {
        Ok(chunk)
    }

    fn encode(&self, chunk: Buffer, _: &Repr, _: &Repr) -> Result<Buffer> {
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::json;

    fn apply(shape: &str, from: &[u64]) -> Result<Vec<u64>> {
        let config = [("shape".to_owned(), json(shape))];
        Reshape::from_config(&Config::new(&config))?.apply(from)
    }

    #[test]
    fn extents_of_every_kind() {
        assert_eq!(apply("[[0,1],[2],3]", &[100, 50, 64, 3]).unwrap(), [5000, 64, 3]);
        assert_eq!(apply("[-1]", &[2, 2]).unwrap(), [4]);
        assert_eq!(apply("[4,-1,2]", &[2, 2, 6]).unwrap(), [4, 3, 2]);
        assert_eq!(apply("[2,2,[1]]", &[4, 5]).unwrap(), [2, 2, 5]);
        assert_eq!(apply("[[],[0]]", &[4]).unwrap(), [1, 4]);
        assert!(apply("[]", &[]).unwrap().is_empty());
        assert_eq!(apply("[1]", &[]).unwrap(), [1]);
        assert_eq!(apply("[-1,[1]]", &[4, 5]).unwrap(), [4, 5]);
        assert!(apply("[]", &[1, 1]).unwrap().is_empty());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (shape, from) in [
            ("[[1],[0]]", &[2, 2][..]),
            ("[[1,0],10]", &[2, 2]),
            ("[[0],[0]]", &[2, 2]),
            ("[3]", &[2, 2]),
            ("[-1,-1]", &[2, 2]),
            ("[-1,3]", &[2, 2]),
            ("[0,4]", &[2, 2]),
            ("[-2,2]", &[2, 2]),
            ("[1.5]", &[2, 2]),
            ("[\"4\"]", &[2, 2]),
            ("4", &[2, 2]),
            ("[[5]]", &[2, 2]),
            ("[[0,2],3]", &[2, 3, 4]),
            ("[3,[0]]", &[2, 3]),
            ("[]", &[2]),
            ("[18446744073709551615,18446744073709551615]", &[2]),
            ("[[18446744073709551615]]", &[2]),
        ] {
            assert!(apply(shape, from).is_err(), "{shape} {from:?}");
        }
        assert!(Reshape::from_config(&Config::new(&[])).is_err());
    }
}
