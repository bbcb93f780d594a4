//! Errors in a configuration file, with their lines.

use nitro_console::error::Error;
use std::fmt;

/// An invalid configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The line, from 1; `None` if the error does not belong to one line.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: String,
    /// The remedy; may be empty.
    pub way_out: String,
}

impl ConfigError {
    /// An error that does not belong to one line.
    pub(crate) fn of(problem: impl Into<String>, way_out: &str) -> Self {
        Self { line: None, problem: problem.into(), way_out: way_out.to_owned() }
    }

    pub(crate) fn from_toml(text: &str, error: &toml::de::Error) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start));
        let message = error.message().lines().next().unwrap_or("malformed").to_owned();
        let (problem, way_out) = match unknown(&message) {
            Some((kind, wrong, valid)) => {
                let hint = match nearest(wrong, valid.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("valid here: {}", valid.join(", ")),
                };
                (format!("unknown {kind} {wrong:?}"), hint)
            }
            None => (message, String::new()),
        };
        Self { line: before.map(|text| text.matches('\n').count() + 1), problem, way_out }
    }

    pub(super) fn from_check(error: Error) -> Self {
        let (problem, way_out) = error.into_parts();
        Self { line: None, problem, way_out }
    }

    /// The error of the file `path`.
    #[must_use]
    pub fn in_file(self, path: &std::path::Path) -> Error {
        let place = match self.line {
            Some(line) => format!("{}, line {line}", path.display()),
            None => path.display().to_string(),
        };
        Error::new(place, self.problem).or(self.way_out)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}", self.problem)?;
        if self.way_out.is_empty() { Ok(()) } else { write!(f, "; {}", self.way_out) }
    }
}

impl std::error::Error for ConfigError {}

/// Splits serde's message about an unknown key or variant: its kind, the word found, and the valid words.
fn unknown(message: &str) -> Option<(&'static str, &str, Vec<&str>)> {
    let kinds = [("unknown field `", "key"), ("unknown variant `", "value")];
    let (rest, kind) = kinds.into_iter().find_map(|(start, kind)| Some((message.strip_prefix(start)?, kind)))?;
    let (wrong, rest) = rest.split_once('`')?;
    Some((kind, wrong, rest.split('`').skip(1).step_by(2).collect()))
}

/// The candidate that is most similar to `word`, if the difference is small.
pub(super) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|&(distance, candidate)| distance < candidate.len() && distance <= candidate.len().div_ceil(3))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The longest words compared; the rest of a longer one counts as different.
const COMPARED_MAX: usize = 64;

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(COMPARED_MAX).collect();
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, cb) in b.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, ca) in a.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(*ca != cb)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[a.len()]
}
