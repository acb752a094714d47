//! Converts a whole hierarchy from one OME-Zarr version to another.
//!
//! Images with all their multiscales, labels and masks, `omero`, plates with their wells and fields, the root of a
//! `bioformats2raw.layout` and its `OME` group: every group is converted to the new version, and unknown keys are kept.
//! Chunks are copied verbatim if the codecs allow; in place they are not even moved, unless the new version requires
//! other chunk keys.
//!
//! | module | |
//! |---|---|
//! | `lift` | the attributes of a group |
//! | `tree` | the existing hierarchy |
//! | `arrays`, `masks`, `moves`, `plan` | the planned hierarchy |
//! | `run`, `sample` | elements: copied, recoded, or sampled from a mask; and verified |
//! | `in_place`, `elsewhere` | the order of changes |

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

/// Options for an upgrade.
#[derive(Debug, Clone, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct UpgradeOptions {
    /// The target version.
    pub to: ImageVersion,
    /// Drop metadata that the target version cannot express; otherwise it is an error.
    pub lossy: bool,
    /// Compare all copied or recoded elements with their source, and read all documents again.
    pub verify: bool,
    /// Only report what would be done.
    pub dry_run: bool,
    /// What to do if the destination exists.
    pub existing: Existing,
    /// Threads, connections and memory for it.
    pub context: Context,
    /// Progress, in bytes of elements, and cancellation. It can be resumed.
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

    /// The options that affect the result, in a form that is stable across versions.
    fn json(&self) -> Json {
        Json::from([("to", self.to.text().into()), ("lossy", self.lossy.into())])
    }

    /// Checks that the target version can be written.
    fn check(&self) -> Result<()> {
        if self.to < ImageVersion::V02 {
            return Err(Error::unsupported("0.1 cannot be a target version; use 0.2 to 0.6"));
        }
        Ok(())
    }
}

/// Validates the groups `tops` of the hierarchy at `root`, and returns the violations.
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

/// What happens to an array's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// They are kept in place.
    Stay,
    /// They are copied verbatim.
    Copy,
    /// They are decoded and encoded again.
    Recode,
    /// They are sampled from a mask.
    Sample,
}

impl Fate {
    /// Its name.
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

/// The result of an upgrade, or of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgraded {
    /// The source version.
    pub from: ImageVersion,
    /// Whether it was inferred, since it is not stated.
    pub assumed: bool,
    /// The target version.
    pub to: ImageVersion,
    /// The number of groups.
    pub groups: usize,
    /// Arrays by path, and what happens to their chunks.
    pub arrays: Vec<(String, Fate)>,
    /// The number of nodes with changed documents.
    pub changed: usize,
    /// The number of other files that were copied.
    pub files: usize,
    /// Notes on what was inferred, dropped or is otherwise notable.
    pub notes: Vec<String>,
    /// Rules of the new version that the result violates, as far as it was validated: faults of the source.
    pub broken: Vec<ImageFinding>,
    /// Whether an earlier upgrade was resumed.
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

    /// The number of arrays with this fate.
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
