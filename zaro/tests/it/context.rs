//! What everything that is opened shares: one memory for all, and none of it with a forked child.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{self, Model, V3, ZSTD, sharding};
use zaro::store::{MemoryStore, StoreExt as _};
use zaro::testing::TinyServer;
use zaro::{
    Array, CancelToken, Context, ContextOptions, ErrorKind, OpenOptions, Order, ReadOptions, Result,
    Selection, Task, Values, WriteOptions, Zarr, blocking,
};

/// One chunk, so that every window of it takes all of it.
const SIDE: u64 = 1024;

/// An array of 1 MiB, compressed: its document, its chunk, and what it holds.
fn sample(codecs: &str) -> (Vec<(&'static str, Vec<u8>)>, Model) {
    let document = V3::new(&[SIDE, SIDE], &[SIDE, SIDE], "uint8").codecs(codecs).document();
    let data = Model::counting(&[SIDE, SIDE], 1);
    let store = MemoryStore::new();
    common::put_array(&store, "", &document, &data);
    let get = |key: &str| common::wait(store.get(key, None)).unwrap().unwrap().to_vec();
    (vec![("zarr.json", get("zarr.json")), ("c/0/0", get("c/0/0"))], data)
}

/// A server of `n` such arrays, `a0`, `a1` and so on, and a folder of them.
fn places(n: usize, codecs: &str) -> (TinyServer, tempfile::TempDir, Model) {
    let (objects, data) = sample(codecs);
    let folder = tempfile::tempdir().unwrap();
    let mut served = Vec::new();
    for i in 0..n {
        for (key, bytes) in &objects {
            let file = folder.path().join(format!("a{i}/{key}"));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, bytes).unwrap();
            served.push((format!("a{i}/{key}"), bytes.clone()));
        }
    }
    (TinyServer::serving(served, Duration::from_millis(1)), folder, data)
}

async fn open(at: &str, context: &Context) -> Result<Array> {
    let zarr: Zarr = zaro::open(at, &OpenOptions::default().with_context(context)).await?;
    zarr.array("").await
}

/// A row, and whether it is right.
async fn right(array: &Array, row: u64, data: &Model) -> bool {
    let selection = Selection::start_count(&[row, 0], &[2, SIDE]);
    let slab = array.read_slab(&selection, &ReadOptions::default()).await.unwrap();
    let start = usize::try_from(row * SIDE).unwrap();
    slab.bytes == data.bytes[start..start + slab.bytes.len()]
}

/// The most memory this process ever had, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn five_hundred_arrays_stay_within_one_memory() {
    const MEMORY: usize = 64 << 20;
    let (server, folder, data) = places(250, &format!("{LITTLE},{ZSTD}", LITTLE = common::LITTLE));
    let context = Context::new(ContextOptions::default().with_memory(MEMORY));
    let data = Arc::new(data);
    let before = peak();
    let all = async {
        let mut tasks = Vec::new();
        for task in 0..64 {
            let (context, data) = (context.clone(), data.clone());
            let (url, folder) = (server.url(), folder.path().display().to_string());
            tasks.push(tokio::spawn(async move {
                let mut open_ones = Vec::new();
                for n in (task..500).step_by(64) {
                    let at = if n % 2 == 0 { &url } else { &folder };
                    let array = open(&format!("{at}/a{}", n / 2), &context).await.unwrap();
                    // Twice from different places: what is kept is found, or made again.
                    assert!(right(&array, 3, &data).await && right(&array, 700, &data).await);
                    open_ones.push(array);
                }
                for array in &open_ones {
                    assert!(right(array, 1000, &data).await);
                }
                // All 500 are open to the end.
                open_ones
            }));
        }
        let open: Vec<_> =
            futures::future::join_all(tasks).await.into_iter().flat_map(|t| t.unwrap()).collect();
        assert_eq!(open.len(), 500);
        Ok(peak())
    };
    let grown = blocking::block_on(all).unwrap() - before;
    // Kept and in flight; besides that what the tasks and their connections take.
    assert!(grown < MEMORY + (48 << 20), "{} MiB", grown >> 20);
}

#[test]
fn a_forked_child_reads_on() {
    let (server, folder, data) = places(4, &format!("{},{ZSTD}", common::LITTLE));
    let context = Context::new(ContextOptions::default().with_memory(16 << 20).with_threads(2));
    let (url, path) = (server.url(), folder.path().display().to_string());
    let data = Arc::new(data);
    // Opened before the fork, from afar and from a folder, and in use.
    let arrays = [&url, &path].map(|at| context.block_on(open(&format!("{at}/a0"), &context)).unwrap());
    // One that parent and child write to at the same time, a row each of one chunk.
    let written = context.block_on(open(&format!("{path}/a3"), &context)).unwrap();
    let write = |array: &Array, row: u64, value: u8| {
        let values = Values::new(vec![value; SIDE as usize], Order::C);
        array.write_slab_blocking(
            &Selection::start_count(&[row, 0], &[1, SIDE]),
            values,
            &WriteOptions::default(),
        )
    };
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..4u64)
        .map(|n| {
            let (arrays, data, stop, context) = (arrays.clone(), data.clone(), stop.clone(), context.clone());
            let written = written.clone();
            std::thread::spawn(move || {
                let mut row = n;
                while !stop.load(Ordering::Relaxed) {
                    if n == 0 {
                        write(&written, 8, 8).unwrap();
                        continue;
                    }
                    row = (row + 37) % 1000;
                    for array in &arrays {
                        assert!(context.block_on(async { Ok(right(array, row, &data).await) }).unwrap());
                    }
                }
            })
        })
        .collect();
    for value in 0..5 {
        std::thread::sleep(Duration::from_millis(30));
        let good = in_child(|| {
            // On the threads and in the memory of the child.
            let options = OpenOptions::default().with_context(&context);
            let stat = context.block_on(async {
                let zarr = zaro::open(&format!("{path}/a2"), &options).await?;
                zaro::stat::stat(&zarr, &zarr.array("").await?, &Default::default()).await
            });
            let numbers = stat.unwrap().numbers.unwrap();
            assert_eq!(
                (numbers.count, numbers.min.as_str(), numbers.max.as_str()),
                (SIDE * SIDE, "0", "255")
            );
            write(&written, 9, value).unwrap();
            let row = written
                .read_slab_blocking(&Selection::start_count(&[9, 0], &[1, SIDE]), &ReadOptions::default());
            assert!(row.unwrap().bytes.iter().all(|b| *b == value));

            let read =
                |array: &Array| context.block_on(async { Ok(right(array, 5, &data).await) }).is_ok_and(|r| r);
            let fresh =
                [&url, &path].map(|at| context.block_on(open(&format!("{at}/a1"), &context)).unwrap());
            arrays.iter().chain(&fresh).all(read)
        });
        assert!(good);
    }
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|t| t.join().unwrap());
}

/// Whether `f`, run in a forked child, says so within twenty seconds.
#[expect(unsafe_code, reason = "fork is what is tested")]
fn in_child(f: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `f` and leaves at once, without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(false);
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!good)) }
    }
    assert!(child > 0);
    let until = Instant::now() + Duration::from_secs(20);
    let mut status = 0;
    // SAFETY: the child is ours, and `status` a place for its answer.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > until {
            // SAFETY: as above; it hangs.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    status == 0
}

#[test]
fn a_buffer_is_filled_where_it_is() {
    let inner = sharding(&[64, 64], &format!("{},{ZSTD}", common::LITTLE), common::LITTLE, "end");
    for codecs in [format!("{},{ZSTD}", common::LITTLE), common::LITTLE.to_owned(), inner] {
        let (server, folder, data) = places(1, &codecs);
        let context = Context::new(ContextOptions::default().with_memory(16 << 20));
        for at in [server.url(), folder.path().display().to_string()] {
            let array = context.block_on(open(&format!("{at}/a0"), &context)).unwrap();
            let (selection, options) =
                (Selection::start_count(&[7, 0], &[100, SIDE]), ReadOptions::default());
            let length = 100 << 10;
            let wanted = &data.bytes[7 << 10..(7 << 10) + length];
            let mut lent = vec![9; length];
            array.read_into(&selection, &options, &mut lent).unwrap();
            assert_eq!(lent, wanted);
            let owned = vec![9; length];
            let place = owned.as_ptr().addr();
            let owned = context.block_on(array.read_to(&selection, &options, owned)).unwrap();
            assert_eq!(owned, wanted);
            assert_eq!(owned.as_ptr().addr(), place, "the same memory");
            let short = context.block_on(array.read_to(&selection, &options, vec![0; 7])).unwrap_err();
            assert_eq!(short.kind(), ErrorKind::Usage);
        }
    }
}

#[test]
fn nobody_waits_long_for_a_read_that_was_given_up() {
    let (objects, _) = sample(&format!("{},{ZSTD}", common::LITTLE));
    let slow = TinyServer::start(move |request| {
        let found = objects.iter().find(|(key, _)| *key == request.key());
        if request.key().starts_with('c') {
            std::thread::sleep(Duration::from_secs(5));
        }
        found.map_or(zaro::testing::TinyReply::status(404), |(_, bytes)| {
            zaro::testing::TinyReply::Object(bytes.clone())
        })
    });
    let context = Context::shared();
    let array = context.block_on(open(&slow.url(), &context)).unwrap();
    let cancel = CancelToken::new();
    let options = ReadOptions::default().with_task(Task::default().with_cancel(&cancel));
    let reading = std::thread::spawn(move || {
        let read = array.read_slab_blocking(&Selection::start_count(&[0, 0], &[SIDE, SIDE]), &options);
        (read.unwrap_err().kind(), Instant::now())
    });
    std::thread::sleep(Duration::from_millis(200));
    let stopped = Instant::now();
    cancel.cancel();
    let (kind, ended) = reading.join().unwrap();
    assert_eq!(kind, ErrorKind::Cancelled);
    assert!(ended - stopped < Duration::from_millis(100), "{:?}", ended - stopped);
}

/// Notes the fields of every event as text.
struct Notes(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl tracing::Subscriber for Notes {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("zaro::")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(event.metadata().target().to_owned());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn subscribers_see_requests() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    // For all threads: requests are made by those of the runtime, too.
    tracing::subscriber::set_global_default(Notes(notes.clone())).unwrap();
    let (server, folder, data) = places(1, &format!("{},{ZSTD}", common::LITTLE));
    let address = server.url().replace("http://", "http://user:secret@");
    let context = Context::shared();
    let array = context.block_on(open(&format!("{address}/a0"), &context)).unwrap();
    assert!(context.block_on(async { Ok(right(&array, 3, &data).await) }).unwrap());
    let notes = notes.lock().unwrap();
    let of = |target: &str, words: &[&str]| {
        notes.iter().any(|n| n.starts_with(target) && words.iter().all(|w| n.contains(w)))
    };
    let bytes = std::fs::metadata(folder.path().join("a0/c/0/0")).unwrap().len();
    assert!(of("zaro::open", &["a0"]), "{notes:#?}");
    let wanted = ["method=\"get\"", "a0/c/0/0", "outcome=\"found\"", &format!("bytes={bytes}"), "ms="];
    assert!(of("zaro::request", &wanted), "{notes:#?}");
    assert!(!notes.iter().any(|n| n.contains("secret")), "{notes:#?}");
}

#[test]
fn strangers_reach_public_addresses_only() {
    let (server, ..) = places(1, common::LITTLE);
    let context = Context::new(ContextOptions::default().with_public_only(true));
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1"] {
        let mut options = OpenOptions::default().with_context(&context);
        options.store.retry.attempts = Some(1);
        let opened = context.block_on(zaro::open(&format!("http://{host}:{port}/a0"), &options));
        assert!(opened.is_err(), "{host}");
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn numbers_come_as_numbers() {
    let document =
        V3::new(&[20, 30], &[7, 8], "float32").codecs(format!("{},{ZSTD}", common::LITTLE)).document();
    let values: Vec<f32> = (0..600u16).map(f32::from).collect();
    let data = Model { bytes: zaro::array::bytes_of(&values), ..Model::counting(&[20, 30], 4) };
    let array = common::memory_array(&document, &data);
    let read = common::wait(array.read::<f32>([3..5, 10..13])).unwrap();
    assert_eq!(read, [100.0, 101.0, 102.0, 130.0, 131.0, 132.0]);
    assert_eq!(array.read_blocking::<f32>(&Selection::all()).unwrap(), values);
    let nd = common::wait(array.read_ndarray::<f32>(Selection::parse("::10, -1").unwrap())).unwrap();
    assert_eq!((nd.shape(), nd[[1]]), (&[2][..], 329.0));
    assert_eq!(array.read_blocking::<f64>([0..1, 0..1]).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(array.read_blocking::<f32>([0..1, 29..31]).unwrap_err().kind(), ErrorKind::Usage);
}
