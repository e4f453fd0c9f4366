//! An origin with TLS that does what a test wants, byte by byte: nginx and openssl are too
//! well behaved.

use sealane_awslc::{
    CertificateChain, Connection, Context, ContextBuilder, HandshakeStatus, PrivateKey, ReadStatus,
};
use sealane_tests::Site;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// An origin on a port of its own, until it is dropped.
pub(crate) struct Origin {
    port: u16,
    stopped: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

/// One connection after its handshake.
pub(crate) struct Peer {
    socket: TcpStream,
    tls: Connection,
    received: Vec<u8>,
}

impl Origin {
    /// Gives every connection to `serve` as it is accepted, on a thread of its own.
    pub(crate) fn raw(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let origin = Origin {
            port,
            stopped: Arc::default(),
            connections: Arc::default(),
        };
        let (stopped, connections) = (origin.stopped.clone(), origin.connections.clone());
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for socket in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                connections.fetch_add(1, Ordering::Relaxed);
                let _ = socket.set_nodelay(true);
                let serve = serve.clone();
                thread::spawn(move || serve(socket));
            }
        });
        origin
    }

    /// The same with TLS, by the site's `certificates/NAME.pem`. Connections whose
    /// handshake fails are dropped.
    pub(crate) fn tls(
        site: &Site,
        name: &str,
        serve: impl Fn(Peer) + Send + Sync + 'static,
    ) -> Origin {
        let context = context(site, name);
        Origin::raw(move |socket| {
            if let Some(peer) = Peer::accept(socket, &context) {
                serve(peer);
            }
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Connections that were opened to it.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn context(site: &Site, name: &str) -> Context {
    let read = |suffix: &str| {
        let path = site.path(format!("certificates/{name}.{suffix}"));
        std::fs::read(path).expect("the test has made the certificate")
    };
    let chain = CertificateChain::from_pem(&read("pem")).expect("openssl wrote it");
    let key = PrivateKey::from_pem(&read("key"), &[]).expect("openssl wrote it");
    let mut builder = ContextBuilder::new().expect("a context");
    builder
        .set_identity(&chain, &key)
        .expect("they belong together");
    builder.set_tickets_enabled(true);
    builder.build().expect("a context")
}

impl Peer {
    fn accept(socket: TcpStream, context: &Context) -> Option<Peer> {
        let mut peer = Peer {
            socket,
            tls: Connection::server(context).expect("memory"),
            received: Vec::new(),
        };
        loop {
            let bytes = peer.receive_raw()?;
            let (mut input, mut output) = (&bytes[..], Vec::new());
            let status = peer.tls.do_handshake(&mut input, &mut output);
            // After a failure this is the alert.
            peer.socket.write_all(&output).ok()?;
            if status.ok()? == HandshakeStatus::Done {
                peer.open(input)?;
                return Some(peer);
            }
        }
    }

    fn receive_raw(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 64 << 10];
        let count = self.socket.read(&mut buffer).ok()?;
        buffer.truncate(count);
        (count > 0).then_some(buffer)
    }

    fn open(&mut self, bytes: &[u8]) -> Option<()> {
        let (mut input, mut output, mut plain) = (bytes, Vec::new(), vec![0; 16 << 10]);
        while let ReadStatus::Data(count) =
            self.tls.read(&mut input, &mut output, &mut plain).ok()?
        {
            self.received.extend_from_slice(&plain[..count]);
        }
        self.socket.write_all(&output).ok()
    }

    /// The next request's head; its body is left to [`Peer::body`].
    pub(crate) fn request(&mut self) -> Option<String> {
        loop {
            let end = self
                .received
                .windows(4)
                .position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = end {
                let head = self.received.drain(..end + 4).collect();
                return String::from_utf8(head).ok();
            }
            let bytes = self.receive_raw()?;
            self.open(&bytes)?;
        }
    }

    /// Takes so many bytes of a body, pausing before each read from the socket.
    pub(crate) fn body(&mut self, count: usize, pause: impl Fn()) -> Option<Vec<u8>> {
        while self.received.len() < count {
            pause();
            let bytes = self.receive_raw()?;
            self.open(&bytes)?;
        }
        Some(self.received.drain(..count).collect())
    }

    /// Sends plaintext; false when the other side has gone.
    pub(crate) fn send(&mut self, plain: &[u8]) -> bool {
        let mut output = Vec::new();
        self.tls.write(plain, &mut output).expect("memory");
        self.socket.write_all(&output).is_ok()
    }

    /// Sends plaintext in records, of which all but the last `missing` bytes leave.
    pub(crate) fn send_without_end(&mut self, plain: &[u8], missing: usize) {
        let mut output = Vec::new();
        self.tls.write(plain, &mut output).expect("memory");
        let _ = self.socket.write_all(&output[..output.len() - missing]);
    }

    /// Sends plaintext, and behind it bytes as they are.
    pub(crate) fn send_with_garbage(&mut self, plain: &[u8], garbage: &[u8]) {
        let mut output = Vec::new();
        self.tls.write(plain, &mut output).expect("memory");
        output.extend_from_slice(garbage);
        let _ = self.socket.write_all(&output);
    }

    /// Says goodbye. Dropping the peer without this cuts the connection.
    pub(crate) fn close_notify(&mut self) {
        let mut output = Vec::new();
        self.tls.shutdown(&mut output);
        let _ = self.socket.write_all(&output);
    }

    /// Waits until the other side has closed. Returns whether it said goodbye.
    pub(crate) fn wait_for_close(&mut self) -> bool {
        let mut said = false;
        while let Some(bytes) = self.receive_raw() {
            let (mut input, mut output, mut plain) = (&bytes[..], Vec::new(), [0; 1024]);
            while let Ok(status) = self.tls.read(&mut input, &mut output, &mut plain) {
                match status {
                    ReadStatus::Data(_) => {}
                    ReadStatus::WantRead => break,
                    ReadStatus::CloseNotify => {
                        said = true;
                        break;
                    }
                }
            }
        }
        said
    }
}
