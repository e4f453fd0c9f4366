//! Giving up privileges that a changed user alone does not take away: capabilities, and
//! whatever programs could give back.

use crate::CheckReturn;
use std::io;

/// A capability that a process may keep (capabilities(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Capability {
    /// `CAP_DAC_OVERRIDE`: files whatever their permissions.
    DacOverride = 1,
    /// `CAP_DAC_READ_SEARCH`: reading files and searching directories whatever their permissions.
    DacReadSearch = 2,
    /// `CAP_NET_RAW`: binding to addresses that are not the machine's own.
    NetRaw = 13,
}

/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits in two halves.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// More than any kernel has; the first number that the kernel does not know ends the search.
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

/// Sets `PR_SET_NO_NEW_PRIVS` for the calling thread and those that it starts: no program it
/// might execute gets more rights than it has.
pub fn forbid_new_privileges() -> io::Result<()> {
    // SAFETY: this option takes integers and no pointer.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.check()?;
    Ok(())
}

/// Whether capabilities stay permitted when the user changes (`PR_SET_KEEPCAPS`). The kernel
/// clears it when a program is executed.
pub fn keep_capabilities(on: bool) -> io::Result<()> {
    // SAFETY: this option takes integers and no pointer.
    unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, libc::c_ulong::from(on), 0, 0, 0) }.check()?;
    Ok(())
}

/// Empties the bounding set but for `kept`: what is not in it no program can give. Needs
/// `CAP_SETPCAP`, so it comes before the user changes.
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
            // The kernel's last capability was the one before.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Gives up every capability but `kept` in the calling thread: effective and permitted sets
/// are `kept` (which have to be permitted now), inheritable and ambient sets are empty.
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
        // Before Linux 4.3 there was no such set.
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
