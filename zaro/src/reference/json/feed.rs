//! Reads and decompresses a reference document (plain, gzip or zstd) for the parser.

use std::io::Write as _;

use super::document::{Parsed, TableBuilder};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::num::{u64_of, usize_of};
use crate::store::{ByteRange, GetOptions, Object, ObjectMeta, SharedStore, StoreExt as _};
use futures::stream::{self, StreamExt, TryStreamExt};

/// Bytes per read, from files and remote stores.
const BLOCK: u64 = 1 << 20;
const REMOTE_BLOCK: u64 = 8 << 20;

/// Concurrent requests to a remote store.
const AT_ONCE: usize = 4;

/// Bytes given to a decoder at once: its output may be a thousand times as long.
const PIECE: usize = 16 << 10;

/// The byte order mark that some editors write.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The longest single member of a document.
const MAX_MEMBER: usize = 1 << 30;

/// Maximum compression ratio of a document that unpacks to more than 64 MiB. References compress to a thirtieth, seldom
/// to a hundredth.
const MAX_RATIO: u64 = 400;
const FREE: u64 = 64 << 20;

/// A document being read.
pub(super) struct Feed {
    coding: Option<Coding>,
    /// Bytes that were read and not parsed yet.
    pending: Vec<u8>,
    /// Length of `pending` before the parser is called again.
    enough: usize,
    /// Whether the compression was detected.
    begun: bool,
    /// Bytes read, and bytes after decompression.
    packed: u64,
    unpacked: u64,
    builder: TableBuilder,
}

enum Coding {
    Plain,
    Gzip(Box<flate2::write::MultiGzDecoder<Vec<u8>>>),
    Zstd { context: Box<zstd_safe::DCtx<'static>>, out: Vec<u8>, hint: usize },
}

impl Coding {
    /// Detects the compression by the first bytes: at least four, unless the document is shorter.
    fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip(Box::new(flate2::write::MultiGzDecoder::new(Vec::new()))),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd {
                context: Box::new(zstd_safe::DCtx::create()),
                out: vec![0; zstd_safe::DCtx::out_size()],
                hint: 0,
            },
            _ => Self::Plain,
        }
    }
}

fn damaged(what: &str, e: impl std::fmt::Display) -> Error {
    invalid!("the document is damaged {what}: {e}")
}

impl Feed {
    pub(super) fn new() -> Self {
        let (pending, builder) = (Vec::new(), TableBuilder::new());
        Self { coding: None, pending, enough: 0, begun: false, packed: 0, unpacked: 0, builder }
    }

    /// Takes the next bytes of the document.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.coding.is_none() {
            self.coding = Some(Coding::of(bytes));
        }
        if matches!(self.coding, Some(Coding::Plain)) {
            // What is not unpacked does not grow.
            self.packed = self.packed.saturating_add(u64_of(bytes.len()));
            return self.text(bytes);
        }
        match self.coding.take() {
            Some(Coding::Gzip(mut decoder)) => {
                for piece in bytes.chunks(PIECE) {
                    self.packed = self.packed.saturating_add(u64_of(piece.len()));
                    decoder.write_all(piece).map_err(|e| damaged("(gzip)", e))?;
                    let out = std::mem::take(decoder.get_mut());
                    self.text(&out)?;
                }
                self.coding = Some(Coding::Gzip(decoder));
            }
            Some(Coding::Zstd { mut context, mut out, .. }) => {
                self.packed = self.packed.saturating_add(u64_of(bytes.len()));
                let mut input = zstd_safe::InBuffer::around(bytes);
                let hint = loop {
                    let mut output = zstd_safe::OutBuffer::around(out.as_mut_slice());
                    let fault = |code| damaged("(zstd)", zstd_safe::get_error_name(code));
                    let hint = context.decompress_stream(&mut output, &mut input).map_err(fault)?;
                    let written = output.pos();
                    let full = written == out.len();
                    self.text(out.get(..written).unwrap_or_default())?;
                    if input.pos() >= bytes.len() && !full {
                        break hint;
                    }
                };
                self.coding = Some(Coding::Zstd { context, out, hint });
            }
            Some(Coding::Plain) | None => {}
        }
        Ok(())
    }

    /// Takes the next part of the text.
    fn text(&mut self, text: &[u8]) -> Result<()> {
        self.unpacked = self.unpacked.saturating_add(u64_of(text.len()));
        if self.unpacked > self.packed.saturating_mul(MAX_RATIO).max(FREE) {
            return Err(invalid!(
                "the document decompresses to more than {MAX_RATIO} times its size; refused as a decompression bomb"
            ));
        }
        // What is complete is taken from where it lies; the rest is kept for later.
        self.pending.extend_from_slice(text);
        if self.pending.len() < self.enough {
            return Ok(());
        }
        if !self.begun && self.pending.len() >= BOM.len() {
            self.begun = true;
            if self.pending.starts_with(BOM) {
                self.pending.drain(..BOM.len());
            }
        }
        let taken = self.builder.advance(&self.pending, false)?;
        self.pending.drain(..taken);
        // A long member is tried again only when there is twice as much of it.
        self.enough = if taken == 0 { self.pending.len().saturating_mul(2) } else { 0 };
        if self.pending.len() > MAX_MEMBER {
            return Err(Error::unsupported("a single reference is larger than 1 GiB"));
        }
        Ok(())
    }

    /// The document, when all of it has come.
    pub(super) fn finish(mut self, templates: &[(String, String)]) -> Result<Parsed> {
        match self.coding.take() {
            Some(Coding::Gzip(mut decoder)) => {
                decoder.try_finish().map_err(|e| damaged("(gzip)", e))?;
                let out = std::mem::take(decoder.get_mut());
                self.text(&out)?;
            }
            Some(Coding::Zstd { hint, .. }) if hint != 0 => {
                return Err(damaged("(zstd)", "it is truncated"));
            }
            _ => {}
        }
        self.builder.advance(&self.pending, true)?;
        drop(self.pending);
        self.builder.finish(templates)
    }
}

/// The document behind `key`; `None` if there is no such key.
pub(super) async fn read(
    store: &SharedStore,
    key: &str,
    templates: &[(String, String)],
) -> Result<Option<Parsed>> {
    let mut feed = Feed::new();
    if let Some(direct) = store.direct() {
        let Some(object) = direct.open(key)? else { return Ok(None) };
        if let Some(bytes) = object.as_bytes() {
            feed.push(bytes)?;
            return feed.finish(templates).map(Some);
        }
        let size = object.size();
        let mut block = vec![0; usize_of(size.min(BLOCK))?];
        let mut at = 0u64;
        while at < size {
            let length = size.saturating_sub(at).min(BLOCK);
            let part = block.get_mut(..usize_of(length)?).unwrap_or_default();
            object.read_at(at, part)?;
            feed.push(part)?;
            at = at.saturating_add(length);
        }
        return feed.finish(templates).map(Some);
    }
    match read_remote(store, key, templates).await {
        // It was replaced while it was read.
        Err(e) if e.kind() == ErrorKind::Conflict => read_remote(store, key, templates).await,
        read => read,
    }
}

/// Reads a remote document in blocks, all of the same version.
async fn read_remote(
    store: &SharedStore,
    key: &str,
    templates: &[(String, String)],
) -> Result<Option<Parsed>> {
    let mut feed = Feed::new();
    let Some(size) = store.size(key).await? else { return Ok(None) };
    let whole = size <= REMOTE_BLOCK;
    let blocks = (0..size.div_ceil(REMOTE_BLOCK).max(1)).map(|i| {
        let offset = i.saturating_mul(REMOTE_BLOCK);
        let range = ByteRange::span(offset, size.saturating_sub(offset).min(REMOTE_BLOCK));
        async move { store.get_opts(key, GetOptions::range((!whole).then_some(range))).await }
    });
    let mut blocks = stream::iter(blocks).buffered(AT_ONCE);
    let mut state = ObjectMeta::Unknown;
    while let Some(block) = blocks.try_next().await? {
        let Some(Object { bytes, meta }) = block else { return Ok(None) };
        meta.check(Some(&state)).map_err(|e| e.with_key(key).with_store(store))?;
        state = meta;
        feed.push(&bytes)?;
    }
    feed.finish(templates).map(Some)
}
