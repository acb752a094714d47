//! The options of `zaro read` that say which part is wanted.

use clap::Args;
use zaro::array::Index;
use zaro::array::select::split_outside_brackets;
use zaro::meta::ArrayMeta;
use zaro::{Error, Result};

use crate::view::View;

/// Which part of an array.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Part {
    /// The first position in each dimension, such as 0,0,100
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', help_heading = "Selection")]
    start: Option<Vec<u64>>,
    /// How many positions in each dimension [default: to the end]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', help_heading = "Selection")]
    count: Option<Vec<u64>>,
    /// Python-like indexes: '0:10:2,:,5' or '[1,4,2],::-1'; a single number drops the dimension
    #[allow(rustdoc::broken_intra_doc_links, reason = "a help text with brackets")]
    #[arg(long, value_name = "INDEXES", allow_hyphen_values = true, conflicts_with_all = ["start", "count", "sel"], help_heading = "Selection")]
    select: Option<String>,
    /// Indexes by dimension name: time=3:9 or 'time=0,lat=10:20'; may be repeated
    #[arg(long, value_name = "NAME=INDEX", allow_hyphen_values = true, conflicts_with_all = ["start", "count"], help_heading = "Selection")]
    sel: Vec<String>,
}

impl Part {
    /// Whether nothing was said, so that the whole array is meant.
    pub(crate) fn is_whole(&self) -> bool {
        self.start.is_none() && self.count.is_none() && self.select.is_none() && self.sel.is_empty()
    }

    /// What these options ask of an array with these metadata.
    pub(crate) fn view(&self, meta: &ArrayMeta) -> Result<View> {
        let indexes = if let Some(text) = &self.select {
            split_outside_brackets(text).into_iter().map(Index::parse).collect::<Result<Vec<_>>>()?
        } else if !self.sel.is_empty() {
            named(&self.sel, meta)?
        } else if self.start.is_some() || self.count.is_some() {
            block(self.start.as_deref(), self.count.as_deref(), meta)?
        } else {
            Vec::new()
        };
        View::new(&indexes, meta)
    }
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

/// `--sel`.
fn named(items: &[String], meta: &ArrayMeta) -> Result<Vec<Index>> {
    let names = meta.dimension_names.as_deref().unwrap_or_default();
    let mut indexes = vec![Index::All; meta.shape.len()];
    for item in items.iter().flat_map(|text| split_outside_brackets(text)) {
        let Some((name, index)) = item.split_once('=') else {
            return Err(Error::usage(format!("{item:?} is not of the form NAME=INDEX")));
        };
        let name = name.trim();
        let mut found = names.iter().enumerate().filter(|(_, n)| n.as_deref() == Some(name)).map(|(d, _)| d);
        match (found.next(), found.next()) {
            (Some(d), None) => {
                let index = Index::parse(index)?;
                match indexes.get_mut(d) {
                    Some(slot) if *slot == Index::All => *slot = index,
                    _ => return Err(Error::usage(format!("the dimension {name:?} is named twice"))),
                }
            }
            (Some(_), Some(_)) => {
                return Err(Error::usage(format!("several dimensions are called {name:?}; use --select")));
            }
            (None, _) => {
                let known: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
                return Err(Error::usage(if known.is_empty() {
                    format!("there is no dimension {name:?}: the dimensions have no names; use --select")
                } else {
                    format!("there is no dimension {name:?}; there are {}", known.join(", "))
                }));
            }
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
