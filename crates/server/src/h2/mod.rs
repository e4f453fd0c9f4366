//! HTTP/2 connections (RFC 9113): many exchanges at a time on one connection.
//!
//! ```text
//! receive -> frames -> [ stream: exchange -> response head, body ]* -> frames -> send
//! ```
//!
//! One task serves a connection and all of its streams. [`sealane_http::h2`] implements the
//! protocol; the exchanges, the bodies and the time-outs are here. A turn of the loop reads what
//! has arrived, polls the streams that can make progress, takes as much of their bodies as
//! priorities and windows allow, and sends everything at once.
//!
//! | file | what it holds |
//! |---|---|
//! | `serving` | the connection: its turns, its end, and how its parts work together |
//! | `framer` | the codec, and the output that waits for the socket |
//! | `multiplexed` beside this module | the streams: exchanges, then responses |
//! | `events` | what the client says about streams |
//! | `filling` | from bodies to DATA frames |
//! | `unread` | request bodies that are no longer read |
//! | `timeouts` | the connection's deadline, and what it is for |
//! | `settings` | what the configuration means to the codec |
//!
//! Floods are counted by the codec (`http::h2`'s limits); what it has counted is added to the
//! thread's counters whenever the connection is idle, and at its end.

mod events;
mod filling;
mod framer;
mod serving;
mod settings;
mod timeouts;
mod unread;

#[cfg(test)]
mod tests;

pub(crate) use serving::serve;
pub(crate) use settings::{MAX_FRAME_BYTES, codec_settings};

use crate::connection::Connection;
use sealane_http::h2::PREFACE;

/// What the first bytes of a connection say about its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// HTTP/2 with prior knowledge.
    Http2,
    /// The bytes so far may become the preface of HTTP/2.
    Undecided,
    /// Something else.
    Other,
}

/// Looks for the client's connection preface (RFC 9113 section 3.4).
pub(crate) fn beginning(bytes: &[u8]) -> Beginning {
    if bytes.starts_with(PREFACE) {
        Beginning::Http2
    } else if PREFACE.starts_with(bytes) {
        Beginning::Undecided
    } else {
        Beginning::Other
    }
}

/// Whether a connection may speak HTTP/2: `http2` of its server, or of its `listen`.
pub(crate) fn is_enabled(connection: &Connection) -> bool {
    let listener = connection.snapshot.listener(connection.listener);
    listener.options.http2 || connection.server().conf.http2.enabled
}
