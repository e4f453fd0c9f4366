//! What datagrams (UDP) cost that servers pass on, by turns: `sealane bench datagrams`.
//!
//! The generator has the clients and the origin, which sends every datagram back. It counts the
//! answers; what is lost is not counted, and too much of it fails the run.

use std::{
    fmt, fs, io,
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    CpuTime, Error, ProcessTree, Server,
    load::pin_this_thread,
    statistics::Summary,
    testbed::{Cpus, ServerCores, order, wait_until},
};

/// Bytes of each datagram: about those of an answer of DNS.
const DATAGRAM_BYTES: usize = 120;
/// Clients at a time.
const CLIENTS: usize = 16;
/// Datagrams that a client of [`Case::Flow`] sends before it waits: together with those of the
/// others they fit into the buffer of a socket.
const WINDOW: usize = 8;
/// How long an answer may take until it counts as lost.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the origin waits before it looks whether the measurement is over.
const ORIGIN_PAUSE: Duration = Duration::from_millis(20);
/// How long a server may take to start.
const START_LIMIT: Duration = Duration::from_secs(15);

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Sessions that last, with many datagrams.
    Flow,
    /// A session for each datagram, as DNS has them.
    Question,
}

impl Case {
    const ALL: [Case; 2] = [Case::Flow, Case::Question];

    /// What ends a session.
    fn directives(self) -> &'static str {
        match self {
            Case::Flow => "proxy_timeout 1m;",
            Case::Question => "proxy_responses 1; proxy_timeout 10s;",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Case::Flow => "sessions that last",
            Case::Question => "a session for each question",
        })
    }
}

/// The measurement.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) servers: Vec<Server>,
    pub(crate) rounds: usize,
    pub(crate) measurement: Duration,
    /// Where configurations and logs are.
    pub(crate) work: PathBuf,
}

/// What one server needed in one round.
struct Figure {
    answers: u64,
    lost: u64,
    cpu: CpuTime,
}

impl Figure {
    fn each_us(&self, ns: u64) -> f64 {
        ns as f64 / 1e3 / self.answers.max(1) as f64
    }
}

impl Datagrams {
    /// Measures all cases, and prints medians.
    ///
    /// # Errors
    /// A server that does not start, or loses datagrams.
    pub(crate) fn run(&self) -> Result<(), Error> {
        let cpus = Cpus::choose(ServerCores::Count(1))?;
        println!(
            "server CPU per datagram and its answer, in microseconds; medians of {} rounds",
            self.rounds
        );
        for case in Case::ALL {
            let mut figures: Vec<Vec<Figure>> = self.servers.iter().map(|_| Vec::new()).collect();
            for round in 0..self.rounds {
                for at in order(round, self.servers.len()) {
                    let measured = self.measure(&self.servers[at], case, &cpus)?;
                    figures[at].push(measured);
                }
            }
            println!("{case}:");
            let mut first: Option<f64> = None;
            for (server, figures) in self.servers.iter().zip(&figures) {
                let of = |ns: fn(&CpuTime) -> u64| {
                    let each = figures.iter().map(|figure| figure.each_us(ns(&figure.cpu)));
                    let summary = Summary::of(&each.collect::<Vec<_>>());
                    summary.map_or(0.0, |summary| summary.median)
                };
                let total = of(|cpu| cpu.total_ns);
                let ratio = match first {
                    None => String::new(),
                    Some(first) => format!(
                        "; {} needs {:.2} of that",
                        self.servers[0].name,
                        first / total
                    ),
                };
                first.get_or_insert(total);
                let answers: u64 = figures.iter().map(|figure| figure.answers).sum();
                let lost: u64 = figures.iter().map(|figure| figure.lost).sum();
                let (user, system) = (of(|cpu| cpu.user_ns), of(|cpu| cpu.system_ns));
                println!(
                    "  {:<16} {total:6.2} (user {user:.2}, system {system:.2}){ratio}; \
                     {answers} answers, {lost} lost",
                    server.name,
                );
            }
        }
        Ok(())
    }

    fn measure(&self, server: &Server, case: Case, cpus: &Cpus) -> Result<Figure, Error> {
        pin_this_thread(&cpus.generator)?;
        let origin = Origin::start()?;
        pin_this_thread(&cpus.server)?;
        let running = Running::start(server, case, &self.work, origin.address)?;
        pin_this_thread(&cpus.generator)?;
        let to = running.address;
        drive(case, to, self.measurement / 4)?;
        let tree = ProcessTree::of(running.child.id());
        let account = || {
            tree.cpu_account()
                .map_err(|error| Error::io("read CPU times", error))
        };
        let before = account()?;
        let (answers, lost) = drive(case, to, self.measurement)?;
        let cpu = account()?.since(&before);
        if lost * 50 > answers {
            return Err(Error::Server {
                name: server.name.clone(),
                reason: format!("{lost} datagrams were lost, {answers} answered"),
            });
        }
        Ok(Figure { answers, lost, cpu })
    }
}

/// Sends datagrams for this time. Returns how many were answered, and how many were lost.
fn drive(case: Case, to: SocketAddr, time: Duration) -> Result<(u64, u64), Error> {
    let until = Instant::now() + time;
    let window = match case {
        Case::Flow => WINDOW,
        Case::Question => 1,
    };
    let (mut answers, mut lost) = (0, 0);
    let mut clients = clients(to)?;
    while Instant::now() < until {
        for client in &clients {
            for _ in 0..window {
                client
                    .send(&[b'q'; DATAGRAM_BYTES])
                    .map_err(|error| Error::io("send a datagram", error))?;
            }
        }
        let mut buffer = [0; 2 * DATAGRAM_BYTES];
        for client in &clients {
            for _ in 0..window {
                match client.recv(&mut buffer) {
                    Ok(_) => answers += 1,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => lost += 1,
                    Err(error) => return Err(Error::io("receive an answer", error)),
                }
            }
        }
        if case == Case::Question {
            clients = self::clients(to)?;
        }
    }
    Ok((answers, lost))
}

fn clients(to: SocketAddr) -> Result<Vec<UdpSocket>, Error> {
    let client = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(to)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    };
    let clients = (0..CLIENTS).map(client).collect::<io::Result<_>>();
    clients.map_err(|error| Error::io("open a socket for datagrams", error))
}

/// Sends back what it gets, on a thread of its own.
struct Origin {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    fn start() -> Result<Origin, Error> {
        let open = || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            // It looks whether it is over.
            socket.set_read_timeout(Some(ORIGIN_PAUSE))?;
            Ok((socket.local_addr()?, socket))
        };
        let (address, socket) =
            open().map_err(|error: io::Error| Error::io("open a socket for datagrams", error))?;
        let is_over = Arc::<AtomicBool>::default();
        let told = is_over.clone();
        let thread = thread::spawn(move || {
            let mut buffer = [0; 2 * DATAGRAM_BYTES];
            while !told.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(&buffer[..length], from);
                }
            }
        });
        Ok(Origin {
            address,
            is_over,
            thread: Some(thread),
        })
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server that runs.
struct Running {
    child: Child,
    address: SocketAddr,
}

impl Running {
    /// Starts a server on the cores of the calling thread.
    fn start(
        server: &Server,
        case: Case,
        work: &Path,
        origin: SocketAddr,
    ) -> Result<Running, Error> {
        let directory = work.join(&server.name);
        let failed =
            |what: &str, error| Error::io(format!("{what} {}", directory.display()), error);
        fs::create_dir_all(directory.join("logs")).map_err(|error| failed("create", error))?;
        // One that is free now.
        let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let address = free.map_err(|error| failed("find a port for", error))?;
        let (main, directives) = (&server.main, case.directives());
        let text = format!(
            "daemon off; worker_processes 1; error_log logs/error.log warn; pid logs/pid; {main}
             events {{ worker_connections 4096; }}
             stream {{ server {{ listen {address} udp; proxy_pass {origin}; {directives} }} }}\n"
        );
        let file = directory.join("nginx.conf");
        fs::write(&file, text).map_err(|error| failed("write to", error))?;
        let child = Command::new(&server.path)
            .arg("-p")
            .arg(&directory)
            .arg("-c")
            .arg(&file)
            .args(["-e", "logs/error.log"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed("start a server in", error))?;
        let running = Running { child, address };
        running.wait(server)?;
        Ok(running)
    }

    fn wait(&self, server: &Server) -> Result<(), Error> {
        let client = &clients(self.address)?[0];
        let mut buffer = [0; 16];
        let answers = wait_until(START_LIMIT, || {
            client.send(b"?").is_ok() && client.recv(&mut buffer).is_ok()
        });
        match answers {
            true => Ok(()),
            false => Err(Error::Server {
                name: server.name.clone(),
                reason: "it does not answer".to_owned(),
            }),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
