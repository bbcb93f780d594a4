//! Lines over an axis.

use super::axis::Axis;
use super::{BOTTOM, COLOURS, HEIGHT, legend, number};
use crate::report::Lines;

/// The height of the row of strokes that mark events.
const STROKE: f64 = 12.0;

/// The mark of a line; marks differ, so that lines are distinguishable without colours.
pub(super) fn mark(line: usize, x: f64, y: f64) -> String {
    match line % 3 {
        0 => format!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"),
        1 => format!("<rect class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\"/>", x - 3.0, y - 3.0),
        _ => format!("<path class=\"mark\" d=\"M{:.1} {:.1}l4 7h-8z\"/>", x, y - 4.0),
    }
}

pub(super) fn draw(chart: &Lines) -> String {
    let all = || chart.lines.iter().flat_map(|line| &line.points);
    let x_axis = Axis::horizontal(all().map(|point| point.0), chart.log_x);
    let lines = chart.lines.len();
    let y_axis = Axis::vertical(all().map(|point| point.1), chart.y_min, chart.log_y);
    let mut out = y_axis.across(&chart.y_label) + &x_axis.below(&chart.x_label);
    for (number, line) in chart.lines.iter().enumerate() {
        let places: Vec<_> = line.points.iter().map(|(x, y)| (x_axis.at(*x), y_axis.at(*y))).collect();
        let path: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        out += &format!("<g class=\"s{}\"><polyline class=\"line\" points=\"{}\"/>", number % COLOURS, path.join(" "));
        places.iter().for_each(|(x, y)| out += &mark(number, *x, *y));
        out += "</g>";
    }
    for (number, (_, xs)) in chart.events.iter().enumerate() {
        out += &events(lines + number, number, xs.iter().map(|x| x_axis.at(*x)));
    }
    let names = chart.lines.iter().map(|line| &line.name).chain(chart.events.iter().map(|(name, _)| name));
    out + &legend(names.map(String::as_str))
}

/// Short strokes above the horizontal axis, in a row for each kind of event.
fn events(colour: usize, row: usize, places: impl Iterator<Item = f64>) -> String {
    let bottom = HEIGHT - BOTTOM - STROKE * row as f64;
    let strokes: String = places.map(|x| format!("M{x:.1} {bottom}v-{}", STROKE - 2.0)).collect();
    format!("<g class=\"s{}\"><path class=\"line\" d=\"{strokes}\"/></g>", colour % COLOURS)
}

pub(super) fn description(chart: &Lines) -> String {
    let told = chart.lines.iter().filter_map(|line| {
        let (first, last) = (line.points.first()?, line.points.last()?);
        let (from, to) = (number(first.1), number(last.1));
        Some(format!("{}: {from} at {}, {to} at {}", line.name, number(first.0), number(last.0)))
    });
    let events = chart.events.iter().map(|(name, xs)| format!("{name}: {}", xs.len()));
    format!("{} over {}. {}.", chart.y_label, chart.x_label, told.chain(events).collect::<Vec<_>>().join("; "))
}
