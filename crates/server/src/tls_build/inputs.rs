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
    // All keys of a configuration, which are made anew for each snapshot.
    if let Some((keys, retry)) = &settings.ech {
        text.bytes(keys.digest());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Snapshot;
    use crate::snapshot::ServerRuntime;
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use sealane_log::LogSet;
    use sealane_sys::guard::Guard;

    /// Two servers, of which the first has keys; hellos to both are opened with them.
    const CONFIGURATION: &str = "error_log stderr; events {} http { access_log off;
        ssl_session_cache shared:S:1m; ssl_early_data on;
        server { listen 127.0.0.1:443 ssl; server_name a; ssl_reject_handshake on;
            ssl_ech_file /ech/first.pem; ssl_ech_file /ech/second.pem; }
        server { listen 127.0.0.1:443 ssl; server_name b; ssl_reject_handshake on; } }";

    /// A new key as a file has it.
    fn key() -> Vec<u8> {
        let key = sealane_tls::new_ech_key("public.test").expect("a valid name");
        let block = |label: &str, der: &[u8]| {
            let digits = BASE64_STANDARD.encode(der);
            let lines = digits.as_bytes().chunks(64).map(String::from_utf8_lossy);
            let lines: String = lines.map(|line| format!("{line}\n")).collect();
            format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
        };
        let private = block("PRIVATE KEY", key.pkcs8.expose());
        (private + &block("ECHCONFIG", &key.config_list)).into_bytes()
    }

    /// The next snapshot after `before`, as a reload makes it: with the state that outlives
    /// snapshots, and everything else read again.
    fn reload(before: Option<(&Materials, &Arc<Snapshot>)>, files: [&[u8]; 2]) -> Materials {
        let mut materials = Materials::new();
        for (name, bytes) in ["/ech/first.pem", "/ech/second.pem"].into_iter().zip(files) {
            materials.insert(name.into(), bytes.to_vec());
        }
        if let Some((old, snapshot)) = before {
            materials.set_sessions(Arc::clone(old.sessions()));
            materials.set_handshakes(Arc::clone(old.handshakes()));
            materials.set_built_before(Arc::clone(snapshot));
        }
        materials
    }

    fn build(materials: &Materials) -> Arc<Snapshot> {
        let config = crate::testing::parse(CONFIGURATION);
        let logs = LogSet::open(&config, &Guard::default()).expect("there is nothing to open");
        let built = Snapshot::build(&config, materials, &logs);
        Arc::new(built.expect("it is valid").0)
    }

    /// Of how many servers the settings are those of the snapshot before.
    fn kept(before: &Snapshot, now: &Snapshot) -> usize {
        let pairs = before.servers().iter().zip(now.servers());
        let tls = |server: &ServerRuntime| server.tls.clone().expect("it has ssl");
        pairs
            .filter(|(old, new)| Arc::ptr_eq(&tls(old), &tls(new)))
            .count()
    }

    #[test]
    fn a_reload_builds_anew_only_what_has_changed() {
        let [one, two, three] = [key(), key(), key()];
        let files = [&one[..], &two];
        let materials = reload(None, files);
        let first = build(&materials);
        let same = build(&reload(Some((&materials, &first)), files));
        assert_eq!(kept(&first, &same), 2, "the files are the same");
        // What opens hellos is part of every context.
        for files in [[&one[..], &three], [&two[..], &one]] {
            let other = build(&reload(Some((&materials, &first)), files));
            assert_eq!(kept(&first, &other), 0);
        }
    }
}
