//! From what is known to what handshakes and requests find.

use super::error::AcmeError;
use super::keys;
use super::record::{Answered, Issued};
use aws_lc_rs::digest;
use sealane_conf::model::AcmeIdentifier;
use sealane_keys::deposit::{Deposit, KeySource};
use sealane_keys::rules::Roles;
use sealane_keys::{KeyClient, Lease};
use sealane_server::{AcmeState, AcmeTask, DnsAnswer, HttpAnswer, TlsAnswer};
use sealane_tls::{
    ACME_TLS, AcceleratorChoice, CertificatePair, Identity, KeyHandle, KeyKind, KeyLease,
    PrivateKey, Secret, ServerSettings, ServerTls, key_error_text,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a certificate that has come waits for a key process that does not answer. Handshakes
/// wait from then on.
const PATIENCE: Duration = Duration::from_secs(5);

/// What certificates of ACME are called in messages.
const LABEL: &str = "$acme_certificate";
const KEY_LABEL: &str = "$acme_certificate_key";

/// Serves a certificate from now on.
///
/// # Errors
/// When certificate and key cannot be used; what was served before is served on.
pub(super) fn serve(state: &AcmeState, task: &AcmeTask, issued: &Issued) -> Result<(), String> {
    let (chain, key) = (issued.chain.as_bytes(), issued.key.expose());
    let pair = match state.key_loader() {
        Some(keys) => held(&keys, chain, &key)?,
        None => pair(chain, &key, None)?,
    };
    state.set_pair(task.id, Arc::new(pair));
    Ok(())
}

/// Has the key process hold the key for as long as the certificate is served. Each process that
/// follows it gets the key as well.
fn held(
    keys: &Arc<KeyClient>,
    chain_pem: &[u8],
    key_pem: &[u8],
) -> Result<CertificatePair, String> {
    let key = PrivateKey::from_pem(key_pem, &[]).map_err(|error| key_error_text(&error))?;
    let handle = KeyHandle::of(&key).map_err(|error| error.to_string())?;
    drop(key);
    let deposit = Deposit {
        roles: Roles::SERVER,
        // Which servers use it, and how, changes while it is held.
        may_decrypt: handle.kind == KeyKind::Rsa,
        accelerator: AcceleratorChoice::Auto,
        passwords: &[],
        key: KeySource::Pem(key_pem),
    };
    let memory = deposit.seal().map_err(|error| error.to_string())?;
    let lease = keys.keep(handle.id, memory, PATIENCE)?;
    pair(chain_pem, &handle.to_bytes(), Some(lease))
}

/// Serves a self-signed certificate.
///
/// # Errors
/// When it cannot be made.
pub(super) fn serve_self_signed(state: &AcmeState, task: &AcmeTask) -> Result<(), String> {
    let made = keys::self_signed(&task.conf.identifiers).map_err(|error| error.to_string())?;
    let pair = pair(made.chain_pem.as_bytes(), &made.key, None)?;
    state.set_pair(task.id, Arc::new(pair));
    Ok(())
}

fn pair(
    chain_pem: &[u8],
    key_pem: &[u8],
    lease: Option<Arc<Lease>>,
) -> Result<CertificatePair, String> {
    let lease = lease.map(|lease| lease as KeyLease);
    let loaded = CertificatePair::load_leased(&identity(chain_pem, key_pem), lease);
    loaded.map_err(|error| error.to_string())
}

fn identity(chain_pem: &[u8], key_pem: &[u8]) -> Identity {
    Identity {
        chain_pem: chain_pem.to_vec(),
        key_pem: Secret::new(key_pem.to_vec()),
        passwords: Vec::new(),
        chain_label: LABEL.to_owned(),
        key_label: KEY_LABEL.to_owned(),
    }
}

/// The answer to HTTP-01.
pub(super) fn http_answer(challenge: &Answered) -> HttpAnswer {
    HttpAnswer {
        token: challenge.token.clone(),
        authorization: challenge.authorization.clone(),
    }
}

/// The answer to DNS-01.
pub(super) fn dns_answer(challenge: &Answered) -> DnsAnswer {
    DnsAnswer {
        identifier: challenge.identifier.clone(),
        value: challenge.value(),
    }
}

/// The answer to TLS-ALPN-01.
///
/// # Errors
/// When its certificate cannot be made.
pub(super) fn tls_answer(challenge: &Answered) -> Result<TlsAnswer, AcmeError> {
    let identifier = match challenge.identifier.parse() {
        Ok(address) => AcmeIdentifier::Ip(address),
        Err(_) => AcmeIdentifier::Dns(challenge.identifier.clone()),
    };
    let made = keys::challenge(&identifier, &digest_of(&challenge.authorization))?;
    let settings = ServerSettings {
        identities: vec![identity(made.chain_pem.as_bytes(), &made.key)],
        alpn: vec![ACME_TLS.into()],
        tickets: false,
        ..ServerSettings::default()
    };
    let built = ServerTls::build(&settings);
    let (server, _) = built.map_err(|error| AcmeError::Certificate(error.to_string()))?;
    Ok(TlsAnswer {
        name: match identifier {
            AcmeIdentifier::Dns(name) => name,
            AcmeIdentifier::Ip(address) => reverse_name(address),
        },
        server: Arc::new(server),
    })
}

/// SHA-256 of a key authorization.
pub(super) fn digest_of(authorization: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, authorization.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// The server name that stands for an address (RFC 8738 section 6).
fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let mut name = String::with_capacity(72);
            for byte in address.octets().iter().rev() {
                name.push_str(&format!("{:x}.{:x}.", byte & 15, byte >> 4));
            }
            name.push_str("ip6.arpa");
            name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_names_in_reverse() {
        let of = |text: &str| reverse_name(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        assert_eq!(
            of("2001:db8::1"),
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
        );
    }
}
