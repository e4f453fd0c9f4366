//! Certificates whose names contain variables, and the caches for them: `ssl_certificate` and
//! `proxy_ssl_certificate` with a `$`, `ssl_certificate_cache` and `proxy_ssl_certificate_cache`.
//!
//! As in nginx, the worker reads them with its own rights when they are needed. A disk thread does
//! that.

use sealane_conf::model::CertificateCache;
use sealane_io::disk;
use sealane_log::{OsError, confinement};
use sealane_tls::client::ClientIdentity;
use sealane_tls::{CertificatePair, Identity, Secret, SettingsError};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::hash::Hash;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};
use zeroize::Zeroizing;

/// Largest file that is read. No certificate is that large; the client can influence the name.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Pairs that are kept as they were read last, so that the same bytes need not be parsed again.
const MAX_RECENT_PAIRS: usize = 64;

/// Unused entries that leave a cache whenever one is added, so that adding takes the same time
/// whatever the size.
const MAX_REMOVED_AT_ONCE: usize = 2;

/// What is made of a certificate and its key.
pub(crate) trait Parsed: Clone + Send + 'static {
    /// Parses and checks them.
    ///
    /// # Errors
    /// In nginx's words.
    fn parse(identity: &Identity) -> Result<Self, SettingsError>;
}

impl Parsed for ClientIdentity {
    fn parse(identity: &Identity) -> Result<Self, SettingsError> {
        ClientIdentity::load(identity, None) // the worker reads the key
    }
}

impl Parsed for Arc<CertificatePair> {
    fn parse(identity: &Identity) -> Result<Self, SettingsError> {
        CertificatePair::load(identity).map(Arc::new)
    }
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
    /// By what was read.
    recent: Mutex<Lru<[u8; 32], T>>,
}

/// `ssl_certificate_cache` and its relatives; several readers may share one.
pub(crate) struct KeptCertificates<T> {
    settings: CertificateCache,
    entries: Mutex<Lru<Names, Kept<T>>>,
}

/// A cached certificate.
#[derive(Clone)]
pub(crate) struct Kept<T> {
    parsed: T,
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

impl<T: Parsed> CertificateReader<T> {
    pub(crate) fn new(
        directory: PathBuf,
        passwords: Vec<Secret>,
        cache: Option<Arc<KeptCertificates<T>>>,
    ) -> CertificateReader<T> {
        let loader = Loader {
            directory,
            passwords,
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

    /// Reads what is not [`known`](Self::known), unless the files are still the same. May block.
    ///
    /// # Errors
    /// In nginx's words, what cannot be loaded.
    pub(crate) fn read(&self, names: &Names, kept: Option<Kept<T>>) -> Result<T, String> {
        let Some(cache) = &self.cache else {
            return self.loader.load(names).map(|(parsed, _)| parsed);
        };
        let now = Instant::now();
        let stamps = [
            self.loader.stamp(&names.certificate),
            self.loader.stamp(&names.key),
        ];
        let is_cached = kept.is_some();
        if let Some(kept) = kept.filter(|kept| kept.stamps == stamps) {
            let parsed = kept.parsed.clone();
            cache.put(
                names,
                Kept {
                    checked: now,
                    used: now,
                    ..kept
                },
            );
            return Ok(parsed);
        }
        match self.loader.load(names) {
            Ok((parsed, is_encrypted)) => {
                // As in nginx, a key that is encrypted is not kept decrypted.
                if !is_encrypted {
                    cache.put(
                        names,
                        Kept {
                            parsed: parsed.clone(),
                            stamps,
                            checked: now,
                            used: now,
                        },
                    );
                }
                Ok(parsed)
            }
            Err(error) => {
                if is_cached {
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
    pub(crate) async fn load(&self, names: Names) -> Result<T, String> {
        match self.known(&names) {
            Cached::Fresh(parsed) => Ok(parsed),
            Cached::Unsure(kept) => {
                let reader = self.clone();
                disk::run(move || reader.read(&names, kept)).await
            }
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
        let is_data = kept.stamps == [None, None];
        let since = now.saturating_duration_since(kept.checked);
        match is_data || since <= self.settings.valid {
            true => Cached::Fresh(kept.parsed.clone()),
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
    fn load(&self, names: &Names) -> Result<(T, bool), String> {
        let chain_pem = self.read(&names.certificate, "certificate")?;
        let key_pem = Secret::new(self.read(&names.key, "certificate key")?);
        let is_encrypted = memchr::memmem::find(key_pem.expose(), b"ENCRYPTED").is_some();
        let content = content_hash(&chain_pem, key_pem.expose());
        if !is_encrypted && let Some(parsed) = lock(&self.recent).get(&content) {
            return Ok((parsed.clone(), false));
        }
        let identity = Identity {
            chain_pem,
            key_pem,
            passwords: self.passwords.clone(),
            chain_label: label(&names.certificate),
            key_label: label(&names.key),
        };
        let parsed = T::parse(&identity).map_err(|error| error.to_string())?;
        if !is_encrypted {
            lock(&self.recent).insert(content, parsed.clone(), MAX_RECENT_PAIRS);
        }
        Ok((parsed, is_encrypted))
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.directory.join(Path::new(OsStr::from_bytes(name)))
    }

    fn stamp(&self, name: &[u8]) -> Stamp {
        if name.starts_with(b"data:") {
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
    let failed = |call: &'static str| {
        move |error: io::Error| {
            let reason = confinement::read_reason(error.raw_os_error());
            format!("{call}() failed ({}){reason}", OsError(&error))
        }
    };
    // Checked first: opening a pipe would wait for a writer.
    let facts = std::fs::metadata(path).map_err(failed("open"))?;
    if !facts.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let size = facts.len();
    if size > MAX_FILE_BYTES {
        return Err(format!("it is larger than {MAX_FILE_BYTES} bytes"));
    }
    let file = File::open(path).map_err(failed("open"))?;
    // Room for all of it, so that no copy of a key stays behind.
    let mut bytes = Vec::with_capacity(size as usize + 1);
    let mut file = file.take(size);
    file.read_to_end(&mut bytes).map_err(failed("read"))?;
    Ok(bytes)
}

fn label(name: &[u8]) -> String {
    match name.starts_with(b"data:") {
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
