//! Clients that do too much of something that is allowed: `tests/clients/quic/python/floods.py`.

use super::programs;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;

/// How a flood went.
#[derive(Clone, Debug)]
pub struct Flooded {
    /// The name of the error with which the server closed the connection.
    pub closed: Option<String>,
    /// What was sent, in packets, frames or requests.
    pub sent: u64,
    /// Responses that came whole.
    pub responses: u64,
    /// Bytes of responses.
    pub received_bytes: u64,
}

/// Runs the flood of this name on a connection of its own, for a few seconds at most.
#[track_caller]
pub fn flood(address: SocketAddr, authority: &Path, name: &str) -> Flooded {
    let output = programs::run_flood(address, authority, name);
    let value: Value = serde_json::from_str(&output).expect("the program prints JSON");
    let number = |name: &str| value[name].as_u64().unwrap_or(0);
    Flooded {
        closed: value["closed"].as_str().map(str::to_owned),
        sent: number("sent"),
        responses: number("responses"),
        received_bytes: number("received"),
    }
}
