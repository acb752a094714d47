//! `zaro resize`: change the shape of an array.

use std::time::Duration;

use clap::Args;
use zaro::internal::path::shown;
use zaro::meta::ArrayMeta;
use zaro::store::SharedStore;
use zaro::{Array, Error, Result, hierarchy};

use crate::args::{Common, Target};

/// Delay before a message says what is being waited for.
const PATIENCE: Duration = Duration::from_secs(3);

const EXAMPLES: &str = "\
Examples:
  zaro resize data.zarr temperature --shape 400,180,360
  zaro resize data.zarr temperature --axis time=+31
  zaro resize data.zarr temperature --axis time=365 --axis 1=-10

New elements read as the fill value. Elements cut off by shrinking are deleted, and do not come
back when the array grows again. Rerun the same command to resume a resize that was stopped.";

/// Change the shape of an array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Resize {
    #[command(flatten)]
    target: Target,
    /// New shape, one number per dimension
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        conflicts_with = "axis",
        required_unless_present = "axis"
    )]
    shape: Option<Vec<u64>>,
    /// One dimension by name or number: time=365, or time=+31 and time=-31 to grow and shrink; may be repeated
    #[arg(long, value_name = "DIM=N", allow_hyphen_values = true, value_parser = parse_change)]
    axis: Vec<(String, Change)>,
}

/// A change of one extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    To(u64),
    Grow(u64),
    Shrink(u64),
}

fn parse_change(text: &str) -> std::result::Result<(String, Change), String> {
    let parsed = text.split_once('=').and_then(|(name, n)| {
        let n = n.trim();
        let change = match n.chars().next()? {
            '+' => Change::Grow(n.get(1..)?.parse().ok()?),
            '-' => Change::Shrink(n.get(1..)?.parse().ok()?),
            _ => Change::To(n.parse().ok()?),
        };
        Some((name.trim().to_owned(), change))
    });
    parsed.ok_or_else(|| "expected a dimension and its extent, such as time=365 or time=+31".into())
}

/// The index of a dimension given by its name or number.
pub(crate) fn dimension(name: &str, meta: &ArrayMeta) -> Result<usize> {
    match (meta.dimension(name), name.parse::<usize>()) {
        (Err(_), Ok(d)) if d < meta.shape.len() => Ok(d),
        _ if meta.shape.is_empty() => Err(Error::usage(
            "the array has no dimensions (it is a scalar), so it can be neither resized nor appended to",
        )),
        (found, _) => found.map_err(|e| {
            let last = meta.shape.len().saturating_sub(1);
            Error::usage(format!("{}; or use its number, from 0 to {last}", e.message()))
        }),
    }
}

/// Changes the shape of the array at `path`, with a message if it has to wait long for another writer.
pub(crate) async fn patiently<T>(
    common: &Common,
    store: &SharedStore,
    path: &str,
    change: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut change = std::pin::pin!(change);
    tokio::select! {
        done = &mut change => return done,
        () = tokio::time::sleep(PATIENCE) => {}
    }
    // Who cannot be asked is no reason to fail.
    if let Ok(Some(who)) = hierarchy::waits_for(store, path).await {
        common.say(&format!("{}: waiting for {who} to finish resizing it", shown(path)));
    }
    change.await
}

impl Resize {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let (store, path) = common.open_for_writing(&self.target, false).await?;
        let array = common.zarr_in(&store).await?.array(&path).await?;
        let (resized, before) = match &self.shape {
            Some(shape) => {
                let change = hierarchy::resize(&store, &path, shape);
                (patiently(common, &store, &path, change).await?, array.shape().to_vec())
            }
            // Of what it is then: two who make it longer at the same time both get their share.
            None => {
                let change = hierarchy::resize_by(&store, &path, |old| changed(&array, old, &self.axis));
                patiently(common, &store, &path, change).await?
            }
        };
        store.finish().await?;
        common.note(&format!("{}: {:?} is now {:?}", shown(&path), before, resized.shape()));
        Ok(())
    }
}

fn changed(array: &Array, old: &[u64], changes: &[(String, Change)]) -> Result<Vec<u64>> {
    let mut shape = old.to_vec();
    let mut named = Vec::new();
    for (name, change) in changes {
        let d = dimension(name, array.meta())?;
        if named.contains(&d) {
            return Err(Error::usage(format!("dimension {name:?} is given twice")));
        }
        named.push(d);
        let Some(n) = shape.get_mut(d) else { continue };
        let new = match change {
            Change::To(n) => Some(*n),
            Change::Grow(by) => n.checked_add(*by),
            Change::Shrink(by) => n.checked_sub(*by),
        };
        *n = new.ok_or_else(|| {
            Error::usage(format!("dimension {name:?} has {n} positions and cannot shrink that much"))
        })?;
    }
    Ok(shape)
}
