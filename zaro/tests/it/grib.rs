//! GRIB messages that eccodes made, against the values that it reads from them; and the same messages damaged.
//!
//! `conformance/make_grib.py` made the files in `tests/grib`.

use std::path::PathBuf;

use zaro::codec::{BytesToBytes, Codec, CodecRequest, OutputSize, Repr};
use zaro::internal::codec::build;
use zaro::meta::{DataType, Fill, Json};

fn codec(name: &str, config: &str, data_type: &DataType) -> zaro::Result<Codec> {
    let config = Json::parse(config.as_bytes()).unwrap().value;
    build(&CodecRequest { name, config: config.members().unwrap(), strict: false, data_type })
}

fn v2(config: &str) -> Box<dyn BytesToBytes> {
    let Codec::Bytes(codec) = codec("v2.grib", config, &DataType::FLOAT64).unwrap() else {
        panic!("{config}")
    };
    codec
}

struct Case {
    name: String,
    message: Vec<u8>,
    /// The variable to ask for.
    var: String,
    /// Little-endian doubles.
    expected: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/grib");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|e| Some(e.unwrap().file_name().to_str()?.strip_suffix(".f64")?.to_owned()))
        .collect();
    names.sort();
    assert!(names.len() > 40, "the files were not found");
    let case = |name: String| {
        let (message, var) = name.split_once('.').unwrap_or((&name, "t"));
        Case {
            message: std::fs::read(folder.join(format!("{message}.grib"))).unwrap(),
            var: var.to_owned(),
            expected: std::fs::read(folder.join(format!("{name}.f64"))).unwrap(),
            name,
        }
    };
    names.into_iter().map(case).collect()
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|c| f64::from_le_bytes(*c)).collect()
}

#[test]
fn values_are_those_of_eccodes_to_the_bit() {
    let mut wrong = Vec::new();
    for case in cases() {
        let codec = v2(&format!(r#"{{"var": "{}", "dtype": "float64"}}"#, case.var));
        let got = match codec.decode(&case.message, OutputSize::Exact(case.expected.len())) {
            Ok(got) => doubles(&got),
            Err(e) => {
                wrong.push(format!("{}: {e}", case.name));
                continue;
            }
        };
        let want = doubles(&case.expected);
        // The functions of angles are the machine's; one bit of theirs may be another.
        let near =
            |a: f64, b: f64| if case.var == "t" { a.to_bits() == b.to_bits() } else { (a - b).abs() < 1e-9 };
        let same = |(a, b): (&f64, &f64)| near(*a, *b) || a.is_nan() && b.is_nan();
        if let Some(i) = got.iter().zip(&want).position(|pair| !same(pair)) {
            wrong.push(format!("{}: {} at {i}, not {}", case.name, got[i], want[i]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn values_take_the_type_that_is_asked_for() {
    let case = cases().into_iter().find(|c| c.name == "simple_bitmap").unwrap();
    let want = doubles(&case.expected);
    let singles: Vec<u8> = want.iter().flat_map(|x| (*x as f32).to_be_bytes()).collect();
    let got = v2(r#"{"var": "t", "dtype": ">f4"}"#)
        .decode(&case.message, OutputSize::Exact(singles.len()))
        .unwrap();
    let (Some(hole), true) = (want.iter().position(|x| x.is_nan()), want.iter().any(|x| !x.is_nan())) else {
        panic!("no missing values to test with")
    };
    assert_eq!(got[..4 * hole], singles[..4 * hole]);
    assert_eq!(got.len(), singles.len());
    // gribscan leaves missing values as eccodes has them.
    let Codec::Bytes(raw) = codec("v2.gribscan.rawgrib", "{}", &DataType::FLOAT32).unwrap() else { panic!() };
    let raw = doubles(&raw.decode(&case.message, OutputSize::Exact(want.len() * 8)).unwrap());
    assert_eq!(raw[hole], 9999.0);
    assert!(raw.iter().zip(&want).all(|(a, b)| a == b || b.is_nan()));
}

#[test]
fn under_its_v3_names_it_turns_values_to_bytes() {
    let case = cases().into_iter().find(|c| c.name == "complex").unwrap();
    let want = doubles(&case.expected);
    for (name, config) in [("grib", r#"{"var": "t", "dtype": "float64"}"#), ("gribberish", r#"{"var": "t"}"#)]
    {
        let data_type = DataType::FLOAT32;
        let fill = Fill::zero(&data_type);
        let Codec::ToBytes(codec) = codec(name, config, &data_type).unwrap() else { panic!("{name}") };
        let repr = Repr { shape: vec![13, 17], data_type, fill };
        let got = codec.decode(&case.message, &repr).unwrap().bytes;
        assert_eq!(got, want.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect::<Vec<u8>>(), "{name}");
        let other = Repr { shape: vec![13, 18], ..repr };
        assert!(codec.decode(&case.message, &other).is_err());
        assert!(codec.encode(&zaro::codec::Buffer::default(), &other).is_err());
    }
    for refused in [r#"{"north_up": true}"#, r#"{"adjust_longitude_range": true}"#] {
        assert!(codec("gribberish", refused, &DataType::FLOAT32).is_err());
    }
}

#[test]
fn a_row_or_column_of_coordinates_is_enough_for_a_regular_grid() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/grib");
    let message = std::fs::read(folder.join("grid_regular_ll.grib")).unwrap();
    for (var, count, step) in [("latitude", 7, 9), ("longitude", 9, 1)] {
        let codec = v2(&format!(r#"{{"var": "{var}"}}"#));
        let one = doubles(&codec.decode(&message, OutputSize::Exact(count * 8)).unwrap());
        let all = doubles(&codec.decode(&message, OutputSize::Exact(63 * 8)).unwrap());
        assert_eq!(one, all.iter().step_by(step).take(count).copied().collect::<Vec<f64>>());
        assert!(codec.decode(&message, OutputSize::Exact(62 * 8)).is_err());
    }
}

#[test]
fn damaged_messages_never_panic() {
    let mut state = 1u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % n
    };
    for case in cases() {
        let codec = v2(&format!(r#"{{"var": "{}", "dtype": "float64"}}"#, case.var));
        let size = OutputSize::Exact(case.expected.len());
        let attempt = |bytes: &[u8]| {
            if let Ok(out) = codec.decode(bytes, size) {
                assert_eq!(out.len(), case.expected.len(), "{}", case.name);
            }
        };
        for end in (0..case.message.len()).step_by(3) {
            assert!(codec.decode(&case.message[..end], size).is_err(), "{} cut at {end}", case.name);
        }
        // Everything up to the data, where most of the meaning is.
        for at in 0..case.message.len().min(260) {
            let mut bytes = case.message.clone();
            for value in [0xff, bytes[at] ^ (1 << random(8))] {
                bytes[at] = value;
                attempt(&bytes);
            }
        }
        for _ in 0..60 {
            let mut bytes = case.message.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] ^= 1 << random(8);
            }
            attempt(&bytes);
        }
        assert!(codec.decode(&case.message, OutputSize::Exact(case.expected.len() + 8)).is_err());
        assert!(codec.decode(&case.message, OutputSize::Exact(case.expected.len() - 1)).is_err());
    }
}
