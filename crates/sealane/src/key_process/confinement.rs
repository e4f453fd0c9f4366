//! What a key process may do: compute, and talk over sockets that it is given. Modules of PKCS #11
//! and providers of OpenSSL need files and sockets as well; nobody but them knows which.

use super::computer::Computer;
use crate::identity::Identity;
use crate::journal::{Journal, note};
use crate::sandbox;
use sealane_log::OsError;
use sealane_sys::file::{self, Standard};
use sealane_sys::limits::{self, Limit, Resource};
use sealane_sys::signal::{self, Signal};
use sealane_sys::{memory, privileges, process};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Signals of a terminal, and those that somebody sends to all processes of a server: the process
/// ends when its master and its workers have.
const HELD: [Signal; 7] = [
    Signal::Term,
    Signal::Int,
    Signal::Quit,
    Signal::Hup,
    Signal::Usr1,
    Signal::Usr2,
    Signal::Winch,
];

/// Confines this process, whose only thread must be the calling one, and which becomes `identity`.
/// Of its descriptors it keeps `line` and the standard ones.
///
/// # Errors
/// The step that failed, in words: keys must not be held by a process that can do more.
pub(super) fn enter(
    line: BorrowedFd<'_>,
    computer: &Computer,
    identity: Option<&Identity>,
    journal: &Journal,
) -> Result<(), String> {
    let _ = process::set_thread_name(computer.thread_name()); // for ps, if it works
    let failed = |call: &str, error: &io::Error| format!("{call} failed ({})", OsError(error));
    signal::block(&HELD).map_err(|error| failed("sigprocmask()", &error))?;
    if !computer.is_device() {
        stay_in_memory(journal); // a device keeps its keys to itself
    }
    // A terminal, or whoever waits for the end of what a command prints, is not kept waiting.
    leave_standard().map_err(|error| failed("dup2()", &error))?;
    let nothing = Limit { soft: 0, hard: 0 };
    limits::set(Resource::CoreBytes, nothing)
        .map_err(|error| failed("setrlimit(RLIMIT_CORE)", &error))?;
    if let Some(identity) = identity {
        identity.assume()?;
    }
    process::set_dumpable(false).map_err(|error| failed("prctl(PR_SET_DUMPABLE)", &error))?;
    // What the bounding set would prevent, no_new_privs prevents; see `sandbox.rs`.
    let _ = privileges::limit_bounding_set(&[]);
    privileges::limit_capabilities(&[]).map_err(|error| failed("capset()", &error))?;
    privileges::forbid_new_privileges()
        .map_err(|error| failed("prctl(PR_SET_NO_NEW_PRIVS)", &error))?;
    match computer.is_device() {
        true => sandbox::enter_device_process(journal),
        false => sandbox::enter_key_process(journal),
    }
    // Last: the journal may have a file.
    process::close_all_but(&[line]).map_err(|error| failed("close_range()", &error))
}

/// Standard input, output and error lead nowhere: reports go to the master.
fn leave_standard() -> io::Result<()> {
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    for standard in [Standard::Input, Standard::Output, Standard::Error] {
        file::replace_standard(null.as_fd(), standard)?;
    }
    Ok(())
}

/// Keys are not written to swap space, if the limits allow it, or CAP_SYS_RESOURCE may raise
/// them, which root in a container often lacks.
fn stay_in_memory(journal: &Journal) {
    let unlimited = Limit {
        soft: u64::MAX,
        hard: u64::MAX,
    };
    let locked = limits::set(Resource::LockedBytes, unlimited).and_then(|()| {
        // Only then: with a limit, memory would run out of it later.
        memory::keep_out_of_swap()
    });
    if let Err(error) = locked {
        note!(
            journal,
            Info,
            "the key process may be written to swap space: it cannot lock memory ({}); set \
             \"LimitMEMLOCK=infinity\" in the service's unit, \"--ulimit memlock=-1\" for a \
             container, or grant CAP_SYS_RESOURCE",
            OsError(&error)
        );
    }
}
