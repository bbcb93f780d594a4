//! A protocol of one byte a request, each answered by itself, over the loop that NBD and iSCSI share.

use bytes::{BufMut as _, Bytes};
use futures_executor::block_on;
use futures_util::FutureExt as _;
use futures_util::future::{FusedFuture, join, pending};
use nitro_frontend::transport::memory::{MemoryReader, MemoryWriter, pipe};
use nitro_frontend::transport::{ReadHalf as _, WriteHalf as _};
use nitro_frontend::{Connection, Cost, Protocol, Receiver, RequestMemory, Tasks, Work, drive};
use nitro_port::buf::BufMut;
use nitro_port::yielding::yield_now;
use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::sync::Arc;

#[derive(Debug, PartialEq)]
enum End {
    HungUp,
    Stopped,
}

struct Echo {
    connection: Connection,
    in_flight: Cell<u32>,
    lefts: Cell<u32>,
}

impl Protocol for Echo {
    type End = End;
    type Error = io::ErrorKind;
    const STOPPED: End = End::Stopped;

    fn connection(&self) -> &Connection {
        &self.connection
    }
    fn left(&self) {
        self.lefts.set(self.lefts.get() + 1);
    }
    fn sent(&self, settles: Cost) {
        self.in_flight.set(self.in_flight.get() - settles.requests);
    }
    fn overdue(&self, _is_reading: bool) -> io::ErrorKind {
        io::ErrorKind::TimedOut
    }
    fn unsent(&self, source: io::Error) -> io::ErrorKind {
        source.kind()
    }
}

impl Echo {
    fn new() -> Self {
        let connection = Connection::new(&Arc::new(RequestMemory::new(1 << 20, 1)));
        Self { connection, in_flight: Cell::new(0), lefts: Cell::new(0) }
    }

    async fn read(&self, reader: MemoryReader, start: impl Fn(u8)) -> Result<End, io::ErrorKind> {
        let mut receiver = Receiver::new(reader);
        while receiver.fill(1).await.map_err(|e| e.kind())? {
            let byte = receiver.window()[0];
            receiver.consume(1);
            self.in_flight.set(self.in_flight.get() + 1);
            self.connection.counts.requests.add(1);
            start(byte);
        }
        Ok(End::HungUp)
    }

    /// Answers a byte, after a few turns of others.
    async fn answer(&self, byte: u8) {
        for _ in 0..byte % 4 {
            yield_now().await;
        }
        self.connection.reply(Cost::request(0), |queue| queue.headers().put_u8(byte));
    }

    async fn serve(
        &self,
        (reader, writer): (MemoryReader, MemoryWriter),
        stop: impl FusedFuture<Output = ()>,
    ) -> (Result<End, io::ErrorKind>, Work) {
        let tasks = Tasks::default();
        drive(self, self.read(reader, |byte| tasks.start(self.answer(byte))), &tasks, writer, pin!(stop)).await
    }
}

/// Reads to the end of the stream.
async fn received(mut reader: MemoryReader) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let (len, buf) = reader.read(BufMut::with_len(64), 0).await;
        match len.expect("a stream in memory") {
            0 => return all,
            len => all.extend(&buf[..len]),
        }
    }
}

#[test]
fn each_request_is_answered_before_the_end() {
    let echo = Echo::new();
    let ((server_reader, mut client), (answers, server_writer)) = (pipe(16), pipe(16));
    let requests: Vec<u8> = (0..=255).collect();
    let ask = async {
        client.write_all(vec![Bytes::from(requests.clone())]).await.0.unwrap();
        client.shutdown().await;
    };
    let served = echo.serve((server_reader, server_writer), pending().fuse());
    let ((served, ()), mut answers) = block_on(join(join(served, ask), received(answers)));
    assert_eq!(served, (Ok(End::HungUp), Work { requests: 256, ..Work::default() }));
    answers.sort_unstable();
    assert_eq!(answers, requests);
    assert_eq!((echo.in_flight.get(), echo.lefts.get()), (0, 1));
}

#[test]
fn a_stop_lets_what_is_under_way_end() {
    let echo = Echo::new();
    let ((server_reader, mut client), (answers, server_writer)) = (pipe(16), pipe(16));
    block_on(client.write_all(vec![Bytes::from_static(&[3; 5])])).0.unwrap();
    // It fires when the first requests have been begun.
    let stop = async {
        while echo.in_flight.get() == 0 {
            yield_now().await;
        }
    };
    let served = echo.serve((server_reader, server_writer), stop.fuse());
    let (served, answers) = block_on(join(served, received(answers)));
    assert_eq!(served.0, Ok(End::Stopped));
    assert_eq!((answers.len() as u64, echo.in_flight.get(), echo.lefts.get()), (served.1.requests, 0, 1));
}

#[test]
fn without_a_client_its_requests_are_still_carried_out() {
    let echo = Echo::new();
    let ((server_reader, mut client), (answers, server_writer)) = (pipe(16), pipe(16));
    block_on(client.write_all(vec![Bytes::from_static(&[0, 3, 3])])).0.unwrap();
    drop(answers);
    let (end, work) = block_on(echo.serve((server_reader, server_writer), pending().fuse()));
    assert_eq!((end, work.requests), (Err(io::ErrorKind::BrokenPipe), 3));
    assert_eq!(echo.lefts.get(), 1);
}
