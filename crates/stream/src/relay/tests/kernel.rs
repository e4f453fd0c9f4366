//! Downloads through pipes into connections that the kernel seals, where it can.

use super::*;
use sealane_sys::ktls::{Cipher, Version};
use sealane_tls::{Capabilities, KtlsMode};

/// What this kernel can do, unless it is too little for these tests.
fn capabilities() -> Option<Arc<Capabilities>> {
    let found = Capabilities::probe();
    match found.transmit(Version::Tls13, Cipher::Aes128Gcm) {
        Ok(()) => Some(Arc::new(found)),
        Err(why) => {
            sealane_needs::leave_out(format_args!("no kernel TLS here ({why})"));
            None
        }
    }
}

/// Downloads from a plain server to a client over TLS, and compares.
async fn download(settings: KtlsSettings, count: usize) {
    let (acceptor, client_tls) = tls_with(settings);
    let (accepted, connected) = connection(Over::Tcp).await;
    let (mut near_client, mut client) =
        handshake(accepted, connected, &acceptor, &client_tls).await;
    let (mut server, mut near_server) = connection(Over::Tcp).await;
    let bytes = pattern(11, count);
    let sent = bytes.clone();
    let sending = runtime::spawn_with_handle(async move {
        send(&mut server, sent).await;
        end(&mut server).await;
        server
    });
    let receiving = runtime::spawn_with_handle(async move {
        let received = receive_all(&mut client).await;
        (received, client)
    });
    let mut relay = Relay::new(super::settings(), Vec::new(), Vec::new());
    let mut saw_pipe = false;
    let ended = poll_fn(|cx| {
        let polled = relay.poll(cx, &mut near_client, &mut near_server);
        saw_pipe |= relay.down.has_pipe();
        polled
    })
    .await;
    assert_eq!(ended.expect("nobody fails"), Ended { by: Side::Server });
    assert!(near_client.is_sealed_by_kernel());
    assert!(saw_pipe, "the client is slower than the kernel");
    assert_eq!(relay.counts().to_client, count as u64);
    near_client.close();
    drop(near_client);
    let (received, client) = receiving.await.expect("no panic");
    assert!(received == bytes, "{} of {count}", received.len());
    assert!(!client.tls().is_some_and(|tls| tls.is_cut()));
    let _server = sending.await.expect("no panic");
}

#[test]
fn the_kernel_seals_what_passes_through_a_pipe() {
    let Some(capabilities) = capabilities() else {
        return;
    };
    run(async {
        for mode in [KtlsMode::On, KtlsMode::Auto] {
            let settings = KtlsSettings {
                mode: Some(mode),
                capabilities: Arc::clone(&capabilities),
                ..KtlsSettings::default()
            };
            download(settings, 24 << 20).await;
        }
    });
}

#[test]
fn keys_are_changed_on_the_way() {
    let Some(capabilities) = capabilities() else {
        return;
    };
    if let Err(why) = capabilities.rekey() {
        return sealane_needs::leave_out(format_args!("no other keys in the kernel ({why})"));
    }
    run(async {
        let settings = KtlsSettings {
            mode: Some(KtlsMode::On),
            capabilities,
            max_key_records: 1500,
            ..KtlsSettings::default()
        };
        download(settings, 96 << 20).await;
    });
}
