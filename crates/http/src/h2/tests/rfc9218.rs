//! RFC 9218: the priority field, PRIORITY_UPDATE, and the order in which DATA is sent.

use super::schedule::{BULK_BYTES, FRESH_BYTES, FRESH_FRAMES};
use super::*;

fn priority(urgency: u8, incremental: bool) -> Priority {
    Priority {
        urgency,
        incremental,
    }
}

#[test]
fn field_values() {
    for (value, urgency, incremental) in [
        ("", 3, false),
        ("u=0", 0, false),
        ("u=7, i", 7, true),
        ("i", 3, true),
        ("i=?0", 3, false),
        (" i=?1 ,\tu=5 ", 5, true),
        ("u=1,u=2", 2, false),
        ("u=1;a=b, i;x", 1, true),
        ("x=\"a, u=0\", y=(1 2, 3), z=:aGk=:, u=6", 6, false),
        // Of no use, but of a valid form: the default of that member alone.
        ("u=8, i", 3, true),
        ("u=-1, i", 3, true),
        ("u=1.5, i", 3, true),
        ("u=?1, i=3", 3, false),
        ("u, i", 3, true),
        ("u=2, u=x", 3, false),
        // No dictionaries.
        ("u=1,", 3, false),
        ("u=1 i", 3, false),
        ("U=1", 3, false),
        ("=1", 3, false),
        ("u=", 3, false),
        ("u=1, x=\"", 3, false),
        ("u=1, x=)", 3, false),
        ("u=1, i=?2", 3, false),
        ("u=1, \u{e9}", 3, false),
    ] {
        assert_eq!(
            Priority::parse(value.as_bytes()),
            priority(urgency, incremental),
            "{value:?}"
        );
    }
    for urgency in 0..8 {
        for incremental in [false, true] {
            let value = priority(urgency, incremental);
            assert_eq!(Priority::parse(value.value()), value);
        }
    }
}

#[test]
fn priorities_come_with_requests_and_change_by_frames() {
    server(|end| {
        end.headers(1, true, &[GET, &[("priority", "u=5, i")]].concat());
        let first = end.last_request();
        assert_eq!(end.connection.priority(first), Some(priority(5, true)));
        end.feed(&update(1, "u=0"));
        assert_eq!(end.connection.priority(first), Some(priority(0, false)));
        // Before its stream: it outranks the header.
        end.feed(&update(3, "u=6"));
        end.feed(&update(3, "u=7, i"));
        end.feed(&update(5, "u=2"));
        end.headers(3, true, &[GET, &[("priority", "u=1")]].concat());
        assert_eq!(
            end.connection.priority(end.last_request()),
            Some(priority(7, true))
        );
        end.get(5);
        assert_eq!(
            end.connection.priority(end.last_request()),
            Some(priority(2, false))
        );
        // For streams that are gone.
        end.connection.reset(first, ErrorCode::CANCEL, &mut end.out);
        end.feed(&update(1, "u=0"));
        assert_eq!(end.fault, None);
    });
}

#[test]
fn updates_kept_for_later_are_bounded() {
    server(|end| {
        for id in 0..100 {
            end.feed(&update(1 + 2 * id, "u=1"));
        }
        assert!(end.connection.early_priorities.len() <= 16);
        end.get(199);
        assert_eq!(
            end.connection.priority(end.last_request()),
            Some(priority(1, false))
        );
        assert!(end.connection.early_priorities.is_empty());
    });
}

#[test]
fn malformed_updates() {
    for (bytes, fault) in [
        (
            frame(FrameType::PriorityUpdate, 0, 1, b"\0\0\0\x01u=1"),
            Fault::WrongStream("PRIORITY_UPDATE"),
        ),
        (
            frame(FrameType::PriorityUpdate, 0, 0, b"\0\0\0"),
            Fault::FrameSize("PRIORITY_UPDATE"),
        ),
        (update(0, "u=1"), Fault::PriorityUpdate),
        (update(2, "u=1"), Fault::PriorityUpdate),
    ] {
        server(|end| {
            end.feed(&bytes);
            end.expect_fault(fault);
        });
    }
    client(|end| {
        end.open(true);
        end.out.clear();
        end.feed(&update(1, "u=1"));
        assert_eq!(end.fault, Some(Fault::PriorityUpdate));
    });
}

#[test]
fn a_client_sends_updates() {
    client(|end| {
        let stream = end.open(true);
        end.sent();
        end.connection
            .send_priority_update(stream, priority(1, true), &mut end.out);
        let frames = end.sent();
        assert_eq!(frames[0].kind, FrameType::PriorityUpdate);
        assert_eq!(frames[0].payload, b"\0\0\0\x01u=1, i");
    });
}

fn update(id: u32, value: &str) -> Vec<u8> {
    let mut payload = id.to_be_bytes().to_vec();
    payload.extend_from_slice(value.as_bytes());
    frame(FrameType::PriorityUpdate, 0, 0, &payload)
}

/// Opens streams with something to send and windows that never close.
fn offer(end: &mut End, streams: &[(u32, u8, bool)]) -> Vec<StreamRef> {
    end.feed(&settings_frame(&[(4, 0x7fff_0000)]));
    end.feed(&window_update(0, 0x7fff_0000));
    let open = |&(id, urgency, incremental): &(u32, u8, bool)| {
        let stream = end.get(id);
        end.connection
            .set_priority(stream, priority(urgency, incremental));
        end.respond(stream, false);
        end.connection.offer(stream);
        stream
    };
    streams.iter().map(open).collect()
}

/// Whose frames come, each full.
fn turns(end: &mut End, frames: usize) -> Vec<u32> {
    let order = end.send_granted(frames as u32 * 16_384);
    order.into_iter().map(|(id, _)| id).collect()
}

fn finish(end: &mut End, stream: StreamRef) {
    end.connection
        .data(stream, 0, true, &mut end.out)
        .expect("the end");
}

#[test]
fn the_most_urgent_come_first() {
    server(|end| {
        let streams = offer(
            end,
            &[(1, 3, false), (3, 7, false), (5, 0, true), (7, 3, false)],
        );
        assert_eq!(turns(end, 3), [5, 5, 5]);
        finish(end, streams[2]);
        assert_eq!(turns(end, 2), [1, 1]);
        end.connection.set_priority(streams[1], priority(1, false));
        assert_eq!(turns(end, 2), [3, 3]);
        finish(end, streams[1]);
        assert_eq!(turns(end, 1), [1]);
    });
}

#[test]
fn answers_that_are_not_incremental_come_one_after_the_other() {
    server(|end| {
        // Offered in another order than that of their identifiers.
        let streams = offer(end, &[(1, 3, false), (3, 3, false), (5, 3, false)]);
        for &stream in &streams {
            end.connection.pause(stream);
        }
        for index in [2, 0, 1] {
            end.connection.offer(streams[index]);
        }
        let mut order = Vec::new();
        for _ in 0..3 {
            let next = turns(end, 2);
            let id = next[0];
            order.extend(next);
            let stream = streams.iter().find(|stream| stream.id() == id);
            finish(end, *stream.expect("one of them"));
        }
        assert_eq!(order, [1, 1, 3, 3, 5, 5]);
    });
}

#[test]
fn incremental_answers_share() {
    server(|end| {
        offer(end, &[(1, 3, true), (3, 3, true), (5, 3, true)]);
        assert_eq!(turns(end, 6), [1, 3, 5, 1, 3, 5]);
    });
}

#[test]
fn a_large_download_does_not_hold_up_small_answers() {
    server(|end| {
        let streams = offer(end, &[(1, 3, false)]);
        assert_eq!(turns(end, 100), [1; 100]);
        // A small answer comes at once, whatever the download still has.
        end.get(3);
        let small = end.last_request();
        end.respond(small, false);
        end.connection.offer(small);
        assert_eq!(turns(end, 1), [3]);
        finish(end, small);
        assert_eq!(turns(end, 2), [1, 1]);
        assert!(end.connection.contains(streams[0]));
    });
}

#[test]
fn small_answers_do_not_stop_a_download() {
    server(|end| {
        offer(end, &[(1, 3, false)]);
        turns(end, 100);
        let mut frames_of_download = 0;
        let mut id = 3;
        for _ in 0..200 {
            end.get(id);
            let small = end.last_request();
            end.respond(small, false);
            end.connection.offer(small);
            let order = turns(end, 1);
            if order == [1] {
                frames_of_download += 1;
            }
            finish(end, small);
            end.sent();
            id += 2;
        }
        let least = 200 / (usize::from(FRESH_FRAMES) + 2);
        assert!(frames_of_download >= least, "{frames_of_download}");
        assert!(frames_of_download < 50, "{frames_of_download}");
    });
}

#[test]
fn downloads_share_in_turns() {
    server(|end| {
        offer(end, &[(1, 3, false), (3, 3, false)]);
        // Each goes through the first lane by itself.
        let fresh = (FRESH_BYTES / 16_384) as usize;
        let bulk = (BULK_BYTES / 16_384) as usize;
        assert_eq!(turns(end, fresh), vec![1; fresh]);
        assert_eq!(turns(end, fresh), vec![3; fresh]);
        for _ in 0..3 {
            assert_eq!(turns(end, bulk), vec![1; bulk]);
            assert_eq!(turns(end, bulk), vec![3; bulk]);
        }
    });
}

#[test]
fn a_stream_that_waits_for_its_source_is_not_bulk() {
    server(|end| {
        let streams = offer(end, &[(1, 3, false), (3, 3, false)]);
        let (download, events) = (streams[0], streams[1]);
        end.connection.pause(events);
        turns(end, 50);
        for _ in 0..50 {
            // An event of a few KiB now and then: always next.
            end.connection.offer(events);
            assert_eq!(turns(end, 1), [3]);
            end.connection.pause(events);
            assert_eq!(turns(end, 1), [1]);
            end.sent();
        }
        assert!(end.connection.contains(download));
    });
}

#[test]
fn blocked_streams_keep_nobody_waiting() {
    server(|end| {
        end.feed(&settings_frame(&[(4, 1000)]));
        let first = end.get(1);
        let second = end.get(3);
        for stream in [first, second] {
            end.respond(stream, false);
            end.connection.offer(stream);
        }
        assert_eq!(end.send_granted(u32::MAX), [(1, 1000), (3, 1000)]);
        end.feed(&window_update(3, 10));
        assert_eq!(end.send_granted(u32::MAX), [(3, 10)]);
        end.feed(&window_update(3, 10));
        end.feed(&window_update(1, 10));
        assert_eq!(end.send_granted(u32::MAX), [(1, 10), (3, 10)]);
    });
}

#[test]
fn a_download_whose_window_closes_with_each_frame_has_no_more_turns() {
    server(|end| {
        end.feed(&window_update(0, 0x7000_0000));
        let download = end.get(1);
        end.respond(download, false);
        end.connection.offer(download);
        end.send_granted(u32::MAX);
        assert!(end.connection.is_blocked(download));
        end.feed(&window_update(1, 10_000));
        end.send_granted(u32::MAX);
        let mut turns_of_download = 0;
        for id in (3..203).step_by(2) {
            end.feed(&window_update(1, 100));
            end.get(id);
            let small = end.last_request();
            end.respond(small, false);
            end.connection.offer(small);
            turns_of_download += usize::from(end.send_granted(16_384)[0].0 == 1);
            finish(end, small);
            end.sent();
        }
        let most = 100 / usize::from(FRESH_FRAMES) + 1;
        assert!(
            (1..=most).contains(&turns_of_download),
            "{turns_of_download}"
        );
    });
}

/// The schedule against a model: no stream is lost or doubled, whatever happens.
#[test]
fn no_stream_is_lost() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut end = End::new(Role::Server, Arc::new(Settings::default()), Cut::Whole);
        end.feed(PREFACE);
        end.feed(&settings_frame(&[(4, 100_000)]));
        end.feed(&window_update(0, 0x7000_0000));
        let mut open: Vec<(StreamRef, bool)> = Vec::new();
        let mut next_id = 1;
        for _ in 0..2000 {
            let pick = random.below(open.len().max(1));
            match random.below(9) {
                0 if open.len() < 60 => {
                    let stream = end.get(next_id);
                    next_id += 2;
                    end.respond(stream, false);
                    open.push((stream, false));
                }
                1 if !open.is_empty() => {
                    end.connection.offer(open[pick].0);
                    open[pick].1 = true;
                }
                2 if !open.is_empty() => {
                    end.connection.pause(open[pick].0);
                    open[pick].1 = false;
                }
                3 if !open.is_empty() => {
                    let value = priority(random.below(8) as u8, random.below(2) == 0);
                    end.connection.set_priority(open[pick].0, value);
                }
                4 if !open.is_empty() => {
                    end.feed(&window_update(
                        open[pick].0.id(),
                        1 + random.below(50_000) as u32,
                    ));
                }
                5 => {
                    end.feed(&settings_frame(&[(4, random.below(200_000) as u32)]));
                    end.now += Duration::from_secs(1);
                }
                6 if !open.is_empty() && random.below(4) == 0 => {
                    let (stream, _) = open.swap_remove(pick);
                    end.connection
                        .reset(stream, ErrorCode::CANCEL, &mut end.out);
                }
                _ => {
                    end.send_granted(random.below(60_000) as u32);
                }
            }
            assert_eq!(end.fault, None);
            end.connection.flushed();
            end.out.clear();
            let can_send = |(stream, offers): &(StreamRef, bool)| {
                let found = end.connection.streams.get(*stream).expect("open");
                *offers && found.send_window.available() > 0
            };
            let waiting: Vec<u32> = open
                .iter()
                .filter(|entry| can_send(entry))
                .map(|(stream, _)| stream.id())
                .collect();
            let most_urgent = open
                .iter()
                .filter(|entry| can_send(entry))
                .filter_map(|(stream, _)| end.connection.priority(*stream))
                .map(|priority| priority.urgency)
                .min();
            let grant = end.connection.next_data();
            assert_eq!(grant.is_some(), !waiting.is_empty());
            if let Some(grant) = grant {
                assert!(waiting.contains(&grant.stream.id()));
                let urgency = end.connection.priority(grant.stream).map(|p| p.urgency);
                assert_eq!(urgency, most_urgent);
            }
        }
        // Everybody who can send gets to.
        let mut left: Vec<StreamRef> = open
            .iter()
            .filter(|(stream, offers)| {
                let found = end.connection.streams.get(*stream).expect("open");
                *offers && found.send_window.available() > 0
            })
            .map(|(stream, _)| *stream)
            .collect();
        while let Some(grant) = end.connection.next_data() {
            left.retain(|stream| *stream != grant.stream);
            finish(&mut end, grant.stream);
        }
        assert_eq!(left, []);
    }
}
