//! Operations on stores that clients of the control socket have begun. Each has a thread of its own, of low priority: neither
//! a file that does not answer nor a client that does not read holds up anything else.

use super::Served;
use super::connections::sleep;
use crate::control::News;
use crate::cos::CosStore;
use crate::cos::transfer::{Job, Pace, Report, Unit, Watch};
use crate::origins;
use nitro_console::error::Error;
use nitro_device::{ReactorThread, lower_priority, spawn_thread};
use parking_lot::Mutex;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The maximum number of operations under way.
pub(super) const JOBS_MAX: usize = 4;
/// Threads of an operation: its own, and those that it starts.
const THREADS: u64 = 4;
/// How often is checked whether they have ended.
const TURN: Duration = Duration::from_millis(20);

/// The operations under way.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// Why no more operations begin.
    closed: Option<&'static str>,
    operations: Vec<Arc<Operation>>,
    /// Clients that wait for the outcome of theirs.
    owed: usize,
}

/// An operation, as the connection of its client sees it.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The path that the client gave.
    path: PathBuf,
    /// That of the store's device.
    store: PathBuf,
    job: Job,
    end: Mutex<Option<String>>,
    /// The last progress, if it is not taken yet, and the lines for people.
    news: Mutex<(Option<News>, Vec<String>)>,
    /// Whether the operation waits for the client's word that its content was complete, and whether it has it.
    waits: AtomicBool,
    is_complete: AtomicBool,
}

impl Watch for Operation {
    fn show(&self, what: &str, unit: Unit, done: u64, total: u64) {
        self.news.lock().0 = Some(News::Progress { what: what.to_owned(), unit, done, total });
    }

    fn note(&self, text: String) {
        self.news.lock().1.push(text);
    }

    fn end(&self) -> Option<String> {
        self.end.lock().clone()
    }

    fn complete(&self) -> Option<Result<(), Error>> {
        if self.is_complete.load(SeqCst) {
            return Some(Ok(()));
        }
        self.waits.store(true, SeqCst);
        None
    }
}

impl Operation {
    /// What logs and errors call it.
    pub(crate) fn what(&self) -> String {
        format!("store {}: {}", self.path.display(), self.job.what())
    }

    /// Lets it end soon. The first cause is the one that counts.
    pub(crate) fn end(&self, cause: &str) {
        self.end.lock().get_or_insert_with(|| cause.to_owned());
    }

    /// Takes the client's word that its content was complete.
    pub(crate) fn confirm(&self) {
        self.is_complete.store(true, SeqCst);
    }

    /// Takes what the client is not told yet; its progress only with `progress`.
    pub(crate) fn take_news(&self, progress: bool) -> Vec<News> {
        let mut news = self.news.lock();
        let notes = std::mem::take(&mut news.1).into_iter().map(News::Note);
        let waits = self.waits.swap(false, SeqCst) && !self.is_complete.load(SeqCst);
        let mut all: Vec<News> = notes.collect();
        all.extend(news.0.take_if(|_| progress));
        all.extend(waits.then_some(News::Complete));
        all
    }
}

/// The place of an operation among those under way; free when this is dropped.
#[derive(Debug)]
struct Admitted {
    table: Arc<Mutex<Table>>,
    operation: Arc<Operation>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.table.lock().operations.retain(|other| !Arc::ptr_eq(other, &self.operation));
    }
}

/// The outcome of an operation that its client is to be told; told, or not to be told any more, when this is dropped.
#[derive(Debug)]
pub(crate) struct Owed(Arc<Mutex<Table>>);

impl Owed {
    fn new(table: &Arc<Mutex<Table>>) -> Self {
        table.lock().owed += 1;
        Self(Arc::clone(table))
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.0.lock().owed -= 1;
    }
}

/// An operation that was accepted and has not started.
pub(crate) struct Begun {
    admitted: Admitted,
    store: Arc<CosStore>,
}

impl Begun {
    pub(crate) fn operation(&self) -> &Arc<Operation> {
        &self.admitted.operation
    }

    /// Whether it needs a file.
    pub(crate) fn needs_file(&self) -> bool {
        self.operation().job.needs_file()
    }

    /// Starts it with its file, on a thread of its own. The server does not end before its client was told the outcome.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(crate) fn start(self, file: Option<File>) -> Result<(ReactorThread<Result<Report, Error>>, Owed), Error> {
        let owed = Owed::new(&self.admitted.table);
        let work = move || async move {
            // The threads that it starts have the same priority.
            lower_priority();
            let Self { admitted, store } = self;
            let Operation { path, job, .. } = &*admitted.operation;
            let pace = Pace::of_server(job.threads());
            let done = job.run((&store, path), file, pace, &*admitted.operation).await;
            match &done {
                Ok(_) => tracing::info!("{}: has ended", admitted.operation.what()),
                Err(error) => tracing::warn!("{}: {error}", admitted.operation.what()),
            }
            done
        };
        let thread = spawn_thread("nitro-job", work).map_err(|e| Error::with_sources("thread", &e))?;
        Ok((thread, owed))
    }
}

impl Jobs {
    /// The RAM of all operations in bytes, at most.
    pub(super) fn ram_bytes_max(thread_bytes: u64) -> u64 {
        JOBS_MAX as u64 * (Pace::SERVER_RAM_BYTES + THREADS * thread_bytes)
    }

    /// What is under way at a store, by the path of its device.
    pub(crate) fn of_store(&self, store: &Path) -> Vec<String> {
        let table = self.0.lock();
        let of_store = table.operations.iter().filter(|operation| operation.store == store);
        of_store.map(|operation| operation.job.what()).collect()
    }

    fn admit(&self, path: &Path, job: Job) -> Result<Admitted, Error> {
        let store = origins::real(path);
        let mut table = self.0.lock();
        let refuse = |why: String| Error::new(format_args!("store {}: {}", path.display(), job.what()), why);
        if let Some(closed) = table.closed {
            return Err(refuse(closed.to_owned()));
        }
        let is_same = |other: &&Arc<Operation>| {
            other.store == store
                && matches!(job, Job::Import { .. } | Job::Receive { .. })
                && other.job.what() == job.what()
        };
        if table.operations.iter().any(|other| is_same(&other)) {
            return Err(refuse("another import of that name is under way".to_owned()).or("choose another name"));
        }
        if table.operations.len() >= JOBS_MAX {
            let others: Vec<_> = table.operations.iter().map(|operation| operation.job.what()).collect();
            let why = format!("the server has {JOBS_MAX} under way already: {}", others.join(", "));
            return Err(refuse(why).or("wait until one of them has ended"));
        }
        let operation = Arc::new(Operation {
            path: path.to_owned(),
            store,
            job,
            end: Mutex::default(),
            news: Mutex::default(),
            waits: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
        });
        table.operations.push(Arc::clone(&operation));
        Ok(Admitted { table: Arc::clone(&self.0), operation })
    }

    /// Lets all end soon, and accepts no more; `cause` is a noun.
    pub(super) fn close(&self, cause: &'static str) {
        let mut table = self.0.lock();
        table.closed = Some("the server is ending");
        table.operations.iter().for_each(|operation| operation.end(cause));
    }

    /// Waits until none is under way, and their clients know how theirs ended.
    pub(super) async fn done(&self) {
        let is_done = || {
            let table = self.0.lock();
            table.operations.is_empty() && table.owed == 0
        };
        while !is_done() {
            sleep(TURN).await;
        }
    }
}

impl Served {
    /// Accepts an operation on a store whose objects are served.
    ///
    /// # Errors
    /// The store is not open here, too many operations are under way, or the operation cannot be carried out.
    pub(crate) async fn begin(&self, path: &Path, job: Job) -> Result<Begun, Error> {
        let what = || format!("store {}", path.display());
        let store = origins::find(path).await.ok_or_else(|| origins::not_open(path))?;
        match &job {
            Job::Export { name, .. } | Job::Send { name, .. } => {
                let from = if let Job::Export { from, .. } = &job { from.as_ref() } else { None };
                let is_meant = |object: &String| object == name || Some(object) == from;
                let mut writable = self.of_store(path).filter(|(export, _)| !export.volume.read_only());
                if let Some((export, origin)) = writable.find(|(_, origin)| is_meant(&origin.object)) {
                    let object = origin.object;
                    let why =
                        format!("volume {} is served from {object}, and may change while it is read", export.name);
                    let command = if matches!(job, Job::Send { .. }) { "send" } else { "export" };
                    let way_out = format!(
                        "{command} a snapshot: nitro cos snapshot {0} {object}@NAME; nitro cos {command} {0} {object}@NAME",
                        path.display()
                    );
                    return Err(Error::new(what(), why).or(way_out));
                }
            }
            Job::Check { reading: false, .. } => {
                let why = "fsck holds all fingerprints in RAM, which a server that has the store open does not do";
                return Err(Error::new(what(), why).or("nitro cos scrub checks the store while it is served"));
            }
            _ => {}
        }
        let admitted = self.jobs.admit(path, job)?;
        admitted.operation.job.check(&store, path).await?;
        tracing::info!("{}: begun", admitted.operation.what());
        Ok(Begun { admitted, store })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_device::Reactor;
    use std::pin::pin;

    fn import(name: &str) -> Job {
        let (source, kind) = ("-".to_owned(), nitro_cos::Kind::Stream);
        Job::Import { name: name.to_owned(), source, kind, increment: false, chunk_bytes: None, threads: None }
    }

    #[test]
    fn so_many_are_under_way_and_none_with_the_same_name() {
        let (jobs, store) = (Jobs::default(), Path::new("/st"));
        let refused = |jobs: &Jobs, name: &str| jobs.admit(store, import(name)).unwrap_err().to_string();
        let mut all: Vec<_> = (0..JOBS_MAX - 1).map(|n| jobs.admit(store, import(&n.to_string())).unwrap()).collect();
        assert!(refused(&jobs, "1").contains("another import of that name"));
        all.push(jobs.admit(Path::new("/other"), import("1")).unwrap());
        assert!(refused(&jobs, "new").contains("4 under way already: import of 0, import of 1"));
        all.swap_remove(0);
        all.push(jobs.admit(store, import("new")).unwrap());
        jobs.close("the end of the server");
        all.pop();
        assert!(refused(&jobs, "late").contains("the server is ending"));
        assert_eq!(all[0].operation.end.lock().as_deref(), Some("the end of the server"));
        assert_eq!(jobs.of_store(&origins::real(store)), ["import of 1", "import of 2"]);
    }

    #[test]
    fn the_end_waits_until_the_client_knows_the_outcome() {
        let jobs = Jobs::default();
        let reactor = Reactor::new().unwrap();
        let admitted = jobs.admit(Path::new("/st"), import("a")).unwrap();
        let owed = Owed::new(&admitted.table);
        drop(admitted);
        let is_done = || reactor.block_on(async { futures_util::poll!(pin!(jobs.done())).is_ready() });
        assert!(!is_done());
        drop(owed);
        assert!(is_done());
    }

    #[test]
    fn the_client_is_told_what_is_new_and_asked_once() {
        let jobs = Jobs::default();
        let admitted = jobs.admit(Path::new("/st"), import("a")).unwrap();
        let operation = &admitted.operation;
        operation.show("imported", Unit::Bytes, 1, 2);
        operation.note("line".to_owned());
        assert_eq!(operation.take_news(false), [News::Note("line".to_owned())]);
        assert!(matches!(operation.take_news(true)[..], [News::Progress { done: 1, total: 2, .. }]));
        assert_eq!(operation.take_news(true), []);
        assert!(operation.complete().is_none());
        assert_eq!(operation.take_news(false), [News::Complete]);
        operation.confirm();
        assert!(operation.complete().is_some_and(|complete| complete.is_ok()));
        operation.end("first");
        operation.end("second");
        assert_eq!(Watch::end(&**operation).as_deref(), Some("first"));
    }
}
