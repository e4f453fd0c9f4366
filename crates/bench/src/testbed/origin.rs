//! The origin behind the servers for measuring proxying and caching: a thread that answers every
//! request with a file's worth of bytes, as cheaply as it can, and counts.

mod peer;

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crate::{
    Error,
    load::{Meter, pin_this_thread},
    testbed::File,
};
use peer::Peer;
use sealane_awslc::Context;

/// Bytes of a body that are sent with one call at most.
const PIECE_BYTES: usize = 1 << 20;

/// A started origin; it ends with the process.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
}

/// What an origin counts.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    /// Handshakes that resumed no session.
    full_handshakes: AtomicU64,
}

/// What reached an origin between `begin` and `end`.
#[derive(Debug)]
pub(crate) struct OriginRequests {
    counts: Arc<Counts>,
    before: (u64, u64),
    /// How many requests there were.
    pub(crate) during: u64,
    /// How many handshakes that resumed no session.
    pub(crate) full_handshakes: u64,
}

impl Counts {
    fn read(&self) -> (u64, u64) {
        (
            self.requests.load(Ordering::Relaxed),
            self.full_handshakes.load(Ordering::Relaxed),
        )
    }
}

impl Meter for OriginRequests {
    fn begin(&mut self) -> Result<(), Error> {
        self.before = self.counts.read();
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        let (requests, full_handshakes) = self.counts.read();
        self.during = requests - self.before.0;
        self.full_handshakes = full_handshakes - self.before.1;
        Ok(())
    }
}

impl Origin {
    /// Starts an origin on the cores `cpus`.
    pub(crate) fn start(cpus: &[usize]) -> Result<Self, Error> {
        let counts = Arc::<Counts>::default();
        let address = listen(cpus, None, &counts)?;
        Ok(Self { address, counts })
    }

    /// Answers and counts the same over TLS 1.3, with the P-256 certificate of this directory.
    /// Returns at which address.
    pub(crate) fn listen_over_tls(
        &self,
        cpus: &[usize],
        certificates: &Path,
    ) -> Result<SocketAddr, Error> {
        listen(cpus, Some(peer::context(certificates)?), &self.counts)
    }

    /// A meter of its requests.
    pub(crate) fn meter(&self) -> OriginRequests {
        OriginRequests {
            counts: Arc::clone(&self.counts),
            before: (0, 0),
            during: 0,
            full_handshakes: 0,
        }
    }
}

/// Starts a thread that answers at the address that is returned.
fn listen(cpus: &[usize], tls: Option<Context>, counts: &Arc<Counts>) -> Result<SocketAddr, Error> {
    let failed = |source| Error::io("start the origin", source);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let (cpus, counts) = (cpus.to_vec(), Arc::clone(counts));
    let serve = move || {
        if !cpus.is_empty() {
            // On the wrong core it is only slower.
            let _ = pin_this_thread(&cpus);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                return;
            };
            let responses = Arc::from(File::ALL.map(Response::of));
            while let Ok((socket, _)) = listener.accept().await {
                let Ok(peer) = Peer::new(socket, tls.as_ref()) else {
                    return;
                };
                tokio::spawn(answer(peer, Arc::clone(&responses), Arc::clone(&counts)));
            }
        });
    };
    thread::Builder::new()
        .name("origin".into())
        .spawn(serve)
        .map_err(failed)?;
    Ok(address)
}

/// What is sent for a file.
struct Response {
    file: File,
    /// The head, and the beginning of the body.
    first: Vec<u8>,
    /// Bytes of the body that follow.
    left: u64,
}

impl Response {
    fn of(file: File) -> Self {
        let mut first = format!(
            "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            file.bytes()
        )
        .into_bytes();
        let begin = file.bytes().min(PIECE_BYTES as u64);
        first.resize(first.len() + begin as usize, b'x');
        Self {
            file,
            first,
            left: file.bytes() - begin,
        }
    }

    async fn send(&self, peer: &mut Peer) -> std::io::Result<()> {
        peer.send(&self.first).await?;
        let mut left = self.left;
        while left > 0 {
            let piece = left.min(PIECE_BYTES as u64);
            let end = self.first.len();
            let bytes = &self.first[end - piece as usize..];
            peer.send(bytes).await?;
            left -= piece;
        }
        Ok(())
    }
}

/// Answers each request head; there are no bodies.
async fn answer(mut peer: Peer, responses: Arc<[Response]>, counts: Arc<Counts>) {
    match peer.handshake().await {
        Ok(true) => {}
        Ok(false) => drop(counts.full_handshakes.fetch_add(1, Ordering::Relaxed)),
        Err(_) => return,
    }
    let mut received = Vec::with_capacity(4096);
    while matches!(peer.receive(&mut received).await, Ok(true)) {
        while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            counts.requests.fetch_add(1, Ordering::Relaxed);
            let file = requested(&received[..end]);
            let response = responses.iter().find(|response| response.file == file);
            received.drain(..end + 4);
            let Some(response) = response else { return };
            if response.send(&mut peer).await.is_err() {
                return;
            }
        }
    }
    peer.close().await;
}

/// The file that the path begins with, whatever follows; without any a small one.
fn requested(head: &[u8]) -> File {
    let path = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    let name = path.split(|&byte| byte == b'/').nth(1).unwrap_or_default();
    let named = |file: &File| file.name().as_bytes() == name;
    File::ALL.into_iter().find(named).unwrap_or(File::Small)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Expected, Url,
        load::{self, ConnectionUse, Limit, Plan, Resumption},
    };
    use std::io::{Read, Write};

    #[test]
    fn the_path_names_the_file() {
        for (line, file) in [
            ("GET /100k HTTP/1.1", File::Medium),
            ("GET /10/17 HTTP/1.1", File::Tiny),
            ("GET /proxied HTTP/1.1", File::Small),
            ("GET", File::Small),
        ] {
            assert_eq!(requested(line.as_bytes()), file, "{line}");
        }
    }

    #[test]
    fn requests_are_counted_and_answered_in_full() {
        let origin = Origin::start(&[]).expect("loopback has a free port");
        let mut meter = origin.meter();
        let mut stream = std::net::TcpStream::connect(origin.address).expect("it listens");
        let mut ask = |path: &str, file: File| {
            write!(stream, "GET {path} HTTP/1.1\r\n\r\n").expect("it reads");
            let head = Response::of(file).first.len() as u64 - file.bytes().min(PIECE_BYTES as u64);
            let mut response = vec![0; (head + file.bytes()) as usize];
            stream.read_exact(&mut response).expect("it answers");
            let length = format!("Content-Length: {}\r\n", file.bytes());
            let text = String::from_utf8_lossy(&response[..head as usize]).into_owned();
            assert!(text.contains(&length), "{text}");
            assert_eq!(response.last(), Some(&b'x'));
        };
        ask("/1k", File::Small);
        meter.begin().expect("a counter");
        ask("/1m/7", File::Mebibyte);
        ask("/10/7", File::Tiny);
        meter.end().expect("a counter");
        assert_eq!(meter.during, 2);
    }

    #[test]
    fn the_same_over_tls_and_for_clients_that_end_connections() {
        let directory =
            std::env::temp_dir().join(format!("sealane-bench-origin-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a scratch directory");
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
        let certificate = rcgen::CertificateParams::new(vec!["localhost".into()])
            .and_then(|params| params.self_signed(&key))
            .expect("a certificate can be signed");
        for (name, pem) in [
            ("p256.crt", certificate.pem()),
            ("p256.key", key.serialize_pem()),
        ] {
            std::fs::write(directory.join(name), pem).expect("a scratch file");
        }
        let origin = Origin::start(&[]).expect("loopback has a free port");
        let tls = origin.listen_over_tls(&[], &directory);
        let tls = tls.unwrap_or_else(|error| panic!("{error}"));
        for (scheme, address, resumption) in [
            ("http", origin.address, Resumption::Full),
            ("https", tls, Resumption::Full),
            ("https", tls, Resumption::Resumed),
        ] {
            let url: Url = format!("{scheme}://localhost:{}/1m", address.port())
                .parse()
                .expect("a URL");
            let expected = Expected {
                status: 200,
                body_bytes: Some(File::Mebibyte.bytes()),
            };
            let mut plan = Plan::new(&url, address, expected, ConnectionUse::EndedByClient);
            plan.limit = Limit::Operations(5);
            if let Some(tls) = plan.tls.as_mut() {
                tls.resumption = resumption;
            }
            let mut meter = origin.meter();
            let outcome = load::run_metered(&plan, None, &mut [&mut meter])
                .unwrap_or_else(|error| panic!("{scheme} {resumption:?}: {error}"));
            assert_eq!((outcome.operations, outcome.connections), (5, 5));
            let full = if scheme == "https" && resumption == Resumption::Full {
                5
            } else {
                0
            };
            assert_eq!((meter.during, meter.full_handshakes), (5, full));
        }
        std::fs::remove_dir_all(&directory).expect("the scratch directory is ours");
    }
}
