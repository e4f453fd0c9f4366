//! A filter for system calls (seccomp(2)), and whether the kernel can confine a process to
//! directories (landlock(7)).

use crate::CheckReturn;
use std::io;

/// One instruction of a filter, in the kernel's format (`struct sock_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jump_true: u8,
    /// Instructions to skip if it does not.
    pub jump_false: u8,
    /// The operand.
    pub operand: u32,
}

/// Flag that asks `landlock_create_ruleset` for the version.
const CREATE_RULESET_VERSION: u32 = 1;

/// Version of the kernel's Landlock.
///
/// # Errors
/// `ENOSYS` if the kernel has none, `EOPNOTSUPP` if it is switched off.
pub fn landlock_version() -> io::Result<u32> {
    let no_attributes = std::ptr::null::<libc::c_void>();
    // SAFETY: asked for the version, the call reads no attributes.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            no_attributes,
            0_usize,
            CREATE_RULESET_VERSION,
        )
    }
    .check()?;
    u32::try_from(version).map_err(io::Error::other)
}

/// Permanently puts the calling thread, and all threads and processes that it starts, under a
/// filter. Requires an earlier [`forbid_new_privileges`](crate::privileges::forbid_new_privileges).
///
/// Before Linux 5.16 a filter also disabled speculative store bypass, which is costly. That defends
/// programs that run untrusted code, which this is not, so it stays enabled.
///
/// # Errors
/// `InvalidInput` when the kernel has no filters, or does not understand this one.
pub fn install_filter(program: &[Instruction]) -> io::Result<()> {
    let mut filter: Vec<libc::sock_filter> = program
        .iter()
        .map(|instruction| libc::sock_filter {
            code: instruction.code,
            jt: instruction.jump_true,
            jf: instruction.jump_false,
            k: instruction.operand,
        })
        .collect();
    let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: `program` describes `filter`; the kernel copies both during the call.
    unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
        )
    }
    .check()?;
    Ok(())
}
