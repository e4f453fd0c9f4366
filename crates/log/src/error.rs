//! `error_log`: the handle that all logging goes through, and the line format.

use super::LogLevel;
use super::destination::Destination;
use super::journald;
use super::stamp::with_time_stamps;
use sealane_sys::process;
use std::fmt::{self, Display, Write};
use std::sync::Arc;

/// Longest line of an error log in bytes, including its end; the rest is cut off. nginx cuts at
/// 2048, which long request lines exceed.
pub const MAX_ERROR_LINE_BYTES: usize = 4096;

/// Where a location, a server or the whole process logs its errors. Cheap to clone; a level that is
/// not logged costs one comparison.
#[derive(Clone)]
pub struct Logger {
    /// The most verbose level of any destination; 0 for none.
    max_level: u8,
    /// One of the destinations keeps fields of lines.
    keeps_fields: bool,
    sinks: Arc<[(LogLevel, Arc<Destination>)]>,
}

impl Logger {
    pub(super) fn new(sinks: Vec<(LogLevel, Arc<Destination>)>) -> Logger {
        let max_level = sinks
            .iter()
            .map(|(level, _)| *level as u8)
            .max()
            .unwrap_or(0);
        Logger {
            max_level,
            keeps_fields: sinks.iter().any(|(_, to)| to.sink.keeps_fields()),
            sinks: sinks.into(),
        }
    }

    /// A logger that discards everything.
    pub fn discard() -> Logger {
        Logger::new(Vec::new())
    }

    /// The same destinations, each with all levels.
    pub fn with_all_levels(&self) -> Logger {
        let sinks = self.sinks.iter();
        Logger::new(
            sinks
                .map(|(_, to)| (LogLevel::Debug, Arc::clone(to)))
                .collect(),
        )
    }

    /// Whether a line at this level would be written anywhere.
    #[inline]
    pub fn enabled(&self, level: LogLevel) -> bool {
        level as u8 <= self.max_level
    }

    /// Writes `message` in nginx's format to every log of this level: `2026/11/21 21:00:00 [error]
    /// PID#TID: *CONNECTION message`.
    ///
    /// Control characters are escaped (`\x0A`), so no client can forge a line.
    /// [`crate::log_error!`] is the short form.
    #[cold]
    pub fn log(&self, level: LogLevel, connection: Option<u64>, message: fmt::Arguments<'_>) {
        self.log_with(level, connection, &[], message);
    }

    /// The same with further fields, by their names in systemd's journal: `SEALANE_CLIENT` and its
    /// like. Other logs do not have them. Empty ones are left out.
    #[cold]
    pub fn log_with(
        &self,
        level: LogLevel,
        connection: Option<u64>,
        fields: &[(&'static str, &dyn Display)],
        message: fmt::Arguments<'_>,
    ) {
        if !self.enabled(level) {
            return;
        }
        let mut line = format_line(level, connection, message);
        if self.keeps_fields {
            for (name, value) in fields {
                line.push_field(name, value);
            }
        }
        for (max_level, destination) in self.sinks.iter() {
            if level <= *max_level {
                destination.append_line(&line);
            }
        }
    }

    /// The destinations that log a level.
    pub(super) fn destinations(&self, level: LogLevel) -> impl Iterator<Item = &Arc<Destination>> {
        self.sinks
            .iter()
            .filter(move |(max, _)| level <= *max)
            .map(|(_, destination)| destination)
    }
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sinks = self
            .sinks
            .iter()
            .map(|(level, to)| (level.name(), to.sink.name()));
        f.debug_map().entries(sinks).finish()
    }
}

/// A line of an error log.
#[derive(Debug)]
pub(super) struct ErrorLine {
    /// All of it, with its end.
    pub(super) text: Vec<u8>,
    /// Where the message begins.
    message_at: usize,
    level: LogLevel,
    /// The connection that it is about.
    pub(super) connection: Option<u64>,
    /// The thread that it is from.
    pub(super) thread: i32,
    /// Fields for the journal, in its format.
    pub(super) fields: Vec<u8>,
}

impl ErrorLine {
    /// The message, without what the journal knows by itself.
    pub(super) fn message(&self) -> &[u8] {
        let message = &self.text[self.message_at..];
        message.strip_suffix(b"\n").unwrap_or(message)
    }

    /// nginx's levels are syslog's severities.
    pub(super) fn severity(&self) -> u8 {
        self.level as u8 - 1
    }

    /// Adds a field unless it is empty. Like the message, it has no control characters, and is cut
    /// off where it is too long.
    pub(super) fn push_field(&mut self, name: &'static str, value: &dyn Display) {
        let mut line = Line {
            text: String::new(),
            escape: true,
        };
        // An error means that the line is full; what fits is kept.
        let _ = write!(line, "{value}");
        if !line.text.is_empty() {
            journald::push_field(name, line.text.as_bytes(), &mut self.fields);
        }
    }
}

/// A complete line.
pub(super) fn format_line(
    level: LogLevel,
    connection: Option<u64>,
    message: fmt::Arguments<'_>,
) -> ErrorLine {
    let mut line = Line {
        text: String::with_capacity(256),
        escape: false,
    };
    // An error means that the line is full; what fits is kept.
    let _ = with_time_stamps(|now| line.write_str(&now.error_log));
    let (pid, tid) = (process::pid(), process::thread_id());
    let _ = write!(line, " [{}] {pid}#{tid}: ", level.name());
    if let Some(connection) = connection {
        let _ = write!(line, "*{connection} ");
    }
    let message_at = line.text.len();
    line.escape = true;
    let _ = line.write_fmt(message);
    line.text.push('\n');
    ErrorLine {
        text: line.text.into_bytes(),
        message_at,
        level,
        connection,
        thread: tid,
        fields: Vec::new(),
    }
}

/// A line being written. Escapes control characters and stops when it is full.
struct Line {
    text: String,
    escape: bool,
}

impl Line {
    fn push(&mut self, piece: &str) -> fmt::Result {
        const ROOM: usize = MAX_ERROR_LINE_BYTES - 1; // for the end of the line
        if self.text.len() + piece.len() <= ROOM {
            self.text.push_str(piece);
            return Ok(());
        }
        let room = ROOM - self.text.len();
        self.text
            .push_str(&piece[..piece.floor_char_boundary(room)]);
        Err(fmt::Error)
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.escape {
            return self.push(text);
        }
        for clean in text.split_inclusive(|c: char| c.is_control()) {
            let last = clean.chars().next_back();
            match last.filter(|c| c.is_control()) {
                None => self.push(clean)?,
                Some(control) => {
                    self.push(&clean[..clean.len() - control.len_utf8()])?;
                    self.push(&format!("\\x{:02X}", control as u32))?;
                }
            }
        }
        Ok(())
    }
}
