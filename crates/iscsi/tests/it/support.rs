//! A disk in memory, and an initiator that does what it is told.

use bytes::{Bytes, BytesMut};
use nitro_frontend::transport::memory::{MemoryEnd, duplex};
use nitro_frontend::transport::{ReadHalf, WriteHalf};
use nitro_frontend::{
    Caller, Disk, DiskError, DiskInfo, DiskName, Disks, Opened, Pieces, Requester, Run, StatusOf, ZeroFlags,
};
use nitro_iscsi::protocol::{Header, NO_TAG, crc32c, opcode, padding_of, put_pair};
use nitro_iscsi::{AllowList, ConnectionSummary, Ends, IscsiError, Limits, ServerOptions, serve};
use nitro_port::buf::BufMut;
use nitro_port::yielding::yield_now;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

pub const TARGET: &str = "iqn.2026-11.nitro:vm";
pub const DISK_BYTES: usize = 1 << 20;

/// A disk whose reads and writes take some polls.
pub struct Ram {
    pub bytes: RefCell<Vec<u8>>,
    pub block_bytes: Cell<u32>,
    /// Classes of its requests.
    pub classes: RefCell<Vec<Option<u8>>>,
    /// The offset of a byte that gets a wrong value when it is written.
    pub flaw: Cell<Option<usize>>,
    /// Requests of this class do not end until another one is set.
    pub blocked: Cell<Option<u8>>,
    /// Number of writes with FUA, and of flushes.
    pub durable: Cell<(u32, u32)>,
}

impl Ram {
    async fn access(&self, from: Requester) {
        self.classes.borrow_mut().push(from.class.map(|class| class.number()));
        for _ in 0..3 {
            yield_now().await;
        }
        while from.class.is_some() && self.blocked.get() == from.class.map(|class| class.number()) {
            yield_now().await;
        }
    }
}

impl Disk for Ram {
    fn info(&self) -> DiskInfo {
        DiskInfo { block_bytes: self.block_bytes.get(), ..DiskInfo::new(self.bytes.borrow().len() as u64) }
    }
    async fn read(&self, from: Requester, offset: u64, len: u32) -> Result<Pieces, DiskError> {
        self.access(from).await;
        let bytes = self.bytes.borrow();
        let range = bytes.get(offset as usize..offset as usize + len as usize).ok_or(DiskError::OutOfRange)?;
        Ok(Pieces::from_iter([Bytes::copy_from_slice(range)]))
    }
    async fn write(&self, from: Requester, offset: u64, data: Bytes, fua: bool) -> Result<(), DiskError> {
        self.access(from).await;
        let (writes, flushes) = self.durable.get();
        self.durable.set((writes + u32::from(fua), flushes));
        let mut bytes = self.bytes.borrow_mut();
        let range = bytes.get_mut(offset as usize..offset as usize + data.len()).ok_or(DiskError::OutOfRange)?;
        range.copy_from_slice(&data);
        if let Some(byte) = self.flaw.get().and_then(|at| range.get_mut(at.checked_sub(offset as usize)?)) {
            *byte = !*byte;
        }
        Ok(())
    }
    async fn flush(&self, _: Requester) -> Result<(), DiskError> {
        let (writes, flushes) = self.durable.get();
        self.durable.set((writes, flushes + 1));
        Ok(())
    }
    async fn trim(&self, from: Requester, offset: u64, len: u32, _: bool) -> Result<(), DiskError> {
        self.write_zeroes(from, offset, len, ZeroFlags::default()).await
    }
    async fn write_zeroes(&self, from: Requester, offset: u64, len: u32, _: ZeroFlags) -> Result<(), DiskError> {
        self.write(from, offset, vec![0; len as usize].into(), false).await
    }
    async fn cache(&self, _: Requester, _: u64, _: u32) -> Result<(), DiskError> {
        Ok(())
    }
    async fn status(&self, _: StatusOf, _: u64, len: u32) -> Result<Vec<Run>, DiskError> {
        Ok(vec![Run { len: len.into(), ..Run::default() }])
    }
}

/// A server with one disk.
pub struct Stage {
    pub disk: Arc<Ram>,
    pub options: ServerOptions,
    /// The initiators that the disk admits.
    pub allowed: AllowList,
    /// The claims whose secrets were checked, and whether they were right.
    pub secrets: RefCell<Vec<(String, Option<bool>)>>,
}

impl Disks for Stage {
    type Disk = Ram;
    fn list(&self) -> Vec<DiskName> {
        vec![DiskName { name: "vm".into(), description: String::new() }]
    }
    fn admits(&self, _: &str, caller: Caller<'_>) -> bool {
        self.allowed.allows(caller)
    }
    async fn before_secret(&self, claim: &str) {
        yield_now().await;
        self.secrets.borrow_mut().push((claim.to_owned(), None));
    }
    fn note_secret(&self, is_right: bool) {
        if let Some((_, outcome)) = self.secrets.borrow_mut().last_mut() {
            *outcome = Some(is_right);
        }
    }
    fn open(&self, name: &str) -> Option<Opened<Ram>> {
        (name == "vm").then(|| Opened { disk: Arc::clone(&self.disk), requester: Requester::default() })
    }
}

pub type Served = Result<ConnectionSummary, IscsiError>;

impl Stage {
    pub fn new() -> Self {
        #[expect(clippy::arc_with_non_send_sync, reason = "the tests have one thread")]
        let disk = Arc::new(Ram {
            bytes: RefCell::new(vec![0; DISK_BYTES]),
            block_bytes: Cell::new(512),
            classes: RefCell::default(),
            flaw: Cell::default(),
            blocked: Cell::default(),
            durable: Cell::default(),
        });
        let options = ServerOptions { limits: Limits::default(), ..ServerOptions::default() };
        Self { disk, options, allowed: AllowList::default(), secrets: RefCell::default() }
    }

    /// A connection: its server's end, to be polled, and its initiator.
    pub fn connect(&self) -> (impl Future<Output = Served>, Initiator) {
        let (here, there) = duplex(1 << 20);
        let ends = Ends { peer: None, portal: "127.0.0.1:3260".parse().ok() };
        let stop = std::future::pending();
        let serving = serve(there.reader, there.writer, ends, self, &self.options, stop);
        (serving, Initiator { end: Some(here), received: BytesMut::new(), cmd_sn: 1, tag: 0, digests: false })
    }
}

/// A PDU that was received.
pub type Pdu = (Header, Vec<u8>);

pub struct Initiator {
    end: Option<MemoryEnd>,
    received: BytesMut,
    pub cmd_sn: u32,
    pub tag: u32,
    pub digests: bool,
}

impl Initiator {
    /// Hangs up.
    pub fn leave(&mut self) {
        self.end = None;
    }

    pub async fn send_bytes(&mut self, bytes: Vec<u8>) {
        if let Some(end) = &mut self.end {
            // The server may have hung up.
            let _ = end.writer.write_all(vec![bytes.into()]).await;
        }
    }

    pub async fn send(&mut self, header: Header, data: &[u8]) {
        let header = header.with_data(data.len());
        let mut bytes = header.0.to_vec();
        if self.digests {
            bytes.extend(crc32c([&header.0[..]]));
        }
        let start = bytes.len();
        bytes.extend(data);
        bytes.resize(bytes.len() + padding_of(data.len()), 0);
        if self.digests && !data.is_empty() {
            bytes.extend(crc32c([&bytes[start..]]));
        }
        self.send_bytes(bytes).await;
    }

    async fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.received.len() < len {
            let end = self.end.as_mut()?;
            let (result, buf) = end.reader.read(BufMut::with_len(64 << 10), 0).await;
            let got = result.ok().filter(|got| *got > 0)?;
            self.received.extend_from_slice(&buf[..got]);
        }
        Some(self.received.split_to(len).to_vec())
    }

    /// The next PDU; `None`: the server hung up.
    pub async fn next(&mut self) -> Option<Pdu> {
        let header = Header::parse(&self.take(48).await?)?;
        if self.digests {
            assert_eq!(self.take(4).await?, crc32c([&header.0[..]]));
        }
        let len = header.data_bytes();
        let mut data = self.take(len + padding_of(len)).await?;
        if self.digests && len > 0 {
            assert_eq!(self.take(4).await?, crc32c([&data[..]]));
        }
        data.truncate(len);
        Some((header, data))
    }

    /// Logs in; gives the response.
    pub async fn log_in(&mut self, name: &str, pairs: &[(&str, &str)]) -> Pdu {
        let mut text = BytesMut::new();
        put_pair(&mut text, "InitiatorName", name);
        if !pairs.iter().any(|(key, _)| *key == "SessionType") {
            put_pair(&mut text, "TargetName", TARGET);
        }
        pairs.iter().for_each(|(key, value)| put_pair(&mut text, key, value));
        let request = Header::new(opcode::LOGIN | 0x40, 0x87, 0).with(24, self.cmd_sn).with_byte(13, 1);
        self.send(request, &text).await;
        let response = self.next().await.expect("a response");
        self.digests = pairs.contains(&("HeaderDigest", "CRC32C"));
        response
    }

    /// Sends a login request with these flags; gives the response.
    pub async fn negotiate(&mut self, flags: u8, pairs: &[(&str, &str)]) -> Pdu {
        let mut text = BytesMut::new();
        pairs.iter().for_each(|(key, value)| put_pair(&mut text, key, value));
        let request = Header::new(opcode::LOGIN | 0x40, flags, 0).with(24, self.cmd_sn).with_byte(13, 1);
        self.send(request, &text).await;
        self.next().await.expect("a response")
    }

    /// Sends a request with the next CmdSN; gives its tag.
    pub async fn request(&mut self, header: Header, data: &[u8]) -> u32 {
        self.tag += 1;
        self.cmd_sn += 1;
        let header = header.with(16, self.tag).with(24, self.cmd_sn - 1);
        self.send(header, data).await;
        self.tag
    }

    /// Sends a SCSI command.
    pub async fn command(&mut self, cdb: &[u8], flags: u8, expected: usize, data: &[u8]) -> u32 {
        let mut header = Header::new(opcode::SCSI_COMMAND, flags, 0).with(20, expected as u32);
        header.0[32..32 + cdb.len()].copy_from_slice(cdb);
        self.request(header, data).await
    }

    /// A command with immediate data; gives its status and sense data's key and code.
    pub async fn write(&mut self, cdb: &[u8], data: &[u8]) -> (u8, [u8; 3]) {
        self.command(cdb, 0xa0, data.len(), data).await;
        self.status().await
    }

    /// The status of the next response.
    pub async fn status(&mut self) -> (u8, [u8; 3]) {
        let (_, status, sense) = self.ended().await;
        (status, sense)
    }

    /// A command that reads; gives its data, or `Err` with its status.
    pub async fn read(&mut self, cdb: &[u8], expected: usize) -> Result<Vec<u8>, u8> {
        self.command(cdb, 0xc0, expected, &[]).await;
        let mut all = Vec::new();
        loop {
            let (header, data) = self.next().await.expect("a response");
            if header.opcode() == opcode::SCSI_RESPONSE {
                return if header.0[3] == 0 { Ok(all) } else { Err(header.0[3]) };
            }
            assert_eq!((header.opcode(), header.word(40) as usize), (opcode::DATA_IN, all.len()));
            all.extend(data);
            if header.flags() & 1 != 0 {
                assert!(header.is_final());
                return Ok(all);
            }
        }
    }

    /// Data of a command.
    pub async fn data_out(&mut self, tag: u32, transfer: u32, number: u32, offset: u32, data: &[u8], last: bool) {
        let header = Header::new(opcode::DATA_OUT, if last { 0x80 } else { 0 }, tag).with(20, transfer);
        self.send(header.with(36, number).with(40, offset), data).await;
    }

    /// Sends a command with a task attribute (ATTR), and data if it writes; gives its tag.
    pub async fn task(&mut self, attribute: u8, cdb: &[u8], data: &[u8]) -> u32 {
        let flags = if data.is_empty() { 0x80 } else { 0xa0 };
        self.command(cdb, flags | attribute, data.len(), data).await
    }

    /// The tag, status and sense data's key and code of the next response.
    pub async fn ended(&mut self) -> (u32, u8, [u8; 3]) {
        let (header, data) = self.next().await.expect("a response");
        assert_eq!(header.opcode(), opcode::SCSI_RESPONSE);
        let sense = if data.is_empty() { [0; 3] } else { [data[4], data[14], data[15]] };
        (header.tag(), header.0[3], sense)
    }

    /// Sends a ping for immediate delivery, and waits until it is answered: then the server has received all before it.
    pub async fn ping(&mut self) {
        let ping = Header::new(opcode::NOP_OUT | 0x40, 0x80, u32::MAX - 1).with(20, NONE).with(24, self.cmd_sn);
        self.send(ping, b"ping").await;
        let (header, data) = self.next().await.expect("an answer");
        assert_eq!((header.opcode(), &data[..]), (opcode::NOP_IN, &b"ping"[..]));
    }

    /// Logs out.
    pub async fn log_out(&mut self) {
        self.request(Header::new(opcode::LOGOUT, 0x80, 0), &[]).await;
        let (header, _) = self.next().await.expect("a response");
        assert_eq!((header.opcode(), header.0[2]), (opcode::LOGOUT_RESPONSE, 0));
    }
}

pub const NONE: u32 = NO_TAG;

/// WRITE (10) and READ (10).
pub fn ten(opcode: u8, lba: u32, group: u8, blocks: u16) -> Vec<u8> {
    let (lba, blocks) = (lba.to_be_bytes(), blocks.to_be_bytes());
    vec![opcode, 0, lba[0], lba[1], lba[2], lba[3], group, blocks[0], blocks[1], 0]
}

/// WRITE AND VERIFY (10) or VERIFY (10) with BYTCHK.
pub fn with_bytchk(mut cdb: Vec<u8>, compare: u8) -> Vec<u8> {
    cdb[1] |= compare << 1;
    cdb
}

/// COMPARE AND WRITE of one block.
pub fn compare_and_write(lba: u8) -> Vec<u8> {
    vec![0x89, 0, 0, 0, 0, 0, 0, 0, 0, lba, 0, 0, 0, 1, 0, 0]
}

/// PERSISTENT RESERVE OUT and its parameters.
pub fn reserve_out(action: u8, kind: u8, key: u64, action_key: u64, keep: bool) -> (Vec<u8>, Vec<u8>) {
    let mut list = key.to_be_bytes().to_vec();
    list.extend(action_key.to_be_bytes());
    list.extend([0, 0, 0, 0, u8::from(keep), 0, 0, 0]);
    (vec![0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], list)
}

/// Runs one session on a stage: `script` is the initiator's part.
pub fn alone<F: Future<Output = ()>>(stage: &Stage, script: impl FnOnce(Initiator) -> F) -> Served {
    let (serving, initiator) = stage.connect();
    let (served, ()) = futures_executor::block_on(futures_util::future::join(serving, script(initiator)));
    served
}
