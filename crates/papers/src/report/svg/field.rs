//! A field over two axes, with its values; darker is higher.

use super::axis::below_label;
use super::{BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, escaped, number};
use crate::report::Contour;

/// The strongest colour leaves text legible in light and dark mode.
const OPACITY_MAX: f64 = 0.65;

pub(super) fn draw(chart: &Contour) -> String {
    let all = || chart.values.iter().flatten().flatten().copied();
    let (low, high) =
        all().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
    let width = (WIDTH - LEFT - RIGHT) / chart.xs.len().max(1) as f64;
    let height = (HEIGHT - TOP - BOTTOM) / chart.ys.len().max(1) as f64;
    let mut out = String::new();
    for (row, (y, values)) in chart.ys.iter().zip(&chart.values).enumerate() {
        let bottom = HEIGHT - BOTTOM - height * row as f64;
        let middle = bottom - height / 2.0 + 4.0;
        out += &format!(
            "<text class=\"dim\" x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            number(*y)
        );
        for (column, value) in values.iter().enumerate() {
            let Some(value) = *value else { continue };
            let left = LEFT + width * column as f64;
            let strength = if high > low { (value / low).ln() / (high / low).ln() } else { 0.0 };
            out += &format!(
                "<rect class=\"cell\" fill-opacity=\"{:.2}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                strength * OPACITY_MAX,
                bottom - height,
                width - 1.0,
                height - 1.0
            );
            let text = if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
            out += &format!(
                "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"middle\">{text}</text>",
                left + width / 2.0
            );
        }
    }
    for (column, x) in chart.xs.iter().enumerate() {
        let middle = LEFT + width * (column as f64 + 0.5);
        let y = HEIGHT - BOTTOM + 16.0;
        out += &format!("<text class=\"dim\" x=\"{middle:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", number(*x));
    }
    let middle = f64::midpoint(TOP, HEIGHT - BOTTOM);
    out += &format!(
        "<text transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escaped(&chart.y_label)
    );
    let y = HEIGHT - 8.0;
    out += &format!("<text class=\"dim\" x=\"{LEFT}\" y=\"{y}\">{}</text>", escaped(&chart.value));
    out + &below_label(&chart.x_label)
}

pub(super) fn description(chart: &Contour) -> String {
    let corner = |row: Option<&Vec<Option<f64>>>, last: bool| {
        let value = row.and_then(|row| if last { row.last() } else { row.first() }).copied().flatten();
        value.map_or_else(|| "–".to_owned(), number)
    };
    let (first, last) = (chart.values.first(), chart.values.last());
    format!(
        "{} by {} and {}: {} where both are least, {} where {} is greatest, {} where {} is greatest, {} where both are.",
        chart.value,
        chart.x_label,
        chart.y_label,
        corner(first, false),
        corner(first, true),
        chart.x_label,
        corner(last, false),
        chart.y_label,
        corner(last, true)
    )
}
