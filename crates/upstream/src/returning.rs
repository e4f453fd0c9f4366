//! A request that goes where an earlier one of its client has gone, on the same connection.

use super::group::{Group, PickRequest};
use super::peer_set::{PeerRef, TierName};
use super::picked::Picked;
use super::tried::Tried;

impl Group {
    /// Picks the peer at an address, to which a connection of this client is open. It does not
    /// matter how many requests the peer has, or whether others have failed there: the connection
    /// works, and there is no other one that would do. `None` if there is no such peer any more, or
    /// it is to get no requests.
    pub fn pick_again(
        &self,
        address: &str,
        ask: &PickRequest<'_>,
        tried: &mut Tried,
    ) -> Option<Picked> {
        let turn = self.current_turn(ask.thread);
        let set = &turn.set;
        let now_ms = self.clock_ms(ask.now);
        tried.fit(set);
        for name in [TierName::Primary, TierName::Backup] {
            let peers = &set.tier(name).peers;
            let place = peers
                .iter()
                .position(|peer| **peer.name() == *address && peer.takes_clients_of_its_own());
            let Some(place) = place else { continue };
            let peer = &peers[place];
            peer.enter_anyway();
            match name {
                TierName::Primary => tried.add(place, peer),
                // If it fails, the primary peers come first.
                TierName::Backup => tried.count_try(),
            }
            if set.single {
                let peer = PeerRef::new(set, name, place);
                return Some(self.picked_alone(peer));
            }
            return Some(self.picked(set, name, place, now_ms));
        }
        None
    }
}
