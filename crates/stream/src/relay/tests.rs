//! Relays between sockets of this thread: the peers are tasks of the same event loop.

mod ends;
mod kernel;
mod limits;
mod property;

use super::*;
use sealane_io::chain::OutputChain;
use sealane_io::runtime::{self, JoinHandle, Runtime};
use sealane_io::stream::{Sealed, StreamError};
use sealane_io::turns::Turns;
use sealane_io::{OutboundMessage, Received, Socket};
use sealane_tls::client::{ClientSettings, ClientTls};
use sealane_tls::{
    Acceptor, Identity, Ktls, KtlsSettings, SansIo, Secret, ServerSettings, ServerTls,
};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// The owner of a stream about which nobody wants to know anything.
pub(super) struct Alone(Socket);

impl Endpoint for Alone {
    fn socket(&self) -> &Socket {
        &self.0
    }

    fn note_ktls(&self, _state: Ktls<'_>) {}

    fn note_sendfile(&self, _bytes: u64) {}
}

/// The accepting side of a connection.
type Accepted = Stream<Alone, sealane_tls::Connection>;
/// The connecting side.
type Connected = Stream<Alone, sealane_tls::client::Connection>;

/// What a connection runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Tcp,
    Unix,
    Tls,
}

fn run<F: Future>(work: F) -> F::Output {
    let runtime = Runtime::new();
    runtime.expect("a runtime can be built").block_on(work)
}

fn settings() -> RelaySettings {
    RelaySettings {
        buffer_bytes: 16 << 10,
        upload_rate: 0,
        download_rate: 0,
        half_close: false,
    }
}

/// A connection: the accepting side, then the connecting one.
async fn connection(over: Over) -> (Accepted, Connected) {
    let (accepted, connected) = match over {
        Over::Unix => {
            let (one, other) = std::os::unix::net::UnixStream::pair().expect("sockets");
            (socket(one.into(), false), socket(other.into(), false))
        }
        Over::Tcp | Over::Tls => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("bound");
            let connected = std::net::TcpStream::connect(address).expect("it listens");
            let (accepted, _) = listener.accept().expect("one is waiting");
            for stream in [&connected, &accepted] {
                stream.set_nodelay(true).expect("it is TCP");
            }
            (
                socket(accepted.into(), true),
                socket(connected.into(), true),
            )
        }
    };
    let (mut accepted, mut connected) = (Accepted::new(accepted), Connected::new(connected));
    if over == Over::Tls {
        let (acceptor, client) = tls();
        (accepted, connected) = handshake(accepted, connected, acceptor, client).await;
    }
    (accepted, connected)
}

/// The same connection, over TLS.
async fn handshake(
    mut accepted: Accepted,
    mut connected: Connected,
    acceptor: &Acceptor,
    client: &ClientTls,
) -> (Accepted, Connected) {
    let slot = Turns::new(true).place();
    let connection = sealane_tls::Connection::accept(acceptor);
    accepted.start_tls(Sealed::accepting(connection, Vec::new(), slot));
    let connection = client.connect(None, None).expect("no name");
    connected.start_tls(Sealed::connecting(connection));
    let connecting = runtime::spawn_with_handle(async move {
        let done = poll_fn(|cx| connected.poll_handshake(cx, false)).await;
        done.expect("it is this server's");
        // The last flight leaves with the first message, or now.
        send(&mut connected, Vec::new()).await;
        connected
    });
    let done = poll_fn(|cx| accepted.poll_handshake(cx, false)).await;
    done.expect("it is this client's");
    (accepted, connecting.await.expect("no panic"))
}

fn socket(fd: OwnedFd, is_tcp: bool) -> Alone {
    socket2::SockRef::from(&fd)
        .set_nonblocking(true)
        .expect("any can be");
    Alone(match is_tcp {
        true => Socket::tcp(fd).expect("inside of a runtime"),
        false => Socket::unix(fd).expect("inside of a runtime"),
    })
}

/// A server and a client that does not ask for its name.
fn tls() -> &'static (Acceptor, ClientTls) {
    static TLS: OnceLock<(Acceptor, ClientTls)> = OnceLock::new();
    TLS.get_or_init(|| tls_with(KtlsSettings::default()))
}

fn tls_with(ktls: KtlsSettings) -> (Acceptor, ClientTls) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["name.test".to_owned()]);
    let certificate = params.expect("a valid name").self_signed(&key);
    let settings = ServerSettings {
        identities: vec![Identity {
            chain_pem: certificate.expect("the key signs").pem().into_bytes(),
            key_pem: Secret::new(key.serialize_pem().into_bytes()),
            passwords: Vec::new(),
            chain_label: "generated".to_owned(),
            key_label: "generated".to_owned(),
        }],
        ktls,
        ..ServerSettings::default()
    };
    let (server, _) = ServerTls::build(&settings).expect("valid settings");
    let (client, _) = ClientTls::build(&ClientSettings::default()).expect("valid settings");
    (Acceptor::single(Arc::new(server)), client)
}

/// Sends bytes.
async fn send<T: KernelSeal>(stream: &mut Stream<Alone, T>, bytes: Vec<u8>)
where
    T::Error: fmt::Debug,
{
    let mut message = OutboundMessage::new(bytes, OutputChain::new());
    let sent = poll_fn(|cx| stream.poll_send(cx, &mut message)).await;
    sent.expect("the relay receives");
}

/// Ends sending.
async fn end<T: KernelSeal>(stream: &mut Stream<Alone, T>) {
    let _ = poll_fn(|cx| stream.poll_goodbye(cx)).await;
    let _ = stream.endpoint_mut().socket().end_sending();
}

/// Receives once; nothing at the end.
async fn receive<T: KernelSeal>(
    stream: &mut Stream<Alone, T>,
    max: usize,
) -> Result<Vec<u8>, StreamError<<T as SansIo>::Error>> {
    let mut bytes = Vec::new();
    let received = poll_fn(|cx| stream.poll_receive(cx, &mut bytes, max)).await?;
    assert_eq!(received == Received::End, bytes.is_empty());
    Ok(bytes)
}

/// Receives until the end.
async fn receive_all<T: KernelSeal>(stream: &mut Stream<Alone, T>) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(bytes) = receive(stream, 64 << 10).await {
        if bytes.is_empty() {
            break;
        }
        all.extend(bytes);
    }
    all
}

/// How a relay went.
struct Outcome {
    ended: Result<Ended, String>,
    /// Failures of receiving on the way.
    failed: Vec<String>,
    counts: Counts,
}

/// Both ends of a relay that runs as a task.
struct Relayed {
    client: Connected,
    server: Accepted,
    relay: JoinHandle<Outcome>,
}

async fn relayed(settings: RelaySettings, client_over: Over, server_over: Over) -> Relayed {
    relayed_after(settings, client_over, server_over, Vec::new()).await
}

async fn relayed_after(
    settings: RelaySettings,
    client_over: Over,
    server_over: Over,
    preread: Vec<u8>,
) -> Relayed {
    let (mut near_client, client) = connection(client_over).await;
    let (server, mut near_server) = connection(server_over).await;
    let relay = runtime::spawn_with_handle(async move {
        let mut relay = Relay::new(settings, preread, Vec::new());
        let mut failed = Vec::new();
        let ended = loop {
            let polled = poll_fn(|cx| relay.poll(cx, &mut near_client, &mut near_server)).await;
            match polled {
                Err(error) if matches!(error.action(), Action::Reading(_)) => {
                    failed.push(error.to_string());
                }
                Err(error) => break Err(error.to_string()),
                Ok(ended) => break Ok(ended),
            }
        };
        near_client.close();
        near_server.close();
        let counts = relay.counts();
        Outcome {
            ended,
            failed,
            counts,
        }
    });
    Relayed {
        client,
        server,
        relay,
    }
}

/// Bytes that are the same nowhere near.
fn pattern(seed: u32, count: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(next).collect()
}
