//! The command line.

mod attach;
mod cache;
mod class;
mod configure;
mod cos;
mod doctor;
mod mount;
mod pin;
mod s3;
mod serve;
mod takeover;
mod volume;
mod warm;

pub(crate) use attach::{AttachArgs, DetachArgs};
pub(crate) use cache::{CacheCommand, CreateArgs, SalvageArgs};
pub(crate) use class::ClassCommand;
pub(crate) use configure::{CheckArgs, ConfigArgs, GetArgs, SetArgs};
pub(crate) use cos::{
    CosCommand, CosCompression, CosExportArgs, CosForgetArgs, CosImportArgs, CosInitArgs, CosKind, CosReceiveArgs,
    CosSendArgs, CosSsdArgs, CosSsdCommand, CosTuningArgs, ShownStoreArgs, StoreArgs,
};
pub(crate) use doctor::{BundleArgs, DoctorArgs};
pub(crate) use mount::MountArgs;
pub(crate) use pin::PinArgs;
pub(crate) use s3::{S3Command, S3InitArgs, S3VolumeArgs};
pub(crate) use serve::ServeArgs;
pub(crate) use takeover::TakeoverArgs;
pub(crate) use volume::{AddArgs, ExplainArgs, FlushArgs, VolumeCommand};
pub(crate) use warm::WarmArgs;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
pub(crate) use nitro_commands::OutputArgs;
use nitro_commands::reference::ReferenceCommand;
use nitro_commands::{LogArgs, between, failure, flowing, grouped};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_server::control::client::Client;
use nitro_server::serve::Values;
use std::path::{Path, PathBuf};

/// A deduplicating, compressing SSD cache in front of slow volumes, served over NBD, iSCSI and vhost-user-blk, and
/// as block devices.
#[derive(Debug, Parser)]
#[command(name = "nitro", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// The settings that options of `nitro serve` set.
    #[arg(skip)]
    pub(crate) given: Values,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of the program `nitro-lab`, which were commands of this one.
const LABORATORY: [&str; 5] = ["sim", "size", "trace", "reproduce", "index"];

/// The commands by what they are for, in the order of `nitro --help`.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Set up and serve", &["serve", "mount", "check", "doctor", "estimate"]),
    ("Watch", &["status", "top", "iostat", "explain", "support-bundle"]),
    (
        "Change what is served",
        &["attach", "detach", "volume", "cache", "flush", "takeover", "reload", "set", "get", "config"],
    ),
    ("Decide what is cached", &["warm", "pin", "unpin", "pins", "class"]),
    ("Store", &["cos", "s3"]),
    ("Others", &["man", "completions", "help"]),
];

/// The description of the whole command line.
#[must_use]
pub fn command() -> clap::Command {
    let whole = flowing(Cli::command());
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}\nOptions:\n{{options}}\n\n\
         nitro COMMAND --help describes a command. Simulations, traces and the papers' experiments are commands of nitro-lab.",
        grouped(&whole, &GROUPS)
    );
    whole.help_template(template)
}

impl Cli {
    /// Parses the arguments of the process. Prints an error or the requested help, and ends the process, if there is no
    /// command to run.
    pub(crate) fn given() -> Self {
        let matches = command().try_get_matches().unwrap_or_else(|error| wrong_usage(&error));
        let mut cli = Self::from_arg_matches(&matches).unwrap_or_else(|error| wrong_usage(&error));
        if let (Command::Serve(args), Some(matches)) = (&mut cli.command, matches.subcommand_matches("serve")) {
            args.matches = matches.clone();
            cli.given = args.given();
        }
        if let (Command::Mount(args), Some(matches)) = (&mut cli.command, matches.subcommand_matches("mount")) {
            args.matches = matches.clone();
            cli.given = args.given();
        }
        cli
    }
}

/// Prints what is wrong with the arguments, or the help that was asked for, and ends the process.
fn wrong_usage(error: &clap::Error) -> ! {
    let Some(name) = moved(error) else { failure::wrong_usage("nitro", error) };
    let error = Error::new(name, "it is a command of the program nitro-lab").or(format_args!("run `nitro-lab {name}`"));
    failure::print("nitro", &error, failure::WRONG_USAGE);
    std::process::exit(failure::WRONG_USAGE.into())
}

/// The command that `nitro-lab` has, if it is missing here.
fn moved(error: &clap::Error) -> Option<&str> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let whole = command();
    let is_of_a_command =
        std::env::args().take_while(|word| word != name).any(|word| whole.find_subcommand(word).is_some());
    (LABORATORY.contains(&name.as_str()) && !is_of_a_command).then_some(name)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve volumes through a cache over NBD, iSCSI or vhost-user-blk, or as block devices
    Serve(Box<ServeArgs>),
    /// Mount a directory again, its files through a cache
    Mount(Box<MountArgs>),
    /// Show the state and statistics of a running server
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// Show the I/O of each volume of a running server, interval by interval
    #[command(after_long_help = IOSTAT_EXAMPLES)]
    Iostat(IostatArgs),
    /// Give up what only the cache of a lost host has of a volume, so that it can be served here
    #[command(after_long_help = takeover::TAKEOVER_EXAMPLES)]
    Takeover(TakeoverArgs),
    /// Check a configuration file
    #[command(after_long_help = configure::CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Apply the changes of the configuration file to the running server
    #[command(after_long_help = configure::RELOAD_EXAMPLES)]
    Reload(ServerArgs),
    /// Show the settings in force, where each value comes from, and how they differ from the configuration file
    #[command(after_long_help = configure::CONFIG_EXAMPLES)]
    Config(ConfigArgs),
    /// Show one setting of the running server
    #[command(after_long_help = configure::GET_EXAMPLES)]
    Get(GetArgs),
    /// Change one setting of the running server
    #[command(after_long_help = configure::SET_EXAMPLES)]
    Set(SetArgs),
    /// Check whether this machine and its devices are suitable for a server
    #[command(after_long_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// Watch a running server on the terminal: hits, latencies, space, dirty data, faults
    #[command(after_long_help = TOP_KEYS)]
    Top(TopArgs),
    /// Collect information for the analysis of a fault, without data of volumes
    #[command(after_long_help = doctor::BUNDLE_EXAMPLES)]
    SupportBundle(BundleArgs),
    /// Show where an offset of a volume is cached, or why it is not cached
    #[command(after_long_help = volume::EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Make a volume a block device of this machine, such as /dev/ublkb0, and print its path
    #[command(after_long_help = attach::ATTACH_EXAMPLES)]
    Attach(AttachArgs),
    /// Remove the block device of a volume
    #[command(after_long_help = attach::DETACH_EXAMPLES)]
    Detach(DetachArgs),
    /// Write the dirty data of a volume, or of all volumes, back to the origins
    #[command(after_long_help = volume::FLUSH_EXAMPLES)]
    Flush(FlushArgs),
    /// Keep a volume, or a part of it, in the cache once it is cached
    #[command(after_long_help = pin::PIN_EXAMPLES)]
    Pin(PinArgs),
    /// Undo nitro pin, for a volume or a part of it
    #[command(after_long_help = pin::UNPIN_EXAMPLES)]
    Unpin(PinArgs),
    /// Read a volume, a part of it, or the parts that a trace read most into the cache, before clients read them
    #[command(after_long_help = warm::EXAMPLES)]
    Warm(WarmArgs),
    /// List what is pinned in the caches of a running server
    #[command(after_long_help = pin::LIST_EXAMPLES)]
    Pins(ServerArgs),
    /// Add, change, remove and list the volumes of a running server
    Volume {
        #[command(subcommand)]
        command: VolumeCommand,
    },
    /// Create, list, show, resize, check and salvage caches
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Show and change how the cache treats classes of I/O
    Class {
        #[command(subcommand)]
        command: ClassCommand,
    },
    /// Keep volumes, images and backups in a deduplicating, compressing store, with snapshots and clones
    Cos {
        #[command(subcommand)]
        command: CosCommand,
    },
    /// Make volumes in buckets of S3 servers, which are origins, and their snapshots
    S3 {
        #[command(subcommand)]
        command: S3Command,
    },
    /// Estimate how much deduplication and compression reduce an existing image, by extent size
    #[command(after_long_help = ESTIMATE_EXAMPLES)]
    Estimate(EstimateArgs),
    #[command(flatten)]
    Reference(ReferenceCommand),
}

const STATUS_EXAMPLES: &str = "\
Examples:
  The only server that this user runs:
    nitro status
  One metric, for a script:
    nitro status -o json | jq .caches[0].dedup_ratio
  A server with another control socket:
    nitro status --control /run/nitro/control.sock
  The state in one word and one line, with performance data, for Nagios, Icinga and scripts:
    nitro status --check
  The state, shown again every five seconds:
    nitro status --watch 5

The exit code of --check is 0: no faults, or notices only; 1: a warning; 2: a critical fault; 3: the server does not answer. The faults are
those that nitro status and nitro top show. All forms of the command end when their output is not read any more.
Latencies are percentiles in microseconds. Of reads that the RAM cache answers at once, one in 64 is timed and counted for all.";

const IOSTAT_EXAMPLES: &str = "\
Examples:
  Averages since the server's start:
    nitro iostat
  Every two seconds, ten times, as CSV:
    nitro iostat 2 10 -o csv";

const TOP_KEYS: &str = "\
Keys:
  q, Esc, Ctrl-C  quit
  ↑ ↓             scroll the volumes

nitro serve --http 127.0.0.1:9470 shows the same and more in a browser.";

const ESTIMATE_EXAMPLES: &str = "\
Examples:
  nitro estimate vm.img
  nitro estimate vm.img --extent-size 4K,8K,64K -o csv
  nitro estimate /dev/sdb --sample 5

Duplicates are found by 128-bit fingerprints, which take up to 72 bytes of RAM for each distinct extent of each size. If they would take
more than a quarter of the available RAM, the deduplication ratio is estimated from a sample of them, and marked with ~. With --sample,
only randomly chosen ranges of the image are read, and duplicates in other ranges are not found.";

/// Which server.
#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    /// The server's control socket [default: that of the only server that this user runs]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

impl ControlArgs {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.control.as_deref()
    }
}

/// Which server, and how to print.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl ServerArgs {
    pub(crate) fn connect(&self) -> Result<Client, Error> {
        Client::connect(self.control.path())
    }
}

/// `nitro status`
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print one line with the worst fault and performance data; the exit code is the state: 0 OK, 1 warning, 2 critical,
    /// 3 no answer
    #[arg(long)]
    pub(crate) check: bool,
    /// Show the status again every SECONDS, until the command is interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = interval, conflicts_with = "check")]
    pub(crate) watch: Option<f64>,
    /// Also show the parts of the RAM that the server may use
    #[arg(short, long, conflicts_with = "check")]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `nitro iostat`
#[derive(Debug, Args)]
pub(crate) struct IostatArgs {
    /// Seconds between reports; without it, one report of the averages since the server's start
    #[arg(value_parser = interval)]
    pub(crate) interval: Option<f64>,
    /// Number of reports; without it, reports are printed until the command is interrupted
    #[arg(requires = "interval")]
    pub(crate) count: Option<u64>,
    /// Print all columns, even if they are wider than the terminal; otherwise as many as fit
    #[arg(short = 'x', long)]
    pub(crate) extended: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `nitro top`
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Seconds between updates
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = interval)]
    pub(crate) interval: f64,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// `nitro estimate`
#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    /// A file or block device, which is only read
    pub(crate) image: PathBuf,
    /// Extent sizes to try, 4K to 128K
    #[arg(long, value_delimiter = ',', default_value = "4K,8K,16K,32K", value_name = "SIZES")]
    pub(crate) extent_size: Vec<Size>,
    /// Read only this percentage of the image
    #[arg(long, value_name = "PCT", default_value_t = 100.0, value_parser = percentage)]
    pub(crate) sample: f64,
    /// Threads [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn interval(text: &str) -> Result<f64, String> {
    between(text, 0.05, 86_400.0, "seconds")
}

fn percentage(text: &str) -> Result<f64, String> {
    between(text, 0.01, 100.0, "percent")
}
