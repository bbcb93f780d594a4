//! Running a program of the project in a folder of its own, as its users run it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take, also on a disk that still writes what a compiler left.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long a command that does some work may take on a busy machine.
const RUN_MAX: Duration = Duration::from_secs(300);

/// A program, and a folder with sockets and files of its own, which is removed with the last of its places.
#[derive(Debug, Clone)]
pub struct Place {
    /// The folder in which the program runs.
    pub folder: Arc<TempDir>,
    program: PathBuf,
}

impl Place {
    /// A new folder below `below` for `program`.
    ///
    /// # Panics
    /// The folder cannot be created.
    #[must_use]
    pub fn new(program: &str, below: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("n").tempdir_in(below).unwrap();
        let place = Self { folder: Arc::new(folder), program: program.into() };
        fs::create_dir(place.path("run")).unwrap();
        place
    }

    /// The same folder for another program, which the same build made.
    ///
    /// # Panics
    /// The program was not built.
    #[must_use]
    pub fn of(&self, program: &str) -> Self {
        let path = self.program.with_file_name(program);
        assert!(path.is_file(), "no {}: cargo build -p {program}", path.display());
        Self { folder: Arc::clone(&self.folder), program: path }
    }

    /// The path of a file in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a sparse file.
    ///
    /// # Panics
    /// It cannot be created.
    #[expect(clippy::must_use_candidate, reason = "the file is created")]
    pub fn file(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path(name);
        fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    }

    /// Creates a file with `content`.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// The program with `arguments`, separated by blanks, in the folder.
    #[must_use]
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments.split_whitespace()).current_dir(self.folder.path());
        command.env("XDG_RUNTIME_DIR", self.path("run")).env_remove("NITRO_LOG").env_remove("NOTIFY_SOCKET");
        command.env_remove("RUNTIME_DIRECTORY").env_remove("NITRO_CONTROL");
        command.env("STATE_DIRECTORY", self.path("state"));
        command.stdin(Stdio::null());
        command
    }

    /// Runs the program to its end, at most five minutes.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn run(&self, arguments: &str) -> Output {
        let child = self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _watchdog = Watchdog::of(&child, RUN_MAX);
        child.wait_with_output().unwrap()
    }

    /// Runs the program, which must succeed, and returns its standard output.
    ///
    /// # Panics
    /// It fails.
    #[expect(clippy::must_use_candidate, reason = "the program changes things")]
    pub fn stdout(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the program, which must fail with `code`, and returns its standard error.
    ///
    /// # Panics
    /// It ends otherwise.
    #[expect(clippy::must_use_candidate, reason = "the program changes things")]
    pub fn failure(&self, arguments: &str, code: i32) -> String {
        let mut child = self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let status = wait(&mut child);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(code), "{arguments}: {said}");
        said
    }
}

/// Kills a program that takes too long, so that its test fails and does not hang.
#[derive(Debug)]
pub struct Watchdog {
    /// Closed when the program has done what it should.
    _done: mpsc::Sender<()>,
}

impl Watchdog {
    /// Kills `child` after `limit`, unless this is dropped before.
    ///
    /// # Panics
    /// The thread cannot be started.
    #[must_use]
    pub fn of(child: &Child, limit: Duration) -> Self {
        use rustix::process::{Pid, Signal, kill_process};
        let (_done, is_done) = mpsc::channel();
        let process = Pid::from_child(child);
        std::thread::spawn(move || {
            if is_done.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("process {process} took longer than {limit:?} and is killed");
                let _ = kill_process(process, Signal::KILL);
            }
        });
        Self { _done }
    }
}

/// The names of a process's threads, each with the kernel's function that it waits in.
fn threads_of(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let text = |task: &fs::DirEntry, file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
    tasks.map(|task| format!("{}: {}", text(&task, "comm").trim(), text(&task, "wchan"))).collect()
}

/// Waits until a process ends.
///
/// # Panics
/// It takes longer than [`PATIENCE`]; it is killed.
pub fn wait(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > PATIENCE {
            let threads = threads_of(child.id());
            child.kill().unwrap();
            panic!("the program does not end; its threads, and what they wait for in the kernel: {threads:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Declares the type `Place`: a [`Place`] for the program of that name, which the package of the tests builds.
#[macro_export]
macro_rules! place_of {
    ($program:literal) => {
        /// A folder with sockets and files of its own, for the program.
        pub struct Place($crate::programs::Place);

        impl std::ops::Deref for Place {
            type Target = $crate::programs::Place;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl Place {
            pub fn new() -> Self {
                let program = env!(concat!("CARGO_BIN_EXE_", $program));
                Self($crate::programs::Place::new(program, env!("CARGO_TARGET_TMPDIR")))
            }
        }
    };
}
