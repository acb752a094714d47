//! The options of `zaro read` and `zaro write` that say which part is meant.

use clap::Args;
use zaro::array::select::split_outside_brackets;
use zaro::array::{Index, Selection};
use zaro::meta::ArrayMeta;
use zaro::{Error, Result};

use zaro::array::windows::View;

/// Which part of an array.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Part {
    /// The first position in each dimension, such as 0,0,100
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_start, help_heading = "Selection")]
    start: Option<Vec<u64>>,
    /// How many positions in each dimension [default: to the end]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_count, help_heading = "Selection")]
    count: Option<Vec<u64>>,
    /// Python-like indexes: '0:10:2,:,5' or '[1,4,2],...,::-1'; a single number drops the dimension, ... stands for
    /// as many : as are missing
    #[allow(rustdoc::broken_intra_doc_links, reason = "a help text with brackets")]
    #[arg(long, value_name = "INDEXES", allow_hyphen_values = true, conflicts_with_all = ["start", "count", "sel"], help_heading = "Selection")]
    select: Option<String>,
    /// Indexes by dimension name: time=3:9 or 'time=0,lat=10:20', counted from 0, not values of coordinates; may be
    /// repeated
    #[arg(long, visible_alias = "isel", value_name = "NAME=INDEX", allow_hyphen_values = true, conflicts_with_all = ["start", "count"], help_heading = "Selection")]
    sel: Vec<String>,
}

impl Part {
    /// Whether nothing was said, so that the whole array is meant.
    pub(crate) fn is_whole(&self) -> bool {
        self.start.is_none() && self.count.is_none() && self.select.is_none() && self.sel.is_empty()
    }

    /// What these options ask of an array with these metadata.
    pub(crate) fn view(&self, meta: &ArrayMeta) -> Result<View> {
        self.view_of(meta, None)
    }

    /// The same, where `--start` without `--count` means as many positions as `count` says.
    pub(crate) fn view_of(&self, meta: &ArrayMeta, count: Option<&[u64]>) -> Result<View> {
        let indexes = if let Some(text) = &self.select {
            Selection::parse(text)?.indexes(meta)?
        } else if !self.sel.is_empty() {
            named(&self.sel, meta)?
        } else if self.start.is_some() || self.count.is_some() {
            let count = count.filter(|c| c.len() == meta.shape.len());
            block(self.start.as_deref(), self.count.as_deref().or(count), meta)?
        } else {
            Vec::new()
        };
        View::new(&indexes, meta)
    }
}

/// A number of `--start`. Other array programs count a negative one from the end, so it says what does that here.
fn parse_start(text: &str) -> std::result::Result<u64, String> {
    parse_whole(text, "a start must not be negative; --select counts from the end, as in --select '-1'")
}

/// A number of `--count`.
fn parse_count(text: &str) -> std::result::Result<u64, String> {
    parse_whole(text, "a count must not be negative; --select leaves out the end, as in --select ':-1'")
}

fn parse_whole(text: &str, negative: &str) -> std::result::Result<u64, String> {
    let text = text.trim();
    text.parse().map_err(|_| match text.strip_prefix('-') {
        Some(digits) if digits.parse::<u64>().is_ok() => negative.to_owned(),
        _ => "write one whole number a dimension, such as 0,10,20".to_owned(),
    })
}

/// `--start` and `--count`.
fn block(start: Option<&[u64]>, count: Option<&[u64]>, meta: &ArrayMeta) -> Result<Vec<Index>> {
    let rank = meta.shape.len();
    for (word, numbers) in [("--start", start), ("--count", count)] {
        if let Some(n) = numbers.map(<[u64]>::len).filter(|n| *n != rank) {
            return Err(Error::usage(format!("{word} has {n} numbers, the array {rank} dimensions")));
        }
    }
    let at = |numbers: Option<&[u64]>, d: usize| numbers.and_then(|v| v.get(d)).copied();
    Ok(meta
        .shape
        .iter()
        .enumerate()
        .map(|(d, extent)| {
            let start = at(start, d).unwrap_or(0);
            Index::Span(start, at(count, d).unwrap_or_else(|| extent.saturating_sub(start)))
        })
        .collect())
}

/// The index of one dimension. What looks like a date or a coordinate's value is told apart from a mistyped index.
fn position(name: &str, text: &str) -> Result<Index> {
    // Neither a minus sign behind a digit nor a point, a letter or a slash is part of an index.
    let inside = |w: &[u8]| matches!(w, [b'0'..=b'9', b'-'] | [b'0'..=b'9', b'.'] | [b'.', b'0'..=b'9']);
    let odd =
        text.contains(|c: char| c.is_alphabetic() || c == '/') || text.as_bytes().windows(2).any(inside);
    if odd {
        return Err(Error::usage(format!(
            "{name}={text}: --sel takes indexes, counted from 0, such as {name}=3 or {name}=3:9, not values; \
             `zaro read … {name} --cf --format csv --long` shows which index a value has"
        )));
    }
    Index::parse(text)
}

/// `--sel`.
fn named(items: &[String], meta: &ArrayMeta) -> Result<Vec<Index>> {
    let mut indexes = vec![Index::All; meta.shape.len()];
    for item in items.iter().flat_map(|text| split_outside_brackets(text)) {
        let Some((name, index)) = item.split_once('=') else {
            return Err(Error::usage(format!("{item:?} is not of the form NAME=INDEX")));
        };
        let name = name.trim();
        let d = meta.dimension(name)?;
        let index = position(name, index)?;
        match indexes.get_mut(d) {
            Some(slot) if *slot == Index::All => *slot = index,
            _ => return Err(Error::usage(format!("the dimension {name:?} is named twice"))),
        }
    }
    Ok(indexes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_do_not_separate() {
        assert_eq!(split_outside_brackets("0:2,[1,2],:"), ["0:2", "[1,2]", ":"]);
        assert_eq!(split_outside_brackets("3,"), ["3"]);
        assert!(split_outside_brackets("").is_empty());
    }
}
