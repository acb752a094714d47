//! Copying an array by decoding and re-encoding it, block by block.

use std::sync::{Arc, Mutex};

use super::CopyRun;
use super::blocks::{BlockCutting, Blocks, CopyRoute};
use super::cells;
use super::scratch::ScratchFolder;
use super::target::{CopyRegion, CopyTarget};
use crate::array::{Array, ReadOptions, Selection, Slab, WriteOptions};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::meta::{ArrayMeta, Json, Mode, v3};
use crate::num;
use crate::store::local::LocalStore;
use crate::task::{self, Gaps, Task, Unit, lock};

/// Blocks in flight: while one is written, the other is read.
const AT_ONCE: usize = 2;

/// Fails if there is not enough memory for this copy.
pub(super) fn check(run: &CopyRun<'_>, source: &Array, made: &Array, target: &CopyTarget) -> Result<()> {
    if cells::cell(run, source, made, target).is_some() {
        return Ok(());
    }
    let (from, to) = (target.region.chunks(source.meta()), made.meta().grid.largest());
    let size = source.meta().data_type.size().max(made.meta().data_type.size());
    BlockCutting { shape: made.shape(), from: &from, to: &to, size }.way(run.memory / 6).map(drop)
}

/// Copies the part of `source` selected by `target` to `made`.
pub(super) async fn copy(run: &CopyRun<'_>, source: &Array, made: &Array, target: &CopyTarget) -> Result<()> {
    let from = target.region.chunks(source.meta());
    let to = made.meta().grid.largest();
    let size = item_size(run, source, made).await?;
    let cutting = BlockCutting { shape: made.shape(), from: &from, to: &to, size };
    if let Some(cell) = cells::cell(run, source, made, target) {
        return cells::copy(run, source, made, target, &cell).await;
    }
    // Two blocks, as much again while they are encoded, a quarter for the reader: just below all of it.
    let way = match cutting.way(run.memory / 6)? {
        // Temporary chunks support fixed-size elements only.
        CopyRoute::Between { write, .. } if source.meta().data_type.is_variable() => CopyRoute::Direct(write),
        way => way,
    };
    match way {
        CopyRoute::Direct(blocks) => {
            let path = progress_of(made, &blocks);
            write_blocks(run, &blocks, run.before(&path), Some(&path), source, target, made).await
        }
        CopyRoute::Between { read: reading, pieces, write: writing } => {
            let path = progress_of(made, &writing);
            let before = run.before(&path);
            if before >= writing.count()? {
                return Ok(());
            }
            // Temporary chunks are never shared with another run, which could have other elements.
            let scratch = ScratchFolder::new(run.options.temporary.as_deref())?;
            let between = between(&scratch, made.meta(), &pieces, &made.context().with_memory(1 << 20))?;
            write_blocks(run, &reading, 0, None, source, target, &between).await?;
            // Reading into temporary chunks does not count: progress is about what is written.
            run.meter.set(run.meter.done().saturating_sub(super::decoded_bytes(made.meta())?));
            let all = CopyTarget {
                meta: made.meta().clone(),
                region: CopyRegion::all(made.meta()),
                cast: None,
                verbatim: false,
                coordinates: None,
            };
            write_blocks(run, &writing, before, Some(&path), &between, &all, made).await
        }
    }
}

/// Reads and writes all blocks from `first` on. Progress is recorded under the name `part`.
async fn write_blocks(
    run: &CopyRun<'_>,
    blocks: &Blocks,
    first: u64,
    part: Option<&str>,
    source: &Array,
    target: &CopyTarget,
    made: &Array,
) -> Result<()> {
    // Nobody else writes to temporary chunks.
    let options = WriteOptions {
        assume_empty: true,
        single_writer: part.is_none(),
        task: run.options.task.without_progress(),
        ..WriteOptions::default()
    };
    let (options, gaps) = (&options, &Mutex::new(Gaps::new(first)));
    task::each(AT_ONCE, first..blocks.count()?, |i| async move {
        run.check().await?;
        let (start, count) = blocks.place(i);
        let slab = read(run, source, target, &start, &count).await?;
        made.write_slab(&Selection::start_count(&start, &count), slab.into(), options).await?;
        let done = lock(gaps).close(i);
        match part {
            Some(part) => run.note(part, done).await,
            None => Ok(()),
        }
    })
    .await
}

/// Memory per element, before or after the cast. Variable-length elements are estimated, but so that a chunk still
/// fits.
async fn item_size(run: &CopyRun<'_>, source: &Array, made: &Array) -> Result<usize> {
    let size = source.meta().data_type.size().max(made.meta().data_type.size());
    if !source.meta().data_type.is_variable() {
        return Ok(size);
    }
    let extents = made.meta().grid.largest();
    let chunk =
        extents.iter().zip(made.shape()).fold(1u64, |all, (chunk, n)| all.saturating_mul(*chunk.min(n)));
    let most = num::u64_of(run.memory / 8) / chunk.max(1);
    Ok(source.item_bytes().await?.min(usize::try_from(most).unwrap_or(usize::MAX)).max(size))
}

/// The name under which finished blocks are recorded. Their shape is part of it: with another memory budget it may
/// differ, and block numbers would mean something else.
pub(super) fn progress_of(made: &Array, blocks: &Blocks) -> String {
    let block: Vec<String> = blocks.block().iter().map(u64::to_string).collect();
    format!("{} {}", made.path(), block.join(","))
}

/// The elements of the copy at `start`, ready to be written.
async fn read(
    run: &CopyRun<'_>,
    source: &Array,
    target: &CopyTarget,
    start: &[u64],
    count: &[u64],
) -> Result<Slab> {
    let options = ReadOptions { task: run.options.task.without_progress(), ..ReadOptions::default() };
    let mut slab = source.read_slab(&target.region.part(start, count), &options).await?;
    let elements = num::product(count)?;
    if let Some(cast) = target.cast.clone() {
        let to = target.meta.data_type.clone();
        slab = source
            .context()
            .run(move || {
                slab.bytes = cast.apply(std::mem::take(&mut slab.bytes), elements)?;
                slab.data_type = to;
                Ok(slab)
            })
            .await?;
    }
    run.advance(elements.saturating_mul(num::u64_of(slab.data_type.size())));
    Ok(slab)
}

/// An array of uncompressed temporary chunks.
fn between(
    scratch: &ScratchFolder,
    like: &ArrayMeta,
    pieces: &[Vec<u64>],
    context: &Context,
) -> Result<Array> {
    if like.data_type.is_variable() {
        return Err(Error::unsupported("variable-length elements cannot be rechunked within this memory")
            .with_hint("memory", "of a greater size helps"));
    }
    // The elements are only bytes here, whatever they mean; the fill value is restored at the end.
    let lengths: Vec<Json> = pieces.iter().map(|p| Json::Array(p.iter().map(Json::int).collect())).collect();
    let mut grid = Json::object();
    grid.set("kind", Json::string("inline"));
    grid.set("chunk_shapes", Json::Array(lengths));
    let meta = ArrayMeta {
        grid: crate::meta::Grid::rectilinear(&grid, &like.shape)?,
        codecs: v3::codecs(
            &Json::parse(br#"[{"name":"bytes","configuration":{"endian":"little"}}]"#)?.value,
            "codecs",
        )?,
        keys: crate::meta::ChunkKeys { prefixed: true, separator: '/' },
        format: crate::meta::Format::V3,
        ..like.clone()
    };
    Array::new(Arc::new(LocalStore::new(scratch.path())), "", meta, Mode::Tolerant, Vec::new(), context)
}

/// Reads source and copy again and compares them bitwise.
pub(super) async fn verify(
    run: &CopyRun<'_>,
    source: &Array,
    made: &Array,
    target: &CopyTarget,
) -> Result<()> {
    let to = made.meta().grid.largest();
    let size = item_size(run, source, made).await?;
    let from = target.region.chunks(source.meta());
    let cutting = BlockCutting { shape: made.shape(), from: &from, to: &to, size };
    let blocks = match cutting.way(run.memory / 8) {
        Ok(CopyRoute::Direct(blocks)) => blocks,
        Ok(CopyRoute::Between { write, .. }) => write,
        // Reading does not need whole chunks.
        Err(_) => cutting.smaller(run.memory / 8),
    };
    let (blocks, quiet) =
        (&blocks, &CopyRun { meter: Task::default().meter(Unit::Bytes, None::<u64>), ..*run });
    task::each(AT_ONCE, 0..blocks.count()?, |i| async move {
        quiet.check().await?;
        let (start, count) = blocks.place(i);
        let want = read(quiet, source, target, &start, &count).await?;
        let part = Selection::start_count(&start, &count);
        let got = made.read_slab(&part, &ReadOptions::default()).await?;
        source
            .context()
            .run(move || match want.items().zip(got.items()).position(|(a, b)| a != b) {
                None if want.len() == got.len() => Ok(()),
                differs => {
                    let mut left = num::u64_of(differs.unwrap_or(0));
                    let mut at = start;
                    for (a, n) in at.iter_mut().zip(&count).rev() {
                        *a += left % (*n).max(1);
                        left /= (*n).max(1);
                    }
                    Err(Error::invalid(format!("the copy differs from the source at {at:?}")))
                }
            })
            .await
    })
    .await
}
