//! The axes of a sweep: `size=1G..16G:x2`, `dedup=on,off`.

use crate::knob::Knob;
use nitro_console::size::Size;
use std::str::FromStr;

/// The maximum number of values on an axis.
const VALUES_MAX: usize = 10_000;

/// An axis: a setting and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// The setting.
    pub knob: Knob,
    /// The values, as in the command line.
    pub values: Vec<String>,
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) =
            text.split_once('=').ok_or("must be NAME=VALUES, such as size=1G..16G:x2 or dedup=on,off")?;
        let knob: Knob = name.trim().parse()?;
        let values = match values.split_once("..") {
            Some((from, rest)) => range(knob, from, rest)?,
            None => values.split(',').map(|value| value.trim().to_owned()).collect(),
        };
        if values.iter().any(String::is_empty) {
            return Err("a value is missing".into());
        }
        Ok(Self { knob, values })
    }
}

/// The values of a range, with a factor or a step between them.
fn range(knob: Knob, from: &str, rest: &str) -> Result<Vec<String>, String> {
    let refuse = || "a range is FROM..TO:xFACTOR or FROM..TO:+STEP, such as 1G..16G:x2".to_owned();
    let (to, step) = rest.split_once(':').ok_or_else(refuse)?;
    let value = |text: &str| -> Result<f64, String> {
        if knob.is_size() {
            text.parse::<Size>().map(|size| size.0 as f64).map_err(|error| error.to_string())
        } else {
            text.parse().map_err(|_| refuse())
        }
    };
    let (mut at, last) = (value(from)?, value(to)?);
    let (factor, add) = match step.split_at_checked(1) {
        Some(("x", factor)) => (factor.parse().map_err(|_| refuse())?, 0.0),
        Some(("+", add)) => (1.0, value(add)?),
        _ => return Err(refuse()),
    };
    let grows = factor >= 1.0 && add >= 0.0 && at * factor + add > at;
    if !grows || !last.is_finite() {
        return Err(refuse());
    }
    let mut values = Vec::new();
    while at <= last * (1.0 + 1e-9) {
        values.push(if knob.is_size() || at.fract() == 0.0 { format!("{at:.0}") } else { at.to_string() });
        if values.len() > VALUES_MAX {
            return Err(format!("more than {VALUES_MAX} values"));
        }
        at = at * factor + add;
    }
    if values.is_empty() { Err("the range is empty".into()) } else { Ok(values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        text.parse::<Axis>().unwrap().values
    }

    #[test]
    fn lists_and_ranges_are_spelt_out() {
        assert_eq!(values("dedup=on,off"), ["on", "off"]);
        assert_eq!(values("size=1G..4G:x2"), ["1073741824", "2147483648", "4294967296"]);
        assert_eq!(values("fingerprint-index-ratio=50..100:+25"), ["50", "75", "100"]);
        assert_eq!(values("compression-ratio=1.5..2:+0.25"), ["1.5", "1.75", "2"]);
    }

    #[test]
    fn endless_ranges_and_unknown_names_are_refused() {
        for text in [
            "size",
            "cache=1G",
            "size=1G..2G",
            "size=1G..2G:x1",
            "size=1G..2G:+0",
            "size=2G..1G:x2",
            "size=",
            "size=0..1G:x2",
        ] {
            assert!(text.parse::<Axis>().is_err(), "{text}");
        }
        assert!("size=1..1P:+1".parse::<Axis>().unwrap_err().contains("10000"));
    }
}
