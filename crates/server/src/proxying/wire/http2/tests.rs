//! Requests by HTTP/2 against the server role of the codec, in memory.

use super::*;
use crate::proxying::wire::UpstreamHead;
use sealane_http::StatusCode;
use sealane_http::headers::Field;
use std::time::Duration;

type Fields<'f> = &'f [(&'f [u8], &'f [u8])];

const NO_FIELDS: Fields<'_> = &[];

fn checked(fields: Fields<'_>) -> impl Iterator<Item = Field<'_>> {
    let field = |&(name, value): &(_, _)| Field::new(name, value).expect("a valid field");
    fields.iter().map(field)
}

/// The peer: what it understood, and what it sends.
struct Peer {
    codec: Connection,
    input: Vec<u8>,
    /// For the wire.
    out: Vec<u8>,
    /// Streams and heads of the requests, as HTTP/1 would write them.
    requests: Vec<(StreamRef, String)>,
    body: Vec<u8>,
    /// DATA frames, and parts of them that arrived alone.
    pieces: usize,
    ended: bool,
    resets: Vec<ErrorCode>,
}

impl Peer {
    fn new(settings: Settings) -> Peer {
        let mut out = Vec::new();
        let codec = Connection::server(Arc::new(settings), Duration::ZERO, &mut out);
        Peer {
            codec,
            input: Vec::new(),
            out,
            requests: Vec::new(),
            body: Vec::new(),
            pieces: 0,
            ended: false,
            resets: Vec::new(),
        }
    }

    /// Takes in what the wire sends; `release` gives its window back.
    fn hear(&mut self, wire: &mut Http2, release: bool) {
        let mut chain = OutputChain::new();
        wire.take_output(&mut chain);
        for segment in chain.segments() {
            match segment {
                Segment::Memory(bytes) => self.input.extend_from_slice(bytes),
                Segment::File(_) => panic!("these tests send memory"),
            }
        }
        let mut at = 0;
        loop {
            let received = self
                .codec
                .receive(&self.input[at..], Duration::ZERO, &mut self.out)
                .expect("the wire speaks HTTP/2");
            at += received.consumed;
            match received.event {
                None => break,
                Some(Frame::Request {
                    stream,
                    request,
                    end,
                }) => {
                    let text = String::from_utf8_lossy(&request.text).into_owned();
                    let start = request.head.request_line.start as usize;
                    self.requests.push((stream, text[start..].to_owned()));
                    self.ended = end;
                }
                Some(Frame::Data { stream, bytes, end }) => {
                    self.body.extend_from_slice(bytes);
                    self.pieces += 1;
                    self.ended = end;
                    let count = bytes.len();
                    if release {
                        self.codec.release(stream, count, &mut self.out);
                    }
                }
                Some(Frame::Reset { code, .. }) => self.resets.push(code),
                Some(_) => {}
            }
        }
        self.input.drain(..at);
    }

    fn stream(&self) -> StreamRef {
        self.requests.last().expect("a request came").0
    }

    fn head(&mut self, status: u16, fields: Fields<'_>, end: bool) {
        let stream = self.stream();
        let fields = checked(fields);
        self.codec
            .send_head(stream, StatusCode(status), fields, end, &mut self.out)
            .expect("the stream is open");
    }

    fn data(&mut self, bytes: &[u8], end: bool) {
        let stream = self.stream();
        self.codec
            .data(stream, bytes.len() as u32, end, &mut self.out)
            .expect("within the windows");
        self.out.extend_from_slice(bytes);
    }

    fn trailers(&mut self, fields: Fields<'_>) {
        let stream = self.stream();
        self.codec
            .send_trailers(stream, checked(fields), &mut self.out)
            .expect("the stream is open");
    }

    fn reset(&mut self, code: ErrorCode) {
        let stream = self.stream();
        self.codec.reset(stream, code, &mut self.out);
    }

    fn go_away(&mut self, last_stream: u32, code: ErrorCode, debug: &[u8]) {
        frame(&mut self.out, 7, 8 + debug.len(), 0);
        self.out.extend_from_slice(&last_stream.to_be_bytes());
        self.out.extend_from_slice(&code.0.to_be_bytes());
        self.out.extend_from_slice(debug);
    }

    fn ping(&mut self) {
        frame(&mut self.out, 6, 8, 0);
        self.out.extend_from_slice(b"are you?");
    }

    /// What it has sent so far.
    fn say(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

/// A frame's header, without flags.
fn frame(out: &mut Vec<u8>, kind: u8, payload_bytes: usize, stream: u32) {
    out.extend_from_slice(&(payload_bytes as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// A response as the wire told it.
#[derive(Default)]
struct Heard {
    statuses: Vec<u16>,
    body: Vec<u8>,
    ending: Option<ResponseEnd>,
}

impl Heard {
    /// Reads until more bytes are needed, the end, or an error.
    fn listen(&mut self, wire: &mut Http2, input: &mut Vec<u8>) -> Result<(), WireError> {
        while let Some(event) = wire.next_event(input, false)? {
            match event {
                WireEvent::Head(head) => self.statuses.push(head.parsed.status.0),
                WireEvent::Data(piece) => self.body.extend_from_slice(&piece),
                WireEvent::End(ending) => {
                    self.ending = Some(ending);
                    break;
                }
            }
        }
        Ok(())
    }

    fn ending(&mut self) -> ResponseEnd {
        self.ending.take().expect("the response has ended")
    }
}

fn request(method: &str, end: bool) -> RequestHead {
    let mut fields = HeaderList::new();
    fields.push(b"TE", b"trailers").expect("a valid field");
    fields.push(b"X-Asked", b"yes").expect("a valid field");
    let (method, path) = (method.as_bytes(), b"/call?x=1");
    let target = RequestTarget::new(method, Scheme::Http, b"origin:1", path);
    RequestHead::new(&target.expect("valid"), fields, end)
}

/// A request on a new connection, heard by the peer.
fn begin(mut wire: Http2, settings: Settings) -> (Http2, Peer) {
    let mut peer = Peer::new(settings);
    wire.begin(None);
    peer.hear(&mut wire, true);
    (wire, peer)
}

fn get() -> Http2 {
    Http2::new(request("GET", true), true, 4096)
}

fn post() -> Http2 {
    Http2::new(request("POST", false), true, 4096)
}

/// The same connection's next request.
fn again(mut before: Http2, mut wire: Http2, peer: &mut Peer) -> Http2 {
    peer.hear(&mut before, true);
    wire.begin(before.take_session());
    peer.hear(&mut wire, true);
    wire
}

fn memory(bytes: &[u8]) -> Segment {
    Segment::Memory(Bytes::copy_from_slice(bytes))
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

fn windows_of(bytes: u32) -> Settings {
    Settings {
        stream_window_bytes: bytes,
        max_stream_window_bytes: bytes,
        ..Settings::default()
    }
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let (mut wire, mut peer) = begin(get(), Settings::default());
    for round in 1..=3 {
        let head = &peer.requests.last().expect("it was sent").1;
        assert_eq!(
            head,
            "GET /call?x=1 HTTP/2.0\r\nhost: origin:1\r\nte: trailers\r\nx-asked: yes\r\n\r\n"
        );
        assert!(peer.ended);
        peer.head(200, NO_FIELDS, false);
        peer.data(b"hello", false);
        peer.trailers(&[(b"grpc-status", b"0")]);
        // All in one read, the peer's first SETTINGS included.
        let mut heard = Heard::default();
        heard
            .listen(&mut wire, &mut peer.say())
            .expect("a good response");
        assert_eq!(
            (&*heard.statuses, &*heard.body),
            (&[200][..], &b"hello"[..])
        );
        let ending = heard.ending();
        assert!(ending.reusable);
        assert_eq!(ending.trailers.get(b"grpc-status"), Some(&b"0"[..]));
        assert_eq!(peer.requests.len(), round);
        assert_eq!(peer.stream().id(), 2 * round as u32 - 1);
        wire = again(wire, get(), &mut peer);
    }
}

#[test]
fn trailers_are_dropped_when_nobody_wants_them() {
    let wire = Http2::new(request("GET", true), false, 4096);
    let (mut wire, mut peer) = begin(wire, Settings::default());
    peer.head(200, NO_FIELDS, false);
    peer.trailers(&[(b"x-late", b"1")]);
    let mut heard = Heard::default();
    heard
        .listen(&mut wire, &mut peer.say())
        .expect("a good response");
    assert!(heard.ending().trailers.is_empty());
}

#[test]
fn a_response_may_be_a_head_alone() {
    let (mut wire, mut peer) = begin(post(), Settings::default());
    peer.head(200, &[(b"grpc-status", b"12")], true);
    let mut heard = Heard::default();
    heard
        .listen(&mut wire, &mut peer.say())
        .expect("a good response");
    assert_eq!(heard.statuses, [200]);
    assert!(heard.body.is_empty());
    // The request had not ended: it is reset, and its connection stays of use.
    assert!(heard.ending().reusable);
    let mut wire = again(wire, get(), &mut peer);
    assert_eq!(peer.resets, [ErrorCode::NO_ERROR]);
    peer.head(204, NO_FIELDS, true);
    heard
        .listen(&mut wire, &mut peer.say())
        .expect("the next response");
    assert_eq!(heard.statuses, [200, 204]);
}

#[test]
fn interim_responses_come_first() {
    let (mut wire, mut peer) = begin(get(), Settings::default());
    let stream = peer.stream();
    let link: Fields<'_> = &[(b"link", b"</a.css>")];
    peer.codec
        .send_interim(stream, StatusCode(103), checked(link), &mut peer.out)
        .expect("the head is still to come");
    peer.head(200, NO_FIELDS, true);
    let mut heard = Heard::default();
    heard
        .listen(&mut wire, &mut peer.say())
        .expect("a good response");
    assert_eq!(heard.statuses, [103, 200]);
}

#[test]
fn bodies_wait_for_windows() {
    for (window, bytes) in [(1, 300), (7, 5_000), (65_535, 300_000)] {
        let body = pattern(bytes);
        let mut chain = OutputChain::new();
        for piece in body.chunks(10_000) {
            chain.push(memory(piece));
        }
        let mut wire = post().with_body(chain);
        let mut peer = Peer::new(windows_of(window));
        wire.begin(None);
        // The peer's settings come with its first bytes.
        assert!(matches!(wire.next_event(&mut peer.say(), false), Ok(None)));
        while !peer.ended {
            let before = peer.body.len();
            peer.hear(&mut wire, false);
            let sent = peer.body.len() - before;
            assert!(sent <= 65_535, "{sent} bytes at once");
            assert!(sent > 0 || peer.ended, "it goes on");
            let stream = peer.stream();
            peer.codec.release(stream, sent, &mut peer.out);
            assert!(matches!(wire.next_event(&mut peer.say(), false), Ok(None)));
        }
        assert_eq!(peer.body, body);
        assert!(!wire.holds_body());
        assert!(peer.pieces >= bytes / 16_384);
    }
}

#[test]
fn an_empty_body_ends_with_the_head() {
    let (_, peer) = begin(
        Http2::new(request("POST", true), true, 4096),
        Settings::default(),
    );
    assert!(peer.ended);
    assert!(peer.body.is_empty());
}

#[test]
fn pieces_of_a_streamed_body_leave_as_they_come() {
    let (mut wire, mut peer) = begin(post(), Settings::default());
    for (piece, so_far) in [("one", "one"), ("two", "onetwo"), ("three", "onetwothree")] {
        wire.frame_body(memory(piece.as_bytes()));
        peer.hear(&mut wire, true);
        assert_eq!(peer.body, so_far.as_bytes());
        assert!(!peer.ended);
        assert!(!wire.holds_body());
    }
    wire.end_body();
    peer.hear(&mut wire, true);
    assert!(peer.ended);
}

#[test]
fn bodies_of_responses_open_the_window_again() {
    let (mut wire, mut peer) = begin(get(), Settings::default());
    let body = pattern(3 << 20);
    peer.head(200, &[(b"content-length", b"3145728")], false);
    let mut heard = Heard::default();
    let mut at = 0;
    while at < body.len() {
        let stream = peer.stream();
        peer.codec.offer(stream);
        while let Some(grant) = peer.codec.next_data()
            && at < body.len()
        {
            let count = (grant.max_bytes as usize).min(body.len() - at);
            peer.data(&body[at..at + count], at + count == body.len());
            at += count;
        }
        heard
            .listen(&mut wire, &mut peer.say())
            .expect("a good response");
        assert_eq!(wire.known_left(), (body.len() - at) as u64);
        assert_eq!(
            heard.body.len(),
            at,
            "the window was used up, or all is here"
        );
        peer.hear(&mut wire, true);
    }
    assert_eq!(heard.body, body);
    assert!(heard.ending().reusable);
}

#[test]
fn small_frames_are_read_whatever_they_arrive_in() {
    let (mut wire, mut peer) = begin(get(), Settings::default());
    peer.head(200, NO_FIELDS, false);
    let body = pattern(3_000);
    for (at, piece) in body.chunks(3).enumerate() {
        peer.data(piece, at == 999);
    }
    let said = peer.say();
    for cut in [1, 7, 1_000, said.len()] {
        let (mut wire, _) = begin(get(), Settings::default());
        let (mut heard, mut input) = (Heard::default(), Vec::new());
        for part in said.chunks(cut) {
            input.extend_from_slice(part);
            heard.listen(&mut wire, &mut input).expect("good frames");
        }
        assert_eq!(heard.body, body);
        assert!(input.is_empty());
        assert!(heard.ending().reusable);
    }
    // A peer that says no more before it is done closes early.
    let half = said[..said.len() / 2].to_vec();
    let mut heard = Heard::default();
    let mut input = half;
    heard.listen(&mut wire, &mut input).expect("good frames");
    let ended = wire.next_event(&mut input, true);
    assert!(matches!(ended, Err(WireError::ClosedEarly)));
}

#[test]
fn an_answer_before_the_body_leaves_the_connection_usable() {
    let mut chain = OutputChain::new();
    chain.push(memory(&pattern(200_000)));
    let mut wire = post().with_body(chain);
    let mut peer = Peer::new(Settings::default());
    wire.begin(None);
    peer.hear(&mut wire, false);
    assert!(wire.holds_body());
    peer.head(413, NO_FIELDS, false);
    peer.data(b"too much", true);
    let mut heard = Heard::default();
    heard
        .listen(&mut wire, &mut peer.say())
        .expect("a good response");
    assert_eq!(heard.body, b"too much");
    assert!(heard.ending().reusable);
    assert!(wire.has_let_go() && !wire.holds_body());
    let before = peer.body.len();
    let mut wire = again(wire, get(), &mut peer);
    assert_eq!(peer.resets, [ErrorCode::NO_ERROR]);
    assert_eq!(peer.body.len(), before, "the rest of the body stays here");
    peer.head(200, NO_FIELDS, true);
    heard
        .listen(&mut wire, &mut peer.say())
        .expect("the next response");
    assert_eq!(heard.statuses, [413, 200]);
}

#[test]
fn a_request_that_is_given_up_is_reset() {
    let (mut wire, mut peer) = begin(get(), Settings::default());
    peer.head(200, NO_FIELDS, false);
    peer.data(&pattern(100), false);
    let mut heard = Heard::default();
    let mut input = peer.say();
    heard.listen(&mut wire, &mut input).expect("a good head");
    // More of it is under way.
    for _ in 0..4 {
        peer.data(&pattern(10_000), false);
    }
    assert!(wire.cancel(&input));
    let mut next = get();
    next.begin(wire.take_session());
    let mut late = peer.say();
    assert!(matches!(next.next_event(&mut late, false), Ok(None)));
    wire.out.append(&mut next.out);
    peer.hear(&mut wire, true);
    assert_eq!(peer.resets, [ErrorCode::CANCEL]);
    assert_eq!(peer.requests.len(), 2);
    peer.head(200, NO_FIELDS, false);
    peer.data(b"mine", true);
    let mut heard = Heard::default();
    heard
        .listen(&mut next, &mut peer.say())
        .expect("the next response");
    assert_eq!(heard.body, b"mine");
}

#[test]
fn a_frame_that_is_cut_ends_the_connection_with_its_request() {
    let (mut wire, mut peer) = begin(get(), Settings::default());
    peer.head(200, NO_FIELDS, true);
    let mut input = peer.say();
    // Part of a PING behind the response.
    frame(&mut input, 6, 8, 0);
    let mut heard = Heard::default();
    heard
        .listen(&mut wire, &mut input)
        .expect("a good response");
    assert!(!heard.ending().reusable);
    let (mut wire, _) = begin(get(), Settings::default());
    assert!(!wire.cancel(b"\0\0\x08"));
}

#[test]
fn resets_say_whether_the_request_may_be_sent_again() {
    let (mut wire, mut peer) = begin(post(), Settings::default());
    wire.frame_body(memory(b"kept"));
    peer.hear(&mut wire, true);
    peer.reset(ErrorCode::REFUSED_STREAM);
    match wire.next_event(&mut peer.say(), false) {
        Err(WireError::Unprocessed(text)) => {
            assert_eq!(text, "upstream rejected request with error 7");
        }
        _ => panic!("the request was refused"),
    }
    // Another connection gets the same.
    let mut wire = post();
    let (mut kept, fresh) = (Http2::take_kept_body(&mut wire), post());
    assert!(kept.take().is_some_and(|kept| kept.is_empty()));
    let mut fresh = fresh;
    let mut chain = OutputChain::new();
    chain.push(memory(b"kept"));
    fresh.begin_body_with(chain);
    let (mut fresh, mut peer) = begin(fresh, Settings::default());
    fresh.frame_body(memory(b" and more"));
    fresh.end_body();
    peer.hear(&mut fresh, true);
    assert_eq!(peer.body, b"kept and more");
    assert!(peer.ended);

    let (mut wire, mut peer) = begin(get(), Settings::default());
    peer.reset(ErrorCode::INTERNAL_ERROR);
    match wire.next_event(&mut peer.say(), false) {
        Err(WireError::Invalid(text)) => {
            assert_eq!(text, "upstream rejected request with error 2");
        }
        _ => panic!("the stream was reset"),
    }
}

#[test]
fn what_is_kept_of_a_body_is_bounded() {
    let (mut wire, _) = begin(post(), Settings::default());
    let piece = pattern(10_000);
    for _ in 0..6 {
        wire.frame_body(memory(&piece));
    }
    assert_eq!(wire.kept.as_ref().map(OutputChain::len), Some(60_000));
    wire.frame_body(memory(&piece));
    assert!(wire.take_kept_body().is_none());
    // A body that is there as a whole is sent again from where it is.
    assert!(
        post()
            .with_body(OutputChain::new())
            .take_kept_body()
            .is_none()
    );
    // An answer settles it.
    let (mut wire, mut peer) = begin(post(), Settings::default());
    wire.frame_body(memory(b"x"));
    peer.hear(&mut wire, true);
    peer.head(200, NO_FIELDS, false);
    let mut heard = Heard::default();
    heard
        .listen(&mut wire, &mut peer.say())
        .expect("a good head");
    assert!(wire.take_kept_body().is_none());
}

#[test]
fn go_away_ends_the_connection_but_not_what_it_names() {
    let (mut wire, mut peer) = begin(get(), Settings::default());
    peer.go_away(1, ErrorCode::NO_ERROR, b"");
    peer.head(200, NO_FIELDS, false);
    peer.data(b"done", true);
    let mut heard = Heard::default();
    heard
        .listen(&mut wire, &mut peer.say())
        .expect("a good response");
    assert_eq!(heard.body, b"done");
    assert!(!heard.ending().reusable);
    assert_eq!(wire.take_remark(), None);

    let (mut wire, mut peer) = begin(get(), Settings::default());
    peer.go_away(0, ErrorCode::ENHANCE_YOUR_CALM, b"too many\n");
    let text = "upstream sent goaway with error 11 (ENHANCE_YOUR_CALM): \"too many\\n\"";
    match wire.next_event(&mut peer.say(), false) {
        Err(WireError::Unprocessed(told)) => assert_eq!(told, text),
        _ => panic!("the stream is not among those it serves"),
    }
    // One that goes on with the request and then closes has its say in the log as well.
    let (mut wire, mut peer) = begin(get(), Settings::default());
    peer.go_away(1, ErrorCode::ENHANCE_YOUR_CALM, b"too many\n");
    assert!(matches!(wire.next_event(&mut peer.say(), false), Ok(None)));
    assert_eq!(wire.take_remark().as_deref(), Some(text));
}

#[test]
fn a_connection_that_takes_no_more_streams_gets_none() {
    // What the peer allows came with the answer before.
    let (mut wire, mut peer) = begin(get(), Settings::default());
    peer.head(200, NO_FIELDS, true);
    let mut input = peer.say();
    frame(&mut input, 4, 6, 0);
    input.extend_from_slice(&[0, 3, 0, 0, 0, 0]);
    let mut heard = Heard::default();
    heard
        .listen(&mut wire, &mut input)
        .expect("a good response");
    assert!(!heard.ending().reusable);
    // Had it been used all the same, nothing would have been sent.
    let mut next = get();
    next.begin(wire.take_session());
    let refused = next.next_event(&mut Vec::new(), false);
    assert!(matches!(refused, Err(WireError::Unprocessed(_))));
    assert!(next.out.is_empty());
}

#[test]
fn idle_connections_listen() {
    let idle = || {
        let (mut wire, mut peer) = begin(get(), Settings::default());
        peer.head(200, NO_FIELDS, true);
        let mut heard = Heard::default();
        heard
            .listen(&mut wire, &mut peer.say())
            .expect("a good response");
        assert!(heard.ending().reusable);
        peer.hear(&mut wire, true);
        let session = wire.take_session().expect("it was lent");
        (session, peer)
    };
    let (mut session, mut peer) = idle();
    peer.ping();
    let mut out = Vec::new();
    assert!(session.stays_idle(&peer.say(), &mut out));
    assert_eq!(&out[..5], [0, 0, 8, 6, 1], "PING is answered");
    assert_eq!(&out[9..], b"are you?");

    let (mut session, mut peer) = idle();
    peer.go_away(1, ErrorCode::NO_ERROR, b"");
    assert!(!session.stays_idle(&peer.say(), &mut Vec::new()));

    let (mut session, mut peer) = idle();
    peer.ping();
    let said = peer.say();
    assert!(!session.stays_idle(&said[..said.len() - 1], &mut Vec::new()));

    let (mut session, _) = idle();
    assert!(!session.stays_idle(b"HTTP/1.1 400 Bad Request\r\n\r\n", &mut Vec::new()));
}

#[test]
fn a_connection_lives_for_thousands_of_requests() {
    let (mut wire, mut peer) = begin(post(), Settings::default());
    for _ in 0..3_000 {
        wire.frame_body(memory(b"x"));
        peer.hear(&mut wire, true);
        // Servers measure with PINGs, and reset what they did not read to its end.
        peer.ping();
        peer.head(200, NO_FIELDS, true);
        peer.reset(ErrorCode::NO_ERROR);
        let mut heard = Heard::default();
        heard.listen(&mut wire, &mut peer.say()).expect("no flood");
        assert!(heard.ending().reusable);
        wire = again(wire, post(), &mut peer);
        peer.codec.flushed();
    }
}

#[test]
fn malformed_answers_are_refused() {
    let (mut wire, mut peer) = begin(get(), Settings::default());
    let mut input = peer.say();
    frame(&mut input, 0, 1, 1);
    input.push(b'x');
    match wire.next_event(&mut input, false) {
        Err(WireError::Invalid(text)) => {
            assert_eq!(text, "upstream sent DATA before HEADERS");
        }
        _ => panic!("DATA came before the head"),
    }
    let (mut wire, _) = begin(get(), Settings::default());
    let mut input = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
    match wire.next_event(&mut input, false) {
        Err(WireError::Invalid(text)) => {
            assert!(text.starts_with("upstream broke HTTP/2: "), "{text}");
        }
        _ => panic!("that is HTTP/1"),
    }
}

#[test]
fn heads_are_told_as_they_come() {
    let (mut wire, mut peer) = begin(get(), Settings::default());
    peer.head(200, &[(b"x-one", b"1"), (b"x-two-bin", b"AAE=")], false);
    match wire.next_event(&mut peer.say(), false) {
        Ok(Some(WireEvent::Head(head))) => {
            let UpstreamHead { buffer, parsed } = &*head;
            let text = String::from_utf8_lossy(buffer);
            assert!(text.contains("x-one: 1\r\nx-two-bin: AAE=\r\n"), "{text}");
            assert_eq!(parsed.status.0, 200);
        }
        _ => panic!("a head was sent"),
    }
}
