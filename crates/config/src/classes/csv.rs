//! Open-CAS's table of I/O classes: the title line "IO class id,IO class name,Eviction priority,Allocation", then one
//! class in each line. The name of a class is its rule (Open CAS Linux, "IO Classification").

use super::ClassTable;
use crate::ConfigError;
use nitro_cache::admission::Source;
use nitro_cache::class::{Allocation, Band, ClassPolicy, Comparison, Condition, Join, Rule};
use nitro_units::ClassId;

/// The beginning of the first line.
const TITLE: &str = "io class id";
/// Bytes of the sectors that `lba` counts.
const SECTOR_BYTES: u64 = 512;
/// The largest priority number. Priority 0 is evicted last.
const PRIORITY_MAX: u16 = 255;
/// Conditions that cannot be evaluated for a block device, and their replacements.
const UNKNOWN: [(&str, &str); 10] = [
    ("direct", "a block device does not know how a file was opened"),
    ("directory", "paths are not known here; use file_size, or a volume of its own with class = N"),
    ("extension", "names of files are not known here; use file_size"),
    ("file_name_prefix", "names of files are not known here; use file_size"),
    ("file_offset", "only the size of a block's file is known here; use file_size"),
    ("io_class", "a rule cannot refer to another class; repeat the conditions of that class"),
    ("core_id", "a table applies to all volumes of its cache; set class = N of the volume"),
    ("pid", "processes of clients are not known here"),
    ("process_name", "processes of clients are not known here"),
    ("wlth", "lifetime hints do not reach a server over NBD"),
];

/// Whether a text is a table of Open-CAS.
pub(super) fn is_csv(text: &str) -> bool {
    text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.trim().to_lowercase().starts_with(TITLE))
}

/// A line of the table.
struct Line {
    class: ClassId,
    name: String,
    priority: u16,
    max_percent: u8,
    conditions: Vec<(Join, Condition)>,
    is_last: bool,
}

/// Reads a table.
pub(super) fn parse(text: &str) -> Result<ClassTable, ConfigError> {
    let mut lines: Vec<Line> = Vec::new();
    let rest = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).skip(1);
    for (number, line) in rest {
        let read = parse_line(line).map_err(|fault| fault.in_line(number + 1, line))?;
        if lines.iter().any(|known| known.class == read.class) {
            let fault = Fault::new(line, format!("id {} occurs twice", read.class), "each class has one line");
            return Err(fault.in_line(number + 1, line));
        }
        lines.push(read);
    }
    let mut table = ClassTable::default();
    for line in &lines {
        let allocation = if line.max_percent == 0 { Allocation::Never } else { Allocation::Always };
        let priority = band(line.priority, &lines);
        let max_percent = line.max_percent.max(1);
        table.classes.set(line.class, ClassPolicy { priority, allocation, max_percent, ..ClassPolicy::default() });
        if line.class.is_classified() {
            table.names.insert(line.class, line.name.clone());
        }
    }
    // Of rules that hold the last one counts, but one that is "done" ends the search: as if it stood before all that are not.
    let ruled = |line: Line| Rule { class: line.class, conditions: line.conditions };
    let (last, others): (Vec<_>, Vec<_>) =
        lines.into_iter().filter(|l| l.class.is_classified()).partition(|l| l.is_last);
    table.rules.0 = last.into_iter().chain(others.into_iter().rev()).map(ruled).collect();
    Ok(table)
}

/// The band of a priority. Each priority has its own word if there are at most four; otherwise priorities are
/// distributed evenly over the four words of priority.
fn band(priority: u16, lines: &[Line]) -> Band {
    let mut all: Vec<_> = lines.iter().map(|line| line.priority).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup();
    let place = all.iter().position(|known| *known == priority).unwrap_or(0);
    let bands = all.len().clamp(1, Band::COUNT);
    // Of few, the lowest is the normal band: nothing need be below it.
    let lowest = if bands < Band::COUNT { Band::NORMAL.level().min(Band::COUNT - bands) } else { 0 };
    Band::ALL[lowest + place * bands / all.len().max(1)]
}

/// An error in a line.
struct Fault {
    /// The part that is wrong.
    part: String,
    problem: String,
    way_out: String,
}

impl Fault {
    fn new(part: &str, problem: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { part: part.to_owned(), problem: problem.into(), way_out: way_out.into() }
    }

    fn in_line(self, number: usize, line: &str) -> ConfigError {
        let column = line.find(&self.part).map_or(1, |at| line[..at].chars().count() + 1);
        let error = ConfigError::of(format!("column {column}: {}", self.problem), &self.way_out);
        ConfigError { line: Some(number), ..error }
    }
}

fn parse_line(line: &str) -> Result<Line, Fault> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let &[id, name, priority, allocation] = &*cells else {
        return Err(Fault::new(
            line,
            format!("{} values where there must be 4", cells.len()),
            "id,rule,priority,allocation",
        ));
    };
    let class = id.parse().ok().and_then(ClassId::new).ok_or_else(|| {
        Fault::new(
            id,
            format!("{id:?} is not a class"),
            "classes are 0 to 31; the class 32 of Open-CAS is not supported",
        )
    })?;
    if (name == "unclassified") == class.is_classified() {
        return Err(Fault::new(
            name,
            "class 0 is \"unclassified\", and no other class has this name",
            "give the class another number",
        ));
    }
    let number: u16 = priority.parse().ok().filter(|number| *number <= PRIORITY_MAX).ok_or_else(|| {
        Fault::new(priority, format!("{priority:?} is not a priority"), "priorities are 0 (evicted last) to 255")
    })?;
    let share: f64 = allocation.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| {
        Fault::new(
            allocation,
            format!("{allocation:?} is not a share of the cache"),
            "shares are 0 (never cached) to 1",
        )
    })?;
    let (conditions, is_last) = if class.is_classified() { parse_rule(name)? } else { (Vec::new(), false) };
    let max_percent = (share * 100.0).ceil() as u8;
    Ok(Line { class, name: name.to_owned(), priority: number, max_percent, conditions, is_last })
}

/// A rule's conditions, and whether the rule ends the search (`done`).
fn parse_rule(rule: &str) -> Result<(Vec<(Join, Condition)>, bool), Fault> {
    let (mut conditions, mut is_last) = (Vec::new(), false);
    let mut rest = rule;
    let mut join = Join::And;
    loop {
        let end = rest.find(['&', '|']).unwrap_or(rest.len());
        match rest[..end].trim() {
            "done" => is_last = true,
            text => conditions.push((join, parse_condition(text)?)),
        }
        let Some(sign) = rest[end..].chars().next() else { break };
        join = if sign == '&' { Join::And } else { Join::Or };
        rest = &rest[end + 1..];
    }
    Ok((conditions, is_last))
}

fn parse_condition(text: &str) -> Result<Condition, Fault> {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    if let Some((_, why)) = UNKNOWN.iter().find(|(known, _)| *known == name) {
        return Err(Fault::new(text, format!("the condition {name:?} cannot be used"), *why));
    }
    let compared = || -> Result<(Comparison, u64), Fault> {
        let (operator, number) = value.split_once(':').unwrap_or(("eq", value));
        let comparison = match operator {
            "eq" => Comparison::Eq,
            "ne" => Comparison::Ne,
            "lt" => Comparison::Lt,
            "gt" => Comparison::Gt,
            "le" => Comparison::Le,
            "ge" => Comparison::Ge,
            _ => return Err(Fault::new(text, format!("{operator:?} is not a comparison"), "eq, ne, lt, gt, le, ge")),
        };
        let number = number.parse().map_err(|_| {
            Fault::new(text, format!("{number:?} is not a number"), format!("write it as in {name}:le:4096"))
        })?;
        Ok((comparison, number))
    };
    match name {
        "metadata" if value.is_empty() => Ok(Condition::Metadata),
        "file_size" => compared().map(|(comparison, bytes)| Condition::FileBytes(comparison, bytes)),
        "request_size" => compared().map(|(comparison, bytes)| Condition::RequestBytes(comparison, bytes)),
        "lba" => {
            let (comparison, sector) = compared()?;
            let bytes = sector.checked_mul(SECTOR_BYTES);
            let bytes =
                bytes.ok_or_else(|| Fault::new(text, "no device has so many sectors", "sectors have 512 bytes"))?;
            Ok(Condition::Offset(comparison, bytes))
        }
        "io_direction" => match value.strip_prefix("eq:").unwrap_or(value) {
            "read" => Ok(Condition::Direction(Source::Read)),
            "write" => Ok(Condition::Direction(Source::Write)),
            _ => Err(Fault::new(text, format!("{value:?} is not a direction"), "read or write")),
        },
        _ => Err(Fault::new(
            text,
            format!("there is no condition {name:?}"),
            "there are metadata, file_size, request_size, lba, io_direction and done",
        )),
    }
}
