//! `openssl s_client` as a TLS client that reports the negotiated parameters.

use crate::{Server, command};
use std::io::Read;
use std::net::TcpListener;

/// What a handshake by `openssl s_client` came to.
#[derive(Debug)]
pub struct Handshake {
    /// `TLSv1.2` and so on; empty when there was no handshake.
    pub protocol: String,
    /// OpenSSL's name of the suite, `(NONE)` when there was no handshake.
    pub cipher: String,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// The subject of the server's certificate.
    pub subject: String,
    /// Everything that s_client printed, the HTTP response included.
    pub output: String,
    /// The exit status of s_client.
    pub status: i32,
}

impl Handshake {
    /// Whether the handshake was completed.
    pub fn succeeded(&self) -> bool {
        self.status == 0 && self.cipher != "(NONE)" && !self.cipher.is_empty()
    }
}

/// Connects to `%tls%` with `options` for s_client, asks for `/tls` and waits
/// until the server closes.
#[track_caller]
pub fn handshake(server: &Server<'_>, options: &str) -> Handshake {
    handshake_at(server, "tls", options)
}

/// The same with another port of the configuration.
#[track_caller]
pub fn handshake_at(server: &Server<'_>, port: &str, options: &str) -> Handshake {
    let request = "GET /tls HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    handshake_saying(server, port, options, request)
}

/// The same with another request, after which the server closes the connection.
#[track_caller]
pub fn handshake_saying(
    server: &Server<'_>,
    port: &str,
    options: &str,
    request: &str,
) -> Handshake {
    let address = format!("127.0.0.1:{}", server.port(port));
    let mut arguments = vec!["s_client", "-connect", &address, "-ign_eof"];
    arguments.extend(options.split_whitespace());
    let outcome = command("openssl", &arguments, request.as_bytes());
    let output = format!("{}{}", outcome.text(), outcome.stderr);
    let after = |prefix: &str| {
        let line = output
            .lines()
            .rev()
            .find_map(|line| line.trim().strip_prefix(prefix));
        line.map(|rest| rest.trim_start_matches([' ', ':']).to_owned())
            .unwrap_or_default()
    };
    // "New, TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384"; that line names the
    // suite's protocol, not the connection's, which is in the session.
    let summary = output.lines().find(|line| line.contains(", Cipher is "));
    let cipher = summary
        .and_then(|line| line.rsplit(' ').next())
        .unwrap_or_default();
    let protocol = match cipher.starts_with("TLS_") {
        true => "TLSv1.3".to_owned(),
        false => after("Protocol"),
    };
    Handshake {
        protocol,
        cipher: cipher.to_owned(),
        resumed: summary.is_some_and(|line| line.starts_with("Reused")),
        subject: after("subject="),
        status: outcome.status,
        output,
    }
}

/// The ClientHello that openssl would send, in its record.
///
/// # Panics
/// If openssl does not say hello in one record.
#[track_caller]
pub fn client_hello(server_name: &str, options: &str) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let line = format!("s_client -connect {address} -servername {server_name} {options}");
    let client = std::thread::spawn(move || {
        let arguments: Vec<&str> = line.split(' ').collect();
        command("openssl", &arguments, b"");
    });
    let (mut stream, _) = listener.accept().expect("openssl connects");
    let mut head = [0; 5];
    stream.read_exact(&mut head).expect("openssl says hello");
    let mut hello = head.to_vec();
    hello.resize(5 + usize::from(u16::from_be_bytes([head[3], head[4]])), 0);
    stream.read_exact(&mut hello[5..]).expect("in one record");
    drop(stream);
    client.join().expect("openssl ends");
    hello
}
