//! From one version of OME-Zarr to another: the whole hierarchy.
//!
//! Images with all their multiscales, labels and masks, `omero`, plates with their wells and fields, the root of a
//! `bioformats2raw.layout` and its `OME` group: every group is lifted from its version to the new one, and what
//! zaro has no word for stays. Chunks stay as they are where the codecs allow; in place they are not even moved, unless
//! the new version asks for other keys.
//!
//! | module | |
//! |---|---|
//! | `lift` | the attributes of a group |
//! | `tree` | what is there |
//! | `arrays`, `masks`, `moves`, `plan` | what it is to become |
//! | `run`, `sample` | elements, copied, coded anew, or taken from a mask; and compared |
//! | `in_place`, `elsewhere` | the order in which things are changed |

mod arrays;
mod elsewhere;
mod in_place;
pub(crate) mod lift;
mod masks;
mod moves;
mod plan;
mod run;
mod sample;
mod tree;

pub use elsewhere::upgrade;
pub use in_place::upgrade_in_place;

use crate::context::Context;
use crate::copy::CopyOptions;
use crate::error::{Error, Result};
use crate::hierarchy::{self, Existing};
use crate::image::validate::{self, FindingLevel, ImageFinding};
use crate::image::version::ImageVersion;
use crate::meta::Json;
use crate::meta::path::join;
use crate::store::SharedStore;
use crate::task::Task;
use plan::{Data, UpgradePlan};

/// How to upgrade.
#[derive(Debug, Clone, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct UpgradeOptions {
    /// The version wanted.
    pub to: ImageVersion,
    /// Leave out what the version cannot say; else it is an error.
    pub lossy: bool,
    /// Compare everything that was copied or coded anew with what it comes from, and look at all documents again.
    pub verify: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// What to do with what is in another place already.
    pub existing: Existing,
    /// Threads, connections and memory for it.
    pub context: Context,
    /// How it is watched, in bytes of elements, and stopped. It can go on later.
    pub task: Task,
}

impl Default for UpgradeOptions {
    fn default() -> Self {
        Self {
            to: ImageVersion::V05,
            lossy: false,
            verify: true,
            dry_run: false,
            existing: Existing::Refuse,
            context: Context::default(),
            task: Task::default(),
        }
    }
}

impl UpgradeOptions {
    fn copying(&self) -> CopyOptions {
        CopyOptions {
            existing: self.existing,
            context: self.context.clone(),
            task: self.task.clone(),
            ..CopyOptions::default()
        }
    }

    /// What decides about the result, in a form that stays the same from version to version.
    fn json(&self) -> Json {
        Json::from([("to", self.to.text().into()), ("lossy", self.lossy.into())])
    }

    /// Versions that can be written.
    fn check(&self) -> Result<()> {
        if self.to < ImageVersion::V02 {
            return Err(Error::unsupported("nothing is brought to 0.1; there are 0.2 to 0.6"));
        }
        Ok(())
    }
}

/// What the specification forbids in the groups `tops` of the hierarchy at `root`.
async fn broken(store: &SharedStore, root: &str, tops: &[String]) -> Result<Vec<ImageFinding>> {
    let zarr = hierarchy::open(store).await?;
    let mut broken = Vec::new();
    for top in tops {
        let report =
            validate::validate(&zarr, &join(root, top), &validate::ImageValidateOptions::default()).await?;
        broken.extend(report.findings.into_iter().filter(|f| f.level == FindingLevel::Must));
    }
    Ok(broken)
}

/// What becomes of an array's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// They stay where they are.
    Stay,
    /// They are copied as they are.
    Copy,
    /// They are coded anew.
    Recode,
    /// They are made of a mask.
    Sample,
}

impl Fate {
    /// In a word.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Stay => "stay",
            Self::Copy => "copy",
            Self::Recode => "recode",
            Self::Sample => "sample",
        }
    }
}

/// What was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgraded {
    /// The version it was.
    pub from: ImageVersion,
    /// Whether nothing states it.
    pub assumed: bool,
    /// The version it is.
    pub to: ImageVersion,
    /// Groups.
    pub groups: usize,
    /// Arrays, by their paths, and what becomes of their chunks.
    pub arrays: Vec<(String, Fate)>,
    /// Nodes whose documents are new.
    pub changed: usize,
    /// Files that are no part of a Zarr, copied along.
    pub files: usize,
    /// What was assumed, left out, or is worth knowing.
    pub notes: Vec<String>,
    /// Rules of the new version that the result breaks, as far as it was validated: faults that were there before.
    pub broken: Vec<ImageFinding>,
    /// Whether an earlier upgrade was taken up.
    pub resumed: bool,
}

impl Upgraded {
    fn of(plan: &UpgradePlan) -> Result<Self> {
        let fate = |data: &Data| match data {
            Data::Stay(_) => Fate::Stay,
            Data::Copy(_) => Fate::Copy,
            Data::Recode(_) => Fate::Recode,
            Data::Sample(_) => Fate::Sample,
        };
        let arrays: Vec<(String, Fate)> =
            plan.arrays().map(|(planned, _, data)| (planned.path.clone(), fate(data))).collect();
        let mut changed = 0;
        for planned in plan.nodes.values() {
            changed += usize::from(plan.documents(planned)?.1);
        }
        Ok(Self {
            from: plan.from,
            assumed: plan.assumed,
            to: plan.to,
            groups: plan.nodes.len() - arrays.len(),
            arrays,
            changed,
            files: 0,
            notes: plan.notes.clone(),
            broken: Vec::new(),
            resumed: false,
        })
    }

    /// How many arrays have this fate.
    #[must_use]
    pub fn count(&self, fate: Fate) -> usize {
        self.arrays.iter().filter(|(_, f)| *f == fate).count()
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        let array = |(path, fate): &(String, Fate)| {
            Json::from([("path", path.into()), ("chunks", fate.text().into())])
        };
        Json::from([
            ("from", self.from.text().into()),
            ("seed", (self.from == ImageVersion::Seed).into()),
            ("assumed", self.assumed.into()),
            ("to", self.to.text().into()),
            ("groups", self.groups.into()),
            ("changed", self.changed.into()),
            ("files", self.files.into()),
            ("arrays", self.arrays.iter().map(array).collect()),
            ("notes", (&self.notes).into()),
            ("broken", self.broken.iter().map(ImageFinding::json).collect()),
            ("resumed", self.resumed.into()),
        ])
    }
}
