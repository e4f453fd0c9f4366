//! Private keys that a provider holds.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::functions::{Pkey, StoreCtx};
use super::{LibraryContext, OpensslError};

/// `EVP_PKEY_KEYPAIR`: the private key, the public key and all parameters.
const KEY_PAIR: c_int = 0x87;
/// `OSSL_STORE_INFO_PKEY`.
const STORE_INFO_PKEY: c_int = 4;
/// The most objects of a store that are looked at for a private key.
const MAX_STORE_OBJECTS: usize = 64;

/// A private key in a provider. The numbers may be in memory or in a device.
pub struct Key {
    context: Arc<LibraryContext>,
    raw: NonNull<Pkey>,
    properties: CString,
}

// SAFETY: keys are counted atomically and are not changed once they are loaded. libcrypto locks
// what it caches in them.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Key {
    /// Reads a private key in PEM, which is all there is in the text: the formats of libcrypto, and
    /// those that a provider decodes (`TSS2 PRIVATE KEY`). The provider that has the `properties`
    /// gets it (`man 7 property`: `?provider=NAME` prefers one).
    ///
    /// # Errors
    ///
    /// The text holds no private key that a provider accepts, or the passphrase does not fit.
    pub fn from_pem(
        context: &Arc<LibraryContext>,
        properties: &CStr,
        pem: &[u8],
        passphrase: Option<&[u8]>,
    ) -> Result<Self, OpensslError> {
        let functions = context.functions();
        context.clear_errors();
        let mut raw: *mut Pkey = ptr::null_mut();
        // SAFETY: `raw` outlives the decoder, which stores the key there. All strings end with NUL,
        // and null stands for any.
        let decoder = unsafe {
            (functions.OSSL_DECODER_CTX_new_for_pkey)(
                &mut raw,
                c"PEM".as_ptr(),
                ptr::null(),
                ptr::null(),
                KEY_PAIR,
                context.as_ptr(),
                properties.as_ptr(),
            )
        };
        let decoder = context.check_ptr("OSSL_DECODER_CTX_new_for_pkey", decoder)?;
        let (mut at, mut left) = (pem.as_ptr(), pem.len());
        // SAFETY: the decoder is valid until it is freed below. `at` and `left` are the text, of
        // which the decoder takes what it has read.
        unsafe {
            if let Some(passphrase) = passphrase {
                let set = functions.OSSL_DECODER_CTX_set_passphrase;
                set(decoder.as_ptr(), passphrase.as_ptr(), passphrase.len());
            }
            (functions.OSSL_DECODER_from_data)(decoder.as_ptr(), &mut at, &mut left);
            (functions.OSSL_DECODER_CTX_free)(decoder.as_ptr());
        }
        let raw = context.check_ptr("OSSL_DECODER_from_data", raw)?;
        context.clear_errors();
        Ok(Self::owned(context, raw, properties))
    }

    /// Loads the private key that a URI names, by the provider that knows the scheme: `file:/path`,
    /// `handle:0x81000001` (TPM), `pkcs11:...`.
    ///
    /// # Errors
    ///
    /// No provider knows the scheme, there is no private key, or the passphrase does not fit.
    pub fn from_uri(
        context: &Arc<LibraryContext>,
        properties: &CStr,
        uri: &str,
        passphrase: Option<&[u8]>,
    ) -> Result<Self, OpensslError> {
        let functions = context.functions();
        let uri = CString::new(uri)
            .map_err(|_| OpensslError::new("OSSL_STORE_open_ex", "the URI contains a NUL byte"))?;
        context.clear_errors();
        let mut passphrase = passphrase.unwrap_or_default();
        // SAFETY: the callback has the type that is wanted and expects the argument given below.
        let method = unsafe { (functions.UI_UTIL_wrap_read_pem_callback)(give_passphrase, 0) };
        let method = context.check_ptr("UI_UTIL_wrap_read_pem_callback", method)?;
        // SAFETY: all strings end with NUL. The method and its argument outlive the store, which is
        // closed before this function returns. Null stands for no parameters and no callback.
        let found = unsafe {
            let store = (functions.OSSL_STORE_open_ex)(
                uri.as_ptr(),
                context.as_ptr(),
                properties.as_ptr(),
                method.as_ptr(),
                (&raw mut passphrase).cast(),
                ptr::null(),
                ptr::null(),
                ptr::null_mut(),
            );
            let found = context
                .check_ptr("OSSL_STORE_open_ex", store)
                .and_then(|store| first_key(context, store));
            (functions.UI_destroy_method)(method.as_ptr());
            found
        };
        found.map(|raw| Self::owned(context, raw, properties))
    }

    /// The public key as `SubjectPublicKeyInfo` of X.509 (RFC 5280 section 4.1), in DER.
    ///
    /// # Errors
    ///
    /// No provider can write the public half of this key.
    pub fn public_der(&self) -> Result<Vec<u8>, OpensslError> {
        let functions = self.context.functions();
        self.context.clear_errors();
        let mut bytes: *mut u8 = ptr::null_mut();
        // SAFETY: the key is valid. The library allocates, because it is given null.
        let length = unsafe { (functions.i2d_PUBKEY)(self.as_ptr(), &mut bytes) };
        let Ok(length @ 1..) = usize::try_from(length) else {
            return Err(OpensslError::drain(functions, "i2d_PUBKEY"));
        };
        // SAFETY: there are `length` bytes, which are copied and given back.
        unsafe {
            let copy = std::slice::from_raw_parts(bytes, length).to_vec();
            (functions.CRYPTO_free)(bytes.cast(), c"".as_ptr(), 0);
            Ok(copy)
        }
    }

    pub(super) fn context(&self) -> &Arc<LibraryContext> {
        &self.context
    }

    pub(super) fn properties(&self) -> &CStr {
        &self.properties
    }

    pub(super) fn as_ptr(&self) -> *mut Pkey {
        self.raw.as_ptr()
    }

    /// The longest result of an operation with the key.
    pub(super) fn max_result_bytes(&self) -> usize {
        // SAFETY: the key is valid.
        let size = unsafe { (self.context.functions().EVP_PKEY_get_size)(self.as_ptr()) };
        usize::try_from(size).unwrap_or(0)
    }

    fn owned(context: &Arc<LibraryContext>, raw: NonNull<Pkey>, properties: &CStr) -> Self {
        Self {
            context: context.clone(),
            raw,
            properties: properties.to_owned(),
        }
    }
}

/// The first private key of a store, which is closed.
///
/// # Safety
///
/// `store` is open and owned.
unsafe fn first_key(
    context: &LibraryContext,
    store: NonNull<StoreCtx>,
) -> Result<NonNull<Pkey>, OpensslError> {
    let functions = context.functions();
    let store = store.as_ptr();
    let mut found = None;
    // SAFETY: the store is open by the caller's promise; every object is freed once, and a key that
    // is taken from it has a reference of its own.
    unsafe {
        (functions.OSSL_STORE_expect)(store, STORE_INFO_PKEY);
        for _ in 0..MAX_STORE_OBJECTS {
            if found.is_some() || (functions.OSSL_STORE_eof)(store) == 1 {
                break;
            }
            // Null: this object cannot be loaded, or is none that is wanted.
            let info = (functions.OSSL_STORE_load)(store);
            if !info.is_null() {
                found = NonNull::new((functions.OSSL_STORE_INFO_get1_PKEY)(info));
                (functions.OSSL_STORE_INFO_free)(info);
            }
        }
    }
    let found = found.ok_or_else(|| OpensslError::drain(functions, "OSSL_STORE_load"));
    // SAFETY: open, and not used again.
    unsafe { (functions.OSSL_STORE_close)(store) };
    context.clear_errors();
    found
}

/// Copies the passphrase into the library's buffer. Without one, nothing is ever asked at a
/// terminal.
unsafe extern "C" fn give_passphrase(
    buffer: *mut c_char,
    size: c_int,
    _is_for_writing: c_int,
    argument: *mut c_void,
) -> c_int {
    let size = usize::try_from(size).unwrap_or(0);
    if argument.is_null() {
        return -1;
    }
    // SAFETY: the argument is the one that `from_uri` passes. The buffer has room for `size` bytes.
    unsafe {
        let passphrase: &[u8] = *argument.cast::<&[u8]>();
        if passphrase.is_empty() || passphrase.len() > size {
            return -1;
        }
        ptr::copy_nonoverlapping(passphrase.as_ptr(), buffer.cast(), passphrase.len());
        c_int::try_from(passphrase.len()).unwrap_or(-1)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { (self.context.functions().EVP_PKEY_free)(self.as_ptr()) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(redacted)")
    }
}
