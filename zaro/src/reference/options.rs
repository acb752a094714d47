//! Options for opening reference stores.

use crate::error::{Error, Result};

/// How references are resolved: base address, target, templates, local files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReferenceOptions {
    /// What relative addresses are relative to. Without it: the place of the references themselves.
    pub root: Option<String>,
    /// The target of references that do not name one.
    pub target: Option<String>,
    /// Values for templates, in place of the document's own.
    pub templates: Vec<(String, String)>,
    /// Allow a remote reference store to refer to local files.
    pub allow_local: bool,
}

impl ReferenceOptions {
    /// With the base of relative addresses.
    #[must_use]
    pub fn with_root(self, root: impl Into<String>) -> Self {
        Self { root: Some(root.into()), ..self }
    }

    /// With the target of references that do not name one.
    #[must_use]
    pub fn with_target(self, target: impl Into<String>) -> Self {
        Self { target: Some(target.into()), ..self }
    }

    /// With a value for a template.
    #[must_use]
    pub fn with_template(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.templates.push((name.into(), value.into()));
        self
    }

    /// Whether a remote reference store may refer to local files.
    #[must_use]
    pub fn with_allow_local(self, allow_local: bool) -> Self {
        Self { allow_local, ..self }
    }

    /// Adds a value for a template, given as `NAME=VALUE`.
    pub fn add_template(&mut self, text: &str) -> Result<()> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                self.templates.push((name.trim().to_owned(), value.to_owned()));
                Ok(())
            }
            _ => Err(Error::usage(format!("{text:?} is not of the form NAME=VALUE"))),
        }
    }
}
