//! The parts of a report.

use super::Verdict;
use serde::Serialize;

/// A reproduced figure or table.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Section {
    /// The identifier, such as `figure-4`.
    pub id: &'static str,
    /// The title.
    pub title: String,
    /// The method, in a paragraph or two.
    pub text: String,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Tables.
    pub tables: Vec<Table>,
    /// The verdicts on its claims.
    pub verdicts: Vec<Verdict>,
}

/// A chart, with the figures that it shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chart {
    /// Lines over an axis.
    Lines(Lines),
    /// Groups of bars.
    Bars(Bars),
    /// A field over two axes.
    Contour(Contour),
    /// Points with names.
    Points(Points),
}

/// Lines over an axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lines {
    /// The title above the chart.
    pub title: String,
    /// The label of the horizontal axis.
    pub x_label: String,
    /// The label of the vertical axis.
    pub y_label: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// The lowest value of the vertical axis.
    pub y_min: f64,
    /// The lines.
    pub lines: Vec<Line>,
    /// Events, by kind, at values of the horizontal axis.
    pub events: Vec<(String, Vec<f64>)>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Groups of bars.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bars {
    /// The title above the chart.
    pub title: String,
    /// The label of the vertical axis.
    pub y_label: String,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// The names of the groups.
    pub groups: Vec<String>,
    /// Each kind of bar, with its height in each group.
    pub bars: Vec<(String, Vec<Option<f64>>)>,
}

/// A field over two axes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contour {
    /// The title above the chart.
    pub title: String,
    /// The label of the horizontal axis.
    pub x_label: String,
    /// The label of the vertical axis.
    pub y_label: String,
    /// The quantity that the field shows.
    pub value: String,
    /// Values of the horizontal axis.
    pub xs: Vec<f64>,
    /// Values of the vertical axis.
    pub ys: Vec<f64>,
    /// The values of the field, by y, then x.
    pub values: Vec<Vec<Option<f64>>>,
}

/// Points with names on two linear axes that start at 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Points {
    /// The title above the chart.
    pub title: String,
    /// The label of the horizontal axis.
    pub x_label: String,
    /// The label of the vertical axis.
    pub y_label: String,
    /// The points, by kind.
    pub kinds: Vec<(String, Vec<Point>)>,
}

/// One point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Its name.
    pub name: String,
    /// The value on the horizontal axis.
    pub x: f64,
    /// The value on the vertical axis.
    pub y: f64,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Table {
    /// The title above the table.
    pub title: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.into(), columns, rows: Vec::new() }
    }
}

/// A figure as a cell of a table; a dash for `None`.
#[must_use]
pub fn shown(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.decimals$}"))
}
