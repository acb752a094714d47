//! Rendering settings, and the part of an image to render.

use std::ops::Range;

use crate::error::{Result, usage};
use crate::image::model::{ColorModel, Family};
use crate::image::parse;

/// Rendering settings that override those of the image.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The multiscale, by name.
    pub multiscale: Option<String>,
    /// The channels to render; empty for the active ones.
    pub channels: Vec<ChannelSetting>,
    /// The colour model.
    pub model: Option<ColorModel>,
    /// The labels and masks to overlay.
    pub labels: LabelChoice,
    /// Label opacity, 0 to 1, multiplied with that of their colours.
    pub opacity: f64,
    /// The memory budget for raw pixels, in bytes.
    pub memory: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            multiscale: None,
            channels: Vec::new(),
            model: None,
            labels: LabelChoice::None,
            opacity: 1.0,
            memory: 128 << 20,
        }
    }
}

/// Which labels to overlay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LabelChoice {
    /// None.
    #[default]
    None,
    /// All listed labels, in that order.
    All,
    /// These, in this order.
    Named(Vec<String>),
}

/// Settings of one channel. `None` keeps the image's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChannelSetting {
    /// Its number, from 0, or its name.
    pub channel: String,
    /// Red, green, blue.
    pub color: Option<[u8; 3]>,
    /// The intensities rendered as black and as the full colour.
    pub window: Option<(f64, f64)>,
    /// The curve.
    pub family: Option<Family>,
    /// The curve's exponent.
    pub coefficient: Option<f64>,
    /// Whether it is inverted.
    pub inverted: Option<bool>,
}

const KEYS: [&str; 5] = ["color", "window", "family", "coefficient", "inverted"];

impl ChannelSetting {
    /// A channel with the image's settings.
    #[must_use]
    pub fn of(channel: &str) -> Self {
        Self { channel: channel.trim().to_owned(), ..Self::default() }
    }

    /// Parses `CHANNEL` or `CHANNEL:color=FF0000,window=100:2000,family=polynomial,coefficient=2,inverted=true`, with
    /// any of these.
    pub fn parse(text: &str) -> Result<Self> {
        let fault = |what: String| usage!("{text:?}: {what}");
        // A name may contain a colon, but not one before KEY=.
        let is_setting = |rest: &str| {
            rest.split_once('=').is_some_and(|(key, _)| key.trim().bytes().all(|b| b.is_ascii_alphabetic()))
        };
        let split = text
            .match_indices(':')
            .map(|(at, _)| (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default()))
            .find(|(_, rest)| is_setting(rest));
        let (name, rest) = split.unwrap_or((text, ""));
        let mut channel = Self::of(name);
        if channel.channel.is_empty() {
            return Err(fault("start with the channel's number, from 0, or its name".to_owned()));
        }
        for item in rest.split(',').filter(|item| !item.trim().is_empty()) {
            let Some((key, value)) = item.split_once('=') else {
                return Err(fault(format!("{item:?} is not KEY=VALUE")));
            };
            let value = value.trim();
            let none = |what: &str| fault(format!("{value:?} is {what}"));
            match key.trim().to_ascii_lowercase().as_str() {
                "color" => {
                    channel.color =
                        Some(parse::color(value).ok_or_else(|| none("not a colour such as FF8000"))?);
                }
                "window" => channel.window = Some(window(value).map_err(fault)?),
                "family" => {
                    let all = "not a family; use linear, polynomial, logarithmic or exponential";
                    channel.family = Some(Family::parse(value).ok_or_else(|| none(all))?);
                }
                "coefficient" => {
                    let k = value.parse::<f64>().ok().filter(|k| k.is_finite() && *k > 0.0);
                    channel.coefficient = Some(k.ok_or_else(|| none("not a number greater than 0"))?);
                }
                "inverted" => {
                    channel.inverted = Some(match value {
                        "true" | "yes" | "1" => true,
                        "false" | "no" | "0" => false,
                        _ => return Err(none("neither true nor false")),
                    });
                }
                key => {
                    return Err(fault(format!("unknown key {key:?}; use {}", KEYS.join(", "))));
                }
            }
        }
        Ok(channel)
    }
}

fn window(value: &str) -> std::result::Result<(f64, f64), String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    let (start, end) = value
        .split_once(':')
        .and_then(|(start, end)| Some((number(start)?, number(end)?)))
        .ok_or_else(|| format!("{value:?} is not a window such as 100:2000"))?;
    if start > end {
        return Err(format!(
            "the window {value} ends before it starts; use inverted=true to invert a channel"
        ));
    }
    Ok((start, end))
}

/// A part of an image, in pixels of its largest level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first column.
    pub x: u64,
    /// The first row.
    pub y: u64,
    /// Columns.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

impl Region {
    /// Parses `X,Y,WIDTH,HEIGHT`.
    pub fn parse(text: &str) -> Result<Self> {
        let numbers: Option<Vec<u64>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some([x, y, width, height]) if *width > 0 && *height > 0 => {
                Ok(Self { x: *x, y: *y, width: *width, height: *height })
            }
            _ => Err(usage!("{text:?} is not a region X,Y,WIDTH,HEIGHT such as 0,0,512,512")),
        }
    }
}

/// The size of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The longer side; the aspect ratio is kept.
    Longest(u32),
    /// Width and height.
    Exactly(u32, u32),
}

impl Size {
    /// Parses `N` or `WIDTHxHEIGHT`.
    pub fn parse(text: &str) -> Result<Self> {
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0);
        let size = match text.split_once(['x', 'X']) {
            Some((width, height)) => {
                number(width).and_then(|width| Some(Self::Exactly(width, number(height)?)))
            }
            None => number(text).map(Self::Longest),
        };
        size.ok_or_else(|| usage!("{text:?} is not a size such as 512 or 640x480"))
    }
}

/// A projection of planes along z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projection {
    /// Maximum intensity.
    Max,
    /// The mean.
    Mean,
}

/// The planes to render along z.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Depth {
    /// The image's default plane, or the middle one.
    #[default]
    Default,
    /// One plane.
    Plane(u64),
    /// A projection of several planes; of all if no range is given.
    Projected(Projection, Option<Range<u64>>),
}

/// The part of an image to render, and its size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// The region; `None` for everything. It is clipped to the image.
    pub region: Option<Region>,
    /// The size of the picture; `None` for one pixel per pixel of the level.
    pub size: Option<Size>,
    /// The level, from 0; `None` for the smallest that is large enough, or the largest if no size is given.
    pub level: Option<usize>,
    /// The planes to render along z.
    pub depth: Depth,
    /// The time point; `None` for the default.
    pub t: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_read() {
        let c = ChannelSetting::parse(
            "Cy5: far red:color=#f80,window=-1.5:2e3,family=Polynomial,coefficient=0.5,inverted=true",
        )
        .unwrap();
        assert_eq!(c.channel, "Cy5: far red");
        assert_eq!(c.color, Some([255, 136, 0]));
        assert_eq!(c.window, Some((-1.5, 2000.0)));
        assert_eq!(c.family, Some(Family::Polynomial));
        assert_eq!((c.coefficient, c.inverted), (Some(0.5), Some(true)));
        assert_eq!(ChannelSetting::parse("2").unwrap(), ChannelSetting::of("2"));
        assert_eq!(ChannelSetting::parse("a:b").unwrap().channel, "a:b");
        for wrong in [
            "",
            ":color=FF0000",
            "0:color=red",
            "0:window=5",
            "0:window=5:1",
            "0:window=1:x",
            "0:family=cubic",
            "0:coefficient=0",
            "0:inverted=maybe",
            "0:color=FF0000,hue=3",
            "0:gamma=2",
            "0:color=FF0000,window",
        ] {
            assert_eq!(
                ChannelSetting::parse(wrong).unwrap_err().kind(),
                crate::error::ErrorKind::Usage,
                "{wrong}"
            );
        }
    }

    #[test]
    fn regions_and_sizes_are_read() {
        assert_eq!(Region::parse("1, 2,3,4").unwrap(), Region { x: 1, y: 2, width: 3, height: 4 });
        for wrong in ["", "1,2,3", "1,2,0,4", "1,2,3,4,5", "-1,0,1,1", "a"] {
            assert!(Region::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Size::parse("512").unwrap(), Size::Longest(512));
        assert_eq!(Size::parse("640x480").unwrap(), Size::Exactly(640, 480));
        for wrong in ["", "0", "x", "5x", "0x3", "5x5x5", "1.5"] {
            assert!(Size::parse(wrong).is_err(), "{wrong}");
        }
    }
}
