//! The identity of a connection to a peer: the address it comes from (`proxy_bind`) and the
//! PROXY header at its beginning (`proxy_send_proxy_protocol`). Two requests share a connection
//! only if both are the same for them.

use crate::client_certificates;
use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use crate::request_log::log_request;
use crate::template;
use sealane_conf::model::{BindAddress, SendProxyProtocol, UpstreamSettings};
use sealane_conf::upstream_url::local_address;
use sealane_http::proxy_protocol::{
    Addresses, ClientTransport, SslTlvBuilder, Tlv, encode_v1, encode_v2, encode_v2_with_checksum,
    ssl_client, tlv_type,
};
use sealane_tls::VerifyFailure;
use sealane_upstream::pool::ConnectionKey;
use std::net::SocketAddr;

/// The local address of connections, and whether it need not be one of the machine's
/// (`transparent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocalAddress {
    pub(super) address: SocketAddr,
    pub(super) transparent: bool,
}

/// `proxy_bind`; `None` leaves the address to the system.
pub(super) fn bind_address(
    exchange: &Exchange,
    settings: &UpstreamSettings,
) -> Option<LocalAddress> {
    let bind = settings.bind.as_ref()?;
    let address = match &bind.address {
        BindAddress::Fixed(address) => *address,
        BindAddress::Evaluated(template) => {
            let text = template::evaluate(template, exchange);
            let address = local_address(&text);
            if address.is_none() && !text.is_empty() {
                let text = text.escape_ascii();
                log_request!(exchange, Error, "invalid local address \"{text}\"");
            }
            address?
        }
    };
    Some(LocalAddress {
        address,
        transparent: bind.transparent,
    })
}

/// The PROXY header for this client, if the location wants one: its address, and the local address
/// that it has connected to; of a session in version 2 also what is known of its TLS.
pub(crate) fn proxy_header(exchange: &Exchange) -> Option<Vec<u8>> {
    let version = exchange.conf().send_proxy_protocol;
    if version == SendProxyProtocol::Off {
        return None;
    }
    let addresses = match (exchange.client_address(), exchange.connection.local()) {
        (PeerAddress::Inet(source), Some(destination)) => Some(Addresses {
            source,
            destination,
        }),
        _ => None,
    };
    let mut header = Vec::new();
    match version {
        SendProxyProtocol::V2 if exchange.is_session() => {
            let told = ToldOfTls::of(exchange);
            let tlvs = told.iter().flat_map(ToldOfTls::tlvs);
            let addresses = addresses.as_ref();
            let transport = match exchange.connection.is_udp() {
                true => ClientTransport::Udp,
                false => ClientTransport::Tcp,
            };
            if encode_v2_with_checksum(&mut header, transport, addresses, tlvs).is_err() {
                let _ = encode_v2_with_checksum(&mut header, transport, addresses, []);
            }
        }
        SendProxyProtocol::V2 => {
            // Only extensions can be too long, and there are none.
            let _ = encode_v2(&mut header, addresses.as_ref(), []);
        }
        _ => encode_v1(&mut header, addresses.as_ref()),
    }
    Some(header)
}

/// What a header of version 2 says about the TLS of the client.
struct ToldOfTls<'e> {
    server_name: &'e str,
    alpn: &'e str,
    ssl: SslTlvBuilder,
}

impl<'e> ToldOfTls<'e> {
    /// `None` for a client without TLS.
    fn of(exchange: &'e Exchange) -> Option<ToldOfTls<'e>> {
        if !exchange.is_tls() {
            return None;
        }
        let facts = exchange.connection.tls()?;
        let mut client = ssl_client::SSL;
        let mut verify = VerifyFailure::UNSPECIFIED.code();
        let chain = client_certificates::chain(exchange);
        if chain.is_some() {
            client |= ssl_client::CERT_SESS;
            if !facts.session_reused {
                client |= ssl_client::CERT_CONN;
            }
            verify = match client_certificates::verdict(exchange) {
                Some(Err(failure)) => failure.code(),
                _ => 0,
            };
        }
        let mut ssl = SslTlvBuilder::new(client, verify.cast_unsigned());
        ssl.push(tlv_type::SSL_VERSION, facts.protocol.as_bytes());
        let leaf = chain.and_then(|chain| chain.text());
        if let Some(leaf) = leaf.filter(|leaf| !leaf.common_name.is_empty()) {
            ssl.push(tlv_type::SSL_CN, leaf.common_name.as_bytes());
        }
        ssl.push(tlv_type::SSL_CIPHER, facts.cipher.as_bytes());
        if let Some(algorithms) = &facts.certificate_algorithms {
            ssl.push(tlv_type::SSL_SIG_ALG, algorithms.signature.as_bytes());
            if let Some(key) = &algorithms.key {
                ssl.push(tlv_type::SSL_KEY_ALG, key.as_bytes());
            }
        }
        Some(ToldOfTls {
            server_name: &facts.server_name,
            alpn: &facts.alpn,
            ssl,
        })
    }

    fn tlvs(&self) -> impl Iterator<Item = Tlv<'_>> {
        let names = [
            (tlv_type::AUTHORITY, self.server_name),
            (tlv_type::ALPN, self.alpn),
        ];
        let names = names.into_iter().filter(|(_, name)| !name.is_empty());
        let names = names.map(|(kind, name)| Tlv {
            kind,
            value: name.as_bytes(),
        });
        names.chain([Tlv {
            kind: tlv_type::SSL,
            value: self.ssl.value(),
        }])
    }
}

/// The key of an idle connection: `shared`, and the same identity.
pub(super) fn connection_key(
    exchange: &Exchange,
    settings: &UpstreamSettings,
    shared: ConnectionKey,
) -> ConnectionKey {
    let local = bind_address(exchange, settings);
    let header = proxy_header(exchange);
    if local.is_none() && header.is_none() {
        return shared;
    }
    let mut key = shared.to_vec();
    if let Some(local) = local {
        key.extend_from_slice(format!(" from {}", local.address).as_bytes());
    }
    if let Some(header) = header {
        key.extend_from_slice(b" for ");
        key.extend_from_slice(&header);
    }
    key.into()
}
