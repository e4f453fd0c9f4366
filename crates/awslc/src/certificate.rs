//! Certificates and their chains.

use std::ffi::{CStr, c_int};
use std::fmt::{self, Write};
use std::net::IpAddr;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;

use crate::context::Buffer;
use crate::error::{self, Error};
use crate::ffi::check_ptr;
use crate::key::{KeyKind, MemoryBio, PrivateKey, public_key_der};

/// A parsed X.509 certificate. Cloning shares it.
pub struct Certificate(NonNull<sys::X509>);

// SAFETY: certificates are counted atomically; parsing filled their caches
// under the library's own locks, and nothing here changes them.
unsafe impl Send for Certificate {}
// SAFETY: as above.
unsafe impl Sync for Certificate {}

/// Why a chain could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateError(pub Error);

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for CertificateError {}

impl Certificate {
    /// DER encoding.
    ///
    /// # Errors
    ///
    /// When libcrypto has no memory.
    pub fn to_der(&self) -> Result<Vec<u8>, Error> {
        let mut bytes: *mut u8 = ptr::null_mut();
        // SAFETY: the certificate is valid; with a null target the library
        // allocates.
        let length = unsafe { sys::i2d_X509(self.as_ptr(), &mut bytes) };
        let Ok(length) = usize::try_from(length) else {
            return Err(Error::drain("i2d_X509"));
        };
        // SAFETY: the library allocated `length` bytes, copied and given back.
        unsafe {
            let der = std::slice::from_raw_parts(bytes, length).to_vec();
            sys::OPENSSL_free(bytes.cast());
            Ok(der)
        }
    }

    /// Subject in RFC 2253 form, as nginx prints distinguished names.
    pub fn subject(&self) -> Option<String> {
        // SAFETY: the name lives as long as the certificate.
        unsafe { print_name(sys::X509_get_subject_name(self.as_ptr())) }
    }

    /// Issuer in RFC 2253 form.
    pub fn issuer(&self) -> Option<String> {
        // SAFETY: the name lives as long as the certificate.
        unsafe { print_name(sys::X509_get_issuer_name(self.as_ptr())) }
    }

    /// Parses a certificate in libssl's representation.
    pub(crate) fn from_buffer(buffer: &Buffer) -> Result<Self, Error> {
        error::clear_queue();
        // SAFETY: the buffer is valid; the certificate takes a reference of its own.
        let certificate = unsafe { sys::X509_parse_from_buffer(buffer.as_ptr()) };
        owned(check_ptr("X509_parse_from_buffer", certificate)?)
    }

    /// References a certificate of the library's once more; `None` for a null pointer.
    ///
    /// # Safety
    ///
    /// `certificate` is valid or null.
    pub(crate) unsafe fn share(certificate: *mut sys::X509) -> Option<Self> {
        let certificate = NonNull::new(certificate)?;
        // SAFETY: by the caller's promise; the reference is given back when this is dropped.
        unsafe { sys::X509_up_ref(certificate.as_ptr()) };
        Some(Self(certificate))
    }

    /// Subject in OpenSSL's old format: `/C=DE/CN=x`.
    pub fn subject_oneline(&self) -> Option<String> {
        // SAFETY: the name lives as long as the certificate.
        unsafe { oneline(sys::X509_get_subject_name(self.as_ptr())) }
    }

    /// Issuer in the same format.
    pub fn issuer_oneline(&self) -> Option<String> {
        // SAFETY: the name lives as long as the certificate.
        unsafe { oneline(sys::X509_get_issuer_name(self.as_ptr())) }
    }

    /// Subject in DER.
    ///
    /// # Errors
    ///
    /// When libcrypto has no memory.
    pub fn subject_der(&self) -> Result<Vec<u8>, Error> {
        let mut bytes: *mut u8 = ptr::null_mut();
        // SAFETY: the name lives as long as the certificate; with a null target the
        // library allocates, and what it wrote is copied and given back.
        unsafe {
            let name = sys::X509_get_subject_name(self.as_ptr());
            let length = sys::i2d_X509_NAME(name, &mut bytes);
            let Ok(length) = usize::try_from(length) else {
                return Err(Error::drain("i2d_X509_NAME"));
            };
            let der = std::slice::from_raw_parts(bytes, length).to_vec();
            sys::OPENSSL_free(bytes.cast());
            Ok(der)
        }
    }

    /// Serial number in hexadecimal, upper case; with a sign if it is negative.
    pub fn serial(&self) -> String {
        // SAFETY: the number lives as long as the certificate, and its bytes are copied.
        let (mut bytes, is_negative) = unsafe {
            let number = sys::X509_get0_serialNumber(self.as_ptr());
            let kind = sys::ASN1_STRING_type(number);
            (asn1_bytes(number), kind == sys::V_ASN1_NEG_INTEGER)
        };
        if bytes.is_empty() {
            bytes.push(0);
        }
        let sign = if is_negative { "-" } else { "" };
        let mut text = String::from(sign);
        for byte in bytes {
            let _ = write!(text, "{byte:02X}");
        }
        text
    }

    /// The start of its validity as OpenSSL prints it: `Nov 22 14:04:52 2026 GMT`.
    pub fn not_before_text(&self) -> Option<String> {
        // SAFETY: the time lives as long as the certificate.
        unsafe { print_time(sys::X509_get0_notBefore(self.as_ptr())) }
    }

    /// The end of its validity in the same format.
    pub fn not_after_text(&self) -> Option<String> {
        // SAFETY: the time lives as long as the certificate.
        unsafe { print_time(sys::X509_get0_notAfter(self.as_ptr())) }
    }

    /// The start of its validity, in seconds since 1970.
    pub fn not_before_unix_s(&self) -> Option<i64> {
        // SAFETY: the time lives as long as the certificate.
        unsafe { unix_s(sys::X509_get0_notBefore(self.as_ptr())) }
    }

    /// The end of its validity, in seconds since 1970.
    pub fn not_after_unix_s(&self) -> Option<i64> {
        // SAFETY: the time lives as long as the certificate.
        unsafe { unix_s(sys::X509_get0_notAfter(self.as_ptr())) }
    }

    /// The serial number as DER has it: the first bit is the sign.
    pub fn serial_der(&self) -> Vec<u8> {
        // SAFETY: the number lives as long as the certificate, and its bytes are copied.
        let magnitude = unsafe { asn1_bytes(sys::X509_get0_serialNumber(self.as_ptr())) };
        match magnitude.first() {
            Some(first) if *first < 0x80 => magnitude,
            _ => [&[0][..], &magnitude].concat(),
        }
    }

    /// The key identifier of its issuer, if it names one.
    pub fn authority_key_id(&self) -> Option<Vec<u8>> {
        // SAFETY: the identifier, if there is one, lives as long as the certificate, and its bytes
        // are copied.
        unsafe {
            let identifier = sys::X509_get0_authority_key_id(self.as_ptr());
            (!identifier.is_null()).then(|| asn1_bytes(identifier))
        }
    }

    /// The common name of its issuer; of several, the first.
    pub fn issuer_common_name(&self) -> Option<String> {
        // SAFETY: the name belongs to the certificate, which outlives the call.
        unsafe { common_name(sys::X509_get_issuer_name(self.as_ptr())) }
    }

    /// Its own common name; of several, the first.
    pub fn common_name(&self) -> Option<String> {
        // SAFETY: the name belongs to the certificate, which outlives the call.
        unsafe { common_name(sys::X509_get_subject_name(self.as_ptr())) }
    }

    /// OpenSSL's short name of the algorithm with which it is signed, `RSA-SHA256`; empty for one
    /// that the library does not know.
    pub fn signature_name(&self) -> &'static str {
        // SAFETY: the certificate is valid; the names of algorithms live as long as the process.
        unsafe {
            let name = sys::OBJ_nid2sn(sys::X509_get_signature_nid(self.as_ptr()));
            match name.is_null() {
                true => "",
                false => CStr::from_ptr(name).to_str().unwrap_or(""),
            }
        }
    }

    /// Algorithm and size of its key, as the PROXY protocol names them: `RSA2048`, `EC256`. `None`
    /// for other algorithms.
    pub fn key_name(&self) -> Option<String> {
        // SAFETY: the certificate is valid, and the key belongs to it.
        let (kind, bits) = unsafe {
            let key = sys::X509_get0_pubkey(self.as_ptr());
            if key.is_null() {
                error::clear_queue();
                return None;
            }
            (sys::EVP_PKEY_id(key), sys::EVP_PKEY_bits(key))
        };
        match kind {
            sys::EVP_PKEY_RSA | sys::EVP_PKEY_RSA_PSS => Some(format!("RSA{bits}")),
            sys::EVP_PKEY_EC => Some(format!("EC{bits}")),
            _ => None,
        }
    }

    /// The DNS names of the subject alternative name extension, lower case.
    pub fn dns_names(&self) -> Vec<String> {
        let names = self.alternative_names(sys::GEN_DNS).into_iter();
        names
            .map(|name| String::from_utf8_lossy(&name).to_ascii_lowercase())
            .collect()
    }

    /// The addresses of the same extension.
    pub fn ip_addresses(&self) -> Vec<IpAddr> {
        let address = |bytes: Vec<u8>| match bytes.len() {
            4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        };
        let addresses = self.alternative_names(sys::GEN_IPADD).into_iter();
        addresses.filter_map(address).collect()
    }

    /// The values of one kind in the subject alternative name extension.
    fn alternative_names(&self, wanted: c_int) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        // SAFETY: the extension is a GENERAL_NAMES stack owned by this function;
        // its entries are valid until it is freed.
        unsafe {
            let general: *mut sys::GENERAL_NAMES = sys::X509_get_ext_d2i(
                self.as_ptr(),
                sys::NID_subject_alt_name,
                ptr::null_mut(),
                ptr::null_mut(),
            )
            .cast();
            if general.is_null() {
                error::clear_queue();
                return names;
            }
            for n in 0..sys::OPENSSL_sk_num(general.cast()) {
                let mut kind: c_int = 0;
                let value = sys::GENERAL_NAME_get0_value(
                    sys::OPENSSL_sk_value(general.cast(), n).cast(),
                    &mut kind,
                );
                if kind == wanted {
                    names.push(asn1_bytes(value.cast()));
                }
            }
            sys::GENERAL_NAMES_free(general);
        }
        names
    }

    /// Whether `key` belongs to this certificate; the error says why not.
    ///
    /// # Errors
    ///
    /// `KEY_VALUES_MISMATCH` or `KEY_TYPE_MISMATCH`, in libcrypto's words.
    pub fn check_key(&self, key: &PrivateKey) -> Result<(), Error> {
        error::clear_queue();
        // SAFETY: both are valid.
        let code = unsafe { sys::X509_check_private_key(self.as_ptr(), key.as_ptr()) };
        if code == 1 {
            Ok(())
        } else {
            Err(Error::drain("SSL_CTX_use_PrivateKey"))
        }
    }

    /// The kind and the size in bits of its public key; `None` if the library cannot read it.
    pub fn key_kind(&self) -> Option<(KeyKind, u32)> {
        // SAFETY: the certificate is valid; its key lives as long as it does, and null is checked.
        unsafe {
            let key = sys::X509_get0_pubkey(self.as_ptr());
            (!key.is_null()).then(|| {
                let bits = u32::try_from(sys::EVP_PKEY_bits(key)).unwrap_or(0);
                (KeyKind::of(key), bits)
            })
        }
    }

    /// Its public key as a SubjectPublicKeyInfo in DER (RFC 5280 section 4.1.2.7).
    ///
    /// # Errors
    ///
    /// When libcrypto cannot read the key, or has no memory.
    pub fn public_key_der(&self) -> Result<Vec<u8>, Error> {
        error::clear_queue();
        // SAFETY: as above.
        unsafe {
            let key = sys::X509_get0_pubkey(self.as_ptr());
            public_key_der(check_ptr("X509_get0_pubkey", key)?)
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::X509 {
        self.0.as_ptr()
    }
}

impl Clone for Certificate {
    fn clone(&self) -> Self {
        // SAFETY: adds a reference to a valid certificate.
        let code = unsafe { sys::X509_up_ref(self.as_ptr()) };
        debug_assert_eq!(code, 1, "adding a reference cannot fail");
        Self(self.0)
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `self` owns.
        unsafe { sys::X509_free(self.as_ptr()) }
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.subject().unwrap_or_default())
    }
}

/// A leaf certificate and those that connect it to a root, in the file's order.
#[derive(Clone, Debug)]
pub struct CertificateChain {
    certificates: Vec<Certificate>,
}

/// The most certificates read from one file; a handshake could not send more anyway.
const MAX_CHAIN_CERTIFICATES: usize = 100;

impl CertificateChain {
    /// Reads every certificate in PEM text; the first is the leaf.
    ///
    /// # Errors
    ///
    /// The text holds no certificate, too many, or one that cannot be parsed.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        Self::read(pem, MAX_CHAIN_CERTIFICATES)
    }

    /// Reads every certificate in PEM text, without a limit: a bundle of roots.
    ///
    /// # Errors
    ///
    /// The text holds no certificate, or one that cannot be parsed.
    pub fn bundle_from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        Self::read(pem, usize::MAX)
    }

    fn read(pem: &[u8], most: usize) -> Result<Self, CertificateError> {
        error::clear_queue();
        let bio = MemoryBio::new(pem).map_err(CertificateError)?;
        // SAFETY: the BIO is valid, no password callback is needed for
        // certificates.
        let leaf = unsafe {
            sys::PEM_read_bio_X509_AUX(bio.as_ptr(), ptr::null_mut(), None, ptr::null_mut())
        };
        let leaf = check_ptr("PEM_read_bio_X509_AUX", leaf).map_err(CertificateError)?;
        let mut certificates = vec![owned(leaf).map_err(CertificateError)?];
        while certificates.len() < most {
            // SAFETY: as above.
            let next = unsafe {
                sys::PEM_read_bio_X509(bio.as_ptr(), ptr::null_mut(), None, ptr::null_mut())
            };
            if next.is_null() {
                let error = Error::drain("PEM_read_bio_X509");
                if error.reason() == Some("NO_START_LINE") {
                    break;
                }
                return Err(CertificateError(error));
            }
            certificates.push(owned(next).map_err(CertificateError)?);
        }
        Ok(Self { certificates })
    }

    /// The server's own certificate.
    pub fn leaf(&self) -> &Certificate {
        self.certificates
            .first()
            .expect("from_pem reads at least one certificate")
    }

    /// Every certificate, the leaf first.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }
}

fn owned(pointer: *mut sys::X509) -> Result<Certificate, Error> {
    NonNull::new(pointer)
        .map(Certificate)
        .ok_or_else(|| Error::local("PEM_read_bio_X509", "no certificate"))
}

/// # Safety
///
/// `name` is valid.
unsafe fn common_name(name: *mut sys::X509_NAME) -> Option<String> {
    // SAFETY: as the caller promises; the text is allocated by the library, copied and given back.
    unsafe {
        let index = sys::X509_NAME_get_index_by_NID(name, sys::NID_commonName, -1);
        if index < 0 {
            return None;
        }
        let entry = sys::X509_NAME_get_entry(name, index);
        let mut text: *mut u8 = ptr::null_mut();
        let length = sys::ASN1_STRING_to_UTF8(&mut text, sys::X509_NAME_ENTRY_get_data(entry));
        let Ok(length) = usize::try_from(length) else {
            error::clear_queue();
            return None;
        };
        let copy = std::slice::from_raw_parts(text, length).to_vec();
        sys::OPENSSL_free(text.cast());
        String::from_utf8(copy).ok()
    }
}

/// # Safety
///
/// `name` is valid.
unsafe fn print_name(name: *mut sys::X509_NAME) -> Option<String> {
    let flags = sys::XN_FLAG_RFC2253 as std::ffi::c_ulong;
    // SAFETY: by the caller's promise; the BIO is valid during the call.
    printed(|bio| unsafe { sys::X509_NAME_print_ex(bio, name, 0, flags) >= 0 })
}

/// # Safety
///
/// `time` is valid.
unsafe fn unix_s(time: *const sys::ASN1_TIME) -> Option<i64> {
    let mut seconds = 0;
    // SAFETY: by the caller's promise.
    let code = unsafe { sys::ASN1_TIME_to_posix(time, &mut seconds) };
    (code == 1).then_some(seconds)
}

/// # Safety
///
/// `text` is valid.
unsafe fn asn1_bytes(text: *const sys::ASN1_STRING) -> Vec<u8> {
    // SAFETY: by the caller's promise; the data are as long as the library says, and copied.
    unsafe {
        match usize::try_from(sys::ASN1_STRING_length(text)) {
            Ok(length @ 1..) => {
                std::slice::from_raw_parts(sys::ASN1_STRING_get0_data(text), length).to_vec()
            }
            _ => Vec::new(),
        }
    }
}

/// # Safety
///
/// `time` is valid.
unsafe fn print_time(time: *const sys::ASN1_TIME) -> Option<String> {
    // SAFETY: by the caller's promise; the BIO is valid during the call.
    printed(|bio| unsafe { sys::ASN1_TIME_print(bio, time) == 1 })
}

/// # Safety
///
/// `name` is valid.
unsafe fn oneline(name: *mut sys::X509_NAME) -> Option<String> {
    // SAFETY: by the caller's promise; without a buffer the library allocates a terminated
    // string, which is copied and given back.
    unsafe {
        let text = sys::X509_NAME_oneline(name, ptr::null_mut(), 0);
        if text.is_null() {
            error::clear_queue();
            return None;
        }
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        sys::OPENSSL_free(text.cast());
        Some(copy)
    }
}

/// The output that `print` writes into a BIO, if it reports success.
fn printed(print: impl FnOnce(*mut sys::BIO) -> bool) -> Option<String> {
    // SAFETY: the memory BIO is owned here, and its contents are copied before it is freed.
    unsafe {
        let bio = sys::BIO_new(sys::BIO_s_mem());
        if bio.is_null() {
            return None;
        }
        let printed = print(bio);
        let mut text = None;
        let (mut bytes, mut length): (*const u8, usize) = (ptr::null(), 0);
        if printed && sys::BIO_mem_contents(bio, &mut bytes, &mut length) == 1 {
            let contents = if length == 0 {
                &[][..]
            } else {
                std::slice::from_raw_parts(bytes, length)
            };
            text = Some(String::from_utf8_lossy(contents).into_owned());
        }
        sys::BIO_free(bio);
        error::clear_queue();
        text
    }
}
