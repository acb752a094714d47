//! Executes an upgrade plan: copies, recodes or samples the elements of arrays, and verifies them.

use super::plan::{Data, NodeOutcome, PlannedNode, SourceArray, UpgradePlan};
use super::sample::{SampleTask, sample};
use crate::array::{Array, ReadOptions, Selection};
use crate::copy::{CopyOptions, Single, decoded_bytes};
use crate::error::{Error, Result};
use crate::group::{OpenOptions, Zarr};
use crate::hierarchy::Chunks;
use crate::meta::path::{join, shown};
use crate::meta::{ArrayMeta, Mode, NodeMeta};
use crate::store::SharedStore;
use crate::task;

/// Documents read concurrently.
const AT_ONCE: usize = 32;

/// A plan and its stores.
pub(super) struct UpgradeWork<'a> {
    pub(super) plan: &'a UpgradePlan,
    pub(super) from: &'a SharedStore,
    pub(super) to: &'a SharedStore,
    /// The root of the hierarchy in `to`.
    pub(super) root: &'a str,
    pub(super) options: &'a CopyOptions,
}

impl UpgradeWork<'_> {
    fn source(&self, source: &SourceArray) -> Result<Array> {
        let (path, meta) = (&source.path, source.meta.clone());
        Array::new(
            self.from.clone(),
            path,
            meta,
            Mode::Tolerant,
            Vec::new(),
            &self.options.context.share_of(4),
        )
    }

    fn made(&self, planned: &PlannedNode, meta: &ArrayMeta) -> Result<Array> {
        let path = join(self.root, &planned.path);
        Array::new(
            self.to.clone(),
            &path,
            meta.clone(),
            Mode::Tolerant,
            Vec::new(),
            &self.options.context.share_of(4),
        )
    }

    /// The bytes of all elements that are copied, recoded or sampled.
    pub(super) fn bytes(&self) -> Result<u64> {
        let moved = self.plan.arrays().filter(|(_, _, data)| !matches!(data, Data::Stay(_)));
        moved.map(|(_, meta, _)| decoded_bytes(meta)).try_fold(0, |sum: u64, n| Ok(sum.saturating_add(n?)))
    }

    /// Checks that everything can be done before anything is changed.
    pub(super) fn check(&self, single: &Single<'_>) -> Result<()> {
        for (planned, meta, data) in self.plan.arrays() {
            let (Data::Stay(source) | Data::Copy(source) | Data::Recode(source) | Data::Sample(source)) =
                data;
            let placed = |e: Error| e.with_node(shown(&planned.path));
            let made = self.made(planned, meta).map_err(placed)?;
            if let Data::Recode(_) | Data::Sample(_) = data {
                let source = self.source(source)?;
                if let Data::Recode(_) = data {
                    single.check(&source, &made).map_err(placed)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the elements of all arrays.
    pub(super) async fn bring(&self, single: &Single<'_>) -> Result<()> {
        for (planned, meta, data) in self.plan.arrays() {
            let done = match data {
                Data::Stay(_) => Ok(()),
                Data::Copy(source) => {
                    single.copy(&self.source(source)?, &self.made(planned, meta)?, true).await
                }
                Data::Recode(source) => {
                    single.copy(&self.source(source)?, &self.made(planned, meta)?, false).await
                }
                Data::Sample(source) => {
                    let made = self.made(planned, meta)?;
                    match sample(&self.source(source)?, &made, SampleTask::Write, &self.reading()).await {
                        Ok(()) => single.passed_over(&made).await,
                        e => e,
                    }
                }
            };
            done.map_err(|e| e.within(format_args!("writing {}", shown(&planned.path))))?;
        }
        Ok(())
    }

    /// For upgrades in place: the new chunks beside the old ones.
    pub(super) fn brought(&self) -> Vec<Chunks> {
        let new = |(planned, meta, data): (&PlannedNode, &ArrayMeta, &Data)| {
            let (Data::Copy(source) | Data::Recode(source) | Data::Sample(source)) = data else {
                return None;
            };
            let path = join(self.root, &planned.path);
            let moved = source.path != path || source.meta.keys != meta.keys;
            moved.then_some(Chunks { path, keys: meta.keys, rank: meta.shape.len() })
        };
        self.plan.arrays().filter_map(new).collect()
    }

    /// Reads the new elements again and compares them with their source; for arrays kept in place, compares one chunk
    /// read by both documents.
    pub(super) async fn verify(&self, single: &Single<'_>) -> Result<()> {
        for (planned, meta, data) in self.plan.arrays() {
            let made = self.made(planned, meta)?;
            let same = match data {
                Data::Stay(source) if source.meta.document == meta.document => Ok(()),
                Data::Stay(source) => corner(&self.source(source)?, &made).await,
                Data::Copy(source) | Data::Recode(source) => {
                    single.verify(&self.source(source)?, &made).await
                }
                Data::Sample(source) => {
                    sample(&self.source(source)?, &made, SampleTask::Verify, &self.reading()).await
                }
            };
            same.map_err(|e| e.within(format_args!("verifying {}", shown(&planned.path))))?;
        }
        Ok(())
    }

    fn reading(&self) -> ReadOptions {
        ReadOptions { task: self.options.task.without_progress(), ..ReadOptions::default() }
    }

    /// Reads all documents again, and checks that every node is as planned.
    pub(super) async fn look_again(&self) -> Result<()> {
        let format = Some(self.plan.to.format());
        let options = OpenOptions { format, use_consolidated: false, ..OpenOptions::default() };
        let zarr = Zarr::from_store(self.to.clone(), options).await?;
        let zarr = &zarr;
        task::each(AT_ONCE, self.plan.nodes.values(), |planned| async move {
            let path = join(self.root, &planned.path);
            let found = zarr.direct_node(&path).await?.map(|n| n.meta);
            let same = match (&planned.what, &found) {
                (NodeOutcome::Group(attributes), Some(NodeMeta::Group(group))) => {
                    group.attributes.members().unwrap_or_default() == attributes.members().unwrap_or_default()
                }
                (NodeOutcome::Array { meta, .. }, Some(NodeMeta::Array(array))) => {
                    array.shape == meta.shape
                        && array.data_type == meta.data_type
                        && array.codecs == meta.codecs
                        && array.fill == meta.fill
                }
                _ => false,
            };
            if same {
                return Ok(());
            }
            Err(Error::invalid("reading back gave different metadata than was written")
                .with_node(shown(&path)))
        })
        .await
    }
}

/// Compares the first chunk of an array read by two documents.
async fn corner(old: &Array, new: &Array) -> Result<()> {
    let chunk = new.meta().grid.largest();
    let count: Vec<u64> = chunk.iter().zip(new.shape()).map(|(c, n)| (*c).min(*n)).collect();
    let place = Selection::start_count(&vec![0; count.len()], &count);
    let options = ReadOptions::default();
    let (a, b) = (old.read_slab(&place, &options).await?, new.read_slab(&place, &options).await?);
    if a.len() == b.len() && a.items().eq(b.items()) {
        return Ok(());
    }
    Err(Error::invalid("its first chunk has different elements when read back"))
}
