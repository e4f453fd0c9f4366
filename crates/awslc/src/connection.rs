//! One TLS connection without a socket.
//!
//! Every call takes the ciphertext received so far as `input`, advances it past what was consumed,
//! and appends ciphertext to `output`. That holds for every result: an alert that explains a
//! failure is in `output` too, and should be sent before the connection is closed.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::panic::resume_unwind;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;

use crate::bio::{self, Transfer};
use crate::cipher::Cipher;
use crate::context::{Context, c_string};
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr, int_length, static_str};
use crate::group::{Group, group_by_id};
use crate::key_operation::KeyProgress;
use crate::large_hello::LargeHello;
use crate::quic::QuicState;
use crate::record;
use crate::session::{Offered, Prefetched, Session};
use crate::transmit::Guard;
use crate::verify::PeerCheck;
use crate::wire_rules::MAX_KEY_UPDATES;

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeStatus {
    /// Finished; application data may flow both ways.
    Done,
    /// Send the output, then call again with more input.
    WantRead,
    /// The handshake is waiting for its private-key operation ([`Connection::take_key_operation`]);
    /// call again with the result.
    Pending,
}

/// Minimum room for a record of unknown size.
const MIN_READ_BYTES: usize = 512;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    /// This many bytes of plaintext. If the target was filled there may be more: read again before
    /// waiting for the peer.
    Data(usize),
    /// Everything received has been consumed.
    WantRead,
    /// The peer closed its side properly (RFC 8446 section 6.1).
    CloseNotify,
}

/// A TLS connection, server or client. It moves between threads by value.
pub struct Connection {
    ssl: NonNull<sys::SSL>,
    /// Owned by `ssl`, which holds it for both directions all its life.
    bio: NonNull<sys::BIO>,
    new_session: Option<Session>,
    signature_scheme: u16,
    sent_finished: bool,
    /// KeyUpdates of the client since the last data in either direction.
    key_updates: u8,
    /// The last read has returned what precedes an error or a close.
    ending: bool,
    pub(crate) large_hello: Option<LargeHello>,
    /// Set on a connection from another process, since libssl does not know the suites.
    client_cipher_suites: Option<Box<[u8]>>,
    /// A session looked up for this handshake; gone once libssl has used it.
    pub(crate) prefetched: Option<Box<Prefetched>>,
    pub(crate) offered: Offered,
    /// The private-key operation of the handshake; gone once libssl has its result.
    pub(crate) key: Option<Box<KeyProgress>>,
    /// The expected identity of the peer, until its certificate has been judged.
    pub(crate) peer: Option<Box<PeerCheck>>,
    /// Set once someone else seals our records: from then on nothing that libssl writes reaches an
    /// output.
    pub(crate) guard: Option<Guard>,
    /// Present on connections for QUIC.
    pub(crate) quic: Option<Box<QuicState>>,
}

// SAFETY: an SSL may be used by any one thread at a time; the error queue, which
// is per thread, is drained within the call that filled it. No `Sync`.
unsafe impl Send for Connection {}

impl Connection {
    /// A server connection with the settings of `context`.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn server(context: &Context) -> Result<Self, Error> {
        let connection = Self::new(context)?;
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_set_accept_state(connection.ssl.as_ptr()) }
        Ok(connection)
    }

    pub(crate) fn client(context: &Context) -> Result<Self, Error> {
        let connection = Self::new(context)?;
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_set_connect_state(connection.ssl.as_ptr()) }
        Ok(connection)
    }

    fn new(context: &Context) -> Result<Self, Error> {
        error::clear_queue();
        // SAFETY: the context is valid; the SSL takes its own reference.
        let ssl = check_ptr("SSL_new", unsafe { sys::SSL_new(context.as_ptr()) })?;
        // SAFETY: it is valid, and owned by nobody else.
        unsafe { Self::adopt(ssl) }
    }

    /// Takes over an SSL and gives it its BIO.
    ///
    /// # Safety
    ///
    /// `ssl` is valid and owned by the caller.
    pub(crate) unsafe fn adopt(ssl: *mut sys::SSL) -> Result<Self, Error> {
        let ssl = NonNull::new(ssl).ok_or_else(|| Error::local("SSL_new", "out of memory"))?;
        let bio = match bio::new_bio() {
            Ok(bio) => bio,
            Err(error) => {
                // SAFETY: owned, and freed once.
                unsafe { sys::SSL_free(ssl.as_ptr()) };
                return Err(error);
            }
        };
        // SAFETY: both are valid; the SSL takes the one reference that there is.
        unsafe {
            sys::SSL_set_bio(ssl.as_ptr(), bio.as_ptr(), bio.as_ptr());
            // The handshake's settings are not needed afterwards, which saves 600 bytes for the
            // life of the connection.
            sys::SSL_set_shed_handshake_config(ssl.as_ptr(), 1);
        }
        Ok(Self {
            ssl,
            bio,
            new_session: None,
            signature_scheme: 0,
            sent_finished: false,
            key_updates: 0,
            ending: false,
            large_hello: None,
            client_cipher_suites: None,
            prefetched: None,
            offered: Offered::Nothing,
            key: None,
            peer: None,
            guard: None,
            quic: None,
        })
    }

    /// Continues the handshake.
    ///
    /// # Errors
    ///
    /// The handshake has failed; `output` may hold an alert for the peer. Every later call fails,
    /// too.
    pub fn do_handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<HandshakeStatus, Error> {
        let has_failed_operation = self.has_failed_key_operation();
        // SAFETY: the SSL is valid and its BIO attached.
        let code = self.call(input, output, |ssl| unsafe { sys::SSL_do_handshake(ssl) });
        if self.quic_alert().is_some() {
            return Err(self.quic_error("SSL_do_handshake"));
        }
        if code == 1 {
            return Ok(HandshakeStatus::Done);
        }
        match self.reason(code) {
            sys::SSL_ERROR_WANT_READ => Ok(HandshakeStatus::WantRead),
            sys::SSL_ERROR_PENDING_SESSION
            | sys::SSL_ERROR_PENDING_TICKET
            | sys::SSL_ERROR_PENDING_CERTIFICATE
            | sys::SSL_ERROR_WANT_PRIVATE_KEY_OPERATION
            | sys::SSL_ERROR_WANT_CERTIFICATE_VERIFY => Ok(HandshakeStatus::Pending),
            sys::SSL_ERROR_EARLY_DATA_REJECTED => {
                self.forget_early_data();
                self.do_handshake(input, output)
            }
            reason => {
                let error = Error::drain_handshake("SSL_do_handshake", reason);
                if has_failed_operation {
                    // libssl sends nothing to the client in this case.
                    self.send_alert(sys::SSL_AD_INTERNAL_ERROR as u8, output);
                }
                Err(error)
            }
        }
    }

    /// Whether the handshake is not finished yet.
    pub fn is_handshaking(&self) -> bool {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_in_init(self.ssl.as_ptr()) != 0 }
    }

    /// Opens records from `input` until `plain` is full or the input used up. Data that precedes an
    /// error or a close is returned first; the next call reports the error or close.
    ///
    /// # Errors
    ///
    /// A record that does not open, or a message that is not allowed; `output` may hold an alert
    /// for the peer. Every later call fails, too.
    pub fn read(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        plain: &mut [u8],
    ) -> Result<ReadStatus, Error> {
        self.check_key_updates()?;
        let mut total = 0;
        while total < plain.len() {
            let target = &mut plain[total..];
            // SAFETY: `target` is writable for its length.
            let piece =
                unsafe { self.read_piece(input, output, target.as_mut_ptr(), target.len()) };
            match piece {
                Ok(count) => total += count,
                Err(code) => return self.read_stopped(code, total),
            }
            if input.is_empty() && !self.has_pending() {
                break;
            }
        }
        Ok(ReadStatus::Data(total))
    }

    /// Opens records from `input` and appends at most `max_bytes` of plaintext to `plain`, which
    /// grows by what arrives, not by `max_bytes`. Otherwise like [`read`](Self::read); `Data` says
    /// how much was appended.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_into(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        max_bytes: usize,
    ) -> Result<ReadStatus, Error> {
        self.check_key_updates()?;
        let mut total = 0;
        while total < max_bytes {
            // SAFETY: the SSL is valid.
            let pending = usize::try_from(unsafe { sys::SSL_pending(self.as_ptr()) }).unwrap_or(0);
            // A record's content is never longer than its encoding, except for the part that libssl
            // already holds. Whatever does not fit is pending afterwards, and its size is known
            // then.
            let expected = match pending {
                0 => input.len().max(MIN_READ_BYTES),
                pending => pending,
            };
            plain.reserve(expected.min(max_bytes - total).min(record::MAX_PLAIN_BYTES));
            let target = plain.spare_capacity_mut();
            let size = target.len().min(max_bytes - total);
            let target = target.as_mut_ptr().cast();
            // SAFETY: `target` is writable for `size` bytes, which libssl does not read.
            let piece = unsafe { self.read_piece(input, output, target, size) };
            match piece {
                Ok(count) => {
                    // SAFETY: libssl has written `count` bytes, at most `size`.
                    unsafe { plain.set_len(plain.len() + count) };
                    total += count;
                }
                Err(code) => return self.read_stopped(code, total),
            }
            if input.is_empty() && !self.has_pending() {
                break;
            }
        }
        Ok(ReadStatus::Data(total))
    }

    /// Opens records until there is plaintext, and writes it to `target`. Returns the number of
    /// bytes, or libssl's return code if there is none.
    ///
    /// # Safety
    ///
    /// `target` must be writable for `size` bytes.
    unsafe fn read_piece(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        target: *mut u8,
        size: usize,
    ) -> Result<usize, c_int> {
        loop {
            let code = self.call(input, output, |ssl| {
                // SAFETY: the caller vouches for `target`, and `ssl` is valid.
                unsafe { sys::SSL_read(ssl, target.cast(), int_length(size)) }
            });
            if let Ok(count @ 1..) = usize::try_from(code) {
                self.forget_key_updates();
                return Ok(count);
            }
            if self.reason(code) != sys::SSL_ERROR_EARLY_DATA_REJECTED {
                return Err(code);
            }
            self.forget_early_data();
        }
    }

    /// Data has passed, so KeyUpdates are counted anew, unless there were already too many.
    pub(crate) fn forget_key_updates(&mut self) {
        if self.key_updates <= MAX_KEY_UPDATES {
            self.key_updates = 0;
        }
    }

    /// Fails once the client has sent too many KeyUpdates. The callback that counts them has sent
    /// the alert.
    fn check_key_updates(&self) -> Result<(), Error> {
        match self.key_updates > MAX_KEY_UPDATES {
            true => Err(Error::of_peer("SSL_read", sys::SSL_R_TOO_MANY_KEY_UPDATES)),
            false => Ok(()),
        }
    }

    /// SSL_read returned `code`; `total` bytes were read before.
    fn read_stopped(&mut self, code: c_int, total: usize) -> Result<ReadStatus, Error> {
        let reason = self.reason(code);
        if total > 0 {
            // libssl reports the end or the error again at the next call.
            error::clear_queue();
            self.ending = reason != sys::SSL_ERROR_WANT_READ || self.check_key_updates().is_err();
            return Ok(ReadStatus::Data(total));
        }
        self.check_key_updates()?;
        match reason {
            sys::SSL_ERROR_WANT_READ => Ok(ReadStatus::WantRead),
            sys::SSL_ERROR_ZERO_RETURN => Ok(ReadStatus::CloseNotify),
            _ => Err(Error::drain("SSL_read")),
        }
    }

    /// Whether the last read has returned the data before an error or a close, which the next one
    /// reports without new input.
    pub fn is_ending(&self) -> bool {
        self.ending
    }

    /// Whether libssl holds decrypted bytes: read again without new input.
    pub fn has_pending(&self) -> bool {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_pending(self.ssl.as_ptr()) > 0 }
    }

    /// Seals all of `plain` into `output` in records of 16 KiB.
    ///
    /// # Errors
    ///
    /// The handshake is not done, or the connection has ended.
    pub fn write(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        self.write_records(plain, record::MAX_PLAIN_BYTES, output)
    }

    /// Seals all of `plain` into `output` in records of at most `record_bytes` plaintext (1 to
    /// 16384), after whatever libssl had queued (tickets, an answer to a KeyUpdate). An empty
    /// `plain` sends only the queue.
    ///
    /// # Errors
    ///
    /// When the handshake is not finished, an alert was sent already, or the write
    /// direction was released ([`release_transmit`](Self::release_transmit)).
    pub fn write_records(
        &mut self,
        plain: &[u8],
        record_bytes: usize,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if self.is_early_data() {
            return self.write_early(plain, record_bytes, output);
        }
        if self.is_handshaking() {
            return Err(Error::local("SSL_write", "the handshake is not finished"));
        }
        if self.is_transmit_released() {
            return Err(Error::local(
                "SSL_write",
                "the kernel seals this connection",
            ));
        }
        // SAFETY: the SSL is valid and its BIO attached.
        let code = self.call(&mut &[][..], output, |ssl| unsafe { record::flush(ssl) });
        if code < 0 {
            let error = Error::drain("SSL_write");
            // The connection was over when the peer's last records had been read, which whoever
            // answers what came before them does not know yet.
            return Err(match self.ending {
                true => error.caused_by_peer(),
                false => error,
            });
        }
        if !plain.is_empty() {
            self.forget_key_updates();
        }
        // SAFETY: the handshake is over and the queue was flushed just now.
        unsafe { record::seal(self.ssl.as_ptr(), plain, record_bytes, output) }
    }

    /// Appends a close_notify, once; does nothing during the handshake or after
    /// an alert.
    pub fn shutdown(&mut self, output: &mut Vec<u8>) {
        // SAFETY: the SSL is valid.
        let sent =
            unsafe { sys::SSL_get_shutdown(self.ssl.as_ptr()) } & sys::SSL_SENT_SHUTDOWN != 0;
        if sent {
            return;
        }
        // SAFETY: the SSL is valid and its BIO attached.
        self.call(&mut &[][..], output, |ssl| unsafe {
            sys::SSL_shutdown(ssl)
        });
        error::clear_queue();
    }

    /// Ends the connection with a fatal alert (RFC 8446 section 6.2).
    pub fn send_alert(&mut self, description: u8, output: &mut Vec<u8>) {
        // SAFETY: the SSL is valid and its BIO attached.
        self.call(&mut &[][..], output, |ssl| unsafe {
            sys::SSL_send_fatal_alert(ssl, description)
        });
        error::clear_queue();
    }

    /// Sends this OCSP response, in DER, with the certificate, if the client asks for one
    /// (RFC 6066 section 8).
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn set_ocsp_response(&mut self, response: &[u8]) -> Result<(), Error> {
        // SAFETY: the SSL is valid; the bytes are copied.
        check("SSL_set_ocsp_response", unsafe {
            sys::SSL_set_ocsp_response(self.ssl.as_ptr(), response.as_ptr(), response.len())
        })
    }

    /// Disables tickets on this connection, in both directions. Call it before the handshake.
    pub fn disable_tickets(&mut self) {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_set_options(self.ssl.as_ptr(), sys::SSL_OP_NO_TICKET as u32) };
    }

    /// Passes in the result of looking up the offered session, so that no callback searches for it
    /// again. Call it before the handshake.
    pub fn set_prefetched(&mut self, prefetched: Prefetched) {
        self.prefetched = Some(Box::new(prefetched));
    }

    /// The outcome of the session that the client offered.
    pub fn offered_session(&self) -> Offered {
        self.offered
    }

    /// Allows only `names` (separated by `:`) in TLS 1.3 on this connection. Call it before the
    /// handshake. This is how to impose the server's order, as libssl follows the client's order
    /// among the allowed suites.
    ///
    /// # Errors
    ///
    /// A name that libssl does not know, or one of TLS 1.2.
    pub fn restrict_tls13(&mut self, names: &str) -> Result<(), Error> {
        let names = c_string("SSL_set_ciphersuites", names)?;
        // SAFETY: the SSL and the string are valid.
        check("SSL_set_ciphersuites", unsafe {
            sys::SSL_set_ciphersuites(self.ssl.as_ptr(), names.as_ptr())
        })
    }

    // ---- what was negotiated ------------------------------------------------

    /// Protocol in OpenSSL's words: `TLSv1.3`.
    pub fn protocol(&self) -> &'static str {
        // SAFETY: the SSL is valid, the name a static string.
        static_str(unsafe { sys::SSL_get_version(self.ssl.as_ptr()) }).unwrap_or("unknown")
    }

    /// The suite, once negotiated.
    pub fn cipher(&self) -> Option<Cipher> {
        // SAFETY: the SSL is valid; suites are constants.
        unsafe { Cipher::from_ptr(sys::SSL_get_current_cipher(self.ssl.as_ptr())) }
    }

    /// The key-exchange group; `None` with static RSA.
    pub fn group(&self) -> Option<Group> {
        // SAFETY: the SSL is valid.
        group_by_id(unsafe { sys::SSL_get_group_id(self.ssl.as_ptr()) })
    }

    /// Whether an earlier session was resumed.
    pub fn is_session_reused(&self) -> bool {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_session_reused(self.ssl.as_ptr()) != 0 }
    }

    /// The id of the session, empty when it has none (with tickets, in TLS 1.3).
    pub fn session_id(&self) -> &[u8] {
        // SAFETY: the session belongs to the SSL and is not replaced while
        // `self` is borrowed.
        unsafe {
            let session = sys::SSL_get_session(self.ssl.as_ptr());
            if session.is_null() {
                return &[];
            }
            let mut length = 0;
            let id = sys::SSL_SESSION_get_id(session, &mut length);
            std::slice::from_raw_parts(id, length as usize)
        }
    }

    /// The server name: as received by a server, as sent by a client.
    pub fn server_name(&self) -> Option<&str> {
        // SAFETY: the name belongs to the SSL and is not replaced while `self`
        // is borrowed.
        unsafe {
            let name = sys::SSL_get_servername(self.ssl.as_ptr(), sys::TLSEXT_NAMETYPE_host_name);
            if name.is_null() {
                return None;
            }
            CStr::from_ptr(name).to_str().ok()
        }
    }

    /// The application protocol, empty when none was negotiated.
    pub fn alpn(&self) -> &[u8] {
        let (mut protocol, mut length) = (ptr::null(), 0);
        // SAFETY: the bytes belong to the SSL and are not replaced while `self`
        // is borrowed.
        unsafe {
            sys::SSL_get0_alpn_selected(self.ssl.as_ptr(), &mut protocol, &mut length);
            if protocol.is_null() {
                return &[];
            }
            std::slice::from_raw_parts(protocol, length as usize)
        }
    }

    /// The suites that the client offered, two bytes each, as sent; empty on a
    /// client or before the ClientHello.
    pub fn client_cipher_suites(&self) -> &[u8] {
        if let Some(suites) = &self.client_cipher_suites {
            return suites;
        }
        let mut suites = ptr::null();
        // SAFETY: the bytes belong to the SSL and are not replaced while `self`
        // is borrowed.
        unsafe {
            let length = sys::SSL_client_hello_get0_ciphers(self.ssl.as_ptr(), &mut suites);
            if length == 0 || suites.is_null() {
                return &[];
            }
            std::slice::from_raw_parts(suites, length)
        }
    }

    /// The scheme (IANA number) of the server's handshake signature: recorded by a server whose
    /// context asks for it, remembered by libssl in a client. `None` if nothing was signed
    /// (resumption, static RSA) or no scheme is named (TLS 1.1 and below).
    pub fn signature_scheme(&self) -> Option<u16> {
        // SAFETY: the SSL is valid. What a server has of its peer is the client's scheme.
        let scheme = unsafe {
            match self.signature_scheme {
                0 if sys::SSL_is_server(self.ssl.as_ptr()) == 0 => {
                    sys::SSL_get_peer_signature_algorithm(self.ssl.as_ptr())
                }
                noted => noted,
            }
        };
        (scheme != 0).then_some(scheme)
    }

    /// The name of a signature scheme: `rsa_pss_rsae_sha256`.
    pub fn signature_scheme_name(scheme: u16) -> Option<&'static str> {
        // SAFETY: returns null or a static string for any number.
        static_str(unsafe { sys::SSL_get_signature_algorithm_name(scheme, 1) })
    }

    /// Sets the result of [`signature_scheme`](Self::signature_scheme); 0 means none.
    pub(crate) fn set_signature_scheme(&mut self, scheme: u16) {
        self.signature_scheme = scheme;
    }

    /// Sets the result of [`client_cipher_suites`](Self::client_cipher_suites).
    pub(crate) fn set_client_cipher_suites(&mut self, suites: &[u8]) {
        self.client_cipher_suites = (!suites.is_empty()).then(|| suites.into());
    }

    /// The last session that a client received from its peer, once.
    pub(crate) fn take_new_session(&mut self) -> Option<Session> {
        self.new_session.take()
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::SSL {
        self.ssl.as_ptr()
    }

    /// Runs one call of libssl with the caller's buffers attached.
    pub(crate) fn call(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        run: impl FnOnce(*mut sys::SSL) -> c_int,
    ) -> c_int {
        let mut transfer = Transfer::new(input, output, &mut self.key);
        transfer.sent_finished = self.sent_finished;
        transfer.key_updates = self.key_updates;
        transfer.large_hello = self.large_hello;
        transfer.guard = self.guard.as_mut();
        transfer.prefetched = self.prefetched.as_deref();
        transfer.peer = self.peer.as_deref_mut();
        transfer.quic = self.quic.as_deref_mut();
        let pointer = &raw mut transfer;
        // SAFETY: the BIO is valid. The transfer outlives the call, during which
        // only callbacks touch it, and is detached before it goes.
        let code = unsafe {
            sys::BIO_set_data(self.bio.as_ptr(), pointer.cast());
            let code = run(self.ssl.as_ptr());
            sys::BIO_set_data(self.bio.as_ptr(), ptr::null_mut());
            code
        };
        let Transfer {
            input: rest,
            signature_scheme,
            sent_finished,
            key_updates,
            new_session,
            offered,
            panic,
            ..
        } = transfer;
        *input = &input[input.len() - rest.len()..];
        self.sent_finished = sent_finished;
        self.key_updates = key_updates;
        if signature_scheme != 0 {
            self.signature_scheme = signature_scheme;
        }
        if new_session.is_some() {
            self.new_session = new_session;
        }
        if offered != Offered::Nothing {
            self.offered = offered;
            self.prefetched = None;
        }
        if let Some(panic) = panic {
            error::clear_queue();
            resume_unwind(panic);
        }
        code
    }

    fn reason(&self, code: c_int) -> c_int {
        // SAFETY: the SSL is valid, and this is the thread that made the call.
        unsafe { sys::SSL_get_error(self.ssl.as_ptr(), code) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once, together with its BIO.
        unsafe { sys::SSL_free(self.ssl.as_ptr()) }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Connection({}, handshaking: {})",
            self.protocol(),
            self.is_handshaking()
        )
    }
}
