//! F5: what entered the cache and what left it, counted by the simulator independently of the cache's own decisions.

use super::judges::{self, Policy};
use super::run::Ran;
use super::systems::{EXTENT_BYTES, System};
use crate::report::{Section, Table, Verdict};
use nitro_cache::builtin;
use nitro_sim::ClassMeasures;
use nitro_units::ClassId;

/// Whether a class always enters the cache: metadata, and files up to 1 MiB.
pub(super) fn is_small(class: ClassId) -> bool {
    let largest_small = builtin::of_file(1 << 20);
    [builtin::METADATA, builtin::DIRECTORY, builtin::JOURNAL].contains(&class)
        || (builtin::of_file(0)..=largest_small).contains(&class)
}

/// The sums over all runs with classes.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    pub(super) total: Policy,
    /// By class.
    pub(super) classes: Vec<ClassMeasures>,
}

impl Counted {
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a Ran>) -> Self {
        let mut counted = Self::default();
        for ran in runs.filter(|ran| ran.system == System::Dss) {
            counted.add(ran);
        }
        counted
    }

    fn add(&mut self, ran: &Ran) {
        let measured = &ran.outcome.measured;
        let total = &mut self.total;
        let mut taken = 0;
        for of in &measured.classes {
            let small = ClassId::new(of.id).is_some_and(is_small);
            let dirty = of.around_extents - of.around_while_clean;
            match small {
                true => total.small_around += of.around_extents,
                false => {
                    total.large_around += dirty;
                    total.large_around_while_clean += of.around_while_clean;
                    total.large_taken_while_dirty += of.taken_while_dirty;
                }
            }
            total.taken_while_clean += of.offered_extents - of.around_extents - of.taken_while_dirty;
            total.evicted += of.evicted_extents;
            total.evicted_early += of.evicted_early;
            taken += of.write_extents - of.around_extents;
            add_class(&mut self.classes, of);
        }
        total.entered_by_reads += (measured.inserted_bytes / u64::from(EXTENT_BYTES)).saturating_sub(taken);
        total.read_misses += measured.read_extents - measured.read_extent_hits;
        total.destaged += measured.destaged_extents;
    }
}

fn add_class(all: &mut Vec<ClassMeasures>, of: &ClassMeasures) {
    let Some(sum) = all.iter_mut().find(|sum| sum.id == of.id) else { return all.push(*of) };
    sum.write_extents += of.write_extents;
    sum.read_extents += of.read_extents;
    sum.read_hit_extents += of.read_hit_extents;
    sum.offered_extents += of.offered_extents;
    sum.around_extents += of.around_extents;
    sum.around_while_clean += of.around_while_clean;
    sum.taken_while_dirty += of.taken_while_dirty;
    sum.evicted_extents += of.evicted_extents;
    sum.evicted_early += of.evicted_early;
}

/// Judges F5.
pub(super) fn section(counted: &Counted) -> Section {
    Section {
        id: "dss-policy",
        title: "Table 2: allocation and eviction".into(),
        text: "Counts of all runs with classes. For each written extent that is not dirty already, the simulator notes \
               whether more than 15 % of the units hold no dirty data, and then what the cache does with it. At each \
               eviction, it notes the classes of the dropped extents, and whether a unit that could have been evicted instead holds \
               extents of a lower band: the former were then evicted out of order. A unit of dirty extents holds several \
               classes; at most three quarters of it are copied to other units."
            .into(),
        tables: vec![table(counted)],
        verdicts: vec![verdict("F5", &counted.total)],
        ..Section::default()
    }
}

pub(super) fn table(counted: &Counted) -> Table {
    let columns = [
        "class",
        "extents written",
        "decided by class",
        "around while > 15 % clean",
        "around while ≤ 15 % clean",
        "entered while ≤ 15 % clean",
        "evicted",
        "of these out of order",
        "read hits, %",
    ];
    let mut table = Table::new("What entered and what left, in extents of 4 KiB", &columns);
    for of in &counted.classes {
        let name = ClassId::new(of.id).and_then(builtin::name).unwrap_or("other");
        let hits = if of.read_extents == 0 {
            "–".to_owned()
        } else {
            format!("{:.1}", 100.0 * of.read_hit_extents as f64 / of.read_extents as f64)
        };
        let counts = [
            of.write_extents,
            of.offered_extents,
            of.around_while_clean,
            of.around_extents - of.around_while_clean,
            of.taken_while_dirty,
            of.evicted_extents,
            of.evicted_early,
        ];
        let counts = counts.iter().map(ToString::to_string);
        table.rows.push(std::iter::once(name.to_owned()).chain(counts).chain([hits]).collect());
    }
    table
}

/// The verdict on the policy, under F5 or its name for recordings.
pub(super) fn verdict(id: &'static str, found: &Policy) -> Verdict {
    let text = format!(
        "while more than 15 % was clean {} extents entered and {} of large files went around; else {} of large files went \
         around and {} entered; {} of metadata and small files went around; {} entered by reads ({} misses); {:.2} % of \
         {} evicted extents out of order; {} written back",
        found.taken_while_clean,
        found.large_around_while_clean,
        found.large_around,
        found.large_taken_while_dirty,
        found.small_around,
        found.entered_by_reads,
        found.read_misses,
        100.0 * found.early(),
        found.evicted,
        found.destaged,
    );
    let holds = judges::policy(found);
    let mut reasons = Vec::new();
    if found.early() > judges::EARLY_MAX {
        reasons.push(format!(
            "{:.2} % of the evictions were out of order, since units of several classes are evicted whole",
            100.0 * found.early()
        ));
    }
    let untried = [
        (found.taken_while_clean, "no extent was written while more than 15 % was clean"),
        (found.large_around, "no large file was written while at most 15 % was clean"),
        (found.read_misses, "no read missed"),
        (found.evicted, "nothing was evicted"),
        (found.destaged, "nothing was written back"),
    ];
    reasons.extend(untried.iter().filter(|(count, _)| *count == 0).map(|(_, why)| (*why).to_owned()));
    let broken = [
        (found.small_around, "metadata or small files were kept out"),
        (found.large_around_while_clean, "large files were kept out while more than 15 % was clean"),
        (found.large_taken_while_dirty, "large files entered while at most 15 % was clean"),
        (found.entered_by_reads, "reads allocated"),
    ];
    reasons.extend(broken.iter().filter(|(count, _)| *count > 0).map(|(_, why)| (*why).to_owned()));
    Verdict::new(id, text, holds).because(&reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Holds;

    #[test]
    fn reasons_follow_the_counts() {
        let none = verdict("F5", &Policy::default());
        assert_eq!(none.holds, Holds::NotJudged);
        assert!(none.reason.contains("nothing was evicted") && !none.reason.contains("kept out"), "{}", none.reason);
        let kept_out = verdict("F5", &Policy { small_around: 3, ..Policy::default() });
        assert!(kept_out.holds == Holds::DoesNot && kept_out.reason.contains("small files were kept out"));
        assert!(is_small(builtin::METADATA) && is_small(builtin::of_file(1 << 20)));
        assert!(!is_small(builtin::of_file((1 << 20) + 1)) && !is_small(ClassId::UNCLASSIFIED));
    }
}
