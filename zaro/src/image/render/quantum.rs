//! Maps intensities to grey values, as defined by OMERO.

use crate::image::model::Family;
use crate::num::f64_of_i128;

/// The mapping of the intensities of one channel to 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// Intensities below this are 0.
    pub start: f64,
    /// Intensities from this on are 255.
    pub end: f64,
    /// The curve in between.
    pub family: Family,
    /// Its exponent; unused for linear and logarithmic curves.
    pub coefficient: f64,
    /// Whether 0 and 255 are swapped.
    pub inverted: bool,
}

/// The largest exponent for which e^x does not overflow.
const LARGEST_POWER: f64 = 700.0;

impl Curve {
    /// The grey value of `x`; 0 for NaN.
    #[must_use]
    pub fn quantum(&self, x: f64) -> u8 {
        if x.is_nan() {
            return 0;
        }
        let q = if x < self.start {
            0
        } else if x >= self.end {
            255
        } else {
            let v = 255.0 * (x - self.start) / (self.end - self.start);
            let (part, full) = self.parts(v);
            byte((255.0 * part / full + 0.5).floor())
        };
        if self.inverted { 255 - q } else { q }
    }

    /// The same curve for intensities minus `origin`.
    pub(super) fn less(&self, origin: i128) -> Self {
        let origin = f64_of_i128(origin);
        Self { start: self.start - origin, end: self.end - origin, ..*self }
    }

    /// f(v) - f(0) and f(255) - f(0)
    fn parts(&self, v: f64) -> (f64, f64) {
        let k = self.coefficient;
        match self.family {
            Family::Linear => (v, 255.0),
            Family::Polynomial => (v.powf(k), 255f64.powf(k)),
            // Below 1 it would be negative.
            Family::Logarithmic => (v.max(1.0).ln(), 255f64.ln()),
            Family::Exponential => {
                let (power, full) = (v.powf(k), 255f64.powf(k));
                if full < LARGEST_POWER {
                    (power.exp() - 1.0, full.exp() - 1.0)
                } else {
                    // Both divided by the second, which would overflow.
                    ((power - full).exp() * (1.0 - (-power).exp()), 1.0)
                }
            }
        }
    }
}

/// A number clamped to a byte; 0 for NaN.
#[allow(clippy::as_conversions, reason = "`as` does just that, and what is behind the point is meant to go")]
pub(super) fn byte(x: f64) -> u8 {
    x as u8
}

/// The grey value `q` in one component of a colour: q·colour/255, truncated.
pub(super) fn tinted(q: u8, component: u8) -> u8 {
    let product = u16::from(q) * u16::from(component) / 255;
    u8::try_from(product).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(family: Family, coefficient: f64, start: f64, end: f64) -> Curve {
        Curve { start, end, family, coefficient, inverted: false }
    }

    fn check(curve: Curve, vectors: &[(f64, u8)]) {
        for (x, wanted) in vectors {
            assert_eq!(curve.quantum(*x), *wanted, "{x} by {curve:?}");
        }
    }

    #[test]
    fn linear() {
        let vectors = [
            (-5.0, 0),
            (0.0, 0),
            (1.0, 3),
            (10.0, 26),
            (25.0, 64),
            (50.0, 128),
            (75.0, 191),
            (99.0, 252),
            (100.0, 255),
            (200.0, 255),
        ];
        check(curve(Family::Linear, 1.0, 0.0, 100.0), &vectors);
        // Its coefficient is always 1.
        check(curve(Family::Linear, 3.0, 0.0, 100.0), &vectors);
    }

    #[test]
    fn polynomial() {
        let squares = [(16.0, 1), (64.0, 16), (128.0, 64), (192.0, 145), (254.0, 253), (255.0, 255)];
        check(curve(Family::Polynomial, 2.0, 0.0, 255.0), &squares);
        let roots = [(1.0, 16), (16.0, 64), (64.0, 128), (128.0, 181), (192.0, 221), (254.0, 254)];
        check(curve(Family::Polynomial, 0.5, 0.0, 255.0), &roots);
    }

    #[test]
    fn logarithmic() {
        let bytes =
            [(0.0, 0), (1.0, 0), (2.0, 32), (4.0, 64), (16.0, 128), (64.0, 191), (128.0, 223), (254.0, 255)];
        check(curve(Family::Logarithmic, 1.0, 0.0, 255.0), &bytes);
        let wide = [(100.0, 0), (257.0, 0), (300.0, 7), (1000.0, 63), (10000.0, 168)];
        check(curve(Family::Logarithmic, 1.0, 0.0, 65535.0), &wide);
    }

    #[test]
    fn exponential() {
        let steep = [(200.0, 0), (250.0, 2), (252.0, 13), (253.0, 35), (254.0, 94)];
        check(curve(Family::Exponential, 1.0, 0.0, 255.0), &steep);
        let flat = [(16.0, 12), (64.0, 41), (128.0, 94), (192.0, 165), (254.0, 253)];
        check(curve(Family::Exponential, 0.3, 0.0, 255.0), &flat);
        // e^(255^2) is beyond all numbers, and its curve is not.
        check(curve(Family::Exponential, 2.0, 0.0, 255.0), &[(200.0, 0), (254.999, 153), (255.0, 255)]);
    }

    #[test]
    fn inverted() {
        let inverted = Curve { inverted: true, ..curve(Family::Linear, 1.0, 0.0, 100.0) };
        check(inverted, &[(-5.0, 255), (0.0, 255), (25.0, 191), (50.0, 127), (100.0, 0), (f64::NAN, 0)]);
    }

    #[test]
    fn colours_are_cut_off() {
        assert_eq!(tinted(128, 255), 128);
        assert_eq!(tinted(128, 128), 64);
        assert_eq!(tinted(3, 100), 1);
    }
}
