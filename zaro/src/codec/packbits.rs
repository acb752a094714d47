//! `packbits`: bit-packed elements of any number of bits.
//!
//! V3: `{"name": "packbits", "configuration": {"padding_encoding": "first_byte", "first_bit": 0, "last_bit": 11}}`, all
//! members optional. Bits `first_bit` to `last_bit` of each component are stored, lowest first, the first element in
//! the lowest bits of the first byte. Decoding shifts them back and extends the sign of signed integers. numcodecs'
//! filter of that name is another format, see `bool_bits.rs`.

use super::config::Config;
use super::{ArrayToBytes, Buffer, OutputSize, Repr};
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::DataType;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackBits {
    padding: Padding,
    first: u64,
    last: Option<u64>,
}

/// Where the number of padding bits stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Padding {
    None,
    First,
    Last,
}

/// How the components of a type are stored.
struct PackedLayout {
    /// Components of an element.
    components: usize,
    /// Bytes of a component in memory.
    bytes: usize,
    /// Lowest bit stored.
    first: u32,
    /// How many bits are stored; 1 to 64.
    width: u32,
    signed: bool,
}

impl PackBits {
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        let padding = match config.str("padding_encoding")? {
            None | Some("none") => Padding::None,
            Some("first_byte") => Padding::First,
            Some("last_byte") => Padding::Last,
            Some(other) => {
                return Err(invalid!("\"padding_encoding\" {other:?} is not known"));
            }
        };
        let first = config.uint("first_bit")?.unwrap_or(0);
        let last = config.uint("last_bit")?;
        if last.is_some_and(|l| l < first) {
            return Err(Error::invalid("\"last_bit\" is less than \"first_bit\""));
        }
        Ok(Self { padding, first, last })
    }

    fn layout(&self, data_type: &DataType) -> Result<PackedLayout> {
        let (bits, components) = match data_type {
            DataType::Bool => (1, 1),
            DataType::Int(b) | DataType::UInt(b) => (*b, 1),
            DataType::Float(f) => (f.bits(), 1),
            DataType::Complex(f) => (f.bits(), 2),
            DataType::DateTime(..) | DataType::TimeDelta(..) => (64, 1),
            other => return Err(invalid!("cannot hold {other} elements")),
        };
        let last = self.last.unwrap_or(u64::from(bits) - 1);
        if last >= u64::from(bits) || self.first > last {
            let first = self.first;
            return Err(invalid!("bits {first} to {last} are not in the {bits} of {data_type}"));
        }
        let narrow = |n: u64| u32::try_from(n).map_err(|_| Error::invalid("the bit numbers are too large"));
        Ok(PackedLayout {
            components,
            bytes: data_type.size() / components,
            first: narrow(self.first)?,
            width: narrow(last - self.first + 1)?,
            signed: matches!(data_type, DataType::Int(_) | DataType::DateTime(..) | DataType::TimeDelta(..)),
        })
    }

    /// Bytes of the bit stream, and bits of padding at its end.
    fn stream(decoded: &Repr, l: &PackedLayout) -> Result<(usize, u8)> {
        let width = usize::try_from(l.width).unwrap_or(64);
        let bits = decoded.count()?.checked_mul(l.components).and_then(|n| n.checked_mul(width));
        let bits = bits.ok_or_else(|| Error::invalid("the chunk is too large"))?;
        let bytes = bits.div_ceil(8);
        Ok((bytes, u8::try_from((8 - bits % 8) % 8).unwrap_or_default()))
    }
}

impl ArrayToBytes for PackBits {
    fn name(&self) -> &'static str {
        "packbits"
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        let (bytes, _) = Self::stream(decoded, &self.layout(&decoded.data_type)?)?;
        Ok(OutputSize::Exact(bytes.saturating_add(usize::from(self.padding != Padding::None))))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        self.encoded_size(decoded)?.check(bytes.len())?;
        let l = self.layout(&decoded.data_type)?;
        let (_, padding) = Self::stream(decoded, &l)?;
        let (said, packed) = match self.padding {
            Padding::None => (None, Some(bytes)),
            Padding::First => bytes.split_first().map_or((None, None), |(p, rest)| (Some(p), Some(rest))),
            Padding::Last => bytes.split_last().map_or((None, None), |(p, rest)| (Some(p), Some(rest))),
        };
        if let Some(said) = said
            && *said != padding
        {
            return Err(invalid!("states {said} bits of padding where there are {padding}"));
        }
        let mut stream = packed.unwrap_or_default().iter();
        let (mut held, mut have) = (0u128, 0u32);
        let mask = u128::from(u64::MAX >> (64 - l.width));
        let mut out = Vec::with_capacity(decoded.byte_size()?);
        for _ in 0..decoded.count()?.saturating_mul(l.components) {
            while have < l.width {
                let byte = stream.next().ok_or_else(|| Error::invalid("the data are truncated"))?;
                held |= u128::from(*byte) << have;
                have += 8;
            }
            let mut value = u64::try_from(held & mask).unwrap_or_default();
            held >>= l.width;
            have -= l.width;
            if l.signed && value >> (l.width - 1) & 1 == 1 {
                value |= u64::MAX.checked_shl(l.width).unwrap_or(0);
            }
            // Shifted as a whole, so that the sign reaches the top of the byte in memory too.
            value <<= l.first;
            out.extend(value.to_le_bytes().into_iter().take(l.bytes));
        }
        Ok(Buffer::fixed(out))
    }

    fn encode(&self, chunk: &Buffer, decoded: &Repr) -> Result<Vec<u8>> {
        let l = self.layout(&decoded.data_type)?;
        let (bytes, padding) = Self::stream(decoded, &l)?;
        let mut out = Vec::with_capacity(bytes.saturating_add(1));
        if self.padding == Padding::First {
            out.push(padding);
        }
        let (mut held, mut have) = (0u128, 0u32);
        for component in chunk.bytes.chunks_exact(l.bytes.max(1)) {
            let mut word = [0; 8];
            word.iter_mut().zip(component).for_each(|(w, b)| *w = *b);
            let value = u64::from_le_bytes(word) >> l.first & u64::MAX >> (64 - l.width);
            held |= u128::from(value) << have;
            have += l.width;
            while have >= 8 {
                let [low, ..] = held.to_le_bytes();
                out.push(low);
                held >>= 8;
                have -= 8;
            }
        }
        if have > 0 {
            let [low, ..] = held.to_le_bytes();
            out.push(low);
        }
        if self.padding == Padding::Last {
            out.push(padding);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use crate::codec::testing::{line, to_bytes};
    use crate::meta::dtype::DataType;

    #[test]
    fn padding_must_be_what_it_says() {
        let c = to_bytes("packbits", r#"{"padding_encoding":"first_byte"}"#, &DataType::Bool);
        assert!(c.decode(&[4, 5], &line(DataType::Bool, 3)).is_err());
    }
}
