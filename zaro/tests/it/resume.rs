//! What was interrupted resumes only if it is the same: the same data, options, place and program; and a place belongs to
//! one run at a time.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use tempfile::TempDir;

use crate::common::{V2, V3, wait};
use zaro::copy::{Copied, CopyOptions, Sizes, convert_in_place, copy};
use zaro::hierarchy::{self, Existing};
use zaro::meta::{Format, Json};
use zaro::store::{
    Condition, Entry, GetOptions, ListOptions, LocalStore, MemoryStore, Object, ObjectMeta, Put, SharedStore,
    Store, StoreExt as _, StoreFacts,
};
use zaro::testing::{Fault, FaultStore};
use zaro::{
    CancelToken, Context, Error, ErrorKind, OpenOptions, Order, ReadOptions, Result, Selection, Task, Values,
    WriteOptions, Zarr,
};

const JOURNAL: &str = ".zaro-journal.json";
const LE: &str = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
const SHAPE: [u64; 2] = [64, 64];

fn local(path: impl AsRef<Path>) -> SharedStore {
    Arc::new(LocalStore::new(path.as_ref()))
}

/// A folder with an array whose elements are all `value`.
fn source(path: &Path, value: u8) {
    std::fs::create_dir_all(path).unwrap();
    let document = V3::new(&SHAPE, &[4, 4], "uint8").codecs(LE).document();
    std::fs::write(path.join("zarr.json"), document).unwrap();
    fill(path, value);
}

fn fill(path: &Path, value: u8) {
    let array = wait(open(&local(path)).array("")).unwrap();
    let values = vec![value; 64 * 64];
    array
        .write_slab_blocking(
            &Selection::all(),
            Values::new(values.to_vec(), Order::C),
            &WriteOptions::default(),
        )
        .unwrap();
}

fn open(store: &SharedStore) -> Zarr {
    wait(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap()
}

fn elements(path: &Path) -> Vec<u8> {
    let array = wait(open(&local(path)).array("")).unwrap();
    array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().bytes
}

fn keys(store: &SharedStore) -> Vec<String> {
    let mut keys: Vec<String> =
        wait(async { store.keys("").map_ok(|e| e.key).try_collect::<Vec<_>>().await }).unwrap();
    keys.sort();
    keys
}

/// As chunks are, and cut otherwise; and how many requests apart it is stopped.
fn ways() -> [(CopyOptions, usize); 2] {
    let recut = CopyOptions::default()
        .with_chunks(Some(Sizes::List(vec![8, 8])))
        .with_context(Context::shared().with_memory(20_000));
    [(CopyOptions::default(), 67), (recut, 17)]
}

fn run(from: &Path, to: &Path, options: &CopyOptions) -> Result<Copied> {
    wait(copy(&open(&local(from)), from.to_str().unwrap(), "", &local(to), "", options))
}

/// Copies until so many requests were made.
fn stopped(from: &Path, to: &Path, options: &CopyOptions, after: u64) -> bool {
    let dying: SharedStore = Arc::new(FaultStore::new(local(to)).with_all_after(after, Fault::Final));
    wait(copy(&open(&local(from)), from.to_str().unwrap(), "", &dying, "", options)).is_err()
}

#[test]
fn a_source_that_changed_is_not_mixed_with_what_it_was() {
    let dir = TempDir::new().unwrap();
    let s = dir.path().join("s");
    for (way, (options, apart)) in ways().iter().enumerate() {
        let mut refused = 0;
        for after in (0..).step_by(*apart) {
            source(&s, 1);
            let d = dir.path().join(format!("d{way}-{after}"));
            if !stopped(&s, &d, options, after) {
                break;
            }
            let begun = d.join(JOURNAL).exists();
            fill(&s, 2);
            match run(&s, &d, options) {
                Err(e) => {
                    assert!(begun, "{e}");
                    assert!(e.to_string().contains("chunks of its source have changed"), "{e}");
                    refused += 1;
                }
                Ok(copied) => assert!(!begun && !copied.resumed),
            }
            let anew = options.clone().with_existing(Existing::Replace);
            assert!(!run(&s, &d, &anew).unwrap().resumed, "begun anew");
            assert!(elements(&d).iter().all(|e| *e == 2), "way {way}, after {after}");
            assert!(!d.join(JOURNAL).exists());
        }
        assert!(refused > 1, "way {way}: {refused}");
    }
}

#[test]
fn the_very_same_copy_is_taken_up_and_finished() {
    let dir = TempDir::new().unwrap();
    let s = dir.path().join("s");
    source(&s, 3);
    for (way, (options, apart)) in ways().iter().enumerate() {
        for after in (0..).step_by(*apart) {
            let d = dir.path().join(format!("d{way}-{after}"));
            if !stopped(&s, &d, options, after) {
                break;
            }
            let (begun, whole) = (d.join(JOURNAL).exists(), d.join("zarr.json").exists());
            if begun || !whole {
                assert_eq!(run(&s, &d, options).unwrap().resumed, begun, "way {way}, after {after}");
            }
            assert!(elements(&d).iter().all(|e| *e == 3), "way {way}, after {after}");
            assert!(!d.join(JOURNAL).exists());
        }
    }
}

#[test]
fn another_source_and_other_options_are_told_apart() {
    let dir = TempDir::new().unwrap();
    let (p, q, d) = (dir.path().join("p"), dir.path().join("q"), dir.path().join("d"));
    source(&p, 1);
    source(&q, 2);
    let options = CopyOptions::default();
    // Both are called the same, as from two folders.
    let named = |from: &Path, options: &CopyOptions| {
        wait(copy(&open(&local(from)), "s.zarr", "", &local(&d), "", options))
    };
    let dying: SharedStore = Arc::new(FaultStore::new(local(&d)).with_all_after(90, Fault::Final));
    wait(copy(&open(&local(&p)), "s.zarr", "", &dying, "", &options)).unwrap_err();
    let before = keys(&local(&d));
    assert!(before.contains(&JOURNAL.to_owned()));
    let e = named(&q, &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Usage);
    assert!(e.to_string().contains("chunks of its source have changed"), "{e}");
    for (other, said) in [
        (options.clone().with_chunks(Some(Sizes::List(vec![8, 8]))), "chunks was nothing, not [8,8]"),
        (options.clone().with_format(Some(Format::V2)), "zarr_format was nothing, not 2"),
        (options.clone().with_region(Some(Selection::parse("0:8,:").unwrap())), "select was nothing"),
    ] {
        let e = named(&p, &other).unwrap_err();
        assert!(e.to_string().contains(said), "{e}");
    }
    // An unfinished copy that somebody moved or copied may lack what its journal counts.
    let moved = dir.path().join("moved");
    std::fs::rename(&d, &moved).unwrap();
    let e = run(&p, &moved, &options).unwrap_err();
    assert!(e.to_string().contains("it was started at"), "{e}");
    std::fs::rename(&moved, &d).unwrap();
    assert_eq!(keys(&local(&d)), before, "nothing was changed by what was refused");
    let text = std::fs::read_to_string(d.join(JOURNAL)).unwrap();
    std::fs::write(d.join(JOURNAL), text.replace(env!("CARGO_PKG_VERSION"), "9.9.9")).unwrap();
    let e = named(&p, &options).unwrap_err();
    assert!(e.to_string().contains("started by zaro 9.9.9"), "{e}");
    // Whatever stands there: it is made anew.
    std::fs::write(d.join(JOURNAL), "no JSON").unwrap();
    assert_eq!(named(&p, &options).unwrap_err().kind(), ErrorKind::Usage);
    named(&q, &options.with_existing(Existing::Replace)).unwrap();
    assert!(elements(&d).iter().all(|e| *e == 2));
}

#[test]
fn a_journal_is_private_and_has_no_secrets() {
    let dir = TempDir::new().unwrap();
    let (s, d) = (dir.path().join("s"), dir.path().join("d"));
    source(&s, 1);
    let dying: SharedStore = Arc::new(FaultStore::new(local(&d)).with_all_after(60, Fault::Final));
    let name = "https://user:WORD@host/a.zarr?X-Amz-Signature=SIGNED";
    wait(copy(&open(&local(&s)), name, "", &dying, "", &CopyOptions::default())).unwrap_err();
    let text = std::fs::read_to_string(d.join(JOURNAL)).unwrap();
    for secret in ["WORD", "user", "SIGNED", "Signature"] {
        assert!(!text.contains(secret), "{text}");
    }
    let journal = Json::parse(text.as_bytes()).unwrap().value;
    let of = |names: &[&str]| names.iter().try_fold(&journal, |j, name| j.get(name)).unwrap().to_string();
    assert_eq!(of(&["source", "address"]), r#""https://host/a.zarr""#);
    assert_eq!((of(&["journal"]), of(&["operation"])), ("1".to_owned(), r#""copy""#.to_owned()));
    assert_eq!(d.join(JOURNAL).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // Another signature is the same source.
    let name = "https://host/a.zarr?X-Amz-Signature=NEW";
    let copied = wait(copy(&open(&local(&s)), name, "", &local(&d), "", &CopyOptions::default())).unwrap();
    assert!(copied.resumed);
}

/// Slower than it is, so that it is met in the middle.
fn slow(options: CopyOptions) -> CopyOptions {
    options.with_task(Task::default().with_progress(|_| std::thread::sleep(Duration::from_millis(40))))
}

#[test]
fn a_place_belongs_to_one_run() {
    let dir = TempDir::new().unwrap();
    let (p, q, d) = (dir.path().join("p"), dir.path().join("q"), dir.path().join("d"));
    source(&p, 1);
    source(&q, 2);
    let options = ways()[1].0.clone();
    std::thread::scope(|s| {
        let first = s.spawn(|| run(&p, &d, &slow(options.clone())));
        while !d.join(JOURNAL).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        for existing in [Existing::Refuse, Existing::Replace] {
            for from in [&p, &q] {
                let e = run(from, &d, &options.clone().with_existing(existing)).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
                assert!(e.to_string().contains("is running here"), "{e}");
            }
        }
        first.join().unwrap().unwrap();
    });
    assert!(elements(&d).iter().all(|e| *e == 1));
}

#[test]
fn of_two_that_begin_together_one_makes_it() {
    let dir = TempDir::new().unwrap();
    let (p, q) = (dir.path().join("p"), dir.path().join("q"));
    source(&p, 1);
    source(&q, 2);
    for round in 0..20 {
        let d = dir.path().join(format!("d{round}"));
        let ends: Vec<bool> = std::thread::scope(|s| {
            let both: Vec<_> =
                [&p, &q].map(|from| s.spawn(|| run(from, &d, &CopyOptions::default()).is_ok())).into();
            both.into_iter().map(|b| b.join().unwrap()).collect()
        });
        let found = elements(&d);
        assert!(ends.iter().filter(|e| **e).count() == 1, "{ends:?}");
        assert!(found.iter().all(|e| *e == if ends[0] { 1 } else { 2 }), "round {round}");
    }
}

#[test]
fn who_loses_the_place_to_another_machine_stops() {
    let dir = TempDir::new().unwrap();
    let (p, d) = (dir.path().join("p"), dir.path().join("d"));
    source(&p, 1);
    let options = CopyOptions::default()
        .with_chunks(Some(Sizes::List(vec![64, 1])))
        .with_context(Context::shared().with_memory(3000));
    std::thread::scope(|s| {
        let first = s.spawn(|| run(&p, &d, &slow(options.clone())));
        while !d.join(JOURNAL).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(100));
        // The journal as a run elsewhere would have it.
        let text = std::fs::read_to_string(d.join(JOURNAL)).unwrap();
        let mut journal = Json::parse(text.as_bytes()).unwrap().value;
        let mut owner = journal.get("owner").unwrap().clone();
        owner.set("machine", Json::string("elsewhere"));
        journal.set("owner", owner);
        std::fs::write(d.join(JOURNAL), journal.pretty()).unwrap();
        assert!(run(&p, &d, &options).unwrap().resumed);
        let e = first.join().unwrap().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
    });
    assert!(elements(&d).iter().all(|e| *e == 1));
    assert!(!d.join(JOURNAL).exists());
}

#[test]
fn a_source_that_changes_meanwhile_is_found_out_at_the_end() {
    let dir = TempDir::new().unwrap();
    for (way, (options, _)) in ways().into_iter().enumerate() {
        let (s, d) = (dir.path().join(format!("s{way}")), dir.path().join(format!("d{way}")));
        source(&s, 1);
        let (changed, at) = (AtomicBool::new(false), s.clone());
        let progress = move |_| {
            if !changed.swap(true, Ordering::Relaxed) {
                std::fs::write(at.join("c/15/15"), vec![9u8; 16]).unwrap();
            }
        };
        let meddled = options.clone().with_task(Task::default().with_progress(progress));
        let e = run(&s, &d, &meddled).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
        assert!(!d.join("zarr.json").exists(), "nothing is published");
        assert_eq!(run(&s, &d, &options).unwrap_err().kind(), ErrorKind::Usage);
        run(&s, &d, &options.with_existing(Existing::Replace)).unwrap();
        assert_eq!(elements(&d), elements(&s));
    }
}

#[test]
fn temporary_chunks_are_of_one_run() {
    // Maps become series with so little memory that they go through temporary chunks.
    let dir = TempDir::new().unwrap();
    let temporary = dir.path().join("temporary");
    let make = |name: &str, value: u8| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let document = V3::new(&[512, 256, 64], &[1, 256, 64], "uint8").codecs(LE).document();
        std::fs::write(path.join("zarr.json"), document).unwrap();
        let array = wait(open(&local(&path)).array("")).unwrap();
        let values = vec![value; 512 * 256 * 64];
        array
            .write_slab_blocking(
                &Selection::all(),
                Values::new(values.to_vec(), Order::C),
                &WriteOptions::default(),
            )
            .unwrap();
        path
    };
    let options = CopyOptions::default()
        .with_chunks(Some(Sizes::List(vec![512, 4, 64])))
        .with_context(Context::shared().with_memory(4 << 20))
        .with_temporary(Some(temporary.clone()));
    let scratch = || -> Vec<_> {
        let found = std::fs::read_dir(&temporary).into_iter().flatten();
        found.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    // What a dead run of ours left.
    let dead = temporary.join(format!("zaro-scratch-{}", "0".repeat(32)));
    std::fs::create_dir_all(dead.join("c/0/0")).unwrap();
    std::fs::write(dead.join("lock"), "").unwrap();
    std::fs::write(dead.join("c/0/0/0"), vec![9u8; 100]).unwrap();
    let (s, d) = (make("s", 7), dir.path().join("d"));
    for stop in [3, 30] {
        let cancel = CancelToken::new();
        let (calls, flag, at) = (AtomicU64::new(0), cancel.clone(), temporary.clone());
        let progress = move |_| {
            let private: Vec<u32> = std::fs::read_dir(&at)
                .unwrap()
                .map(|e| e.unwrap().metadata().unwrap().permissions().mode() & 0o777)
                .collect();
            assert_eq!(private, [0o700], "one folder, for us alone");
            if calls.fetch_add(1, Ordering::Relaxed) == stop {
                flag.cancel();
            }
        };
        let task = Task::default().with_progress(progress).with_cancel(&cancel);
        let stopping = options.clone().with_task(task);
        assert_eq!(run(&s, &d, &stopping).unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(scratch().is_empty(), "{:?}", scratch());
    }
    assert!(run(&s, &d, &options).unwrap().resumed);
    assert!(elements(&d).iter().all(|e| *e == 7));
    // Two at once with the same names, from two folders.
    let (p, q) = (make("p", 1), make("q", 2));
    std::thread::scope(|threads| {
        for (from, value) in [(&p, 1u8), (&q, 2)] {
            let (options, to) = (&options, dir.path().join(format!("copy{value}")));
            threads.spawn(move || {
                wait(copy(&open(&local(from)), "s.zarr", "", &local(&to), "", options)).unwrap();
                assert!(elements(&to).iter().all(|e| *e == value));
            });
        }
    });
    assert!(scratch().is_empty(), "{:?}", scratch());
}

/// A hierarchy of V2 whose chunks can stay in V3, in memory.
fn both_ways() -> SharedStore {
    let store = MemoryStore::new();
    store.put(".zgroup", r#"{"zarr_format":2}"#).unwrap();
    store.put(".zattrs", r#"{"title":"t"}"#).unwrap();
    for name in ["a", "b", "c"] {
        store.put(&format!("{name}/.zarray"), V2::new(&[4, 4], &[2, 2], "<i4").document()).unwrap();
    }
    let store: SharedStore = Arc::new(store);
    for (i, name) in ["a", "b", "c"].iter().enumerate() {
        let values: Vec<u8> = (1..=16u32).flat_map(|n| (n * (i as u32 + 1)).to_le_bytes()).collect();
        let array = wait(open(&store).array(name)).unwrap();
        array
            .write_slab_blocking(
                &Selection::all(),
                Values::new(values.to_vec(), Order::C),
                &WriteOptions::default(),
            )
            .unwrap();
    }
    store
}

fn contents(store: &SharedStore) -> Vec<Vec<u8>> {
    let zarr =
        wait(Zarr::from_store(store.clone(), OpenOptions::default().with_use_consolidated(false))).unwrap();
    assert_eq!(wait(zarr.node("")).unwrap().meta.attributes().get("title"), Some(&Json::string("t")));
    ["a", "b", "c"]
        .iter()
        .map(|name| {
            let array = wait(zarr.array(name)).unwrap();
            array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().bytes
        })
        .collect()
}

fn format(store: &SharedStore) -> Format {
    wait(hierarchy::find(store, "")).unwrap().unwrap().meta.format()
}

#[test]
fn a_conversion_is_finished_or_undone_and_never_taken_for_its_opposite() {
    for consolidated in [false, true] {
        for (from, to, moved) in
            [(Format::V2, Format::V3, false), (Format::V3, Format::V2, false), (Format::V3, Format::V2, true)]
        {
            let fresh = || {
                let mut store = both_ways();
                if moved {
                    // With keys that V2 does not have.
                    let made: SharedStore = Arc::new(MemoryStore::new());
                    let options = CopyOptions::default().with_format(Some(from));
                    wait(copy(&open(&store), "memory", "", &made, "", &options)).unwrap();
                    store = made;
                    assert!(keys(&store).contains(&"a/c/0/0".to_owned()));
                }
                if consolidated {
                    wait(hierarchy::consolidate(&store, "")).unwrap();
                }
                if from == Format::V3 && !moved {
                    wait(convert_in_place(&store, "", Format::V3)).unwrap();
                }
                store
            };
            let wanted = contents(&fresh());
            let (mut undone, mut refused) = (0, 0);
            for n in 0.. {
                let store = fresh();
                let dying: SharedStore =
                    Arc::new(FaultStore::new(store.clone()).with_all_after(n, Fault::Final));
                let whole = wait(convert_in_place(&dying, "", to)).is_ok();
                assert_eq!(contents(&store), wanted, "after {n} requests");
                let begun = keys(&store).contains(&JOURNAL.to_owned());
                if begun {
                    // To stay with, or to go back to, what it was.
                    match wait(convert_in_place(&store, "", from)) {
                        Ok(nodes) => {
                            assert_eq!((nodes, format(&store)), (0, from));
                            assert_eq!(keys(&store), keys(&fresh()), "after {n} requests");
                            undone += 1;
                        }
                        Err(e) => {
                            assert!(e.to_string().contains("almost finished"), "{e}");
                            refused += 1;
                        }
                    }
                    assert_eq!(contents(&store), wanted, "after {n} requests");
                }
                if format(&store) == from || keys(&store).contains(&JOURNAL.to_owned()) {
                    assert_eq!(wait(convert_in_place(&store, "", to)).unwrap(), 4);
                }
                assert_eq!((contents(&store), format(&store)), (wanted.clone(), to), "after {n} requests");
                let old = if from == Format::V2 { ".z" } else { "zarr.json" };
                assert!(
                    !keys(&store).iter().any(|k| k.contains(old) || k.contains("/c/")),
                    "{:?}",
                    keys(&store)
                );
                if whole {
                    break;
                }
            }
            assert!(undone > 3 && refused > 3, "{undone} {refused}");
        }
    }
}

#[test]
fn a_conversion_takes_no_old_documents_for_new_ones() {
    // Killed, then an attribute is edited in the old version: the new documents would lack it.
    let (mut seen, wanted) = (0, contents(&both_ways()));
    for n in (0..).step_by(3) {
        let store = both_ways();
        let dying: SharedStore = Arc::new(FaultStore::new(store.clone()).with_all_after(n, Fault::Final));
        if wait(convert_in_place(&dying, "", Format::V3)).is_ok() {
            break;
        }
        if format(&store) != Format::V2 {
            continue;
        }
        let old = r#"{"title":"t","late":1}"#;
        let _ = wait(store.put(".zattrs", old.into(), Condition::Always)).unwrap();
        wait(convert_in_place(&store, "", Format::V3)).unwrap();
        let node = wait(hierarchy::find(&store, "")).unwrap().unwrap();
        assert!(node.meta.attributes().get("late").is_some(), "after {n} requests");
        assert_eq!(contents(&store), wanted);
        seen += 1;
    }
    assert!(seen > 5);
    // A node that has both versions already is not overwritten.
    let store = both_ways();
    let _ = wait(store.put("a/zarr.json", "{}".into(), Condition::Always)).unwrap();
    let before = keys(&store);
    assert_eq!(wait(convert_in_place(&store, "", Format::V3)).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(keys(&store), before);
}

/// A store that ignores conditions, and says so after the first: as some servers do.
#[derive(Debug)]
struct Careless {
    inner: MemoryStore,
    puts: AtomicU64,
}

impl std::fmt::Display for Careless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("careless:")
    }
}

#[async_trait]
impl Store for Careless {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        self.inner.get_opts(key, options).await
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.inner.stat(key).await
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        self.inner.list_opts(prefix, options)
    }

    fn facts(&self) -> StoreFacts {
        StoreFacts { lists_all: true, is_writable: true, is_remote: true }
    }

    async fn put(&self, key: &str, value: Bytes, when: Condition) -> Result<Put> {
        self.puts.fetch_add(1, Ordering::Relaxed);
        let put = Store::put(&self.inner, key, value, Condition::Always).await?;
        match when {
            Condition::Always => Ok(put),
            _ => Err(Error::unsupported("this server ignores the conditions of puts")),
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        Store::delete(&self.inner, key).await
    }
}

#[test]
fn a_place_without_conditions_is_found_out_before_anything_is_copied() {
    let dir = TempDir::new().unwrap();
    let s = dir.path().join("s");
    source(&s, 1);
    let careless = Arc::new(Careless { inner: MemoryStore::new(), puts: AtomicU64::new(0) });
    let store: SharedStore = careless.clone();
    let e = wait(copy(&open(&local(&s)), "s", "", &store, "a/b", &CopyOptions::default())).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
    assert_eq!(careless.puts.load(Ordering::Relaxed), 1, "the journal alone was tried");
    assert!(keys(&store).is_empty(), "{:?}", keys(&store));
}

#[test]
fn unfinished_work_is_known_to_all() {
    let dir = TempDir::new().unwrap();
    let (s, d) = (dir.path().join("s"), dir.path().join("d"));
    source(&s, 1);
    assert!(stopped(&s, &d, &CopyOptions::default(), 90));
    let store = local(&d);
    let e = wait(open(&store).node("")).unwrap_err();
    let said =
        format!("unfinished work of `zaro copy` from {} is here; rerun", s.canonicalize().unwrap().display());
    assert!(e.to_string().contains(&said), "{e}");
    let made = wait(hierarchy::create_group(&store, "", Format::V3, &Json::object(), Existing::Refuse));
    assert!(made.unwrap_err().to_string().contains("unfinished work"), "not made into something else");
    // What earlier versions left is not taken up, and can be replaced.
    std::fs::rename(d.join(JOURNAL), d.join(".zaro-copy.json")).unwrap();
    let e = run(&s, &d, &CopyOptions::default()).unwrap_err();
    assert!(e.to_string().contains("earlier version"), "{e}");
    run(&s, &d, &CopyOptions::default().with_existing(Existing::Replace)).unwrap();
    assert_eq!(elements(&d), elements(&s));
    assert!(!d.join(".zaro-copy.json").exists());
}
