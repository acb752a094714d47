//! Coloured output: only on a terminal, and never with `NO_COLOR`, unless asked for.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
pub(crate) use zaro::internal::text::is_safe;
pub(crate) use zaro::internal::text::{cut, plain, plural};
use zaro::meta::Level;

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Even into a pipe
    Always,
    /// Not at all
    Never,
}

/// The ANSI codes of our colours.
const CODES: [&str; 8] = ["0", "1", "2", "1;34", "36", "32", "33", "1;31"];

/// Whether standard output is coloured.
static PAINTED: AtomicBool = AtomicBool::new(false);

/// Whether `text` begins with one of our colour codes and standard output is coloured.
pub(crate) fn is_color(text: &str) -> bool {
    let code = text.strip_prefix("\x1b[").and_then(|rest| rest.split_once('m')).map(|(code, _)| code);
    code.is_some_and(|c| CODES.contains(&c)) && PAINTED.load(Ordering::Relaxed)
}

/// Colours text, or leaves it unchanged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// For standard output.
    pub(crate) fn stdout(color: Color) -> Self {
        let paint = Self::new(color, std::io::stdout().is_terminal());
        PAINTED.fetch_or(paint.on, Ordering::Relaxed);
        paint
    }

    /// For standard error.
    pub(crate) fn stderr(color: Color) -> Self {
        Self::new(color, std::io::stderr().is_terminal())
    }

    fn new(color: Color, terminal: bool) -> Self {
        let unwanted = || {
            std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
                || std::env::var_os("TERM").is_some_and(|v| v == "dumb")
        };
        let on = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !unwanted(),
        };
        Self { on }
    }

    fn code<'a>(self, code: &str, text: &'a str) -> Cow<'a, str> {
        if self.on && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m").into() } else { text.into() }
    }

    /// For names.
    pub(crate) fn bold(self, text: &str) -> Cow<'_, str> {
        self.code("1", text)
    }

    /// For details.
    pub(crate) fn dim(self, text: &str) -> Cow<'_, str> {
        self.code("2", text)
    }

    /// For groups.
    pub(crate) fn blue(self, text: &str) -> Cow<'_, str> {
        self.code("1;34", text)
    }

    /// For data types.
    pub(crate) fn cyan(self, text: &str) -> Cow<'_, str> {
        self.code("36", text)
    }

    /// For success.
    pub(crate) fn green(self, text: &str) -> Cow<'_, str> {
        self.code("32", text)
    }

    /// For warnings.
    pub(crate) fn yellow(self, text: &str) -> Cow<'_, str> {
        self.code("33", text)
    }

    /// For errors.
    pub(crate) fn red(self, text: &str) -> Cow<'_, str> {
        self.code("1;31", text)
    }

    /// A finding on one line: level, place, message and rule.
    pub(crate) fn finding(self, level: Level, place: &str, message: &str, rule: &str) -> String {
        let level = match level {
            Level::Error => self.red("error"),
            Level::Warning => self.yellow("warning"),
        };
        let rule = format!("[{rule}]");
        format!("{level}: {}{} {}\n", plain(place), plain(message), self.dim(&rule))
    }
}
