//! The key process: what it needs is less than what a worker does.

use super::calls::{self, Condition, ENOSYS, Number};
use crate::journal::{Journal, note};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus,
    Scope,
};
use libc::*;
use sealane_sys::process::Pid;
use seccompiler::{BpfProgram, SeccompAction};

/// Allowed whatever the arguments.
const ALLOWED: &[Number] = &[
    // Sockets that it was given, and the memory that came over them.
    SYS_close,
    SYS_fstat,
    SYS_getsockname,
    SYS_newfstatat,
    SYS_pread64,
    SYS_read,
    SYS_readv,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_shutdown,
    SYS_statx,
    SYS_write,
    SYS_writev,
    // Waiting.
    SYS_clock_nanosleep,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_wait,
    SYS_eventfd2,
    SYS_futex,
    SYS_nanosleep,
    #[cfg(target_arch = "x86_64")]
    SYS_poll,
    SYS_ppoll,
    SYS_restart_syscall,
    SYS_sched_yield,
    // Memory.
    SYS_brk,
    SYS_madvise,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_munmap,
    // Threads, and itself.
    SYS_clock_gettime,
    SYS_close_range,
    SYS_exit,
    SYS_exit_group,
    SYS_getpid,
    SYS_getrandom,
    SYS_gettid,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sched_getaffinity,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_sigaltstack,
];

/// Calls that are allowed with some arguments, which are those of a worker.
const CONDITIONAL: [Number; 6] = [
    SYS_clone,
    SYS_fcntl,
    SYS_ioctl,
    SYS_prctl,
    SYS_prlimit64,
    SYS_sched_setattr,
];

/// The filters for the process with this id. What is refused fails: to end the process would lose
/// handshakes.
pub(super) fn programs(
    own: Pid,
) -> Result<[BpfProgram; 2], Box<dyn std::error::Error + Send + Sync>> {
    let is_wanted = |(call, _): &(Number, Vec<Condition>)| {
        CONDITIONAL.contains(call) || *call == SYS_tgkill // to itself: abort(3)
    };
    let conditional = calls::conditional(own).into_iter().filter(is_wanted);
    super::compile(
        ALLOWED.iter(),
        conditional.collect(),
        SeccompAction::Errno(ENOSYS),
    )
}

/// Takes every right away that the kernel can take.
pub(super) fn confine(journal: &Journal) {
    let confined = || {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V6))?
            .handle_access(AccessNet::from_all(ABI::V6))?
            .scope(Scope::from_all(ABI::V6))?
            .create()?;
        rules
            .set_compatibility(CompatLevel::BestEffort)
            .restrict_self()
    };
    match confined() {
        Ok(status) if status.ruleset != RulesetStatus::NotEnforced => {}
        Ok(_) => note!(
            journal,
            Notice,
            "the kernel has no Landlock: what keeps the key process from files is its filter of \
             system calls"
        ),
        Err(error) => note!(
            journal,
            Warn,
            "the key process cannot be confined ({error})"
        ),
    }
}
