//! Another worker process goes on with connections that the kernel seals: the keys stay with the
//! socket, and what the library has to know moves.

use crate::client::{Response, SClient, get};
use crate::kernel::{TlsCounters, can_rekey};
use crate::lab::{CBC_SUITE, FOUR_MIB, Lab, SUITES, Suite, assert_same, block};
use crate::program::wait_for;
use crate::relay::Relay;
use crate::server::{Kind, Server};
use crate::sniffer::Sniffer;
use sealane_tests::random::Random;
use sealane_vm::wire::{ALERT, APPLICATION_DATA};
use std::cell::Cell;
use std::time::Duration;

/// `ssl_ktls on`.
const ON: u16 = 5443;
/// `ssl_ktls auto`.
const AUTO: u16 = 6443;

/// What brings another worker process.
#[derive(Clone, Copy, Debug)]
enum How {
    /// HUP with another `worker_processes`.
    Reload,
    /// USR2 and QUIT.
    Upgrade,
}

/// One after the other.
const CHANGES: [How; 3] = [How::Upgrade, How::Reload, How::Upgrade];

/// The processes that are to end.
struct Begun {
    worker: u32,
    master: Option<u32>,
}

/// A server whose worker process can be changed for another one.
struct Changing {
    server: Server,
    /// `worker_processes`: another number needs another process.
    threads: Cell<usize>,
    /// What a binary that starts finds out about the kernel leaves traces in its counters.
    probing: TlsCounters,
    upgrades: Cell<u64>,
}

fn configuration(threads: usize) -> String {
    let blocks = [block(ON, "ssl_ktls on;"), block(AUTO, "ssl_ktls auto;")].concat();
    format!(
        "worker_processes {threads};
        worker_seccomp kill;
        pid logs/server.pid;
        error_log logs/error.log debug;
        events {{}}
        http {{
            sendfile on;
            keepalive_timeout 600s;
            log_format moving 'process=$pid client=$remote_port request=$connection_requests '
                '$ssl_cipher ktls=$ssl_ktls $status $body_bytes_sent $request_uri';
            access_log logs/access.log moving;
            {blocks}
        }}"
    )
}

impl Changing {
    #[track_caller]
    fn start(lab: &Lab) -> Changing {
        lab.prepare();
        for log in ["access.log", "error.log"] {
            // There is none before the first case.
            let _ = std::fs::remove_file(format!("/tmp/servers/changing/logs/{log}"));
        }
        let before = TlsCounters::read();
        let server = Server::start(Kind::Sealane, "changing", &configuration(1), &[ON, AUTO]);
        lab.settle_counters();
        server.mark();
        let after = TlsCounters::read();
        Changing {
            server,
            threads: Cell::new(1),
            probing: TlsCounters {
                sent: after.sent - before.sent,
                rekeyed: after.rekeyed - before.rekeyed,
                ..TlsCounters::default()
            },
            upgrades: Cell::new(0),
        }
    }

    /// How many connections the kernel has got a key to send with, and how many keys it changed.
    fn sealed_and_changed(&self, lab: &Lab) -> (u64, u64) {
        let upgrades = self.upgrades.get();
        (
            lab.sealed_connections() - upgrades * self.probing.sent,
            lab.changed_keys() - upgrades * self.probing.rekeyed,
        )
    }

    fn sealed(&self, lab: &Lab) -> u64 {
        self.sealed_and_changed(lab).0
    }

    /// The worker process, which is not `before`: of two, one is about to end.
    #[track_caller]
    fn worker_after(&self, before: Option<u32>) -> u32 {
        wait_for("one worker process", || match self.server.workers()[..] {
            [worker] if Some(worker) != before => Some(worker),
            _ => None,
        })
    }

    #[track_caller]
    fn worker(&self) -> u32 {
        self.worker_after(None)
    }

    /// Asks for another process, and does not wait for it.
    #[track_caller]
    fn begin(&self, how: How) -> Begun {
        self.server.check();
        self.server.mark();
        let worker = self.worker();
        let master = match how {
            How::Reload => {
                self.threads.set(3 - self.threads.get());
                self.server.reconfigure(&configuration(self.threads.get()));
                None
            }
            How::Upgrade => {
                self.upgrades.set(self.upgrades.get() + 1);
                Some(self.server.upgrade())
            }
        };
        Begun { worker, master }
    }

    /// Waits until the process of before has ended, having nothing left to do.
    #[track_caller]
    fn end(&self, begun: Begun) -> u32 {
        match begun.master {
            None => drop(self.server.wait_for_log("serves the new configuration")),
            Some(master) => wait_for("the old master to end", || {
                (!self.server.still_runs(master)).then_some(())
            }),
        }
        self.worker_after(Some(begun.worker))
    }

    #[track_caller]
    fn change(&self, how: How) {
        let begun = self.begin(how);
        self.end(begun);
    }

    /// A field of the access log about the latest request with this number on its connection.
    #[track_caller]
    fn logged(&self, request: usize, field: &str) -> String {
        let line = wait_for("the line about a request", || {
            let lines = self.server.access_log().into_iter().rev();
            let mut lines = lines.filter(|line| line.contains(&format!(" request={request} ")));
            lines.next()
        });
        let mut words = line.split_whitespace();
        let found = words.find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
        found.expect("the format has this field").to_owned()
    }
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("/data/{name}")).expect("the site has the file")
}

/// A keep-alive connection, and how much of it has been looked at.
struct Client {
    program: SClient,
    looked_at: usize,
    requests: usize,
}

impl Client {
    #[track_caller]
    fn connect(port: u16, options: &[&str]) -> Client {
        Client {
            program: SClient::connect(port, options),
            looked_at: 0,
            requests: 0,
        }
    }

    #[track_caller]
    fn ask(&mut self, name: &str) {
        self.program.send(&get(&format!("/{name}")));
        self.requests += 1;
    }

    /// The next response is this file.
    #[track_caller]
    fn gets(&mut self, name: &str) -> Response {
        let response = wait_for(
            &format!("the response to request {}", self.requests),
            || {
                let ended = self.program.has_ended();
                let received = self.program.received();
                let response = Response::parse(received.get(self.looked_at..)?);
                // What has come before the end may be on its way from the program's output.
                assert!(
                    !ended || response.is_some() || self.program.said().is_empty(),
                    "the connection ended at request {}: {}",
                    self.requests,
                    self.program.said()
                );
                response
            },
        );
        assert_same(&response.body, &file(name));
        self.looked_at += response.bytes;
        response
    }

    /// Closes the connection, on which nothing else has come.
    #[track_caller]
    fn finish(self) {
        let (received, said) = self.program.finish();
        assert_eq!(received.len(), self.looked_at, "s_client says: {said}");
    }
}

/// Four times 4 MiB on one connection, in four processes.
#[track_caller]
fn goes_on(lab: &Lab, port: u16, suite: Suite, sealed: u64) {
    let changing = Changing::start(lab);
    let mut client = Client::connect(port, &suite.s_client());
    let mut clients = Vec::new();
    let changes = CHANGES.iter().copied().map(Some);
    for change in std::iter::once(None).chain(changes) {
        if let Some(how) = change {
            changing.change(how);
        }
        client.ask("4m");
        client.gets("4m");
        let logged = |field: &str| changing.logged(client.requests, field);
        let process = changing.worker().to_string();
        assert_eq!(logged("process"), process, "{}, {change:?}", suite.name);
        assert_eq!(
            logged("ktls") == "on",
            sealed == 1,
            "{}, {change:?}",
            suite.name
        );
        clients.push(logged("client"));
    }
    clients.dedup();
    assert_eq!(clients.len(), 1, "the client's port is the same");
    // The kernel has got its key once, from the first process.
    assert_eq!(changing.sealed(lab), sealed, "{}: TlsTxSw", suite.name);
    client.finish();
    changing.server.stop();
}

pub(crate) fn tls13_aes128_gcm(lab: &Lab) {
    goes_on(lab, ON, SUITES[5], 1);
}

pub(crate) fn tls13_aes256_gcm(lab: &Lab) {
    goes_on(lab, AUTO, SUITES[6], 1);
}

pub(crate) fn tls13_chacha20_poly1305(lab: &Lab) {
    goes_on(lab, ON, SUITES[7], 1);
}

pub(crate) fn tls12_aes128_gcm(lab: &Lab) {
    goes_on(lab, AUTO, SUITES[2], 1);
}

pub(crate) fn tls12_aes256_gcm(lab: &Lab) {
    goes_on(lab, ON, SUITES[3], 1);
}

/// The library seals, before and after.
pub(crate) fn tls12_cbc(lab: &Lab) {
    let suite = Suite {
        name: CBC_SUITE,
        is_tls13: false,
    };
    goes_on(lab, ON, suite, 0);
}

/// With `auto` the kernel gets its key from the process that has a large body to send, with the
/// sequence number at which the library of the process before has stopped.
pub(crate) fn taken_over_after_a_change(lab: &Lab) {
    let changing = Changing::start(lab);
    let sniffer = Sniffer::start(AUTO);
    let mut client = Client::connect(AUTO, &SUITES[5].s_client());
    for name in ["small", "one"] {
        client.ask(name);
        client.gets(name);
        assert_eq!(changing.sealed(lab), 0);
        changing.change(How::Reload);
    }
    client.ask("4m");
    client.gets("4m");
    assert_eq!(changing.sealed(lab), 1);
    changing.change(How::Upgrade);
    client.ask("small");
    client.gets("small");
    client.finish();
    assert_eq!(changing.sealed(lab), 1);
    check_wire(sniffer, 1000 + 1 + FOUR_MIB + 1000);
    changing.server.stop();
}

/// Every record opens under the next number, whichever process has had it sealed, and there is no
/// other one.
#[track_caller]
fn check_wire(sniffer: Sniffer, body_bytes: usize) -> u64 {
    let seen = sniffer.finish_one();
    assert_eq!(seen.server.incomplete_bytes, 0);
    assert!(seen.server.application_data().len() > body_bytes);
    let mut records = seen.server.records.iter();
    let data_then_alert = records.by_ref().all(|record| record.kind != ALERT);
    assert!(
        data_then_alert || records.next().is_none(),
        "records behind an alert"
    );
    let data = seen.server.records.iter();
    assert!(
        data.filter(|record| record.kind == APPLICATION_DATA)
            .count()
            > 250
    );
    seen.server.key_updates().into()
}

/// The client turns its key before and after a change; then the server is asked to turn its own.
pub(crate) fn key_updates(lab: &Lab) {
    for suite in &[SUITES[5], SUITES[7]][..lab.scale(1, 2)] {
        let changing = Changing::start(lab);
        let sniffer = Sniffer::start(ON);
        let mut client = Client::connect(ON, &suite.s_client());
        client.ask("4m");
        client.gets("4m");
        client.program.command('k');
        for how in [How::Reload, How::Upgrade] {
            changing.change(how);
            client.program.command('k');
            client.ask("small");
            client.gets("small");
        }
        assert_eq!(changing.sealed_and_changed(lab), (1, 0));
        client.program.command('K');
        client.ask("small");
        let turned = if can_rekey() {
            client.gets("small");
            changing.change(How::Upgrade);
            client.ask("4m");
            client.gets("4m");
            client.finish();
            1
        } else {
            // Such a kernel keeps its key for ever: the connection ends in order.
            let (received, _) = client.program.ended_by_server();
            assert_eq!(received.len(), client.looked_at);
            changing.server.wait_for_log("KeyUpdate");
            0
        };
        assert_eq!(changing.sealed_and_changed(lab), (1, turned));
        assert_eq!(check_wire(sniffer, FOUR_MIB), turned, "{}", suite.name);
        changing.server.stop();
    }
}

/// The next request leaves at any moment of a change, and is answered, once.
pub(crate) fn requests_meanwhile(lab: &Lab) {
    let changing = Changing::start(lab);
    let mut random = Random::new(17);
    let mut clients: Vec<Client> = [SUITES[5], SUITES[7], SUITES[2], SUITES[3]]
        .iter()
        .map(|suite| Client::connect(ON, &suite.s_client()))
        .collect();
    for client in &mut clients {
        client.ask("small");
        client.gets("small");
    }
    for round in 0..lab.scale(4, 60) {
        let begun = changing.begin(CHANGES[round % 2]);
        for client in &mut clients {
            std::thread::sleep(Duration::from_millis(random.below(20) as u64));
            client.ask("small");
        }
        for client in &mut clients {
            client.gets("small");
        }
        changing.end(begun);
    }
    assert_eq!(changing.sealed(lab), clients.len() as u64);
    for mut client in clients {
        client.ask("4m");
        client.gets("4m");
        client.finish();
    }
    changing.server.stop();
}

/// A download that is under way ends where it began, and its connection moves behind it.
pub(crate) fn download_meanwhile(lab: &Lab) {
    let changing = Changing::start(lab);
    let relay = Relay::start(ON, 16384, Duration::ZERO);
    let mut client = Client::connect(relay.port, &SUITES[6].s_client());
    client.ask("small");
    client.gets("small");
    let before = changing.worker();
    relay.hold(true);
    client.ask("4m");
    let begun = changing.begin(How::Reload);
    changing.server.wait_for_log("serves the new configuration");
    relay.hold(false);
    client.gets("4m");
    let after = changing.end(begun);
    let request = client.requests;
    assert_eq!(changing.logged(request, "process"), before.to_string());
    client.ask("4m");
    client.gets("4m");
    assert_eq!(changing.logged(request + 1, "process"), after.to_string());
    assert_eq!(changing.sealed(lab), 1);
    client.finish();
    changing.server.stop();
}

/// Clients go away at any moment of a change: in order, and by a reset.
pub(crate) fn clients_that_leave_meanwhile(lab: &Lab) {
    let changing = Changing::start(lab);
    let mut random = Random::new(19);
    for round in 0..lab.scale(4, 40) {
        let mut leaving = Vec::new();
        for number in 0..4 {
            let relay = Relay::start(ON, 65536, Duration::ZERO);
            let mut client = Client::connect(relay.port, &SUITES[5 + number % 3].s_client());
            client.ask("small");
            client.gets("small");
            leaving.push((relay, client));
        }
        let begun = changing.begin(CHANGES[round % 2]);
        for (number, (relay, client)) in leaving.into_iter().enumerate() {
            std::thread::sleep(Duration::from_millis(random.below(20) as u64));
            match (number + round) % 2 {
                0 => drop(client.program), // its socket ends, in order or not
                _ => relay.cut(),
            }
        }
        changing.end(begun);
        wait_for("the kernel to forget closed connections", || {
            (TlsCounters::read().open == 0).then_some(())
        });
    }
    let mut client = Client::connect(ON, &[]);
    client.ask("4m");
    client.gets("4m");
    client.finish();
    changing.server.stop();
}
