//! Anonymous files in memory (memfd_create(2)).

use crate::CheckReturn;
use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// An empty file that may be sealed and cannot be executed: with `vm.memfd_noexec=2` the kernel
/// allows no other. Before Linux 6.3 there is no such flag.
pub(crate) fn create(name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is NUL-terminated and only read.
    let call = |flags| unsafe { libc::memfd_create(name.as_ptr(), flags) }.check();
    let fd = match call(flags | libc::MFD_NOEXEC_SEAL) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => call(flags),
        made => made,
    }?;
    // SAFETY: the kernel just returned this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
