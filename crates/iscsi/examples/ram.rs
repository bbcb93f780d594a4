//! A RAM disk over iSCSI, without the rest of Nitro: `cargo run -p nitro-iscsi --example ram -- 127.0.0.1:3260 64` (MiB).
//! For trying initiators on the protocol alone.

use bytes::Bytes;
use futures_channel::mpsc;
use futures_util::StreamExt as _;
use nitro_frontend::transport::{ReadHalf, WriteHalf};
use nitro_frontend::{Disk, DiskError, DiskInfo, DiskName, Disks, Opened, Pieces, Requester, Run, StatusOf, ZeroFlags};
use nitro_iscsi::{Ends, ServerOptions, serve};
use nitro_port::buf::BufMut;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

struct Ram(Mutex<Vec<u8>>);

impl Ram {
    fn change(&self, offset: u64, len: usize, change: impl FnOnce(&mut [u8])) -> Result<(), DiskError> {
        let mut bytes = self.0.lock().map_err(|_| DiskError::Io)?;
        bytes.get_mut(offset as usize..offset as usize + len).map(change).ok_or(DiskError::OutOfRange)
    }
}

impl Disk for Ram {
    fn info(&self) -> DiskInfo {
        DiskInfo::new(self.size_bytes())
    }

    fn size_bytes(&self) -> u64 {
        self.0.lock().map_or(0, |bytes| bytes.len() as u64)
    }

    async fn read(&self, _: Requester, offset: u64, len: u32) -> Result<Pieces, DiskError> {
        let mut copy = Bytes::new();
        self.change(offset, len as usize, |bytes| copy = Bytes::copy_from_slice(bytes))?;
        Ok(Pieces::from_iter([copy]))
    }

    async fn write(&self, _: Requester, offset: u64, data: Bytes, _: bool) -> Result<(), DiskError> {
        self.change(offset, data.len(), |bytes| bytes.copy_from_slice(&data))
    }

    async fn flush(&self, _: Requester) -> Result<(), DiskError> {
        Ok(())
    }

    async fn trim(&self, from: Requester, offset: u64, len: u32, _: bool) -> Result<(), DiskError> {
        self.write_zeroes(from, offset, len, ZeroFlags::default()).await
    }

    async fn write_zeroes(&self, _: Requester, offset: u64, len: u32, _: ZeroFlags) -> Result<(), DiskError> {
        self.change(offset, len as usize, |bytes| bytes.fill(0))
    }

    async fn cache(&self, _: Requester, _: u64, _: u32) -> Result<(), DiskError> {
        Ok(())
    }

    async fn status(&self, _: StatusOf, offset: u64, len: u32) -> Result<Vec<Run>, DiskError> {
        let mut runs = Vec::new();
        let look = |bytes: &mut [u8]| {
            let run = |block: &[u8]| Run {
                len: block.len() as u64,
                hole: block.iter().all(|byte| *byte == 0),
                ..Run::default()
            };
            runs = bytes.chunks(4096).map(run).collect();
        };
        self.change(offset, len as usize, look)?;
        Ok(runs)
    }
}

struct Only(Arc<Ram>);

impl Disks for Only {
    type Disk = Ram;

    fn list(&self) -> Vec<DiskName> {
        vec![DiskName { name: "ram".into(), description: String::new() }]
    }

    fn open(&self, name: &str) -> Option<Opened<Ram>> {
        (name == "ram").then(|| Opened { disk: Arc::clone(&self.0), requester: Requester::default() })
    }
}

/// What a thread received.
struct Reader(mpsc::Receiver<Vec<u8>>, Vec<u8>);

impl ReadHalf for Reader {
    async fn read(&mut self, mut buf: BufMut, start: usize) -> (io::Result<usize>, BufMut) {
        if self.1.is_empty() {
            self.1 = self.0.next().await.unwrap_or_default();
        }
        let len = self.1.len().min(buf.len() - start);
        buf[start..start + len].copy_from_slice(&self.1[..len]);
        self.1.drain(..len);
        (Ok(len), buf)
    }
}

struct Writer(TcpStream);

impl WriteHalf for Writer {
    async fn write_all(&mut self, mut pieces: Vec<Bytes>) -> (io::Result<()>, Vec<Bytes>) {
        let result = pieces.iter().try_for_each(|piece| self.0.write_all(piece));
        pieces.clear();
        (result, pieces)
    }

    async fn shutdown(&mut self) {
        // The initiator may be gone already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn receive(mut stream: TcpStream, mut sender: mpsc::Sender<Vec<u8>>) {
    let mut buf = vec![0; 256 << 10];
    while let Ok(len @ 1..) = stream.read(&mut buf) {
        if futures_executor::block_on(futures_util::SinkExt::send(&mut sender, buf[..len].to_vec())).is_err() {
            return;
        }
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3260".into());
    let mib = arguments.next().and_then(|mib| mib.parse().ok()).unwrap_or(64);
    let ram = Arc::new(Ram(Mutex::new(vec![0; mib << 20])));
    let options = ServerOptions::default();
    let listener = TcpListener::bind(address)?;
    println!("iscsi://{}/{}ram/0", listener.local_addr()?, nitro_iscsi::TARGET_PREFIX);
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        let ends = Ends { peer: stream.peer_addr().ok().map(|a| a.ip()), portal: stream.local_addr().ok() };
        let (disks, options, other) = (Only(Arc::clone(&ram)), options.clone(), stream.try_clone()?);
        let (sender, receiver) = mpsc::channel(4);
        std::thread::spawn(move || receive(other, sender));
        std::thread::spawn(move || {
            let (reader, writer) = (Reader(receiver, Vec::new()), Writer(stream));
            let serving = serve(reader, writer, ends, &disks, &options, std::future::pending());
            match futures_executor::block_on(serving) {
                Ok(summary) => eprintln!("{summary:?}"),
                Err(error) => eprintln!("{error}"),
            }
        });
    }
    Ok(())
}
