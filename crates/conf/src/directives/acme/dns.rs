//! How TXT records of DNS-01 are made.

use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{AcmeDns, DnsCommand, DnsListen, DnsUpdate, is_dns_name};
use crate::values;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// Port of a DNS server when none is written.
const DNS_PORT: u16 = 53;

/// Addresses of one `dns_listen`.
const MAX_ADDRESSES: usize = 16;

/// `wait=` of `dns_update` and `dns_command`.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

/// `timeout=` of `dns_command`, and the longest.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// An issuer has one way to make records.
fn only_one(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    match b.acme_issuer().dns.as_ref().map(AcmeDns::directive) {
        None => Ok(()),
        Some(other) if other != c.row.name => {
            Err(c.refuse(&format!("is not used together with \"{other}\"")))
        }
        Some(_) => Err(c.refuse("is duplicate")),
    }
}

fn address(written: &str) -> Option<SocketAddr> {
    let bare = || written.parse::<IpAddr>().ok();
    let with_port = written.parse::<SocketAddr>().ok();
    with_port.or_else(|| Some(SocketAddr::new(bare()?, DNS_PORT)))
}

fn zone_name(c: &Call<'_>, index: usize, written: &str) -> Result<String, Fault> {
    let zone = written.strip_suffix('.').unwrap_or(written);
    let zone = zone.to_ascii_lowercase();
    match is_dns_name(&zone) {
        true => Ok(zone),
        false => Err(c.invalid_parameter(index)),
    }
}

pub(super) fn update(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    only_one(b, c)?;
    let written = c.text(1)?;
    let server = address(written).ok_or_else(|| {
        c.invalid(1)
            .help("it is the address of a DNS server, as in 192.0.2.53 or [2001:db8::53]:53")
    })?;
    let mut update = DnsUpdate {
        server,
        zone: None,
        key: None,
        wait: DEFAULT_WAIT,
    };
    for (index, word) in c.args().skip(1) {
        let word = c.utf8(index, word)?;
        match word.split_once('=') {
            Some(("zone", zone)) if update.zone.is_none() => {
                update.zone = Some(zone_name(c, index, zone)?);
            }
            Some(("key", path)) if update.key.is_none() && !path.is_empty() => {
                update.key = Some(b.options.beside_conf(Path::new(path)));
            }
            Some(("wait", time)) => {
                let wait = values::seconds(time.as_bytes());
                update.wait = wait.ok_or_else(|| c.invalid_parameter(index))?;
            }
            _ => return Err(c.invalid_parameter(index)),
        }
    }
    b.acme_issuer().dns = Some(AcmeDns::Update(update));
    Ok(())
}

pub(super) fn command(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    only_one(b, c)?;
    let program = c.path(1);
    if !program.is_absolute() {
        return Err(c
            .invalid(1)
            .help("the path of the program is absolute: no shell looks for it"));
    }
    let mut command = DnsCommand {
        program: program.to_owned(),
        user: None,
        zone: None,
        timeout: DEFAULT_TIMEOUT,
        wait: DEFAULT_WAIT,
    };
    for (index, word) in c.args().skip(1) {
        let word = c.utf8(index, word)?;
        let time = |time: &str| {
            let time = values::seconds(time.as_bytes());
            time.ok_or_else(|| c.invalid_parameter(index))
        };
        match word.split_once('=') {
            Some(("user", user)) if command.user.is_none() && !user.is_empty() => {
                command.user = Some(user.to_owned());
            }
            Some(("zone", zone)) if command.zone.is_none() => {
                command.zone = Some(zone_name(c, index, zone)?);
            }
            Some(("timeout", written)) => {
                command.timeout = time(written)?;
                if command.timeout.is_zero() || command.timeout > MAX_TIMEOUT {
                    return Err(c
                        .invalid_parameter(index)
                        .help("it is between 1 and 600 seconds"));
                }
            }
            Some(("wait", written)) => command.wait = time(written)?,
            _ => return Err(c.invalid_parameter(index)),
        }
    }
    b.acme_issuer().dns = Some(AcmeDns::Command(command));
    Ok(())
}

pub(super) fn listen(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    only_one(b, c)?;
    let (mut addresses, mut name_server, mut zone) = (Vec::new(), None, None);
    for (index, word) in c.args() {
        let word = c.utf8(index, word)?;
        match word.split_once('=') {
            Some(("ns", name)) if name_server.is_none() => {
                name_server = Some(zone_name(c, index, name)?);
            }
            Some(("zone", name)) if zone.is_none() => zone = Some(zone_name(c, index, name)?),
            Some(_) => return Err(c.invalid_parameter(index)),
            None => {
                let address = address(word).ok_or_else(|| {
                    c.invalid(index)
                        .help("it is an address of this machine, as in 192.0.2.53 or 192.0.2.53:53")
                })?;
                if address.ip().is_unspecified() || address.port() == 0 {
                    return Err(c.invalid(index).help(
                        "write the address itself, with its port if that is not 53: answers come \
                         from the address that was asked",
                    ));
                }
                if addresses.contains(&address) {
                    return Err(c.refuse_arg(index, "has this address twice"));
                }
                if addresses.len() == MAX_ADDRESSES {
                    return Err(c.refuse_arg(index, "has more than 16 addresses"));
                }
                addresses.push(address);
            }
        }
    }
    if addresses.is_empty() {
        return Err(c.refuse("has no address"));
    }
    let name_server = name_server.ok_or_else(|| {
        c.refuse("has no \"ns=\"")
            .help("it is the name that NS records give this server")
    })?;
    b.acme_issuer().dns = Some(AcmeDns::Listen(DnsListen {
        addresses,
        name_server,
        zone,
    }));
    Ok(())
}
