//! Totals of a request and all of its subrequests: how many there are, and what they have
//! written to the error log.
//!
//! Pages and applications may cause subrequests without end, with the same message for each.
//! Subrequests beyond `max_subrequests` are refused. A message that the request has already
//! written is only counted; the number is logged when the request is over.

use crate::exchange::Exchange;
use sealane_conf::model::LogLevel;
use sealane_log::{Logger, MAX_ERROR_LINE_BYTES};
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Subrequests of a request that may begin before it is their turn to be sent. nginx begins all of
/// them at once; each holds a copy of the client's head, and perhaps a file or a connection.
const MAX_AHEAD: u32 = 64;

/// Recent lines of a request that are recognised when they are repeated.
const MAX_KNOWN: usize = 16;

/// Limit of different lines of a request; further ones are only counted. An application may write
/// to the log (FastCGI's standard error) without end.
const MAX_LINES: u32 = 1000;

/// Totals of a request and its subrequests; see the module.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Subrequests that were begun.
    begun: AtomicU32,
    /// Subrequests in progress.
    under_way: AtomicU32,
    said: Mutex<LoggedLines>,
}

/// What a request keeps to be counted together with its subrequests.
#[derive(Default)]
pub(crate) struct TallyState {
    /// Shared by the main request and all of its subrequests, once there is something to count.
    tally: OnceLock<Arc<Tally>>,
    /// In a subrequest: what it counts as.
    _permit: Option<SubrequestPermit>,
}

impl TallyState {
    /// A subrequest counts with the request that makes it.
    pub(crate) fn of_subrequest(main: &Exchange, permit: SubrequestPermit) -> TallyState {
        TallyState {
            tally: OnceLock::from(Arc::clone(main.tally())),
            _permit: Some(permit),
        }
    }

    /// The tally, if anything has been counted.
    pub(crate) fn get(&self) -> Option<&Arc<Tally>> {
        self.tally.get()
    }
}

/// Permits one subrequest, which counts among those in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct SubrequestPermit {
    tally: Arc<Tally>,
    is_piece: bool,
}

impl Tally {
    /// Counts a subrequest; `None` if there are `limit` already. `is_piece`: it is one of a series
    /// of pieces, which count only while they last, as their number depends on the length of the
    /// whole.
    pub(crate) fn begin(self: &Arc<Self>, limit: u32, is_piece: bool) -> Option<SubrequestPermit> {
        let more = |begun| (begun < limit).then_some(begun + 1);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.begun.fetch_update(success, failure, more).ok()?;
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Some(SubrequestPermit {
            tally: Arc::clone(self),
            is_piece,
        })
    }

    /// Whether a subrequest may begin ahead of its turn.
    pub(crate) fn may_begin_ahead(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) < MAX_AHEAD
    }

    /// Whether this line is to be written; otherwise it is counted.
    pub(crate) fn is_new(
        &self,
        logger: &Logger,
        level: LogLevel,
        connection: u64,
        line: &str,
    ) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.is_new(logger, level, connection, line)
    }
}

impl Exchange {
    /// The totals of the request and its subrequests.
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        self.features.tally.tally.get_or_init(Arc::default)
    }
}

impl Drop for SubrequestPermit {
    fn drop(&mut self) {
        self.tally.under_way.fetch_sub(1, Ordering::Relaxed);
        if self.is_piece {
            self.tally.begun.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The lines that were written to the log.
#[derive(Debug, Default)]
struct LoggedLines {
    /// The last ones that differ, oldest first.
    known: Vec<LoggedLine>,
    /// How many were written.
    lines: u32,
    /// How many were suppressed, as there were too many.
    unsaid: u64,
}

/// A line that was written.
#[derive(Debug)]
struct LoggedLine {
    logger: Logger,
    level: LogLevel,
    connection: u64,
    line: Box<str>,
    /// How often it was repeated.
    again: u64,
}

impl LoggedLines {
    fn is_new(&mut self, logger: &Logger, level: LogLevel, connection: u64, line: &str) -> bool {
        // The rest would not be written either.
        let line = &line[..line.floor_char_boundary(MAX_ERROR_LINE_BYTES)];
        let is_same = |known: &&mut LoggedLine| known.level == level && *known.line == *line;
        // Newest first, as repeated lines usually are.
        if let Some(known) = self.known.iter_mut().rev().find(is_same) {
            known.again += 1;
            return false;
        }
        if self.lines == MAX_LINES {
            self.unsaid += 1;
            return false;
        }
        self.lines += 1;
        if self.known.len() == MAX_KNOWN {
            self.known.remove(0).conclude();
        }
        self.known.push(LoggedLine {
            logger: logger.clone(),
            level,
            connection,
            line: line.into(),
            again: 0,
        });
        true
    }
}

impl LoggedLine {
    fn conclude(self) {
        let times = match self.again {
            0 => return,
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        self.logger.log(
            self.level,
            Some(self.connection),
            format_args!("message repeated {times}: [{}]", self.line),
        );
    }
}

impl Drop for LoggedLines {
    fn drop(&mut self) {
        if self.unsaid > 0
            && let Some(last) = self.known.last()
        {
            last.logger.log(
                last.level,
                Some(last.connection),
                format_args!(
                    "{} more messages about the same request were not logged, after \
                     {MAX_LINES} different ones; the last one logged: [{}]",
                    self.unsaid, last.line
                ),
            );
        }
        mem::take(&mut self.known)
            .into_iter()
            .for_each(LoggedLine::conclude);
    }
}

#[cfg(test)]
mod tests;
