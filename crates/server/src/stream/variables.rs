//! Variables that only sessions have, or that mean something else for them.

use crate::exchange::Exchange;
use crate::variables::{number, seconds, text, times};
use sealane_conf::variables::StreamVariable;

/// Appends the value of a variable. Returns whether there is one.
pub(crate) fn append(exchange: &Exchange, variable: StreamVariable, out: &mut Vec<u8>) -> bool {
    let transfer = &exchange.transfer;
    let hello = || exchange.features.session.as_ref()?.hello.as_ref();
    let states = exchange.upstream.as_deref();
    match variable {
        StreamVariable::Protocol => match exchange.connection.is_udp() {
            true => text("UDP", out),
            false => text("TCP", out),
        },
        StreamVariable::Status => text(format!("{:03}", exchange.response.status.0), out),
        StreamVariable::SessionTime => seconds(transfer.started.elapsed().as_millis(), out),
        StreamVariable::BytesReceived => number(transfer.request_bytes, out),
        StreamVariable::BytesSent => number(transfer.sent_bytes, out),
        StreamVariable::UpstreamFirstByteTime => {
            states.is_some_and(|states| times(states, out, |attempt| attempt.header_time))
        }
        StreamVariable::UpstreamSessionTime => {
            states.is_some_and(|states| times(states, out, |attempt| attempt.response_time))
        }
        StreamVariable::SslPrereadProtocol => {
            hello().is_some_and(|hello| text(hello.protocol(), out))
        }
        StreamVariable::SslPrereadServerName => {
            hello().is_some_and(|hello| text(hello.server_name(), out))
        }
        StreamVariable::SslPrereadAlpnProtocols => {
            hello().is_some_and(|hello| text(hello.alpn(), out))
        }
    }
}
