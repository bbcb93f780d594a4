//! Nitro's evaluation (USENIX ATC 2014, §5 and §6), made again: which simulations each of its figures and tables takes, what
//! comes of them, and whether the paper's claims hold.
//!
//! An [`Experiment`] names its [`Cell`]s, a simulation each, and makes a [`Section`] of the outcomes. Cells are the same from run
//! to run, so that outcomes can be kept, and a run that was stopped goes on where it was.
//!
//! The FIU traces are not to be had here: [`FiuLike`](nitro_trace::synth::FiuLike) traces with their published figures stand
//! for them.

mod cell;
mod figure1;
mod figure4;
mod figure5;
mod figure6;
mod figure7;
mod judge;
mod parameters;
mod plan;
mod run;
mod section;
mod ssd_throughput;
mod ssd_writes;
mod table2;
mod work;

pub use cell::{Cell, Outcomes};
pub use judge::{Band, Holds, Verdict, percent_more, percents};
pub use plan::{Fiu, Plan, WARM_NS};
pub use run::{Step, run};
pub use section::{Bars, Chart, Contour, Line, Lines, Point, Points, Section, Table};
pub use table2::{DEPTH, DIRTY_PERCENT, OVER_EXTENTS, SSD_TIMES, judge_cold, judge_dedup_first, judge_warm};
pub use work::Work;

/// A figure or table of the paper.
pub struct Experiment {
    /// Its number in the paper, in lower case.
    pub id: &'static str,
    /// The simulations that it takes.
    pub cells: fn(&Plan) -> Vec<Cell>,
    /// What comes of them.
    pub section: fn(&Plan, &Outcomes) -> Section,
}

/// All that are simulated, in the paper's order.
pub const EXPERIMENTS: [Experiment; 9] = [
    Experiment { id: "table-1", cells: |_| Vec::new(), section: parameters::section },
    Experiment { id: "figure-1", cells: figure1::cells, section: figure1::section },
    Experiment { id: "figure-4", cells: figure4::cells, section: figure4::section },
    Experiment { id: "figure-5", cells: figure5::cells, section: figure5::section },
    Experiment { id: "figure-6", cells: figure6::cells, section: figure6::section },
    Experiment { id: "ssd-throughput", cells: |_| Vec::new(), section: ssd_throughput::section },
    Experiment { id: "table-2", cells: table2::cells, section: table2::section },
    Experiment { id: "figure-7", cells: figure7::cells, section: figure7::section },
    Experiment { id: "ssd-writes", cells: ssd_writes::cells, section: ssd_writes::section },
];
