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
use super::{BytesToBytes, OutputSize};
use crate::error::{Error, Result, invalid};
use crate::meta::json::Json;
use crate::num;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TiffPredictor {
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
enum ScanDirection {
    Encode,
    Decode,
}

impl TiffPredictor {
    pub(crate) fn delta(config: &Config<'_>) -> Result<Self> {
        Self::read(config, false)
    }

    pub(crate) fn float(config: &Config<'_>) -> Result<Self> {
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

    fn run(&self, bytes: &mut [u8], direction: ScanDirection) -> Result<()> {
        match self.length {
            Some(n) if n != bytes.len() => {
                return Err(invalid!("{} bytes where {n} were expected by the shape", bytes.len()));
            }
            None if !bytes.len().is_multiple_of(self.width) => {
                return Err(Error::invalid("the data are not a whole number of elements"));
            }
            _ => {}
        }
        let row = if self.row == 0 { bytes.len() } else { self.row };
        let mut other = vec![0; if self.float { row } else { 0 }];
        for row in bytes.chunks_exact_mut(row.max(1)) {
            match (self.float, direction) {
                (false, _) => self.numbers(self.width, row, direction),
                (true, ScanDirection::Encode) => {
                    self.turn(row);
                    shuffle(self.width, row, &mut other);
                    row.copy_from_slice(&other);
                    self.numbers(1, row, direction);
                }
                (true, ScanDirection::Decode) => {
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

    fn numbers(&self, width: usize, row: &mut [u8], direction: ScanDirection) {
        match width {
            1 => self.differences::<1>(row, direction),
            2 => self.differences::<2>(row, direction),
            4 => self.differences::<4>(row, direction),
            _ => self.differences::<8>(row, direction),
        }
    }

    fn differences<const W: usize>(&self, row: &mut [u8], direction: ScanDirection) {
        let numbers = row.as_chunks_mut::<W>().0;
        let later = self.lag..numbers.len();
        let mut each = |i: usize| {
            let before = numbers.get(i - self.lag).map(|b| self.number(*b));
            if let (Some(number), Some(before)) = (numbers.get_mut(i), before) {
                let n = self.number(*number);
                *number = self.bytes(match direction {
                    ScanDirection::Encode => n.wrapping_sub(before),
                    ScanDirection::Decode => n.wrapping_add(before),
                });
            }
        };
        match direction {
            ScanDirection::Encode => later.rev().for_each(&mut each),
            ScanDirection::Decode => later.for_each(&mut each),
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

    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        Ok(decoded)
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        size.check(bytes.len())?;
        let mut out = bytes.to_vec();
        self.run(&mut out, ScanDirection::Decode)?;
        Ok(out)
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        OutputSize::Exact(out.len()).check(bytes.len())?;
        out.copy_from_slice(bytes);
        self.run(out, ScanDirection::Decode)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = bytes.to_vec();
        self.run(&mut out, ScanDirection::Encode)?;
        Ok(out)
    }
}
