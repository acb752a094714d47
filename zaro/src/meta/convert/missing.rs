//! Missing values by the CF conventions (`_FillValue`, `missing_value`), and how they convert between V2 and V3.
//!
//! xarray, and readers like it, read an array with named dimensions as a variable of a data set. In V2 its
//! `fill_value`, unless null, is `_FillValue`, whatever the attributes say; in V3 only the attribute `_FillValue`
//! counts, in a form that depends on the type (floats are base64), and `fill_value` is only what missing chunks read
//! as. So an array whose fill value is copied unchanged has another meaning in the other version.
//!
//! | type | `_FillValue` in V3 |
//! |---|---|
//! | `bool`, integers | as in JSON |
//! | floats | base64 of the eight bytes of a little-endian `float64` |
//! | complex | a list of two such |
//! | `string`, fixed text | none that xarray reads; text in `missing_value` does the same |
//! | all others | none |

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Kept;
use super::up::is_numpy;
use crate::meta::dtype::{DataType, Float};
use crate::meta::fill::{self, Dialect, Fill};
use crate::meta::finding::Findings;
use crate::meta::json::Json;
use crate::meta::{ArrayMeta, Format, float};

const FILL_VALUE: &str = "_FillValue";
const MISSING_VALUE: &str = "missing_value";
const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";
const UNSIGNED: &str = "_Unsigned";

/// Whether this is an internal attribute of NCZarr, which xarray hides in V2.
fn is_nczarr(name: &str) -> bool {
    name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("_nc"))
}

/// The `_FillValue` of an array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FillValue {
    /// There is none.
    None,
    /// An element.
    Element(Fill),
    /// A value that the array's type cannot represent, as in the attribute.
    Other(Json),
}

/// The `_FillValue` of the array, as readers of the CF conventions see it.
pub(crate) fn fill_value(meta: &ArrayMeta) -> FillValue {
    if meta.format == Format::V2 && !meta.fill_undefined && is_variable(meta) {
        return FillValue::Element(meta.fill.clone());
    }
    match meta.attributes.get(FILL_VALUE) {
        None | Some(Json::Null) => FillValue::None,
        // xarray takes any number for a truth value, in V3 only.
        Some(value)
            if meta.format == Format::V3 && meta.data_type == DataType::Bool && value.as_i128().is_some() =>
        {
            FillValue::Element(Fill([u8::from(value.as_i128() != Some(0))].to_vec().into()))
        }
        Some(value) => match turned(meta).map(|t| decode(value, &t)) {
            Some(element @ FillValue::Element(_)) => element,
            _ => decode(value, &meta.data_type),
        },
    }
}

/// The integer type that readers use, if `_Unsigned` says that it has the other signedness.
pub(crate) fn turned(meta: &ArrayMeta) -> Option<DataType> {
    match (&meta.data_type, meta.attributes.get(UNSIGNED)?.as_str()?) {
        (DataType::Int(bits), "true") => Some(DataType::UInt(*bits)),
        (DataType::UInt(bits), "false") => Some(DataType::Int(*bits)),
        _ => None,
    }
}

/// Whether elements that are missing in the V2 array `meta` would not be in V3, which has no form for them that xarray
/// reads.
pub(crate) fn is_lost_in_v3(meta: &ArrayMeta) -> bool {
    let bytes = matches!(meta.data_type, DataType::FixedBytes(_) | DataType::Bytes);
    bytes && meta.format == Format::V2 && matches!(fill_value(meta), FillValue::Element(_))
}

/// Whether xarray reads this array as a variable: its dimensions have names, or, in V3, it has no dimensions.
fn is_variable(meta: &ArrayMeta) -> bool {
    meta.dimension_names.is_some() || meta.format == Format::V3 && meta.shape.is_empty()
}

/// Decodes a value of an attribute of either version.
fn decode(value: &Json, t: &DataType) -> FillValue {
    let element = |bytes: Vec<u8>| FillValue::Element(Fill(bytes.into()));
    let base64 = |value: &Json| value.as_str().and_then(|text| STANDARD.decode(text).ok());
    if is_bare_nan(value) && !matches!(t, DataType::Float(_)) {
        // Only floats have it.
        return FillValue::None;
    }
    let found = match (t, value) {
        // V3 has a complex number as two texts; any other list is one of several values.
        (DataType::Complex(format), Json::Array(parts)) => match parts.as_slice() {
            [re @ Json::String(_), im @ Json::String(_)] => {
                let part = |p| number(p).and_then(|x| exact(*format, x));
                part(re).zip(part(im)).map(|(re, im)| [re, im].concat())
            }
            _ => None,
        },
        (_, Json::Array(items)) => match items.as_slice() {
            [one] if one.items().is_none() => return decode(one, t),
            _ => None,
        },
        (DataType::Float(format), _) => match number(value) {
            Some(x) => match exact(*format, x) {
                Some(bytes) => Some(bytes),
                // xarray compares integers that no type has as the elements are, and all else as `float64`.
                None if is_huge_integer(value) => exact(*format, nearest(*format, x)),
                // What has the form of V3 is said in plain digits elsewhere.
                None => return FillValue::Other(Json::float(x)),
            },
            None => base64(value).filter(|b| b.len() == t.size()),
        },
        (DataType::Int(_) | DataType::UInt(_), Json::String(_)) => {
            base64(value).filter(|b| b.len() == t.size())
        }
        (DataType::FixedBytes(n), _) => base64(value).filter(|b| b.len() <= *n).map(|mut bytes| {
            bytes.resize(*n, 0);
            bytes
        }),
        (DataType::Bool | DataType::Int(_) | DataType::UInt(_), _)
        | (DataType::String | DataType::FixedUtf32(_), Json::String(_)) => {
            let read = fill::read(value, t, Dialect::V2, &mut Findings::default());
            return read.map_or_else(|_| FillValue::Other(value.clone()), FillValue::Element);
        }
        _ => None,
    };
    found.map_or_else(|| FillValue::Other(value.clone()), element)
}

/// A number, its word, or base64 of a `float64`.
fn number(value: &Json) -> Option<f64> {
    match value {
        Json::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => Some(f64::from_le_bytes(STANDARD.decode(text).ok()?.try_into().ok()?)),
        },
        other => other.as_f64(),
    }
}

/// The bytes of this number, if the format has it; those of the usual NaN for any.
fn exact(format: Float, x: f64) -> Option<Vec<u8>> {
    let bits = if x.is_nan() { float::canonical_nan(format)? } else { float::from_f64(format, x) };
    let back = float::to_f64(format, bits);
    let same = back.to_bits() == x.to_bits() || back.is_nan() && x.is_nan();
    same.then(|| bits.to_le_bytes().into_iter().take(format.size()).collect())
}

/// Whether a number is written as an integer that 64 bits do not hold.
fn is_huge_integer(value: &Json) -> bool {
    let digits = |text: &str| text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit());
    value.number_text().is_some_and(digits)
        && value.as_i128().is_none_or(|n| i64::try_from(n).is_err() && u64::try_from(n).is_err())
}

/// The number of this format that is nearest.
fn nearest(format: Float, x: f64) -> f64 {
    float::to_f64(format, float::from_f64(format, x))
}

/// Encodes a float for V3's attribute `_FillValue`; all NaNs are the same.
fn base64(x: f64) -> Json {
    let x = if x.is_nan() { f64::NAN } else { x };
    Json::String(STANDARD.encode(x.to_le_bytes()))
}

/// Encodes an element for V3's attribute `_FillValue`, for the types that it supports.
fn encode(element: &Fill, t: &DataType) -> Option<Json> {
    let float = |format: Float, bytes: &[u8]| {
        let bits = bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        base64(float::to_f64(format, bits))
    };
    match t {
        DataType::Bool | DataType::Int(_) | DataType::UInt(_) => plain(element, t),
        DataType::Float(f) if is_numpy(*f) => Some(float(*f, &element.0)),
        DataType::Complex(f) if is_numpy(*f) => {
            let (re, im) = element.0.split_at_checked(f.size())?;
            Some(Json::Array(vec![float(*f, re), float(*f, im)]))
        }
        _ => None,
    }
}

/// An element as in metadata documents.
fn plain(element: &Fill, t: &DataType) -> Option<Json> {
    crate::meta::write::write_fill(element, t, Dialect::V3).ok()
}

/// Changes `draft`, being converted to V3, so that what is missing in the V2 array `meta` is missing there.
pub(super) fn up(meta: &ArrayMeta, draft: &mut ArrayMeta) {
    if !is_variable(meta) {
        return;
    }
    let t = &meta.data_type;
    let signed = turned(meta).filter(|t| matches!(t, DataType::Int(_)));
    let mut attributes = (*draft.attributes).clone();
    if let Json::Object(members) = &mut attributes {
        members.retain(|(name, _)| !is_nczarr(name));
    }
    let (said, also) = match fill_value(meta) {
        FillValue::None => (None, None),
        // xarray wants the number as it takes the elements for, where that is a negative one.
        FillValue::Element(element) => match (encode(&element, &signed.unwrap_or_else(|| t.clone())), t) {
            (Some(said), _) => (Some(said), None),
            (None, DataType::String | DataType::FixedUtf32(_)) => (None, plain(&element, t)),
            (None, _) => (None, None),
        },
        FillValue::Other(value) => match (t, number(&value)) {
            // Numbers that no element is may stand there all the same.
            (DataType::Int(_) | DataType::UInt(_), _) if value.as_i128().is_some() => (Some(value), None),
            (DataType::Float(f), Some(x)) if is_numpy(*f) => (Some(base64(x)), None),
            _ => (None, Some(value)),
        },
    };
    match said {
        Some(said) => attributes.set(FILL_VALUE, said),
        None => attributes.remove(FILL_VALUE),
    }
    if let Some(also) = also {
        let values = match attributes.get(MISSING_VALUE) {
            None => also,
            Some(old) => {
                let mut all = several(old).to_vec();
                all.extend(several(&also).iter().filter(|v| !several(old).contains(v)).cloned());
                Json::Array(all)
            }
        };
        attributes.set(MISSING_VALUE, values);
    }
    draft.attributes = Arc::new(attributes);
}

/// Changes `draft`, being converted to V2, so that what is missing in the V3 array `meta` is missing there. Its fill
/// value may change, so that missing chunks read as another value.
pub(super) fn down(meta: &ArrayMeta, draft: &mut ArrayMeta) {
    if meta.shape.is_empty() && meta.dimension_names.is_none() {
        // In V3 there is nothing to name; in V2 readers want to see that there is not.
        draft.dimension_names = Some(Vec::new());
    }
    if !is_variable(meta) {
        return;
    }
    let mut attributes = (*draft.attributes).clone();
    let mut undefined = true;
    match fill_value(meta) {
        FillValue::None => {
            attributes.remove(FILL_VALUE);
            // NaN is missing in any case; but the type that packed values unpack to depends on whether it is said.
            let packed =
                ["scale_factor", "add_offset"].iter().any(|name| meta.attributes.get(name).is_some());
            undefined = packed || !is_nan(&meta.fill, &meta.data_type);
        }
        FillValue::Element(element) => {
            attributes.remove(FILL_VALUE);
            draft.fill = element;
            undefined = false;
        }
        FillValue::Other(value) => attributes.set(FILL_VALUE, value),
    }
    if undefined {
        draft.fill = Fill::undefined(&meta.data_type);
    }
    draft.fill_undefined = undefined;
    draft.attributes = Arc::new(attributes);
}

/// The attributes of an array whose elements are cast to another type, with `_FillValue` and `missing_value` cast too.
/// `_Unsigned` is applied to the elements.
pub(crate) fn recast(meta: &ArrayMeta, to: &DataType, cast: impl Fn(&Fill) -> Option<Fill>) -> Arc<Json> {
    let mut attributes = (*meta.attributes).clone();
    if turned(meta).is_some() {
        attributes.remove(UNSIGNED);
    }
    let fill = attributes.get(FILL_VALUE).map_or(FillValue::None, |_| fill_value(meta));
    if fill != FillValue::None {
        let element = match fill {
            FillValue::Element(element) => cast(&element),
            FillValue::Other(value) => match decode(&value, to) {
                FillValue::Element(element) => Some(element),
                _ => None,
            },
            FillValue::None => None,
        };
        let said = element.and_then(|element| match meta.format {
            Format::V3 => encode(&element, to),
            Format::V2 => written(&element, to),
        });
        match said {
            Some(said) => attributes.set(FILL_VALUE, said),
            // No element of the new type is it.
            None => attributes.remove(FILL_VALUE),
        }
    }
    if let Some(values) = attributes.get(MISSING_VALUE).cloned() {
        let one = |value: &Json| match decode(value, &meta.data_type) {
            FillValue::Element(element) => cast(&element).and_then(|element| written(&element, to)),
            FillValue::None | FillValue::Other(_) => Some(value.clone()),
        };
        match &values {
            Json::Array(all) => {
                attributes.set(MISSING_VALUE, Json::Array(all.iter().filter_map(one).collect()));
            }
            value => match one(value) {
                Some(value) => attributes.set(MISSING_VALUE, value),
                None => attributes.remove(MISSING_VALUE),
            },
        }
    }
    Arc::new(attributes)
}

/// All values that `meta` marks as missing.
pub(crate) fn elements(meta: &ArrayMeta) -> Vec<Fill> {
    let element = |value: FillValue| match value {
        FillValue::Element(element) => Some(element),
        _ => None,
    };
    missing(meta).into_iter().filter_map(element).collect()
}

/// A number as in attributes: in plain digits, exactly.
fn written(element: &Fill, t: &DataType) -> Option<Json> {
    match t {
        DataType::Float(format) => {
            let bits = element.0.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
            Some(Json::float(float::to_f64(*format, bits)))
        }
        _ => plain(element, t),
    }
}

/// What should be `kept` but differs in `new`, a copy of `old` whose elements are the same, or were cast by `cast`.
pub(crate) fn difference(
    old: &ArrayMeta,
    new: &ArrayMeta,
    kept: Kept,
    cast: impl Fn(&Fill) -> Option<Fill>,
) -> Option<&'static str> {
    let names = |meta: &ArrayMeta| match &meta.dimension_names {
        None if meta.shape.is_empty() => Some(Vec::new()),
        names => names.clone(),
    };
    if names(old) != names(new) {
        return Some("the names of dimensions");
    }
    let (mut old_own, mut new_own) = (user_attributes(old), user_attributes(new));
    if old.data_type != new.data_type {
        // `_Unsigned` says nothing of elements of another type.
        old_own.retain(|(name, _)| *name != UNSIGNED);
        new_own.retain(|(name, _)| *name != UNSIGNED);
    }
    if is_variable(old) && old.format == Format::V2 && new.format == Format::V3 {
        old_own.retain(|(name, _)| !is_nczarr(name));
    }
    if old_own != new_own {
        return Some("the attributes");
    }
    if kept == Kept::Fill {
        return None;
    }
    let recast = |value: &FillValue| match value {
        FillValue::Element(element) => cast(element).map(FillValue::Element),
        // No element of the old type, but maybe one of the new.
        FillValue::Other(value) if old.data_type != new.data_type => match decode(value, &new.data_type) {
            element @ FillValue::Element(_) => Some(element),
            _ => None,
        },
        other => Some(other.clone()),
    };
    let wanted = missing(old);
    let mut wanted: Vec<FillValue> = wanted.iter().filter_map(recast).collect();
    wanted.retain(|value| !is_nan_value(value, &new.data_type));
    // The order, and how often one is named, say nothing.
    let has = |all: &[FillValue], some: &[FillValue]| some.iter().all(|value| all.contains(value));
    let mut found = missing(new);
    if old.data_type != new.data_type {
        // What no element can be says nothing.
        found.retain(|value| matches!(value, FillValue::Element(_)));
    }
    (!has(&found, &wanted) || !has(&wanted, &found)).then_some("which elements are missing")
}

/// The user's attributes, without those that the versions express in different ways.
fn user_attributes(meta: &ArrayMeta) -> Vec<(&str, &Json)> {
    let members = meta.attributes.members().unwrap_or_default().iter();
    let own = members.filter(|(n, _)| ![FILL_VALUE, MISSING_VALUE, DIMENSIONS].contains(&n.as_str()));
    own.map(|(n, v)| (n.as_str(), v)).collect()
}

/// All missing values; without NaN, which is always missing, and without those of types that V3 cannot express.
fn missing(meta: &ArrayMeta) -> Vec<FillValue> {
    let t = &meta.data_type;
    let nameable =
        encode(&Fill::zero(t), t).is_some() || matches!(t, DataType::String | DataType::FixedUtf32(_));
    let named = meta.attributes.get(MISSING_VALUE).map_or(&[][..], several).iter();
    let mut all: Vec<FillValue> = match fill_value(meta) {
        // Several values in one attribute.
        FillValue::Other(Json::Array(values)) => values.iter().map(|v| decode(v, t)).collect(),
        FillValue::Element(_) if !nameable => Vec::new(),
        value => vec![value],
    };
    all.extend(named.map(|v| decode(v, t)));
    all.retain(|value| *value != FillValue::None && !is_nan_value(value, t));
    all
}

fn is_nan_value(value: &FillValue, t: &DataType) -> bool {
    matches!(value, FillValue::Element(element) if is_nan(element, t))
}

fn is_nan(element: &Fill, t: &DataType) -> bool {
    let DataType::Float(format) = t else { return false };
    let bits = element.0.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    float::canonical_nan(*format) == Some(bits)
}

fn is_bare_nan(value: &Json) -> bool {
    value.number_text() == Some("NaN")
}

/// The values of an attribute that holds one or a list.
fn several(value: &Json) -> &[Json] {
    value.items().unwrap_or(std::slice::from_ref(value))
}
