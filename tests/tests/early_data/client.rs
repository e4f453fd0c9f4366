//! A client that sends its request with the ClientHello, and lets go of every rule
//! that a server must not rely on: its bytes can be kept, changed and sent again.

use sealane_awslc::{
    ClientConnection, ClientContext, Context, ContextBuilder, HandshakeStatus, ProtocolVersion,
    ReadStatus, Session, group_by_name,
};
use sealane_tests::PATIENCE;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// TLS 1.3 alone, without a look at certificates.
pub(crate) struct Client {
    context: ClientContext,
    /// What sessions are read in.
    reader: Context,
}

/// One connection from its first byte to its end.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Early data was sent.
    pub(crate) offered: bool,
    /// The server took it. If not, the request was sent again.
    pub(crate) accepted: bool,
    pub(crate) resumed: bool,
    /// Everything that the server sent, in plain.
    pub(crate) response: String,
    /// The server said that it closes (close_notify).
    pub(crate) ended_in_order: bool,
    /// The last session that the server gave.
    pub(crate) session: Option<Session>,
}

/// What a client sends before it has heard of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    /// Records of the ClientHello.
    pub(crate) hello: Vec<u8>,
    /// Records of early data, behind a ChangeCipherSpec.
    pub(crate) early: Vec<u8>,
}

impl Flight {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [&self.hello[..], &self.early].concat()
    }
}

/// `GET target`, after which the server closes.
pub(crate) fn get(target: &str) -> Vec<u8> {
    request("GET", target, "Connection: close\r\n")
}

/// A request without a body, with further header lines.
pub(crate) fn request(method: &str, target: &str, headers: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{headers}\r\n")
        .into_bytes()
}

impl Client {
    pub(crate) fn new() -> Client {
        let mut builder = ClientContext::builder().expect("a context");
        builder
            .set_protocol_range(ProtocolVersion::Tls13, ProtocolVersion::Tls13)
            .expect("a valid range");
        let group = group_by_name("X25519").expect("the library has it");
        builder.set_groups(&[group]).expect("a known group");
        let reader = ContextBuilder::new().and_then(|builder| builder.build());
        Client {
            context: builder.build().expect("a context"),
            reader: reader.expect("a context"),
        }
    }

    /// A connection with a full handshake, and the session that it gave.
    #[track_caller]
    pub(crate) fn session(&self, port: u16) -> Session {
        let first = self.converse(port, None, &get("/first"));
        assert!(!first.resumed && !first.offered, "{first:?}");
        assert!(first.response.contains(" 200 OK"), "{first:?}");
        first.session.expect("the server gives a session")
    }

    /// Asks `port` with `session`, if there is one, and with `request` as early
    /// data where the session allows it. A handshake that fails is a failed test.
    #[track_caller]
    pub(crate) fn converse(
        &self,
        port: u16,
        session: Option<&Session>,
        request: &[u8],
    ) -> Exchange {
        self.try_converse(port, session, request)
            .unwrap_or_else(|error| panic!("the connection failed: {error}"))
    }

    /// The same, where the server may end the connection.
    pub(crate) fn try_converse(
        &self,
        port: u16,
        session: Option<&Session>,
        request: &[u8],
    ) -> Result<Exchange, String> {
        self.converse_twice(port, session, request, &[])
    }

    /// The same with another request once the handshake is over.
    pub(crate) fn converse_twice(
        &self,
        port: u16,
        session: Option<&Session>,
        first: &[u8],
        second: &[u8],
    ) -> Result<Exchange, String> {
        let mut conversation = self.conversation(port, session);
        conversation.open(first)?;
        conversation.finish_handshake(first)?;
        if !second.is_empty() {
            conversation.write(second)?;
        }
        conversation.rest()?;
        Ok(conversation.exchange)
    }

    /// Like `try_converse`, by a client that takes its time before it reads.
    pub(crate) fn slowly(
        &self,
        port: u16,
        session: &Session,
        request: &[u8],
        pause: Duration,
    ) -> Result<Exchange, String> {
        let mut conversation = self.conversation(port, Some(session));
        conversation.open(request)?;
        std::thread::sleep(pause);
        conversation.finish_handshake(request)?;
        std::thread::sleep(pause);
        conversation.rest()?;
        Ok(conversation.exchange)
    }

    fn conversation(&self, port: u16, session: Option<&Session>) -> Conversation {
        Conversation {
            tls: self.start(session),
            socket: connect(port),
            exchange: Exchange::default(),
        }
    }

    /// The flight of a client that is never heard of again.
    #[track_caller]
    pub(crate) fn flight(&self, session: &Session, request: &[u8]) -> Flight {
        let mut tls = self.start(Some(session));
        let mut hello = Vec::new();
        let status = tls.handshake(&mut &b""[..], &mut hello);
        assert_eq!(status.expect("it can start"), HandshakeStatus::Done);
        assert!(tls.is_early_data(), "the session allows early data");
        // Whatever follows the first record is not the hello any more.
        let length = 5 + usize::from(u16::from_be_bytes([hello[3], hello[4]]));
        let mut early = hello.split_off(length);
        tls.write(request, &mut early).expect("early data");
        Flight { hello, early }
    }

    /// A session with bytes of its serialised form changed.
    #[track_caller]
    pub(crate) fn changed(
        &self,
        session: &Session,
        change: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> Session {
        let bytes = session.to_bytes().expect("a session can be written");
        Session::from_bytes(&change(bytes), &self.reader).expect("it is still a session")
    }

    /// A session that its client believes to last longer.
    #[track_caller]
    pub(crate) fn lasting(&self, session: &Session, timeout_s: u32) -> Session {
        session
            .copy_with_timeout_s(timeout_s, &self.context)
            .expect("a session can be copied")
    }

    fn start(&self, session: Option<&Session>) -> ClientConnection {
        let mut tls = ClientConnection::new(&self.context, Some("localhost")).expect("a client");
        if let Some(session) = session {
            tls.set_session(session).expect("a session fits any client");
            tls.offer_early_data();
        }
        tls
    }
}

pub(crate) fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        set(&socket, Some(PATIENCE)).expect("the time-out is not zero");
    }
    socket.set_nodelay(true).expect("the socket is connected");
    socket
}

struct Conversation {
    tls: ClientConnection,
    socket: TcpStream,
    exchange: Exchange,
}

impl Conversation {
    /// The first flight.
    fn open(&mut self, request: &[u8]) -> Result<(), String> {
        let mut output = Vec::new();
        self.tls
            .handshake(&mut &b""[..], &mut output)
            .map_err(|error| error.to_string())?;
        if self.tls.is_early_data() {
            self.exchange.offered = true;
            let written = self.tls.write(request, &mut output);
            written.map_err(|error| error.to_string())?;
        }
        self.send(&output);
        Ok(())
    }

    /// The handshake to its end, and the request unless it was early.
    fn finish_handshake(&mut self, request: &[u8]) -> Result<(), String> {
        loop {
            let bytes = self.receive()?;
            if bytes.is_empty() {
                return Err("closed during the handshake".to_owned());
            }
            let (mut input, mut output) = (&bytes[..], Vec::new());
            let status = self.tls.handshake(&mut input, &mut output);
            // After a failure this is the alert.
            self.send(&output);
            let status = status.map_err(|error| error.to_string())?;
            if status == HandshakeStatus::Done && !self.tls.is_early_data() {
                self.exchange.resumed = self.tls.is_session_reused();
                self.exchange.accepted = self.tls.was_early_data_accepted();
                if !self.exchange.accepted {
                    self.write(request)?;
                }
                return self.open_records(input).map(drop);
            }
        }
    }

    fn write(&mut self, request: &[u8]) -> Result<(), String> {
        let mut output = Vec::new();
        let written = self.tls.write(request, &mut output);
        written.map_err(|error| error.to_string())?;
        self.send(&output);
        Ok(())
    }

    /// Everything until the server closes.
    fn rest(&mut self) -> Result<(), String> {
        loop {
            let bytes = self.receive()?;
            if bytes.is_empty() || self.open_records(&bytes)? {
                return Ok(());
            }
        }
    }

    /// True when the server has said that it closes.
    fn open_records(&mut self, mut input: &[u8]) -> Result<bool, String> {
        let (mut plain, mut output) = (vec![0; 1 << 16], Vec::new());
        loop {
            let status = self.tls.read(&mut input, &mut output, &mut plain);
            if let Some(session) = self.tls.take_session() {
                self.exchange.session = Some(session);
            }
            match status.map_err(|error| error.to_string())? {
                ReadStatus::Data(count) => {
                    let text = String::from_utf8_lossy(&plain[..count]);
                    self.exchange.response.push_str(&text);
                }
                ReadStatus::WantRead => return Ok(false),
                ReadStatus::CloseNotify => {
                    self.exchange.ended_in_order = true;
                    return Ok(true);
                }
            }
        }
    }

    /// A server that has closed already is noticed when it is read from.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// What came; nothing at the end.
    fn receive(&mut self) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; 1 << 16];
        let count = match self.socket.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => return Err(error.to_string()),
        };
        bytes.truncate(count);
        Ok(bytes)
    }
}
