//! The error type of zaro.
//!
//! An [`Error`] has a [`kind`](Error::kind) — a stable name, the same in the library, as a CLI exit code, an HTTP
//! status, an R condition and a Python exception — a message, and its context: store, key, node and metadata field. A
//! missing object is *not* an error below the level of "open": stores return `Ok(None)`.

mod redact;

use std::borrow::Cow;
use std::fmt;

pub use redact::redacted;
use redact::redacted_key;

/// The result of every fallible operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an [`Error`]. The names are stable; see [`ErrorKind::as_str`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid (a bad selection, an unknown option).
    Usage,
    /// Not found.
    NotFound,
    /// The data or metadata violates the specification, or is damaged.
    Invalid,
    /// Valid, but not supported by zaro (an unknown codec, a pickle).
    Unsupported,
    /// The store could not be read: disk, network, timeout, server fault.
    Io,
    /// The store refused access: credentials, permissions, or a restriction of zaro itself.
    NotPermitted,
    /// Somebody else changed what was about to be replaced, or what was being read. Nothing of theirs was lost, nothing
    /// of ours was written, and no two states were mixed.
    Conflict,
    /// The caller cancelled the operation.
    Cancelled,
}

impl ErrorKind {
    /// The stable name of this kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::NotFound => "not-found",
            Self::Invalid => "invalid",
            Self::Unsupported => "unsupported",
            Self::Io => "io",
            Self::NotPermitted => "not-permitted",
            Self::Conflict => "conflict",
            Self::Cancelled => "cancelled",
        }
    }

    /// The exit code of the command line for this kind.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Invalid => 4,
            Self::Unsupported => 5,
            Self::Io | Self::Conflict | Self::Cancelled => 6,
            Self::NotPermitted => 7,
        }
    }

    /// The HTTP status for this kind.
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::Usage => 400,
            Self::NotPermitted => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Invalid => 422,
            // What nginx uses for a client that closed the request.
            Self::Cancelled => 499,
            Self::Unsupported => 501,
            Self::Io => 502,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the caller can do about an error: an option of the operation, or another operation. Each interface of the
/// library names these in its own way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Another operation, such as `copy` or `image upgrade`; `None` for the one that failed.
    pub operation: Option<&'static str>,
    /// The option's name in the library, such as `allow_missing`.
    pub option: Option<&'static str>,
    /// The value to set, if it is not obvious.
    pub value: Option<String>,
    /// What it does, such as `makes them zeros`.
    pub does: &'static str,
}

impl Hint {
    /// An option of the operation that failed.
    #[must_use]
    pub fn option(option: &'static str, does: &'static str) -> Self {
        Self { operation: None, option: Some(option), value: None, does }
    }

    /// Another operation.
    #[must_use]
    pub fn operation(operation: &'static str, does: &'static str) -> Self {
        Self { operation: Some(operation), option: None, value: None, does }
    }

    /// The same with an option.
    #[must_use]
    pub fn with(mut self, option: &'static str) -> Self {
        self.option = Some(option);
        self
    }

    /// The same with the option set to `value`.
    #[must_use]
    pub fn set_to(mut self, value: impl fmt::Display) -> Self {
        self.value = Some(value.to_string());
        self
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = self.operation {
            write!(f, "operation {operation}{}", if self.option.is_some() { " with " } else { "" })?;
        }
        if let Some(option) = self.option {
            write!(f, "option {option}")?;
        }
        if let Some(value) = &self.value {
            write!(f, " {value}")?;
        }
        write!(f, " {}", self.does)
    }
}

/// A text for display, without secrets in URIs.
fn shown(text: String) -> String {
    match redacted(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(redacted) => redacted,
    }
}

/// An error with its kind and context. It contains no secrets of URIs: see [`redacted`]. One pointer wide, so `Result`s
/// stay small.
pub struct Error(Box<ErrorInner>);

struct ErrorInner {
    kind: ErrorKind,
    message: String,
    store: Option<String>,
    node: Option<String>,
    key: Option<String>,
    field: Option<String>,
    hints: Vec<Hint>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorInner {
            kind,
            message: shown(message.into()),
            store: None,
            node: None,
            key: None,
            field: None,
            hints: Vec::new(),
            source: None,
        }))
    }

    /// [`ErrorKind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// For operations that need a feature that was not compiled in.
    #[allow(dead_code, reason = "with all features there is nothing to say it of")]
    pub(crate) fn without(feature: &str) -> Self {
        Self::unsupported(format!("this zaro was built without the feature {feature:?}"))
    }

    /// [`ErrorKind::Io`].
    pub fn io(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Io, message)
    }

    /// [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// [`ErrorKind::NotPermitted`].
    pub fn not_permitted(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotPermitted, message)
    }

    /// [`ErrorKind::Cancelled`].
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "stopped by the caller")
    }

    /// Adds the underlying cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Sets the store, unless already set (the innermost context wins).
    #[must_use]
    pub fn with_store(mut self, store: impl fmt::Display) -> Self {
        self.0.store.get_or_insert_with(|| shown(store.to_string()));
        self
    }

    /// Sets the node (a path such as `/a/b`), unless already set.
    #[must_use]
    pub fn with_node(mut self, node: impl fmt::Display) -> Self {
        self.0.node.get_or_insert_with(|| node.to_string());
        self
    }

    /// Sets the key, unless already set.
    #[must_use]
    pub fn with_key(mut self, key: impl fmt::Display) -> Self {
        if self.0.key.is_none() {
            self.0.key = Some(redacted_key(&key.to_string()).into_owned()).filter(|k| !k.is_empty());
        }
        self
    }

    /// Sets the metadata field (a path such as `codecs[0].configuration.level`), unless already set.
    #[must_use]
    pub fn with_field(mut self, field: impl fmt::Display) -> Self {
        if self.0.field.is_none() {
            self.0.field = Some(field.to_string()).filter(|f| !f.is_empty());
        }
        self
    }

    /// Adds an option as a hint, unless there is a hint already.
    #[must_use]
    pub fn with_hint(mut self, option: &'static str, does: &'static str) -> Self {
        if self.0.hints.is_empty() {
            self.0.hints.push(Hint::option(option, does));
        }
        self
    }

    /// Adds another hint.
    #[must_use]
    pub fn or_hint(mut self, hint: Hint) -> Self {
        self.0.hints.push(hint);
        self
    }

    /// Replaces key and store: a failure elsewhere is reported as one here. The message has to name the old ones.
    #[must_use]
    pub(crate) fn moved_to(mut self, key: &str, store: impl fmt::Display) -> Self {
        self.0.key = Some(redacted_key(key).into_owned());
        self.0.store = Some(shown(store.to_string()));
        self
    }

    /// Prepends `prefix: ` to the message; used to name the codec, for example.
    #[must_use]
    pub fn within(mut self, prefix: impl fmt::Display) -> Self {
        self.0.message = shown(format!("{prefix}: {}", self.0.message));
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether this means that something does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
    }

    /// The message alone, without context.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> Option<&str> {
        self.0.store.as_deref()
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.0.node.as_deref()
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Hints: any one of them helps.
    #[must_use]
    pub fn hints(&self) -> &[Hint] {
        &self.0.hints
    }

    /// The metadata field.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }
}

/// With `{:#}`, without the hints.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = &*self.0;
        for (word, place) in [("", &i.store), ("node ", &i.node), ("key ", &i.key), ("field ", &i.field)] {
            if let Some(p) = place {
                write!(f, "{word}{p}: ")?;
            }
        }
        f.write_str(&i.message)?;
        let mut cause = std::error::Error::source(self);
        let mut said = i.message.clone();
        while let Some(c) = cause {
            // Many libraries repeat their cause in their own text; once is enough.
            let text = shown(c.to_string());
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said.push_str(&text);
            }
            cause = c.source();
        }
        if f.alternate() {
            return Ok(());
        }
        for (n, hint) in i.hints.iter().enumerate() {
            write!(f, "{}{hint}", if n == 0 { "; " } else { ", or " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        let kind = match e.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::NotPermitted,
            _ => ErrorKind::Io,
        };
        Self::new(kind, e.to_string()).with_source(e)
    }
}

/// `invalid!("{n} bytes")` is `Error::invalid(format!("{n} bytes"))`, and so are the others.
macro_rules! invalid {
    ($($message:tt)*) => { $crate::error::Error::invalid(format!($($message)*)) };
}

macro_rules! io {
    ($($message:tt)*) => { $crate::error::Error::io(format!($($message)*)) };
}

macro_rules! not_found {
    ($($message:tt)*) => { $crate::error::Error::not_found(format!($($message)*)) };
}

macro_rules! unsupported {
    ($($message:tt)*) => { $crate::error::Error::unsupported(format!($($message)*)) };
}

macro_rules! usage {
    ($($message:tt)*) => { $crate::error::Error::usage(format!($($message)*)) };
}

pub(crate) use {invalid, io, not_found, unsupported, usage};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_place_wins_and_reads_outside_in() {
        let e = Error::invalid("checksum differs").with_key("a/c/0").with_key("b").with_node("/a");
        assert_eq!(e.to_string(), "node /a: key a/c/0: checksum differs");
        assert_eq!((e.kind().exit_code(), e.kind().http_status()), (4, 422));
    }

    #[test]
    fn a_hint_comes_last_and_can_be_left_to_the_face() {
        let e = Error::usage("there is an array here already").with_hint("overwrite", "replaces it");
        let e = e.with_store("a.zarr");
        assert_eq!(e.to_string(), "a.zarr: there is an array here already; option overwrite replaces it");
        assert_eq!(format!("{e:#}"), "a.zarr: there is an array here already");
        let e = Error::usage("small").or_hint(Hint::option("memory", "is enough").set_to("8M"));
        let e = e.or_hint(Hint::operation("copy", "makes larger ones").with("chunks"));
        let said =
            "small; option memory 8M is enough, or operation copy with option chunks makes larger ones";
        assert_eq!(e.to_string(), said);
    }
}
