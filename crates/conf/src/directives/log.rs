//! ngx_http_log_module, and `error_log`.

use super::{
    Arity, Check, HSL, HSL_STREAM, HSL_STREAM_MAIL, HTTP, LIMIT_EXCEPT, LOCATION_IF, MAIN, Module,
    ONE, Row, STREAM, syslog,
};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::model::{
    AccessLog, ErrorLog, LogEscape, LogFileCache, LogFormat, LogLevel, LogPaths, LogPipe,
    LogTarget, Part, ServerKind, Template,
};
use crate::parser::path_of;
use crate::template;
use crate::values;
use std::sync::Arc;
use std::time::Duration;

pub(super) const MODULE: Module = Module {
    title: "Logs",
    doc: "Error log and access log, in nginx's formats.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "error_log",
        MAIN | HSL_STREAM_MAIL,
        Arity::AtLeast(1),
        "logs/error.log error",
        "File, `stderr`, `syslog:`, `pipe:` or `memory:SIZE`, and the minimum level: `debug`, `info`, `notice`, `warn`, \
         `error`, `crit`, `alert` or `emerg`. Inherited only if the current level has no \
         `error_log`. `syslog:` takes comma-separated parameters: `server=` (an address with an \
         optional port, 514 by default, a name, which is resolved once, or `unix:/path`), \
         `facility=` (`local7`), `tag=` (`nginx`), `severity=` (`info`; for access logs) and \
         `nohostname`. As in Tengine, `\"pipe:/PROGRAM ARGUMENTS\"` is the standard input of a program \
         that the master runs as the user of worker processes, without a shell, and starts again \
         when it ends; lines that it does not read in time are dropped and counted. The master opens the connection. A socket that the worker process must not \
         connect to is connected again on USR1 and on reload. `memory:SIZE` keeps the newest lines, \
         as many as fit into a ring of that size, for level `debug` under load: read it as \
         `/proc/PID/fd/N`, the descriptor of the master process that leads to `memfd:error_log`. \
         It lasts as long as the processes do.",
        error_log,
    ),
    Row::new(
        "log_format",
        HTTP | STREAM,
        Arity::AtLeast(2),
        "combined",
        "Defines a log format: `escape=default|json|none`, then strings with variables, which are \
         concatenated.",
        log_format,
    ),
    Row::new(
        "access_log",
        HSL_STREAM | LOCATION_IF | LIMIT_EXCEPT,
        Arity::AtLeast(1),
        "logs/access.log combined",
        "`off`, or a file, `syslog:` or `pipe:` (see `error_log`), with a format and parameters: `buffer=` buffers lines, \
         `flush=` limits how long they are buffered, `gzip` or `gzip=1`…`9` compresses them (with \
         `buffer=64k` by default), and `if=` logs only requests for which the value is neither \
         empty nor `0`. With `ratio=0.01` every hundredth request is logged, as in Tengine. A file whose path contains variables is opened by the worker process with \
         its own privileges, and only if the request's `root` exists. Inherited only if the \
         current level has no `access_log`.",
        access_log,
    ),
    Row::new(
        "open_log_file_cache",
        HSL_STREAM,
        Arity::Between(1, 4),
        "off",
        "Caches descriptors of log files whose paths contain variables: up to `max=` files that \
         were used at least `min_uses=1` times within `inactive=10s`. After `valid=60s`, the \
         cache checks that the path still refers to the same file. There is one cache for the \
         whole process, not one per worker.",
        open_log_file_cache,
    ),
    Row::meaningless(
        "log_empty_request",
        HSL,
        ONE,
        Check::Flag,
        "Nothing is logged of a connection that ends without a request.",
    )
    .own(),
    Row::meaningless(
        "request_time_cache",
        HSL,
        ONE,
        Check::Flag,
        "Times of requests are always precise.",
    )
    .own(),
    Row::new(
        "log_queue_size",
        MAIN,
        ONE,
        "4m",
        "Maximum size of the lines that wait for one log while its disk, pipe or syslog server is \
         slow or unavailable; at least 64k. Lines beyond that are dropped and counted; requests \
         never wait. A directive of Sealane.",
        |b, c| {
            c.size(&mut b.main.log_queue_size)?;
            match b.main.log_queue_size {
                Some(bytes) if bytes < MIN_QUEUE_BYTES => {
                    Err(Fault::at(1, "\"log_queue_size\" must be at least 64k"))
                }
                _ => Ok(()),
            }
        },
    ),
];

/// A queue must hold what a worker thread gathers and a line of any length.
const MIN_QUEUE_BYTES: u64 = 64 << 10;

/// Buffer of a compressed log that names none.
const GZIP_BUFFER_BYTES: u64 = 64 << 10;

/// The whole, for `ratio=`.
const MILLION: u32 = 1_000_000;

/// Smallest ring of `error_log memory:`: a few lines.
const MIN_RING_BYTES: u64 = 1 << 10;

/// The format that exists without being written.
const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
                        $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// What to do in `stream`.
const NO_FORMAT: &str = "\"stream\" has no predefined format: define one with \"log_format\", and name \
                         it after the file";

/// The predefined format `combined`.
pub(crate) fn combined() -> LogFormat {
    let nowhere = crate::model::Origin {
        file: Default::default(),
        line: 0,
    };
    let mut names = template::Names::default();
    let line = template::compile_log(&mut names, COMBINED.as_bytes(), 0, &nowhere);
    LogFormat {
        name: "combined".into(),
        escape: LogEscape::Default,
        line: line.expect("the format uses built-in variables only"),
    }
}

fn error_log(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let written = c.arg(1);
    let target = match written.strip_prefix(b"memory:") {
        Some(size) => LogTarget::Memory(ring_size(size)?),
        None => target(b, written)?,
    };
    let mut level = None;
    for (index, word) in c.args().skip(1) {
        let found = log_level(word)
            .ok_or_else(|| Fault::at(index, format!("invalid log level \"{}\"", shown(word))))?;
        let class = word.starts_with(b"debug_");
        match level {
            None => {}
            // Several of nginx's debug classes may be named; all mean `debug`.
            Some(LogLevel::Debug) if class => {}
            Some(_) => {
                let what = if class { "invalid" } else { "duplicate" };
                return Err(Fault::at(
                    index,
                    format!("{what} log level \"{}\"", shown(word)),
                ));
            }
        }
        level = Some(found);
    }
    let log = ErrorLog {
        target,
        level: level.unwrap_or(LogLevel::Error),
    };
    if b.in_main() {
        b.main.error_logs.push(log);
        return Ok(());
    }
    b.location().error_logs.get_or_insert_default().push(log);
    Ok(())
}

fn log_level(word: &[u8]) -> Option<LogLevel> {
    use LogLevel::{Alert, Crit, Debug, Emerg, Error, Info, Notice, Warn};
    const DEBUG_CLASSES: [&[u8]; 7] = [
        b"debug_core",
        b"debug_alloc",
        b"debug_mutex",
        b"debug_event",
        b"debug_http",
        b"debug_mail",
        b"debug_stream",
    ];
    let levels = [Emerg, Alert, Crit, Error, Warn, Notice, Info, Debug];
    let level = levels
        .into_iter()
        .find(|level| level.name().as_bytes() == word);
    level.or_else(|| DEBUG_CLASSES.contains(&word).then_some(Debug))
}

/// `memory:SIZE`.
fn ring_size(size: &[u8]) -> Result<u64, Fault> {
    let bytes = values::size(size).filter(|bytes| *bytes >= MIN_RING_BYTES);
    bytes.ok_or_else(|| {
        let message = format!("invalid buffer size \"{}\"", shown(size));
        Fault::at(1, message).help(format!("the minimum is {MIN_RING_BYTES} bytes"))
    })
}

fn target(b: &mut Build<'_>, written: &[u8]) -> Result<LogTarget, Fault> {
    if written.starts_with(syslog::PREFIX) {
        return Ok(LogTarget::Syslog(Arc::new(syslog::parse(b, written)?)));
    }
    if let Some(command) = written.strip_prefix(b"pipe:") {
        return Ok(LogTarget::Pipe(Arc::new(pipe(command)?)));
    }
    Ok(match written {
        b"stderr" => LogTarget::Stderr,
        b"/dev/null" => LogTarget::Discard,
        _ => LogTarget::File(b.options.under_prefix(path_of(written))),
    })
}

/// `pipe:`, without that.
fn pipe(command: &[u8]) -> Result<LogPipe, Fault> {
    let invalid = |help: &str| {
        let message = format!("invalid log program \"{}\"", shown(command));
        Fault::at(1, message).help(help)
    };
    let written = std::str::from_utf8(command).map_err(|_| invalid("it is not valid UTF-8"))?;
    let mut words = written.split_ascii_whitespace();
    let program = words.next().unwrap_or_default();
    if program == "rollback" {
        let help = "Tengine rotates the file itself; name the file, and have logrotate move it and \
                    send USR1 to the master, or run a program that rotates: \
                    \"pipe:/usr/bin/rotatelogs FILE 3600\"";
        return Err(invalid(help).left_out());
    }
    if !program.starts_with('/') {
        return Err(invalid(
            "write the path of a program: \"pipe:/usr/bin/logger -t web\"",
        ));
    }
    Ok(LogPipe {
        written: written.to_owned(),
        program: program.into(),
        arguments: words.map(str::to_owned).collect(),
    })
}

fn log_format(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let name = c.text(1)?;
    if b.http.log_formats.iter().any(|format| format.name == name) {
        return Err(Fault::at(
            1,
            format!("duplicate \"log_format\" name \"{name}\""),
        ));
    }
    let escape_given = c.arg(2).strip_prefix(b"escape=");
    let escape = match escape_given {
        None | Some(b"default") => LogEscape::Default,
        Some(b"json") => LogEscape::Json,
        Some(b"none") => LogEscape::None,
        Some(other) => {
            let message = format!("unknown log format escaping \"{}\"", shown(other));
            return Err(Fault::at(2, message));
        }
    };
    let mut parts: Vec<Part> = Vec::new();
    for (index, piece) in c.args().skip(if escape_given.is_some() { 2 } else { 1 }) {
        let compiled = template::compile_log(&mut b.names, piece, index, &c.origin)?;
        for part in compiled.parts() {
            match (parts.last_mut(), part) {
                (Some(Part::Literal(text)), Part::Literal(more)) => {
                    *text = [&text[..], &more[..]].concat().into();
                }
                _ => parts.push(part.clone()),
            }
        }
    }
    let format = LogFormat {
        name: name.to_owned(),
        escape,
        line: Template::new(parts),
    };
    b.http.log_formats.push(Arc::new(format));
    Ok(())
}

fn access_log(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let written = c.arg(1);
    if written == b"off" {
        if c.count() > 1 {
            return Err(c.invalid_parameter(2));
        }
        b.location().access_logs.off = true;
        return Ok(());
    }
    let mut path = None;
    let is_path = !written.starts_with(syslog::PREFIX) && !written.starts_with(b"pipe:");
    let target = if is_path && written.contains(&b'$') {
        let full = b.options.under_prefix(path_of(written));
        let text = full.as_os_str().as_encoded_bytes();
        path = Some(template::compile(&mut b.names, text, 1, &c.origin)?);
        LogTarget::Paths(LogPaths {
            written: full,
            cache: None,
        })
    } else {
        target(b, written)?
    };
    // Tengine's form without a format.
    let has_format = c.count() >= 2 && !c.arg(2).starts_with(b"ratio=");
    let is_stream = b.kind() == ServerKind::Stream;
    if is_stream && !has_format {
        return Err(Fault::new("log format is not specified").help(NO_FORMAT));
    }
    let name = if has_format { c.arg(2) } else { b"combined" };
    let format = b
        .http
        .log_formats
        .iter()
        .find(|f| f.name.as_bytes().eq_ignore_ascii_case(name));
    let format = format.cloned().ok_or_else(|| {
        let fault = Fault::at(2, format!("unknown log format \"{}\"", shown(name)));
        match is_stream && name.eq_ignore_ascii_case(b"combined") {
            true => fault.help(NO_FORMAT),
            false => fault,
        }
    })?;
    let mut log = AccessLog {
        target,
        path,
        format,
        buffer_bytes: None,
        flush: None,
        gzip: None,
        condition: None,
        ratio: None,
    };
    for (index, option) in c.args().skip(1 + usize::from(has_format)) {
        access_log_option(b, c, index, option, &mut log)?;
    }
    if log.flush.is_some() && log.buffer_bytes.is_none() {
        let path = shown(written);
        return Err(Fault::new(format!(
            "no buffer is defined for access_log \"{path}\""
        )));
    }
    if log.buffer_bytes.is_some() {
        match &log.target {
            LogTarget::Paths(_) => {
                return Err(Fault::new("buffered logs cannot have variables in name"));
            }
            LogTarget::Syslog(_) => return Err(Fault::new("logs to syslog cannot be buffered")),
            _ => {}
        }
    }
    if let (Some(bytes), LogTarget::File(path)) = (log.buffer_bytes, &log.target) {
        let parameters = (bytes, log.flush, log.gzip);
        let earlier = b.http.log_buffers.insert(path.clone(), parameters);
        if earlier.is_some_and(|earlier| earlier != parameters) {
            let path = shown(written);
            return Err(Fault::new(format!(
                "access_log \"{path}\" already defined with conflicting parameters"
            )));
        }
    }
    b.location().access_logs.logs.push(log);
    Ok(())
}

fn access_log_option(
    b: &mut Build<'_>,
    c: &Call<'_>,
    index: usize,
    option: &[u8],
    log: &mut AccessLog,
) -> Result<(), Fault> {
    if let Some(size) = option.strip_prefix(b"buffer=") {
        let bytes = values::size(size).filter(|bytes| *bytes > 0);
        let invalid = || Fault::at(index, format!("invalid buffer size \"{}\"", shown(size)));
        log.buffer_bytes = Some(bytes.ok_or_else(invalid)?);
    } else if let Some(time) = option.strip_prefix(b"flush=") {
        let flush = values::time(time).filter(|flush| !flush.is_zero());
        let invalid = || Fault::at(index, format!("invalid flush time \"{}\"", shown(time)));
        log.flush = Some(flush.ok_or_else(invalid)?);
    } else if option == b"gzip" || option.starts_with(b"gzip=") {
        log.buffer_bytes.get_or_insert(GZIP_BUFFER_BYTES);
        let level = option.strip_prefix(b"gzip=").unwrap_or(b"1");
        let number = values::number(level).filter(|level| (1..=9).contains(level));
        let invalid = || {
            let message = format!("invalid compression level \"{}\"", shown(level));
            Fault::at(index, message)
        };
        log.gzip = Some(number.ok_or_else(invalid)? as u32);
    } else if let Some(ratio) = option.strip_prefix(b"ratio=") {
        let millionths = values::decimal(ratio, 6).and_then(|ratio| u32::try_from(ratio).ok());
        let millionths = millionths.filter(|ratio| (1..=MILLION).contains(ratio));
        let invalid = || {
            let message = format!("invalid ratio \"{}\"", shown(ratio));
            Fault::at(index, message).help("it is above 0, at most 1, with up to six decimals")
        };
        log.ratio = Some(millionths.ok_or_else(invalid)?);
    } else if let Some(condition) = option.strip_prefix(b"if=") {
        log.condition = Some(template::compile(
            &mut b.names,
            condition,
            index,
            &c.origin,
        )?);
    } else {
        return Err(c.invalid_parameter(index));
    }
    Ok(())
}

fn open_log_file_cache(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().open_log_file_cache)?;
    let (mut max, mut off) = (None, false);
    let mut cache = LogFileCache {
        max: 0,
        inactive: Duration::from_secs(10),
        min_uses: 1,
        valid: Duration::from_secs(60),
    };
    for (index, written) in c.args() {
        let parsed = if let Some(number) = written.strip_prefix(b"max=") {
            max = values::number(number).and_then(|max| u32::try_from(max).ok());
            max.is_some()
        } else if let Some(number) = written.strip_prefix(b"min_uses=") {
            let uses = values::number(number);
            uses.map(|uses| cache.min_uses = uses).is_some()
        } else if let Some(time) = written.strip_prefix(b"inactive=") {
            let time = values::seconds(time);
            time.map(|time| cache.inactive = time).is_some()
        } else if let Some(time) = written.strip_prefix(b"valid=") {
            values::seconds(time)
                .map(|time| cache.valid = time)
                .is_some()
        } else {
            off |= written == b"off";
            written == b"off"
        };
        if !parsed {
            let message = format!(
                "invalid \"open_log_file_cache\" parameter \"{}\"",
                shown(written)
            );
            return Err(Fault::at(index, message));
        }
    }
    cache.max = max.unwrap_or(0);
    if !off && cache.max == 0 {
        return Err(Fault::new(
            "\"open_log_file_cache\" must have \"max\" parameter",
        ));
    }
    b.location().open_log_file_cache = Some((!off).then_some(cache));
    Ok(())
}
