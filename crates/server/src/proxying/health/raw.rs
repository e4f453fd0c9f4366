//! Tengine's `check`: a few bytes there and back, without a location.

use super::located::{self, at_port, receive};
use super::runner::Asking;
use super::{Fault, HealthTask, KeptProbe};
use crate::proxying::conversation::{Conversation, Timeouts, Upload};
use crate::proxying::failure::{Doing, Failure};
use crate::proxying::peer_connection::{PeerConnection, connect_plainly};
use crate::proxying::wire::{FastCgi, Http1, Wire};
use sealane_conf::model::{Check, CheckKind};
use sealane_http::cgi::Param;
use sealane_http::{Method, fastcgi};
use sealane_io::OutboundMessage;
use sealane_io::Received;
use sealane_io::chain::OutputChain;
use sealane_io::runtime::timeout_at;
use sealane_io::stream::Sealed;
use sealane_tls::client::{ClientSettings, ClientTls};
use sealane_upstream::Peer;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

/// The longest response head.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// CPing and CPong of AJP 1.3.
const CPING: [u8; 5] = [0x12, 0x34, 0x00, 0x01, 0x0a];
const CPONG: [u8; 5] = [0x41, 0x42, 0x00, 0x01, 0x09];
/// The beginning of MySQL's greeting: length and number of the packet, version of the protocol.
const GREETING_BYTES: usize = 5;

/// The TLS of `type=ssl_hello`: any certificate will do. `None` if no group needs it.
pub(super) fn tls_settings(tasks: &[HealthTask]) -> Option<ClientTls> {
    let mut groups = tasks.iter();
    if !groups.any(|task| task.asks_for(CheckKind::SslHello)) {
        return None;
    }
    let settings = ClientSettings {
        directives: "check",
        session_reuse: false,
        ..ClientSettings::default()
    };
    ClientTls::build(&settings).ok().map(|(tls, _)| tls)
}

/// Asks a peer.
pub(super) async fn ask(
    asking: &Asking,
    check: &Check,
    peer: &Arc<Peer>,
    kept: Option<KeptProbe>,
) -> (Result<(), Fault>, Option<KeptProbe>) {
    let deadline = Instant::now() + check.timeout;
    let asked = async {
        let mut kept = kept.filter(|kept| kept.checks < check.keepalive_requests);
        if kept.as_mut().is_some_and(|kept| kept.connection.is_quiet()) {
            let asked = talk(asking, check, peer, kept).await;
            if asked.is_ok() {
                return asked;
            }
            // The peer may have closed it just then, which is no failure.
        }
        talk(asking, check, peer, None).await
    };
    match timeout_at(deadline, asked).await {
        Err(_) => {
            let ms = check.timeout.as_millis();
            (
                Err(Fault(format!("it did not answer within {ms} ms"))),
                None,
            )
        }
        Ok(Err(fault)) => (Err(fault), None),
        Ok(Ok(kept)) => (Ok(()), kept),
    }
}

async fn talk(
    asking: &Asking,
    check: &Check,
    peer: &Arc<Peer>,
    kept: Option<KeptProbe>,
) -> Result<Option<KeptProbe>, Fault> {
    let (mut connection, opened, checks) = match kept {
        Some(kept) => (kept.connection, kept.opened, kept.checks),
        None => {
            let address = at_port(peer.address(), check.port);
            let opening = connect_plainly(&address).await;
            let opened = opening.map_err(|error| Failure::Connect(error, None))?;
            (opened, Instant::now(), 0)
        }
    };
    let connection = match check.kind {
        CheckKind::Tcp => Some(connection),
        CheckKind::SslHello => {
            shake_hands(asking, &mut connection).await?;
            None
        }
        CheckKind::Mysql => {
            let greeting = read(&mut connection, GREETING_BYTES).await?;
            // The first packet of the conversation, which is no error.
            if greeting[3] != 0 || greeting[4] == 0xff {
                return Err(Fault("it does not greet as MySQL does".to_owned()));
            }
            None
        }
        CheckKind::Ajp => {
            send(&mut connection, &CPING).await?;
            if read(&mut connection, CPONG.len()).await? != CPONG {
                return Err(Fault("it does not answer a CPing of AJP".to_owned()));
            }
            Some(connection)
        }
        CheckKind::Http => {
            let method = check.send.split(|byte| *byte == b' ').next();
            let method = Method::from_bytes(method.unwrap_or_default());
            let wire = Wire::Http1(Http1::new(method, false, false, MAX_HEAD_BYTES));
            converse(check, connection, wire, check.send.to_vec()).await?
        }
        CheckKind::FastCgi => {
            let keeps = check.keepalive_requests > 1;
            let wire = FastCgi::new(Method::Get, MAX_HEAD_BYTES, keeps, Vec::new());
            let wire = Wire::FastCgi(Box::new(wire));
            converse(check, connection, wire, fastcgi_request(check, keeps)?).await?
        }
    };
    let checks = checks + 1;
    let keeps = checks < check.keepalive_requests;
    Ok(connection.filter(|_| keeps).map(|connection| KeptProbe {
        connection,
        opened,
        checks,
    }))
}

/// Sends a request and looks at the status of the response.
async fn converse(
    check: &Check,
    connection: PeerConnection,
    wire: Wire,
    request: Vec<u8>,
) -> Result<Option<PeerConnection>, Fault> {
    let mut chain = OutputChain::new();
    chain.push_bytes(request);
    let timeouts = Timeouts {
        send: check.timeout,
        read: check.timeout,
    };
    let conversation = Conversation::new(connection, wire, chain, Upload::Done, timeouts);
    let (answer, connection): (located::CheckedResponse, _) = receive(conversation).await?;
    let status = answer.head.parsed.status.0;
    let class = u32::from(status / 100).saturating_sub(1);
    match u32::from(check.alive).checked_shr(class).unwrap_or(0) & 1 {
        1 => Ok(connection),
        _ => Err(Fault(format!("it answers with status {status}"))),
    }
}

/// A GET request for `/` by FastCGI, or what `check_fastcgi_param` makes of it.
fn fastcgi_request(check: &Check, keeps: bool) -> Result<Vec<u8>, Fault> {
    const USUAL: [(&[u8], &[u8]); 5] = [
        (b"REQUEST_METHOD", b"GET"),
        (b"REQUEST_URI", b"/"),
        (b"SCRIPT_FILENAME", b"index.php"),
        (b"SERVER_PROTOCOL", b"HTTP/1.1"),
        (b"GATEWAY_INTERFACE", b"CGI/1.1"),
    ];
    let mut out = Vec::new();
    fastcgi::encode_begin(&mut out, keeps);
    let pairs: Vec<(&[u8], &[u8])> = match &check.fastcgi_params {
        None => USUAL.to_vec(),
        Some(own) => own.iter().map(|own| (&*own.name, &*own.value)).collect(),
    };
    let params = pairs
        .into_iter()
        .map(|(name, value)| Param::new(name, value));
    let params = params
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Fault(format!("\"check_fastcgi_param\" cannot be sent: {error:?}")))?;
    fastcgi::encode_params(&mut out, params)
        .map_err(|error| Fault(format!("\"check_fastcgi_param\" cannot be sent: {error}")))?;
    fastcgi::encode_stdin_end(&mut out);
    Ok(out)
}

async fn shake_hands(asking: &Asking, connection: &mut PeerConnection) -> Result<(), Fault> {
    let tls = asking.tls.as_ref();
    let tls = tls.ok_or_else(|| Fault("TLS cannot be set up".to_owned()))?;
    let begun = tls
        .connect(None, None)
        .map_err(|error| Fault(error.to_string()))?;
    connection.start_tls(Sealed::connecting(begun), None);
    poll_fn(|cx| connection.poll_handshake(cx))
        .await
        .map_err(|error| Failure::broken(error, Doing::Handshaking))?;
    Ok(())
}

async fn send(connection: &mut PeerConnection, bytes: &[u8]) -> Result<(), Fault> {
    let mut message = OutboundMessage::new(bytes.to_vec(), OutputChain::new());
    poll_fn(|cx| connection.poll_send(cx, &mut message))
        .await
        .map_err(|error| Failure::broken(error, Doing::Sending))?;
    Ok(())
}

/// The first bytes that the peer sends.
async fn read(connection: &mut PeerConnection, count: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(count);
    while bytes.len() < count {
        let missing = count - bytes.len();
        let received = poll_fn(|cx| connection.poll_receive(cx, &mut bytes, missing)).await;
        match received.map_err(|error| Failure::broken(error, Doing::ReadingHead))? {
            Received::Bytes(_) => {}
            Received::End => return Err(Failure::ClosedEarly(Doing::ReadingHead).into()),
        }
    }
    Ok(bytes)
}
