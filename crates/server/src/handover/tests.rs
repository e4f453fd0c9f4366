//! Descriptions of connections, and bytes that are none.

use super::*;

fn description() -> Description {
    Description {
        version: VERSION,
        listener: Listener::Inet(([127, 0, 0, 1], 80).into()),
        peer: None,
        age: Duration::from_millis(1500),
        requests: 3,
        nodelay: true,
        keep_alive: KeepAlive {
            timeout_ms: 75_000,
            min_timeout_ms: 0,
        },
        idle_ms: 5_000,
        proxied: Some(Proxied {
            addresses: Some((([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into())),
            tlvs: vec![1, 0, 2, b'h', b'2'],
        }),
        tls_bytes: 0,
    }
}

/// A connection as [`description`] has it.
pub(super) fn moved(socket: OwnedFd, in_flight: InFlightGuard) -> MovedConnection {
    MovedConnection {
        description: description(),
        tls: None,
        socket,
        stays: false,
        in_flight: Some(in_flight),
    }
}

/// The message about it.
pub(super) fn message() -> Vec<u8> {
    let whole = description().encode(b"").expect("it is small");
    whole.to_vec()
}

#[test]
fn other_bytes_are_no_description() {
    let whole = message();
    let (back, tls) = Description::decode(&whole).expect("it was written so");
    assert!(tls.is_none());
    assert_eq!(back.keep_alive(), description().keep_alive());
    assert_eq!(back.idle_ms(), 5_000);
    let mut newer = whole.clone();
    newer[0] += 1;
    let mut longer = whole.clone();
    longer.push(0);
    for bytes in [&newer, &longer] {
        assert!(Description::decode(bytes).is_err());
    }
    for length in 0..whole.len() {
        assert!(Description::decode(&whole[..length]).is_err(), "{length}");
    }
}
