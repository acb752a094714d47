//! Checksum codecs: four bytes, little-endian, before or after the data, which are otherwise unchanged.
//!
//! * `crc32c`: CRC-32C at the end. V3: `{"name": "crc32c"}`. numcodecs lets `location` move it.
//! * `crc32`, `adler32` (zlib's): V2 `{"id": "crc32"}`; at the start unless `location` is `"end"`.
//! * `fletcher32`: HDF5's, at the end. V2 `{"id": "fletcher32"}`.
//! * `jenkins_lookup3`: HDF5's metadata checksum, at the end; it starts from `initval` and is taken over `prefix`
//!   and data. V2 `{"id": "jenkins_lookup3", "initval": 0, "prefix": null}`.
//!
//! A checksum mismatch is always an error; it cannot be disabled.

use super::config::Config;
use super::{BytesToBytes, OutputSize, fletcher32, jenkins};
use crate::error::{Error, Result, invalid};
use crate::meta::json::Json;

/// Bytes a checksum takes.
const LEN: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChecksumCodec {
    kind: ChecksumKind,
    at_start: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ChecksumKind {
    Crc32c,
    Crc32,
    Adler32,
    Fletcher32,
    Jenkins { initval: u32, prefix: Vec<u8> },
}

impl ChecksumCodec {
    /// V3's `crc32c`, which has no configuration.
    pub(super) fn crc32c() -> Self {
        Self { kind: ChecksumKind::Crc32c, at_start: false }
    }

    pub(super) fn crc32c_at(config: &Config<'_>) -> Result<Self> {
        Ok(Self { kind: ChecksumKind::Crc32c, at_start: at_start(config, false)? })
    }

    pub(super) fn crc32(config: &Config<'_>) -> Result<Self> {
        Ok(Self { kind: ChecksumKind::Crc32, at_start: at_start(config, true)? })
    }

    pub(super) fn adler32(config: &Config<'_>) -> Result<Self> {
        Ok(Self { kind: ChecksumKind::Adler32, at_start: at_start(config, true)? })
    }

    /// `fletcher32`, which has no configuration.
    pub(super) fn fletcher32() -> Self {
        Self { kind: ChecksumKind::Fletcher32, at_start: false }
    }

    pub(super) fn jenkins(config: &Config<'_>) -> Result<Self> {
        let initval = u32::try_from(config.uint("initval")?.unwrap_or(0))
            .map_err(|_| Error::invalid("\"initval\" must be below 2^32").with_field("initval"))?;
        let wrong = || Error::invalid("\"prefix\" must be a string or a list of bytes").with_field("prefix");
        let prefix = match config.get("prefix") {
            None => Vec::new(),
            Some(Json::String(s)) => s.as_bytes().to_vec(),
            Some(list) => {
                let byte = |b: &Json| b.as_u64().and_then(|b| u8::try_from(b).ok());
                list.items().ok_or_else(wrong)?.iter().map(byte).collect::<Option<_>>().ok_or_else(wrong)?
            }
        };
        Ok(Self { kind: ChecksumKind::Jenkins { initval, prefix }, at_start: false })
    }

    fn sum(&self, data: &[u8]) -> u32 {
        match &self.kind {
            ChecksumKind::Crc32c => crc32c::crc32c(data),
            ChecksumKind::Crc32 => crc32fast::hash(data),
            ChecksumKind::Adler32 => libdeflater::adler32(data),
            ChecksumKind::Fletcher32 => fletcher32::sum(data),
            ChecksumKind::Jenkins { initval, prefix } if prefix.is_empty() => {
                jenkins::lookup3(data, *initval)
            }
            ChecksumKind::Jenkins { initval, prefix } => jenkins::lookup3(&[prefix, data].concat(), *initval),
        }
    }

    /// The data in `bytes`, if their checksum is right.
    fn verified<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let split = if self.at_start {
            bytes.split_first_chunk::<LEN>().map(|(sum, data)| (data, sum))
        } else {
            bytes.split_last_chunk::<LEN>()
        };
        let (data, stored) = split.ok_or_else(|| Error::invalid("too short to hold a checksum"))?;
        let stored = u32::from_le_bytes(*stored);
        let computed = self.sum(data);
        // HDF5 before 1.6.3 summed in another byte order, and HDF5 has accepted both since.
        if stored == computed
            || self.kind == ChecksumKind::Fletcher32 && stored == fletcher32::swapped(computed)
        {
            return Ok(data);
        }
        Err(invalid!(
            "the {} of the data is {computed:08x}, but {stored:08x} is stored: the data are damaged",
            self.name()
        ))
    }
}

fn at_start(config: &Config<'_>, default: bool) -> Result<bool> {
    match config.str("location")? {
        None => Ok(default),
        Some("start") => Ok(true),
        Some("end") => Ok(false),
        Some(other) => {
            Err(invalid!("\"location\" must be \"start\" or \"end\", not {other:?}").with_field("location"))
        }
    }
}

impl BytesToBytes for ChecksumCodec {
    fn name(&self) -> &'static str {
        match self.kind {
            ChecksumKind::Crc32c => "crc32c",
            ChecksumKind::Crc32 => "crc32",
            ChecksumKind::Adler32 => "adler32",
            ChecksumKind::Fletcher32 => "fletcher32",
            ChecksumKind::Jenkins { .. } => "jenkins_lookup3",
        }
    }

    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        Ok(decoded.map(|n| n.saturating_add(LEN)))
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        size.check(bytes.len().saturating_sub(LEN))?;
        Ok(self.verified(bytes)?.to_vec())
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let data = self.verified(bytes)?;
        OutputSize::Exact(out.len()).check(data.len())?;
        out.copy_from_slice(data);
        Ok(())
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let sum = self.sum(bytes).to_le_bytes();
        Ok(if self.at_start { [&sum, bytes].concat() } else { [bytes, &sum].concat() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Noise, rows};
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let data = Noise(2).bytes(67);
        for row in rows("trip").into_iter().filter(|r| r.name.ends_with("32") || r.name.ends_with("32c")) {
            let codec = row.bytes();
            let encoded = codec.encode(&data).unwrap();
            for i in 0..encoded.len() * 8 {
                let mut bytes = encoded.clone();
                bytes[i / 8] ^= 1 << (i % 8);
                assert!(codec.decode(&bytes, OutputSize::Exact(67)).is_err(), "{codec:?} bit {i}");
            }
            for n in 0..4 {
                assert!(codec.decode(&encoded[..n], OutputSize::AtMost(99)).is_err());
            }
        }
    }
}
