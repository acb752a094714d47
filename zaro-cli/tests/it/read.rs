//! `zaro read`: selections, formats, and that pieces make the same whole.

use crate::common::{Store, f32s, i16s, i64s, v2_document, v3_document};

/// 2 x 3 x 4, numbered.
fn cube() -> Store {
    let s = Store::new();
    let names = r#","dimension_names":["z","y","x"]"#;
    s.array("", &[2, 3, 4], "int16", "0", names, &i16s(&(0..24).collect::<Vec<_>>()));
    s
}

#[test]
fn selections_in_every_form() {
    let s = cube();
    let json = |args: &[&str]| s.zaro(&[&["read", "@", "--format", "json"], args].concat()).text();
    assert_eq!(json(&["--select", "0,:,1"]), "[1,5,9]\n");
    assert_eq!(json(&["--select", "1,::-2,1:3"]), "[[21,22],\n[13,14]]\n");
    assert_eq!(json(&["--select", "-1,[2,0],-1"]), "[23,15]\n");
    assert_eq!(json(&["--isel", "z=1", "--isel", "x=0:2,y=[0,2]"]), "[[12,13],\n[20,21]]\n");
    assert_eq!(json(&["--start", "1,1,1", "--count", "1,2,2"]), "[[[17,18],\n[21,22]]]\n");
    assert_eq!(json(&["--start", "1,2,2"]), "[[[22,23]]]\n");
    assert_eq!(json(&["--select", "0,0,0"]), "0\n");
    assert_eq!(json(&["--select", "0:0,:,0"]), "[]\n");
    assert_eq!(json(&["--select", "0,:,2:2"]), "[[],[],[]]\n");
    assert_eq!(json(&["--select", "1,...,3"]), "[15,19,23]\n");
    assert_eq!(json(&["--select", "..., [0,2],-1"]), "[[3,11],\n[15,23]]\n");
    assert_eq!(json(&["--select", "0,0,...,0"]), "0\n");
    assert_eq!(json(&["--select", "1,2,..."]), "[20,21,22,23]\n");
}

#[test]
fn csv_is_rows_or_elements() {
    let s = cube();
    assert_eq!(s.zaro(&["read", "@", "--select", "0,0:2,:", "--format", "csv"]).text(), "0,1,2,3\n4,5,6,7\n");
    assert_eq!(s.zaro(&["read", "@", "--select", "0,0,0:2", "--format", "csv"]).text(), "0\n1\n");
    let long = s.zaro(&["read", "@", "--select", "1,2,0:2", "--format", "csv", "--long"]).text();
    assert_eq!(long, "x,value\n0,20\n1,21\n");
    // Places are those in the array, whatever was selected.
    let select = ["read", "@", "--format", "csv", "--long", "--select"];
    let long = |part: &str| s.zaro(&[&select[..], &[part]].concat()).text();
    let head = long("1,1:3,0").lines().next().unwrap().to_owned();
    assert_eq!(long("1,1:3,0"), format!("{head}\n1,16\n2,20\n"));
    assert_eq!(long("1,2,::-2"), "x,value\n3,23\n1,21\n");
    assert_eq!(long("1,2,[3,-4]"), "x,value\n3,23\n0,20\n");
}

#[test]
fn raw_and_npy_in_both_orders() {
    let s = cube();
    let raw = s.zaro(&["read", "@", "--select", "0,0:2,0:2", "--format", "raw"]);
    assert_eq!(raw.out, i16s(&[0, 1, 4, 5]));
    let raw = s.zaro(&["read", "@", "--select", "0,0:2,0:2", "--format", "raw", "--order", "F"]);
    assert_eq!(raw.out, i16s(&[0, 4, 1, 5]));
    let npy = s.zaro(&["read", "@", "--select", "0,0:2,0:2", "--format", "npy", "--order", "F"]);
    assert_eq!(&npy.out[..8], b"\x93NUMPY\x01\x00");
    let header = String::from_utf8_lossy(&npy.out[10..128]);
    assert!(header.starts_with("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2), }"), "{header}");
    assert_eq!(npy.out[128..], i16s(&[0, 4, 1, 5]));
}

#[test]
fn an_option_that_does_nothing_says_so() {
    let s = cube();
    let time = r#"{"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":1}}"#;
    s.array("t", &[1], time, "0", "", &i64s(&[1]));
    s.put("wide/zarr.json", v3_document(&[100, 100], &[10, 10], "uint8", "0", ""));
    let warnings = |args: &[&str]| {
        let run = s.zaro(&[&["read", "@"], args].concat());
        assert_eq!(run.code, 0, "{args:?}: {}", run.err);
        run.err.lines().map(|l| l.strip_prefix("zaro: warning: ").unwrap().to_owned()).collect::<Vec<_>>()
    };
    let idle = [
        (&["--order", "F", "--format", "csv"][..], "--order F has no effect on csv"),
        (&["--order", "f"], "--order F has no effect on table"),
        (&["--long", "--format", "json"], "--long has no effect on json"),
        (&["--range", "0,5", "--format", "npy"], "--range has no effect on npy"),
        (&["--colormap", "magma"], "--colormap has no effect on table"),
        (&["--max-size", "9", "--format", "raw"], "--max-size has no effect on raw"),
        (&["t", "--cf", "--format", "raw"], "--cf has no effect on raw"),
    ];
    for (args, words) in idle {
        let said = warnings(args);
        assert!(said.len() == 1 && said[0].starts_with(words), "{args:?}: {said:?}");
    }
    for args in [
        &["--order", "F", "--format", "npy"][..],
        &["--order", "F", "--format", "raw"],
        &["--order", "C", "--format", "csv"],
        &["--long", "--format", "csv"],
        &["--range", "0,5", "--colormap", "magma", "--max-size", "2", "--format", "png", "--select", "0"],
        &["t", "--cf", "--format", "npy"],
        &["--cf", "--format", "raw"],
        &["--complete"],
    ] {
        assert_eq!(warnings(args), Vec::<String>::new(), "{args:?}");
    }
    // It fails, since no chunk is there; had the four corners been, it would not have.
    let corners = s.zaro(&["read", "@", "wide", "--complete"]);
    assert!(corners.err.contains("here those of the corners"), "{}", corners.err);
}

#[test]
fn every_read_of_a_file_is_shown_when_asked_for() {
    let s = Store::new();
    s.put("zarr.json", v3_document(&[4, 2], &[2, 2], "uint8", "7", "")).put("c/0/0", [1, 2, 3, 4]);
    let run = s.zaro(&["read", "@", "--format", "csv", "-v", "--threads", "1"]);
    let here = s.path().display();
    for line in [
        format!("get {here}/zarr.json -> "),
        format!("get {here}/c/0/0 -> 4 bytes, "),
        format!("get {here}/c/1/0 -> missing, "),
    ] {
        assert_eq!(run.err.lines().filter(|l| l.starts_with(&line)).count(), 1, "{line}: {}", run.err);
    }
    assert_eq!(run.text(), "1,2\n3,4\n7,7\n7,7\n");
    // Of a large uncompressed chunk only a part is read.
    s.array("large", &[2, 100_000], "uint8", "0", "", &[5; 200_000]);
    let run = s.zaro(&["read", "@", "large", "--select", "1,0:10", "-v"]);
    assert!(run.err.contains("/large/c/0/0 bytes=100000+10 -> 10 bytes"), "{}", run.err);
    assert!(!s.zaro(&["read", "@"]).err.contains("get "));
}

#[test]
fn pieces_make_the_same_whole() {
    let s = Store::new();
    s.put("zarr.json", v3_document(&[7, 5, 6], &[2, 5, 6], "int16", "-1", ""));
    for c in 0..4i16 {
        let chunk: Vec<i16> = (0..60).map(|i| c * 60 + i).collect();
        s.put(&format!("c/{c}/0/0"), i16s(&chunk));
    }
    for format in ["json", "csv", "raw", "npy"] {
        for order in ["C", "F"] {
            for select in [":", "::-1", "1:6:2,:,[5,0,2]", "3,::-1"] {
                let args = ["read", "@", "--format", format, "--order", order, "--select", select];
                let whole = s.zaro(&args);
                assert_eq!(whole.code, 0, "{}", whole.err);
                for memory in ["2", "50", "300"] {
                    let pieces = s.zaro(&[&args[..], &["--memory", memory]].concat());
                    assert_eq!(pieces.code, 0, "{}", pieces.err);
                    assert!(pieces.out == whole.out, "{format} {order} {select} {memory}");
                }
            }
        }
    }
}

#[test]
fn every_kind_of_element_has_its_json() {
    let s = Store::new();
    s.group("");
    let json = |node: &str| s.zaro(&["read", "@", node, "--format", "json"]).text();
    s.array("u8", &[], "uint64", "0", "", &u64::MAX.to_le_bytes());
    assert_eq!(json("u8"), "18446744073709551615\n");
    s.array("f4", &[4], "float32", "0", "", &f32s(&[0.1, f32::NAN, f32::INFINITY, -0.0]));
    assert_eq!(json("f4"), "[0.10000000149011612,\"NaN\",\"Infinity\",-0.0]\n");
    s.array("c8", &[1], "complex64", "[0,0]", "", &f32s(&[1.5, f32::NEG_INFINITY]));
    assert_eq!(json("c8"), "[[1.5,\"-Infinity\"]]\n");
    s.array("b", &[2], "bool", "false", "", &[0, 1]);
    assert_eq!(json("b"), "[false,true]\n");
    s.array("r", &[1], "r16", "[0,0]", "", &[0, 1]);
    assert_eq!(json("r"), "[\"AAE=\"]\n");
    s.array("s", &[2], "string", "\"\"", "", b"\x02\0\0\0\x02\0\0\0\xc3\xa9\x01\0\0\0\"");
    assert_eq!(json("s"), "[\"é\",\"\\\"\"]\n");
    let time = r#"{"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":1}}"#;
    s.array("t", &[2], time, "0", "", &i64s(&[86_400, i64::MIN]));
    assert_eq!(json("t"), "[86400,-9223372036854775808]\n");
    let cf = s.zaro(&["read", "@", "t", "--format", "json", "--cf"]).text();
    assert_eq!(cf, "[\"1970-01-02T00:00:00\",\"NaT\"]\n");
}

#[test]
fn v2_structs_and_fixed_text() {
    let s = Store::new();
    s.put(".zgroup", r#"{"zarr_format":2}"#);
    s.put("s/.zarray", v2_document(&[2], r#"[["a","<i2"],["n",[["x","|u1"]]],["p","|u1",[2]]]"#, "null"));
    s.put("s/0", [1, 0, 2, 3, 4, 255, 255, 5, 6, 7]);
    let json = s.zaro(&["read", "@", "s", "--format", "json"]).text();
    assert_eq!(json, "[{\"a\":1,\"n\":{\"x\":2},\"p\":[3,4]},{\"a\":-1,\"n\":{\"x\":5},\"p\":[6,7]}]\n");
    let csv = s.zaro(&["read", "@", "s", "--format", "csv"]).text();
    assert_eq!(csv, "a,n,p\n1,(2),\"[3, 4]\"\n-1,(5),\"[6, 7]\"\n");
    let npy = s.zaro(&["read", "@", "s", "--format", "npy"]).out;
    assert!(
        String::from_utf8_lossy(&npy).contains("[('a', '<i2'), ('n', [('x', '|u1')]), ('p', '|u1', (2,))]")
    );
    s.put("t/.zarray", v2_document(&[1], r#""|S4""#, "null")).put("t/0", b"ab\0\0");
    assert_eq!(s.zaro(&["read", "@", "t", "--format", "json"]).text(), "[\"ab\"]\n");
}

#[test]
fn strings_become_fixed_width_in_numpy_and_are_refused_raw() {
    let s = Store::new();
    s.array("", &[2], "string", "\"\"", "", b"\x02\0\0\0\x03\0\0\0a\xc3\xa9\0\0\0\0");
    let npy = s.zaro(&["read", "@", "--format", "npy"]).out;
    assert!(String::from_utf8_lossy(&npy).contains("'descr': '<U2'"));
    assert_eq!(&npy[npy.len() - 16..], b"a\0\0\0\xe9\0\0\0\0\0\0\0\0\0\0\0");
    let raw = s.zaro(&["read", "@", "--format", "raw"]);
    assert_eq!(raw.code, 2);
    assert!(raw.err.contains("--format json"), "{}", raw.err);
}

#[test]
fn a_table_shows_the_edges() {
    let s = Store::new();
    s.put("zarr.json", v3_document(&[1_000_000, 1_000_000], &[1000, 1000], "uint8", "7", ""));
    let table = s.zaro(&["read", "@"]).text();
    assert_eq!(table.lines().count(), 7);
    assert_eq!(table.lines().next(), Some("[[7 7 7 … 7 7 7]"));
    assert_eq!(s.zaro(&["read", "@", "--select", "0,0"]).text(), "7\n");
}

#[test]
fn a_file_says_its_format_and_appears_whole() {
    let s = cube();
    let file = s.file("out.json");
    let file = file.to_str().unwrap();
    assert_eq!(s.zaro(&["read", "@", "--select", "0,0", "-o", file]).text(), "");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "[0,1,2,3]\n");
    let bad = s.zaro(&["read", "@", "--format", "png", "-o", s.file("x.png").to_str().unwrap()]);
    assert_eq!(bad.code, 2);
    let left: Vec<_> = std::fs::read_dir(s.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|n| n.to_string_lossy().contains("png")), "{left:?}");
}

#[test]
fn the_conformance_contract_prints_an_element_a_line() {
    let s = cube();
    let out = s.zaro(&[&format!("--array_path={}", s.path().display())]).text();
    assert_eq!(out.lines().count(), 24);
    assert!(out.starts_with("0\n1\n2\n"));
}

#[test]
fn a_missing_chunk_is_fill_unless_completeness_is_asked_for() {
    let s = Store::new();
    s.put("zarr.json", v3_document(&[2], &[1], "uint8", "9", ""));
    assert_eq!(s.zaro(&["read", "@", "--format", "json"]).text(), "[9,9]\n");
    assert_ne!(s.zaro(&["read", "@", "--format", "json", "--complete"]).code, 0);
}
