//! Resolves the look of an image: requested settings, its `omero`, and guesses for the rest.

use crate::array::Array;
use crate::boxed;
use crate::error::{Result, usage};
use crate::group::Zarr;
use crate::image::find::Image;
use crate::image::model::{Channel, ChannelWindow, ColorModel, Family, Omero};
use crate::image::render::quantum::Curve;
use crate::image::render::samples::SampleKind;
use crate::image::render::settings::{ChannelSetting, Projection, Settings};
use crate::image::render::source::{Axes, LevelStack, PixelBlock, PixelPick, WantedPixels};
use crate::meta::DataType;
use crate::num;

/// The maximum number of pixels from which a window is guessed.
const MOST_SAMPLES: u64 = 4 << 20;
/// The sides of the part that is sampled if the whole would be too much.
const MIDDLE: u64 = 2048;
/// The share of pixels that may be below a guessed window, and above.
const BEYOND: f64 = 0.002;
/// `uint8` is rendered without scaling if some pixel is at least this bright.
const VISIBLE: f64 = 32.0;
/// The maximum number of channels rendered by default.
const MOST_ACTIVE: usize = 6;
/// The maximum number of channels whose sum cannot overflow.
const MOST_CHANNELS: usize = 256;

/// The look of one channel.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelLook {
    /// Its number, from 0.
    pub index: u64,
    /// Its name.
    pub label: Option<String>,
    /// Red, green, blue.
    pub color: [u8; 3],
    /// The mapping of intensities to grey values.
    pub curve: Curve,
    /// Whether the window was guessed.
    pub guessed: bool,
}

/// The look of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The rendered channels, in order.
    pub channels: Vec<ChannelLook>,
    /// How channels are combined.
    pub model: ColorModel,
    /// The default plane.
    pub z: u64,
    /// The default time point.
    pub t: u64,
    /// The default projection of planes, if the image has one.
    pub projection: Option<Projection>,
}

impl Look {
    /// Resolves the look of an image.
    pub(super) async fn of(pyramid: &LevelStack, omero: Option<&Omero>, settings: &Settings) -> Result<Self> {
        let (axes, first) = (&pyramid.axes, pyramid.first()?);
        let (depth, times) = (Axes::extent(first, axes.z), Axes::extent(first, axes.t));
        let count = num::usize_of(Axes::extent(first, axes.c))?;
        let blank = Omero::default();
        let said = omero.unwrap_or(&blank);
        let t = said.default_t.unwrap_or(0).min(times.saturating_sub(1));
        let chosen = chosen(&settings.channels, &said.channels, count)?;
        let model = settings.model.or(said.model).unwrap_or_default();
        // Greyscale renders only the first one.
        let drawn = if model == ColorModel::Greyscale { 1 } else { chosen.len() };
        if drawn > MOST_CHANNELS {
            return Err(usage!("at most {MOST_CHANNELS} channels can be rendered together, not {drawn}"));
        }
        let mut channels = Vec::new();
        for (index, own) in chosen.into_iter().take(drawn) {
            let base = said.channels.get(index).cloned().unwrap_or_default();
            let (window, guessed) = match own.window {
                Some(window) => (window, false),
                None => window(pyramid, num::u64_of(index), t, base.window).await?,
            };
            let family = own.family.unwrap_or(base.family);
            let coefficient = own.coefficient.unwrap_or(base.coefficient);
            channels.push(ChannelLook {
                index: num::u64_of(index),
                label: base.label,
                color: own.color.or(base.color).unwrap_or_else(|| default_color(index, count)),
                curve: Curve {
                    start: window.0,
                    end: window.1,
                    family,
                    coefficient: if family == Family::Linear { 1.0 } else { coefficient },
                    inverted: own.inverted.unwrap_or(base.inverted),
                },
                guessed,
            });
        }
        let projection = said.projection.as_deref().and_then(|word| match word {
            "intmax" => Some(Projection::Max),
            "intmean" => Some(Projection::Mean),
            _ => None,
        });
        let z = said.default_z.filter(|z| *z < depth).unwrap_or(depth / 2);
        Ok(Self { channels, model, z, t, projection })
    }
}

impl Look {
    /// The look of an image without rendered channels.
    pub(super) fn nothing(pyramid: &LevelStack, omero: Option<&Omero>) -> Result<Self> {
        let depth = Axes::extent(pyramid.first()?, pyramid.axes.z);
        let z = omero.and_then(|o| o.default_z).filter(|z| *z < depth).unwrap_or(depth / 2);
        let t = omero.and_then(|o| o.default_t).unwrap_or(0);
        Ok(Self { channels: Vec::new(), model: ColorModel::Color, z, t, projection: None })
    }

    /// Whether the window of some channel was guessed.
    pub(super) fn is_guessed(&self) -> bool {
        self.channels.iter().any(|c| c.guessed)
    }

    /// Extends guessed windows to include those of `other`.
    pub(super) fn widen(&mut self, other: &Self) {
        for channel in self.channels.iter_mut().filter(|c| c.guessed) {
            if let Some(other) = other.channels.iter().find(|c| c.index == channel.index && c.guessed) {
                channel.curve.start = channel.curve.start.min(other.curve.start);
                channel.curve.end = channel.curve.end.max(other.curve.end);
            }
        }
    }

    /// Adapts the look to another image, which may have fewer channels.
    pub(super) fn for_another(&self, pyramid: &LevelStack) -> Result<Self> {
        let count = Axes::extent(pyramid.first()?, pyramid.axes.c);
        let channels = self.channels.iter().filter(|c| c.index < count).cloned().collect();
        Ok(Self { channels, ..self.clone() })
    }
}

/// The numbers of the rendered channels, with the settings of each.
fn chosen(asked: &[ChannelSetting], said: &[Channel], count: usize) -> Result<Vec<(usize, ChannelSetting)>> {
    if asked.is_empty() {
        let active: Vec<usize> = if said.is_empty() {
            (0..count.min(MOST_ACTIVE)).collect()
        } else {
            said.iter().take(count).enumerate().filter(|(_, c)| c.active).map(|(i, _)| i).collect()
        };
        return Ok(active.into_iter().map(|i| (i, ChannelSetting::default())).collect());
    }
    let mut all: Vec<(usize, ChannelSetting)> = Vec::new();
    for one in asked {
        let index = index_of(&one.channel, said, count)?;
        match all.iter_mut().find(|(i, _)| *i == index) {
            // Given twice, such as in a list and alone: merge the settings.
            Some((_, before)) => {
                before.color = one.color.or(before.color);
                before.window = one.window.or(before.window);
                before.family = one.family.or(before.family);
                before.coefficient = one.coefficient.or(before.coefficient);
                before.inverted = one.inverted.or(before.inverted);
            }
            None => all.push((index, one.clone())),
        }
    }
    all.sort_by_key(|(i, _)| *i);
    Ok(all)
}

/// A channel by its number or its name.
fn index_of(text: &str, said: &[Channel], count: usize) -> Result<usize> {
    let named = |same: &dyn Fn(&str) -> bool| {
        said.iter().take(count).position(|c| c.label.as_deref().is_some_and(same))
    };
    let number = || text.parse::<usize>().ok().filter(|i| *i < count);
    number()
        .or_else(|| named(&|l| l == text))
        .or_else(|| named(&|l| l.eq_ignore_ascii_case(text)))
        .ok_or_else(|| {
            let known: Vec<String> = (0..count.min(20))
                .map(|i| match said.get(i).and_then(|c| c.label.as_deref()) {
                    Some(label) => format!("{i} ({label})"),
                    None => i.to_string(),
                })
                .collect();
            let more = if count > 20 { ", ..." } else { "" };
            usage!("no channel {text:?}; the image has {}{more}", known.join(", "))
        })
}

/// The default colour of a channel.
pub(crate) fn default_color(index: usize, count: usize) -> [u8; 3] {
    let colors = default_colors(count);
    colors.get(index % colors.len()).copied().unwrap_or([255; 3])
}

/// Distinct colours for `count` channels; after the last they repeat.
pub(crate) fn default_colors(count: usize) -> &'static [[u8; 3]] {
    static ALL: [[u8; 3]; 6] =
        [[0, 255, 255], [255, 255, 0], [255, 0, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255]];
    match count {
        0 | 1 => &[[255; 3]],
        2 => &[[255, 0, 255], [0, 255, 0]],
        3 => ALL.split_at(3).1,
        _ => &ALL,
    }
}

/// The window of a channel, and whether it was guessed: the stated one if it is valid, the range of the type if it is
/// invalid, and a guess if there is none.
async fn window(
    pyramid: &LevelStack,
    channel: u64,
    t: u64,
    said: ChannelWindow,
) -> Result<((f64, f64), bool)> {
    let range = SampleKind::of(&pyramid.first()?.meta().data_type)?.range();
    if let (Some(start), Some(end)) = (said.start, said.end) {
        let (least, most) = range.unwrap_or((f64::MIN, f64::MAX));
        if start <= end && start >= least && end <= most {
            return Ok(((start, end), false));
        }
        if let Some(range) = range {
            return Ok((range, false));
        }
    }
    let guessed = guess(pyramid, channel, t).await?;
    let (start, end) = (said.start.unwrap_or(guessed.0), said.end.unwrap_or(guessed.1));
    Ok((if start <= end { (start, end) } else { guessed }, true))
}

/// Windows that cover most of each channel: `start` and `end` exclude a few of the darkest and brightest pixels of the
/// smallest level. `min` and `max` are not set.
#[boxed]
pub async fn windows(zarr: &Zarr, image: &Image, multiscale: Option<&str>) -> Result<Vec<ChannelWindow>> {
    let multiscale = image.multiscale(multiscale)?;
    let pyramid = LevelStack::open(zarr, &image.levels(multiscale), &multiscale.axes).await?;
    let t = image.omero.as_ref().and_then(|o| o.default_t).unwrap_or(0);
    let mut all = Vec::new();
    for channel in 0..Axes::extent(pyramid.first()?, pyramid.axes.c) {
        let (start, end) = guess(&pyramid, channel, t).await?;
        all.push(ChannelWindow { start: Some(start), end: Some(end), min: None, max: None });
    }
    Ok(all)
}

/// A window that covers most of a channel, from its smallest level.
async fn guess(pyramid: &LevelStack, channel: u64, t: u64) -> Result<(f64, f64)> {
    let array = pyramid.last()?;
    let kind = SampleKind::of(&array.meta().data_type)?;
    if kind.is(&DataType::Bool) {
        return Ok((0.0, 1.0));
    }
    let mut values = samples(array, &pyramid.axes, channel, t).await?;
    values.retain(|x| x.is_finite());
    if values.is_empty() {
        return Ok(kind.range().unwrap_or((0.0, 1.0)));
    }
    let last = values.len() - 1;
    let beyond = num::usize_of_f64(num::f64_of_usize(last) * BEYOND);
    let mut at = |i: usize| *values.select_nth_unstable_by(i.min(last), f64::total_cmp).1;
    let (least, most) = (at(0), at(last));
    let (low, high) = (at(beyond), at(last - beyond));
    // Three uint8 channels are RGB, and keep their colour balance.
    let is_rgb = Axes::extent(array, pyramid.axes.c) == 3;
    Ok(if kind.is(&DataType::UINT8) && (most >= VISIBLE || is_rgb) {
        (0.0, 255.0)
    } else if low < high {
        (low, high)
    } else if least < most {
        (least, most)
    } else {
        // One value everywhere: black if it is zero, bright otherwise.
        (least.min(0.0), if least > 0.0 { least } else { least.min(0.0) + 1.0 })
    })
}

/// Samples the pixels of a channel: evenly spaced if there are too many, or from the centre if reading all would take
/// too long.
async fn samples(array: &Array, axes: &Axes, channel: u64, t: u64) -> Result<Vec<f64>> {
    let side = |axis: Option<usize>| Axes::extent(array, axis).max(1);
    let (depth, height, width) = (side(axes.z), side(Some(axes.y)), side(Some(axes.x)));
    let plane = height.saturating_mul(width);
    let (z, y, x) = if plane > 4 * MOST_SAMPLES {
        let middle = |n: u64| PixelPick::Run(n.saturating_sub(MIDDLE) / 2, n.min(MIDDLE));
        (PixelPick::Run(depth / 2, 1), middle(height), middle(width))
    } else {
        let by_z = depth.saturating_mul(plane).div_ceil(MOST_SAMPLES).clamp(1, depth);
        let planes = depth.div_ceil(by_z);
        let by_y = planes.saturating_mul(plane).div_ceil(MOST_SAMPLES).clamp(1, height);
        (PixelPick::Every(by_z), PixelPick::Every(by_y), PixelPick::Every(1))
    };
    let wanted = WantedPixels { t: t.min(side(axes.t) - 1), c: PixelPick::Run(channel, 1), z, y, x };
    let block = PixelBlock::read(array, axes, &wanted).await?;
    let mut values = vec![0.0; block.depth * block.rows * block.width];
    let mut scratch = Vec::new();
    let mut rows = values.chunks_exact_mut(block.width.max(1));
    for z in 0..block.depth {
        for y in 0..block.rows {
            if let Some(out) = rows.next() {
                block.kind.decode(block.row(0, z, y, &mut scratch), 0, out);
            }
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_without_a_word() {
        assert_eq!(default_color(0, 1), [255; 3]);
        assert_eq!(default_color(1, 2), [0, 255, 0]);
        assert_eq!(default_color(2, 3), [0, 0, 255]);
        assert_eq!(default_color(3, 4), [255, 0, 0]);
        assert_eq!(default_color(6, 9), [0, 255, 255]);
    }

    #[test]
    fn channels_are_chosen_by_number_and_name() {
        let named = |label: &str| Channel { label: Some(label.to_owned()), ..Channel::default() };
        let said = [named("DAPI"), named("488"), Channel { active: false, ..named("1") }];
        let numbers = |asked: &[&str]| {
            let asked: Vec<_> = asked.iter().map(|a| ChannelSetting::parse(a).unwrap()).collect();
            chosen(&asked, &said, 3).map(|all| all.into_iter().map(|(i, _)| i).collect::<Vec<_>>())
        };
        assert_eq!(numbers(&[]).unwrap(), [0, 1]);
        assert_eq!(numbers(&["2", "dapi"]).unwrap(), [0, 2]);
        assert_eq!(numbers(&["488", "1:color=FF0000"]).unwrap(), [1]);
        let e = numbers(&["3"]).unwrap_err();
        assert!(e.message().contains("0 (DAPI), 1 (488), 2 (1)"), "{e}");
    }
}
