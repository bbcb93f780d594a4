//! One connection, with limits on its headers, its requests and its time.

use super::answer::Site;
use futures_util::future::{Either, select};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nitro_device::net::Peer;
use rustix::fd::OwnedFd;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Maximum number of connections; a further one takes the place of the oldest one of its host, or of one that has more.
pub(super) const CONNECTIONS_MAX: usize = 32;
/// Headers of a request, in number and in bytes.
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Time limit for a request's headers, including the wait for the request.
const HEADERS_TIME_MAX: Duration = Duration::from_secs(10);
/// Time after which a connection accepts no further request, and the time limit of its last answer.
const LIFE_MAX: Duration = Duration::from_secs(300);
const FAREWELL_MAX: Duration = Duration::from_secs(10);

/// A connected socket.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Registers a connected socket; to be called inside the runtime.
    pub(super) fn new(socket: OwnedFd, is_tcp: bool) -> io::Result<Self> {
        if is_tcp {
            let stream = std::net::TcpStream::from(socket);
            stream.set_nonblocking(true)?;
            return TcpStream::from_std(stream).map(Self::Tcp);
        }
        let stream = std::os::unix::net::UnixStream::from(socket);
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream).map(Self::Unix)
    }

    /// Answers its requests until it ends, or until its time limit.
    pub(super) async fn serve(self, site: &Rc<Site>, peer: Peer) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Tcp(stream) => serve(stream, site, peer).await,
            Self::Unix(stream) => serve(stream, site, peer).await,
        }
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    site: &Rc<Site>,
    peer: Peer,
) -> Result<(), Box<dyn Error>> {
    let answering = service_fn(|request| {
        let site = Rc::clone(site);
        async move { Ok::<_, Infallible>(site.answer(request, peer).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS_TIME_MAX);
    server.max_headers(HEADERS_MAX).max_buf_size(HEADER_BYTES_MAX);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), answering));
    if let Either::Left((ended, _)) = select(connection.as_mut(), pin!(tokio::time::sleep(LIFE_MAX))).await {
        return Ok(ended?);
    }
    connection.as_mut().graceful_shutdown();
    match select(connection, pin!(tokio::time::sleep(FAREWELL_MAX))).await {
        Either::Left((ended, _)) => Ok(ended?),
        Either::Right(_) => Err("it took too long to read its answer".into()),
    }
}
