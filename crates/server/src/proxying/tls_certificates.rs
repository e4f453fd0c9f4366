//! Client certificates whose names contain variables: `proxy_ssl_certificate` with a `$`, and
//! `proxy_ssl_certificate_cache`.
//!
//! As in nginx, the worker reads them with its own rights when it opens a connection. A disk
//! thread does that.

use sealane_conf::model::CertificateCache;
use sealane_io::disk;
use sealane_log::OsError;
use sealane_tls::client::ClientIdentity;
use sealane_tls::{Identity, Secret};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

/// Largest file that is read. No certificate is that large; the client can influence the name.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The cache for certificates of a pass directive whose names have variables.
pub(crate) struct Certificates {
    loader: Arc<Loader>,
    cache: Option<Mutex<Cache>>,
}

struct Loader {
    /// Where relative names start from.
    directory: PathBuf,
    passwords: Vec<Secret>,
}

/// `proxy_ssl_certificate_cache`.
struct Cache {
    settings: CertificateCache,
    entries: HashMap<Pair, CachedIdentity>,
}

/// The names of a certificate and its key.
type Pair = (Vec<u8>, Vec<u8>);

#[derive(Clone)]
struct CachedIdentity {
    identity: ClientIdentity,
    /// The key needs a password.
    is_encrypted: bool,
    /// The state of the files.
    stamps: [Stamp; 2],
    checked: Instant,
    used: Instant,
}

/// Changes when a file does; `None` for text that is not a file, and for a missing file.
type Stamp = Option<(u64, SystemTime)>;

impl Certificates {
    pub(crate) fn new(
        directory: PathBuf,
        passwords: Vec<Secret>,
        cache: Option<CertificateCache>,
    ) -> Certificates {
        let cache = cache.map(|settings| {
            Mutex::new(Cache {
                settings,
                entries: HashMap::new(),
            })
        });
        let loader = Loader {
            directory,
            passwords,
        };
        Certificates {
            loader: Arc::new(loader),
            cache,
        }
    }

    /// The certificate with these names (paths, or `data:` and PEM text).
    ///
    /// # Errors
    /// In nginx's words, what cannot be loaded.
    pub(crate) async fn load(
        &self,
        certificate: &[u8],
        key: &[u8],
    ) -> Result<ClientIdentity, String> {
        let pair = (certificate.to_vec(), key.to_vec());
        let known = self.cache().and_then(|mut cache| cache.get(&pair));
        let stale = match known {
            Some((entry, true)) => return Ok(entry.identity),
            Some((entry, false)) => Some(entry),
            None => None,
        };
        let loader = self.loader.clone();
        let keeps = self.cache.is_some();
        let wanted = pair.clone();
        let entry = disk::run(move || loader.load(&wanted, stale, keeps)).await?;
        let identity = entry.identity.clone();
        // As in nginx, a key that is encrypted is not kept decrypted.
        if !entry.is_encrypted
            && let Some(mut cache) = self.cache()
        {
            cache.put(pair, entry);
        }
        Ok(identity)
    }

    fn cache(&self) -> Option<MutexGuard<'_, Cache>> {
        let cache = self.cache.as_ref()?;
        // A panic within leaves every entry whole.
        Some(cache.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Cache {
    /// The cached entry, and whether it was checked recently.
    fn get(&mut self, pair: &Pair) -> Option<(CachedIdentity, bool)> {
        let now = Instant::now();
        let entry = self.entries.get_mut(pair)?;
        entry.used = now;
        let is_data = entry.stamps == [None, None];
        let fresh = is_data || now.duration_since(entry.checked) <= self.settings.valid;
        Some((entry.clone(), fresh))
    }

    fn put(&mut self, pair: Pair, entry: CachedIdentity) {
        let now = entry.used;
        let inactive = self.settings.inactive;
        let unused = |entry: &CachedIdentity| now.saturating_duration_since(entry.used) > inactive;
        self.entries.retain(|_, entry| !unused(entry));
        // As in nginx, a certificate and its key are two elements.
        let max_pairs = (self.settings.max as usize / 2).max(1);
        if self.entries.len() >= max_pairs && !self.entries.contains_key(&pair) {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(pair) = oldest.map(|(pair, _)| pair.clone()) {
                self.entries.remove(&pair);
            }
        }
        self.entries.insert(pair, entry);
    }
}

impl Loader {
    /// Loads a pair, unless `stale` was made from the same files. May block.
    fn load(
        &self,
        pair: &Pair,
        stale: Option<CachedIdentity>,
        keeps: bool,
    ) -> Result<CachedIdentity, String> {
        let now = Instant::now();
        let stamps = match keeps {
            true => [self.stamp(&pair.0), self.stamp(&pair.1)],
            false => [None, None],
        };
        if let Some(stale) = stale
            && stale.stamps == stamps
        {
            return Ok(CachedIdentity {
                checked: now,
                used: now,
                ..stale
            });
        }
        let chain_pem = self.read(&pair.0, "certificate")?;
        let key_pem = Secret::new(self.read(&pair.1, "certificate key")?);
        let is_encrypted = memchr::memmem::find(key_pem.expose(), b"ENCRYPTED").is_some();
        let identity = Identity {
            chain_pem,
            key_pem,
            passwords: self.passwords.clone(),
            chain_label: label(&pair.0),
            key_label: label(&pair.1),
        };
        let identity = ClientIdentity::load(&identity).map_err(|error| error.to_string())?;
        Ok(CachedIdentity {
            identity,
            is_encrypted,
            stamps,
            checked: now,
            used: now,
        })
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

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |call: &'static str| {
        move |error: io::Error| format!("{call}() failed ({})", OsError(&error))
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
