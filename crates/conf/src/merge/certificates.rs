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

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(
        commands: &[(&str, &str)],
        named: Option<&CertificateFiles>,
    ) -> Result<Sorted, Fault> {
        let options = Options::new(Path::new("/etc/nginx.conf"), Path::new("/"));
        let commands: Vec<Command> = commands
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        of_commands(&options, "ssl_conf_command", &commands, named)
    }

    fn files(certificate: &str, key: &str) -> CertificateFiles {
        let file = |path: &str| CertificateSource::File(path.into());
        CertificateFiles {
            certificate: file(certificate),
            key: file(key),
        }
    }

    #[test]
    fn certificates_find_their_keys() {
        let commands = [
            ("PrivateKey", "a.key"),
            ("Options", "KTLS"),
            ("certificate", "a.pem"),
            ("Certificate", "/b.pem"),
        ];
        let named = files("/c.pem", "/c.key");
        let found = sorted(&commands, Some(&named));
        let found = found.unwrap_or_else(|fault| panic!("{fault:?}"));
        assert_eq!(found.rest, [("Options".to_owned(), "KTLS".to_owned())]);
        let expected = [files("/etc/a.pem", "/etc/a.key"), files("/b.pem", "/c.key")];
        assert_eq!(found.certificates, expected);
        let key = sorted(&[("PrivateKey", "/k")], Some(&named));
        assert!(key.is_ok_and(|found| found.certificates == [files("/c.pem", "/k")]));
    }

    #[test]
    fn neither_stands_alone() {
        for (command, missing) in [("Certificate", "PrivateKey"), ("PrivateKey", "Certificate")] {
            let fault = sorted(&[(command, "a")], None)
                .err()
                .expect("half of a pair");
            let text = format!("{fault:?}");
            assert!(text.contains(missing), "{text}");
        }
    }
}
