//! Verifies the certificates of a peer: whether they are trusted and, for a server, belong to the
//! name it was called by.
//!
//! A [`Verifier`] is a set of roots, revocation lists and a depth. It judges the chain as OpenSSL
//! does for the purpose `ssl_server` or `ssl_client`: signatures, validity, extensions and, if
//! there are revocation lists, every certificate of the chain against its issuer's list. Then it
//! compares the names of a server (`X509_check_host` and `X509_check_ip`).
//!
//! libssl keeps certificates as bytes here. They are parsed only while they are judged, so that an
//! idle connection does not hold parsed certificates.

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;

use crate::callbacks;
use crate::certificate::{Certificate, CertificateChain};
use crate::context::Buffer;
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr, static_str};
use crate::key::MemoryBio;
use crate::peer::PeerChain;

/// OpenSSL 3's `X509_V_ERR_INVALID_CA`, which was 24 before.
const OPENSSL_INVALID_CA: i32 = 79;

/// Why the certificates of a peer were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyFailure {
    /// The chain is not trusted: OpenSSL's number (`X509_V_ERR_...`).
    Chain(i32),
    /// The chain is trusted, but the leaf has other names.
    Name,
}

impl VerifyFailure {
    /// No verdict: out of memory, or a certificate that cannot be read.
    pub const UNSPECIFIED: Self = Self::Chain(sys::X509_V_ERR_UNSPECIFIED);
    /// The certificate was revoked.
    pub const REVOKED: Self = Self::Chain(sys::X509_V_ERR_CERT_REVOKED);

    fn library_code(self) -> i32 {
        match self {
            Self::Chain(code) => code,
            Self::Name => sys::X509_V_ERR_HOSTNAME_MISMATCH,
        }
    }

    /// OpenSSL 3's number for it.
    pub fn code(self) -> i32 {
        match self.library_code() {
            sys::X509_V_ERR_INVALID_CA => OPENSSL_INVALID_CA,
            code => code,
        }
    }

    /// Whether the only flaw is that the chain has no trusted issuer, which `ssl_verify_client
    /// optional_no_ca` accepts.
    pub fn is_untrusted_issuer(self) -> bool {
        matches!(
            self.library_code(),
            sys::X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
                | sys::X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN
                | sys::X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
                | sys::X509_V_ERR_CERT_UNTRUSTED
                | sys::X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE
        )
    }

    /// The meaning of the number, in OpenSSL's words.
    pub fn reason(self) -> &'static str {
        let code = self.library_code();
        // Texts that differ between OpenSSL 3 and AWS-LC.
        match code {
            sys::X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT => return "self-signed certificate",
            sys::X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN => {
                return "self-signed certificate in certificate chain";
            }
            sys::X509_V_ERR_INVALID_PURPOSE => return "unsuitable certificate purpose",
            sys::X509_V_ERR_DIFFERENT_CRL_SCOPE => return "different CRL scope",
            sys::X509_V_ERR_UNSUPPORTED_EXTENSION_FEATURE => {
                return "unsupported extension feature";
            }
            _ => {}
        }
        // SAFETY: returns a static string for any number.
        static_str(unsafe { sys::X509_verify_cert_error_string(c_long::from(code)) })
            .unwrap_or("unknown certificate verification error")
    }

    /// The corresponding alert (RFC 8446 section 6.2).
    pub(crate) fn alert(self) -> u8 {
        // SAFETY: answers for any number.
        let alert = unsafe { sys::SSL_alert_from_verify_result(c_long::from(self.library_code())) };
        u8::try_from(alert).unwrap_or(sys::SSL_AD_CERTIFICATE_UNKNOWN as u8)
    }
}

/// The name that a certificate must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerName {
    /// A host name, compared with the DNS names of the certificate or, if it has none, with its
    /// common names. `*` stands for a whole first label; OpenSSL also accepts `a*.example.com`,
    /// which RFC 9525 section 6.3 does not allow.
    Host(Box<str>),
    /// An address, compared with the addresses of the certificate or, in text form, with its host
    /// names, which is how nginx compares it.
    Address(IpAddr),
}

/// The expected identity of a connection's peer, and why it does not match.
#[derive(Debug, Default)]
pub(crate) struct PeerCheck {
    /// Without it, any name is accepted.
    pub(crate) name: Option<PeerName>,
    pub(crate) failure: Option<VerifyFailure>,
}

/// Settings for building a [`Verifier`].
#[derive(Debug)]
pub struct VerifierBuilder {
    store: Store,
    depth: c_int,
    purpose: &'static CStr,
}

impl VerifierBuilder {
    /// Settings for judging servers. Nothing is trusted yet; chains may have up to `depth`
    /// certificates between the leaf and the root.
    ///
    /// # Errors
    ///
    /// When libcrypto has no memory.
    pub fn new(depth: u32) -> Result<Self, Error> {
        Self::with_purpose(depth, c"ssl_server")
    }

    /// The same for judging clients.
    ///
    /// # Errors
    ///
    /// When libcrypto has no memory.
    pub fn for_clients(depth: u32) -> Result<Self, Error> {
        Self::with_purpose(depth, c"ssl_client")
    }

    fn with_purpose(depth: u32, purpose: &'static CStr) -> Result<Self, Error> {
        Ok(Self {
            store: Store::new()?,
            // The library adds two to it.
            depth: c_int::try_from(depth).map_or(c_int::MAX - 2, |depth| depth.min(c_int::MAX - 2)),
            purpose,
        })
    }

    /// Trusts these certificates: self-signed ones as roots; the others help to build chains.
    ///
    /// # Errors
    ///
    /// When a certificate cannot be parsed, or libcrypto has no memory.
    pub fn add_trusted(&mut self, trusted: &CertificateChain) -> Result<(), Error> {
        for certificate in trusted.certificates() {
            self.store.add(certificate)?;
        }
        Ok(())
    }

    /// Adds the revocation lists in PEM text. From then on every certificate of a chain must have a
    /// list from its issuer and not be on it.
    ///
    /// # Errors
    ///
    /// When the text has no list, or one that does not decode.
    pub fn add_revocation_lists(&mut self, pem: &[u8]) -> Result<(), Error> {
        error::clear_queue();
        let bio = MemoryBio::new(pem)?;
        let mut lists = 0_usize;
        loop {
            // SAFETY: the BIO is valid; no password is needed for lists.
            let list = unsafe {
                sys::PEM_read_bio_X509_CRL(bio.as_ptr(), ptr::null_mut(), None, ptr::null_mut())
            };
            if list.is_null() {
                let error = Error::drain("PEM_read_bio_X509_CRL");
                if lists > 0 && error.reason() == Some("NO_START_LINE") {
                    break;
                }
                return Err(error);
            }
            // SAFETY: the store takes a reference of its own; ours is given back.
            let code = unsafe {
                let code = sys::X509_STORE_add_crl(self.store.0.as_ptr(), list);
                sys::X509_CRL_free(list);
                code
            };
            check("X509_STORE_add_crl", code)?;
            lists += 1;
        }
        let flags = sys::X509_V_FLAG_CRL_CHECK | sys::X509_V_FLAG_CRL_CHECK_ALL;
        // SAFETY: the store is valid.
        check("X509_STORE_set_flags", unsafe {
            sys::X509_STORE_set_flags(self.store.0.as_ptr(), flags as c_ulong)
        })
    }

    /// The finished verifier.
    pub fn build(self) -> Verifier {
        Verifier {
            store: self.store,
            depth: self.depth,
            purpose: self.purpose,
        }
    }
}

/// Judges certificates; see the module documentation.
#[derive(Debug)]
pub struct Verifier {
    store: Store,
    depth: c_int,
    purpose: &'static CStr,
}

/// Which flaw of a chain is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    First,
    Last,
}

impl Verifier {
    /// Judges a client's chain as of now.
    ///
    /// # Errors
    ///
    /// Why the chain is not trusted: X.509's error code and the depth at which it occurred.
    pub fn judge_chain(&self, chain: &PeerChain) -> Result<(), VerifyFailure> {
        error::clear_queue();
        let buffers = chain.buffers().iter().map(Buffer::as_ptr);
        // SAFETY: the buffers are valid and immutable.
        let parsed = unsafe { Parsed::of(buffers) }.map_err(|_| VerifyFailure::UNSPECIFIED);
        let judged = parsed.and_then(|parsed| self.judge_parsed(&parsed, None).map(drop));
        error::clear_queue();
        judged
    }

    /// Judges a client's chain as of now. Returns the certificates that lead from the leaf to the
    /// root, both included.
    ///
    /// # Errors
    ///
    /// As [`judge_chain`](Self::judge_chain).
    pub fn trusted_chain(&self, chain: &PeerChain) -> Result<Vec<Certificate>, VerifyFailure> {
        error::clear_queue();
        let buffers = chain.buffers().iter().map(Buffer::as_ptr);
        // SAFETY: the buffers are valid and immutable.
        let parsed = unsafe { Parsed::of(buffers) }.map_err(|_| VerifyFailure::UNSPECIFIED);
        let judged = parsed.and_then(|parsed| self.judge_parsed(&parsed, None)?.chain());
        error::clear_queue();
        judged
    }

    /// Judges the chain that a peer has sent, leaf first.
    ///
    /// # Safety
    ///
    /// `certificates` is null or a stack of valid buffers, which nobody changes.
    pub(crate) unsafe fn judge(
        &self,
        certificates: *const sys::stack_st_CRYPTO_BUFFER,
        name: Option<&PeerName>,
    ) -> Result<(), VerifyFailure> {
        error::clear_queue();
        // SAFETY: by the caller's promise.
        let chain = unsafe { Parsed::new(certificates) }.map_err(|_| VerifyFailure::UNSPECIFIED);
        let judged = chain.and_then(|chain| self.judge_parsed(&chain, name).map(drop));
        // The verdict has what the library recorded; libssl adds its own error.
        error::clear_queue();
        judged
    }

    fn judge_parsed<'c>(
        &self,
        chain: &'c Parsed,
        name: Option<&PeerName>,
    ) -> Result<Run<'c>, VerifyFailure> {
        let leaf = chain.leaf().ok_or(VerifyFailure::UNSPECIFIED)?;
        let run = match self.run(leaf, chain, Report::First) {
            Ok(run) => run,
            Err(first) => {
                // The decision is made. Like nginx, let the library continue and report its last
                // error.
                let last = self.run(leaf, chain, Report::Last).err();
                return Err(last.unwrap_or(first));
            }
        };
        match name {
            Some(name) if !has_name(leaf, name) => Err(VerifyFailure::Name),
            _ => Ok(run),
        }
    }

    fn run<'c>(
        &self,
        leaf: *mut sys::X509,
        chain: &'c Parsed,
        report: Report,
    ) -> Result<Run<'c>, VerifyFailure> {
        // SAFETY: allocates.
        let owned =
            NonNull::new(unsafe { sys::X509_STORE_CTX_new() }).map(|run| Run(run, PhantomData));
        let owned = owned.ok_or(VerifyFailure::UNSPECIFIED)?;
        let run = owned.0.as_ptr();
        // SAFETY: store, leaf and chain are valid and outlive the run; the purpose's name is
        // a static string; the callback has the declared signature.
        unsafe {
            if sys::X509_STORE_CTX_init(run, self.store.0.as_ptr(), leaf, chain.as_ptr()) != 1
                || sys::X509_STORE_CTX_set_default(run, self.purpose.as_ptr()) != 1
            {
                return Err(VerifyFailure::UNSPECIFIED);
            }
            sys::X509_VERIFY_PARAM_set_depth(sys::X509_STORE_CTX_get0_param(run), self.depth);
            if report == Report::Last {
                sys::X509_STORE_CTX_set_verify_cb(run, Some(callbacks::go_on_after_flaw));
            }
            let is_trusted = sys::X509_verify_cert(run) == 1;
            let code = sys::X509_STORE_CTX_get_error(run);
            if code != sys::X509_V_OK {
                return Err(VerifyFailure::Chain(code));
            }
            if !is_trusted {
                return Err(VerifyFailure::UNSPECIFIED);
            }
        }
        Ok(owned)
    }
}

fn has_name(leaf: *mut sys::X509, name: &PeerName) -> bool {
    let has_host = |host: &str| {
        // The length 0 would mean a terminated string.
        // SAFETY: the certificate is valid, pointer and length describe `host`.
        !host.is_empty()
            && unsafe {
                sys::X509_check_host(
                    leaf,
                    host.as_ptr().cast::<c_char>(),
                    host.len(),
                    0,
                    ptr::null_mut(),
                ) == 1
            }
    };
    let has_address = |bytes: &[u8]| {
        // SAFETY: the certificate is valid, pointer and length describe `bytes`.
        unsafe { sys::X509_check_ip(leaf, bytes.as_ptr(), bytes.len(), 0) == 1 }
    };
    match name {
        PeerName::Host(host) => has_host(host),
        PeerName::Address(address) => {
            let has = match address {
                IpAddr::V4(v4) => has_address(&v4.octets()),
                IpAddr::V6(v6) => has_address(&v6.octets()),
            };
            has || has_host(&address.to_string())
        }
    }
}

/// An `X509_STORE`.
pub(crate) struct Store(NonNull<sys::X509_STORE>);

impl Store {
    /// Nothing is trusted yet.
    pub(crate) fn new() -> Result<Self, Error> {
        error::clear_queue();
        // SAFETY: allocates.
        let store = check_ptr("X509_STORE_new", unsafe { sys::X509_STORE_new() })?;
        NonNull::new(store)
            .map(Store)
            .ok_or_else(|| Error::local("X509_STORE_new", "out of memory"))
    }

    pub(crate) fn add(&self, certificate: &Certificate) -> Result<(), Error> {
        // SAFETY: both are valid; the store takes a reference of its own.
        check("X509_STORE_add_cert", unsafe {
            sys::X509_STORE_add_cert(self.0.as_ptr(), certificate.as_ptr())
        })
    }

    /// Certificates in the store need not be self-signed to be trusted.
    pub(crate) fn trust_intermediates(&self) -> Result<(), Error> {
        // SAFETY: the store is valid.
        check("X509_STORE_set_flags", unsafe {
            sys::X509_STORE_set_flags(self.0.as_ptr(), sys::X509_V_FLAG_PARTIAL_CHAIN as c_ulong)
        })
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::X509_STORE {
        self.0.as_ptr()
    }
}

// SAFETY: a store is locked by the library where lookups touch it, and nothing adds to
// it once the verifier is built.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `self` owns.
        unsafe { sys::X509_STORE_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

/// One `X509_STORE_CTX`, which refers to the peer's certificates.
struct Run<'c>(NonNull<sys::X509_STORE_CTX>, PhantomData<&'c Parsed>);

impl Run<'_> {
    /// The chain that was found, leaf first.
    fn chain(&self) -> Result<Vec<Certificate>, VerifyFailure> {
        // SAFETY: the stack belongs to the run; each certificate is referenced once more.
        let chain: Option<Vec<Certificate>> = unsafe {
            let stack = sys::X509_STORE_CTX_get0_chain(self.0.as_ptr());
            let count = match stack.is_null() {
                true => 0,
                false => sys::OPENSSL_sk_num(stack.cast()),
            };
            (0..count)
                .map(|n| Certificate::share(sys::OPENSSL_sk_value(stack.cast(), n).cast()))
                .collect()
        };
        chain
            .filter(|chain| !chain.is_empty())
            .ok_or(VerifyFailure::UNSPECIFIED)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { sys::X509_STORE_CTX_free(self.0.as_ptr()) }
    }
}

/// A peer's certificates, parsed.
struct Parsed(NonNull<sys::stack_st_X509>);

impl Parsed {
    /// # Safety
    ///
    /// As for [`Verifier::judge`].
    unsafe fn new(buffers: *const sys::stack_st_CRYPTO_BUFFER) -> Result<Self, Error> {
        // SAFETY: by the caller's promise.
        unsafe {
            let count = if buffers.is_null() {
                0
            } else {
                sys::OPENSSL_sk_num(buffers.cast())
            };
            Self::of((0..count).map(|n| sys::OPENSSL_sk_value(buffers.cast(), n).cast()))
        }
    }

    /// # Safety
    ///
    /// The buffers are valid, and nobody changes them.
    unsafe fn of(buffers: impl Iterator<Item = *mut sys::CRYPTO_BUFFER>) -> Result<Self, Error> {
        // SAFETY: allocates.
        let stack: *mut sys::stack_st_X509 = unsafe { sys::OPENSSL_sk_new_null() }.cast();
        let parsed = NonNull::new(stack)
            .map(Self)
            .ok_or_else(|| Error::drain("OPENSSL_sk_new_null"))?;
        // SAFETY: by the caller's promise; the stack takes over each certificate, which is
        // freed here when it does not.
        unsafe {
            for buffer in buffers {
                let certificate = sys::X509_parse_from_buffer(buffer);
                let certificate = check_ptr("X509_parse_from_buffer", certificate)?;
                if sys::OPENSSL_sk_push(parsed.0.as_ptr().cast(), certificate.cast()) == 0 {
                    sys::X509_free(certificate);
                    return Err(Error::drain("OPENSSL_sk_push"));
                }
            }
        }
        Ok(parsed)
    }

    fn leaf(&self) -> Option<*mut sys::X509> {
        // SAFETY: the stack is valid and of certificates.
        unsafe {
            let stack = self.0.as_ptr().cast_const().cast();
            (sys::OPENSSL_sk_num(stack) > 0).then(|| sys::OPENSSL_sk_value(stack, 0).cast())
        }
    }

    fn as_ptr(&self) -> *mut sys::stack_st_X509 {
        self.0.as_ptr()
    }
}

impl Drop for Parsed {
    fn drop(&mut self) {
        // SAFETY: the stack and its certificates are owned, and freed once.
        unsafe {
            let stack = self.0.as_ptr().cast();
            while sys::OPENSSL_sk_num(stack) > 0 {
                sys::X509_free(sys::OPENSSL_sk_pop(stack).cast());
            }
            sys::OPENSSL_sk_free(stack);
        }
    }
}
