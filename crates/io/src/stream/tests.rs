use super::{Endpoint, Received, Stream};
use crate::message::OutboundMessage;
use crate::socket::Socket;
use sealane_tls::Ktls;
use std::future::poll_fn;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The endpoint of a stream about which nobody wants to know anything.
struct Alone(Socket);

impl Endpoint for Alone {
    fn socket(&self) -> &Socket {
        &self.0
    }

    fn note_ktls(&self, _state: Ktls<'_>) {}

    fn note_sendfile(&self, _bytes: u64) {}
}

type PlainStream = Stream<Alone, sealane_tls::Connection>;

fn run<F: Future>(work: F) -> F::Output {
    let runtime = crate::runtime::Runtime::new();
    runtime.expect("a runtime can be built").block_on(work)
}

/// A stream, and the client that `client` makes of its address on a thread.
async fn connected<R: Send + 'static>(
    client: impl FnOnce(SocketAddr) -> R + Send + 'static,
) -> (PlainStream, std::thread::JoinHandle<R>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || client(address));
    let (stream, _) = listener.accept().expect("a client is waiting");
    stream.set_nonblocking(true).expect("any socket can be");
    let socket = Socket::tcp(stream.into()).expect("inside of a runtime");
    (Stream::new(Alone(socket)), thread)
}

fn read_all(address: SocketAddr) -> u64 {
    let mut client = TcpStream::connect(address).expect("it listens");
    let mut received = Vec::new();
    client
        .read_to_end(&mut received)
        .expect("the server closes");
    received.len() as u64
}

#[test]
fn waiting_for_a_slow_client_does_not_renew_what_may_be_sent() {
    const ALLOWED: u64 = 24 << 20; // more than the buffers of both sockets take
    run(async {
        let (mut stream, client) = connected(read_all).await;
        let mut message = OutboundMessage {
            budget: ALLOWED,
            ..OutboundMessage::default()
        };
        message.body.push_bytes(vec![b'x'; 2 * ALLOWED as usize]);
        let done = poll_fn(|cx| stream.poll_send(cx, &mut message));
        done.await.expect("the client reads");
        assert_eq!((message.sent, message.body.len()), (ALLOWED, ALLOWED));
        drop(stream);
        assert_eq!(client.join().expect("no panic"), ALLOWED);
    });
}

/// What was copied from a file (`sendfile off`) has left the message, but not the process.
#[test]
fn a_message_that_was_taken_is_sent_only_when_the_kernel_has_it() {
    const FILE_BYTES: usize = 100_000;
    let path = std::env::temp_dir().join(format!("sealane-stream-{}", std::process::id()));
    std::fs::write(&path, vec![b'x'; FILE_BYTES]).expect("a directory for temporary files");
    let name = std::ffi::CString::new(path.to_str().expect("its name is text")).expect("no NUL");
    let opened = crate::open_file::open_blocking(name.as_bytes_with_nul(), None);
    std::fs::remove_file(&path).expect("it is there");
    let Ok(crate::open_file::Opened::File(file, _)) = opened else {
        panic!("not opened: {opened:?}");
    };
    run(async {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (mut stream, client) = connected(move |address| {
            let client = TcpStream::connect(address).expect("it listens");
            wait.recv().expect("the other side says when");
            let mut received = Vec::new();
            (&client).read_to_end(&mut received).expect("it closes");
            received.len()
        })
        .await;
        let socket = stream.endpoint_mut().socket();
        let socket = std::os::fd::AsFd::as_fd(socket);
        sealane_sys::socket::set_buffers(socket, 4096, 4096).expect("a socket has one");
        let mut message = OutboundMessage {
            sendfile: false,
            ..OutboundMessage::default()
        };
        for _ in 0..100 {
            message
                .body
                .push_file(Arc::clone(&file), 0, FILE_BYTES as u64);
        }
        let total = message.body.len();
        let mut cx = Context::from_waker(Waker::noop());
        let mut sending = Poll::Pending;
        // Until nobody takes any more.
        for _ in 0..100 {
            sending = stream.poll_send(&mut cx, &mut message);
            crate::runtime::yield_now().await;
        }
        assert!(sending.is_pending(), "the client does not read");
        assert!(stream.has_unsent());
        assert!(
            message.sent + message.body.len() < total,
            "some is on its way"
        );
        go.send(()).expect("the client waits");
        let done = poll_fn(|cx| stream.poll_send(cx, &mut message)).await;
        done.expect("the client reads");
        assert_eq!((message.sent, message.body.len()), (total, 0));
        assert!(!stream.has_unsent());
        drop(stream);
        assert_eq!(client.join().expect("no panic") as u64, total);
    });
}

#[test]
fn the_end_of_a_plain_stream_is_received() {
    run(async {
        let (mut stream, client) = connected(|address| {
            let client = TcpStream::connect(address).expect("it listens");
            std::io::Write::write_all(&mut &client, b"abc").expect("it reads");
        })
        .await;
        client.join().expect("no panic");
        let mut buf = Vec::new();
        let received = poll_fn(|cx| stream.poll_receive(cx, &mut buf, 100)).await;
        assert_eq!(received.expect("sent"), Received::Bytes(3));
        let received = poll_fn(|cx| stream.poll_receive(cx, &mut buf, 100)).await;
        assert_eq!(received.expect("closed"), Received::End);
    });
}
