//! What a worker may read (`worker_landlock_read`), derived from the configuration.
//!
//! Landlock judges the file that is opened, wherever links on its path have led: links out of a
//! `root` need their targets named. Looking for names, and at what stat(2) tells of them, is not
//! restricted.

use super::places::{Places, directory_of, known_part};
use crate::temp_paths;
use sealane_conf::Config;
use sealane_conf::model::{
    EvaluatedPair, FilesAt, LocationConf, Part, Pass, ServerCertificates, Template,
    UpstreamCertificate,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the C library and others read of the system at run time: nothing in it is secret. It is not
/// a part of what a reload compares.
pub(super) const SYSTEM: &[&str] = &[
    // Time zones, and modules of the C library that look up names.
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    // Whose certificates are believed, as rustls-native-certs finds them.
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    // Its own state, and how busy the machine is.
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/hostname",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
];

/// Where the C library looks up names, for what `resolver` does not. They are replaced from time to
/// time.
const NAMES: &[&str] = &[
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
];

/// Where the environment names certificates that are believed.
const AUTHORITIES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// What a worker may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readable {
    /// What its user may.
    Everything,
    /// The same, because a value that this names could be any path.
    Unknown(String),
    /// What is here, and what is below it.
    Places(Places),
}

impl Readable {
    /// Of a configuration, as files are now. What it changes there, the worker also reads.
    pub(super) fn of(config: &Config, changeable: &Places) -> Readable {
        let Some(named) = &config.main.worker_landlock_read else {
            return Readable::Everything;
        };
        let mut found = Collected {
            config,
            // Who names places knows where such values lead.
            takes_unknown: !named.is_empty(),
            places: Places::default(),
            unknown: None,
        };
        for conf in temp_paths::locations(config) {
            found.add_location(conf);
        }
        found.add_certificates();
        if let Some(name) = found.unknown {
            return Readable::Unknown(name);
        }
        let mut places = found.places;
        for path in named.iter().map(PathBuf::as_path).chain(changeable.paths()) {
            places.add_with_neighbours(path);
        }
        for path in NAMES {
            places.add_file(Path::new(path));
        }
        let kept =
            crate::worker_process::kept_variables(&config.main.env, |name| std::env::var_os(name));
        for (name, path) in &kept {
            if AUTHORITIES.iter().any(|known| name == known) {
                places.add_file(Path::new(path));
            }
        }
        Readable::Places(places.without_what_is_below())
    }

    /// Whether a process that may read this can read the other.
    pub(super) fn covers(&self, other: &Readable) -> bool {
        match (self, other) {
            (Readable::Places(before), Readable::Places(after)) => before.cover(after),
            // One that is not confined does not become so.
            (Readable::Places(_), _) | (_, Readable::Places(_)) => false,
            _ => true,
        }
    }
}

struct Collected<'c> {
    config: &'c Config,
    takes_unknown: bool,
    places: Places,
    unknown: Option<String>,
}

impl Collected<'_> {
    fn add_location(&mut self, conf: &LocationConf) {
        match &conf.files_at {
            FilesAt::Root(path) => self.add("root", path, known_part(path)),
            FilesAt::Alias(path) => self.add("alias", path, known_part(path)),
        }
        let basic = conf.access.as_ref().and_then(|it| it.basic.as_ref());
        if let Some(basic) = basic {
            let path = &basic.user_file;
            // Its directory: editors and htpasswd replace the file.
            self.add("auth_basic_user_file", path, directory_of(path));
        }
        let tls = conf.pass.as_ref().and_then(Pass::tls);
        let own = tls.and_then(|tls| tls.certificate.as_ref());
        if let Some(UpstreamCertificate::Evaluated { certificate, key }) = own {
            self.add_certificate("proxy_ssl_certificate", certificate);
            self.add_certificate("proxy_ssl_certificate_key", key);
        }
    }

    /// Those that are read in handshakes.
    fn add_certificates(&mut self) {
        let servers = self.config.http.iter().flat_map(|http| &http.servers);
        for tls in servers.filter_map(|server| server.tls.as_deref()) {
            let ServerCertificates::Evaluated(evaluated) = &tls.certificates else {
                continue;
            };
            for pair in &*evaluated.pairs {
                if let EvaluatedPair::Named { certificate, key } = pair {
                    self.add_certificate("ssl_certificate", certificate);
                    self.add_certificate("ssl_certificate_key", key);
                }
            }
        }
    }

    fn add_certificate(&mut self, directive: &str, path: &Template) {
        if let Some(Part::Literal(text)) = path.parts().first() {
            if text.starts_with(b"data:") {
                return;
            }
            if !text.starts_with(b"/") {
                let end = text.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                let below = Path::new(OsStr::from_bytes(&text[..end]));
                let place = sealane_server::conf_directory(self.config).join(below);
                return self.add(directive, path, place);
            }
        }
        self.add(directive, path, directory_of(path));
    }

    fn add(&mut self, directive: &str, path: &Template, place: PathBuf) {
        if place.parent().is_some() {
            self.places.add_with_neighbours(&place);
        } else if !self.takes_unknown && self.unknown.is_none() {
            self.unknown = Some(match path.parts().first() {
                Some(Part::Variable(_)) => format!("a \"{directive}\" begins with a variable"),
                _ => format!("a \"{directive}\" may be anything below \"/\""),
            });
        }
    }
}
