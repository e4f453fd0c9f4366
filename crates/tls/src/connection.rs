//! A server connection, from its first byte.
//!
//! ```text
//! Hello --(ClientHello complete, server chosen)--> Running --> Running ...
//!   |  \                                           ^ ^ |  ^ |
//!   |   +--(look-up due)--> Waiting --(answered)---+ | |  | |
//!   |                        Away <--(to the pool)---|-+  | |
//!   |                          +-----(landed)--------+    | |
//!   |                      Signing <--(job queued)--------|-+
//!   |                          +-----(job done)-----------+
//!   +--(rejected)--> Closed
//! ```
//!
//! While in `Hello` the connection holds at most the fragments of a ClientHello;
//! libssl's memory is taken when the server is known.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sealane_awslc as awslc;
use sealane_awslc::{HandshakeStatus, ReadStatus, Secret};

use crate::accelerator::PendingJob;
use crate::acceptor::Acceptor;
use crate::client_certificates::ClientChain;
use crate::client_hello::ClientOffer;
use crate::ech::EchOutcome;
use crate::error::Error;
use crate::hello_records::{HelloRecords, LargeHello};
use crate::identities::{Identities, IdentityResult};
use crate::info::Info;
use crate::ktls::{KeysEnded, Ktls, Sealing};
use crate::offload::Load;
use crate::offload::flight::FlightHandle;
use crate::record_size::RecordSizer;
use crate::record_writer::RecordWriter;
use crate::server::{SentCertificate, ServerTls};
use crate::sessions::lookup::Lookup;
use crate::sessions::outcome::SessionOutcome;
use crate::sessions::stats::{EarlyVerdict, Missed, Resumed};

mod handshake;
mod pack;
mod quic;
mod sans_io;

use quic::QuicHandshake;
pub(crate) use quic::QuicProgress;

/// A TLS connection accepted by a listener. It moves between threads by value.
///
/// Every call takes the bytes received as `input`, advances it past what was
/// consumed and appends what must be sent to `output`, also on errors: send the
/// output before closing.
pub struct Connection {
    state: ConnectionState,
    server: Option<Arc<ServerTls>>,
    token: u32,
    /// Which of the server's certificates the client gets.
    certificate: SentCertificate,
    /// See [`queue_time`](Self::queue_time).
    queue_time_us: u32,
    sizer: RecordSizer,
    client_offer: Option<Box<ClientOffer>>,
    ech: EchOutcome,
    session: SessionOutcome,
    ktls: Sealing,
    /// In place once our own code seals the records instead of libssl.
    writer: Option<Box<RecordWriter>>,
    /// Present over QUIC, until the handshake is over.
    quic: Option<Box<QuicHandshake>>,
}

/// Who has libssl's connection; drawn with the states around it in the server's
/// `connection/handshake.rs`.
enum ConnectionState {
    Hello {
        acceptor: Acceptor,
        records: HelloRecords,
    },
    /// The certificates are being found, or the store of all nodes was asked about the session or
    /// the early data.
    Waiting(Box<Waiting>),
    Running(awslc::Connection),
    /// The handshake goes on in the pool.
    Away(FlightHandle),
    /// An accelerator has the private-key operation.
    Signing(Box<Signing>),
    Closed,
}

/// A handshake that waits on the worker for its private-key operation.
struct Signing {
    tls: awslc::Connection,
    job: PendingJob,
    /// Whether the operation succeeded, once it is known.
    result: Option<Option<Secret>>,
}

/// A ClientHello that libssl will read once an answer has come.
struct Waiting {
    /// Its records.
    hello: Vec<u8>,
    /// The message inside of it, if it is an encrypted one.
    inner: Option<Vec<u8>>,
    server: Arc<ServerTls>,
    question: Question,
    /// Its place, if it is a large one.
    large: Option<LargeHello>,
}

/// What is being found out.
enum Question {
    /// What the transport wants to tell the client, now that the server is chosen.
    Parameters(Acceptor),
    /// Which certificates there are.
    Identities(AwaitedIdentities),
    /// What the store knows.
    Session(Arc<Identities>, Lookup),
}

/// Certificates that are being found.
enum AwaitedIdentities {
    Asked(Pin<Box<dyn Future<Output = IdentityResult> + Send>>),
    Answered(IdentityResult),
}

impl Question {
    fn is_answered(&self) -> bool {
        match self {
            Self::Parameters(_) => true,
            Self::Identities(awaited) => matches!(awaited, AwaitedIdentities::Answered(_)),
            Self::Session(_, lookup) => lookup.is_answered(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Parameters(_) => Poll::Ready(()),
            Self::Session(_, lookup) => lookup.poll(cx),
            Self::Identities(awaited) => {
                let AwaitedIdentities::Asked(future) = awaited else {
                    return Poll::Ready(());
                };
                let answer = ready!(future.as_mut().poll(cx));
                *awaited = AwaitedIdentities::Answered(answer);
                Poll::Ready(())
            }
        }
    }
}

impl Connection {
    /// A connection just accepted.
    pub fn accept(acceptor: &Acceptor) -> Self {
        Self {
            state: ConnectionState::Hello {
                acceptor: acceptor.clone(),
                records: HelloRecords::default(),
            },
            server: None,
            token: 0,
            certificate: SentCertificate::Undecided,
            queue_time_us: 0,
            sizer: RecordSizer::default(),
            client_offer: None,
            ech: EchOutcome::NotTried,
            session: SessionOutcome::default(),
            ktls: Sealing::Pending,
            writer: None,
            quic: None,
        }
    }

    /// Goes on with the handshake. After [`HandshakeStatus::Done`] `input` may
    /// hold the first request already. TLS 1.3 tickets are queued then and leave
    /// with the first [`write`](Self::write), in the same send as the response.
    ///
    /// [`HandshakeStatus::Pending`]: certificates are being found, the store of all nodes was
    /// asked, the handshake has left for the pool, or an accelerator has its private-key operation.
    /// Wait with [`poll_pending`](Self::poll_pending), for the store no longer than
    /// [`lookup_timeout`](Self::lookup_timeout), then call again, with what input
    /// there is or none. `load` is what decides, with `ssl_async`, whether it leaves.
    ///
    /// Also done is a handshake that reads early data: see
    /// [`is_early_data`](Self::is_early_data).
    ///
    /// # Errors
    ///
    /// The handshake has failed; `output` may hold an alert for the client. Every later call fails,
    /// too.
    pub fn handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<HandshakeStatus, Error> {
        loop {
            match &mut self.state {
                ConnectionState::Running(_) => return self.advance(input, output, load),
                ConnectionState::Away(flight) => {
                    return match flight.take() {
                        None => Ok(HandshakeStatus::Pending),
                        Some(landed) => self.land(landed, output),
                    };
                }
                ConnectionState::Signing(signing) => {
                    if signing.result.is_none() {
                        signing.result = signing.job.try_take();
                    }
                    if signing.result.is_none() {
                        return Ok(HandshakeStatus::Pending);
                    }
                    self.signed();
                }
                ConnectionState::Closed => return Err(Error::NotEstablished),
                ConnectionState::Waiting(waiting) => {
                    if !waiting.question.is_answered() {
                        return Ok(HandshakeStatus::Pending);
                    }
                    if self.go_on(output, load)? == HandshakeStatus::Pending {
                        return Ok(HandshakeStatus::Pending);
                    }
                }
                ConnectionState::Hello { .. } => {
                    if let Some(status) = self.hello(input, output, load)? {
                        return Ok(status);
                    }
                }
            }
        }
    }

    /// Waits for whatever made the handshake [`HandshakeStatus::Pending`]. Ready at once
    /// when nothing did.
    pub fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            ConnectionState::Waiting(waiting) => waiting.question.poll(cx),
            ConnectionState::Away(flight) => flight.poll_landed(cx),
            ConnectionState::Signing(signing) if signing.result.is_none() => signing
                .job
                .poll(cx)
                .map(|result| signing.result = Some(result)),
            _ => Poll::Ready(()),
        }
    }

    /// The longest that this handshake may wait for the store, in all: one timer
    /// from the first [`HandshakeStatus::Pending`] on. `None` when it does not wait for
    /// the store.
    pub fn lookup_timeout(&self) -> Option<Duration> {
        match &self.state {
            ConnectionState::Waiting(waiting) => match &waiting.question {
                Question::Session(_, lookup) => Some(lookup.timeout()),
                Question::Parameters(_) | Question::Identities(_) => None,
            },
            _ => None,
        }
    }

    /// How long the handshake has waited for a thread of the pool and for its turn in an
    /// accelerator.
    pub fn queue_time(&self) -> Duration {
        Duration::from_micros(self.queue_time_us.into())
    }

    /// Refuses the handshake as there is too much to do: a fatal alert (`internal_error`) is
    /// appended to `output`, and nothing else is done for it.
    pub fn refuse(&mut self, output: &mut Vec<u8>) -> Error {
        output.extend_from_slice(&fatal_alert(Error::Overloaded.alert()));
        self.state = ConnectionState::Closed;
        Error::Overloaded
    }

    /// Waits no longer: the handshake goes on as if nothing had been found, and
    /// without early data.
    pub fn lookup_timed_out(&mut self) {
        if let ConnectionState::Waiting(waiting) = &mut self.state
            && let Question::Session(_, lookup) = &mut waiting.question
        {
            lookup.time_out();
        }
    }

    /// Whether what [`read`](Self::read) gives is early data (0-RTT), which someone
    /// may have recorded and sent again elsewhere: until the client's Finished has been
    /// read. What is written meanwhile goes out at once (0.5-RTT).
    pub fn is_early_data(&self) -> bool {
        matches!(&self.state, ConnectionState::Running(tls) if tls.is_early_data())
    }

    /// How the session was resumed, once the handshake is done.
    pub fn resumed(&self) -> Option<Resumed> {
        self.session.resumed()
    }

    /// Why the session that the client offered was not resumed, once the handshake
    /// is done; `None` also when it offered none.
    pub fn missed(&self) -> Option<Missed> {
        self.session.missed()
    }

    /// What became of early data; `None` when none was offered, or the server
    /// takes none.
    pub fn early_verdict(&self) -> Option<EarlyVerdict> {
        self.session.early_verdict()
    }

    /// Opens records until `plain` is full or the input used up. When `plain` was
    /// filled, read again before waiting for the peer.
    ///
    /// # Errors
    ///
    /// A record that does not open, or a message that is not allowed; `output` may hold an alert
    /// for the client. Every later call fails, too.
    pub fn read(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        plain: &mut [u8],
    ) -> Result<ReadStatus, Error> {
        let status = self.running()?.read(input, output, plain);
        if let (Some(writer), ConnectionState::Running(tls)) = (&mut self.writer, &mut self.state) {
            writer.control(tls, false, output)?;
        }
        Ok(status?)
    }

    /// Whether the last read has returned the data before an error or a close, which the next one
    /// reports without new input.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(&self.state, ConnectionState::Running(tls) if tls.is_ending())
    }

    /// Whether decrypted bytes wait: read again without new input.
    pub fn has_pending(&self) -> bool {
        matches!(&self.state, ConnectionState::Running(tls) if tls.has_pending())
    }

    /// Seals all of `plain` in records of `ssl_buffer_size`, or of dynamic sizes;
    /// `now_ms` (milliseconds of a clock that only goes forward) is used for
    /// those only. Give large pieces: many records then go out in one send.
    /// Empty `plain` sends what libssl has queued.
    ///
    /// # Errors
    ///
    /// The handshake is not done, or the connection has ended.
    pub fn write(&mut self, plain: &[u8], now_ms: u64, output: &mut Vec<u8>) -> Result<(), Error> {
        let ConnectionState::Running(tls) = &mut self.state else {
            return Err(Error::NotEstablished);
        };
        let Some(server) = &self.server else {
            return Err(Error::NotEstablished);
        };
        let full = server.record_bytes();
        if self.writer.is_none() && RecordWriter::pays(tls, plain.len()) {
            // What libssl has queued is sealed by libssl and comes first.
            tls.write_records(&[], full, output)?;
            self.writer = RecordWriter::take(tls).map(Box::new);
        }
        if let Some(writer) = &mut self.writer {
            writer.control(tls, true, output)?;
        }
        let mut seal = |plain: &[u8], record_bytes: usize| match &mut self.writer {
            Some(writer) => writer.write(plain, record_bytes, output),
            None => Ok(tls.write_records(plain, record_bytes, output)?),
        };
        let Some(dynamic) = server.dynamic_records() else {
            return seal(plain, full);
        };
        self.sizer.begin_write(dynamic, now_ms);
        let mut rest = plain;
        loop {
            let run = self.sizer.next_run(dynamic, full);
            let count = run.record_bytes.saturating_mul(run.records).min(rest.len());
            let (now, later) = rest.split_at(count);
            seal(now, run.record_bytes)?;
            self.sizer.sent(now.len().div_ceil(run.record_bytes));
            rest = later;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Appends a close_notify, once. Does nothing before the handshake is done or
    /// after an alert.
    pub fn shutdown(&mut self, output: &mut Vec<u8>) {
        if let ConnectionState::Running(tls) = &mut self.state {
            tls.shutdown(output);
            if let Some(writer) = &mut self.writer {
                // Alerts do not turn the key, which is all that can fail.
                let _ = writer.control(tls, false, output);
            }
        }
    }

    /// Whether the handshake is over. Early data flows before.
    pub fn is_established(&self) -> bool {
        matches!(&self.state, ConnectionState::Running(tls) if !tls.is_handshaking())
    }

    /// What was negotiated; `None` before a server was chosen.
    pub fn info(&self) -> Option<Info<'_>> {
        match &self.state {
            ConnectionState::Running(tls) => {
                let offer = self.client_offer.as_deref();
                let certificate = &self.certificate;
                Some(Info::new(tls, offer, &self.ech, self.session, certificate))
            }
            _ => None,
        }
    }

    /// The certificates of the client, once the handshake is done or early data is read:
    /// what it has shown now or, with a resumed session, then. `None` when it has shown
    /// none.
    pub fn client_chain(&self) -> Option<ClientChain> {
        match &self.state {
            ConnectionState::Running(tls) => ClientChain::of(tls),
            _ => None,
        }
    }

    /// The token that [`SelectServer`](crate::SelectServer) gave; 0 before.
    pub fn selected_token(&self) -> u32 {
        self.token
    }

    /// The server chosen, also if it has rejected the handshake; `None` before.
    pub fn server(&self) -> Option<&Arc<ServerTls>> {
        self.server.as_ref()
    }

    /// Who seals the records.
    pub fn ktls(&self) -> Ktls<'_> {
        self.ktls.state()
    }

    /// Makes the checks that the end of the handshake allows. Returns whether the kernel
    /// should take over at once (`ssl_ktls on`). While early data is read it
    /// decides nothing: ask again when [`is_established`](Self::is_established). What is
    /// decided stays.
    pub fn settle_ktls(&mut self, is_tcp: bool) -> bool {
        let (ConnectionState::Running(tls), Some(server)) = (&self.state, &self.server) else {
            return false;
        };
        !tls.is_handshaking() && self.ktls.settle(server.ktls_policy(), tls, is_tcp)
    }

    /// Whether the kernel should take over now that `file_bytes` of a file are to
    /// be sent.
    pub fn wants_kernel(&self, file_bytes: u64) -> bool {
        let Some(server) = &self.server else {
            return false;
        };
        self.is_established() && self.ktls.wants_kernel(server.ktls_policy(), file_bytes)
    }

    /// Hands the write direction to the kernel. An empty [`write`](Self::write)
    /// came just before and all output has been sent. If it fails, libssl goes on
    /// and [`ktls`](Self::ktls) says why.
    pub fn take_over(&mut self, socket: BorrowedFd<'_>) {
        let (ConnectionState::Running(tls), Some(server)) = (&mut self.state, &self.server) else {
            return;
        };
        let writer = self.writer.as_deref_mut();
        self.ktls
            .take_over(server.ktls_policy(), tls, writer, socket);
        if self.is_sealed_by_kernel() {
            self.writer = None;
        }
    }

    /// Whether the kernel seals the records. What is sent through the socket then
    /// is plaintext; [`write`](Self::write) is refused.
    pub fn is_sealed_by_kernel(&self) -> bool {
        self.ktls.is_on()
    }

    /// Sends alerts and, with `data_follows`, what must precede data: a KeyUpdate.
    /// Does nothing while libssl seals. `Some` says why the connection had to end.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: call again when the socket is writable.
    pub fn send_control(
        &mut self,
        socket: BorrowedFd<'_>,
        data_follows: bool,
    ) -> io::Result<Option<KeysEnded>> {
        match &mut self.state {
            ConnectionState::Running(tls) => self.ktls.send_control(tls, socket, data_follows),
            _ => Ok(None),
        }
    }

    /// Counts plaintext that the kernel has taken in one call, for the limit per key.
    pub fn sent_by_kernel(&mut self, bytes: u64) {
        self.ktls.sent_by_kernel(bytes);
    }

    /// How many bytes the kernel may be given before [`send_control`](Self::send_control)
    /// is called again.
    pub fn kernel_allowance_bytes(&self) -> u64 {
        self.ktls.allowance_bytes()
    }

    /// Whether the response that begins should be the last of this connection:
    /// its key has sealed half of what it may, and cannot be changed.
    pub fn should_end(&self) -> bool {
        self.ktls.should_end()
    }

    fn running(&mut self) -> Result<&mut awslc::Connection, Error> {
        match &mut self.state {
            ConnectionState::Running(tls) => Ok(tls),
            _ => Err(Error::NotEstablished),
        }
    }
}

/// A fatal alert in a plaintext record (RFC 8446 section 6.2): there is no libssl
/// connection yet that could write it.
const fn fatal_alert(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            ConnectionState::Hello { records, .. } => {
                write!(f, "Connection(hello, {} bytes)", records.len())
            }
            ConnectionState::Waiting(waiting) => match &waiting.question {
                Question::Session(_, lookup) => write!(f, "Connection({lookup:?})"),
                Question::Parameters(_) => f.write_str("Connection(awaiting parameters)"),
                Question::Identities(_) => f.write_str("Connection(finding certificates)"),
            },
            ConnectionState::Running(tls) => tls.fmt(f),
            ConnectionState::Away(flight) => write!(f, "Connection({flight:?})"),
            ConnectionState::Signing(signing) => write!(f, "Connection({:?})", signing.job),
            ConnectionState::Closed => f.write_str("Connection(closed)"),
        }
    }
}
