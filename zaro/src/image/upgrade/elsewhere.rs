//! Upgrades a hierarchy to another location; the source is not changed.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, TryStreamExt};

use super::plan::UpgradePlan;
use super::run::UpgradeWork;
use super::tree::{UpgradeTree, parent};
use super::{UpgradeOptions, Upgraded, broken};
use crate::boxed;
use crate::copy::Single;
use crate::error::{Error, ErrorKind, Result};
use crate::group::{OpenOptions, Zarr};
use crate::hierarchy::{self, Existing, Room};
use crate::journal::{Intent, Journal, Work};
use crate::meta::NodeMeta;
use crate::meta::path::{join, normal, shown};
use crate::store::{Condition, REPLACEMENT, SharedStore, StoreExt as _, is_journal};
use crate::task::Operation;

/// Files copied concurrently.
const AT_ONCE: usize = 8;

/// Names of metadata documents, which are not copied as files.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];

/// Converts the hierarchy at `from_path` of `source` to another version at `to_path` of `store`.
///
/// `name` is the address of the source, for the journal. An unfinished upgrade is resumed only if address, data and
/// options are the same.
#[boxed]
pub async fn upgrade(
    source: &Zarr,
    name: &str,
    from_path: &str,
    store: &SharedStore,
    to_path: &str,
    options: &UpgradeOptions,
) -> Result<Upgraded> {
    let _operation = Operation::begin("image upgrade", store);
    options.check()?;
    let (from_path, to_path) = (source.key_of(from_path)?, normal(to_path)?);
    // Consolidated metadata may be stale; it is used only if nodes cannot be listed.
    let own = if source.is_consolidated() && source.store().list("").await.is_ok() {
        let options = OpenOptions { use_consolidated: false, ..source.options().clone() };
        Some(Zarr::from_store(source.store().clone(), options).await?)
    } else {
        None
    };
    let was_consolidated = source.is_consolidated();
    let source = own.as_ref().unwrap_or(source);
    let tree = UpgradeTree::gather(source, &from_path, &BTreeMap::new()).await?;
    let plan = UpgradePlan::of(&tree, options.to, false, options.lossy)?;
    let files = files(source, &tree).await?;
    let copying = options.copying();
    // A dry run puts nothing, not even a probe.
    let existing = if options.dry_run { Existing::Refuse } else { options.existing };
    let room = Room::find(store, &to_path, existing).await?;
    let (made_in, root) = (room.store(), room.path());
    let work = UpgradeWork { plan: &plan, from: source.store(), to: made_in, root, options: &copying };
    let mut report = Upgraded::of(&plan)?;
    report.files = files.len();
    let total = work.bytes()?;
    work.check(&Single::new(&copying, total))?;
    hierarchy::check_place(store, &to_path, plan.to.format()).await?;
    let nodes: Vec<String> = tree.members.keys().cloned().collect();
    hierarchy::check_apart(source.store(), &from_path, &nodes, store, &to_path, existing).await?;
    if options.dry_run {
        return Ok(report);
    }
    let made: Vec<_> = plan.arrays().map(|(p, meta, _)| (join(&to_path, &p.path), meta)).collect();
    let made = made.iter().map(|(path, meta)| (path.as_str(), *meta));
    hierarchy::check_unused_below(store, &to_path, made, existing).await?;

    let content = tree.content(source.store());
    let intent = Intent {
        operation: "image upgrade",
        source: content.json(name).await?,
        options: options.json(),
        plan: plan.digest()?,
    };
    let again = source.reopened().await?;
    content.same_documents(
        &UpgradeTree::gather(&again, &from_path, &BTreeMap::new()).await?.content(source.store()),
    )?;
    let (journal, resumed) = Journal::begin(&Work {
        store,
        path: &to_path,
        intent: &intent,
        existing: options.existing,
        whole: true,
        aside: room.is_aside(),
        anew: false,
        ground: &room,
    })
    .await?;
    let single = Single::new(&copying, total).with_journal(&journal, resumed);
    report.resumed = resumed;
    work.bring(&single).await?;
    copy_files(source, &plan, made_in, root, &files).await?;
    if options.verify {
        work.verify(&single).await?;
    }
    content.unchanged(&intent.source).await?;
    // Check that the journal is still ours.
    journal.write().await?;
    // Leaves first: the hierarchy becomes visible with its root.
    for (path, planned) in plan.nodes.iter().rev() {
        let (stored, _) = plan.documents(planned)?;
        let to = join(root, path);
        let top = path.is_empty() && !(resumed && hierarchy::find(made_in, &to).await?.is_some());
        hierarchy::put_documents(made_in, &to, plan.to.format(), stored, top).await?;
    }
    // The root last: consolidated metadata do not include groups that have their own.
    let top = was_consolidated.then(String::new);
    for group in plan.consolidated.iter().filter(|g| !g.is_empty()).cloned().chain(top) {
        hierarchy::consolidate(made_in, &join(root, &group)).await?;
    }
    hierarchy::consolidate_above(made_in, root).await?;
    if options.verify {
        work.look_again().await?;
        report.broken = broken(made_in, root, &plan.tops).await?;
    }
    room.finish(&journal).await?;
    store.finish().await?;
    Ok(report)
}

/// The keys, from the root of the hierarchy, of all files that are neither documents nor chunks.
async fn files(source: &Zarr, tree: &UpgradeTree) -> Result<Vec<String>> {
    let root = &tree.root;
    let relative =
        |key: &str| key.strip_prefix(root.as_str()).unwrap_or(key).trim_start_matches('/').to_owned();
    let mut found = BTreeSet::new();
    let store = source.store();
    let listed = async {
        if !store.lists_all() {
            // Chunks are found by the grid; only other files need a listing.
            let is_array = |path: &str| {
                tree.members.get(path).is_some_and(|m| matches!(m.node.meta, NodeMeta::Array(_)))
            };
            let others = source.other_files(root, is_array).await?;
            if others.is_empty() {
                return Err(Error::unsupported("the store cannot list"));
            }
            found.extend(others.iter().filter(|key| is_file(tree, key)).map(|key| relative(key)));
            return Ok(());
        }
        let mut keys = store.keys(root);
        while let Some(entry) = keys.try_next().await? {
            if is_file(tree, &entry.key) {
                found.insert(relative(&entry.key));
            }
        }
        Ok::<_, Error>(())
    }
    .await;
    match listed {
        // On a web server, an error with a key is a directory that is not listed, among others that are.
        Err(e) if e.kind() == ErrorKind::Unsupported && (store.lists_all() || e.key().is_none()) => {
            // Other files may exist, but cannot be known.
            for (path, _) in tree.members.iter().filter(|(_, m)| m.group.layout) {
                let key = join(path, "OME/METADATA.ome.xml");
                if store.exists(&key).await? {
                    found.insert(relative(&key));
                }
            }
        }
        listed => listed?,
    }
    Ok(found.into_iter().collect())
}

fn is_file(tree: &UpgradeTree, key: &str) -> bool {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    if DOCUMENTS.contains(&name) && tree.members.contains_key(folder)
        || is_journal(name)
        || key.split('/').any(|part| part == REPLACEMENT)
    {
        return false;
    }
    let mut at = key;
    while let Some(above) = parent(at) {
        if let Some(NodeMeta::Array(meta)) = tree.members.get(above).map(|m| &m.node.meta) {
            let below = key.strip_prefix(above).unwrap_or(key).trim_start_matches('/');
            let rank = meta.shape.len();
            return meta.keys.index(below, rank).is_none()
                && meta.keys.other_separator().index(below, rank).is_none();
        }
        at = above;
    }
    true
}

async fn copy_files(
    source: &Zarr,
    plan: &UpgradePlan,
    store: &SharedStore,
    to: &str,
    files: &[String],
) -> Result<()> {
    stream::iter(files.iter().map(Ok::<_, Error>))
        .try_for_each_concurrent(AT_ONCE, |file| async move {
            let key = join(&plan.root, file);
            let Some(bytes) = source.store().get(&key, None).await? else {
                return Err(Error::conflict("this file was deleted concurrently, before it was copied")
                    .with_key(key)
                    .with_node(shown(&plan.root)));
            };
            let _ = store.put(&join(to, &plan.relative(&key)), bytes, Condition::Always).await?;
            Ok(())
        })
        .await
}
