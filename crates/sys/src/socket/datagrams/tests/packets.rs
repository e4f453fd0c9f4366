//! What packets of QUIC need: ECN, no fragments, bytes that are changed in place.

use super::*;
use std::process::Command;

/// Receives one batch, waiting for it.
fn receive_batch(socket: &UdpSocket, batch: &mut ReceivedBatch, max: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while batch.receive(socket.as_fd(), max).is_err() {
        assert!(Instant::now() < deadline);
    }
}

/// RFC 9000 section 13.4.1: an endpoint that reads the codepoint can report it. Both families, and
/// IPv4 by way of a socket of IPv6.
#[test]
fn ecn_arrives_as_it_was_sent() {
    for (any, at, asked) in [
        ("0.0.0.0", "127.0.0.1", "127.0.0.2"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("::", "::1", "::1"),
        ("::", "::", "::ffff:127.0.0.2"),
        ("::", "127.0.0.1", "127.0.0.2"),
    ] {
        let (server, bound_to) = bound(any);
        report_ecn(server.as_fd(), bound_to.is_ipv4()).unwrap();
        let (client, _) = bound(at);
        let to = SocketAddr::new(asked.parse().unwrap(), bound_to.port());
        let mut batch = ReceivedBatch::new();
        let all = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        for (ecn, max) in all.iter().flat_map(|ecn| [(*ecn, 1), (*ecn, 16)]) {
            assert_eq!(Ecn::from_bits(0xfc | ecn.bits()), ecn);
            let sent = MessageToSend {
                ecn,
                ..message(b"packet", to)
            };
            assert_eq!(send_datagrams(client.as_fd(), &[sent]).unwrap(), 1);
            receive_batch(&server, &mut batch, max);
            let received: Vec<_> = batch.messages().map(|message| message.ecn).collect();
            assert_eq!(received, [ecn], "{any} {asked}");
        }
    }
}

/// A connected socket knows the family, the message does not.
#[test]
fn connected_sockets_send_ecn_in_both_families() {
    for address in ["127.0.0.1", "::1"] {
        let (server, to) = bound(address);
        report_ecn(server.as_fd(), to.is_ipv4()).unwrap();
        let (client, _) = bound(address);
        client.connect(to).unwrap();
        let sent = MessageToSend {
            to: None,
            from: Some(address.parse().unwrap()),
            ecn: Ecn::Ect0,
            segment_bytes: 3,
            bytes: b"packet",
        };
        assert_eq!(send_datagrams(client.as_fd(), &[sent]).unwrap(), 1);
        let mut batch = ReceivedBatch::new();
        receive_batch(&server, &mut batch, 1);
        let received = batch.messages().next().unwrap();
        assert_eq!((received.bytes, received.ecn), (&b"pac"[..], Ecn::Ect0));
    }
}

/// RFC 3168 section 5: what routers change must be seen, so the kernel joins none that differ.
#[test]
fn datagrams_with_other_codepoints_are_not_joined() {
    let (server, to) = bound("127.0.0.1");
    report_ecn(server.as_fd(), true).unwrap();
    join_datagrams(server.as_fd(), true).unwrap();
    let (client, _) = bound("127.0.0.1");
    let codepoints = [Ecn::Ect0, Ecn::Ce, Ecn::Ect0];
    let messages = codepoints.map(|ecn| MessageToSend {
        ecn,
        ..message(&[7; 100], to)
    });
    let sent = send_datagrams(client.as_fd(), &messages).unwrap();
    assert_eq!(sent, messages.len());
    let mut received = Vec::new();
    let mut batch = ReceivedBatch::new();
    while received.len() < messages.len() {
        receive_batch(&server, &mut batch, BATCH_MESSAGES);
        received.extend(
            batch
                .messages()
                .flat_map(|message| message.datagrams().map(move |_| message.ecn)),
        );
    }
    assert_eq!(received, codepoints);
}

#[test]
fn as_many_segments_as_the_kernel_cuts_arrive_and_are_changed_in_place() {
    for (address, segment_bytes) in [("127.0.0.1", 1000), ("::1", 1000), ("127.0.0.1", 1)] {
        let (server, to) = bound(address);
        assert!(cuts_datagrams(server.as_fd()), "Linux 4.18");
        join_datagrams(server.as_fd(), true).unwrap();
        let (client, from) = bound(address);
        forbid_fragments(client.as_fd(), to.is_ipv4()).unwrap();
        let bytes: Vec<u8> = (0..MAX_SEGMENTS * segment_bytes)
            .map(|n| (n / segment_bytes) as u8)
            .collect();
        let sent = MessageToSend {
            segment_bytes,
            ..message(&bytes, to)
        };
        assert_eq!(send_datagrams(client.as_fd(), &[sent]).unwrap(), 1);
        let mut batch = ReceivedBatch::new();
        let mut numbers = Vec::new();
        while numbers.len() < MAX_SEGMENTS {
            receive_batch(&server, &mut batch, BATCH_MESSAGES);
            for message in batch.messages_mut() {
                assert_eq!((message.source, message.is_truncated), (Some(from), false));
                for datagram in message.into_datagrams() {
                    assert_eq!(datagram.len(), segment_bytes);
                    numbers.push(datagram[0]);
                    datagram.fill(0xff);
                }
            }
            let changed = batch.messages().flat_map(|message| message.bytes);
            assert!(changed.into_iter().all(|byte| *byte == 0xff));
        }
        let expected: Vec<u8> = (0..MAX_SEGMENTS as u8).collect();
        assert_eq!(numbers, expected);
    }
}

#[test]
fn an_empty_message_has_no_datagrams_to_change() {
    let (server, to) = bound("127.0.0.1");
    let (client, _) = bound("127.0.0.1");
    assert_eq!(
        send_datagrams(client.as_fd(), &[message(b"", to)]).unwrap(),
        1
    );
    let mut batch = ReceivedBatch::new();
    receive_batch(&server, &mut batch, 1);
    let messages = batch.messages_mut().map(|message| {
        assert_eq!(message.segment_bytes, 1);
        message.into_datagrams().count()
    });
    assert_eq!(messages.collect::<Vec<_>>(), [0]);
}

/// Runs `test` on a machine of its own whose only interface takes packets of `mtu` bytes.
fn with_mtu(mtu: u32, test: impl FnOnce() + Send + 'static) {
    let run = move || {
        // SAFETY: the call takes no pointers. It moves this thread alone, which ends soon.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            sealane_needs::leave_out("no network of its own may be made here");
            return;
        }
        let mtu = mtu.to_string();
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up", "mtu", &mtu])
            .status();
        match up.is_ok_and(|status| status.success()) {
            true => test(),
            false => sealane_needs::leave_out("ip(8) of iproute2 cannot set the size of packets"),
        }
    };
    let name = std::thread::current().name().unwrap_or("mtu").to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(run).unwrap();
    thread.join().unwrap();
}

/// RFC 9000 section 14: "UDP datagrams MUST NOT be fragmented at the IP layer".
#[test]
fn what_the_interface_does_not_take_is_an_error_and_never_cut_into_fragments() {
    with_mtu(1400, || {
        for (address, to, header_bytes) in [
            ("127.0.0.1", "127.0.0.1", 28),
            ("::1", "::1", 48),
            ("::", "::ffff:127.0.0.1", 28),
        ] {
            let (server, bound_to) = bound(address);
            let (client, _) = bound(address);
            let to = SocketAddr::new(to.parse().unwrap(), bound_to.port());
            let largest = 1400 - header_bytes;
            let (fits, longer) = (vec![1; largest], vec![2; largest + 1]);
            // A socket of another kind sends it in fragments.
            let longer = message(&longer, to);
            assert_eq!(send_datagrams(client.as_fd(), &[longer]).unwrap(), 1);
            receive(&server, 1);

            forbid_fragments(client.as_fd(), bound_to.is_ipv4()).unwrap();
            let too_long = |messages: &[MessageToSend<'_>]| {
                let error = send_datagrams(client.as_fd(), messages).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "{error}");
            };
            too_long(&[longer]);
            let fits = message(&fits, to);
            too_long(&[longer, fits]);
            let count = send_datagrams(client.as_fd(), &[fits, longer]).unwrap();
            assert_eq!(count, 1, "the first one goes");
            let (received, _) = receive(&server, 1);
            assert_eq!(received[0].0.len(), largest);
        }
    });
}
