//! A connection to a peer: bytes there and back, plain or TLS.

use super::PassRuntime;
use super::failure::{Doing, Failure};
use super::identity;
use super::pause::Pause;
use super::tls_settings::Secured;
use super::tunnel;
use super::wire::http2::Session;
use crate::exchange::Exchange;
use sealane_conf::model::UpstreamSettings;
use sealane_io::chain::OutputChain;
use sealane_io::runtime::timeout_at;
use sealane_io::socket::Socket;
use sealane_io::stream::Sealed;
use sealane_io::{Endpoint, OutboundMessage, Received, Stream, StreamError};
use sealane_sys::socket::set_transparent;
use sealane_tls::Ktls;
use sealane_tls::client::Connection as TlsConnection;
use sealane_upstream::{Peer, PeerAddress};
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Bytes read of what a peer says on an idle connection; one that says more is closed.
const IDLE_READ_BYTES: usize = 4096;

/// Why a connection to a peer cannot go on.
pub(crate) type PeerError = StreamError<sealane_tls::client::Error>;

/// A connection to a peer. Dropping it says goodbye in TLS (close_notify), as far as the socket
/// takes that without waiting.
pub(crate) struct PeerConnection {
    stream: Stream<PeerSocket, TlsConnection>,
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

/// The socket of a peer; `None` only while it moves to another event loop.
struct PeerSocket(Option<Socket>);

impl Endpoint for PeerSocket {
    fn socket(&self) -> &Socket {
        let socket = self.0.as_ref();
        socket.expect("a connection whose socket could not be moved is dropped at once")
    }

    fn note_ktls(&self, _state: Ktls<'_>) {}

    fn note_sendfile(&self, _bytes: u64) {}
}

impl PeerConnection {
    fn new(socket: Socket) -> PeerConnection {
        PeerConnection {
            stream: Stream::new(PeerSocket(Some(socket))),
            http2: None,
            timers: Timers::default(),
        }
    }

    /// From now on its events arrive at this thread's loop.
    fn move_here(&mut self) -> io::Result<()> {
        let socket = &mut self.stream.endpoint_mut().0;
        match socket.take() {
            Some(here) if here.is_here() => *socket = Some(here),
            Some(there) => {
                *socket = Some(there.move_here()?);
                // The timers belong to the other thread's loop.
                self.timers = Timers::default();
            }
            None => {}
        }
        Ok(())
    }

    /// Begins TLS.
    pub(super) fn start_tls(&mut self, tls: Sealed<TlsConnection>) {
        self.stream.start_tls(tls);
    }

    /// Continues the handshake. Ready once, when it is done.
    pub(super) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        self.stream.poll_handshake(cx, true).map_ok(|_| ())
    }

    /// Appends up to `max` received bytes.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<Received, PeerError>> {
        self.stream.poll_receive(cx, buf, max)
    }

    /// Whether the end that was received may be somebody else's doing: TLS was not closed.
    pub(crate) fn is_cut(&self) -> bool {
        self.stream.tls().is_some_and(|tls| tls.is_cut())
    }

    /// Sends the message; see [`Stream::poll_send`].
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<(), PeerError>> {
        self.stream.poll_send(cx, message)
    }

    /// Ends this side's direction of a plain connection. False if the connection cannot do that
    /// without its other direction: TLS may close for both.
    pub(crate) fn end_sending(&mut self) -> bool {
        self.stream.tls().is_none() && self.stream.endpoint_mut().socket().end_sending().is_ok()
    }

    /// Whether something of a message has not left yet.
    pub(crate) fn has_unsent(&self) -> bool {
        self.stream.has_unsent()
    }

    /// No conversation is on it any more: it gives back what an idle connection does not need.
    pub(crate) fn rest(&mut self) {
        self.timers.end();
        self.stream.release_buffers();
    }

    /// Whether an idle connection, maybe of another thread, can take another request here: the peer
    /// has neither closed it nor said anything unasked. TLS session tickets that come late are read
    /// and kept.
    pub(crate) fn is_quiet(&mut self) -> bool {
        if self.move_here().is_err() {
            return false;
        }
        let mut unasked = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        // HTTP/2 has frames that may come at any time.
        let max = if self.http2.is_some() {
            IDLE_READ_BYTES
        } else {
            1
        };
        match self.poll_receive(&mut cx, &mut unasked, max) {
            Poll::Pending => true,
            Poll::Ready(Ok(Received::Bytes(_))) => self.stays_idle(&mut cx, &unasked),
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
        let mut message = OutboundMessage::new(out, OutputChain::new());
        matches!(self.poll_send(cx, &mut message), Poll::Ready(Ok(())))
    }
}

/// Opens a connection to a peer at this address, which is its own or, for a health check, one with
/// another port; and whatever has to stand before the request. As in
/// nginx one `proxy_connect_timeout` is for all of it.
pub(crate) async fn open(
    exchange: &Exchange,
    pass: &PassRuntime,
    secured: Option<&Secured>,
    peer: &Peer,
    address: &PeerAddress,
) -> Result<PeerConnection, Failure> {
    let settings = pass.settings();
    if let Some(refusal) = tunnel::refusal(pass, address) {
        return Err(refusal);
    }
    let tls = match secured {
        Some(secured) => Some((secured, secured.client().await?)),
        None => None,
    };
    let deadline = Instant::now() + tunnel::connect_timeout(exchange, pass);
    let socket = timeout_at(deadline, connect(exchange, settings, address))
        .await
        .map_err(|_| Failure::TimedOut(Doing::Connecting))?
        .map_err(|error| {
            let is_unix = matches!(address, PeerAddress::Unix(_));
            Failure::Connect(error, is_unix.then(|| (**peer.name()).into()))
        })?;
    let mut connection = PeerConnection::new(socket);
    if let Some(header) = identity::proxy_header(exchange) {
        // Before anything else, TLS included.
        let mut message = OutboundMessage::new(header, OutputChain::new());
        let sending = poll_fn(|cx| connection.poll_send(cx, &mut message));
        timeout_at(deadline, sending)
            .await
            .map_err(|_| Failure::TimedOut(Doing::Connecting))?
            .map_err(|error| Failure::broken(error, Doing::Connecting))?;
    }
    let Some((secured, client)) = tls else {
        return Ok(connection);
    };
    let sessions = &exchange.worker.process.upstream_sessions;
    let tls = secured.begin(&client, peer, sessions)?;
    connection.start_tls(tls);
    let handshake = poll_fn(|cx| connection.poll_handshake(cx));
    timeout_at(deadline, handshake)
        .await
        .map_err(|_| Failure::TimedOut(Doing::Handshaking))?
        .map_err(|error| Failure::broken(error, Doing::Handshaking))?;
    Ok(connection)
}

/// Opens a connection with nothing that a location could say about it.
///
/// # Errors
/// What the system says.
pub(super) async fn connect_plainly(address: &PeerAddress) -> io::Result<PeerConnection> {
    let socket = match address {
        PeerAddress::Ip(address) => {
            let domain = socket2::Domain::for_address(*address);
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
            socket.set_tcp_nodelay(true)?;
            Socket::connect_tcp(socket, *address).await?
        }
        PeerAddress::Unix(path) => {
            let domain = socket2::Domain::UNIX;
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
            Socket::connect_unix(socket, Path::new(path)).await?
        }
    };
    Ok(PeerConnection::new(socket))
}

async fn connect(
    exchange: &Exchange,
    settings: &UpstreamSettings,
    address: &PeerAddress,
) -> io::Result<Socket> {
    let address = match address {
        PeerAddress::Ip(address) => *address,
        PeerAddress::Unix(path) => {
            let socket = with_buffers(settings, socket2::Domain::UNIX)?;
            return Socket::connect_unix(socket, Path::new(path)).await;
        }
    };
    let socket = with_buffers(settings, socket2::Domain::for_address(address))?;
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
        socket.bind(&local.address.into())?;
    }
    socket.set_tcp_nodelay(true)?;
    Socket::connect_tcp(socket, address).await
}

/// A socket with the configured buffers.
fn with_buffers(
    settings: &UpstreamSettings,
    domain: socket2::Domain,
) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    let size = |bytes: u64| bytes.min(i32::MAX as u64) as usize;
    if let Some(bytes) = settings.socket_rcvbuf_bytes {
        socket.set_recv_buffer_size(size(bytes))?;
    }
    if let Some(bytes) = settings.socket_sndbuf_bytes {
        socket.set_send_buffer_size(size(bytes))?;
    }
    Ok(socket)
}

/// Closes a connection that nobody uses any more, in good manners as far as that
/// costs no waiting: TLS says goodbye when it is dropped.
pub(crate) fn close(connection: PeerConnection) {
    drop(connection);
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        if self.stream.endpoint_mut().0.is_some() {
            self.stream.close();
        }
    }
}
