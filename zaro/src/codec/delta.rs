//! `delta`: each element as its difference from the one before.
//!
//! V2: `{"id": "delta", "dtype": "<i4", "astype": "<i2"}`, over bytes; V3 spelling `numcodecs.delta`, over values.
//! `astype` is the type of the differences, the same as `dtype` if left out. Integers wrap. Where the two types
//! differ, sums are made in the type numpy promotes them to, as its `cumsum` does.

use super::Codec;
use super::config::Config;
use super::filter::{self, Filter, Side};
use super::number::{self, Numbers};
use super::registry::Request;
use crate::error::{Error, Result};
use crate::meta::dtype::DataType;

/// The `delta` filter.
#[derive(Debug)]
struct Delta {
    decoded: DataType,
    encoded: DataType,
    /// The type of the sums.
    sums: DataType,
}

/// From its configuration.
pub(super) fn from_config(request: &Request<'_>, config: &Config<'_>) -> Result<Codec> {
    let decoded = Side::from_config(config, "dtype", Side::of_array(request).as_ref())?;
    let encoded = Side::from_config(config, "astype", Some(&decoded))?;
    let sums = number::promote(&decoded.data_type, &encoded.data_type)?;
    if sums == DataType::Bool {
        return Err(Error::unsupported("differences of booleans"));
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
            (None, Numbers::Int(mut v)) => {
                scan(&mut v, i64::wrapping_add);
                Numbers::Int(v)
            }
            (None, Numbers::UInt(mut v)) => {
                scan(&mut v, u64::wrapping_add);
                Numbers::UInt(v)
            }
            (None, Numbers::Float(_)) => return Err(Error::invalid("floats cannot sum to integers")),
            (Some(f), numbers) => {
                let wide = number::store(numbers, &self.sums)?;
                let Numbers::Float(mut v) = number::load(&wide, &self.sums)? else {
                    return Err(Error::invalid("no floats"));
                };
                scan(&mut v, |a, b| number::round(f, a + b));
                Numbers::Float(v)
            }
        };
        number::store(sums, &self.decoded)
    }

    fn encode(&self, decoded: &[u8]) -> Result<Vec<u8>> {
        // Differences are made in the decoded type, so they wrap or round there before they are cast.
        let differences = match number::load(decoded, &self.decoded)? {
            Numbers::Int(v) => Numbers::Int(steps(&v, |a, b| b.wrapping_sub(a))),
            Numbers::UInt(v) => Numbers::UInt(steps(&v, |a, b| b.wrapping_sub(a))),
            Numbers::Float(v) => {
                let f = number::float_of(&self.decoded).ok_or_else(|| Error::invalid("no float"))?;
                Numbers::Float(steps(&v, |a, b| number::round(f, b - a)))
            }
        };
        number::cast(&number::store(differences, &self.decoded)?, &self.decoded, &self.encoded)
    }
}

/// Running sums, in place.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::filter::check;

    #[test]
    fn as_numcodecs_does_it() {
        for (config, raw, encoded, decoded) in [
            (
                r#"{"dtype":"<i2","astype":"|i1"}"#,
                "6400660068006a006c006e00",
                "640202020202",
                "6400660068006a006c006e00",
            ),
            (
                r#"{"dtype":"<f4"}"#,
                "20bcbe4c0000803f00002040000040c0",
                "20bcbe4c20bcbecc0000c03f0000b0c0",
                "20bcbe4c000000000000c03f000080c0",
            ),
            (
                r#"{"dtype":">u4","astype":">u4"}"#,
                "0000000500000003000003e8",
                "00000005fffffffe000003e5",
                "0000000500000003000003e8",
            ),
            (
                r#"{"dtype":"<f4","astype":"<f8"}"#,
                "20bcbe4c0000a03f00002040000040c0",
                "0000000084d797410000000084d797c1000000000000f43f00000000000016c0",
                "20bcbe4c000000000000a03f000088c0",
            ),
            (
                r#"{"dtype":"<i4","astype":"<f4"}"#,
                "070000000500000009000000",
                "0000e040000000c000008040",
                "070000000500000009000000",
            ),
            (
                r#"{"dtype":"<u8","astype":"<i8"}"#,
                "070000000000000005000000000000000000000000000080",
                "0700000000000000fefffffffffffffffbffffffffffff7f",
                "070000000000000005000000000000000000000000000080",
            ),
        ] {
            check::v2("v2.delta", config, raw, encoded, decoded);
        }
    }

    #[test]
    fn over_values() {
        let e = check::v3(
            "numcodecs.delta",
            r#"{"dtype":"<i2","astype":"|i1"}"#,
            &DataType::Int(16),
            "640066006800",
            "640202",
            "640066006800",
        );
        assert_eq!((e.data_type, &*e.fill.0), (DataType::INT8, &[100][..]));
        let e = check::v3(
            "numcodecs.delta",
            r#"{"dtype":"int16"}"#,
            &DataType::Int(16),
            "640066006800",
            "640002000200",
            "640066006800",
        );
        assert_eq!(e.data_type, DataType::Int(16));
        // The type may be left out, and its order is not meant.
        check::v3("numcodecs.delta", "{}", &DataType::UINT8, "050301", "05fefe", "050301");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for bad in [
            r#"{}"#,
            r#"{"dtype":"|O"}"#,
            r#"{"dtype":"|b1"}"#,
            r#"{"dtype":"<q4"}"#,
            r#"{"dtype":3}"#,
            r#"{"dtype":"|S3"}"#,
        ] {
            assert!(check::codec("v2.delta", bad, &DataType::UINT8).is_err(), "{bad}");
        }
        let Codec::Array(c) =
            check::codec("numcodecs.delta", r#"{"dtype":"<i4"}"#, &DataType::UINT8).unwrap()
        else {
            panic!()
        };
        let r = crate::codec::Repr { shape: vec![2], data_type: DataType::UINT8, fill: Default::default() };
        assert!(c.encoded(&r).is_err());
    }
}
