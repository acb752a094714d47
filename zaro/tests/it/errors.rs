//! What a user is told when something is wrong: where, and what is there instead.

use crate::common;
use std::sync::Arc;

use crate::common::probe::Probe;
use crate::common::{GZIP, LITTLE, Model, V2, V3, V3_GROUP};
use zaro::store::MemoryStore;
use zaro::{Error, ErrorKind, Missing, ReadOptions, Selection, Zarr};

/// A group with two arrays and a group, which holds one more array.
fn tree() -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    let array = V3::new(&[4], &[2], "uint8").document();
    for (key, document) in [
        ("zarr.json", V3_GROUP),
        ("height/zarr.json", &array),
        ("width/zarr.json", &array),
        ("old/zarr.json", V3_GROUP),
        ("old/height/zarr.json", &array),
    ] {
        store.put(key, document.to_owned()).unwrap();
    }
    Arc::new(store)
}

fn array(zarr: &Zarr, path: &str) -> Error {
    common::wait(zarr.array(path)).unwrap_err()
}

#[test]
fn a_group_opened_as_an_array_lists_its_arrays() {
    let zarr = common::open(tree()).unwrap();
    let e = array(&zarr, "");
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert_eq!(
        e.to_string(),
        "memory:: node /: this is a group with arrays height, width and groups old; name an array"
    );
    assert!(array(&zarr, "/old").to_string().contains("a group with arrays height;"));
}

#[test]
fn what_is_not_found_names_its_siblings() {
    let zarr = common::open(tree()).unwrap();
    let e = array(&zarr, "old/width");
    assert_eq!((e.kind(), e.node()), (ErrorKind::NotFound, Some("/old/width")));
    assert!(e.to_string().contains("/old has height"), "{e}");
    // The parent does not exist either.
    assert!(array(&zarr, "new/width").to_string().contains("no such node"));
}

#[test]
fn without_listing_the_error_still_says_what_it_can() {
    let zarr = common::open(Arc::new(Probe::new(tree()).unlisted())).unwrap();
    assert!(array(&zarr, "").to_string().contains("its members cannot be listed here"));
    assert!(array(&zarr, "nothing").to_string().contains("no such node"));
}

#[test]
fn a_place_without_a_zarr_says_what_is_there() {
    let store = Arc::new(MemoryStore::new());
    let open = |store: Arc<MemoryStore>| array(&common::open(store).unwrap(), "");
    assert!(open(store.clone()).to_string().contains("no Zarr here"));
    store.put("data.zarr/zarr.json", V3_GROUP).unwrap();
    store.put("readme.txt", "hello").unwrap();
    let e = open(store);
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("found data.zarr/, readme.txt"), "{e}");
}

#[test]
fn bad_metadata_name_store_node_key_and_field() {
    let places = |e: &Error| [e.store(), e.node(), e.key(), e.field()].map(|p| p.map(str::to_owned));
    let wanted = |key: &str, field: &str| {
        [Some("memory:"), Some("/a/b"), Some(key), Some(field)].map(|p| p.map(str::to_owned))
    };
    let v3 = V3::new(&[4], &[2], "uint8");
    for (document, field) in [
        (v3.clone().fill("300"), "fill_value"),
        (V3 { grid: common::regular(&[0]), ..v3.clone() }, "chunk_grid"),
        (V3 { keys: "\"other\"".into(), ..v3.clone() }, "chunk_key_encoding"),
        (V3 { data_type: "\"float7\"".into(), ..v3.clone() }, "data_type"),
        (V3 { more: r#","colour":1"#.into(), ..v3.clone() }, "colour"),
        (V3 { more: r#","dimension_names":["x","y"]"#.into(), ..v3 }, "dimension_names"),
    ] {
        let store = Arc::new(MemoryStore::new());
        store.put("zarr.json", V3_GROUP).unwrap();
        store.put("a/b/zarr.json", document.document()).unwrap();
        let e = array(&common::open(store).unwrap(), "a/b");
        assert_eq!(places(&e), wanted("a/b/zarr.json", field), "{e}");
    }
    let v2 = V2::new(&[4], &[2], "|u1");
    for (document, field) in [
        (V2 { dtype: "\"<x9\"".into(), ..v2.clone() }, "dtype"),
        (V2 { chunks: vec![2, 2], ..v2.clone() }, "chunks"),
        (V2 { order: 'Q', ..v2.clone() }, "order"),
        (v2.compressor("7"), "compressor"),
    ] {
        let store = Arc::new(MemoryStore::new());
        store.put(".zgroup", r#"{"zarr_format":2}"#).unwrap();
        store.put("a/b/.zarray", document.document()).unwrap();
        let e = array(&common::open(store).unwrap(), "a/b");
        assert_eq!(places(&e), wanted("a/b/.zarray", field), "{e}");
    }
}

#[test]
fn unknown_codecs_are_named_and_unsupported() {
    for (document, name) in [
        (V3::new(&[4], &[2], "uint8").codecs(format!(r#"{LITTLE},{{"name":"lzy"}}"#)).document(), "lzy"),
        (V2::new(&[4], &[2], "|u1").compressor(r#"{"id":"lzy"}"#).document(), "lzy"),
        (V2::new(&[4], &[2], "|O").filters(r#"[{"id":"pickle"}]"#).document(), "pickle"),
    ] {
        let store = Arc::new(MemoryStore::new());
        let key = if document.contains("\"zarr_format\":2") { ".zarray" } else { "zarr.json" };
        store.put(key, document).unwrap();
        let e = common::open_array(store).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        assert!(e.to_string().contains(name) && e.to_string().contains("memory:"), "{e}");
    }
}

#[test]
fn bad_chunks_name_store_node_key_and_codec() {
    let store = Arc::new(MemoryStore::new());
    let document = V3::new(&[4, 4], &[2, 2], "uint8").codecs(format!("{LITTLE},{GZIP}")).document();
    common::put_array(&store, "a", &document, &Model::counting(&[4, 4], 1));
    store.put("a/c/1/0", "this is no gzip").unwrap();
    for store in [store.clone() as zaro::store::SharedStore, Arc::new(Probe::new(store))] {
        let name = store.to_string();
        let array = common::wait(common::open(store).unwrap().array("a")).unwrap();
        let e = common::read(&array, ":").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid);
        assert_eq!((e.store(), e.node(), e.key()), (Some(name.as_str()), Some("/a"), Some("a/c/1/0")));
        assert!(e.to_string().contains("gzip"), "{e}");
        let e =
            array.read_slab_blocking(&Selection::parse("9").unwrap(), &ReadOptions::default()).unwrap_err();
        assert_eq!((e.kind(), e.node()), (ErrorKind::Usage, Some("/a")));
        assert!(e.to_string().contains("dimension 0"), "{e}");
    }
}

#[test]
fn a_missing_chunk_names_its_key_where_it_is_an_error() {
    let store = Arc::new(MemoryStore::new());
    store.put("zarr.json", V3::new(&[4], &[2], "uint8").document()).unwrap();
    let array = common::open_array(store).unwrap();
    let options = ReadOptions::default().with_missing(Missing::Error);
    let e = array.read_slab_blocking(&Selection::parse("3").unwrap(), &options).unwrap_err();
    assert_eq!((e.kind(), e.key()), (ErrorKind::NotFound, Some("c/1")));
}

#[test]
fn kinds_have_stable_words_and_exit_codes() {
    use ErrorKind::{Cancelled, Invalid, Io, NotFound, NotPermitted, Unsupported, Usage};
    let table = [
        (Usage, "usage", 2),
        (NotFound, "not-found", 3),
        (Invalid, "invalid", 4),
        (Unsupported, "unsupported", 5),
        (Io, "io", 6),
        (NotPermitted, "not-permitted", 7),
        (Cancelled, "cancelled", 6),
    ];
    for (kind, word, code) in table {
        assert_eq!((kind.as_str(), kind.exit_code()), (word, code));
    }
}
