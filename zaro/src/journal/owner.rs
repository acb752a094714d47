//! The owner of a journal: identifies a run of a process on a machine, and whether it is alive.
//!
//! A journal names its owner, so that the next run can tell a live owner from a dead one. A process is identified by
//! its PID and start time; the machine by its boot and its PID namespace (a container has its own). Nothing is known
//! about processes on other machines.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::context::PerProcess;
use crate::meta::Json;
use crate::process::{began, machine};

/// The active runs of this process, by token.
fn runs() -> MutexGuard<'static, BTreeSet<String>> {
    static RUNS: PerProcess<Mutex<BTreeSet<String>>> = PerProcess::new();
    RUNS.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run of this process; ends when dropped.
#[derive(Debug)]
pub(super) struct Owner {
    token: String,
}

impl Owner {
    pub(super) fn new() -> Self {
        let token = token();
        runs().insert(token.clone());
        Self { token }
    }

    /// For the journal.
    pub(super) fn json(&self) -> Json {
        let mut owner = Json::object();
        owner.set("token", Json::string(self.token.as_str()));
        owner.set("machine", machine().map_or(Json::Null, Json::string));
        owner.set("process", Json::int(std::process::id()));
        owner.set("began", began(std::process::id().into()).map_or(Json::Null, Json::int));
        owner
    }

    /// Whether a journal belongs to this run.
    pub(super) fn owns(&self, journal: &Json) -> bool {
        journal.get("owner").and_then(|o| o.get("token")).and_then(Json::as_str) == Some(&self.token)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        runs().remove(&self.token);
    }
}

/// Sixteen unpredictable bytes, as text.
pub(crate) fn token() -> String {
    let part = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        if let Ok(now) = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            hasher.write_u128(now.as_nanos());
        }
        hasher.finish()
    };
    format!("{:016x}{:016x}", part(), part())
}

/// Whether an owner is still running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// The process with this PID is running.
    Alive(u64),
    /// Certainly not running.
    Dead,
    /// It runs, or ran, on another machine.
    Unknown,
}

/// Whether the owner of a journal is still running.
pub(super) fn life(journal: &Json) -> Life {
    let text = |owner: &Json, name: &str| owner.get(name).and_then(Json::as_str).map(str::to_owned);
    let Some(owner) = journal.get("owner") else { return Life::Unknown };
    let (Some(number), Some(since)) =
        (owner.get("process").and_then(Json::as_u64), owner.get("began").and_then(Json::as_u64))
    else {
        return Life::Unknown;
    };
    if machine().is_none() || text(owner, "machine").as_deref() != machine() {
        return Life::Unknown;
    }
    if began(number) != Some(since) {
        return Life::Dead;
    }
    let own = number == u64::from(std::process::id());
    if own && !text(owner, "token").is_some_and(|token| runs().contains(&token)) {
        return Life::Dead;
    }
    Life::Alive(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(owner: &Owner) -> Json {
        let mut journal = Json::object();
        journal.set("owner", owner.json());
        journal
    }

    #[test]
    fn a_run_is_alive_until_it_is_over() {
        let owner = Owner::new();
        let journal = journal(&owner);
        assert!(owner.owns(&journal));
        assert!(!Owner::new().owns(&journal));
        assert_eq!(life(&journal), Life::Alive(std::process::id().into()));
        drop(owner);
        assert_eq!(life(&journal), Life::Dead);
    }

    #[test]
    fn other_processes_are_told_by_number_and_begin() {
        let changed = |name: &str, value: Json| {
            let mut journal = journal(&Owner::new());
            let mut owner = journal.get("owner").cloned().unwrap();
            owner.set(name, value);
            journal.set("owner", owner);
            life(&journal)
        };
        assert_eq!(changed("machine", Json::string("another")), Life::Unknown);
        assert_eq!(changed("machine", Json::Null), Life::Unknown);
        assert_eq!(changed("began", Json::int(1)), Life::Dead);
        assert_eq!(changed("process", Json::int(4_000_000_000_u64)), Life::Dead);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let since = began(child.id().into()).unwrap();
        let mut journal = journal(&Owner::new());
        let mut owner = journal.get("owner").cloned().unwrap();
        owner.set("process", Json::int(child.id()));
        owner.set("began", Json::int(since));
        journal.set("owner", owner);
        assert_eq!(life(&journal), Life::Alive(child.id().into()));
        child.kill().unwrap();
        // Dead, though nobody has asked for its end yet.
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(life(&journal), Life::Dead);
        child.wait().unwrap();
    }
}
