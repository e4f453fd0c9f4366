//! Certificates whose names contain variables, and the caches for them: `ssl_certificate` and
//! `proxy_ssl_certificate` with a `$`, `ssl_certificate_cache` and `proxy_ssl_certificate_cache`.
//!
//! As in nginx, they are read with the worker's rights when they are needed. A disk thread does
//! that. With a key process (`ssl_key_process`), the worker opens the file of a key, but does not
//! read it: the key process gets what is in it, and the worker a handle.
//!
//! ```text
//! key process: turn to load -> disk thread: open, copy by the kernel -> key process: hold it
//!                                                                    -> recent, or parse
//! without:                     disk thread: open, read, recent or parse
//! ```

use crate::materials::without_private_keys;
use sealane_conf::model::CertificateCache;
use sealane_io::disk;
use sealane_keys::deposit::{Deposit, KeySource};
use sealane_keys::rules::Roles;
use sealane_keys::{KeyClient, Lease, LoadedKey};
use sealane_log::{OsError, confinement};
use sealane_tls::client::ClientIdentity;
use sealane_tls::{
    AcceleratorChoice, CertificatePair, HandshakeState, Identity, KeyLease, Secret, SettingsError,
};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::hash::Hash;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};
use zeroize::Zeroizing;

/// Largest file that is read. No certificate is that large; the client can influence the name.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Pairs that each server keeps as they were read last, so that the same bytes need not be parsed
/// again.
pub const MAX_RECENT_PAIRS: usize = 64;

/// Unused entries that leave a cache whenever one is added, so that adding takes the same time
/// whatever the size.
const MAX_REMOVED_AT_ONCE: usize = 2;

/// What is made of a certificate and its key.
pub(crate) trait Parsed: Clone + Send + 'static {
    /// Parses and checks them. `lease` has another process hold the key.
    ///
    /// # Errors
    /// In nginx's words.
    fn parse(
        identity: &Identity,
        lease: Option<KeyLease>,
        handshakes: &HandshakeState,
    ) -> Result<Self, SettingsError>;
}

impl Parsed for ClientIdentity {
    fn parse(
        identity: &Identity,
        lease: Option<KeyLease>,
        handshakes: &HandshakeState,
    ) -> Result<Self, SettingsError> {
        ClientIdentity::load_leased(identity, lease, Some(handshakes))
    }
}

impl Parsed for Arc<CertificatePair> {
    fn parse(
        identity: &Identity,
        lease: Option<KeyLease>,
        _: &HandshakeState,
    ) -> Result<Self, SettingsError> {
        CertificatePair::load_leased(identity, lease).map(Arc::new)
    }
}

/// What keys are for, as the key process has to know.
#[derive(Clone, Copy)]
pub(crate) struct KeyUse {
    pub(crate) roles: Roles,
    pub(crate) may_decrypt: bool,
    pub(crate) accelerator: AcceleratorChoice,
}

/// The names of a certificate and its key: paths, or `data:` and PEM text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Names {
    certificate: Arc<[u8]>,
    key: Arc<[u8]>,
}

impl Names {
    pub(crate) fn new(certificate: &[u8], key: &[u8]) -> Names {
        Names {
            certificate: certificate.into(),
            key: key.into(),
        }
    }
}

/// Reads the certificates of one server or pass directive. Cloning shares everything.
#[derive(Clone)]
pub(crate) struct CertificateReader<T> {
    loader: Arc<Loader<T>>,
    cache: Option<Arc<KeptCertificates<T>>>,
}

struct Loader<T> {
    /// Where relative names start from.
    directory: PathBuf,
    passwords: Vec<Secret>,
    key_use: KeyUse,
    handshakes: Arc<HandshakeState>,
    /// By what was read.
    recent: Mutex<Lru<[u8; 32], Pair<T>>>,
}

/// A certificate with its key.
#[derive(Clone)]
struct Pair<T> {
    parsed: T,
    /// Has the key process hold the key, if there is one.
    lease: Option<Arc<Lease>>,
}

impl<T> Pair<T> {
    /// Whether its key can be used: the key process may have died.
    fn is_current(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.is_current())
    }
}

/// `ssl_certificate_cache` and its relatives; several readers may share one.
pub(crate) struct KeptCertificates<T> {
    settings: CertificateCache,
    entries: Mutex<Lru<Names, Kept<T>>>,
}

/// A cached certificate.
#[derive(Clone)]
pub(crate) struct Kept<T> {
    pair: Pair<T>,
    /// The state of the files.
    stamps: [Stamp; 2],
    checked: Instant,
    used: Instant,
}

/// Changes when a file does; `None` for text that is not a file, and for a missing file.
type Stamp = Option<(u64, SystemTime)>;

/// What a cache has.
pub(crate) enum Cached<T> {
    /// It can be used at once.
    Fresh(T),
    /// The files have to be looked at, at least.
    Unsure(Option<Kept<T>>),
}

/// What looking at files has come to.
enum Look<T> {
    /// They are those of a cached certificate.
    Same(T),
    /// They are to be read.
    Changed(Stamped),
}

/// What a cache is to be told once files have been read.
struct Stamped {
    stamps: [Stamp; 2],
    was_cached: bool,
}

/// A certificate, with its key on the way to the key process.
struct Sealed {
    chain_pem: Vec<u8>,
    key: OwnedFd,
}

impl<T: Parsed> CertificateReader<T> {
    pub(crate) fn new(
        directory: PathBuf,
        passwords: Vec<Secret>,
        cache: Option<Arc<KeptCertificates<T>>>,
        key_use: KeyUse,
        handshakes: Arc<HandshakeState>,
    ) -> CertificateReader<T> {
        let loader = Loader {
            directory,
            passwords,
            key_use,
            handshakes,
            recent: Mutex::default(),
        };
        CertificateReader {
            loader: Arc::new(loader),
            cache,
        }
    }

    /// Looks into the cache.
    pub(crate) fn known(&self, names: &Names) -> Cached<T> {
        match &self.cache {
            Some(cache) => cache.get(names),
            None => Cached::Unsure(None),
        }
    }

    /// Reads what is not [`known`](Self::known), unless the files are still the same. The key goes
    /// to the key process `keys`, if there is one.
    ///
    /// # Errors
    /// In nginx's words, what cannot be loaded.
    pub(crate) async fn read(
        &self,
        names: Names,
        kept: Option<Kept<T>>,
        keys: Option<Arc<KeyClient>>,
    ) -> Result<T, String> {
        let reader = self.clone();
        // The text of a key is the value of a variable of this process.
        let Some(keys) = keys.filter(|_| !is_data(&names.key)) else {
            return disk::run(move || match reader.look(&names, kept) {
                Look::Same(parsed) => Ok(parsed),
                Look::Changed(stamped) => reader.keep(&names, &stamped, reader.loader.load(&names)),
            })
            .await;
        };
        let turn = keys.turn_to_load().await;
        let wanted = names.clone();
        let found = disk::run(move || match reader.look(&wanted, kept) {
            Look::Same(parsed) => Ok(parsed),
            Look::Changed(stamped) => Err((stamped, reader.loader.seal(&wanted))),
        });
        let (stamped, sealed) = match found.await {
            Ok(parsed) => return Ok(parsed),
            Err(changed) => changed,
        };
        let read = match sealed {
            Ok(Sealed { chain_pem, key }) => match keys.load(turn, key).await {
                Ok(loaded) => self.loader.take(&names, chain_pem, loaded).await,
                Err(why) => Err(format!(
                    "cannot load certificate key \"{}\": {why}",
                    label(&names.key)
                )),
            },
            Err(why) => Err(why),
        };
        self.keep(&names, &stamped, read)
    }

    /// Whether files are still those of a cached certificate. May block.
    fn look(&self, names: &Names, kept: Option<Kept<T>>) -> Look<T> {
        let was_cached = kept.is_some();
        let Some(cache) = &self.cache else {
            let stamps = [None, None];
            return Look::Changed(Stamped { stamps, was_cached });
        };
        let now = Instant::now();
        let stamps = [
            self.loader.stamp(&names.certificate),
            self.loader.stamp(&names.key),
        ];
        let same = kept.filter(|kept| kept.stamps == stamps && kept.pair.is_current());
        let Some(kept) = same else {
            return Look::Changed(Stamped { stamps, was_cached });
        };
        let parsed = kept.pair.parsed.clone();
        let checked = Kept {
            checked: now,
            used: now,
            ..kept
        };
        cache.put(names, checked);
        Look::Same(parsed)
    }

    /// Tells the cache what reading has come to: a certificate, and whether its key needs a
    /// password.
    fn keep(
        &self,
        names: &Names,
        stamped: &Stamped,
        read: Result<(Pair<T>, bool), String>,
    ) -> Result<T, String> {
        let Some(cache) = &self.cache else {
            return read.map(|(pair, _)| pair.parsed);
        };
        match read {
            Ok((pair, is_encrypted)) => {
                let parsed = pair.parsed.clone();
                // As in nginx, a key that is encrypted is not kept decrypted.
                if !is_encrypted {
                    let now = Instant::now();
                    let kept = Kept {
                        pair,
                        stamps: stamped.stamps,
                        checked: now,
                        used: now,
                    };
                    cache.put(names, kept);
                }
                Ok(parsed)
            }
            Err(error) => {
                if stamped.was_cached {
                    cache.remove(names);
                }
                Err(error)
            }
        }
    }

    /// The certificate with these names.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) async fn load(
        &self,
        names: Names,
        keys: Option<Arc<KeyClient>>,
    ) -> Result<T, String> {
        match self.known(&names) {
            Cached::Fresh(parsed) => Ok(parsed),
            Cached::Unsure(kept) => self.read(names, kept, keys).await,
        }
    }
}

impl<T: Clone> KeptCertificates<T> {
    pub(crate) fn new(settings: CertificateCache) -> KeptCertificates<T> {
        KeptCertificates {
            settings,
            entries: Mutex::default(),
        }
    }

    fn get(&self, names: &Names) -> Cached<T> {
        let now = Instant::now();
        let mut entries = lock(&self.entries);
        let Some(kept) = entries.get(names) else {
            return Cached::Unsure(None);
        };
        kept.used = now;
        if !kept.pair.is_current() {
            return Cached::Unsure(Some(kept.clone()));
        }
        let is_data = kept.stamps == [None, None];
        let since = now.saturating_duration_since(kept.checked);
        match is_data || since <= self.settings.valid {
            true => Cached::Fresh(kept.pair.parsed.clone()),
            false => Cached::Unsure(Some(kept.clone())),
        }
    }

    fn put(&self, names: &Names, kept: Kept<T>) {
        let now = kept.used;
        // As in nginx, a certificate and its key are two elements.
        let max_pairs = (self.settings.max as usize / 2).max(1);
        let mut entries = lock(&self.entries);
        for _ in 0..MAX_REMOVED_AT_ONCE {
            let unused =
                |kept: &Kept<T>| now.saturating_duration_since(kept.used) > self.settings.inactive;
            if entries.oldest().is_none_or(|kept| !unused(kept)) {
                break;
            }
            entries.remove_oldest();
        }
        entries.insert(names.clone(), kept, max_pairs);
    }

    fn remove(&self, names: &Names) {
        lock(&self.entries).remove(names);
    }
}

impl<T: Parsed> Loader<T> {
    /// What the names lead to now, and whether the key needs a password. May block.
    fn load(&self, names: &Names) -> Result<(Pair<T>, bool), String> {
        let chain_pem = self.read(&names.certificate, "certificate")?;
        let key_pem = Secret::new(self.read(&names.key, "certificate key")?);
        let is_encrypted = memchr::memmem::find(key_pem.expose(), b"ENCRYPTED").is_some();
        let content = content_hash(&chain_pem, key_pem.expose());
        if let Some(pair) = self.recent(&content, is_encrypted) {
            return Ok((pair, false));
        }
        let pair = self.parse(names, chain_pem, key_pem, None)?;
        if !is_encrypted {
            self.remember(content, &pair);
        }
        Ok((pair, is_encrypted))
    }

    /// Reads a certificate, and has the kernel copy its key for the key process. May block.
    fn seal(&self, names: &Names) -> Result<Sealed, String> {
        let chain_pem = Zeroizing::new(self.read(&names.certificate, "certificate")?);
        let (file, bytes) =
            open_file(&self.path(&names.key)).map_err(|why| self.no_key(names, &why))?;
        let deposit = Deposit {
            roles: self.key_use.roles,
            may_decrypt: self.key_use.may_decrypt,
            accelerator: self.key_use.accelerator,
            passwords: &self.passwords,
            key: KeySource::File(file.as_fd(), bytes),
        };
        let failed = |error: io::Error| format!("sendfile() failed ({})", OsError(&error));
        let key = deposit
            .seal()
            .map_err(|error| self.no_key(names, &failed(error)))?;
        Ok(Sealed {
            // It may be the same file.
            chain_pem: without_private_keys(&chain_pem),
            key,
        })
    }

    /// What has become of a key that the key process holds now.
    async fn take(
        self: &Arc<Self>,
        names: &Names,
        chain_pem: Vec<u8>,
        loaded: LoadedKey,
    ) -> Result<(Pair<T>, bool), String> {
        let LoadedKey {
            handle,
            is_encrypted,
            lease,
        } = loaded;
        let content = content_hash(&chain_pem, &handle.id.0);
        if let Some(pair) = self.recent(&content, is_encrypted) {
            return Ok((pair, false));
        }
        let (loader, names) = (Arc::clone(self), names.clone());
        let key = Secret::new(handle.to_bytes().to_vec());
        let parsed = disk::run(move || loader.parse(&names, chain_pem, key, Some(lease)));
        let pair = parsed.await?;
        if !is_encrypted {
            self.remember(content, &pair);
        }
        Ok((pair, is_encrypted))
    }

    fn parse(
        &self,
        names: &Names,
        chain_pem: Vec<u8>,
        key_pem: Secret,
        lease: Option<Arc<Lease>>,
    ) -> Result<Pair<T>, String> {
        let identity = Identity {
            chain_pem,
            key_pem,
            passwords: self.passwords.clone(),
            chain_label: label(&names.certificate),
            key_label: label(&names.key),
        };
        let held = lease.clone().map(|lease| lease as KeyLease);
        let parsed = T::parse(&identity, held, &self.handshakes);
        Ok(Pair {
            parsed: parsed.map_err(|error| error.to_string())?,
            lease,
        })
    }

    /// What was made of the same bytes before.
    fn recent(&self, content: &[u8; 32], is_encrypted: bool) -> Option<Pair<T>> {
        let mut recent = lock(&self.recent);
        let known = recent.get(content).filter(|_| !is_encrypted);
        known
            .filter(|pair| pair.is_current())
            .map(|pair| pair.clone())
    }

    fn remember(&self, content: [u8; 32], pair: &Pair<T>) {
        lock(&self.recent).insert(content, pair.clone(), MAX_RECENT_PAIRS);
    }

    fn no_key(&self, names: &Names, why: &str) -> String {
        let path = self.path(&names.key);
        format!("cannot load certificate key \"{}\": {why}", path.display())
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.directory.join(Path::new(OsStr::from_bytes(name)))
    }

    fn stamp(&self, name: &[u8]) -> Stamp {
        if is_data(name) {
            return None;
        }
        let facts = std::fs::metadata(self.path(name)).ok()?;
        Some((facts.ino(), facts.modified().ok()?))
    }

    fn read(&self, name: &[u8], what: &str) -> Result<Vec<u8>, String> {
        if let Some(pem) = name.strip_prefix(b"data:") {
            return Ok(pem.to_vec());
        }
        let path = self.path(name);
        read_file(&path).map_err(|why| {
            let path = path.display();
            format!("cannot load {what} \"{path}\": {why}")
        })
    }
}

/// What is used least recently leaves first.
struct Lru<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// By the number of the last use.
    order: BTreeMap<u64, K>,
    uses: u64,
}

impl<K, V> Default for Lru<K, V> {
    fn default() -> Lru<K, V> {
        Lru {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    fn get(&mut self, key: &K) -> Option<&mut V> {
        let (number, value) = self.entries.get_mut(key)?;
        self.order.remove(number);
        self.uses += 1;
        *number = self.uses;
        self.order.insert(self.uses, key.clone());
        Some(value)
    }

    fn insert(&mut self, key: K, value: V, max: usize) {
        self.remove(&key);
        while self.entries.len() >= max {
            self.remove_oldest();
        }
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        self.entries.insert(key, (self.uses, value));
    }

    fn remove(&mut self, key: &K) {
        if let Some((number, _)) = self.entries.remove(key) {
            self.order.remove(&number);
        }
    }

    fn oldest(&self) -> Option<&V> {
        let (_, key) = self.order.first_key_value()?;
        self.entries.get(key).map(|(_, value)| value)
    }

    fn remove_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.entries.remove(&key);
        }
    }
}

/// A panic within leaves every entry whole.
fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells pairs apart by what their files contain.
fn content_hash(chain: &[u8], key: &[u8]) -> [u8; 32] {
    let mut text = Zeroizing::new(Vec::with_capacity(8 + chain.len() + key.len()));
    text.extend_from_slice(&(chain.len() as u64).to_be_bytes());
    text.extend_from_slice(chain);
    text.extend_from_slice(key);
    sealane_tls::sha256(&text)
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let (file, bytes) = open_file(path)?;
    // Room for all of it, so that no copy of a key stays behind.
    let mut content = Vec::with_capacity(bytes + 1);
    let read = file.take(bytes as u64).read_to_end(&mut content);
    read.map_err(|error| failed("read", &error))?;
    Ok(content)
}

/// A file, with its size in bytes.
fn open_file(path: &Path) -> Result<(File, usize), String> {
    // Checked first: opening a pipe would wait for a writer.
    let facts = std::fs::metadata(path).map_err(|error| failed("open", &error))?;
    if !facts.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let bytes = facts.len();
    if bytes > MAX_FILE_BYTES {
        return Err(format!("it is larger than {MAX_FILE_BYTES} bytes"));
    }
    let file = File::open(path).map_err(|error| failed("open", &error))?;
    Ok((file, bytes as usize))
}

fn failed(call: &str, error: &io::Error) -> String {
    let reason = confinement::read_reason(error.raw_os_error());
    format!("{call}() failed ({}){reason}", OsError(error))
}

/// Whether a name is PEM text.
fn is_data(name: &[u8]) -> bool {
    name.starts_with(b"data:")
}

fn label(name: &[u8]) -> String {
    match is_data(name) {
        true => "data:...".to_owned(),
        false => String::from_utf8_lossy(name).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_and_pipes_are_refused() {
        let directory = std::env::temp_dir().join(format!("sealane-names-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("writable");
        let large = directory.join("large");
        let file = File::create(&large).expect("writable");
        file.set_len(MAX_FILE_BYTES + 1).expect("a sparse file");
        let pipe = directory.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|status| status.success()));
        for (path, expected) in [
            (&large, "it is larger than 1048576 bytes"),
            (&pipe, "it is not a regular file"),
            (&directory, "it is not a regular file"),
            (
                &directory.join("none"),
                "open() failed (2: No such file or directory)",
            ),
        ] {
            assert_eq!(read_file(path), Err(expected.to_owned()));
        }
        std::fs::remove_dir_all(directory).expect("there");
    }

    #[test]
    fn what_is_used_least_leaves_first() {
        let mut lru = Lru::default();
        for key in 0..3 {
            lru.insert(key, key, 3);
        }
        assert_eq!(lru.get(&0), Some(&mut 0));
        assert_eq!(lru.oldest(), Some(&1));
        lru.insert(3, 3, 3);
        assert_eq!(lru.get(&1), None);
        lru.insert(0, 7, 3);
        assert_eq!(lru.get(&0), Some(&mut 7));
        assert_eq!((lru.entries.len(), lru.order.len()), (3, 3));
        lru.remove_oldest();
        assert_eq!(lru.get(&2), None);
        lru.remove(&3);
        assert_eq!((lru.entries.len(), lru.order.len()), (1, 1));
    }
}
