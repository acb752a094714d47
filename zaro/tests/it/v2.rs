//! Zarr V2 by hand: what each member of a document means for what is read.

use crate::common;
use std::sync::Arc;

use crate::common::{Model, V2};
use zaro::store::MemoryStore;
use zaro::{Array, ErrorKind, Order, ReadOptions, Result, Selection, Slab};

/// An array with these objects below its document.
fn array(document: &str, objects: &[(&str, &[u8])]) -> Result<Array> {
    let store = Arc::new(MemoryStore::new());
    store.put(".zarray", document.to_owned())?;
    for (key, bytes) in objects {
        store.put(key, bytes.to_vec())?;
    }
    common::open_array(store)
}

fn whole(array: &Array) -> Slab {
    array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap()
}

fn strict(document: &str) -> Result<Array> {
    let store = Arc::new(MemoryStore::new());
    store.put(".zarray", document.to_owned())?;
    common::open_strict(store).and_then(|z| common::wait(z.array("")))
}

#[test]
fn type_strings_say_the_byte_order() {
    for (dtype, stored, wanted, name) in [
        ("<u2", &[1u8, 2][..], &[1u8, 2][..], "uint16"),
        (">u2", &[1, 2], &[2, 1], "uint16"),
        (">f8", &[1, 2, 3, 4, 5, 6, 7, 8], &[8, 7, 6, 5, 4, 3, 2, 1], "float64"),
        ("|b1", &[1], &[1], "bool"),
        ("|i1", &[255], &[255], "int8"),
        (">c8", &[1, 2, 3, 4, 5, 6, 7, 8], &[4, 3, 2, 1, 8, 7, 6, 5], "complex64"),
        ("|S3", b"ab\0", b"ab\0", "null_terminated_bytes(3)"),
        ("|V2", &[1, 2], &[1, 2], "r16"),
        (">U1", &[0, 0, 0, 65], &[65, 0, 0, 0], "fixed_length_utf32(4)"),
        (">M8[ns]", &[0, 0, 0, 0, 0, 0, 0, 1], &[1, 0, 0, 0, 0, 0, 0, 0], "numpy.datetime64(ns)"),
        ("<m8[10us]", &[1, 0, 0, 0, 0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0], "numpy.timedelta64(10us)"),
    ] {
        let mut spec = V2::new(&[1], &[1], dtype);
        spec.fill = "null".into();
        let slab = whole(&array(&spec.document(), &[("0", stored)]).unwrap());
        assert_eq!((slab.bytes.as_slice(), slab.data_type.to_string().as_str()), (wanted, name), "{dtype}");
    }
}

#[test]
fn structs_may_mix_byte_orders() {
    let mut spec = V2::new(&[1], &[1], "");
    spec.dtype = r#"[["a",">u2"],["b","<u2"],["c",[["d",">i4"]],[2]]]"#.into();
    spec.fill = "null".into();
    let stored = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let slab = whole(&array(&spec.document(), &[("0", &stored)]).unwrap());
    assert_eq!(slab.bytes, [2, 1, 3, 4, 8, 7, 6, 5, 12, 11, 10, 9]);
}

#[test]
fn fortran_order_is_undone_or_kept_as_asked() {
    let mut spec = V2::new(&[2, 3], &[2, 3], "|u1");
    spec.order = 'F';
    let a = array(&spec.document(), &[("0.0", &[1, 4, 2, 5, 3, 6])]).unwrap();
    assert_eq!(whole(&a).bytes, [1, 2, 3, 4, 5, 6]);
    assert_eq!(
        a.read_slab_blocking(&Selection::all(), &common::fortran()).unwrap().bytes,
        [1, 4, 2, 5, 3, 6]
    );
}

#[test]
fn filters_are_undone_in_reverse() {
    let filters = r#"[{"id":"delta","dtype":"<u2"},{"id":"shuffle","elementsize":2}]"#;
    let spec = V2::new(&[9], &[4], "<u2").filters(filters).compressor(r#"{"id":"zlib","level":1}"#);
    let data = Model {
        shape: vec![9],
        size: 2,
        bytes: (0..9u16).flat_map(|i| (1000 + i * i).to_le_bytes()).collect(),
    };
    assert_eq!(whole(&common::memory_array(&spec.document(), &data)).bytes, data.bytes);
    // By hand: differences 10, 1, 2 as bytes.
    let spec = V2::new(&[3], &[3], "|u1").filters(r#"[{"id":"delta","dtype":"|u1"}]"#);
    assert_eq!(whole(&array(&spec.document(), &[("0", &[10, 1, 2])]).unwrap()).bytes, [10, 11, 13]);
}

#[test]
fn separators_make_keys() {
    for (separator, key) in [(None, "1.2"), (Some('.'), "1.2"), (Some('/'), "1/2")] {
        let spec = V2 { separator, ..V2::new(&[2, 3], &[1, 1], "|u1") };
        let a = array(&spec.document(), &[(key, &[9])]).unwrap();
        assert_eq!(whole(&a).bytes, [0, 0, 0, 0, 0, 9]);
        assert!(!a.separator_differs());
    }
    let scalar = V2::new(&[], &[], "|u1");
    assert_eq!(whole(&array(&scalar.document(), &[("0", &[9])]).unwrap()).bytes, [9]);
}

#[test]
fn strings_come_from_their_codec() {
    let mut spec = V2::new(&[3], &[2], "|O").filters(r#"[{"id":"vlen-utf8"}]"#);
    spec.fill = "\"\"".into();
    let chunk = [&2u32.to_le_bytes()[..], &2u32.to_le_bytes(), b"ab", &1u32.to_le_bytes(), b"c"].concat();
    let slab = whole(&array(&spec.document(), &[("0", &chunk)]).unwrap());
    assert_eq!(slab.items().collect::<Vec<_>>(), [&b"ab"[..], b"c", b""]);
    spec.filters = "null".into();
    assert_eq!(array(&spec.document(), &[]).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn fill_values_of_the_wild() {
    for (dtype, fill, wanted) in [
        ("<f4", "null", &[0u8, 0, 0, 0][..]),
        ("<f4", "NaN", &[0, 0, 0xc0, 0x7f]),
        ("<f4", "\"NaN\"", &[0, 0, 0xc0, 0x7f]),
        ("<f4", "-Infinity", &[0, 0, 0x80, 0xff]),
        ("<i4", "-1", &[255; 4]),
        ("<i4", "7.0", &[7, 0, 0, 0]),
        ("|b1", "1", &[1]),
        ("|S3", "\"YWI=\"", b"ab\0"),
        ("|V2", "\"AQI=\"", &[1, 2]),
        ("<M8[s]", "\"NaT\"", &[0, 0, 0, 0, 0, 0, 0, 0x80]),
    ] {
        let spec = V2 { fill: fill.into(), ..V2::new(&[1], &[1], dtype) };
        let a = array(&spec.document(), &[]).unwrap_or_else(|e| panic!("{dtype} {fill}: {e}"));
        assert_eq!(whole(&a).bytes, wanted, "{dtype} {fill}");
    }
}

#[test]
fn what_is_left_out_is_noted_and_strictly_refused() {
    let whole = V2::new(&[2], &[2], "|u1").document();
    strict(&whole).unwrap();
    for (member, text) in [
        ("fill_value", r#""fill_value":0,"#),
        ("order", r#""order":"C","#),
        ("filters", r#""filters":null,"#),
    ] {
        assert!(whole.contains(text), "{whole}");
        let less = whole.replace(text, "");
        assert!(!array(&less, &[]).unwrap().findings().is_empty(), "{member}");
        assert!(strict(&less).is_err(), "{member}");
    }
    for member in ["shape", "chunks", "dtype"] {
        let less = whole.replace(&format!("\"{member}\""), "\"other\"");
        assert_eq!(array(&less, &[]).unwrap_err().kind(), ErrorKind::Invalid, "{member}");
    }
}

#[test]
fn attributes_name_dimensions() {
    let store = Arc::new(MemoryStore::new());
    let data = Model::counting(&[3, 4], 2);
    common::put_array(&store, "", &V2::new(&[3, 4], &[2, 2], "<u2").document(), &data);
    store.put(".zattrs", r#"{"_ARRAY_DIMENSIONS":["time","lat"],"scale":0.5}"#).unwrap();
    let a = common::open_array(store).unwrap();
    assert_eq!(a.meta().attributes.get("scale").and_then(|s| s.as_f64()), Some(0.5));
    let selection = Selection::named(&[("lat".into(), "1:3".into())]).unwrap();
    let slab = a.read_slab_blocking(&selection, &ReadOptions::default()).unwrap();
    assert_eq!(slab.bytes, data.select(&[vec![0, 1, 2], vec![1, 2]], Order::C));
}

#[test]
fn groups_and_consolidated_metadata() {
    let store = Arc::new(MemoryStore::new());
    let document = V2::new(&[2], &[2], "|u1").document();
    store.put(".zgroup", r#"{"zarr_format":2}"#).unwrap();
    store.put(".zattrs", r#"{"title":"t"}"#).unwrap();
    store.put("a/.zarray", document.clone()).unwrap();
    store.put("g/.zgroup", r#"{"zarr_format":2}"#).unwrap();
    store.put("g/b/.zarray", document.clone()).unwrap();
    let paths = |z: &zaro::Zarr| -> Vec<String> {
        common::wait(z.walk("")).unwrap().into_iter().map(|n| n.path).collect()
    };
    let direct = common::open(store.clone()).unwrap();
    assert_eq!(paths(&direct), ["", "a", "g", "g/b"]);
    let all = format!(
        r#"{{"zarr_consolidated_format":1,"metadata":{{".zgroup":{{"zarr_format":2}},".zattrs":{{"title":"t"}},
        "a/.zarray":{document},"g/.zgroup":{{"zarr_format":2}},"g/b/.zarray":{document}}}}}"#
    );
    store.put(".zmetadata", all).unwrap();
    let consolidated = common::open(store).unwrap();
    assert!(consolidated.is_consolidated());
    assert_eq!(paths(&consolidated), paths(&direct));
    let title = |z: &zaro::Zarr| common::wait(z.node("")).unwrap().meta.attributes().get("title").cloned();
    assert_eq!(title(&consolidated), title(&direct));
    assert!(title(&direct).is_some());
}

#[test]
fn empty_dimensions_may_have_chunks_of_zero() {
    // As zarr-python 2 wrote them.
    let a = array(&V2::new(&[0, 3], &[0, 3], "<f4").document(), &[]).unwrap();
    assert_eq!(whole(&a).shape, [0, 3]);
    assert!(array(&V2::new(&[1], &[0], "<f4").document(), &[]).is_err());
}
