//! What validation found.

use std::fmt;

use crate::error::redacted;
use crate::image::version::Version;
use crate::meta::Json;
use crate::meta::path::shown;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The specification allows it, and it is a mistake in practice.
    Lint,
    /// The specification advises against it.
    Should,
    /// The specification forbids it.
    Must,
}

impl Level {
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

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's id, such as `V7`; see [`RULES`](super::RULES).
    pub rule: &'static str,
    /// How grave it is.
    pub level: Level,
    /// The node, such as `/labels/cells`.
    pub node: String,
    /// Where in its document, such as `ome.multiscales[0].axes[1].unit`; empty for the node itself.
    pub path: String,
    /// What is there.
    pub found: String,
    /// What should be.
    pub wanted: String,
    /// How to mend it, where there is a way.
    pub fix: Option<String>,
}

impl Finding {
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
        ])
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.level, self.rule, self.node)?;
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        write!(f, ": found {}; wanted {}", self.found, self.wanted)
    }
}

/// Everything that validation has to say.
#[derive(Debug, Clone)]
pub struct Report {
    /// The version whose rules were applied to the top.
    pub version: Version,
    /// The version as the document has it, if it states one.
    pub stated: Option<String>,
    /// Whether the version was asked for, not read.
    pub asked: bool,
    /// How many groups and arrays were looked at.
    pub nodes: usize,
    /// What was found: by node, what is grave first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// How many findings are of `level`.
    #[must_use]
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|f| f.level == level).count()
    }

    /// Whether nothing that counts was found: rules that MUST hold, and, if `strict`, those that SHOULD.
    #[must_use]
    pub fn is_valid(&self, strict: bool) -> bool {
        let limit = if strict { Level::Should } else { Level::Must };
        self.findings.iter().all(|f| f.level < limit)
    }

    /// As JSON, of what is at `uri` and is judged valid or not.
    #[must_use]
    pub fn json(&self, uri: &str, valid: bool) -> Json {
        Json::from([
            ("uri", redacted(uri).into_owned().into()),
            ("valid", valid.into()),
            ("version", self.version.to_string().into()),
            ("stated", self.stated.as_deref().into()),
            ("assumed", (self.stated.is_none() && !self.asked).into()),
            ("nodes", self.nodes.into()),
            ("must", self.count(Level::Must).into()),
            ("should", self.count(Level::Should).into()),
            ("lint", self.count(Level::Lint).into()),
            ("findings", self.findings.iter().map(Finding::json).collect()),
        ])
    }

    /// Puts the findings in order: by node, the grave ones first, else in the order of the documents.
    pub(crate) fn sort(&mut self) {
        self.findings.sort_by(|a, b| a.node.split('/').cmp(b.node.split('/')).then(b.level.cmp(&a.level)));
        self.findings.dedup();
    }
}

/// Where the findings of one node go.
#[derive(Debug)]
pub(super) struct Sink {
    node: String,
    pub(super) findings: Vec<Finding>,
}

impl Sink {
    /// For the node at the key form `path`.
    pub(super) fn new(path: &str) -> Self {
        Self { node: shown(path), findings: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        rule: &'static str,
        level: Level,
        path: impl Into<String>,
        found: impl Into<String>,
        wanted: impl Into<String>,
    ) {
        self.findings.push(Finding {
            rule,
            level,
            node: self.node.clone(),
            path: path.into(),
            found: found.into(),
            wanted: wanted.into(),
            fix: None,
        });
    }

    pub(super) fn must(
        &mut self,
        rule: &'static str,
        path: impl Into<String>,
        found: impl Into<String>,
        wanted: impl Into<String>,
    ) {
        self.add(rule, Level::Must, path, found, wanted);
    }

    pub(super) fn should(
        &mut self,
        rule: &'static str,
        path: impl Into<String>,
        found: impl Into<String>,
        wanted: impl Into<String>,
    ) {
        self.add(rule, Level::Should, path, found, wanted);
    }

    pub(super) fn lint(
        &mut self,
        rule: &'static str,
        path: impl Into<String>,
        found: impl Into<String>,
        wanted: impl Into<String>,
    ) {
        self.add(rule, Level::Lint, path, found, wanted);
    }

    /// How the last finding is mended.
    pub(super) fn fix(&mut self, how: impl Into<String>) {
        if let Some(last) = self.findings.last_mut() {
            last.fix = Some(how.into());
        }
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

/// A value for a message: its text, cut if it is long.
pub(super) fn show(json: &Json) -> String {
    cut(&json.to_string())
}

/// The same of a value that may be missing.
pub(super) fn show_or(json: Option<&Json>) -> String {
    json.map_or_else(|| "nothing".to_owned(), show)
}

/// A text, cut if it is long.
pub(super) fn cut(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let start: String = text.chars().take(MOST - 1).collect();
    format!("{start}…")
}

/// `1 level`, `2 levels`.
pub(super) fn plural(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// A list of names in quotes.
pub(super) fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = names.into_iter().map(|n| format!("{:?}", n.as_ref())).collect();
    cut(&all.join(", "))
}
