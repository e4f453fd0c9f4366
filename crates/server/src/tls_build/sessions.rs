//! Session resumption as configured: keys, caches, the store that nodes share, early data.
//!
//! All of it is part of [`SessionState`], which outlives the snapshot: the same directives find
//! the same objects again.

use super::{emerg, file};
use crate::materials::Materials;
use sealane_conf::Config;
use sealane_conf::diagnostic::Diagnostic;
use sealane_conf::model::{self, LogLevel, Tls};
use sealane_log::OsError;
use sealane_tls::{
    EarlyData, FLIGHT_BYTES, Identity, RingSettings, Secret, SessionCacheSetting, SessionState,
    SessionStats, SharedSessions, SharedStore, StoreSeal, TicketRing,
};
use std::path::Path;
use std::sync::Arc;

/// nginx's default for `ssl_session_cache builtin`.
const BUILTIN_SESSIONS: usize = 20_480;

/// How long a new ticket key waits before it is used, in seconds, if other nodes have to fetch it
/// first: a quarter of its lifetime, within these bounds. Nodes check twice a second.
const SHARE_OVERLAP_S: std::ops::RangeInclusive<u64> = 2..=10;

/// The same without a store: within this time the master gets the key, and with it the successor of
/// a worker that dies.
const KEEP_OVERLAP_S: u64 = 1;

/// Ticket keys that all nodes find in a store.
#[derive(Clone)]
pub struct SharedRing {
    /// The name of the ring in [`SessionState`].
    pub name: String,
    /// Where it is shared.
    pub store: Arc<dyn SharedStore>,
    /// Seals it there.
    pub seal: Arc<StoreSeal>,
}

/// The part of a server's settings that is about sessions.
pub(super) struct ServerSessions {
    pub(super) cache: SessionCacheSetting,
    pub(super) ring: Option<Arc<TicketRing>>,
    pub(super) ticket_keys: Vec<Secret>,
    pub(super) shared: Option<SharedSessions>,
    pub(super) early_data: Option<EarlyData>,
}

/// Builds them server by server.
pub(super) struct SessionsBuilder<'a> {
    materials: &'a Materials,
    state: Arc<SessionState>,
    shared_rings: Vec<SharedRing>,
    notices: Vec<Diagnostic>,
}

impl<'a> SessionsBuilder<'a> {
    pub(super) fn new(materials: &'a Materials) -> SessionsBuilder<'a> {
        SessionsBuilder {
            materials,
            state: Arc::clone(materials.sessions()),
            shared_rings: Vec::new(),
            notices: Vec::new(),
        }
    }

    pub(super) fn stats(&self) -> Arc<SessionStats> {
        Arc::clone(self.state.stats())
    }

    pub(super) fn finish(self) -> (Vec<SharedRing>, Vec<Diagnostic>) {
        (self.shared_rings, self.notices)
    }

    /// What the sessions of a server need.
    ///
    /// # Errors
    /// When a key or the register of early data cannot be used.
    pub(super) fn server(
        &mut self,
        tls: &Tls,
        identities: &[Identity],
    ) -> Result<ServerSessions, Diagnostic> {
        let ticket_keys = tls
            .session_ticket_keys
            .iter()
            .map(|path| {
                let bytes = file(self.materials, path, "session ticket key")?;
                let key = Secret::new(bytes.to_vec());
                // Here it is known which file is wrong.
                TicketRing::from_files(std::slice::from_ref(&key)).map_err(|error| {
                    let path = path.display();
                    emerg(format!(
                        "cannot load session ticket key \"{path}\": {error}"
                    ))
                })?;
                Ok(key)
            })
            .collect::<Result<Vec<_>, Diagnostic>>()?;
        let shared = self.shared(tls, identities)?;
        let ring = match (&shared, ticket_keys.is_empty()) {
            (_, false) => None,
            (None, true) => Some(self.ring(tls, "local", KEEP_OVERLAP_S)?),
            (Some(shared), true) => Some(self.shared_ring(tls, shared)?),
        };
        let early_data = tls.early_data.enabled.then(|| self.early_data(tls));
        Ok(ServerSessions {
            cache: self.cache(&tls.session_cache),
            ring,
            ticket_keys,
            shared,
            early_data: early_data.transpose()?,
        })
    }

    fn early_data(&self, tls: &Tls) -> Result<EarlyData, Diagnostic> {
        let bytes = usize::try_from(tls.early_data.register_bytes).unwrap_or(usize::MAX);
        let register = self.state.register(bytes / FLIGHT_BYTES, now_s());
        let register = register.map_err(|error| {
            emerg(format!(
                "cannot make the register of early data, \"ssl_early_data_register_size\" ({})",
                OsError(&error)
            ))
        })?;
        Ok(EarlyData { register })
    }

    fn cache(&self, setting: &model::SessionCache) -> SessionCacheSetting {
        match setting {
            model::SessionCache::Off => SessionCacheSetting::Off,
            model::SessionCache::None => SessionCacheSetting::None,
            model::SessionCache::Builtin(sessions) => SessionCacheSetting::Builtin {
                sessions: sessions.map_or(BUILTIN_SESSIONS, |n| n as usize),
            },
            model::SessionCache::Shared { name, bytes } => {
                let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
                SessionCacheSetting::Shared(self.state.cache(name, bytes))
            }
        }
    }

    /// The store of a server and what seals its values.
    fn shared(
        &mut self,
        tls: &Tls,
        identities: &[Identity],
    ) -> Result<Option<SharedSessions>, Diagnostic> {
        // Without a certificate there are no handshakes to resume.
        let Some(conf) = tls
            .session_store
            .as_ref()
            .filter(|_| !tls.certificates.is_empty())
        else {
            return Ok(None);
        };
        let Some(store) = self.materials.session_store(conf) else {
            return Ok(None); // nobody is going to serve
        };
        let seal = match &conf.key_file {
            Some(path) => seal_of(self.materials, path)?,
            None => {
                let identity = identities.first().ok_or_else(|| {
                    emerg(format!(
                        "session store {conf}: \"key=\" has to name a file, as the names of the \
                         certificates contain variables"
                    ))
                })?;
                StoreSeal::from_identity(identity).map_err(|error| emerg(error.to_string()))?
            }
        };
        self.notice(match &conf.key_file {
            Some(path) => format!(
                "session store {conf}: stored sessions are sealed with the key of \"{}\"",
                path.display()
            ),
            None => format!(
                "session store {conf}: stored sessions are sealed with the key of each server's \
                 first certificate; nodes with other certificate keys share nothing unless \
                 \"key=\" names a file that is equal on all of them"
            ),
        });
        Ok(Some(SharedSessions {
            store: Arc::clone(store),
            seal: Arc::new(seal),
            timeout: conf.timeout,
        }))
    }

    /// Ticket keys that rotate in step on all nodes. Servers whose values are
    /// sealed alike share them.
    fn shared_ring(
        &mut self,
        tls: &Tls,
        shared: &SharedSessions,
    ) -> Result<Arc<TicketRing>, Diagnostic> {
        // Equal on all nodes, however they reach the store, and without revealing anything.
        let sealed_by = shared.seal.ring_key("name of the seal");
        let sealed_by = sealed_by.as_str().get(2..18).unwrap_or_default().to_owned();
        let kind = format!("shared {sealed_by}");
        let overlap_s = (tls.session_ticket_rotation.as_secs() / 4)
            .clamp(*SHARE_OVERLAP_S.start(), *SHARE_OVERLAP_S.end());
        let ring = self.ring(tls, &kind, overlap_s)?;
        let name = ring_name(tls, &kind);
        if !self.shared_rings.iter().any(|known| known.name == name) {
            self.shared_rings.push(SharedRing {
                name,
                store: Arc::clone(&shared.store),
                seal: Arc::clone(&shared.seal),
            });
        }
        Ok(ring)
    }

    fn ring(&self, tls: &Tls, kind: &str, overlap_s: u64) -> Result<Arc<TicketRing>, Diagnostic> {
        let settings = RingSettings {
            rotation_s: tls.session_ticket_rotation.as_secs(),
            lifetime_s: tls.session_timeout.as_secs(),
            overlap_s,
        };
        let ring = self.state.ring(&ring_name(tls, kind), settings, now_s());
        ring.map_err(|error| emerg(format!("cannot make session ticket keys: {error}")))
    }

    fn notice(&mut self, message: String) {
        if !self.notices.iter().any(|known| known.message == message) {
            self.notices.push(Diagnostic {
                level: LogLevel::Notice,
                message,
                place: None,
                help: None,
            });
        }
    }
}

/// `upstream_store` of each group of servers, in their order. `None` where nothing is shared, or
/// nobody is going to serve.
///
/// # Errors
/// When a key cannot be used.
pub(crate) fn upstream_stores(
    config: &Config,
    materials: &Materials,
) -> Result<Vec<Option<SharedSessions>>, Diagnostic> {
    let upstreams = config.http.iter().flat_map(|http| &http.upstreams);
    let store = |upstream: &Arc<model::Upstream>| {
        let Some(conf) = &upstream.store else {
            return Ok(None);
        };
        // Without a key nothing would be shared; the configuration has been refused then.
        let (Some(store), Some(key_file)) = (materials.session_store(conf), &conf.key_file) else {
            return Ok(None);
        };
        Ok(Some(SharedSessions {
            store: Arc::clone(store),
            seal: Arc::new(seal_of(materials, key_file)?),
            timeout: conf.timeout,
        }))
    };
    upstreams.map(store).collect()
}

/// What seals values with the key in a file.
fn seal_of(materials: &Materials, path: &Path) -> Result<StoreSeal, Diagnostic> {
    let key = Secret::new(file(materials, path, "session store key")?.to_vec());
    let seal = StoreSeal::from_key_file(&key);
    seal.map_err(|error| emerg(format!("\"{}\": {error}", path.display())))
}

/// Servers with equal times share keys.
fn ring_name(tls: &Tls, kind: &str) -> String {
    let rotation_s = tls.session_ticket_rotation.as_secs();
    let timeout_s = tls.session_timeout.as_secs();
    format!("{kind} rotation {rotation_s} timeout {timeout_s}")
}

fn now_s() -> u64 {
    u64::try_from(sealane_sys::time::unix_coarse_s()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    /// The session objects of the first server, as a snapshot would build them.
    fn build(config: &sealane_conf::Config, materials: &Materials) -> ServerSessions {
        let http = config.http.as_ref().expect("there is an http block");
        let tls = http.servers[0].tls.as_ref().expect("it can refuse");
        let mut builder = SessionsBuilder::new(materials);
        let built = builder.server(tls, &[]).map_err(|error| error.message);
        built.expect("nothing to load")
    }

    fn config(rotation: &str, zone: &str) -> sealane_conf::Config {
        parse(&format!(
            "events {{}} http {{ ssl_session_ticket_rotation {rotation}; ssl_session_cache {zone}; \
             ssl_early_data on; server {{ listen 443 ssl; ssl_reject_handshake on; }} }}"
        ))
    }

    fn cache(sessions: &ServerSessions) -> &Arc<sealane_tls::SessionCache> {
        match &sessions.cache {
            SessionCacheSetting::Shared(cache) => cache,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_second_snapshot_finds_keys_cache_and_register_of_the_first() {
        let materials = Materials::new();
        let first = build(&config("1m", "shared:A:1m"), &materials);
        let second = build(&config("1m", "shared:A:1m"), &materials);
        let (ours, theirs) = (first.ring.as_ref(), second.ring.as_ref());
        assert!(Arc::ptr_eq(
            ours.expect("rotating keys"),
            theirs.expect("rotating keys")
        ));
        assert!(Arc::ptr_eq(cache(&first), cache(&second)));
        let register = |sessions: &ServerSessions| {
            let early_data = sessions.early_data.as_ref().expect("it is on");
            Arc::clone(&early_data.register)
        };
        assert!(Arc::ptr_eq(&register(&first), &register(&second)));

        // Another zone is another cache; another process shares nothing.
        let third = build(&config("1m", "shared:B:1m"), &materials);
        assert!(!Arc::ptr_eq(cache(&first), cache(&third)));
        let stranger = build(&config("1m", "shared:A:1m"), &Materials::new());
        assert!(!Arc::ptr_eq(cache(&first), cache(&stranger)));
    }
}
