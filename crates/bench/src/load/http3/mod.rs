//! HTTP/3 of a client: a connection of its own over QUIC, several concurrent requests, with each
//! response checked.
//!
//! A connection is a task. It goes on while its client pauses: QUIC acknowledges what came, answers
//! what is asked, and the server need not send anything again. The client hands in a number of
//! requests and waits until all are answered.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | what all connections of an event loop share |
//! | `exchange.rs` | requests and responses: who has the bytes of QUIC's streams |
//! | `line.rs` | one connection of QUIC with its exchange: datagrams in, datagrams out |
//! | `socket.rs` | datagrams, many in one call |

mod exchange;
mod line;
mod settings;
mod socket;

use std::{cell::RefCell, rc::Rc, time::Instant};

use tokio::sync::Notify;

pub(super) use settings::Http3Settings;
pub(crate) use socket::prepare_socket;

use crate::{
    Error,
    load::{Negotiated, Plan},
};
use line::Line;
use socket::Socket;

/// The outcome of a batch of responses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batch {
    pub(super) body_bytes: u64,
    pub(super) first_byte: Option<Instant>,
}

/// A client's end of its connection; it is closed when this is dropped.
pub(super) struct Http3 {
    shared: Rc<Shared>,
}

/// What the client and the connection's task have in common.
struct Shared {
    settings: Rc<Http3Settings>,
    line: RefCell<Line>,
    /// There is something to be sent.
    asked: Notify,
    /// All requests are answered, or the connection is over.
    done: Notify,
}

impl Http3 {
    /// Opens a socket and a task for a new connection. The handshake goes on together with the
    /// first requests.
    pub(super) fn connect(settings: &Rc<Http3Settings>, plan: &Plan) -> Result<Self, Error> {
        let socket = Socket::connect(plan.address)?;
        let line = Line::new(settings, plan, socket.addresses)?;
        let shared = Rc::new(Shared {
            settings: Rc::clone(settings),
            line: RefCell::new(line),
            asked: Notify::new(),
            done: Notify::new(),
        });
        tokio::task::spawn_local(carry(Rc::clone(&shared), socket));
        Ok(Self { shared })
    }

    /// Makes so many requests at a time, and waits for the responses.
    pub(super) async fn fetch(&self, requests: usize) -> Result<Batch, Error> {
        self.shared.line.borrow_mut().exchange.ask(requests);
        self.shared.asked.notify_one();
        loop {
            {
                let line = &mut self.shared.line.borrow_mut();
                if let Some(error) = line.exchange.error.take() {
                    return Err(error);
                }
                if line.exchange.is_answered() {
                    return Ok(line.exchange.take_batch());
                }
                if line.is_over() {
                    return Err(Error::Closed("before it answered all requests"));
                }
            }
            self.shared.done.notified().await;
        }
    }

    /// What the handshake has negotiated.
    pub(super) fn negotiated(&self) -> Option<Negotiated> {
        self.shared.line.borrow().negotiated.clone()
    }

    /// Closes the connection and waits until the server has been told.
    pub(super) async fn close(self) {
        self.shared.close();
        while !self.shared.line.borrow().is_over() {
            self.shared.done.notified().await;
        }
    }

    /// Whether the connection is established and the server has not closed it.
    pub(super) fn is_open(&self) -> bool {
        self.shared.line.borrow().is_established()
    }
}

impl Drop for Http3 {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    fn close(&self) {
        self.line.borrow_mut().close(&self.settings);
        self.asked.notify_one();
    }
}

/// The task of a connection, until that is over.
async fn carry(shared: Rc<Shared>, socket: Socket) {
    let settings = &shared.settings;
    let timeout = tokio::time::sleep(std::time::Duration::ZERO);
    tokio::pin!(timeout);
    loop {
        {
            let line = &mut *shared.line.borrow_mut();
            line.work(settings, &socket);
            if line.exchange.is_answered() || line.exchange.error.is_some() || line.is_over() {
                shared.done.notify_one();
            }
            if line.is_over() {
                return;
            }
            if let Some(deadline) = line.timeout(settings) {
                timeout.as_mut().reset(deadline.into());
            }
        }
        tokio::select! {
            ready = socket.readable() => {
                let line = &mut *shared.line.borrow_mut();
                match ready {
                    Ok(()) => line.receive(settings, &socket),
                    Err(error) => line.exchange.fail(error),
                }
            }
            () = &mut timeout => shared.line.borrow_mut().on_timeout(settings),
            () = shared.asked.notified() => {}
        }
    }
}
