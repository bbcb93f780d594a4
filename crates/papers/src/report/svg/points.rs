//! Points with names.

use super::axis::Axis;
use super::{COLOURS, RIGHT, WIDTH, escaped, legend, number};
use crate::report::Points;

/// The width of a letter of a name, in units of the drawing.
const LETTER: f64 = 6.6;

pub(super) fn draw(chart: &Points) -> String {
    let all = || chart.kinds.iter().flat_map(|(_, points)| points);
    let x_axis = Axis::horizontal(all().map(|point| point.x).chain([0.0]), false);
    let y_axis = Axis::vertical(all().map(|point| point.y), 0.0, false);
    let mut out = y_axis.across(&chart.y_label) + &x_axis.below(&chart.x_label);
    for (number, (_, points)) in chart.kinds.iter().enumerate() {
        out += &format!("<g class=\"s{}\">", number % COLOURS);
        for point in points {
            let (x, y) = (x_axis.at(point.x), y_axis.at(point.y));
            let mark = super::lines::mark(number, x, y);
            // The name is to the left of its point if there is no room to the right.
            let fits = x + 8.0 + LETTER * point.name.chars().count() as f64 <= WIDTH - RIGHT;
            let (at, anchor) = if fits { (x + 6.0, "start") } else { (x - 6.0, "end") };
            // The names of different kinds are on different sides, because a measured point may coincide with a
            // published one.
            let beside = if number % 2 == 0 { y - 6.0 } else { y + 14.0 };
            out += &format!(
                "{mark}<text x=\"{at:.1}\" y=\"{beside:.1}\" text-anchor=\"{anchor}\">{}</text>",
                escaped(&point.name)
            );
        }
        out += "</g>";
    }
    out + &legend(chart.kinds.iter().map(|(name, _)| name.as_str()))
}

pub(super) fn description(chart: &Points) -> String {
    let points = chart.kinds.iter().flat_map(|(_, points)| points);
    let told = points.map(|point| format!("{}: {} and {}", point.name, number(point.x), number(point.y)));
    format!("{} and {}. {}.", chart.x_label, chart.y_label, told.collect::<Vec<_>>().join("; "))
}
