//! Figures of the TLS layer alone, in memory, on one thread: server handshakes
//! per second, sealing in GB/s, bytes per idle connection. Only the server's calls
//! are timed. Run it before and after a change:
//!
//! ```sh
//! cargo run --release -p sealane-tls --example figures
//! ```

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealane_awslc::{ClientConnection, ClientContext, ProtocolVersion, Session, group_by_name};
use sealane_tls::{
    Acceptor, Connection, EarlyData, HandshakeStatus, Identity, Load, ReadStatus, ReplayRegister,
    Secret, ServerSettings, ServerTls, SessionCacheSetting,
};

const IDLE_CONNECTIONS: usize = 20_000;
const SEALED_BYTES: usize = 4 << 30;
const WRITE_BYTES: usize = 256 << 10;
const TIMED: Duration = Duration::from_millis(1500);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    if let Some(case) = std::env::args().nth(1) {
        println!("{:.0}", memory(&case)?);
        return Ok(());
    }
    println!("{}", sealane_tls::library_version());
    let p256 = server(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let rsa = server(&rcgen::PKCS_RSA_SHA256)?;
    let tls12 = (ProtocolVersion::Tls12, "");
    let tls13 = (ProtocolVersion::Tls13, "TLS_AES_256_GCM_SHA384");
    println!("\nserver handshakes per second, X25519");
    for (label, server, version, resume) in [
        ("TLS 1.3 full, P-256", &p256, tls13, false),
        ("TLS 1.3 full, RSA-2048", &rsa, tls13, false),
        ("TLS 1.2 full, P-256", &p256, tls12, false),
        ("TLS 1.2 full, RSA-2048", &rsa, tls12, false),
        ("TLS 1.3 ticket", &p256, tls13, true),
        ("TLS 1.2 ticket", &p256, tls12, true),
    ] {
        println!("{label:<28}{:>10.0}", handshakes(server, version, resume)?);
    }
    let cached = server_with(&rcgen::PKCS_ECDSA_P256_SHA256, |settings| {
        settings.tickets = false;
        settings.session_cache = SessionCacheSetting::Builtin { sessions: 100_000 };
    })?;
    let early = server_with(&rcgen::PKCS_ECDSA_P256_SHA256, |settings| {
        let register = Arc::new(ReplayRegister::new(1_000_000, 0).expect("memory"));
        settings.early_data = Some(EarlyData { register });
    })?;
    for (label, version) in [
        ("TLS 1.3 opaque ticket", tls13),
        ("TLS 1.2 session id", tls12),
    ] {
        println!("{label:<28}{:>10.0}", handshakes(&cached, version, true)?);
    }
    println!("\nwith a 64-byte request and its 1 KiB response, per second");
    for (label, with_early_data) in [("TLS 1.3 ticket", false), ("TLS 1.3 early data", true)] {
        let rate = first_requests(&early, tls13, with_early_data)?;
        println!("{label:<28}{rate:>10.0}");
    }
    println!("\nsealing, {} KiB per call, GB/s", WRITE_BYTES >> 10);
    for suite in [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
    ] {
        println!(
            "{suite:<28}{:>10.2}",
            sealing(&p256, (ProtocolVersion::Tls13, suite))?
        );
    }
    println!("\nkeep-alive, 64-byte request, 1 KiB response, ns per exchange");
    println!("{:<28}{:>10.0}", tls13.1, exchanges(&p256, tls13)?);
    println!("\nmemory per idle connection, bytes, {IDLE_CONNECTIONS} connections");
    // Each in a fresh process: what an allocator has once taken hides the next.
    for case in ["TLS 1.3", "TLS 1.2", "before the ClientHello"] {
        let output = Command::new(std::env::current_exe()?).arg(case).output()?;
        println!("{case:<28}{:>10}", String::from_utf8(output.stdout)?.trim());
    }
    Ok(())
}

fn memory(case: &str) -> Outcome<f64> {
    let acceptor = server(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    match case {
        "TLS 1.3" => idle(
            &acceptor,
            (ProtocolVersion::Tls13, "TLS_AES_256_GCM_SHA384"),
        ),
        "TLS 1.2" => idle(&acceptor, (ProtocolVersion::Tls12, "")),
        _ => before_hello(&acceptor),
    }
}

type Version = (ProtocolVersion, &'static str);

fn server(algorithm: &'static rcgen::SignatureAlgorithm) -> Outcome<Acceptor> {
    server_with(algorithm, |_| {})
}

fn server_with(
    algorithm: &'static rcgen::SignatureAlgorithm,
    configure: impl FnOnce(&mut ServerSettings),
) -> Outcome<Acceptor> {
    let key = rcgen::KeyPair::generate_for(algorithm)?;
    let certificate =
        rcgen::CertificateParams::new(vec!["name.test".to_owned()])?.self_signed(&key)?;
    let mut settings = ServerSettings {
        identities: vec![Identity {
            chain_pem: certificate.pem().into_bytes(),
            key_pem: Secret::new(key.serialize_pem().into_bytes()),
            passwords: Vec::new(),
            chain_label: "generated".to_owned(),
            key_label: "generated".to_owned(),
        }],
        ..ServerSettings::default()
    };
    configure(&mut settings);
    let (server, _) = ServerTls::build(&settings)?;
    Ok(Acceptor::single(Arc::new(server)))
}

fn client(version: Version) -> Outcome<ClientContext> {
    let mut builder = ClientContext::builder()?;
    builder.set_protocol_range(version.0, version.0)?;
    if !version.1.is_empty() {
        builder.set_ciphersuites(version.1)?;
    }
    // P-256 stands for the certificate's curve, which TLS 1.2 negotiates too.
    let groups: Option<Vec<_>> = ["X25519", "P-256"].into_iter().map(group_by_name).collect();
    builder.set_groups(&groups.ok_or("a group is missing")?)?;
    Ok(builder.build()?)
}

struct Pair {
    client: ClientConnection,
    server: Connection,
    to_client: Vec<u8>,
    server_time: Duration,
}

fn pair(acceptor: &Acceptor, context: &ClientContext, session: Option<&Session>) -> Outcome<Pair> {
    let mut client = ClientConnection::new(context, Some("name.test"))?;
    if let Some(session) = session {
        client.set_session(session)?;
    }
    let (mut to_server, mut to_client) = (Vec::new(), Vec::with_capacity(8192));
    let mut server_time = Duration::ZERO;
    let started = Instant::now();
    let mut server = Connection::accept(acceptor);
    server_time += started.elapsed();
    let (mut client_done, mut server_done) = (false, false);
    while !(client_done && server_done) {
        client_done =
            client.handshake(&mut &to_client[..], &mut to_server)? == HandshakeStatus::Done;
        to_client.clear();
        let started = Instant::now();
        server_done = server.handshake(&mut &to_server[..], &mut to_client, Load::default())?
            == HandshakeStatus::Done;
        if server_done {
            server.write(b"", 0, &mut to_client)?;
        }
        server_time += started.elapsed();
        to_server.clear();
    }
    Ok(Pair {
        client,
        server,
        to_client,
        server_time,
    })
}

fn handshakes(acceptor: &Acceptor, version: Version, resume: bool) -> Outcome<f64> {
    let context = client(version)?;
    let mut session = None;
    if resume {
        let mut pair = pair(acceptor, &context, None)?;
        let _ = pair
            .client
            .read(&mut &pair.to_client[..], &mut Vec::new(), &mut [0; 100])?;
        session = pair.client.take_session();
    }
    let (mut count, mut total) = (0, Duration::ZERO);
    while total < TIMED {
        let pair = pair(acceptor, &context, session.as_ref())?;
        assert_eq!(
            pair.client.is_session_reused(),
            resume,
            "the wrong kind of handshake"
        );
        let started = Instant::now();
        drop(pair.server);
        total += pair.server_time + started.elapsed();
        count += 1;
    }
    Ok(f64::from(count) / total.as_secs_f64())
}

/// Connections that resume, send one request and get its response: the server's
/// part, with the request in the first flight or after the handshake.
fn first_requests(acceptor: &Acceptor, version: Version, early: bool) -> Outcome<f64> {
    let context = client(version)?;
    let (request, response) = ([b'r'; 64], [b's'; 1024]);
    let mut plain = [0; 4096];
    let mut first = pair(acceptor, &context, None)?;
    first
        .client
        .read(&mut &first.to_client[..], &mut Vec::new(), &mut plain)?;
    let mut session = first.client.take_session().ok_or("no ticket")?;
    let (mut count, mut total) = (0, Duration::ZERO);
    while total < TIMED {
        let mut client = ClientConnection::new(&context, Some("name.test"))?;
        client.set_session(&session)?;
        if early {
            client.offer_early_data();
        }
        let (mut to_server, mut to_client) = (Vec::new(), Vec::with_capacity(8192));
        let mut server = Connection::accept(acceptor);
        let (mut sent, mut answered) = (false, false);
        while !(answered && server.is_established()) {
            let mut input = &to_client[..];
            let done = client.handshake(&mut input, &mut to_server)?;
            if !sent && done == HandshakeStatus::Done {
                client.write(&request, &mut to_server)?;
                sent = true;
            }
            // Early data: tickets and response came with the handshake.
            while !input.is_empty() {
                client.read(&mut input, &mut to_server, &mut plain)?;
            }
            to_client.clear();
            let started = Instant::now();
            let mut input = &to_server[..];
            let done = server.handshake(&mut input, &mut to_client, Load::default())?;
            if done == HandshakeStatus::Done {
                let status = server.read(&mut input, &mut to_client, &mut plain)?;
                if !answered && status == ReadStatus::Data(request.len()) {
                    server.write(&response, 0, &mut to_client)?;
                    answered = true;
                }
            }
            total += started.elapsed();
            to_server.clear();
        }
        let mut input = &to_client[..];
        while !input.is_empty() {
            client.read(&mut input, &mut to_server, &mut plain)?;
        }
        assert_eq!(client.was_early_data_accepted(), early);
        session = client.take_session().ok_or("no ticket")?;
        let started = Instant::now();
        drop(server);
        total += started.elapsed();
        count += 1;
    }
    Ok(f64::from(count) / total.as_secs_f64())
}

fn sealing(acceptor: &Acceptor, version: Version) -> Outcome<f64> {
    let mut pair = pair(acceptor, &client(version)?, None)?;
    let plain = vec![7; WRITE_BYTES];
    let mut output = Vec::new();
    let started = Instant::now();
    for _ in 0..SEALED_BYTES / WRITE_BYTES {
        output.clear();
        pair.server.write(&plain, 0, &mut output)?;
    }
    Ok(SEALED_BYTES as f64 / started.elapsed().as_secs_f64() / 1e9)
}

fn exchanges(acceptor: &Acceptor, version: Version) -> Outcome<f64> {
    let mut pair = pair(acceptor, &client(version)?, None)?;
    let (request, response) = ([b'r'; 64], [b's'; 1024]);
    let (mut wire, mut output, mut plain) = (Vec::new(), Vec::new(), [0; 4096]);
    let (mut count, mut total) = (0, Duration::ZERO);
    while total < TIMED / 5 {
        wire.clear();
        pair.client.write(&request, &mut wire)?;
        output.clear();
        let started = Instant::now();
        let status = pair.server.read(&mut &wire[..], &mut output, &mut plain)?;
        pair.server.write(&response, 0, &mut output)?;
        total += started.elapsed();
        assert_eq!(status, ReadStatus::Data(request.len()));
        count += 1;
    }
    Ok(total.as_nanos() as f64 / f64::from(count))
}

/// Connections that served a request and wait, by the growth of resident memory.
fn idle(acceptor: &Acceptor, version: Version) -> Outcome<f64> {
    let context = client(version)?;
    let one = |plain: &mut [u8]| -> Outcome<Connection> {
        let mut pair = pair(acceptor, &context, None)?;
        let (mut wire, mut output) = (Vec::new(), Vec::new());
        pair.client.write(&[1; 64], &mut wire)?;
        pair.server.read(&mut &wire[..], &mut output, plain)?;
        pair.server.write(&[2; 1024], 0, &mut output)?;
        Ok(pair.server)
    };
    let mut plain = [0; 4096];
    // What the allocator keeps for a handshake should not be counted.
    let warm: Vec<Connection> = (0..500).map(|_| one(&mut plain)).collect::<Outcome<_>>()?;
    let mut connections = Vec::with_capacity(IDLE_CONNECTIONS);
    let before = resident_bytes()?;
    for _ in 0..IDLE_CONNECTIONS {
        connections.push(one(&mut plain)?);
    }
    let after = resident_bytes()?;
    drop((warm, connections));
    Ok((after - before) / IDLE_CONNECTIONS as f64)
}

fn before_hello(acceptor: &Acceptor) -> Outcome<f64> {
    let mut connections = Vec::with_capacity(IDLE_CONNECTIONS * 50);
    let before = resident_bytes()?;
    connections.extend((0..IDLE_CONNECTIONS * 50).map(|_| Connection::accept(acceptor)));
    let after = resident_bytes()?;
    Ok((after - before) / connections.len() as f64)
}

fn resident_bytes() -> Outcome<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm
        .split(' ')
        .nth(1)
        .ok_or("statm has seven fields")?
        .parse()?;
    Ok(pages * 4096.0)
}
