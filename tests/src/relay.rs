//! A TCP relay that distributes connections over several servers in turn, like a load balancer.

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// A running relay, stopped when it is dropped.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    connections: Arc<Vec<AtomicUsize>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Relays to these ports of 127.0.0.1, in turn.
    pub fn start(ports: &[u16]) -> Relay {
        Relay::start_with(ports, b"")
    }

    /// The same, with these bytes before those of each client.
    pub fn start_with(ports: &[u16], before: &[u8]) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let connections: Arc<Vec<AtomicUsize>> =
            Arc::new(ports.iter().map(|_| AtomicUsize::new(0)).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let (counts, stopped, ports) = (connections.clone(), stop.clone(), ports.to_vec());
        let before = before.to_vec();
        let thread = std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(client) = client else { continue };
                let at = number % ports.len();
                counts[at].fetch_add(1, Ordering::Relaxed);
                let port = ports[at];
                let before = before.clone();
                std::thread::spawn(move || relay(client, port, &before));
            }
        });
        Relay {
            port,
            connections,
            stop,
            thread: Some(thread),
        }
    }

    /// Where clients connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections that each server got.
    pub fn connections(&self) -> Vec<usize> {
        let counts = self.connections.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread up.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Both directions of one connection. A server that is gone closes the client's.
fn relay(client: TcpStream, port: u16, before: &[u8]) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)) else {
        return;
    };
    for socket in [&client, &server] {
        let _ = socket.set_nodelay(true);
    }
    if server.write_all(before).is_err() {
        return;
    }
    let Ok((client_too, server_too)) = clone_both(&client, &server) else {
        return;
    };
    let back = std::thread::spawn(move || copy(server_too, client_too));
    copy(client, server);
    let _ = back.join();
}

fn clone_both(client: &TcpStream, server: &TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    Ok((client.try_clone()?, server.try_clone()?))
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
