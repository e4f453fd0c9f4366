//! Client certificates: asking for them, and the chain received.
//!
//! libssl checks only that a client has the key of its certificate. The chain is kept as bytes in
//! the session, and judged by whoever answers requests
//! ([`Verifier::judge_chain`](crate::Verifier::judge_chain)). So a resumed session is judged by the
//! current rules, and a connection that moves to another process by the rules there.

use std::ffi::c_int;
use std::fmt;

use aws_lc_sys as sys;

use crate::callbacks;
use crate::certificate::Certificate;
use crate::connection::Connection;
use crate::context::{Buffer, ContextBuilder};
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};

/// The most certificates that a client may send; handshakes with more fail. The cost of building a
/// chain grows with the square of their number.
pub const MAX_CLIENT_CERTIFICATES: usize = 32;
/// The longest Certificate message of a client, in bytes: OpenSSL's limit.
pub const MAX_CLIENT_CHAIN_BYTES: usize = 100 * 1024;

impl ContextBuilder {
    /// Asks every client for a certificate. A handshake without one succeeds too, and the
    /// certificate is not verified.
    ///
    /// `issuers` are DER names by which clients choose a certificate; an empty list sends none.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn ask_for_certificate(&mut self, issuers: &[Vec<u8>]) -> Result<(), Error> {
        error::clear_queue();
        // SAFETY: allocates.
        let names = check_ptr("OPENSSL_sk_new_null", unsafe { sys::OPENSSL_sk_new_null() })?;
        for issuer in issuers {
            // SAFETY: the stack is valid and takes over the reference that is given away.
            unsafe {
                match Buffer::new(issuer).map(Buffer::into_ptr) {
                    Ok(name) if sys::OPENSSL_sk_push(names, name.cast()) > 0 => {}
                    failed => {
                        if let Ok(name) = failed {
                            sys::CRYPTO_BUFFER_free(name);
                        }
                        free_stack(names);
                        return Err(Error::local("SSL_CTX_set0_client_CAs", "out of memory"));
                    }
                }
            }
        }
        // SAFETY: the context is valid and takes the stack over; the callback lives as long
        // as the process.
        unsafe {
            sys::SSL_CTX_set0_client_CAs(self.as_ptr(), names.cast());
            sys::SSL_CTX_set_max_cert_list(self.as_ptr(), MAX_CLIENT_CHAIN_BYTES);
            sys::SSL_CTX_set_custom_verify(
                self.as_ptr(),
                sys::SSL_VERIFY_PEER,
                Some(callbacks::take_client_chain),
            );
        }
        Ok(())
    }

    /// Signature schemes accepted from the peer, by their IANA numbers, preferred first.
    ///
    /// # Errors
    ///
    /// When libssl does not know one of the numbers.
    pub fn set_accepted_schemes(&mut self, schemes: &[u16]) -> Result<(), Error> {
        // SAFETY: the context is valid, pointer and length describe `schemes`.
        check("SSL_CTX_set_verify_algorithm_prefs", unsafe {
            sys::SSL_CTX_set_verify_algorithm_prefs(self.as_ptr(), schemes.as_ptr(), schemes.len())
        })
    }
}

/// # Safety
///
/// `names` is a valid stack of buffers, which nobody uses afterwards.
unsafe fn free_stack(names: *mut sys::OPENSSL_STACK) {
    // SAFETY: by the caller's promise.
    unsafe {
        while sys::OPENSSL_sk_num(names) > 0 {
            sys::CRYPTO_BUFFER_free(sys::OPENSSL_sk_pop(names).cast());
        }
        sys::OPENSSL_sk_free(names);
    }
}

/// The certificates that a client has sent, leaf first; at least one. The data is shared with
/// libssl.
pub struct PeerChain(Vec<Buffer>);

impl PeerChain {
    /// The leaf in DER.
    pub fn leaf(&self) -> &[u8] {
        self.0.first().map_or(&[], Buffer::as_bytes)
    }

    /// All of them in DER, the leaf first.
    pub fn certificates(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.0.iter().map(Buffer::as_bytes)
    }

    /// The leaf, parsed.
    ///
    /// # Errors
    ///
    /// When it is no certificate: libssl has looked at its public key only.
    pub fn parse_leaf(&self) -> Result<Certificate, Error> {
        let leaf = self.0.first();
        let leaf = leaf.ok_or_else(|| Error::local("X509_parse_from_buffer", "no certificate"))?;
        Certificate::from_buffer(leaf)
    }

    pub(crate) fn buffers(&self) -> &[Buffer] {
        &self.0
    }
}

impl fmt::Debug for PeerChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerChain({} certificates)", self.0.len())
    }
}

impl Connection {
    /// The certificates of the client, from this handshake or from the one whose session was
    /// resumed; `None` if it has sent none.
    pub fn peer_chain(&self) -> Option<PeerChain> {
        // SAFETY: the stack belongs to the SSL, which is borrowed; each buffer gets a
        // reference more, which `Buffer` gives back.
        unsafe {
            let stack = sys::SSL_get0_peer_certificates(self.as_ptr());
            if stack.is_null() {
                return None;
            }
            let count = sys::OPENSSL_sk_num(stack.cast());
            let chain: Option<Vec<Buffer>> = (0..count)
                .map(|n| Buffer::share(sys::OPENSSL_sk_value(stack.cast(), n).cast()))
                .collect();
            chain.filter(|chain| !chain.is_empty()).map(PeerChain)
        }
    }

    /// The scheme (IANA number) of the client's handshake signature, possibly from the handshake
    /// whose session was resumed. `None` without a certificate and below TLS 1.2.
    pub fn client_signature_scheme(&self) -> Option<u16> {
        // SAFETY: the SSL is valid.
        let scheme = unsafe { sys::SSL_get_peer_signature_algorithm(self.as_ptr()) };
        (scheme != 0).then_some(scheme)
    }
}

/// Whether a handshake may continue with this many certificates.
pub(crate) fn is_chain_acceptable(certificates: usize) -> bool {
    certificates <= MAX_CLIENT_CERTIFICATES
}

/// The alert for a chain that is refused unseen: `bad_certificate`.
pub(crate) const CHAIN_ALERT: c_int = sys::SSL_AD_BAD_CERTIFICATE;
