//! ngx_http_core_module, second part: which server and location answers, and
//! from which files.

use super::{Arity, HSL, HTTP, LOCATION, LOCATION_IF, Module, ONE, Row, SERVER};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::draft::FilesDraft;
use crate::lexer::Word;
use crate::listen;
use crate::model::{
    ErrorPage, ErrorPageStatus, ErrorPageTarget, Matcher, Part, ServerName, Template, TryFallback,
    TryFile, TryFiles,
};
use crate::parser::path_of;
use crate::template;
use crate::values;
use std::os::unix::ffi::OsStrExt;

pub(super) const MODULE: Module = Module {
    title: "HTTP: servers, locations and errors",
    doc: "Selects the server and the location for a request, and maps URIs to files.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "server",
        HTTP,
        Arity::Between(0, 0),
        "A virtual server.",
        |b, _| {
            b.opening = Some(Opening::Server);
            Ok(())
        },
    ),
    Row::new(
        "listen",
        SERVER,
        Arity::AtLeast(1),
        "*:80",
        "Address that the server listens on: `port`, `address:port`, `[ipv6]:port`, a range of \
         ports, or `unix:path`. Parameters: `default_server`, `ssl`, `http2`, `quic`, \
         `proxy_protocol`, `backlog=`, `rcvbuf=`, `sndbuf=`, `deferred`, `reuseport`, `bind`, \
         `ipv6only=`, `so_keepalive=`, `fastopen=`, `multipath`. With `quic` it is another \
         address than without: servers listen on both. Without root privileges, the default port is 8000. If some \
         server listens on `*:port`, `address:port` gets its own socket only with a socket option \
         or `bind`.",
        listen::listen,
    ),
    Row::new(
        "server_name",
        SERVER,
        Arity::AtLeast(1),
        "\"\"",
        "Names of the server: an exact name, `*.example.org`, `www.example.*`, `.example.org`, \
         `~regex`, `$hostname` or the empty name.",
        server_name,
    ),
    Row::block(
        "location",
        SERVER | LOCATION,
        Arity::Between(1, 2),
        "Settings for a request URI: `prefix`, `^~ prefix` (regular expressions are not checked), \
         `= uri`, `~ regex`, `~* regex` (case-insensitive) or `@name`.",
        location,
    ),
    Row::new(
        "root",
        HSL | LOCATION_IF,
        ONE,
        "html",
        "Root directory for requests; the URI is appended to it. A relative path starts from the \
         prefix. May contain variables.",
        |b, c| files_at(b, c, false),
    ),
    Row::new(
        "alias",
        LOCATION,
        ONE,
        "",
        "Path that replaces the location's prefix in the URI. In a location with a regular \
         expression, the whole path. May contain variables.",
        |b, c| files_at(b, c, true),
    ),
    Row::new(
        "try_files",
        SERVER | LOCATION,
        Arity::AtLeast(2),
        "",
        "Checks files in the given order, or directories where the name ends with a slash, and \
         serves the first one that exists. If none exists, uses the last argument: a URI, `@name` \
         or `=code`.",
        try_files,
    ),
    Row::new(
        "error_page",
        HSL | LOCATION_IF,
        Arity::AtLeast(2),
        "",
        "URI, `@name` or redirect URL that is used for the given errors. `=code` changes the \
         response code; `=` alone takes the code of the new response.",
        error_page,
    ),
    Row::new(
        "recursive_error_pages",
        HSL,
        ONE,
        "off",
        "Whether `error_page` also applies to responses that `error_page` produced.",
        |b, c| c.flag(&mut b.location().recursive_error_pages),
    ),
    Row::new(
        "internal",
        LOCATION,
        Arity::Between(0, 0),
        "",
        "The location is used for internal requests only; external requests get 404.",
        |b, c| {
            c.once(&b.location().internal)?;
            b.location().internal = Some(true);
            Ok(())
        },
    ),
    Row::new(
        "absolute_redirect",
        HSL,
        ONE,
        "on",
        "Whether redirects are absolute, with scheme, host and port.",
        |b, c| c.flag(&mut b.location().absolute_redirect),
    ),
    Row::new(
        "server_name_in_redirect",
        HSL,
        ONE,
        "off",
        "Whether absolute redirects use the primary server name instead of the request's host.",
        |b, c| c.flag(&mut b.location().server_name_in_redirect),
    ),
    Row::new(
        "port_in_redirect",
        HSL,
        ONE,
        "on",
        "Whether absolute redirects include a port that is not the default of the scheme.",
        |b, c| c.flag(&mut b.location().port_in_redirect),
    ),
];

fn location(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let (modifier, name, word) = match c.count() {
        2 => (c.arg(1), c.arg(2), 2),
        _ => {
            let written = c.arg(1);
            // The modifier may touch the name: `=/x`, `^~/x`, `~*x`.
            let modifier = match written {
                [b'=', ..] | [b'~'] => &written[..1],
                [b'^', b'~', ..] | [b'~', b'*', ..] => &written[..2],
                [b'~', ..] => &written[..1],
                _ => &written[..0],
            };
            (modifier, &written[modifier.len()..], 1)
        }
    };
    let alone = c.count() == 1 && modifier.is_empty();
    let matcher = match modifier {
        b"" if alone && name.first() == Some(&b'@') => {
            Matcher::Named(c.utf8(word, &name[1..])?.into())
        }
        b"" if alone => Matcher::Prefix {
            prefix: name.into(),
            stop: false,
        },
        b"=" => Matcher::Exact(name.into()),
        b"^~" => Matcher::Prefix {
            prefix: name.into(),
            stop: true,
        },
        b"~" => Matcher::Regex(b.regex(c.utf8(word, name)?, false, word)?),
        b"~*" => Matcher::Regex(b.regex(c.utf8(word, name)?, true, word)?),
        _ => {
            return Err(Fault::at(
                1,
                format!("invalid location modifier \"{}\"", shown(modifier)),
            )
            .help("it can be \"=\", \"~\", \"~*\" or \"^~\""));
        }
    };
    check_nesting(b, &matcher, name, word)?;
    b.opening = Some(Opening::Location {
        matcher,
        name: shown(name).into(),
    });
    Ok(())
}

/// A nested location must be reachable through the outer one.
fn check_nesting(b: &Build<'_>, inner: &Matcher, name: &[u8], word: usize) -> Result<(), Fault> {
    let Some((outer, outer_name)) = b.open_location() else {
        return Ok(());
    };
    let name_shown = shown(name);
    let refuse = |message: String| Err(Fault::at(word, message));
    let outer_bytes: &[u8] = match outer {
        Matcher::Exact(_) => {
            return refuse(format!(
                "location \"{name_shown}\" cannot be inside the exact location \"{outer_name}\""
            ));
        }
        Matcher::Named(_) => {
            return refuse(format!(
                "location \"{name_shown}\" cannot be inside the named location \"{outer_name}\""
            ));
        }
        Matcher::Prefix { prefix, .. } => prefix,
        Matcher::Regex(regex) => regex.pattern().as_bytes(),
    };
    match inner {
        Matcher::Named(_) => refuse(format!(
            "named location \"{name_shown}\" can be on the server level only"
        )),
        Matcher::Exact(_) | Matcher::Prefix { .. } if !name.starts_with(outer_bytes) => refuse(
            format!("location \"{name_shown}\" is outside location \"{outer_name}\""),
        ),
        _ => Ok(()),
    }
}

pub(super) fn server_name(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    for (index, written) in c.args() {
        let written_text = c.utf8(index, written)?;
        let invalid = match written {
            [b'*', rest @ ..] => written.len() < 3 || rest.first() != Some(&b'.'),
            [b'.'] => true,
            _ => false,
        };
        if invalid {
            return Err(Fault::at(
                index,
                format!("server name \"{written_text}\" is invalid"),
            ));
        }
        if written.contains(&b'/') {
            b.warn(format!(
                "server name \"{written_text}\" has suspicious symbols"
            ));
        }
        if let Some(pattern) = written_text.strip_prefix('~') {
            if pattern.is_empty() {
                let message = format!("empty regex in server name \"{written_text}\"");
                return Err(Fault::at(index, message));
            }
            // Host names are compared in lower case; an expression with
            // capitals must be meant as case-insensitive.
            let caseless = pattern.bytes().any(|byte| byte.is_ascii_uppercase());
            let regex = b.regex(pattern, caseless, index)?;
            b.server().names.push(ServerName::Regex(regex));
            b.server()
                .primary_name
                .get_or_insert_with(|| written_text.to_owned());
            continue;
        }
        let name = if written_text.eq_ignore_ascii_case("$hostname") {
            b.options.hostname.to_ascii_lowercase()
        } else {
            written_text.to_ascii_lowercase()
        };
        let primary = name.strip_prefix('.').unwrap_or(&name).to_owned();
        b.server().primary_name.get_or_insert(primary);
        b.server().names.push(name_form(name));
    }
    Ok(())
}

fn name_form(name: String) -> ServerName {
    if name.len() > 2 && name.starts_with("*.") {
        ServerName::WildcardPrefix(name[1..].to_owned())
    } else if name.len() > 1 && name.starts_with('.') {
        ServerName::Dot(name)
    } else if name.len() > 2 && name.ends_with(".*") {
        ServerName::WildcardSuffix(name[..name.len() - 1].to_owned())
    } else {
        ServerName::Exact(name)
    }
}

fn files_at(b: &mut Build<'_>, c: &Call<'_>, alias: bool) -> Result<(), Fault> {
    let name = c.row.name;
    if let Some(earlier) = &b.location().files_at {
        let earlier_alias = matches!(earlier, FilesDraft::Alias(..));
        if earlier_alias == alias {
            return Err(c.refuse("is duplicate"));
        }
        let other = if earlier_alias { "alias" } else { "root" };
        return Err(c.refuse(&format!(
            "is duplicate, \"{other}\" directive was specified earlier"
        )));
    }
    let named = matches!(b.open_location(), Some((Matcher::Named(_), _)));
    if named && alias {
        return Err(Fault::new(
            "the \"alias\" directive cannot be used inside the named location",
        ));
    }
    let written = c.arg(1);
    for variable in ["document_root", "realpath_root"] {
        let forms = [format!("${variable}"), format!("${{{variable}}}")];
        if forms
            .iter()
            .any(|form| memchr::memmem::find(written, form.as_bytes()).is_some())
        {
            let message =
                format!("the ${variable} variable cannot be used in the \"{name}\" directive");
            return Err(Fault::at(1, message));
        }
    }
    let mut path = written.to_vec();
    if !alias && path.last() == Some(&b'/') {
        path.pop();
    }
    // `root /` is the empty path, to which URIs are appended.
    let absolute = matches!(written.first(), Some(b'/' | b'$'));
    if !absolute {
        path = b
            .options
            .under_prefix(path_of(&path))
            .into_os_string()
            .as_bytes()
            .to_vec();
    }
    let value = template::compile(&mut b.names, &path, 1, &c.origin)?;
    b.location().files_at = Some(if alias {
        alias_of(b, value)
    } else {
        FilesDraft::Root(value)
    });
    Ok(())
}

fn alias_of(b: &Build<'_>, path: Template) -> FilesDraft {
    let replaced = match b.open_location() {
        Some((Matcher::Exact(uri), _)) => Some(uri.len()),
        Some((Matcher::Prefix { prefix, .. }, _)) => Some(prefix.len()),
        _ => None,
    };
    FilesDraft::Alias(path, replaced)
}

fn try_files(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().try_files)?;
    let last = c.count();
    let mut candidates = Vec::with_capacity(last - 1);
    for (index, written) in c.args().take(last - 1) {
        let (name, directory) = match written {
            [name @ .., b'/'] => (name, true),
            _ => (written, false),
        };
        let name = template::compile(&mut b.names, name, index, &c.origin)?;
        candidates.push(TryFile { name, directory });
    }
    let written = c.arg(last);
    let fallback = match written {
        [b'=', code @ ..] => {
            let code = values::number(code).and_then(|code| u16::try_from(code).ok());
            let code = code
                .filter(|code| *code <= 999)
                .ok_or_else(|| Fault::at(last, format!("invalid code \"{}\"", shown(written))))?;
            TryFallback::Code(code)
        }
        [b'@', name @ ..] if !name.contains(&b'$') => {
            TryFallback::Named(c.utf8(last, name)?.into())
        }
        _ => TryFallback::Uri(template::compile(&mut b.names, written, last, &c.origin)?),
    };
    b.location().try_files = Some(TryFiles {
        candidates,
        fallback,
    });
    Ok(())
}

fn error_page(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let last = c.count();
    let equals = last - 1;
    let (status, codes_end) = match c.arg(equals) {
        [b'=', ..] if equals == 1 => return Err(c.invalid(equals)),
        [b'='] => (ErrorPageStatus::FromTarget, equals),
        [b'=', code @ ..] => {
            let code = values::number(code).and_then(|code| u16::try_from(code).ok());
            (
                ErrorPageStatus::Fixed(code.ok_or_else(|| c.invalid(equals))?),
                equals,
            )
        }
        _ => (ErrorPageStatus::Original, last),
    };
    let target = error_page_target(b, c, last)?;
    let (mut codes, mut bad_requests) = (Vec::new(), Vec::new());
    for index in 1..codes_end {
        let code = values::number(c.arg(index)).and_then(|code| u16::try_from(code).ok());
        let code = code
            .filter(|code| *code != 499)
            .ok_or_else(|| c.invalid(index))?;
        if !(300..=599).contains(&code) {
            let message = format!("value \"{}\" must be between 300 and 599", c.shown(index));
            return Err(Fault::at(index, message));
        }
        // nginx's own codes for a bad request are sent as 400.
        let own = status == ErrorPageStatus::Original && (494..=497).contains(&code);
        if own {
            bad_requests.push(code)
        } else {
            codes.push(code)
        }
    }
    let pages = b.location().error_pages.get_or_insert_default();
    if !codes.is_empty() {
        pages.push(ErrorPage {
            codes,
            status,
            target: target.clone(),
        });
    }
    if !bad_requests.is_empty() {
        pages.push(ErrorPage {
            codes: bad_requests,
            status: ErrorPageStatus::Fixed(400),
            target,
        });
    }
    Ok(())
}

fn error_page_target(
    b: &mut Build<'_>,
    c: &Call<'_>,
    index: usize,
) -> Result<ErrorPageTarget, Fault> {
    let written = c.arg(index);
    if let [b'@', name @ ..] = written
        && !name.contains(&b'$')
    {
        return Ok(ErrorPageTarget::Named(c.utf8(index, name)?.into()));
    }
    let value = template::compile(&mut b.names, written, index, &c.origin)?;
    let scheme_first = written.starts_with(b"$scheme") || written.starts_with(b"${scheme}");
    let uri = match value.parts().first() {
        Some(Part::Literal(text)) => text.first() == Some(&b'/'),
        Some(Part::Variable(_)) => !scheme_first,
        None => false,
    };
    Ok(if uri {
        ErrorPageTarget::Uri(value)
    } else {
        ErrorPageTarget::Url(value)
    })
}

/// One line of a `types` block: a media type and its extensions.
pub(crate) fn add_media_type(b: &mut Build<'_>, words: &[Word]) -> Result<(), Fault> {
    let text = |index: usize| -> Result<&str, Fault> {
        std::str::from_utf8(&words[index].bytes).map_err(|_| {
            Fault::at(
                index,
                format!("invalid value \"{}\"", shown(&words[index].bytes)),
            )
        })
    };
    let media_type: std::sync::Arc<str> = text(0)?.into();
    for index in 1..words.len() {
        let extension: Box<str> = text(index)?.to_ascii_lowercase().into();
        let earlier = b
            .types()
            .by_extension
            .insert(extension.clone(), media_type.clone());
        if let Some(earlier) = earlier {
            b.warn(format!(
                "duplicate extension \"{extension}\", content type: \"{media_type}\", previous \
                 content type: \"{earlier}\""
            ));
        }
    }
    Ok(())
}
