//! Variables about tunnels for CONNECT: `$connect_*`, `$proxy_connect_*`.

use super::{number, put, seconds, text};
use crate::exchange::Exchange;
use crate::proxying::{Measured, tunnel_state, tunnel_to_set};
use crate::request_log::log_request;
use sealane_conf::model::Pass;
use sealane_conf::values;
use sealane_conf::variables::Builtin;
use sealane_http::uri::TargetForm;
use std::time::Duration;

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let head = &exchange.request.head;
    let TargetForm::Authority { port, .. } = head.form else {
        return false;
    };
    let state = tunnel_state(exchange);
    let attempt = || exchange.upstream.as_deref()?.attempts.last();
    match builtin {
        Builtin::ConnectHost => text(&exchange.request.host, out),
        Builtin::ConnectPort => number(u64::from(port), out),
        Builtin::ConnectAddr => put(attempt().map(|attempt| attempt.peer.as_bytes()), out),
        Builtin::ProxyConnectConnectTimeout => {
            let set = state.and_then(|state| state.connect_timeout);
            let of_server = || settings(exchange).map(|settings| settings.connect_timeout);
            milliseconds(set.or_else(of_server), out)
        }
        Builtin::ProxyConnectDataTimeout
        | Builtin::ProxyConnectReadTimeout
        | Builtin::ProxyConnectSendTimeout => {
            let set = state.and_then(|state| state.data_timeout);
            let of_server = || settings(exchange).map(|settings| settings.read_timeout);
            milliseconds(set.or_else(of_server), out)
        }
        Builtin::ProxyConnectResolveTime => {
            step(state.map_or(Measured::None, |state| state.resolved), out)
        }
        Builtin::ProxyConnectConnectTime => {
            let took = |took| Measured::Took(took);
            let of = |time: Option<Duration>| time.map_or(Measured::Begun, took);
            let connected = attempt().map(|attempt| of(attempt.connect_time));
            let begun = state.map_or(Measured::None, |_| Measured::Begun);
            step(connected.unwrap_or(begun), out)
        }
        Builtin::ProxyConnectFirstByteTime => {
            step(state.map_or(Measured::None, |state| state.first_byte), out)
        }
        Builtin::ProxyConnectResponse => {
            put(state.and_then(|state| state.response.as_deref()), out)
        }
        _ => false,
    }
}

fn settings(exchange: &Exchange) -> Option<&sealane_conf::model::UpstreamSettings> {
    let pass = exchange
        .snapshot
        .location(exchange.location)
        .pass
        .as_ref()?;
    matches!(pass.pass, Pass::Tunnel(_)).then(|| pass.settings())
}

fn milliseconds(time: Option<Duration>, out: &mut Vec<u8>) -> bool {
    let ms = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    ms.is_some_and(|ms| number(ms, out))
}

fn step(step: Measured, out: &mut Vec<u8>) -> bool {
    match step {
        Measured::None => false,
        Measured::Begun => text("-", out),
        Measured::Took(time) => seconds(time.as_millis(), out),
    }
}

/// `set $proxy_connect_...`.
pub(super) fn assign(exchange: &mut Exchange, builtin: Builtin, value: Vec<u8>) {
    if builtin == Builtin::ProxyConnectResponse {
        tunnel_to_set(exchange).response = Some(value);
        return;
    }
    let Some(time) = values::time(&value) else {
        let value = value.escape_ascii();
        log_request!(exchange, Error, "invalid time \"{value}\" in \"set\"");
        return;
    };
    let state = tunnel_to_set(exchange);
    match builtin {
        Builtin::ProxyConnectConnectTimeout => state.connect_timeout = Some(time),
        Builtin::ProxyConnectDataTimeout | Builtin::ProxyConnectReadTimeout => {
            state.data_timeout = Some(time);
        }
        _ => {} // `$proxy_connect_send_timeout` has no effect in the module, either
    }
}
