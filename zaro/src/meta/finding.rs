//! Findings: deviations from the specification, noted by the tolerant reader, errors for the strict one.

use std::fmt;

use super::json::Json;
use crate::error::{Error, Result};

/// How metadata are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Accept deviations that occur in practice, and note each as a finding.
    #[default]
    Tolerant,
    /// Follow the specification to the letter: the first deviation is an error.
    Strict,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Breaks a rule, but the meaning is unambiguous.
    Warning,
    /// Breaks a rule in a way that makes the node unreadable, or its content doubtful.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's stable name, such as `v3/fill-value`.
    pub rule: &'static str,
    /// Its severity.
    pub level: Level,
    /// The node's path, such as `/a/b`.
    pub node: String,
    /// Where in the document, such as `codecs[0].configuration.level`.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl Finding {
    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        Json::from([
            ("rule", self.rule.into()),
            ("level", self.level.to_string().into()),
            ("node", (&self.node).into()),
            ("field", (&self.field).into()),
            ("message", (&self.message).into()),
        ])
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.level, self.node)?;
        if !self.field.is_empty() {
            write!(f, " {}", self.field)?;
        }
        write!(f, ": {} [{}]", self.message, self.rule)
    }
}

/// The findings of one reading.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    mode: Mode,
    node: String,
    list: Vec<Finding>,
}

impl Findings {
    /// For reading the document of `node` in `mode`.
    pub fn new(mode: Mode, node: impl Into<String>) -> Self {
        Self { mode, node: node.into(), list: Vec::new() }
    }

    /// Whether the reading is strict.
    #[must_use]
    pub fn strict(&self) -> bool {
        self.mode == Mode::Strict
    }

    /// Notes a deviation from `rule` at `field`, or fails if the reading is strict.
    pub fn deviation(&mut self, rule: &'static str, field: &str, message: impl Into<String>) -> Result<()> {
        let message = message.into();
        if self.strict() {
            return Err(Error::invalid(message).with_field(field));
        }
        self.list.push(Finding {
            rule,
            level: Level::Warning,
            node: self.node.clone(),
            field: field.to_owned(),
            message,
        });
        Ok(())
    }

    /// Notes that `wrong` was tolerated, and how it was read; a strict reading fails with `wrong`.
    pub fn tolerated(&mut self, rule: &'static str, field: &str, wrong: &str, read: &str) -> Result<()> {
        let message = if self.strict() { wrong.to_owned() } else { format!("{wrong}; {read}") };
        self.deviation(rule, field, message)
    }

    /// The findings so far.
    #[must_use]
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    /// The findings, taken out.
    #[must_use]
    pub fn into_list(self) -> Vec<Finding> {
        self.list
    }
}
