//! Whole files through real clients, byte for byte: 1 GiB, nothing at all,
//! ten thousand small ones, and parts.

use sealane_tests::{
    Certificate, CertificateKey, Server, Site, browse, command, go_get, random::Random, scale,
    sha256, sha256_of_file, sha256_of_output,
};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

const MIB: usize = 1 << 20;

/// What every test here serves, over TLS and plain.
fn serve(site: &Site) -> Server<'_> {
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.serve_with(
        "worker_processes 2;",
        "",
        "types { text/html html; } sendfile on; open_file_cache max=20000 inactive=60s;
         server { listen 127.0.0.1:%tls% ssl; listen 127.0.0.1:%plain%; root html; keepalive_requests 100000;
            ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key; }",
    )
}

/// A file whose content differs everywhere, so that a repeated or missing
/// piece changes the digest.
fn write_real_file(path: &Path, length: usize) -> String {
    let mut file = std::fs::File::create(path).expect("the site is writable");
    let mut random = Random::new(length as u64);
    let mut written = 0;
    while written < length {
        let piece = random.bytes(MIB.min(length - written));
        file.write_all(&piece).expect("the disk has room");
        written += piece.len();
    }
    sha256_of_file(path)
}

/// A sparse file with a mark near each end.
fn write_sparse_file(path: &Path, length: u64) -> String {
    let mut file = std::fs::File::create(path).expect("the site is writable");
    file.set_len(length).expect("sparse files are supported");
    for at in [0, length / 2, length - 5] {
        file.seek(SeekFrom::Start(at)).expect("a regular file");
        file.write_all(b"mark!").expect("the disk has room");
    }
    sha256_of_file(path)
}

#[track_caller]
fn curl(site: &Site, server: &Server<'_>, options: &[&str], target: &str) -> Vec<u8> {
    let authority = site.authority().display().to_string();
    let url = format!("https://localhost:{}{target}", server.port("tls"));
    let mut arguments = vec!["-sSf", "--ipv4", "--cacert", &authority, &url];
    arguments.extend(options);
    command("curl", &arguments, b"").success().stdout
}

/// The last batch leaves in pieces, and then the connection closes: TLS has sealed all of it,
/// or a buffer holds what was read of a file, long before the socket has taken it.
#[test]
fn a_slow_client_gets_the_last_bytes_before_the_connection_closes() {
    const BATCH: usize = 128 << 10;
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let lengths = (1..=8).map(|n| (n, 3 * BATCH + n * 16_000));
    for (n, length) in lengths.clone() {
        std::fs::write(site.path(format!("html/{n}")), vec![b'x'; length])
            .expect("the site is writable");
    }
    let server = site.serve_with(
        "worker_processes 1;",
        "",
        "sendfile off; ssl_ktls off; keepalive_timeout 0;
         server { listen 127.0.0.1:%tls% ssl sndbuf=2k; listen 127.0.0.1:%plain% sndbuf=2k; root html;
            ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key; }",
    );
    for (n, length) in lengths {
        for (scheme, port) in [("https", "tls"), ("http", "plain")] {
            let url = format!("{scheme}://localhost:{}/{n}", server.port(port));
            let authority = site.authority().display().to_string();
            let slowly = [
                "-sS",
                "--ipv4",
                "--limit-rate",
                "2M",
                "--cacert",
                &authority,
                &url,
            ];
            let body = command("curl", &slowly, b"").success().stdout;
            assert_eq!(body.len(), length, "{url}");
        }
    }
}

#[test]
fn large_files_by_curl_wget_and_go() {
    let site = Site::new();
    let sparse = write_sparse_file(&site.path("html/sparse"), 1 << 30);
    let real = write_real_file(&site.path("html/real"), 300 * MIB);
    let server = serve(&site);
    let authority = site.authority().display().to_string();
    for (name, digest) in [("sparse", &sparse), ("real", &real)] {
        let url = format!("https://localhost:{}/{name}", server.port("tls"));
        for version in ["1.2", "1.3"] {
            let minimum = format!("--tlsv{version}");
            let curl = [
                "-sSf",
                "--ipv4",
                "--cacert",
                &authority,
                &minimum,
                "--tls-max",
                version,
                &url,
            ];
            assert_eq!(
                &sha256_of_output("curl", &curl),
                digest,
                "{name} by curl with TLS {version}"
            );
        }
    }
    let url = format!("https://localhost:{}/real", server.port("tls"));
    let wget = ["-q", "-4", "--ca-certificate", &authority, "-O", "-", &url];
    assert_eq!(sha256_of_output("wget", &wget), real, "by wget");

    let lines = go_get(&site, &server, &["/real", "/sparse"], b"");
    assert_eq!(
        lines,
        format!(
            "200 {} {real} /real\n200 {} {sparse} /sparse\n",
            300 * MIB,
            1 << 30
        ),
        "by Go"
    );
}

#[test]
fn a_file_by_openssl_s_client() {
    let site = Site::new();
    let content = Random::new(5).bytes(20 * MIB + 12345);
    site.write("html/a.bin", &content);
    let server = serve(&site);
    let address = format!("127.0.0.1:{}", server.port("tls"));
    for options in [
        "-tls1_3",
        "-tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256",
    ] {
        let mut arguments = vec!["s_client", "-quiet", "-connect", &address];
        arguments.extend(options.split(' '));
        let request = b"GET /a.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let outcome = command("openssl", &arguments, request);
        let end_of_head = outcome
            .stdout
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .expect("a response head");
        assert_eq!(
            sha256(&outcome.stdout[end_of_head + 4..]),
            sha256(&content),
            "{options}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn an_empty_file() {
    let site = Site::new();
    site.write("html/empty", b"");
    let server = serve(&site);
    assert_eq!(curl(&site, &server, &[], "/empty"), b"");
    let line = go_get(&site, &server, &["/empty"], b"");
    assert_eq!(line, format!("200 0 {} /empty\n", sha256(b"")));
}

#[test]
fn ten_thousand_small_files() {
    let site = Site::new();
    let mut random = Random::new(6);
    let mut paths = String::new();
    let mut expected = Vec::new();
    for number in 0..10_000 {
        let length = random.below(4000);
        let content = random.bytes(length);
        let target = format!("/{}/{number}.bin", number % 100);
        site.write(format!("html{target}"), &content);
        paths.push_str(&format!("{target}\n"));
        expected.push((target, content));
    }
    let server = serve(&site);
    // The digests by sha256sum itself, of the files as they lie on the disk.
    let names: String = expected
        .iter()
        .map(|(target, _)| format!("html{target}\n"))
        .collect();
    let line = format!("cd {} && xargs -d '\\n' sha256sum", site.path("").display());
    let digests = command("bash", &["-c", &line], names.as_bytes())
        .success()
        .text();
    for round in 0..scale(2, 20) {
        let lines = go_get(&site, &server, &["-parallel", "8", "-"], paths.as_bytes());
        assert_eq!(lines.lines().count(), expected.len());
        for ((line, digest), (target, content)) in lines.lines().zip(digests.lines()).zip(&expected)
        {
            let digest = digest.split(' ').next().expect("a digest comes first");
            assert_eq!(
                line,
                format!("200 {} {digest} {target}", content.len()),
                "round {round}"
            );
        }
    }
}

#[test]
fn ranges_of_a_large_file() {
    let site = Site::new();
    write_sparse_file(&site.path("html/sparse"), 1 << 30);
    let content = Random::new(7).bytes(3 * MIB);
    site.write("html/a.bin", &content);
    let server = serve(&site);
    let last = format!("{}-", (1_u64 << 30) - 5);
    assert_eq!(curl(&site, &server, &["-r", &last], "/sparse"), b"mark!");
    assert_eq!(
        curl(&site, &server, &["-r", "536870912-536870916"], "/sparse"),
        b"mark!"
    );
    assert_eq!(curl(&site, &server, &["-r", "-6"], "/sparse"), b"\0mark!");
    let mut random = Random::new(8);
    for _ in 0..scale(25, 500) {
        let first = random.below(content.len());
        let end = first + random.below(content.len() - first);
        let part = curl(&site, &server, &["-r", &format!("{first}-{end}")], "/a.bin");
        assert!(
            part == content[first..=end],
            "{first}-{end}: {} bytes",
            part.len()
        );
    }
    // A download that broke off half-way goes on where it stopped.
    let partial = site.write("partial", &content[..MIB]);
    curl(
        &site,
        &server,
        &["-C", "-", "-o", &partial.display().to_string()],
        "/a.bin",
    );
    assert_eq!(
        sha256_of_file(&partial),
        sha256(&content),
        "resumed by curl"
    );
}

#[test]
fn a_browser_gets_a_page_and_the_bytes_it_fetches() {
    let site = Site::new();
    let content = Random::new(9).bytes(8 * MIB + 1);
    site.write("html/a.bin", &content);
    site.write("html/empty", b"");
    // crypto.subtle hashes in the browser; what it prints is in the document.
    site.write(
        "html/index.html",
        "<!doctype html><title>t</title><body><p id=out>waiting</p><script>
        const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, '0')).join('');
        const digest = async (url, options) => {
          const response = await fetch(url, options);
          const body = await response.arrayBuffer();
          return response.status + ' ' + body.byteLength + ' ' + hex(await crypto.subtle.digest('SHA-256', body));
        };
        (async () => {
          const results = [
            await digest('/a.bin'), await digest('/empty'),
            await digest('/a.bin', {headers: {Range: 'bytes=1000-2000000'}, cache: 'no-store'}),
          ];
          document.getElementById('out').textContent = results.join(' | ');
        })().catch((error) => { document.getElementById('out').textContent = 'failed: ' + error; });
        </script>",
    );
    let server = serve(&site);
    let document = browse(&site, &format!("https://localhost:{}/", server.port("tls")));
    let part = &content[1000..=2_000_000];
    let expected = format!(
        "200 {} {} | 200 0 {} | 206 {} {}",
        content.len(),
        sha256(&content),
        sha256(b""),
        part.len(),
        sha256(part)
    );
    assert!(
        document.contains(&expected),
        "expected {expected} in {document}"
    );
}
