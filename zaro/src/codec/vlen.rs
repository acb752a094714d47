//! `vlen-utf8`, `vlen-bytes`, `vlen-array`: elements of variable length, one after the other.
//!
//! V3: `{"name": "vlen-utf8"}`, `{"name": "vlen-bytes"}` (also spelled `numcodecs.vlen-utf8`, …). V2: filters
//! `{"id": "vlen-utf8"}`, `{"id": "vlen-bytes"}`, `{"id": "vlen-array", "dtype": "<i4"}` over `|O`.
//!
//! The count as a `u32`, then for each element its length in bytes as a `u32` and its bytes; little-endian
//! throughout, except the content of arrays, whose byte order is that of their `dtype`. Text must be UTF-8.

use std::sync::Arc;

use super::bytes::Bytes;
use super::config::Config;
use super::{ArrayToBytes, Buffer, MAX_VARIABLE, OutputSize, Repr};
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::DataType;
use crate::meta::typestr;

/// The `vlen-*` codecs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Vlen {
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Utf8,
    Bytes,
    Array(Arc<DataType>, Bytes),
}

impl Vlen {
    /// `vlen-utf8`, which has no configuration.
    pub(super) fn utf8() -> Self {
        Self { content: Content::Utf8 }
    }

    /// `vlen-bytes`, which has no configuration.
    pub(super) fn bytes() -> Self {
        Self { content: Content::Bytes }
    }

    /// `vlen-array`, from its configuration.
    pub(super) fn array(config: &Config<'_>) -> Result<Self> {
        let t = typestr::parse_config(config.need("dtype")?).map_err(|e| e.with_field("dtype"))?;
        let element = Arc::new(t.fixed()?.clone());
        Ok(Self { content: Content::Array(element, Bytes { endian: t.endian, mixed: t.mixed }) })
    }

    /// The type of the elements this codec makes.
    pub(super) fn data_type(&self) -> DataType {
        match &self.content {
            Content::Utf8 => DataType::String,
            Content::Bytes => DataType::Bytes,
            Content::Array(element, _) => DataType::List(Arc::clone(element)),
        }
    }

    fn check(&self, decoded: &Repr) -> Result<()> {
        let own = self.data_type();
        if decoded.data_type == own {
            return Ok(());
        }
        Err(invalid!("holds {own} elements, not {}", decoded.data_type))
    }
}

impl ArrayToBytes for Vlen {
    fn name(&self) -> &'static str {
        match self.content {
            Content::Utf8 => "vlen-utf8",
            Content::Bytes => "vlen-bytes",
            Content::Array(..) => "vlen-array",
        }
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        self.check(decoded)?;
        Ok(OutputSize::AtMost(MAX_VARIABLE))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        self.check(decoded)?;
        let count = decoded.count()?;
        let (stored, mut rest) = take_u32(bytes).ok_or_else(|| short(0))?;
        if stored != count {
            return Err(invalid!("{stored} elements where {count} were expected"));
        }
        // Each element takes four bytes at least, so `rest` bounds what is set aside.
        if rest.len() / 4 < count {
            return Err(short(rest.len() / 4));
        }
        let mut out = Buffer::default();
        out.bytes.reserve_exact(count.saturating_mul(DataType::String.size()));
        out.heap.reserve_exact(rest.len().saturating_sub(count.saturating_mul(4)));
        for i in 0..count {
            let (length, after) = take_u32(rest).ok_or_else(|| short(i))?;
            let (item, after) = after.split_at_checked(length).ok_or_else(|| short(i))?;
            rest = after;
            match &self.content {
                Content::Utf8 => {
                    std::str::from_utf8(item)
                        .map_err(|e| invalid!("element {i} is not UTF-8").with_source(e))?;
                }
                Content::Array(element, _) if item.len() % element.size().max(1) != 0 => {
                    let size = element.size();
                    return Err(invalid!("element {i} has {length} bytes, no multiple of {size}"));
                }
                Content::Bytes | Content::Array(..) => {}
            }
            out.push(item)?;
        }
        if !rest.is_empty() {
            return Err(invalid!("{} bytes are left over", rest.len()));
        }
        if let Content::Array(element, order) = &self.content {
            // Elements lie one after the other in the heap, each whole: one pass does them all.
            order.decode_in_place(&mut out.heap, element);
        }
        Ok(out)
    }

    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>> {
        self.check(decoded)?;
        let mut out = to_u32(decoded.count()?)?.to_vec();
        for item in chunk.items() {
            out.extend_from_slice(&to_u32(item.len())?);
            match &self.content {
                Content::Array(element, order) => {
                    let mut item = item.to_vec();
                    order.swap(&mut item, element);
                    out.extend_from_slice(&item);
                }
                _ => out.extend_from_slice(item),
            }
        }
        Ok(out)
    }
}

fn take_u32(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (n, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_le_bytes(*n)).ok()?, rest))
}

fn to_u32(n: usize) -> Result<[u8; 4]> {
    u32::try_from(n).map(u32::to_le_bytes).map_err(|_| invalid!("{n} does not fit 32 bits"))
}

fn short(element: usize) -> Error {
    invalid!("the data end within element {element}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::line as repr;
    use crate::meta::json::Json;

    // numcodecs.VLenUTF8().encode(np.array(["foo", "", "bé"], dtype=object))
    const TEXT: &[u8] = b"\x03\0\0\0\x03\0\0\0foo\0\0\0\0\x03\0\0\0b\xc3\xa9";

    #[test]
    fn text() {
        let (codec, r) = (Vlen::utf8(), repr(DataType::String, 3));
        let got = codec.decode(TEXT, &r).unwrap();
        assert_eq!(got.items().collect::<Vec<_>>(), [&b"foo"[..], b"", "bé".as_bytes()]);
        assert_eq!(codec.encode(&got, &r).unwrap(), TEXT);
        assert!(codec.decode(b"\x01\0\0\0\x01\0\0\0\xff", &repr(DataType::String, 1)).is_err());
        assert!(Vlen::bytes().decode(b"\x01\0\0\0\x01\0\0\0\xff", &repr(DataType::Bytes, 1)).is_ok());
    }

    #[test]
    fn counts_and_lengths_are_checked() {
        let codec = Vlen::utf8();
        for end in 0..TEXT.len() {
            assert!(codec.decode(&TEXT[..end], &repr(DataType::String, 3)).is_err(), "{end}");
        }
        assert!(codec.decode(&[TEXT, b"x"].concat(), &repr(DataType::String, 3)).is_err());
        assert!(codec.decode(TEXT, &repr(DataType::String, 2)).is_err());
        assert!(codec.decode(&[0xff; 64], &repr(DataType::String, 0xffff_ffff)).is_err());
        assert!(codec.encoded_size(&repr(DataType::Bytes, 3)).is_err());
        assert!(codec.encoded_size(&repr(DataType::UINT8, 3)).is_err());
    }

    #[test]
    fn arrays_have_a_byte_order() {
        let config = [("dtype".to_owned(), Json::string(">i2"))];
        let codec = Vlen::array(&Config::new(&config)).unwrap();
        let r = repr(codec.data_type(), 2);
        // numcodecs.VLenArray(">i2").encode([[1, 3], [5]])
        let data = b"\x02\0\0\0\x04\0\0\0\0\x01\0\x03\x02\0\0\0\0\x05";
        let got = codec.decode(data, &r).unwrap();
        assert_eq!(got.items().collect::<Vec<_>>(), [&b"\x01\0\x03\0"[..], b"\x05\0"]);
        assert_eq!(codec.encode(&got, &r).unwrap(), data);
        assert!(codec.decode(b"\x01\0\0\0\x03\0\0\0abc", &repr(codec.data_type(), 1)).is_err());
    }
}
