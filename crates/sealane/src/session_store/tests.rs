use super::*;
use sealane_conf::model::{StoreAddress, StoreTls, StoreTopology};
use sealane_tls::{Secret, StoreSeal};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

fn conf(topology: StoreTopology) -> SessionStore {
    SessionStore {
        topology,
        tls: None,
        user: None,
        password: None,
        database: 0,
        timeout: Duration::from_millis(20),
        key_file: None,
        prefix: "sealane:".into(),
    }
}

fn address(port: u16) -> StoreAddress {
    StoreAddress::Tcp {
        host: "127.0.0.1".into(),
        port,
    }
}

#[test]
fn every_kind_of_store_can_be_prepared() {
    for topology in [
        StoreTopology::Single(address(1)),
        StoreTopology::Single(StoreAddress::Unix("/run/x".into())),
        StoreTopology::Sentinel {
            sentinels: vec![address(1), address(2)],
            service: "main".into(),
        },
        StoreTopology::Cluster(vec![address(1), address(2)]),
    ] {
        let plain = conf(topology);
        RemoteStore::new(Arc::new(plain.clone()), false, None).expect("prepared");
        if plain.topology == StoreTopology::Single(StoreAddress::Unix("/run/x".into())) {
            continue;
        }
        let tls = SessionStore {
            tls: Some(StoreTls { ca_file: None }),
            ..plain
        };
        RemoteStore::new(Arc::new(tls), false, None).expect("prepared with TLS");
    }
}

#[test]
fn what_does_not_fit_into_the_queue_is_dropped_and_counted() {
    let topology = StoreTopology::Single(address(1));
    let store = RemoteStore::new(Arc::new(conf(topology)), false, None).expect("prepared");
    let seal = StoreSeal::from_key_file(&Secret::new(vec![7; 32])).expect("long enough");
    for _ in 0..MAX_QUEUED + 10 {
        store.put(seal.session_key(b"id"), vec![1], 60);
    }
    assert_eq!(store.dropped.load(Ordering::Relaxed), 10);
}

/// More than the kernel keeps of a connection, and far more than any answer takes.
const FLOOD_BYTES: usize = 64 << 20;

/// A store that answers every request with this over and over, up to
/// [`FLOOD_BYTES`]. Its thread returns how many of them were read.
fn flooding_store(
    beginning: &'static str,
    over_and_over: &'static str,
) -> (u16, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback");
    let port = listener.local_addr().expect("bound").port();
    let thread = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("it connects");
        greet(&mut client);
        let piece = over_and_over.repeat((64 << 10) / over_and_over.len());
        let mut sent = client.write(beginning.as_bytes()).expect("it reads");
        while sent < FLOOD_BYTES {
            match client.write(piece.as_bytes()) {
                Ok(count) => sent += count,
                Err(_) => break, // it has gone
            }
        }
        sent
    });
    (port, thread)
}

/// Answers until the first request: the client introduces itself first.
fn greet(client: &mut TcpStream) {
    let (mut seen, mut greetings) = (Vec::new(), 0);
    loop {
        let mut bytes = [0; 1024];
        let count = client.read(&mut bytes).expect("it says something");
        assert_ne!(count, 0, "it goes on");
        seen.extend_from_slice(&bytes[..count]);
        let text = String::from_utf8_lossy(&seen);
        for _ in greetings..text.matches("SETINFO").count() {
            client.write_all(b"+OK\r\n").expect("it reads");
        }
        greetings = text.matches("SETINFO").count();
        if text.contains("PING") {
            return;
        }
    }
}

#[test]
fn answers_without_end_end_the_connection() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for (beginning, over_and_over) in [
        ("$4000000000\r\n", "x"),
        ("+", "x"),
        ("*1000000000\r\n", ":1\r\n"),
        ("", "*1\r\n"),
    ] {
        let (port, store) = flooding_store(beginning, over_and_over);
        let mut conf = conf(StoreTopology::Single(address(port)));
        conf.timeout = Duration::from_secs(10);
        let mut dialer = Dialer::new(&conf, None).expect("nothing to read");
        let (answer, taken) = runtime.block_on(async {
            let link = dialer.dial().await.expect("it answers");
            let ping = redis::cmd("PING");
            let answer = tokio::time::timeout(conf.timeout, link.ask(&ping)).await;
            let taken = tokio::task::spawn_blocking(move || store.join());
            (answer, taken.await.expect("it runs"))
        });
        let taken = taken.expect("it has not panicked");
        assert!(
            taken < FLOOD_BYTES,
            "{beginning:?}: {taken} bytes were taken"
        );
        let error = answer.expect("in time").expect_err("no answer").to_string();
        println!("{beginning:?}: {taken} bytes were taken: {error}");
    }
}

/// A `redis-server` of this test, and a relay before it that counts the requests about a key.
struct CountedRedis {
    directory: std::path::PathBuf,
    server: std::process::Child,
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl CountedRedis {
    fn start(key: &'static str) -> CountedRedis {
        let name = format!("sealane-lease-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
        let socket = directory.join("redis.sock");
        let server = std::process::Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .current_dir(&directory)
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("redis-server is installed (scripts/install-test-deps.sh)");
        let connect = move || {
            for _ in 0..1000 {
                if let Ok(connected) = std::os::unix::net::UnixStream::connect(&socket) {
                    return connected;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            panic!("redis-server does not listen");
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback");
        let port = listener.local_addr().expect("bound").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("it connects");
            let mut redis = connect();
            let mut answers = redis.try_clone().expect("a descriptor is free");
            let mut back = client.try_clone().expect("a descriptor is free");
            std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = client.read(&mut bytes) {
                if String::from_utf8_lossy(&bytes[..count]).contains(key) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                if redis.write_all(&bytes[..count]).is_err() {
                    return;
                }
            }
        });
        CountedRedis {
            directory,
            server,
            port,
            requests,
        }
    }
}

impl Drop for CountedRedis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn a_lease_is_taken_and_prolonged_in_one_step() {
    let redis = CountedRedis::start("the-lease");
    let mut conf = conf(StoreTopology::Single(address(redis.port)));
    conf.timeout = Duration::from_secs(20);
    let dialer = Dialer::new(&conf, None).expect("nothing to read");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = Client::new(
            &conf,
            false,
            Journal::running(sealane_log::Logger::discard()),
        );
        let asking = async {
            client.attempted().await;
            let lease = async |holder: &str, lifetime_s| {
                let before = redis.requests.load(Ordering::Relaxed);
                let holder = holder.as_bytes();
                let answer = client
                    .lease("the-lease", holder, lifetime_s, Instant::now())
                    .await;
                // Nobody can come between the parts of one request.
                assert_eq!(redis.requests.load(Ordering::Relaxed), before + 1);
                answer.expect("the store answers")
            };
            assert!(lease("one", 600).await, "it is free");
            assert!(!lease("other", 600).await, "it is taken");
            // Its time begins again, here with a shorter one.
            assert!(lease("one", 1).await, "it is the holder's own");
            while !lease("other", 600).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            assert!(!lease("one", 600).await, "it is the other's now");
        };
        tokio::select! {
            () = client.keep_connected(dialer) => {}
            () = asking => {}
        }
    });
}
