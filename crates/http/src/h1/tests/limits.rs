//! Limits, at the byte where they apply.

use super::*;

fn limits() -> Limits {
    Limits {
        header_buffer_bytes: 100,
        large_buffer_bytes: 200,
        large_buffer_count: 2,
        max_headers: 3,
        ..Limits::default()
    }
}

/// A request line of exactly this length, line end included.
fn request_line(bytes: usize) -> String {
    format!("GET /{} HTTP/1.1\r\n", "x".repeat(bytes - 16))
}

/// A header line of exactly this length, line end included.
fn header_line(bytes: usize) -> String {
    format!("A: {}\r\n", "x".repeat(bytes - 5))
}

fn outcome(input: &str) -> Result<usize, (u16, &'static str)> {
    parse_with(input.as_bytes(), &limits())
        .map(|head| head.headers.len())
        .map_err(|error| (error.status().0, error.reason()))
}

#[test]
fn a_request_line_fills_one_large_buffer_at_most() {
    let rest = "Host: a\r\n\r\n";
    assert_eq!(outcome(&(request_line(200) + rest)), Ok(1));
    let too_long = Err((414, "client sent too long URI"));
    assert_eq!(outcome(&(request_line(201) + rest)), too_long);
}

#[test]
fn a_header_line_fills_one_large_buffer_at_most() {
    let input = |bytes| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", header_line(bytes));
    assert_eq!(outcome(&input(200)), Ok(2));
    assert_eq!(
        outcome(&input(201)),
        Err((494, "client sent too long header line"))
    );
}

#[test]
fn a_long_line_is_refused_before_it_ends() {
    let mut state = ParseState::default();
    let line = request_line(300);
    let partial = &line.as_bytes()[..200];
    let error = parse_request(partial, &mut state, &limits()).expect_err("full without an end");
    assert_eq!(error, RequestError::UriTooLong);
    let partial = &line.as_bytes()[..199];
    let parsed = parse_request(partial, &mut ParseState::default(), &limits());
    assert!(matches!(parsed, Ok(Parsed::Incomplete)));
}

#[test]
fn the_quoted_start_of_a_long_line_does_not_depend_on_fragmentation() {
    let head = "GET / HTTP/1.0\r\n";
    let input = head.to_owned() + &header_line(300) + "\r\n";
    let at_once = parse_with(input.as_bytes(), &limits()).expect_err("too long");
    let partial = &input.as_bytes()[..head.len() + 200];
    let early = parse_request(partial, &mut ParseState::default(), &limits());
    assert_eq!(early.expect_err("too long"), at_once);
    let line = at_once.excerpt().expect("the start of the line");
    assert_eq!(line.len(), 200);
}

#[test]
fn lines_do_not_span_buffers() {
    // 100 bytes in the first buffer, then two large ones of 200 with one line each: a third
    // line of 150 would fit into the sum of what is left, but into no single buffer.
    let input = |third: usize| {
        let lines = header_line(150) + &header_line(150) + &header_line(third);
        format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
    };
    let unlimited_lines = Limits {
        max_headers: 100,
        ..limits()
    };
    let parse = |third| parse_with(input(third).as_bytes(), &unlimited_lines);
    assert!(parse(48).is_ok());
    let error = parse(150).expect_err("no third buffer");
    // nginx names the line that meets the end of the last buffer and quotes what fitted.
    let line = Span::new(325, 375);
    assert_eq!(error, RequestError::HeaderLineTooLong { line });
    assert_eq!(error.status().0, 494);
}

#[test]
fn the_last_buffer_full_before_a_header_line() {
    let limits = Limits {
        large_buffer_count: 1,
        ..limits()
    };
    let refused = |input: String| refused_however_cut(input.as_bytes(), &limits);
    let error = refused(request_line(200) + "Host: a\r\n\r\n");
    assert_eq!(error, RequestError::HeadTooLarge);
    assert_eq!(error.status().0, 494);
    let error = refused(request_line(110) + &header_line(90) + "Host: a\r\n\r\n");
    assert_eq!(error, RequestError::HeadTooLarge);
}

#[test]
fn a_line_too_long_for_any_buffer_when_none_is_left() {
    // At once the whole line is seen, byte by byte only that it does not fit into what is left
    // of the last buffer. Both must give one reason.
    let limits = Limits {
        large_buffer_count: 1,
        ..limits()
    };
    let input = request_line(110) + &header_line(300);
    let error = refused_however_cut(input.as_bytes(), &limits);
    let line = Span::new(110, 200);
    assert_eq!(error, RequestError::HeaderLineTooLong { line });
}

#[test]
fn a_small_buffer_larger_than_the_large_ones() {
    let limits = Limits {
        header_buffer_bytes: 300,
        ..limits()
    };
    // A line of 200 bytes or more cannot move; a shorter part of one can.
    let host = "Host: a\r\n\r\n";
    assert!(parse_with((request_line(300) + host).as_bytes(), &limits).is_ok());
    let error = refused_however_cut(request_line(301).as_bytes(), &limits);
    assert_eq!(error, RequestError::UriTooLong);
    let input = |bytes| request_line(200) + &header_line(bytes) + host;
    assert!(parse_with(input(200).as_bytes(), &limits).is_ok());
    let error = refused_however_cut(input(201).as_bytes(), &limits);
    let line = Span::new(200, 400);
    assert_eq!(error, RequestError::HeaderLineTooLong { line });
}

#[test]
fn a_method_longer_than_the_buffers() {
    let tiny = Limits {
        header_buffer_bytes: 10,
        large_buffer_bytes: 20,
        ..limits()
    };
    // The byte at fault counts when a buffer holds it, and only then.
    let input = |letters| format!("{}1 / HTTP/1.0\r\n\r\n", "A".repeat(letters));
    let line = Span::new(0, 20);
    let error = refused_however_cut(input(19).as_bytes(), &tiny);
    assert_eq!(error, RequestError::InvalidMethod { line });
    let error = refused_however_cut(input(20).as_bytes(), &tiny);
    assert_eq!(error, RequestError::UriTooLong);
}

/// The error for an input that is refused, checked to be the same in pieces of every size.
#[track_caller]
fn refused_however_cut(input: &[u8], limits: &Limits) -> RequestError {
    let at_once = parse_request(input, &mut ParseState::default(), limits).expect_err("refused");
    for piece in 1..input.len() {
        let mut state = ParseState::default();
        let in_pieces = (0..input.len())
            .step_by(piece)
            .map(|start| &input[..(start + piece).min(input.len())])
            .find_map(|prefix| parse_request(prefix, &mut state, limits).err());
        assert_eq!(in_pieces, Some(at_once), "pieces of {piece}");
    }
    at_once
}

#[test]
fn header_lines_are_counted_without_ignored_ones() {
    let head = "GET / HTTP/1.1\r\nHost: a\r\n";
    assert_eq!(outcome(&format!("{head}A:1\r\nB:2\r\nC_:3\r\n\r\n")), Ok(3));
    let too_many = Err((494, "client sent too many header lines"));
    assert_eq!(
        outcome(&format!("{head}A:1\r\nB:2\r\nC:3\r\n\r\n")),
        too_many
    );
}

#[test]
fn empty_lines_before_a_request_are_bounded() {
    let input = format!("{}GET / HTTP/1.0\r\n\r\n", "\r\n".repeat(50));
    assert_eq!(outcome(&input), Ok(0));
    let input = format!("\n{input}");
    assert_eq!(outcome(&input).expect_err("one byte more").0, 400);
}

#[test]
fn the_largest_possible_head() {
    let limits = limits();
    assert_eq!(limits.max_head_bytes(), 500);
    let input = "GET / HTTP/1.0\r\n".to_owned() + &header_line(84) + &header_line(200);
    let input = input + &header_line(198) + "\r\n";
    assert_eq!(input.len(), limits.max_head_bytes());
    assert_eq!(outcome(&input), Ok(3));
}

#[test]
fn more_headers_than_fit_inline() {
    let mut input = b"GET / HTTP/1.0\r\n".to_vec();
    for index in 0..100 {
        input.extend_from_slice(format!("X-{index}: {index}\r\n").as_bytes());
    }
    input.extend_from_slice(b"\r\n");
    let head = parse(&input).expect("valid");
    assert_eq!(head.headers.len(), 100);
    assert_eq!(
        text(head.get_by_name(&input, b"x-99").expect("sent"), &input),
        "99"
    );
}

#[test]
fn a_fault_beyond_the_limit_is_not_looked_at() {
    // The bare CR shows with the byte after it: at the last byte that fits, and one further.
    for (name_bytes, wanted) in [
        (198, "client sent invalid header line"),
        (199, "client sent too long header line"),
    ] {
        let input = format!("GET / HTTP/1.0\r\n{}\rx", "A".repeat(name_bytes));
        let at_once = parse_with(input.as_bytes(), &limits()).expect_err("refused");
        assert_eq!(at_once.reason(), wanted);
        let mut state = ParseState::default();
        let piecemeal = (0..=input.len())
            .find_map(|end| parse_request(&input.as_bytes()[..end], &mut state, &limits()).err());
        assert_eq!(piecemeal, Some(at_once));
    }
}
