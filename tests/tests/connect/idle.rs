//! What tunnels cost while nobody says anything.

use super::*;
use sealane_tests::{Program, wait_for};

const TUNNELS: usize = 1000;

/// KiB of memory that a server takes for each of many idle tunnels.
fn kib_per_tunnel(server: &Server<'_>, far: u16, held: &std::sync::Mutex<Vec<TcpStream>>) -> f64 {
    let open = || tunnel(server.port("proxy"), far);
    // What the first ones need is there afterwards.
    let mut tunnels: Vec<TcpStream> = (0..50).map(|_| open()).collect();
    let before = server.resident_kib();
    for _ in 0..TUNNELS {
        let mut socket = open();
        // Each has been used in both directions.
        socket.write_all(b"hello").expect("it is taken");
        tunnels.push(socket);
    }
    let mut piece = [0; 5];
    let mut far_ends = wait_for("all of them", || {
        let mut held = held.lock().expect("not poisoned");
        (held.len() == tunnels.len()).then(|| std::mem::take(&mut *held))
    });
    for socket in &mut far_ends[50..] {
        socket.read_exact(&mut piece).expect("it arrives");
        socket.write_all(&piece).expect("it is taken");
    }
    for socket in &mut tunnels[50..] {
        socket.read_exact(&mut piece).expect("it arrives");
    }
    let after = server.resident_kib();
    (after.saturating_sub(before)) as f64 / TUNNELS as f64
}

#[test]
fn a_thousand_idle_tunnels_take_little_memory() {
    let held = Arc::new(std::sync::Mutex::new(Vec::new()));
    let holding = held.clone();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let far = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            holding.lock().expect("not poisoned").push(socket);
        }
    });
    let (ours, theirs) = (Site::new(), Site::new());
    let configuration = |allow: &str| {
        format!(
            "error_log logs/error.log; pid logs/pid; worker_processes 1;
             events {{ worker_connections 5000; }}
             http {{ access_log off; {allow}
               server {{ listen 127.0.0.1:%proxy%; tunnel_pass; }} }}"
        )
    };
    let sealane = ours.serve_whole(&configuration(ALLOW));
    let here = kib_per_tunnel(&sealane, far, &held);
    println!("KiB per idle tunnel: Sealane {here:.1}");
    assert!(here < 64.0, "{here} KiB per tunnel");
    if !nginx_has_tunnels() {
        return sealane_needs::leave_out("this nginx has no \"tunnel_pass\" to compare with");
    }
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path temporary/{name};"))
        .join(" ");
    let nginx = Server::start(&theirs, Program::Nginx, &configuration(&temporary));
    let there = kib_per_tunnel(&nginx, far, &held);
    println!("KiB per idle tunnel: nginx {there:.1}");
}

#[test]
fn idle_tunnels_on_streams_take_little_memory() {
    const CONNECTIONS: usize = 10;
    const STREAMS: usize = 100;
    let site = Site::new();
    let far = Far::echo();
    let server = site.serve_whole(&format!(
        "error_log logs/error.log; pid logs/pid; worker_processes 1;
         events {{ worker_connections 5000; }}
         http {{ access_log off; {ALLOW}
           server {{ listen 127.0.0.1:%proxy%; http2 on; tunnel_pass; }} }}"
    ));
    let open = || {
        let mut client = sealane_tests::http2::Client::open(server.port("proxy"), &[]);
        for _ in 0..STREAMS {
            let stream = http2::open(&mut client, far.port);
            // It has been used in both directions.
            client.frame(sealane_tests::http2::kind::DATA, 0, stream, b"hello");
            assert_eq!(http2::next(&mut client, stream).0.payload, b"hello");
        }
        client
    };
    // What the first ones need is there afterwards.
    let mut clients = vec![open()];
    let before = server.resident_kib();
    clients.extend((0..CONNECTIONS).map(|_| open()));
    let after = server.resident_kib();
    assert_eq!(far.accepted(), STREAMS * (CONNECTIONS + 1));
    let here = after.saturating_sub(before) as f64 / (STREAMS * CONNECTIONS) as f64;
    println!("KiB per idle tunnel on a stream: {here:.1}");
    assert!(here < 64.0, "{here} KiB per tunnel");
}
