//! ngx_otel_module.

use super::{Arity, HSL, HTTP, Module, ONE, Row};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::lexer::Word;
use crate::lists::ListBlock;
use crate::model::{
    ExportHeader, Origin, Propagation, SpanAttribute, Template, TraceAddress, TraceEndpoint,
};
use crate::{template, values};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const TWO: Arity = Arity::Between(2, 2);

/// gRPC's port where none is written.
const DEFAULT_PORT: u16 = 443;

pub(super) const MODULE: Module = Module {
    title: "HTTP: traces",
    doc: "Spans of requests, exported to an OpenTelemetry collector by OTLP over gRPC, and W3C \
          trace context for what is requested from other servers. See \
          [tracing.md](tracing.md).",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "otel_exporter",
        HTTP,
        Arity::Between(0, 0),
        "Where spans are sent. Lines: `endpoint [http://|https://]HOST:PORT` (required; \
         `unix:PATH` works too), `trusted_certificate FILE` (PEM, relative to the configuration \
         file; by default the system's), `header NAME VALUE` (sent with each export; may be \
         repeated), `interval TIME` (at most this long between two exports; 5s), `batch_size \
         NUMBER` (spans in an export; 512), `batch_count NUMBER` (exports of a worker that may \
         wait or be under way; spans beyond them are dropped; 4).",
        exporter,
    ),
    Row::new(
        "otel_service_name",
        HTTP,
        ONE,
        "unknown_service:nginx",
        "The attribute `service.name` of the resource that spans belong to.",
        |b, c| {
            let name = c.text(1)?;
            c.once(&b.http.trace_exporter.service_name)?;
            b.http.trace_exporter.service_name = Some(name.into());
            Ok(())
        },
    ),
    Row::new(
        "otel_resource_attr",
        HTTP,
        TWO,
        "",
        "Another attribute of that resource, by name and value. Of several with one name the last \
         counts.",
        |b, c| {
            let (name, value) = (c.text(1)?, c.text(2)?);
            let resource = &mut b.http.trace_exporter.resource;
            resource.insert(name.into(), value.into());
            Ok(())
        },
    ),
    Row::new(
        "otel_trace",
        HSL,
        ONE,
        "off",
        "Whether requests are recorded as spans: where it is, or its variables give, `on` or `1`. \
         It is decided once for a request, before its location's `rewrite` directives.",
        |b, c| {
            let trace = compiled(b, c, 1)?;
            c.once(&b.location_ref().tracing.trace)?;
            b.location().tracing.trace = Some(trace);
            Ok(())
        },
    ),
    Row::new(
        "otel_trace_context",
        HSL,
        ONE,
        "ignore",
        "What becomes of `traceparent` and `tracestate`: `extract` continues the trace of the \
         client, `inject` names the span in what is requested from other servers, `propagate` does \
         both, `ignore` neither.",
        |b, c| {
            let of = |extract, inject| Propagation { extract, inject };
            let choices = [
                ("ignore", of(false, false)),
                ("extract", of(true, false)),
                ("inject", of(false, true)),
                ("propagate", of(true, true)),
            ];
            c.choice(&mut b.location().tracing.propagation, &choices)
        },
    ),
    Row::new(
        "otel_span_name",
        HSL,
        ONE,
        "",
        "The name of the span; by default that of the location.",
        |b, c| {
            let name = compiled(b, c, 1)?;
            c.once(&b.location_ref().tracing.span_name)?;
            b.location().tracing.span_name = Some(name);
            Ok(())
        },
    ),
    Row::new(
        "otel_span_attr",
        HSL,
        TWO,
        "",
        "Another attribute of the span, by name and value. Values of \
         `http.request.header.*` and `http.response.header.*` are lists of one string.",
        |b, c| {
            let attribute = SpanAttribute {
                name: c.text(1)?.into(),
                value: compiled(b, c, 2)?,
            };
            let list = &mut b.location().tracing.span_attributes;
            let before = list.take().unwrap_or_default();
            *list = Some(before.iter().cloned().chain([attribute]).collect());
            Ok(())
        },
    ),
];

fn compiled(b: &mut Build<'_>, c: &Call<'_>, index: usize) -> Result<Template, Fault> {
    template::compile(&mut b.names, c.arg(index), index, &c.origin)
}

fn exporter(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if b.http.trace_exporter.origin.is_some() {
        return Err(c.refuse("is duplicate"));
    }
    b.http.trace_exporter.origin = Some(c.origin.clone());
    b.opening = Some(Opening::List(Box::new(Open)));
    Ok(())
}

/// An `otel_exporter` block that is open.
struct Open;

/// `"NAME" directive of "otel_exporter" WHAT`.
fn refuse(word: usize, name: &[u8], what: &str) -> Fault {
    let name = shown(name);
    Fault::at(
        word,
        format!("\"{name}\" directive of \"otel_exporter\" {what}"),
    )
}

/// The value if there is none yet.
fn once<T>(slot: &mut Option<T>, name: &[u8], value: Option<T>) -> Result<(), Fault> {
    if slot.is_some() {
        return Err(refuse(0, name, "is duplicate"));
    }
    *slot = Some(value.ok_or_else(|| refuse(1, name, "invalid value"))?);
    Ok(())
}

impl ListBlock for Open {
    fn line(&mut self, b: &mut Build<'_>, words: &[Word], _: &Origin) -> Result<(), Fault> {
        let word = |index: usize| words.get(index).map_or(&b""[..], |word| &word.bytes);
        let (name, value) = (word(0), word(1));
        let count = match name {
            b"endpoint" | b"trusted_certificate" | b"interval" | b"batch_size" | b"batch_count" => {
                1
            }
            b"header" => 2,
            _ => {
                let name = shown(name);
                return Err(Fault::new(format!(
                    "unknown directive \"{name}\" in \"otel_exporter\""
                )));
            }
        };
        if words.len() != count + 1 {
            let name = shown(name);
            return Err(Fault::new(format!(
                "invalid number of arguments in \"{name}\" directive of \"otel_exporter\""
            )));
        }
        let draft = &mut b.http.trace_exporter;
        match name {
            b"endpoint" if draft.endpoint.is_some() => Err(refuse(0, name, "is duplicate")),
            b"endpoint" => {
                draft.endpoint = Some(endpoint(value)?);
                Ok(())
            }
            b"trusted_certificate" => {
                let path = Path::new(OsStr::from_bytes(value));
                draft.trusted_certificate = Some(b.options.beside_conf(path));
                Ok(())
            }
            b"interval" => once(&mut draft.interval, name, values::time(value)),
            b"batch_size" => once(&mut draft.batch_size, name, values::size(value)),
            b"batch_count" => once(&mut draft.batch_count, name, values::size(value)),
            _ => {
                draft.headers.push(header(value, word(2))?);
                Ok(())
            }
        }
    }

    fn includes(&self) -> bool {
        false
    }

    fn end(self: Box<Self>, b: &mut Build<'_>) -> Result<(), Fault> {
        let draft = &b.http.trace_exporter;
        let message = match draft.endpoint {
            None => "\"otel_exporter\" requires \"endpoint\"",
            // They would drop every span.
            Some(_) if draft.batch_size == Some(0) => {
                "\"batch_size\" directive of \"otel_exporter\" must not be 0"
            }
            Some(_) if draft.batch_count == Some(0) => {
                "\"batch_count\" directive of \"otel_exporter\" must not be 0"
            }
            Some(_) => return Ok(()),
        };
        Err(Fault::new(message))
    }
}

/// `[(http|https)://]host:port`, or what gRPC calls the address of a Unix socket.
fn endpoint(written: &[u8]) -> Result<TraceEndpoint, Fault> {
    let invalid = |help: &str| {
        let what = format!("has invalid address \"{}\"", shown(written));
        refuse(1, b"endpoint", &what).help(help)
    };
    let text = std::str::from_utf8(written).map_err(|_| invalid("it is not valid UTF-8"))?;
    let without = |scheme: &str| {
        let (head, rest) = text.split_at_checked(scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let (tls, place) = match (without("https://"), without("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => (false, text),
    };
    if place.is_empty() {
        return Err(Fault::new("\"otel_exporter\" requires \"endpoint\"").at_word(1));
    }
    let address = match place.strip_prefix("unix:") {
        Some(path) => {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(invalid("the path of a Unix socket begins with \"/\""));
            }
            TraceAddress::Unix(path.into())
        }
        None => host_and_port(place).ok_or_else(|| {
            invalid("write HOST:PORT, the address at which the collector takes OTLP over gRPC")
        })?,
    };
    Ok(TraceEndpoint {
        written: text.into(),
        tls,
        address,
    })
}

fn host_and_port(place: &str) -> Option<TraceAddress> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            match port {
                "" => (host, None),
                _ => (host, Some(port.strip_prefix(':')?)),
            }
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.is_empty() || !host.bytes().all(of_host) {
        return None;
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => {
            let number = values::number(port.as_bytes())?;
            u16::try_from(number).ok().filter(|port| *port > 0)?
        }
    };
    Some(TraceAddress::Tcp {
        host: host.into(),
        port,
    })
}

/// Fields that gRPC or HTTP/2 decide about.
const NOT_OURS: [&str; 7] = [
    "connection",
    "content-type",
    "host",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A header that gRPC allows. As in nginx, its name may be written in any case.
fn header(name: &[u8], value: &[u8]) -> Result<ExportHeader, Fault> {
    let name = name.to_ascii_lowercase();
    let of_name =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(byte);
    let is_ours = |name: &str| !NOT_OURS.contains(&name) && !name.starts_with("grpc-");
    let text = std::str::from_utf8(&name).ok();
    let name = text
        .filter(|name| !name.is_empty() && name.as_bytes().iter().all(of_name) && is_ours(name))
        .ok_or_else(|| refuse(1, b"header", "has invalid header name"))?;
    let is_printable = value.iter().all(|byte| (b' '..=b'~').contains(byte));
    let value = std::str::from_utf8(value).ok().filter(|_| is_printable);
    Ok(ExportHeader {
        name: name.into(),
        value: value
            .ok_or_else(|| refuse(2, b"header", "has invalid header value"))?
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{MemoryLoader, Options};
    use crate::model::Config;

    fn parse(http: &str) -> Result<Config, String> {
        let text = format!("events {{}} http {{ {http} }}");
        let mut files = MemoryLoader::new().with("/etc/s/nginx.conf", text);
        let options = Options::new("/etc/s/nginx.conf", "/etc/s");
        crate::parse(&options, &mut files).map_err(|failure| failure.error.message.clone())
    }

    fn refused(http: &str) -> String {
        parse(http).err().unwrap_or_else(|| panic!("taken: {http}"))
    }

    fn address(written: &str) -> Option<(bool, TraceAddress)> {
        let endpoint = endpoint(written.as_bytes()).ok()?;
        Some((endpoint.tls, endpoint.address))
    }

    #[test]
    fn endpoints_are_those_of_grpc() {
        let tcp = |host: &str, port| TraceAddress::Tcp {
            host: host.into(),
            port,
        };
        for (written, tls, expected) in [
            ("localhost:4317", false, tcp("localhost", 4317)),
            ("HTTP://a.example:1", false, tcp("a.example", 1)),
            ("https://[::1]:4317", true, tcp("::1", 4317)),
            ("https://collector", true, tcp("collector", 443)),
            (
                "unix:/run/otel",
                false,
                TraceAddress::Unix("/run/otel".into()),
            ),
            (
                "unix:///run/otel",
                false,
                TraceAddress::Unix("/run/otel".into()),
            ),
        ] {
            assert_eq!(address(written), Some((tls, expected)), "{written}");
        }
        for written in [
            "", "http://", ":1", "a:", "a:0", "a:65536", "a:1/path", "a b:1", "[::1", "[x]:1",
            "[::1]1", "user@a:1", "unix:run",
        ] {
            assert_eq!(address(written), None, "{written}");
        }
    }

    #[test]
    fn messages_are_the_module_s() {
        let exporter = |lines: &str| refused(&format!("otel_exporter {{ {lines} }}"));
        for (lines, message) in [
            ("", "\"otel_exporter\" requires \"endpoint\""),
            (
                "endpoint https://;",
                "\"otel_exporter\" requires \"endpoint\"",
            ),
            (
                "endpoint a:1; endpoint b:1;",
                "\"endpoint\" directive of \"otel_exporter\" is duplicate",
            ),
            (
                "endpoint a:1; interval x;",
                "\"interval\" directive of \"otel_exporter\" invalid value",
            ),
            (
                "endpoint a:1; batch_size -1;",
                "\"batch_size\" directive of \"otel_exporter\" invalid value",
            ),
            (
                "endpoint a:1; header a;",
                "invalid number of arguments in \"header\" directive of \"otel_exporter\"",
            ),
            (
                "endpoint a:1; header a:b c;",
                "\"header\" directive of \"otel_exporter\" has invalid header name",
            ),
            (
                "endpoint a:1; header TE c;",
                "\"header\" directive of \"otel_exporter\" has invalid header name",
            ),
            (
                "endpoint a:1; header a \"b\u{e9}\";",
                "\"header\" directive of \"otel_exporter\" has invalid header value",
            ),
            (
                "endpoint a:1; include other;",
                "unknown directive \"include\" in \"otel_exporter\"",
            ),
            (
                "endpoint a:1; batch_count 0;",
                "\"batch_count\" directive of \"otel_exporter\" must not be 0",
            ),
        ] {
            assert_eq!(exporter(lines), message, "{lines}");
        }
        let twice = "otel_exporter { endpoint a:1; } ".repeat(2);
        assert_eq!(refused(&twice), "\"otel_exporter\" directive is duplicate");
        assert_eq!(
            refused("otel_trace_context both;"),
            "invalid value \"both\""
        );
        assert_eq!(
            refused("otel_trace on; otel_trace off;"),
            "\"otel_trace\" directive is duplicate"
        );
        assert_eq!(
            refused("server { location / { otel_trace $otel_parent_sampled; } }"),
            "\"otel_exporter\" block is missing"
        );
    }

    #[test]
    fn spans_are_described_by_the_innermost_level() {
        let config = parse(
            "otel_exporter { header Api-Key x; endpoint a:1; } otel_resource_attr a 1; \
             otel_resource_attr a 2; otel_trace on; otel_span_attr x $uri; otel_span_attr y 1; \
             server { location /plain { } \
             location /own { otel_span_attr z 1; otel_trace_context propagate; } }",
        )
        .expect("it is right");
        let http = config.http.expect("there is a block");
        let exporter = http.trace_exporter.as_deref().expect("there is one");
        assert_eq!(
            exporter.resource,
            [
                ("a".into(), "2".into()),
                ("service.name".into(), "unknown_service:nginx".into())
            ]
        );
        assert_eq!(&*exporter.headers[0].name, "api-key");
        assert_eq!(
            format!("{:?}", exporter.headers[0]),
            "ExportHeader(api-key: redacted)"
        );
        let of = |index: usize| {
            let location = &http.servers[0].locations.prefix[index];
            let tracing = location.conf.tracing.clone().expect("it is traced");
            let names = tracing.span_attributes.iter();
            let names: Vec<String> = names.map(|attribute| attribute.name.to_string()).collect();
            (names.join(" "), tracing.propagation.extract)
        };
        assert_eq!(of(0), ("z".to_owned(), true));
        assert_eq!(of(1), ("x y".to_owned(), false));
    }

    #[test]
    fn a_location_without_traces_has_nothing_to_look_at() {
        let config = parse("otel_span_name x; server { }").expect("it is right");
        let http = config.http.expect("there is a block");
        assert!(http.servers[0].conf.tracing.is_none());
        assert!(http.trace_exporter.is_none());
    }
}
