//! An NBD client in memory, and a server that says what it is given.

use bytes::{Bytes, BytesMut};
use futures_executor::{LocalPool, LocalSpawner};
use futures_util::future::join5;
use futures_util::task::LocalSpawnExt as _;
use nitro_nbd::client::{ClientOptions, Connect, Security, open};
use nitro_nbd::protocol::{
    InfoItem, OptionCode, OptionReply, REQUEST_MAGIC, put_greeting, put_info, put_meta_context, put_reply,
};
use nitro_nbd::transport::memory::{MemoryReader, MemoryWriter, duplex};
use nitro_nbd::transport::{ReadHalf as _, WriteHalf as _};
use nitro_port::buf::BufMut;
use nitro_port::{Allocation, Clock, Device as _};
use std::cell::RefCell;
use std::future::pending;
use std::io;
use std::time::Duration;

/// Size of the export of [`handshake`] in bytes.
const EXPORT_BYTES: u64 = 1 << 20;
/// Bytes of the client's longest read.
pub const READ_BYTES: usize = 64 << 10;

/// Time stands still.
struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {
        pending().await
    }
}

/// One connection, to a server that says the first text at once, and the second after the client's first request.
struct Once {
    says: RefCell<Option<[Vec<u8>; 2]>>,
    piece_bytes: usize,
    spawner: LocalSpawner,
}

impl Connect for Once {
    type Read = MemoryReader;
    type Write = MemoryWriter;

    async fn connect(&self) -> io::Result<(MemoryReader, MemoryWriter)> {
        let [first, then] = self.says.borrow_mut().take().ok_or(io::ErrorKind::ConnectionRefused)?;
        let (ours, mut theirs) = duplex(crate::nbd::STREAM_BYTES);
        let piece_bytes = self.piece_bytes.max(1);
        let speak = async move {
            say(&mut theirs.writer, &first, piece_bytes).await;
            let (mut heard, mut then) = (Vec::new(), Some(then));
            let mut buf = BufMut::with_len(4096);
            loop {
                let has_asked = heard.windows(4).any(|word| word == REQUEST_MAGIC.to_be_bytes());
                if let Some(then) = then.take_if(|then| has_asked || then.is_empty()) {
                    say(&mut theirs.writer, &then, piece_bytes).await;
                    theirs.writer.shutdown().await;
                }
                let (read, back) = theirs.reader.read(buf, 0).await;
                buf = back;
                match read {
                    Ok(len @ 1..) if then.is_some() => heard.extend_from_slice(&buf[..len]),
                    Ok(1..) => {}
                    _ => return,
                }
            }
        };
        self.spawner.spawn_local(speak).map_err(io::Error::other)?;
        Ok((ours.reader, ours.writer))
    }
}

async fn say(writer: &mut MemoryWriter, bytes: &[u8], piece_bytes: usize) {
    for piece in bytes.chunks(piece_bytes) {
        if writer.write_all(vec![Bytes::copy_from_slice(piece)]).await.0.is_err() {
            return;
        }
    }
}

/// What a server says in a handshake in which all is well.
#[must_use]
pub fn handshake(flags: u16) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_greeting(&mut out);
    put_reply(&mut out, OptionCode::StructuredReply, OptionReply::Ack, &[]);
    put_meta_context(&mut out, OptionCode::SetMetaContext, 1, "base:allocation");
    put_reply(&mut out, OptionCode::SetMetaContext, OptionReply::Ack, &[]);
    put_info(&mut out, OptionCode::Go, InfoItem::Export { size_bytes: EXPORT_BYTES, flags });
    put_info(&mut out, OptionCode::Go, InfoItem::BlockSize { min: 1, preferred: 4096, max: 32 << 20 });
    put_reply(&mut out, OptionCode::Go, OptionReply::Ack, &[]);
    out.to_vec()
}

/// Connects to a server that says `first` in pieces, and `then` when it is asked for something, and sends five requests, with the cookies 1 to 5.
///
/// # Panics
/// An answer is not as long as what was asked for.
pub fn hear(first: Vec<u8>, then: Vec<u8>, piece_bytes: usize) {
    let mut pool = LocalPool::new();
    let spawner = pool.spawner();
    let once = Once { says: RefCell::new(Some([first, then])), piece_bytes, spawner: spawner.clone() };
    let talk = async move {
        let options = ClientOptions::new("disk", "server", Security::Plain);
        let Ok((disk, driver)) = open(options, once, NoTime).await else { return };
        spawner.spawn_local(driver.run()).expect("the pool is there");
        let size = disk.geometry().size_bytes;
        let (long, short) = ((READ_BYTES as u64).min(size), 512.min(size));
        let (long, short, map, ..) = join5(
            disk.read(0, long as usize),
            disk.read(0, short as usize),
            disk.allocation(0, size.min(EXPORT_BYTES)),
            disk.write(0, Bytes::from(vec![7; disk.geometry().block_bytes as usize])),
            disk.flush(),
        )
        .await;
        assert!(long.is_err() || long.is_ok_and(|data| data.len() as u64 == (READ_BYTES as u64).min(size)));
        assert!(short.is_err() || short.is_ok_and(|data| data.len() as u64 == 512.min(size)));
        let bytes = |map: Vec<Allocation>| map.iter().map(|run| run.len).sum::<u64>();
        assert!(map.is_err() || map.is_ok_and(|map| bytes(map) == size.min(EXPORT_BYTES)));
    };
    pool.spawner().spawn_local(talk).expect("the pool is there");
    // Requests wait for ever if the connection ends: there is no time in which another could be made.
    pool.run_until_stalled();
}
