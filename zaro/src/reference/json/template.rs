//! Evaluates the templates of a reference document: `{{u}}`, `{{ f(c='text') }}`, `{{ 64 + i*80 }}`.
//!
//! A pure expression language: integers, strings, names, calls of templates by keyword. It has no access to anything
//! else, and its depth and output are bounded.

use std::collections::HashMap;

use crate::error::{Error, Result, invalid};

/// How deep templates and brackets may nest.
const MAX_DEPTH: u32 = 24;

/// Maximum length of an expanded template.
const MAX_TEXT: usize = 64 << 10;

/// The value of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplateValue {
    Int(i128),
    Text(String),
}

/// Text with expressions in it.
#[derive(Debug, Clone)]
pub(super) struct Template(Vec<TemplatePart>);

#[derive(Debug, Clone)]
enum TemplatePart {
    Text(String),
    Value(Expr),
}

#[derive(Debug, Clone)]
enum Expr {
    Int(i128),
    Text(String),
    Name(String),
    Call(String, Vec<(String, Expr)>),
    Minus(Box<Expr>),
    Sum(Box<Expr>, Op, Box<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Floor,
    Rest,
}

/// The templates of a document, by name.
#[derive(Debug, Default)]
pub(super) struct Templates(HashMap<String, Template>);

/// Local names of an expression, which take precedence over the templates.
pub(super) type Scope<'a> = &'a [(String, TemplateValue)];

impl Templates {
    /// Adds a template, replacing one of the same name.
    pub(super) fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let template = Template::parse(text).map_err(|e| e.within(format!("template {name:?}")))?;
        self.0.insert(name.to_owned(), template);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Expands `template`.
    pub(super) fn render(&self, template: &Template, scope: Scope<'_>) -> Result<String> {
        self.text(template, scope, MAX_DEPTH)
    }

    fn text(&self, template: &Template, scope: Scope<'_>, depth: u32) -> Result<String> {
        let mut out = String::new();
        for part in &template.0 {
            match part {
                TemplatePart::Text(text) => out.push_str(text),
                TemplatePart::Value(expr) => match self.value(expr, scope, depth)? {
                    TemplateValue::Int(n) => out.push_str(&n.to_string()),
                    TemplateValue::Text(text) => out.push_str(&text),
                },
            }
            if out.len() > MAX_TEXT {
                return Err(Error::invalid("a template becomes a text that is too long"));
            }
        }
        Ok(out)
    }

    fn value(&self, expr: &Expr, scope: Scope<'_>, depth: u32) -> Result<TemplateValue> {
        let Some(deeper) = depth.checked_sub(1) else {
            return Err(Error::invalid("templates are nested too deeply"));
        };
        match expr {
            Expr::Int(n) => Ok(TemplateValue::Int(*n)),
            Expr::Text(text) => Ok(TemplateValue::Text(text.clone())),
            Expr::Name(name) => match scope.iter().rev().find(|(n, _)| n == name) {
                Some((_, value)) => Ok(value.clone()),
                None => self.text(self.named(name)?, scope, deeper).map(TemplateValue::Text),
            },
            Expr::Call(name, arguments) => {
                let mut inner = scope.to_vec();
                for (name, argument) in arguments {
                    inner.push((name.clone(), self.value(argument, scope, deeper)?));
                }
                self.text(self.named(name)?, &inner, deeper).map(TemplateValue::Text)
            }
            Expr::Minus(inner) => match self.value(inner, scope, deeper)? {
                TemplateValue::Int(n) => n.checked_neg().map(TemplateValue::Int).ok_or_else(overflow),
                TemplateValue::Text(_) => Err(Error::invalid("a string cannot be negated")),
            },
            Expr::Sum(left, op, right) => {
                let left = self.value(left, scope, deeper)?;
                compute(left, *op, self.value(right, scope, deeper)?)
            }
        }
    }

    fn named(&self, name: &str) -> Result<&Template> {
        self.0.get(name).ok_or_else(|| invalid!("there is no template {name:?}"))
    }
}

fn overflow() -> Error {
    Error::invalid("integer overflow in a template")
}

fn compute(left: TemplateValue, op: Op, right: TemplateValue) -> Result<TemplateValue> {
    let (a, b) = match (left, op, right) {
        (TemplateValue::Int(a), _, TemplateValue::Int(b)) => (a, b),
        (TemplateValue::Text(mut a), Op::Add, TemplateValue::Text(b)) => {
            a.push_str(&b);
            if a.len() > MAX_TEXT {
                return Err(Error::invalid("a template becomes a text that is too long"));
            }
            return Ok(TemplateValue::Text(a));
        }
        _ => return Err(Error::invalid("cannot combine a string and a number in a template")),
    };
    if b == 0 && matches!(op, Op::Div | Op::Floor | Op::Rest) {
        return Err(Error::invalid("a template divides by zero"));
    }
    // Division rounds down and the rest has the sign of the divisor, as in Python.
    let floor = || {
        let quotient = a.checked_div(b)?;
        let exact = a.checked_rem(b)? == 0;
        if exact || (a < 0) == (b < 0) { Some(quotient) } else { quotient.checked_sub(1) }
    };
    let out = match op {
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        Op::Floor => floor(),
        Op::Rest => floor().and_then(|q| a.checked_sub(q.checked_mul(b)?)),
        Op::Div if a.checked_rem(b) == Some(0) => a.checked_div(b),
        Op::Div => return Err(invalid!("{a} / {b} is not an integer; use // to round down")),
    };
    out.map(TemplateValue::Int).ok_or_else(overflow)
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            if at > 0 {
                parts.push(TemplatePart::Text(rest.get(..at).unwrap_or_default().to_owned()));
            }
            let mut p = TemplateParser { rest: rest.get(at.saturating_add(2)..).unwrap_or_default() };
            let expr = p.sum(MAX_DEPTH).map_err(|e| e.within(format!("{text:?}")))?;
            let Some(after) = p.rest.trim_start().strip_prefix("}}") else {
                return Err(invalid!("cannot parse the template {text:?}"));
            };
            parts.push(TemplatePart::Value(expr));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }
}

struct TemplateParser<'a> {
    rest: &'a str,
}

impl TemplateParser<'_> {
    /// Consumes `token` if it comes next.
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        // `}}` ends the expression, `//` is no `/`.
        match rest.strip_prefix(token) {
            Some(after) if !(token == "/" && after.starts_with('/')) => {
                self.rest = after;
                true
            }
            _ => false,
        }
    }

    fn sum(&mut self, depth: u32) -> Result<Expr> {
        self.chain(&[("+", Op::Add), ("-", Op::Sub)], depth, Self::product)
    }

    fn product(&mut self, depth: u32) -> Result<Expr> {
        let ops = [("*", Op::Mul), ("//", Op::Floor), ("/", Op::Div), ("%", Op::Rest)];
        self.chain(&ops, depth, Self::unit)
    }

    fn chain(
        &mut self,
        ops: &[(&str, Op)],
        depth: u32,
        part: fn(&mut Self, u32) -> Result<Expr>,
    ) -> Result<Expr> {
        let Some(deeper) = depth.checked_sub(1) else {
            return Err(Error::invalid("brackets nest too deeply"));
        };
        let mut left = part(self, deeper)?;
        let mut length = 0u32;
        while let Some((_, op)) = ops.iter().find(|(token, _)| self.take(token)) {
            length = length.saturating_add(1);
            if length > MAX_DEPTH {
                return Err(Error::invalid("too many terms"));
            }
            left = Expr::Sum(Box::new(left), *op, Box::new(part(self, deeper)?));
        }
        Ok(left)
    }

    fn unit(&mut self, depth: u32) -> Result<Expr> {
        let Some(deeper) = depth.checked_sub(1) else {
            return Err(Error::invalid("brackets nest too deeply"));
        };
        if self.take("-") {
            return Ok(Expr::Minus(Box::new(self.unit(deeper)?)));
        }
        if self.take("(") {
            let inner = self.sum(deeper)?;
            return if self.take(")") { Ok(inner) } else { Err(Error::invalid("a bracket is not closed")) };
        }
        for quote in ["'", "\""] {
            if self.take(quote) {
                let Some((text, after)) = self.rest.split_once(quote).filter(|(t, _)| !t.contains('\\'))
                else {
                    return Err(Error::invalid("a string is not closed, or contains a backslash"));
                };
                self.rest = after;
                return Ok(Expr::Text(text.to_owned()));
            }
        }
        let word = self.word();
        match word.chars().next() {
            Some(c) if c.is_ascii_digit() => word.parse().map(Expr::Int).map_err(|_| overflow()),
            Some(_) if self.take("(") => Ok(Expr::Call(word, self.arguments(deeper)?)),
            Some(_) => Ok(Expr::Name(word)),
            None => Err(Error::invalid("expected a number, a string or a name")),
        }
    }

    fn word(&mut self) -> String {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let word = word.to_owned();
        self.rest = after;
        word
    }

    /// `name=value, …)`
    fn arguments(&mut self, depth: u32) -> Result<Vec<(String, Expr)>> {
        let mut out = Vec::new();
        while !self.take(")") {
            if !out.is_empty() && !self.take(",") {
                return Err(Error::invalid("arguments must be separated by commas"));
            }
            let name = self.word();
            if name.is_empty() || !self.take("=") {
                return Err(Error::invalid("arguments must be given by name: f(name='value')"));
            }
            out.push((name, self.sum(depth)?));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(templates: &[(&str, &str)], text: &str) -> Result<String> {
        let mut all = Templates::default();
        for (name, text) in templates {
            all.add(name, text)?;
        }
        let scope = [("i".to_owned(), TemplateValue::Int(7)), ("j".to_owned(), TemplateValue::Int(-2))];
        all.render(&Template::parse(text)?, &scope)
    }

    #[test]
    fn names_calls_and_sums() {
        let t = [("u", "s3://b/x.nc"), ("f", "s3://{{b}}/{{n}}.nc"), ("g", "{{ f(b='q', n=c) }}?{{u}}")];
        for (text, wanted) in [
            ("plain {x} }} text", "plain {x} }} text"),
            ("{{u}}", "s3://b/x.nc"),
            ("a{{ u }}b{{u}}", "as3://b/x.ncbs3://b/x.nc"),
            ("{{f(b='k', n=3)}}", "s3://k/3.nc"),
            ("{{ f( n = i*2 , b = \"k\" ) }}", "s3://k/14.nc"),
            ("{{ g(c='z') }}", "s3://q/z.nc?s3://b/x.nc"),
            ("{{ 64 + i*80 }}", "624"),
            ("{{ (1 + 2) * -3 }}", "-9"),
            ("{{ i // 2 }} {{ j // 3 }} {{ j % 3 }} {{ i % 3 }} {{ 8/2 }}", "3 -1 1 1 4"),
            ("{{ 'a' + 'b' }}{{ '}}' }}", "ab}}"),
            ("{{ 10 - 3 - 2 }}", "5"),
        ] {
            assert_eq!(rendered(&t, text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_computed_is_refused() {
        let t = [("a", "{{b}}"), ("b", "{{a}}"), ("big", "{{ 99999999999999999999 }}")];
        let deep = format!("{{{{ {}1{} }}}}", "(".repeat(200), ")".repeat(200));
        let long = format!("{{{{ 1{} }}}}", "+1".repeat(10_000));
        for text in [
            "{{ nothing }}",
            "{{ a }}",
            "{{",
            "{{}}",
            "{{ 1 / 0 }}",
            "{{ 7 / 2 }}",
            "{{ 1 % 0 }}",
            "{{ u.__class__ }}",
            "{{ a|upper }}",
            "{{ a['b'] }}",
            "{{ f('positional') }}",
            "{{ 'a' * 3 }}",
            "{{ big * 99999999999999999999 * 99999999999999999999 }}",
            "{{ 170141183460469231731687303715884105727 + 1 }}",
            &deep,
            &long,
        ] {
            assert!(rendered(&t, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_text_cannot_grow_without_end() {
        let mut t = vec![("t0".to_owned(), "x".repeat(1000))];
        for i in 1..20 {
            t.push((format!("t{i}"), format!("{{{{t{0}}}}}{{{{t{0}}}}}", i - 1)));
        }
        let t: Vec<(&str, &str)> = t.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert!(rendered(&t, "{{t19}}").unwrap_err().message().contains("too long"));
    }
}
