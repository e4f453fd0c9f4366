//! What an operator reads when a provider cannot be loaded.

use super::*;
use sealane_provider::ProviderError;

fn refusal(options: ProviderOptions) -> String {
    let options = ProviderOptions {
        library: options.library.or_else(card::library),
        ..options
    };
    let error: ProviderError = Provider::load(&options).expect_err("it cannot be loaded");
    error.to_string()
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn a_provider_that_is_not_there() {
    let text = refusal(ProviderOptions {
        name: "qatprovider-that-is-not-there".into(),
        ..ProviderOptions::default()
    });
    assert_says(
        &text,
        &[
            "there is no OpenSSL provider \"qatprovider-that-is-not-there\": OSSL_PROVIDER_load() failed",
            "qatprovider-that-is-not-there.so",
            "Active are: default.",
            "Install its package, or name a configuration file",
            "provider:qatprovider-that-is-not-there,conf=FILE",
        ],
    );
}

#[test]
fn a_name_that_none_can_have() {
    for name in ["", "../../tmp/x", "a b", &"x".repeat(65)] {
        let text = refusal(ProviderOptions {
            name: name.into(),
            ..ProviderOptions::default()
        });
        assert_says(&text, &["is no name of an OpenSSL provider", "qatprovider"]);
    }
}

#[test]
fn configuration_files_that_are_of_no_use() {
    let directory = std::env::temp_dir().join(format!("sealane-conf-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("room");
    let cases = [
        // Nothing leads to the provider.
        (
            "no-main.cnf",
            Some("[providers]\nasynctest = a\n[a]\nactivate = 1\n"),
            "must have \"openssl_conf = SECTION\"",
        ),
        (
            "empty.cnf",
            Some(""),
            "must have \"openssl_conf = SECTION\"",
        ),
        // A module that is not there, and one that is none. OpenSSL 3.0 does not say so.
        (
            "no-module.cnf",
            Some(
                "openssl_conf = m\n[m]\nproviders = p\n[p]\nasynctest = a\n[a]\n\
                 module = /nonexistent.so\nactivate = 1\n",
            ),
            "openssl list -providers",
        ),
        (
            "no-provider.cnf",
            Some(
                "openssl_conf = m\n[m]\nproviders = p\n[p]\nasynctest = a\n[a]\n\
                 module = libc.so.6\nactivate = 1\n",
            ),
            "openssl list -providers",
        ),
        // No configuration at all.
        (
            "broken.cnf",
            Some("openssl_conf = m\n[m\nx = $(\n"),
            "cannot use the configuration file",
        ),
        ("missing.cnf", None, "cannot use the configuration file"),
    ];
    for (name, text, expected) in cases {
        let path = directory.join(name);
        if let Some(text) = text {
            std::fs::write(&path, text).expect("room");
        }
        let text = refusal(ProviderOptions {
            name: "asynctest".into(),
            conf: Some(path.clone()),
            library: None,
        });
        assert_says(&text, &[expected, &path.display().to_string()]);
    }
    std::fs::remove_dir_all(directory).expect("it is there");
}

#[test]
fn a_library_that_is_not_openssl() {
    let load = |library: &str| {
        refusal(ProviderOptions {
            name: "default".into(),
            conf: None,
            library: Some(library.into()),
        })
    };
    assert_says(
        &load("libc.so.6"),
        &[
            "OpenSSL cannot be loaded: dlsym() failed (libc.so.6 has no function CRYPTO_set_mem_functions: it is not OpenSSL 3 or 4)",
            "libssl3",
        ],
    );
    assert_says(
        &load("/nonexistent/libcrypto.so.3"),
        &[
            "OpenSSL cannot be loaded: dlopen() failed (/nonexistent/libcrypto.so.3: cannot open shared object file",
        ],
    );
}
