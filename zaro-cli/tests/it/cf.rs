//! `zaro read --cf`: packing, missing values and times of the CF conventions.

use crate::common::{Store, f32s, f64s, i16s, i64s, v2_document};

fn cf(s: &Store) -> String {
    s.zaro(&["read", "@", "--cf", "--format", "json"]).text()
}

#[test]
fn packed_numbers_are_unpacked() {
    let s = Store::new();
    let attributes =
        r#","attributes":{"scale_factor":0.5,"add_offset":10,"_FillValue":-999,"missing_value":[-1,-2]}"#;
    s.array("", &[4], "int16", "0", attributes, &i16s(&[0, 3, -999, -2]));
    assert_eq!(cf(&s), "[10.0,11.5,\"NaN\",\"NaN\"]\n");
    assert_eq!(s.zaro(&["read", "@", "--format", "json"]).text(), "[0,3,-999,-2]\n");
    let npy = s.zaro(&["read", "@", "--cf", "--format", "npy"]).out;
    assert!(String::from_utf8_lossy(&npy).contains("'<f8'"));
}

#[test]
fn fill_values_come_in_many_spellings() {
    let s = Store::new();
    // float32's 1e20 is not float64's.
    s.array("", &[2], "float32", "0", r#","attributes":{"_FillValue":1e20}"#, &f32s(&[1e20, 1.5]));
    assert_eq!(cf(&s), "[\"NaN\",1.5]\n");
    // xarray writes base64 of a little-endian float64: 1.5.
    s.array("", &[2], "float32", "0", r#","attributes":{"_FillValue":"AAAAAAAA+D8="}"#, &f32s(&[1.5, 2.5]));
    assert_eq!(cf(&s), "[\"NaN\",2.5]\n");
    s.array(
        "",
        &[2],
        "float64",
        "0",
        r#","attributes":{"_FillValue":"NaN","missing_value":-1.0}"#,
        &f64s(&[f64::NAN, -1.0]),
    );
    assert_eq!(cf(&s), "[\"NaN\",\"NaN\"]\n");
    s.array("", &[2], "int8", "0", r#","attributes":{"_Unsigned":"true","_FillValue":-1}"#, &[255, 200]);
    assert_eq!(cf(&s), "[\"NaN\",200.0]\n");
}

#[test]
fn xarray_keeps_the_fill_value_of_v2_in_the_array() {
    let s = Store::new();
    s.put(".zarray", v2_document(&[2], r#""<i2""#, "-5")).put("0", i16s(&[-5, 6]));
    assert_eq!(cf(&s), "[-5,6]\n");
    s.put(".zattrs", r#"{"_ARRAY_DIMENSIONS":["x"]}"#);
    assert_eq!(cf(&s), "[\"NaN\",6.0]\n");
}

#[test]
fn times_are_iso_8601_in_their_calendar() {
    let s = Store::new();
    let attributes = r#","attributes":{"units":"days since 1850-01-01","calendar":"noleap","_FillValue":-1}"#;
    s.array("", &[3], "int64", "0", attributes, &i64s(&[0, 59, -1]));
    assert_eq!(cf(&s), "[\"1850-01-01T00:00:00\",\"1850-03-01T00:00:00\",\"NaT\"]\n");
    let attributes = r#","attributes":{"units":"hours since 2000-01-01 06:00","calendar":"360_day"}"#;
    s.array("", &[1, 2], "float64", "0", attributes, &f64s(&[0.25, 24.0 * 59.0]));
    assert_eq!(cf(&s), "[[\"2000-01-01T06:15:00\",\"2000-02-30T06:00:00\"]]\n");
    assert_eq!(
        s.zaro(&["read", "@", "--cf", "--format", "csv"]).text(),
        "2000-01-01T06:15:00,2000-02-30T06:00:00\n"
    );
}

#[test]
fn times_that_are_no_dates_are_counted_once() {
    let s = Store::new();
    let attributes = r#","attributes":{"units":"days since 1850-01-01","_FillValue":-1.0}"#;
    let times = [0.0, 9.969_209_968_386_869e36, f64::NEG_INFINITY, f64::NAN, -1.0, 1e300];
    s.array("", &[6], "float64", "0", attributes, &f64s(&times));
    // A numpy file is read twice, for the width of its text; small pieces are several reads.
    for args in [&["--format", "json"][..], &["--format", "npy"], &["--format", "csv", "--memory", "8"], &[]]
    {
        let run = s.zaro(&[&["read", "@", "--cf"], args].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.err.lines().count(), 1, "{args:?}: {}", run.err);
        assert!(run.err.contains("/: 3 times out of range"), "{args:?}: {}", run.err);
        assert!(run.err.contains("the first is 9.969209968386869e36"), "{args:?}: {}", run.err);
    }
    assert_eq!(cf(&s), "[\"1850-01-01T00:00:00\",\"NaT\",\"NaT\",\"NaT\",\"NaT\",\"NaT\"]\n");
    let attributes = r#","attributes":{"units":"days since 1850-01-01"}"#;
    s.array("", &[2], "int64", "0", attributes, &i64s(&[i64::MIN + 1, 1]));
    let run = s.zaro(&["read", "@", "--cf", "--format", "json"]);
    assert!(
        run.err.contains("1 time out of range") && run.err.contains("-9223372036854775807"),
        "{}",
        run.err
    );
    assert_eq!(run.text(), "[\"NaT\",\"1850-01-02T00:00:00\"]\n");
    // numpy's NaT is no number.
    s.array("", &[2], "int64", "0", attributes, &i64s(&[i64::MIN, 1]));
    let run = s.zaro(&["read", "@", "--cf", "--format", "json"]);
    assert_eq!(run.err, "");
    assert_eq!(run.text(), "[\"NaT\",\"1850-01-02T00:00:00\"]\n");
}

#[test]
fn what_cannot_be_decoded_is_left_alone_with_a_warning() {
    let s = Store::new();
    s.array("", &[1], "int64", "0", r#","attributes":{"units":"months since 2000-01-01"}"#, &i64s(&[3]));
    let run = s.zaro(&["read", "@", "--cf", "--format", "json"]);
    assert_eq!(run.out, b"[3]\n");
    assert!(run.err.contains("no fixed length"), "{}", run.err);
    for (attributes, words) in [
        (r#""scale_factor":"half""#, "scale_factor is not applied: \"half\" is not a number"),
        (r#""add_offset":[1,2]"#, "add_offset is not applied: [1,2] is not a number"),
        (r#""_FillValue":"none""#, "_FillValue is not applied: \"none\" is not a value of type int64"),
        (r#""missing_value":[3,{}]"#, "missing_value is not applied: {} is not a value"),
    ] {
        s.array("", &[1], "int64", "0", &format!(r#","attributes":{{{attributes}}}"#), &i64s(&[4]));
        let run = s.zaro(&["read", "@", "--cf", "--format", "csv"]);
        assert!(run.err.lines().count() == 1 && run.err.contains(words), "{attributes}: {}", run.err);
        assert!(run.text().starts_with('4'), "{attributes}");
    }
    s.array("", &[1], "int64", "0", r#","attributes":{"_FillValue":null}"#, &i64s(&[4]));
    assert_eq!(s.zaro(&["read", "@", "--cf"]).err, "");
    s.array("", &[1], "bool", "false", r#","attributes":{"scale_factor":2}"#, &[1]);
    let run = s.zaro(&["read", "@", "--cf", "--format", "csv"]);
    assert!(run.err.contains("scale_factor is not applied to elements of type bool"), "{}", run.err);
}

#[test]
fn nothing_of_a_nanosecond_is_cut() {
    let s = Store::new();
    let attributes = r#","attributes":{"units":"nanoseconds since 1970-01-01"}"#;
    s.array("", &[3], "int64", "0", attributes, &i64s(&[1, 1500, 1_500_000_000_000_000_999]));
    assert_eq!(
        cf(&s),
        "[\"1970-01-01T00:00:00.000000001\",\"1970-01-01T00:00:00.0000015\",\"2017-07-14T02:40:00.000000999\"]\n"
    );
}

#[test]
fn references_are_read_as_they_are_meant() {
    let s = Store::new();
    for (units, wanted) in [
        ("days since 20000101", "2000-01-02T00:00:00"),
        ("Days Since 2000-01-01", "2000-01-02T00:00:00"),
        ("DAYS SINCE 2000/1/1", "2000-01-02T00:00:00"),
    ] {
        let attributes = format!(r#","attributes":{{"units":"{units}"}}"#);
        s.array("", &[1], "int64", "0", &attributes, &i64s(&[1]));
        assert_eq!(cf(&s), format!("[\"{wanted}\"]\n"), "{units}");
    }
    for units in ["days since 2000-01-01 25:61:61", "days since 0000-01-01", "days since 2000010112"] {
        let attributes = format!(r#","attributes":{{"units":"{units}"}}"#);
        s.array("", &[1], "int64", "0", &attributes, &i64s(&[1]));
        let run = s.zaro(&["read", "@", "--cf", "--format", "json"]);
        assert!(run.err.contains("is not a date of this calendar"), "{units}: {}", run.err);
        assert_eq!(run.text(), "[1]\n");
    }
}

/// CF: bounds need not repeat the units and the calendar of what they bound.
#[test]
fn bounds_have_the_units_of_what_they_bound() {
    let s = Store::new();
    s.group("").group("g");
    let time = r#","attributes":{"units":"days since 2000-01-01","calendar":"360_day","bounds":"time_bnds"}"#;
    s.array("g/time", &[1], "int64", "0", time, &i64s(&[15]));
    s.array("g/time_bnds", &[1, 2], "int64", "0", "", &i64s(&[0, 59]));
    let read = |name: &str| s.zaro(&["read", "@", name, "--cf", "--format", "json"]).text();
    assert_eq!(read("g/time_bnds"), "[[\"2000-01-01T00:00:00\",\"2000-02-30T00:00:00\"]]\n");
    // Their own words come first, and a calendar is inherited by itself.
    let own = r#","attributes":{"units":"days since 1999-01-01"}"#;
    s.array("g/time_bnds", &[1, 2], "int64", "0", own, &i64s(&[0, 59]));
    assert_eq!(read("g/time_bnds"), "[[\"1999-01-01T00:00:00\",\"1999-02-30T00:00:00\"]]\n");
    // Bounds of what is no time, and of another group, stay numbers.
    s.array(
        "lat",
        &[1],
        "int64",
        "0",
        r#","attributes":{"units":"degrees","bounds":"time_bnds"}"#,
        &i64s(&[1]),
    );
    s.array("time_bnds", &[1, 2], "int64", "0", "", &i64s(&[0, 59]));
    assert_eq!(read("time_bnds"), "[[0,59]]\n");
}

/// NetCDF's old way to store texts.
#[test]
fn letters_become_texts() {
    let s = Store::new();
    s.group("");
    let letters = |name: &str, shape: &[u64], names: &str, bytes: &[u8], attributes: &str| {
        let extra = format!(r#","dimension_names":{names},"attributes":{attributes}"#);
        let t = r#"{"name":"null_terminated_bytes","configuration":{"length_bytes":1}}"#;
        s.array(name, shape, t, "\"AA==\"", &extra, bytes);
    };
    letters("station", &[3, 4], r#"["station","len"]"#, b"Oslobe\0\0Rio\0", "{}");
    let read = |args: &[&str]| s.zaro(&[&["read", "@", "station", "--cf"], args].concat());
    assert_eq!(read(&["--format", "json"]).text(), "[\"Oslo\",\"be\",\"Rio\"]\n");
    assert_eq!(read(&["--format", "csv", "--long"]).text(), "station,value\n0,Oslo\n1,be\n2,Rio\n");
    assert_eq!(read(&["--format", "csv", "--memory", "1"]).text(), "Oslo\nbe\nRio\n");
    assert_eq!(read(&["--select", "::-1", "--format", "csv"]).text(), "Rio\nbe\nOslo\n");
    assert_eq!(read(&["--select", "0,1:3", "--format", "csv"]).text(), "sl\n");
    assert_eq!(read(&["--select", ":,0", "--format", "csv"]).text(), "O\nb\nR\n");
    for order in ["C", "F"] {
        let npy = read(&["--format", "npy", "--order", order]).out;
        assert!(
            String::from_utf8_lossy(&npy).contains("'|S4'") && npy.ends_with(b"Oslobe\0\0Rio\0"),
            "{order}"
        );
    }
    letters("latin", &[2], r#"["n"]"#, b"\xe9t", r#"{"_Encoding":"latin-1"}"#);
    assert_eq!(s.zaro(&["read", "@", "latin", "--cf", "--format", "json"]).text(), "\"ét\"\n");
    // A dimension that numbers use, too, is not one of letters.
    s.array("other", &[4], "int64", "0", r#","dimension_names":["len"]"#, &i64s(&[1, 2, 3, 4]));
    assert!(read(&["--format", "csv"]).text().starts_with("O,s,l,o\n"));
}

#[test]
fn spans_of_time_and_truth() {
    let s = Store::new();
    let attributes = r#","attributes":{"units":"hours","dtype":"timedelta64[ns]","_FillValue":7}"#;
    s.array("", &[3], "int64", "0", attributes, &i64s(&[2, i64::MIN, 7]));
    assert_eq!(cf(&s), "[\"PT7200S\",\"NaT\",\"NaT\"]\n");
    let npy = s.zaro(&["read", "@", "--cf", "--format", "npy"]).out;
    assert!(String::from_utf8_lossy(&npy).contains("'<m8[ns]'"));
    assert!(npy.ends_with(&i64s(&[7_200_000_000_000, i64::MIN, i64::MIN])));
    // Without the word of xarray, hours are numbers.
    s.array("", &[1], "int64", "0", r#","attributes":{"units":"hours"}"#, &i64s(&[2]));
    assert_eq!(cf(&s), "[2]\n");
    let attributes = r#","attributes":{"units":"seconds","dtype":"timedelta64[s]"}"#;
    s.array("", &[2], "float64", "0", attributes, &f64s(&[0.1, f64::NAN]));
    assert_eq!(cf(&s), "[\"PT0.1S\",\"NaT\"]\n");
    s.array("", &[2], "int8", "0", r#","attributes":{"dtype":"bool"}"#, &[1, 0]);
    assert_eq!(cf(&s), "[true,false]\n");
}

/// As wide as xarray makes them.
#[test]
fn missing_values_make_no_wider_floats_than_they_must() {
    let s = Store::new();
    let descr = |s: &Store| {
        let npy = s.zaro(&["read", "@", "--cf", "--format", "npy"]).out;
        let text = String::from_utf8_lossy(&npy).into_owned();
        text.split('\'').nth(3).unwrap_or_default().to_owned()
    };
    for (t, bytes, wanted) in [
        ("int8", &[1u8, 2][..], "<f4"),
        ("uint16", &[1, 0, 2, 0], "<f4"),
        ("int32", &[1, 0, 0, 0, 2, 0, 0, 0], "<f8"),
        ("float16", &[0, 0x3c, 0, 0x40], "<f2"),
    ] {
        s.array("", &[2], t, "0", r#","attributes":{"missing_value":2}"#, bytes);
        assert_eq!(cf(&s), "[1.0,\"NaN\"]\n", "{t}");
        assert_eq!(descr(&s), wanted, "{t}");
        s.array("", &[2], t, "0", r#","attributes":{"scale_factor":0.5,"missing_value":2}"#, bytes);
        assert_eq!(cf(&s), "[0.5,\"NaN\"]\n", "{t}");
        assert_eq!(descr(&s), "<f8", "{t}");
    }
    s.array("", &[2], "int16", "0", r#","attributes":{"_FillValue":"NaN"}"#, &i16s(&[1, 2]));
    assert_eq!(descr(&s), "<i2");
}

#[test]
fn the_fill_value_of_v2_counts_before_the_attribute() {
    let s = Store::new();
    s.put(".zarray", v2_document(&[3], r#""<i2""#, "-5")).put("0", i16s(&[-5, 6, 7]));
    s.put(".zattrs", r#"{"_ARRAY_DIMENSIONS":["x"],"_FillValue":7}"#);
    let run = s.zaro(&["read", "@", "--cf", "--format", "json"]);
    assert!(run.err.contains("the fill value -5 of this V2 array is used as _FillValue"), "{}", run.err);
    assert_eq!(run.text(), "[\"NaN\",6.0,7.0]\n");
    // No fill value is none, whatever missing chunks read as.
    s.put(".zarray", v2_document(&[3], r#""<i2""#, "null")).put("0", i16s(&[0, 6, 7]));
    assert_eq!(cf(&s), "[0.0,6.0,\"NaN\"]\n");
    s.put(".zattrs", r#"{"_ARRAY_DIMENSIONS":["x"]}"#);
    assert_eq!(cf(&s), "[0,6,7]\n");
    assert!(s.zaro(&["meta", "@", "--json"]).text().contains("\"fill_value\": null"));
}

#[test]
fn missing_texts_are_empty() {
    let s = Store::new();
    let text = |words: &[&str]| {
        let mut out = u32::try_from(words.len()).unwrap().to_le_bytes().to_vec();
        for word in words {
            out.extend(u32::try_from(word.len()).unwrap().to_le_bytes());
            out.extend(word.as_bytes());
        }
        out
    };
    let attributes = r#","attributes":{"_FillValue":"NA","missing_value":["-"]}"#;
    s.array("", &[3], "string", "\"\"", attributes, &text(&["NA", "ja", "-"]));
    assert_eq!(cf(&s), "[\"\",\"ja\",\"\"]\n");
}

#[test]
fn info_reads_what_xarray_wrote() {
    let s = Store::new();
    s.array("", &[1], "float64", "0", r#","attributes":{"_FillValue":"AAAAAAAA+H8="}"#, &f64s(&[1.0]));
    let text = s.zaro(&["info", "@"]).text();
    assert!(text.contains("@_FillValue NaN"), "{text}");
}

/// A V2 variable, read with `--cf`, and what is said of it.
fn decoded(dtype: &str, fill: &str, attributes: &str, chunk: &[u8], n: u64) -> (String, String) {
    let s = Store::new();
    s.put("a.zarr/.zarray", v2_document(&[n], dtype, fill)).put("a.zarr/0", chunk);
    let more = if attributes.is_empty() { String::new() } else { format!(",{attributes}") };
    s.put("a.zarr/.zattrs", format!(r#"{{"_ARRAY_DIMENSIONS":["x"]{more}}}"#));
    let run = s.zaro(&["read", "@:/a.zarr", "--cf", "--format", "json"]);
    (run.err.clone(), run.text())
}

#[test]
fn complex_numbers_and_truths_may_be_missing() {
    let complex = f64s(&[1.0, 1.0, -9.0, 0.0]);
    assert_eq!(decoded(r#""<c16""#, "[-9.0,0.0]", "", &complex, 2).1, "[[1.0,1.0],[\"NaN\",\"NaN\"]]\n");
    let named = r#""missing_value":-9.0"#;
    assert_eq!(decoded(r#""<c16""#, "null", named, &complex, 2).1, "[[1.0,1.0],[\"NaN\",\"NaN\"]]\n");
    assert_eq!(decoded(r#""|b1""#, "false", "", &[1, 0], 2).1, "[1.0,\"NaN\"]\n");
    assert_eq!(decoded(r#""|b1""#, "null", "", &[1, 0], 2).1, "[true,false]\n");
    // What is missing is true, as xarray makes it.
    assert_eq!(decoded(r#""|i1""#, "-9", r#""dtype":"bool""#, &[0, 1, 247], 3).1, "[false,true,true]\n");
}

#[test]
fn references_may_have_tabs_commas_and_names_of_zones() {
    let want = "[\"2000-01-01T00:00:00\",\"2000-01-02T00:00:00\"]\n";
    let numbers = i64s(&[0, 1]);
    for reference in [
        "days\\tsince 2000-01-01",
        "days since\\t2000-01-01\\t00:00",
        "days since 2000-01-01,00:00",
        "days  since  2000-01-01",
    ] {
        let (said, text) = decoded(r#""<i8""#, "null", &format!(r#""units":"{reference}""#), &numbers, 2);
        assert_eq!((said.as_str(), text.as_str()), ("", want), "{reference}");
    }
    let (said, text) =
        decoded(r#""<i8""#, "null", r#""units":"days since 2000-01-01 00:00:00 EST""#, &numbers, 2);
    assert!(said.contains("EST of the reference is not applied"), "{said}");
    assert_eq!(text, want);
}
