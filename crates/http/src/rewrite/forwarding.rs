//! Headers that a proxy does not pass on, and those it adds.

use crate::headers::KnownHeader;

/// Headers that apply to the connection, not to the message, and so are never passed on (RFC 9110
/// section 7.6.1). Those listed in `Connection` are in addition to these.
pub const fn hop_by_hop() -> &'static [KnownHeader] {
    &[
        KnownHeader::Connection,
        KnownHeader::KeepAlive,
        KnownHeader::ProxyConnection,
        KnownHeader::TransferEncoding,
        KnownHeader::Te,
        KnownHeader::Trailer,
        KnownHeader::Upgrade,
        KnownHeader::Http2Settings,
    ]
}

/// Whether a header is one of [`hop_by_hop`].
pub fn is_hop_by_hop(name: KnownHeader) -> bool {
    hop_by_hop().contains(&name)
}

/// Appends `$proxy_add_x_forwarded_for`: the values of `X-Forwarded-For` as the client sent them,
/// then the client's address. As in nginx, empty values are kept.
pub fn append_forwarded_for<'a>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = &'a [u8]>,
    client: &[u8],
) {
    for value in values {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(client);
}
