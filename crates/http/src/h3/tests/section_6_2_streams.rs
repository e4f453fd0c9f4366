//! Unidirectional streams (section 6.2).

use super::*;

const CREATION: Result<Vec<String>, Code> = Err(Code::H3_STREAM_CREATION_ERROR);
const CLOSED: Result<Vec<String>, Code> = Err(Code::H3_CLOSED_CRITICAL_STREAM);

#[test]
fn the_control_stream_of_this_side_begins_with_settings() {
    let settings = Settings {
        extended_connect: true,
        ..Settings::default()
    };
    let mut server = Connection::new(Role::Server, Arc::new(settings), NOW);
    let expected = [&b"\0"[..], &numbers(4, &[0x1, 4096, 0x7, 16, 0x8, 1])].concat();
    assert_eq!(server.outgoing(Channel::Control), expected);
    server.sent(Channel::Control, 3);
    assert_eq!(server.outgoing(Channel::Control), &expected[3..]);
    server.sent(Channel::Control, expected.len() - 3);
    for channel in Channel::ALL {
        assert_eq!(server.outgoing(channel), [], "{channel:?}");
    }
}

/// Section 6.2.1, and section 4.2 of RFC 9204.
#[test]
fn there_is_one_critical_stream_of_each_kind() {
    for kind in [b"\0", b"\x02", b"\x03"] {
        let mut server = server();
        for id in [6, 10] {
            assert_eq!(opened(&mut server, id), Ok(None));
        }
        let first = receive(&mut server, 6, kind, false);
        if kind == b"\0" {
            // There is one already.
            assert_eq!(first, CREATION);
            continue;
        }
        assert_eq!(first, Ok(vec![]));
        assert_eq!(receive(&mut server, 10, kind, false), CREATION);
    }
}

#[test]
fn critical_streams_must_not_end() {
    for kind in [b"\x02", b"\x03"] {
        let mut server = server();
        assert_eq!(opened(&mut server, 6), Ok(None));
        assert_eq!(receive(&mut server, 6, kind, true), CLOSED);
    }
    assert_eq!(receive(&mut server(), CLIENT_CONTROL, b"", true), CLOSED);
    let reset = server().stream_reset(CLIENT_CONTROL, NOW);
    assert_eq!(
        reset.map_err(|error| error.code),
        Err(Code::H3_CLOSED_CRITICAL_STREAM)
    );
    // Nor must those of this side be stopped.
    let stopped = server().sending_stopped(SERVER_CONTROL, NOW);
    assert_eq!(
        stopped.map_err(|error| error.code),
        Err(Code::H3_CLOSED_CRITICAL_STREAM)
    );
}

/// Section 6.2.3: stop reading, and ignore what comes.
#[test]
fn streams_of_unknown_types_are_ignored() {
    let mut server = server();
    assert_eq!(opened(&mut server, 6), Ok(None));
    assert_eq!(receive(&mut server, 6, b"\x40", false), Ok(vec![]));
    let outcome = receive(&mut server, 6, b"\x21\x00\x01", false);
    assert_eq!(outcome, Ok(vec!["6 unknown".to_owned()]));
    assert_eq!(receive(&mut server, 6, b"\x00\x01\x02", false), Ok(vec![]));
    assert_eq!(receive(&mut server, 6, b"\x00", true), Ok(vec![]));
    // Reset at once, before its type has come.
    assert_eq!(opened(&mut server, 10), Ok(None));
    assert!(server.stream_reset(10, NOW).is_ok());
    assert_eq!(opened(&mut server, 14), Ok(None));
    assert_eq!(receive(&mut server, 14, b"", true), Ok(vec![]));
}

#[test]
fn clients_push_nothing_and_servers_open_no_requests() {
    let mut server = server();
    assert_eq!(opened(&mut server, 6), Ok(None));
    assert_eq!(receive(&mut server, 6, b"\x01", false), CREATION);
    let opened = opened(&mut client(&[]), 1);
    assert_eq!(opened, Err(Code::H3_STREAM_CREATION_ERROR));
}

/// Section 6.2.1.
#[test]
fn settings_come_first_and_once() {
    let new = || {
        let settings = Arc::new(Settings::default());
        let mut server = Connection::new(Role::Server, settings, NOW);
        assert_eq!(opened(&mut server, CLIENT_CONTROL), Ok(None));
        server
    };
    for first in [numbers(7, &[0]), raw_frame(0x21, b""), numbers(0xd, &[0])] {
        let bytes = [&b"\0"[..], &first].concat();
        let outcome = receive(&mut new(), CLIENT_CONTROL, &bytes, false);
        assert_eq!(outcome, Err(Code::H3_MISSING_SETTINGS));
    }
    let outcome = control(&mut server(), &raw_frame(4, b""));
    assert_eq!(outcome, Err(Code::H3_FRAME_UNEXPECTED));
}
