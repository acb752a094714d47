//! Levels made from the largest one.
//!
//! [`plan()`] says which there will be; [`build`] makes them, and says so in the image's metadata when all are whole.

mod plan;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::array::OnProgress;
use crate::error::{Error, Result};
use crate::hierarchy::Existing;
use crate::meta::CodecMeta;
use crate::store::SharedStore;
pub use plan::{Factors, LevelPlan, plan};

/// How several pixels become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Their mean; of integers the nearest, half up.
    #[default]
    Mean,
    /// The most frequent value; of several, the smallest. For labels.
    Mode,
    /// A weighted mean of them and their neighbours, by a Gaussian bell around their centre.
    Gaussian,
    /// The first of them.
    Decimate,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mean, Self::Mode, Self::Gaussian, Self::Decimate];

    /// Its word.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Mode => "mode",
            Self::Gaussian => "gaussian",
            Self::Decimate => "decimate",
        }
    }

    /// From its word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.text() == text)
    }
}

/// How to make a pyramid. What is left out is as in the largest level.
#[derive(Clone, Default)]
pub struct PyramidOptions {
    /// How many levels there are to be, with the largest; until y and x are at most 256 long, if it is not said.
    pub levels: Option<usize>,
    /// How pixels become one; if it is not said, by their mean, but booleans and labels by their mode.
    pub method: Option<Method>,
    /// How much smaller each level is than the one above.
    pub factors: Factors,
    /// The shape of chunks; of inner ones, if there are shards. Levels that are smaller have smaller ones.
    pub chunks: Option<Vec<u64>>,
    /// The shape of shards; `Some(None)` for none.
    pub shards: Option<Option<Vec<u64>>>,
    /// The codecs, in encoding order.
    pub codecs: Option<Vec<CodecMeta>>,
    /// What to do with smaller levels that are there already.
    pub existing: Existing,
    /// Memory to use; 0 for the default.
    pub memory: usize,
    /// Told how far it has come, in bytes of the largest level.
    pub progress: Option<OnProgress>,
    /// Set it to stop. What is done stays, and the same call goes on later.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl fmt::Debug for PyramidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PyramidOptions")
            .field("levels", &self.levels)
            .field("method", &self.method)
            .field("factors", &self.factors)
            .field("chunks", &self.chunks)
            .field("shards", &self.shards)
            .field("codecs", &self.codecs)
            .finish_non_exhaustive()
    }
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The smaller levels: the paths of their arrays from the image's group, and their shapes.
    pub levels: Vec<(String, Vec<u64>)>,
    /// How pixels became one.
    pub method: Method,
    /// Whether an earlier call was taken up.
    pub resumed: bool,
}

/// Makes the smaller levels of the image whose group is at `path`, from its largest level, and then writes them into its
/// metadata. Everything else in the metadata stays. Blocks until it is done.
///
/// Readers see the new levels when all are whole. A call that was killed goes on when it is made again.
pub fn build(_store: &SharedStore, _path: &str, _options: &PyramidOptions) -> Result<Built> {
    Err(Error::unsupported("not built yet"))
}
