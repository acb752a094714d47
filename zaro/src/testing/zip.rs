//! Custom ZIP archives for tests: the usual and the unusual.
#![allow(clippy::unwrap_used, reason = "test code")]

/// How an entry is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZipMethod {
    /// Uncompressed.
    Stored,
    /// Deflated.
    Deflated,
}

/// Builds an archive.
#[derive(Debug, Clone)]
pub struct ZipMaker {
    /// How entries are stored.
    pub method: ZipMethod,
    /// Write every size and offset in ZIP64 fields.
    pub zip64: bool,
    /// Write sizes after the data instead of in the local headers, as writers to a pipe do.
    pub trailers: bool,
    /// Bytes of padding in each local header.
    pub padding: u16,
    /// Bytes before the archive.
    pub before: Vec<u8>,
    /// The archive comment.
    pub comment: Vec<u8>,
    /// Mark every entry as encrypted.
    pub encrypted: bool,
}

impl Default for ZipMaker {
    fn default() -> Self {
        Self {
            method: ZipMethod::Stored,
            zip64: false,
            trailers: false,
            padding: 0,
            before: Vec::new(),
            comment: Vec::new(),
            encrypted: false,
        }
    }
}

impl ZipMaker {
    /// An archive of `objects`, in that order. A name that ends with a slash is a folder.
    #[must_use]
    pub fn make<K: AsRef<str>, V: AsRef<[u8]>>(&self, objects: &[(K, V)]) -> Vec<u8> {
        let mut out = self.before.clone();
        let origin = out.len();
        let mut directory = Vec::new();
        let flags = 0x800u16 | u16::from(self.encrypted) | if self.trailers { 8 } else { 0 };
        for (name, content) in objects {
            let (name, content) = (name.as_ref().as_bytes(), content.as_ref());
            let packed = match self.method {
                ZipMethod::Stored => content.to_vec(),
                ZipMethod::Deflated => deflate(content),
            };
            let method = match self.method {
                ZipMethod::Stored => 0u16,
                ZipMethod::Deflated => 8,
            };
            let crc = crc32fast::hash(content);
            let at = long(out.len() - origin);
            let sizes = |v: &mut Vec<u8>, known: bool| {
                let field = |n: usize| {
                    if !known {
                        0
                    } else if self.zip64 {
                        u32::MAX
                    } else {
                        short(n)
                    }
                };
                v.extend(if known { crc } else { 0 }.to_le_bytes());
                v.extend(field(packed.len()).to_le_bytes());
                v.extend(field(content.len()).to_le_bytes());
            };
            let mut extra = Vec::new();
            if self.zip64 && !self.trailers {
                extra.extend([1, 0, 16, 0]);
                extra.extend(long(content.len()).to_le_bytes());
                extra.extend(long(packed.len()).to_le_bytes());
            }
            if self.padding > 0 {
                extra.extend(0xD935u16.to_le_bytes());
                extra.extend(self.padding.to_le_bytes());
                extra.extend(vec![0; usize::from(self.padding)]);
            }
            out.extend(b"PK\x03\x04\x2d\x00");
            out.extend(flags.to_le_bytes());
            out.extend(method.to_le_bytes());
            out.extend([0; 4]);
            sizes(&mut out, !self.trailers);
            out.extend(half(name.len()).to_le_bytes());
            out.extend(half(extra.len()).to_le_bytes());
            out.extend(name);
            out.extend(extra);
            out.extend(&packed);
            if self.trailers {
                out.extend(b"PK\x07\x08");
                out.extend(crc.to_le_bytes());
                out.extend(short(packed.len()).to_le_bytes());
                out.extend(short(content.len()).to_le_bytes());
            }

            let mut extra = Vec::new();
            if self.zip64 {
                extra.extend([1, 0, 24, 0]);
                extra.extend(long(content.len()).to_le_bytes());
                extra.extend(long(packed.len()).to_le_bytes());
                extra.extend(at.to_le_bytes());
            }
            directory.extend(b"PK\x01\x02\x2d\x03\x2d\x00");
            directory.extend(flags.to_le_bytes());
            directory.extend(method.to_le_bytes());
            directory.extend([0; 4]);
            sizes(&mut directory, true);
            directory.extend(half(name.len()).to_le_bytes());
            directory.extend(half(extra.len()).to_le_bytes());
            directory.extend([0; 10]);
            directory.extend(if self.zip64 { u32::MAX } else { u32::try_from(at).unwrap() }.to_le_bytes());
            directory.extend(name);
            directory.extend(extra);
        }
        let start = out.len() - origin;
        out.extend(&directory);
        if self.zip64 {
            let at = long(out.len() - origin);
            out.extend(b"PK\x06\x06");
            out.extend(44u64.to_le_bytes());
            out.extend([45, 3, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            out.extend(long(objects.len()).to_le_bytes());
            out.extend(long(objects.len()).to_le_bytes());
            out.extend(long(directory.len()).to_le_bytes());
            out.extend(long(start).to_le_bytes());
            out.extend(b"PK\x06\x07\0\0\0\0");
            out.extend(at.to_le_bytes());
            out.extend(1u32.to_le_bytes());
        }
        out.extend(b"PK\x05\x06\0\0\0\0");
        let count = if self.zip64 { u16::MAX } else { half(objects.len()) };
        out.extend(count.to_le_bytes());
        out.extend(count.to_le_bytes());
        out.extend(if self.zip64 { u32::MAX } else { short(directory.len()) }.to_le_bytes());
        out.extend(if self.zip64 { u32::MAX } else { short(start) }.to_le_bytes());
        out.extend(half(self.comment.len()).to_le_bytes());
        out.extend(&self.comment);
        out
    }
}

fn half(n: usize) -> u16 {
    u16::try_from(n).unwrap()
}

fn short(n: usize) -> u32 {
    u32::try_from(n).unwrap()
}

fn long(n: usize) -> u64 {
    u64::try_from(n).unwrap()
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.deflate_compress_bound(content.len())];
    let n = compressor.deflate_compress(content, &mut out).unwrap();
    out.truncate(n);
    out
}
