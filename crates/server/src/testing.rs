//! A configured site in a temporary directory, and requests to it without a network.

use crate::admission::RefusedHandshakes;
use crate::body_source::{BodySource, Filled};
use crate::client_link::ClientLink;
use crate::counters::Counters;
use crate::current::Current;
use crate::exchange::{Exchange, Request, RequestBody, Response, Transfer};
use crate::facts::{ConnectionFacts, PeerAddress};
use crate::features::Features;
use crate::materials::Materials;
use crate::open_file_cache::OpenFileCache;
use crate::pipeline::{self, PhaseState};
use crate::snapshot::{ListenerId, Snapshot};
use crate::values::Values;
use crate::worker::{Process, Worker};
use sealane_conf::{Config, MemoryLoader, Options};
use sealane_http::StatusCode;
use sealane_http::h1::{self, ConnectionHeader, Framing, ParseState, Parsed};
use sealane_http::uri;
use sealane_io::chain::{OutputChain, Segment};
use sealane_io::socket::Socket;
use sealane_io::turns::Turns;
use sealane_log::LogSet;
use sealane_sys::guard::Guard;
use std::fs;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, ready};
use std::time::Instant;

/// A site with one configuration. `DIR` in the configuration is its directory,
/// which is the `root`; errors are logged to a file beside it.
pub(crate) struct Site {
    directory: PathBuf,
    config: Config,
    worker: Arc<Worker>,
    facts: Arc<ConnectionFacts>,
    runtime: sealane_io::runtime::Runtime,
    // The client's end; the peer's address is asked of the socket.
    _client: std::net::TcpStream,
    /// Lines are written through it.
    _logs: LogSet,
}

/// What came of a request.
pub(crate) struct Reply {
    /// The exchange afterwards.
    pub(crate) exchange: Exchange,
    /// Status line and headers, without `Server` and `Date`.
    pub(crate) head: String,
    /// The body as it would be sent, before chunks.
    pub(crate) body: Vec<u8>,
}

impl Site {
    /// A site with these directives in its `server` block (the only one).
    pub(crate) fn new(server: &str) -> Site {
        Site::with_http(&format!(
            "server {{ listen 127.0.0.1:80; server_name site; {server} }}"
        ))
    }

    /// A site with these directives in its `http` block.
    pub(crate) fn with_http(http: &str) -> Site {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sealane-test-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(directory.join("www")).expect("the temporary directory is writable");
        let dir = directory.display().to_string();
        let text = format!(
            "error_log {dir}/error.log debug; events {{}} http {{ access_log off; root {dir}/www; \
             types {{ text/html html; text/plain txt; }} {} }}",
            http.replace("DIR", &format!("{dir}/www"))
        );
        let config = parse(&text);
        let logs =
            LogSet::open(&config, &Guard::default()).expect("logs lie in the temporary directory");
        let snapshot = Snapshot::build(&config, &Materials::new(), &logs)
            .expect("the configuration is valid")
            .0;
        let worker = worker_with(snapshot);
        let runtime = sealane_io::runtime::Runtime::new().expect("a runtime can be built");
        let (client, facts) = connect(&runtime);
        Site {
            directory,
            config,
            worker,
            facts,
            runtime,
            _client: client,
            _logs: logs,
        }
    }

    /// Its document root.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.join("www")
    }

    /// Writes a file below the root, with a modification time well in the past.
    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> &Site {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().expect("it lies below the root")).expect("writable");
        fs::write(&path, contents).expect("writable");
        set_mtime(&path, 1_000_000_000);
        self
    }

    /// The worker.
    pub(crate) fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    /// A worker like the site's own, with a changed snapshot, for another thread.
    pub(crate) fn another_worker(&self, change: impl FnOnce(&mut Snapshot)) -> Arc<Worker> {
        let mut snapshot = Snapshot::build(&self.config, &Materials::new(), &self._logs)
            .expect("it was valid before")
            .0;
        change(&mut snapshot);
        worker_with(snapshot)
    }

    /// Everything logged so far.
    pub(crate) fn error_log(&self) -> String {
        fs::read_to_string(self.directory.join("error.log")).expect("the log exists")
    }

    /// `GET target` by HTTP/1.1.
    pub(crate) fn get(&self, target: &str) -> Reply {
        self.request(&format!(
            "GET {target} HTTP/1.1\r\nHost: example.org\r\n\r\n"
        ))
    }

    /// `GET target` with further header lines.
    pub(crate) fn get_with(&self, target: &str, headers: &[&str]) -> Reply {
        let lines = headers.join("\r\n");
        self.request(&format!(
            "GET {target} HTTP/1.1\r\nHost: example.org\r\n{lines}\r\n\r\n"
        ))
    }

    /// A whole request head.
    pub(crate) fn request(&self, text: &str) -> Reply {
        let mut exchange = self.exchange(text);
        self.handle(&mut exchange);
        Reply::of(exchange)
    }

    /// Runs a future on the site's runtime.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Answers an exchange, and reads its body to the end if that is still to come.
    pub(crate) fn handle(&self, exchange: &mut Exchange) {
        self.runtime.block_on(async {
            pipeline::handle(exchange).await;
            crate::framing::leave_out_unwanted_source(exchange);
            if let Some(source) = exchange.response.source.take() {
                gather(exchange, source.into_source()).await;
            }
        });
    }

    /// Refuses what is not a proper request.
    pub(crate) fn fail(&self, exchange: &mut Exchange, status: u16) {
        self.runtime
            .block_on(pipeline::fail(exchange, StatusCode(status)));
    }

    /// The exchange for a request head, server chosen, not yet answered.
    pub(crate) fn exchange(&self, text: &str) -> Exchange {
        let buffer = text.as_bytes().to_vec();
        let snapshot = self.worker.current.snapshot();
        let listener = snapshot.listener(ListenerId(0));
        let limits = &snapshot.server(listener.names.default_server()).head_limits;
        let parsed = h1::parse_request(&buffer, &mut ParseState::default(), limits);
        let Ok(Parsed::Complete(head)) = parsed else {
            panic!("not a request: {parsed:?}")
        };
        let host = head
            .host
            .map_or_else(Vec::new, |host| host.of(&buffer).to_ascii_lowercase());
        let values = Values::default();
        let server = listener.names.find(&host, Some(&values));
        let normal = uri::normalise(head.path.of(&buffer), true).expect("a valid target");
        Exchange {
            worker: self.worker.clone(),
            connection: self.facts.clone(),
            listener: ListenerId(0),
            client: ClientLink::default(),
            upstream: None,
            server,
            location: snapshot.server(server).default_location,
            response: Response::new(),
            transfer: Transfer::new(Instant::now(), head.head_bytes as u64),
            phases: PhaseState::default(),
            features: Features::default(),
            request: Request {
                uri: normal.path.into_owned(),
                args: normal.args.map(<[u8]>::to_vec),
                host,
                body: match head.framing {
                    Framing::None => RequestBody::None,
                    _ => RequestBody::Unread,
                },
                received: None,
                internal: false,
                uri_replaced: false,
                is_subrequest: false,
                early_data: false,
                values,
                head,
                buffer,
            },
            snapshot,
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Reply {
    /// What would be sent for a finished exchange.
    pub(crate) fn of(exchange: Exchange) -> Reply {
        let mut head = Vec::new();
        let chunked = crate::framing::is_chunked(&exchange);
        pipeline::encode_head(
            &exchange,
            &mut head,
            ConnectionHeader::KeepAlive { timeout_s: None },
            chunked,
        );
        let head = String::from_utf8(head).expect("test responses are UTF-8");
        let wanted = |line: &&str| !line.starts_with("Server: ") && !line.starts_with("Date: ");
        let head: Vec<_> = head.lines().filter(wanted).collect();
        let body = body_of(&exchange);
        Reply {
            head: head.join("\n"),
            body,
            exchange,
        }
    }

    /// The status code.
    pub(crate) fn status(&self) -> u16 {
        self.exchange.response.status.0
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The port that the client is connected to.
    pub(crate) fn local_port(&self) -> u16 {
        self.exchange
            .connection
            .local()
            .expect("a TCP connection")
            .port()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }
}

/// Appends what a source has to the body, a little at a time, as for a slow client. Of a source
/// that fails it is what came before.
async fn gather(exchange: &mut Exchange, mut source: Box<dyn BodySource>) {
    const ROOM_BYTES: u64 = 1000;
    let mut body = std::mem::take(&mut exchange.response.body);
    let result = poll_fn(|cx| {
        loop {
            let mut piece = OutputChain::new();
            let filled = ready!(source.poll_fill(cx, exchange, &mut piece, ROOM_BYTES));
            body.append(piece);
            match filled {
                Ok(Filled::More) => {}
                Ok(Filled::End) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    })
    .await;
    source.conclude(exchange, result.is_ok());
    exchange.response.body = body;
}

fn body_of(exchange: &Exchange) -> Vec<u8> {
    contents(&exchange.response.body)
}

/// The bytes of a chain.
pub(crate) fn contents(chain: &OutputChain) -> Vec<u8> {
    let mut body = Vec::new();
    for segment in chain.segments() {
        match segment {
            Segment::Memory(bytes) => body.extend_from_slice(bytes),
            Segment::File(range) => {
                // A test file fits into memory.
                let len = range.len as usize;
                sealane_sys::file::read_at(range.file.as_fd(), &mut body, len, range.offset)
                    .expect("readable");
            }
        }
    }
    body
}

/// Parses a configuration without any file around it.
pub(crate) fn parse(text: &str) -> Config {
    let mut loader = MemoryLoader::new().with("/etc/sealane/test.conf", text);
    let options = Options::new("/etc/sealane/test.conf", "/etc/sealane");
    match sealane_conf::parse(&options, &mut loader) {
        Ok(config) => config,
        Err(failure) => panic!("{failure:?}\n{text}"),
    }
}

/// Sets a file's modification time, seconds since 1970.
pub(crate) fn set_mtime(path: &Path, unix_s: u64) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(unix_s);
    let file = fs::File::options()
        .append(true)
        .open(path)
        .expect("the file exists");
    file.set_modified(time).expect("our own file");
}

fn worker_with(snapshot: Snapshot) -> Arc<Worker> {
    let multi_accept = snapshot.multi_accept;
    Arc::new(Worker {
        index: 0,
        current: Current::new(Arc::new(snapshot)),
        open_files: OpenFileCache::new(),
        registry: Arc::default(),
        turns: Turns::new(multi_accept),
        refused: RefusedHandshakes::default(),
        counters: Counters::default(),
        process: Arc::new(Process::default()),
    })
}

fn connect(runtime: &sealane_io::runtime::Runtime) -> (std::net::TcpStream, Arc<ConnectionFacts>) {
    let _guard = runtime.enter();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let client =
        std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let (stream, _) = listener.accept().expect("a client is waiting");
    stream.set_nonblocking(true).expect("any socket can be");
    let socket = Socket::tcp(stream.into()).expect("a runtime is entered");
    let peer = PeerAddress::Inet(SocketAddr::new(IpAddr::from([192, 0, 2, 7]), 4711));
    (client, Arc::new(ConnectionFacts::new(7, peer, socket)))
}
