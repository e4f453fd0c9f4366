//! Certificates for clients, good and bad, made by `openssl ca`.

use sealane_tests::{Certificate, CertificateKey, Site, command};
use std::time::SystemTime;

const CONFIGURATION: &str = "
[ca]
default_ca = authority
[authority]
database = DIR/index.txt
new_certs_dir = DIR
default_md = sha256
default_days = 30
default_crl_days = 30
policy = policy
unique_subject = no
rand_serial = yes
[policy]
countryName = optional
organizationName = optional
commonName = supplied
[client]
basicConstraints = CA:FALSE
keyUsage = digitalSignature
extendedKeyUsage = clientAuth
[server]
basicConstraints = CA:FALSE
extendedKeyUsage = serverAuth
[issuer]
basicConstraints = critical,CA:TRUE
keyUsage = keyCertSign,cRLSign
";

/// The clients that a site has in `clients/NAME.pem`, all with the key `clients/client.key`.
pub(crate) const CLIENTS: [&str; 10] = [
    "good",
    "expired",
    "future",
    "revoked",
    "foreign",
    "selfsigned",
    // Below an intermediate certificate, which is sent.
    "below",
    // The same without it.
    "orphan",
    // Below two, which are sent.
    "deep",
    // For servers.
    "server",
];

/// A site with a certificate for the server, one for each of [`CLIENTS`], and in `clients/`:
/// `root.pem` that the good ones end in, `inter.pem` below it, `other.pem`, `root.crl`, and
/// `stale.crl` which has expired.
pub(crate) fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let directory = site.path("clients").display().to_string();
    let text = CONFIGURATION.replace("DIR", &directory);
    site.write("clients/ca.cnf", text);
    site.write("clients/index.txt", "");
    let openssl = |line: &str| {
        let line = line.replace("DIR", &directory);
        let arguments: Vec<&str> = line.split_whitespace().collect();
        command("openssl", &arguments, b"").success();
    };
    const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let sign = |name: &str, issuer: &str, kind: &str, more: &str| {
        openssl(&format!(
            "ca -batch -notext -config DIR/ca.cnf -cert DIR/{issuer}.pem -keyfile DIR/{issuer}.key \
             -extensions {kind} -in DIR/{name}.csr -out DIR/{name}.pem {more}"
        ));
    };
    for root in ["root", "other"] {
        openssl(&format!(
            "req -x509 {NEW_KEY} -days 30 -subj /O=Example/CN={root} \
             -keyout DIR/{root}.key -out DIR/{root}.pem"
        ));
    }
    for (name, issuer) in [("inter", "root"), ("lower", "inter")] {
        openssl(&format!(
            "req -new {NEW_KEY} -subj /O=Example/CN={name} -keyout DIR/{name}.key -out DIR/{name}.csr"
        ));
        sign(name, issuer, "issuer", "");
    }
    openssl(&format!(
        "req -new {NEW_KEY} -subj /CN=any -keyout DIR/client.key -out DIR/client.csr"
    ));
    for name in CLIENTS {
        let issuer = match name {
            "foreign" => "other",
            "below" | "orphan" => "inter",
            "deep" => "lower",
            _ => "root",
        };
        openssl(&format!(
            "req -new -key DIR/client.key -subj /C=DE/O=Example/CN={name} -out DIR/{name}.csr"
        ));
        match name {
            "selfsigned" => openssl(
                "x509 -req -in DIR/selfsigned.csr -signkey DIR/client.key -days 30 -out DIR/selfsigned.pem",
            ),
            "expired" => sign(
                name,
                issuer,
                "client",
                "-startdate 20200101000000Z -enddate 20200201000000Z",
            ),
            "future" => sign(
                name,
                issuer,
                "client",
                "-startdate 20900101000000Z -enddate 20900201000000Z",
            ),
            "server" => sign(name, issuer, "server", ""),
            "good" => sign(name, issuer, "client", &format!("-enddate {}", far_away())),
            _ => sign(name, issuer, "client", ""),
        }
    }
    append(&site, "below", &["inter"]);
    append(&site, "deep", &["lower", "inter"]);
    let revocation = "ca -config DIR/ca.cnf -cert DIR/root.pem -keyfile DIR/root.key";
    openssl(&format!("{revocation} -gencrl -out DIR/empty.crl"));
    openssl(&format!(
        "{revocation} -gencrl -crl_lastupdate 20200101000000Z -crl_nextupdate 20200201000000Z \
         -out DIR/stale.crl"
    ));
    openssl(&format!("{revocation} -revoke DIR/revoked.pem"));
    openssl(&format!("{revocation} -gencrl -out DIR/root.crl"));
    site
}

/// A time whose distance in whole days (`$ssl_client_v_remain`) is the same for the next hours,
/// for two servers that are asked one after the other.
fn far_away() -> String {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is set");
    let hour = since.as_secs() / 3600 % 24;
    format!("20491231{:02}0000Z", (hour + 12) % 24)
}

/// Puts the certificates of issuers behind a client's.
fn append(site: &Site, client: &str, issuers: &[&str]) {
    let read = |name: &str| {
        let path = site.path(format!("clients/{name}.pem"));
        std::fs::read(path).expect("openssl has written it")
    };
    let mut chain = read(client);
    for issuer in issuers {
        chain.extend(read(issuer));
    }
    site.write(format!("clients/{client}.pem"), chain);
}
