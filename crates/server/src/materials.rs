//! The bytes of every file that a configuration names (certificates, keys, passwords, ticket
//! keys), of texts with keys that were taken out of it, and facts that only the master can find
//! out.
//!
//! The privileged master reads them, so that building a [`crate::Snapshot`] needs no right to
//! open files. A reload sends the same type over a socket.

use crate::acme::AcmeState;
use crate::client_status::StatusDesk;
use crate::snapshot::Snapshot;
use crate::traces::SpanQueue;
use sealane_conf::Config;
use sealane_conf::inline_keys;
use sealane_conf::model::{
    self, CertificateFiles, CertificateSource, KeyDevice, Resolver, SessionStore, Template, Tls,
    UpstreamTls,
};
use sealane_tls::{
    Capabilities, HandshakeState, KeyHandle, KtlsMode, KtlsSettings, SessionState, SharedStore,
    StapleState, sha256,
};
use sealane_upstream::resolve::Resolve;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// Contents of the files named by a configuration, by absolute path, and of texts that were taken
/// out of it, by theirs ([`sealane_conf::inline_keys::path_of`]).
#[derive(Default, Clone)]
pub struct Materials {
    files: HashMap<PathBuf, Arc<Zeroizing<Vec<u8>>>>,
    keys: HashMap<KeyFile, KeyHandle>,
    /// SHA-256 of files from which keys were taken.
    before_keys: HashMap<PathBuf, [u8; 32]>,
    kernel_tls: Option<Arc<Capabilities>>,
    sessions: Arc<SessionState>,
    handshakes: Arc<HandshakeState>,
    staples: Arc<StapleState>,
    statuses: Arc<StatusDesk>,
    acme: Arc<AcmeState>,
    spans: Arc<SpanQueue>,
    session_stores: Vec<(Arc<SessionStore>, Arc<dyn SharedStore>)>,
    resolvers: Vec<ConfiguredResolver>,
    before: Option<Arc<Snapshot>>,
    built_before: Option<Arc<Snapshot>>,
}

/// A server's key, as a configuration names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyFile {
    /// `ssl_certificate_key`: a file, the name of a text that was taken out of the configuration,
    /// or the URI of a key in a device.
    pub path: PathBuf,
    /// `ssl_password_file`.
    pub passwords: Option<PathBuf>,
    /// The device that computes with it, as `ssl_accelerator` has it.
    pub device: Option<String>,
}

impl KeyFile {
    /// The key of one of a server's certificates; `None` for one that is still in the text of the
    /// configuration.
    pub fn of_server(tls: &Tls, files: &CertificateFiles) -> Option<KeyFile> {
        let device = tls.key_device(&files.key);
        KeyFile::named(&files.key, tls.password_file.clone(), device)
    }

    /// The key of a certificate for other servers; `None` for one that is still in the text of the
    /// configuration.
    pub fn of_upstream(tls: &UpstreamTls, files: &CertificateFiles) -> Option<KeyFile> {
        let device = UpstreamTls::key_device(&files.key);
        KeyFile::named(&files.key, tls.password_file.clone(), device)
    }

    /// The key of a certificate with variables in its name, if its text was taken out of the
    /// configuration.
    pub fn of_name(key: &Template, passwords: Option<PathBuf>) -> Option<KeyFile> {
        Some(KeyFile {
            path: inline_keys::taken_from(key)?,
            passwords,
            device: None,
        })
    }

    fn named(
        key: &CertificateSource,
        passwords: Option<PathBuf>,
        device: Option<Arc<KeyDevice>>,
    ) -> Option<KeyFile> {
        let path = match key {
            CertificateSource::File(path) | CertificateSource::Taken(path) => path.clone(),
            CertificateSource::Uri(uri) => uri.into(),
            CertificateSource::Inline(_) => return None,
        };
        Some(KeyFile {
            path,
            passwords,
            device: device.map(|device| device.to_string()),
        })
    }
}

/// A `resolver` with its `resolver_timeout`, and what resolves names for it.
#[derive(Clone)]
struct ConfiguredResolver {
    conf: Arc<Resolver>,
    timeout: Duration,
    answers: Arc<dyn Resolve>,
}

impl Materials {
    /// No files yet.
    pub fn new() -> Materials {
        Materials::default()
    }

    /// Stores the bytes of a file. They are wiped when dropped.
    pub fn insert(&mut self, path: PathBuf, bytes: Vec<u8>) {
        self.insert_wiped(path, Zeroizing::new(bytes));
    }

    /// The same for bytes that are wiped already.
    pub fn insert_wiped(&mut self, path: PathBuf, bytes: Zeroizing<Vec<u8>>) {
        self.files.insert(path, Arc::new(bytes));
    }

    /// Stores the handle of a key that the key process holds. Servers get it in place of the file.
    pub fn insert_key(&mut self, file: KeyFile, handle: KeyHandle) {
        self.keys.insert(file, handle);
    }

    /// Forgets what a file says. Not even a hash stays: that of a PIN would tell it.
    pub fn remove(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// Forgets what a file says, or all private keys in it if it is `kept` for the certificates
    /// that it has as well.
    pub fn remove_keys(&mut self, path: &Path, kept: bool) {
        let Some(bytes) = self.files.remove(path) else {
            return;
        };
        self.before_keys.insert(path.to_owned(), sha256(&bytes));
        if kept {
            self.insert(path.to_owned(), without_private_keys(&bytes));
        }
    }

    /// Keys that another process holds.
    pub fn keys(&self) -> impl Iterator<Item = (&KeyFile, &KeyHandle)> {
        self.keys.iter()
    }

    /// What a server loads as its key: the handle of one that another process holds, or the bytes
    /// of the file.
    pub fn key(&self, file: &KeyFile) -> Option<Zeroizing<Vec<u8>>> {
        match self.keys.get(file) {
            Some(handle) => Some(handle.to_bytes()),
            // What a device computes with, nothing else does.
            None if file.device.is_some() => None,
            None => {
                let bytes = self.get(&file.path);
                bytes.map(|bytes| Zeroizing::new(bytes.to_vec()))
            }
        }
    }

    /// Whether a file that was read again says what it said before.
    pub fn has_same(&self, path: &Path, bytes: &[u8]) -> bool {
        match self.before_keys.get(path) {
            Some(hash) => sha256(bytes) == *hash,
            None => self.get(path) == Some(bytes),
        }
    }

    /// Stores what this kernel can do for TLS. Probing may load a module, for which a worker has no
    /// privilege.
    pub fn set_kernel_tls(&mut self, capabilities: Arc<Capabilities>) {
        self.kernel_tls = Some(capabilities);
    }

    /// What this kernel can do for TLS, if it was probed.
    pub fn kernel_tls(&self) -> Option<&Arc<Capabilities>> {
        self.kernel_tls.as_ref()
    }

    /// `ssl_ktls` or `proxy_ssl_ktls`, with what this kernel can do.
    pub(crate) fn ktls(&self, ktls: model::Ktls) -> KtlsSettings {
        let default = KtlsSettings::default();
        KtlsSettings {
            mode: ktls.mode.map(|mode| match mode {
                model::KtlsMode::Off => KtlsMode::Off,
                model::KtlsMode::On => KtlsMode::On,
                model::KtlsMode::Auto => KtlsMode::Auto,
            }),
            min_body_bytes: ktls.min_size_bytes,
            max_key_records: ktls.key_records,
            max_key_updates: ktls.key_updates,
            capabilities: self.kernel_tls.clone().unwrap_or(default.capabilities),
        }
    }

    /// Ticket keys, session caches and counters, which outlive snapshots. Every further snapshot
    /// gets those of the first.
    pub fn set_sessions(&mut self, sessions: Arc<SessionState>) {
        self.sessions = sessions;
    }

    /// The state that outlives snapshots.
    pub fn sessions(&self) -> &Arc<SessionState> {
        &self.sessions
    }

    /// The handshake pool and its counters. Every further snapshot gets those of the first.
    pub fn set_handshakes(&mut self, handshakes: Arc<HandshakeState>) {
        self.handshakes = handshakes;
    }

    /// The handshake pool and its counters. Every further snapshot gets those of the first.
    pub fn handshakes(&self) -> &Arc<HandshakeState> {
        &self.handshakes
    }

    /// Certificates with their staples. Every further snapshot gets those of the first.
    pub fn set_staples(&mut self, staples: Arc<StapleState>) {
        self.staples = staples;
    }

    /// Certificates with their staples.
    pub fn staples(&self) -> &Arc<StapleState> {
        &self.staples
    }

    /// What issuers say about certificates of clients. Every further snapshot gets that of the
    /// first.
    pub fn set_statuses(&mut self, statuses: Arc<StatusDesk>) {
        self.statuses = statuses;
    }

    /// What issuers say about certificates of clients.
    pub fn statuses(&self) -> &Arc<StatusDesk> {
        &self.statuses
    }

    /// What `acme_certificate` has brought. Every further snapshot gets that of the first.
    pub fn set_acme(&mut self, acme: Arc<AcmeState>) {
        self.acme = acme;
    }

    /// What `acme_certificate` has brought.
    pub fn acme(&self) -> &Arc<AcmeState> {
        &self.acme
    }

    /// Where finished spans wait. Every further snapshot gets that of the first.
    pub fn set_spans(&mut self, spans: Arc<SpanQueue>) {
        self.spans = spans;
    }

    /// Where finished spans wait.
    pub(crate) fn spans(&self) -> &Arc<SpanQueue> {
        &self.spans
    }

    /// Stores the previous snapshot: the new one keeps the state of upstream servers and the
    /// connections to them.
    pub fn set_before(&mut self, before: Arc<Snapshot>) {
        self.before = Some(before);
    }

    /// Stores a snapshot whose TLS settings are used again where all that they are made of is the
    /// same. One to be replaced ([`set_before`](Self::set_before)) serves as that, too.
    pub fn set_built_before(&mut self, before: Arc<Snapshot>) {
        self.built_before = Some(before);
    }

    pub(crate) fn built_before(&self) -> Option<&Snapshot> {
        self.built_before.as_deref().or_else(|| self.before())
    }

    /// The files alone.
    pub fn into_files(self) -> Materials {
        Materials {
            files: self.files,
            keys: self.keys,
            before_keys: self.before_keys,
            ..Materials::default()
        }
    }

    pub(crate) fn before(&self) -> Option<&Snapshot> {
        self.before.as_deref()
    }

    /// Stores the client of an `ssl_session_store`. Without it the directive has no effect.
    pub fn add_session_store(&mut self, conf: Arc<SessionStore>, store: Arc<dyn SharedStore>) {
        self.session_stores.push((conf, store));
    }

    /// The store of an `ssl_session_store`.
    pub fn session_store(&self, conf: &SessionStore) -> Option<&Arc<dyn SharedStore>> {
        let mut stores = self.session_stores.iter();
        let found = stores.find(|(known, _)| **known == *conf);
        found.map(|(_, store)| store)
    }

    /// Stores what resolves names for a `resolver` with this `resolver_timeout`. Without it, no
    /// name is found.
    pub fn add_resolver(
        &mut self,
        conf: Arc<Resolver>,
        timeout: Duration,
        answers: Arc<dyn Resolve>,
    ) {
        self.resolvers.push(ConfiguredResolver {
            conf,
            timeout,
            answers,
        });
    }

    /// What resolves names for a `resolver`.
    pub fn resolver(&self, conf: &Resolver, timeout: Duration) -> Option<&Arc<dyn Resolve>> {
        let is_it = |known: &&ConfiguredResolver| *known.conf == *conf && known.timeout == timeout;
        let found = self.resolvers.iter().find(is_it);
        found.map(|known| &known.answers)
    }

    /// Names of resolvers, those of upstreams among them, for what is counted.
    pub(crate) fn resolver_names(&self, config: &Config) -> Vec<Arc<str>> {
        let used = self.resolvers.iter().map(|known| &*known.conf);
        let upstreams = config.http.iter().flat_map(|http| &http.upstreams);
        let of_upstreams = upstreams.filter_map(|upstream| upstream.resolver.as_deref());
        let all = used.chain(of_upstreams);
        without_repetition(all.map(|resolver| resolver.zone_name().into()))
    }

    /// Names of session stores, for what is counted.
    pub(crate) fn session_store_names(&self) -> Vec<Arc<str>> {
        let stores = self.session_stores.iter();
        without_repetition(stores.map(|(conf, _)| conf.to_string().into()))
    }

    /// Every file that was read, with its bytes, to be sent to another process.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files
            .iter()
            .map(|(path, bytes)| (path.as_path(), bytes.as_slice()))
    }

    /// The bytes of a file, if it was read.
    pub fn get(&self, path: &Path) -> Option<&[u8]> {
        self.files.get(path).map(|bytes| bytes.as_slice())
    }

    /// The same, to be kept for longer than this.
    pub(crate) fn shared(&self, path: &Path) -> Option<&Arc<Zeroizing<Vec<u8>>>> {
        self.files.get(path)
    }
}

/// The text of a file in PEM without its private keys (RFC 7468 sections 10 and 11, and the
/// traditional forms).
pub(crate) fn without_private_keys(pem: &[u8]) -> Vec<u8> {
    let mut left = Vec::with_capacity(pem.len());
    let mut is_key = false;
    for line in pem.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii();
        let is_label = text.starts_with(b"-----") && text.ends_with(b"PRIVATE KEY-----");
        if is_label && text.starts_with(b"-----BEGIN") {
            is_key = true;
        }
        if !is_key {
            left.extend_from_slice(line);
        }
        if is_label && text.starts_with(b"-----END") {
            is_key = false;
        }
    }
    left
}

fn without_repetition(names: impl Iterator<Item = Arc<str>>) -> Vec<Arc<str>> {
    let mut known: Vec<Arc<str>> = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

impl fmt::Debug for Materials {
    /// Names only: the contents are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.files.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_keys_are_taken_out_of_files_with_certificates() {
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let key =
            |label: &str| format!("-----BEGIN {label}-----\nc2VjcmV0\n-----END {label}-----\n");
        for label in [
            "PRIVATE KEY",
            "RSA PRIVATE KEY",
            "EC PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
        ] {
            for text in [
                format!("{}{certificate}{certificate}", key(label)),
                format!("{certificate}{}{certificate}", key(label)),
                format!("{certificate}{certificate}{}", key(label)),
                format!("{certificate}{certificate}{}", key(label))
                    .trim_end()
                    .to_owned(),
                format!("{certificate}{certificate}-----BEGIN {label}-----\nc2VjcmV0"),
            ] {
                let left = without_private_keys(text.as_bytes());
                let left = String::from_utf8(left).expect("text");
                assert_eq!(left, format!("{certificate}{certificate}"), "{text}");
            }
        }
        let crlf = format!("{}{certificate}", key("PRIVATE KEY")).replace('\n', "\r\n");
        let left = without_private_keys(crlf.as_bytes());
        assert_eq!(left, certificate.replace('\n', "\r\n").as_bytes());
    }

    #[test]
    fn a_file_whose_keys_were_taken_is_recognised() {
        let mut materials = Materials::new();
        let (path, text) = (Path::new("/both.pem"), b"-----BEGIN PRIVATE KEY-----\nx\n");
        materials.insert(path.to_owned(), text.to_vec());
        assert!(materials.has_same(path, text));
        materials.remove_keys(path, true);
        assert_eq!(materials.get(path), Some(&b""[..]));
        assert!(materials.has_same(path, text) && !materials.has_same(path, b""));
        materials.remove_keys(path, false);
        assert_eq!(materials.get(path), None);
    }
}
