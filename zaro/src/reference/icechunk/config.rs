//! The configuration of an Icechunk repository, as far as a reader needs it: virtual chunk containers.

use super::flex;
use crate::error::{Error, Result};
use crate::meta::json::Json;

/// A virtual chunk container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its name, as in `vcc://name/…` addresses.
    pub name: Option<String>,
    /// What the addresses of its chunks begin with; ends with a slash.
    pub url_prefix: String,
    /// The kind of store: `s3`, `s3_compatible`, `gcs`, `azure`, `http`, `local_file_system`, `tigris`.
    pub kind: String,
    /// Store options, as far as given: `region`, `endpoint_url`, `anonymous`, `requester_pays` and others.
    pub options: Vec<(String, String)>,
}

/// From the settings in the file `repo`.
pub(super) fn from_flex(bytes: &[u8]) -> Result<Vec<Container>> {
    Ok(containers(flex::parse(bytes)?.get("virtual_chunk_containers")))
}

/// From `config.yaml`.
pub(super) fn from_yaml(bytes: &[u8]) -> Result<Vec<Container>> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| Error::invalid("config.yaml is not valid UTF-8").with_source(e))?;
    Ok(containers(section(text, "virtual_chunk_containers").as_ref()))
}

fn containers(all: Option<&Json>) -> Vec<Container> {
    let members = all.and_then(Json::members).unwrap_or_default();
    members.iter().filter_map(|(_, value)| container(value)).collect()
}

fn container(value: &Json) -> Option<Container> {
    let mut url_prefix = value.get("url_prefix")?.as_str()?.to_owned();
    if !url_prefix.ends_with('/') {
        url_prefix.push('/');
    }
    let name = value.get("name").and_then(Json::as_str).map(str::to_owned);
    let (kind, options) = match value.get("store") {
        Some(Json::String(kind)) => (kind.clone(), Vec::new()),
        Some(Json::Object(one)) => {
            let (kind, options) = one.first()?;
            (kind.clone(), options.members().unwrap_or_default().iter().filter_map(option).collect())
        }
        _ => (String::new(), Vec::new()),
    };
    Some(Container { name, url_prefix, kind, options })
}

fn option((name, value): &(String, Json)) -> Option<(String, String)> {
    let text = match value {
        Json::String(s) => s.clone(),
        Json::Bool(b) => b.to_string(),
        Json::Number(n) => n.to_string(),
        _ => return None,
    };
    Some((name.clone(), text))
}

/// The member `name` at the top of a YAML document that consists of mappings, as Icechunk writes them.
///
/// Not a full YAML parser: lists and multi-line strings are skipped.
fn section(text: &str, name: &str) -> Option<Json> {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .map(|line| (line.len() - line.trim_start().len(), line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#') && *line != "---")
        .collect();
    let at =
        lines.iter().position(|(indent, line)| *indent == 0 && pair(line).is_some_and(|(k, _)| k == name))?;
    let rest = lines.get(at.checked_add(1)?..)?;
    let end = rest.iter().position(|(indent, _)| *indent == 0).unwrap_or(rest.len());
    Some(mapping(rest.get(..end)?, 0))
}

/// Maximum nesting depth of mappings; three levels are used.
const MAX_DEPTH: u32 = 16;

fn mapping(lines: &[(usize, &str)], depth: u32) -> Json {
    let mut members = Vec::new();
    let Some((own, _)) = lines.first() else { return Json::Null };
    let mut rest = lines;
    while let Some(((_, line), after)) = rest.split_first() {
        let end = after.iter().position(|(indent, _)| indent <= own).unwrap_or(after.len());
        let (inside, next) = after.split_at(end);
        rest = next;
        let Some((key, value)) = pair(line) else { continue };
        let (tag, value) = match value.strip_prefix('!') {
            Some(tagged) => tagged.split_once(' ').map_or((Some(tagged), ""), |(t, v)| (Some(t), v.trim())),
            None => (None, value),
        };
        let value = match value {
            "" if depth < MAX_DEPTH => mapping(inside, depth + 1),
            plain => scalar(plain),
        };
        // A tagged value is the one of several kinds that the tag names.
        let value = tag.map_or(value.clone(), |tag| Json::Object(vec![(tag.to_owned(), value)]));
        members.push((key, value));
    }
    Json::Object(members)
}

/// `key: value`; the value may be empty.
fn pair(line: &str) -> Option<(String, &str)> {
    let quote = line.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (key, value) = match quote {
        Some(quote) => {
            let (key, rest) = line.get(1..)?.split_once(quote)?;
            (key, rest.strip_prefix(':')?)
        }
        None => line.split_once(": ").or_else(|| line.strip_suffix(':').map(|key| (key, "")))?,
    };
    Some((key.to_owned(), value.trim()))
}

fn scalar(text: &str) -> Json {
    let quoted = |q: char| text.strip_prefix(q).and_then(|t| t.strip_suffix(q));
    match text {
        "null" | "~" | "" => Json::Null,
        "true" => Json::Bool(true),
        "false" => Json::Bool(false),
        "{}" => Json::object(),
        _ => Json::string(quoted('"').or(quoted('\'')).unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "\
inline_chunk_threshold_bytes: 16
storage:
  retries:
    max_tries: 1
virtual_chunk_containers:
  https://example.org/x/:
    name: null
    url_prefix: https://example.org/x/
    store: !http {}
  file:///data/:
    name: arch
    url_prefix: file:///data
    store: !local_file_system /data/
  s3://other/:
    name: null
    url_prefix: s3://other/
    store: !s3_compatible
      region: eu
      endpoint_url: http://localhost:9000
      anonymous: false
  'gcs://b/':
    url_prefix: \"gcs://b/\"
    store: !gcs
manifest: null
";

    #[test]
    fn containers_are_read_from_yaml() {
        let found = from_yaml(YAML.as_bytes()).unwrap();
        let said: Vec<_> =
            found.iter().map(|c| (c.name.as_deref(), c.url_prefix.as_str(), c.kind.as_str())).collect();
        assert_eq!(
            said,
            [
                (None, "https://example.org/x/", "http"),
                (Some("arch"), "file:///data/", "local_file_system"),
                (None, "s3://other/", "s3_compatible"),
                (None, "gcs://b/", "gcs"),
            ]
        );
        let options: Vec<_> = found[2].options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            options,
            [("region", "eu"), ("endpoint_url", "http://localhost:9000"), ("anonymous", "false")]
        );
    }

    #[test]
    fn settings_without_containers_have_none() {
        for text in [
            "",
            "a: 1\n",
            "virtual_chunk_containers: {}\n",
            "virtual_chunk_containers: null\nb: 2\n",
            "\u{1}",
        ] {
            assert_eq!(from_yaml(text.as_bytes()).unwrap(), [], "{text}");
        }
        assert!(from_yaml(&[0xff]).is_err());
    }
}
