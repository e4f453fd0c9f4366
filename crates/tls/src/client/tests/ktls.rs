//! Who seals towards servers: the checks, and that a refusal has no other effect. `tests/vm` tests
//! whether a kernel really seals.

use std::os::fd::AsFd;

use super::*;
use crate::{Capabilities, KernelSeal, Ktls, KtlsMode, KtlsSettings, Refusal, Unavailable};

/// Settings whose kernel can do everything, according to the probe.
fn with_ktls(mode: Option<KtlsMode>, capabilities: Capabilities) -> ClientSettings {
    ClientSettings {
        ktls: KtlsSettings {
            mode,
            capabilities: Arc::new(capabilities),
            ..KtlsSettings::default()
        },
        ..ClientSettings::default()
    }
}

fn refusal(pair: &Pair) -> Option<&'static str> {
    match pair.client.ktls() {
        Ktls::Off(refusal) => Some(refusal.name()),
        Ktls::Pending | Ktls::On => None,
    }
}

fn connected(settings: &ClientSettings) -> Pair {
    let server = root().leaf(&["a.test"]).server();
    let mut pair = Pair::new(&client(settings), &server, "a.test");
    pair.handshake().expect("a suite of both");
    pair
}

#[test]
fn the_first_reason_that_holds_is_told() {
    let on = Some(KtlsMode::On);
    let without_module = || {
        let reason = Unavailable::NoModule { may_load: true };
        with_ktls(on, Capabilities::unavailable(reason))
    };
    let everything = |mode| with_ktls(mode, Capabilities::everything());
    let commanded = |value: &str| ClientSettings {
        conf_commands: vec![("Options".to_owned(), value.to_owned())],
        ..everything(None)
    };
    let cbc = ClientSettings {
        ciphers: "ECDHE-ECDSA-AES128-SHA".to_owned(),
        ..only(Protocol::TlsV1_2, &everything(on))
    };
    // (settings, TCP, reason, whether the kernel takes over at once)
    let cases = [
        (
            everything(Some(KtlsMode::Off)),
            true,
            Some("disabled"),
            false,
        ),
        (commanded("-KTLS"), true, Some("disabled"), false),
        (everything(on), false, Some("not_tcp"), false),
        (cbc, true, Some("suite"), false),
        (without_module(), true, Some("no_module"), false),
        (everything(None), true, None, false),
        (everything(Some(KtlsMode::Auto)), true, None, false),
        (commanded("KTLS"), true, None, true),
        (only(Protocol::TlsV1_2, &everything(on)), true, None, true),
        (everything(on), true, None, true),
    ];
    for (at, (settings, is_tcp, reason, at_once)) in cases.into_iter().enumerate() {
        let mut pair = connected(&settings);
        assert_eq!(pair.client.settle_ktls(is_tcp), at_once, "case {at}");
        assert_eq!(refusal(&pair), reason, "case {at}");
        assert_eq!(pair.up(b"goes on"), b"goes on", "case {at}");
    }
}

#[test]
fn nothing_is_decided_before_the_handshake_is_done() {
    let settings = with_ktls(Some(KtlsMode::On), Capabilities::everything());
    let server = root().leaf(&["a.test"]).server();
    let mut pair = Pair::new(&client(&settings), &server, "a.test");
    assert!(!pair.client.settle_ktls(true) && !pair.client.wants_kernel(u64::MAX));
    pair.handshake().expect("a suite of both");
    assert!(pair.client.settle_ktls(true));
}

#[test]
fn auto_waits_for_what_pays() {
    let mut settings = with_ktls(Some(KtlsMode::Auto), Capabilities::everything());
    settings.ktls.min_body_bytes = 5000;
    let mut pair = connected(&settings);
    assert!(!pair.client.settle_ktls(true));
    assert!(!pair.client.wants_kernel(0) && !pair.client.wants_kernel(4999));
    assert!(pair.client.wants_kernel(5000));
}

/// The peer has reset the socket, or this kernel has no module. Either way the connection stays in
/// user space, byte for byte.
#[test]
fn a_call_that_fails_leaves_the_connection_in_user_space() {
    let ours = ended_socket();
    let settings = with_ktls(Some(KtlsMode::On), Capabilities::everything());
    let mut pair = connected(&settings);
    assert!(pair.client.settle_ktls(true));
    pair.client.take_over(ours.as_fd());
    match pair.client.ktls() {
        Ktls::Off(Refusal::Call { call, error }) => {
            assert_eq!(*call, "setsockopt(TCP_ULP)", "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!pair.client.is_sealed_by_kernel() && !pair.client.wants_kernel(u64::MAX));
    assert_eq!(pair.up(&data(50_000)), data(50_000));
    assert_eq!(pair.down(b"answer"), b"answer");
}

/// A session of before the switch is taken up after it: who seals says nothing about it.
#[test]
fn sessions_do_not_depend_on_it() {
    let server = root().leaf(&["a.test"]).server();
    let before = client(&with_ktls(Some(KtlsMode::Off), Capabilities::everything()));
    let mut pair = Pair::new(&before, &server, "a.test");
    pair.handshake().expect("a suite of both");
    assert_eq!(pair.down(b"a ticket comes along"), b"a ticket comes along");
    let session = pair.client.take_session().expect("a ticket");
    let after = client(&with_ktls(Some(KtlsMode::On), Capabilities::everything()));
    let mut pair = Pair::resuming(&after, &server, "a.test", Some(&session));
    pair.handshake().expect("a suite of both");
    assert!(pair.client.is_session_reused());
}
