//! The rules of the house that a compiler does not check: who may use whom, where `unsafe` may stand, how long a file
//! may be, and that the library speaks of no options of the command line.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module of the library and the modules it may use besides itself. Everything may use the error and the checked
/// numbers, which use nothing.
const MAY_USE: [(&str, &[&str]); 28] = [
    ("error", &[]),
    ("num", &["error"]),
    // Names that are near each other, for messages.
    ("suggest", &[]),
    // Memory, threads and connections know nothing of what they are used for.
    ("context", &["error"]),
    ("blocking", &["error", "context"]),
    // What is done on the decoding threads, or many at once.
    ("task", &["error", "blocking", "context"]),
    // Whether a process is still there.
    ("process", &[]),
    // Moments as text.
    ("time", &["error"]),
    ("store", &["error", "num", "process", "time", "context"]),
    ("meta", &["error", "num", "suggest"]),
    ("codec", &["error", "num", "meta"]),
    // Who writes to an array says so.
    ("array", &["error", "num", "blocking", "context", "task", "store", "meta", "codec", "journal"]),
    ("group", &["error", "num", "suggest", "context", "store", "meta", "codec", "array"]),
    ("journal", &["error", "num", "process", "blocking", "context", "task", "store", "meta", "codec"]),
    (
        "hierarchy",
        &[
            "error", "num", "blocking", "context", "task", "store", "meta", "codec", "array", "group",
            "journal",
        ],
    ),
    // Values as people want them, and what conventions make of them.
    ("format", &["error", "num", "blocking", "meta", "array", "group"]),
    ("cf", &["error", "num", "meta", "array", "group", "format"]),
    // Positions by the values of coordinates, and what elements are like.
    ("coords", &["error", "num", "suggest", "meta", "array", "group", "format", "cf"]),
    ("stat", &["error", "num", "task", "store", "meta", "array", "group", "format", "cf"]),
    // Every document of a hierarchy against the rules, and every chunk, if asked.
    ("validate", &["error", "num", "task", "meta", "store", "array", "group"]),
    ("create", &["error", "blocking", "store", "meta", "array", "hierarchy", "journal"]),
    (
        "copy",
        &[
            "error",
            "num",
            "suggest",
            "context",
            "task",
            "store",
            "meta",
            "codec",
            "array",
            "group",
            "hierarchy",
            "journal",
            "coords",
        ],
    ),
    // Images are read, and made: pyramids and upgrades write arrays and copy those that stay as they are.
    (
        "image",
        &[
            "error",
            "context",
            "num",
            "blocking",
            "task",
            "store",
            "meta",
            "codec",
            "array",
            "group",
            "hierarchy",
            "journal",
            "create",
            "copy",
            "format",
        ],
    ),
    (
        "reference",
        &["error", "num", "time", "blocking", "context", "task", "store", "meta", "codec", "array", "group"],
    ),
    (
        "manifest",
        &[
            "error",
            "context",
            "num",
            "blocking",
            "task",
            "store",
            "meta",
            "codec",
            "array",
            "group",
            "hierarchy",
            "reference",
            "time",
        ],
    ),
    (
        "open",
        &[
            "error",
            "context",
            "num",
            "suggest",
            "blocking",
            "store",
            "meta",
            "codec",
            "array",
            "group",
            "image",
            "manifest",
            "reference",
            "copy",
            "hierarchy",
        ],
    ),
    // What the command line and the tests need besides the API; nothing uses it.
    ("internal", &["num", "array", "codec", "format", "image", "manifest", "meta", "reference", "store"]),
    // The kit for tests of stores.
    ("testing", &["error", "num", "store"]),
];

/// The files that may hold `unsafe`, each with its proof at the top.
const UNSAFE: [&str; 5] =
    ["array/place.rs", "codec/blosc/lanes.rs", "codec/inflate.rs", "codec/lz4_block.rs", "context/fork.rs"];

/// No file is longer; most are far shorter.
const MAX_LINES: usize = 800;

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// All sources below `dir`: paths relative to `src`, and their text.
fn sources() -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut open = vec![src()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(src()).unwrap().to_str().unwrap().replace('\\', "/");
                out.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    out.sort();
    out
}

/// The code without comments; a string that looks like one is cut too, which does no harm here.
fn code(text: &str) -> String {
    text.lines().map(|l| l.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The first names of a path or of the braces that follow `rest`'s `::`.
fn first_names(rest: &str) -> Vec<String> {
    let word = |t: &str| t.chars().take_while(|c| is_word(*c)).collect::<String>();
    let Some(inside) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (i, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' | ',' if depth == 0 => {
                names.push(word(inside[start..i].trim_start()));
                start = i + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
}

/// The top-level modules that `text`, the code of `file`, names.
fn used(text: &str, file: &str) -> BTreeSet<String> {
    let own = file.split('/').next().unwrap().trim_end_matches(".rs");
    // A module inside another may be called like a layer: `reference/icechunk/manifest.rs`.
    let folders: Vec<PathBuf> = Path::new(file)
        .ancestors()
        .skip(1)
        .filter(|f| !f.as_os_str().is_empty())
        .map(|f| src().join(f))
        .collect();
    let mut out = BTreeSet::new();
    for root in ["crate::", "super::"] {
        for (at, _) in text.match_indices(root) {
            // `super` leaves the module somewhere; only names that are no part of it can be other layers.
            if root == "super::" && Path::new(&src()).join(own).join("mod.rs").exists() {
                let names = first_names(&text[at + root.len()..]);
                let outside = |n: &String| {
                    MAY_USE.iter().any(|(m, _)| m == n)
                        && !folders.iter().any(|f| f.join(format!("{n}.rs")).exists() || f.join(n).exists())
                };
                out.extend(names.into_iter().filter(outside));
                continue;
            }
            if root == "crate::" {
                out.extend(first_names(&text[at + root.len()..]));
            }
        }
    }
    out
}

#[test]
fn layers_look_down_only() {
    let mut faults = Vec::new();
    for (file, text) in sources() {
        let own = file.split('/').next().unwrap().trim_end_matches(".rs");
        if own == "lib" {
            continue;
        }
        let Some((_, below)) = MAY_USE.iter().find(|(m, _)| *m == own) else {
            faults.push(format!("{file}: the module {own:?} has no place among the layers yet"));
            continue;
        };
        // Tests inside a module may use the kit for tests.
        let tested = text.contains("#[cfg(test)]") || file.ends_with("tests.rs");
        for name in used(&code(&text), &file) {
            let re_export = matches!(name.as_str(), "Result" | "Error" | "ErrorKind" | "boxed");
            let kit = name == "testing" && tested;
            if name != own && !re_export && !kit && !below.contains(&name.as_str()) {
                faults.push(format!("{file} uses crate::{name}; {own} may use only {below:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn braces_and_paths_are_seen() {
    let text = "use crate::{error::{Error, Result}, open, meta::v3};\ncrate::group::Zarr";
    let wanted = ["error", "group", "meta", "open"].map(str::to_owned);
    assert_eq!(used(text, "store/mod.rs"), BTreeSet::from(wanted));
    assert_eq!(used("use super::super::group;", "codec/blosc/mod.rs"), BTreeSet::from(["group".to_owned()]));
    assert!(used("use super::bytes::Bytes;", "codec/mod.rs").is_empty());
    assert!(used("use super::manifest::Manifest;", "reference/icechunk/cache.rs").is_empty());
    let wanted = BTreeSet::from(["manifest".to_owned()]);
    assert_eq!(used("use super::manifest::Manifest;", "reference/store.rs"), wanted);
}

#[test]
fn unsafe_stands_only_in_named_files() {
    let mut found = BTreeSet::new();
    for (file, text) in sources() {
        let code = code(&text);
        let has = code.match_indices("unsafe").any(|(at, word)| {
            let before = code[..at].chars().next_back().is_some_and(is_word);
            let after = code[at + word.len()..].chars().next().is_some_and(is_word);
            !before && !after
        });
        if has {
            assert!(text.contains("SAFETY"), "{file} has `unsafe` without a word on why it is sound");
            found.insert(file);
        }
    }
    assert_eq!(found, UNSAFE.map(str::to_owned).into(), "the files with `unsafe` are not those named here");
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|(file, _)| !file.ends_with("tests.rs"))
        .map(|(file, text)| (file, text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(file, lines)| format!("{file} has {lines} lines"))
        .collect();
    assert!(long.is_empty(), "a file is one idea: {}", long.join(", "));
}

/// Texts with options that are no advice: operations as journals on disk name them, and another program's command line.
const NAMES_WITH_OPTIONS: [&str; 5] = [
    "copy --in-place",
    "image pyramid --to",
    "image upgrade --in-place",
    "write --create",
    "`aws configure ",
];

/// The string literals in Rust code, without its comments and its tests at the end.
fn literals(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, after)| after);
        } else if from.starts_with("'\"'") || from.starts_with("'\\\"'") {
            rest = &from[from[1..].find('\'').unwrap() + 2..];
        } else if !from.starts_with('"') {
            rest = &from[1..];
        } else if before.trim_end_matches('#').ends_with('r') {
            let end = format!("\"{}", "#".repeat(before.len() - before.trim_end_matches('#').len()));
            let (inside, after) = from[1..].split_once(&end).unwrap();
            out.push(inside.to_owned());
            rest = after;
        } else {
            let mut escaped = false;
            let end = from[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.unwrap() + 1;
            out.push(from[1..end].to_owned());
            rest = &from[end + 1..];
        }
    }
    out
}

/// Whether a text names an option of a command line.
fn names_option(text: &str) -> bool {
    text.match_indices("--").any(|(at, dashes)| {
        !text[..at].ends_with(|c: char| is_word(c) || c == '-')
            && text[at + dashes.len()..].starts_with(|c: char| c.is_ascii_lowercase())
    })
}

#[test]
fn the_library_names_no_options_of_the_command_line() {
    let named: Vec<String> = sources()
        .iter()
        .filter(|(file, _)| !file.ends_with("tests.rs"))
        .flat_map(|(file, text)| literals(text).into_iter().map(move |text| format!("{file}: {text}")))
        .filter(|text| names_option(text) && !NAMES_WITH_OPTIONS.iter().any(|known| text.contains(known)))
        .collect();
    assert!(named.is_empty(), "an error has a `Hint` for this: {}", named.join("\n"));
}

#[test]
fn options_in_literals_are_seen() {
    let text = "// \"--no\"\nlet a = ('\"', '\\\"', \"use \\\" --this\", r#\"and \" --that\"#, \"a--b ---c\");\n\
                #[cfg(test)]\nmod tests { \"--test\" }";
    let found = literals(text);
    assert_eq!(found, ["use \\\" --this", "and \" --that", "a--b ---c"]);
    assert_eq!(found.iter().map(|t| names_option(t)).collect::<Vec<_>>(), [true, true, false]);
}
