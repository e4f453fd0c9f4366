//! How many bytes a server sends in a full handshake of TLS 1.3, with its certificates as they are
//! and compressed: `cargo run -p sealane-tests --example handshake_bytes`.
//!
//! Counted is the server's flight, from ServerHello to Finished, with the headers of its records.
//! The ClientHello is openssl's, with a list of compression methods added. So the client could not
//! go on, but the flight is complete before it has to.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use sealane_tests::{PATIENCE, Site, command, random::Random};

/// The methods by their names and numbers (RFC 8879 section 7.3).
const METHODS: [(&str, Option<u16>); 4] = [
    ("none", None),
    ("zlib", Some(1)),
    ("brotli", Some(2)),
    ("zstd", Some(3)),
];

const COMPRESS_CERTIFICATE: u16 = 27;

/// What public authorities put into certificates of servers. The timestamps of two logs take 243
/// bytes, which look random.
const EXTENSIONS: &str = "[leaf]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
authorityInfoAccess = caIssuers;URI:http://i.authority.example/
subjectAltName = DNS:www.server.example,DNS:server.example
certificatePolicies = 2.23.140.1.2.1
crlDistributionPoints = URI:http://c.authority.example/17.crl
1.3.6.1.4.1.11129.2.4.2 = DER:TIMESTAMPS
[intermediate]
basicConstraints = critical,CA:TRUE,pathlen:0
keyUsage = critical,digitalSignature,keyCertSign,cRLSign
extendedKeyUsage = serverAuth,clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
authorityInfoAccess = caIssuers;URI:http://x.authority.example/
certificatePolicies = 2.23.140.1.2.1
crlDistributionPoints = URI:http://x.authority.example/root.crl
";

/// Kinds of keys: the leaf's, and the ones above it, for openssl.
const KINDS: [(&str, &str, &str); 2] = [
    (
        "ECDSA",
        "ec -pkeyopt ec_paramgen_curve:prime256v1",
        "ec -pkeyopt ec_paramgen_curve:secp384r1",
    ),
    ("RSA", "rsa:2048", "rsa:2048"),
];

fn main() {
    println!("| leaf and intermediate | certificates | none | zlib | brotli | zstd |");
    println!("|---|---|---|---|---|---|");
    for (kind, leaf, authority) in KINDS {
        let site = Site::new();
        let certificates = make_chain(&site, leaf, authority);
        let server = site.serve(
            "server { listen 127.0.0.1:%tls% ssl; ssl_certificate_compression on;
                 ssl_certificate chain.pem; ssl_certificate_key leaf.key; return 200 ok; }",
        );
        let hello = client_hello();
        let port = server.port("tls");
        let none = flight(port, &hello);
        print!("| {kind} | {certificates} ");
        for (_, method) in METHODS {
            let bytes = method.map_or(none, |method| flight(port, &offering(&hello, method)));
            print!("| {bytes} ({:.2}) ", bytes as f64 / none as f64);
        }
        println!("|");
    }
}

/// Makes `chain.pem`, of a leaf and an intermediate certificate, and `leaf.key`. Returns the
/// length of the two in DER.
fn make_chain(site: &Site, leaf: &str, authority: &str) -> usize {
    let timestamps: Vec<u8> = Random::new(17).bytes(240);
    let digits: String = timestamps
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    site.write(
        "extensions",
        EXTENSIONS.replace("TIMESTAMPS", &format!("0481f0{digits}")),
    );
    let openssl = |line: &str| {
        let line = line.replace("DIR", &site.path("").display().to_string());
        let arguments: Vec<&str> = line.split_whitespace().collect();
        command("openssl", &arguments, b"").success();
    };
    openssl(&format!(
        "req -x509 -nodes -newkey {authority} -subj /C=US/O=An_Authority/CN=Root_X1 -days 30 \
         -keyout DIR/root.key -out DIR/root.pem"
    ));
    for (name, key, subject, issuer) in [
        (
            "intermediate",
            authority,
            "/C=US/O=An_Authority/CN=E17",
            "root",
        ),
        ("leaf", leaf, "/CN=www.server.example", "intermediate"),
    ] {
        openssl(&format!(
            "req -new -nodes -newkey {key} -subj {subject} -keyout DIR/{name}.key -out DIR/{name}.csr"
        ));
        openssl(&format!(
            "x509 -req -in DIR/{name}.csr -CA DIR/{issuer}.pem -CAkey DIR/{issuer}.key -days 30 \
             -extfile DIR/extensions -extensions {name} -out DIR/{name}.pem"
        ));
        openssl(&format!(
            "x509 -in DIR/{name}.pem -outform DER -out DIR/{name}.der"
        ));
    }
    let read = |name: &str| std::fs::read(site.path(name)).expect("openssl has written it");
    site.write(
        "chain.pem",
        [read("leaf.pem"), read("intermediate.pem")].concat(),
    );
    read("leaf.der").len() + read("intermediate.der").len()
}

/// The ClientHello of openssl, in its record.
fn client_hello() -> Vec<u8> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let address = listener.local_addr().expect("bound").to_string();
    let mut client = Command::new("openssl")
        .args(["s_client", "-tls1_3", "-connect", &address])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let (mut socket, _) = listener.accept().expect("openssl connects");
    let mut hello = vec![0; 5];
    socket.read_exact(&mut hello).expect("a record header");
    hello.resize(5 + number(&hello, 3), 0);
    socket.read_exact(&mut hello[5..]).expect("a ClientHello");
    drop(socket);
    client.wait().expect("openssl ends");
    hello
}

/// The two bytes at `at`.
fn number(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// `hello` with an offer of one method.
fn offering(hello: &[u8], method: u16) -> Vec<u8> {
    let mut hello = hello.to_vec();
    let mut extension = COMPRESS_CERTIFICATE.to_be_bytes().to_vec();
    extension.extend_from_slice(&[0, 3, 2]);
    extension.extend_from_slice(&method.to_be_bytes());
    // Behind the headers of record and message, the version and the random: session, suites,
    // compression, extensions.
    let session = 5 + 4 + 2 + 32;
    let suites = session + 1 + usize::from(hello[session]);
    let compression = suites + 2 + number(&hello, suites);
    let extensions = compression + 1 + usize::from(hello[compression]);
    // The lengths of the record, of the message (its lower two bytes) and of the extensions.
    for at in [3, 7, extensions] {
        let length = u16::try_from(number(&hello, at) + extension.len());
        let length = length.expect("a ClientHello is short");
        hello[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }
    hello.extend_from_slice(&extension);
    hello
}

/// The bytes of the server's flight.
fn flight(port: u16, hello: &[u8]) -> usize {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    socket.write_all(hello).expect("it reads");
    socket.shutdown(Shutdown::Write).expect("it is connected");
    let mut received = Vec::new();
    socket.read_to_end(&mut received).expect("it closes");
    // 22 is a handshake record, 20 a ChangeCipherSpec, 23 an encrypted one; there is no alert.
    let mut at = 0;
    while at < received.len() {
        assert!([20, 22, 23].contains(&received[at]), "{received:?}");
        at += 5 + number(&received, at + 3);
    }
    assert!(at > 300, "there is a certificate");
    at
}
