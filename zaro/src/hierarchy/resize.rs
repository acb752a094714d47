//! Resizing and appending to arrays, safely with concurrent writers.
//!
//! Elements in chunks beyond the end of an array belong to nobody, and must never become visible. So:
//!
//! * **Growing** clears the new region before the document changes, and puts the document on the condition that it is
//!   unchanged.
//! * **Shrinking** puts the document first, so that everybody sees the old or the new array, and then clears what lies
//!   outside. If that is killed, rerunning the command finishes it; and growing the array clears it anyway.
//!
//! Both clear a chunk in the same three steps: the chunk is read, with its state; then the document is read again, and
//! must not have grown; then the chunk is changed or deleted on the condition that it is unchanged. Whoever grows the
//! array puts the document before any chunk. So if the document had not grown after the chunk was read, the chunk held
//! nothing of theirs; and if they write now, the chunk has changed and stays. Buckets have no conditional deletes:
//! there a chunk outside is replaced by one of fill value.
//!
//! * **Appending** writes beyond the end, and changes the shape when everything is written: a reader sees the old array
//!   or the new one, also if the writer is killed. A lock ([`Turn`]), which all three operations hold, keeps others
//!   from clearing or using the same region. The rules above are for programs without that lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{FutureExt as _, StreamExt, TryStreamExt};

use super::{ATTEMPTS, check_settled, need, renew, text};
use crate::array::{Array, Guard, ReadOptions, Selection, Slab};
use crate::boxed;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::journal::Turn;
use crate::meta::grid::ChunkAxis;
use crate::meta::path::{join, normal, shown};
use crate::meta::{ArrayMeta, ChunkKeys, Findings, Format, Json, Mode, NodeMeta, edit, v2, v3};
use crate::num;
use crate::store::{Condition, ObjectMeta, Put, SharedStore, StoreExt as _};

/// Up to this many chunks are always requested one by one; for more, existing chunks are listed.
const ASKED_FOR: u64 = 4096;

/// Up to this many, if a listing could show as many others.
const MOST_ASKED_FOR: u64 = 1 << 16;

/// Chunks that are processed concurrently.
const AT_ONCE: usize = 16;

/// Changes the shape of an array.
///
/// Removed elements do not come back when it grows again. Resizing to the current shape clears what an unfinished
/// resize left. Only existing chunks are visited.
#[boxed]
pub async fn resize(store: &SharedStore, path: &str, shape: &[u64]) -> Result<Array> {
    Ok(resize_by(store, path, |_| Ok(shape.to_vec())).await?.0)
}

/// Changes the shape of an array to what `change` returns for the current one; also returns the old shape. Of two
/// concurrent callers, one changes the result of the other.
///
/// If the same change was started by a process that was killed, it is finished, not repeated.
pub async fn resize_by(
    store: &SharedStore,
    path: &str,
    change: impl Fn(&[u64]) -> Result<Vec<u64>> + Sync,
) -> Result<(Array, Vec<u64>)> {
    let path = normal(path)?;
    let turn = taken(store, &path).await?;
    let begun = turn.change();
    let wanted = |old: &[u64]| match &begun {
        Some((from, to)) if to == old && change(from)? == *to => Ok(to.clone()),
        _ => change(old),
    };
    let mut noted = None;
    let reshaped = reshape(store, &path, wanted, Some((&turn, &mut noted))).await;
    let Reshaped { document, old, new } = match reshaped {
        Ok(reshaped) => reshaped,
        Err(e) => {
            // A failed change did not happen: perhaps the groups above could not be updated. Nothing was cleared yet.
            if let Some((from, to)) = &noted {
                let undone = async { ArrayDocument::of(store, &path).await?.put_back(to, from).await };
                if undone.await.is_err() {
                    turn.leave().await;
                    return Err(
                        e.within("the shape may have changed already; rerun the same command to finish")
                    );
                }
            }
            return Err(e);
        }
    };
    let before = match begun {
        Some((from, to)) if to == old.shape() && new.shape() == to => from,
        _ => old.shape().to_vec(),
    };
    if let Err(e) = clear_outside(&document, old, &new).await {
        // The shape has changed: rerunning the command must finish this, not change it again.
        turn.leave().await;
        return Err(e.within(
            "the shape has changed, but old chunks are not all cleared; rerun the same command to finish",
        ));
    }
    turn.done().await;
    Ok((new, before))
}

/// Clears what lies outside an array that was shrunk, or what a killed resize left there.
async fn clear_outside(document: &ArrayDocument, old: Array, new: &Array) -> Result<()> {
    let mut limit = new.shape().to_vec();
    let outer = if old.shape() == limit { beyond(new).await? } else { old };
    if outer.shape().iter().zip(&limit).all(|(outer, inner)| outer <= inner) {
        return Ok(());
    }
    for _ in 0..ATTEMPTS {
        let document = ArrayDocument { limit: limit.clone(), ..document.clone() };
        if trim(&outer, &document).await? {
            return Ok(());
        }
        // Somebody grew it meanwhile, and cleared what is inside now.
        match document.shape().await? {
            Some(now) if now.len() == limit.len() => limit = now,
            _ => break,
        }
    }
    Err(document.placed(Error::conflict(
        "the shape kept being changed by other processes; rerun the same command to finish",
    )))
}

/// Grows an array by `count` positions along dimension `axis`, and returns the first new one. No two callers get the
/// same. They read as fill value. To add positions with elements, [`append`] them.
#[boxed]
pub async fn extend(store: &SharedStore, path: &str, axis: usize, count: u64) -> Result<(Array, u64)> {
    let (new, old) = resize_by(store, path, |old| grown(old, axis, count)).await?;
    Ok((new, old.get(axis).copied().unwrap_or(0)))
}

/// A description of the process that is changing the shape of the array at `path`, which [`resize`], [`resize_by`],
/// [`extend`] and [`append`] wait for; `None` if there is none.
#[boxed]
pub async fn waits_for(store: &SharedStore, path: &str) -> Result<Option<String>> {
    Turn::of_others(store, &normal(path)?).await
}

/// Locks the shape of the array at `path`. Fails if there is no array, before anything is put there.
async fn taken(store: &SharedStore, path: &str) -> Result<Turn> {
    ArrayDocument::of(store, path).await?;
    let turn = Turn::take(store, path).await?;
    // Operations on the whole node put their journal, and then check for locks; so this checks after locking.
    check_settled(store, path).await?;
    Ok(turn)
}

/// New positions at the end of an array, written before they become visible.
#[derive(Debug)]
pub struct Appending {
    /// The array with its new shape. Write to the new positions with [`Array::write`].
    pub array: Array,
    /// The first new position along the growing dimension.
    pub start: u64,
    before: Vec<u64>,
    document: ArrayDocument,
    turn: Turn,
}

/// Starts to append `count` positions along dimension `axis`: waits until nobody else changes the shape of the array,
/// and clears what lies beyond its end. Nothing is visible before [`Appending::publish`]; without it nothing has
/// happened.
///
/// `alone` assumes a single writer: for stores without conditional puts.
#[boxed]
pub async fn append(
    store: &SharedStore,
    path: &str,
    axis: usize,
    count: u64,
    alone: bool,
) -> Result<Appending> {
    let path = normal(path)?;
    let document = ArrayDocument::of(store, &path).await?;
    let turn = if alone { Turn::alone() } else { taken(store, &path).await? };
    let old = document.array(document.read().await?.0)?;
    let before = old.shape().to_vec();
    let start = before.get(axis).copied().unwrap_or(0);
    if let Some((from, to)) = turn.change() {
        renew(store, &path).await?;
        if to == before && grown(&from, axis, count)? == to {
            let first = from.get(axis).copied().unwrap_or(0);
            turn.end().await?;
            return Err(document.placed(Error::conflict(format!(
                "an append of {count} positions was killed after all was written: they are in the array, from {first} on; if yours are \
                 different, append again"
            ))));
        }
    }
    let shape = grown(&before, axis, count)?;
    check_covered(&old, &shape)?;
    let meta = ArrayMeta { shape, ..old.meta().clone() };
    let array = Array::new(store.clone(), &path, meta, Mode::Tolerant, Vec::new(), old.context())?;
    let document = ArrayDocument { limit: before.clone(), ..document };
    if !trim(&array, &document).await? {
        return Err(document.placed(changed_meanwhile()));
    }
    Ok(Appending { array, start, before, document, turn })
}

/// Fails if the chunks do not reach that far: a grid that lists them ends with them.
fn check_covered(old: &Array, shape: &[u64]) -> Result<()> {
    let covered =
        |(n, axis): (&u64, &ChunkAxis)| n.checked_sub(1).is_none_or(|last| axis.chunk_at(last).is_some());
    if shape.iter().zip(old.meta().grid.axes()).all(covered) {
        return Ok(());
    }
    Err(Error::unsupported(
        "the chunk lengths of this array (a rectilinear grid) do not cover the new shape; copy it with chunks of \
         equal length first",
    )
    .with_node(shown(old.path()))
    .with_store(old.store()))
}

fn changed_meanwhile() -> Error {
    Error::conflict("the shape was changed by somebody else meanwhile; nothing was appended")
}

impl Appending {
    /// Clears what was written, as far as possible: for writers that could not finish.
    #[boxed]
    pub async fn give_up(self) -> Result<()> {
        self.turn.check().await?;
        let document = ArrayDocument { limit: self.before.clone(), ..self.document.clone() };
        trim(&self.array, &document).await?;
        self.turn.end().await
    }

    /// Makes the written elements visible, all at once.
    #[boxed]
    pub async fn publish(self) -> Result<Appended> {
        let Self { array, before, document, turn, .. } = self;
        turn.check().await?;
        let shape = |old: &[u64]| match old == before {
            true => Ok(array.shape().to_vec()),
            false => Err(changed_meanwhile()),
        };
        turn.note(&before, array.shape()).await?;
        match reshape(&document.store, &document.path, shape, None).await {
            Ok(Reshaped { new, .. }) => Ok(Appended { array: new, turn: Some(turn) }),
            // A failed change did not happen: perhaps the groups above could not be updated.
            Err(e) => match document.put_back(array.shape(), &before).await {
                Ok(()) => Err(e),
                Err(_) => {
                    turn.leave().await;
                    Err(e.within(
                        "everything is written, and perhaps appended already; rerun the same command to find out",
                    ))
                }
            },
        }
    }
}

/// A completed append. Its record stays until this is dropped: report the result before that, so that rerunning the
/// command of a process killed earlier does not append the same again.
#[derive(Debug)]
pub struct Appended {
    /// The array with its new shape.
    pub array: Array,
    turn: Option<Turn>,
}

impl Appended {
    /// Leaves the record as a killed process would, if the result could not be reported.
    #[boxed]
    pub async fn leave(mut self) {
        if let Some(turn) = self.turn.take() {
            turn.leave().await;
        }
    }
}

impl Drop for Appended {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            turn.done_now();
        }
    }
}

/// A shape with `count` more positions along `axis`.
fn grown(shape: &[u64], axis: usize, count: u64) -> Result<Vec<u64>> {
    let mut shape = shape.to_vec();
    let rank = shape.len();
    match shape.get_mut(axis) {
        Some(n) => *n = n.checked_add(count).ok_or_else(|| Error::usage("the array would be too large"))?,
        None if rank == 0 => {
            return Err(Error::usage("the array has no dimensions, so it cannot grow"));
        }
        None => return Err(Error::usage(format!("there is no dimension {axis}; the array has {rank}"))),
    }
    Ok(shape)
}

/// The document of an array, and the shape limit while elements outside are cleared.
#[derive(Debug, Clone)]
struct ArrayDocument {
    store: SharedStore,
    path: String,
    key: String,
    format: Format,
    attributes: Arc<Json>,
    /// The array must not be larger than this.
    limit: Vec<u64>,
}

impl ArrayDocument {
    async fn of(store: &SharedStore, path: &str) -> Result<Self> {
        check_settled(store, path).await?;
        let NodeMeta::Array(meta) = need(store, path).await?.meta else {
            return Err(Error::usage("this is a group; only arrays have a shape")
                .with_node(shown(path))
                .with_store(store));
        };
        Ok(Self {
            store: store.clone(),
            path: path.to_owned(),
            key: join(path, if meta.format == Format::V3 { "zarr.json" } else { ".zarray" }),
            format: meta.format,
            attributes: meta.attributes.clone(),
            limit: Vec::new(),
        })
    }

    fn placed(&self, e: Error) -> Error {
        e.with_node(shown(&self.path)).with_store(&self.store)
    }

    async fn read(&self) -> Result<(Json, ObjectMeta)> {
        match self.store.get_for_update(&self.key).await? {
            Some((bytes, tag)) => {
                let parsed = Json::parse(&bytes).map_err(|e| self.placed(e.with_key(&self.key)))?;
                Ok((parsed.value, tag))
            }
            None => Err(self.placed(Error::conflict("it was deleted by somebody else meanwhile"))),
        }
    }

    fn array(&self, document: Json) -> Result<Array> {
        let mut f = Findings::new(Mode::Tolerant, shown(&self.path));
        let document = Arc::new(document);
        let read = match self.format {
            Format::V2 => v2::array(document, Some(self.attributes.clone()), &mut f)?,
            Format::V3 => match v3::shared(document, &mut f)? {
                NodeMeta::Array(a) => a,
                NodeMeta::Group(_) => return Err(Error::conflict("it was replaced by a group meanwhile")),
            },
        };
        let context = Context::shared();
        let array = Array::new(self.store.clone(), &self.path, read, Mode::Tolerant, Vec::new(), &context);
        array.map(Array::announced)
    }

    /// Its current shape.
    async fn shape(&self) -> Result<Option<Vec<u64>>> {
        let Some((bytes, _)) = self.store.get_for_update(&self.key).await? else { return Ok(None) };
        let parsed = Json::parse(&bytes).map_err(|e| self.placed(e.with_key(&self.key)))?.value;
        let Some(Json::Array(shape)) = parsed.get("shape") else { return Ok(None) };
        Ok(shape.iter().map(Json::as_u64).collect())
    }

    /// Restores the shape `before`, if the shape is `now`.
    async fn put_back(&self, now: &[u64], before: &[u64]) -> Result<()> {
        let (read, tag) = self.read().await?;
        let array = self.array(read)?;
        if array.shape() != now {
            // It was not put, or now belongs to somebody else.
            return Ok(());
        }
        let old = edit::shape(self.format, &array.meta().document, before)?;
        if self.store.put(&self.key, text(&old), Condition::Unchanged(tag)).await? == Put::Refused {
            return Err(self.placed(changed_meanwhile()));
        }
        // Updates the groups above; if that fails, the next change does it.
        let _ = renew(&self.store, &self.path).await;
        Ok(())
    }

    /// Whether the current shape is within the limit.
    async fn holds(&self) -> Result<bool> {
        let now = self.shape().await?;
        Ok(now.is_some_and(|now| {
            now.len() == self.limit.len() && now.iter().zip(&self.limit).all(|(now, limit)| now <= limit)
        }))
    }
}

struct Reshaped {
    document: ArrayDocument,
    old: Array,
    new: Array,
}

/// A change of shape: from and to.
type PendingChange = (Vec<u64>, Vec<u64>);

/// Puts the document with another shape, with retries on concurrent changes. If it is to be recorded `before` it
/// changes, the region that becomes visible is cleared.
async fn reshape(
    store: &SharedStore,
    path: &str,
    shape: impl Fn(&[u64]) -> Result<Vec<u64>>,
    mut before: Option<(&Turn, &mut Option<PendingChange>)>,
) -> Result<Reshaped> {
    let document = ArrayDocument::of(store, path).await?;
    let placed = |e: Error| document.placed(e);
    for _ in 0..ATTEMPTS {
        let (read, tag) = document.read().await?;
        let old = document.array(read).map_err(placed)?;
        let wanted = shape(old.shape()).map_err(placed)?;
        check_covered(&old, &wanted)?;
        let changed = edit::shape(document.format, &old.meta().document, &wanted).map_err(placed)?;
        let new = document.array(changed.clone()).map_err(placed)?;
        if old.shape() == new.shape() {
            // Whoever set this shape may have been killed before the groups above were updated.
            renew(store, path).await?;
            return Ok(Reshaped { document, old, new });
        }
        if let Some((turn, noted)) = &mut before {
            **noted = Some((old.shape().to_vec(), new.shape().to_vec()));
            turn.note(old.shape(), new.shape()).await?;
            let document = ArrayDocument { limit: old.shape().to_vec(), ..document.clone() };
            if !trim(&new, &document).await? {
                continue;
            }
        }
        let when = Condition::Unchanged(tag);
        if store.put(&document.key, text(&changed), when).await? == Put::Done {
            renew(store, path).await?;
            return Ok(Reshaped { document, old, new });
        }
    }
    Err(placed(
        Error::conflict("this document kept being changed by other writers; rerun the command")
            .with_key(&document.key),
    ))
}

/// The keys of an array's chunks as stored: V2 arrays may use another separator than their metadata says.
pub(crate) async fn keys_found(store: &SharedStore, path: &str, meta: &ArrayMeta) -> Result<ChunkKeys> {
    let rank = meta.shape.len();
    if meta.format != Format::V2 || rank < 2 {
        return Ok(meta.keys);
    }
    let found = store.list(path).await?;
    let flat = |keys: ChunkKeys| found.objects.iter().any(|name| keys.index(name, rank).is_some());
    let nested = found.prefixes.iter().any(|name| name.parse::<u64>().is_ok());
    let other = meta.keys.other_separator();
    let (stated, differs) =
        if meta.keys.separator == '/' { (nested, flat(other)) } else { (flat(meta.keys), nested) };
    Ok(if differs && !stated { other } else { meta.keys })
}

/// The index of a chunk by its key, with either separator.
fn index_of(array: &Array, key: &str) -> Option<Vec<u64>> {
    let meta = array.meta();
    let below = key.strip_prefix(array.path())?.trim_start_matches('/');
    let rank = meta.shape.len();
    let other = || meta.keys.other_separator().index(below, rank).filter(|_| meta.format == Format::V2);
    meta.keys.index(below, rank).or_else(other)
}

/// The array extended to all stored chunks.
async fn beyond(array: &Array) -> Result<Array> {
    let meta = array.meta();
    let mut shape = meta.shape.clone();
    let store = array.store().clone();
    let mut keys = store.keys(array.path());
    while let Some(entry) = keys.try_next().await? {
        let Some(index) = index_of(array, &entry.key) else { continue };
        for ((extent, axis), i) in shape.iter_mut().zip(meta.grid.axes()).zip(&index) {
            let end = axis.place(*i).and_then(|(first, n)| first.checked_add(n));
            *extent = (*extent).max(end.unwrap_or(0));
        }
    }
    let meta = ArrayMeta { shape, ..meta.clone() };
    Array::new(store.clone(), array.path(), meta, Mode::Tolerant, Vec::new(), array.context())
}

/// Clears what of `array` lies outside the document's limit; `false` if the array has meanwhile grown beyond that.
async fn trim(array: &Array, document: &ArrayDocument) -> Result<bool> {
    let meta = array.meta();
    let counts = meta.grid.counts(&meta.shape);
    // Chunks before these, along each dimension, lie wholly inside.
    let whole: Vec<u64> = meta
        .grid
        .axes()
        .iter()
        .zip(&document.limit)
        .zip(&counts)
        .map(|((axis, n), count)| axis.chunk_at(*n).map_or(*count, |(number, ..)| number).min(*count))
        .collect();
    if whole == counts {
        return Ok(true);
    }
    let few = match (num::product(&counts), num::product(&whole)) {
        (Ok(total), Ok(kept)) => {
            let outside = total.saturating_sub(kept);
            outside <= ASKED_FOR || (outside <= kept && outside <= MOST_ASKED_FOR)
        }
        _ => false,
    };
    let holds = AtomicBool::new(true);
    let one = |index: Vec<u64>| {
        let holds = &holds;
        async move {
            if holds.load(Ordering::Relaxed) && !clear(array, &index, document).await? {
                holds.store(false, Ordering::Relaxed);
            }
            Ok::<_, Error>(())
        }
    };
    if few {
        let outside = outside(&counts, &whole);
        futures::stream::iter(outside.into_iter().map(Ok)).try_for_each_concurrent(AT_ONCE, one).await?;
    } else {
        let affected =
            |index: &Vec<u64>| index.iter().zip(&whole).zip(&counts).any(|((i, w), n)| i >= w && i < n);
        let store = array.store().clone();
        let found = store.keys(array.path()).try_filter_map(|entry| {
            std::future::ready(Ok(index_of(array, &entry.key).filter(|i| affected(i))))
        });
        found.boxed().try_for_each_concurrent(AT_ONCE, one).await?;
    }
    Ok(holds.into_inner())
}

/// The indexes in a grid of `counts` chunks that are at least `whole` along some dimension.
fn outside(counts: &[u64], whole: &[u64]) -> Vec<Vec<u64>> {
    let mut out = Vec::new();
    for d in 0..counts.len() {
        // Along the preceding dimensions, those not yet included.
        let range = |e: usize| {
            let (count, whole) = (counts.get(e).copied().unwrap_or(0), whole.get(e).copied().unwrap_or(0));
            match e.cmp(&d) {
                std::cmp::Ordering::Less => 0..whole,
                std::cmp::Ordering::Equal => whole..count,
                std::cmp::Ordering::Greater => 0..count,
            }
        };
        let mut found = vec![Vec::new()];
        for e in 0..counts.len() {
            found = found
                .iter()
                .flat_map(|start| {
                    range(e).map(move |i| start.iter().copied().chain([i]).collect::<Vec<u64>>())
                })
                .collect();
        }
        out.extend(found);
    }
    out
}

/// Clears what of a chunk lies outside the document's limit, if it exists; `false` as [`trim`].
async fn clear(array: &Array, index: &[u64], document: &ArrayDocument) -> Result<bool> {
    let meta = array.meta();
    let store = array.store();
    let places: Vec<(u64, u64)> =
        meta.grid.axes().iter().zip(index).map(|(a, i)| a.place(*i).unwrap_or((0, 0))).collect();
    let key = meta.keys.key(array.path(), index);
    let other = (meta.format == Format::V2 && index.len() > 1)
        .then(|| meta.keys.other_separator().key(array.path(), index));
    let limit = &document.limit;
    if places.iter().zip(limit).any(|((first, _), n)| first >= n) {
        for key in std::iter::once(key).chain(other) {
            if !remove(array, &key, index, &places, document).await? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let there = match store.size(&key).await? {
        Some(_) => true,
        None => match &other {
            Some(other) => store.exists(other).await?,
            None => false,
        },
    };
    if !there {
        return Ok(true);
    }
    let ends: Vec<u64> =
        places.iter().zip(&meta.shape).map(|((a, n), s)| a.saturating_add(*n).min(*s)).collect();
    for d in 0..limit.len() {
        let mut start: Vec<u64> = places.iter().map(|(first, _)| *first).collect();
        if let (Some(s), Some(n)) = (start.get_mut(d), limit.get(d)) {
            *s = (*s).max(*n);
        }
        let count: Vec<u64> = ends.iter().zip(&start).map(|(e, s)| e.saturating_sub(*s)).collect();
        if num::product(&count)? > 0 && !fill(array, &start, &count, document, false).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes a chunk that lies wholly outside.
async fn remove(
    array: &Array,
    key: &str,
    index: &[u64],
    places: &[(u64, u64)],
    document: &ArrayDocument,
) -> Result<bool> {
    let store = array.store();
    for _ in 0..ATTEMPTS {
        let tag = match store.direct() {
            Some(direct) => direct.open(key)?.map(|object| object.meta_for_update()).transpose(),
            None => match store.exists(key).await? {
                true => Ok(store.get_for_update(key).await?.map(|(_, tag)| tag)),
                false => Ok(None),
            },
        };
        let deleted = match tag {
            Ok(None) => return Ok(true),
            Ok(Some(_)) if !document.holds().await? => return Ok(false),
            Ok(Some(tag)) => store.delete_unchanged(key, &tag).await,
            Err(e) => Err(e),
        };
        match deleted {
            Ok(Put::Done) => return Ok(true),
            Ok(Put::Refused) => {}
            Err(e) if e.kind() == ErrorKind::Unsupported => break,
            Err(e) => return Err(e),
        }
    }
    // Without conditional deletes: fill value instead. The array must reach that far to be written there.
    let meta = array.meta();
    let (start, count): (Vec<u64>, Vec<u64>) = places.iter().copied().unzip();
    let shape = places.iter().zip(&meta.shape).map(|((a, n), s)| a.saturating_add(*n).max(*s)).collect();
    let keys =
        if meta.keys.key(array.path(), index) == key { meta.keys } else { meta.keys.other_separator() };
    let meta = ArrayMeta { shape, keys, ..meta.clone() };
    let outer = Array::new(store.clone(), array.path(), meta, Mode::Tolerant, Vec::new(), array.context())?;
    match fill(&outer, &start, &count, document, true).await {
        // A store without conditions is for a single writer.
        Err(e) if e.kind() == ErrorKind::Unsupported => {
            let holds = document.holds().await?;
            if holds {
                store.delete(key).await?;
            }
            Ok(holds)
        }
        filled => filled,
    }
}

/// Writes fill value to a part of one chunk, unless it already holds that or the document has grown.
async fn fill(
    array: &Array,
    start: &[u64],
    count: &[u64],
    document: &ArrayDocument,
    whole: bool,
) -> Result<bool> {
    let selection = Selection::start_count(start, count);
    let meta = array.meta();
    let slab = Slab::filled(&meta.data_type, &meta.fill, count)?;
    // A chunk that lies wholly outside is removed even if it cannot be decoded.
    match array.read_slab(&selection, &ReadOptions::default()).await {
        Ok(now) if now.items().eq(slab.items()) => return Ok(true),
        Err(e) if !whole => return Err(e),
        _ => {}
    }
    let grown = Arc::new(AtomicBool::new(false));
    let (document, seen) = (document.clone(), grown.clone());
    let guard: Guard = Arc::new(move || {
        let (document, seen) = (document.clone(), seen.clone());
        async move {
            let holds = document.holds().await?;
            seen.store(!holds, Ordering::Relaxed);
            Ok(holds)
        }
        .boxed()
    });
    match array.write_guarded(&selection, slab.into(), guard).await {
        Err(_) if grown.load(Ordering::Relaxed) => Ok(false),
        written => written.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_named_once() {
        let found = outside(&[3, 4], &[2, 1]);
        let mut wanted: Vec<Vec<u64>> = (0..3u64).flat_map(|a| (0..4u64).map(move |b| vec![a, b])).collect();
        wanted.retain(|i| i[0] >= 2 || i[1] >= 1);
        let mut sorted = found.clone();
        sorted.sort();
        assert_eq!(sorted, wanted);
        assert!(outside(&[], &[]).is_empty());
        assert_eq!(outside(&[5], &[3]), vec![vec![3], vec![4]]);
    }
}
