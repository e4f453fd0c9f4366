//! Messages of the control plane: in the error log and, during startup, on
//! stderr.

use crate::terminal::say;
use sealane_conf::Diagnostic;
use sealane_conf::diagnostic::printable;
use sealane_conf::model::LogLevel;
use sealane_log::Logger;
use std::fmt;

/// Where the control plane logs.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    logger: Logger,
    /// What is at least as grave goes to stderr as well.
    to_stderr: Option<LogLevel>,
}

impl Journal {
    /// Logs to `logger` and, warnings and worse, to stderr.
    pub(crate) fn starting(logger: Logger) -> Journal {
        Journal {
            logger,
            to_stderr: Some(LogLevel::Warn),
        }
    }

    /// Logs to `logger` only: the server runs.
    pub(crate) fn running(logger: Logger) -> Journal {
        Journal {
            logger,
            to_stderr: None,
        }
    }

    /// Errors go to stderr, and nothing anywhere else: the configuration is only looked at.
    pub(crate) fn of_errors() -> Journal {
        Journal {
            logger: Logger::discard(),
            to_stderr: Some(LogLevel::Error),
        }
    }

    /// Logs one line.
    pub(crate) fn write(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        self.logger.log(level, None, message);
        if self.to_stderr.is_some_and(|least| level <= least) {
            let message = printable(&message.to_string());
            say(&format!("sealane: [{}] {message}\n", level.name()));
        }
    }

    /// Logs a configuration diagnostic: with its source line
    /// on stderr, in one line in the log.
    pub(crate) fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.logger.log(
            diagnostic.level,
            None,
            format_args!("{}", diagnostic.headline()),
        );
        if self
            .to_stderr
            .is_some_and(|least| diagnostic.level <= least)
        {
            say(&format!("{diagnostic}\n"));
        }
    }
}

/// `note!(journal, Notice, "...")`: one line of the journal.
macro_rules! note {
    ($journal:expr, $level:ident, $($message:tt)+) => {
        $journal.write(sealane_conf::model::LogLevel::$level, format_args!($($message)+))
    };
}
pub(crate) use note;
