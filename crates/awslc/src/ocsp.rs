//! OCSP (RFC 6960): the question about a certificate, and what a responder says about it.
//!
//! A response is believed if its signature is right and its signer may speak for the issuer of
//! the certificate: the issuer itself, or a responder that the issuer has certified for it.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use aws_lc_sys as sys;

use crate::certificate::Certificate;
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr, static_str};
use crate::verify::Store;

/// How far apart the clocks of this machine and a responder may be, in seconds; nginx's value.
const CLOCK_SKEW_S: i64 = 300;

/// The longest response that is decoded, in bytes. One has about 2 KiB.
pub const MAX_OCSP_RESPONSE_BYTES: usize = 64 << 10;

/// TLS feature (RFC 7633), with which a certificate demands a staple.
const TLS_FEATURE: &CStr = c"1.3.6.1.5.5.7.1.24";

/// The state of a certificate, as its issuer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateStatus {
    /// Not revoked.
    Good,
    /// Revoked.
    Revoked,
    /// The responder does not know it.
    Unknown,
}

impl fmt::Display for CertificateStatus {
    /// OpenSSL's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "good",
            Self::Revoked => "revoked",
            Self::Unknown => "unknown",
        })
    }
}

/// What a response says about one certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcspAnswer {
    /// The certificate's state.
    pub status: CertificateStatus,
    /// When that was known to be so, in seconds since 1970.
    pub this_update_s: i64,
    /// When something newer will be known; without it, at any time.
    pub next_update_s: Option<i64>,
}

/// Why a response is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OcspFailure {
    /// It does not decode, or its signature or signer is not right.
    Library(Error),
    /// The responder says that it cannot answer, in RFC 6960's words: number and name.
    NotSuccessful(i32, &'static str),
    /// It is about other certificates.
    OtherCertificate,
    /// It has bytes behind its end, or too many altogether.
    Length,
}

impl fmt::Display for OcspFailure {
    /// nginx's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) => error.fmt(f),
            Self::NotSuccessful(number, name) => {
                write!(f, "OCSP response not successful ({number}: {name})")
            }
            Self::OtherCertificate => {
                f.write_str("certificate status not found in the OCSP response")
            }
            Self::Length => f.write_str("OCSP response is too long, or something follows it"),
        }
    }
}

impl std::error::Error for OcspFailure {}

impl From<Error> for OcspFailure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

/// An issuer of certificates, and whom to believe about them. Certificates share it.
pub struct OcspIssuer {
    issuer: Certificate,
    trust: Trust,
}

/// Who may certify responders.
enum Trust {
    /// The issuer of the certificate alone.
    Issuer(Store),
    /// The issuer, if these certificates lead to a root from it (`ssl_stapling_verify`).
    Roots(Store),
}

impl OcspIssuer {
    /// With `roots`, the certificate of a responder other than the issuer has to lead to one of
    /// these.
    ///
    /// # Errors
    ///
    /// When libcrypto has no memory.
    pub fn new(issuer: &Certificate, roots: Option<&[Certificate]>) -> Result<Self, Error> {
        error::clear_queue();
        let store = Store::new()?;
        let trust = match roots {
            Some(roots) => {
                for root in roots {
                    store.add(root)?;
                }
                Trust::Roots(store)
            }
            None => {
                store.add(issuer)?;
                store.trust_intermediates()?;
                Trust::Issuer(store)
            }
        };
        Ok(Self {
            issuer: issuer.clone(),
            trust,
        })
    }

    fn verify(&self, basic: &Basic) -> Result<(), Error> {
        let issuers = Stack::of(&self.issuer)?;
        let (store, flags) = match &self.trust {
            Trust::Issuer(store) => (store, 0),
            // What the issuer itself has signed needs no further authority.
            Trust::Roots(store) => (store, sys::OCSP_TRUSTOTHER),
        };
        // SAFETY: response, stack and store are valid during the call.
        check("OCSP_basic_verify", unsafe {
            sys::OCSP_basic_verify(
                basic.0.as_ptr(),
                issuers.0.as_ptr(),
                store.as_ptr(),
                flags as _,
            )
        })
    }
}

impl fmt::Debug for OcspIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OcspIssuer({:?})", self.issuer)
    }
}

/// The question about one certificate.
pub struct OcspQuestion {
    id: CertificateId,
    request: Box<[u8]>,
    issuer: Arc<OcspIssuer>,
}

impl OcspQuestion {
    /// A question about `certificate`, which `issuer` has issued.
    ///
    /// # Errors
    ///
    /// When libcrypto has no memory, or a certificate is not what it should be.
    pub fn new(certificate: &Certificate, issuer: Arc<OcspIssuer>) -> Result<Self, Error> {
        error::clear_queue();
        let id = CertificateId::new(certificate, &issuer.issuer)?;
        Ok(Self {
            request: request(&id)?.into(),
            id,
            issuer,
        })
    }

    /// The request in DER. It has no nonce, so that responders and caches can answer it with
    /// what they have (RFC 5019).
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// What a response in DER says, if it is believed.
    ///
    /// # Errors
    ///
    /// Why it is not.
    pub fn read(&self, response: &[u8]) -> Result<OcspAnswer, OcspFailure> {
        error::clear_queue();
        let answer = self.find(&basic(response)?, true);
        error::clear_queue();
        answer
    }

    /// What a response in DER says about this certificate, whoever has signed it, and when.
    ///
    /// # Errors
    ///
    /// When it does not decode, or is about other certificates.
    pub fn read_unverified(&self, response: &[u8]) -> Result<OcspAnswer, OcspFailure> {
        error::clear_queue();
        let answer = self.find(&basic(response)?, false);
        error::clear_queue();
        answer
    }

    fn find(&self, basic: &Basic, verify: bool) -> Result<OcspAnswer, OcspFailure> {
        if verify {
            self.issuer.verify(basic)?;
        }
        let mut status: c_int = 0;
        let mut this_update: *mut sys::ASN1_GENERALIZEDTIME = ptr::null_mut();
        let mut next_update: *mut sys::ASN1_GENERALIZEDTIME = ptr::null_mut();
        // SAFETY: response and id are valid; the times that are found belong to the response.
        let found = unsafe {
            sys::OCSP_resp_find_status(
                basic.0.as_ptr(),
                self.id.0.as_ptr(),
                &mut status,
                ptr::null_mut(),
                ptr::null_mut(),
                &mut this_update,
                &mut next_update,
            )
        };
        if found != 1 {
            return Err(OcspFailure::OtherCertificate);
        }
        if verify {
            // SAFETY: the times are valid as long as the response, and the second may be null.
            check("OCSP_check_validity", unsafe {
                sys::OCSP_check_validity(this_update, next_update, CLOCK_SKEW_S as _, -1)
            })?;
        }
        // SAFETY: as above.
        unsafe {
            Ok(OcspAnswer {
                status: match status {
                    sys::V_OCSP_CERTSTATUS_GOOD => CertificateStatus::Good,
                    sys::V_OCSP_CERTSTATUS_REVOKED => CertificateStatus::Revoked,
                    _ => CertificateStatus::Unknown,
                },
                this_update_s: posix(this_update).unwrap_or(0),
                next_update_s: posix(next_update),
            })
        }
    }
}

impl fmt::Debug for OcspQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OcspQuestion")
    }
}

impl Certificate {
    /// Whether `self` has issued `certificate`, by their names and key identifiers.
    pub fn has_issued(&self, certificate: &Certificate) -> bool {
        // SAFETY: both are valid.
        unsafe { sys::X509_check_issued(self.as_ptr(), certificate.as_ptr()) == sys::X509_V_OK }
    }

    /// The addresses of OCSP responders that the certificate names (RFC 5280 section 4.2.2.1).
    pub fn ocsp_responders(&self) -> Vec<String> {
        let mut found = Vec::new();
        // SAFETY: the stack has terminated strings and is owned here; it is freed with its entries.
        unsafe {
            let urls = sys::X509_get1_ocsp(self.as_ptr());
            if urls.is_null() {
                error::clear_queue();
                return found;
            }
            for n in 0..sys::OPENSSL_sk_num(urls.cast()) {
                let url = sys::OPENSSL_sk_value(urls.cast(), n);
                found.push(CStr::from_ptr(url.cast()).to_string_lossy().into_owned());
            }
            sys::X509_email_free(urls);
        }
        found
    }

    /// Whether it demands that a staple is sent with it ("must staple", RFC 7633).
    pub fn demands_staple(&self) -> bool {
        // SAFETY: the object is owned here, and freed once; the certificate is valid.
        unsafe {
            let feature = sys::OBJ_txt2obj(TLS_FEATURE.as_ptr(), 1);
            if feature.is_null() {
                error::clear_queue();
                return false;
            }
            let at = sys::X509_get_ext_by_OBJ(self.as_ptr(), feature, -1);
            sys::ASN1_OBJECT_free(feature);
            at >= 0
        }
    }
}

/// Seconds since 1970 of a time, unless it is absent.
///
/// # Safety
///
/// `time` is valid or null.
unsafe fn posix(time: *mut sys::ASN1_GENERALIZEDTIME) -> Option<i64> {
    if time.is_null() {
        return None;
    }
    let mut seconds = 0;
    // SAFETY: by the caller's promise.
    let code = unsafe { sys::ASN1_TIME_to_posix(time.cast(), &mut seconds) };
    (code == 1).then_some(seconds)
}

fn request(id: &CertificateId) -> Result<Vec<u8>, Error> {
    // SAFETY: the request is owned here and freed once; it takes over the copy of the id, which
    // is freed when it does not. The library allocates the encoding, copied and given back.
    unsafe {
        let request = check_ptr("OCSP_REQUEST_new", sys::OCSP_REQUEST_new())?;
        let copy = sys::OCSP_CERTID_dup(id.0.as_ptr());
        if copy.is_null() || sys::OCSP_request_add0_id(request, copy).is_null() {
            let error = Error::drain("OCSP_request_add0_id");
            sys::OCSP_CERTID_free(copy);
            sys::OCSP_REQUEST_free(request);
            return Err(error);
        }
        let mut bytes: *mut u8 = ptr::null_mut();
        let length = sys::i2d_OCSP_REQUEST(request, &mut bytes);
        sys::OCSP_REQUEST_free(request);
        let Ok(length) = usize::try_from(length) else {
            return Err(Error::drain("i2d_OCSP_REQUEST"));
        };
        let der = std::slice::from_raw_parts(bytes, length).to_vec();
        sys::OPENSSL_free(bytes.cast());
        Ok(der)
    }
}

/// Whether a response in DER has an answer, about whichever certificate.
///
/// # Errors
///
/// Why it has none.
pub fn check_ocsp_response(response: &[u8]) -> Result<(), OcspFailure> {
    error::clear_queue();
    basic(response).map(drop)
}

/// Decodes a response that has an answer.
fn basic(response: &[u8]) -> Result<Basic, OcspFailure> {
    let mut at = response.as_ptr();
    let length = match response.len() {
        length @ ..=MAX_OCSP_RESPONSE_BYTES => length as _,
        _ => return Err(OcspFailure::Length),
    };
    // SAFETY: the pointer is to that many bytes; the result is owned and freed once.
    unsafe {
        let decoded = sys::d2i_OCSP_RESPONSE(ptr::null_mut(), &mut at, length);
        let decoded = check_ptr("d2i_OCSP_RESPONSE", decoded)?;
        let basic = if at != response.as_ptr_range().end {
            Err(OcspFailure::Length)
        } else {
            match sys::OCSP_response_status(decoded) {
                sys::OCSP_RESPONSE_STATUS_SUCCESSFUL => {
                    let basic = sys::OCSP_response_get1_basic(decoded);
                    NonNull::new(basic)
                        .map(Basic)
                        .ok_or_else(|| Error::drain("OCSP_response_get1_basic").into())
                }
                status => {
                    let name = sys::OCSP_response_status_str(status.into());
                    let name = static_str(name).unwrap_or("unknown");
                    Err(OcspFailure::NotSuccessful(status, name))
                }
            }
        };
        sys::OCSP_RESPONSE_free(decoded);
        basic
    }
}

/// The signed part of a response.
struct Basic(NonNull<sys::OCSP_BASICRESP>);

impl Drop for Basic {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { sys::OCSP_BASICRESP_free(self.0.as_ptr()) }
    }
}

/// How a certificate is named in requests and responses.
struct CertificateId(NonNull<sys::OCSP_CERTID>);

// SAFETY: the id is never changed once it is made; reading it touches nothing of a thread.
unsafe impl Send for CertificateId {}
// SAFETY: as above.
unsafe impl Sync for CertificateId {}

impl CertificateId {
    fn new(certificate: &Certificate, issuer: &Certificate) -> Result<Self, Error> {
        // SAFETY: both are valid; a null digest is SHA-1, which all responders understand
        // (RFC 5019 section 2.1.1). It names the issuer and secures nothing.
        let id =
            unsafe { sys::OCSP_cert_to_id(ptr::null(), certificate.as_ptr(), issuer.as_ptr()) };
        let id = check_ptr("OCSP_cert_to_id", id)?;
        NonNull::new(id)
            .map(Self)
            .ok_or_else(|| Error::local("OCSP_cert_to_id", "out of memory"))
    }
}

impl Drop for CertificateId {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { sys::OCSP_CERTID_free(self.0.as_ptr()) }
    }
}

/// A list of one certificate, which it borrows.
struct Stack(NonNull<sys::stack_st_X509>);

impl Stack {
    fn of(certificate: &Certificate) -> Result<Self, Error> {
        // SAFETY: allocates; the certificate stays valid, as the caller keeps it, and the
        // stack frees itself alone.
        unsafe {
            let stack = check_ptr("OPENSSL_sk_new_null", sys::OPENSSL_sk_new_null())?;
            let stack = NonNull::new(stack.cast())
                .map(Self)
                .ok_or_else(|| Error::local("OPENSSL_sk_new_null", "out of memory"))?;
            if sys::OPENSSL_sk_push(stack.0.as_ptr().cast(), certificate.as_ptr().cast()) == 0 {
                return Err(Error::drain("OPENSSL_sk_push"));
            }
            Ok(stack)
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the stack is owned, its entry is not.
        unsafe { sys::OPENSSL_sk_free(self.0.as_ptr().cast()) }
    }
}
