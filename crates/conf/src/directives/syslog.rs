//! `syslog:` as the destination of `error_log` and `access_log`.

use crate::build::Build;
use crate::call::{Fault, shown};
use crate::input::addresses_of;
use crate::model::{PeerAddress, SyslogServer};
use crate::parser::path_of;
use crate::upstream_url::{HostKind, UpstreamUrl, UriPart};
use std::net::SocketAddr;

/// What a destination begins with that goes to syslog.
pub(super) const PREFIX: &[u8] = b"syslog:";

/// UDP port of a server that names none.
const SYSLOG_PORT: u16 = 514;

/// Longest tag, by RFC 3164.
const MAX_TAG_BYTES: usize = 32;

/// By their numbers.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv",
    "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// By their numbers.
const SEVERITIES: [&str; 8] = [
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
];

const LOCAL7: u8 = 23;
const INFO: u8 = 6;

/// Reads `syslog:server=ADDRESS,...`, the first argument of a directive. The
/// server's name is looked up here.
pub(super) fn parse(b: &mut Build<'_>, written: &[u8]) -> Result<SyslogServer, Fault> {
    let fault = |message: String| Fault::at(1, message);
    let duplicate = |what: &str| fault(format!("duplicate syslog \"{what}\""));
    let (mut server, mut facility, mut severity, mut tag) = (None, None, None, None);
    let mut hostname = Some(b.options.hostname.clone());
    for parameter in written[PREFIX.len()..].split(|byte| *byte == b',') {
        if let Some(address) = parameter.strip_prefix(b"server=") {
            if server.is_some() {
                return Err(duplicate("server"));
            }
            server = Some((address_of(b, address)?, shown(address).to_string()));
        } else if let Some(name) = parameter.strip_prefix(b"facility=") {
            if facility.is_some() {
                return Err(duplicate("facility"));
            }
            facility = Some(number_of(&FACILITIES, "facility", name)?);
        } else if let Some(name) = parameter.strip_prefix(b"severity=") {
            if severity.is_some() {
                return Err(duplicate("severity"));
            }
            severity = Some(number_of(&SEVERITIES, "severity", name)?);
        } else if let Some(text) = parameter.strip_prefix(b"tag=") {
            if tag.is_some() {
                return Err(duplicate("tag"));
            }
            tag = Some(tag_of(text)?);
        } else if parameter == b"nohostname" {
            hostname = None;
        } else {
            let parameter = shown(parameter);
            return Err(fault(format!("unknown syslog parameter \"{parameter}\"")));
        }
    }
    let (address, written) = server.ok_or_else(|| fault("no syslog server specified".into()))?;
    Ok(SyslogServer {
        address,
        written,
        facility: facility.unwrap_or(LOCAL7),
        severity: severity.unwrap_or(INFO),
        tag: tag.unwrap_or_else(|| "nginx".into()),
        hostname,
    })
}

fn address_of(b: &mut Build<'_>, written: &[u8]) -> Result<PeerAddress, Fault> {
    let fault = |reason: &str| {
        let message = format!("{reason} in syslog server \"{}\"", shown(written));
        Fault::at(1, message)
    };
    let url = UpstreamUrl::parse(written, SYSLOG_PORT, UriPart::Refused).map_err(fault)?;
    let address = match url.kind {
        HostKind::Unix => return Ok(PeerAddress::Unix(path_of(url.host.as_bytes()).to_owned())),
        HostKind::Address(address) => Some(address),
        HostKind::Name => addresses_of(b.loader, url.host).into_iter().next(),
    };
    let address = address.ok_or_else(|| fault("host not found"))?;
    Ok(PeerAddress::Inet(SocketAddr::new(address, url.port)))
}

fn number_of(names: &[&str], what: &str, name: &[u8]) -> Result<u8, Fault> {
    let found = names.iter().position(|known| known.as_bytes() == name);
    let unknown = || Fault::at(1, format!("unknown syslog {what} \"{}\"", shown(name)));
    found.map(|number| number as u8).ok_or_else(unknown)
}

fn tag_of(text: &[u8]) -> Result<String, Fault> {
    if text.len() > MAX_TAG_BYTES {
        return Err(Fault::at(1, "syslog tag length exceeds 32"));
    }
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if !text.iter().all(allowed) {
        let message = "syslog \"tag\" only allows alphanumeric characters and underscore";
        return Err(Fault::at(1, message));
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}
