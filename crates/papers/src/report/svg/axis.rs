//! Axes: the positions of values, and grid lines.

use super::{BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, escaped, number};

/// The values along one side of a chart.
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// The positions of the low and the high end.
    ends: (f64, f64),
}

/// A round number of about this size: 1, 2 or 5 times a power of ten.
fn round(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let leading = step / power;
    power
        * if leading <= 1.0 {
            1.0
        } else if leading <= 2.0 {
            2.0
        } else if leading <= 5.0 {
            5.0
        } else {
            10.0
        }
}

impl Axis {
    /// An axis that includes all of `values`, which must be positive on a logarithmic axis.
    fn new(values: impl Iterator<Item = f64>, from: Option<f64>, log: bool, ends: (f64, f64)) -> Self {
        let (mut low, mut high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if !low.is_finite() || !high.is_finite() {
            (low, high) = (1.0, 10.0);
        }
        if let Some(from) = from {
            low = low.min(from);
        }
        if log {
            low = low.max(1e-9);
            high = high.max(low * 2.0);
        } else {
            let step = round((high - low).max(1e-9) / 5.0);
            high = ((high / step).ceil() * step).max(low + step);
            low = (low / step).floor() * step;
        }
        Self { low, high, log, ends }
    }

    /// The horizontal axis, at the bottom.
    pub(super) fn horizontal(values: impl Iterator<Item = f64>, log: bool) -> Self {
        Self::new(values, None, log, (LEFT, WIDTH - RIGHT))
    }

    /// The vertical axis, on the left.
    pub(super) fn vertical(values: impl Iterator<Item = f64>, from: f64, log: bool) -> Self {
        Self::new(values, Some(from), log, (HEIGHT - BOTTOM, TOP))
    }

    /// The position of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.ends.0 + share * (self.ends.1 - self.ends.0)
    }

    /// The value at the low end.
    pub(super) const fn low(&self) -> f64 {
        self.low
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = (self.high / self.low).log10();
            let steps: &[f64] = if decades > 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let first = self.low.log10().floor() as i32;
            let all = (first..=first + 12).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
            return all.filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick)).collect();
        }
        let step = round((self.high - self.low) / 5.0);
        let count = ((self.high - self.low) / step).round() as i32;
        (0..=count).map(|n| self.low + f64::from(n) * step).collect()
    }

    /// The grid lines and labels of a vertical axis.
    pub(super) fn across(&self, label: &str) -> String {
        let mut out = String::new();
        for tick in self.ticks() {
            let y = self.at(tick);
            out +=
                &format!("<line class=\"rule\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", WIDTH - RIGHT);
            out += &format!(
                "<text class=\"dim\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                short(tick)
            );
        }
        let middle = f64::midpoint(self.ends.0, self.ends.1);
        out + &format!(
            "<text transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(label)
        )
    }

    /// The labels of a horizontal axis, below the chart.
    pub(super) fn below(&self, label: &str) -> String {
        let y = HEIGHT - BOTTOM + 16.0;
        let mut out = String::new();
        for tick in self.ticks() {
            out += &format!(
                "<text class=\"dim\" x=\"{:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                self.at(tick),
                short(tick)
            );
        }
        out + &below_label(label)
    }
}

/// The name of the horizontal axis, below its labels.
pub(super) fn below_label(label: &str) -> String {
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    let y = HEIGHT - BOTTOM + 32.0;
    format!("<text x=\"{middle:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escaped(label))
}

fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{} M", number(value / 1e6)),
        large if large >= 1e4 => format!("{} k", number(value / 1e3)),
        _ => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values_and_have_round_ticks() {
        let axis = Axis::vertical([3.0, 47.0].into_iter(), 0.0, false);
        assert_eq!(axis.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert!(axis.at(0.0) > axis.at(50.0) && (axis.at(50.0) - TOP).abs() < 1e-9);
        let axis = Axis::vertical([-12.0, 31.0].into_iter(), 0.0, false);
        assert_eq!((axis.low(), axis.ticks()[0]), (-20.0, -20.0));
        let axis = Axis::horizontal([256.0, 1e6].into_iter(), true);
        assert_eq!(axis.ticks(), [1e3, 1e4, 1e5, 1e6]);
        let nothing = Axis::horizontal(std::iter::empty(), false);
        assert!(nothing.at(1.0).is_finite());
    }
}
