//! `nitro-lab trace synth`

use super::result::ResultFile;
use crate::args::{
    BootStormArgs, FileServerArgs, FiuArgs, MakeArgs, RandomArgs, SnapshotArgs, SnapshotPass, SynthCommand, TpccArgs,
    TpchArgs, ZipfArgs,
};
use nitro_commands::traces::{Input, ReadArgs, refused};
use nitro_console::error::Error;
use nitro_trace::synth::{
    BootStorm, FileServer, FiuLike, RandomReads, SnapshotChain, TpccLike, TpchLike, Zipf, boot_template, recorded_boot,
};
use nitro_trace::{Reader, TraceError};
use std::slice;

/// The unit, in bytes, to which the size of a snapshot's image is rounded down.
const SNAPSHOT_UNIT_BYTES: u64 = 512 << 10;

/// A synthetic trace.
struct Made<'a> {
    make: &'a MakeArgs,
    reader: Box<dyn Reader>,
    /// The description in the file's metadata.
    source: &'static str,
    /// The options that generate the trace again.
    generator: String,
}

/// Generates a trace.
pub(super) fn run(kind: &SynthCommand) -> Result<(), Error> {
    let mut made = match kind {
        SynthCommand::Webvm(args) => fiu(args, "webvm", FiuLike::web_vm(args.scale, args.make.seed)),
        SynthCommand::Mail(args) => fiu(args, "mail", FiuLike::mail(args.scale, args.make.seed)),
        SynthCommand::Homes(args) => fiu(args, "homes", FiuLike::homes(args.scale, args.make.seed)),
        SynthCommand::BootStorm(args) => boot_storm(args),
        SynthCommand::Snapshots(args) => snapshots(args),
        SynthCommand::Random(args) => random(args),
        SynthCommand::Zipf(args) => zipf(args),
        SynthCommand::Tpch(args) => tpch(args),
        SynthCommand::Tpcc(args) => tpcc(args),
        SynthCommand::FileServer(args) => file_server(args),
    }?;
    let generator = format!("nitro-lab trace synth {} --seed {}", made.generator, made.make.seed);
    let notes = [("source", made.source), ("generator", &generator)];
    ResultFile::new(&made.make.result, made.make.force)?.only_parquet("fingerprints")?.fill(
        &mut made.reader,
        &notes,
        made.make.output.format,
    )
}

fn boxed<R: Reader + 'static>(reader: Result<R, TraceError>) -> Result<Box<dyn Reader>, Error> {
    match reader {
        Ok(reader) => Ok(Box::new(reader)),
        Err(error) => Err(Error::new("synthetic trace", error.reason).or("see --help for what can be chosen")),
    }
}

fn fiu<'a>(args: &'a FiuArgs, name: &str, parameters: FiuLike) -> Result<Made<'a>, Error> {
    Ok(Made {
        make: &args.make,
        reader: boxed(parameters.reader())?,
        source: "synthetic: generated from the published figures of an FIU trace, not a recording",
        generator: format!("{name} --scale {}", args.scale),
    })
}

fn boot_storm(args: &BootStormArgs) -> Result<Made<'_>, Error> {
    let seed = args.make.seed;
    let (storm, source, boot) = match &args.boot {
        Some(path) => {
            let mut boot = Input::open(slice::from_ref(path), &ReadArgs::default())?;
            let storm = BootStorm::recorded(&mut boot, args.machines, seed).map_err(|e| refused(&e))?;
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            (storm, "synthetic: a boot storm from one recorded boot", format!(" --boot {name}"))
        }
        None if args.made_up => {
            let storm = BootStorm::new(boot_template(seed), args.machines, seed);
            (storm, "synthetic: a boot storm from a synthetic boot", " --made-up".to_owned())
        }
        None => {
            let boot = recorded_boot().map_err(|e| refused(&e))?;
            let storm = BootStorm::new(boot, args.machines, seed);
            (storm, "synthetic: a boot storm from the recorded boot of one Debian 12", String::new())
        }
    };
    let storm = BootStorm {
        overlap: args.overlap / 100.0,
        shift_max: args.shift / 100.0,
        start_within_ns: (args.within * 1e9) as u64,
        ..storm
    };
    let (machines, overlap, shift, within) = (args.machines, args.overlap, args.shift, args.within);
    let generator =
        format!("boot-storm{boot} --machines {machines} --overlap {overlap} --shift {shift} --within {within}");
    Ok(Made { make: &args.make, reader: boxed(storm.reader())?, source, generator })
}

fn snapshots(args: &SnapshotArgs) -> Result<Made<'_>, Error> {
    let mut chain = SnapshotChain {
        snapshots: args.snapshots,
        daily_change: args.daily_change / 100.0,
        seed: args.make.seed,
        ..SnapshotChain::default()
    };
    if let Some(size) = args.image_size {
        chain.image_bytes = size.0 / SNAPSHOT_UNIT_BYTES * SNAPSHOT_UNIT_BYTES;
    }
    let (reader, pass) = match args.pass {
        SnapshotPass::Changes => (chain.changes(), "changes".to_owned()),
        SnapshotPass::Backups => (chain.backups(), "backups".to_owned()),
        SnapshotPass::Restore => (chain.restore(args.snapshot), format!("restore --snapshot {}", args.snapshot)),
    };
    let (count, bytes, change) = (args.snapshots, chain.image_bytes, args.daily_change);
    Ok(Made {
        make: &args.make,
        reader: boxed(reader)?,
        source: "synthetic: snapshots of a synthetic virtual machine",
        generator: format!("snapshots --pass {pass} --snapshots {count} --image-size {bytes} --daily-change {change}"),
    })
}

fn random(args: &RandomArgs) -> Result<Made<'_>, Error> {
    let reads = RandomReads {
        working_set_bytes: args.working_set.0,
        dedup_ratio: args.dedup_ratio,
        // A larger size is an error, as 0 is.
        request_bytes: u32::try_from(args.request_size.0).unwrap_or(0),
        requests: args.requests,
        interval_ns: 1_000_000,
        seed: args.make.seed,
    };
    let generator = format!(
        "random --working-set {} --dedup-ratio {} --request-size {} --requests {}",
        args.working_set.0, args.dedup_ratio, args.request_size.0, args.requests
    );
    let source = "synthetic: random reads";
    Ok(Made { make: &args.make, reader: boxed(reads.reader())?, source, generator })
}

fn zipf(args: &ZipfArgs) -> Result<Made<'_>, Error> {
    let zipf = Zipf {
        objects: args.objects,
        exponent: args.exponent,
        requests: args.requests,
        write_share: args.writes / 100.0,
        object_bytes: u32::try_from(args.object_size.0).unwrap_or(0),
        seed: args.make.seed,
        ..Zipf::default()
    };
    let generator = format!(
        "zipf --objects {} --exponent {} --requests {} --writes {} --object-size {}",
        args.objects, args.exponent, args.requests, args.writes, args.object_size.0
    );
    let source = "synthetic: requests with a Zipf distribution";
    Ok(Made { make: &args.make, reader: boxed(zipf.reader())?, source, generator })
}

fn tpch(args: &TpchArgs) -> Result<Made<'_>, Error> {
    let (database_bytes, volume_bytes) = (args.database.0, args.volume.0);
    let (file_per_table, skew, rounds, seed) = (!args.one_file, args.skew, args.rounds, args.make.seed);
    let load = TpchLike { database_bytes, volume_bytes, file_per_table, skew, rounds, seed };
    let file = if args.one_file { " --one-file" } else { "" };
    let generator =
        format!("tpch --database {database_bytes} --volume {volume_bytes}{file} --skew {skew} --rounds {rounds}");
    let source = "synthetic: a data warehouse shaped as TPC-H, not a recording";
    Ok(Made { make: &args.make, reader: boxed(load.reader())?, source, generator })
}

fn tpcc(args: &TpccArgs) -> Result<Made<'_>, Error> {
    let (database_bytes, transactions) = (args.database.0, args.transactions);
    let load = TpccLike { database_bytes, transactions, seed: args.make.seed };
    let generator = format!("tpcc --database {database_bytes} --transactions {transactions}");
    let source = "synthetic: transactions shaped as TPC-C, not a recording";
    Ok(Made { make: &args.make, reader: boxed(load.reader())?, source, generator })
}

fn file_server(args: &FileServerArgs) -> Result<Made<'_>, Error> {
    let (file_set_bytes, accessed, operations) = (args.file_set.0, args.accessed, args.operations);
    let load = FileServer { file_set_bytes, accessed: accessed / 100.0, operations, seed: args.make.seed };
    let generator = format!("file-server --file-set {file_set_bytes} --accessed {accessed} --operations {operations}");
    let source = "synthetic: a file server shaped as SPECsfs, not a recording";
    Ok(Made { make: &args.make, reader: boxed(load.reader())?, source, generator })
}
