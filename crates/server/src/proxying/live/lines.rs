//! Servers of a group as text: `server` lines, and the parameters by which they are changed.
//!
//! What is asked for is read by the parser of configurations, so that the same values are good in
//! both places.

use super::ChangeError;
use crate::proxying::groups;
use sealane_conf::model::{Upstream, UpstreamPeers};
use sealane_conf::upstream_state::{read_block, word};
use sealane_upstream::{ServerEntry, ServerList, ServerSettings};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// A parameter of `server`, as the configuration and both APIs call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// The address itself.
    Server,
    Weight,
    MaxConns,
    MaxFails,
    FailTimeout,
    SlowStart,
    Route,
    Service,
    Backup,
    Down,
    Drain,
}

impl Parameter {
    const ALL: [Parameter; 11] = [
        Parameter::Server,
        Parameter::Weight,
        Parameter::MaxConns,
        Parameter::MaxFails,
        Parameter::FailTimeout,
        Parameter::SlowStart,
        Parameter::Route,
        Parameter::Service,
        Parameter::Backup,
        Parameter::Down,
        Parameter::Drain,
    ];

    /// The parameter with that name.
    pub(crate) fn named(name: &str) -> Option<Parameter> {
        let mut all = Parameter::ALL.into_iter();
        all.find(|parameter| parameter.name() == name)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Parameter::Server => "server",
            Parameter::Weight => "weight",
            Parameter::MaxConns => "max_conns",
            Parameter::MaxFails => "max_fails",
            Parameter::FailTimeout => "fail_timeout",
            Parameter::SlowStart => "slow_start",
            Parameter::Route => "route",
            Parameter::Service => "service",
            Parameter::Backup => "backup",
            Parameter::Down => "down",
            Parameter::Drain => "drain",
        }
    }

    /// Whether it is there or not, instead of having a value.
    pub(crate) fn is_flag(self) -> bool {
        matches!(self, Parameter::Backup | Parameter::Down | Parameter::Drain)
    }
}

/// What is to become of a server.
#[derive(Debug, Default)]
pub(crate) struct ServerChange {
    values: Vec<(Parameter, String)>,
    flags: Vec<(Parameter, bool)>,
}

impl ServerChange {
    /// Another value.
    pub(crate) fn set(&mut self, parameter: Parameter, value: String) {
        self.values.push((parameter, value));
    }

    /// A flag on, or off.
    pub(crate) fn turn(&mut self, flag: Parameter, on: bool) {
        self.flags.push((flag, on));
    }

    /// Whether nothing is to be changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.flags.is_empty()
    }

    /// Whether the address is among the changes.
    pub(crate) fn has_server(&self) -> bool {
        self.value(Parameter::Server).is_some()
    }

    /// The last value of a parameter.
    fn value(&self, wanted: Parameter) -> Option<&str> {
        let mut values = self.values.iter().rev();
        let found = values.find(|(parameter, _)| *parameter == wanted);
        found.map(|(_, value)| value.as_str())
    }

    /// The settings after the change. `resolves`: names can be looked up.
    ///
    /// # Errors
    /// What is wrong with a value.
    pub(crate) fn applied_to(
        &self,
        before: ServerSettings,
        resolves: bool,
    ) -> Result<ServerSettings, ChangeError> {
        let mut settings = before;
        if let Some(server) = self.value(Parameter::Server) {
            let service = self.value(Parameter::Service);
            set_address(&mut settings, server, service, resolves)?;
        }
        for (parameter, value) in &self.values {
            if !matches!(parameter, Parameter::Server | Parameter::Service) {
                set_value(&mut settings, *parameter, value)?;
            }
        }
        for (flag, on) in &self.flags {
            match flag {
                Parameter::Backup => settings.backup = *on,
                // As in the configuration, the last of the two counts.
                Parameter::Down => {
                    settings.down = *on;
                    settings.drain &= !*on;
                }
                Parameter::Drain => {
                    settings.drain = *on;
                    settings.down &= !*on;
                }
                _ => {}
            }
        }
        Ok(settings)
    }
}

/// The address, which is looked up at run time if it is a name.
fn set_address(
    settings: &mut ServerSettings,
    server: &str,
    service: Option<&str>,
    resolves: bool,
) -> Result<(), ChangeError> {
    let mut is_name = service.is_some();
    let line = line_of(&[server.as_bytes()]);
    let read = read_block("upstream", &line, &mut |_| {
        is_name = true;
        Err(io::ErrorKind::NotFound.into())
    });
    let mut of = (Parameter::Server, read);
    if is_name {
        if !resolves {
            return Err(ChangeError::NoResolver(server.to_owned()));
        }
        let mut words = vec![server.as_bytes().to_vec(), b"resolve".to_vec()];
        if let Some(service) = service {
            words.push(format!("service={service}").into_bytes());
            of.0 = Parameter::Service;
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        of.1 = read_block("upstream", &line_of(&words), &mut no_host);
    }
    let group =
        of.1.map_err(|error| ChangeError::invalid(of.0, &error.message))?;
    let found = groups::servers(&group).into_iter().next();
    let found = found.ok_or_else(|| ChangeError::invalid(Parameter::Server, "no address"))?;
    settings.name = found.name;
    settings.addresses = found.addresses;
    settings.lookup = found.lookup;
    Ok(())
}

fn set_value(
    settings: &mut ServerSettings,
    parameter: Parameter,
    value: &str,
) -> Result<(), ChangeError> {
    let name = parameter.name();
    // No route is the default one, which only a change needs to say.
    if parameter == Parameter::Route && value.is_empty() {
        settings.route = None;
        return Ok(());
    }
    let written = format!("{name}={value}");
    let line = line_of(&[b"127.0.0.1", written.as_bytes()]);
    let group = read_block("upstream", &line, &mut no_host);
    let group = group.map_err(|error| ChangeError::invalid(parameter, &error.message))?;
    let Some(found) = groups::servers(&group).into_iter().next() else {
        return Err(ChangeError::invalid(parameter, "no value"));
    };
    match parameter {
        Parameter::Weight => settings.weight = found.weight,
        Parameter::MaxConns => settings.max_conns = found.max_conns,
        Parameter::MaxFails => settings.max_fails = found.max_fails,
        Parameter::FailTimeout => settings.fail_timeout = found.fail_timeout,
        Parameter::SlowStart => settings.slow_start = found.slow_start,
        Parameter::Route => settings.route = found.route,
        _ => {}
    }
    Ok(())
}

fn no_host(_: &str) -> io::Result<Vec<IpAddr>> {
    Err(io::ErrorKind::NotFound.into())
}

/// A `server` line of these words.
fn line_of(words: &[&[u8]]) -> Vec<u8> {
    let mut line = b"server".to_vec();
    for text in words {
        line.push(b' ');
        line.extend(word(text));
    }
    line.push(b';');
    line
}

/// What would stand in an `upstream` block, and its servers.
///
/// # Errors
/// What is wrong with it, in the words of the configuration.
pub(crate) fn block(name: &str, text: &[u8]) -> Result<(Upstream, Vec<ServerSettings>), String> {
    let group = read_block(name, text, &mut no_host);
    let group = group.map_err(|error| match error.help {
        Some(help) => format!("{}; {help}", error.message),
        None => error.message,
    })?;
    let named = group
        .servers
        .iter()
        .find(|server| matches!(server.peers, UpstreamPeers::Resolved { .. }));
    if let Some(named) = named {
        return Err(format!(
            "\"{}\" is a name: only addresses can be used here",
            named.name
        ));
    }
    if group.store.is_some() {
        return Err("\"upstream_store\" cannot be used here".to_owned());
    }
    let servers = groups::servers(&group);
    Ok((group, servers))
}

/// The address of a server as it is shown: a name if that is looked up.
pub(crate) fn shown_server(entry: &ServerEntry) -> String {
    match (&entry.settings.lookup, entry.settings.addresses.first()) {
        (None, Some(address)) => address.to_string(),
        _ => entry.settings.name.clone(),
    }
}

/// The `server` lines of a group.
pub(crate) fn lines(servers: &ServerList) -> Vec<u8> {
    let mut text = Vec::new();
    for entry in servers.entries() {
        let server = shown_server(entry).into_bytes();
        let parameters = parameters(&entry.settings);
        let mut words: Vec<&[u8]> = vec![&server];
        words.extend(parameters.iter().map(Vec::as_slice));
        text.extend(line_of(&words));
        text.push(b'\n');
    }
    text
}

/// The parameters of a server that are not the defaults, as words.
pub(crate) fn parameters(settings: &ServerSettings) -> Vec<Vec<u8>> {
    let default = ServerSettings::new("", Vec::new());
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut number = |name: &str, value: u32, default: u32| {
        if value != default {
            words.push(format!("{name}={value}").into_bytes());
        }
    };
    number("weight", settings.weight, default.weight);
    number("max_conns", settings.max_conns, default.max_conns);
    number("max_fails", settings.max_fails, default.max_fails);
    if settings.fail_timeout != default.fail_timeout {
        let timeout = shown_time(settings.fail_timeout);
        words.push(format!("fail_timeout={timeout}").into_bytes());
    }
    if settings.slow_start != default.slow_start {
        let time = shown_time(settings.slow_start);
        words.push(format!("slow_start={time}").into_bytes());
    }
    if let Some(route) = &settings.route {
        words.push([b"route=", &**route].concat());
    }
    for (is_on, flag) in [
        (settings.backup, "backup"),
        (settings.down, "down"),
        (settings.drain, "drain"),
    ] {
        if is_on {
            words.push(flag.into());
        }
    }
    if let Some(lookup) = &settings.lookup {
        words.push(b"resolve".to_vec());
        if let Some(service) = &lookup.service {
            words.push(format!("service={service}").into_bytes());
        }
    }
    words
}

/// `10s`, or `1500ms`.
pub(crate) fn shown_time(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}
