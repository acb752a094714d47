//! File name patterns: combines many files, each with a plane or a stack, into one image.
//!
//! A pattern gives the axes of names: `img_t{t:03}_c{c}_z{z:02}.tif`. Braces hold an axis, t, c or z; a number format
//! after a colon is ignored. Numbers must be consecutive or evenly spaced; other text is sorted by name, and that of
//! `{c}` becomes the names of channels. A `*` matches anything.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::{C, ImageSource, ImageSourceOptions, Pixels, PlaneWindow, T, Y, Z, natural, open_file, stem};
use crate::context::install;
use crate::error::{Error, Hint, Result, invalid, unsupported, usage};
use crate::image::model::Channel;
use crate::num;

/// The maximum number of files of an image.
const MAX_FILES: u64 = 1 << 24;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Text(String),
    /// An axis: digits or, if there are none, any text.
    Field(usize),
    /// Anything.
    Any,
}

fn parse(pattern: &str) -> Result<Vec<Token>> {
    let wrong = |why: &str| usage!("the pattern {pattern:?} {why}");
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let end = rest.find(['{', '*']).unwrap_or(rest.len());
        let (text, after) = rest.split_at_checked(end).unwrap_or_default();
        if !text.is_empty() {
            tokens.push(Token::Text(text.to_owned()));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix('*') {
            tokens.push(Token::Any);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let (field, after) = after.split_once('}').ok_or_else(|| wrong("has an unclosed brace"))?;
            let name = field.split(':').next().unwrap_or_default().trim();
            let axis = match name.to_ascii_lowercase().as_str() {
                "t" | "time" => T,
                "c" | "channel" => C,
                "z" => Z,
                _ => return Err(wrong("has braces around something other than t, c or z")),
            };
            if tokens.contains(&Token::Field(axis)) {
                return Err(wrong("names an axis twice"));
            }
            if matches!(tokens.last(), Some(Token::Field(_) | Token::Any)) {
                return Err(wrong("needs text between two braces or wildcards"));
            }
            tokens.push(Token::Field(axis));
            rest = after;
        }
    }
    if !tokens.iter().any(|t| matches!(t, Token::Field(_))) {
        return Err(wrong("has no braces, such as {z}"));
    }
    Ok(tokens)
}

/// The values of t, c, z in a name; `None` if it does not match. Numbers are preferred: for all axes, then for t and z,
/// since channels have names.
fn matched(tokens: &[Token], name: &str) -> Option<[Option<String>; 3]> {
    [[true; 3], [true, false, true], [false; 3]].into_iter().find_map(|digits| {
        let mut found = [None, None, None];
        fits(tokens, name, digits, &mut found).then_some(found)
    })
}

/// Whether tokens match a text, and the values of the axes; `digits` says of t, c and z whether it must be a number.
fn fits(tokens: &[Token], text: &str, digits: [bool; 3], found: &mut [Option<String>; 3]) -> bool {
    let Some((token, later)) = tokens.split_first() else { return text.is_empty() };
    let axis = match token {
        Token::Text(begin) => {
            return text.strip_prefix(begin.as_str()).is_some_and(|rest| fits(later, rest, digits, found));
        }
        Token::Field(axis) => Some(*axis),
        Token::Any => None,
    };
    let mut fit = |end: usize| {
        let Some((part, rest)) = text.split_at_checked(end) else { return false };
        if !fits(later, rest, digits, found) {
            return false;
        }
        if let Some(to) = axis.and_then(|axis| found.get_mut(axis)) {
            *to = Some(part.to_owned());
        }
        true
    };
    let number = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    match axis {
        // A number is matched as a whole.
        Some(axis) if digits.get(axis) == Some(&true) => number > 0 && fit(number),
        Some(_) => (1..=text.len()).any(fit),
        None => (0..=text.len()).any(fit),
    }
}

/// Expands names with `*`, `?` or braces to files, in natural order, and returns the pattern, if there is one.
/// Directories may have braces, too: `t{t}/img_z{z}.tif`.
pub fn expand(inputs: &[String]) -> Result<(Vec<PathBuf>, Option<String>)> {
    let mut files = Vec::new();
    let mut pattern = None;
    for input in inputs {
        let path = Path::new(input);
        let Some((folder, varying)) = split_where_it_varies(path).filter(|_| !path.exists()) else {
            files.push(path.to_owned());
            continue;
        };
        let has_fields = varying.iter().any(|name| has_fields(name));
        let mut found = vec![(String::new(), folder)];
        for (i, name) in varying.iter().enumerate() {
            let is_last = i.saturating_add(1) == varying.len();
            let mut below = Vec::new();
            for (above, folder) in found {
                for (other, path) in fitting(&folder, name, is_last)? {
                    below.push((if above.is_empty() { other } else { format!("{above}/{other}") }, path));
                }
            }
            found = below;
        }
        if found.is_empty() {
            return Err(Error::not_found("no file matches this name").with_store(input));
        }
        found.sort_by(|(a, _), (b, _)| natural::compare(a, b));
        files.extend(found.into_iter().map(|(_, path)| path));
        if has_fields {
            let text = varying.join("/");
            if pattern.as_ref().is_some_and(|p| *p != text) {
                return Err(Error::usage("only one pattern can be given"));
            }
            pattern = Some(text);
        }
    }
    Ok((files, pattern))
}

fn has_fields(name: &str) -> bool {
    name.contains('{') && name.contains('}')
}

/// The existing directory, and the path components below it from the first pattern on. A component that exists
/// literally is not a pattern, whatever characters it has.
fn split_where_it_varies(path: &Path) -> Option<(PathBuf, Vec<String>)> {
    let varies = |name: &str| has_fields(name) || name.contains(['*', '?']);
    let mut folder = PathBuf::new();
    let mut names = Vec::new();
    for part in path.components() {
        let name = part.as_os_str().to_str()?;
        if names.is_empty() && (!varies(name) || folder.join(name).exists()) {
            folder.push(part);
        } else {
            names.push(name.to_owned());
        }
    }
    (!names.is_empty()).then_some((folder, names))
}

/// The entries of a directory that match a name: files, or directories on the way to them.
fn fitting(folder: &Path, name: &str, files: bool) -> Result<Vec<(String, PathBuf)>> {
    let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let tokens = if has_fields(name) { Some(parse(name)?) } else { None };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place).map_err(|e| Error::from(e).with_store(place.display()))? {
        let entry = entry?;
        let other = entry.file_name().to_string_lossy().into_owned();
        let fits = match &tokens {
            Some(tokens) => matched(tokens, &other).is_some(),
            None => is_like(name, &other),
        };
        let path = folder.join(entry.file_name());
        if fits && (if files { path.is_file() } else { path.is_dir() }) {
            found.push((other, path));
        }
    }
    Ok(found)
}

/// Whether a name matches a glob of `*` and `?`.
fn is_like(like: &str, name: &str) -> bool {
    let (like, name): (Vec<char>, Vec<char>) = (like.chars().collect(), name.chars().collect());
    let (mut like, mut name) = (like.as_slice(), name.as_slice());
    // Where to backtrack when the last star matches one more character.
    let mut star: Option<(&[char], &[char])> = None;
    loop {
        (like, name) = match (like, name, star) {
            ([], [], _) => return true,
            (['*', rest @ ..], _, _) => {
                star = Some((rest, name));
                (rest, name)
            }
            (['?', rest @ ..], [_, more @ ..], _) => (rest, more),
            ([a, rest @ ..], [b, more @ ..], _) if a == b => (rest, more),
            (_, _, Some((rest, [_, more @ ..]))) => {
                star = Some((rest, more));
                (rest, more)
            }
            _ => return false,
        };
    }
}

/// The names of the positions along one axis.
struct AxisNames {
    names: Vec<String>,
    place: HashMap<String, u64>,
    is_counted: bool,
}

impl AxisNames {
    /// Sorts the values that file names have for this axis.
    fn of(mut values: Vec<String>, are_channels: bool) -> Result<Self> {
        values.sort_by(|a, b| natural::compare(a, b));
        values.dedup();
        let numbers: Option<Vec<u64>> = values.iter().map(|v| v.parse().ok()).collect();
        let listed = |names: Vec<String>| {
            let place = names.iter().cloned().zip(0..).collect();
            Ok(Self { names, place, is_counted: false })
        };
        let Some(numbers) = numbers else { return listed(values) };
        let first = numbers.iter().min().copied().unwrap_or(0);
        let last = numbers.iter().max().copied().unwrap_or(0);
        let step = numbers.iter().fold(0, |g, n| gcd(g, n - first)).max(1);
        let count = (last - first) / step + 1;
        if are_channels && first >= LEAST_WAVELENGTH && count != num::u64_of(values.len()) {
            let mut both: Vec<(u64, String)> = numbers.into_iter().zip(values).collect();
            both.sort();
            return listed(both.into_iter().map(|(_, name)| name).collect());
        }
        if count > MAX_FILES {
            return Err(unsupported!("the numbers {first} to {last} in file names are too far apart"));
        }
        let place = values.iter().zip(&numbers).map(|(v, n)| (v.clone(), (n - first) / step)).collect();
        let names = (0..count).map(|i| (first + i * step).to_string()).collect();
        Ok(Self { names, place, is_counted: true })
    }
}

/// Channel numbers from here on are wavelengths in nanometres, if there are gaps between them.
const LEAST_WAVELENGTH: u64 = 100;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a.checked_rem(b).unwrap_or(0)) }
}

/// Opens many files as one image.
pub(super) fn open(files: &[PathBuf], options: &ImageSourceOptions) -> Result<ImageSource> {
    let mut files = files.to_vec();
    files.sort_by(|a, b| natural::compare(&a.to_string_lossy(), &b.to_string_lossy()));
    let pattern = options.pattern.as_deref().map(|text| {
        let mut parts: Vec<&str> = text.split('/').filter(|p| !p.is_empty()).collect();
        // Leading directories common to all names carry no information.
        let first = parts.iter().position(|p| has_fields(p)).unwrap_or(parts.len().saturating_sub(1));
        parts.drain(..first);
        parts
    });
    let depth = pattern.as_ref().map_or(1, Vec::len);
    let name_of = |path: &PathBuf| {
        let parts: Vec<String> =
            path.components().map(|p| p.as_os_str().to_string_lossy().into_owned()).collect();
        parts.get(parts.len().saturating_sub(depth)..).unwrap_or_default().join("/")
    };
    let tokens = match &pattern {
        Some(parts) => Some(parse(&parts.join("/"))?),
        None => guess(&files.iter().map(name_of).collect::<Vec<_>>(), options.axes.is_some())?,
    };
    let Some(tokens) = tokens else { return stacked(&files, options) };
    let mut places: Vec<[Option<String>; 3]> = Vec::new();
    for file in &files {
        let found = matched(&tokens, &name_of(file));
        places.push(found.ok_or_else(|| {
            Error::usage("the file name does not match the pattern").with_store(file.display())
        })?);
    }
    let mut lines = Vec::new();
    for axis in [T, C, Z] {
        let values = places.iter().filter_map(|p| p.get(axis).cloned().flatten()).collect();
        let has = tokens.contains(&Token::Field(axis));
        lines.push(if has { Some(AxisNames::of(values, axis == C)?) } else { None });
    }
    let counts: Vec<u64> =
        lines.iter().map(|l| l.as_ref().map_or(1, |l| num::u64_of(l.names.len()))).collect();
    if num::product(&counts)? > MAX_FILES {
        return Err(unsupported!("images of {counts:?} files are not supported"));
    }
    let mut parts: BTreeMap<u64, PathBuf> = BTreeMap::new();
    for (file, found) in files.iter().zip(&places) {
        let mut at = 0u64;
        for ((line, value), n) in lines.iter().zip(found).zip(&counts) {
            let i = match (line, value) {
                (Some(line), Some(value)) => line.place.get(value).copied().unwrap_or(0),
                _ => 0,
            };
            at = at * n + i;
        }
        if let Some(other) = parts.insert(at, file.clone()) {
            return Err(
                usage!("this and {} have the same position", other.display()).with_store(file.display())
            );
        }
    }
    let tcz = [counts.first(), counts.get(1), counts.get(2)].map(|n| n.copied().unwrap_or(1));
    check_missing(&parts, &lines, tcz, options)?;
    let has = [lines.first(), lines.get(1), lines.get(2)].map(|l| l.is_some_and(Option::is_some));
    let mut source = assemble(parts, tcz, has, options)?;
    if let Some(Some(line)) = lines.get(C)
        && !line.is_counted
        && num::u64_of(line.names.len()) == source.sizes[C]
    {
        let look = |(i, name): (usize, &String)| Channel {
            label: Some(name.clone()),
            ..source.channels.get(i).cloned().unwrap_or_default()
        };
        source.channels = line.names.iter().enumerate().map(look).collect();
    }
    Ok(source)
}

fn check_missing(
    parts: &BTreeMap<u64, PathBuf>,
    lines: &[Option<AxisNames>],
    tcz: [u64; 3],
    options: &ImageSourceOptions,
) -> Result<()> {
    let total = num::product(&tcz)?;
    let there = num::u64_of(parts.len());
    if there == total || options.allow_missing {
        return Ok(());
    }
    let [_, cs, zs] = tcz;
    let named = |i: u64| {
        let at = [i / zs.max(1) / cs.max(1), i / zs.max(1) % cs.max(1), i % zs.max(1)];
        let word = |((line, letter), i): ((&Option<AxisNames>, &str), u64)| {
            let name = line.as_ref()?.names.get(usize::try_from(i).ok()?)?;
            Some(format!("{letter} {name}"))
        };
        let words: Vec<String> = lines.iter().zip(["t", "c", "z"]).zip(at).filter_map(word).collect();
        words.join(" ")
    };
    let names: Vec<String> = (0..total).filter(|i| !parts.contains_key(i)).take(5).map(named).collect();
    let more = if total - there > num::u64_of(names.len()) { " and others" } else { "" };
    Err(invalid!("{} of {total} files are missing: {}{more}", total - there, names.join(", "))
        .with_hint("allow_missing", "fills them with zeros"))
}

/// Stacks files along the first axis of `axes`, or z.
fn stacked(files: &[PathBuf], options: &ImageSourceOptions) -> Result<ImageSource> {
    let letters = options.axes.as_deref().unwrap_or("zyx");
    let axis = match super::axis_letters(letters)?.first() {
        Some(axis) if *axis < Y => *axis,
        _ => return Err(usage!("axes {letters:?} have no axis left to stack the files along")),
    };
    let parts: BTreeMap<u64, PathBuf> = (0..).zip(files.iter().cloned()).collect();
    let mut tcz = [1; 3];
    let mut has = [false; 3];
    if let (Some(n), Some(has)) = (tcz.get_mut(axis), has.get_mut(axis)) {
        (*n, *has) = (num::u64_of(files.len()), true);
    }
    assemble(parts, tcz, has, options)
}

/// Opens the files, which must have the same shape and type, and combines them.
fn assemble(
    parts: BTreeMap<u64, PathBuf>,
    tcz: [u64; 3],
    has: [bool; 3],
    options: &ImageSourceOptions,
) -> Result<ImageSource> {
    // The given axes are those of the combined image.
    let inner = ImageSourceOptions { axes: None, pattern: None, ..options.clone() };
    let open = |(i, path): (u64, PathBuf)| {
        let mut found = open_file(&path, &inner)?;
        match (found.pop(), found.is_empty()) {
            (Some(source), true) => Ok((i, source)),
            _ => Err(Error::unsupported("files that hold several images cannot be combined into one")
                .with_store(path.display())),
        }
    };
    let opened = install(|| parts.into_par_iter().map(open).collect::<Result<Vec<(u64, ImageSource)>>>())?;
    let Some((_, first)) = opened.first() else { return Err(Error::usage("no input files")) };
    let mut whole = first.clone();
    for ((axis, n), has) in [T, C, Z].into_iter().zip(tcz).zip(has) {
        let (Some(size), Some(declared)) = (whole.sizes.get_mut(axis), whole.declared.get_mut(axis)) else {
            continue;
        };
        if has {
            if *size != 1 {
                let letter = super::AXES.get(axis).copied().unwrap_or(' ');
                return Err(usage!(
                    "the axis {letter} is both in the file names and in each file ({size} positions)"
                ));
            }
            *size = n;
            *declared = true;
        }
    }
    if has[C] {
        whole.channels.clear();
    }
    whole.name = stem(Path::new(&first.name));
    whole.files = opened.iter().flat_map(|(_, part)| part.files.clone()).collect();
    for (_, part) in &opened {
        if (part.sizes, &part.data_type) != (first.sizes, &first.data_type) {
            return Err(invalid!(
                "{:?} is {:?} of {}, but {:?} is {:?} of {}",
                part.name,
                part.sizes,
                part.data_type,
                first.name,
                first.sizes,
                first.data_type
            ));
        }
    }
    let total = num::usize_of(num::product(&tcz)?)?;
    let mut planes: Vec<Option<Arc<dyn Pixels>>> = vec![None; total];
    for (i, part) in &opened {
        if let Some(to) = planes.get_mut(num::usize_of(*i)?) {
            *to = Some(part.pixels());
        }
    }
    let grain = if has[C] { [1, first.grain()[1], first.grain()[2]] } else { first.grain() };
    let missing = planes.iter().filter(|p| p.is_none()).count();
    if missing > 0 {
        whole.warnings.push(format!("{missing} files are missing and filled with zeros"));
    }
    whole.pixels = Arc::new(Mosaic { parts: planes, tcz, has, grain });
    Ok(whole)
}

/// Files in the order t, c, z.
struct Mosaic {
    parts: Vec<Option<Arc<dyn Pixels>>>,
    tcz: [u64; 3],
    /// Which of t, c, z vary between files.
    has: [bool; 3],
    grain: [u64; 3],
}

impl Pixels for Mosaic {
    fn read(&self, window: &PlaneWindow, out: &mut [u8]) -> Result<()> {
        let [_, cs, zs] = self.tcz;
        let [has_t, has_c, has_z] = self.has;
        let split = |has: bool, i: u64| if has { (i, 0) } else { (0, i) };
        let (t, inner_t) = split(has_t, window.t);
        let (z, inner_z) = split(has_z, window.z);
        let one = |c: u64, inner: std::ops::Range<u64>, out: &mut [u8]| -> Result<()> {
            let part = self.parts.get(num::usize_of((t * cs + c) * zs + z)?);
            match part.and_then(Option::as_ref) {
                Some(part) => {
                    let window = PlaneWindow {
                        t: inner_t,
                        c: inner,
                        z: inner_z,
                        y: window.y.clone(),
                        x: window.x.clone(),
                    };
                    part.read(&window, out)
                }
                None => {
                    out.fill(0);
                    Ok(())
                }
            }
        };
        if !has_c {
            return one(0, window.c.clone(), out);
        }
        let [channels, ..] = window.counts();
        let plane = out.len() / num::usize_of(channels)?.max(1);
        for (out, c) in out.chunks_exact_mut(plane.max(1)).zip(window.c.clone()) {
            one(c, 0..1, out)?;
        }
        Ok(())
    }

    fn grain(&self) -> [u64; 3] {
        self.grain
    }
}

/// Guesses the pattern of names that differ in numbers, by the letters before these: `_t001_c1_z02`. `None` if they
/// differ in one number without such a letter, or if the `order` of the names is given an axis.
fn guess(names: &[String], order: bool) -> Result<Option<Vec<Token>>> {
    let split: Vec<Vec<&str>> = names.iter().map(|n| runs(n)).collect();
    let Some(first) = split.first() else { return Ok(None) };
    let is_digits = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
    let alike = |other: &Vec<&str>| {
        other.len() == first.len()
            && other.iter().zip(first).all(|(a, b)| a == b || (is_digits(a) && is_digits(b)))
    };
    let unclear = |why: &str| {
        let pattern = suggestion(names).unwrap_or_else(|| "img_t{t}_{c}_z{z}.tif".to_owned());
        let axes = Hint::option("axes", "stacks the files in the order of their names").set_to("zyx");
        Err(usage!("{why}")
            .or_hint(Hint::option("pattern", "gives the axes in the names").set_to(pattern))
            .or_hint(axes))
    };
    if !split.iter().all(alike) {
        return if order { Ok(None) } else { unclear("the names of the files differ in more than numbers") };
    }
    let varies = |i: usize| split.iter().any(|s| s.get(i) != first.get(i));
    let varying: Vec<usize> = (0..first.len()).filter(|i| varies(*i)).collect();
    let mut tokens: Vec<Token> = Vec::new();
    let mut unknown = false;
    for (i, run) in first.iter().enumerate() {
        if !varying.contains(&i) {
            tokens.push(Token::Text((*run).to_owned()));
            continue;
        }
        let before =
            i.checked_sub(1).and_then(|i| first.get(i)).copied().unwrap_or_default().to_ascii_lowercase();
        let word =
            before.rsplit(|c: char| !c.is_ascii_alphabetic()).find(|w| !w.is_empty() || before.is_empty());
        match axis_of(word.unwrap_or_default()).filter(|a| !tokens.contains(&Token::Field(*a))) {
            Some(axis) => tokens.push(Token::Field(axis)),
            None => unknown = true,
        }
    }
    match (varying.len(), unknown) {
        (0, _) if names.len() > 1 && !order => unclear("the names of the files do not differ"),
        (0 | 1, true) | (0, _) => Ok(None),
        (_, false) => Ok(Some(tokens)),
        (_, true) if order => Ok(None),
        (n, true) => unclear(&format!("the names of the files differ in {n} numbers")),
    }
}

/// Suggests a pattern for these names: parts between `_`, `-` and the like that differ, by the letters before their
/// numbers; words are channels.
fn suggestion(names: &[String]) -> Option<String> {
    let is_between = |c: char| !c.is_ascii_alphanumeric();
    let split =
        |name: &'_ String| -> Vec<String> { name.split_inclusive(is_between).map(str::to_owned).collect() };
    let parts: Vec<Vec<String>> = names.iter().map(split).collect();
    let first = parts.first()?;
    if parts.iter().any(|p| p.len() != first.len()) {
        return None;
    }
    let mut pattern = String::new();
    for (i, part) in first.iter().enumerate() {
        let all: Vec<&str> = parts.iter().filter_map(|p| p.get(i)).map(String::as_str).collect();
        if all.iter().all(|p| p == part) {
            pattern.push_str(part);
            continue;
        }
        let end = part.chars().last().filter(|c| is_between(*c)).map_or(String::new(), String::from);
        let letters = part.chars().take_while(char::is_ascii_alphabetic).count();
        let (letters, rest) = part.split_at_checked(letters)?;
        let numbered = |p: &&str| {
            let digits = p.strip_prefix(letters).and_then(|p| p.strip_suffix(end.as_str()));
            digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
        };
        let is_numbered = !rest.is_empty() && all.iter().all(numbered);
        let field = match axis_of(&letters.to_ascii_lowercase()) {
            Some(axis) if is_numbered => ["{t}", "{c}", "{z}"].get(axis)?,
            None if is_numbered => ["{z}", "{t}", "{c}"].into_iter().find(|f| !pattern.contains(f))?,
            _ => "{c}",
        };
        if pattern.contains(field) {
            return None;
        }
        pattern.push_str(if is_numbered { letters } else { "" });
        pattern.push_str(field);
        pattern.push_str(&end);
    }
    parse(&pattern).ok().map(|_| pattern).filter(|p| !p.contains('\''))
}

/// The axis for a word before a number.
fn axis_of(word: &str) -> Option<usize> {
    match word {
        "t" | "time" | "tp" | "frame" => Some(T),
        "c" | "ch" | "channel" | "w" => Some(C),
        "z" | "slice" | "plane" => Some(Z),
        _ => None,
    }
}

/// Runs of digits and of other characters.
fn runs(mut name: &str) -> Vec<&str> {
    let next = || {
        let (run, after) = natural::split(name)?;
        name = after;
        Some(run)
    };
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pattern: &str, name: &str) -> Option<[Option<String>; 3]> {
        matched(&parse(pattern).unwrap(), name)
    }

    #[test]
    fn patterns_take_names_apart() {
        let some = |s: &str| Some(s.to_owned());
        assert_eq!(
            at("img_t{t:03}_c{c}_z{z:02}.tif", "img_t007_cGFP_z12.tif"),
            Some([some("007"), some("GFP"), some("12")])
        );
        assert_eq!(at("{c}_*_{z}.tif", "DAPI_x_y_3.tif"), Some([None, some("DAPI"), some("3")]));
        assert_eq!(at("a{z}.tif", "b1.tif"), None);
        assert_eq!(at("a{z}.tif", "a.tif"), None);
        for bad in ["a{q}.tif", "a{z", "a.tif", "{z}{t}", "{z}_{z}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stars_and_question_marks() {
        for (like, name, wanted) in [
            ("*.tif", "a.tif", true),
            ("*.tif", "a.tiff", false),
            ("a?c*", "abc", true),
            ("a*b*c", "aXbYbc", true),
            ("?", "", false),
            ("*", "", true),
        ] {
            assert_eq!(is_like(like, name), wanted, "{like} {name}");
        }
    }

    #[test]
    fn letters_before_numbers_say_what_they_are() {
        let names = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let found =
            guess(&names(&["s1_t00_z1.tif", "s1_t01_z1.tif", "s1_t00_z2.tif"]), false).unwrap().unwrap();
        assert!(
            found.contains(&Token::Field(T))
                && found.contains(&Token::Field(Z))
                && !found.contains(&Token::Field(C))
        );
        assert_eq!(guess(&names(&["a1.tif", "a2.tif"]), false).unwrap(), None);
        assert!(guess(&names(&["a1_1.tif", "a2_2.tif"]), false).is_err());
        assert!(guess(&names(&["x_t1.tif", "x_t2.tif"]), false).unwrap().is_some());
    }

    #[test]
    fn names_whose_order_means_nothing_are_refused_with_a_pattern_that_may_be_meant() {
        let names = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        for (list, wanted) in [
            (&["exp_t0_DAPI_z1.tif", "exp_t0_GFP_z1.tif", "exp_t1_DAPI_z2.tif"][..], "exp_t{t}_{c}_z{z}.tif"),
            (&["alice.tif", "bob.tif"], "{c}.tif"),
            (&["a1_1.tif", "a2_2.tif"], "a{z}_{t}.tif"),
            (&["one.tif", "two-more.tif"], "img_t{t}_{c}_z{z}.tif"),
            (&["same.tif", "same.tif"], "img_t{t}_{c}_z{z}.tif"),
        ] {
            let e = guess(&names(list), false).unwrap_err();
            assert_eq!(e.hints()[0].value.as_deref(), Some(wanted), "{list:?}: {e}");
            // It can be said that the order is what counts.
            assert_eq!(guess(&names(list), true).unwrap(), None, "{list:?}");
        }
    }

    #[test]
    fn folders_vary_too_unless_they_are_there() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["t1/img_z1.tif", "t1/img_z2.tif", "t2/img_z1.tif", "{t}x/img_z1.tif", "t3"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let expanded = |input: &str| {
            let (files, pattern) = expand(&[dir.path().join(input).to_str().unwrap().to_owned()]).unwrap();
            let below = |f: &PathBuf| f.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned();
            (files.iter().map(below).collect::<Vec<_>>(), pattern)
        };
        assert_eq!(
            expanded("t{t}/img_z{z}.tif"),
            (
                vec!["t1/img_z1.tif".into(), "t1/img_z2.tif".into(), "t2/img_z1.tif".into()],
                Some("t{t}/img_z{z}.tif".into())
            )
        );
        assert_eq!(
            expanded("{t}x/img_z{z}.tif"),
            (vec!["{t}x/img_z1.tif".into()], Some("img_z{z}.tif".into()))
        );
        assert_eq!(expanded("t?/img_z1.tif"), (vec!["t1/img_z1.tif".into(), "t2/img_z1.tif".into()], None));
    }

    #[test]
    fn gaps_in_numbers_are_seen_and_steps_are_not_gaps() {
        let line = |v: &[&str]| AxisNames::of(v.iter().map(|s| (*s).to_owned()).collect(), false).unwrap();
        assert_eq!(line(&["1", "2", "4"]).names, ["1", "2", "3", "4"]);
        assert_eq!(line(&["000", "010", "030"]).names, ["0", "10", "20", "30"]);
        assert_eq!(line(&["DAPI", "GFP"]).names, ["DAPI", "GFP"]);
    }
}
