//! The functions of libcrypto that are called, found by name when the library is loaded.
//!
//! The types are those of OpenSSL's manual pages (`man 3 OSSL_PROVIDER_load` and so on). OpenSSL
//! 3.0 has all of them, and so has OpenSSL 4.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_ulong, c_void};
use std::path::{Path, PathBuf};

use super::{OpensslError, stack};

/// Declares types of the library that are only ever used behind pointers.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $($(#[$doc])* #[repr(C)]
        pub(super) struct $name {
            _opaque: [u8; 0],
        })*
    };
}

opaque! {
    /// `OSSL_LIB_CTX`.
    LibCtx,
    /// `OSSL_PROVIDER`.
    Provider,
    /// `OSSL_DECODER_CTX`.
    DecoderCtx,
    /// `OSSL_STORE_CTX`.
    StoreCtx,
    /// `OSSL_STORE_INFO`.
    StoreInfo,
    /// `UI_METHOD`.
    UiMethod,
    /// `EVP_PKEY`.
    Pkey,
    /// `EVP_PKEY_CTX`.
    PkeyCtx,
    /// `EVP_MD_CTX`.
    MdCtx,
    /// `ASYNC_JOB`.
    Job,
    /// `ASYNC_WAIT_CTX`.
    WaitCtx,
}

/// `pem_password_cb`.
pub(super) type PasswordCallback =
    unsafe extern "C" fn(*mut c_char, c_int, c_int, *mut c_void) -> c_int;
/// `ASYNC_callback_fn`.
pub(super) type WakeCallback = unsafe extern "C" fn(*mut c_void) -> c_int;
/// What `ASYNC_start_job` runs.
pub(super) type JobFunction = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `ASYNC_stack_alloc_fn`.
pub(super) type StackAllocate = unsafe extern "C" fn(*mut usize) -> *mut c_void;
/// `ASYNC_stack_free_fn`.
pub(super) type StackFree = unsafe extern "C" fn(*mut c_void);
/// `CRYPTO_malloc_fn`.
pub(super) type Allocate = unsafe extern "C" fn(usize, *const c_char, c_int) -> *mut c_void;
/// `CRYPTO_realloc_fn`.
pub(super) type Reallocate =
    unsafe extern "C" fn(*mut c_void, usize, *const c_char, c_int) -> *mut c_void;
/// `CRYPTO_free_fn`.
pub(super) type Release = unsafe extern "C" fn(*mut c_void, *const c_char, c_int);
/// The callback of `OSSL_PROVIDER_do_all`.
pub(super) type ProviderVisitor = unsafe extern "C" fn(*mut Provider, *mut c_void) -> c_int;

/// Declares a table with one pointer for each function, and how it is filled.
macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Pointers into the loaded library, which is never unloaded.
        #[allow(non_snake_case)] // The names that the manual pages have.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// `ASYNC_set_mem_functions`, which OpenSSL 3.0 does not have.
            pub(super) set_stack_functions:
                Option<unsafe extern "C" fn(StackAllocate, StackFree) -> c_int>,
        }

        impl Functions {
            /// # Safety
            ///
            /// `handle` is a library of dlopen(3) that is OpenSSL's libcrypto 3 or 4 and stays
            /// open.
            unsafe fn find(handle: *mut c_void) -> Result<Self, &'static str> {
                // SAFETY: the handle is valid by the caller's promise. The types are those of the
                // functions of these names in the manual of libcrypto.
                unsafe {
                    Ok(Self {
                        $($name: {
                            let found = symbol(handle, concat!(stringify!($name), "\0"));
                            if found.is_null() {
                                return Err(stringify!($name));
                            }
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?
                            >(found)
                        },)*
                        set_stack_functions: std::mem::transmute::<
                            *mut c_void,
                            Option<unsafe extern "C" fn(StackAllocate, StackFree) -> c_int>
                        >(symbol(handle, "ASYNC_set_mem_functions\0")),
                    })
                }
            }
        }
    };
}

functions! {
    CRYPTO_set_mem_functions(Allocate, Reallocate, Release) -> c_int;
    OPENSSL_init_crypto(u64, *const c_void) -> c_int;
    OpenSSL_version(c_int) -> *const c_char;
    CRYPTO_free(*mut c_void, *const c_char, c_int);

    ERR_clear_error();
    ERR_get_error_all(*mut *const c_char, *mut c_int, *mut *const c_char, *mut *const c_char, *mut c_int) -> c_ulong;
    ERR_error_string_n(c_ulong, *mut c_char, usize);
    ERR_reason_error_string(c_ulong) -> *const c_char;

    OSSL_LIB_CTX_new() -> *mut LibCtx;
    OSSL_LIB_CTX_free(*mut LibCtx);
    OSSL_LIB_CTX_load_config(*mut LibCtx, *const c_char) -> c_int;
    OSSL_PROVIDER_load(*mut LibCtx, *const c_char) -> *mut Provider;
    OSSL_PROVIDER_unload(*mut Provider) -> c_int;
    OSSL_PROVIDER_get0_name(*const Provider) -> *const c_char;
    OSSL_PROVIDER_do_all(*mut LibCtx, ProviderVisitor, *mut c_void) -> c_int;

    OSSL_DECODER_CTX_new_for_pkey(*mut *mut Pkey, *const c_char, *const c_char, *const c_char, c_int, *mut LibCtx, *const c_char) -> *mut DecoderCtx;
    OSSL_DECODER_CTX_free(*mut DecoderCtx);
    OSSL_DECODER_CTX_set_passphrase(*mut DecoderCtx, *const c_uchar, usize) -> c_int;
    OSSL_DECODER_from_data(*mut DecoderCtx, *mut *const c_uchar, *mut usize) -> c_int;
    OSSL_STORE_open_ex(*const c_char, *mut LibCtx, *const c_char, *const UiMethod, *mut c_void, *const c_void, *const c_void, *mut c_void) -> *mut StoreCtx;
    OSSL_STORE_expect(*mut StoreCtx, c_int) -> c_int;
    OSSL_STORE_load(*mut StoreCtx) -> *mut StoreInfo;
    OSSL_STORE_eof(*mut StoreCtx) -> c_int;
    OSSL_STORE_close(*mut StoreCtx) -> c_int;
    OSSL_STORE_INFO_get1_PKEY(*const StoreInfo) -> *mut Pkey;
    OSSL_STORE_INFO_free(*mut StoreInfo);
    UI_UTIL_wrap_read_pem_callback(PasswordCallback, c_int) -> *mut UiMethod;
    UI_destroy_method(*mut UiMethod);

    EVP_PKEY_free(*mut Pkey);
    EVP_PKEY_get_size(*const Pkey) -> c_int;
    i2d_PUBKEY(*const Pkey, *mut *mut c_uchar) -> c_int;

    EVP_MD_CTX_new() -> *mut MdCtx;
    EVP_MD_CTX_free(*mut MdCtx);
    EVP_DigestSignInit_ex(*mut MdCtx, *mut *mut PkeyCtx, *const c_char, *mut LibCtx, *const c_char, *mut Pkey, *const c_void) -> c_int;
    EVP_DigestSign(*mut MdCtx, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
    EVP_PKEY_CTX_new_from_pkey(*mut LibCtx, *mut Pkey, *const c_char) -> *mut PkeyCtx;
    EVP_PKEY_CTX_free(*mut PkeyCtx);
    EVP_PKEY_CTX_get0_provider(*const PkeyCtx) -> *const Provider;
    EVP_PKEY_CTX_set_rsa_padding(*mut PkeyCtx, c_int) -> c_int;
    EVP_PKEY_CTX_set_rsa_pss_saltlen(*mut PkeyCtx, c_int) -> c_int;
    EVP_PKEY_decrypt_init(*mut PkeyCtx) -> c_int;
    EVP_PKEY_decrypt(*mut PkeyCtx, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;

    ASYNC_is_capable() -> c_int;
    ASYNC_init_thread(usize, usize) -> c_int;
    ASYNC_cleanup_thread();
    ASYNC_start_job(*mut *mut Job, *mut WaitCtx, *mut c_int, JobFunction, *mut c_void, usize) -> c_int;
    ASYNC_WAIT_CTX_new() -> *mut WaitCtx;
    ASYNC_WAIT_CTX_free(*mut WaitCtx);
    ASYNC_WAIT_CTX_get_all_fds(*mut WaitCtx, *mut c_int, *mut usize) -> c_int;
    ASYNC_WAIT_CTX_set_callback(*mut WaitCtx, WakeCallback, *mut c_void) -> c_int;
    ASYNC_WAIT_CTX_set_status(*mut WaitCtx, c_int) -> c_int;
    ASYNC_WAIT_CTX_get_status(*mut WaitCtx) -> c_int;
}

/// The names under which libcrypto is looked for, in this order.
const LIBRARY_NAMES: [&str; 2] = ["libcrypto.so.4", "libcrypto.so.3"];

/// `OPENSSL_INIT_LOAD_CRYPTO_STRINGS`: errors have texts.
const INIT_LOAD_CRYPTO_STRINGS: u64 = 0x2;
/// `OPENSSL_INIT_NO_LOAD_CONFIG`: the system's openssl.cnf is not read unless it is asked for.
const INIT_NO_LOAD_CONFIG: u64 = 0x80;
/// `OPENSSL_INIT_NO_ATEXIT`: nothing is freed at exit while threads may be using it.
const INIT_NO_ATEXIT: u64 = 0x80000;

/// Loads libcrypto, from `path` if there is one.
pub(super) fn load(path: Option<&Path>) -> Result<Functions, OpensslError> {
    let candidates = match path {
        Some(path) => vec![path.to_path_buf()],
        None => LIBRARY_NAMES.map(PathBuf::from).to_vec(),
    };
    let mut failures = Vec::new();
    for candidate in candidates {
        let name = CString::new(candidate.as_os_str().as_encoded_bytes())
            .map_err(|_| OpensslError::new("dlopen", "the path contains a NUL byte"))?;
        // SAFETY: the name ends with NUL. What a library does when it is loaded is up to the
        // operator who named it, or installed it as the system's libcrypto.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            failures.push(loader_error());
            continue;
        }
        // SAFETY: just opened, and never closed.
        let functions = unsafe { Functions::find(handle) }.map_err(|name| {
            let text = format!(
                "{} has no function {name}: it is not OpenSSL 3 or 4",
                candidate.display()
            );
            OpensslError::new("dlsym", text)
        })?;
        let wanted = INIT_LOAD_CRYPTO_STRINGS | INIT_NO_LOAD_CONFIG | INIT_NO_ATEXIT;
        stack::notice_stacks(&functions);
        // SAFETY: null stands for no further settings.
        let code = unsafe { (functions.OPENSSL_init_crypto)(wanted, std::ptr::null()) };
        if code != 1 {
            return Err(OpensslError::drain(&functions, "OPENSSL_init_crypto"));
        }
        stack::provide_stacks(&functions);
        return Ok(functions);
    }
    Err(OpensslError::new("dlopen", failures.join("; ")))
}

/// # Safety
///
/// `handle` is an open library, and `name` ends with NUL.
unsafe fn symbol(handle: *mut c_void, name: &str) -> *mut c_void {
    // SAFETY: by the caller's promise.
    unsafe { libc::dlsym(handle, name.as_ptr().cast()) }
}

/// What dlopen(3) says about its last failure.
fn loader_error() -> String {
    // SAFETY: returns null, or a string that stays until the next call on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".into();
    }
    // SAFETY: not null, and ends with NUL.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}
