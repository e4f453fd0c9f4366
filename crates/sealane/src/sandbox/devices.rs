//! The process of a PKCS #11 module or a provider of OpenSSL: what it needs is known to nobody but
//! its vendor. So this filter says what is refused, not what is allowed.

use super::calls::{Condition, Number, Test};
use crate::journal::{Journal, note};
use landlock::{AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use libc::*;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};
use std::collections::BTreeMap;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Refused whatever the arguments.
const REFUSED: &[Number] = &[
    // Other programs, and other processes.
    SYS_execve,
    SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    SYS_fork,
    #[cfg(target_arch = "x86_64")]
    SYS_vfork,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_process_madvise,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    // The system as a whole.
    SYS_acct,
    SYS_add_key,
    SYS_bpf,
    SYS_chroot,
    SYS_delete_module,
    SYS_finit_module,
    SYS_fsopen,
    SYS_init_module,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_mount,
    SYS_move_mount,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_pivot_root,
    SYS_reboot,
    SYS_request_key,
    SYS_setns,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_umount2,
    SYS_unshare,
    SYS_userfaultfd,
];

/// The filters.
pub(super) fn programs() -> Result<[BpfProgram; 2], Failure> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let without_clone3 = super::no_clone3(arch)?;
    let mut rules: BTreeMap<Number, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let is_process = Condition {
        argument: 0,
        test: Test::LacksBits(CLONE_THREAD as u64),
    };
    let rule = SeccompRule::new(vec![is_process.compile()?])?;
    rules.insert(SYS_clone, vec![rule]);
    let refusal = SeccompAction::Errno(EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?;
    Ok([without_clone3, filter.try_into()?])
}

/// No file can be executed, and no process outside signalled.
pub(super) fn confine(journal: &Journal) {
    let confined = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::Execute)?
            .scope(Scope::Signal)?
            .create()?
            .set_compatibility(CompatLevel::BestEffort)
            .restrict_self()
    };
    // A kernel without Landlock has the filter of system calls.
    if let Err(error) = confined() {
        note!(
            journal,
            Warn,
            "the process of a device with keys cannot be confined ({error})"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile() {
        let programs = programs().expect("a supported processor");
        assert!(programs.iter().all(|program| !program.is_empty()));
        assert!(
            !REFUSED.contains(&super::super::calls::CLONE3),
            "it is unknown"
        );
    }
}
