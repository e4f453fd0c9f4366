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
//!
//! A process that dies of a fault writes, in the handler of the signal, what waits in the queue
//! (`last_words.rs`). Lost with it is what `buffer=` holds back, what waits for compression or a
//! syslog server, and access lines of the turn that each thread is in.
//!
//! # Reloading
//!
//! A process has one queue and one writer, and as many sets as there are
//! configurations in use. Sets overlap: what both name is open once.
//!
//! ```text
//! master                                     worker
//! next = now.open_next(&config)?
//! Snapshot::build(&config, .., &next)?
//! next.descriptors()? ----(index, fd)---->   next = now.adopt_next(&config, fds)?
//!                                            Snapshot::build(&config, .., &next)?
//!                                            next.take_effect(main log); swap snapshots
//! next.take_effect(main log)  <--applied--   drop(now), when its last request is done
//! drop(now)
//! ```
//!
//! - [`LogSet::open_next`] opens every file anew, so that a reload notices what a
//!   rotation has moved away, as it does in nginx. Nothing changes for the set in
//!   use until [`LogSet::take_effect`]: a configuration that is refused is dropped,
//!   and its descriptors with it.
//! - [`LogSet::adopt_next`] opens nothing: it takes the descriptors that the
//!   master has opened for the same configuration. Positions are equal in both,
//!   as both walk the same configuration. A descriptor that is missing is an error,
//!   but for syslog servers, which may be away.
//! - With [`LogSet::take_effect`], logs that both sets name go on in the new file,
//!   after what was logged before, and with the new `buffer=`; the old set's
//!   loggers write there too, so lines stay in order. `notices` replaces the
//!   logger given to [`LogSet::start_writer`]; whoever has called
//!   [`report_panics_to`] calls it again.
//! - A log that only the old set names is closed with the last logger of that set,
//!   after its buffered lines are written.
//! - After [`LogSet::take_effect`], USR1 concerns the new set: [`LogSet::reopen`]
//!   in the master, then [`LogSet::descriptors`] to the worker, which calls
//!   [`LogSet::replace`] for each and [`LogSet::reopen_paths`]. A worker without a master calls
//!   [`LogSet::reopen`] itself.
//! - [`LogSet::finish`] of any set writes out everything of all sets and ends the
//!   writer.

#![forbid(unsafe_code)]

pub mod confinement;

mod access;
mod destination;
mod error;
mod frames;
mod gzip;
mod journald;
mod last_words;
mod outgoing;
mod panics;
mod paths;
mod queue;
mod set;
mod sink;
mod stamp;
mod syslog;
mod wanted;
mod writer;

pub use access::{AccessLogger, THREAD_BUFFER_BYTES, flush_thread_buffers};
pub use error::{Logger, MAX_ERROR_LINE_BYTES};
pub use panics::report_panics_to;
pub use queue::QUEUE_BYTES_PER_FILE;
pub use sealane_conf::model::LogLevel;
pub use sealane_sys::OsError;
pub use set::{LogAdoptError, LogFile, LogOpenError, LogProgram, LogSet, LostLines};
pub use stamp::{TimeStamps, with_time_stamps};

/// Logs one line if its level is wanted; arguments are evaluated only then.
///
/// `log_error!(logger, Error, connection_id, "open() \"{path}\" failed ({})", OsError(&error))`:
/// the level is a variant of [`LogLevel`], the connection a `u64` or an `Option<u64>`.
#[macro_export]
macro_rules! log_error {
    ($logger:expr, $level:ident, $connection:expr, $($message:tt)+) => {{
        let logger: &$crate::Logger = &$logger;
        if logger.enabled($crate::LogLevel::$level) {
            logger.log(
                $crate::LogLevel::$level,
                ::core::convert::Into::into($connection),
                ::core::format_args!($($message)+),
            );
        }
    }};
}

#[cfg(test)]
mod tests;
