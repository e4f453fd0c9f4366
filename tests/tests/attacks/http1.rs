//! One connection by HTTP/1: the bytes of a case, then a request that is beyond reproach.

use super::reading::{self, Case};
use super::servers::{Handler, SECRET};
use super::{Outcome, SILENCE};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// How the bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Whole,
    /// Each byte by itself.
    Bytes,
}

/// The bytes of a case for a handler.
pub(crate) fn stream(case: &Case, handler: &Handler) -> Vec<u8> {
    let own = format!("{} /t", handler.method);
    reading::bytes(&case.text.replace("POST /t", &own))
}

pub(crate) fn run(port: u16, case: &Case, handler: &Handler, cut: Cut) -> Outcome {
    let mut socket = super::connect(port);
    for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        set(&socket, Some(SILENCE)).expect("it is not zero");
    }
    socket.set_nodelay(true).expect("the socket is connected");
    let own = socket.local_addr().expect("it is connected").port();
    let mut bytes = stream(case, handler);
    bytes.extend_from_slice(b"GET /follower HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    // The server may have closed already, which reading shows.
    match cut {
        Cut::Whole => drop(socket.write_all(&bytes)),
        Cut::Bytes => {
            let _ = bytes.iter().try_for_each(|byte| socket.write_all(&[*byte]));
        }
    }
    let mut received = Vec::new();
    let mut piece = [0; 16_384];
    let mut reset = false;
    let hangs = loop {
        match socket.read(&mut piece) {
            Ok(0) => break false,
            Ok(count) => received.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) =>
            {
                reset = true;
                break false;
            }
            Err(_) => break true,
        }
    };
    let mut outcome = Outcome {
        id: format!("{own}-{port}"),
        statuses: statuses(&received),
        leaks: contains(&received, SECRET.as_bytes()),
        hangs,
        reset,
    };
    // Without a status line, as HTTP/0.9 has it.
    if !received.is_empty() && !contains(&received, b"HTTP/1.") {
        outcome.statuses.push("0.9".to_owned());
    }
    outcome
}

/// The final status codes in there. No handler sends a body that contains a status line.
fn statuses(received: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(received);
    let codes = text.split("HTTP/1.").skip(1).filter_map(|part| {
        let code = part.get(2..5)?;
        code.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(code)
    });
    codes
        .filter(|code| !code.starts_with('1'))
        .map(str::to_owned)
        .collect()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
