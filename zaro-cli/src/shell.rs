//! Quoting of command lines that can be pasted into a shell.

use zaro::internal::path::shown;

use crate::paint::{Paint, is_safe};

/// Quotes a word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:@%+=".contains(c);
    // A word that begins so may be an assignment, or a folder of the user's.
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with(['=', '%']) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The command line `zaro COMMAND URI PATH MORE`, with the store options. `None` if a name in it has characters that
/// cannot be shown: a line with them escaped would not work, or do something else.
pub(crate) fn line(
    command: &[&str],
    uri: &str,
    path: &str,
    more: &[&str],
    reached_by: &[String],
) -> Option<String> {
    // A name that begins like an option.
    let uri = if uri.starts_with('-') { format!("./{uri}") } else { uri.to_owned() };
    let path = if path.starts_with('-') { format!("/{path}") } else { path.to_owned() };
    let mut words = vec!["zaro"];
    words.extend(command);
    words.push(&uri);
    if !path.is_empty() {
        words.push(&path);
    }
    words.extend(more);
    words.extend(reached_by.iter().map(String::as_str));
    let shown = words.iter().all(|w| w.chars().all(is_safe));
    shown.then(|| words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" "))
}

/// The node at `path` of the Zarr at `uri`, for people.
pub(crate) fn place(uri: &str, path: &str) -> String {
    if path.is_empty() { uri.to_owned() } else { format!("{uri} {}", shown(path)) }
}

/// What to do next: command lines that can be pasted. Nothing if one of them cannot be shown.
pub(crate) fn hint(lines: impl Iterator<Item = Option<String>>, paint: Paint) -> String {
    match lines.collect::<Option<Vec<_>>>() {
        Some(lines) if !lines.is_empty() => {
            format!("{}\n", paint.dim(&format!("try: {}", lines.join("\n     "))))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        for (word, wanted) in [
            ("data.zarr", "data.zarr"),
            ("s3://b/a_b-c", "s3://b/a_b-c"),
            ("", "''"),
            ("a b", "'a b'"),
            ("x; touch y", "'x; touch y'"),
            ("$(x)", "'$(x)'"),
            ("it's", "'it'\\''s'"),
            ("~", "'~'"),
            ("é", "'é'"),
        ] {
            assert_eq!(quoted(word), wanted);
        }
        let reached_by = ["--objects".to_owned(), "s3://b/a b".to_owned()];
        let found = line(&["read"], "-x.zarr", "-a", &["-o", "p.png"], &reached_by);
        assert_eq!(found.unwrap(), "zaro read ./-x.zarr /-a -o p.png --objects 's3://b/a b'");
        assert_eq!(line(&["read"], "x\u{202e}.zarr", "", &[], &[]), None);
    }
}
