//! `lzma`: xz, `.lzma` and raw LZMA streams.
//!
//! V2: `{"id": "lzma", "format": 1, "check": -1, "preset": null, "filters": null}`, in the numbers of Python's `lzma`:
//! `format` 1 is xz, 2 the older `.lzma`, 3 bare streams, which need `filters` to be read, 0 either of the first two.
//! TIFF references say `imagecodecs_lzma`, which is xz.

use liblzma::stream::{
    Action, CONCATENATED, Check, Filters, LzmaOptions, MatchFinder, Mode, PRESET_EXTREME, Status, Stream,
};

use super::config::Config;
use super::output::{self, StreamStep};
use super::{BytesToBytes, OutputSize};
use crate::error::{Error, Result, unsupported};
use crate::meta::json::Json;
use crate::num;

/// The greatest expansion the format can reach is near this.
const RATIO: usize = 1 << 14;
/// What a decoder may take for itself; xz -9 needs 65 MiB.
const MEMORY: u64 = 256 << 20;

#[derive(Debug, Clone)]
pub(super) struct Lzma {
    format: LzmaFormat,
    check: Check,
    preset: u32,
    filters: Vec<LzmaFilter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LzmaFormat {
    Auto,
    Xz,
    Alone,
    Raw,
}

/// One of the filters that make up a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LzmaFilter {
    Lzma1(FilterOptions),
    Lzma2(FilterOptions),
    /// The distance.
    Delta(u8),
    /// For machine code: its number, and where it starts.
    Branch(u64, Option<u32>),
}

/// What an LZMA filter can be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FilterOptions {
    preset: Option<u32>,
    dict_size: Option<u32>,
    lc: Option<u32>,
    lp: Option<u32>,
    pb: Option<u32>,
    mode: Option<u32>,
    nice_len: Option<u32>,
    mf: Option<u32>,
    depth: Option<u32>,
}

impl Lzma {
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        let format = match config.int("format")? {
            Some(0) => LzmaFormat::Auto,
            None | Some(1) => LzmaFormat::Xz,
            Some(2) => LzmaFormat::Alone,
            Some(3) => LzmaFormat::Raw,
            Some(n) => return Err(wrong("format", format!("{n} is not a format of LZMA"))),
        };
        let check = match config.int("check")? {
            None | Some(-1 | 4) => Check::Crc64,
            Some(0) => Check::None,
            Some(1) => Check::Crc32,
            Some(10) => Check::Sha256,
            Some(n) => return Err(wrong("check", format!("{n} is not a check of LZMA"))),
        };
        let preset = match config.uint("preset")? {
            None => 6,
            Some(n) => preset(n)?,
        };
        let filters = match config.get("filters") {
            None => Vec::new(),
            Some(list) => list
                .items()
                .ok_or_else(|| wrong("filters", "\"filters\" must be a list"))?
                .iter()
                .map(LzmaFilter::from_json)
                .collect::<Result<_>>()?,
        };
        if format == LzmaFormat::Raw && filters.is_empty() {
            return Err(wrong("filters", "format 3 cannot be read without \"filters\""));
        }
        Ok(Self { format, check, preset, filters })
    }

    /// xz, as `imagecodecs_lzma` has it.
    pub(super) fn xz() -> Self {
        Self { format: LzmaFormat::Xz, check: Check::Crc64, preset: 6, filters: Vec::new() }
    }

    fn decoder(&self, limit: usize) -> Result<Stream> {
        match self.format {
            LzmaFormat::Auto => Stream::new_auto_decoder(MEMORY, CONCATENATED),
            LzmaFormat::Xz => Stream::new_stream_decoder(MEMORY, CONCATENATED),
            LzmaFormat::Alone => Stream::new_lzma_decoder(MEMORY),
            // A dictionary need not be larger than what is decoded, whatever the metadata say.
            LzmaFormat::Raw => Stream::new_raw_decoder(&self.chain(Some(limit))?),
        }
        .map_err(fault)
    }

    fn chain(&self, limit: Option<usize>) -> Result<Filters> {
        let mut chain = Filters::new();
        for filter in &self.filters {
            match filter {
                LzmaFilter::Lzma1(options) => chain.lzma1(&options.build(self.preset, limit)?),
                LzmaFilter::Lzma2(options) => chain.lzma2(&options.build(self.preset, limit)?),
                LzmaFilter::Delta(distance) => chain.delta_properties(&[distance - 1]).map_err(fault)?,
                LzmaFilter::Branch(id, start) => {
                    let start = start.map(u32::to_le_bytes);
                    let start = start.as_ref().map_or(&[][..], |s| s);
                    match id {
                        4 => chain.x86_properties(start),
                        5 => chain.powerpc_properties(start),
                        6 => chain.ia64_properties(start),
                        7 => chain.arm_properties(start),
                        8 => chain.arm_thumb_properties(start),
                        9 => chain.sparc_properties(start),
                        10 => chain.arm64_properties(start),
                        _ => chain.riscv_properties(start),
                    }
                    .map_err(fault)?
                }
            };
        }
        Ok(chain)
    }

    /// Steps through the stream.
    fn steps<'a>(
        &self,
        bytes: &'a [u8],
        limit: usize,
    ) -> Result<impl FnMut(&mut [u8]) -> Result<StreamStep> + use<'a>> {
        let mut stream = self.decoder(limit)?;
        let mut rest = bytes;
        let mut end = false;
        Ok(move |out: &mut [u8]| {
            while !end {
                let (read, written) = (stream.total_in(), stream.total_out());
                let status = stream.process(rest, out, Action::Finish).map_err(fault)?;
                let read = num::usize_of(stream.total_in() - read)?;
                let written = num::usize_of(stream.total_out() - written)?;
                rest = rest.get(read..).unwrap_or_default();
                end = status == Status::StreamEnd;
                if written > 0 {
                    return Ok(StreamStep { written, end });
                }
                if read == 0 && !end {
                    return Err(Error::invalid("the LZMA stream is truncated"));
                }
            }
            Ok(StreamStep { written: 0, end: true })
        })
    }
}

impl LzmaFilter {
    fn from_json(json: &Json) -> Result<Self> {
        let number =
            |name: &str| match json.get(name) {
                None | Some(Json::Null) => Ok(None),
                Some(v) => v.as_u64().and_then(|n| u32::try_from(n).ok()).map(Some).ok_or_else(|| {
                    wrong("filters", format!("{name:?} must be a non-negative integer, not {v}"))
                }),
            };
        let id = json.get("id").and_then(Json::as_u64);
        let id = id.ok_or_else(|| wrong("filters", "a filter of LZMA must have an \"id\""))?;
        let options = || -> Result<FilterOptions> {
            Ok(FilterOptions {
                preset: number("preset")?.map(|n| preset(u64::from(n))).transpose()?,
                dict_size: number("dict_size")?,
                lc: number("lc")?,
                lp: number("lp")?,
                pb: number("pb")?,
                mode: number("mode")?,
                nice_len: number("nice_len")?,
                mf: number("mf")?,
                depth: number("depth")?,
            })
        };
        Ok(match id {
            0x4000_0000_0000_0001 => Self::Lzma1(options()?),
            0x21 => Self::Lzma2(options()?),
            3 => match u8::try_from(number("dist")?.unwrap_or(1)) {
                Ok(n) if n > 0 => Self::Delta(n),
                _ => return Err(wrong("filters", "\"dist\" must be 1 to 255")),
            },
            4..=11 => Self::Branch(id, number("start_offset")?),
            _ => return Err(unsupported!("{id} is not a supported LZMA filter")),
        })
    }
}

impl FilterOptions {
    fn build(&self, preset: u32, limit: Option<usize>) -> Result<LzmaOptions> {
        const LEAST: u32 = 4096;
        let mut options = LzmaOptions::new_preset(self.preset.unwrap_or(preset)).map_err(fault)?;
        let (lc, lp, pb) = (self.lc.unwrap_or(3), self.lp.unwrap_or(0), self.pb.unwrap_or(2));
        if lc + lp > 4 || pb > 4 {
            return Err(wrong("filters", "\"lc\" + \"lp\" and \"pb\" must not be above 4"));
        }
        options.literal_context_bits(lc).literal_position_bits(lp).position_bits(pb);
        let mut dict = self.dict_size;
        if let Some(limit) = limit {
            let enough = u32::try_from(limit).unwrap_or(u32::MAX).max(LEAST);
            // 64 MiB is the most that a preset asks for.
            dict = Some(dict.unwrap_or(64 << 20).min(enough).max(LEAST));
        }
        if let Some(size) = dict {
            options.dict_size(size);
        }
        match self.mode {
            None => {}
            Some(1) => _ = options.mode(Mode::Fast),
            Some(2) => _ = options.mode(Mode::Normal),
            Some(n) => return Err(wrong("filters", format!("{n} is not a mode of LZMA"))),
        }
        let finder = match self.mf {
            None => None,
            Some(0x03) => Some(MatchFinder::HashChain3),
            Some(0x04) => Some(MatchFinder::HashChain4),
            Some(0x12) => Some(MatchFinder::BinaryTree2),
            Some(0x13) => Some(MatchFinder::BinaryTree3),
            Some(0x14) => Some(MatchFinder::BinaryTree4),
            Some(n) => return Err(wrong("filters", format!("{n} is not a match finder of LZMA"))),
        };
        if let Some(finder) = finder {
            options.match_finder(finder);
        }
        if let Some(n) = self.nice_len {
            options.nice_len(n);
        }
        if let Some(n) = self.depth {
            options.depth(n);
        }
        Ok(options)
    }
}

/// A preset: 0 to 9, with or without the flag for "extreme".
fn preset(n: u64) -> Result<u32> {
    match u32::try_from(n) {
        Ok(n) if n & !PRESET_EXTREME <= 9 => Ok(n),
        _ => Err(wrong("preset", "\"preset\" must be 0 to 9")),
    }
}

fn fault(e: liblzma::stream::Error) -> Error {
    match e {
        liblzma::stream::Error::MemLimit => {
            unsupported!("the LZMA stream needs more than {} MiB to decode", MEMORY >> 20)
        }
        e => Error::invalid("the LZMA stream is damaged").with_source(e),
    }
}

fn wrong(field: &str, message: impl Into<String>) -> Error {
    Error::invalid(message).with_field(field)
}

impl BytesToBytes for Lzma {
    fn name(&self) -> &'static str {
        "lzma"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        output::stream(size, bytes.len(), RATIO, self.steps(bytes, size.limit())?)
    }

    fn decode_into(&self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        output::stream_into(out, self.steps(bytes, out.len())?)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut stream = match (self.format, self.filters.first()) {
            (LzmaFormat::Auto, _) => return Err(Error::unsupported("format 0 is for reading only")),
            (LzmaFormat::Xz, None) => Stream::new_easy_encoder(self.preset, self.check),
            (LzmaFormat::Xz, Some(_)) => Stream::new_stream_encoder(&self.chain(None)?, self.check),
            (LzmaFormat::Alone, Some(LzmaFilter::Lzma1(options))) => {
                Stream::new_lzma_encoder(&options.build(self.preset, None)?)
            }
            (LzmaFormat::Alone, None) => {
                Stream::new_lzma_encoder(&LzmaOptions::new_preset(self.preset).map_err(fault)?)
            }
            (LzmaFormat::Alone, Some(_)) => return Err(wrong("filters", "format 2 has one filter, LZMA1")),
            (LzmaFormat::Raw, _) => Stream::new_raw_encoder(&self.chain(None)?),
        }
        .map_err(fault)?;
        let mut out = Vec::with_capacity(bytes.len() / 2 + 1024);
        loop {
            let read = num::usize_of(stream.total_in())?;
            let rest = bytes.get(read..).unwrap_or_default();
            if stream.process_vec(rest, &mut out, Action::Finish).map_err(fault)? == Status::StreamEnd {
                return Ok(out);
            }
            out.reserve(out.len().max(1024));
        }
    }
}
