//! S1's configuration: every byte of every suite, and proof that the kernel
//! sealed it.

use crate::client::{SClient, curl, get};
use crate::kernel::TlsCounters;
use crate::lab::{
    AUTO, BOTH, CBC_SUITE, FOUR_MIB, Lab, OFF, S1, SUITES, Suite, assert_same, sendfile_bytes,
};
use crate::program::wait_for;

/// Downloads 4 MiB and looks at everything that shows who sealed them.
#[track_caller]
fn kernel_download(lab: &Lab, name: &str) {
    let server = lab.server();
    lab.settle_counters();
    let suite = SUITES
        .iter()
        .find(|suite| suite.name == name)
        .expect("the table has it");
    // TLS 1.3 with S1's own server block, TLS 1.2 with its neighbour.
    let port = if suite.is_tls13 { S1 } else { BOTH };
    lab.download(port, "4m", &[&suite.curl()[..], &[suite.name]].concat());
    let logged = lab.logged(&server, "/4m");
    let beginning = format!("{} {} ktls=on ", suite.protocol(), suite.name);
    let end = format!(" 200 {FOUR_MIB} /4m");
    assert!(
        logged.starts_with(&beginning) && logged.ends_with(&end),
        "access log: {logged}"
    );
    assert_eq!(lab.sealed_connections(), 1, "TlsTxSw");
    wait_for("TlsCurrTxSw to fall to 0", || {
        (TlsCounters::read().open == 0).then_some(())
    });
    assert_eq!(
        lab.received_connections(),
        0,
        "receiving stays with the library"
    );
    server.wait_for_log("BIO_get_ktls_send(): 1");
    let sent = sendfile_bytes(&server.log());
    // The first bytes of a file may leave with the headers.
    assert!(
        sent <= FOUR_MIB as u64 && sent >= (FOUR_MIB - (64 << 10)) as u64,
        "SSL_sendfile: {sent} bytes"
    );
}

macro_rules! suite_cases {
    ($($case:ident = $name:literal,)*) => {
        $(pub(crate) fn $case(lab: &Lab) {
            kernel_download(lab, $name);
        })*
    };
}

suite_cases! {
    tls12_aes128_gcm_sha256 = "AES128-GCM-SHA256",
    tls12_aes256_gcm_sha384 = "AES256-GCM-SHA384",
    tls12_ecdhe_rsa_aes128_gcm_sha256 = "ECDHE-RSA-AES128-GCM-SHA256",
    tls12_ecdhe_rsa_aes256_gcm_sha384 = "ECDHE-RSA-AES256-GCM-SHA384",
    tls12_ecdhe_rsa_chacha20_poly1305 = "ECDHE-RSA-CHACHA20-POLY1305",
    tls13_aes128_gcm_sha256 = "TLS_AES_128_GCM_SHA256",
    tls13_aes256_gcm_sha384 = "TLS_AES_256_GCM_SHA384",
    tls13_chacha20_poly1305_sha256 = "TLS_CHACHA20_POLY1305_SHA256",
}

pub(crate) fn switched_off(lab: &Lab) {
    let server = lab.server();
    lab.settle_counters();
    let both: [&Suite; 2] = [&SUITES[2], &SUITES[6]];
    for suite in both {
        lab.download(OFF, "4m", &[&suite.curl()[..], &[suite.name]].concat());
        let logged = lab.logged(&server, "/4m");
        assert!(logged.contains("ktls=off reason=disabled"), "{logged}");
    }
    assert_eq!(lab.sealed_connections(), 0, "TlsTxSw");
    let log = server.log();
    assert!(
        !log.contains("BIO_get_ktls_send(): 1") && !log.contains("SSL_sendfile"),
        "debug lines of kernel TLS"
    );
}

pub(crate) fn cbc_stays_in_user_space(lab: &Lab) {
    let server = lab.server();
    lab.settle_counters();
    lab.download(BOTH, "4m", &["--tls-max", "1.2", "--ciphers", CBC_SUITE]);
    let logged = lab.logged(&server, "/4m");
    assert!(logged.contains("ktls=off reason=suite"), "{logged}");
    assert_eq!(lab.sealed_connections(), 0);
}

pub(crate) fn auto_takes_over_for_large_bodies(lab: &Lab) {
    let server = lab.server();
    lab.settle_counters();
    lab.download(AUTO, "small", &[]);
    let logged = lab.logged(&server, "/small");
    assert!(logged.contains("ktls=pending"), "{logged}");
    assert_eq!(lab.sealed_connections(), 0, "a small response does not pay");
    lab.download(AUTO, "4m", &[]);
    let logged = lab.logged(&server, "/4m");
    assert!(logged.contains("ktls=on"), "{logged}");
    assert_eq!(lab.sealed_connections(), 1);
}

pub(crate) fn ranges(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let file = std::fs::read("/data/4m").expect("the site has the file");
    let last = FOUR_MIB - 1;
    let ranges = [
        (0, 0),
        (0, 16383),
        (1, 16385),
        (4095, 4096),
        (1_000_000, 2_000_000),
        (last, last),
    ];
    for (from, to) in ranges {
        let url = format!("https://127.0.0.1:{S1}/4m");
        let outcome = curl(&[
            "-r",
            &format!("{from}-{to}"),
            "-w",
            "%{stderr}%{http_code}",
            &url,
        ])
        .success();
        assert_eq!(outcome.stderr, "206", "{from}-{to}");
        assert_same(&outcome.stdout, &file[from..=to]);
    }
    let url = format!("https://127.0.0.1:{S1}/4m");
    let several = curl(&["-r", "0-9,100000-199999,-10", &url])
        .success()
        .stdout;
    for part in [&file[..10], &file[100_000..200_000], &file[FOUR_MIB - 10..]] {
        assert!(
            several.windows(part.len()).any(|window| window == part),
            "a part of a multipart answer"
        );
    }
    assert_eq!(lab.sealed_connections(), ranges.len() as u64 + 1);
}

pub(crate) fn head_and_tiny_files(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let url = |file: &str| format!("https://127.0.0.1:{S1}/{file}");
    // One connection for all: a HEAD whose length were wrong would hang or shift the next answer.
    let headers = curl(&["-I", &url("4m"), &url("empty"), &url("one")])
        .success()
        .text();
    let lengths: Vec<&str> = headers
        .lines()
        .filter_map(|line| line.strip_prefix("Content-Length: "))
        .collect();
    assert_eq!(lengths, ["4194304", "0", "1"], "{headers}");
    let bodies = curl(&[
        &url("empty"),
        &url("one"),
        &url("empty"),
        &url("small"),
        &url("one"),
    ])
    .success()
    .stdout;
    let file = |name: &str| std::fs::read(format!("/data/{name}")).expect("the site has the file");
    assert_same(&bodies, &[file("one"), file("small"), file("one")].concat());
    let missing = curl(&["-o", "/dev/null", "-w", "%{http_code}", &url("none")]).success();
    assert_eq!(missing.text(), "404");
    assert_eq!(lab.sealed_connections(), 3);
}

pub(crate) fn a_hundred_requests_on_one_connection(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let count = lab.scale(100, 900);
    let url = format!("https://127.0.0.1:{S1}/small?[1-{count}]");
    let outcome = curl(&["-w", "%{stderr}%{num_connects}", &url]).success();
    let small = std::fs::read("/data/small").expect("the site has the file");
    assert_same(&outcome.stdout, &small.repeat(count));
    let connects = outcome.stderr.bytes().filter(|&byte| byte == b'1').count();
    assert_eq!((connects, lab.sealed_connections()), (1, 1), "connections");
}

pub(crate) fn pipelined_requests(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let mut client = SClient::connect(S1, &[]);
    let files = ["small", "4m", "one", "4m", "empty", "small"];
    let requests: Vec<u8> = files
        .iter()
        .flat_map(|file| get(&format!("/{file}")))
        .collect();
    client.send(&requests);
    let mut at = 0;
    for file in files {
        let response = client.response(at);
        assert!(
            response.head.starts_with("HTTP/1.1 200"),
            "{}",
            response.head
        );
        assert_same(
            &response.body,
            &std::fs::read(format!("/data/{file}")).expect("the site has the file"),
        );
        at += response.bytes;
    }
    let (received, _) = client.finish();
    assert_eq!(received.len(), at, "nothing behind the last response");
    assert_eq!(lab.sealed_connections(), 1);
}

pub(crate) fn sixty_four_mebibytes(lab: &Lab) {
    if !lab.request.long {
        lab.skip("make test-long");
    }
    let server = lab.server();
    lab.settle_counters();
    lab.download(S1, "64m", &[]);
    assert_eq!(lab.sealed_connections(), 1);
    let sent = sendfile_bytes(&server.log());
    assert!(
        sent >= (64 << 20) - (64 << 10),
        "SSL_sendfile: {sent} bytes"
    );
}
