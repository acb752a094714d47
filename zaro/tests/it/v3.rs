//! Zarr V3 by hand: what each member of a document means for what is read.

use crate::common;
use std::sync::Arc;

use crate::common::{BIG, GZIP, LITTLE, Model, V3, V3_GROUP, json};
use zaro::store::MemoryStore;
use zaro::{Array, ErrorKind, Order, ReadOptions, Result, Selection, Slab, Zarr};

/// An array with these objects below its document.
fn array(document: &str, objects: &[(&str, &[u8])]) -> Result<Array> {
    let store = Arc::new(MemoryStore::new());
    store.put("zarr.json", document.to_owned())?;
    for (key, bytes) in objects {
        store.put(key, bytes.to_vec())?;
    }
    common::open_array(store)
}

fn whole(array: &Array) -> Slab {
    array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap()
}

/// Whether the document is read tolerantly, and strictly.
fn verdict(document: &str) -> (bool, bool) {
    let store = Arc::new(MemoryStore::new());
    store.put("zarr.json", document.to_owned()).unwrap();
    let strict = common::open_strict(store.clone()).and_then(|z| common::wait(z.array(""))).is_ok();
    (common::open_array(store).is_ok(), strict)
}

#[test]
fn chunks_lie_where_the_key_encoding_says() {
    for (keys, key) in [
        (r#"{"name":"default"}"#, "c/1/0"),
        (r#""default""#, "c/1/0"),
        (r#"{"name":"default","configuration":{"separator":"/"}}"#, "c/1/0"),
        (r#"{"name":"default","configuration":{"separator":"."}}"#, "c.1.0"),
        (r#"{"name":"v2"}"#, "1.0"),
        (r#"{"name":"v2","configuration":{"separator":"/"}}"#, "1/0"),
    ] {
        let mut spec = V3::new(&[2, 2], &[1, 2], "uint8");
        spec.keys = keys.into();
        let a = array(&spec.document(), &[(key, &[7, 8])]).unwrap();
        assert_eq!(whole(&a).bytes, [0, 0, 7, 8], "{keys}");
    }
    let scalar = V3::new(&[], &[], "uint16");
    assert_eq!(whole(&array(&scalar.document(), &[("c", &[1, 2])]).unwrap()).bytes, [1, 2]);
    let scalar = V3 { keys: r#""v2""#.into(), ..scalar };
    assert_eq!(whole(&array(&scalar.document(), &[("0", &[1, 2])]).unwrap()).bytes, [1, 2]);
}

#[test]
fn values_of_every_core_type() {
    for (name, stored, wanted) in [
        ("bool", &[0u8, 1][..], &[0u8, 1][..]),
        ("int8", &[0xff], &[0xff]),
        ("uint16", &[1, 2], &[2, 1]),
        ("int64", &[1, 2, 3, 4, 5, 6, 7, 8], &[8, 7, 6, 5, 4, 3, 2, 1]),
        ("float16", &[0x3c, 0], &[0, 0x3c]),
        ("bfloat16", &[0x3f, 0x80], &[0x80, 0x3f]),
        ("float32", &[0x7f, 0xa0, 0, 1], &[1, 0, 0xa0, 0x7f]),
        ("complex64", &[1, 2, 3, 4, 5, 6, 7, 8], &[4, 3, 2, 1, 8, 7, 6, 5]),
        ("r24", &[1, 2, 3], &[1, 2, 3]),
        ("float8_e4m3", &[0x7f], &[0x7f]),
    ] {
        let n = if name == "bool" { 2 } else { 1 };
        let fill = match name {
            "bool" => "false",
            "complex64" => "[0.0,0.0]",
            "r24" => "[0,0,0]",
            _ => "0",
        };
        let spec = V3::new(&[n], &[n], name).fill(fill).codecs(BIG);
        let a = array(&spec.document(), &[("c/0", stored)]).unwrap();
        assert_eq!(whole(&a).bytes, wanted, "{name}");
        assert_eq!(whole(&a).data_type.to_string(), name);
    }
}

#[test]
fn fill_values_keep_their_bits() {
    for (name, fill, wanted) in [
        ("float32", r#""NaN""#, &[0, 0, 0xc0, 0x7f][..]),
        ("float32", r#""0x7fa00001""#, &[1, 0, 0xa0, 0x7f]),
        ("float32", "-0.0", &[0, 0, 0, 0x80]),
        ("float64", r#""-Infinity""#, &[0, 0, 0, 0, 0, 0, 0xf0, 0xff]),
        ("float16", "1.5", &[0, 0x3e]),
        ("uint64", "18446744073709551615", &[255; 8]),
        ("int64", "-9223372036854775808", &[0, 0, 0, 0, 0, 0, 0, 0x80]),
        ("bool", "true", &[1]),
        ("complex64", r#"[1.0,"NaN"]"#, &[0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f]),
        ("r16", "[1,255]", &[1, 255]),
    ] {
        let a = array(&V3::new(&[1], &[1], name).fill(fill).document(), &[]).unwrap();
        assert_eq!(whole(&a).bytes, wanted, "{name} {fill}");
    }
}

#[test]
fn strings_and_bytes() {
    let text = V3::new(&[3], &[2], "string").fill("\"–\"").codecs(r#"{"name":"vlen-utf8"}"#);
    let chunk = [&2u32.to_le_bytes()[..], &3u32.to_le_bytes(), "aß".as_bytes(), &0u32.to_le_bytes()].concat();
    let slab = whole(&array(&text.document(), &[("c/0", &chunk)]).unwrap());
    let items: Vec<_> = slab.items().map(|i| String::from_utf8(i.to_vec()).unwrap()).collect();
    assert_eq!(items, ["aß", "", "–"]);
    let bytes = V3::new(&[1], &[1], "variable_length_bytes").fill("[1,2]").codecs(r#"{"name":"vlen-bytes"}"#);
    let slab = whole(&array(&bytes.document(), &[]).unwrap());
    assert_eq!(slab.item(0), Some(&[1, 2][..]));
    assert!(slab.to_vec::<u8>().is_err());
}

#[test]
fn structs_are_packed() {
    let mut spec = V3::new(&[2], &[2], "uint8");
    spec.data_type = r#"{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"uint8"},
        {"name":"b","data_type":"int16"}]}}"#
        .into();
    spec.fill = r#"{"a":1,"b":-2}"#.into();
    let a = array(&V3 { codecs: BIG.into(), ..spec.clone() }.document(), &[("c/0", &[1, 2, 3, 4, 5, 6])])
        .unwrap();
    assert_eq!(whole(&a).bytes, [1, 3, 2, 4, 6, 5]);
    let a = array(&spec.document(), &[]).unwrap();
    assert_eq!(whole(&a).bytes, [1, 0xfe, 0xff, 1, 0xfe, 0xff]);
}

#[test]
fn chunks_at_the_edge_are_whole() {
    let a = array(&V3::new(&[3], &[2], "uint8").document(), &[("c/0", &[1, 2]), ("c/1", &[3, 99])]).unwrap();
    assert_eq!(whole(&a).bytes, [1, 2, 3]);
    // Of a chunk that is too short or too long nothing is believed.
    for chunk in [&[3u8][..], &[3, 99, 99]] {
        let a = array(&V3::new(&[3], &[2], "uint8").document(), &[("c/1", chunk)]).unwrap();
        assert_eq!(common::read(&a, ":").unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn empty_arrays_read_as_nothing() {
    let a = array(&V3::new(&[0, 4], &[2, 2], "uint8").document(), &[]).unwrap();
    assert_eq!((whole(&a).bytes.len(), whole(&a).shape), (0, vec![0, 4]));
    let a = array(&V3::new(&[4, 4], &[2, 2], "uint8").document(), &[]).unwrap();
    let slab = a.read_slab_blocking(&Selection::parse("2:2,1").unwrap(), &ReadOptions::default()).unwrap();
    assert_eq!((slab.len(), slab.shape), (0, vec![0]));
}

#[test]
fn a_rectilinear_grid_has_chunks_of_their_own_shape() {
    let mut spec = V3::new(&[6, 4], &[], "uint8");
    spec.grid =
        r#"{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[1,[2,2],5],3]}}"#.into();
    spec.codecs = format!("{LITTLE},{GZIP}");
    let data = Model::counting(&[6, 4], 1);
    let a = common::memory_array(&spec.document(), &data);
    assert_eq!(whole(&a).bytes, data.bytes);
    let slab = a.read_slab_blocking(&Selection::parse("::-2,1:3").unwrap(), &common::fortran()).unwrap();
    assert_eq!(slab.bytes, data.select(&[vec![5, 3, 1], vec![1, 2]], Order::F));
}

#[test]
fn what_may_be_ignored_is_and_nothing_else() {
    let spec = V3::new(&[2], &[2], "uint8");
    let with = |more: &str| V3 { more: format!(",{more}"), ..spec.clone() }.document();
    assert_eq!(verdict(&spec.document()), (true, true));
    assert_eq!(verdict(&with(r#""extra":{"must_understand":false}"#)), (true, true));
    for refused in [r#""extra":1"#, r#""extra":{"must_understand":true}"#, r#""extra":{"name":"x"}"#] {
        assert_eq!(verdict(&with(refused)), (false, false), "{refused}");
    }
    assert_eq!(verdict(&with(r#""storage_transformers":[]"#)), (true, true));
    assert_eq!(verdict(&with(r#""storage_transformers":[{"name":"x"}]"#)), (false, false));
    let codec = |c: &str| spec.clone().codecs(format!("{LITTLE},{c}")).document();
    assert_eq!(verdict(&codec(r#"{"name":"nobody"}"#)), (false, false));
    assert!(verdict(&codec(r#"{"name":"nobody","must_understand":false}"#)).0);
}

#[test]
fn deviations_are_noted_and_strictly_refused() {
    let spec = V3::new(&[2], &[2], "uint16");
    for (name, document) in [
        ("null names", V3 { more: r#","dimension_names":null"#.into(), ..spec.clone() }.document()),
        ("fill as float", spec.clone().fill("7.0").document()),
        ("null fill", spec.clone().fill("null").document()),
        ("no endian", spec.clone().codecs(r#"{"name":"bytes"}"#).document()),
    ] {
        assert_eq!(verdict(&document), (true, false), "{name}");
        let found = array(&document, &[]).unwrap().findings().len();
        assert!(found > 0 || name == "no endian", "{name}");
    }
}

#[test]
fn a_tree_is_walked_without_touching_chunks() {
    let store = Arc::new(MemoryStore::new());
    let document = V3::new(&[2], &[1], "uint8").names(&["x"]).document();
    let with_attributes = V3_GROUP.replace('}', r#","attributes":{"title":"t"}}"#);
    for (key, text) in [
        ("zarr.json", V3_GROUP),
        ("b/zarr.json", &document),
        ("a/zarr.json", &with_attributes),
        ("a/x/zarr.json", &document),
        ("a-b/zarr.json", &document),
        // No node: nothing says what it is.
        ("stray/file", "?"),
    ] {
        store.put(key, text.to_owned()).unwrap();
    }
    store.put("b/c/0", vec![1]).unwrap();
    let zarr = common::open(store).unwrap();
    let paths = |nodes: Vec<zaro::Node>| nodes.into_iter().map(|n| n.path).collect::<Vec<_>>();
    assert_eq!(paths(common::wait(zarr.walk("")).unwrap()), ["", "a", "a/x", "a-b", "b"]);
    assert_eq!(paths(common::wait(zarr.walk("a")).unwrap()), ["a", "a/x"]);
    assert_eq!(paths(common::wait(zarr.children("/")).unwrap()), ["a", "a-b", "b"]);
    let a = common::wait(zarr.node("/a/")).unwrap();
    assert_eq!(a.meta.attributes().get("title").and_then(|t| t.as_str()), Some("t"));
    let b = common::wait(zarr.array("b")).unwrap();
    assert_eq!(b.meta().dimension_names, Some(vec![Some("x".to_owned())]));
    assert!(common::wait(zarr.node("../b")).is_err());
}

/// The same tree, consolidated, gives the same answers.
#[test]
fn consolidated_and_direct_trees_agree() {
    let array = V3::new(&[2], &[1], "uint8").document();
    let store = Arc::new(MemoryStore::new());
    let members = format!(r#""g/b":{array},"a":{array},"g":{V3_GROUP},"g-h":{array}"#);
    let root = format!(
        r#"{{"zarr_format":3,"node_type":"group","consolidated_metadata":{{"kind":"inline","must_understand":false,
        "metadata":{{{members}}}}}}}"#
    );
    store.put("zarr.json", root).unwrap();
    for path in ["g/b", "a", "g-h"] {
        store.put(&format!("{path}/zarr.json"), array.clone()).unwrap();
    }
    store.put("g/zarr.json", V3_GROUP).unwrap();
    let open = |use_consolidated| {
        let options = zaro::OpenOptions::default().with_use_consolidated(use_consolidated);
        common::wait(Zarr::from_store(store.clone(), options)).unwrap()
    };
    let (one, other) = (open(true), open(false));
    assert!(one.is_consolidated() && !other.is_consolidated());
    for path in ["", "g"] {
        let list = |z: &Zarr| -> Vec<String> {
            let nodes = common::wait(z.walk(path)).unwrap();
            nodes.iter().map(|n| format!("{} {}", n.path, n.meta.kind())).collect()
        };
        assert_eq!(list(&one), list(&other));
    }
    // What consolidated metadata do not know is looked for.
    store.put("late/zarr.json", array).unwrap();
    common::wait(one.array("late")).unwrap();
}

#[test]
fn documents_are_kept_whole() {
    let spec = V3 {
        more: r#","attributes":{"big":12345678901234567890,"nan":"NaN"}"#.into(),
        ..V3::new(&[2], &[2], "uint8")
    };
    let a = array(&spec.document(), &[]).unwrap();
    assert_eq!(a.meta().attributes.get("big").and_then(|n| n.as_u64()), Some(12_345_678_901_234_567_890));
    assert_eq!(*a.meta().document, json(&spec.document()));
}
