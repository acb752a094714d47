//! Streaming writer of Kerchunk's JSON references.
//!
//! Version 1 without templates, which every reader supports. Only the entry being written is held in memory.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::write::GzEncoder;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::{Location, Span};
use crate::error::{Error, Result, io};
use crate::meta::json::write_string;

/// How the text is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip, `.json.gz`.
    Gzip,
    /// Zstandard, `.json.zst`.
    Zstd,
}

/// A document that is being written.
pub struct JsonWriter<W: Write> {
    out: Encoder<W>,
    line: String,
    pretty: bool,
    entries: u64,
}

impl<W: Write> std::fmt::Debug for JsonWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonWriter").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl<W: Write> JsonWriter<W> {
    /// Begins a document; `pretty` writes one entry per line.
    pub fn new(out: W, compression: Compression, pretty: bool) -> Result<Self> {
        let mut out = Encoder::new(out, compression)?;
        let head = if pretty { "{\n\"version\": 1,\n\"refs\": {" } else { "{\"version\":1,\"refs\":{" };
        out.write_all(head.as_bytes())?;
        Ok(Self { out, line: String::new(), pretty, entries: 0 })
    }

    /// Writes the reference of `key`; `url` is the address to write if it is not inline.
    pub fn put(&mut self, key: &str, location: &Location, url: &str) -> Result<()> {
        let line = &mut self.line;
        line.clear();
        if self.entries > 0 {
            line.push(',');
        }
        line.push_str(if self.pretty { "\n" } else { "" });
        write_string(key, line);
        line.push_str(if self.pretty { ": " } else { ":" });
        match location {
            Location::Inline(bytes) => match plain_text(bytes) {
                Some(text) => write_string(text, line),
                None => {
                    line.push_str("\"base64:");
                    STANDARD.encode_string(bytes, line);
                    line.push('"');
                }
            },
            Location::Remote(remote) => {
                line.push('[');
                // The one that the caller names.
                if url.is_empty() {
                    line.push_str("null")
                } else {
                    write_string(url, line)
                }
                if let Some(Span { offset, length }) = remote.span {
                    line.push_str(&format!(",{offset},{length}"));
                }
                line.push(']');
            }
        }
        self.out.write_all(line.as_bytes())?;
        self.entries += 1;
        Ok(())
    }

    /// Ends the document; required for a complete document.
    pub fn finish(mut self) -> Result<W> {
        let tail: &[u8] = if self.pretty { b"\n}\n}\n" } else { b"}}" };
        self.out.write_all(tail)?;
        self.out.finish()
    }
}

/// Inline bytes as plain text, if they can be written so.
///
/// Text that begins with the base64 prefix would be decoded; control characters are legal, but one reader loses a NUL
/// at the end.
fn plain_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let odd = |b: &u8| *b < 0x20 && !matches!(b, b'\n' | b'\r' | b'\t');
    (!text.starts_with("base64:") && !bytes.iter().any(odd)).then_some(text)
}

/// The compressor of the output.
enum Encoder<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(Box<ZstdWriter<W>>),
}

impl<W: Write> Encoder<W> {
    fn new(out: W, compression: Compression) -> Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain(out),
            Compression::Gzip => Self::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Compression::Zstd => Self::Zstd(Box::new(ZstdWriter::new(out)?)),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Plain(out) => Ok(out.write_all(bytes)?),
            Self::Gzip(out) => Ok(out.write_all(bytes)?),
            Self::Zstd(out) => out.write_all(bytes),
        }
    }

    fn finish(self) -> Result<W> {
        let mut out = match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out.finish()?,
            Self::Zstd(out) => out.finish()?,
        };
        out.flush()?;
        Ok(out)
    }
}

/// A stream of Zstandard.
struct ZstdWriter<W: Write> {
    context: CCtx<'static>,
    buffer: Vec<u8>,
    out: W,
}

/// Bytes given to the compressor's output at once.
const PIECE: usize = 1 << 17;

impl<W: Write> ZstdWriter<W> {
    fn new(out: W) -> Result<Self> {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(3)).map_err(fault)?;
        Ok(Self { context, buffer: Vec::with_capacity(PIECE), out })
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let mut input = InBuffer::around(bytes);
        while input.pos() < bytes.len() {
            self.buffer.clear();
            let mut output = OutBuffer::around(&mut self.buffer);
            self.context.compress_stream(&mut output, &mut input).map_err(fault)?;
            self.out.write_all(output.as_slice())?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<W> {
        loop {
            self.buffer.clear();
            let mut output = OutBuffer::around(&mut self.buffer);
            let left = self.context.end_stream(&mut output).map_err(fault)?;
            self.out.write_all(output.as_slice())?;
            if left == 0 {
                return Ok(self.out);
            }
        }
    }
}

fn fault(code: usize) -> Error {
    io!("zstd: {}", zstd_safe::get_error_name(code))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::Remote;
    use super::*;
    use crate::meta::Json;

    fn written(compression: Compression, pretty: bool) -> Vec<u8> {
        let mut w = JsonWriter::new(Vec::new(), compression, pretty).unwrap();
        for (key, bytes) in [
            ("a\"b", &b"text \xc3\xa9\n"[..]),
            ("c", b"base64:x"),
            ("d", b"\xff\x00"),
            ("e", b"a\0"),
            ("f", b""),
        ] {
            w.put(key, &Location::Inline(Bytes::copy_from_slice(bytes)), "").unwrap();
        }
        let span = Some(Span { offset: 9_007_199_254_740_993, length: 0 });
        w.put("g", &Location::Remote(Remote::new("u", span)), "s3://b/\u{1}").unwrap();
        w.put("h", &Location::Remote(Remote::new("u", None)), "u").unwrap();
        w.put("i", &Location::Remote(Remote::new("", None)), "").unwrap();
        w.finish().unwrap()
    }

    #[test]
    fn every_kind_of_entry_is_written() {
        let wanted = concat!(
            r#"{"version":1,"refs":{"a\"b":"text é\n","c":"base64:YmFzZTY0Ong=","d":"base64:/wA=","#,
            r#""e":"base64:YQA=","f":"","g":["s3://b/\u0001",9007199254740993,0],"h":["u"],"i":[null]}}"#
        );
        let plain = written(Compression::None, false);
        assert_eq!(String::from_utf8(plain.clone()).unwrap(), wanted);
        let pretty = Json::parse(&written(Compression::None, true)).unwrap().value;
        assert_eq!(pretty, Json::parse(&plain).unwrap().value);
        let empty = JsonWriter::new(Vec::new(), Compression::None, false).unwrap().finish().unwrap();
        assert_eq!(empty, br#"{"version":1,"refs":{}}"#);
    }

    #[test]
    fn compressed_documents_say_the_same() {
        use std::io::Read as _;
        let plain = written(Compression::None, false);
        let mut gzip = Vec::new();
        let packed = written(Compression::Gzip, false);
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut gzip).unwrap();
        assert_eq!(gzip, plain);
        let packed = written(Compression::Zstd, false);
        let mut zstd = Vec::with_capacity(1 << 16);
        zstd_safe::decompress(&mut zstd, &packed).unwrap();
        assert_eq!(zstd, plain);
    }

    #[test]
    fn a_long_stream_is_written_in_pieces() {
        let mut w = JsonWriter::new(Vec::new(), Compression::Zstd, false).unwrap();
        let mut state = 1u64;
        for i in 0..4000 {
            let bytes: Vec<u8> = (0..200)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state.to_be_bytes()[0]
                })
                .collect();
            w.put(&format!("a/{i}"), &Location::Inline(bytes.into()), "").unwrap();
        }
        let packed = w.finish().unwrap();
        let mut plain = Vec::with_capacity(4 << 20);
        zstd_safe::decompress(&mut plain, &packed).unwrap();
        let refs = Json::parse(&plain).unwrap().value;
        assert_eq!(refs.get("refs").unwrap().members().unwrap().len(), 4000);
    }
}
