//! Sockets.

use crate::common::folder;
use bytes::Bytes;
use nitro_device::net::{Accepted, ListenAddress, Listener, Peer, StreamReader, TcpLimits};
use nitro_device::{ErrorKind, Reactor, spawn_local, spawn_thread};
use nitro_port::buf::BufMut;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::task::Poll;
use std::time::Duration;
use std::{fs, thread};

async fn read_exact(reader: &mut StreamReader, len: usize) -> BufMut {
    let (mut buf, mut done) = (BufMut::with_len(len), 0);
    while done < len {
        let (read, back) = reader.read(buf, done).await;
        buf = back;
        done += read.unwrap();
    }
    buf
}

/// Sends back, in many pieces, what comes in: `len` bytes.
async fn echo(accepted: Accepted, len: usize) {
    let (mut reader, mut writer) = accepted.into_split().unwrap();
    let bytes = read_exact(&mut reader, len).await.freeze();
    let pieces = bytes.chunks(1000).map(|c| bytes.slice_ref(c)).chain([Bytes::new()]).collect();
    let (sent, pieces) = writer.write_all(pieces).await;
    sent.unwrap();
    assert!(pieces.is_empty() && pieces.capacity() > 0);
    writer.shutdown().unwrap();
    assert_eq!(reader.read(BufMut::with_len(10), 3).await.0.unwrap(), 0);
}

/// Large enough for partial sends and for more than 1024 pieces.
const LEN: usize = 12 << 20;

fn check_echo(stream: impl Read + Write + Send) {
    let data: Vec<u8> = (0..LEN).map(|i| (i * 31 % 255) as u8).collect();
    let mut stream = stream;
    stream.write_all(&data).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == data);
}

#[test]
fn a_unix_connection_is_served_by_another_thread() {
    let folder = folder();
    let path = folder.path().join("s");
    let address = ListenAddress::Unix(path.clone());
    Reactor::new().unwrap().block_on(async {
        let listener = Listener::bind(&address).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let client = thread::spawn({
            let path = path.clone();
            move || check_echo(UnixStream::connect(path).unwrap())
        });
        let accepted = listener.accept().await.unwrap();
        assert_eq!(accepted.peer(), "unix");
        let me = Peer::Process { uid: rustix::process::getuid().as_raw(), pid: std::process::id() as i32 };
        assert_eq!(accepted.peer_identity(), me);
        spawn_thread("echo", move || echo(accepted, LEN)).unwrap().join().unwrap();
        client.join().unwrap();
    });
    assert!(!path.exists(), "the socket file was left behind");
}

#[test]
fn a_tcp_connection_is_served() {
    Reactor::new().unwrap().block_on(async {
        let listener = Listener::bind(&ListenAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let ListenAddress::Tcp(at) = *listener.address() else { panic!("not TCP") };
        let client = thread::spawn(move || check_echo(TcpStream::connect(at).unwrap()));
        let accepted = listener.accept().await.unwrap();
        assert!(accepted.peer().starts_with("127.0.0.1:"));
        let (done, wait) = futures_util::future::abortable(std::future::pending::<()>());
        spawn_local(async move {
            echo(accepted, LEN).await;
            wait.abort();
        });
        let _ = done.await;
        client.join().unwrap();
    });
}

#[test]
fn a_socket_in_use_is_respected_and_a_stale_one_replaced() {
    let folder = folder();
    let path = folder.path().join("s");
    let address = ListenAddress::Unix(path.clone());
    Reactor::new().unwrap().block_on(async {
        // The standard library leaves the file behind, as a crash does.
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::bind(&address).unwrap();
        let error = Listener::bind(&address).err().unwrap();
        assert_eq!(error.kind, ErrorKind::InUse);
        assert!(error.to_string().starts_with("cannot listen on unix:/"), "{error}");
        drop(listener);
        fs::write(&path, "precious").unwrap();
        assert_eq!(Listener::bind(&address).err().unwrap().kind, ErrorKind::Exists);
        assert!(path.exists());
    });
}

#[test]
fn a_tcp_peer_that_is_gone_is_noticed_in_time() {
    use rustix::net::sockopt::{socket_keepalive, tcp_keepidle, tcp_user_timeout};
    Reactor::new().unwrap().block_on(async {
        let limits = TcpLimits { keepalive: Duration::from_secs(77), user_timeout: Duration::from_secs(99) };
        let address = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = Listener::bind(&address).unwrap().with_tcp(limits);
        let ListenAddress::Tcp(at) = *listener.address() else { panic!("not TCP") };
        let _client = TcpStream::connect(at).unwrap();
        let accepted = listener.accept().await.unwrap();
        assert!(socket_keepalive(&accepted).unwrap());
        assert_eq!(tcp_keepidle(&accepted).unwrap(), limits.keepalive);
        assert_eq!(tcp_user_timeout(&accepted).unwrap(), 99_000);
        assert_eq!(accepted.peer_identity(), Peer::Host("127.0.0.1".parse().unwrap()));
    });
}

/// The kernel writes into the memory of a receive until it has answered: memory that was given back too early, and taken by the
/// next buffer, changes there.
#[test]
fn a_reactor_that_ends_takes_its_receives_along() {
    const LEN: usize = 64 << 10;
    for _ in 0..50 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut theirs = theirs;
        let sender = thread::spawn(move || {
            // Refused once the other end is closed.
            while theirs.write_all(&[0xEE; 4096]).is_ok() {}
        });
        Reactor::new().unwrap().block_on(async {
            let (mut reader, _writer) = Accepted::from(std::os::fd::OwnedFd::from(ours)).into_split().unwrap();
            // As a task of a reactor that ends: begun, and not waited for.
            spawn_local(async move {
                let mut buf = BufMut::zeroed(LEN);
                loop {
                    let (read, back) = reader.read(buf, 0).await;
                    buf = back;
                    if read.unwrap() == 0 {
                        return;
                    }
                }
            });
            let mut turns = 3;
            std::future::poll_fn(|context| {
                turns -= 1;
                context.waker().wake_by_ref();
                if turns == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
        let taken: Vec<_> = (0..8).map(|_| BufMut::zeroed(LEN)).collect();
        sender.join().unwrap();
        assert!(taken.iter().all(|buf| buf.iter().all(|byte| *byte == 0)), "a receive went on into memory given back");
    }
}
