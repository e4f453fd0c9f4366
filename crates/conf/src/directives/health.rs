//! Active health checks: those of nginx's commercial edition (ngx_http_upstream_hc_module) and
//! Tengine's (ngx_http_upstream_check_module).

use super::{Arity, Check as Value, HTTP, LOCATION, Module, ONE, Row, UPSTREAM};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::draft::MatchDraft;
use crate::lexer::Word;
use crate::lists::ListBlock;
use crate::model::{
    CheckFormat, CheckKind, CheckParam, ContentHandler, HeaderRule, HeaderTest, HealthCheck,
    HealthQuestion, Origin, ResponseMatch, StatusTest, StatusView, TextPattern, TextTest,
};
use crate::template;
use crate::values;
use std::sync::Arc;
use std::time::Duration;

/// Shortest time between two checks of a server.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Longest text of `check_http_send`.
const MAX_SEND_BYTES: usize = 4096;

pub(super) const MODULE: Module = Module {
    title: "Health checks",
    doc: "Servers of a group are asked again and again, whether requests come or not, and get none \
          while they fail. A thread of its own asks for all workers; verdicts outlive reloads, \
          worker processes and upgrades. See [health-checks.md](health-checks.md).",
    rows: &[
        Row::new(
            "health_check",
            LOCATION,
            Arity::AtLeast(0),
            "",
            "Checks the servers of the group that the location passes requests to, with the \
             location's protocol, TLS and timeouts. Parameters: `interval=` (5s), `jitter=` (0), \
             `fails=` (1), `passes=` (1) consecutive results that change the verdict, `uri=` \
             (`/`), `match=` a `match` block (a status from 200 to 399), `port=`, \
             `mandatory [persistent]`: a new server gets no requests before it has passed, \
             `type=grpc [grpc_service=] [grpc_status=]`, `keepalive_time=`, `shared`: one node asks for \
             all that have the same `upstream_store`. Verdicts are always persistent.",
            health_check,
        ),
        Row::block(
            "match",
            HTTP,
            ONE,
            "Tests for responses to `health_check ... match=NAME`; a response must pass all: `status \
             [!] CODE|FIRST-LAST ...`, `header [!] NAME`, `header NAME =|!=|~|!~ VALUE`, `body \
             ~|!~ REGEX` (in the first 256k), `require $VARIABLE ...`: none is empty or `0`.",
            response_match,
        ),
        Row::new(
            "check",
            UPSTREAM,
            Arity::AtLeast(0),
            "",
            "Checks the servers of the group, as in Tengine: `interval=` (30000) and `timeout=` \
             (1000) in milliseconds, `fall=` (5) and `rise=` (2) consecutive results that change \
             the verdict, `default_down=` (true): a new server gets no requests before it has \
             passed, `type=tcp|http|ssl_hello|mysql|ajp|fastcgi` (tcp), `port=`; `shared`, which is \
             Sealane's own: one node asks for all that have the same `upstream_store`.",
            check,
        )
        .own(),
        Row::new(
            "check_http_send",
            UPSTREAM,
            ONE,
            "\"GET / HTTP/1.0\\r\\n\\r\\n\"",
            "What `check type=http` sends.",
            |b, c| {
                c.once(&b.upstream().check.send)?;
                if c.arg(1).is_empty() || c.arg(1).len() > MAX_SEND_BYTES {
                    let help = format!("1 to {MAX_SEND_BYTES} bytes can be sent");
                    return Err(c.invalid(1).help(help));
                }
                b.upstream().check.send = Some(c.arg(1).into());
                Ok(())
            },
        )
        .own(),
        Row::new(
            "check_http_expect_alive",
            UPSTREAM,
            Arity::AtLeast(1),
            "http_2xx http_3xx",
            "Classes of status codes with which `check type=http` and `type=fastcgi` pass: \
             `http_1xx` to `http_5xx`.",
            expect_alive,
        )
        .own(),
        Row::new(
            "check_keepalive_requests",
            UPSTREAM,
            ONE,
            "1",
            "Number of checks over one connection.",
            |b, c| {
                c.once(&b.upstream().check.keepalive_requests)?;
                let number = positive(c.arg(1)).ok_or_else(|| c.invalid(1))?;
                b.upstream().check.keepalive_requests = Some(number);
                Ok(())
            },
        )
        .own(),
        Row::new(
            "check_fastcgi_param",
            UPSTREAM,
            Arity::Between(2, 2),
            "",
            "A parameter of the request of `check type=fastcgi`. The default is a GET request for \
             `/` with the usual parameters.",
            |b, c| {
                let params = &mut b.upstream().check.fastcgi_params;
                let params = params.get_or_insert_default();
                params.push(CheckParam {
                    name: c.arg(1).into(),
                    value: c.arg(2).into(),
                });
                Ok(())
            },
        )
        .own(),
        Row::meaningless(
            "check_shm_size",
            HTTP,
            ONE,
            Value::Size,
            "All threads share what is known of servers.",
        )
        .own(),
        Row::new(
            "check_status",
            LOCATION,
            Arity::Between(0, 1),
            "",
            "Responds with what health checks know of all servers: as `html` (the default), `csv` or `json`, or \
             as `?format=` says; with `?status=up` or `?status=down` only of those. Needs an access \
             rule, as `metrics` does.",
            check_status,
        )
        .own(),
    ],
};

/// A number of at least 1.
fn positive(text: &[u8]) -> Option<u32> {
    let number = values::number(text).filter(|number| *number > 0)?;
    u32::try_from(number).ok()
}

fn port(text: &[u8]) -> Option<u16> {
    u16::try_from(values::number(text)?)
        .ok()
        .filter(|port| *port > 0)
}

fn health_check(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mut check = HealthCheck {
        interval: Duration::from_secs(5),
        jitter: Duration::ZERO,
        fails: 1,
        passes: 1,
        mandatory: false,
        question: HealthQuestion::Uri((*b"/").into()),
        expect: None,
        port: None,
        keepalive_time: None,
        shared: false,
        origin: c.origin.clone(),
    };
    let (mut is_grpc, mut service, mut status) = (false, None, None);
    let (mut uri, mut persistent) = (None, None);
    for (index, word) in c.args() {
        let equals = memchr::memchr(b'=', word).map_or(word.len(), |at| at + 1);
        let (name, value) = word.split_at(equals);
        let invalid = || c.invalid_parameter(index);
        match name {
            b"interval=" => {
                let interval = values::time(value).filter(|time| *time >= MIN_INTERVAL);
                check.interval = interval.ok_or_else(|| invalid().help("at least 10ms"))?;
            }
            b"jitter=" => check.jitter = values::time(value).ok_or_else(invalid)?,
            b"fails=" => check.fails = positive(value).ok_or_else(invalid)?,
            b"passes=" => check.passes = positive(value).ok_or_else(invalid)?,
            b"uri=" if value.starts_with(b"/") => uri = Some((index, value)),
            b"match=" if !value.is_empty() => {
                check.expect = Some(match_number(b, c.utf8(index, value)?, &c.origin));
            }
            b"port=" => check.port = Some(port(value).ok_or_else(invalid)?),
            b"mandatory" => check.mandatory = true,
            b"shared" => check.shared = true,
            b"persistent" => persistent = Some(index),
            b"type=" if value == b"grpc" => is_grpc = true,
            b"grpc_service=" => service = Some((index, value)),
            b"grpc_status=" => {
                let number = values::number(value).and_then(|number| u32::try_from(number).ok());
                status = Some((index, number.ok_or_else(invalid)?));
            }
            b"keepalive_time=" => {
                check.keepalive_time = Some(values::time(value).ok_or_else(invalid)?);
            }
            _ => return Err(invalid()),
        }
    }
    if let Some(index) = persistent.filter(|_| !check.mandatory) {
        let help = "it belongs to \"mandatory\"";
        return Err(c.invalid_parameter(index).help(help));
    }
    if is_grpc {
        if let Some((index, _)) = uri {
            return Err(c.invalid_parameter(index).help("\"type=grpc\" has none"));
        }
        if check.expect.is_some() {
            return Err(c.refuse("has both \"type=grpc\" and \"match\""));
        }
        check.question = HealthQuestion::Grpc {
            service: service.map_or_else(Box::default, |(_, service)| service.into()),
            status: status.map(|(_, status)| status),
        };
    } else if let Some(index) = service.map(|(at, _)| at).or(status.map(|(at, _)| at)) {
        let help = "it belongs to \"type=grpc\"";
        return Err(c.invalid_parameter(index).help(help));
    } else if let Some((_, uri)) = uri {
        check.question = HealthQuestion::Uri(uri.into());
    }
    b.location().health_checks.push(Arc::new(check));
    Ok(())
}

/// The number of a `match` block, which may follow.
fn match_number(b: &mut Build<'_>, name: &str, origin: &Origin) -> usize {
    let matches = &mut b.http.response_matches;
    let known = matches.iter().position(|known| *known.name == *name);
    known.unwrap_or_else(|| {
        matches.push(MatchDraft {
            name: name.into(),
            used_at: origin.clone(),
            block: None,
        });
        matches.len() - 1
    })
}

fn response_match(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let name = c.text(1)?;
    let number = match_number(b, name, &c.origin);
    if b.http.response_matches[number].block.is_some() {
        return Err(Fault::at(1, format!("duplicate match \"{name}\"")));
    }
    b.opening = Some(Opening::List(Box::new(OpenMatch {
        number,
        found: ResponseMatch {
            name: name.into(),
            status: None,
            headers: Vec::new(),
            bodies: Vec::new(),
            require: Vec::new(),
        },
    })));
    Ok(())
}

/// A `match` block that is open.
struct OpenMatch {
    number: usize,
    found: ResponseMatch,
}

impl ListBlock for OpenMatch {
    fn line(&mut self, b: &mut Build<'_>, words: &[Word], origin: &Origin) -> Result<(), Fault> {
        let texts: Vec<&[u8]> = words.iter().map(|word| &*word.bytes).collect();
        let unknown = || {
            let line = texts.join(&b' ');
            let help = "a match block has lines \"status [!] CODES\", \"header [!] NAME\", \
                        \"header NAME =|!=|~|!~ VALUE\", \"body ~|!~ REGEX\" and \
                        \"require $VARIABLE ...\"";
            Fault::new(format!("invalid line \"{}\" of match", shown(&line))).help(help)
        };
        match &texts[..] {
            [b"status", codes @ ..] if !codes.is_empty() => {
                if self.found.status.is_some() {
                    return Err(Fault::new("duplicate \"status\" in match"));
                }
                self.found.status = Some(status_test(codes).ok_or_else(unknown)?);
            }
            [b"header", b"!", name] => self.header(name, HeaderRule::Absent),
            [b"header", name] => match name.strip_prefix(b"!") {
                Some(name) => self.header(name, HeaderRule::Absent),
                None => self.header(name, HeaderRule::Present),
            },
            [b"header", name, operator, value] => {
                let test = text_test(b, operator, value)?.ok_or_else(unknown)?;
                self.header(name, HeaderRule::Value(test));
            }
            [b"body", operator @ (b"~" | b"~*" | b"!~" | b"!~*"), value] => {
                let test = text_test(b, operator, value)?.ok_or_else(unknown)?;
                self.found.bodies.push(test);
            }
            [b"require", variables @ ..] if !variables.is_empty() => {
                for (at, variable) in variables.iter().enumerate() {
                    let compiled = template::compile(&mut b.names, variable, at + 1, origin)?;
                    self.found.require.push(compiled);
                }
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn includes(&self) -> bool {
        true
    }

    fn end(self: Box<Self>, b: &mut Build<'_>) -> Result<(), Fault> {
        b.http.response_matches[self.number].block = Some(self.found);
        Ok(())
    }
}

impl OpenMatch {
    fn header(&mut self, name: &[u8], test: HeaderRule) {
        let name = name.into();
        self.found.headers.push(HeaderTest { name, test });
    }
}

/// `[!] CODE|FIRST-LAST ...`.
fn status_test(words: &[&[u8]]) -> Option<StatusTest> {
    let (negated, words) = match words {
        [b"!", rest @ ..] => (true, rest),
        _ => (false, words),
    };
    let code = |text: &[u8]| {
        let code = values::number(text)?;
        u16::try_from(code)
            .ok()
            .filter(|code| (100..600).contains(code))
    };
    let codes = words.iter().map(|word| match memchr::memchr(b'-', word) {
        None => code(word).map(|code| code..=code),
        Some(at) => {
            let (first, last) = (code(&word[..at])?, code(&word[at + 1..])?);
            (first <= last).then_some(first..=last)
        }
    });
    let codes = codes.collect::<Option<Vec<_>>>()?;
    (!codes.is_empty()).then_some(StatusTest { negated, codes })
}

/// `None` for an operator that does not exist.
fn text_test(b: &mut Build<'_>, operator: &[u8], value: &[u8]) -> Result<Option<TextTest>, Fault> {
    let (negated, operator) = match operator.strip_prefix(b"!") {
        Some(operator) => (true, operator),
        None => (false, operator),
    };
    let pattern = match operator {
        b"=" => TextPattern::Equal(value.into()),
        b"~" | b"~*" => {
            let text = std::str::from_utf8(value);
            let text =
                text.map_err(|_| Fault::new(format!("invalid value \"{}\"", shown(value))))?;
            TextPattern::Regex(b.regex(text, operator == b"~*", 0)?)
        }
        _ => return Ok(None),
    };
    Ok(Some(TextTest { negated, pattern }))
}

fn check(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let check = &mut b.upstream().check;
    if check.enabled {
        return Err(c.refuse("is duplicate"));
    }
    check.enabled = true;
    for (index, word) in c.args() {
        let equals = memchr::memchr(b'=', word).map_or(word.len(), |at| at + 1);
        let (name, value) = word.split_at(equals);
        let invalid = || c.invalid_parameter(index);
        let ms = || {
            let ms = values::number(value).ok_or_else(invalid)?;
            let time = Duration::from_millis(ms);
            let help = "milliseconds, at least 10";
            Some(time)
                .filter(|time| *time >= MIN_INTERVAL)
                .ok_or_else(|| invalid().help(help))
        };
        match name {
            b"interval=" => check.interval = Some(ms()?),
            b"timeout=" => check.timeout = Some(ms()?),
            b"fall=" => check.fall = Some(positive(value).ok_or_else(invalid)?),
            b"rise=" => check.rise = Some(positive(value).ok_or_else(invalid)?),
            b"port=" => check.port = Some(port(value).ok_or_else(invalid)?),
            b"shared" => check.shared = true,
            b"default_down=" => {
                check.default_down = Some(match value {
                    b"true" => true,
                    b"false" => false,
                    _ => return Err(invalid().help("\"true\" or \"false\"")),
                });
            }
            b"type=" => {
                let mut kinds = CheckKind::ALL.into_iter();
                let kind = kinds.find(|kind| kind.name().as_bytes() == value);
                let help = "tcp, http, ssl_hello, mysql, ajp or fastcgi";
                check.kind = Some(kind.ok_or_else(|| invalid().help(help))?);
            }
            _ => return Err(invalid()),
        }
    }
    Ok(())
}

fn expect_alive(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.upstream().check.alive)?;
    let mut classes = 0;
    for (index, word) in c.args() {
        let class = match word {
            [
                b'h',
                b't',
                b't',
                b'p',
                b'_',
                class @ b'1'..=b'5',
                b'x',
                b'x',
            ] => class - b'1',
            _ => return Err(c.invalid(index).help("http_1xx to http_5xx")),
        };
        classes |= 1 << class;
    }
    b.upstream().check.alive = Some(classes);
    Ok(())
}

fn check_status(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let format = match c.args().next() {
        None | Some((_, b"html")) => CheckFormat::Html,
        Some((_, b"csv")) => CheckFormat::Csv,
        Some((_, b"json")) => CheckFormat::Json,
        Some((index, _)) => return Err(c.invalid(index).help("html, csv or json")),
    };
    let handler = ContentHandler::Status(StatusView::Checks(format));
    b.location().answer_by(handler);
    Ok(())
}

#[cfg(test)]
mod tests;
