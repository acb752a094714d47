//! Vectors by numcodecs 0.16.

use super::*;
use crate::codec::testing::hex;
use crate::meta::dtype::Float;
use crate::meta::fill::Fill;

fn repr(data_type: DataType, shape: &[u64]) -> Repr {
    Repr { shape: shape.to_vec(), data_type, fill: Fill::default() }
}

fn json2() -> ObjectsCodec {
    ObjectsCodec::json(&Config::new(&[]), true).unwrap()
}

fn msgpack2() -> ObjectsCodec {
    ObjectsCodec::msgpack(&Config::new(&[]), true).unwrap()
}

fn texts(b: &Buffer) -> Vec<&str> {
    b.items().map(|i| std::str::from_utf8(i).unwrap()).collect()
}

#[test]
fn objects_become_json_texts() {
    let json = br#"[1,null,"x",[1,2],{"a":1.5},"|O",[5]]"#;
    let pack = hex("9701c0a17892010281a161cb3ff8000000000000a27c4f9105");
    let r = repr(DataType::Json, &[5]);
    for got in [json2().decode(json, &r).unwrap(), msgpack2().decode(&pack, &r).unwrap()] {
        assert_eq!(texts(&got), ["1", "null", "\"x\"", "[1,2]", "{\"a\":1.5}"]);
        assert_eq!(json2().encode(&got, &r).unwrap(), json);
        assert_eq!(msgpack2().encode(&got, &r).unwrap(), pack);
    }
    let got = json2().decode(br#"["foo","b\u00e9","|O",[2]]"#, &repr(DataType::Json, &[2])).unwrap();
    assert_eq!(texts(&got), ["\"foo\"", "\"bé\""]);
    let got = json2().decode(br#"["foo",null,"|O",[2]]"#, &repr(DataType::String, &[2])).unwrap();
    assert_eq!(texts(&got), ["foo", ""]);
}

#[test]
fn not_a_number_stays_one_at_any_depth() {
    let text = br#"[NaN,[1,-Infinity],{"a":{"b":[NaN,"NaN"]}},"|O",[3]]"#;
    let r = repr(DataType::Json, &[3]);
    let got = json2().decode(text, &r).unwrap();
    assert_eq!(texts(&got), ["NaN", "[1,-Infinity]", r#"{"a":{"b":[NaN,"NaN"]}}"#]);
    assert_eq!(json2().encode(&got, &r).unwrap(), text);
    let packed = msgpack2().encode(&got, &r).unwrap();
    assert_eq!(msgpack2().decode(&packed, &r).unwrap(), got);
}

#[test]
fn lists_as_elements_are_told_from_nesting_by_the_shape() {
    let text = br#"[[[1],[2,3]],[[],4],"|O",[2,2]]"#;
    let r = repr(DataType::Json, &[2, 2]);
    let got = json2().decode(text, &r).unwrap();
    assert_eq!(texts(&got), ["[1]", "[2,3]", "[]", "4"]);
    assert_eq!(json2().encode(&got, &r).unwrap(), text);
    // Another shape of the same count is read in C order; the reversed one is turned.
    assert_eq!(
        texts(&json2().decode(text, &repr(DataType::Json, &[4])).unwrap()),
        ["[1]", "[2,3]", "[]", "4"]
    );
    let text = br#"[["a","b","c"],["d","e","f"],"|O",[2,3]]"#;
    let got = json2().decode(text, &repr(DataType::String, &[3, 2])).unwrap();
    assert_eq!(texts(&got), ["a", "d", "b", "e", "c", "f"]);
    // A scalar.
    let got = json2().decode(br#"[5,"<i2",[]]"#, &repr(DataType::Int(16), &[])).unwrap();
    assert_eq!(got.bytes, [5, 0]);
    assert_eq!(json2().encode(&got, &repr(DataType::Int(16), &[])).unwrap(), br#"[5,"<i2",[]]"#);
}

#[test]
fn fixed_types_are_converted_exactly() {
    let check = |text: &[u8], t: DataType, shape: &[u64], want: &[u8]| {
        let r = repr(t, shape);
        let got = json2().decode(text, &r).unwrap();
        assert_eq!(got.bytes, want);
        assert_eq!(json2().encode(&got, &r).unwrap(), text, "{}", String::from_utf8_lossy(text));
        let packed = msgpack2().encode(&got, &r).unwrap();
        assert_eq!(msgpack2().decode(&packed, &r).unwrap(), got);
    };
    check(
        br#"[[1,-2],[3,4],"<i4",[2,2]]"#,
        DataType::Int(32),
        &[2, 2],
        &[1, 0, 0, 0, 254, 255, 255, 255, 3, 0, 0, 0, 4, 0, 0, 0],
    );
    check(br#"[true,false,"|b1",[2]]"#, DataType::Bool, &[2], &[1, 0]);
    check(br#"["a","bc","<U2",[2]]"#, DataType::FixedUtf32(2), &[2], b"a\0\0\0\0\0\0\0b\0\0\0c\0\0\0");
    check(br#"[18446744073709551615,"<u8",[1]]"#, DataType::UINT64, &[1], &[255; 8]);
    check(
        br#"[1.5,NaN,-Infinity,"<f8",[3]]"#,
        DataType::FLOAT64,
        &[3],
        &hex("000000000000f83f000000000000f87f000000000000f0ff"),
    );
    check(
        br#"[1,null,"<M8[ns]",[2]]"#,
        DataType::DateTime(crate::meta::dtype::TimeUnit::Nanosecond, 1),
        &[2],
        &hex("01000000000000000000000000000080"),
    );
    let single = hex("94ca3fc00000ca40000000a33c66349102");
    let r = repr(DataType::FLOAT32, &[2]);
    assert_eq!(msgpack2().decode(&single, &r).unwrap().bytes, hex("0000c03f00000040"));
    let bytes = hex("94c40131c40132a37c53339102");
    let r = repr(DataType::FixedBytes(3), &[2]);
    assert_eq!(msgpack2().decode(&bytes, &r).unwrap().bytes, b"1\0\x002\0\0");
    assert_eq!(msgpack2().encode(&msgpack2().decode(&bytes, &r).unwrap(), &r).unwrap(), bytes);
    // An f32 is rounded once, from the text.
    let got = json2()
        .decode(br#"[16777217.0000000000000000001,"<f4",[1]]"#, &repr(DataType::FLOAT32, &[1]))
        .unwrap();
    assert_eq!(got.bytes, 0x4b80_0001u32.to_le_bytes());
    for (text, t) in [
        (&br#"[300,"|u1",[1]]"#[..], DataType::UINT8),
        (br#"[-1,"|u1",[1]]"#, DataType::UINT8),
        (br#"[1.5,"|u1",[1]]"#, DataType::UINT8),
        (br#"["1","|u1",[1]]"#, DataType::UINT8),
        (br#"["abc","<U2",[1]]"#, DataType::FixedUtf32(2)),
        (br#"["abc","|S2",[1]]"#, DataType::FixedBytes(2)),
        (br#"[2,"|b1",[1]]"#, DataType::Bool),
        (br#"["x","<f2",[1]]"#, DataType::Float(Float::F16)),
        (br#"[3,"|O",[1]]"#, DataType::String),
    ] {
        assert!(json2().decode(text, &repr(t, &[1])).is_err(), "{}", String::from_utf8_lossy(text));
    }
    assert_eq!(json2().decode(br#"[7.0,"|u1",[1]]"#, &repr(DataType::UINT8, &[1])).unwrap().bytes, [7]);
    assert!(json2().encoded_size(&repr(DataType::Complex(Float::F32), &[1])).is_err());
}

#[test]
fn the_older_forms_lack_the_shape() {
    let json = ObjectsCodec::json(&Config::new(&[]), false).unwrap();
    let r = repr(DataType::Json, &[2]);
    let got = json.decode(br#"["a",["b"],"|O"]"#, &r).unwrap();
    assert_eq!(texts(&got), ["\"a\"", "[\"b\"]"]);
    assert_eq!(json.encode(&got, &r).unwrap(), br#"["a",["b"],"|O"]"#);
    let pack = ObjectsCodec::msgpack(&Config::new(&[]), false).unwrap();
    let data = pack.encode(&got, &r).unwrap();
    assert_eq!(pack.decode(&data, &r).unwrap(), got);
}

#[test]
fn damaged_documents_are_refused() {
    let json = br#"[["foo","b"],["c",{"d":[1,2]}],"|O",[2,2]]"#;
    let r = repr(DataType::Json, &[2, 2]);
    let pack = msgpack2().encode(&json2().decode(json, &r).unwrap(), &r).unwrap();
    for end in 0..json.len() {
        assert!(json2().decode(&json[..end], &r).is_err());
    }
    for end in 0..pack.len() {
        assert!(msgpack2().decode(&pack[..end], &r).is_err());
    }
    for i in 0..pack.len() {
        for flip in 0..=255u8 {
            let mut bad = pack.clone();
            bad[i] = flip;
            let _ = msgpack2().decode(&bad, &r);
        }
    }
    for bad in [
        "[]",
        "{}",
        "3",
        r#"["|O",[0]]"#,
        r#"["a","|O",[2]]"#,
        r#"["a","b","|O",[-2]]"#,
        r#"["a","b","|O",2]"#,
        r#"["a","b",3,[2]]"#,
        r#"["a","b","|O",[18446744073709551615,18446744073709551615]]"#,
        r#"[["a"],["b","c"],"|O",[2,1]]"#,
    ] {
        assert!(json2().decode(bad.as_bytes(), &repr(DataType::Json, &[2])).is_err(), "{bad}");
    }
    // Nested beyond all reason, a map with a number as a name, an extension type, text that is not UTF-8.
    assert!(msgpack2().decode(&[0x91; 100_000], &r).is_err());
    for bad in ["9381010201a27c4f9101", "93d40100a27c4f9101", "93a1ffa27c4f9101"] {
        assert!(msgpack2().decode(&hex(bad), &repr(DataType::Json, &[1])).is_err(), "{bad}");
    }
    let config = [("encoding".to_owned(), Json::string("utf-7"))];
    assert!(ObjectsCodec::json(&Config::new(&config), true).is_err());
}

#[test]
fn other_encodings() {
    let config = [("encoding".to_owned(), Json::string("latin-1"))];
    let codec = ObjectsCodec::json(&Config::new(&config), true).unwrap();
    let r = repr(DataType::String, &[1]);
    let got = codec.decode(b"[\"\xe9\",\"|O\",[1]]", &r).unwrap();
    assert_eq!(texts(&got), ["é"]);
    assert_eq!(codec.encode(&got, &r).unwrap(), b"[\"\\u00e9\",\"|O\",[1]]");
}
