//! The `events` block.

use super::{Arity, Check, EVENTS, MAIN, Module, ONE, Row};
use crate::build::Opening;
use crate::call::Fault;
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "Events",
    doc: "How connections are accepted and how many there may be.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "events",
        MAIN,
        Arity::Between(0, 0),
        "Required; may be empty.",
        |b, c| {
            if b.events.is_some() {
                return Err(c.refuse("is duplicate"));
            }
            b.opening = Some(Opening::Events);
            Ok(())
        },
    ),
    Row::new(
        "worker_connections",
        EVENTS,
        ONE,
        "512",
        "Largest number of connections open at a time, per worker thread.",
        |b, c| {
            c.once(&b.events().worker_connections)?;
            let number = values::number(c.arg(1))
                .ok_or_else(|| Fault::at(1, format!("invalid number \"{}\"", c.shown(1))))?;
            b.events().worker_connections = Some(number);
            Ok(())
        },
    ),
    Row::new(
        "multi_accept",
        EVENTS,
        ONE,
        "off",
        "Whether a worker takes all waiting connections at once instead of a few in each round of its \
         loop, so that established connections wait for the others no longer than necessary.",
        |b, c| c.flag(&mut b.events().multi_accept),
    ),
    Row::new(
        "accept_mutex",
        EVENTS,
        ONE,
        "off",
        "Accepted without effect: worker threads never wait for one another to accept.",
        |b, c| c.flag(&mut b.events().accept_mutex),
    ),
    Row::meaningless(
        "accept_mutex_delay",
        EVENTS,
        ONE,
        Check::Time,
        "There is no accept mutex.",
    ),
    Row::new(
        "use",
        EVENTS,
        ONE,
        "epoll",
        "Accepted without effect: connections are always polled with epoll.",
        |b, c| {
            if !b.first_here("use") {
                return Err(c.refuse("is duplicate"));
            }
            match c.arg(1) {
                b"epoll" | b"poll" | b"select" => Ok(()),
                _ => Err(Fault::at(
                    1,
                    format!("invalid event type \"{}\"", c.shown(1)),
                )),
            }
        },
    ),
    Row::later(
        "debug_connection",
        EVENTS,
        ONE,
        Check::Any,
        "debug lines cannot be limited to some clients; `error_log ... debug` shows all",
    ),
    Row::meaningless(
        "epoll_events",
        EVENTS,
        ONE,
        Check::Number,
        "The event loop sizes its own list.",
    ),
    Row::meaningless(
        "worker_aio_requests",
        EVENTS,
        ONE,
        Check::Number,
        "Files are not read with Linux AIO.",
    ),
];
