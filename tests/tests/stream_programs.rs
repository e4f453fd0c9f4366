//! Programs whose TLS ends at `stream`, with their own clients: a database, a store and a broker.
//! They speak first or second, keep quiet for long, send much at once, and open further
//! connections by themselves.

use sealane_tests::upgrade::signal;
use sealane_tests::{
    Application, Certificate, CertificateKey, Outcome, Redis, Server, Site, command, sha256,
    wait_for,
};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("a", CertificateKey::P256));
    site
}

/// TLS ends at `%tls%`, in front of the program on `%program%`. Whoever speaks no TLS comes by
/// `%plain%`.
fn serve<'s>(site: &'s Site, more: &str) -> Server<'s> {
    site.serve_whole(&format!(
        "worker_processes 2; error_log logs/error.log info; pid logs/pid;
         events {{ worker_connections 2000; }}
         stream {{
             ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
             {more}
             server {{ listen 127.0.0.1:%tls% ssl; proxy_pass 127.0.0.1:%program%; }}
             server {{ listen 127.0.0.1:%plain%; proxy_pass 127.0.0.1:%tls%;
                       proxy_ssl on; proxy_ssl_verify on; proxy_ssl_name localhost;
                       proxy_ssl_trusted_certificate certificates/authority.pem; }}
         }}"
    ))
}

/// A client that stays, and is killed when it is dropped.
struct Client {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Client {
    #[track_caller]
    fn start(program: &str, words: &[&str]) -> Client {
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is installed");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Client { child, output }
    }

    /// The next line that it prints.
    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it runs");
        line.trim_end().to_owned()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// PostgreSQL, of one test, as nobody it would run as root.
struct Postgres {
    programs: PathBuf,
    directory: String,
    _application: Application,
}

impl Postgres {
    /// Where Debian has its programs, of the newest version.
    fn programs() -> Option<PathBuf> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let mut found: Vec<PathBuf> = versions
            .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
            .filter(|path| path.join("initdb").exists() && path.join("psql").exists())
            .collect();
        found.sort();
        found.pop()
    }

    /// Starts it on `%program%` with an empty database.
    #[track_caller]
    fn start(site: &Site, programs: &Path) -> Postgres {
        let directory = site.path("postgres").display().to_string();
        std::fs::create_dir(&directory).expect("the site is writable");
        if sealane_needs::is_root() {
            command("chown", &["postgres", &directory], b"").success();
        }
        let initdb = programs.join("initdb").display().to_string();
        let words = [&initdb, "-D", &directory, "-U", "test", "-A", "trust", "-N"];
        as_postgres(&words).success();
        let postgres = programs.join("postgres").display().to_string();
        let port = site.port("program").to_string();
        let mut words = prefix();
        words.extend([&postgres[..], "-D", &directory, "-p", &port, "-c"]);
        words.extend(["unix_socket_directories=", "-c", "fsync=off"]);
        let address = format!("127.0.0.1:{port}");
        let program = Path::new(words[0]);
        let application = Application::start(site, program, &words[1..], &address);
        Postgres {
            programs: programs.to_owned(),
            directory,
            _application: application,
        }
    }

    fn program(&self, name: &str) -> String {
        self.programs.join(name).display().to_string()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Killed, it would leave its shared memory.
        let stop = self.program("pg_ctl");
        as_postgres(&[&stop, "-D", &self.directory, "-m", "immediate", "stop"]);
    }
}

/// How to run a program that refuses to run as root.
fn prefix() -> Vec<&'static str> {
    match sealane_needs::is_root() {
        true => vec!["/usr/sbin/runuser", "-u", "postgres", "--"],
        false => vec!["/usr/bin/env"],
    }
}

fn as_postgres(words: &[&str]) -> Outcome {
    let mut all = prefix();
    all.extend(words);
    command(all[0], &all[1..], b"")
}

#[test]
fn a_database() {
    let Some(programs) = Postgres::programs() else {
        return sealane_needs::leave_out("PostgreSQL is not installed (Debian: postgresql)");
    };
    let site = site();
    let postgres = Postgres::start(&site, &programs);
    let server = serve(&site, "ssl_alpn postgresql;");
    // Through two hops: psql asks for TLS in a way of its own, unless it is as new as 17.
    let address = format!(
        "host=127.0.0.1 port={} user=test dbname=postgres sslmode=disable gssencmode=disable",
        server.port("plain")
    );
    let psql = postgres.program("psql");
    let ask_as = |address: &str, question: &str, input: &[u8]| {
        let words = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c"];
        let mut words: Vec<&str> = words.to_vec();
        words.extend([question, address]);
        command(&psql, &words, input)
    };
    let ask = |question: &str, input: &[u8]| ask_as(&address, question, input);
    wait_for("PostgreSQL to be ready", || {
        (ask("select 1", b"").text() == "1\n").then_some(())
    });

    // Much in both directions.
    let rows: String = (0..100_000)
        .map(|row| format!("{row}\tthe text of row {row}\n"))
        .collect();
    ask("create table t (id int, text text)", b"").success();
    ask("copy t from stdin", rows.as_bytes()).success();
    let copied = ask("copy (select * from t order by id) to stdout", b"").success();
    assert!(copied.stdout == rows.as_bytes(), "what went in comes out");
    let long = ask("select repeat('0123456789', 800000)", b"").success();
    assert_eq!(long.stdout.len(), 8_000_001);

    // To cancel a statement, psql opens a connection of its own.
    let statement = "select pg_sleep(600)";
    let sleeping = Command::new(&psql)
        .args(["-X", "-c", statement, &address])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql runs");
    let active = "select count(*) from pg_stat_activity where query like '%pg_sleep(600)' \
                  and state = 'active'";
    wait_for("the statement to run", || {
        (ask(active, b"").text() == "1\n").then_some(())
    });
    signal(sleeping.id(), "INT");
    let outcome = sleeping.wait_with_output().expect("psql ends");
    let text = String::from_utf8_lossy(&outcome.stderr);
    assert!(text.contains("canceling statement"), "{text}");

    // Many connections at once.
    let pgbench = postgres.program("pgbench");
    let port = server.port("plain").to_string();
    let at = ["-h", "127.0.0.1", "-p", &port, "-U", "test", "postgres"];
    let bench = |words: &[&str]| {
        let words: Vec<&str> = words.iter().chain(&at).copied().collect();
        command(&pgbench, &words, b"").success().text()
    };
    bench(&["-i", "-q"]);
    let report = bench(&["-c", "16", "-j", "2", "-t", "25"]);
    assert!(report.contains("actually processed: 400/400"), "{report}");
    let report = bench(&["-C", "-S", "-c", "4", "-t", "25"]);
    assert!(report.contains("actually processed: 100/100"), "{report}");

    if version(&psql) < 17 {
        return sealane_needs::leave_out("psql without a second hop (sslnegotiation=direct)");
    }
    let direct = format!(
        "host=127.0.0.1 port={} user=test dbname=postgres sslmode=verify-full \
         sslnegotiation=direct sslrootcert={}",
        server.port("tls"),
        site.authority().display()
    );
    assert_eq!(ask_as(&direct, "select 2", b"").success().text(), "2\n");
}

/// `psql (PostgreSQL) 15.18 (Debian ...)` is 15.
fn version(psql: &str) -> u32 {
    let text = command(psql, &["--version"], b"").success().text();
    let word = text.split_whitespace().nth(2).unwrap_or_default();
    let major = word.split(['.', 'b', 'r']).next().unwrap_or_default();
    major.parse().unwrap_or(0)
}

#[test]
fn a_store() {
    let site = site();
    let _redis = Redis::start(&site, "program", &[]);
    let server = serve(&site, "");
    let (port, authority) = (server.port("tls").to_string(), site.authority());
    let authority = authority.display().to_string();
    let at = ["-p", &port, "--tls", "--cacert", &authority, "--raw"];
    let ask = |words: &[&str], input: &[u8]| {
        let words: Vec<&str> = at.iter().chain(words).copied().collect();
        command("redis-cli", &words, input).success()
    };
    assert_eq!(ask(&["ping"], b"").text(), "PONG\n");

    // What is published reaches who has subscribed, in order.
    let words: Vec<&str> = at.iter().copied().chain(["subscribe", "news"]).collect();
    let mut subscriber = Client::start("redis-cli", &words);
    for line in ["subscribe", "news", "1"] {
        assert_eq!(subscriber.line(), line);
    }
    for number in 0..20 {
        let text = format!("message {number}");
        assert_eq!(ask(&["publish", "news", &text], b"").text(), "1\n");
        assert_eq!(subscriber.line(), "message");
        assert_eq!(subscriber.line(), "news");
        assert_eq!(subscriber.line(), text);
    }

    // Ten thousand commands at once.
    let commands: String = (0..10_000)
        .map(|number| format!("SET key:{number} value-{number}\r\n"))
        .collect();
    let report = ask(&["--pipe"], commands.as_bytes()).text();
    assert!(report.contains("errors: 0, replies: 10000"), "{report}");
    assert_eq!(ask(&["get", "key:9999"], b"").text(), "value-9999\n");
    assert_eq!(ask(&["dbsize"], b"").text(), "10000\n");

    // A large value there and back.
    let mut value: Vec<u8> = (0..32_u32 << 20).map(|at| (at * 7 / 5) as u8).collect();
    assert_eq!(ask(&["-x", "set", "large"], &value).text(), "OK\n");
    let got = ask(&["get", "large"], b"").stdout;
    value.push(b'\n');
    assert_eq!(sha256(&got), sha256(&value));

    // Who waits for something is answered when it comes.
    let words: Vec<&str> = at.iter().copied().chain(["blpop", "queue", "0"]).collect();
    let mut waiting = Client::start("redis-cli", &words);
    wait_for("the client to wait", || {
        let text = ask(&["info", "clients"], b"").text();
        text.contains("blocked_clients:1\r\n").then_some(())
    });
    assert_eq!(ask(&["rpush", "queue", "work"], b"").text(), "1\n");
    assert_eq!(
        (waiting.line(), waiting.line()),
        ("queue".into(), "work".into())
    );
}

#[test]
fn a_broker() {
    let site = site();
    let Some(broker) = Application::mosquitto(&site, "127.0.0.1:%program%") else {
        return sealane_needs::leave_out("mosquitto is not installed (Debian: mosquitto)");
    };
    // Only what clients send by themselves keeps them connected.
    let server = serve(&site, "proxy_timeout 11s;");
    let (port, authority) = (server.port("tls").to_string(), site.authority());
    let authority = authority.display().to_string();
    let at = ["-h", "localhost", "-p", &port, "--cafile", &authority];
    let publish = |words: &[&str], input: &[u8]| {
        let words: Vec<&str> = at.iter().chain(words).copied().collect();
        command("mosquitto_pub", &words, input).success();
    };
    let subscribe = |words: &[&str]| {
        let words: Vec<&str> = at.iter().chain(words).copied().collect();
        Client::start("mosquitto_sub", &words)
    };
    let wait_for_words = |words: &str, count: usize| {
        wait_for(words, || {
            (broker.log().matches(words).count() >= count).then_some(())
        });
    };

    // The one that keeps quiet, as long as the rest lasts.
    let mut quiet = subscribe(&["-i", "quiet", "-k", "5", "-t", "quiet"]);
    wait_for_words("Sending SUBACK to quiet", 1);

    // A message that waits for who subscribes later.
    publish(&["-r", "-t", "kept", "-m", "retained"], b"");
    assert_eq!(subscribe(&["-t", "kept", "-C", "1"]).line(), "retained");

    // A large one, exactly once.
    let large: String = (0..250_000).map(|number| format!("{number:06}")).collect();
    let mut reader = subscribe(&["-i", "reader", "-q", "2", "-t", "large"]);
    wait_for_words("Sending SUBACK to reader", 1);
    publish(&["-q", "2", "-t", "large", "-s"], large.as_bytes());
    assert!(reader.line() == large, "unchanged");
    publish(&["-q", "2", "-t", "large", "-m", "next"], b"");
    assert_eq!(reader.line(), "next");

    // A client that dies has left a will.
    let mut heir = subscribe(&["-i", "heir", "-t", "will"]);
    wait_for_words("Sending SUBACK to heir", 1);
    let will = ["--will-topic", "will", "--will-payload", "farewell"];
    let mut dying = vec!["-i", "dying", "-t", "nothing"];
    dying.extend(will);
    let dying = subscribe(&dying);
    wait_for_words("Sending SUBACK to dying", 1);
    drop(dying);
    assert_eq!(heir.line(), "farewell");

    // Longer than the time-out, by its pings alone.
    wait_for_words("Received PINGREQ from quiet", 3);
    publish(&["-t", "quiet", "-m", "still there"], b"");
    assert_eq!(quiet.line(), "still there");
}
