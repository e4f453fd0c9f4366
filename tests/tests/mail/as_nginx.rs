//! The same sessions with nginx and with Sealane: what clients see, what the auth service is asked,
//! what mail servers are told, and what the error log says.

use super::cases::{CASES_BELOW, Case, all};
use super::*;
use sealane_tests::comparison::assert_as_nginx;
use sealane_tests::{Certificate, CertificateKey, NameServer};
use std::collections::BTreeMap;
use std::path::Path;

/// Every server, each with something of its own.
pub(super) fn servers(auth: u16, resolver: u16) -> String {
    let mut text = format!(
        "server_name mail.example.org; auth_http 127.0.0.1:{auth}/auth?x=1;
         auth_http_header X-Key 'a b'; auth_http_timeout 3s; timeout 20s;
         ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
         ssl_session_cache shared:mail:1m;"
    );
    for protocol in ["imap", "pop3", "smtp"] {
        // Names of ports have no digits.
        let port = protocol.trim_end_matches('3');
        let methods = match protocol {
            "pop3" => "plain apop cram-md5 external",
            _ => "plain login cram-md5 external",
        };
        let _ = write!(
            text,
            "server {{ listen 127.0.0.1:%{port}%; protocol {protocol}; {protocol}_auth {methods}; }}
             server {{ listen 127.0.0.1:%{port}_bare%; protocol {protocol}; }}
             server {{ listen 127.0.0.1:%{port}_own%; protocol {protocol};
                       {protocol}_capabilities ONE 'TWO 2' THREE; {protocol}_auth external; starttls on; }}
             server {{ listen 127.0.0.1:%{port}_on%; protocol {protocol}; starttls on; }}
             server {{ listen 127.0.0.1:%{port}_only%; protocol {protocol}; starttls only; }}
             server {{ listen 127.0.0.1:%{port}_ssl% ssl; protocol {protocol}; }}
             server {{ listen 127.0.0.1:%{port}_cert% ssl; protocol {protocol};
                       ssl_verify_client optional; ssl_client_certificate certificates/authority.pem;
                       auth_http_pass_client_cert on; }}
             server {{ listen 127.0.0.1:%{port}_must% ssl; protocol {protocol};
                       ssl_verify_client on; ssl_client_certificate certificates/authority.pem; }}
             server {{ listen 127.0.0.1:%{port}_pass%; protocol {protocol}; {protocol}_auth {methods};
                       proxy_pass_error_message on; }}
             server {{ listen 127.0.0.1:%{port}_errors%; protocol {protocol}; max_errors 2; }}
             server {{ listen 127.0.0.1:%{port}_short%; protocol {protocol}; timeout 700ms;
                       auth_http_timeout 500ms; proxy_timeout 600ms; proxy_buffer 128; }}
             server {{ listen 127.0.0.1:%{port}_outa%; protocol {protocol}; proxy_protocol on; }}
             server {{ listen 127.0.0.1:%{port}_outb%; protocol {protocol}; proxy_protocol v2; }}
             server {{ listen 127.0.0.1:%{port}_told% proxy_protocol; protocol {protocol}; }}
             server {{ listen 127.0.0.1:%{port}_trusted% proxy_protocol; protocol {protocol};
                       set_real_ip_from 127.0.0.0/8; proxy_protocol on; }}
             server {{ listen 127.0.0.1:%{port}_nowhere%; protocol {protocol}; auth_http 127.0.0.1:%dead%; }}
            "
        );
    }
    let _ = write!(
        text,
        "server {{ listen 127.0.0.1:%imap_small%; protocol imap; imap_client_buffer 64; }}
         server {{ listen 127.0.0.1:%smtp_small%; protocol smtp; smtp_client_buffer 64; }}
         server {{ listen 127.0.0.1:%smtp_open%; protocol smtp; smtp_auth plain none; }}
         server {{ listen 127.0.0.1:%smtp_openplain%; protocol smtp; smtp_auth none; xclient off; }}
         server {{ listen 127.0.0.1:%smtp_plain%; protocol smtp; xclient off; }}
         server {{ listen 127.0.0.1:%smtp_auth%; protocol smtp; proxy_smtp_auth on;
                   smtp_auth plain login cram-md5 external; }}
         server {{ listen 127.0.0.1:%smtp_authplain%; protocol smtp; proxy_smtp_auth on; xclient off; }}
         server {{ listen 127.0.0.1:%smtp_late%; protocol smtp; smtp_greeting_delay 400ms; }}
         server {{ listen 127.0.0.1:%smtp_names% proxy_protocol; set_real_ip_from 127.0.0.0/8;
                   protocol smtp; resolver 127.0.0.1:{resolver}; }}"
    );
    text
}

/// The address of a client: its own for each case.
fn address(number: usize) -> Ipv4Addr {
    let low = u8::try_from(number % 250 + 1).expect("below 251");
    let high = u8::try_from(number / 250).expect("few cases");
    Ipv4Addr::new(127, 7, high, low)
}

/// Certificates of the server and of a client, the same for both programs.
pub(super) fn certificates() -> Site {
    let site = Site::new();
    for name in ["a", "jo"] {
        site.certificate(&Certificate::localhost(name, CertificateKey::P256));
    }
    site
}

fn name_server() -> NameServer {
    let names = NameServer::start();
    let reverse = |last: u8| format!("{last}.2.0.192.in-addr.arpa");
    let own = |last| Ipv4Addr::new(192, 0, 2, last);
    names.points(&reverse(101), "client.example");
    names.says("client.example", &[own(1), own(101)]);
    names.points(&reverse(102), "liar.example");
    names.says("liar.example", &[own(2)]);
    names.points(&reverse(103), "nobody.example");
    names.fails(&reverse(104), 2);
    names.points(&reverse(105), "broken.example");
    names.fails("broken.example", 2);
    names.points(&reverse(106), "under_score.example");
    names.says("under_score.example", &[own(106)]);
    names
}

/// What is to be compared of a session.
fn session(
    case: &Case,
    from: Ipv4Addr,
    server: &Server<'_>,
    auth: &AuthService,
) -> (u16, u16, String) {
    let known_as = case.known_as.map_or(from.to_string(), str::to_owned);
    let scene = auth.expect(&known_as, case.answers.clone(), case.server.clone());
    let mut client = Client::connect(case.protocol, from, server.port(case.port));
    let own = client.own_port();
    let seen = client.follow(&case.steps);
    drop(client);
    let (asked, told) = scene.finish();
    let text = format!(
        "client\n{seen}auth service\n{}\nmail server\n{}",
        asked.join("\n----\n"),
        told.join("\n----\n")
    );
    (own, scene.port, text)
}

/// What every case comes to, by its name.
pub(super) fn seen(program: Program, cases: &[Case], files: &Site) -> BTreeMap<String, String> {
    let site = Site::new();
    for file in ["a.pem", "a.key", "jo.pem", "jo.key", "authority.pem"] {
        let path = Path::new("certificates").join(file);
        let content = std::fs::read(files.path(&path)).expect("it was made");
        site.write(&path, content);
    }
    let (auth, names) = (AuthService::start(), name_server());
    let text = configuration(&servers(auth.port, names.port()));
    let server = Server::start(&site, program, &text);
    let found = Mutex::new(Vec::new());
    let work = Mutex::new(cases.iter().enumerate());
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let Some((number, case)) = work.lock().expect("no panic").next() else {
                        return;
                    };
                    let from = address(number);
                    let case = case.at(&site);
                    let (own, behind, text) = session(&case, from, &server, &auth);
                    let mut found = found.lock().expect("no panic");
                    let known = case.known_as.unwrap_or("nobody");
                    found.push((
                        known,
                        case.name.clone(),
                        from,
                        own,
                        behind,
                        server.port(case.port),
                        text,
                    ));
                }
            });
        }
    });
    let found = found.into_inner().expect("no panic");
    let log = {
        let text = server.error_log();
        let _ = server.stop("QUIT");
        text
    };
    let dead = site.port("dead");
    let mut seen = BTreeMap::new();
    for (known, name, from, own, behind, port, text) in found {
        let is_own = |line: &&str| {
            line.contains(&format!("client: {from},"))
                || line.contains(&format!("client {from}:"))
                || line.contains(&format!("client: {known},"))
        };
        let lines: Vec<String> = log.lines().filter(is_own).map(message).collect();
        // The client's port may be that of the mail server, at another address.
        let own_address = format!("{from}:OWN");
        let numbers = [
            (format!("{from}:{own}"), own_address.as_str()),
            (format!("{behind}"), "BEHIND"),
            (format!("{own}"), "OWN"),
            (format!("{port}"), "PORT"),
            (format!("{dead}"), "DEAD"),
            (format!("{}", auth.port), "AUTH"),
        ];
        let mut text = format!("{text}\nlog\n{}\n", lines.join("\n"));
        for (number, name) in &numbers {
            text = text.replace(number, name);
        }
        seen.insert(name, normalized(&text));
    }
    seen
}

/// A line of the log without time and numbers.
fn message(line: &str) -> String {
    let level = line.find('[').map_or("", |at| &line[at..]);
    let level = level.split(' ').next().unwrap_or_default();
    let text = line.split_once('*').map_or(line, |(_, text)| text);
    let text = text.split_once(' ').map_or(text, |(_, text)| text);
    format!("{level} {text}")
}

/// What is not alike on purpose, and why: the end of a case's name.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "gone in a command",
        "nginx notices a reset only with the next event",
    ),
    (
        "half a head",
        "nginx waits for the rest from an auth service that has closed the connection",
    ),
    (
        "response 1 in lower case",
        "untagged responses of IMAP are passed over",
    ),
    ("response 2 in lower case", "the same"),
    (
        "response 3 bye",
        "nginx waits for more from a server that has said BYE",
    ),
    (
        "no digest",
        "nginx has the name in the log although there is no login",
    ),
    ("name not base64", "nginx forgets the tag of AUTHENTICATE"),
    (
        "LOGIN with line ends",
        "responses are lines here, not what arrives at once",
    ),
    ("in two lines", "nginx writes line ends into the log"),
    ("no TLS", "nginx sends no alert"),
    (
        "STARTTLS and no handshake",
        "nginx sends no alert, and does not log why",
    ),
    (
        "who sends much",
        "nginx logs all that came before the greeting",
    ),
    (
        "closed behind the login",
        "whether a reset is seen depends on when",
    ),
    (
        "too long",
        "nginx repeats the command, as much of it as fits into a line",
    ),
    (
        "too long literal",
        "nginx repeats the command, with its line ends",
    ),
    (
        "response 0 a reset",
        "whether the connection was there depends on when",
    ),
    ("pop_bare: gone", "nginx has the name in the log"),
    ("response 3 refused", "nginx leaves out the tag in the log"),
];

/// Lines that only one of the servers has.
const MORE: &[&str] = &[
    // nginx does not log these: the method is refused, a connection ends.
    "which is not enabled while",
    "upstream closed the connection before the login was complete",
    "closed the connection before the end of its header",
    // What OpenSSL finds when a client closes the connection first.
    "SSL_shutdown() failed",
];

/// What the two servers say in other words.
const WORDS: &[(&str, &str)] = &[
    ("recv() or send() failed", "recv() failed"),
    // nginx sees at its first read that nobody is there.
    (
        "recv() failed (111: Connection refused) while reading response from upstream",
        "connect() failed (111: Connection refused) while connecting to upstream",
    ),
    (
        "recv() failed (111: Connection refused) while in http auth",
        "connect() failed (111: Connection refused) to auth http server 127.0.0.1:DEAD while in http auth",
    ),
    (
        "auth http server 127.0.0.1:AUTH recv() failed (104",
        "recv() failed (104",
    ),
    // nginx writes line ends as underscores in what it repeats.
    ("__\"", "\""),
    ("_\"", "\""),
];

/// Messages whose end is not compared: nginx repeats commands, with passwords in them.
const BEGINNINGS: &[&str] = &[
    "client sent too long command",
    "upstream sent too long response line",
    "SSL_do_handshake() failed",
];

/// Without what is made anew for each session, and in the same words.
fn normalized(text: &str) -> String {
    let mut normal = String::new();
    for line in text.lines() {
        if MORE.iter().any(|more| line.contains(more)) {
            continue;
        }
        let mut line = line.to_owned();
        for (from, to) in WORDS {
            line = line.replace(from, to);
        }
        if let Some(beginning) = BEGINNINGS.iter().find(|known| line.contains(**known)) {
            let end = line.rfind(" while ").unwrap_or(line.len());
            let at = line.find(beginning).expect("it contains it");
            line.replace_range(at + beginning.len()..end, "");
        }
        if line.contains("!\\x11\\x00\\x13") {
            // A PROXY header of version 2 with ports and a checksum.
            let end = line.find("\\x7f\\x00\\x00\\x01").unwrap_or(0);
            let command = ["a1 LOGIN", "USER", "EHLO"]
                .iter()
                .find_map(|word| line.rfind(word));
            line.replace_range(end..command.unwrap_or(end), " ports and sum ");
        }
        let _ = writeln!(normal, "{}", without_challenges(&line));
    }
    normal
}

/// Without what was drawn for CRAM-MD5 and APOP.
fn without_challenges(line: &str) -> String {
    let mut line = line.to_owned();
    if let (Some(from), Some(to)) = (line.find('<'), line.find("@mail.example.org>")) {
        line.replace_range(from..to, "CHALLENGE");
    }
    // In base64 it begins so.
    for prefix in ["+ PD", "334 PD"] {
        if let Some(from) = line.find(prefix) {
            let to = line[from..]
                .find("\\r\\n")
                .map_or(line.len(), |at| from + at);
            line.replace_range(from..to, "CHALLENGE");
        }
    }
    line
}

#[test]
fn sessions_are_those_of_nginx() {
    if !nginx_has_mail() {
        return sealane_needs::leave_out("this nginx has no \"mail\" to compare with");
    }
    let cases = all();
    assert!(cases.len() > CASES_BELOW, "{} cases", cases.len());
    let mut names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "every case has a name of its own");
    let files = certificates();
    let ours = seen(Program::Sealane, &cases, &files);
    let theirs = seen(Program::Nginx, &cases, &files);
    assert_as_nginx(&ours, &theirs, |what| {
        DIFFERENT.iter().any(|(end, _)| what.ends_with(end))
    });
}
