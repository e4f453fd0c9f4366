//! Gives up privileges that changing the user does not remove: capabilities, and those that
//! programs could give back.

use crate::CheckReturn;
use std::io;

/// A capability that a process may keep (capabilities(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Capability {
    /// `CAP_DAC_OVERRIDE`: bypasses file permissions.
    DacOverride = 1,
    /// `CAP_DAC_READ_SEARCH`: bypasses permissions for reading files and searching directories.
    DacReadSearch = 2,
    /// `CAP_NET_RAW`: binding to addresses that do not belong to the machine.
    NetRaw = 13,
}

/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits in two halves.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// More than any kernel has; the search ends at the first number that the kernel does not know.
const MAX_CAPABILITIES: u32 = 64;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapabilityHalf {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Sets `PR_SET_NO_NEW_PRIVS` for the calling thread and those that it starts: executing a program
/// never grants more rights.
///
/// # Errors
///
/// The errno of `prctl`.
pub fn forbid_new_privileges() -> io::Result<()> {
    // SAFETY: this option takes integers and no pointer.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.check()?;
    Ok(())
}

/// Sets whether capabilities stay permitted when the user changes (`PR_SET_KEEPCAPS`). The kernel
/// clears it when a program is executed.
///
/// # Errors
///
/// The errno of `prctl`.
pub fn keep_capabilities(on: bool) -> io::Result<()> {
    // SAFETY: this option takes integers and no pointer.
    unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, libc::c_ulong::from(on), 0, 0, 0) }.check()?;
    Ok(())
}

/// Empties the bounding set except for `kept`: programs cannot grant capabilities that are not in
/// it. Needs `CAP_SETPCAP`, so it must be called before the user changes.
///
/// # Errors
/// `PermissionDenied` without that capability; the process then has none to lose to a program
/// once [`forbid_new_privileges`] is set.
pub fn limit_bounding_set(kept: &[Capability]) -> io::Result<()> {
    for capability in 0..MAX_CAPABILITIES {
        if kept.iter().any(|&kept| kept as u32 == capability) {
            continue;
        }
        // SAFETY: this option takes integers and no pointer.
        let dropped = unsafe {
            libc::prctl(
                libc::PR_CAPBSET_DROP,
                libc::c_ulong::from(capability),
                0,
                0,
                0,
            )
        };
        match dropped.check() {
            Ok(_) => {}
            // The previous capability was the kernel's last.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Gives up every capability except `kept` in the calling thread. Effective and permitted sets
/// become `kept` (which must be permitted now); inheritable and ambient sets become empty.
///
/// # Errors
///
/// `EPERM` when one of `kept` is not permitted now, or another errno of `capset`.
pub fn limit_capabilities(kept: &[Capability]) -> io::Result<()> {
    // SAFETY: this option takes integers and no pointer.
    let cleared = unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            0,
            0,
            0,
        )
    };
    match cleared.check() {
        // This set exists since Linux 4.3.
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
        _ => {}
    }
    let mask = kept
        .iter()
        .fold(0, |mask, &capability| mask | 1_u32 << capability as u32);
    let header = CapabilityHeader {
        version: CAPABILITY_VERSION,
        pid: 0,
    };
    let none = CapabilityHalf {
        effective: 0,
        permitted: 0,
        inheritable: 0,
    };
    let low = CapabilityHalf {
        effective: mask,
        permitted: mask,
        ..none
    };
    let sets = [low, none];
    // SAFETY: the kernel reads the header and, for this version, two halves; both outlive the
    // call.
    unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) }.check()?;
    Ok(())
}
