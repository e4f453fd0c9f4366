//! ngx_http_log_module, and `error_log`.

use super::{Arity, Check, HSL, HTTP, LIMIT_EXCEPT, LOCATION_IF, MAIN, Module, Row};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::model::{
    AccessLog, ErrorLog, LogEscape, LogFormat, LogLevel, LogTarget, Part, Template,
};
use crate::parser::path_of;
use crate::template;
use crate::values;
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "Logs",
    doc: "Error log and access log. Lines look as nginx's do.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "error_log",
        MAIN | HSL,
        Arity::AtLeast(1),
        "logs/error.log error",
        "File, or `stderr`, and the lowest level written: `debug`, `info`, `notice`, `warn`, \
         `error`, `crit`, `alert` or `emerg`. A level with any of its own inherits none.",
        error_log,
    ),
    Row::new(
        "log_format",
        HTTP,
        Arity::AtLeast(2),
        "combined",
        "Names a format: `escape=default|json|none`, then texts with variables, which are joined.",
        log_format,
    ),
    Row::new(
        "access_log",
        HSL | LOCATION_IF | LIMIT_EXCEPT,
        Arity::AtLeast(1),
        "logs/access.log combined",
        "`off`, or a file, a format and options: `buffer=` gathers lines, `flush=` bounds how long \
         they wait, `if=` logs only what evaluates to neither empty nor `0`. A level with any of \
         its own inherits none.",
        access_log,
    ),
    Row::meaningless(
        "open_log_file_cache",
        HSL,
        Arity::Between(1, 4),
        Check::Any,
        "Names of log files cannot contain variables, so there is nothing to cache.",
    ),
];

/// The format that exists without being written.
const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
                        $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

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
    if written.starts_with(b"syslog:") {
        return Err(Fault::at(1, "\"error_log\" to syslog is not supported yet")
            .help("log to a file or to stderr, and let the service manager pass it on"));
    }
    if written.starts_with(b"memory:") {
        return Err(Fault::at(1, "\"error_log\" to memory is not supported yet"));
    }
    let target = target(b, written);
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

fn target(b: &Build<'_>, written: &[u8]) -> LogTarget {
    match written {
        b"stderr" => LogTarget::Stderr,
        b"/dev/null" => LogTarget::Discard,
        _ => LogTarget::File(b.options.under_prefix(path_of(written))),
    }
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
    if written.starts_with(b"syslog:") {
        return Err(
            Fault::at(1, "\"access_log\" to syslog is not supported yet")
                .help("log to a file, and let a log shipper read it"),
        );
    }
    if written.contains(&b'$') {
        return Err(Fault::at(
            1,
            "variables in the path of \"access_log\" are not supported yet",
        ));
    }
    let name = if c.count() >= 2 {
        c.arg(2)
    } else {
        b"combined"
    };
    let format = b
        .http
        .log_formats
        .iter()
        .find(|f| f.name.as_bytes().eq_ignore_ascii_case(name));
    let format = format
        .cloned()
        .ok_or_else(|| Fault::at(2, format!("unknown log format \"{}\"", shown(name))))?;
    let mut log = AccessLog {
        target: target(b, written),
        format,
        buffer_bytes: None,
        flush: None,
        gzip: None,
        condition: None,
    };
    for (index, option) in c.args().skip(2) {
        access_log_option(b, c, index, option, &mut log)?;
    }
    if log.flush.is_some() && log.buffer_bytes.is_none() {
        let path = shown(written);
        return Err(Fault::new(format!(
            "no buffer is defined for access_log \"{path}\""
        )));
    }
    if let (Some(bytes), LogTarget::File(path)) = (log.buffer_bytes, &log.target) {
        let earlier = b.http.log_buffers.insert(path.clone(), (bytes, log.flush));
        if earlier.is_some_and(|earlier| earlier != (bytes, log.flush)) {
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
        return Err(
            Fault::at(index, "compressed access logs are not supported yet")
                .help("leave out \"gzip\" and compress when logs are rotated"),
        );
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
