use super::*;
use crate::codec::testing::array;

fn codec(config: &str, data_type: &DataType) -> Box<dyn ArrayToArray> {
    array("cast_value", config, data_type)
}

/// Encodes f64 values; `None` where that is an error.
fn encode_f64(config: &str, values: &[f64]) -> Vec<Option<Vec<u8>>> {
    let c = codec(config, &DataType::FLOAT64);
    let r = Repr { shape: vec![1], data_type: DataType::FLOAT64, fill: Fill(vec![0; 8].into()) };
    let e = c.encoded(&r).unwrap();
    values
        .iter()
        .map(|x| c.encode(Buffer::fixed(x.to_le_bytes().to_vec()), &r, &e).ok().map(|b| b.bytes))
        .collect()
}

fn i8s(config: &str, values: &[f64]) -> Vec<Option<i8>> {
    encode_f64(config, values).into_iter().map(|b| b.map(|b| i8::from_le_bytes([b[0]]))).collect()
}

#[test]
fn every_way_of_rounding_to_integers() {
    let x = [2.5, 3.5, -2.5, 0.4, -0.6, 7.0];
    for (rounding, want) in [
        ("nearest-even", [2, 4, -2, 0, -1, 7]),
        ("nearest-away", [3, 4, -3, 0, -1, 7]),
        ("towards-zero", [2, 3, -2, 0, 0, 7]),
        ("towards-positive", [3, 4, -2, 1, 0, 7]),
        ("towards-negative", [2, 3, -3, 0, -1, 7]),
    ] {
        let config = format!(r#"{{"data_type":"int8","rounding":"{rounding}"}}"#);
        assert_eq!(i8s(&config, &x), want.map(Some), "{rounding}");
    }
    assert_eq!(i8s(r#"{"data_type":{"name":"int8"}}"#, &[0.5, 1.5]), [Some(0), Some(2)]);
}

#[test]
fn what_lies_beyond_the_range() {
    let x = [127.4, 127.5, -128.5, -129.0, 300.0, 1e300, -1e30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let error = i8s(r#"{"data_type":"int8"}"#, &x);
    assert_eq!(error[..3], [Some(127), None, Some(-128)]);
    assert!(error[3..].iter().all(Option::is_none));
    let clamp = i8s(r#"{"data_type":"int8","out_of_range":"clamp"}"#, &x);
    let want = [127, 127, -128, -128, 127, 127, -128, 127, -128].map(Some);
    assert_eq!(clamp[..9], want);
    assert_eq!(clamp[9], None);
    let wrap = i8s(r#"{"data_type":"int8","out_of_range":"wrap"}"#, &x);
    assert_eq!(
        wrap,
        [Some(127), Some(-128), Some(-128), Some(127), Some(44), Some(0), Some(0), None, None, None]
    );
    let wide =
        encode_f64(r#"{"data_type":"uint64","out_of_range":"wrap"}"#, &[-1.0, 1.8446744073709552e19, 2e19]);
    assert_eq!(wide[0].as_deref(), Some(&[255; 8][..]));
    assert_eq!(wide[1].as_deref(), Some(&[0; 8][..]));
    assert_eq!(wide[2], Some((20_000_000_000_000_000_000u128 - (1 << 64)).to_le_bytes()[..8].to_vec()));
}

#[test]
fn floats_round_in_every_direction() {
    let x = [1.0 + 2f64.powi(-24), 1.0 + 3.0 * 2f64.powi(-24), -(1.0 + 2f64.powi(-25)), 1e-300];
    for (rounding, want) in [
        ("nearest-even", [0x3f80_0000u32, 0x3f80_0002, 0xbf80_0000, 0]),
        ("nearest-away", [0x3f80_0001, 0x3f80_0002, 0xbf80_0000, 0]),
        ("towards-zero", [0x3f80_0000, 0x3f80_0001, 0xbf80_0000, 0]),
        ("towards-positive", [0x3f80_0001, 0x3f80_0002, 0xbf80_0000, 1]),
        ("towards-negative", [0x3f80_0000, 0x3f80_0001, 0xbf80_0001, 0]),
    ] {
        let config = format!(r#"{{"data_type":"float32","rounding":"{rounding}"}}"#);
        assert_eq!(encode_f64(&config, &x), want.map(|w| Some(w.to_le_bytes().to_vec())), "{rounding}");
    }
    let big = [3.4028235677973366e38, 3.4028234663852886e38, f64::INFINITY, -1e300];
    let error = encode_f64(r#"{"data_type":"float32"}"#, &big);
    assert_eq!(
        error,
        [None, Some(f32::MAX.to_le_bytes().to_vec()), Some(f32::INFINITY.to_le_bytes().to_vec()), None]
    );
    let clamp = encode_f64(r#"{"data_type":"float32","out_of_range":"clamp"}"#, &big);
    assert_eq!(clamp[0], Some(f32::MAX.to_le_bytes().to_vec()));
    assert_eq!(clamp[3], Some(f32::MIN.to_le_bytes().to_vec()));
    // No infinity, no NaN.
    let small = encode_f64(
        r#"{"data_type":"float4_e2m1fn","out_of_range":"clamp"}"#,
        &[-1e9, f64::INFINITY, f64::NAN],
    );
    assert_eq!(small, [Some(vec![0xf]), Some(vec![7]), None]);
    // NaN keeps its payload where there is room.
    let nan = encode_f64(r#"{"data_type":"float32"}"#, &[f64::from_bits(0x7ff8_0000_4000_0000)]);
    assert_eq!(nan[0], Some(0x7fc0_0002u32.to_le_bytes().to_vec()));
}

#[test]
fn wide_integers_are_exact() {
    let c = codec(r#"{"data_type":"float32","rounding":"towards-zero"}"#, &DataType::UINT64);
    let r = Repr { shape: vec![1], data_type: DataType::UINT64, fill: Fill(vec![0; 8].into()) };
    let e = c.encoded(&r).unwrap();
    let got = c.encode(Buffer::fixed(vec![255; 8]), &r, &e).unwrap();
    assert_eq!(got.bytes, (18446742974197923840f32).to_le_bytes());
    let c = codec(r#"{"data_type":"float64"}"#, &DataType::Int(64));
    let r = Repr { shape: vec![1], data_type: DataType::Int(64), fill: Fill(vec![0; 8].into()) };
    let e = c.encoded(&r).unwrap();
    for n in [i64::MIN, -1, 0, 1 << 53, (1 << 53) + 3, i64::MAX - 1024] {
        let got = c.encode(Buffer::fixed(n.to_le_bytes().to_vec()), &r, &e).unwrap();
        assert_eq!(got.bytes, format!("{n}").parse::<f64>().unwrap().to_le_bytes());
    }
    assert!(c.decode(Buffer::fixed(1e30f64.to_le_bytes().to_vec()), &r, &e).is_err());
}

#[test]
fn the_map_comes_first_and_the_fill_value_goes_along() {
    let config = r#"{"data_type":"uint8","scalar_map":{"encode":[["NaN",0],["NaN",1],["Infinity",255]],"decode":[[0,"NaN"],[255,"Infinity"]]}}"#;
    let c = codec(config, &DataType::FLOAT32);
    let nan = f32::from_bits(0xffc0_1234).to_le_bytes();
    let r = Repr { shape: vec![3], data_type: DataType::FLOAT32, fill: Fill(nan.to_vec().into()) };
    let e = c.encoded(&r).unwrap();
    assert_eq!((&e.data_type, &*e.fill.0), (&DataType::UINT8, &[0][..]));
    let raw = [nan, f32::INFINITY.to_le_bytes(), 7f32.to_le_bytes()].concat();
    let got = c.encode(Buffer::fixed(raw), &r, &e).unwrap();
    assert_eq!(got.bytes, [0, 255, 7]);
    let back = c.decode(got, &r, &e).unwrap();
    assert_eq!(
        back.bytes,
        [0x7fc0_0000u32.to_le_bytes(), f32::INFINITY.to_le_bytes(), 7f32.to_le_bytes()].concat()
    );
    for end in 0..3 {
        assert!(c.decode(Buffer::fixed(vec![1; end]), &r, &e).is_err());
    }
    // A fill value that does not survive.
    let c = codec(r#"{"data_type":"int8"}"#, &DataType::FLOAT32);
    for fill in [0.5f32, 1000.0, f32::NAN] {
        let r = Repr {
            shape: vec![3],
            data_type: DataType::FLOAT32,
            fill: Fill(fill.to_le_bytes().to_vec().into()),
        };
        assert!(c.encoded(&r).is_err(), "{fill}");
    }
}
