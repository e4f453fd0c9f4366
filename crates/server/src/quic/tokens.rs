//! Tokens by which clients show that they are where they say (RFC 9000 section 8.1).

use super::ids::ConnectionIds;
use sealane_quic::{ConnectionId, TokenArrival, Version, put_new_token};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// What tokens say of a client, now.
pub(super) fn token_arrival(
    version: Version,
    address: SocketAddr,
    destination: &ConnectionId,
) -> TokenArrival<'_> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    TokenArrival {
        version,
        address,
        destination,
        unix_secs: now.map_or(0, |since| since.as_secs()),
    }
}

impl ConnectionIds {
    /// A token by which the client can show later that it has been at this address.
    pub(crate) fn new_token(&self, version: Version, address: SocketAddr) -> Option<Box<[u8]>> {
        let keys = self.routes.keys();
        let arrival = token_arrival(version, address, &ConnectionId::EMPTY);
        let mut nonce = [0; 12];
        self.routes.fill_random(&mut nonce);
        let mut token = Vec::new();
        put_new_token(&mut token, keys.tokens.first()?, &nonce, &arrival);
        Some(token.into())
    }
}
