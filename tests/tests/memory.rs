//! What hostile files, clients and origins may make of the memory of a worker: next to nothing, or
//! what a directive allows. Each test prints what it has measured.

#[path = "memory/clients.rs"]
mod clients;
#[path = "memory/files.rs"]
mod files;
#[path = "memory/origins.rs"]
mod origins;

use sealane_tests::wire::get;
use sealane_tests::{Server, Site};
use std::time::{Duration, Instant};

/// What may be taken above what an idle worker has.
const BOUND_KIB: u64 = 64 << 10;

/// How long a peer that does not end by itself goes on.
const FLOOD: Duration = Duration::from_millis(700);

/// Looks at the most that the worker of a server has had.
struct Watch<'s, 'w> {
    server: &'w Server<'s>,
    idle_kib: u64,
    lines: Vec<String>,
    broken: Vec<String>,
}

impl<'s, 'w> Watch<'s, 'w> {
    /// The server has answered before, and does so after each case: `/small.txt`.
    fn begin(server: &'w Server<'s>) -> Watch<'s, 'w> {
        assert_eq!(get(server.port("plain"), "/small.txt").text(), "small");
        Watch {
            server,
            idle_kib: server.resident_kib(),
            lines: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Measures while `run` is at work, and as long as what it returns is there.
    fn case<T>(&mut self, name: &str, run: impl FnOnce() -> T) {
        self.case_within(name, BOUND_KIB, run);
    }

    /// The same where a directive allows so much.
    fn case_within<T>(&mut self, name: &str, bound_kib: u64, run: impl FnOnce() -> T) {
        self.server.forget_most_resident();
        let since = Instant::now();
        let held = run();
        let answer = get(self.server.port("plain"), "/small.txt");
        assert_eq!(answer.text(), "small", "{name}: the server goes on");
        drop(held);
        let above_kib = self
            .server
            .most_resident_kib()
            .saturating_sub(self.idle_kib);
        let line = format!(
            "{name}: {above_kib} KiB above {} ({} ms)",
            self.idle_kib,
            since.elapsed().as_millis()
        );
        if above_kib > bound_kib {
            self.broken.push(line.clone());
        }
        self.lines.push(line);
    }
}

impl Drop for Watch<'_, '_> {
    fn drop(&mut self) {
        println!("{}", self.lines.join("\n"));
        if !std::thread::panicking() {
            assert!(
                self.broken.is_empty(),
                "more than allowed: {:#?}",
                self.broken
            );
        }
    }
}

fn site() -> Site {
    let site = Site::new();
    site.write("html/small.txt", "small");
    site
}
