//! TIFF's predictors: differences of neighbours, of integers or of the bytes of floats.
//!
//! * `imagecodecs_delta` (predictor 2): every number is the difference to the one `dist` before it along `axis`.
//!   V2: `{"id": "imagecodecs_delta", "dtype": "<u2", "shape": [256, 256, 3], "axis": -2, "dist": 1}`; without a
//!   shape the data are one row, without a type they are bytes. Floats are taken as integers of their bits.
//! * `imagecodecs_floatpred` (predictor 3): in every row (all that comes after the dimensions before `axis`), the
//!   most significant bytes of all numbers, then the next, and so on; of these bytes, the differences.
//!   V2: `{"id": "imagecodecs_floatpred", "dtype": "<f4", "shape": [256, 256], "axis": -1, "dist": 1}`.

use super::blosc::shuffle::{shuffle, unshuffle};
use super::config::Config;
use super::{BytesToBytes, Size};
use crate::error::{Error, Result};
use crate::meta::json::Json;
use crate::num;

/// A TIFF predictor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TiffPredictor {
    float: bool,
    /// Bytes in a number.
    width: usize,
    big_endian: bool,
    /// How many bytes there must be, if the shape is known.
    length: Option<usize>,
    /// Bytes in a row, 0 for all; differences do not reach over its start.
    row: usize,
    /// How many numbers are between the two of a difference; bytes, for floats.
    lag: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Encode,
    Decode,
}

impl TiffPredictor {
    /// `imagecodecs_delta`.
    pub fn delta(config: &Config<'_>) -> Result<Self> {
        Self::read(config, false)
    }

    /// `imagecodecs_floatpred`.
    pub fn float(config: &Config<'_>) -> Result<Self> {
        config.need("dtype")?;
        config.need("shape")?;
        Self::read(config, true)
    }

    fn read(config: &Config<'_>, float: bool) -> Result<Self> {
        let (big_endian, width) = dtype(config.str("dtype")?.unwrap_or("|u1"), float)?;
        let dist = match config.uint("dist")? {
            Some(0) => return Err(wrong("dist", "\"dist\" must be positive")),
            n => num::usize_of(n.unwrap_or(1))?,
        };
        let overflow = || wrong("shape", "\"shape\" is too large");
        let mut predictor = Self { float, width, big_endian, length: None, row: 0, lag: dist };
        if let Some(shape) = config.get("shape") {
            let extent = |n: &Json| n.as_u64().and_then(|n| usize::try_from(n).ok());
            let shape: Option<Vec<usize>> = shape.items().and_then(|s| s.iter().map(extent).collect());
            let shape = shape.ok_or_else(|| wrong("shape", "\"shape\" must be a list of extents"))?;
            let rank = i64::try_from(shape.len()).unwrap_or(0);
            let axis = config.int("axis")?.unwrap_or(-1);
            let axis = if axis < 0 { axis.saturating_add(rank) } else { axis };
            let axis = usize::try_from(axis).ok().filter(|a| *a < shape.len());
            let axis = axis.ok_or_else(|| wrong("axis", "\"axis\" is not one of the shape's"))?;
            let bytes = |from: usize| {
                let extents = shape.get(from..).unwrap_or_default();
                extents.iter().try_fold(width, |n, e| n.checked_mul(*e)).ok_or_else(overflow)
            };
            predictor.length = Some(bytes(0)?);
            predictor.row = bytes(axis)?;
            predictor.lag = (bytes(axis + 1)? / width).checked_mul(dist).ok_or_else(overflow)?;
        }
        Ok(predictor)
    }

    fn run(&self, bytes: &mut [u8], direction: Direction) -> Result<()> {
        match self.length {
            Some(n) if n != bytes.len() => {
                return Err(Error::invalid(format!(
                    "{} bytes are there where the shape has {n}",
                    bytes.len()
                )));
            }
            None if !bytes.len().is_multiple_of(self.width) => {
                return Err(Error::invalid("the data are no whole numbers"));
            }
            _ => {}
        }
        let row = if self.row == 0 { bytes.len() } else { self.row };
        let mut other = vec![0; if self.float { row } else { 0 }];
        for row in bytes.chunks_exact_mut(row.max(1)) {
            match (self.float, direction) {
                (false, _) => self.numbers(self.width, row, direction),
                (true, Direction::Encode) => {
                    self.turn(row);
                    shuffle(self.width, row, &mut other);
                    row.copy_from_slice(&other);
                    self.numbers(1, row, direction);
                }
                (true, Direction::Decode) => {
                    self.numbers(1, row, direction);
                    unshuffle(self.width, row, &mut other);
                    row.copy_from_slice(&other);
                    self.turn(row);
                }
            }
        }
        Ok(())
    }

    /// Numbers with their most significant byte first, or back.
    fn turn(&self, row: &mut [u8]) {
        if !self.big_endian {
            row.chunks_exact_mut(self.width).for_each(<[u8]>::reverse);
        }
    }

    fn numbers(&self, width: usize, row: &mut [u8], direction: Direction) {
        match width {
            1 => self.differences::<1>(row, direction),
            2 => self.differences::<2>(row, direction),
            4 => self.differences::<4>(row, direction),
            _ => self.differences::<8>(row, direction),
        }
    }

    fn differences<const W: usize>(&self, row: &mut [u8], direction: Direction) {
        let numbers = row.as_chunks_mut::<W>().0;
        let later = self.lag..numbers.len();
        let mut each = |i: usize| {
            let before = numbers.get(i - self.lag).map(|b| self.number(*b));
            if let (Some(number), Some(before)) = (numbers.get_mut(i), before) {
                let n = self.number(*number);
                *number = self.bytes(match direction {
                    Direction::Encode => n.wrapping_sub(before),
                    Direction::Decode => n.wrapping_add(before),
                });
            }
        };
        match direction {
            Direction::Encode => later.rev().for_each(&mut each),
            Direction::Decode => later.for_each(&mut each),
        }
    }

    fn number<const W: usize>(&self, mut bytes: [u8; W]) -> u64 {
        if self.big_endian {
            bytes.reverse();
        }
        let mut all = [0; 8];
        all.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        u64::from_le_bytes(all)
    }

    fn bytes<const W: usize>(&self, number: u64) -> [u8; W] {
        let mut bytes = [0; W];
        bytes.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }
}

/// The byte order and size of a numpy type string; floats only, if `float`.
fn dtype(text: &str, float: bool) -> Result<(bool, usize)> {
    let big_endian = text.starts_with('>');
    match (text.trim_start_matches(['<', '>', '|', '=']), float) {
        ("u1" | "i1", false) => Ok((big_endian, 1)),
        ("u2" | "i2" | "f2", false) | ("f2", true) => Ok((big_endian, 2)),
        ("u4" | "i4" | "f4", false) | ("f4", true) => Ok((big_endian, 4)),
        ("u8" | "i8" | "f8", false) | ("f8", true) => Ok((big_endian, 8)),
        _ => Err(wrong("dtype", format!("{text:?} is not a type this predictor works on"))),
    }
}

fn wrong(field: &str, message: impl Into<String>) -> Error {
    Error::invalid(message).with_field(field)
}

impl BytesToBytes for TiffPredictor {
    fn name(&self) -> &'static str {
        if self.float { "floatpred" } else { "delta" }
    }

    fn encoded_size(&self, decoded: Size) -> Result<Size> {
        Ok(decoded)
    }

    fn decode(&self, bytes: &[u8], size: Size) -> Result<Vec<u8>> {
        size.check(bytes.len())?;
        let mut out = bytes.to_vec();
        self.run(&mut out, Direction::Decode)?;
        Ok(out)
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        Size::Exact(out.len()).check(bytes.len())?;
        out.copy_from_slice(bytes);
        self.run(out, Direction::Decode)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = bytes.to_vec();
        self.run(&mut out, Direction::Encode)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{hex, members_of, round_trip};
    use super::*;

    fn delta(json: &str) -> Result<TiffPredictor> {
        let members = members_of(json);
        TiffPredictor::delta(&Config::new(&members))
    }

    fn float(json: &str) -> Result<TiffPredictor> {
        let members = members_of(json);
        TiffPredictor::float(&Config::new(&members))
    }

    /// Encoded and plain, as imagecodecs has them.
    fn known(codec: &TiffPredictor, encoded: &str, plain: &str) {
        assert_eq!(codec.encode(&hex(plain)).unwrap(), hex(encoded), "{codec:?}");
        assert_eq!(
            codec.decode(&hex(encoded), Size::Exact(plain.len() / 2)).unwrap(),
            hex(plain),
            "{codec:?}"
        );
    }

    #[test]
    fn differences_along_any_axis() {
        let plain = "00010409101924314051647990a9c4e10021446990b9e411";
        for (axis, encoded) in [
            (0, "00010409101924314051647990a8c0d8f008203850688098"),
            (1, "00010409101820283038404890a9c4e1707880889098a0a8"),
            (2, "0001030510090b0d4011131590191b1d0021232590292b2d"),
            (-1, "0001030510090b0d4011131590191b1d0021232590292b2d"),
            (-2, "00010409101820283038404890a9c4e1707880889098a0a8"),
        ] {
            let json = format!(r#"{{"dtype": "|u1", "shape": [2, 3, 4], "axis": {axis}}}"#);
            known(&delta(&json).unwrap(), encoded, plain);
        }
    }

    #[test]
    fn differences_of_any_type() {
        let little = delta(r#"{"dtype": "<u2", "shape": [1, 4, 2], "axis": 1}"#).unwrap();
        known(&little, "01000a0002000a00ffffe600050007ff", "01000a00030014000200fa0007000100");
        let big = delta(r#"{"dtype": ">u2", "shape": [1, 4, 2], "axis": 1}"#).unwrap();
        known(&big, "0001000a0002000affff00e60005ff07", "0001000a00030014000200fa00070001");
        let float = delta(r#"{"dtype": "<f4", "shape": [1, 4]}"#).unwrap();
        known(&float, "0000c03f0000500000003080f902d58f", "0000c03f00001040000040c0f9021550");
        round_trip(&delta("{}").unwrap());
        round_trip(&delta(r#"{"dist": 3}"#).unwrap());
        round_trip(&delta(r#"{"dist": 100000}"#).unwrap());
        assert!(little.decode(&[0; 15], Size::Exact(15)).is_err());
    }

    #[test]
    fn bytes_of_floats() {
        for (dtype, dist, encoded, plain) in [
            (
                "<f4",
                1,
                "3f0180847c50303a8600000000000000003f0100c0808040c000000000000000",
                "0000c03f00001040000040c000007a44000000000000803f0000004000004040",
            ),
            (
                "<f4",
                2,
                "3f40810400cc806ac086000000000000003f4001c04000c000c0000000000000",
                "0000c03f00001040000040c000007a44000000000000803f0000004000004040",
            ),
            (
                ">f4",
                1,
                "3f0180847c50303a8600000000000000003f0100c0808040c000000000000000",
                "3fc0000040100000c0400000447a0000000000003f8000004000000040400000",
            ),
            ("<f2", 1, "3e0282a19d8080d0003c0402be000000", "003e804000c2d0630000003c00400042"),
        ] {
            let json = format!(r#"{{"dtype": {dtype:?}, "shape": [2, 4], "dist": {dist}}}"#);
            known(&float(&json).unwrap(), encoded, plain);
        }
        let samples = float(r#"{"dtype": "<f4", "shape": [2, 3, 2], "axis": -2}"#).unwrap();
        known(
            &samples,
            "003f40010000c04000c080608060000000000000000000004040010100007f9f40302020e0d000000000000000000000",
            "000000000000803f0000004000004040000080400000a0400000c0400000e04000000041000010410000204100003041",
        );
    }

    #[test]
    fn configuration_is_checked() {
        for bad in [
            r#"{"dtype": "|b1"}"#,
            r#"{"dist": 0}"#,
            r#"{"shape": [2], "axis": 1}"#,
            r#"{"shape": [2], "axis": -2}"#,
            r#"{"shape": 2}"#,
            r#"{"shape": [4294967296, 4294967296]}"#,
            r#"{"shape": []}"#,
        ] {
            assert!(delta(bad).is_err(), "{bad}");
        }
        for bad in ["{}", r#"{"dtype": "<f4"}"#, r#"{"dtype": "<u4", "shape": [2]}"#] {
            assert!(float(bad).is_err(), "{bad}");
        }
        let empty = delta(r#"{"shape": [0, 3]}"#).unwrap();
        assert_eq!(empty.decode(b"", Size::Exact(0)).unwrap(), b"");
    }
}
