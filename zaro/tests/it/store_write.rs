//! Writing to stores that need no server: files, memory, and the wrappers around them.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use zaro::blocking::block_on;
use zaro::internal::wrap::{CacheStore, CoalesceStore, LimitStore, LogStore, RetryStore};
use zaro::open::open_store_for_writing;
use zaro::store::{
    Condition, Entry, GetOptions, KeyEntry, ListOptions, LocalStore, MemoryStore, Object, ObjectMeta,
    PrefixStore, Put, ReadOnlyStore, RequestLog, RetryPolicy, SharedStore, Store, StoreExt as _,
    StoreOptions, ZipCreateStore, ZipStore,
};
use zaro::testing::{Fault, FaultStore, count_of, count_up, sample_objects, store_suite, write_suite};
use zaro::{Context, ErrorKind};

fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

/// Names of everything in a folder and below, temporary files too.
fn tree(at: &Path) -> Vec<String> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(at).into_iter().flatten() {
        let path = entry.unwrap().path();
        out.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        if path.is_dir() {
            out.extend(tree(&path));
        }
    }
    out
}

#[tokio::test]
async fn files_and_memory_can_be_written_to() {
    write_suite(&MemoryStore::new(), true).await;
    for durable in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("not/yet/there");
        let store = LocalStore::new(&root).durable(durable);
        write_suite(&store, false).await;
        store.delete_prefix("").await.unwrap();
        assert_eq!(tree(dir.path()), ["not", "yet"], "nothing is left, not even the root");
    }
}

#[tokio::test]
async fn every_wrapper_passes_writes_on() {
    let dir = tempfile::tempdir().unwrap();
    let near: SharedStore = Arc::new(MemoryStore::new());
    let far: SharedStore = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let files: SharedStore = Arc::new(LocalStore::new(dir.path().join("s")));
    for (store, both) in [(near, true), (far, true), (files, false)] {
        let s = || Arc::clone(&store);
        write_suite(&CacheStore::new(s(), &Context::shared().with_memory(8 * (1 << 20))), both).await;
        write_suite(&CoalesceStore::new(s()), both).await;
        write_suite(&LimitStore::new(s(), &Context::shared(), "write", 2), both).await;
        write_suite(&LogStore::new(s(), Arc::new(RequestLog::with_sink(|_| ()))), both).await;
        write_suite(&RetryStore::new(s(), RetryPolicy::default()), both).await;
        write_suite(&PrefixStore::new(s(), "").unwrap(), both).await;
        assert!(s().put("p/qq/beside", text("x"), Condition::Always).await.unwrap().is_done());
        write_suite(&PrefixStore::new(s(), "p/q").unwrap(), both).await;
        assert_eq!(s().get("p/qq/beside", None).await.unwrap().unwrap(), "x", "what is beside stays");
        s().delete("p/qq/beside").await.unwrap();
        write_suite(&*zaro::open::wrapped(s(), "write", &Default::default()), both).await;
    }
}

#[tokio::test]
async fn a_read_only_store_reads_and_refuses_the_rest() {
    let memory = Arc::new(MemoryStore::new());
    for (key, bytes) in sample_objects(true) {
        memory.put(&key, bytes).unwrap();
    }
    let store = ReadOnlyStore::new(memory);
    store_suite(&store, &sample_objects(true)).await;
    assert!(!store.is_writable());
    let direct = store.direct().unwrap();
    for error in [
        store.put("a", text("x"), Condition::Always).await.unwrap_err(),
        store.delete("a").await.unwrap_err(),
        store.delete_prefix("").await.unwrap_err(),
        direct.put("a", &[], &Condition::Absent).unwrap_err(),
        direct.delete("a").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotPermitted, "{error}");
    }
    store_suite(&store, &sample_objects(true)).await;
}

/// Eight threads, each with a store of its own, count in one object and write others beside it.
fn eight_threads(make: impl Fn() -> SharedStore + Sync) {
    let times = 200;
    std::thread::scope(|s| {
        for worker in 0..8 {
            let store = make();
            s.spawn(move || {
                block_on(async {
                    for round in 0..4 {
                        count_up(&*store, "deep/count", &worker.to_string(), times / 4).await;
                        let beside = format!("deep/{worker}-{round}");
                        assert!(store.put(&beside, text("x"), Condition::Always).await?.is_done());
                        store.delete(&beside).await?;
                    }
                    Ok(())
                })
                .unwrap();
            });
        }
    });
    let store = make();
    let last = block_on(store.get("deep/count", None)).unwrap().unwrap();
    assert_eq!(count_of(&last), 8 * times, "{store}: an increment was lost");
    assert_eq!(block_on(store.list("deep")).unwrap().objects, ["count"]);
}

#[test]
fn no_increment_of_eight_threads_is_lost() {
    let memory: SharedStore = Arc::new(MemoryStore::new());
    eight_threads(|| Arc::clone(&memory));
    let dir = tempfile::tempdir().unwrap();
    eight_threads(|| Arc::new(LocalStore::new(dir.path())));
    assert_eq!(tree(dir.path()), ["deep", "count"]);
}

/// What a put without a condition brought is never overwritten by a conditional one that had not seen it.
fn overwriting_and_changing(store: &dyn Store) {
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let change = async {
                        let Some((bytes, tag)) = store.get_for_update("k").await? else {
                            return Ok(Put::Refused);
                        };
                        let changed = format!("{} changed", count_of(&bytes));
                        store.put("k", changed.into(), Condition::Unchanged(tag)).await
                    };
                    let _ = block_on(change).unwrap();
                }
            });
        }
        for round in 1..3000u64 {
            let put = block_on(store.put("k", text(&format!("{round} 0")), Condition::Always)).unwrap();
            assert!(put.is_done());
            let seen = count_of(&block_on(store.get("k", None)).unwrap().unwrap());
            if seen != round {
                over.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("{store}: put number {round} was overwritten by one that knew only {seen}");
            }
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn conditional_puts_respect_unconditional_ones() {
    overwriting_and_changing(&MemoryStore::new());
    let dir = tempfile::tempdir().unwrap();
    overwriting_and_changing(&LocalStore::new(dir.path()));
    overwriting_and_changing(&ZipCreateStore::create(dir.path().join("x.zip")).unwrap());
}

/// The other process of the next test: this test alone, in a process of its own.
#[test]
fn child_that_counts() {
    let Ok(root) = std::env::var("ZARO_TEST_COUNT_IN") else { return };
    let name = std::process::id().to_string();
    let work = async { Ok(count_up(&LocalStore::new(root), "deep/count", &name, 300).await) };
    block_on(work).unwrap();
}

fn child(test: &str, variable: &str, value: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("store_write::{test}"), "--exact", "--nocapture"])
        .env(variable, value)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn no_increment_of_four_processes_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> =
        (0..4).map(|_| child("child_that_counts", "ZARO_TEST_COUNT_IN", dir.path())).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let last = block_on(LocalStore::new(dir.path()).get("deep/count", None)).unwrap().unwrap();
    assert_eq!(count_of(&last), 1200);
}

/// Writes one object over and over until it is killed.
#[test]
fn child_that_writes_until_killed() {
    let Ok(root) = std::env::var("ZARO_TEST_WRITE_IN") else { return };
    let store = LocalStore::new(root);
    for i in 0u8.. {
        let part = vec![i % 251; 100_000];
        let _ = store.direct().unwrap().put("a/c/0", &[&part, &part], &Condition::Always).unwrap();
    }
}

#[test]
fn a_killed_writer_leaves_an_object_whole_and_its_rest_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::new(dir.path());
    assert!(store.direct().unwrap().put("a/c/0", &[&[7; 200_000]], &Condition::Always).unwrap().is_done());
    for round in 0..30 {
        let mut writer = child("child_that_writes_until_killed", "ZARO_TEST_WRITE_IN", dir.path());
        std::thread::sleep(Duration::from_millis(20 + round * 3));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let bytes = block_on(store.get("a/c/0", None)).unwrap().unwrap();
        assert!(bytes.len() == 200_000 && bytes.iter().all(|b| *b == bytes[0]), "old or new, but whole");
    }
    let left = tree(dir.path()).iter().filter(|n| n.ends_with(".tmp")).count() as u64;
    let keys: Vec<KeyEntry> = block_on(store.keys("").try_collect()).unwrap();
    assert_eq!(keys.len(), 1, "temporary files are not content");
    // One of a living process stays.
    let ours = dir.path().join(format!("a/.zaro-{}-x.tmp", std::process::id()));
    std::fs::write(&ours, "x").unwrap();
    assert_eq!(store.sweep().unwrap(), left);
    assert!(ours.exists() && tree(dir.path()).len() == 4);
}

#[tokio::test]
async fn what_is_in_the_way_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::new(dir.path());
    std::fs::create_dir_all(dir.path().join("folder/in")).unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    for when in [Condition::Always, Condition::Absent] {
        let e = store.put("folder", text("y"), when.clone()).await.unwrap_err();
        assert!(e.to_string().contains("found a folder where an object is expected"), "{e}");
        for below in ["file/in", "file/deep/er"] {
            let e = store.put(below, text("y"), when.clone()).await.unwrap_err();
            assert!(e.to_string().contains("found a file where a folder is expected"), "{e}");
        }
    }
    let e = store.put(&"long".repeat(100), text("y"), Condition::Always).await.unwrap_err();
    assert!(e.key().is_some(), "{e}");
    let e = store.put("a/.zaro-1-2.tmp", text("y"), Condition::Always).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Invalid, "{e}");
    // A folder is no object, so deleting it as one does nothing.
    store.delete("folder").await.unwrap();
    assert_eq!(tree(dir.path()).len(), 3, "no temporary file is left");
    // A link is replaced, what it leads to stays.
    std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
    let (_, tag) = store.get_for_update("link").await.unwrap().unwrap();
    assert!(store.put("link", text("z"), Condition::Unchanged(tag)).await.unwrap().is_done());
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"x");
    assert_eq!(std::fs::read(dir.path().join("link")).unwrap(), b"z");
    // So is a link to a folder that is deleted.
    std::os::unix::fs::symlink("folder", dir.path().join("shortcut")).unwrap();
    store.delete_prefix("shortcut").await.unwrap();
    assert!(dir.path().join("folder/in").exists() && !dir.path().join("shortcut").is_symlink());
}

#[tokio::test]
async fn a_file_changed_in_place_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::new(dir.path());
    assert!(store.put("k", text("one"), Condition::Absent).await.unwrap().is_done());
    let (_, tag) = store.get_for_update("k").await.unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(dir.path().join("k"), "two").unwrap();
    assert_eq!(store.put("k", text("three"), Condition::Unchanged(tag)).await.unwrap(), Put::Refused);
    let (_, foreign) = {
        let memory = MemoryStore::new();
        memory.put("k", "x").unwrap();
        memory.get_for_update("k").await.unwrap().unwrap()
    };
    assert_eq!(store.put("k", text("three"), Condition::Unchanged(foreign)).await.unwrap(), Put::Refused);
    let e = store.put("k", text("three"), Condition::Unchanged(ObjectMeta::Unknown)).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Usage, "{e}");
}

/// `/dev/full` cannot be a folder, so a size limit of the process stands in for a full disk.
#[test]
fn child_on_a_full_disk() {
    let Ok(root) = std::env::var("ZARO_TEST_FULL") else { return };
    let store = LocalStore::new(root);
    let e = store.direct().unwrap().put("a/k", &[&[1; 3 << 20]], &Condition::Always).unwrap_err();
    assert!(e.to_string().contains("the existing object is unchanged"), "{e}");
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::new(dir.path());
    assert!(store.direct().unwrap().put("a/k", &[b"old"], &Condition::Always).unwrap().is_done());
    // SIGXFSZ is ignored by `trap ''`, so that writing past the limit fails instead.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" store_write::child_on_a_full_disk --exact"])
        .arg(std::env::current_exe().unwrap())
        .env("ZARO_TEST_FULL", dir.path())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(tree(dir.path()), ["a", "k"]);
    assert_eq!(block_on(store.get("a/k", None)).unwrap().unwrap(), "old");
}

#[test]
fn folders_deleted_under_writers_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        for worker in 0..3 {
            let (store, stop) = (LocalStore::new(dir.path().join("s")), &stop);
            s.spawn(move || {
                for i in 0..2000 {
                    let key = format!("a/b/{worker}/{i}");
                    assert!(
                        store.direct().unwrap().put(&key, &[b"x"], &Condition::Always).unwrap().is_done()
                    );
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
        }
        let store = LocalStore::new(dir.path().join("s"));
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            block_on(store.delete_prefix("a")).unwrap();
            block_on(store.delete_prefix("")).unwrap();
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_put_whose_answer_was_lost_is_done_once() {
    let far = |calls: &[(u64, Fault)]| {
        let memory = Arc::new(MemoryStore::new());
        let store = calls.iter().fold(FaultStore::new(memory), |s, (n, f)| s.with_call(*n, *f));
        RetryStore::new(Arc::new(store), RetryPolicy::default())
    };
    let retry = far(&[(1, Fault::Lost), (4, Fault::Passing(None)), (6, Fault::Lost)]);
    // 1 lost, 2 refused by our own, 3 a look.
    assert_eq!(retry.put("k", text("one"), Condition::Absent).await.unwrap(), Put::Done);
    let (_, tag) = retry.get_for_update("k").await.unwrap().unwrap(); // 4, 5
    // 6 lost, 7 refused by our own, 8 a look.
    assert_eq!(retry.put("k", text("two"), Condition::Unchanged(tag.clone())).await.unwrap(), Put::Done);
    assert_eq!(retry.put("k", text("three"), Condition::Unchanged(tag)).await.unwrap(), Put::Refused);
    assert_eq!(retry.get("k", None).await.unwrap().unwrap(), "two");
    // Refused after a fault that was none of our own.
    let retry = far(&[(2, Fault::Broken), (3, Fault::Conflict)]);
    assert!(retry.put("k", text("one"), Condition::Always).await.unwrap().is_done());
    assert_eq!(retry.put("k", text("two"), Condition::Absent).await.unwrap(), Put::Refused);
    let retry = far(&[(2, Fault::Lost)]);
    assert!(retry.put("k", text("one"), Condition::Always).await.unwrap().is_done());
    retry.delete("k").await.unwrap();
    assert_eq!(retry.get("k", None).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_listing_of_keys_goes_on_where_it_broke_off() {
    let memory = MemoryStore::new();
    for i in 0..100 {
        memory.put(&format!("a/{i:03}"), "x").unwrap();
    }
    let faulty = (1..12).fold(FaultStore::new(Arc::new(memory)), |s, n| s.with_call(n * n, Fault::Broken));
    let retry = RetryStore::new(Arc::new(faulty), RetryPolicy::default());
    let keys: Vec<KeyEntry> = retry.keys("a").try_collect().await.unwrap();
    let keys: Vec<_> = keys.into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys, (0..100).map(|i| format!("a/{i:03}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_cache_forgets_what_is_put_even_while_it_is_fetched() {
    let memory = Arc::new(MemoryStore::new());
    memory.put("k", "old").unwrap();
    let slow = FaultStore::new(Arc::clone(&memory) as SharedStore)
        .with_call(2, Fault::Delay(Duration::from_millis(100)));
    let cache = CacheStore::new(Arc::new(slow), &Context::shared().with_memory(8 * (1 << 20)));
    assert_eq!(cache.get("k", None).await.unwrap().unwrap(), "old");
    assert!(cache.put("other", text("x"), Condition::Always).await.is_ok());
    assert_eq!(cache.get("k", None).await.unwrap().unwrap(), "old");
    assert!(cache.put("k", text("new"), Condition::Always).await.unwrap().is_done());
    assert_eq!(cache.get("k", None).await.unwrap().unwrap(), "new");
    cache.delete_prefix("").await.unwrap();
    assert_eq!((cache.get("k", None).await.unwrap(), cache.held()), (None, 0));

    // A request that set out before the put brings the old bytes after it: they are not kept.
    struct Late(Arc<MemoryStore>, tokio::sync::Notify, tokio::sync::Notify);
    impl std::fmt::Debug for Late {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("late")
        }
    }
    impl std::fmt::Display for Late {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("late")
        }
    }
    #[async_trait::async_trait]
    impl Store for Late {
        async fn get_opts(&self, k: &str, options: GetOptions<'_>) -> zaro::Result<Option<Object>> {
            let answer = self.0.get_opts(k, options).await;
            if options.range.is_some() {
                self.1.notify_one();
                self.2.notified().await;
            }
            answer
        }
        async fn stat(&self, k: &str) -> zaro::Result<Option<ObjectMeta>> {
            self.0.stat(k).await
        }
        fn list_opts(&self, p: &str, o: &ListOptions) -> BoxStream<'_, zaro::Result<Entry>> {
            self.0.list_opts(p, o)
        }
        async fn put(&self, k: &str, v: Bytes, when: Condition) -> zaro::Result<Put> {
            Store::put(&*self.0, k, v, when).await
        }
    }
    memory.put("k", "old").unwrap();
    let late = Arc::new(Late(memory, Default::default(), Default::default()));
    let cache =
        CacheStore::new(Arc::clone(&late) as SharedStore, &Context::shared().with_memory(8 * (1 << 20)));
    let whole = Some(zaro::store::ByteRange::From(0));
    let (read, ()) = tokio::join!(cache.get("k", whole), async {
        late.1.notified().await;
        assert!(cache.put("k", text("new"), Condition::Always).await.unwrap().is_done());
        late.2.notify_one();
    });
    assert_eq!(read.unwrap().unwrap(), "old");
    late.2.notify_one();
    assert_eq!(cache.get("k", whole).await.unwrap().unwrap(), "new");
}

#[tokio::test]
async fn the_log_shows_puts_and_deletes() {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let log = RequestLog::with_sink(move |r| {
        let line = r.to_string();
        sink.lock().unwrap().push(line.rsplit_once(',').unwrap().0.to_owned());
    });
    let store = LogStore::new(Arc::new(MemoryStore::new()), Arc::new(log));
    assert!(store.put("a/k", text("12345"), Condition::Absent).await.unwrap().is_done());
    assert_eq!(store.put("a/k", text("12345"), Condition::Absent).await.unwrap(), Put::Refused);
    assert_eq!(store.keys("a").try_collect::<Vec<_>>().await.unwrap().len(), 1);
    store.delete("a/k").await.unwrap();
    store.delete_prefix("a").await.unwrap();
    let wanted = [
        "put memory:/a/k <- 5 bytes",
        "put memory:/a/k -> refused, condition not met",
        "list memory:/a -> 1 names",
        "delete memory:/a/k -> done",
        "delete memory:/a/ -> done",
    ];
    assert_eq!(*lines.lock().unwrap(), wanted);
}

fn ended_well(command: &str, args: &[&str], archive: &Path) {
    let Ok(run) = Command::new(command).args(args).arg(archive).output() else {
        return println!("skipped: there is no {command}");
    };
    assert!(run.status.success(), "{command}: {}", String::from_utf8_lossy(&run.stdout));
}

#[tokio::test]
async fn of_two_archives_of_one_name_the_later_is_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.zip");
    let [first, second] = [0; 2].map(|_| ZipCreateStore::create(&path).unwrap());
    first.finish().await.unwrap();
    let e = second.finish().await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
    assert!(e.to_string().contains("a file of this name was created by somebody else"), "{e}");
}

#[tokio::test]
async fn archives_can_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("not/yet/x.zip");
    let store = ZipCreateStore::create(&path).unwrap();
    write_suite(&store, true).await;
    let objects = sample_objects(false);
    for round in 0..2 {
        for (key, bytes) in objects.iter().filter(|(k, _)| round == 1 || k.len() % 2 == 0) {
            let value = if round == 0 { text("other") } else { bytes.clone().into() };
            assert!(store.put(key, value, Condition::Always).await.unwrap().is_done());
        }
    }
    store_suite(&store, &objects).await;
    assert!(!path.exists(), "nothing is there before it is finished");
    store.finish().await.unwrap();
    store.finish().await.unwrap();
    store_suite(&store, &objects).await;
    for error in [
        store.put("k", text("x"), Condition::Always).await.unwrap_err(),
        store.delete("zarr.json").await.unwrap_err(),
        store.delete_prefix("").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    assert_eq!(tree(dir.path()), ["not", "yet", "x.zip"]);
    assert_eq!(ZipCreateStore::create(&path).unwrap_err().kind(), ErrorKind::NotPermitted);
    let folder: SharedStore = Arc::new(LocalStore::new(path.parent().unwrap()));
    let zip = ZipStore::open(folder, "x.zip").await.unwrap().unwrap();
    store_suite(&zip, &objects).await;
    assert!(!zip.is_writable());
    assert_eq!(zip.delete("zarr.json").await.unwrap_err().kind(), ErrorKind::Unsupported);
    ended_well("unzip", &["-tq"], &path);
    let check = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; \
                 names = z.namelist(); assert len(names) == len(set(names))";
    ended_well("python3", &["-c", check], &path);

    // An archive that is not finished is not there, nor is anything of it.
    let other = ZipCreateStore::create(dir.path().join("y.zip")).unwrap();
    assert!(other.put("k", text("x"), Condition::Always).await.unwrap().is_done());
    drop(other);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    // An empty one is one.
    let empty = dir.path().join("z.zip");
    ZipCreateStore::create(&empty).unwrap().finish().await.unwrap();
    ended_well("python3", &["-c", check], &empty);
    // Nobody's archive is overwritten by one that was begun earlier.
    let late = ZipCreateStore::create(dir.path().join("w.zip")).unwrap();
    std::fs::write(dir.path().join("w.zip"), "mine").unwrap();
    assert!(late.finish().await.is_err() && late.finish().await.is_err());
    assert_eq!(std::fs::read(dir.path().join("w.zip")).unwrap(), b"mine");
}

#[test]
fn many_threads_fill_one_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.zip");
    let store: SharedStore = Arc::new(ZipCreateStore::create(&path).unwrap());
    eight_threads(|| Arc::clone(&store));
    std::thread::scope(|s| {
        for worker in 0..8u32 {
            let store = &store;
            s.spawn(move || {
                for i in 0..200u32 {
                    let part = vec![worker as u8; (i as usize % 7) * 90_000];
                    let key = format!("c/{worker}/{i}");
                    let put = store.direct().unwrap().put(&key, &[&part, b"end"], &Condition::Absent);
                    assert!(put.unwrap().is_done());
                }
            });
        }
    });
    block_on(store.finish()).unwrap();
    ended_well("unzip", &["-tq"], &path);
}

#[tokio::test]
async fn addresses_open_for_writing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    let mut options = StoreOptions::default();
    options.durable = true;
    let open = |uri: String| {
        let options = options.clone();
        async move { open_store_for_writing(&uri, &options).await }
    };
    for uri in [format!("{root}/a/b.zarr"), format!("file://{root}/c%20d"), "memory:".to_owned()] {
        write_suite(&*open(uri).await.unwrap(), false).await;
    }
    let put = |store: SharedStore| async move {
        assert!(store.put("zarr.json", text("{}"), Condition::Absent).await.unwrap().is_done());
        store.finish().await.unwrap();
    };
    put(open(format!("{root}/x.zip")).await.unwrap()).await;
    put(open(format!("{root}/y.zarr.zip/in/side/")).await.unwrap()).await;
    put(open(format!("zip://{root}/odd.name")).await.unwrap()).await;
    for (uri, key) in [("x.zip", "zarr.json"), ("y.zarr.zip", "in/side/zarr.json"), ("odd.name", "zarr.json")]
    {
        let store = zaro::open::open_store(&format!("{root}/{uri}"), &options).await.unwrap();
        assert_eq!(store.get(key, None).await.unwrap().unwrap(), "{}", "{uri}");
    }
    std::fs::create_dir(dir.path().join("folder.zip")).unwrap();
    put(open(format!("{root}/folder.zip")).await.unwrap()).await;
    assert!(dir.path().join("folder.zip/zarr.json").exists(), "a folder stays one");
    std::fs::write(dir.path().join("file"), "x").unwrap();
    for (uri, kind) in [
        (format!("{root}/x.zip"), ErrorKind::NotPermitted),
        (format!("{root}/file"), ErrorKind::Unsupported),
        ("http://127.0.0.1:1/x".to_owned(), ErrorKind::Unsupported),
        ("s3://bucket/x.zip".to_owned(), ErrorKind::Unsupported),
        (String::new(), ErrorKind::Usage),
    ] {
        assert_eq!(open(uri.clone()).await.unwrap_err().kind(), kind, "{uri}");
    }
}

/// In a process of its own, since the current folder belongs to all threads.
#[test]
fn child_in_a_folder() {
    let Ok(root) = std::env::var("ZARO_TEST_CURRENT") else { return };
    std::env::set_current_dir(root).unwrap();
    for root in ["", ".", "sub"] {
        let suite = async {
            write_suite(&LocalStore::new(root), false).await;
            Ok(())
        };
        block_on(suite).unwrap();
    }
}

#[test]
fn relative_roots_can_be_written_to() {
    let dir = tempfile::tempdir().unwrap();
    assert!(child("child_in_a_folder", "ZARO_TEST_CURRENT", dir.path()).wait().unwrap().success());
}
