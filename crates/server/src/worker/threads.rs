//! The threads of the worker process. Each accepts connections, serves them and enforces
//! time-outs on its own.

use crate::acceptor::Acceptor;
use crate::connection;
use crate::handover::channel::{self, Adopter, Channel, OutboundEvents};
use crate::handover::{BadMessage, InFlightGuard, MovedConnection};
use crate::key_channel;
use crate::quic::{
    LineReading, ProcessLine, QuicAcceptor, QuicControl, Routes, receive_from_line, thread_number,
};
use crate::snapshot::Snapshot;
use crate::stream::{DatagramAcceptor, DatagramControl};
use crate::worker::{Event, OnThread, Process, Update, Worker, own_sockets};
use sealane_conf::model::{ListenAddress, LogLevel};
use sealane_io::registry::{Asked, SWEEP_INTERVAL};
use sealane_io::runtime::{self, JoinHandle, Parts};
use sealane_log::{self, OsError};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// The time slice of worker threads, so short that they preempt handshake threads as soon as a
/// request arrives. It does not get them more CPU time. Only Linux 6.12 and later honour it.
const WORKER_TIME_SLICE: Duration = Duration::from_micros(100);
/// How often shutdown checks whether everything has finished.
pub(crate) const SHUTDOWN_POLL: Duration = Duration::from_millis(20);

/// The threads of the worker process.
#[derive(Default)]
pub(crate) struct Threads {
    handles: Vec<std::thread::JoinHandle<()>>,
    orders: Vec<(u32, mpsc::UnboundedSender<ThreadCommand>)>,
    /// Closed when no more connections of other processes are to be adopted.
    taking: Option<(PipeWriter, Arc<PipeReader>)>,
}

/// A socket that one thread accepts from.
pub(crate) struct OwnSocket {
    pub(crate) address: ListenAddress,
    pub(crate) socket: OwnedFd,
}

/// A command for one thread.
enum ThreadCommand {
    /// Switch to another configuration.
    Follow(Successor),
    /// Adopt a connection of another process.
    Adopt(Box<MovedConnection>),
    /// Receive packets of QUIC from another process.
    Receive(LineReading),
}

/// Another configuration for one thread.
struct Successor {
    generation: u64,
    snapshot: Arc<Snapshot>,
    added: Vec<OwnSocket>,
    progress: Arc<ReloadProgress>,
}

/// How many threads have yet to follow a command.
struct ReloadProgress {
    generation: u64,
    to_apply: AtomicUsize,
    to_drain: AtomicUsize,
    to_leave: AtomicUsize,
    events: Arc<dyn Fn(Event) + Send + Sync>,
}

impl ReloadProgress {
    fn applied(&self) {
        if self.to_apply.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.events)(Event::Applied(self.generation));
        }
    }

    fn drained(&self) {
        if self.to_drain.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.events)(Event::Drained(self.generation));
        }
    }

    fn left(&self) {
        if self.to_leave.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.events)(Event::Left(self.generation));
        }
    }
}

impl Threads {
    /// Starts another thread.
    ///
    /// # Errors
    /// When it, or its event loop, cannot be created.
    pub(crate) fn spawn(
        &mut self,
        worker: Arc<Worker>,
        sockets: Vec<OwnSocket>,
        told: watch::Receiver<Asked>,
        on_thread: OnThread,
    ) -> io::Result<()> {
        let resting = worker.clone();
        let parts = Parts::new()?;
        let (order, orders) = mpsc::unbounded_channel();
        self.orders.push((worker.index, order));
        let handle = std::thread::Builder::new()
            .name(format!("worker-{}", worker.index))
            .spawn(move || {
                let _guard = AbortOnPanic(worker.clone());
                on_thread(worker.index);
                // A wish, which a sandbox may deny.
                let _ = sealane_sys::process::set_time_slice(WORKER_TIME_SLICE);
                let runtime = parts.start(move || {
                    resting.turns.rest();
                    resting.open_files.end_turn();
                    // Send the log lines of this turn before the thread waits.
                    sealane_log::flush_thread_buffers();
                });
                runtime.block_on(serve(worker, sockets, orders, told));
                // Connections that are still open are dropped with it.
                drop(runtime);
            })?;
        self.handles.push(handle);
        Ok(())
    }

    /// Gives all threads another configuration.
    ///
    /// # Errors
    /// When there are no descriptors for its sockets; no thread has heard of it then.
    pub(crate) fn apply(
        &self,
        update: &Update,
        events: &Arc<dyn Fn(Event) + Send + Sync>,
    ) -> io::Result<()> {
        let progress = Arc::new(ReloadProgress {
            generation: update.generation,
            to_apply: AtomicUsize::new(self.orders.len()),
            to_drain: AtomicUsize::new(self.orders.len()),
            to_leave: AtomicUsize::new(self.orders.len()),
            events: events.clone(),
        });
        let sockets = self.orders.iter().map(|(index, _)| {
            let threads = self.orders.len();
            own_sockets(&update.added, &update.snapshot, *index, threads)
        });
        let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        for ((_, order), added) in self.orders.iter().zip(sockets) {
            // A thread that has ended is detected elsewhere.
            let _ = order.send(ThreadCommand::Follow(Successor {
                generation: update.generation,
                snapshot: update.snapshot.clone(),
                added,
                progress: progress.clone(),
            }));
        }
        Ok(())
    }

    /// Opens the channel to another process. Returns what connections are to do: without a
    /// channel they finish here.
    pub(crate) fn hand_over(&self, socket: OwnedFd, process: &Arc<Process>) -> Asked {
        let orders = self.each();
        let process_log = process.clone();
        let events = OutboundEvents {
            take_back: Box::new(move |moved| {
                // Some may have ended, but not the one that it comes from.
                let mut order = ThreadCommand::Adopt(Box::new(moved));
                for thread in &orders {
                    match thread.send(order) {
                        Ok(()) => return,
                        Err(back) => order = back.0,
                    }
                }
            }),
            report: Box::new(move |text| process_log.log(LogLevel::Notice, text)),
        };
        match Channel::open(socket, events) {
            Ok(channel) => {
                process.set_outbound_channel(channel);
                Asked::Move
            }
            Err(_) => Asked::Finish,
        }
    }

    /// Adopts the connections that another process sends, distributed over the threads.
    ///
    /// # Errors
    /// When there is no thread to receive them.
    pub(crate) fn take_over(&mut self, socket: OwnedFd, process: Arc<Process>) -> io::Result<()> {
        let stop = match &self.taking {
            Some((_, stop)) => stop.clone(),
            None => {
                let (stop, writer) = io::pipe()?;
                self.taking.insert((writer, Arc::new(stop))).1.clone()
            }
        };
        // No thread ends while connections may arrive.
        let in_flight = process.in_flight.begin();
        let mut adopter = Sharing {
            orders: self.each(),
            turn: 0,
            process: process.clone(),
        };
        std::thread::Builder::new()
            .name("take over".to_owned())
            .spawn(move || {
                if let Err(error) = channel::receive(&socket, stop.as_fd(), &mut adopter) {
                    process.log_adoption(&OsError(&error));
                }
                drop(in_flight);
            })?;
        Ok(())
    }

    /// Receives packets of QUIC from another process.
    pub(crate) fn receive(&self, line: &Arc<ProcessLine>) {
        // All at once: one thread may end before the next one is told.
        let readings: Vec<_> = self.orders.iter().map(|_| line.reading()).collect();
        for ((_, order), reading) in self.orders.iter().zip(readings) {
            // A thread that has ended needs none.
            let _ = order.send(ThreadCommand::Receive(reading));
        }
    }

    /// Adopts no more: connections that other processes have not sent stay there.
    pub(crate) fn take_over_no_more(&mut self) {
        self.taking = None;
    }

    fn each(&self) -> Vec<mpsc::UnboundedSender<ThreadCommand>> {
        self.orders.iter().map(|(_, order)| order.clone()).collect()
    }

    /// Whether all threads have ended.
    pub(crate) fn all_ended(&self) -> bool {
        self.handles
            .iter()
            .all(std::thread::JoinHandle::is_finished)
    }

    /// Whether some thread has ended.
    pub(crate) fn any_ended(&self) -> bool {
        self.handles
            .iter()
            .any(std::thread::JoinHandle::is_finished)
    }

    /// Waits until all have ended.
    pub(crate) fn join(self) {
        for handle in self.handles {
            let _ = handle.join();
        }
    }
}

/// Distributes the connections of another process among the threads.
struct Sharing {
    orders: Vec<mpsc::UnboundedSender<ThreadCommand>>,
    turn: usize,
    process: Arc<Process>,
}

impl Adopter for Sharing {
    fn has_room(&self, count: usize) -> bool {
        let workers = self.process.workers().iter();
        let room: i64 = workers.map(|worker| worker.free_slots().max(0)).sum();
        let wanted = count + self.process.in_flight.count();
        room >= i64::try_from(wanted).unwrap_or(i64::MAX)
    }

    fn take(&mut self, arrived: Result<MovedConnection, BadMessage>) {
        let moved = match arrived {
            Ok(moved) => moved,
            Err(error) => return self.process.log_adoption(&error),
        };
        let workers = self.process.workers();
        let count = self.orders.len();
        let turns = (self.turn..).take(count).map(|turn| turn % count);
        let has_room = |turn: &usize| workers.get(*turn).is_some_and(|w| w.free_slots() > 0);
        let turn = turns.clone().find(has_room).or(turns.clone().next());
        let Some(turn) = turn else { return };
        self.turn = turn + 1;
        // A thread that has ended takes the process with it.
        let _ = self.orders[turn].send(ThreadCommand::Adopt(Box::new(moved)));
    }

    fn in_flight(&self) -> InFlightGuard {
        self.process.in_flight.begin()
    }
}

/// Serves until told to stop, then waits for the connections to finish.
async fn serve(
    worker: Arc<Worker>,
    sockets: Vec<OwnSocket>,
    mut orders: mpsc::UnboundedReceiver<ThreadCommand>,
    mut told: watch::Receiver<Asked>,
) {
    let mut accepting = Accepting::default();
    accepting.add(&worker, sockets);
    runtime::spawn(sweep(worker.clone()));
    for line in worker.process.quic.first_lines() {
        runtime::spawn(receive_from_line(
            worker.process.quic.clone(),
            line.reading(),
        ));
    }
    if let Some(keys) = worker.process.keys.get() {
        runtime::spawn(key_channel::read_all(keys.clone(), worker.index));
    }
    let asked = loop {
        // A closed channel means that the control thread is gone: stop as well.
        tokio::select! {
            asked = told.wait_for(|asked| *asked != Asked::Nothing) => {
                match asked.map_or(Asked::Abort, |asked| *asked) {
                    Asked::Abort => return,
                    asked => break asked,
                }
            }
            Some(order) = orders.recv() => match order {
                ThreadCommand::Follow(successor) => follow(&worker, &mut accepting, successor),
                ThreadCommand::Adopt(moved) => {
                    runtime::spawn(connection::adopt(worker.clone(), *moved));
                }
                ThreadCommand::Receive(line) => {
                    runtime::spawn(receive_from_line(worker.process.quic.clone(), line));
                }
            },
        }
    };
    accepting.stop_all().await;
    worker.registry.shut_down(asked);
    tokio::select! {
        () = finish(&worker, &mut orders) => {}
        _ = told.wait_for(|asked| *asked == Asked::Abort) => {}
    }
}

/// Waits until there are no connections, and none can arrive or come back.
async fn finish(worker: &Arc<Worker>, orders: &mut mpsc::UnboundedReceiver<ThreadCommand>) {
    let adopt_waiting = |orders: &mut mpsc::UnboundedReceiver<ThreadCommand>| {
        let mut came = false;
        while let Ok(order) = orders.try_recv() {
            match order {
                ThreadCommand::Adopt(moved) => {
                    came = true;
                    runtime::spawn(connection::adopt(worker.clone(), *moved));
                }
                ThreadCommand::Receive(line) => {
                    runtime::spawn(receive_from_line(worker.process.quic.clone(), line));
                }
                ThreadCommand::Follow(_) => {}
            }
        }
        came
    };
    loop {
        // A connection that was in flight is in the queue by then.
        let is_last = worker.process.in_flight.count() == 0;
        if !adopt_waiting(orders) && is_last && worker.registry.is_empty() {
            orders.close(); // a connection that comes back now goes to another thread
            if !adopt_waiting(orders) {
                return;
            }
        }
        runtime::sleep(SHUTDOWN_POLL).await;
    }
}

/// Switches to another configuration.
fn follow(worker: &Arc<Worker>, accepting: &mut Accepting, successor: Successor) {
    let Successor {
        generation,
        snapshot,
        added,
        progress,
    } = successor;
    if let Some(timeout) = worker.current.snapshot().worker_shutdown_timeout {
        runtime::spawn(retire(worker.clone(), generation, timeout));
    }
    worker.current.set(generation, snapshot.clone());
    snapshot.groups.follow_changes();
    let stopped = accepting.stop_unknown(&snapshot);
    let leaving = accepting.leave_unknown(&snapshot);
    accepting.renew();
    accepting.add(worker, added);
    worker.registry.wake_idle();
    progress.applied();
    runtime::spawn(async move {
        for stopped in stopped {
            let _ = stopped.await;
        }
        progress.drained();
        for control in leaving {
            control.left().await;
        }
        progress.left();
    });
}

/// Ends what still uses a configuration older than this one after `worker_shutdown_timeout`, as
/// nginx ends the worker processes of the one that is replaced.
async fn retire(worker: Arc<Worker>, generation: u64, timeout: Duration) {
    runtime::sleep(timeout).await;
    worker.registry.retire_before(generation);
}

/// The sockets that a thread accepts from.
#[derive(Default)]
struct Accepting {
    /// For connections.
    connections: Vec<Accepted>,
    /// For datagrams, also those that the configuration does not have any more.
    datagrams: Vec<ReceivingSocket>,
    /// For QUIC, likewise.
    quic: Vec<QuicListening>,
    /// The connections of all of them, once there is one.
    quic_routes: Option<Rc<Routes>>,
}

/// A socket for QUIC.
struct QuicListening {
    address: ListenAddress,
    control: Rc<QuicControl>,
}

/// Whether an address is one of `listen ... quic`.
fn is_quic(snapshot: &Snapshot, address: &ListenAddress) -> bool {
    let listener = snapshot.listener_accepting(address);
    listener.is_some_and(|id| snapshot.listener(id).options.quic)
}

/// A socket for datagrams.
struct ReceivingSocket {
    address: ListenAddress,
    control: Rc<DatagramControl>,
    task: JoinHandle<()>,
}

struct Accepted {
    address: ListenAddress,
    /// Notified of a newer snapshot.
    renewed: Arc<Notify>,
    /// Dropped to empty the queue and close the socket.
    _stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Accepting {
    fn add(&mut self, worker: &Arc<Worker>, sockets: Vec<OwnSocket>) {
        let snapshot = worker.current.snapshot();
        let (quic, others): (Vec<_>, Vec<_>) =
            (sockets.into_iter()).partition(|own| is_quic(&snapshot, &own.address));
        for own in quic.chunk_by(|one, next| one.address == next.address) {
            self.receive_quic(worker, own);
        }
        for OwnSocket { address, socket } in others {
            if address.is_udp() {
                self.receive(worker, address, socket);
                continue;
            }
            let acceptor = match Acceptor::new(worker.clone(), address.clone(), socket) {
                Ok(acceptor) => acceptor,
                Err(error) => {
                    worker.current.snapshot().main_log.log(
                        LogLevel::Emerg,
                        None,
                        format_args!(
                            "cannot accept connections on {address} ({})",
                            OsError(&error)
                        ),
                    );
                    continue;
                }
            };
            let (stop, stopped) = oneshot::channel();
            let renewed = Arc::new(Notify::new());
            self.connections.push(Accepted {
                address,
                renewed: renewed.clone(),
                _stop: stop,
                task: runtime::spawn_with_handle(acceptor.accept_until(renewed, stopped)),
            });
        }
    }

    /// Receives datagrams. One that is leaving serves again: it is the same socket, whose datagrams
    /// two would take from each other.
    fn receive(&mut self, worker: &Arc<Worker>, address: ListenAddress, socket: OwnedFd) {
        self.datagrams.retain(|known| !known.control.is_over());
        let mut known = self.datagrams.iter();
        let left = known.find(|known| known.address == address && known.control.is_leaving());
        if left.is_some_and(|left| left.control.serve_again()) {
            return;
        }
        match DatagramAcceptor::new(worker.clone(), address.clone(), socket) {
            Ok((acceptor, control)) => self.datagrams.push(ReceivingSocket {
                address,
                control,
                task: runtime::spawn_with_handle(acceptor.run()),
            }),
            Err(error) => worker.current.snapshot().main_log.log(
                LogLevel::Emerg,
                None,
                format_args!(
                    "cannot receive datagrams on {address} ({})",
                    OsError(&error)
                ),
            ),
        }
    }

    /// Receives packets of QUIC; as with datagrams, one that is leaving serves again.
    fn receive_quic(&mut self, worker: &Arc<Worker>, own: &[OwnSocket]) {
        let Some(OwnSocket { address, .. }) = own.first() else {
            return;
        };
        self.quic.retain(|known| !known.control.is_over());
        let mut known = self.quic.iter();
        let left = known.find(|known| known.address == *address);
        if left.is_some_and(|left| left.control.serve_again()) {
            return;
        }
        let sockets = own.iter().map(|own| own.socket.try_clone());
        let sockets = sockets.collect::<io::Result<_>>();
        let new_routes = || {
            let shared = worker.process.quic.clone();
            Rc::new(Routes::new(shared, thread_number(worker)))
        };
        let routes = self.quic_routes.get_or_insert_with(new_routes).clone();
        let acceptor = sockets.and_then(|sockets| {
            QuicAcceptor::new(worker.clone(), address.clone(), sockets, routes)
        });
        match acceptor {
            Ok((acceptor, control)) => {
                // It ends by itself, once it takes no connections and serves none.
                runtime::spawn(acceptor.run());
                let address = address.clone();
                self.quic.push(QuicListening { address, control });
            }
            Err(error) => worker.current.snapshot().main_log.log(
                LogLevel::Emerg,
                None,
                format_args!(
                    "cannot receive packets of QUIC on {address} ({})",
                    OsError(&error)
                ),
            ),
        }
    }

    /// Begins no sessions any more at addresses that a configuration does not have.
    fn leave_unknown(&mut self, snapshot: &Snapshot) -> Vec<Rc<DatagramControl>> {
        for known in &self.quic {
            if !snapshot.has_socket(&known.address) {
                known.control.leave();
            }
        }
        let datagrams = self.datagrams.iter();
        let unknown = datagrams.filter(|known| !snapshot.has_socket(&known.address));
        let unknown = unknown.map(|known| {
            known.control.leave();
            known.control.clone()
        });
        unknown.collect()
    }

    /// Stops accepting for listeners that a configuration does not have.
    fn stop_unknown(&mut self, snapshot: &Snapshot) -> Vec<JoinHandle<()>> {
        let is_known = |accepted: &mut Accepted| !snapshot.has_socket(&accepted.address);
        let stopped = self.connections.extract_if(.., is_known);
        stopped.map(|accepted| accepted.task).collect()
    }

    /// Releases the previous snapshot now, not with the next connection.
    fn renew(&self) {
        for accepted in &self.connections {
            accepted.renewed.notify_one();
        }
        for receiving in &self.datagrams {
            receiving.control.renew();
        }
        for receiving in &self.quic {
            receiving.control.renew();
        }
    }

    /// Stops accepting; each loop ends when its queue is empty. Datagrams that wait are left to the
    /// next process.
    async fn stop_all(self) {
        let connections = self.connections.into_iter().map(|accepted| accepted.task);
        let datagrams = self.datagrams.into_iter().map(|receiving| {
            receiving.control.stop();
            receiving.task
        });
        let tasks: Vec<_> = connections.chain(datagrams).collect();
        for task in tasks {
            let _ = task.await;
        }
    }
}

/// Enforces time-outs as long as the worker runs.
async fn sweep(worker: Arc<Worker>) {
    loop {
        // Idle connections to other servers outlast the clients they were opened for.
        if !worker.current.snapshot().groups.has_idle(worker.index) {
            worker.registry.occupied().await;
        }
        runtime::sleep(SWEEP_INTERVAL).await;
        worker
            .registry
            .expire(sealane_sys::time::monotonic_coarse_ms());
        let snapshot = worker.current.snapshot();
        worker
            .refused
            .tell(&snapshot.main_log, snapshot.handshake_queue);
        snapshot.groups.sweep(worker.index);
    }
}

/// Logs it when a worker thread ends by a panic outside of any connection.
struct AbortOnPanic(Arc<Worker>);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.current.snapshot().main_log.log(
                LogLevel::Alert,
                None,
                format_args!("a worker thread panicked; restarting the worker process"),
            );
        }
    }
}
