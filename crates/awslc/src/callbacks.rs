//! Every function that libssl calls.
//!
//! A panic must not cross C. Each function catches it, leaves it in the [`Transfer`] of the running
//! call and reports failure to libssl. [`crate::Connection`] resumes the panic once libssl has
//! returned.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::slice;

use aws_lc_sys as sys;

use crate::bio::Transfer;
use crate::certificate_compression::CertificateCompression;
use crate::context::Hooks;
use crate::key_operation::{KeyOperation, KeyProgress};
use crate::peer;
use crate::secret::Secret;
use crate::session::{Miss, Offered, Session, TicketOpened};
use crate::session_facts::SessionFacts;
use crate::time::unix_time_s;
use crate::verify::VerifyFailure;
use crate::wire_rules;

pub(crate) mod ech;
#[cfg(debug_assertions)]
pub(crate) mod key_log;
pub(crate) mod quic;

/// The table for `SSL_CTX_set_ticket_aead_method`.
pub(crate) static TICKET_METHOD: sys::SSL_TICKET_AEAD_METHOD = sys::SSL_TICKET_AEAD_METHOD {
    max_overhead: Some(ticket_overhead),
    seal: Some(ticket_seal),
    open: Some(ticket_open),
};

/// The table for contexts whose private key is not in libssl.
pub(crate) static KEY_METHOD: sys::SSL_PRIVATE_KEY_METHOD = sys::SSL_PRIVATE_KEY_METHOD {
    sign: Some(key_sign),
    decrypt: Some(key_decrypt),
    complete: Some(key_complete),
};

// ---- the BIO -------------------------------------------------------------

/// Passes input of the caller to libssl, or asks it to come back with more.
pub(crate) unsafe extern "C" fn bio_read(
    bio: *mut sys::BIO,
    data: *mut c_char,
    size: c_int,
) -> c_int {
    // SAFETY: libssl passes our BIO, whose data is null or the transfer of the
    // running call, and `size` writable bytes.
    unsafe {
        sys::BIO_clear_retry_flags(bio);
        let (Some(transfer), Ok(size)) = (transfer_of(bio), usize::try_from(size)) else {
            return -1;
        };
        if transfer.input.is_empty() || size == 0 {
            sys::BIO_set_retry_read(bio);
            return -1;
        }
        let count = transfer.take(slice::from_raw_parts_mut(data.cast::<u8>(), size));
        // At most `size`, which came from a c_int.
        count as c_int
    }
}

/// Appends libssl's output to the caller's output, or drops it behind the guard.
pub(crate) unsafe extern "C" fn bio_write(
    bio: *mut sys::BIO,
    data: *const c_char,
    size: c_int,
) -> c_int {
    // SAFETY: as in `bio_read`; `data` has `size` readable bytes.
    unsafe {
        sys::BIO_clear_retry_flags(bio);
        let (Some(transfer), Ok(count)) = (transfer_of(bio), usize::try_from(size)) else {
            return -1;
        };
        if transfer.guard.is_some() {
            return size; // sealed with keys that are no longer libssl's to use
        }
        let bytes = slice::from_raw_parts(data.cast::<u8>(), count);
        let output = &mut *transfer.output;
        match catch_unwind(AssertUnwindSafe(|| output.extend_from_slice(bytes))) {
            Ok(()) => size,
            Err(panic) => {
                transfer.panic = Some(panic);
                -1
            }
        }
    }
}

/// Flushing succeeds; everything else is unsupported.
pub(crate) unsafe extern "C" fn bio_ctrl(
    _bio: *mut sys::BIO,
    command: c_int,
    _number: c_long,
    _pointer: *mut c_void,
) -> c_long {
    c_long::from(command == sys::BIO_CTRL_FLUSH)
}

// ---- the handshake ---------------------------------------------------------

/// Observes what a server reads and writes. Records the scheme of its handshake signature, which
/// libssl discards with the rest of the handshake's state, and alerts that are written behind the
/// guard, for whoever seals now. Applies [`wire_rules`] and lets large hellos pass.
pub(crate) unsafe extern "C" fn message(
    is_write: c_int,
    version: c_int,
    content_type: c_int,
    data: *const c_void,
    length: usize,
    ssl: *mut sys::SSL,
    _argument: *mut c_void,
) {
    if data.is_null() {
        return;
    }
    // SAFETY: `data` has `length` readable bytes for the time of the call, which is made by
    // libssl for this SSL, whose BIO is ours.
    unsafe {
        let bytes = slice::from_raw_parts(data.cast::<u8>(), length);
        match (is_write != 0, content_type) {
            (true, sys::SSL3_RT_ALERT) => note_alert(ssl, bytes),
            (true, sys::SSL3_RT_HANDSHAKE) => note_written(ssl, version, bytes),
            (false, sys::SSL3_RT_HEADER) => judge_record(ssl, bytes),
            (false, sys::SSL3_RT_HANDSHAKE) => judge_message(ssl, version, bytes),
            _ => {}
        }
    }
}

/// # Safety
///
/// `ssl` is valid and its BIO ours.
unsafe fn note_alert(ssl: *mut sys::SSL, bytes: &[u8]) {
    // SAFETY: by the caller's promise.
    let transfer = unsafe { transfer_of(sys::SSL_get_wbio(ssl)) };
    if let Ok(alert) = bytes.try_into()
        && let Some(guard) = transfer.and_then(|transfer| transfer.guard.as_deref_mut())
    {
        guard.note_alert(alert);
    }
}

/// # Safety
///
/// As [`note_alert`].
unsafe fn note_written(ssl: *mut sys::SSL, version: c_int, message: &[u8]) {
    // SAFETY: by the caller's promise.
    let Some(transfer) = (unsafe { transfer_of(sys::SSL_get_wbio(ssl)) }) else {
        return;
    };
    if let Some(scheme) = signature_scheme(version, message) {
        transfer.signature_scheme = scheme;
    }
    let is_finished = message.first().copied().map(c_int::from) == Some(sys::SSL3_MT_FINISHED);
    transfer.sent_finished |= is_finished && version == sys::TLS1_3_VERSION;
    if let Some(large) = transfer.large_hello
        && wire_rules::is_hello_retry_request(message)
    {
        // SAFETY: by the caller's promise; the hello that follows is as large.
        unsafe { large.expect(ssl) }
    }
}

/// # Safety
///
/// As [`note_alert`].
unsafe fn judge_record(ssl: *mut sys::SSL, header: &[u8]) {
    // SAFETY: by the caller's promise. No transfer is borrowed while the alert is written.
    unsafe {
        let sent_finished =
            transfer_of(sys::SSL_get_wbio(ssl)).is_some_and(|transfer| transfer.sent_finished);
        let is_handshaking = sys::SSL_in_init(ssl) != 0 || sys::SSL_in_early_data(ssl) != 0;
        let is_keyed = match is_handshaking {
            true => sent_finished,
            false => sys::SSL_version(ssl) == sys::TLS1_3_VERSION,
        };
        let Ok(header) = header.try_into() else {
            return;
        };
        let alert = match is_keyed {
            true => wire_rules::record_alert(header, is_handshaking),
            false if is_handshaking => wire_rules::plain_record_alert(header),
            false => None,
        };
        if let Some(alert) = alert {
            sys::SSL_send_fatal_alert(ssl, alert as u8);
        }
    }
}

/// # Safety
///
/// As [`note_alert`].
unsafe fn judge_message(ssl: *mut sys::SSL, version: c_int, message: &[u8]) {
    // SAFETY: by the caller's promise. No transfer is borrowed while the alert is written.
    unsafe {
        if message.first().copied().map(c_int::from) == Some(sys::SSL3_MT_CLIENT_HELLO) {
            let transfer = transfer_of(sys::SSL_get_wbio(ssl));
            if let Some(large) = transfer.and_then(|transfer| transfer.large_hello) {
                large.received(ssl);
            }
            return;
        }
        if version != sys::TLS1_3_VERSION {
            return;
        }
        if wire_rules::is_key_update(message)
            && let Some(transfer) = transfer_of(sys::SSL_get_rbio(ssl))
        {
            transfer.key_updates = transfer.key_updates.saturating_add(1);
            if transfer.key_updates > wire_rules::MAX_KEY_UPDATES {
                // The connection ends here (`Connection::read`): the rest is not examined.
                transfer.input = &[];
                sys::SSL_send_fatal_alert(ssl, sys::SSL_AD_UNEXPECTED_MESSAGE as u8);
                return;
            }
        }
        let cipher = sys::SSL_get_pending_cipher(ssl);
        let digest_bytes = match cipher.is_null() {
            true => None,
            false => Some(sys::EVP_MD_size(sys::SSL_CIPHER_get_handshake_digest(
                cipher,
            ))),
        };
        if let Some(alert) = wire_rules::message_alert(message, digest_bytes) {
            sys::SSL_send_fatal_alert(ssl, alert as u8);
        }
    }
}

/// The scheme in a CertificateVerify (RFC 8446 section 4.4.3) or, in TLS 1.2,
/// in an elliptic-curve ServerKeyExchange (RFC 8422 section 5.4).
fn signature_scheme(version: c_int, message: &[u8]) -> Option<u16> {
    let body = message.get(4..)?;
    let at = match (c_int::from(*message.first()?), version) {
        (sys::SSL3_MT_CERTIFICATE_VERIFY, _) => 0,
        (sys::SSL3_MT_SERVER_KEY_EXCHANGE, sys::TLS1_2_VERSION) => 4 + usize::from(*body.get(3)?),
        _ => return None,
    };
    let bytes = body.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Chooses an application protocol in the server's order (RFC 7301). Without a
/// common one the handshake ends with `no_application_protocol`, as in nginx.
pub(crate) unsafe extern "C" fn alpn_select(
    ssl: *mut sys::SSL,
    out: *mut *const u8,
    out_length: *mut u8,
    offered: *const u8,
    offered_length: c_uint,
    _argument: *mut c_void,
) -> c_int {
    // SAFETY: libssl passes `offered_length` readable bytes and two writable
    // pointers; the hooks live as long as the SSL_CTX that the SSL holds.
    unsafe {
        let Some(hooks) = hooks_of(ssl) else {
            return sys::SSL_TLSEXT_ERR_NOACK;
        };
        let offered = slice::from_raw_parts(offered, offered_length as usize);
        let is_quic =
            transfer_of(sys::SSL_get_wbio(ssl)).is_some_and(|transfer| transfer.quic.is_some());
        let ours = match is_quic {
            true => &hooks.quic_alpn,
            // QUIC alone has protocols.
            false if hooks.alpn.is_empty() => return sys::SSL_TLSEXT_ERR_NOACK,
            false => &hooks.alpn,
        };
        for protocol in ours {
            if protocols(offered).any(|name| name == &**protocol) {
                *out = protocol.as_ptr();
                // Checked to fit when the context was built.
                *out_length = protocol.len() as u8;
                return sys::SSL_TLSEXT_ERR_OK;
            }
        }
        sys::SSL_TLSEXT_ERR_ALERT_FATAL
    }
}

/// The names in an ALPN list, each preceded by a length byte.
fn protocols(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&length, rest) = list.split_first()?;
        let name = rest.get(..usize::from(length))?;
        list = &rest[name.len()..];
        Some(name)
    })
}

/// Compresses a Certificate message with the algorithm of this number.
pub(crate) unsafe extern "C" fn compress_certificate<const ALGORITHM: u16>(
    ssl: *mut sys::SSL,
    out: *mut sys::CBB,
    message: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: libssl passes its SSL, whose context has our hooks, `length` readable bytes and a
    // buffer to append to.
    unsafe {
        let compressor = hooks_of(ssl).and_then(|hooks| hooks.compressor.as_ref());
        let algorithm = CertificateCompression::from_wire(ALGORITHM);
        let (Some(compressor), Some(algorithm)) = (compressor, algorithm) else {
            return 0;
        };
        let message = slice::from_raw_parts(message, length);
        let mut append = |bytes: &[u8]| sys::CBB_add_bytes(out, bytes.as_ptr(), bytes.len()) == 1;
        let work = || compressor.compress(algorithm, message, &mut append);
        c_int::from(guarded(ssl, false, work))
    }
}

// ---- sessions --------------------------------------------------------------

/// A session was established: the server stores it, the client keeps it for its caller. Returns 1
/// if it took over the reference.
pub(crate) unsafe extern "C" fn new_session(
    ssl: *mut sys::SSL,
    session: *mut sys::SSL_SESSION,
) -> c_int {
    // SAFETY: both pointers are valid for the call; returning 1 takes the
    // reference over, returning 0 leaves it, so the wrapper is forgotten then.
    unsafe {
        let (Some(hooks), Some(pointer)) = (hooks_of(ssl), NonNull::new(session)) else {
            return 0;
        };
        let session = Session::from_owned(pointer);
        if sys::SSL_is_server(ssl) == 0 {
            let Some(transfer) = transfer_of(sys::SSL_get_wbio(ssl)) else {
                std::mem::forget(session);
                return 0;
            };
            transfer.new_session = Some(session);
            return 1;
        }
        guarded(ssl, (), || {
            if let Some(store) = &hooks.sessions
                && !session.id().is_empty()
                && !session.has_ticket()
                && let Ok(bytes) = session.to_bytes()
            {
                let expires_s = session.made_s() + u64::from(session.timeout_s());
                store.insert(session.id(), Secret::new(bytes), expires_s, unix_time_s());
            }
        });
        std::mem::forget(session);
        0
    }
}

/// Looks up a session id of TLS 1.2 or below. The returned reference belongs to libssl (`out_copy`
/// = 0).
pub(crate) unsafe extern "C" fn get_session(
    ssl: *mut sys::SSL,
    id: *const u8,
    id_length: c_int,
    out_copy: *mut c_int,
) -> *mut sys::SSL_SESSION {
    // SAFETY: libssl passes `id_length` readable bytes and a writable int.
    unsafe {
        *out_copy = 0;
        let (Some(hooks), Ok(id_length)) = (hooks_of(ssl), usize::try_from(id_length)) else {
            return ptr::null_mut();
        };
        let id = slice::from_raw_parts(id, id_length);
        let (found, offered) = guarded(ssl, (None, Offered::Nothing), || {
            match find_session(ssl, hooks, id) {
                Ok(session) => (Some(session), Offered::SessionId),
                Err(miss) => (None, Offered::Missed(miss)),
            }
        });
        note_offered(ssl, offered);
        found.map_or(ptr::null_mut(), Session::into_ptr)
    }
}

/// The session with this id, if it fits this server.
///
/// # Safety
///
/// `ssl` is valid and its BIO is ours.
unsafe fn find_session(ssl: *mut sys::SSL, hooks: &Hooks, id: &[u8]) -> Result<Session, Miss> {
    let now_s = unix_time_s();
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    // SAFETY: by the caller's promise.
    match unsafe { transfer_of(sys::SSL_get_wbio(ssl)) }.and_then(|transfer| transfer.prefetched) {
        Some(prefetched) => bytes.extend_from_slice(prefetched.find(id)?.expose()),
        None => {
            let store = hooks.sessions.as_ref().ok_or(Miss::NotFound)?;
            store.get(id, &mut bytes, now_s)?;
        }
    }
    admit(&mut bytes, &hooks.context_id, now_s)?;
    // SAFETY: the SSL is valid, and so is its context.
    unsafe { Session::from_bytes_raw(&bytes, sys::SSL_get_SSL_CTX(ssl)) }.map_err(|_| Miss::Damaged)
}

/// Checks what libssl would refuse without giving a reason, and adjusts the time of a session from
/// a node whose clock is ahead of ours.
fn admit(session: &mut [u8], context_id: &[u8], now_s: u64) -> Result<(), Miss> {
    let mut facts = SessionFacts::parse(session).ok_or(Miss::Damaged)?;
    if facts.context_id(session) != context_id {
        return Err(Miss::OtherContext);
    }
    if facts.is_expired(now_s) {
        return Err(Miss::Expired);
    }
    facts.clamp(session, now_s);
    Ok(())
}

/// Remembers the outcome of the offered session.
///
/// # Safety
///
/// `ssl` is valid and its BIO is ours.
unsafe fn note_offered(ssl: *mut sys::SSL, offered: Offered) {
    // SAFETY: by the caller's promise.
    if let Some(transfer) = unsafe { transfer_of(sys::SSL_get_wbio(ssl)) } {
        transfer.offered = offered;
    }
}

unsafe extern "C" fn ticket_overhead(ssl: *mut sys::SSL) -> usize {
    // SAFETY: libssl passes a valid SSL.
    let tickets = unsafe { hooks_of(ssl) }.and_then(|hooks| hooks.tickets.as_ref());
    tickets.map_or(0, |tickets| tickets.overhead_bytes())
}

unsafe extern "C" fn ticket_seal(
    ssl: *mut sys::SSL,
    out: *mut u8,
    out_length: *mut usize,
    out_capacity: usize,
    plain: *const u8,
    plain_length: usize,
) -> c_int {
    // SAFETY: libssl passes matching pointers and lengths; the output is fresh
    // memory that libssl has not initialised, so it is zeroed before a slice of
    // it is made (a few hundred bytes, once per ticket).
    unsafe {
        let Some(tickets) = hooks_of(ssl).and_then(|hooks| hooks.tickets.as_ref()) else {
            return 0;
        };
        ptr::write_bytes(out, 0, out_capacity);
        let plain = slice::from_raw_parts(plain, plain_length);
        let target = slice::from_raw_parts_mut(out, out_capacity);
        match guarded(ssl, None, || tickets.seal(plain, target, unix_time_s())) {
            Some(length) => {
                *out_length = length.min(out_capacity);
                1
            }
            None => 0,
        }
    }
}

unsafe extern "C" fn ticket_open(
    ssl: *mut sys::SSL,
    out: *mut u8,
    out_length: *mut usize,
    out_capacity: usize,
    ticket: *const u8,
    ticket_length: usize,
) -> sys::ssl_ticket_aead_result_t {
    // SAFETY: as in `ticket_seal`.
    unsafe {
        let Some(hooks) = hooks_of(ssl) else {
            return sys::ssl_ticket_aead_result_t_ssl_ticket_aead_ignore_ticket;
        };
        if ticket_length == 0 {
            // A client may send an empty one; there is no buffer for it then.
            note_offered(ssl, Offered::Missed(Miss::UnknownKey));
            return sys::ssl_ticket_aead_result_t_ssl_ticket_aead_ignore_ticket;
        }
        ptr::write_bytes(out, 0, out_capacity);
        let ticket = slice::from_raw_parts(ticket, ticket_length);
        let target = slice::from_raw_parts_mut(out, out_capacity);
        let opened = guarded(ssl, TicketOpened::Miss(Miss::Damaged), || {
            open_ticket(ssl, hooks, ticket, target)
        });
        match opened {
            TicketOpened::Plain(length) => {
                note_offered(ssl, Offered::Ticket);
                *out_length = length;
                sys::ssl_ticket_aead_result_t_ssl_ticket_aead_success
            }
            TicketOpened::Miss(miss) => {
                note_offered(ssl, Offered::Missed(miss));
                sys::ssl_ticket_aead_result_t_ssl_ticket_aead_ignore_ticket
            }
        }
    }
}

/// Opens a ticket into `target`, or copies the session that was prefetched for it.
///
/// # Safety
///
/// `ssl` is valid and its BIO is ours.
unsafe fn open_ticket(
    ssl: *mut sys::SSL,
    hooks: &Hooks,
    ticket: &[u8],
    target: &mut [u8],
) -> TicketOpened {
    let now_s = unix_time_s();
    // SAFETY: by the caller's promise.
    let transfer = unsafe { transfer_of(sys::SSL_get_wbio(ssl)) };
    let (prefetched, quic) = match transfer {
        Some(transfer) => (transfer.prefetched, transfer.quic.as_deref()),
        None => (None, None),
    };
    let context_id = quic.and_then(|state| state.context_id.as_deref());
    let context_id = context_id.unwrap_or(&hooks.context_id);
    let opened = match (prefetched, &hooks.tickets) {
        (Some(prefetched), _) => match prefetched.find(ticket) {
            Ok(session) => match target.get_mut(..session.expose().len()) {
                Some(room) => {
                    room.copy_from_slice(session.expose());
                    TicketOpened::Plain(room.len())
                }
                // libssl's buffer is as long as the ticket; ours are padded.
                None => TicketOpened::Miss(Miss::Damaged),
            },
            Err(miss) => TicketOpened::Miss(miss),
        },
        (None, Some(tickets)) => tickets.open(ticket, target, now_s),
        (None, None) => TicketOpened::Miss(Miss::UnknownKey),
    };
    let TicketOpened::Plain(length) = opened else {
        return opened;
    };
    let length = length.min(target.len());
    match admit(&mut target[..length], context_id, now_s) {
        Ok(()) => TicketOpened::Plain(length),
        Err(miss) => TicketOpened::Miss(miss),
    }
}

// ---- keys and contexts -------------------------------------------------------

/// A password being offered to the PEM reader, and whether it was asked for.
pub(crate) struct PasswordRequest<'a> {
    pub(crate) password: Option<&'a [u8]>,
    pub(crate) asked: bool,
}

/// Gives the PEM reader the password it asks for. Without one it returns -1,
/// which ends the read with "bad password read".
pub(crate) unsafe extern "C" fn pem_password(
    buffer: *mut c_char,
    size: c_int,
    _writing: c_int,
    request: *mut c_void,
) -> c_int {
    // SAFETY: `request` is the PasswordRequest given together with this
    // function; the buffer has `size` writable bytes.
    unsafe {
        let Some(request) = request.cast::<PasswordRequest<'_>>().as_mut() else {
            return -1;
        };
        request.asked = true;
        let (Some(password), Ok(size)) = (request.password, usize::try_from(size)) else {
            return -1;
        };
        if password.len() > size {
            return -1;
        }
        ptr::copy_nonoverlapping(password.as_ptr(), buffer.cast::<u8>(), password.len());
        // At most `size`, which came from a c_int.
        password.len() as c_int
    }
}

/// Frees the hooks of an SSL_CTX when the last reference to it goes.
pub(crate) unsafe extern "C" fn free_hooks(
    _parent: *mut c_void,
    hooks: *mut c_void,
    _data: *mut sys::CRYPTO_EX_DATA,
    _index: c_int,
    _number: c_long,
    _argument: *mut c_void,
) {
    if !hooks.is_null() {
        // SAFETY: the pointer came from Box::into_raw in `ContextBuilder` and
        // is freed here only. A panic in a drop must not cross C.
        let hooks = unsafe { Box::from_raw(hooks.cast::<Hooks>()) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(hooks)));
    }
}

/// Lets the context's verifier judge the peer's certificates. Without one, all are accepted.
pub(crate) unsafe extern "C" fn verify_peer(
    ssl: *mut sys::SSL,
    out_alert: *mut u8,
) -> sys::ssl_verify_result_t {
    // SAFETY: libssl passes a valid SSL and a writable alert; its BIO is ours.
    unsafe {
        let Some(verifier) = hooks_of(ssl).and_then(|hooks| hooks.verifier.as_ref()) else {
            return sys::ssl_verify_result_t_ssl_verify_ok;
        };
        let judged = guarded(ssl, Err(VerifyFailure::UNSPECIFIED), || {
            let transfer = transfer_of(sys::SSL_get_wbio(ssl));
            let peer = transfer.and_then(|transfer| transfer.peer.as_deref());
            let peer = peer.ok_or(VerifyFailure::UNSPECIFIED)?;
            verifier.judge(sys::SSL_get0_peer_certificates(ssl), peer.name.as_ref())
        });
        let Err(failure) = judged else {
            return sys::ssl_verify_result_t_ssl_verify_ok;
        };
        *out_alert = failure.alert();
        let transfer = transfer_of(sys::SSL_get_wbio(ssl));
        if let Some(peer) = transfer.and_then(|transfer| transfer.peer.as_mut()) {
            peer.failure = Some(failure);
        }
        sys::ssl_verify_result_t_ssl_verify_invalid
    }
}

/// Accepts a client's certificates, which are verified later, unless there are too many.
pub(crate) unsafe extern "C" fn take_client_chain(
    ssl: *mut sys::SSL,
    out_alert: *mut u8,
) -> sys::ssl_verify_result_t {
    // SAFETY: libssl passes a valid SSL and a writable alert; the stack is null or valid.
    unsafe {
        let chain = sys::SSL_get0_peer_certificates(ssl);
        let count = match chain.is_null() {
            true => 0,
            false => sys::OPENSSL_sk_num(chain.cast()),
        };
        if peer::is_chain_acceptable(count) {
            return sys::ssl_verify_result_t_ssl_verify_ok;
        }
        *out_alert = u8::try_from(peer::CHAIN_ALERT).unwrap_or(u8::MAX);
        sys::ssl_verify_result_t_ssl_verify_invalid
    }
}

/// Lets the library continue after a flaw in a chain: the last flaw is the one that OpenSSL and
/// nginx report. Used only on chains that have already been refused.
pub(crate) unsafe extern "C" fn go_on_after_flaw(
    _is_good: c_int,
    _run: *mut sys::X509_STORE_CTX,
) -> c_int {
    1
}

/// Records the signature that the handshake needs, and makes it wait.
unsafe extern "C" fn key_sign(
    ssl: *mut sys::SSL,
    _out: *mut u8,
    _out_length: *mut usize,
    _out_capacity: usize,
    scheme: u16,
    input: *const u8,
    input_length: usize,
) -> sys::ssl_private_key_result_t {
    // SAFETY: libssl passes a valid SSL and `input_length` readable bytes.
    unsafe {
        ask_key(ssl, || KeyOperation::Sign {
            scheme,
            input: slice::from_raw_parts(input, input_length).to_vec(),
        })
    }
}

/// Records the decryption that the handshake needs, and makes it wait.
unsafe extern "C" fn key_decrypt(
    ssl: *mut sys::SSL,
    _out: *mut u8,
    _out_length: *mut usize,
    _out_capacity: usize,
    input: *const u8,
    input_length: usize,
) -> sys::ssl_private_key_result_t {
    // SAFETY: as in `key_sign`.
    unsafe {
        ask_key(ssl, || KeyOperation::Decrypt {
            input: slice::from_raw_parts(input, input_length).to_vec(),
        })
    }
}

/// # Safety
///
/// `ssl` is valid and its BIO is ours.
unsafe fn ask_key(
    ssl: *mut sys::SSL,
    operation: impl FnOnce() -> KeyOperation,
) -> sys::ssl_private_key_result_t {
    // SAFETY: by the caller's promise.
    unsafe {
        let asked = guarded(ssl, None, || {
            Some(Box::new(KeyProgress::Asked(operation())))
        });
        match (asked, transfer_of(sys::SSL_get_wbio(ssl))) {
            (Some(asked), Some(transfer)) => {
                *transfer.key = Some(asked);
                sys::ssl_private_key_result_t_ssl_private_key_retry
            }
            _ => sys::ssl_private_key_result_t_ssl_private_key_failure,
        }
    }
}

/// Passes libssl the result, or makes it wait longer.
unsafe extern "C" fn key_complete(
    ssl: *mut sys::SSL,
    out: *mut u8,
    out_length: *mut usize,
    out_capacity: usize,
) -> sys::ssl_private_key_result_t {
    // SAFETY: libssl passes a valid SSL and a target of `out_capacity` bytes.
    unsafe {
        let Some(transfer) = transfer_of(sys::SSL_get_wbio(ssl)) else {
            return sys::ssl_private_key_result_t_ssl_private_key_failure;
        };
        match transfer.key.take().map(|progress| *progress) {
            Some(KeyProgress::Answered(Some(result))) if result.expose().len() <= out_capacity => {
                let result = result.expose();
                ptr::copy_nonoverlapping(result.as_ptr(), out, result.len());
                *out_length = result.len();
                sys::ssl_private_key_result_t_ssl_private_key_success
            }
            None | Some(KeyProgress::Answered(_)) => {
                sys::ssl_private_key_result_t_ssl_private_key_failure
            }
            Some(waiting) => {
                *transfer.key = Some(Box::new(waiting));
                sys::ssl_private_key_result_t_ssl_private_key_retry
            }
        }
    }
}

// ---- what callbacks stand on -------------------------------------------------

/// Runs `work`. On a panic, keeps it for after the call and returns `failed`.
///
/// # Safety
///
/// `ssl` is valid and its BIO is ours.
unsafe fn guarded<T>(ssl: *mut sys::SSL, failed: T, work: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => value,
        Err(panic) => {
            // SAFETY: by the caller's promise.
            if let Some(transfer) = unsafe { transfer_of(sys::SSL_get_wbio(ssl)) } {
                transfer.panic = Some(panic);
            }
            failed
        }
    }
}

/// The transfer of the running call.
///
/// # Safety
///
/// `bio` is null or made by `bio::new_bio`, and the caller lets go of the
/// reference before it returns to libssl.
unsafe fn transfer_of<'a>(bio: *mut sys::BIO) -> Option<&'a mut Transfer<'a>> {
    if bio.is_null() {
        return None;
    }
    // SAFETY: the data is null or set by `Connection::call` to a transfer that
    // outlives the call.
    unsafe { sys::BIO_get_data(bio).cast::<Transfer<'a>>().as_mut() }
}

/// The hooks of the SSL's context.
///
/// # Safety
///
/// `ssl` is valid; the result must not outlive its context.
unsafe fn hooks_of<'a>(ssl: *mut sys::SSL) -> Option<&'a Hooks> {
    let index = Hooks::index()?;
    // SAFETY: the slot is null or holds hooks that live as long as the SSL_CTX.
    unsafe {
        let context = sys::SSL_get_SSL_CTX(ssl);
        sys::SSL_CTX_get_ex_data(context, index)
            .cast::<Hooks>()
            .as_ref()
    }
}
