//! Checks that everything a reference map refers to exists and decodes.
//!
//! Three passes at most. The first goes through the entries: each key must belong to an array and lie in its grid; the
//! distinct objects are noted, with the furthest byte referred to in each, and a sample of chunks of each array. Then
//! the size of each object is requested, concurrently, and the sample is decoded. If objects are at fault, a last pass
//! names every key that refers to them.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use futures::future::FutureExt as _;
use futures::stream::{self, StreamExt};

use super::addresses::is_relative;
use super::arrays::{Arrays, ChunkGrid, KeyRole};
use super::{Location, Map, Remote, Targets};
use crate::array::{Array, Missing, ReadOptions, Selection};
use crate::boxed;
use crate::error::{Error, ErrorKind, Result, redacted};
use crate::group::Zarr;
use crate::meta::path::shown;
use crate::meta::{Json, Level};
use crate::num::u64_of;
use crate::store::{ByteRange, Pin, StoreExt as _};
use crate::task::{Operation, Task, Unit};

/// How to validate.
#[derive(Debug, Clone, derive_setters::Setters)]
#[setters(prefix = "with_")]
#[non_exhaustive]
pub struct ValidateOptions {
    /// Chunks of each array to decode; all of them with `None`.
    pub sample: Option<usize>,
    /// Concurrent requests.
    pub concurrency: usize,
    /// Findings to keep; the others are only counted.
    pub limit: usize,
    /// Progress, in objects and chunks, and cancellation.
    pub task: Task,
}

impl Default for ValidateOptions {
    fn default() -> Self {
        Self { sample: Some(2), concurrency: 32, limit: 1000, task: Task::default() }
    }
}

/// Something wrong with a map or with what it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapFinding {
    /// The rule's stable name, such as `ref/target-missing`.
    pub rule: &'static str,
    /// Its severity.
    pub level: Level,
    /// The node, such as `/a/b`; `/` for what belongs to none.
    pub node: String,
    /// The key; empty for what is not about one.
    pub key: String,
    /// The address; empty for what is not about one.
    pub url: String,
    /// What is wrong.
    pub message: String,
}

/// The findings, and how much was checked.
#[derive(Debug, Clone, Default)]
pub struct MapReport {
    /// Entries of the map.
    pub entries: u64,
    /// Arrays.
    pub arrays: u64,
    /// Distinct objects that were checked.
    pub objects: u64,
    /// Chunks that were decoded.
    pub decoded: u64,
    /// Findings that are errors, kept or not.
    pub errors: u64,
    /// Findings that are warnings, kept or not.
    pub warnings: u64,
    /// The findings, up to the limit.
    pub findings: Vec<MapFinding>,
}

impl MapReport {
    /// As JSON, of the store at `uri`; `failed` says whether it counts as invalid.
    #[must_use]
    pub fn json(&self, uri: &str, failed: bool) -> Json {
        let finding = |f: &MapFinding| {
            Json::from([
                ("rule", f.rule.into()),
                ("level", f.level.to_string().into()),
                ("node", (&f.node).into()),
                ("key", (&f.key).into()),
                ("url", redacted(&f.url).into_owned().into()),
                ("message", (&f.message).into()),
            ])
        };
        Json::from([
            ("uri", redacted(uri).into_owned().into()),
            ("ok", (!failed).into()),
            ("entries", self.entries.into()),
            ("arrays", self.arrays.into()),
            ("objects", self.objects.into()),
            ("decoded", self.decoded.into()),
            ("errors", self.errors.into()),
            ("warnings", self.warnings.into()),
            ("findings", self.findings.iter().map(finding).collect()),
        ])
    }
}

/// Checks `map`, which is the map of `zarr`.
#[boxed]
pub async fn validate(
    map: &dyn Map,
    targets: &dyn Targets,
    zarr: &Zarr,
    options: &ValidateOptions,
) -> Result<MapReport> {
    let _operation = Operation::begin("ref validate", zarr.store());
    let (arrays, damaged) = Arrays::of(zarr).await?;
    let mut check = Check::new(&arrays, options);
    check.report.arrays = u64_of(arrays.list().len());
    for e in damaged {
        let node = e.node().unwrap_or("/").to_owned();
        check.add("ref/metadata", Level::Error, node, e.key().unwrap_or_default(), "", error_text(&e));
    }
    check.gather(map).await?;
    let faults = check.objects(map, targets).await?;
    if !faults.is_empty() {
        check.name_keys(map, &faults).await?;
    }
    check.decode(map, zarr, &faults).await?;
    let Check { mut report, .. } = check;
    report.findings.sort_by(|a, b| (&a.node, &a.key).cmp(&(&b.node, &b.key)));
    Ok(report)
}

/// An object as the map names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MappedObject {
    url: Arc<str>,
    near: Option<Arc<str>>,
    pin: Option<Arc<Pin>>,
}

impl MappedObject {
    fn of(remote: &Remote) -> Self {
        // What is near matters to relative addresses alone: others name one object, whichever array asks.
        let near = remote.near.clone().filter(|_| is_relative(&remote.url));
        Self { url: remote.url.clone(), near, pin: remote.pin.clone() }
    }

    fn remote(&self) -> Remote {
        Remote { pin: self.pin.clone(), near: self.near.clone(), ..Remote::new(self.url.clone(), None) }
    }
}

/// What is wrong with an object.
#[derive(Debug)]
enum ObjectFault {
    /// It does not exist, or cannot be read.
    Lost(&'static str, String),
    /// It is shorter than its references need.
    Short(u64),
}

struct Check<'a> {
    arrays: &'a Arrays,
    options: &'a ValidateOptions,
    report: MapReport,
    /// The furthest end of the ranges of each object.
    ends: HashMap<MappedObject, u64>,
    /// For each array, chunks to decode: chosen by a hash of their number, so that the sample is reproducible.
    samples: Vec<BTreeMap<u64, u64>>,
    /// How many chunks there are to decode.
    present: u64,
}

impl<'a> Check<'a> {
    fn new(arrays: &'a Arrays, options: &'a ValidateOptions) -> Self {
        Self {
            arrays,
            options,
            report: MapReport::default(),
            ends: HashMap::new(),
            samples: arrays.list().iter().map(|_| BTreeMap::new()).collect(),
            present: 0,
        }
    }

    fn add(
        &mut self,
        rule: &'static str,
        level: Level,
        node: String,
        key: &str,
        url: &str,
        message: impl Into<String>,
    ) {
        match level {
            Level::Error => self.report.errors += 1,
            Level::Warning => self.report.warnings += 1,
        }
        if self.report.findings.len() < self.options.limit {
            let (key, url) = (key.to_owned(), url.to_owned());
            self.report.findings.push(MapFinding { rule, level, node, key, url, message: message.into() });
        }
    }

    async fn gather(&mut self, map: &dyn Map) -> Result<()> {
        let arrays = self.arrays;
        let mut hint = 0;
        let mut last: Option<(MappedObject, u64)> = None;
        let mut entries = map.entries("");
        while let Some(entry) = self.options.task.unless_cancelled(entries.next().map(Ok)).await? {
            let (key, location) = match entry {
                Ok(entry) => entry,
                // An entry that says nothing sensible; the others are looked at all the same.
                Err(e) if e.key().is_some() && e.kind() == ErrorKind::Invalid => {
                    self.report.entries += 1;
                    let key = e.key().unwrap_or_default().to_owned();
                    self.add("ref/entry", Level::Error, "/".to_owned(), &key, "", error_text(&e));
                    continue;
                }
                Err(e) => return Err(e),
            };
            self.report.entries += 1;
            match arrays.part(&key, &mut hint) {
                KeyRole::Document => self.document(&key, &location),
                KeyRole::Chunk { array, number } => self.sample(array, number),
                KeyRole::Outside { array } => {
                    let grid = arrays.at(array)?;
                    let message = format!("the chunk lies outside the grid of {:?} chunks", grid.counts);
                    self.add("ref/outside-grid", Level::Warning, shown(&grid.path), &key, "", message);
                }
                KeyRole::Stray => {
                    let message = "the key is neither a document nor a chunk of an array";
                    self.add("ref/stray-key", Level::Warning, "/".to_owned(), &key, "", message);
                }
            }
            let Location::Remote(remote) = location else { continue };
            let end = match remote.span {
                None => 0,
                Some(span) => match span.offset.checked_add(span.length) {
                    Some(end) => end,
                    None => {
                        let message = "the end of the range overflows";
                        self.add("ref/range", Level::Error, "/".to_owned(), &key, &remote.url, message);
                        continue;
                    }
                },
            };
            match &mut last {
                Some((object, furthest))
                    if *object.url == *remote.url
                        && object.pin == remote.pin
                        && (object.near.is_none() || object.near == remote.near) =>
                {
                    *furthest = end.max(*furthest);
                }
                _ => {
                    let before = last.replace((MappedObject::of(&remote), end));
                    self.note(before);
                }
            }
        }
        drop(entries);
        self.note(last);
        Ok(())
    }

    fn note(&mut self, object: Option<(MappedObject, u64)>) {
        if let Some((object, end)) = object {
            let furthest = self.ends.entry(object).or_default();
            *furthest = end.max(*furthest);
        }
    }

    /// Checks that inline documents are JSON; their contents were read with the nodes.
    fn document(&mut self, key: &str, location: &Location) {
        if let Location::Inline(bytes) = location
            && let Err(e) = Json::parse(bytes)
        {
            let node = shown(key.rsplit_once('/').map_or("", |(node, _)| node));
            // A damaged node was told of already.
            if !self.report.findings.iter().any(|f| f.key == key) {
                self.add("ref/metadata", Level::Error, node, key, "", error_text(&e));
            }
        }
    }

    fn sample(&mut self, array: usize, number: u64) {
        self.present += 1;
        let Some(wanted) = self.options.sample.filter(|n| *n > 0) else { return };
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(number);
        if let Some(chosen) = self.samples.get_mut(array) {
            chosen.insert(hash, number);
            if chosen.len() > wanted {
                chosen.pop_last();
            }
        }
    }

    /// How many chunks will be decoded.
    fn to_decode(&self) -> u64 {
        match self.options.sample {
            None => self.present,
            Some(_) => self.samples.iter().map(|s| u64_of(s.len())).sum(),
        }
    }

    /// Checks every object; returns those with a fault.
    async fn objects(
        &mut self,
        map: &dyn Map,
        targets: &dyn Targets,
    ) -> Result<HashMap<MappedObject, ObjectFault>> {
        let ends: Vec<(MappedObject, u64)> = std::mem::take(&mut self.ends).into_iter().collect();
        self.report.objects = u64_of(ends.len());
        let total = self.report.objects.saturating_add(self.to_decode());
        let meter = &self.options.task.meter(Unit::Objects, total);
        let options = self.options;
        let asked = stream::iter(ends).map(|(object, end)| async move {
            let fault = look(map, targets, &object, end).await;
            meter.advance(1);
            (object, fault)
        });
        let mut asked = asked.buffer_unordered(options.concurrency.max(1));
        let mut faults = HashMap::new();
        while let Some((object, fault)) = self.options.task.unless_cancelled(asked.next().map(Ok)).await? {
            if let Some(fault) = fault {
                faults.insert(object, fault);
            }
        }
        Ok(faults)
    }

    /// The last pass: a finding for every key that refers to an object with a fault.
    async fn name_keys(&mut self, map: &dyn Map, faults: &HashMap<MappedObject, ObjectFault>) -> Result<()> {
        let mut hint = 0;
        let mut entries = map.entries("");
        while let Some(entry) = self.options.task.unless_cancelled(entries.next().map(Ok)).await? {
            let Ok((key, Location::Remote(remote))) = entry else { continue };
            let Some(fault) = faults.get(&MappedObject::of(&remote)) else { continue };
            let node = match self.arrays.part(&key, &mut hint) {
                KeyRole::Chunk { array, .. } | KeyRole::Outside { array } => {
                    shown(&self.arrays.at(array)?.path)
                }
                KeyRole::Document => shown(key.rsplit_once('/').map_or("", |(node, _)| node)),
                KeyRole::Stray => "/".to_owned(),
            };
            let url = remote.url.to_string();
            match fault {
                ObjectFault::Lost(rule, message) => {
                    self.add(rule, Level::Error, node, &key, &url, message.clone());
                }
                ObjectFault::Short(size) => {
                    let end = remote.span.and_then(|s| s.offset.checked_add(s.length));
                    if let (Some(span), Some(end)) = (remote.span, end)
                        && end > *size
                    {
                        let message = format!(
                            "bytes {}+{} lie outside the object, which has {size} bytes",
                            span.offset, span.length
                        );
                        self.add("ref/short", Level::Error, node, &key, &url, message);
                    }
                }
            }
        }
        Ok(())
    }

    /// Decodes the chunks of the sample, or all of them.
    async fn decode(
        &mut self,
        map: &dyn Map,
        zarr: &Zarr,
        faults: &HashMap<MappedObject, ObjectFault>,
    ) -> Result<()> {
        let total = self.report.objects.saturating_add(self.to_decode());
        let meter = &self.options.task.meter(Unit::Objects, total);
        meter.set(self.report.objects);
        for (number, grid) in self.arrays.list().iter().enumerate() {
            let samples = self.samples.get(number).map(|s| s.values().copied().collect::<Vec<u64>>());
            let samples = samples.unwrap_or_default();
            if self.options.sample.is_some() && samples.is_empty() {
                continue;
            }
            let array = match zarr.array(&grid.path).await {
                Ok(array) => array,
                Err(e) => {
                    let rule = "ref/metadata";
                    self.add(
                        rule,
                        Level::Error,
                        shown(&grid.path),
                        e.key().unwrap_or_default(),
                        "",
                        error_text(&e),
                    );
                    continue;
                }
            };
            let chunks = match self.options.sample {
                Some(_) => stream::iter(samples).boxed(),
                None => present(map, self.arrays, number),
            };
            let (options, array) = (self.options, &array);
            let tried = chunks.map(|chunk| async move {
                let tried = try_chunk(map, array, grid, chunk, faults).await;
                meter.advance(1);
                tried
            });
            let mut tried = tried.buffer_unordered(options.concurrency.clamp(1, DECODES_AT_ONCE));
            while let Some(tried) = self.options.task.unless_cancelled(tried.next().map(Ok)).await? {
                match tried {
                    Tried::Passed => {}
                    Tried::Well => self.report.decoded += 1,
                    Tried::Fault { key, url, message } => {
                        self.report.decoded += 1;
                        self.add("ref/decode", Level::Error, shown(&grid.path), &key, &url, message);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Chunks decoded concurrently.
const DECODES_AT_ONCE: usize = 8;

/// The numbers of the chunks of an array that the map has.
fn present<'a>(map: &'a dyn Map, arrays: &'a Arrays, array: usize) -> stream::BoxStream<'a, u64> {
    let path = arrays.list().get(array).map(|a| a.path.as_str()).unwrap_or_default();
    let mut hint = array;
    let numbers = map.entries(path).filter_map(move |entry| {
        let part = entry.ok().map(|(key, _)| arrays.part(&key, &mut hint));
        let number = match part {
            Some(KeyRole::Chunk { array: of, number }) if of == array => Some(number),
            _ => None,
        };
        async move { number }
    });
    numbers.boxed()
}

enum Tried {
    /// Its object is already known to be at fault.
    Passed,
    Well,
    Fault {
        key: String,
        url: String,
        message: String,
    },
}

async fn try_chunk(
    map: &dyn Map,
    array: &Array,
    grid: &ChunkGrid,
    number: u64,
    faults: &HashMap<MappedObject, ObjectFault>,
) -> Tried {
    let index = grid.index(number);
    let key = grid.meta.keys.key(&grid.path, &index);
    let remote = match map.locate(&key).await {
        Ok(Some(Location::Remote(remote))) => Some(remote),
        _ => None,
    };
    if remote.as_ref().is_some_and(|r| faults.contains_key(&MappedObject::of(r))) {
        return Tried::Passed;
    }
    let place = index.iter().zip(grid.meta.grid.axes()).zip(&grid.meta.shape).map(|((i, axis), extent)| {
        let (start, length) = axis.place(*i).unwrap_or_default();
        (start, length.min(extent.saturating_sub(start)))
    });
    let (start, count): (Vec<u64>, Vec<u64>) = place.unzip();
    let options = ReadOptions { missing: Missing::Error, ..ReadOptions::default() };
    match array.read_slab(&Selection::start_count(&start, &count), &options).await {
        Ok(_) => Tried::Well,
        Err(e) => {
            let url = remote.map(|r| r.url.to_string()).unwrap_or_default();
            Tried::Fault { key, url, message: error_text(&e) }
        }
    }
}

/// Checks that an object exists, in the pinned version, and has `end` bytes.
async fn look(map: &dyn Map, targets: &dyn Targets, object: &MappedObject, end: u64) -> Option<ObjectFault> {
    let asked = async {
        let target = targets.target(&object.remote()).await?;
        match object.pin.as_deref().filter(|p| !p.is_empty()) {
            // The last byte, or any: the answer shows whether the state is there, and large enough.
            Some(pin) => {
                let range = match end.checked_sub(1) {
                    Some(last) => ByteRange::span(last, 1),
                    None => ByteRange::span(0, 0),
                };
                let got = target.store.get_pinned(&target.key, Some(range), pin).await?;
                Ok(got.map(|_| end.max(map.known_size(&object.remote()).unwrap_or_default())))
            }
            None => target.store.size(&target.key).await,
        }
    };
    match asked.await {
        Ok(Some(size)) if size >= end => None,
        Ok(Some(size)) => Some(ObjectFault::Short(size)),
        Ok(None) => Some(ObjectFault::Lost("ref/target-missing", "the object does not exist".to_owned())),
        Err(e) => {
            let e: Error = e;
            let rule = match e.kind() {
                ErrorKind::NotFound => "ref/target-missing",
                ErrorKind::NotPermitted => "ref/target-refused",
                ErrorKind::Unsupported | ErrorKind::Usage => "ref/target-unsupported",
                ErrorKind::Invalid | ErrorKind::Conflict => "ref/target-changed",
                _ => "ref/target-unreadable",
            };
            Some(ObjectFault::Lost(rule, error_text(&e)))
        }
    }
}

/// The text of an error without the locations that its finding has.
fn error_text(e: &Error) -> String {
    match std::error::Error::source(e).map(ToString::to_string) {
        Some(cause) if !e.message().contains(&cause) => format!("{}: {cause}", e.message()),
        _ => e.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::testing::{MemoryMap, MemoryTargets, zarr_with};
    use super::*;
    use crate::task::CancelToken;

    async fn checked(map: MemoryMap, targets: MemoryTargets, options: &ValidateOptions) -> MapReport {
        let zarr = zarr_with(map.clone(), targets.clone()).await;
        validate(&map, &targets, &zarr, options).await.unwrap()
    }

    fn map() -> MemoryMap {
        MemoryMap::new()
            .text(".zgroup", r#"{"zarr_format":2}"#)
            .v2("a", &[10], &[2])
            .range("a/0", "mem:one", 0, 2)
            .range("a/1", "mem:one", 2, 2)
            .whole("a/2", "mem:two")
            .text("a/3", "xy")
    }

    fn targets() -> MemoryTargets {
        let targets = MemoryTargets::default();
        targets.0.put("one", vec![1, 2, 3, 4]).unwrap();
        targets.0.put("two", vec![5, 6]).unwrap();
        targets
    }

    fn rules(report: &MapReport) -> Vec<(&'static str, &str)> {
        report.findings.iter().map(|f| (f.rule, f.key.as_str())).collect()
    }

    #[tokio::test]
    async fn a_sound_map_has_no_findings() {
        let report = checked(map(), targets(), &ValidateOptions::default()).await;
        assert_eq!(rules(&report), []);
        assert_eq!((report.entries, report.objects, report.decoded, report.arrays), (6, 2, 2, 1));
        let all = ValidateOptions { sample: None, ..ValidateOptions::default() };
        assert_eq!(checked(map(), targets(), &all).await.decoded, 4);
        let none = ValidateOptions { sample: Some(0), ..ValidateOptions::default() };
        assert_eq!(checked(map(), targets(), &none).await.decoded, 0);
    }

    #[tokio::test]
    async fn every_fault_is_found_and_named() {
        let bad = map()
            .range("a/1", "mem:one", 3, 2)
            .whole("a/2", "mem:gone")
            .text("a/3", "only three?")
            .range("a/4", "/etc/passwd", 0, 2)
            .range("a/7", "mem:one", 0, 1)
            .range("a/x", "mem:one", u64::MAX, 2)
            .text("b/.zarray", "{")
            .text("c/.zattrs", "{");
        let all = ValidateOptions { sample: None, ..ValidateOptions::default() };
        let report = checked(bad.clone(), targets(), &all).await;
        let wanted = [
            ("ref/range", "a/x"),
            ("ref/stray-key", "a/x"),
            ("ref/short", "a/1"),
            ("ref/target-missing", "a/2"),
            ("ref/decode", "a/3"),
            ("ref/target-refused", "a/4"),
            ("ref/outside-grid", "a/7"),
            ("ref/metadata", "b/.zarray"),
            ("ref/metadata", "c/.zattrs"),
        ];
        let mut found = rules(&report);
        found.sort_unstable();
        let mut sorted = wanted;
        sorted.sort_unstable();
        assert_eq!(found, sorted);
        assert_eq!((report.errors, report.warnings), (7, 2));
        let short = report.findings.iter().find(|f| f.rule == "ref/short").unwrap();
        assert_eq!((short.node.as_str(), short.url.as_str()), ("/a", "mem:one"));
        assert!(short.message.contains("3+2") && short.message.contains("4 bytes"), "{}", short.message);
        let few = ValidateOptions { limit: 2, ..all };
        let report = checked(bad, targets(), &few).await;
        assert_eq!((report.findings.len(), report.errors, report.warnings), (2, 7, 2));
    }

    #[tokio::test]
    async fn progress_reaches_its_end_and_a_stop_stops() {
        let last = Arc::new(AtomicU64::new(0));
        let seen = last.clone();
        let options = ValidateOptions {
            task: Task::default().with_progress(move |p| {
                seen.fetch_max(p.done, Ordering::Relaxed);
                assert_eq!((p.total, p.unit), (Some(4), Unit::Objects));
            }),
            ..ValidateOptions::default()
        };
        checked(map(), targets(), &options).await;
        assert_eq!(last.load(Ordering::Relaxed), 4);
        let cancel = CancelToken::new();
        cancel.cancel();
        let stopped = ValidateOptions { task: Task::default().with_cancel(&cancel), ..options };
        let (map, targets) = (map(), targets());
        let zarr = zarr_with(map.clone(), targets.clone()).await;
        let e = validate(&map, &targets, &zarr, &stopped).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Cancelled);
    }
}
