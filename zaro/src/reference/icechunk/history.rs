//! The ancestry of snapshots: which came before which, and when.
//!
//! Version 2 of the format has it in the file `repo`; in version 1, each snapshot names the one before it.

use std::collections::BTreeSet;

use super::file::{self, FileKind};
use super::flat::{BufferBudget, FlatTable, Tables, need};
use super::id::Id;
use super::repo::Repo;
use crate::error::{Error, Result, not_found};
use crate::num::usize_of;
use crate::store::{SharedStore, StoreExt as _};
use crate::time::Time;

/// A snapshot in the history of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The snapshot.
    pub snapshot: Id,
    /// When it was written.
    pub time: Time,
    /// What its writer said about it.
    pub message: String,
}

/// A snapshot and the one before it.
#[derive(Debug, Clone)]
pub(super) struct Ancestor {
    pub(super) commit: Commit,
    parent: Option<Id>,
}

impl Repo {
    /// The snapshot `from` and those before it, newest first, up to the first for which `enough` holds. One that is no
    /// longer there, since it has expired, is the end.
    pub(super) async fn history(
        &self,
        from: Id,
        enough: impl Fn(&Commit) -> bool + Send,
    ) -> Result<Vec<Commit>> {
        let (mut out, mut seen, mut next) = (Vec::new(), BTreeSet::new(), Some(from));
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            let ancestor = match self {
                Self::Files(store) => read(store, id).await?,
                Self::Known { snapshots, .. } => {
                    let at = snapshots.binary_search_by_key(&id, |known| known.commit.snapshot).ok();
                    at.and_then(|at| snapshots.get(at).cloned())
                }
            };
            let Some(Ancestor { commit, parent }) = ancestor else { break };
            next = parent.filter(|_| !enough(&commit));
            out.push(commit);
        }
        Ok(out)
    }

    /// The newest of these snapshots that was there at a time.
    pub(super) async fn at(&self, from: Id, time: Time) -> Result<Id> {
        let history = self.history(from, |commit| commit.time <= time).await?;
        match history.last() {
            Some(commit) if commit.time <= time => Ok(commit.snapshot),
            Some(first) => Err(not_found!(
                "there was no snapshot yet at {time}; the first that is known is of {}",
                first.time
            )),
            None => Err(not_found!("the snapshot {from} does not exist")),
        }
    }
}

/// From the list in the file `repo`: sorted by id.
pub(super) fn known(all: Tables<'_>, budget: &mut BufferBudget) -> Result<Vec<Ancestor>> {
    let id = |table: &FlatTable<'_>| Ok::<_, Error>(Id(need(table.fixed(0)?, "the id of a snapshot")?));
    let one = |table: Result<FlatTable<'_>>| {
        let table = table?;
        let parent = match table.u32(1)? {
            u32::MAX => None,
            at => Some(id(&all.get(usize_of(u64::from(at))?)?)?),
        };
        let message = table.text(3)?;
        budget.take(message.map_or(0, str::len))?;
        Ok(Ancestor { commit: commit(id(&table)?, table.u64(2)?, message), parent })
    };
    let mut out: Vec<Ancestor> = all.iter().map(one).collect::<Result<_>>()?;
    out.sort_by_key(|ancestor| ancestor.commit.snapshot);
    Ok(out)
}

/// From the file of a snapshot itself; `None` if there is none.
async fn read(store: &SharedStore, id: Id) -> Result<Option<Ancestor>> {
    let key = format!("snapshots/{id}");
    let Some(bytes) = store.get(&key, None).await? else { return Ok(None) };
    let parsed = file::open(&bytes, FileKind::Snapshot).and_then(|payload| {
        let root = FlatTable::root(&payload)?;
        Ok(Ancestor { commit: commit(id, root.u64(3)?, root.text(4)?), parent: root.fixed(1)?.map(Id) })
    });
    parsed.map(Some).map_err(|e| e.with_key(key).with_store(store))
}

/// With the time in millionths of a second since 1970.
fn commit(snapshot: Id, micros: u64, message: Option<&str>) -> Commit {
    let seconds = i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX);
    let nanos = u32::try_from(micros % 1_000_000).unwrap_or(0).saturating_mul(1000);
    Commit { snapshot, time: Time::new(seconds, nanos), message: message.unwrap_or_default().to_owned() }
}
