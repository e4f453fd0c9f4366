//! DNS and syslog: name servers, their clients, and what writes logs.

use super::*;
use sealane_tests::command;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_installed(program: &str) -> bool {
    let directories = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    directories
        .iter()
        .any(|directory| Path::new(directory).join(program).exists())
}

fn start(program: &str, arguments: &[&str]) -> Running {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.unwrap_or_else(|error| panic!("{program}: {error}")))
}

/// Waits until the name server answers by itself.
fn wait_for_answers(port: u16) {
    wait_for("the name server", || {
        ask("127.0.0.3", port, &["a1.test", "A"]).then_some(())
    });
}

fn ask(ip: &str, port: u16, question: &[&str]) -> bool {
    dig(ip, port, question).contains("status: NOERROR")
}

fn dig(ip: &str, port: u16, question: &[&str]) -> String {
    let (server, port) = (format!("@{ip}"), port.to_string());
    let mut arguments = vec![&*server, "-p", &port, "+tries=1", "+time=3", "+norecurse"];
    arguments.extend(question);
    command("dig", &arguments, b"").text()
}

/// Asks a name server behind Sealane, over UDP and TCP at the same address.
fn is_asked_through(origin: u16, site: &Site) {
    let server = serve(
        site,
        &format!(
            "log_format s '$protocol $status $upstream_addr'; access_log logs/stream.log s;
             upstream names {{ server 127.0.0.3:{origin}; }}
             server {{ listen 127.0.0.2:%dns% udp; proxy_responses 1; proxy_timeout 5s; proxy_pass names; }}
             server {{ listen 127.0.0.2:%dns%; proxy_pass names; }}"
        ),
    );
    let port = server.port("dns");
    for number in 1..=20 {
        let name = format!("a{number}.test");
        let answer = dig("127.0.0.2", port, &[&name, "A"]);
        assert!(answer.contains("status: NOERROR"), "{answer}");
        assert!(answer.contains(&format!("192.0.2.{number}\n")), "{answer}");
        assert!(answer.contains("(UDP)"), "{answer}");
    }
    let answer = dig("127.0.0.2", port, &["a7.test", "A", "+tcp"]);
    assert!(
        answer.contains("192.0.2.7\n") && answer.contains("(TCP)"),
        "{answer}"
    );
    // A long one, with EDNS.
    let answer = dig("127.0.0.2", port, &["long.test", "TXT", "+bufsize=4096"]);
    assert!(answer.contains("ttttttttttttttttttt"), "{answer}");
    let line = format!("UDP 200 127.0.0.3:{origin}");
    wait_for("sessions in the log", || {
        let log = std::fs::read_to_string(site.path("logs/stream.log")).ok()?;
        (log.lines().filter(|found| *found == line).count() >= 21).then_some(())
    });
}

#[test]
fn dnsmasq_is_asked_through_it() {
    if !is_installed("dnsmasq") || !is_installed("dig") {
        return sealane_needs::leave_out("dnsmasq or dig is not installed");
    }
    let site = Site::new();
    let mut lines = format!(
        "port={}\nlisten-address=127.0.0.3\nbind-interfaces\nno-resolv\nno-hosts\nno-daemon\n\
         user=\npid-file=\nlocal=/test/\ntxt-record=long.test,{}\n",
        site.port("origin"),
        "t".repeat(200)
    );
    for number in 1..=20 {
        lines.push_str(&format!("address=/a{number}.test/192.0.2.{number}\n"));
    }
    let file = site.write("dnsmasq.conf", lines).display().to_string();
    let _running = start("dnsmasq", &["-k", "-C", &file]);
    wait_for_answers(site.port("origin"));
    is_asked_through(site.port("origin"), &site);
}

#[test]
fn unbound_is_asked_through_it() {
    if !is_installed("unbound") || !is_installed("dig") {
        return sealane_needs::leave_out("unbound or dig is not installed");
    }
    let site = Site::new();
    let mut lines = format!(
        "server:\n interface: 127.0.0.3@{}\n do-daemonize: no\n chroot: \"\"\n username: \"\"\n \
         pidfile: \"\"\n use-syslog: no\n directory: \"{}\"\n access-control: 127.0.0.0/8 allow_snoop\n \
         local-zone: \"test.\" static\n local-data: 'long.test. TXT \"{}\"'\nremote-control:\n \
         control-enable: no\nserver:\n",
        site.port("origin"),
        site.path("").display(),
        "t".repeat(200)
    );
    for number in 1..=20 {
        lines.push_str(&format!(
            " local-data: \"a{number}.test. A 192.0.2.{number}\"\n"
        ));
    }
    let file = site.write("unbound.conf", lines).display().to_string();
    let _running = start("unbound", &["-d", "-c", &file]);
    wait_for_answers(site.port("origin"));
    is_asked_through(site.port("origin"), &site);
}

#[test]
fn logs_go_to_every_server_in_turn() {
    if !is_installed("logger") {
        return sealane_needs::leave_out("logger is not installed");
    }
    let (site, first, second) = (Site::new(), Origin::new(), Origin::new());
    let server = serve(
        &site,
        &format!(
            "upstream logs {{ server {}; server {}; }}
             server {{ listen 127.0.0.2:%syslog% udp; proxy_responses 0; proxy_pass logs; }}",
            first.address, second.address
        ),
    );
    let port = server.port("syslog").to_string();
    for number in 0..10 {
        let text = format!("message {number}");
        let to = [
            "--udp",
            "--server",
            "127.0.0.2",
            "--port",
            &port,
            "--rfc5424",
        ];
        command("logger", &[&to[..], &[&text]].concat(), b"").success();
    }
    let mut got = first.wait_for(5);
    got.extend(second.wait_for(5));
    assert_eq!(got.len(), 10, "{got:?}");
    for number in 0..10 {
        let end = format!("message {number}");
        let found = got.iter().any(|(_, text)| text.ends_with(end.as_bytes()));
        assert!(found, "{end} in {got:?}");
    }
}

#[test]
fn the_example_passes_questions_and_logs_on() {
    let (site, origin) = (Site::new(), Origin::new());
    let example = sealane_tests::repository().join("examples/udp/nginx.conf");
    let text = std::fs::read_to_string(example).expect("the example");
    let answers = origin.address.to_string();
    let text = [
        "127.0.0.1:5301",
        "127.0.0.1:5302",
        "127.0.0.1:5515",
        "127.0.0.1:5516",
    ]
    .iter()
    .fold(text, |text, server| text.replace(server, &answers))
    .replace("127.0.0.1:5353", "127.0.0.2:%dns%")
    .replace("127.0.0.1:5514", "127.0.0.2:%syslog%")
    .replace("logs/sealane.pid", "logs/pid");
    let server = site.serve_whole(&text);
    wait_for("an answer", || {
        let client = Client::new();
        client.send(here(&server, "dns"), b"question");
        let (_, answer) = client.receive_within(QUIET)?;
        assert_eq!(answer, b"1 question");
        Some(())
    });
    let got = origin.wait_for(1).len();
    let client = Client::new();
    client.send(here(&server, "syslog"), b"none message");
    assert_eq!(
        origin
            .wait_for(got + 1)
            .last()
            .map(|(_, text)| text.clone()),
        Some(b"none message".to_vec())
    );
}
