//! What a client program says of a script that it has run.

use serde_json::Value;

/// All connections of a script, in its order.
#[derive(Clone, Debug)]
pub struct QuicRun {
    /// One for each that was opened, or tried to.
    pub connections: Vec<QuicConnection>,
}

/// What became of one connection. What a program cannot know is zero, empty or false.
#[derive(Clone, Debug)]
pub struct QuicConnection {
    /// The version in use at the end, as on the wire: 1 or `0x6b3343cf`.
    pub version: u32,
    /// The server sent a Retry packet.
    pub retry: bool,
    /// The server sent a Version Negotiation packet.
    pub version_negotiation: bool,
    /// The session was resumed.
    pub resumed: bool,
    /// `none`, `accepted` or `rejected`.
    pub early_data: String,
    /// How often the keys were updated, by whichever side.
    pub key_updates: u64,
    /// Session tickets that came.
    pub tickets: u64,
    /// Tokens that came in NEW_TOKEN frames.
    pub tokens: u64,
    /// New paths that both sides have validated: the server answered on them.
    pub migrations: u64,
    /// Bytes of the server's QPACK encoder stream: more than one, and it inserts fields.
    pub qpack_received_bytes: u64,
    /// The same of the client's.
    pub qpack_sent_bytes: u64,
    /// In the order of the requests.
    pub responses: Vec<QuicResponse>,
    /// In the order of the script.
    pub websockets: Vec<QuicWebSocket>,
    /// Whose bytes of a body came when: numbers of requests, and how many bytes in a row.
    pub arrivals: Vec<(usize, u64)>,
    /// How the connection ended, if not by the end of its part of the script.
    pub close: Option<QuicClose>,
    /// From its first packet until its last step was done.
    pub milliseconds: u64,
}

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicClose {
    /// Whether the server sent the CONNECTION_CLOSE frame; else the client had a reason.
    pub by_server: bool,
    /// Whether `code` is an error of HTTP/3, and not of the transport.
    pub application: bool,
    /// As on the wire; TLS alerts are `0x100` and more. `None`: a time-out, or a stateless reset.
    pub code: Option<u64>,
    /// As text.
    pub reason: String,
}

/// One response.
#[derive(Clone, Debug)]
pub struct QuicResponse {
    /// 0 if there was none.
    pub status: u16,
    /// Without pseudo-header fields.
    pub headers: Vec<(String, String)>,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// The body, if the program tells it: not one of more than 64 KiB.
    pub body: Vec<u8>,
    /// Trailers alone, which are among `headers`, too.
    pub trailers: Vec<(String, String)>,
    /// Of the body, in hexadecimal.
    pub sha256: String,
    /// Of the body that was sent, in hexadecimal.
    pub sent_sha256: String,
    /// Whether the body's end came.
    pub complete: bool,
    /// The code of the server's RESET_STREAM.
    pub reset: Option<u64>,
}

/// One WebSocket.
#[derive(Clone, Debug)]
pub struct QuicWebSocket {
    /// Of the response to CONNECT.
    pub status: u16,
    /// What the server sent, as text.
    pub texts: Vec<String>,
}

impl QuicResponse {
    /// The first field of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        all.find(|(one, _)| one == name)
            .map(|(_, value)| value.as_str())
    }
}

impl QuicRun {
    pub(super) fn from_json(value: &Value) -> QuicRun {
        QuicRun {
            connections: list(&value["connections"], connection),
        }
    }
}

fn list<T>(value: &Value, one: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().into_iter().flatten().map(one).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or(false)
}

fn status(value: &Value) -> u16 {
    u16::try_from(number(value)).unwrap_or(0)
}

fn connection(value: &Value) -> QuicConnection {
    QuicConnection {
        version: u32::try_from(number(&value["version"])).unwrap_or(0),
        retry: flag(&value["retry"]),
        version_negotiation: flag(&value["version_negotiation"]),
        resumed: flag(&value["resumed"]),
        early_data: text(&value["early_data"]),
        key_updates: number(&value["key_updates"]),
        tickets: number(&value["tickets"]),
        tokens: number(&value["tokens"]),
        migrations: number(&value["migrations"]),
        qpack_received_bytes: number(&value["qpack_received_bytes"]),
        qpack_sent_bytes: number(&value["qpack_sent_bytes"]),
        responses: list(&value["responses"], response),
        websockets: list(&value["websockets"], |value| QuicWebSocket {
            status: status(&value["status"]),
            texts: list(&value["texts"], text),
        }),
        arrivals: list(&value["arrivals"], |pair| {
            (number(&pair[0]) as usize, number(&pair[1]))
        }),
        close: value["close"].is_object().then(|| close(&value["close"])),
        milliseconds: number(&value["milliseconds"]),
    }
}

fn close(value: &Value) -> QuicClose {
    QuicClose {
        by_server: flag(&value["by_server"]),
        application: flag(&value["application"]),
        code: value["code"].as_u64(),
        reason: text(&value["reason"]),
    }
}

fn response(value: &Value) -> QuicResponse {
    QuicResponse {
        status: status(&value["status"]),
        headers: list(&value["headers"], pair),
        body_bytes: number(&value["body_bytes"]),
        body: from_hex(&text(&value["body"])),
        trailers: list(&value["trailers"], pair),
        sha256: text(&value["sha256"]),
        sent_sha256: text(&value["sent_sha256"]),
        complete: flag(&value["complete"]),
        reset: value["reset"].as_u64(),
    }
}

fn pair(value: &Value) -> (String, String) {
    (text(&value[0]), text(&value[1]))
}

fn from_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}
