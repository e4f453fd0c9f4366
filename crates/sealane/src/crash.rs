//! What a crash leaves behind: a report in the main error log and, if enabled, a core dump without
//! secrets.

use crate::journal::{Journal, note};
use sealane_conf::model::{LogTarget, Main};
use sealane_log::{LogSet, OsError};
use sealane_sys::crash::{self, Role};
use sealane_sys::memory;

/// From now on this process logs the cause of a crash. Failing that, it crashes all the same.
pub(crate) fn install(role: Role, journal: &Journal) {
    if let Err(error) = crash::install(role) {
        note!(
            journal,
            Warn,
            "sigaction() failed ({}); if this process crashes, the log will not say where",
            OsError(&error)
        );
    }
}

/// Keeps the heap of this process, and of the worker that is forked from it, out of core dumps:
/// private keys, keys of tickets and connections, passwords, and what clients send.
pub(crate) fn keep_secrets_out_of_dumps(journal: &Journal) {
    if let Err(error) = memory::keep_heap_out_of_dumps() {
        note!(
            journal,
            Warn,
            "the heap cannot be excluded from core dumps ({}): they may contain private keys, \
             restrict access to them",
            OsError(&error)
        );
    }
}

/// Reports go to `backtrace_log`, to the first error log that is a file, or else to stderr. A
/// file's descriptor keeps its number when the log is reopened.
pub(crate) fn report_to(logs: &LogSet, main: &Main) {
    let targets = main.error_logs.iter().map(|log| &log.target);
    let first = targets
        .filter_map(|target| match target {
            LogTarget::File(path) => Some(path),
            _ => None,
        })
        .next();
    let path = main.backtrace_log.as_ref().or(first);
    if let Some(log) = path.and_then(|path| logs.files().find(|file| file.path == path)) {
        crash::report_to(log.fd);
    }
}
