//! What the worker process may still do: privileges that it drops before it reads a byte from the
//! network, its system call filter (`worker_seccomp`), and the files that it may change and read
//! (`worker_landlock`, `worker_landlock_read`).
//!
//! An attacker who has taken over a worker has only its memory, its sockets, and the files that its
//! user, or its configuration, lets it open. The worker cannot execute a program, become another
//! user, look into another process, signal one, listen on a port, or reach the parts of the kernel
//! behind system calls that no server needs.

mod calls;
mod devices;
mod files;
mod keys;

#[cfg(test)]
mod tests;

pub(crate) use self::files::FileRules;
use crate::identity::Identity;
use crate::journal::{Journal, note};
use sealane_conf::Config;
use sealane_conf::model::{Landlock, LocationConf, Seccomp};
use sealane_log::OsError;
use sealane_sys::crash::{self, OnRefusal};
use sealane_sys::privileges::{self, Capability};
use sealane_sys::{process, sandbox};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Becomes the user of the configuration and permanently drops every capability that the
/// configuration does not need.
///
/// # Errors
/// The step that failed, in words: a worker with more rights than it should have must not run.
pub(crate) fn give_up_privileges(
    config: &Config,
    identity: Option<&Identity>,
    journal: &Journal,
) -> Result<(), String> {
    let failed = |call: &str, error: &io::Error| format!("{call} failed ({})", OsError(error));
    let kept = kept_capabilities(config, identity);
    match privileges::limit_bounding_set(&kept) {
        // A process that was not started as root may lack the right to. What the bounding set would
        // prevent, no_new_privs prevents.
        Err(error) if process::effective_uid() == 0 => {
            note!(
                journal,
                Notice,
                "prctl(PR_CAPBSET_DROP) failed ({}); the worker's bounding set of capabilities \
                 stays as it is",
                OsError(&error)
            );
        }
        _ => {}
    }
    if let Some(identity) = identity {
        if !kept.is_empty() {
            privileges::keep_capabilities(true)
                .map_err(|error| failed("prctl(PR_SET_KEEPCAPS)", &error))?;
        }
        identity.assume()?;
        if !kept.is_empty() {
            privileges::keep_capabilities(false)
                .map_err(|error| failed("prctl(PR_SET_KEEPCAPS)", &error))?;
        }
    }
    privileges::limit_capabilities(&kept).map_err(|error| failed("capset()", &error))?;
    privileges::forbid_new_privileges()
        .map_err(|error| failed("prctl(PR_SET_NO_NEW_PRIVS)", &error))
}

/// What the worker needs beyond an ordinary user's rights.
fn kept_capabilities(config: &Config, identity: Option<&Identity>) -> Vec<Capability> {
    let Some(identity) = identity else {
        return Vec::new(); // who starts it unprivileged has nothing to keep
    };
    let mut kept = Vec::new();
    if identity.uid() == 0 {
        // Whoever writes "user root" wants files of all users served.
        kept.extend([Capability::DacOverride, Capability::DacReadSearch]);
    }
    let http = config.http.as_ref();
    let mut passes = http.iter().flat_map(|http| http.passes());
    let transparent = passes.any(|pass| {
        let bind = pass.upstream().bind.as_ref();
        bind.is_some_and(|bind| bind.transparent)
    });
    if transparent {
        kept.push(Capability::NetRaw); // as in nginx
    }
    kept
}

/// Puts this process under its filter. Its only thread must be the calling one: all others
/// inherit the filter.
///
/// A kernel without filters is reported, and the worker runs without one. Before that, Landlock
/// confines which files it may change and read.
pub(crate) fn enter(config: &Config, files: &FileRules, journal: &Journal) {
    if config.main.worker_landlock != Landlock::Off {
        files.confine(config.main.worker_landlock, journal);
    }
    let on_refusal = match config.main.worker_seccomp {
        Seccomp::Off => return,
        Seccomp::On => OnRefusal::Fail,
        Seccomp::Kill => OnRefusal::Die,
    };
    let entered = crash::report_refused_calls(on_refusal)
        .and_then(|()| install(process::pid(), changes_files(config)));
    if let Err(error) = entered {
        note!(
            journal,
            Warn,
            "seccomp(SECCOMP_SET_MODE_FILTER) failed ({}); the worker runs without a filter of \
             its system calls, \"worker_seccomp off\" silences this",
            OsError(&error)
        );
    }
}

/// The directive of `after` for which a process that was started for `before` lacks rights: what
/// it has dropped does not come back. `identity` is that of both.
pub(crate) fn needs_more(
    before: &Config,
    after: &Config,
    identity: Option<&Identity>,
) -> Option<&'static str> {
    let is_filtered = before.main.worker_seccomp != Seccomp::Off;
    if is_filtered && changes_files(after) && !changes_files(before) {
        let is_dav = locations(after).any(|conf| conf.dav.is_some());
        return Some(if is_dav { "dav_methods" } else { "proxy_store" });
    }
    let kept = kept_capabilities(before, identity);
    let needed = kept_capabilities(after, identity);
    let is_missing = |capability| !kept.contains(capability);
    needed.iter().any(is_missing).then_some("proxy_bind")
}

/// Whether clients or upstream servers may change files (`dav_methods`, `proxy_store`).
fn changes_files(config: &Config) -> bool {
    locations(config).any(|conf| {
        let pass = conf.pass.as_ref();
        conf.dav.is_some() || pass.is_some_and(|pass| pass.upstream().store.is_some())
    })
}

/// The settings of all servers and locations.
fn locations(config: &Config) -> impl Iterator<Item = &Arc<LocationConf>> {
    config.http.iter().flat_map(|http| {
        let servers = http.servers.iter().map(|server| &server.conf);
        servers.chain(http.locations())
    })
}

fn install(own: process::Pid, changes_files: bool) -> io::Result<()> {
    install_all(&programs(own, changes_files).map_err(io::Error::other)?)
}

fn install_all(programs: &[BpfProgram]) -> io::Result<()> {
    for program in programs {
        let program: Vec<sandbox::Instruction> = program
            .iter()
            .map(|instruction| sandbox::Instruction {
                code: instruction.code,
                jump_true: instruction.jt,
                jump_false: instruction.jf,
                operand: instruction.k,
            })
            .collect();
        sandbox::install_filter(&program)?;
    }
    Ok(())
}

/// Confines the key process: no files, no network, no signals to others, and only the calls that it
/// needs. What the kernel cannot do is reported.
pub(crate) fn enter_key_process(journal: &Journal) {
    keys::confine(journal);
    enter_filters(keys::programs(process::pid()), journal);
}

/// Confines the process of a device with keys: no other programs or processes. What the kernel
/// cannot do is reported.
pub(crate) fn enter_device_process(journal: &Journal) {
    devices::confine(journal);
    enter_filters(devices::programs(), journal);
}

/// The filters of a process with keys, or why there are none.
type Filters = Result<[BpfProgram; 2], Box<dyn std::error::Error + Send + Sync>>;

fn enter_filters(programs: Filters, journal: &Journal) {
    let entered = programs
        .map_err(io::Error::other)
        .and_then(|programs| install_all(&programs));
    if let Err(error) = entered {
        note!(
            journal,
            Warn,
            "seccomp(SECCOMP_SET_MODE_FILTER) failed ({}); the key process runs without a filter \
             of its system calls",
            OsError(&error)
        );
    }
}

/// The filters for the process with this id. The kernel runs both, and the stricter result wins.
fn programs(
    own: process::Pid,
    changes_files: bool,
) -> Result<[BpfProgram; 2], Box<dyn std::error::Error + Send + Sync>> {
    let allowed = calls::ALLOWED.iter();
    let allowed = allowed.chain(calls::CHANGING_FILES.iter().filter(|_| changes_files));
    compile(allowed, calls::conditional(own), SeccompAction::Trap)
}

/// Filters that allow these calls, and others if all conditions of one of their rows hold; what
/// else happens is `refusal`.
fn compile<'a>(
    allowed: impl Iterator<Item = &'a calls::Number>,
    conditional: Vec<(calls::Number, Vec<calls::Condition>)>,
    refusal: SeccompAction,
) -> Result<[BpfProgram; 2], Box<dyn std::error::Error + Send + Sync>> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        allowed.map(|&call| (call, Vec::new())).collect();
    for (call, conditions) in conditional {
        let rule = SeccompRule::new(
            conditions
                .into_iter()
                .map(|condition| condition.compile())
                .collect::<Result<_, _>>()?,
        )?;
        rules.entry(call).or_default().push(rule);
    }
    let allowed = SeccompFilter::new(rules, refusal, SeccompAction::Allow, arch)?;
    Ok([no_clone3(arch)?, allowed.try_into()?])
}

/// The arguments of clone3 are in memory, which a filter cannot read. The C library uses clone when
/// there is no clone3.
fn no_clone3(arch: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    SeccompFilter::new(
        BTreeMap::from([(calls::CLONE3, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(calls::ENOSYS),
        arch,
    )?
    .try_into()
}

impl calls::Condition {
    fn compile(self) -> Result<SeccompCondition, seccompiler::BackendError> {
        let calls::Condition { argument, test } = self;
        let (operator, value, size) = match test {
            calls::Test::Is(value) => (SeccompCmpOp::Eq, value, SeccompCmpArgLen::Dword),
            calls::Test::HasBits(bits) => {
                (SeccompCmpOp::MaskedEq(bits), bits, SeccompCmpArgLen::Qword)
            }
            calls::Test::IsNot(value) => (SeccompCmpOp::Ne, value, SeccompCmpArgLen::Dword),
            calls::Test::LacksBits(bits) => {
                (SeccompCmpOp::MaskedEq(bits), 0, SeccompCmpArgLen::Qword)
            }
            calls::Test::HasOf(mask, bits) => {
                (SeccompCmpOp::MaskedEq(mask), bits, SeccompCmpArgLen::Qword)
            }
            calls::Test::IsNull => (SeccompCmpOp::Eq, 0, SeccompCmpArgLen::Qword),
        };
        SeccompCondition::new(argument, size, operator, value)
    }
}
