//! Certificates that are named by commands for the TLS library: `ssl_conf_command Certificate` and
//! `PrivateKey`, which come after `ssl_certificate` and `ssl_certificate_key`.

use crate::call::Fault;
use crate::input::Options;
use crate::model::{CertificateFiles, CertificateSource};
use std::path::Path;

/// Name and value of a command.
type Command = (String, String);

/// Commands, without those that name certificates and keys.
pub(super) struct Sorted {
    /// The other ones, in order.
    pub(super) rest: Vec<Command>,
    /// Certificates with keys, in order.
    pub(super) certificates: Vec<CertificateFiles>,
}

/// Finds the certificates that the commands of `directive` name. The first `Certificate` belongs to
/// the first `PrivateKey` and so on; one that is left alone belongs to the counterpart in `named`,
/// which other directives name.
///
/// # Errors
/// When a certificate has no key, or a key no certificate.
pub(super) fn of_commands(
    options: &Options,
    directive: &str,
    commands: &[Command],
    named: Option<&CertificateFiles>,
) -> Result<Sorted, Fault> {
    let (mut rest, mut certificates, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value) in commands {
        match () {
            () if name.eq_ignore_ascii_case("Certificate") => certificates.push(value),
            () if name.eq_ignore_ascii_case("PrivateKey") => keys.push(value),
            () => rest.push((name.clone(), value.clone())),
        }
    }
    let file = |value: &String| CertificateSource::File(options.beside_conf(Path::new(value)));
    let alone = |name: &str, value: &str, missing: &str| {
        Fault::whole(format!(
            "no \"{missing}\" is defined for \"{directive} {name} {value}\""
        ))
        .help(format!("write \"{directive} {missing} FILE;\" beside it"))
    };
    let count = certificates.len().max(keys.len());
    let pair = |at: usize| match (certificates.get(at), keys.get(at), named) {
        (Some(certificate), Some(key), _) => Ok(CertificateFiles {
            certificate: file(certificate),
            key: file(key),
        }),
        (Some(certificate), None, Some(named)) => Ok(CertificateFiles {
            certificate: file(certificate),
            key: named.key.clone(),
        }),
        (None, Some(key), Some(named)) => Ok(CertificateFiles {
            certificate: named.certificate.clone(),
            key: file(key),
        }),
        (Some(certificate), None, None) => Err(alone("Certificate", certificate, "PrivateKey")),
        (None, key, _) => Err(alone(
            "PrivateKey",
            key.map_or("", |key| key.as_str()),
            "Certificate",
        )),
    };
    Ok(Sorted {
        certificates: (0..count).map(pair).collect::<Result<_, _>>()?,
        rest,
    })
}
