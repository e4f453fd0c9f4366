//! Layer 4: what moves bytes and datagrams between a client and a server (`stream` in the
//! configuration). No configuration, no choice of servers, no logs: those are the caller's.
//!
//! | file | what it holds |
//! |---|---|
//! | [`relay`], `relay/` | bytes between two streams, plain or TLS, both ways, until the end |
//! | [`datagram`], `datagram/` | datagrams between clients that share a socket, and servers |
#![forbid(unsafe_code)]

pub mod datagram;
pub mod relay;
