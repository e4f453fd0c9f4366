//! A relay between one client and the server, for what a well-behaved client
//! does not do: reading slowly, vanishing, sending nonsense.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Accepts one connection and relays it.
pub(crate) struct Relay {
    /// Where clients connect.
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    server: Mutex<Option<TcpStream>>,
    client: Mutex<Option<TcpStream>>,
    /// Bytes from the server that the client has been given.
    relayed: AtomicU64,
    held: AtomicBool,
}

impl Relay {
    /// A relay to `server_port` that waits `pause` before it reads each `piece` of at most so
    /// many bytes from the server.
    #[track_caller]
    pub(crate) fn start(server_port: u16, piece: usize, pause: Duration) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared::default());
        let inner = Arc::clone(&shared);
        std::thread::spawn(move || {
            let Ok((client, _)) = listener.accept() else {
                return;
            };
            let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else {
                return;
            };
            let again = |stream: &TcpStream| stream.try_clone().expect("a descriptor is free");
            *inner.server.lock().expect("nothing panics here") = Some(again(&server));
            *inner.client.lock().expect("nothing panics here") = Some(again(&client));
            let (from, to) = (again(&client), again(&server));
            let up = std::thread::spawn(move || {
                copy(from, to, 65536, || {});
            });
            copy(server, client, piece, || {
                std::thread::sleep(pause);
                while inner.held.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                inner.relayed.fetch_add(1, Ordering::AcqRel);
            });
            let _ = up.join();
        });
        Relay { port, shared }
    }

    /// How many pieces have been read from the server.
    pub(crate) fn pieces(&self) -> u64 {
        self.shared.relayed.load(Ordering::Acquire)
    }

    /// Stops reading from the server, or goes on.
    pub(crate) fn hold(&self, held: bool) {
        self.shared.held.store(held, Ordering::Release);
    }

    /// Sends bytes to the server that the client does not know of.
    #[track_caller]
    pub(crate) fn inject(&self, bytes: &[u8]) {
        let server = self.shared.server.lock().expect("nothing panics here");
        let mut server = server.as_ref().expect("the client has connected");
        server.write_all(bytes).expect("the server listens");
    }

    /// Ends both connections at once; the server sees a reset. (Without one it might
    /// wait for a window that a closed socket never opens again.)
    pub(crate) fn cut(&self) {
        for stream in [&self.shared.server, &self.shared.client] {
            if let Some(stream) = stream.lock().expect("nothing panics here").take() {
                let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.hold(false);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, piece: usize, mut before: impl FnMut()) {
    let mut buffer = vec![0; piece];
    loop {
        before();
        match from.read(&mut buffer) {
            Ok(count @ 1..) if to.write_all(&buffer[..count]).is_ok() => {}
            _ => break,
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
