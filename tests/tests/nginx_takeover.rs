//! `sealane takeover`: a running nginx is replaced, or goes on as if nothing had happened.

use sealane_tests::upgrade::{Daemon, children, runs, signal};
use sealane_tests::wire;
use sealane_tests::{
    Certificate, CertificateKey, Program, Site, command, sealane_binary, wait_for,
};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const TEMPORARY: &str = "client_body_temp_path temporary/a; proxy_temp_path temporary/b;
    fastcgi_temp_path temporary/c; uwsgi_temp_path temporary/d; scgi_temp_path temporary/e;";

fn configuration(http: &str) -> String {
    format!(
        "worker_processes 2; pid logs/pid; error_log logs/error.log info;\n\
         events {{}}\nhttp {{ access_log off;\n{TEMPORARY}\n{http}\n}}\n"
    )
}

fn servers(site: &Site) -> String {
    format!(
        "server {{
            listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; listen unix:{};
            ssl_certificate certificates/server.pem;
            ssl_certificate_key certificates/server.key;
            location / {{ root html; }}
            location /slow {{ proxy_pass http://127.0.0.1:%origin%; }}
         }}",
        site.path("logs/socket").display()
    )
}

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("server", CertificateKey::P256));
    site.write("html/page", vec![b'x'; 30_000]);
    fs::create_dir_all(site.path("temporary")).expect("writable");
    site
}

fn start(site: &Site) -> Daemon<'_> {
    let server = Daemon::start(site, Program::Nginx, &configuration(&servers(site)));
    // Debian's nginx reports what it does at shutdown as an alert.
    server.expect_alert("open socket #");
    server
}

/// The words of the command for the nginx of this site.
fn words(site: &Site, more: &[&str]) -> Vec<String> {
    let path = |name: &str| site.path(name).display().to_string();
    let fixed = ["takeover", "--nginx", &path("bin/server"), "-p", &path("")];
    let fixed = fixed
        .into_iter()
        .chain(more.iter().copied())
        .map(str::to_owned);
    fixed
        .chain(["-c".to_owned(), path("server.conf")])
        .collect()
}

/// Status and all output.
#[track_caller]
fn takeover(site: &Site, more: &[&str]) -> (i32, String) {
    let program = sealane_binary().display().to_string();
    let outcome = command(&program, &words(site, more), b"");
    (
        outcome.status,
        format!("{}{}", outcome.text(), outcome.stderr),
    )
}

/// Who answers.
#[track_caller]
fn server_of(site: &Site) -> String {
    let answer = wire::get(site.port("plain"), "/page");
    assert_eq!(answer.body.len(), 30_000);
    let name = answer.header("Server").unwrap_or_default();
    name.split('/').next().unwrap_or_default().to_owned()
}

/// Nothing has changed for nginx.
#[track_caller]
fn goes_on(site: &Site, server: &Daemon<'_>, nginx: u32) {
    assert!(runs(nginx));
    assert_eq!(server.pid(), nginx);
    assert_eq!(server.old_pid(), None);
    assert_eq!(server_of(site), "nginx");
    wait_for("its workers", || (children(nginx).len() == 2).then_some(()));
    assert!(site.path("logs/socket").exists());
}

fn load(arguments: &[&str], stop: &AtomicBool) -> Option<String> {
    loop {
        let text = command("wrk", arguments, b"").success().text();
        if ["Socket errors", "Non-2xx"]
            .iter()
            .any(|bad| text.contains(bad))
        {
            return Some(text);
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
    }
}

#[test]
fn nginx_is_replaced_under_load_and_no_request_is_lost() {
    let site = site();
    let server = start(&site);
    let nginx = server.pid();
    let plain = format!("http://127.0.0.1:{}/page", site.port("plain"));
    let tls = format!("https://127.0.0.1:{}/page", site.port("tls"));
    // nginx closes connections that are idle when it is told to quit, whatever is on its way.
    let close = ["-t1", "-c8", "-d1s", "-H", "Connection: close"];
    let stop = AtomicBool::new(false);
    let (outcome, failed) = std::thread::scope(|scope| {
        let running = [&plain, &tls].map(|url| {
            let stop = &stop;
            scope.spawn(move || load(&[&close[..], &[url]].concat(), stop))
        });
        let outcome = takeover(&site, &[]);
        stop.store(true, Ordering::Relaxed);
        (
            outcome,
            running.map(|thread| thread.join().expect("no panic")),
        )
    });
    assert_eq!(failed, [const { None }; 2]);
    let (status, said) = outcome;
    assert_eq!(status, 0, "{said}");
    for text in [
        "everything works here",
        "Sealane serves, too",
        "nginx has ended",
        "back to nginx",
    ] {
        assert!(said.contains(text), "{text:?} in {said}");
    }
    assert!(!runs(nginx), "{said}");
    assert_eq!(server_of(&site), "sealane");
    // All of its addresses, the files of Unix sockets included.
    let mut unix = UnixStream::connect(site.path("logs/socket")).expect("its file is there");
    let request = b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    unix.write_all(request).expect("it listens");
    let mut answer = Vec::new();
    unix.read_to_end(&mut answer).expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\nServer: sealane"));
    assert!(!site.path("logs/socket.takeover").exists());
    // It is a server in the background like any other.
    wait_for("its pid file", || {
        let named = fs::read_to_string(site.path("logs/pid")).ok()?;
        named.trim().parse().ok().filter(|pid: &u32| runs(*pid))
    });
    assert_eq!(server.old_pid(), None);
    let sealane = server.pid();
    site.write("html/page", vec![b'y'; 30_000]);
    server.configure(&configuration(
        &servers(&site).replace("root html", "root html; expires 1h"),
    ));
    signal(sealane, "HUP");
    wait_for("the new configuration", || {
        let answer = wire::get(site.port("plain"), "/page");
        answer.header("Cache-Control").map(|_| ())
    });
    server.install(Program::Sealane);
    signal(sealane, "QUIT");
    server.wait_for_end(sealane);
    assert!(!site.path("logs/pid").exists() && !site.path("logs/socket").exists());
}

#[test]
fn a_configuration_that_does_not_work_changes_nothing() {
    let site = site();
    let server = start(&site);
    let nginx = server.pid();
    // Of the file alone: nginx serves what it has read before.
    server.configure(&configuration(&format!("auth_pam x; {}", servers(&site))));
    let (status, said) = takeover(&site, &[]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("\"auth_pam\" directive is not supported"),
        "{said}"
    );
    assert!(said.contains("nginx serves as before"), "{said}");
    goes_on(&site, &server, nginx);
}

#[test]
fn a_sealane_that_does_not_start_changes_nothing() {
    let site = site();
    let server = start(&site);
    let nginx = server.pid();
    fs::rename(
        site.path("certificates/server.key"),
        site.path("certificates/moved.key"),
    )
    .expect("it is there");
    let (status, said) = takeover(&site, &[]);
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("server.key") && said.contains("has ended"),
        "{said}"
    );
    assert!(said.contains("nginx serves as before"), "{said}");
    server.expect_alert("server.key");
    goes_on(&site, &server, nginx);
}

#[test]
fn without_nginx_there_is_nothing_to_take_over() {
    let site = site();
    let server = start(&site);
    let nginx = server.pid();
    let (status, said) = takeover(&site, &["--dry-run"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    goes_on(&site, &server, nginx);
    signal(nginx, "QUIT");
    server.wait_for_end(nginx);
    let (status, said) = takeover(&site, &[]);
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("nginx does not run with this configuration"),
        "{said}"
    );
    // Another process with that number is left alone.
    let mut bystander = Command::new("sleep").arg("600").spawn().expect("coreutils");
    site.write("logs/pid", format!("{}\n", bystander.id()));
    let (status, said) = takeover(&site, &[]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("is not nginx"), "{said}");
    assert!(runs(bystander.id()));
    fs::remove_file(site.path("logs/pid")).expect("it is there");
    bystander.kill().expect("it runs");
    bystander.wait().expect("a child");
}

#[test]
fn whoever_may_not_look_into_nginx_changes_nothing() {
    sealane_needs::root();
    let site = site();
    let server = start(&site);
    let nginx = server.pid();
    let program = sealane_binary().display().to_string();
    let mut arguments = vec![
        "--bounding-set=-all".to_owned(),
        "--inh-caps=-all".into(),
        program,
    ];
    arguments.extend(words(&site, &[]));
    let outcome = command("setpriv", &arguments, b"");
    assert_eq!(outcome.status, 1, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("run this as root"),
        "{}",
        outcome.stderr
    );
    goes_on(&site, &server, nginx);
}

/// A takeover that waits for a request of nginx's.
struct Waiting {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Waiting {
    #[track_caller]
    fn start(site: &Site) -> Waiting {
        let mut child = Command::new(sealane_binary())
            .args(words(site, &[]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Waiting { child, output }
    }

    #[track_caller]
    fn read_up_to(&mut self, text: &str) {
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("text");
            assert!(!line.is_empty(), "it has ended without {text:?}");
            if line.contains(text) {
                return;
            }
        }
    }

    #[track_caller]
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        let mut errors = self.child.stderr.take().expect("a pipe");
        errors.read_to_string(&mut said).expect("text");
        (self.child.wait().expect("a child").code(), said)
    }
}

#[test]
fn nginx_is_started_again_when_sealane_dies_while_it_ends() {
    let site = site();
    let origin = TcpListener::bind(("127.0.0.1", site.port("origin"))).expect("a free port");
    let server = start(&site);
    let nginx = server.pid();
    let mut client = wire::Connection::open(site.port("plain"));
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let (mut held, _) = origin.accept().expect("nginx asks");
    let mut request = [0; 4096];
    assert_ne!(held.read(&mut request).expect("nginx asks"), 0);

    let mut takeover = Waiting::start(&site);
    takeover.read_up_to("nginx finishes");
    // Meanwhile whoever signals the process of the pid file means nginx.
    let named = fs::read_to_string(site.path("logs/pid")).expect("nginx's");
    assert_eq!(named.trim(), nginx.to_string());
    let sealane = wait_for("Sealane's pid file", || server.old_pid());
    // nginx may accept one more before it has read the signal.
    wait_for("Sealane", || (server_of(&site) == "sealane").then_some(()));
    let workers = children(sealane);
    server.expect_alert("is gone; this worker finishes");
    server.expect_alert("session ticket keys are not saved");
    let killed = [&[sealane], &workers[..]].concat();
    for pid in &killed {
        signal(*pid, "KILL");
    }
    // They are alive until they have been scheduled, which may be after nginx's end.
    wait_for("their end", || {
        (!killed.iter().any(|pid| runs(*pid))).then_some(())
    });
    // Nobody accepts this one for now.
    let mut early = wire::Connection::open(site.port("plain"));
    early.send("GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nat last";
    held.write_all(answer).expect("nginx reads");
    drop(held);
    assert_eq!(client.response(false).text(), "at last");
    let (status, said) = takeover.end();
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("nginx was started again with the same sockets"),
        "{said}"
    );
    assert_eq!(early.response(false).body.len(), 30_000);
    let again = wait_for("another nginx", || {
        Some(server.pid()).filter(|pid| *pid != nginx)
    });
    assert!(runs(again));
    assert_eq!(server_of(&site), "nginx");
    // Sealane was killed with its pid file.
    fs::remove_file(site.path("logs/pid.oldbin")).expect("it is there");
}
