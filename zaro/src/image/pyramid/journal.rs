//! What an unfinished pyramid leaves: which levels it was to have, and how many blocks of each pass are done.
//!
//! The journal is an object in the image's group, put before anything else and deleted after everything else. Blocks
//! after the count are made again, which changes nothing, since chunks are put whole.

use std::time::{Duration, Instant};

use crate::blocking::wait;
use crate::error::Result;
use crate::meta::Json;
use crate::meta::path::join;
use crate::store::{Condition, SharedStore};

/// The journal of levels.
pub(super) const LEVELS: &str = ".zaro-pyramid.json";

/// The journal of an image that is copied and gets levels then.
pub(super) const COPY: &str = ".zaro-pyramid-copy.json";

/// How often the count is put.
const EVERY: Duration = Duration::from_secs(2);

/// The journal of a pyramid.
#[derive(Debug)]
pub(super) struct Journal {
    store: SharedStore,
    key: String,
    document: Json,
    put: Instant,
}

impl Journal {
    /// The journal that an unfinished pyramid left in the group at `path`.
    pub(super) fn find(store: &SharedStore, path: &str, name: &str) -> Result<Option<Self>> {
        let key = join(path, name);
        let Some(bytes) = wait(store.get(&key, None))? else { return Ok(None) };
        // One that cannot be read is as good as none: its levels are made anew.
        let document = Json::parse(&bytes).map_or_else(|_| Json::object(), |d| d.value);
        Ok(Some(Self { store: store.clone(), key, document, put: Instant::now() }))
    }

    /// Begins a journal.
    pub(super) fn begin(
        store: &SharedStore,
        path: &str,
        name: &str,
        settings: &str,
        levels: &[String],
    ) -> Result<Self> {
        let mut document = Json::object();
        document.set("settings", Json::string(settings));
        document.set("levels", Json::Array(levels.iter().map(Json::string).collect()));
        document.set("done", Json::object());
        let mut journal = Self { store: store.clone(), key: join(path, name), document, put: Instant::now() };
        journal.write()?;
        Ok(journal)
    }

    /// Whether it is of a pyramid with these settings.
    pub(super) fn is_of(&self, settings: &str) -> bool {
        self.document.get("settings").and_then(Json::as_str) == Some(settings)
    }

    /// The paths of the levels that were to be made.
    pub(super) fn levels(&self) -> Vec<String> {
        let listed = self.document.get("levels").and_then(Json::items).unwrap_or_default();
        listed.iter().filter_map(Json::as_str).map(str::to_owned).collect()
    }

    /// How many blocks of a pass are done.
    pub(super) fn done(&self, pass: &str) -> u64 {
        self.document.get("done").and_then(|d| d.get(pass)).and_then(Json::as_u64).unwrap_or(0)
    }

    /// Notes how many blocks are done; not every time.
    pub(super) fn note(&mut self, pass: &str, done: u64) -> Result<()> {
        let mut counts = self.document.get("done").cloned().unwrap_or_else(Json::object);
        counts.set(pass, Json::int(done));
        self.document.set("done", counts);
        if self.put.elapsed() < EVERY {
            return Ok(());
        }
        self.write()
    }

    pub(super) fn write(&mut self) -> Result<()> {
        self.put = Instant::now();
        let text = self.document.pretty();
        let _ = wait(self.store.put(&self.key, text.into(), Condition::Always))?;
        Ok(())
    }

    /// Everything is whole.
    pub(super) fn end(self) -> Result<()> {
        wait(self.store.delete(&self.key))
    }
}
