//! Parsing index pages of plain web servers: nginx (HTML and JSON), Apache, Python's `http.server`, Caddy and similar.
//!
//! A page counts as an index only if it says so ("Index of …", "Directory listing for …") or is a JSON list of entries.
//! Only links one level below the page count; sort links, the parent and links elsewhere are ignored. A page that is
//! truncated, or leads to a next one, is incomplete: that is an error.
//!
//! nginx and Apache omit names that begin with a dot, so a listing may lack `.zarray` and the like although they can be
//! read.

use url::Url;

use super::{Listing, percent_decode};
use crate::error::{Error, Result};

/// How much of a page is searched for the text that makes it an index.
const HEAD: usize = 16 << 10;

/// Query parameters that lead to another page of the same listing.
const NEXT: [&str; 8] = ["page", "offset", "start", "marker", "next", "cursor", "token", "from"];

/// The entries of the index `page` at the URL `at`; `None` if it is not an index.
pub(super) fn parse(page: &[u8], at: &Url) -> Result<Option<Listing>> {
    let text = String::from_utf8_lossy(page);
    let mut out = Listing::default();
    let entries = match text.trim_start().bytes().next() {
        Some(b'[') => json_entries(text.trim()),
        Some(b'{') => json_names(text.trim()),
        _ => html_entries(&text, at)?,
    };
    let Some(entries) = entries else { return Ok(None) };
    for (name, folder) in entries {
        if is_name(&name) {
            if folder { &mut out.prefixes } else { &mut out.objects }.push(name);
        }
    }
    for names in [&mut out.objects, &mut out.prefixes] {
        names.sort();
        names.dedup();
    }
    Ok(Some(out))
}

/// Whether a name can be one segment of a key.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

fn html_entries(page: &str, at: &Url) -> Result<Option<Vec<(String, bool)>>> {
    let mut end = HEAD.min(page.len());
    while !page.is_char_boundary(end) {
        end -= 1;
    }
    let head = page.get(..end).unwrap_or_default().to_ascii_lowercase();
    if !["index of", "directory listing"].iter().any(|words| head.contains(words)) {
        return Ok(None);
    }
    if head.contains("<html") && page.to_ascii_lowercase_find("</html").is_none() {
        return Err(Error::unsupported("the server's index page is truncated"));
    }
    let folder = at.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut out = Vec::new();
    for href in hrefs(page) {
        let href = unescape(href);
        if let Some(query) = href.strip_prefix('?') {
            let names = query.split(['&', ';']).filter_map(|part| part.split('=').next());
            if names.into_iter().any(|name| NEXT.iter().any(|next| next.eq_ignore_ascii_case(name))) {
                return Err(Error::unsupported("the server's index has more than one page"));
            }
            continue;
        }
        if href.starts_with('#') {
            continue;
        }
        let Ok(url) = at.join(&href) else { continue };
        if url.origin() != at.origin() {
            continue;
        }
        let below = url.path().strip_prefix(folder).and_then(|p| p.strip_prefix('/'));
        let Some(step) = below else { continue };
        let (step, is_folder) = step.strip_suffix('/').map_or((step, false), |s| (s, true));
        if let Some(name) = percent_decode(step).filter(|_| !step.contains('/')) {
            out.push((name, is_folder));
        }
    }
    Ok(Some(out))
}

/// The values of all `href` attributes, as written.
fn hrefs(page: &str) -> impl Iterator<Item = &str> {
    let mut rest = page;
    std::iter::from_fn(move || {
        loop {
            let at = rest.to_ascii_lowercase_find("href")?;
            let after = rest.get(at + 4..)?;
            rest = after;
            let Some(value) = after.trim_start().strip_prefix('=') else { continue };
            let value = value.trim_start();
            // The search continues after the value, so that no part of the page is scanned twice.
            let (found, behind) = match value.chars().next()? {
                quote @ ('"' | '\'') => value.get(1..)?.split_once(quote)?,
                _ => {
                    let end = value.find(|c: char| c.is_ascii_whitespace() || c == '>');
                    value.split_at_checked(end.unwrap_or(value.len()))?
                }
            };
            rest = behind;
            return Some(found);
        }
    })
}

/// Case-insensitive search.
trait FindWord {
    fn to_ascii_lowercase_find(&self, word: &str) -> Option<usize>;
}

impl FindWord for str {
    fn to_ascii_lowercase_find(&self, word: &str) -> Option<usize> {
        self.as_bytes().windows(word.len()).position(|w| w.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// Unescapes the text of an HTML attribute.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        // Entities are short: a page of lone ampersands is not scanned to its end for each of them.
        let end = after.bytes().take(9).position(|b| b == b';');
        let entity = end.and_then(|at| Some((after.get(..at)?, after.get(at + 1..)?)));
        let known = entity.and_then(|(name, tail)| {
            let c = match name {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                _ => {
                    let code = name.strip_prefix('#')?;
                    let hex = code.strip_prefix(['x', 'X']);
                    let number = hex.map_or_else(|| code.parse(), |h| u32::from_str_radix(h, 16));
                    char::from_u32(number.ok()?)?
                }
            };
            Some((c, tail))
        });
        match known {
            Some((c, tail)) => {
                out.push(c);
                rest = tail;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The entries of a JSON list of objects with a `name` and a `type` (nginx) or `is_dir` (Caddy).
fn json_entries(text: &str) -> Option<Vec<(String, bool)>> {
    let mut json = FlatJson { rest: text };
    let mut out = Vec::new();
    json.eat('[')?;
    if json.eat(']').is_some() {
        return Some(out);
    }
    loop {
        json.eat('{')?;
        let (mut name, mut folder) = (None, false);
        while json.eat('}').is_none() {
            let key = json.string()?;
            json.eat(':')?;
            let value = json.scalar()?;
            match key.as_str() {
                "name" => name = Some(value),
                "type" => folder |= value == "directory",
                "is_dir" => folder |= value == "true",
                _ => {}
            }
            let _ = json.eat(',');
        }
        let name = name?;
        match name.strip_suffix('/') {
            Some(bare) => out.push((bare.to_owned(), true)),
            None => out.push((name, folder)),
        }
        if json.eat(',').is_none() {
            json.eat(']')?;
            return json.rest.trim().is_empty().then_some(out);
        }
    }
}

/// The names in `{"files": […], "directories": […]}`, as servers of manifests have it; other members that are plain are
/// skipped.
fn json_names(text: &str) -> Option<Vec<(String, bool)>> {
    let mut json = FlatJson { rest: text };
    let (mut out, mut lists) = (Vec::new(), 0);
    json.eat('{')?;
    while json.eat('}').is_none() {
        let member = json.string()?;
        json.eat(':')?;
        let folder = match member.as_str() {
            "files" => false,
            "directories" => true,
            _ => {
                json.scalar()?;
                let _ = json.eat(',');
                continue;
            }
        };
        lists += 1;
        json.eat('[')?;
        while json.eat(']').is_none() {
            out.push((json.string()?, folder));
            let _ = json.eat(',');
        }
        let _ = json.eat(',');
    }
    (lists == 2 && json.rest.trim().is_empty()).then_some(out)
}

/// A minimal parser for a flat list of flat JSON objects.
struct FlatJson<'a> {
    rest: &'a str,
}

impl FlatJson<'_> {
    fn eat(&mut self, c: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(c)?;
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        self.eat('"')?;
        let mut out = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = self.rest.get(i + 1..)?;
                    return Some(out);
                }
                '\\' => match chars.next()?.1 {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    'b' => out.push('\u{8}'),
                    'f' => out.push('\u{c}'),
                    'u' => {
                        let mut unit =
                            || (0..4).try_fold(0, |n, _| Some(n * 16 + chars.next()?.1.to_digit(16)?));
                        let high = unit()?;
                        let code = if (0xD800..0xDC00).contains(&high) {
                            let (slash, u) = (chars.next()?.1, chars.next()?.1);
                            let mut unit =
                                || (0..4).try_fold(0, |n, _| Some(n * 16 + chars.next()?.1.to_digit(16)?));
                            let low = unit().filter(|l| (slash, u) == ('\\', 'u') && *l >= 0xDC00)?;
                            0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
                        } else {
                            high
                        };
                        out.push(char::from_u32(code)?);
                    }
                    other => out.push(other),
                },
                other => out.push(other),
            }
        }
        None
    }

    /// A string, a number, `true`, `false` or `null`, as text.
    fn scalar(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('"') {
            return self.string();
        }
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))?;
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Url {
        Url::parse("http://h:1/data/x%20y/?sig=1").unwrap()
    }

    fn names(page: &str) -> Option<(Vec<String>, Vec<String>)> {
        parse(page.as_bytes(), &at()).unwrap().map(|l| (l.objects, l.prefixes))
    }

    #[test]
    fn nginx_apache_and_python_pages() {
        let nginx = "<html><head><title>Index of /data/x y/</title></head><body><h1>Index of /data/x y/</h1><hr>\
            <pre><a href=\"../\">../</a>\n<a href=\"c/\">c/</a>  -\n<a href=\"a%20%26%20b\">a &amp; b</a>\n\
            <a href=\".zattrs\">.zattrs</a></pre></body></html>";
        assert_eq!(names(nginx), Some((vec![".zattrs".into(), "a & b".into()], vec!["c".into()])));
        let apache = "<title>Index of /data/x y</title><a href=\"?C=N;O=D\">Name</a><a href='/data/'>Parent</a>\
            <A HREF=zarr.json>zarr.json</A><a href=\"/data/x%20y/0/\">0</a><a href=\"http://elsewhere/z\">z</a>";
        assert_eq!(names(apache), Some((vec!["zarr.json".into()], vec!["0".into()])));
        let python = "<h1>Directory listing for /data/x y/</h1><li><a href=\"q%3Aa\">q:a</a></li>\
            <li><a href=\"%C3%A9/\">é/</a></li>";
        assert_eq!(names(python), Some((vec!["q:a".into()], vec!["é".into()])));
    }

    #[test]
    fn json_of_a_tree_of_manifests() {
        let text = r#" {"path": "128", "files": ["a.json", "b\u00e9.json"], "directories": ["4a1", ".."]} "#;
        let wanted = (vec!["a.json".into(), "b\u{e9}.json".into()], vec!["4a1".into()]);
        assert_eq!(names(text), Some(wanted));
        assert_eq!(names(r#"{"files": [], "directories": []}"#), Some((vec![], vec![])));
        assert_eq!(names(r#"{"zarr_format": 2}"#), None);
        assert_eq!(names(r#"{"files": ["a"], "directories": ["#), None);
    }

    #[test]
    fn json_of_nginx_and_caddy() {
        let nginx = r#"[ { "name":"c", "type":"directory", "mtime":"x" },
            { "name":"a\u00e9\ud83d\ude00\"", "type":"file", "size":12 } ]"#;
        assert_eq!(names(nginx), Some((vec!["aé😀\"".into()], vec!["c".into()])));
        let caddy =
            r#"[{"name":"c/","size":1,"is_dir":true,"is_symlink":false},{"name":"f","is_dir":false}]"#;
        assert_eq!(names(caddy), Some((vec!["f".into()], vec!["c".into()])));
        assert_eq!(names("[]"), Some((vec![], vec![])));
    }

    #[test]
    fn other_pages_are_no_index() {
        assert_eq!(names("<html><title>Welcome</title><a href=\"a\">a</a>"), None);
        for bad in
            ["[{\"name\":", "[1,2]", "[{\"name\":\"a\"}", "[{\"x\":\"a\"}]", "", "[{\"name\":\"\\ud800\"}]"]
        {
            assert_eq!(names(bad), None, "{bad}");
        }
        let traps = "<title>Index of</title><a href=\"..%2fetc\">x</a><a href=\"%2e%2e/\">x</a><a href=\"%ff\">x</a>\
            <a href=\"a/b\">x</a><a href";
        assert_eq!(names(traps), Some((vec![], vec![])));
    }

    /// A page is gone through once: what was quadratic here took minutes.
    #[test]
    fn a_page_of_links_without_end_is_read_once() {
        let page = format!("<title>Index of /</title>{}", "href=".repeat(2 << 20));
        assert_eq!(names(&page).map(|(objects, _)| objects.len()), Some(1));
        let page = format!("<title>Index of /</title>{}", "href=a ".repeat(1 << 20));
        assert_eq!(names(&page), Some((vec!["a".into()], vec![])));
        assert_eq!(hrefs(&"href".repeat(1 << 20)).count(), 0);
    }

    #[test]
    fn entities_and_lone_ampersands() {
        assert_eq!(
            unescape("a&amp;b&#x41;&#66;&lt;&nope;&é;&toolongname;&"),
            "a&bAB<&nope;&é;&toolongname;&"
        );
        let many = "&".repeat(1 << 20);
        assert_eq!(unescape(&many), many);
    }
}
