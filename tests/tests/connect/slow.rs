//! The other end does not answer, or gets much.

use super::*;
use sealane_tests::http2::{Client, kind};
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;

/// A port whose connections do not come about: its queue is full, and nobody takes from it.
struct Deaf {
    port: u16,
    _listener: Socket,
    _queue: Vec<TcpStream>,
}

impl Deaf {
    fn new() -> Deaf {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        listener.bind(&any.into()).expect("a free port");
        listener.listen(0).expect("it is bound");
        let address = listener.local_addr().expect("it is bound");
        let address = address.as_socket().expect("of the Internet");
        let mut queue = Vec::new();
        while let Ok(socket) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            queue.push(socket);
            assert!(queue.len() < 100, "the queue has no end");
        }
        Deaf {
            port: address.port(),
            _listener: listener,
            _queue: queue,
        }
    }
}

#[test]
fn a_connection_that_takes_too_long_is_a_gateway_timeout() {
    let (site, deaf) = (Site::new(), Deaf::new());
    let server = site.serve(&format!(
        "{ALLOW} server {{ listen 127.0.0.1:%proxy%; http2 on; tunnel_connect_timeout 300ms;
             tunnel_pass; }}
         server {{ listen 127.0.0.1:%module%; proxy_connect; proxy_connect_allow all;
             proxy_connect_allow_addresses 127.0.0.0/8; proxy_connect_connect_timeout 300ms; }}"
    ));
    let target = format!("127.0.0.1:{}", deaf.port);
    for port in ["proxy", "module"] {
        assert_eq!(status(server.port(port), &target), 504, "{port}");
    }
    let mut client = Client::open(server.port("proxy"), &[]);
    let stream = http2::connect(&mut client, &target);
    assert_eq!(http2::next(&mut client, stream).1, Some(504));
    server.wait_for_log("upstream timed out (110: Connection timed out) while connecting");
}

const UPLOAD_BYTES: usize = 48 << 20;

/// The byte at a place of what is sent: no two MiB are alike.
fn byte_at(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ (at >> 20) as u8
}

/// Counts the bytes that are as they should be, until there are so many or one is not, and tells.
fn judge(expected: usize) -> Far {
    Far::at(Ipv4Addr::LOCALHOST, move |mut socket| {
        let (mut right, mut piece) = (0, vec![0; 65_536]);
        while let Ok(count @ 1..) = socket.read(&mut piece) {
            let is_right = |(at, byte): (usize, &u8)| *byte == byte_at(right + at);
            let wrong = piece[..count]
                .iter()
                .enumerate()
                .find(|one| !is_right(*one));
            if let Some((at, _)) = wrong {
                let _ = write!(socket, "wrong at {}", right + at);
                return;
            }
            right += count;
            if right >= expected {
                let _ = write!(socket, "{right} right");
                return;
            }
        }
    })
}

#[test]
fn many_mebibytes_go_up_byte_by_byte() {
    let (site, far) = (Site::new(), judge(UPLOAD_BYTES));
    // No time-out gets a tunnel going again that waits for nothing.
    let server = proxy(
        &site,
        "tunnel_send_timeout 1h; tunnel_read_timeout 1h; send_timeout 1h; client_body_timeout 1h;",
    );
    let mut socket = tunnel(server.port("proxy"), far.port);
    socket.set_write_timeout(Some(PATIENCE)).expect("not zero");
    let mut piece = vec![0; 1 << 20];
    for begin in (0..UPLOAD_BYTES).step_by(1 << 20) {
        for (at, byte) in piece.iter_mut().enumerate() {
            *byte = byte_at(begin + at);
        }
        socket.write_all(&piece).expect("it is taken");
    }
    let told = String::from_utf8(read_to_close(&socket)).expect("text");
    assert_eq!(told, format!("{UPLOAD_BYTES} right"));
}

#[test]
fn many_mebibytes_go_up_on_a_stream() {
    const BYTES: usize = 6 << 20;
    let (site, far) = (Site::new(), judge(BYTES));
    let server = http2::serve(&site, "");
    let mut client = Client::open(server.port("proxy"), &[]);
    let stream = http2::connect(&mut client, &format!("127.0.0.1:{}", far.port));
    // What the server has granted: on the connection and on the stream.
    let (mut room, mut sent, mut is_open) = ([65_535_i64, 65_535], 0, false);
    while sent < BYTES {
        let now = 16_384.min(BYTES - sent);
        if is_open && room.iter().all(|room| *room >= now as i64) {
            let piece: Vec<u8> = (sent..sent + now).map(byte_at).collect();
            client.frame(kind::DATA, 0, stream, &piece);
            sent += now;
            room.iter_mut().for_each(|room| *room -= now as i64);
            continue;
        }
        let frame = client.next_frame().expect("the connection goes on");
        match frame.kind {
            kind::HEADERS => {
                let fields = client.decode(&frame.payload);
                is_open = fields.contains(&(":status".into(), "200".into()));
                assert!(is_open, "{fields:?}");
            }
            kind::WINDOW_UPDATE => {
                room[usize::from(frame.stream > 0)] += i64::from(frame.number(0));
            }
            kind::SETTINGS => {
                for entry in frame.payload.as_chunks::<6>().0 {
                    if let [0, 4, window @ ..] = entry {
                        room[1] += i64::from(u32::from_be_bytes(*window)) - 65_535;
                    }
                }
            }
            other => assert_ne!(other, kind::RST_STREAM),
        }
    }
    let (told, _) = http2::rest(&mut client, stream);
    assert_eq!(String::from_utf8_lossy(&told), format!("{BYTES} right"));
}
