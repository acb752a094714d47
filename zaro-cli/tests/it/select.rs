//! `--sel` by the values of coordinates, `--points`, copies of parts of data sets, `info`, `stat` and `validate --data` of
//! them. `conformance/select_differential.py` compares many more with xarray.

use crate::common::{Store, f32s, f64s, i16s, i64s, v3_document, zaro};

/// A field over days of a leapless year, decreasing latitudes and packed longitudes.
fn field() -> Store {
    let s = Store::new();
    let dims = |names: &str, more: &str| format!(r#","dimension_names":[{names}],"attributes":{{{more}}}"#);
    s.group("");
    let units = r#""units":"days since 2000-02-27","calendar":"noleap""#;
    s.array("time", &[4], "int64", "0", &dims(r#""time""#, units), &i64s(&[0, 1, 2, 3]));
    let units = r#""units":"degrees_north","long_name":"latitude""#;
    s.array("lat", &[3], "float32", "0", &dims(r#""lat""#, units), &f32s(&[10.1, 0.0, -10.1]));
    let packing = r#""scale_factor":0.1,"add_offset":100.0"#;
    s.array("lon", &[2], "int16", "0", &dims(r#""lon""#, packing), &i16s(&[3, 7]));
    s.array("lat2d", &[3, 2], "uint8", "0", &dims(r#""lat","lon""#, ""), &[0; 6]);
    let numbers: Vec<f64> = (0..24).map(f64::from).collect();
    s.array(
        "t",
        &[4, 3, 2],
        "float64",
        "0",
        &dims(r#""time","lat","lon""#, r#""units":"K""#),
        &f64s(&numbers),
    );
    s
}

fn read(s: &Store, more: &[&str]) -> String {
    s.zaro(&[&["read", "@", "t", "--format", "csv"], more].concat()).text()
}

#[test]
fn values_of_coordinates_select() {
    let s = field();
    let sel = |text: &str| read(&s, &["--sel", text]);
    // The day after 28 February is 1 March; in a model's calendar a date keeps its dimension.
    assert_eq!(sel("time=2000-03-01,lat=10.1"), "12.0,13.0\n");
    assert_eq!(sel("time=2000-03-01,lat=10.1,lon=100.3"), "12.0\n");
    assert_eq!(sel("time=2000-02,lat=-10.1,lon=100.7"), "5.0\n11.0\n");
    for slice in ["-5:11", "11:-5", "0:", "10.1:0"] {
        let rows = read(&s, &["--isel", "time=0", "--sel", &format!("lat={slice}")]);
        let want = if slice == "0:" { "2.0,3.0\n4.0,5.0\n" } else { "0.0,1.0\n2.0,3.0\n" };
        assert_eq!(rows, want, "{slice}");
    }
    assert_eq!(sel("time=2000-02-27,lat=[0,10.1],lon=100.3"), "2.0,0.0\n");
    let near = ["--isel", "time=0", "--sel", "lat=-7,lon=100.6", "--method", "nearest"];
    assert_eq!(read(&s, &near), "5.0\n");
}

#[test]
fn what_is_not_there_is_said() {
    let s = field();
    let fails = |text: &str, message: &str| {
        s.zaro(&["read", "@", "t", "--sel", text]).fails(2, message);
    };
    fails("lat=0.5", "the nearest is 0.0");
    fails("lat=0.5", "--method nearest");
    fails("lat=20:30", "its 3 values range from 10.1 to -10.1");
    fails("time=2001", "2000-02-27 to 2000-03-02");
    fails("time=2000-02-29", "is not a date");
    fails("lat=north", "is not a number");
    fails("lat2d=3", "a coordinate of 2 dimensions (lat, lon)");
    fails("lot=3", "did you mean \"lat\"?");
    fails("lat=1,lat=2", "named twice");
    fails("lat", "NAME=VALUE");
    fails("", "NAME=VALUE");
    fails("lat=[]", "an empty list selects nothing");
    s.zaro(&["read", "@", "t", "--points", "lat=0,lat=0"]).fails(2, "\"lat\" is named twice");
    for empty in ["", "lat,lon\n"] {
        s.put("points.csv", empty);
        let file = s.file("points.csv");
        s.zaro(&["read", "@", "t", "--points", file.to_str().unwrap()]).fails(2, "there are no points");
    }
    s.array("bare", &[2], "uint8", "0", r#","dimension_names":["x"]"#, &[1, 2]);
    s.zaro(&["read", "@", "bare", "--sel", "x=1"]).fails(2, "no coordinate");
    s.zaro(&["read", "@", "bare", "--sel", "x=1"]).fails(2, "--isel selects by index");
    s.zaro(&["read", "@", "t", "--sel", "lat=0", "--select", "0"]).fails(2, "--select");
}

#[test]
fn times_that_cannot_be_decoded_are_not_looked_up_by_date() {
    for (units, calendar, why) in [
        ("months since 1970-01-01", "standard", "fixed length"),
        ("days since 1970-01-01", "mayan", "unknown calendar"),
        ("days since the flood", "standard", "is not a date"),
    ] {
        let s = field();
        let attributes = format!(
            r#","dimension_names":["time"],"attributes":{{"units":"{units}","calendar":"{calendar}"}}"#
        );
        s.array("time", &[4], "int64", "0", &attributes, &i64s(&[0, 1, 2, 3]));
        for more in [
            &["--sel", "time=1980", "--method", "nearest"][..],
            &["--points", "time=1980,lat=0", "--method", "nearest"],
        ] {
            s.zaro(&[&["read", "@", "t"], more].concat()).fails(2, why);
        }
        assert_eq!(read(&s, &["--sel", "time=1,lat=0"]), "8.0\n9.0\n");
        let info = s.zaro(&["info", "@"]).text();
        assert!(info.contains(units), "{info}");
    }
}

#[test]
fn a_point_is_one_value() {
    let s = field();
    let points = ["--isel", "time=0:2", "--points", "lat=0,lon=100.7", "--points", "lon=100.3,lat=0"];
    s.zaro(&[&["read", "@", "t"], &points[..]].concat()).fails(2, "the same dimensions");
    let points = ["--isel", "time=0:2", "--points", "lat=0,lon=100.7", "--points", "lat=10.1,lon=100.3"];
    assert_eq!(read(&s, &points), "3.0,9.0\n0.0,6.0\n");
    let long = read(&s, &[&points[..], &["--coords"]].concat());
    assert_eq!(long.lines().next(), Some("lat,lon,time,t"));
    assert_eq!(long.lines().nth(1), Some("0.0,100.7,2000-02-27,3.0"));
    // The coordinate that was chosen, not the words of the user.
    let near = ["--isel", "time=0", "--points", "lat=1,lon=100.6", "--method", "nearest", "--coords"];
    assert_eq!(read(&s, &near), "lat,lon,time,t\n0.0,100.7,2000-02-27,3.0\n");
    s.put("points.csv", "time,lat,lon\n3,-1,0\n0,0,1\n3,2,1\n");
    let file = s.file("points.csv");
    assert_eq!(read(&s, &["--ipoints", file.to_str().unwrap()]), "22.0\n1.0\n23.0\n");
    let text = read(&s, &["--ipoints", "time=3,lat=-1,lon=0", "--coords"]);
    assert_eq!(text, "time,lat,lon,t\n2000-03-02,-10.1,100.3,22.0\n");
}

#[test]
fn a_bad_point_is_named_by_its_line() {
    let s = field();
    let file = s.file("points.csv");
    let fails = |points: &str, message: &str| {
        s.put("points.csv", points);
        for method in ["exact", "nearest", "pad", "backfill"] {
            let words = ["read", "@", "t", "--points", file.to_str().unwrap(), "--method", method];
            s.zaro(&words).fails(2, message);
        }
    };
    fails("lat,lon\n0,100.3\n\n0,nan\n", "line 4 of the points: lon=nan");
    fails("lat,lon\n\n0,100.3\nx,100.3\n", "line 4 of the points: lat=x");
    fails("lat,lon\n\n0,100.3\n0\n", "line 4 of the points");
    s.put("points.csv", "lat,lon\n0,9\n");
    s.zaro(&["read", "@", "t", "--ipoints", file.to_str().unwrap()]).fails(2, "line 2 of the points");
}

#[test]
fn texts_with_commas_are_points() {
    let s = Store::new();
    let names = r#","dimension_names":["station"]"#;
    // In vlen-utf8: how many, then each with its length.
    let mut texts = 2u32.to_le_bytes().to_vec();
    for text in ["Paris, TX", "Casey"] {
        texts.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        texts.extend(text.as_bytes());
    }
    s.group("").array("station", &[2], "string", r#""""#, names, &texts);
    s.array("t", &[2], "uint8", "0", names, &[5, 6]);
    s.put("points.csv", "station\nCasey\n\"Paris, TX\"\n");
    let file = s.file("points.csv");
    for points in [
        &["--points", "station=Casey", "--points", r#"station="Paris, TX""#][..],
        &["--points", file.to_str().unwrap()],
    ] {
        let text = read(&s, &[points, &["--coords"]].concat());
        assert_eq!(text, "station,t\nCasey,6\n\"Paris, TX\",5\n");
    }
}

#[test]
fn lines_have_their_coordinates() {
    let s = field();
    let text = read(&s, &["--sel", "time=2000-03-01,lat=0", "--coords"]);
    assert_eq!(text, "time,lat,lon,t\n2000-03-01,0.0,100.3,14.0\n2000-03-01,0.0,100.7,15.0\n");
}

#[test]
fn times_of_a_column_have_one_form() {
    let s = field();
    let units = r#","dimension_names":["time"],"attributes":{"units":"hours since 2001-03-01"}"#;
    s.array("time", &[4], "int64", "0", units, &i64s(&[23, 24, 25, 48]));
    let times = |more: &[&str]| {
        let text = read(&s, &[more, &["--coords"]].concat());
        text.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let want = ["2001-03-01T23:00:00", "2001-03-02T00:00:00", "2001-03-02T01:00:00", "2001-03-03T00:00:00"];
    assert_eq!(times(&["--isel", "lat=0,lon=0"]), want);
    assert_eq!(times(&["--points", "time=2001-03-02T00,lat=0,lon=100.3"]), want[1..2]);
}

#[test]
fn a_copy_of_a_part_takes_its_coordinates_along() {
    let s = field();
    let elsewhere = Store::new();
    let copy = elsewhere.file("part.zarr");
    let copy = copy.to_str().unwrap();
    let words = [
        "copy",
        "@",
        copy,
        "--vars",
        "t",
        "--sel",
        "lat=0,time=2000-02",
        "--isel",
        "lon=[1,0,1]",
        "--verify",
    ];
    assert_eq!(s.zaro(&words).code, 0);
    let read = |name: &str| zaro(&["read", copy, name, "--format", "json"]).text();
    assert_eq!(read("t"), "[[3.0,2.0,3.0],\n[9.0,8.0,9.0]]\n");
    assert_eq!(
        (read("lat"), read("lon"), read("time")),
        ("0.0\n".into(), "[7,3,7]\n".into(), "[0,1]\n".into())
    );
    let meta = zaro(&["meta", copy, "t", "--json"]).text();
    assert!(meta.contains(r#""coordinates": "lat""#), "{meta}");
    zaro(&["read", copy, "lat2d"]).fails(3, "no such node");
    let none = elsewhere.file("none.zarr");
    let fails = |words: [&str; 2], code: i32, message: &str| {
        s.zaro(&["copy", "@", none.to_str().unwrap(), words[0], words[1]]).fails(code, message);
    };
    fails(["--vars", "tt"], 3, "did you mean \"t\"?");
    // One array has no others to name.
    let run = s.zaro(&["copy", "@:/t", none.to_str().unwrap(), "--vars", "sst"]);
    assert!(run.code == 3 && !run.err.contains("there are"), "{} {}", run.code, run.err);
    fails(["--sel", "lta=1"], 2, "did you mean \"lat\"?");
    fails(["--sel", "lat=55"], 2, "no value of \"lat\"");
    assert!(!none.exists());
}

#[test]
fn info_says_what_a_data_set_holds() {
    let s = field();
    let text = s.zaro(&["info", "@"]).text();
    assert!(text.contains("dimensions lat: 3, lon: 2, time: 4\n"), "{text}");
    assert!(text.contains("latitude, degrees_north; 10.1 … -10.1, step -10.1\n"), "{text}");
    assert!(text.contains("calendar noleap; 2000-02-27 … 2000-03-02, step 1 d\n"), "{text}");
    let json = s.zaro(&["info", "@", "--json"]).text();
    assert!(json.contains(r#""first": "2000-02-27""#) && json.contains(r#""consolidated": false"#), "{json}");
}

#[test]
fn info_names_no_step_that_it_has_not_seen() {
    let s = Store::new();
    s.group("");
    let names = r#","dimension_names":["u"]"#;
    let line = |chunks: &[&[i64]]| {
        let (n, length) = (chunks.iter().map(|c| c.len()).sum::<usize>(), chunks[0].len());
        let document = v3_document(&[n as u64], &[length as u64], "int64", "0", names);
        s.put("u/zarr.json", document);
        for (i, chunk) in chunks.iter().enumerate() {
            s.put(&format!("u/c/{i}"), i64s(chunk));
        }
        s.zaro(&["info", "@"]).text()
    };
    // The ends fit a step of 1, what is between does not.
    let text = line(&[&[0, 1, 2], &[7, 7, 7], &[6, 7, 8]]);
    assert!(text.contains("0 … 8\n") && !text.contains("step"), "{text}");
    let text = line(&[&[0, 1, 2], &[3, 4, 5]]);
    assert!(text.contains("0 … 5, step 1\n"), "{text}");
    let text = line(&[&[0, 2, 1], &[3, 4, 5]]);
    assert!(!text.contains('…'), "{text}");
}

#[test]
fn stat_counts_what_is_missing() {
    let s = Store::new();
    let more = r#","dimension_names":["x"],"attributes":{"_FillValue":-9,"scale_factor":0.5}"#;
    s.array("", &[5], "int16", "7", more, &i16s(&[2, -9, 4, 7, 6]));
    let json: String = s.zaro(&["stat", "@", "--json"]).text().split_whitespace().collect();
    for part in [r#""chunks_present":1"#, r#""missing":1"#, r#""fill":1"#, r#""count":4"#, r#""min":"1.0""#] {
        assert!(json.contains(part), "{part} in {json}");
    }
    assert!(json.contains(r#""mean":2.375"#) && json.contains(r#""stored_bytes":10"#), "{json}");
    assert!(s.zaro(&["stat", "@"]).text().contains("█"));
}

#[test]
fn validate_reads_every_chunk_if_asked() {
    let s = field();
    s.put("lat/c/0", [1, 2, 3]);
    assert_eq!(s.zaro(&["validate", "@"]).code, 0);
    let run = s.zaro(&["validate", "@", "--data"]);
    let text = String::from_utf8_lossy(&run.out).into_owned();
    assert_eq!(run.code, 1, "{text}");
    assert!(text.contains("/lat: lat/c/0: ") && text.contains("[chunk/"), "{text}");
    assert!(text.contains("6 nodes, 5 chunks, 1 error"), "{text}");
}

#[test]
fn what_was_a_coordinate_stays_one_in_a_copy_of_some_variables() {
    let s = Store::new();
    let dims = |names: &str, more: &str| format!(r#","dimension_names":[{names}],"attributes":{{{more}}}"#);
    s.group("");
    s.array("x", &[2], "uint8", "0", &dims(r#""x""#, ""), &[1, 2]);
    s.array("y", &[3], "uint8", "0", &dims(r#""y""#, ""), &[1, 2, 3]);
    s.array("near", &[2], "uint8", "0", &dims(r#""x""#, ""), &[1, 2]);
    s.array("far", &[3], "uint8", "0", &dims(r#""y""#, ""), &[1, 2, 3]);
    s.array("t", &[2, 3], "uint8", "0", &dims(r#""x","y""#, r#""coordinates":"near far""#), &[0; 6]);
    s.array("c", &[2], "uint8", "0", &dims(r#""x""#, ""), &[0; 2]);
    let elsewhere = Store::new();
    for format in ["3", "2"] {
        let copy = elsewhere.file(&format!("part{format}.zarr"));
        let copy = copy.to_str().unwrap();
        let words = ["copy", "@", copy, "--vars", "c,far", "--zarr-format", format, "--verify"];
        assert_eq!(s.zaro(&words).code, 0);
        // `t`, which names both, is not there. As xarray: who has the dimensions names a coordinate, else the group does.
        let meta = |path: &str| zaro(&["meta", copy, path, "--json"]).text();
        assert!(meta("c").contains(r#""coordinates": "near""#), "{}", meta("c"));
        assert!(meta("").contains(r#""coordinates": "far""#), "{}", meta(""));
        assert!(zaro(&["info", copy, "--json"]).text().contains(r#""coordinate": true"#));
    }
    let none = elsewhere.file("none.zarr");
    s.zaro(&["copy", "@", none.to_str().unwrap(), "--vars", "c", "--sel", "y=1"])
        .fails(2, "none of the selected variables has a dimension \"y\"");
}

#[test]
fn a_coordinate_above_what_is_copied_is_told_of() {
    let s = Store::new();
    s.group("").group("g");
    s.array("x", &[2], "uint8", "0", r#","dimension_names":["x"]"#, &[1, 2]);
    s.array("g/t", &[2], "uint8", "0", r#","dimension_names":["x"]"#, &[5, 6]);
    let elsewhere = Store::new();
    let copy = elsewhere.file("part.zarr");
    let run = s.zaro(&["copy", "@", copy.to_str().unwrap(), "--path", "g", "--sel", "x=2:2"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("the coordinate /x is above /g and was not copied"), "{}", run.err);
}

#[test]
fn a_coordinate_of_truths_is_shown_as_such() {
    let s = Store::new();
    s.group("").array("b", &[2], "bool", "false", r#","dimension_names":["b"]"#, &[1, 0]);
    s.array("t", &[2], "uint8", "0", r#","dimension_names":["b"]"#, &[5, 6]);
    let text = s.zaro(&["info", "@"]).text();
    assert!(text.contains("true … false\n"), "{text}");
    assert_eq!(s.zaro(&["read", "@", "t", "--sel", "b=false", "--format", "csv"]).text(), "6\n");
}

#[test]
fn bytes_behind_a_blosc_chunk_are_told_of() {
    let s = Store::new();
    let from = s.file("in.npy");
    std::fs::write(&from, crate::common::npy("'<u2'", false, "(64,)", &[7; 128])).unwrap();
    let words = ["write", "@:/a.zarr", "--create", "--from", from.to_str().unwrap(), "--codec", "blosc"];
    assert_eq!(s.zaro(&words).code, 0);
    assert!(!s.zaro(&["validate", "@:/a.zarr", "--data"]).text().contains("chunk/trailing"));
    let chunk = s.file("a.zarr/c/0");
    let longer = [std::fs::read(&chunk).unwrap(), vec![1, 2, 3]].concat();
    std::fs::write(&chunk, longer).unwrap();
    let run = s.zaro(&["validate", "@:/a.zarr", "--data"]);
    let text = String::from_utf8_lossy(&run.out).into_owned();
    assert!(text.contains("c/0: 3 trailing bytes after the end of the chunk"), "{text}");
    assert_eq!(run.code, 0, "{text}");
}
