//! Writes the lines of the access log.

use crate::exchange::Exchange;
use crate::snapshot::AccessLogRuntime;
use crate::{template, variables};
use sealane_conf::model::{LogEscape, LogFormat, Part, Template, Variable};
use sealane_conf::variables::Builtin;
use sealane_http::escape::{self, log_into};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// Buffer for the next line; kept, so that a line needs no allocation.
    static LINE: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// After a longer line the buffer is freed.
const KEPT_BYTES: usize = 64 * 1024;

/// Which requests are logged with `ratio=`: spread evenly, all threads together.
#[derive(Debug)]
pub(crate) struct LogSample {
    millionths: u64,
    sum: AtomicU64,
}

impl LogSample {
    pub(crate) fn new(millionths: u32) -> LogSample {
        LogSample {
            millionths: millionths.into(),
            sum: AtomicU64::new(0),
        }
    }

    /// Whether this request is one: each time another whole is full.
    fn takes(&self) -> bool {
        const WHOLE: u64 = 1_000_000;
        let before = self.sum.fetch_add(self.millionths, Ordering::Relaxed);
        before / WHOLE != before.wrapping_add(self.millionths) / WHOLE
    }
}

/// Writes the lines that the location's `access_log` directives ask for.
pub(crate) fn log(exchange: &Exchange) {
    let logs = &exchange.snapshot.location(exchange.location).access_logs;
    for log in logs {
        let wanted = log
            .condition
            .as_ref()
            .is_none_or(|condition| template::is_true(condition, exchange));
        if !wanted || log.logger.is_discard() {
            continue;
        }
        if log.sample.as_ref().is_some_and(|sample| !sample.takes()) {
            continue;
        }
        LINE.with_borrow_mut(|(line, value)| {
            line.clear();
            format(exchange, &log.format, line, value);
            line.push(b'\n');
            match &log.path {
                None => log.logger.write_line(line),
                Some(path) => write_to(exchange, log, path, line),
            }
            line.shrink_to(KEPT_BYTES);
            value.shrink_to(KEPT_BYTES);
        });
    }
}

/// Logs a line to the file that `path` evaluates to for this request.
fn write_to(exchange: &Exchange, log: &AccessLogRuntime, path: &Template, line: &[u8]) {
    let path = template::evaluate(path, exchange);
    let mut root = Vec::new();
    // Sessions of layer 4 have no files.
    if !exchange.is_session() {
        variables::append(
            exchange,
            &Variable::Builtin(Builtin::DocumentRoot),
            &mut root,
        );
    }
    log.logger.write_line_to(&path, &root, line);
}

/// Appends a line; `value` is room for one variable.
fn format(exchange: &Exchange, format: &LogFormat, line: &mut Vec<u8>, value: &mut Vec<u8>) {
    let kind = match format.escape {
        LogEscape::Default => escape::LogEscape::Default,
        LogEscape::Json => escape::LogEscape::Json,
        LogEscape::None => escape::LogEscape::None,
    };
    for part in format.line.parts() {
        match part {
            Part::Literal(text) => line.extend_from_slice(text),
            Part::Variable(variable) => {
                value.clear();
                if variables::append(exchange, variable, value) {
                    log_into(line, value, kind);
                } else if format.escape == LogEscape::Default {
                    line.push(b'-');
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
