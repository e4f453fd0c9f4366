//! What a PROXY header of version 2 tells a server about the client's TLS, beside nginx's.

use sealane_tests::comparison::nginx_version;
use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, nginx_has_stream,
};

/// What the server at the end of the way is told, as it says itself.
const TOLD: &str = "authority=$proxy_protocol_tlv_authority alpn=$proxy_protocol_tlv_alpn \
    verify=$proxy_protocol_tlv_ssl_verify version=$proxy_protocol_tlv_ssl_version \
    cn=$proxy_protocol_tlv_ssl_cn cipher=$proxy_protocol_tlv_ssl_cipher \
    signature=$proxy_protocol_tlv_ssl_sig_alg key=$proxy_protocol_tlv_ssl_key_alg \
    whole=$proxy_protocol_tlv_ssl";

fn configuration() -> String {
    let certificate = |name: &str| {
        format!(
            "ssl_certificate certificates/{name}.pem; ssl_certificate_key certificates/{name}.key;"
        )
    };
    let (elliptic, rsa) = (certificate("elliptic"), certificate("rsa"));
    format!(
        "error_log logs/error.log info; pid logs/pid; events {{ }}
         stream {{
             proxy_protocol v2;
             ssl_session_cache shared:all:1m; ssl_alpn x y;
             server {{ listen 127.0.0.1:%told% proxy_protocol; return \"{TOLD}\"; }}
             server {{ listen 127.0.0.1:%plain%; proxy_pass 127.0.0.1:%told%; }}
             server {{ listen 127.0.0.1:%elliptic% ssl; {elliptic} proxy_pass 127.0.0.1:%told%; }}
             server {{ listen 127.0.0.1:%rsa% ssl; {rsa} proxy_pass 127.0.0.1:%told%; }}
             server {{ listen 127.0.0.1:%asked% ssl; {elliptic} proxy_pass 127.0.0.1:%told%;
                       ssl_verify_client optional_no_ca; ssl_client_certificate certificates/authority.pem; }}
         }}"
    )
}

fn site() -> Site {
    let site = Site::new();
    for (name, key) in [
        ("elliptic", CertificateKey::P384),
        ("rsa", CertificateKey::Rsa),
        ("client", CertificateKey::P256),
    ] {
        site.certificate(&Certificate::localhost(name, key));
    }
    // Somebody whom nobody knows.
    let (pem, key) = (site.path("stranger.pem"), site.path("stranger.key"));
    let options = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
         -subj /O=nobody -keyout {} -out {}",
        key.display(),
        pem.display()
    );
    let words: Vec<&str> = options.split_whitespace().collect();
    assert_eq!(command("openssl", &words, b"").status, 0);
    site
}

/// What clients with these options make the server say.
fn told(site: &Site, program: Program) -> Vec<(String, Vec<u8>)> {
    let server = Server::start(site, program, &configuration());
    let pair = |name: &str, directory: &str| {
        let path = |end: &str| {
            site.path(format!("{directory}{name}{end}"))
                .display()
                .to_string()
        };
        format!("-cert {} -key {}", path(".pem"), path(".key"))
    };
    let (known, stranger) = (pair("client", "certificates/"), pair("stranger", ""));
    let session = site.path("session").display().to_string();
    let (out, kept) = (
        format!("-sess_out {session}"),
        format!("-sess_in {session}"),
    );
    let cases = [
        ("elliptic", "-noservername".to_owned()),
        ("elliptic", "-servername a.example -alpn z,y,x".to_owned()),
        ("rsa", "-servername B.example -alpn x".to_owned()),
        ("asked", "-noservername".to_owned()),
        ("asked", known.clone()),
        ("asked", stranger),
        ("asked", format!("{known} {out}")),
        ("asked", format!("{known} {kept}")),
    ];
    let mut told = Vec::new();
    for version in [
        "-tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256",
        "-tls1_2 -cipher ECDHE+AES256+AESGCM",
    ] {
        for (port, options) in &cases {
            let address = format!("127.0.0.1:{}", server.port(port));
            let words = format!("s_client -quiet -connect {address} {version} {options}");
            let words: Vec<&str> = words.split_whitespace().collect();
            let outcome = command("openssl", &words, b"");
            let root = site.path("").display().to_string();
            let name = format!("{port} {version} {}", options.replace(&root, ""));
            told.push((name, outcome.stdout));
        }
    }
    let plain = std::net::TcpStream::connect(("127.0.0.1", server.port("plain")));
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut plain.expect("it listens"), &mut text).expect("it ends");
    told.push(("plain".to_owned(), text));
    told
}

/// With control characters readable.
fn shown(text: &[u8]) -> String {
    text.escape_ascii().to_string()
}

#[test]
fn servers_are_told_how_clients_are_connected() {
    let told = told(&site(), Program::Sealane);
    let find = |start: &str| {
        let found = told.iter().find(|(name, _)| name.starts_with(start));
        let (_, text) = found.unwrap_or_else(|| panic!("{start} is among them"));
        shown(text)
    };
    let expected = "authority=a.example alpn=x verify=1 version=TLSv1.3 cn= \
        cipher=TLS_AES_128_GCM_SHA256 signature=ecdsa-with-SHA256 key=EC384 whole=\\x01\\x00\\x00\\x00\\x01!";
    let found = find("elliptic -tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256 -servername");
    assert!(found.starts_with(expected), "{found}");
    let found = find("rsa -tls1_2");
    let expected = "authority=B.example alpn=x verify=1 version=TLSv1.2 cn= \
        cipher=ECDHE-RSA-AES256-GCM-SHA384 signature=ecdsa-with-SHA256 key=RSA2048 whole=\\x01";
    assert!(found.starts_with(expected), "{found}");
    let found =
        find("asked -tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256 -cert certificates/client");
    assert!(
        found.contains(" verify=0 ") && found.contains(" cn=client "),
        "{found}"
    );
    assert!(found.contains("whole=\\x07\\x00\\x00\\x00\\x00"), "{found}");
    assert_eq!(
        find("plain"),
        "authority= alpn= verify= version= cn= cipher= signature= key= whole="
    );
}

#[test]
fn it_is_what_nginx_tells() {
    if !nginx_has_stream() || nginx_version() < (1, 31, 0) {
        return sealane_needs::leave_out("nginx 1.31 with \"stream\" to compare with");
    }
    let site = site();
    let ours = told(&site, Program::Sealane);
    let theirs = told(&site, Program::Nginx);
    for ((what, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        assert_eq!(shown(ours), shown(theirs), "{what}");
    }
}
