//! How connections end, RFC 9000 section 10.

use super::Connection;
use crate::{Code, Error, Time};
use std::fmt;

/// The period for which an ended connection still answers or ignores packets, in probe timeouts
/// (section 10.2).
const END_PTOS: u32 = 3;

/// Why a connection has ended, or is ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// This end has found an error, and told the peer.
    Error(Error),
    /// The application of this end has closed it.
    Application {
        /// Its code.
        code: u64,
    },
    /// The peer has found an error.
    PeerError(Error),
    /// The peer's application has closed it.
    PeerApplication {
        /// Its code.
        code: u64,
        /// Its reason, as far as it is text.
        reason: Box<str>,
    },
    /// Nothing came for `max_idle_timeout`.
    TimedOut,
    /// The peer does not know the connection any more (section 10.3).
    Reset,
    /// A server speaks none of the versions (section 6.2).
    NoVersion,
    /// It was dropped without a word: no address of the peer works any more.
    NoPath,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Application { code } => write!(f, "closed with code {code:#x}"),
            Self::PeerError(error) => write!(f, "peer closed connection: {error}"),
            Self::PeerApplication { code, reason } if reason.is_empty() => {
                write!(f, "peer closed connection with code {code:#x}")
            }
            Self::PeerApplication { code, reason } => {
                write!(f, "peer closed connection with code {code:#x}: {reason}")
            }
            Self::TimedOut => f.write_str("peer sent nothing for max_idle_timeout"),
            Self::Reset => f.write_str("peer reset connection"),
            Self::NoVersion => f.write_str("peer speaks no common version of QUIC"),
            Self::NoPath => f.write_str("peer does not answer at its new address"),
        }
    }
}

/// How far a connection has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// The handshake goes on.
    Handshaking,
    /// The handshake is complete (RFC 9001 section 4.1.1).
    Established,
    /// CONNECTION_CLOSE was sent, or is to be.
    Closing(Box<Closing>),
    /// The peer has closed it: nothing is sent any more.
    Draining(Box<Ended>),
    /// Nothing is left to do.
    Closed(Box<CloseReason>),
}

/// Why, and until when packets are still expected.
#[derive(Debug)]
pub(super) struct Ended {
    reason: CloseReason,
    until: Time,
}

/// A connection that this end closes.
#[derive(Debug)]
pub(super) struct Closing {
    ended: Ended,
    /// CONNECTION_CLOSE is to be sent.
    is_due: bool,
    /// Packets that came since.
    received: u32,
    /// It is sent again when there were as many.
    again_at: u32,
}

impl Closing {
    /// What CONNECTION_CLOSE says.
    pub(super) fn reason(&self) -> &CloseReason {
        &self.ended.reason
    }
}

impl Connection {
    /// Closes the connection in order, as the application wants it. A connection that is ending
    /// goes on to do so for its first reason.
    pub fn close(&mut self, now: Time, code: u64) {
        self.start_closing(now, CloseReason::Application { code });
    }

    /// Closes the connection because of an error.
    pub fn fail(&mut self, now: Time, error: Error) {
        self.start_closing(now, CloseReason::Error(error));
    }

    fn start_closing(&mut self, now: Time, reason: CloseReason) {
        if self.is_ending() {
            return;
        }
        self.trace_time(now);
        self.trace_closed(&reason);
        let until = now + END_PTOS * self.pto();
        self.state = Progress::Closing(Box::new(Closing {
            ended: Ended { reason, until },
            is_due: true,
            received: 0,
            again_at: 1,
        }));
        self.forget_what_is_not_needed();
    }

    /// The peer has closed the connection.
    pub(super) fn start_draining(&mut self, now: Time, reason: CloseReason) {
        match &self.state {
            Progress::Draining(_) | Progress::Closed(_) => return,
            // Its own reason was the first.
            Progress::Closing(closing) => {
                let reason = closing.ended.reason.clone();
                let until = closing.ended.until;
                self.state = Progress::Draining(Box::new(Ended { reason, until }));
                return;
            }
            Progress::Handshaking | Progress::Established => {}
        }
        self.trace_closed(&reason);
        let until = now + END_PTOS * self.pto();
        self.state = Progress::Draining(Box::new(Ended { reason, until }));
        self.forget_what_is_not_needed();
    }

    /// Ends without a word.
    pub(super) fn drop_silently(&mut self, reason: CloseReason) {
        if !self.is_ending() {
            self.trace_closed(&reason);
            self.state = Progress::Closed(Box::new(reason));
            self.forget_what_is_not_needed();
        }
    }

    /// Whether it has ended, or is about to.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        !matches!(self.state, Progress::Handshaking | Progress::Established)
    }

    /// Whether nothing is left to do, and its ids can be forgotten.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, Progress::Closed(_))
    }

    /// Why it has ended, or is about to.
    #[must_use]
    pub fn close_reason(&self) -> Option<&CloseReason> {
        match &self.state {
            Progress::Handshaking | Progress::Established => None,
            Progress::Closing(closing) => Some(&closing.ended.reason),
            Progress::Draining(ended) => Some(&ended.reason),
            Progress::Closed(reason) => Some(reason),
        }
    }

    /// A packet came for a connection that is closing: CONNECTION_CLOSE is sent again, for fewer
    /// and fewer of them (section 10.2.1).
    pub(super) fn note_packet_while_closing(&mut self) {
        if let Progress::Closing(closing) = &mut self.state {
            closing.received = closing.received.saturating_add(1);
            if closing.received >= closing.again_at {
                closing.again_at = closing.again_at.saturating_mul(2);
                closing.is_due = true;
            }
        }
    }

    /// What is to be sent in CONNECTION_CLOSE now, once.
    pub(super) fn take_close(&mut self) -> Option<CloseReason> {
        match &mut self.state {
            Progress::Closing(closing) => {
                std::mem::take(&mut closing.is_due).then(|| closing.reason().clone())
            }
            _ => None,
        }
    }

    /// Whether CONNECTION_CLOSE is to be sent.
    pub(super) fn has_close_to_send(&self) -> bool {
        matches!(&self.state, Progress::Closing(closing) if closing.is_due)
    }

    /// When the period ends in which an ended connection still reacts.
    pub(super) fn end_of_closing(&self) -> Option<Time> {
        match &self.state {
            Progress::Closing(closing) => Some(closing.ended.until),
            Progress::Draining(ended) => Some(ended.until),
            _ => None,
        }
    }

    /// That time has come.
    pub(super) fn finish_closing(&mut self) {
        let reason = match &self.state {
            Progress::Closing(closing) => closing.ended.reason.clone(),
            Progress::Draining(ended) => ended.reason.clone(),
            _ => return,
        };
        self.state = Progress::Closed(Box::new(reason));
    }
}

impl CloseReason {
    /// Code, and type of the frame that was wrong if QUIC itself closes the connection. In a packet
    /// of the handshake the application's reason is not told (section 10.2.3).
    pub(super) fn to_frame(&self, is_handshake: bool) -> (u64, Option<u64>, &str) {
        match self {
            Self::Error(error) => (error.code.to_wire(), Some(error.frame_type), &error.reason),
            Self::Application { .. } if is_handshake => {
                (Code::APPLICATION_ERROR.to_wire(), Some(0), "")
            }
            Self::Application { code } => (*code, None, ""),
            _ => (Code::NO_ERROR.to_wire(), Some(0), ""),
        }
    }
}
