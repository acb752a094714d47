//! CF decoding: applies the attributes of the CF conventions, and those xarray adds, to stored elements.
//!
//! * `scale_factor` and `add_offset` turn packed numbers into `float64`.
//! * `_FillValue` and `missing_value` become NaN, or `NaT` for times. CF readers use the fill value of a V2 array as
//!   its `_FillValue`, whatever the attribute of that name says; so does this, if the dimensions have names.
//! * `units` of the form `days since 1850-01-01` with a `calendar` turn numbers into ISO 8601 text. Times more than a
//!   billion years away become `NaT` as well, but are counted in [`Lost`], since they were not declared missing.
//! * `units` such as `hours` with a `dtype` such as `timedelta64[ns]` are durations; `dtype` `bool` gives booleans.
//! * [`related`] finds what other arrays contribute: units of bounds, and character dimensions.
//!
//! `docs/book/cf.md` lists the differences from xarray and cftime.

mod reading;
mod related;
mod time;

use base64::Engine as _;

use crate::array::Slab;
use crate::error::Result;
use crate::format::calendar::Calendar;
use crate::format::value;
use crate::meta::dtype::{DataType, Float, TimeUnit};
use crate::meta::float;
use crate::meta::json::Json;
use crate::meta::{ArrayMeta, Format};
use crate::num;

pub use reading::Reading;
pub use related::{Related, related};
pub(crate) use time::{Interval, span};
use time::{TimeAxis, nanos_of_float, nanos_of_integer, span_target, span_unit, split_since, zone_name};

/// The CF decoding of one array.
#[derive(Debug, Clone)]
pub struct Cf {
    /// The type of packed elements (`_Unsigned` may differ from the array's type).
    packed: DataType,
    scale: Option<f64>,
    offset: Option<f64>,
    missing: MissingValue,
    form: ValueForm,
}

/// The values that mean a missing element.
#[derive(Debug, Clone, Default)]
struct MissingValue {
    floats: Vec<f64>,
    integers: Vec<i128>,
    /// Whether a missing value other than NaN was declared; then integers become floats even if no element can equal
    /// it.
    any: bool,
}

/// What unpacked numbers represent.
#[derive(Debug, Clone, PartialEq)]
enum ValueForm {
    Numbers,
    Moments(TimeAxis),
    /// Durations: the nanoseconds per stored unit, and per unit shown.
    Spans {
        unit: i128,
        target: TimeUnit,
        nanos: i128,
    },
    /// Booleans stored as integers.
    Truth,
    /// Text in this encoding, stored as bytes.
    Text(Encoding),
    /// Text; these values are missing, and shown as empty text.
    Words(Vec<String>),
    /// Bytes of a fixed length; these values are missing, and shown as empty.
    Octets(Vec<u8>),
    /// Complex numbers; these values are missing.
    Complex(Vec<(f64, f64)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Latin1,
}

/// Counts values that could not be decoded: times out of range, and invalid UTF-32 code points.
#[derive(Debug, Default)]
pub struct Lost {
    /// Texts with invalid code points, shown as U+FFFD; counted only if the output is text.
    texts: Option<u64>,
    count: u64,
    /// The first of them as stored.
    first: String,
}

impl Lost {
    /// For text output: invalid code points are counted, too.
    #[must_use]
    pub fn of_text() -> Self {
        Self { texts: Some(0), ..Self::default() }
    }

    fn add(&mut self, first: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = first();
        }
        self.count = self.count.saturating_add(1);
    }

    /// A warning per kind of loss; empty if nothing was lost.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let texts = self.texts.filter(|n| *n > 0).map(|n| {
            let (texts, hold) = if n == 1 { ("text", "holds") } else { ("texts", "hold") };
            format!("{n} {texts} {hold} invalid UTF-32 code points, shown as U+FFFD [utf32]")
        });
        texts.into_iter().chain(self.times()).collect()
    }

    fn times(&self) -> Option<String> {
        let (times, became) = if self.count == 1 { ("time", "became") } else { ("times", "all became") };
        (self.count > 0)
            .then(|| format!("{} {times} out of range {became} NaT; the first is {}", self.count, self.first))
    }
}

/// The reference date of units such as `days since 1850-01-01`, and the times they declare, or why these cannot be
/// decoded; `None` for other units.
fn declared_times<'a>(
    meta: &'a ArrayMeta,
    related: &'a Related,
) -> Option<(&'a str, Result<TimeAxis, String>)> {
    let text = |name: &str| meta.attributes.get(name).and_then(Json::as_str);
    let (unit, reference) = split_since(text("units").or(related.units.as_deref())?)?;
    let name = text("calendar").or(related.calendar.as_deref()).unwrap_or("standard");
    let axis = match Calendar::named(name) {
        Some(calendar) => TimeAxis::parse(unit, reference, calendar).map_err(|e| e.to_string()),
        None => Err(format!("unknown calendar {name:?}")),
    };
    Some((reference, axis))
}

/// Why the elements stay numbers though their units declare times; `None` if they do not, or can be decoded.
pub(crate) fn undecoded_times(meta: &ArrayMeta, related: &Related) -> Option<String> {
    let is_number = matches!(meta.data_type, DataType::Int(_) | DataType::UInt(_) | DataType::Float(_));
    declared_times(meta, related).filter(|_| is_number).and_then(|(_, axis)| axis.err())
}

impl Cf {
    /// The decoding that the attributes of `meta`, and of arrays related to it, ask for; `None` if there is none. Calls
    /// `warn` for attributes it cannot apply.
    #[must_use]
    pub fn new(meta: &ArrayMeta, related: &Related, warn: &mut dyn FnMut(&str)) -> Option<Self> {
        let attribute = |name: &str| meta.attributes.get(name);
        let plain = |form: ValueForm| Self {
            packed: meta.data_type.clone(),
            scale: None,
            offset: None,
            missing: MissingValue::default(),
            form,
        };
        let missing_bool = meta.data_type == DataType::Bool && says_what_is_missing(meta);
        if !matches!(meta.data_type, DataType::Int(_) | DataType::UInt(_) | DataType::Float(_))
            && !missing_bool
        {
            for name in ["scale_factor", "add_offset"].into_iter().filter(|n| attribute(n).is_some()) {
                warn(&format!("{name} is not applied to elements of type {}", meta.data_type));
            }
            let words = missing_words(meta);
            if !words.is_empty() {
                return Some(plain(ValueForm::Words(words)));
            }
            if let DataType::Complex(f) = &meta.data_type {
                let missing = missing_complex(meta, *f);
                return (!missing.is_empty()).then(|| plain(ValueForm::Complex(missing)));
            }
            // Bytes that are text have no other decoding.
            let fill = fill_that_counts(meta).filter(|fill| fill.iter().any(|b| *b != 0));
            if let (DataType::FixedBytes(_), Some(fill), None) =
                (&meta.data_type, fill, attribute("_Encoding"))
            {
                return Some(plain(ValueForm::Octets(fill.to_vec())));
            }
            let name = attribute("_Encoding").and_then(Json::as_str);
            let (DataType::FixedBytes(_), Some(name)) = (&meta.data_type, name) else { return None };
            let encoding = Encoding::named(name);
            if encoding.is_none() {
                warn(&format!("unknown text encoding {name:?}; elements are left as bytes"));
            }
            return encoding.map(|encoding| plain(ValueForm::Text(encoding)));
        }
        let packed = match (&meta.data_type, attribute("_Unsigned").and_then(Json::as_str)) {
            (DataType::Int(bits), Some("true")) => DataType::UInt(*bits),
            (DataType::UInt(bits), Some("false")) => DataType::Int(*bits),
            (t, _) => t.clone(),
        };
        let mut number = |name: &str| {
            let found = attribute(name).map(|value| (value, first_number(value)));
            if let Some((value, None)) = found {
                warn(&format!("{name} is not applied: {value} is not a number"));
            }
            found.and_then(|(_, number)| number)
        };
        let mut out = Self {
            scale: number("scale_factor"),
            offset: number("add_offset"),
            packed,
            ..plain(ValueForm::Numbers)
        };
        let turned = out.packed != meta.data_type;
        let fill = fill_that_counts(meta);
        for name in ["_FillValue", "missing_value"] {
            if name == "_FillValue" && fill.is_some() {
                continue;
            }
            for one in attribute(name).map_or(&[][..], |v| v.items().unwrap_or(std::slice::from_ref(v))) {
                // Null means no missing value.
                if *one != Json::Null && !out.missing.add(one, &out.packed, turned) {
                    warn(&format!("{name} is not applied: {one} is not a value of type {}", out.packed));
                }
            }
        }
        if let Some(fill) = fill {
            out.missing.add_bytes(fill, &out.packed);
            if let Some(stated) = attribute("_FillValue")
                && !out.missing.has(stated, &out.packed, turned)
            {
                let fill = value::text_of(&meta.data_type, fill, value::Style::TEXT);
                warn(&format!(
                    "the fill value {fill} of this V2 array is used as _FillValue, as in xarray; the \
                     attribute {stated} is not applied"
                ));
            }
        }
        out.form = out.form_of(meta, related, warn);
        let idle = out.form == ValueForm::Numbers && !out.changes_numbers() && out.packed == meta.data_type;
        (!idle).then_some(out)
    }

    fn form_of(&self, meta: &ArrayMeta, related: &Related, warn: &mut dyn FnMut(&str)) -> ValueForm {
        let text = |name: &str| meta.attributes.get(name).and_then(Json::as_str);
        let units = text("units").or(related.units.as_deref()).unwrap_or_default();
        let dtype = text("dtype").unwrap_or_default();
        if let Some((reference, axis)) = declared_times(meta, related) {
            return match axis {
                Ok(axis) => {
                    if let Some(name) = zone_name(reference) {
                        warn(&format!("the time zone {name} of the reference is not applied, as in xarray"));
                    }
                    ValueForm::Moments(axis)
                }
                Err(why) => {
                    warn(&format!("times are left as numbers: {why}"));
                    ValueForm::Numbers
                }
            };
        }
        if let (Some(unit), Some((target, nanos))) = (span_unit(units), span_target(dtype)) {
            // Fractions may not terminate, and anything finer than the target unit would be truncated.
            return if self.is_packed() || !is_integer(&self.packed) || unit < nanos {
                ValueForm::Spans { unit, target: TimeUnit::Nanosecond, nanos: 1 }
            } else {
                ValueForm::Spans { unit, target, nanos }
            };
        }
        // Missing values are NaN at first, which is true.
        if dtype == "bool" && self.packed != DataType::Bool {
            return ValueForm::Truth;
        }
        ValueForm::Numbers
    }

    /// The type of the decoded elements.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        match (&self.form, &self.packed) {
            (ValueForm::Moments(_) | ValueForm::Text(_) | ValueForm::Words(_), _) => DataType::String,
            (ValueForm::Spans { target, .. }, _) => DataType::TimeDelta(*target, 1),
            (ValueForm::Truth, _) => DataType::Bool,
            (ValueForm::Octets(_) | ValueForm::Complex(_), packed) => packed.clone(),
            // Booleans cannot express a missing value.
            (ValueForm::Numbers, DataType::Bool) => DataType::FLOAT32,
            _ if self.is_packed() => DataType::FLOAT64,
            (_, packed) if !self.changes_numbers() => packed.clone(),
            // As xarray promotes: the smallest float that holds every value.
            (_, DataType::Int(bits) | DataType::UInt(bits)) if *bits <= 16 => DataType::FLOAT32,
            (_, packed @ DataType::Float(Float::F16 | Float::F32)) => packed.clone(),
            _ => DataType::FLOAT64,
        }
    }

    fn is_packed(&self) -> bool {
        self.scale.is_some() || self.offset.is_some()
    }

    /// Whether decoding does more than reinterpret the sign.
    fn changes_numbers(&self) -> bool {
        self.is_packed() || self.missing.any
    }

    /// The calendar, if the elements are times.
    pub(crate) fn calendar(&self) -> Option<Calendar> {
        match &self.form {
            ValueForm::Moments(axis) => Some(axis.calendar),
            _ => None,
        }
    }

    /// The seconds from 1970-01-01 of the calendar to a time; NaN if it is missing or out of range, which `lost` counts.
    fn seconds(&self, axis: &TimeAxis, item: &[u8], lost: &mut Lost) -> f64 {
        let found = self.nanos(item, axis.unit).map(|nanos| nanos.and_then(|n| axis.seconds(n)));
        match found {
            Some(Some(seconds)) => seconds,
            missing => {
                if missing.is_some() {
                    lost.add(|| value::text_of(&self.packed, item, value::Style::TEXT));
                }
                f64::NAN
            }
        }
    }

    /// Whether the elements are durations.
    pub(crate) fn is_span(&self) -> bool {
        matches!(self.form, ValueForm::Spans { .. })
    }

    /// Whether the numbers were scaled, so that their last digits are rounding errors.
    pub(crate) fn is_scaled(&self) -> bool {
        self.is_packed()
    }

    /// The nanoseconds of a time, from day 0 of its calendar, or of a duration; `None` if missing or out of range.
    pub(crate) fn nanoseconds(&self, item: &[u8]) -> Option<i128> {
        match &self.form {
            ValueForm::Moments(axis) => self.nanos(item, axis.unit)??.checked_add(axis.reference),
            ValueForm::Spans { unit, .. } => self.nanos(item, *unit)?,
            _ => None,
        }
    }

    /// The unpacked number, whatever it represents; NaN for a missing one, `None` if it is not a number.
    pub(crate) fn unpacked(&self, item: &[u8]) -> Option<f64> {
        let numbers = matches!(
            self.form,
            ValueForm::Numbers | ValueForm::Moments(_) | ValueForm::Spans { .. } | ValueForm::Truth
        );
        numbers.then(|| self.number(item))
    }

    /// Decodes a slab, and counts in `lost` the times that are out of range.
    pub fn apply(&self, slab: &Slab, lost: &mut Lost) -> Result<Slab> {
        let target = self.data_type();
        let mut text = |item: &[u8]| match &self.form {
            ValueForm::Moments(axis) => self.moment(axis, item, lost),
            ValueForm::Text(encoding) => encoding.text(item),
            ValueForm::Words(missing) => {
                let text = value::text_of(&self.packed, item, value::Style::TEXT);
                if missing.contains(&text) { String::new() } else { text }
            }
            _ => String::new(),
        };
        if target.is_variable() {
            let texts: Vec<String> = slab.items().map(&mut text).collect();
            return Slab::variable(&target, &slab.shape, slab.order, texts.iter().map(String::as_bytes));
        }
        let mut out = Vec::with_capacity(slab.len().saturating_mul(target.size()));
        for item in slab.items() {
            match (&self.form, &target) {
                (ValueForm::Spans { unit, nanos, .. }, _) => {
                    out.extend(self.span(*unit, *nanos, item, lost).to_le_bytes())
                }
                (ValueForm::Truth, _) => out.push((self.number(item) != 0.0).into()),
                (ValueForm::Octets(missing), _) if item == missing => {
                    out.extend(std::iter::repeat_n(0, item.len()));
                }
                (ValueForm::Complex(missing), DataType::Complex(f)) => {
                    let is_missing = complex_number(item, *f).is_some_and(|z| missing.contains(&z));
                    let nan = float::from_f64(*f, f64::NAN).to_le_bytes();
                    match is_missing {
                        true => out.extend(nan.iter().take(f.size()).chain(nan.iter().take(f.size()))),
                        false => out.extend_from_slice(item),
                    }
                }
                (_, t) if *t == self.packed && !self.is_packed() && !self.is_missing(item) => {
                    out.extend_from_slice(item);
                }
                (_, DataType::Float(f)) => {
                    let bits = float::from_f64(*f, self.number(item));
                    out.extend(bits.to_le_bytes().iter().take(f.size()));
                }
                _ => out.extend_from_slice(item),
            }
        }
        Slab::new(&target, &slab.shape, slab.order, out)
    }

    /// The unpacked number; NaN for a missing one.
    fn number(&self, item: &[u8]) -> f64 {
        match value::number(&self.packed, item) {
            Some(_) if self.is_missing(item) => f64::NAN,
            Some(x) => {
                let x = self.scale.map_or(x, |scale| x * scale);
                self.offset.map_or(x, |offset| x + offset)
            }
            None => f64::NAN,
        }
    }

    fn is_missing(&self, item: &[u8]) -> bool {
        self.missing.any
            && match integer(&self.packed, item) {
                Some(n) => self.missing.integers.contains(&n),
                None => value::number(&self.packed, item).is_some_and(|x| self.missing.floats.contains(&x)),
            }
    }

    /// The element times `unit` in nanoseconds: `None` for a missing number, `Some(None)` for one out of range.
    fn nanos(&self, item: &[u8], unit: i128) -> Option<Option<i128>> {
        if self.is_missing(item) {
            return None;
        }
        match integer(&self.packed, item) {
            // numpy's NaT, which xarray writes unchanged.
            Some(n) if n == i64::MIN.into() && self.packed.size() == 8 && !self.is_packed() => None,
            Some(n) if !self.is_packed() => Some(Some(nanos_of_integer(n, unit))),
            _ => {
                let x = self.number(item);
                // NaN marks a missing float.
                (!x.is_nan()).then(|| nanos_of_float(x, unit))
            }
        }
    }

    fn moment(&self, axis: &TimeAxis, item: &[u8], lost: &mut Lost) -> String {
        let text = self.nanos(item, axis.unit).map(|nanos| nanos.and_then(|n| axis.text(n)));
        match text {
            Some(Some(text)) => text,
            missing => {
                if missing.is_some() {
                    lost.add(|| value::text_of(&self.packed, item, value::Style::TEXT));
                }
                "NaT".into()
            }
        }
    }

    fn span(&self, unit: i128, nanos: i128, item: &[u8], lost: &mut Lost) -> i64 {
        let span = self.nanos(item, unit).map(|n| n.and_then(|n| i64::try_from(n / nanos).ok()));
        match span {
            Some(Some(n)) => n,
            missing => {
                if missing.is_some() {
                    lost.add(|| value::text_of(&self.packed, item, value::Style::TEXT));
                }
                i64::MIN
            }
        }
    }
}

impl MissingValue {
    /// Adds a missing value as attributes write it: a number, its text, or base64 of its bytes. Returns whether it was
    /// valid. `turned` means that the signedness differs from that of the array's type.
    fn add(&mut self, value: &Json, packed: &DataType, turned: bool) -> bool {
        if let Some(text) = value.as_str() {
            if let Some(x) = special(text) {
                self.add_float(x, packed);
            } else if let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(text) {
                return self.add_bytes(&bytes, packed);
            } else {
                return false;
            }
        } else if let (Json::Bool(b), DataType::Bool) = (value, packed) {
            self.any = true;
            self.integers.push((*b).into());
        } else if let (Some(n), true) = (value.as_i128(), is_integer(packed)) {
            self.any = true;
            self.integers.push(n);
            // Writers disagree whether the value is written as signed or as unsigned.
            let bits = u32::try_from(packed.size() * 8).unwrap_or(64);
            match packed {
                DataType::UInt(_) if turned && n < 0 => self.integers.push(n + (1i128 << bits)),
                DataType::Int(_) if turned && n >= 1i128 << (bits - 1) => {
                    self.integers.push(n - (1i128 << bits))
                }
                _ => {}
            }
        } else if let Some(x) = value.as_f64() {
            self.add_float(x, packed);
        } else {
            return false;
        }
        true
    }

    fn add_float(&mut self, x: f64, packed: &DataType) {
        // NaN is missing anyway, and no integer equals it.
        if x.is_nan() {
            return;
        }
        self.any = true;
        match packed {
            // Rounded to the array's type: 1e20 as float32 differs from 1e20 as float64.
            DataType::Float(f) => {
                let rounded = float::to_f64(*f, float::from_f64(*f, x));
                // No element equals a value that the type cannot hold.
                self.floats.extend(Some(rounded).filter(|r| r.is_finite() == x.is_finite()));
            }
            _ if x.fract() == 0.0 => self.integers.push(num::i128_of_f64(x)),
            // No integer equals it.
            _ => {}
        }
    }

    /// Adds a missing value from bytes: of the packed type, or a float64, as xarray writes them. Returns whether it was
    /// valid.
    fn add_bytes(&mut self, bytes: &[u8], packed: &DataType) -> bool {
        if let (true, Some(n)) = (bytes.len() == packed.size(), integer(packed, bytes)) {
            self.any = true;
            self.integers.push(n);
        } else if bytes.len() == packed.size() {
            self.add_float(value::number(packed, bytes).unwrap_or(f64::NAN), packed);
        } else if let Some(x) = bytes.first_chunk::<8>().filter(|_| bytes.len() == 8) {
            self.add_float(f64::from_le_bytes(*x), packed);
        } else {
            return false;
        }
        true
    }

    /// Whether this contains all values of the attribute `value`.
    fn has(&self, value: &Json, packed: &DataType, turned: bool) -> bool {
        let mut other = Self::default();
        let said = value.items().unwrap_or(std::slice::from_ref(value));
        said.iter().all(|one| *one == Json::Null || other.add(one, packed, turned))
            && (other.integers.is_empty() || other.integers.iter().any(|n| self.integers.contains(n)))
            && other.floats.iter().all(|x| self.floats.contains(x))
    }
}

impl Encoding {
    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" | "ascii" | "us-ascii" => Self::Utf8,
            "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" => Self::Latin1,
            _ => return None,
        })
    }

    fn text(self, item: &[u8]) -> String {
        let content = value::trim_nul(item);
        match self {
            Self::Utf8 => String::from_utf8_lossy(content).into_owned(),
            Self::Latin1 => content.iter().map(|b| char::from(*b)).collect(),
        }
    }
}

/// The attributes of an array for display: xarray's base64 of a `_FillValue` becomes a number.
#[must_use]
pub fn readable(meta: &ArrayMeta) -> Json {
    let mut attributes = (*meta.attributes).clone();
    let bytes = attributes
        .get("_FillValue")
        .and_then(Json::as_str)
        .and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
    if let (DataType::Float(_), Some(bytes)) = (&meta.data_type, bytes)
        && let Some(bytes) = bytes.first_chunk::<8>().filter(|_| bytes.len() == 8)
    {
        attributes
            .set("_FillValue", Json::string(value::text_of(&DataType::FLOAT64, bytes, value::Style::TEXT)));
    }
    attributes
}

/// The missing values of a text array, without the empty text.
fn missing_words(meta: &ArrayMeta) -> Vec<String> {
    if !matches!(meta.data_type, DataType::String | DataType::FixedUtf32(_)) {
        return Vec::new();
    }
    let fill = fill_that_counts(meta).map(|fill| value::text_of(&meta.data_type, fill, value::Style::TEXT));
    let said = |name: &str| match meta.attributes.get(name) {
        Some(Json::Array(items)) => items.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        other => other.and_then(Json::as_str).map(str::to_owned).into_iter().collect::<Vec<_>>(),
    };
    let stated = if fill.is_some() { Vec::new() } else { said("_FillValue") };
    let all = fill.into_iter().chain(stated).chain(said("missing_value"));
    all.filter(|text| !text.is_empty()).collect()
}

/// Whether a missing value is declared at all.
fn says_what_is_missing(meta: &ArrayMeta) -> bool {
    let said = |name| meta.attributes.get(name).is_some_and(|value| *value != Json::Null);
    fill_that_counts(meta).is_some() || said("_FillValue") || said("missing_value")
}

/// The missing values of a complex array, without NaN.
fn missing_complex(meta: &ArrayMeta, f: Float) -> Vec<(f64, f64)> {
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).ok();
    let part = |value: &Json| match value.as_str() {
        Some(text) => special(text).or_else(|| Some(f64::from_le_bytes(base64(text)?.try_into().ok()?))),
        None => value.as_f64(),
    };
    let fill = fill_that_counts(meta);
    let stated = meta.attributes.get("_FillValue").filter(|_| fill.is_none()).and_then(|value| {
        // V3 writes it as a list of two strings.
        match value.items() {
            Some([re, im]) => part(re).zip(part(im)),
            Some(_) => None,
            None => part(value).map(|re| (re, 0.0)),
        }
    });
    let named = meta.attributes.get("missing_value");
    let named = named.map_or(&[][..], |v| v.items().unwrap_or(std::slice::from_ref(v))).iter();
    let named = named.filter_map(Json::as_f64).map(|re| (re, 0.0));
    let all = fill.and_then(|fill| complex_number(fill, f)).into_iter().chain(stated).chain(named);
    all.filter(|(re, im)| !re.is_nan() && !im.is_nan()).collect()
}

fn complex_number(bytes: &[u8], f: Float) -> Option<(f64, f64)> {
    let (re, im) = bytes.split_at_checked(f.size())?;
    let part = |bytes| value::number(&DataType::Float(f), bytes);
    part(re).zip(part(im))
}

/// The fill value of a V2 array that CF readers use as its `_FillValue`; of a V3 array they use none.
fn fill_that_counts(meta: &ArrayMeta) -> Option<&[u8]> {
    let stated = !matches!(meta.document.get("fill_value"), None | Some(Json::Null));
    (meta.format == Format::V2 && meta.dimension_names.is_some() && stated).then_some(&meta.fill.0)
}

fn is_integer(t: &DataType) -> bool {
    matches!(t, DataType::Int(_) | DataType::UInt(_))
}

fn integer(t: &DataType, bytes: &[u8]) -> Option<i128> {
    match t {
        DataType::Bool => bytes.first().map(|b| i128::from(*b != 0)),
        DataType::Int(_) => value::signed(bytes).map(i128::from),
        DataType::UInt(_) => value::unsigned(bytes).map(i128::from),
        _ => None,
    }
}

fn special(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A number, the text of one, or a list whose only item is one.
fn first_number(value: &Json) -> Option<f64> {
    match value {
        Json::Array(items) => match items.as_slice() {
            [one] => first_number(one),
            _ => None,
        },
        Json::String(s) => s.trim().parse().ok(),
        other => other.as_f64(),
    }
}
