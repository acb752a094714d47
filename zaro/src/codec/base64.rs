//! `base64`: RFC 4648. V2: `{"id": "base64"}`. White space between the characters is ignored.

use ::base64::Engine;
use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::{BytesToBytes, OutputSize};
use crate::error::{Error, Result};

/// The `base64` codec; it has no configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base64;

/// Padding may be missing.
pub(crate) const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &::base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl BytesToBytes for Base64 {
    fn name(&self) -> &'static str {
        "base64"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        let fault = |e| Error::invalid("the data are not valid base64").with_source(e);
        let out = if bytes.iter().any(u8::is_ascii_whitespace) {
            let dense: Vec<u8> = bytes.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
            ENGINE.decode(dense).map_err(fault)?
        } else {
            ENGINE.decode(bytes).map_err(fault)?
        };
        size.check(out.len())?;
        Ok(out)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(ENGINE.encode(bytes).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_letters_are_refused() {
        assert!(Base64.decode(b"em?ybw==", OutputSize::Exact(4)).is_err());
    }
}
