//! `resolver` and `resolver_timeout` of ngx_http_core_module.

use super::{Arity, HSL_STREAM_MAIL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::input::addresses_of;
use crate::model::{Resolver, ServerKind};
use crate::parser::errno_text;
use crate::upstream_url::{HostKind, UpstreamUrl, UriPart};
use crate::values;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Port of a name server when none is written.
const DNS_PORT: u16 = 53;

pub(super) const MODULE: Module = Module {
    title: "HTTP: name lookups",
    doc: "Name servers for names that are resolved at run time: `proxy_pass` with variables, and \
          `server ... resolve` in `upstream`.",
    rows: &[
        Row::new(
            "resolver",
            HSL_STREAM_MAIL,
            Arity::AtLeast(1),
            "",
            "Addresses or names of name servers, queried in round-robin order; the default port is \
             53. `valid=` overrides the TTL of answers. `ipv4=off` and `ipv6=off` disable lookups \
             of A and AAAA records. In `mail`, they are asked for the names of clients of SMTP; \
             `off` there means none.",
            resolver,
        ),
        Row::new(
            "resolver_file",
            HSL_STREAM_MAIL,
            ONE,
            "",
            "File with `nameserver` lines, such as `/etc/resolv.conf`, in the place of `resolver`, \
             as in Tengine. It is read with the configuration; reload after it has changed.",
            |b, c| {
                c.once(&b.location().resolver)?;
                let resolver = from_file(b, c)?;
                b.location().resolver = Some(resolver);
                Ok(())
            },
        )
        .own(),
        Row::new(
            "resolver_timeout",
            HSL_STREAM_MAIL,
            ONE,
            "30s",
            "Timeout for name resolution.",
            |b, c| c.time(&mut b.location().resolver_timeout),
        ),
    ],
};

fn resolver(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().resolver)?;
    if b.kind() == ServerKind::Mail {
        if b.server().mail.resolver_off {
            return Err(c.refuse("is duplicate"));
        }
        if c.arg(1) == b"off" {
            b.server().mail.resolver_off = true;
            return Ok(());
        }
    }
    let resolver = parse(b, c)?;
    b.location().resolver = Some(resolver);
    Ok(())
}

/// The arguments of a `resolver` directive.
pub(super) fn parse(b: &mut Build<'_>, c: &Call<'_>) -> Result<Arc<Resolver>, Fault> {
    let mut resolver = Resolver {
        status_zone: None,
        servers: Vec::new(),
        valid: None,
        ipv4: true,
        ipv6: true,
    };
    for (index, word) in c.args() {
        let invalid = || Fault::at(index, format!("invalid parameter: {}", shown(word)));
        let on_off = |value: &[u8]| match value {
            b"on" => Ok(true),
            b"off" => Ok(false),
            _ => Err(invalid()),
        };
        if let Some(value) = word.strip_prefix(b"valid=") {
            resolver.valid = Some(values::seconds(value).ok_or_else(invalid)?);
        } else if let Some(value) = word.strip_prefix(b"ipv4=") {
            resolver.ipv4 = on_off(value)?;
        } else if let Some(value) = word.strip_prefix(b"ipv6=") {
            resolver.ipv6 = on_off(value)?;
        } else if let Some(value) = word.strip_prefix(b"status_zone=") {
            let name = std::str::from_utf8(value).map_err(|_| invalid())?;
            if name.is_empty() {
                return Err(invalid());
            }
            resolver.status_zone = Some(name.into());
        } else {
            add_server(b, index, word, &mut resolver.servers)?;
        }
    }
    if !resolver.ipv4 && !resolver.ipv6 {
        return Err(Fault::new("\"ipv4\" and \"ipv6\" cannot both be \"off\""));
    }
    if resolver.servers.is_empty() {
        return Err(Fault::new("no name servers defined"));
    }
    Ok(Arc::new(resolver))
}

/// The `nameserver` lines of a file.
fn from_file(b: &mut Build<'_>, c: &Call<'_>) -> Result<Arc<Resolver>, Fault> {
    let path = b.options.beside_conf(c.path(1));
    let text = b.loader.read(&path).map_err(|error| {
        let (path, error) = (path.display(), errno_text(&error));
        Fault::at(1, format!("open() \"{path}\" failed ({error})"))
    })?;
    let mut servers = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = line.split(u8::is_ascii_whitespace);
        let mut words = words.by_ref().filter(|word| !word.is_empty());
        if words.next() != Some(b"nameserver") {
            continue;
        }
        let address = words.next().and_then(|word| std::str::from_utf8(word).ok());
        // A link-local address has a zone, which a name server of a resolver cannot have.
        let address = address.and_then(|address| address.parse::<IpAddr>().ok());
        servers.extend(address.map(|address| SocketAddr::new(address, DNS_PORT)));
    }
    if servers.is_empty() {
        let message = format!("no name servers in \"{}\"", path.display());
        return Err(Fault::at(1, message));
    }
    Ok(Arc::new(Resolver {
        status_zone: None,
        servers,
        valid: None,
        ipv4: true,
        ipv6: true,
    }))
}

fn add_server(
    b: &mut Build<'_>,
    index: usize,
    written: &[u8],
    servers: &mut Vec<SocketAddr>,
) -> Result<(), Fault> {
    let fault = |reason: &str| {
        let message = format!("{reason} in resolver \"{}\"", shown(written));
        Fault::at(index, message)
    };
    let url = UpstreamUrl::parse(written, DNS_PORT, UriPart::Refused).map_err(fault)?;
    let addresses = match url.kind {
        HostKind::Unix => {
            return Err(fault("invalid host").help("a name server has an IP address"));
        }
        HostKind::Address(address) => vec![address],
        HostKind::Name => addresses_of(b.loader, url.host),
    };
    if addresses.is_empty() {
        return Err(fault("host not found"));
    }
    let addresses = addresses.into_iter();
    servers.extend(addresses.map(|address| SocketAddr::new(address, url.port)));
    Ok(())
}
