//! HTTP/3 clients on four implementations of QUIC, which run the same scripts:
//! `tests/clients/quic`.
//!
//! ```no_run
//! use sealane_tests::quic::{QuicClient, QuicScript, pattern};
//!
//! let script = QuicScript::new("127.0.0.1:8443".parse().unwrap(), "authority.pem".as_ref())
//!     .get("/a.txt")
//!     .rebind("127.0.0.2")
//!     .get("/a.txt")
//!     .reconnect_early()
//!     .get("/a.txt");
//! let run = QuicClient::Aioquic.run(&script);
//! assert_eq!(run.connections[0].responses[1].status, 200);
//! assert_eq!(run.connections[1].early_data, "accepted");
//! ```

mod faults;
mod first_packet;
mod floods;
mod programs;
mod results;
mod serving;

pub use faults::{Fault, faults, faults_named};
pub use first_packet::first_datagram;
pub use floods::{Flooded, flood};
pub use programs::quic_client_path;
pub use results::{QuicClose, QuicConnection, QuicResponse, QuicRun, QuicWebSocket};
pub use serving::{QUIC_CERTIFICATE, quic_configuration, quic_site, serve_quic};

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;

/// A client program, named after its QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicClient {
    /// aioquic, in Python: does everything that a script can ask for. Slow: some 20 MB/s.
    Aioquic,
    /// quic-go, in Go 1.26: no `change_connection_id`, `websocket`, `unknown_version_first` and
    /// `also_version_2`. No `key_update` either, but it updates its keys early by itself. Fast.
    QuicGo,
    /// quinn and h3, in Rust: no version 2, `change_connection_id`, `websocket` and
    /// `unknown_version_first`. Cannot say whether there was a Retry. Sends frames and streams of
    /// reserved types. Fast.
    Quinn,
    /// libcurl on ngtcp2 and nghttp3, in Python: requests alone, one after the other.
    Curl,
}

/// What a client is to do, in order. Every step adds to the connection that is open.
#[derive(Clone, Debug)]
pub struct QuicScript {
    options: Value,
    connections: Vec<Planned>,
}

/// One connection of a script.
#[derive(Clone, Debug)]
struct Planned {
    /// What it has from the connection before: nothing, its ticket and token, or early data too.
    resume: &'static str,
    steps: Vec<Value>,
}

/// One request of a script.
#[derive(Clone, Debug)]
pub struct QuicRequest {
    value: Value,
}

impl QuicRequest {
    /// A request without a body.
    pub fn new(method: &str, path: &str) -> QuicRequest {
        QuicRequest {
            value: json!({"method": method, "path": path, "headers": [], "body_bytes": -1}),
        }
    }

    /// A header field; its name in lower case.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> QuicRequest {
        if let Some(headers) = self.value["headers"].as_array_mut() {
            headers.push(json!([name, value]));
        }
        self
    }

    /// Another `:authority` than the name of the server. Only [`QuicClient::Aioquic`] has it.
    #[must_use]
    pub fn authority(mut self, name: &str) -> QuicRequest {
        self.value["authority"] = name.into();
        self
    }

    /// A body of these pieces, without a declared length. Only [`QuicClient::Aioquic`] sends it.
    #[must_use]
    pub fn pieces(mut self, pieces: &[&[u8]]) -> QuicRequest {
        let hex =
            |piece: &&[u8]| -> String { piece.iter().map(|byte| format!("{byte:02x}")).collect() };
        self.value["pieces"] = pieces.iter().map(hex).collect();
        self
    }

    /// Each of these pieces but the first is sent when something has come in answer to the one
    /// before it.
    #[must_use]
    pub fn in_turn(mut self) -> QuicRequest {
        self.value["in_turn"] = true.into();
        self
    }

    /// Only so many bytes of the body are sent, and no end.
    #[must_use]
    pub fn sends_only(mut self, bytes: u64) -> QuicRequest {
        self.value["sent_bytes"] = bytes.into();
        self
    }

    /// A body of [`pattern`].
    #[must_use]
    pub fn body(mut self, bytes: u64) -> QuicRequest {
        self.value["body_bytes"] = bytes.into();
        self
    }
}

impl QuicScript {
    /// A script for a server whose certificate is for `localhost` and signed by `authority`.
    pub fn new(address: SocketAddr, authority: &Path) -> QuicScript {
        QuicScript {
            options: json!({
                "address": address.to_string(),
                "authority": authority,
                "server_name": "localhost",
                "version": 1,
            }),
            connections: vec![Planned {
                resume: "none",
                steps: Vec::new(),
            }],
        }
    }

    /// Another name of the server, for TLS and `:authority`.
    #[must_use]
    pub fn server_name(self, name: &str) -> QuicScript {
        self.option("server_name", name.into())
    }

    /// QUIC version 1 (the default) or 2, from the first packet on.
    #[must_use]
    pub fn version(self, version: u32) -> QuicScript {
        self.option("version", version.into())
    }

    /// Begins with version 1 and says that it has version 2 too, which the server may go over to
    /// (RFC 9368 section 2.3).
    #[must_use]
    pub fn also_version_2(self) -> QuicScript {
        self.option("also_version_2", true.into())
    }

    /// Begins with a version that no server knows, so that it has to say which it does know
    /// (RFC 9000 section 6).
    #[must_use]
    pub fn unknown_version_first(self) -> QuicScript {
        self.option("unknown_version_first", true.into())
    }

    /// A ClientHello of two datagrams. Once the first is sent, there is the file `begun`; the
    /// second is sent when there is the file `proceed`. Only [`QuicClient::Aioquic`] does it.
    #[must_use]
    pub fn split_first_flight(self, begun: &Path, proceed: &Path) -> QuicScript {
        self.option("split", json!({"begun": begun, "proceed": proceed}))
    }

    /// The application protocol, instead of `h3`. [`QuicClient::Aioquic`] speaks HTTP/0.9, too
    /// (`hq-interop`): its requests are their method and path, and its responses have no status.
    #[must_use]
    pub fn alpn(self, protocol: &str) -> QuicScript {
        self.option("alpn", protocol.into())
    }

    /// A certificate of the client, for servers that ask for one. Only [`QuicClient::Aioquic`] has
    /// it.
    #[must_use]
    pub fn certificate(self, certificate: &Path, key: &Path) -> QuicScript {
        let certificate = self.option("certificate", json!(certificate));
        certificate.option("key", json!(key))
    }

    /// How many bytes the client lets the server send ahead, on a stream and on the connection.
    #[must_use]
    pub fn receive_window(self, bytes: u64) -> QuicScript {
        self.option("receive_window", bytes.into())
    }

    /// How many bytes the client lets the server send ahead on the connection alone.
    #[must_use]
    pub fn connection_window(self, bytes: u64) -> QuicScript {
        self.option("connection_window", bytes.into())
    }

    /// One GET.
    #[must_use]
    pub fn get(self, path: &str) -> QuicScript {
        self.requests([QuicRequest::new("GET", path)])
    }

    /// Requests that are all sent at once; the step ends with the last response.
    #[must_use]
    pub fn requests(self, requests: impl IntoIterator<Item = QuicRequest>) -> QuicScript {
        let requests: Vec<Value> = requests.into_iter().map(|request| request.value).collect();
        self.step(json!({"do": "requests", "requests": requests}))
    }

    /// Requests that are all sent at once, and whose responses are not waited for: the step ends
    /// when the server has the requests. This step and the next five are for
    /// [`QuicClient::Aioquic`] alone.
    #[must_use]
    pub fn begin(self, requests: impl IntoIterator<Item = QuicRequest>) -> QuicScript {
        let requests: Vec<Value> = requests.into_iter().map(|request| request.value).collect();
        self.step(json!({"do": "begin", "requests": requests}))
    }

    /// Opens no windows any more, until [`finish`](QuicScript::finish).
    #[must_use]
    pub fn hold_windows(self) -> QuicScript {
        self.step(json!({"do": "hold_windows"}))
    }

    /// Waits until the server has sent all that the connection's window lets it.
    #[must_use]
    pub fn wait_until_blocked(self) -> QuicScript {
        self.step(json!({"do": "wait_until_blocked"}))
    }

    /// Changes the priority of the response to the request of this number (RFC 9218 section 7.2).
    #[must_use]
    pub fn priority_update(self, request: usize, value: &str) -> QuicScript {
        self.step(json!({"do": "priority_update", "request": request, "value": value}))
    }

    /// Opens the windows again, and waits for all responses. So little is under way at a time that
    /// the socket of a client which has no time to read holds it: what was lost would come later
    /// than the server has sent it.
    #[must_use]
    pub fn finish(self) -> QuicScript {
        self.step(json!({"do": "finish", "window": 32 << 10}))
    }

    /// Sends no more of the request of this number (RESET_STREAM).
    #[must_use]
    pub fn reset(self, request: usize) -> QuicScript {
        self.step(json!({"do": "reset", "request": request}))
    }

    /// The client is no more, without a word. What follows in the script is not done. Only
    /// [`QuicClient::Aioquic`] does it.
    #[must_use]
    pub fn vanish(self) -> QuicScript {
        self.step(json!({"do": "vanish"}))
    }

    /// Goes on from a new port of this local address, `127.0.0.0/8` or `::1`, after which the
    /// server has to validate the path (RFC 9000 section 9). aioquic keeps its connection id, as
    /// behind a NAT; quinn takes another one; quic-go validates the path before it uses it.
    #[must_use]
    pub fn rebind(self, address: &str) -> QuicScript {
        self.step(json!({"do": "rebind", "address": address}))
    }

    /// Updates the keys (RFC 9001 section 6).
    #[must_use]
    pub fn key_update(self) -> QuicScript {
        self.step(json!({"do": "key_update"}))
    }

    /// Retires the server's connection id and goes on with another one.
    #[must_use]
    pub fn change_connection_id(self) -> QuicScript {
        self.step(json!({"do": "change_connection_id"}))
    }

    /// A WebSocket on a stream (RFC 9220): sends texts and waits for as many answers.
    #[must_use]
    pub fn websocket(self, path: &str, texts: &[&str]) -> QuicScript {
        self.step(json!({"do": "websocket", "path": path, "texts": texts}))
    }

    /// Opens a unidirectional stream, which stays open. Only [`QuicClient::Aioquic`] does it.
    #[must_use]
    pub fn one_way_stream(self) -> QuicScript {
        self.step(json!({"do": "one_way_stream"}))
    }

    /// Does nothing for a while: acknowledges, and answers what it is asked.
    #[must_use]
    pub fn wait(self, milliseconds: u64) -> QuicScript {
        self.step(json!({"do": "wait", "ms": milliseconds}))
    }

    /// Sends PING frames for a while, unless the server closes the connection. Only
    /// [`QuicClient::Aioquic`] does it.
    #[must_use]
    pub fn pings(self, milliseconds: u64) -> QuicScript {
        self.step(json!({"do": "pings", "ms": milliseconds}))
    }

    /// Waits until the server closes the connection or half a minute is over.
    #[must_use]
    pub fn wait_for_close(self) -> QuicScript {
        self.step(json!({"do": "wait_for_close"}))
    }

    /// Closes the connection, and opens the next one without anything from it.
    #[must_use]
    pub fn reconnect(self) -> QuicScript {
        self.connection("none")
    }

    /// The same with its session ticket and its token.
    #[must_use]
    pub fn reconnect_resumed(self) -> QuicScript {
        self.connection("ticket")
    }

    /// The same, and the requests of the next step go out as early data (0-RTT).
    #[must_use]
    pub fn reconnect_early(self) -> QuicScript {
        self.connection("early")
    }

    fn option(mut self, name: &str, value: Value) -> QuicScript {
        self.options[name] = value;
        self
    }

    fn step(mut self, step: Value) -> QuicScript {
        let last = self.connections.last_mut();
        last.expect("a script has a connection").steps.push(step);
        self
    }

    fn connection(mut self, resume: &'static str) -> QuicScript {
        let steps = Vec::new();
        self.connections.push(Planned { resume, steps });
        self
    }

    /// As the programs read it.
    fn to_json(&self) -> Value {
        let planned = self.connections.iter();
        let planned = planned.map(|one| json!({"resume": one.resume, "steps": one.steps}));
        let mut all = self.options.clone();
        all["connections"] = planned.collect();
        all
    }
}

/// The body that scripts send: each byte is its position modulo 251.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..=250_u8).cycle().take(bytes).collect()
}

#[cfg(test)]
mod tests;
