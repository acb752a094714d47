//! `delta`: each element as its difference from the previous one.
//!
//! V2: `{"id": "delta", "dtype": "<i4", "astype": "<i2"}`, over bytes; V3 spelling `numcodecs.delta`, over values.
//! `astype` is the type of the differences, the same as `dtype` if left out. Integers wrap. Where the two types
//! differ, sums are made in the type numpy promotes them to, as its `cumsum` does.

use super::Codec;
use super::config::Config;
use super::filter::{self, Filter, Side};
use super::number::{self, NumberOp};
use super::registry::CodecRequest;
use crate::error::{Error, Result};
use crate::meta::dtype::DataType;

#[derive(Debug)]
struct Delta {
    decoded: DataType,
    encoded: DataType,
    sums: DataType,
}

pub(super) fn from_config(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Codec> {
    let decoded = Side::from_config(config, "dtype", Side::of_array(request).as_ref())?;
    let encoded = Side::from_config(config, "astype", Some(&decoded))?;
    let sums = number::promote(&decoded.data_type, &encoded.data_type)?;
    if sums == DataType::Bool {
        return Err(Error::unsupported("differences of booleans are not supported"));
    }
    let delta = Delta { decoded: decoded.data_type.clone(), encoded: encoded.data_type.clone(), sums };
    Ok(filter::make(request, delta, decoded, encoded))
}

impl Filter for Delta {
    fn name(&self) -> &'static str {
        "delta"
    }

    fn decode(&self, encoded: &[u8]) -> Result<Vec<u8>> {
        let numbers = number::load(encoded, &self.encoded)?;
        let sums = match (number::float_of(&self.sums), numbers) {
            (None, NumberOp::Int(mut v)) => {
                scan(&mut v, i64::wrapping_add);
                NumberOp::Int(v)
            }
            (None, NumberOp::UInt(mut v)) => {
                scan(&mut v, u64::wrapping_add);
                NumberOp::UInt(v)
            }
            (None, NumberOp::Float(_)) => return Err(Error::invalid("floats cannot sum to integers")),
            (Some(f), numbers) => {
                let wide = number::store(numbers, &self.sums)?;
                let NumberOp::Float(mut v) = number::load(&wide, &self.sums)? else {
                    return Err(Error::invalid("no floats"));
                };
                scan(&mut v, |a, b| number::round(f, a + b));
                NumberOp::Float(v)
            }
        };
        number::store(sums, &self.decoded)
    }

    fn encode(&self, decoded: &[u8]) -> Result<Vec<u8>> {
        // Differences are made in the decoded type, so they wrap or round there before they are cast.
        let differences = match number::load(decoded, &self.decoded)? {
            NumberOp::Int(v) => NumberOp::Int(steps(&v, |a, b| b.wrapping_sub(a))),
            NumberOp::UInt(v) => NumberOp::UInt(steps(&v, |a, b| b.wrapping_sub(a))),
            NumberOp::Float(v) => {
                let f = number::float_of(&self.decoded).ok_or_else(|| Error::invalid("no float"))?;
                NumberOp::Float(steps(&v, |a, b| number::round(f, b - a)))
            }
        };
        number::cast(&number::store(differences, &self.decoded)?, &self.decoded, &self.encoded)
    }
}

fn scan<T: Copy>(v: &mut [T], add: impl Fn(T, T) -> T) {
    let mut rest = v.iter_mut();
    let Some(mut sum) = rest.next().map(|first| *first) else { return };
    for x in rest {
        sum = add(sum, *x);
        *x = sum;
    }
}

/// The first element, then differences.
fn steps<T: Copy>(v: &[T], between: impl Fn(T, T) -> T) -> Vec<T> {
    let pairs = v.iter().zip(v.iter().skip(1));
    v.first().copied().into_iter().chain(pairs.map(|(a, b)| between(*a, *b))).collect()
}
