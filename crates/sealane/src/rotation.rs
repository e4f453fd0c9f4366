//! Certificates and keys that change while the server runs (`ssl_certificate_reload`), and
//! databases of addresses (`auto_reload` in `geoip2`).
//!
//! ```text
//! every interval: look at all files
//!    a file looks different            -> look again soon: somebody may be writing it
//!    it looks the same as last time    -> judge the pairs that it belongs to
//!    pairs that parse and fit together -> new contents, for the same configuration
//!    others                            -> one line in the log; again when a file changes
//! ```
//!
//! Only the master may read keys. What it finds goes to the worker like a reload, but everything
//! else of the configuration is as it was read last: see `master/reconfigure.rs`.

use crate::materials;
use sealane_conf::Config;
use sealane_conf::model::{
    CertificateFiles, CertificateSource, GeoDatabase, Http, Pass, UpstreamCertificate,
};
use sealane_server::{KeyFile, Materials, check_database};
use sealane_sys::guard::Guard;
use sealane_tls::{CertificatePair, Identity, Secret};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The longest time for which a file must stay the same before it is read.
const SETTLING: Duration = Duration::from_secs(1);

/// The certificates and keys of a configuration, and its databases.
pub(crate) struct Rotation {
    interval: Duration,
    due: Instant,
    files: BTreeMap<PathBuf, WatchedFile>,
    pairs: Vec<WatchedPair>,
    databases: Vec<PathBuf>,
}

/// A certificate with its key, at least one of which is a file.
#[derive(PartialEq, Eq)]
struct WatchedPair {
    files: CertificateFiles,
    password_file: Option<PathBuf>,
    /// `None`: it is still in the text of the configuration.
    key: Option<KeyFile>,
}

/// What is known about a file.
#[derive(Default)]
struct WatchedFile {
    /// How it looked when what is in use was read.
    used: Option<Stamp>,
    /// How it looked last.
    seen: Option<Stamp>,
    /// How it looked when its pairs were last judged.
    judged: Option<Stamp>,
}

/// How a file looks without being read; it changes with every change of the contents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamp {
    Missing,
    /// A FIFO, which can be read at the start only.
    NotAFile,
    There {
        device: u64,
        inode: u64,
        size: u64,
        modified: (i64, i64),
        changed: (i64, i64),
    },
}

/// What has become of the files.
#[derive(Default)]
pub(crate) struct Changes {
    /// New contents, fit for use.
    pub(crate) contents: Vec<(PathBuf, Zeroizing<Vec<u8>>)>,
    /// What is wrong with others, for the log.
    pub(crate) complaints: Vec<String>,
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        match std::fs::metadata(path) {
            Err(_) => Stamp::Missing,
            Ok(facts) if !facts.is_file() => Stamp::NotAFile,
            Ok(facts) => Stamp::There {
                device: facts.dev(),
                inode: facts.ino(),
                size: facts.size(),
                modified: (facts.mtime(), facts.mtime_nsec()),
                changed: (facts.ctime(), facts.ctime_nsec()),
            },
        }
    }
}

impl Rotation {
    /// Of a configuration whose files have just been read; `None` if nothing is to be watched.
    pub(crate) fn of(config: &Config, now: Instant) -> Option<Rotation> {
        let http = config.http.as_ref()?;
        let watched = |it: &GeoDatabase| Some((it.path.clone(), it.auto_reload?));
        let databases: Vec<_> = http.geoip2.databases.iter().filter_map(watched).collect();
        let pairs = match http.certificate_reload {
            Some(_) => pairs(http),
            None => Vec::new(),
        };
        // What is asked for less often than this is looked at just as often.
        let of_pairs = http.certificate_reload.filter(|_| !pairs.is_empty());
        let of_databases = databases.iter().map(|(_, interval)| *interval);
        let interval = of_databases.chain(of_pairs).min()?;
        let databases: Vec<PathBuf> = databases.into_iter().map(|(path, _)| path).collect();
        let paths = pairs.iter().flat_map(WatchedPair::paths);
        let files: BTreeMap<_, _> = paths
            .map(Path::to_owned)
            .chain(databases.iter().cloned())
            .map(|path| (path, WatchedFile::default()))
            .collect();
        (!files.is_empty()).then(|| Rotation {
            interval,
            due: now + interval,
            files,
            pairs,
            databases,
        })
    }

    /// When the files are looked at next.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Looks at the files. `materials` is what is in use.
    pub(crate) fn look(&mut self, materials: &Materials, guard: &Guard, now: Instant) -> Changes {
        let mut is_settled = true;
        let mut unsettled = BTreeSet::new();
        let mut new = BTreeSet::new();
        for (path, file) in &mut self.files {
            let stamp = Some(Stamp::of(path));
            if stamp == Some(Stamp::NotAFile) {
                *file = WatchedFile {
                    used: stamp,
                    seen: stamp,
                    judged: stamp,
                };
                continue;
            }
            if file.seen != stamp {
                file.seen = stamp;
                is_settled = false;
                unsettled.insert(path.clone());
            } else if file.judged != stamp {
                new.insert(path.clone());
            }
        }
        self.due = now
            + if is_settled {
                self.interval
            } else {
                self.interval.min(SETTLING)
            };
        // The other file of a pair is about to follow.
        let is_waiting = |pair: &&WatchedPair| pair.paths().any(|path| unsettled.contains(path));
        for pair in self.pairs.iter().filter(is_waiting) {
            pair.paths().for_each(|path| {
                new.remove(path);
            });
        }
        match new.is_empty() {
            true => Changes::default(),
            false => self.judge(&new, &unsettled, materials, guard),
        }
    }

    /// What was last found is in use now.
    pub(crate) fn taken(&mut self, contents: &[(PathBuf, Zeroizing<Vec<u8>>)]) {
        for (path, _) in contents {
            if let Some(file) = self.files.get_mut(path) {
                file.used = file.judged;
            }
        }
    }

    /// Judges the pairs of files that look `new`.
    fn judge(
        &mut self,
        new: &BTreeSet<PathBuf>,
        unsettled: &BTreeSet<PathBuf>,
        materials: &Materials,
        guard: &Guard,
    ) -> Changes {
        let mut read = BTreeMap::new();
        for (path, file) in &mut self.files {
            if file.used == file.seen || unsettled.contains(path) {
                continue;
            }
            let is_database = self.databases.contains(path);
            let content = match is_database {
                true => materials::read_database(path, guard),
                false => materials::read_again(path, guard),
            };
            let content = content.map(Zeroizing::new);
            if file.seen != Some(Stamp::of(path)) {
                // It changes while it is read: at the next look it will look different.
                continue;
            }
            file.judged = file.seen;
            match content {
                Ok(content) if materials.has_same(path, &content) => file.used = file.seen,
                content => {
                    read.insert(path.clone(), content);
                }
            }
        }
        let mut complaints = Vec::new();
        for path in &self.databases {
            let Some(content) = read.get(path) else {
                continue;
            };
            let checked = content.as_ref().map_err(String::clone);
            let checked = checked.and_then(|content| check_database(path, content.to_vec()));
            if let Err(why) = checked {
                read.remove(path);
                complaints.push(format!(
                    "{why}; the file has changed, but the contents before stay in use"
                ));
            }
        }
        // A file that one pair cannot use stays as it is for all: others that needed it fail, too.
        let mut pairs: Vec<&WatchedPair> = self.pairs.iter().collect();
        loop {
            let touched = |pair: &&&WatchedPair| pair.paths().any(|path| read.contains_key(path));
            let failed: Vec<_> = pairs
                .iter()
                .filter(touched)
                .filter_map(|pair| Some((*pair, pair.check(&read, materials).err()?)))
                .collect();
            if failed.is_empty() {
                break;
            }
            for (pair, why) in &failed {
                if pair.paths().any(|path| new.contains(path)) {
                    complaints.push(pair.complaint(why));
                }
                pair.paths().for_each(|path| {
                    read.remove(path);
                });
            }
            let failed: Vec<_> = failed.into_iter().map(|(pair, _)| pair).collect();
            pairs.retain(|pair| !failed.iter().any(|failed| std::ptr::eq(*failed, *pair)));
        }
        let contents = read.into_iter();
        Changes {
            contents: contents
                .filter_map(|(path, content)| Some((path, content.ok()?)))
                .collect(),
            complaints,
        }
    }
}

/// The pairs of certificates and keys that are files, each once.
fn pairs(http: &Http) -> Vec<WatchedPair> {
    let mut pairs: Vec<WatchedPair> = Vec::new();
    let servers = http.servers.iter().filter_map(|it| it.tls.as_deref());
    let of_servers = servers.flat_map(|tls| {
        let files = tls.certificates.files().unwrap_or_default();
        files
            .iter()
            .map(|files| (files, &tls.password_file, KeyFile::of_server(tls, files)))
    });
    let passes = http.passes().filter_map(Pass::tls);
    let of_passes = passes.filter_map(|tls| match &tls.certificate {
        Some(UpstreamCertificate::Files(files)) => {
            let key = KeyFile::of_upstream(tls, files);
            Some((files, &tls.password_file, key))
        }
        _ => None,
    });
    let mut known = BTreeSet::new();
    for (files, password_file, key) in of_servers.chain(of_passes) {
        let names = [file(&files.certificate), file(&files.key)];
        if names == [None, None] || !known.insert((names, password_file, key.clone())) {
            continue;
        }
        pairs.push(WatchedPair {
            files: files.clone(),
            password_file: password_file.clone(),
            key,
        });
    }
    pairs
}

impl WatchedPair {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.files.certificate, &self.files.key]
            .into_iter()
            .filter_map(file)
    }

    /// Whether the pair can be used with what was read, and what is in use otherwise.
    fn check(
        &self,
        read: &BTreeMap<PathBuf, Result<Zeroizing<Vec<u8>>, String>>,
        materials: &Materials,
    ) -> Result<(), String> {
        let has_new_key = file(&self.files.key).is_some_and(|path| read.contains_key(path));
        if self.key.as_ref().is_some_and(|key| key.device.is_some()) && has_new_key {
            return Ok(()); // the device says what it makes of it
        }
        let pem = |source: &CertificateSource, what: &str, held: Option<&KeyFile>| {
            let path = match source {
                CertificateSource::Inline(pem) => {
                    return Ok(Zeroizing::new(pem.as_bytes().to_vec()));
                }
                CertificateSource::File(path) | CertificateSource::Taken(path) => path,
                CertificateSource::Uri(uri) => Path::new(uri),
            };
            match (read.get(path), held) {
                (Some(Ok(content)), _) => Ok(content.clone()),
                (Some(Err(why)), _) => {
                    Err(format!("cannot load {what} \"{}\": {why}", path.display()))
                }
                // Perhaps the handle of one that is held.
                (None, Some(key)) => Ok(materials.key(key).unwrap_or_default()),
                (None, None) => Ok(Zeroizing::new(
                    materials.get(path).unwrap_or_default().to_vec(),
                )),
            }
        };
        let certificate = pem(&self.files.certificate, "certificate", None)?;
        let key = pem(&self.files.key, "certificate key", self.key.as_ref())?;
        let passwords = self.password_file.as_ref();
        let passwords = passwords.and_then(|path| materials.get(path));
        let identity = Identity {
            chain_pem: certificate.to_vec(),
            key_pem: Secret::new(key.to_vec()),
            passwords: sealane_server::secrets(passwords.unwrap_or_default()),
            chain_label: self.files.certificate.label(),
            key_label: self.files.key.label(),
        };
        match CertificatePair::load(&identity) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What, where, why, and what happens next.
    fn complaint(&self, why: &str) -> String {
        format!(
            "{why}; certificate \"{}\" and its key \"{}\" have changed, but the ones before stay in \
             use until both files can be used",
            self.files.certificate.label(),
            self.files.key.label()
        )
    }
}

fn file(source: &CertificateSource) -> Option<&Path> {
    match source {
        CertificateSource::File(path) => Some(path),
        CertificateSource::Inline(_) | CertificateSource::Taken(_) | CertificateSource::Uri(_) => {
            None
        }
    }
}
