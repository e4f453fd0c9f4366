//! Measurements, side by side in one boot: S1's loop, and system calls.
//!
//! Under emulation the figures say nothing about the cost on a real processor:
//! AES is translated, not executed. What they show is that nothing is broken
//! about the order of magnitude, and the system calls are exact.

use crate::client::curl;
use crate::kernel::TlsCounters;
use crate::lab::{FOUR_MIB, Lab, s1_block};
use crate::program::{self, wait_for};
use crate::server::{Kind, Server};
use crate::statistics::{Sample, table};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

const PORT: u16 = 5443;

/// One server to compare: S1's configuration, debug log off, as the article measures.
struct Contender {
    label: &'static str,
    kind: Kind,
    kernel_tls: bool,
}

const CONTENDERS: [Contender; 4] = [
    Contender {
        label: "nginx, kernel TLS",
        kind: Kind::Nginx,
        kernel_tls: true,
    },
    Contender {
        label: "Sealane, kernel TLS",
        kind: Kind::Sealane,
        kernel_tls: true,
    },
    Contender {
        label: "nginx, user space",
        kind: Kind::Nginx,
        kernel_tls: false,
    },
    Contender {
        label: "Sealane, user space",
        kind: Kind::Sealane,
        kernel_tls: false,
    },
];

fn start(lab: &Lab, contender: &Contender) -> Server {
    lab.stop_server();
    // Sealane's master sees to it; nginx's workers lack the privilege.
    program::run("modprobe", &["tls"], b"").success();
    let block = match (contender.kernel_tls, contender.kind) {
        (true, _) => s1_block(PORT),
        (false, Kind::Nginx) => s1_block(PORT).replace("ssl_conf_command Options KTLS;", ""),
        (false, Kind::Sealane) => {
            s1_block(PORT).replace("ssl_conf_command Options KTLS;", "ssl_ktls off;")
        }
    };
    let configuration = format!(
        "worker_processes 1; pid logs/server.pid; error_log logs/error.log; events {{}}
         http {{ access_log off; sendfile on; {block} }}"
    );
    let server = Server::start(contender.kind, "measured", &configuration, &[PORT]);
    lab.settle_counters();
    server
}

fn needs_nginx(lab: &Lab) {
    lab.prepare();
    if !Path::new("/bin/nginx").exists() {
        lab.skip("the nginx to compare with is not built (scripts/peers/build-nginx.sh)");
    }
}

/// `curl -k -s -o /dev/null -w '%{speed_download}'`, ten times each.
pub(crate) fn curl_loop(lab: &Lab) {
    const RUNS: usize = 10;
    needs_nginx(lab);
    let mut samples = Vec::new();
    for contender in &CONTENDERS {
        let server = start(lab, contender);
        let url = format!("https://127.0.0.1:{PORT}/4m");
        let measure = || {
            let options = [
                "-o",
                "/dev/null",
                "-w",
                "%{speed_download} %{size_download}",
                "--tls13-ciphers",
            ];
            let outcome = curl(&[&options[..], &["TLS_AES_256_GCM_SHA384", &url]].concat())
                .success()
                .text();
            let (speed, size) = outcome.split_once(' ').expect("two numbers");
            assert_eq!(size, FOUR_MIB.to_string(), "{}", contender.label);
            speed.parse::<f64>().expect("curl prints a number") / 1000.0
        };
        // The first one reads the file and warms the server.
        measure();
        let values = (0..RUNS).map(|_| measure()).collect();
        samples.push(Sample {
            label: contender.label.to_owned(),
            values,
        });
        let sealed = if contender.kernel_tls {
            RUNS as u64 + 1
        } else {
            0
        };
        assert_eq!(
            lab.sealed_connections(),
            sealed,
            "{}: TlsTxSw",
            contender.label
        );
        server.stop();
    }
    lab.note(&table("kB/s, 4 MiB", &samples));
}

/// System calls of the workers while 16 MiB leave on one connection, by name.
fn system_calls(lab: &Lab, contender: &Contender) -> Vec<(String, u64)> {
    const SUMMARY: &str = "/tmp/strace.txt";
    let server = start(lab, contender);
    let url = format!("https://127.0.0.1:{PORT}/4m");
    curl(&["-o", "/dev/null", &url]).success();
    wait_for("the connection to close", || {
        (TlsCounters::read().open == 0).then_some(())
    });
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-U", "calls,name", "-o", SUMMARY]);
    let workers = server.workers();
    assert!(!workers.is_empty(), "{:?} has workers", contender.kind);
    for worker in workers {
        strace.arg("-p").arg(worker.to_string());
    }
    let mut strace = strace
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the image has strace");
    let mut stderr = strace.stderr.take().expect("standard error is a pipe");
    let mut said = [0; 256];
    let count = stderr
        .read(&mut said)
        .expect("strace says that it is attached");
    assert_ne!(count, 0, "strace ended");
    let urls = [url.as_str(); 4];
    let discard = ["-o", "/dev/null"].repeat(urls.len());
    curl(&[&discard[..], &urls].concat()).success();
    program::signal("INT", strace.id());
    assert!(
        program::wait(&mut strace, program::LIMIT).is_some(),
        "strace ends after INT"
    );
    server.stop();
    let sealed = if contender.kernel_tls { 2 } else { 0 };
    assert_eq!(
        lab.sealed_connections(),
        sealed,
        "{}: TlsTxSw",
        contender.label
    );
    let summary = std::fs::read_to_string(SUMMARY).expect("strace wrote it");
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let calls = words.next()?.parse().ok()?;
        Some((words.next()?.to_owned(), calls))
    };
    summary
        .lines()
        .filter_map(row)
        .filter(|(name, _)| name != "total")
        .collect()
}

/// Calls in which a thread waits, or goes on waiting. How many there are depends on how long
/// everything takes: both servers wake up now and then to look at their clocks.
const WAITING: [&str; 3] = ["epoll_wait", "poll", "restart_syscall"];

pub(crate) fn system_calls_per_mebibyte(lab: &Lab) {
    const MEBIBYTES: f64 = 16.0;
    needs_nginx(lab);
    let mut working = Vec::new();
    for contender in &CONTENDERS {
        let calls = system_calls(lab, contender);
        let sum = |waiting: bool| {
            let counted = calls
                .iter()
                .filter(|(name, _)| waiting || !WAITING.contains(&name.as_str()));
            counted.map(|(_, count)| count).sum::<u64>() as f64 / MEBIBYTES
        };
        let (all, work) = (sum(true), sum(false));
        assert!(work > 0.0, "strace counted nothing");
        let names: Vec<String> = calls
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        lab.note(&format!(
            "{:20} {work:>7.2} system calls per MiB, {all:.2} with those that wait ({})",
            contender.label,
            names.join(", ")
        ));
        working.push(work);
    }
    assert!(
        working[1] <= working[0],
        "more system calls than nginx with kernel TLS:\n{}",
        lab.take_notes()
    );
}
