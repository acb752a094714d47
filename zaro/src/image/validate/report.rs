//! Validation reports and findings.

use std::fmt;

use super::{ImageValidateOptions, Judged, text_of};
use crate::error::{Hint, redacted};
use crate::image::version::{ImageVersion, Stated};
use crate::meta::Json;
use crate::meta::path::shown;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingLevel {
    /// The specification allows it, but it is a mistake in practice.
    Lint,
    /// The specification advises against it.
    Should,
    /// The specification forbids it.
    Must,
}

impl FindingLevel {
    /// `MUST`, `SHOULD` or `lint`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Lint => "lint",
            Self::Should => "SHOULD",
            Self::Must => "MUST",
        }
    }
}

impl fmt::Display for FindingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A rule violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFinding {
    /// The rule's id, such as `V7`; see [`RULES`](super::RULES).
    pub rule: &'static str,
    /// Its severity.
    pub level: FindingLevel,
    /// The node, such as `/labels/cells`.
    pub node: String,
    /// The position in its document, such as `ome.multiscales[0].axes[1].unit`; empty for the node itself.
    pub path: String,
    /// The actual value.
    pub found: String,
    /// The expected value.
    pub wanted: String,
    /// How to fix it, if known.
    pub fix: Option<String>,
    /// The operation that fixes it, if there is one.
    pub hint: Option<Hint>,
}

impl ImageFinding {
    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        Json::from([
            ("rule", self.rule.into()),
            ("level", self.level.text().into()),
            ("node", (&self.node).into()),
            ("path", (&self.path).into()),
            ("found", (&self.found).into()),
            ("wanted", (&self.wanted).into()),
            ("fix", self.fix.as_deref().into()),
            ("operation", self.hint.as_ref().and_then(|h| h.operation).into()),
        ])
    }
}

impl fmt::Display for ImageFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.level, self.rule, self.node)?;
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        write!(f, ": found {}; wanted {}", self.found, self.wanted)
    }
}

/// The result of a validation.
#[derive(Debug, Clone)]
pub struct ImageReport {
    /// The version whose rules were applied to the root.
    pub version: ImageVersion,
    /// The version as stated in the document, if any.
    pub stated: Option<String>,
    /// Whether the version was given, not read.
    pub asked: bool,
    /// The number of groups and arrays checked.
    pub nodes: usize,
    /// The findings by node, the most severe first.
    pub findings: Vec<ImageFinding>,
}

impl ImageReport {
    /// The number of findings of `level`.
    #[must_use]
    pub fn count(&self, level: FindingLevel) -> usize {
        self.findings.iter().filter(|f| f.level == level).count()
    }

    /// Whether there are no MUST findings and, if `strict`, no SHOULD findings.
    #[must_use]
    pub fn is_valid(&self, strict: bool) -> bool {
        let limit = if strict { FindingLevel::Should } else { FindingLevel::Must };
        self.findings.iter().all(|f| f.level < limit)
    }

    /// The report of `uri` as JSON; `valid` is the verdict.
    #[must_use]
    pub fn json(&self, uri: &str, valid: bool) -> Json {
        Json::from([
            ("uri", redacted(uri).into_owned().into()),
            ("valid", valid.into()),
            ("version", self.version.to_string().into()),
            ("stated", self.stated.as_deref().into()),
            ("assumed", (self.stated.is_none() && !self.asked).into()),
            ("nodes", self.nodes.into()),
            ("must", self.count(FindingLevel::Must).into()),
            ("should", self.count(FindingLevel::Should).into()),
            ("lint", self.count(FindingLevel::Lint).into()),
            ("findings", self.findings.iter().map(ImageFinding::json).collect()),
        ])
    }

    /// A report with sorted findings: by node, the most severe first, otherwise in document order.
    pub(super) fn new(
        judged: Judged,
        stated: &Stated,
        options: &ImageValidateOptions,
        nodes: usize,
        mut findings: Vec<ImageFinding>,
    ) -> Self {
        findings.sort_by(|a, b| a.node.split('/').cmp(b.node.split('/')).then(b.level.cmp(&a.level)));
        findings.dedup();
        let asked = options.version.is_some();
        Self { version: judged.version, stated: text_of(stated), asked, nodes, findings }
    }
}

/// Collects the findings of one node, with the rules that apply to it.
#[derive(Debug)]
pub(super) struct FindingSink {
    node: String,
    pub(super) judged: Judged,
    pub(super) findings: Vec<ImageFinding>,
}

impl FindingSink {
    /// For the node at `path`.
    pub(super) fn new(path: &str, judged: Judged) -> Self {
        Self { node: shown(path), judged, findings: Vec::new() }
    }

    /// Whether the rules are those of `version` or later.
    pub(super) fn since(&self, version: ImageVersion) -> bool {
        self.judged.version >= version
    }

    pub(super) fn add(
        &mut self,
        rule: &'static str,
        level: FindingLevel,
        place: impl Into<String>,
        found: impl Into<String>,
        wanted: impl Into<String>,
    ) {
        let (node, path, found, wanted) = (self.node.clone(), place.into(), found.into(), wanted.into());
        self.findings.push(ImageFinding { rule, level, node, path, found, wanted, fix: None, hint: None });
    }

    /// Adds a fix to the last finding.
    pub(super) fn fix(&mut self, how: impl Into<String>) {
        if let Some(last) = self.findings.last_mut() {
            last.fix = Some(how.into());
        }
    }

    /// Adds the operation that fixes the last finding.
    pub(super) fn mend(&mut self, operation: &'static str, does: &'static str) {
        self.mend_by(Hint::operation(operation, does));
    }

    pub(super) fn mend_by(&mut self, hint: Hint) {
        if let Some(last) = self.findings.last_mut() {
            last.hint = Some(hint);
        }
    }

    /// Adds a finding for an invalid value.
    pub(super) fn wrong(&mut self, rule: &'static str, spot: &Spot<'_>, wanted: impl Into<String>) {
        self.must(rule, spot, spot.show(), wanted);
    }

    /// Whether the value is an object; otherwise adds a finding.
    pub(super) fn object(&mut self, rule: &'static str, spot: &Spot<'_>, wanted: &str) -> bool {
        let is_object = spot.members().is_some();
        if !is_object {
            self.wrong(rule, spot, wanted);
        }
        is_object
    }

    /// The value as a string; otherwise adds a finding.
    pub(super) fn text<'a>(
        &mut self,
        rule: &'static str,
        spot: &Spot<'a>,
        wanted: impl Into<String>,
    ) -> Option<&'a str> {
        let text = spot.text();
        if text.is_none() {
            self.wrong(rule, spot, wanted);
        }
        text
    }

    /// The items of a list; otherwise adds a finding.
    pub(super) fn items<'a>(
        &mut self,
        rule: &'static str,
        spot: &Spot<'a>,
        wanted: impl Into<String>,
    ) -> Option<Vec<Spot<'a>>> {
        if spot.items().is_none() {
            self.wrong(rule, spot, wanted);
        }
        Some(spot.items()?.iter().enumerate().map(|(i, item)| Spot::new(item, nth(&spot.place, i))).collect())
    }

    /// The items of a nonempty list; otherwise adds a finding.
    pub(super) fn some<'a>(
        &mut self,
        rule: &'static str,
        spot: &Spot<'a>,
        wanted: impl Into<String>,
    ) -> Option<Vec<Spot<'a>>> {
        let wanted = wanted.into();
        match spot.items() {
            Some([]) => {
                self.wrong(rule, spot, wanted);
                None
            }
            _ => self.items(rule, spot, wanted),
        }
    }

    /// Checks the types of optional members.
    pub(super) fn typed(
        &mut self,
        rule: &'static str,
        level: FindingLevel,
        spot: &Spot<'_>,
        types: &[(&str, Type)],
    ) {
        for (name, Type(is_right, wanted)) in types {
            let member = spot.get(name);
            if member.json.is_some_and(|value| !is_right(value)) {
                self.add(rule, level, &member, member.show(), *wanted);
            }
        }
    }
}

macro_rules! levels {
    ($($name:ident $level:ident),*) => {
        impl FindingSink {
            $(pub(super) fn $name(
                &mut self,
                rule: &'static str,
                place: impl Into<String>,
                found: impl Into<String>,
                wanted: impl Into<String>,
            ) {
                self.add(rule, FindingLevel::$level, place, found, wanted);
            })*
        }
    };
}
levels!(must Must, should Should, lint Lint);

/// The expected type of a member: a check and a description.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type(pub(super) fn(&Json) -> bool, pub(super) &'static str);

pub(super) const STRING: Type = Type(|v| v.as_str().is_some(), "a string");
pub(super) const OBJECT: Type = Type(|v| v.members().is_some(), "an object");
pub(super) const BOOL: Type = Type(|v| v.as_bool().is_some(), "true or false");

/// A value in a document, or its absence, and its position.
#[derive(Debug, Clone)]
pub(super) struct Spot<'a> {
    pub(super) json: Option<&'a Json>,
    pub(super) place: String,
}

impl<'a> Spot<'a> {
    pub(super) fn new(json: impl Into<Option<&'a Json>>, place: impl Into<String>) -> Self {
        Self { json: json.into(), place: place.into() }
    }

    pub(super) fn get(&self, name: &str) -> Self {
        Self::new(self.json.and_then(|j| j.get(name)), at(&self.place, name))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.json.is_some_and(|j| j.get(name).is_some())
    }

    pub(super) fn is_some(&self) -> bool {
        self.json.is_some()
    }

    pub(super) fn members(&self) -> Option<&'a [(String, Json)]> {
        self.json.and_then(Json::members)
    }

    pub(super) fn items(&self) -> Option<&'a [Json]> {
        self.json.and_then(Json::items)
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        self.json.and_then(Json::as_str)
    }

    pub(super) fn number(&self) -> Option<f64> {
        self.json.and_then(Json::as_f64)
    }

    pub(super) fn numbers(&self) -> Option<Vec<f64>> {
        self.items()?.iter().map(Json::as_f64).collect()
    }

    /// The value for a message, truncated if it is long.
    pub(super) fn show(&self) -> String {
        self.json.map_or_else(|| "nothing".to_owned(), show)
    }
}

impl From<&Spot<'_>> for String {
    fn from(spot: &Spot<'_>) -> Self {
        spot.place.clone()
    }
}

/// `base.name`, or `name` at the top.
pub(super) fn at(base: &str, name: &str) -> String {
    if base.is_empty() { name.to_owned() } else { format!("{base}.{name}") }
}

/// `base[i]`.
pub(super) fn nth(base: &str, i: usize) -> String {
    format!("{base}[{i}]")
}

/// A value for a message, truncated if it is long.
pub(super) fn show(json: &Json) -> String {
    cut(&json.to_string())
}

/// A text, truncated if it is long.
pub(super) fn cut(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let start: String = text.chars().take(MOST - 1).collect();
    format!("{start}…")
}

/// A list of names in quotes.
pub(super) fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = names.into_iter().map(|n| format!("{:?}", n.as_ref())).collect();
    cut(&all.join(", "))
}
