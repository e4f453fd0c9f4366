//! Who seals: the checks in their order, and that a refusal has no other effect. `tests/vm` tests
//! whether a kernel really seals.

use std::os::fd::AsFd;

use super::*;
use crate::{Capabilities, Ktls, KtlsMode, KtlsSettings, Refusal, Unavailable};

/// Settings whose kernel can do everything, according to the probe.
fn with_ktls(mode: KtlsMode, capabilities: Capabilities) -> ServerSettings {
    ServerSettings {
        ktls: KtlsSettings {
            mode: Some(mode),
            capabilities: Arc::new(capabilities),
            ..KtlsSettings::default()
        },
        ..settings(&[rsa()])
    }
}

fn refusal(pair: &Pair) -> Option<&'static str> {
    match pair.server.ktls() {
        Ktls::Off(refusal) => Some(refusal.name()),
        Ktls::Pending | Ktls::On => None,
    }
}

fn connected(client: &ClientContext, settings: &ServerSettings) -> Pair {
    let mut pair = Pair::with(client, &server(settings));
    pair.handshake().expect("a suite of both");
    pair
}

#[test]
fn the_first_reason_that_holds_is_told() {
    let cbc = |builder: &mut ClientContextBuilder| {
        version(builder, ProtocolVersion::Tls12);
        builder.set_cipher_list("AES128-SHA").expect("known");
    };
    let old = |builder: &mut ClientContextBuilder| version(builder, ProtocolVersion::Tls11);
    let off = || with_ktls(KtlsMode::Off, Capabilities::everything());
    let on = || with_ktls(KtlsMode::On, Capabilities::everything());
    let without_module = || {
        let reason = Unavailable::NoModule { may_load: true };
        with_ktls(KtlsMode::On, Capabilities::unavailable(reason))
    };
    // (client, settings, TCP, reason)
    let cases: [(ClientContext, ServerSettings, bool, Option<&str>); 7] = [
        (client(cbc), off(), false, Some("disabled")),
        (client(old), on(), false, Some("not_tcp")),
        (client(old), without_module(), true, Some("protocol")),
        (client(cbc), without_module(), true, Some("suite")),
        (client(|_| {}), without_module(), true, Some("no_module")),
        (
            client(|_| {}),
            with_ktls(KtlsMode::Auto, Capabilities::everything()),
            true,
            None,
        ),
        (client(|_| {}), on(), true, None),
    ];
    for (at, (client, settings, is_tcp, expected)) in cases.into_iter().enumerate() {
        let mut pair = connected(&client, &settings);
        let at_once = pair.server.settle_ktls(is_tcp);
        assert_eq!(refusal(&pair), expected, "case {at}");
        assert_eq!(at_once, at == 6, "case {at}: only `on` takes over at once");
        assert_eq!(pair.down(b"goes on"), b"goes on", "case {at}");
    }
}

#[test]
fn auto_waits_for_a_file_that_pays() {
    let settings = with_ktls(KtlsMode::Auto, Capabilities::everything());
    let mut pair = connected(&client(|_| {}), &settings);
    assert!(!pair.server.settle_ktls(true));
    assert!(!pair.server.wants_kernel(0) && !pair.server.wants_kernel((64 << 10) - 1));
    assert!(pair.server.wants_kernel(64 << 10));
}

/// A socket that cannot be taken over: its peer has reset it, or this kernel has
/// no module. Either way the connection stays in user space, byte for byte.
#[test]
fn a_call_that_fails_leaves_the_connection_in_user_space() {
    let ours = ended_socket();
    let settings = with_ktls(KtlsMode::On, Capabilities::everything());
    let mut pair = connected(&client(|_| {}), &settings);
    assert_eq!(pair.down(&data(50_000)), data(50_000));
    assert!(pair.server.settle_ktls(true));
    pair.server.take_over(ours.as_fd());
    match pair.server.ktls() {
        Ktls::Off(Refusal::Call { call, error }) => {
            assert_eq!(*call, "setsockopt(TCP_ULP)", "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!pair.server.is_sealed_by_kernel());
    assert_eq!(pair.down(&data(50_000)), data(50_000));
    assert_eq!(pair.up(b"request"), b"request");
    // It is not tried again.
    assert!(!pair.server.wants_kernel(u64::MAX));
}
