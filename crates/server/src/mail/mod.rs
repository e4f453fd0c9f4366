//! Sessions of mail: the `mail` block.
//!
//! ```text
//! accept -> PROXY header -> set_real_ip_from -> TLS handshake (`ssl`) -> the client's name (SMTP)
//!   -> greeting -> commands [-> STARTTLS] -> login -> auth service -> login at the mail server
//!   -> bytes in both directions
//! ```
//!
//! What is said to whom is decided by the crate `mail`, which does no I/O. As in `stream`, a
//! session is an [`Exchange`] without a request: so TLS, addresses behind proxies, logs and status
//! are those of HTTP. Bytes are moved by the crate `stream`.
//!
//! | file | what it holds |
//! |---|---|
//! | `session` | what a session keeps; its settings |
//! | `dialogue` | the client until it has logged in; TLS |
//! | `client` | what an auth service is told of the client; its name |
//! | `auth` | asking the auth service |
//! | `proxying` | the login at the mail server, and the bytes behind it |
//! | `wire` | connections to both |

mod auth;
mod client;
mod dialogue;
mod proxying;
mod session;
mod wire;

pub(crate) use session::{MailRuntime, MailState};

use crate::connection::Connection;
use crate::debug_log::debug_request;
use crate::exchange::Exchange;
use crate::proxy_protocol::{self, HeaderRead};
use crate::{real_ip, status, stream};
use sealane_http::StatusCode;
use std::sync::Arc;

/// How a session ends, as it is counted: clients see only what their protocol says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionEnd {
    /// In order: passed on, or ended by the client.
    Done,
    /// The client has said nothing useful in time, or too much.
    ByClient,
    /// Something failed here, at the auth service, or at the mail server.
    Failed,
}

/// Serves a connection from its beginning to the end of its session.
pub(crate) async fn serve(connection: &mut Connection) {
    let mut exchange = session::begin(connection);
    stream::announce(&mut exchange);
    exchange.response.status = match run(connection, &mut exchange).await {
        SessionEnd::Done => StatusCode::OK,
        SessionEnd::ByClient => StatusCode::BAD_REQUEST,
        SessionEnd::Failed => StatusCode::BAD_GATEWAY,
    };
    exchange.transfer.completed = true;
    status::count(&exchange);
    connection.say_goodbye().await;
}

/// What comes before the dialogue, and the dialogue.
async fn run(connection: &mut Connection, exchange: &mut Exchange) -> SessionEnd {
    connection.begin_session().await;
    let mail = mail_of(exchange);
    let listener = exchange.snapshot.listener(exchange.listener);
    let (is_secure, has_header) = (listener.options.ssl, listener.options.proxy_protocol);
    connection.set_deadline(mail.conf.timeout);
    if has_header {
        match proxy_protocol::read(connection).await {
            HeaderRead::Done => real_ip::apply(exchange),
            HeaderRead::Malformed | HeaderRead::Gone => return SessionEnd::ByClient,
        }
    }
    if is_secure && let Err(ended) = dialogue::begin_tls(connection, exchange, &mail).await {
        return ended;
    }
    debug_request!(exchange, "mail session of {}", mail.conf.protocol.name());
    connection.begin_response();
    dialogue::run(connection, exchange, &mail).await
}

/// What the session's server does.
fn mail_of(exchange: &Exchange) -> Arc<MailRuntime> {
    let mail = exchange.server().mail.clone();
    mail.expect("a listener of mail leads to a server of mail")
}
