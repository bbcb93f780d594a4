//! Groups of bars.

use super::axis::Axis;
use super::{BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, WIDTH, escaped, legend, number};
use crate::report::Bars;

/// The share of a group's width that its bars fill.
const FILLED: f64 = 0.8;

pub(super) fn draw(chart: &Bars) -> String {
    let heights = || chart.bars.iter().flat_map(|(_, heights)| heights.iter().flatten().copied());
    let above_zero = heights().filter(|height| !chart.log_y || *height > 0.0);
    // A logarithmic axis starts at 1 or at the power of ten below the least bar, so that every bar has a height.
    let least = above_zero.clone().fold(1.0, f64::min);
    let from = if chart.log_y { 10f64.powf(least.log10().floor()) } else { 0.0 };
    let axis = Axis::vertical(above_zero, from, chart.log_y);
    let base = axis.at(if chart.log_y { axis.low() } else { 0.0 });
    let mut out = axis.across(&chart.y_label);
    let group_width = (WIDTH - LEFT - RIGHT) / chart.groups.len().max(1) as f64;
    let bar_width = group_width * FILLED / chart.bars.len().max(1) as f64;
    for (group, name) in chart.groups.iter().enumerate() {
        let start = LEFT + group_width * (group as f64 + (1.0 - FILLED) / 2.0);
        for (kind, (_, heights)) in chart.bars.iter().enumerate() {
            let Some(height) = heights.get(group).copied().flatten() else { continue };
            let (x, y) = (start + bar_width * kind as f64, axis.at(height));
            let (top, tall) = (y.min(base), (y - base).abs().max(0.5));
            out += &format!(
                "<g class=\"s{}\"><rect class=\"bar\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"/></g>",
                kind % COLOURS,
                bar_width - 1.5
            );
        }
        let middle = LEFT + group_width * (group as f64 + 0.5);
        let y = HEIGHT - BOTTOM + 16.0;
        out += &format!("<text x=\"{middle:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escaped(name));
    }
    out + &legend(chart.bars.iter().map(|(name, _)| name.as_str()))
}

pub(super) fn description(chart: &Bars) -> String {
    let told = chart.bars.iter().map(|(name, heights)| {
        let heights: Vec<_> = heights.iter().map(|height| height.map_or_else(|| "–".to_owned(), number)).collect();
        format!("{name}: {}", heights.join(", "))
    });
    format!("{} for {}. {}.", chart.y_label, chart.groups.join(", "), told.collect::<Vec<_>>().join("; "))
}
