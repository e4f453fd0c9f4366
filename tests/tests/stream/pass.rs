//! What goes along when `pass` gives a connection to another listener. nginx, where there is one,
//! is asked for the same.

use super::*;
use sealane_tests::comparison::nginx_version;
use sealane_tests::upgrade::KeptTls;
use sealane_tests::{Certificate, CertificateKey, nginx_has_stream};

const A: &str = "ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;";

/// A configuration with both blocks.
fn both(stream: &str, http: &str) -> String {
    format!("{} http {{ {http} }}", configuration(stream))
}

/// Does the same with each program.
fn with_each(site: &Site, configuration: &str, test: impl Fn(&Server<'_>)) {
    if nginx_has_stream() && nginx_version() >= (1, 31, 0) {
        test(&Server::start(site, Program::Nginx, configuration));
    }
    test(&Server::start(site, Program::Sealane, configuration));
}

/// The answer to a text on a new connection.
#[track_caller]
fn answer(port: u16, text: &str) -> String {
    let mut socket = connect(port);
    socket.write_all(text.as_bytes()).expect("it is taken");
    rest(&mut socket)
}

/// The answer to a request of one line on a new connection, after this PROXY header.
#[track_caller]
fn body(port: u16, header: &str, target: &str) -> String {
    let answer = answer(port, &format!("{header}GET {target} HTTP/1.0\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("it is complete");
    format!("{} {body}", &head["HTTP/1.1 ".len()..][..3])
}

#[test]
fn the_address_that_a_proxy_has_told() {
    let site = Site::new();
    site.write("www/index.html", "welcome");
    let configuration = both(
        "set_real_ip_from 127.0.0.0/8;
         server { listen 127.0.0.1:%a% proxy_protocol; pass 127.0.0.1:%web%; }
         server { listen 127.0.0.1:%twice% proxy_protocol; pass 127.0.0.1:%again%; }
         server { listen 127.0.0.1:%again%; pass 127.0.0.1:%web%; }
         server { listen 127.0.0.1:%text% proxy_protocol; pass 127.0.0.1:%inner%; }
         server { listen 127.0.0.1:%inner%; deny 10.9.8.7;
                  return \"$remote_addr $remote_port $realip_remote_addr $proxy_protocol_addr\"; }
         server { listen 127.0.0.1:%proxy% proxy_protocol; pass 127.0.0.1:%outer%; }
         server { listen 127.0.0.1:%outer%; proxy_protocol on; proxy_pass 127.0.0.1:%reporting%; }
         server { listen 127.0.0.1:%reporting% proxy_protocol; return $proxy_protocol_addr; }",
        "log_format s '$remote_addr $uri'; access_log logs/http.log s;
         server { listen 127.0.0.1:%web%; root www; deny 10.9.8.7; allow all;
                  set_real_ip_from 10.9.8.8; real_ip_header X-Real-IP;
                  location /who { return 200 '$remote_addr $remote_port $realip_remote_addr'; } }",
    );
    let denied = "PROXY TCP4 10.9.8.7 10.1.1.1 4444 25\r\n";
    let other = "PROXY TCP4 10.9.8.8 10.1.1.1 4445 25\r\n";
    with_each(&site, &configuration, |server| {
        for name in ["a", "twice"] {
            let port = server.port(name);
            let refused = body(port, denied, "/");
            assert!(refused.starts_with("403 "), "{name}: {refused}");
            assert_eq!(body(port, other, "/"), "200 welcome", "{name}");
            let who = "200 10.9.8.8 4445 10.9.8.8";
            assert_eq!(body(port, other, "/who"), who, "{name}");
            // It is whom further headers are believed by.
            let fields = format!("{other}GET /who HTTP/1.0\r\nX-Real-IP: 10.9.8.9\r\n\r\n");
            let told = answer(port, &fields);
            assert!(told.ends_with("\r\n\r\n10.9.8.9  10.9.8.8"), "{told}");
        }
        assert_eq!(answer(server.port("text"), denied), "");
        assert_eq!(
            answer(server.port("text"), other),
            "10.9.8.8 4445 10.9.8.8 10.9.8.8"
        );
        assert_eq!(answer(server.port("proxy"), other), "10.9.8.8");
        // Nobody has told anything else of who is not trusted, or does not say.
        let unknown = body(server.port("a"), "PROXY UNKNOWN\r\n", "/who");
        assert!(unknown.starts_with("200 127.0.0.1 "), "{unknown}");
        server.wait_for_log("access forbidden by rule, client: 10.9.8.7");
        wait_for("the line of the access log", || {
            let log = std::fs::read_to_string(site.path("logs/http.log")).ok()?;
            log.contains("10.9.8.7 /").then_some(())
        });
    });
}

#[test]
fn what_the_certificates_of_a_client_are_worth() {
    let site = Site::new();
    for name in ["a", "client"] {
        site.certificate(&Certificate::localhost(name, CertificateKey::P256));
    }
    let asking = "ssl_verify_client on; ssl_client_certificate certificates/authority.pem;";
    let configuration = both(
        &format!(
            "{A} server {{ listen 127.0.0.1:%a% ssl; {asking} pass 127.0.0.1:%web%; }}
             server {{ listen 127.0.0.1:%bare% ssl; pass 127.0.0.1:%asking%; }}"
        ),
        &format!(
            "server {{ listen 127.0.0.1:%web%; return 200 \"$https $ssl_client_verify\\n\"; }}
             server {{ listen 127.0.0.1:%asking%; listen 127.0.0.1:%secure% ssl; {A} {asking}
                       return 200 \"$https $ssl_client_verify\\n\"; }}"
        ),
    );
    let pem = site.path("certificates/client.pem").display().to_string();
    let key = site.path("certificates/client.key").display().to_string();
    with_each(&site, &configuration, |server| {
        let mut kept = KeptTls::open(server.port("a"), &format!("-cert {pem} -key {key}"));
        assert!(kept.get("/").ends_with("on SUCCESS\n"));
        // The listener has no rules for TLS, whatever else the server has.
        let mut kept = KeptTls::open(server.port("bare"), "");
        assert!(kept.get("/").ends_with("on NONE\n"));
    });
}

#[test]
fn what_a_connection_holds_of_limits() {
    let site = Site::new();
    let configuration = both(
        "limit_conn_zone $server_port zone=ports:1m; limit_conn_zone $binary_remote_addr zone=clients:1m;
         server { listen 127.0.0.1:%a%; limit_conn ports 2; pass 127.0.0.1:%web%; }
         server { listen 127.0.0.1:%once%; limit_conn clients 3; pass 127.0.0.1:%twice%; }
         server { listen 127.0.0.1:%twice%; limit_conn clients 3; pass 127.0.0.1:%thrice%; }
         server { listen 127.0.0.1:%thrice%; limit_conn clients 3; pass 127.0.0.1:%web%; }",
        "server { listen 127.0.0.1:%web%; return 200 ok; }",
    );
    /// A connection, and whether its request was answered.
    fn ask(port: u16) -> (TcpStream, bool) {
        let mut socket = connect(port);
        let sent = socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut first = [0; 12];
        let answered = sent.is_ok() && socket.read_exact(&mut first).is_ok();
        (socket, answered)
    }
    with_each(&site, &configuration, |server| {
        let port = server.port("a");
        // Who has looked whether it listens may still hold one.
        let kept: [TcpStream; 2] = std::array::from_fn(|_| {
            wait_for("an answer", || {
                let (socket, answered) = ask(port);
                answered.then_some(socket)
            })
        });
        assert!(!ask(port).1, "two are connected");
        assert!(!ask(port).1, "and still are");
        drop(kept);
        wait_for("their end", || ask(port).1.then_some(()));
        // Each of the three counts.
        let port = server.port("once");
        let kept = wait_for("an answer", || {
            let (socket, answered) = ask(port);
            answered.then_some(socket)
        });
        assert!(!ask(port).1, "three are held");
        drop(kept);
        wait_for("its end", || ask(port).1.then_some(()));
    });
}

#[test]
fn the_address_that_was_asked_for() {
    let site = Site::new();
    let socket = site.path("socket").display().to_string();
    let configuration = both(
        &format!(
            "server {{ listen 127.0.0.1:%a%; pass 127.0.0.9:%any%; }}
             server {{ listen 127.0.0.1:%exact%; pass 127.0.0.2:%any%; }}
             map $server_port $at {{ default 127.0.0.8:%any%; }}
             server {{ listen 127.0.0.1:%evaluated%; pass $at; }}
             server {{ listen 127.0.0.1:%unix%; pass unix:{socket}; }}
             server {{ listen 127.0.0.1:%web%; pass 127.0.0.7:%http%; }}
             server {{ listen %any%; return \"any $server_addr:$server_port\"; }}
             server {{ listen 127.0.0.2:%any%; return \"one $server_addr:$server_port\"; }}
             server {{ listen unix:{socket}; return \"$server_addr:$server_port\"; }}"
        ),
        "server { listen %http%; return 200 $server_addr:$server_port; }",
    );
    with_each(&site, &configuration, |server| {
        let answer = |name: &str| rest(&mut connect(server.port(name)));
        let (any, http) = (server.port("any"), server.port("http"));
        assert_eq!(answer("a"), format!("any 127.0.0.9:{any}"));
        assert_eq!(answer("exact"), format!("one 127.0.0.2:{any}"));
        assert_eq!(answer("evaluated"), format!("any 127.0.0.8:{any}"));
        assert_eq!(answer("unix"), format!("unix:{socket}:"));
        let found = body(server.port("web"), "", "/");
        assert_eq!(found, format!("200 127.0.0.7:{http}"));
    });
}

#[test]
fn a_port_alone_asks_for_no_address() {
    // nginx finds no address in it.
    let site = Site::new();
    let server = serve(
        &site,
        "server { listen 127.0.0.1:%a%; pass %any%; }
         server { listen %any%; return $server_addr:$server_port; }",
    );
    let any = server.port("any");
    assert_eq!(
        rest(&mut connect(server.port("a"))),
        format!("0.0.0.0:{any}")
    );
}

#[test]
fn tls_that_has_ended_goes_to_listeners_with_it() {
    let site = Site::new();
    for name in ["a", "client"] {
        site.certificate(&Certificate::localhost(name, CertificateKey::P256));
    }
    let asking = "ssl_verify_client on; ssl_client_certificate certificates/authority.pem;";
    let configuration = both(
        &format!(
            "{A} server {{ listen 127.0.0.1:%a% ssl; pass 127.0.0.1:%web%; }}
             server {{ listen 127.0.0.1:%bare% ssl; pass 127.0.0.1:%asking%; }}
             server {{ listen 127.0.0.1:%asked% ssl; {asking} pass 127.0.0.1:%asking%; }}
             server {{ listen 127.0.0.1:%stream% ssl; {asking} pass 127.0.0.1:%inner%; }}
             server {{ listen 127.0.0.1:%inner% ssl; {asking} return \"$ssl_client_verify\n\"; }}
             server {{ listen 127.0.0.1:%closed% ssl; pass 127.0.0.1:%inner%; }}"
        ),
        &format!(
            "{A} server {{ listen 127.0.0.1:%web% ssl; return 200 \"$https $ssl_server_name\n\"; }}
             server {{ listen 127.0.0.1:%asking% ssl; {asking} return 200 \"$ssl_client_verify\n\"; }}"
        ),
    );
    let pem = site.path("certificates/client.pem").display().to_string();
    let key = site.path("certificates/client.key").display().to_string();
    let known = format!("-cert {pem} -key {key}");
    with_each(&site, &configuration, |server| {
        let mut kept = KeptTls::open(server.port("a"), "-servername a.example");
        for _ in 0..2 {
            assert_eq!(kept.get("/"), "on a.example\n");
        }
        let mut kept = KeptTls::open(server.port("asked"), &known);
        assert_eq!(kept.get("/"), "SUCCESS\n");
        // Who was not asked for a certificate has sent none.
        let mut kept = KeptTls::open(server.port("bare"), "");
        let refused = kept.says_back("GET / HTTP/1.0\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
        let mut kept = KeptTls::open(server.port("stream"), &known);
        assert_eq!(kept.line(), "SUCCESS\n");
        let mut kept = KeptTls::open(server.port("closed"), "");
        assert_eq!(kept.line(), "");
    });
}
