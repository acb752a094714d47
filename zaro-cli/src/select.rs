//! The selection options of `zaro read`, `zaro write` and `zaro copy`.

use std::fs::File;
use std::sync::OnceLock;

use clap::Args;
use zaro::array::ArrayView;
use zaro::coords::{self, LabelValues, Lookup, MatchMethod, Points};
use zaro::meta::ArrayMeta;
use zaro::{Array, Error, Index, Result, Selection, Zarr};

use crate::path::word;

/// Dimensions by name, by index and by value.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Named {
    /// Values of coordinates by dimension name, as in xarray: time=2000-07,lat=-10:10,lon=150.5 or 'station=[a,b]'; slices
    /// include both ends; may be repeated
    #[arg(long, value_name = "NAME=VALUE", allow_hyphen_values = true, help_heading = "Selection")]
    pub(crate) sel: Vec<String>,
    /// Positions by dimension name, counted from 0: time=3:9 or 'time=0,lat=[1,5]'; may be repeated
    #[arg(long, value_name = "NAME=INDEX", allow_hyphen_values = true, help_heading = "Selection")]
    pub(crate) isel: Vec<String>,
    /// How --sel matches a value that is not exactly there: exact (an error), nearest, pad (the one before), backfill
    #[arg(long, value_parser = word(METHODS), value_name = "METHOD", default_value = "exact", hide_possible_values = true, help_heading = "Selection")]
    method: MatchMethod,
    /// Maximum distance of a match: a number, or a time span, e.g. 12h
    #[arg(long, value_name = "DISTANCE", help_heading = "Selection")]
    tolerance: Option<String>,
}

/// The values of `--method`.
const METHODS: &[(&str, &str, MatchMethod)] = &[
    ("exact", "", MatchMethod::Exact),
    ("nearest", "", MatchMethod::Nearest),
    ("pad|ffill", "", MatchMethod::Pad),
    ("backfill|bfill", "", MatchMethod::Backfill),
];

impl Named {
    /// Whether no option was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.sel.is_empty() && self.isel.is_empty()
    }

    /// How values are looked up.
    pub(crate) fn lookup(&self) -> Lookup {
        Lookup { method: self.method, tolerance: self.tolerance.clone() }
    }

    pub(crate) fn labels(&self) -> Result<LabelValues> {
        LabelValues::parse(&self.sel, self.lookup())
    }

    pub(crate) fn indexes(&self) -> Result<Vec<(String, Index)>> {
        Selection::parse_named(&self.isel)
    }
}

/// Which part of an array.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ArrayPart {
    /// The first position in each dimension, such as 0,0,100
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_start, help_heading = "Selection")]
    start: Option<Vec<u64>>,
    /// How many positions in each dimension [default: to the end]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_count, help_heading = "Selection")]
    count: Option<Vec<u64>>,
    /// Python-like indices: '0:10:2,:,5' or '[1,4,2],...,::-1'; a single number drops the dimension, ... stands for
    /// as many : as are missing
    #[allow(rustdoc::broken_intra_doc_links, reason = "a help text with brackets")]
    #[arg(long, value_name = "INDEXES", allow_hyphen_values = true, conflicts_with_all = ["start", "count"], help_heading = "Selection")]
    select: Option<String>,
    #[command(flatten)]
    pub(crate) named: Named,
    /// The indices that names and values resolve to, once looked up.
    #[arg(skip)]
    found: OnceLock<Vec<Index>>,
}

impl ArrayPart {
    /// Whether no option was given, so that the whole array is selected.
    pub(crate) fn is_whole(&self) -> bool {
        self.start.is_none() && self.count.is_none() && self.select.is_none() && self.named.is_empty()
    }

    /// Resolves names and values in an array; must be called before [`Self::view`].
    pub(crate) async fn look_up(&self, zarr: &Zarr, array: &Array) -> Result<()> {
        if self.named.is_empty() {
            return Ok(());
        }
        if self.start.is_some() || self.count.is_some() || self.select.is_some() {
            return Err(Error::usage("--sel and --isel cannot be used with --select, --start or --count"));
        }
        let found = coords::indexes(zarr, array, &self.named.indexes()?, &self.named.labels()?).await?;
        let _ = self.found.set(found);
        Ok(())
    }

    /// The view of an array with these metadata that the options select.
    pub(crate) fn view(&self, meta: &ArrayMeta) -> Result<ArrayView> {
        self.view_of(meta, None)
    }

    /// The same, where `--start` without `--count` means as many positions as `count` says.
    pub(crate) fn view_of(&self, meta: &ArrayMeta, count: Option<&[u64]>) -> Result<ArrayView> {
        ArrayView::new(&self.indexes(meta, count)?, meta)
    }

    pub(crate) fn indexes(&self, meta: &ArrayMeta, count: Option<&[u64]>) -> Result<Vec<Index>> {
        if let Some(text) = &self.select {
            Selection::parse(text)?.indexes(meta)
        } else if self.start.is_some() || self.count.is_some() {
            let count = count.filter(|c| c.len() == meta.shape.len());
            block(self.start.as_deref(), self.count.as_deref().or(count), meta)
        } else {
            Ok(self.found.get().cloned().unwrap_or_default())
        }
    }
}

/// The points of `--points` or `--ipoints`: each NAME=VALUE,…, or a CSV file.
pub(crate) fn points(texts: &[String]) -> Result<Points> {
    match texts {
        [file] if !file.contains('=') => {
            let named = |e: Error| e.within(file);
            let mut input = File::open(file).map_err(|e| named(e.into()))?;
            Points::csv(&mut input).map_err(named)
        }
        texts => Points::parse(texts),
    }
}

/// Parses a number of `--start`. Other programs count negative ones from the end; the error names the option for that.
fn parse_start(text: &str) -> std::result::Result<u64, String> {
    parse_whole(text, "a start must not be negative; to count from the end, use --select '-1'")
}

/// A number of `--count`.
fn parse_count(text: &str) -> std::result::Result<u64, String> {
    parse_whole(text, "a count must not be negative; to leave out the end, use --select ':-1'")
}

fn parse_whole(text: &str, negative: &str) -> std::result::Result<u64, String> {
    let text = text.trim();
    text.parse().map_err(|_| match text.strip_prefix('-') {
        Some(digits) if digits.parse::<u64>().is_ok() => negative.to_owned(),
        _ => "expected one whole number per dimension, such as 0,10,20".to_owned(),
    })
}

/// `--start` and `--count`.
fn block(start: Option<&[u64]>, count: Option<&[u64]>, meta: &ArrayMeta) -> Result<Vec<Index>> {
    let rank = meta.shape.len();
    for (word, numbers) in [("--start", start), ("--count", count)] {
        if let Some(n) = numbers.map(<[u64]>::len).filter(|n| *n != rank) {
            return Err(Error::usage(format!("{word} has {n} numbers, but the array has {rank} dimensions")));
        }
    }
    let at = |numbers: Option<&[u64]>, d: usize| numbers.and_then(|v| v.get(d)).copied();
    let span = |(d, extent): (usize, &u64)| {
        let start = at(start, d).unwrap_or(0);
        Index::Span(start, at(count, d).unwrap_or_else(|| extent.saturating_sub(start)))
    };
    Ok(meta.shape.iter().enumerate().map(span).collect())
}
