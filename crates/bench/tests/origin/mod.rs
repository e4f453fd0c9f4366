//! A small server inside the test process, one thread per connection, that counts requests and
//! misbehaves on demand.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use sealane_awslc::{
    CertificateChain, Connection, Context, ContextBuilder, HandshakeStatus, PrivateKey, ReadStatus,
};

/// The body that well-behaved answers carry.
pub(crate) const BODY: &[u8; 1000] = &[b'x'; 1000];

/// How the server treats the requests of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// 200 with [`BODY`]; closes if the request says so.
    Good,
    /// As `Good`, but closes after every third request of a connection.
    EveryThirdCloses,
    /// 404 from the tenth request on.
    LaterNotFound,
    /// Announces [`BODY`], sends half of it and closes.
    Truncates,
    /// Never answers.
    Silent,
    /// As `Good`, but thinks about the third request for [`STALL`].
    StallsOnce,
}

/// How long an origin that stalls does so.
pub(crate) const STALL: Duration = Duration::from_millis(100);

/// How the server treats early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    /// Its tickets allow none.
    Off,
    /// It is accepted.
    Accepted,
    /// It is refused on every other connection.
    EveryOtherRefused,
}

pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    counters: Arc<Counters>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counters {
    requests: AtomicU64,
    connections: AtomicU64,
    stop: AtomicBool,
}

impl Origin {
    pub(crate) fn plain(behaviour: Behaviour) -> Self {
        Self::start(behaviour, None, Early::Off)
    }

    /// With a P-256 certificate; `adjust` sets what the test is about.
    pub(crate) fn tls(adjust: impl FnOnce(&mut ContextBuilder)) -> Self {
        Self::tls_with(Behaviour::Good, adjust, Early::Off)
    }

    /// The same, with another behaviour.
    pub(crate) fn tls_behaving(behaviour: Behaviour) -> Self {
        Self::tls_with(behaviour, |_| {}, Early::Off)
    }

    /// The same, taking early data.
    pub(crate) fn early(early: Early) -> Self {
        Self::tls_with(Behaviour::Good, |_| {}, early)
    }

    fn tls_with(
        behaviour: Behaviour,
        adjust: impl FnOnce(&mut ContextBuilder),
        early: Early,
    ) -> Self {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key can be generated");
        let certificate = CertificateParams::new(vec!["localhost".into()])
            .and_then(|params| params.self_signed(&key))
            .expect("a certificate can be signed");
        let chain =
            CertificateChain::from_pem(certificate.pem().as_bytes()).expect("the PEM text is ours");
        let key = PrivateKey::from_pem(key.serialize_pem().as_bytes(), &[])
            .expect("the PEM text is ours");
        let mut builder = ContextBuilder::new().expect("a context");
        builder
            .set_identity(&chain, &key)
            .expect("they belong together");
        builder.set_tickets_enabled(true);
        adjust(&mut builder);
        let context = builder.build().expect("a context");
        Self::start(behaviour, Some(context), early)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.counters.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.counters.connections.load(Ordering::SeqCst)
    }

    fn start(behaviour: Behaviour, tls: Option<Context>, early: Early) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let counters = Arc::new(Counters::default());
        let shared = Arc::clone(&counters);
        let acceptor = thread::spawn(move || {
            for socket in listener.incoming() {
                if shared.stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(socket) = socket else { return };
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                let early = match early {
                    Early::EveryOtherRefused if number.is_multiple_of(2) => early,
                    Early::EveryOtherRefused | Early::Accepted => Early::Accepted,
                    Early::Off => Early::Off,
                };
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                // Ends when the client closes; what it meets then is the client's affair.
                thread::spawn(move || {
                    Peer::new(socket, tls.as_ref(), early)
                        .and_then(|peer| peer.serve(behaviour, &shared))
                });
            }
        });
        Self {
            address,
            counters,
            acceptor: Some(acceptor),
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.counters.stop.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// One client's connection.
struct Peer {
    socket: TcpStream,
    tls: Option<Connection>,
    received: Vec<u8>,
}

impl Peer {
    fn new(socket: TcpStream, context: Option<&Context>, early: Early) -> Option<Self> {
        let mut peer = Self {
            socket,
            tls: None,
            received: Vec::new(),
        };
        let Some(context) = context else {
            return Some(peer);
        };
        let mut tls = Connection::server(context).ok()?;
        tls.set_early_data_enabled(early == Early::Accepted);
        let mut output = Vec::new();
        loop {
            let bytes = peer.receive_raw()?;
            let mut input = &bytes[..];
            let status = tls.do_handshake(&mut input, &mut output);
            let rest = input.to_vec();
            // The hello is read; this is about the tickets.
            tls.set_early_data_enabled(early != Early::Off);
            // After a failure this is the alert.
            peer.socket.write_all(&output).ok()?;
            output.clear();
            let status = status.ok()?;
            if status == HandshakeStatus::Done {
                // The first request may have come with the client's last flight.
                peer.tls = Some(tls);
                peer.open(&rest)?;
                return Some(peer);
            }
        }
    }

    fn receive_raw(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 16 * 1024];
        let count = self
            .socket
            .read(&mut buffer)
            .ok()
            .filter(|&count| count > 0)?;
        buffer.truncate(count);
        Some(buffer)
    }

    /// Adds the plaintext of `bytes` to what has been received.
    fn open(&mut self, bytes: &[u8]) -> Option<()> {
        let Some(tls) = self.tls.as_mut() else {
            self.received.extend_from_slice(bytes);
            return Some(());
        };
        let (mut input, mut output, mut plain) = (bytes, Vec::new(), [0; 16 * 1024]);
        while let ReadStatus::Data(count) = tls.read(&mut input, &mut output, &mut plain).ok()? {
            self.received.extend_from_slice(&plain[..count]);
        }
        Some(())
    }

    fn send(&mut self, bytes: &[u8]) -> Option<()> {
        let mut output = Vec::new();
        match self.tls.as_mut() {
            Some(tls) => tls.write(bytes, &mut output).ok()?,
            None => output.extend_from_slice(bytes),
        }
        self.socket.write_all(&output).ok()
    }

    /// The next request's head.
    fn request(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self
                .received
                .windows(4)
                .position(|bytes| bytes == b"\r\n\r\n")
            {
                let head = self.received.drain(..end + 4).collect();
                return String::from_utf8(head).ok();
            }
            let bytes = self.receive_raw()?;
            self.open(&bytes)?;
        }
    }

    fn serve(mut self, behaviour: Behaviour, counters: &Counters) -> Option<()> {
        for served in 1.. {
            let request = self.request()?;
            let total = counters.requests.fetch_add(1, Ordering::SeqCst) + 1;
            let close = request.contains("Connection: close")
                || (behaviour == Behaviour::EveryThirdCloses && served == 3);
            if behaviour == Behaviour::StallsOnce && total == 3 {
                thread::sleep(STALL);
            }
            let status = if behaviour == Behaviour::LaterNotFound && total >= 10 {
                "404 Not Found"
            } else {
                "200 OK"
            };
            let connection = if close { "close" } else { "keep-alive" };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
                BODY.len()
            );
            match behaviour {
                Behaviour::Silent => continue,
                Behaviour::Truncates => {
                    return self.send(&[head.as_bytes(), &BODY[..500]].concat());
                }
                _ => self.send(&[head.as_bytes(), BODY].concat())?,
            }
            if close {
                let mut output = Vec::new();
                if let Some(tls) = self.tls.as_mut() {
                    tls.shutdown(&mut output);
                }
                return self.socket.write_all(&output).ok();
            }
        }
        None
    }
}
