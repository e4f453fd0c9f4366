//! The library's error queue as one value.
//!
//! The queue is per thread, so it is drained where the call ran: an [`Error`] holds only text and
//! numbers and can move to any thread. The text is the one nginx logs, with AWS-LC's numbers and
//! names: `SSL_do_handshake() failed (SSL: error:100000b8:SSL
//! routines:OPENSSL_internal:NO_SHARED_CIPHER)`.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::ptr;

use aws_lc_sys as sys;

use crate::ffi::static_str;

/// The most errors of one queue kept in the text, so that a peer cannot make a line longer.
const MAX_QUEUED_ERRORS: usize = 8;

/// Who is at fault, which decides the log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The peer sent something wrong, refused what we sent, or shares no
    /// parameters with us. nginx logs these at `info`.
    Peer,
    /// Configuration, memory, or a bug: the operator wants to know.
    Local,
}

/// A failed call to the TLS library.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    call: &'static str,
    code: u32,
    queue: Box<str>,
    /// The peer has brought it about, whatever the code says.
    by_peer: bool,
}

impl Error {
    /// Drains this thread's queue into an error about `call`.
    pub(crate) fn drain(call: &'static str) -> Self {
        let mut code = 0;
        let mut queue = String::new();
        for n in 0.. {
            let Some(queued) = pop() else { break };
            if n == 0 {
                code = queued.code;
            }
            if n < MAX_QUEUED_ERRORS {
                if n > 0 {
                    queue.push(' ');
                }
                queue.push_str(&queued.text);
            }
        }
        Self {
            call,
            code,
            queue: queue.into(),
            by_peer: false,
        }
    }

    /// The error of a handshake that ended. Failures on this side always leave an error in the
    /// queue; without one the peer ended it, for example by close_notify. `reason` is the result of
    /// SSL_get_error().
    pub(crate) fn drain_handshake(call: &'static str, reason: c_int) -> Self {
        let mut error = Self::drain(call);
        if error.queue.is_empty() {
            // ERR_PACK: the library in the top eight bits, the reason below.
            error.code =
                (sys::ERR_LIB_SSL as u32) << 24 | sys::SSL_R_SSLV3_ALERT_CLOSE_NOTIFY as u32;
            error.queue = match reason {
                sys::SSL_ERROR_ZERO_RETURN => "peer sent close_notify in the handshake".into(),
                _ => format!("peer ended the handshake, SSL_get_error() {reason}").into(),
            };
        }
        error
    }

    /// The same, brought about by the peer.
    #[must_use]
    pub(crate) fn caused_by_peer(mut self) -> Self {
        self.by_peer = true;
        self
    }

    /// A mistake of the peer that this layer detects and libssl does not, with one of libssl's
    /// reasons.
    pub(crate) fn of_peer(call: &'static str, reason: c_int) -> Self {
        clear_queue();
        // SAFETY: the file is a static string that ends with NUL.
        unsafe {
            sys::ERR_put_error(sys::ERR_LIB_SSL, 0, reason, c"".as_ptr(), 0);
        }
        Self::drain(call)
    }

    /// An error of this layer, not from the queue.
    pub(crate) fn local(call: &'static str, text: &str) -> Self {
        Self {
            call,
            code: 0,
            queue: text.into(),
            by_peer: false,
        }
    }

    /// The library function that failed, without parentheses.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The packed number of the first queued error; 0 when the queue was empty.
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The queue alone: `error:...:...` entries separated by a space, as nginx puts them after
    /// `SSL: `.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The first error's reason, such as `NO_SHARED_CIPHER`.
    pub fn reason(&self) -> Option<&'static str> {
        if self.code == 0 {
            return None;
        }
        // SAFETY: returns null or a static string for any number.
        static_str(unsafe { sys::ERR_reason_error_string(self.code) })
    }

    /// The alert the peer sent, when that is what failed (RFC 8446 section 6).
    pub fn received_alert(&self) -> Option<u8> {
        if self.library() != sys::ERR_LIB_SSL {
            return None;
        }
        let number = self.reason_number() - sys::SSL_AD_REASON_OFFSET;
        u8::try_from(number).ok()
    }

    /// Whether the peer or this side is at fault.
    pub fn fault(&self) -> Fault {
        let ours = [
            sys::SSL_R_NO_CERTIFICATE_SET,
            sys::SSL_R_NO_CIPHERS_AVAILABLE,
            sys::SSL_R_NO_CIPHERS_SPECIFIED,
            sys::SSL_R_NO_SUPPORTED_VERSIONS_ENABLED,
            sys::SSL_R_CERT_CB_ERROR,
            sys::SSL_R_PRIVATE_KEY_OPERATION_FAILED,
            sys::SSL_R_UNINITIALIZED,
            sys::SSL_R_BIO_NOT_SET,
            sys::SSL_R_BAD_WRITE_RETRY,
            sys::SSL_R_BAD_LENGTH,
            sys::SSL_R_PROTOCOL_IS_SHUTDOWN,
        ];
        match self.library() {
            _ if self.by_peer => Fault::Peer,
            sys::ERR_LIB_SSL => {
                let reason = self.reason_number();
                // Reasons up to 99 refer to another library or to generic failures (allocation,
                // internal error).
                if reason < 100 || ours.contains(&reason) {
                    Fault::Local
                } else {
                    Fault::Peer
                }
            }
            // A public key, signature or record from the peer that cannot be decoded.
            sys::ERR_LIB_CIPHER | sys::ERR_LIB_EC | sys::ERR_LIB_RSA | sys::ERR_LIB_EVP => {
                Fault::Peer
            }
            _ => Fault::Local,
        }
    }

    fn library(&self) -> c_int {
        // ERR_GET_LIB: the library is in the top eight bits.
        (self.code >> 24) as c_int
    }

    fn reason_number(&self) -> c_int {
        // ERR_GET_REASON: the reason is in the low twelve bits.
        (self.code & 0xfff) as c_int
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}() failed", self.call)?;
        if self.queue.is_empty() {
            return Ok(());
        }
        write!(f, " (SSL: {})", self.queue)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}

/// Clears errors of earlier calls from this thread's queue. `SSL_get_error` looks at it, so stale
/// entries would be attributed to the next call.
pub(crate) fn clear_queue() {
    // SAFETY: no preconditions.
    unsafe { sys::ERR_clear_error() }
}

struct Queued {
    code: u32,
    text: String,
}

fn pop() -> Option<Queued> {
    let mut data: *const c_char = ptr::null();
    let mut flags: c_int = 0;
    // SAFETY: null file and line pointers are allowed; `data` and `flags` are
    // valid for writes.
    let code = unsafe {
        sys::ERR_get_error_line_data(ptr::null_mut(), ptr::null_mut(), &mut data, &mut flags)
    };
    if code == 0 {
        return None;
    }
    let mut text = [0 as c_char; 256];
    // SAFETY: the buffer is writable for the length given; the result is
    // NUL-terminated.
    let text = unsafe {
        sys::ERR_error_string_n(code, text.as_mut_ptr(), text.len());
        CStr::from_ptr(text.as_ptr())
    };
    let mut text = text.to_string_lossy().into_owned();
    if flags & sys::ERR_FLAG_STRING != 0 && !data.is_null() {
        // SAFETY: the flag says that `data` is a NUL-terminated string; it
        // stays valid until the queue changes, which this thread controls.
        let data = unsafe { CStr::from_ptr(data) };
        if !data.is_empty() {
            text.push(':');
            text.push_str(&data.to_string_lossy());
        }
    }
    Some(Queued { code, text })
}
