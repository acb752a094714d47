use super::*;
use crate::meta::Grid;
use crate::meta::finding::{Findings, Mode};
use crate::meta::json::json;
use crate::meta::{NodeMeta, v2, v3};

fn v2_array(rest: &str, attributes: &str) -> ArrayMeta {
    let mut document = json(
        r#"{"zarr_format":2,"shape":[4,6],"chunks":[2,3],"dtype":"<f8","compressor":null,"fill_value":null,
            "order":"C","filters":null}"#,
    );
    for (name, value) in json(rest).members().unwrap() {
        document.set(name, value.clone());
    }
    let mut f = Findings::new(Mode::Strict, "/");
    v2::array(Arc::new(document), Some(Arc::new(json(attributes))), &mut f).unwrap()
}

fn v3_array(data_type: &str, codecs: &str, fill: &str) -> ArrayMeta {
    let text = format!(
        r#"{{"zarr_format":3,"node_type":"array","shape":[4,6],"data_type":{data_type},
        "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[4,6]}}}},
        "chunk_key_encoding":"default","fill_value":{fill},"codecs":{codecs},"dimension_names":["a",null],
        "own":{{"must_understand":false}}}}"#
    );
    let mut f = Findings::new(Mode::Strict, "/");
    match v3::node(json(&text), &mut f).unwrap() {
        NodeMeta::Array(a) => a,
        NodeMeta::Group(_) => panic!("no array"),
    }
}

fn chain(meta: &ArrayMeta) -> String {
    write::write_codecs(&meta.codecs).to_string().replace("\"configuration\":", "").replace("\"name\":", "")
}

#[test]
fn v2_codecs_have_v3_names() {
    for (rest, wanted) in [
        (r#"{}"#, r#"[{"bytes",{"endian":"little"}}]"#),
        (
            r#"{"dtype":">i4","order":"F","compressor":{"id":"zlib","level":1}}"#,
            r#"[{"transpose",{"order":[1,0]}},{"bytes",{"endian":"big"}},{"numcodecs.zlib",{"level":1}}]"#,
        ),
        (
            r#"{"dtype":"|u1","compressor":{"id":"blosc","cname":"lz4","clevel":5,"shuffle":-1,"blocksize":0}}"#,
            r#"[{"bytes"},{"blosc",{"typesize":1,"cname":"lz4","clevel":5,"shuffle":"bitshuffle","blocksize":0}}]"#,
        ),
        (
            r#"{"compressor":{"id":"blosc","shuffle":-1}}"#,
            r#"[{"bytes",{"endian":"little"}},{"blosc",{"typesize":8,"cname":"lz4","clevel":5,"shuffle":"shuffle","blocksize":0}}]"#,
        ),
        (
            r#"{"compressor":{"id":"zstd","level":7}}"#,
            r#"[{"bytes",{"endian":"little"}},{"zstd",{"level":7,"checksum":false}}]"#,
        ),
        (
            r#"{"filters":[{"id":"fixedscaleoffset","scale":10,"offset":1,"dtype":"<f8","astype":">i2"},{"id":"delta","dtype":">i2"}],
                "compressor":{"id":"blosc","shuffle":2}}"#,
            r#"[{"numcodecs.fixedscaleoffset",{"scale":10,"offset":1,"dtype":"<f8","astype":">i2"}},{"numcodecs.delta",{"dtype":">i2","astype":">i2"}},{"bytes",{"endian":"big"}},{"blosc",{"typesize":2,"cname":"lz4","clevel":5,"shuffle":"bitshuffle","blocksize":0}}]"#,
        ),
        (
            r#"{"dtype":"|b1","fill_value":true,"filters":[{"id":"packbits"}],"compressor":{"id":"crc32c"}}"#,
            r#"[{"numcodecs.packbits",{}},{"bytes"},{"crc32c"}]"#,
        ),
        (
            r#"{"filters":[{"id":"bitround","keepbits":3},{"id":"shuffle","elementsize":8}],"compressor":{"id":"gzip","level":-1}}"#,
            r#"[{"numcodecs.bitround",{"keepbits":3}},{"bytes",{"endian":"little"}},{"numcodecs.shuffle",{"elementsize":8}},{"gzip",{"level":6}}]"#,
        ),
        (r#"{"compressor":{"id":"pcodec","level":8}}"#, r#"[{"numcodecs.pcodec",{"level":8}}]"#),
        (
            r#"{"compressor":{"id":"zfpy","mode":4,"tolerance":0.1}}"#,
            r#"[{"numcodecs.zfpy",{"mode":4,"tolerance":0.1}}]"#,
        ),
        (
            r#"{"dtype":"|O","fill_value":"x","filters":[{"id":"vlen-utf8"}],"compressor":{"id":"lz4","acceleration":1}}"#,
            r#"[{"vlen-utf8"},{"numcodecs.lz4",{"acceleration":1}}]"#,
        ),
    ] {
        let old = v2_array(rest, "{}");
        let new = array(&old, Format::V3, Keys::Keep, Kept::Fill).unwrap();
        assert_eq!(chain(&new.meta), wanted, "{rest}");
        assert!(new.chunks_identical(), "{rest}: {:?}", new.recode);
        assert_eq!((new.meta.keys, new.meta.format), (old.keys, Format::V3));
        assert_eq!(new.meta.fill, old.fill);
        // And back: the same values by the same bytes, if perhaps in other words.
        let back = array(&new.meta, Format::V2, Keys::Keep, Kept::Fill).unwrap();
        if !rest.contains("crc32c") {
            assert!(back.chunks_identical(), "{rest}: {:?}", back.recode);
            let again = array(&back.meta, Format::V3, Keys::Keep, Kept::Fill).unwrap();
            assert_eq!(again, new, "{rest}");
        }
    }
}

#[test]
fn what_has_no_v3_form_is_named() {
    for (rest, word, wanted) in [
        (
            r#"{"filters":[{"id":"base64"}],"compressor":{"id":"zlib","level":1}}"#,
            "base64",
            r#"[{"bytes",{"endian":"little"}},{"numcodecs.zlib",{"level":1}}]"#,
        ),
        (r#"{"filters":[{"id":"delta","dtype":"<i8"}]}"#, "delta", r#"[{"bytes",{"endian":"little"}}]"#),
        (
            r#"{"dtype":">f8","filters":[{"id":"delta","dtype":"<f8"}]}"#,
            "delta",
            r#"[{"bytes",{"endian":"big"}}]"#,
        ),
        (
            r#"{"filters":[{"id":"zlib","level":1},{"id":"delta","dtype":"<f8"}]}"#,
            "cannot follow",
            r#"[{"bytes",{"endian":"little"}},{"numcodecs.zlib",{"level":1}}]"#,
        ),
        (r#"{"dtype":[["a","<i4"],["b",">i4"]]}"#, "mix", r#"[{"bytes",{"endian":"little"}}]"#),
        (
            r#"{"dtype":"|O","filters":[{"id":"categorize","labels":["a"],"dtype":"|O","astype":"|u1"}],"fill_value":""}"#,
            "categorize",
            r#"[{"vlen-utf8"}]"#,
        ),
    ] {
        let new = array(&v2_array(rest, "{}"), Format::V3, Keys::Usual, Kept::Fill).unwrap();
        assert_eq!(chain(&new.meta), wanted, "{rest}");
        assert!(new.recode.as_ref().is_some_and(|r| r.contains(word)), "{rest}: {:?}", new.recode);
        assert_eq!(new.meta.keys, ChunkKeys { prefixed: true, separator: '/' });
    }
    for rest in
        [r#"{"dtype":"|O","filters":[{"id":"json2"}],"fill_value":null}"#, r#"{"dtype":[["a","<i4",[2]]]}"#]
    {
        assert!(array(&v2_array(rest, "{}"), Format::V3, Keys::Keep, Kept::Fill).is_err(), "{rest}");
    }
}

#[test]
fn names_move_between_attributes_and_metadata() {
    let old = v2_array("{}", r#"{"u":"m","_ARRAY_DIMENSIONS":["y","x"]}"#);
    let new = array(&old, Format::V3, Keys::Keep, Kept::Fill).unwrap().meta;
    assert_eq!(new.attributes.to_string(), r#"{"u":"m"}"#);
    assert_eq!(new.dimension_names, Some(vec![Some("y".into()), Some("x".into())]));
    let back = array(&new, Format::V2, Keys::Keep, Kept::Fill).unwrap().meta;
    assert_eq!(*back.attributes, *old.attributes);
    // Names that do not fit are attributes like any other.
    let odd = v2_array("{}", r#"{"_ARRAY_DIMENSIONS":["y"]}"#);
    let new = array(&odd, Format::V3, Keys::Keep, Kept::Fill).unwrap().meta;
    assert_eq!(new.attributes, odd.attributes);
}

#[test]
fn v3_to_v2() {
    let shard = r#"[{"name":"sharding_indexed","configuration":{"chunk_shape":[2,3],"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}},{"name":"zstd","configuration":{"level":1}},"crc32c"],"index_codecs":["bytes"]}},{"name":"gzip","configuration":{"level":1}}]"#;
    let new = array(&v3_array("\"uint16\"", shard, "7"), Format::V2, Keys::Usual, Kept::Fill).unwrap();
    let reason = new.recode.clone().unwrap();
    assert!(reason.contains("shards") && reason.contains("crc32c"), "{reason}");
    let [(_, document), (_, attributes)] = write::array(&new.meta).unwrap().try_into().unwrap();
    assert_eq!(
        document.to_string(),
        r#"{"zarr_format":2,"shape":[4,6],"chunks":[2,3],"dtype":">u2","compressor":{"id":"zstd","level":1},"fill_value":7,"order":"F","filters":null,"dimension_separator":"."}"#
    );
    assert_eq!(attributes.to_string(), r#"{"_ARRAY_DIMENSIONS":["a",null]}"#);

    let bytes = r#"[{"name":"transpose","configuration":{"order":[0,1]}},{"name":"bytes","configuration":{"endian":"little"}},{"name":"blosc","configuration":{"typesize":4,"cname":"zstd","clevel":3,"shuffle":"bitshuffle","blocksize":0}}]"#;
    let new = array(&v3_array("\"float32\"", bytes, "\"NaN\""), Format::V2, Keys::Keep, Kept::Fill).unwrap();
    assert!(new.chunks_identical());
    assert_eq!(new.meta.keys, ChunkKeys { prefixed: false, separator: '/' });
    assert_eq!(
        write::array(&new.meta).unwrap()[0].1.get("compressor").unwrap().to_string(),
        r#"{"id":"blosc","cname":"zstd","clevel":3,"shuffle":2,"blocksize":0}"#
    );

    for (codecs, word) in [
        (r#"["packbits"]"#, "packbits"),
        (r#"[{"name":"reshape","configuration":{"shape":[24]}},"bytes"]"#, "reshape"),
        (r#"["bytes",{"name":"own","must_understand":false}]"#, "own"),
    ] {
        let new = array(&v3_array("\"uint8\"", codecs, "0"), Format::V2, Keys::Keep, Kept::Fill).unwrap();
        assert!(new.recode.is_some_and(|r| r.contains(word)), "{codecs}");
        assert_eq!(new.meta.codecs.len(), 1);
    }
    for (data_type, fill) in [("\"bfloat16\"", "0"), ("\"int4\"", "0"), ("\"float32\"", "\"0xffc00000\"")] {
        let old = v3_array(data_type, r#"[{"name":"bytes","configuration":{"endian":"little"}}]"#, fill);
        assert!(array(&old, Format::V2, Keys::Keep, Kept::Fill).is_err(), "{data_type}");
    }
}

/// An xarray variable of V2: its fill value and attributes.
fn variable(dtype: &str, fill: &str, attributes: &str) -> ArrayMeta {
    let mut all = json(attributes);
    all.set("_ARRAY_DIMENSIONS", json(r#"["y","x"]"#));
    let filters = if dtype == "|O" { r#"[{"id":"vlen-utf8"}]"# } else { "null" };
    let rest = format!(r#"{{"dtype":{},"fill_value":{fill},"filters":{filters}}}"#, Json::string(dtype));
    let meta = v2_array(&rest, r#"{"_ARRAY_DIMENSIONS":["y","x"]}"#);
    ArrayMeta { attributes: Arc::new(all), ..meta }
}

fn kept(meta: &ArrayMeta, to: Format) -> ConvertedMetadata {
    array(meta, to, Keys::Keep, Kept::Meaning).unwrap()
}

/// Fill value and attributes as they are stored.
fn stored(meta: &ArrayMeta) -> (String, String) {
    let documents = write::array(meta).unwrap();
    // As it is stored, without the white space.
    let text = |json: Option<&Json>| {
        json.unwrap().stored().replace("\n", "").replace("  ", "").replace(": ", ":").replace(", ", ",")
    };
    let attributes = match meta.format {
        Format::V2 => text(documents.get(1).map(|(_, d)| d)),
        Format::V3 => text(documents[0].1.get("attributes")),
    };
    (text(documents[0].1.get("fill_value")), attributes)
}

#[test]
fn what_is_missing_in_v2_is_missing_in_v3() {
    for (dtype, fill, attributes, wanted_fill, wanted) in [
        ("<i2", "-999", "{}", "-999", r#"{"_FillValue":-999}"#),
        ("|u1", "0", r#"{"a":1}"#, "0", r#"{"a":1,"_FillValue":0}"#),
        ("<i2", "null", "{}", "0", "{}"),
        // A float is base64 of a float64, whatever its size.
        ("<f4", r#""NaN""#, "{}", r#""NaN""#, r#"{"_FillValue":"AAAAAAAA+H8="}"#),
        (">f8", "1e20", "{}", "1e20", r#"{"_FillValue":"QIy1eB2vFUQ="}"#),
        ("<f4", r#""-Infinity""#, "{}", r#""-Infinity""#, r#"{"_FillValue":"AAAAAAAA8P8="}"#),
        ("|b1", "false", "{}", "false", r#"{"_FillValue":false}"#),
        ("<c8", "[0.0,2.0]", "{}", "[0.0,2.0]", r#"{"_FillValue":["AAAAAAAAAAA=","AAAAAAAAAEA="]}"#),
        // The attribute counts without a fill value, and takes V3's form; with one it does not.
        ("<i2", "null", r#"{"_FillValue":7}"#, "0", r#"{"_FillValue":7}"#),
        ("<f4", "null", r#"{"_FillValue":7,"b":2}"#, "0.0", r#"{"_FillValue":"AAAAAAAAHEA=","b":2}"#),
        ("<i2", "5", r#"{"_FillValue":7}"#, "5", r#"{"_FillValue":5}"#),
        ("<i2", "null", r#"{"_FillValue":[7]}"#, "0", r#"{"_FillValue":7}"#),
        // xarray refuses null, lists and texts there; it takes them as missing_value.
        ("<i2", "null", r#"{"_FillValue":null}"#, "0", "{}"),
        ("<i2", "null", r#"{"_FillValue":[1,2],"missing_value":2}"#, "0", r#"{"missing_value":[2,1]}"#),
        ("<i2", "null", r#"{"_FillValue":99999}"#, "0", r#"{"_FillValue":99999}"#),
        ("<f4", "null", r#"{"_FillValue":0.1}"#, "0.0", r#"{"_FillValue":"mpmZmZmZuT8="}"#),
        ("|O", r#""""#, "{}", r#""""#, r#"{"missing_value":""}"#),
        ("<U3", r#""a""#, r#"{"missing_value":"b"}"#, r#""a""#, r#"{"missing_value":["b","a"]}"#),
        // Bare NaN stays: the text "NaN" would be another thing. As `_FillValue` it says nothing of integers.
        ("<f4", "null", r#"{"missing_value":NaN}"#, "0.0", r#"{"missing_value":NaN}"#),
        ("<i2", "null", r#"{"missing_value":[NaN,3],"_FillValue":NaN}"#, "0", r#"{"missing_value":[NaN,3]}"#),
        // Types of which V3 has no missing elements.
        ("<M8[ns]", "0", "{}", "0", "{}"),
        ("|S2", r#""YWI=""#, "{}", r#""YWI=""#, "{}"),
    ] {
        let old = variable(dtype, fill, attributes);
        let new = kept(&old, Format::V3);
        let case = format!("{dtype} {fill} {attributes}");
        assert_eq!(stored(&new.meta), (wanted_fill.into(), wanted.into()), "{case}");
        assert!(!new.missing_chunks_differ(&old), "{case}");
        // And back: not always in the same words, but with the same meaning, and then for good.
        let back = kept(&new.meta, Format::V2).meta;
        let again = kept(&back, Format::V3).meta;
        assert_eq!(missing::difference(&old, &again, Kept::Meaning, |e| Some(e.clone())), None, "{case}");
        assert_eq!(kept(&again, Format::V2).meta, back, "{case}");
    }
    // An array without names of dimensions is no variable: its fill value is only that.
    let plain = v2_array(r#"{"fill_value":5.0}"#, r#"{"_FillValue":7}"#);
    assert_eq!(stored(&kept(&plain, Format::V3).meta), ("5.0".into(), r#"{"_FillValue":7}"#.into()));
    // Nor does whoever wants fill values kept get anything else.
    let level = array(&variable("|u1", "0", "{}"), Format::V3, Keys::Keep, Kept::Fill).unwrap();
    assert_eq!(stored(&level.meta), ("0".into(), "{}".into()));
}

fn v3_variable(t: &str, fill: &str, attributes: &str) -> ArrayMeta {
    let codecs = if t == "string" {
        r#"["vlen-utf8"]"#
    } else {
        r#"[{"name":"bytes","configuration":{"endian":"little"}}]"#
    };
    let meta = v3_array(&format!("\"{t}\""), codecs, fill);
    ArrayMeta { attributes: Arc::new(json(attributes)), ..meta }
}

#[test]
fn what_is_missing_in_v3_is_missing_in_v2() {
    for (t, fill, attributes, wanted_fill, wanted, differ) in [
        // Without `_FillValue` nothing is missing, and V2's fill value would say something.
        ("int16", "0", "{}", "null", "{}", false),
        ("int16", "5", "{}", "null", "{}", true),
        ("string", r#""""#, r#"{"missing_value":"a"}"#, "null", r#"{"missing_value":"a"}"#, false),
        ("bool", "false", "{}", "null", "{}", false),
        // But for NaN.
        ("float32", r#""NaN""#, "{}", r#""NaN""#, "{}", false),
        ("float32", r#""0x7fc00001""#, "{}", "null", "{}", true),
        ("float32", r#""NaN""#, r#"{"_FillValue":"AAAAAAAA+H8="}"#, r#""NaN""#, "{}", false),
        ("float64", "0.0", r#"{"_FillValue":"AAAAAAAA+H8="}"#, r#""NaN""#, "{}", true),
        ("int16", "0", r#"{"_FillValue":-999,"b":1}"#, "-999", r#"{"b":1}"#, true),
        ("int16", "-999", r#"{"_FillValue":-999}"#, "-999", "{}", false),
        (
            "complex64",
            "[0.0,0.0]",
            r#"{"_FillValue":["AAAAAAAAAAA=","AAAAAAAAAEA="]}"#,
            "[0.0,2.0]",
            "{}",
            true,
        ),
        // What no element is, V2's fill value cannot be.
        ("int16", "0", r#"{"_FillValue":99999}"#, "null", r#"{"_FillValue":99999}"#, false),
        ("float32", "0.0", r#"{"_FillValue":"mpmZmZmZuT8="}"#, "null", r#"{"_FillValue":0.1}"#, false),
        ("int16", "0", r#"{"_FillValue":null}"#, "null", "{}", false),
    ] {
        let old = v3_variable(t, fill, attributes);
        let new = kept(&old, Format::V2);
        let case = format!("{t} {fill} {attributes}");
        let mut attributes = json(wanted);
        attributes.set("_ARRAY_DIMENSIONS", json(r#"["a",null]"#));
        assert_eq!(stored(&new.meta), (wanted_fill.into(), attributes.to_string()), "{case}");
        assert_eq!(new.missing_chunks_differ(&old), differ, "{case}");
        let back = kept(&new.meta, Format::V3).meta;
        assert_eq!(missing::difference(&old, &back, Kept::Meaning, |e| Some(e.clone())), None, "{case}");
        assert_eq!(kept(&back, Format::V2).meta, new.meta, "{case}");
    }
    let plain = ArrayMeta { dimension_names: None, ..v3_variable("int16", "5", "{}") };
    assert_eq!(stored(&kept(&plain, Format::V2).meta), ("5".into(), "{}".into()));
    let scalar = ArrayMeta { shape: Vec::new(), grid: Grid::regular(&[]).unwrap(), ..plain };
    let scalar = kept(&scalar, Format::V2).meta;
    assert_eq!(stored(&scalar), ("null".into(), r#"{"_ARRAY_DIMENSIONS":[]}"#.into()));
    assert_eq!(kept(&scalar, Format::V3).meta.dimension_names, Some(Vec::new()));
}

#[test]
fn a_change_of_meaning_is_found() {
    let old = variable("<i2", "-999", r#"{"units":"K"}"#);
    let new = kept(&old, Format::V3).meta;
    let same = |e: &crate::meta::Fill| Some(e.clone());
    assert_eq!(missing::difference(&old, &new, Kept::Meaning, same), None);
    let with = |attributes: &str| ArrayMeta { attributes: Arc::new(json(attributes)), ..new.clone() };
    for (changed, word) in [
        (with(r#"{"units":"K"}"#), "missing"),
        (with(r#"{"units":"K","_FillValue":-998}"#), "missing"),
        (with(r#"{"units":"K","_FillValue":-999,"missing_value":1}"#), "missing"),
        (with(r#"{"units":"m","_FillValue":-999}"#), "attributes"),
        (with(r#"{"_FillValue":-999}"#), "attributes"),
        (ArrayMeta { dimension_names: None, ..new.clone() }, "dimensions"),
    ] {
        let found = missing::difference(&old, &changed, Kept::Meaning, same);
        assert!(found.is_some_and(|f| f.contains(word)), "{:?}: {found:?}", changed.attributes);
    }
    // An undefined fill value is none, and stays so in an array like this one.
    let undefined = variable("<i2", "null", "{}");
    assert_eq!(missing::fill_value(&undefined), missing::FillValue::None);
    let like = crate::meta::NewArray::like(&undefined).unwrap();
    assert_eq!(stored(&like.meta().unwrap()).0, "null");
    let said = crate::meta::NewArray { fill: Some(crate::meta::Fill(vec![0, 0].into())), ..like };
    assert_eq!(stored(&said.meta().unwrap()).0, "0");
}

#[test]
fn names_of_dimensions_are_not_paths() {
    let old = v2_array("{}", r#"{"_ARRAY_DIMENSIONS":["a/b","x"]}"#);
    let new = kept(&old, Format::V3).meta;
    assert_eq!(new.dimension_names, Some(vec![Some("a/b".into()), Some("x".into())]));
    let netcdf = v2_array("{}", r#"{"_nczarr_array":{"dimension_references":["/g/a","/x"]}}"#);
    assert_eq!(netcdf.dimension_names, Some(vec![Some("a".into()), Some("x".into())]));
}

#[test]
fn v2_zstd_is_one_that_tensorstore_opens() {
    for checksum in ["true", "false"] {
        let codecs = format!(
            r#"[{{"name":"bytes","configuration":{{"endian":"little"}}}},{{"name":"zstd","configuration":{{"level":3,"checksum":{checksum}}}}}]"#
        );
        let new = kept(&v3_array("\"int16\"", &codecs, "0"), Format::V2);
        assert!(new.chunks_identical());
        let document = write::array(&new.meta).unwrap().remove(0).1;
        assert_eq!(document.get("compressor").unwrap().to_string(), r#"{"id":"zstd","level":3}"#);
    }
}
