//! `error_log`, `access_log` and `log_format`.

use super::Template;
use std::path::PathBuf;
use std::time::Duration;

/// Severity of an error-log line, from most to least verbose (nginx's names).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    /// The system is unusable.
    Emerg = 1,
    /// Action must be taken now.
    Alert = 2,
    /// Critical conditions.
    Crit = 3,
    /// Errors while serving a request.
    Error = 4,
    /// Something to look at.
    Warn = 5,
    /// Normal but noteworthy.
    Notice = 6,
    /// Information, such as a client's mistake.
    Info = 7,
    /// Everything; costly.
    Debug = 8,
}

impl LogLevel {
    /// The name that nginx writes in brackets.
    pub const fn name(self) -> &'static str {
        match self {
            LogLevel::Emerg => "emerg",
            LogLevel::Alert => "alert",
            LogLevel::Crit => "crit",
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Notice => "notice",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }
}

/// Where log lines go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// A file, created when missing, appended to. Absolute.
    File(PathBuf),
    /// `stderr`.
    Stderr,
    /// `/dev/null` or `error_log off`-like: nothing is kept.
    Discard,
}

/// One `error_log` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLog {
    /// Destination.
    pub target: LogTarget,
    /// Lines at this level and more severe ones are written. Default `error`.
    pub level: LogLevel,
}

/// One `access_log` line.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// Destination.
    pub target: LogTarget,
    /// The format named, `combined` by default.
    pub format: std::sync::Arc<LogFormat>,
    /// `buffer=`: bytes gathered before they are written.
    pub buffer_bytes: Option<u64>,
    /// `flush=`: the longest time a line waits in the buffer.
    pub flush: Option<Duration>,
    /// `gzip=` level. Parsed; an error until implemented.
    pub gzip: Option<u32>,
    /// `if=`: logged unless this evaluates to an empty string or `0`.
    pub condition: Option<Template>,
}

/// One `log_format`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFormat {
    /// Its name.
    pub name: String,
    /// How variable values are escaped.
    pub escape: LogEscape,
    /// The line, without the final newline.
    pub line: Template,
}

/// `escape=` of `log_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEscape {
    /// `\xXX` for quotes, backslash and control characters.
    Default,
    /// As in JSON strings.
    Json,
    /// As it is.
    None,
}
