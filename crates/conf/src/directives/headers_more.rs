//! The headers-more module.

use super::{Arity, HSL, LOCATION_IF, Module, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{FieldChange, RequestChange, ResponseChange};
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "HTTP: header fields of requests and responses (headers-more)",
    doc: "As the headers-more module: fields of requests and responses are set, replaced or \
          removed, those of the server itself included. A change is written `Name: value`; \
          without a value the field is removed. Values may contain variables, names may not. \
          Changes of outer levels come first, then those of the current level, in their order. \
          What frames a message cannot be set: `Content-Length`, `Transfer-Encoding` and \
          `Connection` of a response, `Content-Length` and `Transfer-Encoding` of a request, as \
          the other side would no longer know where the message ends.",
    rows: &[
        Row::new(
            "more_set_headers",
            HSL | LOCATION_IF,
            Arity::AtLeast(1),
            "",
            "Sets response fields, whatever the status: they replace fields of the same name, and \
             are changed before `expires` and `add_header` add theirs. With `-s '404 500'` only \
             for these statuses, with `-t 'text/html text/plain'` only for these types (without \
             parameters), with `-a` added to fields of the same name instead of replacing them.",
            |b, c| response(b, c, Does::Set),
        )
        .own(),
        Row::new(
            "more_clear_headers",
            HSL | LOCATION_IF,
            Arity::AtLeast(1),
            "",
            "Removes response fields: `Name`, or `X-*` for all whose names begin like that, \
             unless `Content-Type`, `Content-Length`, `Server`, `Date` or the `Last-Modified` of a \
             file is meant. Without `Content-Length`, the body is sent in chunks. `-s` and `-t` \
             as with `more_set_headers`.",
            |b, c| response(b, c, Does::Clear),
        )
        .own(),
        Row::new(
            "more_set_input_headers",
            HSL | LOCATION_IF,
            Arity::AtLeast(1),
            "",
            "Sets request fields at the end of the rewrite phase: access rules, variables such as \
             `$http_NAME` and `$host`, and what is passed to other servers see the new values. \
             With `-t 'text/plain'` only if the request's `Content-Type` is one of these, with \
             `-r` only if the request has a field of that name. `Host` does not choose another \
             server; `Connection: close` ends the connection.",
            |b, c| request(b, c, Does::Set),
        )
        .own(),
        Row::new(
            "more_clear_input_headers",
            HSL | LOCATION_IF,
            Arity::AtLeast(1),
            "",
            "Removes request fields at the same time: `Name`, or `X-*` for all whose names begin \
             like that, except `Content-Length` and `Transfer-Encoding`. `-t` as with \
             `more_set_input_headers`.",
            |b, c| request(b, c, Does::Clear),
        )
        .own(),
    ],
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Set,
    Clear,
}

/// The arguments of a directive. All share these options, and each refuses those it has not.
#[derive(Default)]
struct Arguments {
    statuses: Vec<u16>,
    types: Vec<Box<[u8]>>,
    appends: bool,
    only_existing: bool,
    fields: Vec<(usize, FieldChange)>,
}

fn response(b: &mut Build<'_>, c: &Call<'_>, does: Does) -> Result<(), Fault> {
    let options = match does {
        Does::Set => "sta",
        Does::Clear => "st",
    };
    let arguments = Arguments::read(b, c, does, options)?;
    for (word, field) in &arguments.fields {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if !field.value.is_empty() && FRAMING.iter().any(|name| is(name)) {
            return Err(c.refuse_arg(*word, "cannot set what frames a response").help(
                "the server writes \"Content-Length\", \"Transfer-Encoding\" and \"Connection\" as \
                 the body and the connection need them; \"Content-Length\" can be cleared",
            ));
        }
        if arguments.appends && BUILT_IN.iter().any(|name| is(name)) {
            return Err(c.refuse_arg(*word, "cannot append built-in headers"));
        }
    }
    b.location().response_changes.push(ResponseChange {
        statuses: arguments.statuses,
        types: arguments.types,
        appends: arguments.appends,
        fields: arguments
            .fields
            .into_iter()
            .map(|(_, field)| field)
            .collect(),
    });
    Ok(())
}

fn request(b: &mut Build<'_>, c: &Call<'_>, does: Does) -> Result<(), Fault> {
    let arguments = Arguments::read(b, c, does, "tr")?;
    for (word, field) in &arguments.fields {
        let is_framing = |name: &&str| field.name.eq_ignore_ascii_case(name);
        // What frames the connection's requests is not `Connection`, which only ends it.
        if !field.is_prefix && FRAMING[..2].iter().any(is_framing) {
            let fault = c.refuse_arg(*word, "cannot change what frames a request");
            return Err(fault.help(
                "the body that has arrived would no longer fit its length; to pass on a request \
                 without its body, use \"proxy_pass_request_body off\"",
            ));
        }
    }
    b.location().request_changes.push(RequestChange {
        types: arguments.types,
        only_existing: arguments.only_existing,
        fields: arguments
            .fields
            .into_iter()
            .map(|(_, field)| field)
            .collect(),
    });
    Ok(())
}

/// What frames messages, and the connection.
const FRAMING: [&str; 3] = ["Content-Length", "Transfer-Encoding", "Connection"];

/// The fields of which the module makes one, so that `-a` is refused.
const BUILT_IN: &[&str] = &[
    "Server",
    "Date",
    "Content-Encoding",
    "Location",
    "Refresh",
    "Last-Modified",
    "Content-Range",
    "Accept-Ranges",
    "WWW-Authenticate",
    "Expires",
    "E-Tag",
    "Content-Length",
    "Content-Type",
    "Cache-Control",
];

impl Arguments {
    fn read(
        b: &mut Build<'_>,
        c: &Call<'_>,
        does: Does,
        options: &str,
    ) -> Result<Arguments, Fault> {
        let mut read = Arguments::default();
        let mut words = c.args();
        while let Some((word, text)) = words.next() {
            let [b'-', option @ ..] = text else {
                if !text.is_empty() {
                    read.fields.push((word, field(b, c, word, does)?));
                }
                continue;
            };
            let option = match option {
                [letter] if options.contains(char::from(*letter)) => *letter,
                _ => {
                    let what = format!("has an invalid option name: \"{}\"", c.shown(word));
                    return Err(c.refuse_arg(word, &what));
                }
            };
            match option {
                b'a' => read.appends = true,
                b'r' => read.only_existing = true,
                _ => {
                    let Some((word, list)) = words.next() else {
                        let what = format!("needs an argument after \"{}\"", c.shown(word));
                        return Err(c.refuse_arg(word, &what));
                    };
                    match option {
                        b's' => read.statuses.extend(statuses(c, word, list)?),
                        _ => read.types.extend(types(list)),
                    }
                }
            }
        }
        Ok(read)
    }
}

fn statuses(c: &Call<'_>, word: usize, list: &[u8]) -> Result<Vec<u16>, Fault> {
    let words = list.split(u8::is_ascii_whitespace);
    let status = |text: &[u8]| {
        let number = std::str::from_utf8(text).ok()?.parse().ok()?;
        text.iter().all(u8::is_ascii_digit).then_some(number)
    };
    words
        .filter(|text| !text.is_empty())
        .map(|text| status(text).ok_or_else(|| c.invalid(word)))
        .collect()
}

fn types(list: &[u8]) -> impl Iterator<Item = Box<[u8]>> + '_ {
    list.split(|byte| byte.is_ascii_whitespace() || *byte == b';')
        .filter(|name| !name.is_empty())
        .map(Box::from)
}

/// One field: `Name: value`, `Name:` or `Name`. As in the module, white space does for the colon.
fn field(b: &mut Build<'_>, c: &Call<'_>, word: usize, does: Does) -> Result<FieldChange, Fault> {
    let text = c.arg(word).trim_ascii_start();
    let ends_name = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    let name_end = text.iter().position(ends_name).unwrap_or(text.len());
    let (name, rest) = text.split_at(name_end);
    let value_start = rest.iter().position(|byte| !ends_name(byte));
    let value = match (does, value_start) {
        (Does::Set, Some(start)) => &rest[start..],
        _ => b"",
    };
    let (name, is_prefix) = match name {
        [prefix @ .., b'*'] => (prefix, true),
        name => (name, false),
    };
    let name = std::str::from_utf8(name).ok().filter(|name| is_token(name));
    let Some(name) = name else {
        let what = format!("has an invalid header name: \"{}\"", c.shown(word));
        return Err(c.refuse_arg(word, &what));
    };
    if is_prefix && !value.is_empty() {
        return Err(c.refuse_arg(word, "cannot set all headers whose names begin alike"));
    }
    Ok(FieldChange {
        name: name.into(),
        is_prefix,
        value: template::compile(&mut b.names, value, word, &c.origin)?,
    })
}

/// RFC 9110 section 5.6.2.
fn is_token(name: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_tchar)
}
