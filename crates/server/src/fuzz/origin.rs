//! Upstream servers: each connection gets the next response of the program.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

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

/// All of them; they end with it.
pub(super) struct Origin {
    answers: Answers,
    accepting: JoinHandle<()>,
}

impl Origin {
    pub(super) fn start(listener: UnixListener) -> Origin {
        let answers = Answers::default();
        let theirs = answers.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(serve(socket, theirs.clone()));
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
async fn serve(socket: UnixStream, answers: Answers) {
    let mut request = vec![0; 64 << 10];
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        match socket.try_read(&mut request) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        }
        let answer = lock(&answers).pop_front().unwrap_or_else(|| OriginAnswer {
            pieces: vec![PLAIN.to_vec()],
            closes: false,
        });
        for piece in &answer.pieces {
            if write_all(&socket, piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        if answer.closes {
            return;
        }
    }
}

async fn write_all(socket: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        socket.writable().await?;
        match socket.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
