//! Variables: what is known about an exchange, as text.
//!
//! Values are written where and when they are needed; nothing is cached. A variable is either
//! found, perhaps empty, or absent: access logs show `-` for an absent one, templates nothing.

mod browsers;
mod composed;
mod connection;
mod echo;
mod links;
mod process;
mod request;
mod response;
mod tls;
mod tunnel;
mod upstream;
mod user;

pub(crate) use process::{NGINX_VERSION, hostname};
pub(crate) use request::{RequestIdState, argument, cookie};
pub(crate) use upstream::times;
pub(crate) use user::assign;

use crate::exchange::Exchange;
use crate::filters::userid;
use sealane_conf::model::Variable;
use sealane_conf::variables::{Builtin, Builtin as B};
use std::time::Duration;

/// Appends the value of a variable. Returns whether there is one.
pub(crate) fn append(exchange: &Exchange, variable: &Variable, out: &mut Vec<u8>) -> bool {
    let request = &exchange.request;
    match variable {
        Variable::Builtin(builtin) => append_builtin(exchange, *builtin, out),
        Variable::RequestHeader(name) => request::header(exchange, name, out),
        Variable::ResponseHeader(name) => response::header(exchange, name, out),
        Variable::ResponseTrailer(name) => {
            let mut found = false;
            for (key, value) in exchange.response.trailers.iter() {
                if is_variable_name(key, name) {
                    if found {
                        out.extend_from_slice(b", ");
                    }
                    out.extend_from_slice(value);
                    found = true;
                }
            }
            found
        }
        Variable::Argument(name) => put(argument(request.args(), name.as_bytes()), out),
        Variable::Cookie(name) => put(request::cookie(exchange, name.as_bytes()), out),
        Variable::UpstreamHeader(name) => upstream::header(exchange, name, out),
        Variable::UpstreamTrailer(name) => upstream::trailer(exchange, name, out),
        Variable::UpstreamCookie(name) => upstream::cookie(exchange, name, out),
        Variable::ProxyProtocolTlv(name) => connection::tlv(exchange, name, out),
        Variable::Stream(variable) => crate::stream::append(exchange, *variable, out),
        Variable::Capture(number) => request.values.append_group(*number, out),
        Variable::User(index) => user::append(exchange, *index, out),
    }
}

/// Those of no other group are of echo, or about upstream servers and tunnels.
fn append_builtin(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    match builtin {
        B::Request
        | B::RequestMethod
        | B::RequestUri
        | B::Uri
        | B::DocumentUri
        | B::Args
        | B::QueryString
        | B::IsArgs
        | B::ServerProtocol
        | B::Host
        | B::RequestPort
        | B::IsRequestPort
        | B::ContentLength
        | B::ContentType
        | B::RequestBody
        | B::RequestBodyFile
        | B::RequestLength
        | B::RequestTime
        | B::RequestId
        | B::RequestCompletion
        | B::RemoteUser
        | B::LimitReqStatus
        | B::LimitConnStatus
        | B::Pipe => request::append(exchange, builtin, out),
        B::Scheme
        | B::Http2
        | B::Http3
        | B::Quic
        | B::Https
        | B::RemoteAddr
        | B::BinaryRemoteAddr
        | B::RemotePort
        | B::ServerAddr
        | B::ServerName
        | B::ServerPort
        | B::Connection
        | B::ConnectionRequests
        | B::ConnectionTime
        | B::TcpinfoRtt
        | B::TcpinfoRttvar
        | B::TcpinfoSndCwnd
        | B::TcpinfoRcvSpace
        | B::RealipRemoteAddr
        | B::RealipRemotePort
        | B::ProxyProtocolAddr
        | B::ProxyProtocolPort
        | B::ProxyProtocolServerAddr
        | B::ProxyProtocolServerPort => connection::append(exchange, builtin, out),
        B::OtelTraceId | B::OtelSpanId | B::OtelParentId | B::OtelParentSampled => {
            crate::traces::append(exchange, builtin, out)
        }
        B::SliceRange => crate::filters::slice::append_range(exchange, out),
        B::Status | B::BodyBytesSent | B::BytesSent => response::append(exchange, builtin, out),
        B::DocumentRoot
        | B::RealpathRoot
        | B::RequestFilename
        | B::LimitRate
        | B::SecureLink
        | B::SecureLinkExpires => composed::append(exchange, builtin, out),
        B::Msec
        | B::DateGmt
        | B::DateLocal
        | B::TimeIso8601
        | B::TimeLocal
        | B::Pid
        | B::Hostname
        | B::NginxVersion
        | B::ConnectionsActive
        | B::ConnectionsReading
        | B::ConnectionsWriting
        | B::ConnectionsWaiting => process::append(exchange, builtin, out),
        B::SslProtocol
        | B::SslCipher
        | B::SslCiphers
        | B::SslCurve
        | B::SslCurves
        | B::SslSigalgs
        | B::SslEchStatus
        | B::SslEchOuterServerName
        | B::SslJa4
        | B::SslSigalg
        | B::SslSessionId
        | B::SslSessionReused
        | B::SslServerName
        | B::SslAlpnProtocol
        | B::SslEarlyData
        | B::SslEarlyDataVerdict
        | B::SslResumption
        | B::SslResumptionMiss
        | B::SslHandshakeTime
        | B::SslHandshakeQueueTime
        | B::SslKtls
        | B::SslKtlsReason
        | B::SslClientCert
        | B::SslClientRawCert
        | B::SslClientEscapedCert
        | B::SslClientFingerprint
        | B::SslClientIDn
        | B::SslClientSDn
        | B::SslClientIDnLegacy
        | B::SslClientSDnLegacy
        | B::SslClientSerial
        | B::SslClientSigalg
        | B::SslClientVStart
        | B::SslClientVEnd
        | B::SslClientVRemain
        | B::SslClientVerify => tls::append(exchange, builtin, out),
        B::TrimBytes | B::TrimOriginalBytes => response::append(exchange, builtin, out),
        B::GzipRatio | B::BrotliRatio | B::ZstdRatio => response::append(exchange, builtin, out),
        B::ZstdBytesIn | B::ZstdBytesOut => response::append(exchange, builtin, out),
        B::InvalidReferer => links::invalid_referer(exchange, out),
        B::ModernBrowser | B::AncientBrowser | B::Msie => browsers::append(exchange, builtin, out),
        B::UidGot | B::UidSet | B::UidReset => userid::append(exchange, builtin, out),
        _ => echo::append(exchange, builtin, out)
            .unwrap_or_else(|| upstream::append(exchange, builtin, out)),
    }
}

/// Appends a value if there is one.
fn put(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value.unwrap_or_default());
    value.is_some()
}

/// Appends a value that always exists.
pub(crate) fn text(value: impl AsRef<[u8]>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value.as_ref());
    true
}

/// Appends a number.
pub(crate) fn number(value: impl itoa::Integer, out: &mut Vec<u8>) -> bool {
    text(itoa::Buffer::new().format(value), out)
}

/// Appends milliseconds as seconds with three decimals.
pub(crate) fn seconds(milliseconds: u128, out: &mut Vec<u8>) -> bool {
    number(milliseconds / 1000, out);
    let rest = (milliseconds % 1000) as u16;
    let digit = |value: u16| b'0' + (value % 10) as u8;
    text(
        [b'.', digit(rest / 100), digit(rest / 10), digit(rest)],
        out,
    )
}

/// Appends a time as seconds with six decimals.
fn microseconds(time: Duration, out: &mut Vec<u8>) -> bool {
    text(
        format!("{}.{:06}", time.as_secs(), time.subsec_micros()),
        out,
    )
}

/// Whether a header is the one that a variable names: lower case, `_` for `-`.
fn is_variable_name(header: &[u8], name: &str) -> bool {
    let fold = |byte: &u8| {
        if *byte == b'-' {
            b'_'
        } else {
            byte.to_ascii_lowercase()
        }
    };
    header.len() == name.len() && header.iter().map(fold).eq(name.bytes())
}

#[cfg(test)]
mod tests;
