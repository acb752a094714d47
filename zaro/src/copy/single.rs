//! Arrays copied one by one, for those who have a plan of their own.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::journal::Journal;
use super::target::{Region, Target};
use super::{CopyOptions, Run, decoded_bytes, recode, verbatim};
use crate::array::{Array, DEFAULT_MEMORY};
use crate::error::Result;
use crate::store::SharedStore;
use crate::store::memory::MemoryStore;

/// A copy of several arrays.
pub(crate) struct Single<'a> {
    run: Run<'a>,
    journal: Journal,
    /// Whether an earlier copy is taken up.
    pub(crate) resumed: bool,
}

impl<'a> Single<'a> {
    /// A copy to `path` of `store`, where a journal is kept; see [`copy`](super::copy). `bytes` are those of all
    /// elements.
    pub(crate) fn begin(
        options: &'a CopyOptions,
        bytes: u64,
        store: &SharedStore,
        path: &str,
        source: &str,
        settings: &str,
    ) -> Result<Self> {
        let (journal, resumed) = Journal::begin(store, path, source, settings, options.existing)?;
        Ok(Self { run: run(options, bytes), journal, resumed })
    }

    /// A copy whose journal somebody else keeps. If it is `resumed`, chunks that are there already stay.
    pub(crate) fn unkept(options: &'a CopyOptions, bytes: u64, resumed: bool) -> Result<Self> {
        let nowhere: SharedStore = Arc::new(MemoryStore::new());
        let (journal, _) = Journal::begin(&nowhere, "", "", "", options.existing)?;
        Ok(Self { run: run(options, bytes), journal, resumed })
    }

    /// Copies the elements of `source` to `made`, which has the same shape: chunks as they are, or coded anew.
    pub(crate) fn copy(&mut self, source: &Array, made: &Array, as_they_are: bool) -> Result<()> {
        if as_they_are {
            return verbatim::copy(&self.run, source, made, self.resumed);
        }
        recode::copy(&self.run, source, made, &all(source, made), &mut self.journal)
    }

    /// Fails if there is not enough memory to code the chunks anew.
    pub(crate) fn check(&self, source: &Array, made: &Array) -> Result<()> {
        recode::check(&self.run, source, made, &all(source, made))
    }

    /// Reads both and compares every element.
    pub(crate) fn verify(&self, source: &Array, made: &Array) -> Result<()> {
        recode::verify(&self.run, source, made, &all(source, made))
    }

    /// Somebody else has made an array.
    pub(crate) fn passed_over(&self, made: &Array) -> Result<()> {
        self.run.check()?;
        self.run.advance(decoded_bytes(made.meta())?);
        Ok(())
    }

    /// Everything is whole.
    pub(crate) fn end(self) -> Result<()> {
        self.journal.end()
    }
}

fn run(options: &CopyOptions, total: u64) -> Run<'_> {
    let memory = if options.memory == 0 { DEFAULT_MEMORY } else { options.memory };
    Run { options, memory, done: AtomicU64::new(0), total }
}

fn all(source: &Array, made: &Array) -> Target {
    let region = Region::all(source.meta());
    Target { meta: made.meta().clone(), region, cast: None, verbatim: false }
}
