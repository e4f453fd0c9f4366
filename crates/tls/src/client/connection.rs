//! A connection to an upstream, starting with its ClientHello.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sealane_awslc::{self as awslc, HandshakeStatus, ReadStatus, VerifyFailure};

use super::build::Shared;
use super::error::Error;
use super::sessions::{Binding, Session, SessionCache};
use super::signing::Signing;
use crate::ktls::Sealing;

/// A TLS connection to an upstream. It moves between threads by value.
///
/// Every call takes the received bytes as `input`, advances it past what was consumed, and appends
/// what must be sent to `output`. That holds on errors too: send the output before closing. The
/// connection keeps neither, so an idle connection owns no buffer. Memory that libssl holds for an
/// incomplete record is freed with the end of the record.
pub struct Connection {
    pub(super) tls: awslc::ClientConnection,
    binding: Binding,
    has_failed: bool,
    /// The server's close_notify has been read. libssl sets its own flag after errors too.
    is_closed: bool,
    kept: Option<Kept>,
    /// Until the handshake is done, if another process holds the key of the certificate.
    signing: Option<Box<Signing>>,
    pub(super) settings: Arc<Shared>,
    pub(super) ktls: Sealing,
}

/// The cache for the sessions of a connection, and the name of the server in it.
struct Kept {
    cache: Arc<SessionCache>,
    peer: Arc<str>,
}

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Finished. The output may still hold our last flight: send it with the request.
    Done,
    /// Send the output, then call again with more input.
    WantRead,
    /// The key of our certificate is elsewhere, and a signature of it is waited for: call again
    /// when [`Connection::poll_pending`] is ready.
    Pending,
}

impl Connection {
    pub(super) fn new(
        tls: awslc::ClientConnection,
        binding: Binding,
        signing: Option<Box<Signing>>,
        settings: Arc<Shared>,
    ) -> Self {
        Self {
            tls,
            binding,
            has_failed: false,
            is_closed: false,
            kept: None,
            signing,
            settings,
            ktls: Sealing::Pending,
        }
    }

    /// From now on, sessions from the server are put into `cache`, as those of `peer`.
    pub fn keep_sessions(&mut self, cache: Arc<SessionCache>, peer: Arc<str>) {
        self.kept = Some(Kept { cache, peer });
    }

    /// Protocols to offer instead of those of the settings, preferred first.
    ///
    /// # Errors
    ///
    /// When a name is empty or longer than 255 bytes.
    pub fn offer_protocols(&mut self, protocols: &[&[u8]]) -> Result<(), Error> {
        self.tls.offer_protocols(protocols).map_err(Error::Library)
    }

    /// In TLS 1.3 a session arrives before or with the first response, or even later.
    pub(super) fn keep_session(&mut self) {
        if self.kept.is_some()
            && let Some(session) = self.take_session()
            && let Some(Kept { cache, peer }) = &self.kept
        {
            cache.put(peer.as_bytes(), session);
        }
    }

    /// Continues the handshake. The first call, without input, makes the ClientHello.
    ///
    /// A TLS 1.3 server rejects our certificate only after [`Handshake::Done`]; then
    /// [`read`](Self::read) fails.
    ///
    /// # Errors
    ///
    /// The handshake has failed; `output` may hold an alert for the server. Every later call fails,
    /// too.
    pub fn handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Handshake, Error> {
        if self.has_failed {
            return Err(Error::NotEstablished);
        }
        loop {
            if let Some(signing) = &mut self.signing
                && signing.is_under_way()
            {
                let Some(result) = signing.take() else {
                    return Ok(Handshake::Pending);
                };
                self.tls.complete_key_operation(result);
            }
            match self.tls.handshake(input, output) {
                Ok(HandshakeStatus::Done) => {
                    self.keep_session();
                    return Ok(Handshake::Done);
                }
                Ok(HandshakeStatus::WantRead) => return Ok(Handshake::WantRead),
                Ok(HandshakeStatus::Pending) => {
                    // It waits for nothing else.
                    let wanted = self.tls.take_key_operation();
                    let (Some(signing), Some(operation)) = (&mut self.signing, wanted) else {
                        return Err(self.failed(Error::NotEstablished));
                    };
                    signing.begin(operation);
                }
                Err(error) => {
                    let refused = self.tls.verify_failure();
                    let error = refused.map_or(Error::Library(error), |why| self.refusal(why));
                    return Err(self.failed(error));
                }
            }
        }
    }

    /// Ready when a handshake that has returned [`Handshake::Pending`] can go on.
    pub fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.signing {
            Some(signing) => signing.poll(cx),
            None => Poll::Ready(()),
        }
    }

    /// How long the handshake has waited for signatures.
    pub(super) fn queue_time(&self) -> Duration {
        let signing = self.signing.as_ref();
        signing.map_or(Duration::ZERO, |signing| signing.queue_time())
    }

    /// Opens records and appends at most `max_bytes` of plaintext to `plain`. If it returns data,
    /// read again before waiting for the server: there may be more, and the next call reports
    /// whatever follows the data in the same input (a close_notify, an error).
    ///
    /// [`ReadStatus::CloseNotify`]: the server closed its side properly. TLS 1.3 session tickets
    /// are read along the way: see [`take_session`](Self::take_session).
    ///
    /// # Errors
    ///
    /// A record that does not open, or a message that is not allowed; `output` may hold an alert
    /// for the server. Every later call fails, too.
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
                self.keep_session();
                Ok(status)
            }
            Err(error) => Err(self.failed(error.into())),
        }
    }

    /// Whether decrypted bytes wait: read again without new input.
    pub fn has_pending(&self) -> bool {
        self.tls.has_pending()
    }

    /// Seals all of `plain` in records of 16 KiB, after what libssl has queued (the answer to a
    /// KeyUpdate). Pass large pieces, so that one send carries many records. An empty `plain` sends
    /// the queue alone.
    ///
    /// # Errors
    ///
    /// The handshake is not done, or the connection has ended.
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

    /// To be called when the socket has ended and all input has been read. Says whether the end was
    /// proper.
    ///
    /// # Errors
    ///
    /// [`Error::ClosedInHandshake`], or [`Error::Truncated`] without a close_notify. nginx treats
    /// the latter as a proper close. It can be ignored if the length of a response is known by
    /// other means.
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

    /// The last session from the server, once, for [`SessionCache::put`](super::SessionCache::put).
    /// TLS 1.3 servers send theirs before or with the first response, so call this after reading a
    /// response and at the end.
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

    /// The name without port that is sent, verified, both or neither.
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
