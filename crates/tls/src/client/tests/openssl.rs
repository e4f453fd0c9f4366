//! Against `openssl s_server`: another implementation at the other end of a socket.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, SystemTime};

use super::*;

/// A directory with the server's files, and the server; both go with the test.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    address: String,
    directory: PathBuf,
}

impl Server {
    /// Starts a server that shows `made`, with more arguments.
    fn start(made: &Made, arguments: &[&str]) -> Self {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_ns = since.expect("after 1970").as_nanos();
        let name = format!(
            "sealane-tls-client-{}-{number}-{now_ns}",
            std::process::id()
        );
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a new directory");
        for (file, contents) in [
            ("chain.pem", made.chain_pem.as_bytes()),
            ("key.pem", made.key_pem.as_bytes()),
            ("ca.pem", root().pem().as_bytes()),
            ("large", &data(1_000_000)),
        ] {
            fs::write(directory.join(file), contents).expect("a new file");
        }
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-naccept", "8"])
            .args([
                "-cert",
                "chain.pem",
                "-cert_chain",
                "chain.pem",
                "-key",
                "key.pem",
            ])
            .args(arguments)
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let stdin = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = loop {
            let line = lines.next().expect("it says where it listens");
            let line = line.expect("text");
            if let Some(address) = line.strip_prefix("ACCEPT ") {
                break address.to_owned();
            }
        };
        // The rest is of no use, and must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            stdin,
            address,
            directory,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A connection over a socket, as a blocking caller would drive it.
struct Link {
    tls: Connection,
    socket: TcpStream,
    /// Received and not consumed.
    input: Vec<u8>,
}

impl Link {
    fn connect(server: &Server, tls: &ClientTls, session: Option<&Session>) -> Result<Self, Error> {
        let socket = TcpStream::connect(&server.address).expect("it listens");
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a valid time");
        let mut link = Self {
            tls: tls.connect(Some("a.test"), session)?,
            socket,
            input: Vec::new(),
        };
        loop {
            let mut output = Vec::new();
            let mut rest = &link.input[..];
            let status = link.tls.handshake(&mut rest, &mut output);
            link.input = rest.to_vec();
            link.send(&output);
            if status? == Handshake::Done {
                return Ok(link);
            }
            if !link.receive() {
                return Err(link.tls.end_of_input().expect_err("not established"));
            }
        }
    }

    /// The server may be gone.
    fn send(&mut self, output: &[u8]) {
        let _ = self.socket.write_all(output);
    }

    fn receive(&mut self) -> bool {
        let mut buffer = [0; 7_000];
        let count = loop {
            match self.socket.read(&mut buffer) {
                // Reads with a time limit are not resumed after a signal.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break 0,
                result => break result.expect("the server answers in time"),
            }
        };
        self.input.extend_from_slice(&buffer[..count]);
        count > 0
    }

    fn write(&mut self, plain: &[u8]) {
        let mut output = Vec::new();
        self.tls.write(plain, &mut output).expect("established");
        self.send(&output);
    }

    /// Reads until `is_enough` or the end; whether the end was in order is the result.
    fn read_until(
        &mut self,
        received: &mut Vec<u8>,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<(), Error> {
        loop {
            let (mut rest, mut output) = (&self.input[..], Vec::new());
            let status = self.tls.read(&mut rest, &mut output, received, 100_000);
            self.input = rest.to_vec();
            self.send(&output);
            match status? {
                ReadStatus::Data(_) if is_enough(received) => return Ok(()),
                ReadStatus::Data(_) => {}
                ReadStatus::CloseNotify => return self.tls.end_of_input(),
                ReadStatus::WantRead => {
                    if !self.receive() {
                        return self.tls.end_of_input();
                    }
                }
            }
        }
    }

    /// A request to `-www` or `-WWW`; the whole answer.
    fn get(&mut self, path: &str) -> Result<Vec<u8>, Error> {
        self.write(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
        let mut received = Vec::new();
        self.read_until(&mut received, |_| false)?;
        Ok(received)
    }
}

const VERSIONS: [(Protocol, &str); 2] = [
    (Protocol::TlsV1_2, "-tls1_2"),
    (Protocol::TlsV1_3, "-tls1_3"),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn files_arrive_whole_under_both_versions() {
    let made = root().leaf(&["a.test"]);
    for (protocol, argument) in VERSIONS {
        let server = Server::start(&made, &[argument, "-WWW"]);
        // What it may negotiate is the server's choice.
        let mut link = Link::connect(&server, &client(&verifying(&root().pem())), None)
            .expect("it is trusted");
        assert_eq!(link.tls.protocol(), protocol.name());
        let answer = link.get("/large").expect("closed in order");
        assert!(answer.starts_with(b"HTTP/1.0 200 ok\r\n"));
        assert!(answer.ends_with(&data(1_000_000)));
    }
}

#[test]
fn both_ends_see_the_resumption() {
    let made = root().leaf(&["a.test"]);
    for (protocol, argument) in VERSIONS {
        for tickets in [true, false] {
            let more: &[_] = if tickets { &[] } else { &["-no_ticket"] };
            let server = Server::start(&made, &[&[argument, "-www"], more].concat());
            let (tls, cache) = (client(&verifying(&root().pem())), SessionCache::default());
            for resumes in [false, true, true] {
                let peer = server.address.as_bytes();
                let session = cache.get(&tls, peer, Some("a.test"), unix_time_s());
                let mut link =
                    Link::connect(&server, &tls, session.as_ref()).expect("it is trusted");
                let answer = text(&link.get("/").expect("closed in order"));
                assert_eq!(
                    link.tls.is_session_reused(),
                    resumes,
                    "{argument} {tickets}"
                );
                let seen = if resumes {
                    "Reused, TLSv1"
                } else {
                    "New, TLSv1"
                };
                assert!(answer.contains(seen), "{argument} {tickets}: {answer}");
                assert!(answer.contains(protocol.name()), "{answer}");
                // With TLS 1.2 a session that is resumed stays the same.
                if let Some(session) = link.tls.take_session() {
                    cache.put(peer, session);
                }
            }
        }
    }
}

#[test]
fn a_client_certificate_is_shown_to_who_asks() {
    let made = root().leaf(&["a.test"]);
    let ours = root().leaf_with(&["client.test"], |params| {
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "the client");
    });
    for (protocol, argument) in VERSIONS {
        let arguments = [
            argument,
            "-www",
            "-Verify",
            "3",
            "-CAfile",
            "ca.pem",
            "-verify_return_error",
        ];
        let server = Server::start(&made, &arguments);
        let plain = client(&verifying(&root().pem()));
        let with = client(&ClientSettings {
            identity: Some(ours.identity()),
            ..verifying(&root().pem())
        });
        let loaded = ClientIdentity::load(&ours.identity(), None).expect("valid");
        for tls in [&with, &plain.with_identity(Some(loaded))] {
            let mut link = Link::connect(&server, tls, None).expect("it is trusted");
            let answer = text(&link.get("/").expect("closed in order"));
            assert!(answer.contains("the client"), "{answer}");
        }
        // Without one, and with one of a stranger, the server ends the connection: in TLS 1.3 after
        // the client is done.
        let stranger = Ca::root("Stranger").leaf(&["client.test"]).identity();
        let stranger = ClientIdentity::load(&stranger, None).expect("valid");
        for (tls, alert) in [
            (
                &plain,
                if protocol == Protocol::TlsV1_2 {
                    "HANDSHAKE_FAILURE"
                } else {
                    "CERTIFICATE_REQUIRED"
                },
            ),
            (&plain.with_identity(Some(stranger)), "UNKNOWN_CA"),
        ] {
            let end = Link::connect(&server, tls, None).and_then(|mut link| link.get("/"));
            let error = end.expect_err("the server refuses").to_string();
            assert!(error.contains(alert), "{argument}: {error}");
        }
    }
}

#[test]
fn the_application_protocol_is_agreed_upon() {
    let made = root().leaf(&["a.test"]);
    let server = Server::start(&made, &["-www", "-alpn", "h2,http/1.1"]);
    for alpn in [&b"h2"[..], b"http/1.1"] {
        let tls = client(&ClientSettings {
            alpn: vec![alpn],
            ..verifying(&root().pem())
        });
        let link = Link::connect(&server, &tls, None).expect("it is trusted");
        assert_eq!(link.tls.alpn(), alpn);
    }
}

#[test]
fn every_kind_of_certificate_signs() {
    for algorithm in ["RSA", "EC", "ED25519"] {
        let arguments = ["genpkey", "-algorithm", algorithm];
        let curve = ["-pkeyopt", "ec_paramgen_curve:P-384"];
        let more: &[_] = if algorithm == "EC" { &curve } else { &[] };
        let made = Command::new("openssl").args(arguments).args(more).output();
        let key_pem = text(&made.expect("openssl is installed").stdout);
        let key = rcgen::KeyPair::from_pem(&key_pem).expect("just made");
        let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &root().issuer).expect("signs");
        let made = Made {
            chain_pem: certificate.pem(),
            key_pem,
            serial: 0,
        };
        let server = Server::start(&made, &["-WWW", "-Verify", "1"]);
        let tls = client(&ClientSettings {
            identity: Some(made.identity()),
            ..verifying(&root().pem())
        });
        Link::connect(&server, &tls, None).expect("it is trusted");
    }
}

#[test]
fn a_refused_server_learns_it_and_the_chain_is_checked_as_sent() {
    let between = root().intermediate("Between");
    let good = between.leaf(&["a.test"]).with(&between);
    let server = Server::start(&good, &["-WWW"]);
    let trusting = |pem: &str| client(&verifying(pem));
    assert!(Link::connect(&server, &trusting(&root().pem()), None).is_ok());
    let error = Link::connect(&server, &trusting(&Ca::root("Other").pem()), None)
        .err()
        .expect("it is not trusted");
    assert_eq!(
        error.to_string(),
        "upstream SSL certificate verify error: (20:unable to get local issuer certificate)"
    );
    assert_eq!(error.fault(), crate::Fault::Peer);
    // The server goes on with others.
    assert!(Link::connect(&server, &trusting(&root().pem()), None).is_ok());
}

#[test]
fn keys_are_updated_at_the_servers_wish() {
    let made = root().leaf(&["a.test"]);
    let mut server = Server::start(&made, &["-tls1_3"]);
    let mut link =
        Link::connect(&server, &client(&verifying(&root().pem())), None).expect("it is trusted");
    let mut stdin = server.stdin.take().expect("piped");
    let mut received = Vec::new();
    for round in 1..=4_usize {
        if round > 1 {
            // KeyUpdate, and the client shall update too. Tickets came with the first data.
            stdin.write_all(b"K\n").expect("it reads");
            assert!(link.receive(), "a KeyUpdate");
        }
        stdin.write_all(b"hello\n").expect("it reads");
        link.read_until(&mut received, |data| data.len() >= 6 * round)
            .expect("valid records");
        assert_eq!(received, b"hello\n".repeat(round));
        // Sealed with the next key; the server would end the connection otherwise.
        link.write(b"still here\n");
    }
}

#[test]
fn a_connection_that_is_cut_is_told_from_one_that_is_closed() {
    let made = root().leaf(&["a.test"]);
    for (_, argument) in VERSIONS {
        let mut server = Server::start(&made, &[argument]);
        let mut link = Link::connect(&server, &client(&verifying(&root().pem())), None)
            .expect("it is trusted");
        let mut stdin = server.stdin.take().expect("piped");
        stdin.write_all(b"hello\n").expect("it reads");
        let mut received = Vec::new();
        link.read_until(&mut received, |data| data.len() >= 6)
            .expect("valid records");
        server.child.kill().expect("it runs");
        assert_eq!(
            link.read_until(&mut received, |_| false),
            Err(Error::Truncated)
        );
        assert_eq!(received, b"hello\n");
    }
}
