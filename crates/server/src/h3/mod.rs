//! HTTP/3 connections (RFC 9114): many exchanges at a time on one connection of QUIC.
//!
//! One task serves a connection and all of its streams, as with HTTP/2. [`sealane_quic`] is the
//! transport, [`sealane_http::h3`] the protocol; neither does I/O. A turn takes the datagrams that
//! have come, lets the handshake and the streams go on, reads bodies as far as streams take them,
//! and sends what the transport makes of it.
//!
//! | file | what it holds |
//! |---|---|
//! | `serving` | the connection: its turns, its end, and how its parts work together |
//! | `opening` | its handshake |
//! | `intake` | what the transport asks of its owner: bytes in, bytes out |
//! | `framer` | codec and transport, and how streams are written |
//! | `filling` | from bodies to DATA frames |
//! | `names`, `output` | the requests, and what they have to send |
//! | `timeouts` | the connection's deadline, and what it is for |

mod filling;
mod framer;
mod intake;
mod names;
mod opening;
mod output;
mod serving;
mod timeouts;

pub(crate) use serving::{Beginning, serve};
