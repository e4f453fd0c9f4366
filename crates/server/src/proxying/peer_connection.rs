//! A connection to a peer: bytes there and back, plain or TLS.

use super::failure::{Doing, Failure};
use super::identity;
use super::wire::http2::Session;
use super::{PassRuntime, Target};
use crate::chain::{OutputChain, Segment};
use crate::exchange::Exchange;
use crate::socket::Socket;
use crate::upstream::{Peer, PeerAddress};
use sealane_conf::model::UpstreamSettings;
use sealane_sys::socket::{local_address, set_transparent};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::task::{Context, Poll, Waker, ready};
use tokio::net::{TcpSocket, UnixStream};

/// Bytes read of what a peer says on an idle connection; one that says more is closed.
const IDLE_READ_BYTES: usize = 4096;
/// Pieces of memory that leave in one call.
const MAX_PIECES: usize = 16;

/// A connection to a peer.
pub(crate) struct PeerConnection {
    socket: Socket,
    /// What both sides agreed on in HTTP/2, between two requests.
    pub(crate) http2: Option<Box<Session>>,
}

impl PeerConnection {
    /// A connection that stands.
    pub(crate) fn new(socket: Socket) -> PeerConnection {
        PeerConnection {
            socket,
            http2: None,
        }
    }

    /// The same connection, whose events arrive at this thread's loop from now on.
    pub(crate) fn move_here(self) -> io::Result<PeerConnection> {
        let socket = self.socket.move_here()?;
        Ok(PeerConnection { socket, ..self })
    }

    /// Our address on it (`$upstream_local_addr`-like diagnostics, PROXY protocol).
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        local_address(self.socket.as_fd()).ok().flatten()
    }

    /// Appends up to `max` received bytes; 0 is the end.
    pub(crate) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, buf, max)
    }

    /// Sends from the chain, which gets shorter by the result.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        chain: &mut OutputChain,
    ) -> Poll<io::Result<u64>> {
        let sent = match chain.front() {
            None => 0,
            Some(Segment::File(range)) => {
                let count = range.len.min(1 << 30) as usize;
                let sent = self
                    .socket
                    .poll_sendfile(cx, range.file.as_fd(), range.offset, count);
                match ready!(sent)? {
                    0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    sent => sent as u64,
                }
            }
            Some(Segment::Memory(_)) => ready!(self.poll_send_memory(cx, chain))?,
        };
        chain.advance(sent);
        Poll::Ready(Ok(sent))
    }

    fn poll_send_memory(
        &mut self,
        cx: &mut Context<'_>,
        chain: &OutputChain,
    ) -> Poll<io::Result<u64>> {
        let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
        let mut count = 0;
        let mut more = false;
        for segment in chain.segments() {
            match segment {
                Segment::Memory(bytes) if count < MAX_PIECES => {
                    pieces[count] = IoSlice::new(bytes);
                    count += 1;
                }
                _ => {
                    more = true;
                    break;
                }
            }
        }
        let sent = ready!(self.socket.poll_send(cx, &pieces[..count], more))?;
        Poll::Ready(Ok(sent as u64))
    }

    /// Whether an idle connection can take another request: the peer has neither
    /// closed it nor said anything unasked.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut unasked = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        // HTTP/2 has frames that may come at any time.
        let max = if self.http2.is_some() {
            IDLE_READ_BYTES
        } else {
            1
        };
        match self.poll_recv(&mut cx, &mut unasked, max) {
            Poll::Pending => true,
            Poll::Ready(Ok(1..)) => self.stays_idle(&mut cx, &unasked),
            Poll::Ready(_) => false,
        }
    }

    /// Whether what an HTTP/2 peer says while the connection is idle leaves it usable.
    fn stays_idle(&mut self, cx: &mut Context<'_>, input: &[u8]) -> bool {
        let Some(session) = &mut self.http2 else {
            return false;
        };
        let mut out = Vec::new();
        if !session.stays_idle(input, &mut out) {
            return false;
        }
        let mut chain = OutputChain::new();
        chain.push_bytes(out);
        while !chain.is_empty() {
            if !matches!(self.poll_send(cx, &mut chain), Poll::Ready(Ok(_))) {
                return false;
            }
        }
        true
    }
}

/// Opens a connection to a peer, and whatever has to stand before the request.
pub(crate) async fn open(
    exchange: &Exchange,
    pass: &PassRuntime,
    _target: &Target,
    peer: &Peer,
) -> Result<PeerConnection, Failure> {
    let settings = pass.settings();
    let socket = connect(exchange, settings, peer.address())
        .await
        .map_err(Failure::Connect)?;
    let mut connection = PeerConnection::new(socket);
    if let Some(header) = identity::proxy_header(exchange) {
        // Before anything else, TLS included.
        let mut chain = OutputChain::new();
        chain.push_bytes(header);
        while !chain.is_empty() {
            poll_fn(|cx| connection.poll_send(cx, &mut chain))
                .await
                .map_err(|error| Failure::Io(error, Doing::Connecting))?;
        }
    }
    Ok(connection)
}

async fn connect(
    exchange: &Exchange,
    settings: &UpstreamSettings,
    address: &PeerAddress,
) -> io::Result<Socket> {
    let address = match address {
        PeerAddress::Ip(address) => *address,
        PeerAddress::Unix(path) => return UnixStream::connect(path).await.map(Socket::Unix),
    };
    let socket = match address.is_ipv4() {
        true => TcpSocket::new_v4()?,
        false => TcpSocket::new_v6()?,
    };
    if settings.socket_keepalive {
        socket.set_keepalive(true)?;
    }
    if let Some(local) = identity::bind_address(exchange, settings)
        // As in nginx an address of the other family is not used.
        && local.address.is_ipv4() == address.is_ipv4()
    {
        if local.transparent {
            set_transparent(socket.as_fd(), address.is_ipv4())?;
        }
        socket.bind(local.address)?;
    }
    socket.set_nodelay(true)?;
    socket.connect(address).await.map(Socket::Tcp)
}

/// Closes a connection that nobody uses any more, in good manners as far as that
/// costs no waiting.
pub(crate) fn close(connection: PeerConnection) {
    drop(connection);
}
