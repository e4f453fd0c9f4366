//! HTTP/2 on a plain socket, frame by frame: for what real clients will not send.

use crate::PATIENCE;
use sealane_http::h2::PREFACE;
use sealane_http::h2::hpack::{Decoder, Field, FieldLimits, FieldSink, Note};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// Types of frames (RFC 9113 section 6).
#[allow(missing_docs)] // each is what its name says
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
#[allow(missing_docs)] // each is what its name says
pub mod flag {
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
}

/// Error codes (RFC 9113 section 7).
#[allow(missing_docs)] // each is what its name says
pub mod code {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// SETTINGS_INITIAL_WINDOW_SIZE.
pub const INITIAL_WINDOW: u16 = 4;

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// One of [`kind`].
    pub kind: u8,
    /// Those of [`flag`].
    pub flags: u8,
    /// The stream, or 0.
    pub stream: u32,
    /// What follows the header of nine bytes.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether the stream ends with it.
    pub fn ends_stream(&self) -> bool {
        let may = matches!(self.kind, kind::DATA | kind::HEADERS);
        self.kind == kind::RST_STREAM || (may && self.flags & flag::END_STREAM != 0)
    }

    /// The number that the payload begins with, at this offset.
    pub fn number(&self, at: usize) -> u32 {
        let bytes = self.payload[at..].first_chunk().expect("four bytes");
        u32::from_be_bytes(*bytes)
    }
}

/// A response as it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The status; 0 before there is one.
    pub status: u16,
    /// Header fields, then trailers, without `:status`.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The code of RST_STREAM, if the stream ended so.
    pub reset: Option<u32>,
    /// Statuses of interim responses.
    pub interim: Vec<u16>,
}

impl Response {
    /// The value of the first field with this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Takes a frame in; true when the stream has ended.
    fn take(&mut self, client: &mut Client, frame: &Frame) -> bool {
        match frame.kind {
            kind::HEADERS => {
                let fields = client.decode(&frame.payload);
                let status = fields.iter().find(|(name, _)| name == ":status");
                let status = status.and_then(|(_, value)| value.parse().ok());
                match status {
                    Some(interim @ 100..200) => self.interim.push(interim),
                    Some(status) => self.status = status,
                    None => {}
                }
                let others = fields.into_iter().filter(|(name, _)| name != ":status");
                self.fields.extend(others);
            }
            kind::DATA => self.body.extend_from_slice(&frame.payload),
            kind::RST_STREAM => self.reset = Some(frame.number(0)),
            _ => {}
        }
        frame.ends_stream()
    }
}

/// A client's end of a connection. It answers nothing by itself but SETTINGS and PING,
/// while it reads.
pub struct Client {
    socket: TcpStream,
    decoder: Decoder,
    next_stream: u32,
    /// Answers PING frames, and SETTINGS.
    pub is_polite: bool,
}

impl Client {
    /// Connects to a port on 127.0.0.1 and sends nothing.
    #[track_caller]
    pub fn silent(port: u16) -> Client {
        Client::on(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens"))
    }

    /// Takes a connection over and sends nothing.
    #[track_caller]
    pub fn on(socket: TcpStream) -> Client {
        for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
            set(&socket, Some(PATIENCE)).expect("the time-out is not zero");
        }
        socket.set_nodelay(true).expect("the socket is connected");
        Client {
            socket,
            decoder: Decoder::new(),
            next_stream: 1,
            is_polite: true,
        }
    }

    /// Connects, and sends preface and settings.
    #[track_caller]
    pub fn open(port: u16, settings: &[(u16, u32)]) -> Client {
        let mut client = Client::silent(port);
        client.send(PREFACE);
        client.settings(settings);
        client
    }

    /// The socket itself.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Writes bytes. False when the server has closed, or takes nothing any more.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    /// Sends a frame.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.send(&frame(kind, flags, stream, payload))
    }

    /// Sends SETTINGS.
    pub fn settings(&mut self, settings: &[(u16, u32)]) -> bool {
        let mut payload = Vec::new();
        for (identifier, value) in settings {
            payload.extend_from_slice(&identifier.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.frame(kind::SETTINGS, 0, 0, &payload)
    }

    /// Sends a GET on a new stream and returns the stream.
    pub fn get(&mut self, path: &str) -> u32 {
        self.request("GET", path, &[], true)
    }

    /// Sends a request head on a new stream and returns the stream.
    pub fn request(&mut self, method: &str, path: &str, fields: &[(&str, &str)], end: bool) -> u32 {
        let stream = self.next_stream();
        let flags = flag::END_HEADERS | (u8::from(end) * flag::END_STREAM);
        self.frame(kind::HEADERS, flags, stream, &head(method, path, fields));
        stream
    }

    /// An identifier that was not used yet.
    pub fn next_stream(&mut self) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        stream
    }

    /// Lets the server send so much more on a stream, or with 0 on the connection.
    pub fn grant(&mut self, stream: u32, bytes: u32) -> bool {
        self.frame(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
    }

    /// The next frame; `None` when the connection is over.
    pub fn next_frame(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.socket.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; length as usize];
        self.socket.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let frame = Frame {
            kind: header[3],
            flags: header[4],
            stream: stream & 0x7fff_ffff,
            payload,
        };
        if self.is_polite && frame.flags & flag::ACK == 0 {
            match frame.kind {
                kind::PING => self.frame(kind::PING, flag::ACK, 0, &frame.payload),
                kind::SETTINGS => self.frame(kind::SETTINGS, flag::ACK, 0, &[]),
                _ => true,
            };
        }
        Some(frame)
    }

    /// Reads until the stream ends; windows are opened again as its body comes. What comes
    /// for other streams is lost.
    ///
    /// # Panics
    ///
    /// When the connection ends before the stream.
    #[track_caller]
    pub fn response(&mut self, stream: u32) -> Response {
        self.try_response(stream).expect("the connection goes on")
    }

    /// The same, or `None` when the connection ends before the stream.
    #[track_caller]
    pub fn try_response(&mut self, stream: u32) -> Option<Response> {
        let mut response = Response::default();
        loop {
            let frame = self.next_frame()?;
            if frame.kind == kind::DATA && !frame.payload.is_empty() {
                let bytes = frame.payload.len() as u32;
                self.grant(0, bytes);
                if !frame.ends_stream() {
                    self.grant(frame.stream, bytes);
                }
            }
            if frame.stream == stream {
                if response.take(self, &frame) {
                    return Some(response);
                }
            } else if frame.kind == kind::HEADERS {
                // The table follows every block.
                self.decode(&frame.payload);
            }
        }
    }

    /// The response to a GET.
    #[track_caller]
    pub fn fetch(&mut self, path: &str) -> Response {
        let stream = self.get(path);
        self.response(stream)
    }

    /// Reads to the end of the connection, and returns the code of its last GOAWAY.
    pub fn end(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(frame) = self.next_frame() {
            if frame.kind == kind::GOAWAY {
                code = Some(frame.number(4));
            }
        }
        code
    }

    /// Decodes a header block, which must be done with every block in order.
    pub fn decode(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let limits = FieldLimits {
            max_field_bytes: 1 << 20,
            max_block_bytes: 1 << 20,
            max_fields: 1000,
        };
        let mut fields = Fields::default();
        self.decoder
            .decode(block, &limits, &mut Vec::new(), &mut fields)
            .expect("the server's header blocks can be decoded");
        fields.0
    }
}

/// The fields of a header block, as text.
#[derive(Default)]
pub struct Fields(pub Vec<(String, String)>);

impl FieldSink for Fields {
    fn field(&mut self, head: &mut Vec<u8>, field: &Field) -> Note {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pair = (text(field.name(head)), text(field.value(head)));
        self.0.push(pair);
        0
    }
}

/// A frame as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("frames are small");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The header block of a request to `localhost`, without compression.
pub fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
    ] {
        push_field(&mut block, name, value);
    }
    for (name, value) in fields {
        push_field(&mut block, name, value);
    }
    block
}

/// Appends a literal field that enters no table (RFC 7541 section 6.2.2).
pub fn push_field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        push_length(block, text.len());
        block.extend_from_slice(text.as_bytes());
    }
}

/// The length of a string that is not Huffman-coded (RFC 7541 section 5.2).
fn push_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return block.push(length as u8);
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}
