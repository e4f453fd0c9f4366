//! Which servers of a configuration will use kernel TLS, and why others will not.

use super::report::{Certificate, Configuration, Finding, KeyAccelerator, Sendfile, Server, Use};
use crate::certificates::acme;
use sealane_conf::Config;
use sealane_conf::model::{
    self, AcmeCertificate, AsyncMode, Http, ListenAddress, Listener, Locations, MailStartTls,
    ServerKind,
};
use sealane_server::{HandshakeThreads, TlsOfServers};
use sealane_sys::process;
use sealane_tls::{Capabilities, KtlsMode, OfferedSuite, ServerTls, Unavailable};
use std::path::Path;

/// Judges every server with TLS.
pub(super) fn examine(
    file: &Path,
    config: &Config,
    workers: u32,
    tls: &TlsOfServers,
    capabilities: &Capabilities,
) -> (Configuration, Vec<Finding>) {
    let mut configuration = Configuration {
        file: file.to_owned(),
        workers,
        worker_connections: config.events.worker_connections,
        handshake_threads: HandshakeThreads::of(config).on(process::available_cpus()),
        servers: Vec::new(),
        keys: Vec::new(),
    };
    let mut problems = Vec::new();
    let Some(http) = &config.http else {
        return (configuration, Vec::new());
    };
    for (at, (server, tls)) in http.servers.iter().zip(&tls.servers).enumerate() {
        let (with_tls, with_starttls) = tls_addresses(http, at);
        let addresses = || with_tls.iter().chain(&with_starttls);
        let with_quic = quic_addresses(http, at);
        let has_tls = addresses().next().is_some() || !with_quic.is_empty();
        let Some(tls) = tls.as_ref().filter(|_| has_tls) else {
            continue;
        };
        let facts = Facts {
            mode: tls.ktls_mode(),
            min_body_bytes: server.tls.as_ref().map_or(0, |tls| tls.ktls.min_size_bytes),
            switched_off_by: switched_off_by(server),
            certificates: !is_rejecting(server),
            only_quic: addresses().next().is_none(),
            only_unix: addresses().all(|address| matches!(address, ListenAddress::Unix(_))),
            sendfile: sendfile(server),
            passes_sessions_on: server.kind() != ServerKind::Http,
            offered: offered(tls, capabilities),
        };
        let judgement = facts.judge();
        let place = format!("{}:{}", server.origin.file.display(), server.origin.line);
        if let Some(problem) = judgement.problem {
            let who = match server.primary_name.as_str() {
                "" => place.clone(),
                name => format!("{name} ({place})"),
            };
            add(&mut problems, problem, who);
        }
        let (in_kernel, in_user_space) = facts.split();
        configuration.servers.push(Server {
            name: server.primary_name.clone(),
            listen: with_tls.iter().map(ToString::to_string).collect(),
            starttls: word_of_starttls(server),
            starttls_listen: with_starttls.iter().map(ToString::to_string).collect(),
            quic_listen: with_quic.iter().map(ToString::to_string).collect(),
            place,
            ssl_ktls: match facts.mode {
                KtlsMode::On => "on",
                KtlsMode::Auto => "auto",
                KtlsMode::Off => "off",
            },
            kernel_tls: judgement.kernel_tls,
            detail: judgement.detail,
            sendfile: facts.sendfile,
            in_kernel,
            in_user_space,
            ssl_async: ssl_async(server),
            accelerators: accelerators(tls),
            certificates: certificates(tls, server),
        });
    }
    let mut findings = findings(problems);
    findings.extend(certificates_that_end(&configuration.servers));
    (configuration, findings)
}

/// Days before its end from which a certificate is something to improve.
const DAYS_TO_RENEW: i64 = 14;

fn certificates(tls: &ServerTls, server: &model::Server) -> Vec<Certificate> {
    let day_s = 24 * 3600;
    let now_s = sealane_sys::time::unix_coarse_s();
    let days = |end: i64| end.saturating_sub(now_s).div_euclid(day_s);
    let found = tls.certificates().map(|certificate| Certificate {
        file: certificate.label.to_owned(),
        key: certificate.key.name(),
        days_left: certificate.ends_s.map(days),
        staples: certificate.staples.map(str::to_owned),
        last_attempt: None,
    });
    let ordered = server.acme_certificate.as_ref();
    let ordered = ordered.map(|conf| of_acme_server(conf, now_s));
    found.chain(ordered).collect()
}

/// What the state directory says about a certificate from an ACME server.
fn of_acme_server(conf: &AcmeCertificate, now_s: i64) -> Certificate {
    let (ends_s, last_attempt) = match acme::kept(conf) {
        Err(why) => (None, format!("is not known ({why})")),
        Ok(None) => (None, "is not known".to_owned()),
        Ok(Some(record)) => (record.ends_s(), record.last_attempt(now_s)),
    };
    Certificate {
        file: format!(
            "{} of acme issuer \"{}\"",
            acme::label(conf),
            conf.issuer.name
        ),
        key: conf.key.name(),
        days_left: ends_s.map(|ends_s| ends_s.saturating_sub(now_s).div_euclid(24 * 3600)),
        staples: None,
        last_attempt: Some(last_attempt),
    }
}

/// One finding for each file.
fn certificates_that_end(servers: &[Server]) -> Vec<Finding> {
    let mut known: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for certificate in servers.iter().flat_map(|server| &server.certificates) {
        let soon = certificate.days_left.filter(|days| *days < DAYS_TO_RENEW);
        let Some(days) = soon.filter(|_| !known.contains(&certificate.file.as_str())) else {
            continue;
        };
        known.push(&certificate.file);
        let file = &certificate.file;
        let what = match days {
            ..=-1 => format!("certificate {file} has ended: clients refuse it"),
            0 => format!("certificate {file} ends within a day"),
            1 => format!("certificate {file} ends in 1 day"),
            _ => format!("certificate {file} ends in {days} days"),
        };
        let remedy = match &certificate.last_attempt {
            Some(attempt) => format!("it renews itself; the last attempt {attempt}"),
            None => "renew it, then: sealane -s reload".to_owned(),
        };
        found.push(Finding::new("certificate_ends", what, remedy));
    }
    found
}

fn ssl_async(server: &model::Server) -> &'static str {
    match server.tls.as_ref().map(|tls| tls.async_mode) {
        Some(AsyncMode::On) => "on",
        Some(AsyncMode::Off) => "off",
        Some(AsyncMode::Auto) | None => "auto",
    }
}

fn accelerators(tls: &ServerTls) -> Vec<KeyAccelerator> {
    tls.accelerators()
        .into_iter()
        .map(|(key, accelerator)| KeyAccelerator {
            key: key.name(),
            accelerator,
        })
        .collect()
}

/// Records that `who` has a problem, which others may have too.
fn add(problems: &mut Vec<(Problem, Vec<String>)>, problem: Problem, who: String) {
    match problems.iter_mut().find(|(known, _)| *known == problem) {
        Some((_, servers)) => servers.push(who),
        None => problems.push((problem, vec![who])),
    }
}

/// One finding for each problem, with the servers that have it.
fn findings(problems: Vec<(Problem, Vec<String>)>) -> Vec<Finding> {
    let finding = |(problem, servers): (Problem, Vec<String>)| {
        let who = match servers.as_slice() {
            [one] => format!("server {one}"),
            [first, second] => format!("servers {first} and {second}"),
            [first, rest @ ..] => format!("servers {first} and {} more", rest.len()),
            [] => String::new(),
        };
        let what = format!("{who}: {}", problem.what);
        Finding::new(problem.id, what, problem.remedy.to_owned())
    };
    problems.into_iter().map(finding).collect()
}

/// The addresses of a server at which TLS begins with the connection over TCP, and those at which
/// it may begin by STARTTLS. The kernel seals no packets of QUIC.
fn tls_addresses(http: &Http, at: usize) -> (Vec<&ListenAddress>, Vec<&ListenAddress>) {
    let has_starttls = word_of_starttls(&http.servers[at]) != "off";
    let own = http.listeners.iter().filter(|it| it.servers.contains(&at));
    let own = own.filter(|listener| !listener.options.quic);
    let of_tls = own.filter(|listener| listener.options.ssl || has_starttls);
    let (with_tls, with_starttls): (Vec<&Listener>, Vec<&Listener>) =
        of_tls.partition(|listener| listener.options.ssl);
    let with_tls = with_tls.into_iter().map(|listener| &listener.address);
    let with_starttls = with_starttls.into_iter().map(|listener| &listener.address);
    (with_tls.collect(), with_starttls.collect())
}

/// The addresses of a server with `quic`.
fn quic_addresses(http: &Http, at: usize) -> Vec<&ListenAddress> {
    let own = http.listeners.iter().filter(|it| it.servers.contains(&at));
    let with_quic = own.filter(|listener| listener.options.quic);
    with_quic.map(|listener| &listener.address).collect()
}

/// `starttls` of a server of `mail`.
fn word_of_starttls(server: &model::Server) -> &'static str {
    match server.mail.as_ref().map(|mail| mail.starttls) {
        Some(MailStartTls::On) => "on",
        Some(MailStartTls::Only) => "only",
        Some(MailStartTls::Off) | None => "off",
    }
}

fn is_rejecting(server: &model::Server) -> bool {
    let tls = server.tls.as_ref();
    tls.is_some_and(|tls| tls.reject_handshake || tls.certificates.is_empty())
}

/// The directive that switches kernel TLS off, if one does.
fn switched_off_by(server: &model::Server) -> &'static str {
    let mode = server.tls.as_ref().and_then(|tls| tls.ktls.mode);
    match mode {
        Some(model::KtlsMode::Off) => "ssl_ktls off",
        _ => "ssl_conf_command Options -KTLS",
    }
}

/// Where a server and its locations have `sendfile on`.
fn sendfile(server: &model::Server) -> Sendfile {
    let mut seen = (false, false);
    note(server.conf.sendfile, &mut seen);
    walk(&server.locations, &mut seen);
    match seen {
        (true, true) => Sendfile::Partly,
        (true, false) => Sendfile::On,
        (false, _) => Sendfile::Off,
    }
}

fn walk(locations: &Locations, seen: &mut (bool, bool)) {
    let Locations {
        exact,
        prefix,
        regex,
        named,
    } = locations;
    for location in [exact, prefix, regex, named].into_iter().flatten() {
        note(location.conf.sendfile, seen);
        walk(&location.children, seen);
    }
}

/// Remembers that `sendfile` is on, or off, somewhere.
fn note(on: bool, (seen_on, seen_off): &mut (bool, bool)) {
    *seen_on |= on;
    *seen_off |= !on;
}

/// Each suite that the server offers, and whether this kernel supports it.
fn offered(
    tls: &ServerTls,
    capabilities: &Capabilities,
) -> Vec<(&'static str, Result<(), Option<Unavailable>>)> {
    let verdict = |suite: &OfferedSuite| match suite.kernel {
        None => Err(None),
        Some((version, cipher)) => capabilities
            .transmit(version, cipher)
            .map_err(|reason| Some(reason.clone())),
    };
    let suites = tls.offered_suites();
    suites
        .iter()
        .map(|suite| (suite.name, verdict(suite)))
        .collect()
}

/// What the judgement depends on.
struct Facts {
    mode: KtlsMode,
    min_body_bytes: u64,
    switched_off_by: &'static str,
    /// Whether it completes handshakes at all.
    certificates: bool,
    only_quic: bool,
    only_unix: bool,
    sendfile: Sendfile,
    /// It has sessions of layer 4, and no files.
    passes_sessions_on: bool,
    /// By name: works, or this kernel's reason; `None` for a suite that no
    /// kernel knows.
    offered: Vec<(&'static str, Result<(), Option<Unavailable>>)>,
}

/// What becomes of a server.
struct Judgement {
    kernel_tls: Use,
    detail: String,
    /// When the configuration is the cause.
    problem: Option<Problem>,
}

/// What a configuration can do better.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    id: &'static str,
    what: String,
    remedy: &'static str,
}

impl Facts {
    /// The checks in the order in which the server makes them.
    fn judge(&self) -> Judgement {
        let plain = |kernel_tls, detail: String| Judgement {
            kernel_tls,
            detail,
            problem: None,
        };
        let problem = |id, detail: &str, remedy| Judgement {
            kernel_tls: Use::No,
            detail: detail.to_owned(),
            problem: Some(Problem {
                id,
                what: format!("no kernel TLS: {detail}"),
                remedy,
            }),
        };
        if !self.certificates {
            return plain(Use::Off, "it rejects handshakes".to_owned());
        }
        if self.mode == KtlsMode::Off {
            return plain(Use::Off, self.switched_off_by.to_owned());
        }
        if self.only_quic {
            return plain(Use::No, "QUIC has encryption of its own".to_owned());
        }
        if self.only_unix {
            return plain(
                Use::No,
                "a Unix socket: the kernel supports TCP only".to_owned(),
            );
        }
        let knowable = || {
            self.offered
                .iter()
                .filter(|(_, verdict)| *verdict != Err(None))
        };
        if knowable().next().is_none() {
            return problem(
                "no_kernel_suite",
                "ssl_protocols and ssl_ciphers enable no suite that the kernel supports",
                "enable TLSv1.3, or a suite of TLSv1.2 with AES-GCM or ChaCha20-Poly1305; for \
                 example: ssl_protocols TLSv1.2 TLSv1.3;",
            );
        }
        if self.mode == KtlsMode::Auto && self.copies_files() {
            return problem("sendfile_off", "sendfile is off", "sendfile on;");
        }
        let refused: Vec<&(&str, _)> = knowable().filter(|(_, verdict)| verdict.is_err()).collect();
        let works = knowable().any(|(_, verdict)| verdict.is_ok());
        match refused.first() {
            Some((_, Err(Some(reason)))) if !works => plain(Use::No, reason.to_string()),
            Some((name, Err(Some(reason)))) => {
                let others = match refused.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                };
                let detail = format!("{}; not for {name}{others}: {reason}", self.how());
                plain(Use::Partly, detail)
            }
            _ => self.full(),
        }
    }

    /// Its files pass through the process.
    fn copies_files(&self) -> bool {
        self.sendfile == Sendfile::Off && !self.passes_sessions_on
    }

    /// Every suite works.
    fn full(&self) -> Judgement {
        Judgement {
            kernel_tls: Use::Yes,
            detail: self.how(),
            problem: self.copies_files().then(|| Problem {
                id: "sendfile_off",
                what: "the kernel encrypts, but with sendfile off every byte is first copied \
                       through the process"
                    .to_owned(),
                remedy: "sendfile on;",
            }),
        }
    }

    fn how(&self) -> String {
        let when = match self.mode {
            KtlsMode::Auto if self.passes_sessions_on => format!(
                "for sessions that send {} from a server without TLS",
                size(self.min_body_bytes)
            ),
            KtlsMode::Auto => format!("for files from {}", size(self.min_body_bytes)),
            KtlsMode::On | KtlsMode::Off => "from the end of the handshake".to_owned(),
        };
        match self.sendfile {
            _ if self.passes_sessions_on => when,
            Sendfile::On => when,
            Sendfile::Partly => format!("{when}, where sendfile is on"),
            Sendfile::Off => format!("{when}, without sendfile"),
        }
    }

    /// The suites that the kernel seals, and those that stay in user space.
    fn split(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let never =
            self.mode == KtlsMode::Off || self.only_quic || self.only_unix || !self.certificates;
        let (kernel, user): (Vec<_>, Vec<_>) = self
            .offered
            .iter()
            .partition(|(_, verdict)| verdict.is_ok() && !never);
        let names = |list: Vec<&(&'static str, _)>| list.iter().map(|(name, _)| *name).collect();
        (names(kernel), names(user))
    }
}

/// A size as the configuration writes it.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::{MemoryLoader, Options};

    const NO_MODULE: Unavailable = Unavailable::NoModule { may_load: false };

    fn good() -> Facts {
        Facts {
            mode: KtlsMode::On,
            min_body_bytes: 64 << 10,
            switched_off_by: "ssl_ktls off",
            certificates: true,
            only_quic: false,
            only_unix: false,
            sendfile: Sendfile::On,
            passes_sessions_on: false,
            offered: vec![
                ("TLS_AES_128_GCM_SHA256", Ok(())),
                ("AES128-GCM-SHA256", Ok(())),
                ("AES128-SHA", Err(None)),
            ],
        }
    }

    fn judged(change: impl FnOnce(&mut Facts)) -> (Use, String, Option<&'static str>) {
        let mut facts = good();
        change(&mut facts);
        let Judgement {
            kernel_tls,
            detail,
            problem,
        } = facts.judge();
        (kernel_tls, detail, problem.map(|problem| problem.id))
    }

    #[test]
    fn a_good_server_says_when_the_kernel_takes_over() {
        let (kernel_tls, detail, problem) = judged(|_| {});
        assert_eq!((kernel_tls, problem), (Use::Yes, None));
        assert_eq!(detail, "from the end of the handshake");
        let (kernel_tls, detail, problem) = judged(|facts| facts.mode = KtlsMode::Auto);
        assert_eq!((kernel_tls, problem), (Use::Yes, None));
        assert_eq!(detail, "for files from 64 KiB");
    }

    #[test]
    fn every_reason_is_named() {
        for (change, kernel_tls, words, problem) in [
            (
                Box::new(|facts: &mut Facts| facts.mode = KtlsMode::Off) as Box<dyn Fn(&mut Facts)>,
                Use::Off,
                "ssl_ktls off",
                None,
            ),
            (
                Box::new(|facts| facts.certificates = false),
                Use::Off,
                "rejects",
                None,
            ),
            (
                Box::new(|facts| facts.only_quic = true),
                Use::No,
                "QUIC has encryption of its own",
                None,
            ),
            (
                Box::new(|facts| facts.only_unix = true),
                Use::No,
                "TCP only",
                None,
            ),
            (
                Box::new(|facts| facts.offered = vec![("AES128-SHA", Err(None))]),
                Use::No,
                "no suite",
                Some("no_kernel_suite"),
            ),
            (
                Box::new(|facts| {
                    facts.mode = KtlsMode::Auto;
                    facts.sendfile = Sendfile::Off;
                }),
                Use::No,
                "sendfile is off",
                Some("sendfile_off"),
            ),
            (
                Box::new(|facts| facts.sendfile = Sendfile::Off),
                Use::Yes,
                "without sendfile",
                Some("sendfile_off"),
            ),
            (
                Box::new(|facts| {
                    facts.mode = KtlsMode::Auto;
                    facts.sendfile = Sendfile::Off;
                    facts.passes_sessions_on = true;
                }),
                Use::Yes,
                "for sessions that send 64 KiB from a server without TLS",
                None,
            ),
            (
                Box::new(|facts| {
                    facts.sendfile = Sendfile::Off;
                    facts.passes_sessions_on = true;
                }),
                Use::Yes,
                "from the end of the handshake",
                None,
            ),
            (
                Box::new(|facts| facts.sendfile = Sendfile::Partly),
                Use::Yes,
                "where sendfile is on",
                None,
            ),
            (
                Box::new(|facts| facts.offered[1].1 = Err(Some(NO_MODULE))),
                Use::Partly,
                "not for AES128-GCM-SHA256: ",
                None,
            ),
            (
                Box::new(|facts| {
                    facts.offered[0].1 = Err(Some(NO_MODULE));
                    facts.offered[1].1 = Err(Some(NO_MODULE));
                }),
                Use::No,
                "not loaded",
                None,
            ),
        ] {
            let (got, detail, id) = judged(change);
            assert_eq!((got, id), (kernel_tls, problem), "{detail}");
            assert!(detail.contains(words), "{detail}");
        }
    }

    #[test]
    fn suites_are_listed_where_they_are_sealed() {
        let (kernel, user) = good().split();
        assert_eq!(kernel, ["TLS_AES_128_GCM_SHA256", "AES128-GCM-SHA256"]);
        assert_eq!(user, ["AES128-SHA"]);
        let off = Facts {
            mode: KtlsMode::Off,
            ..good()
        };
        assert!(off.split().0.is_empty());
    }

    #[test]
    fn one_problem_of_many_servers_is_said_once() {
        let problem = |what: &str| Problem {
            id: "x",
            what: what.to_owned(),
            remedy: "y",
        };
        let mut problems = Vec::new();
        for who in ["a", "b", "c"] {
            add(&mut problems, problem("same"), who.to_owned());
        }
        add(&mut problems, problem("other"), "d".to_owned());
        let texts: Vec<String> = findings(problems).into_iter().map(|f| f.what).collect();
        assert_eq!(texts, ["servers a and 2 more: same", "server d: other"]);
    }

    #[test]
    fn addresses_with_starttls_have_tls_too() {
        let text = "events { } mail { auth_http 127.0.0.1:9000;
             ssl_certificate a.pem; ssl_certificate_key a.key;
             server { listen 127.0.0.1:143; listen 127.0.0.1:993 ssl; protocol imap; starttls only; }
             server { listen 127.0.0.1:110; protocol pop3; starttls on; }
             server { listen 127.0.0.1:25; protocol smtp; } }";
        let mut loader = MemoryLoader::new().with("/nginx.conf", text);
        let config = sealane_conf::parse(&Options::new("/nginx.conf", "/"), &mut loader);
        let config = config.expect("a good one");
        let http = config.http.as_ref().expect("it has servers");
        let of = |at: usize| {
            let (with_tls, with_starttls) = tls_addresses(http, at);
            let texts = |all: Vec<&ListenAddress>| -> Vec<String> {
                all.into_iter().map(ToString::to_string).collect()
            };
            let word = word_of_starttls(&http.servers[at]);
            (texts(with_tls), word, texts(with_starttls))
        };
        let list = |texts: &[&str]| -> Vec<String> {
            texts.iter().map(|text| (*text).to_owned()).collect()
        };
        assert_eq!(
            of(0),
            (list(&["127.0.0.1:993"]), "only", list(&["127.0.0.1:143"]))
        );
        assert_eq!(of(1), (list(&[]), "on", list(&["127.0.0.1:110"])));
        assert_eq!(of(2), (list(&[]), "off", list(&[])));
    }

    #[test]
    fn addresses_with_quic_are_beside_those_of_tcp() {
        let text = "events { } http { ssl_certificate a.pem; ssl_certificate_key a.key;
             server { listen 127.0.0.1:443 ssl; listen 127.0.0.1:443 quic; }
             server { listen 127.0.0.1:444 quic; }
             server { listen 127.0.0.1:80; } }";
        let mut loader = MemoryLoader::new().with("/nginx.conf", text);
        let config = sealane_conf::parse(&Options::new("/nginx.conf", "/"), &mut loader);
        let http = config.expect("a good one").http.expect("it has servers");
        let of = |at: usize| {
            let (with_tls, _) = tls_addresses(&http, at);
            let texts = |all: Vec<&ListenAddress>| -> Vec<String> {
                all.into_iter().map(ToString::to_string).collect()
            };
            [texts(with_tls), texts(quic_addresses(&http, at))]
        };
        let [first, second] = ["127.0.0.1:443", "127.0.0.1:444"].map(|text| vec![text.to_owned()]);
        assert_eq!(of(0), [first.clone(), first]);
        assert_eq!(of(1), [Vec::new(), second]);
        assert!(of(2).iter().all(Vec::is_empty));
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size(65_536), "64 KiB");
        assert_eq!(size(2 << 20), "2 MiB");
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1500), "1500 bytes");
    }
}
