//! A server's end behind a handshake that did not take place: the fuzzer starts there.

use super::keys::DataKeys;
use super::local_ids::MAX_LOCAL_IDS;
use super::paths::Paths;
use super::{Addresses, Beginning, Connection, ConnectionSettings, LocalIds, Owner};
use crate::recovery::Path;
use crate::{ConnectionId, ResetToken, Side, Time, Version};
use std::sync::Arc;

impl Connection {
    /// A server's end that has taken the handshake of a client whose id is `remote` and whose
    /// parameters are those of `settings`.
    ///
    /// # Errors
    /// The settings are none that a peer may have.
    pub(crate) fn established(
        settings: Arc<ConnectionSettings>,
        (id, remote): (ConnectionId, ConnectionId),
        addresses: Addresses,
        keys: DataKeys,
        now: Time,
        owner: &mut impl Owner,
    ) -> Result<Self, crate::Error> {
        let parameters = settings.parameters(Version::V1);
        let path = Path::new(0, &settings.recovery(), true, now);
        let mut connection = Self::new(Beginning {
            side: Side::Server,
            version: Version::V1,
            settings,
            negotiation: None,
            local_ids: LocalIds::new(id, ResetToken::new([0; 16])),
            remote,
            paths: Paths::new(addresses, path),
            now,
        });
        connection.apply_parameters(&parameters)?;
        connection.data.keys = Some(Box::new(keys));
        connection.establish(now, owner)?;
        Ok(connection)
    }

    /// Sees that the peer cannot make this end remember without end.
    ///
    /// # Panics
    /// If it can.
    pub(crate) fn check_bounds(&self) {
        assert!(self.local_ids.active().count() <= MAX_LOCAL_IDS + 1);
        assert!(self.remote_ids.remembered() <= 16 * self.settings.active_connection_id_limit);
        let is_open = !self.is_ending();
        assert_eq!(self.close_reason().is_none(), is_open);
        assert!(is_open || !self.wants_handshake());
        self.streams.check_sums();
    }
}
