//! `dns_listen`: answers name servers that verify a name by DNS-01.
//!
//! One thread of the worker process, "dns", serves sockets that the master has opened. It knows
//! the names of the configuration ([`zones`]) and what is to be answered at present
//! ([`AcmeState`]), and nothing else: it asks nobody and forwards nothing. What a query gets is
//! decided without I/O ([`answer`]). Queries over UDP may have a forged sender, so answers are
//! small, and not many go to one network ([`rate`]).

mod answer;
mod rate;
mod zones;

use self::answer::{MAX_QUERY_BYTES, respond};
use self::rate::{RateLimit, Verdict};
use self::zones::Zones;
use crate::control_thread;
use crate::journal::{Journal, note};
use crate::sockets;
use sealane_conf::model::Http;
use sealane_log::OsError;
use sealane_server::{AcmeState, Snapshot};
use sealane_sys::socket::BindAddress;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

/// Name of the thread, for `ps` and the log.
const THREAD_NAME: &str = "dns";

/// TCP connections at a time; further ones wait in the accept queue.
const MAX_CONNECTIONS: usize = 64;

/// How long a TCP connection lasts, and how many queries it may bring.
const CONNECTION_TIME: Duration = Duration::from_secs(5);
const MAX_QUERIES: usize = 16;

/// After a socket has failed, before it is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// The thread, if one is needed.
#[derive(Default)]
pub(crate) struct NameServerThread {
    work: Option<mpsc::UnboundedSender<Work>>,
    /// The addresses that it serves.
    known: Vec<BindAddress>,
}

/// What the thread is to do from now on.
struct Work {
    answering: Answering,
    /// What it no longer serves.
    gone: Vec<BindAddress>,
    /// What it serves from now on.
    new: Vec<(BindAddress, OwnedFd)>,
    journal: Journal,
}

/// What answers are made of.
#[derive(Clone, Default)]
struct Answering {
    zones: Arc<Zones>,
    serving: Arc<AcmeState>,
}

impl NameServerThread {
    /// Switches to a new configuration. `sockets` are those of addresses that the previous one did
    /// not have, by their numbers.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be made.
    pub(crate) fn set(
        &mut self,
        http: Option<&Http>,
        sockets: Vec<(u32, OwnedFd)>,
        snapshot: &Snapshot,
        journal: &Journal,
    ) -> io::Result<()> {
        let first = http.map_or(0, |http| http.listeners.len());
        let wanted: Vec<BindAddress> = http.into_iter().flat_map(sockets::name_sockets).collect();
        if self.work.is_none() && wanted.is_empty() {
            return Ok(());
        }
        let new: Vec<(BindAddress, OwnedFd)> = sockets
            .into_iter()
            .filter_map(|(number, socket)| {
                let index = (number as usize).checked_sub(first)?;
                Some((wanted.get(index)?.clone(), socket))
            })
            .collect();
        let known = std::mem::take(&mut self.known).into_iter();
        let (kept, gone): (Vec<_>, Vec<_>) = known.partition(|known| wanted.contains(known));
        self.known = kept;
        self.known
            .extend(new.iter().map(|(address, _)| address.clone()));
        let work = match &self.work {
            Some(work) => work,
            None => self.work.insert(control_thread::start(THREAD_NAME, run)?),
        };
        let sent = work.send(Work {
            answering: Answering {
                zones: Arc::new(http.map(Zones::of).unwrap_or_default()),
                serving: Arc::clone(snapshot.acme()),
            },
            gone,
            new,
            journal: journal.clone(),
        });
        sent.map_err(|_| io::Error::other("the thread has ended; see the alert before"))
    }

    /// Another process answers from now on.
    pub(crate) fn end(&mut self) {
        self.work = None;
        self.known.clear();
    }
}

/// Serves until the sender is gone.
async fn run(mut work: mpsc::UnboundedReceiver<Work>) {
    let current = Arc::new(Current::default());
    let mut served: HashMap<BindAddress, Served> = HashMap::new();
    while let Some(work) = work.recv().await {
        for address in &work.gone {
            served.remove(address);
        }
        current.set(work.answering);
        for (address, socket) in work.new {
            match serve(&address, socket, &current) {
                Ok(serving) => {
                    served.insert(address, serving);
                }
                Err(error) => {
                    let error = OsError(&error);
                    note!(
                        work.journal,
                        Alert,
                        "name servers are not answered at {address:?} ({error})"
                    );
                }
            }
        }
    }
}

/// A socket that is served until this is dropped.
struct Served(AbortHandle);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn serve(address: &BindAddress, socket: OwnedFd, current: &Arc<Current>) -> io::Result<Served> {
    let current = Arc::clone(current);
    let task = match address {
        BindAddress::Datagram(_) => {
            let socket = UdpSocket::from_std(socket.into())?;
            tokio::spawn(serve_datagrams(socket, current))
        }
        _ => {
            let listener = TcpListener::from_std(socket.into())?;
            tokio::spawn(serve_connections(listener, current))
        }
    };
    Ok(Served(task.abort_handle()))
}

/// What is answered at present.
#[derive(Default)]
struct Current(Mutex<Answering>);

impl Current {
    fn set(&self, answering: Answering) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answering;
    }

    fn get(&self) -> Answering {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn serve_datagrams(socket: UdpSocket, current: Arc<Current>) {
    let mut limit = RateLimit::new();
    // One byte more than a query may have, so that a longer one is recognised.
    let mut query = [0; MAX_QUERY_BYTES + 1];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut query).await else {
            // Not that of one client: it would end the service for all others.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Nobody asks from there, and to answer could go round in circles.
        if client.port() == 0 {
            continue;
        }
        let may_be_whole = match limit.verdict(client.ip(), Instant::now()) {
            Verdict::Answer => true,
            Verdict::AskOverTcp => false,
            Verdict::Silence => continue,
        };
        let Answering { zones, serving } = current.get();
        let answer = respond(&query[..length], &zones, &serving, Some(may_be_whole));
        if let Some(answer) = answer {
            // A client that cannot be reached, or a full buffer: it asks again.
            let _ = socket.try_send_to(&answer, client);
        }
    }
}

async fn serve_connections(listener: TcpListener, current: Arc<Current>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let current = Arc::clone(&current);
        tokio::spawn(async move {
            let talking = serve_connection(stream, &current);
            let _ = tokio::time::timeout(CONNECTION_TIME, talking).await;
            drop(place);
        });
    }
}

async fn serve_connection(mut stream: TcpStream, current: &Current) -> io::Result<()> {
    for _ in 0..MAX_QUERIES {
        let length = usize::from(stream.read_u16().await?);
        if length > MAX_QUERY_BYTES {
            return Ok(());
        }
        let mut query = [0; MAX_QUERY_BYTES];
        let query = &mut query[..length];
        stream.read_exact(query).await?;
        let Answering { zones, serving } = current.get();
        let Some(answer) = respond(query, &zones, &serving, None) else {
            return Ok(());
        };
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let message = [&length.to_be_bytes()[..], &answer].concat();
        stream.write_all(&message).await?;
    }
    Ok(())
}
