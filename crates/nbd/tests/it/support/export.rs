//! An export in memory with the vices of a real one.

use bytes::Bytes;
use nitro_frontend::{
    Caller, Disk, DiskError, DiskInfo, DiskName, Disks, Opened, Pieces, Requester, Run, StatusOf, ZeroFlags,
};
use nitro_port::buf::is_aligned;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

pub struct MemoryExport {
    pub info: DiskInfo,
    pub data: Mutex<Vec<u8>>,
    /// Reads at even offsets are answered at once.
    pub inline: bool,
    /// What was asked other than reads, in words.
    pub log: Mutex<Vec<String>>,
    /// What every command but inline reads ends with.
    pub failure: Option<DiskError>,
    /// Bytes after which the status changes, if not the usual ones.
    pub status_unit: Option<u64>,
    /// Commands wait while this is set.
    pub held: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
    pub running: AtomicUsize,
    pub running_max: AtomicUsize,
}

impl MemoryExport {
    pub fn new(data: Vec<u8>) -> Self {
        let info = DiskInfo { description: "in memory".into(), ..DiskInfo::new(data.len() as u64) };
        Self {
            info,
            data: Mutex::new(data),
            inline: true,
            log: Mutex::default(),
            failure: None,
            status_unit: None,
            held: AtomicBool::new(false),
            waiting: Mutex::default(),
            running: AtomicUsize::new(0),
            running_max: AtomicUsize::new(0),
        }
    }

    pub fn release(&self) {
        self.held.store(false, Relaxed);
        self.waiting.lock().unwrap().drain(..).for_each(Waker::wake);
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Takes a few turns, so that commands overlap and end out of order.
    async fn run(&self, turns: u64, words: String) -> Result<(), DiskError> {
        self.running_max.fetch_max(self.running.fetch_add(1, Relaxed) + 1, Relaxed);
        let mut left = turns % 5;
        poll_fn(|context| {
            if self.held.load(Relaxed) {
                self.waiting.lock().unwrap().push(context.waker().clone());
                return Poll::Pending;
            }
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.running.fetch_sub(1, Relaxed);
        if !words.is_empty() {
            self.log.lock().unwrap().push(words);
        }
        self.failure.map_or(Ok(()), Err)
    }

    fn pieces(&self, offset: u64, len: u32) -> Pieces {
        let data = self.data.lock().unwrap();
        let range = &data[offset as usize..][..len as usize];
        range.chunks(3000).map(Bytes::copy_from_slice).collect()
    }

    fn fill(&self, offset: u64, bytes: &[u8]) {
        self.data.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Disk for MemoryExport {
    fn info(&self) -> DiskInfo {
        self.info.clone()
    }

    fn try_read(&self, _: Requester, offset: u64, len: u32) -> Option<Result<Pieces, DiskError>> {
        (self.inline && offset.is_multiple_of(2)).then(|| Ok(self.pieces(offset, len)))
    }

    async fn read(&self, _: Requester, offset: u64, len: u32) -> Result<Pieces, DiskError> {
        self.run(offset, String::new()).await.map(|()| self.pieces(offset, len))
    }

    async fn write(&self, _: Requester, offset: u64, data: Bytes, fua: bool) -> Result<(), DiskError> {
        assert!(is_aligned(&data), "payloads are page-aligned");
        self.run(offset, format!("write {offset}+{} fua={fua}", data.len())).await?;
        self.fill(offset, &data);
        Ok(())
    }

    async fn flush(&self, _: Requester) -> Result<(), DiskError> {
        self.run(0, "flush".into()).await
    }

    async fn trim(&self, _: Requester, offset: u64, len: u32, fua: bool) -> Result<(), DiskError> {
        self.run(offset, format!("trim {offset}+{len} fua={fua}")).await
    }

    async fn write_zeroes(&self, _: Requester, offset: u64, len: u32, flags: ZeroFlags) -> Result<(), DiskError> {
        let ZeroFlags { fua, no_hole, fast } = flags;
        self.run(offset, format!("zero {offset}+{len} fua={fua} no_hole={no_hole} fast={fast}")).await?;
        if fast {
            return Err(DiskError::Unsupported);
        }
        let mut data = self.data.lock().unwrap();
        let end = (offset + u64::from(len)).min(data.len() as u64) as usize;
        data[(offset as usize).min(end)..end].fill(0);
        Ok(())
    }

    async fn cache(&self, _: Requester, offset: u64, len: u32) -> Result<(), DiskError> {
        self.run(offset, format!("cache {offset}+{len}")).await
    }

    async fn status(&self, of: StatusOf, offset: u64, len: u32) -> Result<Vec<Run>, DiskError> {
        self.run(offset, format!("status {of:?} {offset}+{len}")).await?;
        let unit = self.status_unit.unwrap_or(match of {
            StatusOf::Allocation => 1000,
            StatusOf::Cache => 700,
        });
        let end = offset + u64::from(len);
        let mut extents = Vec::new();
        let mut at = offset;
        while at < end {
            let next = (at / unit + 1) * unit;
            let flags = at / unit % 4;
            let (one, two) = (flags & 1 != 0, flags & 2 != 0);
            extents.push(Run { len: next - at, hole: one, zero: two, cached: one, dirty: two });
            at = next;
        }
        Ok(extents)
    }
}

/// Exports with their names. Those whose name begins with `of ` are for clients with the identity that follows.
#[derive(Default)]
pub struct MemoryExports(pub Vec<(String, Arc<MemoryExport>)>);

impl MemoryExports {
    /// One export of the name `disk`.
    pub fn one(export: &Arc<MemoryExport>) -> Self {
        Self(vec![("disk".into(), Arc::clone(export))])
    }
}

impl Disks for MemoryExports {
    type Disk = MemoryExport;

    fn list(&self) -> Vec<DiskName> {
        let entry = |(name, export): &(String, Arc<MemoryExport>)| DiskName {
            name: name.clone(),
            description: export.info.description.clone(),
        };
        self.0.iter().map(entry).collect()
    }

    fn admits(&self, name: &str, caller: Caller<'_>) -> bool {
        let Caller::Certified { identities } = caller else { return false };
        name.strip_prefix("of ").is_none_or(|wanted| identities.iter().any(|one| one == wanted))
    }

    fn open(&self, name: &str) -> Option<Opened<MemoryExport>> {
        let (_, export) = self.0.iter().find(|(listed, _)| listed == name)?;
        Some(Opened { disk: Arc::clone(export), requester: Requester::default() })
    }
}
