//! `error_log`, `access_log` and `log_format`.

use super::{PeerAddress, Template};
use std::path::PathBuf;
use std::sync::Arc;
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
    /// Files whose names depend on the request, opened by the worker.
    Paths(LogPaths),
    /// `syslog:`.
    Syslog(Arc<SyslogServer>),
    /// `pipe:`: the standard input of a program.
    Pipe(Arc<LogPipe>),
    /// `memory:SIZE`: the newest lines, in a ring of so many bytes.
    Memory(u64),
    /// `/dev/null` or `error_log off`-like: nothing is kept.
    Discard,
}

/// An access log with variables in its path ([`AccessLog::path`]).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogPaths {
    /// The path as written, below the prefix, with its variables.
    pub written: PathBuf,
    /// `open_log_file_cache` as configured; `None` is off: a file is
    /// closed again after its lines are written.
    pub cache: Option<LogFileCache>,
}

/// `open_log_file_cache`: log files that stay open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogFileCache {
    /// `max=`: how many; the one used least recently goes first.
    pub max: u32,
    /// `inactive=`: one not used for so long is closed. Default 10 s.
    pub inactive: Duration,
    /// `min_uses=`: one used less often within that time is closed at once.
    /// Default 1.
    pub min_uses: u64,
    /// `valid=`: after this time it is checked whether the name still refers to the same
    /// file. Default 60 s.
    pub valid: Duration,
}

/// `pipe:PROGRAM ARGUMENTS`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogPipe {
    /// As written, without `pipe:`.
    pub written: String,
    /// Absolute.
    pub program: PathBuf,
    /// What follows it.
    pub arguments: Vec<String>,
}

/// `syslog:server=...`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SyslogServer {
    /// Where datagrams go. A name has been looked up.
    pub address: PeerAddress,
    /// The address as written, for messages.
    pub written: String,
    /// `facility=`: its number. Default 23, `local7`.
    pub facility: u8,
    /// `severity=` of an access log's lines: its number. Default 6, `info`.
    pub severity: u8,
    /// `tag=`. Default `nginx`.
    pub tag: String,
    /// This machine's name; `None` with `nohostname`.
    pub hostname: Option<String>,
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
    /// The path, for [`LogTarget::Paths`].
    pub path: Option<Template>,
    /// The format named, `combined` by default.
    pub format: std::sync::Arc<LogFormat>,
    /// `buffer=`: bytes gathered before they are written.
    pub buffer_bytes: Option<u64>,
    /// `flush=`: the longest time a line waits in the buffer.
    pub flush: Option<Duration>,
    /// `gzip=`: level, 1 to 9; lines are written compressed, a buffer at a time.
    pub gzip: Option<u32>,
    /// `if=`: logged unless this evaluates to an empty string or `0`.
    pub condition: Option<Template>,
    /// `ratio=`: which part of the requests is logged, in millionths.
    pub ratio: Option<u32>,
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
