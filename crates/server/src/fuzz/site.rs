//! The configuration, its files, and a worker for each run.

use super::origin::Origin;
use crate::acceptor::ListenerRef;
use crate::admission::RefusedHandshakes;
use crate::connection;
use crate::counters::Counters;
use crate::current::Current;
use crate::facts::PeerAddress;
use crate::materials::Materials;
use crate::open_file_cache::OpenFileCache;
use crate::snapshot::{ListenerId, Snapshot};
use crate::worker::{Process, Worker};
use sealane_conf::{MemoryLoader, Options};
use sealane_http::mp4;
use sealane_io::runtime::{self, Runtime};
use sealane_io::socket::Socket;
use sealane_io::turns::Turns;
use sealane_log::LogSet;
use sealane_sys::guard::Guard;
use std::fs;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Stands in the head of every final answer, and nowhere else.
pub(super) const MARK: &[u8] = b"X-Answer: 3f9c51e07ab2d684\r\n";

/// Rounds of the event loop after each step. Longer work continues during the next steps.
const ROUNDS_PER_STEP: usize = 6;
/// Rounds, most of them with a pause, until everything of a run has to be over.
const ROUNDS_TO_SETTLE: usize = 5000;

/// Listeners of the configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    Http1 = 0,
    Http2 = 1,
    Proxied = 2,
}

/// The start of the names of their directories; the id of the process is the end.
const DIRECTORIES: &str = "sealane-fuzz-";

/// The password is `word`, in each of the ways that a file may have it.
const USERS: &str = "user:{PLAIN}word
md5:$1$abcdefgh$mzswo1dQAnhU66ARk1Ljd/
apr1:$apr1$abcdefgh$1E2SungQ2bYfViwLCC9XL0
des:abxy8.ROiFClE
";

/// What is built once.
pub(super) struct FuzzSite {
    snapshot: Arc<Snapshot>,
    directory: PathBuf,
    _logs: LogSet,
}

impl FuzzSite {
    /// # Panics
    /// When the temporary directory cannot be written.
    pub(super) fn new(name: &str) -> FuzzSite {
        remove_left_behind();
        let name = format!("{DIRECTORIES}{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        write_files(&directory);
        let text = include_str!("site.conf").replace("DIR", &directory.display().to_string());
        let mut loader = MemoryLoader::new().with("/etc/sealane/fuzz.conf", text);
        let options = Options::new("/etc/sealane/fuzz.conf", "/etc/sealane");
        let config = sealane_conf::parse(&options, &mut loader);
        let config = config.unwrap_or_else(|failure| panic!("{failure:?}"));
        let logs = LogSet::open(&config, &Guard::default()).expect("logs are /dev/null");
        let built = Snapshot::build(&config, &Materials::new(), &logs);
        let (snapshot, _) = built.unwrap_or_else(|error| panic!("{error}"));
        FuzzSite {
            snapshot: Arc::new(snapshot),
            directory,
            _logs: logs,
        }
    }

    /// A run with a worker of its own. Afterwards nothing of it is left, and the worker still
    /// answers.
    pub(super) fn run(&self, work: impl AsyncFnOnce(&Stage)) {
        let worker = Arc::new(Worker {
            index: 0,
            current: Current::new(self.snapshot.clone()),
            open_files: OpenFileCache::new(),
            registry: Arc::default(),
            turns: Turns::new(false),
            refused: RefusedHandshakes::default(),
            counters: Counters::default(),
            process: Arc::new(Process::default()),
        });
        // One loop for each run: whatever a run leaves goes with it.
        let runtime = Runtime::new().expect("descriptors");
        runtime.block_on(async {
            let path = self.directory.join("origin");
            let _ = fs::remove_file(&path);
            let listener = UnixListener::bind(&path).expect("the directory is ours");
            let stage = Stage {
                worker,
                origin: Origin::start(listener),
            };
            work(&stage).await;
            stage.end().await;
        });
    }

    /// Removes what clients may have written.
    pub(super) fn clear_uploads(&self) {
        clear(&self.directory.join("dav"));
    }
}

/// Removes the directories of processes that have ended: a fuzzer leaves without a chance to do so.
fn remove_left_behind() {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(DIRECTORIES)?.rsplit_once('-'))
            .and_then(|(_, id)| id.parse::<u32>().ok());
        if process.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn clear(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory).expect("the directory is ours");
}

fn write_files(directory: &Path) {
    let root = directory.join("www");
    for name in ["www/sub", "www/empty", "dav", "tmp"] {
        clear(&directory.join(name));
    }
    let write = |name: &str, contents: &[u8]| {
        fs::write(root.join(name), contents).expect("the directory is ours");
    };
    write("index.html", b"<html><head></head>fine</html>");
    write("small.txt", b"0123456789abcdefghijklmnopqrstuvwxyz\n");
    write("large.bin", &[b'x'; 100_000]);
    let page = "<!--#if expr=\"$arg_a = b\" --><!--#include virtual=\"/small.txt\" -->\
                <!--#elif expr=\"$arg_a\" --><!--#echo var=\"arg_a\" --><!--#else -->none\
                <!--#endif --><!--#set var=\"x\" value=\"$uri\" --><!--#echo var=\"x\" -->\
                <!--#include virtual=\"/proxy/part\" stub=\"none\" -->";
    write("page.shtml", page.as_bytes());
    let mut seed = 7u32;
    let film = mp4::sample::file(&mut |bound| {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
        (seed >> 16) % bound.max(1)
    });
    write("film.mp4", &film);
    let compression = flate2::Compression::fast();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), compression);
    packed.write_all(&[b'y'; 3000]).expect("memory");
    write("packed.txt.gz", &packed.finish().expect("memory"));
    fs::write(directory.join("users"), USERS).expect("the directory is ours");
}

/// A worker and what is around it during one run.
pub(super) struct Stage {
    worker: Arc<Worker>,
    pub(super) origin: Origin,
}

impl Stage {
    /// A client's end of a new connection.
    pub(super) fn connect(&self, through: Through) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("descriptors");
        for end in [&ours, &theirs] {
            end.set_nonblocking(true).expect("any socket can be");
        }
        let listener = ListenerRef {
            generation: 0,
            snapshot: self.worker.current.snapshot(),
            listener: ListenerId(through as usize as _),
        };
        let worker = self.worker.clone();
        // As the acceptor does.
        worker.counters.accepted.add(1);
        worker.counters.handled.add(1);
        worker.counters.active.add(1);
        let socket = Socket::unix(theirs.into()).expect("inside of a runtime");
        runtime::spawn(connection::serve(
            worker,
            listener,
            socket,
            PeerAddress::Unix,
        ));
        ours
    }

    /// Lets everybody work for a while.
    pub(super) async fn turn(&self) {
        for _ in 0..ROUNDS_PER_STEP {
            runtime::yield_now().await;
        }
    }

    /// Lets time pass for tasks that wait.
    pub(super) fn advance(&self, ms: u64) {
        let now = sealane_sys::time::monotonic_coarse_ms();
        self.worker.registry.expire(now.saturating_add(ms));
    }

    /// The clients have gone, the servers behind go: nothing may be left. Then a client like any
    /// other comes.
    async fn end(self) {
        self.origin.stop();
        self.settle().await;
        assert_eq!(self.worker.counters.panics.get(), 0, "a task has panicked");
        for path in ["/fine", "/limited"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let answer = self.ask(head.as_bytes()).await;
            let is_fine = answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(b"fine");
            assert!(is_fine, "{path}: {}", answer.escape_ascii());
        }
        self.settle().await;
    }

    /// What comes back for these bytes until the connection is closed.
    pub(super) async fn ask(&self, request: &[u8]) -> Vec<u8> {
        let client = self.connect(Through::Http1);
        let sent = (&client).write(request);
        assert_eq!(sent.ok(), Some(request.len()), "a new socket has room");
        let mut answer = Vec::new();
        for _ in 0..ROUNDS_TO_SETTLE {
            match super::client::receive(&client, &mut answer) {
                true => self.pause().await,
                false => return answer,
            }
        }
        panic!("no end: {}", answer.escape_ascii());
    }

    /// A few rounds, and some time for threads that read files.
    async fn pause(&self) {
        self.turn().await;
        if self.worker.counters.active.get() > 0 {
            runtime::sleep(Duration::from_micros(100)).await;
        }
    }

    async fn settle(&self) {
        let counters = &self.worker.counters;
        for _ in 0..ROUNDS_TO_SETTLE {
            self.turn().await;
            if self.worker.registry.is_empty() && counters.active.get() == 0 {
                for level in [&counters.reading, &counters.writing, &counters.waiting] {
                    assert_eq!(level.get(), 0, "nobody is left who could be counted");
                }
                return;
            }
            self.advance(u64::from(u32::MAX));
            self.pause().await;
        }
        panic!(
            "{} connections are left, {} of them active",
            self.worker.registry.len(),
            counters.active.get()
        );
    }
}

impl Drop for FuzzSite {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
