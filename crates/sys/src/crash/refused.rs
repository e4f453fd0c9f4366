//! Reports system calls that the sandbox refuses, once for each call.

use super::{LOG, on_fault, registers, role, set_handler, start_line};
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What happens to a process that makes a system call that its filter traps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum OnRefusal {
    /// The call fails with `ENOSYS`, as in a kernel that lacks it, and the process continues.
    Fail = 0,
    /// The process ends, with a report.
    Die = 1,
}

/// `si_code` of a signal sent by a filter.
const SYS_SECCOMP: i32 = 1;

/// System call numbers are below this on all architectures.
const MAX_CALLS: usize = 512;

static ON_REFUSAL: AtomicU8 = AtomicU8::new(OnRefusal::Fail as u8);
static SAID: [AtomicU64; MAX_CALLS / 64] = [const { AtomicU64::new(0) }; MAX_CALLS / 64];

/// From now on a trapped call is reported, and then handled according to `on_refusal`. Reports go
/// to the descriptor of [`super::report_to`]; [`super::install`] must have been called.
///
/// # Errors
/// When the kernel refuses the handler.
pub fn report_refused_calls(on_refusal: OnRefusal) -> io::Result<()> {
    ON_REFUSAL.store(on_refusal as u8, Ordering::Relaxed);
    set_handler(libc::SIGSYS, on_refused)
}

extern "C" fn on_refused(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a handler with SA_SIGINFO a valid pointer.
    if unsafe { (*info).si_code } != SYS_SECCOMP {
        return on_fault(signal, info, context);
    }
    // SAFETY: behind three numbers and padding, such a signal has the address of the call, and
    // then its number.
    let call = unsafe { info.cast::<u8>().add(24).cast::<i32>().read() };
    // SAFETY: the kernel hands a handler with SA_SIGINFO a valid pointer to the context, which
    // nobody else uses meanwhile.
    let context_ref = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let dies = ON_REFUSAL.load(Ordering::Relaxed) == OnRefusal::Die as u8;
    if dies || is_first(call) {
        report(call, arguments(context_ref), dies, registers(context_ref).0);
    }
    if dies {
        return on_fault(signal, info, context);
    }
    set_result(context_ref, -libc::ENOSYS);
}

fn report(call: i32, arguments: [u32; 3], dies: bool, counter: usize) {
    let mut line = start_line();
    line.text(role()).text(" was refused system call ");
    line.number(call.max(0) as u64);
    if let Some((_, name)) = NAMES
        .iter()
        .find(|(number, _)| *number == libc::c_long::from(call))
    {
        line.text(" (").text(name).text(")");
    }
    for (at, argument) in arguments.into_iter().enumerate() {
        line.text(if at == 0 { " with " } else { ", " });
        line.hex(argument as usize);
    }
    line.text(", thread \"").thread_name().text("\", at ");
    if let Some(facts) = super::FACTS.get() {
        super::stack::describe(&mut line, &facts.modules, counter);
    }
    line.text(if dies {
        "; worker_seccomp is \"kill\", so the process ends"
    } else {
        "; the call fails, and further ones are not reported"
    });
    line.text(
        ". Either an attacker has taken over the process, or Sealane needs the call: please report \
         this line; \"worker_seccomp off\" lifts the filter",
    );
    line.end(LOG.load(Ordering::Relaxed));
}

/// Whether this is the first refusal of this call.
fn is_first(call: i32) -> bool {
    let call = usize::try_from(call).unwrap_or(0).min(MAX_CALLS - 1);
    let bit = 1 << (call % 64);
    SAID[call / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// The first arguments of the call, as far as filters check them; an address would be truncated.
fn arguments(context: &libc::ucontext_t) -> [u32; 3] {
    #[cfg(target_arch = "x86_64")]
    {
        [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX]
            .map(|register| context.uc_mcontext.gregs[register as usize] as u32)
    }
    #[cfg(target_arch = "aarch64")]
    {
        [0, 1, 2].map(|register| context.uc_mcontext.regs[register] as u32)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        [0; 3]
    }
}

/// What the call returns.
fn set_result(context: &mut libc::ucontext_t, result: i32) {
    #[cfg(target_arch = "x86_64")]
    {
        context.uc_mcontext.gregs[libc::REG_RAX as usize] = result.into();
    }
    #[cfg(target_arch = "aarch64")]
    {
        context.uc_mcontext.regs[0] = i64::from(result) as u64;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (context, result);
}

/// Names of calls that an attacker who has taken over a process would want.
const NAMES: [(libc::c_long, &str); 39] = [
    (libc::SYS_execve, "execve"),
    (libc::SYS_execveat, "execveat"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_ptrace, "ptrace"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    (libc::SYS_process_vm_writev, "process_vm_writev"),
    (libc::SYS_kill, "kill"),
    (libc::SYS_tkill, "tkill"),
    (libc::SYS_tgkill, "tgkill"),
    (libc::SYS_pidfd_open, "pidfd_open"),
    (libc::SYS_pidfd_getfd, "pidfd_getfd"),
    (libc::SYS_socket, "socket"),
    (libc::SYS_listen, "listen"),
    (libc::SYS_socketpair, "socketpair"),
    (libc::SYS_setsockopt, "setsockopt"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_prctl, "prctl"),
    (libc::SYS_prlimit64, "prlimit64"),
    (libc::SYS_bpf, "bpf"),
    (libc::SYS_perf_event_open, "perf_event_open"),
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_userfaultfd, "userfaultfd"),
    (libc::SYS_unshare, "unshare"),
    (libc::SYS_setns, "setns"),
    (libc::SYS_mount, "mount"),
    (libc::SYS_umount2, "umount2"),
    (libc::SYS_chroot, "chroot"),
    (libc::SYS_pivot_root, "pivot_root"),
    (libc::SYS_symlinkat, "symlinkat"),
    (libc::SYS_linkat, "linkat"),
    (libc::SYS_keyctl, "keyctl"),
    (libc::SYS_add_key, "add_key"),
    (libc::SYS_init_module, "init_module"),
    (libc::SYS_finit_module, "finit_module"),
    (libc::SYS_open_by_handle_at, "open_by_handle_at"),
    (libc::SYS_setuid, "setuid"),
    (libc::SYS_setgid, "setgid"),
    (libc::SYS_capset, "capset"),
];
