//! `scale_offset`: shifts and scales values in the array's own type.
//!
//! V3: `{"name": "scale_offset", "configuration": {"offset": 5, "scale": 0.1}}`; `offset` is 0 and `scale` 1 if left
//! out, both written as fill values of the array are. Encodes as `(x - offset) * scale`, decodes as
//! `x / scale + offset`. Floats round in their own format after each operation. Integers are exact: a step that the
//! type cannot hold, a remainder included, is an error. The fill value is encoded with the rest.

use super::config::Config;
use super::number::{self, NumberOp};
use super::registry::CodecRequest;
use super::{ArrayToArray, Buffer, OutputSize, Repr};
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::{DataType, Float};
use crate::meta::fill::Fill;
use crate::meta::json::Json;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScaleOffset {
    data_type: DataType,
    arithmetic: Arithmetic,
}

#[derive(Debug, Clone, PartialEq)]
enum Arithmetic {
    Int { offset: i128, scale: i128, least: i128, greatest: i128 },
    Float { offset: f64, scale: f64, format: Float },
}

impl ScaleOffset {
    /// From its configuration, for elements of the type that the request says.
    pub(super) fn from_config(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Self> {
        let data_type = request.data_type;
        let quantity = |name: &'static str, otherwise: u8| {
            let json = config.get(name).cloned().unwrap_or_else(|| Json::int(otherwise));
            let bits = number::fill_scalar(&json, data_type).map_err(|e| e.with_field(name))?;
            number::load(&bits, data_type)
        };
        let (offset, scale) = match data_type {
            DataType::Int(_) | DataType::UInt(_) | DataType::Float(_) => {
                (quantity("offset", 0)?, quantity("scale", 1)?)
            }
            other => return Err(invalid!("is for numbers, not {other}")),
        };
        config.finish()?;
        let arithmetic = match (integer(&offset), integer(&scale), offset, scale, data_type) {
            (Some(offset), Some(scale), ..) => {
                let (least, greatest) = data_type.range().unwrap_or_default();
                Arithmetic::Int { offset, scale, least, greatest }
            }
            (_, _, NumberOp::Float(offset), NumberOp::Float(scale), DataType::Float(format)) => {
                match (offset.first(), scale.first()) {
                    (Some(offset), Some(scale)) => {
                        Arithmetic::Float { offset: *offset, scale: *scale, format: *format }
                    }
                    _ => return Err(Error::invalid("no numbers")),
                }
            }
            _ => return Err(Error::invalid("no numbers")),
        };
        if matches!(arithmetic, Arithmetic::Int { scale: 0, .. })
            || matches!(arithmetic, Arithmetic::Float { scale, .. } if scale == 0.0)
        {
            return Err(Error::invalid("\"scale\" must not be 0").with_field("scale"));
        }
        Ok(Self { data_type: data_type.clone(), arithmetic })
    }

    fn apply(&self, bytes: &[u8], encode: bool) -> Result<Vec<u8>> {
        let numbers = match (&self.arithmetic, number::load(bytes, &self.data_type)?) {
            (Arithmetic::Float { offset, scale, format }, NumberOp::Float(mut v)) => {
                let r = |x: f64| number::round(*format, x);
                if encode {
                    v.iter_mut().for_each(|x| *x = r(r(*x - offset) * scale));
                } else {
                    v.iter_mut().for_each(|x| *x = r(r(*x / scale) + offset));
                }
                NumberOp::Float(v)
            }
            (Arithmetic::Int { .. }, NumberOp::Int(v)) => NumberOp::Int(self.exact(v, encode)?),
            (Arithmetic::Int { .. }, NumberOp::UInt(v)) => NumberOp::UInt(self.exact(v, encode)?),
            _ => return Err(Error::invalid("the type has changed")),
        };
        number::store(numbers, &self.data_type)
    }

    fn exact<T: Copy + Into<i128> + TryFrom<i128>>(&self, v: Vec<T>, encode: bool) -> Result<Vec<T>> {
        let Arithmetic::Int { offset, scale, least, greatest } = self.arithmetic else {
            return Err(Error::invalid("no integers"));
        };
        let holds = |x: &i128| (least..=greatest).contains(x);
        let one = |x: i128| {
            if encode {
                // 65 bits times 64 stay within 129, so the product may overflow.
                x.checked_sub(offset).filter(holds)?.checked_mul(scale).filter(holds)
            } else {
                let exact = x % scale == 0;
                Some(x / scale).filter(|q| exact && holds(q))?.checked_add(offset).filter(holds)
            }
        };
        v.into_iter()
            .map(|x| {
                let x: i128 = x.into();
                one(x).and_then(|y| T::try_from(y).ok()).ok_or_else(|| {
                    let formula = if encode { "(x - offset) * scale" } else { "x / scale + offset" };
                    invalid!("{formula} of {x} is not a {}", self.data_type)
                })
            })
            .collect()
    }
}

fn integer(numbers: &NumberOp) -> Option<i128> {
    match numbers {
        NumberOp::Int(v) => v.first().map(|x| i128::from(*x)),
        NumberOp::UInt(v) => v.first().map(|x| i128::from(*x)),
        NumberOp::Float(_) => None,
    }
}

impl ArrayToArray for ScaleOffset {
    fn name(&self) -> &'static str {
        "scale_offset"
    }

    fn encoded(&self, decoded: &Repr) -> Result<Repr> {
        if decoded.data_type != self.data_type {
            return Err(invalid!("is for {}, not {}", self.data_type, decoded.data_type));
        }
        let fill = self.apply(&decoded.fill.0, true).map_err(|e| e.within("the fill value"))?;
        Ok(Repr { fill: Fill(fill.into()), ..decoded.clone() })
    }

    fn decode(&self, chunk: Buffer, decoded: &Repr, _: &Repr) -> Result<Buffer> {
        OutputSize::Exact(decoded.byte_size()?).check(chunk.bytes.len())?;
        self.apply(&chunk.bytes, false).map(Buffer::fixed)
    }

    fn encode(&self, chunk: Buffer, _: &Repr, _: &Repr) -> Result<Buffer> {
        self.apply(&chunk.bytes, true).map(Buffer::fixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::array;

    #[test]
    fn integers_are_exact_or_refused() {
        let r =
            |data_type: DataType, fill: u8| Repr { shape: vec![1], data_type, fill: Fill(vec![fill].into()) };
        let c = array("scale_offset", r#"{"scale":2}"#, &DataType::INT8);
        let i8s = r(DataType::INT8, 0);
        assert!(c.decode(Buffer::fixed(vec![3]), &i8s, &i8s).is_err(), "a remainder");
        assert!(c.encode(Buffer::fixed(vec![100]), &i8s, &i8s).is_err(), "200");
        assert!(c.encoded(&r(DataType::INT8, 100)).is_err(), "the fill value");
        assert!(c.encoded(&r(DataType::UINT8, 0)).is_err(), "another type");
        let c = array("scale_offset", r#"{"offset":10}"#, &DataType::UINT8);
        let u8s = r(DataType::UINT8, 10);
        assert!(c.encode(Buffer::fixed(vec![9]), &u8s, &u8s).is_err(), "below zero");
        assert!(c.decode(Buffer::fixed(vec![250]), &u8s, &u8s).is_err(), "above 255");
    }
}
