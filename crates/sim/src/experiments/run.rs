//! Runs cells on several threads, each trace made once.

use super::cell::{Cell, Outcomes, Result};
use super::work::Work;
use crate::replay::simulate;
use crate::workload::Stored;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What happened.
#[derive(Debug)]
pub enum Step<'a> {
    /// A trace is being made.
    Trace(&'a Work),
    /// A cell has an outcome.
    Cell(&'a Cell, &'a Result),
}

/// Runs those of `cells` that are not among `known`. `tell` is told of each step, from any thread.
pub fn run(cells: &[Cell], known: &Outcomes, threads: usize, tell: &(dyn Fn(Step<'_>) + Sync)) {
    let mut missing: Vec<&Cell> = Vec::new();
    for cell in cells.iter().filter(|cell| !known.has(cell)) {
        if !missing.contains(&cell) {
            missing.push(cell);
        }
    }
    // Several small traces are made and run side by side, each by one thread; the cells of a large one are shared.
    let groups = grouped(&missing);
    let next = AtomicUsize::new(0);
    let many = groups.len() >= 4 * threads;
    thread::scope(|scope| {
        for _ in 0..if many { threads } else { 1 } {
            scope.spawn(|| {
                while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run_group(group, if many { 1 } else { threads }, tell);
                }
            });
        }
    });
}

/// Cells that share a trace and an extent size.
fn grouped<'a>(cells: &[&'a Cell]) -> Vec<Vec<&'a Cell>> {
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        let same = |group: &&mut Vec<&Cell>| {
            group[0].work == cell.work && group[0].settings.extent_bytes == cell.settings.extent_bytes
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups
}

fn run_group(group: &[&Cell], threads: usize, tell: &(dyn Fn(Step<'_>) + Sync)) {
    let first = group[0];
    tell(Step::Trace(&first.work));
    let stored = first.work.keep(first.settings.extent_bytes).map_err(|error| error.to_string());
    let next = AtomicUsize::new(0);
    let telling = Mutex::new(());
    thread::scope(|scope| {
        for _ in 0..threads.min(group.len()) {
            scope.spawn(|| {
                while let Some(cell) = group.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = outcome(cell, &stored);
                    let _one_at_a_time = telling.lock();
                    tell(Step::Cell(cell, &result));
                }
            });
        }
    });
}

fn outcome(cell: &Cell, stored: &std::result::Result<Stored, String>) -> Result {
    let ran = match stored {
        Ok(stored) => simulate(&mut stored.replay(), &cell.settings, &mut |_| true).map_err(|error| error.to_string()),
        Err(why) => Err(why.clone()),
    };
    ran.map_or_else(Result::Failed, |outcome| Result::Done(Box::new(outcome)))
}
