//! What is counted, and where it is shown: `status_zone`, `metrics`, `api`, `console`.

use super::{
    Arity, LOCATION, LOCATION_IF, MAIL_SERVER, MAIN, Module, ONE, Row, SERVER, STREAM_SERVER,
};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::listen::MAX_UNIX_PATH_BYTES;
use crate::model::{ContentHandler, StatusView};

/// No argument.
const NONE: Arity = Arity::Between(0, 0);

pub(super) const MODULE: Module = Module {
    title: "HTTP: status",
    doc: "What the server counts, for tools that scrape it, for scripts, and as a page. See \
        [monitoring.md](monitoring.md). These locations tell secrets, such as names and addresses \
        of servers: each needs an access rule (`allow`, `auth_basic`, `auth_request` or \
        `ssl_verify_client on`), unless its server listens on loopback addresses and Unix sockets \
        only.",
    rows: &[
        Row::new(
            "status_zone",
            SERVER | LOCATION | LOCATION_IF | STREAM_SERVER | MAIL_SERVER,
            ONE,
            "",
            "The name under which requests of this server or location are counted. Servers with the \
             same name are counted together. A server without one is counted under its first \
             `server_name`; a location without one is not counted by itself. `off` in a server: \
             it is not counted by itself either.",
            status_zone,
        ),
        Row::new(
            "metrics_memory",
            MAIN,
            ONE,
            "64m",
            "Maximum size of the memory that all processes of the server share for what they count, \
             so that numbers survive workers; at least 1m. Each zone and fixed server of an \
             `upstream` takes up to 1 KiB for each worker thread, and only what is used takes \
             memory. Where there is no more room, a worker process counts for itself. Changing \
             it requires a restart. A directive of Sealane.",
            |b, c| {
                c.size(&mut b.main.metrics_memory)?;
                match b.main.metrics_memory {
                    Some(bytes) if bytes < MIN_COUNTER_BYTES => {
                        Err(Fault::at(1, "\"metrics_memory\" must be at least 1m"))
                    }
                    _ => Ok(()),
                }
            },
        ),
        Row::new(
            "control_socket",
            MAIN,
            ONE,
            "logs/sealane.control.sock",
            "Unix socket where `sealane top`, `sealane status` and `sealane certificates` ask the \
             server, or `off`. Only the user that the master runs as, and root, may connect. The \
             default is the path of `pid` with `.control.sock` in place of `.pid`, unless that is \
             in `/dev` or too long for a socket (107 bytes). It responds to `/metrics` and \
             `/status/` as `metrics` and `api` do. A directive of Sealane.",
            control_socket,
        ),
        Row::new(
            "metrics",
            LOCATION,
            NONE,
            "",
            "Responds with everything that is counted, in OpenMetrics' text format, which \
             Prometheus scrapes; with `?format=json` as JSON.",
            |b, c| view(b, c, StatusView::Metrics),
        ),
        Row::new(
            "api",
            LOCATION,
            Arity::Between(0, 1),
            "",
            "Responds with what is counted as the JSON tree that Angie's module of the same name \
             serves: `connections`, `http/server_zones`, `http/location_zones`, \
             `http/upstreams`, `http/caches`, `http/limit_reqs`, `http/limit_conns`, `resolvers`. \
             What follows the location's prefix is a path in the tree; the argument is `/status/`, \
             or `write=on|off`. Below a number from 1 to 9 is the tree of nginx's commercial \
             edition: `9/http/upstreams/NAME/servers/ID`. With `write=on`, `POST`, `PATCH` and \
             `DELETE` add, change and remove servers of groups with a `zone` while the server runs. See \
             [live-upstreams.md](live-upstreams.md).",
            api,
        ),
        Row::new(
            "console",
            LOCATION,
            NONE,
            "",
            "Responds with a page that shows what is counted, while it is counted.",
            |b, c| view(b, c, StatusView::Console),
        ),
    ],
};

fn status_zone(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let location = b.location();
    c.once(&location.status_zone)?;
    let name = c.text(1)?;
    if name.is_empty() || name.len() > MAX_ZONE_NAME_BYTES {
        let help = format!("a name has 1 to {MAX_ZONE_NAME_BYTES} bytes");
        return Err(c.invalid(1).help(help));
    }
    if name.contains(['$', '=']) {
        let help = "zones with variables are not counted: name the zone in each server";
        return Err(c.invalid_parameter(1).help(help));
    }
    location.status_zone = Some(name.into());
    Ok(())
}

/// The counters of the server itself must have room.
const MIN_COUNTER_BYTES: u64 = 1 << 20;

/// Longest name of a zone: it is a label of every number that is counted.
const MAX_ZONE_NAME_BYTES: usize = 255;

fn api(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mut writes = false;
    if c.count() == 1 {
        let path = c.text(1)?;
        match path {
            "write=on" => writes = true,
            "write=off" | "/status/" => {}
            _ if path.starts_with("write=") => return Err(c.invalid_parameter(1)),
            _ => return Err(c.invalid(1).help("only \"/status/\" is served")),
        }
    }
    view(b, c, StatusView::Api { writes })
}

fn control_socket(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.main.control_socket)?;
    b.main.control_socket = Some(match c.arg(1) {
        b"off" => None,
        _ => {
            let path = b.options.under_prefix(c.path(1));
            if path.as_os_str().len() > MAX_UNIX_PATH_BYTES {
                let message = format!(
                    "too long path of a socket \"{}\": at most {MAX_UNIX_PATH_BYTES} bytes",
                    path.display()
                );
                return Err(Fault::at(1, message));
            }
            Some(path)
        }
    });
    Ok(())
}

pub(super) fn view(b: &mut Build<'_>, _: &Call<'_>, view: StatusView) -> Result<(), Fault> {
    b.location().answer_by(ContentHandler::Status(view));
    Ok(())
}

#[cfg(test)]
mod tests;
