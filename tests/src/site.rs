//! A temporary prefix: configuration, files, certificates, logs and ports.

use crate::certificates::{self, Certificate, CertificateKey};
use crate::command::command;
use crate::ports::Port;
use crate::server::{Program, Server};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that a server takes as its prefix, removed at the end.
#[derive(Debug)]
pub struct Site {
    path: PathBuf,
    ports: Mutex<BTreeMap<String, Port>>,
}

impl Site {
    /// An empty site with the directories `html` and `logs`.
    pub fn new() -> Site {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("sealane-test-{}-{number}", std::process::id()));
        for directory in ["html", "logs", "temporary"] {
            std::fs::create_dir_all(path.join(directory))
                .expect("the temporary directory is writable");
        }
        // The worker may run as "nobody", who has to get in.
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("the directory is ours");
        Site {
            path,
            ports: Mutex::default(),
        }
    }

    /// A path inside the site.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.path.join(relative)
    }

    /// Writes a file, with the directories it needs, and returns its path.
    #[track_caller]
    pub fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().expect("a file has a directory"))
            .expect("creating a directory");
        std::fs::write(&path, content).expect("writing a file of the site");
        path
    }

    /// Makes a certificate with the name and subject alternative names given,
    /// as `certificates/NAME.pem` and `.key`.
    #[track_caller]
    pub fn certificate(&self, certificate: &Certificate<'_>) -> PathBuf {
        certificates::create(&self.path("certificates"), certificate)
    }

    /// A site with a certificate for each of `keys`: the name of a server, and the options by
    /// which openssl makes its key (`rsa:4096`).
    #[track_caller]
    pub fn with_keys(keys: &[(&str, &str)]) -> Site {
        let site = Site::new();
        // Makes the authority too.
        site.certificate(&Certificate::localhost("default", CertificateKey::P256));
        for (name, key) in keys {
            let path = |file: &str| {
                site.path(format!("certificates/{file}"))
                    .display()
                    .to_string()
            };
            let line = format!(
                "req -x509 -newkey {key} -nodes -days 30 -subj /CN={name} -addext subjectAltName=DNS:{name} \
                 -CA {} -CAkey {} -keyout {} -out {}",
                path("authority.pem"),
                path("authority.key"),
                path(&format!("{name}.key")),
                path(&format!("{name}.pem")),
            );
            let arguments: Vec<&str> = line.split_whitespace().collect();
            command("openssl", &arguments, b"").success();
        }
        site
    }

    /// The path of the authority that signed every certificate of this site.
    pub fn authority(&self) -> PathBuf {
        self.path("certificates/authority.pem")
    }

    /// The port behind `%name%`, reserved at its first use.
    pub fn port(&self, name: &str) -> u16 {
        let mut ports = self
            .ports
            .lock()
            .expect("no test panics while it holds the ports");
        ports
            .entry(name.to_owned())
            .or_insert_with(Port::reserve)
            .number
    }

    /// `text` with a port for every `%name%`, `%site%` for the directory and `%%` for a percent
    /// sign.
    pub fn fill_in(&self, text: &str) -> String {
        let mut parts = text.split('%');
        let mut out = parts
            .next()
            .expect("splitting gives at least one part")
            .to_owned();
        while let Some(word) = parts.next() {
            let rest = parts.next();
            match rest {
                // Twice the sign is the sign itself.
                Some(rest) if word.is_empty() => out.push_str(&format!("%{rest}")),
                Some(rest) if word == "site" => {
                    out.push_str(&format!("{}{rest}", self.path.display()))
                }
                Some(rest)
                    if !word.is_empty()
                        && word
                            .bytes()
                            .all(|byte| byte.is_ascii_lowercase() || byte == b'_') =>
                {
                    out.push_str(&format!("{}{rest}", self.port(word)));
                }
                _ => panic!(
                    "a percent sign in a test configuration that does not enclose a name, near {word:?}"
                ),
            }
        }
        out
    }

    /// Starts Sealane with `http` inside an `http` block, one worker, and the
    /// error log at `info`.
    #[track_caller]
    pub fn serve(&self, http: &str) -> Server<'_> {
        self.serve_with("", "", http)
    }

    /// The same with further lines for the main block and for `events`.
    #[track_caller]
    pub fn serve_with(&self, main: &str, events: &str, http: &str) -> Server<'_> {
        let configuration = usual_configuration(main, events, http);
        Server::start(self, Program::Sealane, &configuration)
    }

    /// Starts Debian's nginx with the same configuration that
    /// [`Site::serve`] would give Sealane.
    #[track_caller]
    pub fn serve_by_nginx(&self, http: &str) -> Server<'_> {
        // Debian's paths for temporary files need root.
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path temporary/{name};"));
        let configuration =
            usual_configuration("", "", &format!("{}\n{http}", temporary.join("\n")));
        Server::start(self, Program::Nginx, &configuration)
    }

    /// Starts Sealane with a complete configuration.
    #[track_caller]
    pub fn serve_whole(&self, configuration: &str) -> Server<'_> {
        Server::start(self, Program::Sealane, configuration)
    }
}

fn usual_configuration(main: &str, events: &str, http: &str) -> String {
    let mut lines = String::new();
    // A directive that the test gives replaces the harness's own.
    for (name, line) in [
        ("worker_processes", "worker_processes 1;"),
        ("error_log", "error_log logs/error.log info;"),
        ("pid", "pid logs/pid;"),
    ] {
        if !main.lines().any(|own| own.trim_start().starts_with(name)) {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    let access_log = if http.contains("access_log") {
        ""
    } else {
        "access_log off;"
    };
    format!("{lines}{main}\nevents {{\n{events}\n}}\nhttp {{\n{access_log}\n{http}\n}}\n")
}

impl Default for Site {
    fn default() -> Site {
        Site::new()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::env::var_os("SEALANE_TEST_KEEP").is_none() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
