//! `listen ... proxy_protocol`: the PROXY header at the beginning of a connection.

use crate::connection::{Connection, HEAD_READ_BYTES, Wait};
use sealane_conf::model::LogLevel;
use sealane_http::proxy_protocol::{self, Addresses, HeaderDecoder, Parsed, Tlvs};

/// The contents of a PROXY header.
#[derive(Debug, Clone)]
pub struct ProxyHeader {
    /// Both ends of the original connection; `None` if the proxy does not tell.
    pub addresses: Option<Addresses>,
    /// The extensions as received.
    tlvs: Box<[u8]>,
}

impl ProxyHeader {
    pub(crate) fn new(addresses: Option<Addresses>, tlvs: &[u8]) -> ProxyHeader {
        ProxyHeader {
            addresses,
            tlvs: tlvs.into(),
        }
    }

    /// The extensions, as bytes.
    pub(crate) fn raw_tlvs(&self) -> &[u8] {
        &self.tlvs
    }

    /// The extensions.
    pub fn tlvs(&self) -> Tlvs<'_> {
        Tlvs::new(&self.tlvs)
    }
}

/// What became of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderRead {
    /// It is there.
    Done,
    /// It is none, or ends too early.
    Malformed,
    /// The connection broke, or nothing comes.
    Gone,
}

/// Reads the header. Unless that succeeds, the connection is to be closed; as in nginx without a
/// response, since only proxies are meant to connect here.
pub(crate) async fn read(connection: &mut Connection) -> HeaderRead {
    const READING: &str = "while reading PROXY protocol";
    // A connection that `pass` has brought here has brought its header along.
    if connection.facts.proxy_protocol().is_some() {
        return HeaderRead::Done;
    }
    let mut decoder = HeaderDecoder::default();
    loop {
        match decoder.decode(&connection.buffer) {
            Ok(Parsed::Complete(header)) => {
                let tlvs = header.tlvs.of(&connection.buffer).into();
                connection.facts.set_proxy_protocol(ProxyHeader {
                    addresses: header.addresses,
                    tlvs,
                });
                connection.buffer.drain(..header.header_bytes);
                return HeaderRead::Done;
            }
            Ok(Parsed::Incomplete) => {}
            Err(error) => {
                let quoted = match error.excerpt() {
                    Some(_) => format!(": \"{}\"", first_line(&connection.buffer).escape_ascii()),
                    None => String::new(),
                };
                connection.log(LogLevel::Error, &format!("{error}{quoted} {READING}"));
                return HeaderRead::Malformed;
            }
        }
        match connection.receive(HEAD_READ_BYTES, true).await {
            Wait::Bytes => {}
            Wait::Broken(error) => {
                connection.log_broken(&error, READING);
                return HeaderRead::Gone;
            }
            Wait::TimedOut => {
                let text = format!("client timed out (110: Connection timed out) {READING}");
                connection.log(LogLevel::Info, &text);
                return HeaderRead::Gone;
            }
            Wait::End => {
                let text = format!("client closed connection {READING}");
                connection.log(LogLevel::Info, &text);
                return HeaderRead::Malformed;
            }
            Wait::Asked(_) => return HeaderRead::Gone,
        }
    }
}

/// The bytes received instead of a header, limited to the length of one: they show the operator who
/// sent them.
fn first_line(received: &[u8]) -> &[u8] {
    let line = &received[..received.len().min(proxy_protocol::MAX_V1_BYTES)];
    let end = memchr::memchr2(b'\r', b'\n', line);
    &line[..end.unwrap_or(line.len())]
}
