//! Who may see what is counted, and change groups of servers.

use super::caching::says_who;
use crate::call::Fault;
use crate::draft::Address;
use crate::model::{
    ContentHandler, ListenAddress, LocationConf, Server, StatusView, VerifyClient, locations_of,
};

/// A location with `metrics`, `api`, `console` or `dyups_interface` that anybody could reach is
/// refused.
///
/// # Errors
/// The first such location. `first` is the number of the first server.
pub(super) fn check_access(
    addresses: &[Address],
    first: usize,
    servers: &[Server],
) -> Result<(), Fault> {
    for (index, server) in (first..).zip(servers) {
        if server.verify_client == VerifyClient::On {
            continue;
        }
        let mut locations = locations_of([server]).into_iter();
        let Some(view) = locations.find_map(|location| shown_to_all(location)) else {
            continue;
        };
        let mut own = addresses
            .iter()
            .filter(|address| address.servers.contains(&index));
        let Some(open) = own.find(|address| !is_local(&address.address)) else {
            continue;
        };
        let message = format!(
            "\"{}\" is open to everyone who reaches {} of server \"{}\"",
            view.name(),
            open.address,
            server.primary_name
        );
        let what = match view.changes_servers() {
            true => "it decides where requests go: say who may use it",
            false => "it tells names, addresses and traffic of all servers: say who may see it",
        };
        let help = format!(
            "{what} with \"allow\" and \"deny\", \"auth_basic\" or \"auth_request\", or listen on a \
             loopback address or Unix socket only"
        );
        return Err(Fault::earlier(&server.origin, message).help(help));
    }
    Ok(())
}

/// What the location shows, if no directive says to whom.
fn shown_to_all(location: &LocationConf) -> Option<StatusView> {
    match location.content_handler {
        Some(ContentHandler::Status(view)) if !location.internal && !says_who(location) => {
            Some(view)
        }
        _ => None,
    }
}

/// Whether only this machine reaches it.
fn is_local(address: &ListenAddress) -> bool {
    let inet = address.inet();
    inet.is_none_or(|address| address.ip().is_loopback())
}
