//! `categorize`: encodes text labels as integers.
//!
//! V2: `{"id": "categorize", "labels": ["female", "male"], "dtype": "|O", "astype": "|u1"}` over `|O` or `U`. Label `i`
//! is stored as `i + 1`; 0, and every other number, is text that had no label, and decodes to the empty string.

use super::bytes::Bytes;
use super::config::Config;
use super::number::{self, NumberOp};
use super::{ArrayToBytes, Buffer, OutputSize, Repr, output, view};
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::DataType;
use crate::meta::typestr;
use crate::num;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Categorize {
    labels: Vec<String>,
    codes: DataType,
    order: Bytes,
}

impl Categorize {
    /// From its configuration. Its `dtype` is the array's own, and not asked for.
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        let labels = config.need("labels")?.items().map(|l| l.iter().map(|l| l.as_str().map(str::to_owned)));
        let labels = labels.and_then(Iterator::collect);
        let labels = labels.ok_or_else(|| Error::invalid("\"labels\" must be a list of strings"))?;
        let (codes, order) = match config.get("astype") {
            Some(json) => {
                let t = typestr::parse_config(json).map_err(|e| e.with_field("astype"))?;
                (t.fixed()?.clone(), Bytes { endian: t.endian, mixed: t.mixed })
            }
            None => (DataType::UINT8, Bytes { endian: None, mixed: Vec::new() }),
        };
        number::plain(&codes)?;
        Ok(Self { labels, codes, order })
    }
}

impl ArrayToBytes for Categorize {
    fn name(&self) -> &'static str {
        "categorize"
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        match decoded.data_type {
            DataType::String | DataType::FixedUtf32(_) | DataType::FixedBytes(_) => {}
            ref other => return Err(invalid!("is for text, not {other}")),
        }
        let bytes = decoded.count()?.checked_mul(self.codes.size());
        bytes.map(OutputSize::Exact).ok_or_else(|| Error::invalid("the chunk is too large"))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        self.encoded_size(decoded)?.check(bytes.len())?;
        let mut codes = bytes.to_vec();
        self.order.swap(&mut codes, &self.codes);
        output::justified(decoded.byte_size()?, bytes.len(), output::MAX_RATIO)?;
        let codes: Vec<Option<usize>> = match number::load(&codes, &self.codes)? {
            NumberOp::Int(v) => v.into_iter().map(|c| usize::try_from(c).ok()).collect(),
            NumberOp::UInt(v) => v.into_iter().map(|c| usize::try_from(c).ok()).collect(),
            NumberOp::Float(v) => {
                // Only whole numbers are codes.
                let whole = NumberOp::Float(v.iter().map(|x| x.trunc()).collect());
                let NumberOp::Int(whole) =
                    number::load(&number::store(whole, &DataType::Int(64))?, &DataType::Int(64))?
                else {
                    return Err(Error::invalid("no integers"));
                };
                let exact = |(x, c): (&f64, i64)| usize::try_from(c).ok().filter(|_| x.fract() == 0.0);
                v.iter().zip(whole).map(exact).collect()
            }
        };
        let label = |code: Option<usize>| self.labels.get(code?.checked_sub(1)?);
        let mut out = Buffer::default();
        if decoded.data_type == DataType::String {
            // Every label is kept once; elements point to it.
            let mut views = Vec::with_capacity(self.labels.len());
            for label in &self.labels {
                let length =
                    u32::try_from(label.len()).map_err(|_| Error::invalid("a label is larger than 4 GiB"))?;
                views.push(view(0, length, num::u64_of(out.heap.len())));
                out.heap.extend_from_slice(label.as_bytes());
            }
            let none = view(0, 0, 0);
            for code in codes {
                let found = code.and_then(|c| views.get(c.checked_sub(1)?));
                out.bytes.extend_from_slice(found.unwrap_or(&none));
            }
            return Ok(out);
        }
        for code in codes {
            put(label(code).map_or("", String::as_str), &decoded.data_type, &mut out.bytes);
        }
        Ok(out)
    }

    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>> {
        let element = |label: &String| {
            let mut out = Vec::new();
            put(label, &decoded.data_type, &mut out);
            out
        };
        let labels: Vec<Vec<u8>> = self.labels.iter().map(element).collect();
        // Where a label occurs twice the last one counts, as numcodecs has it.
        let code = |e: &[u8]| labels.iter().rposition(|l| l == e).map_or(0, |i| num::u64_of(i) + 1);
        let codes = if decoded.data_type == DataType::String {
            chunk.items().map(code).collect()
        } else {
            chunk.bytes.chunks_exact(decoded.data_type.size().max(1)).map(code).collect()
        };
        let mut out = number::store(NumberOp::UInt(codes), &self.codes)?;
        self.order.swap(&mut out, &self.codes);
        Ok(out)
    }
}

/// Adds a label as an element; cut if the type is too short for it, as numpy does.
fn put(label: &str, data_type: &DataType, out: &mut Vec<u8>) {
    let start = out.len();
    match data_type {
        DataType::FixedUtf32(n) => {
            out.extend(label.chars().take(*n).flat_map(|c| u32::from(c).to_le_bytes()))
        }
        _ => out.extend_from_slice(label.as_bytes()),
    }
    if !data_type.is_variable() {
        out.resize(start.saturating_add(data_type.size()), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{line, to_bytes};

    fn make(config: &str, data_type: DataType, n: u64) -> (Box<dyn ArrayToBytes>, Repr) {
        (to_bytes("v2.categorize", config, &data_type), line(data_type, n))
    }

    #[test]
    fn as_numcodecs_does_it() {
        let config = r#"{"labels":["female","mäle"],"dtype":"|O","astype":"|u1"}"#;
        let (c, r) = make(config, DataType::String, 5);
        let got = c.decode(&[2, 1, 0, 1, 9], &r).unwrap();
        assert_eq!(got.items().collect::<Vec<_>>(), ["mäle".as_bytes(), b"female", b"", b"female", b""]);
        assert_eq!(c.encode(&got, &r).unwrap(), [2, 1, 0, 1, 0]);
        for end in 0..5 {
            assert!(c.decode(&[1; 5][..end], &r).is_err());
        }
        assert!(c.decode(&[1; 6], &r).is_err());

        let config = r#"{"labels":["female","male"],"dtype":"<U5","astype":">u2"}"#;
        let (c, r) = make(config, DataType::FixedUtf32(5), 3);
        let got = c.decode(&[0, 2, 0, 1, 0, 0], &r).unwrap();
        let text = |s: &str| s.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(got.bytes, [text("male\0"), text("femal"), text("\0\0\0\0\0")].concat());
        assert_eq!(c.encode(&got, &r).unwrap(), [0, 2, 0, 1, 0, 0]);

        let (c, r) = make(r#"{"labels":["ab"]}"#, DataType::FixedBytes(3), 2);
        assert_eq!(c.decode(&[1, 0], &r).unwrap().bytes, b"ab\0\0\0\0");
        assert!(c.encoded_size(&Repr { data_type: DataType::UINT8, ..r }).is_err());

        let (c, r) = make(r#"{"labels":["a","b"],"astype":"<f4"}"#, DataType::FixedBytes(1), 5);
        let codes: Vec<u8> = [2f32, 1.5, -1.0, f32::NAN, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(c.decode(&codes, &r).unwrap().bytes, b"b\0\0\0\0");
    }

    #[test]
    fn a_long_label_is_held_once() {
        let config = format!(r#"{{"labels":["{}"]}}"#, "x".repeat(1 << 16));
        let (c, r) = make(&config, DataType::String, 1 << 16);
        let got = c.decode(&[1; 1 << 16], &r).unwrap();
        assert_eq!(got.heap.len(), 1 << 16);
        assert_eq!(got.item(65_535).unwrap().len(), 1 << 16);
        let (c, r) = make(&config, DataType::FixedBytes(1 << 28), 1 << 16);
        assert!(c.decode(&[1; 1 << 16], &r).is_err());
    }
}
