//! `SSL_CTX`: the common settings of connections of one kind.
//!
//! A [`ContextBuilder`] is filled once. The [`Context`] built from it is immutable and shared by
//! all threads. A new certificate or key requires a new context.

use std::ffi::{CString, c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use aws_lc_sys as sys;

use crate::callbacks;
use crate::certificate::CertificateChain;
use crate::certificate_compression::{CertificateCompression, CertificateCompressor};
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};
use crate::group::Group;
use crate::key::PrivateKey;
use crate::session::{SessionStore, TicketCipher};
use crate::verify::Verifier;

/// A protocol version libssl can speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// TLS 1.0 (RFC 2246).
    Tls10,
    /// TLS 1.1 (RFC 4346).
    Tls11,
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl ProtocolVersion {
    /// The number on the wire.
    pub fn wire(self) -> u16 {
        match self {
            Self::Tls10 => 0x0301,
            Self::Tls11 => 0x0302,
            Self::Tls12 => 0x0303,
            Self::Tls13 => 0x0304,
        }
    }

    /// The version with this number on the wire.
    pub fn from_wire(wire: u16) -> Option<Self> {
        [Self::Tls10, Self::Tls11, Self::Tls12, Self::Tls13]
            .into_iter()
            .find(|version| version.wire() == wire)
    }

    /// OpenSSL's and nginx's name: `TLSv1.3`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls10 => "TLSv1",
            Self::Tls11 => "TLSv1.1",
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the peer's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Not at all.
    Off,
    /// It must chain to a trusted root.
    Required,
}

/// The data for callbacks, owned by the `SSL_CTX` itself so that it lives exactly as long as any
/// connection that might call back.
pub(crate) struct Hooks {
    /// Application protocols in the server's order of preference.
    pub(crate) alpn: Vec<Box<[u8]>>,
    /// The same over QUIC.
    pub(crate) quic_alpn: Vec<Box<[u8]>>,
    pub(crate) tickets: Option<Arc<dyn TicketCipher>>,
    pub(crate) sessions: Option<Arc<dyn SessionStore>>,
    /// The server's identity, which sessions are bound to.
    pub(crate) context_id: Box<[u8]>,
    /// Judges the peer's certificate; without it all are accepted.
    pub(crate) verifier: Option<Verifier>,
    pub(crate) compressor: Option<Arc<dyn CertificateCompressor>>,
}

impl Hooks {
    /// The slot of an `SSL_CTX` that holds the hooks.
    pub(crate) fn index() -> Option<c_int> {
        static INDEX: OnceLock<c_int> = OnceLock::new();
        let index = *INDEX.get_or_init(|| {
            // SAFETY: the callback has the declared signature and lives as long
            // as the process.
            unsafe {
                sys::SSL_CTX_get_ex_new_index(
                    0,
                    ptr::null_mut(),
                    ptr::null_mut(),
                    None,
                    Some(callbacks::free_hooks),
                )
            }
        });
        (index >= 0).then_some(index)
    }
}

/// An immutable `SSL_CTX`. Cloning shares it.
pub struct Context(NonNull<sys::SSL_CTX>);

// SAFETY: an SSL_CTX is counted atomically and made for sharing; nothing changes
// its settings once it is built.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn as_ptr(&self) -> *mut sys::SSL_CTX {
        self.0.as_ptr()
    }
}

impl Clone for Context {
    fn clone(&self) -> Self {
        // SAFETY: adds a reference to a valid context.
        let code = unsafe { sys::SSL_CTX_up_ref(self.as_ptr()) };
        debug_assert_eq!(code, 1, "adding a reference cannot fail");
        Self(self.0)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `self` owns.
        unsafe { sys::SSL_CTX_free(self.as_ptr()) }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}

/// Settings for building a context.
pub struct ContextBuilder {
    context: Context,
    hooks: Hooks,
}

impl ContextBuilder {
    /// A context with nothing but safe defaults: TLS 1.2 and 1.3, no
    /// certificate, tickets off, no session cache.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: returns a static.
        Self::with_method(unsafe { sys::TLS_method() })
    }

    /// The same without parsed certificates: libssl keeps the peer's certificates as bytes, shared
    /// by all connections that see the same ones. A [`Verifier`] parses them only
    /// while it judges them.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn with_buffers() -> Result<Self, Error> {
        // SAFETY: returns a static.
        let builder = Self::with_method(unsafe { sys::TLS_with_buffers_method() })?;
        // SAFETY: the context is valid, and the pool lives as long as the process.
        unsafe { sys::SSL_CTX_set0_buffer_pool(builder.as_ptr(), certificate_pool()) };
        Ok(builder)
    }

    fn with_method(method: *const sys::SSL_METHOD) -> Result<Self, Error> {
        error::clear_queue();
        // SAFETY: the method is a static.
        let context = check_ptr("SSL_CTX_new", unsafe { sys::SSL_CTX_new(method) })?;
        let context = NonNull::new(context)
            .map(Context)
            .ok_or_else(|| Error::local("SSL_CTX_new", "out of memory"))?;
        let mut builder = Self {
            context,
            hooks: Hooks {
                alpn: Vec::new(),
                quic_alpn: Vec::new(),
                tickets: None,
                sessions: None,
                context_id: Box::default(),
                verifier: None,
                compressor: None,
            },
        };
        builder.set_protocol_range(ProtocolVersion::Tls12, ProtocolVersion::Tls13)?;
        builder.set_tickets_enabled(false);
        let context = builder.context.as_ptr();
        // SAFETY: the context is valid.
        unsafe {
            // A chain is sent as configured; libssl must not search for issuers.
            sys::SSL_CTX_set_mode(context, sys::SSL_MODE_NO_AUTO_CHAIN as u32);
            sys::SSL_CTX_set_session_cache_mode(context, sys::SSL_SESS_CACHE_OFF);
        }
        #[cfg(debug_assertions)]
        if crate::key_log::is_started() {
            // SAFETY: the context is valid; the callback lives as long as the process.
            unsafe {
                sys::SSL_CTX_set_keylog_callback(context, Some(callbacks::key_log::key_log));
            }
        }
        Ok(builder)
    }

    /// The lowest and the highest protocol offered, inclusive.
    ///
    /// # Errors
    ///
    /// When libssl does not support a version, or the range is empty.
    pub fn set_protocol_range(
        &mut self,
        min: ProtocolVersion,
        max: ProtocolVersion,
    ) -> Result<(), Error> {
        // SAFETY: the context is valid.
        unsafe {
            check(
                "SSL_CTX_set_min_proto_version",
                sys::SSL_CTX_set_min_proto_version(self.as_ptr(), min.wire()),
            )?;
            check(
                "SSL_CTX_set_max_proto_version",
                sys::SSL_CTX_set_max_proto_version(self.as_ptr(), max.wire()),
            )
        }
    }

    /// The suites for TLS 1.2 and below, in order, by name and separated by `:`. Names in `[A|B]`
    /// are equally preferred: the client's order decides. Unknown names are errors.
    ///
    /// # Errors
    ///
    /// A name that libssl does not know, or an empty list.
    pub fn set_cipher_list(&mut self, list: &str) -> Result<(), Error> {
        let list = c_string("SSL_CTX_set_cipher_list", list)?;
        // SAFETY: context and string are valid.
        check("SSL_CTX_set_cipher_list", unsafe {
            sys::SSL_CTX_set_strict_cipher_list(self.as_ptr(), list.as_ptr())
        })
    }

    /// The suites allowed in TLS 1.3, separated by `:`. This only filters: the client's order
    /// decides among them (see [`crate::Connection::restrict_tls13`]).
    ///
    /// # Errors
    ///
    /// A name that libssl does not know, or an empty list.
    pub fn set_ciphersuites(&mut self, list: &str) -> Result<(), Error> {
        let list = c_string("SSL_CTX_set_ciphersuites", list)?;
        // SAFETY: context and string are valid.
        check("SSL_CTX_set_ciphersuites", unsafe {
            sys::SSL_CTX_set_ciphersuites(self.as_ptr(), list.as_ptr())
        })
    }

    /// The key-exchange groups, in order.
    ///
    /// # Errors
    ///
    /// When libssl does not support a group, or the list is empty.
    pub fn set_groups(&mut self, groups: &[Group]) -> Result<(), Error> {
        let nids: Vec<c_int> = groups.iter().map(|group| group.nid).collect();
        // SAFETY: the context is valid, pointer and length describe `nids`.
        check("SSL_CTX_set1_groups", unsafe {
            sys::SSL_CTX_set1_groups(self.as_ptr(), nids.as_ptr(), nids.len())
        })
    }

    /// Signature algorithms in OpenSSL's syntax (`RSA-PSS+SHA256:ECDSA+SHA256`).
    ///
    /// # Errors
    ///
    /// A name that libssl does not know, or an empty list.
    pub fn set_signature_algorithms(&mut self, list: &str) -> Result<(), Error> {
        let list = c_string("SSL_CTX_set1_sigalgs_list", list)?;
        // SAFETY: context and string are valid.
        check("SSL_CTX_set1_sigalgs_list", unsafe {
            sys::SSL_CTX_set1_sigalgs_list(self.as_ptr(), list.as_ptr())
        })
    }

    /// Signature schemes to sign with, by their IANA numbers, preferred first.
    ///
    /// # Errors
    ///
    /// When libssl does not know one of the numbers.
    pub fn set_signing_schemes(&mut self, schemes: &[u16]) -> Result<(), Error> {
        // SAFETY: the context is valid, pointer and length describe `schemes`.
        check("SSL_CTX_set_signing_algorithm_prefs", unsafe {
            sys::SSL_CTX_set_signing_algorithm_prefs(self.as_ptr(), schemes.as_ptr(), schemes.len())
        })
    }

    /// Whether the server's order of suites and groups wins over the client's.
    pub fn set_prefer_server_ciphers(&mut self, on: bool) {
        self.set_option(sys::SSL_OP_CIPHER_SERVER_PREFERENCE, on);
    }

    /// Whether tickets are issued and accepted.
    pub fn set_tickets_enabled(&mut self, on: bool) {
        self.set_option(sys::SSL_OP_NO_TICKET, !on);
    }

    /// Tickets sent after a TLS 1.3 handshake, at most 16.
    ///
    /// # Errors
    ///
    /// When `count` is larger than 16.
    pub fn set_ticket_count(&mut self, count: usize) -> Result<(), Error> {
        // SAFETY: the context is valid.
        check("SSL_CTX_set_num_tickets", unsafe {
            sys::SSL_CTX_set_num_tickets(self.as_ptr(), count)
        })
    }

    /// Seals tickets; without it libssl uses its own keys.
    pub fn set_ticket_cipher(&mut self, tickets: Arc<dyn TicketCipher>) {
        self.hooks.tickets = Some(tickets);
        // SAFETY: the table is a static.
        unsafe { sys::SSL_CTX_set_ticket_aead_method(self.as_ptr(), &callbacks::TICKET_METHOD) }
    }

    /// Where sessions of TLS 1.2 and below are kept by id.
    pub fn set_session_store(&mut self, store: Arc<dyn SessionStore>) {
        self.hooks.sessions = Some(store);
        let mode = sys::SSL_SESS_CACHE_SERVER | sys::SSL_SESS_CACHE_NO_INTERNAL;
        // SAFETY: the context is valid; the callbacks live as long as the process.
        unsafe {
            sys::SSL_CTX_set_session_cache_mode(self.as_ptr(), mode);
            sys::SSL_CTX_sess_set_new_cb(self.as_ptr(), Some(callbacks::new_session));
            sys::SSL_CTX_sess_set_get_cb(self.as_ptr(), Some(callbacks::get_session));
        }
    }

    /// How long a session can be resumed, in seconds.
    pub fn set_session_timeout(&mut self, timeout_s: u32) {
        // SAFETY: the context is valid.
        unsafe {
            sys::SSL_CTX_set_timeout(self.as_ptr(), timeout_s);
            // libssl has a separate lifetime for TLS 1.3; nginx has only one.
            sys::SSL_CTX_set_session_psk_dhe_timeout(self.as_ptr(), timeout_s);
        }
    }

    /// Binds sessions to a server's identity; at most 32 bytes.
    ///
    /// # Errors
    ///
    /// When `identity` is longer than 32 bytes.
    pub fn set_session_id_context(&mut self, identity: &[u8]) -> Result<(), Error> {
        self.hooks.context_id = identity.into();
        // SAFETY: the context is valid, pointer and length describe `identity`.
        check("SSL_CTX_set_session_id_context", unsafe {
            sys::SSL_CTX_set_session_id_context(self.as_ptr(), identity.as_ptr(), identity.len())
        })
    }

    /// The certificate chain to send and its key; an error if they do not belong together.
    ///
    /// # Errors
    ///
    /// When the key does not belong to the certificate, or libssl cannot use it.
    pub fn set_identity(
        &mut self,
        chain: &CertificateChain,
        key: &PrivateKey,
    ) -> Result<(), Error> {
        self.set_chain_and_key(chain, key.as_ptr(), ptr::null())
    }

    /// The certificate chain to send. The handshake returns the operations for its key:
    /// [`crate::Connection::take_key_operation`].
    ///
    /// # Errors
    ///
    /// When libssl cannot use the leaf's key.
    pub fn set_chain(&mut self, chain: &CertificateChain) -> Result<(), Error> {
        self.set_chain_and_key(chain, ptr::null_mut(), &callbacks::KEY_METHOD)
    }

    /// Exactly one of key and method is null.
    fn set_chain_and_key(
        &mut self,
        chain: &CertificateChain,
        key: *mut sys::EVP_PKEY,
        method: *const sys::SSL_PRIVATE_KEY_METHOD,
    ) -> Result<(), Error> {
        let buffers = Buffer::chain(chain)?;
        let pointers: Vec<*mut sys::CRYPTO_BUFFER> = buffers.iter().map(Buffer::as_ptr).collect();
        // SAFETY: everything is valid; libssl takes its own references, and the method is
        // a static.
        check("SSL_CTX_use_PrivateKey", unsafe {
            sys::SSL_CTX_set_chain_and_key(
                self.as_ptr(),
                pointers.as_ptr(),
                pointers.len(),
                key,
                method,
            )
        })
    }

    /// Application protocols that a server selects from, in its order. A client that offers only
    /// others is refused.
    ///
    /// # Panics
    ///
    /// When a name is empty or longer than 255 bytes.
    pub fn set_alpn_select(&mut self, protocols: &[&[u8]]) {
        self.hooks.alpn = alpn_names(protocols);
        self.select_alpn();
    }

    /// The same for connections over QUIC, where a client without a common protocol is refused in
    /// any case (RFC 9001 section 8.1).
    ///
    /// # Panics
    ///
    /// When a name is empty or longer than 255 bytes.
    pub fn set_quic_alpn_select(&mut self, protocols: &[&[u8]]) {
        self.hooks.quic_alpn = alpn_names(protocols);
        self.select_alpn();
    }

    fn select_alpn(&mut self) {
        // SAFETY: the context is valid; the callback lives as long as the process.
        unsafe {
            sys::SSL_CTX_set_alpn_select_cb(
                self.as_ptr(),
                Some(callbacks::alpn_select),
                ptr::null_mut(),
            )
        }
    }

    /// Compresses certificates for clients of TLS 1.3 that ask for it (RFC 8879), with the first of
    /// the algorithms that they know.
    ///
    /// # Errors
    ///
    /// When libssl has no memory, or an algorithm is named twice.
    pub fn set_certificate_compression(
        &mut self,
        algorithms: &[CertificateCompression],
        compressor: Arc<dyn CertificateCompressor>,
    ) -> Result<(), Error> {
        use CertificateCompression::{Brotli, Zlib, Zstd};
        for algorithm in algorithms {
            let compress: sys::ssl_cert_compression_func_t = Some(match algorithm {
                Zlib => callbacks::compress_certificate::<{ Zlib as u16 }>,
                Brotli => callbacks::compress_certificate::<{ Brotli as u16 }>,
                Zstd => callbacks::compress_certificate::<{ Zstd as u16 }>,
            });
            // SAFETY: the context is valid; the callback lives as long as the process.
            check("SSL_CTX_add_cert_compression_alg", unsafe {
                sys::SSL_CTX_add_cert_compression_alg(
                    self.as_ptr(),
                    *algorithm as u16,
                    compress,
                    None,
                )
            })?;
        }
        self.hooks.compressor = Some(compressor);
        Ok(())
    }

    /// Sets the verifier for the peer's certificate. Without it a server asks for none, and a
    /// client accepts any.
    pub(crate) fn set_verifier(&mut self, verifier: Verifier) {
        self.hooks.verifier = Some(verifier);
    }

    /// Observes what a server reads and writes: records the scheme of its handshake signature
    /// ([`crate::Connection::signature_scheme`]), and answers mistakes of the client with the alert
    /// that RFC 8446 specifies.
    pub fn watch_messages(&mut self) {
        // SAFETY: the context is valid; the callback lives as long as the process.
        unsafe { sys::SSL_CTX_set_msg_callback(self.as_ptr(), Some(callbacks::message)) }
    }

    /// The finished context.
    ///
    /// # Errors
    ///
    /// When the settings contradict each other.
    pub fn build(self) -> Result<Context, Error> {
        let index =
            Hooks::index().ok_or_else(|| Error::local("SSL_CTX_get_ex_new_index", "no slot"))?;
        let hooks: *mut c_void = Box::into_raw(Box::new(self.hooks)).cast();
        // SAFETY: the context is valid; it owns the hooks from here on.
        let code = unsafe { sys::SSL_CTX_set_ex_data(self.context.as_ptr(), index, hooks) };
        if code != 1 {
            // SAFETY: libssl did not take the hooks.
            drop(unsafe { Box::from_raw(hooks.cast::<Hooks>()) });
            return Err(Error::drain("SSL_CTX_set_ex_data"));
        }
        Ok(self.context)
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::SSL_CTX {
        self.context.as_ptr()
    }

    fn set_option(&mut self, option: c_int, on: bool) {
        // SAFETY: the context is valid.
        unsafe {
            if on {
                sys::SSL_CTX_set_options(self.as_ptr(), option as u32);
            } else {
                sys::SSL_CTX_clear_options(self.as_ptr(), option as u32);
            }
        }
    }
}

impl fmt::Debug for ContextBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextBuilder")
    }
}

pub(crate) fn c_string(call: &'static str, text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::local(call, "the text contains a zero byte"))
}

/// Protocols as the callback that selects one needs them.
fn alpn_names(protocols: &[&[u8]]) -> Vec<Box<[u8]>> {
    for protocol in protocols {
        assert!(
            (1..=255).contains(&protocol.len()),
            "ALPN names have 1 to 255 bytes (RFC 7301)"
        );
    }
    protocols.iter().map(|name| Box::from(*name)).collect()
}

/// The pool in which certificates of peers are kept once for all connections. They refer to it, so
/// it is never freed. Null if there was no memory, which means no sharing.
fn certificate_pool() -> *mut sys::CRYPTO_BUFFER_POOL {
    struct Pool(*mut sys::CRYPTO_BUFFER_POOL);
    // SAFETY: the library takes the pool's own lock.
    unsafe impl Send for Pool {}
    // SAFETY: as above.
    unsafe impl Sync for Pool {}
    static POOL: OnceLock<Pool> = OnceLock::new();
    // SAFETY: allocates.
    let pool = POOL.get_or_init(|| Pool(unsafe { sys::CRYPTO_BUFFER_POOL_new() }));
    pool.0
}

/// A reference-counted certificate in libssl's representation.
pub(crate) struct Buffer(NonNull<sys::CRYPTO_BUFFER>);

// SAFETY: buffers are immutable and counted atomically.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// All certificates of a chain.
    pub(crate) fn chain(chain: &CertificateChain) -> Result<Vec<Self>, Error> {
        let certificates = chain.certificates().iter();
        certificates
            .map(|certificate| Self::new(&certificate.to_der()?))
            .collect()
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::CRYPTO_BUFFER {
        self.0.as_ptr()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: the buffer is valid, and its bytes live as long as the reference.
        unsafe {
            std::slice::from_raw_parts(
                sys::CRYPTO_BUFFER_data(self.as_ptr()),
                sys::CRYPTO_BUFFER_len(self.as_ptr()),
            )
        }
    }

    /// Gives up the reference.
    pub(crate) fn into_ptr(self) -> *mut sys::CRYPTO_BUFFER {
        std::mem::ManuallyDrop::new(self).as_ptr()
    }

    /// An additional reference to a buffer owned elsewhere; `None` for null.
    ///
    /// # Safety
    ///
    /// `buffer` is null or valid.
    pub(crate) unsafe fn share(buffer: *mut sys::CRYPTO_BUFFER) -> Option<Self> {
        let buffer = NonNull::new(buffer)?;
        // SAFETY: by the caller's promise.
        let code = unsafe { sys::CRYPTO_BUFFER_up_ref(buffer.as_ptr()) };
        debug_assert_eq!(code, 1, "adding a reference cannot fail");
        Some(Self(buffer))
    }

    pub(crate) fn new(bytes: &[u8]) -> Result<Self, Error> {
        // SAFETY: pointer and length describe `bytes`; no pool is used.
        let buffer =
            unsafe { sys::CRYPTO_BUFFER_new(bytes.as_ptr(), bytes.len(), ptr::null_mut()) };
        NonNull::new(buffer)
            .map(Self)
            .ok_or_else(|| Error::drain("CRYPTO_BUFFER_new"))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `self` owns.
        unsafe { sys::CRYPTO_BUFFER_free(self.0.as_ptr()) }
    }
}
