//! What a report consists of.

use super::Verdict;
use serde::Serialize;

/// A figure or table, made again.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Section {
    /// Its number in the paper.
    pub id: &'static str,
    /// Its title.
    pub title: String,
    /// How it was made, in a paragraph or two.
    pub text: String,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Tables.
    pub tables: Vec<Table>,
    /// The claims that belong to it.
    pub verdicts: Vec<Verdict>,
}

/// A chart. The figures that are drawn are the ones that it holds.
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
    /// Above the chart.
    pub title: String,
    /// Below it.
    pub x_label: String,
    /// Beside it.
    pub y_label: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// Where the vertical axis begins.
    pub y_min: f64,
    /// The lines.
    pub lines: Vec<Line>,
    /// What happened at which values of the horizontal axis, by kind.
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
    /// Above the chart.
    pub title: String,
    /// Beside it.
    pub y_label: String,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// Each kind of bar with its height in each group.
    pub bars: Vec<(String, Vec<Option<f64>>)>,
}

/// A field over two axes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contour {
    /// Above the chart.
    pub title: String,
    /// Below it.
    pub x_label: String,
    /// Beside it.
    pub y_label: String,
    /// What is drawn.
    pub value: String,
    /// Values of the horizontal axis.
    pub xs: Vec<f64>,
    /// Values of the vertical axis.
    pub ys: Vec<f64>,
    /// By y, then x.
    pub values: Vec<Vec<Option<f64>>>,
}

/// Points with names on two axes, both linear and from 0 on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Points {
    /// Above the chart.
    pub title: String,
    /// Below it.
    pub x_label: String,
    /// Beside it.
    pub y_label: String,
    /// The points, by kind.
    pub kinds: Vec<(String, Vec<Point>)>,
}

/// One point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Its name.
    pub name: String,
    /// On the horizontal axis.
    pub x: f64,
    /// On the vertical axis.
    pub y: f64,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Table {
    /// Above it.
    pub title: String,
    /// Columns.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Without rows.
    #[must_use]
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.into(), columns, rows: Vec::new() }
    }
}

/// A figure for a table, or a dash.
#[must_use]
pub fn shown(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.decimals$}"))
}
