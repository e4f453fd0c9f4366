//! An nginx that reports which peers it tried.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What a request says.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// `$arg_k`.
    pub(crate) key: String,
    /// Who asks.
    pub(crate) client: IpAddr,
}

impl Default for Ask {
    fn default() -> Ask {
        Ask {
            key: String::new(),
            client: Ipv4Addr::LOCALHOST.into(),
        }
    }
}

/// Addresses, of which those that listen do so only once nginx runs. The others are kept by
/// sockets that do not listen, so that nobody takes them.
pub(crate) struct Site {
    front: SocketAddr,
    pub(crate) peers: Vec<SocketAddr>,
    listening: Vec<SocketAddr>,
    _kept: Vec<socket2::Socket>,
}

impl Site {
    /// One peer for each of `listens`.
    pub(crate) fn new(listens: impl Iterator<Item = bool>) -> Site {
        let listens: Vec<bool> = listens.collect();
        let (mut peers, mut kept) = (Vec::new(), Vec::new());
        for listens in &listens {
            if *listens {
                peers.push(free_address());
            } else {
                let socket =
                    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
                        .expect("a socket");
                let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                socket.bind(&any.into()).expect("a port");
                let address = socket.local_addr().expect("an address");
                peers.push(address.as_socket().expect("an IP address"));
                kept.push(socket);
            }
        }
        let listening = peers.iter().zip(&listens).filter(|(_, listens)| **listens);
        Site {
            front: free_address(),
            listening: listening.map(|(peer, _)| *peer).collect(),
            peers,
            _kept: kept,
        }
    }
}

/// An address on which nothing listened a moment ago, and that nobody else gets by chance until
/// nginx listens there: the port is below those that the kernel gives away. With one of those, a
/// connection made too early could be one to itself, or to the nginx of another test.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id() % 40 * 200;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(12_000 + (start + step) % 8000).expect("below 20,000");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

pub(crate) struct Nginx {
    child: Child,
    directory: PathBuf,
    connection: BufReader<TcpStream>,
}

impl Nginx {
    /// Starts nginx with the contents of an `upstream` block.
    pub(crate) fn start(site: &Site, upstream: &str) -> Nginx {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sealane-balance-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a directory of our own");
        let conf = directory.join("nginx.conf");
        fs::write(&conf, configuration(site, upstream)).expect("a file of our own");
        let binary = std::env::var_os("SEALANE_TEST_NGINX")
            .map_or_else(|| PathBuf::from("/usr/sbin/nginx"), PathBuf::from);
        let child = Command::new(&binary)
            .arg("-p")
            .arg(&directory)
            .arg("-c")
            .arg(&conf)
            .args(["-e", "error.log"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        let mut nginx = Starting { child, directory };
        let connection = nginx.connect(site.front);
        let Starting { child, directory } = nginx;
        Nginx {
            child,
            directory,
            connection: BufReader::new(connection),
        }
    }

    /// The addresses that were tried for a request.
    pub(crate) fn ask(&mut self, ask: &Ask) -> String {
        let Ask { key, client } = ask;
        let request = format!("GET /?k={key} HTTP/1.1\r\nHost: a\r\nX-Real-IP: {client}\r\n\r\n");
        let stream = self.connection.get_mut();
        stream.write_all(request.as_bytes()).expect("nginx reads");
        let (mut tried, mut length) = (None, 0);
        let mut head = String::new();
        loop {
            let mut line = String::new();
            let read = self.connection.read_line(&mut line).expect("nginx answers");
            assert_ne!(read, 0, "nginx closed the connection");
            head.push_str(&line);
            match line.trim_end().split_once(": ") {
                Some(("X-Tried", value)) => tried = Some(value.to_owned()),
                Some(("Content-Length", value)) => length = value.parse().expect("a number"),
                _ if line == "\r\n" => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.connection.read_exact(&mut body).expect("a body");
        tried.unwrap_or_else(|| panic!("nginx does not say what it tried: {head}"))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// An nginx that may not listen yet.
struct Starting {
    child: Child,
    directory: PathBuf,
}

impl Starting {
    fn connect(&mut self, front: SocketAddr) -> TcpStream {
        let start = Instant::now();
        loop {
            if let Ok(stream) = TcpStream::connect(front) {
                return stream;
            }
            let exited = self.child.try_wait().expect("our own child");
            if exited.is_some() || start.elapsed() > Duration::from_secs(20) {
                let log = fs::read_to_string(self.directory.join("error.log"));
                panic!("nginx does not start: {}", log.unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn configuration(site: &Site, upstream: &str) -> String {
    let front = site.front;
    let peers: String = site
        .listening
        .iter()
        .map(|peer| format!("server {{ listen {peer}; return 200; }}\n"))
        .collect();
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log error.log warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy;
    fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    keepalive_requests 100000;
    upstream backend {{ {upstream} }}
    server {{
        listen {front};
        set_real_ip_from 127.0.0.0/8;
        location / {{
            proxy_pass http://backend;
            add_header X-Tried $upstream_addr always;
        }}
    }}
    {peers}
}}
"
    )
}
