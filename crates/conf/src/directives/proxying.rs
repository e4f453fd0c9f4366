//! Passing requests to other servers: the rows that mean the same in several families (`proxy_*`,
//! `fastcgi_*`, `uwsgi_*`, `scgi_*`, `grpc_*`, `memcached_*`, `dubbo_*`), written once.
//!
//! The name of a setter's row tells it whose settings to change.

use super::Row;
use super::cache_paths::claim_path;
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::{FixedTarget, TargetDraft, UpstreamDraft};
use crate::model::{
    Bind, BindAddress, Family, IgnoreHeaders, Matcher, NextUpstream, NextUpstreamCause, Param,
    ServerKind, SetHeader, TempPath,
};
use crate::parser::path_of;
use crate::template;
use crate::upstream_url::{self, HostKind, UpstreamUrl, UriPart};
use crate::values;
use std::sync::Arc;

/// The family that a row belongs to.
pub(super) fn family(c: &Call<'_>) -> Family {
    let prefix = c.row.name.split('_').next();
    Family::ALL
        .into_iter()
        .find(|family| Some(family.name()) == prefix)
        .expect("rows of the families begin with their names")
}

/// The settings of the row's family on the current level.
pub(super) fn upstream<'b>(b: &'b mut Build<'_>, c: &Call<'_>) -> &'b mut UpstreamDraft {
    b.location().passing.of_mut(family(c))
}

/// Rows in a row.
pub(super) const fn join<const COUNT: usize>(parts: &[&[Row]]) -> [Row; COUNT] {
    let mut rows = [parts[0][0]; COUNT];
    let (mut part, mut next) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            rows[next] = parts[part][row];
            next += 1;
            row += 1;
        }
        part += 1;
    }
    assert!(next == COUNT, "the number of rows is their sum");
    rows
}

/// The same rows, of a family that nginx does not have.
pub(super) const fn own<const COUNT: usize>(rows: &[Row]) -> [Row; COUNT] {
    let mut owned = [rows[0]; COUNT];
    let mut next = 0;
    while next < COUNT {
        owned[next] = rows[next].own();
        next += 1;
    }
    owned
}

/// Rows of a module, from several lists of them.
macro_rules! joined {
    ($($part:expr),* $(,)?) => {{
        const COUNT: usize = 0 $(+ $part.len())*;
        const ROWS: [$crate::directives::Row; COUNT] =
            $crate::directives::proxying::join(&[$($part),*]);
        &ROWS
    }};
}
pub(super) use joined;

/// Rows that every family has: reaching a server, time, and the next server.
macro_rules! reaching_rows {
    ($family:literal, $next_upstream:literal) => {
        reaching_rows!($family, $next_upstream, also 0)
    };
    // Those that `stream` has as well are allowed in `$also`.
    ($family:literal, $next_upstream:literal, also $also:expr) => {
        reaching_rows!(
            $family,
            $next_upstream,
            " Requests with a non-idempotent method (POST, LOCK, PATCH) that have been sent to a \
             server are passed on only with `non_idempotent`.",
            $also
        )
    };
    ($family:literal, $next_upstream:literal, $more:literal) => {
        reaching_rows!($family, $next_upstream, $more, 0)
    };
    ($family:literal, $next_upstream:literal, $more:literal, $also:expr) => {
        &[
            Row::new(
                concat!($family, "_connect_timeout"),
                HSL,
                ONE,
                "60s",
                "Timeout for establishing a connection with a server.",
                |b, c| c.time(&mut upstream(b, c).connect_timeout),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_send_timeout"),
                HSL,
                ONE,
                "60s",
                "Timeout between two successive writes of a request to a server.",
                |b, c| c.time(&mut upstream(b, c).send_timeout),
            ),
            Row::new(
                concat!($family, "_read_timeout"),
                HSL,
                ONE,
                "60s",
                "Timeout between two successive reads of a response from a server.",
                |b, c| c.time(&mut upstream(b, c).read_timeout),
            ),
            Row::new(
                concat!($family, "_next_upstream"),
                HSL,
                Arity::AtLeast(1),
                "error timeout",
                concat!(
                    "When a request is passed to the next server: ",
                    $next_upstream,
                    " or `off`. This is possible only if nothing has been sent to the client yet.",
                    $more
                ),
                next_upstream,
            ),
            Row::new(
                concat!($family, "_next_upstream_tries"),
                HSL,
                ONE,
                "0",
                "Maximum number of servers that are tried for a request; 0 means no limit.",
                |b, c| c.number(&mut upstream(b, c).next_upstream_tries),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_next_upstream_timeout"),
                HSL,
                ONE,
                "0",
                "Time during which a request may be passed to the next server; 0 means no limit.",
                |b, c| c.time(&mut upstream(b, c).next_upstream_timeout),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_bind"),
                HSL,
                Arity::Between(1, 2),
                "",
                "Local IP address, with an optional port, for connections to servers; \
                 `transparent` allows a non-local address; `off` cancels an inherited directive. \
                 May contain variables.",
                bind,
            )
            .also_in($also),
            Row::new(
                concat!($family, "_socket_keepalive"),
                HSL,
                ONE,
                "off",
                "Whether SO_KEEPALIVE is enabled for connections to servers.",
                |b, c| c.flag(&mut upstream(b, c).socket_keepalive),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_buffer_size"),
                HSL,
                ONE,
                "4k",
                "Size of the buffer for the first part of a response; the response header must fit \
                 into it.",
                |b, c| c.size(&mut upstream(b, c).buffer_size),
            ),
        ]
    };
}
pub(super) use reaching_rows;

/// Rows of the families whose servers answer with header fields.
macro_rules! answer_rows {
    ($family:literal) => {
        answer_rows!($family, 0)
    };
    // Those that `stream` has as well are allowed in `$also`.
    ($family:literal, $also:expr) => {
        &[
            Row::new(
                concat!($family, "_socket_rcvbuf"),
                HSL,
                ONE,
                "",
                "Size of the receive buffer (SO_RCVBUF) of connections to servers; by default, \
                 the system's.",
                |b, c| c.size(&mut upstream(b, c).socket_rcvbuf),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_socket_sndbuf"),
                HSL,
                ONE,
                "",
                "Size of the send buffer (SO_SNDBUF) of connections to servers; by default, the \
                 system's.",
                |b, c| c.size(&mut upstream(b, c).socket_sndbuf),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_intercept_errors"),
                HSL,
                ONE,
                "off",
                "Whether responses with status 300 or higher are processed with `error_page`.",
                |b, c| c.flag(&mut upstream(b, c).intercept_errors),
            ),
            Row::new(
                concat!($family, "_ignore_headers"),
                HSL,
                Arity::AtLeast(1),
                "",
                "Response header fields that are not processed: `X-Accel-Redirect`, \
                 `X-Accel-Expires`, `X-Accel-Limit-Rate`, `X-Accel-Buffering`, `X-Accel-Charset`, \
                 `Expires`, `Cache-Control`, `Set-Cookie`, `Vary`.",
                ignore_headers,
            ),
            Row::new(
                concat!($family, "_hide_header"),
                HSL,
                ONE,
                "",
                "Response header field that is not passed to the client, in addition to those \
                 hidden by default.",
                |b, c| {
                    let name = c.arg(1).into();
                    let names = &mut upstream(b, c).hide_headers;
                    names.get_or_insert_default().push(name);
                    Ok(())
                },
            ),
            Row::new(
                concat!($family, "_pass_header"),
                HSL,
                ONE,
                "",
                "Response header field that is passed to the client although it is hidden by \
                 default.",
                |b, c| {
                    let name = c.arg(1).into();
                    let names = &mut upstream(b, c).pass_headers;
                    names.get_or_insert_default().push(name);
                    Ok(())
                },
            ),
        ]
    };
}
pub(super) use answer_rows;

/// Rows of the families that keep bodies in buffers and temporary files.
macro_rules! buffering_rows {
    ($family:literal) => {
        &[
            Row::new(
                concat!($family, "_request_buffering"),
                HSL,
                ONE,
                "on",
                "Whether the whole request body is read before the request is sent to a server.",
                |b, c| c.flag(&mut upstream(b, c).request_buffering),
            ),
            Row::new(
                concat!($family, "_pass_request_headers"),
                HSL,
                ONE,
                "on",
                "Whether the header fields of the client's request are passed to the server.",
                |b, c| c.flag(&mut upstream(b, c).pass_request_headers),
            ),
            Row::new(
                concat!($family, "_pass_request_body"),
                HSL,
                ONE,
                "on",
                "Whether the request body is passed to the server.",
                |b, c| c.flag(&mut upstream(b, c).pass_request_body),
            ),
            Row::new(
                concat!($family, "_ignore_client_abort"),
                HSL,
                ONE,
                "off",
                "Whether the request to the server continues if the client closes its connection.",
                |b, c| c.flag(&mut upstream(b, c).ignore_client_abort),
            ),
            Row::new(
                concat!($family, "_buffering"),
                HSL,
                ONE,
                "on",
                concat!(
                    "Whether a response is read as fast as the server sends it, into `",
                    $family,
                    "_buffers` and a temporary file, or as fast as the client reads it. The \
                     X-Accel-Buffering field of the response (`yes` or `no`) takes precedence."
                ),
                |b, c| c.flag(&mut upstream(b, c).buffering),
            ),
            Row::new(
                concat!($family, "_buffers"),
                HSL,
                Arity::Between(2, 2),
                "8 4k",
                "Number and size of the buffers for a response.",
                |b, c| c.buffers(&mut upstream(b, c).buffers),
            ),
            Row::new(
                concat!($family, "_busy_buffers_size"),
                HSL,
                ONE,
                "8k",
                "Maximum size of the buffers that can be busy sending to the client while the \
                 response is not fully read.",
                |b, c| c.size(&mut upstream(b, c).busy_buffers_size),
            ),
            Row::new(
                concat!($family, "_max_temp_file_size"),
                HSL,
                ONE,
                "1024m",
                "Maximum size of the temporary file for the part of a response that does not fit \
                 into the buffers; 0 disables it.",
                |b, c| c.size(&mut upstream(b, c).max_temp_file_size),
            ),
            Row::new(
                concat!($family, "_temp_file_write_size"),
                HSL,
                ONE,
                "8k",
                "Maximum size of one write to a temporary file.",
                |b, c| c.size(&mut upstream(b, c).temp_file_write_size),
            ),
            Row::new(
                concat!($family, "_temp_path"),
                HSL,
                Arity::Between(1, 4),
                concat!($family, "_temp 1 2"),
                "Directory for temporary files. Up to three numbers define levels of \
                 subdirectories; each is the number of digits in the name of one level. A \
                 relative path starts from the prefix.",
                temp_path,
            ),
            Row::new(
                concat!($family, "_limit_rate"),
                HSL,
                ONE,
                "0",
                "Rate limit for reading a buffered response from a server, in bytes per second; 0 \
                 means no limit. May contain variables.",
                limit_rate,
            ),
            Row::new(
                concat!($family, "_force_ranges"),
                HSL,
                ONE,
                "off",
                "Whether range requests are supported regardless of the Accept-Ranges field of the \
                 response.",
                |b, c| c.flag(&mut upstream(b, c).force_ranges),
            ),
        ]
    };
}
pub(super) use buffering_rows;

/// `proxy_send_lowat` and `fastcgi_send_lowat`.
macro_rules! send_lowat_row {
    ($name:literal) => {
        Row::new(
            $name,
            HSL,
            ONE,
            "",
            "Accepted with a warning. As in nginx, Linux does not support it.",
            |b, c| {
                if !b.first_here($name) {
                    return Err(c.refuse("is duplicate"));
                }
                c.size(&mut None)?;
                b.warn(concat!("\"", $name, "\" is not supported, ignored"));
                Ok(())
            },
        )
    };
}
pub(super) use send_lowat_row;

pub(super) fn next_upstream(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let set = upstream(b, c).next_upstream;
    let set = causes(b, c, set.unwrap_or(NextUpstream::NEVER))?;
    upstream(b, c).next_upstream = Some(set);
    Ok(())
}

/// Whether the servers of a family answer with 502 and 504 themselves.
fn has_gateway_statuses(family: Family) -> bool {
    matches!(family, Family::Proxy | Family::Grpc | Family::Dubbo)
}

/// The words of `*_next_upstream` and `*_cache_use_stale`, added to those of the same level.
pub(super) fn causes(
    b: &mut Build<'_>,
    c: &Call<'_>,
    mut set: NextUpstream,
) -> Result<NextUpstream, Fault> {
    use NextUpstreamCause as N;
    let family = family(c);
    for (index, word) in c.args() {
        let cause = match word.to_ascii_lowercase().as_slice() {
            b"error" => N::Error,
            b"timeout" => N::Timeout,
            b"off" => N::Off,
            b"invalid_response" if family == Family::Memcached => N::InvalidHeader,
            b"not_found" if family == Family::Memcached => N::Http404,
            _ if matches!(family, Family::Memcached | Family::Tunnel) => {
                return Err(c.invalid(index));
            }
            b"invalid_header" => N::InvalidHeader,
            b"non_idempotent" => N::NonIdempotent,
            b"http_500" => N::Http500,
            b"http_502" if has_gateway_statuses(family) => N::Http502,
            b"http_503" => N::Http503,
            b"http_504" if has_gateway_statuses(family) => N::Http504,
            b"http_403" => N::Http403,
            b"http_404" => N::Http404,
            b"http_429" => N::Http429,
            b"updating" if !matches!(family, Family::Grpc | Family::Dubbo) => N::Updating,
            _ => return Err(c.invalid(index)),
        };
        if !set.insert(cause) {
            b.warn(format!("duplicate value \"{}\"", c.shown(index)));
        }
    }
    Ok(set)
}

pub(super) fn ignore_headers(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mut set: IgnoreHeaders = upstream(b, c).ignore_headers.unwrap_or_default();
    for (index, word) in c.args() {
        let slot = match word.to_ascii_lowercase().as_slice() {
            b"x-accel-redirect" => &mut set.accel_redirect,
            b"x-accel-expires" => &mut set.accel_expires,
            b"x-accel-limit-rate" => &mut set.accel_limit_rate,
            b"x-accel-buffering" => &mut set.accel_buffering,
            b"x-accel-charset" => &mut set.accel_charset,
            b"expires" => &mut set.expires,
            b"cache-control" => &mut set.cache_control,
            b"set-cookie" => &mut set.set_cookie,
            b"vary" => &mut set.vary,
            _ => return Err(c.invalid(index)),
        };
        if std::mem::replace(slot, true) {
            b.warn(format!("duplicate value \"{}\"", c.shown(index)));
        }
    }
    upstream(b, c).ignore_headers = Some(set);
    Ok(())
}

pub(super) fn bind(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    bind_of(b, c, family(c))
}

/// The same for one of the families.
pub(super) fn bind_of(b: &mut Build<'_>, c: &Call<'_>, family: Family) -> Result<(), Fault> {
    c.once(&b.location().passing.of(family).bind)?;
    if c.count() == 1 && c.arg(1) == b"off" {
        b.location().passing.of_mut(family).bind = Some(None);
        return Ok(());
    }
    let value = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    let address = match value.as_literal() {
        None => BindAddress::Evaluated(value),
        Some(text) => BindAddress::Fixed(
            upstream_url::local_address(text)
                .ok_or_else(|| Fault::at(1, format!("invalid address \"{}\"", c.shown(1))))?,
        ),
    };
    let transparent = c.count() == 2;
    if transparent && c.arg(2) != b"transparent" {
        return Err(c.invalid_parameter(2));
    }
    b.location().passing.of_mut(family).bind = Some(Some(Bind {
        address,
        transparent,
    }));
    Ok(())
}

pub(super) fn limit_rate(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&upstream(b, c).limit_rate)?;
    let value = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    if value
        .as_literal()
        .is_some_and(|text| values::size(text).is_none())
    {
        return Err(c.refuse_arg(1, "invalid value"));
    }
    upstream(b, c).limit_rate = Some(value);
    Ok(())
}

pub(super) fn temp_path(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&upstream(b, c).temp_path)?;
    let path = b.options.under_prefix(path_of(c.arg(1)));
    let mut levels = [0; 3];
    let mut digits = 0;
    for (slot, index) in levels.iter_mut().zip(2..=c.count()) {
        let level = values::number(c.arg(index)).and_then(|level| u8::try_from(level).ok());
        let level = level.filter(|level| (1..=LEVEL_DIGITS).contains(level));
        *slot = level.ok_or_else(|| c.refuse_arg(index, "invalid value"))?;
        digits += *slot;
    }
    // Files have numbers of ten digits.
    if digits > LEVEL_DIGITS {
        return Err(c.refuse("invalid value"));
    }
    claim_path(b, c, &path, false)?;
    upstream(b, c).temp_path = Some(Arc::new(TempPath { path, levels }));
    Ok(())
}

/// Digits that all levels of a temporary path may have.
const LEVEL_DIGITS: u8 = 10;

/// `fastcgi_param` and the like.
pub(super) fn param(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let value = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
    if c.count() == 3 && c.arg(3) != b"if_not_empty" {
        return Err(c.invalid_parameter(3));
    }
    let param = Param {
        name: c.arg(1).into(),
        value,
        if_not_empty: c.count() == 3,
    };
    upstream(b, c).params.get_or_insert_default().push(param);
    Ok(())
}

/// `proxy_set_header` and `grpc_set_header`.
pub(super) fn set_header(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let value = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
    let name = c.arg(1).into();
    let headers = &mut upstream(b, c).set_headers;
    headers
        .get_or_insert_default()
        .push(SetHeader { name, value });
    Ok(())
}

/// A scheme that a pass directive may begin with.
pub(super) struct Scheme {
    /// With its `://`.
    pub(super) prefix: &'static str,
    pub(super) tls: bool,
    /// The port when none is written; 0 for none.
    pub(super) port: u16,
}

/// `proxy_pass` and the like. Without one of `schemes` the URL begins with the
/// host, or is refused if `needs_scheme`.
pub(super) fn pass(
    b: &mut Build<'_>,
    c: &Call<'_>,
    schemes: &[Scheme],
    needs_scheme: bool,
) -> Result<(), Fault> {
    pass_to(b, c, family(c), c.arg(1), schemes, needs_scheme)
}

/// The same for the target `written` of one of the families.
pub(super) fn pass_to(
    b: &mut Build<'_>,
    c: &Call<'_>,
    family: Family,
    written: &[u8],
    schemes: &[Scheme],
    needs_scheme: bool,
) -> Result<(), Fault> {
    c.once(&b.location().passing.of(family).target)?;
    let (location, prefix) = location_prefix(b);
    // nginx's uwsgi_pass and scgi_pass forget the redirect when there are variables.
    let variables = written.contains(&b'$');
    let redirects = match family {
        Family::Uwsgi | Family::Scgi => !variables,
        Family::Tunnel | Family::ProxyConnect => false,
        _ => true,
    };
    let target = if variables {
        TargetDraft::Evaluated(template::compile(&mut b.names, written, 1, &c.origin)?)
    } else {
        TargetDraft::Fixed(fixed_target(b, c, 1, schemes, needs_scheme, prefix)?)
    };
    set_pass(b, family, target, redirects && location.ends_with(b"/"));
    Ok(())
}

/// `dubbo_pass`, whose group is another argument and has no variables.
pub(super) fn pass_to_group(b: &mut Build<'_>, c: &Call<'_>, index: usize) -> Result<(), Fault> {
    let family = family(c);
    c.once(&upstream(b, c).target)?;
    let (location, prefix) = location_prefix(b);
    let target = TargetDraft::Fixed(fixed_target(b, c, index, &[], false, prefix)?);
    set_pass(b, family, target, location.ends_with(b"/"));
    Ok(())
}

fn set_pass(b: &mut Build<'_>, family: Family, target: TargetDraft, auto_redirect: bool) {
    let draft = b.location();
    draft.content_handler = None;
    let passing = &mut draft.passing;
    passing.answers = Some(family);
    passing.auto_redirect |= auto_redirect;
    passing.of_mut(family).target = Some(target);
}

/// The name of the open location, and its prefix if it has one.
fn location_prefix(b: &Build<'_>) -> (Box<[u8]>, Option<Box<[u8]>>) {
    match b.open_location() {
        Some((Matcher::Exact(uri), _)) => (uri.clone(), Some(uri.clone())),
        Some((Matcher::Prefix { prefix, .. }, _)) => (prefix.clone(), Some(prefix.clone())),
        Some((Matcher::Regex(_) | Matcher::Named(_), name)) => (name.as_bytes().into(), None),
        None => (Box::default(), None),
    }
}

fn fixed_target(
    b: &mut Build<'_>,
    c: &Call<'_>,
    index: usize,
    schemes: &[Scheme],
    needs_scheme: bool,
    prefix: Option<Box<[u8]>>,
) -> Result<FixedTarget, Fault> {
    let written = c.arg(index);
    let scheme = schemes.iter().find(|scheme| {
        let begin = written.get(..scheme.prefix.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme.prefix.as_bytes()))
    });
    if scheme.is_none() && needs_scheme {
        let names: Vec<String> = schemes
            .iter()
            .map(|scheme| format!("\"{}\"", scheme.prefix))
            .collect();
        return Err(Fault::at(index, "invalid URL prefix")
            .help(format!("it must begin with {}", names.join(" or "))));
    }
    let (skip, tls, port) = scheme.map_or((0, false, 0), |scheme| {
        (scheme.prefix.len(), scheme.tls, scheme.port)
    });
    // Only proxy_pass, which needs its scheme, may have a URI.
    let uri_part = match needs_scheme {
        true => UriPart::Allowed,
        false => UriPart::Refused,
    };
    let place = &written[skip..];
    let url = UpstreamUrl::parse(place, port, uri_part).map_err(|reason| {
        let is_url = memchr::memmem::find(place, b"://").is_some();
        let place = crate::call::shown(place);
        let fault = Fault::at(index, format!("{reason} in upstream \"{place}\""));
        match is_url && b.kind() == ServerKind::Stream {
            true => fault.help(
                "\"stream\" takes an address and a port, not a URL: \"proxy_pass 127.0.0.1:5432;\"",
            ),
            false => fault,
        }
    })?;
    let group = b.http.groups.refer(&url, &c.origin)?;
    if prefix.is_none() && !url.uri.is_empty() {
        return Err(Fault::at(
            1,
            "\"proxy_pass\" cannot have URI part in location given by regular expression, or \
             inside named location, or inside \"if\" statement, or inside \"limit_except\" block",
        ));
    }
    let port_text = match (url.kind, url.port_text) {
        (HostKind::Unix, _) => String::new(),
        (_, Some(text)) if url.port != port => text.to_owned(),
        _ => port.to_string(),
    };
    Ok(FixedTarget {
        url: written.into(),
        tls,
        group,
        host: url.host_header(port).into(),
        port: port_text.into(),
        uri: url.uri.into(),
        prefix: prefix.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
