//! What cases share: files, certificates, the standard server, and checks.

use crate::client::curl;
use crate::kernel::{self, TlsCounters};
use crate::program::{self, wait_for};
use crate::server::{Kind, Server};
use sealane_tests::random::Random;
use sealane_vm::protocol::Request;
use std::cell::{Cell, OnceCell, RefCell};
use std::path::Path;

/// The standard server's S1 server block.
pub(crate) const S1: u16 = 443;
/// As S1, with TLS 1.2 and every suite of S1's table.
pub(crate) const BOTH: u16 = 1443;
/// `ssl_ktls off`.
pub(crate) const OFF: u16 = 2443;
/// `ssl_ktls auto`.
pub(crate) const AUTO: u16 = 3443;

/// `ssl_ktls_key_records` at [`KEY_RECORDS`].
pub(crate) const LIMITED: u16 = 4443;
/// A limit that 16 MiB reach.
pub(crate) const KEY_RECORDS: usize = 1000;

/// The suite of the blocks with TLS 1.2 that no kernel can seal for.
pub(crate) const CBC_SUITE: &str = "ECDHE-RSA-AES128-SHA";

/// The size of `/data/4m`.
pub(crate) const FOUR_MIB: usize = 4 << 20;

/// Thrown by a case that the guest cannot run.
pub(crate) struct Skip(pub(crate) String);

/// A suite of S1's table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suite {
    /// OpenSSL's name.
    pub(crate) name: &'static str,
    pub(crate) is_tls13: bool,
}

const fn tls12(name: &'static str) -> Suite {
    Suite {
        name,
        is_tls13: false,
    }
}

const fn tls13(name: &'static str) -> Suite {
    Suite {
        name,
        is_tls13: true,
    }
}

/// S1's table, and the ChaCha20-Poly1305 suite that came to the kernel with TLS 1.2.
pub(crate) const SUITES: [Suite; 8] = [
    tls12("AES128-GCM-SHA256"),
    tls12("AES256-GCM-SHA384"),
    tls12("ECDHE-RSA-AES128-GCM-SHA256"),
    tls12("ECDHE-RSA-AES256-GCM-SHA384"),
    tls12("ECDHE-RSA-CHACHA20-POLY1305"),
    tls13("TLS_AES_128_GCM_SHA256"),
    tls13("TLS_AES_256_GCM_SHA384"),
    tls13("TLS_CHACHA20_POLY1305_SHA256"),
];

impl Suite {
    /// What makes curl use this suite alone.
    pub(crate) fn curl(self) -> [&'static str; 4] {
        match self.is_tls13 {
            true => ["--tlsv1.3", "--tls-max", "1.3", "--tls13-ciphers"],
            false => ["--tlsv1.2", "--tls-max", "1.2", "--ciphers"],
        }
    }

    /// The same for `openssl s_client`.
    pub(crate) fn s_client(self) -> [&'static str; 3] {
        match self.is_tls13 {
            true => ["-tls1_3", "-ciphersuites", self.name],
            false => ["-tls1_2", "-cipher", self.name],
        }
    }

    /// `$ssl_protocol`.
    pub(crate) fn protocol(self) -> &'static str {
        if self.is_tls13 { "TLSv1.3" } else { "TLSv1.2" }
    }
}

/// The laboratory: one for the guest's life.
pub(crate) struct Lab {
    pub(crate) request: Request,
    prepared: OnceCell<()>,
    server: RefCell<Option<std::rc::Rc<Server>>>,
    counters: Cell<TlsCounters>,
    notes: RefCell<String>,
}

impl Lab {
    pub(crate) fn new(request: Request) -> Lab {
        Lab {
            request,
            prepared: OnceCell::new(),
            server: RefCell::default(),
            counters: Cell::default(),
            notes: RefCell::default(),
        }
    }

    /// The count for this run: `long` under `make test-long`.
    pub(crate) fn scale(&self, bounded: usize, long: usize) -> usize {
        if self.request.long { long } else { bounded }
    }

    /// Ends the case as skipped.
    pub(crate) fn skip(&self, reason: &str) -> ! {
        std::panic::panic_any(Skip(reason.to_owned()))
    }

    /// Adds text to the report of a case that passes.
    pub(crate) fn note(&self, text: &str) {
        let mut notes = self.notes.borrow_mut();
        notes.push_str(text);
        notes.push('\n');
    }

    pub(crate) fn take_notes(&self) -> String {
        self.notes.take()
    }

    /// Files and certificates, once.
    #[track_caller]
    pub(crate) fn prepare(&self) {
        self.prepared.get_or_init(|| {
            kernel::mount_disk(if self.request.long { 256 } else { 96 });
            let mut random = Random::new(1);
            let mut write = |name: &str, bytes: usize| {
                let path = Path::new("/data").join(name);
                std::fs::write(path, random.bytes(bytes)).expect("the disk has room");
            };
            write("empty", 0);
            write("one", 1);
            write("small", 1000);
            write("4m", FOUR_MIB);
            if self.request.long {
                write("64m", 64 << 20);
            }
            std::fs::create_dir_all("/tmp/servers").expect("/tmp is writable");
            program::run(
                "openssl",
                &[
                    "req",
                    "-x509",
                    "-config",
                    "/dev/null",
                    "-newkey",
                    "rsa:2048",
                    "-nodes",
                    "-days",
                    "30",
                    "-subj",
                    "/CN=localhost",
                    "-keyout",
                    "/tmp/servers/rsa.key",
                    "-out",
                    "/tmp/servers/rsa.pem",
                ],
                b"",
            )
            .success();
        });
    }

    /// The standard server, started when it is first asked for.
    #[track_caller]
    pub(crate) fn server(&self) -> std::rc::Rc<Server> {
        self.prepare();
        let mut server = self.server.borrow_mut();
        if let Some(server) = server.as_ref().filter(|server| server.is_running()) {
            return std::rc::Rc::clone(server);
        }
        let started = Server::start(
            Kind::Sealane,
            "standard",
            &standard_configuration(),
            &[S1, BOTH, OFF, AUTO, LIMITED],
        );
        let started = std::rc::Rc::new(started);
        self.settle_counters();
        started.mark();
        *server = Some(std::rc::Rc::clone(&started));
        started
    }

    /// Ends the standard server, for cases that need the ports or another state of the kernel.
    #[track_caller]
    pub(crate) fn stop_server(&self) {
        if let Some(server) = self.server.take() {
            let server = std::rc::Rc::into_inner(server).expect("cases do not keep the server");
            server.stop();
        }
    }

    pub(crate) fn begin_case(&self) {
        self.notes.take();
        if let Some(server) = self.server.borrow().as_ref() {
            server.mark();
        }
        self.counters.set(TlsCounters::read());
    }

    /// What must hold after every case.
    #[track_caller]
    pub(crate) fn end_case(&self) {
        if let Some(server) = self.server.borrow().as_ref() {
            server.check();
        }
    }

    /// What the standard server logged in this case, without most debug lines.
    pub(crate) fn evidence(&self) -> String {
        let server = self.server.borrow();
        let Some(server) = server.as_ref() else {
            return String::new();
        };
        let log = server.log();
        let (debug, other): (Vec<&str>, Vec<&str>) =
            log.lines().partition(|line| line.contains("[debug]"));
        let last = |lines: &[&str]| lines[lines.len().saturating_sub(25)..].join("\n");
        let access = server.access_log();
        format!(
            "---- tls_stat before {:?}\n---- and now {:?}\n---- error log ----\n{}\n---- its last debug lines ----\n{}\n---- access log ----\n{}",
            self.counters.get(),
            TlsCounters::read(),
            last(&other),
            last(&debug),
            access[access.len().saturating_sub(5)..].join("\n"),
        )
    }

    /// Waits until no connection has a key in the kernel, and starts counting here.
    #[track_caller]
    pub(crate) fn settle_counters(&self) {
        wait_for("the kernel to forget closed connections", || {
            (TlsCounters::read().open == 0).then_some(())
        });
        self.counters.set(TlsCounters::read());
    }

    /// How many connections the kernel has sealed for in this case.
    pub(crate) fn sealed_connections(&self) -> u64 {
        TlsCounters::read().sent - self.counters.get().sent
    }

    /// How many connections have given the kernel a key to receive with, in this case.
    pub(crate) fn received_connections(&self) -> u64 {
        TlsCounters::read().received - self.counters.get().received
    }

    /// How many keys the kernel changed in this case.
    pub(crate) fn changed_keys(&self) -> u64 {
        TlsCounters::read().rekeyed - self.counters.get().rekeyed
    }

    /// Downloads a file of the site with curl, and checks every byte.
    #[track_caller]
    pub(crate) fn download(&self, port: u16, file: &str, options: &[&str]) {
        let expected = std::fs::read(Path::new("/data").join(file)).expect("the site has the file");
        let url = format!("https://127.0.0.1:{port}/{file}");
        let outcome = curl(&[options, &[url.as_str()]].concat()).success();
        assert_same(&outcome.stdout, &expected);
    }

    /// The `key=value` fields that the access log has for the latest request of a path.
    #[track_caller]
    pub(crate) fn logged(&self, server: &Server, path: &str) -> String {
        wait_for(&format!("an access log line about {path}"), || {
            server
                .access_log()
                .into_iter()
                .rev()
                .find(|line| line.ends_with(path))
        })
    }
}

/// Compares bodies without printing them.
#[track_caller]
pub(crate) fn assert_same(found: &[u8], expected: &[u8]) {
    let differs = found
        .iter()
        .zip(expected)
        .position(|(found, expected)| found != expected);
    assert_eq!(
        found.len(),
        expected.len(),
        "length of the body; the first difference is at {differs:?}"
    );
    assert_eq!(differs, None, "the first byte that differs");
}

/// The sum of the debug lines `SSL_sendfile: BYTES`.
pub(crate) fn sendfile_bytes(log: &str) -> u64 {
    let sent = log.lines().filter_map(|line| {
        let (_, count) = line.split_once("SSL_sendfile: ")?;
        count.split_whitespace().next()?.parse::<u64>().ok()
    });
    sent.sum()
}

/// The beginning of every configuration: S1's, with logs that show who seals. A worker that
/// makes a system call which the filter does not know ends, and the case fails.
pub(crate) const HEAD: &str = "
worker_processes auto;
worker_seccomp kill;
pid logs/server.pid;
error_log logs/error.log debug;
events {}
";

/// S1's server block, as it stands in the article.
pub(crate) fn s1_block(port: u16) -> String {
    format!(
        "server {{
            listen 127.0.0.1:{port} ssl;
            ssl_certificate /tmp/servers/rsa.pem;
            ssl_certificate_key /tmp/servers/rsa.key;
            ssl_conf_command Options KTLS;
            ssl_protocols TLSv1.3;
            location / {{ root /data; }}
        }}"
    )
}

/// A server block with TLS 1.2 and 1.3 and every suite of the table.
pub(crate) fn block(port: u16, directives: &str) -> String {
    let ciphers: Vec<&str> = SUITES
        .iter()
        .filter(|suite| !suite.is_tls13)
        .map(|suite| suite.name)
        .collect();
    format!(
        "server {{
            listen 127.0.0.1:{port} ssl;
            ssl_certificate /tmp/servers/rsa.pem;
            ssl_certificate_key /tmp/servers/rsa.key;
            ssl_protocols TLSv1.2 TLSv1.3;
            ssl_ciphers {}:{CBC_SUITE};
            {directives}
            location / {{ root /data; }}
        }}",
        ciphers.join(":")
    )
}

/// `http { … }` around server blocks, with the access log that cases read.
pub(crate) fn http(blocks: &[String]) -> String {
    format!(
        "{HEAD}
        http {{
            sendfile on;
            log_format sealing '$ssl_protocol $ssl_cipher ktls=$ssl_ktls reason=$ssl_ktls_reason $status $body_bytes_sent $request_uri';
            access_log logs/access.log sealing;
            {}
        }}",
        blocks.join("\n")
    )
}

/// `ssl_ktls` of the standard server's blocks, in order, as it comes out.
pub(crate) const MODES: [&str; 5] = ["on", "on", "off", "auto", "on"];

pub(crate) fn standard_configuration() -> String {
    http(&[
        s1_block(S1),
        block(BOTH, "ssl_conf_command Options KTLS;"),
        block(OFF, "ssl_ktls off;"),
        block(AUTO, "ssl_ktls auto;"),
        block(
            LIMITED,
            &format!("ssl_ktls on; ssl_ktls_key_records {KEY_RECORDS};"),
        ),
    ])
}
