//! Colour maps: convert numbers from 0 to 1 to colours.
//!
//! Perceptual maps grow evenly in lightness, so that equal steps of the data look equal, also in greyscale and with
//! colour blindness. Each has nine stops with linear interpolation between them.

use crate::num;

/// A colour map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Colormap {
    /// Dark violet over green to yellow.
    #[default]
    Viridis,
    /// Black over purple to pale yellow.
    Magma,
    /// Black to white.
    Gray,
}

type Rgb = [u8; 3];

const VIRIDIS: [Rgb; 9] = [
    [68, 1, 84],
    [71, 45, 123],
    [59, 82, 139],
    [44, 114, 142],
    [33, 145, 140],
    [40, 174, 128],
    [94, 201, 98],
    [173, 220, 48],
    [253, 231, 37],
];

const MAGMA: [Rgb; 9] = [
    [0, 0, 4],
    [28, 16, 68],
    [79, 18, 123],
    [129, 37, 129],
    [181, 54, 122],
    [229, 80, 100],
    [251, 135, 97],
    [254, 194, 135],
    [252, 253, 191],
];

const GRAY: [Rgb; 2] = [[0, 0, 0], [255, 255, 255]];

impl Colormap {
    /// The colour of `x`, which is clamped to 0..1.
    #[must_use]
    pub fn color(self, x: f64) -> Rgb {
        let stops: &[Rgb] = match self {
            Self::Viridis => &VIRIDIS,
            Self::Magma => &MAGMA,
            Self::Gray => &GRAY,
        };
        let at = x.clamp(0.0, 1.0) * num::f64_of_usize(stops.len() - 1);
        let before = num::usize_of_f64(at).min(stops.len() - 1);
        let fraction = at - num::f64_of_usize(before);
        let low = stops.get(before).copied().unwrap_or_default();
        let high = stops.get(before + 1).copied().unwrap_or(low);
        let mut out = [0; 3];
        for ((o, l), h) in out.iter_mut().zip(low).zip(high) {
            *o = num::u8_of_f64(f64::from(l) + (f64::from(h) - f64::from(l)) * fraction);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_grow_in_lightness() {
        for map in [Colormap::Viridis, Colormap::Magma, Colormap::Gray] {
            let luma =
                |c: Rgb| 0.2126 * f64::from(c[0]) + 0.7152 * f64::from(c[1]) + 0.0722 * f64::from(c[2]);
            let steps: Vec<f64> = (0..=64).map(|i| luma(map.color(f64::from(i) / 64.0))).collect();
            assert!(steps.windows(2).all(|w| w[1] > w[0] - 0.5), "{map:?} {steps:?}");
        }
        assert_eq!(Colormap::Viridis.color(-3.0), [68, 1, 84]);
        assert_eq!(Colormap::Viridis.color(7.0), [253, 231, 37]);
        assert_eq!(Colormap::Gray.color(0.5), [128, 128, 128]);
    }
}
