//! Section 10.5: floods. Each limit stops its own flood, and honest traffic never reaches it.

use super::*;

fn small(change: impl FnOnce(&mut Limits)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings.limits);
    settings
}

const FIVE: Allowance = Allowance {
    burst: 5,
    per_second: 1,
};

/// Feeds the same again and again, `rounds` times at most; returns after how many the
/// connection ended. Replies are taken by the peer's socket each time.
fn until_fault(end: &mut End, rounds: u32, mut step: impl FnMut(&mut End, u32)) -> u32 {
    for round in 0..rounds {
        step(end, round);
        if end.fault.is_some() {
            return round;
        }
        end.connection.flushed();
        end.out.clear();
    }
    rounds
}

#[track_caller]
fn ended_by(end: &mut End, flood: Flood) {
    assert_eq!(end.fault, Some(Fault::Flood(flood)));
    let last = end.sent_words().pop().expect("a last frame");
    assert!(last.ends_with("ENHANCE_YOUR_CALM"), "{last}");
    let mut counters = end.connection.take_counters();
    assert_eq!(*counters.of(flood), 1);
    assert_eq!(counters.connection_faults, 0);
}

#[test]
fn rapid_reset() {
    // CVE-2023-44487.
    server_with(small(|limits| limits.resets = FIVE), |end| {
        let rounds = until_fault(end, 100, |end, round| {
            let id = 1 + 2 * round;
            end.headers(id, true, GET);
            end.feed(&rst_stream(id, ErrorCode::CANCEL));
        });
        assert_eq!(rounds, 5);
        assert_eq!(end.connection.open_streams(), 0);
        ended_by(end, Flood::RapidReset);
    });
}

#[test]
fn resets_that_the_peer_provokes() {
    // CVE-2025-8671: a request is begun, and then the server is made to reset it.
    let provocations: [fn(&mut End, u32); 6] = [
        |end, id| end.feed(&window_update(id, 0)),
        |end, id| end.feed(&window_update(id, 0x7fff_ffff)),
        |end, id| end.feed(&data_frame(id, b"x", true)),
        |end, id| end.feed(&frame(FrameType::Priority, 0, id, &[0; 4])),
        |end, id| {
            let mut itself = id.to_be_bytes().to_vec();
            itself.push(1);
            end.feed(&frame(FrameType::Priority, 0, id, &itself));
        },
        |end, id| end.headers(id, true, GET),
    ];
    for provoke in provocations {
        server_with(small(|limits| limits.resets = FIVE), |end| {
            let rounds = until_fault(end, 100, |end, round| {
                let id = 1 + 2 * round;
                end.headers(id, true, GET);
                provoke(end, id);
            });
            assert_eq!(rounds, 5);
            assert_eq!(end.connection.open_streams(), 0);
            ended_by(end, Flood::RapidReset);
        });
    }
}

#[test]
fn malformed_and_refused_requests_count_as_resets() {
    for fields in [
        &[GET, &[("connection", "x")]].concat()[..],
        &[(":path", "")],
    ] {
        server_with(small(|limits| limits.resets = FIVE), |end| {
            let rounds = until_fault(end, 100, |end, round| {
                end.headers(1 + 2 * round, true, fields);
            });
            assert_eq!(rounds, 5);
            ended_by(end, Flood::RapidReset);
        });
    }
    let settings = Settings {
        max_concurrent_streams: 1,
        ..small(|limits| limits.resets = FIVE)
    };
    server_with(settings, |end| {
        let rounds = until_fault(end, 100, |end, round| {
            end.headers(1 + 2 * round, true, GET);
        });
        assert_eq!(rounds, 6);
        ended_by(end, Flood::RapidReset);
    });
}

#[test]
fn answered_requests_and_time_allow_resets() {
    server_with(small(|limits| limits.resets = FIVE), |end| {
        let rounds = until_fault(end, 1000, |end, round| {
            let id = 1 + 4 * round;
            end.get(id);
            end.feed(&rst_stream(id, ErrorCode::CANCEL));
            let stream = end.get(id + 2);
            end.respond(stream, true);
        });
        assert_eq!(rounds, 1000);
        let first = end.connection.last_stream + 2;
        let rounds = until_fault(end, 100, |end, round| {
            end.get(first + 2 * round);
            end.feed(&rst_stream(first + 2 * round, ErrorCode::CANCEL));
            end.now += Duration::from_secs(1);
        });
        assert_eq!(rounds, 100);
    });
}

#[test]
fn resets_by_the_application_are_not_the_peers() {
    server_with(small(|limits| limits.resets = FIVE), |end| {
        let rounds = until_fault(end, 1000, |end, round| {
            let stream = end.post(1 + 2 * round);
            end.connection
                .reset(stream, ErrorCode::INTERNAL_ERROR, &mut end.out);
        });
        assert_eq!(rounds, 1000);
    });
}

#[test]
fn endless_header_blocks() {
    // CVE-2024-27316, by number and by bytes.
    server(|end| {
        let block = end.block(GET);
        end.feed(&frame(FrameType::Headers, 0x1, 1, &block));
        let rounds = until_fault(end, 1000, |end, _| {
            end.feed(&frame(FrameType::Continuation, 0, 1, b""));
        });
        assert_eq!(rounds, 32);
        ended_by(end, Flood::Continuation);
    });
    server(|end| {
        end.feed(&frame(FrameType::Headers, 0x1, 1, &[0x82; 16_384]));
        let rounds = until_fault(end, 1000, |end, _| {
            end.feed(&frame(FrameType::Continuation, 0, 1, &[0x82; 16_384]));
        });
        assert_eq!(rounds, 3);
        ended_by(end, Flood::Continuation);
    });
}

#[test]
fn header_bombs() {
    server_with(small(|limits| limits.oversized_heads = FIVE), |end| {
        // One large field in the table, referred to thousands of times.
        let mut block = end.block(GET);
        block.extend_from_slice(b"\x40\x04bomb\x7f\xbd\x1d");
        block.extend(std::iter::repeat_n(b'b', 127 + 0x3d + (0x1d << 7)));
        end.feed(&frame(FrameType::Headers, 0x5, 1, &block));
        let (stream, request) = end.requests.pop().expect("a request");
        assert!(request.text.len() > 3800);
        end.respond(stream, true);
        let first = 3;
        let mut block = b"\x82\x84\x87\x01\x01a".to_vec();
        block.extend(std::iter::repeat_n(0x80 | 62, 16_000));
        let rounds = until_fault(end, 100, |end, round| {
            end.feed(&frame(FrameType::Headers, 0x5, first + 2 * round, &block));
            if end.fault.is_none() {
                let (stream, request) = end.requests.pop().expect("a request");
                assert!(request.text.capacity() < 128 * 1024, "bounded memory");
                end.respond(stream, true);
            }
        });
        assert_eq!(rounds, 5);
        ended_by(end, Flood::HeaderBomb);
    });
}

#[test]
fn settings_floods() {
    for bytes in [
        settings_frame(&[]),
        settings_frame(&[(4, 5), (4, 6), (1, 0)]),
    ] {
        server_with(small(|limits| limits.settings = FIVE), |end| {
            let rounds = until_fault(end, 100, |end, _| end.feed(&bytes));
            // The first came with the greeting.
            assert_eq!(rounds, 4);
            ended_by(end, Flood::Settings);
        });
    }
}

#[test]
fn ping_floods() {
    let ping = frame(FrameType::Ping, 0, 0, &[0; 8]);
    server_with(small(|limits| limits.pings = FIVE), |end| {
        let rounds = until_fault(end, 100, |end, _| end.feed(&ping));
        assert_eq!(rounds, 5);
        ended_by(end, Flood::Ping);
    });
    // One for each DATA frame is how gRPC measures.
    server_with(small(|limits| limits.pings = FIVE), |end| {
        let stream = end.post(1);
        let rounds = until_fault(end, 1000, |end, _| {
            end.feed(&data_frame(1, b"x", false));
            end.connection.release(stream, 1, &mut end.out);
            end.feed(&ping);
        });
        assert_eq!(rounds, 1000);
    });
}

#[test]
fn frames_without_content() {
    let floods: [Vec<u8>; 6] = [
        data_frame(1, b"", false),
        frame(FrameType::Data, flag::PADDED, 1, b"\x00"),
        frame(FrameType::Unknown, 0, 0, &[0; 100]),
        rst_stream(3, ErrorCode::CANCEL),
        frame(FrameType::Ping, flag::ACK, 0, &[0; 8]),
        go_away(7, ErrorCode::NO_ERROR),
    ];
    for bytes in floods {
        server_with(small(|limits| limits.empty_frames = FIVE), |end| {
            end.post(1);
            let gone = end.get(3);
            end.respond(gone, true);
            let rounds = until_fault(end, 100, |end, _| end.feed(&bytes));
            assert_eq!(rounds, 5);
            ended_by(end, Flood::Empty);
        });
    }
}

#[test]
fn interim_responses_without_end() {
    client_with(small(|limits| limits.empty_frames = FIVE), |end| {
        end.open(true);
        let rounds = until_fault(end, 100, |end, _| {
            end.headers(1, false, &[(":status", "102")]);
        });
        assert_eq!(rounds, 5);
        ended_by(end, Flood::Empty);
    });
}

#[test]
fn priority_floods() {
    let floods = [
        frame(FrameType::Priority, 0, 5, &[0, 0, 0, 0, 1]),
        frame(FrameType::PriorityUpdate, 0, 0, b"\0\0\0\x05u=1"),
    ];
    for bytes in floods {
        server_with(small(|limits| limits.priority_frames = FIVE), |end| {
            let rounds = until_fault(end, 100, |end, _| end.feed(&bytes));
            assert_eq!(rounds, 5);
            ended_by(end, Flood::Priority);
        });
    }
}

#[test]
fn window_update_floods() {
    server_with(small(|limits| limits.window_updates = FIVE), |end| {
        end.get(1);
        let rounds = until_fault(end, 100, |end, round| {
            end.feed(&window_update(round % 2, 1));
        });
        assert_eq!(rounds, 5);
        ended_by(end, Flood::WindowUpdate);
    });
    // Two for every frame that was sent are usual.
    server_with(small(|limits| limits.window_updates = FIVE), |end| {
        let stream = end.get(1);
        end.respond(stream, false);
        end.connection.offer(stream);
        let rounds = until_fault(end, 1000, |end, _| {
            assert_eq!(end.send_granted(100), [(1, 100)]);
            end.feed(&window_update(1, 100));
            end.feed(&window_update(0, 100));
        });
        assert_eq!(rounds, 1000);
    });
}

#[test]
fn a_peer_that_does_not_read_its_answers() {
    let settings = small(|limits| {
        limits.unread_replies = 20;
        limits.pings.burst = 1000;
    });
    server_with(settings, |end| {
        let ping = frame(FrameType::Ping, 0, 0, &[0; 8]);
        for _ in 0..20 {
            end.feed(&ping);
        }
        assert_eq!(end.fault, None);
        end.connection.flushed();
        for _ in 0..20 {
            end.feed(&ping);
        }
        assert_eq!(end.fault, None);
        end.feed(&ping);
        ended_by(end, Flood::Unread);
        assert!(end.out.len() < 1000, "bounded memory");
    });
}

#[test]
fn an_idle_connection_owns_little() {
    server(|end| {
        for round in 0..50 {
            let id = 1 + 2 * round;
            end.post(id);
            end.feed(&data_frame(id, b"x", false));
        }
        for id in 0..50 {
            let stream = end.requests[id].0;
            end.connection
                .reset(stream, ErrorCode::CANCEL, &mut end.out);
        }
        end.connection.trim();
        assert_eq!(end.connection.streams.heap_bytes(), 0);
        assert_eq!(end.connection.early_priorities.capacity(), 0);
        assert!(end.connection.block.is_none());
        // Header tables aside, which hpack bounds.
        assert!(
            size_of::<Connection>() < 1500,
            "{}",
            size_of::<Connection>()
        );
        assert!(end.connection.heap_bytes() < 10_000);
    });
}
