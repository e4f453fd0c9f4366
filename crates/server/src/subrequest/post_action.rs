//! `post_action`: a subrequest once a request is over, which tells another server how it went.
//!
//! nginx continues the request itself in the other location, so that the connection waits and the
//! request is logged there. Here the request is logged where it was answered, and its connection
//! goes on.

use super::{Subrequest, SubrequestKind, conclude, has_room, in_background, permit};
use crate::client_link::ClientLink;
use crate::exchange::{Exchange, Transfer};
use crate::pipeline;
use sealane_conf::model::PostAction;
use sealane_http::StatusCode;
use std::sync::Arc;

/// Begins the `post_action` of a request that has been logged, if there is one. A connection that
/// was closed without a response (444) is left alone, as in nginx.
#[inline]
pub(crate) fn post_action(exchange: &Exchange) {
    if exchange.conf().post_action.is_some() && exchange.response.status != StatusCode::CLOSE {
        begin(exchange);
    }
}

#[cold]
fn begin(exchange: &Exchange) {
    let conf = Arc::clone(&exchange.snapshot.location(exchange.location).conf);
    let Some(action) = &conf.post_action else {
        return;
    };
    let request = &exchange.request;
    let (uri, args) = match action {
        PostAction::Uri(uri) => (&uri[..], None),
        PostAction::Named(_) => (&request.uri[..], request.args.as_deref()),
    };
    if !has_room(exchange, uri, "following post_action to") {
        return;
    }
    let kind = SubrequestKind::PostAction;
    let Some(permit) = permit(exchange, uri, kind) else {
        return;
    };
    let mut asked = Subrequest {
        kind,
        permit,
        uri,
        args,
        method: request.head.method,
        body: request.received.clone(),
        // It continues without the client.
        client: ClientLink::default(),
    }
    .of(exchange);
    // What its variables tell is how the request went.
    let done = &exchange.transfer;
    asked.transfer = Transfer { ..*done };
    asked.response.status = exchange.response.status;
    asked.phases.has_status = true;
    let name = match action {
        PostAction::Uri(_) => None,
        PostAction::Named(name) => Some(Arc::clone(name)),
    };
    in_background(exchange, async move {
        match name {
            None => Box::pin(pipeline::handle_subrequest(&mut asked)).await,
            Some(name) => Box::pin(pipeline::handle_named(&mut asked, &name)).await,
        }
        conclude(&mut asked);
    });
}
