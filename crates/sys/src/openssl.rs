//! The system's OpenSSL 3 or 4, for the sake of its providers: modules that compute with private
//! keys that are in a device or are computed with by one.
//!
//! libcrypto is loaded when it is needed, with dlopen(3): neither building nor running the rest
//! needs it, and the same binary works with OpenSSL 3 and 4. Its symbols stay local, so that it
//! does not get into the way of another TLS library in this program.
//!
//! | file | what |
//! |---|---|
//! | `functions.rs` | the functions that are called, and where they are found |
//! | `providers.rs` | [`LibraryContext`]: loaded providers |
//! | `key.rs` | [`Key`]: from PEM, or from a URI that a provider understands |
//! | `operation.rs` | [`Operation`]: a signature or a decryption |
//! | `job.rs` | [`AsyncJob`]: an operation that a provider may pause |
//! | `stack.rs` | the stacks of jobs |

mod functions;
mod job;
mod key;
mod operation;
mod providers;
mod stack;

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::Path;
use std::ptr;

use functions::Functions;
pub use job::{AsyncJob, JobThread, Progress, WaitContext, WakeTarget};
pub use key::Key;
pub use operation::{Input, Operation, signing_provider};
pub use providers::LibraryContext;

/// The most errors of one queue that are kept in a text.
const MAX_QUEUED_ERRORS: usize = 6;

/// libcrypto, loaded. It is never unloaded, because its threads and those of its providers would be
/// left without their code.
#[derive(Clone, Copy)]
pub struct Openssl {
    functions: &'static Functions,
}

impl Openssl {
    /// Loads libcrypto from `path`, or `libcrypto.so.4` or `libcrypto.so.3` from where the system
    /// has its libraries. Its configuration file is not read.
    ///
    /// # Errors
    ///
    /// There is no such library, or it lacks a function; the text says which.
    pub fn load(path: Option<&Path>) -> Result<Self, OpensslError> {
        let functions = functions::load(path)?;
        // The table lives as long as the library. There is one for each call, of which a program
        // makes few.
        let functions = Box::leak(Box::new(functions));
        Ok(Self { functions })
    }

    /// The library's name and version: `OpenSSL 3.0.19 27 Jan 2026`.
    pub fn version(self) -> String {
        // SAFETY: returns a static string that ends with NUL for any number; 0 is the version.
        let text = unsafe { CStr::from_ptr((self.functions.OpenSSL_version)(0)) };
        text.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for Openssl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Openssl({})", self.version())
    }
}

/// A failed call into libcrypto.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpensslError {
    call: &'static str,
    text: Box<str>,
}

impl OpensslError {
    fn new(call: &'static str, text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        Self { call, text }
    }

    /// Takes all errors out of this thread's queue.
    fn drain(functions: &Functions, call: &'static str) -> Self {
        let mut texts: Vec<String> = Vec::new();
        while let Some(text) = pop_error(functions) {
            // The first is the cause, and others repeat it.
            if texts.len() < MAX_QUEUED_ERRORS && !texts.contains(&text) {
                texts.push(text);
            }
        }
        if texts.is_empty() {
            texts.push("it gave no reason".into());
        }
        Self::new(call, texts.join("; "))
    }

    /// What the library says, without the name of the call.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for OpensslError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}() failed ({})", self.call, self.text)
    }
}

impl std::error::Error for OpensslError {}

/// The oldest error of this thread's queue, as its reason and what it is about.
fn pop_error(functions: &Functions) -> Option<String> {
    /// `ERR_TXT_STRING`: the data of an error is text.
    const IS_TEXT: c_int = 2;
    let (mut file, mut line, mut function) = (ptr::null(), 0, ptr::null());
    let (mut data, mut flags) = (ptr::null(), 0);
    // SAFETY: every pointer is to a variable of the type that the function stores there.
    let code = unsafe {
        (functions.ERR_get_error_all)(&mut file, &mut line, &mut function, &mut data, &mut flags)
    };
    if code == 0 {
        return None;
    }
    // SAFETY: returns null or a static string for any number.
    let reason = unsafe { (functions.ERR_reason_error_string)(code) };
    let mut text = match reason.is_null() {
        // SAFETY: not null, and ends with NUL.
        false => unsafe { CStr::from_ptr(reason) }
            .to_string_lossy()
            .into_owned(),
        true => {
            let mut buffer = [0 as c_char; 256];
            // SAFETY: the function writes at most the length given, NUL included.
            unsafe {
                (functions.ERR_error_string_n)(code, buffer.as_mut_ptr(), buffer.len());
                CStr::from_ptr(buffer.as_ptr())
                    .to_string_lossy()
                    .into_owned()
            }
        }
    };
    if flags & IS_TEXT != 0 && !data.is_null() {
        // SAFETY: text, as the flag says; it stays until the next error of this thread.
        let data = unsafe { CStr::from_ptr(data) };
        if !data.is_empty() {
            text = format!("{text}: {}", data.to_string_lossy());
        }
    }
    Some(text)
}
