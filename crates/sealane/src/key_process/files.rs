//! Which files of a configuration have keys of servers, and handles in their place.

use super::{KeyProcess, Refusal};
use crate::journal::Journal;
use sealane_conf::model::{
    Accelerator, CertificateSource, Http, Tls, UpstreamCertificate, UpstreamTls,
};
use sealane_keys::deposit::Deposit;
use sealane_log::OsError;
use sealane_server::{KeyFile, Materials, secrets};
use sealane_tls::AcceleratorChoice;
use sealane_tls::ciphers::offer_rsa_key_exchange;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is to be known about a key.
#[derive(Default)]
struct Use {
    /// A server may offer the RSA key exchange.
    may_decrypt: bool,
    accelerator: AcceleratorChoice,
}

/// Deposits the keys of all servers that were read from files, and puts handles in their place. A
/// key that cannot be loaded stays where it is: whoever builds the configuration says why.
///
/// # Errors
/// When the key process cannot be reached.
pub(crate) fn deposit_all(
    http: &Http,
    materials: &mut Materials,
    process: &mut KeyProcess,
    journal: &Journal,
) -> Result<(), String> {
    let mut deposited = BTreeSet::new();
    for (file, wanted) in keys_of_servers(http) {
        let Some(pem) = materials.get(&file.path) else {
            continue; // its handle is there from before
        };
        if !has_private_key(pem) {
            continue;
        }
        let passwords = file.passwords.as_ref();
        let passwords = passwords.and_then(|path| materials.get(path));
        let deposit = Deposit {
            may_decrypt: wanted.may_decrypt,
            accelerator: wanted.accelerator,
            passwords: &secrets(passwords.unwrap_or_default()),
            pem,
        };
        match process.deposit(&file, &deposit, journal) {
            Ok(handle) => {
                deposited.insert(file.path.clone());
                materials.insert_key(file, handle);
            }
            Err(Refusal::Key) => {}
            Err(Refusal::Process(error)) => {
                return Err(format!(
                    "the key \"{}\" cannot be given to the key process ({}); \"ssl_key_process \
                     off\" keeps keys in worker processes",
                    file.path.display(),
                    OsError(&error)
                ));
            }
        }
    }
    let certificates: BTreeSet<&Path> = certificates(http).collect();
    let of_passes: BTreeSet<&Path> = keys_of_passes(http).collect();
    for path in deposited {
        let path = path.as_path();
        if !of_passes.contains(path) {
            materials.remove_keys(path, certificates.contains(path));
        }
    }
    Ok(())
}

fn has_private_key(pem: &[u8]) -> bool {
    let label = b"PRIVATE KEY-----";
    pem.windows(label.len()).any(|text| text == label)
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

/// Each file with a key once, with what all of its servers need.
fn keys_of_servers(http: &Http) -> BTreeMap<KeyFile, Use> {
    let mut all: BTreeMap<KeyFile, Use> = BTreeMap::new();
    for tls in servers(http) {
        for files in tls.certificates.files().unwrap_or_default() {
            let CertificateSource::File(path) = &files.key else {
                continue;
            };
            let file = KeyFile {
                path: path.clone(),
                passwords: tls.password_file.clone(),
            };
            let wanted = all.entry(file).or_default();
            // What `ssl_conf_command` makes of it is not looked into.
            wanted.may_decrypt |=
                !tls.conf_commands.is_empty() || offer_rsa_key_exchange(&tls.ciphers);
            wanted.accelerator = match tls.accelerator {
                Accelerator::Auto => wanted.accelerator,
                Accelerator::Cpu => AcceleratorChoice::Cpu,
                Accelerator::Batch => AcceleratorChoice::Batch,
            };
        }
    }
    all
}

fn file(source: &CertificateSource) -> Option<&Path> {
    match source {
        CertificateSource::File(path) => Some(path),
        CertificateSource::Inline(_) => None,
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

/// Files with keys for other servers, which worker processes need.
fn keys_of_passes(http: &Http) -> impl Iterator<Item = &Path> {
    upstreams(http).filter_map(|tls| match &tls.certificate {
        Some(UpstreamCertificate::Files(files)) => file(&files.key),
        _ => None,
    })
}
