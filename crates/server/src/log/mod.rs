//! Logging: `error_log` and `access_log` in nginx's formats, without ever
//! blocking a worker thread.
//!
//! ```text
//! Logger, AccessLogger --lines--> thread buffer --> queue --> writer thread --> files
//!  (cheap handles)                (access only)   (bounded)   (one per process)
//! ```
//!
//! The privileged master opens every file of a configuration ([`LogSet::open`])
//! and the worker process inherits the descriptors over fork. Until a process
//! calls [`LogSet::start_writer`], lines are written at once; from then on they
//! go through a queue bounded in bytes ([`QUEUE_BYTES_PER_FILE`]) that one
//! thread writes out in batches.
//!
//! A log that cannot be written (full disk, I/O error) or that takes lines too
//! slowly never stops the service: lines are kept while there is room, then
//! dropped and counted, and one line in the main error log (or on stderr) says
//! how many and why.

mod access;
mod destination;
mod error;
mod panics;
mod queue;
mod set;
mod stamp;
mod writer;

pub use access::{AccessLogger, THREAD_BUFFER_BYTES, flush_thread_buffers};
pub use error::{Logger, MAX_ERROR_LINE_BYTES};
pub use panics::report_panics_to;
pub use queue::QUEUE_BYTES_PER_FILE;
pub use sealane_conf::model::LogLevel;
pub use sealane_sys::OsError;
pub use set::{LogFile, LogOpenError, LogSet};
pub use stamp::{TimeStamps, with_time_stamps};

/// Logs one line if its level is wanted; arguments are evaluated only then.
///
/// `log_error!(logger, Error, connection_id, "open() \"{path}\" failed ({})", OsError(&error))`:
/// the level is a variant of [`LogLevel`], the connection a `u64` or an `Option<u64>`.
#[macro_export]
macro_rules! log_error {
    ($logger:expr, $level:ident, $connection:expr, $($message:tt)+) => {{
        let logger: &$crate::log::Logger = &$logger;
        if logger.enabled($crate::log::LogLevel::$level) {
            logger.log(
                $crate::log::LogLevel::$level,
                ::core::convert::Into::into($connection),
                ::core::format_args!($($message)+),
            );
        }
    }};
}

#[cfg(test)]
mod tests;
