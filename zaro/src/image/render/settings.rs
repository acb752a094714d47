//! What is asked for: how to draw, and which part.

use std::ops::Range;

use crate::error::{Result, usage};
use crate::image::model::{ColorModel, Family};
use crate::image::parse;

/// How an image is drawn, where it is to be drawn in another way than it says itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The pyramid, by name.
    pub multiscale: Option<String>,
    /// The channels to draw; none stands for those that are active.
    pub channels: Vec<ChannelSetting>,
    /// How channels become one picture.
    pub model: Option<ColorModel>,
    /// The labels and masks to draw over it.
    pub labels: LabelChoice,
    /// How much of the labels' own opacity they get, 0 to 1.
    pub opacity: f64,
    /// How many bytes of raw pixels to hold at a time, about.
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

/// Which labels are drawn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LabelChoice {
    /// None.
    #[default]
    None,
    /// All that are listed, in that order.
    All,
    /// These, in this order.
    Named(Vec<String>),
}

/// How one channel is drawn. What is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChannelSetting {
    /// Which one: its number, from 0, or its name.
    pub channel: String,
    /// Red, green, blue.
    pub color: Option<[u8; 3]>,
    /// The intensities drawn as black and as the full colour.
    pub window: Option<(f64, f64)>,
    /// The curve.
    pub family: Option<Family>,
    /// The curve's exponent.
    pub coefficient: Option<f64>,
    /// Whether bright and dark are exchanged.
    pub inverted: Option<bool>,
}

const KEYS: [&str; 5] = ["color", "window", "family", "coefficient", "inverted"];

impl ChannelSetting {
    /// A channel as it is.
    #[must_use]
    pub fn of(channel: &str) -> Self {
        Self { channel: channel.trim().to_owned(), ..Self::default() }
    }

    /// From `CHANNEL`, or `CHANNEL:color=FF0000,window=100:2000,family=polynomial,coefficient=2,inverted=true` with any
    /// of these.
    pub fn parse(text: &str) -> Result<Self> {
        let fault = |what: String| usage!("{text:?}: {what}");
        // A name may have a colon of its own, but not one before WORD=.
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
            return Err(fault("which channel? Begin with its number, from 0, or its name".to_owned()));
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
                        Some(parse::color(value).ok_or_else(|| none("no colour; one is FF8000"))?);
                }
                "window" => channel.window = Some(window(value).map_err(fault)?),
                "family" => {
                    let all = "no family; there are linear, polynomial, logarithmic and exponential";
                    channel.family = Some(Family::parse(value).ok_or_else(|| none(all))?);
                }
                "coefficient" => {
                    let k = value.parse::<f64>().ok().filter(|k| k.is_finite() && *k > 0.0);
                    channel.coefficient = Some(k.ok_or_else(|| none("no number above 0"))?);
                }
                "inverted" => {
                    channel.inverted = Some(match value {
                        "true" | "yes" | "1" => true,
                        "false" | "no" | "0" => false,
                        _ => return Err(none("neither true nor false")),
                    });
                }
                key => {
                    return Err(fault(format!("{key:?} is unknown; there are {}", KEYS.join(", "))));
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
        .ok_or_else(|| format!("{value:?} is no window; one is 100:2000"))?;
    if start > end {
        return Err(format!(
            "the window {value} ends before it starts; inverted=true exchanges bright and dark"
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
    /// From `X,Y,WIDTH,HEIGHT`.
    pub fn parse(text: &str) -> Result<Self> {
        let numbers: Option<Vec<u64>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some([x, y, width, height]) if *width > 0 && *height > 0 => {
                Ok(Self { x: *x, y: *y, width: *width, height: *height })
            }
            _ => Err(usage!("{text:?} is no part of an image; one is X,Y,WIDTH,HEIGHT, such as 0,0,512,512")),
        }
    }
}

/// How large a picture is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The longer side; the other follows.
    Longest(u32),
    /// Width and height.
    Exactly(u32, u32),
}

impl Size {
    /// From `N` or `WIDTHxHEIGHT`.
    pub fn parse(text: &str) -> Result<Self> {
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0);
        let size = match text.split_once(['x', 'X']) {
            Some((width, height)) => {
                number(width).and_then(|width| Some(Self::Exactly(width, number(height)?)))
            }
            None => number(text).map(Self::Longest),
        };
        size.ok_or_else(|| usage!("{text:?} is no size; one is 512 or 640x480"))
    }
}

/// How planes along z become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projection {
    /// The brightest.
    Max,
    /// The mean.
    Mean,
}

/// What is drawn along z.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Depth {
    /// What the image says: its default plane, or the middle one.
    #[default]
    Default,
    /// One plane.
    Plane(u64),
    /// Several as one; all if no range is given.
    Projected(Projection, Option<Range<u64>>),
}

/// Which part is drawn, and how large.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// The part; `None` is everything. What reaches beyond the image is cut off.
    pub region: Option<Region>,
    /// The size of the picture; `None` is a pixel for each pixel of the level.
    pub size: Option<Size>,
    /// The level, from 0; `None` is the smallest that fills the size, or the largest if there is none.
    pub level: Option<usize>,
    /// What is drawn along z.
    pub depth: Depth,
    /// The point in time; `None` is the default one.
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
