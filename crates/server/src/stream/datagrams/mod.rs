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
use crate::client::Client;
use crate::exchange::Exchange;
use crate::facts::ConnectionFacts;
use crate::request_log::log_request;
use crate::template;
use crate::worker::Worker;
use sealane_conf::model::StreamHandler;
use sealane_http::StatusCode;
use sealane_io::datagram::Run;
use sealane_io::registry::Asked;
use sealane_log::OsError;
use sealane_stream::datagram::Session;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// Serves a session to its end. A slot was taken for it.
async fn serve(worker: Arc<Worker>, listener: ListenerRef, datagrams: Session) {
    let number = worker.process.next_connection();
    let facts = ConnectionFacts::of_datagrams(number, datagrams.client(), datagrams.local());
    let facts = Arc::new(facts.debugged_by(&listener.snapshot.debug_connections));
    let listener = listener.of_connection(&facts);
    let mut client = Client::new(worker.clone(), listener, facts.clone());
    let place = (client.listener, client.server);
    let mut exchange = session::begin(worker, client.snapshot.clone(), facts, place);
    let first = datagrams.peek(|datagram| datagram.len());
    exchange.transfer.request_bytes = first.unwrap_or(0) as u64;
    client.remember_task().await;
    client.begin_response();
    announce(&mut exchange);
    exchange.response.status = match run(&mut client, datagrams, &mut exchange).await {
        Err(Ended::Status(status)) => status,
        _ => StatusCode::OK,
    };
    conclude(&mut exchange);
}

/// The phases.
async fn run(client: &mut Client, datagrams: Session, exchange: &mut Exchange) -> Verdict {
    set_variables(exchange);
    check_access(exchange).await?;
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
    client: &mut Client,
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
