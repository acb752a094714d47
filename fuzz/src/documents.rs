//! Metadata documents to begin with: those of the conformance stores, and some that use every part of the model.

use std::path::Path;

use crate::Seed;

/// The conformance stores: `(name, document, first chunk)`.
pub fn stores(document: &str) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let mut out = Vec::new();
    let base = crate::root().join("conformance/one-rule");
    let Ok(entries) = std::fs::read_dir(base) else { return out };
    for entry in entries.flatten() {
        let path = entry.path();
        if let Ok(text) = std::fs::read(path.join(document)) {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            out.push((format!("one-rule-{name}"), text, first_chunk(&path).unwrap_or_default()));
        }
    }
    out.sort();
    out
}

/// The first file that is no metadata.
fn first_chunk(folder: &Path) -> Option<Vec<u8>> {
    let mut entries: Vec<_> = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name()?.to_string_lossy().into_owned();
        if path.is_dir() {
            if let Some(found) = first_chunk(&path) {
                return Some(found);
            }
        } else if !name.starts_with(".z") && name != "zarr.json" {
            return std::fs::read(path).ok().filter(|b| b.len() < 4096);
        }
    }
    None
}

/// A V3 array.
pub fn v3(shape: &str, chunk: &str, data_type: &str, fill: &str, codecs: &str) -> String {
    format!(
        r#"{{"zarr_format":3,"node_type":"array","shape":{shape},"data_type":{data_type},"chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{chunk}}}}},"chunk_key_encoding":{{"name":"default"}},"fill_value":{fill},"codecs":{codecs}}}"#
    )
}

/// A V2 array.
pub fn v2(shape: &str, chunks: &str, dtype: &str, fill: &str, filters: &str, compressor: &str) -> String {
    format!(
        r#"{{"zarr_format":2,"shape":{shape},"chunks":{chunks},"dtype":{dtype},"fill_value":{fill},"order":"F","filters":{filters},"compressor":{compressor},"dimension_separator":"/"}}"#
    )
}

/// Types with a fill value, as V3 writes them.
pub const V3_TYPES: &[(&str, &str)] = &[
    ("\"bool\"", "true"),
    ("\"int4\"", "-8"),
    ("\"uint64\"", "18446744073709551615"),
    ("\"float16\"", "\"0x7e01\""),
    ("\"bfloat16\"", "-0.0"),
    ("\"float8_e4m3fn\"", "1.5"),
    ("\"complex64\"", "[\"NaN\",\"-Infinity\"]"),
    ("\"r24\"", "[1,2,3]"),
    ("\"string\"", "\"x\""),
    ("\"bytes\"", "\"AAE=\""),
    (r#"{"name":"fixed_length_utf32","configuration":{"length_bytes":12}}"#, "\"é\""),
    (r#"{"name":"null_terminated_bytes","configuration":{"length_bytes":3}}"#, "\"YWI=\""),
    (r#"{"name":"raw_bytes","configuration":{"length_bytes":2}}"#, "\"AAE=\""),
    (r#"{"name":"numpy.datetime64","configuration":{"unit":"ns","scale_factor":10}}"#, "\"NaT\""),
    (
        r#"{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"int16"},{"name":"b","data_type":{"name":"struct","configuration":{"fields":[{"name":"c","data_type":"float64"}]}}}]}}"#,
        r#"{"a":1,"b":{"c":"NaN"}}"#,
    ),
    (
        r#"{"name":"structured","configuration":{"fields":[["a","int8"],["b","complex128"]]}}"#,
        "\"AAAAAAAAAAAAAAAAAAAAAAA=\"",
    ),
];

/// Types with a fill value and an object codec, as V2 writes them.
pub const V2_TYPES: &[(&str, &str, &str)] = &[
    ("\"<f4\"", "\"NaN\"", "null"),
    ("\">i8\"", "-1", "null"),
    ("\"|b1\"", "false", "null"),
    ("\"|S5\"", "\"YWI=\"", "null"),
    ("\"<U3\"", "\"ab\"", "null"),
    ("\"|V4\"", "\"AAAAAA==\"", "null"),
    ("\"<M8[25us]\"", "\"NaT\"", "null"),
    ("\"<c16\"", "[0.0,\"Infinity\"]", "null"),
    (r#"[["a","<i4"],["b",[["c",">f8",[2,3]],["d","|S2"]],4]]"#, "0", "null"),
    (r#"[["a","<i4",[2]],["b",">i2"]]"#, "\"AAAAAAAAAAAAAA==\"", "null"),
    ("\"|O\"", "\"\"", r#"[{"id":"vlen-utf8"}]"#),
    ("\"|O\"", "0", r#"[{"id":"vlen-bytes"}]"#),
    ("\"|O\"", "null", r#"[{"id":"vlen-array","dtype":">i2"}]"#),
    ("\"|O\"", "null", r#"[{"id":"json2"}]"#),
    ("\"|O\"", "null", r#"[{"id":"msgpack2"}]"#),
    ("\"|O\"", "\"\"", r#"[{"id":"categorize","labels":["a","b"],"dtype":"|O","astype":"|u1"}]"#),
    (
        "\"<f8\"",
        "0",
        r#"[{"id":"fixedscaleoffset","scale":10,"offset":1000,"dtype":"<f8","astype":"<i2"},{"id":"delta","dtype":"<i2"},{"id":"shuffle","elementsize":2}]"#,
    ),
];

/// Documents for the V3 target.
pub fn v3_seeds() -> Vec<Seed> {
    let mut out: Vec<Seed> = stores("zarr.json").into_iter().map(|(n, d, _)| (n, d)).collect();
    let bytes = r#"[{"name":"bytes","configuration":{"endian":"big"}}]"#;
    for (i, (t, fill)) in V3_TYPES.iter().enumerate() {
        let codecs = match *t {
            "\"string\"" => r#"[{"name":"vlen-utf8"},"crc32c"]"#,
            "\"bytes\"" => r#"["vlen-bytes"]"#,
            _ => bytes,
        };
        out.push((format!("type-{i}"), v3("[10,7]", "[5,7]", t, fill, codecs).into_bytes()));
    }
    for (i, codecs) in crate::array::CHAINS.iter().enumerate() {
        out.push((format!("chain-{i}"), v3("[16,16]", "[8,8]", "\"uint16\"", "7", codecs).into_bytes()));
    }
    let rectilinear = v3("[9,7]", "[5,7]", "\"int32\"", "0", bytes).replace(
        r#"{"name":"regular","configuration":{"chunk_shape":[5,7]}}"#,
        r#"{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[2,[3,2],1],4]}}"#,
    );
    out.push(("rectilinear".into(), rectilinear.into_bytes()));
    out.push(("scalar".into(), v3("[]", "[]", "\"int8\"", "1", "[\"bytes\"]").into_bytes()));
    out.push(("group".into(), br#"{"zarr_format":3,"node_type":"group","attributes":{"a":[1,{}]},"consolidated_metadata":{"kind":"inline","must_understand":false,"metadata":{"a":{"zarr_format":3,"node_type":"group"}}}}"#.to_vec()));
    out
}

/// Documents for the V2 target: `.zarray`, a zero, `.zattrs`.
pub fn v2_seeds() -> Vec<Seed> {
    let mut out: Vec<Seed> = stores(".zarray").into_iter().map(|(n, d, _)| (n, d)).collect();
    for (i, (t, fill, filters)) in V2_TYPES.iter().enumerate() {
        let compressor = r#"{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0}"#;
        let mut doc = v2("[10,7]", "[5,7]", t, fill, filters, compressor).into_bytes();
        doc.extend(b"\0{\"_ARRAY_DIMENSIONS\":[\"y\",\"x\"]}");
        out.push((format!("type-{i}"), doc));
    }
    out.push(("group".into(), b"{\"zarr_format\":2}\0{\"a\":NaN}".to_vec()));
    out
}

/// Documents for the JSON target.
pub fn json_seeds() -> Vec<Seed> {
    let mut out = v3_seeds();
    for (i, text) in [
        r#"{"a":1,"a":2,"b":[1.5e-7,-0,1E+400,123456789012345678901234567890],"c":"\u00e9\ud83d\ude00\n\\"}"#,
        "[NaN,Infinity,-Infinity,true,false,null,{},[],\"\"]",
        "\u{feff}[[[[[[[[[[1]]]]]]]]]]",
    ]
    .iter()
    .enumerate()
    {
        out.push((format!("own-{i}"), text.as_bytes().to_vec()));
    }
    out
}
