//! `nitro-lab reproduce`: the evaluations of all papers, in one report.

use crate::report::{JUDGED, Report, Section, Verdict, make, say};
use crate::settings::{AzorPaper, ClamPaper, DataDomainPaper, DssPaper, Evaluation, IndexPaper, SiltPaper, StorePaper};
use crate::{azor, clam, data_domain, dss, nitro, silt, store};
use nitro_cache::class::Classes;
use nitro_console::error::Error;

/// The name of the report's files.
const NAME: &str = "reproduction";

/// Runs the evaluation of a paper.
type Run<'a> = &'a dyn Fn() -> Result<Report, Error>;

/// Runs the evaluations of all papers and writes one report, whose verdicts are those of all. `dss_classes`: the policies
/// of the preset `dss`.
///
/// # Errors
/// The folder cannot be written to, or a part fails; the others are in the report.
pub fn run(args: &Evaluation, dss_classes: Classes) -> Result<(), Error> {
    make(&args.folder)?;
    // Simulations come first: they are kept if the run is stopped.
    let parts: &[(&str, &str, Run<'_>)] = &[
        ("nitro", "simulated", &|| nitro::report(args)),
        ("cos", "in front of the store", &|| store::report(&store_of(args))),
        ("azor", "", &|| azor::report(&azor_of(args))),
        ("data-domain", "", &|| data_domain::report(&data_domain_of(args))),
        ("dss", "", &|| dss::report(&dss_of(args, dss_classes))),
        ("clam", "", &|| {
            clam::report(&ClamPaper { common: index_of(args), dollars: ClamPaper::DOLLARS, content: None })
        }),
        ("silt", "", &|| silt::report(&SiltPaper { common: index_of(args) })),
    ];
    let mut all = Report {
        version: env!("CARGO_PKG_VERSION"),
        command: nitro::command("nitro-lab reproduce", args),
        title: "The papers' evaluations, reproduced",
        about: format!("All papers that are reproduced, one after the other. {JUDGED}"),
        scales: None,
        generator: None,
        seconds: 0.0,
        sections: Vec::new(),
        failures: Vec::new(),
    };
    let mut reports = Vec::new();
    for &(id, how, run) in parts {
        say(&format!("reproducing {id}"));
        match run() {
            Ok(report) => reports.push((id, how, report)),
            Err(error) => all.failures.push(format!("{id}: {error}")),
        }
    }
    join(&mut all, reports);
    nitro::publish_all(&all, args, NAME)
}

/// Adds the sections of all reports. A claim that two of them judge has both verdicts, each with its method.
fn join(all: &mut Report, reports: Vec<(&'static str, &str, Report)>) {
    let ids: Vec<&str> = reports.iter().flat_map(|(.., report)| judged(report)).collect();
    let twice = |id: &str| ids.iter().filter(|other| **other == id).count() > 1;
    for (id, how, mut report) in reports {
        for verdict in report.sections.iter_mut().flat_map(|section| &mut section.verdicts) {
            if twice(verdict.id) {
                verdict.found = format!("{how}: {}", verdict.found);
            }
        }
        all.seconds += report.seconds;
        all.scales = all.scales.or(report.scales);
        all.generator = all.generator.take().or(report.generator);
        all.failures.extend(report.failures);
        let text = report.about.replace(JUDGED, "").trim_end().to_owned();
        all.sections.push(Section { id, title: report.title.into(), text, ..Section::default() });
        all.sections.extend(report.sections);
    }
    let missing = nitro::not_judged(&all.sections);
    if !missing.verdicts.is_empty() {
        all.sections.push(missing);
    }
}

fn judged(report: &Report) -> impl Iterator<Item = &'static str> {
    report.sections.iter().flat_map(|section| &section.verdicts).map(|verdict: &Verdict| verdict.id)
}

fn store_of(args: &Evaluation) -> StorePaper {
    let (folder, only) = (args.folder.clone(), Vec::new());
    StorePaper { quick: args.quick, scale: 1.0, only, folder, threads: args.threads, format: args.format }
}

fn azor_of(args: &Evaluation) -> AzorPaper {
    let (traces, folder) = (args.traces.clone(), args.folder.clone());
    let (quick, threads, seed) = (args.quick, args.threads, args.seed);
    AzorPaper { quick, scale: 1.0, traces, folder, threads, seed, format: args.format }
}

fn data_domain_of(args: &Evaluation) -> DataDomainPaper {
    DataDomainPaper { quick: args.quick, folder: args.folder.clone(), format: args.format }
}

fn dss_of(args: &Evaluation, classes: Classes) -> DssPaper {
    DssPaper {
        quick: args.quick,
        classes,
        recordings: None,
        folder: args.folder.clone(),
        threads: args.threads,
        seed: args.seed,
        format: args.format,
    }
}

fn index_of(args: &Evaluation) -> IndexPaper {
    IndexPaper {
        quick: args.quick,
        entries: None,
        ram: None,
        folder: args.folder.clone(),
        file: None,
        threads: args.threads,
        format: args.format,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::CLAIMS;
    use crate::report::Holds;

    fn report(title: &'static str, ids: &[&'static str]) -> Report {
        let verdicts = ids.iter().map(|id| Verdict::new(id, "found", Holds::Holds)).collect();
        Report {
            version: "",
            command: String::new(),
            title,
            about: format!("About it. {JUDGED}"),
            scales: None,
            generator: None,
            seconds: 1.0,
            sections: vec![Section { id: "figure", verdicts, ..Section::default() }],
            failures: Vec::new(),
        }
    }

    #[test]
    fn one_report_has_a_verdict_on_every_claim_and_tells_two_methods_apart() {
        let mut all = report("All", &[]);
        all.sections.clear();
        let reports = vec![
            ("nitro", "simulated", report("Nitro", &["N1", "N10"])),
            ("cos", "in front of the store", report("Store", &["N10", "N20b"])),
            ("clam", "", report("CLAM", &["B1"])),
        ];
        join(&mut all, reports);
        let verdicts: Vec<_> = all.sections.iter().flat_map(|section| &section.verdicts).collect();
        for claim in CLAIMS {
            let count = verdicts.iter().filter(|verdict| verdict.id == claim.id).count();
            assert_eq!(count, if claim.id == "N10" { 2 } else { 1 }, "{}", claim.id);
        }
        let n10: Vec<_> = verdicts.iter().filter(|v| v.id == "N10").map(|v| v.found.as_str()).collect();
        assert_eq!(n10, ["simulated: found", "in front of the store: found"]);
        let kept = |id| verdicts.iter().find(|verdict| verdict.id == id).map(|verdict| verdict.holds);
        assert_eq!((kept("B1"), kept("S1"), kept("N20b")), (Some(Holds::Holds), Some(Holds::NotJudged), kept("B1")));
        let ids: Vec<_> = all.sections.iter().map(|section| section.id).collect();
        assert_eq!(ids, ["nitro", "figure", "cos", "figure", "clam", "figure", "not-judged"]);
        assert!(all.sections.iter().all(|section| !section.text.contains(JUDGED)), "it is in the introduction");
    }
}
