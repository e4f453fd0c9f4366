//! ngx_http_auth_request_module and ngx_http_mirror_module; `post_action` and `early_hints` of
//! ngx_http_core_module, and the sending of PROXY protocol headers, which also belong
//! to upstream servers but to no single protocol.

use super::{Arity, HSL, LOCATION_IF, Module, ONE, Row, rewrite};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{Getter, List, PostAction, SendProxyProtocol};
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "HTTP: subrequests",
    doc: "Directives that cause subrequests, early hints, and the PROXY protocol to upstream \
        servers.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "auth_request",
        HSL,
        ONE,
        "off",
        "URI of a subrequest that authorizes the request: 2xx allows access, 401 and 403 deny it, \
         any other status is an error (500).",
        auth_request,
    ),
    Row::new(
        "auth_request_set",
        HSL,
        Arity::Between(2, 2),
        "",
        "Sets a variable to a value after the subrequest completes; the value may contain its \
         variables, such as `$upstream_http_x_user`.",
        auth_request_set,
    ),
    Row::new(
        "mirror",
        HSL,
        ONE,
        "off",
        "URI to which the request is mirrored by a subrequest. The response is ignored. Several \
         directives create several mirrors.",
        mirror,
    ),
    Row::new(
        "mirror_request_body",
        HSL,
        ONE,
        "on",
        "Whether the request body is mirrored too; it is then read completely first.",
        |b, c| c.flag(&mut b.location().mirror_request_body),
    ),
    Row::new(
        "post_action",
        HSL | LOCATION_IF,
        ONE,
        "off",
        "URI or location `@name` of a subrequest that is made once the response has been sent, or \
         once it could not be. Its response is ignored; `$status`, `$body_bytes_sent`, \
         `$bytes_sent`, `$request_completion` and `$request_time` in it are those of the request. \
         The next request of the connection does not wait for it.",
        post_action,
    ),
    Row::new(
        "max_subrequests",
        HSL,
        ONE,
        "10000",
        "Maximum number of subrequests of a request, including nested ones; one more is an error. \
         This stops pages that include themselves. The subrequests of `slice` run one after \
         another and count only while they are active.",
        |b, c| c.number(&mut b.location().max_subrequests),
    )
    .own(),
    Row::new(
        "early_hints",
        HSL,
        Arity::AtLeast(1),
        "",
        "A 103 response of an upstream server is passed to the client if at least one of the \
         values is neither empty nor `0`.",
        early_hints,
    ),
    Row::new(
        "proxy_send_proxy_protocol",
        HSL,
        ONE,
        "off",
        "Whether connections of `proxy_pass` and the like begin with a PROXY protocol header for \
         the client: `v1` (text) or `v2` (binary). Such a connection serves one request, because \
         the next one may come from another client.",
        |b, c| {
            let choices = [
                ("off", SendProxyProtocol::Off),
                ("v1", SendProxyProtocol::V1),
                ("v2", SendProxyProtocol::V2),
            ];
            c.choice(&mut b.location().send_proxy_protocol, &choices)
        },
    )
    .own(),
];

fn auth_request(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().auth_request)?;
    b.location().auth_request = Some(match c.arg(1) {
        b"off" => None,
        uri => Some(uri.into()),
    });
    Ok(())
}

fn auth_request_set(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let set = rewrite::assignment(b, c, Getter::Absent)?;
    b.location()
        .auth_request_set
        .get_or_insert_default()
        .push(set);
    Ok(())
}

fn mirror(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mirrors = &mut b.location().mirrors;
    match (c.arg(1), mirrors.as_mut()) {
        (b"off", None) => *mirrors = Some(List::default()),
        (b"off", Some(_)) => return Err(c.refuse("is duplicate")),
        // `off` comes before it.
        (_, Some(list)) if list.is_empty() => return Err(c.refuse("is duplicate")),
        (uri, _) => mirrors.get_or_insert_default().push(uri.into()),
    }
    Ok(())
}

fn post_action(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let action = match c.arg(1) {
        b"off" => None,
        [b'@', name @ ..] => Some(PostAction::Named(c.utf8(1, name)?.into())),
        uri @ [b'/', ..] => Some(PostAction::Uri(uri.into())),
        _ => return Err(c.invalid(1)),
    };
    if b.location().post_action.replace(action).is_some() {
        return Err(c.refuse("is duplicate"));
    }
    Ok(())
}

fn early_hints(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    for (index, word) in c.args() {
        let value = template::compile(&mut b.names, word, index, &c.origin)?;
        let hints = b.location().early_hints.get_or_insert_default();
        hints.push(value);
    }
    Ok(())
}
