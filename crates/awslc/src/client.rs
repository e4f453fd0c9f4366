//! The client side: for the load generator, the tests, and later upstreams.

use std::fmt;

use aws_lc_sys as sys;

use crate::callbacks;
use crate::certificate::CertificateChain;
use crate::cipher::Cipher;
use crate::connection::{Connection, HandshakeStatus, ReadStatus};
use crate::context::{Context, ContextBuilder, ProtocolVersion, Verify, c_string};
use crate::error::Error;
use crate::ffi::check;
use crate::group::Group;
use crate::session::Session;

/// Settings of a [`ClientContext`] to be.
#[derive(Debug)]
pub struct ClientContextBuilder(ContextBuilder);

/// What client connections have in common. Cloning shares it.
#[derive(Clone, Debug)]
pub struct ClientContext(Context);

impl ClientContext {
    pub(crate) fn context(&self) -> &Context {
        &self.0
    }

    /// TLS 1.2 and 1.3, any certificate accepted, no ALPN, sessions handed out.
    pub fn builder() -> Result<ClientContextBuilder, Error> {
        let mut builder = ContextBuilder::new()?;
        builder.set_tickets_enabled(true);
        let mode = sys::SSL_SESS_CACHE_CLIENT | sys::SSL_SESS_CACHE_NO_INTERNAL;
        // SAFETY: the context is valid; the callback lives as long as the process.
        unsafe {
            sys::SSL_CTX_set_session_cache_mode(builder.as_ptr(), mode);
            sys::SSL_CTX_sess_set_new_cb(builder.as_ptr(), Some(callbacks::new_session));
        }
        let mut builder = ClientContextBuilder(builder);
        builder.set_verify(Verify::Off);
        Ok(builder)
    }
}

impl ClientContextBuilder {
    /// See [`ContextBuilder::set_protocol_range`].
    pub fn set_protocol_range(
        &mut self,
        min: ProtocolVersion,
        max: ProtocolVersion,
    ) -> Result<(), Error> {
        self.0.set_protocol_range(min, max)
    }

    /// See [`ContextBuilder::set_cipher_list`].
    pub fn set_cipher_list(&mut self, list: &str) -> Result<(), Error> {
        self.0.set_cipher_list(list)
    }

    /// See [`ContextBuilder::set_ciphersuites`].
    pub fn set_ciphersuites(&mut self, list: &str) -> Result<(), Error> {
        self.0.set_ciphersuites(list)
    }

    /// See [`ContextBuilder::set_groups`]; a key share is sent for the first.
    pub fn set_groups(&mut self, groups: &[Group]) -> Result<(), Error> {
        self.0.set_groups(groups)
    }

    /// Signature algorithms accepted from the server, in OpenSSL's syntax:
    /// `ECDSA+SHA256` makes a server with both kinds show its ECDSA certificate.
    pub fn set_signature_algorithms(&mut self, list: &str) -> Result<(), Error> {
        let list = c_string("SSL_CTX_set1_sigalgs_list", list)?;
        // SAFETY: context and string are valid.
        check("SSL_CTX_set1_sigalgs_list", unsafe {
            sys::SSL_CTX_set1_sigalgs_list(self.0.as_ptr(), list.as_ptr())
        })
    }

    /// Protocols to offer, preferred first.
    ///
    /// # Errors
    ///
    /// When a name is empty or longer than 255 bytes.
    pub fn set_alpn(&mut self, protocols: &[&[u8]]) -> Result<(), Error> {
        let mut wire = Vec::new();
        for protocol in protocols {
            let length = u8::try_from(protocol.len()).unwrap_or(0);
            if length == 0 {
                return Err(Error::local(
                    "SSL_CTX_set_alpn_protos",
                    "names have 1 to 255 bytes",
                ));
            }
            wire.push(length);
            wire.extend_from_slice(protocol);
        }
        // SAFETY: pointer and length describe `wire`. Returns 0 on success.
        let code =
            unsafe { sys::SSL_CTX_set_alpn_protos(self.0.as_ptr(), wire.as_ptr(), wire.len()) };
        if code == 0 {
            Ok(())
        } else {
            Err(Error::drain("SSL_CTX_set_alpn_protos"))
        }
    }

    /// Whether tickets are asked for and used; without them a TLS 1.2 server
    /// may resume by session id.
    pub fn set_tickets_enabled(&mut self, on: bool) {
        self.0.set_tickets_enabled(on);
    }

    /// Whether the server's certificate is checked.
    pub fn set_verify(&mut self, verify: Verify) {
        // SAFETY: the context is valid; the callback lives as long as the process.
        unsafe {
            match verify {
                Verify::Off => sys::SSL_CTX_set_custom_verify(
                    self.0.as_ptr(),
                    sys::SSL_VERIFY_PEER,
                    Some(callbacks::verify_nothing),
                ),
                Verify::Required => {
                    sys::SSL_CTX_set_custom_verify(self.0.as_ptr(), sys::SSL_VERIFY_PEER, None);
                    sys::SSL_CTX_set_verify(self.0.as_ptr(), sys::SSL_VERIFY_PEER, None);
                }
            }
        }
    }

    /// Trusts the certificates in PEM text as roots.
    pub fn add_trusted(&mut self, roots: &CertificateChain) -> Result<(), Error> {
        for root in roots.certificates() {
            // SAFETY: the store belongs to the context and takes a reference of
            // its own.
            check("X509_STORE_add_cert", unsafe {
                sys::X509_STORE_add_cert(
                    sys::SSL_CTX_get_cert_store(self.0.as_ptr()),
                    root.as_ptr(),
                )
            })?;
        }
        Ok(())
    }

    /// The finished context.
    pub fn build(self) -> Result<ClientContext, Error> {
        Ok(ClientContext(self.0.build()?))
    }
}

/// A client connection: the calls of [`Connection`], and sessions.
pub struct ClientConnection(Connection);

impl ClientConnection {
    /// A connection to `server_name`, which is sent as SNI and, when the context
    /// verifies, must be in the certificate. An IP address or `None` sends none.
    pub fn new(context: &ClientContext, server_name: Option<&str>) -> Result<Self, Error> {
        let connection = Connection::client(&context.0)?;
        if let Some(name) = server_name
            && name.parse::<std::net::IpAddr>().is_err()
        {
            let name = c_string("SSL_set_tlsext_host_name", name)?;
            // SAFETY: the SSL and the string are valid; libssl copies the name.
            unsafe {
                check(
                    "SSL_set_tlsext_host_name",
                    sys::SSL_set_tlsext_host_name(connection.as_ptr(), name.as_ptr()),
                )?;
                check(
                    "SSL_set1_host",
                    sys::SSL_set1_host(connection.as_ptr(), name.as_ptr()),
                )?;
            }
        }
        Ok(Self(connection))
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.0
    }

    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.0
    }

    #[cfg(test)]
    pub(crate) fn as_ptr(&self) -> *mut sys::SSL {
        self.0.as_ptr()
    }

    /// Offers an earlier session. Call it before the handshake.
    ///
    /// # Panics
    ///
    /// When the handshake has begun.
    pub fn set_session(&mut self, session: &Session) -> Result<(), Error> {
        assert!(
            self.0.is_handshaking(),
            "a session is set before the handshake"
        );
        // SAFETY: both are valid; the SSL takes its own reference.
        check("SSL_set_session", unsafe {
            sys::SSL_set_session(self.0.as_ptr(), session.as_ptr())
        })
    }

    /// The last session the server gave, once. In TLS 1.3 tickets arrive with or
    /// after the first data: read first.
    pub fn take_session(&mut self) -> Option<Session> {
        self.0.take_new_session()
    }

    /// See [`Connection::do_handshake`].
    pub fn handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<HandshakeStatus, Error> {
        self.0.do_handshake(input, output)
    }

    /// See [`Connection::read`].
    pub fn read(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        plain: &mut [u8],
    ) -> Result<ReadStatus, Error> {
        self.0.read(input, output, plain)
    }

    /// See [`Connection::write`].
    pub fn write(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        self.0.write(plain, output)
    }

    /// See [`Connection::shutdown`].
    pub fn shutdown(&mut self, output: &mut Vec<u8>) {
        self.0.shutdown(output);
    }

    /// Protocol in OpenSSL's words: `TLSv1.3`.
    pub fn protocol(&self) -> &'static str {
        self.0.protocol()
    }

    /// The suite, once negotiated.
    pub fn cipher(&self) -> Option<Cipher> {
        self.0.cipher()
    }

    /// The key-exchange group; `None` with static RSA.
    pub fn group(&self) -> Option<Group> {
        self.0.group()
    }

    /// The scheme with which the server signed; `None` when nothing was signed.
    pub fn signature_scheme(&self) -> Option<u16> {
        self.0.signature_scheme()
    }

    /// Whether the offered session was resumed.
    pub fn is_session_reused(&self) -> bool {
        self.0.is_session_reused()
    }

    /// The application protocol, empty when none was negotiated.
    pub fn alpn(&self) -> &[u8] {
        self.0.alpn()
    }

    /// The server's leaf certificate in DER; `None` before it arrived and after
    /// a resumption that did not carry it.
    pub fn peer_certificate_der(&self) -> Option<Vec<u8>> {
        // SAFETY: the buffers belong to the SSL and are copied at once.
        unsafe {
            let chain = sys::SSL_get0_peer_certificates(self.0.as_ptr());
            if chain.is_null() || sys::OPENSSL_sk_num(chain.cast()) == 0 {
                return None;
            }
            let leaf: *const sys::CRYPTO_BUFFER = sys::OPENSSL_sk_value(chain.cast(), 0).cast();
            let bytes = std::slice::from_raw_parts(
                sys::CRYPTO_BUFFER_data(leaf),
                sys::CRYPTO_BUFFER_len(leaf),
            );
            Some(bytes.to_vec())
        }
    }
}

impl fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client{:?}", self.0)
    }
}
