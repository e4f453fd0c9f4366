//! Resource limits of this process.

use crate::CheckReturn;
use std::io;

/// A limit that can be read and set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// `RLIMIT_NOFILE`: descriptors.
    OpenFiles,
    /// `RLIMIT_CORE`: bytes of a core dump.
    CoreBytes,
    /// `RLIMIT_MEMLOCK`: bytes that are kept in memory (mlock(2)).
    LockedBytes,
}

/// A soft limit and the hard limit up to which it may be raised. `u64::MAX` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The limit in force.
    pub soft: u64,
    /// The value to which an unprivileged process may raise it.
    pub hard: u64,
}

/// Reads a limit (getrlimit(2)).
///
/// # Errors
///
/// The errno of `getrlimit`.
pub fn get(resource: Resource) -> io::Result<Limit> {
    let mut raw = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `raw` has room for the answer.
    unsafe { libc::getrlimit(resource.raw(), &raw mut raw) }.check()?;
    Ok(Limit {
        soft: raw.rlim_cur,
        hard: raw.rlim_max,
    })
}

/// Sets a limit (setrlimit(2)); raising the hard one needs privileges (`EPERM`).
///
/// # Errors
///
/// `EPERM` without the privilege to raise a hard limit, or another errno of `setrlimit`.
pub fn set(resource: Resource, limit: Limit) -> io::Result<()> {
    let raw = libc::rlimit {
        rlim_cur: limit.soft,
        rlim_max: limit.hard,
    };
    // SAFETY: `raw` outlives the call.
    unsafe { libc::setrlimit(resource.raw(), &raw const raw) }.check()?;
    Ok(())
}

/// What the C library calls the type.
#[cfg(target_env = "musl")]
type RawResource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type RawResource = libc::__rlimit_resource_t;

impl Resource {
    fn raw(self) -> RawResource {
        match self {
            Resource::OpenFiles => libc::RLIMIT_NOFILE,
            Resource::CoreBytes => libc::RLIMIT_CORE,
            Resource::LockedBytes => libc::RLIMIT_MEMLOCK,
        }
    }
}
