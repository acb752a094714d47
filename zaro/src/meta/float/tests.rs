//! Checked against numpy 2.4 and ml_dtypes 0.6: hashes over every bit pattern and over 190,000 conversions.

use super::*;

const NAN: u64 = 0x7ff8_0000_0000_0000;

/// FNV-1a.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Format, hash of all patterns as f64 (NaN made canonical), hash of the conversions of `sources`.
const HASHES: [(Float, u64, u64); 12] = [
    (Float::F4E2M1FN, 0xb7a5_36e3_9150_e235, 0xab9e_4315_b48a_be79),
    (Float::F6E2M3FN, 0xec0c_c051_702d_b885, 0x233c_44e4_edc9_c6d9),
    (Float::F6E3M2FN, 0xa171_6230_c365_c5f5, 0x16e5_897d_05c5_eb01),
    (Float::F8E3M4, 0x2a81_af47_984d_cd75, 0x01f7_fbb7_3daa_7b59),
    (Float::F8E4M3, 0xb766_4143_e132_47d5, 0x7f50_6e94_2811_90bb),
    (Float::F8E4M3FN, 0x4d4d_ed90_c4f5_d9b5, 0x5dee_fdca_f071_e2c9),
    (Float::F8E4M3B11FNUZ, 0xc834_859f_7070_cbf0, 0x46ee_a840_b038_6f17),
    (Float::F8E4M3FNUZ, 0x33a0_6c4d_1199_92b0, 0xdf51_a82c_8f8d_18a9),
    (Float::F8E5M2, 0x61a0_99e7_2317_4195, 0x7888_dd17_1cea_e1d1),
    (Float::F8E5M2FNUZ, 0x08d9_906c_c5ea_2650, 0x804b_c51e_1848_dd63),
    (Float::BF16, 0x5e93_c846_8f94_04d5, 0x521c_fa3b_02dd_48f5),
    (Float::F16, 0xfe87_bb78_2adb_2fc5, 0x1d09_6cff_a745_64e5),
];

/// Every float16 but the NaNs, then the same moved off the grid, then onto ties.
fn sources() -> Vec<f64> {
    let halves: Vec<f64> = (0..=0xffff).map(|b| to_f64(Float::F16, b)).filter(|x| !x.is_nan()).collect();
    let moved = halves.iter().map(|h| h * 0.0009765625 * 1.0000001);
    halves.iter().copied().chain(moved).chain(halves.iter().map(|h| h * 1.5)).collect()
}

#[test]
fn all_patterns_and_many_conversions_agree_with_ml_dtypes() {
    let sources = sources();
    for (float, patterns, conversions) in HASHES {
        let all = (0..1u64 << float.bits()).map(|b| to_f64(float, b));
        let got = hash(all.flat_map(|x| if x.is_nan() { NAN } else { x.to_bits() }.to_le_bytes()));
        assert_eq!(got, patterns, "patterns of {}", float.name());
        let got = hash(
            sources.iter().flat_map(|x| from_f64(float, *x).to_le_bytes().into_iter().take(float.size())),
        );
        assert_eq!(got, conversions, "conversions to {}", float.name());
    }
}

#[test]
fn every_pattern_survives_a_round_trip_but_signalling_nans() {
    for float in Float::ALL.map(|(f, _)| f).into_iter().filter(|f| f.bits() <= 16) {
        for bits in 0..1u64 << float.bits() {
            let x = to_f64(float, bits);
            let back = from_f64(float, x);
            if x.is_nan() {
                assert!(to_f64(float, back).is_nan());
                assert_eq!(to_f64(float, back).is_sign_negative(), x.is_sign_negative());
            } else {
                assert_eq!(back, bits, "{} {bits:#x}", float.name());
            }
        }
    }
}

#[test]
fn agrees_with_the_half_crate_and_with_the_machine() {
    for x in
        sources().into_iter().chain([1e300, -1e300, 5e-324, 1e-40, 3.4028235677973366e38, f64::MIN_POSITIVE])
    {
        assert_eq!(from_f64(Float::F16, x), u64::from(half::f16::from_f64(x).to_bits()), "{x:e}");
        assert_eq!(from_f64(Float::F32, x), u64::from((x as f32).to_bits()), "{x:e}");
        assert_eq!(to_f64(Float::F32, u64::from((x as f32).to_bits())), f64::from(x as f32));
        assert_eq!(from_f64(Float::F64, x), x.to_bits());
        assert_eq!(to_f64(Float::F64, x.to_bits()), x);
    }
    for i in 0..200_000u64 {
        let b = u32::try_from(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap();
        let x = f32::from_bits(b);
        if !x.is_nan() {
            assert_eq!(to_f64(Float::F32, u64::from(b)), f64::from(x));
        }
        let y = f64::from_bits(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if !y.is_nan() {
            assert_eq!(from_f64(Float::F32, y), u64::from((y as f32).to_bits()), "{y:e}");
        }
    }
}

#[test]
fn nan_and_infinity_are_what_the_specifications_say() {
    let nans = [
        (Float::F16, Some(0x7e00)),
        (Float::F32, Some(0x7fc0_0000)),
        (Float::F64, Some(NAN)),
        (Float::BF16, Some(0x7fc0)),
        (Float::F8E3M4, Some(0x78)),
        (Float::F8E4M3, Some(0x7c)),
        (Float::F8E4M3FN, Some(0x7f)),
        (Float::F8E4M3B11FNUZ, Some(0x80)),
        (Float::F8E4M3FNUZ, Some(0x80)),
        (Float::F8E5M2, Some(0x7e)),
        (Float::F8E5M2FNUZ, Some(0x80)),
        (Float::F8E8M0FNU, Some(0xff)),
        (Float::F6E2M3FN, None),
        (Float::F6E3M2FN, None),
        (Float::F4E2M1FN, None),
    ];
    for (float, nan) in nans {
        assert_eq!(canonical_nan(float), nan, "{}", float.name());
        if let Some(nan) = nan {
            assert_eq!(from_f64(float, f64::from_bits(NAN)), nan, "{}", float.name());
        }
    }
    assert_eq!(infinity(Float::F16, true), Some(0xfc00));
    assert_eq!(infinity(Float::F8E5M2, false), Some(0x7c));
    assert_eq!(infinity(Float::F8E3M4, true), Some(0xf0));
    assert_eq!(infinity(Float::F8E4M3FN, false), None);
    assert_eq!(infinity(Float::F4E2M1FN, false), None);
}

#[test]
fn powers_of_two_have_no_zero_and_no_sign() {
    let f = Float::F8E8M0FNU;
    for (x, bits) in [
        (1.0, 0x7f),
        (1.49, 0x7f),
        (1.5, 0x80),
        (3.0, 0x81),
        (2f64.powi(127), 0xfe),
        (2f64.powi(127) * 1.5, 0xff),
        (2f64.powi(-127), 0),
        (2f64.powi(-140), 0),
        (0.0, 0xff),
        (-1.0, 0xff),
        (f64::INFINITY, 0xff),
    ] {
        assert_eq!(from_f64(f, x), bits, "{x:e}");
    }
    assert_eq!(to_f64(f, 0), 2f64.powi(-127));
}

#[test]
fn decimals_are_rounded_once() {
    // 2049 is a tie of float16, between 2048 (even) and 2050; a hair above it is not, yet is 2049 as f64.
    assert_eq!(from_decimal(Float::F16, "2049"), Some(0x6800));
    assert_eq!(from_decimal(Float::F16, "2049.00000000000000000001"), Some(0x6801));
    assert_eq!(from_decimal(Float::F16, "-2049.00000000000000000001"), Some(0xe801));
    assert_eq!(from_decimal(Float::F16, "2050.99999999999999999999"), Some(0x6801));
    assert_eq!(from_decimal(Float::F16, "2051"), Some(0x6802));
    assert_eq!(from_decimal(Float::F16, "20510000000000000000000000e-22"), Some(0x6802));
    // The same for f32, where the machine's own reader does it.
    assert_eq!(from_decimal(Float::F32, "16777217"), Some(0x4b80_0000));
    assert_eq!(from_decimal(Float::F32, "16777217.0000000000000000001"), Some(0x4b80_0001));
    // The tie at the upper end: half way from the greatest number to what would be the next.
    assert_eq!(from_decimal(Float::F8E4M3FN, "464"), Some(0x7e));
    assert_eq!(from_decimal(Float::F8E4M3FN, "464.00000000000000000000001"), Some(0x7f));
    assert_eq!(from_decimal(Float::F16, "65519.9999999999999999999999"), Some(0x7bff));
    assert_eq!(from_decimal(Float::F16, "65520"), Some(0x7c00));
    // Half of the smallest number, and neighbours of ties that are f64s of their own.
    assert_eq!(from_decimal(Float::F16, "2.98023223876953125e-8"), Some(0));
    assert_eq!(from_decimal(Float::F16, "2.980232238769531250000000000001e-8"), Some(1));
    assert_eq!(from_decimal(Float::F16, &format!("{:?}", 2049f64.next_up())), Some(0x6801));
    assert_eq!(from_decimal(Float::F16, "2049.00000000000035"), Some(0x6801));
    assert_eq!(from_decimal(Float::F16, "1e99999999999999999999"), Some(0x7c00));
    assert_eq!(from_decimal(Float::F16, "1e-99999999999999999999"), Some(0));
    assert_eq!(from_decimal(Float::F16, "-0.0"), Some(0x8000));
    assert_eq!(from_decimal(Float::BF16, "NaN"), Some(0x7fc0));
    assert_eq!(from_decimal(Float::F64, "-Infinity"), Some(0xfff0_0000_0000_0000));
    for bad in ["", "nan", "inf", "+1", ".5", "0x10", "abc", "-", "1e", "infinity"] {
        assert_eq!(from_decimal(Float::F16, bad), None, "{bad}");
    }
    // A grid of decimals around every tie of a small format.
    for bits in 0..0x7e {
        let (a, b) = (to_f64(Float::F8E4M3FN, bits), to_f64(Float::F8E4M3FN, bits + 1));
        let tie = f64::midpoint(a, b);
        let even = if bits % 2 == 0 { bits } else { bits + 1 };
        assert_eq!(from_decimal(Float::F8E4M3FN, &format!("{tie}")), Some(even));
        assert_eq!(from_decimal(Float::F8E4M3FN, &format!("{tie:.40}1")), Some(bits + 1));
    }
}
