//! What an unfinished copy leaves: where it came from, with which settings, and how far it got.
//!
//! The journal is an object in the destination, `.zaro-copy.json` beside the documents of the node that is made. It is
//! put before anything else and deleted after everything else. Blocks of an array are counted in order; those after the
//! count are copied again, which changes nothing, since chunks are put whole.

use std::time::{Duration, Instant};

use crate::blocking::wait;
use crate::error::{Error, Result};
use crate::hierarchy::{self, Existing};
use crate::meta::Json;
use crate::meta::path::{join, shown};
use crate::store::{Condition, SharedStore};

const NAME: &str = crate::group::UNFINISHED;

/// How often the count is put.
const EVERY: Duration = Duration::from_secs(2);

/// The journal of a copy.
pub(super) struct Journal {
    store: SharedStore,
    key: String,
    document: Json,
    put: Instant,
}

impl Journal {
    /// Takes up an unfinished copy of the same kind, and says so, or begins a new one where nothing is.
    pub(super) fn begin(
        store: &SharedStore,
        path: &str,
        source: &str,
        settings: &str,
        existing: Existing,
    ) -> Result<(Self, bool)> {
        let key = join(path, NAME);
        let placed = |e: Error| e.with_node(shown(path)).with_store(store);
        let mut document = Json::object();
        document.set("source", Json::string(source));
        document.set("settings", Json::string(settings));
        document.set("done", Json::object());
        let mut journal = Self { store: store.clone(), key, document, put: Instant::now() };
        let old = match wait(store.get(&journal.key, None))? {
            Some(bytes) => Json::parse(&bytes).ok().map(|d| d.value),
            None => None,
        };
        if let Some(old) = old {
            let same = |name| old.get(name) == journal.document.get(name);
            if same("source") && same("settings") {
                journal.document = old;
                return Ok((journal, true));
            }
            if existing == Existing::Refuse {
                let of = old.get("source").and_then(Json::as_str).unwrap_or("something");
                return Err(placed(Error::usage(format!(
                    "an unfinished copy of {of}, or with other settings, is here; replace it with --overwrite"
                ))));
            }
        }
        match existing {
            Existing::Refuse => {
                if let Some(node) = wait(hierarchy::find(store, path))? {
                    return Err(placed(Error::usage(format!(
                        "there is {} here already; replace it with --overwrite",
                        if node.meta.kind() == "array" { "an array" } else { "a group" }
                    ))));
                }
            }
            Existing::Replace => wait(hierarchy::replace(store, path))?,
        }
        journal.write()?;
        Ok((journal, false))
    }

    /// What tells this copy from others: where it is made, and of what.
    pub(super) fn identity(&self) -> String {
        let text = |name: &str| self.document.get(name).map(Json::to_string).unwrap_or_default();
        format!("{} {} {} {}", self.store, self.key, text("source"), text("settings"))
    }

    /// How many blocks of an array are done.
    pub(super) fn done(&self, path: &str) -> u64 {
        self.document.get("done").and_then(|d| d.get(path)).and_then(Json::as_u64).unwrap_or(0)
    }

    /// Notes how many blocks are done; not every time.
    pub(super) fn note(&mut self, path: &str, done: u64) -> Result<()> {
        let mut counts = self.document.get("done").cloned().unwrap_or_else(Json::object);
        counts.set(path, Json::int(done));
        self.document.set("done", counts);
        if self.put.elapsed() < EVERY {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        self.put = Instant::now();
        let text = self.document.pretty();
        let _ = wait(self.store.put(&self.key, text.into(), Condition::Always))?;
        Ok(())
    }

    /// The copy is whole.
    pub(super) fn end(self) -> Result<()> {
        wait(self.store.delete(&self.key))
    }
}
