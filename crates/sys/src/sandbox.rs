//! A filter for system calls (seccomp(2)).

use crate::CheckReturn;
use std::io;

/// One instruction of a filter, in the kernel's form (`struct sock_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip when a comparison holds.
    pub jump_true: u8,
    /// Instructions to skip when it does not.
    pub jump_false: u8,
    /// The operand.
    pub operand: u32,
}

/// Puts the calling thread, and all that it starts, under a filter, for good. It needs
/// [`forbid_new_privileges`](crate::privileges::forbid_new_privileges) before.
///
/// Before Linux 5.16 a filter also switched speculative store bypass off, which costs; that
/// defends programs that run foreign code, which this is not for, so it is left on.
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
