//! Damaged and forged stores: an error or other values, but no panic, no hang, and no memory beyond what the bytes can
//! justify.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::panic,
    reason = "test code: a panic is a failed test"
)]

#[path = "it/common/mod.rs"]
mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::probe::{AsFiles, Probe};
use common::{BIG, GZIP, LITTLE, Model, Rng, V2, V3, V3_GROUP, ZSTD, sharding, transpose, volume};
use zaro::codec::{Buffer, Repr};
use zaro::internal::codec::Chain;
use zaro::store::{MemoryStore, SharedStore};
use zaro::{ErrorKind, ReadOptions, Result, Selection};

/// Counts what is allocated; the only way to see a bomb before the machine does.
mod watch {
    #![allow(unsafe_code, reason = "an allocator that counts and hands on")]

    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub(crate) static NOW: AtomicUsize = AtomicUsize::new(0);
    pub(crate) static MOST: AtomicUsize = AtomicUsize::new(0);

    struct Counting;

    fn more(bytes: usize) {
        let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
        MOST.fetch_max(now, Ordering::Relaxed);
    }

    // SAFETY: every call is handed on unchanged.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            more(layout.size());
            // SAFETY: as the caller vouches.
            unsafe { System.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            more(layout.size());
            // SAFETY: as the caller vouches.
            unsafe { System.alloc_zeroed(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            NOW.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: as the caller vouches.
            unsafe { System.dealloc(at, layout) }
        }

        unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            more(size);
            NOW.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: as the caller vouches.
            unsafe { System.realloc(at, layout, size) }
        }
    }

    #[global_allocator]
    static COUNTING: Counting = Counting;
}

/// All tests of this file together never hold more.
const MEMORY: usize = 1 << 30;

/// No single opening and reading takes longer, even on a busy machine.
const TIME: Duration = Duration::from_secs(10);

/// Opens the array at the root and reads it, or corners of it if it claims to be large.
fn attempt(store: SharedStore) -> Result<()> {
    let array = common::open_array(store)?;
    let size = array.meta().data_type.size() as u64;
    let chunks = array.meta().grid.counts(array.shape());
    let small = |extents: &[u64], most: u64| {
        extents.iter().try_fold(1u64, |a, n| a.checked_mul(*n)).is_some_and(|n| n <= most)
    };
    let options = ReadOptions::default();
    if small(&[array.shape(), &[size]].concat(), 4 << 20) && small(&chunks, 10_000) {
        array.read_slab_blocking(&Selection::all(), &options)?;
    }
    if array.shape().len() <= 6 && size <= 4096 {
        let count: Vec<u64> = array.shape().iter().map(|n| (*n).min(3)).collect();
        let last: Vec<u64> = array.shape().iter().zip(&count).map(|(n, c)| n - c).collect();
        array.read_slab_blocking(&Selection::start_count(&vec![0; count.len()], &count), &options)?;
        array.read_slab_blocking(&Selection::start_count(&last, &count), &options)?;
    }
    Ok(())
}

/// [`attempt`], under watch; `name` says which one it was.
fn watched(name: &str, store: SharedStore) -> Result<()> {
    let start = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(|| attempt(store)));
    let Ok(done) = done else { panic!("{name}: panicked") };
    assert!(start.elapsed() < TIME, "{name}: took {:?}", start.elapsed());
    let most = watch::MOST.load(std::sync::atomic::Ordering::Relaxed);
    assert!(most < MEMORY, "{name}: {} MiB were allocated", most >> 20);
    if let Err(e) = &done {
        assert_ne!(e.to_string(), "", "{name}");
        assert!(!e.to_string().contains("panicked"), "{name}: {e}");
    }
    done
}

// ---------------------------------------------------------------------------------------- damaged stores

/// A store as keys and bytes; the first is the array's document.
struct Sample {
    name: String,
    objects: Vec<(String, Vec<u8>)>,
}

/// An array of numbers.
fn numbers(document: &str) -> Result<Sample> {
    let meta = common::model(document)?;
    let size = meta.data_type.size();
    let mut data = Model::counting(&meta.shape, size);
    if meta.data_type == zaro::meta::DataType::Bool {
        data.bytes.iter_mut().for_each(|b| *b &= 1);
    }
    let document_key = if meta.format.number() == 2 { ".zarray" } else { "zarr.json" };
    let mut objects = vec![(document_key.to_owned(), document.as_bytes().to_vec())];
    common::encode(&meta, "", &data, |key, _, bytes| objects.push((key, bytes)))?;
    Ok(Sample { name: document.to_owned(), objects })
}

/// A one-dimensional array of `items`, in one chunk.
fn items(document: &str, items: &[&[u8]]) -> Result<Sample> {
    let meta = common::model(document)?;
    let shape = meta.grid.chunk_shape(&[0]).unwrap();
    let repr = Repr { shape, data_type: meta.data_type.clone(), fill: meta.fill.clone() };
    let chain = Chain::build(&meta.codecs, repr, false)?;
    let bytes = chain.encode(Buffer::variable(items.iter().copied())?)?;
    let document_key = if meta.format.number() == 2 { ".zarray" } else { "zarr.json" };
    let objects =
        vec![(document_key.to_owned(), document.as_bytes().to_vec()), (meta.keys.key("", &[0]), bytes)];
    Ok(Sample { name: document.to_owned(), objects })
}

/// One array for each codec there is.
fn samples() -> Vec<Sample> {
    let mut out = Vec::new();
    let mut add = |sample: Result<Sample>, document: &str| match sample {
        Ok(s) => out.push(s),
        // Codecs that only decode are fuzzed on their own.
        Err(e) if e.kind() == ErrorKind::Unsupported => {}
        Err(e) => panic!("{e}: {document}"),
    };
    let v2 = || V2::new(&[20, 30], &[8, 16], "<u2");
    for codec in [
        r#"{"id":"zlib","level":1}"#,
        r#"{"id":"gzip","level":1}"#,
        r#"{"id":"zstd","level":1}"#,
        r#"{"id":"lz4","acceleration":1}"#,
        r#"{"id":"bz2","level":1}"#,
        r#"{"id":"lzma","format":1,"check":-1,"preset":1,"filters":null}"#,
        r#"{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0}"#,
        r#"{"id":"blosc","cname":"zstd","clevel":5,"shuffle":2,"blocksize":0}"#,
        r#"{"id":"blosc","cname":"zlib","clevel":5,"shuffle":0,"blocksize":0}"#,
        r#"{"id":"blosc","cname":"blosclz","clevel":5,"shuffle":1,"blocksize":0}"#,
        r#"{"id":"crc32"}"#,
        r#"{"id":"crc32c"}"#,
        r#"{"id":"adler32"}"#,
        r#"{"id":"fletcher32"}"#,
        r#"{"id":"jenkins_lookup3"}"#,
        r#"{"id":"deflate"}"#,
        r#"{"id":"base64"}"#,
        r#"{"id":"shuffle","elementsize":2}"#,
        r#"{"id":"imagecodecs_lzw"}"#,
        r#"{"id":"imagecodecs_lzf"}"#,
        r#"{"id":"imagecodecs_packbits"}"#,
        r#"{"id":"pcodec","level":8}"#,
    ] {
        let document = v2().compressor(codec).document();
        add(numbers(&document), &document);
    }
    for (dtype, filters) in [
        ("<u2", r#"[{"id":"delta","dtype":"<u2"}]"#),
        ("<u2", r#"[{"id":"delta","dtype":"<u2","astype":"<i4"},{"id":"shuffle","elementsize":4}]"#),
        ("<f4", r#"[{"id":"fixedscaleoffset","dtype":"<f4","astype":"u1","scale":10,"offset":5}]"#),
        ("<f4", r#"[{"id":"quantize","digits":2,"dtype":"<f4"}]"#),
        ("<f4", r#"[{"id":"astype","encode_dtype":"<f8","decode_dtype":"<f4"}]"#),
        ("<f4", r#"[{"id":"bitround","keepbits":5}]"#),
        ("|b1", r#"[{"id":"packbits"}]"#),
        ("<f4", r#"[{"id":"zfpy","mode":4,"tolerance":0.01}]"#),
    ] {
        let mut spec = V2::new(&[20, 30], &[8, 16], dtype).filters(filters);
        if dtype == "|b1" {
            spec.fill = "false".into();
        }
        let document = spec.document();
        add(numbers(&document), &document);
    }
    for (filters, content) in [
        (r#"[{"id":"vlen-utf8"}]"#, ["a", "", "größer", "0123456789"]),
        (r#"[{"id":"vlen-bytes"}]"#, ["a", "", "abc", "0123456789"]),
        (r#"[{"id":"vlen-array","dtype":"<u2"}]"#, ["ab", "", "abcd", "01234567"]),
        (r#"[{"id":"json2","encoding":"utf-8"}]"#, ["1", "null", "\"x\"", "[1,{\"a\":2}]"]),
        (r#"[{"id":"msgpack2"}]"#, ["1", "null", "\"x\"", "[1,{\"a\":2}]"]),
        (r#"[{"id":"categorize","labels":["a","b"],"dtype":"|O","astype":"|u1"}]"#, ["a", "", "b", "a"]),
    ] {
        let mut spec = V2::new(&[4], &[4], "|O").filters(filters).compressor(r#"{"id":"zlib","level":1}"#);
        spec.fill = "\"\"".into();
        let document = spec.document();
        add(items(&document, &content.map(str::as_bytes)), &document);
    }
    let index = format!(r#"{LITTLE},{{"name":"crc32c"}}"#);
    let v3 =
        |data_type: &str, codecs: String| V3::new(&[20, 30], &[8, 16], data_type).codecs(codecs).document();
    for document in [
        v3("uint16", LITTLE.into()),
        v3("float64", format!("{BIG},{GZIP}")),
        v3("int32", format!(r#"{},{LITTLE},{ZSTD},{{"name":"crc32c"}}"#, transpose(&[1, 0]))),
        v3("uint16", sharding(&[4, 4], &format!("{LITTLE},{ZSTD}"), &index, "end")),
        v3("uint16", sharding(&[4, 4], LITTLE, LITTLE, "start")),
        v3("uint16", sharding(&[4, 8], &sharding(&[2, 2], LITTLE, LITTLE, "end"), &index, "start")),
        v3("uint16", format!("{},{GZIP}", sharding(&[4, 4], LITTLE, LITTLE, "end"))),
        v3("int4", r#"{"name":"packbits"}"#.into()),
        v3("uint16", format!(r#"{{"name":"reshape","configuration":{{"shape":[128]}}}},{LITTLE}"#)),
        v3(
            "uint16",
            format!(
                r#"{{"name":"n5_default","configuration":{{"codecs":[{},{BIG},{GZIP}]}}}}"#,
                transpose(&[1, 0])
            ),
        ),
        v3("float32", r#"{"name":"zfp","configuration":{"mode":"reversible"}}"#.into()),
        v3("uint16", r#"{"name":"numcodecs.pcodec","configuration":{"level":8}}"#.into()),
        v3(
            "uint16",
            format!(
                r#"{LITTLE},{{"name":"blosc","configuration":{{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":2,"blocksize":0}}}}"#
            ),
        ),
    ] {
        match numbers(&document) {
            Err(e) if e.kind() == ErrorKind::Invalid => panic!("{e}: {document}"),
            sample => add(sample, &document),
        }
    }
    out
}

/// Numbers that have broken programs before.
const NASTY: [&str; 12] = [
    "0",
    "-1",
    "1e400",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1.5",
];

/// Damages `bytes` in one of many ways.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>, is_text: bool) {
    let len = bytes.len() as u64;
    if len == 0 {
        bytes.push(rng.next() as u8);
        return;
    }
    match rng.below(if is_text { 9 } else { 6 }) {
        0 | 1 => {
            for _ in 0..rng.within(1, 4) {
                let at = rng.below(len) as usize;
                bytes[at] ^= 1 << rng.below(8);
            }
        }
        2 => bytes.truncate(rng.below(len) as usize),
        3 => {
            let at = rng.below(len) as usize;
            let n = rng.within(1, 8).min(len - at as u64) as usize;
            let value = *rng.pick(&[0x00, 0x7f, 0x80, 0xff]);
            bytes[at..at + n].fill(value);
        }
        4 => {
            let more = rng.within(1, 20) as usize;
            let more = rng.bytes(more);
            bytes.extend(more);
        }
        5 => {
            let (a, b) = (rng.below(len) as usize, rng.below(len) as usize);
            let part = bytes[a.min(b)..a.max(b)].to_vec();
            let at = rng.below(len) as usize;
            bytes.splice(at..at, part);
        }
        // A number of the document becomes another.
        _ => {
            let starts: Vec<usize> = (0..bytes.len())
                .filter(|i| bytes[*i].is_ascii_digit() && (*i == 0 || !bytes[i - 1].is_ascii_digit()))
                .collect();
            let Some(at) = (!starts.is_empty()).then(|| *rng.pick(&starts)) else { return };
            let end = (at..bytes.len()).find(|i| !bytes[*i].is_ascii_digit()).unwrap_or(bytes.len());
            bytes.splice(at..end, rng.pick(&NASTY).bytes());
        }
    }
}

#[test]
fn damaged_stores_do_no_harm() {
    let samples = samples();
    assert!(samples.len() > 40, "only {} codecs can encode", samples.len());
    let mut outcomes = [0; 2];
    // More for a long night.
    let rounds = std::env::var("ZARO_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1500);
    for (n, sample) in samples.iter().enumerate() {
        for round in 0..rounds {
            let seed = (n as u64) << 32 | round;
            let mut rng = Rng::new(seed);
            let store = Arc::new(MemoryStore::new());
            let victim = if rng.one_in(3) { 0 } else { rng.below(sample.objects.len() as u64) as usize };
            for (i, (key, bytes)) in sample.objects.iter().enumerate() {
                let mut bytes = bytes.clone();
                if i == victim {
                    damage(&mut rng, &mut bytes, i == 0);
                }
                store.put(key, bytes).unwrap();
            }
            let store: SharedStore = match rng.below(6) {
                0 => Arc::new(Probe::new(store)),
                1 => Arc::new(AsFiles(store)),
                _ => store,
            };
            let done = watched(&format!("seed {seed:#x}: {}", sample.name), store);
            outcomes[usize::from(done.is_err())] += 1;
        }
    }
    // Both must occur, or the test damages too little or too much.
    assert!(outcomes[0] > 500 && outcomes[1] > 500, "{outcomes:?}");
}

#[test]
fn whole_stores_read_as_they_should() {
    for sample in samples() {
        let store = Arc::new(MemoryStore::new());
        for (key, bytes) in &sample.objects {
            store.put(key, bytes.clone()).unwrap();
        }
        watched(&sample.name, store).unwrap_or_else(|e| panic!("{e}: {}", sample.name));
    }
}

// ---------------------------------------------------------------------------------------- forged indexes

/// A shard of four inner chunks of two bytes, with this index.
fn forged(entries: [(u64, u64); 4], location: &str, inner: &str) -> Arc<MemoryStore> {
    let document = V3::new(&[8], &[8], "uint8").codecs(sharding(&[2], inner, LITTLE, location)).document();
    let store = Arc::new(MemoryStore::new());
    store.put("zarr.json", document).unwrap();
    let data: Vec<u8> = (1..=8).collect();
    let index: Vec<u8> =
        entries.iter().flat_map(|(o, n)| [o.to_le_bytes(), n.to_le_bytes()].concat()).collect();
    let shard = if location == "end" { [data, index].concat() } else { [index, data].concat() };
    store.put("c/0", shard).unwrap();
    store
}

#[test]
fn forged_shard_indexes_are_errors() {
    const MAX: u64 = u64::MAX;
    for (name, location, entry) in [
        ("overflow", "end", (MAX - 1, 2)),
        ("overflow by much", "end", (1 << 63, 1 << 63)),
        ("beyond the end", "end", (72, 2)),
        ("across the end", "end", (71, 2)),
        ("far beyond the end", "end", (1 << 40, 2)),
        ("huge", "end", (0, 1 << 50)),
        ("inside the index", "end", (8, 2)),
        ("across into the index", "end", (7, 2)),
        ("inside the index", "start", (0, 2)),
        ("across out of the index", "start", (63, 2)),
        ("beyond the end", "start", (72, 2)),
        ("offset alone is absent", "end", (MAX, 2)),
        ("size alone is absent", "end", (0, MAX)),
        ("empty", "end", (0, 0)),
        ("too short", "end", (0, 1)),
        ("too long", "end", (0, 3)),
    ] {
        let good = if location == "end" { 0 } else { 64 };
        let store = forged([entry, (good + 2, 2), (good + 4, 2), (good + 6, 2)], location, LITTLE);
        let stores: [SharedStore; 3] =
            [store.clone(), Arc::new(AsFiles(store.clone())), Arc::new(Probe::new(store.clone()))];
        for store in stores {
            let array = common::open_array(store.clone()).unwrap();
            for window in [":", "0", "1:5"] {
                let remote = store.direct().is_none();
                // Nobody asks a remote store for a size, so that it cannot be known where the index begins.
                if remote && location == "end" && window != ":" && name.contains("the index") {
                    continue;
                }
                let e = common::read(&array, window).err();
                let e = e.unwrap_or_else(|| panic!("{name}, {location}, {store}: {window} was read"));
                assert_eq!(e.kind(), ErrorKind::Invalid, "{name} {store} {window}: {e}");
                assert_eq!(e.key(), Some("c/0"), "{name} {store} {window}: {e}");
            }
            assert_eq!(common::read(&array, "2:8").unwrap(), [3, 4, 5, 6, 7, 8], "{name} {store}");
        }
    }
}

#[test]
fn a_shard_cut_short_is_an_error() {
    for location in ["end", "start"] {
        for inner in [LITTLE.to_owned(), format!("{LITTLE},{GZIP}")] {
            for length in [0usize, 1, 15, 63, 64, 65] {
                let store = forged([(0, 2), (2, 2), (4, 2), (6, 2)], location, &inner);
                store.put("c/0", vec![1; length]).unwrap();
                for store in [store.clone() as SharedStore, Arc::new(Probe::new(store))] {
                    let name = format!("{location} {length} {store}");
                    assert!(watched(&name, store).is_err(), "{name}");
                }
            }
        }
    }
}

// ---------------------------------------------------------------------------------------- absurd claims

/// A store with this document and some bytes where its first chunk would be.
fn claim(document: String) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let (name, prefix) =
        if document.contains("\"zarr_format\":2") { (".zarray", "") } else { ("zarr.json", "c/") };
    store.put(name, document).unwrap();
    for rank in 1..5 {
        let index = vec!["0"; rank].join(if prefix.is_empty() { "." } else { "/" });
        store.put(&format!("{prefix}{index}"), vec![0x1f; 40]).unwrap();
    }
    store
}

#[test]
fn absurd_shapes_cost_nothing() {
    const BIG_N: u64 = 1 << 62;
    let mut documents = vec![
        V3::new(&[BIG_N], &[BIG_N], "uint8").document(),
        V3::new(&[BIG_N], &[BIG_N], "uint8").codecs(format!("{LITTLE},{GZIP}")).document(),
        V3::new(&[BIG_N], &[BIG_N], "uint8").codecs(format!("{LITTLE},{ZSTD}")).document(),
        V3::new(&[BIG_N], &[BIG_N], "float64").document(),
        V3::new(&[1 << 40], &[1 << 34], "uint16").codecs(format!("{LITTLE},{GZIP}")).document(),
        V3::new(&[1 << 40], &[1 << 30], "string").codecs(r#"{"name":"vlen-utf8"}"#).fill("\"\"").document(),
        V3::new(&[1 << 32; 4], &[1 << 32; 4], "uint8").document(),
        V3::new(&[1 << 32; 2], &[1 << 32, 1 << 31], "uint8").document(),
        V3::new(&[u64::MAX; 5], &[1; 5], "uint8").document(),
        V3::new(&[u64::MAX; 3], &[u64::MAX, 1, 1], "uint8").document(),
        V3::new(&vec![1; 5000], &vec![1; 5000], "uint8").document(),
        V3::new(&[BIG_N], &[BIG_N], "uint8").codecs(sharding(&[1], LITTLE, LITTLE, "end")).document(),
        V3::new(&[1 << 36], &[1 << 36], "uint8")
            .codecs(sharding(&[1 << 10], LITTLE, LITTLE, "start"))
            .document(),
        V3::new(&[1 << 36], &[1 << 36], "uint8")
            .codecs(sharding(&[1 << 35], &format!("{LITTLE},{GZIP}"), LITTLE, "end"))
            .document(),
        // What the bytes do not hold would be filled up.
        V3::new(&[1 << 36], &[1 << 36], "uint8")
            .codecs(format!("{},{{\"name\":\"crc32\"}}", sharding(&[1 << 36], LITTLE, LITTLE, "end")))
            .document(),
        V2::new(&[1 << 20], &[1 << 20], "<U10000000").filters(r#"[{"id":"json2"}]"#).document(),
        V2::new(&[BIG_N], &[BIG_N], "|u1").compressor(r#"{"id":"zlib"}"#).document(),
        V2::new(&[BIG_N], &[BIG_N], "|u1").compressor(r#"{"id":"blosc"}"#).document(),
        V2::new(&[BIG_N], &[BIG_N], "|u1").compressor(r#"{"id":"lz4"}"#).document(),
        V2::new(&[BIG_N], &[BIG_N], "|u1").compressor(r#"{"id":"bz2"}"#).document(),
        V2::new(&[1 << 33], &[1 << 33], "|u1").compressor(r#"{"id":"lzma"}"#).document(),
        V2::new(&[1 << 33], &[1 << 33], "<f4").filters(r#"[{"id":"delta","dtype":"<f4"}]"#).document(),
        V2::new(&[8], &[8], "|V2000000000").document(),
        V2::new(&[8], &[8], "|S500000000").document(),
        V2::new(&[8], &[8], "<U500000000").document(),
    ];
    let mut spec = V3::new(&[8], &[8], "r2147483640").fill("[]");
    documents.push(spec.document());
    spec.data_type = r#"{"name":"raw_bytes","configuration":{"length_bytes":268435456}}"#.into();
    documents.push(spec.document());
    spec.data_type = "\"uint8\"".into();
    for axis in
        ["[[1,67108864]]", "[[1,18446744073709551615]]", "[[9223372036854775808,2]]", "[[1,1099511627776]]"]
    {
        spec.fill = "0".into();
        spec.grid = format!(
            r#"{{"name":"rectilinear","configuration":{{"kind":"inline","chunk_shapes":[{axis}]}}}}"#
        );
        documents.push(spec.document());
    }
    for fill in ["1e999999999", "1e-999999999", "-1e999999999", "1e18446744073709551616"] {
        documents.push(V3::new(&[8], &[8], "float64").fill(fill).document());
        documents.push(V3::new(&[8], &[8], "int8").fill(fill).document());
    }
    documents.push(V3::new(&[8], &[8], "float16").fill(&"9".repeat(100_000)).document());
    documents.push(V3::new(&[8], &[8], "float64").fill(&format!("0.{}1", "0".repeat(100_000))).document());
    for document in documents {
        let store = claim(document.clone());
        let shown: String = document.chars().take(400).collect();
        for store in
            [store.clone() as SharedStore, Arc::new(AsFiles(store.clone())), Arc::new(Probe::new(store))]
        {
            // Some are refused, some are only large: what matters is that nothing breaks.
            let _ = watched(&shown, store);
        }
    }
}

#[test]
fn deep_documents_are_refused() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        for depth in [200, 100_000, 1_000_000] {
            let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            for document in
                [deep.clone(), V3_GROUP.replace('}', &format!(r#","attributes":{{"x":{deep}}}}}"#))]
            {
                let store = Arc::new(MemoryStore::new());
                store.put("zarr.json", document).unwrap();
                let e = common::open(store).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Invalid, "{}", e.message());
            }
        }
    }
    // Shards in shards, as deep as the text may be.
    let nested = (0..60).fold(LITTLE.to_owned(), |codecs, _| sharding(&[1], &codecs, LITTLE, "end"));
    let document = V3::new(&[1], &[1], "uint8").codecs(nested).document();
    let _ = watched("nested shards", claim(document));
}

#[test]
fn noise_is_no_metadata() {
    let mut rng = Rng::new(99);
    for round in 0..2000 {
        let n = rng.below(200) as usize;
        let bytes = rng.bytes(n);
        for name in ["zarr.json", ".zmetadata", ".zarray", ".zgroup", ".zattrs"] {
            let store = Arc::new(MemoryStore::new());
            store.put(name, bytes.clone()).unwrap();
            let done = watched(&format!("round {round} {name}"), store);
            assert!(done.is_err());
        }
    }
    assert_eq!(volume(&[]), 1);
}
