//! Data validation: reads and decodes every chunk.

use futures::TryStreamExt as _;

use super::Report;
use crate::array::windows::{ArrayView, ArrayWindow, Cutting};
use crate::array::{Array, Order, ReadOptions, Selection};
use crate::error::{Error, ErrorKind, Result};
use crate::group::Zarr;
use crate::meta::path::shown;
use crate::meta::{ArrayMeta, Finding, Level};
use crate::num;
use crate::store::StoreExt as _;
use crate::task::{Meter, Task};

/// Grids of more chunks than this are skipped.
const MOST_CHUNKS: u64 = 1 << 24;

/// Reads the array at `path` within the memory budget of `zarr`, and reports each chunk that cannot be read.
pub(super) async fn check(
    zarr: &Zarr,
    path: &str,
    report: &mut Report,
    task: &Task,
    meter: &Meter,
) -> Result<()> {
    let options = &ReadOptions { task: task.without_progress(), ..ReadOptions::default() };
    // Arrays that cannot be opened were reported already.
    let Ok(array) = zarr.array(path).await else { return Ok(()) };
    let meta = array.meta();
    let chunks = meta.grid.counts(&meta.shape).iter().fold(1u64, |all, n| all.saturating_mul(*n));
    if chunks > MOST_CHUNKS {
        let message = format!("{chunks} chunks are too many to check one by one; the data were not read");
        report.findings.push(finding("chunk/unread", path, message));
        return Ok(());
    }
    let view = ArrayView::new(&[], meta)?;
    let item_size = meta.data_type.size().max(1);
    let budget = zarr.options().store.context.memory().max(1 << 20) / 2;
    let cutting = Cutting { item_size, budget, order: Order::C, sequential: false };
    for window in view.windows(meta, cutting) {
        let read = array.read_slab(&view.narrowed(&window).selection()?, options).await;
        match read {
            Ok(_) => {}
            Err(e) if options.task.is_cancelled() => return Err(e),
            Err(e) => one_by_one(&array, &window, e, report, options).await?,
        }
        meter.advance(bytes(meta, &window.0.iter().map(|(_, n)| *n).collect::<Vec<_>>()));
    }
    report.chunks = Some(report.chunks.unwrap_or(0).saturating_add(chunks));
    trailing(&array, report).await
}

/// Reports chunk files with trailing bytes: the header of a blosc chunk has its length. Local files only, since
/// elsewhere this would take one more request per chunk.
async fn trailing(array: &Array, report: &mut Report) -> Result<()> {
    /// Offset of the compressed length in the blosc header.
    const LENGTH: u64 = 12;
    let (meta, store) = (array.meta(), array.store());
    let last = meta.codecs.last().map(|c| c.name.trim_start_matches("numcodecs.").trim_start_matches("v2."));
    let Some(direct) = store.direct().filter(|_| last == Some("blosc")) else { return Ok(()) };
    let mut entries = store.keys(array.path());
    while let Some(entry) = entries.try_next().await? {
        let below = entry.key.strip_prefix(array.path()).unwrap_or(&entry.key).trim_start_matches('/');
        if meta.keys.index(below, meta.shape.len()).is_none() {
            continue;
        }
        let Some(object) = direct.open(&entry.key)? else { continue };
        let mut length = [0; 4];
        // Chunks that are too short were reported already.
        if object.size() < LENGTH + 4 || object.read_at(LENGTH, &mut length).is_err() {
            continue;
        }
        let behind = object.size().saturating_sub(u32::from_le_bytes(length).into());
        if behind > 0 {
            let message = format!("{}: {behind} trailing bytes after the end of the chunk", entry.key);
            report.findings.push(finding("chunk/trailing", array.path(), message));
        }
    }
    Ok(())
}

/// The size in bytes of a box of this shape.
pub(super) fn bytes(meta: &ArrayMeta, shape: &[u64]) -> u64 {
    let size = num::u64_of(meta.data_type.size());
    shape.iter().fold(size, |all, n| all.saturating_mul(*n))
}

/// A box in an array: start and length along each dimension.
type Place = Vec<(u64, u64)>;

/// Checks, chunk by chunk, a window that could not be read as a whole; for shards, counts the broken inner chunks.
async fn one_by_one(
    array: &Array,
    window: &ArrayWindow,
    whole: Error,
    report: &mut Report,
    options: &ReadOptions,
) -> Result<()> {
    let meta = array.meta();
    let before = report.findings.len();
    let inner = meta.inner_chunks();
    let chunk_end = |d: usize, at: u64| {
        let (_, first, length) = meta.grid.axes().get(d)?.chunk_at(at)?;
        first.checked_add(length)
    };
    let inner_end = |d: usize, at: u64| {
        let length = inner.as_ref()?.get(d).filter(|n| **n > 0)?;
        (at / length + 1).checked_mul(*length)
    };
    for place in boxes(&window.0, &chunk_end) {
        let Some(e) = fault(array, &place, options).await? else { continue };
        let mut broken = 0u64;
        if inner.is_some() {
            for part in boxes(&place, &inner_end) {
                broken = broken.saturating_add(u64::from(fault(array, &part, options).await?.is_some()));
            }
        }
        let axes = place.iter().zip(meta.grid.axes());
        let index: Vec<u64> = axes.map(|((at, _), a)| a.chunk_at(*at).map_or(0, |(i, ..)| i)).collect();
        let rule = match e.kind() {
            ErrorKind::Io | ErrorKind::NotPermitted => "chunk/unreadable",
            ErrorKind::Unsupported => "chunk/unsupported",
            _ => "chunk/invalid",
        };
        let inside = if broken > 0 { format!(" (in {broken} of its inner chunks)") } else { String::new() };
        let key = e.key().map_or_else(|| meta.keys.key(array.path(), &index), str::to_owned);
        let message = format!("{key}: {}{inside}", e.message());
        report.findings.push(finding(rule, array.path(), message));
    }
    if report.findings.len() == before {
        // Each chunk by itself can be read, at least by now.
        report.findings.push(finding("chunk/unreadable", array.path(), whole.message().to_owned()));
    }
    Ok(())
}

/// Why the elements at a place cannot be read, if they cannot.
async fn fault(array: &Array, place: &[(u64, u64)], options: &ReadOptions) -> Result<Option<Error>> {
    let (start, count): (Vec<u64>, Vec<u64>) = place.iter().copied().unzip();
    match array.read_slab(&Selection::start_count(&start, &count), options).await {
        Ok(_) => Ok(None),
        Err(e) if options.task.is_cancelled() => Err(e),
        Err(e) => Ok(Some(e)),
    }
}

/// A box split at chunk borders; `end_of` gives the end of the chunk that holds a position.
fn boxes(place: &[(u64, u64)], end_of: &dyn Fn(usize, u64) -> Option<u64>) -> Vec<Place> {
    let mut boxes = vec![Vec::new()];
    for (d, (start, count)) in place.iter().enumerate() {
        let (mut at, end) = (*start, start.saturating_add(*count));
        let mut pieces = Vec::new();
        while at < end {
            let next = end_of(d, at).unwrap_or(end).clamp(at + 1, end);
            pieces.push((at, next - at));
            at = next;
        }
        let longer =
            |b: &Place| pieces.iter().map(|piece| [b.as_slice(), &[*piece]].concat()).collect::<Vec<_>>();
        boxes = boxes.iter().flat_map(longer).collect();
    }
    boxes
}

fn finding(rule: &'static str, path: &str, message: String) -> Finding {
    let level = if matches!(rule, "chunk/unread" | "chunk/trailing") { Level::Warning } else { Level::Error };
    Finding { rule, level, node: shown(path), field: String::new(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_end_where_chunks_do() {
        let ends = |d: usize, at: u64| if d == 0 { Some((at / 4 + 1) * 4) } else { None };
        let cut = boxes(&[(2, 7), (0, 3)], &ends);
        assert_eq!(cut, [[(2, 2), (0, 3)], [(4, 4), (0, 3)], [(8, 1), (0, 3)]]);
        assert_eq!(boxes(&[], &ends), [Vec::new()]);
    }
}
