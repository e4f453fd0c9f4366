//! The client side: for upstreams, the load generator and the tests.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use aws_lc_sys as sys;

use crate::callbacks;
use crate::certificate::CertificateChain;
use crate::cipher::Cipher;
use crate::connection::{Connection, HandshakeStatus, ReadStatus};
use crate::context::{Buffer, Context, ContextBuilder, ProtocolVersion, Verify, c_string};
use crate::error::Error;
use crate::ffi::check;
use crate::group::Group;
use crate::key::PrivateKey;
use crate::key_operation::KeyOperation;
use crate::secret::Secret;
use crate::session::Session;
use crate::verify::{PeerName, Verifier, VerifierBuilder, VerifyFailure};

/// Settings for building a [`ClientContext`].
#[derive(Debug)]
pub struct ClientContextBuilder {
    builder: ContextBuilder,
    verify: Verify,
    trusted: Vec<CertificateChain>,
    verifier: Option<Verifier>,
}

/// The common settings of client connections. Cloning shares it.
#[derive(Clone, Debug)]
pub struct ClientContext(Context);

impl ClientContext {
    pub(crate) fn context(&self) -> &Context {
        &self.0
    }

    /// TLS 1.2 and 1.3, any certificate accepted, no ALPN, sessions kept.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn builder() -> Result<ClientContextBuilder, Error> {
        let mut builder = ContextBuilder::with_buffers()?;
        builder.set_tickets_enabled(true);
        // SAFETY: the context is valid; the callbacks live as long as the process.
        unsafe {
            sys::SSL_CTX_sess_set_new_cb(builder.as_ptr(), Some(callbacks::new_session));
            sys::SSL_CTX_set_custom_verify(
                builder.as_ptr(),
                sys::SSL_VERIFY_PEER,
                Some(callbacks::verify_peer),
            );
        }
        let mut builder = ClientContextBuilder {
            builder,
            verify: Verify::Off,
            trusted: Vec::new(),
            verifier: None,
        };
        builder.set_sessions_kept(true);
        Ok(builder)
    }
}

/// The list of an ALPN extension (RFC 7301 section 3.1).
fn protocol_list(call: &'static str, protocols: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let mut wire = Vec::new();
    for protocol in protocols {
        let length = u8::try_from(protocol.len()).unwrap_or(0);
        if length == 0 {
            return Err(Error::local(call, "names have 1 to 255 bytes"));
        }
        wire.push(length);
        wire.extend_from_slice(protocol);
    }
    Ok(wire)
}

impl ClientContextBuilder {
    #[cfg(test)]
    pub(crate) fn as_ptr(&self) -> *mut aws_lc_sys::SSL_CTX {
        self.builder.as_ptr()
    }

    /// See [`ContextBuilder::set_protocol_range`].
    ///
    /// # Errors
    ///
    /// As the function that it calls.
    pub fn set_protocol_range(
        &mut self,
        min: ProtocolVersion,
        max: ProtocolVersion,
    ) -> Result<(), Error> {
        self.builder.set_protocol_range(min, max)
    }

    /// See [`ContextBuilder::set_cipher_list`].
    ///
    /// # Errors
    ///
    /// As the function that it calls.
    pub fn set_cipher_list(&mut self, list: &str) -> Result<(), Error> {
        self.builder.set_cipher_list(list)
    }

    /// See [`ContextBuilder::set_ciphersuites`].
    ///
    /// # Errors
    ///
    /// As the function that it calls.
    pub fn set_ciphersuites(&mut self, list: &str) -> Result<(), Error> {
        self.builder.set_ciphersuites(list)
    }

    /// See [`ContextBuilder::set_groups`]; a key share is sent for the first.
    ///
    /// # Errors
    ///
    /// As the function that it calls.
    pub fn set_groups(&mut self, groups: &[Group]) -> Result<(), Error> {
        self.builder.set_groups(groups)
    }

    /// Signature algorithms accepted from the server, in OpenSSL's syntax: `ECDSA+SHA256` makes a
    /// server with both kinds send its ECDSA certificate.
    ///
    /// # Errors
    ///
    /// When the list is empty, or holds a name that libssl does not know.
    pub fn set_signature_algorithms(&mut self, list: &str) -> Result<(), Error> {
        let list = c_string("SSL_CTX_set1_sigalgs_list", list)?;
        // SAFETY: context and string are valid.
        check("SSL_CTX_set1_sigalgs_list", unsafe {
            sys::SSL_CTX_set1_sigalgs_list(self.builder.as_ptr(), list.as_ptr())
        })
    }

    /// Signature schemes accepted from the server, by their IANA numbers, preferred first.
    ///
    /// # Errors
    ///
    /// When libssl does not know one of the numbers.
    pub fn set_accepted_schemes(&mut self, schemes: &[u16]) -> Result<(), Error> {
        self.builder.set_accepted_schemes(schemes)
    }

    /// Protocols to offer, preferred first.
    ///
    /// # Errors
    ///
    /// When a name is empty or longer than 255 bytes.
    pub fn set_alpn(&mut self, protocols: &[&[u8]]) -> Result<(), Error> {
        let wire = protocol_list("SSL_CTX_set_alpn_protos", protocols)?;
        // SAFETY: pointer and length describe `wire`. Returns 0 on success.
        let code = unsafe {
            sys::SSL_CTX_set_alpn_protos(self.builder.as_ptr(), wire.as_ptr(), wire.len())
        };
        if code == 0 {
            Ok(())
        } else {
            Err(Error::drain("SSL_CTX_set_alpn_protos"))
        }
    }

    /// Whether tickets are requested and used; without them a TLS 1.2 server may resume by session
    /// id.
    pub fn set_tickets_enabled(&mut self, on: bool) {
        self.builder.set_tickets_enabled(on);
    }

    /// Whether sessions are available ([`ClientConnection::take_session`]).
    pub fn set_sessions_kept(&mut self, on: bool) {
        let mode = if on {
            sys::SSL_SESS_CACHE_CLIENT | sys::SSL_SESS_CACHE_NO_INTERNAL
        } else {
            sys::SSL_SESS_CACHE_OFF
        };
        // SAFETY: the context is valid.
        unsafe { sys::SSL_CTX_set_session_cache_mode(self.builder.as_ptr(), mode) };
    }

    /// Asks for an OCSP response along with the server's certificate (RFC 6066 section 8).
    pub fn ask_for_ocsp_response(&mut self) {
        // SAFETY: the context is valid.
        unsafe { sys::SSL_CTX_enable_ocsp_stapling(self.builder.as_ptr()) };
    }

    /// Whether the server's certificate is checked, against the roots of
    /// [`add_trusted`](Self::add_trusted) and the name of the connection.
    pub fn set_verify(&mut self, verify: Verify) {
        self.verify = verify;
    }

    /// Trusts these certificates as roots.
    ///
    /// # Errors
    ///
    /// When a certificate cannot be parsed, or libssl has no memory.
    pub fn add_trusted(&mut self, roots: &CertificateChain) -> Result<(), Error> {
        self.trusted.push(roots.clone());
        Ok(())
    }

    /// Lets `verifier` judge the server's certificate, regardless of
    /// [`set_verify`](Self::set_verify).
    pub fn set_verifier(&mut self, verifier: Verifier) {
        self.verifier = Some(verifier);
    }

    /// The finished context.
    ///
    /// # Errors
    ///
    /// When the settings contradict each other, or libssl has no memory.
    pub fn build(mut self) -> Result<ClientContext, Error> {
        if self.verify == Verify::Required && self.verifier.is_none() {
            let mut verifier = VerifierBuilder::new(DEFAULT_DEPTH)?;
            for roots in &self.trusted {
                verifier.add_trusted(roots)?;
            }
            self.verifier = Some(verifier.build());
        }
        if let Some(verifier) = self.verifier {
            self.builder.set_verifier(verifier);
        }
        Ok(ClientContext(self.builder.build()?))
    }
}

/// The default maximum number of certificates between a leaf and a root; OpenSSL's.
const DEFAULT_DEPTH: u32 = 100;

/// A certificate chain and its key, for servers that ask for one. Cloning shares it.
#[derive(Clone)]
pub struct ClientIdentity(Arc<Identity>);

struct Identity {
    chain: Vec<Buffer>,
    /// `None`: handshakes return the operations for it.
    key: Option<PrivateKey>,
}

impl ClientIdentity {
    /// A chain with its key.
    ///
    /// # Errors
    ///
    /// When they do not belong together.
    pub fn new(chain: &CertificateChain, key: &PrivateKey) -> Result<Self, Error> {
        chain.leaf().check_key(key)?;
        Ok(Self(Arc::new(Identity {
            chain: Buffer::chain(chain)?,
            key: Some(key.clone()),
        })))
    }

    /// A chain whose key is elsewhere. Handshakes return the operations for it:
    /// [`ClientConnection::take_key_operation`].
    ///
    /// # Errors
    ///
    /// When libssl cannot use a certificate.
    pub fn without_key(chain: &CertificateChain) -> Result<Self, Error> {
        Ok(Self(Arc::new(Identity {
            chain: Buffer::chain(chain)?,
            key: None,
        })))
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientIdentity")
    }
}

/// A client connection: the functions of [`Connection`], plus sessions.
pub struct ClientConnection(Connection);

impl ClientConnection {
    /// A connection to `server_name`, which is sent as SNI and, if the context verifies, must be in
    /// the certificate. An IP address is not sent. `None` sends no name and accepts any.
    ///
    /// # Errors
    ///
    /// When the name is not a valid host name, or libssl has no memory.
    pub fn new(context: &ClientContext, server_name: Option<&str>) -> Result<Self, Error> {
        let Some(name) = server_name else {
            return Self::unnamed(context);
        };
        let peer = match name.parse() {
            Ok(address) => PeerName::Address(address),
            Err(_) => PeerName::Host(name.into()),
        };
        let is_host = matches!(peer, PeerName::Host(_));
        let mut connection = Self::unnamed(context)?;
        connection.expect_name(peer);
        if is_host {
            connection.send_name(name)?;
        }
        Ok(connection)
    }

    /// A connection that sends no name and accepts any name in the certificate.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn unnamed(context: &ClientContext) -> Result<Self, Error> {
        let mut connection = Connection::client(&context.0)?;
        connection.peer = Some(Box::default());
        // SAFETY: the SSL is valid. OpenSSL and nginx do not ask that an RSA certificate
        // for TLS allow signatures, and many private ones do not.
        unsafe { sys::SSL_set_enforce_rsa_key_usage(connection.as_ptr(), 0) };
        Ok(Self(connection))
    }

    /// Protocols to offer instead of those of the context, preferred first.
    ///
    /// # Errors
    ///
    /// When a name is empty or longer than 255 bytes.
    pub fn offer_protocols(&mut self, protocols: &[&[u8]]) -> Result<(), Error> {
        let wire = protocol_list("SSL_set_alpn_protos", protocols)?;
        // SAFETY: the connection is valid, pointer and length describe `wire`. Returns 0 on
        // success.
        let code = unsafe { sys::SSL_set_alpn_protos(self.0.as_ptr(), wire.as_ptr(), wire.len()) };
        match code {
            0 => Ok(()),
            _ => Err(Error::drain("SSL_set_alpn_protos")),
        }
    }

    /// Sends a host name in the ClientHello (RFC 6066 section 3). Call it before the
    /// handshake.
    ///
    /// # Errors
    ///
    /// When it is empty or longer than 255 bytes.
    pub fn send_name(&mut self, name: &str) -> Result<(), Error> {
        let name = c_string("SSL_set_tlsext_host_name", name)?;
        // SAFETY: the SSL and the string are valid; libssl copies the name.
        check("SSL_set_tlsext_host_name", unsafe {
            sys::SSL_set_tlsext_host_name(self.0.as_ptr(), name.as_ptr())
        })
    }

    /// Sets the name that the server's certificate must have, if the context verifies. Call it
    /// before the handshake.
    pub fn expect_name(&mut self, name: PeerName) {
        self.0.peer.get_or_insert_default().name = Some(name);
    }

    /// Length of the OCSP response that came along with the server's certificate; 0 without one.
    pub fn ocsp_response_bytes(&self) -> usize {
        let (mut response, mut length) = (ptr::null(), 0);
        // SAFETY: the SSL is valid; what libssl points to is not read.
        unsafe { sys::SSL_get0_ocsp_response(self.0.as_ptr(), &mut response, &mut length) };
        length
    }

    /// Why the server's certificate was refused, after a handshake that failed.
    pub fn verify_failure(&self) -> Option<VerifyFailure> {
        self.0.peer.as_ref()?.failure
    }

    /// Sends this certificate to a server that asks for one. Call it before the handshake.
    ///
    /// # Errors
    ///
    /// When the key does not belong to the certificate.
    pub fn set_identity(&mut self, identity: &ClientIdentity) -> Result<(), Error> {
        let Identity { chain, key } = &*identity.0;
        let chain: Vec<_> = chain.iter().map(Buffer::as_ptr).collect();
        let (key, method): (_, *const sys::SSL_PRIVATE_KEY_METHOD) = match key {
            Some(key) => (key.as_ptr(), ptr::null()),
            None => (ptr::null_mut(), &callbacks::KEY_METHOD),
        };
        // SAFETY: everything is valid; libssl takes references of its own, and the method is a
        // static.
        check("SSL_set_chain_and_key", unsafe {
            sys::SSL_set_chain_and_key(self.0.as_ptr(), chain.as_ptr(), chain.len(), key, method)
        })
    }

    /// See [`Connection::take_key_operation`].
    pub fn take_key_operation(&mut self) -> Option<KeyOperation> {
        self.0.take_key_operation()
    }

    /// See [`Connection::complete_key_operation`]; call [`handshake`](Self::handshake) next.
    pub fn complete_key_operation(&mut self, result: Option<Secret>) {
        self.0.complete_key_operation(result);
    }

    /// What it has in common with a server's, to be handed to the kernel
    /// ([`Connection::transmit_keys`]).
    pub fn connection(&self) -> &Connection {
        &self.0
    }

    /// The same, to be changed.
    pub fn connection_mut(&mut self) -> &mut Connection {
        &mut self.0
    }

    /// Offers an earlier session. Call it before the handshake.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
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

    /// The last session received from the server, once. In TLS 1.3 tickets arrive with or after the
    /// first data: read first.
    pub fn take_session(&mut self) -> Option<Session> {
        self.0.take_new_session()
    }

    /// See [`Connection::do_handshake`].
    ///
    /// # Errors
    ///
    /// As [`Connection::do_handshake`].
    pub fn handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<HandshakeStatus, Error> {
        let status = self.0.do_handshake(input, output)?;
        // Early data may flow before the server has sent its certificate.
        if status == HandshakeStatus::Done && self.is_established() {
            self.0.peer = None;
        }
        Ok(status)
    }

    /// Whether the handshake is over.
    pub fn is_established(&self) -> bool {
        !self.0.is_handshaking()
    }

    /// See [`Connection::read_into`].
    ///
    /// # Errors
    ///
    /// As [`Connection::read_into`].
    pub fn read_into(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        max_bytes: usize,
    ) -> Result<ReadStatus, Error> {
        self.0.read_into(input, output, plain, max_bytes)
    }

    /// See [`Connection::has_pending`].
    pub fn has_pending(&self) -> bool {
        self.0.has_pending()
    }

    /// See [`Connection::read`].
    ///
    /// # Errors
    ///
    /// As [`Connection::read`].
    pub fn read(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        plain: &mut [u8],
    ) -> Result<ReadStatus, Error> {
        self.0.read(input, output, plain)
    }

    /// See [`Connection::write`].
    ///
    /// # Errors
    ///
    /// As [`Connection::write`].
    pub fn write(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        self.0.write(plain, output)
    }

    /// See [`Connection::shutdown`].
    pub fn shutdown(&mut self, output: &mut Vec<u8>) {
        self.0.shutdown(output);
    }

    /// Updates the write key with the next [`write`](Self::write) (KeyUpdate, RFC 8446 section
    /// 4.6.3), and asks the server to do the same.
    ///
    /// # Errors
    ///
    /// Before TLS 1.3, and before the handshake is done.
    pub fn update_keys(&mut self) -> Result<(), Error> {
        if !self.is_established() {
            return Err(Error::local(
                "SSL_key_update",
                "the handshake is not finished",
            ));
        }
        // SAFETY: the SSL is valid.
        check("SSL_key_update", unsafe {
            sys::SSL_key_update(self.0.as_ptr(), sys::SSL_KEY_UPDATE_REQUESTED)
        })
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

    /// Encrypts the hello for a server with one of these configurations (an `ECHConfigList`).
    ///
    /// # Errors
    ///
    /// When it is no such list.
    pub fn set_ech_configs(&mut self, list: &[u8]) -> Result<(), Error> {
        // SAFETY: the SSL is valid, pointer and length describe `list`.
        check("SSL_set1_ech_config_list", unsafe {
            sys::SSL_set1_ech_config_list(self.0.as_ptr(), list.as_ptr(), list.len())
        })
    }

    /// Sends something that looks like an encrypted hello.
    pub fn set_ech_grease(&mut self) {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_set_enable_ech_grease(self.0.as_ptr(), 1) }
    }

    /// Whether the server has opened the encrypted hello.
    pub fn is_ech_accepted(&self) -> bool {
        self.0.is_ech_accepted()
    }

    /// The configurations that a server has sent that could not open the hello, once the handshake
    /// has failed for it.
    pub fn ech_retry_configs(&self) -> Vec<u8> {
        let (mut list, mut length): (*const u8, usize) = (ptr::null(), 0);
        // SAFETY: the SSL is valid; the list belongs to it and is copied.
        unsafe {
            sys::SSL_get0_ech_retry_configs(self.0.as_ptr(), &mut list, &mut length);
            match list.is_null() {
                true => Vec::new(),
                false => std::slice::from_raw_parts(list, length).to_vec(),
            }
        }
    }

    /// Whether the offered session was resumed.
    pub fn is_session_reused(&self) -> bool {
        self.0.is_session_reused()
    }

    /// The application protocol, empty when none was negotiated.
    pub fn alpn(&self) -> &[u8] {
        self.0.alpn()
    }
}

impl fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client{:?}", self.0)
    }
}
