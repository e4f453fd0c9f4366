//! What is known about a connection for its whole life.

use crate::client_certificates::ClientFacts;
use crate::proxy_protocol::ProxyHeader;
use crate::proxying::BoundConnections;
use sealane_conf::model::PeerNetwork;
use sealane_io::socket::Socket;
use sealane_tls::{CertificateAlgorithms, Ktls};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What is known about a connection: its addresses, its age, its TLS parameters.
///
/// Variables and logs read it; only the connection writes it.
pub struct ConnectionFacts {
    /// Serial number within the process, `*7` in the error log.
    pub number: u64,
    /// The other side's address.
    pub peer: PeerAddress,
    /// When it was accepted.
    pub accepted: Instant,
    /// The socket itself; `None` for a client whose datagrams come to a listening socket.
    socket: Option<Socket>,
    /// The local address, looked up on first use (a listener may be a wildcard).
    local: OnceLock<Option<SocketAddr>>,
    /// What `pass` has changed.
    passed: OnceLock<Box<Mutex<Passed>>>,
    /// `debug_connection` names the client: lines about it are logged at every level.
    is_debugged: bool,
    is_quic: bool,
    /// Requests so far.
    requests: AtomicU64,
    /// Set once the TLS handshake is done; a plain request on a TLS port leaves it unset.
    secure: AtomicBool,
    /// Whether the kernel seals the records, as `$ssl_ktls` shows it; empty before the handshake.
    ktls: AtomicU8,
    /// Why it is not the kernel.
    ktls_refusal: OnceLock<&'static str>,
    /// The PROXY header that preceded the connection's own bytes.
    proxy_protocol: OnceLock<Box<ProxyHeader>>,
    /// The client's certificate, if some server asks for certificates.
    client: OnceLock<Box<ClientFacts>>,
    /// TLS facts, collected after the handshake when some variable needs them.
    tls: OnceLock<Box<TlsFacts>>,
    /// What the ClientHello says of them, when certificates are chosen by variables.
    hello: OnceLock<Box<TlsFacts>>,
    /// Connections to servers that only this client may use (`ntlm`), if there are any.
    pub(crate) bound: OnceLock<Box<BoundConnections>>,
}

const KTLS_UNKNOWN: u8 = 0;
const KTLS_PENDING: u8 = 1;
const KTLS_ON: u8 = 2;
const KTLS_OFF: u8 = 3;

/// The other side's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// TCP.
    Inet(SocketAddr),
    /// A unix socket; nginx prints `unix:`.
    Unix,
}

impl PeerAddress {
    /// With its port.
    pub(crate) fn with_port(&self) -> impl fmt::Display + use<> {
        match self {
            PeerAddress::Inet(address) => address.to_string(),
            PeerAddress::Unix => "unix:".to_owned(),
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Inet(address) => address.ip().fmt(f),
            PeerAddress::Unix => f.write_str("unix:"),
        }
    }
}

/// Addresses that hold since `pass` has given a connection to another listener.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    /// The local one: that which was asked for, or none for a Unix socket.
    local: Option<Option<SocketAddr>>,
    /// The client's, according to a trusted proxy.
    client: Option<PeerAddress>,
}

/// The results of the TLS handshake for the `$ssl_*` variables. As in nginx, a text is empty if
/// there is nothing to show.
#[derive(Debug, Clone, Default)]
pub struct TlsFacts {
    /// `$ssl_protocol`.
    pub protocol: &'static str,
    /// `$ssl_cipher`.
    pub cipher: &'static str,
    /// `$ssl_curve`.
    pub curve: &'static str,
    /// `$ssl_sigalg`.
    pub sigalg: &'static str,
    /// `$ssl_session_reused`.
    pub session_reused: bool,
    /// `$ssl_resumption`: how the session was resumed.
    pub resumption: &'static str,
    /// `$ssl_resumption_miss`: why the offered session was not resumed.
    pub resumption_miss: &'static str,
    /// `$ssl_early_data_verdict`: whether early data was accepted.
    pub early_data_verdict: &'static str,
    /// `$ssl_handshake_time`: from the client's first byte to the end; `None` before that.
    pub handshake_time: Option<Duration>,
    /// `$ssl_handshake_queue_time`: of that, waiting for others.
    pub handshake_queue_time: Option<Duration>,
    /// `$ssl_server_name`.
    pub server_name: Box<str>,
    /// `$ssl_alpn_protocol`.
    pub alpn: Box<str>,
    /// `$ssl_session_id`, hexadecimal.
    pub session_id: Box<str>,
    /// `$ssl_ciphers`.
    pub client_ciphers: Box<str>,
    /// `$ssl_curves`.
    pub client_curves: Box<str>,
    /// `$ssl_sigalgs`.
    pub client_sigalgs: Box<str>,
    /// `$ssl_ech_status`.
    pub ech_status: &'static str,
    /// `$ssl_ech_outer_server_name`.
    pub ech_outer_server_name: Box<str>,
    /// `$ssl_ja4`.
    pub ja4: Box<str>,
    /// The algorithms of the server's certificate.
    pub certificate_algorithms: Option<Arc<CertificateAlgorithms>>,
}

impl ConnectionFacts {
    pub(crate) fn new(number: u64, peer: PeerAddress, socket: Socket) -> ConnectionFacts {
        ConnectionFacts::with(number, peer, Some(socket))
    }

    /// The facts of a client that sends datagrams to this address of the machine.
    pub(crate) fn of_datagrams(
        number: u64,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> ConnectionFacts {
        let facts = ConnectionFacts::with(number, PeerAddress::Inet(peer), None);
        let _ = facts.local.set(Some(local));
        facts
    }

    /// The facts of a connection of QUIC.
    pub(crate) fn of_quic(number: u64, peer: SocketAddr, local: SocketAddr) -> ConnectionFacts {
        ConnectionFacts {
            is_quic: true,
            ..ConnectionFacts::of_datagrams(number, peer, local)
        }
    }

    fn with(number: u64, peer: PeerAddress, socket: Option<Socket>) -> ConnectionFacts {
        ConnectionFacts {
            is_quic: false,
            number,
            peer,
            accepted: Instant::now(),
            socket,
            local: OnceLock::new(),
            passed: OnceLock::new(),
            is_debugged: false,
            requests: AtomicU64::new(0),
            secure: AtomicBool::new(false),
            ktls: AtomicU8::new(KTLS_UNKNOWN),
            ktls_refusal: OnceLock::new(),
            proxy_protocol: OnceLock::new(),
            client: OnceLock::new(),
            tls: OnceLock::new(),
            hello: OnceLock::new(),
            bound: OnceLock::new(),
        }
    }

    /// The facts of a connection that was served by another process before.
    pub(crate) fn moved(
        number: u64,
        peer: PeerAddress,
        socket: Socket,
        accepted: Instant,
        requests: u64,
    ) -> ConnectionFacts {
        ConnectionFacts {
            accepted,
            requests: AtomicU64::new(requests),
            ..ConnectionFacts::new(number, peer, socket)
        }
    }

    /// The same, with what `debug_connection` says of the client.
    pub(crate) fn debugged_by(self, listed: &[PeerNetwork]) -> ConnectionFacts {
        let is_debugged = listed.iter().any(|listed| match (listed, self.peer) {
            (PeerNetwork::Unix, PeerAddress::Unix) => true,
            (PeerNetwork::Network(network), PeerAddress::Inet(address)) => {
                network.contains(address.ip())
            }
            _ => false,
        });
        ConnectionFacts {
            is_debugged,
            ..self
        }
    }

    /// Whether `debug_connection` names the client.
    #[inline]
    pub(crate) fn is_debugged(&self) -> bool {
        self.is_debugged
    }

    /// The socket itself.
    pub(crate) fn socket(&self) -> &Socket {
        let socket = self.socket.as_ref();
        socket.expect("only clients that send datagrams are without, and they do not ask")
    }

    /// Whether the client sends datagrams: there is no connection.
    pub(crate) fn is_udp(&self) -> bool {
        self.socket.is_none() && !self.is_quic
    }

    /// Whether it is a connection of QUIC.
    pub(crate) fn is_quic(&self) -> bool {
        self.is_quic
    }

    /// The local address; `None` for a Unix socket, or when the connection is gone.
    pub fn local(&self) -> Option<SocketAddr> {
        if let Some(local) = self.passed().local {
            return local;
        }
        *self.local.get_or_init(|| {
            let socket = self.socket.as_ref()?;
            sealane_sys::socket::local_address(socket.as_fd())
                .ok()
                .flatten()
        })
    }

    /// From now on this is the local address; `None` for a Unix socket (`pass`).
    pub(crate) fn set_local(&self, address: Option<SocketAddr>) {
        self.change_passed(|passed| passed.local = Some(address));
    }

    /// The client's address: the other side's, or what a trusted proxy has told a server that the
    /// connection was passed on by.
    pub(crate) fn client_address(&self) -> PeerAddress {
        self.passed().client.unwrap_or(self.peer)
    }

    /// From now on this is the client's address (`set_real_ip_from`, then `pass`).
    pub(crate) fn set_client_address(&self, address: PeerAddress) {
        self.change_passed(|passed| passed.client = Some(address));
    }

    fn passed(&self) -> Passed {
        let Some(passed) = self.passed.get() else {
            return Passed::default();
        };
        *passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_passed(&self, change: impl FnOnce(&mut Passed)) {
        let passed = self.passed.get_or_init(Box::default);
        change(&mut passed.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// `$connection_requests`.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Whether the connection uses TLS.
    pub fn is_secure(&self) -> bool {
        self.secure.load(Ordering::Relaxed)
    }

    /// The socket's `TCP_INFO`, for the `$tcpinfo_*` variables.
    pub fn tcp_info(&self) -> Option<sealane_sys::socket::TcpInfo> {
        sealane_sys::socket::tcp_info(self.socket.as_ref()?.as_fd()).ok()
    }

    /// `$ssl_ktls`: `on`, `off`, `pending`; empty without TLS.
    pub fn ktls(&self) -> &'static str {
        match self.ktls.load(Ordering::Relaxed) {
            KTLS_PENDING => "pending",
            KTLS_ON => "on",
            KTLS_OFF => "off",
            _ => "",
        }
    }

    /// `$ssl_ktls_reason`: why the kernel does not seal, in a word; empty when it
    /// does.
    pub fn ktls_reason(&self) -> &'static str {
        match self.ktls.load(Ordering::Relaxed) {
            KTLS_PENDING => "small_response",
            KTLS_OFF => self.ktls_refusal.get().copied().unwrap_or(""),
            _ => "",
        }
    }

    /// The PROXY header of the connection.
    pub fn proxy_protocol(&self) -> Option<&ProxyHeader> {
        self.proxy_protocol.get().map(|header| &**header)
    }

    pub(crate) fn set_proxy_protocol(&self, header: ProxyHeader) {
        let _ = self.proxy_protocol.set(Box::new(header));
    }

    /// The client's certificate; `None` on plain connections, and if no server asks for
    /// certificates.
    pub fn client(&self) -> Option<&ClientFacts> {
        self.client.get().map(|client| &**client)
    }

    pub(crate) fn set_client(&self, client: ClientFacts) {
        let _ = self.client.set(Box::new(client));
    }

    /// The results of the handshake, or what is known of them before its end; `None` on plain
    /// connections, and if no variable needs them.
    pub fn tls(&self) -> Option<&TlsFacts> {
        let facts = self.tls.get().or_else(|| self.hello.get());
        facts.map(|facts| &**facts)
    }

    /// Counts a request. Only the connection's own task calls this, so that
    /// load and store suffice.
    pub(crate) fn count_request(&self) {
        let number = self.requests() + 1;
        self.requests.store(number, Ordering::Relaxed);
    }

    pub(crate) fn set_secure(&self) {
        self.secure.store(true, Ordering::Relaxed);
    }

    pub(crate) fn set_ktls(&self, state: Ktls<'_>) {
        let value = match state {
            Ktls::Pending => KTLS_PENDING,
            Ktls::On => KTLS_ON,
            Ktls::Off(refusal) => {
                let _ = self.ktls_refusal.set(refusal.name());
                KTLS_OFF
            }
        };
        self.ktls.store(value, Ordering::Relaxed);
    }

    pub(crate) fn set_hello(&self, facts: TlsFacts) {
        let _ = self.hello.set(Box::new(facts));
    }

    pub(crate) fn set_tls(&self, facts: TlsFacts) {
        let _ = self.tls.set(Box::new(facts));
    }
}
