//! The basis of every comparison of servers: cores for each side, the site with its common
//! configuration, started servers, and the machine's description.

mod cpus;
mod figures;
pub(crate) mod kernel_tls;
mod kind;
mod machine;
mod neighbours;
pub(crate) mod origin;
mod precedence;
mod relay;
mod server;
mod site;
mod watch;

use std::{
    thread,
    time::{Duration, Instant},
};

pub(crate) use cpus::{Cpus, ServerCores, available as available_cpus};
pub(crate) use figures::{number, ratio_text, spread, verdict};
pub use kind::Kind;
pub(crate) use machine::Machine;
pub(crate) use neighbours::Neighbours;
pub(crate) use precedence::Precedence;
pub(crate) use relay::Relay;
pub use server::Server;
pub(crate) use server::{Running, ServerLabel};
pub(crate) use site::{Additions, File, Listener, Ports, Site, server_name};
pub(crate) use watch::{Course, FirstErrorEnds, Turn, Watch};

/// The order of `count` servers in a round. Every other round is reversed, so that drift of the
/// machine affects all equally.
pub(crate) fn order(round: usize, count: usize) -> Vec<usize> {
    if round.is_multiple_of(2) {
        (0..count).collect()
    } else {
        (0..count).rev().collect()
    }
}

/// Waits for `condition`, polling every few milliseconds; returns false after `limit`.
pub(crate) fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

#[cfg(test)]
mod tests;
