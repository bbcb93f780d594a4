//! Classes of a simulation: the table of `--classes`, and the results of each class.

use crate::args::SimArgs;
use crate::source::Traces;
use nitro_config::classes::ClassTable;
use nitro_console::error::Error;
use nitro_console::output::Table;
use nitro_console::size::Size;
use nitro_sim::{ClassMeasures, Knob, Measures, Settings};
use nitro_units::ClassId;
use serde_json::{Map, Value};

/// The table of classes of `args`; without `--classes`, one that treats all classes alike.
pub(super) fn table(args: &SimArgs) -> Result<ClassTable, Error> {
    let Some(named) = &args.cache.classes else { return Ok(ClassTable::default()) };
    let table = ClassTable::open(named).map_err(|error| error.within("--classes"))?;
    table.check_for_trace().map_err(|error| error.within(format_args!("--classes {}", named.display())))?;
    Ok(table)
}

/// Refuses a table without rules if neither the trace nor patterns give classes, because it has no effect.
pub(super) fn check_use(table: &ClassTable, args: &SimArgs, source: &Traces<'_>) -> Result<(), Error> {
    let Some(named) = args.cache.classes.as_ref().filter(|_| *table != ClassTable::default()) else { return Ok(()) };
    if args.asked(Knob::Patterns) || source.has_classes()? {
        return Ok(());
    }
    let what = format!("--classes {}", named.display());
    if table.rules.0.is_empty() {
        return Err(Error::new(
            what,
            "it has no rules, and no request of the trace has a class: the server finds the classes of such a table in \
             the blocks of file systems, which a trace does not have",
        )
        .or("name a file with rules by place, request_size or direction, or a trace recorded with classes"));
    }
    nitro_console::note!("{what}: no rule matches any request of the trace, and no request has a class");
    Ok(())
}

/// Prints which variants do not apply the policies of classes.
pub(super) fn tell_unused(table: &ClassTable, points: &[Settings]) {
    if table.classes.are_usual() {
        return;
    }
    let mut variants: Vec<_> =
        points.iter().filter(|p| !p.variant.has_class_policies()).map(|p| p.variant.to_string()).collect();
    variants.dedup();
    if !variants.is_empty() {
        let names = variants.join(", ");
        nitro_console::note!(
            "policies of classes have no effect in {names}: requests are counted by class, but treated alike"
        );
    }
}

/// The measures of each class that occurs, or to which the table gives a policy or a name; empty if nothing is
/// classified.
fn measured(measures: &Measures, table: &ClassTable) -> Vec<ClassMeasures> {
    let of = |class: ClassId| {
        let found = measures.classes.iter().find(|measured| measured.id == class.number()).copied();
        found.or_else(|| table.knows(class).then(|| ClassMeasures { id: class.number(), ..ClassMeasures::default() }))
    };
    let known = measures.classes.iter().any(|measured| measured.id > 0) || !table.rules.0.is_empty();
    if known { ClassId::all().filter_map(of).collect() } else { Vec::new() }
}

fn name(table: &ClassTable, id: u8) -> String {
    table.name(ClassId::new(id).unwrap_or_default())
}

/// The classes in the form of the server's status, with hits of requests in addition to those of extents.
pub(super) fn json(measures: &Measures, table: &ClassTable) -> Result<Value, Error> {
    let named = |class: ClassMeasures| -> Result<Value, Error> {
        let mut fields = match serde_json::to_value(class).map_err(|error| Error::new("classes", error))? {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        fields.insert("name".into(), name(table, class.id).into());
        Ok(fields.into())
    };
    measured(measures, table).into_iter().map(named).collect()
}

/// The same as a table; `None`: nothing is classified.
pub(super) fn people(measures: &Measures, table: &ClassTable) -> Option<String> {
    let mut told = Table::new(["class", "reads", "read", "hits", "hits_of_extents", "writes", "written", "cached"]);
    for class in measured(measures, table) {
        let percent = |ratio: f64, of: u64| if of == 0 { "-".to_owned() } else { format!("{:.2} %", ratio * 100.0) };
        told.row(vec![
            name(table, class.id),
            class.reads.to_string(),
            Size(class.read_bytes).to_string(),
            percent(class.read_hit_ratio, class.reads),
            percent(class.read_extent_hit_ratio, class.read_extents),
            class.writes.to_string(),
            Size(class.write_bytes).to_string(),
            class.cached_bytes.map_or_else(|| "-".to_owned(), |bytes| Size(bytes).to_string()),
        ]);
    }
    (!told.rows.is_empty()).then(|| told.aligned())
}
