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
    s.array(
        "",
        &[2],
        "int64",
        "0",
        r#","attributes":{"units":"days since 1850-01-01"}"#,
        &i64s(&[i64::MIN, 1]),
    );
    let run = s.zaro(&["read", "@", "--cf", "--format", "json"]);
    assert!(
        run.err.contains("1 time out of range") && run.err.contains("-9223372036854775808"),
        "{}",
        run.err
    );
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
        (r#""_FillValue":"none""#, "_FillValue is not applied: \"none\" is no value of type int64"),
        (r#""missing_value":[3,{}]"#, "missing_value is not applied: {} is no value"),
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
