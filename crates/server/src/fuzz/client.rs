//! The clients of a run, and what each of them may be sent.

use super::site::{MARK, Stage, Through};
use sealane_http::fuzz::request_starts;
use sealane_http::h2::PREFACE;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// More than any answer of the site, several times. A worker that sends more to a client has
/// lost count of something.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// 192.0.2.1:1000 to 192.0.2.2:80, with ALPN and the extension about TLS.
const PROXY_HEADER: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x1e\
    \xc0\0\x02\x01\xc0\0\x02\x02\x03\xe8\0\x50\x01\0\x02h2\x20\0\x0a\x01\0\0\0\0\x22\0\x02cn";
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;

/// A client's end of a connection.
pub(super) struct FuzzedClient {
    socket: UnixStream,
    through: Through,
    /// Behind a PROXY header or the preface of HTTP/2.
    sent: Vec<u8>,
    received: Vec<u8>,
    /// The socket took less than it was given: nothing that is sent afterwards would be where
    /// the program has it.
    is_full: bool,
}

impl FuzzedClient {
    pub(super) fn open(stage: &Stage, through: Through) -> FuzzedClient {
        let mut client = FuzzedClient {
            socket: stage.connect(through),
            through,
            sent: Vec::new(),
            received: Vec::new(),
            is_full: false,
        };
        match through {
            Through::Http1 => {}
            Through::Proxied => client.send(PROXY_HEADER),
            Through::Http2 => client.send(&[PREFACE, &SETTINGS[..]].concat()),
        }
        client.sent.clear();
        client
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        if self.is_full || bytes.is_empty() {
            return;
        }
        let taken = (&self.socket).write(bytes).unwrap_or(0);
        self.is_full = taken < bytes.len();
        self.sent.extend_from_slice(&bytes[..taken]);
    }

    pub(super) fn read(&mut self) {
        receive(&self.socket, &mut self.received);
        assert!(self.received.len() <= MAX_ANSWER_BYTES);
    }

    /// Sends no more, and still reads.
    pub(super) fn half_close(&mut self) {
        let _ = sealane_sys::socket::shutdown(self.socket.as_fd(), std::net::Shutdown::Write);
        self.is_full = true;
    }

    /// Reads what has come until now, and looks whether all of it was asked for.
    pub(super) fn check(mut self) {
        self.read();
        match self.through {
            Through::Http2 => self.check_streams(),
            Through::Http1 | Through::Proxied => self.check_answers(),
        }
    }

    fn check_answers(&self) {
        let answers = memchr::memmem::find_iter(&self.received, MARK).count();
        let allowed = request_starts(&self.sent).len();
        assert!(
            answers <= allowed,
            "{answers} answers to {allowed} requests: {}\n{}",
            self.sent.escape_ascii(),
            self.received.escape_ascii()
        );
    }

    fn check_streams(&self) {
        let asked = streams_with_head(&self.sent);
        let answered = streams_with_head(&self.received);
        assert!(
            answered.is_subset(&asked),
            "answers on {answered:?} to requests on {asked:?}"
        );
    }
}

/// Streams on which there is a header block in these frames.
fn streams_with_head(mut frames: &[u8]) -> BTreeSet<u32> {
    let mut streams = BTreeSet::new();
    while let Some((head, rest)) = frames.split_at_checked(FRAME_HEAD_BYTES) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        if head[3] == HEADERS {
            let stream = [head[5] & 0x7f, head[6], head[7], head[8]];
            streams.insert(u32::from_be_bytes(stream));
        }
        frames = rest.get(length..).unwrap_or_default();
    }
    streams
}

/// Appends what has come. Whether more may come.
pub(super) fn receive(mut socket: &UnixStream, received: &mut Vec<u8>) -> bool {
    let mut piece = vec![0; 64 << 10];
    loop {
        match socket.read(&mut piece) {
            Ok(0) => return false,
            Ok(read) => received.extend_from_slice(&piece[..read]),
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
        if received.len() > MAX_ANSWER_BYTES {
            return false;
        }
    }
}
