//! Which files of a configuration have keys, of servers and for other servers, and handles in their
//! place. A text with a key that was taken out of the configuration is such a file, too.

use super::KeyProcesses;
use super::computer::{Computer, token_uri};
use super::process::Refusal;
use crate::journal::Journal;
use sealane_conf::inline_keys::{self, has_private_key};
use sealane_conf::model::{
    CertificateSource, EvaluatedPair, Http, KeyDevice, KeyFallback, ServerCertificates, Tls,
    UpstreamCertificate, UpstreamTls, without_query,
};
use sealane_keys::deposit::{Deposit, KeySource};
use sealane_keys::rules::Roles;
use sealane_log::OsError;
use sealane_server::{
    KeyFile, MAX_RECENT_PAIRS, Materials, accelerator_choice, may_decrypt, secrets,
};
use sealane_tls::{AcceleratorChoice, KeyHandle, KeyId, Secret};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Keys that a worker process may have loaded beyond those that its caches hold: of handshakes that
/// are under way.
const MIN_LOADED_KEYS: u32 = 10_000;

/// What is to be known about a key.
#[derive(Default)]
struct Use {
    /// Who signs with it: a server, or we towards another server.
    roles: Roles,
    /// A server may offer the RSA key exchange.
    may_decrypt: bool,
    accelerator: AcceleratorChoice,
    /// What computes with it, if not the processor.
    device: Option<Arc<KeyDevice>>,
    /// Its file's name is a URI.
    is_uri: bool,
}

impl Use {
    fn add_server(&mut self, tls: &Tls) {
        self.roles.server = true;
        self.may_decrypt |= may_decrypt(tls);
        // Of several servers, the last that says something.
        match accelerator_choice(&tls.accelerator) {
            AcceleratorChoice::Auto => {}
            choice => self.accelerator = choice,
        }
    }
}

/// Whether a configuration has keys that devices compute with.
pub(crate) fn has_devices(http: &Http) -> bool {
    keys(http).values().any(|wanted| wanted.device.is_some())
}

/// Deposits all keys, and puts handles in their place. A key in a file that cannot be loaded stays
/// where it is: whoever builds the configuration says why.
///
/// # Errors
/// When a key process cannot be reached, or a device does not have the key.
pub(crate) fn deposit_all(
    http: &Http,
    materials: &mut Materials,
    processes: &mut KeyProcesses,
    journal: &Journal,
) -> Result<(), String> {
    processes.renew();
    let mut depositing = Depositing {
        materials,
        processes,
        journal,
        deposited: BTreeSet::new(),
        needed: BTreeSet::new(),
        pins: BTreeSet::new(),
    };
    let evaluated = servers(http).flat_map(inline_keys::of_server);
    let evaluated = evaluated.chain(upstreams(http).flat_map(inline_keys::of_upstream));
    let certificates = certificates(http).map(Path::to_owned);
    let certificates: BTreeSet<PathBuf> = certificates.chain(evaluated).collect();
    let (of_devices, others): (Vec<_>, Vec<_>) = keys(http)
        .into_iter()
        .partition(|(_, wanted)| wanted.device.is_some());
    for (file, wanted) in &others {
        depositing.add_file(file, wanted)?;
    }
    // The process of a device is forked from this one, and is not to have the keys of others.
    let for_devices = of_devices.iter().flat_map(|(file, wanted)| {
        let fallbacks = wanted.device.iter().flat_map(|device| &device.fallbacks);
        let fallbacks = fallbacks.filter_map(|fallback| match fallback {
            KeyFallback::File(path) => Some(path),
            KeyFallback::OwnFile => None,
        });
        fallbacks.chain([&file.path])
    });
    let for_devices: BTreeSet<&PathBuf> = for_devices.collect();
    depositing.remove_deposited(&certificates, |path| !for_devices.contains(path));
    for (file, wanted) in &of_devices {
        if let Some(device) = &wanted.device {
            depositing.add_to_device(file, wanted, device)?;
        }
    }
    depositing.remove_deposited(&certificates, |_| true);
    for path in depositing.pins {
        materials.remove(&path);
    }
    Ok(())
}

struct Depositing<'a> {
    materials: &'a mut Materials,
    processes: &'a mut KeyProcesses,
    journal: &'a Journal,
    /// Files that are not needed any more for a key that is deposited.
    deposited: BTreeSet<PathBuf>,
    /// Files that are needed for one that is not: it may be the same with other passwords.
    needed: BTreeSet<PathBuf>,
    /// Files with PINs.
    pins: BTreeSet<PathBuf>,
}

impl Depositing<'_> {
    /// Keys that are deposited are not needed here, but for what else is in their files.
    fn remove_deposited(
        &mut self,
        certificates: &BTreeSet<PathBuf>,
        is_over: impl Fn(&PathBuf) -> bool,
    ) {
        let deposited = self.deposited.difference(&self.needed);
        let over: Vec<PathBuf> = deposited.filter(|path| is_over(path)).cloned().collect();
        for path in over {
            let has_more = certificates.contains(&path);
            self.materials.remove_keys(&path, has_more);
            self.deposited.remove(&path);
        }
    }

    /// Has the processor's process hold the key in a file. `None`: there is no such process, or
    /// the key cannot be loaded, or its handle is there from before.
    fn add_file(&mut self, file: &KeyFile, wanted: &Use) -> Result<Option<KeyHandle>, String> {
        let Some(pem) = self.materials.get(&file.path) else {
            return Ok(None);
        };
        if !has_private_key(pem) || !self.processes.has_processor() {
            self.needed.insert(file.path.clone());
            return Ok(None);
        }
        let deposit = Deposit {
            roles: wanted.roles,
            may_decrypt: wanted.may_decrypt,
            accelerator: wanted.accelerator,
            passwords: &self.passwords(file),
            key: KeySource::Pem(pem),
        };
        let process = self
            .processes
            .process_of(&Computer::Processor, self.journal);
        let handle = process
            .map_err(Refusal::Process)
            .and_then(|process| process.deposit(file, &deposit, self.journal));
        match handle {
            Ok(handle) => {
                self.deposited.insert(file.path.clone());
                self.materials.insert_key(file.clone(), handle.clone());
                Ok(Some(handle))
            }
            Err(Refusal::Key(_)) => {
                self.needed.insert(file.path.clone());
                Ok(None)
            }
            Err(Refusal::Process(error)) => Err(format!(
                "the key \"{}\" cannot be given to the key process ({}); \"ssl_key_process off\" \
                 keeps keys in worker processes",
                shown(&file.path),
                OsError(&error)
            )),
        }
    }

    /// Has a device's process open a key.
    fn add_to_device(
        &mut self,
        file: &KeyFile,
        wanted: &Use,
        device: &KeyDevice,
    ) -> Result<(), String> {
        let is_known = self.materials.keys().any(|(known, _)| known == file);
        let is_new_file = !wanted.is_uri && self.materials.get(&file.path).is_some();
        if is_known && !is_new_file {
            return Ok(()); // from before
        }
        let name = shown(&file.path);
        let failed = |why: &str| format!("cannot load certificate key \"{name}\": {why}");
        let computer = Computer::of(device, &file.path).map_err(|why| failed(&why))?;
        let (uri, passwords) = (
            file.path.to_string_lossy(),
            self.secrets_of(file, &computer)?,
        );
        let deposit = Deposit {
            roles: wanted.roles,
            may_decrypt: wanted.may_decrypt,
            accelerator: AcceleratorChoice::Auto,
            passwords: &passwords,
            key: match wanted.is_uri {
                true => KeySource::Uri(&uri),
                false => KeySource::Pem(self.materials.get(&file.path).unwrap_or_default()),
            },
        };
        let process = self.processes.process_of(&computer, self.journal);
        let handle = process
            .map_err(Refusal::Process)
            .and_then(|process| process.deposit(file, &deposit, self.journal));
        let mut handle = handle.map_err(|refusal| match refusal {
            Refusal::Key(why) => failed(&why),
            Refusal::Process(error) => failed(&format!(
                "the process of \"{computer}\" does not answer ({}): it has crashed or hangs; see \
                 whether another program can use the device",
                OsError(&error)
            )),
        })?;
        handle.route.max_wait = Some(device.max_wait);
        handle.route.has_fallback = self.add_fallback(file, wanted, device, handle.id)?;
        if !wanted.is_uri {
            self.deposited.insert(file.path.clone());
        }
        self.materials.insert_key(file.clone(), handle);
        Ok(())
    }

    /// Has the processor's process hold the same key, if it is to. Whether it does.
    fn add_fallback(
        &mut self,
        file: &KeyFile,
        wanted: &Use,
        device: &KeyDevice,
        id: KeyId,
    ) -> Result<bool, String> {
        if device.fallbacks.is_empty() {
            return Ok(false);
        }
        let paths = device
            .fallbacks
            .iter()
            .filter_map(|fallback| match fallback {
                KeyFallback::OwnFile => (!wanted.is_uri).then_some(&file.path),
                KeyFallback::File(path) => Some(path),
            });
        let paths: BTreeSet<&PathBuf> = paths.collect();
        let mut found = false;
        for path in paths {
            let fallback = KeyFile {
                path: path.clone(),
                passwords: file.passwords.clone(),
                device: None,
            };
            found |= self.id_of_file(&fallback, wanted)? == Some(id);
        }
        match found {
            true => Ok(true),
            false => Err(format!(
                "no \"fallback=\" of \"ssl_accelerator\" is the key \"{}\": each must be a file with \
                 the same private key",
                shown(&file.path)
            )),
        }
    }

    /// Which key is in a file. It is held, where there is a process for that.
    fn id_of_file(&mut self, file: &KeyFile, wanted: &Use) -> Result<Option<KeyId>, String> {
        let known = self.materials.keys().find(|(known, _)| *known == file);
        if let Some((_, handle)) = known {
            return Ok(Some(handle.id));
        }
        if self.processes.has_processor() {
            return Ok(self.add_file(file, wanted)?.map(|handle| handle.id));
        }
        if self.processes.is_for_tests() {
            let pem = self.materials.get(&file.path).unwrap_or_default();
            return Ok(KeyId::of_pem(pem, &self.passwords(file)));
        }
        Err(
            "\"fallback=\" of \"ssl_accelerator\" needs \"ssl_key_process on\", which holds the key"
                .to_owned(),
        )
    }

    fn passwords(&self, file: &KeyFile) -> Vec<Secret> {
        let passwords = file.passwords.as_ref();
        let passwords = passwords.and_then(|path| self.materials.get(path));
        secrets(passwords.unwrap_or_default())
    }

    /// The PIN of a token, or passwords for a provider.
    fn secrets_of(&mut self, file: &KeyFile, computer: &Computer) -> Result<Vec<Secret>, String> {
        let Computer::Module { .. } = computer else {
            return Ok(self.passwords(file));
        };
        let uri = token_uri(&file.path)?;
        let Some(pin_file) = uri.pin_source() else {
            return Ok(Vec::new());
        };
        let pin = self.materials.get(pin_file).unwrap_or_default();
        let pin = Secret::new(pin.to_vec());
        self.pins.insert(pin_file.to_owned());
        Ok(vec![pin])
    }
}

/// A key's name in messages: without the query of a URI, which is about where things are.
pub(crate) fn shown(key: &Path) -> String {
    if inline_keys::is_path(key) {
        return "data:...".to_owned();
    }
    without_query(&key.to_string_lossy()).to_owned()
}

/// Whether a key process is of use for such a configuration.
pub(crate) fn may_have_keys(http: &Http) -> bool {
    let has_certificate = |tls: &UpstreamTls| tls.certificate.is_some();
    servers(http).next().is_some() || upstreams(http).any(has_certificate)
}

/// How many keys a worker process may have loaded in handshakes. By default a power of two, so that
/// a reload that adds a server or a cache rarely needs another process.
pub(crate) fn max_loaded_keys(http: &Http) -> u32 {
    if let Some(keys) = http.key_process.keys {
        return keys;
    }
    let of_servers = servers(http).filter_map(|tls| match &tls.certificates {
        ServerCertificates::Evaluated(evaluated) => Some(evaluated.cache.as_deref()),
        ServerCertificates::Files(_) => None,
    });
    let of_upstreams = upstreams(http).filter_map(|tls| match &tls.certificate {
        Some(UpstreamCertificate::Evaluated { .. }) => Some(tls.certificate_cache.as_ref()),
        _ => None,
    });
    let kept = of_servers.chain(of_upstreams).map(|cache| {
        // As in nginx, a certificate and its key are two elements.
        let cached = cache.map_or(0, |cache| cache.max / 2);
        cached.saturating_add(MAX_RECENT_PAIRS as u32)
    });
    let kept = kept.fold(MIN_LOADED_KEYS, u32::saturating_add);
    kept.checked_next_power_of_two().unwrap_or(u32::MAX)
}

fn servers(http: &Http) -> impl Iterator<Item = &Tls> {
    http.servers
        .iter()
        .filter_map(|server| server.tls.as_deref())
}

fn upstreams(http: &Http) -> impl Iterator<Item = &UpstreamTls> {
    http.passes()
        .filter_map(|pass| pass.tls().map(|tls| &**tls))
}

/// Each file with a key once, with what all that use it need.
fn keys(http: &Http) -> BTreeMap<KeyFile, Use> {
    let mut all: BTreeMap<KeyFile, Use> = BTreeMap::new();
    for tls in upstreams(http) {
        if let Some(UpstreamCertificate::Files(files)) = &tls.certificate
            && let Some(file) = KeyFile::of_upstream(tls, files)
        {
            let wanted = all.entry(file).or_default();
            wanted.device = UpstreamTls::key_device(&files.key);
            wanted.is_uri = matches!(files.key, CertificateSource::Uri(_));
            wanted.roles.client = true;
        }
        if let Some(UpstreamCertificate::Evaluated { key, .. }) = &tls.certificate
            && let Some(file) = KeyFile::of_name(key, tls.password_file.clone())
        {
            all.entry(file).or_default().roles.client = true;
        }
    }
    for tls in servers(http) {
        for files in tls.certificates.files().unwrap_or_default() {
            let Some(file) = KeyFile::of_server(tls, files) else {
                continue;
            };
            let wanted = all.entry(file).or_default();
            wanted.device = tls.key_device(&files.key);
            wanted.is_uri = matches!(files.key, CertificateSource::Uri(_));
            wanted.add_server(tls);
        }
        if let ServerCertificates::Evaluated(evaluated) = &tls.certificates {
            let files = evaluated.pairs.iter().filter_map(|pair| match pair {
                EvaluatedPair::Named { key, .. } => {
                    KeyFile::of_name(key, tls.password_file.clone())
                }
                EvaluatedPair::Acme => None,
            });
            files.for_each(|file| all.entry(file).or_default().add_server(tls));
        }
    }
    all
}

fn file(source: &CertificateSource) -> Option<&Path> {
    match source {
        CertificateSource::File(path) | CertificateSource::Taken(path) => Some(path),
        CertificateSource::Inline(_) | CertificateSource::Uri(_) => None,
    }
}

/// Files with certificates, of servers and for other servers.
fn certificates(http: &Http) -> impl Iterator<Item = &Path> {
    let of_servers = servers(http).flat_map(|tls| {
        let files = tls.certificates.files().unwrap_or_default().iter();
        files.filter_map(|files| file(&files.certificate))
    });
    let named = servers(http).flat_map(|tls| {
        let clients = &tls.client_certificates;
        let named = clients.client_certificate.iter();
        named
            .chain(&clients.trusted_certificate)
            .map(|path| &**path)
    });
    let of_passes = upstreams(http).flat_map(|tls| {
        let own = match &tls.certificate {
            Some(UpstreamCertificate::Files(files)) => file(&files.certificate),
            _ => None,
        };
        own.into_iter().chain(tls.trusted_certificate.as_deref())
    });
    of_servers.chain(named).chain(of_passes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::{MemoryLoader, Options};

    fn http(text: &str) -> Http {
        let text = format!("events {{}} http {{ {text} }}");
        let mut loader = MemoryLoader::new().with("/nginx.conf", text);
        let config = sealane_conf::parse(&Options::new("/nginx.conf", "/"), &mut loader);
        config.expect("a good one").http.expect("it is there")
    }

    #[test]
    fn workers_may_have_as_many_keys_as_their_caches_hold() {
        let evaluated = "listen 1 ssl; ssl_certificate $ssl_server_name; \
                         ssl_certificate_key $ssl_server_name;";
        for (text, expected) in [
            (String::new(), 16_384),
            (format!("server {{ {evaluated} }}"), 16_384),
            (
                format!("ssl_certificate_cache max=60000; server {{ {evaluated} }}"),
                65_536,
            ),
            (
                format!("ssl_key_process on keys=7; server {{ {evaluated} }}"),
                7,
            ),
            (
                "server { proxy_ssl_certificate $arg_a; proxy_ssl_certificate_key $arg_a; \
                 proxy_ssl_certificate_cache max=20000; location / { proxy_pass https://127.0.0.1; } }"
                    .to_owned(),
                32_768,
            ),
        ] {
            assert_eq!(max_loaded_keys(&http(&text)), expected, "{text}");
        }
    }
}
