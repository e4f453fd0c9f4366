//! An established connection that sends requests at fixed times, whatever the server does.
//!
//! Clients in a closed loop send fewer requests when the server is slow, and so leave the worst
//! moments out of their own figures. The probe works in an open loop: it sends a request every few
//! milliseconds, even while earlier ones are still unanswered (pipelined, RFC 9112, section 9.3.2),
//! and measures latency from the time at which the request was due.
//!
//! Its thread must run when it is needed. It requests real-time priority from the kernel, so that
//! clients on the same core do not delay it, sleeps until shortly before a request is due, and
//! spins for the rest. Any remaining delay is part of its record.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{
    Error,
    load::{
        Negotiated, Plan,
        run::pin_this_thread,
        tls::{Tls, TlsSettings},
    },
    process::this_thread_cpu_ns,
    response::{ResponseError, ResponseReader},
};

/// How long before a request is due the probe stops sleeping: more than the usual lateness of a
/// timer.
const WAKE_EARLY: Duration = Duration::from_micros(100);
/// How long a probe with its own core spins for a response. The kernel would suspend a real-time
/// thread that never sleeps for a while.
const SPIN: Duration = Duration::from_micros(500);
/// Bytes taken from the socket at a time.
const RECEIVE_BYTES: usize = 32 * 1024;

/// The settings of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// Interval between requests.
    pub interval: Duration,
    /// The core its thread is pinned to.
    pub cpu: Option<usize>,
    /// Whether no other thread of this run works on that core, so that the probe may spin.
    pub has_own_core: bool,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was due.
    pub due: Instant,
    /// From then until the response was complete.
    pub latency: Duration,
    /// How much later than due it was sent because the probe's own thread was not running: a part
    /// of the latency that is not the server's.
    pub delay: Duration,
}

/// The record of a probe.
#[derive(Debug)]
pub struct ProbeRecord {
    /// All requests in the order in which they were sent.
    pub samples: Vec<Sample>,
    /// The negotiated parameters of its connection.
    pub negotiated: Negotiated,
    /// How long it ran.
    pub elapsed: Duration,
    /// CPU time used by its thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Whether the kernel gave it real-time priority.
    pub is_real_time: bool,
}

/// A running probe.
pub struct Probe {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<ProbeRecord, Error>>,
}

impl Probe {
    /// Connects and starts sending requests. Of `plan`, only address, request, expectation, TLS and
    /// the longest time of an operation are used.
    ///
    /// # Errors
    ///
    /// A plan without TLS, a connection or a first response that fails or is not what
    /// is pinned.
    pub fn start(plan: &Plan, settings: ProbeSettings) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let thread = {
            let (plan, stop) = (plan.clone(), Arc::clone(&stop));
            thread::Builder::new()
                .name("probe".into())
                .spawn(move || ask(&plan, settings, &stop, &ready))
                .map_err(|source| Error::io("start the probe's thread", source))?
        };
        let probe = Self { stop, thread };
        // The thread drops its end when it fails, and then returns the reason.
        if is_ready.recv().is_err() {
            return match probe.finish() {
                Err(error) => Err(error),
                Ok(_) => Err(Error::Stalled("the probe ended before it started".into())),
            };
        }
        Ok(probe)
    }

    /// Ends the probe after the response in progress.
    ///
    /// # Errors
    ///
    /// Whatever went wrong on the connection since it was opened.
    pub fn finish(self) -> Result<ProbeRecord, Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Error::Stalled("the probe's thread panicked".into())))
    }
}

/// The main function of a probe's thread.
fn ask(
    plan: &Plan,
    settings: ProbeSettings,
    stop: &AtomicBool,
    ready: &mpsc::Sender<()>,
) -> Result<ProbeRecord, Error> {
    if let Some(cpu) = settings.cpu {
        pin_this_thread(&[cpu])?;
    }
    let is_real_time = become_real_time();
    let spin = match settings.has_own_core {
        true => SPIN,
        false => Duration::ZERO,
    };
    let mut connection = Connection::open(plan)?;
    let now = Instant::now();
    connection.send_due(&plan.request, now, now)?;
    connection.drain(spin, plan.stall_limit)?;
    let negotiated = connection.negotiated.clone();
    connection.samples.clear();
    // The starting side waits for this, so it cannot be gone.
    let _ = ready.send(());

    let cpu_before_ns = this_thread_cpu_ns();
    let started = Instant::now();
    let mut due = started + settings.interval;
    while !stop.load(Ordering::Relaxed) {
        connection.receive_until(due, spin, plan.stall_limit)?;
        connection.send_due(&plan.request, due, Instant::now())?;
        due += settings.interval;
    }
    connection.drain(spin, plan.stall_limit)?;
    Ok(ProbeRecord {
        samples: connection.samples,
        negotiated,
        elapsed: started.elapsed(),
        cpu_ns: this_thread_cpu_ns().saturating_sub(cpu_before_ns),
        is_real_time,
    })
}

/// Requests the lowest real-time priority (`SCHED_FIFO`), which takes precedence over everything
/// that is not real time. Needs root or `CAP_SYS_NICE`; returns false if it is not available.
fn become_real_time() -> bool {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    Command::new("chrt")
        .args(["--fifo", "--pid", "1", &thread])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A TLS connection with requests in progress.
struct Connection {
    socket: TcpStream,
    tls: Tls,
    reader: ResponseReader,
    negotiated: Negotiated,
    received: Vec<u8>,
    plain: Vec<u8>,
    outgoing: Vec<u8>,
    /// When each unanswered request was due and sent.
    unanswered: VecDeque<(Instant, Instant)>,
    samples: Vec<Sample>,
}

impl Connection {
    fn open(plan: &Plan) -> Result<Self, Error> {
        let tls = plan
            .tls
            .as_ref()
            .ok_or_else(|| Error::Usage("a probe needs TLS".into()))?;
        let settings = TlsSettings::new(tls, plan.server_name.as_deref(), false)?;
        let prepare = || {
            let socket = TcpStream::connect(plan.address)?;
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(plan.stall_limit))?;
            Ok(socket)
        };
        let failed = |source| Error::io(format!("connect the probe to {}", plan.address), source);
        let mut connection = Self {
            socket: prepare().map_err(failed)?,
            tls: settings.connect(None)?,
            reader: ResponseReader::new(plan.expected),
            negotiated: Negotiated::default(),
            received: vec![0; RECEIVE_BYTES],
            plain: vec![0; RECEIVE_BYTES],
            outgoing: Vec::new(),
            unanswered: VecDeque::new(),
            samples: Vec::new(),
        };
        connection.handshake()?;
        connection.negotiated = connection.tls.negotiated()?;
        settings.check(&connection.negotiated, false)?;
        connection.socket.set_nonblocking(true).map_err(failed)?;
        Ok(connection)
    }

    /// The client's part of the handshake; its last flight is sent with the first request.
    fn handshake(&mut self) -> Result<(), Error> {
        let mut done = self.tls.handshake(&mut &b""[..], &mut self.outgoing)?;
        while !done {
            self.flush()?;
            let count = match self.socket.read(&mut self.received) {
                Ok(0) => return Err(Error::Closed("during the probe's handshake")),
                Ok(count) => count,
                Err(source) => return Err(Error::io("receive the probe's handshake", source)),
            };
            let mut bytes = &self.received[..count];
            done = self.tls.handshake(&mut bytes, &mut self.outgoing)?;
            if done {
                // A server may already have sent tickets after its last flight.
                let rest = count - bytes.len()..count;
                self.open_records(rest)?;
            }
        }
        Ok(())
    }

    /// Sends a request that was due at `due`.
    fn send_due(&mut self, request: &[u8], due: Instant, now: Instant) -> Result<(), Error> {
        self.tls.write(request, &mut self.outgoing)?;
        self.flush()?;
        self.unanswered.push_back((due, now));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        // Requests are so small that the socket's buffer holds thousands of them.
        self.socket
            .write_all(&self.outgoing)
            .map_err(|source| Error::io("send the probe's request", source))?;
        self.outgoing.clear();
        Ok(())
    }

    /// Receives responses until `due`, and is then awake.
    fn receive_until(
        &mut self,
        due: Instant,
        spin: Duration,
        stall_limit: Duration,
    ) -> Result<(), Error> {
        let mut spin_until = Instant::now() + spin;
        loop {
            let now = Instant::now();
            if now >= due {
                // Data that arrived while the thread was not running was there before `due`.
                return self.receive().map(drop);
            }
            self.check_stalled(now, stall_limit)?;
            if self.receive()? {
                spin_until = Instant::now() + spin;
                continue;
            }
            let is_near = due - now <= WAKE_EARLY;
            if is_near || (now < spin_until && !self.unanswered.is_empty()) {
                std::hint::spin_loop();
                continue;
            }
            self.sleep(due - now - WAKE_EARLY)?;
        }
    }

    /// Receives the outstanding responses.
    fn drain(&mut self, spin: Duration, stall_limit: Duration) -> Result<(), Error> {
        while !self.unanswered.is_empty() {
            self.receive_until(Instant::now() + 2 * WAKE_EARLY, spin, stall_limit)?;
            self.check_stalled(Instant::now(), stall_limit)?;
        }
        Ok(())
    }

    /// Sleeps for `time`, or until data arrives if a response is outstanding.
    fn sleep(&self, time: Duration) -> Result<(), Error> {
        if self.unanswered.is_empty() {
            thread::sleep(time);
            return Ok(());
        }
        let timeout = Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        match poll(
            &mut [PollFd::new(&self.socket, PollFlags::IN)],
            Some(&timeout),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::io("wait for the probe's response", errno.into())),
        }
    }

    fn check_stalled(&self, now: Instant, limit: Duration) -> Result<(), Error> {
        match self.unanswered.front() {
            Some((_, sent)) if now.saturating_duration_since(*sent) > limit => Err(Error::Stalled(
                format!("the probe was not answered within {limit:?}"),
            )),
            _ => Ok(()),
        }
    }

    /// Reads what has arrived; returns false if there was nothing.
    fn receive(&mut self) -> Result<bool, Error> {
        match self.socket.read(&mut self.received) {
            Ok(0) => Err(Error::Closed("of the probe")),
            Ok(count) => self.open_records(0..count).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(source) => Err(Error::io("receive the probe's response", source)),
        }
    }

    /// Opens the records in that part of `received`, and records the responses that are now
    /// complete.
    fn open_records(&mut self, part: std::ops::Range<usize>) -> Result<(), Error> {
        let Self {
            reader,
            unanswered,
            samples,
            ..
        } = self;
        let take = |mut plain: &[u8]| -> Result<(), Error> {
            while !plain.is_empty() {
                let surplus = ResponseError::Surplus(plain.len());
                let Some(&(due, sent)) = unanswered.front() else {
                    return Err(surplus.into());
                };
                let Some(completed) = reader.take(&mut plain)? else {
                    continue;
                };
                if !completed.keep_alive {
                    return Err(Error::Closed("of the probe, which asked for keep-alive"));
                }
                unanswered.pop_front();
                samples.push(Sample {
                    due,
                    latency: Instant::now().saturating_duration_since(due),
                    delay: sent.saturating_duration_since(due),
                });
            }
            Ok(())
        };
        let mut bytes = &self.received[part];
        match self
            .tls
            .read(&mut bytes, &mut self.plain, &mut self.outgoing, take)?
        {
            true => Err(Error::Closed("of the probe")),
            false => Ok(()),
        }
    }
}
