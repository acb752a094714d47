//! `gen`: many references from one rule.

use super::document::TableBuilder;
use super::template::{Scope, Template, TemplateValue, Templates};
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::Json;
use crate::num::u64_of;

/// The most references that rules may make, all together.
const MOST: u64 = 5_000_000;

/// The values of one dimension.
enum DimensionValues {
    List(Vec<i64>),
    Range { start: i64, step: i64, count: u64 },
}

impl DimensionValues {
    fn count(&self) -> u64 {
        match self {
            Self::List(list) => u64_of(list.len()),
            Self::Range { count, .. } => *count,
        }
    }

    fn get(&self, i: u64) -> i128 {
        match self {
            Self::List(list) => {
                usize::try_from(i).ok().and_then(|i| list.get(i)).map_or(0, |n| i128::from(*n))
            }
            Self::Range { start, step, .. } => {
                i128::from(*start).saturating_add(i128::from(i).saturating_mul(i128::from(*step)))
            }
        }
    }

    fn parse(value: &Json) -> Result<Self> {
        let whole = |v: &Json| v.as_i64().ok_or_else(|| invalid!("{v} is not a whole number"));
        if let Some(items) = value.items() {
            return items.iter().map(whole).collect::<Result<_>>().map(Self::List);
        }
        let member = |name: &str, otherwise: Option<i64>| match (value.get(name), otherwise) {
            (Some(v), _) => whole(v),
            (None, Some(n)) => Ok(n),
            (None, None) => Err(invalid!("a dimension needs a {name:?}")),
        };
        let (start, stop, step) =
            (member("start", Some(0))?, member("stop", None)?, member("step", Some(1))?);
        let (from, to, by) = (i128::from(start), i128::from(stop), i128::from(step));
        let length = match step {
            0 => return Err(Error::invalid("a dimension with a step of 0")),
            1.. => to.saturating_sub(from),
            _ => from.saturating_sub(to),
        };
        let by = by.abs();
        let count = length.max(0).saturating_add(by).saturating_sub(1).checked_div(by).unwrap_or(0);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        Ok(Self::Range { start, step, count })
    }
}

/// Adds what the rules of `gen` make.
pub(super) fn generate(rules: &Json, templates: &Templates, out: &mut TableBuilder) -> Result<()> {
    let Some(rules) = rules.items() else {
        return Err(Error::invalid("must be a list").with_field("gen"));
    };
    let mut left = MOST;
    for (i, rule) in rules.iter().enumerate() {
        one(rule, templates, out, &mut left).map_err(|e| e.with_field(format!("gen[{i}]")))?;
    }
    Ok(())
}

fn one(rule: &Json, templates: &Templates, out: &mut TableBuilder, left: &mut u64) -> Result<()> {
    let template = |name: &str| match rule.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Template::parse(text).map(Some),
        Some(n @ Json::Number(_)) if name == "offset" || name == "length" => {
            Template::parse(&n.to_string()).map(Some)
        }
        Some(other) => Err(invalid!("{name:?} must be a text, not {}", other.kind())),
    };
    let needed = |name: &str| template(name)?.ok_or_else(|| invalid!("{name:?} is missing"));
    let (key, url) = (needed("key")?, needed("url")?);
    let span = match (template("offset")?, template("length")?) {
        (Some(offset), Some(length)) => Some((offset, length)),
        (None, None) => None,
        _ => return Err(Error::invalid("\"offset\" and \"length\" go together")),
    };
    let Some(dimensions) = rule.get("dimensions").and_then(Json::members) else {
        return Err(Error::invalid("\"dimensions\" must be an object"));
    };
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (name, value) in dimensions {
        names.push(name.clone());
        values.push(DimensionValues::parse(value).map_err(|e| e.within(format!("dimension {name:?}")))?);
    }
    let count = values.iter().fold(1u64, |n, v| n.saturating_mul(v.count()));
    *left = left
        .checked_sub(count)
        .ok_or_else(|| unsupported!("the rules make more than {MOST} references; write them out"))?;
    let number = |text: String| {
        text.trim().parse::<u64>().map_err(|_| invalid!("{text:?} is not a whole number from 0 on"))
    };
    let mut scope: Vec<(String, TemplateValue)> =
        names.into_iter().map(|n| (n, TemplateValue::Int(0))).collect();
    for i in 0..count {
        let mut rest = i;
        // The last dimension varies fastest.
        for ((_, at), values) in scope.iter_mut().zip(&values).rev() {
            let n = values.count().max(1);
            *at = TemplateValue::Int(values.get(rest.checked_rem(n).unwrap_or(0)));
            rest = rest.checked_div(n).unwrap_or(0);
        }
        let scope: Scope<'_> = &scope;
        let key = templates.render(&key, scope)?;
        let url = templates.render(&url, scope)?;
        let span = match &span {
            Some((offset, length)) => {
                let offset = number(templates.render(offset, scope)?)?;
                Some((offset, number(templates.render(length, scope)?)?))
            }
            None => None,
        };
        out.made(&key, &url, span)?;
    }
    Ok(())
}
