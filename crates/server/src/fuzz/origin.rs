//! Upstream servers: each connection gets the next response of the program.

use sealane_io::listener::Listener;
use sealane_io::runtime::{JoinHandle, spawn_with_handle, yield_now};
use sealane_io::socket::Socket;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What comes when the program says nothing.
const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nWho: me\r\n\r\nok";

/// An answer.
#[derive(Clone)]
pub(super) struct OriginAnswer {
    /// Each is sent apart from the others.
    pub(super) pieces: Vec<Vec<u8>>,
    /// The connection is closed behind it.
    pub(super) closes: bool,
}

type Answers = Arc<Mutex<VecDeque<OriginAnswer>>>;

/// Their connections, which end with it.
#[derive(Default)]
struct Connections(Vec<JoinHandle<()>>);

impl Drop for Connections {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// All of them; they end with it.
pub(super) struct Origin {
    answers: Answers,
    accepting: JoinHandle<()>,
}

impl Origin {
    pub(super) fn start(listener: UnixListener) -> Origin {
        let answers = Answers::default();
        let theirs = answers.clone();
        listener.set_nonblocking(true).expect("any socket can be");
        let mut listener = Listener::new(listener.into()).expect("inside of a runtime");
        let accepting = spawn_with_handle(async move {
            let mut connections = Connections::default();
            while let Ok(accepted) = poll_fn(|cx| listener.poll_accept(cx)).await {
                let Ok(socket) = Socket::unix(accepted.fd) else {
                    return;
                };
                let serving = spawn_with_handle(serve(socket, theirs.clone()));
                connections.0.push(serving);
            }
        });
        Origin { answers, accepting }
    }

    /// The answer behind those that wait already.
    pub(super) fn push(&self, answer: OriginAnswer) {
        lock(&self.answers).push_back(answer);
    }

    /// Closes all connections, and takes no more.
    pub(super) fn stop(&self) {
        self.accepting.abort();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock(answers: &Answers) -> MutexGuard<'_, VecDeque<OriginAnswer>> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers whatever comes, once for each time that something comes.
async fn serve(socket: Socket, answers: Answers) {
    loop {
        let mut request = Vec::new();
        match poll_fn(|cx| socket.poll_recv(cx, &mut request, 64 << 10)).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let answer = lock(&answers).pop_front().unwrap_or_else(|| OriginAnswer {
            pieces: vec![PLAIN.to_vec()],
            closes: false,
        });
        for piece in &answer.pieces {
            if write_all(&socket, piece).await.is_err() {
                return;
            }
            yield_now().await;
        }
        if answer.closes {
            return;
        }
    }
}

async fn write_all(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let piece = [IoSlice::new(bytes)];
        let written = poll_fn(|cx| socket.poll_send(cx, &piece, false)).await?;
        bytes = &bytes[written..];
    }
    Ok(())
}
