//! Charts made of characters.

use crate::size::Size;
use std::fmt::Write;

const WIDTH: usize = 64;
const HEIGHT: usize = 16;
/// The marks of series. If points of two series are in one cell, the mark of the later series is shown.
const MARKS: [char; 10] = ['o', 'x', '+', '*', '#', '@', '%', '&', '=', '~'];

/// A named line through points, each a size and a ratio.
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Sizes in bytes and their ratios, in ascending order of the sizes.
    pub points: Vec<(u64, f64)>,
}

/// Draws ratios, from 0 to the largest, over sizes on a logarithmic scale, with the title `what`. Returns an empty text
/// if the points do not have at least two sizes.
#[must_use]
pub fn draw(what: &str, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|series| &series.points).filter(|point| point.0 > 0);
    let (Some(least), Some(most)) = (points().map(|p| p.0).min(), points().map(|p| p.0).max()) else {
        return String::new();
    };
    if least == most {
        return String::new();
    }
    let top = points().map(|p| p.1).fold(0.0, f64::max);
    let top = if top > 0.0 { top } else { 1.0 };
    let log = |size: u64| (size as f64).log2();
    let column =
        |size: u64| ((log(size) - log(least)) / (log(most) - log(least)) * (WIDTH - 1) as f64).round() as usize;
    let row = |ratio: f64| ((1.0 - ratio / top) * (HEIGHT - 1) as f64).round() as usize;
    let mut grid = vec![[' '; WIDTH]; HEIGHT];
    for (series, mark) in series.iter().zip(MARKS.iter().cycle()) {
        for pair in series.points.windows(2) {
            // Dots connect the points.
            let (from, to) = (column(pair[0].0), column(pair[1].0));
            for at in from..=to {
                let share = if to == from { 0.0 } else { (at - from) as f64 / (to - from) as f64 };
                let line = &mut grid[row(pair[0].1 + (pair[1].1 - pair[0].1) * share).min(HEIGHT - 1)];
                if let Some(cell) = line.get_mut(at).filter(|cell| **cell == ' ') {
                    *cell = '.';
                }
            }
        }
        for &(size, ratio) in &series.points {
            grid[row(ratio).min(HEIGHT - 1)][column(size)] = *mark;
        }
    }
    let mut out = format!("{what}\n");
    for (number, line) in grid.iter().enumerate() {
        let label = match number {
            0 => format!("{top:6.3}"),
            n if n == HEIGHT - 1 => format!("{:6.3}", 0.0),
            n if n == HEIGHT / 2 => format!("{:6.3}", top * (1.0 - n as f64 / (HEIGHT - 1) as f64)),
            _ => " ".repeat(6),
        };
        let line: String = line.iter().collect();
        let _ = writeln!(out, "{label} |{}", line.trim_end());
    }
    let _ = writeln!(out, "       +{}", "-".repeat(WIDTH));
    let (first, last) = (Size(least).to_string(), Size(most).to_string());
    let _ = writeln!(out, "        {first}{last:>width$}", width = WIDTH.saturating_sub(first.chars().count()));
    if series.len() > 1 {
        for (series, mark) in series.iter().zip(MARKS.iter().cycle()) {
            let _ = writeln!(out, "        {mark} {}", series.name);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_line_falls() {
        let line = |name: &str, half: f64| Series {
            name: name.into(),
            points: vec![(1 << 30, half * 2.0), (2 << 30, half), (4 << 30, 0.0)],
        };
        let chart = draw("miss ratio", &[line("a", 0.4), line("b", 0.2)]);
        let lines: Vec<&str> = chart.lines().collect();
        assert!(lines[1].starts_with(" 0.800 |o") && lines[HEIGHT].ends_with('x'), "{chart}");
        assert!(chart.contains("1 GiB") && chart.contains("4 GiB") && chart.contains("x b"), "{chart}");
        assert_eq!(draw("nothing", &[]), "");
    }
}
