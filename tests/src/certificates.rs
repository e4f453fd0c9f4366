//! Certificates made by openssl for one test.

use crate::command;
use std::path::{Path, PathBuf};

/// The kind of key that a certificate has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateKey {
    /// RSA with 2048 bits.
    Rsa,
    /// NIST P-256.
    P256,
    /// NIST P-384.
    P384,
}

/// What a certificate should say.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// The file name, without `.pem`, and the common name.
    pub name: &'a str,
    /// The key.
    pub key: CertificateKey,
    /// Subject alternative names as openssl writes them, `DNS:a.example, IP:127.0.0.1`.
    pub names: &'a str,
}

impl Certificate<'static> {
    /// A certificate for `localhost` and `127.0.0.1`.
    pub fn localhost(name: &'static str, key: CertificateKey) -> Certificate<'static> {
        Certificate {
            name,
            key,
            names: "DNS:localhost, IP:127.0.0.1, IP:::1",
        }
    }
}

/// Creates `DIRECTORY/NAME.pem` and `.key`, signed by `DIRECTORY/authority.pem`,
/// which is created when it is missing. Returns the certificate's path.
#[track_caller]
pub(crate) fn create(directory: &Path, certificate: &Certificate<'_>) -> PathBuf {
    std::fs::create_dir_all(directory).expect("the site is writable");
    let path = |name: &str| directory.join(name).display().to_string();
    let (authority, authority_key) = (path("authority.pem"), path("authority.key"));
    if !Path::new(&authority).exists() {
        openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=test-authority \
             -addext basicConstraints=critical,CA:TRUE -keyout {authority_key} -out {authority}"
        ));
    }
    let key_options = match certificate.key {
        CertificateKey::Rsa => "rsa:2048",
        CertificateKey::P256 => "ec -pkeyopt ec_paramgen_curve:prime256v1",
        CertificateKey::P384 => "ec -pkeyopt ec_paramgen_curve:secp384r1",
    };
    let name = certificate.name;
    let (pem, key, request) = (
        path(&format!("{name}.pem")),
        path(&format!("{name}.key")),
        path(&format!("{name}.csr")),
    );
    let extensions = path(&format!("{name}.ext"));
    let text = format!(
        "subjectAltName={}\nextendedKeyUsage=serverAuth,clientAuth\n",
        certificate.names
    );
    std::fs::write(&extensions, text).expect("the site is writable");
    openssl(&format!(
        "req -new -newkey {key_options} -nodes -subj /CN={name} -keyout {key} -out {request}"
    ));
    let serial = command("openssl", &["rand", "-hex", "8"], b"")
        .success()
        .text();
    openssl(&format!(
        "x509 -req -in {request} -CA {authority} -CAkey {authority_key} -set_serial 0x{} -days 30 -extfile {extensions} -out {pem}",
        serial.trim()
    ));
    PathBuf::from(pem)
}

#[track_caller]
fn openssl(line: &str) {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    command("openssl", &arguments, b"").success();
}
