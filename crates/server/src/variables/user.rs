//! Variables that the configuration defines.

use super::tunnel;
use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use crate::geoip2;
use crate::real_ip;
use crate::request_log::log_request;
use crate::template;
use sealane_conf::model::{Geo, Getter, Map, Template, UserVariable, Variable};
use sealane_conf::values;
use sealane_conf::variables::Builtin;
use sealane_http::headers::KnownHeader;
use smallvec::SmallVec;
use std::cell::Cell;
use std::net::IpAddr;

/// How deeply variables may be nested; nginx's limit.
const MAX_DEPTH: u8 = 100;

thread_local! {
    /// Depth of the current evaluation.
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

/// Appends the value of a variable. Returns whether there is one.
pub(super) fn append(exchange: &Exchange, index: u16, out: &mut Vec<u8>) -> bool {
    if let Some(found) = exchange.request.values.append(index, out) {
        return found;
    }
    // Every index comes from the configuration of this snapshot.
    let variable = &exchange.snapshot.variables[usize::from(index)];
    let depth = DEPTH.get();
    if depth == MAX_DEPTH {
        let name = &variable.name;
        log_request!(
            exchange,
            Error,
            "cycle while evaluating variable \"{name}\""
        );
        return false;
    }
    let _deeper = Deeper::than(depth);
    get(exchange, variable, index, out)
}

/// Counts an evaluation until it is dropped.
struct Deeper(u8);

impl Deeper {
    fn than(depth: u8) -> Deeper {
        DEPTH.set(depth + 1);
        Deeper(depth)
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}

/// The value of a variable that was not set.
fn get(exchange: &Exchange, variable: &UserVariable, index: u16, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let keep = match &variable.getter {
        Getter::Absent => return false,
        Getter::Same(existing) => return super::append(exchange, existing, out),
        Getter::Uninitialized => {
            // As in nginx, there is nothing to warn about in a session.
            if exchange.conf().uninitialized_variable_warn && !exchange.is_session() {
                let name = &variable.name;
                log_request!(exchange, Warn, "using uninitialized \"{name}\" variable");
            }
            true
        }
        Getter::Map(map) => {
            look_up(exchange, map, out);
            !map.volatile
        }
        Getter::Geo(geo) => {
            out.extend_from_slice(geo.value(address(exchange, geo)));
            !geo.volatile
        }
        Getter::UserAgent(agents) => {
            let request = &exchange.request;
            let header = request.head.get(KnownHeader::UserAgent);
            let header = header.map(|header| header.of(&request.buffer));
            out.extend_from_slice(agents.value(header));
            true
        }
        Getter::GeoIp2(variable) => {
            if !geoip2::append(exchange, variable, out) {
                exchange.request.values.set(index, None);
                return false;
            }
            true
        }
        Getter::Split(split) => {
            let source = template::evaluate(&split.source, exchange);
            out.extend_from_slice(split.value(&source));
            true
        }
    };
    if keep {
        let value = out[begin..].into();
        exchange.request.values.set(index, Some(value));
    }
    true
}

/// The address that a `geo` looks up, if there is one.
fn address(exchange: &Exchange, geo: &Geo) -> Option<IpAddr> {
    let address = match &geo.address {
        None => match exchange.client_address() {
            PeerAddress::Inet(address) => address.ip(),
            PeerAddress::Unix => return None,
        },
        Some(variable) => {
            let mut text = Vec::new();
            super::append(exchange, variable, &mut text);
            real_ip::parse_ip(&text)?
        }
    };
    Some(match &geo.proxies {
        Some(proxies) => real_ip::forwarded(exchange, proxies, address),
        None => address,
    })
}

/// Sources up to this length are looked up without an allocation.
const INLINE_BYTES: usize = 128;

fn look_up(exchange: &Exchange, map: &Map, out: &mut Vec<u8>) {
    let source = template::evaluate(&map.source, exchange);
    let source = match &source[..] {
        [rest @ .., b'.'] if map.hostnames => rest,
        source => source,
    };
    let mut lower: SmallVec<[u8; INLINE_BYTES]> = SmallVec::from_slice(source);
    lower.make_ascii_lowercase();
    let value = match map.value(&lower) {
        Some(value) => value,
        None => by_expression(exchange, map, source).unwrap_or(&map.default),
    };
    template::append(value, exchange, out);
}

fn by_expression<'m>(exchange: &Exchange, map: &'m Map, source: &[u8]) -> Option<&'m Template> {
    // nginx does not match expressions against an empty text.
    if source.is_empty() {
        return None;
    }
    for (regex, value) in &map.expressions {
        match regex.captures(source) {
            Ok(None) => {}
            Ok(Some(found)) => {
                exchange.request.values.store(regex, found, source);
                return Some(value);
            }
            Err(reason) => {
                let pattern = regex.pattern();
                let source = source.escape_ascii();
                log_request!(
                    exchange,
                    Alert,
                    "\"{pattern}\" could not be matched against \"{source}\": {reason}; \
                     use an expression that backtracks less"
                );
                return None;
            }
        }
    }
    None
}

/// Sets a variable: `set`, `auth_request_set`.
pub(crate) fn assign(exchange: &mut Exchange, variable: &Variable, value: Vec<u8>) {
    match variable {
        Variable::User(index) => exchange.request.values.set(*index, Some(value.into())),
        Variable::Builtin(Builtin::Args) => {
            exchange.request.args = Some(value);
            exchange.request.uri_replaced = true;
        }
        Variable::Builtin(Builtin::LimitRate) => match values::size(&value) {
            Some(rate) => exchange.features.limit_rate.of_request = Some(rate),
            None => {
                let value = value.escape_ascii();
                log_request!(exchange, Error, "invalid $limit_rate \"{value}\"");
            }
        },
        Variable::Builtin(
            builtin @ (Builtin::ProxyConnectConnectTimeout
            | Builtin::ProxyConnectDataTimeout
            | Builtin::ProxyConnectReadTimeout
            | Builtin::ProxyConnectSendTimeout
            | Builtin::ProxyConnectResponse),
        ) => tunnel::assign(exchange, *builtin, value),
        // The configuration allows no others.
        _ => {}
    }
}
