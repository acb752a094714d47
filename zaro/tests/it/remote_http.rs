//! What a far-away server is asked for: every request costs 30 ms here, and all are counted.

use std::time::{Duration, Instant};

use zaro::codec::{Buffer, Repr};
use zaro::internal::codec::Chain;
use zaro::internal::meta::v3;
use zaro::meta::{ArrayMeta, Findings, Json, Mode, NodeMeta};
use zaro::testing::TinyServer;
use zaro::{OpenOptions, ReadOptions, Selection};

const DELAY: Duration = Duration::from_millis(30);

fn document(shape: u64, chunk: u64, codecs: &str) -> String {
    format!(
        r#"{{"zarr_format":3,"node_type":"array","shape":[{shape},{shape}],"data_type":"uint16","fill_value":0,
        "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[{chunk},{chunk}]}}}},
        "chunk_key_encoding":{{"name":"default"}},"codecs":[{codecs}]}}"#
    )
}

const ZSTD: &str = r#"{"name":"bytes","configuration":{"endian":"little"}},
    {"name":"zstd","configuration":{"level":1,"checksum":false}}"#;

fn sharded() -> String {
    format!(
        r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":[16,16],"codecs":[{ZSTD}],
        "index_codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}},{{"name":"crc32c"}}]}}}}"#
    )
}

/// Element `(r, c)` is `r * 251 + c`.
fn value(r: u64, c: u64) -> u16 {
    (r * 251 + c) as u16
}

/// The objects of an array below `node`.
fn objects(node: &str, document: &str) -> Vec<(String, Vec<u8>)> {
    let json = Json::parse(document.as_bytes()).unwrap().value;
    let NodeMeta::Array(meta) = v3::node(json, &mut Findings::new(Mode::Strict, "/")).unwrap() else {
        panic!()
    };
    let meta: ArrayMeta = meta;
    let shape = meta.grid.largest();
    let repr = Repr { shape: shape.clone(), data_type: meta.data_type.clone(), fill: meta.fill.clone() };
    let chain = Chain::build(&meta.codecs, repr, true).unwrap();
    let mut out = vec![(format!("{node}/zarr.json"), document.as_bytes().to_vec())];
    let counts = meta.grid.counts(&meta.shape);
    for i in 0..counts[0] {
        for j in 0..counts[1] {
            let rows = i * shape[0]..(i + 1) * shape[0];
            let bytes = rows.flat_map(|r| {
                (j * shape[1]..(j + 1) * shape[1]).flat_map(move |c| value(r, c).to_le_bytes())
            });
            let encoded = chain.encode(Buffer::fixed(bytes.collect())).unwrap();
            out.push((meta.keys.key(node, &[i, j]), encoded));
        }
    }
    out
}

async fn read(server: &TinyServer, array: &str, start: [u64; 2], count: [u64; 2]) -> Vec<u16> {
    let zarr = zaro::open(&format!("{}/data.zarr", server.url()), &OpenOptions::default()).await.unwrap();
    let array = zarr.array(array).await.unwrap();
    let slab =
        array.read_slab(&Selection::start_count(&start, &count), &ReadOptions::default()).await.unwrap();
    slab.to_vec().unwrap()
}

fn expected(start: [u64; 2], count: [u64; 2]) -> Vec<u16> {
    (start[0]..start[0] + count[0])
        .flat_map(|r| (start[1]..start[1] + count[1]).map(move |c| value(r, c)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consolidated_store_opens_with_one_request() {
    let array = document(64, 32, ZSTD);
    let root = format!(
        r#"{{"zarr_format":3,"node_type":"group","consolidated_metadata":
        {{"kind":"inline","must_understand":false,"metadata":{{"a":{array}}}}}}}"#
    );
    let mut all = objects("data.zarr/a", &array);
    all.push(("data.zarr/zarr.json".into(), root.into_bytes()));
    let server = TinyServer::serving(all, DELAY);
    let zarr = zaro::open(&format!("{}/data.zarr", server.url()), &OpenOptions::default()).await.unwrap();
    assert_eq!(zarr.walk("").await.unwrap().len(), 2);
    zarr.array("a").await.unwrap();
    assert_eq!(server.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_in_a_plain_hierarchy_opens_with_two() {
    let mut all = objects("data.zarr/a", &document(64, 32, ZSTD));
    all.push(("data.zarr/zarr.json".into(), br#"{"zarr_format":3,"node_type":"group"}"#.to_vec()));
    let server = TinyServer::serving(all, DELAY);
    let zarr = zaro::open(&format!("{}/data.zarr", server.url()), &OpenOptions::default()).await.unwrap();
    zarr.array("a").await.unwrap();
    assert_eq!(server.requests(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_in_a_shard_cost_an_index_and_one_range() {
    let mut all = objects("data.zarr/a", &document(256, 256, &sharded()));
    all.push(("data.zarr/zarr.json".into(), br#"{"zarr_format":3,"node_type":"group"}"#.to_vec()));
    let server = TinyServer::serving(all, DELAY);
    let zarr = zaro::open(&format!("{}/data.zarr", server.url()), &OpenOptions::default()).await.unwrap();
    let array = zarr.array("a").await.unwrap();
    let before = server.requests();
    for (n, at) in [[40, 40], [50, 30], [100, 180]].into_iter().enumerate() {
        let slab =
            array.read_slab(&Selection::start_count(&at, &[48, 48]), &ReadOptions::default()).await.unwrap();
        assert_eq!(slab.to_vec::<u16>().unwrap(), expected(at, [48, 48]));
        // The index once; then at most one joined range a window, none for what is remembered.
        assert!(server.requests() - before <= 2 + n as u64, "{} requests", server.requests() - before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_chunks_are_fetched_side_by_side() {
    // 256 chunks one after the other would take 7.7 s of waiting alone.
    let mut all = objects("data.zarr/a", &document(512, 32, ZSTD));
    all.push(("data.zarr/zarr.json".into(), br#"{"zarr_format":3,"node_type":"group"}"#.to_vec()));
    let server = TinyServer::serving(all, DELAY);
    let started = Instant::now();
    assert_eq!(read(&server, "a", [0, 0], [512, 512]).await, expected([0, 0], [512, 512]));
    assert_eq!(server.requests(), 2 + 256);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}
