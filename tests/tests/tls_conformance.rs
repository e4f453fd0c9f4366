//! What clients get that do not keep to TLS: an alert that arrives.

use sealane_awslc::{
    ClientConnection, ClientContext, HandshakeStatus, ProtocolVersion, ReadStatus,
};
use sealane_tests::{Certificate, CertificateKey, PATIENCE, Server, Site, handshake, wait_for};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

fn serve(site: &Site) -> Server<'_> {
    serve_with(site, "")
}

fn serve_with<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.serve(&format!(
        "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
         server {{ listen 127.0.0.1:%tls% ssl; {directives} location / {{ return 200 ok; }} }}"
    ))
}

fn connect(server: &Server<'_>) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port("tls"))).expect("listens");
    let timeout = Some(PATIENCE);
    stream.set_read_timeout(timeout).expect("it is not zero");
    stream.set_write_timeout(timeout).expect("it is not zero");
    stream
}

/// A client that does what it is told.
struct Client {
    tls: ClientConnection,
    stream: TcpStream,
    /// Received and not opened yet.
    input: Vec<u8>,
    /// To be sent.
    output: Vec<u8>,
}

impl Client {
    /// Its hello is in `output`.
    fn new(context: &ClientContext, stream: TcpStream) -> Client {
        let mut tls = ClientConnection::unnamed(context).expect("a client");
        let mut output = Vec::new();
        tls.handshake(&mut &[][..], &mut output).expect("a hello");
        let input = Vec::new();
        Client {
            tls,
            stream,
            input,
            output,
        }
    }

    fn send(&mut self) -> std::io::Result<()> {
        let output = std::mem::take(&mut self.output);
        self.stream.write_all(&output)
    }

    /// False at the end of the stream, which a reset is too.
    fn receive(&mut self) -> bool {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(bytes) => {
                self.input.extend_from_slice(&chunk[..bytes]);
                bytes > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("the server says nothing: {error}"),
        }
    }

    /// The alert that ends it, if one does.
    fn handshake(&mut self) -> Result<(), Option<u8>> {
        loop {
            self.send().map_err(|_| None)?;
            let mut rest = &self.input[..];
            let status = self.tls.handshake(&mut rest, &mut self.output);
            let left = rest.len();
            self.input.drain(..self.input.len() - left);
            match status {
                Ok(HandshakeStatus::Done) => return self.send().map_err(|_| None),
                Ok(_) if self.receive() => {}
                Ok(_) => return Err(None),
                Err(error) => return Err(error.received_alert()),
            }
        }
    }

    fn update_keys(&mut self) {
        self.tls.update_keys().expect("TLS 1.3");
        self.tls.write(b"", &mut self.output).expect("established");
    }

    /// Whether the server has closed, or does within the read timeout.
    fn is_closed(&mut self) -> bool {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => return true,
            Ok(bytes) => self.input.extend_from_slice(&chunk[..bytes]),
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
        let mut rest = &self.input[..];
        let status = self.tls.read(&mut rest, &mut Vec::new(), &mut [0; 100]);
        let left = rest.len();
        self.input.drain(..self.input.len() - left);
        matches!(status, Ok(ReadStatus::CloseNotify) | Err(_))
    }

    /// Reads until there is data, or the end: close_notify, an alert, or silence.
    fn read(&mut self) -> Result<Vec<u8>, Option<u8>> {
        let mut plain = [0; 4096];
        loop {
            let mut rest = &self.input[..];
            let status = self.tls.read(&mut rest, &mut Vec::new(), &mut plain);
            let left = rest.len();
            self.input.drain(..self.input.len() - left);
            match status {
                Ok(ReadStatus::Data(bytes)) => return Ok(plain[..bytes].to_vec()),
                Ok(ReadStatus::WantRead) if self.receive() => {}
                Ok(_) => return Err(None),
                Err(error) => return Err(error.received_alert()),
            }
        }
    }
}

fn tls13(configure: impl FnOnce(&mut sealane_awslc::ClientContextBuilder)) -> ClientContext {
    let mut builder = ClientContext::builder().expect("a context");
    let version = ProtocolVersion::Tls13;
    builder.set_protocol_range(version, version).expect("known");
    configure(&mut builder);
    builder.build().expect("a context")
}

/// What the server sends to a client that sends all of `bytes` before it reads. An error is a
/// reset, which may take from the client what it has not read.
fn answer(server: &Server<'_>, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port("tls")))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    for piece in bytes.chunks(10_000) {
        stream.write_all(piece)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

#[test]
fn an_alert_reaches_a_client_that_goes_on_sending() {
    let site = Site::new();
    let server = serve(&site);
    let much = vec![0; 2_000_000];
    for (what, start, alert) in [
        ("a message of 6 MB", &b"\x16\x03\x01\x00\x05hello"[..], 47),
        (
            "a hello that is too long",
            b"\x16\x03\x01\x40\x00\x01\x02\x01\x45\x03\x03",
            50,
        ),
        ("a record that is too long", b"\x16\x03\x01\xff\xff\x01", 22),
    ] {
        let answer = answer(&server, &[start, &much].concat())
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(answer[0], 21, "{what}: an alert");
        assert_eq!(answer[5..], [2, alert], "{what}");
    }
    assert!(handshake(&server, "").succeeded(), "others are served");
}

#[test]
fn a_flood_of_key_updates_ends_with_an_alert() {
    let site = Site::new();
    let server = serve(&site);
    let mut client = Client::new(&tls13(|_| {}), connect(&server));
    client.handshake().expect("defaults");
    for _ in 0..10_000 {
        client.update_keys();
    }
    client.send().expect("the connection lingers");
    client.stream.shutdown(Shutdown::Write).expect("connected");
    assert_eq!(client.read(), Err(Some(10)), "unexpected_message");
    let line = server.wait_for_log("TOO_MANY_KEY_UPDATES");
    assert!(line.contains("[info]"), "{line}");
    assert!(handshake(&server, "").succeeded(), "others are served");
}

/// KeyUpdates, one after the other and fewer than are too many, until the server closes.
fn update_keys_until_closed(server: &Server<'_>, client: &mut Client) {
    // Far less than the timeout for each, far more for all.
    let pause = Some(Duration::from_millis(300));
    client.stream.set_read_timeout(pause).expect("not zero");
    let closed = (0..30).any(|_| {
        client.update_keys();
        client.send().is_err() || client.is_closed()
    });
    assert!(closed, "KeyUpdates keep the connection open");
    assert!(!server.error_log().contains("TOO_MANY_KEY_UPDATES"));
}

#[test]
fn key_updates_do_not_prolong_keepalive_timeout() {
    let site = Site::new();
    let server = serve_with(&site, "keepalive_timeout 1s;");
    let mut client = Client::new(&tls13(|_| {}), connect(&server));
    client.handshake().expect("defaults");
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client
        .tls
        .write(request, &mut client.output)
        .expect("established");
    client.send().expect("the server reads");
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\nok") {
        response.extend(client.read().expect("a response"));
    }
    update_keys_until_closed(&server, &mut client);
}

#[test]
fn key_updates_do_not_prolong_client_header_timeout() {
    let site = Site::new();
    let server = serve_with(&site, "client_header_timeout 1s;");
    for begun in [&b""[..], b"GET / HTTP/1.1\r\nHo"] {
        let mut client = Client::new(&tls13(|_| {}), connect(&server));
        client.handshake().expect("defaults");
        client
            .tls
            .write(begun, &mut client.output)
            .expect("established");
        client.send().expect("the server reads");
        update_keys_until_closed(&server, &mut client);
    }
}

/// The cap of crates/tls/src/hello_records.rs.
const MAX_LARGE_HELLOS: usize = 256;

#[test]
fn clients_with_large_hellos_are_as_many_as_may_be_and_others_are_not_in_their_way() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let server = site.serve_with(
        "",
        "worker_connections 1024;",
        "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
         server { listen 127.0.0.1:%tls% ssl; location / { return 200 ok; } }",
    );
    // A hello of 60 KB: it offers many protocols.
    let talkative = tls13(|builder| {
        let mut names: Vec<Vec<u8>> = (0..240_u8).map(|n| vec![n; 250]).collect();
        names.push(b"http/1.1".to_vec());
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        builder.set_alpn(&names).expect("valid");
    });
    let mut last = Client::new(&talkative, connect(&server));
    let later = last.output.split_off(40_000);
    last.send().expect("the server reads");
    let begin = || {
        let mut stream = connect(&server);
        let hello = [22, 3, 1, 0x40, 0, 1, 0, 0x50, 0, 3, 3];
        stream.write_all(&hello).expect("the server reads");
        stream
    };
    let others: Vec<TcpStream> = (1..MAX_LARGE_HELLOS).map(|_| begin()).collect();
    // One more is refused, as soon as the server has seen all of them.
    let alert = wait_for("a hello to be refused", || {
        let mut stream = begin();
        let timeout = Some(Duration::from_millis(100));
        stream.set_read_timeout(timeout).expect("it is not zero");
        let mut alert = [0; 7];
        stream.read_exact(&mut alert).ok().map(|()| alert)
    });
    assert_eq!(alert, [21, 3, 3, 0, 2, 2, 80], "internal_error");
    let line = server.wait_for_log("too many clients are sending a ClientHello");
    assert!(line.contains("[info]"), "{line}");
    for stream in &others {
        stream.set_nonblocking(true).expect("a socket");
        let error = stream.peek(&mut [0]).expect_err("nothing is answered yet");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    assert!(handshake(&server, "").succeeded(), "usual hellos are taken");

    // Whoever is done makes room, and so does whoever goes away.
    last.output = later;
    last.handshake().expect("it had its place");
    let mut next = connect(&server);
    for round in 0..2 {
        wait_for("a place", || {
            let stream = std::mem::replace(&mut next, connect(&server));
            let mut client = Client::new(&talkative, stream);
            let outcome = client.handshake();
            assert!(matches!(outcome, Ok(()) | Err(None | Some(80))), "{round}");
            outcome.ok()
        });
    }
    drop(others);
}
