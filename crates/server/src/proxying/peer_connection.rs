//! A connection to a peer: bytes there and back, plain or TLS.

use super::PassRuntime;
use super::failure::{Doing, Failure};
use super::identity;
use super::pause::Pause;
use super::peer_tls::TlsLink;
use super::tls_settings::Secured;
use super::wire::http2::Session;
use crate::chain::{OutputChain, Segment};
use crate::exchange::Exchange;
use crate::socket::Socket;
use sealane_conf::model::UpstreamSettings;
use sealane_sys::socket::set_transparent;
use sealane_upstream::{Peer, PeerAddress};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::task::{Context, Poll, Waker, ready};
use tokio::net::{TcpSocket, UnixStream};
use tokio::time::{Instant, timeout_at};

/// Bytes read of what a peer says on an idle connection; one that says more is closed.
const IDLE_READ_BYTES: usize = 4096;
/// Pieces of memory that leave in one call.
const MAX_PIECES: usize = 16;

/// A connection to a peer.
pub(crate) struct PeerConnection {
    link: Link,
    /// What both sides agreed on in HTTP/2, between two requests.
    pub(crate) http2: Option<Box<Session>>,
    /// The timers of conversations on it: kept from one to the next, since a timer that is
    /// there is moved for less than a new one costs.
    pub(crate) timers: Timers,
}

/// What a conversation waits with: `proxy_send_timeout` and `proxy_read_timeout`.
#[derive(Default)]
pub(crate) struct Timers {
    pub(crate) sending: Pause,
    pub(crate) reading: Pause,
}

impl Timers {
    /// Nobody waits any more.
    pub(crate) fn end(&mut self) {
        self.sending.end();
        self.reading.end();
    }
}

enum Link {
    Plain(Socket),
    Tls(Box<TlsLink>),
}

impl PeerConnection {
    fn new(link: Link) -> PeerConnection {
        PeerConnection {
            link,
            http2: None,
            timers: Timers::default(),
        }
    }

    /// The same connection, whose events arrive at this thread's loop from now on.
    pub(crate) fn move_here(self) -> io::Result<PeerConnection> {
        let link = match self.link {
            Link::Plain(socket) => Link::Plain(socket.move_here()?),
            Link::Tls(link) => Link::Tls(link.move_here()?),
        };
        // The timers belong to the other thread's loop.
        Ok(PeerConnection {
            link,
            timers: Timers::default(),
            ..self
        })
    }

    /// Appends up to `max` received bytes; 0 is the end.
    pub(crate) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        match &mut self.link {
            Link::Plain(socket) => socket.poll_recv(cx, buf, max),
            Link::Tls(link) => link.poll_recv(cx, buf, max),
        }
    }

    /// Whether the end that was received may be somebody else's doing: TLS was not closed.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(&self.link, Link::Tls(link) if link.is_cut())
    }

    /// Sends from the chain, which gets shorter by the result.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        chain: &mut OutputChain,
    ) -> Poll<io::Result<u64>> {
        let socket = match &mut self.link {
            Link::Plain(socket) => &*socket,
            Link::Tls(link) => return link.poll_send(cx, chain),
        };
        let sent = match chain.front() {
            None => 0,
            Some(Segment::File(range)) => {
                let count = range.len.min(1 << 30) as usize;
                let sent = socket.poll_sendfile(cx, range.file.as_fd(), range.offset, count);
                match ready!(sent)? {
                    0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    sent => sent as u64,
                }
            }
            Some(Segment::Memory(_)) => ready!(poll_send_memory(socket, cx, chain))?,
        };
        chain.advance(sent);
        Poll::Ready(Ok(sent))
    }

    /// Whether an idle connection can take another request: the peer has neither
    /// closed it nor said anything unasked. TLS session tickets that come late are read
    /// and kept.
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

fn poll_send_memory(
    socket: &Socket,
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
    let sent = ready!(socket.poll_send(cx, &pieces[..count], more))?;
    Poll::Ready(Ok(sent as u64))
}

/// Opens a connection to a peer, and whatever has to stand before the request. As in
/// nginx one `proxy_connect_timeout` is for all of it.
pub(crate) async fn open(
    exchange: &Exchange,
    pass: &PassRuntime,
    secured: Option<&Secured>,
    peer: &Peer,
) -> Result<PeerConnection, Failure> {
    let settings = pass.settings();
    let tls = match secured {
        Some(secured) => Some((secured, secured.client().await?)),
        None => None,
    };
    let deadline = Instant::now() + settings.connect_timeout;
    let socket = timeout_at(deadline, connect(exchange, settings, peer.address()))
        .await
        .map_err(|_| Failure::TimedOut(Doing::Connecting))?
        .map_err(|error| {
            let is_unix = matches!(peer.address(), PeerAddress::Unix(_));
            Failure::Connect(error, is_unix.then(|| (**peer.name()).into()))
        })?;
    if let Some(header) = identity::proxy_header(exchange) {
        // Before anything else, TLS included.
        timeout_at(deadline, send_first(&socket, header))
            .await
            .map_err(|_| Failure::TimedOut(Doing::Connecting))?
            .map_err(|error| Failure::Io(error, Doing::Connecting))?;
    }
    let Some((secured, client)) = tls else {
        return Ok(PeerConnection::new(Link::Plain(socket)));
    };
    let sessions = &exchange.worker.process.upstream_sessions;
    let mut link = secured.begin(&client, socket, peer, sessions)?;
    timeout_at(deadline, link.handshake())
        .await
        .map_err(|_| Failure::TimedOut(Doing::Handshaking))?
        .map_err(|error| Failure::broken(error, Doing::Handshaking))?;
    Ok(PeerConnection::new(Link::Tls(Box::new(link))))
}

async fn send_first(socket: &Socket, bytes: Vec<u8>) -> io::Result<()> {
    let mut chain = OutputChain::new();
    chain.push_bytes(bytes);
    while !chain.is_empty() {
        let sent = poll_fn(|cx| poll_send_memory(socket, cx, &chain)).await?;
        chain.advance(sent);
    }
    Ok(())
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
/// costs no waiting: TLS says goodbye when it is dropped.
pub(crate) fn close(connection: PeerConnection) {
    drop(connection);
}
