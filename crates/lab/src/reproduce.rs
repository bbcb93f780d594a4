//! `nitro-lab reproduce`: the evaluations of the papers, with the reproduced results next to the published ones.

use crate::args::{
    AzorArgs, ClamArgs, CosPaperArgs, DataDomainArgs, DssArgs, IndexPaperArgs, NitroArgs, Paper, ReproduceArgs,
    SiltArgs,
};
use nitro_config::classes::ClassTable;
use nitro_console::error::Error;
use nitro_papers::{AzorPaper, ClamPaper, DataDomainPaper, DssPaper, Evaluation, IndexPaper, SiltPaper, StorePaper};
use nitro_papers::{all, azor, clam, data_domain, dss, nitro, silt, store};
use std::path::Path;

/// Runs the evaluation of the chosen paper and writes the report.
pub(crate) fn run(args: &ReproduceArgs) -> Result<(), Error> {
    match &args.paper {
        None if args.nitro.only.is_empty() => all::run(&args.nitro.settings(), dss_table()?.classes),
        None => nitro::evaluation(&args.nitro.settings(), "reproduction"),
        Some(Paper::Nitro(args)) => nitro::evaluation(&args.settings(), "nitro"),
        Some(Paper::Clam(args)) => clam::run(&args.settings()),
        Some(Paper::Silt(args)) => silt::run(&args.settings()),
        Some(Paper::Azor(args)) => azor::run(&args.settings()),
        Some(Paper::Cos(args)) => store::run(&args.settings()),
        Some(Paper::DataDomain(args)) => data_domain::run(&args.settings()),
        Some(Paper::Dss(args)) => dss::run(&args.settings(&dss_table()?)),
    }
}

impl NitroArgs {
    fn settings(&self) -> Evaluation {
        let (only, traces, folder) = (self.only.clone(), self.traces.clone(), self.folder.clone());
        let (quick, scale, threads, seed) = (self.quick, self.scale, self.threads.threads, self.seed);
        Evaluation { quick, scale, only, traces, folder, threads, seed, format: self.output.format }
    }
}

impl IndexPaperArgs {
    fn settings(&self) -> IndexPaper {
        let (folder, file) = (self.results.folder.clone(), self.file.clone());
        let (quick, entries, ram, threads) = (self.quick, self.entries, self.ram, self.threads);
        IndexPaper { quick, entries, ram, folder, file, threads, format: self.results.output.format }
    }
}

impl ClamArgs {
    fn settings(&self) -> ClamPaper {
        ClamPaper { common: self.common.settings(), dollars: self.dollars, content: self.content.clone() }
    }
}

impl SiltArgs {
    fn settings(&self) -> SiltPaper {
        SiltPaper { common: self.common.settings() }
    }
}

impl AzorArgs {
    fn settings(&self) -> AzorPaper {
        let (traces, folder) = (self.traces.clone(), self.results.folder.clone());
        let (quick, scale, threads, seed) = (self.quick, self.scale, self.threads.threads, self.seed);
        AzorPaper { quick, scale, traces, folder, threads, seed, format: self.results.output.format }
    }
}

impl CosPaperArgs {
    fn settings(&self) -> StorePaper {
        let (quick, scale, only, folder) = (self.quick, self.scale, self.only.clone(), self.results.folder.clone());
        StorePaper { quick, scale, only, folder, threads: self.threads, format: self.results.output.format }
    }
}

impl DataDomainArgs {
    fn settings(&self) -> DataDomainPaper {
        DataDomainPaper { quick: self.quick, folder: self.results.folder.clone(), format: self.results.output.format }
    }
}

/// The preset `dss`.
fn dss_table() -> Result<ClassTable, Error> {
    ClassTable::open(Path::new("dss"))
}

impl DssArgs {
    fn settings(&self, table: &ClassTable) -> DssPaper {
        let (recordings, folder) = (self.recordings.clone(), self.results.folder.clone());
        let (quick, threads, seed) = (self.quick, self.threads.threads, self.seed);
        DssPaper {
            quick,
            classes: table.classes,
            recordings,
            folder,
            threads,
            seed,
            format: self.results.output.format,
        }
    }
}
