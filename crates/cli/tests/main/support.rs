//! Running the program in a folder of its own.

pub use nitro_testkit::noise;
use nitro_testkit::programs::Watchdog;
pub use nitro_testkit::programs::{PATIENCE, wait};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

nitro_testkit::place_of!("nitro");

impl Place {
    /// The running server's state.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.stdout("status -o json")).unwrap()
    }

    /// Waits until the server's state is as told.
    pub fn until(&self, what: &str, mut is_so: impl FnMut(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "not {what}: {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The volume's client.
    pub fn client(&self) -> Nbd {
        Nbd::connect(&self.path("run/nitro/vm.sock"), "vm")
    }

    /// Starts a server and waits until it is ready.
    pub fn serve(&self, arguments: &str) -> Server {
        Server::start(&mut self.command(&format!("serve {arguments}")))
    }

    /// The same, of a process whose files can be kept from growing and changing: see [`Server::limit_files`].
    pub fn serve_limited(&self, arguments: &str) -> Server {
        // Writes past the limit are to fail rather than to kill.
        self.serve_ignoring("XFSZ", arguments)
    }

    /// The same, of a process that is started with a signal ignored.
    pub fn serve_ignoring(&self, signal: &str, arguments: &str) -> Server {
        let mut launcher = Command::new("sh");
        launcher.args(["-c", &format!("trap '' {signal}; exec \"$0\" \"$@\"")]);
        self.serve_by(launcher, arguments)
    }

    /// The same, of a process that is started with a signal as it usually is, though the tests themselves may run with it ignored
    /// (`nohup`).
    pub fn serve_heeding(&self, signal: &str, arguments: &str) -> Server {
        let mut launcher = Command::new("env");
        launcher.arg(format!("--default-signal={signal}"));
        self.serve_by(launcher, arguments)
    }

    /// The same, by way of a program that becomes the one that its arguments name.
    fn serve_by(&self, mut launcher: Command, arguments: &str) -> Server {
        let nitro = self.command(&format!("serve {arguments}"));
        launcher.arg(nitro.get_program()).args(nitro.get_args());
        for (name, value) in nitro.get_envs() {
            match value {
                Some(value) => launcher.env(name, value),
                None => launcher.env_remove(name),
            };
        }
        Server::start(launcher.current_dir(self.folder.path()).stdin(Stdio::null()))
    }

    /// A server of a volume of 16 MiB with a cache of 32 MiB.
    pub fn usual(&self) -> Server {
        self.file("vm.img", 16 << 20);
        self.serve("--origin vm.img --cache cache.img --cache-size 32M")
    }
}

pub struct Server {
    pub child: Child,
    /// What it said when it was ready.
    pub ready: String,
}

impl Server {
    /// Starts a server by a command of its own.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let watchdog = Watchdog::of(&child, PATIENCE);
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        if !ready.starts_with("ready") {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("not ready: {said}");
        }
        drop(watchdog);
        Self { child, ready }
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// From now on, writes to files behind the first `bytes` fail.
    pub fn limit_files(&self, bytes: u64) {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        prlimit(Pid::from_raw(self.child.id() as i32), Resource::Fsize, limit).unwrap();
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(process, signal).unwrap();
    }

    /// Ends it as a service manager does; returns its exit status and what it said.
    pub fn stop(mut self) -> (ExitStatus, String) {
        self.signal(rustix::process::Signal::TERM);
        let status = wait(&mut self.child);
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status, said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An NBD client with just enough of the protocol to read and write (simple replies).
pub struct Nbd(UnixStream);

impl Nbd {
    pub fn connect(socket: &Path, export: &str) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // Fixed newstyle without zeroes, then NBD_OPT_EXPORT_NAME.
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        stream.write_all(b"IHAVEOPT\0\0\0\x01").unwrap();
        stream.write_all(&(export.len() as u32).to_be_bytes()).unwrap();
        stream.write_all(export.as_bytes()).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        Self(stream)
    }

    pub fn request(&mut self, command: u16, offset: u64, len: usize, data: &[u8]) {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend([0, 0]);
        request.extend(command.to_be_bytes());
        request.extend([7; 8]);
        request.extend(offset.to_be_bytes());
        request.extend((len as u32).to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).unwrap();
    }

    pub fn reply(&mut self) -> u32 {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        u32::from_be_bytes(*reply[4..].first_chunk().unwrap())
    }

    /// Whether the connection ends before another answer comes.
    pub fn is_cut(&mut self) -> bool {
        match self.0.read(&mut [0; 16]) {
            Ok(bytes) => bytes == 0,
            // A server that is gone may have left requests unread.
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// The data of a read that has been answered.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.0.read_exact(&mut data).unwrap();
        data
    }

    pub fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        self.request(0, offset, len, &[]);
        assert_eq!(self.reply(), 0);
        self.take(len)
    }

    pub fn flush(&mut self) -> u32 {
        self.request(3, 0, 0, &[]);
        self.reply()
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.request(1, offset, data.len(), data);
        self.reply()
    }
}
