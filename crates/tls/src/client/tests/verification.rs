//! Which certificates are accepted, and what is reported about the others. The numbers are those
//! that nginx logs with OpenSSL 3, compared side by side. Two differences are ours: addresses are
//! looked up among addresses, and `a*.test` is not a wildcard.

use super::*;

/// Connects as `name`; `Ok` or what would be logged.
fn judge(settings: &ClientSettings, made: &Made, name: &str) -> Result<(), String> {
    let (client, server) = (client(settings), made.server());
    let mut pair = Pair::new(&client, &server, name);
    let judged = pair.handshake();
    if let Err(error) = &judged {
        assert!(error.is_verification(), "{error}");
        assert!(!pair.client.is_established());
        assert_eq!(
            pair.client.write(b"GET", &mut pair.to_server),
            Err(Error::NotEstablished)
        );
        assert!(!pair.to_server.is_empty(), "an alert tells the server");
    }
    judged.map_err(|error| error.to_string())
}

fn refused(number_and_reason: &str) -> Result<(), String> {
    Err(format!(
        "upstream SSL certificate verify error: ({number_and_reason})"
    ))
}

fn other_name(name: &str) -> Result<(), String> {
    Err(format!(
        "upstream SSL certificate does not match \"{name}\""
    ))
}

#[test]
fn a_trusted_certificate_with_the_name() {
    let settings = verifying(&root().pem());
    let made = root().leaf(&["a.test", "*.wild.test"]);
    for name in ["a.test", "A.TEST", "a.test:8443", "x.wild.test"] {
        assert_eq!(judge(&settings, &made, name), Ok(()), "{name}");
    }
    for name in [
        "b.test",
        "wild.test",
        "x.y.wild.test",
        "a.test.",
        "a.test.evil",
        "",
        "127.0.0.1",
    ] {
        assert_eq!(judge(&settings, &made, name), other_name(name), "{name}");
    }
}

#[test]
fn a_wildcard_is_a_whole_first_label() {
    let settings = verifying(&root().pem());
    for (pattern, name) in [
        ("f*.wild.test", "foo.wild.test"),
        ("a.*.wild.test", "a.b.wild.test"),
        ("*.test", "a.test"),
        ("*", "a"),
    ] {
        let made = root().leaf(&[pattern]);
        assert_eq!(judge(&settings, &made, name), other_name(name), "{pattern}");
    }
}

#[test]
fn addresses_are_found_among_addresses_and_common_names() {
    let settings = verifying(&root().pem());
    let by_address = root().leaf(&["127.0.0.1", "::1"]);
    for name in ["127.0.0.1", "127.0.0.1:443", "[::1]", "[::1]:443", "::1"] {
        assert_eq!(judge(&settings, &by_address, name), Ok(()), "{name}");
    }
    for (name, shown) in [("127.0.0.2", "127.0.0.2"), ("[::2]:443", "[::2]")] {
        assert_eq!(judge(&settings, &by_address, name), other_name(shown));
    }
    // As nginx has it: an address written out, where the certificate has no host names.
    let by_common_name = root().leaf_with(&[], |params| common_name(params, "127.0.0.1"));
    assert_eq!(judge(&settings, &by_common_name, "127.0.0.1"), Ok(()));
}

fn common_name(params: &mut rcgen::CertificateParams, name: &str) {
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
}

#[test]
fn the_common_name_counts_only_without_host_names() {
    let settings = verifying(&root().pem());
    let alone = root().leaf_with(&[], |params| common_name(params, "cn.test"));
    assert_eq!(judge(&settings, &alone, "cn.test"), Ok(()));
    let beside = root().leaf_with(&["a.test"], |params| common_name(params, "cn.test"));
    assert_eq!(judge(&settings, &beside, "cn.test"), other_name("cn.test"));
}

#[test]
fn an_unknown_authority() {
    let stranger = Ca::root("Stranger");
    let settings = verifying(&root().pem());
    assert_eq!(
        judge(&settings, &stranger.leaf(&["a.test"]), "a.test"),
        refused("21:unable to verify the first certificate")
    );
    let intermediate = stranger.intermediate("Between");
    let made = intermediate.leaf(&["a.test"]).with(&intermediate);
    assert_eq!(
        judge(&settings, &made, "a.test"),
        refused("20:unable to get local issuer certificate")
    );
    let with_root = stranger.leaf(&["a.test"]).with(&stranger);
    assert_eq!(
        judge(&settings, &with_root, "a.test"),
        refused("19:self-signed certificate in certificate chain")
    );
}

#[test]
fn an_authority_that_only_has_the_trusted_name() {
    let settings = verifying(&root().pem());
    let imposter = Ca::root("Root");
    let made = imposter.leaf_with(&["a.test"], |params| {
        // Without it the imposter's other key would be noticed before the signature.
        params.use_authority_key_identifier_extension = false;
    });
    assert_eq!(
        judge(&settings, &made, "a.test"),
        refused("7:certificate signature failure")
    );
}

#[test]
fn a_self_signed_certificate() {
    let key = key();
    let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signs");
    let made = Made {
        chain_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
        serial: 0,
    };
    let settings = verifying(&root().pem());
    assert_eq!(
        judge(&settings, &made, "a.test"),
        refused("18:self-signed certificate")
    );
    // Trusted itself, it is good for its own name.
    let settings = verifying(&certificate.pem());
    assert_eq!(judge(&settings, &made, "a.test"), Ok(()));
    assert_eq!(judge(&settings, &made, "b.test"), other_name("b.test"));
}

#[test]
fn certificates_have_their_time() {
    let settings = verifying(&root().pem());
    let expired = root().leaf_with(&["a.test"], |params| {
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    assert_eq!(
        judge(&settings, &expired, "a.test"),
        refused("10:certificate has expired")
    );
    let early = root().leaf_with(&["a.test"], |params| {
        params.not_before = rcgen::date_time_ymd(2120, 1, 1);
        params.not_after = rcgen::date_time_ymd(2121, 1, 1);
    });
    assert_eq!(
        judge(&settings, &early, "a.test"),
        refused("9:certificate is not yet valid")
    );
}

#[test]
fn a_certificate_for_clients_is_none_for_servers() {
    let settings = verifying(&root().pem());
    let made = root().leaf_with(&["a.test"], |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    });
    assert_eq!(
        judge(&settings, &made, "a.test"),
        refused("26:unsuitable certificate purpose")
    );
}

#[test]
fn a_leaf_cannot_issue() {
    let settings = verifying(&root().pem());
    let key = key();
    let mut params = rcgen::CertificateParams::new(vec!["mallory.test".to_owned()]).expect("name");
    params.is_ca = rcgen::IsCa::ExplicitNoCa;
    common_name(&mut params, "mallory");
    let mallory = Ca {
        issuer: rcgen::CertifiedIssuer::signed_by(params, key, &root().issuer).expect("signs"),
    };
    let made = mallory.leaf(&["a.test"]).with(&mallory);
    assert_eq!(
        judge(&settings, &made, "a.test"),
        refused("26:unsuitable certificate purpose")
    );
}

#[test]
fn the_depth_counts_what_is_between() {
    let one = root().intermediate("One");
    let two = one.intermediate("Two");
    let chains = [
        root().leaf(&["a.test"]),
        one.leaf(&["a.test"]).with(&one),
        two.leaf(&["a.test"]).with(&two).with(&one),
    ];
    for (between, made) in chains.iter().enumerate() {
        for depth in 0..=3_usize {
            let settings = ClientSettings {
                verify_depth: u32::try_from(depth).expect("small"),
                ..verifying(&root().pem())
            };
            let expected = if depth >= between {
                Ok(())
            } else {
                refused("20:unable to get local issuer certificate")
            };
            assert_eq!(
                judge(&settings, made, "a.test"),
                expected,
                "{between} between, depth {depth}"
            );
        }
    }
    // nginx's default.
    assert_eq!(DEFAULT_VERIFY_DEPTH, 1);
    // An intermediate that the server does not send may be in the file of trusted ones.
    let settings = verifying(&(root().pem() + &one.pem()));
    assert_eq!(judge(&settings, &one.leaf(&["a.test"]), "a.test"), Ok(()));
    // Alone it is none to end at: OpenSSL wants a root.
    let settings = verifying(&one.pem());
    let judged = judge(&settings, &one.leaf(&["a.test"]), "a.test");
    assert_eq!(judged, refused("2:unable to get issuer certificate"));
}

#[test]
fn revocation_lists_cover_the_whole_chain() {
    let root = Ca::root("Revoking root");
    let between = root.intermediate("Between");
    let good = between.leaf(&["a.test"]).with(&between);
    let bad = between.leaf(&["a.test"]).with(&between);
    let with_lists = |lists: &str| ClientSettings {
        revocation_lists: pem(lists),
        ..verifying(&root.pem())
    };
    let both = between.revoke(&[bad.serial]) + &root.revoke(&[]);
    assert_eq!(judge(&with_lists(&both), &good, "a.test"), Ok(()));
    assert_eq!(
        judge(&with_lists(&both), &bad, "a.test"),
        refused("23:certificate revoked")
    );
    // Without a list of the root nothing is known of the intermediate.
    let one = between.revoke(&[]);
    assert_eq!(
        judge(&with_lists(&one), &good, "a.test"),
        refused("3:unable to get certificate CRL")
    );
}

#[test]
fn without_verification_anything_goes() {
    let stranger = Ca::root("Stranger").leaf_with(&["b.test"], |params| {
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let settings = ClientSettings {
        verify: false,
        ..verifying(&root().pem())
    };
    assert_eq!(judge(&settings, &stranger, "a.test"), Ok(()));
    assert_eq!(judge(&ClientSettings::default(), &stranger, ""), Ok(()));
}

#[test]
fn every_certificate_of_a_large_bundle_is_trusted() {
    let mut bundle = String::from("# comments are skipped\n");
    let others: Vec<Ca> = (0..150).map(|n| Ca::root(&format!("Root {n}"))).collect();
    for other in &others {
        bundle.push_str(&other.pem());
    }
    let last = others.last().expect("150 of them");
    let settings = verifying(&bundle);
    assert_eq!(judge(&settings, &last.leaf(&["a.test"]), "a.test"), Ok(()));
}

#[test]
fn the_alert_says_why() {
    let client = client(&only(Protocol::TlsV1_2, &verifying(&root().pem())));
    let expired = root().leaf_with(&["a.test"], |params| {
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    for (made, name, alert) in [
        (expired, "a.test", 45),                                // certificate_expired
        (Ca::root("Stranger").leaf(&["a.test"]), "a.test", 48), // unknown_ca
        (root().leaf(&["a.test"]), "b.test", 42),               // bad_certificate
    ] {
        let mut pair = Pair::new(&client, &made.server(), name);
        pair.handshake().expect_err("refused");
        assert_eq!(pair.to_server, [21, 3, 3, 0, 2, 2, alert]);
    }
}
