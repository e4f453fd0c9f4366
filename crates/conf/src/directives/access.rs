//! ngx_http_access_module, and the access directives of ngx_http_core_module.

use super::real_ip::network;
use super::{Arity, HSL, HSL_STREAM, LIMIT_EXCEPT, LOCATION, Module, ONE, Row};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault};
use crate::model::{AddressRule, AddressRules, IpNetwork, Satisfy};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: access",
    doc: "Access control by address and method, and how several access conditions are combined.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "allow",
        HSL_STREAM | LIMIT_EXCEPT,
        ONE,
        "",
        "Allows access for an address, a network (`192.0.2.0/24`, `2001:db8::/32`), `unix:` for \
         all Unix sockets, or `all`. The first `allow` or `deny` that matches the client decides.",
        rule,
    ),
    Row::new(
        "deny",
        HSL_STREAM | LIMIT_EXCEPT,
        ONE,
        "",
        "Denies access with 403; arguments as in `allow`.",
        rule,
    ),
    Row::new(
        "satisfy",
        HSL,
        ONE,
        "all",
        "Whether `all` or `any` of `allow` and `deny`, `auth_basic` and `auth_request` must allow \
         access.",
        |b, c| {
            let choices = [("all", Satisfy::All), ("any", Satisfy::Any)];
            c.choice(&mut b.location().restricting.satisfy, &choices)
        },
    ),
    Row::new(
        "auth_delay",
        HSL,
        ONE,
        "0s",
        "Delay of 401 responses, against password guessing and timing attacks. Other requests are \
         not delayed.",
        |b, c| c.time(&mut b.location().restricting.auth_delay),
    ),
    Row::block(
        "limit_except",
        LOCATION,
        Arity::AtLeast(1),
        "Settings of a location for all methods except these; `GET` includes `HEAD`. May contain \
         `allow`, `deny`, `auth_basic`, `auth_basic_user_file`, `proxy_pass`, `access_log`. As in \
         nginx, the location's rewrite directives and `try_files` do not apply to the other \
         methods, and nested locations do not inherit the block.",
        limit_except,
    ),
];

fn rule(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mut rules = b
        .location()
        .restricting
        .addresses
        .take()
        .unwrap_or_default();
    let added = add_rule(b, c, 1, c.row.name == "allow", Arc::make_mut(&mut rules));
    b.location().restricting.addresses = Some(rules);
    added
}

/// Adds what argument `index` names to `rules`.
///
/// # Errors
/// It is neither an address, a network, `unix:` nor `all`.
pub(super) fn add_rule(
    b: &mut Build<'_>,
    c: &Call<'_>,
    index: usize,
    allows: bool,
    rules: &mut AddressRules,
) -> Result<(), Fault> {
    let written = c.arg(index);
    let found = match written {
        b"all" | b"unix:" => None,
        _ => {
            let found = network(written).ok_or_else(|| c.invalid_parameter(index))?;
            if found.1 {
                b.warn(format!(
                    "low address bits of {} are meaningless",
                    c.shown(index)
                ));
            }
            Some(found.0)
        }
    };
    let is_all = written == b"all";
    let every = |network: Option<(IpNetwork, bool)>| network.filter(|_| is_all).map(|all| all.0);
    let ipv4 = every(IpNetwork::new(Ipv4Addr::UNSPECIFIED.into(), 0));
    let ipv6 = every(IpNetwork::new(Ipv6Addr::UNSPECIFIED.into(), 0));
    let rule = |network| AddressRule { network, allows };
    let ipv4 = ipv4.or(found.filter(|network| !network.is_ipv6()));
    let ipv6 = ipv6.or(found.filter(IpNetwork::is_ipv6));
    rules.ipv4.extend(ipv4.map(rule));
    rules.ipv6.extend(ipv6.map(rule));
    if found.is_none() {
        rules.unix.push(allows);
    }
    Ok(())
}

/// Methods that nginx knows here.
const METHODS: [&str; 14] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "MKCOL",
    "COPY",
    "MOVE",
    "OPTIONS",
    "PROPFIND",
    "PROPPATCH",
    "LOCK",
    "UNLOCK",
    "PATCH",
];

fn limit_except(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if b.has_limit_except() {
        return Err(c.refuse("is duplicate"));
    }
    let mut methods = Vec::new();
    for (index, word) in c.args() {
        let known = METHODS
            .iter()
            .find(|name| name.as_bytes().eq_ignore_ascii_case(word));
        let known =
            known.ok_or_else(|| Fault::at(index, format!("invalid method \"{}\"", c.shown(index))));
        methods.push(*known?);
        if methods.last() == Some(&"GET") {
            methods.push("HEAD");
        }
    }
    b.opening = Some(Opening::LimitExcept(methods));
    Ok(())
}
