use proptest::prelude::*;

use super::*;

fn parsed(value: &str) -> Uri {
    Uri::parse(value).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn refused(value: &str) -> UriError {
    assert!(is_uri(value) || !value.contains("pkcs11:"), "{value}");
    Uri::parse(value).expect_err(value)
}

#[test]
fn every_attribute_of_the_rfc() {
    let uri = parsed(
        "pkcs11:token=The%20Software%20PKCS%2311%20Softtoken;manufacturer=Snake%20Oil,%20Inc.;\
         serial=;model=1.0;object=my-key;id=%69%00%FF;type=private;slot-id=327;\
         slot-description=Slot;slot-manufacturer=m;library-manufacturer=L;\
         library-description=D;library-version=2.6\
         ?pin-source=file:/etc/token%20pin&module-name=softhsm2&module-path=/usr/lib/x.so&x-v=1&x-v=2",
    );
    let expected = Uri {
        token: Some("The Software PKCS#11 Softtoken".into()),
        manufacturer: Some("Snake Oil, Inc.".into()),
        serial: Some(String::new()),
        model: Some("1.0".into()),
        library_manufacturer: Some("L".into()),
        library_description: Some("D".into()),
        library_version: Some((2, 6)),
        slot_description: Some("Slot".into()),
        slot_manufacturer: Some("m".into()),
        slot_id: Some(327),
        object: Some("my-key".into()),
        id: Some(vec![0x69, 0, 0xff]),
        is_private: true,
        pin_source: Some("/etc/token pin".into()),
        module_name: Some("softhsm2".into()),
        module_path: Some("/usr/lib/x.so".into()),
    };
    assert_eq!(uri, expected);
    assert_eq!(
        uri.to_string(),
        "pkcs11:token=The%20Software%20PKCS%2311%20Softtoken;manufacturer=Snake%20Oil,%20Inc.;\
         serial=;model=1.0;library-manufacturer=L;library-description=D;slot-description=Slot;\
         slot-manufacturer=m;library-version=2.6;slot-id=327;object=my-key;id=%69%00%FF;\
         type=private"
    );
    assert_eq!(
        parsed("pkcs11:library-version=3").library_version,
        Some((3, 0))
    );
    assert_eq!(uri.pin_source(), Some(Path::new("/etc/token pin")));
    assert_eq!(uri.module_name(), Some("softhsm2"));
    assert_eq!(uri.module_path(), Some(Path::new("/usr/lib/x.so")));
}

#[test]
fn forms_that_configurations_use() {
    let uri = parsed("pkcs11:token=t;object=k");
    for same in [
        "PKCS11:token=t;object=k",
        "store:pkcs11:token=t;object=k",
        "engine:pkcs11:pkcs11:token=t;object=k",
        "engine:pkcs11:token=t;object=k",
        "engine:pkcs11:object=k;token=t;",
        "pkcs11:token=%74;object=k?",
    ] {
        assert_eq!(parsed(same), uri, "{same}");
        assert!(is_uri(same), "{same}");
    }
    let old = |value: &str| {
        let uri = parsed(value);
        (uri.slot_id, uri.id, uri.object)
    };
    assert_eq!(
        old("engine:pkcs11:slot_0-id_01fE"),
        (Some(0), Some(vec![1, 0xfe]), None)
    );
    assert_eq!(
        old("engine:pkcs11:slot_12-label_my key=x"),
        (Some(12), None, Some("my key=x".into()))
    );
    assert_eq!(old("engine:pkcs11:id_0A"), (None, Some(vec![10]), None));
    assert_eq!(
        old("engine:pkcs11:label_id_01"),
        (None, None, Some("id_01".into()))
    );
    assert_eq!(old("engine:pkcs11:slot_3"), (Some(3), None, None));
    for other in ["", "/etc/key.pem", "data:x", "pkcs11", "$key", "pkcs1:x=y"] {
        assert!(!is_uri(other), "{other}");
        assert_eq!(refused(other), UriError::NotAUri, "{other}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let cases = [
        ("engine:tpm2:x", "the engine \"tpm2\" is not supported"),
        ("store:file:/x", "the scheme \"file\" are a provider"),
        ("engine:pkcs11:slot_x-id_01", "\"slot_x-id_01\" is neither"),
        ("engine:pkcs11:slot_1-id_0", "neither a URI"),
        ("engine:pkcs11:slot_1-id_", "neither a URI"),
        ("engine:pkcs11:id_+1", "neither a URI"),
        ("engine:pkcs11:", ""),
        ("pkcs11:token", "\"token\" is not NAME=VALUE"),
        ("pkcs11:tokn=x", "\"tokn\" is unknown"),
        ("pkcs11:x-vendor=1", "\"x-vendor\" is unknown"),
        ("pkcs11:token=a;token=a", "\"token\" stands there twice"),
        ("pkcs11:type=private;type=private", "stands there twice"),
        ("pkcs11:?module-name=a&module-name=b", "stands there twice"),
        ("pkcs11:object=50%", "not followed by two hexadecimal"),
        ("pkcs11:object=%4", "not followed by two hexadecimal"),
        ("pkcs11:object=%+1x", "not followed by two hexadecimal"),
        ("pkcs11:object=%ff", "\"object\" is not UTF-8"),
        ("pkcs11:object=a%00", "a control character in \"object\""),
        ("pkcs11:object=a\nb", "a control character in \"object\""),
        ("pkcs11:type=cert", "type=cert is not a private key"),
        ("pkcs11:type=Private", "must be \"private\""),
        ("pkcs11:slot-id=-1", "must be a decimal number"),
        ("pkcs11:slot-id=", "must be a decimal number"),
        ("pkcs11:slot-id=99999999999999999999", "a decimal number"),
        ("pkcs11:library-version=2.", "must be a version"),
        ("pkcs11:library-version=2.600", "must be a version"),
        (
            "pkcs11:?pin-source=%7C/bin/x",
            "a program as pin-source is not run",
        ),
        ("pkcs11:?pin-source=token.pin", "must be the absolute path"),
        (
            "pkcs11:?pin-source=file:token.pin",
            "must be the absolute path",
        ),
        (
            "pkcs11:?pin-source=file://host/x",
            "must be the absolute path",
        ),
        ("pkcs11:?pin-source=/etc/", "must be the absolute path"),
        ("pkcs11:?module-path=lib.so", "must be an absolute path"),
        ("pkcs11:?module-name=../x", "without a directory"),
        ("pkcs11:object=a?b", "an attribute after the \"?\""),
    ];
    for (value, expected) in cases {
        if expected.is_empty() {
            // Nothing restricts the choice: the one key of the one token.
            assert_eq!(parsed(value), Uri::default());
            continue;
        }
        let error = refused(value).to_string();
        assert!(error.contains(expected), "{value}: {error}");
    }
    let long = format!("pkcs11:object={}", "x".repeat(MAX_URI_BYTES));
    assert_eq!(refused(&long), UriError::TooLong);
}

#[test]
fn pins_come_from_files_only_and_are_never_shown() {
    for value in [
        "pkcs11:token=t?pin-value=4711",
        "pkcs11:token=t?pin-source=/p&pin-value=4711",
        "store:pkcs11:?pin-value=4711",
        "engine:pkcs11:pkcs11:?pin-value=4711",
    ] {
        let error = refused(value);
        assert_eq!(error, UriError::PinInUri, "{value}");
        assert!(!format!("{error} {error:?}").contains("4711"));
        assert!(error.to_string().contains("pin-source=file:/path"));
    }
    for value in ["pkcs11:?4711", "pkcs11:?pin-value%3D4711"] {
        let error = refused(value);
        assert!(!format!("{error} {error:?}").contains("4711"), "{value}");
    }
    for source in [
        "/p",
        "file:/p",
        "file:///p",
        "file://localhost/p",
        "FILE:/p",
    ] {
        let uri = parsed(&format!("pkcs11:token=t?pin-source={source}"));
        assert_eq!(uri.pin_source(), Some(Path::new("/p")), "{source}");
        assert_eq!(format!("{uri:?}"), "Uri(pkcs11:token=t;type=private)");
    }
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("token".to_owned()),
        Just("object".to_owned()),
        Just("id".to_owned()),
        Just("slot-id".to_owned()),
        Just("type".to_owned()),
        Just("library-version".to_owned()),
        Just("pin-value".to_owned()),
        Just("pin-source".to_owned()),
        "[a-z-]{0,8}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        for prefix in ["", "pkcs11:", "engine:pkcs11:", "engine:pkcs11:slot_", "store:"] {
            let value = format!("{prefix}{text}");
            if let Ok(uri) = Uri::parse(&value) {
                prop_assert!(is_uri(&value));
                let again = Uri::parse(&uri.to_string()).expect("what is printed is read");
                prop_assert_eq!(again.to_string(), uri.to_string());
            }
        }
    }

    #[test]
    fn attributes_in_any_order_are_read_or_refused(
        path in prop::collection::vec((names(), "[ -~%é]{0,12}"), 0..6),
        query in prop::collection::vec((names(), "[ -~%é]{0,12}"), 0..3),
    ) {
        let join = |parts: &[(String, String)], separator: &str| {
            let parts: Vec<_> = parts.iter().map(|(name, value)| format!("{name}={value}")).collect();
            parts.join(separator)
        };
        let value = format!("pkcs11:{}?{}", join(&path, ";"), join(&query, "&"));
        match Uri::parse(&value) {
            Ok(uri) => {
                let again = Uri::parse(&uri.to_string()).expect("what is printed is read");
                prop_assert_eq!(again.to_string(), uri.to_string());
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn texts_and_bytes_survive(label in "\\PC{0,40}", id in prop::collection::vec(any::<u8>(), 0..40)) {
        let uri = Uri { object: Some(label), id: Some(id), is_private: true, ..Uri::default() };
        prop_assert_eq!(Uri::parse(&uri.to_string()).expect("what is printed is read"), uri);
    }
}
