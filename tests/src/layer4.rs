//! Both ends of sessions that a server only passes on.

use crate::PATIENCE;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A server that sessions are passed to.
#[derive(Debug)]
pub struct Origin {
    /// On 127.0.0.1.
    pub port: u16,
}

impl Origin {
    /// Does with each connection what the closure does. Its threads end with the test's process.
    pub fn doing(then: impl Fn(TcpStream) + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let then = Arc::new(then);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let _ = socket.set_nodelay(true);
                let then = then.clone();
                thread::spawn(move || then(socket));
            }
        });
        Origin { port }
    }

    /// Sends back what it gets, until that ends.
    pub fn echo() -> Origin {
        Origin::doing(echo)
    }

    /// Keeps its connections for longer than a test, and reads nothing.
    pub fn deaf() -> Origin {
        Origin::doing(|socket| {
            thread::sleep(PATIENCE);
            drop(socket);
        })
    }

    /// Sends without end.
    pub fn flood() -> Origin {
        Origin::doing(|mut socket| {
            let piece = [b'x'; 65_536];
            while socket.write_all(&piece).is_ok() {}
        })
    }
}

/// Sends back what comes, until that ends.
pub fn echo(mut socket: TcpStream) {
    let mut piece = [0; 65_536];
    while let Ok(count @ 1..) = socket.read(&mut piece) {
        if socket.write_all(&piece[..count]).is_err() {
            return;
        }
    }
}

/// A client that waits patiently.
#[track_caller]
pub fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    waiting(socket)
}

/// The same with an address of its own.
#[track_caller]
pub fn connect_from(own: Ipv4Addr, port: u16) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a descriptor is left");
    let own = SocketAddr::V4(SocketAddrV4::new(own, 0));
    socket.bind(&own.into()).expect("an address of this host");
    let to = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    socket.connect(&to.into()).expect("it listens");
    waiting(TcpStream::from(socket))
}

fn waiting(socket: TcpStream) -> TcpStream {
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    socket.set_nodelay(true).expect("it is connected");
    socket
}
