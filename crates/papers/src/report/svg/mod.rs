//! Charts as SVG, in the colours of the page's style.

mod axis;
mod bars;
mod field;
mod lines;
mod points;

use crate::report::html::escaped;
use crate::report::{Bars, Chart, Contour, Lines, Points, Table};

/// The size of every chart.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 320.0;
/// Margins around the drawing, for labels.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 68.0;
/// The number of colours for lines and bars.
const COLOURS: usize = 10;
/// The height of a row of the legend, and the number of rows with room in every chart.
const LEGEND_ROW: f64 = 16.0;
const LEGEND_ROWS: usize = 2;

/// The title of a chart.
pub(super) fn title(chart: &Chart) -> &str {
    match chart {
        Chart::Lines(chart) => &chart.title,
        Chart::Bars(chart) => &chart.title,
        Chart::Contour(chart) => &chart.title,
        Chart::Points(chart) => &chart.title,
    }
}

/// The drawing of a chart.
pub(super) fn draw(chart: &Chart) -> String {
    let (drawn, description) = match chart {
        Chart::Lines(chart) => (lines::draw(chart), lines::description(chart)),
        Chart::Bars(chart) => (bars::draw(chart), bars::description(chart)),
        Chart::Contour(chart) => (field::draw(chart), field::description(chart)),
        Chart::Points(chart) => (points::draw(chart), points::description(chart)),
    };
    let label = format!("{}. {description}", title(chart));
    let last = places(&names(chart)).last().map_or(0, |(_, row)| *row);
    let height = HEIGHT + LEGEND_ROW * (last + 1).saturating_sub(LEGEND_ROWS) as f64;
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">{drawn}</svg>", escaped(&label))
}

/// A number in the shortest form.
fn number(value: f64) -> String {
    let text = match value.abs() {
        0.0 => return "0".to_owned(),
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 1.0 => format!("{value:.2}"),
        small if small >= 0.01 => format!("{value:.3}"),
        // Two significant digits.
        tiny => format!("{value:.*}", (1.0 - tiny.log10().floor()) as usize),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The figures of a chart as a table.
pub(super) fn figures(chart: &Chart) -> Table {
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    match chart {
        Chart::Lines(Lines { x_label, lines, .. }) => {
            let mut xs: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x)).collect();
            xs.sort_by(f64::total_cmp);
            xs.dedup();
            let mut table = Table::new("", &[x_label]);
            table.columns.extend(lines.iter().map(|line| line.name.clone()));
            for x in xs {
                let at = |line: &crate::report::Line| {
                    shown(line.points.iter().find(|point| point.0 == x).map(|point| point.1))
                };
                table.rows.push(std::iter::once(number(x)).chain(lines.iter().map(at)).collect());
            }
            table
        }
        Chart::Bars(Bars { groups, bars, .. }) => {
            let mut table = Table::new("", &[""]);
            table.columns.extend(groups.iter().cloned());
            for (name, heights) in bars {
                table.rows.push(std::iter::once(name.clone()).chain(heights.iter().map(|h| shown(*h))).collect());
            }
            table
        }
        Chart::Contour(Contour { x_label, y_label, xs, ys, values, .. }) => {
            let mut table = Table::new("", &[&format!("{y_label} by {x_label}")]);
            table.columns.extend(xs.iter().map(|x| number(*x)));
            for (y, row) in ys.iter().zip(values) {
                table.rows.push(std::iter::once(number(*y)).chain(row.iter().map(|value| shown(*value))).collect());
            }
            table
        }
        Chart::Points(Points { x_label, y_label, kinds, .. }) => {
            let mut table = Table::new("", &["", "", x_label, y_label]);
            for (kind, points) in kinds {
                let row = |p: &crate::report::Point| vec![p.name.clone(), kind.clone(), number(p.x), number(p.y)];
                table.rows.extend(points.iter().map(row));
            }
            table
        }
    }
}

/// The names in the legend.
fn names(chart: &Chart) -> Vec<&str> {
    match chart {
        Chart::Lines(chart) => {
            let events = chart.events.iter().map(|(name, _)| name.as_str());
            chart.lines.iter().map(|line| line.name.as_str()).chain(events).collect()
        }
        Chart::Bars(chart) => chart.bars.iter().map(|(name, _)| name.as_str()).collect(),
        Chart::Points(chart) => chart.kinds.iter().map(|(name, _)| name.as_str()).collect(),
        Chart::Contour(_) => Vec::new(),
    }
}

/// The position and the row of each name of a legend.
fn places(names: &[&str]) -> Vec<(f64, usize)> {
    let (mut x, mut row) = (LEFT, 0);
    let mut out = Vec::new();
    for name in names {
        let width = 24.0 + 6.6 * name.chars().count() as f64;
        if x + width > WIDTH && x > LEFT {
            (x, row) = (LEFT, row + 1);
        }
        out.push((x, row));
        x += width;
    }
    out
}

/// A legend below the drawing.
fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let mut out = String::new();
    for (number, (name, (x, row))) in names.iter().zip(places(&names)).enumerate() {
        let y = HEIGHT - 22.0 + LEGEND_ROW * row as f64;
        let colour = number % COLOURS;
        out += &format!(
            "<g class=\"s{colour}\"><rect class=\"bar\" x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\"/></g>",
            y - 9.0
        );
        out += &format!("<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 14.0, escaped(name));
    }
    out
}
