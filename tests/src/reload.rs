//! Gives a running server a new configuration.

use crate::{Outcome, Server, Site, command, sealane_binary, wait_for};

/// What a server has made of HUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// It goes on with the new configuration.
    Applied,
    /// It goes on with the old one.
    Refused,
}

/// What the log says of each.
const MARKS: [(Reload, &str); 3] = [
    (Reload::Applied, "reconfigured, worker process "),
    (Reload::Refused, "the new configuration is refused, "),
    (Reload::Refused, "the new configuration is not used "),
];

/// The configuration file of a running server.
fn file(site: &Site) -> String {
    site.path("sealane.conf").display().to_string()
}

/// Writes the configuration and tells nobody. A server that reads it at this moment finds the
/// one before or this one.
pub fn configure(site: &Site, configuration: &str) {
    let new = site.write("sealane.conf.new", site.fill_in(configuration));
    std::fs::rename(new, site.path("sealane.conf")).expect("the site is writable");
}

/// Writes the configuration, sends HUP and waits for what becomes of it. The error log has to stay
/// where it is.
#[track_caller]
pub fn reload(site: &Site, server: &Server<'_>, configuration: &str) -> Reload {
    configure(site, configuration);
    reload_as_it_is(server)
}

/// The same with the configuration that is there.
#[track_caller]
pub fn reload_as_it_is(server: &Server<'_>) -> Reload {
    let outcomes = || {
        let log = server.error_log();
        MARKS.map(|(outcome, mark)| (outcome, log.matches(mark).count()))
    };
    let before = outcomes();
    server.signal("HUP");
    wait_for("the end of a reload", || {
        let now = outcomes();
        let changed = now.iter().zip(&before).find(|(now, then)| now.1 > then.1);
        changed.map(|(now, _)| now.0)
    })
}

/// Runs the binary on the configuration file of a site, as an operator would beside the
/// server: `-t`, or `-s reload`.
#[track_caller]
pub fn ask(site: &Site, arguments: &[&str]) -> Outcome {
    let (prefix, file) = (site.path("").display().to_string(), file(site));
    let mut all = vec!["-p", &prefix, "-c", &file, "-e", "logs/error.log"];
    all.extend(arguments);
    command(&sealane_binary().display().to_string(), &all, b"")
}
