//! Writers that are killed, and writers that fight: every chunk is old or new, and nothing is lost.
//!
//! The writers are processes of their own: this program, started anew with one test and an environment variable that
//! says what to do.

use crate::common;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Rng, open_array, sharding, wait};
use zaro::copy::{CopyOptions, Sizes, copy};
use zaro::store::{LocalStore, SharedStore};
use zaro::{
    Array, Context, OpenOptions, Order, ReadOptions, Selection, Task, Values, WriteOptions, Zarr, hierarchy,
};

const LE: &str = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
const ZSTD: &str = r#"{"name":"zstd","configuration":{"level":1,"checksum":true}}"#;

/// A folder that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zaro-kill-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_file(ready(&self.0));
    }
}

/// The file by which a writer says that it has begun.
fn ready(folder: &Path) -> PathBuf {
    folder.with_extension("ready")
}

/// Lets a writer begin, and then go on for a moment of random length.
fn let_it_work(folder: &Path, rng: &mut Rng) {
    let patience = Instant::now() + Duration::from_secs(20);
    while !ready(folder).exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = std::fs::remove_file(ready(folder));
    std::thread::sleep(Duration::from_micros(rng.below(20_000)));
}

/// Starts this program as a writer: `role` in `folder`.
fn writer(role: &str, folder: &Path, number: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::the_writer", "--nocapture"])
        .env("ZARO_TEST_ROLE", role)
        .env("ZARO_TEST_FOLDER", folder)
        .env("ZARO_TEST_NUMBER", number.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test but what the writers run; as a test it does nothing.
#[test]
fn the_writer() {
    let Ok(role) = std::env::var("ZARO_TEST_ROLE") else { return };
    let folder = PathBuf::from(std::env::var("ZARO_TEST_FOLDER").unwrap());
    let number: u64 = std::env::var("ZARO_TEST_NUMBER").unwrap().parse().unwrap();
    match role.as_str() {
        "halves" => write_halves(&folder, number),
        "hammer" => hammer(&folder, number),
        "copy" => copy_it(&folder),
        "grow" => grow(&folder),
        "shrink" => shrink(&folder),
        "append" => append(&folder, number),
        "delete" => delete(&folder),
        other => panic!("no role {other}"),
    }
}

fn array(folder: &Path) -> Array {
    open_array(Arc::new(LocalStore::new(folder))).unwrap()
}

fn documents() -> [String; 2] {
    let chunks = common::V3::new(&[32, 64], &[8, 16], "uint32").codecs(format!("{LE},{ZSTD}"));
    let shards = common::V3::new(&[32, 64], &[16, 32], "uint32").codecs(sharding(
        &[8, 16],
        &format!("{LE},{ZSTD}"),
        &format!("{LE},{{\"name\":\"crc32c\"}}"),
        "end",
    ));
    [chunks.document(), shards.document()]
}

/// Writes the left and the right half of every chunk, again and again, each time all of it with one number.
fn write_halves(folder: &Path, seed: u64) {
    let array = array(folder);
    let mut value = u32::try_from(seed).unwrap() * 1000;
    loop {
        std::fs::write(ready(folder), "").unwrap();
        for half in 0..2i64 {
            value += 1;
            let values = value.to_le_bytes().repeat(32 * 32);
            // Columns 0..8, 16..24, … or 8..16, 24..32, …: a part of every chunk.
            let columns = (0..64).filter(|c| c / 8 % 2 == half).collect();
            let selection = Selection::new(vec![zaro::Index::All, zaro::Index::List(columns)]);
            array
                .write_slab_blocking(
                    &selection,
                    Values::new(values.to_vec(), Order::C),
                    &WriteOptions::default(),
                )
                .unwrap();
        }
        // And all of every chunk.
        value += 1;
        let values = value.to_le_bytes().repeat(32 * 64);
        array
            .write_slab_blocking(
                &Selection::all(),
                Values::new(values.to_vec(), Order::C),
                &WriteOptions::default(),
            )
            .unwrap();
    }
}

#[test]
fn killed_writers_leave_every_chunk_old_or_new() {
    for (n, document) in documents().iter().enumerate() {
        let folder = Folder::new(&format!("halves{n}"));
        std::fs::write(folder.0.join("zarr.json"), document).unwrap();
        let mut rng = Rng::new(7);
        let mut seen = 0;
        for round in 0..150 {
            let mut child = writer("halves", &folder.0, round);
            let_it_work(&folder.0, &mut rng);
            child.kill().unwrap();
            child.wait().unwrap();
            let slab =
                array(&folder.0).read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap();
            let values: Vec<u32> = slab.to_vec().unwrap();
            seen = seen.max(*values.iter().max().unwrap());
            // The atom is the half of a chunk, and of a chunk both halves were put together.
            for row in 0..4 {
                for column in 0..8 {
                    let part: Vec<u32> =
                        (0..64).map(|i| values[(row * 8 + i / 8) * 64 + column * 8 + i % 8]).collect();
                    assert!(
                        part.iter().all(|v| *v == part[0]),
                        "round {round}: torn at {row}, {column}: {part:?}"
                    );
                }
            }
        }
        assert!(seen > 10_000, "the writers got to write: {seen}");
        // What killed writers left behind is no content, and can be swept.
        let store = LocalStore::new(&folder.0);
        store.sweep().unwrap();
        let left = std::fs::read_dir(folder.0.join("c/0")).unwrap();
        assert!(left.flatten().all(|e| !e.file_name().to_string_lossy().contains("zaro")));
    }
}

/// Writes single elements of its own from eight threads, all of them in the same few chunks.
fn hammer(folder: &Path, number: u64) {
    let array = array(folder);
    let until = Instant::now() + hammer_time();
    std::thread::scope(|s| {
        for thread in 0..8u64 {
            let array = &array;
            s.spawn(move || {
                let mut count = 0u32;
                let writes = |count: u32| {
                    for i in 0..4u64 {
                        let at = (i * 16 + number * 8 + thread) * 31 % 2048;
                        let selection = Selection::start_count(&[at / 64, at % 64], &[1, 1]);
                        let value = count.to_le_bytes();
                        array
                            .write_slab_blocking(
                                &selection,
                                Values::new(value.to_vec(), Order::C),
                                &WriteOptions::default(),
                            )
                            .unwrap();
                    }
                };
                while Instant::now() < until {
                    count += 1;
                    writes(count);
                }
                // The last thing each writes is known to the judge.
                writes(1_000_000 + u32::try_from(number * 8 + thread).unwrap());
            });
        }
    });
}

/// Three seconds, or as many as `ZARO_HAMMER` says.
fn hammer_time() -> Duration {
    Duration::from_secs(std::env::var("ZARO_HAMMER").ok().and_then(|s| s.parse().ok()).unwrap_or(3))
}

#[test]
fn two_processes_of_eight_threads_lose_nothing() {
    for (n, document) in documents().iter().enumerate() {
        let folder = Folder::new(&format!("hammer{n}"));
        std::fs::write(folder.0.join("zarr.json"), document).unwrap();
        let children = [writer("hammer", &folder.0, 0), writer("hammer", &folder.0, 1)];
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let slab = array(&folder.0).read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap();
        let values: Vec<u32> = slab.to_vec().unwrap();
        for who in 0..16u64 {
            for i in 0..4u64 {
                let at = (i * 16 + who) * 31 % 2048;
                assert_eq!(u64::from(values[usize::try_from(at).unwrap()]), 1_000_000 + who, "element {at}");
            }
        }
    }
}

fn store(folder: &Path, name: &str) -> SharedStore {
    Arc::new(LocalStore::new(folder.join(name)))
}

fn copy_options() -> CopyOptions {
    CopyOptions::default()
        .with_chunks(Some(Sizes::List(vec![32, 1])))
        .with_context(Context::shared().with_memory(100_000))
}

fn copy_it(folder: &Path) {
    let source = wait(Zarr::from_store(store(folder, "source"), OpenOptions::default())).unwrap();
    let options = copy_options().with_temporary(Some(folder.join("temp")));
    // Slower than it is, so that it is met in the middle.
    let slow =
        options.with_task(Task::default().with_progress(|_| std::thread::sleep(Duration::from_millis(1))));
    wait(copy(&source, "source", "", &store(folder, "copy"), "", &slow)).unwrap();
}

#[test]
fn a_killed_copy_goes_on_to_its_end() {
    let folder = Folder::new("copy");
    let source = folder.0.join("source");
    std::fs::create_dir_all(&source).unwrap();
    std::fs::write(source.join("zarr.json"), &documents()[0]).unwrap();
    let values: Vec<u8> = (1..=2048u32).flat_map(u32::to_le_bytes).collect();
    array(&source)
        .write_slab_blocking(
            &Selection::all(),
            Values::new(values.to_vec(), Order::C),
            &WriteOptions::default(),
        )
        .unwrap();
    let mut rng = Rng::new(3);
    for round in 0..30 {
        let _ = std::fs::remove_dir_all(folder.0.join("copy"));
        for _ in 0..4 {
            let mut child = writer("copy", &folder.0, 0);
            std::thread::sleep(Duration::from_micros(2000 + rng.below(40_000)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let finished = hierarchy_done(&folder.0);
        if !finished {
            assert!(writer("copy", &folder.0, 0).wait().unwrap().success(), "round {round}");
        }
        let got = array(&folder.0.join("copy"))
            .read_slab_blocking(&Selection::all(), &ReadOptions::default())
            .unwrap();
        assert!(got.bytes == values, "round {round}");
        assert!(hierarchy_done(&folder.0));
    }
}

/// Whether the copy is there and no journal any more.
fn hierarchy_done(folder: &Path) -> bool {
    let copy = folder.join("copy");
    copy.join("zarr.json").exists() && !copy.join(".zaro-journal.json").exists()
}

/// Appends rows of one number until it is killed.
fn grow(folder: &Path) {
    let store: SharedStore = Arc::new(LocalStore::new(folder));
    for value in 1u32.. {
        let values = value.to_le_bytes().repeat(3 * 64);
        let new = wait(hierarchy::append(&store, "", 0, 3, false)).unwrap();
        let rows = Selection::start_count(&[new.start, 0], &[3, 64]);
        new.array
            .write_slab_blocking(&rows, Values::new(values.to_vec(), Order::C), &WriteOptions::default())
            .unwrap();
        wait(new.publish()).unwrap();
        std::fs::write(ready(folder), "").unwrap();
    }
}

#[test]
fn a_killed_append_leaves_the_array_as_it_was_or_longer_by_all() {
    let folder = Folder::new("grow");
    std::fs::write(folder.0.join("zarr.json"), &documents()[1]).unwrap();
    let mut rng = Rng::new(5);
    let before = array(&folder.0).shape()[0];
    let mut rows = before;
    for _ in 0..50 {
        let mut child = writer("grow", &folder.0, 0);
        let_it_work(&folder.0, &mut rng);
        child.kill().unwrap();
        child.wait().unwrap();
        let array = array(&folder.0);
        assert!(array.shape()[0] >= rows);
        assert_eq!(array.shape()[0] % 3, before % 3);
        rows = array.shape()[0];
        let new = Selection::start_count(&[before, 0], &[rows - before, 64]);
        let slab = array.read_slab_blocking(&new, &ReadOptions::default()).unwrap();
        assert!(slab.to_vec::<u32>().unwrap().iter().all(|v| *v != 0), "no row is seen before it is written");
    }
    assert!(rows > 32);
}

/// An array of one dimension that counts from 1 on, in chunks of four.
fn counted(folder: &Path, length: u32) {
    std::fs::create_dir_all(folder).unwrap();
    let length = u64::from(length);
    let document = common::V3::new(&[length], &[4], "uint32").codecs(LE.to_owned()).document();
    std::fs::write(folder.join("zarr.json"), document).unwrap();
    let values: Vec<u8> = (1..=u32::try_from(length).unwrap()).flat_map(u32::to_le_bytes).collect();
    let options = WriteOptions::default();
    array(folder)
        .write_slab_blocking(&Selection::all(), Values::new(values.to_vec(), Order::C), &options)
        .unwrap();
}

fn elements(folder: &Path) -> Vec<u32> {
    let slab = array(folder).read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap();
    slab.to_vec().unwrap()
}

fn shrink(folder: &Path) {
    std::fs::write(ready(folder), "").unwrap();
    let store: SharedStore = Arc::new(LocalStore::new(folder));
    wait(hierarchy::resize(&store, "", &[6])).unwrap();
}

/// Appends twenty times as soon as the array is short.
fn append(folder: &Path, number: u64) {
    let store: SharedStore = Arc::new(LocalStore::new(folder));
    while array(folder).shape()[0] > 1000 {}
    for _ in 0..20 {
        let new = wait(hierarchy::append(&store, "", 0, 5, false)).unwrap();
        let values = u32::try_from(1_000_000 + number).unwrap().to_le_bytes().repeat(5);
        let rows = Selection::start_count(&[new.start], &[5]);
        new.array
            .write_slab_blocking(&rows, Values::new(values.to_vec(), Order::C), &WriteOptions::default())
            .unwrap();
        wait(new.publish()).unwrap();
    }
}

#[test]
fn processes_that_append_lose_nothing_to_one_that_shrinks() {
    let folder = Folder::new("shrink");
    for _ in 0..4 {
        let _ = std::fs::remove_dir_all(&folder.0);
        counted(&folder.0, 8001);
        let children =
            [writer("shrink", &folder.0, 0), writer("append", &folder.0, 1), writer("append", &folder.0, 2)];
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let now = elements(&folder.0);
        assert_eq!((now.len(), &now[..6]), (206, &[1, 2, 3, 4, 5, 6][..]));
        for number in 1..3 {
            assert_eq!(now.iter().filter(|v| **v == 1_000_000 + number).count(), 100);
        }
    }
}

#[test]
fn a_killed_shrink_brings_nothing_back() {
    let folder = Folder::new("cut");
    let store: SharedStore = Arc::new(LocalStore::new(&folder.0));
    let mut rng = Rng::new(11);
    let mut cut = 0;
    for round in 0..24 {
        let _ = std::fs::remove_dir_all(&folder.0);
        counted(&folder.0, 801);
        let mut child = writer("shrink", &folder.0, 0);
        let_it_work(&folder.0, &mut rng);
        child.kill().unwrap();
        child.wait().unwrap();
        let now = elements(&folder.0);
        assert!(now.len() == 6 || now.last() == Some(&801), "round {round}: old or new");
        assert_eq!(now[..6], [1, 2, 3, 4, 5, 6]);
        if now.len() == 6 {
            cut += 1;
            let finish = round % 2 == 0;
            if finish {
                wait(hierarchy::resize(&store, "", &[6])).unwrap();
                // Besides what the killed one was about to write.
                let left = std::fs::read_dir(folder.0.join("c")).unwrap().flatten();
                let chunks = left.filter(|e| !e.file_name().to_string_lossy().ends_with(".tmp")).count();
                assert_eq!(chunks, 2, "round {round}");
            }
            wait(hierarchy::resize(&store, "", &[801])).unwrap();
            assert!(elements(&folder.0)[6..].iter().all(|v| *v == 0), "round {round}, finished: {finish}");
        }
    }
    assert!(cut > 1, "some were met in the middle: {cut}");
}

fn delete(folder: &Path) {
    std::fs::write(ready(folder), "").unwrap();
    let store: SharedStore = Arc::new(LocalStore::new(folder));
    wait(hierarchy::delete(&store, "")).unwrap();
}

#[test]
fn a_killed_delete_brings_nothing_back() {
    let folder = Folder::new("gone");
    let store: SharedStore = Arc::new(LocalStore::new(&folder.0));
    let mut rng = Rng::new(13);
    for round in 0..24 {
        let _ = std::fs::remove_dir_all(&folder.0);
        counted(&folder.0, 801);
        let mut child = writer("delete", &folder.0, 0);
        let_it_work(&folder.0, &mut rng);
        child.kill().unwrap();
        child.wait().unwrap();
        if wait(hierarchy::find(&store, "")).unwrap().is_some() {
            assert_eq!(elements(&folder.0).last(), Some(&801), "round {round}: still whole");
        }
        wait(hierarchy::delete(&store, "")).unwrap();
        assert!(
            !folder.0.exists() || std::fs::read_dir(&folder.0).unwrap().next().is_none(),
            "round {round}"
        );
    }
}
