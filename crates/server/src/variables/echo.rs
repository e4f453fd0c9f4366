//! Variables of echo-nginx-module.

use super::{request, seconds, text};
use crate::exchange::Exchange;
use crate::handlers::echo;
use sealane_conf::variables::Builtin;

/// `None`: it is another module's.
pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> Option<bool> {
    let request = &exchange.request;
    Some(match builtin {
        Builtin::EchoRequestBody => request::append(exchange, Builtin::RequestBody, out),
        Builtin::EchoRequestMethod => match request.head.method.name() {
            Some(name) => text(name, out),
            None => text(request.head.method_name.of(&request.buffer), out),
        },
        Builtin::EchoClientRequestMethod => request::append(exchange, Builtin::RequestMethod, out),
        Builtin::EchoRequestUri | Builtin::EchoCacheableRequestUri => text(&request.uri, out),
        Builtin::EchoClientRequestHeaders => headers(exchange, out),
        Builtin::EchoTimerElapsed => seconds(echo::elapsed_ms(exchange).into(), out),
        Builtin::EchoResponseStatus => {
            exchange.phases.has_status && text(exchange.response.status.to_string(), out)
        }
        _ => return None,
    })
}

/// The head of the request, whichever protocol it came by.
fn headers(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let request = &exchange.request;
    out.extend_from_slice(request.head.request_line.of(&request.buffer));
    out.extend_from_slice(b"\r\n");
    for header in &request.head.headers {
        out.extend_from_slice(header.name.of(&request.buffer));
        out.extend_from_slice(b": ");
        out.extend_from_slice(header.value.of(&request.buffer));
        out.extend_from_slice(b"\r\n");
    }
    text(b"\r\n", out)
}
