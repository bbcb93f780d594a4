//! Commands on a terminal: a pseudo-terminal of a given size, whose screen is looked at.

use crate::support::{PATIENCE, Place, wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a terminal shows, as far as the programs under test control it (ECMA-48).
struct Screen {
    columns: usize,
    rows: Vec<Vec<char>>,
    /// Row and column of the cursor.
    at: (usize, usize),
    /// Whether the alternate screen is in use.
    alternate: bool,
    /// Bytes of an escape sequence or a character that is not complete yet.
    rest: Vec<u8>,
    /// The lines that are longer than the screen is wide.
    beyond: BTreeSet<String>,
}

impl Screen {
    fn new(columns: u16, rows: u16) -> Self {
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        let rows = vec![vec![' '; columns]; rows];
        Self { columns, rows, at: (0, 0), alternate: false, rest: Vec::new(), beyond: BTreeSet::new() }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
        let rest = std::mem::take(&mut self.rest);
        let complete = match std::str::from_utf8(&rest) {
            Ok(_) => rest.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = std::str::from_utf8(&rest[..complete]).unwrap();
        let mut left = text;
        while let Some(first) = left.chars().next() {
            if first != '\u{1b}' {
                self.put(first);
                left = &left[first.len_utf8()..];
                continue;
            }
            let Some(end) = left.find(|c: char| c.is_ascii_alphabetic()) else { break };
            self.control(&left[1..=end]);
            left = &left[end + 1..];
        }
        self.rest = [left.as_bytes(), &rest[complete..]].concat();
    }

    fn put(&mut self, character: char) {
        match character {
            '\r' => self.at.1 = 0,
            '\n' => self.feed(),
            _ if self.at.1 < self.columns => {
                self.rows[self.at.0][self.at.1] = character;
                self.at.1 += 1;
            }
            _ => {
                self.beyond.insert(self.rows[self.at.0].iter().collect());
            }
        }
    }

    fn feed(&mut self) {
        self.at.0 += 1;
        if self.at.0 == self.rows.len() {
            self.rows.remove(0);
            self.rows.push(vec![' '; self.columns]);
            self.at.0 -= 1;
        }
    }

    /// Carries out a control sequence, such as `[2;5H`.
    fn control(&mut self, sequence: &str) {
        let (parameters, last) = sequence.split_at(sequence.len() - 1);
        let parameters = parameters.trim_start_matches('[');
        match last {
            "H" => {
                let mut numbers = parameters.split(';').map(|number| number.parse().unwrap_or(1usize));
                let mut next = || numbers.next().unwrap_or(1) - 1;
                self.at = (next(), next());
            }
            "J" => self.rows.iter_mut().for_each(|row| row.fill(' ')),
            "h" | "l" if parameters == "?1049" => self.alternate = last == "h",
            // Colours, and the visibility of the cursor.
            "m" | "h" | "l" => {}
            _ => panic!("control sequence {sequence:?}"),
        }
    }

    fn text(&self) -> String {
        self.rows.iter().map(|row| row.iter().collect::<String>() + "\n").collect()
    }
}

/// A program on a terminal.
struct Terminal {
    master: File,
    screen: Arc<Mutex<Screen>>,
    reader: JoinHandle<()>,
    child: Child,
}

/// Runs the program with `arguments` on a terminal, which has no other user. With `ctty`, it is the controlling terminal of the program,
/// which gets SIGHUP when it is closed.
fn spawn_on_terminal(place: &Place, arguments: &str, (columns, rows): (u16, u16), ctty: bool) -> (File, Child) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    resize(&master, columns, rows);
    let name = ptsname(&master, Vec::new()).unwrap();
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let slave = File::options().read(true).write(true).open(path).unwrap();
    let program = place.command(arguments);
    // The terminal becomes that of a session of its own, so that the program does not find the one of this test. What a
    // shell starts in the background ignores Ctrl-C, and so would the program.
    let mut command = Command::new("setsid");
    command
        .args(ctty.then_some("--ctty"))
        .args(["env", "--default-signal=INT,HUP,TERM"])
        .arg(program.get_program())
        .args(program.get_args());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("NITRO_CONTROL");
    command.current_dir(place.path("."));
    command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let child = command.spawn().unwrap();
    (File::from(master), child)
}

impl Terminal {
    /// Runs the program with `arguments` on a terminal of its own.
    fn run(place: &Place, arguments: &str, columns: u16, rows: u16) -> Self {
        let (master, child) = spawn_on_terminal(place, arguments, (columns, rows), true);
        let screen = Arc::new(Mutex::new(Screen::new(columns, rows)));
        let (mut output, shown) = (master.try_clone().unwrap(), Arc::clone(&screen));
        let reader = std::thread::spawn(move || {
            let mut buf = [0; 4096];
            // Reading fails once the program has ended.
            while let Ok(len @ 1..) = output.read(&mut buf) {
                shown.lock().unwrap().take(&buf[..len]);
            }
        });
        Self { master, screen, reader, child }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().text()
    }

    /// Waits until the screen has all `words`.
    fn until(&self, words: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if words.iter().all(|word| text.contains(word)) {
                return text;
            }
            assert!(begun.elapsed() < PATIENCE, "{words:?} are not on the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Changes the size of the terminal, which is empty then.
    fn resize(&self, columns: u16, rows: u16) {
        *self.screen.lock().unwrap() = Screen::new(columns, rows);
        resize(&self.master, columns, rows);
    }

    fn type_in(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the program, and of its output.
    fn end(mut self) -> (ExitStatus, Arc<Mutex<Screen>>) {
        let ended = wait(&mut self.child);
        self.reader.join().unwrap();
        (ended, self.screen)
    }
}

fn resize(terminal: impl std::os::fd::AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

/// Reads and writes on the volume `vm`.
fn use_volume(place: &Place) {
    let mut client = place.client();
    assert_eq!(client.write(0, &[7; 1 << 16]), 0);
    (0..8).for_each(|_| drop(client.read(0, 1 << 16)));
}

#[test]
fn top_fits_a_terminal_of_80_columns_and_24_rows() {
    let place = Place::new();
    let _server = place.usual();
    let mut terminal = Terminal::run(&place, "top --interval 0.1", 80, 24);
    terminal.until(&["nitro 0", "measuring"]);
    use_volume(&place);
    let text = terminal.until(&["nitro 0", "requests/s", "hits, %", "cache cache caching", "free", "q quit"]);
    let cache = text.lines().find(|line| line.starts_with("cache cache")).unwrap();
    assert!(cache.trim_end().ends_with("iB"), "the end is cut off: {cache}");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("nitro ") && lines[23].starts_with("q quit"), "{text}");
    let head = lines.iter().position(|line| line.starts_with("volume")).unwrap();
    for column in ["hits", "reads/s", "p99 ms", "writes/s", "dirty MiB", "state"] {
        assert!(lines[head].contains(column), "{column}: {text}");
    }
    assert!(lines[head + 1].starts_with("vm") && lines[head + 1].contains("ok"), "{text}");
    // A fault appears, in words.
    place.stdout("cache detach cache vm");
    terminal.until(&["volume vm: it is detached from its cache", "detached"]);
    // The program adapts to other sizes.
    for (columns, rows) in [(40, 12), (132, 50), (80, 24)] {
        terminal.resize(columns, rows);
        let text = terminal.until(&["nitro 0", "q quit"]);
        assert!(text.lines().last().unwrap().starts_with("q quit"), "{columns}x{rows}:\n{text}");
        assert_eq!(text.contains("write-through"), columns == 132, "{columns}x{rows}:\n{text}");
    }
    terminal.type_in("q");
    let (ended, screen) = terminal.end();
    let screen = screen.lock().unwrap();
    assert!(ended.success() && !screen.alternate, "the terminal is as before");
    assert!(screen.beyond.is_empty(), "{:?}", screen.beyond);
}

#[test]
fn top_sees_a_key_that_comes_with_a_change_of_the_size() {
    let place = Place::new();
    let _server = place.usual();
    let mut terminal = Terminal::run(&place, "top --interval 0.1", 200, 100);
    terminal.until(&["vm"]);
    let screen = Arc::clone(&terminal.screen);
    // Nobody reads what the program draws, so that it waits in the middle of it. Then the changes, and after them the key, are there
    // before it looks.
    let held = screen.lock().unwrap();
    for rows in 50..100 {
        resize(&terminal.master, 200, rows);
        std::thread::sleep(Duration::from_millis(10));
    }
    terminal.type_in("q");
    drop(held);
    let (ended, screen) = terminal.end();
    assert!(ended.success() && !screen.lock().unwrap().alternate);
}

#[test]
fn top_ends_with_control_c_and_outlives_the_server() {
    let place = Place::new();
    let server = place.usual();
    let mut terminal = Terminal::run(&place, "top --interval 0.1", 80, 24);
    terminal.until(&["vm"]);
    server.kill();
    terminal.until(&["none is running"]);
    let _server = place.serve("--origin vm.img --cache cache.img");
    terminal.until(&["vm", "ok"]);
    terminal.type_in("\u{3}");
    let (ended, screen) = terminal.end();
    assert!(ended.success() && !screen.lock().unwrap().alternate);
}

#[test]
fn top_restores_the_terminal_when_it_is_killed() {
    let place = Place::new();
    let _server = place.usual();
    for signal in [Signal::TERM, Signal::HUP] {
        let terminal = Terminal::run(&place, "top --interval 60", 80, 24);
        terminal.until(&["vm"]);
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        let (ended, screen) = terminal.end();
        assert!(ended.success() && !screen.lock().unwrap().alternate, "{signal:?}: {ended}");
    }
}

#[test]
fn iostat_is_as_wide_as_its_terminal() {
    let place = Place::new();
    let _server = place.usual();
    for (columns, there, left_out) in [(60, "hit_%", "dirty_MB"), (80, "rd_p99", "drops/s"), (200, "drops/s", "-")] {
        let terminal = Terminal::run(&place, "iostat 0.05 3", columns, 24);
        let (ended, screen) = terminal.end();
        let screen = screen.lock().unwrap();
        let text = screen.text();
        assert!(ended.success() && screen.beyond.is_empty(), "{columns}: {text}");
        assert!(text.contains(there) && !text.contains(left_out), "{columns}: {text}");
    }
}

#[test]
fn iostat_ends_with_control_c() {
    let place = Place::new();
    let _server = place.usual();
    let mut terminal = Terminal::run(&place, "iostat 0.1", 80, 24);
    terminal.until(&["volume", "vm"]);
    terminal.type_in("\u{3}");
    let (ended, _) = terminal.end();
    assert_eq!(ended.signal(), Some(2), "{ended}");
}

#[test]
fn status_is_as_wide_as_its_terminal() {
    let place = Place::new();
    let _server = place.usual();
    use_volume(&place);
    place.stdout("cache detach cache vm");
    let terminal = Terminal::run(&place, "status", 80, 200);
    terminal.until(&["Needs attention", "latenc"]);
    let (ended, screen) = terminal.end();
    let screen = screen.lock().unwrap();
    // A URI has no blank at which it could be broken.
    let is_uri = |line: &String| line.starts_with("  serves");
    assert!(ended.success() && screen.beyond.iter().all(is_uri), "{:?}:\n{}", screen.beyond, screen.text());
    assert!(screen.text().contains("nitro cache attach attaches it again"), "{}", screen.text());
}

/// Waits for the end of a program that has no reason to go on.
fn ends_soon(what: &str, child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("{what} does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads what a program prints on a terminal until it has printed `word`.
fn read_until(master: &mut File, word: &str) {
    let (mut all, mut buf) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&all).contains(word) {
        let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(master, PollFlags::IN)], Some(&timeout)).unwrap();
        assert!(ready == 1, "{word} is not in {}", String::from_utf8_lossy(&all));
        let len = master.read(&mut buf).unwrap();
        all.extend(&buf[..len]);
    }
}

#[test]
fn commands_end_when_their_terminal_is_closed() {
    let place = Place::new();
    let server = place.usual();
    for arguments in
        ["top --interval 60", "top --interval 0.1", "status --watch 60", "status --watch 0.1", "iostat 0.1"]
    {
        // Without a controlling terminal there is no signal.
        for ctty in [true, false] {
            let (mut master, mut child) = spawn_on_terminal(&place, arguments, (80, 200), ctty);
            read_until(&mut master, "vm");
            drop(master);
            let ended = ends_soon(&format!("{arguments}, {ctty}"), &mut child);
            let is_orderly = ended.success() || ctty && ended.signal() == Some(1);
            assert!(is_orderly && (ended.success() || !arguments.starts_with("top")), "{arguments}, {ctty}: {ended}");
        }
    }
    let (master, mut child) = spawn_on_terminal(&place, "iostat 3600", (80, 24), false);
    std::thread::sleep(Duration::from_millis(300));
    drop(master);
    assert!(ends_soon("iostat 3600", &mut child).success());
    // One that waits for an answer.
    server.signal(Signal::STOP);
    let (master, mut child) = spawn_on_terminal(&place, "flush vm --wait", (80, 24), true);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none());
    drop(master);
    assert_eq!(ends_soon("flush", &mut child).signal(), Some(1));
    server.kill();
}

#[test]
fn following_commands_end_with_their_signals() {
    let place = Place::new();
    let _server = place.usual();
    for arguments in ["status --watch 60", "iostat 60", "top --interval 60"] {
        for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
            let (mut master, mut child) = spawn_on_terminal(&place, arguments, (80, 200), true);
            match arguments {
                // It prints nothing yet.
                "iostat 60" => std::thread::sleep(Duration::from_millis(300)),
                _ => read_until(&mut master, "vm"),
            }
            kill_process(Pid::from_child(&child), signal).unwrap();
            let ended = ends_soon(arguments, &mut child);
            let is_top = arguments.starts_with("top");
            assert!(
                ended.success() == is_top && ended.signal().is_none() == is_top,
                "{arguments}, {signal:?}: {ended}"
            );
        }
    }
}

#[test]
fn following_commands_end_when_their_pipe_is_closed() {
    let place = Place::new();
    let _server = place.usual();
    for arguments in [
        "iostat 0.1",
        "iostat 0.1 -o json",
        "iostat 0.1 -o csv",
        "status --watch 0.1",
        "status --watch 3600",
        "status --watch 0.1 -o csv",
        "status --watch 3600 -o json",
    ] {
        let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // As `head -1`.
        let mut first = [0; 16];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let ended = ends_soon(arguments, &mut child);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(ended.success() && said.is_empty(), "{arguments}: {ended} {said}");
    }
    let mut child = place.command("iostat 3600").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(ends_soon("iostat 3600", &mut child).success());
}

#[test]
fn a_watched_status_fits_its_terminal() {
    let place = Place::new();
    let _server = place.usual();
    let mut terminal = Terminal::run(&place, "status --watch 0.1", 80, 24);
    let text = terminal.until(&["nitro 0", "more lines)"]);
    assert!(text.starts_with("nitro 0"), "{text}");
    // What changes is shown.
    place.stdout("cache detach cache vm");
    terminal.until(&["Needs attention", "detached from its cache"]);
    terminal.type_in("\u{3}");
    let (ended, _) = terminal.end();
    assert_eq!(ended.signal(), Some(2), "{ended}");
}
