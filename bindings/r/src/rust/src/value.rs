//! Values between R and Rust: plain data, so that they can go to another thread.

use std::ffi::CString;

use zaro::meta::Json;
use zaro::{Error, Result};

use crate::r::{Function, Kept, na_real};

/// R's missing integer and missing logical.
pub(crate) const NA_INT: i32 = i32::MIN;

/// A value of R.
#[derive(Debug, Default)]
pub(crate) enum Value {
    #[default]
    Null,
    Logical(Vec<i32>),
    Int(Vec<i32>),
    Real(Vec<f64>),
    Complex(Vec<[f64; 2]>),
    Raw(Vec<u8>),
    Text(Vec<Option<String>>),
    /// Text that need not be UTF-8.
    Words(Vec<Vec<u8>>),
    List(Vec<(String, Value)>),
    /// A vector in R's memory.
    Kept(Kept),
    Function(Function),
    /// A value with attributes.
    With(Box<Value>, Vec<(CString, Value)>),
}

impl From<bool> for Value {
    fn from(x: bool) -> Self {
        Self::Logical(vec![x.into()])
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Self {
        Self::Real(vec![x])
    }
}

impl From<u64> for Value {
    fn from(x: u64) -> Self {
        Self::Real(vec![real(x)])
    }
}

impl From<usize> for Value {
    fn from(x: usize) -> Self {
        Self::from(u64::try_from(x).unwrap_or(u64::MAX))
    }
}

impl From<&str> for Value {
    fn from(x: &str) -> Self {
        Self::Text(vec![Some(x.to_owned())])
    }
}

impl From<String> for Value {
    fn from(x: String) -> Self {
        Self::Text(vec![Some(x)])
    }
}

impl From<Vec<String>> for Value {
    fn from(x: Vec<String>) -> Self {
        Self::Text(x.into_iter().map(Some).collect())
    }
}

impl From<&[u64]> for Value {
    fn from(x: &[u64]) -> Self {
        Self::Real(x.iter().map(|n| real(*n)).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(x: Option<T>) -> Self {
        x.map_or(Self::Null, Into::into)
    }
}

impl<const N: usize> From<[(&str, Value); N]> for Value {
    fn from(x: [(&str, Value); N]) -> Self {
        Self::List(x.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// A whole number as R has it.
pub(crate) fn real(n: u64) -> f64 {
    zaro::internal::text::f64_of_u64(n)
}

impl Value {
    /// With one more attribute.
    pub(crate) fn with(self, name: &str, value: Value) -> Self {
        let Ok(name) = CString::new(name) else { return self };
        match self {
            Self::With(inner, mut attributes) => {
                attributes.push((name, value));
                Self::With(inner, attributes)
            }
            other => Self::With(Box::new(other), vec![(name, value)]),
        }
    }

    /// The member `name` of a list; NULL if there is none.
    pub(crate) fn get(&self, name: &str) -> &Value {
        match self {
            Self::List(items) => items.iter().find(|(n, _)| n == name).map_or(&Self::Null, |(_, v)| v),
            _ => &Self::Null,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(v) => v.first()?.as_deref(),
            _ => None,
        }
    }

    /// The text `name` of a list, if it was given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).as_str()
    }

    /// The text `name` of a list, which the R code always gives.
    pub(crate) fn word(&self, name: &str) -> Result<&str> {
        self.text(name).ok_or_else(|| Error::usage(format!("'{name}' must be one text")))
    }

    /// The texts `name` of a list.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        match self.get(name) {
            Self::Text(v) => v.iter().flatten().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether `name` is TRUE.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Self::Logical(v) if v.first() == Some(&1))
    }

    pub(crate) fn function(&self, name: &str) -> Option<Function> {
        match self.get(name) {
            Self::Function(f) => Some(*f),
            _ => None,
        }
    }

    pub(crate) fn items(&self) -> &[(String, Value)] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The numbers of a vector; a missing one is NaN.
    pub(crate) fn reals(&self) -> Vec<f64> {
        match self {
            Self::Real(v) => v.clone(),
            Self::Int(v) | Self::Logical(v) => {
                v.iter().map(|n| if *n == NA_INT { f64::NAN } else { f64::from(*n) }).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whole numbers from 0 on.
    pub(crate) fn wholes(&self, name: &str) -> Result<Vec<u64>> {
        self.get(name).reals().into_iter().map(|x| whole(x, name)).collect()
    }

    /// One whole number from 0 on, if given.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.wholes(name)?.first().copied())
    }
}

/// A double that has to be a whole number from 0 on.
pub(crate) fn whole(x: f64, what: &str) -> Result<u64> {
    if x >= 0.0 && x.fract() == 0.0 && x < 1.8e19 {
        return Ok(zaro::internal::text::u64_of_f64(x));
    }
    Err(Error::usage(format!("'{what}' must be whole numbers from 0 on, not {x}")))
}

/// JSON as R has it: objects are lists, arrays of one plain type are vectors, integers that a double cannot hold are text.
pub(crate) fn of_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => (*b).into(),
        Json::String(s) => s.as_str().into(),
        Json::Number(_) => number(json),
        Json::Object(members) => {
            let list = members.iter().map(|(name, v)| (name.clone(), of_json(v))).collect();
            // An empty object differs from an empty array by its names.
            match members.is_empty() {
                true => Value::List(list).with("names", Value::Text(Vec::new())),
                false => Value::List(list),
            }
        }
        Json::Array(items) => vector(items),
    }
}

fn vector(items: &[Json]) -> Value {
    if items.is_empty() {
        return Value::List(Vec::new());
    }
    if items.iter().all(|i| matches!(i, Json::Bool(_))) {
        return Value::Logical(items.iter().map(|i| i.as_bool().unwrap_or(false).into()).collect());
    }
    if items.iter().all(|i| matches!(i, Json::String(_))) {
        return Value::Text(items.iter().map(|i| i.as_str().map(str::to_owned)).collect());
    }
    if items.iter().all(|i| matches!(i, Json::Number(_))) {
        let values: Vec<Value> = items.iter().map(number).collect();
        if values.iter().all(|v| matches!(v, Value::Int(_))) {
            let one = |v: &Value| if let Value::Int(n) = v { n.first().copied() } else { None };
            return Value::Int(values.iter().filter_map(one).collect());
        }
        if values.iter().all(|v| matches!(v, Value::Int(_) | Value::Real(_))) {
            return Value::Real(values.iter().flat_map(Value::reals).collect());
        }
    }
    Value::List(items.iter().map(|i| (String::new(), of_json(i))).collect())
}

fn number(json: &Json) -> Value {
    let text = json.number_text().unwrap_or_default();
    if let Ok(n) = text.parse::<i32>()
        && n != NA_INT
    {
        return Value::Int(vec![n]);
    }
    match json.as_i128() {
        Some(n) if n.unsigned_abs() > 1 << 53 => text.into(),
        _ => json.as_f64().unwrap_or_else(na_real).into(),
    }
}

/// JSON of a value of R: named lists are objects, vectors of length 1 are scalars, a list or a longer vector is an array.
pub(crate) fn to_json(value: &Value) -> Result<Json> {
    fn one_or_more<T>(v: &[T], each: impl Fn(&T) -> Json) -> Json {
        match v {
            [one] => each(one),
            more => more.iter().map(each).collect(),
        }
    }
    let whole = |n: &i32| if *n == NA_INT { Json::Null } else { Json::int(n) };
    Ok(match value {
        Value::Null => Json::Null,
        Value::Logical(v) => one_or_more(v, |n| if *n == NA_INT { Json::Null } else { Json::Bool(*n != 0) }),
        Value::Int(v) => one_or_more(v, whole),
        Value::Real(v) => one_or_more(v, |x| Json::float(*x)),
        Value::Text(v) => one_or_more(v, |t| t.as_deref().map_or(Json::Null, Json::string)),
        Value::List(items) if !items.is_empty() && items.iter().all(|(name, _)| !name.is_empty()) => {
            let mut out = Json::object();
            for (name, item) in items {
                out.set(name, to_json(item)?);
            }
            out
        }
        Value::List(items) => {
            Json::Array(items.iter().map(|(_, item)| to_json(item)).collect::<Result<Vec<_>>>()?)
        }
        _ => return Err(Error::usage("an attribute must be made of logicals, numbers, texts and lists")),
    })
}
