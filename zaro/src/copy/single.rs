//! Arrays copied one by one, for those who have a plan of their own.

use super::target::{CopyRegion, CopyTarget};
use super::{CopyOptions, CopyRun, recode, verbatim};
use crate::array::Array;
use crate::error::Result;
use crate::journal::Journal;
use crate::task::Unit;

/// A copy of several arrays, whose journal somebody else keeps.
pub(crate) struct Single<'a> {
    pub(super) run: CopyRun<'a>,
    /// Whether an earlier copy is taken up: chunks that are there already stay.
    resumed: bool,
}

impl<'a> Single<'a> {
    /// A copy of arrays that have so many `bytes` of elements.
    pub(crate) fn new(options: &'a CopyOptions, bytes: u64) -> Self {
        Self { run: run(options, bytes), resumed: false }
    }

    /// The same, with what is done noted in `journal`, which was taken up if `resumed`.
    pub(crate) fn with_journal(mut self, journal: &'a Journal, resumed: bool) -> Self {
        self.run.journal = Some(journal);
        self.resumed = resumed;
        self
    }

    /// Copies the elements of `source` to `made`, which has the same shape: chunks as they are, or coded anew.
    pub(crate) async fn copy(&self, source: &Array, made: &Array, as_they_are: bool) -> Result<()> {
        if as_they_are {
            return verbatim::copy(&self.run, source, made, self.resumed).await;
        }
        recode::copy(&self.run, source, made, &all(source, made)).await
    }

    /// Fails if there is not enough memory to code the chunks anew.
    #[cfg(feature = "image")]
    pub(crate) fn check(&self, source: &Array, made: &Array) -> Result<()> {
        recode::check(&self.run, source, made, &all(source, made))
    }

    /// Reads both and compares every element.
    #[cfg(feature = "image")]
    pub(crate) async fn verify(&self, source: &Array, made: &Array) -> Result<()> {
        recode::verify(&self.run, source, made, &all(source, made)).await
    }

    /// Somebody else has made an array.
    #[cfg(feature = "image")]
    pub(crate) async fn passed_over(&self, made: &Array) -> Result<()> {
        self.run.check().await?;
        self.run.advance(super::decoded_bytes(made.meta())?);
        Ok(())
    }
}

fn run(options: &CopyOptions, total: u64) -> CopyRun<'_> {
    CopyRun {
        options,
        memory: options.context.memory(),
        meter: options.task.meter(Unit::Bytes, total),
        journal: None,
    }
}

fn all(source: &Array, made: &Array) -> CopyTarget {
    let region = CopyRegion::all(source.meta());
    CopyTarget { meta: made.meta().clone(), region, cast: None, verbatim: false, coordinates: None }
}
