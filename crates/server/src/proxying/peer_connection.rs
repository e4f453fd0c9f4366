//! A connection to a peer: bytes there and back, plain or TLS.

use super::PassRuntime;
use super::failure::{Doing, Failure};
use super::identity::{self, LocalAddress};
use super::pause::Pause;
use super::shared::Call;
use super::tls_settings::Secured;
use super::tunnel;
use super::wire::http2::Session;
use crate::exchange::Exchange;
use crate::template;
use crate::worker::Worker;
use sealane_conf::model::{Pass, UpstreamSettings};
use sealane_io::chain::OutputChain;
use sealane_io::datagram::DatagramSocket;
use sealane_io::runtime::timeout_at;
use sealane_io::socket::Socket;
use sealane_io::stream::Sealed;
use sealane_io::{Endpoint, OutboundMessage, Received, Stream, StreamError};
use sealane_sys::socket::set_transparent;
use sealane_tls::Ktls;
use sealane_tls::client::Connection as TlsConnection;
use sealane_upstream::{Peer, PeerAddress};
use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Bytes read of what a peer says on an idle connection; one that says more is closed.
const IDLE_READ_BYTES: usize = 4096;

/// Why a connection to a peer cannot go on.
pub(crate) type PeerError = StreamError<sealane_tls::client::Error>;

/// A connection to a peer. Dropping it says goodbye in TLS (close_notify), as far as the socket
/// takes that without waiting.
pub(crate) struct PeerConnection {
    way: Way,
    /// What both sides agreed on in HTTP/2, between two requests.
    pub(crate) http2: Option<Box<Session>>,
    /// The timers of conversations on it: kept from one to the next, since a timer that is
    /// there is moved for less than a new one costs.
    pub(crate) timers: Timers,
}

/// How bytes get to the peer.
enum Way {
    /// On a connection of the request's own.
    Own(PeerStream),
    /// In frames on one that requests share.
    Shared(Call),
}

/// Bytes to and from a peer, on a connection of one's own.
pub(crate) type PeerStream = Stream<PeerSocket, TlsConnection>;

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

/// The socket of a peer.
pub(crate) struct PeerSocket {
    /// `None` only while it moves to another event loop.
    socket: Option<Socket>,
    /// Who counts a connection whose records the kernel seals.
    counted_by: Option<Arc<Worker>>,
}

impl Endpoint for PeerSocket {
    fn socket(&self) -> &Socket {
        let socket = self.socket.as_ref();
        socket.expect("a connection whose socket could not be moved is dropped at once")
    }

    fn note_ktls(&self, state: Ktls<'_>) {
        if let (Ktls::On, Some(worker)) = (state, &self.counted_by) {
            worker.counters.upstream_ktls.add(1);
        }
    }

    fn note_sendfile(&self, _bytes: u64) {}
}

impl PeerConnection {
    /// A connection over this socket.
    pub(crate) fn over(socket: Socket) -> PeerConnection {
        let socket = PeerSocket {
            socket: Some(socket),
            counted_by: None,
        };
        PeerConnection::by(Way::Own(Stream::new(socket)))
    }

    /// A call on a connection that requests share.
    pub(super) fn shared(call: Call) -> PeerConnection {
        PeerConnection::by(Way::Shared(call))
    }

    fn by(way: Way) -> PeerConnection {
        PeerConnection {
            way,
            http2: None,
            timers: Timers::default(),
        }
    }

    /// The bytes to and from the peer; `None` on a connection that requests share.
    pub(crate) fn stream_mut(&mut self) -> Option<&mut PeerStream> {
        match &mut self.way {
            Way::Own(stream) => Some(stream),
            Way::Shared(_) => None,
        }
    }

    /// The call, on a connection that requests share.
    fn call(&self) -> Option<&Call> {
        match &self.way {
            Way::Own(_) => None,
            Way::Shared(call) => Some(call),
        }
    }

    /// Whether a shared connection was idle before this request, and has ended.
    pub(super) fn ended_while_idle(&self) -> bool {
        self.call().is_some_and(Call::ended_while_idle)
    }

    /// Why a shared connection will bring no response.
    pub(super) fn failure(&self, doing: Doing) -> Option<Failure> {
        self.call()?.failure(doing)
    }

    /// From now on its events arrive at this thread's loop.
    fn move_here(&mut self) -> io::Result<()> {
        let Way::Own(stream) = &mut self.way else {
            return Ok(());
        };
        let socket = &mut stream.endpoint_mut().socket;
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

    /// Begins TLS. `worker` counts it if the kernel seals its records.
    pub(super) fn start_tls(&mut self, tls: Sealed<TlsConnection>, worker: Option<&Arc<Worker>>) {
        if let Way::Own(stream) = &mut self.way {
            stream.endpoint_mut().counted_by = worker.cloned();
            stream.start_tls(tls);
        }
    }

    /// Continues the handshake. Ready once, when it is done.
    pub(super) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        match &mut self.way {
            Way::Own(stream) => stream.poll_handshake(cx, true).map_ok(|_| ()),
            Way::Shared(_) => Poll::Ready(Ok(())),
        }
    }

    /// Appends up to `max` received bytes.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<Received, PeerError>> {
        match &mut self.way {
            Way::Own(stream) => stream.poll_receive(cx, buf, max),
            Way::Shared(call) => {
                if call.has_progressed() {
                    self.timers.reading.end();
                }
                call.poll_receive(cx, buf).map(Ok)
            }
        }
    }

    /// Whether the end that was received may be somebody else's doing: TLS was not closed.
    pub(crate) fn is_cut(&self) -> bool {
        match &self.way {
            Way::Own(stream) => stream.tls().is_some_and(|tls| tls.is_cut()),
            Way::Shared(_) => false,
        }
    }

    /// Sends the message; see [`Stream::poll_send`].
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<(), PeerError>> {
        match &mut self.way {
            Way::Own(stream) => stream.poll_send(cx, message),
            Way::Shared(call) => {
                call.send(message);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Ends this side's direction of a plain connection. False if the connection cannot do that
    /// without its other direction: TLS may close for both.
    pub(crate) fn end_sending(&mut self) -> bool {
        match &mut self.way {
            Way::Own(stream) => {
                stream.tls().is_none() && stream.endpoint_mut().socket().end_sending().is_ok()
            }
            Way::Shared(_) => false,
        }
    }

    /// Whether something of a message has not left yet.
    pub(crate) fn has_unsent(&self) -> bool {
        match &self.way {
            Way::Own(stream) => stream.has_unsent(),
            Way::Shared(_) => false,
        }
    }

    /// Bytes of the request that have left on a connection that requests share; on others the
    /// message counts them.
    pub(super) fn shared_bytes_sent(&self) -> u64 {
        self.call().map_or(0, Call::sent)
    }

    /// No conversation is on it any more: it gives back what an idle connection does not need.
    pub(crate) fn rest(&mut self) {
        self.timers.end();
        if let Way::Own(stream) = &mut self.way {
            stream.release_buffers();
        }
    }

    /// Whether an idle connection, maybe of another thread, can take another request here: the peer
    /// has neither closed it nor said anything unasked. TLS session tickets that come late are read
    /// and kept.
    pub(crate) fn is_quiet(&mut self) -> bool {
        if self.move_here().is_err() || self.should_end() {
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

    /// Whether nothing more should begin on it: the key with which the kernel seals is used up.
    fn should_end(&self) -> bool {
        match &self.way {
            Way::Own(stream) => stream.should_end(),
            Way::Shared(_) => false,
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

/// A peer that a connection is opened to.
#[derive(Clone, Copy)]
pub(crate) struct PeerAt<'p> {
    pub(crate) peer: &'p Peer,
    /// Its own or, for a health check, one with another port.
    pub(crate) address: &'p PeerAddress,
    /// `None` for one without TLS.
    pub(crate) secured: Option<&'p Secured>,
}

impl<'p> PeerAt<'p> {
    /// A peer at its own address.
    pub(crate) fn itself(peer: &'p Peer, secured: Option<&'p Secured>) -> PeerAt<'p> {
        PeerAt {
            peer,
            address: peer.address(),
            secured,
        }
    }
}

/// Opens a connection to a peer, and whatever has to stand before the request: `preamble` is the
/// PROXY header. As in nginx one `proxy_connect_timeout` is for all of it.
pub(crate) async fn open(
    exchange: &Exchange,
    pass: &PassRuntime,
    to: PeerAt<'_>,
    preamble: Option<Vec<u8>>,
) -> Result<PeerConnection, Failure> {
    let PeerAt {
        peer,
        address,
        secured,
    } = to;
    let settings = pass.settings();
    if let Some(refusal) = tunnel::refusal(pass, address) {
        return Err(refusal);
    }
    let tls = match secured {
        Some(secured) => Some((secured, secured.client(exchange).await?)),
        None => None,
    };
    let deadline = Instant::now() + tunnel::connect_timeout(exchange, pass);
    let dial = Dial::new(exchange, settings, address);
    let socket = timeout_at(deadline, dial.connect())
        .await
        .map_err(|_| Failure::TimedOut(Doing::Connecting))?
        .map_err(|error| error.into_failure(dial.socket_name()))?;
    let mut connection = PeerConnection::over(socket);
    if let Some(header) = preamble {
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
    let protocols = offered_protocols(exchange, pass);
    let protocols: Vec<&[u8]> = protocols.iter().map(|name| &**name).collect();
    let tls = secured.begin(&client, peer, sessions, &protocols)?;
    connection.start_tls(tls, Some(&exchange.worker));
    let handshake = poll_fn(|cx| connection.poll_handshake(cx));
    timeout_at(deadline, handshake)
        .await
        .map_err(|_| Failure::TimedOut(Doing::Handshaking))?
        .map_err(|error| Failure::broken(error, Doing::Handshaking))?;
    Ok(connection)
}

/// `proxy_ssl_alpn` for this session; as in nginx, what is empty or too long is left out.
fn offered_protocols<'c>(exchange: &'c Exchange, pass: &'c PassRuntime) -> Vec<Cow<'c, [u8]>> {
    let Pass::Stream(stream) = &pass.pass else {
        return Vec::new();
    };
    let names = stream.alpn.iter();
    let names = names.map(|name| template::evaluate(name, exchange));
    names
        .filter(|name| (1..=255).contains(&name.len()))
        .collect()
}

/// Opens a connection with nothing that a location could say about it.
///
/// # Errors
/// What the system says.
pub(super) async fn connect_plainly(address: &PeerAddress) -> io::Result<PeerConnection> {
    connect_socket(address).await.map(PeerConnection::over)
}

/// The same, for whoever uses the socket itself.
///
/// # Errors
/// What the system says.
pub(crate) async fn connect_socket(address: &PeerAddress) -> io::Result<Socket> {
    let connected = Dial::plain(address).connect().await;
    connected.map_err(|error| match error {
        DialError::Socket(_, error) | DialError::Connect(error) => error,
    })
}

/// Why a connection cannot be opened.
pub(super) enum DialError {
    /// A call for the socket, before anything was to be sent, and what the system says.
    Socket(Cow<'static, str>, io::Error),
    /// What the system says of the way to the peer, or the peer itself.
    Connect(io::Error),
}

impl DialError {
    /// As the failure of an attempt to reach a peer; the name is that of a Unix socket.
    pub(super) fn into_failure(self, name: Option<Box<str>>) -> Failure {
        match self {
            DialError::Socket(call, error) => Failure::Socket(call, error),
            DialError::Connect(error) => Failure::Connect(error, name),
        }
    }
}

/// How a connection is opened.
pub(super) struct Dial {
    address: PeerAddress,
    local: Option<LocalAddress>,
    keepalive: bool,
    rcvbuf_bytes: Option<u64>,
    sndbuf_bytes: Option<u64>,
}

impl Dial {
    /// To this address, as the location wants it for this request.
    pub(super) fn new(
        exchange: &Exchange,
        settings: &UpstreamSettings,
        address: &PeerAddress,
    ) -> Dial {
        Dial {
            address: address.clone(),
            local: identity::bind_address(exchange, settings),
            keepalive: settings.socket_keepalive,
            rcvbuf_bytes: settings.socket_rcvbuf_bytes,
            sndbuf_bytes: settings.socket_sndbuf_bytes,
        }
    }

    /// To this address, with the system's settings.
    fn plain(address: &PeerAddress) -> Dial {
        Dial {
            address: address.clone(),
            local: None,
            keepalive: false,
            rcvbuf_bytes: None,
            sndbuf_bytes: None,
        }
    }

    /// The name of a Unix socket.
    pub(super) fn socket_name(&self) -> Option<Box<str>> {
        match &self.address {
            PeerAddress::Ip(_) => None,
            PeerAddress::Unix(_) => Some(self.address.to_string().into()),
        }
    }

    /// Opens the connection.
    pub(super) async fn connect(&self) -> Result<Socket, DialError> {
        let socket = self.socket(socket2::Type::STREAM)?;
        let connected = match &self.address {
            PeerAddress::Ip(address) => {
                if self.keepalive {
                    socket.set_keepalive(true).map_err(setting)?;
                }
                self.bind(&socket)?;
                socket.set_tcp_nodelay(true).map_err(setting)?;
                Socket::connect_tcp(socket, *address).await
            }
            PeerAddress::Unix(path) => {
                self.bind(&socket)?;
                Socket::connect_unix(socket, Path::new(path)).await
            }
        };
        connected.map_err(DialError::Connect)
    }

    /// Opens a socket for datagrams. Whether anyone receives them is not known before they are
    /// sent.
    pub(super) fn connect_datagrams(&self) -> Result<DatagramSocket, DialError> {
        let socket = self.socket(socket2::Type::DGRAM)?;
        self.bind(&socket)?;
        let connected = match &self.address {
            PeerAddress::Ip(address) => DatagramSocket::connect(socket, *address),
            PeerAddress::Unix(path) => DatagramSocket::connect_unix(socket, Path::new(path)),
        };
        connected.map_err(DialError::Connect)
    }

    /// `proxy_bind`. As in nginx it fails for a peer of another family.
    fn bind(&self, socket: &socket2::Socket) -> Result<(), DialError> {
        let Some(local) = self.local else {
            return Ok(());
        };
        if local.transparent
            && let PeerAddress::Ip(peer) = &self.address
        {
            set_transparent(socket.as_fd(), peer.is_ipv4()).map_err(setting)?;
        }
        socket.bind(&local.address.into()).map_err(|error| {
            let address = match local.address.port() {
                0 => local.address.ip().to_string(),
                _ => local.address.to_string(),
            };
            DialError::Socket(format!("bind({address})").into(), error)
        })
    }

    /// A socket with the configured buffers.
    fn socket(&self, kind: socket2::Type) -> Result<socket2::Socket, DialError> {
        let domain = match &self.address {
            PeerAddress::Ip(address) => socket2::Domain::for_address(*address),
            PeerAddress::Unix(_) => socket2::Domain::UNIX,
        };
        let socket = match kind {
            socket2::Type::DGRAM => DatagramSocket::unconnected(domain),
            _ => Socket::unconnected(domain),
        };
        let socket = socket.map_err(|error| DialError::Socket("socket()".into(), error))?;
        let size = |bytes: u64| bytes.min(i32::MAX as u64) as usize;
        if let Some(bytes) = self.rcvbuf_bytes {
            socket.set_recv_buffer_size(size(bytes)).map_err(setting)?;
        }
        if let Some(bytes) = self.sndbuf_bytes {
            socket.set_send_buffer_size(size(bytes)).map_err(setting)?;
        }
        Ok(socket)
    }
}

/// An option of the socket cannot be set.
fn setting(error: io::Error) -> DialError {
    DialError::Socket("setsockopt()".into(), error)
}

/// Closes a connection that nobody uses any more, in good manners as far as that
/// costs no waiting: TLS says goodbye when it is dropped.
pub(crate) fn close(connection: PeerConnection) {
    drop(connection);
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        if let Way::Own(stream) = &mut self.way
            && stream.endpoint_mut().socket.is_some()
        {
            stream.close();
        }
    }
}
