//! `nitro-lab trace`: what it reads, writes, makes and refuses.

use crate::support::Place;
use nitro_testkit::programs::{PATIENCE, Watchdog, wait};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

fn info(place: &Place, arguments: &str) -> Value {
    serde_json::from_str(&place.stdout(&format!("trace info -o json {arguments}"))).unwrap()
}

/// The samples, where they are at hand.
fn samples() -> Option<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if folder.exists() {
        return Some(folder);
    }
    eprintln!("skipped: {} is not there", folder.display());
    None
}

#[test]
fn every_sample_is_recognised_and_read_to_its_last_record() {
    let Some(folder) = samples() else { return };
    let place = Place::new();
    for (name, format, reads, writes) in [
        ("fiu/homes-sample.blkparse", "fiu", 0, 1000),
        ("fiu/web-vm-sample.blkparse", "fiu", 0, 1000),
        ("fiu/smalltrace.tsv", "fiu", 8905, 1095),
        ("cloudphysics/cloudPhysicsIO.csv", "cloudphysics-csv", 46_974, 66_898),
        ("cloudphysics/cloudPhysicsIO.vscsi", "vscsi", 46_974, 66_898),
        ("cloudphysics/cloudPhysicsIO.oracleGeneral.bin", "oracle-general", 113_872, 0),
        ("msr/msr-cambridge1-sample.csv", "msr", 508, 492),
        ("systor/systor17-traces-sample.csv.gz", "systor", 826, 173),
        ("tencent/cloud_storage-sample.bz2", "tencent", 24_521, 25_479),
        ("arc/P3.lis.zst", "arc", 238_578, 0),
        ("disksim/tpcc-small.trace", "disksim", 4381, 2618),
        ("disksim/DTRS1K.trace.zst", "disksim", 113_123, 13_920),
    ] {
        let told = info(&place, &folder.join(name).display().to_string());
        assert_eq!(told["formats"][0], format, "{name}");
        assert_eq!((&told["reads"]["count"], &told["writes"]["count"]), (&reads.into(), &writes.into()), "{name}");
        assert_eq!((&told["skipped"], &told["exact"]), (&0.into(), &true.into()), "{name}");
    }
    let repeats = info(&place, &format!("--drop-repeats {}", folder.join("fiu/smalltrace.tsv").display()));
    assert_eq!(repeats["requests"], 9418);
}

/// Sectors 0 to 7 read and read again, 8 to 15 written behind the first, and one bad line.
const TABLE: &str = "when;what;where;how many\n0.5;R;0;8\n1;W;8;8\n1.25;R;-;8\n1.5;R;0;8\n";
const COLUMNS: &str = "--columns time=0,op=1,offset=2:sectors,len=3:sectors,sep=semicolon";

/// A record of blktrace, as `blktrace` writes it on a little-endian machine.
fn blktrace(action: u32, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(0x6561_7407u32.to_le_bytes());
    record.extend(1u32.to_le_bytes());
    record.extend(77u64.to_le_bytes());
    record.extend(8u64.to_le_bytes());
    [4096, action, 42, 8 << 20, 0].into_iter().for_each(|value: u32| record.extend(value.to_le_bytes()));
    record.extend([0, 0]);
    record.extend((payload.len() as u16).to_le_bytes());
    record.extend(payload);
    record
}

#[test]
fn a_file_without_requests_is_never_passed_over_in_silence() {
    let place = Place::new();
    place.write("cgroup.blktrace.0", blktrace(1 << 16 | 1 << 8 | 1, &[7; 8]));
    assert_eq!(info(&place, "cgroup.blktrace.0")["reads"]["count"], 1, "the event of a control group");
    place.write("driver.blktrace.0", [blktrace(1 << 16 | 1 << 8 | 7, &[7; 8]), blktrace(1 << 16 | 8, b"")].concat());
    place.write("other.csv", "1,R,0,512,1\n");
    // Also as one of several files.
    for arguments in ["trace info driver.blktrace.0", "trace info other.csv driver.blktrace.0"] {
        let output = place.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let phrase = "warning: driver.blktrace.0: no request: its records are 1 issued (D), 1 completed (C); --event issued or \
                      --event completed takes such events as requests\n";
        assert_eq!(said, phrase, "{arguments}");
    }
    assert_eq!(info(&place, "--event issued driver.blktrace.0")["requests"], 1);
    place.write("empty", "");
    let output = place.run("trace info --trace-format msr empty");
    assert!(String::from_utf8(output.stderr).unwrap().contains("warning: empty: no request: it has no records"));
    place.write("words", "not a trace\n1,2\nnot at all\n");
    let said = place.failure("trace info --trace-format msr --bad-records skip words", 1);
    assert!(said.contains("words: none of its 2 records could be read") && said.contains("--columns"), "{said}");
}

/// Runs the program with a trace that is written to the pipe that `arguments` name.
fn with_fifo(place: &Place, content: &'static [u8], arguments: &str) -> Output {
    let fifo = place.path("fifo");
    if !fifo.exists() {
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    }
    let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may be refused without being opened.
    let writer = thread::spawn(move || drop(fs::write(fifo, content)));
    let _watchdog = Watchdog::of(&child, PATIENCE);
    wait(&mut child);
    let output = child.wait_with_output().unwrap();
    if !writer.is_finished() {
        drop(fs::File::open(place.path("fifo")));
    }
    writer.join().unwrap();
    output
}

#[test]
fn a_pipe_by_its_name_is_read_as_a_stream() {
    const TRACE: &[u8] = b"1,R,0,512,1\n1,W,0,512,2\n";
    let place = Place::new();
    let output = with_fifo(&place, TRACE, "trace info -o json fifo");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["requests"], &told["formats"][0]), (&2.into(), &"stream".into()));
    let output = with_fifo(&place, b"no\n", "trace info fifo");
    assert!(String::from_utf8(output.stderr).unwrap().contains("fifo: no known format"));
    // The pipe of a shell, by two names, compressed.
    place.write("t.csv", TRACE);
    for (shell, name) in [("cat t.csv |", "/dev/stdin"), ("gzip -c t.csv |", "/dev/fd/0"), ("", "<(cat t.csv)")] {
        let mut bash = Command::new("bash");
        let line =
            format!("{shell} \"$0\" trace convert {name} out.parquet --force && \"$0\" trace info -o json out.parquet");
        bash.args(["-c", &line]).arg(place.command("").get_program()).current_dir(place.folder.path());
        let output = bash.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        let json = String::from_utf8(output.stdout).unwrap();
        let told: Value = serde_json::from_str(&json[json.find('{').unwrap()..]).unwrap();
        assert_eq!(told["requests"], 2, "{name}");
    }
    // Where it would be read twice.
    let said = place.failure("sim fifo --cache-size 1G", 1);
    assert!(said.contains("trace fifo: ") && said.contains("a stream only once"), "{said}");
    let said = place.failure("trace info fifo ./fifo", 1);
    assert!(said.contains("named twice"), "{said}");
}

#[test]
fn a_table_is_read_by_a_map_of_its_columns() {
    let place = Place::new();
    place.write("table.csv", TABLE);
    let said = place.failure(&format!("trace info {COLUMNS} table.csv"), 1);
    assert!(said.contains("table.csv:4: ") && said.contains("offset: "), "{said}");
    assert!(said.contains("--bad-records skip"), "{said}");
    let output = place.run(&format!("trace info {COLUMNS} --bad-records skip -o json table.csv"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("left out: table.csv:4: offset"), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["skipped"], 1);
    assert_eq!((&told["requests"], &told["duration_seconds"]), (&3.into(), &1.0.into()));
    assert_eq!((&told["footprint_bytes"], &told["working_set_bytes"]), (&8192.into(), &4096.into()));
    assert_eq!(told["sequential"], 1, "the write begins where the first read ended");
    let table = place.stdout(&format!("trace info {COLUMNS} --bad-records skip table.csv"));
    assert!(table.contains("working set   4.0 KiB") && table.contains("33.3 % of reads and writes"), "{table}");
    let csv = place.stdout(&format!("trace info {COLUMNS} --bad-records skip -o csv table.csv"));
    assert!(csv.starts_with("requests,reads,read_bytes,") && csv.lines().count() == 2, "{csv}");
}

#[test]
fn what_is_converted_is_the_same_trace() {
    let place = Place::new();
    place.write("table.csv", TABLE.replace("1.25;R;-;8\n", ""));
    let told = place.stdout(&format!("trace convert {COLUMNS} table.csv table.parquet"));
    assert!(told.starts_with("3 requests in table.parquet"), "{told}");
    let (before, after) = (info(&place, &format!("{COLUMNS} table.csv")), info(&place, "table.parquet"));
    for key in ["requests", "reads", "writes", "first_ns", "last_ns", "footprint_bytes", "sizes", "sequential"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    assert_eq!(after["notes"]["source"], "converted from table.csv");
    // Twice the same trace, merged by time.
    let twice = info(&place, "table.parquet table.parquet");
    assert_eq!((&twice["requests"], &twice["out_of_order"]), (&6.into(), &0.into()));
    assert!(place.failure("trace convert table.parquet table.parquet", 1).contains("it exists"));
    place.stdout("trace convert --force table.parquet table.parquet");
    assert_eq!(info(&place, "table.parquet")["requests"], 3);
    assert_eq!(info(&place, "table.parquet")["notes"]["source"], "converted from table.csv");
}

#[test]
fn one_seed_makes_one_file_and_it_says_that_it_is_synthetic() {
    let place = Place::new();
    for (number, kind) in [
        "webvm --scale 0.002",
        "mail --scale 0.0005",
        "homes --scale 0.0005",
        "boot-storm --machines 3",
        "boot-storm --machines 3 --made-up",
        "snapshots --image-size 8M --snapshots 9",
        "snapshots --image-size 8M --snapshots 9 --pass backups",
        "snapshots --image-size 8M --snapshots 9 --pass restore --snapshot 3",
        "random --working-set 1M --requests 999 --dedup-ratio 2",
        "zipf --objects 99 --requests 999 --writes 10",
        "tpch --database 64M --volume 2G --rounds 1",
        "tpcc --database 128M --transactions 500",
        "file-server --file-set 16M --operations 999",
    ]
    .iter()
    .enumerate()
    {
        for (name, seed) in [("a", 7), ("b", 7), ("c", 8)] {
            place.stdout(&format!("trace synth {kind} {name}{number} --seed {seed}"));
        }
        let bytes = |name: &str| fs::read(place.path(&format!("{name}{number}"))).unwrap();
        assert!(bytes("a") == bytes("b"), "{kind}");
        assert!(bytes("a") != bytes("c"), "{kind}");
        let told = info(&place, &format!("a{number}"));
        assert!(told["requests"].as_u64().unwrap() > 0 && told["formats"][0] == "parquet", "{told}");
        assert!(told["notes"]["source"].as_str().unwrap().starts_with("synthetic: "), "{told}");
        // What the file says of its making makes it again.
        let generator = told["notes"]["generator"].as_str().unwrap().strip_prefix("nitro-lab ").unwrap().to_owned();
        place.stdout(&format!("{generator} d{number}"));
        assert!(bytes("a") == bytes("d"), "{generator}");
    }
}

#[test]
fn a_storm_is_made_from_a_recorded_boot() {
    let place = Place::new();
    place.write("boot.csv", TABLE.replace("1.25;R;-;8\n", ""));
    place.stdout(&format!("trace convert {COLUMNS} boot.csv boot.parquet"));
    place.stdout("trace synth boot-storm storm.parquet --boot boot.parquet --machines 5 --shift 0");
    let told = info(&place, "storm.parquet");
    assert_eq!((&told["requests"], &told["objects"], &told["address_end"]), (&15.into(), &5.into(), &8192.into()));
}

#[test]
fn traces_that_cannot_be_used() {
    let place = place();
    for (arguments, code, phrases) in [
        ("info gone.csv", 1, &["gone.csv: ", "check the path"][..]),
        ("info .", 1, &["it is a directory; name the files in it"]),
        ("info words", 1, &["words: no known format fits", "--trace-format", "--columns"]),
        ("info --trace-format nope words", 2, &["no format \"nope\"; there are: parquet, fiu, msr"]),
        ("info --trace-format msr words", 1, &["words:2: ", "--bad-records skip"]),
        ("info --trace-format msr --columns offset=0 words", 2, &["cannot be used with"]),
        ("info --columns op=0 words", 2, &["there is no offset"]),
        ("info --columns offset=0,size=1 words", 2, &["\"size=1\" is not understood"]),
        ("info --trace-format parquet words", 1, &["words: ", "check whether the file is complete"]),
        ("info --trace-format blktrace words", 1, &["not blktrace"]),
        ("info", 2, &["<TRACE>"]),
        ("convert words", 2, &["<RESULT>"]),
        ("convert words no/out.parquet --trace-format arc", 1, &["result no/out.parquet: ", "can be written to"]),
        ("synth webvm out --scale 0", 1, &["not above 0"]),
        ("synth webvm out --scale 1e9", 1, &["footprint"]),
        ("synth zipf out --objects 0", 1, &["Zipf's law is for 1 to 2^52 objects"]),
        ("synth random out --dedup-ratio 0.5", 1, &["the dedup ratio is below 1"]),
        ("synth snapshots out --pass restore --snapshot 100", 1, &["there is no snapshot of that number"]),
        ("synth boot-storm out --boot words", 1, &["no known format"]),
        ("synth boot-storm out --overlap 101", 2, &["0 to 100 percent"]),
        ("synth storm out", 2, &["unrecognized subcommand"]),
    ] {
        let said = place.failure(&format!("trace {arguments}"), code);
        for phrase in phrases {
            assert!(said.contains(phrase), "{arguments}: {phrase:?} is not in {said}");
        }
    }
    assert!(!place.path("out").exists() && !place.path("out.part").exists());
}

fn place() -> Place {
    let place = Place::new();
    place.write("words", "not a trace\nnot at all\n");
    place
}

#[test]
fn a_result_replaces_a_link_and_not_its_target() {
    let place = Place::new();
    let victim = place.write("victim", "as it was");
    symlink("victim", place.path("t.parquet.part")).unwrap();
    symlink("victim", place.path("t.parquet")).unwrap();
    place.stdout("trace synth random t.parquet --working-set 1M --requests 99 --force");
    assert!(fs::symlink_metadata(place.path("t.parquet")).unwrap().is_file());
    assert_eq!(fs::read_to_string(victim).unwrap(), "as it was");
}

#[test]
fn a_result_beyond_the_limit_of_sizes_is_an_error_and_not_a_signal() {
    let place = Place::new();
    let lab = place.command("trace synth random t.parquet --working-set 64M --requests 100000");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 8 && exec \"$0\" \"$@\""]).arg(lab.get_program()).args(lab.get_args());
    let output = shell.current_dir(place.folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("File too large") && said.contains("LimitFSIZE"), "{said}");
}

#[test]
fn an_image_of_the_disk_gives_a_trace_classes() {
    let place = Place::new();
    fs::create_dir(place.path("files")).unwrap();
    fs::write(place.path("files/large"), vec![7; 3 << 20]).unwrap();
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-b", "4096", "-d", "files", "disk.img", "16M"]).current_dir(place.path(""));
    let made = mkfs.stderr(Stdio::null()).status();
    if !made.is_ok_and(|made| made.success()) {
        return eprintln!("not run: there is no mkfs.ext4");
    }
    // The superblock, and every block of the image.
    let rows: String = (0..4096u64).map(|block| format!("{block}.0;R;{};8\n", block * 8)).collect();
    fs::write(place.path("t.csv"), format!("when;what;where;how many\n{rows}")).unwrap();
    place.stdout(&format!("trace convert --classify disk.img {COLUMNS} t.csv t.parquet"));
    let told: Value = serde_json::from_str(&place.stdout("sim t.parquet --cache-size 32M -o json")).unwrap();
    let reads = |id: u64| {
        let found = told["classes"].as_array().unwrap().iter().find(|class| class["id"] == id);
        found.map_or(0, |class| class["reads"].as_u64().unwrap())
    };
    // The file has 768 blocks: 4 MiB is the next step of sizes.
    assert_eq!(reads(9), 768, "{}", told["classes"]);
    assert!(reads(1) > 8 && reads(3) >= 1 && reads(2) > 100, "{}", told["classes"]);
    let told = place.failure(&format!("trace convert --classify t.csv {COLUMNS} t.csv other.parquet"), 1);
    assert!(told.contains("no file system"), "{told}");
    let told = place.failure(&format!("trace convert --classify disk.img {COLUMNS} t.csv other.csv"), 1);
    assert!(told.contains("a table has no classes"), "{told}");
}
