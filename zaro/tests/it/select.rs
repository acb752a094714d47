//! Random selections of random arrays, against an element-by-element reading.

use crate::common;
use std::sync::Arc;

use crate::common::probe::{AsFiles, Probe};
use crate::common::{BIG, GZIP, LITTLE, Model, Rng, V2, V3, ZSTD, regular, sharding, transpose, volume};
use zaro::store::{MemoryStore, SharedStore};
use zaro::{Array, Index, Order, ReadOptions, Selection};

/// Data types with their size and a fill value that is not zero.
const TYPES: [(&str, &str, usize, &str); 7] = [
    ("uint8", "|u1", 1, "7"),
    ("uint16", "<u2", 2, "513"),
    ("r24", "|V3", 3, "[1,2,3]"),
    ("int32", "<i4", 4, "-2"),
    ("float64", "<f8", 8, "\"0x7ff8000000000001\""),
    ("complex128", "<c16", 16, "[1.0,-1.0]"),
    ("uint64", "<u8", 8, "0"),
];

/// A random array at the root of a store, and what it holds.
struct Case {
    store: Arc<MemoryStore>,
    document: String,
    data: Model,
    names: Vec<String>,
}

fn shuffled(rng: &mut Rng, n: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..n).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    order
}

/// One axis of a rectilinear grid over `extent` positions, as JSON, with its edges.
fn rectilinear_axis(rng: &mut Rng, extent: u64) -> String {
    if rng.one_in(4) {
        return rng.within(1, extent.max(1)).to_string();
    }
    let (mut items, mut end) = (Vec::new(), 0);
    while end < extent || items.is_empty() {
        let length = rng.within(1, 4);
        let count = if rng.one_in(3) { rng.within(1, 3) } else { 1 };
        items.push(if count == 1 { length.to_string() } else { format!("[{length},{count}]") });
        end += length * count;
    }
    format!("[{}]", items.join(","))
}

fn v3_document(rng: &mut Rng, shape: &[u64], name: &str, fill: &str, names: &[String]) -> String {
    let rank = shape.len() as u64;
    let mut spec = V3::new(shape, &[], name).fill(fill);
    spec.more = format!(r#","dimension_names":{names:?}"#);
    if rng.one_in(4) {
        spec.keys = r#"{"name":"v2"}"#.into();
    }
    let bytes = if rng.one_in(3) { BIG } else { LITTLE };
    let mut codecs = if rng.one_in(2) { vec![transpose(&shuffled(rng, rank))] } else { vec![] };
    match rng.below(4) {
        // Varying chunks.
        0 => {
            let axes: Vec<String> = shape.iter().map(|n| rectilinear_axis(rng, *n)).collect();
            spec.grid = format!(
                r#"{{"name":"rectilinear","configuration":{{"kind":"inline","chunk_shapes":[{}]}}}}"#,
                axes.join(",")
            );
            codecs.push(bytes.into());
        }
        // Shards; their inner chunks lie below the transpose and must divide the transposed shard.
        1 => {
            let inner: Vec<u64> = shape.iter().map(|_| rng.within(1, 3)).collect();
            let outer: Vec<u64> = inner.iter().map(|n| n * rng.within(1, 3)).collect();
            let order = shuffled(rng, rank);
            let seen: Vec<u64> = order.iter().map(|d| inner[*d as usize]).collect();
            spec.grid = regular(&outer);
            let within = if rng.one_in(2) { format!("{bytes},{GZIP}") } else { bytes.to_owned() };
            let end = if rng.one_in(2) { "end" } else { "start" };
            codecs = vec![transpose(&order), sharding(&seen, &within, LITTLE, end)];
        }
        _ => {
            let chunks: Vec<u64> = shape.iter().map(|n| rng.within(1, n.max(&1) + 1)).collect();
            spec.grid = regular(&chunks);
            codecs.push(bytes.into());
        }
    }
    if rng.one_in(2) {
        codecs.push(if rng.one_in(2) { GZIP.into() } else { ZSTD.into() });
    }
    spec.codecs(codecs.join(",")).document()
}

fn v2_document(rng: &mut Rng, shape: &[u64], dtype: &str, fill: &str) -> String {
    let chunks: Vec<u64> = shape.iter().map(|n| rng.within(1, n.max(&1) + 1)).collect();
    let dtype = if rng.one_in(3) { dtype.replace('<', ">") } else { dtype.to_owned() };
    let mut spec = V2::new(shape, &chunks, &dtype);
    spec.fill = fill.into();
    spec.order = if rng.one_in(2) { 'F' } else { 'C' };
    if rng.one_in(2) {
        spec.compressor = r#"{"id":"zlib","level":1}"#.into();
    }
    if rng.one_in(2) {
        spec.separator = Some(*rng.pick(&['.', '/']));
    }
    spec.document()
}

fn case(rng: &mut Rng) -> Case {
    let rank = rng.below(5) as usize;
    let most = [1, 40, 12, 8, 6][rank];
    let shape: Vec<u64> = (0..rank).map(|_| if rng.one_in(40) { 0 } else { rng.within(1, most) }).collect();
    let (name, dtype, size, fill) = *rng.pick(&TYPES);
    let names: Vec<String> = shuffled(rng, rank as u64).iter().map(|d| format!("axis {d}")).collect();
    let is_v2 = rng.one_in(3) && !fill.starts_with(['"', '[']);
    let document = if is_v2 {
        v2_document(rng, &shape, dtype, fill)
    } else {
        v3_document(rng, &shape, name, fill, &names)
    };
    let mut data = Model::random(rng, &shape, size);
    let meta = common::model(&document).unwrap_or_else(|e| panic!("{e}: {document}"));
    // Some chunks are left out; they must read as fill.
    let counts = meta.grid.counts(&shape);
    let mut absent = Vec::new();
    if rng.one_in(2) && !counts.contains(&0) {
        for _ in 0..rng.within(1, 3) {
            let index: Vec<u64> = counts.iter().map(|n| rng.below(*n)).collect();
            let start: Vec<u64> = index
                .iter()
                .zip(meta.grid.axes())
                .map(|(i, a)| (0..*i).map(|k| a.length(k).unwrap()).sum())
                .collect();
            let count: Vec<u64> = meta
                .grid
                .chunk_shape(&index)
                .unwrap()
                .iter()
                .zip(start.iter().zip(&shape))
                .map(|(c, (s, n))| (*c).min(n - s))
                .collect();
            data.paint(&start, &count, &meta.fill.0);
            absent.push(index);
        }
    }
    let store = Arc::new(MemoryStore::new());
    common::put_array_without(&store, "", &document, &data, &absent);
    Case { store, document, data, names: if is_v2 { Vec::new() } else { names } }
}

/// A random selection, with the positions it means and the shape of the answer.
fn selection(rng: &mut Rng, case: &Case) -> (Selection, Vec<Vec<u64>>, Vec<u64>) {
    let shape = &case.data.shape;
    let mut picks: Vec<(Index, Vec<u64>)> = shape.iter().map(|n| common::random_index(rng, *n)).collect();
    // Dimensions left out are taken whole.
    let given = if rng.one_in(3) { rng.below(shape.len() as u64 + 1) as usize } else { shape.len() };
    let by_name = !case.names.is_empty() && rng.one_in(4);
    if !by_name {
        for (pick, n) in picks.iter_mut().zip(shape).skip(given) {
            *pick = (Index::All, (0..*n).collect());
        }
    }
    let answer = picks
        .iter()
        .filter(|(i, _)| !matches!(i, Index::At(_)))
        .map(|(_, positions)| positions.len() as u64)
        .collect();
    let positions = picks.iter().map(|(_, p)| p.clone()).collect();
    let selection = if by_name {
        let text = |i: &Index| match i {
            Index::All => ":".to_owned(),
            Index::Span(start, count) => format!("{start}:{}", start + count),
            Index::At(i) => i.to_string(),
            Index::List(list) => format!("{list:?}"),
            Index::Slice(a, b, s) => {
                let show = |i: &Option<i64>| i.map_or(String::new(), |i| i.to_string());
                format!("{}:{}:{s}", show(a), show(b))
            }
        };
        let items: Vec<_> =
            case.names.iter().zip(&picks).map(|(name, (i, _))| (name.clone(), text(i))).collect();
        Selection::named(&items).unwrap()
    } else {
        Selection::new(picks.into_iter().take(given).map(|(i, _)| i).collect())
    };
    (selection, positions, answer)
}

fn check(array: &Array, case: &Case, rng: &mut Rng, seed: u64) {
    let (selection, positions, shape) = selection(rng, case);
    let order = if rng.one_in(2) { Order::C } else { Order::F };
    let options = ReadOptions::default().with_order(order);
    let wanted = case.data.select(&positions, order);
    let context = || format!("seed {seed}, {} {selection:?} {order:?}\n{}", array.store(), case.document);
    let slab =
        array.read_slab_blocking(&selection, &options).unwrap_or_else(|e| panic!("{e}: {}", context()));
    assert_eq!(slab.shape, shape, "{}", context());
    assert!(slab.bytes == wanted, "read differs: {}", context());
    let mut buffer = vec![0xa5; wanted.len()];
    array.read_into(&selection, &options, &mut buffer).unwrap_or_else(|e| panic!("{e}: {}", context()));
    assert!(buffer == wanted, "read_into differs: {}", context());
}

/// Arrays for one run of [`random_selections`]; with six selections each, on three stores, that is thousands.
const ARRAYS: u64 = 4000;

#[test]
fn random_selections() {
    for seed in 0..ARRAYS {
        let mut rng = Rng::new(seed);
        let case = case(&mut rng);
        let stores: [SharedStore; 3] = [
            case.store.clone(),
            Arc::new(AsFiles(case.store.clone())),
            Arc::new(Probe::new(case.store.clone())),
        ];
        for store in stores {
            let array = common::open_array(store).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            for _ in 0..6 {
                check(&array, &case, &mut rng, seed);
            }
        }
    }
}

#[test]
fn large_uncompressed_chunks_are_read_in_rows() {
    // Large enough that windows are worth a range of their own, locally and remotely.
    let shape = [2, 1100, 1024];
    let data = Model::random(&mut Rng::new(1), &shape, 4);
    for (name, codecs) in [
        ("C", LITTLE.to_owned()),
        ("big", BIG.to_owned()),
        ("transposed", format!("{},{LITTLE}", transpose(&[2, 0, 1]))),
    ] {
        let document = V3::new(&shape, &[1, 1024, 1024], "uint32").codecs(codecs).document();
        let store = Arc::new(MemoryStore::new());
        common::put_array(&store, "", &document, &data);
        let stores: [SharedStore; 3] =
            [store.clone(), Arc::new(AsFiles(store.clone())), Arc::new(Probe::new(store.clone()))];
        let case = Case { store, document, data: data.clone(), names: Vec::new() };
        for store in stores {
            let array = common::open_array(store).unwrap();
            for text in ["0,3,:", "1,1000:1030,5:9", ":,::500,7", ":,-1,::-3", "0,[4,900,4],100:200"] {
                let all = |n: u64| (0..n).collect::<Vec<_>>();
                let positions: Vec<Vec<u64>> = match text {
                    "0,3,:" => vec![vec![0], vec![3], all(1024)],
                    "1,1000:1030,5:9" => vec![vec![1], (1000..1030).collect(), (5..9).collect()],
                    ":,::500,7" => vec![all(2), vec![0, 500, 1000], vec![7]],
                    ":,-1,::-3" => vec![all(2), vec![1099], (0..1024).rev().step_by(3).collect()],
                    _ => vec![vec![0], vec![4, 900, 4], (100..200).collect()],
                };
                for order in [Order::C, Order::F] {
                    let options = ReadOptions::default().with_order(order);
                    let slab = array.read_slab_blocking(&Selection::parse(text).unwrap(), &options).unwrap();
                    let wanted = case.data.select(&positions, order);
                    assert!(slab.bytes == wanted, "{name} {} {text} {order:?}", array.store());
                }
            }
        }
    }
}

#[test]
fn selections_that_make_no_sense_are_usage_errors() {
    let document = V3::new(&[4, 5], &[2, 2], "uint8").names(&["y", "x"]).document();
    let array = common::memory_array(&document, &Model::counting(&[4, 5], 1));
    let options = ReadOptions::default();
    let fails = |s: Selection| {
        let e = array.read_slab_blocking(&s, &options).unwrap_err();
        assert_eq!(e.kind(), zaro::ErrorKind::Usage, "{e}");
    };
    fails(Selection::parse("4").unwrap());
    fails(Selection::parse(":,-6").unwrap());
    fails(Selection::parse(":,:,:").unwrap());
    fails(Selection::parse("[0,9]").unwrap());
    fails(Selection::start_count(&[0, 3], &[4, 3]));
    fails(Selection::start_count(&[0, u64::MAX], &[4, 2]));
    fails(Selection::start_count(&[0], &[4, 2]));
    fails(Selection::named(&[("z".into(), "0".into())]).unwrap());
    assert!(array.read_into(&Selection::all(), &options, &mut [0; 19]).is_err());
    assert!(array.read_into(&Selection::all(), &options, &mut [0; 21]).is_err());
    assert_eq!(volume(array.shape()), 20);
}

/// Points by position: each equals the element read alone, along any of the dimensions, from the end, and repeated.
#[test]
fn points_are_the_elements_at_their_positions() {
    use zaro::hierarchy::{Existing, create_array};
    use zaro::meta::{DataType, NewArray};
    zaro::blocking::block_on(async {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let new = NewArray::new(DataType::Int(32), [4, 5, 6]).with_chunks(Some(vec![2, 2, 3]));
        let array = create_array(&store, "", &new, Existing::Refuse).await?;
        let values: Vec<i32> = (0..120).collect();
        array.write([0..4, 0..5, 0..6], &values).await?;
        let options = ReadOptions::default();
        let at = |a: &[i64], b: &[i64]| vec![a.to_vec(), b.to_vec()];
        // The first and the last dimension; all of the middle, backwards.
        let rest = [Index::All, Index::Slice(None, None, -2), Index::All];
        let slab =
            zaro::coords::read_at(&array, &[0, 2], &at(&[3, 0, -1], &[0, 5, -6]), &rest, &options).await?;
        assert_eq!(slab.shape, [3, 3]);
        assert_eq!(slab.to_vec::<i32>()?, [114, 102, 90, 29, 17, 5, 114, 102, 90]);
        let none = zaro::coords::read_at(&array, &[1], &[vec![]], &[], &options).await?;
        assert_eq!(none.shape, [0, 4, 6]);
        for (dims, places) in
            [(vec![0, 2], at(&[4], &[0])), (vec![0, 0], at(&[1], &[1])), (vec![0, 3], at(&[1], &[1]))]
        {
            assert!(zaro::coords::read_at(&array, &dims, &places, &[], &options).await.is_err(), "{dims:?}");
        }
        let ragged = zaro::coords::read_at(&array, &[0, 1], &at(&[1, 2], &[1]), &[], &options).await;
        assert!(ragged.is_err());
        Ok(())
    })
    .unwrap();
}
