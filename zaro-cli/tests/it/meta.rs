//! `zaro meta`: one model for both versions, and its stable JSON (docs/book/meta-json.md).

use crate::common::{Store, v2_document};

fn json(s: &Store, node: &str) -> String {
    s.zaro(&["meta", "@", node, "--json"]).text().split_whitespace().collect()
}

#[test]
fn v3_array() {
    let s = Store::new();
    s.group("");
    let extra = r#","dimension_names":["y","x"],"attributes":{"n":18446744073709551615}"#;
    s.array("a", &[2, 3], "float32", "\"0x7fc00001\"", extra, &[0; 24]);
    assert_eq!(
        json(&s, "a"),
        concat!(
            r#"{"path":"/a","kind":"array","zarr_format":3,"shape":[2,3],"chunk_shape":[2,3],"data_type":"float32","#,
            r#""fill_value":"0x7fc00001","codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"#,
            r#""dimension_names":["y","x"],"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"#,
            r#""attributes":{"n":18446744073709551615}}"#
        )
    );
    assert_eq!(json(&s, ""), r#"{"path":"/","kind":"group","zarr_format":3,"attributes":{}}"#);
}

#[test]
fn v2_array_gives_the_same_fields() {
    let s = Store::new();
    s.put(".zarray", v2_document(&[4, 2], r#""<M8[ns]""#, "0"));
    s.put(".zattrs", r#"{"_ARRAY_DIMENSIONS":["t","x"]}"#);
    let model = json(&s, "");
    for part in [
        r#""zarr_format":2"#,
        r#""data_type":{"name":"numpy.datetime64","configuration":{"unit":"ns","scale_factor":1}}"#,
        r#""dimension_names":["t","x"]"#,
        r#""chunk_key_encoding":{"name":"v2","configuration":{"separator":"."}}"#,
        r#""fill_value":0"#,
    ] {
        assert!(model.contains(part), "{part} in {model}");
    }
}

#[test]
fn shards_and_uneven_chunks() {
    let s = Store::new();
    s.group("");
    let sharded = |codecs: &str| {
        format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":[8,6],"data_type":"uint8","fill_value":0,
            "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[8,6]}}}},
            "chunk_key_encoding":{{"name":"default"}},"codecs":{codecs}}}"#
        )
    };
    let shard = |shape: &str| {
        format!(
            r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":{shape},"codecs":[{{"name":"bytes"}}],
            "index_codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}}]}}}}"#
        )
    };
    s.put("s/zarr.json", sharded(&format!("[{}]", shard("[2,3]"))));
    assert!(json(&s, "s").contains(r#""chunk_shape":[2,3],"shard_shape":[8,6]"#));
    let turned = format!(r#"[{{"name":"transpose","configuration":{{"order":[1,0]}}}},{}]"#, shard("[3,2]"));
    s.put("t/zarr.json", sharded(&turned));
    assert!(json(&s, "t").contains(r#""chunk_shape":[2,3],"shard_shape":[8,6]"#));
    s.put(
        "u/zarr.json",
        r#"{"zarr_format":3,"node_type":"array","shape":[6,4],"data_type":"uint8","fill_value":0,
        "chunk_grid":{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[1,5],4]}},
        "chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"}]}"#,
    );
    assert!(json(&s, "u").contains(r#""chunk_shapes":[[1,5],4]"#), "{}", json(&s, "u"));
}

#[test]
fn text_is_for_people() {
    let s = Store::new();
    s.array("", &[2], "uint8", "0", r#","attributes":{"units":"K"}"#, &[0; 2]);
    let text = s.zaro(&["meta", "@"]).text();
    assert!(text.contains("data_type          uint8"), "{text}");
    assert!(text.contains("\n  units: \"K\""), "{text}");
}
