//! The names of variables in `stream`.

use super::{BUILTINS, Builtin, Builtin as B};
use crate::model::Variable;

/// Declares [`StreamVariable`] as `builtins!` does [`Builtin`].
macro_rules! stream_variables {
    ($($variant:ident $name:literal $doc:literal)*) => {
        /// A variable with a fixed name that only `stream` has, or that has another meaning there.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum StreamVariable {
            $(#[doc = concat!("`$", $name, "`: ", $doc)] $variant,)*
        }

        /// Every [`StreamVariable`] with its name and its documentation.
        pub const STREAM_VARIABLES: &[(&str, StreamVariable, &str)] = &[
            $(($name, StreamVariable::$variant, $doc),)*
        ];
    };
}

stream_variables! {
    Protocol "protocol" "`TCP` or `UDP`"
    Status "status" "how the session ended: `200`, `400` (what the client sent cannot be \
        understood), `403` (access denied), `500`, `502` (no server could be reached) or `503` \
        (`limit_conn`)"
    SessionTime "session_time" "age of the session in seconds, with milliseconds"
    BytesReceived "bytes_received" "bytes received from the client"
    BytesSent "bytes_sent" "bytes sent to the client"
    UpstreamFirstByteTime "upstream_first_byte_time" "seconds until the first byte from the \
        upstream servers"
    UpstreamSessionTime "upstream_session_time" "seconds for which the connections to the upstream \
        servers were open"
    SslPrereadProtocol "ssl_preread_protocol" "the newest version of TLS that the ClientHello \
        offers"
    SslPrereadServerName "ssl_preread_server_name" "the server name of the ClientHello"
    SslPrereadAlpnProtocols "ssl_preread_alpn_protocols" "the protocols that the ClientHello \
        offers, separated by commas"
}

/// Variables of `http` that mean the same in `stream`.
const SHARED: &[Builtin] = &[
    B::RemoteAddr,
    B::BinaryRemoteAddr,
    B::RemotePort,
    B::ServerAddr,
    B::ServerName,
    B::ServerPort,
    B::Connection,
    B::ProxyProtocolAddr,
    B::ProxyProtocolPort,
    B::ProxyProtocolServerAddr,
    B::ProxyProtocolServerPort,
    B::RealipRemoteAddr,
    B::RealipRemotePort,
    B::LimitConnStatus,
    B::Msec,
    B::TimeIso8601,
    B::TimeLocal,
    B::Pid,
    B::Hostname,
    B::NginxVersion,
    B::SslProtocol,
    B::SslCipher,
    B::SslCiphers,
    B::SslCurve,
    B::SslCurves,
    B::SslSigalgs,
    B::SslEchStatus,
    B::SslEchOuterServerName,
    B::SslJa4,
    B::SslSigalg,
    B::SslSessionId,
    B::SslSessionReused,
    B::SslServerName,
    B::SslAlpnProtocol,
    B::SslResumption,
    B::SslResumptionMiss,
    B::SslHandshakeTime,
    B::SslHandshakeQueueTime,
    B::SslKtls,
    B::SslKtlsReason,
    B::SslClientCert,
    B::SslClientRawCert,
    B::SslClientEscapedCert,
    B::SslClientFingerprint,
    B::SslClientIDn,
    B::SslClientSDn,
    B::SslClientSerial,
    B::SslClientSigalg,
    B::SslClientVStart,
    B::SslClientVEnd,
    B::SslClientVRemain,
    B::SslClientVerify,
    B::UpstreamAddr,
    B::UpstreamBytesReceived,
    B::UpstreamBytesSent,
    B::UpstreamConnectTime,
];

/// The variable of a name in lower case.
pub(super) fn lookup(name: &str) -> Option<Variable> {
    if let Some((_, own, _)) = STREAM_VARIABLES.iter().find(|(known, ..)| *known == name) {
        return Some(Variable::Stream(*own));
    }
    let shared = |builtin: &Builtin| SHARED.contains(builtin);
    let mut known = BUILTINS.iter().filter(|(_, builtin, _)| shared(builtin));
    if let Some((_, builtin, _)) = known.find(|(known, ..)| *known == name) {
        return Some(Variable::Builtin(*builtin));
    }
    let tlv = name.strip_prefix("proxy_protocol_tlv_");
    let tlv = tlv.filter(|tlv| !tlv.is_empty())?;
    Some(Variable::ProxyProtocolTlv(tlv.into()))
}

/// Every name.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let own = STREAM_VARIABLES.iter().map(|(name, ..)| *name);
    own.chain(SHARED.iter().map(|builtin| builtin.name()))
}

/// Whether a variable of `http` means the same in `stream`, for the manual.
pub fn is_shared(builtin: Builtin) -> bool {
    SHARED.contains(&builtin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_what_its_block_says() {
        assert_eq!(
            lookup("status"),
            Some(Variable::Stream(StreamVariable::Status))
        );
        assert_eq!(
            lookup("remote_addr"),
            Some(Variable::Builtin(B::RemoteAddr))
        );
        assert_eq!(
            lookup("proxy_protocol_tlv_alpn"),
            Some(Variable::ProxyProtocolTlv("alpn".into()))
        );
        for of_http in [
            "uri",
            "http_host",
            "arg_a",
            "request_id",
            "proxy_protocol_tlv_",
        ] {
            assert_eq!(lookup(of_http), None, "{of_http}");
        }
    }

    #[test]
    fn every_name_is_found() {
        for name in names() {
            assert!(lookup(name).is_some(), "{name}");
        }
    }
}
