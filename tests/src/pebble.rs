//! Pebble, the ACME server for tests, and the name server that it asks (`tests/clients/acme`).

use crate::go::build_program;
use crate::{Certificate, CertificateKey, Site, command, wait_for};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Words with which go fetches the module of Pebble, whose checksums are in the repository.
const ENVIRONMENT: &[(&str, &str)] = &[("GOTOOLCHAIN", "local")];

fn pebble_path() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let package = "github.com/letsencrypt/pebble/v2/cmd/pebble";
        build_program("tests/clients/acme", package, "pebble", ENVIRONMENT)
    };
    BINARY.get_or_init(build).clone()
}

fn name_server_path() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || build_program("tests/clients/acme", ".", "acme-name-server", ENVIRONMENT);
    BINARY.get_or_init(build).clone()
}

/// How Pebble behaves.
#[derive(Debug, Clone)]
pub struct PebbleSettings {
    /// How long certificates are valid, in seconds.
    pub validity_s: u32,
    /// How many of a hundred good nonces are refused.
    pub refused_nonces: u32,
    /// Where names are verified over HTTP.
    pub http_port: u16,
    /// Where names are verified over TLS.
    pub tls_port: u16,
    /// Names and keys of accounts outside of ACME, one of which is then demanded.
    pub external_accounts: Vec<(&'static str, &'static str)>,
    /// How many other roots there are.
    pub alternate_roots: u32,
}

impl PebbleSettings {
    /// Names are verified at these ports.
    pub fn verifying_at(http_port: u16, tls_port: u16) -> PebbleSettings {
        PebbleSettings {
            validity_s: 90 * 24 * 3600,
            refused_nonces: 20,
            http_port,
            tls_port,
            external_accounts: Vec::new(),
            alternate_roots: 0,
        }
    }
}

/// A running Pebble with its name server, killed when it is dropped. It forgets everything when it
/// is killed.
#[derive(Debug)]
pub struct Pebble<'a> {
    site: &'a Site,
    settings: PebbleSettings,
    names: TestZone<'a>,
    child: Option<Child>,
    /// How often it was started.
    runs: usize,
}

impl<'a> Pebble<'a> {
    /// Starts it on the ports `%acme%` and `%acme-management%`.
    #[track_caller]
    pub fn start(site: &'a Site, settings: PebbleSettings) -> Pebble<'a> {
        Pebble::start_with_names(site, settings, TestZone::start(site, None))
    }

    /// The same, with a name server of the test's.
    #[track_caller]
    pub fn start_with_names(
        site: &'a Site,
        settings: PebbleSettings,
        names: TestZone<'a>,
    ) -> Pebble<'a> {
        site.certificate(&Certificate::localhost("pebble", CertificateKey::P256));
        let mut pebble = Pebble {
            site,
            settings,
            names,
            child: None,
            runs: 0,
        };
        pebble.restart();
        pebble
    }

    /// Starts it again after [`Pebble::kill`]; it knows nothing of what was before.
    #[track_caller]
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        self.runs += 1;
        let settings = &self.settings;
        let accounts = settings.external_accounts.iter();
        let accounts: Vec<String> = accounts
            .map(|(kid, key)| format!("\"{kid}\": \"{key}\""))
            .collect();
        let path = |name: &str| self.site.path(name).display().to_string();
        let configuration = format!(
            r#"{{ "pebble": {{
                "listenAddress": "127.0.0.1:{}", "managementListenAddress": "127.0.0.1:{}",
                "certificate": "{}", "privateKey": "{}", "httpPort": {}, "tlsPort": {},
                "externalAccountBindingRequired": {}, "externalAccountMACKeys": {{ {} }},
                "retryAfter": {{ "authz": 1, "order": 1 }},
                "domainBlocklist": ["blocked.test"],
                "profiles": {{
                    "default": {{ "description": "of the tests", "validityPeriod": {validity} }},
                    "short": {{ "description": "shorter", "validityPeriod": 86400 }} }}
            }} }}"#,
            self.site.port("acme"),
            self.site.port("acme-management"),
            path("certificates/pebble.pem"),
            path("certificates/pebble.key"),
            settings.http_port,
            settings.tls_port,
            !accounts.is_empty(),
            accounts.join(", "),
            validity = settings.validity_s,
        );
        let file = self.site.write("pebble.json", configuration);
        let log = std::fs::File::create(self.log_path(self.runs)).expect("the site is writable");
        let errors = log.try_clone().expect("a descriptor is free");
        let child = Command::new(pebble_path())
            .arg("-config")
            .arg(file)
            .args(["-dnsserver", &format!("127.0.0.1:{}", self.names.port())])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env(
                "PEBBLE_WFE_NONCEREJECT",
                settings.refused_nonces.to_string(),
            )
            .env("PEBBLE_WFE_AUTHZREUSE", "0")
            .env(
                "PEBBLE_ALTERNATE_ROOTS",
                settings.alternate_roots.to_string(),
            )
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .expect("it was built");
        self.child = Some(child);
        wait_for("Pebble to listen", || {
            TcpStream::connect(("127.0.0.1", self.site.port("acme"))).ok()?;
            TcpStream::connect(("127.0.0.1", self.site.port("acme-management"))).ok()
        });
    }

    /// Ends it without a word.
    #[track_caller]
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
    }

    /// Orders that were made, in all its runs.
    pub fn orders(&self) -> usize {
        self.log().matches("Added order ").count()
    }

    /// Certificates that were issued.
    pub fn certificates(&self) -> usize {
        self.log().matches("Issued certificate serial").count()
    }

    /// Accounts that were made in the present run.
    pub fn accounts(&self) -> usize {
        let log = std::fs::read_to_string(self.log_path(self.runs)).unwrap_or_default();
        log.matches(" accounts in memory").count()
    }

    /// What it has written in all its runs.
    pub fn log(&self) -> String {
        let runs = 1..=self.runs;
        runs.map(|run| std::fs::read_to_string(self.log_path(run)).unwrap_or_default())
            .collect()
    }

    /// What its name server has written.
    pub fn names(&self) -> &TestZone<'a> {
        &self.names
    }

    /// Asks its management interface.
    #[track_caller]
    pub fn manage(&self, path: &str, body: Option<&str>) -> String {
        let url = format!(
            "https://localhost:{}{path}",
            self.site.port("acme-management")
        );
        let authority = self.site.authority().display().to_string();
        let mut arguments = vec!["-sS", "-f", "--cacert", &authority, &url];
        if let Some(body) = body {
            arguments.extend(["-d", body]);
        }
        command("curl", &arguments, b"").success().text()
    }

    /// The file with its root, of the present run, to verify what it has issued.
    #[track_caller]
    pub fn root(&self) -> String {
        let root = self.manage("/roots/0", None);
        let file = format!("temporary/root-{}.pem", self.runs);
        self.site.write(file, root).display().to_string()
    }

    fn log_path(&self, run: usize) -> PathBuf {
        self.site.path(format!("logs/pebble-{run}.log"))
    }
}

impl Drop for Pebble<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- Pebble\n{}", self.log());
        }
    }
}

/// A name server for the zone `test`, in which every name has the address 127.0.0.1 and TXT
/// records come by dynamic updates; killed when it is dropped.
#[derive(Debug)]
pub struct TestZone<'a> {
    site: &'a Site,
    child: Child,
    port: u16,
}

impl<'a> TestZone<'a> {
    /// Starts it on a free port. With a key (its name and base64) updates have to be signed.
    #[track_caller]
    pub fn start(site: &'a Site, key: Option<(&str, &str)>) -> TestZone<'a> {
        match key {
            Some((name, secret)) => TestZone::start_with(site, &["-key", name, "-secret", secret]),
            None => TestZone::start_with(site, &[]),
        }
    }

    /// The same with further words for its command line: `-alias NAME.=TARGET.`, `-records` with a
    /// file that has a name and the text of a TXT record in each line, and
    /// `-delegate ZONE.=ADDRESS,...` with name servers that are asked in turn.
    #[track_caller]
    pub fn start_with(site: &'a Site, words: &[&str]) -> TestZone<'a> {
        let path = site.path("logs/names.log");
        let log = std::fs::File::create(&path).expect("the site is writable");
        let child = Command::new(name_server_path())
            .args(words)
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .expect("it was built");
        let mut zone = TestZone {
            site,
            child,
            port: 0,
        };
        zone.port = wait_for("the name server to listen", || {
            let text = std::fs::read_to_string(&path).ok()?;
            let line = text.lines().next()?.strip_prefix("port ")?;
            line.parse().ok()
        });
        zone
    }

    /// Its port, for UDP and TCP.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The updates that it has taken or refused.
    pub fn updates(&self) -> String {
        std::fs::read_to_string(self.site.path("logs/names.log")).unwrap_or_default()
    }
}

impl Drop for TestZone<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
