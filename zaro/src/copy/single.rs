//! Copying single arrays, for operations with their own plan.

use super::target::{CopyRegion, CopyTarget};
use super::{CopyOptions, CopyRun, recode, verbatim};
use crate::array::Array;
use crate::error::Result;
use crate::journal::Journal;
use crate::task::Unit;

/// A copy of several arrays, without a journal of its own.
pub(crate) struct Single<'a> {
    pub(super) run: CopyRun<'a>,
    /// Whether an earlier copy is resumed: existing chunks stay.
    resumed: bool,
}

impl<'a> Single<'a> {
    /// A copy of arrays with `bytes` of elements in total.
    pub(crate) fn new(options: &'a CopyOptions, bytes: u64) -> Self {
        Self { run: run(options, bytes), resumed: false }
    }

    /// The same, with progress recorded in `journal`, which is resumed if `resumed`.
    pub(crate) fn with_journal(mut self, journal: &'a Journal, resumed: bool) -> Self {
        self.run.journal = Some(journal);
        self.resumed = resumed;
        self
    }

    /// Copies the elements of `source` to `made`, which has the same shape: chunks unchanged, or re-encoded.
    pub(crate) async fn copy(&self, source: &Array, made: &Array, as_they_are: bool) -> Result<()> {
        if as_they_are {
            return verbatim::copy(&self.run, source, made, self.resumed).await;
        }
        recode::copy(&self.run, source, made, &all(source, made)).await
    }

    /// Fails if there is not enough memory to re-encode the chunks.
    #[cfg(feature = "image")]
    pub(crate) fn check(&self, source: &Array, made: &Array) -> Result<()> {
        recode::check(&self.run, source, made, &all(source, made))
    }

    /// Reads both and compares every element.
    #[cfg(feature = "image")]
    pub(crate) async fn verify(&self, source: &Array, made: &Array) -> Result<()> {
        recode::verify(&self.run, source, made, &all(source, made)).await
    }

    /// An array was made in another way.
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
