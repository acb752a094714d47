//! Short notation of codec chains: `zstd`, `gzip:9`, `blosc:lz4:5:shuffle`, `zstd:3+crc32c`.
//!
//! Codecs are joined with `,` or `+`; `none` and `raw` mean no codec. Settings follow the name, in order or by name:
//! `blosc:cname=zstd,clevel=3`. Text that begins with `[` or `{` is JSON, as in metadata: V3's objects with a `name`,
//! V2's with an `id`.
//!
//! | word | settings and their defaults |
//! |---|---|
//! | `zstd` | `level` 3, `checksum` false |
//! | `gzip` | `level` 5 |
//! | `blosc` | `cname` zstd, `clevel` 5, `shuffle` by the size of an element, `blocksize` 0 |
//! | `zlib`, `bz2` | `level` 1 |
//! | `lz4` | `acceleration` 1 |
//! | `lzma` | `preset` |
//! | `crc32c` | |

use super::CodecMeta;
use super::json::Json;
use crate::error::{Error, Result, usage};

/// The type of a setting, and its default.
#[derive(Clone, Copy)]
enum Setting {
    Int(Option<i64>),
    Word(Option<&'static str>),
    Flag(bool),
}

/// A word, the V3 name it stands for, its settings.
type Word = (&'static str, &'static str, &'static [(&'static str, Setting)]);

const WORDS: [Word; 8] = [
    ("zstd", "zstd", &[("level", Setting::Int(Some(3))), ("checksum", Setting::Flag(false))]),
    ("gzip", "gzip", &[("level", Setting::Int(Some(5)))]),
    (
        "blosc",
        "blosc",
        &[
            ("cname", Setting::Word(Some("zstd"))),
            ("clevel", Setting::Int(Some(5))),
            // Chosen by the type, which is not known here; see `create`.
            ("shuffle", Setting::Word(None)),
            ("blocksize", Setting::Int(Some(0))),
        ],
    ),
    ("zlib", "numcodecs.zlib", &[("level", Setting::Int(Some(1)))]),
    ("bz2", "numcodecs.bz2", &[("level", Setting::Int(Some(1)))]),
    ("lz4", "numcodecs.lz4", &[("acceleration", Setting::Int(Some(1)))]),
    ("lzma", "numcodecs.lzma", &[("preset", Setting::Int(None))]),
    ("crc32c", "crc32c", &[]),
];

/// Parses `text` to codecs, in encoding order and V3's terms, or V2's if it is JSON of that form.
pub fn parse(text: &str) -> Result<Vec<CodecMeta>> {
    let text = text.trim();
    if text.starts_with(['[', '{']) {
        return from_json(text);
    }
    if matches!(text, "" | "none" | "raw") {
        return Ok(Vec::new());
    }
    let mut items: Vec<String> = Vec::new();
    for group in text.split('+') {
        for (i, part) in group.split(',').enumerate() {
            let part = part.trim();
            // `clevel=3` after a comma belongs to the codec before it; `zstd:level=3` begins one.
            let goes_on = i > 0 && part.split_once('=').is_some_and(|(name, _)| !name.contains(':'));
            match items.last_mut().filter(|_| goes_on) {
                Some(item) => {
                    item.push(':');
                    item.push_str(part);
                }
                None => items.push(part.to_owned()),
            }
        }
    }
    items.iter().map(|item| codec(item)).collect()
}

fn codec(item: &str) -> Result<CodecMeta> {
    let mut parts = item.split(':');
    let word = parts.next().unwrap_or_default();
    let Some((_, name, settings)) = WORDS.iter().find(|(w, ..)| *w == word) else {
        let known: Vec<&str> = WORDS.iter().map(|(w, ..)| *w).collect();
        return Err(usage!(
            "{word:?} is not a short name of a codec; use {}, none, or JSON for all others",
            known.join(", ")
        ));
    };
    let mut given: Vec<Option<Json>> = vec![None; settings.len()];
    for (i, part) in parts.enumerate() {
        let (at, text) = match part.split_once('=') {
            Some((name, text)) => (settings.iter().position(|(n, _)| *n == name), text),
            None => (Some(i), part),
        };
        let setting = at.and_then(|at| settings.get(at).zip(given.get_mut(at)));
        let Some(((name, setting), slot)) = setting else {
            let names: Vec<&str> = settings.iter().map(|(n, _)| *n).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(usage!("{part:?} is not a setting of {word}, which has {names}"));
        };
        let value = match setting {
            Setting::Int(_) => text.parse::<i64>().ok().map(Json::int),
            Setting::Flag(_) => text.parse::<bool>().ok().map(Json::Bool),
            Setting::Word(_) => (!text.is_empty()).then(|| Json::string(text)),
        };
        let value = value.ok_or_else(|| usage!("{text:?} is not a valid {name} of {word}"))?;
        if slot.replace(value).is_some() {
            return Err(usage!("the {name} of {word} is given twice"));
        }
    }
    let configuration = settings.iter().zip(given).filter_map(|((name, setting), given)| {
        let value = given.or(match setting {
            Setting::Int(n) => n.map(Json::int),
            Setting::Flag(b) => Some(Json::Bool(*b)),
            Setting::Word(w) => w.map(Json::string),
        });
        value.map(|v| ((*name).to_owned(), v))
    });
    Ok(CodecMeta::new(*name, configuration.collect()))
}

/// Parses a codec, or a list of them, as in metadata.
fn from_json(text: &str) -> Result<Vec<CodecMeta>> {
    let usage = |e: Error| Error::usage(e.message()).with_field("codecs");
    let value = Json::parse(text.as_bytes()).map_err(usage)?.value;
    let list = if let Json::Array(items) = value { items } else { vec![value] };
    let one = |value: Json| match value.get("id").and_then(Json::as_str) {
        Some(id) if value.get("name").is_none() => {
            let rest = value.members().unwrap_or_default().iter().filter(|(n, _)| n != "id");
            Ok(vec![CodecMeta::new(format!("v2.{id}"), rest.cloned().collect())])
        }
        _ => super::v3::codecs(&Json::Array(vec![value]), "codecs").map_err(usage),
    };
    Ok(list.into_iter().map(one).collect::<Result<Vec<_>>>()?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::write::write_codecs;

    fn long(text: &str) -> String {
        write_codecs(&parse(text).unwrap()).to_string()
    }

    #[test]
    fn words_become_codecs() {
        for (text, wanted) in [
            ("none", "[]"),
            ("raw", "[]"),
            ("", "[]"),
            ("zstd", r#"[{"name":"zstd","configuration":{"level":3,"checksum":false}}]"#),
            ("zstd:-5:true", r#"[{"name":"zstd","configuration":{"level":-5,"checksum":true}}]"#),
            ("gzip:9", r#"[{"name":"gzip","configuration":{"level":9}}]"#),
            ("lz4", r#"[{"name":"numcodecs.lz4","configuration":{"acceleration":1}}]"#),
            ("lzma", r#"[{"name":"numcodecs.lzma","configuration":{}}]"#),
            (
                "blosc:lz4:7:shuffle",
                r#"[{"name":"blosc","configuration":{"cname":"lz4","clevel":7,"shuffle":"shuffle","blocksize":0}}]"#,
            ),
            (
                "blosc:cname=zlib,shuffle=bitshuffle, crc32c",
                r#"[{"name":"blosc","configuration":{"cname":"zlib","clevel":5,"shuffle":"bitshuffle","blocksize":0}},{"name":"crc32c"}]"#,
            ),
            ("bz2:9+crc32c", r#"[{"name":"numcodecs.bz2","configuration":{"level":9}},{"name":"crc32c"}]"#),
            (r#"["crc32c"]"#, r#"[{"name":"crc32c"}]"#),
            (
                r#"{"name":"x","must_understand":false,"configuration":{"a":[1]}}"#,
                r#"[{"name":"x","configuration":{"a":[1]},"must_understand":false}]"#,
            ),
        ] {
            assert_eq!(long(text), wanted, "{text}");
        }
        let v2 = parse(r#"[{"id":"zlib","level":1}]"#).unwrap();
        assert_eq!(v2, [CodecMeta::new("v2.zlib", vec![("level".into(), Json::int(1))])]);
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (text, word) in [
            ("zst", "not a short name of a codec"),
            ("zstd:fast", "level"),
            ("zstd:3:true:1", "not a setting"),
            ("zstd:3:level=4", "twice"),
            ("gzip:speed=1", "has level"),
            ("crc32c:1", "none"),
            ("zstd,,gzip", "not a short name of a codec"),
            ("level=3", "not a short name of a codec"),
            ("[1]", "name"),
            ("[", "JSON"),
        ] {
            let e = parse(text).unwrap_err();
            assert_eq!(e.kind(), crate::ErrorKind::Usage, "{text}");
            assert!(e.to_string().contains(word), "{text}: {e}");
        }
    }
}
