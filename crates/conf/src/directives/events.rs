//! The `events` block.

use super::{Arity, Check, EVENTS, MAIN, Module, ONE, Row, real_ip};
use crate::build::Opening;
use crate::call::Fault;
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "Events",
    doc: "How connections are accepted, and how many there may be.",
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
        "Maximum number of simultaneous connections per worker thread.",
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
        "Whether a worker thread accepts all pending connections at once. If off, it accepts a few \
         per iteration of its event loop, which keeps delays for established connections short.",
        |b, c| c.flag(&mut b.events().multi_accept),
    ),
    Row::new(
        "accept_mutex",
        EVENTS,
        ONE,
        "off",
        "Accepted but has no effect: worker threads never wait for one another to accept \
         connections.",
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
        "Accepted but has no effect: epoll is always used.",
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
    Row::new(
        "debug_connection",
        EVENTS,
        ONE,
        "",
        "Clients whose connections are logged at level `debug`, whatever the level of the error \
         logs is: an address, a network (`192.0.2.0/24`, `2001:db8::/32`), a host name, or \
         `unix:`. The address of the connection counts, not that of `real_ip_header`.",
        |b, c| {
            let peers = real_ip::peers(b, c)?;
            b.events().debug_connections.extend(peers);
            Ok(())
        },
    ),
    Row::meaningless(
        "epoll_events",
        EVENTS,
        ONE,
        Check::Number,
        "The event loop sizes its event list itself.",
    ),
    Row::meaningless(
        "worker_aio_requests",
        EVENTS,
        ONE,
        Check::Number,
        "Linux AIO is not used.",
    ),
];
