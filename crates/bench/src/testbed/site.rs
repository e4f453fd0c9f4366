//! The site that all servers serve: files, certificates and one configuration for each kind of
//! server.

use std::{
    fs,
    io::{self, Write},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Error, testbed::kind::Kind};

/// A file that the servers serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum File {
    /// A response as small as those in measurements of handshakes.
    Tiny,
    Small,
    Medium,
    Mebibyte,
    HundredMebibytes,
    Large,
    /// As large, without any content: a hole, as `truncate` makes it.
    Sparse,
}

impl File {
    pub(crate) const ALL: [Self; 7] = [
        Self::Tiny,
        Self::Small,
        Self::Medium,
        Self::Mebibyte,
        Self::HundredMebibytes,
        Self::Large,
        Self::Sparse,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tiny => "10",
            Self::Small => "1k",
            Self::Medium => "100k",
            Self::Mebibyte => "1m",
            Self::HundredMebibytes => "100m",
            Self::Large => "1g",
            Self::Sparse => "1g-sparse",
        }
    }

    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Tiny => 10,
            Self::Small => 1 << 10,
            Self::Medium => 100 << 10,
            Self::Mebibyte => 1 << 20,
            Self::HundredMebibytes => 100 << 20,
            Self::Large | Self::Sparse => 1 << 30,
        }
    }
}

/// A listener of the configuration, by its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    Plain,
    P256,
    P384,
    Rsa2048,
    Rsa4096,
    /// RSA-2048 without any tuning.
    Untuned,
    /// P-256 with early data.
    Early,
    /// P-256 with HTTP/2.
    Http2,
    /// The same over QUIC, with HTTP/3.
    Http3,
    /// P-256 without `open_file_cache`.
    Uncached,
    /// P-256 with nginx's default groups and suites.
    Browser,
    /// P-256 with an OCSP response.
    Stapled,
    /// RSA-2048 with an OCSP response.
    StapledRsa,
    /// Connections are passed on to the origin.
    Passed,
    /// Their TLS, with P-256, ends before.
    PassedTls,
    /// The same, and the connections to the origin are over TLS, too.
    PassedBoth,
}

impl Listener {
    /// All of them.
    pub(crate) const ALL: [Self; 16] = [
        Self::Plain,
        Self::P256,
        Self::P384,
        Self::Rsa2048,
        Self::Rsa4096,
        Self::Untuned,
        Self::Early,
        Self::Http2,
        Self::Http3,
        Self::Uncached,
        Self::Browser,
        Self::Stapled,
        Self::StapledRsa,
        Self::Passed,
        Self::PassedTls,
        Self::PassedBoth,
    ];

    /// Whether it is there only where connections are passed on.
    pub(crate) fn passes_on(self) -> bool {
        matches!(self, Self::Passed | Self::PassedTls | Self::PassedBoth)
    }

    /// Whether it is for connections of TCP, and there with these additions.
    fn is_of_tcp(self, additions: Additions) -> bool {
        self != Self::Http3 && (additions.stream || !self.passes_on())
    }

    /// The placeholder for its port in the configuration.
    fn placeholder(self) -> &'static str {
        match self {
            Self::Plain => "@PLAIN_PORT@",
            Self::P256 => "@P256_PORT@",
            Self::P384 => "@P384_PORT@",
            Self::Rsa2048 => "@RSA_PORT@",
            Self::Rsa4096 => "@RSA4096_PORT@",
            Self::Untuned => "@UNTUNED_PORT@",
            Self::Early => "@EARLY_PORT@",
            Self::Http2 => "@HTTP2_PORT@",
            Self::Http3 => "@HTTP3_PORT@",
            Self::Uncached => "@UNCACHED_PORT@",
            Self::Browser => "@BROWSER_PORT@",
            Self::Stapled => "@STAPLED_PORT@",
            Self::StapledRsa => "@STAPLED_RSA_PORT@",
            Self::Passed => "@PASSED_PORT@",
            Self::PassedTls => "@PASSED_TLS_PORT@",
            Self::PassedBoth => "@PASSED_BOTH_PORT@",
        }
    }
}

/// The ports of one started server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports([u16; Listener::ALL.len()]);

impl Ports {
    /// Finds free ports. They are free when checked; a server whose port is taken in the meantime
    /// does not start, which is an error and not a wrong figure.
    pub(crate) fn free() -> Result<Self, Error> {
        let failed = |source| Error::io("find a free port", source);
        // All are held until the last is found, so that none is found twice.
        let mut listeners = Vec::new();
        let mut ports = [0; Listener::ALL.len()];
        for port in &mut ports {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
            *port = listener.local_addr().map_err(failed)?.port();
            listeners.push(listener);
        }
        Ok(Self(ports))
    }

    /// The port of `listener`.
    pub(crate) fn of(&self, listener: Listener) -> u16 {
        self.0[listener as usize]
    }

    /// The ports on which a server with these additions accepts connections of TCP.
    pub(crate) fn accepting(&self, additions: Additions) -> impl Iterator<Item = u16> {
        let listeners = Listener::ALL.into_iter();
        let accepting = listeners.filter(move |listener| listener.is_of_tcp(additions));
        accepting.map(|listener| self.of(listener))
    }
}

/// What a configuration has besides what is always there: not every server can do it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Additions {
    /// Further servers on the port of [`Listener::P256`], each with a name.
    pub(crate) names: usize,
    /// Whether there is a `stream` block.
    pub(crate) stream: bool,
    /// Whether there is a server for HTTP/3.
    pub(crate) http3: bool,
}

/// The differences between the configurations of two started servers. Directives are for those that
/// read nginx.conf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant<'a> {
    /// `worker_processes`, or threads.
    pub(crate) workers: usize,
    /// What not every server has.
    pub(crate) additions: Additions,
    /// Directives outside of all blocks.
    pub(crate) main: &'a str,
    /// Directives in the `events` block.
    pub(crate) events: &'a str,
    /// Directives in the `http` block.
    pub(crate) directives: &'a str,
    /// Directives in the `server` blocks with an RSA key.
    pub(crate) rsa_directives: &'a str,
    /// Directives in the `upstream` block of the origin.
    pub(crate) upstream_directives: &'a str,
}

/// The files of the test certificates, each with `.crt` and `.key`.
const CERTIFICATES: [&str; 4] = ["p256", "p384", "rsa2048", "rsa4096"];
/// The OCSP responses about two of them, and their issuers.
const STAPLES: [&str; 4] = [
    "p256.ocsp",
    "p256-root.crt",
    "rsa2048.ocsp",
    "rsa2048-root.crt",
];

/// What passes connections on to the origin, for cases that need it: not every nginx has it.
const STREAM: &str = r#"
stream {
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384;
    ssl_ecdh_curve X25519:prime256v1:secp384r1;
    ssl_session_cache shared:stream:50m;
    upstream origin { server 127.0.0.1:@ORIGIN_PORT@; }
    upstream tls_origin { server 127.0.0.1:@TLS_ORIGIN_PORT@; }
    server {
        listen 127.0.0.1:@PASSED_PORT@ backlog=4096;
        proxy_pass origin;
    }
    server {
        listen 127.0.0.1:@PASSED_TLS_PORT@ ssl backlog=4096;
        ssl_certificate "@CERTIFICATES@/p256.crt";
        ssl_certificate_key "@CERTIFICATES@/p256.key";
        proxy_pass origin;
    }
    server {
        listen 127.0.0.1:@PASSED_BOTH_PORT@ ssl backlog=4096;
        ssl_certificate "@CERTIFICATES@/p256.crt";
        ssl_certificate_key "@CERTIFICATES@/p256.key";
        proxy_pass tls_origin;
        proxy_ssl on;
        # The origin pins the rest.
        proxy_ssl_conf_command Groups X25519;
    }
}
"#;

/// HTTP/3, for cases that need it: not every nginx has it. With its default of 64 KiB for what is
/// under way on a stream, a download over 2 ms cannot be faster than 32 MB/s.
const HTTP3: &str = r#"
    server {
        listen 127.0.0.1:@HTTP3_PORT@ quic reuseport;
        quic_gso on;
        http3_stream_buffer_size 1m;
        ssl_certificate "@CERTIFICATES@/p256.crt";
        ssl_certificate_key "@CERTIFICATES@/p256.key";
        root "@FILES@";
    }
"#;

/// The same for H2O, which has it from version 2.3 on.
const H2O_HTTP3: &str = r#"
http3-idle-timeout: 600
listen:
  host: 127.0.0.1
  port: @HTTP3_PORT@
  type: quic
  ssl:
    <<: *tls
"#;

/// The data common to all servers and rounds.
#[derive(Debug)]
pub(crate) struct Site {
    work: PathBuf,
    files: PathBuf,
    certificates: PathBuf,
    /// The origin's addresses, if one was started: without and with TLS.
    origin: Option<(SocketAddr, SocketAddr)>,
}

impl Site {
    /// Creates the files of up to `largest_bytes` (kept for the next comparison), and checks the
    /// certificates.
    pub(crate) fn prepare(
        work: &Path,
        certificates: &Path,
        largest_bytes: u64,
    ) -> Result<Self, Error> {
        let absolute = |path: &Path| {
            fs::canonicalize(path)
                .map_err(|source| Error::io(format!("find {}", path.display()), source))
        };
        let files = work.join("files");
        fs::create_dir_all(&files)
            .map_err(|source| Error::io(format!("create {}", files.display()), source))?;
        let wanted = |name: &&str| [format!("{name}.crt"), format!("{name}.key")];
        let staples = STAPLES.map(str::to_owned);
        for name in CERTIFICATES.iter().flat_map(wanted).chain(staples) {
            let path = certificates.join(name);
            if !path.is_file() {
                return Err(Error::Usage(format!(
                    "{} is missing; run: bench/make-certificates.sh {}",
                    path.display(),
                    certificates.display()
                )));
            }
        }
        let is_wanted = |file: &File| file.bytes() <= largest_bytes;
        for file in File::ALL.into_iter().filter(is_wanted) {
            let path = files.join(file.name());
            provide(&path, file)
                .map_err(|source| Error::io(format!("create {}", path.display()), source))?;
        }
        Ok(Self {
            work: absolute(work)?,
            files: absolute(&files)?,
            certificates: absolute(certificates)?,
            origin: None,
        })
    }

    /// Passes what is not served from files to this origin, which has one address without TLS and
    /// one with it.
    pub(crate) fn set_origin(&mut self, plain: SocketAddr, tls: SocketAddr) {
        self.origin = Some((plain, tls));
    }

    /// What a file has.
    pub(crate) fn content(&self, file: File) -> Result<Arc<[u8]>, Error> {
        let path = self.files.join(file.name());
        let content = fs::read(&path);
        let content =
            content.map_err(|source| Error::io(format!("read {}", path.display()), source));
        Ok(content?.into())
    }

    /// Where the certificates are.
    pub(crate) fn certificates(&self) -> &Path {
        &self.certificates
    }

    /// Directory for one server's configuration, pid file and log.
    pub(crate) fn prefix(&self, server: &str) -> Result<PathBuf, Error> {
        let prefix = self.work.join(server);
        fs::create_dir_all(&prefix)
            .map_err(|source| Error::io(format!("create {}", prefix.display()), source))?;
        Ok(prefix)
    }

    /// Makes the directory of one server's caches, without what an earlier run has left there.
    pub(crate) fn clear_caches(&self, server: &str) -> Result<(), Error> {
        let caches = self.prefix(server)?.join("cache");
        let failed = |source| Error::io(format!("clear {}", caches.display()), source);
        match fs::remove_dir_all(&caches) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::create_dir(&caches).map_err(failed)
    }

    /// The configuration of one server.
    pub(crate) fn configuration(&self, kind: Kind, ports: &Ports, variant: Variant<'_>) -> String {
        // As root, a server would switch to a user that cannot read the cache.
        let user = if rustix::process::geteuid().is_root() {
            kind.stay_root()
        } else {
            ""
        };
        // Without an origin, nothing requests a proxied file.
        let (origin_port, tls_origin_port) = match self.origin {
            Some((plain, tls)) => (plain.port(), tls.port()),
            None => (9, 9),
        };
        let mut text = kind.template().to_owned();
        let additions = variant.additions;
        let if_wanted = |is_wanted: bool, text| if is_wanted { text } else { "" };
        let http3 = match kind {
            Kind::H2o => H2O_HTTP3,
            Kind::Nginx | Kind::Haproxy => HTTP3,
        };
        for (name, value) in [
            ("@USER@", user),
            ("@WORKERS@", &variant.workers.to_string()),
            ("@MAIN@", variant.main),
            ("@EVENTS@", variant.events),
            ("@DIRECTIVES@", variant.directives),
            ("@RSA_DIRECTIVES@", variant.rsa_directives),
            ("@UPSTREAM_DIRECTIVES@", variant.upstream_directives),
            ("@NAMED_SERVERS@", &self.named_servers(additions.names)),
            ("@STREAM@", if_wanted(additions.stream, STREAM)),
            ("@HTTP3@", if_wanted(additions.http3, http3)),
            ("@ORIGIN_PORT@", &origin_port.to_string()),
            ("@TLS_ORIGIN_PORT@", &tls_origin_port.to_string()),
            ("@FILES@", &self.files.display().to_string()),
            ("@CERTIFICATES@", &self.certificates.display().to_string()),
        ] {
            text = text.replace(name, value);
        }
        // After what has placeholders of its own.
        for listener in Listener::ALL {
            text = text.replace(listener.placeholder(), &ports.of(listener).to_string());
        }
        text
    }

    /// `count` servers, each with its name, on the port of [`Listener::P256`].
    fn named_servers(&self, count: usize) -> String {
        let directory = self.certificates.display();
        let server = |index: usize| {
            format!(
                "server {{ listen 127.0.0.1:@P256_PORT@ ssl; server_name {}; \
                 ssl_certificate \"{directory}/p256.crt\"; \
                 ssl_certificate_key \"{directory}/p256.key\"; root \"{}\"; }}\n",
                server_name(index),
                self.files.display()
            )
        };
        (0..count).map(server).collect()
    }
}

/// The name of one of the servers that share a port.
pub(crate) fn server_name(index: usize) -> String {
    format!("name-{index}.bench.test")
}

/// Creates a file without holes and without repetition within a page, or one that is a hole, and
/// reads it once so that it is in the page cache.
fn provide(path: &Path, file: File) -> io::Result<()> {
    let bytes = file.bytes();
    if file == File::Sparse {
        fs::File::create(path)?.set_len(bytes)?;
    } else if !fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes) {
        let mut file = io::BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut left = bytes;
        while left > 0 {
            // xorshift64: any content will do as long as it is not all zeroes.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let word = state.to_le_bytes();
            let count = left.min(word.len() as u64);
            file.write_all(&word[..count as usize])?;
            left -= count;
        }
        file.flush()?;
    }
    io::copy(&mut fs::File::open(path)?, &mut io::sink()).map(drop)
}
