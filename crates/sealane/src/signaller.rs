//! `-s`: signals to the running master.

use crate::arguments::Order;
use crate::journal::{Journal, note};
use crate::pid_file;
use sealane_log::OsError;
use sealane_sys::guard::Guard;
use sealane_sys::signal::{self, Signal};
use std::path::Path;

/// Signals the master whose pid file is `path`. False when that failed;
/// the reason is in the journal.
pub(crate) fn send(order: Order, path: &Path, guard: &Guard, journal: &Journal) -> bool {
    note!(journal, Notice, "signal process started");
    let pid = match pid_file::read(path, guard) {
        Ok(pid) => pid,
        Err(message) => {
            note!(journal, Error, "{message}");
            return false;
        }
    };
    let signal = match order {
        Order::Stop => Signal::Term,
        Order::Quit => Signal::Quit,
        Order::Reopen => Signal::Usr1,
        Order::Reload => Signal::Hup,
    };
    match signal::send(pid, signal) {
        Ok(()) => true,
        Err(error) => {
            let number = signal.number();
            note!(
                journal,
                Alert,
                "kill({pid}, {number}) failed ({})",
                OsError(&error)
            );
            false
        }
    }
}
