//! Moves wells during an upgrade: before 0.4 their paths were free, such as `2020-10-10/A/1`; since then they are a row
//! and a column.

use std::collections::BTreeSet;

use super::tree::{UpgradeTree, parent};
use crate::image::version::{self, ImageVersion};
use crate::meta::path::{join, shown};
use crate::meta::{Json, NodeMeta};

/// The wells that move.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Old paths and new ones, from the root of the store.
    wells: Vec<(String, String)>,
    /// Groups that become empty.
    pub(super) emptied: BTreeSet<String>,
}

impl Moves {
    pub(super) fn of(tree: &UpgradeTree, to: ImageVersion, notes: &mut Vec<String>) -> Self {
        let mut moves = Self::default();
        if to < ImageVersion::V04 {
            return moves;
        }
        for (path, member) in tree.members.iter().filter(|(_, m)| m.version < ImageVersion::V04) {
            let Some(plate) = &member.group.plate else { continue };
            let mut places: Vec<(String, String)> = Vec::new();
            for well in &plate.wells {
                let (Some(row), Some(column)) = (plate.rows.get(well.row), plate.columns.get(well.column))
                else {
                    continue;
                };
                places.push((join(path, well.path.trim_matches('/')), join(path, &join(row, column))));
            }
            let distinct: BTreeSet<&String> = places.iter().map(|(_, new)| new).collect();
            let moved = || places.iter().filter(|(old, new)| old != new);
            let taken = moved().find(|(_, new)| tree.members.contains_key(new));
            if distinct.len() < places.len() || taken.is_some() {
                notes.push(format!(
                    "{}: several wells would move to the same row and column; they keep their paths",
                    shown(path)
                ));
                continue;
            }
            for (old, new) in moved() {
                notes.push(format!("{} moves to {}", shown(old), shown(new)));
            }
            let wells: Vec<(String, String)> = moved().cloned().collect();
            moves.wells.extend(wells);
        }
        moves.empty(tree);
        moves
    }

    fn empty(&mut self, tree: &UpgradeTree) {
        let moved = |path: &str| self.find(path).is_some();
        let mut emptied: BTreeSet<String> = BTreeSet::new();
        for (old, _) in &self.wells {
            let mut at = old.as_str();
            while let Some(above) = parent(at).filter(|p| !p.is_empty()) {
                let Some(member) = tree.members.get(above) else { break };
                let is_plain = match &member.node.meta {
                    NodeMeta::Group(group) => group.attributes.members().is_none_or(<[_]>::is_empty),
                    NodeMeta::Array(_) => false,
                };
                let left = tree.below(above).any(|(p, _)| !moved(p) && !emptied.contains(p));
                if !is_plain || left {
                    break;
                }
                emptied.insert(above.to_owned());
                at = above;
            }
        }
        self.emptied = emptied;
    }

    fn find<'a>(&'a self, path: &'a str) -> Option<(&'a str, &'a str)> {
        let (old, new) = self.wells.iter().find(|(old, _)| {
            path.strip_prefix(old.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })?;
        Some((path.get(old.len()..)?, new))
    }

    /// The new path of the node at `path`, if it moves.
    pub(super) fn new_path(&self, path: &str) -> Option<String> {
        self.find(path).map(|(rest, new)| format!("{new}{rest}"))
    }

    /// The attributes of a plate at `path`, with the new paths of its wells.
    pub(super) fn plate(&self, path: &str, attributes: &Json) -> Json {
        let plate = version::ome(attributes).get("plate").filter(|_| !self.wells.is_empty());
        let Some(plate) = plate.cloned() else { return attributes.clone() };
        let wells = plate.list("wells").iter().map(|well| {
            let mut well = well.clone();
            let old = well.text("path").map(|p| join(path, p.trim_matches('/')));
            if let Some(new) = old.and_then(|old| self.new_path(&old)) {
                let new = new.strip_prefix(path).unwrap_or(&new).trim_start_matches('/').to_owned();
                well.set("path", Json::string(new));
            }
            well
        });
        let wells = Json::Array(wells.collect());
        let (mut attributes, mut plate) = (attributes.clone(), plate);
        plate.set("wells", wells);
        version::edit_ome(&mut attributes, |ome| ome.set("plate", plate));
        attributes
    }
}
