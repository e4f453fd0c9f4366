//! ngx_http_geoip2_module.

use super::real_ip::network;
use super::{HTTP, Module, ONE, Row, STREAM};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::lexer::Word;
use crate::lists::ListBlock;
use crate::model::{
    GeoDatabase, GeoIp2Metadata, GeoIp2Value, GeoIp2Variable, Getter, Origin, PeerNetwork,
};
use crate::{template, values};
use std::sync::Arc;
use std::time::Duration;

pub(super) const MODULE: Module = Module {
    title: "HTTP: databases of addresses (GeoIP2)",
    doc: "As ngx_http_geoip2_module: variables from databases in MaxMind's format (`.mmdb`), such \
          as GeoLite2 and those of other providers.",
    rows: &[
        Row::block(
            "geoip2",
            HTTP | STREAM,
            ONE,
            "Reads a database and defines variables: `$name [default=text] [source=$variable] \
             path...`, where the path leads to a value of the address's record (`country iso_code`, \
             `subdivisions 0 names en`). The address is the client's, unless `source` names \
             another; a value that is not found is `default`. `$name metadata build_epoch`, \
             `last_change` or `last_check` is a time in seconds since 1970. With `auto_reload \
             time` a file that has changed is used without a reload, once it is complete; one that \
             cannot be used draws a line in the log, and the one before stays.",
            geoip2,
        )
        .own(),
        Row::new(
            "geoip2_proxy",
            HTTP | STREAM,
            ONE,
            "",
            "Network of proxies whose `X-Forwarded-For` names the address to look up, for \
             variables without `source`. May occur several times.",
            |b, c| {
                let Some((network, cut)) = network(c.arg(1)) else {
                    let written = c.shown(1);
                    return Err(Fault::at(1, format!("invalid network \"{written}\"")));
                };
                if cut {
                    let written = c.shown(1);
                    b.warn(format!("low address bits of {written} are meaningless"));
                }
                b.http.geoip2.proxies.push(PeerNetwork::Network(network));
                Ok(())
            },
        )
        .own(),
        Row::new(
            "geoip2_proxy_recursive",
            HTTP | STREAM,
            ONE,
            "off",
            "Whether the address is the last one in `X-Forwarded-For` that is not of a proxy \
             itself, instead of the last one.",
            |b, c| c.flag(&mut b.http.geoip2.proxy_recursive),
        )
        .own(),
    ],
};

/// A `geoip2` block that is open: its database is the last.
struct Open;

fn geoip2(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let path = b.options.under_prefix(c.path(1));
    let databases = &mut b.http.geoip2.databases;
    if databases.iter().any(|known| known.path == path) {
        return Err(Fault::at(
            1,
            format!("Duplicate GeoIP2 mmdb - {}", path.display()),
        ));
    }
    databases.push(GeoDatabase {
        path,
        auto_reload: None,
    });
    b.opening = Some(Opening::List(Box::new(Open)));
    Ok(())
}

impl ListBlock for Open {
    fn line(&mut self, b: &mut Build<'_>, words: &[Word], origin: &Origin) -> Result<(), Fault> {
        let Some((first, rest)) = words.split_first() else {
            return Ok(());
        };
        match &first.bytes[..] {
            [b'$', name @ ..] => variable(b, name, rest, origin),
            b"auto_reload" => auto_reload(b, rest),
            other => Err(Fault::new(format!("invalid setting \"{}\"", shown(other)))),
        }
    }

    fn includes(&self) -> bool {
        true
    }

    fn end(self: Box<Self>, _: &mut Build<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

fn auto_reload(b: &mut Build<'_>, words: &[Word]) -> Result<(), Fault> {
    let [interval] = words else {
        return Err(Fault::new("invalid number of arguments for auto_reload"));
    };
    let seconds = values::seconds(&interval.bytes).ok_or_else(|| {
        let written = shown(&interval.bytes);
        Fault::at(1, format!("invalid interval for auto_reload \"{written}\""))
    })?;
    if let Some(database) = b.http.geoip2.databases.last_mut() {
        database.auto_reload = Some(seconds).filter(|seconds| *seconds > Duration::ZERO);
    }
    Ok(())
}

fn variable(b: &mut Build<'_>, name: &[u8], words: &[Word], origin: &Origin) -> Result<(), Fault> {
    let name = std::str::from_utf8(name)
        .map_err(|_| Fault::new(format!("invalid variable name \"${}\"", shown(name))))?;
    let value = match words {
        [first, rest @ ..] if first.bytes == b"metadata" => metadata(rest)?,
        words => data(b, name, words, origin)?,
    };
    let getter = Getter::GeoIp2(Arc::new(GeoIp2Variable {
        database: b.http.geoip2.databases.len() - 1,
        value,
    }));
    b.names.define_as(name, getter).map(drop)
}

fn metadata(words: &[Word]) -> Result<GeoIp2Value, Fault> {
    let field = match words {
        [field] => &field.bytes[..],
        _ => b"",
    };
    let field = match field {
        b"build_epoch" => GeoIp2Metadata::BuildEpoch,
        b"last_check" => GeoIp2Metadata::LastCheck,
        b"last_change" => GeoIp2Metadata::LastChange,
        other => {
            let fault = Fault::new(format!("invalid metadata field \"{}\"", shown(other)));
            return Err(fault.help("one of \"build_epoch\", \"last_check\" and \"last_change\""));
        }
    };
    Ok(GeoIp2Value::Metadata(field))
}

fn data(
    b: &mut Build<'_>,
    name: &str,
    words: &[Word],
    origin: &Origin,
) -> Result<GeoIp2Value, Fault> {
    let (mut default, mut source) = (None, None);
    let is_option = |word: &&Word| word.bytes.contains(&b'=');
    let options = words.iter().take_while(is_option).count();
    let (options, path) = words.split_at(options);
    for (index, word) in options.iter().enumerate() {
        let twice = |what| Fault::new(format!("{what} has already been declared for  \"${name}\""));
        if let Some(text) = word
            .bytes
            .strip_prefix(b"default=")
            .filter(|it| !it.is_empty())
        {
            if default.replace(text).is_some() {
                return Err(twice("default"));
            }
        } else if let Some(text) = word
            .bytes
            .strip_prefix(b"source=")
            .filter(|it| !it.is_empty())
        {
            if source.is_some() {
                return Err(twice("source"));
            }
            if !text.starts_with(b"$") {
                let written = shown(text);
                return Err(Fault::new(format!(
                    "invalid source variable name \"{written}\""
                )));
            }
            source = Some(template::compile(&mut b.names, text, index + 1, origin)?);
        } else {
            let written = shown(&word.bytes);
            return Err(Fault::new(format!(
                "invalid setting \"{written}\" for \"${name}\""
            )));
        }
    }
    let path: Option<Box<[Box<str>]>> = path
        .iter()
        .map(|word| std::str::from_utf8(&word.bytes).ok().map(Box::from))
        .collect();
    let path = path.ok_or_else(|| Fault::new(format!("invalid path for \"${name}\"")))?;
    if path.is_empty() {
        let fault = Fault::new(format!("no path for \"${name}\""));
        return Err(fault.help("name what to look up, such as \"country iso_code\""));
    }
    Ok(GeoIp2Value::Data {
        source,
        default: default.unwrap_or_default().into(),
        path,
    })
}
