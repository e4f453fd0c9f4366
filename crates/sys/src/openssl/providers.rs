//! Loaded providers.

use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::functions::{Functions, LibCtx, Provider};
use super::{Openssl, OpensslError};

/// An `OSSL_LIB_CTX` with the providers that are loaded into it. Nothing that happens in it
/// concerns another one.
///
/// Keys and operations keep it. It is freed with the last of them, and never while a job is paused
/// that was given up.
pub struct LibraryContext {
    functions: &'static Functions,
    raw: NonNull<LibCtx>,
    /// To unload, in this order.
    providers: Mutex<Vec<NonNull<Provider>>>,
}

// SAFETY: libcrypto locks what is in a library context; providers are reference counted, and the
// list of them here is behind a mutex.
unsafe impl Send for LibraryContext {}
// SAFETY: as above.
unsafe impl Sync for LibraryContext {}

impl LibraryContext {
    /// A context without providers. libcrypto loads its default provider when something is asked of
    /// a context without any.
    ///
    /// # Errors
    ///
    /// When there is no memory.
    pub fn new(openssl: Openssl) -> Result<Self, OpensslError> {
        let functions = openssl.functions;
        // SAFETY: allocates.
        let raw = unsafe { (functions.OSSL_LIB_CTX_new)() };
        let raw =
            NonNull::new(raw).ok_or_else(|| OpensslError::drain(functions, "OSSL_LIB_CTX_new"))?;
        Ok(Self {
            functions,
            raw,
            providers: Mutex::default(),
        })
    }

    /// Reads a configuration file in the format of openssl.cnf(5), which may load providers and
    /// give them parameters.
    ///
    /// # Errors
    ///
    /// The file cannot be read or understood, or a provider that it activates cannot be loaded,
    /// which OpenSSL 3.0 silently ignores.
    pub fn load_config(&self, path: &Path) -> Result<(), OpensslError> {
        let call = "OSSL_LIB_CTX_load_config";
        let path = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| OpensslError::new(call, "the path contains a NUL byte"))?;
        self.clear_errors();
        // SAFETY: the context is valid, and the path ends with NUL.
        let code =
            unsafe { (self.functions.OSSL_LIB_CTX_load_config)(self.as_ptr(), path.as_ptr()) };
        match code {
            1 => Ok(()),
            _ => Err(OpensslError::drain(self.functions, call)),
        }
    }

    /// Loads a provider: one that is built in (`default`), one of which a configuration file says
    /// where it is, or `NAME.so` in OpenSSL's directory of modules.
    ///
    /// # Errors
    ///
    /// There is no such provider, or it does not start.
    pub fn load_provider(&self, name: &str) -> Result<(), OpensslError> {
        let call = "OSSL_PROVIDER_load";
        let name = CString::new(name)
            .map_err(|_| OpensslError::new(call, "the name contains a NUL byte"))?;
        self.clear_errors();
        // SAFETY: the context is valid, and the name ends with NUL.
        let raw = unsafe { (self.functions.OSSL_PROVIDER_load)(self.as_ptr(), name.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| OpensslError::drain(self.functions, call))?;
        let mut providers = self
            .providers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        providers.push(raw);
        Ok(())
    }

    /// The names of all providers that are active, those included that a configuration file
    /// activated.
    pub fn provider_names(&self) -> Vec<String> {
        let mut found = Visited {
            functions: self.functions,
            names: Vec::new(),
        };
        // SAFETY: the callback gets the argument that it expects, during this call only.
        unsafe {
            (self.functions.OSSL_PROVIDER_do_all)(
                self.as_ptr(),
                visit_provider,
                (&raw mut found).cast(),
            );
        }
        found.names
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.functions
    }

    pub(super) fn as_ptr(&self) -> *mut LibCtx {
        self.raw.as_ptr()
    }

    pub(super) fn clear_errors(&self) {
        // SAFETY: empties this thread's queue.
        unsafe { (self.functions.ERR_clear_error)() }
    }

    pub(super) fn check_ptr<T>(
        &self,
        call: &'static str,
        pointer: *mut T,
    ) -> Result<NonNull<T>, OpensslError> {
        NonNull::new(pointer).ok_or_else(|| OpensslError::drain(self.functions, call))
    }
}

struct Visited {
    functions: &'static Functions,
    names: Vec<String>,
}

/// Collects a name. Runs within `OSSL_PROVIDER_do_all`.
unsafe extern "C" fn visit_provider(provider: *mut Provider, argument: *mut c_void) -> c_int {
    // SAFETY: the argument is the one that `provider_names` passes, which nobody else uses
    // meanwhile; the provider is valid during the call and has a name.
    unsafe {
        let visited = &mut *argument.cast::<Visited>();
        if let Some(name) = provider_name(visited.functions, provider) {
            visited.names.push(name);
        }
    }
    1
}

/// # Safety
///
/// `provider` is null or valid.
pub(super) unsafe fn provider_name(
    functions: &Functions,
    provider: *const Provider,
) -> Option<String> {
    if provider.is_null() {
        return None;
    }
    // SAFETY: valid by the caller's promise; the name belongs to the provider and ends with NUL.
    unsafe {
        let name = (functions.OSSL_PROVIDER_get0_name)(provider);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

impl Drop for LibraryContext {
    fn drop(&mut self) {
        let providers = self.providers.get_mut();
        for provider in providers.unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: loaded once here, and unloaded once.
            unsafe { (self.functions.OSSL_PROVIDER_unload)(provider.as_ptr()) };
        }
        // SAFETY: owned, and freed once: every key and operation holds the context.
        unsafe { (self.functions.OSSL_LIB_CTX_free)(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for LibraryContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LibraryContext")
            .field(&self.provider_names())
            .finish()
    }
}
