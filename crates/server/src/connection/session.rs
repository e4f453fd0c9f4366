//! What sessions of layer 4 and of mail need of a connection.

use super::{Connection, Deadline};
use crate::snapshot::ListenerId;
use sealane_conf::model::{ListenAddress, ServerKind};
use sealane_io::registry::Asked;

impl Connection {
    /// The block that its listener belongs to.
    pub(super) fn kind(&self) -> ServerKind {
        self.snapshot.listener(self.listener).kind
    }

    /// The session is over, and the connection with it.
    pub(super) fn end_session(&self) {
        self.count_ktls();
        self.note_retirement();
        self.debug(format_args!("close connection"));
    }

    /// A session begins: from now on the registry can wake its task.
    pub(crate) async fn begin_session(&mut self) {
        self.remember_task().await;
    }

    /// Goes on as if another listener had accepted it (`pass`).
    pub(super) fn pass_to(&mut self, listener: ListenerId) {
        self.listener = listener;
        let listener = self.snapshot.listener(listener);
        self.server = listener.names.default_server();
        if let ListenAddress::Inet(address) = &listener.address {
            self.facts.set_local(*address);
        }
    }

    /// Counts that it is passed on; returns how often it was.
    pub(crate) fn note_pass(&mut self) -> u8 {
        self.passes = self.passes.saturating_add(1);
        self.passes
    }

    /// It waits for nothing that has a time-out.
    pub(crate) fn clear_deadline(&mut self) {
        self.deadline = Deadline::None;
    }

    /// Whether it has to end now.
    pub(crate) fn is_to_abort(&self) -> bool {
        self.asked() == Asked::Abort
    }
}
