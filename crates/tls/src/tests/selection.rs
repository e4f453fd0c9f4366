//! Which server, which certificate, which suite a client gets.

use super::*;
use crate::{Fault, SelectServer, Selected, looks_like_tls};

/// `a.test` and `b.test` with settings of their own, `no.test` rejected, the
/// first for everything else.
struct Names(Vec<(&'static str, Arc<ServerTls>)>);

impl SelectServer for Names {
    fn select(&self, name: Option<&str>) -> Selected {
        if name == Some("no.test") {
            return Selected::Reject;
        }
        let at = self
            .0
            .iter()
            .position(|(known, _)| Some(*known) == name)
            .unwrap_or(0);
        Selected::Server(Arc::clone(&self.0[at].1), at as u32)
    }
}

#[test]
fn the_name_selects_the_whole_configuration() {
    let a = server(&ServerSettings {
        protocols: [Protocol::TlsV1_3].into_iter().collect(),
        ..settings(&[rsa()])
    });
    let b = server(&ServerSettings {
        protocols: [Protocol::TlsV1_2].into_iter().collect(),
        ciphers: "ECDHE-ECDSA-AES256-GCM-SHA384".to_owned(),
        ..settings(&[p256()])
    });
    let acceptor = Acceptor::new(Arc::new(Names(vec![("a.test", a), ("b.test", b)])));
    let context = client(|_| {});
    for (name, token, protocol, cipher) in [
        (Some("a.test"), 0, "TLSv1.3", None),
        (
            Some("B.Test"),
            1,
            "TLSv1.2",
            Some("ECDHE-ECDSA-AES256-GCM-SHA384"),
        ),
        (Some("unknown.test"), 0, "TLSv1.3", None),
        (None, 0, "TLSv1.3", None),
    ] {
        let mut pair = Pair::new(&context, &acceptor, name);
        pair.handshake()
            .unwrap_or_else(|error| panic!("{name:?}: {error:?}"));
        assert_eq!(pair.server.selected_token(), token, "{name:?}");
        let info = pair.server.info().expect("chosen");
        assert_eq!(info.protocol(), protocol, "{name:?}");
        assert!(
            cipher.is_none_or(|cipher| info.cipher() == cipher),
            "{name:?}"
        );
        assert_eq!(info.server_name(), name.unwrap_or(""));
    }
}

#[test]
fn a_rejected_name_gets_the_alert() {
    let acceptor = Acceptor::new(Arc::new(Names(vec![(
        "a.test",
        server(&settings(&[rsa()])),
    )])));
    let mut pair = Pair::new(&client(|_| {}), &acceptor, Some("no.test"));
    let Err(Failure::Server(error)) = pair.handshake() else {
        panic!("must be rejected")
    };
    assert_eq!(error, Error::Rejected);
    assert_eq!(error.fault(), Fault::Peer);
    let mut input = &pair.to_client[..];
    let error = pair
        .client
        .handshake(&mut input, &mut Vec::new())
        .expect_err("an alert");
    assert_eq!(error.received_alert(), Some(112), "unrecognized_name");
    let error = pair
        .server
        .handshake(&mut &b"more"[..], &mut Vec::new(), Load::default())
        .expect_err("closed");
    assert_eq!(error, Error::NotEstablished);
}

#[test]
fn reject_handshake_needs_no_certificate() {
    let config = ServerSettings {
        reject_handshake: true,
        ..ServerSettings::default()
    };
    let mut pair = Pair::with(&client(|_| {}), &server(&config));
    assert!(matches!(
        pair.handshake(),
        Err(Failure::Server(Error::Rejected))
    ));
}

#[test]
fn sha_1_signs_only_where_the_operator_wants_it() {
    // What a client gets that takes SHA-1 alone, and one that takes it for its first suite.
    let schemes = |server: &Arc<ServerTls>| {
        ["RSA+SHA1", "RSA+SHA1:ECDSA+SHA256"].map(|list| {
            let context = client(|builder| {
                super::version(builder, ProtocolVersion::Tls12);
                let suites = "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256";
                builder.set_cipher_list(suites).expect("valid");
                builder.set_signature_algorithms(list).expect("valid");
            });
            let mut pair = Pair::with(&context, server);
            pair.handshake().ok()?;
            pair.client.signature_scheme()
        })
    };
    let usual = ServerSettings {
        protocols: [Protocol::TlsV1_2, Protocol::TlsV1_3].into_iter().collect(),
        ..settings(&[rsa(), p256()])
    };
    assert_eq!(schemes(&server(&usual)), [None, Some(0x0403)]);
    let wanted = [Some(0x0201), Some(0x0201)];
    let level_0 = ServerSettings {
        ciphers: "ALL:!aNULL:@SECLEVEL=0".to_owned(),
        ..usual
    };
    assert_eq!(schemes(&server(&level_0)), wanted);
    let old_protocols = settings(&[rsa(), p256()]);
    assert_eq!(schemes(&server(&old_protocols)), wanted);
}

#[test]
fn rsa_and_ecdsa_side_by_side() {
    let server = server(&settings(&[rsa(), p256(), ed25519()]));
    let scheme = |configure: &dyn Fn(&mut ClientContextBuilder)| {
        let mut pair = Pair::with(&client(|builder| configure(builder)), &server);
        pair.handshake().expect("one of the certificates fits");
        pair.client.signature_scheme()
    };
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        let algorithms = |list: &'static str| {
            move |builder: &mut ClientContextBuilder| {
                super::version(builder, version);
                builder.set_signature_algorithms(list).expect("valid");
            }
        };
        assert_eq!(
            scheme(&algorithms("ECDSA+SHA256")),
            Some(0x0403),
            "{version}"
        );
        assert_eq!(
            scheme(&algorithms("RSA-PSS+SHA256")),
            Some(0x0804),
            "{version}"
        );
        assert_eq!(scheme(&algorithms("ed25519")), Some(0x0807), "{version}");
        assert!(scheme(&algorithms("RSA-PSS+SHA256:ECDSA+SHA256")).is_some());
    }
    // Below TLS 1.3 the suites decide as well.
    let suites = |list: &'static str| {
        move |builder: &mut ClientContextBuilder| {
            super::version(builder, ProtocolVersion::Tls12);
            builder.set_cipher_list(list).expect("valid");
        }
    };
    assert_eq!(
        scheme(&suites(
            "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256"
        )),
        Some(0x0804)
    );
    assert_eq!(
        scheme(&suites(
            "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256"
        )),
        Some(0x0403)
    );
    assert_eq!(
        scheme(&suites("AES128-GCM-SHA256")),
        None,
        "static RSA signs nothing"
    );
}

#[test]
fn the_order_of_the_client_or_of_the_server() {
    let negotiated = |config: &ServerSettings, configure: &dyn Fn(&mut ClientContextBuilder)| {
        let mut pair = Pair::with(&client(|builder| configure(builder)), &server(config));
        pair.handshake().expect("a common suite");
        pair.server.info().expect("chosen").cipher()
    };
    let theirs12 = |builder: &mut ClientContextBuilder| {
        super::version(builder, ProtocolVersion::Tls12);
        builder
            .set_cipher_list("ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256")
            .expect("valid");
    };
    let aes_first12 = |builder: &mut ClientContextBuilder| {
        super::version(builder, ProtocolVersion::Tls12);
        builder
            .set_cipher_list("ECDHE-RSA-AES128-SHA:ECDHE-RSA-AES128-GCM-SHA256")
            .expect("valid");
    };
    let theirs13 = |builder: &mut ClientContextBuilder| {
        super::version(builder, ProtocolVersion::Tls13);
        builder
            .set_ciphersuites("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256")
            .expect("valid");
    };
    let mut config = settings(&[rsa()]);
    config.ciphers =
        "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-SHA".to_owned();
    config.ciphersuites = Some("TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256".to_owned());
    assert_eq!(
        negotiated(&config, &theirs12),
        "ECDHE-RSA-CHACHA20-POLY1305"
    );
    assert_eq!(negotiated(&config, &theirs13), client_first_of_tls13());
    config.prefer_server_ciphers = true;
    assert_eq!(
        negotiated(&config, &theirs12),
        "ECDHE-RSA-AES128-GCM-SHA256"
    );
    assert_eq!(negotiated(&config, &theirs13), "TLS_AES_128_GCM_SHA256");
    config.prioritize_chacha = true;
    assert_eq!(
        negotiated(&config, &theirs12),
        "ECDHE-RSA-CHACHA20-POLY1305"
    );
    assert_eq!(
        negotiated(&config, &aes_first12),
        "ECDHE-RSA-AES128-GCM-SHA256"
    );
}

/// libssl's clients order TLS 1.3 suites by what their hardware does well, not by
/// configuration, so ask one what it puts first.
fn client_first_of_tls13() -> &'static str {
    let context = client(|builder| {
        super::version(builder, ProtocolVersion::Tls13);
        builder
            .set_ciphersuites("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256")
            .expect("valid");
    });
    let mut pair = Pair::with(&context, &server(&settings(&[rsa()])));
    pair.handshake().expect("a common suite");
    let offered = pair.server.info().expect("chosen").ciphers();
    let chacha = offered.find("TLS_CHACHA20").expect("offered");
    if chacha < offered.find("TLS_AES_128").expect("offered") {
        "TLS_CHACHA20_POLY1305_SHA256"
    } else {
        "TLS_AES_128_GCM_SHA256"
    }
}

#[test]
fn alpn_in_the_servers_order() {
    let config = ServerSettings {
        alpn: vec![b"h2"[..].into(), b"http/1.1"[..].into()],
        ..settings(&[p256()])
    };
    let server = server(&config);
    let context = client(|builder| builder.set_alpn(&[b"http/1.1", b"h2"]).expect("valid"));
    let mut pair = Pair::with(&context, &server);
    pair.handshake().expect("a common protocol");
    assert_eq!(pair.server.info().expect("chosen").alpn(), b"h2");
    assert_eq!(pair.client.alpn(), b"h2");
    let context = client(|builder| builder.set_alpn(&[b"spdy/1"]).expect("valid"));
    let mut pair = Pair::with(&context, &server);
    assert!(matches!(pair.handshake(), Err(Failure::Server(_))));
    let error = pair
        .client
        .handshake(&mut &pair.to_client[..], &mut Vec::new())
        .expect_err("an alert");
    assert_eq!(error.received_alert(), Some(120), "no_application_protocol");
}

#[test]
fn plain_http_on_a_tls_port_is_recognised() {
    assert!(looks_like_tls(b""));
    assert!(looks_like_tls(b"\x16\x03\x01"));
    assert!(looks_like_tls(b"\x80\x2e\x01"), "an SSL 2 hello");
    assert!(!looks_like_tls(b"GET / HTTP/1.1"));
    assert!(!looks_like_tls(b"\r\n"));
}
