//! All that the TLS settings of a server are made of, in one number: settings that are the same are
//! built once, also across snapshots. When one of many certificates changes, the others stay.

use crate::materials::Materials;
use sealane_conf::model::Tls;
use sealane_tls::{Secret, ServerSettings, ServerTls, SessionCacheSetting};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The settings of the snapshot before.
pub(super) fn of_before(materials: &Materials) -> HashMap<[u8; 32], Arc<ServerTls>> {
    let servers = materials.built_before().map(|before| before.servers());
    let with_tls = servers
        .unwrap_or_default()
        .iter()
        .filter_map(|server| Some((server.tls_inputs, Arc::clone(server.tls.as_ref()?))));
    with_tls.collect()
}

/// Equal if the directives, the contents of all files that they name, and the objects that outlive
/// snapshots are.
pub(super) fn fingerprint(
    conf: &Tls,
    settings: &ServerSettings,
    materials: &Materials,
) -> [u8; 32] {
    let mut text = InputText::default();
    // With the names of files.
    text.debug(conf);
    text.debug(&settings.server_names);
    text.debug(&(&settings.alpn, settings.remember_client_offer));
    for identity in &settings.identities {
        text.bytes(&identity.chain_pem);
        text.secret(&identity.key_pem);
        identity.passwords.iter().for_each(|it| text.secret(it));
    }
    settings.ticket_keys.iter().for_each(|it| text.secret(it));
    let clients = &settings.client_verification;
    for file in [&clients.named, &clients.trusted, &clients.revoked] {
        text.bytes(file.as_ref().map_or(&[], |file| &file.pem));
    }
    if let Some(stapling) = &settings.stapling {
        text.bytes(stapling.file.as_ref().map_or(&[], |file| &file.der));
        text.bytes(stapling.trusted.as_ref().map_or(&[], |file| &file.pem));
        text.object(&stapling.state);
    }
    let store = conf.session_store.as_ref();
    if let Some(path) = store.and_then(|store| store.key_file.as_ref()) {
        text.bytes(materials.get(path).unwrap_or_default());
    }
    if let Some(shared) = &settings.shared_sessions {
        text.object(&shared.store);
    }
    if let Some(ring) = &settings.ticket_ring {
        text.object(ring);
    }
    if let SessionCacheSetting::Shared(cache) = &settings.session_cache {
        text.object(cache);
    }
    if let Some(early_data) = &settings.early_data {
        text.object(&early_data.register);
    }
    let status = settings.client_status.as_ref();
    if let Some((_, cache)) = status.and_then(|status| status.cache.as_ref()) {
        text.object(cache);
    }
    // All keys of a configuration, read again for each snapshot.
    if let Some((keys, retry)) = &settings.ech {
        text.object(keys);
        text.debug(retry);
    }
    if let Some(stats) = &settings.session_stats {
        text.object(stats);
    }
    if let Some(state) = &settings.handshakes.state {
        text.object(state);
    }
    // Without it they are the defaults.
    if let Some(capabilities) = materials.kernel_tls() {
        text.object(capabilities);
    }
    sealane_tls::sha256(&text.0)
}

/// Parts with their lengths, so that no two lists give the same text.
#[derive(Default)]
struct InputText(Zeroizing<Vec<u8>>);

impl InputText {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0
            .extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn secret(&mut self, secret: &Secret) {
        self.bytes(secret.expose());
    }

    fn debug(&mut self, value: &dyn std::fmt::Debug) {
        let mut shown = Zeroizing::new(String::new());
        // Writing to memory cannot fail.
        let _ = write!(shown, "{value:?}");
        self.bytes(shown.as_bytes());
    }

    /// What it is, not what it says. The snapshot before keeps its objects alive, so no other one
    /// has their address.
    fn object<T: ?Sized>(&mut self, object: &Arc<T>) {
        let address = Arc::as_ptr(object).cast::<()>() as usize;
        self.bytes(&address.to_ne_bytes());
    }
}
