use super::*;
use crate::meta::finding::{Findings, Mode};
use crate::meta::{NodeMeta, v2, v3};

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap().value
}

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
