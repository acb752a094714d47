//! Resolves branches and tags of an Icechunk repository to snapshots.
//!
//! Version 1 of the format keeps each in a file of its own, `refs/branch.NAME/ref.json`; a deleted tag has a
//! `ref.json.deleted` beside it. Version 2 keeps all in one file, `repo`.

use futures::stream::{StreamExt, TryStreamExt};

use super::config::{self, Container};
use super::file::{self, FileKind};
use super::flat::{BufferBudget, FlatTable, Tables, need};
use super::history::{self, Ancestor};
use super::id::Id;
use crate::error::{Error, ErrorKind, Result, not_found};
use crate::meta::json::Json;
use crate::num::usize_of;
use crate::store::{SharedStore, StoreExt as _, check_key, percent_decode};
use crate::time::Time;

/// The file that only version 2 has.
const REPO: &str = "repo";
const FOLDER: &str = "refs";

/// Maximum names listed in an error.
const NAMES: usize = 20;

/// Small files requested concurrently.
const AT_ONCE: usize = 16;

/// A version of a repository: a branch, a tag or a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// The newest snapshot of a branch.
    Branch(String),
    /// The snapshot of a tag.
    Tag(String),
    /// A snapshot by its id, whether or not a branch or tag points to it.
    Snapshot(String),
    /// The snapshot of a branch that was the newest at a time: of those that its newest snapshot comes from.
    At(String, Time),
}

impl Default for Version {
    /// The branch that every repository has.
    fn default() -> Self {
        Self::Branch("main".to_owned())
    }
}

/// The branches and tags of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// The version of the format, 1 or 2.
    pub format: u8,
    /// Branches by name, each with its newest snapshot.
    pub branches: Vec<Named>,
    /// Tags by name, without those that were deleted.
    pub tags: Vec<Named>,
}

/// A branch or a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// The snapshot it points to.
    pub snapshot: Id,
}

/// Branch or tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Branch,
    Tag,
}

impl Sort {
    fn word(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Tag => "tag",
        }
    }

    fn many(self) -> &'static str {
        match self {
            Self::Branch => "branches",
            Self::Tag => "tags",
        }
    }
}

/// The refs of a repository, by format version.
#[derive(Debug)]
pub(super) enum Repo {
    /// Version 1: one request per ref.
    Files(SharedStore),
    /// Version 2: all in one file, already read.
    Known {
        versions: Versions,
        deleted: Vec<String>,
        /// Sorted by id.
        snapshots: Vec<Ancestor>,
        containers: Result<Vec<Container>>,
    },
}

impl Repo {
    /// Detects the version of the format.
    pub(super) async fn read(store: &SharedStore) -> Result<Self> {
        let at = |e: Error| e.with_key(REPO).with_store(store);
        match store.get(REPO, None).await? {
            None => Ok(Self::Files(store.clone())),
            Some(bytes) => file::open(&bytes, FileKind::Repo).and_then(|payload| known(&payload)).map_err(at),
        }
    }

    /// Resolves a version to its snapshot.
    pub(super) async fn find(&self, at: &Version) -> Result<Id> {
        match at {
            Version::Branch(name) => self.named(Sort::Branch, name).await,
            Version::Tag(name) => self.named(Sort::Tag, name).await,
            Version::Snapshot(id) => Id::parse(id),
            Version::At(branch, time) => self.at(self.named(Sort::Branch, branch).await?, *time).await,
        }
    }

    async fn named(&self, sort: Sort, name: &str) -> Result<Id> {
        let (found, gone) = match self {
            Self::Files(store) => {
                let gone = sort == Sort::Tag && is_deleted(store, name).await?;
                (if gone { None } else { read_file(store, sort, name).await? }, gone)
            }
            Self::Known { versions, deleted, .. } => {
                let all = if sort == Sort::Branch { &versions.branches } else { &versions.tags };
                let found = all.iter().find(|n| n.name == name).map(|n| n.snapshot);
                (found, sort == Sort::Tag && deleted.iter().any(|d| d == name))
            }
        };
        match found {
            Some(id) if !gone => Ok(id),
            _ => Err(self.unknown(sort, name, gone).await),
        }
    }

    /// The error for an unknown branch or tag, with those that exist.
    async fn unknown(&self, sort: Sort, name: &str, gone: bool) -> Error {
        let names = match self {
            Self::Files(store) => names(store, sort).await.ok(),
            Self::Known { versions, .. } => {
                let all = if sort == Sort::Branch { &versions.branches } else { &versions.tags };
                Some(all.iter().map(|n| n.name.clone()).collect())
            }
        };
        let word = sort.word();
        let what = if gone { "was deleted" } else { "does not exist" };
        not_found!("the {word} {name:?} {what}{}", there(names, sort.many()))
    }

    /// The error for a snapshot that does not exist, with those that do.
    pub(super) async fn unknown_snapshot(&self, id: Id) -> Error {
        let ids = match self {
            Self::Files(store) => store.list("snapshots").await.ok().map(|l| l.objects),
            Self::Known { snapshots, .. } => {
                Some(snapshots.iter().map(|known| known.commit.snapshot.to_string()).collect())
            }
        };
        not_found!("the snapshot {id} does not exist{}", there(ids, "snapshots"))
    }

    /// All branches and tags.
    pub(super) async fn versions(&self) -> Result<Versions> {
        match self {
            Self::Known { versions, .. } => Ok(versions.clone()),
            Self::Files(store) => {
                let branches = read_all(store, Sort::Branch).await?;
                Ok(Versions { format: 1, branches, tags: read_all(store, Sort::Tag).await? })
            }
        }
    }

    /// The virtual chunk containers of the repository's configuration.
    pub(super) async fn containers(&self) -> Result<Vec<Container>> {
        match self {
            Self::Known { containers: Ok(known), .. } => Ok(known.clone()),
            Self::Known { containers: Err(e), .. } => Err(Error::new(e.kind(), e.message())),
            Self::Files(store) => match store.get("config.yaml", None).await? {
                Some(bytes) => {
                    config::from_yaml(&bytes).map_err(|e| e.with_key("config.yaml").with_store(store))
                }
                None => Ok(Vec::new()),
            },
        }
    }
}

/// Lists what exists instead; empty if unknown, since not every store can list.
fn there(names: Option<Vec<String>>, many: &str) -> String {
    let Some(names) = names else { return String::new() };
    if names.is_empty() {
        return format!("; there are no {many}");
    }
    let shown = names.iter().take(NAMES).map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; there {} {shown}{more}", if names.len() == 1 { "is" } else { "are" })
}

/// From the FlatBuffers of the file `repo`.
pub(super) fn known(payload: &[u8]) -> Result<Repo> {
    let root = FlatTable::root(payload)?;
    if let Some(status) = root.table(5)?
        && status.u8(0, 0)? == 2
    {
        let why = status.text(2)?.map(|why| format!(": {why}")).unwrap_or_default();
        return Err(Error::not_permitted(format!("the repository was taken offline by its owner{why}")));
    }
    let budget = &mut BufferBudget::of(payload);
    let snapshots = root.tables(4)?;
    let ancestry = history::known(snapshots, budget)?;
    let tags = refs(root.tables(1)?, &snapshots, budget)?;
    let branches = refs(root.tables(2)?, &snapshots, budget)?;
    let deleted = root.texts(3, budget)?;
    let containers = root.list(9, 1)?.map_or(Ok(Vec::new()), config::from_flex);
    Ok(Repo::Known {
        versions: Versions { format: 2, branches, tags },
        deleted,
        snapshots: ancestry,
        containers,
    })
}

fn refs(all: Tables<'_>, snapshots: &Tables<'_>, budget: &mut BufferBudget) -> Result<Vec<Named>> {
    let one = |table: Result<FlatTable<'_>>| {
        let table = table?;
        let name = need(table.text(0)?, "the name of a branch or tag")?.to_owned();
        budget.take(name.len())?;
        let snapshot = snapshots.get(usize_of(u64::from(table.u32(1)?))?)?;
        Ok(Named { name, snapshot: Id(need(snapshot.fixed(0)?, "the id of a snapshot")?) })
    };
    all.iter().map(one).collect()
}

/// The possible folders of a name: as it is, and as the library writes it to disk.
fn folders(sort: Sort, name: &str) -> Vec<String> {
    let plain = |c: u8| c.is_ascii_graphic() && !b"\\{^}%`]\">[~<#|*?".contains(&c) || c == b' ';
    let coded = |c: u8| if plain(c) { char::from(c).to_string() } else { format!("%{c:02X}") };
    let coded: String = name.bytes().map(coded).collect();
    let mut out = vec![format!("{FOLDER}/{}.{name}", sort.word())];
    if coded != name {
        out.push(format!("{FOLDER}/{}.{coded}", sort.word()));
    }
    // A name that leads somewhere else is the name of nothing.
    out.retain(|folder| !name.is_empty() && !name.contains('/') && check_key(folder).is_ok());
    out
}

async fn read_file(store: &SharedStore, sort: Sort, name: &str) -> Result<Option<Id>> {
    for folder in folders(sort, name) {
        let key = format!("{folder}/ref.json");
        if let Some(bytes) = store.get(&key, None).await? {
            return parse(&bytes).map(Some).map_err(|e| e.with_key(&key).with_store(store));
        }
    }
    Ok(None)
}

async fn is_deleted(store: &SharedStore, name: &str) -> Result<bool> {
    for folder in folders(Sort::Tag, name) {
        if store.exists(&format!("{folder}/ref.json.deleted")).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `{"snapshot": "…"}`
fn parse(bytes: &[u8]) -> Result<Id> {
    let document = Json::parse(bytes)?.value;
    let id = document.get("snapshot").and_then(Json::as_str);
    let id = id.ok_or_else(|| Error::invalid("the snapshot is missing").with_field("snapshot"))?;
    Id::parse(id).map_err(|e| Error::invalid(e.message()).with_field("snapshot"))
}

async fn names(store: &SharedStore, sort: Sort) -> Result<Vec<String>> {
    let folders = store.list(FOLDER).await?.prefixes;
    let name = |folder: String| {
        let name = folder.strip_prefix(sort.word())?.strip_prefix('.')?;
        percent_decode(name).or_else(|| Some(name.to_owned()))
    };
    let mut names: Vec<String> = folders.into_iter().filter_map(name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

async fn read_all(store: &SharedStore, sort: Sort) -> Result<Vec<Named>> {
    let names = names(store, sort).await?;
    let one = |name: String| async move {
        if sort == Sort::Tag && is_deleted(store, &name).await? {
            return Ok(None);
        }
        let found = read_file(store, sort, &name).await?;
        Ok::<_, Error>(found.map(|snapshot| Named { name, snapshot }))
    };
    futures::stream::iter(names)
        .map(one)
        .buffered(AT_ONCE)
        .try_filter_map(|n| async { Ok(n) })
        .try_collect()
        .await
}

/// Whether there is a repository in the store.
pub(super) async fn is_here(store: &SharedStore) -> Result<bool> {
    match store.get(REPO, Some(crate::store::ByteRange::span(0, 12))).await {
        Ok(Some(head)) if file::is_ours(&head) => return Ok(true),
        // A file of that name that is shorter is something else.
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::Invalid => {}
        Err(e) => return Err(e),
    }
    store.exists("refs/branch.main/ref.json").await
}
