//! Why the kernel does not support something, in words for operators, and what they can do about
//! it.

use std::fmt;
use std::io;

use sealane_sys::OsError;
use sealane_sys::ktls::{Cipher, Version};

/// Why the kernel does not support TLS, or part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The module `tls` is neither loaded nor could it be loaded.
    NoModule {
        /// Whether this process may load modules (`CAP_NET_ADMIN`), so that the
        /// kernel has tried.
        may_load: bool,
    },
    /// `TCP_ULP` was refused for another reason: a sandbox, a kernel before 4.13.
    Attach {
        /// The error number.
        errno: i32,
    },
    /// The kernel does not take keys of this suite.
    Suite {
        /// Protocol version.
        version: Version,
        /// Record cipher.
        cipher: Cipher,
        /// The error number.
        errno: i32,
    },
    /// The self-test received something other than it sent.
    Corrupts {
        /// Protocol version.
        version: Version,
        /// Record cipher.
        cipher: Cipher,
        /// What was wrong.
        flaw: Flaw,
    },
    /// The kernel does not change the keys of a connection.
    NoRekey {
        /// The error number.
        errno: i32,
    },
    /// No connection over the loopback: the self-test could not run.
    Loopback(String),
    /// The self-test did not finish.
    SelfTest(String),
    /// Not tested.
    NotProbed,
}

/// How the received data differs from what was sent. Records count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Not a valid record header for this suite.
    Header {
        /// Which record.
        record: u64,
    },
    /// The explicit nonce is not the record's number.
    Nonce {
        /// Which record.
        record: u64,
    },
    /// It does not open under its key and number.
    Unopened {
        /// Which record.
        record: u64,
    },
    /// It has another type than was sent, or is an alert with other content.
    Type {
        /// Which record.
        record: u64,
    },
    /// Other bytes than were sent.
    Content {
        /// The first one that differs.
        offset: u64,
    },
    /// More than was sent.
    Surplus,
}

impl Unavailable {
    /// One word for variables and scripts (`$ssl_ktls_reason`).
    pub fn name(&self) -> &'static str {
        match self {
            Unavailable::NoModule { .. } => "no_module",
            Unavailable::Attach { .. } => "attach_refused",
            Unavailable::Suite { .. } => "suite_unsupported",
            Unavailable::Corrupts { .. } => "corrupts",
            Unavailable::NoRekey { .. } => "no_rekey",
            Unavailable::Loopback(_) => "no_loopback",
            Unavailable::SelfTest(_) => "self_test_failed",
            Unavailable::NotProbed => "not_probed",
        }
    }

    /// What to do about it, if anything can be done.
    pub fn remedy(&self) -> Option<String> {
        let text = match self {
            Unavailable::NoModule { may_load: false } => {
                "as root: modprobe tls; echo tls >/etc/modules-load.d/tls.conf"
            }
            Unavailable::NoModule { may_load: true } => {
                "install the modules of the running kernel (in a container: on the host), or run a \
                 kernel built with CONFIG_TLS; then: modprobe tls; echo tls >/etc/modules-load.d/tls.conf"
            }
            Unavailable::Attach {
                errno: EPERM | EACCES,
            } => "allow setsockopt(TCP_ULP) in the sandbox or security policy of the service",
            Unavailable::Attach { .. } => "run Linux 5.11 or later, with CONFIG_TLS",
            Unavailable::Suite {
                cipher,
                errno: ENOENT,
                ..
            } => {
                return Some(format!(
                    "as root: modprobe {}; or run a kernel that has this module",
                    match cipher {
                        Cipher::Aes128Gcm | Cipher::Aes256Gcm => "gcm",
                        Cipher::ChaCha20Poly1305 => "chacha20poly1305",
                    }
                ));
            }
            Unavailable::Suite {
                version, cipher, ..
            } => {
                return Some(format!(
                    "run Linux {} or later",
                    first_kernel(*version, *cipher)
                ));
            }
            Unavailable::Corrupts { .. } => {
                "run another kernel and report this one to its vendor; until then the suite stays \
                 in user space"
            }
            Unavailable::NoRekey { .. } => {
                "run Linux 6.14 or later; until then a connection whose client asks for new keys is \
                 closed cleanly, and the client reconnects"
            }
            Unavailable::Loopback(_) => {
                "bring the loopback up (ip link set lo up) and let the firewall pass it"
            }
            Unavailable::SelfTest(_) | Unavailable::NotProbed => return None,
        };
        Some(text.to_owned())
    }

    /// Why `TCP_ULP` was refused.
    pub(super) fn of_attach(error: &io::Error) -> Unavailable {
        match error.raw_os_error() {
            Some(ENOENT) => Unavailable::NoModule {
                may_load: may_load_modules(),
            },
            Some(errno) => Unavailable::Attach { errno },
            None => Unavailable::failed("TCP_ULP", error),
        }
    }

    /// Why the first keys were refused.
    pub(super) fn of_keys(version: Version, cipher: Cipher, error: &io::Error) -> Unavailable {
        match error.raw_os_error() {
            Some(errno) => Unavailable::Suite {
                version,
                cipher,
                errno,
            },
            None => Unavailable::failed("setting keys", error),
        }
    }

    /// Why further keys were refused.
    pub(super) fn of_new_keys(error: &io::Error) -> Unavailable {
        match error.raw_os_error() {
            Some(errno) => Unavailable::NoRekey { errno },
            None => Unavailable::failed("changing keys", error),
        }
    }

    /// The test itself failed.
    pub(super) fn failed(what: &str, error: &io::Error) -> Unavailable {
        Unavailable::SelfTest(format!("{what} failed ({})", OsError(error)))
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::NoModule { may_load: false } => f.write_str(
                "the kernel module \"tls\" is not loaded, and this process may not load it",
            ),
            Unavailable::NoModule { may_load: true } => {
                f.write_str("the kernel has no module \"tls\", or could not load it")
            }
            Unavailable::Attach { errno } => {
                write!(
                    f,
                    "the kernel refuses TCP_ULP \"tls\" ({})",
                    numbered(*errno)
                )
            }
            Unavailable::Suite {
                version,
                cipher,
                errno,
            } => write!(
                f,
                "the kernel does not take keys for {} ({})",
                suite_name(*version, *cipher),
                numbered(*errno)
            ),
            Unavailable::Corrupts {
                version,
                cipher,
                flaw,
            } => write!(
                f,
                "the kernel corrupts {}: {flaw}",
                suite_name(*version, *cipher)
            ),
            Unavailable::NoRekey { errno } => write!(
                f,
                "the kernel does not change the key of a connection ({})",
                numbered(*errno)
            ),
            Unavailable::Loopback(why) => {
                write!(f, "no loopback connection for the self-test: {why}")
            }
            Unavailable::SelfTest(why) => write!(f, "the self-test failed: {why}"),
            Unavailable::NotProbed => f.write_str("not tried"),
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Header { record } => write!(f, "record {record} has an invalid header"),
            Flaw::Nonce { record } => write!(f, "record {record} has the wrong nonce"),
            Flaw::Unopened { record } => {
                write!(f, "record {record} cannot be decrypted with its key")
            }
            Flaw::Type { record } => write!(f, "record {record} has the wrong type"),
            Flaw::Content { offset } => write!(f, "byte {offset} differs from what was sent"),
            Flaw::Surplus => f.write_str("more data arrives than was sent"),
        }
    }
}

// Linux's values on every architecture that Rust's standard library supports.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;

/// A suite in operators' terms.
fn suite_name(version: Version, cipher: Cipher) -> String {
    format!("{} with {}", version.name(), cipher.name())
}

/// The first kernel version with a suite.
fn first_kernel(version: Version, cipher: Cipher) -> &'static str {
    match (version, cipher) {
        (_, Cipher::ChaCha20Poly1305) => "5.11",
        (Version::Tls12, Cipher::Aes128Gcm) => "4.13",
        (Version::Tls13, _) | (_, Cipher::Aes256Gcm) => "5.1",
    }
}

/// An error number with its text, as nginx writes it.
fn numbered(errno: i32) -> String {
    OsError(&io::Error::from_raw_os_error(errno)).to_string()
}

/// Whether this process has `CAP_NET_ADMIN`, without which the kernel does not
/// load the module for it.
fn may_load_modules() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| has_net_admin(&status))
}

/// Reads the effective capabilities out of `/proc/self/status`.
pub(super) fn has_net_admin(status: &str) -> bool {
    const CAP_NET_ADMIN: u32 = 12;
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << CAP_NET_ADMIN) != 0)
}
