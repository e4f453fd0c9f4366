//! Clients that break a rule of QUIC or HTTP/3: what the server says to it.
//!
//! The rules are those of h3spec, and some more: `tests/clients/quic/faults`.

use super::programs;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;

/// One broken rule.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What was done, for a person and for `faults_named`.
    pub name: String,
    /// Where the rule is: `RFC 9000 12.4`.
    pub section: String,
    /// Whether the answer is one that the RFC allows.
    pub passed: bool,
    /// Names of the errors that the RFC asks for. Generic codes are allowed too.
    pub expected: Vec<String>,
    /// The name of the error that came, or why none did.
    pub received: String,
    /// The status of the response, if there was one.
    pub status: Option<u64>,
}

/// Breaks every rule, each on a connection of its own.
#[track_caller]
pub fn faults(address: SocketAddr, authority: &Path) -> Vec<Fault> {
    faults_named(address, authority, "")
}

/// Breaks the rules whose name or section contains `text`.
///
/// # Panics
///
/// If there are none, or the program fails.
#[track_caller]
pub fn faults_named(address: SocketAddr, authority: &Path, text: &str) -> Vec<Fault> {
    let output = programs::run_faults(address, authority, text);
    let all: Vec<Fault> = output.lines().map(fault).collect();
    assert!(!all.is_empty(), "no fault is called {text}");
    all
}

fn fault(line: &str) -> Fault {
    let value: Value = serde_json::from_str(line).expect("the program prints JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let expected = value["expected"].as_array().into_iter().flatten();
    Fault {
        name: text(&value["name"]),
        section: text(&value["section"]),
        passed: value["passed"].as_bool().unwrap_or(false),
        expected: expected.map(text).collect(),
        received: text(&value["received"]),
        status: value["status"].as_u64(),
    }
}
