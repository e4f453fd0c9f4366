//! What is worth enabling in a configuration: optional settings that are off or could be better,
//! each of one or two lines.

use super::report::Advice;
use crate::temp_paths;
use sealane_conf::Config;
use sealane_conf::met::Met;
use sealane_conf::model::{
    AsyncMode, Http, LocationConf, Locations, Matcher, Server, ServerKind, SessionCache, Tls,
};
use std::time::Duration;

/// nginx's default of `ssl_session_timeout`.
const SHORT_SESSION: Duration = Duration::from_secs(300);

/// What a configuration has that advice depends on.
#[derive(Debug, Default)]
struct Facts {
    /// Some server completes handshakes.
    tls: bool,
    /// A server with TLS sends files, and `sendfile` is off there.
    files_without_sendfile: bool,
    /// Files are served at all.
    files: bool,
    /// A TLS listener or server has no HTTP/2.
    without_http2: bool,
    /// No session can be resumed by anything.
    no_resumption: bool,
    /// Tickets are sealed with keys of the server's own that are forgotten when it stops.
    forgetful_tickets: bool,
    /// Tickets are sealed with keys from files.
    ticket_key_files: bool,
    /// Sessions are worth five minutes.
    short_sessions: bool,
    /// What is offered where TLS 1.3 is not.
    without_tls13: Option<String>,
    /// The groups that are named, where none withstands quantum computers.
    curves: Option<String>,
    /// `ssl_async off`.
    async_off: bool,
}

/// What is worth switching on, the most useful first.
pub(super) fn of(config: &Config, met: &Met) -> Vec<Advice> {
    let Some(http) = &config.http else {
        return Vec::new();
    };
    let facts = Facts::of(http);
    let mut list = Vec::new();
    if !met.has("worker_processes") {
        list.push(Advice::new(
            "workers",
            "One worker thread serves everything; `auto` starts one per CPU.",
            &["worker_processes auto;"],
        ));
        list.iter_mut()
            .for_each(|advice| advice.into = "main".to_owned());
    }
    files(&facts, met, &mut list);
    handshakes(&facts, met, &mut list);
    http3(config, http, met, &mut list);
    sessions(&facts, met, &mut list);
    if !http.servers.iter().any(|server| is_of_http(server)) {
        let of_block = list.iter_mut().filter(|advice| advice.into == "http");
        let has_stream = http
            .servers
            .iter()
            .any(|server| server.kind() == ServerKind::Stream);
        let block = if has_stream { "stream" } else { "mail" };
        of_block.for_each(|advice| advice.into = block.to_owned());
    }
    list
}

fn files(facts: &Facts, met: &Met, list: &mut Vec<Advice>) {
    if facts.files_without_sendfile {
        let advice = Advice::new(
            "sendfile",
            "Files are copied through the process. With `sendfile` they go from the page cache to \
             the socket, over TLS too: the kernel encrypts them (kernel TLS, `ssl_ktls auto`). \
             `sealane doctor -c FILE` shows whether this machine supports it.",
            &["sendfile on;"],
        );
        list.push(match met.has("sendfile") {
            true => advice.instead_of("sendfile off;"),
            false => advice,
        });
    } else if facts.tls && facts.files && !met.has("ssl_ktls") && !met.has("ssl_conf_command") {
        list.push(Advice::new(
            "ktls",
            "The kernel already encrypts files of 64k or more (`ssl_ktls auto`); with `on` it \
             encrypts whole connections, which pays off if most responses are files. `sealane \
             doctor -c FILE` shows whether this machine supports it.",
            &["ssl_ktls on;"],
        ));
    }
    if facts.files && !met.has("open_file_cache") {
        list.push(Advice::new(
            "open_file_cache",
            "Files are opened for every request. The cache also keeps the contents of small files; \
             changes are detected after `open_file_cache_valid` (60s).",
            &["open_file_cache max=10000;"],
        ));
    }
}

fn handshakes(facts: &Facts, met: &Met, list: &mut Vec<Advice>) {
    if let Some(protocols) = &facts.without_tls13 {
        list.push(
            Advice::new(
                "tls13",
                "TLS 1.3 is disabled: handshakes take one more round trip than necessary.",
                &[&format!("ssl_protocols {protocols} TLSv1.3;")],
            )
            .instead_of(&format!("ssl_protocols {protocols};")),
        );
    }
    if facts.without_http2 && !met.has("http2") {
        let why = "With HTTP/2, browsers use one connection for all requests.";
        list.push(Advice::new("http2", why, &["http2 on;"]));
    }
    if let Some(curves) = &facts.curves {
        list.push(
            Advice::new(
                "curves",
                "X25519MLKEM768 is missing; it prevents a future quantum computer from decrypting \
                 recorded traffic. `auto`, the default, starts with it.",
                &["ssl_ecdh_curve auto;"],
            )
            .instead_of(&format!("ssl_ecdh_curve {curves};")),
        );
    }
    if facts.async_off {
        list.push(
            Advice::new(
                "async",
                "A private key operation blocks all connections of its worker thread. `auto`, the \
                 default, moves it to a handshake thread when others would wait.",
                &["ssl_async auto;"],
            )
            .instead_of("ssl_async off;"),
        );
    }
}

/// Browsers come over TCP first, and have to be told.
fn http3(config: &Config, http: &Http, met: &Met, list: &mut Vec<Advice>) {
    let mut listeners = http.listeners.iter();
    let Some(listener) = listeners.find(|listener| listener.options.quic) else {
        return;
    };
    let mut headers = temp_paths::locations(config).flat_map(|conf| &conf.add_headers[..]);
    let is_told = headers.any(|header| header.name.eq_ignore_ascii_case("Alt-Svc"));
    if is_told || met.has("more_set_headers") {
        return;
    }
    let port = listener.address.inet().map_or(443, |inet| inet.port());
    list.push(Advice::new(
        "alt_svc",
        "Browsers use HTTP/3 once a response over TCP has told them of it. Where a server or \
         location has an `add_header` of its own, this line is needed there too.",
        &[&format!(
            "add_header Alt-Svc 'h3=\":{port}\"; ma=86400' always;"
        )],
    ));
}

fn sessions(facts: &Facts, met: &Met, list: &mut Vec<Advice>) {
    if facts.no_resumption {
        list.push(Advice::new(
            "resumption",
            "Tickets are off and there is no cache, so every connection needs a full handshake \
             with a private key operation.",
            &[
                "ssl_session_cache shared:SSL:10m;",
                "ssl_session_timeout 1d;",
            ],
        ));
    } else if facts.short_sessions && !met.has("ssl_session_timeout") {
        list.push(Advice::new(
            "session_timeout",
            "A session can be resumed for only five minutes; a day saves most full handshakes of \
             returning clients.",
            &["ssl_session_timeout 1d;"],
        ));
    }
    if facts.ticket_key_files && !met.has("ssl_session_store") {
        list.push(Advice::new(
            "session_store",
            "Ticket keys come from files that must be rotated manually. With Redis or Valkey, \
             nodes can share sessions and automatically rotated keys.",
            &["ssl_session_store redis://127.0.0.1:6379;"],
        ));
    } else if facts.forgetful_tickets && !met.has("ssl_session_ticket_state") {
        list.push(Advice::new(
            "ticket_state",
            "Tickets survive reloads and upgrades, but not a restart. A file with their keys that \
             only root can read preserves them across restarts too; `ssl_session_store \
             redis://...` shares them between nodes.",
            &["ssl_session_ticket_state /var/lib/sealane/ticket-keys;"],
        ));
    }
}

impl Advice {
    fn new(id: &'static str, why: &str, add: &[&str]) -> Advice {
        Advice {
            id,
            why: why.to_owned(),
            into: "http".to_owned(),
            remove: Vec::new(),
            add: add.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    /// The same where there is already a line.
    fn instead_of(mut self, line: &str) -> Advice {
        self.into = "where it stands now".to_owned();
        self.remove.push(line.to_owned());
        self
    }
}

impl Facts {
    fn of(http: &Http) -> Facts {
        let mut facts = Facts::default();
        for (at, server) in http.servers.iter().enumerate() {
            let mut listeners = http.listeners.iter();
            let reached = listeners.any(|listener| {
                let has_tls = listener.options.ssl || listener.options.quic;
                has_tls && listener.servers.contains(&at)
            });
            let (mut files, mut without_sendfile) = (false, false);
            let is_of_http = is_of_http(server);
            if is_of_http && server.script.is_none() && !has_root_location(&server.locations) {
                note_files(&server.conf, &mut files, &mut without_sendfile);
            }
            walk(&server.locations, &mut files, &mut without_sendfile);
            facts.files |= files;
            let Some(tls) = server.tls.as_ref().filter(|_| reached) else {
                continue;
            };
            if tls.reject_handshake || tls.certificates.is_empty() {
                continue;
            }
            facts.tls = true;
            facts.files_without_sendfile |= files && without_sendfile;
            facts.note_tls(tls);
            facts.without_http2 |= is_of_http && !has_http2(http, server, at);
        }
        facts
    }

    fn note_tls(&mut self, tls: &Tls) {
        let has_cache = !matches!(tls.session_cache, SessionCache::Off | SessionCache::None);
        let has_store = tls.session_store.is_some();
        self.no_resumption |= !tls.session_tickets && !has_cache && !has_store;
        self.short_sessions |= tls.session_timeout == SHORT_SESSION;
        let own_keys = tls.session_tickets && tls.session_ticket_keys.is_empty();
        self.forgetful_tickets |= own_keys && tls.session_ticket_state.is_none() && !has_store;
        self.ticket_key_files |= !tls.session_ticket_keys.is_empty() && !has_store;
        if !tls.protocols.tls_1_3 {
            let versions = [
                (tls.protocols.tls_1_0, "TLSv1"),
                (tls.protocols.tls_1_1, "TLSv1.1"),
                (tls.protocols.tls_1_2, "TLSv1.2"),
            ];
            let offered = versions.iter().filter(|(offered, _)| *offered);
            let offered: Vec<&str> = offered.map(|(_, name)| *name).collect();
            self.without_tls13.get_or_insert_with(|| offered.join(" "));
        }
        self.async_off |= tls.async_mode == AsyncMode::Off;
        let curves = &tls.ecdh_curve;
        if curves != "auto" && !curves.to_ascii_uppercase().contains("MLKEM") {
            self.curves.get_or_insert_with(|| curves.clone());
        }
    }
}

fn is_of_http(server: &Server) -> bool {
    server.kind() == ServerKind::Http
}

fn has_http2(http: &Http, server: &Server, at: usize) -> bool {
    server.http2.enabled
        || http
            .listeners
            .iter()
            .filter(|listener| listener.options.ssl && listener.servers.contains(&at))
            .all(|listener| listener.options.http2)
}

/// Whether some location answers for everything that no other one does.
fn has_root_location(locations: &Locations) -> bool {
    locations.prefix.iter().any(
        |location| matches!(&location.matcher, Matcher::Prefix { prefix, .. } if &**prefix == b"/"),
    )
}

fn walk(locations: &Locations, files: &mut bool, without_sendfile: &mut bool) {
    for location in locations.all() {
        note_files(&location.conf, files, without_sendfile);
        walk(&location.children, files, without_sendfile);
    }
}

/// Whether files answer there, and go without `sendfile`.
fn note_files(conf: &LocationConf, files: &mut bool, without_sendfile: &mut bool) {
    // A location that only returns or passes on serves none; one with `if` may.
    let serves = conf.pass.is_none() && !conf.stub_status && conf.script.is_none();
    *files |= serves;
    *without_sendfile |= serves && !conf.sendfile;
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::{MemoryLoader, Options};

    #[test]
    fn browsers_are_told_of_http3() {
        let advice = |inside: &str| -> Vec<String> {
            let text = format!(
                "events {{}} http {{ ssl_certificate c; ssl_certificate_key k; {inside} }}"
            );
            let mut files = MemoryLoader::new().with("/c", text);
            let config = sealane_conf::parse(&Options::new("/c", "/p"), &mut files);
            let config = config.expect("it is right");
            let list = of(&config, &config.met).into_iter();
            let told = list.filter(|advice| advice.id == "alt_svc");
            told.flat_map(|advice| advice.add).collect()
        };
        assert_eq!(
            advice("server { listen 443 ssl; listen 8443 quic; }"),
            ["add_header Alt-Svc 'h3=\":8443\"; ma=86400' always;"]
        );
        for inside in [
            "server { listen 443 ssl; }",
            "server { listen 443 quic; location /a { add_header alt-svc 'h3=\":443\"'; } }",
            "add_header Alt-Svc 'h3=\":443\"'; server { listen 443 quic; }",
        ] {
            assert_eq!(advice(inside), [""; 0], "{inside}");
        }
    }
}
