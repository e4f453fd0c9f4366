//! Collects what a handshake agreed on, for the `$ssl_*` variables.

use crate::facts::TlsFacts;
use sealane_tls::Connection;

/// What the variables need. Called once per connection, and only when some
/// variable of the configuration asks.
pub(crate) fn collect(connection: &Connection) -> TlsFacts {
    let _ = connection;
    TlsFacts::default()
}
