//! A folder as a page. Five programs read such pages, each with patterns of its own, so that the form is a contract: the
//! title on a line of its own, one table, a row a line, an entry exactly `<a href="NAME">`, relative and
//! percent-encoded; any other link an absolute path after a class. None of them follows pages, so that it is complete.

use std::fmt::Write as _;
use std::time::SystemTime;

use super::pipe::Form;
use super::rows::Row;
use super::{date, push_escaped};
use crate::path::encode;

/// The page of the folder at a path of this server.
pub(super) fn form(path: &str) -> Form {
    Form { before: head(path), row: Box::new(push_row), after: TAIL.to_owned() }
}

/// The page of these rows, and links to `places` elsewhere on this server: a path and a name each.
pub(super) fn page(path: &str, rows: &[Row], places: &[(String, String)]) -> String {
    let mut out = head(path);
    for row in rows {
        push_row(row, &mut out);
    }
    out.push_str(TABLE_END);
    for (place, name) in places {
        out.push_str("<p><a class=\"source\" href=\"");
        let _ = write!(out, "{}\">", encode(place));
        push_escaped(&mut out, name);
        out.push_str("</a>\n");
    }
    out.push_str(PAGE_END);
    out
}

const TABLE_END: &str = "</table>\n";
const PAGE_END: &str = "</body>\n</html>\n";
const TAIL: &str = "</table>\n</body>\n</html>\n";

fn head(path: &str) -> String {
    let mut title = String::new();
    push_escaped(&mut title, path);
    let up = if path == "/" { "" } else { "<tr><td><a href=\"../\">../</a>\n" };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Index of {title}</title>\n\
         </head>\n<body>\n<h1>Index of {title}</h1>\n<table>\n{up}"
    )
}

fn push_row(row: &Row, out: &mut String) {
    let slash = if row.folder { "/" } else { "" };
    let _ = write!(out, "<tr><td><a href=\"{}{slash}\">", encode(&row.path));
    push_escaped(out, &row.path);
    let _ = write!(out, "{slash}</a>");
    if let Some(modified) = row.modified() {
        out.push_str("<td>");
        push_date(out, modified);
    }
    if let Some(size) = row.size() {
        // The size is in the third column, whether there is a date or not.
        let _ = write!(out, "{}<td>{size}", if row.modified().is_none() { "<td>" } else { "" });
    }
    out.push('\n');
}

/// `01-May-2024 12:00`, as web servers write it.
fn push_date(out: &mut String, time: SystemTime) {
    let text = date(time);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let _ = write!(out, "{}-{}-{} {}", part(5..7), part(8..11), part(12..16), part(17..22));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};
    use zaro::store::RemoteMeta;

    fn written(path: &str, meta: RemoteMeta) -> String {
        let mut out = String::new();
        push_row(&Row { path: path.to_owned(), folder: false, meta: meta.into() }, &mut out);
        out
    }

    #[test]
    fn rows_are_lines_that_programs_can_read() {
        let odd = written("a \"<&'>#?%+é:", RemoteMeta::default());
        let (link, text) = odd.split_once("\">").unwrap();
        assert_eq!(link, "<tr><td><a href=\"a%20%22%3C%26%27%3E%23%3F%25%2B%C3%A9%3A");
        assert_eq!(text, "a &quot;&lt;&amp;&#39;&gt;#?%+é:</a>\n");
        let known = RemoteMeta { modified: Some(1_714_564_800), size: Some(12), ..RemoteMeta::default() };
        let row = written("c.0.0.0", known);
        assert_eq!(row, "<tr><td><a href=\"c.0.0.0\">c.0.0.0</a><td>01-May-2024 12:00<td>12\n");
        let size = RemoteMeta { size: Some(7), ..RemoteMeta::default() };
        assert_eq!(written("a", size), "<tr><td><a href=\"a\">a</a><td><td>7\n");
    }

    #[test]
    fn rows_are_short() {
        let known =
            RemoteMeta { modified: Some(1_714_564_800), size: Some(1 << 40), ..RemoteMeta::default() };
        assert!(written("c.1234.1234.1234.12345", known).len() <= 120);
    }

    #[test]
    fn dates_out_of_range_are_no_reason_to_fail() {
        for seconds in [0, u64::MAX / 4] {
            let mut out = String::new();
            if let Some(time) = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)) {
                push_date(&mut out, time);
                assert_eq!(out.len(), 17, "{out}");
            }
        }
    }

    #[test]
    fn a_page_says_what_it_is_on_a_line() {
        let page = page("/a&<b>/", &[Row::folder("x".to_owned())], &[]);
        assert!(page.lines().any(|line| line == "<title>Index of /a&amp;&lt;b&gt;/</title>"), "{page}");
        assert_eq!((page.matches("<table").count(), page.matches("href").count()), (1, 2));
        assert!(page.contains("<a href=\"x/\">x/</a>\n") && page.ends_with("</html>\n"));
    }
}
