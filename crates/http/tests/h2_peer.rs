//! The HTTP/2 codec against the `h2` crate: our server with its client, our client with its server,
//! over an in-memory pipe. Hundreds of concurrent requests, bodies in both directions, trailers,
//! resets and odd windows; every byte is checked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sealane_http::StatusCode;
use sealane_http::h2::{
    Connection, ErrorCode, Event, Request, RequestTarget, Scheme, Settings, StreamRef,
};
use sealane_http::headers::Field;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::oneshot;

/// Nothing here takes longer than a moment; a test that hangs must end.
const PATIENCE: Duration = Duration::from_secs(120);

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
        .block_on(async { tokio::time::timeout(PATIENCE, test).await })
        .expect("it hangs");
}

fn body_byte(seed: usize, at: usize) -> u8 {
    (seed * 31 + at * 7 + (at >> 9)) as u8
}

fn body(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| body_byte(seed, at)).collect()
}

/// What a stream of ours has to send.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// More may come.
    open: bool,
    trailers: bool,
}

/// Our end of a connection and its payloads.
struct Ours {
    connection: Connection,
    io: DuplexStream,
    input: Vec<u8>,
    out: Vec<u8>,
    outgoing: HashMap<StreamRef, Outgoing>,
    started: tokio::time::Instant,
    /// The peer has said how many streams it takes.
    peer_is_known: bool,
}

impl Ours {
    fn new(
        io: DuplexStream,
        settings: Settings,
        make: fn(Arc<Settings>, Duration, &mut Vec<u8>) -> Connection,
    ) -> Ours {
        let mut out = Vec::new();
        Ours {
            connection: make(Arc::new(settings), Duration::ZERO, &mut out),
            io,
            input: Vec::new(),
            out,
            outgoing: HashMap::new(),
            started: tokio::time::Instant::now(),
            peer_is_known: false,
        }
    }

    /// Sends what may be sent, in writes of some size.
    async fn send(&mut self) -> std::io::Result<()> {
        loop {
            while self.out.len() < 64 * 1024
                && let Some(grant) = self.connection.next_data()
            {
                self.send_part(grant.stream, grant.max_bytes as usize);
            }
            if self.out.is_empty() {
                return Ok(());
            }
            self.io.write_all(&self.out).await?;
            self.out.clear();
            self.connection.flushed();
        }
    }

    fn send_part(&mut self, stream: StreamRef, most: usize) {
        let outgoing = self.outgoing.get_mut(&stream).expect("it offers");
        let count = most.min(outgoing.bytes.len() - outgoing.sent);
        let part = &outgoing.bytes[outgoing.sent..outgoing.sent + count];
        outgoing.sent += count;
        let is_done = outgoing.sent == outgoing.bytes.len() && !outgoing.open;
        let end = is_done && !outgoing.trailers;
        self.connection
            .data(stream, count as u32, end, &mut self.out)
            .expect("within the grant");
        self.out.extend_from_slice(part);
        if is_done && outgoing.trailers {
            let fields = [Field::from_static("x-trailer", "the end")];
            self.connection
                .send_trailers(stream, fields, &mut self.out)
                .expect("after the body");
        }
        if is_done {
            self.outgoing.remove(&stream);
        } else if outgoing.sent == outgoing.bytes.len() {
            self.connection.pause(stream);
        }
    }

    /// Reads once; `false` at the end.
    async fn read(&mut self) -> std::io::Result<bool> {
        let mut buffer = [0; 8192];
        let count = self.io.read(&mut buffer).await?;
        self.input.extend_from_slice(&buffer[..count]);
        Ok(count > 0)
    }
}

/// Answers `/BYTES` with so many bytes, `/echo` with the request's body, `/hang` not at all.
async fn serve(io: DuplexStream, settings: Settings) -> Ours {
    let mut ours = Ours::new(io, settings, Connection::server);
    loop {
        if ours.send().await.is_err() {
            return ours;
        }
        match ours.read().await {
            Ok(true) => {}
            _ => return ours,
        }
        let input = std::mem::take(&mut ours.input);
        let mut at = 0;
        loop {
            let now = ours.started.elapsed();
            let received = ours
                .connection
                .receive(&input[at..], now, &mut ours.out)
                .expect("a well-behaved client");
            at += received.consumed;
            match received.event {
                Some(event) => handle(
                    &mut ours.connection,
                    &mut ours.outgoing,
                    &mut ours.out,
                    event,
                ),
                None => break,
            }
        }
        ours.input = input[at..].to_vec();
    }
}

fn handle(
    connection: &mut Connection,
    outgoing: &mut HashMap<StreamRef, Outgoing>,
    out: &mut Vec<u8>,
    event: Event<'_>,
) {
    match event {
        Event::Request {
            stream,
            request,
            end,
        } => answer(connection, outgoing, out, stream, &request, end),
        Event::Data { stream, bytes, end } => {
            if let Some(echo) = outgoing.get_mut(&stream) {
                echo.bytes.extend_from_slice(bytes);
                echo.open = !end;
                connection.offer(stream);
            }
            connection.release(stream, bytes.len(), out);
        }
        Event::Trailers { stream, trailers } => {
            assert_eq!(
                trailers.iter().collect::<Vec<_>>(),
                [(&b"x-check"[..], &b"sum"[..])]
            );
            if let Some(echo) = outgoing.get_mut(&stream) {
                echo.open = false;
                connection.offer(stream);
            }
        }
        Event::Reset { stream, .. } => {
            outgoing.remove(&stream);
        }
        Event::Refused { error, .. } => panic!("refused: {error}"),
        Event::Fault { fault, .. } => panic!("a fault: {fault}"),
        _ => {}
    }
}

fn answer(
    connection: &mut Connection,
    outgoing: &mut HashMap<StreamRef, Outgoing>,
    out: &mut Vec<u8>,
    stream: StreamRef,
    request: &Request,
    end: bool,
) {
    let path = request.head.path.of(&request.text);
    assert_eq!(
        request.head.host.map(|host| host.of(&request.text)),
        Some(&b"test.example"[..])
    );
    if path == b"/hang" {
        return;
    }
    let mut body_out = Outgoing::default();
    if path == b"/echo" {
        body_out.open = !end;
        body_out.trailers = true;
    } else {
        let text = std::str::from_utf8(&path[1..]).expect("digits");
        let bytes = text.parse().expect("a number");
        body_out.bytes = body(bytes, bytes);
    }
    let is_empty = body_out.bytes.is_empty() && !body_out.open && !body_out.trailers;
    let fields = [
        Field::from_static("Content-Type", "text/plain"),
        Field::new(b"X-Path", path).expect("a path that was sent"),
    ];
    connection
        .send_head(stream, StatusCode::OK, fields, is_empty, out)
        .expect("a new stream");
    if !is_empty {
        outgoing.insert(stream, body_out);
        connection.offer(stream);
    }
}

async fn read_body(stream: &mut h2::RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut bytes = Vec::new();
    while let Some(part) = stream.data().await {
        let part = part?;
        bytes.extend_from_slice(&part);
        let _ = stream.flow_control().release_capacity(part.len());
    }
    Ok(bytes)
}

async fn send_body(stream: &mut h2::SendStream<Bytes>, bytes: &[u8], end: bool) {
    let mut rest = bytes;
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let count = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let Some(Ok(count)) = count else { return };
        let (part, after) = rest.split_at(count.min(rest.len()));
        rest = after;
        stream
            .send_data(Bytes::copy_from_slice(part), end && rest.is_empty())
            .expect("capacity was given");
    }
    if bytes.is_empty() && end {
        stream.send_data(Bytes::new(), true).expect("the end");
    }
}

fn request(path: &str) -> http::Request<()> {
    http::Request::builder()
        .method(if path == "/echo" { "POST" } else { "GET" })
        .uri(format!("https://test.example{path}"))
        .header("user-agent", "h2")
        .header("x-number", path.len().to_string())
        .body(())
        .expect("a request")
}

/// One request of the `h2` client, chosen by its number.
async fn ask(mut sender: h2::client::SendRequest<Bytes>, number: usize) {
    match number % 5 {
        0..3 => {
            let bytes = number * number * 7 % 100_000;
            sender = sender.ready().await.expect("a stream");
            let path = format!("/{bytes}");
            let (response, _) = sender.send_request(request(&path), true).expect("sent");
            let response = response.await.expect("a response");
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["x-path"], path.as_str());
            let received = read_body(&mut response.into_body()).await.expect("a body");
            assert!(received == body(bytes, bytes), "{number}");
        }
        3 => {
            let bytes = body(number, number * 997 % 150_000);
            sender = sender.ready().await.expect("a stream");
            let (response, mut stream) =
                sender.send_request(request("/echo"), false).expect("sent");
            let with_trailers = number.is_multiple_of(2);
            let sending = async {
                send_body(&mut stream, &bytes, !with_trailers).await;
                if with_trailers {
                    let mut fields = http::HeaderMap::new();
                    fields.insert("x-check", "sum".parse().expect("a value"));
                    stream.send_trailers(fields).expect("trailers");
                }
            };
            let reading = async {
                let mut received = response.await.expect("a response").into_body();
                let bytes = read_body(&mut received).await.expect("a body");
                let trailers = received.trailers().await.expect("trailers");
                assert_eq!(trailers.expect("some")["x-trailer"], "the end");
                bytes
            };
            let ((), echoed) = tokio::join!(sending, reading);
            assert!(echoed == bytes, "{number}");
        }
        _ => {
            sender = sender.ready().await.expect("a stream");
            let path = if number.is_multiple_of(2) {
                "/hang"
            } else {
                "/90000"
            };
            let (response, mut stream) = sender.send_request(request(path), true).expect("sent");
            tokio::task::yield_now().await;
            stream.send_reset(h2::Reason::CANCEL);
            drop(response);
        }
    }
}

fn our_server_with_their_client(builder: h2::client::Builder, settings: Settings, requests: usize) {
    run(async move {
        let (theirs, ours) = duplex(16 * 1024);
        let local = tokio::task::LocalSet::new();
        let server = local.spawn_local(serve(ours, settings));
        local
            .run_until(async move {
                let handshake = builder.handshake::<_, Bytes>(theirs);
                let (sender, connection) = handshake.await.expect("a handshake");
                let (stop, stopped) = oneshot::channel::<()>();
                let driver = tokio::task::spawn_local(async move {
                    tokio::select! {
                        result = connection => result.expect("no connection error"),
                        _ = stopped => {}
                    }
                });
                let tasks: Vec<_> = (0..requests)
                    .map(|number| tokio::task::spawn_local(ask(sender.clone(), number)))
                    .collect();
                for task in tasks {
                    task.await.expect("every request is answered");
                }
                drop(sender);
                let _ = stop.send(());
                driver.await.expect("the client's task");
                let mut ours = server.await.expect("the server's task");
                let counters = ours.connection.take_counters();
                assert_eq!(counters.connection_faults + counters.stream_faults, 0);
                assert!(counters.streams_opened >= requests as u64 * 4 / 5);
            })
            .await;
    });
}

#[test]
fn our_server_serves_the_h2_client() {
    let settings = Settings {
        max_concurrent_streams: 1000,
        ..Settings::default()
    };
    our_server_with_their_client(h2::client::Builder::new(), settings, 500);
}

#[test]
fn our_server_serves_a_client_with_odd_settings() {
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(1500)
        .initial_connection_window_size(70_000)
        .max_frame_size(20_000)
        .header_table_size(100);
    let settings = Settings {
        max_concurrent_streams: 7,
        stream_window_bytes: 900,
        connection_window_bytes: 65_535,
        data_frame_bytes: 777,
        ..Settings::default()
    };
    our_server_with_their_client(builder, settings, 300);
}

/// The `h2` server: the same answers.
async fn their_server(io: DuplexStream, builder: h2::server::Builder) {
    let mut connection = builder
        .handshake::<_, Bytes>(io)
        .await
        .expect("a handshake");
    while let Some(accepted) = connection.accept().await {
        let Ok((request, respond)) = accepted else {
            return;
        };
        tokio::task::spawn_local(their_answer(request, respond));
    }
}

async fn their_answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) {
    let path = request.uri().path().to_owned();
    assert_eq!(
        request.uri().authority().map(|a| a.as_str()),
        Some("test.example")
    );
    let response = http::Response::builder()
        .header("x-path", path.as_str())
        .body(())
        .expect("a response");
    match path.as_str() {
        "/refuse" => respond.send_reset(h2::Reason::REFUSED_STREAM),
        "/echo" => {
            let mut incoming = request.into_body();
            let Ok(mut stream) = respond.send_response(response, false) else {
                return;
            };
            while let Some(part) = incoming.data().await {
                let Ok(part) = part else { return };
                let _ = incoming.flow_control().release_capacity(part.len());
                send_body(&mut stream, &part, false).await;
            }
            let trailers = incoming.trailers().await.expect("none or some");
            assert_eq!(trailers.expect("some")["x-trailer"], "the end");
            let mut fields = http::HeaderMap::new();
            fields.insert("x-check", "sum".parse().expect("a value"));
            stream.send_trailers(fields).expect("trailers");
        }
        number => {
            let bytes: usize = number[1..].parse().expect("a number");
            let Ok(mut stream) = respond.send_response(response, false) else {
                return;
            };
            send_body(&mut stream, &body(bytes, bytes), true).await;
        }
    }
}

/// What our client knows of a request under way.
struct Asked {
    path: String,
    expected: Vec<u8>,
    received: Vec<u8>,
    status: u16,
    refused: bool,
}

fn our_client_with_their_server(builder: h2::server::Builder, settings: Settings, requests: usize) {
    run(async move {
        let (theirs, io) = duplex(16 * 1024);
        let local = tokio::task::LocalSet::new();
        local.spawn_local(their_server(theirs, builder));
        local
            .run_until(async move {
                let mut ours = Ours::new(io, settings, Connection::client);
                let mut asked = HashMap::new();
                let (mut opened, mut done) = (0, 0);
                while done < requests {
                    while ours.peer_is_known && opened < requests && ours.connection.can_open() {
                        open(&mut ours, &mut asked, opened);
                        opened += 1;
                    }
                    ours.send().await.expect("the server reads");
                    assert!(ours.read().await.expect("the server writes"));
                    done += take_answers(&mut ours, &mut asked);
                }
                assert_eq!(ours.connection.open_streams(), 0);
                let counters = ours.connection.take_counters();
                assert_eq!(counters.connection_faults + counters.stream_faults, 0);
                ours.connection.close(ErrorCode::NO_ERROR, &mut ours.out);
                ours.send().await.expect("the server reads");
            })
            .await;
    });
}

fn open(ours: &mut Ours, asked: &mut HashMap<StreamRef, Asked>, number: usize) {
    let mut outgoing = Outgoing::default();
    let (path, expected) = match number % 4 {
        0 | 1 => {
            let bytes = number * number * 13 % 90_000;
            (format!("/{bytes}"), body(bytes, bytes))
        }
        2 => {
            outgoing.bytes = body(number, number * 997 % 120_000);
            outgoing.trailers = true;
            ("/echo".to_owned(), outgoing.bytes.clone())
        }
        _ => ("/refuse".to_owned(), Vec::new()),
    };
    let is_echo = path == "/echo";
    let method: &[u8] = if is_echo { b"POST" } else { b"GET" };
    let target = RequestTarget::new(method, Scheme::Https, b"test.example", path.as_bytes());
    let target = target.expect("valid");
    let fields = [Field::from_static("User-Agent", "ours")];
    let stream = ours
        .connection
        .open(&target, fields, !is_echo, &mut ours.out)
        .expect("a stream may be opened");
    if is_echo {
        ours.outgoing.insert(stream, outgoing);
        ours.connection.offer(stream);
    }
    let refused = path == "/refuse";
    let entry = Asked {
        path,
        expected,
        received: Vec::new(),
        status: 0,
        refused,
    };
    asked.insert(stream, entry);
}

/// Returns how many requests came to their end.
fn take_answers(ours: &mut Ours, asked: &mut HashMap<StreamRef, Asked>) -> usize {
    let input = std::mem::take(&mut ours.input);
    let (mut at, mut done) = (0, 0);
    loop {
        let now = ours.started.elapsed();
        let received = ours
            .connection
            .receive(&input[at..], now, &mut ours.out)
            .expect("a well-behaved server");
        at += received.consumed;
        let mut finished = None;
        match received.event {
            None => break,
            Some(Event::Response {
                stream,
                response,
                end,
            }) => {
                let entry = asked.get_mut(&stream).expect("it was asked");
                entry.status = response.head.status.0;
                let path = response.head.get_by_name(&response.text, b"x-path");
                assert_eq!(
                    path.map(|path| path.of(&response.text)),
                    Some(entry.path.as_bytes())
                );
                finished = end.then_some(stream);
            }
            Some(Event::Data { stream, bytes, end }) => {
                let entry = asked.get_mut(&stream).expect("it was asked");
                entry.received.extend_from_slice(bytes);
                ours.connection.release(stream, bytes.len(), &mut ours.out);
                finished = end.then_some(stream);
            }
            Some(Event::Trailers { stream, trailers }) => {
                assert_eq!(trailers.iter().next(), Some((&b"x-check"[..], &b"sum"[..])));
                finished = Some(stream);
            }
            Some(Event::Reset {
                stream,
                code,
                unprocessed,
            }) => {
                let entry = asked.remove(&stream).expect("it was asked");
                assert!(entry.refused, "{} was reset: {code}", entry.path);
                assert!(unprocessed);
                done += 1;
            }
            Some(Event::Fault { fault, .. }) => panic!("a fault: {fault}"),
            Some(Event::Settings) => ours.peer_is_known = true,
            Some(_) => {}
        }
        if let Some(stream) = finished {
            let entry = asked.remove(&stream).expect("it was asked");
            assert_eq!((entry.status, entry.refused), (200, false));
            assert!(entry.received == entry.expected, "{}", entry.path);
            done += 1;
        }
    }
    ours.input = input[at..].to_vec();
    done
}

#[test]
fn our_client_is_served_by_the_h2_server() {
    our_client_with_their_server(h2::server::Builder::new(), Settings::default(), 600);
}

#[test]
fn our_client_is_served_by_a_server_with_odd_settings() {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(1000)
        .initial_connection_window_size(65_535)
        .max_frame_size(30_000)
        .max_concurrent_streams(9);
    let settings = Settings {
        stream_window_bytes: 2000,
        connection_window_bytes: 65_535,
        data_frame_bytes: 25_000,
        ..Settings::default()
    };
    our_client_with_their_server(builder, settings, 300);
}
