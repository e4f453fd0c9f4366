//! Section 4: frame format, frame size, header blocks.

use super::*;
use crate::headers::Field;

#[test]
fn the_reserved_bit_is_ignored() {
    server(|end| {
        let block = end.block(GET);
        let mut bytes = frame(FrameType::Headers, 0x5, 1, &block);
        bytes[5] |= 0x80;
        end.feed(&bytes);
        assert_eq!(end.take_events(), ["request 1 GET / HTTP/2.0 end"]);
        let mut update = window_update(1, 1);
        update[9] |= 0x80;
        end.feed(&update);
        assert_eq!(end.fault, None);
    });
}

#[test]
fn flags_without_meaning_are_ignored() {
    server(|end| {
        end.feed(&frame(FrameType::Ping, 0xfe, 0, &[7; 8]));
        assert_eq!(end.sent_words(), ["PING ack"]);
        end.feed(&frame(FrameType::Settings, 0xfe, 0, b""));
        assert_eq!(end.sent_words(), ["SETTINGS ack"]);
    });
}

#[test]
fn frames_of_unknown_types_are_ignored_everywhere_but_in_a_block() {
    server(|end| {
        for stream in [0, 1, 2, 99] {
            end.feed(&frame(FrameType::Unknown, 0xff, stream, &[1; 300]));
        }
        end.get(1);
        assert_eq!(end.take_events(), ["request 1 GET / HTTP/2.0 end"]);
        let block = end.block(GET);
        end.feed(&frame(FrameType::Headers, 0, 3, &block));
        end.feed(&frame(FrameType::Unknown, 0, 3, b""));
        end.expect_fault(Fault::Continuation);
    });
}

#[test]
fn frames_above_the_announced_size_are_refused_by_their_header() {
    for kind in [FrameType::Data, FrameType::Headers, FrameType::Unknown] {
        server(|end| {
            end.post(1);
            let mut header = Vec::new();
            push_header(&mut header, kind, 0, 1, 16_385);
            end.feed(&header);
            end.expect_fault(Fault::FrameTooLarge);
        });
    }
}

#[test]
fn the_largest_frames_are_taken() {
    server(|end| {
        end.post(1);
        end.feed(&data_frame(1, &[5; 16_384], true));
        assert_eq!(
            end.take_events(),
            ["request 1 POST / HTTP/2.0", "data 1 16384 end"]
        );
        let value = "v".repeat(8000);
        end.headers(
            3,
            true,
            &[GET, &[("a", value.as_str()), ("b", value.as_str())]].concat(),
        );
        assert_eq!(end.take_events(), ["request 3 GET / HTTP/2.0 end"]);
    });
}

#[test]
fn a_block_may_be_cut_anywhere() {
    server(|end| {
        for (index, size) in [1, 2, 3, 7, 1000].into_iter().enumerate() {
            let stream = 1 + 2 * index as u32;
            let block = end.block(&[GET, &[("x-name", "a value")]].concat());
            let size = size.min(block.len());
            let (first, rest) = block.split_at(size);
            end.feed(&frame(FrameType::Headers, flag::END_STREAM, stream, first));
            let parts: Vec<&[u8]> = rest.chunks(size.max(8)).collect();
            for (number, part) in parts.iter().enumerate() {
                let is_last = number + 1 == parts.len();
                let flags = u8::from(is_last) * flag::END_HEADERS;
                end.feed(&frame(FrameType::Continuation, flags, stream, part));
            }
            if parts.is_empty() {
                let flags = flag::END_HEADERS;
                end.feed(&frame(FrameType::Continuation, flags, stream, b""));
            }
            let expected = format!("request {stream} GET / HTTP/2.0 end");
            assert_eq!(end.take_events(), [expected]);
            let (_, request) = end.requests.last().expect("a request");
            let value = request.head.get_by_name(&request.text, b"x-name");
            assert_eq!(
                value.map(|span| show(span.of(&request.text))),
                Some("a value".into())
            );
        }
    });
}

#[test]
fn nothing_may_stand_within_a_block() {
    for between in [
        frame(FrameType::Ping, 0, 0, &[0; 8]),
        frame(FrameType::Continuation, 0x4, 3, b""),
        frame(FrameType::Headers, 0x5, 1, b""),
        data_frame(1, b"", true),
        settings_frame(&[]),
    ] {
        server(|end| {
            let block = end.block(GET);
            end.feed(&frame(FrameType::Headers, 0x1, 1, &block));
            end.feed(&between);
            end.expect_fault(Fault::Continuation);
        });
    }
}

#[test]
fn a_continuation_needs_a_block() {
    server(|end| {
        end.feed(&frame(FrameType::Continuation, 0x4, 1, b""));
        end.expect_fault(Fault::Continuation);
    });
    server(|end| {
        end.get(1);
        end.feed(&frame(FrameType::Continuation, 0x4, 1, b""));
        end.expect_fault(Fault::Continuation);
    });
}

#[test]
fn a_block_that_does_not_decode_ends_the_connection() {
    // Index 0; index beyond the tables; a string beyond the end; a bad Huffman string.
    for block in [
        &[0x80][..],
        &[0xff, 0x80, 0x01],
        &[0x00, 0x7f],
        &[0x00, 0x81, 0x00],
    ] {
        server(|end| {
            end.feed(&frame(FrameType::Headers, 0x5, 1, block));
            end.expect_fault(Fault::Compression);
        });
        client(|end| {
            end.open(true);
            end.feed(&frame(FrameType::Headers, 0x5, 1, block));
            end.out.clear();
            assert_eq!(end.fault, Some(Fault::Compression));
        });
    }
}

#[test]
fn the_tables_stay_in_step_when_a_head_is_not_wanted() {
    server_with(
        Settings {
            max_concurrent_streams: 1,
            ..Settings::default()
        },
        |end| {
            let first = end.get(1);
            // Refused, but its fields enter the table.
            let fields = [GET, &[("x-secret", "kept in the table")]].concat();
            end.headers(3, true, &fields);
            end.connection.reset(first, ErrorCode::CANCEL, &mut end.out);
            end.headers(5, true, &fields);
            end.headers(5 + 2, true, &fields);
            let (_, request) = end.requests.last().expect("a request");
            let value = request.head.get_by_name(&request.text, b"x-secret");
            let value = value.map(|span| show(span.of(&request.text)));
            assert_eq!(value.as_deref(), Some("kept in the table"));
        },
    );
}

#[test]
fn a_head_larger_than_a_frame_leaves_in_continuations() {
    server(|end| {
        let stream = end.get(1);
        let value = "v\u{1}".repeat(20_000);
        end.connection
            .send_head(
                stream,
                crate::StatusCode::OK,
                Field::new(b"x-large", value.as_bytes()),
                true,
                &mut end.out,
            )
            .expect("a head");
        let frames = end.sent();
        assert!(frames.len() >= 3);
        assert_eq!(frames[0].kind, FrameType::Headers);
        assert_eq!(frames[0].flags, flag::END_STREAM);
        let last = frames.len() - 1;
        let mut block = frames[0].payload.clone();
        for (index, frame) in frames[1..].iter().enumerate() {
            assert_eq!(frame.kind, FrameType::Continuation);
            assert_eq!(frame.flags, u8::from(index + 1 == last) * flag::END_HEADERS);
            assert!(!frame.payload.is_empty() && frame.payload.len() <= 16_384);
            block.extend_from_slice(&frame.payload);
        }
        let mut text = Vec::new();
        let limits = FieldLimits {
            max_field_bytes: 1 << 20,
            max_block_bytes: 1 << 20,
            max_fields: 10,
        };
        end.decoder
            .decode(&block, &limits, &mut text, &mut Keep)
            .expect("a block");
        assert_eq!(show(&text), format!(":status: 200\r\nx-large: {value}\r\n"));
    });
}

#[test]
fn larger_frames_are_taken_where_they_were_announced() {
    let settings = || Settings {
        max_frame_bytes: 1 << 20,
        stream_window_bytes: 1 << 20,
        ..Settings::default()
    };
    server_with(settings(), |end| {
        end.post(1);
        end.feed(&data_frame(1, &[5; 50_000], true));
        assert_eq!(
            end.take_events(),
            ["request 1 POST / HTTP/2.0", "data 1 50000 end"]
        );
    });
    // Others are read as a whole: a header block no further than its limit, the rest never.
    for (kind, fault) in [
        (FrameType::Headers, Fault::Flood(Flood::Continuation)),
        (FrameType::Settings, Fault::FrameTooLarge),
        (FrameType::PriorityUpdate, Fault::FrameTooLarge),
    ] {
        server_with(settings(), |end| {
            let mut header = Vec::new();
            push_header(&mut header, kind, 0, 1, 65_536 + 1 + 5 + 255 + 1);
            end.feed(&header);
            end.expect_fault(fault);
        });
    }
}
