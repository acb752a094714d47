//! `zaro write`: every input, every way to say where, and what is refused.

use crate::common::{Run, Store, f64s, i16s, npy, zaro, zaro_with};

/// A store with an array `x` of this type and shape, in chunks of two.
fn made(dtype: &str, shape: &str) -> Store {
    let s = Store::new();
    let chunks = shape.split(',').map(|_| "2").collect::<Vec<_>>().join(",");
    s.zaro(&[
        "create",
        "@",
        "x",
        "--shape",
        shape,
        "--dtype",
        dtype,
        "--chunks",
        &chunks,
        "--dims",
        names(shape),
    ])
    .text();
    s
}

fn names(shape: &str) -> &'static str {
    match shape.split(',').count() {
        1 => "z",
        2 => "z,y",
        _ => "z,y,x",
    }
}

fn write(s: &Store, file: &str, bytes: impl AsRef<[u8]>, args: &[&str]) -> Run {
    s.put(file, bytes);
    let from = s.file(file);
    let run = s.zaro(&[&["write", "@", "x", "--from", from.to_str().unwrap()], args].concat());
    std::fs::remove_file(from).unwrap();
    run
}

fn json(s: &Store) -> String {
    s.zaro(&["read", "@", "x", "--format", "json"]).text().replace('\n', "")
}

#[test]
fn numpy_files_of_every_type_round_trip() {
    let text = |words: &[&str], n: usize| -> Vec<u8> {
        let cell = |w: &&str| {
            let mut cell: Vec<u8> = w.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
            cell.resize(4 * n, 0);
            cell
        };
        words.iter().flat_map(cell).collect()
    };
    let count = |n: u8| (0..n).map(|i| i.wrapping_mul(37).wrapping_add(5)).collect::<Vec<u8>>();
    for (descr, data) in [
        ("'|b1'", vec![1, 0, 0, 1, 1, 0]),
        ("'|i1'", count(6)),
        ("'|u1'", count(6)),
        ("'<i2'", count(12)),
        ("'<u2'", count(12)),
        ("'<i4'", count(24)),
        ("'<u4'", count(24)),
        ("'<i8'", count(48)),
        ("'<u8'", count(48)),
        ("'<f2'", count(12)),
        ("'<f4'", count(24)),
        ("'<f8'", count(48)),
        ("'<c8'", count(48)),
        ("'<c16'", count(96)),
        ("'<M8[s]'", count(48)),
        ("'<M8[25us]'", count(48)),
        ("'<m8[D]'", count(48)),
        ("'|S3'", b"ab\0c\0\0def\0\0\0g\0\0xyz".to_vec()),
        ("'<U2'", text(&["a", "bc", "", "é", "日本", "z"], 2)),
        ("'|V3'", count(18)),
        ("[('a', '<i2'), ('b', '|u1')]", count(18)),
    ] {
        for fortran in [false, true] {
            for format in ["3", "2"] {
                let s = Store::new();
                let file = npy(descr, fortran, "(2, 3)", &data);
                let made = ["--create", "--chunks", "2,2", "--zarr-format", format];
                write(&s, "in.npy", &file, &made).text();
                let order = if fortran { "F" } else { "C" };
                let out = s.file("out.npy");
                s.zaro(&["read", "@", "x", "--order", order, "-o", out.to_str().unwrap()]).text();
                let back = std::fs::read(&out).unwrap();
                assert!(back.ends_with(&data), "{descr} {order} V{format}");
                let header = String::from_utf8_lossy(&back[10..128]).into_owned();
                assert!(header.contains(descr), "{header}");
                // And once more, into the array that is there.
                write(&s, "in.npy", &back, &[]).text();
                let again = s.zaro(&["read", "@", "x", "--order", order, "--format", "npy", "-o", "-"]);
                assert_eq!(again.out, back, "{descr} {order} V{format}");
            }
        }
    }
}

#[test]
fn big_endian_and_newer_headers_are_read() {
    let s = made("int16", "2,3");
    let big: Vec<u8> = (1..7i16).flat_map(i16::to_be_bytes).collect();
    write(&s, "a.npy", npy("'>i2'", false, "(2, 3)", &big), &[]).text();
    assert_eq!(json(&s), "[[1,2,3],[4,5,6]]");
    let mut v2 = b"\x93NUMPY\x02\x00".to_vec();
    let header = b"{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3)}";
    v2.extend(u32::try_from(header.len()).unwrap().to_le_bytes());
    v2.extend(header);
    v2.extend(i16s(&[1, 4, 2, 5, 3, 6]));
    write(&s, "b.npy", &v2, &[]).text();
    assert_eq!(json(&s), "[[1,2,3],[4,5,6]]");
}

#[test]
fn text_of_any_length_goes_through_numpy() {
    let s = made("string", "3");
    write(&s, "t.json", r#"["a,b", "", "日本\n\"x\""]"#, &[]).text();
    for format in ["npy", "json", "csv"] {
        let wanted = json(&s);
        let out = s.zaro(&["read", "@", "x", "--format", format, "-o", "-"]).out;
        s.zaro(&["create", "@", "x", "--shape", "3", "--dtype", "string", "--overwrite"]).text();
        write(&s, &format!("t.{format}"), &out, &[]).text();
        assert_eq!(json(&s), wanted, "{format}");
    }
    // Texts that are all empty have a width in numpy, too.
    write(&s, "e.json", r#"["", "", ""]"#, &[]).text();
    let out = s.zaro(&["read", "@", "x", "--format", "npy", "-o", "-"]).out;
    write(&s, "e.npy", &out, &[]).text();
    assert_eq!(json(&s), r#"["","",""]"#);
}

#[test]
fn parts_are_written_in_every_form() {
    let s = made("int16", "4,5");
    let part = |args: &[&str], shape: &str, numbers: &[i16]| {
        write(&s, "p.npy", npy("'<i2'", false, shape, &i16s(numbers)), args).text();
    };
    part(&["--start", "1,2"], "(2, 2)", &[1, 2, 3, 4]);
    part(&["--select", "0,::-2"], "(3,)", &[7, 8, 9]);
    part(&["--isel", "y=4"], "(4,)", &[5, 5, 5, 6]);
    part(&["--start", "3,0", "--count", "1,2"], "(1, 2)", &[-1, -2]);
    assert_eq!(json(&s), "[[9,0,8,0,5],[0,0,1,2,5],[0,0,3,4,5],[-1,-2,0,0,6]]");
}

#[test]
fn an_array_grows_by_what_is_appended() {
    let s = made("int16", "1,2");
    s.zaro(&["consolidate", "@"]).text();
    write(&s, "a.npy", npy("'<i2'", false, "(2, 2)", &i16s(&[1, 2, 3, 4])), &["--append", "z"]).text();
    write(&s, "b.npy", npy("'<i2'", false, "(2,)", &i16s(&[5, 6])), &["--append", "0"]).text();
    write(&s, "c.csv", "7,8\n", &["--append", "z"]).text();
    write(&s, "d.json", "[9, 10]", &["--append", "z"]).text();
    let run = write(&s, "e.raw", i16s(&[11, 12, 13, 14]), &["--append", "z", "--json"]);
    let report = r#"{"path":"x","shape":[8,2],"written":[2,2],"appended":{"axis":0,"start":6}}"#;
    assert_eq!(run.text(), format!("{report}\n"));
    assert_eq!(json(&s), "[[0,0],[1,2],[3,4],[5,6],[7,8],[9,10],[11,12],[13,14]]");
    write(&s, "f.npy", npy("'<i2'", false, "(8,)", &i16s(&[1; 8])), &["--append", "y"]).text();
    let shown = s.zaro(&["meta", "@", "x"]).text();
    assert!(shown.contains("[8,3]"), "{shown}");
    let run = write(&s, "g.npy", npy("'<i2'", false, "(3, 2)", &i16s(&[1; 6])), &["--append", "z"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("[3, 2]") && run.err.contains("[8, 3]"), "{}", run.err);
    // What does not fit has not changed the shape.
    assert!(s.zaro(&["meta", "@", "x"]).text().contains("[8,3]"));
    // Nor has a file that is too short.
    let run = write(&s, "h.npy", npy("'<i2'", false, "(1, 3)", &i16s(&[1])), &["--append", "z"]);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(s.zaro(&["meta", "@", "x"]).text().contains("[8,3]"));
}

#[test]
fn a_step_may_come_without_its_dimension() {
    let s = made("int16", "1,3");
    // Three lines are a row here, and a column there.
    write(&s, "a.csv", "1\n2\n3\n", &["--append", "z"]).text();
    write(&s, "b.csv", "4\n5\n", &["--append", "y"]).text();
    assert_eq!(json(&s), "[[0,0,0,4],[1,2,3,5]]");
    let s = made("int16", "2,3,0");
    write(&s, "c.csv", "1,2,3\n4,5,6\n", &["--append", "2"]).text();
    assert_eq!(json(&s), "[[[1],[2],[3]],[[4],[5],[6]]]");
    let s = made("complex64", "0,2");
    write(&s, "d.json", "[[1, 2], [3, 4]]", &["--append", "z"]).text();
    assert_eq!(json(&s), "[[[1.0,2.0],[3.0,4.0]]]");
    // The lines of structs are elements, whatever the shape.
    let s = made(r#"[["a", "<i2"], ["b", "|u1"]]"#, "2,2");
    write(&s, "e.csv", "a,b\n1,2\n3,4\n5,6\n7,8\n", &[]).text();
    assert_eq!(json(&s), r#"[[{"a":1,"b":2},{"a":3,"b":4}],[{"a":5,"b":6},{"a":7,"b":8}]]"#);
}

#[test]
fn standard_input_is_read_as_it_comes() {
    let s = made("int16", "3,4");
    let here = s.path().to_str().unwrap();
    let numbers = i16s(&(0..12).collect::<Vec<_>>());
    let file = npy("'<i2'", false, "(3, 4)", &numbers);
    let args = ["write", here, "x", "--from", "-", "--memory", "16", "--input-format"];
    zaro_with(&[&args[..], &["npy"]].concat(), &file).text();
    assert_eq!(json(&s), "[[0,1,2,3],[4,5,6,7],[8,9,10,11]]");
    zaro_with(&[&args[..], &["raw", "--order", "F"]].concat(), &numbers).text();
    assert_eq!(json(&s), "[[0,3,6,9],[1,4,7,10],[2,5,8,11]]");
    zaro_with(&[&args[..], &["json"]].concat(), b"[[1,1,1,1],[1,1,1,1],[1,1,1,1]]").text();
    assert_eq!(json(&s), "[[1,1,1,1],[1,1,1,1],[1,1,1,1]]");
    for bytes in [&numbers[..23], &[&numbers[..], &[0]].concat()] {
        assert_eq!(zaro_with(&[&args[..], &["raw"]].concat(), bytes).code, 2);
        // What fits into memory is not written either.
        zaro_with(&[&args[..], &["raw"]].concat(), &numbers).text();
        let args = ["write", here, "x", "--from", "-", "--input-format", "raw"];
        let other: Vec<u8> = bytes.iter().map(|b| b ^ 1).collect();
        assert_eq!(zaro_with(&args, &other).code, 2);
        assert_eq!(json(&s), "[[0,1,2,3],[4,5,6,7],[8,9,10,11]]");
    }
    let run = zaro_with(&["write", here, "x", "--from", "-"], &file);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("--input-format"), "{}", run.err);
}

#[test]
fn pieces_make_the_same_whole() {
    let numbers: Vec<f64> = (0..9 * 7 * 5).map(f64::from).collect();
    for fortran in [false, true] {
        for memory in ["16", "200", "2000", "1M"] {
            for more in [&["--chunks", "4,3,2"][..], &["--chunks", "2,3,5", "--shards", "4,6,5"]] {
                let s = Store::new();
                let file = npy("'<f8'", fortran, "(9, 7, 5)", &f64s(&numbers));
                write(&s, "a.npy", &file, &[&["--create", "--memory", memory], more].concat()).text();
                let order = if fortran { "F" } else { "C" };
                let raw = s.zaro(&["read", "@", "x", "--format", "raw", "--order", order]).out;
                assert!(raw == f64s(&numbers), "{order} {memory} {more:?}");
            }
        }
    }
}

#[test]
fn numbers_are_converted_only_if_asked_and_only_if_they_fit() {
    let s = made("uint8", "3");
    let good = npy("'<f8'", false, "(3,)", &f64s(&[1.0, 2.0, 255.0]));
    let run = write(&s, "a.npy", &good, &[]);
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("float64") && run.err.contains("uint8") && run.err.contains("--cast"),
        "{}",
        run.err
    );
    write(&s, "a.npy", &good, &["--cast"]).text();
    assert_eq!(json(&s), "[1,2,255]");
    for bad in [256.0, -1.0, 0.5, f64::NAN] {
        let run = write(&s, "a.npy", npy("'<f8'", false, "(3,)", &f64s(&[0.0, 0.0, bad])), &["--cast"]);
        assert_eq!(run.code, 2, "{bad}: {}", run.err);
        assert!(run.err.contains("does not fit into uint8"), "{}", run.err);
    }
}

#[test]
fn tables_of_cells() {
    let s = Store::new();
    s.zaro(&["create", "@", "x", "--shape", "2,3", "--dtype", "f4", "--fill", "-9"]).text();
    write(&s, "a.csv", "1,nan,\r\n-inf,\"4.5\",1e3\r\n", &[]).text();
    assert_eq!(json(&s), r#"[[1.0,"NaN",-9.0],["-Infinity",4.5,1000.0]]"#);
    s.zaro(&["create", "@", "x", "--shape", "2", "--dtype", "datetime64[D]", "--overwrite"]).text();
    write(&s, "a.csv", "1970-01-02\nNaT\n", &[]).text();
    assert_eq!(json(&s), "[1,-9223372036854775808]");
    let fields = r#"[["a", "<i2"], ["b", "<U2"]]"#;
    s.zaro(&["create", "@", "x", "--shape", "2", "--dtype", fields, "--overwrite"]).text();
    write(&s, "a.csv", "a,b\n1,x\n2,\"y,\"\n", &[]).text();
    assert_eq!(json(&s), r#"[{"a":1,"b":"x"},{"a":2,"b":"y,"}]"#);
    assert_eq!(write(&s, "a.csv", "1,x\n2,y\n", &[]).code, 2);
    // The same cells in three dimensions, and a new array of its own.
    s.zaro(&["create", "@", "x", "--shape", "2,1,2", "--dtype", "i8", "--overwrite"]).text();
    write(&s, "a.csv", "1,2\n3,4\n", &[]).text();
    assert_eq!(json(&s), "[[[1,2]],[[3,4]]]");
    write(&s, "a.csv", "1,2\n3,4\n", &["--create", "--overwrite", "--dtype", "i4"]).text();
    assert_eq!(json(&s), "[[1,2],[3,4]]");
}

#[test]
fn an_array_is_made_of_what_the_input_says() {
    let s = Store::new();
    let args =
        ["--create", "--chunks", "2,2", "--codec", "gzip", "--dims", "a,b", "--fill", "1", "--append", "a"];
    for _ in 0..2 {
        write(&s, "a.npy", npy("'>i2'", false, "(1, 2)", &[0, 1, 0, 2]), &args).text();
    }
    assert_eq!(json(&s), "[[1,2],[1,2]]");
    write(&s, "b.raw", i16s(&[1, 2, 3]), &["--create", "--overwrite", "--dtype", "int16", "--shape", "3"])
        .text();
    assert_eq!(json(&s), "[1,2,3]");
    let s = Store::new();
    for (file, bytes, args, words) in [
        ("a.raw", &b"1"[..], &["--create", "--shape", "1"][..], "--dtype"),
        ("a.raw", b"1", &["--create", "--dtype", "u1"], "--shape"),
        ("a.json", b"[1]", &["--create"], "--dtype"),
        ("a.json", b"[1]", &["--create", "--dtype", "u1", "--start", "1"], "create it first"),
        ("a.json", b"[1]", &["--chunks", "1"], "--create"),
    ] {
        let run = write(&s, file, bytes, args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.err);
        assert!(run.err.contains(words), "{args:?}: {}", run.err);
    }
    // Nothing was made for an input that is not good.
    assert_eq!(write(&s, "a.json", "[1,[2]]", &["--create", "--dtype", "u1"]).code, 4);
    assert_eq!(s.zaro(&["info", "@"]).code, 3);
}

#[test]
fn chunks_of_fill_value_are_left_out() {
    let s = made("int16", "4");
    write(&s, "a.json", "[0,0,1,0]", &[]).text();
    assert!(!s.file("x/c/0").exists() && s.file("x/c/1").exists());
    write(&s, "a.json", "[0,0,0,0]", &["--keep-fill", "--fsync", "--alone"]).text();
    assert!(s.file("x/c/0").exists());
    write(&s, "a.json", "[0,0,0,0]", &[]).text();
    assert!(!s.file("x/c/0").exists() && !s.file("x/c/1").exists());
}

#[test]
fn what_does_not_fit_is_refused_with_both_shapes() {
    let s = made("int16", "2,3");
    let wrong = npy("'<i2'", false, "(3, 2)", &i16s(&[0; 6]));
    for (file, bytes, args, code, words) in [
        ("a.npy", &wrong[..], &[][..], 2, "[3, 2], the array [2, 3]"),
        ("a.npy", &wrong, &["--select", "0,:"], 2, "[3, 2], the selection [3]"),
        ("a.npy", &wrong, &["--start", "1,1"], 2, "reach beyond"),
        ("a.npy", &wrong, &["--append", "w"], 2, "there is no dimension"),
        ("a.npy", &wrong, &["--append", "z", "--start", "0,0"], 2, "--append"),
        ("a.npy", &wrong[..20], &[], 4, "numpy"),
        ("a.npy", b"hello world", &[], 4, "numpy"),
        ("a.npy", &npy("'|O'", false, "(2, 3)", b"x"), &[], 5, "pickle"),
        ("a.npy", &npy("'<f16'", false, "(2, 3)", b"x"), &[], 5, "long double"),
        ("a.npy", &npy("'<i2'", false, "(2, 3)", b"x"), &[], 2, "1 bytes"),
        ("a.npy", &npy("'<i2'", false, "(4294967296, 4294967296)", b"x"), &[], 2, "4294967296"),
        ("a.raw", &[0; 11], &[], 2, "11 bytes"),
        ("a.csv", b"1,2\n3,4\n", &[], 2, "[2, 2], the array [2, 3]"),
        ("a.csv", b"1,2,3\n4,5\n", &[], 4, "line 2 has 2 cells"),
        ("a.csv", b"1,2,3\n4,5,x\n", &[], 4, "line 2: \"x\""),
        ("a.json", b"[[1,2],[3,4]]", &[], 2, "[2, 2], the array [2, 3]"),
        ("a.json", b"[[1,2,3],[3,4]]", &[], 2, "[1]"),
        ("a.json", b"[[1,2,3],[3,4,70000]]", &[], 4, "70000"),
        ("a.json", b"[[1,2,3", &[], 4, "JSON"),
        ("a.txt", b"", &[], 2, "--input-format"),
    ] {
        let run = write(&s, file, bytes, args);
        assert_eq!(run.code, code, "{file} {args:?}: {}", run.err);
        assert!(run.err.contains(words) && run.out.is_empty(), "{file} {args:?}: {}", run.err);
    }
    assert_eq!(json(&s), "[[0,0,0],[0,0,0]]");
    s.put("a.npy", &wrong);
    let from = s.file("a.npy");
    let from = from.to_str().unwrap();
    for (args, code) in [
        (&["write", "@", "none", "--from", from][..], 3),
        (&["write", "@", "", "--from", from], 3),
        (&["write", "@", "x", "--from", "/no/such/file.npy"], 3),
        (&["write", "@", "x"], 2),
    ] {
        assert_eq!(s.zaro(args).code, code, "{args:?}");
    }
    assert_eq!(zaro(&["write", "https://example.org/x.zarr", "--from", from]).code, 5);
}

#[test]
fn every_number_survives_json_and_csv() {
    for (dtype, text) in [
        ("uint64", "[18446744073709551615,0]"),
        ("int64", "[-9223372036854775808,9223372036854775807]"),
        ("float64", "[1e-320,-0.0]"),
        ("float32", "[0.10000000149011612,\"NaN\"]"),
        ("complex64", "[[1.5,-2.0],[\"Infinity\",\"NaN\"]]"),
        ("bool", "[true,false]"),
        ("bytes", "[\"AAECAw==\",\"\"]"),
        ("r16", "[\"AAE=\",\"/wA=\"]"),
        ("timedelta64[ms]", "[-5,7]"),
        ("bfloat16", "[1.5,\"-Infinity\"]"),
        ("int2", "[-2,1]"),
    ] {
        let s = made(dtype, "2");
        write(&s, "a.json", text, &[]).text();
        assert_eq!(json(&s), text, "{dtype}");
        let csv = s.zaro(&["read", "@", "x", "--format", "csv"]).out;
        s.zaro(&["create", "@", "x", "--shape", "2", "--dtype", dtype, "--overwrite"]).text();
        write(&s, "a.csv", &csv, &[]).text();
        assert_eq!(json(&s), text, "{dtype}");
        // numpy's files hold them too, some as bare bytes.
        if dtype != "bytes" {
            let npy = s.zaro(&["read", "@", "x", "--format", "npy", "-o", "-"]).out;
            s.zaro(&["create", "@", "x", "--shape", "2", "--dtype", dtype, "--overwrite"]).text();
            write(&s, "a.npy", &npy, &[]).text();
            assert_eq!(json(&s), text, "{dtype}");
        }
    }
}

#[test]
fn a_number_beyond_a_float_is_refused() {
    let s = Store::new();
    s.put("x.json", "[1e39]").put("x.csv", "-1e400\n").put("inf.json", r#"["Infinity"]"#);
    s.zaro(&["create", "@:/a.zarr", "--shape", "1", "--dtype", "float32"]).text();
    for from in ["@:/x.json", "@:/x.csv"] {
        s.zaro(&["write", "@:/a.zarr", "--from", from]).fails(4, "is not a value of type float32");
    }
    s.zaro(&["write", "@:/a.zarr", "--from", "@:/inf.json"]).text();
    s.zaro(&["create", "@:/b.zarr", "--shape", "1", "--dtype", "float32", "--fill", "1e39"])
        .fails(2, "float32");
}

#[test]
fn a_file_that_is_not_there_is_named_once() {
    let s = made("int16", "4");
    let run = s.zaro(&["write", "@", "x", "--from", "@:/nope.npy"]);
    assert_ne!(run.code, 0);
    assert_eq!(run.err.matches("nope.npy").count(), 1, "{}", run.err);
}
