//! Records both ways, byte by byte.

use proptest::prelude::*;

use super::*;
use crate::cgi::Param;

type Pair = (Vec<u8>, Vec<u8>);

/// The records of a request: kind, content. Checks headers and padding.
fn records(mut wire: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = Vec::new();
    while let Some((header, rest)) = wire.split_first_chunk::<RECORD_HEADER_BYTES>() {
        let [version, kind, id_high, id_low, high, low, padding, reserved] = *header;
        assert_eq!((version, id_high, id_low, reserved), (1, 0, 1, 0));
        let content_bytes = usize::from(u16::from_be_bytes([high, low]));
        assert_eq!((content_bytes + usize::from(padding)) % 8, 0, "aligned");
        let (content, rest) = rest.split_at(content_bytes);
        let (zeros, rest) = rest.split_at(usize::from(padding));
        assert!(zeros.iter().all(|&byte| byte == 0));
        records.push((kind, content.to_vec()));
        wire = rest;
    }
    assert!(wire.is_empty());
    records
}

/// The pairs of one record's content, as PHP reads them: none may reach into another record.
fn pairs(mut content: &[u8]) -> Vec<Pair> {
    fn length(content: &mut &[u8]) -> usize {
        let (&first, rest) = content.split_first().expect("a length");
        if first < 0x80 {
            *content = rest;
            return usize::from(first);
        }
        let (bytes, rest) = content.split_first_chunk::<4>().expect("a length");
        *content = rest;
        (u32::from_be_bytes(*bytes) & 0x7fff_ffff) as usize
    }
    let mut pairs = Vec::new();
    while !content.is_empty() {
        let name_bytes = length(&mut content);
        let value_bytes = length(&mut content);
        let (name, rest) = content.split_at(name_bytes);
        let (value, rest) = rest.split_at(value_bytes);
        pairs.push((name.to_vec(), value.to_vec()));
        content = rest;
    }
    pairs
}

fn encoded(params: &[Pair]) -> Result<Vec<u8>, ParamTooLong> {
    let mut out = Vec::new();
    let params = params
        .iter()
        .map(|(name, value)| Param::new(name, value).expect("valid"));
    encode_params(&mut out, params).map(|()| out)
}

#[test]
fn a_request_begins() {
    let mut out = Vec::new();
    encode_begin(&mut out, true);
    assert_eq!(out, [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
    out.clear();
    encode_begin(&mut out, false);
    assert_eq!(out[10], 0, "the application closes");
    out.clear();
    encode_stdin_end(&mut out);
    assert_eq!(out, [1, 5, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn lengths_take_one_or_four_bytes() {
    let pair = |name, value| (vec![b'n'; name], vec![b'v'; value]);
    let params = [pair(1, 0), pair(127, 127), pair(128, 128), pair(3, 65300)];
    let out = encoded(&params).expect("valid");
    assert_eq!(out[8..10], [1, 0]);
    let long = 8 + 3 + 256;
    assert_eq!(out[long..long + 8], [0x80, 0, 0, 128, 0x80, 0, 0, 128]);
    let records = records(&out);
    let kinds: Vec<u8> = records.iter().map(|&(kind, _)| kind).collect();
    assert_eq!(kinds, [PARAMS, PARAMS, PARAMS]);
    assert!(records[2].1.is_empty(), "the stream is ended");
    let read: Vec<Pair> = records
        .iter()
        .flat_map(|(_, content)| pairs(content))
        .collect();
    assert_eq!(read, params);
}

#[test]
fn a_parameter_fits_into_a_record_or_is_refused() {
    let fits = [(b"N".to_vec(), vec![b'v'; MAX_RECORD_BYTES - 6])];
    let out = encoded(&fits).expect("fits");
    assert_eq!(records(&out)[0].1.len(), MAX_RECORD_BYTES);
    let too_long = [(b"N".to_vec(), vec![b'v'; MAX_RECORD_BYTES - 5])];
    let error = encoded(&too_long).expect_err("too long");
    let expected = "fastcgi parameter \"N\" is too big: 65536 bytes, 65535 at most";
    assert_eq!(error.to_string(), expected);
    let none = encoded(&[]).expect("valid");
    assert_eq!(records(&none), [(PARAMS, Vec::new())]);
}

#[test]
fn the_body_travels_in_aligned_records() {
    assert_eq!(StdinRecord::next(0), None);
    for (available, data_bytes, padding) in [(1, 1, 7), (8, 8, 0), (65528, 65528, 0)] {
        let record = StdinRecord::next(available).expect("there is data");
        assert_eq!(
            (record.data_bytes, record.padding().len()),
            (data_bytes, padding)
        );
    }
    let record = StdinRecord::next(u64::MAX).expect("there is data");
    assert_eq!(record.data_bytes, 65528);
    let mut out = Vec::new();
    let record = StdinRecord { data_bytes: 3 };
    record.push_header(&mut out);
    out.extend_from_slice(b"abc");
    out.extend_from_slice(record.padding());
    assert_eq!(records(&out), [(STDIN, b"abc".to_vec())]);
}

fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let header = [1, kind, 0, 1, high, low, padding, 0];
    let zeros = vec![0xee; usize::from(padding)];
    [&header, content, &zeros].concat()
}

/// What a response of the application came to.
#[derive(Debug, Default, PartialEq)]
struct Read {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    stdout_ended: bool,
    end: Option<(u32, ProtocolStatus)>,
    done: bool,
    left: usize,
    error: Option<FastCgiError>,
}

fn read(wire: &[u8], piece: usize) -> Read {
    let mut decoder = RecordDecoder::new();
    let mut read = Read::default();
    let (mut at, mut available) = (0, 0);
    while available < wire.len() {
        available = (available + piece).min(wire.len());
        loop {
            let input = &wire[at..available];
            let decoded = match decoder.decode(input) {
                Ok(decoded) => decoded,
                Err(error) => {
                    read.error = Some(error);
                    return read;
                }
            };
            at += decoded.consumed;
            match decoded.event {
                Event::NeedMore => break,
                Event::Stdout(range) => read.stdout.extend_from_slice(&input[range]),
                Event::Stderr(range) => read.stderr.extend_from_slice(&input[range]),
                Event::StdoutEnd => read.stdout_ended = true,
                Event::End {
                    app_status,
                    protocol_status,
                } => read.end = Some((app_status, protocol_status)),
            }
        }
        assert!(at == available || decoder.is_done(), "input is left");
    }
    read.done = decoder.is_done();
    read.left = wire.len() - at;
    read
}

#[test]
fn a_response_is_read_however_it_comes() {
    let wire = [
        record(STDERR, b"PHP message: ", 3),
        record(STDOUT, b"Status: 200\r\n", 0),
        record(STDERR, b"oops", 0),
        record(STDERR, b"", 0),
        record(STDOUT, b"\r\nbody", 255),
        record(STDOUT, b"", 1),
        record(END_REQUEST, &[0, 0, 1, 2, 0, 9, 9, 9], 4),
        b"next".to_vec(),
    ]
    .concat();
    let expected = Read {
        stdout: b"Status: 200\r\n\r\nbody".to_vec(),
        stderr: b"PHP message: oops".to_vec(),
        stdout_ended: true,
        end: Some((258, ProtocolStatus::RequestComplete)),
        done: true,
        left: 4,
        error: None,
    };
    for piece in 1..=wire.len() {
        assert_eq!(read(&wire, piece), expected, "{piece}");
    }
}

#[test]
fn how_a_request_can_end() {
    for (status, expected) in [
        (1, ProtocolStatus::CannotMultiplex),
        (2, ProtocolStatus::Overloaded),
        (3, ProtocolStatus::UnknownRole),
        (77, ProtocolStatus::Other(77)),
    ] {
        // Without an end of the output, as some applications do.
        let wire = record(END_REQUEST, &[0xff, 0xff, 0xff, 0xfe, status, 0, 0, 0], 0);
        let read = read(&wire, 3);
        assert_eq!(read.end, Some((0xffff_fffe, expected)));
        assert!(read.done && !read.stdout_ended);
    }
    for content in [&[][..], &[1], &[0; 5], &[0; 20]] {
        let read = read(&record(END_REQUEST, content, 1), 1);
        assert!(read.done && read.end.is_some(), "a length nobody sends");
    }
}

#[test]
fn what_is_no_response_is_found_out_at_once() {
    let at = |position: usize, byte: u8| {
        let mut wire = record(STDOUT, b"x", 0);
        wire[position] = byte;
        wire.truncate(position + 1);
        wire
    };
    for (wire, expected) in [
        (b"HTTP/1.1 400".to_vec(), FastCgiError::Version(b'H')),
        (at(0, 2), FastCgiError::Version(2)),
        (at(1, 5), FastCgiError::RecordType(5)),
        (at(1, 11), FastCgiError::RecordType(11)),
        (at(3, 2), FastCgiError::RequestId(2)),
    ] {
        for piece in 1..=wire.len() {
            assert_eq!(read(&wire, piece).error, Some(expected), "{piece}");
        }
    }
    let expected = "upstream sent unsupported FastCGI protocol version: 72";
    assert_eq!(FastCgiError::Version(b'H').to_string(), expected);
}

#[test]
fn output_after_its_end_belongs_to_no_response() {
    let wire = [
        record(STDOUT, b"a", 0),
        record(STDOUT, b"", 0),
        record(STDOUT, b"smuggled", 0),
        record(STDOUT, b"", 0),
    ]
    .concat();
    for piece in 1..=wire.len() {
        let read = read(&wire, piece);
        assert_eq!(read.stdout, b"a");
        assert!(read.stdout_ended && !read.done);
    }
}

#[test]
fn error_text_is_bounded_and_cut() {
    let mut text = StderrText::default();
    assert!(text.is_empty() && text.text().is_empty());
    text.push(b"PHP message: ");
    text.push(b"oops. \r\n");
    assert_eq!(text.text(), b"PHP message: oops");
    text.push(&vec![b'x'; 3 * MAX_STDERR_BYTES]);
    assert_eq!(text.text().len(), MAX_STDERR_BYTES);
    assert_eq!(text.dropped_bytes(), 2 * MAX_STDERR_BYTES as u64 + 21);
    text.clear();
    text.push(b". .\n");
    assert!(!text.is_empty() && text.text().is_empty());
}

proptest! {
    #[test]
    fn parameters_are_read_as_they_were_written(
        params in prop::collection::vec(
            (prop::collection::vec(b'>'..=255, 1..200), prop::collection::vec(1..=255u8, 0..30_000)),
            0..12,
        ),
    ) {
        let records = records(&encoded(&params).expect("all fit"));
        prop_assert_eq!(records.last().map(|(_, content)| content.len()), Some(0));
        let full = &records[..records.len() - 1];
        prop_assert!(full.iter().all(|(_, content)| !content.is_empty()));
        let read: Vec<Pair> = full.iter().flat_map(|(_, content)| pairs(content)).collect();
        prop_assert_eq!(read, params);
    }

    #[test]
    fn any_records_are_read_the_same_in_any_pieces(
        records in prop::collection::vec(
            (prop::sample::select(vec![3_u8, 6, 6, 6, 7]), prop::collection::vec(any::<u8>(), 0..40), any::<u8>()),
            0..8,
        ),
        piece in 1..60_usize,
        cut in 0..100_usize,
    ) {
        let mut wire: Vec<u8> = records
            .iter()
            .flat_map(|(kind, content, padding)| record(*kind, content, *padding))
            .collect();
        wire.truncate(wire.len().saturating_sub(cut));
        let at_once = read(&wire, wire.len().max(1));
        prop_assert_eq!(read(&wire, piece), at_once);
    }
}
