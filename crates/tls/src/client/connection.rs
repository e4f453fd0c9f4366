//! A connection to an upstream, from its ClientHello.

use std::fmt;

use sealane_awslc::{self as awslc, HandshakeStatus, ReadStatus, VerifyFailure};

use super::error::Error;
use super::sessions::{Binding, Session};

/// A TLS connection to an upstream. It moves between threads by value.
///
/// Every call takes the bytes received as `input`, advances it past what was consumed and
/// appends what must be sent to `output`, also on errors: send the output before closing.
/// Nothing of either is kept, so that an idle connection owns no buffer; what libssl has of
/// an incomplete record it gives back with the record's end.
pub struct Connection {
    tls: awslc::ClientConnection,
    binding: Binding,
    has_failed: bool,
    /// The server's close_notify was read. libssl's own flag also says so after errors.
    is_closed: bool,
}

/// How far a handshake came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Finished. The output may still hold our last flight: send it with the request.
    Done,
    /// Send the output, then call again with more input.
    WantRead,
}

impl Connection {
    pub(super) fn new(tls: awslc::ClientConnection, binding: Binding) -> Self {
        Self {
            tls,
            binding,
            has_failed: false,
            is_closed: false,
        }
    }

    /// Goes on with the handshake; the first call, without input, makes the ClientHello.
    ///
    /// In TLS 1.3 a server says only after [`Handshake::Done`] that it does not like our
    /// certificate: then [`read`](Self::read) fails.
    pub fn handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Handshake, Error> {
        if self.has_failed {
            return Err(Error::NotEstablished);
        }
        match self.tls.handshake(input, output) {
            Ok(HandshakeStatus::Done) => Ok(Handshake::Done),
            Ok(HandshakeStatus::WantRead) => Ok(Handshake::WantRead),
            // libssl has the key, so nothing is ever waited for.
            Ok(HandshakeStatus::Pending) => Err(self.failed(Error::NotEstablished)),
            Err(error) => {
                let refused = self.tls.verify_failure();
                let error = refused.map_or(Error::Library(error), |why| self.refusal(why));
                Err(self.failed(error))
            }
        }
    }

    /// Opens records and appends at most `max_bytes` of plaintext to `plain`. When some
    /// came, read again before waiting for the server: more may wait, and what stands behind
    /// data in the same input (a close_notify, an error) is told by the next call.
    ///
    /// [`ReadStatus::CloseNotify`]: the server closed its side in order. TLS 1.3 session tickets
    /// are read on the way: see [`take_session`](Self::take_session).
    pub fn read(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        max_bytes: usize,
    ) -> Result<ReadStatus, Error> {
        if !self.is_established() {
            return Err(Error::NotEstablished);
        }
        match self.tls.read_into(input, output, plain, max_bytes) {
            Ok(status) => {
                self.is_closed |= status == ReadStatus::CloseNotify;
                Ok(status)
            }
            Err(error) => Err(self.failed(error.into())),
        }
    }

    /// Whether decrypted bytes wait: read again without new input.
    pub fn has_pending(&self) -> bool {
        self.tls.has_pending()
    }

    /// Seals all of `plain` in records of 16 KiB, behind what libssl has queued (the answer to
    /// a KeyUpdate). Give large pieces: many records then go out in one send. Empty
    /// `plain` sends the queue alone.
    pub fn write(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        if !self.is_established() {
            return Err(Error::NotEstablished);
        }
        match self.tls.write(plain, output) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed(error.into())),
        }
    }

    /// Appends a close_notify, once. Does nothing before the handshake is done or after an
    /// alert.
    pub fn close_notify(&mut self, output: &mut Vec<u8>) {
        if self.is_established() {
            self.tls.shutdown(output);
        }
    }

    /// To be called when the socket has ended and all input was read: whether that was in
    /// order.
    ///
    /// # Errors
    ///
    /// [`Error::ClosedInHandshake`], or [`Error::Truncated`] without a close_notify. nginx takes
    /// the latter for a close in order; where the length of a response is known otherwise
    /// it says nothing.
    #[cfg(test)]
    pub(crate) fn end_of_input(&self) -> Result<(), Error> {
        if self.has_failed {
            return Err(Error::NotEstablished);
        }
        if !self.tls.is_established() {
            return Err(Error::ClosedInHandshake);
        }
        if self.is_closed {
            Ok(())
        } else {
            Err(Error::Truncated)
        }
    }

    /// Whether the handshake is over and nothing has failed since.
    pub fn is_established(&self) -> bool {
        !self.has_failed && self.tls.is_established()
    }

    /// The session that the server gave last, once, for
    /// [`SessionCache::put`](super::SessionCache::put). TLS 1.3 servers send theirs with or
    /// before the first response, so ask when a response was read, and at the end.
    pub fn take_session(&mut self) -> Option<Session> {
        let session = self.tls.take_session()?;
        Some(Session::new(session, self.binding.clone()))
    }

    /// Whether the offered session was resumed.
    pub fn is_session_reused(&self) -> bool {
        self.tls.is_session_reused()
    }

    /// The application protocol, empty when none was negotiated.
    pub fn alpn(&self) -> &[u8] {
        self.tls.alpn()
    }

    /// Protocol in OpenSSL's words: `TLSv1.3`.
    pub fn protocol(&self) -> &'static str {
        self.tls.protocol()
    }

    /// The suite by OpenSSL's name; empty before it is negotiated.
    pub fn cipher(&self) -> &'static str {
        self.tls.cipher().map_or("", awslc::Cipher::name)
    }

    /// The name without port that was sent, or compared, or neither.
    pub fn host(&self) -> &str {
        &self.binding.host
    }

    fn failed(&mut self, error: Error) -> Error {
        self.has_failed = true;
        error
    }

    fn refusal(&self, why: VerifyFailure) -> Error {
        match why {
            VerifyFailure::Chain(code) => Error::Untrusted {
                code,
                reason: why.reason(),
            },
            VerifyFailure::Name => Error::OtherName {
                name: self.host().into(),
            },
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.has_failed, self.tls.is_established()) {
            (true, _) => "failed",
            (false, true) => "established",
            (false, false) => "handshaking",
        };
        write!(f, "client::Connection({state}, {})", self.protocol())
    }
}
