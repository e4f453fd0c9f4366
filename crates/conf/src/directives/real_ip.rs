//! ngx_http_realip_module.

use super::{HSL, HSL_STREAM_MAIL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::input::addresses_of;
use crate::model::{IpNetwork, PeerNetwork, RealIpHeader};
use crate::values;
use std::net::IpAddr;

pub(super) const MODULE: Module = Module {
    title: "HTTP: addresses of clients behind proxies",
    doc: "Replaces the client address with the one in a header field from a trusted proxy.",
    rows: &[
        Row::new(
            "set_real_ip_from",
            HSL_STREAM_MAIL,
            ONE,
            "",
            "Trusted peer: an address, a network (`192.0.2.0/24`), a host name, or `unix:` for all \
             Unix sockets.",
            set_real_ip_from,
        ),
        Row::new(
            "real_ip_header",
            HSL,
            ONE,
            "X-Real-IP",
            "Request header field with the client address, or `proxy_protocol`. In \
             X-Forwarded-For, the last address is used.",
            real_ip_header,
        ),
        Row::new(
            "real_ip_recursive",
            HSL,
            ONE,
            "off",
            "Whether trusted addresses at the end of the field are skipped.",
            |b, c| c.flag(&mut b.location().real_ip_recursive),
        ),
    ],
};

fn set_real_ip_from(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let trusted = peers(b, c)?;
    let from = b.location().real_ip_from.get_or_insert_default();
    for peer in trusted {
        from.push(peer);
    }
    Ok(())
}

/// The peers that the directive's first argument means: an address, a network, a host name, or
/// `unix:`.
pub(super) fn peers(b: &mut Build<'_>, c: &Call<'_>) -> Result<Vec<PeerNetwork>, Fault> {
    let written = c.arg(1);
    if written == b"unix:" {
        return Ok(vec![PeerNetwork::Unix]);
    }
    if let Some((network, cut)) = network(written) {
        if cut {
            b.warn(format!(
                "low address bits of {} are meaningless",
                c.shown(1)
            ));
        }
        return Ok(vec![PeerNetwork::Network(network)]);
    }
    let host = std::str::from_utf8(written).unwrap_or_default();
    let found = match host.is_empty() {
        true => Vec::new(),
        false => addresses_of(b.loader, host),
    };
    if found.is_empty() {
        let message = format!("host not found in {} \"{}\"", c.row.name, c.shown(1));
        return Err(Fault::at(1, message));
    }
    let networks = found.into_iter().map(IpNetwork::of);
    Ok(networks.map(PeerNetwork::Network).collect())
}

/// An address or a network, and whether bits behind the prefix were set.
pub(super) fn network(written: &[u8]) -> Option<(IpNetwork, bool)> {
    let text = std::str::from_utf8(written).ok()?;
    let Some((address, bits)) = text.split_once('/') else {
        return Some((IpNetwork::of(text.parse::<IpAddr>().ok()?), false));
    };
    let bits = u8::try_from(values::number(bits.as_bytes())?).ok()?;
    IpNetwork::new(address.parse().ok()?, bits)
}

fn real_ip_header(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().real_ip_header)?;
    b.location().real_ip_header = Some(match c.arg(1) {
        b"X-Real-IP" => RealIpHeader::XRealIp,
        b"X-Forwarded-For" => RealIpHeader::XForwardedFor,
        b"proxy_protocol" => RealIpHeader::ProxyProtocol,
        _ => RealIpHeader::Field(c.text(1)?.to_ascii_lowercase().into()),
    });
    Ok(())
}
