//! ngx_http_upstream_sticky_module: clients that belong to a server.

use super::zones;
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::ZoneUse;
use crate::model::{Sticky, StickyCookie, StickyExpires, StickyLearn, Variable, is_same_site};
use crate::template;
use crate::values;
use std::time::Duration;

/// Smallest zone of `learn`, as in nginx: eight memory pages.
const MIN_ZONE_BYTES: u64 = 8 * 4096;
/// `timeout=` of `learn`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// `sticky cookie|route|learn ...`.
pub(super) fn sticky(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.upstream().sticky)?;
    let sticky = match c.arg(1) {
        b"cookie" => Sticky::Cookie(Box::new(cookie(b, c)?)),
        b"route" => Sticky::Route(route(b, c)?),
        b"learn" => Sticky::Learn(Box::new(learn(b, c)?)),
        other => {
            let message = format!("unknown parameter \"{}\"", shown(other));
            let help = "write \"sticky cookie NAME\", \"sticky route $VARIABLE\" or \"sticky \
                        learn create=$VARIABLE lookup=$VARIABLE zone=NAME:SIZE\"";
            return Err(Fault::at(1, message).help(help));
        }
    };
    b.upstream().sticky = Some(sticky);
    Ok(())
}

fn unknown(c: &Call<'_>, index: usize) -> Fault {
    Fault::at(index, format!("unknown parameter \"{}\"", c.shown(index)))
}

fn cookie(b: &mut Build<'_>, c: &Call<'_>) -> Result<StickyCookie, Fault> {
    let name = c.text(2)?;
    if name.is_empty() {
        return Err(c.refuse("empty cookie name"));
    }
    let mut cookie = StickyCookie {
        name: name.into(),
        received: b.names.variable(&format!("cookie_{name}"), &c.origin)?,
        expires: None,
        domain: None,
        http_only: false,
        secure: false,
        same_site: None,
        path: None,
    };
    for (index, word) in c.args().skip(2) {
        let equals = memchr::memchr(b'=', word).map_or(word.len(), |at| at + 1);
        let (name, value) = word.split_at(equals);
        let duplicate = |is_there: bool| match is_there {
            true => {
                let name = shown(name.strip_suffix(b"=").unwrap_or(name));
                Err(c.refuse_arg(index, &format!("parameter \"{name}\" is duplicate")))
            }
            false => Ok(()),
        };
        match name {
            b"domain=" => {
                duplicate(cookie.domain.is_some())?;
                if value.is_empty() {
                    return Err(c.refuse_arg(index, "no value for \"domain\""));
                }
                let domain = template::compile(&mut b.names, value, index, &c.origin)?;
                cookie.domain = Some(domain);
            }
            b"path=" => {
                duplicate(cookie.path.is_some())?;
                if value.is_empty() {
                    return Err(c.refuse_arg(index, "no value for \"path\""));
                }
                cookie.path = Some(value.into());
            }
            b"expires=" => {
                duplicate(cookie.expires.is_some())?;
                cookie.expires = Some(match value {
                    b"max" => StickyExpires::Max,
                    _ => {
                        let invalid = || c.refuse_arg(index, "invalid \"expires\" parameter value");
                        StickyExpires::After(values::seconds(value).ok_or_else(invalid)?)
                    }
                });
            }
            b"httponly" => {
                duplicate(cookie.http_only)?;
                cookie.http_only = true;
            }
            b"secure" => {
                duplicate(cookie.secure)?;
                cookie.secure = true;
            }
            b"samesite=" => {
                duplicate(cookie.same_site.is_some())?;
                let same_site = template::compile(&mut b.names, value, index, &c.origin)?;
                let is_known = same_site.as_literal().is_none_or(is_same_site);
                if !is_known {
                    let what = "invalid \"samesite\" parameter value";
                    return Err(c.refuse_arg(index, what).help("strict, lax, or none"));
                }
                cookie.same_site = Some(same_site);
            }
            _ => return Err(unknown(c, index)),
        }
    }
    Ok(cookie)
}

fn route(b: &mut Build<'_>, c: &Call<'_>) -> Result<Vec<Variable>, Fault> {
    let mut variables = Vec::with_capacity(c.count() - 1);
    for index in 2..=c.count() {
        let name = c.variable_name(index)?;
        variables.push(b.names.variable(name, &c.origin)?);
    }
    Ok(variables)
}

fn learn(b: &mut Build<'_>, c: &Call<'_>) -> Result<StickyLearn, Fault> {
    let (mut create, mut lookup) = (Vec::new(), Vec::new());
    let mut zone: Option<(Box<str>, u64)> = None;
    let mut timeout = None;
    let (mut after_header, mut sync) = (false, false);
    for (index, word) in c.args().skip(1) {
        let equals = memchr::memchr(b'=', word).map_or(word.len(), |at| at + 1);
        let (name, value) = word.split_at(equals);
        match name {
            b"zone=" => {
                if zone.is_some() {
                    return Err(c.refuse_arg(index, "duplicate zone"));
                }
                zone = Some(zone_of(c, index, value)?);
            }
            b"timeout=" => {
                if timeout.is_some() {
                    return Err(c.refuse_arg(index, "duplicate timeout"));
                }
                let time = values::time(value).filter(|time| !time.is_zero());
                timeout = Some(time.ok_or_else(|| c.refuse_arg(index, "invalid timeout"))?);
            }
            b"create=" | b"lookup=" => {
                let Some(variable) = value.strip_prefix(b"$") else {
                    let name = shown(&name[..name.len() - 1]);
                    let what = format!("missing variable in the \"{name}\" parameter");
                    return Err(c.refuse_arg(index, &what));
                };
                let variable = b.names.variable(c.utf8(index, variable)?, &c.origin)?;
                match name {
                    b"create=" => create.push(variable),
                    _ => lookup.push(variable),
                }
            }
            b"header" => after_header = true,
            b"sync" => sync = true,
            _ => return Err(unknown(c, index)),
        }
    }
    for (name, is_missing) in [("lookup", lookup.is_empty()), ("create", create.is_empty())] {
        if is_missing {
            return Err(c.refuse(&format!("\"{name}\" parameter is not specified")));
        }
    }
    let Some((zone, zone_bytes)) = zone else {
        return Err(c.refuse("\"zone\" parameter is not specified"));
    };
    declare(b, &zone)?;
    Ok(StickyLearn {
        create,
        lookup,
        zone,
        zone_bytes,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        after_header,
        sync,
    })
}

fn zone_of(c: &Call<'_>, index: usize, value: &[u8]) -> Result<(Box<str>, u64), Fault> {
    let Some(colon) = memchr::memchr(b':', value) else {
        return Err(c.refuse_arg(index, "zone size is not specified"));
    };
    let (name, size) = (&value[..colon], &value[colon + 1..]);
    if name.is_empty() {
        return Err(c.refuse_arg(index, "zone name is not specified"));
    }
    let Some(bytes) = values::size(size) else {
        return Err(c.refuse_arg(index, "invalid zone size"));
    };
    if bytes < MIN_ZONE_BYTES {
        let fault = c.refuse_arg(index, "zone is too small");
        return Err(fault.help(format!("the minimum is {MIN_ZONE_BYTES} bytes")));
    }
    Ok((c.utf8(index, name)?.into(), bytes))
}

/// A zone belongs to one upstream.
fn declare(b: &mut Build<'_>, zone: &str) -> Result<(), Fault> {
    zones::claim(b, zone, ZoneUse::Sticky)?;
    let upstream = b.upstream().name.to_string();
    if let Some(other) = b.http.sticky_zones.get(zone) {
        let message = format!("sticky zone \"{zone}\" is already used in upstream \"{other}\"");
        return Err(Fault::new(message).help("give each upstream a zone of its own"));
    }
    b.http.sticky_zones.insert(zone.to_owned(), upstream);
    Ok(())
}
