//! The header of Icechunk's metadata files, and their decompression.
//!
//! `ICE🧊CHUNK`, 24 bytes that name the writer, the version of the format, the kind of file, how it is compressed; then
//! FlatBuffers.

use crate::codec::config::Config;
use crate::codec::zstd::Zstd;
use crate::codec::{BytesToBytes, OutputSize};
use crate::error::{Result, invalid, unsupported};

const MAGIC: &[u8] = "ICE🧊CHUNK".as_bytes();
const HEADER: usize = 39;

/// A file may always be this large when decompressed, and beyond that [`RATIO`] times its size: far more than valid
/// files need.
const ALWAYS: usize = 16 << 20;
const RATIO: usize = 1024;

/// The kinds of files that a reader meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Snapshot,
    Manifest,
    Repo,
}

impl FileKind {
    fn code(self) -> u8 {
        match self {
            Self::Snapshot => 1,
            Self::Manifest => 2,
            Self::Repo => 6,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "a snapshot",
            Self::Manifest => "a manifest",
            Self::Repo => "the state of a repository",
        }
    }
}

/// Whether a file begins with Icechunk's magic bytes.
pub(super) fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Decompresses the FlatBuffers in a file of this kind.
pub(super) fn open(bytes: &[u8], kind: FileKind) -> Result<Vec<u8>> {
    let head = bytes.split_at_checked(HEADER).filter(|(head, _)| head.starts_with(MAGIC));
    let Some(([.., version, code, compression], body)) = head else {
        return Err(invalid!("not an Icechunk file; expected {}", kind.name()));
    };
    if !(1..=2).contains(version) {
        return Err(unsupported!(
            "the file has version {version} of Icechunk's format; versions 1 and 2 are supported"
        ));
    }
    if *code != kind.code() {
        return Err(invalid!("the file is of kind {code}; expected {}", kind.name()));
    }
    match compression {
        0 => Ok(body.to_vec()),
        1 => {
            let most = ALWAYS.max(body.len().saturating_mul(RATIO));
            Zstd::from_config(&Config::new(&[]), false)?.decode(body, OutputSize::AtMost(most))
        }
        other => Err(unsupported!("unknown compression of the file ({other})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, kind: u8, compression: u8, body: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(b"test                    ");
        out.extend([version, kind, compression]);
        out.extend(body);
        out
    }

    #[test]
    fn headers_are_held_to_what_they_say() {
        assert_eq!(open(&file(1, 1, 0, b"abc"), FileKind::Snapshot).unwrap(), b"abc");
        let packed = crate::codec::zstd::compress(b"abc", 1, false).unwrap();
        assert_eq!(open(&file(2, 6, 1, &packed), FileKind::Repo).unwrap(), b"abc");
        for (bad, word) in [
            (file(3, 1, 0, b""), "version 3"),
            (file(0, 1, 0, b""), "version 0"),
            (file(2, 2, 0, b""), "kind 2"),
            (file(2, 1, 2, b""), "unknown compression"),
            (b"{}".to_vec(), "not an Icechunk file"),
            (MAGIC.to_vec(), "not an Icechunk file"),
        ] {
            let e = open(&bad, FileKind::Snapshot).unwrap_err();
            assert!(e.message().contains(word), "{e}");
        }
    }

    #[test]
    fn a_bomb_is_refused() {
        let packed = crate::codec::zstd::compress(&vec![0; ALWAYS * 8], 1, false).unwrap();
        assert!(packed.len() * RATIO < ALWAYS * 8);
        assert!(open(&file(2, 1, 1, &packed), FileKind::Snapshot).is_err());
    }
}
