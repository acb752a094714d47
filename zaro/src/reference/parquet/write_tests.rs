//! What is written reads back the same, in whatever order it came; and files too large to be read whole.
#![allow(clippy::as_conversions, reason = "small numbers of a test")]

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::parquet::basic::{ConvertedType, Type};
use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::record::RowAccessor;
use ::parquet::schema::parser::parse_message_type;
use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;

use super::write::documents as documents_of;
use super::*;
use crate::group::{OpenOptions, Zarr};
use crate::meta::Json;
use crate::meta::json::json;
use crate::reference::{ReferenceStore, Remote, Span, Target, Targets};
use crate::store::local::LocalStore;
use crate::store::memory::MemoryStore;
use crate::store::{Entry, GetOptions, KeyEntry, ListOptions, Object, ObjectMeta, Pin, Store};

async fn open(store: SharedStore) -> Result<SharedMap> {
    crate::reference::parquet::open(store, &Context::shared()).await
}

#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Targets for Nowhere {
    async fn target(&self, _: &Remote) -> Result<Target> {
        Err(Error::unsupported("no target is needed here"))
    }
}

fn store_of(map: SharedMap) -> ReferenceStore {
    ReferenceStore::new("the references", map, Arc::new(Nowhere))
}

async fn sample() -> ReferenceStore {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/parquet/fastparquet");
    store_of(open(Arc::new(LocalStore::new(folder))).await.unwrap())
}

fn documents(shape: &str, chunks: &str) -> Vec<(String, Json)> {
    let zarray = format!(
        r#"{{"zarr_format":2,"shape":{shape},"chunks":{chunks},"dtype":"|u1","fill_value":9,"order":"C","filters":null,"compressor":null}}"#
    );
    vec![(".zgroup".into(), json(r#"{"zarr_format":2}"#)), ("v/.zarray".into(), json(&zarray))]
}

/// All objects of a store.
async fn objects(store: &MemoryStore) -> Vec<(String, Bytes)> {
    let mut keys: Vec<KeyEntry> = store.keys("").try_collect().await.unwrap();
    keys.sort_by(|a, b| a.key.cmp(&b.key));
    let mut out = Vec::new();
    for KeyEntry { key, .. } in keys {
        let bytes = store.get(&key, None).await.unwrap().unwrap();
        out.push((key, bytes));
    }
    out
}

#[tokio::test]
async fn references_come_back_as_they_were_written() {
    let source = sample().await;
    let wanted: Vec<_> = source.map().entries("").try_collect().await.unwrap();
    for record_size in [1, 3, 10, RECORD_SIZE] {
        let memory = Arc::new(MemoryStore::new());
        let target: SharedStore = memory.clone();
        let mut writer =
            ParquetWriter::new(target.clone(), record_size, documents_of(&source).await.unwrap()).unwrap();
        for (key, location) in &wanted {
            writer.put(key, location).await.unwrap();
        }
        let written = writer.finish().await.unwrap();
        assert_eq!((written.references, written.left_out), (u64_of(wanted.len() - 4), 0));
        let map = open(target.clone()).await.unwrap();
        let found: Vec<_> = map.entries("").try_collect().await.unwrap();
        assert_eq!(found, wanted, "{record_size}");

        // Backwards, twice, and without room for anything that is not whole: the same bytes.
        let other = Arc::new(MemoryStore::new());
        let texts = wanted.iter().filter_map(|(key, location)| match location {
            Location::Inline(text) if key.contains(".z") => {
                Some((key.clone(), Json::parse(text).unwrap().value))
            }
            _ => None,
        });
        let mut writer = ParquetWriter::new(other.clone(), record_size, texts).unwrap().with_memory(0);
        for (key, _) in wanted.iter().rev() {
            writer.put(key, &Location::Inline("to be replaced".into())).await.unwrap();
        }
        for (key, location) in wanted.iter().rev() {
            writer.put(key, location).await.unwrap();
        }
        assert_eq!(writer.finish().await.unwrap(), written);
        assert_eq!(objects(&other).await, objects(&memory).await, "{record_size}");
    }
}

#[tokio::test]
async fn what_the_form_cannot_say_is_refused_or_said_otherwise() {
    let memory = Arc::new(MemoryStore::new());
    let mut writer = ParquetWriter::new(memory.clone(), 2, documents("[5]", "[1]")).unwrap();
    let span = |offset, length| Some(Span { offset, length });
    let url = |span| Location::Remote(Remote::new("s3://b/k", span));
    writer.put("v/0", &Location::Inline("base64:AAEC".into())).await.unwrap();
    writer.put("v/1", &url(span(0, 0))).await.unwrap();
    writer.put("v/2", &url(span(7, 0))).await.unwrap();
    writer.put("v/3", &Location::Inline(Bytes::new())).await.unwrap();
    writer.put("v/4", &url(None)).await.unwrap();
    for key in ["v/5", "v/0.0", "w/0", "readme.txt"] {
        writer.put(key, &url(None)).await.unwrap();
    }
    let pin = Arc::new(Pin { version: Some("x".into()), ..Pin::default() });
    let pinned = Location::Remote(Remote { pin: Some(pin), ..Remote::new("s3://b/k", None) });
    for bad in [url(span(u64::MAX, 0)), Location::Remote(Remote::new("", None)), pinned] {
        assert!(writer.put("v/4", &bad).await.is_err(), "{bad:?}");
    }
    let written = writer.finish().await.unwrap();
    assert_eq!((written.references, written.partitions, written.left_out), (5, 3, 4));
    assert_eq!(written.examples, ["v/5", "v/0.0", "w/0", "readme.txt"]);

    let map = open(memory).await.unwrap();
    assert_eq!(map.locate("v/0").await.unwrap(), Some(Location::Inline("base64:AAEC".into())));
    assert_eq!(map.locate("v/1").await.unwrap(), Some(Location::Inline(Bytes::new())));
    let Some(Location::Remote(two)) = map.locate("v/2").await.unwrap() else { panic!() };
    assert_eq!((two.span, two.near.as_deref()), (span(7, 0), Some("v")));
    assert_eq!(map.locate("v/3").await.unwrap(), Some(Location::Inline(Bytes::new())));
    let Some(Location::Remote(four)) = map.locate("v/4").await.unwrap() else { panic!() };
    assert_eq!((&*four.url, four.span), ("s3://b/k", None));

    for size in [0, 1 << 31] {
        let target = Arc::new(MemoryStore::new());
        assert_eq!(
            ParquetWriter::new(target, size, documents("[5]", "[1]")).unwrap_err().kind(),
            ErrorKind::Usage
        );
    }
}

#[tokio::test]
async fn files_are_what_other_readers_ask_for() {
    let memory = Arc::new(MemoryStore::new());
    let mut writer = ParquetWriter::new(memory.clone(), 1000, documents("[40]", "[1]")).unwrap();
    // Nothing is inline here: the column of raw bytes must have its type all the same.
    for n in (0..40).filter(|n| n % 3 != 1) {
        let span = Some(Span { offset: n << 40, length: n + 1 });
        writer.put(&format!("v/{n}"), &Location::Remote(Remote::new("s3://b/k", span))).await.unwrap();
    }
    writer.finish().await.unwrap();
    let file = memory.get("v/refs.0.parq", None).await.unwrap().unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let columns: Vec<_> = schema
        .columns()
        .iter()
        .map(|c| (c.name(), c.physical_type(), c.converted_type(), c.self_type().is_optional()))
        .collect();
    let (number, text) = (Type::INT64, Type::BYTE_ARRAY);
    assert_eq!(
        columns,
        [
            ("path", text, ConvertedType::UTF8, true),
            ("offset", number, ConvertedType::NONE, false),
            ("size", number, ConvertedType::NONE, false),
            ("raw", text, ConvertedType::NONE, true),
        ]
    );
    assert_eq!(reader.metadata().num_row_groups(), 1);
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
    assert_eq!(rows.len(), 40, "a row for each chunk, no more");
    for (n, row) in rows.iter().enumerate() {
        let there = n % 3 != 1;
        assert_eq!(row.get_string(0).ok().map(String::as_str), there.then_some("s3://b/k"), "{n}");
        let (offset, size) = if there { ((n as i64) << 40, n as i64 + 1) } else { (0, 0) };
        assert_eq!((row.get_long(1).unwrap(), row.get_long(2).unwrap()), (offset, size));
    }
}

#[tokio::test]
async fn an_array_is_read_through_them() {
    let memory = Arc::new(MemoryStore::new());
    let mut writer = ParquetWriter::new(memory.clone(), 2, documents("[7]", "[2]")).unwrap();
    for (key, bytes) in [("v/0", [1, 2]), ("v/3", [7, 8])] {
        writer.put(key, &Location::Inline(bytes.to_vec().into())).await.unwrap();
    }
    writer.finish().await.unwrap();
    let store = Arc::new(store_of(open(memory).await.unwrap()));
    let zarr = Zarr::from_store(store, OpenOptions::default()).await.unwrap();
    assert!(zarr.findings().is_empty(), "{:?}", zarr.findings());
    let names: Vec<_> = zarr.children("").await.unwrap().iter().map(|n| n.path.clone()).collect();
    assert_eq!(names, ["v"]);
    let array = zarr.array("v").await.unwrap();
    let all = crate::array::Selection::parse(":").unwrap();
    let slab = array.read_slab(&all, &crate::array::ReadOptions::default()).await.unwrap();
    assert_eq!(slab.to_vec::<u8>().unwrap(), [1, 2, 9, 9, 9, 9, 7]);
}

/// A store that counts what is taken from it.
#[derive(Debug)]
struct Counted {
    inner: MemoryStore,
    bytes: AtomicU64,
    calls: AtomicU64,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counted")
    }
}

#[async_trait]
impl Store for Counted {
    async fn get_opts(&self, key: &str, options: GetOptions<'_>) -> Result<Option<Object>> {
        let found = self.inner.get_opts(key, options).await?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(found.as_ref().map_or(0, |o| u64_of(o.bytes.len())), Ordering::Relaxed);
        Ok(found)
    }

    async fn stat(&self, key: &str) -> Result<Option<ObjectMeta>> {
        self.inner.stat(key).await
    }

    fn list_opts(&self, prefix: &str, options: &ListOptions) -> BoxStream<'_, Result<Entry>> {
        self.inner.list_opts(prefix, options)
    }
}

/// A file of one row group whose columns are long, with or without lists of their pages.
fn long_file(rows: i64, listed: bool) -> Vec<u8> {
    let schema =
        "message schema { optional binary path (STRING); optional int64 offset; required int64 size; }";
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(!listed)
        .set_column_dictionary_enabled("offset".into(), false)
        .set_column_dictionary_enabled("size".into(), false);
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build())).unwrap();
    let mut group = file.next_row_group().unwrap();
    let levels: Vec<i16> = (0..rows).map(|n| i16::from(n % 10 != 3)).collect();
    let there = || (0..rows).filter(|n| n % 10 != 3);
    let paths: Vec<ByteArray> = there().map(|n| format!("f{}", n % 4).into_bytes().into()).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&paths, Some(&levels), None).unwrap();
    column.close().unwrap();
    let offsets: Vec<i64> = there().map(|n| n * 1000).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&offsets, Some(&levels), None).unwrap();
    column.close().unwrap();
    let sizes: Vec<i64> = (0..rows).map(|n| n + 1).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&sizes, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    file.into_inner().unwrap()
}

#[tokio::test]
async fn of_long_columns_only_parts_are_fetched() {
    let rows = 700_000u64;
    for listed in [true, false] {
        let file = long_file(rows as i64, listed);
        let whole = u64_of(file.len());
        let inner = MemoryStore::new();
        inner.put("v/refs.0.parq", file).unwrap();
        let text = r#"{"metadata":{"v/.zarray":{"shape":[700000],"chunks":[1]}},"record_size":1000000}"#;
        inner.put(ZMETADATA, text).unwrap();
        let store = Arc::new(Counted { inner, bytes: AtomicU64::new(0), calls: AtomicU64::new(0) });
        let map = open(store.clone()).await.unwrap();
        for n in [650_000, 0, 131_071, 131_072, 400_003, 400_004, 699_999] {
            let found = map.locate(&format!("v/{n}")).await.unwrap();
            if n % 10 == 3 {
                assert_eq!(found, None);
            } else {
                let span = Some(Span { offset: n * 1000, length: n + 1 });
                let near = Some("v".into());
                let remote = Remote { near, ..Remote::new(format!("f{}", n % 4), span) };
                assert_eq!(found, Some(Location::Remote(remote)), "{n}");
            }
            let (bytes, calls) =
                (store.bytes.swap(0, Ordering::Relaxed), store.calls.swap(0, Ordering::Relaxed));
            if listed {
                assert!(bytes < whole / 2 && calls < 16, "{n}: {bytes} of {whole} in {calls}");
            }
            assert!(bytes <= whole + (1 << 20), "{n}: {bytes} of {whole}");
        }
        let mut count = 0;
        let mut entries = map.entries("v");
        while entries.try_next().await.unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 1 + rows - rows / 10);
    }
}
