//! The origin behind the servers for measuring proxying and caching: a thread that answers every
//! request with a file's worth of bytes, as cheaply as it can, and counts.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    Error,
    load::{Meter, pin_this_thread},
    testbed::File,
};

/// Bytes of a body that are sent with one call at most.
const PIECE_BYTES: usize = 1 << 20;

/// A started origin; it ends with the process.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicU64>,
}

/// The requests that reached an origin between `begin` and `end`.
#[derive(Debug)]
pub(crate) struct OriginRequests {
    requests: Arc<AtomicU64>,
    before: u64,
    /// How many there were.
    pub(crate) during: u64,
}

impl Meter for OriginRequests {
    fn begin(&mut self) -> Result<(), Error> {
        self.before = self.requests.load(Ordering::Relaxed);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.during = self.requests.load(Ordering::Relaxed) - self.before;
        Ok(())
    }
}

impl Origin {
    /// Starts an origin on the cores `cpus`.
    pub(crate) fn start(cpus: &[usize]) -> Result<Self, Error> {
        let failed = |source| Error::io("start the origin", source);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let requests = Arc::new(AtomicU64::new(0));
        let (cpus, count) = (cpus.to_vec(), Arc::clone(&requests));
        let serve = move || {
            if !cpus.is_empty() {
                // On the wrong core it is only slower.
                let _ = pin_this_thread(&cpus);
            }
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                    return;
                };
                let responses = Arc::from(File::ALL.map(Response::of));
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(answer(stream, Arc::clone(&responses), Arc::clone(&count)));
                }
            });
        };
        thread::Builder::new()
            .name("origin".into())
            .spawn(serve)
            .map_err(failed)?;
        Ok(Self { address, requests })
    }

    /// A meter of its requests.
    pub(crate) fn meter(&self) -> OriginRequests {
        OriginRequests {
            requests: Arc::clone(&self.requests),
            before: 0,
            during: 0,
        }
    }
}

/// What is sent for a file.
struct Response {
    file: File,
    /// The head, and the beginning of the body.
    first: Vec<u8>,
    /// Bytes of the body that follow.
    left: u64,
}

impl Response {
    fn of(file: File) -> Self {
        let mut first = format!(
            "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            file.bytes()
        )
        .into_bytes();
        let begin = file.bytes().min(PIECE_BYTES as u64);
        first.resize(first.len() + begin as usize, b'x');
        Self {
            file,
            first,
            left: file.bytes() - begin,
        }
    }

    async fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        stream.write_all(&self.first).await?;
        let mut left = self.left;
        while left > 0 {
            let piece = left.min(PIECE_BYTES as u64);
            let end = self.first.len();
            let bytes = &self.first[end - piece as usize..];
            stream.write_all(bytes).await?;
            left -= piece;
        }
        Ok(())
    }
}

/// Answers each request head; there are no bodies.
async fn answer(mut stream: TcpStream, responses: Arc<[Response]>, count: Arc<AtomicU64>) {
    let _ = stream.set_nodelay(true);
    let mut received = Vec::with_capacity(4096);
    while matches!(stream.read_buf(&mut received).await, Ok(1..)) {
        while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            count.fetch_add(1, Ordering::Relaxed);
            let file = requested(&received[..end]);
            let response = responses.iter().find(|response| response.file == file);
            // Whose connection is passed on asks the origin itself to end it.
            let close = b"Connection: close";
            let is_last = received[..end]
                .windows(close.len())
                .any(|part| part == close);
            received.drain(..end + 4);
            let Some(response) = response else { return };
            if response.send(&mut stream).await.is_err() || is_last {
                return;
            }
        }
    }
}

/// The file that the path begins with, whatever follows; without any a small one.
fn requested(head: &[u8]) -> File {
    let path = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    let name = path.split(|&byte| byte == b'/').nth(1).unwrap_or_default();
    let named = |file: &File| file.name().as_bytes() == name;
    File::ALL.into_iter().find(named).unwrap_or(File::Small)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn the_path_names_the_file() {
        for (line, file) in [
            ("GET /100k HTTP/1.1", File::Medium),
            ("GET /10/17 HTTP/1.1", File::Tiny),
            ("GET /proxied HTTP/1.1", File::Small),
            ("GET", File::Small),
        ] {
            assert_eq!(requested(line.as_bytes()), file, "{line}");
        }
    }

    #[test]
    fn requests_are_counted_and_answered_in_full() {
        let origin = Origin::start(&[]).expect("loopback has a free port");
        let mut meter = origin.meter();
        let mut stream = std::net::TcpStream::connect(origin.address).expect("it listens");
        let mut ask = |path: &str, file: File| {
            write!(stream, "GET {path} HTTP/1.1\r\n\r\n").expect("it reads");
            let head = Response::of(file).first.len() as u64 - file.bytes().min(PIECE_BYTES as u64);
            let mut response = vec![0; (head + file.bytes()) as usize];
            stream.read_exact(&mut response).expect("it answers");
            let length = format!("Content-Length: {}\r\n", file.bytes());
            let text = String::from_utf8_lossy(&response[..head as usize]).into_owned();
            assert!(text.contains(&length), "{text}");
            assert_eq!(response.last(), Some(&b'x'));
        };
        ask("/1k", File::Small);
        meter.begin().expect("a counter");
        ask("/1m/7", File::Mebibyte);
        ask("/10/7", File::Tiny);
        meter.end().expect("a counter");
        assert_eq!(meter.during, 2);
    }
}
