//! Limits of the process: threads, sizes of files, memory, descriptors.

use crate::support::{Nbd, Place, Server, noise};
use rustix::process::getuid;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const SERVE: &str = "serve --origin vm.img --cache cache.img --cache-size 32M";

/// The program with `arguments`, started by a shell after `ulimit OPTIONS`.
fn limited(place: &Place, options: &str, arguments: &str) -> (Option<i32>, String) {
    let nitro = place.command(arguments);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("ulimit {options} && exec \"$0\" \"$@\"")])
        .arg(nitro.get_program())
        .args(nitro.get_args());
    let envs = nitro.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = shell.envs(envs).current_dir(place.folder.path()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn files_beyond_the_limit_of_sizes_are_an_error_and_not_a_signal() {
    let place = Place::new();
    place.file("vm.img", 64 << 20);
    place.stdout("cos init st --size 64M");
    place.write("backup", noise(1, 8 << 20));
    place.stdout("cos import st backup backup");
    // 16 MiB.
    for arguments in [
        SERVE,
        "serve --origin vm.img --cache none",
        "cos init other --size 64M",
        "cos import st more backup",
        "cos export st backup out.img",
        "cache create new.img --size 64M",
    ] {
        let (code, said) = limited(&place, "-f 32768", arguments);
        assert_eq!(code, Some(1), "{arguments}: {said}");
        assert!(said.contains("LimitFSIZE"), "{arguments}: {said}");
    }
    assert!(!place.path("cache.img").exists() && !place.path("new.img").exists());
}

#[test]
fn a_limit_of_memory_below_the_need_is_refused_with_figures() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    place.write("nitro.toml", "[cache.fast]\npath = \"cache.img\"\nsize = \"32M\"\n[volume.vm]\norigin = \"vm.img\"\n");
    // In KiB.
    for option in ["-v 400000", "-d 100000"] {
        for arguments in [SERVE, "check nitro.toml"] {
            let (code, said) = limited(&place, option, arguments);
            assert_eq!(code, Some(1), "{arguments}: {said}");
            assert!(
                said.contains("RAM: it may need up to ") && said.contains("raise the limit"),
                "{arguments}: {said}"
            );
        }
    }
}

/// A user that has no processes of its own.
const NOBODY: u32 = 64_321;
/// Another one.
const NOBODY_ELSE: u32 = 64_322;

/// Sets the limit as the server's own user: root may lack the capability to set those of others.
fn set_threads(server: &Server, count: u64) {
    let mut prlimit = Command::new("prlimit");
    prlimit.arg(format!("--pid={}", server.child.id())).arg(format!("--nproc={count}:")).uid(NOBODY).gid(NOBODY);
    assert!(prlimit.status().unwrap().success());
}

/// The program with `arguments` as a user for whom the limit of threads counts, by the command `run`.
fn as_user(place: &Place, user: u32, run: &[&str], arguments: &str) -> Command {
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // No copy: a process that another test starts meanwhile would have the copy open for writing, and nobody could run it.
    fs::hard_link(env!("CARGO_BIN_EXE_nitro"), place.path("nitro")).unwrap();
    place.file("vm.img", 64 << 20);
    place.file("other.img", 16 << 20);
    fs::create_dir(place.path("state")).unwrap();
    for name in ["", "vm.img", "other.img", "state", "run"] {
        chown(place.path(name), Some(user), Some(user)).unwrap();
    }
    let (usual, program) = (place.command(""), place.path("nitro").display().to_string());
    let words: Vec<_> = run.iter().copied().chain([&*program]).chain(arguments.split_whitespace()).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(place.folder.path()).uid(user).gid(user);
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env_remove("NOTIFY_SOCKET").env_remove("RUNTIME_DIRECTORY");
    command
}

/// Whether other users can be, and can reach these tests.
fn has_users() -> bool {
    let is_reachable = || {
        let parents = Path::new(env!("CARGO_TARGET_TMPDIR")).ancestors();
        parents.filter_map(|folder| fs::metadata(folder).ok()).all(|found| found.permissions().mode() & 0o001 != 0)
    };
    let has_users = getuid().is_root() && is_reachable();
    if !has_users {
        eprintln!("skipped: it needs root, and a target folder that other users can enter");
    }
    has_users
}

#[test]
fn a_limit_of_threads_below_those_of_insertion_refuses_the_start() {
    if !has_users() {
        return;
    }
    let place = Place::new();
    let mut command =
        as_user(&place, NOBODY_ELSE, &["prlimit", "--nproc=60"], &format!("{SERVE} --insert-threads 200"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("threads: ") && said.contains("give fewer insert_threads"), "{said}");
}

fn trim(client: &mut Nbd, offset: u64, len: usize) -> u32 {
    client.request(4, offset, len, &[]);
    client.reply()
}

/// As under `TasksMax=` or `RLIMIT_NPROC`: from a moment on, the system refuses every thread, also those of the kernel that io_uring
/// asks for.
#[test]
fn a_limit_of_threads_that_is_reached_for_a_moment_fails_no_request() {
    if !has_users() {
        return;
    }
    let place = Place::new();
    let arguments = format!("{SERVE} --mode write-back --dirty-age 1h");
    let server = Server::start(&mut as_user(&place, NOBODY, &[], &arguments));
    let mut client = place.client();
    let control = place.path("run/nitro/vm.control");
    let command = |words: &str| place.run(&format!("{words} --control {}", control.display()));
    // The kernel's threads for io_uring end when they have nothing to do.
    set_threads(&server, 1);
    let data = noise(7, 1 << 20);
    for round in 0..8 {
        assert_eq!(client.write(round << 20, &data), 0, "write {round}");
        assert_eq!(client.flush(), 0, "flush {round}");
        assert_eq!(trim(&mut client, (round << 20) + (32 << 20), 1 << 20), 0, "trim {round}");
        assert!(client.read(round << 20, data.len()) == data);
    }
    let added = command("volume add two --origin other.img");
    let said = String::from_utf8_lossy(&added.stderr).into_owned();
    assert!(added.status.success() || said.contains("thread"), "{said}");
    let mode = command("volume set vm --mode write-through");
    assert!(mode.status.success(), "{}", String::from_utf8_lossy(&mode.stderr));
    set_threads(&server, 1 << 12);
    assert_eq!((client.write(0, &data), client.flush()), (0, 0));
    let status = command("status -o json");
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(
        (&status["volumes"][0]["errors"], &status["volumes"][0]["poisoned"]),
        (&0.into(), &serde_json::Value::Null)
    );
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
}
