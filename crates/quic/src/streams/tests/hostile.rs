//! Peers that send what they like.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    Stream {
        id: u64,
        offset: u64,
        len: usize,
        fin: bool,
    },
    Reset {
        id: u64,
        size: u64,
    },
    Stop {
        id: u64,
    },
    MaxData {
        value: u64,
    },
    MaxStreamData {
        id: u64,
        value: u64,
    },
    MaxStreams {
        uni: bool,
        value: u64,
    },
    Blocked {
        id: u64,
    },
    StreamsBlocked {
        uni: bool,
        value: u64,
    },
    Send {
        room: usize,
    },
    Acked {
        which: u16,
    },
    Lost {
        which: u16,
    },
    Events {
        read: bool,
    },
    Write {
        id: u64,
        up_to: u64,
        fin: bool,
    },
    Give {
        id: u64,
        stop: bool,
    },
    Open {
        uni: bool,
    },
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..3_500_u64,
        1 => Just(varint::MAX),
        1 => 0..=varint::MAX,
    ]
}

fn step() -> impl Strategy<Value = Operation> {
    let id = || prop_oneof![9 => 0..44_u64, 1 => 0..=varint::MAX];
    let flag = any::<bool>;
    prop_oneof![
        6 => (id(), number(), 0..1_500_usize, prop::bool::weighted(0.2))
            .prop_map(|(id, offset, len, fin)| Operation::Stream { id, offset, len, fin }),
        1 => (id(), number()).prop_map(|(id, size)| Operation::Reset { id, size }),
        1 => id().prop_map(|id| Operation::Stop { id }),
        1 => number().prop_map(|value| Operation::MaxData { value }),
        1 => (id(), number()).prop_map(|(id, value)| Operation::MaxStreamData { id, value }),
        1 => (flag(), number()).prop_map(|(uni, value)| Operation::MaxStreams { uni, value }),
        1 => id().prop_map(|id| Operation::Blocked { id }),
        1 => (flag(), number()).prop_map(|(uni, value)| Operation::StreamsBlocked { uni, value }),
        4 => (0..1_500_usize).prop_map(|room| Operation::Send { room }),
        2 => any::<u16>().prop_map(|which| Operation::Acked { which }),
        2 => any::<u16>().prop_map(|which| Operation::Lost { which }),
        2 => flag().prop_map(|read| Operation::Events { read }),
        2 => (id(), 0..9_000_u64, flag()).prop_map(|(id, up_to, fin)| Operation::Write { id, up_to, fin }),
        1 => (id(), flag()).prop_map(|(id, stop)| Operation::Give { id, stop }),
        1 => flag().prop_map(|uni| Operation::Open { uni }),
    ]
}

fn apply(streams: &mut Streams, sent: &mut Vec<Sent>, step: Operation) -> Result<(), Error> {
    let stream = StreamId::from_wire;
    let direction = |uni| if uni { UNI } else { BIDI };
    match step {
        Operation::Stream {
            id,
            offset,
            len,
            fin,
        } => streams.on_stream(stream(id), offset, &vec![0; len], fin, &mut |_, got, _| {
            got.len() * usize::from(len % 2 == 0)
        }),
        Operation::Reset { id, size } => streams.on_reset_stream(stream(id), 1, size),
        Operation::Stop { id } => streams.on_stop_sending(stream(id), 2),
        Operation::MaxData { value } => {
            streams.on_max_data(value);
            Ok(())
        }
        Operation::MaxStreamData { id, value } => streams.on_max_stream_data(stream(id), value),
        Operation::MaxStreams { uni, value } => streams.on_max_streams(direction(uni), value),
        Operation::Blocked { id } => streams.on_stream_data_blocked(stream(id)),
        Operation::StreamsBlocked { uni, value } => {
            streams.on_streams_blocked(direction(uni), value)
        }
        step => {
            apply_ours(streams, sent, step);
            Ok(())
        }
    }
}

/// Steps of the owner and of the connection.
fn apply_ours(streams: &mut Streams, sent: &mut Vec<Sent>, step: Operation) {
    match step {
        Operation::Send { room } => {
            if let Some(frame) = streams.next_frame(room) {
                assert!(frame.encoded_len() <= room);
                sent.push(frame.sent());
            }
        }
        Operation::Acked { which } if !sent.is_empty() => {
            streams.on_acked(sent[usize::from(which) % sent.len()]);
        }
        Operation::Lost { which } if !sent.is_empty() => {
            streams.on_lost(sent[usize::from(which) % sent.len()]);
        }
        Operation::Events { read: reads } => {
            for event in events(streams) {
                if let Event::Readable { id } = event
                    && reads
                {
                    let (got, _) = read(streams, id);
                    consume(streams, id, got.len() as u64);
                }
            }
        }
        Operation::Write { id, up_to, fin } => {
            streams.write_up_to(StreamId::from_wire(id), up_to, fin);
        }
        Operation::Give { id, stop: true } => streams.stop_sending(StreamId::from_wire(id), 3),
        Operation::Give { id, .. } => streams.reset(StreamId::from_wire(id), 4),
        Operation::Open { uni } => {
            streams.open(if uni { UNI } else { BIDI });
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_makes_us_hold_more_than_the_limits(steps in prop::collection::vec(step(), 0..300)) {
        let mut streams = server();
        let mut sent = Vec::new();
        for step in steps {
            // Errors end a connection; here it goes on, which must do no harm.
            let _ = apply(&mut streams, &mut sent, step);
            let theirs = streams.theirs;
            prop_assert!(theirs[0].live <= 10 && theirs[1].live <= 4);
            let kept: usize = streams
                .table
                .iter()
                .flat_map(|entry| &entry.recv)
                .map(|recv| recv.heap_bytes())
                .sum();
            // The window of the connection, an eighth more, and two blocks for each stream.
            let streams_open = theirs[0].live + theirs[1].live + streams.ours[0].live;
            prop_assert!(kept <= 10_000 * 9 / 8 + streams_open as usize * 5_200, "{kept}");
            prop_assert!(streams.events.len() <= 64 && streams.urgent.len() <= 64);
        }
    }
}

#[test]
fn tiny_fragments_cost_no_more_than_the_window() {
    let mut streams = server();
    let id = request(0);
    for at in (1..2_000).rev().step_by(2) {
        arrives(&mut streams, id, at..at + 1, false).unwrap();
    }
    assert!(streams.heap_bytes() < 2 * 2_000);
}

#[test]
fn acknowledgements_with_many_gaps_are_bounded_and_lose_nothing() {
    let mut streams = server();
    let id = request(0);
    streams
        .on_stream(id, 0, b"x", true, &mut |_, got, _| got.len())
        .unwrap();
    streams.on_max_data(1 << 40);
    streams.on_max_stream_data(id, 1 << 40).unwrap();
    streams.write_up_to(id, 200_000, true);
    let sent = frames(&mut streams, 50);
    assert!(sent.len() > 4_000);
    let (even, odd): (Vec<_>, Vec<_>) = sent.iter().enumerate().partition(|(i, _)| i % 2 == 0);
    for (_, frame) in odd {
        streams.on_acked(frame.sent());
    }
    let send = streams.table.get(id).unwrap().send.as_ref();
    assert!(send.unwrap().gaps() <= 1_024);
    for (_, frame) in even {
        streams.on_lost(frame.sent());
    }
    assert_eq!(events(&mut streams), []);
    while streams.has_pending() {
        for frame in frames(&mut streams, 1_200) {
            streams.on_acked(frame.sent());
        }
    }
    assert_eq!(events(&mut streams), [Event::Closed { id }]);
}

#[test]
fn streams_that_come_and_go_leave_nothing_behind() {
    let mut streams = server();
    for index in 0..5_000 {
        let id = request(index);
        streams.on_stop_sending(id, 1).unwrap();
        streams.on_reset_stream(id, 1, 0).unwrap();
        for frame in frames(&mut streams, 100) {
            streams.on_acked(frame.sent());
        }
        events(&mut streams);
    }
    assert!(streams.is_idle());
    assert_eq!(streams.heap_bytes() + streams.schedule.entries(), 0);
    assert!(streams.events.is_empty() && streams.urgent.is_empty());
}
