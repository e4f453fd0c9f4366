//! Frames, where they may come and what they hold (section 7.2).

use super::*;

const UNEXPECTED: Result<Vec<String>, Code> = Err(Code::H3_FRAME_UNEXPECTED);

/// Table 1 in section 7, and section 7.2.8 for the types of HTTP/2.
#[test]
fn frames_of_the_control_stream_end_the_connection_elsewhere() {
    for kind in [0x2, 0x3, 0x4, 0x6, 0x7, 0x8, 0x9, 0xd, 0xf0700, 0xf0701] {
        let frame = raw_frame(kind, b"\0");
        assert_eq!(
            requested(std::slice::from_ref(&frame)),
            UNEXPECTED,
            "{kind:#x}"
        );
        let parts = [headers(&POST), frame];
        assert_eq!(requested(&parts), UNEXPECTED, "{kind:#x}");
    }
    assert_eq!(requested(&[raw_frame(5, b"\0")]), UNEXPECTED);
}

#[test]
fn other_frames_on_the_control_stream_end_the_connection() {
    for kind in [0x0, 0x1, 0x2, 0x4, 0x5, 0x6, 0x8, 0x9] {
        let frame = raw_frame(kind, b"\0");
        assert_eq!(control(&mut server(), &frame), UNEXPECTED, "{kind:#x}");
        assert_eq!(control(&mut client(&[]), &frame), UNEXPECTED, "{kind:#x}");
    }
    // Those that only clients send.
    for kind in [0xd, 0xf0700, 0xf0701] {
        assert_eq!(
            control(&mut client(&[]), &raw_frame(kind, b"\0")),
            UNEXPECTED
        );
    }
    let unknown = [raw_frame(0x21, b"abc"), raw_frame(0x21 + 0x1f * 1000, b"")].concat();
    assert_eq!(control(&mut server(), &unknown), Ok(vec![]));
}

/// Section 7.2.3.
#[test]
fn no_push_can_be_cancelled() {
    assert_eq!(
        control(&mut server(), &numbers(3, &[0])),
        Err(Code::H3_ID_ERROR)
    );
    assert_eq!(
        control(&mut client(&[]), &numbers(3, &[0])),
        Err(Code::H3_ID_ERROR)
    );
}

/// Section 7.2.7.
#[test]
fn max_push_id_does_not_shrink() {
    let mut server = server();
    for id in [0, 5, 5] {
        assert_eq!(control(&mut server, &numbers(0xd, &[id])), Ok(vec![]));
    }
    assert_eq!(
        control(&mut server, &numbers(0xd, &[4])),
        Err(Code::H3_ID_ERROR)
    );
}

/// Section 7.1.
#[test]
fn frames_must_have_the_length_of_their_fields() {
    for kind in [0x3, 0x7, 0xd] {
        for payload in [&b""[..], b"\0\0", b"\x40"] {
            let outcome = control(&mut server(), &raw_frame(kind, payload));
            assert_eq!(outcome, Err(Code::H3_FRAME_ERROR), "{kind} {payload:?}");
        }
    }
    let outcome = control(&mut server(), &raw_frame(0xf0700, b""));
    assert_eq!(outcome, Err(Code::H3_FRAME_ERROR));
}

/// Section 7.2.4.
fn settings_of(payload: &[u8]) -> Result<Vec<String>, Code> {
    let settings = Arc::new(Settings::default());
    let mut server = Connection::new(Role::Server, settings, NOW);
    assert_eq!(opened(&mut server, CLIENT_CONTROL), Ok(None));
    let bytes = [&b"\0"[..], &raw_frame(4, payload)].concat();
    receive(&mut server, CLIENT_CONTROL, &bytes, false)
}

#[test]
fn settings_are_checked() {
    let settings = |values: &[u64]| {
        let frame = numbers(4, values);
        settings_of(&frame[2..])
    };
    let ok = Ok(vec!["settings".to_owned()]);
    assert_eq!(settings(&[]), ok);
    // Those that are known, a large value, one that nobody knows.
    assert_eq!(
        settings(&[1, 1 << 40, 6, 100, 7, 100, 8, 1, 0x33, 1, 0x21, 5]),
        ok
    );
    // Those of HTTP/2.
    for reserved in [0, 2, 3, 4, 5] {
        assert_eq!(settings(&[reserved, 0]), Err(Code::H3_SETTINGS_ERROR));
    }
    // Section 3 of RFC 9220, section 2.1.1 of RFC 9297.
    assert_eq!(settings(&[8, 2]), Err(Code::H3_SETTINGS_ERROR));
    assert_eq!(settings(&[0x33, 2]), Err(Code::H3_SETTINGS_ERROR));
    // Twice.
    assert_eq!(settings(&[6, 100, 6, 100]), Err(Code::H3_SETTINGS_ERROR));
    assert_eq!(settings(&[6]), Err(Code::H3_FRAME_ERROR));
    assert_eq!(settings_of(b"\x06\x40"), Err(Code::H3_FRAME_ERROR));
}

#[test]
fn too_many_settings_are_refused() {
    let many: Vec<u64> = (0..200).flat_map(|number| [0x100 + number, 0]).collect();
    let frame = numbers(4, &many);
    // The header has a length of two bytes.
    assert_eq!(settings_of(&frame[3..]), Err(Code::H3_EXCESSIVE_LOAD));
    assert_eq!(settings_of(&[0; 5000]), Err(Code::H3_EXCESSIVE_LOAD));
}
