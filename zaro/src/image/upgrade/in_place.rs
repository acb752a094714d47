//! Upgrades a hierarchy in place.
//!
//! New documents and chunks are written beside the old ones until all are verified (`hierarchy/transaction.rs`). So a
//! reader sees either the old or the new hierarchy; only if both have the same Zarr version, some groups may briefly be
//! new and some old. An upgrade that fails before anything old was changed is rolled back.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{NodeOutcome, UpgradePlan};
use super::run::UpgradeWork;
use super::tree::{UpgradeNode, UpgradeTree};
use super::{UpgradeOptions, Upgraded, broken};
use crate::boxed;
use crate::copy::Single;
use crate::error::{Error, ErrorKind, Result};
use crate::group::{OpenOptions, Zarr};
use crate::hierarchy::PendingChange;
use crate::image::version::{ImageVersion, Stated, stated};
use crate::journal::{Intent, Journal, Left, check_nodes};
use crate::meta::path::{ancestors, join, normal, shown};
use crate::meta::write::Stored;
use crate::meta::{Format, Json, NodeMeta, consolidate};
use crate::num;
use crate::store::SharedStore;
use crate::task::Operation;

const OPERATION: &str = "image upgrade --in-place";

/// Upgrades the hierarchy at `path` to another version in place.
///
/// Repeat a killed call to resume it.
#[boxed]
pub async fn upgrade_in_place(store: &SharedStore, path: &str, options: &UpgradeOptions) -> Result<Upgraded> {
    let _operation = Operation::begin("image upgrade", store);
    options.check()?;
    let root = normal(path)?;
    let placed = |e: Error| e.with_node(shown(&root)).with_store(store);
    let left = Left::find(store, &root).await?;
    if let Some(left) = &left {
        left.refuse_alive()?;
        if !left.is(OPERATION) {
            return Err(left.refusal(&[], false));
        }
        let begun = left.document.get("options").and_then(|o| o.get("to")).and_then(Json::as_str);
        if begun != Some(options.to.text()) {
            let begun = begun.unwrap_or("?");
            return Err(placed(Error::usage(format!(
                "an upgrade to {begun} is unfinished here; rerun it to finish it first"
            ))));
        }
        if options.dry_run {
            return Err(placed(Error::usage("an upgrade is unfinished here; rerun it to finish it first")));
        }
        if left.document.get("put").is_some() {
            let change = PendingChange::parse(&left.document, &root);
            let change =
                change.ok_or_else(|| placed(Error::invalid("the journal of the upgrade is damaged")))?;
            let journal = left.own().await?;
            change.put(store, &journal).await.map_err(placed)?;
            change.finish(store, &root, journal).await.map_err(placed)?;
            let mut report = report_of(&left.document, options.to);
            if options.verify {
                let tops = left.document.get("tops").and_then(Json::items).unwrap_or_default();
                let tops: Vec<String> = tops.iter().filter_map(Json::as_str).map(str::to_owned).collect();
                report.broken = broken(store, &root, &tops).await?;
            }
            return Ok(report);
        }
    }

    let known = left.as_ref().map(|l| separators(&l.document)).unwrap_or_default();
    let open = OpenOptions { use_consolidated: false, ..OpenOptions::default() };
    let zarr = Zarr::from_store(store.clone(), open).await?;
    let tree = UpgradeTree::gather(&zarr, &root, &known).await?;
    let plan = UpgradePlan::of(&tree, options.to, true, options.lossy)?;
    above(&zarr, &plan).await.map_err(placed)?;
    let copying = options.copying();
    let work = UpgradeWork { plan: &plan, from: store, to: store, root: &root, options: &copying };
    let single = Single::new(&copying, work.bytes()?);
    work.check(&single)?;
    let mut report = Upgraded::of(&plan)?;
    if options.dry_run || report.changed == 0 && plan.leaves.is_empty() && left.is_none() {
        return Ok(report);
    }

    let content = tree.content(store).exact();
    let source = content.json(&store.to_string()).await?;
    let intent = Intent { operation: OPERATION, source, options: options.json(), plan: plan.digest()? };
    let journal = match &left {
        // The new chunks come from the same source.
        Some(left) if left.differences(&intent).is_empty() => {
            report.resumed = true;
            left.own().await?
        }
        Some(left) => {
            // Nothing old was changed yet: discard the new chunks, and start again.
            PendingChange::default().undo(store, &work.brought(), left.own().await?).await?;
            Journal::create_for(store, &root, &intent).await?
        }
        None => Journal::create_for(store, &root, &intent).await?,
    };
    journal.set("separators", separators_json(&plan)).await?;
    let brought = async {
        // From here on, others see the journal; changes they made before it count.
        let is_array = |member: &UpgradeNode| matches!(member.node.meta, NodeMeta::Array(_));
        let kinds: Vec<(&str, bool)> =
            tree.members.iter().map(|(path, m)| (path.as_str(), is_array(m))).collect();
        check_nodes(store, &kinds).await?;
        let again = zarr.reopened().await?;
        content.same_documents(&UpgradeTree::gather(&again, &root, &known).await?.content(store))?;
        let single = single.with_journal(&journal, report.resumed);
        work.bring(&single).await?;
        if options.verify {
            work.verify(&single).await?;
        }
        content.unchanged(&intent.source).await
    };
    if let Err(e) = brought.await {
        // A cancelled upgrade can resume; an impossible one is rolled back.
        if !matches!(e.kind(), ErrorKind::Io | ErrorKind::Cancelled) && journal.write().await.is_ok() {
            PendingChange::default().undo(store, &work.brought(), journal).await?;
        }
        return Err(e);
    }
    let change = change(&plan)?;
    journal.keep("tops", plan.tops.iter().map(Json::string).collect());
    journal.keep("report", report.json());
    // After the last of these, it can be completed from the journal alone.
    let [delete, chunks, (put, documents)] = change.members();
    for (name, value) in [delete, chunks] {
        journal.keep(name, value);
    }
    journal.set(put, documents).await?;
    change.put(store, &journal).await?;
    change.finish(store, &root, journal).await?;
    if options.verify {
        work.look_again().await?;
        report.broken = broken(store, &root, &plan.tops).await?;
    }
    Ok(report)
}

/// Checks that groups above are compatible with the new version.
async fn above(zarr: &Zarr, plan: &UpgradePlan) -> Result<()> {
    for above in ancestors(&plan.root) {
        let Some(node) = zarr.direct_node(above).await? else { continue };
        let says = match stated(node.meta.attributes()) {
            Stated::Known(version, _) if version != plan.to => Some(format!("OME-Zarr {version}")),
            _ if node.meta.format() != plan.to.format() => {
                Some(format!("Zarr V{}", node.meta.format().number()))
            }
            _ => None,
        };
        if let Some(says) = says {
            return Err(Error::usage(format!(
                "it is part of {}, which is {says}; upgrade that, or upgrade to another location",
                shown(above)
            )));
        }
    }
    Ok(())
}

fn separators_json(plan: &UpgradePlan) -> Json {
    let separators = plan.separators.iter().map(|(path, s)| (path.clone(), Json::string(s.to_string())));
    Json::Object(separators.collect())
}

fn separators(journal: &Json) -> BTreeMap<String, char> {
    let all = journal.get("separators").and_then(Json::members).unwrap_or_default();
    all.iter().filter_map(|(path, s)| Some((path.clone(), s.as_str()?.chars().next()?))).collect()
}

/// The puts and deletions to do when all chunks are written.
fn change(plan: &UpgradePlan) -> Result<PendingChange> {
    let mut documents: BTreeMap<&str, (Stored, bool)> = BTreeMap::new();
    for (path, planned) in &plan.nodes {
        documents.insert(path, plan.documents(planned)?);
    }
    let kept: BTreeSet<String> = documents
        .iter()
        .flat_map(|(path, (stored, _))| stored.iter().map(|(name, _)| join(&join(&plan.root, path), name)))
        .collect();

    let mut last = Vec::new();
    let bare: Vec<(String, Stored)> =
        documents.iter().map(|(path, (stored, _))| ((*path).to_owned(), stored.clone())).collect();
    for group in &plan.consolidated {
        let (name, document) = consolidate::carrying(plan.to.format(), group, &bare)?;
        match documents.get_mut(group.as_str()) {
            Some(own) if plan.to.format() == Format::V3 => *own = (vec![(name, document)], true),
            _ => last.push((join(&join(&plan.root, group), name), document)),
        }
    }

    let mut put: Vec<(String, Json)> = Vec::new();
    // The root sorts first, so it is put last; and the document that makes a node follows its attributes.
    for (path, (stored, changed)) in documents.into_iter().rev() {
        if changed {
            let at = join(&plan.root, path);
            put.extend(stored.into_iter().rev().map(|(name, document)| (join(&at, name), document)));
        }
    }
    put.append(&mut last);
    Ok(PendingChange { put, delete: old_documents(plan, &kept), chunks: plan.leaves.clone() })
}

/// The keys of obsolete documents, those of the root first.
fn old_documents(plan: &UpgradePlan, kept: &BTreeSet<String>) -> Vec<String> {
    let names: &[&str] = match plan.was {
        Format::V3 => &["zarr.json"],
        Format::V2 => &[".zarray", ".zgroup", ".zattrs"],
    };
    let mut keys = Vec::new();
    if plan.was == Format::V2 && plan.to.format() != Format::V2 {
        let groups = plan.consolidated.iter().map(|group| join(&plan.root, group));
        keys.extend(groups.map(|group| join(&group, ".zmetadata")));
    }
    for path in &plan.old {
        let stays = match plan.nodes.get(&plan.relative(path)) {
            Some(planned) if plan.was == plan.to.format() && !plan.moves(path) => {
                let is_array = |meta: &NodeMeta| matches!(meta, NodeMeta::Array(_));
                planned.old.as_ref().map(is_array) == Some(matches!(planned.what, NodeOutcome::Array { .. }))
            }
            _ => false,
        };
        if !stays {
            keys.extend(names.iter().map(|name| join(path, name)).filter(|key| !kept.contains(key)));
        }
    }
    keys
}

/// The report of an upgrade that was completed from its journal.
fn report_of(journal: &Json, to: ImageVersion) -> Upgraded {
    let report = journal.get("report").cloned().unwrap_or(Json::Null);
    let number = |name: &str| {
        report.get(name).and_then(Json::as_u64).and_then(|n| num::usize_of(n).ok()).unwrap_or_default()
    };
    let flag = |name: &str| report.get(name).and_then(Json::as_bool).unwrap_or(false);
    let items = |name: &str| report.get(name).and_then(Json::items).unwrap_or_default();
    let from = report.get("from").and_then(Json::as_str).and_then(ImageVersion::parse).unwrap_or(to);
    let array = |json: &Json| {
        let fates = [super::Fate::Stay, super::Fate::Copy, super::Fate::Recode, super::Fate::Sample];
        let word = json.get("chunks")?.as_str()?;
        let fate = fates.into_iter().find(|f| f.text() == word)?;
        Some((json.get("path")?.as_str()?.to_owned(), fate))
    };
    Upgraded {
        from: if flag("seed") { ImageVersion::Seed } else { from },
        assumed: flag("assumed"),
        to,
        groups: number("groups"),
        arrays: items("arrays").iter().filter_map(array).collect(),
        changed: number("changed"),
        files: number("files"),
        notes: items("notes").iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        broken: Vec::new(),
        resumed: true,
    }
}
