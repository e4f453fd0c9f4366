//! The cipher suites that the library has.

use std::fmt;
use std::sync::OnceLock;

use aws_lc_sys as sys;

use crate::ffi::static_str;

/// A cipher suite of the library.
#[derive(Clone, Copy)]
pub struct Cipher(&'static sys::SSL_CIPHER);

// SAFETY: suites are constants of the library.
unsafe impl Send for Cipher {}
// SAFETY: as above.
unsafe impl Sync for Cipher {}

impl Cipher {
    /// The suite with this IANA number, if the library has it.
    pub fn by_id(id: u16) -> Option<Self> {
        // SAFETY: returns null or a pointer to a constant.
        unsafe { Self::from_ptr(sys::SSL_get_cipher_by_value(id)) }
    }

    /// # Safety
    ///
    /// `pointer` is null or one of the library's constant suites.
    pub(crate) unsafe fn from_ptr(pointer: *const sys::SSL_CIPHER) -> Option<Self> {
        // SAFETY: by the caller's promise the pointee lives forever.
        unsafe { pointer.as_ref() }.map(Self)
    }

    /// IANA number.
    pub fn id(self) -> u16 {
        // SAFETY: the suite is valid.
        unsafe { sys::SSL_CIPHER_get_protocol_id(self.0) }
    }

    /// OpenSSL's name, such as `ECDHE-RSA-AES128-GCM-SHA256`.
    pub fn name(self) -> &'static str {
        // SAFETY: the suite is valid, its name a static string.
        static_str(unsafe { sys::SSL_CIPHER_get_name(self.0) }).unwrap_or("(NONE)")
    }

    /// IANA name, such as `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`.
    pub fn standard_name(self) -> &'static str {
        // SAFETY: the suite is valid, its name a static string.
        static_str(unsafe { sys::SSL_CIPHER_standard_name(self.0) }).unwrap_or("(NONE)")
    }

    /// Key exchange: `RSA`, `ECDHE`, `PSK`, or `GENERIC` in TLS 1.3.
    pub fn key_exchange(self) -> &'static str {
        // SAFETY: as for `name`.
        match static_str(unsafe { sys::SSL_CIPHER_get_kx_name(self.0) }).unwrap_or("") {
            name if name.starts_with("ECDHE") => "ECDHE",
            "RSA" => "RSA",
            "PSK" => "PSK",
            _ => "GENERIC",
        }
    }

    /// Strength of the encryption in bits.
    pub fn strength_bits(self) -> u16 {
        // SAFETY: a null pointer for the algorithm's bits is allowed.
        let bits = unsafe { sys::SSL_CIPHER_get_bits(self.0, std::ptr::null_mut()) };
        u16::try_from(bits).unwrap_or(0)
    }

    /// The lowest protocol number it can be used with.
    pub fn min_version(self) -> u16 {
        // SAFETY: the suite is valid.
        unsafe { sys::SSL_CIPHER_get_min_version(self.0) }
    }

    /// The highest protocol number it can be used with.
    pub fn max_version(self) -> u16 {
        // SAFETY: the suite is valid.
        unsafe { sys::SSL_CIPHER_get_max_version(self.0) }
    }
}

impl PartialEq for Cipher {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Cipher {}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every suite of the library, by ascending number.
pub fn all_ciphers() -> &'static [Cipher] {
    static ALL: OnceLock<Vec<Cipher>> = OnceLock::new();
    ALL.get_or_init(|| (0..=u16::MAX).filter_map(Cipher::by_id).collect())
}
