//! Sessions of UDP: `listen ... udp`.
//!
//! A client that sends datagrams has no connection. Its session takes a slot of
//! `worker_connections`, is in the registry with its time-out, and goes through the phases of the
//! others: `limit_conn`, `allow` and `deny`, `set`, then `proxy_pass` or `return`, and the access
//! log.
//!
//! | file | what it holds |
//! |---|---|
//! | `listening` | a listening socket of one thread: its sessions begin here |
//! | `proxying` | `proxy_pass` |

mod listening;
mod proxying;

pub(crate) use listening::{DatagramAcceptor, DatagramControl};

use super::{
    Ended, Verdict, announce, check_access, conclude, refuse, refuse_without_handler, session,
    set_variables, stream_of,
};
use crate::acceptor::ListenerRef;
use crate::connection::Gauge;
use crate::exchange::Exchange;
use crate::facts::ConnectionFacts;
use crate::request_log::log_request;
use crate::template;
use crate::worker::Worker;
use sealane_conf::model::StreamHandler;
use sealane_http::StatusCode;
use sealane_io::datagram::Run;
use sealane_io::deadline::Deadline;
use sealane_io::registry::{Asked, ConnectionPhase, Entry};
use sealane_log::OsError;
use sealane_stream::datagram::Session;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// What a session has in the place of a connection.
struct DatagramClient {
    /// The number of its configuration.
    generation: u64,
    entry: Entry,
    deadline: Deadline,
    /// Gives its slot back; dropped last.
    gauge: Gauge,
}

impl DatagramClient {
    /// The client of a session, for which a slot was taken.
    fn new(worker: &Arc<Worker>, generation: u64) -> DatagramClient {
        DatagramClient {
            generation,
            entry: Entry::new(worker.registry.clone()),
            deadline: Deadline::None,
            gauge: Gauge::new(worker.clone()),
        }
    }

    /// What it was asked to do.
    fn asked(&self) -> Asked {
        self.entry.asked_with(self.generation)
    }

    fn set_deadline(&mut self, after: Duration) {
        self.deadline.set(&self.entry, after);
    }

    fn clear_deadline(&mut self) {
        self.deadline = Deadline::None;
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.deadline.poll_expired(&self.entry, cx)
    }
}

/// Serves a session to its end. A slot was taken for it.
async fn serve(worker: Arc<Worker>, listener: ListenerRef, datagrams: Session) {
    let mut client = DatagramClient::new(&worker, listener.generation);
    let number = worker.process.next_connection();
    let facts = ConnectionFacts::of_datagrams(number, datagrams.client(), datagrams.local());
    let facts = Arc::new(facts.debugged_by(&listener.snapshot.debug_connections));
    let ListenerRef {
        snapshot, listener, ..
    } = listener.of_connection(&facts);
    let server = snapshot.listener(listener).names.default_server();
    let mut exchange = session::begin(worker, snapshot, facts, (listener, server));
    let first = datagrams.peek(|datagram| datagram.len());
    exchange.transfer.request_bytes = first.unwrap_or(0) as u64;
    poll_fn(|cx| {
        client.entry.set_waker(cx.waker());
        Poll::Ready(())
    })
    .await;
    client.gauge.enter(&client.entry, ConnectionPhase::Busy);
    announce(&mut exchange);
    if let Err(Ended::Status(status)) = run(&mut client, datagrams, &mut exchange).await {
        exchange.response.status = status;
    }
    conclude(&mut exchange);
}

/// The phases.
async fn run(client: &mut DatagramClient, datagrams: Session, exchange: &mut Exchange) -> Verdict {
    check_access(exchange).await?;
    set_variables(exchange);
    match &stream_of(exchange).handler {
        StreamHandler::Proxy => proxying::serve(client, datagrams, exchange).await,
        StreamHandler::Return(text) => {
            let text = template::evaluate(text, exchange).into_owned();
            send(client, &datagrams, exchange, &text).await
        }
        StreamHandler::Pass(_) => {
            exchange.features.request_log.doing = " while passing connection to port";
            log_request!(exchange, Error, "cannot pass udp connection");
            refuse(StatusCode::INTERNAL_SERVER_ERROR)
        }
        StreamHandler::None => refuse_without_handler(exchange),
    }
}

/// Sends a text (`return`) as one datagram; as in nginx none if it is empty.
async fn send(
    client: &mut DatagramClient,
    datagrams: &Session,
    exchange: &mut Exchange,
    text: &[u8],
) -> Verdict {
    if text.is_empty() {
        return Ok(());
    }
    client.set_deadline(exchange.conf().send_timeout);
    let sent = poll_fn(|cx| {
        if let Poll::Ready(sent) = datagrams.poll_send(cx, std::iter::once(Run::one(text))) {
            return Poll::Ready(sent.map_err(Some));
        }
        match client.asked() {
            Asked::Abort => Poll::Ready(Err(None)),
            _ => client.poll_expired(cx).map(|()| Err(None)),
        }
    });
    match sent.await {
        Ok(_) => exchange.transfer.sent_bytes = text.len() as u64,
        Err(Some(error)) => {
            let error = OsError(&error);
            log_request!(
                exchange,
                Error,
                "sendmsg() failed ({error}) while sending response to client"
            );
        }
        Err(None) => {}
    }
    Ok(())
}
