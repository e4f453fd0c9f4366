//! An authority with an OCSP responder: certificates made by `openssl ca`, responses by
//! `openssl ocsp`.

use sealane_tests::{Site, command};
use std::process::{Child, Command, Stdio};

const CONFIGURATION: &str = "
[ca]
default_ca = authority
[authority]
database = DIR/index.txt
new_certs_dir = DIR
default_md = sha256
default_days = 30
policy = policy
unique_subject = no
rand_serial = yes
[policy]
commonName = supplied
[server]
basicConstraints = CA:FALSE
subjectAltName = DNS:localhost
[strict]
basicConstraints = CA:FALSE
subjectAltName = DNS:localhost
tlsfeature = status_request
[responder]
basicConstraints = CA:FALSE
keyUsage = digitalSignature
extendedKeyUsage = OCSPSigning
[named]
basicConstraints = CA:FALSE
subjectAltName = DNS:localhost
authorityInfoAccess = OCSP;URI:URL
";

const EC: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
const RSA: &str = "-newkey rsa:2048 -nodes";

/// Certificates of an authority in `ocsp/`, each with a key: `ec` and `rsa` for servers, which name
/// a responder at [`Authority::responder_port`]; `silent`, which names none; `strict`, which
/// demands a staple; `other`, a second one like `silent`; `revoked`; `delegate` for responders,
/// `plain` without that usage; `stranger`, another authority of the same name.
pub(crate) struct Authority<'a> {
    site: &'a Site,
}

impl<'a> Authority<'a> {
    pub(crate) fn new(site: &'a Site) -> Authority<'a> {
        let authority = Authority { site };
        let url = format!("http://127.0.0.1:{}/", authority.responder_port());
        let text = CONFIGURATION
            .replace("DIR", &authority.path(""))
            .replace("URL", &url);
        site.write("ocsp/ca.cnf", text);
        site.write("ocsp/index.txt", "");
        for root in ["root", "stranger"] {
            authority.openssl(&format!(
                "req -x509 {EC} -days 30 -subj /CN=root -keyout DIR/{root}.key -out DIR/{root}.pem"
            ));
        }
        for (name, key, kind) in [
            ("ec", EC, "named"),
            ("rsa", RSA, "named"),
            ("silent", EC, "server"),
            ("other", EC, "server"),
            ("revoked", EC, "server"),
            ("strict", EC, "strict"),
            ("plain", EC, "server"),
            ("delegate", EC, "responder"),
        ] {
            authority.openssl(&format!(
                "req -new {key} -subj /CN={name} -keyout DIR/{name}.key -out DIR/{name}.csr"
            ));
            authority.openssl(&format!(
                "ca -batch -notext -config DIR/ca.cnf -cert DIR/root.pem -keyfile DIR/root.key \
                 -extensions {kind} -in DIR/{name}.csr -out DIR/{name}.leaf"
            ));
            let read = |file: &str| {
                let path = site.path(format!("ocsp/{file}"));
                std::fs::read(path).expect("openssl has written it")
            };
            let chain = [read(&format!("{name}.leaf")), read("root.pem")].concat();
            site.write(format!("ocsp/{name}.pem"), chain);
        }
        authority.openssl(
            "ca -config DIR/ca.cnf -cert DIR/root.pem -keyfile DIR/root.key \
             -revoke DIR/revoked.leaf",
        );
        authority
    }

    /// The port that certificates name.
    pub(crate) fn responder_port(&self) -> u16 {
        self.site.port("responder")
    }

    /// A file of the authority.
    pub(crate) fn path(&self, name: &str) -> String {
        self.site.path(format!("ocsp/{name}")).display().to_string()
    }

    fn openssl(&self, line: &str) {
        let line = line.replace("DIR/", &self.path(""));
        let arguments: Vec<&str> = line.split_whitespace().collect();
        command("openssl", &arguments, b"").success();
    }

    /// What a responder with the certificate of `signer` says about another one. `options` are
    /// further ones of `openssl ocsp`; `time` is when it says so, as in `-2 days`.
    pub(crate) fn response(
        &self,
        about: &str,
        signer: &str,
        options: &str,
        time: Option<&str>,
    ) -> Vec<u8> {
        let file = format!("{about}-{signer}.{}.der", options.len());
        let line = format!(
            "openssl ocsp -index DIR/index.txt -CA DIR/root.pem -rsigner DIR/{signer} \
             -rkey DIR/{} -issuer DIR/root.pem -cert DIR/{about}.leaf -respout DIR/{file} \
             -noverify {options}",
            signer.replace(".leaf", ".key").replace(".pem", ".key")
        );
        let line = line.replace("DIR/", &self.path(""));
        let mut arguments: Vec<&str> = line.split_whitespace().collect();
        let program = match time {
            Some(time) => {
                arguments.insert(0, time);
                "faketime"
            }
            None => arguments.remove(0),
        };
        command(program, &arguments, b"").success();
        std::fs::read(self.path(&file)).expect("openssl has written it")
    }

    /// A good response about a certificate, signed by the authority, for a day.
    pub(crate) fn good(&self, about: &str) -> Vec<u8> {
        self.response(about, "root.pem", "-ndays 1", None)
    }

    /// `openssl ocsp` as a responder at [`Authority::responder_port`].
    pub(crate) fn start_responder(&self) -> Responder {
        let port = self.responder_port();
        let line = format!(
            "ocsp -index DIR/index.txt -CA DIR/root.pem -rsigner DIR/delegate.leaf \
             -rkey DIR/delegate.key -ndays 1 -port {port}"
        );
        let line = line.replace("DIR/", &self.path(""));
        let log = self.site.path("ocsp/responder.log");
        let output = std::fs::File::create(&log).expect("the site is writable");
        let child = Command::new("openssl")
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let responder = Responder(child);
        // A connection that only looks whether it listens would stop it.
        sealane_tests::wait_for("the responder to listen", || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            said.contains("ACCEPT").then_some(())
        });
        responder
    }
}

/// Killed when it is dropped.
pub(crate) struct Responder(Child);

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Paths of certificates start from the configuration file.
pub(crate) fn here(site: &Site, text: &str) -> String {
    text.replace(" ocsp/", &format!(" {}/", site.path("ocsp").display()))
}

/// An answer of a responder, with further header lines.
pub(crate) fn http(status: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/ocsp-response\r\n\
         Content-Length: {}\r\n{more}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
