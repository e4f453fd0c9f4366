//! One operation with a private key.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use super::functions::{Functions, MdCtx, PkeyCtx};
use super::providers::provider_name;
use super::{Key, OpensslError};

/// `RSA_NO_PADDING`.
const NO_PADDING: c_int = 3;
/// `RSA_PKCS1_PSS_PADDING`.
const PSS_PADDING: c_int = 6;
/// `RSA_PSS_SALTLEN_DIGEST`: a salt as long as the digest, which is what TLS asks for.
const SALT_OF_DIGEST_LENGTH: c_int = -1;

/// What to compute.
pub enum Input {
    /// A signature over a message.
    Sign {
        /// The digest's name; `None` for schemes that have none (Ed25519).
        digest: Option<&'static CStr>,
        /// RSASSA-PSS instead of PKCS #1 v1.5.
        is_pss: bool,
        /// The message, not hashed yet.
        message: Vec<u8>,
    },
    /// RSA's private operation on a number of the modulus' length.
    Decrypt(Vec<u8>),
}

/// An operation, with all it needs while a provider works on it.
pub struct Operation {
    key: Arc<Key>,
    input: Input,
    /// As long as the longest result. It holds secrets after a decryption.
    output: Vec<u8>,
    output_bytes: usize,
    /// The call that failed.
    failed_call: &'static str,
}

impl Operation {
    /// An operation with a key, to be run.
    pub fn new(key: &Arc<Key>, input: Input) -> Self {
        Self {
            output: vec![0; key.max_result_bytes()],
            key: key.clone(),
            input,
            output_bytes: 0,
            failed_call: "",
        }
    }

    /// Computes on this thread, and waits for it.
    ///
    /// # Errors
    ///
    /// The provider cannot do it.
    pub fn run(mut self) -> Result<Vec<u8>, OpensslError> {
        self.key.context().clear_errors();
        let is_ok = self.compute();
        self.finish(is_ok)
    }

    /// Computes. Called on the stack of a job, which is small, and from which nothing may unwind.
    pub(super) fn compute(&mut self) -> bool {
        let result = match &self.input {
            Input::Sign {
                digest,
                is_pss,
                message,
            } => sign(&self.key, *digest, *is_pss, message, &mut self.output),
            Input::Decrypt(number) => decrypt(&self.key, number, &mut self.output),
        };
        match result {
            Ok(bytes) => self.output_bytes = bytes,
            Err(call) => self.failed_call = call,
        }
        result.is_ok()
    }

    /// The result of [`compute`](Self::compute).
    pub(super) fn finish(mut self, is_ok: bool) -> Result<Vec<u8>, OpensslError> {
        if !is_ok {
            let functions = self.key.context().functions();
            return Err(OpensslError::drain(functions, self.failed_call));
        }
        let mut output = std::mem::take(&mut self.output);
        output.truncate(self.output_bytes);
        Ok(output)
    }
}

/// The name of the provider that would sign with a key. It need not be the one that has read it.
///
/// # Errors
///
/// No provider can sign so.
pub fn signing_provider(key: &Key, digest: Option<&CStr>) -> Result<String, OpensslError> {
    let functions = key.context().functions();
    key.context().clear_errors();
    let drained = |call| OpensslError::drain(functions, call);
    let digesting = Digesting::new(key, digest).map_err(drained)?;
    // SAFETY: the context is valid while `digesting` lives, and so is its provider.
    let name = unsafe {
        let provider = (functions.EVP_PKEY_CTX_get0_provider)(digesting.pkey_ctx);
        provider_name(functions, provider)
    };
    Ok(name.unwrap_or_default())
}

/// Signs. The error is the call that failed, for which the library's queue has the reason.
fn sign(
    key: &Key,
    digest: Option<&CStr>,
    is_pss: bool,
    message: &[u8],
    output: &mut [u8],
) -> Result<usize, &'static str> {
    let functions = key.context().functions();
    let digesting = Digesting::new(key, digest)?;
    let mut length = output.len();
    // SAFETY: both contexts are valid, and the target has the length that is given.
    unsafe {
        if is_pss {
            let code = (functions.EVP_PKEY_CTX_set_rsa_padding)(digesting.pkey_ctx, PSS_PADDING);
            check("EVP_PKEY_CTX_set_rsa_padding", code)?;
            let set_salt_length = functions.EVP_PKEY_CTX_set_rsa_pss_saltlen;
            let code = set_salt_length(digesting.pkey_ctx, SALT_OF_DIGEST_LENGTH);
            check("EVP_PKEY_CTX_set_rsa_pss_saltlen", code)?;
        }
        let code = (functions.EVP_DigestSign)(
            digesting.raw,
            output.as_mut_ptr(),
            &mut length,
            message.as_ptr(),
            message.len(),
        );
        check("EVP_DigestSign", code)?;
    }
    Ok(length)
}

/// As [`sign`].
fn decrypt(key: &Key, number: &[u8], output: &mut [u8]) -> Result<usize, &'static str> {
    let context = key.context();
    let functions = context.functions();
    let mut length = output.len();
    // SAFETY: all pointers are valid, and the target has the length that is given.
    unsafe {
        let new = functions.EVP_PKEY_CTX_new_from_pkey;
        let raw = new(context.as_ptr(), key.as_ptr(), key.properties().as_ptr());
        let decrypting = Decrypting(functions, raw);
        if decrypting.1.is_null() {
            return Err("EVP_PKEY_CTX_new_from_pkey");
        }
        let code = (functions.EVP_PKEY_decrypt_init)(decrypting.1);
        check("EVP_PKEY_decrypt_init", code)?;
        let code = (functions.EVP_PKEY_CTX_set_rsa_padding)(decrypting.1, NO_PADDING);
        check("EVP_PKEY_CTX_set_rsa_padding", code)?;
        let code = (functions.EVP_PKEY_decrypt)(
            decrypting.1,
            output.as_mut_ptr(),
            &mut length,
            number.as_ptr(),
            number.len(),
        );
        check("EVP_PKEY_decrypt", code)?;
    }
    Ok(length)
}

fn check(call: &'static str, code: c_int) -> Result<(), &'static str> {
    (code == 1).then_some(()).ok_or(call)
}

/// An `EVP_MD_CTX` that is ready to sign.
struct Digesting {
    functions: &'static Functions,
    raw: *mut MdCtx,
    /// A part of it.
    pkey_ctx: *mut PkeyCtx,
}

impl Digesting {
    fn new(key: &Key, digest: Option<&CStr>) -> Result<Self, &'static str> {
        let context = key.context();
        let functions = context.functions();
        let digest = digest.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: all pointers are valid, and null only where the manual allows it.
        unsafe {
            let mut digesting = Self {
                functions,
                raw: (functions.EVP_MD_CTX_new)(),
                pkey_ctx: ptr::null_mut(),
            };
            if digesting.raw.is_null() {
                return Err("EVP_MD_CTX_new");
            }
            let code = (functions.EVP_DigestSignInit_ex)(
                digesting.raw,
                &mut digesting.pkey_ctx,
                digest,
                context.as_ptr(),
                key.properties().as_ptr(),
                key.as_ptr(),
                ptr::null(),
            );
            check("EVP_DigestSignInit_ex", code)?;
            Ok(digesting)
        }
    }
}

impl Drop for Digesting {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once; null is nothing.
        unsafe { (self.functions.EVP_MD_CTX_free)(self.raw) }
    }
}

/// An `EVP_PKEY_CTX`, or null.
struct Decrypting(&'static Functions, *mut PkeyCtx);

impl Drop for Decrypting {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once; null is nothing.
        unsafe { (self.0.EVP_PKEY_CTX_free)(self.1) }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // A decrypted secret that nobody has taken. Volatile, so that it is not left out.
        for byte in &mut self.output {
            // SAFETY: a valid byte of ours.
            unsafe { ptr::write_volatile(byte, 0) };
        }
        compiler_fence(Ordering::SeqCst);
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.input {
            Input::Sign { .. } => "sign",
            Input::Decrypt(_) => "decrypt",
        };
        write!(f, "Operation({name})")
    }
}
